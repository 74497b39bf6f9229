/* JSON: a pull reader over bytes, a document tree in an arena, a writer into a buffer.
 *
 * Behaviour follows Go's encoding/json, because clients see it: the words of syntax errors, invalid
 * UTF-8 and lone surrogates replaced by U+FFFD on reading, and `<`, `>`, `&`, U+2028, U+2029
 * escaped on writing. No function recurses. Nesting is limited to BH_JSON_DEPTH_MAX
 * ("invalid character '[' exceeded max depth"). Syntax errors are -BH_E_BAD_REQUEST; -BH_E_LIMIT
 * comes only from an arena with a limit. Thread: any; a reader or a tree belongs to one thread at a
 * time, a tree nobody changes may be read by many.
 */
#ifndef BH_DATA_JSON_H
#define BH_DATA_JSON_H

#include "base/err.h"
#include "base/limits.h"
#include "base/str.h"

struct bh_arena;
struct bh_buf;

/* ---- Reader ----
 *
 * A cursor that stands before a value. Peek at its kind, then take it with exactly one of the
 * functions below:
 *
 *     bh_json_rd_init(&r, body, arena);
 *     if (bh_json_peek(&r) == BH_JSON_OBJ) {
 *         bh_json_enter(&r, err);
 *         while ((rc = bh_json_next_key(&r, &key, err)) > 0)
 *             ... take or skip one value ...
 *     }
 *     bh_json_end(&r, err);
 *
 * Taking a value of another kind than the one that stands there is -BH_E_BAD_REQUEST and does not
 * move the cursor. After any other error the reader is at rest: every later call fails in the same
 * way. Call bh_json_check() on the whole input first where syntax errors must win over all others
 * (upstream's decoder does so).
 */
enum bh_json_kind {
    BH_JSON_NONE, /* end of input or a byte that begins no value */
    BH_JSON_NULL,
    BH_JSON_BOOL,
    BH_JSON_NUM,
    BH_JSON_STR,
    BH_JSON_ARR,
    BH_JSON_OBJ,
};

struct bh_json_rd {
    const char *start, *p, *end;
    struct bh_arena *arena; /* for strings that need unescaping */
    unsigned depth;         /* open arrays and objects */
    bool first;             /* no element of the innermost container was read yet */
    bool failed;
    uint64_t objs[(BH_JSON_DEPTH_MAX + 63) / 64]; /* bit d: the container at depth d is an object */
};

/* arena may be NULL when no string is taken. in must outlive the reader and the views it gives out.
 */
void bh_json_rd_init(struct bh_json_rd *r, struct bh_str in, struct bh_arena *arena);
enum bh_json_kind bh_json_peek(struct bh_json_rd *r); /* skips blanks only */
size_t bh_json_pos(const struct bh_json_rd *r);       /* byte offset of the cursor */

BH_MUST int bh_json_take_null(struct bh_json_rd *r, struct bh_err *err);
BH_MUST int bh_json_take_bool(struct bh_json_rd *r, bool *ret, struct bh_err *err);
/* The number's text as it stands, a view into the input. */
BH_MUST int bh_json_take_num(struct bh_json_rd *r, struct bh_str *ret_raw, struct bh_err *err);
/* The decoded string: a view into the input when it has no escapes and is valid UTF-8, else in the
 * arena. */
BH_MUST int bh_json_take_str(struct bh_json_rd *r, struct bh_str *ret, struct bh_err *err);
/* Enters the array or object. */
BH_MUST int bh_json_enter(struct bh_json_rd *r, struct bh_err *err);
/* In an object: 1 and the decoded key, the cursor stands before its value; 0 at the end (which is
 * left). */
BH_MUST int bh_json_next_key(struct bh_json_rd *r, struct bh_str *ret_key, struct bh_err *err);
/* In an array: 1 when the cursor stands before an element; 0 at the end (which is left). */
BH_MUST int bh_json_next_item(struct bh_json_rd *r, struct bh_err *err);
/* Checks and passes one value of any kind; ret_raw (may be NULL) is its text without blanks around.
 */
BH_MUST int bh_json_skip(struct bh_json_rd *r, struct bh_str *ret_raw, struct bh_err *err);
/* Only blanks may follow. */
BH_MUST int bh_json_end(struct bh_json_rd *r, struct bh_err *err);

/* The whole input is one valid value (upstream's error texts). */
BH_MUST int bh_json_check(struct bh_str in, struct bh_err *err);
/* What upstream's error says of a kind: "null", "bool", "number", "string", "array", "object". */
const char *bh_json_kind_name(enum bh_json_kind k);

/* ---- Numbers ---- */
/* The text is an integer literal (no '.', no exponent; "-0" included) within int64. */
bool bh_json_num_i64(struct bh_str raw, int64_t *ret);
/* Nearest double; false when it is beyond the range of double (*ret is then an infinity). Locale
 * independent. */
bool bh_json_num_double(struct bh_str raw, double *ret);

/* ---- Document tree ----
 *
 * Values are small and copied by assignment; the copy shares what lies below (bh_jv_copy() for an
 * independent one). A pointer to an element stays valid until its array or object next gains or
 * loses one. Strings and the text of numbers may be views into the parsed input, which then has to
 * outlive the tree.
 */
struct bh_jv_member;

struct bh_jv {
    uint8_t kind; /* enum bh_json_kind; BH_JSON_NONE (all zero) stands for "absent" */
    bool b;       /* BOOL */
    uint32_t cap; /* ARR, OBJ: room in items or members */
    union {
        struct bh_str s; /* STR: the string; NUM: its text */
        struct {
            struct bh_jv *items; /* ARR */
            size_t n_items;
        };
        struct {
            struct bh_jv_member *members; /* OBJ: in document order, keys unique */
            size_t n_members;
        };
    };
};

struct bh_jv_member {
    struct bh_str key;
    struct bh_jv v;
};

/* Paths of duplicate keys, in document order, each key that came again: "spec.containers[0].name".
 */
struct bh_json_dups {
    struct bh_str_vec paths;
};

#define BH_JV_NULL ((struct bh_jv){.kind = BH_JSON_NULL})
#define BH_JV_OBJ  ((struct bh_jv){.kind = BH_JSON_OBJ})
#define BH_JV_ARR  ((struct bh_jv){.kind = BH_JSON_ARR})
static inline struct bh_jv bh_jv_bool(bool b)
{
    return (struct bh_jv){.kind = BH_JSON_BOOL, .b = b};
}
static inline struct bh_jv bh_jv_str(struct bh_str s)
{
    return (struct bh_jv){.kind = BH_JSON_STR, .s = s};
}
static inline struct bh_jv bh_jv_num(struct bh_str raw)
{
    return (struct bh_jv){.kind = BH_JSON_NUM, .s = raw};
}
struct bh_jv bh_jv_i64(struct bh_arena *a, int64_t v);
struct bh_jv bh_jv_double(struct bh_arena *a,
                          double v); /* Go's text; NaN and infinities become null */

/* Parses one whole document. Of duplicate keys the last value wins, at the place of the first;
 * their paths go to *dups when it is not NULL. Strings without escapes are views into in. */
BH_MUST int bh_jv_parse(struct bh_arena *a, struct bh_str in, struct bh_json_dups *dups,
                        struct bh_jv *ret, struct bh_err *err);
/* The value at the reader's cursor, which moves past it. */
BH_MUST int bh_jv_read(struct bh_json_rd *r, struct bh_jv *ret, struct bh_err *err);

/* Look-ups accept NULL and values of any kind, and give NULL for what is not there. */
struct bh_jv *bh_jv_get(const struct bh_jv *o, struct bh_str key);
struct bh_jv *bh_jv_getc(const struct bh_jv *o, const char *key);
struct bh_jv *bh_jv_at(const struct bh_jv *arr, size_t i);
struct bh_jv *bh_jv_path(const struct bh_jv *o,
                         const char *dotted); /* "metadata.name": plain keys only */
struct bh_str bh_jv_get_str(const struct bh_jv *o,
                            const char *key); /* {NULL, 0} when absent or no string */
bool bh_jv_get_i64(const struct bh_jv *o, const char *key, int64_t *ret);
bool bh_jv_get_bool(const struct bh_jv *o, const char *key); /* false when absent */
bool bh_jv_is_int(const struct bh_jv *v);                    /* a NUM that Go would hold as int64 */

/* Changing. o must be an object, arr an array. All return the stored element. */
struct bh_jv *bh_jv_set(struct bh_arena *a, struct bh_jv *o, struct bh_str key, struct bh_jv v);
struct bh_jv *bh_jv_setc(struct bh_arena *a, struct bh_jv *o, const char *key, struct bh_jv v);
struct bh_jv *bh_jv_append(struct bh_arena *a, struct bh_jv *arr, struct bh_jv v);
struct bh_jv *bh_jv_insert(struct bh_arena *a, struct bh_jv *arr, size_t at,
                           struct bh_jv v); /* at <= n */
bool bh_jv_del(struct bh_jv *o,
               struct bh_str key); /* true when it was there; keeps the order of the rest */
void bh_jv_remove(struct bh_jv *arr, size_t at); /* at < n */

struct bh_jv bh_jv_copy(struct bh_arena *a,
                        const struct bh_jv *v); /* strings too: shares nothing with v */
/* As Go's reflect.DeepEqual of decoded values: member order does not matter; 4 and 4.0 differ
 * (int64 and float64), 4.0 and 4e0 are equal. */
bool bh_jv_eq(const struct bh_jv *a, const struct bh_jv *b);
/* A total order for sorting and deduplication: by kind, then numerically, bytewise, element by
 * element. */
int bh_jv_cmp(const struct bh_jv *a, const struct bh_jv *b);

/* ---- Writer ---- */
enum bh_json_write_flags {
    BH_JSON_SORTED = 1 << 0,  /* members by key, as Go writes maps */
    BH_JSON_GO_NUMS = 1 << 1, /* numbers as Go prints int64 or float64: 1e3 becomes 1000 */
    BH_JSON_INDENT2 = 1 << 2, /* a line per element, two blanks a level */
    BH_JSON_INDENT4 = 1 << 3, /* four blanks a level, as kubectl's -o json */
    BH_JSON_PLAIN = 1 << 4,   /* `<`, `>`, `&` as they are */
};
void bh_jv_write(struct bh_buf *out, const struct bh_jv *v, unsigned flags);
struct bh_str bh_jv_text(struct bh_arena *a, const struct bh_jv *v,
                         unsigned flags);                          /* the same into an arena */
void bh_json_write_str(struct bh_buf *out, struct bh_str s);       /* with the quotes */
void bh_json_write_str_plain(struct bh_buf *out, struct bh_str s); /* `<`, `>`, `&` as they are */
void bh_json_write_double(struct bh_buf *out,
                          double v); /* shortest text, Go's format; NaN and infinities: null */
void bh_json_write_float(struct bh_buf *out, float v);
/* Copies valid JSON without the blanks between tokens; what is no valid JSON gives an unspecified
 * but bounded result. */
void bh_json_compact(struct bh_buf *out, struct bh_str in);

#endif
