#include "runtime/cgroup.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TREE_DEPTH_MAX 16 /* of groups below a removed one; crun nests three at most */

static void copy_str(char *dst, size_t n, struct bh_str s)
{
    size_t k = s.n < n - 1 ? s.n : n - 1;

    memcpy(dst, s.p, k);
    dst[k] = '\0';
}

/* A version 1 mount's controllers stand among its super options, beside flags that are none. */
static void controllers_of(struct bh_str opts, char *dst, size_t n)
{
    struct bh_buf b = {.max = 256};

    while (opts.n > 0) {
        struct bh_str o = bh_str_cut(&opts, ',');

        if (bh_str_eqc(o, "rw") || bh_str_eqc(o, "ro") ||
            bh_str_starts(o, BH_S("clone_children")) || bh_str_starts(o, BH_S("release_agent")) ||
            bh_str_eqc(o, "xattr") || bh_str_eqc(o, "noprefix"))
            continue;
        if (b.n > 0)
            bh_buf_addc(&b, ',');
        bh_buf_adds(&b, o);
    }
    copy_str(dst, n, bh_buf_str(&b));
    bh_buf_done(&b);
}

int bh_cg_parse(struct bh_cg *cg, struct bh_str text, struct bh_err *err)
{
    bool unified_root = false;

    memset(cg, 0, sizeof(*cg));
    while (text.n > 0) {
        struct bh_str line = bh_str_cut(&text, '\n');
        struct bh_str f[5] = {{NULL, 0}};
        ptrdiff_t dash = bh_str_find(line, BH_S(" - "));

        if (dash < 0)
            continue;
        struct bh_str left = bh_str_sub(line, 0, (size_t)dash),
                      right = bh_str_sub(line, (size_t)dash + 3, line.n);
        for (size_t i = 0; i < 5; i++)
            f[i] = bh_str_cut(&left, ' ');
        struct bh_str type = bh_str_cut(&right, ' ');
        (void)bh_str_cut(&right, ' ');
        /* A bind of a subgroup is not the hierarchy. */
        if (!bh_str_eqc(f[3], "/"))
            continue;
        if (bh_str_eqc(type, "cgroup2") && bh_str_eqc(f[4], "/sys/fs/cgroup")) {
            unified_root = true;
            copy_str(cg->h[0].mount, sizeof(cg->h[0].mount), f[4]);
        } else if (bh_str_eqc(type, "cgroup") && cg->n < BH_CG_HIER_MAX &&
                   f[4].n < sizeof(cg->h[0].mount)) {
            copy_str(cg->h[cg->n].mount, sizeof(cg->h[0].mount), f[4]);
            controllers_of(right, cg->h[cg->n].controllers, sizeof(cg->h[0].controllers));
            cg->n++;
        }
    }
    if (unified_root) {
        copy_str(cg->h[0].mount, sizeof(cg->h[0].mount), BH_S("/sys/fs/cgroup"));
        cg->h[0].controllers[0] = '\0';
        cg->v2 = true;
        cg->n = 1;
    }
    if (cg->n == 0)
        return bh_err_set(err, BH_E_UNSUPPORTED, "no control group hierarchy is mounted");
    return 0;
}

int bh_cg_detect(struct bh_cg *cg, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = 4 << 20};
    int r = bh_fs_read("/proc/self/mountinfo", b.max, &b, err);

    return r < 0 ? r : bh_cg_parse(cg, bh_buf_str(&b), err);
}

const char *bh_cg_mount(const struct bh_cg *cg, const char *controller)
{
    if (cg->v2)
        return cg->h[0].mount;
    for (size_t i = 0; i < cg->n; i++) {
        struct bh_str all = bh_s(cg->h[i].controllers);

        while (all.n > 0)
            if (bh_str_eqc(bh_str_cut(&all, ','), controller))
                return cg->h[i].mount;
    }
    return NULL;
}

int64_t bh_cg_weight(int64_t shares)
{
    if (shares <= 0)
        return 0;
    if (shares < 2)
        shares = 2;
    if (shares > 262144)
        shares = 262144;
    return 1 + ((shares - 2) * 9999) / 262142;
}

static bool file_of(char *buf, size_t n, const struct bh_cg *cg, const char *controller,
                    const char *path, const char *file)
{
    const char *m = bh_cg_mount(cg, controller);

    return m && bh_path(buf, n, NULL, "%s%s/%s", m, path, file) == 0;
}

static int write_file(const char *file, const char *value)
{
    BH_AUTO_FD fd = open(file, O_WRONLY | O_CLOEXEC);
    size_t n = strlen(value);

    if (fd < 0)
        return -1;
    return write(fd, value, n) == (ssize_t)n ? 0 : -1;
}

/* A limit that the user asked for must hold: a refusal of the kernel is an error, an absent
 * controller a warning. */
static int set_i64(const struct bh_cg *cg, const char *ctrl, const char *path, const char *file,
                   int64_t v, struct bh_err *err)
{
    char full[PATH_MAX];
    char num[32];

    if (!file_of(full, sizeof(full), cg, ctrl, path, file)) {
        bh_log(BH_WARN, "control group controller is absent, limit not applied",
               BH_CSTR("controller", ctrl));
        return 0;
    }
    snprintf(num, sizeof(num), "%lld", (long long)v);
    if (write_file(full, num) < 0)
        return bh_err_sys(err, errno, "write %s to '%s'", num, full);
    return 0;
}

static int apply_v2(const struct bh_cg *cg, const char *path, const struct bh_cri_resources *r,
                    struct bh_err *err)
{
    char full[PATH_MAX], val[64];
    int e = 0;

    if (r->memory_limit > 0)
        e = set_i64(cg, "memory", path, "memory.max", r->memory_limit, err);
    if (e == 0 && r->memory_swap_limit > 0 && r->memory_limit > 0) {
        /* Version 2 limits swap alone, the OCI value is memory and swap together. Hosts without
         * swap lack the file. */
        if (file_of(full, sizeof(full), cg, "memory", path, "memory.swap.max")) {
            snprintf(val, sizeof(val), "%lld", (long long)(r->memory_swap_limit - r->memory_limit));
            (void)write_file(full, val);
        }
    }
    if (e == 0 && r->cpu_shares > 0)
        e = set_i64(cg, "cpu", path, "cpu.weight", bh_cg_weight(r->cpu_shares), err);
    if (e == 0 && r->cpu_quota != 0 && file_of(full, sizeof(full), cg, "cpu", path, "cpu.max")) {
        int64_t period = r->cpu_period > 0 ? r->cpu_period : 100000;

        if (r->cpu_quota > 0)
            snprintf(val, sizeof(val), "%lld %lld", (long long)r->cpu_quota, (long long)period);
        else
            snprintf(val, sizeof(val), "max %lld", (long long)period);
        if (write_file(full, val) < 0)
            e = bh_err_sys(err, errno, "write '%s' to '%s'", val, full);
    }
    if (e == 0 && r->pids_limit > 0)
        e = set_i64(cg, "pids", path, "pids.max", r->pids_limit, err);
    return e;
}

static int apply_v1(const struct bh_cg *cg, const char *path, const struct bh_cri_resources *r,
                    struct bh_err *err)
{
    int e = 0;

    if (r->memory_limit > 0) {
        char full[PATH_MAX];

        e = set_i64(cg, "memory", path, "memory.limit_in_bytes", r->memory_limit, err);
        /* Lowering the memory limit below the old memory+swap limit is allowed, raising above it is
         * not. */
        if (e < 0 &&
            file_of(full, sizeof(full), cg, "memory", path, "memory.memsw.limit_in_bytes")) {
            (void)write_file(full, "-1");
            e = set_i64(cg, "memory", path, "memory.limit_in_bytes", r->memory_limit, err);
        }
        if (e == 0 && r->memory_swap_limit > 0 &&
            file_of(full, sizeof(full), cg, "memory", path, "memory.memsw.limit_in_bytes")) {
            char num[32];

            snprintf(num, sizeof(num), "%lld", (long long)r->memory_swap_limit);
            (void)write_file(full, num); /* kernels without swap accounting lack the file */
        }
    }
    if (e == 0 && r->cpu_shares > 0)
        e = set_i64(cg, "cpu", path, "cpu.shares", r->cpu_shares, err);
    if (e == 0 && r->cpu_period > 0)
        e = set_i64(cg, "cpu", path, "cpu.cfs_period_us", r->cpu_period, err);
    if (e == 0 && r->cpu_quota != 0)
        e = set_i64(cg, "cpu", path, "cpu.cfs_quota_us", r->cpu_quota, err);
    if (e == 0 && r->pids_limit > 0)
        e = set_i64(cg, "pids", path, "pids.max", r->pids_limit, err);
    return e;
}

int bh_cg_apply(const struct bh_cg *cg, const char *path, const struct bh_cri_resources *r,
                struct bh_err *err)
{
    return cg->v2 ? apply_v2(cg, path, r, err) : apply_v1(cg, path, r, err);
}

/* A new version 1 cpuset group starts empty and accepts no process until it has its parent's
 * values. */
static void inherit_cpuset(const char *mount, const char *path)
{
    static const char *const files[] = {"cpuset.cpus", "cpuset.mems"};
    char parent[PATH_MAX], full[PATH_MAX];

    if (bh_path(parent, sizeof(parent), NULL, "%s%s", mount, path) < 0)
        return;
    char *slash = strrchr(parent, '/');
    if (!slash)
        return;
    *slash = '\0';
    for (size_t i = 0; i < BH_COUNT(files); i++) {
        BH_AUTO_BUF b = {.max = 4096};

        if (bh_path(full, sizeof(full), NULL, "%s/%s", parent, files[i]) < 0 ||
            bh_fs_read(full, 4096, &b, NULL) < 0)
            continue;
        if (bh_path(full, sizeof(full), NULL, "%s%s/%s", mount, path, files[i]) == 0)
            (void)write_file(full, bh_buf_cstr(&b));
    }
}

static int make_one(const struct bh_cg *cg, size_t i, const char *path, struct bh_err *err)
{
    char part[PATH_MAX], full[PATH_MAX];
    bool cpuset = strstr(cg->h[i].controllers, "cpuset") != NULL;
    int r = bh_path(part, sizeof(part), err, "%s", path);

    if (r < 0)
        return r;
    for (char *p = part + 1;; p++) {
        char keep = *p;

        if (keep != '/' && keep != '\0')
            continue;
        *p = '\0';
        r = bh_path(full, sizeof(full), err, "%s%s", cg->h[i].mount, part);
        if (r < 0)
            return r;
        if (mkdir(full, 0755) < 0 && errno != EEXIST)
            return bh_err_sys(err, errno, "make control group '%s'", full);
        if (cpuset)
            inherit_cpuset(cg->h[i].mount, part);
        if (cg->v2 && keep) {
            static const char *const ctrls[] = {"+cpu", "+memory", "+pids", "+cpuset"};

            r = bh_path(full, sizeof(full), err, "%s%s/cgroup.subtree_control", cg->h[i].mount,
                        part);
            for (size_t k = 0; r == 0 && k < BH_COUNT(ctrls); k++)
                (void)write_file(
                    full, ctrls[k]); /* a controller that the parent does not give stays off */
        }
        *p = keep;
        if (!keep)
            return 0;
    }
}

int bh_cg_make(const struct bh_cg *cg, const char *path, const struct bh_cri_resources *r,
               struct bh_err *err)
{
    bh_assert(path[0] == '/' && path[1] != '\0');
    for (size_t i = 0; i < cg->n; i++) {
        int e = make_one(cg, i, path, err);

        if (e < 0)
            return e;
    }
    return r ? bh_cg_apply(cg, path, r, err) : 0;
}

void bh_cg_join(const struct bh_cg *cg, const char *path, pid_t pid)
{
    char full[PATH_MAX], num[32];

    snprintf(num, sizeof(num), "%d", (int)pid);
    for (size_t i = 0; i < cg->n; i++) {
        if (make_one(cg, i, path, NULL) < 0)
            continue;
        if (bh_path(full, sizeof(full), NULL, "%s%s/cgroup.procs", cg->h[i].mount, path) == 0)
            (void)write_file(full, num);
    }
}

/* Calls fn for the group and every group below it, deepest first. Depth is bounded: the names are
 * the kernel's, but the nesting is a container's when it was given a writable hierarchy. */
static void walk(const char *dir, int depth, void (*fn)(const char *dir, void *arg), void *arg)
{
    char sub[PATH_MAX];
    DIR *d = depth < TREE_DEPTH_MAX ? opendir(dir) : NULL;

    if (d) {
        struct dirent *e;

        while ((e = readdir(d)) != NULL)
            if (e->d_type == DT_DIR && strcmp(e->d_name, ".") != 0 &&
                strcmp(e->d_name, "..") != 0 &&
                bh_path(sub, sizeof(sub), NULL, "%s/%s", dir, e->d_name) == 0)
                walk(sub, depth + 1, fn, arg);
        closedir(d);
    }
    fn(dir, arg);
}

struct kill_arg {
    int signal; /* 0: count only */
    int64_t seen;
};

static void kill_one(const char *dir, void *arg)
{
    struct kill_arg *k = arg;
    char full[PATH_MAX];
    BH_AUTO_BUF b = {.max = 4 << 20};

    if (bh_path(full, sizeof(full), NULL, "%s/cgroup.procs", dir) < 0 ||
        bh_fs_read(full, b.max, &b, NULL) < 0)
        return;
    struct bh_str all = bh_buf_str(&b);
    while (all.n > 0) {
        int64_t pid;

        if (!bh_str_i64(bh_str_cut(&all, '\n'), 1, INT_MAX, &pid))
            continue;
        k->seen++;
        if (k->signal)
            (void)kill((pid_t)pid, k->signal);
    }
}

/* The hierarchy to look for processes in: where crun puts them all. */
static const char *main_mount(const struct bh_cg *cg)
{
    const char *m = bh_cg_mount(cg, "memory");

    if (!m)
        m = bh_cg_mount(cg, "pids");
    return m ? m : cg->h[0].mount;
}

bool bh_cg_populated(const struct bh_cg *cg, const char *path)
{
    struct kill_arg k = {0, 0};
    char full[PATH_MAX];

    if (bh_path(full, sizeof(full), NULL, "%s%s", main_mount(cg), path) < 0)
        return false;
    walk(full, 0, kill_one, &k);
    return k.seen > 0;
}

void bh_cg_kill(const struct bh_cg *cg, const char *path, int timeout_ms)
{
    char full[PATH_MAX];

    if (bh_path(full, sizeof(full), NULL, "%s%s", main_mount(cg), path) < 0)
        return;
    /* Members can fork while they are being listed, so look again until there are none. */
    for (int waited = 0;; waited += 5) {
        struct kill_arg k = {SIGKILL, 0};
        struct timespec ts = {0, 5 * 1000 * 1000};

        walk(full, 0, kill_one, &k);
        if (k.seen == 0 || waited >= timeout_ms)
            return;
        nanosleep(&ts, NULL);
    }
}

static void rmdir_one(const char *dir, void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        struct timespec ts = {0, 2 * 1000 * 1000};

        /* A group stays busy for a moment after its last process has gone. */
        if (rmdir(dir) == 0 || errno != EBUSY)
            return;
        nanosleep(&ts, NULL);
    }
}

void bh_cg_remove(const struct bh_cg *cg, const char *path)
{
    char full[PATH_MAX];

    bh_assert(path[0] == '/' && path[1] != '\0');
    for (size_t i = 0; i < cg->n; i++)
        if (bh_path(full, sizeof(full), NULL, "%s%s", cg->h[i].mount, path) == 0 &&
            bh_fs_exists(full))
            walk(full, 0, rmdir_one, NULL);
}

void bh_cg_remove_one(const struct bh_cg *cg, const char *path)
{
    char full[PATH_MAX];

    bh_assert(path[0] == '/' && path[1] != '\0');
    for (size_t i = 0; i < cg->n; i++)
        if (bh_path(full, sizeof(full), NULL, "%s%s", cg->h[i].mount, path) == 0)
            (void)rmdir(full);
}

/* Value of `key N` in a flat file, -1 when it is not there. */
static int64_t read_key(const struct bh_cg *cg, const char *ctrl, const char *path,
                        const char *file, const char *key)
{
    char full[PATH_MAX];
    BH_AUTO_BUF b = {.max = 64 << 10};

    if (!file_of(full, sizeof(full), cg, ctrl, path, file) || bh_fs_read(full, b.max, &b, NULL) < 0)
        return -1;
    struct bh_str all = bh_buf_str(&b);
    while (all.n > 0) {
        struct bh_str line = bh_str_cut(&all, '\n');
        int64_t v;

        if (key) {
            struct bh_str k = bh_str_cut(&line, ' ');

            if (!bh_str_eqc(k, key))
                continue;
        }
        return bh_str_i64(bh_str_trim(line), 0, INT64_MAX, &v) ? v : -1;
    }
    return -1;
}

int64_t bh_cg_oom_kills(const struct bh_cg *cg, const char *path)
{
    int64_t v = cg->v2 ? read_key(cg, "memory", path, "memory.events", "oom_kill")
                       : read_key(cg, "memory", path, "memory.oom_control", "oom_kill");

    return v > 0 ? v : 0;
}

static uint64_t or_zero(int64_t v)
{
    return v > 0 ? (uint64_t)v : 0;
}

void bh_cg_stats(const struct bh_cg *cg, const char *path, struct bh_cri_stats *s)
{
    uint64_t inactive;

    if (cg->v2) {
        s->cpu_ns = or_zero(read_key(cg, "cpu", path, "cpu.stat", "usage_usec")) * 1000;
        s->memory_usage = or_zero(read_key(cg, "memory", path, "memory.current", NULL));
        inactive = or_zero(read_key(cg, "memory", path, "memory.stat", "inactive_file"));
        s->memory_rss = or_zero(read_key(cg, "memory", path, "memory.stat", "anon"));
    } else {
        s->cpu_ns = or_zero(read_key(cg, "cpuacct", path, "cpuacct.usage", NULL));
        s->memory_usage = or_zero(read_key(cg, "memory", path, "memory.usage_in_bytes", NULL));
        inactive = or_zero(read_key(cg, "memory", path, "memory.stat", "total_inactive_file"));
        s->memory_rss = or_zero(read_key(cg, "memory", path, "memory.stat", "total_rss"));
    }
    s->memory_working_set = s->memory_usage > inactive ? s->memory_usage - inactive : 0;
    s->pids = or_zero(read_key(cg, "pids", path, "pids.current", NULL));
}
