/* Committed API objects: one reference-counted, immutable block each.
 *
 * A block holds the canonical JSON (with its resourceVersion) and the parsed metadata that every
 * reader needs; the decoded struct is made when first asked for and kept while the object lives.
 * GET, LIST and WATCH send `json` as it is. Thread: any; the count is atomic, everything else is
 * constant after bh_obj_new().
 */
#ifndef BH_API_OBJ_H
#define BH_API_OBJ_H

#include "base/err.h"
#include "base/str.h"

struct bh_kind;
struct bh_buf;

struct bh_obj {
    const struct bh_kind *kind;
    uint64_t rv;        /* resourceVersion */
    struct bh_str json; /* canonical, complete:
                           {"kind":…,"apiVersion":…,"metadata":{…,"resourceVersion":"N",…},…} */
    struct bh_str ns;   /* empty when cluster scoped; these are views into the block */
    struct bh_str name;
    struct bh_str uid;
    struct bh_str_map labels;
    bool deleting; /* metadata.deletionTimestamp is set */
    /* private */
    int refs;
    bool lent;     /* labels are the struct's: it stays */
    uint32_t hole; /* pending: where the hole is in the JSON */
    void *decoded; /* strings are views of the JSON */
    void *arena;   /* of what was decoded; NULL: it is a block of its own */
};

/* In bytes that are encoded before the commit, resourceVersion holds these twenty characters; the
 * number takes their place when the back end has assigned it. No API server ever gives this version
 * out. */
#define BH_OBJ_RV_HOLE "00000000000000000000"

/* Makes an object from canonical JSON whose metadata.resourceVersion is the hole, or any number
 * (which is replaced by rv unless rv is 0: then the number in the JSON counts). Copies json.
 * Returns NULL and *err when the JSON is malformed or lacks metadata. One reference is the
 * caller's. */
BH_MUST struct bh_obj *bh_obj_new(const struct bh_kind *kind, struct bh_str json, uint64_t rv,
                                  struct bh_err *err);
/* The same for bytes of which the decoded struct will be asked for: they are read once, not three
 * times. The version is that of the JSON. */
BH_MUST struct bh_obj *bh_obj_new_decoded(const struct bh_kind *kind, struct bh_str json,
                                          struct bh_err *err);
/* Of the kind's generated struct, for objects that have their version. */
BH_MUST struct bh_obj *bh_obj_from_struct(const struct bh_kind *kind, const void *msg,
                                          struct bh_err *err);

struct bh_obj *bh_obj_ref(const struct bh_obj *o);   /* returns o */
struct bh_obj *bh_obj_unref(const struct bh_obj *o); /* accepts NULL, returns NULL */
/* The kind's generated struct, e.g. const struct bh_core_v1_pod *; lives as long as the object.
 * Never NULL. */
const void *bh_obj_struct(const struct bh_obj *o);
/* "ns/name", or "name" when cluster scoped, into buf (at least 320 bytes); returns the view. */
struct bh_str bh_obj_key(const struct bh_obj *o, char *buf, size_t n);

static inline void bh_obj_unref_p(struct bh_obj **o)
{
    (void)bh_obj_unref(*o);
}
#define BH_AUTO_OBJ BH_CLEANUP(bh_obj_unref_p) struct bh_obj

#endif
