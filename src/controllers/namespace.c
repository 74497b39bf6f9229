/* namespace-controller: empties a namespace that is being deleted, then takes its finalizer off.
 *
 * It walks the namespaced kinds one after the other: deletecollection, then a list; the first that
 * is not empty ends the walk, and the namespace is looked at again a little later.
 */
#include <stdio.h>

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "controllers/controllers_int.h"

#define AGAIN_MS 1000

struct nsc {
    struct ctl *ctl;
    struct bh_informer *namespaces;
    struct bh_workqueue *queue;
    struct bh_link works;
};

struct work {
    struct bh_link link;
    struct nsc *c;
    struct bh_str key;
    struct bh_obj *obj;
    size_t i;  /* index in bh_kinds() */
    bool left; /* something is still there */
    uint64_t call;
};

static void walk(struct work *w);

static void work_end(struct work *w, bool ok)
{
    struct nsc *c = w->c;
    struct bh_str key = w->key;

    bh_list_del(&w->link);
    (void)bh_obj_unref(w->obj);
    if (ok && w->left)
        bh_workqueue_add_after(c->queue, key, AGAIN_MS);
    bh_free(w);
    bh_workqueue_done(c->queue, key, ok ? BH_WORK_OK : BH_WORK_RETRY);
}

static void finalized(void *arg, const struct bh_client_res *res)
{
    work_end(arg, res->err.code == BH_OK || res->err.code == BH_E_NOT_FOUND);
}

static void finalize(struct work *w)
{
    struct bh_core_v1_namespace ns = *(const struct bh_core_v1_namespace *)bh_obj_struct(w->obj);
    size_t n = 0;

    /* The copy is shallow: only the list of finalizers is our own. */
    struct bh_str *keep = bh_calloc(ns.spec.finalizers.n + 1, sizeof(*keep));
    for (size_t i = 0; i < ns.spec.finalizers.n; i++)
        if (!bh_str_eqc(ns.spec.finalizers.p[i], "kubernetes"))
            keep[n++] = ns.spec.finalizers.p[i];
    ns.spec.finalizers.p = keep;
    ns.spec.finalizers.n = n;
    w->call = bh_client_update(w->c->ctl->client, &bh_core_v1_namespace_kind, &ns, "finalize",
                               finalized, w);
    bh_free(keep);
}

static void listed(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;

    if (res->err.code != BH_OK && res->err.code != BH_E_NOT_FOUND && res->err.code != BH_E_METHOD) {
        work_end(w, false);
        return;
    }
    w->left = w->left || res->items_n > 0;
    w->i++;
    walk(w);
}

static void emptied(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;
    size_t n;
    const struct bh_kind *k = bh_kinds(&n)[w->i];

    if (res->err.code != BH_OK)
        bh_log(BH_DEBUG, "deletecollection failed", BH_STR("resource", k->resource),
               BH_CSTR("error", res->err.msg));
    w->call = bh_client_call(
        w->c->ctl->client,
        &(struct bh_client_req){.verb = BH_VERB_LIST, .kind = k, .ns = w->obj->name}, listed, w);
}

static void walk(struct work *w)
{
    size_t n;
    const struct bh_kind *const *kinds = bh_kinds(&n);

    for (; w->i < n; w->i++) {
        const struct bh_kind *k = kinds[w->i];

        if (!k->namespaced || !(k->verbs & BH_V_DELETECOLLECTION) || !(k->verbs & BH_V_LIST) ||
            bh_kind_hub(k) != k)
            continue;
        w->call =
            bh_client_call(w->c->ctl->client,
                           &(struct bh_client_req){
                               .verb = BH_VERB_DELETE_COLLECTION, .kind = k, .ns = w->obj->name},
                           emptied, w);
        return;
    }
    if (w->left)
        work_end(w, true);
    else
        finalize(w);
}

/* Our finalizer is still there; other parties may hold the namespace longer. */
static bool unfinished(const struct bh_core_v1_namespace *ns)
{
    for (size_t i = 0; i < ns->spec.finalizers.n; i++)
        if (bh_str_eqc(ns->spec.finalizers.p[i], "kubernetes"))
            return true;
    return false;
}

static void ns_sync(void *arg, struct bh_str key)
{
    struct nsc *c = arg;
    struct bh_obj *o = bh_informer_get(c->namespaces, (struct bh_str){0}, key);
    struct work *w;

    if (!o || !o->deleting || !unfinished(bh_obj_struct(o))) {
        bh_workqueue_done(c->queue, key, BH_WORK_OK);
        return;
    }
    w = bh_calloc(1, sizeof(*w));
    w->c = c;
    w->key = key;
    w->obj = bh_obj_ref(o);
    bh_list_add_tail(&c->works, &w->link);
    walk(w);
}

static void ns_added(void *arg, struct bh_obj *o)
{
    struct nsc *c = arg;

    if (o->deleting)
        bh_workqueue_add(c->queue, o->name);
}
static void ns_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    ns_added(arg, o);
}

static const struct bh_informer_ops ns_ops = {ns_added, ns_updated, NULL, NULL};

static void *ns_start(struct ctl *ctl)
{
    struct nsc *c = bh_calloc(1, sizeof(*c));

    c->ctl = ctl;
    bh_list_init(&c->works);
    c->queue = bh_workqueue_new(ctl->loop, 4, ns_sync, c);
    c->namespaces = ctl_subscribe(ctl->informers, &bh_core_v1_namespace_kind, &ns_ops, c);
    return c;
}

static void ns_stop(void *self)
{
    struct nsc *c = self;

    bh_list_for_safe(l, &c->works)
    {
        struct work *w = bh_container(l, struct work, link);

        bh_client_cancel(c->ctl->client, w->call);
        (void)bh_obj_unref(w->obj);
        bh_free(w);
    }
    c->queue = bh_workqueue_free(c->queue);
    bh_free(c);
}

const struct ctl_controller ctl_namespace = {"namespace-controller", ns_start, ns_stop};
