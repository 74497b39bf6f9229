/* pod-garbage-collector-controller: pods that nothing else will ever remove.
 *
 * Each 20 s: terminated pods beyond the threshold (oldest first), pods of nodes that no longer
 * exist (after 40 s of quarantine, and when the server says so too), and pods that are being
 * deleted and never had a node.
 */
#include <stdlib.h>

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/map.h"
#include "controllers/controllers_int.h"
#include "data/time_fmt.h"

#define PERIOD_MS      20000
#define QUARANTINE_NS  ((int64_t)40 * 1000000000)
#define TERMINATED_MAX 12500

struct missing {
    struct pod_gc *gc;
    struct bh_str node; /* heap */
    int64_t since_ns;   /* monotonic */
    uint64_t call;      /* the server is being asked */
    bool wanted;        /* a pod names the node in this round */
};

struct pod_gc {
    struct ctl *ctl;
    struct bh_informer *pods, *nodes;
    struct bh_map missing; /* node name -> struct missing */
    struct bh_timer timer;
};

static void remove_pod(struct pod_gc *g, struct bh_obj *o, const char *why)
{
    bh_log(BH_INFO, "pod collected", BH_STR("namespace", o->ns), BH_STR("pod", o->name),
           BH_CSTR("reason", why));
    (void)bh_client_delete(g->ctl->client, &bh_core_v1_pod_kind, o->ns, o->name, o->uid, 0, NULL,
                           NULL);
}

static bool terminated(const struct bh_core_v1_pod *p)
{
    return bh_str_eqc(p->status.phase, "Succeeded") || bh_str_eqc(p->status.phase, "Failed");
}

static int by_age(const void *a, const void *b)
{
    const struct bh_core_v1_pod *x = bh_obj_struct(*(struct bh_obj *const *)a),
                                *y = bh_obj_struct(*(struct bh_obj *const *)b);

    return bh_time_cmp(x->metadata.creation_timestamp, y->metadata.creation_timestamp);
}

static void collect_terminated(struct pod_gc *g)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    int64_t max =
        g->ctl->opts->terminated_pods_max ? g->ctl->opts->terminated_pods_max : TERMINATED_MAX;
    struct bh_obj **v = NULL, *o;
    size_t n = 0, cap = 0;

    for (size_t it = 0; max > 0 && (o = bh_informer_next(g->pods, &it));) {
        if (!terminated(bh_obj_struct(o)))
            continue;
        bh_arena_grow(a, &v, &cap, n + 1, sizeof(*v));
        v[n++] = o;
    }
    if (max <= 0 || n <= (size_t)max)
        return;
    qsort(v, n, sizeof(struct bh_obj *), by_age);
    for (size_t i = 0; i < n - (size_t)max; i++)
        remove_pod(g, v[i], "too many terminated pods");
}

/* The pod's phase becomes Failed first, so that what waits for it does not wait for ever. */
static void fail_orphan(struct pod_gc *g, struct bh_obj *o)
{
    BH_AUTO_BUF b = {.max = 4096};
    char when[64];
    int64_t wall = bh_loop_wall_ns(g->ctl->loop);

    if (terminated(bh_obj_struct(o)))
        return;
    bh_buf_addf(&b,
                "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"phase\":\"Failed\",\"conditions\":["
                "{\"type\":"
                "\"DisruptionTarget\",\"status\":\"True\",\"reason\":\"DeletionByPodGC\","
                "\"message\":\"PodGC: node no "
                "longer exists\",\"lastTransitionTime\":\"%.*s\"}]}}",
                BH_SF(o->uid), BH_SF(bh_time_fmt((struct bh_time){wall / 1000000000, 0}, when)));
    (void)bh_client_patch(g->ctl->client, &bh_core_v1_pod_kind, o->ns, o->name, "status",
                          BH_PATCH_STRATEGIC, bh_buf_str(&b), NULL, NULL);
}

static void missing_free(struct missing *m)
{
    bh_client_cancel(m->gc->ctl->client, m->call);
    bh_free((void *)(uintptr_t)m->node.p);
    bh_free(m);
}

static void node_asked(void *arg, const struct bh_client_res *res)
{
    struct missing *m = arg;
    struct bh_obj *o;

    m->call = 0;
    if (res->err.code != BH_E_NOT_FOUND)
        return; /* it is there, or nobody knows: asked again in the next round */
    for (size_t it = 0; (o = bh_informer_next(m->gc->pods, &it));) {
        if (!bh_str_eq(((const struct bh_core_v1_pod *)bh_obj_struct(o))->spec.node_name, m->node))
            continue;
        fail_orphan(m->gc, o);
        remove_pod(m->gc, o, "its node no longer exists");
    }
}

static void node_missing(struct pod_gc *g, struct bh_str node)
{
    int64_t now = bh_loop_mono_ns(g->ctl->loop);
    struct missing *m = bh_map_get(&g->missing, node);

    if (!m) {
        m = bh_calloc(1, sizeof(*m));
        m->gc = g;
        m->node = (struct bh_str){bh_strdup_c(node), node.n};
        m->since_ns = now;
        (void)bh_map_put(&g->missing, node, m);
    }
    if (m->wanted) /* another pod of this node came first */
        return;
    m->wanted = true;
    if (now - m->since_ns >= QUARANTINE_NS && !m->call)
        m->call =
            bh_client_call(g->ctl->client,
                           &(struct bh_client_req){
                               .verb = BH_VERB_GET, .kind = &bh_core_v1_node_kind, .name = node},
                           node_asked, m);
}

static void collect_orphans(struct pod_gc *g)
{
    struct bh_obj *o;
    struct bh_str node;
    void *v;

    for (size_t it = 0; (o = bh_informer_next(g->pods, &it));) {
        node = ((const struct bh_core_v1_pod *)bh_obj_struct(o))->spec.node_name;
        if (!node.n && o->deleting)
            remove_pod(g, o, "deleted before it had a node");
        else if (node.n && !bh_informer_get(g->nodes, (struct bh_str){0}, node))
            node_missing(g, node);
    }
    for (size_t it = 0; bh_map_next(&g->missing, &it, &node, &v);) {
        struct missing *m = v;

        if (m->wanted) {
            m->wanted = false;
            continue;
        }
        (void)bh_map_del(&g->missing, m->node); /* it came back, or nothing of it is left */
        missing_free(m);
    }
}

static void pod_gc_run(void *arg)
{
    struct pod_gc *g = arg;

    if (ctl_synced((struct bh_informer *[]){g->pods, g->nodes}, 2)) {
        collect_terminated(g);
        collect_orphans(g);
    }
    bh_timer_start(&g->timer, PERIOD_MS);
}

static const struct bh_informer_ops no_ops = {NULL, NULL, NULL, NULL};

static void *pod_gc_start(struct ctl *c)
{
    struct pod_gc *g = bh_calloc(1, sizeof(*g));

    g->ctl = c;
    g->pods = ctl_subscribe(c->informers, &bh_core_v1_pod_kind, &no_ops, g);
    g->nodes = ctl_subscribe(c->informers, &bh_core_v1_node_kind, &no_ops, g);
    bh_timer_init(&g->timer, c->loop, pod_gc_run, g);
    bh_timer_start(&g->timer, PERIOD_MS);
    return g;
}

static void pod_gc_stop(void *self)
{
    struct pod_gc *g = self;
    void *v;

    bh_timer_stop(&g->timer);
    for (size_t it = 0; bh_map_next(&g->missing, &it, NULL, &v);)
        missing_free(v);
    bh_map_done(&g->missing);
    bh_free(g);
}

const struct ctl_controller ctl_pod_gc = {"pod-garbage-collector-controller", pod_gc_start,
                                          pod_gc_stop};
