/* A cluster on this machine: files and lock. */
#include "cli/cluster.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"

#define PID_TRIES  50
#define LOCK_TRIES 10

const char *cluster_path(struct bh_arena *a, const char *data_dir, const char *rel)
{
    return bh_str_fmt(a, "%s/%s", data_dir, rel).p;
}

const char *cluster_data_dir(struct bh_arena *a, const char *given)
{
    const char *env = getenv("BULKHEAD_DATA_DIR");
    struct bh_str dir = bh_s(given ? given : env && *env ? env : CLUSTER_DATA_DIR);
    char cwd[4096];

    if (dir.n && dir.p[0] != '/' && getcwd(cwd, sizeof(cwd)))
        dir = bh_str_fmt(a, "%s/%.*s", cwd, BH_SF(dir));
    while (dir.n > 1 && dir.p[dir.n - 1] == '/')
        dir.n--;
    return bh_str_dup(a, dir).p;
}

/* Whether the process has the file open: a pid that was read may be an earlier holder's. */
static bool holds(int pid, const char *lock)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const char *dir = bh_str_fmt(a, "/proc/%d/fd", pid).p;
    DIR *d = opendir(dir);
    bool found = false;
    struct dirent *e;
    struct stat want, st;

    if (!d)
        return false;
    if (stat(lock, &want) == 0)
        while (!found && (e = readdir(d)))
            found = fstatat(dirfd(d), e->d_name, &st, 0) == 0 && st.st_dev == want.st_dev &&
                    st.st_ino == want.st_ino;
    (void)closedir(d);
    return found;
}

int cluster_running(const char *data_dir)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const char *lock = cluster_path(a, data_dir, "bulkhead.lock");

    /* Between taking the lock and writing its pid a cluster needs a moment. */
    for (int i = 0; i < PID_TRIES; i++) {
        BH_AUTO_BUF b = {.max = 64};
        BH_AUTO_FD fd = -1;
        int64_t pid;

        if (!bh_fs_exists(lock) || bh_fs_lock(lock, &fd, NULL) != -BH_E_BUSY)
            return 0;
        if (bh_fs_read(cluster_path(a, data_dir, "bulkhead.pid"), 64, &b, NULL) == 0 &&
            bh_str_i64(bh_str_trim(bh_buf_str(&b)), 1, INT32_MAX, &pid) && holds((int)pid, lock))
            return (int)pid;
        (void)nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    return 0;
}

int cluster_lock(const char *data_dir, int *ret_fd, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const char *lock = cluster_path(a, data_dir, "bulkhead.lock");
    char pid[32];
    int r = bh_fs_lock(lock, ret_fd, err);

    /* Whoever asks whether the cluster runs holds the lock for a moment. */
    for (int i = 0; r == -BH_E_BUSY && i < LOCK_TRIES && !cluster_running(data_dir); i++)
        r = bh_fs_lock(lock, ret_fd, err);
    if (r < 0)
        return r;
    snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    return bh_fs_write_atomic(cluster_path(a, data_dir, "bulkhead.pid"), bh_s(pid), 0644, err);
}

int cluster_claim_root(const char *data_dir, const char *root, int *ret_fd, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    int r = bh_fs_mkdir_p(root, 0755, err);

    if (r >= 0)
        r = bh_fs_lock(cluster_path(a, root, "bulkhead.lock"), ret_fd, err);
    if (r == -BH_E_BUSY)
        return bh_err_set(err, BH_E_BUSY,
                          "another cluster uses the kubelet root %s: give this one its own with "
                          "--kubelet-root",
                          root);
    if (r >= 0)
        r = bh_fs_write_atomic(cluster_path(a, root, "bulkhead.owner"),
                               bh_str_fmt(a, "%s\n", data_dir), 0644, err);
    return r < 0 ? r
                 : bh_fs_write_atomic(cluster_path(a, data_dir, "kubelet-root"),
                                      bh_str_fmt(a, "%s\n", root), 0644, err);
}

/* The one line of a file, in the arena; NULL when it cannot be read or is empty. */
static const char *line_of(struct bh_arena *a, const char *path)
{
    BH_AUTO_BUF b = {.max = 4096};
    struct bh_str s;

    if (bh_fs_read(path, 4096, &b, NULL) < 0)
        return NULL;
    s = bh_str_trim(bh_buf_str(&b));
    return s.n ? bh_str_dup(a, s).p : NULL;
}

const char *cluster_root_of(struct bh_arena *a, const char *data_dir)
{
    return line_of(a, cluster_path(a, data_dir, "kubelet-root"));
}

bool cluster_owns_root(const char *data_dir, const char *root)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const char *owner = line_of(a, cluster_path(a, root, "bulkhead.owner"));

    return owner && bh_str_eqc(bh_s(owner), data_dir);
}
