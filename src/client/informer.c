/* Informers: a local set of objects that follows the server's by list and watch.
 *
 * The state machine is: list -> watch from the list's version -> (ended) watch again from the last
 * version seen -> (Expired) list again. A list that follows an earlier one is delivered as the
 * difference. Whatever ends at once is not repeated at once: the pause grows from 200 ms to 10 s
 * and is forgotten when a watch has lived a second or brought something.
 */
#include <stdio.h>
#include <string.h>

#include "api/types.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/map.h"
#include "client/client_int.h"

#define INFORMER_BACKOFF_MIN_MS 200
#define INFORMER_BACKOFF_MAX_MS 10000
#define INFORMER_UNSERVED_MS    30000 /* the server has no such kind: it may learn it */
#define INFORMER_SHORT_NS       ((int64_t)1000000000)
#define INFORMER_WATCH_MIN_S    300 /* a watch lives five to ten minutes, as upstream's */
#define INFORMER_WATCH_GRACE_MS 30000
#define INFORMER_KEY_MAX        1024 /* a name of an RBAC object has no limit of its own */

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
    struct bh_timer overdue; /* a watch that should have ended: its server is gone without a word */
    int64_t backoff_ms;
    int64_t began_ns; /* monotonic: when the watch was asked for */
    bool synced;
    bool relist; /* the next attempt is a list */
    int busy;    /* frames of ours that call handlers: the last one frees */
    bool freed;
};

static void informer_start(void *arg);

static void informer_dispose(struct bh_informer *i)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&i->objs, &it, NULL, &v))
        (void)bh_obj_unref(v);
    bh_map_done(&i->objs);
    (void)bh_arena_free(i->arena);
    bh_free(i);
}

/* Every entry that may call a handler is bracketed by these two: a handler may free the informer.
 */
static void informer_enter(struct bh_informer *i)
{
    i->busy++;
}

static void informer_leave(struct bh_informer *i)
{
    if (--i->busy == 0 && i->freed)
        informer_dispose(i);
}

static void informer_drop(struct bh_informer *i, struct bh_str key, struct bh_obj *last)
{
    struct bh_obj *old = bh_map_del(&i->objs, key);

    if (!old)
        return;
    if (i->ops->deleted && !i->freed)
        i->ops->deleted(i->arg, last ? last : old);
    (void)bh_obj_unref(old);
}

static void informer_put(struct bh_informer *i, struct bh_obj *obj)
{
    char buf[INFORMER_KEY_MAX];
    struct bh_str key = bh_obj_key(obj, buf, sizeof(buf));
    struct bh_obj *old = bh_map_get(&i->objs, key);

    /* Deleted and made again while nobody watched: two objects that share a name. */
    if (old && !bh_str_eq(old->uid, obj->uid)) {
        informer_drop(i, key, NULL);
        old = NULL;
        if (i->freed)
            return;
    }
    if (old && old->rv == obj->rv)
        return;
    (void)bh_map_put(&i->objs, key, bh_obj_ref(obj));
    if (old && i->ops->updated)
        i->ops->updated(i->arg, old, obj);
    else if (!old && i->ops->added)
        i->ops->added(i->arg, obj);
    (void)bh_obj_unref(old);
}

static void informer_retry(struct bh_informer *i)
{
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

/* Brings the set to what a list holds, and tells that it is complete. */
static void informer_take(struct bh_informer *i, struct bh_obj **items, size_t n)
{
    struct bh_map seen = {0};

    for (size_t k = 0; k < n; k++) {
        char key[INFORMER_KEY_MAX];

        (void)bh_map_put(&seen, bh_obj_key(items[k], key, sizeof(key)), items[k]);
    }
    informer_sweep(i, &seen);
    bh_map_done(&seen);
    for (size_t k = 0; k < n && !i->freed; k++)
        informer_put(i, items[k]);
    if (i->synced || i->freed)
        return;
    i->synced = true;
    if (i->ops->synced)
        i->ops->synced(i->arg);
}

static void informer_failed(struct bh_informer *i, const char *what, const struct bh_err *err)
{
    informer_retry(i);
    bh_log(i->backoff_ms < INFORMER_BACKOFF_MAX_MS ? BH_DEBUG : BH_WARN, what,
           BH_STR("kind", i->kind->kind), BH_CSTR("error", err->msg));
}

static void informer_listed(void *arg, const struct bh_client_res *res)
{
    struct bh_informer *i = arg;

    i->call = 0;
    informer_enter(i);
    if (res->err.code == BH_OK) {
        i->rv = res->list_rv;
        i->relist = false;
        informer_take(i, res->items, res->items_n);
        if (!i->freed && i->ops->listed)
            i->ops->listed(i->arg, res->list_rv);
        if (!i->freed)
            informer_start(i);
    } else if (res->err.code == BH_E_NOT_FOUND || res->err.code == BH_E_METHOD) {
        /* A server that does not know the kind holds none of it: older ones, or a feature that is
         * off. Nobody should wait for it. */
        informer_take(i, NULL, 0);
        if (!i->freed)
            bh_timer_start(&i->retry, INFORMER_UNSERVED_MS);
    } else {
        informer_failed(i, "list failed, retrying", &res->err);
    }
    informer_leave(i);
}

static void informer_event(void *arg, enum bh_cw_type type, struct bh_obj *obj, uint64_t rv)
{
    struct bh_informer *i = arg;
    char key[INFORMER_KEY_MAX];

    i->backoff_ms = 0;
    if (rv > i->rv)
        i->rv = rv;
    informer_enter(i);
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
    informer_leave(i);
}

static void informer_ended(void *arg, const struct bh_err *err)
{
    struct bh_informer *i = arg;
    bool lived = bh_loop_mono_ns(bh_client_loop(i->client)) - i->began_ns >= INFORMER_SHORT_NS;

    i->call = 0;
    bh_timer_stop(&i->overdue);
    i->relist = err->code == BH_E_GONE;
    if (lived)
        i->backoff_ms = 0;
    if (err->code != BH_OK && err->code != BH_E_GONE)
        informer_failed(i, "watch failed, retrying", err);
    else if (lived)
        bh_timer_start(&i->retry, 0);
    else
        informer_retry(i);
}

/* The connection may be dead without our knowing: no end of it ever came. */
static void informer_overdue(void *arg)
{
    struct bh_informer *i = arg;

    bh_log(BH_DEBUG, "watch did not end in time, starting another", BH_STR("kind", i->kind->kind));
    bh_client_cancel(i->client, i->call);
    i->call = 0;
    informer_start(i);
}

static void informer_start(void *arg)
{
    struct bh_informer *i = arg;
    struct bh_loop *loop = bh_client_loop(i->client);
    struct bh_client_req req = {.verb = i->relist ? BH_VERB_LIST : BH_VERB_WATCH,
                                .kind = i->kind,
                                .ns = i->ns,
                                .label_selector = i->label_selector,
                                .field_selector = i->field_selector};
    char query[80];
    int life_s;

    if (i->relist) {
        i->call = bh_client_call(i->client, &req, informer_listed, i);
        return;
    }
    /* Bookmarks keep our version from being compacted while no event moves it. */
    life_s = INFORMER_WATCH_MIN_S + (int)(bh_loop_random(loop) % INFORMER_WATCH_MIN_S);
    (void)snprintf(query, sizeof(query), "allowWatchBookmarks=true&timeoutSeconds=%d", life_s);
    req.query = bh_s(query);
    i->began_ns = bh_loop_mono_ns(loop);
    bh_timer_start(&i->overdue, life_s * (int64_t)1000 + INFORMER_WATCH_GRACE_MS);
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
    bh_timer_init(&i->overdue, bh_client_loop(c), informer_overdue, i);
    informer_start(i);
    return i;
}

struct bh_informer *bh_informer_free(struct bh_informer *i)
{
    if (!i)
        return NULL;
    bh_client_cancel(i->client, i->call);
    bh_timer_stop(&i->retry);
    bh_timer_stop(&i->overdue);
    i->freed = true;
    if (!i->busy)
        informer_dispose(i);
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

    if (ns.n + name.n + 1 > sizeof(buf) || !name.n)
        return NULL;
    if (ns.n) {
        memcpy(buf, ns.p, ns.n);
        buf[ns.n] = '/';
        n = ns.n + 1;
    }
    memcpy(buf + n, name.p, name.n);
    return bh_map_get(&i->objs, (struct bh_str){buf, n + name.n});
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
