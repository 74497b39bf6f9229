/* What preemption for one pod and for a whole group share. */
#ifndef BH_SCHEDULER_PREEMPT_INT_H
#define BH_SCHEDULER_PREEMPT_INT_H

#include "api/gen/policy_v1.h"
#include "data/selector.h"
#include "scheduler/sched_int.h"

struct sched_budget {
    struct bh_str ns;
    struct bh_label_selector sel;
    int64_t allowed;
    const struct bh_policy_v1_pod_disruption_budget *b; /* the informer's */
};

/* All budgets, in the arena; their number. */
size_t sched_budgets_read(struct bh_scheduler *s, struct bh_arena *a, struct sched_budget **ret);
/* Whether the loss of the pod would break a budget, given those before it: left has one number per
 * budget, first what it allows. */
bool sched_breaks_budget(const struct sched_budget *budgets, size_t n, const struct spod *pod,
                         int64_t *left);

#endif
