#include "runtime/oci_spec.h"

#include "base/buf.h"

#include <signal.h>
#include <string.h>

/* Numbers are the kernel's (linux/capability.h). */
static const char *const cap_names[] = {"CHOWN",
                                        "DAC_OVERRIDE",
                                        "DAC_READ_SEARCH",
                                        "FOWNER",
                                        "FSETID",
                                        "KILL",
                                        "SETGID",
                                        "SETUID",
                                        "SETPCAP",
                                        "LINUX_IMMUTABLE",
                                        "NET_BIND_SERVICE",
                                        "NET_BROADCAST",
                                        "NET_ADMIN",
                                        "NET_RAW",
                                        "IPC_LOCK",
                                        "IPC_OWNER",
                                        "SYS_MODULE",
                                        "SYS_RAWIO",
                                        "SYS_CHROOT",
                                        "SYS_PTRACE",
                                        "SYS_PACCT",
                                        "SYS_ADMIN",
                                        "SYS_BOOT",
                                        "SYS_NICE",
                                        "SYS_RESOURCE",
                                        "SYS_TIME",
                                        "SYS_TTY_CONFIG",
                                        "MKNOD",
                                        "LEASE",
                                        "AUDIT_WRITE",
                                        "AUDIT_CONTROL",
                                        "SETFCAP",
                                        "MAC_OVERRIDE",
                                        "MAC_ADMIN",
                                        "SYSLOG",
                                        "WAKE_ALARM",
                                        "BLOCK_SUSPEND",
                                        "AUDIT_READ",
                                        "PERFMON",
                                        "BPF",
                                        "CHECKPOINT_RESTORE"};

/* What containerd, CRI-O and docker give by default. */
static const char *const default_caps[] = {
    "CHOWN",   "DAC_OVERRIDE", "FSETID",           "FOWNER",
    "MKNOD",   "NET_RAW",      "SETGID",           "SETUID",
    "SETFCAP", "SETPCAP",      "NET_BIND_SERVICE", "SYS_CHROOT",
    "KILL",    "AUDIT_WRITE"};

static const char *const masked[] = {
    "/proc/asound",     "/proc/acpi",        "/proc/interrupts",
    "/proc/kcore",      "/proc/keys",        "/proc/latency_stats",
    "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
    "/proc/scsi",       "/sys/firmware",     "/sys/devices/virtual/powercap"};
static const char *const readonly[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                                       "/proc/sysrq-trigger"};

static const char *const signal_names[] = {
    [SIGHUP] = "HUP",       [SIGINT] = "INT",   [SIGQUIT] = "QUIT",    [SIGILL] = "ILL",
    [SIGTRAP] = "TRAP",     [SIGABRT] = "ABRT", [SIGBUS] = "BUS",      [SIGFPE] = "FPE",
    [SIGKILL] = "KILL",     [SIGUSR1] = "USR1", [SIGSEGV] = "SEGV",    [SIGUSR2] = "USR2",
    [SIGPIPE] = "PIPE",     [SIGALRM] = "ALRM", [SIGTERM] = "TERM",    [SIGCHLD] = "CHLD",
    [SIGCONT] = "CONT",     [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",    [SIGTTIN] = "TTIN",
    [SIGTTOU] = "TTOU",     [SIGURG] = "URG",   [SIGXCPU] = "XCPU",    [SIGXFSZ] = "XFSZ",
    [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGWINCH] = "WINCH",  [SIGIO] = "IO",
    [SIGPWR] = "PWR",       [SIGSYS] = "SYS",   [SIGSTKFLT] = "STKFLT"};

/* The kernel's range; libc keeps the first two real-time signals for itself, hence 34. */
#define RT_MIN 34
#define RT_MAX 64

int bh_signal_number(struct bh_str s)
{
    int64_t n;

    if (bh_str_i64(s, 1, RT_MAX, &n))
        return (int)n;
    if (bh_str_starts(s, BH_S("SIG")))
        s = bh_str_sub(s, 3, s.n);
    for (size_t i = 1; i < BH_COUNT(signal_names); i++)
        if (signal_names[i] && bh_str_eqc(s, signal_names[i]))
            return (int)i;
    if (bh_str_eqc(s, "POLL"))
        return SIGPOLL;
    if (bh_str_eqc(s, "IOT"))
        return SIGABRT;
    if (bh_str_eqc(s, "CLD"))
        return SIGCHLD;
    if (bh_str_eqc(s, "RTMIN"))
        return RT_MIN;
    if (bh_str_eqc(s, "RTMAX"))
        return RT_MAX;
    if (bh_str_starts(s, BH_S("RTMIN+")) && bh_str_i64(bh_str_sub(s, 6, s.n), 1, 15, &n))
        return RT_MIN + (int)n;
    if (bh_str_starts(s, BH_S("RTMAX-")) && bh_str_i64(bh_str_sub(s, 6, s.n), 1, 14, &n))
        return RT_MAX - (int)n;
    return 0;
}

/* ---- users ---- */

/* The line of a passwd or group file whose name (by_id false) or number matches; fields split at
 * colons. */
static bool find_line(struct bh_str text, struct bh_str name, bool by_id, struct bh_str f[7])
{
    while (text.n > 0) {
        struct bh_str line = bh_str_cut(&text, '\n');

        for (size_t i = 0; i < 7; i++)
            f[i] = bh_str_cut(&line, ':');
        if (f[0].n > 0 && bh_str_eq(by_id ? f[2] : f[0], name))
            return true;
    }
    return false;
}

static void add_group(struct bh_arena *a, struct bh_cri_i64_vec *v, int64_t gid)
{
    int64_t *p;

    for (size_t i = 0; i < v->n; i++)
        if (v->p[i] == gid)
            return;
    p = bh_new_n(a, int64_t, v->n + 1);
    if (v->n > 0)
        memcpy(p, v->p, v->n * sizeof(*p));
    p[v->n] = gid;
    v->p = p;
    v->n++;
}

static void groups_of(struct bh_arena *a, struct bh_str group, struct bh_str user,
                      struct bh_cri_i64_vec *v)
{
    while (group.n > 0 && user.n > 0) {
        struct bh_str line = bh_str_cut(&group, '\n'), f[3];
        int64_t gid;

        for (size_t i = 0; i < 3; i++)
            f[i] = bh_str_cut(&line, ':');
        while (line.n > 0)
            if (bh_str_eq(bh_str_cut(&line, ','), user) && bh_str_i64(f[2], 0, UINT32_MAX, &gid))
                add_group(a, v, gid);
    }
}

int bh_oci_resolve_user(struct bh_arena *a, const struct bh_cri_security *s,
                        struct bh_str image_user, struct bh_str passwd, struct bh_str group,
                        struct bh_oci_user *ret, struct bh_err *err)
{
    struct bh_str rest = image_user, user = bh_str_cut(&rest, ':'), f[7], name = {NULL, 0};
    bool from_image = !s->has_run_as_user && s->run_as_username.n == 0;

    memset(ret, 0, sizeof(*ret));
    if (s->has_run_as_group && from_image)
        return bh_err_set(err, BH_E_INVALID, "a group to run as was given without a user");
    if (s->has_run_as_user) {
        ret->uid = s->run_as_user;
        user = bh_str_fmt(a, "%lld", (long long)s->run_as_user);
    } else if (s->run_as_username.n > 0) {
        user = s->run_as_username;
    }
    bool numeric = user.n > 0 && bh_str_i64(user, 0, UINT32_MAX, &ret->uid);
    if (user.n > 0 && find_line(passwd, user, numeric, f)) {
        name = f[0];
        if (!bh_str_i64(f[2], 0, UINT32_MAX, &ret->uid) ||
            !bh_str_i64(f[3], 0, UINT32_MAX, &ret->gid))
            return bh_err_set(err, BH_E_INVALID,
                              "the image's /etc/passwd is malformed at user %.*s", BH_SF(user));
    } else if (user.n > 0 && !numeric) {
        return bh_err_set(err, BH_E_INVALID,
                          "unable to find user %.*s: no matching entries in passwd file",
                          BH_SF(user));
    }
    if (s->has_run_as_group) {
        ret->gid = s->run_as_group;
    } else if (from_image && rest.n > 0 && !bh_str_i64(rest, 0, UINT32_MAX, &ret->gid)) {
        if (!find_line(group, rest, false, f) || !bh_str_i64(f[2], 0, UINT32_MAX, &ret->gid))
            return bh_err_set(err, BH_E_INVALID,
                              "unable to find group %.*s: no matching entries in group file",
                              BH_SF(rest));
    }
    groups_of(a, group, name, &ret->groups);
    for (size_t i = 0; i < s->supplemental_groups.n; i++)
        add_group(a, &ret->groups, s->supplemental_groups.p[i]);
    return 0;
}

/* ---- small builders ---- */

struct build {
    struct bh_arena *a;
    const struct bh_oci_in *in;
    struct bh_err *err;
};

static void set_str(struct build *b, struct bh_jv *o, const char *key, struct bh_str s)
{
    bh_jv_setc(b->a, o, key, bh_jv_str(s));
}

static void set_i64(struct build *b, struct bh_jv *o, const char *key, int64_t v)
{
    bh_jv_setc(b->a, o, key, bh_jv_i64(b->a, v));
}

static struct bh_jv list_of(struct build *b, const char *const *p, size_t n)
{
    struct bh_jv arr = BH_JV_ARR;

    for (size_t i = 0; i < n; i++)
        bh_jv_append(b->a, &arr, bh_jv_str(bh_s(p[i])));
    return arr;
}

static void add_mount(struct build *b, struct bh_jv *list, const char *dst, const char *type,
                      struct bh_str src, const char *options)
{
    struct bh_jv m = BH_JV_OBJ, opts = BH_JV_ARR;
    struct bh_str rest = bh_s(options);

    while (rest.n > 0)
        bh_jv_append(b->a, &opts, bh_jv_str(bh_str_cut(&rest, ',')));
    /* A later mount at the same place replaces the earlier one. */
    for (size_t i = list->n_items; i > 0; i--)
        if (bh_str_eqc(bh_jv_get_str(&list->items[i - 1], "destination"), dst))
            bh_jv_remove(list, i - 1);
    set_str(b, &m, "destination", bh_s(dst));
    set_str(b, &m, "type", bh_s(type));
    set_str(b, &m, "source", src);
    bh_jv_setc(b->a, &m, "options", opts);
    bh_jv_append(b->a, list, m);
}

/* ---- process ---- */

static struct bh_jv *find_env(struct bh_jv *env, struct bh_str key)
{
    for (size_t i = 0; i < env->n_items; i++) {
        struct bh_str s = env->items[i].s;

        if (s.n > key.n && s.p[key.n] == '=' && bh_str_starts(s, key))
            return &env->items[i];
    }
    return NULL;
}

static void put_env(struct build *b, struct bh_jv *env, struct bh_str key, struct bh_str value)
{
    struct bh_jv v = bh_jv_str(bh_str_fmt(b->a, "%.*s=%.*s", BH_SF(key), BH_SF(value)));
    struct bh_jv *old = find_env(env, key);

    if (old)
        *old = v;
    else
        bh_jv_append(b->a, env, v);
}

static struct bh_jv make_env(struct build *b)
{
    const struct bh_cri_container_config *c = b->in->container;
    struct bh_jv env = BH_JV_ARR;

    put_env(b, &env, BH_S("PATH"),
            BH_S("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    if (b->in->sandbox->hostname.n > 0)
        put_env(b, &env, BH_S("HOSTNAME"), b->in->sandbox->hostname);
    if (c->tty)
        put_env(b, &env, BH_S("TERM"), BH_S("xterm"));
    for (size_t i = 0; i < b->in->image->env.n; i++) {
        struct bh_str rest = b->in->image->env.p[i], key = bh_str_cut(&rest, '=');

        if (key.n > 0)
            put_env(b, &env, key, rest);
    }
    for (size_t i = 0; i < c->envs.n; i++)
        put_env(b, &env, c->envs.p[i].key, c->envs.p[i].value);
    return env;
}

static int make_args(struct build *b, struct bh_jv *ret)
{
    const struct bh_cri_container_config *c = b->in->container;
    const struct bh_str_vec *first = &b->in->image->entrypoint, *rest = &b->in->image->cmd;

    *ret = BH_JV_ARR;
    if (c->command.n > 0) {
        first = &c->command;
        rest = &c->args;
    } else if (c->args.n > 0) {
        rest = &c->args;
    }
    for (size_t i = 0; i < first->n; i++)
        bh_jv_append(b->a, ret, bh_jv_str(first->p[i]));
    for (size_t i = 0; i < rest->n; i++)
        bh_jv_append(b->a, ret, bh_jv_str(rest->p[i]));
    if (ret->n_items == 0)
        return bh_err_set(b->err, BH_E_INVALID, "no command specified");
    return 0;
}

static int cap_number(struct bh_str s)
{
    if (bh_str_starts(s, BH_S("CAP_")))
        s = bh_str_sub(s, 4, s.n);
    for (size_t i = 0; i < BH_COUNT(cap_names); i++)
        if (bh_str_eq_nocase(s, bh_s(cap_names[i])))
            return (int)i;
    return -1;
}

static int cap_set(struct build *b, uint64_t *ret)
{
    const struct bh_cri_security *s = &b->in->container->security;
    uint64_t all = (1ull << BH_COUNT(cap_names)) - 1, set = 0;

    for (size_t i = 0; i < BH_COUNT(default_caps); i++)
        set |= 1ull << cap_number(bh_s(default_caps[i]));
    if (s->privileged)
        set = all;
    for (size_t i = 0; i < s->add_caps.n; i++)
        if (bh_str_eq_nocase(s->add_caps.p[i], BH_S("ALL")))
            set = all;
    for (size_t i = 0; i < s->drop_caps.n; i++)
        if (bh_str_eq_nocase(s->drop_caps.p[i], BH_S("ALL")))
            set = 0;
    for (size_t i = 0; i < s->add_caps.n + s->drop_caps.n; i++) {
        bool add = i < s->add_caps.n;
        struct bh_str name = add ? s->add_caps.p[i] : s->drop_caps.p[i - s->add_caps.n];
        int n = cap_number(name);

        if (bh_str_eq_nocase(name, BH_S("ALL")))
            continue;
        if (n < 0)
            return bh_err_set(b->err, BH_E_INVALID, "unknown capability \"%.*s\"", BH_SF(name));
        set = add ? set | 1ull << n : set & ~(1ull << n);
    }
    /* Nobody can give what he does not have; the runtime would refuse the whole container. */
    *ret = set & b->in->caps_bound;
    return 0;
}

static void put_caps(struct build *b, struct bh_jv *proc, uint64_t set)
{
    static const char *const kinds[] = {"bounding", "effective", "permitted"};
    struct bh_jv caps = BH_JV_OBJ;

    for (size_t k = 0; k < BH_COUNT(kinds); k++) {
        struct bh_jv arr = BH_JV_ARR;

        for (size_t i = 0; i < BH_COUNT(cap_names); i++)
            if (set >> i & 1)
                bh_jv_append(b->a, &arr, bh_jv_str(bh_str_fmt(b->a, "CAP_%s", cap_names[i])));
        bh_jv_setc(b->a, &caps, kinds[k], arr);
    }
    bh_jv_setc(b->a, proc, "capabilities", caps);
}

static struct bh_jv make_user(struct build *b)
{
    struct bh_jv u = BH_JV_OBJ, gids = BH_JV_ARR;

    set_i64(b, &u, "uid", b->in->user.uid);
    set_i64(b, &u, "gid", b->in->user.gid);
    for (size_t i = 0; i < b->in->user.groups.n; i++)
        bh_jv_append(b->a, &gids, bh_jv_i64(b->a, b->in->user.groups.p[i]));
    if (gids.n_items > 0)
        bh_jv_setc(b->a, &u, "additionalGids", gids);
    return u;
}

static int make_process(struct build *b, struct bh_jv *spec)
{
    const struct bh_cri_container_config *c = b->in->container;
    struct bh_jv p = BH_JV_OBJ, args;
    struct bh_str cwd = c->working_dir.n > 0 ? c->working_dir : b->in->image->working_dir;
    int64_t adj = c->resources.oom_score_adj;
    uint64_t caps = 0;
    int r = make_args(b, &args);

    if (r == 0)
        r = cap_set(b, &caps);
    if (r < 0)
        return r;
    if (cwd.n == 0)
        cwd = BH_S("/");
    if (cwd.p[0] != '/')
        cwd = bh_str_fmt(b->a, "/%.*s", BH_SF(cwd));
    bh_jv_setc(b->a, &p, "terminal", bh_jv_bool(c->tty));
    bh_jv_setc(b->a, &p, "user", make_user(b));
    bh_jv_setc(b->a, &p, "args", args);
    bh_jv_setc(b->a, &p, "env", make_env(b));
    set_str(b, &p, "cwd", cwd);
    bh_jv_setc(b->a, &p, "noNewPrivileges", bh_jv_bool(c->security.no_new_privs));
    put_caps(b, &p, caps);
    set_i64(b, &p, "oomScoreAdj",
            adj < b->in->oom_floor ? b->in->oom_floor
            : adj > 1000           ? 1000
                                   : adj);
    bh_jv_setc(b->a, spec, "process", p);
    return 0;
}

/* ---- mounts ---- */

static void base_mounts(struct build *b, struct bh_jv *list)
{
    bool priv = b->in->container && b->in->container->security.privileged;

    add_mount(b, list, "/proc", "proc", BH_S("proc"), "nosuid,noexec,nodev");
    add_mount(b, list, "/dev", "tmpfs", BH_S("tmpfs"), "nosuid,strictatime,mode=755,size=65536k");
    add_mount(b, list, "/dev/pts", "devpts", BH_S("devpts"),
              "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5");
    add_mount(b, list, "/dev/mqueue", "mqueue", BH_S("mqueue"), "nosuid,noexec,nodev");
    add_mount(b, list, "/sys", "sysfs", BH_S("sysfs"),
              priv ? "nosuid,noexec,nodev" : "nosuid,noexec,nodev,ro");
    add_mount(b, list, "/sys/fs/cgroup", "cgroup", BH_S("cgroup"),
              priv ? "nosuid,noexec,nodev,relatime" : "nosuid,noexec,nodev,relatime,ro");
}

static int user_mounts(struct build *b, struct bh_jv *list)
{
    const struct bh_cri_mount_vec *v = &b->in->container->mounts;

    for (size_t i = 0; i < v->n; i++) {
        const struct bh_cri_mount *m = &v->p[i];
        struct bh_str dst = bh_str_dup(b->a, m->container_path), opts;

        if (dst.n == 0)
            return bh_err_set(b->err, BH_E_INVALID, "a mount has no path in the container");
        if (m->image.n > 0)
            continue; /* prepared by the caller as a bind */
        if (m->propagation == BH_CRI_BIDIRECTIONAL)
            return bh_err_set(b->err, BH_E_UNSUPPORTED,
                              "mount '%s': bidirectional propagation is not supported", dst.p);
        if (m->recursive_readonly && (!m->readonly || m->propagation != BH_CRI_PRIVATE))
            return bh_err_set(b->err, BH_E_INVALID,
                              "mount '%s': recursive read-only needs a private read-only mount",
                              dst.p);
        opts = bh_str_fmt(b->a, "rbind,%s,%s",
                          m->propagation == BH_CRI_HOST_TO_CONTAINER ? "rslave" : "rprivate",
                          m->recursive_readonly ? "rro"
                          : m->readonly         ? "ro"
                                                : "rw");
        add_mount(b, list, dst.p, "bind", m->host_path, opts.p);
    }
    return 0;
}

/* ---- linux ---- */

static void add_ns(struct build *b, struct bh_jv *list, const char *type, const char *file, int pid)
{
    struct bh_jv n = BH_JV_OBJ;

    set_str(b, &n, "type", bh_s(type));
    if (pid > 0)
        set_str(b, &n, "path", bh_str_fmt(b->a, "/proc/%d/ns/%s", pid, file));
    bh_jv_append(b->a, list, n);
}

static struct bh_jv make_resources(struct build *b, const struct bh_cri_resources *r)
{
    struct bh_jv res = BH_JV_OBJ, mem = BH_JV_OBJ, cpu = BH_JV_OBJ, pids = BH_JV_OBJ,
                 devs = BH_JV_ARR, deny = BH_JV_OBJ;
    bool priv = b->in->container && b->in->container->security.privileged;

    /* Without a first rule that denies everything, everything is allowed. */
    bh_jv_setc(b->a, &deny, "allow", bh_jv_bool(priv));
    set_str(b, &deny, "access", BH_S("rwm"));
    bh_jv_append(b->a, &devs, deny);
    bh_jv_setc(b->a, &res, "devices", devs);
    if (r->memory_limit > 0) {
        set_i64(b, &mem, "limit", r->memory_limit);
        set_i64(b, &mem, "swap", r->memory_swap_limit > 0 ? r->memory_swap_limit : r->memory_limit);
        bh_jv_setc(b->a, &res, "memory", mem);
    }
    if (r->cpu_shares > 0)
        set_i64(b, &cpu, "shares", r->cpu_shares);
    if (r->cpu_quota != 0)
        set_i64(b, &cpu, "quota", r->cpu_quota);
    if (r->cpu_period > 0)
        set_i64(b, &cpu, "period", r->cpu_period);
    if (r->cpuset_cpus.n > 0)
        set_str(b, &cpu, "cpus", r->cpuset_cpus);
    if (r->cpuset_mems.n > 0)
        set_str(b, &cpu, "mems", r->cpuset_mems);
    if (cpu.n_members > 0)
        bh_jv_setc(b->a, &res, "cpu", cpu);
    if (r->pids_limit > 0) {
        set_i64(b, &pids, "limit", r->pids_limit);
        bh_jv_setc(b->a, &res, "pids", pids);
    }
    return res;
}

static void put_paths(struct build *b, struct bh_jv *lin, const char *key,
                      const struct bh_str_vec *given, const char *const *usual, size_t n)
{
    struct bh_jv arr = BH_JV_ARR;

    for (size_t i = 0; given->p && i < given->n; i++)
        bh_jv_append(b->a, &arr, bh_jv_str(given->p[i]));
    bh_jv_setc(b->a, lin, key, given->p ? arr : list_of(b, usual, n));
}

static void container_namespaces(struct build *b, struct bh_jv *list)
{
    const struct bh_cri_sandbox_config *s = b->in->sandbox;
    const struct bh_cri_security *sec = &b->in->container->security;
    int pause = b->in->sandbox_pid;

    add_ns(b, list, "mount", NULL, 0);
    if (!s->host_network)
        add_ns(b, list, "network", "net", pause);
    if (!s->host_ipc)
        add_ns(b, list, "ipc", "ipc", pause);
    if (s->hostname.n > 0)
        add_ns(b, list, "uts", "uts", pause);
    if (sec->pid_mode == BH_CRI_PID_TARGET && b->in->target_pid > 0)
        add_ns(b, list, "pid", "pid", b->in->target_pid);
    else if (s->share_pid)
        add_ns(b, list, "pid", "pid", pause);
    else if (!s->host_pid)
        add_ns(b, list, "pid", NULL, 0);
    if (b->in->cgroup_v2)
        add_ns(b, list, "cgroup", NULL, 0);
}

static int make_linux(struct build *b, struct bh_jv *spec)
{
    const struct bh_cri_security *sec = &b->in->container->security;
    struct bh_jv lin = BH_JV_OBJ, ns = BH_JV_ARR;

    bh_jv_setc(b->a, &lin, "resources", make_resources(b, &b->in->container->resources));
    container_namespaces(b, &ns);
    bh_jv_setc(b->a, &lin, "namespaces", ns);
    set_str(b, &lin, "cgroupsPath", bh_s(b->in->cgroup));
    if (!sec->privileged) {
        put_paths(b, &lin, "maskedPaths", &sec->masked_paths, masked, BH_COUNT(masked));
        put_paths(b, &lin, "readonlyPaths", &sec->readonly_paths, readonly, BH_COUNT(readonly));
    }
    bh_jv_setc(b->a, spec, "linux", lin);
    return 0;
}

static struct bh_jv new_spec(struct build *b, bool ro_root)
{
    struct bh_jv spec = BH_JV_OBJ, root = BH_JV_OBJ;

    set_str(b, &spec, "ociVersion", BH_S("1.0.2"));
    set_str(b, &root, "path", bh_s(b->in->rootfs));
    bh_jv_setc(b->a, &root, "readonly", bh_jv_bool(ro_root));
    bh_jv_setc(b->a, &spec, "root", root);
    return spec;
}

int bh_oci_container(struct bh_arena *a, const struct bh_oci_in *in, struct bh_jv *ret,
                     struct bh_err *err)
{
    struct build b = {a, in, err};
    struct bh_jv mounts = BH_JV_ARR;
    int r;

    *ret = new_spec(&b, in->container->security.readonly_rootfs);
    r = make_process(&b, ret);
    if (r < 0)
        return r;
    base_mounts(&b, &mounts);
    for (size_t i = 0; i < in->n_binds; i++)
        add_mount(&b, &mounts, in->binds[i].destination, "bind", in->binds[i].source,
                  in->binds[i].readonly ? "rbind,rprivate,ro" : "rbind,rprivate,rw");
    r = user_mounts(&b, &mounts);
    if (r < 0)
        return r;
    bh_jv_setc(a, ret, "mounts", mounts);
    return make_linux(&b, ret);
}

int bh_oci_sandbox(struct bh_arena *a, const struct bh_oci_in *in, struct bh_jv *ret,
                   struct bh_err *err)
{
    static const char *const args[] = {"/pause"};
    struct build b = {a, in, err};
    struct bh_jv p = BH_JV_OBJ, mounts = BH_JV_ARR, lin = BH_JV_OBJ, ns = BH_JV_ARR,
                 sysctl = BH_JV_OBJ;
    const struct bh_cri_sandbox_config *s = in->sandbox;
    struct bh_cri_resources none = {0};

    *ret = new_spec(&b, true);
    bh_jv_setc(a, &p, "terminal", bh_jv_bool(false));
    bh_jv_setc(a, &p, "user", make_user(&b));
    bh_jv_setc(a, &p, "args", list_of(&b, args, 1));
    set_str(&b, &p, "cwd", BH_S("/"));
    bh_jv_setc(a, &p, "noNewPrivileges", bh_jv_bool(true));
    put_caps(&b, &p, 0);
    bh_jv_setc(a, ret, "process", p);
    if (s->hostname.n > 0)
        set_str(&b, ret, "hostname", s->hostname);
    add_mount(&b, &mounts, "/proc", "proc", BH_S("proc"), "nosuid,noexec,nodev");
    add_mount(&b, &mounts, "/dev", "tmpfs", BH_S("tmpfs"), "nosuid,strictatime,mode=755,size=64k");
    bh_jv_setc(a, ret, "mounts", mounts);
    add_ns(&b, &ns, "mount", NULL, 0);
    if (!s->host_network)
        add_ns(&b, &ns, "network", NULL, 0);
    if (!s->host_ipc)
        add_ns(&b, &ns, "ipc", NULL, 0);
    if (s->hostname.n > 0)
        add_ns(&b, &ns, "uts", NULL, 0);
    if (!s->host_pid)
        add_ns(&b, &ns, "pid", NULL, 0);
    bh_jv_setc(a, &lin, "resources", make_resources(&b, &none));
    bh_jv_setc(a, &lin, "namespaces", ns);
    set_str(&b, &lin, "cgroupsPath", bh_s(in->cgroup));
    for (size_t i = 0; i < s->sysctls.n; i++)
        bh_jv_set(a, &sysctl, s->sysctls.p[i].key, bh_jv_str(s->sysctls.p[i].value));
    if (sysctl.n_members > 0)
        bh_jv_setc(a, &lin, "sysctl", sysctl);
    bh_jv_setc(a, ret, "linux", lin);
    return 0;
}
