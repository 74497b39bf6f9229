/* The protection controllers: a claim, a volume or an attributes class that is in use goes only
 * when it is not any more.
 *
 *     persistentvolumeclaim-protection-controller   no pod that has a node uses the claim
 *     persistentvolume-protection-controller        no claim is bound to the volume
 *     volumeattributesclass-protection-controller   no claim and no volume names the class
 *
 * Admission puts a finalizer on each; here it is put on those that lack it, and taken off again.
 */
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/storage_v1.h"
#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "client/volumes.h"
#include "controllers/controllers_int.h"

#define PVC_FINALIZER "kubernetes.io/pvc-protection"
#define PV_FINALIZER  "kubernetes.io/pv-protection"
#define VAC_FINALIZER "kubernetes.io/vac-protection"

struct protection {
    struct ctl *ctl;
    const struct bh_kind *kind;
    const char *finalizer;
    /* Whether something uses the object, as far as we have heard; NULL pods: not asked. */
    bool (*used)(struct protection *p, const struct bh_obj *o);
    struct bh_informer *informer, *pods, *pvs, *pvcs;
    struct bh_workqueue *queue; /* "ns/name" */
    struct bh_link works;
};

struct work {
    struct bh_link link;
    struct protection *p;
    struct bh_arena *a;
    struct bh_str key;
    struct bh_obj *obj;
    uint64_t call;
};

static void work_free(struct work *w)
{
    bh_client_cancel(w->p->ctl->client, w->call);
    bh_list_del(&w->link);
    (void)bh_obj_unref(w->obj);
    (void)bh_arena_free(w->a);
}

static void work_done(struct work *w, bool ok)
{
    struct bh_workqueue *q = w->p->queue;
    struct bh_str key = w->key;

    work_free(w);
    bh_workqueue_done(q, key, ok ? BH_WORK_OK : BH_WORK_RETRY);
}

static void add(struct protection *p, struct bh_str ns, struct bh_str name)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    if (name.n)
        bh_workqueue_add(p->queue, bh_str_fmt(a, "%.*s/%.*s", BH_SF(ns), BH_SF(name)));
}

/* ---- the finalizer ---- */

static bool has(const struct bh_meta_v1_object_meta *m, const char *finalizer)
{
    for (size_t i = 0; i < m->finalizers.n; i++)
        if (bh_str_eqc(m->finalizers.p[i], finalizer))
            return true;
    return false;
}

static const struct bh_meta_v1_object_meta *meta_of(const struct bh_obj *o)
{
    return (const struct bh_meta_v1_object_meta *)(const void *)((const char *)bh_obj_struct(o) +
                                                                 o->kind->meta_off);
}

static void written(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;

    w->call = 0;
    work_done(w, res->err.code == BH_OK || res->err.code == BH_E_NOT_FOUND);
}

static void write_finalizers(struct work *w, bool with)
{
    const struct bh_meta_v1_object_meta *m = meta_of(w->obj);
    void *copy = bh_arena_memdup(w->a, bh_obj_struct(w->obj), w->obj->kind->type->size);
    struct bh_meta_v1_object_meta *to =
        (struct bh_meta_v1_object_meta *)(void *)((char *)copy + w->obj->kind->meta_off);
    struct bh_str_vec v = {bh_new_n(w->a, struct bh_str, m->finalizers.n + 1), 0};

    for (size_t i = 0; i < m->finalizers.n; i++)
        if (!bh_str_eqc(m->finalizers.p[i], w->p->finalizer))
            v.p[v.n++] = m->finalizers.p[i];
    if (with)
        v.p[v.n++] = bh_s(w->p->finalizer);
    to->finalizers = v;
    w->call = bh_client_update(w->p->ctl->client, w->obj->kind, copy, "", written, w);
}

/* ---- who uses a claim ---- */

static bool shut_down(const struct bh_core_v1_pod *p)
{
    return !bh_time_is_zero(p->metadata.deletion_timestamp) &&
           p->metadata.has_deletion_grace_period_seconds &&
           p->metadata.deletion_grace_period_seconds == 0;
}

static bool pod_uses(const struct bh_core_v1_pod *p, const struct bh_obj *pvc)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (size_t i = 0; p->spec.node_name.n && i < p->spec.volumes.n; i++) {
        const struct bh_core_v1_volume *v = &p->spec.volumes.p[i];

        if (v->volume_source.ephemeral &&
            (shut_down(p) || !ctl_owned_by(meta_of(pvc), "Pod", p->metadata.uid)))
            continue;
        if (bh_str_eq(bh_pod_volume_claim(a, p->metadata.name, v), pvc->name))
            return true;
    }
    return false;
}

static bool pvc_used(struct protection *p, const struct bh_obj *o)
{
    struct bh_obj *pod;

    for (size_t it = 0; (pod = bh_informer_next(p->pods, &it));)
        if (bh_str_eq(pod->ns, o->ns) && pod_uses(bh_obj_struct(pod), o))
            return true;
    return false;
}

/* A pod that was bound just now may not have reached us: the server is asked before the claim
 * goes. */
static void pods_listed(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;

    w->call = 0;
    if (res->err.code != BH_OK) {
        work_done(w, false);
        return;
    }
    for (size_t i = 0; i < res->items_n; i++)
        if (pod_uses(bh_obj_struct(res->items[i]), w->obj)) {
            work_done(w, true); /* its end will bring us here again */
            return;
        }
    write_finalizers(w, false);
}

/* ---- who uses the others ---- */

static bool pv_used(struct protection *p, const struct bh_obj *o)
{
    (void)p;
    return bh_str_eqc(((const struct bh_core_v1_persistent_volume *)bh_obj_struct(o))->status.phase,
                      "Bound");
}

static bool vac_used(struct protection *p, const struct bh_obj *vac)
{
    struct bh_obj *o;

    for (size_t it = 0; (o = bh_informer_next(p->pvcs, &it));) {
        const struct bh_core_v1_persistent_volume_claim *c = bh_obj_struct(o);
        const struct bh_core_v1_modify_volume_status *s = c->status.modify_volume_status;

        if (bh_str_eq(c->spec.volume_attributes_class_name, vac->name) ||
            bh_str_eq(c->status.current_volume_attributes_class_name, vac->name) ||
            (s && bh_str_eq(s->target_volume_attributes_class_name, vac->name)))
            return true;
    }
    for (size_t it = 0; (o = bh_informer_next(p->pvs, &it));)
        if (bh_str_eq(((const struct bh_core_v1_persistent_volume *)bh_obj_struct(o))
                          ->spec.volume_attributes_class_name,
                      vac->name))
            return true;
    return false;
}

/* ---- one object ---- */

static void sync(void *arg, struct bh_str key)
{
    struct protection *p = arg;
    struct bh_str rest = key, ns = bh_str_cut(&rest, '/');
    struct bh_obj *o = bh_informer_get(p->informer, ns, rest);
    struct bh_arena *a;
    struct work *w;
    bool protects;

    if (!o) {
        bh_workqueue_done(p->queue, key, BH_WORK_OK);
        return;
    }
    protects = has(meta_of(o), p->finalizer);
    if (o->deleting ? !protects || p->used(p, o) : protects) {
        bh_workqueue_done(p->queue, key, BH_WORK_OK);
        return;
    }
    a = bh_arena_new(0);
    w = bh_new(a, struct work);
    w->p = p;
    w->a = a;
    w->key = key;
    w->obj = bh_obj_ref(o);
    bh_list_add_tail(&p->works, &w->link);
    if (o->deleting && p->pods)
        w->call = bh_client_call(
            p->ctl->client,
            &(struct bh_client_req){.verb = BH_VERB_LIST, .kind = &bh_core_v1_pod_kind, .ns = ns},
            pods_listed, w);
    else
        write_finalizers(w, !o->deleting);
}

/* ---- what happens ---- */

static void added(void *arg, struct bh_obj *o)
{
    add(arg, o->ns, o->name);
}

static void updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    added(arg, o);
}

static void pod_left(void *arg, struct bh_obj *last)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(last);
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (size_t i = 0; i < p->spec.volumes.n; i++)
        add(arg, last->ns, bh_pod_volume_claim(a, last->name, &p->spec.volumes.p[i]));
}

static void pod_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    if (o->deleting || ctl_pod_done(bh_obj_struct(o)))
        pod_left(arg, o);
}

/* Something may have ceased to name a class. */
static void user_gone(void *arg, struct bh_obj *last)
{
    struct protection *p = arg;
    struct bh_obj *o;

    (void)last;
    for (size_t it = 0; (o = bh_informer_next(p->informer, &it));)
        if (o->deleting)
            add(p, o->ns, o->name);
}

static void user_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    user_gone(arg, o);
}

static void on_synced(void *arg)
{
    struct protection *p = arg;
    struct bh_informer *all[] = {p->informer, p->pods, p->pvs, p->pvcs};

    for (size_t i = 0; i < BH_COUNT(all); i++)
        if (all[i] && !bh_informer_synced(all[i]))
            return;
    bh_workqueue_resume(p->queue);
}

static const struct bh_informer_ops own_ops = {added, updated, NULL, on_synced};
static const struct bh_informer_ops pod_ops = {NULL, pod_updated, pod_left, on_synced};
static const struct bh_informer_ops user_ops = {NULL, user_updated, user_gone, on_synced};

static struct protection *start(struct ctl *c, const struct bh_kind *k, const char *finalizer,
                                bool (*used)(struct protection *p, const struct bh_obj *o))
{
    struct protection *p = bh_calloc(1, sizeof(*p));

    p->ctl = c;
    p->kind = k;
    p->finalizer = finalizer;
    p->used = used;
    bh_list_init(&p->works);
    p->queue = bh_workqueue_new(c->loop, 4, sync, p);
    bh_workqueue_pause(p->queue);
    p->informer = ctl_subscribe(c->informers, k, &own_ops, p);
    return p;
}

static void *pvc_start(struct ctl *c)
{
    struct protection *p =
        start(c, &bh_core_v1_persistent_volume_claim_kind, PVC_FINALIZER, pvc_used);

    p->pods = ctl_subscribe(c->informers, &bh_core_v1_pod_kind, &pod_ops, p);
    return p;
}

static void *pv_start(struct ctl *c)
{
    return start(c, &bh_core_v1_persistent_volume_kind, PV_FINALIZER, pv_used);
}

static void *vac_start(struct ctl *c)
{
    struct protection *p =
        start(c, &bh_storage_v1_volume_attributes_class_kind, VAC_FINALIZER, vac_used);

    p->pvs = ctl_subscribe(c->informers, &bh_core_v1_persistent_volume_kind, &user_ops, p);
    p->pvcs = ctl_subscribe(c->informers, &bh_core_v1_persistent_volume_claim_kind, &user_ops, p);
    return p;
}

static void stop(void *self)
{
    struct protection *p = self;

    while (!bh_list_empty(&p->works))
        work_free(bh_container(p->works.next, struct work, link));
    (void)bh_workqueue_free(p->queue);
    bh_free(p);
}

const struct ctl_controller ctl_pvc_protection = {"persistentvolumeclaim-protection-controller",
                                                  pvc_start, stop};
const struct ctl_controller ctl_pv_protection = {"persistentvolume-protection-controller", pv_start,
                                                 stop};
const struct ctl_controller ctl_vac_protection = {"volumeattributesclass-protection-controller",
                                                  vac_start, stop};
