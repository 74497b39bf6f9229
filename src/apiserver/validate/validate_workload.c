/* What keeps pods of a template running: ReplicaSet, ReplicationController, Deployment. And what
 * all templates of pods have in common. */
#include "apiserver/validate/validate_workload.h"

#include "api/gen/apps_v1.h"
#include "api/gen/policy_v1.h"
#include "api/label_selector.h"
#include "base/buf.h"
#include "data/json.h"

#include <string.h>

static const struct bh_fpath *const meta_at =
    &(const struct bh_fpath){.name = BH_S_INIT("metadata"), .kind = BH_FP_NAME};
static const struct bh_fpath spec_path = {.name = BH_S_INIT("spec"), .kind = BH_FP_NAME};
static const struct bh_fpath *const spec_at = &spec_path;
static const struct bh_fpath *const template_at =
    &(const struct bh_fpath){.up = &spec_path, .name = BH_S_INIT("template"), .kind = BH_FP_NAME};
static const struct bh_fpath *const status_at =
    &(const struct bh_fpath){.name = BH_S_INIT("status"), .kind = BH_FP_NAME};

/* ---- templates ---- */

struct bh_str bh_v_map_json(struct bh_arena *a, const struct bh_str_map *m)
{
    BH_AUTO_BUF b = {0};

    if (!m->p)
        return BH_S("null");
    bh_buf_addc(&b, '{');
    for (size_t i = 0; i < m->n; i++) {
        if (i)
            bh_buf_addc(&b, ',');
        bh_json_write_str(&b, m->p[i].key);
        bh_buf_addc(&b, ':');
        bh_json_write_str(&b, m->p[i].value);
    }
    bh_buf_addc(&b, '}');
    return bh_str_dup(a, bh_buf_str(&b));
}

void bh_v_template(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_pod_template_spec *t, const struct bh_rules_env *env)
{
    const struct bh_pod_opts o = {.env = env};
    const struct bh_fpath *spec = BH_FP(at, "spec");

    bh_v_labels(e, BH_FP(at, "labels"), &t->metadata.labels);
    bh_v_annotations(e, BH_FP(at, "annotations"), &t->metadata.annotations);
    bh_v_pod_annotations(e, BH_FP(at, "annotations"), &t->metadata, &t->spec, &o);
    bh_v_pod_spec(e, spec, &t->spec, NULL, &o);
    bh_v_app_armor_matches(e, spec, &t->spec, &t->metadata);
    if (t->spec.ephemeral_containers.n)
        bh_fe_forbidden(e, BH_FP(spec, "ephemeralContainers"),
                        "ephemeral containers not allowed in pod template");
}

void bh_v_template_selected(struct bh_field_errs *e, const struct bh_fpath *at,
                            const struct bh_core_v1_pod_template_spec *t,
                            const struct bh_label_selector *s)
{
    if (!bh_label_selector_empty(s) && !bh_label_selector_match(s, &t->metadata.labels))
        bh_fe_invalid_text(e, BH_FP(BH_FP(at, "metadata"), "labels"),
                           bh_v_map_json(e->a, &t->metadata.labels),
                           "`selector` does not match template `labels`");
}

void bh_v_template_runs_on(struct bh_field_errs *e, const struct bh_fpath *at,
                           const struct bh_core_v1_pod_template_spec *t, const char *kind)
{
    const struct bh_fpath *spec = BH_FP(at, "spec");

    if (!bh_str_eqc(t->spec.restart_policy, "Always"))
        BH_V_NOT_SUPPORTED(e, BH_FP(spec, "restartPolicy"), t->spec.restart_policy, "Always");
    if (t->spec.has_active_deadline_seconds)
        bh_fe_forbidden(e, BH_FP(spec, "activeDeadlineSeconds"),
                        "activeDeadlineSeconds in %s is not Supported", kind);
}

bool bh_v_required_selector(struct bh_field_errs *e, const struct bh_fpath *at,
                            const struct bh_meta_v1_label_selector *s, const char *kind,
                            const char *bad, struct bh_label_selector *ret)
{
    if (!s) {
        bh_fe_required(e, at, NULL);
    } else {
        bh_v_label_selector(e, at, s, false);
        if (s->match_labels.n + s->match_expressions.n == 0)
            bh_fe_invalid_text(e, at, bh_v_json(e->a, &bh_meta_v1_label_selector_type, s),
                               "empty selector is invalid for %s", kind);
    }
    if (bh_label_selector_of(e->a, s, ret) && !(s && bh_v_bad_label_selector(e->a, s)))
        return true;
    bh_fe_invalid_text(e, at, bh_v_json(e->a, &bh_meta_v1_label_selector_type, s), "%s", bad);
    return false;
}

void bh_v_fixed_selector(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_meta_v1_label_selector *now,
                         const struct bh_meta_v1_label_selector *old)
{
    const struct bh_type *t = &bh_meta_v1_label_selector_type;

    if (now && old ? !bh_msg_equal(t, now, old) : now != old)
        bh_fe_invalid_text(e, at, now ? bh_v_json(e->a, t, now) : BH_S("null"), BH_V_IMMUTABLE);
}

void bh_v_at_most(struct bh_field_errs *e, const struct bh_fpath *at, int32_t v, int32_t max,
                  const char *of)
{
    if (v > max)
        bh_fe_invalid_i64(e, at, v, "cannot be greater than %s", of);
}

bool bh_v_gate_on(void *arg, struct bh_str name)
{
    const struct bh_rules_env *env = arg;

    return env->gate ? env->gate(env->arg, name) : bh_gate_default(name);
}

void bh_v_label_name_warning(const struct bh_rules_env *env, struct bh_str name,
                             struct bh_str_vec *out)
{
    struct bh_str_vec faults = bh_names_all(env->a, bh_check_dns1123_label, name);
    struct bh_str list;

    if (faults.n == 0)
        return;
    list = faults.p[0];
    for (size_t i = 1; i < faults.n; i++)
        list = bh_str_fmt(env->a, "%.*s %.*s", BH_SF(list), BH_SF(faults.p[i]));
    bh_v_warn(env, out,
              "metadata.name: this is used in Pod names and hostnames, which can result in "
              "surprising behavior; a DNS label is recommended: [%.*s]",
              BH_SF(list));
}

/* ---- ReplicaSet ---- */

static void default_replica_set(const struct bh_rules_env *env, void *obj)
{
    struct bh_apps_v1_replica_set *r = obj;

    if (!r->spec.has_replicas) {
        r->spec.has_replicas = true;
        r->spec.replicas = 1;
    }
    bh_v_pod_spec_default(env, &r->spec.template.spec);
}

static void replica_set_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_apps_v1_replica_set *r = obj;

    r->status = (struct bh_apps_v1_replica_set_status){0};
    r->metadata.generation = 1;
    bh_msg_drop_gated(&bh_apps_v1_replica_set_type, r, NULL, bh_v_gate_on, (void *)(uintptr_t)env);
}

static void replica_set_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                       const void *prev)
{
    struct bh_apps_v1_replica_set *r = obj;
    const struct bh_apps_v1_replica_set *old = prev;

    if (bh_str_eqc(sub, "status")) {
        r->spec = old->spec;
        return;
    }
    r->status = old->status;
    bh_msg_drop_gated(&bh_apps_v1_replica_set_type, r, old, bh_v_gate_on, (void *)(uintptr_t)env);
    if (!bh_msg_equal(&bh_apps_v1_replica_set_spec_type, &r->spec, &old->spec))
        r->metadata.generation = old->metadata.generation + 1;
}

static void replica_set(const struct bh_rules_env *env, const struct bh_apps_v1_replica_set_spec *s,
                        struct bh_field_errs *e)
{
    struct bh_label_selector sel;

    bh_v_nonnegative(e, BH_FP(spec_at, "replicas"), s->replicas);
    bh_v_nonnegative(e, BH_FP(spec_at, "minReadySeconds"), s->min_ready_seconds);
    if (!bh_v_required_selector(e, BH_FP(spec_at, "selector"), s->selector, "deployment",
                                "invalid label selector", &sel))
        return;
    bh_v_template_selected(e, template_at, &s->template, &sel);
    bh_v_template(e, template_at, &s->template, env);
    bh_v_template_runs_on(e, template_at, &s->template, "ReplicaSet");
}

static void replica_set_create(const struct bh_rules_env *env, const void *obj,
                               struct bh_field_errs *e)
{
    const struct bh_apps_v1_replica_set *r = obj;

    bh_v_meta(e, meta_at, &r->metadata, true, bh_check_dns1123_subdomain, BH_VM_KUBE);
    replica_set(env, &r->spec, e);
}

/* The counts that ReplicaSets and ReplicationControllers report. */
struct counts {
    int32_t replicas, labeled, ready, available, terminating;
    int64_t observed;
    bool has_terminating;
};

static void counts(struct bh_field_errs *e, const struct counts *c)
{
    bh_v_nonnegative(e, BH_FP(status_at, "replicas"), c->replicas);
    bh_v_nonnegative(e, BH_FP(status_at, "fullyLabeledReplicas"), c->labeled);
    bh_v_nonnegative(e, BH_FP(status_at, "readyReplicas"), c->ready);
    bh_v_nonnegative(e, BH_FP(status_at, "availableReplicas"), c->available);
    bh_v_nonnegative(e, BH_FP(status_at, "observedGeneration"), c->observed);
    if (c->has_terminating)
        bh_v_nonnegative(e, BH_FP(status_at, "terminatingReplicas"), c->terminating);
    bh_v_at_most(e, BH_FP(status_at, "fullyLabeledReplicas"), c->labeled, c->replicas,
                 "status.replicas");
    bh_v_at_most(e, BH_FP(status_at, "readyReplicas"), c->ready, c->replicas, "status.replicas");
    bh_v_at_most(e, BH_FP(status_at, "availableReplicas"), c->available, c->replicas,
                 "status.replicas");
    bh_v_at_most(e, BH_FP(status_at, "availableReplicas"), c->available, c->ready, "readyReplicas");
}

static void replica_set_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                               const void *prev, struct bh_field_errs *e)
{
    const struct bh_apps_v1_replica_set *r = obj, *old = prev;
    const struct bh_apps_v1_replica_set_status *s = &r->status;

    bh_v_meta_update(e, meta_at, &r->metadata, &old->metadata, BH_VM_KUBE);
    if (bh_str_eqc(sub, "status")) {
        counts(e, &(struct counts){s->replicas, s->fully_labeled_replicas, s->ready_replicas,
                                   s->available_replicas, s->terminating_replicas,
                                   s->observed_generation, s->has_terminating_replicas});
        return;
    }
    replica_set(env, &r->spec, e);
    bh_v_fixed_selector(e, BH_FP(spec_at, "selector"), r->spec.selector, old->spec.selector);
}

static void replica_set_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                             const void *prev, struct bh_str_vec *out)
{
    const struct bh_apps_v1_replica_set *r = obj, *old = prev;

    if (bh_str_eqc(sub, "status") || (old && r->metadata.generation == old->metadata.generation))
        return;
    if (!old)
        bh_v_label_name_warning(env, r->metadata.name, out);
    bh_v_template_warn(env, template_at, &r->spec.template, out);
}

/* ---- ReplicationController ---- */

static void default_replication_controller(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_replication_controller *r = obj;

    if (!r->spec.template)
        return;
    if (r->spec.template->metadata.labels.p) {
        if (r->spec.selector.n == 0)
            r->spec.selector = r->spec.template->metadata.labels;
        if (r->metadata.labels.n == 0)
            r->metadata.labels = r->spec.template->metadata.labels;
    }
    bh_v_pod_spec_default(env, &r->spec.template->spec);
}

static void replication_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_replication_controller *r = obj;

    r->status = (struct bh_core_v1_replication_controller_status){0};
    r->metadata.generation = 1;
    bh_msg_drop_gated(&bh_core_v1_replication_controller_type, r, NULL, bh_v_gate_on,
                      (void *)(uintptr_t)env);
}

static void replication_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                       const void *prev)
{
    struct bh_core_v1_replication_controller *r = obj;
    const struct bh_core_v1_replication_controller *old = prev;

    if (bh_str_eqc(sub, "status")) {
        r->spec = old->spec;
        return;
    }
    r->status = old->status;
    bh_msg_drop_gated(&bh_core_v1_replication_controller_type, r, old, bh_v_gate_on,
                      (void *)(uintptr_t)env);
    if (!bh_msg_equal(&bh_core_v1_replication_controller_spec_type, &r->spec, &old->spec))
        r->metadata.generation = old->metadata.generation + 1;
}

static void replication(const struct bh_rules_env *env,
                        const struct bh_core_v1_replication_controller_spec *s,
                        struct bh_field_errs *e)
{
    struct bh_label_selector sel = bh_label_selector_from_map(e->a, &s->selector);

    bh_v_nonnegative(e, BH_FP(spec_at, "minReadySeconds"), s->min_ready_seconds);
    if (s->selector.n == 0)
        bh_fe_required(e, BH_FP(spec_at, "selector"), NULL);
    if (!s->has_replicas)
        bh_fe_required(e, BH_FP(spec_at, "replicas"), NULL);
    else
        bh_v_nonnegative(e, BH_FP(spec_at, "replicas"), s->replicas);
    if (!s->template) {
        bh_fe_required(e, template_at, NULL);
        return;
    }
    bh_v_template_selected(e, template_at, s->template, &sel);
    bh_v_template(e, template_at, s->template, env);
    bh_v_template_runs_on(e, template_at, s->template, "ReplicationController");
}

static void replication_create(const struct bh_rules_env *env, const void *obj,
                               struct bh_field_errs *e)
{
    const struct bh_core_v1_replication_controller *r = obj;

    bh_v_meta(e, meta_at, &r->metadata, true, bh_check_dns1123_subdomain, BH_VM_KUBE);
    replication(env, &r->spec, e);
}

static void replication_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                               const void *prev, struct bh_field_errs *e)
{
    const struct bh_core_v1_replication_controller *r = obj, *old = prev;
    const struct bh_core_v1_replication_controller_status *s = &r->status;

    bh_v_meta_update(e, meta_at, &r->metadata, &old->metadata, BH_VM_KUBE);
    if (bh_str_eqc(sub, "status"))
        counts(e, &(struct counts){.replicas = s->replicas,
                                   .labeled = s->fully_labeled_replicas,
                                   .ready = s->ready_replicas,
                                   .available = s->available_replicas,
                                   .observed = s->observed_generation});
    else
        replication(env, &r->spec, e);
}

static void replication_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                             const void *prev, struct bh_str_vec *out)
{
    const struct bh_core_v1_replication_controller *r = obj, *old = prev;

    if (bh_str_eqc(sub, "status") || (old && r->metadata.generation == old->metadata.generation))
        return;
    if (!old)
        bh_v_label_name_warning(env, r->metadata.name, out);
    if (r->spec.template)
        bh_v_template_warn(env, template_at, r->spec.template, out);
}

/* ---- Deployment ---- */

static void default_deployment(const struct bh_rules_env *env, void *obj)
{
    struct bh_apps_v1_deployment *d = obj;
    struct bh_apps_v1_deployment_strategy *s = &d->spec.strategy;
    const struct bh_intstr quarter = {.is_str = true, .s = BH_S_INIT("25%")};

    if (!d->spec.has_replicas) {
        d->spec.has_replicas = true;
        d->spec.replicas = 1;
    }
    if (s->type.n == 0)
        s->type = BH_S("RollingUpdate");
    if (bh_str_eqc(s->type, "RollingUpdate")) {
        if (!s->rolling_update)
            s->rolling_update = bh_new(env->a, struct bh_apps_v1_rolling_update_deployment);
        if (!s->rolling_update->has_max_unavailable) {
            s->rolling_update->has_max_unavailable = true;
            s->rolling_update->max_unavailable = quarter;
        }
        if (!s->rolling_update->has_max_surge) {
            s->rolling_update->has_max_surge = true;
            s->rolling_update->max_surge = quarter;
        }
    }
    if (!d->spec.has_revision_history_limit) {
        d->spec.has_revision_history_limit = true;
        d->spec.revision_history_limit = 10;
    }
    if (!d->spec.has_progress_deadline_seconds) {
        d->spec.has_progress_deadline_seconds = true;
        d->spec.progress_deadline_seconds = 600;
    }
    bh_v_pod_spec_default(env, &d->spec.template.spec);
}

static void deployment_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_apps_v1_deployment *d = obj;

    d->status = (struct bh_apps_v1_deployment_status){0};
    d->metadata.generation = 1;
    bh_msg_drop_gated(&bh_apps_v1_deployment_type, d, NULL, bh_v_gate_on, (void *)(uintptr_t)env);
}

static bool same_annotations(const struct bh_meta_v1_object_meta *x,
                             const struct bh_meta_v1_object_meta *y)
{
    const struct bh_meta_v1_object_meta a = {.annotations = x->annotations},
                                        b = {.annotations = y->annotations};

    return bh_msg_equal(&bh_meta_v1_object_meta_type, &a, &b);
}

/* Annotations are copied to the ReplicaSets, so they count as a change, too. */
static void deployment_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                      const void *prev)
{
    struct bh_apps_v1_deployment *d = obj;
    const struct bh_apps_v1_deployment *old = prev;

    if (bh_str_eqc(sub, "status")) {
        d->spec = old->spec;
        d->metadata.labels = old->metadata.labels;
        return;
    }
    d->status = old->status;
    bh_msg_drop_gated(&bh_apps_v1_deployment_type, d, old, bh_v_gate_on, (void *)(uintptr_t)env);
    if (!bh_msg_equal(&bh_apps_v1_deployment_spec_type, &d->spec, &old->spec) ||
        !same_annotations(&d->metadata, &old->metadata))
        d->metadata.generation = old->metadata.generation + 1;
}

static void deployment_strategy(struct bh_field_errs *e, const struct bh_fpath *at,
                                const struct bh_apps_v1_deployment_strategy *s)
{
    const struct bh_fpath *rolling = BH_FP(at, "rollingUpdate"),
                          *max = BH_FP(rolling, "maxUnavailable");
    const struct bh_apps_v1_rolling_update_deployment *r = s->rolling_update;

    if (bh_str_eqc(s->type, "Recreate")) {
        if (r)
            bh_fe_forbidden(e, rolling, "may not be specified when strategy `type` is 'Recreate'");
    } else if (bh_str_eqc(s->type, "RollingUpdate")) {
        if (!r)
            return; /* a default */
        bh_v_int_or_percent(e, max, r->max_unavailable);
        bh_v_int_or_percent(e, BH_FP(rolling, "maxSurge"), r->max_surge);
        if (bh_v_int_or_percent_value(r->max_unavailable) == 0 &&
            bh_v_int_or_percent_value(r->max_surge) == 0)
            bh_fe_invalid_text(e, max, bh_v_intstr_json(e->a, r->max_unavailable),
                               "may not be 0 when `maxSurge` is 0");
        bh_v_at_most_100_percent(e, max, r->max_unavailable);
    } else {
        bh_fe_add(e, BH_FE_NOT_SUPPORTED, at,
                  bh_str_fmt(e->a,
                             "Unsupported value: %.*s: supported values: \"Recreate\", "
                             "\"RollingUpdate\"",
                             BH_SF(bh_v_go_json(e->a, &bh_apps_v1_deployment_strategy_type, s))));
    }
}

static void deployment(const struct bh_rules_env *env, const struct bh_apps_v1_deployment_spec *s,
                       struct bh_field_errs *e)
{
    const struct bh_fpath *deadline = BH_FP(spec_at, "progressDeadlineSeconds");
    struct bh_label_selector sel;

    bh_v_nonnegative(e, BH_FP(spec_at, "replicas"), s->replicas);
    if (bh_v_required_selector(e, BH_FP(spec_at, "selector"), s->selector, "deployment",
                               "invalid label selector", &sel)) {
        bh_v_template_selected(e, template_at, &s->template, &sel);
        bh_v_template(e, template_at, &s->template, env);
        bh_v_template_runs_on(e, template_at, &s->template, "ReplicaSet");
    }
    deployment_strategy(e, BH_FP(spec_at, "strategy"), &s->strategy);
    bh_v_nonnegative(e, BH_FP(spec_at, "minReadySeconds"), s->min_ready_seconds);
    if (s->has_revision_history_limit)
        bh_v_nonnegative(e, BH_FP(spec_at, "revisionHistoryLimit"), s->revision_history_limit);
    if (!s->has_progress_deadline_seconds)
        return;
    bh_v_nonnegative(e, deadline, s->progress_deadline_seconds);
    if (s->progress_deadline_seconds <= s->min_ready_seconds)
        bh_fe_invalid_i64(e, deadline, s->progress_deadline_seconds,
                          "must be greater than minReadySeconds");
}

static void deployment_create(const struct bh_rules_env *env, const void *obj,
                              struct bh_field_errs *e)
{
    const struct bh_apps_v1_deployment *d = obj;

    bh_v_meta(e, meta_at, &d->metadata, true, bh_check_dns1123_subdomain, BH_VM_KUBE);
    deployment(env, &d->spec, e);
}

void bh_v_collisions(struct bh_field_errs *e, bool has, int32_t now, bool had, int32_t old)
{
    if (had && (!has || now < old))
        bh_fe_invalid_i64(e, BH_FP(status_at, "collisionCount"), has ? now : 0,
                          "cannot be decremented");
}

static void deployment_status(struct bh_field_errs *e, const struct bh_apps_v1_deployment_status *s,
                              const struct bh_apps_v1_deployment_status *old)
{
    bh_v_nonnegative(e, BH_FP(status_at, "observedGeneration"), s->observed_generation);
    bh_v_nonnegative(e, BH_FP(status_at, "replicas"), s->replicas);
    bh_v_nonnegative(e, BH_FP(status_at, "updatedReplicas"), s->updated_replicas);
    bh_v_nonnegative(e, BH_FP(status_at, "readyReplicas"), s->ready_replicas);
    bh_v_nonnegative(e, BH_FP(status_at, "availableReplicas"), s->available_replicas);
    bh_v_nonnegative(e, BH_FP(status_at, "unavailableReplicas"), s->unavailable_replicas);
    if (s->has_terminating_replicas)
        bh_v_nonnegative(e, BH_FP(status_at, "terminatingReplicas"), s->terminating_replicas);
    if (s->has_collision_count)
        bh_v_nonnegative(e, BH_FP(status_at, "collisionCount"), s->collision_count);
    bh_v_at_most(e, BH_FP(status_at, "updatedReplicas"), s->updated_replicas, s->replicas,
                 "status.replicas");
    bh_v_at_most(e, BH_FP(status_at, "readyReplicas"), s->ready_replicas, s->replicas,
                 "status.replicas");
    bh_v_at_most(e, BH_FP(status_at, "availableReplicas"), s->available_replicas, s->replicas,
                 "status.replicas");
    bh_v_at_most(e, BH_FP(status_at, "availableReplicas"), s->available_replicas, s->ready_replicas,
                 "readyReplicas");
    bh_v_collisions(e, s->has_collision_count, s->collision_count, old->has_collision_count,
                    old->collision_count);
}

static void deployment_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                              const void *prev, struct bh_field_errs *e)
{
    const struct bh_apps_v1_deployment *d = obj, *old = prev;

    bh_v_meta_update(e, meta_at, &d->metadata, &old->metadata, BH_VM_KUBE);
    if (bh_str_eqc(sub, "status")) {
        deployment_status(e, &d->status, &old->status);
        return;
    }
    deployment(env, &d->spec, e);
    bh_v_fixed_selector(e, BH_FP(spec_at, "selector"), d->spec.selector, old->spec.selector);
}

static void deployment_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                            const void *prev, struct bh_str_vec *out)
{
    const struct bh_apps_v1_deployment *d = obj, *old = prev;

    if (bh_str_eqc(sub, "status") || (old && d->metadata.generation == old->metadata.generation))
        return;
    if (!old)
        bh_v_label_name_warning(env, d->metadata.name, out);
    bh_v_template_warn(env, template_at, &d->spec.template, out);
}

/* ---- tables ---- */

const struct bh_rules bh_rules_workload[] = {
    {.group = "apps",
     .kind = "ReplicaSet",
     .prepare_create = replica_set_prepare_create,
     .prepare_update = replica_set_prepare_update,
     .validate_create = replica_set_create,
     .validate_update = replica_set_update,
     .warn = replica_set_warn},
    {.group = "",
     .kind = "ReplicationController",
     .prepare_create = replication_prepare_create,
     .prepare_update = replication_prepare_update,
     .validate_create = replication_create,
     .validate_update = replication_update,
     .warn = replication_warn},
    {.group = "apps",
     .kind = "Deployment",
     .prepare_create = deployment_prepare_create,
     .prepare_update = deployment_prepare_update,
     .validate_create = deployment_create,
     .validate_update = deployment_update,
     .warn = deployment_warn},
    {.group = "apps",
     .kind = "StatefulSet",
     .prepare_create = bh_v_stateful_prepare_create,
     .prepare_update = bh_v_stateful_prepare_update,
     .validate_create = bh_v_stateful_create,
     .validate_update = bh_v_stateful_update,
     .warn = bh_v_stateful_warn},
};
const size_t bh_rules_workload_n = BH_COUNT(bh_rules_workload);

const struct bh_default_rule bh_defaults_workload[] = {
    {"apps/v1", "ReplicaSet", default_replica_set},
    {"v1", "ReplicationController", default_replication_controller},
    {"apps/v1", "Deployment", default_deployment},
    {"apps/v1", "StatefulSet", bh_v_stateful_default},
    {"apps/v1", "DaemonSet", bh_v_daemon_default},
    {"v1", "PodTemplate", bh_v_pod_template_default},
    {"v1", "Service", bh_v_service_default},
    {"discovery.k8s.io/v1", "EndpointSlice", bh_v_endpoints_default},
    {"networking.k8s.io/v1", "IngressClass", bh_v_ingress_class_default},
    {"networking.k8s.io/v1", "NetworkPolicy", bh_v_network_policy_default},
};
const size_t bh_defaults_workload_n = BH_COUNT(bh_defaults_workload);
