/* `bulkhead device explain`: why a pod or a claim of the live cluster gets no devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "cli/device_cmd.h"
#include "cli/explain.h"
#include "data/json.h"
#include "dra/node_selector.h"
#include "net/loop.h"
#include "scheduler/ext_claim.h"
#include "scheduler/scheduler.h"

/* Nodes that are out of the question whatever their devices. */
struct excluded {
    struct bh_str why, *nodes;
    size_t n, cap;
};

/* A claim of the pod. */
struct use {
    struct bh_str label; /* "ns/name" */
    const struct bh_resource_v1_resource_claim *c;
};

struct explain {
    const struct device_opts *o;
    struct device_api *api;
    struct bh_obj *subject; /* pod or claim */
    const struct bh_core_v1_pod *pod;
    struct use *uses;
    size_t uses_n, uses_cap;
    struct excluded *out;
    size_t out_n, out_cap;
    struct sched_ext_resource *extended; /* that a claim is to be made for */
    size_t extended_n;
    struct cli_explain e;
};

/* ---- the claims ---- */

static void use_add(struct explain *x, struct bh_str label,
                    const struct bh_resource_v1_resource_claim *c)
{
    bh_arena_grow(x->api->a, &x->uses, &x->uses_cap, x->uses_n + 1, sizeof(*x->uses));
    x->uses[x->uses_n++] = (struct use){label, c};
}

static const struct bh_resource_v1_resource_claim *claim_find(const struct explain *x,
                                                              struct bh_str ns, struct bh_str name)
{
    for (size_t i = 0; i < x->api->claims.n; i++)
        if (bh_str_eq(x->api->claims.p[i]->ns, ns) && bh_str_eq(x->api->claims.p[i]->name, name))
            return bh_obj_struct(x->api->claims.p[i]);
    return NULL;
}

/* A claim as the controller will make it from the template. */
static int claim_from_template(struct explain *x, const struct bh_core_v1_pod_resource_claim *pc,
                               struct bh_err *err)
{
    struct bh_arena *a = x->api->a;
    struct bh_resource_v1_resource_claim *c = bh_new(a, struct bh_resource_v1_resource_claim);
    const struct bh_resource_v1_resource_claim_template *t;
    int r = device_api_get(x->api, &bh_resource_v1_resource_claim_template_kind, x->subject->ns,
                           pc->resource_claim_template_name, err);

    if (r < 0)
        return bh_err_wrap(err, "the pod's claim %.*s has not been made from its template",
                           BH_SF(pc->name));
    t = bh_obj_struct(x->api->got);
    bh_msg_copy(&bh_resource_v1_resource_claim_spec_type, &c->spec, &t->spec.spec, a);
    c->metadata.namespace = x->subject->ns;
    c->metadata.name = bh_str_fmt(a, "%.*s-%.*s", BH_SF(x->subject->name), BH_SF(pc->name));
    c->metadata.uid = c->metadata.name;
    use_add(x,
            bh_str_fmt(a, "%.*s/%.*s (to be made from its template)", BH_SF(x->subject->ns),
                       BH_SF(c->metadata.name)),
            c);
    return 0;
}

/* The name of the claim that pod.spec.resourceClaims[i] stands for; empty: none yet. */
static struct bh_str claim_name(const struct bh_core_v1_pod *p, size_t i)
{
    const struct bh_core_v1_pod_resource_claim *pc = &p->spec.resource_claims.p[i];

    if (pc->has_resource_claim_name)
        return pc->resource_claim_name;
    for (size_t k = 0; k < p->status.resource_claim_statuses.n; k++)
        if (bh_str_eq(p->status.resource_claim_statuses.p[k].name, pc->name))
            return p->status.resource_claim_statuses.p[k].resource_claim_name;
    return (struct bh_str){NULL, 0};
}

/* Extended resources that device classes serve, as far as no claim was made for them. */
static void claim_for_extended(struct explain *x)
{
    const struct bh_core_v1_pod_spec *s = &x->pod->spec;
    struct bh_arena *a = x->api->a;
    struct bh_resource_v1_resource_claim *c = bh_new(a, struct bh_resource_v1_resource_claim);
    struct bh_core_v1_container_extended_resource_request_vec mappings;
    struct sched_ext_resource *r = NULL;
    size_t n = 0, cap = 0;

    for (size_t i = 0; i < s->init_containers.n + s->containers.n; i++) {
        const struct bh_core_v1_container *k = i < s->init_containers.n
                                                   ? &s->init_containers.p[i]
                                                   : &s->containers.p[i - s->init_containers.n];

        for (size_t j = 0; j < k->resources.requests.n; j++) {
            struct bh_str name = k->resources.requests.p[j].key;
            struct bh_str class = bh_dra_class_of_resource(x->e.m, name);
            bool again = false;

            for (size_t y = 0; y < n; y++)
                again = again || bh_str_eq(r[y].name, name);
            if (!class.n || again)
                continue;
            bh_arena_grow(a, &r, &cap, n + 1, sizeof(*r));
            r[n++] = (struct sched_ext_resource){name, bh_str_dup(a, class)};
        }
    }
    if (n == 0)
        return;
    sched_ext_requests(a, s, r, n, &c->spec.devices.requests, &mappings);
    c->metadata.namespace = x->subject->ns;
    c->metadata.name = bh_str_fmt(a, "%.*s-extended-resources", BH_SF(x->subject->name));
    c->metadata.uid = c->metadata.name;
    use_add(x,
            bh_str_fmt(a, "%.*s/%.*s (to be made for extended resources)", BH_SF(x->subject->ns),
                       BH_SF(c->metadata.name)),
            c);
    x->extended = r;
    x->extended_n = n;
}

/* A device plugin of the node serves one of them: then no claim is made there. */
static struct bh_str plugin_serves(const struct explain *x, const struct bh_obj *o)
{
    const struct bh_core_v1_node *n = bh_obj_struct(o);

    for (size_t i = 0; i < x->extended_n; i++) {
        const struct bh_str *q = bh_str_map_get(&n->status.allocatable, x->extended[i].name);

        if (q && !bh_str_eqc(*q, "0"))
            return bh_str_fmt(x->api->a, "a device plugin of the node serves %.*s",
                              BH_SF(x->extended[i].name));
    }
    return (struct bh_str){NULL, 0};
}

static int claims_of_pod(struct explain *x, struct bh_err *err)
{
    const struct bh_core_v1_pod_extended_resource_claim_status *ext =
        x->pod->status.extended_resource_claim_status;

    for (size_t i = 0; i < x->pod->spec.resource_claims.n + (ext != NULL); i++) {
        bool last = i == x->pod->spec.resource_claims.n;
        struct bh_str name = last ? ext->resource_claim_name : claim_name(x->pod, i);
        const struct bh_resource_v1_resource_claim *c =
            name.n ? claim_find(x, x->subject->ns, name) : NULL;
        int r = 0;

        if (c)
            use_add(x, bh_str_fmt(x->api->a, "%.*s/%.*s", BH_SF(x->subject->ns), BH_SF(name)), c);
        else if (name.n)
            r = bh_err_set(err, BH_E_NOT_FOUND, "the pod's claim %.*s/%.*s does not exist",
                           BH_SF(x->subject->ns), BH_SF(name));
        else if (!last && x->pod->spec.resource_claims.p[i].has_resource_claim_template_name)
            r = claim_from_template(x, &x->pod->spec.resource_claims.p[i], err);
        if (r < 0)
            return r;
    }
    if (!ext)
        claim_for_extended(x);
    return 0;
}

/* ---- the nodes ---- */

static bool pod_tolerates(const struct bh_core_v1_pod *p, const struct bh_core_v1_taint *t)
{
    for (size_t i = 0; i < p->spec.tolerations.n; i++) {
        const struct bh_core_v1_toleration *k = &p->spec.tolerations.p[i];

        if ((k->effect.n && !bh_str_eq(k->effect, t->effect)) ||
            (k->key.n && !bh_str_eq(k->key, t->key)))
            continue;
        if (bh_str_eqc(k->operator, "Exists") || bh_str_eq(k->value, t->value))
            return true;
    }
    return false;
}

static struct bh_str taint_text(struct bh_arena *a, const struct bh_core_v1_taint *t)
{
    return bh_str_fmt(a, "the node has the taint %.*s%s%.*s:%.*s", BH_SF(t->key),
                      t->value.n ? "=" : "", BH_SF(t->value), BH_SF(t->effect));
}

/* Why the pod cannot run on the node, whatever its devices; empty: it can, as far as this command
 * looks. */
static struct bh_str pod_excludes(const struct explain *x, const struct bh_obj *o)
{
    const struct bh_core_v1_node *n = bh_obj_struct(o);
    const struct bh_core_v1_pod_spec *s = &x->pod->spec;
    const struct bh_core_v1_node_selector *sel =
        s->affinity && s->affinity->node_affinity
            ? s->affinity->node_affinity->required_during_scheduling_ignored_during_execution
            : NULL;
    struct bh_err err;

    if (s->node_name.n && !bh_str_eq(s->node_name, o->name))
        return bh_str_fmt(x->api->a, "the pod is bound to node %.*s", BH_SF(s->node_name));
    for (size_t i = 0; i < s->node_selector.n; i++) {
        const struct bh_str *v = bh_str_map_get(&o->labels, s->node_selector.p[i].key);

        if (!v || !bh_str_eq(*v, s->node_selector.p[i].value))
            return bh_str_fmt(x->api->a, "the pod's node selector wants %.*s=%.*s",
                              BH_SF(s->node_selector.p[i].key), BH_SF(s->node_selector.p[i].value));
    }
    if (sel && bh_node_selector_match(sel, o->name, &o->labels, &err) != 1)
        return BH_S("the pod's node affinity does not select it");
    for (size_t i = 0; !s->node_name.n && i < n->spec.taints.n; i++)
        if (!bh_str_eqc(n->spec.taints.p[i].effect, "PreferNoSchedule") &&
            !pod_tolerates(x->pod, &n->spec.taints.p[i]))
            return taint_text(x->api->a, &n->spec.taints.p[i]);
    return (struct bh_str){NULL, 0};
}

/* A claim that has its devices already can be used only where they are. */
static struct bh_str claims_exclude(const struct explain *x, const struct bh_obj *o)
{
    struct bh_err err;

    for (size_t i = 0; i < x->uses_n; i++) {
        const struct bh_resource_v1_allocation_result *r = x->uses[i].c->status.allocation;

        if (r && r->node_selector &&
            bh_node_selector_match(r->node_selector, o->name, &o->labels, &err) != 1)
            return bh_str_fmt(x->api->a, "the devices of claim %.*s are on another node",
                              BH_SF(x->uses[i].label));
    }
    return (struct bh_str){NULL, 0};
}

/* ---- the scheduler's own filters ---- */

#define WATCH_MS 10000 /* so long may it take until the whole cluster is known */

struct waiting {
    struct bh_scheduler *s;
    struct bh_loop *loop;
    struct bh_timer again;
    int64_t until_ns;
};

static void look(void *arg)
{
    struct waiting *w = arg;
    struct bh_scheduler_stats st;

    bh_scheduler_stats(w->s, &st, NULL);
    if (st.ready || bh_loop_mono_ns(w->loop) >= w->until_ns)
        bh_loop_stop(w->loop);
    else
        bh_timer_start(&w->again, 5);
}

/* What a scheduler that only looks says of the pod: node to reason, for nodes that it refuses
 * because of anything but devices. One that may not read all it needs says nothing. */
static void ask_scheduler(struct explain *x, struct bh_map *ret)
{
    struct bh_scheduler_opts o = {.observe = true};
    struct waiting w = {.loop = x->api->loop};
    struct bh_scheduler_refusal *v = NULL;
    struct bh_err err;
    size_t n = 0;

    w.s = bh_scheduler_new(x->api->client, &o, &err);
    if (!w.s)
        return;
    w.until_ns = bh_loop_mono_ns(w.loop) + (int64_t)WATCH_MS * 1000000;
    bh_timer_init(&w.again, w.loop, look, &w);
    bh_timer_start(&w.again, 1);
    bh_loop_run(w.loop);
    bh_timer_stop(&w.again);
    (void)bh_scheduler_judge(w.s, x->subject->uid, x->api->a, &v, &n);
    for (size_t i = 0; i < n; i++)
        (void)bh_map_put(ret, v[i].node, &v[i].why);
    (void)bh_scheduler_free(w.s);
}

static void exclude(struct explain *x, struct bh_str node, struct bh_str why)
{
    struct excluded *e = NULL;

    for (size_t i = 0; i < x->out_n && !e; i++)
        if (bh_str_eq(x->out[i].why, why))
            e = &x->out[i];
    if (!e) {
        bh_arena_grow(x->api->a, &x->out, &x->out_cap, x->out_n + 1, sizeof(*x->out));
        e = &x->out[x->out_n++];
        *e = (struct excluded){.why = why};
    }
    bh_arena_grow(x->api->a, &e->nodes, &e->cap, e->n + 1, sizeof(*e->nodes));
    e->nodes[e->n++] = node;
}

static int by_name(const void *a, const void *b)
{
    return device_name_cmp((*(struct bh_obj *const *)a)->name, (*(struct bh_obj *const *)b)->name);
}

static int nodes_pick(struct explain *x, struct bh_err *err)
{
    struct bh_str *nodes = bh_new_n(x->api->a, struct bh_str, x->api->nodes.n);
    struct bh_map refused = {0};
    size_t n = 0;

    if (x->pod && !x->pod->spec.node_name.n)
        ask_scheduler(x, &refused);
    if (x->api->nodes.n > 1)
        qsort(x->api->nodes.p, x->api->nodes.n, sizeof(*x->api->nodes.p), by_name);
    for (size_t i = 0; i < x->api->nodes.n; i++) {
        const struct bh_obj *o = x->api->nodes.p[i];
        struct bh_str why = {NULL, 0};

        if (x->o->pool.n && !bh_str_eq(o->name, x->o->pool))
            continue;
        if (x->pod)
            why = pod_excludes(x, o);
        if (!why.n)
            why = plugin_serves(x, o);
        if (!why.n)
            why = claims_exclude(x, o);
        if (!why.n && bh_map_get(&refused, o->name))
            why = bh_str_fmt(x->api->a, "the scheduler: %.*s",
                             BH_SF(*(const struct bh_str *)bh_map_get(&refused, o->name)));
        if (why.n)
            exclude(x, o->name, why);
        else
            nodes[n++] = o->name;
    }
    bh_map_done(&refused);
    x->e.nodes = nodes;
    x->e.nodes_n = n;
    if (n + x->out_n == 0)
        return bh_err_set(err, BH_E_NOT_FOUND, x->o->pool.n ? "no node %.*s" : "no nodes%.*s",
                          BH_SF(x->o->pool));
    return 0;
}

/* ---- reading ---- */

/* "pod NAME", "pod/NAME", the same with "claim", and kubectl's other names for both. */
static bool subject_named(const struct device_opts *o, bool *ret_pod, struct bh_str *ret_name)
{
    static const struct {
        const char *word;
        bool pod;
    } words[] = {{"pod", true},    {"pods", true},           {"po", true},
                 {"claim", false}, {"resourceclaim", false}, {"resourceclaims", false}};
    struct bh_str name = o->args_n ? bh_s(o->args[0]) : (struct bh_str){NULL, 0}, kind = name;

    if (o->args_n == 1)
        kind = bh_str_cut(&name, '/');
    else if (o->args_n == 2)
        name = bh_s(o->args[1]);
    else
        return false;
    for (size_t i = 0; i < BH_COUNT(words); i++)
        if (bh_str_eqc(kind, words[i].word)) {
            *ret_pod = words[i].pod;
            *ret_name = name;
            return name.n > 0;
        }
    return false;
}

static int subject_read(struct explain *x, struct bh_err *err)
{
    struct bh_str ns = bh_s(x->o->ns), name;
    bool pod = false;
    int r;

    (void)subject_named(x->o, &pod, &name); /* it was checked */

    if (bh_str_chr(name, '/', 0) >= 0)
        ns = bh_str_cut(&name, '/');
    r = device_api_get(x->api, pod ? &bh_core_v1_pod_kind : &bh_resource_v1_resource_claim_kind, ns,
                       name, err);
    if (r < 0)
        return r;
    x->subject = bh_obj_ref(x->api->got);
    if (!pod) {
        use_add(x, bh_str_fmt(x->api->a, "%.*s/%.*s", BH_SF(ns), BH_SF(name)),
                bh_obj_struct(x->subject));
        return 0;
    }
    x->pod = bh_obj_struct(x->subject);
    return claims_of_pod(x, err);
}

static void model_fill(struct explain *x)
{
    struct device_api *api = x->api;

    for (size_t i = 0; i < api->nodes.n; i++)
        bh_dra_node_put(x->e.m, api->nodes.p[i]->name, &api->nodes.p[i]->labels);
    for (size_t i = 0; i < api->classes.n; i++)
        bh_dra_class_put(x->e.m, api->classes.p[i]);
    for (size_t i = 0; i < api->slices.n; i++)
        bh_dra_slice_put(x->e.m, api->slices.p[i]);
    for (size_t i = 0; i < api->rules.n; i++)
        bh_dra_rule_put(x->e.m, api->rules.p[i]);
    for (size_t i = 0; i < api->claims.n; i++)
        bh_dra_claim_put(x->e.m, api->claims.p[i]);
}

static int read_all(struct explain *x, struct bh_err *err)
{
    int r = device_api_read(x->api, err);

    if (r == 0)
        r = device_api_list(x->api, &bh_core_v1_node_kind, &x->api->nodes, err);
    if (r == 0)
        r = device_api_list(x->api, &bh_resource_v1_device_class_kind, &x->api->classes, err);
    if (r < 0)
        return r;
    model_fill(x);
    r = subject_read(x, err);
    return r < 0 ? r : nodes_pick(x, err);
}

/* ---- telling ---- */

struct answer {
    const struct bh_resource_v1_resource_claim **open; /* claims without devices */
    size_t open_n;
    bool fits;
    struct bh_str node, error;
    struct cli_group *groups;
    size_t groups_n;
    struct cli_change *changes;
    size_t changes_n;
};

static struct bh_str device_text(struct bh_arena *a,
                                 const struct bh_resource_v1_device_request_allocation_result *r)
{
    return bh_str_fmt(a, "%.*s/%.*s/%.*s", BH_SF(r->driver), BH_SF(r->pool), BH_SF(r->device));
}

/* What the scheduler said last; empty: nothing, or that all is well. */
static struct bh_str scheduler_says(const struct explain *x)
{
    for (size_t i = 0; x->pod && i < x->pod->status.conditions.n; i++) {
        const struct bh_core_v1_pod_condition *c = &x->pod->status.conditions.p[i];

        if (bh_str_eqc(c->type, "PodScheduled") && !bh_str_eqc(c->status, "True"))
            return c->message;
    }
    return (struct bh_str){NULL, 0};
}

static void claims_print(const struct explain *x, struct bh_buf *b)
{
    for (size_t i = 0; i < x->uses_n; i++) {
        const struct bh_resource_v1_allocation_result *r = x->uses[i].c->status.allocation;

        bh_buf_addf(b, "claim %.*s: %s", BH_SF(x->uses[i].label), r ? "has" : "has no devices");
        for (size_t k = 0; r && k < r->devices.results.n; k++)
            bh_buf_addf(b, "%s %.*s", k ? "," : "",
                        BH_SF(device_text(x->api->a, &r->devices.results.p[k])));
        bh_buf_addz(b, r && r->devices.results.n == 0 ? " no devices, and wants none\n" : "\n");
    }
}

static void excluded_print(const struct explain *x, struct bh_buf *b)
{
    for (size_t i = 0; i < x->out_n; i++) {
        bh_buf_addf(b, "not considered: %zu node%s (%.*s%s): %.*s\n", x->out[i].n,
                    x->out[i].n == 1 ? "" : "s", BH_SF(x->out[i].nodes[0]),
                    x->out[i].n == 1 ? "" : ", …", BH_SF(x->out[i].why));
    }
}

static void tell_text(const struct explain *x, const struct answer *an, struct bh_buf *b)
{
    struct bh_str said = scheduler_says(x);

    if (x->pod && x->uses_n == 0)
        bh_buf_addf(b, "pod %.*s/%.*s uses no claims\n", BH_SF(x->subject->ns),
                    BH_SF(x->subject->name));
    claims_print(x, b);
    if (an->open_n == 0)
        return;
    excluded_print(x, b);
    if (an->error.n)
        bh_buf_addf(b, "refused: %.*s\n", BH_SF(an->error));
    if (an->fits) {
        bh_buf_addf(b, "the devices are there: it fits on node %.*s\n", BH_SF(an->node));
    } else {
        cli_explain_print(&x->e, an->groups, an->groups_n, b);
        if (x->e.nodes_n)
            cli_changes_print(an->changes, an->changes_n, b);
    }
    if (said.n)
        bh_buf_addf(b, "the scheduler said: %.*s\n", BH_SF(said));
}

static struct bh_jv uses_json(const struct explain *x)
{
    struct bh_arena *a = x->api->a;
    struct bh_jv all = BH_JV_ARR;

    for (size_t i = 0; i < x->uses_n; i++) {
        const struct bh_resource_v1_allocation_result *r = x->uses[i].c->status.allocation;
        const struct bh_meta_v1_object_meta *m = &x->uses[i].c->metadata;
        struct bh_jv o = BH_JV_OBJ, devices = BH_JV_ARR;

        bh_jv_setc(a, &o, "name",
                   bh_jv_str(bh_str_fmt(a, "%.*s/%.*s", BH_SF(m->namespace), BH_SF(m->name))));
        bh_jv_setc(a, &o, "allocated", bh_jv_bool(r != NULL));
        for (size_t k = 0; r && k < r->devices.results.n; k++)
            bh_jv_append(a, &devices, bh_jv_str(device_text(a, &r->devices.results.p[k])));
        bh_jv_setc(a, &o, "devices", devices);
        bh_jv_append(a, &all, o);
    }
    return all;
}

static void tell_json(const struct explain *x, const struct answer *an, struct bh_buf *b)
{
    struct bh_arena *a = x->api->a;
    struct bh_jv o = BH_JV_OBJ, out = BH_JV_ARR;
    struct bh_str said = scheduler_says(x);

    bh_jv_setc(
        a, &o, x->pod ? "pod" : "claim",
        bh_jv_str(bh_str_fmt(a, "%.*s/%.*s", BH_SF(x->subject->ns), BH_SF(x->subject->name))));
    bh_jv_setc(a, &o, "fits", bh_jv_bool(an->open_n == 0 || an->fits));
    if (an->node.n)
        bh_jv_setc(a, &o, "node", bh_jv_str(an->node));
    if (an->error.n)
        bh_jv_setc(a, &o, "error", bh_jv_str(an->error));
    bh_jv_setc(a, &o, "claims", uses_json(x));
    for (size_t i = 0; i < x->out_n; i++) {
        struct bh_jv e = BH_JV_OBJ, nodes = BH_JV_ARR;

        bh_jv_setc(a, &e, "reason", bh_jv_str(x->out[i].why));
        for (size_t k = 0; k < x->out[i].n; k++)
            bh_jv_append(a, &nodes, bh_jv_str(x->out[i].nodes[k]));
        bh_jv_setc(a, &e, "nodes", nodes);
        bh_jv_append(a, &out, e);
    }
    bh_jv_setc(a, &o, "excluded", out);
    bh_jv_setc(a, &o, "nodes", cli_explain_json(&x->e, an->groups, an->groups_n));
    bh_jv_setc(a, &o, "changes", cli_changes_json(&x->e, an->changes, an->changes_n));
    if (said.n)
        bh_jv_setc(a, &o, "scheduler", bh_jv_str(said));
    bh_jv_write(b, &o, 0);
    bh_buf_addc(b, '\n');
}

static int answer(struct explain *x, bool json)
{
    struct answer an = {0};
    BH_AUTO_BUF b = {0};

    an.open = bh_new_n(x->api->a, const struct bh_resource_v1_resource_claim *, x->uses_n);
    for (size_t i = 0; i < x->uses_n; i++)
        if (!x->uses[i].c->status.allocation)
            an.open[an.open_n++] = x->uses[i].c;
    x->e.claims = an.open;
    x->e.n = an.open_n;
    if (an.open_n)
        an.fits = cli_explain_fits(&x->e, &an.node, &an.error);
    if (an.open_n && !an.fits) {
        an.groups_n = cli_explain_groups(&x->e, &an.groups);
        an.changes_n = cli_explain_changes(&x->e, an.groups, an.groups_n, &an.changes);
    }
    if (json)
        tell_json(x, &an, &b);
    else
        tell_text(x, &an, &b);
    (void)fwrite(b.p, 1, b.n, stdout);
    return an.open_n == 0 || an.fits ? 0 : 1;
}

int device_explain(const struct device_opts *o, struct bh_err *err)
{
    struct bh_dra_features f = bh_dra_features_default();
    bool json = o->output && strcmp(o->output, "json") == 0;
    struct device_api api;
    struct explain x = {.o = o, .api = &api};
    struct bh_str name;
    bool pod;
    int r;

    if (!subject_named(o, &pod, &name))
        return bh_err_set(err, BH_E_BAD_REQUEST,
                          "explain takes `pod NAME` or `claim NAME` (see `bulkhead device explain "
                          "--help`)");
    if (o->output && !json && strcmp(o->output, "text") != 0)
        return bh_err_set(err, BH_E_BAD_REQUEST, "-o must be text or json, not '%s'", o->output);
    r = device_api_open(&api, o, err);
    if (r < 0)
        return r;
    f.taint_rules = f.list_attributes = true; /* as the scheduler */
    x.e.a = bh_arena_new(0);                  /* goes before the model, the objects after it */
    x.e.m = bh_dra_model_new(&f);
    r = read_all(&x, err);
    if (r == 0)
        r = answer(&x, json);
    x.e.a = bh_arena_free(x.e.a);
    x.e.m = bh_dra_model_free(x.e.m);
    (void)bh_obj_unref(x.subject);
    device_api_close(&api);
    return r;
}
