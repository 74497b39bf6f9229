/* From the protocol core of HTTP/2 into a stream. */
#include "net/h2.h"

#include "base/arena.h"
#include "base/buf.h"
#include "net/stream.h"

#define CHUNK (64u << 10)

static void free_bytes(void *p)
{
    bh_free(p);
}

bool bh_h2_pour(struct bh_h2 *h, struct bh_stream *st)
{
    bool more = true;

    while (more && !bh_stream_above_high(st)) {
        struct bh_buf out = {0};

        more = bh_h2_take(h, &out, CHUNK);
        if (out.n == 0)
            bh_buf_done(&out);
        else
            bh_stream_write(st, &(struct bh_part){bh_buf_str(&out), free_bytes, out.p}, 1);
    }
    return more;
}
