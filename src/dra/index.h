/* Private to src/dra: the index of large views, kept from call to call. See index.c. */
#ifndef BH_DRA_INDEX_H
#define BH_DRA_INDEX_H

#include "dra/rank.h"
#include "dra/search.h"

/* The values that the candidates of a scene have for one attribute. */
#define DRA_VALUE_NONE 0u         /* it has none */
#define DRA_VALUE_ANY  UINT32_MAX /* a list, or nothing that can be compared: to be looked at */
struct dra_values {
    struct dra_values *next;
    struct bh_str attr; /* owned */
    uint32_t *id;       /* by candidate; equal for equal values */
    uint32_t n;         /* ids are below */
};

/* A matchAttribute constraint on a request, and how many of its candidates have each value. */
struct dra_mark {
    uint32_t con; /* of the claim */
    const struct dra_values *values;
    uint32_t *count; /* by value */
    uint32_t any;
};

/* The candidates that may serve a request as far as the books say. */
struct dra_fit {
    const struct dra_sub *sub;
    const struct dra_scene *scene;
    uint64_t *bits; /* by candidate */
    size_t n;
    /* For scoring: how much of it is in use, and the candidates in order. */
    double *used;
    struct dra_rank rank;
    struct dra_mark *marks;
    size_t marks_n;
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
    uint64_t used_at;     /* the model's count of calls */
};

/* NULL where the view is small, or nothing can be said beforehand. Valid for one call. */
struct dra_scan *dra_scan_get(struct bh_dra_model *m, struct dra_demand *d,
                              const struct dra_view *v, enum bh_dra_scoring scoring);
bool dra_fit_has(const struct dra_fit *f, uint32_t at);
/* How many candidates have this value of the constraint, or may have it. */
uint32_t dra_mark_room(const struct dra_mark *k, uint32_t value);
/* The next candidate from at on; the number of candidates when there is none. */
size_t dra_fit_next(const struct dra_fit *f, size_t at);
/* As it stands in the order; for scoring. */
struct dra_item dra_fit_item(const struct dra_fit *f, uint32_t at);

#endif
