/* Pods: what may change, by each way of writing. */
#include "apiserver/validate/validate_pod.h"

#include "base/buf.h"

#include <string.h>

#define MIRROR_ANNOTATION        "kubernetes.io/config.mirror"
#define HEALTH_MESSAGE_BYTES_MAX 1024u

#define UPDATABLE                                                                                  \
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`"     \
    "spec.tolerations` (only "                                                                     \
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set " \
    "to 1 if it was "                                                                              \
    "previously negative)"

static const struct bh_fpath *const spec_at =
    &(const struct bh_fpath){.name = BH_S_INIT("spec"), .kind = BH_FP_NAME};
static const struct bh_fpath *const status_at =
    &(const struct bh_fpath){.name = BH_S_INIT("status"), .kind = BH_FP_NAME};
static const struct bh_fpath *const meta_at =
    &(const struct bh_fpath){.name = BH_S_INIT("metadata"), .kind = BH_FP_NAME};

/* ---- annotations ---- */

static void annotation_updates(struct bh_field_errs *e, const struct bh_core_v1_pod *p,
                               const struct bh_core_v1_pod *old, const struct bh_pod_opts *o)
{
    const struct bh_fpath *at = BH_FP(meta_at, "annotations");
    const struct bh_str_map *now = &p->metadata.annotations, *was = &old->metadata.annotations;

    for (size_t i = 0; i < was->n; i++) {
        const struct bh_str *v = bh_str_map_get(now, was->p[i].key);

        if (v && bh_str_eq(*v, was->p[i].value))
            continue;
        if (bh_str_starts(was->p[i].key, BH_S(BH_POD_APP_ARMOR)))
            bh_fe_forbidden(e, BH_FPK(at, was->p[i].key),
                            "may not remove or update AppArmor annotations");
        if (bh_str_eqc(was->p[i].key, MIRROR_ANNOTATION))
            bh_fe_forbidden(e, BH_FPK(at, was->p[i].key),
                            "may not remove or update mirror pod annotation");
    }
    for (size_t i = 0; i < now->n; i++) {
        if (bh_str_map_get(was, now->p[i].key))
            continue;
        if (bh_str_starts(now->p[i].key, BH_S(BH_POD_APP_ARMOR)))
            bh_fe_forbidden(e, BH_FPK(at, now->p[i].key), "may not add AppArmor annotations");
        if (bh_str_eqc(now->p[i].key, MIRROR_ANNOTATION))
            bh_fe_forbidden(e, BH_FPK(at, now->p[i].key), "may not add mirror pod annotation");
    }
    bh_v_pod_annotations(e, at, &p->metadata, &p->spec, o);
}

static bool is_mirror(const struct bh_core_v1_pod *p)
{
    return bh_str_map_get(&p->metadata.annotations, BH_S(MIRROR_ANNOTATION)) != NULL;
}

/* ---- the spec ---- */

/* False when the lists differ in length: nothing further is compared then. */
static bool images(struct bh_field_errs *e, const char *list,
                   const struct bh_core_v1_container_vec *v,
                   const struct bh_core_v1_container_vec *old)
{
    const struct bh_fpath *at = BH_FPS(spec_at, bh_s(list));

    if (v->n != old->n) {
        bh_fe_forbidden(e, at, "pod updates may not add or remove containers");
        return false;
    }
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_fpath *image = BH_FP(BH_FPI(at, i), "image");

        if (v->p[i].image.n == 0)
            bh_fe_required(e, image, NULL);
        if (!bh_str_eq(bh_str_trim(v->p[i].image), v->p[i].image))
            bh_fe_invalid(e, image, v->p[i].image, "must not have leading or trailing whitespace");
    }
    return true;
}

static bool deadline(struct bh_field_errs *e, const struct bh_core_v1_pod_spec *s,
                     const struct bh_core_v1_pod_spec *old)
{
    const struct bh_fpath *at = BH_FP(spec_at, "activeDeadlineSeconds");

    if (!s->has_active_deadline_seconds) {
        if (old->has_active_deadline_seconds)
            bh_fe_invalid_text(e, at, BH_S("null"),
                               "must not update from a positive integer to nil value");
        return true;
    }
    if (s->active_deadline_seconds < 0 || s->active_deadline_seconds > INT32_MAX) {
        bh_fe_invalid_i64(e, at, s->active_deadline_seconds,
                          "must be between 0 and 2147483647, inclusive");
        return false;
    }
    if (old->has_active_deadline_seconds &&
        old->active_deadline_seconds < s->active_deadline_seconds) {
        bh_fe_invalid_i64(e, at, s->active_deadline_seconds,
                          "must be less than or equal to previous value");
        return false;
    }
    return true;
}

static void added_tolerations(struct bh_field_errs *e, const struct bh_core_v1_pod_spec *s,
                              const struct bh_core_v1_pod_spec *old, const struct bh_pod_opts *o)
{
    const struct bh_fpath *at = BH_FP(spec_at, "tolerations");

    for (size_t i = 0; i < old->tolerations.n; i++) {
        bool found = false;

        for (size_t k = 0; k < s->tolerations.n && !found; k++) {
            const struct bh_core_v1_toleration *x = &old->tolerations.p[i],
                                               *y = &s->tolerations.p[k];

            found = bh_str_eq(x->key, y->key) && bh_str_eq(x->operator, y->operator) &&
                    bh_str_eq(x->value, y->value) && bh_str_eq(x->effect, y->effect);
        }
        if (!found) {
            bh_fe_forbidden(e, at,
                            "existing toleration can not be modified except its tolerationSeconds");
            return;
        }
    }
    bh_v_tolerations(e, at, &s->tolerations, o);
}

static void deleted_gates(struct bh_field_errs *e, const struct bh_core_v1_pod_spec *s,
                          const struct bh_core_v1_pod_spec *old)
{
    const struct bh_fpath *at = BH_FP(spec_at, "schedulingGates");

    for (size_t i = 0; i < s->scheduling_gates.n; i++) {
        struct bh_str name = s->scheduling_gates.p[i].name;
        bool was = false;

        for (size_t k = 0; k < old->scheduling_gates.n && !was; k++)
            was = bh_str_eq(old->scheduling_gates.p[k].name, name);
        if (!was)
            bh_fe_forbidden(e, BH_FP(BH_FPI(at, i), "name"),
                            "only deletion is allowed, but found new scheduling gate '%.*s'",
                            BH_SF(name));
    }
}

/* ---- a gated pod may narrow where it runs ---- */

static bool starts_with(const struct bh_core_v1_node_selector_requirement_vec *v,
                        const struct bh_core_v1_node_selector_requirement_vec *old)
{
    if (v->n < old->n)
        return false;
    for (size_t i = 0; i < old->n; i++)
        if (!bh_msg_equal(&bh_core_v1_node_selector_requirement_type, &v->p[i], &old->p[i]))
            return false;
    return true;
}

static bool only_additions(const struct bh_core_v1_node_selector_term *t,
                           const struct bh_core_v1_node_selector_term *old)
{
    /* An empty term matches nothing: anything added would widen it. */
    if (old->match_expressions.n == 0 && old->match_fields.n == 0 &&
        (t->match_expressions.n || t->match_fields.n))
        return false;
    return starts_with(&t->match_expressions, &old->match_expressions) &&
           starts_with(&t->match_fields, &old->match_fields);
}

static const struct bh_core_v1_node_affinity *node_affinity_of(const struct bh_core_v1_pod_spec *s)
{
    return s->affinity ? s->affinity->node_affinity : NULL;
}

static void narrowed_affinity(struct bh_field_errs *e, const struct bh_core_v1_node_affinity *n,
                              const struct bh_core_v1_node_affinity *old)
{
    static const struct bh_core_v1_node_selector_term_vec none;
    const struct bh_fpath *at = BH_FP(BH_FP(BH_FP(BH_FP(spec_at, "affinity"), "nodeAffinity"),
                                            "requiredDuringSchedulingIgnoredDuringExecution"),
                                      "nodeSelectorTerms");
    const struct bh_core_v1_node_selector_term_vec *was, *is = &none;

    if (!old || !old->required_during_scheduling_ignored_during_execution)
        return;
    was = &old->required_during_scheduling_ignored_during_execution->node_selector_terms;
    if (n && n->required_during_scheduling_ignored_during_execution)
        is = &n->required_during_scheduling_ignored_during_execution->node_selector_terms;
    if (was->n && was->n != is->n) {
        bh_fe_invalid_text(
            e, at, bh_v_go_json_list(e->a, &bh_core_v1_node_selector_term_type, is),
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed");
        return;
    }
    for (size_t i = 0; i < was->n; i++)
        if (!only_additions(&is->p[i], &was->p[i]))
            bh_fe_invalid_text(e, BH_FPI(at, i),
                               bh_v_go_json(e->a, &bh_core_v1_node_selector_term_type, &is->p[i]),
                               "only additions are allowed (no mutations or deletions)");
}

static struct bh_str map_json(struct bh_arena *a, const struct bh_str_map *m)
{
    struct bh_meta_v1_label_selector s = {.match_labels = *m};
    struct bh_str json = bh_v_json(a, &bh_meta_v1_label_selector_type, &s);

    /* {"matchLabels":{…}} without what stands around the map */
    return m->n ? bh_str_sub(json, 15, json.n - 1) : m->p ? BH_S("{}") : BH_S("null");
}

static void narrowed_selector(struct bh_field_errs *e, const struct bh_str_map *m,
                              const struct bh_str_map *old)
{
    for (size_t i = 0; i < old->n; i++) {
        const struct bh_str *v = bh_str_map_get(m, old->p[i].key);

        if (v && bh_str_eq(*v, old->p[i].value))
            continue;
        bh_fe_invalid_text(
            e, BH_FP(spec_at, "nodeSelector"), map_json(e->a, m),
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)");
        return;
    }
}

/* What a gated pod may change is judged, and set back in the copy m that is compared afterwards. */
static void gated(struct bh_field_errs *e, struct bh_core_v1_pod_spec *m,
                  const struct bh_core_v1_pod_spec *old)
{
    const struct bh_core_v1_node_affinity *now = node_affinity_of(m), *was = node_affinity_of(old);
    struct bh_core_v1_affinity *copy;
    bool same =
        now == was || (now && was && bh_msg_equal(&bh_core_v1_node_affinity_type, now, was));

    narrowed_selector(e, &m->node_selector, &old->node_selector);
    m->node_selector = old->node_selector;
    if (same)
        return;
    narrowed_affinity(e, now, was);
    copy = bh_new(e->a, struct bh_core_v1_affinity);
    if (m->affinity)
        *copy = *m->affinity;
    copy->node_affinity = old->affinity ? old->affinity->node_affinity : NULL;
    if (!old->affinity && !copy->pod_affinity && !copy->pod_anti_affinity)
        copy = NULL;
    m->affinity = copy;
}

/* Upstream appends a diff of its internal struct; the names of the changed fields say it shorter.
 */
static void changed_fields(struct bh_field_errs *e, const struct bh_core_v1_pod_spec *s,
                           const struct bh_core_v1_pod_spec *old)
{
    const struct bh_type *t = &bh_core_v1_pod_spec_type;
    struct bh_buf b = {.max = 4096};

    for (uint32_t i = 0; i < t->n_fields; i++)
        if (!bh_field_equal(&t->fields[i], s, old))
            bh_buf_addf(&b, "%sspec.%.*s", b.n ? ", " : "", BH_SF(t->fields[i].json));
    bh_fe_forbidden(e, spec_at,
                    "pod updates may not change fields other than " UPDATABLE "\nchanged: %.*s",
                    BH_SF(bh_buf_str(&b)));
    bh_buf_done(&b);
}

static struct bh_core_v1_container_vec with_images(struct bh_arena *a,
                                                   const struct bh_core_v1_container_vec *v,
                                                   const struct bh_core_v1_container_vec *old)
{
    struct bh_core_v1_container_vec r = *v;

    if (v->n == 0)
        return r;
    r.p = bh_arena_memdup(a, v->p, v->n * sizeof(*v->p));
    for (size_t i = 0; i < r.n; i++)
        r.p[i].image = old->p[i].image;
    return r;
}

static void spec_update(struct bh_field_errs *e, const struct bh_core_v1_pod_spec *s,
                        const struct bh_core_v1_pod_spec *old, const struct bh_pod_opts *o)
{
    struct bh_core_v1_pod_spec m = *s;

    if (!images(e, "containers", &s->containers, &old->containers) ||
        !images(e, "initContainers", &s->init_containers, &old->init_containers) ||
        !deadline(e, s, old))
        return;
    added_tolerations(e, s, old, o);
    deleted_gates(e, s, old);
    if (bh_msg_equal(&bh_core_v1_pod_spec_type, s, old))
        return;
    m.containers = with_images(e->a, &s->containers, &old->containers);
    m.init_containers = with_images(e->a, &s->init_containers, &old->init_containers);
    m.active_deadline_seconds = old->active_deadline_seconds;
    m.has_active_deadline_seconds = old->has_active_deadline_seconds;
    m.scheduling_gates = old->scheduling_gates;
    m.tolerations = old->tolerations;
    if (old->scheduling_gates.n)
        gated(e, &m, old);
    if (!bh_msg_equal(&bh_core_v1_pod_spec_type, &m, old))
        changed_fields(e, &m, old);
}

/* ---- ephemeral containers ---- */

static void ephemeral_update(struct bh_field_errs *e, const struct bh_core_v1_pod *p,
                             const struct bh_core_v1_pod *old)
{
    const struct bh_fpath *at = BH_FP(spec_at, "ephemeralContainers");

    if (is_mirror(old)) {
        e->n = 0; /* this one error stands for all others */
        bh_fe_forbidden(e, BH_FPS(NULL, BH_S("[]")),
                        "static pods do not support ephemeral containers");
        return;
    }
    for (size_t i = 0; i < old->spec.ephemeral_containers.n; i++) {
        const struct bh_core_v1_ephemeral_container *was = &old->spec.ephemeral_containers.p[i],
                                                    *is = NULL;
        struct bh_str name = bh_pod_cephemeral(was)->name;

        for (size_t k = 0; k < p->spec.ephemeral_containers.n; k++)
            if (bh_str_eq(bh_pod_cephemeral(&p->spec.ephemeral_containers.p[k])->name, name))
                is = &p->spec.ephemeral_containers.p[k];
        if (!is)
            bh_fe_forbidden(e, at, "existing ephemeral containers \"%.*s\" may not be removed\n",
                            BH_SF(name));
        else if (!bh_msg_equal(&bh_core_v1_ephemeral_container_type, was, is))
            bh_fe_forbidden(e, at, "existing ephemeral containers \"%.*s\" may not be changed\n",
                            BH_SF(name));
    }
}

/* ---- resize ---- */

static bool removed(const struct bh_str_map *m, const struct bh_str_map *old)
{
    for (size_t i = 0; i < old->n; i++)
        if (!bh_str_map_get(m, old->p[i].key))
            return true;
    return false;
}

/* cpu and memory as they were, everything else as it is. */
static struct bh_str_map without_cpu_memory(struct bh_arena *a, const struct bh_str_map *m,
                                            const struct bh_str_map *old)
{
    struct bh_str_map r = {0};

    for (size_t i = 0; i < m->n; i++)
        if (!BH_V_ONE_OF(m->p[i].key, "cpu", "memory"))
            bh_str_map_put(a, &r, m->p[i].key, m->p[i].value);
    for (size_t i = 0; i < old->n; i++)
        if (BH_V_ONE_OF(old->p[i].key, "cpu", "memory"))
            bh_str_map_put(a, &r, old->p[i].key, old->p[i].value);
    return r;
}

static struct bh_core_v1_container unresized(struct bh_arena *a,
                                             const struct bh_core_v1_container *c,
                                             const struct bh_core_v1_container *old)
{
    struct bh_core_v1_container r = *c;

    r.resources.limits = without_cpu_memory(a, &c->resources.limits, &old->resources.limits);
    r.resources.requests = without_cpu_memory(a, &c->resources.requests, &old->resources.requests);
    return r;
}

static bool same_order(struct bh_field_errs *e, const char *list,
                       const struct bh_core_v1_container_vec *v,
                       const struct bh_core_v1_container_vec *old)
{
    const struct bh_fpath *at = BH_FPS(spec_at, bh_s(list));
    bool ok = true;

    if (v->n != old->n) {
        bh_fe_forbidden(e, at, "%s may not be added or removed on resize", list);
        return false;
    }
    for (size_t i = 0; i < v->n; i++)
        if (!bh_str_eq(v->p[i].name, old->p[i].name)) {
            bh_fe_forbidden(e, BH_FP(BH_FPI(at, i), "name"),
                            "%s may not be renamed or reordered on resize", list);
            ok = false;
        }
    return ok;
}

static void container_resize(struct bh_field_errs *e, const struct bh_fpath *at,
                             const struct bh_core_v1_container *c,
                             const struct bh_core_v1_container *old)
{
    const struct bh_fpath *r = BH_FP(at, "resources");

    if (removed(&c->resources.requests, &old->resources.requests))
        bh_fe_forbidden(e, BH_FP(r, "requests"), "resource requests cannot be removed");
    if (removed(&c->resources.limits, &old->resources.limits))
        bh_fe_forbidden(e, BH_FP(r, "limits"), "resource limits cannot be removed");
}

static void pod_level_resize(struct bh_field_errs *e,
                             const struct bh_core_v1_resource_requirements *r,
                             const struct bh_core_v1_resource_requirements *old)
{
    const struct bh_fpath *at = BH_FP(spec_at, "resources");
    struct bh_core_v1_resource_requirements m;

    if (old && !r) {
        bh_fe_forbidden(e, at, "pod-level resources cannot be removed");
        return;
    }
    if (!old || !r)
        return;
    if (removed(&r->requests, &old->requests))
        bh_fe_forbidden(e, BH_FP(at, "requests"), "pod-level resource requests cannot be removed");
    if (removed(&r->limits, &old->limits))
        bh_fe_forbidden(e, BH_FP(at, "limits"), "pod-level resource limits cannot be removed");
    m = *r;
    m.limits = without_cpu_memory(e->a, &r->limits, &old->limits);
    m.requests = without_cpu_memory(e->a, &r->requests, &old->requests);
    if (!bh_msg_equal(&bh_core_v1_resource_requirements_type, &m, old))
        bh_fe_forbidden(e, spec_at, "only cpu and memory resources are mutable at pod-level");
}

static bool resize_supported(const struct bh_core_v1_pod *p)
{
    const struct bh_core_v1_container_status_vec *v = &p->status.container_statuses;

    for (size_t i = 0; i < v->n; i++)
        if (v->p[i].state.running)
            return v->p[i].resources != NULL;
    return true;
}

static void init_resize(struct bh_field_errs *e, const struct bh_core_v1_container *c,
                        const struct bh_core_v1_container *old, size_t i)
{
    const struct bh_fpath *at = BH_FPI(BH_FP(spec_at, "initContainers"), i);
    struct bh_core_v1_container m;

    if (!bh_pod_restartable(old)) {
        if (!bh_msg_equal(&bh_core_v1_container_type, c, old))
            bh_fe_forbidden(e, spec_at, "resources for non-sidecar init containers are immutable");
        return;
    }
    container_resize(e, at, c, old);
    m = unresized(e->a, c, old);
    if (!bh_msg_equal(&bh_core_v1_container_type, &m, old))
        bh_fe_forbidden(e, at,
                        "only cpu and memory resources for init or sidecar containers are mutable");
}

static void only_error(struct bh_field_errs *e, const char *text)
{
    e->n = 0;
    bh_fe_forbidden(e, BH_FPS(NULL, BH_S("[]")), "%s", text);
}

static void resize(const struct bh_rules_env *env, struct bh_field_errs *e,
                   const struct bh_core_v1_pod *p, const struct bh_core_v1_pod *old)
{
    struct bh_str was = old->status.qos_class.n ? old->status.qos_class : bh_pod_qos(env, old);

    if (is_mirror(old)) {
        only_error(e, "static pods cannot be resized");
        return;
    }
    if (old->spec.os && bh_str_eqc(old->spec.os->name, "windows")) {
        only_error(e, "windows pods cannot be resized");
        return;
    }
    if (!bh_str_eq(was, bh_pod_qos(env, p)))
        bh_fe_invalid(e, spec_at, p->status.qos_class,
                      "Pod QOS Class may not change as a result of resizing");
    if (!resize_supported(old))
        bh_fe_forbidden(e, spec_at, "Pod running on node without support for resize");
    pod_level_resize(e, p->spec.resources, old->spec.resources);
    if (old->status.node_allocatable_resource_claim_statuses.n)
        bh_fe_forbidden(e, spec_at, "pods with node allocatable resource claims cannot be resized");
    if (!same_order(e, "containers", &p->spec.containers, &old->spec.containers) ||
        !same_order(e, "initContainers", &p->spec.init_containers, &old->spec.init_containers))
        return;
    for (size_t i = 0; i < p->spec.init_containers.n; i++)
        init_resize(e, &p->spec.init_containers.p[i], &old->spec.init_containers.p[i], i);
    for (size_t i = 0; i < p->spec.containers.n; i++) {
        struct bh_core_v1_container m =
            unresized(e->a, &p->spec.containers.p[i], &old->spec.containers.p[i]);

        container_resize(e, BH_FPI(BH_FP(spec_at, "containers"), i), &p->spec.containers.p[i],
                         &old->spec.containers.p[i]);
        if (!bh_msg_equal(&bh_core_v1_container_type, &m, &old->spec.containers.p[i]))
            bh_fe_forbidden(e, spec_at, "only cpu and memory resources are mutable");
    }
}

/* ---- status ---- */

static void conditions(struct bh_field_errs *e, const struct bh_core_v1_pod_condition_vec *v)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_fpath *ix = BH_FPI(BH_FP(status_at, "conditions"), i);

        if (v->p[i].observed_generation < 0)
            bh_fe_invalid_i64(e, BH_FP(ix, "observedGeneration"), v->p[i].observed_generation,
                              "must be a non-negative integer");
        if (!BH_V_ONE_OF(v->p[i].type, "PodScheduled", "Ready", "Initialized"))
            bh_v_check(e, BH_FP(ix, "Type"), bh_check_qualified_name, v->p[i].type);
    }
}

/* May a container that ended with that code start again? */
static bool may_restart(const struct bh_core_v1_pod_spec *s, const struct bh_core_v1_container *c,
                        int32_t code)
{
    const struct bh_core_v1_container_restart_rule_vec *v;
    struct bh_str policy = s->restart_policy;

    if (!c)
        return false;
    v = &c->restart_policy_rules;
    for (size_t i = 0; i < v->n; i++) {
        bool in = false;

        if (!v->p[i].exit_codes)
            continue;
        for (size_t k = 0; k < v->p[i].exit_codes->values.n; k++)
            in = in || v->p[i].exit_codes->values.p[k] == code;
        if (in == bh_str_eqc(v->p[i].exit_codes->operator, "In"))
            return bh_str_starts(v->p[i].action, BH_S("Restart"));
    }
    if (c->has_restart_policy)
        policy = c->restart_policy;
    return bh_str_eqc(policy, "Always") || (bh_str_eqc(policy, "OnFailure") && code != 0);
}

static const struct bh_core_v1_container *named(const struct bh_core_v1_container_vec *v,
                                                struct bh_str name)
{
    for (size_t i = 0; v && i < v->n; i++)
        if (bh_str_eq(v->p[i].name, name))
            return &v->p[i];
    return NULL;
}

static void transitions(struct bh_field_errs *e, const char *list,
                        const struct bh_core_v1_container_status_vec *now,
                        const struct bh_core_v1_container_status_vec *was,
                        const struct bh_core_v1_pod_spec *s,
                        const struct bh_core_v1_container_vec *containers)
{
    for (size_t i = 0; i < was->n; i++) {
        const struct bh_core_v1_container_state_terminated *t = was->p[i].state.terminated;

        for (size_t k = 0; t && k < now->n; k++) {
            if (!bh_str_eq(now->p[k].name, was->p[i].name) || now->p[k].state.terminated)
                continue;
            if (!may_restart(s, named(containers, was->p[i].name), t->exit_code))
                bh_fe_forbidden(e, BH_FP(BH_FPI(BH_FPS(status_at, bh_s(list)), i), "state"),
                                "may not be transitioned to non-terminated state");
            break;
        }
    }
}

static void claim_statuses(struct bh_field_errs *e, const struct bh_core_v1_pod *p)
{
    const struct bh_core_v1_pod_resource_claim_status_vec *v = &p->status.resource_claim_statuses;

    for (size_t i = 0; i < v->n; i++) {
        const struct bh_fpath *ix = BH_FPI(BH_FP(status_at, "resourceClaimStatuses"), i);
        bool known = false;

        for (size_t k = 0; k < p->spec.resource_claims.n && !known; k++)
            known = bh_str_eq(p->spec.resource_claims.p[k].name, v->p[i].name);
        if (!known)
            bh_fe_invalid(e, BH_FP(ix, "name"), v->p[i].name,
                          "must match the name of an entry in `spec.resourceClaims`");
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].name, v->p[i].name)) {
                bh_fe_duplicate(e, BH_FP(ix, "name"), v->p[i].name);
                break;
            }
        if (v->p[i].has_resource_claim_name)
            bh_v_check(e, BH_FP(ix, "resourceClaimName"), bh_check_dns1123_subdomain,
                       v->p[i].resource_claim_name);
    }
}

static void mapping(struct bh_field_errs *e, const struct bh_fpath *at,
                    const struct bh_core_v1_pod_spec *s,
                    const struct bh_core_v1_container_extended_resource_request_vec *v, size_t i)
{
    const struct bh_core_v1_container_extended_resource_request *m = &v->p[i];
    const struct bh_fpath *ix = BH_FPI(BH_FP(at, "requestMappings"), i);
    const struct bh_core_v1_container *c = named(&s->containers, m->container_name);

    if (!c)
        c = named(&s->init_containers, m->container_name);
    if (!c)
        bh_fe_invalid(
            e, BH_FP(ix, "containerName"), m->container_name,
            "must match the name of an entry in spec.initContainers.name or spec.containers.name");
    else if (!bh_str_map_get(&c->resources.requests, m->resource_name))
        bh_fe_invalid(e, BH_FP(ix, "resourceName"), m->resource_name,
                      "must match the extended resource name of an entry in "
                      "spec.initContainers.resources.requests or "
                      "spec.containers.resources.requests");
    bh_v_check(e, BH_FP(at, "requestName"), bh_check_dns1123_label, m->request_name);
    for (size_t k = 0; k < i; k++) {
        if (!bh_str_eq(v->p[k].container_name, m->container_name) ||
            !bh_str_eq(v->p[k].resource_name, m->resource_name) ||
            !bh_str_eq(v->p[k].request_name, m->request_name))
            continue;
        bh_fe_duplicate(e, BH_FP(ix, "containerName"), m->container_name);
        bh_fe_duplicate(e, BH_FP(ix, "resourceName"), m->resource_name);
        bh_fe_duplicate(e, BH_FP(ix, "requestName"), m->request_name);
        break;
    }
}

static void extended_status(struct bh_field_errs *e, const struct bh_core_v1_pod *p)
{
    const struct bh_core_v1_pod_extended_resource_claim_status *s =
        p->status.extended_resource_claim_status;
    const struct bh_fpath *at = BH_FP(status_at, "extendedResourceClaimStatus");

    if (!s)
        return;
    if (s->request_mappings.n == 0)
        bh_fe_required(e, BH_FP(at, "requestMappings"), "at least one request mapping is required");
    for (size_t i = 0; i < s->request_mappings.n; i++)
        mapping(e, at, &p->spec, &s->request_mappings, i);
    if (s->resource_claim_name.n == 0)
        bh_fe_required(e, BH_FP(at, "resourceClaimName"), NULL);
    else
        bh_v_check(e, BH_FP(at, "resourceClaimName"), bh_check_dns1123_subdomain,
                   s->resource_claim_name);
}

static bool uses_claim(const struct bh_core_v1_pod *p, struct bh_str claim)
{
    const struct bh_core_v1_pod_resource_claim_vec *own = &p->spec.resource_claims;
    const struct bh_core_v1_pod_resource_claim_status_vec *made =
        &p->status.resource_claim_statuses;

    for (size_t i = 0; i < own->n; i++)
        if (own->p[i].has_resource_claim_name && bh_str_eq(own->p[i].resource_claim_name, claim))
            return true;
    for (size_t i = 0; i < made->n; i++)
        if (made->p[i].has_resource_claim_name && bh_str_eq(made->p[i].resource_claim_name, claim))
            return true;
    return false;
}

/* What claims take of the node's own resources. */
static void native_statuses(struct bh_field_errs *e, const struct bh_core_v1_pod *p)
{
    const struct bh_core_v1_node_allocatable_resource_claim_status_vec *v =
        &p->status.node_allocatable_resource_claim_statuses;

    for (size_t i = 0; i < v->n; i++) {
        const struct bh_core_v1_node_allocatable_resource_claim_status *s = &v->p[i];
        const struct bh_fpath *ix =
            BH_FPI(BH_FP(status_at, "nodeAllocatableResourceClaimStatuses"), i);

        if (s->resource_claim_name.n == 0)
            bh_fe_required(e, BH_FP(ix, "resourceClaimName"), "must not be empty");
        if (!uses_claim(p, s->resource_claim_name))
            bh_fe_invalid(e, BH_FP(ix, "resourceClaimName"), s->resource_claim_name,
                          "no mapping found in pod reference");
        if (s->containers.n == 0)
            bh_fe_required(e, BH_FP(ix, "containers"), "must not be empty");
        if (s->resources.n == 0)
            bh_fe_required(e, BH_FP(ix, "resources"), "must not be empty");
        for (size_t k = 0; k < s->resources.n; k++) {
            const struct bh_fpath *key = BH_FPK(BH_FP(ix, "resources"), s->resources.p[k].key);

            if (!bh_v_is_native_resource(s->resources.p[k].key))
                bh_fe_invalid(e, key, s->resources.p[k].key,
                              "must be a node allocatable resource name");
            if (bh_quantity_sign(bh_v_qty(s->resources.p[k].value)) < 0)
                bh_fe_invalid(e, key, s->resources.p[k].value, "must be non-negative");
        }
    }
}

/* At most one address of each family. */
static bool one_per_family(struct bh_str a, struct bh_str b, size_t n)
{
    struct bh_ip x, y;

    return n == 2 && bh_ip_parse(a, &x) && bh_ip_parse(b, &y) && x.v6 != y.v6;
}

static void pod_ips(struct bh_field_errs *e, const struct bh_core_v1_pod_ip_vec *v,
                    const struct bh_core_v1_pod_ip_vec *old)
{
    const struct bh_fpath *at = BH_FP(status_at, "podIPs");

    for (size_t i = 0; i < v->n; i++) {
        bool was = false;

        for (size_t k = 0; k < old->n && !was; k++)
            was = bh_str_eq(old->p[k].ip, v->p[i].ip);
        if (!was)
            bh_v_check(e, BH_FPI(at, i), bh_check_ip, v->p[i].ip);
    }
    if (v->n > 1 && !one_per_family(v->p[0].ip, v->p[1].ip, v->n))
        bh_fe_invalid_text(e, at, bh_v_go_json_list(e->a, &bh_core_v1_pod_ip_type, v),
                           "may specify no more than one IP for each IP family");
    for (size_t i = 0; i < v->n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].ip, v->p[i].ip)) {
                bh_fe_duplicate_text(e, BH_FPI(at, i),
                                     bh_v_go_json(e->a, &bh_core_v1_pod_ip_type, &v->p[i]));
                break;
            }
}

static void host_ips(struct bh_field_errs *e, const struct bh_core_v1_pod_status *s,
                     const struct bh_core_v1_pod_status *old)
{
    const struct bh_fpath *at = BH_FP(status_at, "hostIPs");
    const struct bh_core_v1_host_ip_vec *v = &s->host_ips;

    if (v->n == 0)
        return;
    if (!bh_str_eq(s->host_ip, v->p[0].ip))
        bh_fe_invalid(e, BH_FP(BH_FPI(at, 0), "ip"), v->p[0].ip, "must be equal to `hostIP`");
    for (size_t i = 0; i < v->n; i++) {
        bool was = false;

        for (size_t k = 0; k < old->host_ips.n && !was; k++)
            was = bh_str_eq(old->host_ips.p[k].ip, v->p[i].ip);
        if (!was)
            bh_v_check(e, BH_FPI(at, i), bh_check_ip, v->p[i].ip);
    }
    if (v->n > 1 && !one_per_family(v->p[0].ip, v->p[1].ip, v->n))
        bh_fe_invalid_text(e, at, bh_v_go_json_list(e->a, &bh_core_v1_host_ip_type, v),
                           "may specify no more than one IP for each IP family");
}

/* ---- device health ---- */

static bool names_resource(struct bh_arena *a, const struct bh_core_v1_container *c,
                           struct bh_str name)
{
    if (!bh_str_starts(name, BH_S("claim:")))
        return bh_str_map_get(&c->resources.requests, name) != NULL;
    for (size_t i = 0; i < c->resources.claims.n; i++) {
        const struct bh_core_v1_resource_claim *r = &c->resources.claims.p[i];
        struct bh_str want = bh_str_fmt(a, "claim:%.*s%s%.*s", BH_SF(r->name),
                                        r->request.n ? "/" : "", BH_SF(r->request));

        if (bh_str_eq(want, name))
            return true;
    }
    return false;
}

static void health(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_resource_health_vec *v)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_fpath *ix = BH_FPI(BH_FP(at, "resources"), i),
                              *message = BH_FP(ix, "message");

        if (!BH_V_ONE_OF(v->p[i].health, "Healthy", "Unhealthy", "Unknown"))
            BH_V_NOT_SUPPORTED(e, BH_FP(ix, "health"), v->p[i].health, "Healthy", "Unhealthy",
                               "Unknown");
        if (v->p[i].has_message && v->p[i].message.n == 0)
            bh_fe_required(e, message, "must be non-empty if specified");
        else if (v->p[i].has_message && v->p[i].message.n > HEALTH_MESSAGE_BYTES_MAX)
            bh_fe_too_long(e, message, HEALTH_MESSAGE_BYTES_MAX);
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].resource_id, v->p[i].resource_id)) {
                bh_fe_duplicate(e, BH_FP(ix, "resourceID"), v->p[i].resource_id);
                break;
            }
    }
}

static void device_health(struct bh_field_errs *e, const char *list,
                          const struct bh_core_v1_container_status_vec *v,
                          const struct bh_core_v1_container_vec *containers)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_core_v1_container *c = named(containers, v->p[i].name);
        const struct bh_fpath *at =
            BH_FP(BH_FPI(BH_FPS(status_at, bh_s(list)), i), "allocatedResourcesStatus");

        for (size_t k = 0; k < v->p[i].allocated_resources_status.n; k++) {
            const struct bh_core_v1_resource_status *r = &v->p[i].allocated_resources_status.p[k];
            const struct bh_fpath *ix = BH_FPI(at, k);

            if (c && !names_resource(e->a, c, r->name))
                bh_fe_invalid(
                    e, BH_FP(ix, "name"), r->name, "%s",
                    bh_str_starts(r->name, BH_S("claim:"))
                        ? "must match one of the container's resource claims in a format "
                          "'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
                        : "must match one of the container's resource requests");
            health(e, ix, &r->resources);
        }
    }
}

static void no_device_health(struct bh_field_errs *e,
                             const struct bh_core_v1_container_status_vec *v)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->p[i].allocated_resources_status.n)
            bh_fe_forbidden(e,
                            BH_FP(BH_FPI(BH_FP(status_at, "ephemeralContainerStatuses"), i),
                                  "allocatedResourcesStatus"),
                            "must not be specified in container status");
}

static void nominated(const struct bh_rules_env *env, struct bh_field_errs *e,
                      const struct bh_core_v1_pod *p, const struct bh_core_v1_pod *old)
{
    const struct bh_fpath *at = BH_FP(status_at, "nominatedNodeName");
    struct bh_str name = p->status.nominated_node_name;

    if (name.n == 0 || bh_str_eq(name, old->status.nominated_node_name))
        return;
    bh_v_check(e, at, bh_v_node_name, name);
    if (old->spec.node_name.n && bh_rules_gate(env, "ClearingNominatedNodeNameAfterBinding"))
        bh_fe_forbidden(e, at, "may not be set on pods that are already bound to a node");
}

static void status_update(const struct bh_rules_env *env, struct bh_field_errs *e,
                          const struct bh_core_v1_pod *p, const struct bh_core_v1_pod *old,
                          const struct bh_pod_opts *o)
{
    const struct bh_core_v1_pod_status *s = &p->status, *was = &old->status;

    bh_v_meta_update(e, meta_at, &p->metadata, &old->metadata, BH_VM_KUBE);
    annotation_updates(e, p, old, o);
    conditions(e, &s->conditions);
    nominated(env, e, p, old);
    if (s->observed_generation < 0)
        bh_fe_invalid_i64(e, BH_FP(status_at, "observedGeneration"), s->observed_generation,
                          "must be a non-negative integer");
    bh_v_immutable_str(e, BH_FP(status_at, "qosClass"), s->qos_class, was->qos_class);
    transitions(e, "containerStatuses", &s->container_statuses, &was->container_statuses,
                &old->spec, &old->spec.containers);
    transitions(e, "initContainerStatuses", &s->init_container_statuses,
                &was->init_container_statuses, &old->spec, &old->spec.init_containers);
    transitions(e, "ephemeralContainerStatuses", &s->ephemeral_container_statuses,
                &was->ephemeral_container_statuses, &old->spec, NULL);
    claim_statuses(e, p);
    extended_status(e, p);
    native_statuses(e, p);
    pod_ips(e, &s->pod_ips, &was->pod_ips);
    host_ips(e, s, was);
    device_health(e, "containerStatuses", &s->container_statuses, &p->spec.containers);
    device_health(e, "initContainerStatuses", &s->init_container_statuses,
                  &p->spec.init_containers);
    no_device_health(e, &s->ephemeral_container_statuses);
}

void bh_v_pod_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                     const void *prev, struct bh_field_errs *e)
{
    const struct bh_core_v1_pod *p = obj, *old = prev;
    struct bh_pod_opts o = {.env = env, .is_pod = true};

    if (bh_str_eqc(sub, "status")) {
        status_update(env, e, p, old, &o);
        return;
    }
    bh_v_meta_update(e, meta_at, &p->metadata, &old->metadata, BH_VM_KUBE);
    bh_v_pod_meta_and_spec(e, p, &o);
    if (bh_str_eqc(sub, "resize")) {
        resize(env, e, p, old);
        return;
    }
    annotation_updates(e, p, old, &o);
    if (bh_str_eqc(sub, "ephemeralcontainers"))
        ephemeral_update(e, p, old);
    else
        spec_update(e, &p->spec, &old->spec, &o);
}
