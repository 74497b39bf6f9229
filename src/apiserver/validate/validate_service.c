/* Services: what goes with which type, ports, and addresses. The registry gives addresses and ports
 * before these rules are asked (service_alloc.c). */
#include "apiserver/validate/validate_service.h"

#include "api/gen/core_v1.h"

#include <string.h>

#define AFFINITY_S_DEFAULT 10800
#define AFFINITY_S_MAX     86400

static const struct bh_fpath *const meta_at =
    &(const struct bh_fpath){.name = BH_S_INIT("metadata"), .kind = BH_FP_NAME};
static const struct bh_fpath *const spec_at =
    &(const struct bh_fpath){.name = BH_S_INIT("spec"), .kind = BH_FP_NAME};

/* ---- questions ---- */

bool bh_v_service_is(const struct bh_core_v1_service *s, const char *type)
{
    return bh_str_eqc(s->spec.type, type);
}

bool bh_v_service_headless(const struct bh_core_v1_service *s)
{
    return s->spec.cluster_ips.n == 1 && bh_str_eqc(s->spec.cluster_ips.p[0], "None");
}

static bool external(const struct bh_core_v1_service *s)
{
    return bh_v_service_is(s, "LoadBalancer") || bh_v_service_is(s, "NodePort") ||
           (bh_v_service_is(s, "ClusterIP") && s->spec.external_ips.n > 0);
}

bool bh_v_service_health_port(const struct bh_core_v1_service *s)
{
    return bh_v_service_is(s, "LoadBalancer") &&
           bh_str_eqc(s->spec.external_traffic_policy, "Local");
}

bool bh_v_same_strs(const struct bh_str_vec *x, const struct bh_str_vec *y)
{
    if (x->n != y->n)
        return false;
    for (size_t i = 0; i < x->n; i++)
        if (!bh_str_eq(x->p[i], y->p[i]))
            return false;
    return true;
}

static bool same_class(const struct bh_core_v1_service *x, const struct bh_core_v1_service *y)
{
    return x->spec.has_load_balancer_class == y->spec.has_load_balancer_class &&
           bh_str_eq(x->spec.load_balancer_class, y->spec.load_balancer_class);
}

/* ---- defaults, preparation ---- */

static void default_affinity(const struct bh_rules_env *env, struct bh_core_v1_service_spec *s)
{
    struct bh_core_v1_session_affinity_config *c = s->session_affinity_config;

    if (bh_str_eqc(s->session_affinity, "None"))
        s->session_affinity_config = NULL;
    if (!bh_str_eqc(s->session_affinity, "ClientIP") ||
        (c && c->client_ip && c->client_ip->has_timeout_seconds))
        return;
    c = bh_new(env->a, struct bh_core_v1_session_affinity_config);
    c->client_ip = bh_new(env->a, struct bh_core_v1_client_ip_config);
    c->client_ip->has_timeout_seconds = true;
    c->client_ip->timeout_seconds = AFFINITY_S_DEFAULT;
    s->session_affinity_config = c;
}

void bh_v_service_default(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_service *s = obj;
    bool balanced = bh_v_service_is(s, "LoadBalancer");

    default_affinity(env, &s->spec);
    for (size_t i = 0; i < s->spec.ports.n; i++) {
        struct bh_core_v1_service_port *p = &s->spec.ports.p[i];

        if (p->target_port.is_str ? p->target_port.s.n == 0 : p->target_port.i == 0)
            p->target_port = (struct bh_intstr){.i = p->port};
    }
    if (external(s) && s->spec.external_traffic_policy.n == 0)
        s->spec.external_traffic_policy = BH_S("Cluster");
    if (!s->spec.has_internal_traffic_policy &&
        (balanced || bh_v_service_is(s, "NodePort") || bh_v_service_is(s, "ClusterIP"))) {
        s->spec.has_internal_traffic_policy = true;
        s->spec.internal_traffic_policy = BH_S("Cluster");
    }
    if (!balanced)
        return;
    if (!s->spec.has_allocate_load_balancer_node_ports) {
        s->spec.has_allocate_load_balancer_node_ports = true;
        s->spec.allocate_load_balancer_node_ports = true;
    }
    for (size_t i = 0; i < s->status.load_balancer.ingress.n; i++) {
        struct bh_core_v1_load_balancer_ingress *g = &s->status.load_balancer.ingress.p[i];

        if (g->ip.n && !g->has_ip_mode) {
            g->has_ip_mode = true;
            g->ip_mode = BH_S("VIP");
        }
    }
}

static void service_prepare_create(const struct bh_rules_env *env, void *obj)
{
    (void)env;
    ((struct bh_core_v1_service *)obj)->status = (struct bh_core_v1_service_status){0};
}

static bool has_node_ports(const struct bh_core_v1_service *s)
{
    return bh_v_service_is(s, "NodePort") || bh_v_service_is(s, "LoadBalancer");
}

/* No port of s has a node port that old did not have. */
static bool no_new_node_ports(const struct bh_core_v1_service *s,
                              const struct bh_core_v1_service *old)
{
    for (size_t i = 0; i < s->spec.ports.n; i++) {
        bool known = s->spec.ports.p[i].node_port == 0;

        for (size_t k = 0; k < old->spec.ports.n && !known; k++)
            known = old->spec.ports.p[k].node_port == s->spec.ports.p[i].node_port;
        if (!known)
            return false;
    }
    return true;
}

/* What belongs to a type goes with it, unless it was changed at the same time: then validation has
 * to speak. */
static void drop_by_type(struct bh_core_v1_service *s, const struct bh_core_v1_service *old)
{
    struct bh_core_v1_service_spec *n = &s->spec;
    const struct bh_core_v1_service_spec *o = &old->spec;

    if (!bh_v_service_is(old, "ExternalName") && bh_v_service_is(s, "ExternalName")) {
        if (bh_str_eq(n->cluster_ip, o->cluster_ip) &&
            bh_v_same_strs(&n->cluster_ips, &o->cluster_ips)) {
            n->cluster_ip = BH_S("");
            n->cluster_ips = (struct bh_str_vec){0};
        }
        if (bh_v_same_strs(&n->ip_families, &o->ip_families))
            n->ip_families = (struct bh_str_vec){0};
        if (bh_str_eq(n->ip_family_policy, o->ip_family_policy)) {
            n->has_ip_family_policy = false;
            n->ip_family_policy = BH_S("");
        }
    }
    if (has_node_ports(old) && !has_node_ports(s) && no_new_node_ports(s, old))
        for (size_t i = 0; i < n->ports.n; i++)
            n->ports.p[i].node_port = 0;
    if (bh_v_service_health_port(old) && !bh_v_service_health_port(s) &&
        n->health_check_node_port == o->health_check_node_port)
        n->health_check_node_port = 0;
    if (bh_v_service_is(old, "LoadBalancer") && !bh_v_service_is(s, "LoadBalancer")) {
        if (n->has_allocate_load_balancer_node_ports && o->has_allocate_load_balancer_node_ports &&
            n->allocate_load_balancer_node_ports == o->allocate_load_balancer_node_ports) {
            n->has_allocate_load_balancer_node_ports = false;
            n->allocate_load_balancer_node_ports = false;
        }
        if (same_class(s, old)) {
            n->has_load_balancer_class = false;
            n->load_balancer_class = BH_S("");
        }
    }
    if (external(old) && !external(s) &&
        bh_str_eq(n->external_traffic_policy, o->external_traffic_policy))
        n->external_traffic_policy = BH_S("");
    if (!bh_v_service_is(s, "LoadBalancer"))
        s->status.load_balancer = (struct bh_core_v1_load_balancer_status){0};
}

static void service_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                   const void *prev)
{
    struct bh_core_v1_service *s = obj;
    const struct bh_core_v1_service *old = prev;

    (void)env;
    if (bh_str_eqc(sub, "status")) {
        s->spec = old->spec;
        return;
    }
    s->status = old->status;
    drop_by_type(s, old);
}

/* ---- addresses ---- */

/* What was stored may stay as it is. */
static void address(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s,
                    const struct bh_str_vec *stored)
{
    if (!bh_v_has(stored, s))
        bh_v_check(e, at, bh_check_ip, s);
}

static bool within(const struct bh_ip *ip, const char *cidr)
{
    struct bh_ip net;
    unsigned bits = 0;

    return bh_cidr_parse(bh_s(cidr), &net, &bits) && net.v6 == ip->v6 &&
           bh_ip_in_cidr(ip, &net, bits);
}

void bh_v_ordinary_address(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    struct bh_ip ip;

    if (!bh_ip_parse(s, &ip))
        return;
    if (within(&ip, "0.0.0.0/32") || within(&ip, "::/128"))
        bh_fe_invalid(e, at, s, "may not be unspecified (%.*s)", BH_SF(s));
    if (within(&ip, "127.0.0.0/8") || within(&ip, "::1/128"))
        bh_fe_invalid(e, at, s, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    if (within(&ip, "169.254.0.0/16") || within(&ip, "fe80::/10"))
        bh_fe_invalid(e, at, s, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    if (within(&ip, "224.0.0.0/24") || within(&ip, "ff02::/16"))
        bh_fe_invalid(e, at, s,
                      "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
}

static void families(struct bh_field_errs *e, const struct bh_core_v1_service_spec *s)
{
    for (size_t i = 0; i < s->ip_families.n; i++) {
        const struct bh_fpath *at = BH_FPI(BH_FP(spec_at, "ipFamilies"), i);

        if (!BH_V_ONE_OF(s->ip_families.p[i], "IPv4", "IPv6"))
            BH_V_NOT_SUPPORTED(e, at, s->ip_families.p[i], "IPv4", "IPv6");
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(s->ip_families.p[k], s->ip_families.p[i])) {
                bh_fe_duplicate(e, at, s->ip_families.p[i]);
                break;
            }
    }
    if (s->has_ip_family_policy &&
        !BH_V_ONE_OF(s->ip_family_policy, "PreferDualStack", "RequireDualStack", "SingleStack"))
        BH_V_NOT_SUPPORTED(e, BH_FP(spec_at, "ipFamilyPolicy"), s->ip_family_policy,
                           "PreferDualStack", "RequireDualStack", "SingleStack");
}

static bool is_v6(struct bh_str s)
{
    struct bh_ip ip;

    return bh_ip_parse(s, &ip) && ip.v6;
}

/* Each of them; false when one is so wrong that they are not compared. */
static bool each_address(struct bh_field_errs *e, const struct bh_str_vec *v,
                         const struct bh_str_vec *stored)
{
    const struct bh_fpath *at = BH_FP(spec_at, "clusterIPs");
    size_t before = e->n;

    for (size_t i = 0; i < v->n; i++) {
        if (i == 0 && bh_str_eqc(v->p[0], "None")) {
            if (v->n > 1)
                bh_fe_invalid_text(e, at, bh_v_json_strs(e->a, v),
                                   "'None' must be the first and only value");
            continue;
        }
        address(e, BH_FPI(at, i), v->p[i], stored);
    }
    return e->n == before;
}

void bh_v_service_addresses(struct bh_field_errs *e, const struct bh_core_v1_service *s,
                            const struct bh_core_v1_service *old)
{
    const struct bh_fpath *at = BH_FP(spec_at, "clusterIPs");
    const struct bh_str_vec *v = &s->spec.cluster_ips, none = {0};
    bool fine;

    if (bh_v_service_is(s, "ExternalName"))
        return;
    if (s->spec.cluster_ip.n && v->n == 0)
        bh_fe_required(e, at, NULL);
    else if (s->spec.cluster_ip.n && !bh_str_eq(v->p[0], s->spec.cluster_ip))
        bh_fe_invalid_text(e, at, bh_v_json_strs(e->a, v), "first value must match `clusterIP`");
    else if (s->spec.cluster_ip.n == 0 && v->n)
        bh_fe_invalid_text(e, at, bh_v_json_strs(e->a, v),
                           "must be empty when `clusterIP` is not specified");
    families(e, &s->spec);
    fine = each_address(e, v, old ? &old->spec.cluster_ips : &none);
    if (v->n > 2)
        bh_fe_invalid_text(e, at, bh_v_json_strs(e->a, v), "may only hold up to 2 values");
    if (!fine)
        return;
    if (v->n > 1 && !(v->n == 2 && is_v6(v->p[0]) != is_v6(v->p[1])))
        bh_fe_invalid_text(e, at, bh_v_json_strs(e->a, v),
                           "may specify no more than one IP for each IP family");
    for (size_t i = 0; !bh_v_service_headless(s) && i < v->n && i < s->spec.ip_families.n; i++) {
        struct bh_str want = s->spec.ip_families.p[i];

        if (BH_V_ONE_OF(want, "IPv4", "IPv6") && bh_str_eqc(want, "IPv6") != is_v6(v->p[i]))
            bh_fe_invalid(e, BH_FPI(at, i), v->p[i],
                          "expected an %.*s value as indicated by `ipFamilies[%zu]`", BH_SF(want),
                          i);
    }
}

/* ---- ports ---- */

static void port_number(struct bh_field_errs *e, const struct bh_fpath *at, int64_t port)
{
    char buf[BH_NAMES_BUF];
    const char *bad = bh_check_port_number(port, buf);

    if (bad)
        bh_fe_invalid_i64(e, at, port, "%s", bad);
}

static void one_port(struct bh_field_errs *e, const struct bh_core_v1_service_spec *s, size_t i)
{
    const struct bh_core_v1_service_port *p = &s->ports.p[i];
    const struct bh_fpath *at = BH_FPI(BH_FP(spec_at, "ports"), i), *name = BH_FP(at, "name");

    if (p->name.n == 0) {
        if (s->ports.n > 1)
            bh_fe_required(e, name, NULL);
    } else {
        bh_v_check(e, name, bh_check_dns1123_label, p->name);
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(s->ports.p[k].name, p->name)) {
                bh_fe_duplicate(e, name, p->name);
                break;
            }
    }
    port_number(e, BH_FP(at, "port"), p->port);
    if (p->protocol.n == 0)
        bh_fe_required(e, BH_FP(at, "protocol"), NULL);
    else if (!BH_V_ONE_OF(p->protocol, "SCTP", "TCP", "UDP"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "protocol"), p->protocol, "SCTP", "TCP", "UDP");
    if (p->target_port.is_str)
        bh_v_check(e, BH_FP(at, "targetPort"), bh_check_port_name, p->target_port.s);
    else
        port_number(e, BH_FP(at, "targetPort"), p->target_port.i);
    if (p->has_app_protocol)
        bh_v_label_name(e, BH_FP(at, "appProtocol"), p->app_protocol);
}

static void repeated_ports(struct bh_field_errs *e, const struct bh_core_v1_service *s)
{
    const struct bh_core_v1_service_port_vec *v = &s->spec.ports;
    const struct bh_fpath *at = BH_FP(spec_at, "ports");

    for (size_t i = 0; bh_v_service_is(s, "ClusterIP") && i < v->n; i++)
        if (v->p[i].node_port)
            bh_fe_forbidden(e, BH_FP(BH_FPI(at, i), "nodePort"),
                            "may not be used when `type` is 'ClusterIP'");
    for (size_t i = 1; i < v->n; i++)
        for (size_t k = 0; k < i && v->p[i].node_port; k++)
            if (v->p[k].node_port == v->p[i].node_port &&
                bh_str_eq(v->p[k].protocol, v->p[i].protocol)) {
                bh_fe_duplicate_text(e, BH_FP(BH_FPI(at, i), "nodePort"),
                                     bh_str_fmt(e->a, "%d", (int)v->p[i].node_port));
                break;
            }
    for (size_t i = 1; i < v->n; i++)
        for (size_t k = 0; k < i; k++) {
            const struct bh_core_v1_service_port key = {.protocol = v->p[i].protocol,
                                                        .port = v->p[i].port};

            if (v->p[k].port != v->p[i].port || !bh_str_eq(v->p[k].protocol, v->p[i].protocol))
                continue;
            bh_fe_duplicate_text(e, BH_FPI(at, i),
                                 bh_v_go_json(e->a, &bh_core_v1_service_port_type, &key));
            break;
        }
}

/* ---- the rest ---- */

static void by_type(struct bh_field_errs *e, const struct bh_core_v1_service *s)
{
    const struct bh_fpath *first = BH_FPI(BH_FP(spec_at, "clusterIPs"), 0);
    struct bh_str cname = s->spec.external_name;

    if (s->spec.ports.n == 0 && !bh_v_service_headless(s) && !bh_v_service_is(s, "ExternalName"))
        bh_fe_required(e, BH_FP(spec_at, "ports"), NULL);
    if (has_node_ports(s) && bh_v_service_headless(s))
        bh_fe_invalid(e, first, s->spec.cluster_ips.p[0],
                      "may not be set to 'None' for %.*s services", BH_SF(s->spec.type));
    if (!bh_v_service_is(s, "ExternalName"))
        return;
    if (s->spec.cluster_ips.n)
        bh_fe_forbidden(e, BH_FP(spec_at, "clusterIPs"),
                        "may not be set for ExternalName services");
    if (s->spec.ip_families.n)
        bh_fe_forbidden(e, BH_FP(spec_at, "ipFamilies"),
                        "may not be set for ExternalName services");
    if (s->spec.has_ip_family_policy)
        bh_fe_forbidden(e, BH_FP(spec_at, "ipFamilyPolicy"),
                        "may not be set for ExternalName services");
    if (cname.n && cname.p[cname.n - 1] == '.')
        cname.n--;
    if (cname.n)
        bh_v_check(e, BH_FP(spec_at, "externalName"), bh_check_dns1123_subdomain, cname);
    else
        bh_fe_required(e, BH_FP(spec_at, "externalName"), NULL);
}

static void affinity(struct bh_field_errs *e, const struct bh_core_v1_service_spec *s)
{
    const struct bh_fpath *config = BH_FP(spec_at, "sessionAffinityConfig"),
                          *timeout = BH_FP(BH_FP(config, "clientIP"), "timeoutSeconds");

    if (!BH_V_ONE_OF(s->session_affinity, "ClientIP", "None"))
        BH_V_NOT_SUPPORTED(e, BH_FP(spec_at, "sessionAffinity"), s->session_affinity, "ClientIP",
                           "None");
    if (bh_str_eqc(s->session_affinity, "None") && s->session_affinity_config)
        bh_fe_forbidden(e, config, "must not be set when session affinity is None");
    if (bh_str_eqc(s->session_affinity, "ClientIP")) {
        int32_t t = s->session_affinity_config->client_ip->timeout_seconds; /* a default */

        if (t <= 0 || t > AFFINITY_S_MAX)
            bh_fe_invalid_i64(e, timeout, t, "must be greater than 0 and less than %d",
                              AFFINITY_S_MAX);
    }
}

static void balancer_class(struct bh_field_errs *e, const struct bh_core_v1_service *s,
                           const struct bh_core_v1_service *old)
{
    const struct bh_fpath *at = BH_FP(spec_at, "loadBalancerClass");
    bool balanced = bh_v_service_is(s, "LoadBalancer");

    if (old && balanced && bh_v_service_is(old, "LoadBalancer") && !same_class(s, old)) {
        if (s->spec.has_load_balancer_class)
            bh_fe_invalid(e, at, s->spec.load_balancer_class, "may not change once set");
        else
            bh_fe_invalid_text(e, at, BH_S("null"), "may not change once set");
    }
    if (!s->spec.has_load_balancer_class)
        return;
    if (balanced)
        bh_v_label_name(e, at, s->spec.load_balancer_class);
    else
        bh_fe_forbidden(e, at, "may only be used when `type` is 'LoadBalancer'");
}

static void source_ranges(struct bh_field_errs *e, const struct bh_core_v1_service *s,
                          const struct bh_core_v1_service *old)
{
    static const char key[] = "service.beta.kubernetes.io/load-balancer-source-ranges";
    static const char only[] = "may only be used when `type` is 'LoadBalancer'";
    const struct bh_fpath *at = BH_FP(spec_at, "LoadBalancerSourceRanges"),
                          *note = BH_FPK(BH_FP(meta_at, "annotations"), bh_s(key));
    const struct bh_str *v = bh_str_map_get(&s->metadata.annotations, bh_s(key)),
                        *was = old ? bh_str_map_get(&old->metadata.annotations, bh_s(key)) : NULL;
    bool balanced = bh_v_service_is(s, "LoadBalancer");
    struct bh_str rest;

    if (s->spec.load_balancer_source_ranges.n) {
        if (!balanced)
            bh_fe_forbidden(e, at, only);
        for (size_t i = 0; i < s->spec.load_balancer_source_ranges.n; i++) {
            struct bh_str c = s->spec.load_balancer_source_ranges.p[i];

            if (!(old && bh_v_has(&old->spec.load_balancer_source_ranges, c)))
                bh_v_check(e, BH_FPI(at, i), bh_check_cidr, bh_str_trim(c));
        }
        return;
    }
    if (!v)
        return;
    if (!balanced)
        bh_fe_forbidden(e, note, only);
    if (was && bh_str_eq(*was, *v))
        return;
    rest = bh_str_trim(*v);
    while (rest.p && rest.n)
        bh_v_check(e, note, bh_check_cidr, bh_str_trim(bh_str_cut(&rest, ',')));
}

static void traffic(struct bh_field_errs *e, const struct bh_core_v1_service *s)
{
    const struct bh_core_v1_service_spec *p = &s->spec;
    const struct bh_fpath *ext = BH_FP(spec_at, "externalTrafficPolicy"),
                          *health = BH_FP(spec_at, "healthCheckNodePort"),
                          *internal = BH_FP(spec_at, "internalTrafficPolicy");

    if (!external(s) && p->external_traffic_policy.n)
        bh_fe_invalid(e, ext, p->external_traffic_policy,
                      "may only be set for externally-accessible services");
    else if (external(s) && !BH_V_ONE_OF(p->external_traffic_policy, "Cluster", "Local"))
        BH_V_NOT_SUPPORTED(e, ext, p->external_traffic_policy, "Cluster", "Local");
    if (bh_v_service_health_port(s)) {
        if (p->health_check_node_port == 0)
            bh_fe_required(e, health, NULL);
        else
            port_number(e, health, p->health_check_node_port);
    } else if (p->health_check_node_port) {
        bh_fe_invalid_i64(e, health, p->health_check_node_port,
                          "may only be set when `type` is 'LoadBalancer' and "
                          "`externalTrafficPolicy` is 'Local'");
    }
    if (p->has_internal_traffic_policy &&
        !BH_V_ONE_OF(p->internal_traffic_policy, "Cluster", "Local"))
        BH_V_NOT_SUPPORTED(e, internal, p->internal_traffic_policy, "Cluster", "Local");
    if (p->has_traffic_distribution &&
        !BH_V_ONE_OF(p->traffic_distribution, "PreferClose", "PreferSameZone", "PreferSameNode"))
        BH_V_NOT_SUPPORTED(e, BH_FP(spec_at, "trafficDistribution"), p->traffic_distribution,
                           "PreferClose", "PreferSameZone", "PreferSameNode");
}

static void topology_annotations(struct bh_field_errs *e, const struct bh_core_v1_service *s)
{
    static const char mode[] = "service.kubernetes.io/topology-mode",
                      hints[] = "service.kubernetes.io/topology-aware-hints";
    const struct bh_str *m = bh_str_map_get(&s->metadata.annotations, bh_s(mode)),
                        *h = bh_str_map_get(&s->metadata.annotations, bh_s(hints));

    if (m && h && !bh_str_eq(*m, *h))
        bh_fe_invalid(e, BH_FPK(BH_FP(meta_at, "annotations"), bh_s(mode)), *m,
                      "must match annotations[%s] when both are specified", hints);
}

static void service(struct bh_field_errs *e, const struct bh_core_v1_service *s,
                    const struct bh_core_v1_service *old)
{
    const struct bh_str_vec none = {0};
    bool balanced = bh_v_service_is(s, "LoadBalancer");

    topology_annotations(e, s);
    by_type(e, s);
    for (size_t i = 0; i < s->spec.ports.n; i++)
        one_port(e, &s->spec, i);
    bh_v_labels(e, BH_FP(spec_at, "selector"), &s->spec.selector);
    affinity(e, &s->spec);
    bh_v_service_addresses(e, s, old);
    for (size_t i = 0; i < s->spec.external_ips.n; i++) {
        size_t before = e->n;
        const struct bh_fpath *at = BH_FPI(BH_FP(spec_at, "externalIPs"), i);

        address(e, at, s->spec.external_ips.p[i], old ? &old->spec.external_ips : &none);
        if (e->n == before)
            bh_v_ordinary_address(e, at, s->spec.external_ips.p[i]);
    }
    if (!BH_V_ONE_OF(s->spec.type, "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))
        BH_V_NOT_SUPPORTED(e, BH_FP(spec_at, "type"), s->spec.type, "ClusterIP", "ExternalName",
                           "LoadBalancer", "NodePort");
    repeated_ports(e, s);
    source_ranges(e, s, old);
    if (s->spec.has_allocate_load_balancer_node_ports && !balanced)
        bh_fe_forbidden(e, BH_FP(spec_at, "allocateLoadBalancerNodePorts"),
                        "may only be used when `type` is 'LoadBalancer'");
    balancer_class(e, s, NULL);
    traffic(e, s);
}

static void service_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_core_v1_service *s = obj;

    (void)env;
    bh_v_meta(e, meta_at, &s->metadata, true, bh_check_dns1123_label, BH_VM_KUBE);
    service(e, s, NULL);
}

/* Addresses and families stay: a second one may come, or go again when that is said. One rule for
 * both, as they are worded alike. */
static void kept_list(struct bh_field_errs *e, const char *field, const char *what,
                      const struct bh_str_vec *now, const struct bh_str_vec *old,
                      const struct bh_core_v1_service *s, bool each_index)
{
    const struct bh_fpath *at = BH_FPS(spec_at, bh_s(field));
    struct bh_str shown = bh_v_json_strs(e->a, now);

    if (now->n == old->n) {
        for (size_t i = 0; i < now->n; i++)
            if (!bh_str_eq(now->p[i], old->p[i]))
                bh_fe_invalid_text(e, BH_FPI(at, each_index ? i : 0), shown,
                                   "may not change once set");
        return;
    }
    if (old->n > now->n && s->spec.cluster_ips.n == 0)
        bh_fe_invalid_text(e, BH_FPI(at, 0), shown, "primary %s can not be unset", what);
    if (old->n && now->n && !bh_str_eq(now->p[0], old->p[0]))
        bh_fe_invalid_text(e, BH_FPI(at, 0), shown, "may not change once set");
    if (old->n > now->n && now->n == 1 && !bh_str_eqc(s->spec.ip_family_policy, "SingleStack"))
        bh_fe_invalid(e, BH_FP(spec_at, "ipFamilyPolicy"), s->spec.ip_family_policy,
                      "must be set to 'SingleStack' when releasing the secondary %s", what);
}

static void kept(struct bh_field_errs *e, const struct bh_core_v1_service *s,
                 const struct bh_core_v1_service *old)
{
    bool now = bh_v_service_headless(s), was = bh_v_service_headless(old);

    if (bh_v_service_is(s, "ExternalName") || bh_v_service_is(old, "ExternalName"))
        return;
    if (!(now && was))
        kept_list(e, "clusterIPs", "clusterIP", &s->spec.cluster_ips, &old->spec.cluster_ips, s,
                  true);
    if (!now && !was)
        kept_list(e, "ipFamilies", "ipFamily", &s->spec.ip_families, &old->spec.ip_families, s,
                  false);
}

static void balancer_status(struct bh_field_errs *e, const struct bh_core_v1_service *s,
                            const struct bh_core_v1_service *old)
{
    const struct bh_fpath *at = BH_FP(BH_FP(BH_FP(NULL, "status"), "loadBalancer"), "ingress");
    const struct bh_core_v1_load_balancer_ingress_vec *v = &s->status.load_balancer.ingress,
                                                      *was = &old->status.load_balancer.ingress;

    if (!bh_v_service_is(s, "LoadBalancer") && v->n) {
        bh_fe_forbidden(e, at, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_core_v1_load_balancer_ingress *g = &v->p[i];
        const struct bh_fpath *ix = BH_FPI(at, i), *mode = BH_FP(ix, "ipMode");
        bool stored = false;
        struct bh_ip ip;

        for (size_t k = 0; k < was->n && !stored; k++)
            stored = bh_str_eq(was->p[k].ip, g->ip);
        if (g->ip.n && !stored)
            bh_v_check(e, BH_FP(ix, "ip"), bh_check_ip, g->ip);
        if (!g->has_ip_mode && g->ip.n)
            bh_fe_required(e, mode, "must be specified when `ip` is set");
        else if (g->has_ip_mode && g->ip.n == 0)
            bh_fe_forbidden(e, mode, "may not be specified when `ip` is not set");
        else if (g->has_ip_mode && !BH_V_ONE_OF(g->ip_mode, "Proxy", "VIP"))
            BH_V_NOT_SUPPORTED(e, mode, g->ip_mode, "Proxy", "VIP");
        if (g->hostname.n) {
            bh_v_check(e, BH_FP(ix, "hostname"), bh_check_dns1123_subdomain, g->hostname);
            if (bh_ip_parse(g->hostname, &ip))
                bh_fe_invalid(e, BH_FP(ix, "hostname"), g->hostname,
                              "must be a DNS name, not an IP address");
        }
    }
}

static void service_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                           const void *prev, struct bh_field_errs *e)
{
    const struct bh_core_v1_service *s = obj, *old = prev;

    (void)env;
    bh_v_meta_update(e, meta_at, &s->metadata, &old->metadata, BH_VM_KUBE);
    if (bh_str_eqc(sub, "status")) {
        balancer_status(e, s, old);
        return;
    }
    kept(e, s, old);
    balancer_class(e, s, old);
    if (bh_v_service_health_port(s) && bh_v_service_health_port(old) &&
        s->spec.health_check_node_port != old->spec.health_check_node_port)
        bh_fe_forbidden(e, BH_FP(spec_at, "healthCheckNodePort"), BH_V_IMMUTABLE);
    service(e, s, old);
}

/* ---- warnings ---- */

static void address_warning(const struct bh_rules_env *env, struct bh_str_vec *out,
                            const char *path, struct bh_str s)
{
    char buf[BH_IP_BUF];
    struct bh_ip ip;

    if (bh_ip_parse(s, &ip) && ip.v6 && !bh_str_eq(bh_ip_fmt(&ip, buf), s))
        bh_v_warn(env, out,
                  "%s: IPv6 address \"%.*s\" should be in RFC 5952 canonical format (\"%.*s\")",
                  path, BH_SF(s), BH_SF(bh_ip_fmt(&ip, buf)));
}

static void service_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                         const void *prev, struct bh_str_vec *out)
{
    const struct bh_core_v1_service *s = obj;
    const struct bh_core_v1_service_spec *p = &s->spec;
    bool headless = bh_v_service_is(s, "ClusterIP") && bh_str_eqc(p->cluster_ip, "None"),
         named = bh_v_service_is(s, "ExternalName");

    (void)prev;
    if (sub.n)
        return;
    if (bh_str_map_get(&s->metadata.annotations,
                       BH_S("service.kubernetes.io/topology-aware-hints")))
        bh_v_warn(env, out,
                  "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use "
                  "service.kubernetes.io/topology-mode instead");
    for (size_t i = 0; !headless && i < p->cluster_ips.n; i++)
        address_warning(env, out, bh_str_fmt(env->a, "spec.clusterIPs[%zu]", i).p,
                        p->cluster_ips.p[i]);
    if (headless && p->load_balancer_ip.n)
        bh_v_warn(env, out, "spec.loadBalancerIP is ignored for headless services");
    if (headless && p->external_ips.n)
        bh_v_warn(env, out, "spec.externalIPs is ignored for headless services");
    if (headless && !bh_str_eqc(p->session_affinity, "None"))
        bh_v_warn(env, out, "spec.SessionAffinity is ignored for headless services");
    for (size_t i = 0; i < p->external_ips.n; i++)
        address_warning(env, out, bh_str_fmt(env->a, "spec.externalIPs[%zu]", i).p,
                        p->external_ips.p[i]);
    if (p->external_ips.n && !headless && !named)
        bh_v_warn(env, out,
                  "spec.externalIPs is deprecated and may no longer be implemented in some "
                  "clusters");
    if (p->load_balancer_ip.n)
        address_warning(env, out, "spec.loadBalancerIP", p->load_balancer_ip);
    if (named && p->external_ips.n)
        bh_v_warn(env, out, "spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    if (!named && p->external_name.n)
        bh_v_warn(env, out, "spec.externalName is ignored when spec.type is not \"ExternalName\"");
    if (bh_str_eqc(p->traffic_distribution, "PreferClose"))
        bh_v_warn(env, out,
                  "spec.trafficDistribution: \"PreferClose\" is deprecated; use "
                  "\"PreferSameZone\"");
}

const struct bh_rules bh_rules_service[] = {
    {.group = "",
     .kind = "Service",
     .prepare_create = service_prepare_create,
     .prepare_update = service_prepare_update,
     .validate_create = service_create,
     .validate_update = service_update,
     .warn = service_warn,
     .create_on_update = true},
};
const size_t bh_rules_service_n = BH_COUNT(bh_rules_service);
