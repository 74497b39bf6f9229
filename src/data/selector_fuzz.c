/* A selector that parses prints a text that parses to the same print. */
#include "base/arena.h"
#include "data/selector.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct bh_str in = {(const char *)p, n}, text;
    struct bh_label_selector ls, ls2;
    struct bh_field_selector fs, fs2;
    const struct bh_str_map none = {NULL, 0};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_err e;

    if (n > 4096)
        return 0;
    if (bh_label_selector_parse(a, in, &ls, &e) == 0) {
        (void)bh_label_selector_match(&ls, &none);
        text = bh_label_selector_str(a, &ls);
        /* "x in ()" prints the set that holds the empty string, which reads as an empty set. */
        if (bh_str_find(text, BH_S("()")) < 0) {
            bh_assert(bh_label_selector_parse(a, text, &ls2, &e) == 0);
            bh_assert(bh_str_eq(bh_label_selector_str(a, &ls2), text));
        }
    }
    if (bh_field_selector_parse(a, in, &fs, &e) == 0) {
        text = bh_field_selector_str(a, &fs);
        bh_assert(bh_field_selector_parse(a, text, &fs2, &e) == 0);
        bh_assert(fs.n == fs2.n);
    }
    return 0;
}
