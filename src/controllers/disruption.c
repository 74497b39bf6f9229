/* disruption-controller: how many pods of each disruption budget may go now.
 *
 * A budget is looked at when it or a pod that it selects changes; what it allows follows from the
 * pods that are ready and from the scale of what controls them. Budgets are kept by namespace with
 * their selectors parsed, so that a pod's event costs nothing where there are none.
 */
#include <string.h>

#include "api/budget.h"
#include "api/engine.h"
#include "api/gen/apps_v1.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/policy_v1.h"
#include "api/label_selector.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "controllers/controllers_int.h"
#include "data/time_fmt.h"

#define DELETION_S                                                                                 \
    120             /* upstream: so long a pod whose eviction was granted is taken to be going     \
                     */
#define STALE_S 120 /* after that a pod that was to go, and stayed, is not disrupted any more */
#define WORKERS 4

struct place { /* a namespace that has budgets */
    struct bh_link budgets;
};

struct budget {
    struct bh_link link;
    struct bh_str key; /* "namespace/name", in a */
    struct bh_arena *a;
    struct bh_label_selector sel;
};

struct dis {
    struct ctl *ctl;
    struct bh_informer *budgets, *pods, *rc, *rs, *deployments, *sts;
    struct bh_workqueue *queue, *stale; /* keys of budgets; of pods */
    struct bh_map places;               /* namespace -> struct place */
    struct bh_link works;
};

struct work {
    struct bh_link link;
    struct dis *d;
    struct bh_workqueue *queue;
    struct bh_str key;
    uint64_t call;
};

static struct bh_time wall(const struct dis *d)
{
    return (struct bh_time){bh_loop_wall_ns(d->ctl->loop) / 1000000000, 0};
}

/* ---- writes ---- */

static void written(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;
    struct bh_workqueue *q = w->queue;
    struct bh_str key = w->key;
    bool ok = res->err.code == BH_OK || res->err.code == BH_E_NOT_FOUND;

    bh_list_del(&w->link);
    bh_free(w);
    bh_workqueue_done(q, key, ok ? BH_WORK_OK : BH_WORK_RETRY);
}

static struct work *work_new(struct dis *d, struct bh_workqueue *q, struct bh_str key)
{
    struct work *w = bh_calloc(1, sizeof(*w));

    w->d = d;
    w->queue = q;
    w->key = key;
    bh_list_add_tail(&d->works, &w->link);
    return w;
}

static void write_status(struct dis *d, struct bh_str key,
                         const struct bh_policy_v1_pod_disruption_budget *b)
{
    struct work *w = work_new(d, d->queue, key);

    w->call = bh_client_update(d->ctl->client, &bh_policy_v1_pod_disruption_budget_kind, b,
                               "status", written, w);
}

/* ---- the scale of what controls a pod ---- */

static const struct bh_meta_v1_owner_reference *
controller_of(const struct bh_meta_v1_object_meta *m)
{
    for (size_t i = 0; i < m->owner_references.n; i++)
        if (m->owner_references.p[i].has_controller && m->owner_references.p[i].controller)
            return &m->owner_references.p[i];
    return NULL;
}

static struct bh_str group_of(struct bh_str api_version)
{
    ptrdiff_t slash = bh_str_chr(api_version, '/', 0);

    return slash < 0 ? BH_S("") : bh_str_sub(api_version, 0, (size_t)slash);
}

static bool names(const struct bh_meta_v1_owner_reference *r, const char *kind, const char *group)
{
    struct bh_str g = group_of(r->api_version);

    return bh_str_eqc(r->kind, kind) &&
           (bh_str_eqc(g, group) ||
            (*group && bh_str_eqc(g, "extensions") && !bh_str_eqc(r->kind, "StatefulSet")));
}

static const void *owned(const struct bh_informer *i, struct bh_str ns,
                         const struct bh_meta_v1_owner_reference *r)
{
    struct bh_obj *o = bh_informer_get(i, ns, r->name);

    return o && bh_str_eq(o->uid, r->uid) ? bh_obj_struct(o) : NULL;
}

struct scale {
    struct bh_str uid; /* of the controller that counts: a Deployment rather than its ReplicaSet */
    int32_t n;
};

static bool scale_of_set(const struct dis *d, struct bh_str ns,
                         const struct bh_meta_v1_owner_reference *r, struct scale *ret)
{
    const struct bh_apps_v1_replica_set *s = owned(d->rs, ns, r);
    const struct bh_meta_v1_owner_reference *up = s ? controller_of(&s->metadata) : NULL;
    const struct bh_apps_v1_deployment *dep;

    if (!s)
        return false;
    if (!up || !bh_str_eqc(up->kind, "Deployment")) {
        *ret = (struct scale){s->metadata.uid, s->spec.replicas};
        return true;
    }
    dep = names(up, "Deployment", "apps") ? owned(d->deployments, ns, up) : NULL;
    if (dep)
        *ret = (struct scale){dep->metadata.uid, dep->spec.replicas};
    return dep != NULL;
}

static bool scale_of(const struct dis *d, struct bh_str ns,
                     const struct bh_meta_v1_owner_reference *r, struct scale *ret)
{
    const struct bh_core_v1_replication_controller *rc;
    const struct bh_apps_v1_stateful_set *s;

    if (names(r, "ReplicaSet", "apps"))
        return scale_of_set(d, ns, r, ret);
    if (names(r, "ReplicationController", "")) {
        rc = owned(d->rc, ns, r);
        if (rc)
            *ret = (struct scale){rc->metadata.uid, rc->spec.replicas};
        return rc != NULL;
    }
    if (names(r, "StatefulSet", "apps")) {
        s = owned(d->sts, ns, r);
        if (s)
            *ret = (struct scale){s->metadata.uid, s->spec.replicas};
        return s != NULL;
    }
    return false;
}

static int no_scale(struct bh_arena *a, const struct bh_core_v1_pod *p,
                    const struct bh_meta_v1_owner_reference *r, struct bh_str *why)
{
    const struct bh_kind *k = bh_kind_by_api_version(r->api_version, r->kind);

    if (!k || k->resource.n == 0)
        *why = bh_str_fmt(a, "no matches for kind \"%.*s\" in version \"%.*s\"", BH_SF(r->kind),
                          BH_SF(r->api_version));
    else if (!bh_kind_sub(k, BH_S("scale")))
        *why = bh_str_fmt(a, "%.*s%s%.*s does not implement the scale subresource",
                          BH_SF(k->resource), k->group.n ? "." : "", BH_SF(k->group));
    else
        *why = bh_str_fmt(a, "found no controllers for pod \"%.*s\"", BH_SF(p->metadata.name));
    return -BH_E_NOT_FOUND;
}

/* ---- the counts of a budget ---- */

struct counts {
    struct bh_obj **pods;
    size_t n, unmanaged;
    int32_t healthy, desired, expected;
};

/* The sum of the scales of all that control the pods, each once. */
static int expected_scale(const struct dis *d, struct bh_arena *a, struct counts *c,
                          struct bh_str *why)
{
    struct bh_map seen = {0};
    int r = 0;

    for (size_t i = 0; i < c->n && r == 0; i++) {
        const struct bh_core_v1_pod *p = bh_obj_struct(c->pods[i]);
        const struct bh_meta_v1_owner_reference *o = controller_of(&p->metadata);
        struct scale s;

        if (!o) {
            c->unmanaged++;
            continue;
        }
        if (bh_map_get(&seen, o->uid))
            continue;
        if (!scale_of(d, c->pods[i]->ns, o, &s)) {
            r = no_scale(a, p, o, why);
            continue;
        }
        (void)bh_map_put(&seen, o->uid, (void *)(uintptr_t)1);
        if (bh_str_eq(s.uid, o->uid)) {
            c->expected += s.n;
        } else if (!bh_map_get(&seen, s.uid)) { /* two ReplicaSets of one Deployment */
            (void)bh_map_put(&seen, s.uid, (void *)(uintptr_t)1);
            c->expected += s.n;
        }
    }
    bh_map_done(&seen);
    return r;
}

/* A count, or a percentage of whole rounded up. */
static int scaled(struct bh_arena *a, struct bh_intstr v, int32_t whole, int32_t *ret,
                  struct bh_str *why)
{
    int64_t percent = 0;

    if (!v.is_str) {
        *ret = v.i;
        return 0;
    }
    if (v.s.n < 2 || v.s.p[v.s.n - 1] != '%' ||
        !bh_str_i64(bh_str_sub(v.s, 0, v.s.n - 1), 0, INT32_MAX, &percent)) {
        *why = bh_str_fmt(a, "invalid value for IntOrString: invalid type: string is not a "
                             "percentage");
        return -BH_E_INVALID;
    }
    *ret = (int32_t)((percent * whole + 99) / 100);
    return 0;
}

static int desired(const struct dis *d, struct bh_arena *a,
                   const struct bh_policy_v1_pod_disruption_budget_spec *s, struct counts *c,
                   struct bh_str *why)
{
    int32_t v = 0;
    int r = 0;

    if (s->has_max_unavailable) {
        r = expected_scale(d, a, c, why);
        if (r == 0)
            r = scaled(a, s->max_unavailable, c->expected, &v, why);
        c->desired = v < c->expected ? c->expected - v : 0;
    } else if (s->has_min_available && !s->min_available.is_str) {
        c->desired = s->min_available.i;
        c->expected = (int32_t)c->n;
    } else if (s->has_min_available) {
        r = expected_scale(d, a, c, why);
        if (r == 0)
            r = scaled(a, s->min_available, c->expected, &c->desired, why);
    }
    return r;
}

static const struct bh_time *noted(const struct bh_time_map *m, struct bh_str pod)
{
    for (size_t i = 0; i < m->n; i++)
        if (bh_str_eq(m->p[i].key, pod))
            return &m->p[i].value;
    return NULL;
}

/* Of the pods whose eviction was granted, those that are still to go. Others are counted when they
 * are ready. Returns in how many seconds the next of them is given up, 0 for none. */
static int64_t disrupted(struct dis *d, struct bh_arena *a,
                         const struct bh_policy_v1_pod_disruption_budget *b, struct counts *c,
                         struct bh_time_map *ret)
{
    const struct bh_time_map *was = &b->status.disrupted_pods;
    int64_t now = wall(d).sec, next = 0;

    *ret = (struct bh_time_map){0};
    for (size_t i = 0; i < c->n; i++) {
        const struct bh_time *t = c->pods[i]->deleting ? NULL : noted(was, c->pods[i]->name);

        if (t && t->sec + DELETION_S < now)
            bh_event(d->ctl->recorder, c->pods[i], "Warning", "NotDeleted",
                     "Pod was expected by PDB %.*s/%.*s to be deleted but it wasn't",
                     BH_SF(b->metadata.namespace), BH_SF(b->metadata.name));
        else if (t && (next == 0 || t->sec + DELETION_S + 1 - now < next))
            next = t->sec + DELETION_S + 1 - now;
        if (!c->pods[i]->deleting && !(t && t->sec + DELETION_S > now) &&
            bh_pod_is_ready(bh_obj_struct(c->pods[i])))
            c->healthy++;
    }
    if (was->n == 0)
        return next;
    ret->p = bh_new_n(a, struct bh_time_entry, was->n);
    for (size_t k = 0; k < was->n; k++)
        for (size_t i = 0; i < c->n; i++)
            if (!c->pods[i]->deleting && bh_str_eq(c->pods[i]->name, was->p[k].key) &&
                was->p[k].value.sec + DELETION_S >= now) {
                ret->p[ret->n++] = was->p[k];
                break;
            }
    return next;
}

static void find_pods(const struct dis *d, struct bh_arena *a, const struct bh_obj *b,
                      const struct bh_label_selector *sel, struct counts *c)
{
    size_t cap = 0;
    struct bh_obj *o;

    for (size_t it = 0; (o = bh_informer_next(d->pods, &it));) {
        const struct bh_core_v1_pod *p;

        if (!bh_str_eq(o->ns, b->ns))
            continue;
        p = bh_obj_struct(o);
        if (!bh_label_selector_match(sel, &p->metadata.labels))
            continue;
        bh_arena_grow(a, &c->pods, &cap, c->n + 1, sizeof(struct bh_obj *));
        c->pods[c->n++] = o;
    }
}

/* As Go prints the selector. */
static struct bh_str selector_text(struct bh_arena *a, const struct bh_meta_v1_label_selector *s)
{
    BH_AUTO_BUF b = {0};

    if (!s)
        return BH_S("nil");
    bh_buf_addz(&b, "&LabelSelector{MatchLabels:map[string]string{");
    for (size_t i = 0; i < s->match_labels.n; i++)
        bh_buf_addf(&b, "%.*s: %.*s,", BH_SF(s->match_labels.p[i].key),
                    BH_SF(s->match_labels.p[i].value));
    bh_buf_addz(&b, "},MatchExpressions:[]LabelSelectorRequirement{");
    for (size_t i = 0; i < s->match_expressions.n; i++) {
        const struct bh_meta_v1_label_selector_requirement *r = &s->match_expressions.p[i];

        bh_buf_addf(&b, "LabelSelectorRequirement{Key:%.*s,Operator:%.*s,Values:[", BH_SF(r->key),
                    BH_SF(r->operator));
        for (size_t k = 0; k < r->values.n; k++)
            bh_buf_addf(&b, "%s%.*s", k ? " " : "", BH_SF(r->values.p[k]));
        bh_buf_addz(&b, "],},");
    }
    bh_buf_addz(&b, "},}");
    return bh_str_dup(a, bh_buf_str(&b));
}

/* ---- a budget ---- */

/* Whatever went wrong, nothing may be evicted on numbers that are not known. */
static void fail_safe(struct dis *d, struct bh_arena *a, struct bh_str key,
                      const struct bh_policy_v1_pod_disruption_budget *old, struct bh_str why)
{
    struct bh_policy_v1_pod_disruption_budget b = *old;
    const struct bh_meta_v1_condition c = {.type = BH_S_INIT("DisruptionAllowed"),
                                           .status = BH_S_INIT("False"),
                                           .reason = BH_S_INIT("SyncFailed"),
                                           .message = why,
                                           .observed_generation = b.status.observed_generation};
    const struct bh_meta_v1_condition *was =
        bh_condition_find(&b.status.conditions, "DisruptionAllowed");

    if (b.status.disruptions_allowed == 0 && was && bh_str_eqc(was->reason, "SyncFailed") &&
        bh_str_eq(was->message, why)) {
        bh_workqueue_done(d->queue, key, BH_WORK_OK);
        return;
    }
    b.status.disruptions_allowed = 0;
    bh_condition_set(a, &b.status.conditions, &c, wall(d));
    write_status(d, key, &b);
}

static bool same_times(const struct bh_time_map *x, const struct bh_time_map *y)
{
    if (x->n != y->n)
        return false;
    for (size_t i = 0; i < x->n; i++)
        if (!bh_str_eq(x->p[i].key, y->p[i].key) || x->p[i].value.sec != y->p[i].value.sec)
            return false;
    return true;
}

static void update(struct dis *d, struct bh_arena *a, struct bh_str key,
                   const struct bh_policy_v1_pod_disruption_budget *old, const struct counts *c,
                   struct bh_time_map disrupted_pods)
{
    struct bh_policy_v1_pod_disruption_budget b = *old;
    int32_t allowed = c->healthy - c->desired;

    /* A budget without pods allows nothing, so that it is safe when the first ones appear. */
    if (c->expected <= 0 || allowed < 0)
        allowed = 0;
    b.status.current_healthy = c->healthy;
    b.status.desired_healthy = c->desired;
    b.status.expected_pods = c->expected;
    b.status.disruptions_allowed = allowed;
    b.status.disrupted_pods = disrupted_pods;
    b.status.observed_generation = b.metadata.generation;
    if (old->status.current_healthy == c->healthy && old->status.desired_healthy == c->desired &&
        old->status.expected_pods == c->expected && old->status.disruptions_allowed == allowed &&
        same_times(&old->status.disrupted_pods, &disrupted_pods) && bh_budget_said(old)) {
        bh_workqueue_done(d->queue, key, BH_WORK_OK);
        return;
    }
    bh_budget_say(a, &b, wall(d));
    write_status(d, key, &b);
}

static void budget_sync(void *arg, struct bh_str key)
{
    struct dis *d = arg;
    struct bh_str name = key, ns = bh_str_cut(&name, '/');
    struct bh_obj *o = bh_informer_get(d->budgets, ns, name);
    const struct bh_policy_v1_pod_disruption_budget *b;
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct counts c = {0};
    struct bh_label_selector sel;
    struct bh_time_map gone;
    struct bh_str why = BH_S("");
    int64_t again_s;

    if (!o) {
        bh_workqueue_done(d->queue, key, BH_WORK_OK);
        return;
    }
    b = bh_obj_struct(o);
    if (!bh_label_selector_of(a, b->spec.selector, &sel)) {
        fail_safe(d, a, key, b, BH_S("the selector is not well-formed"));
        return;
    }
    find_pods(d, a, o, &sel, &c);
    if (c.n == 0)
        bh_event(d->ctl->recorder, o, "Normal", "NoPods", "No matching pods found");
    if (desired(d, a, &b->spec, &c, &why) < 0) {
        bh_event(d->ctl->recorder, o, "Warning", "CalculateExpectedPodCountFailed",
                 "Failed to calculate the number of expected pods: %.*s", BH_SF(why));
        fail_safe(d, a, key, b, why);
        return;
    }
    if (c.unmanaged)
        bh_event(d->ctl->recorder, o, "Warning", "UnmanagedPods",
                 "Pods selected by this PodDisruptionBudget (selector: %.*s) were found to be "
                 "unmanaged. As a result, the status of the PDB cannot be calculated correctly, "
                 "which may result in undefined behavior. To account for these pods please set "
                 "\".spec.minAvailable\" field of the PDB to an integer value.",
                 BH_SF(selector_text(a, b->spec.selector)));
    again_s = disrupted(d, a, b, &c, &gone);
    if (again_s > 0)
        bh_workqueue_add_after(d->queue, key, again_s * 1000);
    update(d, a, key, b, &c, gone);
}

/* ---- pods that were to go, and stayed ---- */

/* In how many seconds the condition is stale: -1 when the pod has none that can be. */
static int64_t stale_in(const struct dis *d, const struct bh_obj *o)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(o);

    if (o->deleting || bh_str_eqc(p->status.phase, "Succeeded") ||
        bh_str_eqc(p->status.phase, "Failed"))
        return -1;
    for (size_t i = 0; i < p->status.conditions.n; i++) {
        const struct bh_core_v1_pod_condition *c = &p->status.conditions.p[i];
        int64_t left = c->last_transition_time.sec + STALE_S - wall(d).sec;

        if (bh_str_eqc(c->type, "DisruptionTarget"))
            return !bh_str_eqc(c->status, "True") || bh_str_eqc(c->reason, "TerminationByKubelet")
                       ? -1
                   : left > 0 ? left
                              : 0;
    }
    return -1;
}

static void stale_sync(void *arg, struct bh_str key)
{
    struct dis *d = arg;
    struct bh_str name = key, ns = bh_str_cut(&name, '/');
    struct bh_obj *o = bh_informer_get(d->pods, ns, name);
    int64_t left = o ? stale_in(d, o) : -1;
    BH_AUTO_BUF b = {0};
    char when[64];
    struct work *w;

    if (left != 0) {
        if (left > 0)
            bh_workqueue_add_after(d->stale, key, left * 1000);
        bh_workqueue_done(d->stale, key, BH_WORK_OK);
        return;
    }
    bh_buf_addf(&b,
                "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"conditions\":[{\"type\":"
                "\"DisruptionTarget\",\"status\":\"False\",\"reason\":null,\"message\":null,"
                "\"lastTransitionTime\":\"%.*s\"}]}}",
                BH_SF(o->uid), BH_SF(bh_time_fmt(wall(d), when)));
    w = work_new(d, d->stale, key);
    w->call = bh_client_patch(d->ctl->client, &bh_core_v1_pod_kind, ns, name, "status",
                              BH_PATCH_STRATEGIC, bh_buf_str(&b), written, w);
}

/* ---- what wakes them ---- */

static struct place *place_of(struct dis *d, struct bh_str ns, bool make)
{
    struct place *p = bh_map_get(&d->places, ns);

    if (!p && make) {
        p = bh_calloc(1, sizeof(*p));
        bh_list_init(&p->budgets);
        (void)bh_map_put(&d->places, ns, p);
    }
    return p;
}

static void forget(struct dis *d, const struct bh_obj *o)
{
    struct place *p = place_of(d, o->ns, false);

    if (!p)
        return;
    bh_list_for_safe(l, &p->budgets)
    {
        struct budget *b = bh_container(l, struct budget, link);
        struct bh_str name = b->key;

        (void)bh_str_cut(&name, '/');
        if (!bh_str_eq(name, o->name))
            continue;
        bh_list_del(&b->link);
        (void)bh_arena_free(b->a);
        bh_free(b);
    }
    if (bh_list_empty(&p->budgets)) {
        (void)bh_map_del(&d->places, o->ns);
        bh_free(p);
    }
}

static void budget_added(void *arg, struct bh_obj *o)
{
    struct dis *d = arg;
    const struct bh_policy_v1_pod_disruption_budget *src = bh_obj_struct(o);
    struct budget *b = bh_calloc(1, sizeof(*b));
    const struct bh_meta_v1_label_selector *s = NULL;

    b->a = bh_arena_new(0);
    b->key = bh_str_fmt(b->a, "%.*s/%.*s", BH_SF(o->ns), BH_SF(o->name));
    if (src->spec.selector)
        s = bh_msg_dup(&bh_meta_v1_label_selector_type, src->spec.selector, b->a);
    (void)bh_label_selector_of(b->a, s, &b->sel);
    bh_list_add_tail(&place_of(d, o->ns, true)->budgets, &b->link);
    bh_workqueue_add(d->queue, b->key);
}

static void budget_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    forget(arg, old);
    budget_added(arg, o);
}

static void budget_deleted(void *arg, struct bh_obj *o)
{
    forget(arg, o);
}

/* Wakes the budgets that select the pod, and returns how many there are. */
static size_t wake(struct dis *d, const struct bh_obj *o)
{
    const struct place *p = place_of(d, o->ns, false);
    const struct bh_core_v1_pod *pod;
    size_t n = 0;

    if (!p)
        return 0;
    pod = bh_obj_struct(o);
    bh_list_for(l, &p->budgets)
    {
        struct budget *b = bh_container(l, struct budget, link);

        if (!bh_label_selector_match(&b->sel, &pod->metadata.labels))
            continue;
        bh_workqueue_add(d->queue, b->key);
        n++;
    }
    return n;
}

static void watch_stale(struct dis *d, const struct bh_obj *o)
{
    int64_t left = stale_in(d, o);
    BH_AUTO_ARENA a = NULL;

    if (left < 0)
        return;
    a = bh_arena_new(0);
    bh_workqueue_add_after(d->stale, bh_str_fmt(a, "%.*s/%.*s", BH_SF(o->ns), BH_SF(o->name)),
                           left * 1000);
}

static void pod_added(void *arg, struct bh_obj *o)
{
    struct dis *d = arg;

    if (wake(d, o) > 1)
        bh_event(d->ctl->recorder, o, "Warning", "MultiplePodDisruptionBudgets",
                 "Pod \"%.*s\"/\"%.*s\" matches multiple PodDisruptionBudgets. No eviction of it "
                 "will be granted.",
                 BH_SF(o->ns), BH_SF(o->name));
    watch_stale(d, o);
}

static void pod_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct dis *d = arg;

    (void)wake(d, old); /* its labels may have selected it before */
    (void)wake(d, o);
    watch_stale(d, o);
}

static void pod_deleted(void *arg, struct bh_obj *o)
{
    (void)wake(arg, o);
}

/* A scale has changed: the budgets of its namespace count anew. */
static void owner_added(void *arg, struct bh_obj *o)
{
    struct dis *d = arg;
    const struct place *p = place_of(d, o->ns, false);

    if (p)
        bh_list_for(l, &p->budgets)
            bh_workqueue_add(d->queue, bh_container(l, struct budget, link)->key);
}

static void owner_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    owner_added(arg, o);
}

static bool all_synced(const struct dis *d)
{
    return ctl_synced(
        (struct bh_informer *[]){d->budgets, d->pods, d->rc, d->rs, d->deployments, d->sts}, 6);
}

static void one_synced(void *arg)
{
    struct dis *d = arg;

    if (!all_synced(d))
        return;
    bh_workqueue_resume(d->queue);
    bh_workqueue_resume(d->stale);
}

/* ---- life ---- */

static const struct bh_informer_ops budget_ops = {budget_added, budget_updated, budget_deleted,
                                                  one_synced};
static const struct bh_informer_ops pod_ops = {pod_added, pod_updated, pod_deleted, one_synced};
static const struct bh_informer_ops owner_ops = {owner_added, owner_updated, owner_added,
                                                 one_synced};

static void *dis_start(struct ctl *ctl)
{
    struct dis *d = bh_calloc(1, sizeof(*d));
    struct ctl_informers *i = ctl->informers;

    d->ctl = ctl;
    bh_list_init(&d->works);
    d->queue = bh_workqueue_new(ctl->loop, WORKERS, budget_sync, d);
    d->stale = bh_workqueue_new(ctl->loop, WORKERS, stale_sync, d);
    bh_workqueue_pause(d->queue);
    bh_workqueue_pause(d->stale);
    d->budgets = ctl_subscribe(i, &bh_policy_v1_pod_disruption_budget_kind, &budget_ops, d);
    d->rc = ctl_subscribe(i, &bh_core_v1_replication_controller_kind, &owner_ops, d);
    d->rs = ctl_subscribe(i, &bh_apps_v1_replica_set_kind, &owner_ops, d);
    d->deployments = ctl_subscribe(i, &bh_apps_v1_deployment_kind, &owner_ops, d);
    d->sts = ctl_subscribe(i, &bh_apps_v1_stateful_set_kind, &owner_ops, d);
    d->pods = ctl_subscribe(i, &bh_core_v1_pod_kind, &pod_ops, d);
    return d;
}

static void dis_stop(void *self)
{
    struct dis *d = self;
    void *v;

    bh_list_for_safe(l, &d->works)
    {
        struct work *w = bh_container(l, struct work, link);

        bh_client_cancel(d->ctl->client, w->call);
        bh_free(w);
    }
    d->queue = bh_workqueue_free(d->queue);
    d->stale = bh_workqueue_free(d->stale);
    for (size_t it = 0; bh_map_next(&d->places, &it, NULL, &v);) {
        struct place *p = v;

        bh_list_for_safe(l, &p->budgets)
        {
            struct budget *b = bh_container(l, struct budget, link);

            (void)bh_arena_free(b->a);
            bh_free(b);
        }
        bh_free(p);
    }
    bh_map_done(&d->places);
    bh_free(d);
}

const struct ctl_controller ctl_disruption = {"disruption-controller", dis_start, dis_stop};
