/* Records are our own, but a disk may give back anything: what decodes must encode and decode again
 * to the same text. */
#include "base/arena.h"
#include "base/err.h"
#include "runtime/rt_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_rt_container_rec c;
    struct bh_rt_sandbox_rec s;
    struct bh_str text = {(const char *)p, n};

    if (bh_rt_container_decode(a, text, &c, NULL) == 0) {
        struct bh_str once = bh_rt_container_encode(a, &c);

        bh_assert(bh_rt_container_decode(a, once, &c, NULL) == 0);
        bh_assert(bh_str_eq(once, bh_rt_container_encode(a, &c)));
    }
    if (bh_rt_sandbox_decode(a, text, &s, NULL) == 0)
        (void)bh_rt_sandbox_encode(a, &s);
    bh_arena_free(a);
    return 0;
}
