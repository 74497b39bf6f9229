#include "runtime/layer.h"

#include "base/arena.h"
#include "base/fs.h"
#include "base/limits.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <locale.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CHUNK ((size_t)128 << 10)

/* Directory times are set last: filling a directory changes them. */
struct dir_time {
    struct dir_time *next;
    char *path;
    struct timespec ts[2];
};

struct unpack {
    struct archive *outer; /* decompresses */
    struct archive *tar;   /* reads what outer gives */
    EVP_MD_CTX *md;
    char *chunk;
    struct bh_arena *arena;
    struct dir_time *dirs;
    int64_t raw_bytes;
    int root;
    struct bh_layer_stat st;
    struct bh_err *err;
};

int bh_open_in_root(int root, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};

    return (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof(how));
}

/* Cleans an archive's name: no leading slash, no ".", no empty component; ".." is refused. Writes
 * at most n bytes. */
static int clean_name(const char *in, char *out, size_t n, struct bh_err *err)
{
    struct bh_str rest = bh_s(in);
    size_t at = 0;

    out[0] = '\0';
    while (rest.n > 0) {
        struct bh_str part = bh_str_cut(&rest, '/');

        if (part.n == 0 || bh_str_eqc(part, "."))
            continue;
        if (bh_str_eqc(part, ".."))
            return bh_err_set(err, BH_E_INVALID, "archive entry '%.200s' leaves the root", in);
        if (part.n > 255 || at + part.n + 2 > n)
            return bh_err_set(err, BH_E_INVALID, "archive entry '%.200s' has too long a name", in);
        if (at > 0)
            out[at++] = '/';
        memcpy(out + at, part.p, part.n);
        at += part.n;
        out[at] = '\0';
    }
    return 0;
}

/* Opens the directory that holds path inside root, making what is missing; *ret_base points into
 * path. */
static int open_parent(int root, char *path, char **ret_base, int *ret_fd, struct bh_err *err)
{
    char *slash = strrchr(path, '/');
    BH_AUTO_FD dir = -1;

    *ret_base = slash ? slash + 1 : path;
    if (slash)
        *slash = '\0';
    dir = bh_open_in_root(root, slash ? path : ".", O_PATH | O_DIRECTORY);
    if (dir < 0 && errno == ENOENT && slash) {
        for (char *p = path;; p++) {
            if (*p != '/' && *p != '\0')
                continue;
            char keep = *p;
            *p = '\0';
            char *last = strrchr(path, '/');
            if (last)
                *last = '\0';
            BH_AUTO_FD up = bh_open_in_root(root, last ? path : ".", O_PATH | O_DIRECTORY);
            if (last)
                *last = '/';
            if (up >= 0 && mkdirat(up, last ? last + 1 : path, 0755) < 0 && errno != EEXIST) {
                int r = bh_err_sys(err, errno, "make directory '%s'", path);

                *p = keep;
                *slash = '/';
                return r;
            }
            *p = keep;
            if (!keep)
                break;
        }
        dir = bh_open_in_root(root, path, O_PATH | O_DIRECTORY);
    }
    int eno = errno;
    if (slash)
        *slash = '/';
    if (dir < 0)
        return bh_err_sys(err, eno, "directory of archive entry '%s'", path);
    *ret_fd = bh_take_fd(&dir);
    return 0;
}

/* Removes what stands at name unless it is a directory and may stay one. Returns 1 when a directory
 * was kept. */
static int clear_way(struct unpack *u, int dir, const char *name, const char *path, bool want_dir)
{
    struct stat st;
    char full[PATH_MAX];

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : bh_err_sys(u->err, errno, "look at '%s'", path);
    if (S_ISDIR(st.st_mode) && want_dir)
        return 1;
    if (!S_ISDIR(st.st_mode))
        return unlinkat(dir, name, 0) < 0 ? bh_err_sys(u->err, errno, "replace '%s'", path) : 0;
    int r = bh_path(full, sizeof(full), u->err, "/proc/self/fd/%d/%s", dir, name);
    return r < 0 ? r : bh_fs_remove_tree(full, u->err);
}

static la_ssize_t feed(struct archive *a, void *arg, const void **ret)
{
    struct unpack *u = arg;
    la_ssize_t n = archive_read_data(u->outer, u->chunk, CHUNK);

    if (n < 0) {
        archive_set_error(a, EIO, "%s", archive_error_string(u->outer));
        return ARCHIVE_FATAL;
    }
    u->raw_bytes += n;
    if (u->raw_bytes > BH_LAYER_BYTES_MAX) {
        archive_set_error(a, EFBIG, "layer is larger than %lld bytes",
                          (long long)BH_LAYER_BYTES_MAX);
        return ARCHIVE_FATAL;
    }
    if (n > 0)
        EVP_DigestUpdate(u->md, u->chunk, (size_t)n);
    *ret = u->chunk;
    return n;
}

static const char *entry_name(struct archive_entry *e)
{
    const char *p = archive_entry_pathname(e);

    return p ? p : archive_entry_pathname_utf8(e);
}

static int write_content(struct unpack *u, int fd, const char *path)
{
    const void *p;
    size_t n;
    la_int64_t off, end = 0;
    int r;

    while ((r = archive_read_data_block(u->tar, &p, &n, &off)) == ARCHIVE_OK) {
        u->st.bytes += (int64_t)n;
        if (off != end && lseek(fd, off, SEEK_SET) < 0)
            return bh_err_sys(u->err, errno, "seek in '%s'", path);
        int w = bh_write_all(fd, p, n, u->err);
        if (w < 0)
            return bh_err_wrap(u->err, "write '%s'", path);
        end = off + (la_int64_t)n;
    }
    if (r != ARCHIVE_EOF)
        return bh_err_set(u->err, BH_E_INVALID, "layer entry '%s': %s", path,
                          archive_error_string(u->tar));
    return 0;
}

static int set_xattrs(struct unpack *u, int dir, const char *name, struct archive_entry *e)
{
    const char *key;
    const void *val;
    size_t n;
    char full[PATH_MAX];

    if (archive_entry_xattr_reset(e) == 0)
        return 0;
    int r = bh_path(full, sizeof(full), u->err, "/proc/self/fd/%d/%s", dir, name);
    if (r < 0)
        return r;
    while (archive_entry_xattr_next(e, &key, &val, &n) == ARCHIVE_OK) {
        /* trusted.overlay.* from an image would forge whiteouts; labels of other systems mean
         * nothing here. */
        if (!bh_str_starts(bh_s(key), BH_S("user.")) && strcmp(key, "security.capability") != 0)
            continue;
        if (lsetxattr(full, key, val, n, 0) < 0 && errno != ENOTSUP && errno != EPERM)
            return bh_err_sys(u->err, errno, "set attribute %s", key);
    }
    return 0;
}

static int set_meta(struct unpack *u, int dir, const char *name, const char *path,
                    struct archive_entry *e)
{
    bool link = archive_entry_filetype(e) == AE_IFLNK;
    struct timespec ts[2];

    if (fchownat(dir, name, (uid_t)archive_entry_uid(e), (gid_t)archive_entry_gid(e),
                 AT_SYMLINK_NOFOLLOW) < 0)
        return bh_err_sys(u->err, errno, "chown '%s'", path);
    /* After the owner: chown clears the set-id bits and file capabilities. */
    if (!link && fchmodat(dir, name, archive_entry_mode(e) & 07777, 0) < 0)
        return bh_err_sys(u->err, errno, "chmod '%s'", path);
    int r = set_xattrs(u, dir, name, e);
    if (r < 0)
        return r;
    ts[1].tv_sec = archive_entry_mtime(e);
    ts[1].tv_nsec = archive_entry_mtime_nsec(e);
    ts[0] = ts[1];
    if (archive_entry_filetype(e) == AE_IFDIR) {
        struct dir_time *d = bh_new(u->arena, struct dir_time);

        d->path = bh_arena_memdup(u->arena, path, strlen(path) + 1);
        d->ts[0] = ts[0];
        d->ts[1] = ts[1];
        d->next = u->dirs;
        u->dirs = d;
        return 0;
    }
    (void)utimensat(dir, name, ts,
                    AT_SYMLINK_NOFOLLOW); /* a wrong time is not worth a failed image */
    return 0;
}

/* A whiteout hides what lower layers hold; what this layer itself put there stays. Returns 1 when
 * name was one. */
static int whiteout(struct unpack *u, int dir, const char *name, const char *path)
{
    struct stat st;

    if (strncmp(name, ".wh.", 4) != 0)
        return 0;
    if (strcmp(name, ".wh..wh..opq") == 0) {
        char full[PATH_MAX];
        int r = bh_path(full, sizeof(full), u->err, "/proc/self/fd/%d", dir);

        if (r < 0)
            return r;
        if (setxattr(full, "trusted.overlay.opaque", "y", 1, 0) < 0)
            return bh_err_sys(u->err, errno, "mark '%s' opaque", path);
        return 1;
    }
    if (strncmp(name, ".wh..wh.", 8) == 0)
        return 1; /* aufs' own bookkeeping */
    name += 4;
    if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return bh_err_set(u->err, BH_E_INVALID, "layer entry '%s' is no valid whiteout", path);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 1;
    if (mknodat(dir, name, S_IFCHR, makedev(0, 0)) < 0)
        return bh_err_sys(u->err, errno, "whiteout '%s'", path);
    return 1;
}

static int make_hardlink(struct unpack *u, int dir, const char *name, const char *path,
                         const char *target)
{
    char clean[PATH_MAX];
    char *base;
    BH_AUTO_FD tdir = -1;
    struct stat st;
    int r = clean_name(target, clean, sizeof(clean), u->err);

    if (r < 0)
        return r;
    r = open_parent(u->root, clean, &base, &tdir, u->err);
    if (r < 0)
        return r;
    /* A link to itself must not delete its target. */
    if (fstatat(tdir, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return bh_err_sys(u->err, errno, "hard link '%s' to '%s'", path, clean);
    if (S_ISDIR(st.st_mode) || S_ISCHR(st.st_mode))
        return bh_err_set(u->err, BH_E_INVALID, "hard link '%s' to what is no file", path);
    struct stat have;
    if (fstatat(dir, name, &have, AT_SYMLINK_NOFOLLOW) == 0 && have.st_ino == st.st_ino &&
        have.st_dev == st.st_dev)
        return 0;
    r = clear_way(u, dir, name, path, false);
    if (r < 0)
        return r;
    if (linkat(tdir, base, dir, name, 0) < 0)
        return bh_err_sys(u->err, errno, "hard link '%s' to '%s'", path, clean);
    return 0;
}

static int make_file(struct unpack *u, int dir, const char *name, const char *path)
{
    BH_AUTO_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return bh_err_sys(u->err, errno, "create '%s'", path);
    return write_content(u, fd, path);
}

static int unpack_entry(struct unpack *u, struct archive_entry *e)
{
    const char *raw = entry_name(e);
    const char *hard =
        archive_entry_hardlink(e) ? archive_entry_hardlink(e) : archive_entry_hardlink_utf8(e);
    unsigned type = archive_entry_filetype(e);
    char path[PATH_MAX];
    char *name;
    BH_AUTO_FD dir = -1;

    if (!raw)
        return bh_err_set(u->err, BH_E_INVALID, "layer entry without a readable name");
    int r = clean_name(raw, path, sizeof(path), u->err);
    if (r < 0)
        return r;
    if (path[0] == '\0') { /* the root itself: only its mode and owner matter */
        if (type != AE_IFDIR)
            return bh_err_set(u->err, BH_E_INVALID, "layer entry '%.200s' replaces the root", raw);
        return set_meta(u, u->root, ".", ".", e);
    }
    r = open_parent(u->root, path, &name, &dir, u->err);
    if (r < 0)
        return r;
    r = whiteout(u, dir, name, path);
    if (r != 0)
        return r < 0 ? r : 0;
    if (hard)
        return make_hardlink(u, dir, name, path, hard);
    if (type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK && type != AE_IFIFO) {
        u->st.skipped++;
        return 0;
    }
    r = clear_way(u, dir, name, path, type == AE_IFDIR);
    if (r < 0)
        return r;
    if (type == AE_IFREG) {
        r = make_file(u, dir, name, path);
        if (r < 0)
            return r;
    } else if (type == AE_IFDIR && r == 0 && mkdirat(dir, name, 0700) < 0) {
        return bh_err_sys(u->err, errno, "make directory '%s'", path);
    } else if (type == AE_IFLNK) {
        const char *to =
            archive_entry_symlink(e) ? archive_entry_symlink(e) : archive_entry_symlink_utf8(e);

        if (!to || symlinkat(to, dir, name) < 0)
            return bh_err_sys(u->err, to ? errno : EINVAL, "symbolic link '%s'", path);
    } else if (type == AE_IFIFO && mkfifoat(dir, name, 0600) < 0) {
        return bh_err_sys(u->err, errno, "make fifo '%s'", path);
    }
    return set_meta(u, dir, name, path, e);
}

static int unpack_all(struct unpack *u)
{
    struct archive_entry *e;
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned sum_n = 0;
    int r;

    while ((r = archive_read_next_header(u->tar, &e)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
        if (++u->st.entries > BH_LAYER_ENTRIES_MAX)
            return bh_err_set(u->err, BH_E_LIMIT, "layer has more than %d entries",
                              BH_LAYER_ENTRIES_MAX);
        r = unpack_entry(u, e);
        if (r < 0)
            return r;
    }
    if (r != ARCHIVE_EOF)
        return bh_err_set(u->err, BH_E_INVALID, "layer: %s", archive_error_string(u->tar));
    /* The digest covers the padding after the archive's end, too. */
    for (;;) {
        const void *p;
        la_ssize_t n = feed(u->tar, u, &p);

        if (n < 0)
            return bh_err_set(u->err, BH_E_INVALID, "layer: %s", archive_error_string(u->tar));
        if (n == 0)
            break;
    }
    for (struct dir_time *d = u->dirs; d; d = d->next) {
        BH_AUTO_FD fd = bh_open_in_root(u->root, d->path, O_RDONLY | O_DIRECTORY);

        if (fd >= 0)
            (void)futimens(fd, d->ts);
    }
    EVP_DigestFinal_ex(u->md, sum, &sum_n);
    bh_assert(sum_n == 32);
    memcpy(u->st.diff_id, "sha256:", 7);
    for (unsigned i = 0; i < sum_n; i++)
        snprintf(u->st.diff_id + 7 + (size_t)i * 2, 3, "%02x", sum[i]);
    return 0;
}

static int run_unpack(struct unpack *u, const char *dst)
{
    struct archive_entry *e;

    u->root = open(dst, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (u->root < 0)
        return bh_err_sys(u->err, errno, "open '%s'", dst);
    int r = archive_read_next_header(u->outer, &e);
    if (r != ARCHIVE_OK && r != ARCHIVE_EOF)
        return bh_err_set(u->err, BH_E_INVALID, "layer: %s", archive_error_string(u->outer));
    u->tar = archive_read_new();
    archive_read_support_format_tar(u->tar);
    archive_read_support_format_empty(u->tar);
    if (archive_read_open(u->tar, u, NULL, feed, NULL) != ARCHIVE_OK)
        return bh_err_set(u->err, BH_E_INVALID, "layer: %s", archive_error_string(u->tar));
    return unpack_all(u);
}

static struct archive *new_outer(void)
{
    struct archive *a = archive_read_new();

    bh_assert(a != NULL);
    archive_read_support_filter_gzip(a);
    archive_read_support_filter_zstd(a);
    archive_read_support_filter_xz(a);
    archive_read_support_filter_bzip2(a);
    archive_read_support_format_raw(a);
    archive_read_support_format_empty(a);
    return a;
}

static int unpack_from(struct archive *outer, const char *dst, struct bh_layer_stat *ret,
                       struct bh_err *err)
{
    struct unpack u = {.outer = outer, .root = -1, .err = err};
    /* libarchive converts names by the thread's locale; in "C" a UTF-8 name would be lost. */
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t old = utf8 ? uselocale(utf8) : (locale_t)0;

    u.chunk = bh_malloc(CHUNK);
    u.arena = bh_arena_new(0);
    u.md = EVP_MD_CTX_new();
    bh_assert(u.md != NULL && EVP_DigestInit_ex(u.md, EVP_sha256(), NULL) == 1);
    int r = run_unpack(&u, dst);
    *ret = u.st;
    if (u.tar)
        archive_read_free(u.tar);
    EVP_MD_CTX_free(u.md);
    bh_arena_free(u.arena);
    bh_free(u.chunk);
    bh_close_p(&u.root);
    if (utf8) {
        uselocale(old);
        freelocale(utf8);
    }
    return r;
}

int bh_layer_unpack(const char *blob, const char *dst, struct bh_layer_stat *ret,
                    struct bh_err *err)
{
    struct archive *outer = new_outer();
    int r;

    if (archive_read_open_filename(outer, blob, CHUNK) != ARCHIVE_OK)
        r = bh_err_set(err, BH_E_INVALID, "layer: %s", archive_error_string(outer));
    else
        r = unpack_from(outer, dst, ret, err);
    archive_read_free(outer);
    return r;
}

int bh_layer_unpack_mem(struct bh_str blob, const char *dst, struct bh_layer_stat *ret,
                        struct bh_err *err)
{
    struct archive *outer = new_outer();
    int r;

    if (archive_read_open_memory(outer, blob.p, blob.n) != ARCHIVE_OK)
        r = bh_err_set(err, BH_E_INVALID, "layer: %s", archive_error_string(outer));
    else
        r = unpack_from(outer, dst, ret, err);
    archive_read_free(outer);
    return r;
}

/* ---- image archives ---- */

struct late_link {
    struct late_link *next;
    char *path, *target;
};

static int extract_file(struct archive *a, int root, const char *path, struct bh_err *err)
{
    char copy[PATH_MAX];
    char *name;
    BH_AUTO_FD dir = -1;
    int r = bh_path(copy, sizeof(copy), err, "%s", path);

    if (r < 0)
        return r;
    r = open_parent(root, copy, &name, &dir, err);
    if (r < 0)
        return r;
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
        return bh_err_sys(err, errno, "replace '%s'", path);
    BH_AUTO_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return bh_err_sys(err, errno, "create '%s'", path);
    if (archive_read_data_into_fd(a, fd) != ARCHIVE_OK)
        return bh_err_set(err, BH_E_INVALID, "archive entry '%s': %s", path,
                          archive_error_string(a));
    return 0;
}

static int link_late(int root, const struct late_link *l, struct bh_err *err)
{
    char to[PATH_MAX], from[PATH_MAX];
    char *to_name, *from_name;
    BH_AUTO_FD to_dir = -1;
    BH_AUTO_FD from_dir = -1;
    int r = bh_path(to, sizeof(to), err, "%s", l->path);

    if (r == 0)
        r = bh_path(from, sizeof(from), err, "%s", l->target);
    if (r == 0)
        r = open_parent(root, to, &to_name, &to_dir, err);
    if (r == 0)
        r = open_parent(root, from, &from_name, &from_dir, err);
    if (r < 0)
        return r;
    if (linkat(from_dir, from_name, to_dir, to_name, 0) < 0 && errno != EEXIST)
        return bh_err_sys(err, errno, "archive entry '%s' links to '%s'", l->path, l->target);
    return 0;
}

/* The target of a symbolic link, relative to the link's directory, as a name inside the archive. */
static int link_target(const char *path, const char *to, char *out, size_t n, struct bh_err *err)
{
    char joined[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int dir_n = slash ? (int)(slash - path) : 0;

    while (strncmp(to, "../", 3) == 0 && dir_n > 0) {
        to += 3;
        while (dir_n > 0 && path[dir_n - 1] != '/')
            dir_n--;
        if (dir_n > 0)
            dir_n--;
    }
    int r = bh_path(joined, sizeof(joined), err, "%.*s/%s", dir_n, path, to);
    return r < 0 ? r : clean_name(joined, out, n, err);
}

static int extract_entry(struct archive *a, struct archive_entry *e, int root,
                         struct bh_arena *arena, struct late_link **links, struct bh_err *err)
{
    const char *raw = entry_name(e);
    char path[PATH_MAX], target[PATH_MAX];
    int r;

    if (!raw)
        return bh_err_set(err, BH_E_INVALID, "archive entry without a readable name");
    r = clean_name(raw, path, sizeof(path), err);
    if (r < 0 || path[0] == '\0')
        return r;
    if (archive_entry_hardlink(e))
        r = clean_name(archive_entry_hardlink(e), target, sizeof(target), err);
    else if (archive_entry_filetype(e) == AE_IFLNK && archive_entry_symlink(e))
        r = link_target(path, archive_entry_symlink(e), target, sizeof(target), err);
    else if (archive_entry_filetype(e) == AE_IFREG)
        return extract_file(a, root, path, err);
    else
        return 0;
    if (r < 0)
        return r;
    struct late_link *l = bh_new(arena, struct late_link);
    l->path = bh_arena_memdup(arena, path, strlen(path) + 1);
    l->target = bh_arena_memdup(arena, target, strlen(target) + 1);
    l->next = *links;
    *links = l;
    return 0;
}

static int extract_all(struct archive *a, int root, struct bh_arena *arena, struct bh_err *err)
{
    struct archive_entry *e;
    struct late_link *links = NULL;
    int64_t entries = 0;
    int r;

    while ((r = archive_read_next_header(a, &e)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
        if (++entries > BH_LAYER_ENTRIES_MAX)
            return bh_err_set(err, BH_E_LIMIT, "archive has more than %d entries",
                              BH_LAYER_ENTRIES_MAX);
        r = extract_entry(a, e, root, arena, &links, err);
        if (r < 0)
            return r;
    }
    if (r != ARCHIVE_EOF)
        return bh_err_set(err, BH_E_INVALID, "archive: %s", archive_error_string(a));
    for (struct late_link *l = links; l; l = l->next) {
        r = link_late(root, l, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int bh_archive_extract(const char *file, const char *dst, struct bh_err *err)
{
    BH_AUTO_ARENA arena = bh_arena_new(0);
    BH_AUTO_FD root = open(dst, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct archive *a = archive_read_new();
    int r;

    bh_assert(a != NULL);
    if (root < 0) {
        r = bh_err_sys(err, errno, "open '%s'", dst);
    } else {
        archive_read_support_filter_all(a);
        archive_read_support_format_tar(a);
        if (archive_read_open_filename(a, file, CHUNK) != ARCHIVE_OK)
            r = bh_err_set(err, BH_E_INVALID, "%s: %s", file, archive_error_string(a));
        else
            r = extract_all(a, root, arena, err);
    }
    archive_read_free(a);
    return r;
}
