/* Pages of a list, for lists and for collections that are deleted. */
#ifndef BH_APISERVER_REST_LIST_H
#define BH_APISERVER_REST_LIST_H

#include "apiserver/listopts.h"
#include "apiserver/select.h"

struct bh_list_page {
    struct bh_obj **items; /* borrowed from the cache for the current callback */
    size_t n;
    uint64_t rv;
    struct bh_str cont;
    bool has_remaining;
    int64_t remaining;
    bool
        null_items; /* nothing matched: upstream then writes null for the kinds of the core group */
};

BH_MUST int bh_list_select(struct bh_rq *rq, const struct bh_listopts *o, const struct bh_select *s,
                           struct bh_list_page *ret);
/* Answers with the page (in stored form) as a list in the form asked for. */
BH_MUST int bh_list_answer(struct bh_rq *rq, struct bh_list_page *p);

#endif
