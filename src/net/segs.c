/* Queues of bytes to send. */
#include "net/segs.h"

#include <string.h>

#include "base/arena.h"

#define SEG_ROOM 2000 /* smallest copied segment; with its head about 2 KiB */

static void append(struct bh_segs *q, struct bh_seg *g)
{
    if (q->last)
        q->last->next = g;
    else
        q->first = g;
    q->last = g;
}

static void add_copied(struct bh_segs *q, struct bh_str d)
{
    struct bh_seg *last = q->last;
    size_t k, cap;

    if (last && last->cap > 0) {
        char *end = last->room + (size_t)(last->p - last->room) + last->n;

        k = d.n < last->cap ? d.n : last->cap;
        memcpy(end, d.p, k);
        last->n += k;
        last->cap -= k;
        d.p += k;
        d.n -= k;
    }
    if (d.n == 0)
        return;
    cap = d.n < SEG_ROOM ? SEG_ROOM : d.n;
    last = bh_malloc(sizeof(*last) + cap);
    *last = (struct bh_seg){.n = d.n, .cap = cap - d.n};
    last->p = last->room;
    memcpy(last->room, d.p, d.n);
    append(q, last);
}

void bh_segs_add(struct bh_segs *q, const struct bh_part *part)
{
    if (part->release) {
        struct bh_seg *g = bh_malloc(sizeof(*g));

        *g = (struct bh_seg){
            .p = part->data.p, .n = part->data.n, .release = part->release, .ref = part->ref};
        append(q, g);
    } else if (part->data.n > 0) {
        add_copied(q, part->data);
    }
    q->bytes += part->data.n;
}

void bh_segs_consume(struct bh_segs *q, size_t n)
{
    bh_assert(n <= q->bytes);
    q->bytes -= n;
    while (q->first) { /* empty segments go, too, or their release would wait for later bytes */
        struct bh_seg *g = q->first;
        size_t k = n < g->n ? n : g->n;

        g->p += k;
        g->n -= k;
        n -= k;
        if (g->n > 0)
            break;
        q->first = g->next;
        if (!q->first)
            q->last = NULL;
        if (g->release)
            g->release(g->ref);
        bh_free(g);
    }
}

void bh_segs_done(struct bh_segs *q)
{
    struct bh_seg *g = q->first;

    *q = (struct bh_segs){0}; /* a release may look here */
    while (g) {
        struct bh_seg *next = g->next;

        if (g->release)
            g->release(g->ref);
        bh_free(g);
        g = next;
    }
}
