/* Cells of dynamic resource allocation, and of pod groups. */
#include "apiserver/table_columns.h"

#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1alpha3.h"
#include "api/gen/resource_v1beta1.h"
#include "api/gen/resource_v1beta2.h"
#include "api/gen/scheduling_v1alpha2.h"
#include "base/buf.h"
#include "data/time_fmt.h"

/* One function serves all versions: what it reads stands in the same places. */
#define SAME_PLACE(a, b, field)                                                                    \
    _Static_assert(offsetof(struct a, field) == offsetof(struct b, field), #b " differs")
SAME_PLACE(bh_resource_v1_resource_claim, bh_resource_v1beta1_resource_claim, metadata);
SAME_PLACE(bh_resource_v1_resource_claim, bh_resource_v1beta1_resource_claim, status);
SAME_PLACE(bh_resource_v1_resource_claim, bh_resource_v1beta2_resource_claim, status);
SAME_PLACE(bh_resource_v1_resource_claim_status, bh_resource_v1beta1_resource_claim_status,
           allocation);
SAME_PLACE(bh_resource_v1_resource_claim_status, bh_resource_v1beta2_resource_claim_status,
           allocation);
SAME_PLACE(bh_resource_v1_resource_claim_status, bh_resource_v1beta1_resource_claim_status,
           reserved_for);
SAME_PLACE(bh_resource_v1_resource_claim_status, bh_resource_v1beta2_resource_claim_status,
           reserved_for);
SAME_PLACE(bh_resource_v1beta2_device_taint_rule, bh_resource_v1alpha3_device_taint_rule,
           spec.taint.time_added);

static void claim_state(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_resource_v1_resource_claim *c = obj;
    bool deleted = !bh_time_is_zero(c->metadata.deletion_timestamp);

    (void)now;
    if (!c->status.allocation)
        bh_cell_str(out, deleted ? BH_S("deleted") : BH_S("pending"));
    else
        bh_cell_fmt(out, "%sallocated%s", deleted ? "deleted," : "",
                    c->status.reserved_for.n ? ",reserved" : "");
}

static void rule_time_added(const void *obj, struct bh_time now, struct bh_buf *out)
{
    struct bh_time t =
        ((const struct bh_resource_v1beta2_device_taint_rule *)obj)->spec.taint.time_added;

    if (bh_time_is_zero(t))
        bh_cell_str(out, BH_S(""));
    else
        bh_cell_age(out, now, t);
}

static void group_policy(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_scheduling_v1alpha2_pod_group *g = obj;

    (void)now;
    bh_cell_str(out, g->spec.scheduling_policy.gang ? BH_S("Gang") : BH_S("Basic"));
}

static void group_workload(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_scheduling_v1alpha2_pod_group *g = obj;

    (void)now;
    if (g->spec.pod_group_template_ref && g->spec.pod_group_template_ref->workload)
        bh_cell_str(out, g->spec.pod_group_template_ref->workload->workload_name);
    else
        bh_cell_str(out, BH_S("<none>"));
}

static void group_status(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_scheduling_v1alpha2_pod_group *g = obj;
    struct bh_str text = BH_S("Pending"), disrupted = BH_S("");

    (void)now;
    for (size_t i = 0; i < g->status.conditions.n; i++) {
        const struct bh_meta_v1_condition *c = &g->status.conditions.p[i];

        if (bh_str_eqc(c->type, "PodGroupScheduled"))
            text = bh_str_eqc(c->status, "True") ? BH_S("Scheduled") : BH_S("Unschedulable");
        else if (bh_str_eqc(c->type, "DisruptionTarget"))
            disrupted = c->reason;
    }
    bh_cell_str(out, disrupted.n ? disrupted : text);
}

const struct bh_column_entry bh_columns_resource[] = {
    {"resourceclaim_state", claim_state}, {"devicetaintrule_timeadded", rule_time_added},
    {"podgroup_policy", group_policy},    {"podgroup_workload", group_workload},
    {"podgroup_status", group_status},    {NULL, NULL},
};
