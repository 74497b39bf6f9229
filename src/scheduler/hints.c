/* Hints: which events can help a pod that a plugin refused. As upstream's, and closer where a look
 * at the node tells: an event that cannot help costs no attempt, however many pods wait. */
#include "api/gen/resource_v1.h"
#include "scheduler/sched_int.h"

static const uint32_t interests[PL__MAX] = {
    [PL_NONE] = EV_NODE_ADD,
    [PL_NODE_UNSCHEDULABLE] = EV_NODE_ADD | EV_NODE_TAINT | EV_SELF,
    [PL_TAINT_TOLERATION] = EV_NODE_ADD | EV_NODE_TAINT | EV_SELF,
    [PL_NODE_AFFINITY] = EV_NODE_ADD | EV_NODE_LABEL | EV_SELF,
    [PL_NODE_PORTS] = EV_NODE_ADD | EV_POD_GONE,
    [PL_RESOURCES_FIT] =
        EV_NODE_ADD | EV_NODE_ALLOCATABLE | EV_POD_GONE | EV_POD_SMALLER | EV_CLASS | EV_SELF,
    [PL_VOLUME_RESTRICTIONS] = EV_NODE_ADD | EV_POD_GONE | EV_VOLUME,
    [PL_NODE_VOLUME_LIMITS] = EV_NODE_ADD | EV_POD_GONE | EV_VOLUME,
    [PL_VOLUME_BINDING] = EV_NODE_ADD | EV_NODE_LABEL | EV_VOLUME,
    [PL_VOLUME_ZONE] = EV_NODE_ADD | EV_NODE_LABEL | EV_VOLUME,
    [PL_TOPOLOGY_SPREAD] = EV_NODE_ADD | EV_NODE_LABEL | EV_NODE_TAINT | EV_POD_ADD | EV_POD_GONE |
                           EV_POD_LABEL | EV_SELF,
    [PL_INTER_POD_AFFINITY] = EV_NODE_ADD | EV_NODE_LABEL | EV_POD_ADD | EV_POD_GONE |
                              EV_POD_LABEL | EV_NAMESPACE | EV_SELF,
    [PL_DYNAMIC_RESOURCES] =
        EV_NODE_ADD | EV_NODE_LABEL | EV_NODE_ALLOCATABLE | EV_CLAIM | EV_SLICE | EV_CLASS,
    [PL_NODE_FEATURES] = EV_NODE_ADD | EV_NODE_FEATURE | EV_SELF,
};

uint32_t sched_hint_interests(enum plugin pl)
{
    return interests[pl];
}

/* ---- what the node is to the pod ---- */

static bool cordoned(const struct spod *pod, const struct bh_core_v1_node *n)
{
    static const struct bh_core_v1_taint taint = {
        .key = BH_S_INIT("node.kubernetes.io/unschedulable"), .effect = BH_S_INIT("NoSchedule")};
    const struct bh_core_v1_toleration_vec *t = &pod->p->spec.tolerations;

    return n->spec.unschedulable && !sched_tolerates_any(t->p, t->n, &taint);
}

static bool repelled(const struct spod *pod, const struct bh_core_v1_node *n)
{
    const struct bh_core_v1_toleration_vec *t = &pod->p->spec.tolerations;

    for (size_t i = 0; i < n->spec.taints.n; i++) {
        const struct bh_core_v1_taint *x = &n->spec.taints.p[i];

        if ((bh_str_eqc(x->effect, "NoSchedule") || bh_str_eqc(x->effect, "NoExecute")) &&
            !sched_tolerates_any(t->p, t->n, x))
            return true;
    }
    return false;
}

/* Whether the node is shut to the pod by a plugin that refused it before: then it is that plugin's
 * hint that lets it try again. */
static bool shut(const struct spod *pod, const struct snode *n)
{
    uint32_t by = pod->rejected_by;

    if (!n || !n->obj)
        return true;
    return (by & 1u << PL_NODE_UNSCHEDULABLE && cordoned(pod, n->n)) ||
           (by & 1u << PL_TAINT_TOLERATION && repelled(pod, n->n)) ||
           (by & 1u << PL_NODE_AFFINITY && !sched_node_selected(pod, n));
}

/* Whether it is selected now and was not before. */
static bool became_selected(const struct spod *pod, const struct happening *h)
{
    struct snode was = {0};
    bool before;

    if (pod->prof && pod->prof->added_affinity)
        return true;
    if (!h->old || !h->node || !h->node->obj || !sched_node_selected(pod, h->node))
        return false;
    was.name = h->old->name;
    was.obj = bh_obj_ref(h->old);
    before = sched_node_selected(pod, &was);
    (void)bh_obj_unref(was.obj);
    return !before;
}

/* ---- resources ---- */

static bool counts(const struct bh_scheduler *s, const struct spod *pod, uint32_t id)
{
    return id < RES_FIXED || (!bh_dra_class_of_resource(s->model, s->res_names[id]).n &&
                              !sched_res_ignored(s, pod->prof, id));
}

/* Whether the node has room for the waiting pod's requests now. */
static bool room(const struct bh_scheduler *s, const struct spod *pod, const struct snode *n)
{
    if (shut(pod, n))
        return false;
    if ((int64_t)n->pods.n + 1 > n->alloc[RES_PODS])
        return false;
    for (uint32_t i = 0; i < pod->req_n; i++) {
        const struct res_amount *r = &pod->req[i];
        int64_t all, used;

        sched_node_amounts(n, r->id, &all, &used);
        if (r->v > all - used && (all > 0 || counts(s, pod, r->id)))
            return false;
    }
    return true;
}

/* Whether the class serves an extended resource that the pod asks for. */
static bool class_serves(const struct bh_scheduler *s, const struct spod *pod,
                         const struct bh_obj *class)
{
    static const struct bh_str prefix = BH_S_INIT("deviceclass.resource.kubernetes.io/");
    const struct bh_resource_v1_device_class *c = bh_obj_struct(class);

    for (uint32_t i = 0; i < pod->req_n; i++) {
        struct bh_str name;

        if (pod->req[i].id < RES_FIXED)
            continue;
        name = s->res_names[pod->req[i].id];
        if (bh_str_eq(name, c->spec.extended_resource_name) ||
            (bh_str_starts(name, prefix) &&
             bh_str_eq(bh_str_sub(name, prefix.n, name.n), class->name)))
            return true;
    }
    return false;
}

static bool asks_extended(const struct spod *pod)
{
    return pod->req_n && pod->req[pod->req_n - 1].id >= RES_FIXED; /* they are sorted */
}

static bool ports_freed(const struct spod *waiting, const struct spod *gone)
{
    if (!gone)
        return true;
    for (uint32_t i = 0; i < waiting->ports_n; i++)
        for (uint32_t k = 0; k < gone->ports_n; k++)
            if (sched_ports_conflict(&waiting->ports[i], &gone->ports[k]))
                return true;
    return false;
}

/* ---- by plugin ---- */

static bool helps_fit(const struct bh_scheduler *s, const struct spod *pod,
                      const struct happening *h)
{
    switch (h->ev) {
    case EV_POD_GONE:
    case EV_POD_SMALLER:
    case EV_NODE_ALLOCATABLE:
        return room(s, pod, h->node);
    case EV_CLASS:
        return class_serves(s, pod, h->obj);
    default:
        return true;
    }
}

static bool helps_devices(const struct spod *pod, const struct happening *h)
{
    switch (h->ev) {
    case EV_NODE_ALLOCATABLE:
        return asks_extended(pod);
    case EV_NODE_LABEL:
        return !shut(pod, h->node);
    default:
        return true;
    }
}

static bool helps_neighbours(const struct bh_scheduler *s, const struct spod *pod, enum plugin pl,
                             const struct happening *h)
{
    if (h->ev != EV_POD_ADD && h->ev != EV_POD_GONE)
        return true;
    return pl == PL_INTER_POD_AFFINITY ? sched_affinity_concerns(s, pod, h->pod)
                                       : sched_spread_concerns(pod, h->pod);
}

bool sched_hint(const struct bh_scheduler *s, const struct spod *pod, enum plugin pl,
                const struct happening *h)
{
    const struct bh_core_v1_node *was = h->old ? bh_obj_struct(h->old) : NULL;

    if (!(interests[pl] & h->ev))
        return false;
    if (h->ev & (EV_NODE_ADD | EV_SELF))
        return true; /* as upstream: a new node is in what pods are told, too */
    switch (pl) {
    case PL_NODE_UNSCHEDULABLE:
        return was && cordoned(pod, was) && !cordoned(pod, h->node->n);
    case PL_TAINT_TOLERATION:
        return was && repelled(pod, was) && !repelled(pod, h->node->n);
    case PL_NODE_AFFINITY:
        return became_selected(pod, h);
    case PL_NODE_PORTS:
        return ports_freed(pod, h->pod);
    case PL_RESOURCES_FIT:
        return helps_fit(s, pod, h);
    case PL_VOLUME_RESTRICTIONS:
    case PL_NODE_VOLUME_LIMITS:
        if (h->ev == EV_POD_GONE)
            return sched_volume_pod_gone_helps(pod, pl, h->pod);
        return h->ev != EV_VOLUME || sched_volume_helps(pod, pl, h);
    case PL_VOLUME_BINDING:
    case PL_VOLUME_ZONE:
        return h->ev != EV_VOLUME || sched_volume_helps(pod, pl, h);
    case PL_TOPOLOGY_SPREAD:
    case PL_INTER_POD_AFFINITY:
        return helps_neighbours(s, pod, pl, h);
    case PL_DYNAMIC_RESOURCES:
        return helps_devices(pod, h);
    default:
        return true;
    }
}
