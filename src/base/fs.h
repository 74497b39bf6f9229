/* Files and descriptors. Blocking calls: from start-up code, helper processes or the worker pool.
 * Thread: any. */
#ifndef BH_BASE_FS_H
#define BH_BASE_FS_H

#include "base/err.h"
#include "base/str.h"

struct bh_buf;

void bh_close_p(int *fd);
#define BH_AUTO_FD BH_CLEANUP(bh_close_p) int
static inline int bh_take_fd(int *fd)
{
    int v = *fd;

    *fd = -1;
    return v;
}

/* Appends the whole file to out; -BH_E_LIMIT if it holds more than max bytes, -BH_E_NOT_FOUND if it
 * is not there. */
BH_MUST int bh_fs_read(const char *path, size_t max, struct bh_buf *out, struct bh_err *err);
/* Writes path.tmp, fsyncs, renames over path, fsyncs the directory: the file is either old or new,
 * never half. */
BH_MUST int bh_fs_write_atomic(const char *path, struct bh_str data, unsigned mode,
                               struct bh_err *err);
BH_MUST int bh_fs_write_plain(const char *path, struct bh_str data, unsigned mode,
                              struct bh_err *err);
BH_MUST int bh_fs_mkdir_p(const char *path, unsigned mode, struct bh_err *err);
/* Removes a tree; does not cross mount points (a mounted directory is an error), does not follow
 * links. Missing is fine. */
BH_MUST int bh_fs_remove_tree(const char *path, struct bh_err *err);
/* Moves a file that cannot be read aside, to path.corrupt-0 and so on, where an operator finds it,
 * and logs that what it held is done without. -BH_E_LIMIT when 1,000 such copies lie there. */
BH_MUST int bh_fs_quarantine(const char *path, const char *what, struct bh_err *err);
bool bh_fs_exists(const char *path);
/* snprintf that reports truncation. */
BH_MUST int bh_path(char *buf, size_t n, struct bh_err *err, const char *fmt, ...) BH_PRINTF(4, 5);
/* Exclusive advisory lock, not waited for: -BH_E_BUSY when another process holds it. Released by
 * closing *ret_fd. */
BH_MUST int bh_fs_lock(const char *path, int *ret_fd, struct bh_err *err);
BH_MUST int bh_write_all(int fd, const void *p, size_t n, struct bh_err *err);

#endif
