/* The three patch formats over JSON documents: text in, text out.
 *
 * doc and the result are whole JSON objects (with kind and apiVersion when they have them); the
 * result is appended to out, compact. Nothing is validated here: the caller decodes the result
 * again. Transient memory is in a. Thread: any. Limits: BH_JSON_DEPTH_MAX, BH_PATCH_OPS_MAX.
 */
#ifndef BH_API_PATCH_H
#define BH_API_PATCH_H

#include "api/engine.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#define BH_PATCH_OPS_MAX 10000 /* operations of one JSON patch: upstream's limit, 413 beyond */

/* strict (may be NULL): gets `duplicate field "data.k"` for each key that stands twice in the
 * patch. Errors in reading the patch are worded as upstream's "error decoding patch: …" */

/* RFC 7386. -BH_E_BAD_REQUEST when the patch is not an object. Objects that were merged into come
 * out with their members sorted, as upstream's do. */
BH_MUST int bh_patch_merge(struct bh_str doc, struct bh_str patch, struct bh_arena *a,
                           struct bh_buf *out, struct bh_strict *strict, struct bh_err *err);
/* RFC 6902 with the habits of upstream's library: indices -1 and 01 work in add, replace of a
 * missing map key adds it, copy from one adds null, a pointer without its slash loses its first
 * segment, null instead of a list does nothing. -BH_E_BAD_REQUEST: not a list of operations;
 * -BH_E_INVALID: an operation failed (one fixed text); -BH_E_LIMIT: too many operations, or copies
 * that grow beyond BH_BODY_BYTES_MAX. */
BH_MUST int bh_patch_json(struct bh_str doc, struct bh_str patch, struct bh_arena *a,
                          struct bh_buf *out, struct bh_strict *strict, struct bh_err *err);
/* Strategic merge patch, driven by the merge keys and strategies of t (the type of the object).
 * -BH_E_BAD_REQUEST for a malformed patch or $retainKeys, -BH_E_INTERNAL where upstream answers 500
 * (unknown directive, missing merge key, bad $setElementOrder), -BH_E_INVALID when the result has a
 * value of the wrong type ("cannot convert int64 to string"): the answer is then 422 about `patch`
 * with bh_go_print() of the patch as its bad value. */
BH_MUST int bh_patch_strategic(const struct bh_type *t, struct bh_str doc, struct bh_str patch,
                               struct bh_arena *a, struct bh_buf *out, struct bh_strict *strict,
                               struct bh_err *err);

/* The plain cases of a merge or strategic merge patch without any text: obj, a struct of type t
 * that owns its parts, becomes what decoding the patched document gives. False: this patch is none
 * of them (it deletes, instructs, is malformed, names unknown fields …); obj is then half changed,
 * and one of the functions above has to be asked. What it takes gives neither errors nor strict
 * texts. */
BH_MUST bool bh_patch_struct(const struct bh_type *t, struct bh_str patch, bool strategic,
                             void *obj, struct bh_arena *a);

/* A JSON text as Go's %v prints the decoded value: map[a:1 b:[x y]]. What is no JSON stands as it
 * is. */
void bh_go_print(struct bh_str json, struct bh_arena *a, struct bh_buf *out);

#endif
