#include "base/flags.h"

#include <string.h>

bool bh_flag_bool(const char *text, bool *ret)
{
    static const char *const on[] = {"true", "1", "t", "T", "TRUE", "True", "yes"};
    static const char *const off[] = {"false", "0", "f", "F", "FALSE", "False", "no"};

    if (!text) {
        *ret = true;
        return true;
    }
    for (size_t i = 0; i < BH_COUNT(on); i++) {
        if (strcmp(text, on[i]) == 0 || strcmp(text, off[i]) == 0) {
            *ret = strcmp(text, on[i]) == 0;
            return true;
        }
    }
    return false;
}

const char *bh_flag_value(int argc, char **argv, int *i, const char *flag)
{
    size_t n = strlen(flag);

    if (strncmp(argv[*i], flag, n) != 0)
        return NULL;
    if (argv[*i][n] == '=')
        return argv[*i] + n + 1;
    if (argv[*i][n] == '\0' && *i + 1 < argc)
        return argv[++*i];
    return NULL;
}
