/* Pods that were sent away for another one, or for a gang: until they and their claims are gone,
 * nobody else is. Evictions are begun and not waited for; who does not begin to leave in time was
 * not reached, and whoever it was for looks again.
 */
#include "scheduler/sched_int.h"

#define BEGINS_MS 5000

struct away_claim {
    struct bh_str ns, name, uid;
};

struct sched_away {
    struct bh_link link; /* in s->aways */
    struct bh_scheduler *s;
    struct bh_arena *a;
    struct spod *pod; /* for whom: it, or the gang */
    struct gang *gang;
    bool late; /* those who have not begun to leave do not count any more */
    bool over; /* nothing is waited for any more, and that was told */
    struct bh_timer timer;
    struct bh_str *pods; /* uids */
    size_t n;
    struct away_claim *claims;
    size_t claims_n, claims_cap;
};

static void note_claim(struct sched_away *w, struct bh_str ns, struct bh_str name)
{
    const struct bh_obj *o = bh_informer_get(w->s->inf_claims, ns, name);

    if (!o)
        return;
    bh_arena_grow(w->a, &w->claims, &w->claims_cap, w->claims_n + 1, sizeof(*w->claims));
    w->claims[w->claims_n++] =
        (struct away_claim){bh_str_dup(w->a, ns), bh_str_dup(w->a, name), bh_str_dup(w->a, o->uid)};
}

static void note_pod(struct sched_away *w, const struct spod *pod)
{
    const struct bh_core_v1_pod *p = pod->p;
    struct bh_str name;

    w->pods[w->n++] = bh_str_dup(w->a, pod->obj->uid);
    for (size_t i = 0; i < p->spec.resource_claims.n; i++)
        if (sched_claim_named(p, i, &name))
            note_claim(w, pod->obj->ns, name);
    if (p->status.extended_resource_claim_status)
        note_claim(w, pod->obj->ns, p->status.extended_resource_claim_status->resource_claim_name);
}

/* Whether it is still on its node, and going. */
static bool leaves(const struct sched_away *w, struct bh_str uid, bool *ret_begun)
{
    const struct spod *pod = bh_map_get(&w->s->pods, uid);

    *ret_begun = !pod || !pod->node || pod->obj->deleting;
    return pod && pod->node && (pod->obj->deleting || !w->late);
}

bool sched_consumer_off(const struct bh_scheduler *s,
                        const struct bh_resource_v1_resource_claim_consumer_reference *r,
                        const struct spod *pod, const struct gang *g)
{
    const struct spod *o = bh_map_get(&s->pods, r->uid);

    if (!bh_str_eqc(r->resource, "pods"))
        return false;
    if (!o)
        return true;
    return !o->node && (o->where == POD_OFF || o->where == POD_BINDING) && o != pod &&
           !(g && o->gang == g);
}

/* Held by nobody who is left, and not given back. */
static bool left_behind(const struct sched_away *w, const struct away_claim *k)
{
    const struct bh_obj *o = bh_informer_get(w->s->inf_claims, k->ns, k->name);
    const struct bh_resource_v1_resource_claim *c = o ? bh_obj_struct(o) : NULL;

    if (!c || !bh_str_eq(o->uid, k->uid) || !c->status.allocation)
        return false;
    for (size_t i = 0; i < c->status.reserved_for.n; i++)
        if (!sched_consumer_off(w->s, &c->status.reserved_for.p[i], w->pod, w->gang))
            return false;
    return c->status.reserved_for.n > 0;
}

bool sched_away_waits(const struct sched_away *w)
{
    bool begun;

    for (size_t i = 0; w && i < w->n; i++)
        if (leaves(w, w->pods[i], &begun))
            return true;
    for (size_t i = 0; w && i < w->claims_n; i++)
        if (left_behind(w, &w->claims[i]))
            return true;
    return false;
}

static void look_again(struct sched_away *w)
{
    if (w->gang)
        sched_gang_wake(w->s, w->gang);
    else if (w->pod->where == POD_WAITING)
        sched_wake(w->s, w->pod);
}

static bool concerns(const struct sched_away *w, struct bh_str uid)
{
    for (size_t i = 0; i < w->n; i++)
        if (bh_str_eq(w->pods[i], uid))
            return true;
    for (size_t i = 0; i < w->claims_n; i++)
        if (bh_str_eq(w->claims[i].uid, uid))
            return true;
    return false;
}

void sched_away_changed(struct bh_scheduler *s, struct bh_str uid)
{
    bh_list_for_safe(it, &s->aways)
    {
        struct sched_away *w = bh_container(it, struct sched_away, link);

        /* A gang is woken by what its members may be helped by. */
        if (w->over || w->gang || !concerns(w, uid) || sched_away_waits(w))
            continue;
        w->over = true;
        look_again(w);
    }
}

static void on_late(void *arg)
{
    struct sched_away *w = arg;
    bool all = true, begun;

    for (size_t i = 0; i < w->n; i++) {
        (void)leaves(w, w->pods[i], &begun);
        all = all && begun;
    }
    w->late = true;
    if (!all)
        look_again(w);
}

struct sched_away *sched_away_new(struct bh_scheduler *s, struct spod *pod, struct gang *g,
                                  const struct victims *v, size_t n)
{
    struct bh_arena *a;
    struct sched_away *w;
    size_t all = 0;

    for (size_t i = 0; i < n; i++)
        all += v[i].n;
    if (!all)
        return NULL;
    a = bh_arena_new(0);
    w = bh_new(a, struct sched_away);
    w->s = s;
    w->a = a;
    w->pod = pod;
    w->gang = g;
    w->pods = bh_new_n(a, struct bh_str, all);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < v[i].n; k++)
            note_pod(w, v[i].p[k]);
    bh_timer_init(&w->timer, s->loop, on_late, w);
    bh_timer_start(&w->timer, BEGINS_MS);
    bh_list_add_tail(&s->aways, &w->link);
    return w;
}

struct sched_away *sched_away_free(struct sched_away *w)
{
    if (w) {
        bh_list_del(&w->link);
        bh_timer_stop(&w->timer);
        (void)bh_arena_free(w->a);
    }
    return NULL;
}

/* ---- holders that are being bound ---- */

#define CONFIRMED_MS 1000 /* after the first, for all that come until then */

static void on_confirmed(void *arg)
{
    struct bh_scheduler *s = arg;

    s->confirmed_wanted = false;
    bh_list_for_safe(it, &s->waiting)
    {
        struct spod *pod = bh_container(it, struct spod, link);

        if (!pod->holders_bind)
            continue;
        pod->holders_bind = false;
        s->epoch++; /* its likes may fail otherwise, too */
        sched_wake(s, pod);
    }
}

void sched_holders_init(struct bh_scheduler *s)
{
    bh_timer_init(&s->confirmed, s->loop, on_confirmed, s);
}

void sched_holder_confirmed(struct bh_scheduler *s)
{
    if (s->confirmed_wanted && !bh_timer_armed(&s->confirmed))
        bh_timer_start(&s->confirmed, CONFIRMED_MS);
}
