/* scheduling.k8s.io/v1alpha2: workloads and pod groups.
 *
 * Upstream generates these checks from its types: a part that an update leaves as it was is not
 * looked at again, and of an immutable part nothing but that is told.
 */
#include "apiserver/validate/validate_int.h"

#include "api/gen/scheduling_v1alpha2.h"

#define TEMPLATES_MAX  8u
#define CLAIMS_MAX     4u
#define TOPOLOGIES_MAX 1u
#define PRIORITY_MAX   1000000000

#define TOPOLOGY_GATE   "TopologyAwareWorkloadScheduling"
#define PREEMPTION_GATE "WorkloadAwarePreemption"
#define CLAIMS_GATE     "DRAWorkloadResourceClaims"

#define T(name) bh_scheduling_v1alpha2_##name##_type

static void fixed(struct bh_field_errs *e, const struct bh_fpath *at)
{
    bh_fe_invalid_text(e, at, BH_S("null"), BH_V_IMMUTABLE);
}

/* Presence counts: two pointers are equal when both are NULL or what they point to is. */
static bool same(const struct bh_type *t, const void *x, const void *y)
{
    return x && y ? bh_msg_equal(t, x, y) : x == y;
}

static void required_name(struct bh_field_errs *e, const struct bh_fpath *at, bh_name_check check,
                          struct bh_str s)
{
    if (s.n == 0)
        bh_fe_required(e, at, NULL);
    else
        bh_v_check_declared(e, at, check, s);
}

/* ---- the parts ---- */

static void policy(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_scheduling_v1alpha2_pod_group_scheduling_policy *p)
{
    const struct bh_fpath *count = BH_FP(BH_FP(at, "gang"), "minCount");

    if (p->basic && p->gang)
        bh_fe_invalid(e, at, BH_S("{basic, gang}"), "must specify exactly one of: `basic`, `gang`");
    else if (!p->basic && !p->gang)
        bh_fe_invalid(e, at, BH_S(""), "must specify one of: `basic`, `gang`");
    if (!p->gang)
        return;
    if (p->gang->min_count == 0)
        bh_fe_required(e, count, NULL);
    else if (p->gang->min_count < 1)
        bh_fe_invalid_i64(e, count, p->gang->min_count, "must be greater than or equal to 1");
}

static void constraints(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_scheduling_v1alpha2_pod_group_scheduling_constraints *c)
{
    const struct bh_fpath *topology = BH_FP(at, "topology");

    if (c->topology.n > TOPOLOGIES_MAX) {
        bh_fe_too_many(e, topology, c->topology.n, TOPOLOGIES_MAX);
        return;
    }
    for (size_t i = 0; i < c->topology.n; i++)
        required_name(e, BH_FP(BH_FPI(topology, i), "key"), bh_check_qualified_name,
                      c->topology.p[i].key);
}

static void claim(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_scheduling_v1alpha2_pod_group_resource_claim *c)
{
    static const char one[] = "one of: `resourceClaimName`, `resourceClaimTemplateName`";

    if (c->has_resource_claim_name && c->has_resource_claim_template_name)
        bh_fe_invalid(e, at, BH_S("{resourceClaimName, resourceClaimTemplateName}"),
                      "must specify exactly %s", one);
    else if (!c->has_resource_claim_name && !c->has_resource_claim_template_name)
        bh_fe_invalid(e, at, BH_S(""), "must specify %s", one);
    required_name(e, BH_FP(at, "name"), bh_check_dns1123_label, c->name);
    if (c->has_resource_claim_name)
        bh_v_check_declared(e, BH_FP(at, "resourceClaimName"), bh_check_dns1123_subdomain,
                            c->resource_claim_name);
    if (c->has_resource_claim_template_name)
        bh_v_check_declared(e, BH_FP(at, "resourceClaimTemplateName"), bh_check_dns1123_subdomain,
                            c->resource_claim_template_name);
}

static void claims(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_scheduling_v1alpha2_pod_group_resource_claim_vec *v)
{
    if (v->n > CLAIMS_MAX) {
        bh_fe_too_many(e, at, v->n, CLAIMS_MAX);
        return;
    }
    for (size_t i = 1; i < v->n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].name, v->p[i].name)) {
                bh_fe_duplicate_text(e, BH_FPI(at, i),
                                     bh_v_json(e->a, &T(pod_group_resource_claim), &v->p[i]));
                break;
            }
    for (size_t i = 0; i < v->n; i++)
        claim(e, BH_FPI(at, i), &v->p[i]);
}

static void disruption_mode(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str mode)
{
    if (!BH_V_ONE_OF(mode, "Pod", "PodGroup"))
        BH_V_NOT_SUPPORTED(e, at, mode, "Pod", "PodGroup");
}

static void priority(struct bh_field_errs *e, const struct bh_fpath *at, int32_t v)
{
    if (v > PRIORITY_MAX)
        bh_fe_invalid_i64(e, at, v, "must be less than or equal to %d", PRIORITY_MAX);
}

/* What a gate guards may be there only because it was there before. */
static bool gated(const struct bh_rules_env *env, const char *gate, struct bh_field_errs *e,
                  const struct bh_fpath *at, bool set)
{
    if (bh_rules_gate(env, gate))
        return set;
    if (set)
        bh_fe_forbidden(e, at, NULL);
    return false;
}

/* ---- Workload ---- */

static void template(const struct bh_rules_env *env, struct bh_field_errs *e,
                     const struct bh_fpath *at,
                     const struct bh_scheduling_v1alpha2_pod_group_template *t)
{
    required_name(e, BH_FP(at, "name"), bh_check_dns1123_label, t->name);
    policy(e, BH_FP(at, "schedulingPolicy"), &t->scheduling_policy);
    if (gated(env, TOPOLOGY_GATE, e, BH_FP(at, "schedulingConstraints"),
              t->scheduling_constraints != NULL))
        constraints(e, BH_FP(at, "schedulingConstraints"), t->scheduling_constraints);
    claims(e, BH_FP(at, "resourceClaims"), &t->resource_claims);
    if (gated(env, PREEMPTION_GATE, e, BH_FP(at, "disruptionMode"), t->has_disruption_mode))
        disruption_mode(e, BH_FP(at, "disruptionMode"), t->disruption_mode);
    if (gated(env, PREEMPTION_GATE, e, BH_FP(at, "priorityClassName"),
              t->priority_class_name.n > 0))
        bh_v_check_declared(e, BH_FP(at, "priorityClassName"), bh_check_dns1123_subdomain,
                            t->priority_class_name);
    if (gated(env, PREEMPTION_GATE, e, BH_FP(at, "priority"), t->has_priority))
        priority(e, BH_FP(at, "priority"), t->priority);
}

static void templates(const struct bh_rules_env *env, struct bh_field_errs *e,
                      const struct bh_fpath *at,
                      const struct bh_scheduling_v1alpha2_pod_group_template_vec *v)
{
    if (v->n > TEMPLATES_MAX) {
        bh_fe_too_many(e, at, v->n, TEMPLATES_MAX);
        return;
    }
    if (v->n == 0) {
        bh_fe_required(e, at, NULL);
        return;
    }
    for (size_t i = 1; i < v->n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].name, v->p[i].name)) {
                bh_fe_duplicate_text(e, BH_FPI(at, i),
                                     bh_v_json(e->a, &T(pod_group_template), &v->p[i]));
                break;
            }
    for (size_t i = 0; i < v->n; i++)
        template(env, e, BH_FPI(at, i), &v->p[i]);
}

static void controller(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_scheduling_v1alpha2_typed_local_object_reference *r)
{
    if (r->api_group.n)
        bh_v_check_declared(e, BH_FP(at, "apiGroup"), bh_check_dns1123_subdomain, r->api_group);
    required_name(e, BH_FP(at, "kind"), bh_v_any_name, r->kind);
    required_name(e, BH_FP(at, "name"), bh_v_any_name, r->name);
}

void bh_v_workload_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_scheduling_v1alpha2_workload *w = obj;
    const struct bh_fpath *spec = BH_FP(NULL, "spec");

    bh_v_meta(e, BH_FP(NULL, "metadata"), &w->metadata, true, bh_check_dns1123_subdomain,
              BH_VM_KUBE);
    if (w->spec.controller_ref)
        controller(e, BH_FP(spec, "controllerRef"), w->spec.controller_ref);
    templates(env, e, BH_FP(spec, "podGroupTemplates"), &w->spec.pod_group_templates);
}

void bh_v_workload_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                          const void *prev, struct bh_field_errs *e)
{
    const struct bh_scheduling_v1alpha2_workload *w = obj, *old = prev;
    const struct bh_fpath *spec = BH_FP(NULL, "spec"), *list = BH_FP(spec, "podGroupTemplates");
    const struct bh_scheduling_v1alpha2_workload_spec only_new = {.pod_group_templates =
                                                                      w->spec.pod_group_templates},
                                                      only_old = {
                                                          .pod_group_templates =
                                                              old->spec.pod_group_templates};

    (void)env;
    (void)sub;
    bh_v_meta_update(e, BH_FP(NULL, "metadata"), &w->metadata, &old->metadata, BH_VM_KUBE);
    if (!same(&T(typed_local_object_reference), w->spec.controller_ref, old->spec.controller_ref))
        fixed(e, BH_FP(spec, "controllerRef"));
    if (bh_msg_equal(&T(workload_spec), &only_new, &only_old))
        return;
    fixed(e, list);
    if (w->spec.pod_group_templates.n > TEMPLATES_MAX)
        bh_fe_too_many(e, list, w->spec.pod_group_templates.n, TEMPLATES_MAX);
    if (w->spec.pod_group_templates.n == 0)
        bh_fe_required(e, list, NULL);
}

/* ---- PodGroup ---- */

static void template_ref(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_scheduling_v1alpha2_pod_group_template_reference *r)
{
    const struct bh_fpath *w = BH_FP(at, "workload");

    if (!r->workload) {
        bh_fe_invalid(e, at, BH_S(""), "must specify one of: `workload`");
        return;
    }
    required_name(e, BH_FP(w, "workloadName"), bh_check_dns1123_subdomain,
                  r->workload->workload_name);
    required_name(e, BH_FP(w, "podGroupTemplateName"), bh_check_dns1123_label,
                  r->workload->pod_group_template_name);
}

void bh_v_pod_group_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_scheduling_v1alpha2_pod_group *g = obj;
    const struct bh_scheduling_v1alpha2_pod_group_spec *s = &g->spec;
    const struct bh_fpath *spec = BH_FP(NULL, "spec");

    bh_v_meta(e, BH_FP(NULL, "metadata"), &g->metadata, true, bh_check_dns1123_subdomain,
              BH_VM_KUBE);
    if (s->pod_group_template_ref)
        template_ref(e, BH_FP(spec, "podGroupTemplateRef"), s->pod_group_template_ref);
    policy(e, BH_FP(spec, "schedulingPolicy"), &s->scheduling_policy);
    if (bh_rules_gate(env, TOPOLOGY_GATE) && s->scheduling_constraints)
        constraints(e, BH_FP(spec, "schedulingConstraints"), s->scheduling_constraints);
    claims(e, BH_FP(spec, "resourceClaims"), &s->resource_claims);
    if (!bh_rules_gate(env, PREEMPTION_GATE))
        return; /* what the gate guards was dropped; the mode alone comes back as a default */
    if (!s->has_disruption_mode)
        bh_fe_required(e, BH_FP(spec, "disruptionMode"), NULL);
    else
        disruption_mode(e, BH_FP(spec, "disruptionMode"), s->disruption_mode);
    if (s->priority_class_name.n)
        bh_v_check_declared(e, BH_FP(spec, "priorityClassName"), bh_check_dns1123_subdomain,
                            s->priority_class_name);
    if (s->has_priority)
        priority(e, BH_FP(spec, "priority"), s->priority);
}

/* A part that a gate guards has changed. */
static void changed_gated(const struct bh_rules_env *env, const char *gate, struct bh_field_errs *e,
                          const struct bh_fpath *at, bool set)
{
    if (bh_rules_gate(env, gate))
        fixed(e, at);
    else if (set)
        bh_fe_forbidden(e, at, NULL);
}

static void spec_update(const struct bh_rules_env *env, struct bh_field_errs *e,
                        const struct bh_scheduling_v1alpha2_pod_group_spec *s,
                        const struct bh_scheduling_v1alpha2_pod_group_spec *old)
{
    const struct bh_fpath *spec = BH_FP(NULL, "spec"), *list = BH_FP(spec, "resourceClaims");
    const struct bh_scheduling_v1alpha2_pod_group_spec now_claims = {.resource_claims =
                                                                         s->resource_claims},
                                                       old_claims = {.resource_claims =
                                                                         old->resource_claims};

    if (!same(&T(pod_group_template_reference), s->pod_group_template_ref,
              old->pod_group_template_ref))
        fixed(e, BH_FP(spec, "podGroupTemplateRef"));
    if (!bh_msg_equal(&T(pod_group_scheduling_policy), &s->scheduling_policy,
                      &old->scheduling_policy))
        fixed(e, BH_FP(spec, "schedulingPolicy"));
    if (!same(&T(pod_group_scheduling_constraints), s->scheduling_constraints,
              old->scheduling_constraints))
        changed_gated(env, TOPOLOGY_GATE, e, BH_FP(spec, "schedulingConstraints"),
                      s->scheduling_constraints != NULL);
    if (!bh_msg_equal(&T(pod_group_spec), &now_claims, &old_claims)) {
        fixed(e, list);
        if (s->resource_claims.n > CLAIMS_MAX)
            bh_fe_too_many(e, list, s->resource_claims.n, CLAIMS_MAX);
    }
    if (s->has_disruption_mode != old->has_disruption_mode ||
        !bh_str_eq(s->disruption_mode, old->disruption_mode))
        changed_gated(env, PREEMPTION_GATE, e, BH_FP(spec, "disruptionMode"),
                      s->has_disruption_mode);
    if (!bh_str_eq(s->priority_class_name, old->priority_class_name))
        changed_gated(env, PREEMPTION_GATE, e, BH_FP(spec, "priorityClassName"),
                      s->priority_class_name.n > 0);
    if (s->has_priority != old->has_priority || s->priority != old->priority)
        changed_gated(env, PREEMPTION_GATE, e, BH_FP(spec, "priority"), s->has_priority);
}

static bool has_claim(const struct bh_scheduling_v1alpha2_pod_group_resource_claim_vec *v,
                      struct bh_str name)
{
    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i].name, name))
            return true;
    return false;
}

static const struct bh_scheduling_v1alpha2_pod_group_resource_claim_status *
find_status(const struct bh_scheduling_v1alpha2_pod_group_resource_claim_status_vec *v,
            struct bh_str name)
{
    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i].name, name))
            return &v->p[i];
    return NULL;
}

static void claim_statuses(struct bh_field_errs *e, const struct bh_fpath *at,
                           const struct bh_scheduling_v1alpha2_pod_group *g,
                           const struct bh_scheduling_v1alpha2_pod_group *old)
{
    const struct bh_scheduling_v1alpha2_pod_group_resource_claim_status_vec
        *v = &g->status.resource_claim_statuses,
        *was = &old->status.resource_claim_statuses;
    const struct bh_type *t = &T(pod_group_resource_claim_status);
    const struct bh_scheduling_v1alpha2_pod_group_status now_only = {.resource_claim_statuses = *v},
                                                         old_only = {.resource_claim_statuses =
                                                                         *was};

    for (size_t i = 0; i < v->n; i++)
        if (!has_claim(&g->spec.resource_claims, v->p[i].name))
            bh_fe_invalid(e, BH_FP(BH_FPI(at, i), "name"), v->p[i].name,
                          "must match the name of an entry in `spec.resourceClaims`");
    if (bh_msg_equal(&T(pod_group_status), &now_only, &old_only))
        return;
    if (v->n > CLAIMS_MAX) {
        bh_fe_too_many(e, at, v->n, CLAIMS_MAX);
        return;
    }
    for (size_t i = 1; i < v->n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].name, v->p[i].name)) {
                bh_fe_duplicate_text(e, BH_FPI(at, i), bh_v_json(e->a, t, &v->p[i]));
                break;
            }
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_scheduling_v1alpha2_pod_group_resource_claim_status *o =
            find_status(was, v->p[i].name);

        if (v->p[i].has_resource_claim_name && !(o && bh_msg_equal(t, &v->p[i], o)))
            bh_v_check_declared(e, BH_FP(BH_FPI(at, i), "resourceClaimName"),
                                bh_check_dns1123_subdomain, v->p[i].resource_claim_name);
    }
}

void bh_v_pod_group_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                           const void *prev, struct bh_field_errs *e)
{
    const struct bh_scheduling_v1alpha2_pod_group *g = obj, *old = prev;
    const struct bh_fpath *status = BH_FP(NULL, "status");

    bh_v_meta_update(e, BH_FP(NULL, "metadata"), &g->metadata, &old->metadata, BH_VM_KUBE);
    if (!bh_str_eqc(sub, "status")) {
        spec_update(env, e, &g->spec, &old->spec);
        return;
    }
    bh_v_conditions(e, BH_FP(status, "conditions"), &g->status.conditions);
    claim_statuses(e, BH_FP(status, "resourceClaimStatuses"), g, old);
}

static bool gate_on(void *arg, struct bh_str name)
{
    const struct bh_rules_env *env = arg;

    return env->gate ? env->gate(env->arg, name) : bh_gate_default(name);
}

void bh_v_pod_group_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_scheduling_v1alpha2_pod_group *g = obj;

    g->status = (struct bh_scheduling_v1alpha2_pod_group_status){0};
    bh_msg_drop_gated(&T(pod_group), g, NULL, gate_on, (void *)(uintptr_t)env);
    /* Upstream drops the mode, too, and its next reader fills the default in again. */
    bh_msg_default(&T(pod_group), g, env->a);
}

void bh_v_pod_group_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                   const void *prev)
{
    struct bh_scheduling_v1alpha2_pod_group *g = obj;
    const struct bh_scheduling_v1alpha2_pod_group *old = prev;

    if (!bh_str_eqc(sub, "status")) {
        g->status = old->status;
        bh_msg_drop_gated(&T(pod_group), g, old, gate_on, (void *)(uintptr_t)env);
        return;
    }
    g->spec = old->spec;
    bh_v_reset_meta_for_status(&g->metadata, &old->metadata);
    if (!bh_rules_gate(env, CLAIMS_GATE) && old->spec.resource_claims.n == 0)
        g->status.resource_claim_statuses =
            (struct bh_scheduling_v1alpha2_pod_group_resource_claim_status_vec){0};
}
