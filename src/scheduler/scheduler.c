/* The scheduler's life: informers feed the view, what they say wakes waiting pods, and a turn of
 * the loop works on the queue for a bounded time. */
#include "scheduler/scheduler.h"

#include <string.h>

#include "api/engine.h"
#include "api/gen/apps_v1.h"
#include "api/gen/policy_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "api/gen/scheduling_v1alpha2.h"
#include "api/gen/storage_v1.h"
#include "base/log.h"
#include "scheduler/sched_int.h"

/* One turn: others on this loop (the API server, perhaps) wait so long at most. */
#define TURN_NS        2000000
#define TURN_PODS      256 /* a virtual loop's clock stands still within a turn */
#define BINDS_MAX      4096
#define PROBE_AGAIN_MS 200

/* ---- turns ---- */

static void on_turn(void *arg)
{
    struct bh_scheduler *s = arg;
    int64_t begun = bh_loop_wall_ns(s->loop), now = begun;
    struct spod *pod;

    for (int i = 0; i < TURN_PODS && s->binds_n < BINDS_MAX && now - begun < TURN_NS; i++) {
        pod = sched_queue_pop(s);
        if (!pod)
            break;
        sched_attempt(s, pod);
        now = bh_loop_wall_ns(s->loop);
    }
    s->stats.turn_ns += now - begun;
    if (s->binds_n < BINDS_MAX) /* otherwise the end of a bind goes on */
        sched_turn_soon(s);
}

void sched_turn_soon(struct bh_scheduler *s)
{
    if (s->ready && !s->opts.observe && !bh_timer_armed(&s->turn) && (s->active.n || s->backoff.n))
        bh_timer_start_ns(&s->turn, 0);
}

static void check_ready(struct bh_scheduler *s)
{
    const struct bh_informer *const all[] = {s->inf_pods, s->inf_nodes, s->inf_claims,
                                             s->inf_slices, s->inf_classes};

    if (s->ready)
        return;
    for (size_t i = 0; i < BH_COUNT(all); i++)
        if (!bh_informer_synced(all[i]))
            return;
    for (size_t i = 0; i < SCHED_OPTIONAL; i++)
        if (!s->optional[i].known ||
            (*s->optional[i].informer && !bh_informer_synced(*s->optional[i].informer)))
            return;
    s->ready = true;
    bh_log(BH_DEBUG, "scheduler ready", BH_I64("nodes", s->nodes.n), BH_I64("pods", s->pods.n));
    sched_turn_soon(s);
}

static void on_synced(void *arg)
{
    check_ready(arg);
}

/* ---- pods ---- */

const struct sched_profile *sched_profile_of(const struct bh_scheduler *s,
                                             const struct bh_core_v1_pod *p)
{
    struct bh_str name = p->spec.scheduler_name.n ? p->spec.scheduler_name : BH_S(DEFAULT_NAME);

    for (size_t i = 0; i < s->profiles_n; i++)
        if (bh_str_eq(s->profiles[i].name, name))
            return &s->profiles[i];
    return NULL;
}

struct bh_recorder *sched_recorder(const struct bh_scheduler *s, const struct spod *pod)
{
    return s->recorders[pod->prof ? (size_t)(pod->prof - s->profiles) : 0];
}

/* Puts the pod where its object says it belongs: on its node, or into the queue. */
static void place(struct bh_scheduler *s, struct spod *pod)
{
    if (pod->p->spec.node_name.n) {
        struct snode *n;

        if (pod->node && bh_str_eq(pod->node->name, pod->p->spec.node_name)) {
            bool decided = pod->assumed;

            pod->assumed = false; /* as decided, or as it was */
            /* Only these wait for others to come; nobody else is disturbed by our own decisions. */
            if (decided &&
                (s->waiting_by[PL_INTER_POD_AFFINITY] || s->waiting_by[PL_TOPOLOGY_SPREAD]))
                sched_happened(
                    s, &(struct happening){.ev = EV_POD_ADD, .node = pod->node, .pod = pod});
            return;
        }
        if (pod->where != POD_BINDING)
            sched_dequeue(s, pod);
        sched_node_del_pod(s, pod);
        pod->assumed = false;
        n = sched_node_get(s, pod->p->spec.node_name);
        sched_node_add_pod(s, n, pod);
        sched_denominate(s, pod);
        sched_happened(s, &(struct happening){.ev = EV_POD_ADD, .node = n, .pod = pod});
    } else if (pod->prof && !pod->obj->deleting && pod->where == POD_OFF && !pod->assumed) {
        sched_enqueue(s, pod);
    } else if (pod->obj->deleting && pod->where != POD_BINDING) {
        sched_dequeue(s, pod); /* it goes; a place would be wasted on it */
    }
}

static void remove_pod(struct bh_scheduler *s, struct spod *pod)
{
    struct snode *n = pod->node && pod->node->obj ? pod->node : NULL;

    (void)bh_map_del(&s->pods, pod->obj->uid);
    sched_bind_pod_gone(pod);
    sched_dequeue(s, pod);
    sched_denominate(s, pod);
    if (pod->node)
        sched_node_del_pod(s, pod);
    if (n)
        sched_happened(s, &(struct happening){.ev = EV_POD_GONE, .node = n, .pod = pod});
    sched_away_changed(s, pod->obj->uid);
    sched_gang_leave(s, pod);
    (void)sched_pod_free(s, pod);
}

static void pod_added(void *arg, struct bh_obj *o)
{
    struct bh_scheduler *s = arg;
    const struct bh_core_v1_pod *p = bh_obj_struct(o);
    struct spod *pod;

    if (sched_pod_terminal(p))
        return;
    pod = sched_pod_new(s, o);
    (void)bh_map_put(&s->pods, o->uid, pod);
    sched_gang_join(s, pod);
    /* Room that an earlier life of ours began to make for it. */
    if (!p->spec.node_name.n && p->status.nominated_node_name.n)
        sched_nominate(pod, sched_node_get(s, p->status.nominated_node_name));
    place(s, pod);
    if (pod->gang)
        sched_gang_wake(s, pod->gang); /* perhaps it was the last one missing */
}

static void pod_deleted(void *arg, struct bh_obj *last)
{
    struct bh_scheduler *s = arg;
    struct spod *pod = bh_map_get(&s->pods, last->uid);

    if (pod)
        remove_pod(s, pod);
}

/* Whether the pod asks for less of something than these amounts. */
static bool shrank(const struct spod *pod, const struct res_amount *was, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct res_amount *now = sched_pod_req(pod, was[i].id);

        if (!now || now->v < was[i].v)
            return true;
    }
    return false;
}

/* Takes the new object where what it asks, or its labels, changed: its node counts it anew. */
static void respec(struct bh_scheduler *s, struct spod *pod, struct bh_obj *o)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct res_amount *req;
    uint32_t req_n = pod->req_n;
    struct bh_str node;
    bool relabelled = !sched_same_labels(&pod->obj->labels, &o->labels);

    if (!pod->node) {
        sched_pod_set(s, pod, o);
        return;
    }
    node = bh_str_dup(a, pod->node->name);
    req = bh_new_n(a, struct res_amount, req_n);
    for (uint32_t i = 0; i < req_n; i++)
        req[i] = pod->req[i];
    sched_node_del_pod(s, pod);
    sched_pod_set(s, pod, o);
    sched_node_add_pod(s, sched_node_get(s, node), pod);
    if (relabelled)
        sched_happened(
            s, &(struct happening){.ev = EV_POD_LABEL, .node = pod->node, .pod = pod, .obj = o});
    if (shrank(pod, req, req_n))
        sched_happened(
            s, &(struct happening){.ev = EV_POD_SMALLER, .node = pod->node, .pod = pod, .obj = o});
}

static bool same_sizes(const struct bh_core_v1_container_status_vec *a,
                       const struct bh_core_v1_container_status_vec *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct bh_core_v1_container_status *x = &a->p[i], *y = &b->p[i];

        if (!x->resources != !y->resources ||
            !sched_same_labels(&x->allocated_resources, &y->allocated_resources) ||
            (x->resources && !sched_same_labels(&x->resources->requests, &y->resources->requests)))
            return false;
    }
    return true;
}

static struct bh_str resize_reason(const struct bh_core_v1_pod *p)
{
    for (size_t i = 0; i < p->status.conditions.n; i++)
        if (bh_str_eqc(p->status.conditions.p[i].type, "PodResizePending"))
            return p->status.conditions.p[i].reason;
    return (struct bh_str){NULL, 0};
}

/* Whether a resize goes on, or ended, so that the pod may count differently. */
static bool resizes(const struct bh_core_v1_pod *a, const struct bh_core_v1_pod *b)
{
    if (!a->status.resources != !b->status.resources ||
        !sched_same_labels(&a->status.allocated_resources, &b->status.allocated_resources) ||
        (a->status.resources &&
         !sched_same_labels(&a->status.resources->requests, &b->status.resources->requests)))
        return true;
    return !same_sizes(&a->status.container_statuses, &b->status.container_statuses) ||
           !same_sizes(&a->status.init_container_statuses, &b->status.init_container_statuses) ||
           !bh_str_eq(resize_reason(a), resize_reason(b));
}

/* A pod that got its node asks what it asked before. */
static bool asks_the_same(const struct bh_core_v1_pod *a, const struct bh_core_v1_pod *b)
{
    struct bh_core_v1_pod_spec was = a->spec;

    was.node_name = b->spec.node_name;
    return bh_msg_equal(&bh_core_v1_pod_spec_type, &was, &b->spec);
}

static void pod_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct bh_scheduler *s = arg;
    struct spod *pod = bh_map_get(&s->pods, old->uid);
    struct bh_obj *was;

    if (!bh_str_eq(old->uid, o->uid) || !pod || sched_pod_terminal(bh_obj_struct(o))) {
        if (pod)
            remove_pod(s, pod);
        if (!pod || !bh_str_eq(old->uid, o->uid))
            pod_added(s, o);
        return;
    }
    was = bh_obj_ref(pod->obj);
    if (!asks_the_same(bh_obj_struct(was), bh_obj_struct(o)) ||
        !sched_same_labels(&was->labels, &o->labels) ||
        resizes(bh_obj_struct(was), bh_obj_struct(o))) {
        respec(s, pod, o);
    } else {
        sched_pod_renew(s, pod, o);
    }
    place(s, pod);
    if (pod->where == POD_GATED || pod->where == POD_WAITING)
        sched_wake_self(s, pod, was);
    (void)bh_obj_unref(was);
}

/* ---- nodes ---- */

static bool same_words(const struct bh_str_vec *a, const struct bh_str_vec *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!bh_str_eq(a->p[i], b->p[i]))
            return false;
    return true;
}

static uint32_t node_changes(const struct bh_obj *old, const struct bh_obj *o)
{
    const struct bh_core_v1_node *a = bh_obj_struct(old), *b = bh_obj_struct(o);
    uint32_t ev = 0;

    if (!sched_same_labels(&old->labels, &o->labels))
        ev |= EV_NODE_LABEL;
    if (!sched_same_labels(&a->status.allocatable, &b->status.allocatable))
        ev |= EV_NODE_ALLOCATABLE;
    if (a->spec.unschedulable != b->spec.unschedulable ||
        !bh_msg_equal(&bh_core_v1_node_spec_type, &a->spec, &b->spec))
        ev |= EV_NODE_TAINT;
    if (!same_words(&a->status.declared_features, &b->status.declared_features))
        ev |= EV_NODE_FEATURE;
    return ev;
}

static void node_added(void *arg, struct bh_obj *o)
{
    struct bh_scheduler *s = arg;

    sched_node_put(s, o);
    bh_dra_node_put(s->model, o->name, &o->labels);
    sched_happened(
        s, &(struct happening){.ev = EV_NODE_ADD, .node = sched_node_find(s, o->name), .obj = o});
}

static void node_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct bh_scheduler *s = arg;
    uint32_t ev = node_changes(old, o);

    sched_node_put(s, o);
    if (ev & EV_NODE_LABEL) {
        bh_dra_node_put(s->model, o->name, &o->labels);
        sched_vbind_look(s);
    }
    for (uint32_t bit = 1; bit <= EV_NODE_FEATURE; bit <<= 1)
        if (ev & bit)
            sched_happened(s, &(struct happening){.ev = (enum event)bit,
                                                  .node = sched_node_find(s, o->name),
                                                  .old = old,
                                                  .obj = o});
}

static void node_deleted(void *arg, struct bh_obj *last)
{
    struct bh_scheduler *s = arg;

    s->epoch++;
    sched_node_del(s, last->name);
    bh_dra_node_del(s->model, last->name);
    sched_vbind_look(s);
}

/* ---- claims ---- */

void sched_claim_settle(struct bh_scheduler *s, const struct bh_obj *o)
{
    struct written *w = bh_map_get(&s->written, o->uid);
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(o);

    if (!w || o->rv < w->rv)
        return;
    if (!c->status.allocation) {
        bh_dra_unreserve(s->model, o->uid);
        sched_devices_freed(s);
    }
    (void)bh_map_del(&s->written, o->uid);
    bh_free(w);
}

/* A claim that we wrote and that is in no list since is gone: its deletion was never told when the
 * informer had not seen it before its watch was lost. */
static void claims_listed(void *arg, uint64_t rv)
{
    struct bh_scheduler *s = arg;
    size_t it = 0;
    struct bh_str uid;
    void *v;
    bool freed = false;

    if (s->written.n == 0)
        return;
    for (const struct bh_obj *o; (o = bh_informer_next(s->inf_claims, &it));) {
        struct written *w = bh_map_get(&s->written, o->uid);

        if (w)
            w->seen = rv;
    }
    for (it = 0; bh_map_next(&s->written, &it, &uid, &v);) {
        struct written *w = v;

        if (w->seen == rv || w->rv > rv)
            continue;
        bh_dra_unreserve(s->model, uid);
        (void)bh_map_del(&s->written, uid);
        bh_free(w);
        freed = true;
        it = 0;
    }
    if (freed)
        sched_devices_freed(s);
}

static void claim_changed(struct bh_scheduler *s, struct bh_obj *old, struct bh_obj *o)
{
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(o);
    bool reserved;

    if (!old && s->binds_n && bh_str_map_get(&c->metadata.annotations, BH_S(EXT_ANNOTATION)))
        sched_bind_made(s, o);
    reserved = bh_dra_is_reserved(s->model, o->uid);
    bh_dra_claim_put(s->model, o);
    if (reserved && !bh_dra_is_reserved(s->model, o->uid))
        sched_holder_confirmed(s);
    sched_claim_settle(s, o);
    sched_give_seen(s, o, false);
    if (!bh_list_empty(&s->bind_waits))
        sched_bind_claim(s, o->uid);
    sched_happened(s, &(struct happening){.ev = EV_CLAIM, .old = old, .obj = o});
    sched_away_changed(s, o->uid);
}

static void claim_added(void *arg, struct bh_obj *o)
{
    claim_changed(arg, NULL, o);
}

static void claim_deleted(void *arg, struct bh_obj *last)
{
    struct bh_scheduler *s = arg;
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(last);
    struct written *w = bh_map_del(&s->written, last->uid);

    bh_free(w);
    sched_give_seen(s, last, true);
    bh_dra_claim_del(s->model, last->uid);
    if (!bh_list_empty(&s->bind_waits))
        sched_bind_claim(s, last->uid);
    /* A pod waits for the end of a claim that an earlier attempt left behind, used or not. */
    if (c->status.allocation || bh_str_map_get(&c->metadata.annotations, BH_S(EXT_ANNOTATION)))
        sched_devices_freed(s);
    sched_away_changed(s, last->uid);
}

static void claim_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    if (!bh_str_eq(old->uid, o->uid)) {
        claim_deleted(arg, old);
        old = NULL;
    }
    claim_changed(arg, old, o);
}

/* Devices became free without a claim of the API having changed so. */
void sched_devices_freed(struct bh_scheduler *s)
{
    sched_happened(s, &(struct happening){.ev = EV_SLICE});
}

/* ---- slices, classes, rules ---- */

static void slice_added(void *arg, struct bh_obj *o)
{
    struct bh_scheduler *s = arg;

    bh_dra_slice_put(s->model, o);
    sched_happened(s, &(struct happening){.ev = EV_SLICE, .obj = o});
}

static void slice_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct bh_scheduler *s = arg;
    const struct bh_resource_v1_resource_slice *a = bh_obj_struct(old), *b = bh_obj_struct(o);

    if (bh_msg_equal(&bh_resource_v1_resource_slice_spec_type, &a->spec, &b->spec))
        bh_dra_slice_put(s->model, o); /* it looks into the newest object */
    else
        slice_added(arg, o);
}

static void slice_deleted(void *arg, struct bh_obj *last)
{
    struct bh_scheduler *s = arg;

    s->epoch++; /* nobody is helped, but messages change */
    bh_dra_slice_del(s->model, last->name);
}

static void class_added(void *arg, struct bh_obj *o)
{
    struct bh_scheduler *s = arg;

    bh_dra_class_put(s->model, o);
    sched_happened(s, &(struct happening){.ev = EV_CLASS, .obj = o});
}

static void class_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    class_added(arg, o);
}

static void class_deleted(void *arg, struct bh_obj *last)
{
    struct bh_scheduler *s = arg;

    bh_dra_class_del(s->model, last->name);
}

static void rule_added(void *arg, struct bh_obj *o)
{
    struct bh_scheduler *s = arg;

    bh_dra_rule_put(s->model, o);
    sched_devices_freed(s); /* a changed rule may select less than before */
}

static void rule_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    const struct bh_resource_v1beta2_device_taint_rule *a = bh_obj_struct(old),
                                                       *b = bh_obj_struct(o);

    if (bh_msg_equal(&bh_resource_v1beta2_device_taint_rule_spec_type, &a->spec, &b->spec))
        return; /* its status counts evictions, many times */
    rule_added(arg, o);
}

static void rule_deleted(void *arg, struct bh_obj *last)
{
    struct bh_scheduler *s = arg;

    bh_dra_rule_del(s->model, last->name);
    sched_devices_freed(s);
}

/* ---- what is only looked up: a change may help somebody ---- */

static void volume_happened(struct bh_scheduler *s, const struct bh_obj *old,
                            const struct bh_obj *o, bool gone)
{
    sched_happened(s, &(struct happening){.ev = EV_VOLUME, .old = old, .obj = o, .gone = gone});
    sched_vbind_look(s);
}

static void volume_added(void *arg, struct bh_obj *o)
{
    volume_happened(arg, NULL, o, false);
}

static void volume_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    volume_happened(arg, old, o, false);
}

static void volume_deleted(void *arg, struct bh_obj *last)
{
    volume_happened(arg, NULL, last, true);
}

static void attachment_added(void *arg, struct bh_obj *o)
{
    sched_attachment_put(arg, o);
}

static void attachment_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    sched_attachment_del(arg, old);
    sched_attachment_put(arg, o);
}

static void attachment_deleted(void *arg, struct bh_obj *last)
{
    sched_attachment_del(arg, last);
    volume_deleted(arg, last);
}

static void namespace_added(void *arg, struct bh_obj *o)
{
    sched_happened(arg, &(struct happening){.ev = EV_NAMESPACE, .obj = o});
}

static void namespace_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    if (!sched_same_labels(&old->labels, &o->labels))
        namespace_added(arg, o);
}

/* ---- pod groups ---- */

static void group_added(void *arg, struct bh_obj *o)
{
    sched_gang_put(arg, o);
}

static void group_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    if (!bh_str_eq(old->uid, o->uid))
        sched_gang_del(arg, old);
    sched_gang_put(arg, o);
}

static void group_deleted(void *arg, struct bh_obj *last)
{
    sched_gang_del(arg, last);
}

/* ---- life ---- */

static const struct bh_informer_ops volume_ops = {volume_added, volume_updated, volume_deleted,
                                                  on_synced};
static const struct bh_informer_ops attachment_ops = {attachment_added, attachment_updated,
                                                      attachment_deleted, on_synced};
static const struct bh_informer_ops namespace_ops = {namespace_added, namespace_updated, NULL,
                                                     on_synced};
static const struct bh_informer_ops group_ops = {group_added, group_updated, group_deleted,
                                                 on_synced};
static const struct bh_informer_ops quiet_ops = {NULL, NULL, NULL, on_synced};
static const struct bh_informer_ops pod_ops = {pod_added, pod_updated, pod_deleted, on_synced};
static const struct bh_informer_ops node_ops = {node_added, node_updated, node_deleted, on_synced};
static const struct bh_informer_ops claim_ops = {claim_added, claim_updated, claim_deleted,
                                                 on_synced, claims_listed};
static const struct bh_informer_ops slice_ops = {slice_added, slice_updated, slice_deleted,
                                                 on_synced};
static const struct bh_informer_ops class_ops = {class_added, class_updated, class_deleted,
                                                 on_synced};
static const struct bh_informer_ops rule_ops = {rule_added, rule_updated, rule_deleted, on_synced};

static struct bh_informer *follow(struct bh_scheduler *s, const struct bh_kind *k,
                                  const struct bh_informer_ops *ops)
{
    struct bh_str none = {NULL, 0};

    return bh_informer_new(s->client, k, none, none, none, ops, s);
}

/* Kinds that a server may not serve (beta versions, or a small server): such are simply not there.
 */
static void probe(void *arg);

static void probed(void *arg, const struct bh_client_res *res)
{
    struct sched_optional *o = arg;

    o->call = 0;
    if (res->status == 0 || res->status >= 500 || res->status == 429) {
        bh_timer_start(&o->again, PROBE_AGAIN_MS);
        return;
    }
    o->known = true;
    if (res->status >= 200 && res->status < 300)
        *o->informer = follow(o->s, o->kind, o->ops);
    else
        bh_log(BH_DEBUG, "kind is not served", BH_STR("kind", o->kind->kind));
    check_ready(o->s);
}

static void probe(void *arg)
{
    struct sched_optional *o = arg;
    struct bh_client_req req = {.verb = BH_VERB_LIST, .kind = o->kind, .query = BH_S("limit=1")};

    o->call = bh_client_call(o->s->client, &req, probed, o);
}

static void probe_all(struct bh_scheduler *s)
{
    const struct sched_optional all[SCHED_OPTIONAL] = {
        {.kind = &bh_resource_v1beta2_device_taint_rule_kind,
         .ops = &rule_ops,
         .informer = &s->inf_rules},
        {.kind = &bh_core_v1_namespace_kind, .ops = &namespace_ops, .informer = &s->inf_namespaces},
        {.kind = &bh_core_v1_persistent_volume_claim_kind,
         .ops = &volume_ops,
         .informer = &s->inf_pvcs},
        {.kind = &bh_core_v1_persistent_volume_kind, .ops = &volume_ops, .informer = &s->inf_pvs},
        {.kind = &bh_storage_v1_storage_class_kind,
         .ops = &volume_ops,
         .informer = &s->inf_storage},
        {.kind = &bh_storage_v1_csi_node_kind, .ops = &volume_ops, .informer = &s->inf_csinodes},
        {.kind = &bh_storage_v1_csi_driver_kind,
         .ops = &volume_ops,
         .informer = &s->inf_csidrivers},
        {.kind = &bh_storage_v1_csi_storage_capacity_kind,
         .ops = &volume_ops,
         .informer = &s->inf_capacities},
        {.kind = &bh_storage_v1_volume_attachment_kind,
         .ops = &attachment_ops,
         .informer = &s->inf_attachments},
        {.kind = &bh_policy_v1_pod_disruption_budget_kind,
         .ops = &quiet_ops,
         .informer = &s->inf_pdbs},
        {.kind = &bh_core_v1_service_kind, .ops = &quiet_ops, .informer = &s->inf_services},
        {.kind = &bh_core_v1_replication_controller_kind,
         .ops = &quiet_ops,
         .informer = &s->inf_rcs},
        {.kind = &bh_apps_v1_replica_set_kind, .ops = &quiet_ops, .informer = &s->inf_rss},
        {.kind = &bh_scheduling_v1alpha2_pod_group_kind,
         .ops = &group_ops,
         .informer = &s->inf_podgroups},
        {.kind = &bh_apps_v1_stateful_set_kind, .ops = &quiet_ops, .informer = &s->inf_stss},
    };

    for (size_t i = 0; i < SCHED_OPTIONAL; i++) {
        struct sched_optional *o = &s->optional[i];

        *o = all[i];
        o->s = s;
        bh_timer_init(&o->again, s->loop, probe, o);
        probe(o);
    }
}

/* Resources of scores get their numbers. */
static struct res_weights numbered(struct bh_scheduler *s, const struct res_weights *w)
{
    struct res_weights r = *w;

    r.p = bh_new_n(s->arena, struct res_weight, w->n);
    for (size_t i = 0; i < w->n; i++) {
        r.p[i] = w->p[i];
        r.p[i].id = sched_res_id(s, w->p[i].name);
    }
    return r;
}

static int take_config(struct bh_scheduler *s, const struct bh_scheduler_config *cfg,
                       struct bh_err *err)
{
    if (!cfg) {
        int r = sched_config_parse((struct bh_str){NULL, 0}, &s->own_config, err);

        if (r < 0)
            return r;
        cfg = s->own_config;
    }
    s->backoff_first_ns = cfg->c->pod_initial_backoff_seconds * 1000000000;
    s->backoff_max_ns = cfg->c->pod_max_backoff_seconds * 1000000000;
    s->profiles_n = cfg->profiles_n;
    s->profiles = bh_new_n(s->arena, struct sched_profile, s->profiles_n);
    s->recorders = bh_new_n(s->arena, struct bh_recorder *, s->profiles_n);
    s->figures = bh_new_n(s->arena, struct sched_figures, s->profiles_n);
    for (size_t i = 0; i < s->profiles_n; i++) {
        s->profiles[i] = cfg->profiles[i];
        s->profiles[i].fit = numbered(s, &cfg->profiles[i].fit);
        s->profiles[i].balanced = numbered(s, &cfg->profiles[i].balanced);
        s->recorders[i] =
            bh_recorder_new(s->client, bh_str_dup(s->arena, cfg->profiles[i].name).p, "");
    }
    return 0;
}

struct bh_scheduler *bh_scheduler_new(struct bh_client *c, const struct bh_scheduler_opts *opts,
                                      struct bh_err *err)
{
    struct bh_scheduler *s = bh_calloc(1, sizeof(*s));
    struct bh_dra_features f = bh_dra_features_default();
    static const char *const fixed[RES_FIXED] = {"cpu", "memory", "ephemeral-storage", "pods"};

    s->client = c;
    s->loop = bh_client_loop(c);
    if (opts)
        s->opts = *opts;
    f.taint_rules = f.list_attributes = true; /* both are served by our API server */
    s->kinds = sched_kinds_new();
    s->model = bh_dra_model_new(&f);
    s->attempt_arena = bh_arena_new(0);
    s->scratch = bh_arena_new(0);
    s->arena = bh_arena_new(0);
    s->res_names = bh_calloc(RES_NAMES_MAX, sizeof(*s->res_names));
    for (size_t i = 0; i < RES_FIXED; i++)
        (void)sched_res_id(s, bh_s(fixed[i]));
    bh_list_init(&s->binds);
    bh_list_init(&s->bind_waits);
    bh_list_init(&s->volume_waits);
    bh_list_init(&s->giving);
    bh_list_init(&s->removing);
    bh_timer_init(&s->turn, s->loop, on_turn, s);
    if (take_config(s, opts ? opts->config : NULL, err) < 0)
        return bh_scheduler_free(s);
    sched_queue_init(s);
    s->inf_classes = follow(s, &bh_resource_v1_device_class_kind, &class_ops);
    s->inf_slices = follow(s, &bh_resource_v1_resource_slice_kind, &slice_ops);
    s->inf_nodes = follow(s, &bh_core_v1_node_kind, &node_ops);
    s->inf_claims = follow(s, &bh_resource_v1_resource_claim_kind, &claim_ops);
    s->inf_pods = follow(s, &bh_core_v1_pod_kind, &pod_ops);
    probe_all(s);
    return s;
}

static void unfollow(struct bh_scheduler *s)
{
    struct bh_informer *all[] = {s->inf_pods, s->inf_nodes, s->inf_claims, s->inf_slices,
                                 s->inf_classes};

    for (size_t i = 0; i < SCHED_OPTIONAL; i++) {
        bh_timer_stop(&s->optional[i].again);
        if (s->optional[i].call)
            bh_client_cancel(s->client, s->optional[i].call);
        (void)bh_informer_free(*s->optional[i].informer);
    }
    for (size_t i = 0; i < BH_COUNT(all); i++)
        (void)bh_informer_free(all[i]);
}

void bh_scheduler_stats(const struct bh_scheduler *s, struct bh_scheduler_stats *ret,
                        struct bh_dra_stats *dra)
{
    *ret = s->stats;
    ret->ready = s->ready;
    ret->waiting = s->waiting_n;
    if (dra)
        bh_dra_stats(s->model, dra);
}

struct bh_scheduler *bh_scheduler_free(struct bh_scheduler *s)
{
    size_t it = 0;
    void *v;

    if (!s)
        return NULL;
    s->ready = false; /* nothing that ends now begins anything */
    bh_timer_stop(&s->turn);
    bh_timer_stop(&s->confirmed);
    sched_bind_abandon(s);
    unfollow(s);
    while (bh_map_next(&s->pods, &it, NULL, &v)) {
        struct spod *pod = v;

        sched_dequeue(s, pod);
        sched_denominate(s, pod);
        sched_node_del_pod(s, pod);
        sched_gang_leave(s, pod);
        (void)sched_pod_free(s, pod);
    }
    bh_map_done(&s->pods);
    sched_give_done(s);
    sched_queue_done(s);
    sched_failures_done(s);
    sched_nodes_done(s);
    sched_gangs_done(s);
    for (it = 0; bh_map_next(&s->written, &it, NULL, &v);)
        bh_free(v);
    bh_map_done(&s->written);
    bh_map_done(&s->allocating);
    bh_map_done(&s->pvc_users);
    bh_map_done(&s->assumed_pvs);
    bh_map_done(&s->assumed_pvcs);
    sched_attachments_done(s);
    bh_map_done(&s->res_ids);
    bh_map_done(&s->images);
    for (uint32_t i = 0; i < s->res_n; i++)
        bh_free((void *)(uintptr_t)s->res_names[i].p);
    bh_free(s->res_names);
    (void)bh_arena_free(s->attempt_arena);
    (void)bh_arena_free(s->scratch);
    for (size_t i = 0; i < s->profiles_n; i++)
        (void)bh_recorder_free(s->recorders[i]);
    (void)bh_arena_free(s->arena);
    (void)bh_scheduler_config_free(s->own_config);
    (void)sched_kinds_free(s->kinds);
    (void)bh_dra_model_free(s->model);
    bh_free(s);
    return NULL;
}
