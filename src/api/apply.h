/* Server-side apply: a document laid over the live object, and what that does to managedFields.
 *
 * Pure: documents in, document and sets out. Everything is in the arena given. Thread: one at a
 * time per arena. Nesting is limited by BH_JSON_DEPTH_MAX, through the reader of the documents.
 */
#ifndef BH_API_APPLY_H
#define BH_API_APPLY_H

#include "api/fieldpath.h"
#include "data/json.h"

/* Gives a document of version from in version to of the same kind, with its type; false when there
 * is no such version: then what was owned through it is dropped. */
struct bh_apply_convert {
    bool (*fn)(void *arg, struct bh_str from, const struct bh_jv *doc, struct bh_str to,
               const struct bh_type **ret_t, struct bh_jv *ret);
    void *arg;
};

struct bh_apply {
    const struct bh_type *t;
    const struct bh_jv *empty; /* an object with no field set, as it is encoded */
    const struct bh_jv *live;  /* the stored object (or empty), without managedFields */
    const struct bh_jv *patch; /* what is applied, members sorted */
    struct bh_manager self;    /* operation "Apply"; time: now */
    bool force;
    const struct bh_fset *reset; /* fields this write cannot set; may be NULL */
    const struct bh_apply_convert *convert;
};

struct bh_conflict {
    struct bh_manager by;
    const struct bh_fset *set; /* the fields that are another's */
};

struct bh_apply_result {
    bool unchanged;         /* obj is the live object */
    struct bh_jv obj;       /* the new object */
    struct bh_str mistyped; /* not empty: the patch does not fit the schema, and nothing was done */
    const struct bh_conflict *conflicts; /* sorted as upstream tells them; nothing was done */
    size_t n_conflicts;
};

/* Applies. *m is changed only when there is neither a mistake nor a conflict. */
BH_MUST int bh_apply_run(struct bh_managers *m, const struct bh_apply *u, struct bh_arena *a,
                         struct bh_apply_result *ret, struct bh_err *err);

/* kubectl's own manager may take fields that its client-side apply left in an annotation of the
 * live object: those conflicts are taken out of *r. True when none is left (apply again with
 * force). */
bool bh_apply_kubectl_allows(const struct bh_apply *u, struct bh_arena *a,
                             struct bh_apply_result *r);
/* After such an apply: the annotation, when the new object has it, is written anew from what was
 * applied. */
void bh_apply_kubectl_annotate(const struct bh_apply *u, struct bh_arena *a, struct bh_jv *obj);

/* Numbers, as upstream's conversion into structs takes them: 2.0 is an integer, int32 wraps.
 * -BH_E_INVALID with upstream's words when a value is of another type. */
BH_MUST int bh_apply_fit(const struct bh_type *t, struct bh_jv *obj, struct bh_arena *a,
                         struct bh_err *err);

#endif
