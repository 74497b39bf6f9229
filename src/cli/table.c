/* Tables as kubectl prints them. */
#include "cli/table.h"

#include <stdio.h>

#include "base/err.h"

#define COLS_MAX 16

static void line(const struct bh_str *cells, size_t cols, const size_t *width)
{
    for (size_t c = 0; c < cols; c++)
        printf("%-*.*s%s", c + 1 < cols ? (int)width[c] : 0, BH_SF(cells[c]),
               c + 1 < cols ? "   " : "\n");
}

void cli_table(const char *const *heads, size_t cols, const struct bh_str *cells, size_t rows)
{
    struct bh_str top[COLS_MAX];
    size_t width[COLS_MAX];

    bh_assert(cols <= COLS_MAX);
    for (size_t c = 0; c < cols; c++) {
        top[c] = bh_s(heads[c]);
        width[c] = top[c].n;
        for (size_t r = 0; r < rows; r++)
            if (cells[r * cols + c].n > width[c])
                width[c] = cells[r * cols + c].n;
    }
    line(top, cols, width);
    for (size_t r = 0; r < rows; r++)
        line(&cells[r * cols], cols, width);
}
