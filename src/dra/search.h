/* Private to src/dra: one call of the allocator, shared by search.c, place.c, score.c and result.c.
 */
#ifndef BH_DRA_SEARCH_H
#define BH_DRA_SEARCH_H

#include "dra/dra_int.h"
#include "dra/rank.h"

#define DRA_CLASSES_MAX 64u

/* A device that the node sees in a usable pool. */
struct dra_cand {
    struct dra_dev *dev;
    uint32_t vpool;  /* index in the view */
    uint32_t taken;  /* placements of it in this call; shared ones are not counted */
    uint32_t shares; /* shares of it placed in this call */
    uint32_t cls;    /* 0: unknown; devices of one class are interchangeable */
    uint8_t targets; /* 0: unknown, 1: no, 2: yes */
    bool touched;    /* in the call's list of those that have to be reset */
    struct dra_amount
        *amounts; /* capacity consumed in this call; as many as the device has capacities */
};

/* A constraint while devices are placed. */
struct dra_con_state {
    uint32_t n;
    const struct bh_resource_v1_device_attribute *first; /* matchAttribute: of the first device */
    uint32_t cand;                                       /* that device */
    uint64_t mask; /* its values that all devices so far share */
    const struct bh_resource_v1_device_attribute **last; /* distinctAttribute: by request */
};

struct dra_placed {
    uint32_t cand, claim, req;
    const struct dra_sub *sub;
    bool share, counters;
    struct dra_amount *caps; /* consumed, of a share; as many as the device has capacities */
    size_t caps_cap;         /* memory is kept when the place is used again */
    uint64_t *masks;         /* of the claim's constraints before this one */
};

/* Counters that this call consumes, by the slots of the pool's table. */
struct dra_incall {
    struct bh_quantity *q; /* NULL: nothing yet */
};

struct dra_fit;

struct dra_item {
    uint32_t at;            /* candidate */
    bool binding, expected; /* expected: an earlier request will take it */
    double size, used;
};

struct dra_list {
    uint32_t *at; /* indexes of candidates in the order to be tried */
    size_t n, cap;
    /* An order is brought about as far as it is read: at is filled in to ready, the best of the
     * others is on top of the heap, or next in the index; and those that are late stand last. */
    size_t ready, taken;
    struct dra_item *heap;
    const struct dra_fit *fit;
    struct dra_rank_it it;
    uint32_t *late;
    size_t late_n;
};

struct dra_bound;

struct dra_call {
    struct bh_dra_ask *q;
    struct bh_dra_model *m;
    struct dra_demand *d;
    struct dra_node *node;
    struct dra_view *view;
    const struct bh_dra_opts *opts;
    struct bh_arena *a;
    struct bh_err *err;
    struct dra_cand *cands;
    size_t cands_n;
    struct dra_scan *scan; /* what is known of them; NULL: nothing */
    uint32_t *touched;     /* candidates of the scan that the call has written to */
    size_t touched_n, touched_cap;
    struct dra_incall *incall;   /* by vpool */
    struct dra_list *all;        /* by sub id: what mode All collected */
    struct dra_list *order;      /* by sub id; NULL: first fit */
    struct dra_con_state **cons; /* by claim, constraint */
    uint32_t **chosen;           /* by claim, request: the alternative */
    struct dra_placed *placed;
    size_t placed_n;
    uint32_t *per_claim;               /* devices placed */
    uint32_t classes[DRA_CLASSES_MAX]; /* candidates, one of each class */
    size_t classes_n;
    uint64_t steps, steps_max;
    uint64_t looks;          /* candidates looked at by exact requests */
    struct dra_bound *bound; /* NULL until there is need */
    bool own_node;           /* the result names the node */
    char *late;              /* an error that counts only when no solution is found */
    bool details;            /* explaining: to people who asked, so it may cost something */
};

/* place.c */
/* Whether the device may not be used by this request: held, or placed already. */
bool dra_in_use(const struct dra_call *c, size_t claim, const struct dra_sub *s,
                const struct dra_cand *x);
/* Section 4.5: 1, 0, or -BH_E_INVALID. */
int dra_selectable(struct dra_call *c, size_t claim, const struct dra_sub *s, struct dra_cand *x);
/* Section 4.9: the device has every capacity that is asked for, and room for it. */
bool dra_capacity_fits(const struct bh_dra_model *m, const struct dra_sub *s, struct dra_cand *x);
/* Whether taints, capacity and counters of the device let it serve s, apart from what the call does
 * to it: false only if nothing that the call does may change that. */
bool dra_has_room(const struct bh_dra_model *m, const struct dra_sub *s, struct dra_dev *d);
bool dra_tolerated(const struct bh_dra_model *m, const struct dra_sub *s, const struct dra_dev *d,
                   const struct bh_resource_v1_device_taint **ret_taint);
const struct bh_resource_v1_device_attribute *dra_attr(const struct dra_dev *d,
                                                       const struct dra_con *con);
/* Whether two attributes have a value in common (a scalar is a set of one); types must be equal. */
uint64_t dra_attr_common(const struct bh_resource_v1_device_attribute *a,
                         const struct bh_resource_v1_device_attribute *b, bool lists);
bool dra_con_applies(const struct dra_con *con, struct bh_str req, const struct dra_sub *s);
/* Whether the candidate has to pay counters. */
bool dra_counters_needed(const struct dra_cand *x);
enum dra_placing {
    DRA_FITS,
    DRA_UNFIT_COUNTERS,
    DRA_UNFIT_TAINT,
    DRA_UNFIT_CONSTRAINT,
    DRA_UNFIT_CAPACITY,
    DRA_UNFIT_OFF
};
/* Section 4.7 from step 2 on: places the device, or says why not. */
enum dra_placing dra_place(struct dra_call *c, uint32_t claim, uint32_t req,
                           const struct dra_sub *s, uint32_t cand);
void dra_unplace(struct dra_call *c); /* the last one */
/* The class of a candidate, from 1 on: devices of one class may be exchanged for each other.
 * DRA_NONE: the device is like no other, or there are too many classes. */
uint32_t dra_cand_class(struct dra_call *c, struct dra_cand *x);

/* bound.c */
/* Whether left more devices may be placed for the request from place from on, and then the requests
 * after it: false only if they cannot. Not for administrators. */
bool dra_may_finish(struct dra_call *c, uint32_t claim, uint32_t req, const struct dra_sub *s,
                    size_t from, size_t left);

/* search.c */
/* The candidate to be tried at place *at, or at the next one that has any; DRA_NONE: all were. */
uint32_t dra_cand_at(struct dra_call *c, const struct dra_sub *s, size_t *at);
/* The candidates of a view, in order; returns their number, v->n_devices at most. */
size_t dra_cands_fill(const struct dra_view *v, struct dra_cand *ret);

/* score.c */
/* Orders the candidates of every request. */
void dra_order(struct dra_call *c);
/* The i-th candidate of an order, i < l->n. */
uint32_t dra_order_at(struct dra_call *c, struct dra_list *l, size_t i);
int dra_score(struct dra_call *c);

/* explain_detail.c: more than the reason. Texts in the call's arena. */
void dra_detail_selector(struct dra_call *c, const struct dra_sub *s, size_t at,
                         const struct dra_dev *d, struct bh_dra_verdict *ret);
void dra_detail_capacity(struct dra_call *c, const struct dra_sub *s, struct dra_dev *d,
                         struct bh_dra_verdict *ret);
void dra_detail_counter(struct dra_call *c, const struct dra_counter *t,
                        const struct dra_consume *k, struct bh_str *ret);
void dra_detail_pool(struct dra_call *c, const struct dra_vpool *v, struct bh_str *ret);

/* result.c */
/* Section 4.10. -BH_E_INVALID: the allocation cannot be expressed. */
BH_MUST int dra_result(struct dra_call *c, struct bh_dra_result *ret);

#endif
