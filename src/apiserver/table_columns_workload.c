/* Cells of workloads and of what guards them. */
#include "apiserver/table_columns.h"

#include "api/gen/policy_v1.h"
#include "base/buf.h"

static void int_or_string(bool set, struct bh_intstr v, struct bh_buf *out)
{
    if (!set)
        bh_cell_str(out, BH_S("N/A"));
    else if (v.is_str)
        bh_cell_str(out, v.s);
    else
        bh_cell_fmt(out, "%d", (int)v.i);
}

static void budget_min(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_policy_v1_pod_disruption_budget *b = obj;

    (void)now;
    int_or_string(b->spec.has_min_available, b->spec.min_available, out);
}

static void budget_max(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_policy_v1_pod_disruption_budget *b = obj;

    (void)now;
    int_or_string(b->spec.has_max_unavailable, b->spec.max_unavailable, out);
}

static void budget_allowed(const void *obj, struct bh_time now, struct bh_buf *out)
{
    (void)now;
    bh_buf_add_i64(
        out, ((const struct bh_policy_v1_pod_disruption_budget *)obj)->status.disruptions_allowed);
}

const struct bh_column_entry bh_columns_workload[] = {
    {"poddisruptionbudget_min_available", budget_min},
    {"poddisruptionbudget_max_unavailable", budget_max},
    {"poddisruptionbudget_allowed_disruptions", budget_allowed},
    {NULL, NULL},
};
