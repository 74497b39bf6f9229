/* Objects on their way through the commit pipeline: made before their version is known.
 *
 * A pending object has rv 0 and the hole in its JSON. It must not be shown to anybody who keeps it;
 * bh_obj_assign() turns it into the committed object in place, without copying the JSON.
 */
#ifndef BH_API_OBJ_COMMIT_H
#define BH_API_OBJ_COMMIT_H

#include "api/obj.h"

struct bh_meta_v1_object_meta;

/* The struct of an object that is being encoded, as bh_obj_encode() leaves it for the next call.
 * Zero-initialised is valid; it keeps its memory until bh_image_done(). */
struct bh_image {
    char *p;
    size_t n, cap;
    /* Offsets of pointers, and of what they point to: in p, in the text. */
    struct bh_image_ptr {
        size_t slot, to;
    } * links, *views;
    size_t links_n, links_cap, views_n, views_cap;
};
void bh_image_clear(struct bh_image *im);
void bh_image_done(struct bh_image *im);

/* Encodes msg (the kind's generated struct) with the hole as its resourceVersion, apiVersion and
 * kind set, into out. im (may be NULL) becomes what bh_obj_new_pending() makes the object's struct
 * of. */
void bh_obj_encode(const struct bh_kind *kind, const void *msg, struct bh_buf *out,
                   struct bh_image *im);
/* Where the hole begins in JSON that bh_obj_encode() made of an object with this metadata.
 * SIZE_MAX: there is none. */
size_t bh_obj_hole(const struct bh_kind *kind, const struct bh_meta_v1_object_meta *meta,
                   struct bh_str json);

/* json as bh_obj_encode() made it of an object with this metadata. With im of the same encoding the
 * object has its struct from the start: cheaper than decoding when it is sure to be asked for. All
 * is copied. One reference is the caller's. */
struct bh_obj *bh_obj_new_pending(const struct bh_kind *kind, struct bh_str json,
                                  const struct bh_meta_v1_object_meta *meta,
                                  const struct bh_image *im);
/* Puts the number in. The caller knows that nobody else uses the object at this moment. rv > 0. */
void bh_obj_assign(struct bh_obj *o, uint64_t rv);
/* Gives the decoded struct back when nobody but the caller, who holds so many references, uses the
 * object any more. It is made again when it is asked for. */
void bh_obj_shed(struct bh_obj *o, int holds);

#endif
