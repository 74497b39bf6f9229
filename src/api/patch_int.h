/* What the patch formats share. Private to src/api. */
#ifndef BH_API_PATCH_INT_H
#define BH_API_PATCH_INT_H

#include "api/engine.h"
#include "data/json.h"

/* Parses a patch that has to be of kind want (null passes); notes its duplicate keys in strict. */
BH_MUST int bh_patch_parse(struct bh_str patch, const char *go_type, enum bh_json_kind want,
                           struct bh_arena *a, struct bh_strict *strict, struct bh_jv *ret,
                           struct bh_err *err);
/* Adds a text once. fmt holds one %.*s for the path. */
void bh_patch_note(struct bh_strict *s, struct bh_arena *a, const char *fmt, struct bh_str path);
void bh_patch_sort(struct bh_jv *o);                  /* members by key */
void bh_go_print_float(double d, struct bh_buf *out); /* %v of a float64 */
void bh_go_print_jv(const struct bh_jv *v, struct bh_arena *a, struct bh_buf *out);

#endif
