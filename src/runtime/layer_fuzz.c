/* Layers come from registries: nothing that one holds may reach outside its directory. Run as root,
 * in a scratch place. */
#include "base/arena.h"
#include "base/fs.h"
#include "runtime/layer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static char base[64];
    char dst[96];
    struct bh_layer_stat st;
    struct bh_err err;
    struct stat sb;

    if (!base[0]) {
        bh_assert(bh_path(base, sizeof(base), NULL, "/tmp/bh-layer-fuzz-XXXXXX") == 0);
        bh_assert(mkdtemp(base) != NULL);
    }
    bh_assert(bh_path(dst, sizeof(dst), NULL, "%s/dst", base) == 0);
    bh_assert(bh_fs_mkdir_p(dst, 0700, NULL) == 0);
    (void)!bh_layer_unpack_mem((struct bh_str){(const char *)p, n}, dst, &st, &err);
    bh_assert(bh_fs_remove_tree(dst, NULL) == 0);
    /* Two links: itself and its parent's; a file beside dst would be an escape. */
    bh_assert(stat(base, &sb) == 0 && sb.st_nlink == 2);
    return 0;
}
