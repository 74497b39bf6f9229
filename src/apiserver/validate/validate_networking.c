/* IngressClass and NetworkPolicy. */
#include "apiserver/validate/validate_workload.h"

#include "api/gen/networking_v1.h"
#include "data/names.h"

#define CONTROLLER_MAX 250

#define CLASS      bh_networking_v1_ingress_class
#define PARAMETERS bh_networking_v1_ingress_class_parameters_reference

static const struct bh_fpath *const spec_at =
    &(const struct bh_fpath){.name = BH_S_INIT("spec"), .kind = BH_FP_NAME};

/* ---- IngressClass ---- */

void bh_v_ingress_class_default(const struct bh_rules_env *env, void *obj)
{
    struct PARAMETERS *p = ((struct CLASS *)obj)->spec.parameters;

    (void)env;
    if (!p || p->has_scope)
        return;
    p->has_scope = true;
    p->scope = BH_S("Cluster");
}

static void class_prepare_create(const struct bh_rules_env *env, void *obj)
{
    (void)env;
    ((struct CLASS *)obj)->metadata.generation = 1;
}

static void class_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                 const void *prev)
{
    struct CLASS *c = obj;
    const struct CLASS *old = prev;

    (void)env;
    (void)sub;
    if (!bh_msg_equal(&bh_networking_v1_ingress_class_spec_type, &c->spec, &old->spec))
        c->metadata.generation = old->metadata.generation + 1;
}

static void parameters(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct PARAMETERS *p)
{
    const struct bh_fpath *namespace = BH_FP(at, "namespace");

    if (p->has_a_pi_group)
        bh_v_check(e, BH_FP(at, "apiGroup"), bh_check_dns1123_subdomain, p->a_pi_group);
    if (p->kind.n == 0)
        bh_fe_required(e, BH_FP(at, "kind"), NULL);
    else
        bh_v_check(e, BH_FP(at, "kind"), bh_check_path_segment, p->kind);
    if (p->name.n == 0)
        bh_fe_required(e, BH_FP(at, "name"), NULL);
    else
        bh_v_check(e, BH_FP(at, "name"), bh_check_path_segment, p->name);
    if (!BH_V_ONE_OF(p->scope, "Cluster", "Namespace"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "scope"), p->scope, "Cluster", "Namespace");
    if (bh_str_eqc(p->scope, "Namespace")) {
        if (!p->has_namespace)
            bh_fe_required(e, namespace, "`parameters.scope` is set to 'Namespace'");
        else
            bh_v_check(e, namespace, bh_check_dns1123_label, p->namespace);
    }
    if (bh_str_eqc(p->scope, "Cluster") && p->has_namespace)
        bh_fe_forbidden(e, namespace, "`parameters.scope` is set to 'Cluster'");
}

/* "example.com/path", both parts told of by themselves */
static void domain_path(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    struct bh_str path = s, host = bh_str_cut(&path, '/');
    char buf[BH_NAMES_BUF];
    const char *bad;

    if (!host.n || !path.n) {
        bh_v_check(e, at, bh_check_domain_prefixed_path, s);
        return;
    }
    bh_v_check(e, at, bh_check_dns1123_subdomain, host);
    bad = bh_check_domain_prefixed_path(bh_str_fmt(e->a, "a/%.*s", BH_SF(path)), buf);
    if (bad)
        bh_fe_invalid(e, at, path, "%s", bad);
}

static void class_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct CLASS *c = obj;
    const struct bh_fpath *at = BH_FP(spec_at, "controller");

    (void)env;
    bh_v_meta(e, BH_FP(NULL, "metadata"), &c->metadata, false, bh_check_dns1123_subdomain,
              BH_VM_KUBE);
    if (c->spec.controller.n > CONTROLLER_MAX)
        bh_fe_too_long(e, at, CONTROLLER_MAX);
    if (c->spec.controller.n == 0)
        bh_fe_required(e, at, NULL);
    else
        domain_path(e, at, c->spec.controller);
    if (c->spec.parameters)
        parameters(e, BH_FP(spec_at, "parameters"), c->spec.parameters);
}

static void class_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                         const void *prev, struct bh_field_errs *e)
{
    const struct CLASS *c = obj, *old = prev;

    (void)sub;
    bh_v_meta_update(e, BH_FP(NULL, "metadata"), &c->metadata, &old->metadata, BH_VM_KUBE);
    bh_v_immutable_str(e, BH_FP(spec_at, "controller"), c->spec.controller, old->spec.controller);
    class_create(env, c, e);
}

/* ---- NetworkPolicy ---- */

#define POLICY  bh_networking_v1_network_policy
#define NP_PORT bh_networking_v1_network_policy_port
#define NP_PEER bh_networking_v1_network_policy_peer

static void default_ports(struct bh_networking_v1_network_policy_port_vec *v)
{
    for (size_t i = 0; i < v->n; i++)
        if (!v->p[i].has_protocol) {
            v->p[i].has_protocol = true;
            v->p[i].protocol = BH_S("TCP");
        }
}

void bh_v_network_policy_default(const struct bh_rules_env *env, void *obj)
{
    struct bh_networking_v1_network_policy_spec *s = &((struct POLICY *)obj)->spec;

    for (size_t i = 0; i < s->ingress.n; i++)
        default_ports(&s->ingress.p[i].ports);
    for (size_t i = 0; i < s->egress.n; i++)
        default_ports(&s->egress.p[i].ports);
    if (s->policy_types.n)
        return;
    s->policy_types.p = bh_new_n(env->a, struct bh_str, 2);
    s->policy_types.p[s->policy_types.n++] = BH_S("Ingress");
    if (s->egress.n)
        s->policy_types.p[s->policy_types.n++] = BH_S("Egress");
}

static void policy_prepare_create(const struct bh_rules_env *env, void *obj)
{
    (void)env;
    ((struct POLICY *)obj)->metadata.generation = 1;
}

/* A list that is given empty counts as a change, though nothing of it is kept. */
static void policy_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                  const void *prev)
{
    struct POLICY *p = obj;
    const struct POLICY *old = prev;

    (void)env;
    (void)sub;
    if (!bh_msg_equal(&bh_networking_v1_network_policy_spec_type, &p->spec, &old->spec) ||
        (p->spec.ingress.p && !old->spec.ingress.p) || (p->spec.egress.p && !old->spec.egress.p))
        p->metadata.generation = old->metadata.generation + 1;
}

static void policy_number(struct bh_field_errs *e, const struct bh_fpath *at, int32_t n)
{
    char buf[BH_NAMES_BUF];
    const char *bad = bh_check_port_number(n, buf);

    if (bad)
        bh_fe_invalid_i64(e, at, n, "%s", bad);
}

static void policy_port(struct bh_field_errs *e, const struct bh_fpath *at, const struct NP_PORT *p)
{
    const struct bh_fpath *port = BH_FP(at, "port"), *end = BH_FP(at, "endPort");

    if (p->has_protocol && !BH_V_ONE_OF(p->protocol, "TCP", "UDP", "SCTP"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "protocol"), p->protocol, "TCP", "UDP", "SCTP");
    if (!p->has_port) {
        if (p->has_end_port)
            bh_fe_invalid_i64(e, end, p->end_port,
                              "may not be specified when `port` is not specified");
        return;
    }
    if (p->port.is_str) {
        if (p->has_end_port)
            bh_fe_invalid_i64(e, end, p->end_port,
                              "may not be specified when `port` is non-numeric");
        bh_v_check(e, port, bh_check_port_name, p->port.s);
        return;
    }
    policy_number(e, port, p->port.i);
    if (!p->has_end_port)
        return;
    if (p->end_port < p->port.i)
        bh_fe_invalid_i64(e, end, p->port.i, "must be greater than or equal to `port`");
    policy_number(e, end, p->end_port);
}

static void ip_block(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_networking_v1_ip_block *b)
{
    const struct bh_fpath *cidr = BH_FP(at, "cidr");
    struct bh_ip net, inner;
    unsigned bits, inner_bits;

    if (b->cidr.n == 0) {
        bh_fe_required(e, cidr, NULL);
        return;
    }
    bh_v_check(e, cidr, bh_check_cidr, b->cidr);
    if (!bh_cidr_parse(b->cidr, &net, &bits))
        return;
    for (size_t i = 0; i < b->except.n; i++) {
        const struct bh_fpath *except = BH_FPI(BH_FP(at, "except"), i);

        bh_v_check(e, except, bh_check_cidr, b->except.p[i]);
        if (!bh_cidr_parse(b->except.p[i], &inner, &inner_bits))
            continue;
        if (inner.v6 != net.v6 || !bh_ip_in_cidr(&inner, &net, bits) || bits >= inner_bits)
            bh_fe_invalid(e, except, b->except.p[i], "must be a strict subset of `cidr`");
    }
}

static void policy_peer(struct bh_field_errs *e, const struct bh_fpath *at, const struct NP_PEER *p)
{
    int n = (p->pod_selector != NULL) + (p->namespace_selector != NULL) + (p->ip_block != NULL);

    if (p->pod_selector)
        bh_v_label_selector(e, BH_FP(at, "podSelector"), p->pod_selector, false);
    if (p->namespace_selector)
        bh_v_label_selector(e, BH_FP(at, "namespaceSelector"), p->namespace_selector, false);
    if (p->ip_block)
        ip_block(e, BH_FP(at, "ipBlock"), p->ip_block);
    if (n == 0)
        bh_fe_required(e, at, "must specify a peer");
    else if (n > 1 && p->ip_block)
        bh_fe_forbidden(e, at, "may not specify both ipBlock and another peer");
}

static void policy_rule(struct bh_field_errs *e, const struct bh_fpath *at, const char *peers_at,
                        const struct bh_networking_v1_network_policy_port_vec *ports,
                        const struct bh_networking_v1_network_policy_peer_vec *peers)
{
    for (size_t i = 0; i < ports->n; i++)
        policy_port(e, BH_FPI(BH_FP(at, "ports"), i), &ports->p[i]);
    for (size_t i = 0; i < peers->n; i++)
        policy_peer(e, BH_FPI(BH_FPS(at, bh_s(peers_at)), i), &peers->p[i]);
}

static void policy(struct bh_field_errs *e, const struct bh_networking_v1_network_policy_spec *s)
{
    const struct bh_fpath *types = BH_FP(spec_at, "policyTypes");

    bh_v_label_selector(e, BH_FP(spec_at, "podSelector"), &s->pod_selector, false);
    for (size_t i = 0; i < s->ingress.n; i++)
        policy_rule(e, BH_FPI(BH_FP(spec_at, "ingress"), i), "from", &s->ingress.p[i].ports,
                    &s->ingress.p[i].from);
    for (size_t i = 0; i < s->egress.n; i++)
        policy_rule(e, BH_FPI(BH_FP(spec_at, "egress"), i), "to", &s->egress.p[i].ports,
                    &s->egress.p[i].to);
    if (s->policy_types.n > 2) {
        bh_fe_invalid_text(e, types, bh_v_json_strs(e->a, &s->policy_types),
                           "may not specify more than two policyTypes");
        return;
    }
    for (size_t i = 0; i < s->policy_types.n; i++)
        if (!BH_V_ONE_OF(s->policy_types.p[i], "Ingress", "Egress"))
            BH_V_NOT_SUPPORTED(e, BH_FPI(types, i), s->policy_types.p[i], "Ingress", "Egress");
}

static void policy_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct POLICY *p = obj;

    (void)env;
    bh_v_meta(e, BH_FP(NULL, "metadata"), &p->metadata, true, bh_check_dns1123_subdomain,
              BH_VM_KUBE);
    policy(e, &p->spec);
}

static void policy_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                          const void *prev, struct bh_field_errs *e)
{
    const struct POLICY *p = obj, *old = prev;

    (void)env;
    (void)sub;
    bh_v_meta_update(e, BH_FP(NULL, "metadata"), &p->metadata, &old->metadata, BH_VM_KUBE);
    policy(e, &p->spec);
}

static void cidr_warning(const struct bh_rules_env *env, struct bh_str_vec *out,
                         const struct bh_fpath *at, struct bh_str s)
{
    struct bh_str canonical;
    char buf[BH_IP_BUF];
    struct bh_ip ip;
    unsigned bits;

    if (!bh_cidr_parse(s, &ip, &bits) || !ip.v6)
        return;
    canonical = bh_str_fmt(env->a, "%.*s/%u", BH_SF(bh_ip_fmt(&ip, buf)), bits);
    if (!bh_str_eq(canonical, s))
        bh_v_warn_at(env, out, at,
                     "IPv6 CIDR value \"%.*s\" should be in RFC 5952 canonical format (\"%.*s\")",
                     BH_SF(s), BH_SF(canonical));
}

static void peers_warning(const struct bh_rules_env *env, struct bh_str_vec *out,
                          const struct bh_fpath *at,
                          const struct bh_networking_v1_network_policy_peer_vec *v)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_networking_v1_ip_block *b = v->p[i].ip_block;
        const struct bh_fpath *block = BH_FP(BH_FPI(at, i), "ipBlock");

        if (!b)
            continue;
        cidr_warning(env, out, BH_FP(block, "cidr"), b->cidr);
        for (size_t k = 0; k < b->except.n; k++)
            cidr_warning(env, out, BH_FPI(BH_FP(block, "except"), k), b->except.p[k]);
    }
}

static void policy_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                        const void *prev, struct bh_str_vec *out)
{
    const struct bh_networking_v1_network_policy_spec *s = &((const struct POLICY *)obj)->spec;

    (void)sub;
    (void)prev;
    for (size_t i = 0; i < s->ingress.n; i++)
        peers_warning(env, out, BH_FP(BH_FPI(BH_FP(spec_at, "ingress"), i), "from"),
                      &s->ingress.p[i].from);
    for (size_t i = 0; i < s->egress.n; i++)
        peers_warning(env, out, BH_FP(BH_FPI(BH_FP(spec_at, "egress"), i), "to"),
                      &s->egress.p[i].to);
}

const struct bh_rules bh_rules_networking[] = {
    {.group = "networking.k8s.io",
     .kind = "NetworkPolicy",
     .prepare_create = policy_prepare_create,
     .prepare_update = policy_prepare_update,
     .validate_create = policy_create,
     .validate_update = policy_update,
     .warn = policy_warn},
    {.group = "networking.k8s.io",
     .kind = "IngressClass",
     .prepare_create = class_prepare_create,
     .prepare_update = class_prepare_update,
     .validate_create = class_create,
     .validate_update = class_update},
};
const size_t bh_rules_networking_n = BH_COUNT(bh_rules_networking);
