/* Metadata files: any bytes. */
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "data/json.h"
#include "driver/metadata_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_err err;
    struct bh_jv v;

    (void)!bh_metadata_parse(a, (struct bh_str){(const char *)p, n}, &v, &err);
    (void)bh_arena_free(a);
    return 0;
}
