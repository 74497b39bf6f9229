/* Cells of what runs pods, of what guards them, and of services. */
#include "apiserver/table_columns.h"

#include "api/gen/apps_v1.h"
#include "api/gen/core_v1.h"
#include "api/gen/discovery_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/networking_v1.h"
#include "api/gen/policy_v1.h"
#include "api/label_selector.h"
#include "base/arena.h"
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

/* ---- what templates show ---- */

static void list_cell(const struct bh_core_v1_container_vec *v, bool images, struct bh_buf *out)
{
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < v->n; i++) {
        bh_buf_addz(&b, i ? "," : "");
        bh_buf_adds(&b, images ? v->p[i].image : v->p[i].name);
    }
    bh_cell_str(out, bh_buf_str(&b));
}

static void labels_cell(const struct bh_str_map *m, struct bh_buf *out)
{
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < m->n; i++) {
        bh_buf_addz(&b, i ? "," : "");
        bh_buf_adds(&b, m->p[i].key);
        bh_buf_addc(&b, '=');
        bh_buf_adds(&b, m->p[i].value);
    }
    bh_cell_str(out, m->n ? bh_buf_str(&b) : BH_S("<none>"));
}

/* empty: what is shown when nothing is selected by name. */
static void selector_cell(const struct bh_meta_v1_label_selector *s, const char *empty,
                          struct bh_buf *out)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_label_selector sel;
    struct bh_str text;

    if (!bh_label_selector_of(a, s, &sel)) {
        bh_cell_str(out, BH_S("<invalid>"));
        return;
    }
    text = sel.nothing ? BH_S("") : bh_label_selector_str(a, &sel);
    bh_cell_str(out, text.n ? text : bh_s(empty));
}

#define CELL(name, type, body)                                                                     \
    static void name(const void *obj, struct bh_time now, struct bh_buf *out)                      \
    {                                                                                              \
        const struct type *o = obj;                                                                \
                                                                                                   \
        (void)now;                                                                                 \
        body;                                                                                      \
    }

#define RS  bh_apps_v1_replica_set
#define RC  bh_core_v1_replication_controller
#define STS bh_apps_v1_stateful_set
#define DEP bh_apps_v1_deployment
#define SVC bh_core_v1_service

CELL(rs_desired, RS, bh_buf_add_i64(out, o->spec.replicas))
CELL(rs_current, RS, bh_buf_add_i64(out, o->status.replicas))
CELL(rs_ready, RS, bh_buf_add_i64(out, o->status.ready_replicas))
CELL(rs_containers, RS, list_cell(&o->spec.template.spec.containers, false, out))
CELL(rs_images, RS, list_cell(&o->spec.template.spec.containers, true, out))
CELL(rs_selector, RS, selector_cell(o->spec.selector, "<none>", out))

static const struct bh_core_v1_container_vec *rc_pods(const struct RC *o)
{
    static const struct bh_core_v1_container_vec none;

    return o->spec.template ? &o->spec.template->spec.containers : &none;
}

CELL(rc_desired, RC, bh_buf_add_i64(out, o->spec.replicas))
CELL(rc_current, RC, bh_buf_add_i64(out, o->status.replicas))
CELL(rc_ready, RC, bh_buf_add_i64(out, o->status.ready_replicas))
CELL(rc_containers, RC, list_cell(rc_pods(o), false, out))
CELL(rc_images, RC, list_cell(rc_pods(o), true, out))
CELL(rc_selector, RC, labels_cell(&o->spec.selector, out))

CELL(sts_ready, STS,
     bh_cell_fmt(out, "%d/%d", (int)o->status.ready_replicas, (int)o->spec.replicas))
CELL(sts_containers, STS, list_cell(&o->spec.template.spec.containers, false, out))
CELL(sts_images, STS, list_cell(&o->spec.template.spec.containers, true, out))

CELL(dep_ready, DEP,
     bh_cell_fmt(out, "%d/%d", (int)o->status.ready_replicas, (int)o->spec.replicas))
CELL(dep_updated, DEP, bh_buf_add_i64(out, o->status.updated_replicas))
CELL(dep_available, DEP, bh_buf_add_i64(out, o->status.available_replicas))
CELL(dep_containers, DEP, list_cell(&o->spec.template.spec.containers, false, out))
CELL(dep_images, DEP, list_cell(&o->spec.template.spec.containers, true, out))
CELL(dep_selector, DEP, selector_cell(o->spec.selector, "", out))

#define DS  bh_apps_v1_daemon_set
#define REV bh_apps_v1_controller_revision
#define TPL bh_core_v1_pod_template

CELL(ds_desired, DS, bh_buf_add_i64(out, o->status.desired_number_scheduled))
CELL(ds_current, DS, bh_buf_add_i64(out, o->status.current_number_scheduled))
CELL(ds_ready, DS, bh_buf_add_i64(out, o->status.number_ready))
CELL(ds_updated, DS, bh_buf_add_i64(out, o->status.updated_number_scheduled))
CELL(ds_available, DS, bh_buf_add_i64(out, o->status.number_available))
CELL(ds_nodes, DS, labels_cell(&o->spec.template.spec.node_selector, out))
CELL(ds_containers, DS, list_cell(&o->spec.template.spec.containers, false, out))
CELL(ds_images, DS, list_cell(&o->spec.template.spec.containers, true, out))
CELL(ds_selector, DS, selector_cell(o->spec.selector, "<none>", out))
CELL(template_containers, TPL, list_cell(&o->template.spec.containers, false, out))
CELL(template_images, TPL, list_cell(&o->template.spec.containers, true, out))
CELL(template_labels, TPL, labels_cell(&o->template.metadata.labels, out))
CELL(revision_number, REV, bh_buf_add_i64(out, o->revision))

static void revision_controller(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct REV *o = obj;
    BH_AUTO_BUF b = {0};

    (void)now;
    for (size_t i = 0; i < o->metadata.owner_references.n; i++) {
        const struct bh_meta_v1_owner_reference *r = &o->metadata.owner_references.p[i];
        ptrdiff_t at = bh_str_chr(r->api_version, '/', 0);

        if (!r->has_controller || !r->controller)
            continue;
        for (size_t k = 0; k < r->kind.n; k++)
            bh_buf_addc(&b, (char)(r->kind.p[k] | 0x20)); /* kinds are letters */
        if (at > 0)
            bh_buf_addf(&b, ".%.*s", (int)at, r->api_version.p);
        bh_buf_addf(&b, "/%.*s", BH_SF(r->name));
        bh_cell_str(out, bh_buf_str(&b));
        return;
    }
    bh_cell_str(out, BH_S("<none>"));
}

/* ---- endpoints ---- */

#define SHOWN 3 /* how many are listed before the rest is counted */

static void listed(struct bh_buf *b, size_t n, struct bh_buf *out)
{
    if (n > SHOWN)
        bh_buf_addf(b, " + %zu more...", n - SHOWN);
    bh_cell_str(out, b->n ? bh_buf_str(b) : BH_S("<unset>"));
}

static void slice_ports(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_discovery_v1_endpoint_slice *o = obj;
    BH_AUTO_BUF b = {0};

    (void)now;
    for (size_t i = 0; i < o->ports.n && i < SHOWN; i++) {
        const struct bh_discovery_v1_endpoint_port *p = &o->ports.p[i];

        bh_buf_addz(&b, i ? "," : "");
        if (p->has_port)
            bh_buf_addf(&b, "%d", (int)p->port);
        else
            bh_buf_adds(&b, p->has_name ? p->name : BH_S("*"));
    }
    listed(&b, o->ports.n, out);
}

static void slice_addresses(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_discovery_v1_endpoint_slice *o = obj;
    BH_AUTO_BUF b = {0};
    size_t n = 0;

    (void)now;
    for (size_t i = 0; i < o->endpoints.n; i++)
        for (size_t k = 0; k < o->endpoints.p[i].addresses.n; k++) {
            if (n < SHOWN)
                bh_buf_addf(&b, "%s%.*s", n ? "," : "", BH_SF(o->endpoints.p[i].addresses.p[k]));
            n++;
        }
    listed(&b, n, out);
}

static void class_parameters(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_networking_v1_ingress_class_parameters_reference *p =
        ((const struct bh_networking_v1_ingress_class *)obj)->spec.parameters;
    BH_AUTO_BUF b = {0};

    (void)now;
    if (!p) {
        bh_cell_str(out, BH_S("<none>"));
        return;
    }
    bh_buf_adds(&b, p->kind);
    if (p->has_a_pi_group)
        bh_buf_addf(&b, ".%.*s", BH_SF(p->a_pi_group));
    bh_buf_addf(&b, "/%.*s", BH_SF(p->name));
    bh_cell_str(out, bh_buf_str(&b));
}

CELL(class_controller, bh_networking_v1_ingress_class, bh_cell_str(out, o->spec.controller))
CELL(policy_pods, bh_networking_v1_network_policy,
     selector_cell(&o->spec.pod_selector, "<none>", out))
CELL(slice_type, bh_discovery_v1_endpoint_slice, bh_cell_str(out, o->address_type))

/* ---- services ---- */

static struct bh_str ingress_name(const struct bh_core_v1_load_balancer_ingress *i)
{
    return i->ip.n ? i->ip : i->hostname;
}

/* Sorted, each once: the next one above last. */
static struct bh_str next_ingress(const struct bh_core_v1_load_balancer_ingress_vec *v,
                                  struct bh_str last)
{
    struct bh_str best = BH_S("");

    for (size_t i = 0; i < v->n; i++) {
        struct bh_str s = ingress_name(&v->p[i]);

        if (s.n && bh_str_cmp(s, last) > 0 && (!best.n || bh_str_cmp(s, best) < 0))
            best = s;
    }
    return best;
}

static void service_external(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct SVC *o = obj;
    bool balanced = bh_str_eqc(o->spec.type, "LoadBalancer");
    struct bh_str s = BH_S("");
    BH_AUTO_BUF b = {0};

    (void)now;
    if (bh_str_eqc(o->spec.type, "ExternalName")) {
        bh_cell_str(out, o->spec.external_name);
        return;
    }
    while (balanced && (s = next_ingress(&o->status.load_balancer.ingress, s)).n) {
        bh_buf_addz(&b, b.n ? "," : "");
        bh_buf_adds(&b, s);
    }
    for (size_t i = 0; i < o->spec.external_ips.n; i++) {
        bh_buf_addz(&b, b.n ? "," : "");
        bh_buf_adds(&b, o->spec.external_ips.p[i]);
    }
    bh_cell_str(out, b.n ? bh_buf_str(&b) : balanced ? BH_S("<pending>") : BH_S("<none>"));
}

static void service_ports(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct SVC *o = obj;
    BH_AUTO_BUF b = {0};

    (void)now;
    for (size_t i = 0; i < o->spec.ports.n; i++) {
        const struct bh_core_v1_service_port *p = &o->spec.ports.p[i];

        bh_buf_addf(&b, "%s%d", i ? "," : "", (int)p->port);
        if (p->node_port > 0)
            bh_buf_addf(&b, ":%d", (int)p->node_port);
        bh_buf_addf(&b, "/%.*s", BH_SF(p->protocol));
    }
    bh_cell_str(out, b.n ? bh_buf_str(&b) : BH_S("<none>"));
}

CELL(service_type, SVC, bh_cell_str(out, o->spec.type))
CELL(service_ip, SVC,
     bh_cell_str(out, o->spec.cluster_ips.n ? o->spec.cluster_ips.p[0] : BH_S("<none>")))
CELL(service_selector, SVC, labels_cell(&o->spec.selector, out))

const struct bh_column_entry bh_columns_workload[] = {
    {"poddisruptionbudget_min_available", budget_min},
    {"poddisruptionbudget_max_unavailable", budget_max},
    {"poddisruptionbudget_allowed_disruptions", budget_allowed},
    {"replicaset_desired", rs_desired},
    {"replicaset_current", rs_current},
    {"replicaset_ready", rs_ready},
    {"replicaset_containers", rs_containers},
    {"replicaset_images", rs_images},
    {"replicaset_selector", rs_selector},
    {"replicationcontroller_desired", rc_desired},
    {"replicationcontroller_current", rc_current},
    {"replicationcontroller_ready", rc_ready},
    {"replicationcontroller_containers", rc_containers},
    {"replicationcontroller_images", rc_images},
    {"replicationcontroller_selector", rc_selector},
    {"statefulset_ready", sts_ready},
    {"statefulset_containers", sts_containers},
    {"statefulset_images", sts_images},
    {"deployment_ready", dep_ready},
    {"deployment_up_to_date", dep_updated},
    {"deployment_available", dep_available},
    {"deployment_containers", dep_containers},
    {"deployment_images", dep_images},
    {"deployment_selector", dep_selector},
    {"daemonset_desired", ds_desired},
    {"daemonset_current", ds_current},
    {"daemonset_ready", ds_ready},
    {"daemonset_up_to_date", ds_updated},
    {"daemonset_available", ds_available},
    {"daemonset_node_selector", ds_nodes},
    {"daemonset_containers", ds_containers},
    {"daemonset_images", ds_images},
    {"daemonset_selector", ds_selector},
    {"controllerrevision_controller", revision_controller},
    {"controllerrevision_revision", revision_number},
    {"podtemplate_containers", template_containers},
    {"podtemplate_images", template_images},
    {"podtemplate_pod_labels", template_labels},
    {"networkpolicy_pod_selector", policy_pods},
    {"ingressclass_controller", class_controller},
    {"ingressclass_parameters", class_parameters},
    {"endpointslice_addresstype", slice_type},
    {"endpointslice_ports", slice_ports},
    {"endpointslice_endpoints", slice_addresses},
    {"service_type", service_type},
    {"service_cluster_ip", service_ip},
    {"service_external_ip", service_external},
    {"service_port_s", service_ports},
    {"service_selector", service_selector},
    {NULL, NULL},
};
