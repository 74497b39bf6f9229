/* garbage-collector-controller: dependents follow their owners.
 *
 * It watches every stored kind. Each owner of an object is solid (there, and not waiting for this
 * object to go), waiting (being deleted in the foreground, and this object blocks it) or dangling
 * (gone). While one is solid the object stays and loses its references to the others; else it is
 * deleted: in the foreground when it is waited for and has dependents itself, by its own
 * finalizer's policy otherwise. An object with the finalizer foregroundDeletion goes when no
 * dependent blocks it any more; one with the finalizer orphan first gives its dependents up.
 *
 * The cache may say that an owner is there (its deletion will come as an event), never that it is
 * gone: that is asked of the server.
 */
#include <stdio.h>

#include "api/engine.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "controllers/controllers_int.h"
#include "data/json.h"

#define WORKERS 32
#define KEY_MAX 800

struct gc_kind {
    struct gc *gc;
    const struct bh_kind *kind;
    struct bh_informer *informer;
};

struct gc {
    struct ctl *ctl;
    struct bh_workqueue *queue; /* "kind index/ns/name" */
    struct gc_kind *kinds;
    size_t n_kinds;
    struct bh_map dependents; /* owner uid -> struct bh_map: queue keys of its dependents */
    struct bh_link works;
};

enum owner_state { OWNER_SOLID = 1, OWNER_WAITING, OWNER_DANGLING };

struct work {
    struct bh_link link;
    struct gc *gc;
    struct bh_arena *arena;
    struct bh_str key;
    struct bh_obj *obj;
    size_t i;                /* owner that is being asked about, or dependent to be orphaned */
    enum owner_state *owner; /* one for each reference */
    struct bh_str_vec deps;  /* queue keys of dependents to be orphaned */
    bool failed;             /* one of them was not */
    uint64_t call;
};

static void owners_next(struct work *w);
static void orphan_next(struct work *w);

static const struct bh_meta_v1_object_meta *meta_of(const struct bh_obj *o)
{
    return (const void *)((const char *)bh_obj_struct(o) + o->kind->meta_off);
}

static bool has_finalizer(const struct bh_obj *o, const char *name)
{
    const struct bh_meta_v1_object_meta *m = meta_of(o);

    for (size_t i = 0; i < m->finalizers.n; i++)
        if (bh_str_eqc(m->finalizers.p[i], name))
            return true;
    return false;
}

static struct bh_str queue_key(const struct gc_kind *k, const struct bh_obj *o, char *buf)
{
    int n = snprintf(buf, KEY_MAX, "%zu/%.*s/%.*s", (size_t)(k - k->gc->kinds), BH_SF(o->ns),
                     BH_SF(o->name));

    return (struct bh_str){buf, n > 0 && n < KEY_MAX ? (size_t)n : 0};
}

static struct bh_obj *object_of(struct gc *gc, struct bh_str key)
{
    struct bh_str name = key, index = bh_str_cut(&name, '/'), ns = bh_str_cut(&name, '/');
    int64_t i;

    return bh_str_i64(index, 0, (int64_t)gc->n_kinds - 1, &i)
               ? bh_informer_get(gc->kinds[i].informer, ns, name)
               : NULL;
}

static void work_end(struct work *w, enum bh_work_result r)
{
    struct gc *gc = w->gc;
    struct bh_arena *a = w->arena;
    struct bh_str key = w->key;

    bh_list_del(&w->link);
    (void)bh_obj_unref(w->obj);
    bh_workqueue_done(gc->queue, key, r);
    (void)bh_arena_free(a);
}

static void work_written(void *arg, const struct bh_client_res *res)
{
    bool ok = res->err.code == BH_OK || res->err.code == BH_E_NOT_FOUND;

    /* After a conflict the object's own event brings a fresh look, but only if it really changed:
     * try again either way. */
    work_end(arg, ok ? BH_WORK_OK : BH_WORK_RETRY);
}

/* ---- dependents: are the owners still there? ---- */

static const struct bh_map *dependents_of(const struct work *w)
{
    return bh_map_get(&w->gc->dependents, w->obj->uid);
}

static size_t owners_in(const struct work *w, enum owner_state s)
{
    size_t n = 0;

    for (size_t i = 0; i < meta_of(w->obj)->owner_references.n; i++)
        n += w->owner[i] == s;
    return n;
}

static void strategic(struct work *w, const struct bh_obj *o, const struct bh_buf *b,
                      bh_client_fn fn)
{
    w->call = bh_client_patch(w->gc->ctl->client, o->kind, o->ns, o->name, "", BH_PATCH_STRATEGIC,
                              bh_buf_str(b), fn, w);
}

/* The object stays, without its references to owners that are gone or wait for it. */
static void owners_unref(struct work *w)
{
    const struct bh_meta_v1_object_meta *m = meta_of(w->obj);
    BH_AUTO_BUF b = {.max = BH_BODY_BYTES_MAX};
    bool any = false;

    bh_buf_addf(&b, "{\"metadata\":{\"uid\":\"%.*s\",\"ownerReferences\":[", BH_SF(w->obj->uid));
    for (size_t i = 0; i < m->owner_references.n; i++) {
        if (w->owner[i] == OWNER_SOLID)
            continue;
        bh_buf_addf(&b, "%s{\"$patch\":\"delete\",\"uid\":", any ? "," : "");
        bh_json_write_str(&b, m->owner_references.p[i].uid);
        bh_buf_addc(&b, '}');
        any = true;
    }
    bh_buf_addz(&b, "]}}");
    strategic(w, w->obj, &b, work_written);
}

static void delete_with(struct work *w, const char *policy)
{
    BH_AUTO_BUF b = {.max = 4096};

    bh_log(BH_INFO, "collecting an object without owners", BH_STR("kind", w->obj->kind->kind),
           BH_STR("namespace", w->obj->ns), BH_STR("name", w->obj->name));
    bh_buf_addf(&b,
                "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"propagationPolicy\":\"%s\","
                "\"preconditions\":{\"uid\":\"%.*s\"}}",
                policy, BH_SF(w->obj->uid));
    w->call = bh_client_call(w->gc->ctl->client,
                             &(struct bh_client_req){.verb = BH_VERB_DELETE,
                                                     .kind = w->obj->kind,
                                                     .ns = w->obj->ns,
                                                     .name = w->obj->name,
                                                     .body = bh_buf_str(&b)},
                             work_written, w);
}

static void unblocked(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;

    if (res->err.code == BH_OK)
        delete_with(w, "Foreground");
    else
        work_written(w, res);
}

/* A dependent of ours is being deleted in the foreground itself: it may wait for us, we for it. We
 * stop blocking our owners, which breaks the circle. */
static bool unblock(struct work *w, const struct bh_map *deps)
{
    const struct bh_meta_v1_object_meta *m = meta_of(w->obj);
    BH_AUTO_BUF b = {.max = BH_BODY_BYTES_MAX};
    bool circle = false, any = false;
    struct bh_str key;

    for (size_t it = 0; bh_map_next(deps, &it, &key, NULL);) {
        const struct bh_obj *d = object_of(w->gc, key);

        circle = circle || (d && d->deleting && has_finalizer(d, "foregroundDeletion"));
    }
    bh_buf_addf(&b, "{\"metadata\":{\"uid\":\"%.*s\",\"ownerReferences\":[", BH_SF(w->obj->uid));
    for (size_t i = 0; circle && i < m->owner_references.n; i++) {
        if (!m->owner_references.p[i].block_owner_deletion)
            continue;
        bh_buf_addf(&b, "%s{\"blockOwnerDeletion\":false,\"uid\":", any ? "," : "");
        bh_json_write_str(&b, m->owner_references.p[i].uid);
        bh_buf_addc(&b, '}');
        any = true;
    }
    bh_buf_addz(&b, "]}}");
    if (any)
        strategic(w, w->obj, &b, unblocked);
    return any;
}

static void owners_done(struct work *w)
{
    size_t total = meta_of(w->obj)->owner_references.n, solid = owners_in(w, OWNER_SOLID);
    const struct bh_map *deps = dependents_of(w);

    if (solid == total) {
        work_end(w, BH_WORK_OK);
    } else if (solid) {
        owners_unref(w);
    } else if (owners_in(w, OWNER_WAITING) && deps) {
        if (!unblock(w, deps))
            delete_with(w, "Foreground");
    } else {
        delete_with(w, has_finalizer(w->obj, "orphan")               ? "Orphan"
                       : has_finalizer(w->obj, "foregroundDeletion") ? "Foreground"
                                                                     : "Background");
    }
}

static enum owner_state state_of(const struct bh_obj *owner,
                                 const struct bh_meta_v1_owner_reference *r)
{
    if (!owner || !bh_str_eq(owner->uid, r->uid))
        return OWNER_DANGLING;
    return owner->deleting && r->block_owner_deletion && has_finalizer(owner, "foregroundDeletion")
               ? OWNER_WAITING
               : OWNER_SOLID;
}

static void owner_asked(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;

    w->call = 0;
    if (res->err.code != BH_E_NOT_FOUND && (res->err.code != BH_OK || !res->obj)) {
        work_end(w, BH_WORK_RETRY);
        return;
    }
    w->owner[w->i] = state_of(res->err.code == BH_OK ? res->obj : NULL,
                              &meta_of(w->obj)->owner_references.p[w->i]);
    w->i++;
    owners_next(w);
}

static struct bh_obj *cached(const struct gc *gc, const struct bh_kind *k, struct bh_str ns,
                             struct bh_str name)
{
    for (size_t i = 0; i < gc->n_kinds; i++)
        if (gc->kinds[i].kind == bh_kind_hub(k))
            return bh_informer_get(gc->kinds[i].informer, ns, name);
    return NULL;
}

/* An owner of a kind that nobody here knows counts as solid, and so does one that cannot be
 * reached: a cluster-scoped object that names a namespaced owner, in no namespace. */
static void owners_next(struct work *w)
{
    const struct bh_meta_v1_object_meta *m = meta_of(w->obj);

    for (; w->i < m->owner_references.n; w->i++) {
        const struct bh_meta_v1_owner_reference *r = &m->owner_references.p[w->i];
        const struct bh_kind *k = bh_kind_by_api_version(r->api_version, r->kind);
        struct bh_str ns = k && k->namespaced ? w->obj->ns : (struct bh_str){0};
        struct bh_obj *c;

        w->owner[w->i] = OWNER_SOLID;
        if (!k || !(k->verbs & BH_V_GET) || (k->namespaced && !ns.n))
            continue;
        c = cached(w->gc, k, ns, r->name);
        if (c && bh_str_eq(c->uid, r->uid)) {
            w->owner[w->i] = state_of(c, r);
            continue;
        }
        w->call = bh_client_call(
            w->gc->ctl->client,
            &(struct bh_client_req){.verb = BH_VERB_GET, .kind = k, .ns = ns, .name = r->name},
            owner_asked, w);
        return;
    }
    owners_done(w);
}

/* ---- owners: foreground and orphan ---- */

static void drop_finalizer(struct work *w, const char *name)
{
    const struct bh_meta_v1_object_meta *m = meta_of(w->obj);
    BH_AUTO_BUF b = {.max = BH_BODY_BYTES_MAX};
    bool any = false;

    bh_buf_addf(&b, "{\"metadata\":{\"resourceVersion\":\"%llu\",\"finalizers\":[",
                (unsigned long long)w->obj->rv);
    for (size_t i = 0; i < m->finalizers.n; i++) {
        if (bh_str_eqc(m->finalizers.p[i], name))
            continue;
        if (any)
            bh_buf_addc(&b, ',');
        bh_json_write_str(&b, m->finalizers.p[i]);
        any = true;
    }
    bh_buf_addz(&b, "]}}");
    w->call = bh_client_patch(w->gc->ctl->client, w->obj->kind, w->obj->ns, w->obj->name, "",
                              BH_PATCH_MERGE, bh_buf_str(&b), work_written, w);
}

/* Whether the dependent holds up the deletion of this owner. */
static bool blocks(const struct bh_obj *d, struct bh_str owner_uid)
{
    const struct bh_meta_v1_object_meta *m = meta_of(d);

    for (size_t i = 0; i < m->owner_references.n; i++)
        if (bh_str_eq(m->owner_references.p[i].uid, owner_uid))
            return m->owner_references.p[i].block_owner_deletion;
    return false;
}

static void foreground(struct work *w)
{
    const struct bh_map *deps = dependents_of(w);
    struct bh_str key;
    bool blocked = false;

    for (size_t it = 0; deps && bh_map_next(deps, &it, &key, NULL);) {
        const struct bh_obj *d = object_of(w->gc, key);

        if (!d || !blocks(d, w->obj->uid))
            continue;
        blocked = true;
        if (!d->deleting) /* each judges by all of its owners whether it goes */
            bh_workqueue_add(w->gc->queue, key);
    }
    if (blocked)
        work_end(w, BH_WORK_OK); /* the last dependent's deletion brings us back */
    else
        drop_finalizer(w, "foregroundDeletion");
}

static void orphaned(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;

    w->call = 0;
    w->failed = w->failed || (res->err.code != BH_OK && res->err.code != BH_E_NOT_FOUND);
    w->i++;
    orphan_next(w);
}

static void orphan_next(struct work *w)
{
    for (; w->i < w->deps.n; w->i++) {
        const struct bh_obj *d = object_of(w->gc, w->deps.p[w->i]);
        BH_AUTO_BUF b = {.max = 4096};

        if (!d)
            continue;
        bh_buf_addf(&b,
                    "{\"metadata\":{\"ownerReferences\":[{\"$patch\":\"delete\",\"uid\":\"%.*s\"}],"
                    "\"uid\":\"%.*s\"}}",
                    BH_SF(w->obj->uid), BH_SF(d->uid));
        strategic(w, d, &b, orphaned);
        return;
    }
    if (w->failed)
        work_end(w, BH_WORK_RETRY);
    else
        drop_finalizer(w, "orphan");
}

static void orphan(struct work *w)
{
    const struct bh_map *deps = dependents_of(w);
    struct bh_str key;

    w->deps.p = bh_new_n(w->arena, struct bh_str, (deps ? deps->n : 0) + 1);
    for (size_t it = 0; deps && bh_map_next(deps, &it, &key, NULL);)
        w->deps.p[w->deps.n++] = bh_str_dup(w->arena, key);
    orphan_next(w);
}

static bool needs_look(const struct bh_obj *o)
{
    return (o->deleting &&
            (has_finalizer(o, "foregroundDeletion") || has_finalizer(o, "orphan"))) ||
           (!o->deleting && meta_of(o)->owner_references.n);
}

static void gc_sync(void *arg, struct bh_str key)
{
    struct gc *gc = arg;
    struct bh_obj *o = object_of(gc, key);
    struct bh_arena *a;
    struct work *w;

    if (!o || !needs_look(o)) {
        bh_workqueue_done(gc->queue, key, BH_WORK_OK);
        return;
    }
    a = bh_arena_new(0);
    w = bh_new(a, struct work);
    w->gc = gc;
    w->arena = a;
    w->key = key;
    w->obj = bh_obj_ref(o);
    w->owner = bh_new_n(a, enum owner_state, meta_of(o)->owner_references.n + 1);
    bh_list_add_tail(&gc->works, &w->link);
    if (!o->deleting)
        owners_next(w);
    else if (has_finalizer(o, "orphan"))
        orphan(w);
    else
        foreground(w);
}

/* ---- events ---- */

static void index_owners(struct gc_kind *k, struct bh_obj *o, bool present)
{
    const struct bh_meta_v1_object_meta *m = meta_of(o);
    char buf[KEY_MAX];
    struct bh_str key = queue_key(k, o, buf);

    for (size_t i = 0; i < m->owner_references.n; i++) {
        struct bh_str uid = m->owner_references.p[i].uid;
        struct bh_map *set = bh_map_get(&k->gc->dependents, uid);

        if (present && !set) {
            set = bh_calloc(1, sizeof(*set));
            (void)bh_map_put(&k->gc->dependents, uid, set);
        }
        if (present) {
            (void)bh_map_put(set, key, set);
        } else if (set) {
            (void)bh_map_del(set, key);
            if (set->n == 0) {
                (void)bh_map_del(&k->gc->dependents, uid);
                bh_map_done(set);
                bh_free(set);
            }
        }
    }
}

/* Owners that are being deleted in the foreground, or orphan their dependents, wait for this
 * object. */
static void wake_owners(struct gc_kind *k, struct bh_obj *o)
{
    const struct bh_meta_v1_object_meta *m = meta_of(o);
    char buf[KEY_MAX];

    for (size_t i = 0; i < m->owner_references.n; i++)
        for (size_t j = 0; j < k->gc->n_kinds; j++) {
            struct gc_kind *ok = &k->gc->kinds[j];
            struct bh_obj *owner;

            if (!bh_str_eq(ok->kind->kind, m->owner_references.p[i].kind))
                continue;
            owner = bh_informer_get(ok->informer, ok->kind->namespaced ? o->ns : (struct bh_str){0},
                                    m->owner_references.p[i].name);
            if (owner && owner->deleting)
                bh_workqueue_add(k->gc->queue, queue_key(ok, owner, buf));
        }
}

static void gc_added(void *arg, struct bh_obj *o)
{
    struct gc_kind *k = arg;
    char buf[KEY_MAX];

    index_owners(k, o, true);
    if (needs_look(o))
        bh_workqueue_add(k->gc->queue, queue_key(k, o, buf));
}

static bool same_owners(const struct bh_obj *a, const struct bh_obj *b)
{
    const struct bh_meta_v1_object_meta *x = meta_of(a), *y = meta_of(b);

    if (x->owner_references.n != y->owner_references.n)
        return false;
    for (size_t i = 0; i < x->owner_references.n; i++)
        if (!bh_str_eq(x->owner_references.p[i].uid, y->owner_references.p[i].uid) ||
            x->owner_references.p[i].block_owner_deletion !=
                y->owner_references.p[i].block_owner_deletion)
            return false;
    return true;
}

static void gc_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct gc_kind *k = arg;
    char buf[KEY_MAX];
    bool same = same_owners(old, o);

    if (!same) {
        index_owners(k, old, false);
        index_owners(k, o, true);
        wake_owners(k, old);
    }
    /* A finalizer of ours may come after the deletion began, with a second DELETE. */
    if ((!same || (o->deleting && (!old->deleting || !needs_look(old)))) && needs_look(o))
        bh_workqueue_add(k->gc->queue, queue_key(k, o, buf));
}

static void gc_deleted(void *arg, struct bh_obj *last)
{
    struct gc_kind *k = arg;
    struct bh_map *deps;
    struct bh_str key;

    index_owners(k, last, false);
    wake_owners(k, last);
    deps = bh_map_get(&k->gc->dependents, last->uid);
    for (size_t it = 0; deps && bh_map_next(deps, &it, &key, NULL);)
        bh_workqueue_add(k->gc->queue, key);
}

static void gc_begin(void *arg)
{
    const struct gc *gc = ((struct gc_kind *)arg)->gc;

    for (size_t i = 0; i < gc->n_kinds; i++)
        if (!bh_informer_synced(gc->kinds[i].informer))
            return;
    bh_workqueue_resume(gc->queue);
}

static const struct bh_informer_ops gc_ops = {gc_added, gc_updated, gc_deleted, gc_begin};

static bool collects(const struct bh_kind *k)
{
    /* Events come and go in masses and own nothing; other versions of a kind are the same objects.
     */
    return (k->verbs & BH_V_LIST) && (k->verbs & BH_V_WATCH) && (k->verbs & BH_V_DELETE) &&
           bh_kind_hub(k) == k && !bh_str_eqc(k->kind, "Event");
}

static void *gc_start(struct ctl *c)
{
    struct gc *gc = bh_calloc(1, sizeof(*gc));
    size_t n;
    const struct bh_kind *const *kinds = bh_kinds(&n);

    gc->ctl = c;
    bh_list_init(&gc->works);
    gc->queue = bh_workqueue_new(c->loop, WORKERS, gc_sync, gc);
    bh_workqueue_pause(gc->queue);
    gc->kinds = bh_calloc(n, sizeof(*gc->kinds));
    for (size_t i = 0; i < n; i++)
        if (collects(kinds[i]))
            gc->kinds[gc->n_kinds++] = (struct gc_kind){.gc = gc, .kind = kinds[i]};
    for (size_t i = 0; i < gc->n_kinds; i++)
        gc->kinds[i].informer =
            ctl_subscribe(c->informers, gc->kinds[i].kind, &gc_ops, &gc->kinds[i]);
    return gc;
}

static void gc_stop(void *self)
{
    struct gc *gc = self;
    void *v;

    bh_list_for_safe(l, &gc->works)
    {
        struct work *w = bh_container(l, struct work, link);

        bh_client_cancel(gc->ctl->client, w->call);
        (void)bh_obj_unref(w->obj);
        (void)bh_arena_free(w->arena);
    }
    gc->queue = bh_workqueue_free(gc->queue);
    for (size_t it = 0; bh_map_next(&gc->dependents, &it, NULL, &v);) {
        bh_map_done(v);
        bh_free(v);
    }
    bh_map_done(&gc->dependents);
    bh_free(gc->kinds);
    bh_free(gc);
}

const struct ctl_controller ctl_garbage_collector = {"garbage-collector-controller", gc_start,
                                                     gc_stop};
