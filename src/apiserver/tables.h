/* Tables: what kubectl get prints. */
#ifndef BH_APISERVER_TABLES_H
#define BH_APISERVER_TABLES_H

#include "apiserver/rq.h"

struct bh_table_opts {
    struct bh_str version; /* of meta.k8s.io: "v1", "v1beta1" */
    uint64_t rv;
    struct bh_time now;
    struct bh_str cont;
    bool has_remaining, list;
    int64_t remaining;
    bool no_columns; /* a watch event after the first */
    enum { BH_INCLUDE_METADATA, BH_INCLUDE_NONE, BH_INCLUDE_OBJECT } include;
};

/* Reads includeObject of the query. */
BH_MUST int bh_table_options(struct bh_rq *rq, struct bh_table_opts *o);
/* objs are of kind k. One JSON object, without a newline. */
BH_MUST int bh_table_json(struct bh_rq *rq, const struct bh_kind *k, struct bh_obj *const *objs,
                          size_t n, const struct bh_table_opts *o, struct bh_buf *out);
/* A C function behind `= func NAME` in the schema; NULL when there is none. */
bh_column_fn bh_column_find(struct bh_str name);

#endif
