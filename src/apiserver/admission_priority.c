/* The Priority plugin: a pod's class gives its number and its preemption policy. */
#include "api/gen/core_v1.h"
#include "api/gen/scheduling_v1.h"
#include "apiserver/server_int.h"

#include <string.h>

static const struct bh_scheduling_v1_priority_class *find_class(struct bh_rq *rq,
                                                                struct bh_str name)
{
    struct bh_resource *res =
        bh_resource_find(rq->srv, BH_S("scheduling.k8s.io"), BH_S("priorityclasses"));
    struct bh_obj *o =
        res ? bh_pipeline_head(rq->srv->pipe, res->wc, bh_wc_key(res->wc, rq->a, BH_S(""), name))
            : NULL;

    return o ? bh_obj_struct(o) : NULL;
}

/* The two classes of the system are there even when none can be stored. */
static const struct bh_scheduling_v1_priority_class *system_class(struct bh_str name)
{
    static const struct bh_scheduling_v1_priority_class classes[] = {
        {.metadata = {.name = BH_S_INIT("system-cluster-critical")}, .value = 2000000000},
        {.metadata = {.name = BH_S_INIT("system-node-critical")}, .value = 2000001000},
    };

    for (size_t i = 0; i < BH_COUNT(classes); i++)
        if (bh_str_eq(classes[i].metadata.name, name))
            return &classes[i];
    return NULL;
}

/* The class that counts when a pod names none: the lowest of those marked as the global default. */
static const struct bh_scheduling_v1_priority_class *default_class(struct bh_rq *rq)
{
    struct bh_resource *res =
        bh_resource_find(rq->srv, BH_S("scheduling.k8s.io"), BH_S("priorityclasses"));
    const struct bh_scheduling_v1_priority_class *best = NULL;
    struct bh_keyset_pos pos = {0, 0};
    struct bh_keyset_entry *e;

    while (res && (e = bh_keyset_next(&res->wc->set, &pos))) {
        const struct bh_scheduling_v1_priority_class *c =
            bh_obj_struct(((struct bh_wc_entry *)e)->obj);

        if (c->global_default && (!best || c->value < best->value))
            best = c;
    }
    return best;
}

int bh_admit_priority(struct bh_rq *rq, struct bh_core_v1_pod *p, const struct bh_core_v1_pod *old)
{
    struct bh_core_v1_pod_spec *s = &p->spec;
    const struct bh_scheduling_v1_priority_class *c;
    struct bh_str policy = BH_S("PreemptLowerPriority");
    int32_t value = 0;

    (void)old;
    if (s->priority_class_name.n > 0) {
        c = find_class(rq, s->priority_class_name);
        if (!c)
            c = system_class(s->priority_class_name);
        if (!c)
            return bh_fail_forbidden(rq, rq->kind, p->metadata.name,
                                     "no PriorityClass with name %.*s was found",
                                     BH_SF(s->priority_class_name));
    } else {
        c = default_class(rq);
        if (c)
            s->priority_class_name = bh_str_dup(rq->a, c->metadata.name);
    }
    if (c) {
        value = c->value;
        if (c->has_preemption_policy)
            policy = bh_str_dup(rq->a, c->preemption_policy);
    }
    if (s->has_priority && s->priority != value)
        return bh_fail_forbidden(rq, rq->kind, p->metadata.name,
                                 "the integer value of priority (%d) must not be provided in pod "
                                 "spec; priority admission "
                                 "controller computed %d from the given PriorityClass name",
                                 s->priority, value);
    if (s->has_preemption_policy && !bh_str_eq(s->preemption_policy, policy))
        return bh_fail_forbidden(
            rq, rq->kind, p->metadata.name,
            "the string value of PreemptionPolicy (%.*s) must not be provided in pod spec; "
            "priority "
            "admission controller computed %.*s from the given PriorityClass name",
            BH_SF(s->preemption_policy), BH_SF(policy));
    s->priority = value;
    s->has_priority = true;
    s->preemption_policy = policy;
    s->has_preemption_policy = true;
    return 0;
}
