/* device-taint-eviction-controller: pods go whose device cannot be used any more.
 *
 * Driven by events: a change of a slice, rule, claim or pod judges again only what it can touch,
 * and each pod that has to go has one plan with one timer. Facts: the device specification,
 * section 8. Deviations: extended-resource users are evicted too; a rule without selector selects
 * nothing; messages name taint and device after upstream's words.
 */
#include <inttypes.h>
#include <stdio.h>

#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "controllers/controllers_int.h"
#include "controllers/device_taint.h"
#include "data/json.h"
#include "data/time_fmt.h"

#define REASONS_TOLD_MAX 3
#define RETRY_MIN_MS     5
#define RETRY_MAX_MS     1000000
#define STATUS_PACE_MS   10000
#define STATUS_WORKERS   8
#define LOOK_NS          ((int64_t)60 * 1000000000)

struct evictor {
    struct ctl *ctl;
    struct bh_informer *pods, *claims, *rules, *slices;
    struct dt_index *index;
    struct bh_map plans;         /* pod uid -> struct plan */
    struct bh_map evicted;       /* rule uid -> struct count: pods evicted since start */
    struct bh_workqueue *status; /* rule names whose status has to be looked at */
    struct bh_link writes;       /* of status, under way */
};

struct count {
    int64_t n;
};

/* One pod that has to go. */
struct plan {
    struct evictor *e;
    struct bh_arena *arena; /* reasons; renewed with each judgement */
    struct bh_obj *pod;     /* as last seen */
    struct bh_timer timer;
    int64_t at_ns; /* Unix time */
    struct dt_reason_vec reasons;
    uint64_t call, mark;   /* the step under way, and the condition's write beside it */
    struct bh_err deleted; /* how the deletion went */
    unsigned failures;
    bool running; /* a step is under way: the plan is not changed before it ends */
};

/* A condition of a rule that is being written. */
struct status_write {
    struct bh_link link;
    struct evictor *e;
    struct bh_str key; /* the work queue's */
    uint64_t call;
};

static void plan_run(void *arg);

/* Times of taints are of the wall clock, which may be set: it is looked at each minute. */
static void plan_wait(struct plan *p, int64_t ns)
{
    bh_timer_start_ns(&p->timer, ns < 0 ? 0 : ns < LOOK_NS ? ns : LOOK_NS);
}

static void plan_free(struct plan *p)
{
    bh_timer_stop(&p->timer);
    bh_client_cancel(p->e->ctl->client, p->call);
    bh_client_cancel(p->e->ctl->client, p->mark);
    (void)bh_obj_unref(p->pod);
    (void)bh_arena_free(p->arena);
    bh_free(p);
}

static void plan_drop(struct plan *p)
{
    (void)bh_map_del(&p->e->plans, p->pod->uid);
    plan_free(p);
}

/* " key=value on driver/pool/device (rule r), …": at most three, after upstream's words. */
static void reasons_text(const struct dt_reason_vec *v, struct bh_buf *b)
{
    for (size_t i = 0; i < v->n && i < REASONS_TOLD_MAX; i++) {
        const struct dt_reason *r = &v->p[i];

        bh_buf_addf(b, "%s%.*s", i ? ", " : " ", BH_SF(r->key));
        if (r->value.n)
            bh_buf_addf(b, "=%.*s", BH_SF(r->value));
        bh_buf_addf(b, " on device %.*s", BH_SF(r->device));
        if (r->rule.n)
            bh_buf_addf(b, " (DeviceTaintRule %.*s)", BH_SF(r->rule));
    }
    if (v->n > REASONS_TOLD_MAX)
        bh_buf_addf(b, ", and %zu more", v->n - REASONS_TOLD_MAX);
}

/* ---- executing one plan: GET, event, condition and DELETE ---- */

static void count_rules(struct plan *p)
{
    for (size_t i = 0; i < p->reasons.n; i++) {
        const struct dt_reason *r = &p->reasons.p[i];
        bool again = false;
        struct count *c;

        for (size_t k = 0; k < i; k++)
            again = again || bh_str_eq(p->reasons.p[k].rule_uid, r->rule_uid);
        if (!r->rule_uid.n || again)
            continue;
        c = bh_map_get(&p->e->evicted, r->rule_uid);
        if (!c) {
            c = bh_calloc(1, sizeof(*c));
            (void)bh_map_put(&p->e->evicted, r->rule_uid, c);
        }
        c->n++;
        bh_workqueue_add_after(p->e->status, r->rule, STATUS_PACE_MS);
    }
}

static void plan_retry(struct plan *p, const struct bh_err *err)
{
    int64_t ms = RETRY_MIN_MS;

    bh_log(BH_WARN, "eviction failed, retrying", BH_STR("pod", p->pod->name),
           BH_CSTR("error", err->msg));
    for (unsigned i = 0; i < p->failures && ms < RETRY_MAX_MS; i++)
        ms *= 2;
    p->failures++;
    p->running = false; /* until then it may be called off */
    bh_timer_start(&p->timer, ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS);
}

/* Condition and deletion are sent together, so that they become durable together: the deletion
 * decides how it went. A conflict ends in the next GET. */
static void plan_settle(struct plan *p)
{
    if (p->mark || p->call)
        return;
    if (p->deleted.code == BH_OK)
        count_rules(p);
    if (p->deleted.code == BH_OK || p->deleted.code == BH_E_NOT_FOUND)
        plan_drop(p);
    else
        plan_retry(p, &p->deleted);
}

static void plan_deleted(void *arg, const struct bh_client_res *res)
{
    struct plan *p = arg;

    p->call = 0;
    p->deleted = res->err;
    plan_settle(p);
}

static void plan_marked(void *arg, const struct bh_client_res *res)
{
    struct plan *p = arg;

    p->mark = 0;
    if (res->err.code != BH_OK && res->err.code != BH_E_NOT_FOUND)
        bh_log(BH_DEBUG, "condition of an evicted pod not written", BH_STR("pod", p->pod->name),
               BH_CSTR("error", res->err.msg));
    plan_settle(p);
}

static void plan_mark(struct plan *p)
{
    BH_AUTO_BUF why = {.max = BH_MESSAGE_BYTES_MAX}, b = {.max = 8192};
    char now[64];
    int64_t wall = bh_loop_wall_ns(p->e->ctl->loop);
    struct bh_str when = bh_time_fmt((struct bh_time){wall / 1000000000, 0}, now);

    reasons_text(&p->reasons, &why);
    bh_event(p->e->ctl->recorder, p->pod, "Normal", "DeviceTaintManagerEviction",
             "Marking for deletion:%.*s", BH_SF(bh_buf_str(&why)));
    bh_buf_addf(&b,
                "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"conditions\":[{\"type\":"
                "\"DisruptionTarget\",\"status\":"
                "\"True\",\"reason\":\"DeletionByDeviceTaintManager\",\"lastTransitionTime\":\"%.*"
                "s\",\"message\":",
                BH_SF(p->pod->uid), BH_SF(when));
    BH_AUTO_BUF msg = {.max = BH_MESSAGE_BYTES_MAX + 128};
    bh_buf_addf(&msg, "Device Taint manager: deleting due to NoExecute taint%.*s",
                BH_SF(bh_buf_str(&why)));
    bh_json_write_str(&b, bh_buf_str(&msg));
    bh_buf_addz(&b, "}]}}");
    p->mark = bh_client_patch(p->e->ctl->client, &bh_core_v1_pod_kind, p->pod->ns, p->pod->name,
                              "status", BH_PATCH_STRATEGIC, bh_buf_str(&b), plan_marked, p);
    p->call = bh_client_delete(p->e->ctl->client, &bh_core_v1_pod_kind, p->pod->ns, p->pod->name,
                               p->pod->uid, -1, plan_deleted, p);
}

static void plan_got(void *arg, const struct bh_client_res *res)
{
    struct plan *p = arg;

    p->call = 0;
    if (res->err.code == BH_E_NOT_FOUND || (res->obj && !bh_str_eq(res->obj->uid, p->pod->uid))) {
        plan_drop(p);
    } else if (res->err.code != BH_OK || !res->obj) {
        plan_retry(p, &res->err);
    } else if (res->obj->deleting) {
        count_rules(p);
        plan_drop(p);
    } else {
        plan_mark(p);
    }
}

static void plan_run(void *arg)
{
    struct plan *p = arg;
    int64_t wait = p->at_ns - bh_loop_wall_ns(p->e->ctl->loop);

    if (wait > 0) { /* the plan is far off, or somebody set the clock back */
        plan_wait(p, wait);
        return;
    }
    p->running = true;
    p->call = bh_client_call(p->e->ctl->client,
                             &(struct bh_client_req){.verb = BH_VERB_GET,
                                                     .kind = &bh_core_v1_pod_kind,
                                                     .ns = p->pod->ns,
                                                     .name = p->pod->name},
                             plan_got, p);
}

/* ---- judging ---- */

static void rules_touched(struct evictor *e, const struct dt_reason_vec *v)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->p[i].rule.n)
            bh_workqueue_add_after(e->status, v->p[i].rule, STATUS_PACE_MS);
}

/* Takes the arena, which holds the verdict's reasons. */
static void plan_set(struct evictor *e, struct bh_obj *pod, const struct dt_verdict *v,
                     struct bh_arena *a)
{
    struct plan *p = bh_map_get(&e->plans, pod->uid);
    int64_t wait = v->at_ns - bh_loop_wall_ns(e->ctl->loop);

    if (p && p->running) {
        (void)bh_arena_free(a);
        return;
    }
    if (!p) {
        p = bh_calloc(1, sizeof(*p));
        p->e = e;
        bh_timer_init(&p->timer, e->ctl->loop, plan_run, p);
        (void)bh_map_put(&e->plans, pod->uid, p);
    }
    (void)bh_obj_ref(pod);
    (void)bh_obj_unref(p->pod);
    p->pod = pod;
    (void)bh_arena_free(p->arena);
    p->arena = a;
    p->reasons = v->reasons;
    p->at_ns = v->at_ns;
    if (!p->failures || !bh_timer_armed(&p->timer)) /* else the pause after a failure counts */
        plan_wait(p, wait);
    rules_touched(e, &p->reasons);
}

static void plan_cancel(struct evictor *e, struct bh_obj *pod, bool deleted)
{
    struct plan *p = bh_map_get(&e->plans, pod->uid);

    if (!p || p->running) /* the answer under way ends it, and counts it */
        return;
    if (!deleted)
        bh_event(e->ctl->recorder, pod, "Normal", "DeviceTaintManagerEviction",
                 "Cancelling deletion");
    rules_touched(e, &p->reasons);
    plan_drop(p);
}

static void merge(struct dt_verdict *into, size_t *cap, const struct dt_verdict *v,
                  struct bh_arena *a)
{
    if (v->at_ns < into->at_ns)
        into->at_ns = v->at_ns;
    for (size_t i = 0; i < v->reasons.n; i++) {
        bh_arena_grow(a, &into->reasons.p, cap, into->reasons.n + 1, sizeof(*into->reasons.p));
        into->reasons.p[into->reasons.n++] = v->reasons.p[i];
    }
}

/* The claim in the cache when this pod uses it: it knows the pod, and belongs to it when it was
 * made for one. */
static struct bh_obj *claim_of(struct evictor *e, struct bh_obj *pod, struct bh_str name,
                               bool generated)
{
    struct bh_obj *c = name.n ? bh_informer_get(e->claims, pod->ns, name) : NULL;
    const struct bh_resource_v1_resource_claim *claim;

    if (!c)
        return NULL;
    claim = bh_obj_struct(c);
    if (!claim->status.allocation ||
        (generated && !ctl_owned_by(&claim->metadata, "Pod", pod->uid)))
        return NULL;
    for (size_t i = 0; i < claim->status.reserved_for.n; i++)
        if (bh_str_eq(claim->status.reserved_for.p[i].uid, pod->uid))
            return c;
    return NULL;
}

static struct dt_verdict judge_pod(struct evictor *e, struct bh_obj *o,
                                   const struct bh_obj *extra_rule, struct bh_arena *a)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);
    struct dt_verdict all = {.at_ns = DT_NEVER};
    size_t cap = 0;

    for (size_t i = 0; pod->spec.node_name.n && i <= pod->spec.resource_claims.n; i++) {
        struct bh_obj *c = NULL;

        if (i < pod->spec.resource_claims.n)
            c = claim_of(e, o, ctl_pod_claim_name(pod, i),
                         pod->spec.resource_claims.p[i].has_resource_claim_template_name);
        else if (pod->status.extended_resource_claim_status)
            c = claim_of(e, o, pod->status.extended_resource_claim_status->resource_claim_name,
                         true);
        if (c) {
            struct dt_verdict v = dt_judge(e->index, c, extra_rule, a);

            merge(&all, &cap, &v, a);
        }
    }
    return all;
}

static void pod_judge(struct evictor *e, struct bh_obj *o)
{
    struct bh_arena *a;
    struct dt_verdict v;

    if (o->deleting) {
        plan_cancel(e, o, true);
        return;
    }
    a = bh_arena_new(0);
    v = judge_pod(e, o, NULL, a);
    if (v.at_ns == DT_NEVER) {
        (void)bh_arena_free(a);
        plan_cancel(e, o, false);
    } else {
        plan_set(e, o, &v, a);
    }
}

static void claim_judge(struct evictor *e, struct bh_obj *c)
{
    const struct bh_resource_v1_resource_claim *claim = bh_obj_struct(c);

    for (size_t i = 0; i < claim->status.reserved_for.n; i++) {
        struct bh_obj *pod = bh_informer_get(e->pods, c->ns, claim->status.reserved_for.p[i].name);

        if (pod && bh_str_eq(pod->uid, claim->status.reserved_for.p[i].uid))
            pod_judge(e, pod);
    }
}

static void claim_touched(void *arg, struct bh_str key)
{
    struct evictor *e = arg;
    struct bh_str name = key, ns = bh_str_cut(&name, '/');
    struct bh_obj *c = bh_informer_get(e->claims, ns, name);

    if (c)
        claim_judge(e, c);
}

/* ---- status of rules ---- */

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

struct rule_counts {
    size_t pods, namespaces;
};

static struct rule_counts rule_waiting(struct evictor *e, const struct bh_obj *rule)
{
    struct rule_counts c = {0, 0};
    struct bh_map spaces = {0};
    void *v;

    for (size_t it = 0; bh_map_next(&e->plans, &it, NULL, &v);) {
        struct plan *p = v;
        struct bh_obj *pod = bh_informer_get(e->pods, p->pod->ns, p->pod->name);
        bool concerns = false;

        for (size_t i = 0; i < p->reasons.n; i++)
            concerns = concerns || bh_str_eq(p->reasons.p[i].rule_uid, rule->uid);
        if (!concerns || !pod || pod->deleting || !bh_str_eq(pod->uid, p->pod->uid))
            continue;
        c.pods++;
        (void)bh_map_put(&spaces, p->pod->ns, p);
    }
    c.namespaces = spaces.n;
    bh_map_done(&spaces);
    return c;
}

struct simulation {
    struct evictor *e;
    const struct bh_obj *rule;
    struct bh_map claims, pods, spaces; /* sets: claim keys, pod uids, namespaces */
    size_t allocated;
};

static void simulate_claim(void *arg, struct bh_str key)
{
    struct simulation *s = arg;
    struct bh_str name = key, ns = bh_str_cut(&name, '/');
    struct bh_obj *c = bh_informer_get(s->e->claims, ns, name);
    const struct bh_resource_v1_resource_claim *claim = c ? bh_obj_struct(c) : NULL;

    if (!c || !claim->status.allocation || bh_map_put(&s->claims, key, s))
        return;
    for (size_t i = 0; i < claim->status.allocation->devices.results.n; i++) {
        const struct bh_resource_v1_device_request_allocation_result *r =
            &claim->status.allocation->devices.results.p[i];

        s->allocated += dt_rule_selects(s->rule, r->driver, r->pool, r->device);
    }
    for (size_t i = 0; i < claim->status.reserved_for.n; i++) {
        const struct bh_resource_v1_resource_claim_consumer_reference *r =
            &claim->status.reserved_for.p[i];
        struct bh_obj *pod = bh_informer_get(s->e->pods, ns, r->name);
        BH_AUTO_ARENA a = bh_arena_new(0);

        if (!pod || pod->deleting || !bh_str_eq(pod->uid, r->uid) ||
            judge_pod(s->e, pod, s->rule, a).at_ns == DT_NEVER)
            continue;
        (void)bh_map_put(&s->pods, pod->uid, s);
        (void)bh_map_put(&s->spaces, pod->ns, s);
    }
}

static void rule_simulate(struct evictor *e, const struct bh_obj *rule, struct bh_buf *msg)
{
    struct simulation s = {.e = e, .rule = rule};
    size_t devices = dt_count_devices(e->index, rule);

    dt_each_user(e->index, rule, simulate_claim, &s);
    bh_buf_addf(msg, "%zu published device%s selected. %zu allocated device%s selected. ", devices,
                plural(devices), s.allocated, plural(s.allocated));
    bh_buf_addf(msg,
                "%zu pod%s would be evicted in %zu %snamespace%s if the effect was NoExecute. ",
                s.pods.n, plural(s.pods.n), s.spaces.n, s.spaces.n == 1 ? "" : "different ",
                plural(s.spaces.n));
    bh_buf_addz(msg, "This information will not be updated again. Recreate the DeviceTaintRule to "
                     "trigger an update.");
    bh_map_done(&s.claims);
    bh_map_done(&s.pods);
    bh_map_done(&s.spaces);
}

static const struct bh_meta_v1_condition *
rule_condition(const struct bh_resource_v1beta2_device_taint_rule *r)
{
    for (size_t i = 0; i < r->status.conditions.n; i++)
        if (bh_str_eqc(r->status.conditions.p[i].type, "EvictionInProgress"))
            return &r->status.conditions.p[i];
    return NULL;
}

/* How long the condition has to wait: 0 when it may be written, <0 when it never will be again.
 * Only a rule that changed is answered at once. */
static int64_t status_wait_ms(const struct bh_resource_v1beta2_device_taint_rule *r,
                              const struct bh_meta_v1_condition *old, int64_t wall_ns)
{
    int64_t age_ms;

    if (!old || old->observed_generation != r->metadata.generation)
        return 0;
    if (bh_str_eqc(r->spec.taint.effect, "None")) /* counted once */
        return -1;
    age_ms = wall_ns / 1000000 - old->last_transition_time.sec * 1000;
    return age_ms >= 0 && age_ms < STATUS_PACE_MS ? STATUS_PACE_MS - age_ms : 0;
}

/* Condition status and reason; the message goes to msg. */
static bool status_of(struct evictor *e, const struct bh_obj *o, const char **reason,
                      struct bh_buf *msg)
{
    const struct bh_resource_v1beta2_device_taint_rule *r = bh_obj_struct(o);
    const struct count *n = bh_map_get(&e->evicted, o->uid);
    struct rule_counts c = {0, 0};

    if (bh_str_eqc(r->spec.taint.effect, "NoExecute")) {
        c = rule_waiting(e, o);
        *reason = c.pods ? "PodsPendingEviction" : n ? "Completed" : "NotStarted";
        if (c.pods)
            bh_buf_addf(msg, "%zu pod%s to be evicted in %zu %snamespace%s.", c.pods,
                        c.pods == 1 ? " needs" : "s need", c.namespaces,
                        c.namespaces == 1 ? "" : "different ", plural(c.namespaces));
    } else if (bh_str_eqc(r->spec.taint.effect, "None")) {
        *reason = "NoEffect";
        rule_simulate(e, o, msg);
    } else {
        *reason = "OtherEffect";
        bh_buf_addf(msg, "Effect %.*s does not evict pods.", BH_SF(r->spec.taint.effect));
    }
    if (n)
        bh_buf_addf(msg, "%s%" PRId64 " pod%s evicted since starting the controller.",
                    msg->n ? " " : "", n->n, plural((size_t)n->n));
    return c.pods > 0;
}

static void status_written(void *arg, const struct bh_client_res *res)
{
    struct status_write *w = arg;
    struct evictor *e = w->e;
    struct bh_str key = w->key;
    bool ok = res->err.code == BH_OK || res->err.code == BH_E_NOT_FOUND;

    if (!ok)
        bh_log(BH_DEBUG, "rule status not written", BH_CSTR("error", res->err.msg));
    bh_list_del(&w->link);
    bh_free(w);
    bh_workqueue_done(e->status, key, ok ? BH_WORK_OK : BH_WORK_RETRY);
}

static void status_write(struct evictor *e, struct bh_str key, const struct bh_obj *o,
                         const char *status, const char *reason, struct bh_str message)
{
    const struct bh_resource_v1beta2_device_taint_rule *r = bh_obj_struct(o);
    struct status_write *w = bh_calloc(1, sizeof(*w));
    BH_AUTO_BUF b = {.max = 8192};
    int64_t wall = bh_loop_wall_ns(e->ctl->loop);
    char when[64];

    bh_buf_addf(&b,
                "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"conditions\":[{\"type\":"
                "\"EvictionInProgress\","
                "\"status\":\"%s\",\"reason\":\"%s\",\"observedGeneration\":%" PRId64
                ",\"lastTransitionTime\":\"%.*s\",\"message\":",
                BH_SF(o->uid), status, reason, r->metadata.generation,
                BH_SF(bh_time_fmt((struct bh_time){wall / 1000000000, 0}, when)));
    bh_json_write_str(&b, message);
    bh_buf_addz(&b, "}]}}");
    w->e = e;
    w->key = key;
    bh_list_add_tail(&e->writes, &w->link);
    w->call = bh_client_patch(e->ctl->client, o->kind, (struct bh_str){0}, o->name, "status",
                              BH_PATCH_STRATEGIC, bh_buf_str(&b), status_written, w);
}

static void status_sync(void *arg, struct bh_str name)
{
    struct evictor *e = arg;
    struct bh_obj *o = bh_informer_get(e->rules, (struct bh_str){0}, name);
    const struct bh_resource_v1beta2_device_taint_rule *r = o ? bh_obj_struct(o) : NULL;
    const struct bh_meta_v1_condition *old = o ? rule_condition(r) : NULL;
    int64_t wait = o ? status_wait_ms(r, old, bh_loop_wall_ns(e->ctl->loop)) : -1;
    BH_AUTO_BUF msg = {.max = BH_MESSAGE_BYTES_MAX};
    const char *reason, *status;

    if (wait != 0) {
        if (wait > 0)
            bh_workqueue_add_after(e->status, name, wait);
        bh_workqueue_done(e->status, name, BH_WORK_OK);
        return;
    }
    status = status_of(e, o, &reason, &msg) ? "True" : "False";
    if (bh_str_eqc(bh_s(status), "True"))
        bh_workqueue_add_after(e->status, name, STATUS_PACE_MS);
    if (old && bh_str_eqc(old->status, status) && bh_str_eqc(old->reason, reason) &&
        bh_str_eq(old->message, bh_buf_str(&msg)) &&
        old->observed_generation == r->metadata.generation)
        bh_workqueue_done(e->status, name, BH_WORK_OK);
    else
        status_write(e, name, o, status, reason, bh_buf_str(&msg));
}

/* ---- events ---- */

static void slice_added(void *arg, struct bh_obj *o)
{
    struct evictor *e = arg;

    dt_index_slice(e->index, NULL, o, claim_touched, e);
}
static void slice_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct evictor *e = arg;

    dt_index_slice(e->index, old, o, claim_touched, e);
}
static void slice_deleted(void *arg, struct bh_obj *last)
{
    struct evictor *e = arg;

    dt_index_slice(e->index, last, NULL, claim_touched, e);
}
static void rule_added(void *arg, struct bh_obj *o)
{
    struct evictor *e = arg;

    dt_index_rule(e->index, NULL, o, claim_touched, e);
    bh_workqueue_add(e->status, o->name);
}
static void rule_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    const struct bh_resource_v1beta2_device_taint_rule *a = bh_obj_struct(old),
                                                       *b = bh_obj_struct(o);
    struct evictor *e = arg;

    /* Our own status writes come back here: nothing but the generation says that the rule itself
     * changed. */
    dt_index_rule(e->index, old, o,
                  a->metadata.generation == b->metadata.generation ? NULL : claim_touched, e);
    if (a->metadata.generation != b->metadata.generation)
        bh_workqueue_add(e->status, o->name);
}
static void rule_deleted(void *arg, struct bh_obj *last)
{
    struct evictor *e = arg;

    dt_index_rule(e->index, last, NULL, claim_touched, e);
    bh_free(bh_map_del(&e->evicted, last->uid));
}
static void claim_added(void *arg, struct bh_obj *o)
{
    struct evictor *e = arg;

    dt_index_claim(e->index, NULL, o);
    claim_judge(e, o);
}
/* What bears on eviction: devices and consumers. Health and conditions of devices change often. */
static bool claim_same(const struct bh_resource_v1_resource_claim *a,
                       const struct bh_resource_v1_resource_claim *b)
{
    if (!a->status.allocation != !b->status.allocation ||
        a->status.reserved_for.n != b->status.reserved_for.n)
        return false;
    for (size_t i = 0; i < a->status.reserved_for.n; i++)
        if (!bh_str_eq(a->status.reserved_for.p[i].uid, b->status.reserved_for.p[i].uid))
            return false;
    return !a->status.allocation || bh_msg_equal(&bh_resource_v1_allocation_result_type,
                                                 a->status.allocation, b->status.allocation);
}

static void claim_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct evictor *e = arg;

    if (claim_same(bh_obj_struct(old), bh_obj_struct(o)))
        return;
    dt_index_claim(e->index, old, o);
    claim_judge(e, old); /* also those that it no longer knows */
    claim_judge(e, o);
}
static void claim_deleted(void *arg, struct bh_obj *last)
{
    struct evictor *e = arg;

    dt_index_claim(e->index, last, NULL);
    claim_judge(e, last);
}
static void pod_added(void *arg, struct bh_obj *o)
{
    if (((const struct bh_core_v1_pod *)bh_obj_struct(o))->spec.resource_claims.n ||
        ((const struct bh_core_v1_pod *)bh_obj_struct(o))->status.extended_resource_claim_status)
        pod_judge(arg, o);
}
static bool same_claim_names(const struct bh_core_v1_pod *a, const struct bh_core_v1_pod *b)
{
    if (a->status.resource_claim_statuses.n != b->status.resource_claim_statuses.n ||
        !a->status.extended_resource_claim_status != !b->status.extended_resource_claim_status)
        return false;
    for (size_t i = 0; i < a->status.resource_claim_statuses.n; i++)
        if (!bh_str_eq(a->status.resource_claim_statuses.p[i].resource_claim_name,
                       b->status.resource_claim_statuses.p[i].resource_claim_name))
            return false;
    return true;
}
static void pod_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    const struct bh_core_v1_pod *a = bh_obj_struct(old), *b = bh_obj_struct(o);

    if (old->deleting != o->deleting || !bh_str_eq(a->spec.node_name, b->spec.node_name) ||
        !same_claim_names(a, b))
        pod_added(arg, o);
}
static void pod_deleted(void *arg, struct bh_obj *last)
{
    plan_cancel(arg, last, true);
}

static void evictor_begin(void *arg)
{
    struct evictor *e = arg;

    if (ctl_synced((struct bh_informer *[]){e->slices, e->rules, e->claims, e->pods}, 4))
        bh_workqueue_resume(e->status);
}

static const struct bh_informer_ops slice_ops = {slice_added, slice_updated, slice_deleted,
                                                 evictor_begin};
static const struct bh_informer_ops rule_ops = {rule_added, rule_updated, rule_deleted,
                                                evictor_begin};
static const struct bh_informer_ops claim_ops = {claim_added, claim_updated, claim_deleted,
                                                 evictor_begin};
static const struct bh_informer_ops pod_ops = {pod_added, pod_updated, pod_deleted, evictor_begin};

static void *evictor_start(struct ctl *c)
{
    struct evictor *e = bh_calloc(1, sizeof(*e));

    e->ctl = c;
    e->index = dt_index_new();
    bh_list_init(&e->writes);
    e->status = bh_workqueue_new(c->loop, STATUS_WORKERS, status_sync, e);
    bh_workqueue_pause(e->status);
    e->slices = ctl_subscribe(c->informers, &bh_resource_v1_resource_slice_kind, &slice_ops, e);
    e->rules =
        ctl_subscribe(c->informers, &bh_resource_v1beta2_device_taint_rule_kind, &rule_ops, e);
    e->claims = ctl_subscribe(c->informers, &bh_resource_v1_resource_claim_kind, &claim_ops, e);
    e->pods = ctl_subscribe(c->informers, &bh_core_v1_pod_kind, &pod_ops, e);
    return e;
}

static void evictor_stop(void *self)
{
    struct evictor *e = self;
    void *v;

    bh_list_for_safe(l, &e->writes)
    {
        struct status_write *w = bh_container(l, struct status_write, link);

        bh_client_cancel(e->ctl->client, w->call);
        bh_free(w);
    }
    for (size_t it = 0; bh_map_next(&e->plans, &it, NULL, &v);)
        plan_free(v);
    bh_map_done(&e->plans);
    for (size_t it = 0; bh_map_next(&e->evicted, &it, NULL, &v);)
        bh_free(v);
    bh_map_done(&e->evicted);
    e->status = bh_workqueue_free(e->status);
    e->index = dt_index_free(e->index);
    bh_free(e);
}

const struct ctl_controller ctl_device_taint_eviction = {"device-taint-eviction-controller",
                                                         evictor_start, evictor_stop};
