/* EndpointSlice: the addresses behind a service. */
#include "apiserver/validate/validate_service.h"
#include "apiserver/validate/validate_workload.h"

#include "api/gen/discovery_v1.h"
#include "data/names.h"

#define ENDPOINTS_MAX 1000
#define ADDRESSES_MAX 100
#define PORTS_MAX     20000
#define HINTS_MAX     8

#define SLICE    bh_discovery_v1_endpoint_slice
#define ENDPOINT bh_discovery_v1_endpoint

void bh_v_endpoints_default(const struct bh_rules_env *env, void *obj)
{
    struct SLICE *s = obj;

    (void)env;
    for (size_t i = 0; i < s->ports.n; i++) {
        struct bh_discovery_v1_endpoint_port *p = &s->ports.p[i];

        p->has_name = true;
        if (!p->has_protocol) {
            p->has_protocol = true;
            p->protocol = BH_S("TCP");
        }
    }
}

/* ---- preparation ---- */

/* Upstream forgets whether a list was empty or not there, and what newer fields say. */
static void tidy(struct SLICE *s)
{
    for (size_t i = 0; i < s->endpoints.n; i++)
        s->endpoints.p[i].deprecated_topology = (struct bh_str_map){0};
    if (s->endpoints.n == 0)
        s->endpoints.p = NULL;
    if (s->ports.n == 0)
        s->ports.p = NULL;
}

void bh_v_endpoints_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct SLICE *s = obj;

    (void)env;
    s->metadata.generation = 1;
    tidy(s);
}

static bool same_but_meta(const struct SLICE *x, const struct SLICE *y)
{
    struct SLICE a = *x, b = *y;
    const struct bh_meta_v1_object_meta m = {.labels = x->metadata.labels},
                                        n = {.labels = y->metadata.labels};

    a.metadata = m;
    b.metadata = n;
    return bh_msg_equal(&bh_discovery_v1_endpoint_slice_type, &a, &b);
}

void bh_v_endpoints_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                   const void *prev)
{
    struct SLICE *s = obj;
    const struct SLICE *old = prev;

    (void)env;
    (void)sub;
    tidy(s);
    if (!same_but_meta(s, old))
        s->metadata.generation = old->metadata.generation + 1;
}

/* ---- rules ---- */

static void type(struct bh_field_errs *e, struct bh_str s)
{
    const struct bh_fpath *at = BH_FP(NULL, "addressType");

    if (s.n == 0)
        bh_fe_required(e, at, NULL);
    else if (!BH_V_ONE_OF(s, "FQDN", "IPv4", "IPv6"))
        BH_V_NOT_SUPPORTED(e, at, s, "FQDN", "IPv4", "IPv6");
}

static void port(struct bh_field_errs *e, const struct bh_fpath *at,
                 const struct bh_discovery_v1_endpoint_port_vec *v, size_t i)
{
    const struct bh_discovery_v1_endpoint_port *p = &v->p[i];

    if (p->name.n)
        bh_v_check(e, BH_FP(at, "name"), bh_check_dns1123_label, p->name);
    for (size_t k = 0; k < i; k++)
        if (bh_str_eq(v->p[k].name, p->name)) {
            bh_fe_duplicate(e, BH_FP(at, "name"), p->name);
            break;
        }
    if (!BH_V_ONE_OF(p->protocol, "SCTP", "TCP", "UDP"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "protocol"), p->protocol, "SCTP", "TCP", "UDP");
    if (p->has_app_protocol)
        bh_v_check(e, BH_FP(at, "appProtocol"), bh_check_qualified_name, p->app_protocol);
}

static void ports(struct bh_field_errs *e, const struct bh_discovery_v1_endpoint_port_vec *v)
{
    const struct bh_fpath *at = BH_FP(NULL, "ports");

    if (v->n > PORTS_MAX) {
        bh_fe_too_many(e, at, v->n, PORTS_MAX);
        return;
    }
    for (size_t i = 0; i < v->n; i++)
        port(e, BH_FPI(at, i), v, i);
}

static void domain(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    size_t before = e->n;

    if (s.n && s.p[s.n - 1] == '.')
        s.n--;
    if (s.n == 0) {
        bh_fe_required(e, at, NULL);
        return;
    }
    bh_v_check(e, at, bh_check_dns1123_subdomain, s);
    if (e->n > before)
        return;
    if (bh_v_count(s, '.') == 0)
        bh_fe_invalid(e, at, s, "should be a domain with at least two segments separated by dots");
    for (struct bh_str rest = s; rest.n;)
        bh_v_check(e, at, bh_check_dns1123_label, bh_str_cut(&rest, '.'));
}

/* at: the list, in which it is the i-th */
static void address(struct bh_field_errs *e, const struct bh_fpath *list, size_t i,
                    struct bh_str type, struct bh_str s)
{
    const struct bh_fpath *at = BH_FPI(list, i);
    bool v6 = bh_str_eqc(type, "IPv6");
    size_t before = e->n;
    char buf[BH_IP_BUF];
    struct bh_ip ip;

    if (bh_str_eqc(type, "FQDN")) {
        domain(e, at, s);
        return;
    }
    if (!v6 && !bh_str_eqc(type, "IPv4"))
        return;
    bh_v_check(e, at, bh_check_ip, s);
    if (e->n > before || !bh_ip_parse(s, &ip))
        return;
    if (!bh_str_eq(bh_ip_fmt(&ip, buf), s))
        bh_fe_invalid(e, at, s, "must be in canonical form (\"%.*s\")", BH_SF(bh_ip_fmt(&ip, buf)));
    if (ip.v6 != v6)
        bh_fe_invalid(e, list, s, v6 ? "must be an IPv6 address" : "must be an IPv4 address");
    bh_v_ordinary_address(e, at, s);
}

static void zones(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_discovery_v1_for_zone_vec *v)
{
    if (v->n > HINTS_MAX) {
        bh_fe_too_many(e, at, v->n, HINTS_MAX);
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_fpath *name = BH_FP(BH_FPI(at, i), "name");

        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].name, v->p[i].name)) {
                bh_fe_duplicate(e, name, v->p[i].name);
                break;
            }
        bh_v_check(e, name, bh_check_label_value, v->p[i].name);
    }
}

static void nodes(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_discovery_v1_for_node_vec *v)
{
    if (v->n > HINTS_MAX) {
        bh_fe_too_many(e, at, v->n, HINTS_MAX);
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_fpath *name = BH_FP(BH_FPI(at, i), "name");

        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].name, v->p[i].name)) {
                bh_fe_duplicate(e, name, v->p[i].name);
                break;
            }
        bh_v_check(e, name, bh_v_node_name, v->p[i].name);
    }
}

static void endpoint(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str type,
                     const struct ENDPOINT *p)
{
    const struct bh_fpath *addresses = BH_FP(at, "addresses"), *hints = BH_FP(at, "hints");

    if (p->addresses.n == 0)
        bh_fe_required(e, addresses, "must contain at least 1 address");
    else if (p->addresses.n > ADDRESSES_MAX)
        bh_fe_too_many(e, addresses, p->addresses.n, ADDRESSES_MAX);
    for (size_t i = 0; i < p->addresses.n; i++)
        address(e, addresses, i, type, p->addresses.p[i]);
    if (p->has_node_name)
        bh_v_check(e, BH_FP(at, "nodeName"), bh_v_node_name, p->node_name);
    if (p->has_hostname)
        bh_v_check(e, BH_FP(at, "hostname"), bh_check_dns1123_label, p->hostname);
    if (p->hints) {
        zones(e, BH_FP(hints, "forZones"), &p->hints->for_zones);
        nodes(e, BH_FP(hints, "forNodes"), &p->hints->for_nodes);
    }
}

static void slice(struct bh_field_errs *e, const struct SLICE *s)
{
    const struct bh_fpath *at = BH_FP(NULL, "endpoints");

    bh_v_meta(e, BH_FP(NULL, "metadata"), &s->metadata, true, bh_check_dns1123_subdomain,
              BH_VM_KUBE);
    type(e, s->address_type);
    ports(e, &s->ports);
    if (s->endpoints.n > ENDPOINTS_MAX) {
        bh_fe_too_many(e, at, s->endpoints.n, ENDPOINTS_MAX);
        return;
    }
    for (size_t i = 0; i < s->endpoints.n; i++)
        endpoint(e, BH_FPI(at, i), s->address_type, &s->endpoints.p[i]);
}

void bh_v_endpoints_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    (void)env;
    slice(e, obj);
}

void bh_v_endpoints_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                           const void *prev, struct bh_field_errs *e)
{
    const struct SLICE *s = obj, *old = prev;

    (void)env;
    (void)sub;
    slice(e, s);
    bh_v_immutable_str(e, BH_FP(NULL, "addressType"), s->address_type, old->address_type);
}

void bh_v_endpoints_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                         const void *prev, struct bh_str_vec *out)
{
    const struct SLICE *s = obj;

    (void)sub;
    (void)prev;
    if (bh_str_eqc(s->address_type, "FQDN"))
        bh_v_warn(env, out, "spec.addressType: FQDN endpoints are deprecated");
}
