/* Reading protobuf fields ends on any bytes, views stay inside the input, and what was read can be
 * written again. */
#include "data/pbwire.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct bh_str in = {(const char *)p, n};
    struct bh_pb_rd r = bh_pb_rd(in), again;
    struct bh_pb_field f, g;
    BH_AUTO_BUF b = {0};
    int rc;

    while ((rc = bh_pb_next(&r, &f, NULL)) > 0) {
        if (f.type == BH_PB_LEN || f.type == BH_PB_SGROUP)
            bh_assert(f.bytes.p >= in.p && f.bytes.p + f.bytes.n <= in.p + n);
        bh_buf_clear(&b);
        if (f.type == BH_PB_LEN)
            bh_pb_w_bytes(&b, f.number, f.bytes);
        else if (f.type == BH_PB_VARINT)
            bh_pb_w_uint(&b, f.number, f.u);
        else
            continue;
        again = bh_pb_rd(bh_buf_str(&b));
        bh_assert(bh_pb_next(&again, &g, NULL) == 1);
        bh_assert(g.number == f.number && g.u == f.u && bh_str_eq(g.bytes, f.bytes));
    }
    return 0;
}
