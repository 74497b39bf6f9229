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

#endif
