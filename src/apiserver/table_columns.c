/* Cells that are computed. The full set is in the files that this table names. */
#include "apiserver/table_columns.h"

#include "apiserver/tables.h"

bh_column_fn bh_column_find(struct bh_str name)
{
    for (size_t t = 0; bh_column_tables[t]; t++)
        for (const struct bh_column_entry *e = bh_column_tables[t]; e->name; e++)
            if (bh_str_eqc(name, e->name))
                return e->fn;
    return NULL;
}

const struct bh_column_entry *const bh_column_tables[] = {bh_columns_meta,
                                                          bh_columns_pod,
                                                          bh_columns_core,
                                                          bh_columns_resource,
                                                          bh_columns_storage,
                                                          bh_columns_workload,
                                                          NULL};
