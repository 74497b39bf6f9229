/* A struct that comes into being while it is written as JSON: what a decoder would make of that
 * text, without reading it. Private to src/api.
 *
 * Built with offsets in a buffer that is used again, then placed in one block of the size it needs;
 * its strings are views of the text wherever they stand there as they are. One thread at a time.
 */
#ifndef BH_API_IMAGE_H
#define BH_API_IMAGE_H

#include "api/obj_commit.h"

#include <string.h>

/* So many zeroed bytes at a multiple of 8; returns their offset. The struct itself is at 0. */
size_t bh_image_alloc(struct bh_image *im, size_t n);
/* The pointer at offset slot goes to offset to. */
void bh_image_link(struct bh_image *im, size_t slot, size_t to);
/* The bh_str at offset slot is the n bytes at offset at of the text, or a copy of s. */
void bh_image_view(struct bh_image *im, size_t slot, size_t at, size_t n);
void bh_image_copy(struct bh_image *im, size_t slot, struct bh_str s);

static inline void bh_image_set(struct bh_image *im, size_t at, const void *p, size_t n)
{
    memcpy(im->p + at, p, n);
}

/* The struct in a block of its own (bh_free() it). text outlives it and does not change, but for
 * the first `moving` bytes: what stands there is copied. */
void *bh_image_place(const struct bh_image *im, const char *text, size_t moving);

/* bh_kind_encode_json(), and im (NULL: none) becomes the struct. */
void bh_kind_encode_image(const struct bh_kind *k, const void *obj, struct bh_buf *out,
                          struct bh_image *im);

#endif
