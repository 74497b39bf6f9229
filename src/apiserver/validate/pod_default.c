/* Defaults of pods, and what is computed from their resources. */
#include "apiserver/validate/validate_pod.h"

#include <string.h>

/* ---- walking containers ---- */

bool bh_pod_next(struct bh_pod_iter *it)
{
    const struct bh_core_v1_pod_spec *s = it->spec;

    if (it->c)
        it->i++;
    for (;;) {
        switch (it->list) {
        case BH_POD_INIT:
            if (it->i < s->init_containers.n) {
                it->c = &s->init_containers.p[it->i];
                return true;
            }
            it->list = BH_POD_MAIN;
            it->i = 0;
            break;
        case BH_POD_MAIN:
            if (it->i < s->containers.n) {
                it->c = &s->containers.p[it->i];
                return true;
            }
            it->list = BH_POD_EPHEMERAL;
            it->i = 0;
            break;
        case BH_POD_EPHEMERAL:
            if (it->i >= s->ephemeral_containers.n)
                return false;
            it->c = bh_pod_cephemeral(&s->ephemeral_containers.p[it->i]);
            return true;
        }
    }
}

const char *bh_pod_list_name(enum bh_pod_list l)
{
    return l == BH_POD_INIT   ? "initContainers"
           : l == BH_POD_MAIN ? "containers"
                              : "ephemeralContainers";
}

bool bh_pod_restartable(const struct bh_core_v1_container *c)
{
    return c->has_restart_policy && bh_str_eqc(c->restart_policy, "Always");
}

/* ---- sums of resources ---- */

static void add_all(struct bh_arena *a, struct bh_str_map *sum, const struct bh_str_map *more)
{
    for (size_t i = 0; i < more->n; i++) {
        const struct bh_str *was = bh_str_map_get(sum, more->p[i].key);
        struct bh_str v = more->p[i].value;

        if (was)
            v = bh_quantity_str(a, bh_quantity_add(bh_v_qty(*was), bh_v_qty(v)));
        bh_str_map_put(a, sum, more->p[i].key, v);
    }
}

static void max_all(struct bh_arena *a, struct bh_str_map *sum, const struct bh_str_map *other)
{
    for (size_t i = 0; i < other->n; i++) {
        const struct bh_str *was = bh_str_map_get(sum, other->p[i].key);

        if (!was || bh_quantity_cmp(bh_v_qty(other->p[i].value), bh_v_qty(*was)) > 0)
            bh_str_map_put(a, sum, other->p[i].key, other->p[i].value);
    }
}

struct bh_str_map bh_pod_aggregate(struct bh_arena *a, const struct bh_core_v1_pod_spec *s,
                                   bool limits)
{
    struct bh_str_map sum = {0}, restartable = {0}, init = {0};

    for (size_t i = 0; i < s->containers.n; i++)
        add_all(a, &sum,
                limits ? &s->containers.p[i].resources.limits
                       : &s->containers.p[i].resources.requests);
    for (size_t i = 0; i < s->init_containers.n; i++) {
        const struct bh_core_v1_container *c = &s->init_containers.p[i];
        const struct bh_str_map *own = limits ? &c->resources.limits : &c->resources.requests;
        struct bh_str_map now = {0};

        if (bh_pod_restartable(c)) {
            add_all(a, &sum, own);
            add_all(a, &restartable, own);
            max_all(a, &init, &restartable);
            continue;
        }
        add_all(a, &now, own);
        add_all(a, &now, &restartable);
        max_all(a, &init, &now);
    }
    max_all(a, &sum, &init);
    return sum;
}

bool bh_pod_level_resource(struct bh_str name)
{
    return BH_V_ONE_OF(name, "cpu", "memory") || bh_v_is_hugepages(name);
}

bool bh_pod_overcommit_ok(struct bh_str name)
{
    return bh_v_is_native_resource(name) && !bh_v_is_hugepages(name);
}

/* ---- quality of service ---- */

static void qos_add(struct bh_arena *a, struct bh_str_map *sum, const struct bh_str_map *m)
{
    for (size_t i = 0; i < m->n; i++) {
        struct bh_str_map one = {&m->p[i], 1};

        if (BH_V_ONE_OF(m->p[i].key, "cpu", "memory") &&
            bh_quantity_sign(bh_v_qty(m->p[i].value)) > 0)
            add_all(a, sum, &one);
    }
}

static bool limits_both(const struct bh_str_map *m)
{
    const struct bh_str *cpu = bh_str_map_get(m, BH_S("cpu")),
                        *memory = bh_str_map_get(m, BH_S("memory"));

    return cpu && memory && bh_quantity_sign(bh_v_qty(*cpu)) > 0 &&
           bh_quantity_sign(bh_v_qty(*memory)) > 0;
}

struct bh_str bh_pod_qos(const struct bh_rules_env *env, const struct bh_core_v1_pod *p)
{
    struct bh_str_map requests = {0}, limits = {0};
    const struct bh_core_v1_resource_requirements *r = p->spec.resources;
    struct bh_pod_iter it = {.spec = &p->spec};
    bool guaranteed = true;

    if (r && bh_rules_gate(env, "PodLevelResources")) {
        qos_add(env->a, &requests, &r->requests);
        qos_add(env->a, &limits, &r->limits);
        guaranteed = limits_both(&r->limits);
    } else {
        while (bh_pod_next(&it) && it.list != BH_POD_EPHEMERAL) {
            qos_add(env->a, &requests, &it.c->resources.requests);
            qos_add(env->a, &limits, &it.c->resources.limits);
            guaranteed = guaranteed && limits_both(&it.c->resources.limits);
        }
    }
    if (requests.n == 0 && limits.n == 0)
        return BH_S("BestEffort");
    for (size_t i = 0; guaranteed && i < requests.n; i++) {
        const struct bh_str *lim = bh_str_map_get(&limits, requests.p[i].key);

        guaranteed = lim && bh_quantity_cmp(bh_v_qty(*lim), bh_v_qty(requests.p[i].value)) == 0;
    }
    return guaranteed && requests.n == limits.n ? BH_S("Guaranteed") : BH_S("Burstable");
}

/* ---- image references ---- */

static bool lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool word_char(char c)
{
    return lower_alnum(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

/* alnum ( [._] | __ | -+ alnum )* */
static bool path_component(struct bh_str s)
{
    size_t i = 0;

    while (i < s.n) {
        size_t from = i;

        while (i < s.n && lower_alnum(s.p[i]))
            i++;
        if (i == from)
            return false;
        if (i == s.n)
            return true;
        from = i;
        while (i < s.n && !lower_alnum(s.p[i]))
            i++;
        for (size_t k = from; k < i; k++)
            if (s.p[k] != s.p[from] || (s.p[k] != '-' && s.p[k] != '_' && s.p[k] != '.'))
                return false;
        if ((s.p[from] == '.' && i - from > 1) || (s.p[from] == '_' && i - from > 2))
            return false;
    }
    return false;
}

static bool tag_ok(struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!(word_char(s.p[i]) || (i && (s.p[i] == '.' || s.p[i] == '-'))))
            return false;
    return s.n > 0 && s.n <= 128;
}

/* host[:port], before the first slash of a name that has a registry. */
static bool domain_ok(struct bh_str s)
{
    struct bh_str port = s, host = bh_str_cut(&port, ':');
    int64_t v;

    if (port.p && !bh_str_i64(port, 0, INT64_MAX, &v))
        return false;
    for (size_t i = 0; i < host.n; i++) {
        char c = host.p[i];
        bool edge = i == 0 || i + 1 == host.n || host.p[i - 1] == '.' || host.p[i + 1] == '.';

        if (c == '.' ? edge && (i == 0 || i + 1 == host.n || host.p[i + 1] == '.')
                     : !(word_char(c) && c != '_') && (c != '-' || edge))
            return false;
    }
    return host.n > 0;
}

static bool has_registry(struct bh_str first)
{
    for (size_t i = 0; i < first.n; i++)
        if (first.p[i] == '.' || first.p[i] == ':' || (first.p[i] >= 'A' && first.p[i] <= 'Z'))
            return true;
    return bh_str_eqc(first, "localhost");
}

static bool hex64(struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
            return false;
    return s.n == 64;
}

/* The tag of an image: "latest" when it has neither tag nor digest; empty when the reference is
 * malformed. */
static struct bh_str image_tag(struct bh_str image)
{
    struct bh_str name = image, digest = {0}, tag = {0}, rest, first;
    ptrdiff_t at = bh_str_chr(image, '@', 0), colon = -1;

    if (hex64(image))
        return BH_S("");
    if (at >= 0) {
        digest = bh_str_sub(image, (size_t)at + 1, SIZE_MAX);
        name = bh_str_sub(image, 0, (size_t)at);
        if (bh_str_chr(digest, ':', 0) < 1 || digest.n < 34)
            return BH_S("");
    }
    for (size_t i = name.n; i > 0 && name.p[i - 1] != '/'; i--)
        if (name.p[i - 1] == ':')
            colon = (ptrdiff_t)i - 1;
    if (colon >= 0) {
        tag = bh_str_sub(name, (size_t)colon + 1, SIZE_MAX);
        name = bh_str_sub(name, 0, (size_t)colon);
        if (!tag_ok(tag))
            return BH_S("");
    }
    rest = name;
    first = bh_str_cut(&rest, '/');
    if (rest.p && has_registry(first)) {
        if (!domain_ok(first))
            return BH_S("");
    } else {
        rest = name;
    }
    do
        if (!path_component(bh_str_cut(&rest, '/')))
            return BH_S("");
    while (rest.p);
    if (!tag.n && !digest.n)
        return BH_S("latest");
    return tag;
}

static struct bh_str pull_policy(struct bh_str image)
{
    return bh_str_eqc(image_tag(image), "latest") ? BH_S("Always") : BH_S("IfNotPresent");
}

/* ---- defaults ---- */

/* Quantities finer than a thousandth are rounded up. */
static void round_quantities(struct bh_arena *a, struct bh_str_map *m)
{
    for (size_t i = 0; i < m->n; i++) {
        struct bh_quantity q = bh_v_qty(m->p[i].value), r;

        if (q.exp10 >= -3)
            continue;
        r = bh_quantity_milli(bh_quantity_milli_value(q), q.format);
        if (bh_quantity_cmp(q, r) < 0)
            m->p[i].value = bh_quantity_str(a, r);
    }
}

static void default_container(const struct bh_rules_env *env, struct bh_core_v1_container *c)
{
    if (c->image_pull_policy.n == 0)
        c->image_pull_policy = pull_policy(c->image);
    round_quantities(env->a, &c->resources.limits);
    round_quantities(env->a, &c->resources.requests);
}

/* A limit without a request stands for the request, too. */
static void requests_from_limits(const struct bh_rules_env *env,
                                 struct bh_core_v1_resource_requirements *r)
{
    struct bh_str_map m = {0};

    if (!r->limits.p)
        return;
    for (size_t i = 0; i < r->requests.n; i++)
        bh_str_map_put(env->a, &m, r->requests.p[i].key, r->requests.p[i].value);
    for (size_t i = 0; i < r->limits.n; i++)
        if (!bh_str_map_get(&r->requests, r->limits.p[i].key))
            bh_str_map_put(env->a, &m, r->limits.p[i].key, r->limits.p[i].value);
    if (m.n)
        r->requests = m;
}

static void host_ports(struct bh_core_v1_container_vec *v)
{
    for (size_t i = 0; i < v->n; i++)
        for (size_t k = 0; k < v->p[i].ports.n; k++)
            if (v->p[i].ports.p[k].host_port == 0)
                v->p[i].ports.p[k].host_port = v->p[i].ports.p[k].container_port;
}

static void copy_map(struct bh_arena *a, struct bh_str_map *m)
{
    struct bh_str_map copy = {0};

    for (size_t i = 0; i < m->n; i++)
        bh_str_map_put(a, &copy, m->p[i].key, m->p[i].value);
    *m = copy;
}

static void pod_level_resources(const struct bh_rules_env *env, struct bh_core_v1_pod_spec *s)
{
    struct bh_core_v1_resource_requirements *r = s->resources;
    struct bh_str_map sum, m;

    if (r->limits.n || r->requests.n) {
        sum = bh_pod_aggregate(env->a, s, true);
        m = r->limits;
        copy_map(env->a, &m);
        for (size_t i = 0; i < sum.n; i++)
            if (bh_v_is_hugepages(sum.p[i].key) && !bh_str_map_get(&r->requests, sum.p[i].key) &&
                !bh_str_map_get(&m, sum.p[i].key))
                bh_str_map_put(env->a, &m, sum.p[i].key, sum.p[i].value);
        if (m.n)
            r->limits = m;
    }
    if (r->limits.n == 0)
        return;
    sum = bh_pod_aggregate(env->a, s, false);
    m = r->requests;
    copy_map(env->a, &m);
    for (size_t i = 0; i < sum.n; i++)
        if (bh_pod_level_resource(sum.p[i].key) && bh_pod_overcommit_ok(sum.p[i].key) &&
            !bh_str_map_get(&m, sum.p[i].key))
            bh_str_map_put(env->a, &m, sum.p[i].key, sum.p[i].value);
    for (size_t i = 0; i < r->limits.n; i++)
        if (bh_pod_level_resource(r->limits.p[i].key) && !bh_str_map_get(&m, r->limits.p[i].key))
            bh_str_map_put(env->a, &m, r->limits.p[i].key, r->limits.p[i].value);
    if (m.n)
        r->requests = m;
}

static bool volume_has_source(const struct bh_core_v1_volume *v)
{
    static const struct bh_core_v1_volume_source none;

    return memcmp(&v->volume_source, &none, sizeof(none)) != 0;
}

static void default_volume(const struct bh_rules_env *env, struct bh_core_v1_volume *v)
{
    if (!volume_has_source(v))
        v->volume_source.empty_dir = bh_new(env->a, struct bh_core_v1_empty_dir_volume_source);
    if (v->volume_source.image && v->volume_source.image->pull_policy.n == 0)
        v->volume_source.image->pull_policy = pull_policy(v->volume_source.image->reference);
}

/* What templates share with pods. */
void bh_v_pod_spec_default(const struct bh_rules_env *env, struct bh_core_v1_pod_spec *s)
{
    for (size_t i = 0; i < s->volumes.n; i++)
        default_volume(env, &s->volumes.p[i]);
    for (size_t i = 0; i < s->init_containers.n; i++)
        default_container(env, &s->init_containers.p[i]);
    for (size_t i = 0; i < s->containers.n; i++)
        default_container(env, &s->containers.p[i]);
    for (size_t i = 0; i < s->ephemeral_containers.n; i++)
        default_container(env, bh_pod_ephemeral(&s->ephemeral_containers.p[i]));
    round_quantities(env->a, &s->overhead);
    if (s->resources) {
        round_quantities(env->a, &s->resources->limits);
        round_quantities(env->a, &s->resources->requests);
    }
    /* The old name of the service account follows the new one, and stands in when it is alone. */
    if (s->service_account_name.n == 0)
        s->service_account_name = s->service_account;
    s->service_account = s->service_account_name;
}

/* podIP and the first of podIPs are one thing under two names; the older name wins. */
static void default_pod_ips(const struct bh_rules_env *env, struct bh_core_v1_pod_status *s)
{
    if (s->pod_ip.n && (s->pod_ips.n == 0 || !bh_str_eq(s->pod_ips.p[0].ip, s->pod_ip))) {
        s->pod_ips.p = bh_new(env->a, struct bh_core_v1_pod_ip);
        s->pod_ips.p[0].ip = s->pod_ip;
        s->pod_ips.n = 1;
    } else if (s->pod_ips.n) {
        s->pod_ip = s->pod_ips.p[0].ip;
    }
}

void bh_v_pod_default(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_pod *p = obj;
    struct bh_core_v1_pod_spec *s = &p->spec;

    bh_v_pod_spec_default(env, s);
    if (s->has_termination_grace_period_seconds && s->termination_grace_period_seconds < 0)
        s->termination_grace_period_seconds = 1;
    for (size_t i = 0; i < s->containers.n; i++)
        requests_from_limits(env, &s->containers.p[i].resources);
    for (size_t i = 0; i < s->init_containers.n; i++)
        requests_from_limits(env, &s->init_containers.p[i].resources);
    if (s->resources && bh_rules_gate(env, "PodLevelResources"))
        pod_level_resources(env, s);
    if (!s->has_enable_service_links) {
        s->has_enable_service_links = true;
        s->enable_service_links = true;
    }
    if (s->host_network) {
        host_ports(&s->containers);
        host_ports(&s->init_containers);
    }
    default_pod_ips(env, &p->status);
}
