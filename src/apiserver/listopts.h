/* The options of lists and watches, from the query. */
#ifndef BH_APISERVER_LISTOPTS_H
#define BH_APISERVER_LISTOPTS_H

#include "apiserver/rq.h"

struct bh_listopts {
    bool watch;
    int64_t limit;
    int64_t timeout_s;
    bool has_timeout;
    bool bookmarks;
    bool has_initial, initial; /* sendInitialEvents */
    struct bh_str rv, match, cont;
    uint64_t rv_n; /* rv as a number; 0 when absent */
    /* of the continue token */
    uint64_t cont_rv;
    struct bh_str
        cont_start; /* "ns/name" of the first item not yet given, a NUL behind the last given one */
};

/* Refuses what does not go together, as upstream's ValidateListOptions. */
BH_MUST int bh_listopts_parse(struct bh_rq *rq, bool watch, struct bh_listopts *ret);
/* The token with which a list goes on after the item called last ("ns/name"). */
struct bh_str bh_continue_token(struct bh_rq *rq, uint64_t rv, struct bh_str last);

#endif
