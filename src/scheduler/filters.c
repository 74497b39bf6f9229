/* The filters that look at a node alone, in upstream's order. */
#include "dra/node_selector.h"
#include "scheduler/sched_int.h"

static enum verdict filter_unschedulable(struct cycle *c, const struct snode *n)
{
    static const struct bh_core_v1_taint taint = {
        .key = BH_S_INIT("node.kubernetes.io/unschedulable"), .effect = BH_S_INIT("NoSchedule")};
    const struct bh_core_v1_toleration_vec *t = &c->pod->p->spec.tolerations;

    if (!n->unschedulable || sched_tolerates_any(t->p, t->n, &taint))
        return V_OK;
    return sched_fail(c, PL_NODE_UNSCHEDULABLE, V_UNRESOLVABLE, R_UNSCHEDULABLE);
}

bool sched_untolerated(const struct spod *pod, const struct snode *n)
{
    const struct bh_core_v1_toleration_vec *t = &pod->p->spec.tolerations;

    if (!n->hard_taints)
        return false;
    for (size_t i = 0; i < n->n->spec.taints.n; i++) {
        const struct bh_core_v1_taint *x = &n->n->spec.taints.p[i];

        if (!bh_str_eqc(x->effect, "NoSchedule") && !bh_str_eqc(x->effect, "NoExecute"))
            continue;
        if (!sched_tolerates_any(t->p, t->n, x))
            return true;
    }
    return false;
}

static enum verdict filter_taints(struct cycle *c, const struct snode *n)
{
    if (sched_untolerated(c->pod, n))
        return sched_fail(c, PL_TAINT_TOLERATION, V_UNRESOLVABLE, R_TAINT);
    return V_OK;
}

static bool selector_holds(const struct bh_str_map *want, const struct bh_str_map *labels)
{
    for (size_t i = 0; i < want->n; i++) {
        const struct bh_str *v = bh_str_map_get(labels, want->p[i].key);

        if (!v || !bh_str_eq(*v, want->p[i].value))
            return false;
    }
    return true;
}

static const struct bh_core_v1_node_selector *required(const struct spod *pod)
{
    const struct bh_core_v1_affinity *af = pod->p->spec.affinity;

    return af && af->node_affinity
               ? af->node_affinity->required_during_scheduling_ignored_during_execution
               : NULL;
}

bool sched_node_selected(const struct spod *pod, const struct snode *n)
{
    const struct bh_core_v1_node_selector *req = required(pod);

    if (!selector_holds(&pod->p->spec.node_selector, &n->obj->labels))
        return false;
    /* A requirement that cannot be understood selects nothing. */
    return !req || bh_node_selector_match(req, n->name, &n->obj->labels, NULL) == 1;
}

/* Node affinity that the profile adds to every pod of it. */
static bool enforced(const struct sched_profile *p, const struct snode *n)
{
    const struct bh_core_v1_node_selector *req =
        p->added_affinity ? p->added_affinity->required_during_scheduling_ignored_during_execution
                          : NULL;

    return !req || bh_node_selector_match(req, n->name, &n->obj->labels, NULL) == 1;
}

static enum verdict filter_affinity(struct cycle *c, const struct snode *n)
{
    if (c->prof->added_affinity && !enforced(c->prof, n))
        return sched_fail(c, PL_NODE_AFFINITY, V_UNRESOLVABLE, R_AFFINITY_ENFORCED);
    if (c->selective && !sched_node_selected(c->pod, n))
        return sched_fail(c, PL_NODE_AFFINITY, V_UNRESOLVABLE, R_AFFINITY);
    return V_OK;
}

static bool ports_taken(const struct spod *pod, const struct spod *by)
{
    for (uint32_t i = 0; i < pod->ports_n; i++)
        for (uint32_t k = 0; k < by->ports_n; k++)
            if (sched_ports_conflict(&pod->ports[i], &by->ports[k]))
                return true;
    return false;
}

static enum verdict filter_ports(struct cycle *c, const struct snode *n)
{
    if (!c->pod->ports_n || !n->ports_n)
        return V_OK;
    for (uint32_t i = 0; i < n->pods.n; i++)
        if (n->pods.p[i]->ports_n && ports_taken(c->pod, n->pods.p[i]))
            return sched_fail(c, PL_NODE_PORTS, V_UNSCHEDULABLE, R_PORTS);
    return V_OK;
}

static bool listed(const struct bh_str_vec *v, struct bh_str s)
{
    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i], s))
            return true;
    return false;
}

bool sched_res_ignored(const struct bh_scheduler *s, const struct sched_profile *p, uint32_t id)
{
    struct bh_str name;
    ptrdiff_t slash;

    if (!p || id < RES_FIXED || (!p->ignored.n && !p->ignored_groups.n))
        return false;
    name = s->res_names[id];
    slash = bh_str_find(name, BH_S("/"));
    if (slash < 0 || bh_str_find(name, BH_S("kubernetes.io/")) >= 0)
        return false;
    return listed(&p->ignored, name) ||
           listed(&p->ignored_groups, bh_str_sub(name, 0, (size_t)slash));
}

static enum verdict filter_fit(struct cycle *c, const struct snode *n)
{
    const struct spod *pod = c->pod;
    enum verdict v = V_OK;

    if ((int64_t)n->pods.n + 1 > n->alloc[RES_PODS])
        v = sched_fail(c, PL_RESOURCES_FIT, V_UNSCHEDULABLE, R_TOO_MANY_PODS);
    for (uint32_t i = 0; i < pod->req_n; i++) {
        const struct res_amount *r = &pod->req[i];
        int64_t all, used;
        enum verdict w;

        sched_node_amounts(n, r->id, &all, &used);
        if (r->v <= all - used || sched_res_ignored(c->s, c->prof, r->id) ||
            (r->id >= RES_FIXED && sched_ext_serves(c, n, r->id)))
            continue;
        w = sched_fail(c, PL_RESOURCES_FIT, r->v > all ? V_UNRESOLVABLE : V_UNSCHEDULABLE,
                       R_INSUFFICIENT + r->id);
        if (v != V_UNRESOLVABLE)
            v = w;
    }
    return v;
}

/* A profile's own choice and order of filters. */
static enum verdict filter_listed(struct cycle *c, struct snode *n)
{
    const struct point_plugins *run = &c->prof->run[PT_FILTER];
    enum verdict v = V_OK;

    for (uint8_t i = 0; i < run->n && v == V_OK; i++)
        switch ((enum plugin)run->p[i]) {
        case PL_NODE_UNSCHEDULABLE:
            v = filter_unschedulable(c, n);
            break;
        case PL_TAINT_TOLERATION:
            v = filter_taints(c, n);
            break;
        case PL_NODE_AFFINITY:
            v = filter_affinity(c, n);
            break;
        case PL_NODE_PORTS:
            v = filter_ports(c, n);
            break;
        case PL_RESOURCES_FIT:
            v = filter_fit(c, n);
            break;
        case PL_VOLUME_RESTRICTIONS: /* the four about volumes are one here */
            v = c->volumes ? sched_volumes_filter(c, n) : V_OK;
            break;
        case PL_TOPOLOGY_SPREAD:
            v = c->spread ? sched_spread_filter(c, n) : V_OK;
            break;
        case PL_INTER_POD_AFFINITY:
            v = c->affinity ? sched_affinity_filter(c, n) : V_OK;
            break;
        default: /* those for claims and features run behind all others */
            break;
        }
    return v;
}

static enum verdict filter_all(struct cycle *c, struct snode *n)
{
    enum verdict v;

    if (!c->prof->standard)
        return filter_listed(c, n);

    if ((v = filter_unschedulable(c, n)) != V_OK || (v = filter_taints(c, n)) != V_OK ||
        (v = filter_affinity(c, n)) != V_OK || (v = filter_ports(c, n)) != V_OK ||
        (v = filter_fit(c, n)) != V_OK)
        return v;
    if (c->volumes && (v = sched_volumes_filter(c, n)) != V_OK)
        return v;
    if (c->spread && (v = sched_spread_filter(c, n)) != V_OK)
        return v;
    return c->affinity ? sched_affinity_filter(c, n) : V_OK;
}

static void guests(struct cycle *c, struct snode *n, bool in)
{
    bh_list_for(it, &n->nominees)
    {
        struct spod *o = bh_container(it, struct spod, nominated_link);

        if (o == c->pod || o->priority < c->pod->priority || (in && o->node) ||
            (!in && o->node != n) || sched_placed_with(c, o) || o->where == POD_GATED)
            continue;
        if (in)
            sched_node_add_pod(c->s, n, o);
        else
            sched_node_del_pod(c->s, o);
        sched_affinity_change(c, o, n, in ? 1 : -1);
        sched_spread_change(c, o, n, in ? 1 : -1);
    }
}

enum verdict sched_filter(struct cycle *c, struct snode *n)
{
    enum verdict v;

    if (c->only_nodes) {
        if (!listed(c->only_nodes, n->name))
            return sched_fail(c, PL_NODE_AFFINITY, V_UNRESOLVABLE, R_AFFINITY_NAMES);
    }
    if (!bh_list_empty(&n->nominees)) {
        /* It must fit beside those for whom room is made, and without them too: it may need to be
         * near none of them. */
        guests(c, n, true);
        v = filter_all(c, n);
        guests(c, n, false);
        if (v != V_OK)
            return v;
    }
    return filter_all(c, n);
}

/* The nodes that a term names by fields: those in all its lists. False: it names none. */
static bool term_names(struct bh_arena *a, const struct bh_core_v1_node_selector_term *t,
                       struct bh_str_vec *ret)
{
    bool found = false;

    *ret = (struct bh_str_vec){NULL, 0};
    for (size_t k = 0; k < t->match_fields.n; k++) {
        const struct bh_core_v1_node_selector_requirement *f = &t->match_fields.p[k];
        size_t kept = 0;

        if (!bh_str_eqc(f->key, "metadata.name") || !bh_str_eqc(f->operator, "In"))
            continue;
        if (!found) {
            ret->p = bh_new_n(a, struct bh_str, f->values.n);
            for (ret->n = 0; ret->n < f->values.n; ret->n++)
                ret->p[ret->n] = f->values.p[ret->n];
            found = true;
            continue;
        }
        for (size_t i = 0; i < ret->n; i++)
            if (listed(&f->values, ret->p[i]))
                ret->p[kept++] = ret->p[i];
        ret->n = kept;
    }
    return found;
}

/* Terms that each name nodes restrict the search to these before any filter runs. False: there is
 * none that they could mean. */
static bool read_names(struct cycle *c, const struct bh_core_v1_node_selector *req)
{
    struct bh_str_vec *names = bh_new(c->a, struct bh_str_vec);
    size_t cap = 0;

    for (size_t i = 0; i < req->node_selector_terms.n; i++) {
        struct bh_str_vec of_term;

        if (!term_names(c->a, &req->node_selector_terms.p[i], &of_term))
            return true;
        for (size_t k = 0; k < of_term.n; k++) {
            bh_arena_grow(c->a, &names->p, &cap, names->n + 1, sizeof(*names->p));
            names->p[names->n++] = of_term.p[k];
        }
    }
    if (names->n) {
        c->only_nodes = names;
    } else if (req->node_selector_terms.n) {
        c->prefilter_msg = BH_S("pod affinity terms conflict");
        c->prefilter_no_dra = true;
        c->rejected_by |= 1u << PL_NODE_AFFINITY;
        return false;
    }
    return true;
}

bool sched_prefilter(struct cycle *c)
{
    const struct bh_core_v1_node_selector *req = required(c->pod);
    uint32_t on = c->prof->on[PT_FILTER];

    c->selective = req || c->pod->p->spec.node_selector.n;
    if (req && on & 1u << PL_NODE_AFFINITY && !read_names(c, req))
        return false;
    if (on & 1u << PL_VOLUME_RESTRICTIONS && !sched_volumes_prefilter(c))
        return false;
    if (on & 1u << PL_TOPOLOGY_SPREAD)
        sched_spread_prefilter(c);
    if (on & 1u << PL_INTER_POD_AFFINITY)
        sched_affinity_prefilter(c);
    if (on & 1u << PL_NODE_FEATURES)
        sched_features_prefilter(c);
    return sched_claims_prefilter(c);
}
