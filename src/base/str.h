/* Byte strings with a length: views that own nothing.
 *
 * A bh_str points into memory that somebody else keeps (an arena, an object, a literal). It need
 * not end in NUL, and may hold any byte. Passed by value. Thread: any (no state).
 */
#ifndef BH_BASE_STR_H
#define BH_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BH_MUST         __attribute__((warn_unused_result))
#define BH_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define BH_CLEANUP(fn)  __attribute__((cleanup(fn)))
#define BH_COUNT(a)     (sizeof(a) / sizeof((a)[0]))

struct bh_arena;

struct bh_str {
    const char *p;
    size_t n;
};

/* A list of strings; p == NULL means absent, p != NULL with n == 0 means present and empty. */
struct bh_str_vec {
    struct bh_str *p;
    size_t n;
};

struct bh_str_pair {
    struct bh_str key;
    struct bh_str value;
};

/* A string map, sorted by key bytes; p == NULL means absent. */
struct bh_str_map {
    struct bh_str_pair *p;
    size_t n;
};

/* A literal as bh_str, and as a static initialiser. */
#define BH_S(lit) ((struct bh_str){(lit), sizeof(lit) - 1})
#define BH_S_INIT(lit)                                                                             \
    {                                                                                              \
        (lit), sizeof(lit) - 1                                                                     \
    }
/* printf("%.*s", BH_SF(s)) */
#define BH_SF(s) (int)(s).n, ((s).p ? (s).p : "")

/* A view of a NUL-terminated string; NULL gives the empty string. */
static inline struct bh_str bh_s(const char *cstr)
{
    return cstr ? (struct bh_str){cstr, strlen(cstr)} : (struct bh_str){"", 0};
}
static inline bool bh_str_eq(struct bh_str a, struct bh_str b)
{
    return a.n == b.n && (!a.n || memcmp(a.p, b.p, a.n) == 0);
}
/* With a literal, its length is known when this is compiled. */
static inline bool bh_str_eqc(struct bh_str a, const char *cstr)
{
    return bh_str_eq(a, bh_s(cstr));
}
bool bh_str_eq_nocase(struct bh_str a, struct bh_str b); /* ASCII only */
/* Bytewise order, shorter first when one is a prefix: <0, 0, >0. */
int bh_str_cmp(struct bh_str a, struct bh_str b);
bool bh_str_starts(struct bh_str s, struct bh_str prefix);
bool bh_str_ends(struct bh_str s, struct bh_str suffix);
/* Index of the first c at or after from, or -1. */
ptrdiff_t bh_str_chr(struct bh_str s, char c, size_t from);
/* Index of the first occurrence of needle, or -1. An empty needle is found at 0. */
ptrdiff_t bh_str_find(struct bh_str s, struct bh_str needle);
/* s[from, to), clamped to s. */
struct bh_str bh_str_sub(struct bh_str s, size_t from, size_t to);
struct bh_str bh_str_trim(struct bh_str s); /* ASCII blanks at both ends */
/* Cuts s at the first sep: returns the part before it and leaves the rest in *s. Without sep
 * returns all, and *s becomes {NULL, 0}. */
struct bh_str bh_str_cut(struct bh_str *s, char sep);
uint64_t bh_str_hash(
    struct bh_str s); /* seeded once per process: not stable between runs, safe against flooding */
/* Whole-string decimal integer within [min, max]. Returns false on anything else (blanks, plus
 * sign, overflow). */
BH_MUST bool bh_str_i64(struct bh_str s, int64_t min, int64_t max, int64_t *ret);

/* Copies into the arena. The copy is NUL-terminated (the NUL is not counted). */
struct bh_str bh_str_dup(struct bh_arena *a, struct bh_str s);
struct bh_str bh_str_fmt(struct bh_arena *a, const char *fmt, ...) BH_PRINTF(2, 3);
struct bh_str bh_str_vfmt(struct bh_arena *a, const char *fmt, va_list ap) BH_PRINTF(2, 0);

/* Value of key in a sorted map, or NULL. */
const struct bh_str *bh_str_map_get(const struct bh_str_map *m, struct bh_str key);
/* Adds or replaces, keeping the order; the array is reallocated in the arena when it has to grow.
 */
void bh_str_map_put(struct bh_arena *a, struct bh_str_map *m, struct bh_str key,
                    struct bh_str value);

#endif
