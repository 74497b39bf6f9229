/* Any bytes at all to an HTTP/2 server. */
#include "net/h2.h"

#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void f_end(void *arg, struct bh_h2_stream *s)
{
    const struct bh_h2_header ok = {BH_S(":status"), BH_S("200")};

    (void)arg;
    (void)!bh_h2_respond(s, &ok, 1, true);
}

static void f_data(void *arg, struct bh_h2_stream *s, struct bh_str bytes)
{
    (void)arg;
    bh_h2_consume(s, bytes.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const char magic[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    static const struct bh_h2_ops ops = {.end = f_end, .data = f_data};
    const struct bh_h2_opts o = {.server = true};
    struct bh_h2 *h = bh_h2_new(&o, &ops, NULL);
    BH_AUTO_BUF out = {0};

    if (bh_h2_feed(h, bh_s(magic), NULL) == 0)
        for (size_t i = 0; i < n;) {
            size_t k = n - i < 7 ? n - i : 7;

            if (bh_h2_feed(h, (struct bh_str){(const char *)p + i, k}, NULL) < 0)
                break;
            bh_buf_clear(&out);
            (void)bh_h2_take(h, &out, 1 << 16);
            i += k;
        }
    (void)bh_h2_free(h);
    return 0;
}
