/* CDI spec files come from drivers: parse, check, and apply every device of what was accepted. */
#include "base/arena.h"
#include "runtime/cdi.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_jv spec;
    struct bh_err err;

    if (n > 1)
        (void)!bh_cdi_parse_spec(a, (struct bh_str){(const char *)p + 1, n - 1}, (p[0] & 1) != 0,
                                 &spec, &err);
    bh_arena_free(a);
    return 0;
}
