/* Private to src/dra: the index of large views, kept from call to call. See index.c. */
#ifndef BH_DRA_INDEX_H
#define BH_DRA_INDEX_H

#include "dra/rank.h"
#include "dra/search.h"

/* The candidates that may serve a request as far as the books say. */
struct dra_fit {
    const struct dra_sub *sub;
    const struct dra_scene *scene;
    uint64_t *bits; /* by candidate */
    size_t n;
    /* For scoring: how much of it is in use, and the candidates in order. */
    double *used;
    struct dra_rank rank;
};

/* What is known of a demand in one scene, with one kind of scoring. */
struct dra_scan {
    struct bh_dra_model *m;
    struct dra_scene *scene;
    struct bh_link lru, of_demand;
    enum bh_dra_scoring scoring;
    struct dra_cand *cands; /* of the scene, untouched between calls */
    size_t cands_n;
    bool topo;      /* some of them say where they sit */
    bool broken;    /* a selector fails: the search has to find out where */
    uint64_t *held; /* candidates that somebody holds */
    size_t held_n;
    struct dra_fit *fits; /* by sub id; those of mode All stay empty */
    size_t fits_n;
    uint64_t seen, epoch; /* of the model's changes */
};

/* NULL where the view is small, or nothing can be said beforehand. Valid for one call. */
struct dra_scan *dra_scan_get(struct bh_dra_model *m, struct dra_demand *d,
                              const struct dra_view *v, enum bh_dra_scoring scoring);
bool dra_fit_has(const struct dra_fit *f, uint32_t at);
/* The next candidate from at on; the number of candidates when there is none. */
size_t dra_fit_next(const struct dra_fit *f, size_t at);
/* As it stands in the order; for scoring. */
struct dra_item dra_fit_item(const struct dra_fit *f, uint32_t at);

#endif
