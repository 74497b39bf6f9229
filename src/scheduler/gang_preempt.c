/* Whom it takes that a group fits, when no member can be helped on its own.
 *
 * All pods that are less important than every member are taken off for the trial, and the claims of
 * which no consumer is left count as released. If the group then finds places, the others are put
 * back one by one, the most important first and those whose loss would break a budget before all
 * others: who can stay beside the group, here or in other places, stays. The rest are the victims.
 * When the budget of the search is spent, who stays has to fit beside the places found until then.
 *
 * A victim that is a member of another group goes alone, as upstream without
 * WorkloadAwarePreemption.
 */
#include <stdlib.h>
#include <string.h>

#include "api/engine.h"
#include "data/time_fmt.h"
#include "scheduler/gang_int.h"
#include "scheduler/preempt_int.h"

#define PODS_MAX 20000 /* that are taken off; nodes beyond keep theirs */

/* A claim of pods that were taken off. */
struct freed {
    struct bh_str uid;
    const struct bh_resource_v1_resource_claim *c;
    bool out; /* counts as released */
};

struct low {
    struct spod *pod;
    struct snode *node; /* its own */
    struct freed **claims;
    size_t claims_n;
};

/* Where a member was found to fit, by itself: the search may go on. */
struct seat {
    struct snode *node;
    const struct bh_resource_v1_resource_claim **claims;
    struct bh_resource_v1_allocation_result *allocations;
    size_t n;
    /* What these take of the node's own resources; NULL: nothing. */
    const struct bh_core_v1_node_allocatable_resource_claim_status_vec *native;
};

struct order {
    struct snode *node;
    struct spod **pods;
    uint32_t n;
};

struct sweep {
    struct attempt *t;
    struct bh_arena *a;
    struct low *low;
    size_t n;
    struct order *orders; /* of the nodes that pods were taken off */
    size_t orders_n;
    struct bh_map freed;           /* claim uid -> struct freed */
    struct seat *seats;            /* by member; node NULL: none */
    struct pending_claim *pending; /* all that they allocate */
    size_t pending_n;
    struct bh_arena *look;
};

/* ---- claims ---- */

static struct freed *freed_of(struct sweep *w, struct bh_str ns, struct bh_str name)
{
    struct bh_obj *o = bh_informer_get(w->t->s->inf_claims, ns, name);
    const struct bh_resource_v1_resource_claim *c = o ? bh_obj_struct(o) : NULL;
    struct freed *f;

    if (o && bh_dra_is_reserved(w->t->s->model, o->uid)) {
        w->t->m[0].pod->holders_bind = true;
        return NULL;
    }
    if (!c || !c->status.allocation)
        return NULL;
    f = bh_map_get(&w->freed, o->uid);
    if (f)
        return f;
    f = bh_new(w->a, struct freed);
    f->uid = o->uid;
    f->c = c;
    (void)bh_map_put(&w->freed, f->uid, f);
    return f;
}

static void read_claims(struct sweep *w, struct low *l)
{
    const struct bh_core_v1_pod *p = l->pod->p;
    size_t n = p->spec.resource_claims.n;
    struct freed *f;

    l->claims = bh_new_n(w->a, struct freed *, n + 1);
    for (size_t i = 0; i < n; i++) {
        struct bh_str name;

        f = sched_claim_named(l->pod->p, i, &name) ? freed_of(w, l->pod->obj->ns, name) : NULL;
        if (f)
            l->claims[l->claims_n++] = f;
    }
    if (p->status.extended_resource_claim_status) {
        f = freed_of(w, l->pod->obj->ns,
                     p->status.extended_resource_claim_status->resource_claim_name);
        if (f)
            l->claims[l->claims_n++] = f;
    }
}

/* Whether no consumer is left. */
static bool unused(const struct sweep *w, const struct freed *f)
{
    for (size_t i = 0; i < f->c->status.reserved_for.n; i++)
        if (!sched_consumer_off(w->t->s, &f->c->status.reserved_for.p[i], NULL, w->t->g))
            return false;
    return f->c->status.reserved_for.n > 0;
}

/* ---- pods ---- */

static void take_off(struct sweep *w, struct low *l)
{
    sched_node_del_pod(w->t->s, l->pod);
    for (size_t i = 0; i < l->claims_n; i++) {
        struct freed *f = l->claims[i];

        if (f->out || !unused(w, f))
            continue;
        f->out = true;
        bh_dra_suppose_released(w->t->s->model, &f->uid, 1);
    }
}

/* False: the group has devices of its, and it stays off. With force it comes back in any case. */
static bool put_back(struct sweep *w, struct low *l, bool force)
{
    sched_node_add_pod(w->t->s, l->node, l->pod);
    for (size_t i = 0; i < l->claims_n; i++) {
        struct freed *f = l->claims[i];

        if (!f->out)
            continue;
        if (!bh_dra_suppose_back(w->t->s->model, &f->uid, 1, force)) {
            take_off(w, l); /* the claims before this one, too */
            return false;
        }
        f->out = false;
    }
    return true;
}

static bool is_off(const struct low *l)
{
    return !l->pod->node;
}

/* The most important first: by priority, then who runs longest; one that did not start is the
 * newest. */
static int by_importance(const void *x, const void *y)
{
    const struct spod *a = ((const struct low *)x)->pod, *b = ((const struct low *)y)->pod;
    struct bh_time sa = a->p->status.start_time, sb = b->p->status.start_time;

    if (a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    if (bh_time_is_zero(sa) != bh_time_is_zero(sb))
        return bh_time_is_zero(sa) ? 1 : -1;
    if (bh_time_cmp(sa, sb) != 0)
        return bh_time_cmp(sa, sb);
    return bh_str_cmp(a->obj->uid, b->obj->uid);
}

/* Those whose loss breaks a budget come before all others; how many. */
static size_t read_budgets(struct sweep *w)
{
    struct sched_budget *b = NULL;
    size_t n = sched_budgets_read(w->t->s, w->a, &b), k = 0, breaking;
    int64_t *left = bh_new_n(w->a, int64_t, n);
    struct low *sorted = bh_new_n(w->a, struct low, w->n);
    bool *breaks = bh_new_n(w->a, bool, w->n);

    for (size_t i = 0; i < n; i++)
        left[i] = b[i].allowed;
    for (size_t i = 0; i < w->n; i++)
        breaks[i] = sched_breaks_budget(b, n, w->low[i].pod, left);
    for (size_t i = 0; i < w->n; i++)
        if (breaks[i])
            sorted[k++] = w->low[i];
    breaking = k;
    for (size_t i = 0; i < w->n; i++)
        if (!breaks[i])
            sorted[k++] = w->low[i];
    w->low = sorted;
    return breaking;
}

static bool gather(struct sweep *w)
{
    struct bh_scheduler *s = w->t->s;
    int32_t least = INT32_MAX;
    size_t cap = 0;

    for (size_t i = 0; i < w->t->n; i++) {
        const struct spod *pod = w->t->m[i].pod;

        if (pod->priority < least)
            least = pod->priority;
        if (!(pod->prof->on[PT_POST_FILTER] & 1u << PL_PREEMPTION) ||
            (pod->p->spec.has_preemption_policy &&
             bh_str_eqc(pod->p->spec.preemption_policy, "Never")))
            return false;
    }
    w->orders = bh_new_n(w->a, struct order, s->nodes.n);
    for (uint32_t i = 0; i < s->nodes.n && w->n < PODS_MAX; i++) {
        struct snode *n = s->nodes.p[(s->start + i) % s->nodes.n];
        struct order *o = &w->orders[w->orders_n];
        size_t was = w->n;

        o->node = n;
        o->n = n->pods.n;
        o->pods = bh_new_n(w->a, struct spod *, o->n + 1);
        for (uint32_t k = 0; k < n->pods.n; k++) {
            struct spod *pod = o->pods[k] = n->pods.p[k];

            if (pod->priority >= least || pod->gang == w->t->g)
                continue;
            bh_arena_grow(w->a, &w->low, &cap, w->n + 1, sizeof(*w->low));
            w->low[w->n++] = (struct low){.pod = pod, .node = n};
        }
        w->orders_n += w->n > was;
    }
    return w->n > 0;
}

/* ---- places ---- */

static const struct bh_resource_v1_resource_claim *
lasting(struct bh_arena *a, const struct bh_resource_v1_resource_claim *c)
{
    struct bh_resource_v1_resource_claim *r = bh_new(a, struct bh_resource_v1_resource_claim);

    r->metadata.uid = bh_str_dup(a, c->metadata.uid);
    r->metadata.name = bh_str_dup(a, c->metadata.name);
    r->metadata.namespace = bh_str_dup(a, c->metadata.namespace);
    return r;
}

static void seats_note(struct sweep *w)
{
    struct attempt *t = w->t;
    size_t cap = 0;

    w->seats = bh_new_n(w->a, struct seat, t->n);
    w->pending = NULL;
    w->pending_n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct member *m = &t->m[i];
        struct seat *s = &w->seats[i];
        const struct ask_set *set = m->place.set;

        if (!m->k)
            continue;
        s->node = m->place.node;
        s->native = m->place.native ? &sched_native_status(m->place.native, w->a)
                                           ->node_allocatable_resource_claim_statuses
                                    : NULL;
        s->n = set ? set->n : 0;
        s->claims = bh_new_n(w->a, const struct bh_resource_v1_resource_claim *, s->n);
        s->allocations = bh_new_n(w->a, struct bh_resource_v1_allocation_result, s->n);
        for (size_t k = 0; k < s->n; k++) {
            s->claims[k] = lasting(w->a, set->claims[k]);
            bh_msg_copy(&bh_resource_v1_allocation_result_type, &s->allocations[k],
                        &m->place.dra.allocations[k], w->a);
            bh_arena_grow(w->a, &w->pending, &cap, w->pending_n + 1, sizeof(*w->pending));
            w->pending[w->pending_n++] =
                (struct pending_claim){m->pod, s->claims[k]->metadata.uid, &s->allocations[k]};
        }
    }
}

static void seat_leave(struct sweep *w, size_t i)
{
    struct seat *s = &w->seats[i];

    if (!s->node)
        return;
    sched_node_del_pod(w->t->s, w->t->m[i].pod);
    gang_charge(w->t->s, w->t->m[i].pod, NULL);
    for (size_t k = 0; k < s->n; k++)
        bh_dra_unreserve(w->t->s->model, s->claims[k]->metadata.uid);
}

static void seat_take(struct sweep *w, size_t i)
{
    struct seat *s = &w->seats[i];
    struct bh_err err = {0};

    if (!s->node)
        return;
    gang_charge(w->t->s, w->t->m[i].pod, s->native);
    sched_node_add_pod(w->t->s, s->node, w->t->m[i].pod);
    for (size_t k = 0; k < s->n; k++)
        if (bh_dra_reserve(w->t->s->model, s->claims[k], &s->allocations[k], &err) < 0)
            bh_assert(!"devices that a member had are somebody else's");
}

static void seats_leave(struct sweep *w)
{
    for (size_t i = w->t->n; i-- > 0;)
        seat_leave(w, i);
}

static void seats_take(struct sweep *w)
{
    for (size_t i = 0; i < w->t->n; i++)
        seat_take(w, i);
}

/* The search of the whole group with things as they are; the places it finds are noted and taken.
 */
static bool look_anew(struct sweep *w)
{
    if (!gang_search_supposed(w->t))
        return false;
    seats_note(w);
    gang_search_undo(w->t);
    seats_take(w);
    return true;
}

/* Whether the member would still fit its node with the devices that it has. */
static bool still_fits(struct sweep *w, size_t i)
{
    struct spod *pod = w->t->m[i].pod;
    struct cycle c = {
        .s = w->t->s, .pod = pod, .prof = pod->prof, .a = w->look, .quiet = true, .in_gang = true};
    bool fits;

    w->t->work += pod->terms ? w->t->s->nodes.n : 2;
    seat_leave(w, i);
    gang_charge(w->t->s, pod, w->seats[i].native);
    fits = sched_prefilter(&c) && sched_filter(&c, w->seats[i].node) == V_OK;
    seat_take(w, i);
    bh_arena_reset(w->look);
    return fits;
}

static bool loose(const struct spod *pod)
{
    return pod->terms || pod->p->spec.topology_spread_constraints.n || pod->has_pvc ||
           pod->has_disks;
}

/* Whether one more pod on a node leaves all members where they are. */
static bool all_stay(struct sweep *w, const struct low *l)
{
    for (size_t i = 0; i < w->t->n; i++) {
        bool far = loose(l->pod) || loose(w->t->m[i].pod);

        if (!w->seats[i].node || (w->seats[i].node != l->node && !far))
            continue;
        if ((far && w->t->work > GANG_WORK_MAX) || !still_fits(w, i))
            return false;
    }
    return true;
}

/* Puts it back if the group fits all the same; else it stays off. */
static void reprieve(struct sweep *w, struct low *l)
{
    struct sweep was = *w;

    if (put_back(w, l, false)) {
        if (all_stay(w, l))
            return;
        take_off(w, l);
    }
    if (w->t->spent) /* other places are not looked for any more */
        return;
    seats_leave(w);
    (void)put_back(w, l, true);
    if (look_anew(w))
        return;
    take_off(w, l);
    w->seats = was.seats;
    w->pending = was.pending;
    w->pending_n = was.pending_n;
    seats_take(w);
}

/* ---- the whole ---- */

/* Victims go with the member that comes to their node, so that each is told by whom. */
static struct victims *assign(struct sweep *w)
{
    struct attempt *t = w->t;
    struct victims *v = bh_new_n(t->a, struct victims, t->n);
    size_t first = t->n;

    for (size_t i = t->n; i-- > 0;) {
        if (!w->seats[i].node)
            continue;
        first = i;
        v[i].node = w->seats[i].node;
        v[i].k.dra.allocations = w->seats[i].allocations;
        v[i].k.dra.n = w->seats[i].n;
        v[i].p = bh_new_n(t->a, struct spod *, w->n);
    }
    for (size_t k = 0; k < w->n && first < t->n; k++) {
        size_t i = first;

        if (!is_off(&w->low[k]))
            continue;
        while (i < t->n && w->seats[i].node != w->low[k].node)
            i++;
        i = i < t->n ? i : first;
        v[i].p[v[i].n++] = w->low[k].pod;
    }
    return v;
}

/* ---- which is better ---- */

struct price {
    size_t breaks, n;
    int32_t top; /* the highest priority */
};

static struct price price_of(struct attempt *t, const struct victims *v)
{
    struct sweep w = {.t = t, .a = t->a};
    struct price p = {.top = INT32_MIN};
    size_t cap = 0;

    for (size_t i = 0; i < t->n; i++)
        for (size_t k = 0; k < v[i].n; k++) {
            bh_arena_grow(w.a, &w.low, &cap, w.n + 1, sizeof(*w.low));
            w.low[w.n++] = (struct low){.pod = v[i].p[k]};
        }
    p.n = w.n;
    if (!w.n)
        return p;
    qsort(w.low, w.n, sizeof(*w.low), by_importance);
    p.top = w.low[0].pod->priority;
    p.breaks = read_budgets(&w);
    return p;
}

/* As when nodes are compared: broken budgets, then the most important victim, then how many. */
static bool better(struct attempt *t, const struct victims *x, const struct victims *y)
{
    struct price a = price_of(t, x), b = price_of(t, y);

    if (a.breaks != b.breaks)
        return a.breaks < b.breaks;
    return a.top != b.top ? a.top < b.top : a.n < b.n;
}

static void restore(struct sweep *w)
{
    for (size_t i = w->n; i-- > 0;)
        if (is_off(&w->low[i]))
            (void)put_back(w, &w->low[i], true);
    for (size_t i = 0; i < w->orders_n; i++) /* who came first decides elsewhere: as it was */
        for (uint32_t k = 0; k < w->orders[i].n; k++) {
            w->orders[i].node->pods.p[k] = w->orders[i].pods[k];
            w->orders[i].pods[k]->node_at = k;
        }
}

bool gang_find_victims(struct attempt *t)
{
    struct sweep w = {.t = t, .a = t->a};
    struct victims *v = NULL;
    uint64_t before = t->work;
    bool found;

    t->s->preemptions++;
    if (!gather(&w))
        return false;
    qsort(w.low, w.n, sizeof(*w.low), by_importance);
    (void)read_budgets(&w);
    bh_dra_suppose(t->s->model, true);
    for (size_t i = 0; i < w.n; i++)
        read_claims(&w, &w.low[i]);
    for (size_t i = 0; i < w.n; i++)
        take_off(&w, &w.low[i]);
    w.look = bh_arena_new(0);
    t->work = 0;
    t->spent = false;
    found = look_anew(&w);
    for (size_t i = 0; found && i < w.n; i++)
        reprieve(&w, &w.low[i]);
    if (found) {
        v = assign(&w);
        seats_leave(&w);
    }
    t->work += before; /* it has to rest for both */
    restore(&w);
    bh_dra_suppose(t->s->model, false);
    (void)bh_arena_free(w.look);
    bh_map_done(&w.freed);
    if (found && (!t->v || better(t, v, t->v)))
        t->v = v;
    return found;
}
