/* policy/v1: disruption budgets. Their names are not checked, as upstream's are not: what makes a
 * path segment will do. */
#include "apiserver/validate/validate_int.h"

#include "api/gen/policy_v1.h"
#include "base/buf.h"
#include "data/json.h"

static const char bad_percent[] =
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
    "'93%', regex used for validation is '[0-9]+%')";

/* [0-9]+% ; *ret is the number, and anything above 100 may be any number above 100. */
static bool percent(struct bh_str s, int *ret)
{
    int v = 0;

    if (s.n < 2 || s.p[s.n - 1] != '%')
        return false;
    for (size_t i = 0; i + 1 < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        v = v > 100 ? v : v * 10 + (s.p[i] - '0');
    }
    *ret = v;
    return true;
}

void bh_v_int_or_percent(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_intstr v)
{
    int ignored;

    if (!v.is_str)
        bh_v_nonnegative(e, at, v.i);
    else if (!percent(v.s, &ignored))
        bh_fe_invalid(e, at, v.s, "%s", bad_percent);
}

void bh_v_at_most_100_percent(struct bh_field_errs *e, const struct bh_fpath *at,
                              struct bh_intstr v)
{
    int n;

    if (v.is_str && percent(v.s, &n) && n > 100)
        bh_fe_invalid(e, at, v.s, "must not be greater than 100%%");
}

int bh_v_int_or_percent_value(struct bh_intstr v)
{
    int64_t n = 0;
    int p = 0;

    if (!v.is_str)
        return v.i;
    if (percent(v.s, &p))
        return p;
    return bh_str_i64(v.s, INT32_MIN, INT32_MAX, &n) ? (int)n : 0;
}

struct bh_str bh_v_intstr_json(struct bh_arena *a, struct bh_intstr v)
{
    BH_AUTO_BUF b = {0};

    if (!v.is_str)
        return bh_str_fmt(a, "%d", (int)v.i);
    bh_json_write_str(&b, v.s);
    return bh_str_dup(a, bh_buf_str(&b));
}

bool bh_v_bad_label_selector(struct bh_arena *a, const struct bh_meta_v1_label_selector *s)
{
    struct bh_field_errs e = {.a = a};

    bh_v_label_selector(&e, NULL, s, false);
    return e.n > 0;
}

static void budget(struct bh_field_errs *e, const struct bh_policy_v1_pod_disruption_budget_spec *s,
                   bool bad_values)
{
    const struct bh_fpath *at = BH_FP(NULL, "spec"), *min = BH_FP(at, "minAvailable"),
                          *max = BH_FP(at, "maxUnavailable");

    if (s->has_min_available && s->has_max_unavailable)
        bh_fe_invalid_text(e, at,
                           bh_v_go_json(e->a, &bh_policy_v1_pod_disruption_budget_spec_type, s),
                           "minAvailable and maxUnavailable cannot be both set");
    if (s->has_min_available) {
        bh_v_int_or_percent(e, min, s->min_available);
        bh_v_at_most_100_percent(e, min, s->min_available);
    }
    if (s->has_max_unavailable) {
        bh_v_int_or_percent(e, max, s->max_unavailable);
        bh_v_at_most_100_percent(e, max, s->max_unavailable);
    }
    bh_v_label_selector(e, BH_FP(at, "selector"), s->selector, bad_values);
    if (s->has_unhealthy_pod_eviction_policy &&
        !BH_V_ONE_OF(s->unhealthy_pod_eviction_policy, "AlwaysAllow", "IfHealthyBudget"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "unhealthyPodEvictionPolicy"),
                           s->unhealthy_pod_eviction_policy, "AlwaysAllow", "IfHealthyBudget");
}

void bh_v_budget_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    (void)env;
    budget(e, &((const struct bh_policy_v1_pod_disruption_budget *)obj)->spec, false);
}

void bh_v_budget_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                        const void *prev, struct bh_field_errs *e)
{
    const struct bh_policy_v1_pod_disruption_budget *b = obj, *old = prev;
    const struct bh_fpath *at = BH_FP(NULL, "status");

    (void)env;
    if (!bh_str_eqc(sub, "status")) {
        budget(e, &b->spec, bh_v_bad_label_selector(e->a, old->spec.selector));
        return;
    }
    bh_v_conditions(e, BH_FP(at, "conditions"), &b->status.conditions);
    bh_v_nonnegative(e, BH_FP(at, "disruptionsAllowed"), b->status.disruptions_allowed);
    bh_v_nonnegative(e, BH_FP(at, "currentHealthy"), b->status.current_healthy);
    bh_v_nonnegative(e, BH_FP(at, "desiredHealthy"), b->status.desired_healthy);
    bh_v_nonnegative(e, BH_FP(at, "expectedPods"), b->status.expected_pods);
}

void bh_v_budget_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_policy_v1_pod_disruption_budget *b = obj;

    (void)env;
    b->status = (struct bh_policy_v1_pod_disruption_budget_status){0};
    b->metadata.generation = 1;
}

void bh_v_budget_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                const void *prev)
{
    struct bh_policy_v1_pod_disruption_budget *b = obj;
    const struct bh_policy_v1_pod_disruption_budget *old = prev;

    (void)env;
    if (bh_str_eqc(sub, "status")) {
        b->spec = old->spec;
        return;
    }
    b->status = old->status;
    if (!bh_msg_equal(&bh_policy_v1_pod_disruption_budget_spec_type, &b->spec, &old->spec))
        b->metadata.generation = old->metadata.generation + 1;
}
