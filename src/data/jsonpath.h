/* The simple JSONPath of printer columns and of kubectl's -o jsonpath.
 *
 * Compiled once into an arena, evaluated often; evaluation never changes the tree. Limit:
 * BH_JSONPATH_STEPS_MAX steps. Thread: any; a compiled path is immutable.
 */
#ifndef BH_DATA_JSONPATH_H
#define BH_DATA_JSONPATH_H

#include "data/json.h"

struct bh_jsonpath;
#define BH_JSONPATH_STEPS_MAX   64
#define BH_JSONPATH_RESULTS_MAX 100000

/* `.a.b`, `a.b`, `{.a.b}`, `$.a`, `.a[0]`, `.a[-1]`, `.a[1:3]`, `.a[*]`, `.a.*`, `.a['k.x']`,
 * `.a\.b`, `..name`, unions `[0,1]` and filters `[?(@.type=="Ready")]` with ==, !=, <, <=, >, >= or
 * a bare `@.x` (exists). */
BH_MUST int bh_jsonpath_compile(struct bh_arena *a, struct bh_str text,
                                const struct bh_jsonpath **ret, struct bh_err *err);
/* The values found, in document order; an absent key finds nothing. The array lives in the arena.
 */
struct bh_jv_refs {
    const struct bh_jv **p;
    size_t n;
};
struct bh_jv_refs bh_jsonpath_eval(struct bh_arena *a, const struct bh_jsonpath *jp,
                                   const struct bh_jv *root);
/* The first value found, or NULL. */
const struct bh_jv *bh_jsonpath_first(struct bh_arena *a, const struct bh_jsonpath *jp,
                                      const struct bh_jv *root);

#endif
