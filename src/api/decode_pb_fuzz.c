/* Protobuf from strangers: the first byte picks a kind; what decodes must encode in both forms. */
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
    BH_AUTO_BUF pb = {0}, json = {0};
    struct bh_pb_unknown u;
    struct bh_str raw = {(const char *)p + 1, n - 1};
    struct bh_err err = {0};
    void *obj, *again;

    if (bh_pb_open(raw, &u, &err) == 0)
        raw = u.raw;
    if (bh_kind_decode_pb(k, raw, a, &obj, &err) < 0)
        return 0;
    bh_kind_encode_pb(k, obj, &pb);
    bh_assert(bh_pb_open(bh_buf_str(&pb), &u, &err) == 0);
    bh_assert(bh_kind_decode_pb(k, u.raw, a, &again, &err) == 0);
    bh_assert(bh_msg_equal(k->type, obj, again));
    bh_kind_encode_json(k, obj, &json);
    return 0;
}
