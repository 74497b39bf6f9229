/* pod-garbage-collector-controller: pods that nothing else will ever remove.
 *
 * Each 20 s: terminated pods beyond the threshold (oldest first), pods of nodes that no longer
 * exist (after 40 s of quarantine), and pods that are being deleted and never had a node.
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
    int64_t since_ns; /* monotonic */
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

static void collect_orphans(struct pod_gc *g)
{
    int64_t now = bh_loop_mono_ns(g->ctl->loop);
    struct bh_obj *o;

    for (size_t it = 0; (o = bh_informer_next(g->pods, &it));) {
        const struct bh_core_v1_pod *p = bh_obj_struct(o);
        struct missing *m;

        if (!p->spec.node_name.n) {
            if (o->deleting)
                remove_pod(g, o, "deleted before it had a node");
            continue;
        }
        m = bh_map_get(&g->missing, p->spec.node_name);
        if (bh_informer_get(g->nodes, (struct bh_str){0}, p->spec.node_name)) {
            bh_free(bh_map_del(&g->missing, p->spec.node_name));
        } else if (!m) {
            m = bh_calloc(1, sizeof(*m));
            m->since_ns = now;
            (void)bh_map_put(&g->missing, p->spec.node_name, m);
        } else if (now - m->since_ns >= QUARANTINE_NS) {
            fail_orphan(g, o);
            remove_pod(g, o, "its node no longer exists");
        }
    }
}

static void pod_gc_run(void *arg)
{
    struct pod_gc *g = arg;

    if (ctl_synced(g->ctl->informers)) {
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
        bh_free(v);
    bh_map_done(&g->missing);
    bh_free(g);
}

const struct ctl_controller ctl_pod_gc = {"pod-garbage-collector-controller", pod_gc_start,
                                          pod_gc_stop};
