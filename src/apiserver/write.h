/* The part that all writes share: from a hub struct to the pipeline and back to the answer. */
#ifndef BH_APISERVER_WRITE_H
#define BH_APISERVER_WRITE_H

#include "api/fieldpath.h"
#include "api/gen/meta_v1.h"
#include "apiserver/rq.h"
#include "apiserver/server_int.h"

/* How the fields of a write are owned. */
struct bh_write_by {
    const char *operation; /* "Update" */
    struct bh_str sub;     /* subresource, or empty */
};

/* Creates from obj, the struct of rq->kind after decoding (name and namespace checked). Answers
 * 201. */
BH_MUST int bh_write_create(struct bh_rq *rq, void *obj);
/* The same of an apply: its managedFields are decided already. */
BH_MUST int bh_write_create_applied(struct bh_rq *rq, void *obj);
/* rest_write.c: whether the asker may also create what the request names (403 otherwise). */
BH_MUST int bh_may_create(struct bh_rq *rq);
/* Replaces old (from the head) by obj, struct of rq->kind after decoding and defaulting. sub:
 * subresource. Answers 200. unconditional_ok: a missing resourceVersion is fine. */
struct bh_update {
    struct bh_obj *old;
    void *obj; /* struct of rq->kind */
    struct bh_str sub;
    const char *verb; /* "update" or "patch" */
    bool applied;     /* an apply: managedFields of obj are decided already */
};
BH_MUST int bh_write_update(struct bh_rq *rq, const struct bh_update *u);
/* Hands a finished hub struct to the pipeline; the request is answered with http when it is
 * durable. */
BH_MUST int bh_write_submit(struct bh_rq *rq, enum bh_store_op op, struct bh_resource *res,
                            const void *hub_obj, int http);
/* The same with another end than "answer with the object". */
BH_MUST int bh_write_submit_then(struct bh_rq *rq, enum bh_store_op op, struct bh_resource *res,
                                 const void *hub_obj, bh_pipeline_done done, void *arg);
/* A hub struct as an object that is not stored (dry runs): resourceVersion as it stands in it. */
struct bh_obj *bh_write_dry(struct bh_rq *rq, const struct bh_kind *hub, const void *hub_obj);
struct bh_str bh_rq_key(struct bh_rq *rq, const struct bh_resource *res, struct bh_str ns,
                        struct bh_str name);
/* The head object the path names; 404 otherwise. */
BH_MUST int bh_rq_head(struct bh_rq *rq, struct bh_obj **ret);
/* Checks namespace and name of a decoded object against the path. */
BH_MUST int bh_check_namespace(struct bh_rq *rq, struct bh_meta_v1_object_meta *m);
BH_MUST int bh_check_name(struct bh_rq *rq, struct bh_meta_v1_object_meta *m);
/* A struct in the hub version to one in rq->kind and back. */
BH_MUST int bh_to_hub(struct bh_rq *rq, void *obj, void **ret);
BH_MUST int bh_from_hub(struct bh_rq *rq, const struct bh_kind *hub, void *obj, void **ret);
/* 422 when errs has entries. */
BH_MUST int bh_check_errs(struct bh_rq *rq, const struct bh_kind *hub, struct bh_str name,
                          const struct bh_field_errs *errs);
bool bh_deletes_during_update(const struct bh_kind *hub, const void *obj, const struct bh_obj *old);
void bh_write_answered(void *arg, struct bh_obj *obj,
                       const struct bh_err *err); /* a bh_pipeline_done; 200 */

/* owners.c */
void bh_dedup_owners(struct bh_rq *rq, struct bh_meta_v1_object_meta *m);
/* rest_delete.c: deletes old as an eviction does; done(rq, …) answers. */
struct bh_meta_v1_delete_options;
BH_MUST int bh_rest_evict(struct bh_rq *rq, struct bh_obj *old,
                          const struct bh_meta_v1_delete_options *given, bh_pipeline_done done);
BH_MUST int bh_rest_delete_obj(struct bh_rq *rq, struct bh_obj *old,
                               const struct bh_meta_v1_delete_options *o);
/* service_alloc.c: fills in what the registry gives to a service: addresses, families, node ports.
 * Before the rules of the kind; old is NULL for a new one. */
struct bh_core_v1_service;
BH_MUST int bh_service_begin(struct bh_rq *rq, struct bh_core_v1_service *s,
                             const struct bh_core_v1_service *old);
/* rest_evict.c: POST of an Eviction to a pod; done answers. */
BH_MUST int bh_rest_eviction(struct bh_rq *rq, bh_pipeline_done done);
/* Asks the budget of a pod for its eviction, and takes one from what it allows unless this is a dry
 * run. 0 when nothing stands against it. */
BH_MUST int bh_budget_take(struct bh_rq *rq, const struct bh_obj *pod);
/* rest_sub.c: POST of a Binding, to pods/x/binding or to bindings. */
BH_MUST int bh_rest_binding(struct bh_rq *rq);

/* managed.c: keeps metadata.managedFields of obj; old (NULL on create) is a hub struct like it. */
BH_MUST int bh_managed_keep(struct bh_rq *rq, const struct bh_kind *hub, void *obj, const void *old,
                            struct bh_str sub);
struct bh_str bh_manager_of(struct bh_rq *rq);
/* Entries to sets; one that is malformed makes it -BH_E_BAD_REQUEST. */
BH_MUST int bh_managed_decode(struct bh_arena *a,
                              const struct bh_meta_v1_managed_fields_entry_vec *v,
                              struct bh_managers *ret);
/* Sets to the entries of meta, sorted. */
BH_MUST int bh_managed_store(struct bh_rq *rq, struct bh_managers *m,
                             struct bh_meta_v1_object_meta *meta);

#endif
