/* A quantity that parses has a canonical form, which parses to the same value. */
#include "base/arena.h"
#include "data/quantity.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct bh_str in = {(const char *)p, n};
    struct bh_quantity q, r, twice;
    char buf[BH_Q_BUF], buf2[BH_Q_BUF];
    struct bh_str text;

    if (n > 256 || bh_quantity_parse(in, &q, NULL) < 0)
        return 0;
    text = bh_quantity_fmt(q, buf);
    bh_assert(text.n <= sizeof(buf));
    bh_assert(bh_quantity_parse(text, &r, NULL) == 0);
    bh_assert(bh_quantity_cmp(q, r) == 0);
    bh_assert(bh_str_eq(bh_quantity_fmt(r, buf2), text) || q.format == BH_Q_BINARY_SI);
    bh_assert(bh_quantity_sign(bh_quantity_sub(q, r)) == 0);
    twice = bh_quantity_add(q, q);
    bh_assert(bh_quantity_sign(twice) == bh_quantity_sign(q));
    (void)bh_quantity_value(q);
    (void)bh_quantity_milli_value(q);
    (void)bh_quantity_double(q);
    return 0;
}
