/* From the protocol core of HTTP/2 into a stream. */
#include "net/h2.h"

#include "base/arena.h"
#include "base/buf.h"
#include "net/stream.h"

#define CHUNK     (64u << 10)
#define ROOM      (16u << 10) /* of a chunk, before it grows: most of what a turn writes fits */
#define HAND_OVER (8u << 10)

static void free_bytes(void *p)
{
    bh_free(p);
}

bool bh_h2_pour(struct bh_h2 *h, struct bh_stream *st)
{
    bool more = true;

    while (more && !bh_stream_above_high(st)) {
        struct bh_buf out = {0};

        bh_buf_reserve(&out, ROOM);
        more = bh_h2_take(h, &out, CHUNK);
        if (out.n >= HAND_OVER) {
            bh_stream_write(st, &(struct bh_part){bh_buf_str(&out), free_bytes, out.p}, 1);
        } else { /* little: a queue of such must not hold more room than bytes */
            bh_stream_write_str(st, bh_buf_str(&out));
            bh_buf_done(&out);
        }
    }
    return more;
}
