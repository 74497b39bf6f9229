/* How upstream prints a document or a patch inside an error. */
#ifndef BH_APISERVER_PATCH_ERROR_H
#define BH_APISERVER_PATCH_ERROR_H

#include "base/arena.h"
#include "base/str.h"

/* Go's print of a map: map[data:map[k:1] list:[a b]]. */
struct bh_str bh_patch_go_map(struct bh_arena *a, struct bh_str json);

#endif
