/* Tables of computed cells, one per file. */
#ifndef BH_APISERVER_TABLE_COLUMNS_H
#define BH_APISERVER_TABLE_COLUMNS_H

#include "api/types.h"

struct bh_buf;

struct bh_column_entry {
    const char *name; /* as in `= func NAME`; NULL ends the table */
    bh_column_fn fn;
};

extern const struct bh_column_entry bh_columns_meta[], bh_columns_pod[], bh_columns_core[],
    bh_columns_resource[], bh_columns_storage[], bh_columns_workload[];
extern const struct bh_column_entry *const bh_column_tables[]; /* NULL-terminated */

/* The member `,"conditions":[…]` of a row whose object has come to its end; nothing for others. */
void bh_row_conditions(const struct bh_kind *k, const void *obj, struct bh_buf *out);

/* A cell with a string, and with printf. */
void bh_cell_str(struct bh_buf *out, struct bh_str s);
void bh_cell_fmt(struct bh_buf *out, const char *fmt, ...) BH_PRINTF(2, 3);
/* The age of t: "5m", "<unknown>" for none. */
void bh_cell_age(struct bh_buf *out, struct bh_time now, struct bh_time t);

#endif
