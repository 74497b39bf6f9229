/* State and events. Watchers are in wc_watch.c, old versions in wc_list.c. */
#include "apiserver/watch_cache.h"

#include "api/obj_commit.h"
#include "apiserver/wc_int.h"
#include "base/arena.h"
#include "base/limits.h"

#include <string.h>

struct bh_wc *bh_wc_new(void)
{
    return bh_calloc(1, sizeof(struct bh_wc));
}

/* So many events ago nearly nobody looks at a replaced state any more: its decoded form, as large
 * as its bytes, is given back. */
#define SHED_AFTER 128

static void event_done(struct bh_wc_event *ev)
{
    ev->obj = bh_obj_unref(ev->obj);
    ev->prev = bh_obj_unref(ev->prev);
}

static void entry_free(struct bh_wc_entry *e)
{
    (void)bh_obj_unref(e->obj);
    bh_free(bh_ptr_unconst(e->by_key.key.p));
    bh_free(e);
}

static void res_free(struct bh_wc_res *res)
{
    struct bh_keyset_pos pos = {0, 0};
    struct bh_keyset_entry *e;
    struct bh_str key;
    void *v;

    bh_assert(res->watchers == 0);
    while ((e = bh_keyset_next(&res->set, &pos)))
        entry_free((struct bh_wc_entry *)e);
    bh_keyset_done(&res->set);
    for (size_t i = 0; i < res->n; i++)
        event_done(bh_wc_at(res, i));
    bh_free(res->ring);
    for (size_t it = 0; bh_map_next(&res->buckets, &it, &key, &v);)
        bh_free(v);
    bh_map_done(&res->buckets);
    bh_free(bh_ptr_unconst(res->prefix.p));
    bh_free(res);
}

struct bh_wc *bh_wc_free(struct bh_wc *wc)
{
    if (!wc)
        return NULL;
    for (size_t i = 0; i < wc->n; i++)
        res_free(wc->res[i]);
    bh_free(wc->res);
    bh_map_done(&wc->by_key);
    bh_free(wc);
    return NULL;
}

struct bh_wc_res *bh_wc_add(struct bh_wc *wc, const struct bh_kind *hub, struct bh_str prefix)
{
    struct bh_wc_res *res = bh_calloc(1, sizeof(*res));

    res->wc = wc;
    res->hub = hub;
    res->prefix = bh_s(bh_strdup_c(prefix));
    res->floor = wc->rv;
    bh_list_init(&res->all);
    if (wc->n == wc->cap) {
        wc->cap = wc->cap ? wc->cap * 2 : 64;
        wc->res = bh_realloc(wc->res, wc->cap * sizeof(struct bh_wc_res *));
    }
    wc->res[wc->n++] = res;
    return res;
}

struct bh_wc_res *bh_wc_res_of_key(const struct bh_wc *wc, struct bh_str key)
{
    for (size_t i = 0; i < wc->n; i++)
        if (bh_str_starts(key, wc->res[i]->prefix))
            return wc->res[i];
    return NULL;
}

uint64_t bh_wc_rv(const struct bh_wc *wc)
{
    return wc->rv;
}

/* e: the entry that key has, or NULL. */
static void set_entry(struct bh_wc_res *res, struct bh_wc_entry *e, struct bh_str key,
                      struct bh_obj *obj)
{
    if (e) {
        (void)bh_obj_unref(e->obj);
        e->obj = obj;
        return;
    }
    e = bh_calloc(1, sizeof(*e));
    e->by_key.key = bh_s(bh_strdup_c(key));
    e->by_key.key.n = key.n;
    e->obj = obj;
    (void)bh_map_put(&res->wc->by_key, key, e);
    bh_keyset_insert(&res->set, &e->by_key);
}

void bh_wc_load(struct bh_wc_res *res, struct bh_str key, struct bh_obj *obj)
{
    set_entry(res, bh_map_get(&res->wc->by_key, key), key, obj);
    if (obj->rv > res->changed)
        res->changed = obj->rv;
}

void bh_wc_loaded(struct bh_wc *wc, uint64_t rv, uint64_t floor)
{
    wc->rv = rv;
    for (size_t i = 0; i < wc->n; i++)
        wc->res[i]->floor = floor;
}

struct bh_wc_event *bh_wc_at(const struct bh_wc_res *res, size_t i)
{
    return &res->ring[(res->head + i) % res->ring_cap];
}

static void drop_oldest(struct bh_wc_res *res)
{
    struct bh_wc_event *oldest = bh_wc_at(res, 0);

    res->floor = oldest->rv;
    res->wc->window_bytes -= oldest->obj->json.n;
    event_done(oldest);
    res->head = (res->head + 1) % res->ring_cap;
    res->n--;
}

/* A replaced state is held by the event that replaced it and, while that is still there, by the one
 * that made it. */
static void shed(struct bh_wc_res *res)
{
    struct bh_obj *o = res->n > SHED_AFTER ? bh_wc_at(res, res->n - 1 - SHED_AFTER)->prev : NULL;

    if (o)
        bh_obj_shed(o, o->rv > res->floor ? 2 : 1);
}

/* Takes the references in ev. The ring doubles up to the window, then the oldest events give way:
 * by their number, or by the bytes of all windows together. */
static void push(struct bh_wc_res *res, const struct bh_wc_event *ev)
{
    if (res->n == res->ring_cap && res->ring_cap < BH_EVENT_WINDOW) {
        size_t cap = res->ring_cap ? res->ring_cap * 2 : 16;
        struct bh_wc_event *ring;

        if (cap > BH_EVENT_WINDOW)
            cap = BH_EVENT_WINDOW;
        ring = bh_calloc(cap, sizeof(*ring));
        for (size_t i = 0; i < res->n; i++)
            ring[i] = *bh_wc_at(res, i);
        bh_free(res->ring);
        res->ring = ring;
        res->ring_cap = cap;
        res->head = 0;
    }
    if (res->n == res->ring_cap)
        drop_oldest(res);
    *bh_wc_at(res, res->n) = *ev;
    res->n++;
    res->wc->window_bytes += ev->obj->json.n;
    while (res->wc->window_bytes > BH_EVENT_WINDOW_BYTES && res->n > BH_EVENT_WINDOW_MIN)
        drop_oldest(res);
    shed(res);
}

void bh_wc_load_event(struct bh_wc_res *res, const struct bh_wc_event *ev)
{
    if (ev->rv > res->changed)
        res->changed = ev->rv;
    push(res, ev);
}

void bh_wc_publish(struct bh_wc_res *res, struct bh_str key, bool deleted, struct bh_obj *obj)
{
    struct bh_wc *wc = res->wc;
    struct bh_wc_entry *e = bh_map_get(&wc->by_key, key);
    struct bh_wc_event ev = {.rv = obj->rv, .obj = bh_obj_ref(obj)};

    bh_assert(obj->rv > wc->rv);
    ev.prev = e ? bh_obj_ref(e->obj) : NULL;
    ev.type = deleted ? BH_WATCH_DELETED : e ? BH_WATCH_MODIFIED : BH_WATCH_ADDED;
    wc->rv = obj->rv;
    res->changed = obj->rv;
    if (deleted) {
        if (e) {
            (void)bh_map_del(&wc->by_key, key);
            (void)bh_keyset_remove(&res->set, key);
            entry_free(e);
        }
    } else {
        set_entry(res, e, key, bh_obj_ref(obj));
    }
    push(res, &ev);
    /* A watcher may make the ring move, so it sees a copy, and this function keeps the objects
     * alive meanwhile. */
    (void)bh_obj_ref(ev.obj);
    if (ev.prev)
        (void)bh_obj_ref(ev.prev);
    bh_wc_dispatch(res, &ev);
    event_done(&ev);
}

struct bh_obj *bh_wc_get(const struct bh_wc_res *res, struct bh_str key)
{
    const struct bh_wc_entry *e = bh_map_get(&res->wc->by_key, key);

    return e ? e->obj : NULL;
}

struct bh_str bh_wc_key(const struct bh_wc_res *res, struct bh_arena *a, struct bh_str ns,
                        struct bh_str name)
{
    size_t n = res->prefix.n + ns.n + 1 + name.n, at = res->prefix.n;
    char *p = bh_arena_alloc(a, n + 1);

    memcpy(p, res->prefix.p, at);
    if (ns.n > 0) {
        memcpy(p + at, ns.p, ns.n);
        at += ns.n;
        p[at++] = '/';
    }
    if (name.n > 0)
        memcpy(p + at, name.p, name.n);
    return (struct bh_str){p, at + name.n};
}
