/* Files and descriptors: blocking helpers for start-up code, helper processes and the worker pool.
 */
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"

#define QUARANTINE_MAX 1000
#define TREE_DEPTH_MAX                                                                             \
    256 /* open directories while a tree is removed: stays under the usual limit on descriptors */

void bh_close_p(int *fd)
{
    if (*fd >= 0) {
        int saved = errno;

        (void)close(*fd);
        errno = saved;
        *fd = -1;
    }
}

int bh_path(char *buf, size_t n, struct bh_err *err, const char *fmt, ...)
{
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = vsnprintf(buf, n, fmt, ap);
    va_end(ap);
    if (r < 0 || (size_t)r >= n)
        return bh_err_set(err, BH_E_LIMIT, "path longer than %zu bytes", n);
    return 0;
}

int bh_fs_read(const char *path, size_t max, struct bh_buf *out, struct bh_err *err)
{
    BH_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    char chunk[16384];
    size_t total = 0;

    if (fd < 0 && errno == ENOENT)
        return bh_err_set(err, BH_E_NOT_FOUND, "open %s: no such file or directory", path);
    if (fd < 0)
        return bh_err_sys(err, errno, "open %s", path);
    for (;;) {
        ssize_t r = read(fd, chunk, sizeof(chunk));

        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return bh_err_sys(err, errno, "read %s", path);
        if (r == 0)
            return 0;
        total += (size_t)r;
        if (total > max)
            return bh_err_set(err, BH_E_LIMIT, "%s is larger than %zu bytes", path, max);
        bh_buf_add(out, chunk, (size_t)r);
        if (out->overflow)
            return bh_err_set(err, BH_E_LIMIT, "%s does not fit the buffer", path);
    }
}

int bh_write_all(int fd, const void *p, size_t n, struct bh_err *err)
{
    const char *c = p;

    while (n) {
        ssize_t w = write(fd, c, n);

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return bh_err_sys(err, errno, "write");
        c += w;
        n -= (size_t)w;
    }
    return 0;
}

static int write_file(const char *path, struct bh_str data, unsigned mode, bool sync,
                      struct bh_err *err)
{
    BH_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, (mode_t)mode);
    int r;

    if (fd < 0)
        return bh_err_sys(err, errno, "create %s", path);
    /* The umask and an older file must not decide the mode. */
    if (fchmod(fd, (mode_t)mode) < 0)
        return bh_err_sys(err, errno, "chmod %s", path);
    r = bh_write_all(fd, data.p, data.n, err);
    if (r < 0)
        return bh_err_wrap(err, "%s", path);
    if (sync && fsync(fd) < 0)
        return bh_err_sys(err, errno, "fsync %s", path);
    if (close(bh_take_fd(&fd)) < 0)
        return bh_err_sys(err, errno, "close %s", path);
    return 0;
}

int bh_fs_write_plain(const char *path, struct bh_str data, unsigned mode, struct bh_err *err)
{
    return write_file(path, data, mode, false, err);
}

static int sync_parent(const char *path, struct bh_err *err)
{
    const char *slash = strrchr(path, '/');
    struct bh_str dir =
        slash ? (struct bh_str){path, slash == path ? 1 : (size_t)(slash - path)} : bh_s(".");
    BH_AUTO_FREE char *name = bh_strdup_c(dir);
    BH_AUTO_FD fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return bh_err_sys(err, errno, "open %s", name);
    /* Some file systems cannot fsync a directory; they say EINVAL. */
    if (fsync(fd) < 0 && errno != EINVAL)
        return bh_err_sys(err, errno, "fsync %s", name);
    return 0;
}

int bh_fs_write_atomic(const char *path, struct bh_str data, unsigned mode, struct bh_err *err)
{
    char tmp[PATH_MAX];
    int r = bh_path(tmp, sizeof(tmp), err, "%s.tmp", path);

    if (r < 0)
        return r;
    r = write_file(tmp, data, mode, true, err);
    if (r < 0) {
        (void)unlink(tmp);
        return r;
    }
    if (rename(tmp, path) < 0) {
        r = bh_err_sys(err, errno, "rename %s to %s", tmp, path);
        (void)unlink(tmp);
        return r;
    }
    return sync_parent(path, err);
}

static int mkdir_one(const char *path, unsigned mode, struct bh_err *err)
{
    struct stat st;

    if (mkdir(path, (mode_t)mode) == 0)
        return 0;
    if (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return bh_err_sys(err, errno, "mkdir %s", path);
}

int bh_fs_mkdir_p(const char *path, unsigned mode, struct bh_err *err)
{
    char buf[PATH_MAX];
    int r = bh_path(buf, sizeof(buf), err, "%s", path);

    if (r < 0)
        return r;
    for (char *p = buf + 1; buf[0] && *p; p++) {
        if (*p != '/' || p[-1] == '/')
            continue;
        *p = '\0';
        r = mkdir_one(buf, mode, err);
        if (r < 0)
            return r;
        *p = '/';
    }
    return mkdir_one(buf, mode, err);
}

struct tree_level {
    DIR *dir;
    char name[NAME_MAX + 1]; /* in the parent */
};

/* Removes what is not a directory; 1 when name is a directory that has to be entered first. Another
 * device number is a mount point: it is left alone. */
static int remove_entry(int dirfd_, const char *name, dev_t dev, struct bh_err *err)
{
    struct stat st;

    if (unlinkat(dirfd_, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return bh_err_sys(err, errno, "unlink %s", name);
    if (fstatat(dirfd_, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : bh_err_sys(err, errno, "stat %s", name);
    if (!S_ISDIR(st.st_mode))
        return bh_err_sys(err, EPERM, "unlink %s", name);
    if (st.st_dev != dev)
        return bh_err_set(err, BH_E_IO, "%s is a mount point", name);
    if (unlinkat(dirfd_, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno == EBUSY)
        return bh_err_set(err, BH_E_IO, "%s is a mount point", name);
    return errno == ENOTEMPTY || errno == EEXIST ? 1 : bh_err_sys(err, errno, "rmdir %s", name);
}

static int open_level(struct tree_level *l, int parent, const char *name, struct bh_err *err)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return bh_err_sys(err, errno, "open %s", name);
    l->dir = fdopendir(fd);
    if (!l->dir) {
        int eno = errno;

        (void)close(fd);
        return bh_err_sys(err, eno, "open %s", name);
    }
    (void)snprintf(l->name, sizeof(l->name), "%s", name);
    return 0;
}

/* The loop over an explicit stack of open directories: levels[0] is the root of the tree. */
static int remove_levels(struct tree_level *levels, size_t *depth, dev_t dev, struct bh_err *err)
{
    while (*depth) {
        struct tree_level *top = &levels[*depth - 1];
        struct dirent *e;
        int r;

        errno = 0;
        e = readdir(top->dir);
        if (!e && errno)
            return bh_err_sys(err, errno, "readdir %s", top->name);
        if (!e) {
            (void)closedir(top->dir);
            (*depth)--;
            if (!*depth)
                return 0;
            if (unlinkat(dirfd(levels[*depth - 1].dir), top->name, AT_REMOVEDIR) < 0 &&
                errno != ENOENT)
                return bh_err_sys(err, errno, "rmdir %s", top->name);
            continue;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        r = remove_entry(dirfd(top->dir), e->d_name, dev, err);
        if (r < 0)
            return r;
        if (r == 0)
            continue;
        if (*depth == TREE_DEPTH_MAX)
            return bh_err_set(err, BH_E_LIMIT, "tree deeper than %d", TREE_DEPTH_MAX);
        r = open_level(&levels[*depth], dirfd(top->dir), e->d_name, err);
        if (r < 0)
            return r;
        (*depth)++;
    }
    return 0;
}

int bh_fs_remove_tree(const char *path, struct bh_err *err)
{
    BH_AUTO_FREE struct tree_level *levels = NULL;
    size_t depth = 0;
    struct stat st;
    int r;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : bh_err_sys(err, errno, "stat %s", path);
    if (!S_ISDIR(st.st_mode))
        return unlink(path) == 0 || errno == ENOENT ? 0 : bh_err_sys(err, errno, "unlink %s", path);
    levels = bh_calloc(TREE_DEPTH_MAX, sizeof(*levels));
    r = open_level(&levels[0], AT_FDCWD, path, err);
    if (r < 0)
        return r;
    depth = 1;
    r = remove_levels(levels, &depth, st.st_dev, err);
    while (depth)
        (void)closedir(levels[--depth].dir);
    if (r < 0)
        return bh_err_wrap(err, "remove %s", path);
    return rmdir(path) == 0 || errno == ENOENT ? 0 : bh_err_sys(err, errno, "rmdir %s", path);
}

bool bh_fs_exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

int bh_fs_quarantine(const char *path, const char *what, struct bh_err *err)
{
    char to[PATH_MAX];

    for (int i = 0; i < QUARANTINE_MAX; i++) {
        int r = bh_path(to, sizeof(to), err, "%s.corrupt-%d", path, i);

        if (r < 0)
            return r;
        if (bh_fs_exists(to))
            continue;
        if (rename(path, to) < 0)
            return bh_err_sys(err, errno, "move %s aside", path);
        bh_log(BH_ERROR, "a corrupt file was moved aside, continuing without it",
               BH_CSTR("what", what), BH_CSTR("file", to));
        return 0;
    }
    return bh_err_set(err, BH_E_LIMIT, "there are already %d corrupt copies of %s", QUARANTINE_MAX,
                      path);
}

int bh_fs_lock(const char *path, int *ret_fd, struct bh_err *err)
{
    BH_AUTO_FD fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        return bh_err_sys(err, errno, "open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            return bh_err_set(err, BH_E_BUSY, "%s is locked by another process", path);
        return bh_err_sys(err, errno, "lock %s", path);
    }
    *ret_fd = bh_take_fd(&fd);
    return 0;
}
