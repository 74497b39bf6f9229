/* No path crashes, and evaluation ends, whatever the document. The input: path, newline, document.
 */
#include "base/arena.h"
#include "data/jsonpath.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct bh_str rest = {(const char *)p, n}, path = bh_str_cut(&rest, '\n');
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct bh_jsonpath *jp;
    struct bh_jv v;

    if (n > 4096 || bh_jsonpath_compile(a, path, &jp, NULL) < 0)
        return 0;
    if (bh_jv_parse(a, rest, NULL, &v, NULL) == 0)
        (void)bh_jsonpath_eval(a, jp, &v);
    return 0;
}
