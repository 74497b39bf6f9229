/* Lists, now and at an earlier version. The past is the present with the events since then undone:
 * for each key the first event after the version tells what was there. */
#include "apiserver/watch_cache.h"
#include "apiserver/wc_int.h"
#include "base/arena.h"

#include <stdlib.h>

static int by_key(const void *a, const void *b)
{
    return bh_str_cmp(((const struct bh_wc_past *)a)->key, ((const struct bh_wc_past *)b)->key);
}

void bh_wc_past_sort(struct bh_wc_past *p, size_t n)
{
    if (n > 1)
        qsort(p, n, sizeof(*p), by_key);
}

/* What differed at rv, sorted by key, one entry a key. */
static size_t collect_past(const struct bh_wc_res *res, struct bh_arena *a, struct bh_str prefix,
                           struct bh_str from, uint64_t rv, struct bh_wc_past **ret)
{
    size_t first = bh_wc_after(res, rv), n = 0;
    struct bh_wc_past *p = bh_new_n(a, struct bh_wc_past, res->n - first + 1);
    struct bh_map seen = {0};

    for (size_t i = first; i < res->n; i++) {
        const struct bh_wc_event *ev = bh_wc_at(res, i);
        struct bh_str key = bh_wc_key(res, a, ev->obj->ns, ev->obj->name);

        if (!bh_str_starts(key, prefix) || bh_str_cmp(key, from) < 0 || bh_map_get(&seen, key))
            continue;
        (void)bh_map_put(&seen, key, ev->obj);
        p[n++] = (struct bh_wc_past){key, ev->prev};
    }
    bh_map_done(&seen);
    bh_wc_past_sort(p, n);
    *ret = p;
    return n;
}

bool bh_wc_left_window(const struct bh_wc_res *res, uint64_t rv)
{
    return rv != 0 && rv < res->changed && rv < res->floor;
}

static void append(struct bh_arena *a, struct bh_wc_list *l, size_t *cap, struct bh_obj *o)
{
    bh_arena_grow(a, &l->p, cap, l->n + 1, sizeof(*l->p));
    l->p[l->n++] = o;
}

void bh_wc_list_past(const struct bh_wc_res *res, struct bh_arena *a, struct bh_str prefix,
                     struct bh_str from, const struct bh_wc_past *past, size_t past_n,
                     struct bh_wc_list *ret)
{
    struct bh_keyset_pos pos =
        bh_keyset_seek(&res->set, bh_str_cmp(from, prefix) > 0 ? from : prefix);
    struct bh_wc_list l = {NULL, 0};
    size_t cap = 0, at = 0;
    const struct bh_keyset_entry *e;

    while ((e = bh_keyset_next(&res->set, &pos)) && bh_str_starts(e->key, prefix)) {
        int c = -1;

        for (; at < past_n && (c = bh_str_cmp(past[at].key, e->key)) < 0; at++)
            if (past[at].obj)
                append(a, &l, &cap, past[at].obj);
        if (at < past_n && c == 0) {
            if (past[at].obj)
                append(a, &l, &cap, past[at].obj);
            at++;
            continue;
        }
        append(a, &l, &cap, ((const struct bh_wc_entry *)e)->obj);
    }
    for (; at < past_n; at++)
        if (past[at].obj)
            append(a, &l, &cap, past[at].obj);
    *ret = l;
}

int bh_wc_list(const struct bh_wc_res *res, struct bh_arena *a, struct bh_str prefix,
               struct bh_str from, uint64_t rv, struct bh_wc_list *ret, struct bh_err *err)
{
    struct bh_wc_past *past = NULL;
    size_t past_n = 0;

    if (bh_wc_left_window(res, rv))
        return bh_err_set(err, BH_E_GONE, "version %llu is older than the window",
                          (unsigned long long)rv);
    if (rv != 0 && rv < res->changed)
        past_n = collect_past(res, a, prefix, from, rv, &past);
    bh_wc_list_past(res, a, prefix, from, past, past_n, ret);
    return 0;
}
