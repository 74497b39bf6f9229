/* Bytes that wait to be sent, as the pieces they came in. Private to src/net.
 *
 * Copied pieces join the room of the piece before them; referenced ones are released when their
 * last byte has left, or with the queue.
 */
#ifndef BH_NET_SEGS_H
#define BH_NET_SEGS_H

#include "net/stream.h"

/* Referenced bytes, or copied ones in room that directly follows. */
struct bh_seg {
    struct bh_seg *next;
    const char *p;
    size_t n;   /* bytes left, from p */
    size_t cap; /* copied: room after the bytes; referenced: 0 */
    void (*release)(void *ref);
    void *ref;
    char room[];
};

/* All zero: empty. */
struct bh_segs {
    struct bh_seg *first, *last;
    size_t bytes;
};

void bh_segs_add(struct bh_segs *q, const struct bh_part *part);
void bh_segs_consume(struct bh_segs *q, size_t n); /* n bytes leave the front */
void bh_segs_done(struct bh_segs *q);              /* drops all; the queue is empty, and usable */

#endif
