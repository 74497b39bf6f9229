/* Informers: a local set of objects that follows the server's by list and watch.
 *
 * The state machine is: list -> watch from the list's version -> (ended) watch again from the last
 * version seen -> (Expired) list again. A list that follows an earlier one is delivered as the
 * difference.
 */
#include "api/types.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/map.h"
#include "client/client_int.h"

#define INFORMER_BACKOFF_MIN_MS 200
#define INFORMER_BACKOFF_MAX_MS 10000
#define INFORMER_KEY_MAX        320

struct bh_informer {
    struct bh_client *client;
    const struct bh_kind *kind;
    struct bh_arena *arena; /* the selectors' copies */
    struct bh_str ns, label_selector, field_selector;
    const struct bh_informer_ops *ops;
    void *arg;
    struct bh_map objs; /* key -> struct bh_obj *, referenced */
    uint64_t rv;        /* last version seen */
    uint64_t call;      /* the list or watch under way, 0 when none */
    struct bh_timer retry;
    int64_t backoff_ms;
    bool synced;
    bool relist; /* the next attempt is a list */
};

static void informer_start(void *arg);

static void informer_deliver(struct bh_informer *i, struct bh_obj *old, struct bh_obj *obj)
{
    if (!old) {
        if (i->ops->added)
            i->ops->added(i->arg, obj);
    } else if (old->rv != obj->rv) {
        if (i->ops->updated)
            i->ops->updated(i->arg, old, obj);
    }
}

static void informer_put(struct bh_informer *i, struct bh_obj *obj)
{
    char key[INFORMER_KEY_MAX];
    struct bh_obj *old = bh_map_put(&i->objs, bh_obj_key(obj, key, sizeof(key)), bh_obj_ref(obj));

    informer_deliver(i, old, obj);
    (void)bh_obj_unref(old);
}

static void informer_drop(struct bh_informer *i, struct bh_str key, struct bh_obj *last)
{
    struct bh_obj *old = bh_map_del(&i->objs, key);

    if (!old)
        return;
    if (i->ops->deleted)
        i->ops->deleted(i->arg, last ? last : old);
    (void)bh_obj_unref(old);
}

static void informer_retry(struct bh_informer *i, bool relist)
{
    i->relist = relist;
    i->backoff_ms = i->backoff_ms ? i->backoff_ms * 2 : INFORMER_BACKOFF_MIN_MS;
    if (i->backoff_ms > INFORMER_BACKOFF_MAX_MS)
        i->backoff_ms = INFORMER_BACKOFF_MAX_MS;
    /* Jitter keeps many informers from asking a server that came back all at once. */
    bh_timer_start(&i->retry,
                   i->backoff_ms / 2 + (int64_t)(bh_loop_random(bh_client_loop(i->client)) %
                                                 (uint64_t)i->backoff_ms));
}

/* Removes what the new list no longer holds. The keys are collected first: handlers may look into
 * the set. */
static void informer_sweep(struct bh_informer *i, const struct bh_map *seen)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str_vec gone = {NULL, 0};
    size_t cap = 0, it = 0;
    struct bh_str key;
    void *v;

    while (bh_map_next(&i->objs, &it, &key, &v)) {
        if (bh_map_get(seen, key))
            continue;
        bh_arena_grow(a, &gone.p, &cap, gone.n + 1, sizeof(*gone.p));
        gone.p[gone.n++] = bh_str_dup(a, key);
    }
    for (size_t k = 0; k < gone.n; k++)
        informer_drop(i, gone.p[k], NULL);
}

static void informer_listed(void *arg, const struct bh_client_res *res)
{
    struct bh_informer *i = arg;
    struct bh_map seen = {0};

    i->call = 0;
    if (res->err.code != BH_OK) {
        bh_log(BH_DEBUG, "list failed, retrying", BH_STR("kind", i->kind->kind),
               BH_CSTR("error", res->err.msg));
        informer_retry(i, true);
        return;
    }
    for (size_t k = 0; k < res->items_n; k++) {
        char key[INFORMER_KEY_MAX];

        (void)bh_map_put(&seen, bh_obj_key(res->items[k], key, sizeof(key)), res->items[k]);
    }
    informer_sweep(i, &seen);
    bh_map_done(&seen);
    for (size_t k = 0; k < res->items_n; k++)
        informer_put(i, res->items[k]);
    i->rv = res->list_rv;
    i->backoff_ms = 0;
    i->relist = false;
    if (!i->synced) {
        i->synced = true;
        if (i->ops->synced)
            i->ops->synced(i->arg);
    }
    informer_start(i);
}

static void informer_event(void *arg, enum bh_cw_type type, struct bh_obj *obj, uint64_t rv)
{
    struct bh_informer *i = arg;
    char key[INFORMER_KEY_MAX];

    i->backoff_ms = 0;
    if (rv > i->rv)
        i->rv = rv;
    switch (type) {
    case BH_CW_ADDED:
    case BH_CW_MODIFIED:
        informer_put(i, obj);
        break;
    case BH_CW_DELETED:
        informer_drop(i, bh_obj_key(obj, key, sizeof(key)), obj);
        break;
    case BH_CW_BOOKMARK:
        break;
    }
}

static void informer_ended(void *arg, const struct bh_err *err)
{
    struct bh_informer *i = arg;

    i->call = 0;
    if (err->code == BH_E_GONE) {
        i->relist = true;
        bh_timer_start(&i->retry, 0);
    } else if (err->code == BH_OK) {
        bh_timer_start(&i->retry, 0);
    } else {
        informer_retry(i, false);
    }
}

static void informer_start(void *arg)
{
    struct bh_informer *i = arg;
    struct bh_client_req req = {.verb = i->relist ? BH_VERB_LIST : BH_VERB_WATCH,
                                .kind = i->kind,
                                .ns = i->ns,
                                .label_selector = i->label_selector,
                                .field_selector = i->field_selector};

    if (i->call)
        return;
    if (i->relist) {
        i->call = bh_client_call(i->client, &req, informer_listed, i);
        return;
    }
    /* A server ends a watch after five to ten minutes; a version that no event moved would be
     * compacted meanwhile. */
    req.query = BH_S("allowWatchBookmarks=true");
    i->call = bh_client_watch(
        i->client, &req, i->rv,
        &(struct bh_watch_handler){.event = informer_event, .ended = informer_ended, .arg = i});
}

struct bh_informer *bh_informer_new(struct bh_client *c, const struct bh_kind *k, struct bh_str ns,
                                    struct bh_str label_selector, struct bh_str field_selector,
                                    const struct bh_informer_ops *ops, void *arg)
{
    struct bh_informer *i = bh_calloc(1, sizeof(*i));

    i->client = c;
    i->kind = k;
    i->arena = bh_arena_new(0);
    i->ns = bh_str_dup(i->arena, ns);
    i->label_selector = bh_str_dup(i->arena, label_selector);
    i->field_selector = bh_str_dup(i->arena, field_selector);
    i->ops = ops;
    i->arg = arg;
    i->relist = true;
    bh_timer_init(&i->retry, bh_client_loop(c), informer_start, i);
    informer_start(i);
    return i;
}

struct bh_informer *bh_informer_free(struct bh_informer *i)
{
    size_t it = 0;
    void *v;

    if (!i)
        return NULL;
    if (i->call)
        bh_client_cancel(i->client, i->call);
    bh_timer_stop(&i->retry);
    while (bh_map_next(&i->objs, &it, NULL, &v))
        (void)bh_obj_unref(v);
    bh_map_done(&i->objs);
    (void)bh_arena_free(i->arena);
    bh_free(i);
    return NULL;
}

bool bh_informer_synced(const struct bh_informer *i)
{
    return i->synced;
}

struct bh_obj *bh_informer_get(const struct bh_informer *i, struct bh_str ns, struct bh_str name)
{
    char buf[INFORMER_KEY_MAX];
    size_t n = 0;

    if (ns.n + name.n + 1 > sizeof(buf))
        return NULL;
    for (size_t k = 0; k < ns.n; k++)
        buf[n++] = ns.p[k];
    if (ns.n)
        buf[n++] = '/';
    for (size_t k = 0; k < name.n; k++)
        buf[n++] = name.p[k];
    return bh_map_get(&i->objs, (struct bh_str){buf, n});
}

size_t bh_informer_count(const struct bh_informer *i)
{
    return i->objs.n;
}

struct bh_obj *bh_informer_next(const struct bh_informer *i, size_t *it)
{
    void *v;

    return bh_map_next(&i->objs, it, NULL, &v) ? v : NULL;
}
