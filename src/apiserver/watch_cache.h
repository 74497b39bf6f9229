/* The watch cache: the published state of every stored resource, a window of recent events, and who
 * watches.
 *
 * Only the commit pipeline changes it (bh_wc_publish), after the store has said durable. Readers
 * get referenced immutable objects. An event keeps the state before and after, so that selectors
 * can tell an object that enters or leaves; the same events undo the present to list an earlier
 * version exactly. One loop.
 */
#ifndef BH_APISERVER_WATCH_CACHE_H
#define BH_APISERVER_WATCH_CACHE_H

#include "api/obj.h"
#include "apiserver/apiserver.h"
#include "apiserver/keyset.h"
#include "base/list.h"
#include "base/map.h"

struct bh_arena;
struct bh_wc;

struct bh_wc_entry {
    struct bh_keyset_entry by_key; /* "/registry/pods/default/a", owned */
    struct bh_obj *obj;
};

struct bh_wc_event {
    enum bh_watch_type type; /* ADDED, MODIFIED or DELETED, without any selector */
    uint64_t rv;
    struct bh_obj *obj;  /* state after; of a deletion the last state with the deletion's version */
    struct bh_obj *prev; /* state before; NULL when there was none (or it is no longer known) */
};

/* One stored resource: what is kept under one prefix, in one version (the hub). */
struct bh_wc_res {
    struct bh_wc *wc;
    const struct bh_kind *hub;
    struct bh_str prefix; /* "/registry/pods/", owned */
    struct bh_keyset set;
    uint64_t changed; /* version of the last change */
    /* Events with version > floor are all in the ring, oldest at head. */
    uint64_t floor;
    struct bh_wc_event *ring;
    size_t ring_cap, head, n;
    struct bh_link all;    /* watchers of every event */
    struct bh_map buckets; /* bucket key -> struct bh_link list of the other watchers */
    size_t watchers;
    size_t by_index, by_ns, by_name; /* those in buckets */
    size_t readers; /* watches of them that look at the decoded form of every object */
};

struct bh_wc *bh_wc_new(void);
struct bh_wc *bh_wc_free(struct bh_wc *wc); /* no watcher may be left; accepts NULL, returns NULL */
/* prefix is copied. Never removed before the cache. */
struct bh_wc_res *bh_wc_add(struct bh_wc *wc, const struct bh_kind *hub, struct bh_str prefix);
/* The resource under whose prefix key falls, or NULL. */
struct bh_wc_res *bh_wc_res_of_key(const struct bh_wc *wc, struct bh_str key);
uint64_t bh_wc_rv(const struct bh_wc *wc); /* last published version */
/* At start: an object as loaded (takes the reference), the version of the whole, then past events
 * (takes references). */
void bh_wc_load(struct bh_wc_res *res, struct bh_str key, struct bh_obj *obj);
void bh_wc_loaded(struct bh_wc *wc, uint64_t rv, uint64_t floor);
void bh_wc_load_event(struct bh_wc_res *res, const struct bh_wc_event *ev);

/* Makes a committed write visible and tells the watchers. obj is referenced; for a deletion it is
 * the last state. */
void bh_wc_publish(struct bh_wc_res *res, struct bh_str key, bool deleted, struct bh_obj *obj);

struct bh_obj *bh_wc_get(const struct bh_wc_res *res, struct bh_str key); /* borrowed, or NULL */
/* Key of an object: prefix + "ns/name", or prefix + name; in the arena. */
struct bh_str bh_wc_key(const struct bh_wc_res *res, struct bh_arena *a, struct bh_str ns,
                        struct bh_str name);

/* Objects in key order whose key is in [from, until prefix ends], as of version rv (0: now). They
 * are borrowed from the cache for the current callback. -BH_E_GONE when rv is older than the
 * window. */
struct bh_wc_list {
    struct bh_obj **p;
    size_t n;
};
BH_MUST int bh_wc_list(const struct bh_wc_res *res, struct bh_arena *a, struct bh_str prefix,
                       struct bh_str from, uint64_t rv, struct bh_wc_list *ret, struct bh_err *err);

/* A list as of rv needs more than the window holds. */
bool bh_wc_left_window(const struct bh_wc_res *res, uint64_t rv);
/* The same from what somebody else found out: past tells for each key that changed since what was
 * there (obj NULL: nothing), sorted, one entry a key, all in [from, until prefix ends]. */
struct bh_wc_past {
    struct bh_str key;
    struct bh_obj *obj;
};
void bh_wc_past_sort(struct bh_wc_past *p, size_t n);
void bh_wc_list_past(const struct bh_wc_res *res, struct bh_arena *a, struct bh_str prefix,
                     struct bh_str from, const struct bh_wc_past *past, size_t past_n,
                     struct bh_wc_list *ret);

/* A watcher is embedded by its owner, who fills the upper part and keeps it until bh_wc_unwatch().
 * event may remove this watcher or others. The narrowest of name, index_value and ns decides which
 * events reach it: it must still check its selectors. */
struct bh_wc_watcher {
    struct bh_str ns, name; /* empty: any */
    struct bh_str
        index_value; /* p != NULL: only objects that have or had this value of the indexed field */
    void (*event)(void *arg, const struct bh_wc_event *ev);
    void *arg;
    /* private */
    struct bh_link link;
    struct bh_wc_res *res;
    uint64_t seen; /* events up to here were delivered or are not wanted */
};
/* Delivers what happened after since (inside the call), then joins. -BH_E_GONE when since is older
 * than the window. */
BH_MUST int bh_wc_watch(struct bh_wc_res *res, struct bh_wc_watcher *w, uint64_t since,
                        struct bh_err *err);
void bh_wc_unwatch(struct bh_wc_watcher *w); /* harmless when it does not watch */

/* Value of a selectable field as a selector compares it; a view into the object, or into a. */
struct bh_str bh_wc_field(const struct bh_obj *o, struct bh_str field, struct bh_arena *a);

#endif
