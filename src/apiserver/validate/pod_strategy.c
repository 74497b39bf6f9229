/* Pods: what each way of writing may change, what is computed on the way in, and warnings. */
#include "apiserver/validate/validate_pod.h"

#include "base/buf.h"

#include <string.h>

static bool gate_on(void *arg, struct bh_str name)
{
    const struct bh_rules_env *env = arg;

    return env->gate ? env->gate(env->arg, name) : bh_gate_default(name);
}

/* A lifecycle that held nothing but a signal goes with it. */
static void drop_stop_signals(const struct bh_rules_env *env, struct bh_core_v1_pod *p,
                              const struct bh_core_v1_pod *old)
{
    struct bh_pod_iter it = {.spec = &p->spec};

    if (bh_rules_gate(env, "ContainerStopSignals"))
        return;
    if (old) {
        struct bh_pod_iter was = {.spec = &old->spec};

        while (bh_pod_next(&was))
            if (was.c->lifecycle && was.c->lifecycle->has_stop_signal)
                return;
    }
    while (bh_pod_next(&it)) {
        struct bh_core_v1_container *c = (struct bh_core_v1_container *)(uintptr_t)it.c;

        if (!c->lifecycle || !c->lifecycle->has_stop_signal)
            continue;
        c->lifecycle->has_stop_signal = false;
        c->lifecycle->stop_signal = BH_S("");
        if (!c->lifecycle->post_start && !c->lifecycle->pre_stop)
            c->lifecycle = NULL;
    }
}

static void drop_gated(const struct bh_rules_env *env, struct bh_core_v1_pod *p,
                       const struct bh_core_v1_pod *old)
{
    bh_msg_drop_gated(&bh_core_v1_pod_type, p, old, gate_on, (void *)(uintptr_t)env);
    drop_stop_signals(env, p, old);
}

/* ---- create ---- */

static void gated_condition(const struct bh_rules_env *env, struct bh_core_v1_pod *p)
{
    struct bh_core_v1_pod_condition *c;

    if (p->spec.scheduling_gates.n == 0)
        return;
    c = bh_new(env->a, struct bh_core_v1_pod_condition);
    c->type = BH_S("PodScheduled");
    c->status = BH_S("False");
    c->reason = BH_S("SchedulingGated");
    c->message = BH_S("Scheduling is blocked due to non-empty scheduling gates");
    c->last_transition_time = env->now;
    c->last_transition_time.nsec = 0;
    p->status.conditions.p = c;
    p->status.conditions.n = 1;
}

/* Label keys become requirements with the pod's own values. */
static void merge_keys(const struct bh_rules_env *env, struct bh_meta_v1_label_selector *s,
                       const struct bh_str_vec *keys, struct bh_str op,
                       const struct bh_str_map *labels)
{
    struct bh_meta_v1_label_selector_requirement_vec *v = &s->match_expressions;
    struct bh_meta_v1_label_selector_requirement *p;

    if (keys->n == 0)
        return;
    p = bh_new_n(env->a, struct bh_meta_v1_label_selector_requirement, v->n + keys->n);
    if (v->n)
        memcpy(p, v->p, v->n * sizeof(*p));
    for (size_t i = 0; i < keys->n; i++) {
        const struct bh_str *value = bh_str_map_get(labels, keys->p[i]);
        struct bh_str *copy;

        if (!value)
            continue;
        copy = bh_new(env->a, struct bh_str);
        *copy = *value;
        p[v->n].key = keys->p[i];
        p[v->n].operator= op;
        p[v->n].values.p = copy;
        p[v->n].values.n = 1;
        v->n++;
    }
    if (v->n)
        v->p = p;
}

static void merge_term(const struct bh_rules_env *env, struct bh_core_v1_pod_affinity_term *t,
                       const struct bh_str_map *labels)
{
    if (!t->label_selector)
        return;
    merge_keys(env, t->label_selector, &t->match_label_keys, BH_S("In"), labels);
    merge_keys(env, t->label_selector, &t->mismatch_label_keys, BH_S("NotIn"), labels);
}

static void merge_terms(const struct bh_rules_env *env,
                        struct bh_core_v1_weighted_pod_affinity_term_vec *preferred,
                        struct bh_core_v1_pod_affinity_term_vec *required,
                        const struct bh_str_map *labels)
{
    for (size_t i = 0; i < preferred->n; i++)
        merge_term(env, &preferred->p[i].pod_affinity_term, labels);
    for (size_t i = 0; i < required->n; i++)
        merge_term(env, &required->p[i], labels);
}

static void merge_label_keys(const struct bh_rules_env *env, struct bh_core_v1_pod *p)
{
    struct bh_core_v1_affinity *a = p->spec.affinity;
    struct bh_core_v1_topology_spread_constraint_vec *v = &p->spec.topology_spread_constraints;

    if (a && a->pod_affinity)
        merge_terms(env, &a->pod_affinity->preferred_during_scheduling_ignored_during_execution,
                    &a->pod_affinity->required_during_scheduling_ignored_during_execution,
                    &p->metadata.labels);
    if (a && a->pod_anti_affinity)
        merge_terms(env,
                    &a->pod_anti_affinity->preferred_during_scheduling_ignored_during_execution,
                    &a->pod_anti_affinity->required_during_scheduling_ignored_during_execution,
                    &p->metadata.labels);
    for (size_t i = 0; i < v->n; i++)
        if (v->p[i].label_selector)
            merge_keys(env, v->p[i].label_selector, &v->p[i].match_label_keys, BH_S("In"),
                       &p->metadata.labels);
}

/* "runtime/default", "unconfined", "localhost/NAME"; NULL for anything else. */
static struct bh_core_v1_app_armor_profile *app_armor_of(struct bh_arena *a,
                                                         struct bh_str annotation)
{
    struct bh_core_v1_app_armor_profile *p = bh_new(a, struct bh_core_v1_app_armor_profile);

    if (bh_str_eqc(annotation, "unconfined")) {
        p->type = BH_S("Unconfined");
    } else if (bh_str_eqc(annotation, "runtime/default")) {
        p->type = BH_S("RuntimeDefault");
    } else if (bh_str_starts(annotation, BH_S("localhost/")) && annotation.n > 10) {
        p->type = BH_S("Localhost");
        p->localhost_profile = bh_str_sub(annotation, 10, SIZE_MAX);
        p->has_localhost_profile = true;
    } else {
        return NULL;
    }
    return p;
}

static void warn_app_armor(const struct bh_rules_env *env, struct bh_str key)
{
    if (env->warn)
        env->warn(env->arg,
                  bh_str_fmt(env->a,
                             "metadata.annotations[%.*s]: deprecated since v1.30; use the "
                             "\"appArmorProfile\" field instead",
                             BH_SF(key)));
}

/* The annotation of older clients becomes the field, unless there is one. One that says nothing
 * valid is left for validation. */
static void app_armor(const struct bh_rules_env *env, struct bh_core_v1_pod *p)
{
    struct bh_pod_iter it = {.spec = &p->spec};
    const struct bh_core_v1_app_armor_profile *pod =
        p->spec.security_context ? p->spec.security_context->app_armor_profile : NULL;

    if (p->spec.os && bh_str_eqc(p->spec.os->name, "windows"))
        return;
    while (bh_pod_next(&it)) {
        struct bh_core_v1_container *c = (struct bh_core_v1_container *)(uintptr_t)it.c;
        struct bh_str key = bh_str_fmt(env->a, BH_POD_APP_ARMOR "%.*s", BH_SF(c->name));
        const struct bh_str *v = bh_str_map_get(&p->metadata.annotations, key);
        struct bh_core_v1_app_armor_profile *profile;

        if (!v || (c->security_context && c->security_context->app_armor_profile))
            continue;
        profile = app_armor_of(env->a, *v);
        if (!profile)
            warn_app_armor(env, key);
        if (!profile || (pod && bh_msg_equal(&bh_core_v1_app_armor_profile_type, profile, pod)))
            continue;
        warn_app_armor(env, key);
        if (!c->security_context)
            c->security_context = bh_new(env->a, struct bh_core_v1_security_context);
        c->security_context->app_armor_profile = profile;
    }
}

void bh_v_pod_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_pod *p = obj;

    p->metadata.generation = 1;
    p->status = (struct bh_core_v1_pod_status){.phase = BH_S_INIT("Pending")};
    p->status.qos_class = bh_pod_qos(env, p);
    drop_gated(env, p, NULL);
    gated_condition(env, p);
    merge_label_keys(env, p);
    app_armor(env, p);
}

/* ---- update ---- */

static void raise_generation(struct bh_core_v1_pod *p, const struct bh_core_v1_pod *old)
{
    if (!bh_msg_equal(&bh_core_v1_pod_spec_type, &p->spec, &old->spec))
        p->metadata.generation = old->metadata.generation + 1;
}

/* Writers that do not know observedGeneration keep what was there: of conditions, the n-th of a
 * type. */
static void keep_observed(struct bh_core_v1_pod *p, const struct bh_core_v1_pod *old)
{
    struct bh_core_v1_pod_condition_vec *v = &p->status.conditions;
    const struct bh_core_v1_pod_condition_vec *was = &old->status.conditions;

    if (p->status.observed_generation == 0)
        p->status.observed_generation = old->status.observed_generation;
    for (size_t i = 0; i < v->n; i++) {
        size_t nth = 0;

        if (v->p[i].observed_generation != 0)
            continue;
        for (size_t k = 0; k < i; k++)
            nth += bh_str_eq(v->p[k].type, v->p[i].type);
        for (size_t k = 0; k < was->n; k++)
            if (bh_str_eq(was->p[k].type, v->p[i].type) && nth-- == 0) {
                v->p[i].observed_generation = was->p[k].observed_generation;
                break;
            }
    }
}

static void prepare_status(const struct bh_rules_env *env, struct bh_core_v1_pod *p,
                           const struct bh_core_v1_pod *old)
{
    p->spec = old->spec;
    p->metadata.deletion_timestamp = (struct bh_time){0};
    p->metadata.owner_references = old->metadata.owner_references;
    if (p->status.qos_class.n == 0)
        p->status.qos_class = old->status.qos_class;
    keep_observed(p, old);
    drop_gated(env, p, old);
}

static void prepare_ephemeral(const struct bh_rules_env *env, struct bh_core_v1_pod *p,
                              const struct bh_core_v1_pod *old)
{
    struct bh_core_v1_ephemeral_container_vec v = p->spec.ephemeral_containers;

    p->spec = old->spec;
    p->spec.ephemeral_containers = v;
    p->status = old->status;
    bh_v_reset_meta_for_status(&p->metadata, &old->metadata);
    drop_gated(env, p, old);
    raise_generation(p, old);
}

/* Copies of the old containers that take only resources and resizePolicy from the new ones. When
 * the lists do not match, the new ones are left for validation to refuse. */
static bool resized(const struct bh_rules_env *env, struct bh_core_v1_container_vec *v,
                    const struct bh_core_v1_container_vec *old)
{
    struct bh_core_v1_container *p;

    if (v->n == 0)
        return true;
    p = bh_new_n(env->a, struct bh_core_v1_container, v->n);
    for (size_t i = 0; i < v->n; i++) {
        if (!bh_str_eq(v->p[i].name, old->p[i].name))
            return false;
        p[i] = old->p[i];
        p[i].resources = v->p[i].resources;
        p[i].resize_policy = v->p[i].resize_policy;
    }
    v->p = p;
    return true;
}

static void prepare_resize(const struct bh_rules_env *env, struct bh_core_v1_pod *p,
                           const struct bh_core_v1_pod *old)
{
    struct bh_core_v1_container_vec main = p->spec.containers, init = p->spec.init_containers;
    struct bh_core_v1_resource_requirements *r = p->spec.resources;

    if (main.n == old->spec.containers.n && init.n == old->spec.init_containers.n) {
        (void)resized(env, &main, &old->spec.containers);
        (void)resized(env, &init, &old->spec.init_containers);
        p->spec = old->spec;
        p->spec.containers = main;
        p->spec.init_containers = init;
        if (bh_rules_gate(env, "InPlacePodLevelResourcesVerticalScaling"))
            p->spec.resources = r;
        p->status = old->status;
        bh_v_reset_meta_for_status(&p->metadata, &old->metadata);
    }
    drop_gated(env, p, old);
    raise_generation(p, old);
}

void bh_v_pod_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                             const void *prev)
{
    struct bh_core_v1_pod *p = obj;
    const struct bh_core_v1_pod *old = prev;

    if (bh_str_eqc(sub, "status")) {
        prepare_status(env, p, old);
    } else if (bh_str_eqc(sub, "ephemeralcontainers")) {
        prepare_ephemeral(env, p, old);
    } else if (bh_str_eqc(sub, "resize")) {
        prepare_resize(env, p, old);
    } else {
        p->status = old->status;
        drop_gated(env, p, old);
        raise_generation(p, old);
    }
}
