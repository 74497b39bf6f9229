/* Blocking pieces: processes by number, records on disk, wiping what is left of a container. */
#include "runtime/rt_int.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/log.h"
#include "data/codec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

int rt_save(const char *dir, const char *kind, struct bh_str id, struct bh_str text,
            struct bh_err *err)
{
    char path[PATH_MAX];
    int r = bh_path(path, sizeof(path), err, "%s/%s/%.*s/state.json", dir, kind, BH_SF(id));

    return r < 0 ? r : bh_fs_write_atomic(path, text, 0600, err);
}

int rt_helper_blocking(const char *const *argv, struct bh_err *err)
{
    posix_spawn_file_actions_t fa;
    pid_t pid;
    int st = 0;

    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&fa, 0, 1);
    posix_spawn_file_actions_adddup2(&fa, 0, 2);
    int e = posix_spawnp(&pid, argv[0], &fa, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    if (e != 0)
        return bh_err_sys(err, e, "execute '%s'", argv[0]);
    while (waitpid(pid, &st, 0) < 0)
        if (errno != EINTR)
            return bh_err_sys(err, errno, "wait for '%s'", argv[0]);
    if (!WIFEXITED(st) || WEXITSTATUS(st) != 0)
        return bh_err_set(err, BH_E_IO, "'%s' ended with status 0x%x", argv[0], (unsigned)st);
    return 0;
}

void rt_crun_delete(const struct rt *rt, struct bh_str id)
{
    char root[PATH_MAX], idz[RT_ID_LEN + 1];

    if (bh_path(root, sizeof(root), NULL, "--root=%s/crun", rt->dir) < 0 ||
        bh_path(idz, sizeof(idz), NULL, "%.*s", BH_SF(id)) < 0)
        return;
    const char *argv[] = {
        rt->helper, "runtime-exec", "--null", "--", rt->crun, root, "--cgroup-manager=cgroupfs",
        "delete",   "--force",      idz,      NULL};
    if (rt_helper_blocking(argv, NULL) < 0)
        bh_log(BH_DEBUG, "crun had nothing to delete", BH_STR("id", id));
}

int64_t rt_pid_start(int64_t pid)
{
    char path[64];
    BH_AUTO_BUF b = {.max = 8192};
    int64_t v;

    if (pid <= 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    if (bh_fs_read(path, b.max, &b, NULL) < 0)
        return -1;
    /* The name may hold anything, so count from its closing parenthesis: state is the third field,
     * start the 22nd. */
    struct bh_str s = bh_buf_str(&b);
    size_t at = s.n;
    while (at > 0 && s.p[at - 1] != ')')
        at--;
    struct bh_str rest = bh_str_trim(bh_str_sub(s, at, s.n));
    struct bh_str state = bh_str_cut(&rest, ' ');
    if (bh_str_eqc(state, "Z") || bh_str_eqc(state, "X"))
        return -1;
    for (int i = 4; i < 22; i++)
        (void)bh_str_cut(&rest, ' ');
    return bh_str_i64(bh_str_cut(&rest, ' '), 0, INT64_MAX, &v) ? v : -1;
}

bool rt_pid_is(int64_t pid, int64_t start)
{
    return pid > 0 && start >= 0 && rt_pid_start(pid) == start;
}

int rt_read_pid(const char *path, int64_t *ret, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = 64};
    int r = bh_fs_read(path, b.max, &b, err);

    if (r == 0 && !bh_str_i64(bh_str_trim(bh_buf_str(&b)), 1, INT_MAX, ret))
        r = bh_err_set(err, BH_E_IO, "'%s' holds no process number", path);
    return r;
}

int rt_pidfd(int64_t pid, int64_t start)
{
    int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;

    /* Opened first, compared after: from here on the number cannot be reused unseen. */
    if (fd >= 0 && !rt_pid_is(pid, start))
        bh_close_p(&fd);
    return fd;
}

int64_t rt_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void rt_unmount_under(const char *dir)
{
    size_t n = strlen(dir);

    /* The list changes while we work on it, and mounts can lie on each other: look again until
     * nothing is left. */
    for (int round = 0; round < 64; round++) {
        BH_AUTO_BUF b = {.max = 16 << 20};
        bool any = false;

        if (bh_fs_read("/proc/self/mountinfo", b.max, &b, NULL) < 0)
            return;
        struct bh_str all = bh_buf_str(&b);
        while (all.n > 0) {
            struct bh_str line = bh_str_cut(&all, '\n');
            char path[PATH_MAX];

            for (int i = 0; i < 4; i++)
                (void)bh_str_cut(&line, ' ');
            struct bh_str at = bh_str_cut(&line, ' ');
            if (!bh_str_starts(at, bh_s(dir)) || at.n <= n || at.p[n] != '/' ||
                bh_path(path, sizeof(path), NULL, "%.*s", BH_SF(at)) < 0)
                continue;
            any = umount2(path, MNT_DETACH) == 0 || any;
        }
        if (!any)
            return;
    }
}

void bh_runtime_unmount_below(const char *dir)
{
    rt_unmount_under(dir);
}

static void remove_dir(const char *path)
{
    struct bh_err err = {0};

    if (bh_fs_remove_tree(path, &err) < 0)
        bh_log(BH_WARN, "directory of a container could not be removed", BH_CSTR("path", path),
               BH_CSTR("error", err.msg));
}

void rt_sandbox_wipe(const struct rt *rt, struct bh_str id, struct bh_str cgroup)
{
    char path[PATH_MAX], cg[PATH_MAX];

    rt_crun_delete(rt, id);
    if (cgroup.n > 1 && bh_path(cg, sizeof(cg), NULL, "%.*s/%.*s", BH_SF(cgroup), BH_SF(id)) == 0) {
        bh_cg_kill(&rt->cg, cg, 2000);
        bh_cg_remove(&rt->cg, cg);
        /* The pod's own groups, as far up as they are empty: another attempt may still live in
         * them. */
        size_t root_n = strlen(rt->cg_root);
        for (struct bh_str up = cgroup; up.n > root_n && bh_str_starts(up, bh_s(rt->cg_root));) {
            if (bh_path(cg, sizeof(cg), NULL, "%.*s", BH_SF(up)) < 0)
                break;
            bh_cg_remove_one(&rt->cg, cg);
            while (up.n > 0 && up.p[up.n - 1] != '/')
                up.n--;
            up.n -= up.n > 0;
        }
    }
    if (bh_path(path, sizeof(path), NULL, "%s/sandboxes/%.*s", rt->dir, BH_SF(id)) < 0)
        return;
    rt_unmount_under(path);
    remove_dir(path);
}

void rt_container_wipe(const struct rt *rt, struct bh_str id, struct bh_str cgroup,
                       int64_t conmon_pid)
{
    char path[PATH_MAX];

    rt_crun_delete(rt, id);
    if (cgroup.n > 1 && bh_path(path, sizeof(path), NULL, "%.*s", BH_SF(cgroup)) == 0) {
        bh_cg_kill(&rt->cg, path, 2000);
        bh_cg_remove(&rt->cg, path);
    }
    /* conmon writes the exit file on its way out; wait for it, or it would reappear. */
    for (int i = 0; i < 200 && rt_pid_start(conmon_pid) >= 0; i++) {
        struct timespec ts = {0, 5 * 1000 * 1000};

        nanosleep(&ts, NULL);
    }
    if (bh_path(path, sizeof(path), NULL, "%s/exits/%.*s", rt->dir, BH_SF(id)) == 0)
        (void)unlink(path);
    if (bh_path(path, sizeof(path), NULL, "%s/containers/%.*s", rt->dir, BH_SF(id)) < 0)
        return;
    rt_unmount_under(path);
    remove_dir(path);
}

static int find_program(const char *given, const char *name, char *buf, size_t n,
                        struct bh_err *err)
{
    struct bh_str path = bh_s(getenv("PATH"));

    if (given)
        return bh_path(buf, n, err, "%s", given);
    if (path.n == 0)
        path = BH_S("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    while (path.p) {
        struct bh_str d = bh_str_cut(&path, ':');

        if (d.n > 0 && bh_path(buf, n, NULL, "%.*s/%s", BH_SF(d), name) == 0 &&
            access(buf, X_OK) == 0)
            return 0;
    }
    buf[0] = '\0'; /* reported by status and by whoever needs it */
    return 0;
}

/* What this process may hand out to a container. */
static uint64_t bounding_caps(void)
{
    uint64_t set = 0;

    for (int i = 0; i < 64; i++)
        if (prctl(PR_CAPBSET_READ, i, 0, 0, 0) == 1)
            set |= 1ull << i;
    return set;
}

static int64_t oom_floor(uint64_t caps)
{
    BH_AUTO_BUF b = {.max = 64};
    int64_t v = 0;

    /* Lowering the score below one's own needs CAP_SYS_RESOURCE (24). */
    if (caps >> 24 & 1)
        return -1000;
    if (bh_fs_read("/proc/self/oom_score_adj", b.max, &b, NULL) < 0 ||
        !bh_str_i64(bh_str_trim(bh_buf_str(&b)), -1000, 1000, &v))
        v = 0;
    return v;
}

int rt_common_init(struct rt *rt, const struct bh_runtime_opts *o, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = 64};
    char real[PATH_MAX];
    int r = bh_fs_mkdir_p(o->data_dir, 0755, err);

    if (r < 0)
        return r;
    if (!realpath(o->data_dir, real))
        return bh_err_sys(err, errno, "resolve '%s'", o->data_dir);
    r = bh_path(rt->dir, sizeof(rt->dir), err, "%s/runtime", real);
    if (r == 0)
        r = bh_path(rt->images, sizeof(rt->images), err, "%s/images", rt->dir);
    if (r == 0)
        r = bh_path(rt->helper, sizeof(rt->helper), err, "%s",
                    o->helper ? o->helper : "/proc/self/exe");
    if (r == 0)
        r = find_program(o->crun, "crun", rt->crun, sizeof(rt->crun), err);
    if (r == 0)
        r = find_program(o->conmon, "conmon", rt->conmon, sizeof(rt->conmon), err);
    if (r == 0 && o->cgroup_parent)
        r = bh_path(rt->cg_root, sizeof(rt->cg_root), err, "%s", o->cgroup_parent);
    else if (r == 0)
        r = bh_path(rt->cg_root, sizeof(rt->cg_root), err, "/bulkhead/%016llx",
                    (unsigned long long)bh_fnv64a(BH_FNV64_INIT, bh_s(real)));
    if (r == 0 && (rt->cg_root[0] != '/' || rt->cg_root[1] == '\0'))
        r = bh_err_set(err, BH_E_INVALID,
                       "control group parent '%s' is no absolute path below the root", rt->cg_root);
    if (r == 0)
        r = bh_cg_detect(&rt->cg, err);
    if (r == 0)
        r = bh_fs_read("/proc/sys/kernel/random/boot_id", b.max, &b, err);
    if (r < 0)
        return r;
    struct bh_str id = bh_str_trim(bh_buf_str(&b));
    snprintf(rt->boot_id, sizeof(rt->boot_id), "%.*s", BH_SF(id));
    rt->caps_bound = bounding_caps();
    rt->oom_floor = oom_floor(rt->caps_bound);
    return 0;
}
