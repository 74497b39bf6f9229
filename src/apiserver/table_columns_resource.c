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

/* ---- requests for the state of pools ---- */

/* What a request has come to: the word for it, since when, and the sums over its pools. */
struct pool_answer {
    const char *word;
    struct bh_time completed;
    bool counted;
    int32_t pools;
    size_t listed;
    int64_t total, available, allocated, unavailable, errors;
};

static struct pool_answer pool_answer(const void *obj)
{
    const struct bh_resource_v1alpha3_resource_pool_status_request *r = obj;
    const struct bh_resource_v1alpha3_resource_pool_status_request_status *s = r->status;
    struct pool_answer a = {.word = "Pending"};

    if (!s)
        return a;
    a.counted = true;
    for (size_t i = 0; i < s->conditions.n; i++) {
        const struct bh_meta_v1_condition *c = &s->conditions.p[i];

        if (!bh_str_eqc(c->status, "True"))
            continue;
        if (bh_str_eqc(c->type, "Complete")) {
            a.word = "Complete";
            a.completed = c->last_transition_time;
            break;
        }
        if (bh_str_eqc(c->type, "Failed")) {
            a.word = "Failed";
            a.counted = false;
            break;
        }
    }
    a.pools = s->pool_count;
    a.listed = s->pools.n;
    for (size_t i = 0; i < s->pools.n; i++) {
        const struct bh_resource_v1alpha3_pool_status *p = &s->pools.p[i];

        a.total += p->total_devices;
        a.available += p->available_devices;
        a.allocated += p->allocated_devices;
        a.unavailable += p->unavailable_devices;
        a.errors += p->has_validation_error;
    }
    return a;
}

#define POOL_SUM(what)                                                                             \
    static void pool_request_##what(const void *obj, struct bh_time now, struct bh_buf *out)       \
    {                                                                                              \
        struct pool_answer a = pool_answer(obj);                                                   \
                                                                                                   \
        (void)now;                                                                                 \
        if (a.counted)                                                                             \
            bh_cell_fmt(out, "%lld", (long long)a.what);                                           \
        else                                                                                       \
            bh_cell_str(out, BH_S("-"));                                                           \
    }
POOL_SUM(total)
POOL_SUM(available)
POOL_SUM(allocated)
POOL_SUM(unavailable)
POOL_SUM(errors)

static void pool_request_pools(const void *obj, struct bh_time now, struct bh_buf *out)
{
    (void)now;
    bh_buf_add_i64(out, pool_answer(obj).pools);
}

static void pool_request_status(const void *obj, struct bh_time now, struct bh_buf *out)
{
    struct pool_answer a = pool_answer(obj);

    (void)now;
    if (bh_str_eqc(bh_s(a.word), "Complete") && a.pools > 0 && (size_t)a.pools > a.listed)
        bh_cell_fmt(out, "Complete (%zu/%d pools)", a.listed, (int)a.pools);
    else
        bh_cell_str(out, bh_s(a.word));
}

static void pool_request_completed(const void *obj, struct bh_time now, struct bh_buf *out)
{
    struct pool_answer a = pool_answer(obj);

    if (bh_time_is_zero(a.completed))
        bh_cell_str(out, BH_S("<none>"));
    else
        bh_cell_age(out, now, a.completed);
}

const struct bh_column_entry bh_columns_resource[] = {
    {"resourceclaim_state", claim_state},
    {"devicetaintrule_timeadded", rule_time_added},
    {"pool_request_total", pool_request_total},
    {"pool_request_available", pool_request_available},
    {"pool_request_allocated", pool_request_allocated},
    {"pool_request_unavailable", pool_request_unavailable},
    {"pool_request_errors", pool_request_errors},
    {"pool_request_pools", pool_request_pools},
    {"pool_request_status", pool_request_status},
    {"pool_request_completed", pool_request_completed},
    {"podgroup_policy", group_policy},
    {"podgroup_workload", group_workload},
    {"podgroup_status", group_status},
    {NULL, NULL},
};
