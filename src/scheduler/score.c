/* Scores: which of the nodes that fit is best. Each plugin gives 0..100, times upstream's weight.
 */
#include <math.h>
#include <string.h>

#include "dra/node_selector.h"
#include "scheduler/sched_int.h"

#define MAX_SCORE 100

/* Ours: how well the devices fit decides before how empty the node is. */
#define W_DEVICES  10
#define W_PREFER   2
#define W_TAINT    3
#define W_AFFINITY 2
#define W_PODS     2
#define W_SPREAD   2

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

static double fraction(int64_t used, int64_t all)
{
    double f = (double)used / (double)all;

    return f > 1 ? 1 : f;
}

static int64_t amount(const struct spod *pod, uint32_t id)
{
    const struct res_amount *r = sched_pod_req(pod, id);

    return r ? r->v : 0;
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

static int64_t preferred(const struct spod *pod, const struct snode *n)
{
    const struct bh_core_v1_affinity *af = pod->p->spec.affinity;
    const struct bh_core_v1_preferred_scheduling_term_vec *t;
    int64_t sum = 0;

    if (!af || !af->node_affinity)
        return 0;
    t = &af->node_affinity->preferred_during_scheduling_ignored_during_execution;
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
static void score_pods(struct cycle *c, int64_t *v)
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
            W_PODS * (int64_t)((double)MAX_SCORE * (double)(v[i] - min) / (double)(max - min));
}

static void score_spread(struct cycle *c, int64_t *v)
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
                W_SPREAD * (max ? MAX_SCORE * (max + min - v[i]) / max : MAX_SCORE);
}

void sched_score(struct cycle *c)
{
    int64_t *taints = bh_new_n(c->a, int64_t, c->feasible_n);
    int64_t *wish = bh_new_n(c->a, int64_t, c->feasible_n);
    int64_t *first = bh_new_n(c->a, int64_t, c->feasible_n);

    bool wishes = c->pod->p->spec.affinity && c->pod->p->spec.affinity->node_affinity;
    bool soft = false;

    for (size_t i = 0; i < c->feasible_n; i++) {
        struct candidate *k = &c->feasible[i];

        k->score = score_least(c->pod, k->node) + score_balanced(c->pod, k->node);
        if (c->s->images.n)
            k->score += sched_images_score(c, k->node);
        if (k->node->soft_taints) {
            taints[i] = count_soft_taints(c->pod, k->node);
            soft = true;
        }
        if (wishes)
            wish[i] = preferred(c->pod, k->node);
        first[i] = k->dra.prefer;
        if (k->set && k->set->ask && !c->s->opts.device_scoring_off)
            k->score += W_DEVICES * k->dra.score;
    }
    if (soft) /* otherwise all the same */
        normalised(c, taints, W_TAINT, true);
    if (wishes)
        normalised(c, wish, W_AFFINITY, false);
    if (c->dra_state)
        normalised(c, first, W_PREFER, false);
    score_pods(c, taints);
    score_spread(c, taints);
}
