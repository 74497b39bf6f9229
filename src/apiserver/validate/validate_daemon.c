/* DaemonSet, and what belongs to controllers of workloads: ControllerRevision, PodTemplate. */
#include "apiserver/validate/validate_workload.h"

#include "api/gen/apps_v1.h"
#include "api/label_selector.h"

#define GENERATION "deprecated.daemonset.template.generation"

static const struct bh_fpath *const meta_at =
    &(const struct bh_fpath){.name = BH_S_INIT("metadata"), .kind = BH_FP_NAME};
static const struct bh_fpath *const spec_at =
    &(const struct bh_fpath){.name = BH_S_INIT("spec"), .kind = BH_FP_NAME};
static const struct bh_fpath *const status_at =
    &(const struct bh_fpath){.name = BH_S_INIT("status"), .kind = BH_FP_NAME};

/* ---- DaemonSet ---- */

/* How often the template changed is a field upstream, and an annotation for those who ask. */
static int64_t template_generation(const struct bh_apps_v1_daemon_set *d)
{
    const struct bh_str *s = bh_str_map_get(&d->metadata.annotations, BH_S(GENERATION));
    int64_t v = 0;

    return s && bh_str_i64(*s, INT64_MIN, INT64_MAX, &v) ? v : 0;
}

static void set_template_generation(struct bh_arena *a, struct bh_apps_v1_daemon_set *d, int64_t v)
{
    bh_str_map_put(a, &d->metadata.annotations, BH_S(GENERATION),
                   bh_str_fmt(a, "%lld", (long long)v));
}

void bh_v_daemon_default(const struct bh_rules_env *env, void *obj)
{
    struct bh_apps_v1_daemon_set *d = obj;
    struct bh_apps_v1_daemon_set_update_strategy *s = &d->spec.update_strategy;

    if (s->type.n == 0)
        s->type = BH_S("RollingUpdate");
    if (bh_str_eqc(s->type, "RollingUpdate")) {
        if (!s->rolling_update)
            s->rolling_update = bh_new(env->a, struct bh_apps_v1_rolling_update_daemon_set);
        if (!s->rolling_update->has_max_unavailable) {
            s->rolling_update->has_max_unavailable = true;
            s->rolling_update->max_unavailable = (struct bh_intstr){.i = 1};
        }
        if (!s->rolling_update->has_max_surge) {
            s->rolling_update->has_max_surge = true;
            s->rolling_update->max_surge = (struct bh_intstr){.i = 0};
        }
    }
    if (s->rolling_update) { /* numbers upstream: nothing is zero */
        s->rolling_update->has_max_unavailable = true;
        s->rolling_update->has_max_surge = true;
    }
    if (!d->spec.has_revision_history_limit) {
        d->spec.has_revision_history_limit = true;
        d->spec.revision_history_limit = 10;
    }
    bh_v_pod_spec_default(env, &d->spec.template.spec);
    set_template_generation(env->a, d, template_generation(d));
}

static void daemon_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_apps_v1_daemon_set *d = obj;

    d->status = (struct bh_apps_v1_daemon_set_status){0};
    d->metadata.generation = 1;
    if (template_generation(d) < 1)
        set_template_generation(env->a, d, 1);
    bh_msg_drop_gated(&bh_apps_v1_daemon_set_type, d, NULL, bh_v_gate_on, (void *)(uintptr_t)env);
}

static void daemon_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                  const void *prev)
{
    struct bh_apps_v1_daemon_set *d = obj;
    const struct bh_apps_v1_daemon_set *old = prev;
    int64_t generation = template_generation(old);

    set_template_generation(env->a, d, generation);
    if (bh_str_eqc(sub, "status")) {
        d->spec = old->spec;
        return;
    }
    d->status = old->status;
    bh_msg_drop_gated(&bh_apps_v1_daemon_set_type, d, old, bh_v_gate_on, (void *)(uintptr_t)env);
    if (!bh_msg_equal(&bh_core_v1_pod_template_spec_type, &d->spec.template, &old->spec.template))
        set_template_generation(env->a, d, generation + 1);
    if (!bh_msg_equal(&bh_apps_v1_daemon_set_spec_type, &d->spec, &old->spec))
        d->metadata.generation = old->metadata.generation + 1;
}

static void daemon_rolling(struct bh_field_errs *e, const struct bh_fpath *at,
                           const struct bh_apps_v1_rolling_update_daemon_set *r)
{
    const struct bh_fpath *max = BH_FP(at, "maxUnavailable"), *surge = BH_FP(at, "maxSurge");
    bool down = bh_v_int_or_percent_value(r->max_unavailable) != 0,
         up = bh_v_int_or_percent_value(r->max_surge) != 0;

    bh_v_int_or_percent(e, max, r->max_unavailable);
    bh_v_int_or_percent(e, surge, r->max_surge);
    bh_v_at_most_100_percent(e, max, r->max_unavailable);
    bh_v_at_most_100_percent(e, surge, r->max_surge);
    if (down && up)
        bh_fe_invalid_text(e, surge, bh_v_intstr_json(e->a, r->max_surge),
                           "may not be set when maxUnavailable is non-zero");
    else if (!down && !up)
        bh_fe_required(e, max, "cannot be 0 when maxSurge is 0");
}

static void daemon_strategy(struct bh_field_errs *e, const struct bh_fpath *at,
                            const struct bh_apps_v1_daemon_set_update_strategy *s)
{
    if (bh_str_eqc(s->type, "OnDelete"))
        return;
    if (bh_str_eqc(s->type, "RollingUpdate")) {
        if (s->rolling_update)
            daemon_rolling(e, BH_FP(at, "rollingUpdate"), s->rolling_update);
        return;
    }
    bh_fe_add(
        e, BH_FE_NOT_SUPPORTED, at,
        bh_str_fmt(e->a,
                   "Unsupported value: %.*s: supported values: \"RollingUpdate\", \"OnDelete\"",
                   BH_SF(bh_v_go_json(e->a, &bh_apps_v1_daemon_set_update_strategy_type, s))));
}

static void daemon(const struct bh_rules_env *env, const struct bh_apps_v1_daemon_set_spec *s,
                   struct bh_field_errs *e)
{
    const struct bh_fpath *template = BH_FP(spec_at, "template"),
                          *selector = BH_FP(spec_at, "selector");
    struct bh_label_selector sel;

    if (s->selector)
        bh_v_label_selector(e, selector, s->selector, false);
    if (!(s->selector && bh_v_bad_label_selector(e->a, s->selector)) &&
        bh_label_selector_of(e->a, s->selector, &sel) &&
        !bh_label_selector_match(&sel, &s->template.metadata.labels))
        bh_fe_invalid_text(e, BH_FP(BH_FP(template, "metadata"), "labels"),
                           bh_v_map_json(e->a, &s->template.metadata.labels),
                           "`selector` does not match template `labels`");
    if (s->selector && s->selector->match_labels.n + s->selector->match_expressions.n == 0)
        bh_fe_invalid_text(e, selector,
                           bh_v_json(e->a, &bh_meta_v1_label_selector_type, s->selector),
                           "empty selector is invalid for daemonset");
    bh_v_template(e, template, &s->template, env);
    bh_v_template_runs_on(e, template, &s->template, "DaemonSet");
    bh_v_nonnegative(e, BH_FP(spec_at, "minReadySeconds"), s->min_ready_seconds);
    daemon_strategy(e, BH_FP(spec_at, "updateStrategy"), &s->update_strategy);
    if (s->has_revision_history_limit)
        bh_v_nonnegative(e, BH_FP(spec_at, "revisionHistoryLimit"), s->revision_history_limit);
}

static void daemon_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_apps_v1_daemon_set *d = obj;

    bh_v_meta(e, meta_at, &d->metadata, true, bh_check_dns1123_subdomain, BH_VM_KUBE);
    daemon(env, &d->spec, e);
}

static void daemon_status(struct bh_field_errs *e, const struct bh_apps_v1_daemon_set_status *s)
{
    bh_v_nonnegative(e, BH_FP(status_at, "currentNumberScheduled"), s->current_number_scheduled);
    bh_v_nonnegative(e, BH_FP(status_at, "numberMisscheduled"), s->number_misscheduled);
    bh_v_nonnegative(e, BH_FP(status_at, "desiredNumberScheduled"), s->desired_number_scheduled);
    bh_v_nonnegative(e, BH_FP(status_at, "numberReady"), s->number_ready);
    bh_v_nonnegative(e, BH_FP(status_at, "observedGeneration"), s->observed_generation);
    bh_v_nonnegative(e, BH_FP(status_at, "updatedNumberScheduled"), s->updated_number_scheduled);
    bh_v_nonnegative(e, BH_FP(status_at, "numberAvailable"), s->number_available);
    bh_v_nonnegative(e, BH_FP(status_at, "numberUnavailable"), s->number_unavailable);
    if (s->has_collision_count)
        bh_v_nonnegative(e, BH_FP(status_at, "collisionCount"), s->collision_count);
}

static void daemon_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                          const void *prev, struct bh_field_errs *e)
{
    const struct bh_apps_v1_daemon_set *d = obj, *old = prev;

    bh_v_meta_update(e, meta_at, &d->metadata, &old->metadata, BH_VM_KUBE);
    if (bh_str_eqc(sub, "status")) {
        daemon_status(e, &d->status);
        bh_v_collisions(e, d->status.has_collision_count, d->status.collision_count,
                        old->status.has_collision_count, old->status.collision_count);
        return;
    }
    bh_v_fixed_selector(e, BH_FP(spec_at, "selector"), d->spec.selector, old->spec.selector);
    daemon(env, &d->spec, e);
}

static void daemon_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                        const void *prev, struct bh_str_vec *out)
{
    const struct bh_apps_v1_daemon_set *d = obj, *old = prev;

    if (bh_str_eqc(sub, "status") || (old && template_generation(d) == template_generation(old)))
        return;
    bh_v_template_warn(env, BH_FP(spec_at, "template"), &d->spec.template, out);
}

/* ---- ControllerRevision ---- */

static void revision(struct bh_field_errs *e, const struct bh_apps_v1_controller_revision *r)
{
    const struct bh_fpath *data = BH_FP(NULL, "data");
    struct bh_str text = bh_str_trim(r->data);

    bh_v_meta(e, meta_at, &r->metadata, true, bh_check_dns1123_subdomain, BH_VM_KUBE);
    if (text.n == 0 || bh_str_eqc(text, "null"))
        bh_fe_required(e, data, "data is mandatory");
    else if (text.p[0] != '{')
        bh_fe_required(e, data, "data must be a valid JSON object");
    bh_v_nonnegative(e, BH_FP(NULL, "revision"), r->revision);
}

static void revision_create(const struct bh_rules_env *env, const void *obj,
                            struct bh_field_errs *e)
{
    (void)env;
    revision(e, obj);
}

static void revision_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                            const void *prev, struct bh_field_errs *e)
{
    const struct bh_apps_v1_controller_revision *r = obj, *old = prev;

    (void)env;
    (void)sub;
    bh_v_meta_update(e, meta_at, &r->metadata, &old->metadata, BH_VM_KUBE);
    revision(e, r);
    if (!bh_str_eq(r->data, old->data))
        bh_fe_invalid_text(e, BH_FP(NULL, "data"), r->data, BH_V_IMMUTABLE);
}

/* ---- PodTemplate ---- */

void bh_v_pod_template_default(const struct bh_rules_env *env, void *obj)
{
    bh_v_pod_spec_default(env, &((struct bh_core_v1_pod_template *)obj)->template.spec);
}

static void template_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_pod_template *t = obj;

    t->metadata.generation = 1;
    bh_msg_drop_gated(&bh_core_v1_pod_template_type, t, NULL, bh_v_gate_on, (void *)(uintptr_t)env);
}

static void template_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                    const void *prev)
{
    struct bh_core_v1_pod_template *t = obj;
    const struct bh_core_v1_pod_template *old = prev;

    (void)sub;
    bh_msg_drop_gated(&bh_core_v1_pod_template_type, t, old, bh_v_gate_on, (void *)(uintptr_t)env);
    if (!bh_msg_equal(&bh_core_v1_pod_template_spec_type, &t->template, &old->template))
        t->metadata.generation = old->metadata.generation + 1;
}

static void template_create(const struct bh_rules_env *env, const void *obj,
                            struct bh_field_errs *e)
{
    const struct bh_core_v1_pod_template *t = obj;

    bh_v_meta(e, meta_at, &t->metadata, true, bh_check_dns1123_subdomain, BH_VM_KUBE);
    bh_v_template(e, BH_FP(NULL, "template"), &t->template, env);
}

static void template_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                            const void *prev, struct bh_field_errs *e)
{
    const struct bh_core_v1_pod_template *t = obj, *old = prev;

    (void)sub;
    bh_v_meta_update(e, meta_at, &t->metadata, &old->metadata, BH_VM_KUBE);
    bh_v_template(e, BH_FP(NULL, "template"), &t->template, env);
}

static void template_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                          const void *prev, struct bh_str_vec *out)
{
    const struct bh_core_v1_pod_template *t = obj, *old = prev;

    (void)sub;
    if (!old || t->metadata.generation != old->metadata.generation)
        bh_v_template_warn(env, BH_FP(NULL, "template"), &t->template, out);
}

const struct bh_rules bh_rules_daemon[] = {
    {.group = "apps",
     .kind = "DaemonSet",
     .prepare_create = daemon_prepare_create,
     .prepare_update = daemon_prepare_update,
     .validate_create = daemon_create,
     .validate_update = daemon_update,
     .warn = daemon_warn},
    {.group = "apps",
     .kind = "ControllerRevision",
     .validate_create = revision_create,
     .validate_update = revision_update},
    {.group = "",
     .kind = "PodTemplate",
     .prepare_create = template_prepare_create,
     .prepare_update = template_prepare_update,
     .validate_create = template_create,
     .validate_update = template_update,
     .warn = template_warn},
    {.group = "discovery.k8s.io",
     .kind = "EndpointSlice",
     .prepare_create = bh_v_endpoints_prepare_create,
     .prepare_update = bh_v_endpoints_prepare_update,
     .validate_create = bh_v_endpoints_create,
     .validate_update = bh_v_endpoints_update,
     .warn = bh_v_endpoints_warn},
};
const size_t bh_rules_daemon_n = BH_COUNT(bh_rules_daemon);
