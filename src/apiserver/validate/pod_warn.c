/* Pods: what is accepted but most likely not meant, in upstream's order and words. */
#include <string.h>

#include "apiserver/validate/validate_workload.h"

struct warner {
    const struct bh_rules_env *env;
    struct bh_str_vec *out;
};

static void warn(const struct warner *w, const struct bh_fpath *at, const char *fmt, ...)
    BH_PRINTF(3, 4);
static void warn(const struct warner *w, const struct bh_fpath *at, const char *fmt, ...)
{
    va_list ap;
    struct bh_str text;

    va_start(ap, fmt);
    text = bh_str_vfmt(w->env->a, fmt, ap);
    va_end(ap);
    bh_v_warn(w->env, w->out, "%.*s: %.*s", BH_SF(bh_fpath_str(at, w->env->a)), BH_SF(text));
}

static struct bh_str quoted(const struct warner *w, struct bh_str s)
{
    struct bh_buf b = {0};
    struct bh_str r;

    bh_go_quote(&b, s);
    r = bh_str_dup(w->env->a, bh_buf_str(&b));
    bh_buf_done(&b);
    return r;
}

/* ---- labels of nodes ---- */

const char *bh_v_deprecated_label(struct bh_str key)
{
    static const struct {
        const char *key, *text;
    } labels[] = {
        {"beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"},
        {"beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"},
        {"failure-domain.beta.kubernetes.io/region",
         "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"},
        {"failure-domain.beta.kubernetes.io/zone",
         "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"},
        {"beta.kubernetes.io/instance-type",
         "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"},
        {"app.kubernetes.io/created-by", "deprecated since v1.9"},
        {"scheduler.alpha.kubernetes.io/preferAvoidPods",
         "deprecated since v1.22; use Taints and Tolerations instead"},
        {"node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"},
    };

    for (size_t i = 0; i < BH_COUNT(labels); i++)
        if (bh_str_eqc(key, labels[i].key))
            return labels[i].text;
    return NULL;
}

static void node_term(const struct warner *w, const struct bh_fpath *at,
                      const struct bh_core_v1_node_selector_term *t, bool values)
{
    for (size_t i = 0; i < t->match_expressions.n; i++) {
        const struct bh_core_v1_node_selector_requirement *x = &t->match_expressions.p[i];
        const struct bh_fpath *xat = BH_FPI(BH_FP(at, "matchExpressions"), i);
        const char *text = bh_v_deprecated_label(x->key);

        if (text)
            warn(w, BH_FP(xat, "key"), "%.*s is %s", BH_SF(x->key), text);
        for (size_t k = 0; values && k < x->values.n; k++) {
            struct bh_str_vec faults =
                bh_names_all(w->env->a, bh_check_label_value, x->values.p[k]);

            for (size_t f = 0; f < faults.n; f++)
                warn(w, BH_FPI(BH_FP(xat, "values"), k), "%.*s is invalid, %.*s",
                     BH_SF(x->values.p[k]), BH_SF(faults.p[f]));
        }
    }
}

static void node_labels(const struct warner *w, const struct bh_fpath *spec,
                        const struct bh_core_v1_pod_spec *s)
{
    const struct bh_core_v1_node_affinity *n = s->affinity ? s->affinity->node_affinity : NULL;
    const struct bh_fpath *at = BH_FP(BH_FP(spec, "affinity"), "nodeAffinity");

    for (size_t i = 0; i < s->node_selector.n; i++) {
        const char *text = bh_v_deprecated_label(s->node_selector.p[i].key);

        if (text)
            warn(w, BH_FPK(BH_FP(spec, "nodeSelector"), s->node_selector.p[i].key), "%s", text);
    }
    if (n && n->required_during_scheduling_ignored_during_execution) {
        const struct bh_core_v1_node_selector_term_vec *v =
            &n->required_during_scheduling_ignored_during_execution->node_selector_terms;
        const struct bh_fpath *rat =
            BH_FP(BH_FP(at, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms");

        for (size_t i = 0; i < v->n; i++)
            node_term(w, BH_FPI(rat, i), &v->p[i], false);
    }
    if (n) {
        const struct bh_core_v1_preferred_scheduling_term_vec *v =
            &n->preferred_during_scheduling_ignored_during_execution;
        const struct bh_fpath *pat = BH_FP(at, "preferredDuringSchedulingIgnoredDuringExecution");

        for (size_t i = 0; i < v->n; i++)
            node_term(w, BH_FP(BH_FPI(pat, i), "preference"), &v->p[i].preference, true);
    }
    for (size_t i = 0; i < s->topology_spread_constraints.n; i++) {
        const struct bh_core_v1_topology_spread_constraint *c =
            &s->topology_spread_constraints.p[i];
        const struct bh_fpath *cat = BH_FPI(BH_FP(spec, "topologySpreadConstraints"), i);
        const char *text = bh_v_deprecated_label(c->topology_key);

        if (text)
            warn(w, BH_FP(cat, "topologyKey"), "%.*s is %s", BH_SF(c->topology_key), text);
        if (!c->label_selector)
            warn(w, BH_FP(cat, "labelSelector"), "a null labelSelector results in matching no pod");
    }
}

/* ---- annotations ---- */

static void annotations(const struct warner *w, const struct bh_fpath *meta,
                        const struct bh_meta_v1_object_meta *m)
{
    static const struct {
        struct bh_str key;
        const char *text;
    } old[] = {
        {BH_S_INIT("scheduler.alpha.kubernetes.io/critical-pod"),
         "non-functional in v1.16+; use the \"priorityClassName\" field instead"},
        {BH_S_INIT("security.alpha.kubernetes.io/sysctls"),
         "non-functional in v1.11+; use the \"sysctls\" field instead"},
        {BH_S_INIT("security.alpha.kubernetes.io/unsafe-sysctls"),
         "non-functional in v1.11+; use the \"sysctls\" field instead"},
    };

    for (size_t i = 0; i < BH_COUNT(old); i++)
        if (bh_str_map_get(&m->annotations, old[i].key))
            warn(w, BH_FPK(BH_FP(meta, "annotations"), old[i].key), "%s", old[i].text);
}

static void seccomp(const struct warner *w, const struct bh_fpath *meta,
                    const struct bh_meta_v1_object_meta *m, struct bh_str key, bool has_field)
{
    if (!has_field && bh_str_map_get(&m->annotations, key))
        warn(w, BH_FPK(BH_FP(meta, "annotations"), key),
             "non-functional in v1.27+; use the \"seccompProfile\" field instead");
}

/* ---- amounts ---- */

static void whole_bytes(const struct warner *w, const struct bh_fpath *at,
                        const struct bh_str_map *m, struct bh_str key)
{
    const struct bh_str *v = bh_str_map_get(m, key);
    struct bh_quantity q;
    int64_t milli;

    if (!v)
        return;
    q = bh_v_qty(*v);
    milli = bh_quantity_milli_value(q);
    if (milli != INT64_MAX && milli % 1000 != 0)
        warn(w, BH_FPK(at, key), "fractional byte value %.*s is invalid, must be an integer",
             BH_SF(quoted(w, bh_quantity_str(w->env->a, q))));
}

/* ---- volumes ---- */

static void volume_kinds(const struct warner *w, const struct bh_fpath *at,
                         const struct bh_core_v1_volume_source *v)
{
    if (v->photon_persistent_disk)
        warn(w, BH_FP(at, "photonPersistentDisk"), "deprecated in v1.11, non-functional in v1.16+");
    if (v->git_repo)
        warn(w, BH_FP(at, "gitRepo"),
             bh_rules_gate(w->env, "GitRepoVolumeDriver")
                 ? "deprecated in v1.11"
                 : "deprecated in v1.11, and disabled by default in v1.33+");
    if (v->scale_io)
        warn(w, BH_FP(at, "scaleIO"), "deprecated in v1.16, non-functional in v1.22+");
    if (v->flocker)
        warn(w, BH_FP(at, "flocker"), "deprecated in v1.22, non-functional in v1.25+");
    if (v->storageos)
        warn(w, BH_FP(at, "storageOS"), "deprecated in v1.22, non-functional in v1.25+");
    if (v->quobyte)
        warn(w, BH_FP(at, "quobyte"), "deprecated in v1.22, non-functional in v1.25+");
    if (v->glusterfs)
        warn(w, BH_FP(at, "glusterfs"), "deprecated in v1.25, non-functional in v1.26+");
    if (v->ephemeral && v->ephemeral->volume_claim_template) {
        const struct bh_core_v1_volume_resource_requirements *r =
            &v->ephemeral->volume_claim_template->spec.resources;
        const struct bh_fpath *rat =
            BH_FP(BH_FP(BH_FP(BH_FP(at, "ephemeral"), "volumeClaimTemplate"), "spec"), "resources");

        whole_bytes(w, BH_FP(rat, "requests"), &r->requests, BH_S("storage"));
        whole_bytes(w, BH_FP(rat, "limits"), &r->limits, BH_S("storage"));
    }
    if (v->cephfs)
        warn(w, BH_FP(at, "cephfs"), "deprecated in v1.28, non-functional in v1.31+");
    if (v->rbd)
        warn(w, BH_FP(at, "rbd"), "deprecated in v1.28, non-functional in v1.31+");
}

/* Paths of one volume, each with the source that it comes from (empty when there is only one). */
struct paths {
    struct virtual_path {
        struct bh_str path, source;
    } * p;
    size_t n, cap;
    struct bh_str volume, kind;
};

static struct bh_str path_text(const struct warner *w, const struct virtual_path *p)
{
    return p->source.n
               ? bh_str_fmt(w->env->a, "%.*s (%.*s)", BH_SF(quoted(w, p->path)), BH_SF(p->source))
               : quoted(w, p->path);
}

/* a == b, or one is a directory above the other. */
static bool overlap(struct bh_str a, struct bh_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    struct bh_str longer = a.n < b.n ? b : a;

    return n > 0 && memcmp(a.p, b.p, n) == 0 && (a.n == b.n || longer.p[n] == '/');
}

static void add_path(const struct warner *w, struct paths *all, struct bh_str path,
                     struct bh_str source)
{
    struct virtual_path now;

    while (path.n && path.p[path.n - 1] == '/')
        path.n--;
    now = (struct virtual_path){path, source};
    for (size_t i = 0; i < all->n; i++)
        if (overlap(all->p[i].path, path))
            bh_v_warn(w->env, w->out, "volume %.*s (%.*s): overlapping paths: %.*s with %.*s",
                      BH_SF(quoted(w, all->volume)), BH_SF(all->kind), BH_SF(path_text(w, &now)),
                      BH_SF(path_text(w, &all->p[i])));
    if (all->n == all->cap) {
        struct virtual_path *p = bh_new_n(w->env->a, struct virtual_path, all->cap * 2 + 8);

        if (all->n)
            memcpy(p, all->p, all->n * sizeof(*p));
        all->p = p;
        all->cap = all->cap * 2 + 8;
    }
    all->p[all->n++] = now;
}

static void key_paths(const struct warner *w, struct paths *all,
                      const struct bh_core_v1_key_to_path_vec *v, struct bh_str source)
{
    for (size_t i = 0; i < v->n; i++)
        add_path(w, all, v->p[i].path, source);
}

static void downward_paths(const struct warner *w, struct paths *all,
                           const struct bh_core_v1_downward_api_volume_file_vec *v,
                           struct bh_str source)
{
    for (size_t i = 0; i < v->n; i++)
        add_path(w, all, v->p[i].path, source);
}

static struct bh_str of(const struct warner *w, const char *kind, struct bh_str name)
{
    return bh_str_fmt(w->env->a, "%s %.*s", kind, BH_SF(quoted(w, name)));
}

static void projected(const struct warner *w, struct paths *all,
                      const struct bh_core_v1_volume_projection *s)
{
    if (s->config_map && s->config_map->items.p) {
        key_paths(w, all, &s->config_map->items,
                  of(w, "ConfigMap", s->config_map->local_object_reference.name));
    } else if (s->secret && s->secret->items.p) {
        key_paths(w, all, &s->secret->items,
                  of(w, "Secret", s->secret->local_object_reference.name));
    } else if (s->downward_api && s->downward_api->items.p) {
        downward_paths(w, all, &s->downward_api->items, BH_S("DownwardAPI"));
    } else if (s->service_account_token) {
        add_path(w, all, s->service_account_token->path, BH_S("ServiceAccountToken"));
    } else if (s->cluster_trust_bundle) {
        const struct bh_core_v1_cluster_trust_bundle_projection *b = s->cluster_trust_bundle;

        add_path(w, all, b->path,
                 of(w, "ClusterTrustBundle", b->has_name ? b->name : b->signer_name));
    } else if (s->pod_certificate) {
        const struct bh_core_v1_pod_certificate_projection *c = s->pod_certificate;

        if (c->certificate_chain_path.n)
            add_path(w, all, c->certificate_chain_path, BH_S("PodCertificate chain"));
        if (c->key_path.n)
            add_path(w, all, c->key_path, BH_S("PodCertificate key"));
        if (c->credential_bundle_path.n)
            add_path(w, all, c->credential_bundle_path, BH_S("PodCertificate credential bundle"));
    } else if (!s->config_map && !s->secret && !s->downward_api) {
        bh_v_warn(w->env, w->out, "volume %.*s (Projected) has no sources provided",
                  BH_SF(quoted(w, all->volume)));
    }
}

static void volume_paths(const struct warner *w, const struct bh_core_v1_volume *vol)
{
    const struct bh_core_v1_volume_source *v = &vol->volume_source;

    if (v->config_map) {
        struct paths all = {.volume = vol->name,
                            .kind = of(w, "ConfigMap", v->config_map->local_object_reference.name)};

        key_paths(w, &all, &v->config_map->items, BH_S(""));
    }
    if (v->secret) {
        struct paths all = {.volume = vol->name, .kind = of(w, "Secret", v->secret->secret_name)};

        key_paths(w, &all, &v->secret->items, BH_S(""));
    }
    if (v->downward_api) {
        struct paths all = {.volume = vol->name, .kind = BH_S("DownwardAPI")};

        downward_paths(w, &all, &v->downward_api->items, BH_S(""));
    }
    if (v->projected) {
        struct paths all = {.volume = vol->name, .kind = BH_S("Projected")};

        for (size_t i = 0; i < v->projected->sources.n; i++)
            projected(w, &all, &v->projected->sources.p[i]);
    }
}

static void volumes(const struct warner *w, const struct bh_fpath *spec,
                    const struct bh_core_v1_pod_spec *s)
{
    for (size_t i = 0; i < s->volumes.n; i++)
        volume_kinds(w, BH_FPI(BH_FP(spec, "volumes"), i), &s->volumes.p[i].volume_source);
    for (size_t i = 0; i < s->volumes.n; i++)
        volume_paths(w, &s->volumes.p[i]);
}

/* ---- lists ---- */

static void repeated_lists(const struct warner *w, const struct bh_fpath *spec,
                           const struct bh_core_v1_pod_spec *s)
{
    for (size_t i = 1; i < s->host_aliases.n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(s->host_aliases.p[i].ip, s->host_aliases.p[k].ip)) {
                warn(w, BH_FP(BH_FPI(BH_FP(spec, "hostAliases"), i), "ip"), "duplicate ip %.*s",
                     BH_SF(quoted(w, s->host_aliases.p[i].ip)));
                break;
            }
    for (size_t i = 1; i < s->image_pull_secrets.n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(s->image_pull_secrets.p[i].name, s->image_pull_secrets.p[k].name)) {
                warn(w, BH_FP(BH_FPI(BH_FP(spec, "imagePullSecrets"), i), "name"),
                     "duplicate name %.*s", BH_SF(quoted(w, s->image_pull_secrets.p[i].name)));
                break;
            }
    for (size_t i = 0; i < s->image_pull_secrets.n; i++)
        if (s->image_pull_secrets.p[i].name.n == 0)
            warn(w, BH_FP(BH_FPI(BH_FP(spec, "imagePullSecrets"), i), "name"),
                 "invalid empty name \"\"");
}

/* ---- containers ---- */

static void env_vars(const struct warner *w, const struct bh_fpath *at,
                     const struct bh_core_v1_env_var_vec *v)
{
    for (size_t i = 1; i < v->n; i++) {
        const struct bh_core_v1_env_var *x = &v->p[i];
        struct bh_str ref = bh_str_fmt(w->env->a, "$(%.*s)", BH_SF(x->name));
        bool hides = x->value_from || bh_str_eq(x->value, ref) || bh_str_find(x->value, ref) < 0;

        for (size_t k = 0; hides && k < i; k++)
            if (bh_str_eq(v->p[k].name, x->name)) {
                warn(w, BH_FPI(BH_FP(at, "env"), i),
                     "hides previous definition of %.*s, which may be dropped when using apply",
                     BH_SF(quoted(w, x->name)));
                break;
            }
    }
}

static const struct bh_fpath *container_at(struct bh_arena *a, const struct bh_fpath *spec,
                                           const struct bh_pod_iter *it)
{
    struct bh_fpath *p = bh_new_n(a, struct bh_fpath, 2);

    p[0] =
        (struct bh_fpath){.up = spec, .name = bh_s(bh_pod_list_name(it->list)), .kind = BH_FP_NAME};
    p[1] = (struct bh_fpath){.up = &p[0], .index = (int64_t)it->i, .kind = BH_FP_INDEX};
    return &p[1];
}

static void containers(const struct warner *w, const struct bh_fpath *meta,
                       const struct bh_fpath *spec, const struct bh_core_v1_pod_spec *s,
                       const struct bh_meta_v1_object_meta *m)
{
    struct bh_pod_iter it = {.spec = s};

    while (bh_pod_next(&it)) {
        const struct bh_fpath *at = container_at(w->env->a, spec, &it);
        const struct bh_core_v1_resource_requirements *r = &it.c->resources;
        const struct bh_fpath *lat = BH_FP(BH_FP(at, "resources"), "limits");
        const struct bh_fpath *rat = BH_FP(BH_FP(at, "resources"), "requests");

        seccomp(w, meta, m,
                bh_str_fmt(w->env->a, "container.seccomp.security.alpha.kubernetes.io/%.*s",
                           BH_SF(it.c->name)),
                it.c->security_context && it.c->security_context->seccomp_profile);
        whole_bytes(w, lat, &r->limits, BH_S("memory"));
        whole_bytes(w, rat, &r->requests, BH_S("memory"));
        whole_bytes(w, lat, &r->limits, BH_S("ephemeral-storage"));
        whole_bytes(w, rat, &r->requests, BH_S("ephemeral-storage"));
        env_vars(w, at, &it.c->env);
    }
}

struct port {
    const struct bh_core_v1_container_port *p;
    const struct bh_fpath *at;
};

static void port_pair(const struct warner *w, const struct port *now, const struct port *before)
{
    const struct bh_core_v1_container_port *a = now->p, *b = before->p;
    const char *what = NULL;

    if (a->container_port != b->container_port || !bh_str_eq(a->protocol, b->protocol))
        return;
    if (bh_str_eq(a->host_ip, b->host_ip) && a->host_port == b->host_port)
        what = "duplicate";
    else if (a->host_port == 0 || b->host_port == 0)
        what = "overlapping";
    else if (a->host_port == b->host_port && (a->host_ip.n == 0) != (b->host_ip.n == 0))
        what = "dangerously ambiguous";
    if (what)
        warn(w, now->at, "%s port definition with %.*s", what,
             BH_SF(bh_fpath_str(before->at, w->env->a)));
}

static void ports(const struct warner *w, const struct bh_fpath *spec,
                  const struct bh_core_v1_pod_spec *s)
{
    struct bh_pod_iter it = {.spec = s};
    struct port *all;
    size_t n = 0, most = 0;

    while (bh_pod_next(&it))
        most += it.c->ports.n;
    all = bh_new_n(w->env->a, struct port, most + 1);
    it = (struct bh_pod_iter){.spec = s};
    while (bh_pod_next(&it))
        for (size_t i = 0; i < it.c->ports.n; i++, n++) {
            const struct bh_core_v1_container_port *p = &it.c->ports.p[i];
            struct bh_fpath *at = bh_new_n(w->env->a, struct bh_fpath, 2);

            at[0] = *BH_FP(container_at(w->env->a, spec, &it), "ports");
            at[1] = *BH_FPI(&at[0], i);
            all[n] = (struct port){p, &at[1]};
            if (p->host_ip.n && p->host_port == 0)
                warn(w, all[n].at,
                     "hostIP set without hostPort: {Name:%.*s HostPort:0 ContainerPort:%d "
                     "Protocol:%.*s HostIP:%.*s}",
                     BH_SF(p->name), (int)p->container_port, BH_SF(p->protocol), BH_SF(p->host_ip));
            for (size_t k = 0; k < n; k++)
                port_pair(w, &all[n], &all[k]);
        }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; all[i].p->name.n && k < i; k++)
            if (bh_str_eq(all[i].p->name, all[k].p->name)) {
                struct bh_str other = bh_fpath_str(all[k].at, w->env->a);

                warn(w, all[i].at,
                     "duplicate port name %.*s with %.*s, services and probes that select ports by "
                     "name will use %.*s",
                     BH_SF(quoted(w, all[i].p->name)), BH_SF(other), BH_SF(other));
                break;
            }
}

/* ---- pod affinity, addresses ---- */

static void affinity_terms(const struct warner *w, const struct bh_fpath *at,
                           const struct bh_core_v1_pod_affinity_term_vec *required,
                           const struct bh_core_v1_weighted_pod_affinity_term_vec *preferred)
{
    const char text[] = "a null labelSelector results in matching no pod";

    for (size_t i = 0; i < required->n; i++)
        if (!required->p[i].label_selector)
            warn(w,
                 BH_FP(BH_FPI(BH_FP(at, "requiredDuringSchedulingIgnoredDuringExecution"), i),
                       "labelSelector"),
                 "%s", text);
    for (size_t i = 0; i < preferred->n; i++)
        if (!preferred->p[i].pod_affinity_term.label_selector)
            warn(
                w,
                BH_FP(BH_FP(BH_FPI(BH_FP(at, "preferredDuringSchedulingIgnoredDuringExecution"), i),
                            "podAffinityTerm"),
                      "labelSelector"),
                "%s", text);
}

static void address(const struct warner *w, const struct bh_fpath *at, struct bh_str s)
{
    char buf[BH_IP_BUF];
    struct bh_ip ip;

    if (bh_ip_parse(s, &ip) && ip.v6 && !bh_str_eq(bh_ip_fmt(&ip, buf), s))
        warn(w, at, "IPv6 address %.*s should be in RFC 5952 canonical format (%.*s)",
             BH_SF(quoted(w, s)), BH_SF(quoted(w, bh_ip_fmt(&ip, buf))));
}

/* ---- all ---- */

static void spec_and_meta(const struct warner *w, const struct bh_fpath *at,
                          const struct bh_core_v1_pod_spec *s,
                          const struct bh_meta_v1_object_meta *m)
{
    const struct bh_fpath *spec = BH_FP(at, "spec"), *meta = BH_FP(at, "metadata");
    const struct bh_core_v1_affinity *a = s->affinity;

    node_labels(w, spec, s);
    annotations(w, meta, m);
    volumes(w, spec, s);
    repeated_lists(w, spec, s);
    whole_bytes(w, BH_FP(spec, "overhead"), &s->overhead, BH_S("memory"));
    whole_bytes(w, BH_FP(spec, "overhead"), &s->overhead, BH_S("ephemeral-storage"));
    seccomp(w, meta, m, BH_S("seccomp.security.alpha.kubernetes.io/pod"),
            s->security_context && s->security_context->seccomp_profile);
    containers(w, meta, spec, s, m);
    ports(w, spec, s);
    if (s->has_termination_grace_period_seconds && s->termination_grace_period_seconds < 0)
        warn(w, BH_FP(spec, "terminationGracePeriodSeconds"),
             "must be >= 0; negative values are invalid and will be treated as 1");
    if (a && a->pod_affinity)
        affinity_terms(w, BH_FP(BH_FP(spec, "affinity"), "podAffinity"),
                       &a->pod_affinity->required_during_scheduling_ignored_during_execution,
                       &a->pod_affinity->preferred_during_scheduling_ignored_during_execution);
    if (a && a->pod_anti_affinity)
        affinity_terms(w, BH_FP(BH_FP(spec, "affinity"), "podAntiAffinity"),
                       &a->pod_anti_affinity->required_during_scheduling_ignored_during_execution,
                       &a->pod_anti_affinity->preferred_during_scheduling_ignored_during_execution);
    for (size_t i = 0; s->dns_config && i < s->dns_config->nameservers.n; i++)
        address(w, BH_FPI(BH_FP(BH_FP(spec, "dnsConfig"), "nameservers"), i),
                s->dns_config->nameservers.p[i]);
    for (size_t i = 0; i < s->host_aliases.n; i++)
        address(w, BH_FP(BH_FPI(BH_FP(spec, "hostAliases"), i), "ip"), s->host_aliases.p[i].ip);
}

void bh_v_template_warn(const struct bh_rules_env *env, const struct bh_fpath *at,
                        const struct bh_core_v1_pod_template_spec *t, struct bh_str_vec *out)
{
    const struct warner w = {env, out};

    spec_and_meta(&w, at, &t->spec, &t->metadata);
}

/* Only people create pods by hand; updates come from programs, and are not judged. */
void bh_v_pod_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                   const void *old, struct bh_str_vec *out)
{
    const struct bh_core_v1_pod *p = obj;
    const struct warner w = {env, out};
    struct bh_str_vec faults;

    if (old || sub.n)
        return;
    faults = bh_names_all(env->a, bh_check_dns1123_label, p->metadata.name);
    if (faults.n) {
        struct bh_str list = faults.p[0];

        for (size_t i = 1; i < faults.n; i++)
            list = bh_str_fmt(env->a, "%.*s %.*s", BH_SF(list), BH_SF(faults.p[i]));
        warn(&w, BH_FP(BH_FP(NULL, "metadata"), "name"),
             "this is used in the Pod's hostname, which can result in surprising behavior; a DNS "
             "label is recommended: "
             "[%.*s]",
             BH_SF(list));
    }
    spec_and_meta(&w, NULL, &p->spec, &p->metadata);
}

/* ---- what other kinds share ---- */

void bh_v_warn_at(const struct bh_rules_env *env, struct bh_str_vec *out, const struct bh_fpath *at,
                  const char *fmt, ...)
{
    const struct warner w = {env, out};
    struct bh_str text;
    va_list ap;

    va_start(ap, fmt);
    text = bh_str_vfmt(env->a, fmt, ap);
    va_end(ap);
    warn(&w, at, "%.*s", BH_SF(text));
}

void bh_v_warn_node_term(const struct bh_rules_env *env, struct bh_str_vec *out,
                         const struct bh_fpath *at, const struct bh_core_v1_node_selector_term *t)
{
    const struct warner w = {env, out};

    node_term(&w, at, t, false);
}

void bh_v_warn_whole_bytes(const struct bh_rules_env *env, struct bh_str_vec *out,
                           const struct bh_fpath *at, const struct bh_str_map *m, struct bh_str key)
{
    const struct warner w = {env, out};

    whole_bytes(&w, at, m, key);
}
