/* Private to src/dra: numbers in an order that the caller knows, kept as they come and go. */
#ifndef BH_DRA_RANK_H
#define BH_DRA_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dra_run;

/* A list of short sorted runs: each change moves at most one of them. before is a strict order of
 * all numbers; what it says of a number must not change while the number is in. */
struct dra_rank {
    bool (*before)(const void *arg, uint32_t a, uint32_t b);
    const void *arg;
    struct dra_run **runs; /* none is empty */
    size_t n, cap;
};

struct dra_rank_it { /* zeroed: before the first; valid until the next change */
    size_t run;
    uint32_t at;
};

void dra_rank_add(struct dra_rank *r, uint32_t x); /* which is not in */
void dra_rank_del(struct dra_rank *r, uint32_t x); /* which is in */
bool dra_rank_next(const struct dra_rank *r, struct dra_rank_it *it, uint32_t *ret);
void dra_rank_done(struct dra_rank *r);

#endif
