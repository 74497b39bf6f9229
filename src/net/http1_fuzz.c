/* The parser core, fed byte by byte and whole: both must tell the same story. */
#include "net/http1.h"

#include "base/arena.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

/* Sums up the events; pieces of a body may be cut differently. */
struct story {
    uint64_t sum;
    int last;
};

static void tell(struct story *st, struct bh_h1 *h, int ev, struct bh_str data)
{
    if (ev == BH_H1_BODY) {
        for (size_t i = 0; i < data.n; i++)
            st->sum = st->sum * 1099511628211u + (unsigned char)data.p[i];
        return;
    }
    st->sum = st->sum * 31 + (uint64_t)(ev + 100);
    if (ev == BH_H1_HEAD)
        st->sum = st->sum * 31 + h->head.headers_n + h->head.path.n * 7 + (uint64_t)h->head.status;
}

static struct story run(const uint8_t *p, size_t n, size_t step, bool response)
{
    struct bh_arena *a = bh_arena_new(1 << 20);
    struct story st = {0};
    struct bh_h1 h;

    bh_h1_init(&h, response);
    h.arena = a;
    for (size_t at = 0; at < n && st.last >= 0; at += step) {
        struct bh_str in = {(const char *)p + at, n - at < step ? n - at : step}, data = {0};

        do {
            st.last = bh_h1_next(&h, &in, &data, NULL);
            if (st.last != BH_H1_MORE)
                tell(&st, &h, st.last < 0 ? -1 : st.last, data);
        } while (st.last > 0);
    }
    if (st.last >= 0)
        tell(&st, &h, bh_h1_eof(&h, NULL) < 0 ? -1 : 1, (struct bh_str){0});
    bh_h1_done(&h);
    (void)bh_arena_free(a);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    for (int response = 0; response < 2; response++) {
        struct story whole = run(p, n, n ? n : 1, response), bytes = run(p, n, 1, response);

        bh_assert(whole.sum == bytes.sum);
    }
    return 0;
}
