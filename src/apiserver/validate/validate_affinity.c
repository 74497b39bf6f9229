/* Where a pod may run: affinity, spreading, tolerations. */
#include "apiserver/validate/validate_pod.h"

static void label_keys(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_str_vec *keys, const struct bh_meta_v1_label_selector *s)
{
    if (keys->n == 0)
        return;
    if (!s) {
        bh_fe_forbidden(e, at, "must not be specified when labelSelector is not set");
        return;
    }
    for (size_t i = 0; i < keys->n; i++)
        bh_v_label_name(e, BH_FPI(at, i), keys->p[i]);
}

static ptrdiff_t index_of(const struct bh_str_vec *v, struct bh_str s)
{
    for (size_t i = v->n; i > 0; i--)
        if (bh_str_eq(v->p[i - 1], s))
            return (ptrdiff_t)i - 1;
    return -1;
}

/* Keys that were merged into the selector stand there once more; a key that stands there twice was
 * given in both. */
static void keys_in_selector(struct bh_field_errs *e, const struct bh_fpath *at,
                             const struct bh_str_vec *keys,
                             const struct bh_meta_v1_label_selector *s)
{
    for (size_t i = 0; i < s->match_expressions.n; i++) {
        struct bh_str key = s->match_expressions.p[i].key;
        bool before = bh_str_map_get(&s->match_labels, key) != NULL;
        ptrdiff_t ix = index_of(keys, key);

        for (size_t k = 0; k < i && !before; k++)
            before = bh_str_eq(s->match_expressions.p[k].key, key);
        if (ix >= 0 && before)
            bh_fe_invalid(e, BH_FPI(at, ix), key,
                          "exists in both matchLabelKeys and labelSelector");
    }
}

static void match_keys(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_str_vec *match, const struct bh_str_vec *mismatch,
                       const struct bh_meta_v1_label_selector *s)
{
    const struct bh_fpath *mat = BH_FP(at, "matchLabelKeys");

    label_keys(e, mat, match, s);
    label_keys(e, BH_FP(at, "mismatchLabelKeys"), mismatch, s);
    if (s)
        keys_in_selector(e, at, match, s);
    for (size_t i = 0; i < match->n; i++)
        if (bh_v_has(mismatch, match->p[i]))
            bh_fe_invalid(e, BH_FPI(mat, i), match->p[i],
                          "exists in both matchLabelKeys and mismatchLabelKeys");
}

static void pod_term(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_core_v1_pod_affinity_term *t, const struct bh_pod_opts *o)
{
    const struct bh_fpath *key = BH_FP(at, "topologyKey");

    bh_v_label_selector(e, BH_FP(at, "labelSelector"), t->label_selector, o->bad_values);
    bh_v_label_selector(e, BH_FP(at, "namespaceSelector"), t->namespace_selector, o->bad_values);
    for (size_t i = 0; i < t->namespaces.n; i++)
        bh_v_check(e, BH_FP(at, "namespace"), bh_check_dns1123_label, t->namespaces.p[i]);
    match_keys(e, at, &t->match_label_keys, &t->mismatch_label_keys, t->label_selector);
    if (t->topology_key.n == 0)
        bh_fe_required(e, key, "can not be empty");
    bh_v_label_name(e, key, t->topology_key);
}

static void weight(struct bh_field_errs *e, const struct bh_fpath *at, int32_t w)
{
    if (w <= 0 || w > 100)
        bh_fe_invalid_i64(e, BH_FP(at, "weight"), w, "must be in the range 1-100");
}

static void pod_terms(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_core_v1_pod_affinity_term_vec *required,
                      const struct bh_core_v1_weighted_pod_affinity_term_vec *preferred,
                      const struct bh_pod_opts *o)
{
    const struct bh_fpath *rat = BH_FP(at, "requiredDuringSchedulingIgnoredDuringExecution");
    const struct bh_fpath *pat = BH_FP(at, "preferredDuringSchedulingIgnoredDuringExecution");

    for (size_t i = 0; i < required->n; i++)
        pod_term(e, BH_FPI(rat, i), &required->p[i], o);
    for (size_t i = 0; i < preferred->n; i++) {
        weight(e, BH_FPI(pat, i), preferred->p[i].weight);
        pod_term(e, BH_FP(BH_FPI(pat, i), "podAffinityTerm"), &preferred->p[i].pod_affinity_term,
                 o);
    }
}

static void node_affinity(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_core_v1_node_affinity *n, const struct bh_pod_opts *o)
{
    const struct bh_fpath *pat = BH_FP(at, "preferredDuringSchedulingIgnoredDuringExecution");

    if (n->required_during_scheduling_ignored_during_execution)
        bh_v_node_selector(e, BH_FP(at, "requiredDuringSchedulingIgnoredDuringExecution"),
                           n->required_during_scheduling_ignored_during_execution, o->bad_values);
    for (size_t i = 0; i < n->preferred_during_scheduling_ignored_during_execution.n; i++) {
        const struct bh_core_v1_preferred_scheduling_term *t =
            &n->preferred_during_scheduling_ignored_during_execution.p[i];

        weight(e, BH_FPI(pat, i), t->weight);
        /* Label values of a preference may be anything: it can be met all the same. */
        bh_v_node_selector_term(e, BH_FP(BH_FPI(pat, i), "preference"), &t->preference, true);
    }
}

void bh_v_affinity(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_affinity *a, const struct bh_pod_opts *o)
{
    if (!a)
        return;
    if (a->node_affinity)
        node_affinity(e, BH_FP(at, "nodeAffinity"), a->node_affinity, o);
    if (a->pod_affinity)
        pod_terms(e, BH_FP(at, "podAffinity"),
                  &a->pod_affinity->required_during_scheduling_ignored_during_execution,
                  &a->pod_affinity->preferred_during_scheduling_ignored_during_execution, o);
    if (a->pod_anti_affinity)
        pod_terms(e, BH_FP(at, "podAntiAffinity"),
                  &a->pod_anti_affinity->required_during_scheduling_ignored_during_execution,
                  &a->pod_anti_affinity->preferred_during_scheduling_ignored_during_execution, o);
}

/* ---- spreading ---- */

static void positive(struct bh_field_errs *e, const struct bh_fpath *at, int64_t v)
{
    if (v <= 0)
        bh_fe_invalid_i64(e, at, v, "must be greater than zero");
}

static void inclusion(struct bh_field_errs *e, const struct bh_fpath *at, bool has,
                      struct bh_str policy)
{
    if (has && !BH_V_ONE_OF(policy, "Honor", "Ignore"))
        BH_V_NOT_SUPPORTED(e, at, policy, "Honor", "Ignore");
}

static void constraint(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_topology_spread_constraint_vec *v, size_t i,
                       const struct bh_pod_opts *o)
{
    static const struct bh_str_vec no_keys;
    const struct bh_core_v1_topology_spread_constraint *c = &v->p[i];

    positive(e, BH_FP(at, "maxSkew"), c->max_skew);
    if (c->topology_key.n == 0)
        bh_fe_required(e, BH_FP(at, "topologyKey"), "can not be empty");
    if (!BH_V_ONE_OF(c->when_unsatisfiable, "DoNotSchedule", "ScheduleAnyway"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "whenUnsatisfiable"), c->when_unsatisfiable,
                           "DoNotSchedule", "ScheduleAnyway");
    for (size_t k = i + 1; k < v->n; k++)
        if (bh_str_eq(v->p[k].topology_key, c->topology_key) &&
            bh_str_eq(v->p[k].when_unsatisfiable, c->when_unsatisfiable)) {
            bh_fe_duplicate(e, BH_FP(at, "{topologyKey, whenUnsatisfiable}"),
                            bh_str_fmt(e->a, "{%.*s, %.*s}", BH_SF(c->topology_key),
                                       BH_SF(c->when_unsatisfiable)));
            break;
        }
    if (c->has_min_domains) {
        positive(e, BH_FP(at, "minDomains"), c->min_domains);
        if (!bh_str_eqc(c->when_unsatisfiable, "DoNotSchedule"))
            bh_fe_invalid_i64(
                e, BH_FP(at, "minDomains"), c->min_domains,
                "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not %.*s",
                BH_SF(c->when_unsatisfiable));
    }
    inclusion(e, BH_FP(at, "nodeAffinityPolicy"), c->has_node_affinity_policy,
              c->node_affinity_policy);
    inclusion(e, BH_FP(at, "nodeTaintsPolicy"), c->has_node_taints_policy, c->node_taints_policy);
    match_keys(e, at, &c->match_label_keys, &no_keys, c->label_selector);
    if (!o->bad_values)
        bh_v_label_selector(e, BH_FP(at, "labelSelector"), c->label_selector, false);
}

void bh_v_spread(struct bh_field_errs *e, const struct bh_fpath *at,
                 const struct bh_core_v1_topology_spread_constraint_vec *v,
                 const struct bh_pod_opts *o)
{
    for (size_t i = 0; i < v->n; i++)
        constraint(e, BH_FPI(at, i), v, i, o);
}

/* ---- tolerations ---- */

/* All faults of a label value as one text, joined by semicolons. */
static void joined_value(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str value)
{
    struct bh_str_vec all = bh_names_all(e->a, bh_check_label_value, value);
    struct bh_str text = BH_S("");

    for (size_t i = 0; i < all.n; i++)
        text = bh_str_fmt(e->a, "%.*s%s%.*s", BH_SF(text), i ? ";" : "", BH_SF(all.p[i]));
    if (all.n)
        bh_fe_invalid(e, at, value, "%.*s", BH_SF(text));
}

static void compared(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_core_v1_toleration *t, const struct bh_pod_opts *o)
{
    int64_t v;

    if (!bh_rules_gate(o->env, "TaintTolerationComparisonOperators"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "operator"), t->operator, "Equal", "Exists", "Lt", "Gt");
    else if (!bh_str_i64(t->value, INT64_MIN, INT64_MAX, &v))
        bh_fe_invalid(e, BH_FP(at, "value"), t->value,
                      "must be a valid decimal integer in canonical form without leading zeros");
}

static void toleration(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_toleration *t, const struct bh_pod_opts *o)
{
    const struct bh_fpath *op = BH_FP(at, "operator"), *effect = BH_FP(at, "effect");

    if (t->key.n)
        bh_v_label_name(e, BH_FP(at, "key"), t->key);
    if (t->key.n == 0 && !bh_str_eqc(t->operator, "Exists"))
        bh_fe_invalid(e, op, t->operator, "operator must be Exists when `key` is empty, which "
                                          "means \"match all values and all keys\"");
    if (t->has_toleration_seconds && !bh_str_eqc(t->effect, "NoExecute"))
        bh_fe_invalid(e, effect, t->effect,
                      "effect must be 'NoExecute' when `tolerationSeconds` is set");
    if (t->operator.n == 0 || bh_str_eqc(t->operator, "Equal")) {
        joined_value(e, op, t->value);
    } else if (bh_str_eqc(t->operator, "Exists")) {
        if (t->value.n)
            bh_fe_invalid(e, op, t->value, "value must be empty when `operator` is 'Exists'");
    } else if (BH_V_ONE_OF(t->operator, "Lt", "Gt")) {
        compared(e, at, t, o);
    } else {
        BH_V_NOT_SUPPORTED(e, op, t->operator, "Equal", "Exists");
    }
    if (t->effect.n && !BH_V_ONE_OF(t->effect, "NoSchedule", "PreferNoSchedule", "NoExecute"))
        BH_V_NOT_SUPPORTED(e, effect, t->effect, "NoSchedule", "PreferNoSchedule", "NoExecute");
}

void bh_v_tolerations(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_core_v1_toleration_vec *v, const struct bh_pod_opts *o)
{
    for (size_t i = 0; i < v->n; i++)
        toleration(e, BH_FPI(at, i), &v->p[i], o);
}
