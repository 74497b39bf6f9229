/* The engine: everything that is done to objects by walking their descriptors.
 *
 * Functions named bh_msg_* take a message type and a pointer to its struct; functions named
 * bh_kind_* take a kind and add or read what stands beside the message on the wire (kind and
 * apiVersion in JSON, the envelope in protobuf). Decoded structs live in the arena given, and may
 * point into it only: the input text is not needed afterwards. Nothing here keeps state. Thread:
 * any, one at a time per arena. Nesting is limited by BH_JSON_DEPTH_MAX.
 */
#ifndef BH_API_ENGINE_H
#define BH_API_ENGINE_H

#include "api/ferr.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

/* ---- decoding JSON ---- */

/* Unknown and duplicate fields met while decoding, as upstream words them: `unknown field
 * "spec.foo"`, `duplicate field "spec.foo"`, in document order, each once, at most BH_STRICT_MAX.
 */
#define BH_STRICT_MAX 100
struct bh_strict {
    struct bh_str_vec texts; /* in the arena of the decode */
};

/* Decodes one JSON document into *obj (of t->size, zeroed by the caller, e.g. bh_arena_alloc).
 * strict: where unknown and duplicate fields are collected; NULL ignores them
 * (fieldValidation=Ignore). For Strict and Warn pass it and decide afterwards. Unknown fields are
 * dropped, of duplicates the last one counts. -BH_E_BAD_REQUEST: malformed text (Go's wording), or
 * a value of the wrong type (`json: cannot unmarshal string into Go struct field
 * PodSpec.spec.hostNetwork of type bool`); -BH_E_LIMIT: nested too deeply. */
BH_MUST int bh_msg_decode_json(const struct bh_type *t, struct bh_str json, void *obj,
                               struct bh_arena *a, struct bh_strict *strict, struct bh_err *err);
/* Allocates the struct, and also accepts the keys kind and apiVersion at the top, whose values it
 * ignores. */
BH_MUST int bh_kind_decode_json(const struct bh_kind *k, struct bh_str json, struct bh_arena *a,
                                void **ret_obj, struct bh_strict *strict, struct bh_err *err);
/* The same, but the result points into json, which must stay unchanged for as long: for committed
 * objects. */
BH_MUST int bh_kind_decode_json_view(const struct bh_kind *k, struct bh_str json,
                                     struct bh_arena *a, void **ret_obj, struct bh_strict *strict,
                                     struct bh_err *err);
/* `a, b` : the texts joined, for "strict decoding error: …". */
struct bh_str bh_strict_join(const struct bh_strict *s, struct bh_arena *a);
/* Reads only kind and apiVersion of a document (views into json, or copies in a when escaped). The
 * error texts are upstream's "couldn't get version/kind; json parse error: …". Both empty when
 * absent. */
BH_MUST int bh_json_peek_kind(struct bh_str json, struct bh_arena *a,
                              struct bh_str *ret_api_version, struct bh_str *ret_kind,
                              struct bh_err *err);

/* ---- encoding JSON: compact, fields in schema order, maps by key, <, > and & escaped as Go does
 * ---- */

void bh_msg_encode_json(const struct bh_type *t, const void *obj, struct bh_buf *out);
void bh_kind_encode_json(const struct bh_kind *k, const void *obj,
                         struct bh_buf *out); /* kind, apiVersion first */
/* A list: {"kind":"PodList","apiVersion":"v1","metadata":…,"items":[…]} from the generated list
 * struct. */
void bh_kind_encode_list_json(const struct bh_kind *k, const void *list, struct bh_buf *out);
BH_MUST int bh_kind_decode_list_json(const struct bh_kind *k, struct bh_str json,
                                     struct bh_arena *a, void **ret_list, struct bh_err *err);
/* A time in the same form, with its quotes; null when zero. Strings: bh_json_write_str() of
 * data/json.h. */
void bh_enc_time(struct bh_buf *out, struct bh_time t, bool micro);
/* ---- protobuf, byte for byte as upstream's generated marshalers ---- */

void bh_msg_encode_pb(const struct bh_type *t, const void *obj, struct bh_buf *out);
BH_MUST int bh_msg_decode_pb(const struct bh_type *t, struct bh_str pb, void *obj,
                             struct bh_arena *a, struct bh_err *err);

/* The body of application/vnd.kubernetes.protobuf: "k8s\0", then runtime.Unknown. */
#define BH_PB_MAGIC "k8s\0"
struct bh_pb_unknown {
    struct bh_str api_version, kind;
    struct bh_str raw;
    struct bh_str content_encoding, content_type;
};
BH_MUST int bh_pb_open(struct bh_str body, struct bh_pb_unknown *ret,
                       struct bh_err *err);                         /* views into body */
void bh_pb_wrap(const struct bh_pb_unknown *u, struct bh_buf *out); /* with the magic */
void bh_kind_encode_pb(const struct bh_kind *k, const void *obj,
                       struct bh_buf *out); /* the whole body */
void bh_kind_encode_list_pb(const struct bh_kind *k, const void *list, struct bh_buf *out);
/* raw is the message inside the envelope. */
BH_MUST int bh_kind_decode_pb(const struct bh_kind *k, struct bh_str raw, struct bh_arena *a,
                              void **ret_obj, struct bh_err *err);

/* ---- static defaults, validation ---- */

/* Sets every absent field that has a default. Changes *obj in place; new parts are in a. */
void bh_msg_default(const struct bh_type *t, void *obj, struct bh_arena *a);
/* What single fields say (required, enum, bounds, lengths, counts, formats). Whether list items
 * must differ is no table rule: upstream allows doubles in many list maps. Errors are appended in
 * document order. at: path of obj, NULL for the top. */
void bh_msg_validate(const struct bh_type *t, const void *obj, const struct bh_fpath *at,
                     struct bh_field_errs *errs);
/* Fields marked immutable that differ: Invalid, "field is immutable". */
void bh_msg_validate_update(const struct bh_type *t, const void *obj, const void *old,
                            const struct bh_fpath *at, struct bh_field_errs *errs);

/* ---- comparing and copying ---- */

/* Semantic equality as upstream's apiequality.Semantic: absent and empty lists and maps are equal,
 * quantities by value. */
bool bh_msg_equal(const struct bh_type *t, const void *a, const void *b);
void bh_msg_copy(const struct bh_type *t, void *dst, const void *src,
                 struct bh_arena *a); /* deep */
void *bh_msg_dup(const struct bh_type *t, const void *src, struct bh_arena *a);
/* What bh_msg_decode_json() makes of the text of src, without the text: deep, and exactly as if it
 * had gone over the wire (what is empty and optional is absent, times are whole seconds, quantities
 * canonical, invalid UTF-8 is replaced). Raw values of src have to be valid JSON, maps sorted. */
void *bh_msg_dup_wire(const struct bh_type *t, const void *src, struct bh_arena *a);
bool bh_msg_is_empty(const struct bh_type *t, const void *obj);
/* The same of one field of an object (obj is the message that holds it). */
bool bh_field_equal(const struct bh_field *f, const void *a, const void *b);

/* Makes empty lists and maps absent, as upstream's storage (protobuf) forgets them: for objects
 * that are about to be stored. */
void bh_msg_forget_empty(const struct bh_type *t, void *obj);

/* ---- feature gates ---- */

/* Clears each field whose gate is off, unless old (NULL: none) has it set: upstream's
 * dropDisabledFields. on() answers for a gate. */
void bh_msg_drop_gated(const struct bh_type *t, void *obj, const void *old,
                       bool (*on)(void *arg, struct bh_str gate), void *arg);

/* ---- access by path ---- */

/* A value inside an object: points at it, with the descriptor of its field. */
struct bh_ref {
    const struct bh_field *f; /* NULL: the object itself */
    bool elem; /* p is one element of the list or one value of the map f, not the field itself */
    const void *p; /* at the value; for a present ?scalar at the scalar */
};
/* path: "spec.nodeName", "metadata.labels[app]", "spec.containers[0].name", a leading dot allowed;
 * keys in brackets may be quoted. False when the path is unknown or the value is absent. */
bool bh_path_get(const struct bh_type *t, const void *obj, struct bh_str path, struct bh_ref *ret);
/* A scalar as text, as a field selector compares it ("" when absent); other values as JSON. In a
 * when it is not a string of the object. */
struct bh_str bh_path_text(const struct bh_type *t, const void *obj, struct bh_str path,
                           struct bh_arena *a);
void bh_ref_encode_json(const struct bh_ref *r, struct bh_buf *out);

#endif
