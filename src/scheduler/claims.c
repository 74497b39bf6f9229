/* The plugin for devices: which claims a pod has, whether they fit a node, and reserving them. */
#include <string.h>

#include "data/time_fmt.h"
#include "dra/node_selector.h"
#include "scheduler/sched_int.h"

/* Search steps that one attempt takes on all nodes together; nodes behind that get few each, and
 * are looked at again in the next attempt, which passes over those that were searched in full. */
#define ATTEMPT_STEPS (4 * BH_DRA_STEPS_DEFAULT)
#define FEW_STEPS     2000u

enum claim_name_kind { REF_NONE_YET, REF_NOT_NEEDED, REF_NAME };

/* The name of the claim behind an entry of spec.resourceClaims. */
static enum claim_name_kind claim_name(const struct bh_core_v1_pod *p,
                                       const struct bh_core_v1_pod_resource_claim *ref,
                                       struct bh_str *ret)
{
    if (ref->has_resource_claim_name) {
        *ret = ref->resource_claim_name;
        return REF_NAME;
    }
    for (size_t i = 0; i < p->status.resource_claim_statuses.n; i++) {
        const struct bh_core_v1_pod_resource_claim_status *st =
            &p->status.resource_claim_statuses.p[i];

        if (!bh_str_eq(st->name, ref->name))
            continue;
        *ret = st->resource_claim_name;
        return st->has_resource_claim_name ? REF_NAME : REF_NOT_NEEDED;
    }
    return REF_NONE_YET;
}

bool sched_owned_by(const struct bh_meta_v1_object_meta *m, struct bh_str uid)
{
    for (size_t i = 0; i < m->owner_references.n; i++)
        if (m->owner_references.p[i].controller && bh_str_eq(m->owner_references.p[i].uid, uid))
            return true;
    return false;
}

/* The claim of one entry: NULL with *why when it is not there, NULL without when none is needed. */
static struct bh_obj *find_claim(struct bh_scheduler *s, const struct spod *pod,
                                 const struct bh_core_v1_pod_resource_claim *ref,
                                 struct bh_arena *a, struct bh_str *why)
{
    struct bh_str name = {NULL, 0};
    struct bh_obj *o;

    *why = (struct bh_str){NULL, 0};
    switch (claim_name(pod->p, ref, &name)) {
    case REF_NOT_NEEDED:
        return NULL;
    case REF_NONE_YET:
        *why = bh_str_fmt(a, "pod \"%.*s/%.*s\": ResourceClaim not created yet",
                          BH_SF(pod->obj->ns), BH_SF(pod->obj->name));
        return NULL;
    case REF_NAME:
        break;
    }
    o = bh_informer_get(s->inf_claims, pod->obj->ns, name);
    if (!o) {
        *why = bh_str_fmt(a, "resourceclaim.resource.k8s.io \"%.*s\" not found", BH_SF(name));
        return NULL;
    }
    if (o->deleting) {
        *why = bh_str_fmt(a, "resourceclaim \"%.*s\" is being deleted", BH_SF(name));
        return NULL;
    }
    if (!ref->has_resource_claim_name) {
        const struct bh_resource_v1_resource_claim *c = bh_obj_struct(o);

        if (!sched_owned_by(&c->metadata, pod->obj->uid)) {
            *why = bh_str_fmt(a,
                              "ResourceClaim %.*s/%.*s was not created for pod %.*s/%.*s (pod is "
                              "not owner)",
                              BH_SF(o->ns), BH_SF(o->name), BH_SF(pod->obj->ns),
                              BH_SF(pod->obj->name));
            return NULL;
        }
    }
    return o;
}

bool sched_claims_there(struct bh_scheduler *s, const struct spod *pod, struct bh_arena *a,
                        struct bh_str *why)
{
    for (size_t i = 0; i < pod->p->spec.resource_claims.n; i++) {
        struct bh_str w;

        (void)find_claim(s, pod, &pod->p->spec.resource_claims.p[i], a, &w);
        if (w.n) {
            if (why)
                *why = w;
            return false;
        }
    }
    return true;
}

bool sched_claim_named(const struct bh_core_v1_pod *p, size_t i, struct bh_str *ret)
{
    return claim_name(p, &p->spec.resource_claims.p[i], ret) == REF_NAME;
}

static bool refuse(struct cycle *c, struct bh_str text)
{
    c->prefilter_msg = text;
    c->rejected_by |= 1u << PL_DYNAMIC_RESOURCES;
    return false;
}

static bool class_there(struct cycle *c, struct bh_str class, struct bh_str request)
{
    if (bh_dra_class(c->s->model, class))
        return true;
    return refuse(c, bh_str_fmt(c->a, "request %.*s: device class %.*s does not exist",
                                BH_SF(request), BH_SF(class)));
}

static bool check_requests(struct cycle *c, const struct bh_resource_v1_resource_claim *cl)
{
    for (size_t i = 0; i < cl->spec.devices.requests.n; i++) {
        const struct bh_resource_v1_device_request *r = &cl->spec.devices.requests.p[i];

        if (r->exactly && !class_there(c, r->exactly->device_class_name, r->name))
            return false;
        for (size_t k = 0; k < r->first_available.n; k++) {
            const struct bh_resource_v1_device_sub_request *sub = &r->first_available.p[k];

            if (!class_there(c, sub->device_class_name,
                             bh_str_fmt(c->a, "%.*s/%.*s", BH_SF(r->name), BH_SF(sub->name))))
                return false;
        }
        if (!r->exactly && !r->first_available.n)
            return refuse(c, bh_str_fmt(c->a,
                                        "resource claim %.*s/%.*s, request %.*s: unknown request "
                                        "type",
                                        BH_SF(cl->metadata.namespace), BH_SF(cl->metadata.name),
                                        BH_SF(r->name)));
    }
    return true;
}

/* ---- device states that binding waits for ---- */

static const struct bh_meta_v1_condition *
device_condition(const struct bh_resource_v1_allocated_device_status *d, struct bh_str type)
{
    for (size_t i = 0; i < d->conditions.n; i++)
        if (bh_str_eq(d->conditions.p[i].type, type) &&
            bh_str_eqc(d->conditions.p[i].status, "True"))
            return &d->conditions.p[i];
    return NULL;
}

/* The status of exactly this share; a driver that tells devices apart only writes none. */
static const struct bh_resource_v1_allocated_device_status *
device_status(const struct bh_resource_v1_resource_claim *c,
              const struct bh_resource_v1_device_request_allocation_result *r)
{
    const struct bh_resource_v1_allocated_device_status *whole = NULL;

    for (size_t i = 0; i < c->status.devices.n; i++) {
        const struct bh_resource_v1_allocated_device_status *d = &c->status.devices.p[i];

        if (!bh_str_eq(d->driver, r->driver) || !bh_str_eq(d->pool, r->pool) ||
            !bh_str_eq(d->device, r->device))
            continue;
        if (d->has_share_id && r->has_share_id && bh_str_eq(d->share_id, r->share_id))
            return d;
        if (!d->has_share_id)
            whole = d;
    }
    return whole;
}

enum binding_state sched_binding_state(const struct bh_resource_v1_resource_claim *c,
                                       const struct bh_meta_v1_condition **ret_failure)
{
    enum binding_state st = BINDING_NONE;

    if (!c->status.allocation)
        return BINDING_NONE;
    for (size_t i = 0; i < c->status.allocation->devices.results.n; i++) {
        const struct bh_resource_v1_device_request_allocation_result *r =
            &c->status.allocation->devices.results.p[i];
        const struct bh_resource_v1_allocated_device_status *d;
        bool ready = true;

        if (!r->binding_conditions.n)
            continue;
        d = device_status(c, r);
        for (size_t k = 0; d && k < r->binding_failure_conditions.n; k++) {
            *ret_failure = device_condition(d, r->binding_failure_conditions.p[k]);
            if (*ret_failure)
                return BINDING_FAILED;
        }
        for (size_t k = 0; k < r->binding_conditions.n; k++)
            ready = ready && d && device_condition(d, r->binding_conditions.p[k]);
        if (!ready)
            st = BINDING_PENDING;
        else if (st == BINDING_NONE)
            st = BINDING_READY;
    }
    return st;
}

static bool timed_out(const struct cycle *c, const struct bh_resource_v1_resource_claim *cl)
{
    struct bh_time t = cl->status.allocation->allocation_timestamp;

    return !bh_time_is_zero(t) &&
           t.sec + c->prof->binding_timeout_s < bh_loop_wall_ns(c->s->loop) / 1000000000;
}

/* ---- the attempt ---- */

static bool look_up(struct cycle *c, const struct bh_core_v1_pod_resource_claim *ref)
{
    struct pod_claim *k = &c->claims[c->claims_n];
    const struct bh_meta_v1_condition *failure;
    enum binding_state st;
    struct bh_str why;

    k->obj = find_claim(c->s, c->pod, ref, c->a, &why);
    if (why.n)
        return refuse(c, why);
    if (!k->obj)
        return true;
    c->claims_n++;
    k->c = bh_obj_struct(k->obj);
    k->allocated = k->c->status.allocation != NULL;
    k->ask_at = -1;
    for (size_t r = 0; r < k->c->status.reserved_for.n; r++)
        k->mine |= bh_str_eq(k->c->status.reserved_for.p[r].uid, c->pod->obj->uid);
    k->alloc = k->c->status.allocation;
    if (k->allocated && sched_gives_back(c->s, k->obj))
        return refuse(c, bh_str_fmt(c->a,
                                    "resource claim %.*s/%.*s is in the process of being "
                                    "deallocated",
                                    BH_SF(k->obj->ns), BH_SF(k->obj->name)));
    if (sched_releases(c->s, k->obj, c->pod->obj))
        return refuse(c, bh_str_fmt(c->a,
                                    "resource claim %.*s/%.*s is in the process of being released",
                                    BH_SF(k->obj->ns), BH_SF(k->obj->name)));
    if (k->allocated) {
        st = sched_binding_state(k->c, &failure);
        k->broken = st == BINDING_FAILED || (st == BINDING_PENDING && timed_out(c, k->c));
        return true;
    }
    for (size_t i = 0; i < c->pending_n; i++)
        if (bh_str_eq(c->pending[i].uid, k->obj->uid)) {
            k->allocated = k->pending = true;
            k->alloc = c->pending[i].alloc;
            return true;
        }
    k->alloc = sched_bind_allocating(c->s, k->obj->uid);
    if (k->alloc) {
        k->allocated = k->pending = true;
        return true;
    }
    if (bh_dra_is_reserved(c->s->model, k->obj->uid))
        return refuse(c, bh_str_fmt(c->a,
                                    "resource claim %.*s/%.*s is in the process of being "
                                    "allocated",
                                    BH_SF(k->obj->ns), BH_SF(k->obj->name)));
    if (!check_requests(c, k->c))
        return false;
    k->ask_at = (int)c->unallocated_n;
    c->unallocated[c->unallocated_n++] = k->c;
    return true;
}

bool sched_claims_prefilter(struct cycle *c)
{
    const struct bh_core_v1_pod_resource_claim_vec *refs = &c->pod->p->spec.resource_claims;
    bool ext;

    if (!(c->prof->on[PT_FILTER] & 1u << PL_DYNAMIC_RESOURCES))
        return true;
    ext = sched_ext_prefilter(c);
    if (!refs->n && !ext)
        return true;
    c->claims = bh_new_n(c->a, struct pod_claim, refs->n);
    c->unallocated = bh_new_n(c->a, const struct bh_resource_v1_resource_claim *, refs->n);
    for (size_t i = 0; i < refs->n; i++)
        if (!look_up(c, &refs->p[i]))
            return false;
    c->dra_state = c->claims_n > 0 || ext;
    c->unavailable = bh_new_n(c->a, bool, c->claims_n);
    if (ext)
        c->ext_leftover = sched_ext_leftover(c);
    if (c->unallocated_n && !ext)
        c->ask = bh_dra_ask_new(c->s->model, c->unallocated, c->unallocated_n, c->a);
    return true;
}

/* The claims to be allocated on nodes where these extended resources are served by devices. */
static struct ask_set *set_of(struct cycle *c, uint64_t mask)
{
    struct ask_set *set;

    for (set = c->sets; set; set = set->next)
        if (set->mask == mask)
            return set;
    set = bh_new(c->a, struct ask_set);
    set->mask = mask;
    set->next = c->sets;
    c->sets = set;
    set->claims =
        bh_new_n(c->a, const struct bh_resource_v1_resource_claim *, c->unallocated_n + 1);
    for (size_t i = 0; i < c->unallocated_n; i++)
        set->claims[set->n++] = c->unallocated[i];
    if (mask) {
        const struct ext_claim *e = sched_ext_claim(c, mask);

        if (e->claim.spec.devices.requests.n) {
            set->ext = e;
            set->claims[set->n++] = &e->claim;
        }
    }
    if (c->ask && !mask)
        set->ask = c->ask;
    else if (set->n)
        set->ask = bh_dra_ask_new(c->s->model, set->claims, set->n, c->a);
    return set;
}

/* Allocated claims of the pod on this node. */
static enum verdict filter_allocated(struct cycle *c, struct snode *n)
{
    bool unavailable = false;

    for (size_t i = 0; i < c->claims_n; i++) {
        const struct pod_claim *k = &c->claims[i];
        const struct bh_core_v1_node_selector *sel;
        int r;

        if (!k->allocated)
            continue;
        sel = k->alloc->node_selector;
        r = sel ? bh_node_selector_match(sel, n->name, &n->obj->labels, &c->err) : 1;
        if (r < 0) {
            (void)sched_error(c, PL_DYNAMIC_RESOURCES, "%s", c->err.msg);
            return V_ERROR;
        }
        if (r == 0 || k->broken)
            unavailable = c->unavailable[i] = true;
    }
    if (unavailable)
        return sched_fail(c, PL_DYNAMIC_RESOURCES, V_UNRESOLVABLE, R_CLAIM_NODE);
    return V_OK;
}

struct bh_dra_opts sched_claims_options(struct cycle *c, const struct snode *n)
{
    sched_holds_look(c, n);
    return (struct bh_dra_opts){.scoring =
                                    c->s->opts.device_scoring_off ? BH_DRA_FIRST_FIT : BH_DRA_PACK,
                                .steps_max = c->dra_work > ATTEMPT_STEPS ? FEW_STEPS : 0,
                                .released = c->released,
                                .released_n = c->released_n,
                                .held = c->held,
                                .held_n = c->held_n};
}

bool sched_claims_allocated_fit(struct cycle *c, struct snode *n)
{
    return filter_allocated(c, n) == V_OK;
}

/* The devices of the unallocated claims on this node, or that they are there. */
static enum verdict filter_devices(struct cycle *c, struct snode *n, bool native,
                                   struct candidate *ret)
{
    struct bh_dra_opts o = sched_claims_options(c, n);
    bool supposed = o.released_n || o.held_n;
    enum verdict no_devices = c->s->opts.device_scoring_off ? V_UNRESOLVABLE : V_DEVICES;
    struct ask_set *set = set_of(c, sched_ext_mask(c, n));
    struct bh_err err = {0};

    if (set->mask && c->ext_leftover)
        return sched_fail_text(c, PL_DYNAMIC_RESOURCES, V_UNRESOLVABLE,
                               BH_S("cannot schedule extended resource claim"));
    ret->set = set;
    /* Which devices an equal ask would get is asked again if this becomes the node. */
    if (set->ask &&
        (supposed || native || !bh_dra_ask_recall(set->ask, n->name, o.scoring, &ret->dra))) {
        enum bh_dra_outcome out;

        if (!o.released_n && !bh_dra_ask_may_fit(set->ask, n->name))
            return sched_fail(c, PL_DYNAMIC_RESOURCES, no_devices, R_CLAIMS);
        out = bh_dra_allocate(set->ask, n->name, &o, c->a, &ret->dra, &err);
        c->dra_work += ret->dra.work;
        c->dra_cut |= out == BH_DRA_SPENT && o.steps_max && !supposed; /* else it stays so */
        switch (out) {
        case BH_DRA_OK:
            break;
        case BH_DRA_NO_SOLUTION:
            return sched_fail(c, PL_DYNAMIC_RESOURCES, no_devices, R_CLAIMS);
        case BH_DRA_NODE_ERROR:
        case BH_DRA_SPENT:
            return sched_fail_text(c, PL_DYNAMIC_RESOURCES, V_UNRESOLVABLE, bh_s(err.msg));
        case BH_DRA_FATAL:
            (void)sched_error(c, PL_DYNAMIC_RESOURCES, "%s", err.msg);
            return V_ERROR;
        }
    }
    return V_OK;
}

enum verdict sched_claims_filter(struct cycle *c, struct snode *n, struct candidate *ret)
{
    bool native = bh_dra_any_native(c->s->model);
    enum verdict v = n->native_n ? sched_native_shared(c, n) : V_OK;

    if (v == V_OK)
        v = filter_devices(c, n, native, ret);
    if (v == V_OK && native)
        v = sched_native_filter(c, n, ret);
    return v == V_OK && c->claims_n ? filter_allocated(c, n) : v;
}

bool sched_claims_settle(struct cycle *c, struct candidate *k)
{
    struct bh_dra_opts o;
    struct bh_err err = {0};

    if (!k->set || !k->set->ask || k->dra.allocations)
        return true;
    o = sched_claims_options(c, k->node);
    o.steps_max = 0; /* it is known to have them */
    if (bh_dra_allocate(k->set->ask, k->node->name, &o, c->a, &k->dra, &err) == BH_DRA_OK)
        return true;
    (void)sched_error(c, PL_DYNAMIC_RESOURCES, "devices of node %.*s: %s", BH_SF(k->node->name),
                      err.msg);
    return false;
}

bool sched_claims_reserve(struct cycle *c, struct candidate *k)
{
    if (!sched_claims_settle(c, k))
        return false;
    if (k->set && k->set->ask)
        bh_dra_ask_took(k->set->ask, k->node->name);
    for (size_t i = 0; k->set && i < k->set->n; i++) {
        struct bh_err err = {0};

        if (bh_dra_reserve(c->s->model, k->set->claims[i], &k->dra.allocations[i], &err) == 0)
            continue;
        while (i-- > 0)
            bh_dra_unreserve(c->s->model, k->set->claims[i]->metadata.uid);
        (void)sched_error(c, PL_DYNAMIC_RESOURCES, "%s", err.msg);
        return false;
    }
    return true;
}

void sched_claims_unreserve(struct cycle *c, const struct candidate *k)
{
    for (size_t i = 0; k->set && i < k->set->n; i++)
        bh_dra_unreserve(c->s->model, k->set->claims[i]->metadata.uid);
}

/* ---- when no node fits ---- */

/* Gives one allocation back that nobody else uses and that keeps the pod from every node. */
static bool deallocate(struct cycle *c)
{
    for (size_t i = 0; i < c->claims_n; i++) {
        const struct bh_resource_v1_resource_claim *cl = c->claims[i].c;
        size_t others = 0;

        if (!c->unavailable[i] || c->claims[i].pending)
            continue;
        for (size_t k = 0; k < cl->status.reserved_for.n; k++)
            others += !bh_str_eq(cl->status.reserved_for.p[k].uid, c->pod->obj->uid);
        if (others)
            continue;
        sched_give_back(c->s, c->claims[i].obj);
        return true;
    }
    return false;
}

struct bh_str sched_claims_postfilter(struct cycle *c)
{
    if (!c->dra_state)
        return BH_S("no new claims to deallocate");
    if (deallocate(c))
        return BH_S("deallocation of ResourceClaim completed");
    if (c->ext_leftover) {
        sched_claim_remove(c->s, c->ext_leftover);
        return BH_S("deletion of ResourceClaim completed");
    }
    return BH_S("still not schedulable");
}

/* A reservation of ours is stored: should the informer miss the version in which it stood (a lost
 * watch) and see a later one without it, the reservation ends by this record. */
void sched_claim_written(struct bh_scheduler *s, const struct bh_obj *o)
{
    struct written *w = bh_map_get(&s->written, o->uid);
    const struct bh_obj *cur = bh_informer_get(s->inf_claims, o->ns, o->name);

    if (!bh_dra_is_reserved(s->model, o->uid))
        return; /* confirmed already */
    if (!w) {
        w = bh_calloc(1, sizeof(*w));
        (void)bh_map_put(&s->written, o->uid, w);
    }
    w->rv = o->rv;
    /* The informer may know of what came after our write before its answer came. */
    if (cur && bh_str_eq(cur->uid, o->uid))
        sched_claim_settle(s, cur);
}
