/* ephemeral-volume-controller: makes the claims that pods carry as templates in their volumes. */
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"
#include "base/list.h"
#include "client/volumes.h"
#include "controllers/controllers_int.h"

struct ephemeral {
    struct ctl *ctl;
    struct bh_informer *pods, *pvcs;
    struct bh_workqueue *queue; /* "ns/name" of pods */
    struct bh_recorder *recorder;
    struct bh_link works;
};

struct work {
    struct bh_link link;
    struct ephemeral *e;
    struct bh_arena *a;
    struct bh_str key;
    struct bh_obj *pod;
    size_t i; /* index of the volume */
    uint64_t call;
};

static void next(struct work *w);

static void work_free(struct work *w)
{
    bh_client_cancel(w->e->ctl->client, w->call);
    bh_list_del(&w->link);
    (void)bh_obj_unref(w->pod);
    (void)bh_arena_free(w->a);
}

static void work_done(struct work *w, bool ok)
{
    struct bh_workqueue *q = w->e->queue;
    struct bh_str key = w->key;

    work_free(w);
    bh_workqueue_done(q, key, ok ? BH_WORK_OK : BH_WORK_RETRY);
}

static const struct bh_core_v1_volume *volume(const struct work *w)
{
    return &((const struct bh_core_v1_pod *)bh_obj_struct(w->pod))->spec.volumes.p[w->i];
}

static void refused(struct work *w, struct bh_str why)
{
    bh_event(w->e->recorder, w->pod, "Warning", "FailedBinding", "ephemeral volume %.*s: %.*s",
             BH_SF(volume(w)->name), BH_SF(why));
    work_done(w, false);
}

static void created(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;
    struct bh_str name = bh_pod_volume_claim(w->a, w->pod->name, volume(w));

    w->call = 0;
    if (res->err.code == BH_OK) {
        w->i++;
        next(w);
    } else if (res->status == 0 || res->err.code == BH_E_EXISTS) {
        work_done(w, false); /* looked at again, by what the informer then knows */
    } else {
        refused(w, bh_str_fmt(w->a, "create PVC %.*s: %s", BH_SF(name), res->err.msg));
    }
}

static void create(struct work *w, struct bh_str name)
{
    const struct bh_core_v1_persistent_volume_claim_template *t =
        volume(w)->volume_source.ephemeral->volume_claim_template;
    struct bh_core_v1_persistent_volume_claim c = {.spec = t->spec};
    struct bh_meta_v1_owner_reference *r = bh_new(w->a, struct bh_meta_v1_owner_reference);

    *r = (struct bh_meta_v1_owner_reference){
        .api_version = BH_S("v1"),
        .kind = BH_S("Pod"),
        .name = w->pod->name,
        .uid = w->pod->uid,
        .controller = true,
        .has_controller = true,
        .block_owner_deletion = true,
        .has_block_owner_deletion = true,
    };
    c.metadata.name = name;
    c.metadata.annotations = t->metadata.annotations;
    c.metadata.labels = t->metadata.labels;
    c.metadata.owner_references.p = r;
    c.metadata.owner_references.n = 1;
    w->call = bh_client_create(w->e->ctl->client, &bh_core_v1_persistent_volume_claim_kind,
                               w->pod->ns, &c, created, w);
}

static void next(struct work *w)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(w->pod);

    for (; w->i < p->spec.volumes.n; w->i++) {
        const struct bh_core_v1_volume *v = &p->spec.volumes.p[w->i];
        struct bh_str name;
        struct bh_obj *pvc;

        if (!v->volume_source.ephemeral || !v->volume_source.ephemeral->volume_claim_template)
            continue;
        name = bh_pod_volume_claim(w->a, w->pod->name, v);
        pvc = bh_informer_get(w->e->pvcs, w->pod->ns, name);
        if (!pvc) {
            create(w, name);
            return;
        }
        if (!ctl_owned_by(
                &((const struct bh_core_v1_persistent_volume_claim *)bh_obj_struct(pvc))->metadata,
                "Pod", w->pod->uid)) {
            refused(w, bh_str_fmt(w->a,
                                  "PVC %.*s/%.*s was not created for pod %.*s/%.*s (pod is not "
                                  "owner)",
                                  BH_SF(pvc->ns), BH_SF(name), BH_SF(w->pod->ns),
                                  BH_SF(w->pod->name)));
            return;
        }
    }
    work_done(w, true);
}

static void sync(void *arg, struct bh_str key)
{
    struct ephemeral *e = arg;
    struct bh_str rest = key, ns = bh_str_cut(&rest, '/');
    struct bh_obj *pod = bh_informer_get(e->pods, ns, rest);
    struct bh_arena *a;
    struct work *w;

    if (!pod || pod->deleting) {
        bh_workqueue_done(e->queue, key, BH_WORK_OK);
        return;
    }
    a = bh_arena_new(0);
    w = bh_new(a, struct work);
    w->e = e;
    w->a = a;
    w->key = key;
    w->pod = bh_obj_ref(pod);
    bh_list_add_tail(&e->works, &w->link);
    next(w);
}

static void pod_added(void *arg, struct bh_obj *o)
{
    struct ephemeral *e = arg;
    const struct bh_core_v1_pod *p = bh_obj_struct(o);
    BH_AUTO_ARENA a = NULL;

    for (size_t i = 0; i < p->spec.volumes.n; i++)
        if (p->spec.volumes.p[i].volume_source.ephemeral) {
            a = bh_arena_new(0);
            bh_workqueue_add(e->queue, bh_str_fmt(a, "%.*s/%.*s", BH_SF(o->ns), BH_SF(o->name)));
            return;
        }
}

/* A claim that goes is made again for a pod that is still there. */
static void pvc_deleted(void *arg, struct bh_obj *last)
{
    struct ephemeral *e = arg;
    const struct bh_meta_v1_owner_reference_vec *v =
        &((const struct bh_core_v1_persistent_volume_claim *)bh_obj_struct(last))
             ->metadata.owner_references;
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (size_t i = 0; i < v->n; i++)
        if (v->p[i].has_controller && v->p[i].controller && bh_str_eqc(v->p[i].kind, "Pod"))
            bh_workqueue_add(e->queue,
                             bh_str_fmt(a, "%.*s/%.*s", BH_SF(last->ns), BH_SF(v->p[i].name)));
}

static void on_synced(void *arg)
{
    struct ephemeral *e = arg;

    if (ctl_synced((struct bh_informer *[]){e->pods, e->pvcs}, 2))
        bh_workqueue_resume(e->queue);
}

static const struct bh_informer_ops pod_ops = {pod_added, NULL, NULL, on_synced};
static const struct bh_informer_ops pvc_ops = {NULL, NULL, pvc_deleted, on_synced};

static void *ephemeral_start(struct ctl *c)
{
    struct ephemeral *e = bh_calloc(1, sizeof(*e));

    e->ctl = c;
    bh_list_init(&e->works);
    e->recorder = bh_recorder_new(c->client, "ephemeral_volume", "");
    e->queue = bh_workqueue_new(c->loop, 4, sync, e);
    bh_workqueue_pause(e->queue);
    e->pods = ctl_subscribe(c->informers, &bh_core_v1_pod_kind, &pod_ops, e);
    e->pvcs = ctl_subscribe(c->informers, &bh_core_v1_persistent_volume_claim_kind, &pvc_ops, e);
    return e;
}

static void ephemeral_stop(void *self)
{
    struct ephemeral *e = self;

    while (!bh_list_empty(&e->works))
        work_free(bh_container(e->works.next, struct work, link));
    (void)bh_workqueue_free(e->queue);
    (void)bh_recorder_free(e->recorder);
    bh_free(e);
}

const struct ctl_controller ctl_ephemeral_volume = {"ephemeral-volume-controller", ephemeral_start,
                                                    ephemeral_stop};
