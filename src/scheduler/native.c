/* Devices that stand for something of their node itself, cpu or memory (section 6.11): what they
 * take is added to what the pod asks, has to be free on the node, and is told in the pod's status.
 * A claim for such devices serves one pod.
 *
 * Only slices of an API server with the gate DRANodeAllocatableResources have such devices: where
 * it is off, nothing here is ever run. Beyond upstream, a claim that was allocated before counts,
 * too, and devices are told apart by their driver as well.
 */
#include "api/engine.h"
#include "scheduler/sched_int.h"

static bool named(const struct spod *pod, struct bh_str claim)
{
    const struct bh_core_v1_node_allocatable_resource_claim_status_vec *v = sched_pod_native(pod);

    for (size_t i = 0; v && i < v->n; i++)
        if (bh_str_eq(v->p[i].resource_claim_name, claim))
            return true;
    return false;
}

enum verdict sched_native_shared(struct cycle *c, const struct snode *n)
{
    for (size_t i = 0; i < c->claims_n; i++) {
        const struct bh_obj *claim = c->claims[i].obj;
        size_t users = 0;

        for (uint32_t k = 0; k < n->pods.n; k++)
            users += n->pods.p[k]->shares_native && n->pods.p[k] != c->pod &&
                     bh_str_eq(n->pods.p[k]->obj->ns, claim->ns) &&
                     named(n->pods.p[k], claim->name);
        if (users)
            return sched_fail_text(c, PL_DYNAMIC_RESOURCES, V_UNRESOLVABLE,
                                   bh_str_fmt(c->a, "node allocatable resource claim %.*s %s",
                                              BH_SF(claim->name),
                                              users > 1 ? "shared by multiple pods"
                                                        : "is already used by another pod"));
    }
    return V_OK;
}

/* Names of the containers that use this claim of the pod, once per use. */
static void users(const struct cycle *c, struct bh_str claim, struct bh_str_vec *ret)
{
    const struct bh_core_v1_pod_spec *spec = &c->pod->p->spec;
    const struct bh_core_v1_container_vec *all[2] = {&spec->init_containers, &spec->containers};
    size_t cap = 0;

    for (size_t k = 0; k < BH_COUNT(all); k++)
        for (size_t i = 0; i < all[k]->n; i++) {
            const struct bh_core_v1_container *x = &all[k]->p[i];

            for (size_t j = 0; j < x->resources.claims.n; j++) {
                struct bh_str name;

                for (size_t r = 0; r < spec->resource_claims.n; r++) {
                    if (!bh_str_eq(spec->resource_claims.p[r].name,
                                   x->resources.claims.p[j].name) ||
                        !sched_claim_named(c->pod->p, r, &name) || !bh_str_eq(name, claim))
                        continue;
                    bh_arena_grow(c->a, &ret->p, &cap, ret->n + 1, sizeof(*ret->p));
                    ret->p[ret->n++] = x->name;
                }
            }
        }
}

/* By name of the claim. */
static void insert(struct bh_core_v1_node_allocatable_resource_claim_status_vec *v,
                   const struct bh_core_v1_node_allocatable_resource_claim_status *st)
{
    size_t i = v->n++;

    for (; i > 0 && bh_str_cmp(st->resource_claim_name, v->p[i - 1].resource_claim_name) < 0; i--)
        v->p[i] = v->p[i - 1];
    v->p[i] = *st;
}

static int add_claim(struct cycle *c, struct bh_str ns, struct bh_str name,
                     const struct bh_resource_v1_allocation_result *alloc,
                     struct bh_core_v1_node_allocatable_resource_claim_status_vec *v)
{
    struct bh_core_v1_node_allocatable_resource_claim_status st = {.resource_claim_name = name};
    struct bh_err err = {0};

    if (bh_dra_native(c->s->model, ns, name, alloc, c->a, &st.resources, &err) < 0) {
        (void)sched_error(c, PL_DYNAMIC_RESOURCES, "%s", err.msg);
        return -err.code;
    }
    if (!st.resources.n)
        return 0;
    users(c, name, &st.containers);
    insert(v, &st);
    return 0;
}

/* What the claims of the pod take here; an error ends the attempt. */
static int read_claims(struct cycle *c, const struct candidate *k,
                       struct bh_core_v1_node_allocatable_resource_claim_status_vec *v)
{
    size_t asked = k->set && k->dra.allocations ? k->set->n : 0;
    int r;

    v->p = bh_new_n(c->a, struct bh_core_v1_node_allocatable_resource_claim_status,
                    asked + c->claims_n);
    for (size_t i = 0; i < asked; i++) {
        const struct bh_meta_v1_object_meta *m = &k->set->claims[i]->metadata;

        r = add_claim(c, m->namespace, m->name, &k->dra.allocations[i], v);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < c->claims_n; i++) {
        if (!c->claims[i].allocated)
            continue;
        r = add_claim(c, c->claims[i].obj->ns, c->claims[i].obj->name, c->claims[i].alloc, v);
        if (r < 0)
            return r;
    }
    return 0;
}

static int64_t amount_of(const struct res_amount *p, uint32_t n, uint32_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (p[i].id == id)
            return p[i].v;
    return -1;
}

/* What a pod asks as a whole has to suffice for its containers and devices. */
static enum verdict covered(struct cycle *c, const struct res_amount *whole, uint32_t whole_n,
                            const struct bh_core_v1_node_allocatable_resource_claim_status_vec *v)
{
    const struct bh_core_v1_resource_requirements *own = c->pod->p->spec.resources;
    struct res_amount *parts;
    uint32_t n;

    if (!own || !own->requests.n)
        return V_OK;
    n = sched_pod_sums(c->s, c->pod, v, false, c->a, &parts);
    for (uint32_t i = 0; i < whole_n; i++)
        if (amount_of(parts, n, whole[i].id) > whole[i].v)
            return sched_fail_text(
                c, PL_DYNAMIC_RESOURCES, V_UNRESOLVABLE,
                bh_str_fmt(c->a,
                           "pod level request for %.*s is insufficient to cover the aggregated "
                           "container and node-allocatable DRA requests",
                           BH_SF(c->s->res_names[whole[i].id])));
    return V_OK;
}

static enum verdict fits(struct cycle *c, const struct snode *n, const struct res_amount *r,
                         enum verdict so_far)
{
    bool huge = bh_str_starts(c->s->res_names[r->id], BH_S("hugepages-"));
    int64_t all, used;

    if (r->id == RES_PODS || (r->id >= RES_FIXED && !huge) || r->v <= 0)
        return so_far; /* the filter for resources looks at these */
    sched_node_amounts(n, r->id, &all, &used);
    if (r->v <= all - used)
        return so_far;
    (void)sched_fail(c, PL_DYNAMIC_RESOURCES, V_UNSCHEDULABLE, R_INSUFFICIENT + r->id);
    if (!c->quiet)
        c->rejected_by |= 1u << PL_RESOURCES_FIT; /* whatever helps there, helps here */
    return so_far == V_UNRESOLVABLE || r->v > all ? V_UNRESOLVABLE : V_UNSCHEDULABLE;
}

enum verdict sched_native_filter(struct cycle *c, const struct snode *n, struct candidate *k)
{
    struct bh_core_v1_node_allocatable_resource_claim_status_vec *v =
        bh_new(c->a, struct bh_core_v1_node_allocatable_resource_claim_status_vec);
    struct res_amount *whole;
    enum verdict r = V_OK;
    uint32_t whole_n;

    if (read_claims(c, k, v) < 0)
        return V_ERROR;
    if (!v->n)
        return V_OK;
    for (size_t i = 0; i < v->n; i++)
        if (!v->p[i].containers.n)
            return sched_fail_text(
                c, PL_DYNAMIC_RESOURCES, V_UNRESOLVABLE,
                bh_str_fmt(c->a,
                           "claim %.*s: node-allocatable resource claim not referenced by any "
                           "container within the pod",
                           BH_SF(v->p[i].resource_claim_name)));
    whole_n = sched_pod_sums(c->s, c->pod, v, true, c->a, &whole);
    r = covered(c, whole, whole_n, v);
    if (r != V_OK)
        return r;
    for (uint32_t i = 0; i < whole_n; i++)
        r = fits(c, n, &whole[i], r);
    k->native = v;
    return r;
}

const struct bh_core_v1_pod_status *
sched_native_status(const struct bh_core_v1_node_allocatable_resource_claim_status_vec *v,
                    struct bh_arena *a)
{
    struct bh_core_v1_pod_status st = {.node_allocatable_resource_claim_statuses = *v};

    return bh_msg_dup(&bh_core_v1_pod_status_type, &st, a);
}
