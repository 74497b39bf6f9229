/* Reading and writing struct members through descriptors. Private to src/api. */
#ifndef BH_API_ENGINE_INT_H
#define BH_API_ENGINE_INT_H

#include "api/engine.h"
#include "api/types.h"

#include <string.h>

static inline void *bh_at(void *obj, size_t off)
{
    return (char *)obj + off;
}
static inline const void *bh_cat(const void *obj, size_t off)
{
    return (const char *)obj + off;
}

static inline bool *bh_has(void *obj, const struct bh_field *f)
{
    return f->off_has == UINT32_MAX ? NULL : (bool *)bh_at(obj, f->off_has);
}
static inline bool bh_get_has(const void *obj, const struct bh_field *f)
{
    return *(const bool *)bh_cat(obj, f->off_has);
}

/* An inline message stands in its parent, whatever the flags. */
static inline bool bh_is_ptr_msg(const struct bh_field *f)
{
    return f->type == BH_T_MESSAGE && f->shape == BH_ONE && (f->flags & BH_F_PTR);
}

/* The message a field of shape ONE holds, NULL when absent. p: at the member. */
static inline const void *bh_msg_at(const struct bh_field *f, const void *p)
{
    return (f->flags & BH_F_PTR) ? *(const void *const *)p : p;
}

/* The only field of a bare message. */
static inline const struct bh_field *bh_bare_field(const struct bh_type *t)
{
    return &t->fields[0];
}

/* The Go type of one element of a list or map. */
struct bh_str bh_go_elem(const struct bh_field *f);
/* True when one value of the element type is zero. p: at the value (a message: at the struct). */
bool bh_elem_is_zero(const struct bh_field *f, const void *p);
/* True when Go's omitempty (and, for embedded messages, omitzero) leaves the field out. p: at the
 * member, obj: the struct that f's offsets count from. */
bool bh_field_is_empty(const struct bh_field *f, const void *obj);
/* True when the field was given at all: pointer set, list or map not nil, value not zero. */
bool bh_field_is_set(const struct bh_field *f, const void *obj);

/* One value of the element type, semantically. */
bool bh_elem_equal(const struct bh_field *f, const void *a, const void *b);

/* bh_field_is_empty(), the usual cases inline. */
static inline bool bh_field_none(const struct bh_field *f, const void *obj)
{
    const void *p = bh_cat(obj, f->off);

    if (f->shape != BH_ONE)
        return ((const struct bh_vec *)p)->n == 0;
    if (f->off_has != UINT32_MAX)
        return !bh_get_has(obj, f);
    if (f->type <= BH_T_QUANTITY) /* those that are strings */
        return ((const struct bh_str *)p)->n == 0;
    if (bh_is_ptr_msg(f))
        return *(const void *const *)p == NULL;
    return bh_elem_is_zero(f, p);
}

/* Fast appends: inline when there is room. */
static inline void bh_put(struct bh_buf *b, const char *p, size_t n)
{
    if (b->cap - b->n >= n && !b->overflow) {
        memcpy(b->p + b->n, p, n);
        b->n += n;
    } else {
        bh_buf_add(b, p, n);
    }
}
static inline void bh_putc(struct bh_buf *b, char c)
{
    if (b->n < b->cap && !b->overflow)
        b->p[b->n++] = c;
    else
        bh_buf_addc(b, c);
}

/* JSON holds its bytes as they are. */
bool bh_str_is_plain(struct bh_str s);
/* A string with its quotes: bh_json_write_str() with a fast path. */
void bh_enc_str(struct bh_buf *out, struct bh_str s);
/* One value of the element type as JSON. */
void bh_elem_encode_json(const struct bh_field *f, const void *p, struct bh_buf *out);
void bh_field_encode_json(const struct bh_field *f, const void *obj,
                          struct bh_buf *out); /* the whole value */

/* What a time is after it was written and read. */
struct bh_time bh_time_wire(struct bh_time t, bool micro);

/* Decodes default text into a member; used for static defaults. */
BH_MUST int bh_field_decode_json(const struct bh_field *f, struct bh_str json, void *obj,
                                 struct bh_arena *a, struct bh_err *err);

#endif
