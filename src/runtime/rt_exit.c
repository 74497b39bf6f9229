/* How the runtime learns that something ended, and what it then records.
 *
 * conmon writes exits/<id> when a container's first process has ended: inotify tells at once. A
 * pidfd on the process itself is the second source, for the case that conmon was killed: when its
 * word does not come, the end is recorded without an exit code. Both find the same function, which
 * is harmless to call twice.
 */
#include "runtime/rt_int.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXIT_FIRST_WAIT_MS 300  /* for conmon's word after the process is gone */
#define EXIT_RETRY_MS      1000 /* while conmon still lives */
#define EXIT_CODE_UNKNOWN  137  /* upstream's for ContainerStatusUnknown */

bool rt_alive(const struct rt_container *ct)
{
    return ct->rec.phase == BH_RT_CREATED || ct->rec.phase == BH_RT_STARTING ||
           ct->rec.phase == BH_RT_RUNNING;
}

/* ---- recording an end ---- */

static int read_exit(struct rt_op *op)
{
    struct bh_rt_container_rec *rec = &op->crec;
    const char *path = rt_pathf(op, "%s/exits/%.*s", op->rt->dir, BH_SF(rec->id));
    BH_AUTO_BUF b = {.max = 64};
    struct stat st;

    if (bh_fs_read(path, b.max, &b, NULL) == 0 && stat(path, &st) == 0 &&
        bh_str_i64(bh_str_trim(bh_buf_str(&b)), INT32_MIN, INT32_MAX, &rec->exit_code)) {
        rec->finished_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        rec->reason = rec->exit_code == 0 ? BH_S("Completed") : BH_S("Error");
        return 0;
    }
    if (rt_pid_is(rec->pid, rec->pid_start) || rt_pid_start(rec->conmon_pid) >= 0)
        return 1; /* not yet */
    rec->finished_ns = rt_now_ns();
    rec->exit_code = EXIT_CODE_UNKNOWN;
    rec->reason = BH_S("ContainerStatusUnknown");
    rec->message = BH_S(
        "The container could not be located when the exit status was wanted: its monitor is gone");
    return 0;
}

static void exit_prepare(struct rt_op *op)
{
    struct bh_rt_container_rec *rec = &op->crec;
    const char *cg;

    op->rc = bh_rt_container_decode(op->arena, op->text, rec, &op->err);
    if (op->rc < 0)
        return;
    if (read_exit(op) != 0) {
        op->retry = true;
        return;
    }
    cg = rt_pathf(op, "%.*s", BH_SF(rec->cgroup));
    /* The group outlives its processes until crun delete, so the count is still there. */
    if (rec->exit_code != 0 && bh_cg_oom_kills(&op->rt->cg, cg) > 0)
        rec->reason = BH_S("OOMKilled");
    /* With a shared pid namespace the kernel does not end what the first process left behind. */
    bh_cg_kill(&op->rt->cg, cg, 2000);
    if (rec->started_ns > 0 && rec->finished_ns < rec->started_ns)
        rec->finished_ns = rec->started_ns;
    rec->phase = BH_RT_EXITED;
    op->rc = rt_save(op->rt->dir, "containers", rec->id, bh_rt_container_encode(op->arena, rec),
                     &op->err);
}

static void run_waiters(struct rt_container *ct)
{
    struct bh_link ready;

    /* A callback may remove the container: the list is taken away first. */
    bh_list_init(&ready);
    bh_list_for_safe(it, &ct->waiters)
    {
        bh_list_del(it);
        bh_list_add_tail(&ready, it);
    }
    while (!bh_list_empty(&ready)) {
        struct rt_waiter *w = bh_container(ready.next, struct rt_waiter, link);

        bh_list_del(&w->link);
        w->done(w->arg, NULL);
        bh_free(w);
    }
}

static void exit_complete(struct rt_op *op)
{
    struct rt_container *ct = op->ct;

    ct->exiting = false;
    if (op->retry) {
        bh_timer_start(&ct->exit_timer, EXIT_RETRY_MS);
    } else if (op->rc < 0) {
        bh_log(BH_ERROR, "end of a container could not be recorded, continuing",
               BH_STR("id", ct->rec.id), BH_CSTR("error", op->err.msg));
        bh_timer_start(&ct->exit_timer, EXIT_RETRY_MS);
    } else {
        struct rt_sandbox *sb = ct->sb;

        bh_timer_stop(&ct->exit_timer);
        bh_timer_stop(&ct->kill_timer);
        rt_watch_stop(&ct->watch);
        rt_container_set(ct, &op->crec);
        rt_emit(op->rt, BH_CRI_EV_STOPPED, sb, ct->rec.id);
        run_waiters(ct);
        rt_sandbox_maybe_stopped(sb);
    }
    rt_op_free(op);
}

void rt_exit_check(struct rt_container *ct)
{
    struct rt_op *op;

    if (!rt_alive(ct) || ct->exiting)
        return;
    if (ct->busy) {
        ct->exit_seen = true;
        return;
    }
    ct->exiting = true;
    ct->exit_seen = false;
    op = rt_op_new(ct->rt, NULL, NULL);
    op->ct = ct;
    op->text = bh_rt_container_encode(op->arena, &ct->rec);
    op->prepare = exit_prepare;
    op->complete = exit_complete;
    rt_op_run(op);
}

/* ---- sources ---- */

static void exit_file_seen(void *arg, unsigned events)
{
    struct rt *rt = arg;
    char buf[16 << 10] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n;

    (void)events;
    while ((n = read(rt->inotify_fd, buf, sizeof(buf))) > 0) {
        for (char *p = buf; p < buf + n;) {
            struct inotify_event *ev = (void *)p;
            struct rt_container *ct = ev->len > 0 ? rt_find_container(rt, bh_s(ev->name)) : NULL;

            if (ct)
                rt_exit_check(ct);
            if (ev->mask & IN_Q_OVERFLOW)
                bh_list_for(it, &rt->container_list)
                    rt_exit_check(bh_container(it, struct rt_container, link));
            p += sizeof(*ev) + ev->len;
        }
    }
}

int rt_exit_init(struct rt *rt, struct bh_err *err)
{
    char path[PATH_MAX];
    int r = bh_path(path, sizeof(path), err, "%s/exits", rt->dir);

    if (r == 0)
        r = bh_fs_mkdir_p(path, 0700, err);
    if (r < 0)
        return r;
    rt->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (rt->inotify_fd < 0 ||
        inotify_add_watch(rt->inotify_fd, path, IN_MOVED_TO | IN_CLOSE_WRITE) < 0)
        return bh_err_sys(err, errno, "watch '%s'", path);
    rt->inotify_io = bh_io_new(rt->loop, rt->inotify_fd, exit_file_seen, rt, err);
    if (!rt->inotify_io)
        return -(int)BH_E_IO;
    bh_io_want(rt->inotify_io, BH_IO_READ);
    return 0;
}

void rt_watch_stop(struct rt_watch *w)
{
    w->io = bh_io_free(w->io);
    bh_close_p(&w->pidfd);
    w->pidfd = -1;
}

static void container_gone(void *arg, unsigned events)
{
    struct rt_container *ct = arg;

    (void)events;
    bh_io_want(ct->watch.io, 0);
    bh_timer_start(&ct->exit_timer, EXIT_FIRST_WAIT_MS);
}

void rt_watch_container(struct rt_container *ct)
{
    struct bh_err err = {0};

    if (ct->watch.pidfd >= 0)
        return;
    ct->watch.pidfd = rt_pidfd(ct->rec.pid, ct->rec.pid_start);
    if (ct->watch.pidfd < 0) {
        bh_timer_start(&ct->exit_timer, EXIT_FIRST_WAIT_MS);
        return;
    }
    ct->watch.io = bh_io_new(ct->rt->loop, ct->watch.pidfd, container_gone, ct, &err);
    if (ct->watch.io)
        bh_io_want(ct->watch.io, BH_IO_READ);
}

/* The pause process ended by itself or was killed: the pod needs a new sandbox. */
static void sandbox_gone(void *arg, unsigned events)
{
    struct rt_sandbox *sb = arg;
    struct bh_rt_sandbox_rec rec = sb->rec;
    struct bh_err err = {0};

    (void)events;
    rt_watch_stop(&sb->watch);
    if (sb->busy || rec.phase != BH_RT_RUNNING)
        return;
    rec.phase = BH_RT_EXITED;
    rt_sandbox_set(sb, &rec);
    struct bh_arena *a = bh_arena_new(0);
    /* A few hundred microseconds on the loop, once in a pod's life and only after an accident. */
    if (rt_save(sb->rt->dir, "sandboxes", sb->rec.id, bh_rt_sandbox_encode(a, &sb->rec), &err) < 0)
        bh_log(BH_WARN, "record of a sandbox not written, continuing", BH_CSTR("error", err.msg));
    bh_arena_free(a);
    rt_emit(sb->rt, BH_CRI_EV_STOPPED, sb, (struct bh_str){NULL, 0});
}

void rt_watch_sandbox(struct rt_sandbox *sb)
{
    struct bh_err err = {0};

    sb->watch.pidfd = rt_pidfd(sb->rec.pid, sb->rec.pid_start);
    if (sb->watch.pidfd >= 0)
        sb->watch.io = bh_io_new(sb->rt->loop, sb->watch.pidfd, sandbox_gone, sb, &err);
    if (sb->watch.io)
        bh_io_want(sb->watch.io, BH_IO_READ);
    else
        sandbox_gone(sb, 0);
}

void rt_kill(struct rt_container *ct, int sig)
{
    if (ct->watch.pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, ct->watch.pidfd, sig, NULL,
                      0); /* it may just have ended */
}
