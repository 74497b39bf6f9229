/* The plugins about storage: DefaultStorageClass, StorageObjectInUseProtection,
 * PersistentVolumeClaimResize. */
#include "api/gen/core_v1.h"
#include "api/gen/storage_v1.h"
#include "apiserver/server_int.h"
#include "data/quantity.h"

#include <string.h>

#define CLASS_ANNOTATION "volume.beta.kubernetes.io/storage-class"

static struct bh_resource *classes(struct bh_rq *rq)
{
    return bh_resource_find(rq->srv, BH_S("storage.k8s.io"), BH_S("storageclasses"));
}

/* ---- DefaultStorageClass ---- */

static bool marked(const struct bh_meta_v1_object_meta *m)
{
    static const char *const marks[] = {"storageclass.kubernetes.io/is-default-class",
                                        "storageclass.beta.kubernetes.io/is-default-class"};

    for (size_t i = 0; i < BH_COUNT(marks); i++) {
        const struct bh_str *v = bh_str_map_get(&m->annotations, bh_s(marks[i]));

        if (v && bh_str_eqc(*v, "true"))
            return true;
    }
    return false;
}

/* The newest of those that are marked; of several of one second, the first by name. */
static const struct bh_storage_v1_storage_class *default_class(struct bh_rq *rq)
{
    struct bh_resource *res = classes(rq);
    const struct bh_storage_v1_storage_class *best = NULL;
    struct bh_keyset_pos pos = {0, 0};
    struct bh_keyset_entry *e;

    while (res && (e = bh_keyset_next(&res->wc->set, &pos))) {
        const struct bh_storage_v1_storage_class *c = bh_obj_struct(((struct bh_wc_entry *)e)->obj);
        int64_t newer =
            best ? c->metadata.creation_timestamp.sec - best->metadata.creation_timestamp.sec : 1;

        if (marked(&c->metadata) &&
            (newer > 0 || (newer == 0 && bh_str_cmp(c->metadata.name, best->metadata.name) < 0)))
            best = c;
    }
    return best;
}

static void give_class(struct bh_rq *rq, struct bh_core_v1_persistent_volume_claim *c)
{
    const struct bh_storage_v1_storage_class *def;

    if (c->spec.has_storage_class_name ||
        bh_str_map_get(&c->metadata.annotations, BH_S(CLASS_ANNOTATION)))
        return;
    def = default_class(rq);
    if (!def)
        return;
    c->spec.has_storage_class_name = true;
    c->spec.storage_class_name = bh_str_dup(rq->a, def->metadata.name);
}

/* ---- StorageObjectInUseProtection ---- */

static void protect(struct bh_rq *rq, struct bh_meta_v1_object_meta *m, struct bh_str finalizer)
{
    size_t n = m->finalizers.n;
    struct bh_str *p;

    for (size_t i = 0; i < n; i++)
        if (bh_str_eq(m->finalizers.p[i], finalizer))
            return;
    p = bh_new_n(rq->a, struct bh_str, n + 1);
    if (n > 0)
        memcpy(p, m->finalizers.p, n * sizeof(*p));
    p[n] = finalizer;
    m->finalizers.p = p;
    m->finalizers.n = n + 1;
}

void bh_admit_storage_create(struct bh_rq *rq, const struct bh_kind *hub, void *obj)
{
    bool protects = bh_admission_on(rq->srv, BH_PLUGIN_STORAGE_IN_USE);

    if (hub == &bh_core_v1_persistent_volume_claim_kind) {
        struct bh_core_v1_persistent_volume_claim *c = obj;

        if (bh_admission_on(rq->srv, BH_PLUGIN_STORAGE_CLASS))
            give_class(rq, c);
        if (protects)
            protect(rq, &c->metadata, BH_S("kubernetes.io/pvc-protection"));
    } else if (hub == &bh_core_v1_persistent_volume_kind && protects) {
        protect(rq, &((struct bh_core_v1_persistent_volume *)obj)->metadata,
                BH_S("kubernetes.io/pv-protection"));
    } else if (hub == &bh_storage_v1_volume_attributes_class_kind && protects) {
        protect(rq, &((struct bh_storage_v1_volume_attributes_class *)obj)->metadata,
                BH_S("kubernetes.io/vac-protection"));
    }
}

/* ---- PersistentVolumeClaimResize ---- */

static struct bh_quantity storage_of(const struct bh_core_v1_persistent_volume_claim *c)
{
    const struct bh_str *v = bh_str_map_get(&c->spec.resources.requests, BH_S("storage"));
    struct bh_quantity q = {0};
    struct bh_err err = {0};

    if (v && bh_quantity_parse(*v, &q, &err) < 0)
        return (struct bh_quantity){0};
    return q;
}

static struct bh_str class_of(const struct bh_core_v1_persistent_volume_claim *c)
{
    const struct bh_str *old = bh_str_map_get(&c->metadata.annotations, BH_S(CLASS_ANNOTATION));

    return old ? *old : c->spec.storage_class_name;
}

static bool grows(struct bh_rq *rq, struct bh_str name)
{
    struct bh_resource *res = classes(rq);
    struct bh_obj *o =
        res ? bh_pipeline_head(rq->srv->pipe, res->wc, bh_wc_key(res->wc, rq->a, BH_S(""), name))
            : NULL;

    return o &&
           ((const struct bh_storage_v1_storage_class *)bh_obj_struct(o))->allow_volume_expansion;
}

int bh_admit_claim_resize(struct bh_rq *rq, const struct bh_core_v1_persistent_volume_claim *c,
                          const struct bh_core_v1_persistent_volume_claim *old)
{
    struct bh_str name = class_of(c);

    if (bh_quantity_cmp(storage_of(c), storage_of(old)) <= 0)
        return 0;
    if (!bh_str_eqc(old->status.phase, "Bound"))
        return bh_fail_forbidden(rq, rq->kind, c->metadata.name,
                                 "Only bound persistent volume claims can be expanded");
    if (name.n == 0 || !bh_str_eq(name, class_of(old)) || !grows(rq, name))
        return bh_fail_forbidden(rq, rq->kind, c->metadata.name,
                                 "only dynamically provisioned pvc can be resized and the "
                                 "storageclass that provisions the pvc must support resize");
    return 0;
}
