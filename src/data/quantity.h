/* resource.Quantity: exact decimal numbers with a suffix.
 *
 * Parsing rounds up (away from zero) beyond nano, and caps binary quantities at 2^63-1, as upstream
 * does. A number keeps 38 significant digits; one that has more (after the rounding) is refused
 * where upstream would carry it on. Thread: any (values).
 */
#ifndef BH_DATA_QUANTITY_H
#define BH_DATA_QUANTITY_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;

enum bh_quantity_format {
    BH_Q_DECIMAL_SI,  /* 1500m, 12, 3k */
    BH_Q_BINARY_SI,   /* 512Mi */
    BH_Q_DECIMAL_EXP, /* 1e3 */
};

/* coef * 10^exp10. All zero is the quantity 0. Compare with bh_quantity_cmp(): the same value has
 * several pairs. exp10 >= -9. */
struct bh_quantity {
    __int128 coef;
    int32_t exp10;
    enum bh_quantity_format format;
};

#define BH_Q_BUF 64 /* bytes that any canonical form fits */

/* -BH_E_BAD_REQUEST with upstream's words. */
BH_MUST int bh_quantity_parse(struct bh_str s, struct bh_quantity *ret, struct bh_err *err);
struct bh_quantity bh_quantity_i64(int64_t v, enum bh_quantity_format f);
struct bh_quantity bh_quantity_milli(int64_t milli, enum bh_quantity_format f);
/* Canonical form, as upstream writes it; the view points into buf of BH_Q_BUF bytes. */
struct bh_str bh_quantity_fmt(struct bh_quantity q, char *buf);
struct bh_str bh_quantity_str(struct bh_arena *a, struct bh_quantity q);
/* s is its own canonical form, as can be told at a glance: false says nothing. */
bool bh_quantity_is_canonical(struct bh_str s);
/* Parses and formats: what an API server stores for the JSON string s (blanks around are dropped).
 */
BH_MUST int bh_quantity_canonical(struct bh_arena *a, struct bh_str s, struct bh_str *ret,
                                  struct bh_err *err);

int bh_quantity_cmp(struct bh_quantity a,
                    struct bh_quantity b); /* -1, 0, 1; the format does not matter */
int bh_quantity_sign(struct bh_quantity q);
/* The format of a is kept; of b's when a is zero (upstream's rule). Saturate at 38 digits. */
struct bh_quantity bh_quantity_add(struct bh_quantity a, struct bh_quantity b);
struct bh_quantity bh_quantity_sub(struct bh_quantity a, struct bh_quantity b);
struct bh_quantity bh_quantity_neg(struct bh_quantity q);
/* false on overflow; *ret is then the saturated product. */
bool bh_quantity_mul(struct bh_quantity q, int64_t by, struct bh_quantity *ret);
/* The format of a is kept. What is below a nano is rounded up (away from zero), as when such a
 * number is read; saturates at 38 digits. */
struct bh_quantity bh_quantity_product(struct bh_quantity a, struct bh_quantity b);
/* Rounded up (away from zero), saturating at the ends of int64: upstream's Value() and
 * MilliValue(). */
int64_t bh_quantity_value(struct bh_quantity q);
int64_t bh_quantity_milli_value(struct bh_quantity q);
/* A whole number within int64? (AsInt64) */
bool bh_quantity_is_int(struct bh_quantity q, int64_t *ret);
double bh_quantity_double(struct bh_quantity q);

#endif
