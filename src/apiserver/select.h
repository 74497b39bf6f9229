/* Label and field selectors of a list, watch or collection, parsed and checked against what a kind
 * offers. */
#ifndef BH_APISERVER_SELECT_H
#define BH_APISERVER_SELECT_H

#include "apiserver/rq.h"
#include "data/selector.h"

struct bh_select {
    struct bh_label_selector labels;
    struct bh_field_selector fields;
    bool any; /* there is a selector */
    struct bh_str name,
        ns; /* metadata.name=… and metadata.namespace=… of the field selector; empty: none */
    struct bh_str index_value; /* value of the kind's indexed field when the selector fixes it; p ==
                                  NULL: it does not */
};

BH_MUST int bh_select_parse(struct bh_rq *rq, struct bh_select *ret);
/* o is in the stored version. scratch is for values that have to be unescaped. */
bool bh_select_match(const struct bh_select *s, const struct bh_kind *asked, const struct bh_obj *o,
                     struct bh_arena *scratch);

#endif
