/* Affinity between pods: terms are parsed once per pod; an attempt counts matching pods per
 * topology value, and every node is then judged by look-ups.
 *
 * The counts can be changed pod by pod, which is how preemption plays through what would be without
 * a victim.
 */
#include "client/volumes.h"
#include "data/selector.h"
#include "scheduler/sched_int.h"

struct term {
    struct bh_str key; /* topology key; view into the pod's object */
    struct bh_label_selector sel;
    struct bh_str_vec namespaces;
    bool any_namespace;
    bool by_namespace_labels;
    struct bh_label_selector ns_sel;
    int32_t weight;
};

struct term_vec {
    struct term *p;
    size_t n;
};

struct pod_terms {
    struct bh_arena *arena;
    struct term_vec need, refuse, like, dislike;
};

/* Counts per value of one topology key; values are views into node labels. */
struct tally {
    struct bh_str key;
    struct bh_map by_value; /* value -> (void *)(count + BIAS) */
};
#define BIAS ((intptr_t)1 << 40)

struct affinity_state {
    struct cycle *c;
    struct tally *need, *refuse; /* per term of the pod */
    struct tally *existing;      /* per key */
    size_t existing_n, existing_cap;
    int64_t need_total;
    bool self; /* the pod satisfies its own required terms */
    bool any_existing;
};

/* ---- parsing ---- */

/* "The same value as mine" (or another one), as the API server writes it into new pods. */
void sched_selector_like(struct bh_arena *a, struct bh_label_selector *sel,
                         const struct bh_str_vec *keys, const struct bh_str_map *labels, bool same)
{
    for (size_t i = 0; i < keys->n; i++) {
        const struct bh_str *v = bh_str_map_get(labels, keys->p[i]);
        struct bh_str_vec one = {bh_new(a, struct bh_str), 1};

        if (!v)
            continue;
        one.p[0] = *v;
        if (bh_label_selector_add(a, sel, keys->p[i], same ? BH_LABEL_IN : BH_LABEL_NOT_IN, one,
                                  NULL) < 0)
            sel->nothing = true;
    }
}

static void parse_term(struct bh_arena *a, const struct spod *pod,
                       const struct bh_core_v1_pod_affinity_term *t, int32_t weight,
                       struct term *ret)
{
    ret->key = t->topology_key;
    ret->weight = weight;
    bh_meta_selector(a, t->label_selector, &ret->sel);
    if (t->label_selector) {
        sched_selector_like(a, &ret->sel, &t->match_label_keys, &pod->obj->labels, true);
        sched_selector_like(a, &ret->sel, &t->mismatch_label_keys, &pod->obj->labels, false);
    }
    ret->namespaces = t->namespaces;
    if (t->namespace_selector) {
        bh_meta_selector(a, t->namespace_selector, &ret->ns_sel);
        ret->any_namespace = bh_label_selector_empty(&ret->ns_sel);
        ret->by_namespace_labels = !ret->any_namespace;
    } else if (!t->namespaces.n) {
        ret->namespaces = (struct bh_str_vec){bh_new(a, struct bh_str), 1};
        ret->namespaces.p[0] = bh_str_dup(a, pod->obj->ns);
    }
}

static struct term_vec parse_hard(struct bh_arena *a, const struct spod *pod,
                                  const struct bh_core_v1_pod_affinity_term_vec *v)
{
    struct term_vec r = {bh_new_n(a, struct term, v->n), v->n};

    for (size_t i = 0; i < v->n; i++)
        parse_term(a, pod, &v->p[i], 0, &r.p[i]);
    return r;
}

static struct term_vec parse_soft(struct bh_arena *a, const struct spod *pod,
                                  const struct bh_core_v1_weighted_pod_affinity_term_vec *v)
{
    struct term_vec r = {bh_new_n(a, struct term, v->n), v->n};

    for (size_t i = 0; i < v->n; i++)
        parse_term(a, pod, &v->p[i].pod_affinity_term, v->p[i].weight, &r.p[i]);
    return r;
}

struct pod_terms *sched_terms_new(const struct spod *pod)
{
    const struct bh_core_v1_affinity *af = pod->p->spec.affinity;
    struct bh_arena *a;
    struct pod_terms *t;

    if (!af || (!af->pod_affinity && !af->pod_anti_affinity))
        return NULL;
    a = bh_arena_new(0);
    t = bh_new(a, struct pod_terms);
    t->arena = a;
    if (af->pod_affinity) {
        t->need = parse_hard(
            a, pod, &af->pod_affinity->required_during_scheduling_ignored_during_execution);
        t->like = parse_soft(
            a, pod, &af->pod_affinity->preferred_during_scheduling_ignored_during_execution);
    }
    if (af->pod_anti_affinity) {
        t->refuse = parse_hard(
            a, pod, &af->pod_anti_affinity->required_during_scheduling_ignored_during_execution);
        t->dislike = parse_soft(
            a, pod, &af->pod_anti_affinity->preferred_during_scheduling_ignored_during_execution);
    }
    return t;
}

struct pod_terms *sched_terms_free(struct pod_terms *t)
{
    if (t)
        (void)bh_arena_free(t->arena);
    return NULL;
}

/* ---- matching ---- */

static bool ns_in(const struct bh_scheduler *s, const struct term *t, struct bh_str ns)
{
    const struct bh_obj *o;

    if (t->any_namespace)
        return true;
    for (size_t i = 0; i < t->namespaces.n; i++)
        if (bh_str_eq(t->namespaces.p[i], ns))
            return true;
    if (!t->by_namespace_labels || !s->inf_namespaces)
        return false;
    o = bh_informer_get(s->inf_namespaces, (struct bh_str){NULL, 0}, ns);
    return o && bh_label_selector_match(&t->ns_sel, &o->labels);
}

static bool matches(const struct bh_scheduler *s, const struct term *t, const struct spod *pod)
{
    return ns_in(s, t, pod->obj->ns) && bh_label_selector_match(&t->sel, &pod->obj->labels);
}

static bool matches_all(const struct bh_scheduler *s, const struct term_vec *v,
                        const struct spod *pod)
{
    for (size_t i = 0; i < v->n; i++)
        if (!matches(s, &v->p[i], pod))
            return false;
    return v->n > 0;
}

bool sched_affinity_concerns(const struct bh_scheduler *s, const struct spod *waiting,
                             const struct spod *other)
{
    const struct pod_terms *mine = waiting->terms, *its = other->terms;

    for (size_t i = 0; mine && i < mine->need.n; i++)
        if (matches(s, &mine->need.p[i], other))
            return true;
    for (size_t i = 0; mine && i < mine->refuse.n; i++)
        if (matches(s, &mine->refuse.p[i], other))
            return true;
    for (size_t i = 0; its && i < its->refuse.n; i++)
        if (matches(s, &its->refuse.p[i], waiting))
            return true;
    return false;
}

static void tally_add(struct tally *t, struct bh_str value, int64_t by)
{
    intptr_t v = (intptr_t)bh_map_get(&t->by_value, value);

    (void)bh_map_put(&t->by_value, value, (void *)((v ? v : BIAS) + (intptr_t)by));
}

static int64_t tally_get(const struct tally *t, struct bh_str value)
{
    intptr_t v = (intptr_t)bh_map_get(&t->by_value, value);

    return v ? (int64_t)(v - BIAS) : 0;
}

static void tally_done(void *arg)
{
    bh_map_done(&((struct tally *)arg)->by_value);
}

static struct tally *tally_of_key(struct bh_arena *a, struct tally **list, size_t *n, size_t *cap,
                                  struct bh_str key)
{
    for (size_t i = 0; i < *n; i++)
        if (bh_str_eq((*list)[i].key, key))
            return &(*list)[i];
    bh_arena_grow(a, list, cap, *n + 1, sizeof(**list));
    (*list)[*n] = (struct tally){.key = key};
    return &(*list)[(*n)++];
}

static void free_existing(void *arg)
{
    struct affinity_state *st = arg;

    for (size_t i = 0; i < st->existing_n; i++)
        tally_done(&st->existing[i]);
}

/* One pod on a node, more or less. */
static void count(struct affinity_state *st, const struct spod *pod, const struct snode *n, int by)
{
    struct cycle *c = st->c;
    const struct pod_terms *mine = c->pod->terms;
    const struct bh_str *v;

    if (pod->terms)
        for (size_t i = 0; i < pod->terms->refuse.n; i++) {
            const struct term *t = &pod->terms->refuse.p[i];

            v = bh_str_map_get(&n->obj->labels, t->key);
            if (v && matches(c->s, t, c->pod))
                tally_add(
                    tally_of_key(c->a, &st->existing, &st->existing_n, &st->existing_cap, t->key),
                    *v, by);
        }
    if (!mine)
        return;
    if (matches_all(c->s, &mine->need, pod))
        for (size_t i = 0; i < mine->need.n; i++) {
            v = bh_str_map_get(&n->obj->labels, mine->need.p[i].key);
            if (!v)
                continue;
            tally_add(&st->need[i], *v, by);
            st->need_total += by;
        }
    for (size_t i = 0; i < mine->refuse.n; i++) {
        v = bh_str_map_get(&n->obj->labels, mine->refuse.p[i].key);
        if (v && matches(c->s, &mine->refuse.p[i], pod))
            tally_add(&st->refuse[i], *v, by);
    }
}

void sched_affinity_prefilter(struct cycle *c)
{
    const struct pod_terms *mine = c->pod->terms;
    bool all = mine && (mine->need.n || mine->refuse.n);
    struct affinity_state *st;

    if (!all && !c->s->terms_pods)
        return;
    st = bh_new(c->a, struct affinity_state);
    st->c = c;
    bh_arena_on_reset(c->a, free_existing, st);
    if (mine) {
        st->need = bh_new_n(c->a, struct tally, mine->need.n);
        st->refuse = bh_new_n(c->a, struct tally, mine->refuse.n);
        for (size_t i = 0; i < mine->need.n; i++)
            bh_arena_on_reset(c->a, tally_done, &st->need[i]);
        for (size_t i = 0; i < mine->refuse.n; i++)
            bh_arena_on_reset(c->a, tally_done, &st->refuse[i]);
        st->self = matches_all(c->s, &mine->need, c->pod);
    }
    c->affinity = st;
    for (uint32_t i = 0; i < c->s->nodes.n; i++) {
        const struct snode *n = c->s->nodes.p[i];
        const struct pod_list *l = all ? &n->pods : &n->affine;

        for (uint32_t k = 0; k < l->n; k++)
            count(st, l->p[k], n, 1);
    }
}

void sched_affinity_change(struct cycle *c, const struct spod *pod, const struct snode *n, int by)
{
    if (c->affinity)
        count(c->affinity, pod, n, by);
}

/* ---- filter ---- */

static bool needs_met(const struct affinity_state *st, const struct snode *n)
{
    const struct term_vec *need = &st->c->pod->terms->need;
    bool exist = true;

    for (size_t i = 0; i < need->n; i++) {
        const struct bh_str *v = bh_str_map_get(&n->obj->labels, need->p[i].key);

        if (!v)
            return false;
        if (tally_get(&st->need[i], *v) <= 0)
            exist = false;
    }
    /* The first pod of a group that wants its own kind near may go anywhere. */
    return exist || (st->need_total == 0 && st->self);
}

enum verdict sched_affinity_filter(struct cycle *c, const struct snode *n)
{
    const struct affinity_state *st = c->affinity;
    const struct pod_terms *mine = c->pod->terms;

    if (!st)
        return V_OK;
    if (mine && !needs_met(st, n))
        return sched_fail(c, PL_INTER_POD_AFFINITY, V_UNRESOLVABLE, R_POD_AFFINITY);
    for (size_t i = 0; mine && i < mine->refuse.n; i++) {
        const struct bh_str *v = bh_str_map_get(&n->obj->labels, mine->refuse.p[i].key);

        if (v && tally_get(&st->refuse[i], *v) > 0)
            return sched_fail(c, PL_INTER_POD_AFFINITY, V_UNSCHEDULABLE, R_POD_ANTI);
    }
    for (size_t i = 0; i < st->existing_n; i++) {
        const struct bh_str *v = bh_str_map_get(&n->obj->labels, st->existing[i].key);

        if (v && tally_get(&st->existing[i], *v) > 0)
            return sched_fail(c, PL_INTER_POD_AFFINITY, V_UNSCHEDULABLE, R_POD_EXISTING_ANTI);
    }
    return V_OK;
}

/* ---- score ---- */

struct scores {
    struct cycle *c;
    struct tally *p;
    size_t n, cap;
};

static void free_scores(void *arg)
{
    struct scores *sc = arg;

    for (size_t i = 0; i < sc->n; i++)
        tally_done(&sc->p[i]);
}

static void prefer(struct scores *sc, const struct term *t, const struct spod *target,
                   const struct snode *n, int64_t weight)
{
    const struct bh_str *v = bh_str_map_get(&n->obj->labels, t->key);

    if (v && matches(sc->c->s, t, target))
        tally_add(tally_of_key(sc->c->a, &sc->p, &sc->n, &sc->cap, t->key), *v, weight);
}

static void score_pod(struct scores *sc, const struct spod *pod, const struct snode *n)
{
    const struct pod_terms *mine = sc->c->pod->terms, *its = pod->terms;

    for (size_t i = 0; mine && i < mine->like.n; i++)
        prefer(sc, &mine->like.p[i], pod, n, mine->like.p[i].weight);
    for (size_t i = 0; mine && i < mine->dislike.n; i++)
        prefer(sc, &mine->dislike.p[i], pod, n, -(int64_t)mine->dislike.p[i].weight);
    if (!its)
        return;
    for (size_t i = 0; i < its->need.n && sc->c->prof->hard_affinity_weight; i++)
        prefer(sc, &its->need.p[i], sc->c->pod, n, sc->c->prof->hard_affinity_weight);
    for (size_t i = 0; i < its->like.n; i++)
        prefer(sc, &its->like.p[i], sc->c->pod, n, its->like.p[i].weight);
    for (size_t i = 0; i < its->dislike.n; i++)
        prefer(sc, &its->dislike.p[i], sc->c->pod, n, -(int64_t)its->dislike.p[i].weight);
}

/* Raw scores of the candidates into v; false when nobody has a preference. */
bool sched_affinity_score(struct cycle *c, int64_t *v)
{
    const struct pod_terms *mine = c->pod->terms;
    bool all = mine && (mine->like.n || mine->dislike.n);
    struct scores *sc;

    if (!all && (!c->s->terms_pods || c->prof->ignore_existing_preferred))
        return false;
    sc = bh_new(c->a, struct scores);
    sc->c = c;
    bh_arena_on_reset(c->a, free_scores, sc);
    for (uint32_t i = 0; i < c->s->nodes.n; i++) {
        const struct snode *n = c->s->nodes.p[i];
        const struct pod_list *l = all ? &n->pods : &n->affine;

        for (uint32_t k = 0; k < l->n; k++)
            score_pod(sc, l->p[k], n);
    }
    if (!sc->n)
        return false;
    for (size_t i = 0; i < c->feasible_n; i++)
        for (size_t k = 0; k < sc->n; k++) {
            const struct bh_str *val =
                bh_str_map_get(&c->feasible[i].node->obj->labels, sc->p[k].key);

            v[i] += val ? tally_get(&sc->p[k], *val) : 0;
        }
    return true;
}
