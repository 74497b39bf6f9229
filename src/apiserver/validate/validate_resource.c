/* resource.k8s.io: claims, templates and classes (dra.md, sections 1.8, 1.9, 2.3 and 2.5); the
 * group's tables. */
#include "apiserver/validate/validate_dra.h"

#include "api/gen/resource_v1alpha3.h"
#include "api/gen/resource_v1beta1.h"
#include "api/gen/resource_v1beta2.h"
#include "cel/device_env.h"

#define EXPRESSION_BYTES_MAX 10240u

#define ADMIN_LABEL "resource.kubernetes.io/admin-access"

/* ---- selectors, requests ---- */

static void selector(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_resource_v1_device_selector *s)
{
    const struct bh_fpath *cel = BH_FP(at, "cel"), *expr = BH_FP(cel, "expression");
    bool forbidden = false, too_long = false;
    struct bh_str text = {0};

    if (!s->cel) {
        bh_fe_required(e, cel, NULL);
        return;
    }
    if (s->cel->expression.n > EXPRESSION_BYTES_MAX) {
        bh_fe_too_long(e, expr, EXPRESSION_BYTES_MAX);
        return;
    }
    if (bh_cel_selector_validate(s->cel->expression, e->a, &text, &forbidden, &too_long) == 0)
        return;
    if (too_long)
        bh_fe_too_long(e, expr, EXPRESSION_BYTES_MAX);
    else if (forbidden)
        bh_fe_forbidden(e, expr, "%.*s", BH_SF(text));
    else
        bh_fe_invalid(e, expr, s->cel->expression, "%.*s", BH_SF(text));
}

static void selectors(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_resource_v1_device_selector_vec *v)
{
    if (!bh_v_size(e, at, v->n, BH_DRA_ITEMS_MAX))
        return;
    for (size_t i = 0; i < v->n; i++)
        selector(e, BH_FPI(at, i), &v->p[i]);
}

static void class_name(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    if (s.n == 0)
        bh_fe_required(e, at, NULL);
    else
        bh_v_check(e, at, bh_check_dns1123_subdomain, s);
}

static void allocation_mode(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str mode,
                            int64_t count)
{
    if (bh_str_eqc(mode, "All")) {
        if (count != 0)
            bh_fe_invalid_i64(e, BH_FP(at, "count"), count,
                              "must not be specified when allocationMode is 'All'");
    } else if (bh_str_eqc(mode, "ExactCount")) {
        if (count <= 0)
            bh_fe_invalid_i64(e, BH_FP(at, "count"), count, "must be greater than zero");
    } else {
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "allocationMode"), mode, "All", "ExactCount");
    }
}

static void toleration(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_resource_v1_device_toleration *t)
{
    if (t->key.n)
        bh_v_label_name(e, BH_FP(at, "key"), t->key);
    if (bh_str_eqc(t->operator, "Exists")) {
        if (t->value.n)
            bh_fe_invalid(e, BH_FP(at, "value"), t->value, "must be empty for operator `Exists`");
    } else if (bh_str_eqc(t->operator, "Equal")) {
        bh_v_check(e, BH_FP(at, "value"), bh_check_label_value, t->value);
    } else if (t->operator.n == 0) {
        bh_fe_required(e, BH_FP(at, "operator"), NULL);
    } else {
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "operator"), t->operator, "Equal", "Exists");
    }
    if (t->effect.n && !BH_V_ONE_OF(t->effect, "NoExecute", "NoSchedule", "None"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "effect"), t->effect, "NoExecute", "NoSchedule", "None");
}

static void tolerations(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_resource_v1_device_toleration_vec *v)
{
    for (size_t i = 0; i < v->n; i++)
        toleration(e, BH_FPI(at, i), &v->p[i]);
}

static void exact_request(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_resource_v1_exact_device_request *r)
{
    class_name(e, BH_FP(at, "deviceClassName"), r->device_class_name);
    selectors(e, BH_FP(at, "selectors"), &r->selectors);
    allocation_mode(e, at, r->allocation_mode, r->count);
    tolerations(e, BH_FP(at, "tolerations"), &r->tolerations);
}

static void sub_request(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_resource_v1_device_sub_request *r)
{
    bh_v_check(e, BH_FP(at, "name"), bh_check_dns1123_label, r->name);
    class_name(e, BH_FP(at, "deviceClassName"), r->device_class_name);
    selectors(e, BH_FP(at, "selectors"), &r->selectors);
    allocation_mode(e, at, r->allocation_mode, r->count);
    tolerations(e, BH_FP(at, "tolerations"), &r->tolerations);
}

static void first_available(struct bh_field_errs *e, const struct bh_fpath *at,
                            const struct bh_resource_v1_device_sub_request_vec *v)
{
    if (!bh_v_size(e, at, v->n, BH_DRA_SUBREQUESTS_MAX))
        return;
    for (size_t i = 0; i < v->n; i++)
        sub_request(e, BH_FPI(at, i), &v->p[i]);
    for (size_t i = 0; i < v->n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].name, v->p[i].name)) {
                bh_fe_duplicate(e, BH_FPI(at, i), v->p[i].name);
                break;
            }
}

static void request(struct bh_field_errs *e, const struct bh_fpath *at,
                    const struct bh_resource_v1_device_request *r)
{
    bh_v_check(e, BH_FP(at, "name"), bh_check_dns1123_label, r->name);
    if (r->exactly && r->first_available.n)
        bh_fe_invalid_text(e, at, BH_S("null"),
                           "exactly one of `exactly` or `firstAvailable` is required, but multiple "
                           "fields are set");
    else if (r->exactly)
        exact_request(e, BH_FP(at, "exactly"), r->exactly);
    else if (r->first_available.n)
        first_available(e, BH_FP(at, "firstAvailable"), &r->first_available);
    else
        bh_fe_required(e, at, "exactly one of `exactly` or `firstAvailable` is required");
}

static void requests(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_resource_v1_device_request_vec *v)
{
    if (!bh_v_size(e, at, v->n, BH_DRA_ITEMS_MAX))
        return;
    for (size_t i = 0; i < v->n; i++)
        request(e, BH_FPI(at, i), &v->p[i]);
    for (size_t i = 0; i < v->n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].name, v->p[i].name)) {
                bh_fe_duplicate(e, BH_FPI(at, i), v->p[i].name);
                break;
            }
}

/* ---- the spec of a claim ---- */

static void full_name(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    bh_v_qualified_key(e, at, s);
    if (bh_str_chr(s, '/', 0) < 0)
        bh_fe_invalid(e, at, s,
                      "a fully qualified name must be a domain and a name separated by a slash");
}

static void constraint(const struct bh_rules_env *env, struct bh_field_errs *e,
                       const struct bh_fpath *at, const struct bh_resource_v1_device_constraint *c,
                       const struct bh_resource_v1_device_claim *claim)
{
    bh_v_request_refs(e, BH_FP(at, "requests"), &c->requests, claim);
    if (c->has_match_attribute)
        full_name(e, BH_FP(at, "matchAttribute"), c->match_attribute);
    else if (c->has_distinct_attribute)
        full_name(e, BH_FP(at, "distinctAttribute"), c->distinct_attribute);
    else if (bh_rules_gate(env, "DRAConsumableCapacity"))
        bh_fe_required(e, at,
                       "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, "
                       "but multiple fields "
                       "are set");
    else
        bh_fe_required(e, BH_FP(at, "matchAttribute"), NULL);
}

static void device_claim(const struct bh_rules_env *env, struct bh_field_errs *e,
                         const struct bh_fpath *at, const struct bh_resource_v1_device_claim *c)
{
    const struct bh_fpath *constraints = BH_FP(at, "constraints"), *config = BH_FP(at, "config");

    requests(e, BH_FP(at, "requests"), &c->requests);
    if (bh_v_size(e, constraints, c->constraints.n, BH_DRA_ITEMS_MAX))
        for (size_t i = 0; i < c->constraints.n; i++)
            constraint(env, e, BH_FPI(constraints, i), &c->constraints.p[i], c);
    if (bh_v_size(e, config, c->config.n, BH_DRA_ITEMS_MAX))
        for (size_t i = 0; i < c->config.n; i++) {
            const struct bh_fpath *ix = BH_FPI(config, i);

            bh_v_request_refs(e, BH_FP(ix, "requests"), &c->config.p[i].requests, c);
            bh_v_device_configuration(e, ix, &c->config.p[i].device_configuration, false);
        }
}

/* Only the first request that asks for it is told, at a path that leaves out `exactly`, for
 * templates too. */
static void admin_access(const struct bh_rules_env *env, struct bh_str ns,
                         const struct bh_resource_v1_device_claim *claim, struct bh_field_errs *e)
{
    const struct bh_str_map *labels;
    const struct bh_str *value;

    for (size_t i = 0; i < claim->requests.n; i++) {
        const struct bh_resource_v1_exact_device_request *r = claim->requests.p[i].exactly;

        if (!r || !r->has_admin_access || !r->admin_access)
            continue;
        labels = env->ns_labels ? env->ns_labels(env->arg, ns) : NULL;
        value = labels ? bh_str_map_get(labels, BH_S(ADMIN_LABEL)) : NULL;
        if (!value || !bh_str_eqc(*value, "true"))
            bh_fe_forbidden(
                e,
                BH_FP(BH_FPI(BH_FP(BH_FP(BH_FP(NULL, "spec"), "devices"), "requests"), i),
                      "adminAccess"),
                "admin access to devices requires the `" ADMIN_LABEL
                ": true` label on the containing namespace");
        return;
    }
}

static void claim_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_resource_v1_resource_claim *c = obj;

    admin_access(env, c->metadata.namespace, &c->spec.devices, e);
    bh_v_meta(e, BH_FP(NULL, "metadata"), &c->metadata, true, bh_check_dns1123_subdomain,
              BH_VM_KUBE);
    device_claim(env, e, BH_FP(BH_FP(NULL, "spec"), "devices"), &c->spec.devices);
}

static void claim_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                         const void *prev, struct bh_field_errs *e)
{
    const struct bh_resource_v1_resource_claim *c = obj, *old = prev;

    if (bh_str_eqc(sub, "status")) {
        bh_v_claim_status_update(env, c, old, e);
        return;
    }
    bh_v_meta(e, BH_FP(NULL, "metadata"), &c->metadata, true, bh_check_dns1123_subdomain,
              BH_VM_KUBE);
    bh_v_meta_update(e, BH_FP(NULL, "metadata"), &c->metadata, &old->metadata, BH_VM_KUBE);
    bh_v_immutable_msg(e, BH_FP(NULL, "spec"), &bh_resource_v1_resource_claim_spec_type, &c->spec,
                       &old->spec);
}

static bool gate_on(void *arg, struct bh_str name)
{
    const struct bh_rules_env *env = arg;

    return env->gate ? env->gate(env->arg, name) : bh_gate_default(name);
}

static void drop_claim_spec(const struct bh_rules_env *env,
                            struct bh_resource_v1_resource_claim_spec *spec,
                            const struct bh_resource_v1_resource_claim_spec *old)
{
    bh_msg_drop_gated(&bh_resource_v1_resource_claim_spec_type, spec, old, gate_on,
                      (void *)(uintptr_t)env);
    /* The list is always written, and storage does not keep that it was there and empty. */
    if (spec->devices.requests.n == 0)
        spec->devices.requests.p = NULL;
}

static void claim_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_resource_v1_resource_claim *c = obj;

    c->status = (struct bh_resource_v1_resource_claim_status){0};
    drop_claim_spec(env, &c->spec, NULL);
}

static void claim_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                 const void *prev)
{
    struct bh_resource_v1_resource_claim *c = obj;
    const struct bh_resource_v1_resource_claim *old = prev;

    if (bh_str_eqc(sub, "status")) {
        c->spec = old->spec;
        bh_v_reset_meta_for_status(&c->metadata, &old->metadata);
        bh_v_claim_status_prepare(env, c, old);
        return;
    }
    c->status = old->status;
    drop_claim_spec(env, &c->spec, &old->spec);
}

/* ---- templates ---- */

static void template_itself(const struct bh_rules_env *env,
                            const struct bh_resource_v1_resource_claim_template *t,
                            struct bh_field_errs *e)
{
    const struct bh_fpath *spec = BH_FP(NULL, "spec");

    bh_v_meta(e, BH_FP(NULL, "metadata"), &t->metadata, true, bh_check_dns1123_subdomain,
              BH_VM_KUBE);
    bh_v_template_meta(e, BH_FP(spec, "metadata"), &t->spec.metadata);
    device_claim(env, e, BH_FP(BH_FP(spec, "spec"), "devices"), &t->spec.spec.devices);
}

static void template_create(const struct bh_rules_env *env, const void *obj,
                            struct bh_field_errs *e)
{
    const struct bh_resource_v1_resource_claim_template *t = obj;

    admin_access(env, t->metadata.namespace, &t->spec.spec.devices, e);
    template_itself(env, t, e);
}

static void template_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                            const void *prev, struct bh_field_errs *e)
{
    const struct bh_resource_v1_resource_claim_template *t = obj, *old = prev;

    (void)sub;
    template_itself(env, t, e); /* unlike a claim's update */
    bh_v_meta_update(e, BH_FP(NULL, "metadata"), &t->metadata, &old->metadata, BH_VM_KUBE);
    bh_v_immutable_msg(e, BH_FP(NULL, "spec"), &bh_resource_v1_resource_claim_template_spec_type,
                       &t->spec, &old->spec);
}

static void template_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_resource_v1_resource_claim_template *t = obj;

    drop_claim_spec(env, &t->spec.spec, NULL);
}

static void template_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                    const void *prev)
{
    struct bh_resource_v1_resource_claim_template *t = obj;
    const struct bh_resource_v1_resource_claim_template *old = prev;

    (void)sub;
    drop_claim_spec(env, &t->spec.spec, &old->spec.spec);
}

/* ---- classes ---- */

static bool same_list(const struct bh_type *t, const struct bh_vec *x, const struct bh_vec *y)
{
    if (x->n != y->n)
        return false;
    for (size_t i = 0; i < x->n; i++)
        if (!bh_msg_equal(t, (const char *)x->p + i * t->size, (const char *)y->p + i * t->size))
            return false;
    return true;
}

static void class_spec(struct bh_field_errs *e, const struct bh_resource_v1_device_class_spec *s,
                       const struct bh_resource_v1_device_class_spec *old)
{
    const struct bh_fpath *at = BH_FP(NULL, "spec"), *config = BH_FP(at, "config");
    bool same = old && same_list(&bh_resource_v1_device_selector_type,
                                 (const struct bh_vec *)(const void *)&s->selectors,
                                 (const struct bh_vec *)(const void *)&old->selectors);

    /* Expressions that are stored already are not judged again. */
    if (!same)
        selectors(e, BH_FP(at, "selectors"), &s->selectors);
    same = old && same_list(&bh_resource_v1_device_class_configuration_type,
                            (const struct bh_vec *)(const void *)&s->config,
                            (const struct bh_vec *)(const void *)&old->config);
    if (bh_v_size(e, config, s->config.n, BH_DRA_ITEMS_MAX))
        for (size_t i = 0; i < s->config.n; i++)
            bh_v_device_configuration(e, BH_FPI(config, i), &s->config.p[i].device_configuration,
                                      same);
    if (s->has_extended_resource_name &&
        !bh_v_is_extended_resource(e->a, s->extended_resource_name))
        bh_fe_invalid(e, BH_FP(at, "extendedResourceName"), s->extended_resource_name,
                      "must be a valid extended resource name");
}

static void class_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_resource_v1_device_class *c = obj;

    (void)env;
    bh_v_meta(e, BH_FP(NULL, "metadata"), &c->metadata, false, bh_check_dns1123_subdomain,
              BH_VM_KUBE | BH_VM_LONG_NAME);
    class_spec(e, &c->spec, NULL);
}

static void class_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                         const void *prev, struct bh_field_errs *e)
{
    const struct bh_resource_v1_device_class *c = obj, *old = prev;

    (void)env;
    (void)sub;
    bh_v_meta(e, BH_FP(NULL, "metadata"), &c->metadata, false, bh_check_dns1123_subdomain,
              BH_VM_KUBE | BH_VM_LONG_NAME);
    bh_v_meta_update(e, BH_FP(NULL, "metadata"), &c->metadata, &old->metadata, BH_VM_KUBE);
    class_spec(e, &c->spec, &old->spec);
}

static void class_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_resource_v1_device_class *c = obj;

    c->metadata.generation = 1;
    bh_msg_drop_gated(&bh_resource_v1_device_class_spec_type, &c->spec, NULL, gate_on,
                      (void *)(uintptr_t)env);
}

static void class_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                 const void *prev)
{
    struct bh_resource_v1_device_class *c = obj;
    const struct bh_resource_v1_device_class *old = prev;

    (void)sub;
    bh_msg_drop_gated(&bh_resource_v1_device_class_spec_type, &c->spec, &old->spec, gate_on,
                      (void *)(uintptr_t)env);
    if (!bh_msg_equal(&bh_resource_v1_device_class_spec_type, &c->spec, &old->spec))
        c->metadata.generation = old->metadata.generation + 1;
}

/* ---- defaults ---- */

static void default_mode(struct bh_str *mode, int64_t *count)
{
    if (mode->n == 0)
        *mode = BH_S("ExactCount");
    if (*count == 0 && bh_str_eqc(*mode, "ExactCount"))
        *count = 1;
}

/* v1 and v1beta2 have the same structs under two names. */
#define DEFINE_REQUEST_DEFAULTS(V)                                                                 \
    static void default_requests_##V(struct bh_resource_##V##_device_claim *c)                     \
    {                                                                                              \
        for (size_t i = 0; i < c->requests.n; i++) {                                               \
            struct bh_resource_##V##_device_request *r = &c->requests.p[i];                        \
                                                                                                   \
            if (r->exactly)                                                                        \
                default_mode(&r->exactly->allocation_mode, &r->exactly->count);                    \
            for (size_t k = 0; k < r->first_available.n; k++)                                      \
                default_mode(&r->first_available.p[k].allocation_mode,                             \
                             &r->first_available.p[k].count);                                      \
        }                                                                                          \
    }

DEFINE_REQUEST_DEFAULTS(v1)
DEFINE_REQUEST_DEFAULTS(v1beta2)

/* Here the request itself may be exact; only then it has a class. */
static void default_requests_v1beta1(struct bh_resource_v1beta1_device_claim *c)
{
    for (size_t i = 0; i < c->requests.n; i++) {
        struct bh_resource_v1beta1_device_request *r = &c->requests.p[i];

        if (r->device_class_name.n)
            default_mode(&r->allocation_mode, &r->count);
        for (size_t k = 0; k < r->first_available.n; k++)
            default_mode(&r->first_available.p[k].allocation_mode, &r->first_available.p[k].count);
    }
}

#define DEFINE_CLAIM_DEFAULTS(V)                                                                   \
    static void default_claim_##V(const struct bh_rules_env *env, void *obj)                       \
    {                                                                                              \
        (void)env;                                                                                 \
        default_requests_##V(&((struct bh_resource_##V##_resource_claim *)obj)->spec.devices);     \
    }                                                                                              \
    static void default_template_##V(const struct bh_rules_env *env, void *obj)                    \
    {                                                                                              \
        (void)env;                                                                                 \
        default_requests_##V(                                                                      \
            &((struct bh_resource_##V##_resource_claim_template *)obj)->spec.spec.devices);        \
    }

DEFINE_CLAIM_DEFAULTS(v1)
DEFINE_CLAIM_DEFAULTS(v1beta1)
DEFINE_CLAIM_DEFAULTS(v1beta2)

/* A time that is compared in whole seconds; the epoch itself would read as "absent". */
static struct bh_time seconds(struct bh_time t)
{
    t.nsec = 0;
    return t;
}

static void default_multiplier(struct bh_str *q, bool *has)
{
    if (*has)
        return;
    *q = BH_S("1");
    *has = true;
}

#define DEFAULT_DEVICE(d, env)                                                                     \
    do {                                                                                           \
        for (size_t t_ = 0; t_ < (d)->taints.n; t_++)                                              \
            if (bh_time_is_zero((d)->taints.p[t_].time_added))                                     \
                (d)->taints.p[t_].time_added = seconds((env)->now);                                \
        for (size_t m_ = 0; m_ < (d)->node_allocatable_resource_mappings.n; m_++)                  \
            default_multiplier(                                                                    \
                &(d)->node_allocatable_resource_mappings.p[m_].value.allocation_multiplier,        \
                &(d)->node_allocatable_resource_mappings.p[m_].value.has_allocation_multiplier);   \
    } while (0)

static void default_slice_v1(const struct bh_rules_env *env, void *obj)
{
    struct bh_resource_v1_resource_slice *s = obj;

    for (size_t i = 0; i < s->spec.devices.n; i++)
        DEFAULT_DEVICE(&s->spec.devices.p[i], env);
}

static void default_slice_v1beta2(const struct bh_rules_env *env, void *obj)
{
    struct bh_resource_v1beta2_resource_slice *s = obj;

    for (size_t i = 0; i < s->spec.devices.n; i++)
        DEFAULT_DEVICE(&s->spec.devices.p[i], env);
}

static void default_slice_v1beta1(const struct bh_rules_env *env, void *obj)
{
    struct bh_resource_v1beta1_resource_slice *s = obj;

    for (size_t i = 0; i < s->spec.devices.n; i++)
        if (s->spec.devices.p[i].basic)
            DEFAULT_DEVICE(s->spec.devices.p[i].basic, env);
}

_Static_assert(offsetof(struct bh_resource_v1alpha3_device_taint_rule, spec.taint.time_added) ==
                   offsetof(struct bh_resource_v1beta2_device_taint_rule, spec.taint.time_added),
               "one function for both versions");
static void default_rule(const struct bh_rules_env *env, void *obj)
{
    struct bh_resource_v1beta2_device_taint_rule *r = obj;

    if (bh_time_is_zero(r->spec.taint.time_added))
        r->spec.taint.time_added = seconds(env->now);
}

#define G "resource.k8s.io"

const struct bh_default_rule bh_defaults_resource[] = {
    {G "/v1", "ResourceClaim", default_claim_v1},
    {G "/v1beta1", "ResourceClaim", default_claim_v1beta1},
    {G "/v1beta2", "ResourceClaim", default_claim_v1beta2},
    {G "/v1", "ResourceClaimTemplate", default_template_v1},
    {G "/v1beta1", "ResourceClaimTemplate", default_template_v1beta1},
    {G "/v1beta2", "ResourceClaimTemplate", default_template_v1beta2},
    {G "/v1", "ResourceSlice", default_slice_v1},
    {G "/v1beta1", "ResourceSlice", default_slice_v1beta1},
    {G "/v1beta2", "ResourceSlice", default_slice_v1beta2},
    {G "/v1alpha3", "DeviceTaintRule", default_rule},
    {G "/v1beta2", "DeviceTaintRule", default_rule},
};
const size_t bh_defaults_resource_n = BH_COUNT(bh_defaults_resource);

const struct bh_rules bh_rules_resource[] = {
    {.group = G,
     .kind = "ResourceClaim",
     .prepare_create = claim_prepare_create,
     .prepare_update = claim_prepare_update,
     .validate_create = claim_create,
     .validate_update = claim_update},
    {.group = G,
     .kind = "ResourceClaimTemplate",
     .prepare_create = template_prepare_create,
     .prepare_update = template_prepare_update,
     .validate_create = template_create,
     .validate_update = template_update},
    {.group = G,
     .kind = "DeviceClass",
     .prepare_create = class_prepare_create,
     .prepare_update = class_prepare_update,
     .validate_create = class_create,
     .validate_update = class_update},
    {.group = G,
     .kind = "ResourceSlice",
     .prepare_create = bh_v_slice_prepare_create,
     .prepare_update = bh_v_slice_prepare_update,
     .validate_create = bh_v_slice_create,
     .validate_update = bh_v_slice_update,
     .warn = bh_v_slice_warn},
    {.group = G,
     .kind = "DeviceTaintRule",
     .prepare_create = bh_v_rule_prepare_create,
     .prepare_update = bh_v_rule_prepare_update,
     .validate_create = bh_v_rule_create,
     .validate_update = bh_v_rule_update,
     .warn = bh_v_rule_warn},
    {.group = G,
     .kind = "ResourcePoolStatusRequest",
     .prepare_create = bh_v_pool_request_prepare_create,
     .prepare_update = bh_v_pool_request_prepare_update,
     .validate_create = bh_v_pool_request_create,
     .validate_update = bh_v_pool_request_update,
     .no_unconditional_update = true},
};
const size_t bh_rules_resource_n = BH_COUNT(bh_rules_resource);
