/* Cells that every kind has, and the small helpers of the others. */
#include "apiserver/table_columns.h"

#include "api/gen/meta_v1.h"
#include "base/buf.h"
#include "data/json.h"
#include "data/time_fmt.h"

#include <stdio.h>

void bh_cell_str(struct bh_buf *out, struct bh_str s)
{
    bh_json_write_str(out, s);
}

void bh_cell_fmt(struct bh_buf *out, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n < 0)
        n = 0;
    bh_json_write_str(
        out, (struct bh_str){text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1});
}

void bh_cell_age(struct bh_buf *out, struct bh_time now, struct bh_time t)
{
    char buf[BH_TIME_BUF];

    bh_json_write_str(out, bh_age(now, t, buf));
}

/* Metadata stands first in every kind that has a table. */
static void age(const void *obj, struct bh_time now, struct bh_buf *out)
{
    bh_cell_age(out, now, ((const struct bh_meta_v1_object_meta *)obj)->creation_timestamp);
}

const struct bh_column_entry bh_columns_meta[] = {{"age", age}, {NULL, NULL}};
