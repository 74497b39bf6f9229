/* Objects on their way through the commit pipeline: made before their version is known.
 *
 * A pending object has rv 0 and the hole in its JSON. It must not be shown to anybody who keeps it;
 * bh_obj_assign() turns it into the committed object in place, without copying the JSON.
 */
#ifndef BH_API_OBJ_COMMIT_H
#define BH_API_OBJ_COMMIT_H

#include "api/obj.h"

struct bh_meta_v1_object_meta;

/* Where the hole begins in JSON that bh_obj_encode() made of an object with this metadata.
 * SIZE_MAX: there is none. */
size_t bh_obj_hole(const struct bh_kind *kind, const struct bh_meta_v1_object_meta *meta,
                   struct bh_str json);

/* json holds BH_OBJ_RV_HOLE as metadata.resourceVersion, meta is the metadata it was encoded from.
 * Both are copied. One reference is the caller's. */
struct bh_obj *bh_obj_new_pending(const struct bh_kind *kind, struct bh_str json,
                                  const struct bh_meta_v1_object_meta *meta);
/* Gives a pending object its decoded form from msg, the struct that its JSON was encoded from:
 * cheaper than decoding when it is sure to be asked for. Copies msg. */
void bh_obj_set_struct(struct bh_obj *o, const void *msg);
/* Puts the number in. The caller knows that nobody else uses the object at this moment. rv > 0. */
void bh_obj_assign(struct bh_obj *o, uint64_t rv);
/* Gives the decoded struct back when nobody but the caller, who holds so many references, uses the
 * object any more. It is made again when it is asked for. */
void bh_obj_shed(struct bh_obj *o, int holds);

#endif
