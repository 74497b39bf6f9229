/* Volumes: the filters about disks that are in use, volumes within zones, and the claims of the
 * pod, which have to be there and bound or to be bound on the way (volume_bind.c).
 */
#include <string.h>

#include "dra/node_selector.h"
#include "scheduler/volumes.h"

#define RWOP "ReadWriteOncePod"

static const char *const zone_keys[] = {
    "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone", "topology.kubernetes.io/region"};

struct bh_obj *sched_pvc(const struct bh_scheduler *s, struct bh_str ns, struct bh_str name)
{
    return s->inf_pvcs ? bh_informer_get(s->inf_pvcs, ns, name) : NULL;
}

struct bh_obj *sched_pv(const struct bh_scheduler *s, struct bh_str name)
{
    return s->inf_pvs ? bh_informer_get(s->inf_pvs, (struct bh_str){NULL, 0}, name) : NULL;
}

const struct bh_storage_v1_storage_class *sched_storage_class(const struct bh_scheduler *s,
                                                              struct bh_str name)
{
    struct bh_obj *o =
        s->inf_storage ? bh_informer_get(s->inf_storage, (struct bh_str){NULL, 0}, name) : NULL;

    return o ? bh_obj_struct(o) : NULL;
}

/* ---- who uses which claim ---- */

/* Counts the claims of a pod that came to a node, or left it. */
void sched_volumes_count(struct bh_scheduler *s, const struct spod *pod, int by)
{
    for (size_t i = 0; pod->has_pvc && i < pod->p->spec.volumes.n; i++) {
        const struct bh_core_v1_volume_source *v = &pod->p->spec.volumes.p[i].volume_source;
        BH_AUTO_BUF key = {.max = 1024};
        intptr_t n;

        if (!v->persistent_volume_claim)
            continue;
        bh_buf_addf(&key, "%.*s/%.*s", BH_SF(pod->obj->ns),
                    BH_SF(v->persistent_volume_claim->claim_name));
        n = (intptr_t)bh_map_get(&s->pvc_users, bh_buf_str(&key)) + by;
        if (n)
            (void)bh_map_put(&s->pvc_users, bh_buf_str(&key), (void *)n);
        else
            (void)bh_map_del(&s->pvc_users, bh_buf_str(&key));
    }
}

static bool used(const struct cycle *c, const struct bh_obj *pvc)
{
    BH_AUTO_BUF key = {.max = 1024};

    bh_buf_addf(&key, "%.*s/%.*s", BH_SF(pvc->ns), BH_SF(pvc->name));
    return bh_map_get(&c->s->pvc_users, bh_buf_str(&key)) != NULL;
}

/* One of the pod's claims is for one pod alone, and another pod on some node has it. */
static bool taken(const struct cycle *c)
{
    for (size_t i = 0; i < c->volumes->n; i++)
        if (c->volumes->v[i].one_pod && used(c, c->volumes->v[i].pvc))
            return true;
    return false;
}

/* ---- disks ---- */

bool sched_volume_is_disk(const struct bh_core_v1_volume_source *v)
{
    return v->gce_persistent_disk || v->aws_elastic_block_store || v->rbd || v->iscsi;
}

static bool share_monitor(const struct bh_str_vec *a, const struct bh_str_vec *b)
{
    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; k < b->n; k++)
            if (bh_str_eq(a->p[i], b->p[k]))
                return true;
    return false;
}

static bool same_disk(const struct bh_core_v1_volume_source *a,
                      const struct bh_core_v1_volume_source *b)
{
    if (a->gce_persistent_disk && b->gce_persistent_disk &&
        bh_str_eq(a->gce_persistent_disk->pd_name, b->gce_persistent_disk->pd_name) &&
        !(a->gce_persistent_disk->read_only && b->gce_persistent_disk->read_only))
        return true;
    if (a->aws_elastic_block_store && b->aws_elastic_block_store &&
        bh_str_eq(a->aws_elastic_block_store->volume_id, b->aws_elastic_block_store->volume_id))
        return true;
    if (a->iscsi && b->iscsi && bh_str_eq(a->iscsi->iqn, b->iscsi->iqn) &&
        !(a->iscsi->read_only && b->iscsi->read_only))
        return true;
    return a->rbd && b->rbd && share_monitor(&a->rbd->monitors, &b->rbd->monitors) &&
           bh_str_eq(a->rbd->pool, b->rbd->pool) && bh_str_eq(a->rbd->image, b->rbd->image) &&
           !(a->rbd->read_only && b->rbd->read_only);
}

static bool share_disk(const struct spod *a, const struct spod *b)
{
    if (!a->has_disks || !b->has_disks)
        return false;
    for (size_t i = 0; i < a->p->spec.volumes.n; i++)
        for (size_t k = 0; k < b->p->spec.volumes.n; k++)
            if (same_disk(&a->p->spec.volumes.p[i].volume_source,
                          &b->p->spec.volumes.p[k].volume_source))
                return true;
    return false;
}

static enum verdict filter_restrictions(struct cycle *c, const struct snode *n)
{
    if (!c->volumes->restricted)
        return V_OK;
    for (uint32_t i = 0; c->pod->has_disks && i < n->pods.n; i++)
        if (share_disk(c->pod, n->pods.p[i]))
            return sched_fail(c, PL_VOLUME_RESTRICTIONS, V_UNSCHEDULABLE, R_VOLUME_DISK);
    if (taken(c))
        return sched_fail(c, PL_VOLUME_RESTRICTIONS, V_UNSCHEDULABLE, R_VOLUME_RWOP);
    return V_OK;
}

/* ---- zones ---- */

/* "a__b" names two zones; a label with an empty one among them says nothing. */
static bool zones_read(struct bh_str text)
{
    for (;;) {
        ptrdiff_t at = bh_str_find(text, BH_S("__"));

        if (bh_str_trim(at < 0 ? text : bh_str_sub(text, 0, (size_t)at)).n == 0)
            return false;
        if (at < 0)
            return true;
        text = bh_str_sub(text, (size_t)at + 2, text.n);
    }
}

static bool in_zones(struct bh_str zones, struct bh_str zone)
{
    for (;;) {
        ptrdiff_t at = bh_str_find(zones, BH_S("__"));

        if (bh_str_eq(bh_str_trim(at < 0 ? zones : bh_str_sub(zones, 0, (size_t)at)), zone))
            return true;
        if (at < 0)
            return false;
        zones = bh_str_sub(zones, (size_t)at + 2, zones.n);
    }
}

static const struct bh_str *zone_of(const struct snode *n, size_t key)
{
    const struct bh_str *v = bh_str_map_get(&n->obj->labels, bh_s(zone_keys[key]));

    /* The successor of an old label stands two places on. */
    return v || key > 1 ? v : bh_str_map_get(&n->obj->labels, bh_s(zone_keys[key + 2]));
}

static enum verdict filter_zone(struct cycle *c, const struct snode *n)
{
    bool any = false;

    for (size_t k = 0; k < BH_COUNT(zone_keys); k++)
        any = any || bh_str_map_get(&n->obj->labels, bh_s(zone_keys[k]));
    if (!any) /* a node without any such label is in no zone and may have what it can reach */
        return V_OK;
    for (size_t i = 0; i < c->volumes->n; i++) {
        const struct bh_obj *pv = c->volumes->v[i].pv;

        for (size_t k = 0; pv && !c->volumes->v[i].ephemeral && k < BH_COUNT(zone_keys); k++) {
            const struct bh_str *want = bh_str_map_get(&pv->labels, bh_s(zone_keys[k]));
            const struct bh_str *have = want && zones_read(*want) ? zone_of(n, k) : NULL;

            if (want && zones_read(*want) && (!have || !in_zones(*want, *have)))
                return sched_fail(c, PL_VOLUME_ZONE, V_UNRESOLVABLE, R_VOLUME_ZONE);
        }
    }
    return V_OK;
}

/* ---- claims of the pod, before any node is looked at ---- */

static bool refuse(struct cycle *c, enum plugin pl, struct bh_str text)
{
    c->prefilter_msg = text;
    c->prefilter_no_dra = true;
    c->rejected_by |= 1u << pl;
    return false;
}

static bool owns(const struct spod *pod, const struct bh_core_v1_persistent_volume_claim *c)
{
    const struct bh_meta_v1_owner_reference_vec *v = &c->metadata.owner_references;

    for (size_t i = 0; i < v->n; i++)
        if (v->p[i].has_controller && v->p[i].controller)
            return bh_str_eq(v->p[i].uid, pod->obj->uid);
    return false;
}

static bool one_pod_only(const struct bh_core_v1_persistent_volume_claim *c)
{
    for (size_t i = 0; i < c->spec.access_modes.n; i++)
        if (bh_str_eqc(c->spec.access_modes.p[i], RWOP))
            return true;
    return false;
}

/* What VolumeRestrictions looks up: every claim that is named. */
static bool look_up(struct cycle *c, const struct bh_core_v1_volume *vol, struct pod_volume *ret)
{
    ret->name = bh_pod_volume_claim(c->a, c->pod->obj->name, vol);
    ret->ephemeral = vol->volume_source.ephemeral != NULL;
    ret->pvc = sched_pvc(c->s, c->pod->obj->ns, ret->name);
    if (!ret->pvc)
        return ret->ephemeral || refuse(c, PL_VOLUME_RESTRICTIONS,
                                        bh_str_fmt(c->a, "persistentvolumeclaim \"%.*s\" not found",
                                                   BH_SF(ret->name)));
    ret->c = bh_obj_struct(ret->pvc);
    ret->one_pod = !ret->ephemeral && one_pod_only(ret->c);
    return true;
}

/* Whether the claim can be used at all (VolumeBinding). */
static bool usable(struct cycle *c, const struct pod_volume *v)
{
    struct bh_str text;

    if (!v->pvc)
        text = bh_str_fmt(c->a,
                          "waiting for ephemeral volume controller to create the "
                          "persistentvolumeclaim \"%.*s\"",
                          BH_SF(v->name));
    else if (bh_str_eqc(v->c->status.phase, "Lost"))
        text = bh_str_fmt(c->a,
                          "persistentvolumeclaim \"%.*s\" bound to non-existent "
                          "persistentvolume \"%.*s\"",
                          BH_SF(v->name), BH_SF(v->c->spec.volume_name));
    else if (v->pvc->deleting)
        text = bh_str_fmt(c->a, "persistentvolumeclaim \"%.*s\" is being deleted", BH_SF(v->name));
    else if (v->ephemeral && !owns(c->pod, v->c))
        text = bh_str_fmt(
            c->a, "PVC %.*s/%.*s was not created for pod %.*s/%.*s (pod is not owner)",
            BH_SF(v->pvc->ns), BH_SF(v->name), BH_SF(c->pod->obj->ns), BH_SF(c->pod->obj->name));
    else
        return true;
    return refuse(c, PL_VOLUME_BINDING, text);
}

static bool waits_for_consumer(const struct bh_scheduler *s,
                               const struct bh_core_v1_persistent_volume_claim *pvc)
{
    const struct bh_storage_v1_storage_class *sc = sched_storage_class(s, bh_pvc_class(pvc));

    return sc && sc->has_volume_binding_mode &&
           bh_str_eqc(sc->volume_binding_mode, "WaitForFirstConsumer");
}

static bool look_up_all(struct cycle *c, struct volume_state *st)
{
    const struct bh_core_v1_volume_vec *v = &c->pod->p->spec.volumes;

    for (size_t i = 0; i < v->n; i++)
        if ((v->p[i].volume_source.persistent_volume_claim || v->p[i].volume_source.ephemeral) &&
            !look_up(c, &v->p[i], &st->v[st->n++]))
            return false;
    return true;
}

static bool bindable(struct cycle *c, struct volume_state *st)
{
    bool immediate = false;

    for (size_t i = 0; i < st->n; i++)
        if (!usable(c, &st->v[i]))
            return false;
    for (size_t i = 0; i < st->n; i++) {
        struct pod_volume *v = &st->v[i];

        v->bound = bh_pvc_bound(v->c);
        v->later = !v->bound && !v->c->spec.volume_name.n && waits_for_consumer(c->s, v->c);
        st->later = st->later || v->later;
        immediate = immediate || (!v->bound && !v->later);
    }
    return !immediate ||
           refuse(c, PL_VOLUME_BINDING, BH_S("pod has unbound immediate PersistentVolumeClaims"));
}

static bool volumes_there(struct cycle *c, struct volume_state *st)
{
    for (size_t i = 0; i < st->n; i++) {
        struct pod_volume *v = &st->v[i];

        if (!v->bound)
            continue;
        v->pv = sched_pv(c->s, v->c->spec.volume_name);
        if (!v->pv && !v->ephemeral)
            return refuse(c, PL_VOLUME_ZONE,
                          bh_str_fmt(c->a, "persistentvolume \"%.*s\" not found",
                                     BH_SF(v->c->spec.volume_name)));
    }
    return true;
}

bool sched_volumes_prefilter(struct cycle *c)
{
    struct volume_state *st;

    if (!c->pod->has_pvc && !c->pod->has_disks)
        return true;
    st = bh_new(c->a, struct volume_state);
    st->v = bh_new_n(c->a, struct pod_volume, c->pod->p->spec.volumes.n);
    c->volumes = st;
    if (!look_up_all(c, st) || !bindable(c, st) || !volumes_there(c, st))
        return false;
    st->restricted = c->pod->has_disks || taken(c);
    if (st->later)
        sched_volumes_collect(c);
    return true;
}

enum verdict sched_volumes_filter(struct cycle *c, const struct snode *n)
{
    enum verdict v = filter_restrictions(c, n);

    if (v != V_OK || !c->volumes->n)
        return v;
    if ((v = sched_volume_limits(c, n)) != V_OK || (v = sched_volumes_bindable(c, n)) != V_OK)
        return v;
    return filter_zone(c, n);
}

/* ---- hints ---- */

static bool names_claim(const struct spod *pod, const struct bh_obj *pvc, bool ephemeral)
{
    BH_AUTO_ARENA a = NULL;

    if (!pod->has_pvc || !bh_str_eq(pod->obj->ns, pvc->ns))
        return false;
    a = bh_arena_new(0);
    for (size_t i = 0; i < pod->p->spec.volumes.n; i++) {
        const struct bh_core_v1_volume *v = &pod->p->spec.volumes.p[i];

        if ((ephemeral || v->volume_source.persistent_volume_claim) &&
            bh_str_eq(bh_pod_volume_claim(a, pod->obj->name, v), pvc->name))
            return true;
    }
    return false;
}

static bool topologies_changed(const struct bh_obj *old, const struct bh_obj *o)
{
    for (size_t k = 0; k < BH_COUNT(zone_keys); k++) {
        const struct bh_str *a = bh_str_map_get(&old->labels, bh_s(zone_keys[k]));
        const struct bh_str *b = bh_str_map_get(&o->labels, bh_s(zone_keys[k]));

        if (!a != !b || (a && !bh_str_eq(*a, *b)))
            return true;
    }
    return false;
}

static bool class_helps(enum plugin pl, const struct happening *h)
{
    const struct bh_storage_v1_storage_class *c = bh_obj_struct(h->obj),
                                             *old = h->old ? bh_obj_struct(h->old) : NULL;

    if (pl == PL_VOLUME_ZONE)
        return !old && bh_str_eqc(c->volume_binding_mode, "WaitForFirstConsumer");
    if (pl != PL_VOLUME_BINDING)
        return false;
    if (!old || old->allowed_topologies.n != c->allowed_topologies.n)
        return true;
    for (size_t i = 0; i < c->allowed_topologies.n; i++)
        if (!bh_msg_equal(&bh_core_v1_topology_selector_term_type, &c->allowed_topologies.p[i],
                          &old->allowed_topologies.p[i]))
            return true;
    return false;
}

static bool capacity_helps(const struct happening *h)
{
    struct bh_quantity now, was;

    if (!h->old)
        return true;
    if (!sched_capacity_limit(bh_obj_struct(h->obj), &now))
        return false;
    return !sched_capacity_limit(bh_obj_struct(h->old), &was) ||
           bh_quantity_value(now) > bh_quantity_value(was);
}

static bool driver_helps(const struct happening *h)
{
    const struct bh_storage_v1_csi_driver *now = bh_obj_struct(h->obj),
                                          *was = h->old ? bh_obj_struct(h->old) : NULL;

    /* Capacity is not asked for any more. */
    return was && was->spec.storage_capacity && !now->spec.storage_capacity;
}

bool sched_volume_helps(const struct spod *pod, enum plugin pl, const struct happening *h)
{
    const struct bh_kind *k = h->obj->kind;

    if (h->gone)
        return k == &bh_storage_v1_volume_attachment_kind && pl == PL_NODE_VOLUME_LIMITS &&
               pod->has_pvc;
    if (k == &bh_core_v1_persistent_volume_claim_kind)
        return (!h->old || pl == PL_VOLUME_BINDING || pl == PL_VOLUME_ZONE) &&
               names_claim(pod, h->obj, pl == PL_VOLUME_BINDING || pl == PL_NODE_VOLUME_LIMITS);
    if (k == &bh_core_v1_persistent_volume_kind)
        return pl == PL_VOLUME_BINDING ||
               (pl == PL_VOLUME_ZONE && (!h->old || topologies_changed(h->old, h->obj)));
    if (k == &bh_storage_v1_storage_class_kind)
        return class_helps(pl, h);
    if (k == &bh_storage_v1_csi_node_kind)
        return pl == PL_NODE_VOLUME_LIMITS && (!h->old || sched_limit_raised(h->old, h->obj));
    if (pl != PL_VOLUME_BINDING)
        return false;
    if (k == &bh_storage_v1_csi_driver_kind)
        return driver_helps(h);
    return k == &bh_storage_v1_csi_storage_capacity_kind && capacity_helps(h);
}

static bool share_claim(const struct spod *a, const struct spod *b)
{
    for (size_t i = 0; a->has_pvc && b->has_pvc && i < a->p->spec.volumes.n; i++) {
        const struct bh_core_v1_volume_source *x = &a->p->spec.volumes.p[i].volume_source;

        for (size_t k = 0; x->persistent_volume_claim && k < b->p->spec.volumes.n; k++) {
            const struct bh_core_v1_volume_source *y = &b->p->spec.volumes.p[k].volume_source;

            if (y->persistent_volume_claim && bh_str_eq(x->persistent_volume_claim->claim_name,
                                                        y->persistent_volume_claim->claim_name))
                return true;
        }
    }
    return false;
}

bool sched_volume_pod_gone_helps(const struct spod *pod, enum plugin pl, const struct spod *gone)
{
    if (pl == PL_NODE_VOLUME_LIMITS)
        return !gone || gone->has_pvc;
    return !gone || (bh_str_eq(pod->obj->ns, gone->obj->ns) &&
                     (share_disk(pod, gone) || share_claim(pod, gone)));
}
