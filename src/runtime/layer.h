/* Unpacks one image layer (a tar stream, perhaps compressed) into a directory in the form overlayfs
 * wants below it.
 *
 * Whiteouts become character devices 0:0 and the opaque attribute. No entry leaves the directory:
 * parents are resolved inside it (openat2 RESOLVE_IN_ROOT), `..` is refused. Hard links, ownership,
 * modes, times and the extended attributes user.* and security.capability are kept. Device nodes
 * and sockets are skipped: the runtime makes a container's /dev itself, and a node in an image has
 * no honest use. Blocking; needs root. Thread: any.
 */
#ifndef BH_RUNTIME_LAYER_H
#define BH_RUNTIME_LAYER_H

#include "base/err.h"
#include "base/str.h"

struct bh_layer_stat {
    int64_t bytes;    /* content of regular files */
    int64_t entries;  /* entries of the archive */
    int64_t skipped;  /* device nodes and sockets left out */
    char diff_id[72]; /* "sha256:<hex>" of the uncompressed stream */
};

/* dst must be an empty directory. The stream is the file `blob` (plain, gzip, zstd, xz or bzip2).
 * On failure dst is left as far as it came; the caller removes it. */
BH_MUST int bh_layer_unpack(const char *blob, const char *dst, struct bh_layer_stat *ret,
                            struct bh_err *err);
/* The same from memory, for tests and the fuzzer. */
BH_MUST int bh_layer_unpack_mem(struct bh_str blob, const char *dst, struct bh_layer_stat *ret,
                                struct bh_err *err);

/* Unpacks the regular files of an archive (an image archive, not a layer) flat into dst, under
 * their cleaned relative names; links to files of the archive become hard links. */
BH_MUST int bh_archive_extract(const char *file, const char *dst, struct bh_err *err);

/* Opens path inside the directory root: links are resolved as if root were "/". -1 and errno on
 * failure. */
int bh_open_in_root(int root, const char *path, int flags);
#endif
