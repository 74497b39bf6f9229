/* Volumes: claims of the pod must be there and bound, and their volumes reachable from the node.
 *
 * Volumes are bound by others: a claim that waits for its first consumer gets the annotation that
 * names the node (see bind.c) and the pod waits until it is bound.
 */
#include "api/gen/storage_v1.h"
#include "dra/node_selector.h"
#include "scheduler/sched_int.h"

struct pod_volume {
    struct bh_obj *pvc, *pv; /* borrowed for the attempt */
    bool once_per_pod;       /* ReadWriteOncePod */
    struct bh_str driver;    /* CSI */
};

struct volume_state {
    struct pod_volume *v;
    size_t n;
    bool once_per_pod, csi;
};

static bool refuse(struct cycle *c, struct bh_str text)
{
    c->prefilter_msg = text;
    c->prefilter_no_dra = true;
    c->rejected_by |= 1u << PL_VOLUME_BINDING;
    return false;
}

static bool waits_for_consumer(const struct bh_scheduler *s,
                               const struct bh_core_v1_persistent_volume_claim *pvc)
{
    const struct bh_storage_v1_storage_class *sc;
    struct bh_obj *o;

    if (!pvc->spec.has_storage_class_name || !s->inf_storage)
        return false;
    o = bh_informer_get(s->inf_storage, (struct bh_str){NULL, 0}, pvc->spec.storage_class_name);
    if (!o)
        return false;
    sc = bh_obj_struct(o);
    return sc->has_volume_binding_mode &&
           bh_str_eqc(sc->volume_binding_mode, "WaitForFirstConsumer");
}

/* False: the pod cannot go anywhere now (c->prefilter_msg). */
static bool look_up(struct cycle *c, const struct bh_core_v1_volume *vol, struct pod_volume *ret)
{
    const struct bh_core_v1_persistent_volume_claim *pvc;
    const struct bh_core_v1_persistent_volume *pv;
    bool ephemeral = vol->volume_source.ephemeral != NULL;
    struct bh_str name =
        ephemeral ? bh_str_fmt(c->a, "%.*s-%.*s", BH_SF(c->pod->obj->name), BH_SF(vol->name))
                  : vol->volume_source.persistent_volume_claim->claim_name;

    ret->pvc = c->s->inf_pvcs ? bh_informer_get(c->s->inf_pvcs, c->pod->obj->ns, name) : NULL;
    if (!ret->pvc)
        return refuse(
            c, ephemeral
                   ? bh_str_fmt(c->a,
                                "waiting for ephemeral volume controller to create the "
                                "persistentvolumeclaim \"%.*s\"",
                                BH_SF(name))
                   : bh_str_fmt(c->a, "persistentvolumeclaim \"%.*s\" not found", BH_SF(name)));
    if (ret->pvc->deleting)
        return refuse(
            c, bh_str_fmt(c->a, "persistentvolumeclaim \"%.*s\" is being deleted", BH_SF(name)));
    pvc = bh_obj_struct(ret->pvc);
    if (bh_str_eqc(pvc->status.phase, "Lost"))
        return refuse(c, bh_str_fmt(c->a,
                                    "persistentvolumeclaim \"%.*s\" bound to non-existent "
                                    "persistentvolume \"%.*s\"",
                                    BH_SF(name), BH_SF(pvc->spec.volume_name)));
    for (size_t i = 0; i < pvc->spec.access_modes.n; i++)
        ret->once_per_pod |= bh_str_eqc(pvc->spec.access_modes.p[i], "ReadWriteOncePod");
    if (!pvc->spec.volume_name.n) {
        if (waits_for_consumer(c->s, pvc))
            return true;
        return refuse(c, BH_S("pod has unbound immediate PersistentVolumeClaims"));
    }
    ret->pv = c->s->inf_pvs
                  ? bh_informer_get(c->s->inf_pvs, (struct bh_str){NULL, 0}, pvc->spec.volume_name)
                  : NULL;
    if (!ret->pv)
        return refuse(c, bh_str_fmt(c->a, "persistentvolume \"%.*s\" not found",
                                    BH_SF(pvc->spec.volume_name)));
    pv = bh_obj_struct(ret->pv);
    if (pv->spec.persistent_volume_source.csi)
        ret->driver = pv->spec.persistent_volume_source.csi->driver;
    return true;
}

bool sched_volumes_prefilter(struct cycle *c)
{
    const struct bh_core_v1_volume_vec *v = &c->pod->p->spec.volumes;
    struct volume_state *st;

    if (!c->pod->has_pvc)
        return true;
    st = bh_new(c->a, struct volume_state);
    st->v = bh_new_n(c->a, struct pod_volume, v->n);
    for (size_t i = 0; i < v->n; i++) {
        struct pod_volume *pv = &st->v[st->n];

        if (!v->p[i].volume_source.persistent_volume_claim && !v->p[i].volume_source.ephemeral)
            continue;
        if (!look_up(c, &v->p[i], pv))
            return false;
        st->once_per_pod |= pv->once_per_pod;
        st->csi |= pv->driver.n > 0;
        st->n++;
    }
    c->volumes = st;
    return true;
}

/* Name of the claim behind a volume of a pod that runs, or empty. */
static bool uses_claim(const struct spod *pod, const struct bh_obj *pvc)
{
    if (!pod->has_pvc || !bh_str_eq(pod->obj->ns, pvc->ns))
        return false;
    for (size_t i = 0; i < pod->p->spec.volumes.n; i++) {
        const struct bh_core_v1_volume_source *v = &pod->p->spec.volumes.p[i].volume_source;

        if (v->persistent_volume_claim &&
            bh_str_eq(v->persistent_volume_claim->claim_name, pvc->name))
            return true;
    }
    return false;
}

static enum verdict filter_once(struct cycle *c, const struct snode *n)
{
    for (size_t i = 0; i < c->volumes->n; i++) {
        if (!c->volumes->v[i].once_per_pod)
            continue;
        for (uint32_t k = 0; k < n->pods.n; k++)
            if (uses_claim(n->pods.p[k], c->volumes->v[i].pvc))
                return sched_fail(c, PL_VOLUME_RESTRICTIONS, V_UNSCHEDULABLE, R_VOLUME_RWOP);
    }
    return V_OK;
}

/* Distinct CSI volumes of one driver that pods of the node use. */
static size_t driver_volumes(struct cycle *c, const struct snode *n, struct bh_str driver,
                             struct bh_map *seen)
{
    size_t count = 0;

    for (uint32_t k = 0; k < n->pods.n; k++) {
        const struct spod *pod = n->pods.p[k];

        for (size_t i = 0; pod->has_pvc && i < pod->p->spec.volumes.n; i++) {
            const struct bh_core_v1_volume_source *v = &pod->p->spec.volumes.p[i].volume_source;
            struct bh_obj *pvc, *pv;
            const struct bh_core_v1_persistent_volume *vol;

            if (!v->persistent_volume_claim)
                continue;
            pvc = bh_informer_get(c->s->inf_pvcs, pod->obj->ns,
                                  v->persistent_volume_claim->claim_name);
            if (!pvc)
                continue;
            pv = bh_informer_get(
                c->s->inf_pvs, (struct bh_str){NULL, 0},
                ((const struct bh_core_v1_persistent_volume_claim *)bh_obj_struct(pvc))
                    ->spec.volume_name);
            if (!pv)
                continue;
            vol = bh_obj_struct(pv);
            if (vol->spec.persistent_volume_source.csi &&
                bh_str_eq(vol->spec.persistent_volume_source.csi->driver, driver) &&
                !bh_map_put(seen, pv->name, pv))
                count++;
        }
    }
    return count;
}

static const struct bh_storage_v1_csi_node_driver *
csi_driver(struct cycle *c, const struct snode *n, struct bh_str driver)
{
    const struct bh_storage_v1_csi_node *cn;
    struct bh_obj *o = c->s->inf_csinodes
                           ? bh_informer_get(c->s->inf_csinodes, (struct bh_str){NULL, 0}, n->name)
                           : NULL;

    if (!o)
        return NULL;
    cn = bh_obj_struct(o);
    for (size_t i = 0; i < cn->spec.drivers.n; i++)
        if (bh_str_eq(cn->spec.drivers.p[i].name, driver))
            return &cn->spec.drivers.p[i];
    return NULL;
}

static enum verdict filter_limits(struct cycle *c, const struct snode *n)
{
    for (size_t i = 0; i < c->volumes->n; i++) {
        const struct pod_volume *v = &c->volumes->v[i];
        const struct bh_storage_v1_csi_node_driver *d =
            v->driver.n ? csi_driver(c, n, v->driver) : NULL;
        struct bh_map seen = {0};
        size_t used, more = 0;

        if (!d || !d->allocatable || !d->allocatable->has_count)
            continue;
        used = driver_volumes(c, n, v->driver, &seen);
        for (size_t k = 0; k < c->volumes->n; k++)
            if (c->volumes->v[k].pv && bh_str_eq(c->volumes->v[k].driver, v->driver) &&
                !bh_map_put(&seen, c->volumes->v[k].pv->name, c->volumes->v[k].pv))
                more++;
        bh_map_done(&seen);
        if (more && used + more > (size_t)d->allocatable->count)
            return sched_fail(c, PL_NODE_VOLUME_LIMITS, V_UNSCHEDULABLE, R_VOLUME_COUNT);
    }
    return V_OK;
}

static enum verdict filter_bound(struct cycle *c, const struct snode *n)
{
    for (size_t i = 0; i < c->volumes->n; i++) {
        const struct pod_volume *v = &c->volumes->v[i];
        const struct bh_core_v1_persistent_volume *pv;

        if (!v->pv)
            continue;
        pv = bh_obj_struct(v->pv);
        if (pv->spec.node_affinity && pv->spec.node_affinity->required &&
            bh_node_selector_match(pv->spec.node_affinity->required, n->name, &n->obj->labels,
                                   NULL) != 1)
            return sched_fail(c, PL_VOLUME_BINDING, V_UNRESOLVABLE, R_VOLUME_NODE);
    }
    return V_OK;
}

static bool in_zones(struct bh_str zones, struct bh_str zone)
{
    /* "a__b" names two zones. */
    while (zones.n) {
        ptrdiff_t at = bh_str_find(zones, BH_S("__"));
        struct bh_str one = at < 0 ? zones : bh_str_sub(zones, 0, (size_t)at);

        if (bh_str_eq(one, zone))
            return true;
        if (at < 0)
            break;
        zones = bh_str_sub(zones, (size_t)at + 2, zones.n);
    }
    return false;
}

static enum verdict filter_zone(struct cycle *c, const struct snode *n)
{
    static const char *const keys[] = {
        "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"};

    for (size_t i = 0; i < c->volumes->n; i++)
        for (size_t k = 0; c->volumes->v[i].pv && k < BH_COUNT(keys); k++) {
            const struct bh_str *want = bh_str_map_get(&c->volumes->v[i].pv->labels, bh_s(keys[k]));
            const struct bh_str *have = bh_str_map_get(&n->obj->labels, bh_s(keys[k]));

            /* A node without any such label is in no zone and may have what it can reach. */
            if (want && have && !in_zones(*want, *have))
                return sched_fail(c, PL_VOLUME_ZONE, V_UNRESOLVABLE, R_VOLUME_ZONE);
        }
    return V_OK;
}

enum verdict sched_volumes_filter(struct cycle *c, const struct snode *n)
{
    enum verdict v = V_OK;

    if (!c->volumes)
        return V_OK;
    if (c->volumes->once_per_pod)
        v = filter_once(c, n);
    if (v == V_OK && c->volumes->csi)
        v = filter_limits(c, n);
    if (v == V_OK)
        v = filter_bound(c, n);
    return v == V_OK ? filter_zone(c, n) : v;
}
