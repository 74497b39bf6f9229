/* Request bodies: from bytes of any media type to the struct of a kind. */
#ifndef BH_APISERVER_BODY_H
#define BH_APISERVER_BODY_H

#include "apiserver/rq.h"

/* Decodes rq->body as kind k (the version asked for). Kind and apiVersion in it may be absent;
 * others are refused as upstream does. Unknown and duplicate fields are errors or warnings as
 * fieldValidation says. */
BH_MUST int bh_body_decode(struct bh_rq *rq, const struct bh_kind *k, void **ret);
/* Any JSON text that stands for an object of kind k, e.g. the result of a patch: no kind check,
 * strict texts collected. */
BH_MUST int bh_body_decode_json(struct bh_rq *rq, const struct bh_kind *k, struct bh_str json,
                                void **ret);
/* Reports what strict decoding found; prefix as in `Pod in version "v1" cannot be handled as a
 * Pod`. */
BH_MUST int bh_body_strict(struct bh_rq *rq, const struct bh_kind *k,
                           const struct bh_strict *strict);
/* What a document says of its kind is not k: the words for it, empty when it fits. */
struct bh_str bh_body_kind_error(struct bh_rq *rq, const struct bh_kind *k,
                                 struct bh_str api_version, struct bh_str kind);
struct bh_str
bh_internal_package(const struct bh_kind *k); /* "core", "apps": as in *core.ConfigMap */
/* The body as JSON text, YAML translated. */
BH_MUST int bh_body_yaml_to_json(struct bh_rq *rq, struct bh_str yaml, struct bh_strict *dups,
                                 struct bh_str *ret, struct bh_err *err);

#endif
