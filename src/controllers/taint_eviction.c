/* taint-eviction-controller: pods leave a node whose NoExecute taints they do not tolerate (any
 * longer). */
#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "controllers/controllers_int.h"
#include "data/time_fmt.h"

#define KEY_MAX 600
#define LOOK_MS 60000

struct taint_evictor {
    struct ctl *ctl;
    struct bh_informer *pods, *nodes;
    struct bh_map by_node;      /* node name -> struct bh_map of pod keys */
    struct bh_workqueue *queue; /* pod keys; a planned eviction is a key that comes up later */
    struct bh_map plans;        /* pod key -> struct plan, of evictions that are due later */
    struct bh_link works;
};

struct plan {
    int64_t since_ns; /* Unix time: when the pod was first seen to have to go */
};

/* One pod that is being evicted: its condition, then its deletion. */
struct work {
    struct bh_link link;
    struct taint_evictor *e;
    struct bh_str key; /* the work queue's */
    struct bh_obj *pod;
    uint64_t call;
};

static bool tolerates(const struct bh_core_v1_toleration *t, const struct bh_core_v1_taint *taint)
{
    if ((t->effect.n && !bh_str_eq(t->effect, taint->effect)) ||
        (t->key.n && !bh_str_eq(t->key, taint->key)))
        return false;
    return bh_str_eqc(t->operator, "Exists") ||
           ((t->operator.n == 0 || bh_str_eqc(t->operator, "Equal")) &&
            bh_str_eq(t->value, taint->value));
}

/* Unix time in ns at which the pod has to leave its node; INT64_MAX when it may stay. Time counts
 * from when the taint was added; people often leave that out, then from first_ns. */
static int64_t leave_at(const struct bh_core_v1_pod *pod, const struct bh_core_v1_node *node,
                        int64_t now, int64_t first_ns)
{
    int64_t at = INT64_MAX;

    for (size_t i = 0; i < node->spec.taints.n; i++) {
        const struct bh_core_v1_taint *taint = &node->spec.taints.p[i];
        int64_t since =
            bh_time_is_zero(taint->time_added) ? first_ns : taint->time_added.sec * 1000000000;
        int64_t stay = INT64_MAX, due;
        bool tolerated = false;

        if (!bh_str_eqc(taint->effect, "NoExecute"))
            continue;
        for (size_t k = 0; k < pod->spec.tolerations.n; k++) {
            const struct bh_core_v1_toleration *t = &pod->spec.tolerations.p[k];

            if (!tolerates(t, taint))
                continue;
            tolerated = true;
            if (t->has_toleration_seconds && t->toleration_seconds < stay)
                stay = t->toleration_seconds < 0 ? 0 : t->toleration_seconds;
        }
        if (!tolerated)
            return now;
        if (stay == INT64_MAX || stay > INT32_MAX)
            continue;
        due = since + stay * 1000000000;
        at = due < at ? due : at;
    }
    return at;
}

static void work_end(struct work *w, const struct bh_client_res *res)
{
    struct taint_evictor *e = w->e;
    struct bh_str key = w->key;
    bool ok = res->err.code == BH_OK || res->err.code == BH_E_NOT_FOUND;

    bh_list_del(&w->link);
    (void)bh_obj_unref(w->pod);
    bh_free(w);
    bh_workqueue_done(e->queue, key, ok ? BH_WORK_OK : BH_WORK_RETRY);
}

static void evicted(void *arg, const struct bh_client_res *res)
{
    work_end(arg, res);
}

static void marked(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;

    if (res->err.code != BH_OK) {
        work_end(w, res);
        return;
    }
    w->call = bh_client_delete(w->e->ctl->client, &bh_core_v1_pod_kind, w->pod->ns, w->pod->name,
                               w->pod->uid, -1, evicted, w);
}

static void evict(struct taint_evictor *e, struct bh_str key, struct bh_obj *o)
{
    struct work *w = bh_calloc(1, sizeof(*w));
    BH_AUTO_BUF b = {.max = 4096};
    char when[64];
    int64_t wall = bh_loop_wall_ns(e->ctl->loop);

    w->e = e;
    w->key = key;
    w->pod = bh_obj_ref(o);
    bh_list_add_tail(&e->works, &w->link);
    bh_event(e->ctl->recorder, o, "Normal", "TaintManagerEviction",
             "Marking for deletion Pod %.*s/%.*s", BH_SF(o->ns), BH_SF(o->name));
    bh_buf_addf(&b,
                "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"conditions\":[{\"type\":"
                "\"DisruptionTarget\",\"status\":"
                "\"True\",\"reason\":\"DeletionByTaintManager\",\"message\":\"Taint manager: "
                "deleting due to NoExecute "
                "taint\",\"lastTransitionTime\":\"%.*s\"}]}}",
                BH_SF(o->uid), BH_SF(bh_time_fmt((struct bh_time){wall / 1000000000, 0}, when)));
    w->call = bh_client_patch(e->ctl->client, &bh_core_v1_pod_kind, o->ns, o->name, "status",
                              BH_PATCH_STRATEGIC, bh_buf_str(&b), marked, w);
}

static void plan_keep(struct taint_evictor *e, struct bh_str key, int64_t now)
{
    struct plan *p = bh_map_get(&e->plans, key);

    if (p)
        return;
    p = bh_calloc(1, sizeof(*p));
    p->since_ns = now;
    (void)bh_map_put(&e->plans, key, p);
}

static void plan_drop(struct taint_evictor *e, struct bh_str key, struct bh_obj *spared)
{
    struct plan *p = bh_map_del(&e->plans, key);

    if (p && spared)
        bh_event(e->ctl->recorder, spared, "Normal", "TaintManagerEviction",
                 "Cancelling deletion of Pod %.*s", BH_SF(key));
    bh_free(p);
}

static void pod_sync(void *arg, struct bh_str key)
{
    struct taint_evictor *e = arg;
    struct bh_str name = key, ns = bh_str_cut(&name, '/');
    struct bh_obj *o = bh_informer_get(e->pods, ns, name), *n;
    const struct plan *p = bh_map_get(&e->plans, key);
    int64_t now = bh_loop_wall_ns(e->ctl->loop), at = INT64_MAX;
    bool stays;

    n = o ? bh_informer_get(e->nodes, (struct bh_str){0},
                            ((const struct bh_core_v1_pod *)bh_obj_struct(o))->spec.node_name)
          : NULL;
    stays = o && !o->deleting && !ctl_pod_done(bh_obj_struct(o));
    if (n && stays)
        at = leave_at(bh_obj_struct(o), bh_obj_struct(n), now, p ? p->since_ns : now);
    if (at <= now) {
        plan_drop(e, key, NULL);
        evict(e, key, o);
        return;
    }
    if (at == INT64_MAX) {
        plan_drop(e, key, stays ? o : NULL);
    } else {
        plan_keep(e, key, now);
        /* The wall clock may be set: it is looked at each minute. */
        int64_t ms = (at - now) / 1000000 + 1;
        bh_workqueue_add_after(e->queue, key, ms < LOOK_MS ? ms : LOOK_MS);
    }
    bh_workqueue_done(e->queue, key, BH_WORK_OK);
}

static bool has_no_execute(const struct bh_core_v1_node *n)
{
    for (size_t i = 0; i < n->spec.taints.n; i++)
        if (bh_str_eqc(n->spec.taints.p[i].effect, "NoExecute"))
            return true;
    return false;
}

static void node_changed(struct taint_evictor *e, struct bh_obj *old, struct bh_obj *o)
{
    struct bh_map *set = bh_map_get(&e->by_node, o->name);
    struct bh_str key;

    if (!set || !(has_no_execute(bh_obj_struct(o)) || (old && has_no_execute(bh_obj_struct(old)))))
        return;
    for (size_t it = 0; bh_map_next(set, &it, &key, NULL);)
        bh_workqueue_add(e->queue, key);
}

static bool same_taints(const struct bh_core_v1_node *a, const struct bh_core_v1_node *b)
{
    if (a->spec.taints.n != b->spec.taints.n)
        return false;
    for (size_t i = 0; i < a->spec.taints.n; i++)
        if (!bh_msg_equal(&bh_core_v1_taint_type, &a->spec.taints.p[i], &b->spec.taints.p[i]))
            return false;
    return true;
}

static void node_added(void *arg, struct bh_obj *o)
{
    node_changed(arg, NULL, o);
}
static void node_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    if (same_taints(bh_obj_struct(old), bh_obj_struct(o)))
        return;
    node_changed(arg, old, o);
}

static void pod_place(struct taint_evictor *e, struct bh_obj *o, bool present)
{
    struct bh_str node = ((const struct bh_core_v1_pod *)bh_obj_struct(o))->spec.node_name;
    struct bh_map *set = node.n ? bh_map_get(&e->by_node, node) : NULL;
    char buf[KEY_MAX];

    if (!node.n)
        return;
    if (!set) {
        set = bh_calloc(1, sizeof(*set));
        (void)bh_map_put(&e->by_node, node, set);
    }
    if (present) {
        (void)bh_map_put(set, bh_obj_key(o, buf, sizeof(buf)), set);
        return;
    }
    (void)bh_map_del(set, bh_obj_key(o, buf, sizeof(buf)));
    if (set->n == 0) {
        (void)bh_map_del(&e->by_node, node);
        bh_map_done(set);
        bh_free(set);
    }
}

static void pod_added(void *arg, struct bh_obj *o)
{
    struct taint_evictor *e = arg;
    struct bh_str node = ((const struct bh_core_v1_pod *)bh_obj_struct(o))->spec.node_name;
    struct bh_obj *n = node.n ? bh_informer_get(e->nodes, (struct bh_str){0}, node) : NULL;
    char buf[KEY_MAX];

    pod_place(e, o, true);
    if (n && has_no_execute(bh_obj_struct(n)))
        bh_workqueue_add(e->queue, bh_obj_key(o, buf, sizeof(buf)));
}
static void pod_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    const struct bh_core_v1_pod *a = bh_obj_struct(old), *b = bh_obj_struct(o);

    if (!bh_str_eq(a->spec.node_name, b->spec.node_name) ||
        a->spec.tolerations.n != b->spec.tolerations.n)
        pod_added(arg, o);
}
static void pod_deleted(void *arg, struct bh_obj *last)
{
    struct taint_evictor *e = arg;
    char buf[KEY_MAX];

    pod_place(e, last, false);
    plan_drop(e, bh_obj_key(last, buf, sizeof(buf)), NULL);
}

static void taint_evictor_begin(void *arg)
{
    struct taint_evictor *e = arg;

    if (ctl_synced((struct bh_informer *[]){e->pods, e->nodes}, 2))
        bh_workqueue_resume(e->queue);
}

static const struct bh_informer_ops node_ops = {node_added, node_updated, NULL,
                                                taint_evictor_begin};
static const struct bh_informer_ops pod_ops = {pod_added, pod_updated, pod_deleted,
                                               taint_evictor_begin};

static void *taint_evictor_start(struct ctl *c)
{
    struct taint_evictor *e = bh_calloc(1, sizeof(*e));

    e->ctl = c;
    bh_list_init(&e->works);
    e->queue = bh_workqueue_new(c->loop, 64, pod_sync, e);
    bh_workqueue_pause(e->queue);
    e->nodes = ctl_subscribe(c->informers, &bh_core_v1_node_kind, &node_ops, e);
    e->pods = ctl_subscribe(c->informers, &bh_core_v1_pod_kind, &pod_ops, e);
    return e;
}

static void taint_evictor_stop(void *self)
{
    struct taint_evictor *e = self;
    void *v;

    bh_list_for_safe(l, &e->works)
    {
        struct work *w = bh_container(l, struct work, link);

        bh_client_cancel(e->ctl->client, w->call);
        (void)bh_obj_unref(w->pod);
        bh_free(w);
    }
    e->queue = bh_workqueue_free(e->queue);
    for (size_t it = 0; bh_map_next(&e->by_node, &it, NULL, &v);) {
        bh_map_done(v);
        bh_free(v);
    }
    bh_map_done(&e->by_node);
    for (size_t it = 0; bh_map_next(&e->plans, &it, NULL, &v);)
        bh_free(v);
    bh_map_done(&e->plans);
    bh_free(e);
}

const struct ctl_controller ctl_taint_eviction = {"taint-eviction-controller", taint_evictor_start,
                                                  taint_evictor_stop};
