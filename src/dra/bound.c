/* A bound for the search: how many more devices the rest of the candidates can give to a request,
 * and to those after it, at most, each counter and constraint taken on its own.
 *
 * Without it, a request for seven of eight partitions that do not fit together is answered after
 * all sets of them were tried. It costs more than a step, so the search asks only when it has gone
 * astray for a while. */
#include <stdlib.h>

#include "dra/search.h"

#define LOOKS_OF_CAND 4u    /* more is done here for each than the search does */
#define CANDS_MAX     128u  /* with more, there are enough */
#define USES_MAX      2048u /* uses of counters by them */

struct use {
    const struct dra_pool *pool;
    uint32_t slot, vpool;
    struct bh_quantity value;
};

struct dra_bound {
    uint32_t cands[CANDS_MAX]; /* those that do on their own */
    size_t n;
    struct use uses[USES_MAX];
    size_t uses_n;
};

static bool matches(const struct dra_call *c, uint32_t claim, uint32_t req, const struct dra_sub *s,
                    const struct dra_dev *d)
{
    const struct dra_dclaim *dc = &c->d->claims[claim];

    for (size_t i = 0; i < dc->cons_n; i++) {
        const struct dra_con_state *st = &c->cons[claim][i];
        const struct bh_resource_v1_device_attribute *a;

        if (dc->cons[i].distinct || !dra_con_applies(&dc->cons[i], dc->reqs[req].name, s))
            continue;
        a = dra_attr(d, &dc->cons[i]);
        if (!a || (st->n && !(dra_attr_common(st->first, a, c->m->f.list_attributes) & st->mask)))
            return false;
    }
    return true;
}

/* Takes down what the candidate needs of its pool's counters; false when there are too many. */
static bool uses_add(const struct dra_call *c, struct dra_bound *b, const struct dra_cand *x)
{
    const struct dra_dev *d = x->dev;

    for (size_t i = 0; dra_counters_needed(x) && i < d->consumes_n; i++) {
        if (d->consumes[i].slot == DRA_NONE || bh_quantity_sign(d->consumes[i].value) <= 0)
            continue;
        if (b->uses_n == USES_MAX)
            return false;
        b->uses[b->uses_n++] = (struct use){.pool = c->view->pools[x->vpool].pool,
                                            .vpool = x->vpool,
                                            .slot = d->consumes[i].slot,
                                            .value = d->consumes[i].value};
    }
    return true;
}

static int use_cmp(const void *x, const void *y)
{
    const struct use *a = x, *b = y;

    if (a->vpool != b->vpool)
        return a->vpool < b->vpool ? -1 : 1;
    if (a->slot != b->slot)
        return a->slot < b->slot ? -1 : 1;
    return bh_quantity_cmp(a->value, b->value);
}

/* Of the uses from at on that are of one counter: how many are too many. */
static size_t one_counter(const struct dra_call *c, const struct dra_bound *b, size_t *at)
{
    const struct use *u = &b->uses[*at];
    const struct dra_counter *t = &u->pool->table[u->slot];
    const struct dra_incall *in = &c->incall[u->vpool];
    struct bh_quantity sum = in->q ? bh_quantity_add(t->used, in->q[u->slot]) : t->used;
    size_t over = 0;

    for (; *at < b->uses_n && b->uses[*at].vpool == u->vpool && b->uses[*at].slot == u->slot;
         ++*at) {
        /* Ascending: what does not fit any more would not fit instead of an earlier one. */
        sum = bh_quantity_add(sum, b->uses[*at].value);
        over += bh_quantity_cmp(sum, t->total) > 0;
    }
    return over;
}

/* At most so many of the candidates fit beside each other. */
static size_t at_most(const struct dra_call *c, struct dra_bound *b)
{
    size_t most = b->n;

    if (b->uses_n)
        qsort(b->uses, b->uses_n, sizeof(*b->uses), use_cmp);
    for (size_t i = 0; i < b->uses_n;) {
        uint32_t vpool = b->uses[i].vpool;
        size_t worst = 0;

        /* Of each pool the counter that leaves most of them out. */
        while (i < b->uses_n && b->uses[i].vpool == vpool) {
            size_t over = one_counter(c, b, &i);

            worst = over > worst ? over : worst;
        }
        most -= worst < most ? worst : most;
    }
    return most;
}

static bool gathered(const struct dra_bound *b, uint32_t at)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->cands[i] == at)
            return true;
    return false;
}

/* Adds what may serve the request on its own, from place from on; false when nothing can be said.
 */
static bool gather(struct dra_call *c, struct dra_bound *b, uint32_t claim, uint32_t req,
                   const struct dra_sub *s, size_t from)
{
    uint32_t at;

    for (; (at = dra_cand_at(c, s, &from)) != DRA_NONE; from++) {
        struct dra_cand *x = &c->cands[at];
        struct dra_pool *p = c->view->pools[x->vpool].pool;

        c->looks += LOOKS_OF_CAND;
        if (dra_in_use(c, claim, s, x) || !dra_tolerated(c->m, s, x->dev, NULL) ||
            !dra_capacity_fits(c->m, s, x) || !matches(c, claim, req, s, x->dev))
            continue;
        switch (dra_selectable(c, claim, s, x)) {
        case 0:
            continue;
        case 1:
            break;
        default:
            return false; /* the search shall find it */
        }
        if (x->dev->d->consumes_counters.n) {
            dra_pool_counters(p, c->view->pools[x->vpool].gen);
            if (p->table_negative)
                return false; /* one may make room for another */
        }
        if (gathered(b, at)) {
            if (x->dev->multi)
                return false; /* it may serve both */
            continue;
        }
        if (b->n == CANDS_MAX || !uses_add(c, b, x))
            return false;
        b->cands[b->n++] = at;
    }
    return true;
}

bool dra_may_finish(struct dra_call *c, uint32_t claim, uint32_t req, const struct dra_sub *s,
                    size_t from, size_t left)
{
    const struct dra_dclaim *dc = &c->d->claims[claim];
    struct dra_bound *b = c->bound;

    if (!b)
        b = c->bound = bh_new(c->a, struct dra_bound);
    b->n = b->uses_n = 0;
    if (!gather(c, b, claim, req, s, from))
        return true;
    for (uint32_t r = req + 1; dc->exact && r < dc->n; r++) {
        if (!gather(c, b, claim, r, &dc->reqs[r].subs[0], 0))
            return true;
        left += (size_t)dc->reqs[r].subs[0].count;
    }
    c->looks += b->uses_n;
    return at_most(c, b) >= left;
}
