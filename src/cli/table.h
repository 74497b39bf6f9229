/* Tables as kubectl prints them: columns as wide as their widest cell, three blanks between. */
#ifndef BH_CLI_TABLE_H
#define BH_CLI_TABLE_H

#include "base/str.h"

/* cells: rows * cols of them, row by row. On stdout. */
void cli_table(const char *const *heads, size_t cols, const struct bh_str *cells, size_t rows);

#endif
