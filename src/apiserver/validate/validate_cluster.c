/* Priority classes and runtime classes; the table of the kinds that scheduling uses. */
#include "apiserver/validate/validate_pod.h"

#include "api/gen/node_v1.h"
#include "api/gen/scheduling_v1.h"

#define USER_PRIORITY_MAX 1000000000

/* ---- priority classes ---- */

struct system_class {
    const char *name;
    int32_t value;
};
static const struct system_class system_classes[] = {
    {"system-node-critical", 2000001000},
    {"system-cluster-critical", 2000000000},
};

static const struct system_class *system_class(struct bh_str name)
{
    for (size_t i = 0; i < BH_COUNT(system_classes); i++)
        if (bh_str_eqc(name, system_classes[i].name))
            return &system_classes[i];
    return NULL;
}

static void system_name(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_scheduling_v1_priority_class *c)
{
    static const char reserved[] =
        "priority class names with 'system-' prefix are reserved for system use only. error:";
    const struct system_class *known = system_class(c->metadata.name);

    if (!known)
        bh_fe_forbidden(e, at, "%s %.*s is not a known system priority class", reserved,
                        BH_SF(c->metadata.name));
    else if (c->value != known->value)
        bh_fe_forbidden(e, at, "%s value of %s PriorityClass must be %d", reserved, known->name,
                        (int)known->value);
    else if (c->global_default)
        bh_fe_forbidden(e, at, "%s globalDefault of %s PriorityClass must be false", reserved,
                        known->name);
}

static void priority_create(const struct bh_rules_env *env, const void *obj,
                            struct bh_field_errs *e)
{
    const struct bh_scheduling_v1_priority_class *c = obj;
    const struct bh_fpath *meta = BH_FP(NULL, "metadata");

    (void)env;
    bh_v_meta(e, meta, &c->metadata, false, bh_check_dns1123_subdomain, BH_VM_KUBE);
    if (bh_str_starts(c->metadata.name, BH_S("system-")))
        system_name(e, BH_FP(meta, "name"), c);
    else if (c->value > USER_PRIORITY_MAX)
        bh_fe_forbidden(e, BH_FP(NULL, "value"),
                        "maximum allowed value of a user defined priority is %d",
                        USER_PRIORITY_MAX);
    if (!c->has_preemption_policy)
        return;
    if (c->preemption_policy.n == 0)
        bh_fe_required(e, BH_FP(NULL, "preemptionPolicy"), NULL);
    else if (!BH_V_ONE_OF(c->preemption_policy, "PreemptLowerPriority", "Never"))
        BH_V_NOT_SUPPORTED(e, BH_FP(NULL, "preemptionPolicy"), c->preemption_policy,
                           "PreemptLowerPriority", "Never");
}

static void priority_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                            const void *prev, struct bh_field_errs *e)
{
    const struct bh_scheduling_v1_priority_class *c = obj, *old = prev;

    (void)env;
    (void)sub;
    bh_v_meta_update(e, BH_FP(NULL, "metadata"), &c->metadata, &old->metadata, BH_VM_KUBE);
    if (c->value != old->value)
        bh_fe_forbidden(e, BH_FP(NULL, "value"), "may not be changed in an update.");
    bh_v_immutable_str(e, BH_FP(NULL, "preemptionPolicy"), c->preemption_policy,
                       old->preemption_policy);
}

static void priority_prepare_create(const struct bh_rules_env *env, void *obj)
{
    (void)env;
    ((struct bh_scheduling_v1_priority_class *)obj)->metadata.generation = 1;
}

/* ---- runtime classes ---- */

static bool same_toleration(const struct bh_core_v1_toleration *a,
                            const struct bh_core_v1_toleration *b)
{
    return bh_str_eq(a->key, b->key) && bh_str_eq(a->operator, b->operator) &&
           bh_str_eq(a->value, b->value) && bh_str_eq(a->effect, b->effect);
}

static void runtime_tolerations(struct bh_field_errs *e, const struct bh_fpath *at,
                                const struct bh_core_v1_toleration_vec *v,
                                const struct bh_rules_env *env)
{
    const struct bh_pod_opts o = {.env = env};

    bh_v_tolerations(e, at, v, &o);
    for (size_t i = 1; i < v->n; i++)
        for (size_t k = 0; k < i; k++)
            if (same_toleration(&v->p[i], &v->p[k])) {
                bh_fe_duplicate_text(e, BH_FPI(at, i),
                                     bh_v_go_json(e->a, &bh_core_v1_toleration_type, &v->p[i]));
                break;
            }
}

static void runtime_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_node_v1_runtime_class *c = obj;
    const struct bh_fpath *scheduling = BH_FP(NULL, "scheduling");

    bh_v_meta(e, BH_FP(NULL, "metadata"), &c->metadata, false, bh_check_dns1123_subdomain,
              BH_VM_KUBE);
    if (c->handler.n == 0)
        bh_fe_required(e, BH_FP(NULL, "handler"), NULL);
    else
        bh_v_check(e, BH_FP(NULL, "handler"), bh_check_dns1123_label, c->handler);
    if (c->overhead) {
        const struct bh_core_v1_resource_requirements limits = {.limits = c->overhead->pod_fixed};

        bh_v_requirements(e, BH_FP(NULL, "overhead"), &limits, NULL, false);
    }
    if (c->scheduling) {
        bh_v_labels(e, BH_FP(scheduling, "nodeSelector"), &c->scheduling->node_selector);
        runtime_tolerations(e, BH_FP(scheduling, "tolerations"), &c->scheduling->tolerations, env);
    }
}

static void runtime_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                           const void *prev, struct bh_field_errs *e)
{
    const struct bh_node_v1_runtime_class *c = obj, *old = prev;

    (void)sub;
    runtime_create(env, c, e);
    bh_v_meta_update(e, BH_FP(NULL, "metadata"), &c->metadata, &old->metadata, BH_VM_KUBE);
    bh_v_immutable_str(e, BH_FP(NULL, "handler"), c->handler, old->handler);
}

static void runtime_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                         const void *prev, struct bh_str_vec *out)
{
    const struct bh_node_v1_runtime_class *c = obj;

    (void)sub;
    (void)prev;
    for (size_t i = 0; c->scheduling && i < c->scheduling->node_selector.n; i++) {
        const char *text = bh_v_deprecated_label(c->scheduling->node_selector.p[i].key);

        if (text)
            bh_v_warn_at(env, out, BH_FP(BH_FP(NULL, "scheduling"), "nodeSelector"), "%s", text);
    }
}

const struct bh_rules bh_rules_cluster[] = {
    {.group = "scheduling.k8s.io",
     .kind = "PriorityClass",
     .prepare_create = priority_prepare_create,
     .validate_create = priority_create,
     .validate_update = priority_update},
    {.group = "node.k8s.io",
     .kind = "RuntimeClass",
     .validate_create = runtime_create,
     .validate_update = runtime_update,
     .warn = runtime_warn,
     .no_unconditional_update = true,
     .create_on_update = true},
    {.group = "scheduling.k8s.io",
     .kind = "Workload",
     .validate_create = bh_v_workload_create,
     .validate_update = bh_v_workload_update},
    {.group = "scheduling.k8s.io",
     .kind = "PodGroup",
     .prepare_create = bh_v_pod_group_prepare_create,
     .prepare_update = bh_v_pod_group_prepare_update,
     .validate_create = bh_v_pod_group_create,
     .validate_update = bh_v_pod_group_update,
     .status_owned = true},
    {.group = "policy",
     .kind = "PodDisruptionBudget",
     .prepare_create = bh_v_budget_prepare_create,
     .prepare_update = bh_v_budget_prepare_update,
     .validate_create = bh_v_budget_create,
     .validate_update = bh_v_budget_update,
     .no_unconditional_update = true},
};
const size_t bh_rules_cluster_n = BH_COUNT(bh_rules_cluster);
