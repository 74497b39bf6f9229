/* The scale of a workload (rest_scale.c). */
#ifndef BH_APISERVER_SCALE_H
#define BH_APISERVER_SCALE_H

#include "api/fieldpath.h"
#include "apiserver/rq.h"
#include "data/json.h"

/* Whether the request is for the scale of an object. */
bool bh_scale_asked(const struct bh_rq *rq);
/* The kind that is sent and shown: Scale, or else what the path names. */
const struct bh_kind *bh_body_kind(const struct bh_rq *rq);
/* The scale of a stored object; a new reference, NULL on failure. */
struct bh_obj *bh_scale_of(struct bh_rq *rq, const struct bh_obj *stored, struct bh_err *err);
/* Writes what scale (struct of the Scale) says into old. verb: "update" or "patch". */
BH_MUST int bh_scale_write(struct bh_rq *rq, struct bh_obj *old, const void *scale,
                           const char *verb);
/* An apply to the scale becomes one to the object: patch is changed. */
void bh_scale_apply(struct bh_rq *rq, struct bh_jv *patch);
/* The time that the request leaves in managedFields: upstream keeps none of changes of a scale. */
struct bh_time bh_scale_time(const struct bh_rq *rq);
/* Upstream leaves a scale of 0 out of what it compares: nobody owns that. */
void bh_scale_bare(const struct bh_kind *k, void *obj);
/* Whether anybody owns the scale; where nobody does, upstream keeps no owners any more. */
bool bh_scale_owned(struct bh_rq *rq, const struct bh_managers *m);
/* What of the requests to it is not served by the path of the object; 1 for the others. */
BH_MUST int bh_rest_scale(struct bh_rq *rq);

#endif
