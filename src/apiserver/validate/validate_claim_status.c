/* Status of a ResourceClaim: allocation, reservations, device status, and who may write them
 * (dra.md 1.9 and 2.4). */
#include "apiserver/validate/validate_dra.h"

#include "api/gen/resource_v1.h"
#include "base/buf.h"
#include "data/json.h"

#define DATA_BYTES_MAX   10240u
#define IPS_MAX          16u
#define IFNAME_BYTES_MAX 256u
#define HWADDR_BYTES_MAX 128u
#define DRIVERS_MAX      1024u /* drivers told in one denial; results are bounded far below */

/* ---- devices by identity ---- */

struct dev_id {
    struct bh_str driver, pool, device, share;
};

static struct dev_id id_of_result(const struct bh_resource_v1_device_request_allocation_result *r)
{
    return (struct dev_id){r->driver, r->pool, r->device, r->has_share_id ? r->share_id : BH_S("")};
}

static struct dev_id id_of_status(const struct bh_resource_v1_allocated_device_status *d)
{
    return (struct dev_id){d->driver, d->pool, d->device, d->has_share_id ? d->share_id : BH_S("")};
}

static bool id_eq(const struct dev_id *x, const struct dev_id *y)
{
    return bh_str_eq(x->driver, y->driver) && bh_str_eq(x->pool, y->pool) &&
           bh_str_eq(x->device, y->device) && bh_str_eq(x->share, y->share);
}

static bool allocated(const struct bh_resource_v1_allocation_result *a, const struct dev_id *id)
{
    for (size_t i = 0; a && i < a->devices.results.n; i++) {
        struct dev_id r = id_of_result(&a->devices.results.p[i]);

        if (id_eq(&r, id))
            return true;
    }
    return false;
}

static void quoted(struct bh_buf *b, const char *key, struct bh_str v)
{
    bh_buf_addf(b, "\"%s\":", key);
    bh_json_write_str(b, v);
}

static struct bh_str id_json(struct bh_arena *a, const struct dev_id *id)
{
    struct bh_buf b = {.max = 1u << 20};
    struct bh_str s;

    bh_buf_addc(&b, '{');
    quoted(&b, "Driver", id->driver);
    bh_buf_addc(&b, ',');
    quoted(&b, "Pool", id->pool);
    bh_buf_addc(&b, ',');
    quoted(&b, "Device", id->device);
    bh_buf_addc(&b, ',');
    quoted(&b, "ShareID", id->share);
    bh_buf_addc(&b, '}');
    s = bh_str_dup(a, bh_buf_str(&b));
    bh_buf_done(&b);
    return s;
}

/* ---- preparation ---- */

/* Entries of devices that were allocated and no longer are go silently: clients that free a claim
 * need not know of the device status. */
static void drop_deallocated(const struct bh_rules_env *env,
                             struct bh_resource_v1_resource_claim *c,
                             const struct bh_resource_v1_resource_claim *old)
{
    struct bh_resource_v1_allocated_device_status_vec v = {0};

    if (c->status.devices.n == 0) {
        c->status.devices = v;
        return;
    }
    v.p = bh_new_n(env->a, struct bh_resource_v1_allocated_device_status, c->status.devices.n);
    for (size_t i = 0; i < c->status.devices.n; i++) {
        struct dev_id id = id_of_status(&c->status.devices.p[i]);

        if (allocated(c->status.allocation, &id) || !allocated(old->status.allocation, &id))
            v.p[v.n++] = c->status.devices.p[i];
    }
    if (v.n == 0)
        v.p = NULL;
    c->status.devices = v;
}

static bool gate_on(void *arg, struct bh_str name)
{
    const struct bh_rules_env *env = arg;

    return env->gate ? env->gate(env->arg, name) : bh_gate_default(name);
}

void bh_v_claim_status_prepare(const struct bh_rules_env *env,
                               struct bh_resource_v1_resource_claim *c,
                               const struct bh_resource_v1_resource_claim *old)
{
    bh_msg_drop_gated(&bh_resource_v1_resource_claim_status_type, &c->status, &old->status, gate_on,
                      (void *)(uintptr_t)env);
    drop_deallocated(env, c, old);
}

/* ---- authorisation ---- */

static void admin_results(const struct bh_rules_env *env,
                          const struct bh_resource_v1_resource_claim *c,
                          const struct bh_resource_v1_resource_claim *old, struct bh_field_errs *e)
{
    const struct bh_fpath *results =
        BH_FP(BH_FP(BH_FP(BH_FP(NULL, "status"), "allocation"), "devices"), "results");
    const struct bh_resource_v1_allocation_result *a = old->status.allocation;
    const struct bh_str_map *labels;
    const struct bh_str *value;

    for (size_t i = 0; a && i < a->devices.results.n; i++)
        if (a->devices.results.p[i].has_admin_access && a->devices.results.p[i].admin_access)
            return;
    a = c->status.allocation;
    for (size_t i = 0; a && i < a->devices.results.n; i++) {
        if (!a->devices.results.p[i].has_admin_access || !a->devices.results.p[i].admin_access)
            continue;
        labels = env->ns_labels ? env->ns_labels(env->arg, c->metadata.namespace) : NULL;
        value = labels ? bh_str_map_get(labels, BH_S("resource.kubernetes.io/admin-access")) : NULL;
        if (!value || !bh_str_eqc(*value, "true"))
            bh_fe_forbidden(e, BH_FP(BH_FPI(results, i), "adminAccess"),
                            "admin access to devices requires the "
                            "`resource.kubernetes.io/admin-access: true` label "
                            "on the containing namespace");
        return;
    }
}

/* Empty when allowed, else the text of the refusal. */
static struct bh_str refusal(const struct bh_rules_env *env, const struct bh_rules_access *q)
{
    char reason[512] = "";
    struct bh_str name = BH_S(""), where = BH_S("at the cluster scope");

    if (!env->allowed || env->allowed(env->arg, q, reason, sizeof(reason)))
        return BH_S("");
    if (q->name.n)
        name = bh_str_fmt(env->a, " \"%.*s\"", BH_SF(q->name));
    if (q->ns.n)
        where = bh_str_fmt(env->a, "in the namespace \"%.*s\"", BH_SF(q->ns));
    return bh_str_fmt(
        env->a,
        "resourceclaims.resource.k8s.io%.*s is forbidden: User \"%.*s\" cannot %.*s resource "
        "\"resourceclaims/%.*s\" in API group \"resource.k8s.io\" %.*s%s%s",
        BH_SF(name), BH_SF(env->user_name), BH_SF(q->verb), BH_SF(q->subresource), BH_SF(where),
        reason[0] ? ": " : "", reason);
}

static bool reserved_equal(const struct bh_resource_v1_resource_claim_status *x,
                           const struct bh_resource_v1_resource_claim_status *y)
{
    if (x->reserved_for.n != y->reserved_for.n)
        return false;
    for (size_t i = 0; i < x->reserved_for.n; i++)
        if (!bh_msg_equal(&bh_resource_v1_resource_claim_consumer_reference_type,
                          &x->reserved_for.p[i], &y->reserved_for.p[i]))
            return false;
    return true;
}

static bool allocation_equal(const struct bh_resource_v1_allocation_result *x,
                             const struct bh_resource_v1_allocation_result *y)
{
    if (!x || !y)
        return x == y;
    return bh_msg_equal(&bh_resource_v1_allocation_result_type, x, y);
}

static void authorize_binding(const struct bh_rules_env *env,
                              const struct bh_resource_v1_resource_claim *c,
                              const struct bh_resource_v1_resource_claim *old,
                              struct bh_field_errs *e)
{
    struct bh_rules_access q = {.verb = env->verb,
                                .group = BH_S("resource.k8s.io"),
                                .resource = BH_S("resourceclaims"),
                                .subresource = BH_S("binding")};
    struct bh_str no;

    if (allocation_equal(c->status.allocation, old->status.allocation) &&
        reserved_equal(&c->status, &old->status))
        return;
    no = refusal(env, &q);
    if (no.n)
        bh_fe_forbidden(e, BH_FP(BH_FP(NULL, "status"), "allocation"),
                        "changing status.allocation or status.reservedFor requires "
                        "resource=\"resourceclaims/binding\", "
                        "verb=\"%.*s\" permission: %.*s",
                        BH_SF(env->verb), BH_SF(no));
}

static const struct bh_resource_v1_allocated_device_status *
find_status(const struct bh_resource_v1_allocated_device_status_vec *v, const struct dev_id *id)
{
    const struct bh_resource_v1_allocated_device_status *found = NULL;

    for (size_t i = 0; i < v->n; i++) {
        struct dev_id x = id_of_status(&v->p[i]);

        if (id_eq(&x, id))
            found = &v->p[i];
    }
    return found;
}

/* Drivers whose entries were added, changed or removed, sorted. */
static struct bh_str_map changed_drivers(struct bh_arena *a,
                                         const struct bh_resource_v1_resource_claim_status *s,
                                         const struct bh_resource_v1_resource_claim_status *old)
{
    struct bh_str_map m = {0};

    for (size_t i = 0; i < s->devices.n; i++) {
        struct dev_id id = id_of_status(&s->devices.p[i]);
        const struct bh_resource_v1_allocated_device_status *was = find_status(&old->devices, &id);

        if (!was ||
            !bh_msg_equal(&bh_resource_v1_allocated_device_status_type, was, &s->devices.p[i]))
            bh_str_map_put(a, &m, id.driver, BH_S(""));
    }
    for (size_t i = 0; i < old->devices.n; i++) {
        struct dev_id id = id_of_status(&old->devices.p[i]);

        if (!find_status(&s->devices, &id))
            bh_str_map_put(a, &m, id.driver, BH_S(""));
    }
    return m;
}

/* The node of an allocation: its selector names exactly one. */
static struct bh_str allocated_node(const struct bh_resource_v1_allocation_result *a)
{
    const struct bh_core_v1_node_selector_term *t;

    if (!a || !a->node_selector || a->node_selector->node_selector_terms.n != 1)
        return BH_S("");
    t = &a->node_selector->node_selector_terms.p[0];
    if (t->match_expressions.n || t->match_fields.n != 1 ||
        !bh_str_eqc(t->match_fields.p[0].key, "metadata.name") ||
        !bh_str_eqc(t->match_fields.p[0].operator, "In") || t->match_fields.p[0].values.n != 1)
        return BH_S("");
    return t->match_fields.p[0].values.p[0];
}

static void authorize_devices(const struct bh_rules_env *env,
                              const struct bh_resource_v1_resource_claim *c,
                              const struct bh_resource_v1_resource_claim *old,
                              struct bh_field_errs *e)
{
    struct bh_str_map drivers = changed_drivers(env->a, &c->status, &old->status);
    struct bh_str node = allocated_node(c->status.allocation);
    bool own = node.n && bh_str_eq(node, env->user_node) &&
               bh_str_starts(env->user_name, BH_S("system:serviceaccount:"));
    struct bh_str verbs[2];
    size_t n = 0;

    if (own)
        verbs[n++] = bh_str_fmt(env->a, "associated-node:%.*s", BH_SF(env->verb));
    verbs[n++] = bh_str_fmt(env->a, "arbitrary-node:%.*s", BH_SF(env->verb));
    for (size_t i = 0; i < drivers.n && i < DRIVERS_MAX; i++) {
        struct bh_str first = {0};
        bool ok = false;

        for (size_t k = 0; k < n && !ok; k++) {
            struct bh_rules_access q = {.verb = verbs[k],
                                        .group = BH_S("resource.k8s.io"),
                                        .resource = BH_S("resourceclaims"),
                                        .subresource = BH_S("driver"),
                                        .ns = c->metadata.namespace,
                                        .name = drivers.p[i].key};
            struct bh_str no = refusal(env, &q);

            ok = no.n == 0;
            if (!first.p)
                first = no;
        }
        if (!ok)
            bh_fe_forbidden(e, BH_FP(BH_FP(NULL, "status"), "devices"),
                            "changing status.devices requires resource=\"resourceclaims/driver\", "
                            "verb=\"[%.*s%s%.*s]\" permission: %.*s",
                            BH_SF(verbs[0]), n > 1 ? " " : "", BH_SF(n > 1 ? verbs[1] : BH_S("")),
                            BH_SF(first));
    }
}

/* ---- reservations ---- */

static void consumer(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_resource_v1_resource_claim_consumer_reference *r)
{
    if (r->resource.n == 0)
        bh_fe_required(e, BH_FP(at, "resource"), NULL);
    if (r->name.n == 0)
        bh_fe_required(e, BH_FP(at, "name"), NULL);
    if (r->uid.n == 0)
        bh_fe_required(e, BH_FP(at, "uid"), NULL);
}

static void reserved_for(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_resource_v1_resource_claim_consumer_reference_vec *v)
{
    if (!bh_v_size(e, at, v->n, BH_DRA_CONSUMERS_MAX))
        return;
    for (size_t i = 0; i < v->n; i++)
        consumer(e, BH_FPI(at, i), &v->p[i]);
    for (size_t i = 0; i < v->n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].uid, v->p[i].uid)) {
                bh_fe_duplicate(e, BH_FPI(at, i), v->p[i].uid);
                break;
            }
}

/* Is there a reservation that is not entirely equal to one of before? */
static bool reserves_more(const struct bh_resource_v1_resource_claim_status *s,
                          const struct bh_resource_v1_resource_claim_status *old)
{
    for (size_t i = 0; i < s->reserved_for.n; i++) {
        bool was = false;

        for (size_t k = 0; k < old->reserved_for.n && !was; k++)
            was = bh_msg_equal(&bh_resource_v1_resource_claim_consumer_reference_type,
                               &s->reserved_for.p[i], &old->reserved_for.p[k]);
        if (!was)
            return true;
    }
    return false;
}

/* ---- device status ---- */

/* "192.0.2.5/24": an address with its prefix length, in canonical form, host bits allowed. */
static void interface_address(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    struct bh_ip ip;
    unsigned bits;
    char buf[BH_IP_BUF];
    struct bh_str canonical;

    if (!bh_cidr_parse(s, &ip, &bits)) {
        bh_fe_invalid(e, at, s,
                      "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)");
        return;
    }
    canonical = bh_str_fmt(e->a, "%.*s/%u", BH_SF(bh_ip_fmt(&ip, buf)), bits);
    if (!bh_str_eq(canonical, s))
        bh_fe_invalid(e, at, s, "must be in canonical form (\"%.*s\")", BH_SF(canonical));
}

static void network_data(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_resource_v1_network_device_data *d)
{
    const struct bh_fpath *ips = BH_FP(at, "ips");

    if (!d)
        return;
    if (d->interface_name.n > IFNAME_BYTES_MAX)
        bh_fe_too_long(e, BH_FP(at, "interfaceName"), IFNAME_BYTES_MAX);
    if (d->hardware_address.n > HWADDR_BYTES_MAX)
        bh_fe_too_long(e, BH_FP(at, "hardwareAddress"), HWADDR_BYTES_MAX);
    if (!bh_v_size(e, ips, d->ips.n, IPS_MAX))
        return;
    for (size_t i = 0; i < d->ips.n; i++)
        interface_address(e, BH_FPI(ips, i), d->ips.p[i]);
    for (size_t i = 0; i < d->ips.n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(d->ips.p[k], d->ips.p[i])) {
                bh_fe_duplicate(e, BH_FPI(ips, i), d->ips.p[i]);
                break;
            }
}

static void device_status(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_resource_v1_allocated_device_status *d,
                          const struct bh_resource_v1_allocation_result *allocation)
{
    struct dev_id id = id_of_status(d);
    const struct bh_fpath *conditions = BH_FP(at, "conditions");

    bh_v_driver_name(e, BH_FP(at, "driver"), d->driver);
    bh_v_pool_name(e, BH_FP(at, "pool"), d->pool);
    bh_v_check(e, BH_FP(at, "device"), bh_check_dns1123_label, d->device);
    if (d->has_share_id)
        bh_v_uid(e, BH_FP(at, "shareID"), d->share_id);
    if (!allocated(allocation, &id))
        bh_fe_invalid_text(e, at, id_json(e->a, &id), "must be an allocated device in the claim");
    if (d->conditions.n > BH_DRA_CONDITIONS_MAX)
        bh_fe_too_many(e, conditions, d->conditions.n, BH_DRA_CONDITIONS_MAX);
    bh_v_conditions(e, conditions, &d->conditions);
    if (d->data.n && !bh_str_eqc(d->data, "null"))
        bh_v_raw_object(e, BH_FP(at, "data"), d->data, false, DATA_BYTES_MAX);
    network_data(e, BH_FP(at, "networkData"), d->network_data);
}

static void device_statuses(struct bh_field_errs *e, const struct bh_fpath *at,
                            const struct bh_resource_v1_resource_claim_status *s)
{
    for (size_t i = 0; i < s->devices.n; i++)
        device_status(e, BH_FPI(at, i), &s->devices.p[i], s->allocation);
    for (size_t i = 0; i < s->devices.n; i++) {
        struct dev_id id = id_of_status(&s->devices.p[i]);

        for (size_t k = 0; k < i; k++) {
            struct dev_id before = id_of_status(&s->devices.p[k]);

            if (id_eq(&before, &id)) {
                bh_fe_duplicate_text(e, BH_FPI(at, i), id_json(e->a, &id));
                break;
            }
        }
    }
}

/* ---- allocation ---- */

static void result(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_resource_v1_device_request_allocation_result *r,
                   const struct bh_resource_v1_device_claim *claim)
{
    bh_v_request_ref(e, BH_FP(at, "request"), r->request, claim);
    bh_v_driver_name(e, BH_FP(at, "driver"), r->driver);
    bh_v_pool_name(e, BH_FP(at, "pool"), r->pool);
    bh_v_check(e, BH_FP(at, "device"), bh_check_dns1123_label, r->device);
    bh_v_binding_conditions(e, at, &r->binding_conditions, &r->binding_failure_conditions);
    if (r->has_share_id)
        bh_v_uid(e, BH_FP(at, "shareID"), r->share_id);
}

static void configuration(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_resource_v1_device_allocation_configuration *c,
                          const struct bh_resource_v1_device_claim *claim)
{
    if (c->source.n == 0)
        bh_fe_required(e, BH_FP(at, "source"), NULL);
    else if (!BH_V_ONE_OF(c->source, "FromClaim", "FromClass"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "source"), c->source, "FromClaim", "FromClass");
    bh_v_request_refs(e, BH_FP(at, "requests"), &c->requests, claim);
    bh_v_device_configuration(e, at, &c->device_configuration, false);
}

static void allocation(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_resource_v1_allocation_result *a,
                       const struct bh_resource_v1_device_claim *claim)
{
    const struct bh_fpath *devices = BH_FP(at, "devices");
    const struct bh_fpath *results = BH_FP(devices, "results"), *config = BH_FP(devices, "config");

    if (bh_v_size(e, results, a->devices.results.n, BH_DRA_ITEMS_MAX))
        for (size_t i = 0; i < a->devices.results.n; i++)
            result(e, BH_FPI(results, i), &a->devices.results.p[i], claim);
    if (bh_v_size(e, config, a->devices.config.n, BH_DRA_ALLOCATED_CONFIG_MAX))
        for (size_t i = 0; i < a->devices.config.n; i++)
            configuration(e, BH_FPI(config, i), &a->devices.config.p[i], claim);
    if (a->node_selector)
        bh_v_node_selector(e, BH_FP(at, "nodeSelector"), a->node_selector, false);
}

void bh_v_claim_status_update(const struct bh_rules_env *env,
                              const struct bh_resource_v1_resource_claim *c,
                              const struct bh_resource_v1_resource_claim *old,
                              struct bh_field_errs *e)
{
    const struct bh_fpath *at = BH_FP(NULL, "status"), *reserved = BH_FP(at, "reservedFor");
    const struct bh_resource_v1_resource_claim_status *s = &c->status;

    admin_results(env, c, old, e);
    if (bh_rules_gate(env, "DRAResourceClaimGranularStatusAuthorization")) {
        authorize_binding(env, c, old, e);
        if (bh_rules_gate(env, "DRAResourceClaimDeviceStatus") && s->allocation)
            authorize_devices(env, c, old, e);
    }
    bh_v_meta_update(e, BH_FP(NULL, "metadata"), &c->metadata, &old->metadata, BH_VM_KUBE);
    reserved_for(e, reserved, &s->reserved_for);
    device_statuses(e, BH_FP(at, "devices"), s);
    if (s->reserved_for.n && !s->allocation)
        bh_fe_forbidden(e, reserved, "may not be specified when `allocated` is not set");
    else if (s->reserved_for.n && !bh_time_is_zero(c->metadata.deletion_timestamp) &&
             reserves_more(s, &old->status))
        bh_fe_forbidden(e, reserved,
                        "new entries may not be added while `deallocationRequested` or "
                        "`deletionTimestamp` are set");
    /* What was allocated before is not judged again: rules for new results are stricter than they
     * were. */
    if (s->allocation && old->status.allocation)
        bh_v_immutable_msg(e, BH_FP(at, "allocation"), &bh_resource_v1_allocation_result_type,
                           s->allocation, old->status.allocation);
    else if (s->allocation)
        allocation(e, BH_FP(at, "allocation"), s->allocation, &c->spec.devices);
}
