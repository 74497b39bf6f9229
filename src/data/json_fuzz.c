/* The three JSON parsers agree on every input, and what they accept survives a round trip. */
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "data/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct bh_str in = {(const char *)p, n};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_json_rd r;
    struct bh_json_dups dups;
    struct bh_err e1 = {0}, e2 = {0}, e3 = {0};
    struct bh_jv v, w;
    struct bh_str raw, t1, t2;
    BH_AUTO_BUF compact = {0};
    int rc = bh_json_check(in, &e1);

    bh_assert(bh_jv_parse(a, in, &dups, &v, &e2) == rc);
    bh_assert(strcmp(e1.msg, e2.msg) == 0);
    bh_json_rd_init(&r, in, a);
    if (bh_json_skip(&r, &raw, &e3) == 0)
        bh_assert((bh_json_end(&r, &e3) == 0) == (rc == 0));
    else
        bh_assert(rc != 0);
    bh_json_compact(&compact, in);
    if (rc != 0)
        return 0;
    t1 = bh_jv_text(a, &v, 0);
    bh_assert(bh_jv_parse(a, t1, NULL, &w, &e2) == 0);
    bh_assert(bh_jv_eq(&v, &w) && bh_jv_cmp(&v, &w) == 0);
    t2 = bh_jv_text(a, &w, 0);
    bh_assert(bh_str_eq(t1, t2));
    if (dups.paths.n == 0) {
        bh_assert(bh_jv_parse(a, bh_buf_str(&compact), NULL, &w, &e2) == 0);
        bh_assert(bh_jv_eq(&v, &w));
    }
    t1 = bh_jv_text(a, &v, BH_JSON_SORTED | BH_JSON_GO_NUMS | BH_JSON_INDENT2);
    bh_assert(bh_json_check(t1, &e2) == 0);
    return 0;
}
