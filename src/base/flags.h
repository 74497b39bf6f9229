/* Values of command-line flags, for the commands and the roles. Thread: any. */
#ifndef BH_BASE_FLAGS_H
#define BH_BASE_FLAGS_H

#include <stdbool.h>

#include "base/err.h"

/* "true", "false", "1", "0", "yes", "no" of a flag's value; NULL (a bare flag) is true. Returns
 * false for other text. */
BH_MUST bool bh_flag_bool(const char *text, bool *ret);
/* Takes "--flag VALUE" or "--flag=VALUE" at argv[*i] and moves *i to the last word it took; NULL,
 * and nothing moved, when another word stands there. The value is a part of argv. */
const char *bh_flag_value(int argc, char **argv, int *i, const char *flag);

#endif
