/* Persistent volumes. */
#include "apiserver/validate/validate_dra.h"
#include "apiserver/validate/validate_storage.h"

#include "base/buf.h"

#define MOUNT_ANNOTATION "volume.beta.kubernetes.io/mount-options"

static const struct bh_fpath *const meta_at =
    &(const struct bh_fpath){.name = BH_S_INIT("metadata"), .kind = BH_FP_NAME};
static const struct bh_fpath *const spec_at =
    &(const struct bh_fpath){.name = BH_S_INIT("spec"), .kind = BH_FP_NAME};

static void required(struct bh_field_errs *e, const struct bh_fpath *at, const char *name,
                     struct bh_str v)
{
    if (v.n == 0)
        bh_fe_required(e, BH_FPS(at, bh_s(name)), NULL);
}

/* ---- what a volume is made of ---- */

struct sources {
    struct bh_field_errs *e;
    const struct bh_fpath *at;
    struct bh_str name; /* of the volume */
    unsigned n;
};

/* True for the first source; every further one is refused by name and not looked at. */
static bool first(struct sources *s, const char *name)
{
    if (s->n++ == 0)
        return true;
    bh_fe_forbidden(s->e, BH_FPS(s->at, bh_s(name)), "may not specify more than 1 volume type");
    return false;
}

/* A source that pods know in the same form, or of which they know what is checked. */
#define AS_IN_POD(s, error_name, ...)                                                              \
    do {                                                                                           \
        const struct bh_core_v1_volume_source in_pod = {__VA_ARGS__};                              \
                                                                                                   \
        if (first((s), (error_name)))                                                              \
            bh_v_volume_source((s)->e, (s)->at, &in_pod);                                          \
    } while (0)

static void glusterfs(struct sources *s,
                      const struct bh_core_v1_glusterfs_persistent_volume_source *v)
{
    struct bh_core_v1_glusterfs_volume_source pod = {.endpoints = v->endpoints, .path = v->path};
    const struct bh_fpath *ns = BH_FP(BH_FP(s->at, "glusterfs"), "endpointsNamespace");
    const struct bh_core_v1_volume_source in_pod = {.glusterfs = &pod};

    if (!first(s, "glusterfs"))
        return;
    bh_v_volume_source(s->e, s->at, &in_pod);
    if (v->has_endpoints_namespace && v->endpoints_namespace.n == 0)
        bh_fe_invalid(s->e, ns, v->endpoints_namespace,
                      "if the endpointnamespace is set, it must be a valid namespace name");
    else if (v->has_endpoints_namespace)
        bh_v_check(s->e, ns, bh_check_dns1123_label, v->endpoints_namespace);
}

static void iscsi_name(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    if (!bh_v_iqn(s))
        bh_fe_invalid(e, at, s, "must be valid format");
}

static void iscsi(struct sources *s, const struct bh_core_v1_iscsi_persistent_volume_source *v)
{
    const struct bh_fpath *at = BH_FP(s->at, "iscsi");

    if (!first(s, "iscsi"))
        return;
    required(s->e, at, "targetPortal", v->target_portal);
    if (v->has_initiator_name && s->name.n + 1 + v->target_portal.n > 64)
        bh_fe_invalid(s->e, BH_FP(at, "targetportal"), v->target_portal,
                      "Total length of <volume name>:<iscsi.targetPortal> must be under 64 "
                      "characters if iscsi.initiatorName is specified.");
    if (v->iqn.n == 0)
        bh_fe_required(s->e, BH_FP(at, "iqn"), NULL);
    else
        iscsi_name(s->e, BH_FP(at, "iqn"), v->iqn);
    if (v->lun < 0 || v->lun > 255)
        bh_fe_invalid_i64(s->e, BH_FP(at, "lun"), v->lun, "must be between 0 and 255, inclusive");
    if ((v->chap_auth_discovery || v->chap_auth_session) && !v->secret_ref)
        bh_fe_required(s->e, BH_FP(at, "secretRef"), NULL);
    if (v->secret_ref)
        required(s->e, BH_FP(at, "secretRef"), "name", v->secret_ref->name);
    if (v->has_initiator_name)
        iscsi_name(s->e, BH_FP(at, "initiatorname"), v->initiator_name);
}

static void cinder(struct sources *s, const struct bh_core_v1_cinder_persistent_volume_source *v)
{
    const struct bh_fpath *at = BH_FP(s->at, "cinder");

    if (!first(s, "cinder"))
        return;
    required(s->e, at, "volumeID", v->volume_id);
    if (!v->secret_ref)
        return;
    required(s->e, BH_FP(at, "secretRef"), "name", v->secret_ref->name);
    required(s->e, BH_FP(at, "secretRef"), "namespace", v->secret_ref->namespace);
}

static void azure_file(struct sources *s,
                       const struct bh_core_v1_azure_file_persistent_volume_source *v)
{
    const struct bh_fpath *at = BH_FP(s->at, "azureFile");

    if (!first(s, "azureFile"))
        return;
    required(s->e, at, "secretName", v->secret_name);
    required(s->e, at, "shareName", v->share_name);
    if (v->has_secret_namespace)
        required(s->e, at, "secretNamespace", v->secret_namespace);
}

static void storage_os(struct sources *s,
                       const struct bh_core_v1_storage_os_persistent_volume_source *v)
{
    const struct bh_fpath *at = BH_FP(s->at, "storageos");

    if (!first(s, "storageos"))
        return;
    if (v->volume_name.n == 0)
        bh_fe_required(s->e, BH_FP(at, "volumeName"), NULL);
    else
        bh_v_check(s->e, BH_FP(at, "volumeName"), bh_check_dns1123_label, v->volume_name);
    if (v->volume_namespace.n)
        bh_v_check(s->e, BH_FP(at, "volumeNamespace"), bh_check_dns1123_label, v->volume_namespace);
    if (!v->secret_ref)
        return;
    required(s->e, BH_FP(at, "secretRef"), "name", v->secret_ref->name);
    required(s->e, BH_FP(at, "secretRef"), "namespace", v->secret_ref->namespace);
}

static void local(struct sources *s, const struct bh_core_v1_local_volume_source *v, bool affinity)
{
    const struct bh_fpath *path = BH_FP(BH_FP(s->at, "local"), "path");

    if (!first(s, "local"))
        return;
    if (v->path.n == 0)
        bh_fe_required(s->e, path, NULL);
    else
        bh_v_no_backsteps(s->e, path, v->path);
    if (!affinity)
        bh_fe_required(s->e, BH_FP(s->at, "nodeAffinity"), "Local volume requires node affinity");
}

static void secret(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_secret_reference *r)
{
    if (!r)
        return;
    if (r->name.n == 0)
        bh_fe_required(e, BH_FP(at, "name"), NULL);
    else
        bh_v_check(e, BH_FP(at, "name"), bh_check_dns1123_subdomain, r->name);
    if (r->namespace.n == 0)
        bh_fe_required(e, BH_FP(at, "namespace"), NULL);
    else
        bh_v_check(e, BH_FP(at, "namespace"), bh_check_dns1123_label, r->namespace);
}

static void csi(struct sources *s, const struct bh_core_v1_csi_persistent_volume_source *v)
{
    const struct bh_fpath *at = BH_FP(s->at, "csi");

    if (!first(s, "csi"))
        return;
    bh_v_driver_name(s->e, BH_FP(at, "driver"), v->driver);
    required(s->e, at, "volumeHandle", v->volume_handle);
    secret(s->e, BH_FP(at, "controllerPublishSecretRef"), v->controller_publish_secret_ref);
    secret(s->e, BH_FP(at, "controllerExpandSecretRef"), v->controller_expand_secret_ref);
    secret(s->e, BH_FP(at, "nodePublishSecretRef"), v->node_publish_secret_ref);
    secret(s->e, BH_FP(at, "nodeExpandSecretRef"), v->node_expand_secret_ref);
}

static void network_sources(struct sources *s, const struct bh_core_v1_persistent_volume_source *v)
{
    if (v->glusterfs)
        glusterfs(s, v->glusterfs);
    if (v->flocker)
        AS_IN_POD(s, "flocker", .flocker = v->flocker);
    if (v->nfs)
        AS_IN_POD(s, "nfs", .nfs = v->nfs);
    if (v->rbd) {
        struct bh_core_v1_rbd_volume_source pod = {.monitors = v->rbd->monitors,
                                                   .image = v->rbd->image};

        AS_IN_POD(s, "rbd", .rbd = &pod);
    }
    if (v->quobyte)
        AS_IN_POD(s, "quobyte", .quobyte = v->quobyte);
    if (v->cephfs) {
        struct bh_core_v1_ceph_fs_volume_source pod = {.monitors = v->cephfs->monitors};

        AS_IN_POD(s, "cephFS", .cephfs = &pod);
    }
    if (v->iscsi)
        iscsi(s, v->iscsi);
    if (v->cinder)
        cinder(s, v->cinder);
    if (v->fc)
        AS_IN_POD(s, "fc", .fc = v->fc);
}

static void flex(struct sources *s, const struct bh_core_v1_flex_persistent_volume_source *v)
{
    struct bh_core_v1_flex_volume_source pod = {.driver = v->driver, .options = v->options};
    const struct bh_core_v1_volume_source in_pod = {.flex_volume = &pod};

    s->n++; /* upstream lets it stand beside another one */
    bh_v_volume_source(s->e, s->at, &in_pod);
}

static void scale_io(struct sources *s,
                     const struct bh_core_v1_scale_io_persistent_volume_source *v)
{
    struct bh_core_v1_scale_io_volume_source pod = {
        .gateway = v->gateway, .system = v->system, .volume_name = v->volume_name};

    AS_IN_POD(s, "scaleIO", .scale_io = &pod);
}

/* The order of the sources, and the names they go by in errors, are upstream's. */
static void source(struct sources *s, const struct bh_core_v1_persistent_volume_source *v,
                   bool affinity)
{
    if (v->host_path)
        AS_IN_POD(s, "hostPath", .host_path = v->host_path);
    if (v->gce_persistent_disk)
        AS_IN_POD(s, "gcePersistentDisk", .gce_persistent_disk = v->gce_persistent_disk);
    if (v->aws_elastic_block_store)
        AS_IN_POD(s, "awsElasticBlockStore", .aws_elastic_block_store = v->aws_elastic_block_store);
    network_sources(s, v);
    if (v->flex_volume)
        flex(s, v->flex_volume);
    if (v->azure_file)
        azure_file(s, v->azure_file);
    if (v->vsphere_volume)
        AS_IN_POD(s, "vsphereVolume", .vsphere_volume = v->vsphere_volume);
    if (v->photon_persistent_disk)
        AS_IN_POD(s, "photonPersistentDisk", .photon_persistent_disk = v->photon_persistent_disk);
    if (v->portworx_volume)
        AS_IN_POD(s, "portworxVolume", .portworx_volume = v->portworx_volume);
    if (v->azure_disk)
        AS_IN_POD(s, "azureDisk", .azure_disk = v->azure_disk);
    if (v->scale_io)
        scale_io(s, v->scale_io);
    if (v->local)
        local(s, v->local, affinity);
    if (v->storageos)
        storage_os(s, v->storageos);
    if (v->csi)
        csi(s, v->csi);
    if (s->n == 0)
        bh_fe_required(s->e, s->at, "must specify a volume type");
}

/* ---- the spec of a volume ---- */

static void capacity(struct bh_field_errs *e, const struct bh_fpath *at, const struct bh_str_map *m)
{
    if (m->n == 0)
        bh_fe_required(e, at, NULL);
    if (!m->p) {
        bh_fe_add(e, BH_FE_NOT_SUPPORTED, at,
                  BH_S("Unsupported value: null: supported values: \"storage\""));
    } else if (!bh_str_map_get(m, BH_S("storage")) || m->n > 1) {
        struct bh_buf b = {.max = 64u << 10};

        for (size_t i = 0; i < m->n; i++)
            bh_buf_addf(&b, "%s\"%.*s\":\"%.*s\"", i ? "," : "", BH_SF(m->p[i].key),
                        BH_SF(m->p[i].value));
        bh_fe_add(e, BH_FE_NOT_SUPPORTED, at,
                  bh_str_fmt(e->a, "Unsupported value: {%.*s}: supported values: \"storage\"",
                             BH_SF(bh_buf_str(&b))));
        bh_buf_done(&b);
    }
    for (size_t i = 0; i < m->n; i++) {
        struct bh_quantity q = bh_v_qty(m->p[i].value);

        if (bh_quantity_value(q) < 0)
            bh_fe_invalid_i64(e, BH_FPK(at, m->p[i].key), bh_quantity_value(q),
                              "must be a valid resource quantity");
        if (bh_quantity_sign(q) <= 0)
            bh_fe_invalid(e, BH_FPK(at, m->p[i].key), m->p[i].value, "must be greater than zero");
    }
}

#define INLINE_DETAIL "may not be specified in the context of inline volumes"

static void inline_spec(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_core_v1_persistent_volume_spec *s)
{
    if (s->claim_ref)
        bh_fe_forbidden(e, BH_FP(at, "claimRef"), INLINE_DETAIL);
    if (s->capacity.n)
        bh_fe_forbidden(e, BH_FP(at, "capacity"), INLINE_DETAIL);
    if (!s->persistent_volume_source.csi)
        bh_fe_required(e, BH_FP(at, "csi"), "has to be specified in the context of inline volumes");
}

static void reclaim(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str policy,
                    bool in_line)
{
    if (policy.n == 0)
        return;
    if (in_line && !bh_str_eqc(policy, "Retain"))
        bh_fe_forbidden(e, at, "may only be Retain in the context of inline volumes");
    else if (!in_line && !BH_V_ONE_OF(policy, "Delete", "Recycle", "Retain"))
        BH_V_NOT_SUPPORTED(e, at, policy, "Delete", "Recycle", "Retain");
}

static void node_affinity(struct bh_field_errs *e, const struct bh_fpath *at,
                          const struct bh_core_v1_volume_node_affinity *a,
                          const struct bh_v_pv_opts *o)
{
    if (!a)
        return;
    if (o->in_line)
        bh_fe_forbidden(e, at, INLINE_DETAIL);
    else if (a->required)
        bh_v_node_selector(e, BH_FP(at, "required"), a->required, o->old_selector);
    else
        bh_fe_required(e, BH_FP(at, "required"), "must specify required node constraints");
}

/* path.Clean(p) == "/" */
static bool is_root(struct bh_str p)
{
    struct bh_str rest = p, part;
    int depth = 0;

    if (p.n == 0 || p.p[0] != '/')
        return false;
    while (rest.p && rest.n) {
        part = bh_str_cut(&rest, '/');
        if (bh_str_eqc(part, ".."))
            depth -= depth > 0;
        else if (part.n && !bh_str_eqc(part, "."))
            depth++;
    }
    return depth == 0;
}

static void class_and_mode(struct bh_field_errs *e, const struct bh_fpath *at,
                           const struct bh_core_v1_persistent_volume_spec *s, bool in_line)
{
    const struct bh_fpath *mode = BH_FP(at, "volumeMode");

    if (s->storage_class_name.n && in_line)
        bh_fe_forbidden(e, BH_FP(at, "storageClassName"), INLINE_DETAIL);
    else if (s->storage_class_name.n)
        bh_v_check(e, BH_FP(at, "storageClassName"), bh_check_dns1123_subdomain,
                   s->storage_class_name);
    if (!s->has_volume_mode)
        return;
    if (in_line && !bh_str_eqc(s->volume_mode, "Filesystem"))
        bh_fe_forbidden(e, mode,
                        "may not specify volumeMode other than Filesystem in the context of "
                        "inline volumes");
    else if (!in_line && !BH_V_ONE_OF(s->volume_mode, "Block", "Filesystem"))
        BH_V_NOT_SUPPORTED(e, mode, s->volume_mode, "Block", "Filesystem");
}

static void attributes_class(struct bh_field_errs *e, const struct bh_fpath *at,
                             const struct bh_core_v1_persistent_volume_spec *s)
{
    const struct bh_fpath *name = BH_FP(at, "volumeAttributesClassName");

    if (!s->has_volume_attributes_class_name)
        return;
    if (s->volume_attributes_class_name.n == 0)
        bh_fe_required(e, name, "an empty string is disallowed");
    else
        bh_v_check(e, name, bh_check_dns1123_subdomain, s->volume_attributes_class_name);
    if (!s->persistent_volume_source.csi)
        bh_fe_required(e, BH_FP(at, "csi"),
                       "has to be specified when using volumeAttributesClassName");
}

void bh_v_pv_spec(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_persistent_volume_spec *s, struct bh_str name,
                  const struct bh_v_pv_opts *o)
{
    struct sources src = {.e = e, .at = at, .name = name};

    if (o->in_line)
        inline_spec(e, at, s);
    if (s->access_modes.n == 0)
        bh_fe_required(e, BH_FP(at, "accessModes"), NULL);
    bh_v_access_modes(e, BH_FP(at, "accessModes"), &s->access_modes);
    if (!o->in_line)
        capacity(e, BH_FP(at, "capacity"), &s->capacity);
    reclaim(e, BH_FP(at, "persistentVolumeReclaimPolicy"), s->persistent_volume_reclaim_policy,
            o->in_line);
    node_affinity(e, BH_FP(at, "nodeAffinity"), s->node_affinity, o);
    source(&src, &s->persistent_volume_source, s->node_affinity && !o->in_line);
    if (s->persistent_volume_source.host_path &&
        is_root(s->persistent_volume_source.host_path->path) &&
        bh_str_eqc(s->persistent_volume_reclaim_policy, "Recycle"))
        bh_fe_forbidden(e, BH_FP(at, "persistentVolumeReclaimPolicy"),
                        "may not be 'recycle' for a hostPath mount of '/'");
    class_and_mode(e, at, s, o->in_line);
    if (o->attributes_class)
        attributes_class(e, at, s);
}

/* ---- PersistentVolume ---- */

/* Not defaults of the spec: one that stands in a VolumeAttachment has none. */
void bh_v_pv_default(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_persistent_volume_spec *s =
        &((struct bh_core_v1_persistent_volume *)obj)->spec;

    (void)env;
    if (s->persistent_volume_reclaim_policy.n == 0)
        s->persistent_volume_reclaim_policy = BH_S("Retain");
    if (!s->has_volume_mode) {
        s->has_volume_mode = true;
        s->volume_mode = BH_S("Filesystem");
    }
}

void bh_v_pv_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_persistent_volume *v = obj;

    v->status = (struct bh_core_v1_persistent_volume_status){
        .phase = BH_S("Pending"), .last_phase_transition_time = {env->now.sec, 0}};
}

static bool same_time(struct bh_time a, struct bh_time b)
{
    return a.sec == b.sec && a.nsec == b.nsec;
}

void bh_v_pv_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                            const void *prev)
{
    struct bh_core_v1_persistent_volume *v = obj;
    const struct bh_core_v1_persistent_volume *old = prev;
    struct bh_time *t = &v->status.last_phase_transition_time,
                   was = old->status.last_phase_transition_time;

    if (!bh_str_eqc(sub, "status")) {
        v->status = old->status;
        return;
    }
    v->spec = old->spec;
    if (bh_str_eq(v->status.phase, old->status.phase)) {
        if (bh_time_is_zero(*t))
            *t = was;
    } else if (bh_time_is_zero(*t) || same_time(*t, was)) {
        *t = (struct bh_time){env->now.sec, 0};
    }
}

/* Kinds of volumes that can be mounted with options of one's own. */
static bool takes_mount_options(const struct bh_core_v1_persistent_volume_source *s)
{
    return s->gce_persistent_disk || s->aws_elastic_block_store || s->glusterfs || s->nfs ||
           s->rbd || s->quobyte || s->iscsi || s->cinder || s->cephfs || s->azure_file ||
           s->vsphere_volume || s->azure_disk || s->photon_persistent_disk;
}

static void mount_options(struct bh_field_errs *e, const struct bh_core_v1_persistent_volume *v)
{
    if (!takes_mount_options(&v->spec.persistent_volume_source) &&
        bh_str_map_get(&v->metadata.annotations, BH_S(MOUNT_ANNOTATION)))
        bh_fe_forbidden(e, BH_FPS(BH_FP(meta_at, "annotations"), BH_S(MOUNT_ANNOTATION)),
                        "may not specify mount options for this volume type");
}

static void pv(struct bh_field_errs *e, const struct bh_core_v1_persistent_volume *v,
               const struct bh_v_pv_opts *o)
{
    bh_v_meta(e, meta_at, &v->metadata, false, bh_check_dns1123_subdomain, BH_VM_KUBE);
    bh_v_pv_spec(e, spec_at, &v->spec, v->metadata.name, o);
}

void bh_v_pv_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_v_pv_opts o = {.attributes_class = bh_rules_gate(env, "VolumeAttributesClass")};

    pv(e, obj, &o);
    mount_options(e, obj);
}

static bool bad_values(struct bh_arena *a, const struct bh_core_v1_volume_node_affinity *n)
{
    struct bh_field_errs e = {.a = a};
    struct bh_field_errs lax = {.a = a};

    if (!n || !n->required)
        return false;
    bh_v_node_selector(&e, NULL, n->required, false);
    bh_v_node_selector(&lax, NULL, n->required, true);
    return e.n != lax.n;
}

/* The same source; a secret for expansion may be given later. */
static void source_kept(struct bh_field_errs *e,
                        const struct bh_core_v1_persistent_volume_source *now,
                        const struct bh_core_v1_persistent_volume_source *old)
{
    const struct bh_type *t = &bh_core_v1_persistent_volume_source_type;
    struct bh_core_v1_persistent_volume_source m = *now;
    struct bh_buf b = {.max = 4096};

    if (old->csi && !old->csi->controller_expand_secret_ref && now->csi) {
        m.csi = bh_arena_memdup(e->a, now->csi, sizeof(*now->csi));
        m.csi->controller_expand_secret_ref = NULL;
    }
    if (bh_msg_equal(t, &m, old))
        return;
    for (uint32_t i = 0; i < t->n_fields; i++)
        if (!bh_field_equal(&t->fields[i], &m, old))
            bh_buf_addf(&b, "%sspec.%.*s", b.n ? ", " : "", BH_SF(t->fields[i].json));
    bh_fe_forbidden(e, BH_FP(spec_at, "persistentvolumesource"),
                    "spec.persistentvolumesource is immutable after creation\nchanged: %.*s",
                    BH_SF(bh_buf_str(&b)));
    bh_buf_done(&b);
}

/* Old names of node labels may be replaced by their successors. */
static struct bh_str successor(struct bh_str key)
{
    static const char *const names[][2] = {
        {"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"},
        {"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"},
        {"beta.kubernetes.io/os", "kubernetes.io/os"},
        {"beta.kubernetes.io/arch", "kubernetes.io/arch"},
        {"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"},
    };

    for (size_t i = 0; i < BH_COUNT(names); i++)
        if (bh_str_eqc(key, names[i][0]))
            return bh_s(names[i][1]);
    return key;
}

static bool same_term(const struct bh_core_v1_node_selector_term *now,
                      const struct bh_core_v1_node_selector_term *old)
{
    if (now->match_expressions.n != old->match_expressions.n ||
        now->match_fields.n != old->match_fields.n)
        return false;
    for (size_t i = 0; i < now->match_expressions.n; i++) {
        struct bh_core_v1_node_selector_requirement was = old->match_expressions.p[i];

        if (!bh_str_eq(was.key, now->match_expressions.p[i].key))
            was.key = successor(was.key);
        if (!bh_msg_equal(&bh_core_v1_node_selector_requirement_type, &now->match_expressions.p[i],
                          &was))
            return false;
    }
    for (size_t i = 0; i < now->match_fields.n; i++)
        if (!bh_msg_equal(&bh_core_v1_node_selector_requirement_type, &now->match_fields.p[i],
                          &old->match_fields.p[i]))
            return false;
    return true;
}

static bool same_affinity(const struct bh_core_v1_volume_node_affinity *now,
                          const struct bh_core_v1_volume_node_affinity *old)
{
    const struct bh_core_v1_node_selector_term_vec *a, *b;

    if (!now || !now->required || !old->required)
        return now && !now->required && !old->required;
    a = &now->required->node_selector_terms;
    b = &old->required->node_selector_terms;
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!same_term(&a->p[i], &b->p[i]))
            return false;
    return true;
}

static void affinity_kept(struct bh_field_errs *e,
                          const struct bh_core_v1_volume_node_affinity *now,
                          const struct bh_core_v1_volume_node_affinity *old)
{
    if (old && !same_affinity(now, old))
        bh_fe_invalid_text(e, BH_FP(NULL, "nodeAffinity"),
                           now ? bh_v_go_json(e->a, &bh_core_v1_volume_node_affinity_type, now)
                               : BH_S("null"),
                           BH_V_IMMUTABLE ", except for updating from beta label to GA");
}

void bh_v_volume_mode_kept(struct bh_field_errs *e, bool has, struct bh_str now, bool had,
                           struct bh_str old)
{
    if (has && (!had || !bh_str_eq(now, old)))
        bh_fe_invalid(e, BH_FP(NULL, "volumeMode"), now, BH_V_IMMUTABLE);
    else if (!has && had)
        bh_fe_invalid_text(e, BH_FP(NULL, "volumeMode"), BH_S("null"), BH_V_IMMUTABLE);
}

void bh_v_version_given(struct bh_field_errs *e, const struct bh_meta_v1_object_meta *m)
{
    if (m->resource_version.n == 0)
        bh_fe_required(e, BH_FP(NULL, "resourceVersion"), NULL);
}

void bh_v_pv_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                    const void *prev, struct bh_field_errs *e)
{
    const struct bh_core_v1_persistent_volume *v = obj, *old = prev;
    const struct bh_v_pv_opts o = {.attributes_class =
                                       bh_rules_gate(env, "VolumeAttributesClass") ||
                                       old->spec.has_volume_attributes_class_name,
                                   .old_selector = bad_values(e->a, old->spec.node_affinity)};

    if (bh_str_eqc(sub, "status")) {
        bh_v_meta_update(e, meta_at, &v->metadata, &old->metadata, BH_VM_KUBE);
        bh_v_version_given(e, &v->metadata);
        return;
    }
    pv(e, v, &o);
    mount_options(e, v);
    pv(e, v, &o); /* upstream tells all of it twice */
    source_kept(e, &v->spec.persistent_volume_source, &old->spec.persistent_volume_source);
    bh_v_volume_mode_kept(e, v->spec.has_volume_mode, v->spec.volume_mode,
                          old->spec.has_volume_mode, old->spec.volume_mode);
    affinity_kept(e, v->spec.node_affinity, old->spec.node_affinity);
    if (o.attributes_class && old->spec.has_volume_attributes_class_name &&
        !v->spec.has_volume_attributes_class_name)
        bh_fe_forbidden(e, BH_FP(spec_at, "volumeAttributesClassName"),
                        "update from non-nil value to nil is forbidden");
}

void bh_v_pv_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                  const void *prev, struct bh_str_vec *out)
{
    static const char *const annotations[][2] = {
        {BH_V_CLASS_ANNOTATION,
         "deprecated since v1.8; use \"storageClassName\" attribute instead"},
        {MOUNT_ANNOTATION, "deprecated since v1.31; use \"mountOptions\" attribute instead"},
    };
    const struct bh_core_v1_persistent_volume *v = obj;
    const struct bh_core_v1_persistent_volume_source *s = &v->spec.persistent_volume_source;
    const struct bh_fpath *terms =
        BH_FP(BH_FP(BH_FP(spec_at, "nodeAffinity"), "required"), "nodeSelectorTerms");
    const struct {
        const void *used;
        const char *name, *text;
    } gone[] = {
        {s->cephfs, "cephfs", "deprecated in v1.28, non-functional in v1.31+"},
        {s->photon_persistent_disk, "photonPersistentDisk",
         "deprecated in v1.11, non-functional in v1.16+"},
        {s->scale_io, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
        {s->storageos, "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
        {s->glusterfs, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
        {s->rbd, "rbd", "deprecated in v1.28, non-functional in v1.31+"},
    };

    (void)prev;
    if (sub.n)
        return;
    for (size_t i = 0; i < BH_COUNT(annotations); i++)
        if (bh_str_map_get(&v->metadata.annotations, bh_s(annotations[i][0])))
            bh_v_warn_at(env, out, BH_FPK(BH_FP(meta_at, "annotations"), bh_s(annotations[i][0])),
                         "%s", annotations[i][1]);
    if (bh_str_eqc(v->spec.persistent_volume_reclaim_policy, "Recycle"))
        bh_v_warn_at(env, out, BH_FP(spec_at, "persistentVolumeReclaimPolicy"),
                     "The Recycle reclaim policy is deprecated. Instead, the recommended approach "
                     "is to use dynamic provisioning.");
    if (v->spec.node_affinity && v->spec.node_affinity->required)
        for (size_t i = 0; i < v->spec.node_affinity->required->node_selector_terms.n; i++)
            bh_v_warn_node_term(env, out, BH_FPI(terms, i),
                                &v->spec.node_affinity->required->node_selector_terms.p[i]);
    for (size_t i = 0; i < BH_COUNT(gone); i++)
        if (gone[i].used)
            bh_v_warn_at(env, out, BH_FPS(spec_at, bh_s(gone[i].name)), "%s", gone[i].text);
}
