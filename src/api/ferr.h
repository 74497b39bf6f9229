/* Field errors: the list that a validation yields, one entry per cause of a Status 422.
 *
 * The list and all its texts live in one arena. Paths are built on the caller's stack (struct
 * bh_fpath) and rendered only when an error is added, so that validating a good object allocates
 * nothing. Texts are upstream's field.Error. One thread at a time. At most BH_FIELD_ERRS_MAX
 * entries are kept; more are counted in `dropped`.
 */
#ifndef BH_API_FERR_H
#define BH_API_FERR_H

#include "base/str.h"

struct bh_buf;

enum bh_ferr_type {
    BH_FE_NOT_FOUND,
    BH_FE_REQUIRED,
    BH_FE_DUPLICATE,
    BH_FE_INVALID,
    BH_FE_NOT_SUPPORTED,
    BH_FE_FORBIDDEN,
    BH_FE_TOO_LONG,
    BH_FE_TOO_MANY,
    BH_FE_INTERNAL,
    BH_FE_TYPE_INVALID,
};

struct bh_field_err {
    enum bh_ferr_type type;
    struct bh_str field; /* "spec.containers[0].name" */
    struct bh_str body;  /* Status cause message: `Invalid value: "x": must be …` */
};

#define BH_FIELD_ERRS_MAX 1000

struct bh_field_errs {
    struct bh_arena *a; /* set by the caller */
    struct bh_field_err *p;
    size_t n, cap;
    size_t dropped;
};

/* A path element; up == NULL is the first. Elements live on the stack of whoever walks. */
struct bh_fpath {
    const struct bh_fpath *up;
    struct bh_str name; /* field name, or map key */
    int64_t index;      /* kind INDEX */
    enum { BH_FP_NAME, BH_FP_INDEX, BH_FP_KEY } kind;
};

#define BH_FP(up_, lit)                                                                            \
    (&(struct bh_fpath){.up = (up_), .name = BH_S_INIT(lit), .kind = BH_FP_NAME})
#define BH_FPS(up_, str_) (&(struct bh_fpath){.up = (up_), .name = (str_), .kind = BH_FP_NAME})
#define BH_FPI(up_, i_)                                                                            \
    (&(struct bh_fpath){.up = (up_), .index = (int64_t)(i_), .kind = BH_FP_INDEX})
#define BH_FPK(up_, key_) (&(struct bh_fpath){.up = (up_), .name = (key_), .kind = BH_FP_KEY})

void bh_fpath_render(const struct bh_fpath *at, struct bh_buf *out); /* nothing for NULL */
struct bh_str bh_fpath_str(const struct bh_fpath *at, struct bh_arena *a);

/* In these, detail is a printf format; NULL for none. */
void bh_fe_required(struct bh_field_errs *e, const struct bh_fpath *at, const char *detail, ...)
    BH_PRINTF(3, 4);
void bh_fe_forbidden(struct bh_field_errs *e, const struct bh_fpath *at, const char *detail, ...)
    BH_PRINTF(3, 4);
void bh_fe_internal(struct bh_field_errs *e, const struct bh_fpath *at, const char *detail, ...)
    BH_PRINTF(3, 4);
/* Bad value: a string (quoted as Go's %q), an integer, a bool, or ready-made text (JSON) that is
 * printed as it is. */
void bh_fe_invalid(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad,
                   const char *detail, ...) BH_PRINTF(4, 5);
void bh_fe_invalid_i64(struct bh_field_errs *e, const struct bh_fpath *at, int64_t bad,
                       const char *detail, ...) BH_PRINTF(4, 5);
void bh_fe_invalid_bool(struct bh_field_errs *e, const struct bh_fpath *at, bool bad,
                        const char *detail, ...) BH_PRINTF(4, 5);
void bh_fe_invalid_text(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad,
                        const char *detail, ...) BH_PRINTF(4, 5);
void bh_fe_not_found(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad);
void bh_fe_duplicate(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad);
void bh_fe_duplicate_text(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad);
/* supported are quoted and listed in the order given; none: no list. */
void bh_fe_not_supported(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad,
                         const struct bh_str *supported, size_t n);
void bh_fe_too_long(struct bh_field_errs *e, const struct bh_fpath *at,
                    size_t max_bytes); /* may not be more than … */
void bh_fe_too_many(struct bh_field_errs *e, const struct bh_fpath *at, size_t have, size_t max);
/* Any type with a ready-made body. */
void bh_fe_add(struct bh_field_errs *e, enum bh_ferr_type t, const struct bh_fpath *at,
               struct bh_str body);

const char *bh_ferr_reason(enum bh_ferr_type t); /* Status cause reason: "FieldValueInvalid" … */
/* "[a: Required value, b: …]" as upstream's aggregate: one error stands bare, equal ones are told
 * once. */
void bh_ferrs_message(const struct bh_field_errs *e, struct bh_buf *out);
/* Go's strconv.Quote of s, with the quotes. */
void bh_go_quote(struct bh_buf *out, struct bh_str s);

#endif
