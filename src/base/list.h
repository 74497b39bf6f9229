/* Intrusive doubly linked list. The head is a bh_link that points to itself when empty. No
 * ownership, one thread. */
#ifndef BH_BASE_LIST_H
#define BH_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct bh_link {
    struct bh_link *prev, *next;
};

#define bh_container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define bh_list_for(it, head)           for (struct bh_link *it = (head)->next; it != (head); it = it->next)
/* The current element may be removed inside the loop. */
#define bh_list_for_safe(it, head)                                                                 \
    for (struct bh_link *it = (head)->next, *it##_next = it->next; it != (head);                   \
         it = it##_next, it##_next = it->next)

static inline void bh_list_init(struct bh_link *h)
{
    h->prev = h->next = h;
}
static inline bool bh_list_empty(const struct bh_link *h)
{
    return h->next == h;
}
static inline bool bh_link_on(const struct bh_link *l)
{
    return l->next != NULL && l->next != l;
}
static inline void bh_list_add_tail(struct bh_link *h, struct bh_link *l)
{
    l->prev = h->prev;
    l->next = h;
    h->prev->next = l;
    h->prev = l;
}
static inline void bh_list_add_head(struct bh_link *h, struct bh_link *l)
{
    bh_list_add_tail(h->next, l);
}
static inline void bh_list_del(struct bh_link *l) /* harmless on a zeroed or already removed link */
{
    if (!l->next)
        return;
    l->prev->next = l->next;
    l->next->prev = l->prev;
    l->prev = l->next = NULL;
}

#endif
