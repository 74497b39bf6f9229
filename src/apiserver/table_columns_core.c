/* Cells of the other kinds of the core group, and of events in their own group. */
#include "apiserver/table_columns.h"

#include "api/gen/core_v1.h"
#include "api/gen/events_v1.h"
#include "base/buf.h"
#include "data/time_fmt.h"

/* ---- nodes ---- */

static void node_status(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_core_v1_node *n = obj;
    const char *ready = "Unknown";

    (void)now;
    for (size_t i = 0; i < n->status.conditions.n; i++)
        if (bh_str_eqc(n->status.conditions.p[i].type, "Ready"))
            ready = bh_str_eqc(n->status.conditions.p[i].status, "True") ? "Ready" : "NotReady";
    bh_cell_fmt(out, "%s%s", ready, n->spec.unschedulable ? ",SchedulingDisabled" : "");
}

#define ROLE_PREFIX "node-role.kubernetes.io/"

/* The role that a label tells, empty for none. */
static struct bh_str role_of(const struct bh_str_pair *l)
{
    if (bh_str_starts(l->key, BH_S(ROLE_PREFIX)))
        return bh_str_sub(l->key, sizeof(ROLE_PREFIX) - 1, SIZE_MAX);
    return bh_str_eqc(l->key, "kubernetes.io/role") ? l->value : BH_S("");
}

/* Sorted, each once: the next one above last. */
static struct bh_str next_role(const struct bh_str_map *labels, struct bh_str last)
{
    struct bh_str best = BH_S("");

    for (size_t i = 0; i < labels->n; i++) {
        struct bh_str r = role_of(&labels->p[i]);

        if (r.n && bh_str_cmp(r, last) > 0 && (!best.n || bh_str_cmp(r, best) < 0))
            best = r;
    }
    return best;
}

static void node_roles(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_core_v1_node *n = obj;
    struct bh_str role = BH_S("");
    BH_AUTO_BUF b = {0};

    (void)now;
    while ((role = next_role(&n->metadata.labels, role)).n) {
        bh_buf_addz(&b, b.n ? "," : "");
        bh_buf_adds(&b, role);
    }
    bh_cell_str(out, b.n ? bh_buf_str(&b) : BH_S("<none>"));
}

static void node_address(const struct bh_core_v1_node *n, const char *type, struct bh_buf *out)
{
    for (size_t i = 0; i < n->status.addresses.n; i++)
        if (bh_str_eqc(n->status.addresses.p[i].type, type)) {
            bh_cell_str(out, n->status.addresses.p[i].address);
            return;
        }
    bh_cell_str(out, BH_S("<none>"));
}

static void node_internal_ip(const void *obj, struct bh_time now, struct bh_buf *out)
{
    (void)now;
    node_address(obj, "InternalIP", out);
}

static void node_external_ip(const void *obj, struct bh_time now, struct bh_buf *out)
{
    (void)now;
    node_address(obj, "ExternalIP", out);
}

static struct bh_str or_unknown(struct bh_str s)
{
    return s.n ? s : BH_S("<unknown>");
}

static void node_os_image(const void *obj, struct bh_time now, struct bh_buf *out)
{
    (void)now;
    bh_cell_str(out, or_unknown(((const struct bh_core_v1_node *)obj)->status.node_info.os_image));
}

static void node_kernel_version(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_core_v1_node_system_info *i =
        &((const struct bh_core_v1_node *)obj)->status.node_info;

    (void)now;
    if (i->architecture.n)
        bh_cell_fmt(out, "%.*s (%.*s)", BH_SF(or_unknown(i->kernel_version)),
                    BH_SF(i->architecture));
    else
        bh_cell_str(out, or_unknown(i->kernel_version));
}

static void node_container_runtime(const void *obj, struct bh_time now, struct bh_buf *out)
{
    (void)now;
    bh_cell_str(
        out,
        or_unknown(
            ((const struct bh_core_v1_node *)obj)->status.node_info.container_runtime_version));
}

/* ---- counts of entries ---- */

static void configmap_data(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_core_v1_config_map *c = obj;

    (void)now;
    bh_buf_add_u64(out, c->data.n + c->binary_data.n);
}

static void secret_data(const void *obj, struct bh_time now, struct bh_buf *out)
{
    (void)now;
    bh_buf_add_u64(out, ((const struct bh_core_v1_secret *)obj)->data.n);
}

/* ---- events: the two groups name the same things differently ---- */

struct event {
    struct bh_time first, last, at, series_last;
    bool series;
    int32_t count, series_count;
    struct bh_str kind, name, component, host, message;
};

static struct event core_event(const void *obj)
{
    const struct bh_core_v1_event *e = obj;
    struct event v = {
        .first = e->first_timestamp,
        .last = e->last_timestamp,
        .at = e->event_time,
        .series = e->series != NULL,
        .count = e->count,
        .kind = e->involved_object.kind,
        .name = e->involved_object.name,
        .component = e->source.component.n ? e->source.component : e->reporting_component,
        .host = e->source.host.n ? e->source.host : e->reporting_instance,
        .message = e->message,
    };

    if (e->series) {
        v.series_last = e->series->last_observed_time;
        v.series_count = e->series->count;
    }
    return v;
}

static struct event new_event(const void *obj)
{
    const struct bh_events_v1_event *e = obj;
    struct event v = {
        .first = e->deprecated_first_timestamp,
        .last = e->deprecated_last_timestamp,
        .at = e->event_time,
        .series = e->series != NULL,
        .count = e->deprecated_count,
        .kind = e->regarding.kind,
        .name = e->regarding.name,
        .component = e->deprecated_source.component.n ? e->deprecated_source.component
                                                      : e->reporting_controller,
        .host = e->deprecated_source.host.n ? e->deprecated_source.host : e->reporting_instance,
        .message = e->note,
    };

    if (e->series) {
        v.series_last = e->series->last_observed_time;
        v.series_count = e->series->count;
    }
    return v;
}

static struct bh_time first_seen(const struct event *e)
{
    return bh_time_is_zero(e->first) ? e->at : e->first;
}

static void event_first_seen(const struct event *e, struct bh_time now, struct bh_buf *out)
{
    bh_cell_age(out, now, first_seen(e));
}

static void event_last_seen(const struct event *e, struct bh_time now, struct bh_buf *out)
{
    bh_cell_age(out, now,
                e->series                  ? e->series_last
                : bh_time_is_zero(e->last) ? first_seen(e)
                                           : e->last);
}

static void event_object(const struct event *e, struct bh_time now, struct bh_buf *out)
{
    BH_AUTO_BUF b = {0};

    (void)now;
    for (size_t i = 0; i < e->kind.n; i++) {
        char c = e->kind.p[i];

        bh_buf_addc(&b, c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c);
    }
    if (e->name.n)
        bh_buf_addf(&b, "/%.*s", BH_SF(e->name));
    bh_cell_str(out, bh_buf_str(&b));
}

static void event_source(const struct event *e, struct bh_time now, struct bh_buf *out)
{
    (void)now;
    if (e->host.n)
        bh_cell_fmt(out, "%.*s, %.*s", BH_SF(e->component), BH_SF(e->host));
    else
        bh_cell_str(out, e->component);
}

static void event_message(const struct event *e, struct bh_time now, struct bh_buf *out)
{
    (void)now;
    bh_cell_str(out, bh_str_trim(e->message));
}

static void event_count(const struct event *e, struct bh_time now, struct bh_buf *out)
{
    (void)now;
    bh_buf_add_i64(out, e->series ? e->series_count : e->count ? e->count : 1);
}

#define EVENT_CELL(what)                                                                           \
    static void core_event_##what(const void *obj, struct bh_time now, struct bh_buf *out)         \
    {                                                                                              \
        struct event e = core_event(obj);                                                          \
                                                                                                   \
        event_##what(&e, now, out);                                                                \
    }                                                                                              \
    static void new_event_##what(const void *obj, struct bh_time now, struct bh_buf *out)          \
    {                                                                                              \
        struct event e = new_event(obj);                                                           \
                                                                                                   \
        event_##what(&e, now, out);                                                                \
    }
EVENT_CELL(first_seen)
EVENT_CELL(last_seen)
EVENT_CELL(object)
EVENT_CELL(source)
EVENT_CELL(message)
EVENT_CELL(count)

const struct bh_column_entry bh_columns_core[] = {
    {"node_status", node_status},
    {"node_roles", node_roles},
    {"node_internal_ip", node_internal_ip},
    {"node_external_ip", node_external_ip},
    {"node_os_image", node_os_image},
    {"node_kernel_version", node_kernel_version},
    {"node_container_runtime", node_container_runtime},
    {"configmap_data", configmap_data},
    {"secret_data", secret_data},
    {"event_first_seen", core_event_first_seen},
    {"event_last_seen", core_event_last_seen},
    {"event_object", core_event_object},
    {"event_source", core_event_source},
    {"event_message", core_event_message},
    {"event_count", core_event_count},
    {"newevent_first_seen", new_event_first_seen},
    {"newevent_last_seen", new_event_last_seen},
    {"newevent_object", new_event_object},
    {"newevent_source", new_event_source},
    {"newevent_message", new_event_message},
    {"newevent_count", new_event_count},
    {NULL, NULL},
};
