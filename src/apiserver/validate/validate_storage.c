/* Kinds of storage.k8s.io; the tables of all that concerns storage. */
#include "apiserver/validate/validate_storage.h"
#include "apiserver/validate/validate_dra.h"

#include "api/gen/storage_v1.h"
#include "base/buf.h"
#include "data/json.h"

#define PARAMETERS_MAX         512u
#define PARAMETERS_BYTES_MAX   (256u << 10)
#define METADATA_BYTES_MAX     (256u << 10)
#define VOLUME_ERROR_BYTES_MAX 1024u
#define NODE_ID_BYTES_MAX      256u
#define UPDATE_SECONDS_MIN     10
#define TOKEN_SECONDS_MIN      600
#define TOKEN_SECONDS_MAX      ((int64_t)1 << 32)

static const struct bh_fpath *const meta_at =
    &(const struct bh_fpath){.name = BH_S_INIT("metadata"), .kind = BH_FP_NAME};
static const struct bh_fpath *const spec_at =
    &(const struct bh_fpath){.name = BH_S_INIT("spec"), .kind = BH_FP_NAME};

static bool gate_on(void *arg, struct bh_str name)
{
    const struct bh_rules_env *env = arg;

    return env->gate ? env->gate(env->arg, name) : bh_gate_default(name);
}

static void meta(struct bh_field_errs *e, const struct bh_meta_v1_object_meta *m, bool namespaced)
{
    bh_v_meta(e, meta_at, m, namespaced, bh_check_dns1123_subdomain, BH_VM_KUBE);
}

/* ---- StorageClass ---- */

static void provisioner(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    if (s.n == 0)
        bh_fe_required(e, at, NULL);
    else
        bh_v_check(e, at, bh_check_qualified_name, bh_v_lower(e->a, s)); /* shown so, too */
}

static size_t map_bytes(const struct bh_str_map *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++)
        n += m->p[i].key.n + m->p[i].value.n;
    return n;
}

static void parameters(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_str_map *m, bool needed)
{
    if (m->n > PARAMETERS_MAX) {
        bh_fe_too_long(e, at, PARAMETERS_MAX);
        return;
    }
    for (size_t i = 0; i < m->n; i++)
        if (m->p[i].key.n == 0)
            bh_fe_invalid(e, at, m->p[i].key, "field can not be empty.");
    if (map_bytes(m) > PARAMETERS_BYTES_MAX)
        bh_fe_too_long(e, at, PARAMETERS_BYTES_MAX);
    if (needed && m->n == 0)
        bh_fe_required(e, at, "must contain at least one key/value pair");
}

static void topology_requirement(struct bh_field_errs *e, const struct bh_fpath *at,
                                 const struct bh_core_v1_topology_selector_label_requirement *r)
{
    const struct bh_fpath *values = BH_FP(at, "values");

    if (r->values.n == 0)
        bh_fe_required(e, values, NULL);
    for (size_t i = 1; i < r->values.n; i++) {
        const struct bh_str_vec before = {r->values.p, i};

        if (bh_v_has(&before, r->values.p[i]))
            bh_fe_duplicate(e, BH_FPI(values, i), r->values.p[i]);
    }
    bh_v_label_name(e, BH_FP(at, "key"), r->key);
}

static bool same_values(const struct bh_str_vec *a, const struct bh_str_vec *b)
{
    for (size_t i = 0; i < a->n; i++)
        if (!bh_v_has(b, a->p[i]))
            return false;
    for (size_t i = 0; i < b->n; i++)
        if (!bh_v_has(a, b->p[i]))
            return false;
    return true;
}

/* The last requirement of a key is the one that counts. */
static const struct bh_core_v1_topology_selector_label_requirement *
requirement_of(const struct bh_core_v1_topology_selector_term *t, struct bh_str key)
{
    for (size_t i = t->match_label_expressions.n; i > 0; i--)
        if (bh_str_eq(t->match_label_expressions.p[i - 1].key, key))
            return &t->match_label_expressions.p[i - 1];
    return NULL;
}

static bool terms_within(const struct bh_core_v1_topology_selector_term *a,
                         const struct bh_core_v1_topology_selector_term *b)
{
    for (size_t i = 0; i < a->match_label_expressions.n; i++) {
        struct bh_str key = a->match_label_expressions.p[i].key;
        const struct bh_core_v1_topology_selector_label_requirement *x = requirement_of(a, key),
                                                                    *y = requirement_of(b, key);

        if (!y || !same_values(&x->values, &y->values))
            return false;
    }
    return true;
}

static void topology_term(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_core_v1_topology_selector_term *t)
{
    const struct bh_fpath *all = BH_FP(at, "matchLabelExpressions");

    for (size_t i = 0; i < t->match_label_expressions.n; i++) {
        topology_requirement(e, BH_FPI(all, i), &t->match_label_expressions.p[i]);
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(t->match_label_expressions.p[k].key,
                          t->match_label_expressions.p[i].key)) {
                bh_fe_duplicate(e, BH_FP(BH_FPI(all, i), "key"),
                                t->match_label_expressions.p[i].key);
                break;
            }
    }
}

static void topologies(struct bh_field_errs *e,
                       const struct bh_core_v1_topology_selector_term_vec *v)
{
    const struct bh_fpath *at = BH_FP(NULL, "allowedTopologies");

    for (size_t i = 0; i < v->n; i++) {
        topology_term(e, BH_FPI(at, i), &v->p[i]);
        /* Upstream takes an empty term for one that stands there as often as there are terms. */
        for (size_t k = 0; k < v->n && v->p[i].match_label_expressions.n == 0; k++)
            bh_fe_duplicate(e, BH_FP(BH_FPI(at, i), "matchLabelExpressions"), BH_S(""));
        for (size_t k = 0; k < i; k++)
            if (terms_within(&v->p[i], &v->p[k]) && terms_within(&v->p[k], &v->p[i]))
                bh_fe_duplicate(e, BH_FP(BH_FPI(at, i), "matchLabelExpressions"), BH_S(""));
    }
}

static void class_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_storage_v1_storage_class *c = obj;
    const struct bh_fpath *mode = BH_FP(NULL, "volumeBindingMode");

    (void)env;
    meta(e, &c->metadata, false);
    provisioner(e, BH_FP(NULL, "provisioner"), c->provisioner);
    parameters(e, BH_FP(NULL, "parameters"), &c->parameters, false);
    if (c->reclaim_policy.n && !BH_V_ONE_OF(c->reclaim_policy, "Delete", "Retain"))
        BH_V_NOT_SUPPORTED(e, BH_FP(NULL, "reclaimPolicy"), c->reclaim_policy, "Delete", "Retain");
    if (!c->has_volume_binding_mode)
        bh_fe_required(e, mode, NULL);
    else if (!BH_V_ONE_OF(c->volume_binding_mode, "Immediate", "WaitForFirstConsumer"))
        BH_V_NOT_SUPPORTED(e, mode, c->volume_binding_mode, "Immediate", "WaitForFirstConsumer");
    topologies(e, &c->allowed_topologies);
}

static bool maps_equal(const struct bh_str_map *x, const struct bh_str_map *y)
{
    if (x->n != y->n)
        return false;
    for (size_t i = 0; i < x->n; i++)
        if (!bh_str_eq(x->p[i].key, y->p[i].key) || !bh_str_eq(x->p[i].value, y->p[i].value))
            return false;
    return true;
}

static void map_kept(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_str_map *now, const struct bh_str_map *old)
{
    struct bh_buf b = {.max = 1u << 20};

    if (maps_equal(now, old))
        return;
    for (size_t i = 0; i < now->n; i++) {
        bh_buf_addz(&b, i ? "," : "{");
        bh_json_write_str(&b, now->p[i].key);
        bh_buf_addc(&b, ':');
        bh_json_write_str(&b, now->p[i].value);
    }
    bh_buf_addz(&b, now->n ? "}" : "null");
    bh_fe_invalid_text(e, at, bh_buf_str(&b), BH_V_IMMUTABLE);
    bh_buf_done(&b);
}

static void class_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                         const void *prev, struct bh_field_errs *e)
{
    const struct bh_storage_v1_storage_class *c = obj, *old = prev;

    (void)sub;
    class_create(env, c, e);
    bh_v_meta_update(e, meta_at, &c->metadata, &old->metadata, BH_VM_KUBE);
    map_kept(e, BH_FP(NULL, "parameters"), &c->parameters, &old->parameters);
    bh_v_immutable_str(e, BH_FP(NULL, "provisioner"), c->provisioner, old->provisioner);
    bh_v_immutable_str(e, BH_FP(NULL, "reclaimPolicy"), c->reclaim_policy, old->reclaim_policy);
    bh_v_immutable_str(e, BH_FP(NULL, "volumeBindingMode"), c->volume_binding_mode,
                       old->volume_binding_mode);
}

static void class_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                       const void *prev, struct bh_str_vec *out)
{
    const struct bh_storage_v1_storage_class *c = obj;
    const struct bh_fpath *at = BH_FP(NULL, "allowedTopologies");

    (void)sub;
    (void)prev;
    for (size_t i = 0; i < c->allowed_topologies.n; i++) {
        const struct bh_core_v1_topology_selector_label_requirement_vec *v =
            &c->allowed_topologies.p[i].match_label_expressions;
        const struct bh_fpath *all = BH_FP(BH_FPI(at, i), "matchLabelExpressions");

        for (size_t k = 0; k < v->n; k++) {
            const char *text = bh_v_deprecated_label(v->p[k].key);

            if (text)
                bh_v_warn_at(env, out, BH_FP(BH_FPI(all, k), "key"), "%s", text);
        }
    }
}

/* ---- VolumeAttributesClass ---- */

static void attributes_create(const struct bh_rules_env *env, const void *obj,
                              struct bh_field_errs *e)
{
    const struct bh_storage_v1_volume_attributes_class *c = obj;

    (void)env;
    meta(e, &c->metadata, false);
    provisioner(e, BH_FP(NULL, "driverName"), c->driver_name);
    parameters(e, BH_FP(NULL, "parameters"), &c->parameters, true);
}

static void attributes_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                              const void *prev, struct bh_field_errs *e)
{
    const struct bh_storage_v1_volume_attributes_class *c = obj, *old = prev;

    (void)sub;
    bh_v_meta_update(e, meta_at, &c->metadata, &old->metadata, BH_VM_KUBE);
    if (!bh_str_eq(c->driver_name, old->driver_name))
        bh_fe_forbidden(e, BH_FP(NULL, "driverName"), "updates to driverName are forbidden.");
    if (!maps_equal(&c->parameters, &old->parameters))
        bh_fe_forbidden(e, BH_FP(NULL, "parameters"), "updates to parameters are forbidden.");
    attributes_create(env, c, e);
}

/* ---- VolumeAttachment ---- */

static void attachment_prepare_create(const struct bh_rules_env *env, void *obj)
{
    (void)env;
    ((struct bh_storage_v1_volume_attachment *)obj)->status =
        (struct bh_storage_v1_volume_attachment_status){0};
}

static void attachment_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                      const void *prev)
{
    struct bh_storage_v1_volume_attachment *v = obj;
    const struct bh_storage_v1_volume_attachment *old = prev;

    if (!bh_str_eqc(sub, "status")) {
        v->status = old->status;
        return;
    }
    v->spec = old->spec;
    bh_v_reset_meta_for_status(&v->metadata, &old->metadata);
    bh_msg_drop_gated(&bh_storage_v1_volume_attachment_status_type, &v->status, &old->status,
                      gate_on, (void *)(uintptr_t)env);
}

static void attachment_source(struct bh_field_errs *e, const struct bh_fpath *at,
                              const struct bh_storage_v1_volume_attachment_source *s)
{
    static const char both[] =
        "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    const struct bh_v_pv_opts o = {.in_line = true};

    if (!s->inline_volume_spec && !s->has_persistent_volume_name)
        bh_fe_required(e, at, "%s", both);
    else if (s->inline_volume_spec && s->has_persistent_volume_name)
        bh_fe_forbidden(e, at, "%s", both);
    else if (s->inline_volume_spec)
        bh_v_pv_spec(e, BH_FP(at, "inlineVolumeSpec"), s->inline_volume_spec, BH_S(""), &o);
    else if (s->persistent_volume_name.n == 0)
        bh_fe_required(e, BH_FP(at, "persistentVolumeName"),
                       "must specify non empty persistentVolumeName");
}

static void volume_error(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_storage_v1_volume_error *v)
{
    if (!v)
        return;
    if (v->message.n > VOLUME_ERROR_BYTES_MAX)
        bh_fe_too_long(e, BH_FP(at, "message"), METADATA_BYTES_MAX); /* upstream names this limit */
    if (v->has_error_code && v->error_code < 0)
        bh_fe_invalid_i64(e, BH_FP(at, "errorCode"), v->error_code,
                          "must be between 0 and 2147483647, inclusive");
}

static void attachment_create(const struct bh_rules_env *env, const void *obj,
                              struct bh_field_errs *e)
{
    const struct bh_storage_v1_volume_attachment *v = obj;
    const struct bh_fpath *status = BH_FP(NULL, "status");

    (void)env;
    meta(e, &v->metadata, false);
    bh_v_driver_name(e, BH_FP(spec_at, "attacher"), v->spec.attacher);
    attachment_source(e, BH_FP(spec_at, "source"), &v->spec.source);
    bh_v_check(e, BH_FP(spec_at, "nodeName"), bh_v_node_name, v->spec.node_name);
    if (map_bytes(&v->status.attachment_metadata) > METADATA_BYTES_MAX)
        bh_fe_too_long(e, BH_FP(status, "attachmentMetadata"), METADATA_BYTES_MAX);
    volume_error(e, BH_FP(status, "attachError"), v->status.attach_error);
    volume_error(e, BH_FP(status, "detachError"), v->status.detach_error);
    if (v->spec.source.has_persistent_volume_name)
        bh_v_check(e, BH_FP(NULL, "spec.source.persistentVolumeName"), bh_check_dns1123_subdomain,
                   v->spec.source.persistent_volume_name);
}

static void attachment_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                              const void *prev, struct bh_field_errs *e)
{
    const struct bh_storage_v1_volume_attachment *v = obj, *old = prev;

    (void)sub;
    attachment_create(env, v, e);
    bh_v_immutable_msg(e, spec_at, &bh_storage_v1_volume_attachment_spec_type, &v->spec,
                       &old->spec);
}

/* ---- CSIDriver ---- */

#define TOKENS_ADVICE                                                                              \
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to " \
    "prevent possible logging of tokens in volume attributes"

static void default_driver(const struct bh_rules_env *env, void *obj)
{
    struct bh_storage_v1_csi_driver *d = obj;

    if (d->spec.volume_lifecycle_modes.n == 0) {
        d->spec.volume_lifecycle_modes.p = bh_new(env->a, struct bh_str);
        d->spec.volume_lifecycle_modes.p[0] = BH_S("Persistent");
        d->spec.volume_lifecycle_modes.n = 1;
    }
    if (!d->spec.has_prevent_pod_scheduling_if_missing && bh_rules_gate(env, "VolumeLimitScaling"))
        d->spec.has_prevent_pod_scheduling_if_missing = true;
}

static void driver_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                  const void *prev)
{
    struct bh_storage_v1_csi_driver *d = obj;
    const struct bh_storage_v1_csi_driver *old = prev;

    (void)sub;
    bh_msg_drop_gated(&bh_storage_v1_csi_driver_type, d, old, gate_on, (void *)(uintptr_t)env);
    if (!bh_msg_equal(&bh_storage_v1_csi_driver_spec_type, &d->spec, &old->spec))
        d->metadata.generation = old->metadata.generation + 1;
}

static void token_requests(struct bh_field_errs *e, const struct bh_storage_v1_token_request_vec *v)
{
    const struct bh_fpath *at = BH_FP(spec_at, "tokenRequests");

    for (size_t i = 0; i < v->n; i++) {
        const struct bh_fpath *seconds = BH_FP(BH_FPI(at, i), "expirationSeconds");
        int64_t s = v->p[i].expiration_seconds;
        size_t k = 0;

        while (k < i && !bh_str_eq(v->p[k].audience, v->p[i].audience))
            k++;
        if (k < i) {
            bh_fe_duplicate(e, BH_FP(BH_FPI(at, i), "audience"), v->p[i].audience);
            continue;
        }
        if (v->p[i].has_expiration_seconds && s < TOKEN_SECONDS_MIN)
            bh_fe_invalid_i64(e, seconds, s, "may not specify a duration less than 10 minutes");
        if (v->p[i].has_expiration_seconds && s > TOKEN_SECONDS_MAX)
            bh_fe_invalid_i64(e, seconds, s, "may not specify a duration larger than 2^32 seconds");
    }
}

static void driver_spec(const struct bh_rules_env *env, struct bh_field_errs *e,
                        const struct bh_storage_v1_csi_driver_spec *s)
{
    if (!s->has_attach_required)
        bh_fe_required(e, BH_FP(spec_at, "attachedRequired"), NULL);
    if (!s->has_pod_info_on_mount)
        bh_fe_required(e, BH_FP(spec_at, "podInfoOnMount"), NULL);
    if (!s->has_storage_capacity)
        bh_fe_required(e, BH_FP(spec_at, "storageCapacity"), NULL);
    if (s->has_fs_group_policy &&
        !BH_V_ONE_OF(s->fs_group_policy, "File", "None", "ReadWriteOnceWithFSType"))
        BH_V_NOT_SUPPORTED(e, BH_FP(spec_at, "fsGroupPolicy"), s->fs_group_policy, "File", "None",
                           "ReadWriteOnceWithFSType");
    token_requests(e, &s->token_requests);
    for (size_t i = 0; i < s->volume_lifecycle_modes.n; i++)
        if (!BH_V_ONE_OF(s->volume_lifecycle_modes.p[i], "Persistent", "Ephemeral"))
            BH_V_NOT_SUPPORTED(e, BH_FP(spec_at, "volumeLifecycleModes"),
                               s->volume_lifecycle_modes.p[i], "Persistent", "Ephemeral");
    if (!s->has_se_linux_mount && bh_rules_gate(env, "SELinuxMountReadWriteOncePod"))
        bh_fe_required(e, BH_FP(spec_at, "seLinuxMount"), NULL);
    if (s->has_node_allocatable_update_period_seconds &&
        s->node_allocatable_update_period_seconds < UPDATE_SECONDS_MIN)
        bh_fe_invalid_i64(e, BH_FP(spec_at, "nodeAllocatableUpdatePeriodSeconds"),
                          s->node_allocatable_update_period_seconds,
                          "must be greater than or equal to 10 seconds");
    if (s->has_service_account_token_in_secrets && s->token_requests.n == 0)
        bh_fe_invalid_bool(e, BH_FP(spec_at, "serviceAccountTokenInSecrets"),
                           s->service_account_token_in_secrets,
                           "serviceAccountTokenInSecrets is set but no tokenRequests are "
                           "specified");
    if (!s->has_prevent_pod_scheduling_if_missing && bh_rules_gate(env, "VolumeLimitScaling"))
        bh_fe_required(e, BH_FP(spec_at, "preventPodSchedulingIfMissing"), NULL);
}

static void driver_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_storage_v1_csi_driver *d = obj;

    meta(e, &d->metadata, false);
    driver_spec(env, e, &d->spec);
}

static void driver_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                          const void *prev, struct bh_field_errs *e)
{
    const struct bh_storage_v1_csi_driver *d = obj, *old = prev;
    const struct bh_str_vec *now = &d->spec.volume_lifecycle_modes,
                            *was = &old->spec.volume_lifecycle_modes;
    bool same = now->n == was->n;

    (void)sub;
    bh_v_meta_update(e, meta_at, &d->metadata, &old->metadata, BH_VM_KUBE);
    driver_spec(env, e, &d->spec);
    if (d->spec.attach_required != old->spec.attach_required)
        bh_fe_invalid_bool(e, BH_FP(spec_at, "attachedRequired"), d->spec.attach_required,
                           BH_V_IMMUTABLE);
    for (size_t i = 0; same && i < now->n; i++)
        same = bh_str_eq(now->p[i], was->p[i]);
    if (!same)
        bh_fe_invalid_text(e, BH_FP(spec_at, "volumeLifecycleModes"), bh_v_json_strs(e->a, now),
                           BH_V_IMMUTABLE);
}

static void driver_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                        const void *prev, struct bh_str_vec *out)
{
    const struct bh_storage_v1_csi_driver *d = obj, *old = prev;
    const struct bh_storage_v1_token_request_vec *v = &d->spec.token_requests;
    bool same = old && old->spec.token_requests.n == v->n;

    (void)sub;
    for (size_t i = 0; same && i < v->n; i++)
        same = bh_msg_equal(&bh_storage_v1_token_request_type, &v->p[i],
                            &old->spec.token_requests.p[i]);
    if (!same && v->n && !d->spec.has_service_account_token_in_secrets &&
        bh_rules_gate(env, "CSIServiceAccountTokenSecrets"))
        bh_v_warn(env, out, "%s", TOKENS_ADVICE);
}

/* ---- CSINode ---- */

static void node_driver(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_storage_v1_csi_node_driver *d)
{
    bh_v_driver_name(e, BH_FP(at, "name"), d->name);
    if (d->node_id.n == 0)
        bh_fe_required(e, BH_FP(at, "nodeID"), NULL);
    if (d->node_id.n > NODE_ID_BYTES_MAX)
        bh_fe_invalid(e, BH_FP(at, "nodeID"), d->node_id, "must be %u characters or less",
                      NODE_ID_BYTES_MAX);
    if (d->allocatable && d->allocatable->has_count)
        bh_v_nonnegative(e, BH_FP(BH_FP(at, "allocatable"), "count"), d->allocatable->count);
}

static void topology_keys(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_str_vec *v)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_str_vec before = {v->p, i};

        if (v->p[i].n == 0)
            bh_fe_required(e, at, NULL);
        if (bh_v_has(&before, v->p[i]))
            bh_fe_duplicate(e, at, v->p[i]);
        bh_v_check(e, at, bh_check_qualified_name, v->p[i]);
    }
}

/* Stored without lists that are empty, as upstream's encoding does. */
static void csi_node_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_storage_v1_csi_node_driver_vec *v =
        &((struct bh_storage_v1_csi_node *)obj)->spec.drivers;

    (void)env;
    for (size_t i = 0; i < v->n; i++)
        if (v->p[i].topology_keys.n == 0)
            v->p[i].topology_keys.p = NULL;
    if (v->n == 0)
        v->p = NULL;
}

static void csi_node_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                    const void *prev)
{
    (void)sub;
    (void)prev;
    csi_node_prepare_create(env, obj);
}

static void csi_node_create(const struct bh_rules_env *env, const void *obj,
                            struct bh_field_errs *e)
{
    const struct bh_storage_v1_csi_node *c = obj;
    const struct bh_fpath *at = BH_FP(spec_at, "drivers");

    (void)env;
    meta(e, &c->metadata, false);
    for (size_t i = 0; i < c->spec.drivers.n; i++) {
        const struct bh_storage_v1_csi_node_driver *d = &c->spec.drivers.p[i];

        node_driver(e, BH_FPI(at, i), d);
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(c->spec.drivers.p[k].name, d->name)) {
                bh_fe_duplicate(e, BH_FP(BH_FPI(at, i), "name"), d->name);
                break;
            }
        topology_keys(e, BH_FPI(at, i), &d->topology_keys);
    }
}

static void csi_node_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                            const void *prev, struct bh_field_errs *e)
{
    const struct bh_storage_v1_csi_node *c = obj, *old = prev;
    bool count_may_change = bh_rules_gate(env, "MutableCSINodeAllocatableCount");

    (void)sub;
    csi_node_create(env, c, e);
    for (size_t i = 0; i < old->spec.drivers.n; i++)
        for (size_t k = 0; k < c->spec.drivers.n; k++) {
            struct bh_storage_v1_csi_node_driver was = old->spec.drivers.p[i],
                                                 now = c->spec.drivers.p[k];

            if (!bh_str_eq(was.name, now.name))
                continue;
            if (count_may_change)
                was.allocatable = now.allocatable = NULL;
            bh_v_immutable_msg(e, BH_FP(spec_at, "drivers"), &bh_storage_v1_csi_node_driver_type,
                               &now, &was);
        }
}

/* ---- CSIStorageCapacity ---- */

static void capacity(struct bh_field_errs *e, const struct bh_storage_v1_csi_storage_capacity *c,
                     bool old_selector)
{
    meta(e, &c->metadata, true);
    bh_v_label_selector(e, BH_FP(NULL, "nodeTopology"), c->node_topology, old_selector);
    bh_v_check(e, BH_FP(NULL, "storageClassName"), bh_check_dns1123_subdomain,
               c->storage_class_name);
    if (c->has_capacity && bh_quantity_sign(bh_v_qty(c->capacity)) < 0)
        bh_fe_invalid(e, BH_FP(NULL, "capacity"), c->capacity,
                      "must be greater than or equal to 0");
}

static void capacity_create(const struct bh_rules_env *env, const void *obj,
                            struct bh_field_errs *e)
{
    (void)env;
    capacity(e, obj, false);
}

static void capacity_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                            const void *prev, struct bh_field_errs *e)
{
    const struct bh_storage_v1_csi_storage_capacity *c = obj, *old = prev;
    const struct bh_meta_v1_label_selector *now = c->node_topology, *was = old->node_topology;
    struct bh_field_errs faults = {.a = e->a};

    (void)env;
    (void)sub;
    bh_v_label_selector(&faults, NULL, was, false);
    capacity(e, c, faults.n > 0);
    bh_v_meta_update(e, meta_at, &c->metadata, &old->metadata, BH_VM_KUBE);
    if (!now != !was || (now && !bh_msg_equal(&bh_meta_v1_label_selector_type, now, was)))
        bh_fe_invalid_text(e, BH_FP(NULL, "nodeTopology"),
                           now ? bh_v_json(e->a, &bh_meta_v1_label_selector_type, now)
                               : BH_S("null"),
                           BH_V_IMMUTABLE);
    bh_v_immutable_str(e, BH_FP(NULL, "storageClassName"), c->storage_class_name,
                       old->storage_class_name);
}

static void capacity_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                          const void *prev, struct bh_str_vec *out)
{
    const struct bh_meta_v1_label_selector *s =
        ((const struct bh_storage_v1_csi_storage_capacity *)obj)->node_topology;
    const struct bh_fpath *at = BH_FP(NULL, "nodeTopology");

    (void)sub;
    (void)prev;
    for (size_t i = 0; s && i < s->match_expressions.n; i++) {
        struct bh_str key = s->match_expressions.p[i].key;
        const char *text = bh_v_deprecated_label(key);

        if (text)
            bh_v_warn_at(env, out, BH_FP(BH_FPI(BH_FP(at, "matchExpressions"), i), "key"),
                         "%.*s is %s", BH_SF(key), text);
    }
    for (size_t i = 0; s && i < s->match_labels.n; i++) {
        const char *text = bh_v_deprecated_label(s->match_labels.p[i].key);

        if (text)
            bh_v_warn_at(env, out, BH_FPS(BH_FP(at, "matchLabels"), s->match_labels.p[i].key), "%s",
                         text);
    }
}

/* ---- tables ---- */

const struct bh_default_rule bh_defaults_storage[] = {
    {"v1", "PersistentVolume", bh_v_pv_default},
    {"storage.k8s.io/v1", "CSIDriver", default_driver},
};
const size_t bh_defaults_storage_n = BH_COUNT(bh_defaults_storage);

const struct bh_rules bh_rules_storage[] = {
    {.group = "",
     .kind = "PersistentVolume",
     .prepare_create = bh_v_pv_prepare_create,
     .prepare_update = bh_v_pv_prepare_update,
     .validate_create = bh_v_pv_create,
     .validate_update = bh_v_pv_update,
     .warn = bh_v_pv_warn},
    {.group = "",
     .kind = "PersistentVolumeClaim",
     .prepare_create = bh_v_pvc_prepare_create,
     .prepare_update = bh_v_pvc_prepare_update,
     .validate_create = bh_v_pvc_create,
     .validate_update = bh_v_pvc_update,
     .warn = bh_v_pvc_warn},
    {.group = "storage.k8s.io",
     .kind = "StorageClass",
     .validate_create = class_create,
     .validate_update = class_update,
     .warn = class_warn},
    {.group = "storage.k8s.io",
     .kind = "VolumeAttributesClass",
     .validate_create = attributes_create,
     .validate_update = attributes_update},
    {.group = "storage.k8s.io",
     .kind = "VolumeAttachment",
     .prepare_create = attachment_prepare_create,
     .prepare_update = attachment_prepare_update,
     .validate_create = attachment_create,
     .validate_update = attachment_update,
     .no_unconditional_update = true},
    {.group = "storage.k8s.io",
     .kind = "CSIDriver",
     .prepare_update = driver_prepare_update,
     .validate_create = driver_create,
     .validate_update = driver_update,
     .warn = driver_warn,
     .no_unconditional_update = true},
    {.group = "storage.k8s.io",
     .kind = "CSINode",
     .prepare_create = csi_node_prepare_create,
     .prepare_update = csi_node_prepare_update,
     .validate_create = csi_node_create,
     .validate_update = csi_node_update,
     .no_unconditional_update = true},
    {.group = "storage.k8s.io",
     .kind = "CSIStorageCapacity",
     .validate_create = capacity_create,
     .validate_update = capacity_update,
     .warn = capacity_warn,
     .no_unconditional_update = true},
};
const size_t bh_rules_storage_n = BH_COUNT(bh_rules_storage);
