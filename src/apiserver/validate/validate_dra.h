/* Checks that the kinds of resource.k8s.io share. Not for others. */
#ifndef BH_APISERVER_VALIDATE_DRA_H
#define BH_APISERVER_VALIDATE_DRA_H

#include "api/gen/resource_v1.h"
#include "apiserver/validate/validate_int.h"

/* Upstream's limits (dra.md, section 2.2). */
#define BH_DRA_ITEMS_MAX              32u /* requests, constraints, config, selectors, references, results */
#define BH_DRA_SUBREQUESTS_MAX        8u
#define BH_DRA_ALLOCATED_CONFIG_MAX   64u
#define BH_DRA_CONSUMERS_MAX          256u
#define BH_DRA_CONDITIONS_MAX         8u
#define BH_DRA_DRIVER_BYTES_MAX       63u
#define BH_DRA_POOL_BYTES_MAX         253u
#define BH_DRA_PARAMETERS_BYTES_MAX   10240u
#define BH_DRA_BINDING_CONDITIONS_MAX 4u

/* False when a list of n may not be looked at: the one TooMany error is then added. */
bool bh_v_size(struct bh_field_errs *e, const struct bh_fpath *at, size_t n, size_t max);
void bh_v_driver_name(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s);
void bh_v_pool_name(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s);
void bh_v_uid(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s);
void bh_v_device_taint(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str key,
                       struct bh_str value, struct bh_str effect, bool check_effect);
/* A key of attributes or capacities: id, or domain/id. */
void bh_v_qualified_key(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s);
void bh_v_binding_conditions(struct bh_field_errs *e, const struct bh_fpath *at,
                             const struct bh_str_vec *conditions,
                             const struct bh_str_vec *failures);
/* A JSON object of bounded size. stored: it was there before, its size does not matter. */
void bh_v_raw_object(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str raw,
                     bool stored, size_t max);

void bh_v_slice_prepare_create(const struct bh_rules_env *env, void *obj);
void bh_v_slice_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                               const void *old);
void bh_v_slice_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *errs);
void bh_v_slice_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                       const void *old, struct bh_field_errs *errs);
void bh_v_slice_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                     const void *old, struct bh_str_vec *out);
void bh_v_rule_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                    const void *old, struct bh_str_vec *out);
void bh_v_rule_prepare_create(const struct bh_rules_env *env, void *obj);
void bh_v_rule_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                              const void *old);
void bh_v_rule_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *errs);
void bh_v_rule_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                      const void *old, struct bh_field_errs *errs);
void bh_v_claim_status_update(const struct bh_rules_env *env,
                              const struct bh_resource_v1_resource_claim *c,
                              const struct bh_resource_v1_resource_claim *old,
                              struct bh_field_errs *e);
void bh_v_claim_status_prepare(const struct bh_rules_env *env,
                               struct bh_resource_v1_resource_claim *c,
                               const struct bh_resource_v1_resource_claim *old);
/* "request" or "request/subrequest" of the claim. */
void bh_v_request_refs(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_str_vec *refs,
                       const struct bh_resource_v1_device_claim *claim);
void bh_v_request_ref(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str name,
                      const struct bh_resource_v1_device_claim *claim);
void bh_v_device_configuration(struct bh_field_errs *e, const struct bh_fpath *at,
                               const struct bh_resource_v1_device_configuration *c, bool stored);

void bh_v_pool_request_prepare_create(const struct bh_rules_env *env, void *obj);
void bh_v_pool_request_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                      const void *prev);
void bh_v_pool_request_create(const struct bh_rules_env *env, const void *obj,
                              struct bh_field_errs *e);
void bh_v_pool_request_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                              const void *prev, struct bh_field_errs *e);

#endif
