/* Label and field selectors in their query-string syntax.
 *
 * Parsed selectors live in the arena given; strings may be views into the parsed text. Errors are
 * -BH_E_BAD_REQUEST with upstream's words. Limit: BH_SELECTOR_REQS_MAX requirements,
 * BH_SELECTOR_VALUES_MAX values in one. Thread: any.
 */
#ifndef BH_DATA_SELECTOR_H
#define BH_DATA_SELECTOR_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;

#define BH_SELECTOR_REQS_MAX   1000
#define BH_SELECTOR_VALUES_MAX 10000

enum bh_label_op {
    BH_LABEL_EQ,         /* = */
    BH_LABEL_EQ2,        /* ==, which prints as such */
    BH_LABEL_NE,         /* != */
    BH_LABEL_IN,         /* in (a,b) */
    BH_LABEL_NOT_IN,     /* notin (a,b): also true when the key is absent */
    BH_LABEL_EXISTS,     /* key */
    BH_LABEL_NOT_EXISTS, /* !key */
    BH_LABEL_GT,         /* key>5, integers */
    BH_LABEL_LT,
};

struct bh_label_req {
    struct bh_str key;
    enum bh_label_op op;
    struct bh_str_vec values; /* sorted for IN and NOT_IN */
};

/* Sorted by key. No requirement matches everything; `nothing` matches nothing. */
struct bh_label_selector {
    struct bh_label_req *reqs;
    size_t n;
    bool nothing;
};

BH_MUST int bh_label_selector_parse(struct bh_arena *a, struct bh_str text,
                                    struct bh_label_selector *ret, struct bh_err *err);
bool bh_label_selector_match(const struct bh_label_selector *sel, const struct bh_str_map *labels);
bool bh_label_selector_empty(const struct bh_label_selector *sel); /* matches everything */
/* Canonical text: "a=b,c in (x,y),!d". */
struct bh_str bh_label_selector_str(struct bh_arena *a, const struct bh_label_selector *sel);
/* Adds a requirement after upstream's checks of key, operator and values; keeps the order. path is
 * what the message calls the key ("<nil>" for query strings). */
BH_MUST int bh_label_selector_add(struct bh_arena *a, struct bh_label_selector *sel,
                                  struct bh_str key, enum bh_label_op op, struct bh_str_vec values,
                                  struct bh_err *err);
/* The selector key=value for every pair of the map. No checks. */
struct bh_label_selector bh_label_selector_from_map(struct bh_arena *a, const struct bh_str_map *m);

struct bh_field_req {
    struct bh_str field;
    struct bh_str value; /* unescaped */
    bool ne;
};

struct bh_field_selector {
    struct bh_field_req *reqs;
    size_t n;
};

/* "a=b,c!=d"; a backslash escapes ',', '=' and itself. */
BH_MUST int bh_field_selector_parse(struct bh_arena *a, struct bh_str text,
                                    struct bh_field_selector *ret, struct bh_err *err);
/* get gives the value of a field ({NULL, 0} counts as empty). */
bool bh_field_selector_match(const struct bh_field_selector *sel,
                             struct bh_str (*get)(void *arg, struct bh_str field), void *arg);
struct bh_str bh_field_selector_str(struct bh_arena *a, const struct bh_field_selector *sel);

#endif
