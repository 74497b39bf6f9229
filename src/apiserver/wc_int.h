/* Inside of the watch cache. */
#ifndef BH_APISERVER_WC_INT_H
#define BH_APISERVER_WC_INT_H

#include "apiserver/watch_cache.h"

struct bh_wc {
    struct bh_wc_res **res;
    size_t n, cap;
    struct bh_map by_key; /* full key -> struct bh_wc_entry */
    uint64_t rv;
    size_t window_bytes; /* of the objects in all rings, each event's own */
    struct bh_link
        *next; /* while events go out: the link to visit next, kept right by bh_wc_unwatch() */
};

/* The i-th oldest event of the ring. */
struct bh_wc_event *bh_wc_at(const struct bh_wc_res *res, size_t i);
/* Index of the first event with version > rv (res->n: none). */
size_t bh_wc_after(const struct bh_wc_res *res, uint64_t rv);
void bh_wc_dispatch(struct bh_wc_res *res, const struct bh_wc_event *ev);

/* free() of what is const to everybody else. */
static inline void *bh_ptr_unconst(const void *p)
{
    return (void *)(uintptr_t)p;
}

#endif
