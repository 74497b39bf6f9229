/* JSON from strangers: the first byte picks a kind; what decodes must encode to what decodes to the
 * same. */
#include "api/engine.h"
#include "base/arena.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    size_t n_kinds;
    const struct bh_kind *const *kinds = bh_kinds(&n_kinds);

    if (n < 1)
        return 0;
    const struct bh_kind *k = kinds[p[0] % n_kinds];
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF once = {0}, twice = {0};
    struct bh_strict strict = {0};
    struct bh_err err = {0};
    struct bh_field_errs errs = {.a = a};
    void *obj, *again;

    if (bh_kind_decode_json(k, (struct bh_str){(const char *)p + 1, n - 1}, a, &obj, &strict,
                            &err) < 0)
        return 0;
    bh_kind_encode_json(k, obj, &once);
    bh_assert(bh_kind_decode_json(k, bh_buf_str(&once), a, &again, NULL, &err) == 0);
    bh_kind_encode_json(k, again, &twice);
    bh_assert(bh_str_eq(bh_buf_str(&once), bh_buf_str(&twice)));
    bh_assert(bh_msg_equal(k->type, obj, again));
    bh_msg_default(k->type, obj, a);
    bh_msg_validate(k->type, obj, NULL, &errs);
    (void)bh_msg_dup(k->type, obj, a);
    bh_buf_clear(&once);
    bh_kind_encode_pb(k, obj, &once);
    return 0;
}
