/* Scanners shared by the JSON reader and the tree builder; private to src/data.
 *
 * Each takes the position and the end of the input, gives the position behind what it recognised,
 * or NULL after filling *err. Inputs need not end in NUL.
 */
#ifndef BH_DATA_JSON_SCAN_H
#define BH_DATA_JSON_SCAN_H

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/err.h"
#include "base/str.h"

#define JSON_STR_ESCAPED  1u /* a backslash was seen */
#define JSON_STR_NONASCII 2u /* a byte above 0x7f was seen */

/* Errors, out of line. p == end means that the input ended. Always NULL. */
const char *bh_json_bad(const char *p, const char *end, const char *context, struct bh_err *err);
const char *bh_json_scan_escape(const char *p, const char *end, struct bh_err *err);
const char *bh_json_scan_literal(const char *p, const char *end, const char *word,
                                 struct bh_err *err);

/* Length of the valid UTF-8 sequence at p and its code point, or 1 and U+FFFD for an invalid byte.
 */
size_t bh_json_rune(const char *p, const char *end, uint32_t *ret);
/* The string between p and q (quotes excluded, already scanned with these flags): a view when that
 * is enough. NULL in ret->p when the arena's limit is reached. */
struct bh_str bh_json_unescape(struct bh_arena *a, const char *p, const char *q, unsigned flags);

/* The exponent behind the 'e' of a text that printf made: "-07" is -7. */
int bh_json_exponent(const char *p);

static inline const char *json_ws(const char *p, const char *end)
{
    /* Compact input has no blanks: one comparison settles it. */
    while (p < end && (unsigned char)*p <= ' ' &&
           (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

/* p stands behind the opening quote; the result at the closing quote. */
static inline const char *json_scan_str(const char *p, const char *end, unsigned *flags,
                                        struct bh_err *err)
{
    unsigned seen = 0;

    for (;;) {
#if defined(__SSE2__)
        while (end - p >= 16) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
            __m128i stop = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
                                                     _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))),
                                        _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v));
            unsigned m = (unsigned)_mm_movemask_epi8(stop);
            unsigned high = (unsigned)_mm_movemask_epi8(v);

            if (m) {
                unsigned i = (unsigned)__builtin_ctz(m);

                if (high & ((1u << i) - 1))
                    seen |= JSON_STR_NONASCII;
                p += i;
                break;
            }
            if (high)
                seen |= JSON_STR_NONASCII;
            p += 16;
        }
#endif
        while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
            seen |= (unsigned char)*p++ >> 7 << 1;
        if (p == end)
            return bh_json_bad(p, end, "", err);
        if (*p == '"') {
            *flags = seen;
            return p;
        }
        if (*p != '\\')
            return bh_json_bad(p, end, "in string literal", err);
        seen |= JSON_STR_ESCAPED;
        p = bh_json_scan_escape(p, end, err);
        if (!p)
            return NULL;
    }
}

static inline bool json_digit(const char *p, const char *end)
{
    return p < end && (unsigned char)(*p - '0') < 10;
}

/* p stands at '-' or a digit. What may follow the number is the caller's to judge. */
static inline const char *json_scan_num(const char *p, const char *end, struct bh_err *err)
{
    if (*p == '-')
        p++;
    if (!json_digit(p, end))
        return bh_json_bad(p, end, "in numeric literal", err);
    if (*p == '0')
        p++;
    else
        while (json_digit(p, end))
            p++;
    if (p < end && *p == '.') {
        p++;
        if (!json_digit(p, end))
            return bh_json_bad(p, end, "after decimal point in numeric literal", err);
        while (json_digit(p, end))
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (!json_digit(p, end))
            return bh_json_bad(p, end, "in exponent of numeric literal", err);
        while (json_digit(p, end))
            p++;
    }
    return p;
}

/* A value that is no string, array or object. */
static inline const char *json_scan_scalar(const char *p, const char *end, struct bh_err *err)
{
    if (p == end)
        return bh_json_bad(p, end, "", err);
    switch (*p) {
    case 't':
        return bh_json_scan_literal(p, end, "true", err);
    case 'f':
        return bh_json_scan_literal(p, end, "false", err);
    case 'n':
        return bh_json_scan_literal(p, end, "null", err);
    case '-':
    case '0' ... '9':
        return json_scan_num(p, end, err);
    default:
        return bh_json_bad(p, end, "looking for beginning of value", err);
    }
}

#endif
