/* What whoever changes the status of a disruption budget has to say in it: the evictions of the API
 * server, and the controller. Thread: any. */
#ifndef BH_API_BUDGET_H
#define BH_API_BUDGET_H

#include "base/arena.h"
#include "data/time_fmt.h"

struct bh_core_v1_pod;
struct bh_meta_v1_condition;
struct bh_meta_v1_condition_vec;
struct bh_policy_v1_pod_disruption_budget;

/* Sets the condition of c's type: its time of transition is now when its status changes, and stays
 * otherwise. The list is copied into a; the texts of c are borrowed. */
void bh_condition_set(struct bh_arena *a, struct bh_meta_v1_condition_vec *v,
                      const struct bh_meta_v1_condition *c, struct bh_time now);
const struct bh_meta_v1_condition *bh_condition_find(const struct bh_meta_v1_condition_vec *v,
                                                     const char *type);
/* DisruptionAllowed follows from status.disruptionsAllowed. */
void bh_budget_say(struct bh_arena *a, struct bh_policy_v1_pod_disruption_budget *b,
                   struct bh_time now);
bool bh_budget_said(const struct bh_policy_v1_pod_disruption_budget *b); /* it would not change */
/* The pod's condition Ready is True: it counts as healthy. */
bool bh_pod_is_ready(const struct bh_core_v1_pod *p);

#endif
