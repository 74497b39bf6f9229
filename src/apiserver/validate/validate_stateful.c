/* StatefulSet: pods with names and storage of their own. */
#include "apiserver/validate/validate_workload.h"

#include "api/gen/apps_v1.h"
#include "api/label_selector.h"

#include <string.h>

static const struct bh_fpath *const meta_at =
    &(const struct bh_fpath){.name = BH_S_INIT("metadata"), .kind = BH_FP_NAME};
static const struct bh_fpath *const spec_at =
    &(const struct bh_fpath){.name = BH_S_INIT("spec"), .kind = BH_FP_NAME};
static const struct bh_fpath *const status_at =
    &(const struct bh_fpath){.name = BH_S_INIT("status"), .kind = BH_FP_NAME};

/* ---- defaults, preparation ---- */

static void default_update(const struct bh_rules_env *env,
                           struct bh_apps_v1_stateful_set_update_strategy *u)
{
    struct bh_apps_v1_rolling_update_stateful_set_strategy *r;

    if (u->type.n == 0) {
        u->type = BH_S("RollingUpdate");
        if (!u->rolling_update)
            u->rolling_update =
                bh_new(env->a, struct bh_apps_v1_rolling_update_stateful_set_strategy);
    }
    r = u->rolling_update;
    if (!bh_str_eqc(u->type, "RollingUpdate") || !r)
        return;
    r->has_partition = true; /* zero when it was absent */
    if (bh_rules_gate(env, "MaxUnavailableStatefulSet") && !r->has_max_unavailable) {
        r->has_max_unavailable = true;
        r->max_unavailable = (struct bh_intstr){.i = 1};
    }
}

void bh_v_stateful_default(const struct bh_rules_env *env, void *obj)
{
    struct bh_apps_v1_stateful_set_spec *s = &((struct bh_apps_v1_stateful_set *)obj)->spec;
    struct bh_apps_v1_stateful_set_persistent_volume_claim_retention_policy *keep;

    if (s->pod_management_policy.n == 0)
        s->pod_management_policy = BH_S("OrderedReady");
    default_update(env, &s->update_strategy);
    if (!s->persistent_volume_claim_retention_policy)
        s->persistent_volume_claim_retention_policy =
            bh_new(env->a, struct bh_apps_v1_stateful_set_persistent_volume_claim_retention_policy);
    keep = s->persistent_volume_claim_retention_policy;
    if (keep->when_deleted.n == 0)
        keep->when_deleted = BH_S("Retain");
    if (keep->when_scaled.n == 0)
        keep->when_scaled = BH_S("Retain");
    if (!s->has_replicas) {
        s->has_replicas = true;
        s->replicas = 1;
    }
    if (!s->has_revision_history_limit) {
        s->has_revision_history_limit = true;
        s->revision_history_limit = 10;
    }
    bh_v_pod_spec_default(env, &s->template.spec);
}

void bh_v_stateful_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_apps_v1_stateful_set *s = obj;

    s->status = (struct bh_apps_v1_stateful_set_status){0};
    s->metadata.generation = 1;
    bh_msg_drop_gated(&bh_apps_v1_stateful_set_type, s, NULL, bh_v_gate_on, (void *)(uintptr_t)env);
}

void bh_v_stateful_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                  const void *prev)
{
    struct bh_apps_v1_stateful_set *s = obj;
    const struct bh_apps_v1_stateful_set *old = prev;

    if (bh_str_eqc(sub, "status")) {
        s->spec = old->spec;
        return;
    }
    s->status = old->status;
    bh_msg_drop_gated(&bh_apps_v1_stateful_set_type, s, old, bh_v_gate_on, (void *)(uintptr_t)env);
    if (!bh_msg_equal(&bh_apps_v1_stateful_set_spec_type, &s->spec, &old->spec))
        s->metadata.generation = old->metadata.generation + 1;
}

/* ---- validation ---- */

/* What an update does not ask again of what was stored before. */
struct lenient {
    bool service_name, template, claims;
};

static void rolling_update(struct bh_field_errs *e, const struct bh_fpath *at,
                           const struct bh_apps_v1_rolling_update_stateful_set_strategy *r)
{
    const struct bh_fpath *max = BH_FP(at, "maxUnavailable");

    bh_v_nonnegative(e, BH_FP(at, "partition"), r->partition);
    if (!r->has_max_unavailable)
        return;
    bh_v_int_or_percent(e, max, r->max_unavailable);
    if (bh_v_int_or_percent_value(r->max_unavailable) == 0)
        bh_fe_invalid_text(e, max, bh_v_intstr_json(e->a, r->max_unavailable), "cannot be 0");
    bh_v_at_most_100_percent(e, max, r->max_unavailable);
}

static void policies(struct bh_field_errs *e, const struct bh_apps_v1_stateful_set_spec *s)
{
    const struct bh_fpath *update = BH_FP(spec_at, "updateStrategy"),
                          *rolling = BH_FP(update, "rollingUpdate"),
                          *keep = BH_FP(spec_at, "persistentVolumeClaimRetentionPolicy");
    const struct bh_apps_v1_stateful_set_update_strategy *u = &s->update_strategy;
    const struct bh_apps_v1_stateful_set_persistent_volume_claim_retention_policy *k =
        s->persistent_volume_claim_retention_policy;

    if (!BH_V_ONE_OF(s->pod_management_policy, "OrderedReady", "Parallel"))
        bh_fe_invalid(e, BH_FP(spec_at, "podManagementPolicy"), s->pod_management_policy,
                      "must be 'OrderedReady' or 'Parallel'");
    if (bh_str_eqc(u->type, "RollingUpdate")) {
        if (u->rolling_update)
            rolling_update(e, rolling, u->rolling_update);
    } else if (!bh_str_eqc(u->type, "OnDelete")) {
        bh_fe_invalid_text(e, update,
                           bh_v_go_json(e->a, &bh_apps_v1_stateful_set_update_strategy_type, u),
                           "must be 'RollingUpdate' or 'OnDelete'");
    } else if (u->rolling_update) {
        bh_fe_invalid_text(e, rolling,
                           bh_v_go_json(e->a, &bh_apps_v1_rolling_update_stateful_set_strategy_type,
                                        u->rolling_update),
                           "only allowed for updateStrategy 'RollingUpdate'");
    }
    if (k && !BH_V_ONE_OF(k->when_deleted, "Retain", "Delete"))
        BH_V_NOT_SUPPORTED(e, BH_FP(keep, "whenDeleted"), k->when_deleted, "Retain", "Delete");
    if (k && !BH_V_ONE_OF(k->when_scaled, "Retain", "Delete"))
        BH_V_NOT_SUPPORTED(e, BH_FP(keep, "whenScaled"), k->when_scaled, "Retain", "Delete");
}

/* The template as its pods will be: the set names them, and its claims are volumes. */
static struct bh_core_v1_pod_template_spec completed(struct bh_arena *a,
                                                     const struct bh_apps_v1_stateful_set_spec *s)
{
    struct bh_core_v1_pod_template_spec t = s->template;
    struct bh_core_v1_volume_vec v = {0};

    t.spec.subdomain = BH_S("");
    t.spec.hostname = BH_S("");
    if (s->volume_claim_templates.n == 0)
        return t;
    v.p = bh_new_n(a, struct bh_core_v1_volume, s->volume_claim_templates.n + t.spec.volumes.n);
    for (size_t i = 0; i < s->volume_claim_templates.n; i++) {
        struct bh_core_v1_persistent_volume_claim_volume_source *c =
            bh_new(a, struct bh_core_v1_persistent_volume_claim_volume_source);

        c->claim_name = s->volume_claim_templates.p[i].metadata.name;
        v.p[v.n].name = c->claim_name;
        v.p[v.n++].volume_source.persistent_volume_claim = c;
    }
    for (size_t i = 0; i < t.spec.volumes.n; i++) {
        bool replaced = false;

        for (size_t k = 0; k < s->volume_claim_templates.n && !replaced; k++)
            replaced =
                bh_str_eq(s->volume_claim_templates.p[k].metadata.name, t.spec.volumes.p[i].name);
        if (!replaced)
            v.p[v.n++] = t.spec.volumes.p[i];
    }
    t.spec.volumes = v;
    return t;
}

static void spec(const struct bh_rules_env *env, const struct bh_apps_v1_stateful_set_spec *s,
                 const struct lenient *l, struct bh_field_errs *e)
{
    const struct bh_fpath *template = BH_FP(spec_at, "template"),
                          *claims = BH_FP(spec_at, "volumeClaimTemplates");
    struct bh_label_selector sel;

    policies(e, s);
    for (size_t i = 0; !l->claims && i < s->volume_claim_templates.n; i++)
        bh_v_claim_spec(e, BH_FP(BH_FPI(claims, i), "spec"), &s->volume_claim_templates.p[i].spec,
                        0);
    bh_v_nonnegative(e, BH_FP(spec_at, "replicas"), s->replicas);
    bh_v_nonnegative(e, BH_FP(spec_at, "minReadySeconds"), s->min_ready_seconds);
    if (s->ordinals)
        bh_v_nonnegative(e, BH_FP(BH_FP(spec_at, "ordinals"), "start"), s->ordinals->start);
    if (!l->service_name && s->service_name.n)
        bh_v_check(e, BH_FP(spec_at, "serviceName"), bh_check_dns1123_label, s->service_name);
    if (bh_v_required_selector(e, BH_FP(spec_at, "selector"), s->selector, "statefulset", "",
                               &sel)) {
        const struct bh_core_v1_pod_template_spec t = completed(e->a, s);

        bh_v_template_selected(e, template, &t, &sel);
        if (!l->template)
            bh_v_template(e, template, &t, env);
        bh_v_labels(e, BH_FP(template, "labels"), &t.metadata.labels);
        bh_v_annotations(e, BH_FP(template, "annotations"), &t.metadata.annotations);
        bh_v_pod_annotations(e, BH_FP(template, "annotations"), &t.metadata, &t.spec,
                             &(const struct bh_pod_opts){.env = env});
    }
    bh_v_template_runs_on(e, template, &s->template, "StatefulSet");
}

void bh_v_stateful_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_apps_v1_stateful_set *s = obj;
    const struct lenient all = {0};

    bh_v_meta(e, meta_at, &s->metadata, true, bh_check_dns1123_label, BH_VM_KUBE);
    spec(env, &s->spec, &all, e);
}

static void status(struct bh_field_errs *e, const struct bh_apps_v1_stateful_set_status *s)
{
    bh_v_nonnegative(e, BH_FP(status_at, "replicas"), s->replicas);
    bh_v_nonnegative(e, BH_FP(status_at, "readyReplicas"), s->ready_replicas);
    bh_v_nonnegative(e, BH_FP(status_at, "currentReplicas"), s->current_replicas);
    bh_v_nonnegative(e, BH_FP(status_at, "updatedReplicas"), s->updated_replicas);
    bh_v_nonnegative(e, BH_FP(status_at, "availableReplicas"), s->available_replicas);
    bh_v_nonnegative(e, BH_FP(status_at, "observedGeneration"), s->observed_generation);
    if (s->has_collision_count)
        bh_v_nonnegative(e, BH_FP(status_at, "collisionCount"), s->collision_count);
    bh_v_at_most(e, BH_FP(status_at, "readyReplicas"), s->ready_replicas, s->replicas,
                 "status.replicas");
    bh_v_at_most(e, BH_FP(status_at, "currentReplicas"), s->current_replicas, s->replicas,
                 "status.replicas");
    bh_v_at_most(e, BH_FP(status_at, "updatedReplicas"), s->updated_replicas, s->replicas,
                 "status.replicas");
    bh_v_at_most(e, BH_FP(status_at, "availableReplicas"), s->available_replicas, s->replicas,
                 "status.replicas");
    bh_v_at_most(e, BH_FP(status_at, "availableReplicas"), s->available_replicas, s->ready_replicas,
                 "status.readyReplicas");
}

/* Everything but these fields stays as it was. */
static bool only_these(const struct bh_apps_v1_stateful_set_spec *now,
                       const struct bh_apps_v1_stateful_set_spec *old)
{
    struct bh_apps_v1_stateful_set_spec s = *now;

    s.replicas = old->replicas;
    s.has_replicas = old->has_replicas;
    s.template = old->template;
    s.update_strategy = old->update_strategy;
    s.min_ready_seconds = old->min_ready_seconds;
    s.ordinals = old->ordinals;
    s.revision_history_limit = old->revision_history_limit;
    s.has_revision_history_limit = old->has_revision_history_limit;
    s.persistent_volume_claim_retention_policy = old->persistent_volume_claim_retention_policy;
    return bh_msg_equal(&bh_apps_v1_stateful_set_spec_type, &s, old);
}

void bh_v_stateful_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                          const void *prev, struct bh_field_errs *e)
{
    const struct bh_apps_v1_stateful_set *s = obj, *old = prev;
    struct lenient l = {.service_name = true, .claims = true};
    struct bh_field_errs was = {.a = e->a};

    if (bh_str_eqc(sub, "status")) {
        status(e, &s->status);
        bh_v_meta_update(e, meta_at, &s->metadata, &old->metadata, BH_VM_KUBE);
        bh_v_collisions(e, s->status.has_collision_count, s->status.collision_count,
                        old->status.has_collision_count, old->status.collision_count);
        return;
    }
    bh_v_meta_update(e, meta_at, &s->metadata, &old->metadata, BH_VM_KUBE);
    spec(env, &old->spec, &l, &was);
    l.template = was.n > 0;
    spec(env, &s->spec, &l, e);
    if (!only_these(&s->spec, &old->spec))
        bh_fe_forbidden(e, spec_at,
                        "updates to statefulset spec for fields other than 'replicas', "
                        "'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
                        "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
                        "forbidden");
}

void bh_v_stateful_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                        const void *prev, struct bh_str_vec *out)
{
    const struct bh_apps_v1_stateful_set *s = obj, *old = prev;

    if (bh_str_eqc(sub, "status"))
        return;
    if (!old || s->metadata.generation != old->metadata.generation)
        bh_v_template_warn(env, BH_FP(spec_at, "template"), &s->spec.template, out);
    if (s->spec.has_revision_history_limit && s->spec.revision_history_limit < 0)
        bh_v_warn(env, out,
                  "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
                  "a value >= 0 is recommended");
}
