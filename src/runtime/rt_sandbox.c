/* Sandboxes: a pause process that holds the pod's namespaces, and the files all its containers
 * share. */
#include "runtime/rt_int.h"

#include "base/buf.h"
#include "base/fs.h"
#include "runtime/oci_spec.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static const char *sb_dir(struct rt_op *op, struct bh_str id)
{
    return rt_pathf(op, "%s/sandboxes/%.*s", op->rt->dir, BH_SF(id));
}

static int write_resolv(struct rt_op *op, const char *dir)
{
    const struct bh_cri_sandbox_config *c = &op->srec.config;
    BH_AUTO_BUF b = {.max = 1 << 20};

    for (size_t i = 0; i < c->dns_searches.n; i++)
        bh_buf_addf(&b, "%s%.*s", i == 0 ? "search " : " ", BH_SF(c->dns_searches.p[i]));
    if (c->dns_searches.n > 0)
        bh_buf_addc(&b, '\n');
    for (size_t i = 0; i < c->dns_servers.n; i++)
        bh_buf_addf(&b, "nameserver %.*s\n", BH_SF(c->dns_servers.p[i]));
    for (size_t i = 0; i < c->dns_options.n; i++)
        bh_buf_addf(&b, "%s%.*s", i == 0 ? "options " : " ", BH_SF(c->dns_options.p[i]));
    if (c->dns_options.n > 0)
        bh_buf_addc(&b, '\n');
    /* Without a DNS configuration the host's is used, as upstream's runtimes do. */
    if (b.n == 0 && bh_fs_read("/etc/resolv.conf", b.max, &b, NULL) < 0)
        bh_buf_clear(&b);
    return bh_fs_write_plain(rt_pathf(op, "%s/resolv.conf", dir), bh_buf_str(&b), 0644, &op->err);
}

static int write_files(struct rt_op *op, const char *dir)
{
    const struct bh_cri_sandbox_config *c = &op->srec.config;
    char host[256] = "localhost";
    int r;

    if (c->hostname.n > 0)
        r = bh_path(host, sizeof(host), &op->err, "%.*s", BH_SF(c->hostname));
    else
        r = gethostname(host, sizeof(host)) < 0 ? bh_err_sys(&op->err, errno, "host name") : 0;
    if (r == 0)
        r = bh_fs_write_plain(rt_pathf(op, "%s/hostname", dir), bh_s(rt_pathf(op, "%s\n", host)),
                              0644, &op->err);
    if (r == 0)
        r = bh_fs_write_plain(
            rt_pathf(op, "%s/hosts", dir),
            bh_s(rt_pathf(op,
                          "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
                          "127.0.0.1\t%s\n",
                          host)),
            0644, &op->err);
    if (r == 0)
        r = write_resolv(op, dir);
    if (r == 0)
        r = bh_fs_mkdir_p(rt_pathf(op, "%s/shm", dir), 01777, &op->err);
    if (r < 0 || c->host_ipc)
        return r;
    if (mount("shm", rt_pathf(op, "%s/shm", dir), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "mode=1777,size=64m") < 0)
        return bh_err_sys(&op->err, errno, "mount the shared memory of a sandbox");
    return 0;
}

static int write_bundle(struct rt_op *op, const char *dir)
{
    struct bh_cri_container_config none = {0};
    struct bh_image image = {0};
    struct bh_oci_in in = {
        .sandbox = &op->srec.config,
        .container = &none,
        .image = &image,
        .rootfs = rt_pathf(op, "%s/pause", op->rt->dir),
        .cgroup = rt_pathf(op, "%.*s/%.*s", BH_SF(op->srec.cgroup), BH_SF(op->srec.id)),
        .cgroup_v2 = op->rt->cg.v2};
    struct bh_jv spec;
    int r = bh_oci_sandbox(op->arena, &in, &spec, &op->err);

    if (r == 0)
        r = bh_fs_write_plain(rt_pathf(op, "%s/config.json", dir),
                              bh_jv_text(op->arena, &spec, BH_JSON_PLAIN), 0600, &op->err);
    return r;
}

static void run_prepare(struct rt_op *op)
{
    const struct bh_rt_sandbox_rec *rec = &op->srec;
    const char *dir;

    op->rc = bh_rt_sandbox_decode(op->arena, op->text, &op->srec, &op->err);
    if (op->rc < 0)
        return;
    dir = sb_dir(op, rec->id);
    op->rc = bh_fs_mkdir_p(dir, 0700, &op->err);
    if (op->rc == 0)
        op->rc = rt_save(op->rt->dir, "sandboxes", rec->id, op->text, &op->err);
    if (op->rc == 0 && rec->config.log_directory.n > 0)
        op->rc =
            bh_fs_mkdir_p(rt_pathf(op, "%.*s", BH_SF(rec->config.log_directory)), 0755, &op->err);
    if (op->rc == 0)
        op->rc = bh_cg_make(&op->rt->cg, rt_pathf(op, "%.*s", BH_SF(rec->cgroup)),
                            &rec->config.resources, &op->err);
    if (op->rc == 0)
        op->rc = write_files(op, dir);
    if (op->rc == 0)
        op->rc = write_bundle(op, dir);
    if (op->rc < 0)
        return;
    rt_arg_crun(op, rt_pathf(op, "%s/crun.log", dir), true);
    rt_arg(op, "run");
    rt_arg(op, "--detach");
    rt_argf(op, "--pid-file=%s/pid", dir);
    rt_argf(op, "--bundle=%s", dir);
    rt_argf(op, "%.*s", BH_SF(rec->id));
}

static void run_finish(struct rt_op *op)
{
    struct bh_rt_sandbox_rec *rec = &op->srec;

    if (op->rc == 0)
        op->rc = rt_read_pid(rt_pathf(op, "%s/pid", sb_dir(op, rec->id)), &rec->pid, &op->err);
    if (op->rc == 0) {
        rec->pid_start = rt_pid_start(rec->pid);
        rec->phase = BH_RT_RUNNING;
        if (rec->pid_start < 0)
            op->rc = bh_err_set(&op->err, BH_E_IO, "the sandbox's process ended at once");
    }
    if (op->rc == 0)
        op->rc = rt_save(op->rt->dir, "sandboxes", rec->id, bh_rt_sandbox_encode(op->arena, rec),
                         &op->err);
    if (op->rc < 0 && rec->id.n > 0)
        rt_sandbox_wipe(op->rt, rec->id, rec->cgroup);
}

static void run_complete(struct rt_op *op)
{
    if (op->rc == 0) {
        struct rt_sandbox *sb = rt_sandbox_add(op->rt, &op->srec);

        op->id = sb->rec.id;
        rt_watch_sandbox(sb);
        rt_emit(op->rt, BH_CRI_EV_STARTED, sb, (struct bh_str){NULL, 0});
    } else {
        (void)bh_err_wrap(&op->err, "failed to run the pod sandbox");
    }
    rt_cb_id(op);
    rt_op_free(op);
}

/* The request's group must stay below the runtime's own. */
static bool relative_clean(struct bh_str path)
{
    while (path.p) {
        struct bh_str part = bh_str_cut(&path, '/');

        if (bh_str_eqc(part, "..") || bh_str_eqc(part, "."))
            return false;
    }
    return true;
}

void rt_sandbox_run(struct bh_runtime *b, const struct bh_cri_sandbox_config *c, bh_cri_id_fn done,
                    void *arg)
{
    struct rt *rt = rt_of(b);
    struct rt_op *op = rt_op_new(rt, (void (*)(void))done, arg);
    struct bh_rt_sandbox_rec rec = {
        .phase = BH_RT_CREATING, .created_ns = bh_loop_wall_ns(rt->loop), .config = *c};
    struct bh_str parent = c->cgroup_parent;

    op->complete = run_complete;
    if (rt->crun[0] == '\0') {
        rt_op_fail(op, BH_E_UNAVAILABLE, "the program crun is not installed");
        return;
    }
    if (rt->sandboxes.n >= RT_CONTAINERS_MAX || !relative_clean(parent)) {
        rt_op_fail(op, BH_E_LIMIT, "too many sandboxes, or a bad control group parent");
        return;
    }
    rt_new_id(rt, op->arena, &rec.id);
    rec.boot_id = bh_s(rt->boot_id);
    while (parent.n > 0 && parent.p[0] == '/')
        parent = bh_str_sub(parent, 1, parent.n);
    rec.cgroup = parent.n > 0 ? bh_str_fmt(op->arena, "%s/%.*s", rt->cg_root, BH_SF(parent))
                              : bh_str_fmt(op->arena, "%s/pod-%.*s", rt->cg_root, 12, rec.id.p);
    op->text = bh_rt_sandbox_encode(op->arena, &rec);
    op->prepare = run_prepare;
    op->finish = run_finish;
    rt_op_run(op);
}

/* ---- stop ---- */

/* Kills by control group, which catches processes that left their first process' session or pid
 * namespace. */
static void stop_prepare(struct rt_op *op)
{
    op->rc = bh_rt_sandbox_decode(op->arena, op->text, &op->srec, &op->err);
    for (size_t i = 0; op->rc == 0 && i < op->paths.n; i++)
        bh_cg_kill(&op->rt->cg, op->paths.p[i].p, 5000);
    if (op->rc == 0)
        op->rc = rt_save(op->rt->dir, "sandboxes", op->srec.id, op->text, &op->err);
    if (op->rc == 0)
        rt_crun_delete(op->rt, op->srec.id);
}

static bool all_exited(const struct rt_sandbox *sb)
{
    bh_list_for(it, &sb->rt->container_list)
    {
        const struct rt_container *ct = bh_container(it, struct rt_container, link);

        if (ct->sb == sb && rt_alive(ct))
            return false;
    }
    return true;
}

static void stop_end(struct rt_op *op)
{
    struct rt_sandbox *sb = op->sb;

    sb->busy = false;
    sb->stopping = NULL;
    if (op->rc == 0)
        rt_emit(op->rt, BH_CRI_EV_STOPPED, sb, (struct bh_str){NULL, 0});
    rt_cb_done(op);
    rt_op_free(op);
}

void rt_sandbox_maybe_stopped(struct rt_sandbox *sb)
{
    if (sb->stopping && all_exited(sb))
        stop_end(sb->stopping);
}

static void stop_complete(struct rt_op *op)
{
    if (op->rc < 0) {
        stop_end(op);
        return;
    }
    rt_watch_stop(&op->sb->watch);
    rt_sandbox_set(op->sb, &op->srec);
    op->sb->stopping = op;
    op->parked = true;
    rt_sandbox_maybe_stopped(op->sb);
}

static void nothing_complete(struct rt_op *op)
{
    rt_cb_done(op);
    rt_op_free(op);
}

void rt_sandbox_stop(struct bh_runtime *b, struct bh_str id, bh_cri_done_fn done, void *arg)
{
    struct rt *rt = rt_of(b);
    struct rt_op *op = rt_op_new(rt, (void (*)(void))done, arg);
    struct rt_sandbox *sb = rt_find_sandbox(rt, id);
    struct bh_rt_sandbox_rec rec;
    size_t n = 0;

    op->complete = nothing_complete;
    if (!sb || (sb->rec.phase == BH_RT_EXITED && !sb->busy && all_exited(sb))) {
        rt_op_run(op);
        return;
    }
    if (sb->busy || sb->creating > 0) {
        rt_op_fail(op, BH_E_BUSY, "the sandbox is being changed");
        return;
    }
    sb->busy = true;
    op->sb = sb;
    op->paths.p = bh_new_n(op->arena, struct bh_str, rt->containers.n + 1);
    bh_list_for(it, &rt->container_list)
    {
        struct rt_container *ct = bh_container(it, struct rt_container, link);

        if (ct->sb == sb && rt_alive(ct)) {
            rt_kill(ct, SIGKILL);
            op->paths.p[n++] = bh_str_dup(op->arena, ct->rec.cgroup);
        }
    }
    op->paths.p[n++] = bh_str_fmt(op->arena, "%.*s/%.*s", BH_SF(sb->rec.cgroup), BH_SF(sb->rec.id));
    op->paths.n = n;
    rec = sb->rec;
    rec.phase = BH_RT_EXITED;
    op->text = bh_rt_sandbox_encode(op->arena, &rec);
    op->prepare = stop_prepare;
    op->complete = stop_complete;
    rt_op_run(op);
}

/* ---- remove ---- */

static void remove_prepare(struct rt_op *op)
{
    op->rc = bh_rt_sandbox_decode(op->arena, op->text, &op->srec, &op->err);
    if (op->rc == 0)
        op->rc = rt_save(op->rt->dir, "sandboxes", op->srec.id, op->text, &op->err);
    if (op->rc == 0)
        rt_sandbox_wipe(op->rt, op->srec.id, op->srec.cgroup);
}

static void remove_complete(struct rt_op *op)
{
    if (op->rc == 0) {
        rt_emit(op->rt, BH_CRI_EV_DELETED, op->sb, (struct bh_str){NULL, 0});
        rt_sandbox_drop(op->sb);
    } else {
        op->sb->busy = false;
    }
    rt_cb_done(op);
    rt_op_free(op);
}

static void remove_last(struct rt_op *op)
{
    struct bh_rt_sandbox_rec rec = op->sb->rec;

    if (op->rc < 0) {
        op->sb->busy = false;
        rt_cb_done(op);
        rt_op_free(op);
        return;
    }
    rec.phase = BH_RT_REMOVING;
    op->text = bh_rt_sandbox_encode(op->arena, &rec);
    op->prepare = remove_prepare;
    op->complete = remove_complete;
    rt_op_run(op);
}

static void one_removed(void *arg, const struct bh_err *err)
{
    struct rt_op *op = arg;

    if (err && op->rc == 0)
        op->rc = bh_err_set(&op->err, err->code, "%s", err->msg);
    if (--op->pending > 0)
        return;
    op->parked = false;
    remove_last(op);
}

void rt_sandbox_remove(struct bh_runtime *b, struct bh_str id, bh_cri_done_fn done, void *arg)
{
    struct rt *rt = rt_of(b);
    struct rt_op *op = rt_op_new(rt, (void (*)(void))done, arg);
    struct rt_sandbox *sb = rt_find_sandbox(rt, id);

    op->complete = nothing_complete;
    if (!sb) {
        rt_op_run(op);
        return;
    }
    if (sb->busy || sb->creating > 0) {
        rt_op_fail(op, BH_E_BUSY, "the sandbox is being changed");
        return;
    }
    sb->busy = true;
    op->sb = sb;
    rt_watch_stop(&sb->watch);
    op->parked = true;
    op->pending = 1; /* our own, so that the count cannot reach zero while we still add */
    bh_list_for(it, &rt->container_list)
    {
        struct rt_container *ct = bh_container(it, struct rt_container, link);

        if (ct->sb != sb)
            continue;
        op->pending++;
        rt_container_remove(b, ct->rec.id, one_removed, op);
    }
    one_removed(op, NULL);
}
