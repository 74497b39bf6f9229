/* Numbers in order, as sorted runs. */
#include "dra/rank.h"

#include <string.h>

#include "base/arena.h"
#include "base/err.h"

#define RUN_MAX 120u

struct dra_run {
    uint32_t n;
    uint32_t x[RUN_MAX];
};

/* The last run that begins with x or something before it; the first one if there is none. */
static size_t run_of(const struct dra_rank *r, uint32_t x)
{
    size_t lo = 0, hi = r->n;

    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;

        if (r->before(r->arg, x, r->runs[mid]->x[0]))
            hi = mid;
        else
            lo = mid;
    }
    return lo;
}

/* How many of the run stand before x. */
static uint32_t place_of(const struct dra_rank *r, const struct dra_run *run, uint32_t x)
{
    uint32_t lo = 0, hi = run->n;

    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;

        if (r->before(r->arg, run->x[mid], x))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct dra_run *run_insert(struct dra_rank *r, size_t at)
{
    if (r->n == r->cap) {
        r->cap = r->cap ? r->cap * 2 : 4;
        r->runs = bh_realloc(r->runs, r->cap * sizeof(*r->runs));
    }
    memmove(r->runs + at + 1, r->runs + at, (r->n - at) * sizeof(*r->runs));
    r->n++;
    r->runs[at] = bh_malloc(sizeof(struct dra_run));
    r->runs[at]->n = 0;
    return r->runs[at];
}

void dra_rank_add(struct dra_rank *r, uint32_t x)
{
    size_t at = r->n ? run_of(r, x) : 0;
    struct dra_run *run = r->n ? r->runs[at] : run_insert(r, 0);
    uint32_t k = place_of(r, run, x);

    if (run->n == RUN_MAX) {
        /* Most come in order: then the full run stays as it is. */
        uint32_t keep = k == RUN_MAX ? RUN_MAX : RUN_MAX / 2;
        struct dra_run *next = run_insert(r, at + 1);

        next->n = RUN_MAX - keep;
        memcpy(next->x, run->x + keep, next->n * sizeof(*next->x));
        run->n = keep;
        if (k > keep || keep == RUN_MAX) {
            k -= keep;
            run = next;
        }
    }
    memmove(run->x + k + 1, run->x + k, (run->n - k) * sizeof(*run->x));
    run->x[k] = x;
    run->n++;
}

void dra_rank_del(struct dra_rank *r, uint32_t x)
{
    size_t at = run_of(r, x);
    struct dra_run *run = r->runs[at];
    uint32_t k = place_of(r, run, x);

    bh_assert(k < run->n && run->x[k] == x);
    run->n--;
    memmove(run->x + k, run->x + k + 1, (run->n - k) * sizeof(*run->x));
    if (run->n)
        return;
    bh_free(run);
    r->n--;
    memmove(r->runs + at, r->runs + at + 1, (r->n - at) * sizeof(*r->runs));
}

bool dra_rank_next(const struct dra_rank *r, struct dra_rank_it *it, uint32_t *ret)
{
    if (it->run < r->n && it->at == r->runs[it->run]->n) {
        it->run++;
        it->at = 0;
    }
    if (it->run == r->n)
        return false;
    *ret = r->runs[it->run]->x[it->at++];
    return true;
}

void dra_rank_done(struct dra_rank *r)
{
    for (size_t i = 0; i < r->n; i++)
        bh_free(r->runs[i]);
    bh_free(r->runs);
    r->runs = NULL;
    r->n = r->cap = 0;
}
