/* The inside of field sets. Private to src/api. */
#ifndef BH_API_FSET_INT_H
#define BH_API_FSET_INT_H

#include "api/fieldpath.h"
#include "data/json.h"

/* One step of a path. Ordered by kind, then by content: that is the order of fieldsV1. */
struct bh_pe {
    enum bh_pe_kind { BH_PE_FIELD, BH_PE_KEY, BH_PE_VALUE, BH_PE_INDEX } kind;
    struct bh_str name; /* FIELD */
    struct bh_jv v;     /* KEY: an object, members sorted; VALUE */
    int64_t index;      /* INDEX */
};

struct bh_fnode {
    struct bh_pe pe;
    bool member;           /* the path that ends here is in the set */
    struct bh_fset *below; /* NULL: nothing */
};

/* Sorted by pe. A node is there only when it is a member or has something below it. */
struct bh_fset {
    struct bh_fnode *p;
    size_t n, cap;
};

int bh_pe_cmp(const struct bh_pe *x, const struct bh_pe *y);
struct bh_fset *bh_fset_new(struct bh_arena *a);
/* The node for pe, made when it is not there. Valid until the next insertion in s. */
struct bh_fnode *bh_fset_node(struct bh_arena *a, struct bh_fset *s, const struct bh_pe *pe);
const struct bh_fnode *bh_fset_find(const struct bh_fset *s, const struct bh_pe *pe);
/* As upstream prints it: `.name`, `[name="x"]`, `[="x"]`, `[3]`. */
void bh_pe_show(const struct bh_pe *pe, struct bh_buf *out);

/* ---- the schema along a document (fieldpath.c) ---- */

/* The schema of one place. */
struct bh_place {
    const struct bh_field *f; /* NULL: the object itself, or a place without schema */
    const struct bh_type *t;  /* the message of the object itself */
    bool elem;                /* an element of list f, a value of map f */
    bool known;               /* false: without schema */
};

/* How the value at a place is owned: as a whole, or part by part. */
enum bh_at { BH_AT_LEAF, BH_AT_STRUCT, BH_AT_MAP, BH_AT_SET, BH_AT_LISTMAP };

/* A message that stands for its only field is that field. */
struct bh_place bh_place_unwrap(struct bh_place p);
/* p unwrapped; l and r (one may be NULL) decide where there is no schema. */
enum bh_at bh_place_at(struct bh_place p, const struct bh_jv *l, const struct bh_jv *r);
/* The place of member key of a struct or map. */
struct bh_place bh_place_member(struct bh_place p, enum bh_at at, struct bh_str key);
/* The path element of an item of list f. False when it has none of its keys. */
bool bh_place_item(struct bh_arena *a, const struct bh_field *f, enum bh_at at,
                   const struct bh_jv *item, struct bh_pe *pe);
bool bh_jv_is_empty(const struct bh_jv *v); /* absent, null, {} or [] */
struct bh_fset *bh_fset_of_jv(const struct bh_type *t, const struct bh_jv *v, struct bh_arena *a);
void bh_fset_compare_jv(const struct bh_type *t, const struct bh_jv *l, const struct bh_jv *r,
                        struct bh_arena *a, struct bh_fset_diff *ret);

/* ---- documents by schema (typed.c) ---- */

/* What is wrong with a document that somebody applies, in upstream's words; empty when it fits. */
struct bh_str bh_typed_check(const struct bh_type *t, const struct bh_jv *v, struct bh_arena *a);
/* patch over live: what is in patch wins, items of lists that are owned one by one are merged, in
 * the order of patch. */
struct bh_jv bh_typed_merge(const struct bh_type *t, const struct bh_jv *live,
                            const struct bh_jv *patch, struct bh_arena *a);
/* v without the members of set. */
struct bh_jv bh_typed_remove(const struct bh_type *t, const struct bh_jv *v,
                             const struct bh_fset *set, struct bh_arena *a);
/* Adds the fields of structs that stand on the way to a member. */
struct bh_fset *bh_fset_with_named(const struct bh_type *t, const struct bh_fset *s,
                                   struct bh_arena *a);

#endif
