/* Cells of persistent volumes, claims for them, and the kinds of storage.k8s.io. */
#include "apiserver/table_columns.h"

#include "api/gen/core_v1.h"
#include "api/gen/storage_v1.h"
#include "base/buf.h"
#include "data/time_fmt.h"

#define CLASS_ANNOTATION "volume.beta.kubernetes.io/storage-class"

static void cell_bool(struct bh_buf *out, bool v)
{
    bh_buf_addz(out, v ? "true" : "false");
}

/* Whether some mode of the list is the one of that name. */
static bool has_mode(const struct bh_str_vec *modes, const char *name)
{
    for (size_t i = 0; i < modes->n; i++)
        if (bh_str_eqc(modes->p[i], name))
            return true;
    return false;
}

static void cell_modes(struct bh_buf *out, const struct bh_str_vec *modes)
{
    static const char *const all[][2] = {{"ReadWriteOnce", "RWO"},
                                         {"ReadOnlyMany", "ROX"},
                                         {"ReadWriteMany", "RWX"},
                                         {"ReadWriteOncePod", "RWOP"}};
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < BH_COUNT(all); i++)
        if (has_mode(modes, all[i][0]))
            bh_buf_addf(&b, "%s%s", b.n ? "," : "", all[i][1]);
    bh_cell_str(out, bh_buf_str(&b));
}

static void cell_storage(struct bh_buf *out, const struct bh_str_map *m)
{
    const struct bh_str *v = bh_str_map_get(m, BH_S("storage"));

    bh_cell_str(out, v ? *v : BH_S("0"));
}

static void cell_phase(struct bh_buf *out, const struct bh_meta_v1_object_meta *m,
                       struct bh_str phase)
{
    bh_cell_str(out, bh_time_is_zero(m->deletion_timestamp) ? phase : BH_S("Terminating"));
}

static void cell_class(struct bh_buf *out, const struct bh_meta_v1_object_meta *m,
                       struct bh_str name)
{
    const struct bh_str *old = bh_str_map_get(&m->annotations, BH_S(CLASS_ANNOTATION));

    bh_cell_str(out, old ? *old : name);
}

static void cell_or_unset(struct bh_buf *out, bool has, struct bh_str s)
{
    bh_cell_str(out, has ? s : BH_S("<unset>"));
}

/* One line per cell: what it is called, of which struct, and what it writes. */
#define CELL(name, type, ...)                                                                      \
    static void name(const void *obj, struct bh_time now, struct bh_buf *out)                      \
    {                                                                                              \
        const struct type *o = obj;                                                                \
                                                                                                   \
        (void)now;                                                                                 \
        __VA_ARGS__;                                                                               \
    }

/* ---- PersistentVolume ---- */

#define PV bh_core_v1_persistent_volume
CELL(pv_capacity, PV, cell_storage(out, &o->spec.capacity))
CELL(pv_access_modes, PV, cell_modes(out, &o->spec.access_modes))
CELL(pv_reclaim_policy, PV, bh_cell_str(out, o->spec.persistent_volume_reclaim_policy))
CELL(pv_status, PV, cell_phase(out, &o->metadata, o->status.phase))
CELL(pv_class, PV, cell_class(out, &o->metadata, o->spec.storage_class_name))
CELL(pv_attributes, PV,
     cell_or_unset(out, o->spec.has_volume_attributes_class_name,
                   o->spec.volume_attributes_class_name))
CELL(pv_reason, PV, bh_cell_str(out, o->status.reason))
CELL(pv_mode, PV, cell_or_unset(out, o->spec.has_volume_mode, o->spec.volume_mode))

static void pv_claim(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_core_v1_object_reference *r = ((const struct PV *)obj)->spec.claim_ref;

    (void)now;
    if (r)
        bh_cell_fmt(out, "%.*s/%.*s", BH_SF(r->namespace), BH_SF(r->name));
    else
        bh_cell_str(out, BH_S(""));
}

/* ---- PersistentVolumeClaim ---- */

#define PVC bh_core_v1_persistent_volume_claim
CELL(pvc_status, PVC, cell_phase(out, &o->metadata, o->status.phase))
CELL(pvc_volume, PVC, bh_cell_str(out, o->spec.volume_name))
CELL(pvc_class, PVC, cell_class(out, &o->metadata, o->spec.storage_class_name))
CELL(pvc_attributes, PVC,
     cell_or_unset(out, o->spec.has_volume_attributes_class_name,
                   o->spec.volume_attributes_class_name))
CELL(pvc_mode, PVC, cell_or_unset(out, o->spec.has_volume_mode, o->spec.volume_mode))

static void pvc_capacity(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct PVC *c = obj;

    (void)now;
    if (c->spec.volume_name.n)
        cell_storage(out, &c->status.capacity);
    else
        bh_cell_str(out, BH_S(""));
}

static void pvc_access_modes(const void *obj, struct bh_time now, struct bh_buf *out)
{
    static const struct bh_str_vec none = {0};
    const struct PVC *c = obj;

    (void)now;
    cell_modes(out, c->spec.volume_name.n ? &c->status.access_modes : &none);
}

/* ---- StorageClass, VolumeAttributesClass ---- */

#define SC bh_storage_v1_storage_class
CELL(class_provisioner, SC, bh_cell_str(out, o->provisioner))
CELL(class_reclaim, SC,
     bh_cell_str(out, o->has_reclaim_policy ? o->reclaim_policy : BH_S("Delete")))
CELL(class_binding, SC,
     bh_cell_str(out, o->has_volume_binding_mode ? o->volume_binding_mode : BH_S("Immediate")))
CELL(class_expansion, SC, cell_bool(out, o->allow_volume_expansion))
CELL(attributes_driver, bh_storage_v1_volume_attributes_class, bh_cell_str(out, o->driver_name))

static void class_name(const void *obj, struct bh_time now, struct bh_buf *out)
{
    static const char *const marks[] = {"storageclass.kubernetes.io/is-default-class",
                                        "storageclass.beta.kubernetes.io/is-default-class"};
    const struct bh_meta_v1_object_meta *m = &((const struct SC *)obj)->metadata;
    bool marked = false;

    (void)now;
    for (size_t i = 0; i < BH_COUNT(marks); i++) {
        const struct bh_str *v = bh_str_map_get(&m->annotations, bh_s(marks[i]));

        marked = marked || (v && bh_str_eqc(*v, "true"));
    }
    bh_cell_fmt(out, "%.*s%s", BH_SF(m->name), marked ? " (default)" : "");
}

/* ---- VolumeAttachment ---- */

#define VA bh_storage_v1_volume_attachment
CELL(attachment_attacher, VA, bh_cell_str(out, o->spec.attacher))
CELL(attachment_pv, VA, bh_cell_str(out, o->spec.source.persistent_volume_name))
CELL(attachment_node, VA, bh_cell_str(out, o->spec.node_name))
CELL(attachment_attached, VA, cell_bool(out, o->status.attached))

/* ---- CSIDriver, CSINode, CSIStorageCapacity ---- */

#define CD bh_storage_v1_csi_driver
CELL(driver_attach, CD, cell_bool(out, !o->spec.has_attach_required || o->spec.attach_required))
CELL(driver_pod_info, CD, cell_bool(out, o->spec.pod_info_on_mount))
CELL(driver_capacity, CD, cell_bool(out, o->spec.storage_capacity))
CELL(driver_republish, CD, cell_bool(out, o->spec.requires_republish))
CELL(node_drivers, bh_storage_v1_csi_node, bh_buf_add_u64(out, o->spec.drivers.n))

static void driver_tokens(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_storage_v1_token_request_vec *v =
        &((const struct CD *)obj)->spec.token_requests;
    BH_AUTO_BUF b = {0};

    (void)now;
    for (size_t i = 0; i < v->n; i++)
        bh_buf_addf(&b, "%s%.*s", i ? "," : "", BH_SF(v->p[i].audience));
    bh_cell_str(out, v->p ? bh_buf_str(&b) : BH_S("<unset>"));
}

static void driver_modes(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_str_vec *v = &((const struct CD *)obj)->spec.volume_lifecycle_modes;
    BH_AUTO_BUF b = {0};

    (void)now;
    for (size_t i = 0; i < v->n; i++)
        bh_buf_addf(&b, "%s%.*s", i ? "," : "", BH_SF(v->p[i]));
    bh_cell_str(out, v->n ? bh_buf_str(&b) : BH_S("<none>"));
}

static void capacity_created(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_meta_v1_object_meta *m = obj;
    char buf[BH_TIME_BUF];

    (void)now;
    bh_cell_str(out, bh_time_fmt(m->creation_timestamp, buf));
}

const struct bh_column_entry bh_columns_storage[] = {
    {"persistentvolume_capacity", pv_capacity},
    {"persistentvolume_access_modes", pv_access_modes},
    {"persistentvolume_reclaim_policy", pv_reclaim_policy},
    {"persistentvolume_status", pv_status},
    {"persistentvolume_claim", pv_claim},
    {"persistentvolume_storageclass", pv_class},
    {"persistentvolume_volumeattributesclass", pv_attributes},
    {"persistentvolume_reason", pv_reason},
    {"persistentvolume_volumemode", pv_mode},
    {"persistentvolumeclaim_status", pvc_status},
    {"persistentvolumeclaim_volume", pvc_volume},
    {"persistentvolumeclaim_capacity", pvc_capacity},
    {"persistentvolumeclaim_access_modes", pvc_access_modes},
    {"persistentvolumeclaim_storageclass", pvc_class},
    {"persistentvolumeclaim_volumeattributesclass", pvc_attributes},
    {"persistentvolumeclaim_volumemode", pvc_mode},
    {"storageclass_name", class_name},
    {"storageclass_provisioner", class_provisioner},
    {"storageclass_reclaimpolicy", class_reclaim},
    {"storageclass_volumebindingmode", class_binding},
    {"storageclass_allowvolumeexpansion", class_expansion},
    {"volumeattributesclass_drivername", attributes_driver},
    {"volumeattachment_attacher", attachment_attacher},
    {"volumeattachment_pv", attachment_pv},
    {"volumeattachment_node", attachment_node},
    {"volumeattachment_attached", attachment_attached},
    {"csidriver_attachrequired", driver_attach},
    {"csidriver_podinfoonmount", driver_pod_info},
    {"csidriver_storagecapacity", driver_capacity},
    {"csidriver_tokenrequests", driver_tokens},
    {"csidriver_requiresrepublish", driver_republish},
    {"csidriver_modes", driver_modes},
    {"csinode_drivers", node_drivers},
    {"csistoragecapacity_created_at", capacity_created},
    {NULL, NULL},
};
