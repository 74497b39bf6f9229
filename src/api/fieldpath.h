/* managedFields: sets of field paths, and who owns them.
 *
 * A set belongs to the arena it was made in and is not changed after it has been handed out;
 * operations give new sets that may share parts with their arguments, so use one arena for all of a
 * computation. Paths of unknown fields (no descriptor) are treated as upstream treats untyped data:
 * maps granular, lists atomic. Thread: one at a time per arena. Nesting is limited by
 * BH_JSON_DEPTH_MAX.
 */
#ifndef BH_API_FIELDPATH_H
#define BH_API_FIELDPATH_H

#include "api/types.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct bh_fset; /* NULL is the empty set */

bool bh_fset_empty(const struct bh_fset *s);
bool bh_fset_equal(const struct bh_fset *x, const struct bh_fset *y);
struct bh_fset *bh_fset_union(struct bh_arena *a, const struct bh_fset *x, const struct bh_fset *y);
struct bh_fset *bh_fset_intersection(struct bh_arena *a, const struct bh_fset *x,
                                     const struct bh_fset *y);
struct bh_fset *bh_fset_difference(struct bh_arena *a, const struct bh_fset *x,
                                   const struct bh_fset *y);
/* As difference, but a member of y also takes away everything below it. */
struct bh_fset *bh_fset_recursive_difference(struct bh_arena *a, const struct bh_fset *x,
                                             const struct bh_fset *y);

/* fieldsV1 JSON: {"f:metadata":{"f:labels":{".":{},"f:a":{}}}}. */
BH_MUST int bh_fset_decode(struct bh_str json, struct bh_arena *a, struct bh_fset **ret,
                           struct bh_err *err);
void bh_fset_encode(const struct bh_fset *s, struct bh_buf *out);
/* Calls fn for each member with its path as upstream prints it:
 * ".spec.containers[name=\"c\"].image". */
void bh_fset_each(const struct bh_fset *s, void (*fn)(void *arg, struct bh_str path), void *arg);

/* All paths a document holds. t is the type of the object without kind and apiVersion. */
BH_MUST int bh_fset_of_json(const struct bh_type *t, struct bh_str doc, struct bh_arena *a,
                            struct bh_fset **ret, struct bh_err *err);
/* What differs between two documents of one type; each result may be NULL. */
struct bh_fset_diff {
    struct bh_fset *removed, *modified, *added;
};
BH_MUST int bh_fset_compare(const struct bh_type *t, struct bh_str old_doc, struct bh_str new_doc,
                            struct bh_arena *a, struct bh_fset_diff *ret, struct bh_err *err);
/* The same of two structs of type t, without any text: what bh_fset_compare() gives for their
 * JSON, many times faster. */
void bh_fset_compare_structs(const struct bh_type *t, const void *old_obj, const void *new_obj,
                             struct bh_arena *a, struct bh_fset_diff *ret);
/* Dotted field names: {"status", "metadata.labels"}. */
struct bh_fset *bh_fset_of_paths(struct bh_arena *a, const char *const *paths, size_t n);
/* Leaves out what nobody owns: apiVersion, kind, metadata.name, uid, managedFields … (upstream's
 * stripMeta). */
struct bh_fset *bh_fset_strip_meta(struct bh_arena *a, const struct bh_fset *s);

/* One entry of metadata.managedFields. */
struct bh_manager {
    struct bh_str manager;
    struct bh_str operation; /* "Update", "Apply" */
    struct bh_str api_version;
    struct bh_str subresource;
    struct bh_time time; /* zero: none */
    struct bh_fset *set;
    /* fieldsV1 as bh_fset_encode() once gave it, while set says the same: it is not written anew.
     * With set NULL it stands for the set, which is read when it has to be. p == NULL: none. */
    struct bh_str text;
};
struct bh_managers {
    struct bh_manager *p;
    size_t n;
};

/* fieldsV1 text of the value of metadata.managedFields (a JSON array) to entries. Malformed:
 * -BH_E_BAD_REQUEST. */
BH_MUST int bh_managers_decode(struct bh_str json, struct bh_arena *a, struct bh_managers *ret,
                               struct bh_err *err);
/* Sorted by operation, time in whole seconds, manager; appended as a JSON array. */
void bh_managers_encode(struct bh_managers *m, struct bh_buf *out);
void bh_managers_sort(struct bh_managers *m);
/* The fieldsV1 of one entry; in the arena. */
struct bh_str bh_manager_text(const struct bh_manager *m, struct bh_arena *a);

#define BH_UPDATERS_MAX                                                                            \
    10 /* Update entries of one object; the oldest merge into "ancient-changes" */

/* Gives both documents in another version of the group, for entries that were made through that
 * one; false when it cannot: such entries are dropped, as are those of another group. Without it,
 * all of one group are compared in the version at hand. */
struct bh_managed_convert {
    bool (*fn)(void *arg, struct bh_str api_version, const struct bh_type **ret_t,
               struct bh_str *ret_old, struct bh_str *ret_new);
    void *arg;
};

/* An update (also a patch, also a create) by one manager: what it added or changed becomes its own
 * and leaves the others, what it removed leaves everybody. Documents come from
 * bh_kind_encode_json() in the version self->api_version; for a create old_doc is that of a
 * zeroed struct. */
struct bh_managed_update {
    const struct bh_type *t;
    const void *old_obj, *new_obj; /* decoded structs: then the documents serve conversions only */
    struct bh_str old_doc, new_doc;
    struct bh_manager self; /* manager, operation "Update", api_version, subresource, time (now) */
    const struct bh_fset
        *reset; /* fields this write cannot set ("status", or all but it); may be NULL */
    const struct bh_managed_convert *convert; /* may be NULL */
};
/* Changes *m; the results are in a. *ret_changed (may be NULL): the sets differ from before. */
BH_MUST int bh_managers_update(struct bh_managers *m, const struct bh_managed_update *u,
                               struct bh_arena *a, bool *ret_changed, struct bh_err *err);

#endif
