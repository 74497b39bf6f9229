/* persistentvolume-binder-controller: brings claims and volumes together, and says of each in which
 * phase it is.
 *
 * Both sides name each other in the end: the volume's claimRef, the claim's volumeName. Any of the
 * four writes of a bind may be the last that happened; the next look goes on from there. Work is
 * done one key at a time, on the newest objects that are known, so that a volume is given away
 * once.
 */
#include "controllers/volume_binder.h"

#include "base/log.h"

/* ---- the newest objects ---- */

static struct bh_str pv_key(struct bh_arena *a, struct bh_str name)
{
    return bh_str_fmt(a, "v/%.*s", BH_SF(name));
}

static struct bh_str pvc_key(struct bh_arena *a, struct bh_str ns, struct bh_str name)
{
    return bh_str_fmt(a, "c/%.*s/%.*s", BH_SF(ns), BH_SF(name));
}

static struct bh_obj *newest(const struct binder *b, struct bh_str key, struct bh_obj *seen)
{
    struct bh_obj *o = bh_map_get(&b->newer, key);

    /* One that the informer does not have was deleted, or made again, after our write. */
    return o && seen && o->rv > seen->rv && bh_str_eq(o->uid, seen->uid) ? o : seen;
}

struct bh_obj *binder_pv(const struct binder *b, struct bh_str name)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    return newest(b, pv_key(a, name), bh_informer_get(b->pvs, (struct bh_str){0}, name));
}

struct bh_obj *binder_pvc(const struct binder *b, struct bh_str ns, struct bh_str name)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    return newest(b, pvc_key(a, ns, name), bh_informer_get(b->pvcs, ns, name));
}

static void forget(struct binder *b, struct bh_str key, uint64_t rv)
{
    struct bh_obj *o = bh_map_get(&b->newer, key);

    if (o && o->rv <= rv)
        (void)bh_obj_unref(bh_map_del(&b->newer, key));
}

static void remember(struct binder *b, struct bh_str key, struct bh_obj *o)
{
    (void)bh_obj_unref(bh_map_put(&b->newer, key, bh_obj_ref(o)));
}

/* ---- works and their calls ---- */

void binder_take_pv(struct binder_work *w, struct bh_obj *o)
{
    struct bh_obj *old = w->pv;

    w->pv = o ? bh_obj_ref(o) : NULL;
    (void)bh_obj_unref(old);
}

void binder_take_pvc(struct binder_work *w, struct bh_obj *o)
{
    struct bh_obj *old = w->pvc;

    w->pvc = o ? bh_obj_ref(o) : NULL;
    (void)bh_obj_unref(old);
}

static void work_free(struct binder_work *w)
{
    bh_client_cancel(w->b->ctl->client, w->call);
    bh_list_del(&w->link);
    (void)bh_obj_unref(w->pv);
    (void)bh_obj_unref(w->pvc);
    (void)bh_arena_free(w->a);
}

void binder_done(struct binder_work *w, bool ok)
{
    struct bh_workqueue *q = w->b->queue;
    struct bh_str key = w->key; /* the queue's own, valid until it is told */

    work_free(w);
    bh_workqueue_done(q, key, ok ? BH_WORK_OK : BH_WORK_RETRY);
}

static void go_on(struct binder_work *w)
{
    if (w->next)
        w->next(w);
    else
        binder_done(w, true);
}

static void answered(struct binder_work *w, const struct bh_client_res *res, bool pv)
{
    w->call = 0;
    if (res->err.code != BH_OK || !res->obj) {
        bh_log(BH_DEBUG, "volume binder: a write failed", BH_STR("key", w->key),
               BH_CSTR("error", res->err.msg));
        binder_done(w, res->err.code == BH_E_NOT_FOUND);
        return;
    }
    if (pv) {
        remember(w->b, pv_key(w->a, res->obj->name), res->obj);
        binder_take_pv(w, res->obj);
    } else {
        remember(w->b, pvc_key(w->a, res->obj->ns, res->obj->name), res->obj);
        binder_take_pvc(w, res->obj);
    }
    if (w->reason)
        bh_event(w->b->recorder, w->about_pv ? w->pv : w->pvc, "Warning", w->reason, "%.*s",
                 BH_SF(w->text));
    w->reason = NULL;
    go_on(w);
}

static void pv_answered(void *arg, const struct bh_client_res *res)
{
    answered(arg, res, true);
}

static void pvc_answered(void *arg, const struct bh_client_res *res)
{
    answered(arg, res, false);
}

void binder_put_pv(struct binder_work *w, const struct bh_core_v1_persistent_volume *v,
                   const char *sub, void (*next)(struct binder_work *w))
{
    w->next = next;
    w->call = bh_client_update(w->b->ctl->client, &bh_core_v1_persistent_volume_kind, v, sub,
                               pv_answered, w);
}

void binder_put_pvc(struct binder_work *w, const struct bh_core_v1_persistent_volume_claim *c,
                    const char *sub, void (*next)(struct binder_work *w))
{
    w->next = next;
    w->call = bh_client_update(w->b->ctl->client, &bh_core_v1_persistent_volume_claim_kind, c, sub,
                               pvc_answered, w);
}

void binder_pv_phase(struct binder_work *w, const char *phase, void (*next)(struct binder_work *w))
{
    struct bh_core_v1_persistent_volume v = *binder_pv_of(w);

    w->next = next;
    if (bh_str_eqc(v.status.phase, phase)) {
        w->reason = NULL;
        go_on(w);
        return;
    }
    v.status.phase = bh_s(phase);
    v.status.message = (struct bh_str){0};
    binder_put_pv(w, &v, "status", next);
}

static void claim_asked(void *arg, const struct bh_client_res *res)
{
    struct binder_work *w = arg;

    w->call = 0;
    if (res->err.code != BH_OK && res->err.code != BH_E_NOT_FOUND) {
        binder_done(w, false);
        return;
    }
    binder_take_pvc(w, res->err.code == BH_OK ? res->obj : NULL);
    w->next(w);
}

void binder_ask_claim(struct binder_work *w, void (*next)(struct binder_work *w))
{
    const struct bh_core_v1_object_reference *r = binder_pv_of(w)->spec.claim_ref;

    w->next = next;
    w->call =
        bh_client_call(w->b->ctl->client,
                       &(struct bh_client_req){.verb = BH_VERB_GET,
                                               .kind = &bh_core_v1_persistent_volume_claim_kind,
                                               .ns = r->namespace,
                                               .name = r->name},
                       claim_asked, w);
}

struct bh_str_map binder_with(struct bh_arena *a, const struct bh_str_map *m, const char *key,
                              struct bh_str value)
{
    struct bh_str_map r = {0};

    for (size_t i = 0; i < m->n; i++)
        bh_str_map_put(a, &r, m->p[i].key, m->p[i].value);
    bh_str_map_put(a, &r, bh_s(key), value);
    return r;
}

static void sync(void *arg, struct bh_str key)
{
    struct binder *b = arg;
    struct bh_arena *a = bh_arena_new(0);
    struct binder_work *w = bh_new(a, struct binder_work);
    struct bh_str rest = bh_str_sub(key, 2, key.n), ns;

    w->b = b;
    w->a = a;
    w->key = key;
    bh_list_add_tail(&b->works, &w->link);
    if (key.p[0] == 'v') {
        binder_take_pv(w, binder_pv(b, rest));
        if (w->pv)
            binder_sync_volume(w);
        else
            binder_done(w, true);
        return;
    }
    ns = bh_str_cut(&rest, '/');
    binder_take_pvc(w, binder_pvc(b, ns, rest));
    if (w->pvc)
        binder_sync_claim(w);
    else
        binder_done(w, true);
}

/* ---- what happens ---- */

static void add_pv(struct binder *b, struct bh_str name)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    if (name.n)
        bh_workqueue_add(b->queue, pv_key(a, name));
}

static void add_pvc(struct binder *b, struct bh_str ns, struct bh_str name)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    if (name.n)
        bh_workqueue_add(b->queue, pvc_key(a, ns, name));
}

/* Claims without a volume that may find one now: those of a class, or of any (p == NULL). */
static void add_unbound(struct binder *b, struct bh_str class)
{
    struct bh_obj *o;

    for (size_t it = 0; (o = bh_informer_next(b->pvcs, &it));) {
        const struct bh_core_v1_persistent_volume_claim *c = bh_obj_struct(o);

        if (!bh_pvc_bound(c) && (!class.p || bh_str_eq(bh_pvc_class(c), class)))
            add_pvc(b, o->ns, o->name);
    }
}

static void pv_changed(struct binder *b, struct bh_obj *o)
{
    const struct bh_core_v1_persistent_volume *v = bh_obj_struct(o);
    struct bh_str class = bh_pv_class(v);
    BH_AUTO_ARENA a = bh_arena_new(0);

    forget(b, pv_key(a, o->name), o->rv);
    add_pv(b, o->name);
    if (v->spec.claim_ref)
        add_pvc(b, v->spec.claim_ref->namespace, v->spec.claim_ref->name);
    else if (bh_str_eqc(v->status.phase, "Available"))
        add_unbound(b, class.p ? class : BH_S(""));
}

static void pv_added(void *arg, struct bh_obj *o)
{
    pv_changed(arg, o);
}

static void pv_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    pv_changed(arg, o);
}

static void pv_deleted(void *arg, struct bh_obj *last)
{
    struct binder *b = arg;
    const struct bh_core_v1_persistent_volume *v = bh_obj_struct(last);
    BH_AUTO_ARENA a = bh_arena_new(0);

    forget(b, pv_key(a, last->name), UINT64_MAX);
    if (v->spec.claim_ref)
        add_pvc(b, v->spec.claim_ref->namespace, v->spec.claim_ref->name);
}

static void pvc_added(void *arg, struct bh_obj *o)
{
    struct binder *b = arg;
    BH_AUTO_ARENA a = bh_arena_new(0);

    forget(b, pvc_key(a, o->ns, o->name), o->rv);
    add_pvc(b, o->ns, o->name);
}

static void pvc_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    pvc_added(arg, o);
    add_pv(arg,
           ((const struct bh_core_v1_persistent_volume_claim *)bh_obj_struct(o))->spec.volume_name);
}

static void pvc_deleted(void *arg, struct bh_obj *last)
{
    struct binder *b = arg;
    BH_AUTO_ARENA a = bh_arena_new(0);

    forget(b, pvc_key(a, last->ns, last->name), UINT64_MAX);
    add_pv(
        b,
        ((const struct bh_core_v1_persistent_volume_claim *)bh_obj_struct(last))->spec.volume_name);
}

static void class_added(void *arg, struct bh_obj *o)
{
    (void)o;
    add_unbound(arg, (struct bh_str){NULL, 0}); /* it may be the default */
}

static void class_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    class_added(arg, o);
}

/* A claim that waits for a pod tells for which. */
static void pod_added(void *arg, struct bh_obj *o)
{
    struct binder *b = arg;
    const struct bh_core_v1_pod *p = bh_obj_struct(o);

    for (size_t i = 0; p->spec.node_name.n == 0 && i < p->spec.volumes.n; i++)
        if (p->spec.volumes.p[i].volume_source.persistent_volume_claim)
            add_pvc(b, o->ns,
                    p->spec.volumes.p[i].volume_source.persistent_volume_claim->claim_name);
}

static void on_synced(void *arg)
{
    struct binder *b = arg;

    if (ctl_synced((struct bh_informer *[]){b->pvs, b->pvcs, b->classes, b->pods}, 4))
        bh_workqueue_resume(b->queue);
}

static const struct bh_informer_ops pv_ops = {pv_added, pv_updated, pv_deleted, on_synced};
static const struct bh_informer_ops pvc_ops = {pvc_added, pvc_updated, pvc_deleted, on_synced};
static const struct bh_informer_ops class_ops = {class_added, class_updated, NULL, on_synced};
static const struct bh_informer_ops pod_ops = {pod_added, NULL, NULL, on_synced};

static void *binder_start(struct ctl *c)
{
    struct binder *b = bh_calloc(1, sizeof(*b));

    b->ctl = c;
    bh_list_init(&b->works);
    b->recorder = bh_recorder_new(c->client, "persistentvolume-controller", "");
    b->queue = bh_workqueue_new(c->loop, 1, sync, b);
    bh_workqueue_pause(b->queue);
    b->pvs = ctl_subscribe(c->informers, &bh_core_v1_persistent_volume_kind, &pv_ops, b);
    b->pvcs = ctl_subscribe(c->informers, &bh_core_v1_persistent_volume_claim_kind, &pvc_ops, b);
    b->classes = ctl_subscribe(c->informers, &bh_storage_v1_storage_class_kind, &class_ops, b);
    b->pods = ctl_subscribe(c->informers, &bh_core_v1_pod_kind, &pod_ops, b);
    return b;
}

static void binder_stop(void *self)
{
    struct binder *b = self;
    void *v;

    while (!bh_list_empty(&b->works))
        work_free(bh_container(b->works.next, struct binder_work, link));
    (void)bh_workqueue_free(b->queue);
    for (size_t it = 0; bh_map_next(&b->newer, &it, NULL, &v);)
        (void)bh_obj_unref(v);
    bh_map_done(&b->newer);
    (void)bh_recorder_free(b->recorder);
    bh_free(b);
}

const struct ctl_controller ctl_volume_binder = {"persistentvolume-binder-controller", binder_start,
                                                 binder_stop};
