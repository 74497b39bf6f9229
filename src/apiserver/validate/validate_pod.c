/* Pods: metadata and spec at creation, and what pods share with templates. */
#include "apiserver/validate/validate_pod.h"

#include "base/buf.h"
#include "data/json.h"

#include <string.h>

#define NAMESERVERS_MAX          3u
#define SEARCHES_MAX             32u
#define SEARCH_BYTES_MAX         2048u
#define HOSTNAME_OVERRIDE_MAX    64u
#define MIRROR_ANNOTATION        "kubernetes.io/config.mirror"
#define SECCOMP_POD              "seccomp.security.alpha.kubernetes.io/pod"
#define SECCOMP_CONTAINER_PREFIX "container.seccomp.security.alpha.kubernetes.io/"

/* ---- annotations ---- */

static bool has_container(const struct bh_core_v1_pod_spec *s, struct bh_str name)
{
    struct bh_pod_iter it = {.spec = s};

    while (bh_pod_next(&it))
        if (bh_str_eq(it.c->name, name))
            return true;
    return false;
}

static void app_armor_annotation(struct bh_field_errs *e, const struct bh_fpath *at,
                                 const struct bh_str_pair *a, const struct bh_core_v1_pod_spec *s)
{
    struct bh_str name = bh_str_sub(a->key, sizeof(BH_POD_APP_ARMOR) - 1, SIZE_MAX);
    struct bh_buf b = {.max = 4096};

    if (!has_container(s, name))
        bh_fe_invalid(e, BH_FPK(at, a->key), name, "container not found");
    if (a->value.n && !BH_V_ONE_OF(a->value, "runtime/default", "unconfined") &&
        !bh_str_starts(a->value, BH_S("localhost/"))) {
        bh_go_quote(&b, a->value);
        bh_fe_invalid(e, BH_FPK(at, a->key), a->value, "invalid AppArmor profile name: %.*s",
                      BH_SF(bh_buf_str(&b)));
    }
    bh_buf_done(&b);
}

static void seccomp_annotation(struct bh_field_errs *e, const struct bh_fpath *at,
                               const struct bh_str_pair *a)
{
    if (BH_V_ONE_OF(a->value, "runtime/default", "docker/default", "unconfined"))
        return;
    if (bh_str_starts(a->value, BH_S("localhost/")))
        bh_v_descending_path(e, BH_FPS(at, a->key), bh_str_sub(a->value, 10, SIZE_MAX));
    else
        bh_fe_invalid(e, BH_FPS(at, a->key), a->value, "must be a valid seccomp profile");
}

void bh_v_pod_annotations(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_meta_v1_object_meta *m,
                          const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o)
{
    const struct bh_str_map *a = &m->annotations;
    const struct bh_str *mirror = bh_str_map_get(a, BH_S(MIRROR_ANNOTATION));
    const struct bh_str *cost =
        bh_str_map_get(a, BH_S("controller.kubernetes.io/pod-deletion-cost"));
    int64_t v;

    (void)o;
    if (mirror && s->node_name.n == 0)
        bh_fe_invalid(e, BH_FPK(at, BH_S(MIRROR_ANNOTATION)), *mirror,
                      "must set spec.nodeName if mirror pod annotation is set");
    if (cost && !bh_str_i64(*cost, INT32_MIN, INT32_MAX, &v))
        bh_fe_invalid(e, BH_FPK(at, BH_S("controller.kubernetes.io/pod-deletion-cost")), *cost,
                      "must be a 32bit integer");
    for (size_t i = 0; i < a->n; i++)
        if (bh_str_eqc(a->p[i].key, SECCOMP_POD) ||
            bh_str_starts(a->p[i].key, BH_S(SECCOMP_CONTAINER_PREFIX)))
            seccomp_annotation(e, at, &a->p[i]);
    for (size_t i = 0; i < a->n; i++)
        if (bh_str_starts(a->p[i].key, BH_S(BH_POD_APP_ARMOR)))
            app_armor_annotation(e, at, &a->p[i], s);
}

/* ---- claims ---- */

static void claims(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_pod_spec *s, const struct bh_meta_v1_object_meta *m)
{
    for (size_t i = 0; i < s->resource_claims.n; i++) {
        const struct bh_core_v1_pod_resource_claim *c = &s->resource_claims.p[i];
        const struct bh_fpath *ix = BH_FPI(at, i), *name = BH_FP(ix, "name");
        bool twice = false;

        if (m && bh_str_map_get(&m->annotations, BH_S(MIRROR_ANNOTATION))) {
            bh_fe_forbidden(e, BH_FPS(NULL, BH_S("[]")),
                            "static pods do not support resource claims");
            continue;
        }
        for (size_t k = 0; k < i && !twice; k++)
            twice = bh_str_eq(s->resource_claims.p[k].name, c->name);
        if (c->name.n == 0)
            bh_fe_required(e, name, NULL);
        else if (twice)
            bh_fe_duplicate(e, name, c->name);
        else
            bh_v_check(e, name, bh_check_dns1123_label, c->name);
        if (c->has_resource_claim_name && c->has_resource_claim_template_name)
            bh_fe_invalid_text(e, ix, bh_v_go_json(e->a, &bh_core_v1_pod_resource_claim_type, c),
                               "at most one of `resourceClaimName` or `resourceClaimTemplateName` "
                               "may be specified");
        if (!c->has_resource_claim_name && !c->has_resource_claim_template_name)
            bh_fe_invalid_text(
                e, ix, bh_v_go_json(e->a, &bh_core_v1_pod_resource_claim_type, c),
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`");
        if (c->has_resource_claim_name)
            bh_v_check(e, BH_FP(ix, "resourceClaimName"), bh_check_dns1123_subdomain,
                       c->resource_claim_name);
        if (c->has_resource_claim_template_name)
            bh_v_check(e, BH_FP(ix, "resourceClaimTemplateName"), bh_check_dns1123_subdomain,
                       c->resource_claim_template_name);
    }
}

/* ---- pod-level resources ---- */

static void pod_level_sums(struct bh_field_errs *e, const struct bh_fpath *at,
                           const struct bh_core_v1_pod_spec *s)
{
    const struct bh_core_v1_resource_requirements *r = s->resources;
    struct bh_str_map sum = bh_pod_aggregate(e->a, s, false);

    for (size_t i = 0; i < sum.n; i++) {
        const struct bh_str *own = bh_str_map_get(&r->requests, sum.p[i].key);

        if (own && bh_quantity_cmp(bh_v_qty(sum.p[i].value), bh_v_qty(*own)) > 0)
            bh_fe_invalid(e, BH_FPK(BH_FP(at, "requests"), sum.p[i].key), *own,
                          "must be greater than or equal to aggregate container requests of %.*s",
                          BH_SF(sum.p[i].value));
    }
    sum = bh_pod_aggregate(e->a, s, true);
    for (size_t i = 0; i < sum.n; i++) {
        const struct bh_str *own = bh_str_map_get(&r->limits, sum.p[i].key);

        if (own && bh_v_is_hugepages(sum.p[i].key) &&
            bh_quantity_cmp(bh_v_qty(sum.p[i].value), bh_v_qty(*own)) > 0)
            bh_fe_invalid(e, BH_FPK(BH_FP(at, "limits"), sum.p[i].key), *own,
                          "must be greater than or equal to aggregate container limits of %.*s",
                          BH_SF(sum.p[i].value));
    }
    for (size_t i = 0; i < s->containers.n; i++) {
        const struct bh_str_map *l = &s->containers.p[i].resources.limits;

        for (size_t k = 0; k < l->n; k++) {
            const struct bh_str *own = bh_str_map_get(&r->limits, l->p[k].key);

            if (own && bh_quantity_cmp(bh_v_qty(l->p[k].value), bh_v_qty(*own)) > 0)
                bh_fe_invalid(
                    e, BH_FP(BH_FPK(BH_FPI(BH_FP(at, "containers"), i), l->p[k].key), "limits"),
                    l->p[k].value, "must be less than or equal to pod limits of %.*s", BH_SF(*own));
        }
    }
}

static void pod_level_resources(struct bh_field_errs *e, const struct bh_fpath *at,
                                const struct bh_core_v1_pod_spec *s)
{
    if (!s->resources)
        return;
    if (s->os && bh_str_eqc(s->os->name, "windows")) {
        bh_fe_forbidden(e, at, "may not be set for a windows pod");
        return;
    }
    if (s->resources->claims.p)
        bh_fe_forbidden(e, BH_FP(at, "claims"), "claims may not be set for Resources at pod-level");
    bh_v_requirements(e, at, s->resources, s, true);
    pod_level_sums(e, at, s);
}

/* ---- network names ---- */

static void host_network_ports(struct bh_field_errs *e, const struct bh_fpath *at,
                               const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o)
{
    const struct bh_fpath *containers = BH_FP(at, "containers");

    for (size_t i = 0; s->host_network && i < s->containers.n; i++) {
        const struct bh_core_v1_container_port_vec *v = &s->containers.p[i].ports;

        for (size_t k = 0; k < v->n; k++)
            if ((o->is_pod || v->p[k].host_port != 0) &&
                v->p[k].host_port != v->p[k].container_port)
                bh_fe_invalid_i64(
                    e, BH_FP(BH_FPI(BH_FP(BH_FPI(containers, i), "ports"), k), "hostPort"),
                    v->p[k].host_port, "must match `containerPort` when `hostNetwork` is true");
    }
}

/* A subdomain whose labels may hold underscores; a dot at the end is fine, a dot alone is the root.
 */
static void search_domain(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    if (bh_str_eqc(s, "."))
        return;
    if (bh_str_ends(s, BH_S(".")))
        s.n--;
    bh_v_check(e, at, bh_check_dns1123_subdomain_underscore, s);
}

static void dns_config(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_pod_spec *s)
{
    const struct bh_core_v1_pod_dns_config *d = s->dns_config;
    const struct bh_fpath *servers = BH_FP(at, "nameservers"), *searches = BH_FP(at, "searches");
    size_t total = 0;

    if (bh_str_eqc(s->dns_policy, "None")) {
        if (!d) {
            bh_fe_required(e, at, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if (d->nameservers.n == 0) {
            bh_fe_required(e, servers,
                           "must provide at least one DNS nameserver when `dnsPolicy` is None");
            return;
        }
    }
    if (!d)
        return;
    if (d->nameservers.n > NAMESERVERS_MAX)
        bh_fe_invalid_text(e, servers, bh_v_json_strs(e->a, &d->nameservers),
                           "must not have more than %u nameservers", NAMESERVERS_MAX);
    for (size_t i = 0; i < d->nameservers.n; i++)
        bh_v_check(e, BH_FPI(servers, i), bh_check_ip, d->nameservers.p[i]);
    if (d->searches.n > SEARCHES_MAX)
        bh_fe_invalid_text(e, searches, bh_v_json_strs(e->a, &d->searches),
                           "must not have more than %u search paths", SEARCHES_MAX);
    for (size_t i = 0; i < d->searches.n; i++)
        total += d->searches.p[i].n + (i > 0);
    if (total > SEARCH_BYTES_MAX)
        bh_fe_invalid_text(
            e, searches, bh_v_json_strs(e->a, &d->searches),
            "must not have more than %u characters (including spaces) in the search list",
            SEARCH_BYTES_MAX);
    for (size_t i = 0; i < d->searches.n; i++)
        search_domain(e, BH_FPI(searches, i), d->searches.p[i]);
    for (size_t i = 0; i < d->options.n; i++)
        if (d->options.p[i].name.n == 0)
            bh_fe_required(e, BH_FPI(BH_FP(at, "options"), i), "must not be empty");
}

static void host_name(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_core_v1_pod_spec *s)
{
    const struct bh_fpath *name = BH_FP(at, "hostnameOverride");

    if (!s->has_hostname_override)
        return;
    if (s->has_set_hostname_as_fqdn && s->set_hostname_as_fqdn)
        bh_fe_forbidden(e, name, "may not be specified when setHostnameAsFQDN is true");
    if (s->host_network)
        bh_fe_forbidden(e, name, "may not be specified when hostNetwork is true");
    if (s->hostname_override.n > HOSTNAME_OVERRIDE_MAX)
        bh_fe_too_long(e, name, HOSTNAME_OVERRIDE_MAX);
    bh_v_check(e, name, bh_check_dns1123_subdomain, s->hostname_override);
}

static void host_users(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_core_v1_pod_spec *s, const struct bh_pod_opts *o)
{
    struct bh_pod_iter it = {.spec = s};

    if (!s->has_host_users || s->host_users)
        return;
    if (s->host_network && !bh_rules_gate(o->env, "UserNamespacesHostNetworkSupport"))
        bh_fe_forbidden(e, BH_FP(at, "hostNetwork"), "when `hostUsers` is false");
    if (s->host_pid)
        bh_fe_forbidden(e, BH_FP(at, "HostPID"), "when `hostUsers` is false");
    if (s->host_ipc)
        bh_fe_forbidden(e, BH_FP(at, "HostIPC"), "when `hostUsers` is false");
    while (bh_pod_next(&it))
        if (it.c->volume_devices.n)
            bh_fe_forbidden(
                e,
                BH_FP(BH_FPI(BH_FPS(at, bh_s(bh_pod_list_name(it.list))), it.i), "volumeDevices"),
                "when `hostUsers` is false");
}

static void host_aliases(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_core_v1_host_alias_vec *v)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_fpath *ix = BH_FPI(at, i);

        bh_v_check(e, BH_FP(ix, "ip"), bh_check_ip, v->p[i].ip);
        for (size_t k = 0; k < v->p[i].hostnames.n; k++)
            bh_v_check(e, BH_FPI(BH_FP(ix, "hostnames"), k), bh_check_dns1123_subdomain,
                       v->p[i].hostnames.p[k]);
    }
}

/* ---- small parts of the spec ---- */

static void gates(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_pod_spec *s)
{
    const struct bh_core_v1_pod_scheduling_gate_vec *g = &s->scheduling_gates;
    const struct bh_fpath *readiness = BH_FP(at, "readinessGates"),
                          *scheduling = BH_FP(at, "schedulingGates");

    for (size_t i = 0; i < s->readiness_gates.n; i++)
        bh_v_check(e, BH_FP(BH_FPI(readiness, i), "conditionType"), bh_check_qualified_name,
                   s->readiness_gates.p[i].condition_type);
    for (size_t i = 0; i < g->n; i++) {
        bh_v_check(e, BH_FPI(scheduling, i), bh_check_qualified_name, g->p[i].name);
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(g->p[k].name, g->p[i].name)) {
                bh_fe_duplicate(e, BH_FPI(scheduling, i), g->p[i].name);
                break;
            }
    }
}

static void policies(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_core_v1_pod_spec *s)
{
    const struct bh_fpath *restart = BH_FP(at, "restartPolicy"), *dns = BH_FP(at, "dnsPolicy");

    if (s->restart_policy.n == 0)
        bh_fe_required(e, restart, NULL);
    else if (!BH_V_ONE_OF(s->restart_policy, "Always", "OnFailure", "Never"))
        BH_V_NOT_SUPPORTED(e, restart, s->restart_policy, "Always", "OnFailure", "Never");
    if (s->dns_policy.n == 0)
        bh_fe_required(e, dns, NULL);
    else if (!BH_V_ONE_OF(s->dns_policy, "ClusterFirstWithHostNet", "ClusterFirst", "Default",
                          "None"))
        BH_V_NOT_SUPPORTED(e, dns, s->dns_policy, "ClusterFirstWithHostNet", "ClusterFirst",
                           "Default", "None");
}

static void names(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_pod_spec *s)
{
    const struct bh_fpath *deadline = BH_FP(at, "activeDeadlineSeconds");

    if (s->service_account_name.n)
        bh_v_check(e, BH_FP(at, "serviceAccountName"), bh_check_dns1123_subdomain,
                   s->service_account_name);
    if (s->node_name.n)
        bh_v_check(e, BH_FP(at, "nodeName"), bh_v_node_name, s->node_name);
    if (s->has_active_deadline_seconds &&
        (s->active_deadline_seconds < 1 || s->active_deadline_seconds > INT32_MAX))
        bh_fe_invalid_i64(e, deadline, s->active_deadline_seconds,
                          "must be between 1 and 2147483647, inclusive");
    if (s->hostname.n)
        bh_v_check(e, BH_FP(at, "hostname"), bh_check_dns1123_label, s->hostname);
    if (s->subdomain.n)
        bh_v_check(e, BH_FP(at, "subdomain"), bh_check_dns1123_label, s->subdomain);
}

static void overhead(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_core_v1_pod_spec *s)
{
    struct bh_core_v1_resource_requirements r = {.limits = s->overhead};

    if (s->overhead.p)
        bh_v_requirements(e, at, &r, NULL, false);
}

static void classes(struct bh_field_errs *e, const struct bh_fpath *at,
                    const struct bh_core_v1_pod_spec *s)
{
    const struct bh_fpath *preemption = BH_FP(at, "preemptionPolicy"),
                          *group = BH_FP(at, "schedulingGroup");

    if (s->priority_class_name.n)
        bh_v_check(e, BH_FP(at, "priorityClassName"), bh_check_dns1123_subdomain,
                   s->priority_class_name);
    if (s->has_runtime_class_name)
        bh_v_check(e, BH_FP(at, "runtimeClassName"), bh_check_dns1123_subdomain,
                   s->runtime_class_name);
    if (s->has_preemption_policy && s->preemption_policy.n == 0)
        bh_fe_required(e, preemption, NULL);
    else if (s->has_preemption_policy &&
             !BH_V_ONE_OF(s->preemption_policy, "PreemptLowerPriority", "Never"))
        BH_V_NOT_SUPPORTED(e, preemption, s->preemption_policy, "PreemptLowerPriority", "Never");
    overhead(e, BH_FP(at, "overhead"), s);
    if (s->os)
        bh_v_pod_os(e, at, s);
    if (s->scheduling_group && !s->scheduling_group->has_pod_group_name)
        bh_fe_invalid_text(e, BH_FP(group, "podGroupName"), BH_S("null"),
                           "must specify one of: `podGroupName`");
    else if (s->scheduling_group)
        bh_v_check(e, BH_FP(group, "podGroupName"), bh_check_dns1123_subdomain,
                   s->scheduling_group->pod_group_name);
}

/* Files that fill the environment stand in an emptyDir. */
static void file_volumes(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_core_v1_pod_spec *s)
{
    static const struct bh_pod_opts any;
    struct bh_pod_iter it = {.spec = s};

    while (bh_pod_next(&it))
        for (size_t i = 0; i < it.c->env.n; i++) {
            const struct bh_core_v1_env_var_source *f = it.c->env.p[i].value_from;
            const struct bh_fpath *env_at =
                BH_FP(BH_FPI(BH_FPS(at, bh_s(bh_pod_list_name(it.list))), it.i), "env");
            const struct bh_fpath *name =
                BH_FP(BH_FP(BH_FP(BH_FPI(env_at, i), "valueFrom"), "fileKeyRef"), "volumeName");
            const struct bh_core_v1_volume *v;

            if (!f || !f->file_key_ref)
                continue;
            v = bh_pod_volume(s, f->file_key_ref->volume_name, &any);
            if (!v)
                bh_fe_not_found(e, name, f->file_key_ref->volume_name);
            else if (!v->volume_source.empty_dir)
                bh_fe_invalid(e, name, f->file_key_ref->volume_name,
                              "referenced volume must be of type emptyDir");
        }
}

void bh_v_pod_spec(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_pod_spec *s, const struct bh_meta_v1_object_meta *m,
                   const struct bh_pod_opts *opts)
{
    struct bh_pod_opts with_volumes = *opts, *o = &with_volumes;
    bool *ok = bh_new_n(e->a, bool, s->volumes.n ? s->volumes.n : 1);

    if (!s->has_termination_grace_period_seconds)
        bh_fe_required(e, BH_FP(at, "terminationGracePeriodSeconds"), NULL);
    bh_v_volumes(e, BH_FP(at, "volumes"), s, m, o, ok);
    o->volume_ok = ok;
    claims(e, BH_FP(at, "resourceClaims"), s, m);
    bh_v_containers(e, BH_FP(at, "containers"), s, o);
    bh_v_init_containers(e, BH_FP(at, "initContainers"), s, o);
    bh_v_ephemeral_containers(e, BH_FP(at, "ephemeralContainers"), s, o);
    if (bh_rules_gate(o->env, "PodLevelResources"))
        pod_level_resources(e, BH_FP(at, "resources"), s);
    host_network_ports(e, at, s, o);
    policies(e, at, s);
    bh_v_labels(e, BH_FP(at, "nodeSelector"), &s->node_selector);
    bh_v_pod_security(e, BH_FP(at, "securityContext"), s);
    bh_v_affinity(e, BH_FP(at, "affinity"), s->affinity, o);
    dns_config(e, BH_FP(at, "dnsConfig"), s);
    gates(e, at, s);
    bh_v_spread(e, BH_FP(at, "topologySpreadConstraints"), &s->topology_spread_constraints, o);
    bh_v_host_process(e, at, s, o);
    host_users(e, at, s, o);
    host_name(e, at, s);
    names(e, at, s);
    bh_v_tolerations(e, BH_FP(at, "tolerations"), &s->tolerations, o);
    host_aliases(e, BH_FP(at, "hostAliases"), &s->host_aliases);
    classes(e, at, s);
    file_volumes(e, at, s);
}

/* ---- creation ---- */

/* What holds for pods but was never asked of templates. */
void bh_v_pod_only(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_pod_spec *s)
{
    for (size_t i = 0; s->service_account_name.n == 0 && i < s->volumes.n; i++) {
        const struct bh_core_v1_projected_volume_source *p =
            s->volumes.p[i].volume_source.projected;
        const struct bh_fpath *sources =
            BH_FP(BH_FP(BH_FPI(BH_FP(at, "volumes"), i), "projected"), "sources");

        for (size_t k = 0; p && k < p->sources.n; k++)
            if (p->sources.p[k].service_account_token)
                bh_fe_forbidden(e, BH_FP(BH_FPI(sources, k), "serviceAccountToken"),
                                "must not be specified when serviceAccountName is not set");
    }
    for (size_t pass = 0; pass < 2; pass++) {
        const struct bh_core_v1_container_vec *v = pass ? &s->init_containers : &s->containers;
        const struct bh_fpath *list =
            BH_FPS(at, pass ? BH_S("initContainers") : BH_S("containers"));

        for (size_t i = 0; i < v->n; i++)
            if (!bh_str_eq(bh_str_trim(v->p[i].image), v->p[i].image))
                bh_fe_invalid(e, BH_FP(BH_FPI(list, i), "image"), v->p[i].image,
                              "must not have leading or trailing whitespace");
    }
}

void bh_v_pod_meta_and_spec(struct bh_field_errs *e, const struct bh_core_v1_pod *p,
                            const struct bh_pod_opts *o)
{
    const struct bh_fpath *meta = BH_FP(NULL, "metadata"), *spec = BH_FP(NULL, "spec");

    bh_v_meta(e, meta, &p->metadata, true, bh_check_dns1123_subdomain, BH_VM_KUBE);
    bh_v_pod_annotations(e, BH_FP(meta, "annotations"), &p->metadata, &p->spec, o);
    bh_v_pod_spec(e, spec, &p->spec, &p->metadata, o);
    bh_v_pod_only(e, spec, &p->spec);
}

/* The old annotation and the field have to say the same. */
void bh_v_app_armor_matches(struct bh_field_errs *e, const struct bh_fpath *spec,
                            const struct bh_core_v1_pod_spec *s,
                            const struct bh_meta_v1_object_meta *m)
{
    const struct bh_core_v1_app_armor_profile *pod =
        s->security_context ? s->security_context->app_armor_profile : NULL;
    struct bh_pod_iter it = {.spec = s};

    if (s->os && bh_str_eqc(s->os->name, "windows"))
        return;
    while (bh_pod_next(&it)) {
        const struct bh_core_v1_app_armor_profile *f =
            it.c->security_context && it.c->security_context->app_armor_profile
                ? it.c->security_context->app_armor_profile
                : pod;
        const struct bh_str *a = bh_str_map_get(
            &m->annotations, bh_str_fmt(e->a, BH_POD_APP_ARMOR "%.*s", BH_SF(it.c->name)));
        const struct bh_fpath *at = BH_FP(
            BH_FP(BH_FPI(BH_FPS(spec, bh_s(bh_pod_list_name(it.list))), it.i), "securityContext"),
            "appArmorProfile");
        bool local, type_ok;

        if (!f || !a)
            continue;
        local = bh_str_starts(*a, BH_S("localhost/"));
        type_ok = bh_str_eqc(f->type, "Unconfined")       ? bh_str_eqc(*a, "unconfined")
                  : bh_str_eqc(f->type, "RuntimeDefault") ? bh_str_eqc(*a, "runtime/default")
                  : bh_str_eqc(f->type, "Localhost")      ? local
                                                          : true;
        if (!type_ok)
            bh_fe_forbidden(e, BH_FP(at, "type"),
                            "apparmor type in annotation and field must match");
        else if (bh_str_eqc(f->type, "Localhost") &&
                 (!f->has_localhost_profile ||
                  !bh_str_eq(bh_str_sub(*a, 10, SIZE_MAX), f->localhost_profile)))
            bh_fe_forbidden(e, BH_FP(at, "localhostProfile"),
                            "apparmor profile in annotation and field must match");
    }
}

void bh_v_pod_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_core_v1_pod *p = obj;
    const struct bh_fpath *spec = BH_FP(NULL, "spec");
    struct bh_pod_opts o = {.env = env, .is_pod = true};

    bh_v_pod_meta_and_spec(e, p, &o);
    if (p->spec.ephemeral_containers.n)
        bh_fe_forbidden(e, BH_FP(spec, "ephemeralContainers"), "cannot be set on create");
    if (p->spec.node_name.n && p->spec.scheduling_gates.n)
        bh_fe_forbidden(e, BH_FP(spec, "nodeName"),
                        "cannot be set until all schedulingGates have been cleared");
    bh_v_app_armor_matches(e, spec, &p->spec, &p->metadata);
}
