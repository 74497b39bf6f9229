/* Features that nodes declare (status.declaredFeatures) and that some pods cannot do without. */
#include "scheduler/sched_int.h"

enum { RESTART_ALL_CONTAINERS = 1 << 0, USER_NAMESPACES_ON_HOST_NETWORK = 1 << 1 };

void sched_features_read(struct snode *n)
{
    const struct bh_str_vec *v = &n->n->status.declared_features;

    n->features = 0;
    for (size_t i = 0; i < v->n; i++) {
        if (bh_str_eqc(v->p[i], "RestartAllContainersOnContainerExits"))
            n->features |= RESTART_ALL_CONTAINERS;
        else if (bh_str_eqc(v->p[i], "UserNamespacesHostNetworkSupport"))
            n->features |= USER_NAMESPACES_ON_HOST_NETWORK;
    }
}

static bool restarts_all(const struct bh_core_v1_container_vec *v)
{
    for (size_t i = 0; i < v->n; i++)
        for (size_t k = 0; k < v->p[i].restart_policy_rules.n; k++)
            if (bh_str_eqc(v->p[i].restart_policy_rules.p[k].action, "RestartAllContainers"))
                return true;
    return false;
}

void sched_features_prefilter(struct cycle *c)
{
    const struct bh_core_v1_pod_spec *spec = &c->pod->p->spec;

    if (restarts_all(&spec->containers) || restarts_all(&spec->init_containers))
        c->features |= RESTART_ALL_CONTAINERS;
    if (spec->host_network && spec->has_host_users && !spec->host_users)
        c->features |= USER_NAMESPACES_ON_HOST_NETWORK;
}

enum verdict sched_features_filter(struct cycle *c, const struct snode *n)
{
    if (c->features & ~n->features)
        return sched_fail(c, PL_NODE_FEATURES, V_UNRESOLVABLE, R_FEATURES);
    return V_OK;
}
