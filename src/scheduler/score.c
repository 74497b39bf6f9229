/* Scores: which of the nodes that fit is best. Each plugin gives 0..100, times upstream's weight.
 */
#include <math.h>
#include <string.h>

#include "dra/node_selector.h"
#include "scheduler/sched_int.h"

#define MAX_SCORE 100

/* Ours: how well the devices fit decides before how empty the node is. */
#define W_DEVICES 10

static int64_t least(int64_t used, int64_t all)
{
    if (all <= 0 || used > all)
        return 0;
    return (all - used) * MAX_SCORE / all;
}

static int64_t score_least(const struct spod *pod, const struct snode *n)
{
    int64_t cpu = least(n->nz_cpu + pod->nz_cpu_asked, n->alloc[RES_CPU]);
    int64_t mem = least(n->nz_memory + pod->nz_memory_asked, n->alloc[RES_MEMORY]);
    int64_t w = (n->alloc[RES_CPU] > 0) + (n->alloc[RES_MEMORY] > 0);

    return w ? (cpu + mem) / w : 0;
}

/* ---- resources as a profile may weigh them ---- */

/* An extended resource that no device plugin offers on the node: the devices of the class that
 * stands for it, and those that are in use. */
static bool devices(const struct snode *n, uint32_t id, int64_t *all, int64_t *used)
{
    struct bh_scheduler *s = n->s;
    struct bh_str class = bh_dra_class_of_resource(s->model, s->res_names[id]);

    return class.n && bh_dra_class_count(s->model, class, n->name, all, used) && *all > 0;
}

/* What the node has of a resource, and what its pods take. */
static void amounts(const struct snode *n, uint32_t id, bool scored, int64_t *all, int64_t *used)
{
    int64_t x;

    if (id < RES_FIXED) {
        *all = n->alloc[id];
        *used = n->used[id];
        if (scored && id == RES_CPU)
            *used = n->nz_cpu;
        if (scored && id == RES_MEMORY)
            *used = n->nz_memory;
        return;
    }
    x = sched_node_xalloc(n, id);
    if (x <= 0 && devices(n, id, all, used))
        return;
    *all = x > 0 ? x : 0;
    *used = sched_node_xused(n, id);
}

static int64_t amount(const struct spod *pod, uint32_t id)
{
    const struct res_amount *r = sched_pod_req(pod, id);

    return r ? r->v : 0;
}

static int64_t asked(const struct spod *pod, uint32_t id)
{
    if (id == RES_CPU)
        return pod->nz_cpu_asked;
    return id == RES_MEMORY ? pod->nz_memory_asked : amount(pod, id);
}

/* The score of a degree of use, between the points given. */
static int64_t on_shape(const struct sched_profile *p, int64_t percent)
{
    const struct bh_kubescheduler_v1_utilization_shape_point_vec *v = p->shape;

    for (size_t i = 0; i < v->n; i++) {
        int64_t to = (int64_t)v->p[i].score * 10, from, width;

        if (percent > v->p[i].utilization)
            continue;
        if (!i)
            return to;
        from = (int64_t)v->p[i - 1].score * 10;
        width = v->p[i].utilization - v->p[i - 1].utilization;
        return from + (to - from) * (percent - v->p[i - 1].utilization) / width;
    }
    return (int64_t)v->p[v->n - 1].score * 10;
}

static int64_t one_resource(const struct sched_profile *p, int64_t used, int64_t all)
{
    switch (p->strategy) {
    case FIT_LEAST:
        return least(used, all);
    case FIT_MOST:
        return (used > all ? all : used) * MAX_SCORE / all;
    case FIT_RATIO:
        break;
    }
    return on_shape(p, used > all ? MAX_SCORE : used * MAX_SCORE / all);
}

static int64_t score_fit(const struct sched_profile *p, const struct spod *pod,
                         const struct snode *n)
{
    int64_t sum = 0, weights = 0;

    for (size_t i = 0; i < p->fit.n; i++) {
        const struct res_weight *w = &p->fit.p[i];
        int64_t all, used, x, ask = asked(pod, w->id);

        if (!ask && w->id >= RES_FIXED)
            continue;
        amounts(n, w->id, true, &all, &used);
        if (all <= 0)
            continue;
        x = one_resource(p, used + ask, all);
        if (p->strategy == FIT_RATIO && x <= 0)
            continue;
        sum += x * w->weight;
        weights += w->weight;
    }
    if (!weights)
        return 0;
    return p->strategy == FIT_RATIO ? (int64_t)round((double)sum / (double)weights) : sum / weights;
}

static double fraction(int64_t used, int64_t all)
{
    double f = (double)used / (double)all;

    return f > 1 ? 1 : f;
}

/* Half the distance of the two fractions is their standard deviation. A resource that the node
 * does not have has no say. */
static int64_t balance(const struct snode *n, int64_t cpu, int64_t mem)
{
    double a, b;

    if (n->alloc[RES_CPU] <= 0 || n->alloc[RES_MEMORY] <= 0)
        return MAX_SCORE;
    a = fraction(n->used[RES_CPU] + cpu, n->alloc[RES_CPU]);
    b = fraction(n->used[RES_MEMORY] + mem, n->alloc[RES_MEMORY]);
    return (int64_t)((1 - fabs(a - b) / 2) * MAX_SCORE);
}

/* What the pod does to the balance of the node: better is above the middle, worse below. */
static int64_t score_balanced(const struct spod *pod, const struct snode *n)
{
    int64_t cpu = amount(pod, RES_CPU), mem = amount(pod, RES_MEMORY);

    if (!cpu && !mem)
        return 0; /* a pod that asks for nothing changes no balance */
    return MAX_SCORE / 2 + (MAX_SCORE / 2 + balance(n, cpu, mem) - balance(n, 0, 0)) / 2;
}

/* Standard deviation of all fractions; pods on the node, with or without this one. */
static int64_t balance_of(const struct sched_profile *p, const struct spod *pod,
                          const struct snode *n, bool with)
{
    double mean = 0, sum = 0;
    int count = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < p->balanced.n; i++) {
            uint32_t id = p->balanced.p[i].id;
            int64_t all, used, ask = amount(pod, id);
            double f;

            if (!ask && id >= RES_FIXED)
                continue;
            amounts(n, id, false, &all, &used);
            if (all <= 0)
                continue;
            f = fraction(used + (with ? ask : 0), all);
            if (pass) {
                sum += (f - mean) * (f - mean);
            } else {
                mean += f;
                count++;
            }
        }
        if (!pass && count)
            mean /= count;
    }
    return (int64_t)((1 - (count ? sqrt(sum / count) : 0)) * MAX_SCORE);
}

static int64_t score_balanced_of(const struct sched_profile *p, const struct spod *pod,
                                 const struct snode *n)
{
    bool any = false;

    for (size_t i = 0; i < p->balanced.n; i++)
        any |= amount(pod, p->balanced.p[i].id) != 0;
    if (!any)
        return 0;
    return MAX_SCORE / 2 +
           (MAX_SCORE / 2 + balance_of(p, pod, n, true) - balance_of(p, pod, n, false)) / 2;
}

static int64_t count_soft_taints(const struct spod *pod, const struct snode *n)
{
    const struct bh_core_v1_toleration_vec *t = &pod->p->spec.tolerations;
    int64_t count = 0;

    if (!n->soft_taints)
        return 0;
    for (size_t i = 0; i < n->n->spec.taints.n; i++) {
        const struct bh_core_v1_taint *x = &n->n->spec.taints.p[i];
        bool ok = false;

        if (!bh_str_eqc(x->effect, "PreferNoSchedule"))
            continue;
        for (size_t k = 0; k < t->n && !ok; k++)
            ok = (!t->p[k].effect.n || bh_str_eqc(t->p[k].effect, "PreferNoSchedule")) &&
                 sched_tolerates(&t->p[k], x);
        count += !ok;
    }
    return count;
}

static int64_t preferred(const struct bh_core_v1_node_affinity *af, const struct snode *n)
{
    const struct bh_core_v1_preferred_scheduling_term_vec *t;
    int64_t sum = 0;

    if (!af)
        return 0;
    t = &af->preferred_during_scheduling_ignored_during_execution;
    for (size_t i = 0; i < t->n; i++) {
        const struct bh_core_v1_node_selector_term *p = &t->p[i].preference;

        if (!p->match_expressions.n && !p->match_fields.n)
            continue;
        if (bh_node_selector_term_match(p, n->name, &n->obj->labels, NULL) == 1)
            sum += t->p[i].weight;
    }
    return sum;
}

/* Adds weight times the values spread over 0..100 (the largest is 100); reverse turns them round.
 */
static void normalised(struct cycle *c, const int64_t *v, int64_t weight, bool reverse)
{
    int64_t max = 0;

    for (size_t i = 0; i < c->feasible_n; i++)
        if (v[i] > max)
            max = v[i];
    for (size_t i = 0; i < c->feasible_n; i++) {
        int64_t x = max ? v[i] * MAX_SCORE / max : 0;

        c->feasible[i].score += weight * (reverse ? MAX_SCORE - x : x);
    }
}

/* Over the whole range that occurs, as sums may be negative. */
static void score_pods(struct cycle *c, int64_t *v, int64_t weight)
{
    int64_t min, max;

    memset(v, 0, c->feasible_n * sizeof(*v));
    if (!sched_affinity_score(c, v))
        return;
    min = max = v[0];
    for (size_t i = 1; i < c->feasible_n; i++) {
        min = v[i] < min ? v[i] : min;
        max = v[i] > max ? v[i] : max;
    }
    for (size_t i = 0; max > min && i < c->feasible_n; i++)
        c->feasible[i].score +=
            weight * (int64_t)((double)MAX_SCORE * ((double)(v[i] - min) / (double)(max - min)));
}

static void score_spread(struct cycle *c, int64_t *v, int64_t weight)
{
    int64_t min = INT64_MAX, max = 0;

    if (!sched_spread_score(c, v))
        return;
    for (size_t i = 0; i < c->feasible_n; i++) {
        if (v[i] < 0)
            continue;
        min = v[i] < min ? v[i] : min;
        max = v[i] > max ? v[i] : max;
    }
    for (size_t i = 0; i < c->feasible_n; i++)
        if (v[i] >= 0)
            c->feasible[i].score +=
                weight * (max ? MAX_SCORE * (max + min - v[i]) / max : MAX_SCORE);
}

int64_t sched_score_node(struct cycle *c, const struct snode *n)
{
    const struct sched_profile *p = c->prof;
    int64_t sum = 0;

    if (p->weight[PL_RESOURCES_FIT])
        sum += p->weight[PL_RESOURCES_FIT] * (p->fit.plain && p->strategy == FIT_LEAST
                                                  ? score_least(c->pod, n)
                                                  : score_fit(p, c->pod, n));
    if (p->weight[PL_BALANCED])
        sum += p->weight[PL_BALANCED] *
               (p->balanced.plain ? score_balanced(c->pod, n) : score_balanced_of(p, c->pod, n));
    if (p->weight[PL_IMAGES] && c->s->images.n)
        sum += p->weight[PL_IMAGES] * sched_images_score(c, n);
    return sum;
}

void sched_score(struct cycle *c)
{
    const struct bh_core_v1_affinity *af = c->pod->p->spec.affinity;
    const struct bh_core_v1_node_affinity *own = af ? af->node_affinity : NULL;
    const struct bh_core_v1_node_affinity *added = c->prof->added_affinity;
    const int64_t *w = c->prof->weight;
    int64_t *taints = bh_new_n(c->a, int64_t, c->feasible_n);
    int64_t *wish = bh_new_n(c->a, int64_t, c->feasible_n);
    int64_t *first = bh_new_n(c->a, int64_t, c->feasible_n);
    bool wishes = w[PL_NODE_AFFINITY] && (own || added);
    bool soft = false;

    for (size_t i = 0; i < c->feasible_n; i++) {
        struct candidate *k = &c->feasible[i];

        k->score = sched_score_node(c, k->node);
        if (k->set && k->set->ask && !c->s->opts.device_scoring_off)
            k->score += W_DEVICES * k->dra.score;
        if (k->node->soft_taints) {
            taints[i] = count_soft_taints(c->pod, k->node);
            soft = true;
        }
        if (wishes)
            wish[i] = preferred(own, k->node) + preferred(added, k->node);
        first[i] = k->dra.prefer;
    }
    if (soft && w[PL_TAINT_TOLERATION]) /* otherwise all the same */
        normalised(c, taints, w[PL_TAINT_TOLERATION], true);
    if (wishes)
        normalised(c, wish, w[PL_NODE_AFFINITY], false);
    if (c->dra_state && w[PL_DYNAMIC_RESOURCES])
        normalised(c, first, w[PL_DYNAMIC_RESOURCES], false);
    if (w[PL_INTER_POD_AFFINITY])
        score_pods(c, taints, w[PL_INTER_POD_AFFINITY]);
    if (w[PL_TOPOLOGY_SPREAD])
        score_spread(c, taints, w[PL_TOPOLOGY_SPREAD]);
}
