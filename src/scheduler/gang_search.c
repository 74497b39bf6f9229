/* The search for places of a whole group: every member is tried on every node, and taken back where
 * the others then find none, until all have a place or nothing is left to try.
 *
 * The claims of members on one node are allocated together: where one more member finds no devices,
 * those of its siblings there are chosen anew, so that the allocator's own search decides and not
 * who came first. Devices that several nodes see, and claims that members share, are not moved so;
 * for these each of the devices is left out in turn.
 *
 * Members that are alike take their nodes in one order only, and what a node can hold of a kind is
 * found once and bounds the search: most groups that do not fit are seen not to before it begins.
 * The work is bounded; when it is spent the answer says so.
 */
#include <stdlib.h>
#include <string.h>

#include "api/engine.h"
#include "scheduler/gang_int.h"

#define WORK_CAPS   (GANG_WORK_MAX / 2)
#define WORK_KIND   8u /* to find out what kind a member is of */
#define WORK_DRA    8u /* an allocation, beside its steps */
#define STEPS_MAX   20000u
#define MEMBERS_MAX 512 /* more are placed one after the other only */
#define LEFT_OUT    3   /* devices that one member may be tried without */

struct kind {
    uint64_t key;
    size_t first, n;      /* members */
    bool loose;           /* others decide where it fits: nothing bounds it */
    struct snode **nodes; /* where one fits while no other member has a place */
    size_t nodes_n;
    uint32_t *cap;    /* how many fit there, at most */
    uint64_t *behind; /* sum of cap from there on */
    uint64_t weight;  /* what one asks for of such a node, in millionths, summed */
};

struct deep {
    struct attempt *t;
    struct member **m; /* kind by kind */
    size_t n;
    struct kind *kinds;
    size_t kinds_n;
    int32_t placed;
};

/* Devices that a member does without. */
struct without {
    const struct bh_resource_v1_allocation_result *p[LEFT_OUT];
    size_t n;
};

/* ---- kinds ---- */

static void mix(uint64_t *h, struct bh_str s)
{
    *h = (*h ^ bh_str_hash(s)) * 0x9e3779b97f4a7c15u;
    *h = (*h ^ s.n) * 0x9e3779b97f4a7c15u;
    *h ^= *h >> 29;
}

/* Pods of one kind can change places. */
static uint64_t kind_key(struct bh_scheduler *s, const struct spod *pod)
{
    struct bh_core_v1_pod_spec spec = pod->p->spec;
    BH_AUTO_BUF b = {.max = 1u << 20};
    uint64_t h = 1;

    memset(&spec.resource_claims, 0, sizeof(spec.resource_claims));
    bh_msg_encode_json(&bh_core_v1_pod_spec_type, &spec, &b);
    for (size_t i = 0; i < pod->p->spec.resource_claims.n; i++) {
        const struct bh_resource_v1_resource_claim *c;
        struct bh_str name;
        struct bh_obj *o = sched_claim_named(pod->p, i, &name)
                               ? bh_informer_get(s->inf_claims, pod->obj->ns, name)
                               : NULL;

        if (!o)
            continue;
        c = bh_obj_struct(o);
        if (c->status.allocation || pod->p->spec.resource_claims.p[i].has_resource_claim_name)
            mix(&h, o->uid); /* this one, and no other */
        bh_msg_encode_json(&bh_resource_v1_resource_claim_spec_type, &c->spec, &b);
    }
    for (size_t i = 0; i < pod->obj->labels.n; i++) {
        mix(&h, pod->obj->labels.p[i].key);
        mix(&h, pod->obj->labels.p[i].value);
    }
    mix(&h, bh_buf_str(&b));
    if (b.overflow)
        mix(&h, pod->obj->uid);
    return h;
}

static bool is_loose(const struct spod *pod)
{
    return pod->terms || pod->has_pvc || pod->has_disks ||
           pod->p->spec.topology_spread_constraints.n ||
           (pod->prof->default_spread && pod->prof->default_spread->n);
}

/* Whether a claim of it is named by another member, too. */
static bool shares(const struct attempt *t, const struct spod *pod)
{
    for (size_t i = 0; i < pod->p->spec.resource_claims.n; i++) {
        const struct bh_core_v1_pod_resource_claim *r = &pod->p->spec.resource_claims.p[i];

        for (size_t k = 0; r->has_resource_claim_name && k < t->n; k++) {
            const struct bh_core_v1_pod_resource_claim_vec *o =
                &t->m[k].pod->p->spec.resource_claims;

            for (size_t j = 0; t->m[k].pod != pod && j < o->n; j++)
                if (o->p[j].has_resource_claim_name &&
                    bh_str_eq(o->p[j].resource_claim_name, r->resource_claim_name))
                    return true;
        }
    }
    return false;
}

static int by_kind(const void *x, const void *y)
{
    const struct member *const *a = x, *const *b = y;

    if ((*a)->kind != (*b)->kind)
        return (*a)->kind < (*b)->kind ? -1 : 1;
    return *a < *b ? -1 : *a > *b;
}

static void sort_out(struct deep *d)
{
    struct attempt *t = d->t;

    d->n = t->n;
    d->m = bh_new_n(t->a, struct member *, t->n);
    d->kinds = bh_new_n(t->a, struct kind, t->n);
    for (size_t i = 0; i < t->n; i++) {
        struct member *m = &t->m[i];
        uint64_t key = kind_key(t->s, m->pod);
        size_t k = 0;

        while (k < d->kinds_n && d->kinds[k].key != key)
            k++;
        if (k == d->kinds_n)
            d->kinds[d->kinds_n++] =
                (struct kind){.key = key, .first = i, .loose = is_loose(m->pod)};
        d->kinds[k].n++;
        m->kind = k;
        m->shares = shares(t, m->pod);
        d->m[i] = m;
        if (!m->a)
            m->a = bh_arena_new(0);
    }
}

/* ---- one member on one node ---- */

/* Whether a claim that the member allocates is used by another one that has a place. */
static bool needed(const struct attempt *t, const struct member *m)
{
    for (size_t i = 0; i < t->n; i++)
        for (size_t k = 0; &t->m[i] != m && t->m[i].k && k < t->m[i].c.claims_n; k++)
            for (size_t j = 0; t->m[i].c.claims[k].pending && j < m->c.unallocated_n; j++)
                if (bh_str_eq(t->m[i].c.claims[k].obj->uid, m->c.unallocated[j]->metadata.uid))
                    return true;
    return false;
}

static void unreserve(struct member *const *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sched_claims_unreserve(&m[i]->c, &m[i]->place);
}

/* All of them, or none. */
static bool reserve(struct member *const *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!sched_claims_reserve(&m[i]->c, &m[i]->place)) {
            unreserve(m, i);
            return false;
        }
    return true;
}

/* Siblings on the node whose devices may be others as well, in m->moved. */
static size_t movable(struct attempt *t, struct member *m, const struct snode *n)
{
    size_t claims = 0;

    m->moved = bh_new_n(m->a, struct member *, t->n + 1);
    for (size_t i = 0; i < t->n; i++) {
        struct member *o = &t->m[i];

        if (!o->k || o->pod->node != n || !o->place.set || !o->place.set->n || needed(t, o))
            continue;
        m->moved[m->moved_n++] = o;
        claims += o->place.set->n;
    }
    return claims;
}

static void restore(struct attempt *t, struct member *m)
{
    for (size_t i = 0; i < m->moved_n; i++) {
        m->moved[i]->place.dra = m->moved_dra[i];
        gang_pending(t, m->moved[i]);
    }
    /* As it was before: nobody else was given anything meanwhile. */
    if (!reserve(m->moved, m->moved_n))
        bh_assert(!"devices that a member had are somebody else's");
    m->moved_n = 0;
}

/* Devices for the member and its siblings on the node, chosen together. True: all are reserved. */
static bool rearrange(struct attempt *t, struct member *m, struct snode *n)
{
    const struct bh_resource_v1_resource_claim **claims;
    size_t total = movable(t, m, n), at = 0;
    struct bh_dra_result res;
    struct bh_dra_opts o;
    struct bh_dra_ask *ask;
    struct bh_err err = {0};
    bool ok;

    if (!m->moved_n || !m->place.set || !m->place.set->n)
        return m->moved_n = 0, false;
    total += m->place.set->n;
    claims = bh_new_n(m->a, const struct bh_resource_v1_resource_claim *, total);
    m->moved_dra = bh_new_n(m->a, struct bh_dra_result, m->moved_n);
    m->moved[m->moved_n] = m;
    for (size_t i = 0; i <= m->moved_n; i++)
        for (size_t k = 0; k < m->moved[i]->place.set->n; k++)
            claims[at++] = m->moved[i]->place.set->claims[k];
    for (size_t i = 0; i < m->moved_n; i++)
        m->moved_dra[i] = m->moved[i]->place.dra;
    unreserve(m->moved, m->moved_n);
    ask = bh_dra_ask_new(t->s->model, claims, total, m->a);
    o = sched_claims_options(&m->c, n);
    o.steps_max = STEPS_MAX;
    ok = bh_dra_allocate(ask, n->name, &o, m->a, &res, &err) == BH_DRA_OK;
    t->work += WORK_DRA + res.work;
    at = 0;
    for (size_t i = 0; ok && i <= m->moved_n; i++) {
        struct candidate *p = &m->moved[i]->place;

        p->dra = res;
        p->dra.allocations = &res.allocations[at];
        p->dra.n = p->set->n;
        at += p->set->n;
    }
    for (size_t i = 0; ok && i < m->moved_n; i++)
        gang_pending(t, m->moved[i]);
    if (ok && reserve(m->moved, m->moved_n + 1))
        return true;
    restore(t, m);
    return false;
}

static bool fits(struct attempt *t, struct member *m, struct snode *n)
{
    enum verdict v = sched_filter(&m->c, n);

    t->work++;
    if (v == V_OK && m->c.dra_state) {
        t->work += WORK_DRA;
        v = sched_claims_filter(&m->c, n, &m->place);
        t->work += m->place.dra.work;
        /* What the filter did not come to in that case. Devices that stand for something of the
         * node would change what its pods ask: those stay as they are. */
        if (v == V_DEVICES && !bh_dra_any_native(t->s->model) &&
            sched_claims_allocated_fit(&m->c, n) &&
            (!m->c.features || sched_features_filter(&m->c, n) == V_OK))
            return rearrange(t, m, n);
    }
    if (v == V_OK && m->c.features)
        v = sched_features_filter(&m->c, n);
    return v == V_OK && sched_claims_reserve(&m->c, &m->place);
}

static bool sit(struct deep *d, struct member *m, struct snode *n, const struct without *x)
{
    struct attempt *t = d->t;

    bh_arena_reset(m->a);
    m->moved_n = 0;
    m->place = (struct candidate){.node = n};
    m->c = (struct cycle){.s = t->s,
                          .pod = m->pod,
                          .prof = m->pod->prof,
                          .a = m->a,
                          .quiet = true,
                          .in_gang = true,
                          .pending = t->pending,
                          .pending_n = t->pending_n};
    t->work += d->kinds[m->kind].loose ? 2 + t->s->nodes.n : 2;
    if (x && x->n) {
        m->c.held = bh_new_n(m->a, const struct bh_resource_v1_allocation_result *, LEFT_OUT);
        m->c.held_cap = LEFT_OUT;
        m->c.held_all = x->n;
        for (size_t i = 0; i < x->n; i++)
            m->c.held[i] = x->p[i];
    }
    if (t->work > GANG_WORK_MAX)
        t->spent = true;
    if (t->spent || !sched_prefilter(&m->c) || !fits(t, m, n))
        return false;
    gang_seat(t, m);
    d->placed++;
    return true;
}

static void rise(struct deep *d, struct member *m)
{
    gang_unseat(d->t, m);
    sched_claims_unreserve(&m->c, &m->place);
    if (m->moved_n) {
        unreserve(m->moved, m->moved_n);
        restore(d->t, m);
    }
    d->placed--;
}

/* ---- what bounds the search ---- */

static bool nodes_of(struct deep *d, struct kind *k)
{
    struct bh_scheduler *s = d->t->s;
    struct member *m = d->m[k->first];

    k->nodes = bh_new_n(d->t->a, struct snode *, s->nodes.n);
    for (uint32_t i = 0; i < s->nodes.n; i++) {
        struct snode *n = s->nodes.p[(s->start + i) % s->nodes.n];

        if (sit(d, m, n, NULL))
            rise(d, m);
        else if (!k->loose)
            continue;
        k->nodes[k->nodes_n++] = n;
    }
    return !d->t->spent;
}

static void caps_of(struct deep *d, struct kind *k)
{
    struct attempt *t = d->t;

    k->cap = bh_new_n(t->a, uint32_t, k->nodes_n + 1);
    k->behind = bh_new_n(t->a, uint64_t, k->nodes_n + 1);
    for (size_t i = 0; i < k->nodes_n; i++) {
        size_t got = 0;

        if (k->loose || t->work > WORK_CAPS) {
            k->cap[i] = (uint32_t)k->n;
            continue;
        }
        while (got < k->n && sit(d, d->m[k->first + got], k->nodes[i], NULL))
            got++;
        k->cap[i] = (uint32_t)got;
        while (got-- > 0)
            rise(d, d->m[k->first + got]);
    }
    /* Those that hold few first: the others may be needed by more. */
    for (size_t i = 1; i < k->nodes_n && !k->loose; i++)
        for (size_t j = i; j > 0 && k->cap[j] < k->cap[j - 1]; j--) {
            struct snode *n = k->nodes[j];
            uint32_t c = k->cap[j];

            k->nodes[j] = k->nodes[j - 1];
            k->cap[j] = k->cap[j - 1];
            k->nodes[j - 1] = n;
            k->cap[j - 1] = c;
        }
    for (size_t i = k->nodes_n; i-- > 0;)
        k->behind[i] = k->behind[i + 1] + k->cap[i];
}

/* As if its first node were all of them. */
static uint64_t weight_of(const struct deep *d, const struct kind *k)
{
    const struct spod *pod = d->m[k->first]->pod;
    uint64_t w = 0;

    for (uint32_t i = 0; k->nodes_n > 0 && i < pod->req_n; i++) {
        const struct res_amount *r = &pod->req[i];
        int64_t all =
            r->id < RES_FIXED ? k->nodes[0]->alloc[r->id] : sched_node_xalloc(k->nodes[0], r->id);

        if (all > 0 && r->v > 0)
            w += r->v < all ? (uint64_t)((double)r->v / (double)all * 1e6) : 1000000;
    }
    return w;
}

static int by_slack(const void *x, const void *y)
{
    const struct kind *a = x, *b = y;
    uint64_t sa = a->behind[0] - (a->behind[0] < a->n ? a->behind[0] : a->n);
    uint64_t sb = b->behind[0] - (b->behind[0] < b->n ? b->behind[0] : b->n);

    if (a->loose != b->loose)
        return a->loose ? 1 : -1;
    if (sa != sb)
        return sa < sb ? -1 : 1;
    /* The big ones first, which the small ones fit around; then those that came first. */
    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Finds where each kind can be at all, and how often. False: that is not enough, or spent. */
static bool survey(struct deep *d)
{
    int64_t possible = gang_placed(d->t);
    struct member **m;
    size_t at = 0;

    qsort(d->m, d->n, sizeof(struct member *), by_kind);
    for (size_t i = d->n; i-- > 0;)
        d->kinds[d->m[i]->kind].first = i;
    for (size_t i = 0; i < d->kinds_n; i++) {
        struct kind *k = &d->kinds[i];

        if (!nodes_of(d, k))
            return false;
        caps_of(d, k);
        k->weight = weight_of(d, k);
        possible += (int64_t)(k->behind[0] < k->n ? k->behind[0] : k->n);
    }
    if (possible < d->t->want)
        return false;
    /* Those with the least choice first. */
    qsort(d->kinds, d->kinds_n, sizeof(*d->kinds), by_slack);
    m = bh_new_n(d->t->a, struct member *, d->n);
    for (size_t i = 0; i < d->kinds_n; i++) {
        struct kind *k = &d->kinds[i];

        for (size_t j = 0; j < k->n; j++) {
            m[at + j] = d->m[k->first + j];
            m[at + j]->kind = i;
        }
        k->first = at;
        at += k->n;
    }
    d->m = m;
    return true;
}

/* ---- the search ---- */

static bool solve(struct deep *d, size_t i);

/* How many of the kind may still be placed at this node and behind it. */
static uint64_t room(const struct deep *d, size_t i, size_t at)
{
    const struct kind *k = &d->kinds[d->m[i]->kind];
    uint64_t here = 0;

    for (size_t j = i; j-- > k->first && d->m[j]->k && d->m[j]->at == at;)
        here++;
    return k->behind[at] - (here < k->cap[at] ? here : k->cap[at]);
}

/* Its devices that others than those of its node may want; or all, when siblings depend on them. */
static size_t alternatives(const struct deep *d, const struct member *m,
                           const struct bh_resource_v1_allocation_result ***ret)
{
    struct bh_arena *a = d->t->a;
    size_t n = 0, cap = 0;

    *ret = NULL;
    for (size_t i = 0; m->place.set && i < m->place.set->n; i++) {
        const struct bh_resource_v1_allocation_result *al = &m->place.dra.allocations[i];

        for (size_t k = 0; (m->shares || !sched_of_one_node(al)) && k < al->devices.results.n;
             k++) {
            struct bh_resource_v1_allocation_result *one =
                bh_new(a, struct bh_resource_v1_allocation_result);

            one->devices.results.p =
                bh_msg_dup(&bh_resource_v1_device_request_allocation_result_type,
                           &al->devices.results.p[k], a);
            one->devices.results.p->has_share_id = false; /* nothing of it */
            one->devices.results.p->has_admin_access = false;
            one->devices.results.n = 1;
            bh_arena_grow(a, ret, &cap, n + 1, sizeof(**ret));
            (*ret)[n++] = one;
        }
    }
    return n;
}

static bool try_at(struct deep *d, size_t i, struct snode *n, const struct without *x)
{
    struct member *m = d->m[i];
    const struct bh_resource_v1_allocation_result **alt = NULL;
    size_t alt_n = 0;

    if (!sit(d, m, n, x))
        return false;
    if (solve(d, i + 1))
        return true;
    if (x->n < LEFT_OUT && !d->t->spent)
        alt_n = alternatives(d, m, &alt);
    rise(d, m);
    for (size_t k = 0; k < alt_n && !d->t->spent; k++) {
        struct without y = *x;

        y.p[y.n++] = alt[k];
        if (try_at(d, i, n, &y))
            return true;
    }
    return false;
}

/* Members from i on. As deep as there are members, which are limited. */
static bool solve(struct deep *d, size_t i)
{
    const struct kind *k = i < d->n ? &d->kinds[d->m[i]->kind] : NULL;
    int32_t missing = d->t->want - gang_placed(d->t), others;
    size_t at = 0;

    if (missing <= 0)
        return true;
    if (!k || (int64_t)(d->n - i) < missing)
        return false;
    others = (int32_t)(d->n - k->first - k->n);
    if (i > k->first && !k->loose)
        at = d->m[i - 1]->at; /* those that are alike go in one order */
    for (; at < k->nodes_n && !d->t->spent; at++) {
        struct without none = {.n = 0};

        if (!k->loose && (int64_t)room(d, i, at) < (int64_t)missing - others)
            break;
        d->m[i]->at = at;
        if (try_at(d, i, k->nodes[at], &none))
            return true;
    }
    /* Without this one, and then without the rest that are like it. */
    return others >= missing && !d->t->spent && solve(d, k->first + k->n);
}

/* Those that need not have a place get one where there is still room. */
static void seat_rest(struct deep *d)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct kind *k = &d->kinds[d->m[i]->kind];

        for (size_t at = 0; !d->m[i]->k && at < k->nodes_n; at++)
            if (sit(d, d->m[i], k->nodes[at], NULL))
                break;
    }
}

bool gang_search_supposed(struct attempt *t)
{
    struct deep d = {.t = t};

    if (t->n > MEMBERS_MAX) {
        t->spent = true;
        return false;
    }
    t->pending_n = 0;
    t->work += WORK_KIND * t->n;
    sort_out(&d);
    if (!survey(&d) || !solve(&d, 0))
        return false;
    seat_rest(&d);
    t->spent = false;
    return true;
}

void gang_search_undo(struct attempt *t)
{
    for (size_t i = 0; i < t->n; i++) {
        if (!t->m[i].k)
            continue;
        sched_claims_unreserve(&t->m[i].c, &t->m[i].place);
        gang_unseat(t, &t->m[i]);
    }
    t->pending_n = 0;
}

bool gang_search(struct attempt *t)
{
    bool found, ok = true;

    bh_dra_suppose(t->s->model, true);
    found = gang_search_supposed(t);
    for (size_t i = 0; i < t->n; i++)
        if (t->m[i].k)
            sched_claims_unreserve(&t->m[i].c, &t->m[i].place);
    bh_dra_suppose(t->s->model, false);
    /* Now in earnest. */
    for (size_t i = 0; i < t->n; i++)
        if (t->m[i].k)
            ok &= sched_claims_reserve(&t->m[i].c, &t->m[i].place);
    if (ok)
        return found;
    gang_search_undo(t);
    return false;
}

void gang_search_done(struct attempt *t)
{
    for (size_t i = 0; i < t->n; i++)
        t->m[i].a = bh_arena_free(t->m[i].a);
}
