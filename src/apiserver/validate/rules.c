/* Rules of kinds: look-up, the order of the steps, feature gates, and what holds for every object.
 */
#include "apiserver/validate/validate_int.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"

#include <pthread.h>
#include <string.h>

/* Feature gates: upstream's defaults of 1.36, except where a remark says so. Sorted by name. */
static const struct gate {
    const char *name;
    bool on;
} gates[] = {
    {"CRDObservedGenerationTracking", false},
    {"CRDValidationRatcheting", true},
    {"CSIServiceAccountTokenSecrets", true},
    {"CSIStorageCapacity", true},
    {"ClearingNominatedNodeNameAfterBinding", true},
    {"ClusterTrustBundleProjection", false},
    {"ContainerRestartRules", true},
    {"ContainerStopSignals", false},
    {"CoordinatedLeaderElection", false},
    {"CrossNamespaceVolumeDataSource", false},
    {"CustomResourceFieldSelectors", true},
    {"DRAAdminAccess", true},
    {"DRAConsumableCapacity", true},
    {"DRADeviceBindingConditions", true},
    {"DRADeviceTaintRules", true}, /* off upstream */
    {"DRADeviceTaints", true},
    {"DRAExtendedResource", true},
    {"DRAListTypeAttributes", true}, /* off upstream */
    {"DRANodeAllocatableResources", false},
    {"DRAPartitionableDevices", true},
    {"DRAPrioritizedList", true},
    {"DRAResourceClaimDeviceStatus", true},
    {"DRAResourceClaimGranularStatusAuthorization", true},
    {"DRAResourcePoolStatus", false},
    {"DRASchedulerFilterTimeout", true},
    {"DRAWorkloadResourceClaims", false},
    {"DynamicResourceAllocation", true},
    {"EnvFiles", true},
    {"GenericWorkload", true}, /* off upstream */
    {"HPAConfigurableTolerance", true},
    {"HostnameOverride", true},
    {"ImageVolume", true},
    {"ImageVolumeWithDigest", false},
    {"InPlacePodLevelResourcesVerticalScaling", true},
    {"InPlacePodVerticalScaling", true},
    {"MatchLabelKeysInPodTopologySpread", true},
    {"MaxUnavailableStatefulSet", false},
    {"MutableCSINodeAllocatableCount", true},
    {"NodeDeclaredFeatures", true},
    {"PodCertificateProjection", false},
    {"PodLevelResources", true},
    {"PodLogsQuerySplitStreams", false},
    {"PodObservedGenerationTracking", true},
    {"PodTopologyLabelsAdmission", true},
    {"ProcMountType", true},
    {"RecursiveReadOnlyMounts", true},
    {"RelaxedDNSSearchValidation", true},
    {"RelaxedEnvironmentVariableValidation", true},
    {"RelaxedServiceNameValidation", true},
    {"ResourceHealthStatus", true},
    {"ResourceHealthStatusMessage", true},
    {"RestartAllContainersOnContainerExits", true},
    {"SELinuxChangePolicy", true},
    {"SELinuxMountReadWriteOncePod", true},
    {"ShardedListAndWatch", false},
    {"SidecarContainers", true},
    {"StrictIPCIDRValidation", true},
    {"SupplementalGroupsPolicy", true},
    {"TaintTolerationComparisonOperators", false},
    {"TopologyAwareWorkloadScheduling", false},
    {"UserNamespacesHostNetworkSupport", false},
    {"UserNamespacesSupport", true},
    {"VolumeAttributesClass", true},
    {"VolumeLimitScaling", false},
    {"WorkloadAwarePreemption", false},
};

static const struct gate *find_gate(struct bh_str name)
{
    size_t lo = 0, hi = BH_COUNT(gates);

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int c = bh_str_cmp(name, bh_s(gates[mid].name));

        if (c == 0)
            return &gates[mid];
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

bool bh_gate_known(struct bh_str name)
{
    return find_gate(name) != NULL;
}

bool bh_gate_default(struct bh_str name)
{
    const struct gate *g = find_gate(name);

    return g && g->on;
}

bool bh_rules_gate(const struct bh_rules_env *env, const char *name)
{
    return env->gate ? env->gate(env->arg, bh_s(name)) : bh_gate_default(bh_s(name));
}

/* ---- look-up ---- */

static const struct bh_rules *find_in(const struct bh_rules *t, size_t n, const struct bh_kind *k)
{
    for (size_t i = 0; i < n; i++)
        if (bh_str_eqc(k->kind, t[i].kind) && bh_str_eqc(k->group, t[i].group))
            return &t[i];
    return NULL;
}

/* The tables of the files of this folder. */
static const struct {
    const struct bh_rules *rules;
    const size_t *n;
} tables[] = {
    {bh_rules_resource, &bh_rules_resource_n}, {bh_rules_core, &bh_rules_core_n},
    {bh_rules_storage, &bh_rules_storage_n},   {bh_rules_workload, &bh_rules_workload_n},
    {bh_rules_daemon, &bh_rules_daemon_n},     {bh_rules_service, &bh_rules_service_n},
    {bh_rules_cluster, &bh_rules_cluster_n},   {bh_rules_networking, &bh_rules_networking_n},
};

/* All that the tables hold for one kind: they are gone through once. */
#define DEFAULTS_MAX 8

struct of_kind {
    const struct bh_rules *rules;
    void (*defaults[DEFAULTS_MAX])(const struct bh_rules_env *env, void *obj);
    size_t defaults_n;
};

static struct bh_map by_kind; /* address of a struct bh_kind -> struct of_kind, for all of them */
static pthread_once_t by_kind_once = PTHREAD_ONCE_INIT;

static struct bh_str address(const struct bh_kind *const *k)
{
    return (struct bh_str){(const char *)k, sizeof(*k)};
}

static void defaults_in(struct of_kind *o, const struct bh_default_rule *t, size_t n,
                        const struct bh_kind *k)
{
    for (size_t i = 0; i < n; i++)
        if (bh_str_eqc(k->kind, t[i].kind) && bh_str_eqc(k->api_version, t[i].api_version)) {
            bh_assert(o->defaults_n < DEFAULTS_MAX);
            o->defaults[o->defaults_n++] = t[i].fn;
        }
}

static void read_tables(void)
{
    size_t n;
    const struct bh_kind *const *kinds = bh_kinds(&n);

    for (size_t i = 0; i < n; i++) {
        struct of_kind *o = bh_calloc(1, sizeof(*o));

        for (size_t t = 0; t < BH_COUNT(tables) && !o->rules; t++)
            o->rules = find_in(tables[t].rules, *tables[t].n, bh_kind_hub(kinds[i]));
        defaults_in(o, bh_defaults_resource, bh_defaults_resource_n, kinds[i]);
        defaults_in(o, bh_defaults_core, bh_defaults_core_n, kinds[i]);
        defaults_in(o, bh_defaults_storage, bh_defaults_storage_n, kinds[i]);
        defaults_in(o, bh_defaults_workload, bh_defaults_workload_n, kinds[i]);
        (void)bh_map_put(&by_kind, address(&kinds[i]), o);
    }
}

static const struct of_kind *of_kind(const struct bh_kind *k)
{
    (void)pthread_once(&by_kind_once, read_tables);
    return bh_map_get(&by_kind, address(&k));
}

const struct bh_rules *bh_rules_find(const struct bh_kind *k)
{
    const struct of_kind *o = of_kind(k);

    return o ? o->rules : NULL;
}

void bh_rules_default(const struct bh_rules_env *env, const struct bh_kind *k, void *obj)
{
    const struct of_kind *o = of_kind(k);

    bh_msg_default(k->type, obj, env->a);
    for (size_t i = 0; o && i < o->defaults_n; i++)
        o->defaults[i](env, obj);
}

bool bh_rules_unconditional_update(const struct bh_kind *k)
{
    const struct bh_rules *r = bh_rules_find(k);

    return !r || !r->no_unconditional_update;
}

bool bh_rules_create_on_update(const struct bh_kind *k)
{
    const struct bh_rules *r = bh_rules_find(k);

    return r && r->create_on_update;
}

bool bh_rules_status_owned(const struct bh_kind *k)
{
    const struct bh_rules *r = bh_rules_find(k);

    return r && r->status_owned;
}

/* ---- every object ---- */

static struct bh_meta_v1_object_meta *meta_of(const struct bh_kind *k, void *obj)
{
    return k->meta_off == UINT32_MAX
               ? NULL
               : (struct bh_meta_v1_object_meta *)(void *)((char *)obj + k->meta_off);
}

static const struct bh_meta_v1_object_meta *cmeta_of(const struct bh_kind *k, const void *obj)
{
    return k->meta_off == UINT32_MAX
               ? NULL
               : (const struct bh_meta_v1_object_meta *)(const void *)((const char *)obj +
                                                                       k->meta_off);
}

static void *field_at(const struct bh_kind *k, void *obj, struct bh_str name,
                      const struct bh_field **ret)
{
    const struct bh_field *f = bh_type_field(k->type, name);

    *ret = f;
    return f ? (char *)obj + f->off : NULL;
}

static bool gate_on(void *arg, struct bh_str name)
{
    const struct bh_rules_env *env = arg;

    return env->gate ? env->gate(env->arg, name) : bh_gate_default(name);
}

/* Status comes from controllers only: a create starts without one. */
static void clear_status(const struct bh_kind *k, void *obj)
{
    const struct bh_field *f;
    void *p;

    if (!bh_kind_sub(k, BH_S("status")))
        return;
    p = field_at(k, obj, BH_S("status"), &f);
    if (p && f->type == BH_T_MESSAGE && f->shape == BH_ONE)
        memset(p, 0, (f->flags & BH_F_PTR) ? sizeof(void *) : f->msg->size);
}

void bh_rules_prepare_create(const struct bh_rules_env *env, const struct bh_kind *k, void *obj)
{
    const struct bh_rules *r = bh_rules_find(k);
    struct bh_meta_v1_object_meta *m = meta_of(k, obj);

    if (m) {
        m->deletion_timestamp = (struct bh_time){0};
        m->has_deletion_grace_period_seconds = false;
        m->deletion_grace_period_seconds = 0;
        m->self_link = (struct bh_str){0};
    }
    if (r && r->prepare_create) {
        r->prepare_create(env, obj);
        return;
    }
    clear_status(k, obj);
    bh_msg_drop_gated(k->type, obj, NULL, gate_on, (void *)(uintptr_t)env);
}

/* Copies the field of that name from old: what this path may not change. */
static void keep(const struct bh_kind *k, void *obj, const void *old, const char *name)
{
    const struct bh_field *f;
    void *p = field_at(k, obj, bh_s(name), &f);

    if (p && f->type == BH_T_MESSAGE && f->shape == BH_ONE)
        memcpy(p, (const char *)old + f->off,
               (f->flags & BH_F_PTR) ? sizeof(void *) : f->msg->size);
}

static void generic_prepare_update(const struct bh_rules_env *env, const struct bh_kind *k,
                                   struct bh_str sub, void *obj, const void *old)
{
    if (bh_str_eqc(sub, "status")) {
        keep(k, obj, old, "spec");
        if (k->meta_off != UINT32_MAX)
            bh_v_reset_meta_for_status(meta_of(k, obj), cmeta_of(k, old));
    } else if (bh_kind_sub(k, BH_S("status"))) {
        keep(k, obj, old, "status");
    }
    bh_msg_drop_gated(k->type, obj, old, gate_on, (void *)(uintptr_t)env);
}

void bh_rules_prepare_update(const struct bh_rules_env *env, const struct bh_kind *k,
                             struct bh_str sub, void *obj, const void *old)
{
    const struct bh_rules *r = bh_rules_find(k);
    struct bh_meta_v1_object_meta *m = meta_of(k, obj);
    const struct bh_meta_v1_object_meta *o = cmeta_of(k, old);

    if (m)
        m->generation = o->generation;
    if (r && r->prepare_update)
        r->prepare_update(env, sub, obj, old);
    else
        generic_prepare_update(env, k, sub, obj, old);
    if (!m)
        return;
    if (m->uid.n == 0)
        m->uid = o->uid;
    if (!bh_time_is_zero(o->creation_timestamp))
        m->creation_timestamp = o->creation_timestamp;
    /* An update can neither take a deletion back nor begin one. */
    if (!bh_time_is_zero(o->deletion_timestamp))
        m->deletion_timestamp = o->deletion_timestamp;
    if (o->has_deletion_grace_period_seconds && !m->has_deletion_grace_period_seconds) {
        m->has_deletion_grace_period_seconds = true;
        m->deletion_grace_period_seconds = o->deletion_grace_period_seconds;
    }
}

void bh_rules_validate_create(const struct bh_rules_env *env, const struct bh_kind *k,
                              const void *obj, struct bh_field_errs *errs)
{
    const struct bh_rules *r = bh_rules_find(k);
    const struct bh_meta_v1_object_meta *m = cmeta_of(k, obj);

    if (r && r->validate_create) {
        r->validate_create(env, obj, errs);
    } else {
        if (m)
            bh_v_meta(errs, BH_FP(NULL, "metadata"), m, k->namespaced, bh_check_dns1123_subdomain,
                      BH_VM_KUBE);
        bh_msg_validate(k->type, obj, NULL, errs);
    }
    /* What holds for every object is told only when its own rules find nothing. */
    if (m && errs->n == 0)
        bh_v_meta(errs, BH_FP(NULL, "metadata"), m, k->namespaced, bh_v_any_name, 0);
}

void bh_rules_validate_update(const struct bh_rules_env *env, const struct bh_kind *k,
                              struct bh_str sub, const void *obj, const void *old,
                              struct bh_field_errs *errs)
{
    const struct bh_rules *r = bh_rules_find(k);
    const struct bh_meta_v1_object_meta *m = cmeta_of(k, obj), *o = cmeta_of(k, old);

    if (m) {
        bh_v_meta(errs, BH_FP(NULL, "metadata"), m, k->namespaced, bh_v_any_name, 0);
        bh_v_meta_update(errs, BH_FP(NULL, "metadata"), m, o, 0);
    }
    if (r && r->validate_update) {
        r->validate_update(env, sub, obj, old, errs);
        return;
    }
    if (m)
        bh_v_meta_update(errs, BH_FP(NULL, "metadata"), m, o, BH_VM_KUBE);
    bh_msg_validate(k->type, obj, NULL, errs);
    bh_msg_validate_update(k->type, obj, old, NULL, errs);
}

void bh_rules_warnings(const struct bh_rules_env *env, const struct bh_kind *k, struct bh_str sub,
                       const void *obj, const void *old, struct bh_str_vec *out)
{
    const struct bh_rules *r = bh_rules_find(k);

    if (r && r->warn)
        r->warn(env, sub, obj, old, out);
}

void bh_v_warn(const struct bh_rules_env *env, struct bh_str_vec *out, const char *fmt, ...)
{
    struct bh_str *p = bh_new_n(env->a, struct bh_str, out->n + 1);
    va_list ap;

    if (out->n)
        memcpy(p, out->p, out->n * sizeof(*p));
    va_start(ap, fmt);
    p[out->n] = bh_str_vfmt(env->a, fmt, ap);
    va_end(ap);
    out->p = p;
    out->n++;
}
