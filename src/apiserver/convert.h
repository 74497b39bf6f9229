/* Between the versions of a kind. */
#ifndef BH_APISERVER_CONVERT_H
#define BH_APISERVER_CONVERT_H

#include "api/obj.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/err.h"

/* obj is from's struct; *ret becomes to's, in a (obj itself when both are one). Versions of one
 * kind differ only where a table in convert.c says so; everything else is the same JSON. */
BH_MUST int bh_convert(const struct bh_kind *from, void *obj, const struct bh_kind *to,
                       struct bh_arena *a, void **ret, struct bh_err *err);
/* A stored object in another version: a new reference (to o itself when it has that version
 * already). NULL on failure. */
struct bh_obj *bh_convert_obj(struct bh_obj *o, const struct bh_kind *to, struct bh_err *err);

#endif
