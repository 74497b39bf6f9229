/* node-lifecycle-controller: a node that stops renewing its lease becomes Unknown, and conditions
 * become taints.
 *
 * Heartbeats are judged by our own clock: a node is alive when its lease or its Ready condition was
 * seen to change within the grace period. Looked at each 5 s, and at once when a node changes. Pods
 * of a node that stops being ready are marked not ready.
 */
#include <stdio.h>

#include "api/gen/coordination_v1.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/map.h"
#include "controllers/controllers_int.h"
#include "data/json.h"
#include "data/time_fmt.h"

#define MONITOR_MS 5000
#define GRACE_MS   50000
#define LEASE_NS   "kube-node-lease"

struct beat {
    int64_t seen_ns; /* monotonic */
};

struct lifecycle {
    struct ctl *ctl;
    struct bh_informer *nodes, *pods, *leases;
    struct bh_map beats; /* node name -> struct beat */
    struct bh_workqueue *queue;
    struct bh_timer monitor;
};

static void beat(struct lifecycle *lc, struct bh_str node)
{
    struct beat *b = bh_map_get(&lc->beats, node);

    if (!b) {
        b = bh_calloc(1, sizeof(*b));
        (void)bh_map_put(&lc->beats, node, b);
    }
    b->seen_ns = bh_loop_mono_ns(lc->ctl->loop);
}

static const struct bh_core_v1_node_condition *condition(const struct bh_core_v1_node *n,
                                                         const char *type)
{
    for (size_t i = 0; i < n->status.conditions.n; i++)
        if (bh_str_eqc(n->status.conditions.p[i].type, type))
            return &n->status.conditions.p[i];
    return NULL;
}

/* ---- conditions to taints ---- */

struct wanted {
    const char *key, *effect;
    bool on;
};

static void taint_json(struct bh_buf *b, bool *any, struct bh_str key, struct bh_str value,
                       struct bh_str effect, struct bh_time added)
{
    char when[64];

    bh_buf_addz(b, *any ? ",{\"key\":" : "{\"key\":");
    *any = true;
    bh_json_write_str(b, key);
    if (value.n) {
        bh_buf_addz(b, ",\"value\":");
        bh_json_write_str(b, value);
    }
    bh_buf_addz(b, ",\"effect\":");
    bh_json_write_str(b, effect);
    if (!bh_time_is_zero(added))
        bh_buf_addf(b, ",\"timeAdded\":\"%.*s\"", BH_SF(bh_time_fmt(added, when)));
    bh_buf_addc(b, '}');
}

/* Brings the taints that this controller owns to what the conditions say; others stay. Returns
 * whether a write began. */
static bool sync_taints(struct lifecycle *lc, const struct bh_obj *o,
                        const struct bh_core_v1_node *n)
{
    const struct bh_core_v1_node_condition *ready = condition(n, "Ready");
    bool unknown = ready && bh_str_eqc(ready->status, "Unknown");
    bool not_ready = !ready || bh_str_eqc(ready->status, "False");
    const struct bh_core_v1_node_condition *mem = condition(n, "MemoryPressure"),
                                           *disk = condition(n, "DiskPressure"),
                                           *pid = condition(n, "PIDPressure"),
                                           *net = condition(n, "NetworkUnavailable");
    const struct wanted all[] = {
        {"node.kubernetes.io/not-ready", "NoSchedule", not_ready},
        {"node.kubernetes.io/not-ready", "NoExecute", not_ready && ready},
        {"node.kubernetes.io/unreachable", "NoSchedule", unknown},
        {"node.kubernetes.io/unreachable", "NoExecute", unknown},
        {"node.kubernetes.io/memory-pressure", "NoSchedule",
         mem && bh_str_eqc(mem->status, "True")},
        {"node.kubernetes.io/disk-pressure", "NoSchedule",
         disk && bh_str_eqc(disk->status, "True")},
        {"node.kubernetes.io/pid-pressure", "NoSchedule", pid && bh_str_eqc(pid->status, "True")},
        {"node.kubernetes.io/network-unavailable", "NoSchedule",
         net && bh_str_eqc(net->status, "True")},
        {"node.kubernetes.io/unschedulable", "NoSchedule", n->spec.unschedulable},
    };
    BH_AUTO_BUF b = {.max = BH_BODY_BYTES_MAX};
    int64_t wall = bh_loop_wall_ns(lc->ctl->loop);
    bool have[BH_COUNT(all)] = {false}, any = false, changed = false;

    bh_buf_addf(&b, "{\"metadata\":{\"resourceVersion\":\"%llu\"},\"spec\":{\"taints\":[",
                (unsigned long long)o->rv);
    for (size_t i = 0; i < n->spec.taints.n; i++) {
        const struct bh_core_v1_taint *t = &n->spec.taints.p[i];
        bool drop = false;

        for (size_t k = 0; k < BH_COUNT(all); k++) {
            if (!bh_str_eqc(t->key, all[k].key) || !bh_str_eqc(t->effect, all[k].effect))
                continue;
            have[k] = true;
            drop = !all[k].on;
        }
        changed = changed || drop;
        if (!drop)
            taint_json(&b, &any, t->key, t->value, t->effect, t->time_added);
    }
    for (size_t k = 0; k < BH_COUNT(all); k++) {
        if (!all[k].on || have[k])
            continue;
        changed = true;
        taint_json(&b, &any, bh_s(all[k].key), (struct bh_str){0}, bh_s(all[k].effect),
                   (struct bh_time){wall / 1000000000, 0});
    }
    bh_buf_addz(&b, "]}}");
    /* A conflict means that the node changed: its event brings us back. */
    if (changed)
        (void)bh_client_patch(lc->ctl->client, &bh_core_v1_node_kind, (struct bh_str){0}, o->name,
                              "", BH_PATCH_MERGE, bh_buf_str(&b), NULL, NULL);
    return changed;
}

/* ---- nodes that went silent ---- */

static const struct bh_core_v1_pod_condition *pod_ready(const struct bh_core_v1_pod *pod)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++)
        if (bh_str_eqc(pod->status.conditions.p[i].type, "Ready"))
            return &pod->status.conditions.p[i];
    return NULL;
}

/* Pods that were ready are not, as far as anybody can tell. */
static void mark_pods(struct lifecycle *lc, struct bh_str node)
{
    int64_t wall = bh_loop_wall_ns(lc->ctl->loop);
    struct bh_obj *o;
    char when[64];

    for (size_t it = 0; (o = bh_informer_next(lc->pods, &it));) {
        const struct bh_core_v1_pod *pod = bh_obj_struct(o);
        const struct bh_core_v1_pod_condition *ready;

        if (!bh_str_eq(pod->spec.node_name, node) || ctl_pod_done(pod))
            continue;
        bh_event(lc->ctl->recorder, o, "Warning", "NodeNotReady", "Node is not ready");
        ready = pod_ready(pod);
        if (!ready || !bh_str_eqc(ready->status, "True"))
            continue;
        BH_AUTO_BUF b = {.max = 4096};
        bh_buf_addf(&b,
                    "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"conditions\":[{\"type\":"
                    "\"Ready\",\"status\":"
                    "\"False\",\"lastTransitionTime\":\"%.*s\"}]}}",
                    BH_SF(o->uid),
                    BH_SF(bh_time_fmt((struct bh_time){wall / 1000000000, 0}, when)));
        (void)bh_client_patch(lc->ctl->client, &bh_core_v1_pod_kind, o->ns, o->name, "status",
                              BH_PATCH_STRATEGIC, bh_buf_str(&b), NULL, NULL);
    }
}

static void mark_unknown(struct lifecycle *lc, const struct bh_obj *o,
                         const struct bh_core_v1_node *n)
{
    static const char *const types[] = {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"};
    BH_AUTO_BUF b = {.max = 8192};
    char when[64];
    bool any = false;

    int64_t wall = bh_loop_wall_ns(lc->ctl->loop);
    struct bh_str now = bh_time_fmt((struct bh_time){wall / 1000000000, 0}, when);
    bh_buf_addf(&b, "{\"metadata\":{\"resourceVersion\":\"%llu\"},\"status\":{\"conditions\":[",
                (unsigned long long)o->rv);
    for (size_t i = 0; i < BH_COUNT(types); i++) {
        const struct bh_core_v1_node_condition *c = condition(n, types[i]);

        if (c && bh_str_eqc(c->status, "Unknown"))
            continue;
        bh_buf_addf(
            &b,
            "%s{\"type\":\"%s\",\"status\":\"Unknown\",\"reason\":\"%s\",\"message\":\"%s\","
            "\"lastTransitionTime\":\"%.*s\"",
            any ? "," : "", types[i], c ? "NodeStatusUnknown" : "NodeStatusNeverUpdated",
            c ? "Kubelet stopped posting node status." : "Kubelet never posted node status.",
            BH_SF(now));
        if (!c)
            bh_buf_addf(&b, ",\"lastHeartbeatTime\":\"%.*s\"", BH_SF(now));
        bh_buf_addc(&b, '}');
        any = true;
    }
    bh_buf_addz(&b, "]}}");
    if (!any)
        return;
    bh_log(BH_WARN, "node is silent", BH_STR("node", o->name));
    (void)bh_client_patch(lc->ctl->client, &bh_core_v1_node_kind, (struct bh_str){0}, o->name,
                          "status", BH_PATCH_STRATEGIC, bh_buf_str(&b), NULL, NULL);
}

static bool silent(const struct lifecycle *lc, struct bh_str node)
{
    const struct beat *b = bh_map_get(&lc->beats, node);
    int64_t grace = lc->ctl->opts->node_grace_ms ? lc->ctl->opts->node_grace_ms : GRACE_MS;

    return b && bh_loop_mono_ns(lc->ctl->loop) - b->seen_ns > grace * 1000000;
}

static void node_sync(void *arg, struct bh_str name)
{
    struct lifecycle *lc = arg;
    struct bh_obj *o = bh_informer_get(lc->nodes, (struct bh_str){0}, name);

    if (o) {
        if (silent(lc, name))
            mark_unknown(lc, o, bh_obj_struct(o));
        (void)sync_taints(lc, o, bh_obj_struct(o));
    }
    bh_workqueue_done(lc->queue, name, BH_WORK_OK);
}

/* Every node: a write that failed is made good here. */
static void monitor(void *arg)
{
    struct lifecycle *lc = arg;
    struct bh_obj *o;

    for (size_t it = 0; (o = bh_informer_next(lc->nodes, &it));)
        bh_workqueue_add(lc->queue, o->name);
    bh_timer_start(&lc->monitor, MONITOR_MS);
}

/* ---- events ---- */

static void node_added(void *arg, struct bh_obj *o)
{
    struct lifecycle *lc = arg;

    beat(lc, o->name);
    bh_workqueue_add(lc->queue, o->name);
}

static void node_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct lifecycle *lc = arg;
    const struct bh_core_v1_node_condition *a = condition(bh_obj_struct(old), "Ready"),
                                           *b = condition(bh_obj_struct(o), "Ready");

    /* Only the node itself moves its heartbeat; what we write is no sign of life. */
    if (b && !bh_str_eqc(b->status, "Unknown") &&
        (!a || bh_time_cmp(a->last_heartbeat_time, b->last_heartbeat_time)))
        beat(lc, o->name);
    if (a && b && bh_str_eqc(a->status, "True") && !bh_str_eqc(b->status, "True")) {
        bh_event(lc->ctl->recorder, o, "Normal", "NodeNotReady",
                 "Node %.*s status is now: NodeNotReady", BH_SF(o->name));
        mark_pods(lc, o->name);
    }
    bh_workqueue_add(lc->queue, o->name);
}

static void node_deleted(void *arg, struct bh_obj *last)
{
    struct lifecycle *lc = arg;

    bh_free(bh_map_del(&lc->beats, last->name));
}

static void lease_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct lifecycle *lc = arg;
    const struct bh_coordination_v1_lease *a = bh_obj_struct(old), *b = bh_obj_struct(o);

    if (bh_str_eqc(o->ns, LEASE_NS) && bh_time_cmp(a->spec.renew_time, b->spec.renew_time) != 0 &&
        bh_informer_get(lc->nodes, (struct bh_str){0}, o->name))
        beat(lc, o->name);
}

static void lifecycle_begin(void *arg)
{
    struct lifecycle *lc = arg;

    if (ctl_synced((struct bh_informer *[]){lc->nodes, lc->pods, lc->leases}, 3))
        bh_workqueue_resume(lc->queue);
}

static const struct bh_informer_ops node_ops = {node_added, node_updated, node_deleted,
                                                lifecycle_begin};
static const struct bh_informer_ops lease_ops = {NULL, lease_updated, NULL, lifecycle_begin};
static const struct bh_informer_ops pod_ops = {NULL, NULL, NULL, lifecycle_begin};

static void *lifecycle_start(struct ctl *c)
{
    struct lifecycle *lc = bh_calloc(1, sizeof(*lc));

    lc->ctl = c;
    lc->queue = bh_workqueue_new(c->loop, 16, node_sync, lc);
    bh_workqueue_pause(lc->queue);
    lc->nodes = ctl_subscribe(c->informers, &bh_core_v1_node_kind, &node_ops, lc);
    lc->pods = ctl_subscribe(c->informers, &bh_core_v1_pod_kind, &pod_ops, lc);
    lc->leases = ctl_subscribe(c->informers, &bh_coordination_v1_lease_kind, &lease_ops, lc);
    bh_timer_init(&lc->monitor, c->loop, monitor, lc);
    bh_timer_start(&lc->monitor, MONITOR_MS);
    return lc;
}

static void lifecycle_stop(void *self)
{
    struct lifecycle *lc = self;
    void *v;

    bh_timer_stop(&lc->monitor);
    lc->queue = bh_workqueue_free(lc->queue);
    for (size_t it = 0; bh_map_next(&lc->beats, &it, NULL, &v);)
        bh_free(v);
    bh_map_done(&lc->beats);
    bh_free(lc);
}

const struct ctl_controller ctl_node_lifecycle = {"node-lifecycle-controller", lifecycle_start,
                                                  lifecycle_stop};
