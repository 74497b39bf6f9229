/* How many volumes of a storage driver a node takes: NodeVolumeLimits.
 *
 * Volumes are told apart by driver and handle. A claim that has none yet counts as one of its own.
 * In-tree volumes are not translated to the drivers that took them over.
 */
#include <string.h>

#include "scheduler/volumes.h"

/* Volumes attached to one node, as VolumeAttachments say. */
struct attached {
    struct bh_obj **p;
    size_t n, cap;
};

/* "driver/handle" of what a claim stands for; empty when no driver counts it. */
static struct bh_str volume_of(struct cycle *c, const struct bh_obj *pvc, struct bh_str *driver)
{
    const struct bh_core_v1_persistent_volume_claim *p = bh_obj_struct(pvc);
    struct bh_obj *pv = p->spec.volume_name.n ? sched_pv(c->s, p->spec.volume_name) : NULL;
    const struct bh_storage_v1_storage_class *sc;

    if (pv) {
        const struct bh_core_v1_csi_persistent_volume_source *csi =
            ((const struct bh_core_v1_persistent_volume *)bh_obj_struct(pv))
                ->spec.persistent_volume_source.csi;

        if (!csi)
            return (struct bh_str){NULL, 0};
        *driver = csi->driver;
        return bh_str_fmt(c->a, "%.*s/%.*s", BH_SF(csi->driver), BH_SF(csi->volume_handle));
    }
    sc = sched_storage_class(c->s, bh_pvc_class(p));
    if (!sc || !sc->provisioner.n)
        return (struct bh_str){NULL, 0};
    *driver = sc->provisioner;
    return bh_str_fmt(c->a, "%.*s/ %.*s/%.*s", BH_SF(sc->provisioner), BH_SF(pvc->ns),
                      BH_SF(pvc->name));
}

/* Adds the volumes of the driver that the pod's claims stand for. */
static void add_pod(struct cycle *c, const struct spod *pod, struct bh_str driver,
                    struct bh_map *seen)
{
    for (size_t i = 0; pod->has_pvc && i < pod->p->spec.volumes.n; i++) {
        struct bh_str name = bh_pod_volume_claim(c->a, pod->obj->name, &pod->p->spec.volumes.p[i]);
        struct bh_obj *pvc = name.n ? sched_pvc(c->s, pod->obj->ns, name) : NULL;
        struct bh_str by = {NULL, 0}, volume;

        if (!pvc)
            continue;
        volume = volume_of(c, pvc, &by);
        if (volume.n && bh_str_eq(by, driver))
            (void)bh_map_put(seen, volume, pvc);
    }
}

static void add_attached(struct cycle *c, const struct snode *n, struct bh_str driver,
                         struct bh_map *seen)
{
    const struct attached *at = bh_map_get(&c->s->attached, n->name);

    for (size_t i = 0; at && i < at->n; i++) {
        const struct bh_storage_v1_volume_attachment *a = bh_obj_struct(at->p[i]);
        struct bh_obj *pv = a->spec.source.has_persistent_volume_name
                                ? sched_pv(c->s, a->spec.source.persistent_volume_name)
                                : NULL;
        const struct bh_core_v1_csi_persistent_volume_source *csi =
            pv ? ((const struct bh_core_v1_persistent_volume *)bh_obj_struct(pv))
                     ->spec.persistent_volume_source.csi
               : NULL;

        if (csi && bh_str_eq(a->spec.attacher, driver))
            (void)bh_map_put(
                seen, bh_str_fmt(c->a, "%.*s/%.*s", BH_SF(driver), BH_SF(csi->volume_handle)), pv);
    }
}

static const struct bh_storage_v1_csi_node *csi_node(const struct bh_scheduler *s,
                                                     struct bh_str name)
{
    struct bh_obj *o =
        s->inf_csinodes ? bh_informer_get(s->inf_csinodes, (struct bh_str){NULL, 0}, name) : NULL;

    return o ? bh_obj_struct(o) : NULL;
}

/* Whether what is there and what the pod brings are more than the driver allows. As upstream, a
 * volume that is attached but used by no pod counts, and once more for a pod that brings it. */
static bool too_many(struct cycle *c, const struct snode *n,
                     const struct bh_storage_v1_csi_node_driver *d)
{
    struct bh_map there = {0}, mine = {0};
    struct bh_str key;
    size_t more = 0;
    void *v;

    add_pod(c, c->pod, d->name, &mine);
    for (uint32_t i = 0; mine.n && i < n->pods.n; i++)
        add_pod(c, n->pods.p[i], d->name, &there);
    for (size_t it = 0; bh_map_next(&mine, &it, &key, &v);)
        more += !bh_map_get(&there, key);
    if (more)
        add_attached(c, n, d->name, &there);
    more = more ? more + there.n : 0;
    bh_map_done(&there);
    bh_map_done(&mine);
    return more && (d->allocatable->count < 0 || more > (size_t)d->allocatable->count);
}

enum verdict sched_volume_limits(struct cycle *c, const struct snode *n)
{
    const struct bh_storage_v1_csi_node *cn = csi_node(c->s, n->name);

    for (size_t i = 0; cn && i < cn->spec.drivers.n; i++) {
        const struct bh_storage_v1_csi_node_driver *d = &cn->spec.drivers.p[i];

        if (d->allocatable && d->allocatable->has_count && too_many(c, n, d))
            return sched_fail(c, PL_NODE_VOLUME_LIMITS, V_UNSCHEDULABLE, R_VOLUME_COUNT);
    }
    return V_OK;
}

/* ---- hints ---- */

static int32_t limit_of(const struct bh_storage_v1_csi_node *c, struct bh_str driver)
{
    for (size_t i = 0; i < c->spec.drivers.n; i++) {
        const struct bh_storage_v1_csi_node_driver *d = &c->spec.drivers.p[i];

        if (bh_str_eq(d->name, driver) && d->allocatable && d->allocatable->has_count)
            return d->allocatable->count;
    }
    return 0;
}

bool sched_limit_raised(const struct bh_obj *old, const struct bh_obj *o)
{
    const struct bh_storage_v1_csi_node *a = bh_obj_struct(old), *b = bh_obj_struct(o);

    for (size_t i = 0; i < b->spec.drivers.n; i++)
        if (limit_of(b, b->spec.drivers.p[i].name) > limit_of(a, b->spec.drivers.p[i].name))
            return true;
    return false;
}

/* ---- attachments by node ---- */

void sched_attachment_put(struct bh_scheduler *s, struct bh_obj *o)
{
    struct bh_str node =
        ((const struct bh_storage_v1_volume_attachment *)bh_obj_struct(o))->spec.node_name;
    struct attached *at = bh_map_get(&s->attached, node);

    if (!at) {
        at = bh_calloc(1, sizeof(*at));
        (void)bh_map_put(&s->attached, node, at);
    }
    for (size_t i = 0; i < at->n; i++)
        if (bh_str_eq(at->p[i]->name, o->name)) {
            struct bh_obj *old = at->p[i];

            at->p[i] = bh_obj_ref(o);
            (void)bh_obj_unref(old);
            return;
        }
    if (at->n == at->cap) {
        at->cap = at->cap ? 2 * at->cap : 8;
        at->p = bh_realloc(at->p, at->cap * sizeof(struct bh_obj *));
    }
    at->p[at->n++] = bh_obj_ref(o);
}

void sched_attachment_del(struct bh_scheduler *s, const struct bh_obj *o)
{
    struct bh_str node =
        ((const struct bh_storage_v1_volume_attachment *)bh_obj_struct(o))->spec.node_name;
    struct attached *at = bh_map_get(&s->attached, node);

    for (size_t i = 0; at && i < at->n; i++)
        if (bh_str_eq(at->p[i]->name, o->name)) {
            (void)bh_obj_unref(at->p[i]);
            at->p[i] = at->p[--at->n];
            break;
        }
    if (at && !at->n) {
        (void)bh_map_del(&s->attached, node);
        bh_free(at->p);
        bh_free(at);
    }
}

void sched_attachments_done(struct bh_scheduler *s)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&s->attached, &it, NULL, &v)) {
        struct attached *at = v;

        for (size_t i = 0; i < at->n; i++)
            (void)bh_obj_unref(at->p[i]);
        bh_free(at->p);
        bh_free(at);
    }
    bh_map_done(&s->attached);
}
