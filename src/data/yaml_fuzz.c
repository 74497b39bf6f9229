/* YAML that parses can be written, and what is written parses to the same tree. */
#include "base/arena.h"
#include "base/buf.h"
#include "data/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct bh_str in = {(const char *)p, n};
    BH_AUTO_ARENA a = bh_arena_new((size_t)64 << 20);
    BH_AUTO_BUF b = {0};
    struct bh_yaml_dups dups;
    struct bh_jv v, w;
    struct bh_err e;

    if (n > 1 << 16 || bh_yaml_parse(a, in, &dups, &v, &e) < 0)
        return 0;
    bh_yaml_write(&b, &v);
    if (b.overflow)
        return 0;
    bh_assert(bh_yaml_parse(a, bh_buf_str(&b), NULL, &w, &e) == 0);
    bh_assert(bh_jv_eq(&v, &w));
    return 0;
}
