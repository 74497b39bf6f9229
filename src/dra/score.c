/* Choosing between devices that all would do: least waste, near each other, as little as possible
 * broken up.
 *
 * The candidates of every request are put into an order, and the search then takes the first
 * combination in that order which keeps all rules. So scoring never gives what first fit would not
 * allow. It works in three steps:
 *
 *   1. tiers: without binding conditions first, then the smallest device, then (packing) the one in
 * use already
 *   2. from the best tier with enough devices a set that is close together and leaves close sets
 * whole: devices are added one by one to each possible first one, and the best set wins
 *   3. the set stands first, everything else behind it
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dra/index.h"

#define SET_CANDS_MAX 64u /* candidates among which a close set is looked for */
#define SEEDS_MAX     16u /* first devices that are tried for it */

/* Of NVLink domain, PCIe root and NUMA node, where a claim says nothing else. */
static const int topo_weight[DRA_TOPO_N] = {4, 2, 1};
#define INNER 32 /* closeness inside a set against closeness to what is left */

/* ---- where a device sits ---- */

static int topo_of(struct bh_str id)
{
    static const struct {
        const char *name;
        int at;
    } names[] = {{"nvlinkDomain", 0}, {"nvlinkClique", 0}, {"cliqueId", 0}, {"pcieRoot", 1},
                 {"numaNode", 2},     {"numaNodeID", 2},   {"numa", 2}};

    for (size_t i = 0; i < BH_COUNT(names); i++)
        if (bh_str_eqc(id, names[i].name))
            return names[i].at;
    return -1;
}

void dra_dev_locate(struct dra_dev *d)
{
    for (size_t i = 0; i < d->d->attributes.n; i++) {
        struct bh_str key = d->d->attributes.p[i].key;
        const struct bh_resource_v1_device_attribute *v = &d->d->attributes.p[i].value;
        ptrdiff_t slash = bh_str_chr(key, '/', 0);
        int at = topo_of(slash < 0 ? key : bh_str_sub(key, (size_t)slash + 1, key.n));

        if (at < 0 || (!v->has_int && !v->has_string))
            continue;
        d->topo[at] = v->has_int ? (uint32_t)v->int_ + 1 : (uint32_t)bh_str_hash(v->string) | 1;
    }
}

static int closeness(const int *weight, const struct dra_dev *a, const struct dra_dev *b)
{
    int sum = 0;

    for (size_t i = 0; i < DRA_TOPO_N; i++)
        if (a->topo[i] && a->topo[i] == b->topo[i])
            sum += weight[i];
    return sum;
}

/* ---- what a claim prefers ---- */

/* "pcie,-numa": behind one PCIe root if possible, and, which is less important, on different NUMA
 * nodes. Words that are not known are passed over: a preference never makes a claim fail. */
void dra_topo_read(struct bh_str text, int weight[DRA_TOPO_N])
{
    static const char *const words[DRA_TOPO_N] = {"nvlink", "pcie", "numa"};
    int next = topo_weight[0];

    if (!text.p) {
        memcpy(weight, topo_weight, sizeof(topo_weight));
        return;
    }
    memset(weight, 0, DRA_TOPO_N * sizeof(*weight));
    while (text.n && next) {
        struct bh_str w = bh_str_trim(bh_str_cut(&text, ','));
        bool apart = w.n && w.p[0] == '-';

        w = bh_str_sub(w, apart ? 1 : 0, w.n);
        for (size_t i = 0; i < DRA_TOPO_N; i++)
            if (bh_str_eqc(w, words[i]) && !weight[i]) {
                weight[i] = apart ? -next : next;
                next /= 2;
                break;
            }
    }
}

/* ---- how much of it there is, and how much is in use ---- */

static double amount(struct bh_quantity q)
{
    double v = bh_quantity_double(q);

    return v > 0 ? log2(1 + v) : 0;
}

double dra_dev_size(struct dra_dev *d)
{
    struct dra_cap *caps;

    if (d->sized)
        return d->size;
    d->sized = true;
    caps = dra_dev_caps(d);
    for (size_t i = 0; i < d->caps_n; i++)
        d->size += amount(caps[i].value);
    return d->size;
}

static double shared_part(struct dra_dev *d)
{
    struct dra_cap *caps = dra_dev_caps(d);
    double most = 0;

    for (size_t i = 0; i < d->use->agg_n; i++) {
        const struct dra_amount *a = &d->use->agg[i];

        for (size_t k = 0; k < d->caps_n; k++)
            if (bh_str_eq(caps[k].key, a->key) && bh_quantity_double(caps[k].value) > 0 &&
                bh_quantity_double(a->q) / bh_quantity_double(caps[k].value) > most)
                most = bh_quantity_double(a->q) / bh_quantity_double(caps[k].value);
    }
    return most;
}

double dra_dev_used(struct dra_dev *d)
{
    struct dra_pool *p = d->slice->pool;
    double most = 0;

    if (d->d->consumes_counters.n) {
        dra_pool_counters(p, d->slice->spec->pool.generation);
        for (size_t i = 0; i < d->consumes_n; i++)
            if (d->consumes[i].slot != DRA_NONE && p->table[d->consumes[i].slot].part > most)
                most = p->table[d->consumes[i].slot].part;
        return most;
    }
    if (!d->multi || !d->use->agg_n)
        return 0;
    if (!d->part_known) {
        d->part = shared_part(d);
        d->part_known = true;
    }
    return d->part;
}

/* ---- order ---- */

static bool same_tier(const struct dra_item *a, const struct dra_item *b)
{
    return a->binding == b->binding && a->expected == b->expected && !(a->size < b->size) &&
           !(a->size > b->size) && !(a->used < b->used) && !(a->used > b->used);
}

static bool before(const struct dra_item *a, const struct dra_item *b)
{
    if (a->expected != b->expected)
        return b->expected;
    if (a->binding != b->binding)
        return b->binding;
    if (a->size < b->size || a->size > b->size)
        return a->size < b->size;
    if (a->used < b->used || a->used > b->used)
        return a->used > b->used;
    return a->at < b->at;
}

/* ---- a heap: most of the order is never read ---- */

static void sift(struct dra_item *h, size_t n, size_t i)
{
    struct dra_item x = h[i];

    for (size_t k = 2 * i + 1; k < n; k = 2 * i + 1) {
        if (k + 1 < n && before(&h[k + 1], &h[k]))
            k++;
        if (!before(&h[k], &x))
            break;
        h[i] = h[k];
        i = k;
    }
    h[i] = x;
}

static struct dra_item pop(struct dra_item *h, size_t n)
{
    struct dra_item top = h[0];

    h[0] = h[n - 1];
    sift(h, n - 1, 0);
    return top;
}

/* ---- the order of one request ---- */

static bool is_late(const struct dra_list *l, uint32_t at)
{
    for (size_t i = 0; i < l->late_n; i++)
        if (l->late[i] == at)
            return true;
    return false;
}

/* The best of those that were not taken yet. */
static struct dra_item list_take(struct dra_list *l)
{
    struct dra_item x = {0};

    if (!l->fit)
        return pop(l->heap, l->n - l->taken++);
    l->taken++;
    do {
        if (!dra_rank_next(&l->fit->rank, &l->it, &x.at)) {
            x = dra_fit_item(l->fit, l->late[l->late_n - 1 - (l->n - l->taken)]);
            x.expected = true;
            return x;
        }
    } while (is_late(l, x.at));
    return dra_fit_item(l->fit, x.at);
}

static void list_put(struct dra_call *c, struct dra_list *l, uint32_t at)
{
    bh_arena_grow(c->a, &l->at, &l->cap, l->ready + 1, sizeof(*l->at));
    l->at[l->ready++] = at;
}

uint32_t dra_order_at(struct dra_call *c, struct dra_list *l, size_t i)
{
    while (l->ready <= i)
        list_put(c, l, list_take(l).at);
    return l->at[i];
}

struct order {
    struct dra_call *c;
    const int *weight; /* what the claim prefers */
    const struct dra_item *it;
    size_t n;             /* of the tier */
    const uint32_t *near; /* candidates that earlier requests take */
    size_t near_n;
    int *worth; /* per item: what the rest of the world says of it */
};

/* How good it is to take the item, whatever else is taken: near what the pod has, away from what
 * could stay whole (packing) or from what is busy (spreading). */
static int outer_worth(const struct order *o, size_t i)
{
    const struct dra_dev *d = o->c->cands[o->it[i].at].dev;
    int sum = 0;

    for (size_t k = 0; k < o->near_n; k++)
        sum += INNER * closeness(o->weight, d, o->c->cands[o->near[k]].dev);
    if (o->c->opts->scoring == BH_DRA_SPREAD) {
        for (size_t k = 0; k < o->c->cands_n && k < 4 * SET_CANDS_MAX; k++)
            if (o->c->cands[k].dev->use->dedicated)
                sum -= closeness(topo_weight, d, o->c->cands[k].dev);
        return sum;
    }
    for (size_t k = 0; k < o->n; k++)
        if (k != i)
            sum -= closeness(topo_weight, d, o->c->cands[o->it[k].at].dev);
    return sum;
}

/* Grows a set from the seed; returns its worth. Closeness inside comes first; what is left behind
 * decides between equals. */
static int grow(const struct order *o, size_t seed, size_t k, uint32_t *set, int *gain)
{
    int worth = o->worth[seed];

    set[0] = (uint32_t)seed;
    for (size_t i = 0; i < o->n; i++)
        gain[i] = o->worth[i];
    for (size_t n = 1; n < k; n++) {
        const struct dra_dev *last = o->c->cands[o->it[set[n - 1]].at].dev;
        size_t best = SIZE_MAX;

        gain[set[n - 1]] = INT32_MIN;
        for (size_t i = 0; i < o->n; i++) {
            if (gain[i] == INT32_MIN)
                continue;
            gain[i] += INNER * closeness(o->weight, last, o->c->cands[o->it[i].at].dev);
            if (best == SIZE_MAX || gain[i] > gain[best])
                best = i;
        }
        worth += gain[best];
        set[n] = (uint32_t)best;
    }
    return worth;
}

static int by_u32(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

    return a < b ? -1 : a > b;
}

/* Puts the best set of k among the first n items to the front. */
static void front_set(struct dra_call *c, const int *weight, struct dra_item *it, size_t n,
                      size_t k, const uint32_t *near, size_t near_n)
{
    struct order o = {.c = c, .weight = weight, .it = it, .n = n, .near = near, .near_n = near_n};
    uint32_t set[2][SET_CANDS_MAX];
    int worth[SET_CANDS_MAX], gain[SET_CANDS_MAX], best_worth = 0;
    struct dra_item tmp[SET_CANDS_MAX];
    size_t best = 2, at = 0;

    o.worth = worth;
    for (size_t i = 0; i < n; i++)
        worth[i] = outer_worth(&o, i);
    for (size_t seed = 0; seed < n && (k == 1 || seed < SEEDS_MAX); seed++) {
        size_t mine = best == 0 ? 1 : 0;
        int w = grow(&o, seed, k, set[mine], gain);

        if (best == 2 || w > best_worth) {
            best = mine;
            best_worth = w;
        }
    }
    qsort(set[best], k, sizeof(set[best][0]), by_u32);
    for (size_t i = 0; i < k; i++)
        tmp[at++] = it[set[best][i]];
    for (size_t i = 0, s = 0; i < n; i++)
        if (s < k && set[best][s] == i)
            s++;
        else
            tmp[at++] = it[i];
    memcpy(it, tmp, n * sizeof(*it));
}

/* The candidates that may serve s on their own. */
static size_t feasible(struct dra_call *c, size_t claim, const struct dra_sub *s,
                       struct dra_item *it)
{
    size_t n = 0;

    for (size_t i = 0; i < c->cands_n; i++) {
        struct dra_cand *x = &c->cands[i];
        int r;

        if (dra_in_use(c, claim, s, x))
            continue;
        r = dra_selectable(c, claim, s, x);
        if (r < 0 && !c->late) {
            /* First fit would perhaps not have come here: it matters only when nothing else is
             * found. */
            c->late = bh_arena_memdup(c->a, c->err->msg, sizeof(c->err->msg));
        }
        if (r <= 0 || !dra_has_room(c->m, s, x->dev))
            continue;
        it[n++] = (struct dra_item){.at = (uint32_t)i,
                                    .binding = c->view->pools[x->vpool].binding,
                                    .size = dra_dev_size(x->dev),
                                    .used = dra_dev_used(x->dev)};
        if (c->opts->scoring == BH_DRA_SPREAD)
            it[n - 1].used = 0 - it[n - 1].used;
    }
    return n;
}

static void mark_expected(const struct dra_call *c, struct dra_item *it, size_t n,
                          const uint32_t *near, size_t near_n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < near_n && !c->cands[it[i].at].dev->multi; k++)
            if (near[k] == it[i].at)
                it[i].expected = true;
}

/* Those that earlier requests will take, by the order that they have among themselves. */
static void list_late(struct dra_call *c, struct dra_list *l, const uint32_t *near, size_t near_n)
{
    l->late = bh_new_n(c->a, uint32_t, near_n);
    for (size_t i = 0; i < near_n; i++) {
        struct dra_item x;
        size_t k;

        if (c->cands[near[i]].dev->multi || !dra_fit_has(l->fit, near[i]) || is_late(l, near[i]))
            continue;
        x = dra_fit_item(l->fit, near[i]);
        for (k = l->late_n++; k > 0; k--) {
            struct dra_item y = dra_fit_item(l->fit, l->late[k - 1]);

            if (!before(&x, &y))
                break;
            l->late[k] = l->late[k - 1];
        }
        l->late[k] = near[i];
    }
}

static void list_begin(struct dra_call *c, size_t claim, const struct dra_sub *s,
                       struct dra_item *it, const uint32_t *near, size_t near_n)
{
    struct dra_list *l = &c->order[s->id];

    if (c->scan) {
        l->fit = &c->scan->fits[s->id];
        l->n = l->fit->n;
        list_late(c, l, near, near_n);
        return;
    }
    l->n = feasible(c, claim, s, it);
    mark_expected(c, it, l->n, near, near_n);
    for (size_t i = l->n / 2; i-- > 0;)
        sift(it, l->n, i);
    l->heap = it;
}

static bool located(const struct dra_call *c, const struct dra_item *it, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < DRA_TOPO_N; k++)
            if (c->cands[it[i].at].dev->topo[k])
                return true;
    return false;
}

/* Orders one request; returns how many devices it will probably take, at the front of the list. */
static size_t order_sub(struct dra_call *c, size_t claim, const struct dra_sub *s,
                        struct dra_item *it, const uint32_t *near, size_t near_n)
{
    struct dra_list *l = &c->order[s->id];
    struct dra_item first[SET_CANDS_MAX];
    size_t n = 0, tier = 0, k;

    list_begin(c, claim, s, it, near, near_n);
    k = s->count > 0 && (uint64_t)s->count <= l->n ? (size_t)s->count : 0;
    /* Where nothing says where it sits, no set is better than another. */
    if (k && (!c->scan || c->scan->topo)) {
        while (n < l->n && n < SET_CANDS_MAX && tier == n) {
            first[n] = list_take(l);
            tier += same_tier(&first[0], &first[n++]);
        }
        if (k < tier && located(c, first, tier))
            front_set(c, c->d->claims[claim].topo, first, tier, k, near, near_n);
    }
    for (size_t i = 0; i < n; i++)
        list_put(c, l, first[i].at);
    if (l->heap && l->n > n)
        l->heap = bh_arena_memdup(c->a, it, (l->n - n) * sizeof(*it));
    return k;
}

void dra_order(struct dra_call *c)
{
    struct dra_item *it = c->scan ? NULL : bh_new_n(c->a, struct dra_item, c->cands_n);
    size_t near_cap = DRA_CLAIM_DEVICES_MAX * c->d->n, near_n = 0;
    uint32_t *near = bh_new_n(c->a, uint32_t, near_cap);

    c->order = bh_new_n(c->a, struct dra_list, c->d->subs_n);
    for (size_t i = 0; i < c->d->n; i++)
        for (size_t k = 0; k < c->d->claims[i].n; k++) {
            const struct dra_req *q = &c->d->claims[i].reqs[k];
            bool decided = false;

            for (size_t j = 0; j < q->n; j++) {
                const struct dra_sub *s = &q->subs[j];
                size_t take;

                if (s->all)
                    continue;
                take = order_sub(c, i, s, it, near, near_n);
                for (size_t x = 0; !decided && x < take && near_n < near_cap; x++)
                    near[near_n++] = dra_order_at(c, &c->order[s->id], x);
                decided |= take != 0;
            }
        }
}

/* ---- how good the outcome is ---- */

/* How well two devices sit together, 0..1: by what both claims prefer where it is one, else by what
 * is usual. */
static double pair_score(struct dra_call *c, const struct dra_placed *a, const struct dra_placed *b)
{
    const int *weight = a->claim == b->claim ? c->d->claims[a->claim].topo : topo_weight;
    int most = 0, least = 0;

    for (size_t i = 0; i < DRA_TOPO_N; i++) {
        most += weight[i] > 0 ? weight[i] : 0;
        least += weight[i] < 0 ? weight[i] : 0;
    }
    if (most == least)
        return 1;
    return (double)(closeness(weight, c->cands[a->cand].dev, c->cands[b->cand].dev) - least) /
           (double)(most - least);
}

/* Candidates that somebody holds when all is as the call has placed it. */
static size_t held(const struct dra_call *c)
{
    size_t n = 0;

    if (!c->scan) {
        for (size_t i = 0; i < c->cands_n; i++) {
            const struct dra_cand *x = &c->cands[i];

            n += x->dev->use->dedicated || x->taken || x->dev->use->shares || x->shares;
        }
        return n;
    }
    n = c->scan->held_n;
    for (size_t i = 0; i < c->placed_n; i++) {
        const struct dra_use *u = c->cands[c->placed[i].cand].dev->use;
        size_t k = 0;

        while (k < i && c->placed[k].cand != c->placed[i].cand)
            k++;
        n += k == i && !u->dedicated && !u->shares;
    }
    return n;
}

int dra_score(struct dra_call *c)
{
    size_t total = c->cands_n, used = held(c), pairs = 0;
    double filled, near, close = 0;

    for (size_t i = 0; i < c->placed_n; i++)
        for (size_t k = i + 1; k < c->placed_n; k++, pairs++)
            close += pair_score(c, &c->placed[i], &c->placed[k]);
    filled = total ? (double)used / (double)total : 1;
    near = pairs ? close / (double)pairs : 1;
    if (c->opts->scoring == BH_DRA_SPREAD)
        filled = 1 - filled;
    return (int)(50 * filled + 50 * near + 0.5);
}
