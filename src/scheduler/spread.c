/* Topology spread: matching pods are counted per topology value; a node may not make its value
 * stick out by more than maxSkew (hard), or scores lower (soft). */
#include <math.h>

#include "client/volumes.h"
#include "data/selector.h"
#include "dra/node_selector.h"
#include "scheduler/sched_int.h"

#define HOSTNAME "kubernetes.io/hostname"
#define ZONE     "topology.kubernetes.io/zone"
#define BIAS     ((intptr_t)1 << 40)

struct constraint {
    struct bh_str key;
    int32_t max_skew;
    int32_t min_domains;
    struct bh_label_selector sel;
    bool honor_affinity, honor_taints;
    bool self;             /* the pod counts itself */
    struct bh_map domains; /* value -> (void *)(count + BIAS) */
    double weight;         /* soft */
};

struct spread_state {
    struct constraint *hard;
    size_t hard_n;
};

static void constraint_done(void *arg)
{
    bh_map_done(&((struct constraint *)arg)->domains);
}

/* Pods in the domain; 0 when there is no such domain. A selector for everybody counts nobody, but
 * those who leave for a trial: counts may be negative. */
static int64_t domain_get(const struct constraint *k, struct bh_str value)
{
    intptr_t v = (intptr_t)bh_map_get(&k->domains, value);

    return v ? (int64_t)(v - BIAS) : 0;
}

static void domain_add(struct constraint *k, struct bh_str value, int64_t by)
{
    (void)bh_map_put(&k->domains, value,
                     (void *)(intptr_t)(domain_get(k, value) + by + (int64_t)BIAS));
}

static struct constraint *parse(struct cycle *c,
                                const struct bh_core_v1_topology_spread_constraint_vec *v,
                                bool hard, size_t *ret_n)
{
    struct constraint *out = bh_new_n(c->a, struct constraint, v->n);
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++) {
        const struct bh_core_v1_topology_spread_constraint *t = &v->p[i];
        struct constraint *k = &out[n];

        if (bh_str_eqc(t->when_unsatisfiable, "DoNotSchedule") != hard)
            continue;
        n++;
        k->key = t->topology_key;
        k->max_skew = t->max_skew;
        k->min_domains = t->has_min_domains ? t->min_domains : 1;
        bh_meta_selector(c->a, t->label_selector, &k->sel);
        if (t->match_label_keys.n && t->label_selector)
            sched_selector_like(c->a, &k->sel, &t->match_label_keys, &c->pod->obj->labels, true);
        k->honor_affinity =
            !t->has_node_affinity_policy || bh_str_eqc(t->node_affinity_policy, "Honor");
        k->honor_taints = t->has_node_taints_policy && bh_str_eqc(t->node_taints_policy, "Honor");
        k->self = bh_label_selector_match(&k->sel, &c->pod->obj->labels);
        bh_arena_on_reset(c->a, constraint_done, k);
    }
    *ret_n = n;
    return out;
}

static bool has_all_keys(const struct constraint *k, size_t n, const struct snode *node)
{
    for (size_t i = 0; i < n; i++)
        if (!bh_str_map_get(&node->obj->labels, k[i].key))
            return false;
    return true;
}

/* Whether the constraint looks at this node at all. */
static bool included(const struct cycle *c, const struct constraint *k, const struct snode *n)
{
    if (k->honor_affinity && !sched_node_selected(c->pod, n))
        return false;
    if (k->honor_taints && sched_untolerated(c->pod, n))
        return false;
    return true;
}

static bool counts(const struct cycle *c, const struct constraint *k, const struct spod *pod)
{
    return !pod->obj->deleting && bh_str_eq(pod->obj->ns, c->pod->obj->ns) &&
           bh_label_selector_match(&k->sel, &pod->obj->labels);
}

static int64_t count_node(const struct cycle *c, const struct constraint *k, const struct snode *n)
{
    int64_t sum = 0;

    if (k->sel.nothing || bh_label_selector_empty(&k->sel))
        return 0; /* upstream counts nobody when everybody is selected */
    for (uint32_t i = 0; i < n->pods.n; i++)
        sum += counts(c, k, n->pods.p[i]);
    return sum;
}

/* ---- filter ---- */

static bool selects(const struct bh_str_map *want, const struct bh_str_map *labels)
{
    for (size_t i = 0; i < want->n; i++) {
        const struct bh_str *v = bh_str_map_get(labels, want->p[i].key);

        if (!v || !bh_str_eq(*v, want->p[i].value))
            return false;
    }
    return want->n > 0;
}

/* What the pod belongs to: services that select it, and its owner. False: nothing. */
static bool default_selector(struct cycle *c, struct bh_label_selector *ret)
{
    struct bh_scheduler *s = c->s;
    struct bh_str_map sum = {NULL, 0};
    bool any = false;
    struct bh_obj *o;

    if (s->inf_services)
        for (size_t it = 0; (o = bh_informer_next(s->inf_services, &it));) {
            const struct bh_core_v1_service *svc;

            if (!bh_str_eq(o->ns, c->pod->obj->ns))
                continue;
            svc = bh_obj_struct(o);
            if (!selects(&svc->spec.selector, &c->pod->obj->labels))
                continue;
            for (size_t i = 0; i < svc->spec.selector.n; i++)
                bh_str_map_put(c->a, &sum, svc->spec.selector.p[i].key,
                               svc->spec.selector.p[i].value);
            any = true;
        }
    *ret = bh_label_selector_from_map(c->a, &sum);
    return sched_owner_selector(c, ret) || any;
}

/* Constraints for pods that state none: the profile's, or upstream's built-in ones. */
static struct constraint *defaults(struct cycle *c, bool hard, size_t *ret_n)
{
    const struct bh_core_v1_topology_spread_constraint_vec *own = c->prof->default_spread;
    struct bh_label_selector sel;
    struct constraint *k;

    *ret_n = 0;
    if ((hard && (!own || !own->n)) || !default_selector(c, &sel))
        return NULL;
    if (own) {
        k = parse(c, own, hard, ret_n);
        for (size_t i = 0; i < *ret_n; i++) {
            k[i].sel = sel;
            k[i].self = bh_label_selector_match(&sel, &c->pod->obj->labels);
        }
        return k;
    }
    k = bh_new_n(c->a, struct constraint, 2);
    k[0] = (struct constraint){
        .key = BH_S(HOSTNAME), .max_skew = 3, .sel = sel, .honor_affinity = true};
    k[1] =
        (struct constraint){.key = BH_S(ZONE), .max_skew = 5, .sel = sel, .honor_affinity = true};
    bh_arena_on_reset(c->a, constraint_done, &k[0]);
    bh_arena_on_reset(c->a, constraint_done, &k[1]);
    *ret_n = 2;
    return k;
}

void sched_spread_prefilter(struct cycle *c)
{
    const struct bh_core_v1_topology_spread_constraint_vec *own =
        &c->pod->p->spec.topology_spread_constraints;
    struct constraint *hard;
    struct spread_state *st;
    size_t hard_n;

    if (!own->n && !c->prof->default_spread)
        return;
    hard = own->n ? parse(c, own, true, &hard_n) : defaults(c, true, &hard_n);
    if (!hard_n)
        return;
    st = bh_new(c->a, struct spread_state);
    st->hard = hard;
    st->hard_n = hard_n;
    c->spread = st;
    for (uint32_t i = 0; i < c->s->nodes.n; i++) {
        const struct snode *n = c->s->nodes.p[i];

        if (!has_all_keys(st->hard, st->hard_n, n))
            continue;
        for (size_t k = 0; k < st->hard_n; k++)
            if (included(c, &st->hard[k], n))
                domain_add(&st->hard[k], *bh_str_map_get(&n->obj->labels, st->hard[k].key),
                           count_node(c, &st->hard[k], n));
    }
}

void sched_spread_change(struct cycle *c, const struct spod *pod, const struct snode *n, int by)
{
    struct spread_state *st = c->spread;

    if (!st || !has_all_keys(st->hard, st->hard_n, n))
        return;
    for (size_t k = 0; k < st->hard_n; k++)
        if (counts(c, &st->hard[k], pod) && included(c, &st->hard[k], n))
            domain_add(&st->hard[k], *bh_str_map_get(&n->obj->labels, st->hard[k].key), by);
}

static int64_t smallest(const struct constraint *k)
{
    int64_t min = INT32_MAX;
    size_t it = 0;
    void *v;

    if (k->domains.n < (size_t)k->min_domains)
        return 0; /* a domain that is not there yet counts as empty */
    while (bh_map_next(&k->domains, &it, NULL, &v))
        if ((int64_t)((intptr_t)v - BIAS) < min)
            min = (int64_t)((intptr_t)v - BIAS);
    return min;
}

enum verdict sched_spread_filter(struct cycle *c, const struct snode *n)
{
    const struct spread_state *st = c->spread;

    if (!st)
        return V_OK;
    for (size_t i = 0; i < st->hard_n; i++) {
        const struct constraint *k = &st->hard[i];
        const struct bh_str *v = bh_str_map_get(&n->obj->labels, k->key);

        if (!v)
            return sched_fail(c, PL_TOPOLOGY_SPREAD, V_UNRESOLVABLE, R_SPREAD_LABEL);
        if (domain_get(k, *v) + k->self - smallest(k) > k->max_skew)
            return sched_fail(c, PL_TOPOLOGY_SPREAD, V_UNSCHEDULABLE, R_SPREAD);
    }
    return V_OK;
}

/* ---- score ---- */

/* Nodes without the label are one domain together, which counts for the weight. */
static struct bh_str value_of(const struct constraint *k, const struct snode *n)
{
    const struct bh_str *v = bh_str_map_get(&n->obj->labels, k->key);

    return v ? *v : BH_S("");
}

static void weigh(struct cycle *c, struct constraint *soft, size_t n, bool *ignored, bool strict)
{
    size_t left = 0;

    for (size_t i = 0; i < c->feasible_n; i++) {
        const struct snode *node = c->feasible[i].node;

        ignored[i] = strict && !has_all_keys(soft, n, node);
        if (ignored[i])
            continue;
        left++;
        for (size_t k = 0; k < n; k++) {
            if (!bh_str_eqc(soft[k].key, HOSTNAME))
                domain_add(&soft[k], value_of(&soft[k], node), 0);
        }
    }
    for (size_t k = 0; k < n; k++)
        soft[k].weight =
            log((double)(bh_str_eqc(soft[k].key, HOSTNAME) ? left : soft[k].domains.n) + 2);
}

static void count_domains(struct cycle *c, struct constraint *soft, size_t n, bool strict)
{
    for (uint32_t i = 0; i < c->s->nodes.n; i++) {
        const struct snode *node = c->s->nodes.p[i];

        if (strict && !has_all_keys(soft, n, node))
            continue;
        for (size_t k = 0; k < n; k++) {
            struct bh_str v = value_of(&soft[k], node);

            if (bh_map_get(&soft[k].domains, v) && included(c, &soft[k], node))
                domain_add(&soft[k], v, count_node(c, &soft[k], node));
        }
    }
}

/* Raw scores of the candidates (larger is worse) into v, -1 for those left out; false when nothing
 * is asked. */
bool sched_spread_concerns(const struct spod *waiting, const struct spod *other)
{
    const struct bh_core_v1_topology_spread_constraint_vec *own =
        &waiting->p->spec.topology_spread_constraints;
    BH_AUTO_ARENA a = bh_arena_new(0);

    if (!own->n) /* by the profile's constraints */
        return true;
    if (!bh_str_eq(waiting->obj->ns, other->obj->ns))
        return false;
    for (size_t i = 0; i < own->n; i++) {
        struct bh_label_selector sel;

        bh_meta_selector(a, own->p[i].label_selector, &sel);
        if (bh_label_selector_match(&sel, &other->obj->labels))
            return true;
    }
    return false;
}

bool sched_spread_scores(struct cycle *c)
{
    struct bh_label_selector sel;

    return c->prof->weight[PL_TOPOLOGY_SPREAD] &&
           (c->pod->p->spec.topology_spread_constraints.n || default_selector(c, &sel));
}

bool sched_spread_score(struct cycle *c, int64_t *v)
{
    const struct bh_core_v1_topology_spread_constraint_vec *own =
        &c->pod->p->spec.topology_spread_constraints;
    bool strict = own->n || c->prof->default_spread;
    struct constraint *soft;
    bool *ignored;
    size_t n;

    soft = own->n ? parse(c, own, false, &n) : defaults(c, false, &n);
    if (!n)
        return false;
    ignored = bh_new_n(c->a, bool, c->feasible_n);
    weigh(c, soft, n, ignored, strict);
    count_domains(c, soft, n, strict);
    for (size_t i = 0; i < c->feasible_n; i++) {
        const struct snode *node = c->feasible[i].node;
        double sum = 0;

        for (size_t k = 0; !ignored[i] && k < n; k++) {
            const struct bh_str *val = bh_str_map_get(&node->obj->labels, soft[k].key);
            int64_t there;

            if (!val)
                continue;
            there = bh_str_eqc(soft[k].key, HOSTNAME) ? count_node(c, &soft[k], node)
                                                      : domain_get(&soft[k], *val);
            sum += (double)there * soft[k].weight + (soft[k].max_skew - 1);
        }
        v[i] = ignored[i] ? -1 : (int64_t)round(sum);
    }
    return true;
}
