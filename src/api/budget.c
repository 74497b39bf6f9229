/* Conditions, and those of disruption budgets. */
#include "api/budget.h"

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/policy_v1.h"

#include <string.h>

#define ALLOWED "DisruptionAllowed"

const struct bh_meta_v1_condition *bh_condition_find(const struct bh_meta_v1_condition_vec *v,
                                                     const char *type)
{
    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eqc(v->p[i].type, type))
            return &v->p[i];
    return NULL;
}

void bh_condition_set(struct bh_arena *a, struct bh_meta_v1_condition_vec *v,
                      const struct bh_meta_v1_condition *c, struct bh_time now)
{
    struct bh_meta_v1_condition *p = bh_new_n(a, struct bh_meta_v1_condition, v->n + 1);
    size_t n = v->n, at = 0;

    if (n > 0)
        memcpy(p, v->p, n * sizeof(*p));
    while (at < n && !bh_str_eq(p[at].type, c->type))
        at++;
    now.nsec = 0;
    if (at < n && bh_str_eq(p[at].status, c->status))
        now = p[at].last_transition_time;
    p[at] = *c;
    p[at].last_transition_time = now;
    v->p = p;
    v->n = at < n ? n : n + 1;
}

void bh_budget_say(struct bh_arena *a, struct bh_policy_v1_pod_disruption_budget *b,
                   struct bh_time now)
{
    bool yes = b->status.disruptions_allowed > 0;
    const struct bh_meta_v1_condition c = {.type = BH_S_INIT(ALLOWED),
                                           .status = yes ? BH_S("True") : BH_S("False"),
                                           .reason = yes ? BH_S("SufficientPods")
                                                         : BH_S("InsufficientPods"),
                                           .observed_generation = b->status.observed_generation};

    bh_condition_set(a, &b->status.conditions, &c, now);
}

bool bh_budget_said(const struct bh_policy_v1_pod_disruption_budget *b)
{
    const struct bh_meta_v1_condition *c = bh_condition_find(&b->status.conditions, ALLOWED);
    bool yes = b->status.disruptions_allowed > 0;

    return c && b->status.observed_generation == b->metadata.generation &&
           bh_str_eqc(c->status, yes ? "True" : "False") &&
           bh_str_eqc(c->reason, yes ? "SufficientPods" : "InsufficientPods");
}

bool bh_pod_is_ready(const struct bh_core_v1_pod *p)
{
    for (size_t i = 0; i < p->status.conditions.n; i++)
        if (bh_str_eqc(p->status.conditions.p[i].type, "Ready"))
            return bh_str_eqc(p->status.conditions.p[i].status, "True");
    return false;
}
