/* Watchers in buckets: an event visits only the buckets it can concern, so that thousands of agents
 * that each watch their own node's pods cost nothing to each other.
 *
 *     "*"            every event of the resource
 *     "s" ns         one namespace
 *     "o" ns "/" name  one object
 *     "i" value      objects that have, or had, this value of the indexed field
 */
#include "api/types.h"
#include "apiserver/watch_cache.h"
#include "apiserver/wc_int.h"
#include "base/arena.h"
#include "data/json.h"

#include <string.h>

#define BUCKET_KEY_MAX                                                                             \
    640 /* a namespace, a name and two characters: names end at 253 bytes, most fields too */

static struct bh_str bucket_key(char *buf, char type, struct bh_str a, struct bh_str b)
{
    size_t n = 0;

    if (a.n + b.n + 2 > BUCKET_KEY_MAX)
        return BH_S("*"); /* too long to be told apart: gets everything and checks by itself */
    buf[n++] = type;
    if (a.n > 0)
        memcpy(buf + n, a.p, a.n);
    n += a.n;
    if (type == 'o') {
        buf[n++] = '/';
        memcpy(buf + n, b.p, b.n);
        n += b.n;
    }
    return (struct bh_str){buf, n};
}

static struct bh_str key_of(const struct bh_wc_watcher *w, char *buf)
{
    if (w->name.n > 0 && (w->ns.n > 0 || !w->res->hub->namespaced))
        return bucket_key(buf, 'o', w->ns, w->name);
    if (w->index_value.p)
        return bucket_key(buf, 'i', w->index_value, (struct bh_str){NULL, 0});
    if (w->ns.n > 0)
        return bucket_key(buf, 's', w->ns, (struct bh_str){NULL, 0});
    return BH_S("*");
}

/* How many watchers are in buckets of the key's kind; NULL: in the list of all. */
static size_t *count_of(struct bh_wc_res *res, struct bh_str key)
{
    switch (key.p[0]) {
    case 'o':
        return &res->by_name;
    case 'i':
        return &res->by_index;
    case 's':
        return &res->by_ns;
    default:
        return NULL;
    }
}

size_t bh_wc_after(const struct bh_wc_res *res, uint64_t rv)
{
    size_t lo = 0, hi = res->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (bh_wc_at(res, mid)->rv <= rv)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool concerns(const struct bh_wc_watcher *w, const struct bh_wc_event *ev)
{
    return (w->ns.n == 0 || bh_str_eq(w->ns, ev->obj->ns)) &&
           (w->name.n == 0 || bh_str_eq(w->name, ev->obj->name));
}

static void deliver(struct bh_wc_watcher *w, const struct bh_wc_event *ev)
{
    if (ev->rv <= w->seen)
        return;
    w->seen = ev->rv;
    if (concerns(w, ev))
        w->event(w->arg, ev);
}

int bh_wc_watch(struct bh_wc_res *res, struct bh_wc_watcher *w, uint64_t since, struct bh_err *err)
{
    char buf[BUCKET_KEY_MAX];
    struct bh_link *head = &res->all;
    struct bh_str key;
    size_t *count;

    /* Who has seen the newest state misses nothing, whatever the window holds. */
    if (since < res->floor && since != res->wc->rv)
        return bh_err_set(err, BH_E_GONE, "too old resource version: %llu (%llu)",
                          (unsigned long long)since, (unsigned long long)res->floor);
    w->res = res;
    w->seen = since;
    /* Joins first: the owner may end the watch inside an event, and then it has to be found in the
     * bucket. */
    key = key_of(w, buf);
    count = count_of(res, key);
    if (count) {
        ++*count;
        head = bh_map_get(&res->buckets, key);
    }
    if (!head) {
        head = bh_malloc(sizeof(*head));
        bh_list_init(head);
        (void)bh_map_put(&res->buckets, key, head);
    }
    bh_list_add_tail(head, &w->link);
    res->watchers++;
    for (size_t i = bh_wc_after(res, since); i < res->n && w->res; i++)
        deliver(w, bh_wc_at(res, i));
    return 0;
}

void bh_wc_unwatch(struct bh_wc_watcher *w)
{
    struct bh_wc_res *res = w->res;
    char buf[BUCKET_KEY_MAX];
    struct bh_str key;
    struct bh_link *head;
    size_t *count;

    if (!res)
        return;
    if (res->wc->next == &w->link)
        res->wc->next = w->link.next;
    key = key_of(w, buf);
    count = count_of(res, key);
    bh_list_del(&w->link);
    res->watchers--;
    w->res = NULL;
    if (!count)
        return;
    --*count;
    head = bh_map_get(&res->buckets, key);
    /* The head stays while events go out: the walk may stand on it. */
    if (head && bh_list_empty(head) && !res->wc->next)
        bh_free(bh_map_del(&res->buckets, key));
}

static void dispatch_list(struct bh_wc_res *res, struct bh_link *head, const struct bh_wc_event *ev)
{
    for (struct bh_link *it = head->next; it != head; it = res->wc->next) {
        res->wc->next = it->next;
        deliver(bh_container(it, struct bh_wc_watcher, link), ev);
    }
    res->wc->next = NULL;
}

static void dispatch_bucket(struct bh_wc_res *res, struct bh_str key, const struct bh_wc_event *ev)
{
    struct bh_link *head = bh_map_get(&res->buckets, key);

    if (!head)
        return;
    dispatch_list(res, head, ev);
    if (bh_list_empty(head))
        bh_free(bh_map_del(&res->buckets, key));
}

void bh_wc_dispatch(struct bh_wc_res *res, const struct bh_wc_event *ev)
{
    char buf[BUCKET_KEY_MAX];
    struct bh_str none = {NULL, 0};

    if (res->watchers == 0)
        return;
    dispatch_list(res, &res->all, ev);
    if (res->by_ns > 0 && ev->obj->ns.n > 0)
        dispatch_bucket(res, bucket_key(buf, 's', ev->obj->ns, none), ev);
    if (res->by_name > 0)
        dispatch_bucket(res, bucket_key(buf, 'o', ev->obj->ns, ev->obj->name), ev);
    if (res->by_index > 0 && res->hub->n_indexed > 0) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_str now = bh_wc_field(ev->obj, res->hub->indexed[0], a);
        struct bh_str was = ev->prev ? bh_wc_field(ev->prev, res->hub->indexed[0], a) : now;

        dispatch_bucket(res, bucket_key(buf, 'i', now, none), ev);
        if (!bh_str_eq(now, was))
            dispatch_bucket(res, bucket_key(buf, 'i', was, none), ev);
    }
}
