/* resource.k8s.io/v1alpha3: requests for the state of pools (dra.md, section 1.6). Such an object
 * asks once: its spec never changes, and its status is set once.
 */
#include "apiserver/validate/validate_dra.h"

#include "api/gen/resource_v1alpha3.h"

#define LIMIT_MAX            1000
#define POOL_NAME_BYTES_MAX  253u
#define POOLS_MAX            1000u
#define CONDITIONS_MAX       10u
#define POOL_ERROR_BYTES_MAX 256u

static void pool_name(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    struct bh_str rest = s;

    if (s.n > POOL_NAME_BYTES_MAX)
        bh_fe_too_long(e, at, POOL_NAME_BYTES_MAX);
    if (!rest.p)
        rest.p = "";
    for (unsigned i = 0; rest.p; i++) {
        struct bh_str segment = bh_str_cut(&rest, '/');
        struct bh_str_vec faults = bh_v_declared_faults(e->a, bh_check_dns1123_subdomain, segment);

        if (segment.n == 0)
            bh_fe_invalid(e, at, s, "segment %u: must not be empty", i);
        for (size_t k = 0; segment.n && k < faults.n; k++)
            bh_fe_invalid(e, at, s, "segment %u: %.*s", i, BH_SF(faults.p[k]));
    }
}

static void request(struct bh_field_errs *e,
                    const struct bh_resource_v1alpha3_resource_pool_status_request *r)
{
    const struct bh_fpath *at = BH_FP(NULL, "spec");

    if (r->spec.driver.n == 0)
        bh_fe_required(e, BH_FP(at, "driver"), NULL);
    else
        bh_v_check_declared(e, BH_FP(at, "driver"), bh_check_dns1123_subdomain_caseless,
                            r->spec.driver);
    if (r->spec.has_pool_name)
        pool_name(e, BH_FP(at, "poolName"), r->spec.pool_name);
    if (r->spec.has_limit && r->spec.limit < 1)
        bh_fe_invalid_i64(e, BH_FP(at, "limit"), r->spec.limit,
                          "must be greater than or equal to 1");
    if (r->spec.has_limit && r->spec.limit > LIMIT_MAX)
        bh_fe_invalid_i64(e, BH_FP(at, "limit"), r->spec.limit, "must be less than or equal to %d",
                          LIMIT_MAX);
}

void bh_v_pool_request_create(const struct bh_rules_env *env, const void *obj,
                              struct bh_field_errs *e)
{
    const struct bh_resource_v1alpha3_resource_pool_status_request *r = obj;

    (void)env;
    bh_v_meta(e, BH_FP(NULL, "metadata"), &r->metadata, false, bh_check_dns1123_subdomain,
              BH_VM_KUBE);
    request(e, r);
}

static void answer(struct bh_field_errs *e,
                   const struct bh_resource_v1alpha3_resource_pool_status_request_status *s)
{
    const struct bh_fpath *at = BH_FP(NULL, "status"), *pools = BH_FP(at, "pools"),
                          *conditions = BH_FP(at, "conditions");

    if (s->has_pool_count)
        bh_v_nonnegative(e, BH_FP(at, "poolCount"), s->pool_count);
    if (s->pools.n > POOLS_MAX)
        bh_fe_too_many(e, pools, s->pools.n, POOLS_MAX);
    for (size_t i = 0; i < s->pools.n; i++)
        if (s->pools.p[i].validation_error.n > POOL_ERROR_BYTES_MAX)
            bh_fe_too_long(e, BH_FP(BH_FPI(pools, i), "validationError"), POOL_ERROR_BYTES_MAX);
    if (s->conditions.n > CONDITIONS_MAX)
        bh_fe_too_many(e, conditions, s->conditions.n, CONDITIONS_MAX);
    bh_v_conditions(e, conditions, &s->conditions);
}

void bh_v_pool_request_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                              const void *prev, struct bh_field_errs *e)
{
    const struct bh_resource_v1alpha3_resource_pool_status_request *r = obj, *old = prev;
    const struct bh_type *status = &bh_resource_v1alpha3_resource_pool_status_request_status_type;

    (void)env;
    bh_v_meta_update(e, BH_FP(NULL, "metadata"), &r->metadata, &old->metadata, BH_VM_KUBE);
    if (!bh_str_eqc(sub, "status")) {
        if (!bh_msg_equal(&bh_resource_v1alpha3_resource_pool_status_request_spec_type, &r->spec,
                          &old->spec))
            bh_fe_invalid_text(e, BH_FP(NULL, "spec"), BH_S("null"), BH_V_IMMUTABLE);
        return;
    }
    if (r->status)
        answer(e, r->status);
    if (old->status && (!r->status || !bh_msg_equal(status, r->status, old->status)))
        bh_fe_invalid_text(e, BH_FP(NULL, "status"),
                           r->status ? bh_v_go_json(e->a, status, r->status) : BH_S("null"),
                           BH_V_IMMUTABLE);
}

void bh_v_pool_request_prepare_create(const struct bh_rules_env *env, void *obj)
{
    (void)env;
    ((struct bh_resource_v1alpha3_resource_pool_status_request *)obj)->status = NULL;
}

void bh_v_pool_request_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                      const void *prev)
{
    struct bh_resource_v1alpha3_resource_pool_status_request *r = obj;
    const struct bh_resource_v1alpha3_resource_pool_status_request *old = prev;

    (void)env;
    if (bh_str_eqc(sub, "status")) {
        r->spec = old->spec;
        bh_v_reset_meta_for_status(&r->metadata, &old->metadata);
    } else {
        r->status = old->status;
    }
}
