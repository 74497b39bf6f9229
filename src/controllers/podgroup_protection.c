/* podgroup-protection-controller: a pod group that is being deleted stays, by its finalizer, until
 * the last of its pods has ended or is gone. The server puts the finalizer on; it is taken off
 * here.
 *
 * Groups are found by the pods that name them: how many of those have not ended is kept per group.
 */
#include <string.h>

#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/scheduling_v1alpha2.h"
#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "controllers/controllers_int.h"

#define FINALIZER "scheduling.k8s.io/podgroup-protection"

struct pgp {
    struct ctl *ctl;
    struct bh_informer *groups, *pods;
    struct bh_workqueue *queue; /* "namespace/name" of groups */
    struct bh_map active;       /* the same key -> struct users */
    struct bh_link works;
};

struct users {
    size_t n;
};

struct work {
    struct bh_link link;
    struct pgp *c;
    struct bh_str key;
    uint64_t call;
};

static bool is_active(const struct bh_core_v1_pod *p)
{
    return !bh_str_eqc(p->status.phase, "Succeeded") && !bh_str_eqc(p->status.phase, "Failed");
}

/* The key of the pod's group, in a; empty when it has none. */
static struct bh_str group_of(struct bh_arena *a, const struct bh_obj *o)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(o);

    if (!p->spec.scheduling_group || !p->spec.scheduling_group->has_pod_group_name)
        return BH_S("");
    return bh_str_fmt(a, "%.*s/%.*s", BH_SF(o->ns),
                      BH_SF(p->spec.scheduling_group->pod_group_name));
}

static void count_up(struct pgp *c, struct bh_str key)
{
    struct users *u = bh_map_get(&c->active, key);

    if (!u) {
        u = bh_calloc(1, sizeof(*u));
        (void)bh_map_put(&c->active, key, u);
    }
    u->n++;
}

/* The last one that goes wakes the group. */
static void count_down(struct pgp *c, struct bh_str key)
{
    struct users *u = bh_map_get(&c->active, key);

    bh_assert(u && u->n > 0);
    if (--u->n > 0)
        return;
    (void)bh_map_del(&c->active, key);
    bh_free(u);
    bh_workqueue_add(c->queue, key);
}

static void pod_added(void *arg, struct bh_obj *o)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str key = group_of(a, o);

    if (key.n && is_active(bh_obj_struct(o)))
        count_up(arg, key);
}

static void pod_deleted(void *arg, struct bh_obj *o)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str key = group_of(a, o);

    if (key.n && is_active(bh_obj_struct(o)))
        count_down(arg, key);
}

static void pod_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    pod_added(arg, o); /* first, so that a pod that goes on does not wake its group */
    pod_deleted(arg, old);
}

/* ---- the finalizer ---- */

static bool is_held(const struct bh_obj *o)
{
    const struct bh_scheduling_v1alpha2_pod_group *g = bh_obj_struct(o);

    for (size_t i = 0; o->deleting && i < g->metadata.finalizers.n; i++)
        if (bh_str_eqc(g->metadata.finalizers.p[i], FINALIZER))
            return true;
    return false;
}

static void released(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;
    struct pgp *c = w->c;
    struct bh_str key = w->key;
    bool ok = res->err.code == BH_OK || res->err.code == BH_E_NOT_FOUND;

    bh_list_del(&w->link);
    bh_free(w);
    bh_workqueue_done(c->queue, key, ok ? BH_WORK_OK : BH_WORK_RETRY);
}

static void release(struct pgp *c, struct bh_str key, const struct bh_obj *o)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_scheduling_v1alpha2_pod_group *g =
        bh_msg_dup(&bh_scheduling_v1alpha2_pod_group_type, bh_obj_struct(o), a);
    struct bh_str_vec *v = &g->metadata.finalizers;
    struct work *w = bh_calloc(1, sizeof(*w));
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++)
        if (!bh_str_eqc(v->p[i], FINALIZER))
            v->p[n++] = v->p[i];
    v->n = n;
    w->c = c;
    w->key = key;
    bh_list_add_tail(&c->works, &w->link);
    w->call = bh_client_update(c->ctl->client, &bh_scheduling_v1alpha2_pod_group_kind, g, "",
                               released, w);
}

static void sync(void *arg, struct bh_str key)
{
    struct pgp *c = arg;
    struct bh_str name = key, ns = bh_str_cut(&name, '/');
    struct bh_obj *o = bh_informer_get(c->groups, ns, name);

    if (o && is_held(o) && !bh_map_get(&c->active, key))
        release(c, key, o);
    else
        bh_workqueue_done(c->queue, key, BH_WORK_OK);
}

static void group_added(void *arg, struct bh_obj *o)
{
    struct pgp *c = arg;
    BH_AUTO_ARENA a = NULL;

    if (!is_held(o))
        return;
    a = bh_arena_new(0);
    bh_workqueue_add(c->queue, bh_str_fmt(a, "%.*s/%.*s", BH_SF(o->ns), BH_SF(o->name)));
}

static void group_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    group_added(arg, o);
}

static void one_synced(void *arg)
{
    struct pgp *c = arg;

    if (ctl_synced((struct bh_informer *[]){c->groups, c->pods}, 2))
        bh_workqueue_resume(c->queue);
}

static const struct bh_informer_ops group_ops = {group_added, group_updated, NULL, one_synced};
static const struct bh_informer_ops pod_ops = {pod_added, pod_updated, pod_deleted, one_synced};

static void *pgp_start(struct ctl *ctl)
{
    struct pgp *c = bh_calloc(1, sizeof(*c));

    c->ctl = ctl;
    bh_list_init(&c->works);
    c->queue = bh_workqueue_new(ctl->loop, 4, sync, c);
    bh_workqueue_pause(c->queue);
    c->groups =
        ctl_subscribe(ctl->informers, &bh_scheduling_v1alpha2_pod_group_kind, &group_ops, c);
    c->pods = ctl_subscribe(ctl->informers, &bh_core_v1_pod_kind, &pod_ops, c);
    return c;
}

static void pgp_stop(void *self)
{
    struct pgp *c = self;
    void *v;

    bh_list_for_safe(l, &c->works)
    {
        struct work *w = bh_container(l, struct work, link);

        bh_client_cancel(c->ctl->client, w->call);
        bh_free(w);
    }
    c->queue = bh_workqueue_free(c->queue);
    for (size_t it = 0; bh_map_next(&c->active, &it, NULL, &v);)
        bh_free(v);
    bh_map_done(&c->active);
    bh_free(c);
}

const struct ctl_controller ctl_podgroup_protection = {"podgroup-protection-controller", pgp_start,
                                                       pgp_stop};
