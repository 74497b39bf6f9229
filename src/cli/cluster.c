/* A cluster on this machine: files and lock. */
#include "cli/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"

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

int cluster_running(const char *data_dir)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {.max = 64};
    const char *lock = cluster_path(a, data_dir, "bulkhead.lock");
    struct bh_err err = {0};
    BH_AUTO_FD fd = -1;
    int64_t pid;

    if (!bh_fs_exists(lock) || bh_fs_lock(lock, &fd, &err) != -BH_E_BUSY)
        return 0;
    if (bh_fs_read(cluster_path(a, data_dir, "bulkhead.pid"), 64, &b, NULL) < 0 ||
        !bh_str_i64(bh_str_trim(bh_buf_str(&b)), 1, INT32_MAX, &pid))
        return 0;
    return (int)pid;
}

int cluster_lock(const char *data_dir, int *ret_fd, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    char pid[32];
    int r = bh_fs_lock(cluster_path(a, data_dir, "bulkhead.lock"), ret_fd, err);

    if (r < 0)
        return r;
    snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    return bh_fs_write_atomic(cluster_path(a, data_dir, "bulkhead.pid"), bh_s(pid), 0644, err);
}
