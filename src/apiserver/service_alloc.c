/* Addresses and node ports of services.
 *
 * What is taken is read off the services themselves, as they will be once everything accepted is
 * committed (the head of the pipeline), in the callback that hands the write over: there is nothing
 * beside them to be kept in step, and nothing is leaked by a crash. A range of one family serves;
 * of large ranges the first 65,536 addresses are given out.
 */
#include "api/gen/core_v1.h"
#include "apiserver/server_int.h"
#include "apiserver/validate/validate_service.h"
#include "apiserver/write.h"
#include "data/names.h"

#include <string.h>

#define ADDRESSES_MAX   65536u
#define NODE_PORT_FIRST 30000
#define NODE_PORT_LAST  32767
#define NODE_PORTS      (NODE_PORT_LAST - NODE_PORT_FIRST + 1)
#define PORT_BAND       86u /* the lower ports and addresses are left to those who ask for one */

static const struct bh_fpath *const spec_at =
    &(const struct bh_fpath){.name = BH_S_INIT("spec"), .kind = BH_FP_NAME};

struct taken {
    struct bh_rq *rq;
    struct bh_ip net;
    unsigned bits;
    uint32_t size; /* addresses of the range that are given out: 1 to size - 2, or - 1 (IPv6) */
    uint8_t *address, *port; /* one byte each: taken */
};

/* ---- what is taken ---- */

static bool offset_of(const struct taken *t, const struct bh_ip *ip, uint32_t *ret)
{
    size_t n = ip->v6 ? 16 : 4;
    uint64_t v = 0;

    if (ip->v6 != t->net.v6 || !bh_ip_in_cidr(ip, &t->net, t->bits))
        return false;
    for (size_t i = n - 4; i < n; i++)
        v = v << 8 | ip->b[i];
    for (size_t i = n - 4, shift = 24; i < n; i++, shift -= 8)
        v -= (uint64_t)t->net.b[i] << shift;
    *ret = (uint32_t)v;
    return true;
}

static void take_port(struct taken *t, int32_t port)
{
    if (port >= NODE_PORT_FIRST && port <= NODE_PORT_LAST)
        t->port[port - NODE_PORT_FIRST] = 1;
}

static void take_all_of(struct taken *t, const struct bh_core_v1_service *s)
{
    struct bh_ip ip;
    uint32_t at;

    for (size_t i = 0; i < s->spec.cluster_ips.n; i++)
        if (bh_ip_parse(s->spec.cluster_ips.p[i], &ip) && offset_of(t, &ip, &at) && at < t->size)
            t->address[at] = 1;
    for (size_t i = 0; i < s->spec.ports.n; i++)
        take_port(t, s->spec.ports.p[i].node_port);
    take_port(t, s->spec.health_check_node_port);
}

static void read_taken(struct bh_rq *rq, struct taken *t)
{
    struct bh_resource *res = bh_resource_find(rq->srv, BH_S(""), BH_S("services"));
    struct bh_keyset_pos pos = {0, 0};
    struct bh_keyset_entry *e;
    struct bh_obj *o;
    uint32_t host;

    *t = (struct taken){.rq = rq};
    if (!bh_cidr_parse(rq->srv->service_cidr, &t->net, &t->bits))
        (void)bh_cidr_parse(BH_S("10.96.0.0/16"), &t->net, &t->bits);
    host = (t->net.v6 ? 128 : 32) - t->bits;
    t->size = host >= 16 ? ADDRESSES_MAX : 1u << host;
    t->address = bh_arena_alloc(rq->a, t->size);
    t->port = bh_arena_alloc(rq->a, NODE_PORTS);
    while ((e = bh_keyset_next(&res->wc->set, &pos))) {
        struct bh_obj *old = ((struct bh_wc_entry *)e)->obj;

        o = bh_pipeline_head(rq->srv->pipe, res->wc, bh_wc_key(res->wc, rq->a, old->ns, old->name));
        if (o)
            take_all_of(t, bh_obj_struct(o));
    }
    for (size_t it = 0; (o = bh_pipeline_next(rq->srv->pipe, res->wc, &it));)
        take_all_of(t, bh_obj_struct(o));
}

/* ---- addresses ---- */

static struct bh_str family(const struct taken *t)
{
    return t->net.v6 ? BH_S("IPv6") : BH_S("IPv4");
}

static int invalid(struct bh_rq *rq, const struct bh_core_v1_service *s,
                   const struct bh_field_errs *errs)
{
    return bh_fail_invalid(rq, BH_S(""), BH_S("Service"), s->metadata.name, errs);
}

static int internal(struct bh_rq *rq, struct bh_str why)
{
    int r = bh_fail_msg(rq, BH_E_INTERNAL, "Internal error occurred: %.*s", BH_SF(why));

    rq->fail.extra_cause.message = why;
    return r;
}

static int bad_address(struct bh_rq *rq, const struct bh_core_v1_service *s, struct bh_str why)
{
    struct bh_field_errs errs = {.a = rq->a};

    bh_fe_invalid_text(&errs, BH_FP(spec_at, "clusterIPs"),
                       bh_v_json_strs(rq->a, &s->spec.cluster_ips), "failed to allocate IP %.*s",
                       BH_SF(why));
    return invalid(rq, s, &errs);
}

/* A free one of n, at random: first above the band, then in it. False when all are taken. */
static bool draw(struct bh_rq *rq, const uint8_t *used, uint32_t first, uint32_t n, uint32_t band,
                 uint32_t *ret)
{
    uint32_t from = first + band < n ? first + band : first;

    for (int pass = 0; pass < 2; pass++) {
        uint32_t lo = pass ? first : from, count = pass ? from - first : n - from, start;

        if (count == 0)
            continue;
        start = (uint32_t)(bh_loop_random(rq->srv->loop) % count);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = lo + (start + i) % count;

            if (!used[at]) {
                *ret = at;
                return true;
            }
        }
    }
    return false;
}

static struct bh_str nth_address(const struct taken *t, uint32_t at)
{
    struct bh_ip ip = t->net;
    size_t n = ip.v6 ? 16 : 4;
    char buf[BH_IP_BUF];

    for (size_t i = n; at && i > 0; i--) {
        uint32_t v = ip.b[i - 1] + (at & 0xff);

        ip.b[i - 1] = (uint8_t)v;
        at = (at >> 8) + (v >> 8);
    }
    return bh_str_dup(t->rq->a, bh_ip_fmt(&ip, buf));
}

static int take_address(struct taken *t, const struct bh_core_v1_service *s, struct bh_str text)
{
    struct bh_rq *rq = t->rq;
    uint32_t at, last = t->net.v6 ? t->size - 1 : t->size - 2;
    struct bh_ip ip;

    if (!bh_ip_parse(text, &ip) || !offset_of(t, &ip, &at) || at == 0 || at > last)
        return bad_address(rq, s,
                           bh_str_fmt(rq->a,
                                      "%.*s: the provided network does not match the current range",
                                      BH_SF(text)));
    if (t->address[at])
        return bad_address(
            rq, s, bh_str_fmt(rq->a, "%.*s: provided IP is already allocated", BH_SF(text)));
    t->address[at] = 1;
    return 0;
}

static int give_address(struct taken *t, struct bh_core_v1_service *s)
{
    struct bh_rq *rq = t->rq;
    uint32_t last = t->net.v6 ? t->size : t->size - 1, band = t->size / 16, at;
    struct bh_str *p;

    if (s->spec.cluster_ips.n)
        return take_address(t, s, s->spec.cluster_ips.p[0]);
    band = band < 16 ? 16 : band > 256 ? 256 : band;
    if (t->size <= 16)
        band = 0;
    if (!draw(rq, t->address, 1, last, band, &at))
        return internal(rq, bh_str_fmt(rq->a,
                                       "failed to allocate a serviceIP for Service \"%.*s\": range "
                                       "is full",
                                       BH_SF(s->metadata.name)));
    p = bh_new(rq->a, struct bh_str);
    *p = nth_address(t, at);
    s->spec.cluster_ips = (struct bh_str_vec){p, 1};
    s->spec.cluster_ip = *p;
    return 0;
}

/* ---- families ---- */

static bool no_selector_headless(const struct bh_core_v1_service *s)
{
    return bh_str_eqc(s->spec.cluster_ip, "None") && s->spec.selector.n == 0;
}

static void add_family(struct bh_rq *rq, struct bh_core_v1_service *s, struct bh_str f)
{
    struct bh_str *p = bh_new_n(rq->a, struct bh_str, s->spec.ip_families.n + 1);

    if (s->spec.ip_families.n)
        memcpy(p, s->spec.ip_families.p, s->spec.ip_families.n * sizeof(*p));
    p[s->spec.ip_families.n] = f;
    s->spec.ip_families.p = p;
    s->spec.ip_families.n++;
}

static struct bh_str other(struct bh_str f)
{
    return bh_str_eqc(f, "IPv4") ? BH_S("IPv6") : BH_S("IPv4");
}

static void set_policy(struct bh_core_v1_service *s, struct bh_str policy)
{
    s->spec.has_ip_family_policy = true;
    s->spec.ip_family_policy = policy;
}

static void bad_policy(struct bh_field_errs *e, const struct bh_core_v1_service *s, const char *why)
{
    bh_fe_invalid(e, BH_FP(spec_at, "ipFamilyPolicy"), s->spec.ip_family_policy, "%s", why);
}

/* What was given has to fit together before the rest is filled in. */
static void check_lists(struct taken *t, struct bh_core_v1_service *s,
                        const struct bh_core_v1_service *old, struct bh_field_errs *e)
{
    bool single = bh_str_eqc(s->spec.ip_family_policy, "SingleStack");

    if (old && single) {
        if (s->spec.cluster_ips.n > 1 &&
            bh_v_same_strs(&s->spec.cluster_ips, &old->spec.cluster_ips))
            s->spec.cluster_ips.n = 1;
        if (s->spec.ip_families.n > 1 &&
            bh_v_same_strs(&s->spec.ip_families, &old->spec.ip_families))
            s->spec.ip_families.n = 1;
    } else if (old) {
        if (old->spec.cluster_ips.n == 2 && s->spec.cluster_ips.n == 1)
            bad_policy(e, s, "must be 'SingleStack' to release the secondary cluster IP");
        if (old->spec.ip_families.n == 2 && s->spec.ip_families.n == 1)
            bad_policy(e, s, "must be 'SingleStack' to release the secondary IP family");
    }
    if (single && s->spec.cluster_ips.n == 2)
        bad_policy(e, s,
                   "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are "
                   "specified");
    if (single && s->spec.ip_families.n == 2)
        bad_policy(e, s,
                   "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are "
                   "specified");
    for (size_t i = 0; i < s->spec.cluster_ips.n && !bh_str_eqc(s->spec.cluster_ips.p[i], "None");
         i++) {
        struct bh_ip ip = {.v6 = false};
        struct bh_str f;

        if (i < s->spec.ip_families.n)
            continue;
        (void)bh_ip_parse(s->spec.cluster_ips.p[i], &ip);
        f = ip.v6 ? BH_S("IPv6") : BH_S("IPv4");
        if (ip.v6 == t->net.v6)
            add_family(t->rq, s, f);
        else
            bh_fe_invalid_text(e, BH_FPI(BH_FP(spec_at, "clusterIPs"), i),
                               bh_v_json_strs(t->rq->a, &s->spec.cluster_ips),
                               "%.*s is not configured on this cluster", BH_SF(f));
    }
}

static int init_families(struct taken *t, struct bh_core_v1_service *s,
                         const struct bh_core_v1_service *old)
{
    struct bh_field_errs e = {.a = t->rq->a};

    if (!s->spec.has_ip_family_policy) {
        if (old && old->spec.has_ip_family_policy)
            set_policy(s, old->spec.ip_family_policy);
        else
            set_policy(s, no_selector_headless(s) ? BH_S("RequireDualStack") : BH_S("SingleStack"));
    }
    bh_v_service_addresses(&e, s, old);
    if (e.n == 0)
        check_lists(t, s, old, &e);
    if (e.n)
        return invalid(t->rq, s, &e);
    if (no_selector_headless(s)) {
        if (s->spec.ip_families.n == 0)
            add_family(t->rq, s, family(t));
        if (s->spec.ip_families.n < 2 && !bh_str_eqc(s->spec.ip_family_policy, "SingleStack"))
            add_family(t->rq, s, other(s->spec.ip_families.p[0]));
        return 0;
    }
    if (bh_str_eqc(s->spec.ip_family_policy, "RequireDualStack"))
        bad_policy(&e, s, "this cluster is not configured for dual-stack services");
    for (size_t i = 0; i < s->spec.ip_families.n; i++)
        if (!bh_str_eq(s->spec.ip_families.p[i], family(t)))
            bh_fe_invalid(&e, BH_FPI(BH_FP(spec_at, "ipFamilies"), i), s->spec.ip_families.p[i],
                          "not configured on this cluster");
    if (e.n)
        return invalid(t->rq, s, &e);
    if (s->spec.ip_families.n == 0)
        add_family(t->rq, s, family(t));
    return 0;
}

/* ---- node ports ---- */

static bool wants_ports(const struct bh_core_v1_service *s)
{
    return bh_v_service_is(s, "NodePort") ||
           (bh_v_service_is(s, "LoadBalancer") && (!s->spec.has_allocate_load_balancer_node_ports ||
                                                   s->spec.allocate_load_balancer_node_ports));
}

static const char *try_port(struct taken *t, int32_t port)
{
    if (port < NODE_PORT_FIRST || port > NODE_PORT_LAST)
        return "provided port is not in the valid range. The range of valid ports is 30000-32767";
    if (t->port[port - NODE_PORT_FIRST])
        return "provided port is already allocated";
    t->port[port - NODE_PORT_FIRST] = 1;
    return NULL;
}

static int take_node_port(struct taken *t, const struct bh_core_v1_service *s, size_t i,
                          int32_t port)
{
    struct bh_field_errs e = {.a = t->rq->a};
    const char *bad = try_port(t, port);

    if (!bad)
        return 0;
    bh_fe_invalid_i64(&e, BH_FP(BH_FPI(BH_FP(spec_at, "ports"), i), "nodePort"), port, "%s", bad);
    return invalid(t->rq, s, &e);
}

static int any_port(struct taken *t, const char *what, int32_t *ret)
{
    uint32_t at;

    if (!draw(t->rq, t->port, 0, NODE_PORTS, PORT_BAND, &at))
        return internal(t->rq,
                        bh_str_fmt(t->rq->a, "failed to allocate a %s: range is full", what));
    t->port[at] = 1;
    *ret = NODE_PORT_FIRST + (int32_t)at;
    return 0;
}

/* Ports of one number (TCP and UDP) share their node port, asked for or given. */
static int new_ports(struct taken *t, struct bh_core_v1_service *s)
{
    for (size_t i = 0; i < s->spec.ports.n; i++) {
        struct bh_core_v1_service_port *v = s->spec.ports.p, *p = &v[i];
        int32_t shared = 0, asked = 0;
        int r = 0;

        if (p->node_port == 0 && !wants_ports(s))
            continue;
        for (size_t k = 0; k < s->spec.ports.n && !shared; k++)
            if (k < i && v[k].port == p->port)
                shared = v[k].node_port;
        for (size_t k = 0; k < s->spec.ports.n && !asked; k++)
            if (v[k].port == p->port)
                asked = v[k].node_port;
        if (shared == 0 && asked) {
            r = take_node_port(t, s, i, asked);
            p->node_port = asked;
        } else if (shared == 0) {
            r = any_port(t, "nodePort", &p->node_port);
        } else if (p->node_port == 0) {
            p->node_port = shared;
        } else if (p->node_port != shared) {
            r = take_node_port(t, s, i, p->node_port);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

static bool had_port(const struct bh_core_v1_service *old, int32_t port)
{
    for (size_t i = 0; i < old->spec.ports.n; i++)
        if (old->spec.ports.p[i].node_port == port)
            return true;
    return false;
}

static int changed_ports(struct taken *t, struct bh_core_v1_service *s,
                         const struct bh_core_v1_service *old)
{
    for (size_t i = 0; i < s->spec.ports.n; i++) {
        struct bh_core_v1_service_port *p = &s->spec.ports.p[i];
        bool again = false;
        int r = 0;

        if (p->node_port == 0 && !wants_ports(s))
            continue;
        for (size_t k = 0; k < i && p->node_port; k++)
            again = again || s->spec.ports.p[k].node_port == p->node_port;
        if (p->node_port == 0)
            r = any_port(t, "nodePort", &p->node_port);
        else if (!again && !had_port(old, p->node_port))
            r = take_node_port(t, s, i, p->node_port);
        if (r < 0)
            return r;
    }
    return 0;
}

static int health_port(struct taken *t, struct bh_core_v1_service *s)
{
    const char *bad;

    if (s->spec.health_check_node_port == 0)
        return any_port(t, "HealthCheck NodePort 0", &s->spec.health_check_node_port);
    bad = try_port(t, s->spec.health_check_node_port);
    if (!bad)
        return 0;
    return internal(t->rq,
                    bh_str_fmt(t->rq->a, "failed to allocate requested HealthCheck NodePort %d: %s",
                               (int)s->spec.health_check_node_port, bad));
}

/* ---- the two ways of writing ---- */

static void one_address_list(struct bh_rq *rq, struct bh_core_v1_service *s)
{
    struct bh_str *p = bh_new(rq->a, struct bh_str);

    *p = s->spec.cluster_ip;
    s->spec.cluster_ips = (struct bh_str_vec){p, 1};
}

/* Upstream keeps this policy of services that are reached by name, and never shows it. */
static void drop_internal_policy(struct bh_core_v1_service *s)
{
    if (!bh_v_service_is(s, "ExternalName") ||
        !(bh_str_eqc(s->spec.internal_traffic_policy, "Cluster") ||
          bh_str_eqc(s->spec.internal_traffic_policy, "Local")))
        return;
    s->spec.has_internal_traffic_policy = false;
    s->spec.internal_traffic_policy = BH_S("");
}

static int begin_create(struct taken *t, struct bh_core_v1_service *s)
{
    bool ported = bh_v_service_is(s, "NodePort") || bh_v_service_is(s, "LoadBalancer");
    int r = 0;

    if (s->spec.cluster_ip.n && s->spec.cluster_ips.n == 0)
        one_address_list(t->rq, s);
    if (!bh_v_service_is(s, "ExternalName")) {
        r = init_families(t, s, NULL);
        if (r == 0 && !bh_v_service_headless(s))
            r = give_address(t, s);
    }
    if (r == 0 && ported)
        r = new_ports(t, s);
    if (r == 0 && bh_v_service_health_port(s))
        r = health_port(t, s);
    return r;
}

/* What was given before and is not said again stays: the same text can be sent twice. */
static void keep_given(struct bh_core_v1_service *s, const struct bh_core_v1_service *old)
{
    if (!bh_v_service_is(s, "ExternalName") && !bh_v_service_is(old, "ExternalName")) {
        if (s->spec.cluster_ip.n == 0)
            s->spec.cluster_ip = old->spec.cluster_ip;
        if (s->spec.cluster_ips.n == 0)
            s->spec.cluster_ips = old->spec.cluster_ips;
    }
    for (size_t i = 0; wants_ports(s) && wants_ports(old) && i < s->spec.ports.n; i++) {
        struct bh_core_v1_service_port *p = &s->spec.ports.p[i];
        int32_t was = 0;

        if (p->node_port)
            continue;
        for (size_t k = 0; k < old->spec.ports.n; k++)
            if (bh_str_eq(old->spec.ports.p[k].name, p->name))
                was = old->spec.ports.p[k].node_port;
        for (size_t k = 0; k < s->spec.ports.n && was; k++)
            if (s->spec.ports.p[k].node_port == was)
                was = 0;
        p->node_port = was;
    }
    if (bh_v_service_health_port(s) && bh_v_service_health_port(old) &&
        s->spec.health_check_node_port == 0)
        s->spec.health_check_node_port = old->spec.health_check_node_port;
}

static void follow_singular(struct bh_rq *rq, struct bh_core_v1_service *s,
                            const struct bh_core_v1_service *old)
{
    if (bh_str_eq(s->spec.cluster_ip, old->spec.cluster_ip)) {
        if (s->spec.cluster_ips.n == 0)
            s->spec.cluster_ips = old->spec.cluster_ips;
        return;
    }
    if (!bh_v_same_strs(&s->spec.cluster_ips, &old->spec.cluster_ips))
        return;
    if (s->spec.cluster_ip.n == 0)
        s->spec.cluster_ips = (struct bh_str_vec){0};
    else
        one_address_list(rq, s);
}

static int begin_update(struct taken *t, struct bh_core_v1_service *s,
                        const struct bh_core_v1_service *old)
{
    bool ported = bh_v_service_is(s, "NodePort") || bh_v_service_is(s, "LoadBalancer");
    int r = 0;

    keep_given(s, old);
    follow_singular(t->rq, s, old);
    if (!bh_v_service_is(s, "ExternalName")) {
        r = init_families(t, s, old);
        if (r == 0 && bh_v_service_is(old, "ExternalName") && !bh_v_service_headless(s))
            r = give_address(t, s);
    }
    if (r == 0 && ported)
        r = changed_ports(t, s, old);
    if (r == 0 && bh_v_service_health_port(s) && !bh_v_service_health_port(old))
        r = health_port(t, s);
    return r;
}

int bh_service_begin(struct bh_rq *rq, struct bh_core_v1_service *s,
                     const struct bh_core_v1_service *old)
{
    struct taken t;
    int r;

    read_taken(rq, &t);
    r = old ? begin_update(&t, s, old) : begin_create(&t, s);
    if (r == 0)
        drop_internal_policy(s);
    return r;
}
