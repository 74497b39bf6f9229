/* Containers on the loop's side: create, start, stop, remove, update, reopen the log. */
#include "runtime/rt_int.h"

#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define GRACE_MAX_S (365 * 24 * 3600LL)

static void simple_complete(struct rt_op *op)
{
    rt_cb_done(op);
    rt_op_free(op);
}

/* An operation on a container begins: complete is for the failure until the caller sets its own.
 * NULL: it failed. */
static struct rt_op *begin(struct bh_runtime *b, struct bh_str id, void (*done)(void), void *arg,
                           struct rt_container **ret)
{
    struct rt *rt = rt_of(b);
    struct rt_op *op = rt_op_new(rt, done, arg);
    struct rt_container *ct = rt_find_container(rt, id);

    op->complete = simple_complete;
    *ret = ct;
    if (!ct) {
        rt_op_fail(op, BH_E_NOT_FOUND, "container \"%.*s\" not found", BH_SF(id));
        return NULL;
    }
    if (ct->busy || ct->exiting) {
        rt_op_fail(op, BH_E_BUSY, "the container is being changed");
        return NULL;
    }
    op->ct = ct;
    return op;
}

/* The end of an operation that held the container. */
static void release(struct rt_container *ct)
{
    ct->busy = false;
    if (ct->exit_seen)
        rt_exit_check(ct);
}

/* ---- create ---- */

static void create_complete(struct rt_op *op)
{
    struct rt_sandbox *sb = op->sb;

    sb->creating--;
    if (op->rc == 0) {
        struct rt_container *ct = rt_container_add(op->rt, sb, &op->crec);

        op->id = ct->rec.id;
        rt_watch_container(ct);
        rt_emit(op->rt, BH_CRI_EV_CREATED, sb, ct->rec.id);
    }
    rt_cb_id(op);
    rt_op_free(op);
}

static void id_complete(struct rt_op *op)
{
    rt_cb_id(op);
    rt_op_free(op);
}

void rt_container_create(struct bh_runtime *b, struct bh_str sandbox_id,
                         const struct bh_cri_container_config *c, bh_cri_id_fn done, void *arg)
{
    struct rt *rt = rt_of(b);
    struct rt_op *op = rt_op_new(rt, (void (*)(void))done, arg);
    struct rt_sandbox *sb = rt_find_sandbox(rt, sandbox_id);
    struct bh_rt_container_rec rec = {.phase = BH_RT_CREATING, .config = *c};

    op->complete = id_complete;
    if (!sb) {
        rt_op_fail(op, BH_E_NOT_FOUND, "pod sandbox \"%.*s\" not found", BH_SF(sandbox_id));
        return;
    }
    if (sb->busy || sb->rec.phase != BH_RT_RUNNING || rt->containers.n >= RT_CONTAINERS_MAX) {
        rt_op_fail(op, BH_E_CONFLICT, "pod sandbox \"%.*s\" is not ready", BH_SF(sandbox_id));
        return;
    }
    if (rt->crun[0] == '\0' || rt->conmon[0] == '\0') {
        rt_op_fail(op, BH_E_UNAVAILABLE, "crun and conmon must be installed");
        return;
    }
    rt_new_id(rt, op->arena, &rec.id);
    rec.sandbox_id = sb->rec.id;
    rec.boot_id = bh_s(rt->boot_id);
    rec.created_ns = bh_loop_wall_ns(rt->loop);
    rec.cgroup = bh_str_fmt(op->arena, "%.*s/%.*s", BH_SF(sb->rec.cgroup), BH_SF(rec.id));
    if (c->log_path.n > 0)
        rec.log_path = bh_str_fmt(op->arena, "%.*s/%.*s", BH_SF(sb->rec.config.log_directory),
                                  BH_SF(c->log_path));
    op->text = bh_rt_container_encode(op->arena, &rec);
    /* The worker reads a copy of the sandbox's record. */
    if (bh_rt_sandbox_decode(op->arena, bh_rt_sandbox_encode(op->arena, &sb->rec), &op->srec,
                             &op->err) < 0) {
        rt_op_fail(op, BH_E_INTERNAL, "the sandbox's record cannot be copied");
        return;
    }
    op->sandbox_pid = (int)sb->rec.pid;
    if (c->security.pid_mode == BH_CRI_PID_TARGET) {
        struct rt_container *target = rt_find_container(rt, c->security.target_id);

        if (!target || !rt_alive(target) || target->sb != sb) {
            rt_op_fail(op, BH_E_NOT_FOUND, "target container \"%.*s\" is not running in the pod",
                       BH_SF(c->security.target_id));
            return;
        }
        op->target_pid = (int)target->rec.pid;
    }
    sb->creating++;
    op->sb = sb;
    op->prepare = rt_create_prepare;
    op->finish = rt_create_finish;
    op->complete = create_complete;
    rt_op_run(op);
}

/* ---- start ---- */

static void start_prepare(struct rt_op *op)
{
    op->rc = bh_rt_container_decode(op->arena, op->text, &op->crec, &op->err);
    if (op->rc == 0)
        op->rc = rt_save(op->rt->dir, "containers", op->crec.id, op->text, &op->err);
    if (op->rc < 0)
        return;
    rt_arg_crun(op, rt_pathf(op, "%s/containers/%.*s/crun.log", op->rt->dir, BH_SF(op->crec.id)),
                true);
    rt_arg(op, "start");
    rt_argf(op, "%.*s", BH_SF(op->crec.id));
}

static void start_finish(struct rt_op *op)
{
    if (op->rc < 0)
        return;
    op->crec.phase = BH_RT_RUNNING;
    op->rc = rt_save(op->rt->dir, "containers", op->crec.id,
                     bh_rt_container_encode(op->arena, &op->crec), &op->err);
}

static void start_complete(struct rt_op *op)
{
    struct rt_container *ct = op->ct;

    if (op->rc == 0) {
        rt_container_set(ct, &op->crec);
        rt_emit(op->rt, BH_CRI_EV_STARTED, ct->sb, ct->rec.id);
    } else {
        (void)bh_err_wrap(&op->err, "failed to start the container");
        rt_kill(ct, SIGKILL); /* half started is of no use to anybody */
    }
    release(ct);
    rt_cb_done(op);
    rt_op_free(op);
}

void rt_container_start(struct bh_runtime *b, struct bh_str id, bh_cri_done_fn done, void *arg)
{
    struct rt_container *ct;
    struct rt_op *op = begin(b, id, (void (*)(void))done, arg, &ct);
    struct bh_rt_container_rec rec;

    if (!op)
        return;
    if (ct->rec.phase != BH_RT_CREATED) {
        rt_op_fail(op, BH_E_CONFLICT, "container \"%.*s\" is not in the created state", BH_SF(id));
        return;
    }
    ct->busy = true;
    rec = ct->rec;
    rec.phase = BH_RT_STARTING;
    rec.started_ns = bh_loop_wall_ns(ct->rt->loop);
    op->text = bh_rt_container_encode(op->arena, &rec);
    op->prepare = start_prepare;
    op->finish = start_finish;
    op->complete = start_complete;
    rt_op_run(op);
}

/* ---- stop ---- */

void rt_container_stop(struct bh_runtime *b, struct bh_str id, int64_t grace_s, bh_cri_done_fn done,
                       void *arg)
{
    struct rt *rt = rt_of(b);
    struct rt_container *ct = rt_find_container(rt, id);
    struct rt_waiter *w;

    if (!ct || !rt_alive(ct)) {
        struct rt_op *op = rt_op_new(rt, (void (*)(void))done, arg);

        op->complete = simple_complete;
        rt_op_run(op);
        return;
    }
    w = bh_calloc(1, sizeof(*w));
    w->done = done;
    w->arg = arg;
    bh_list_add_tail(&ct->waiters, &w->link);
    /* A container that was not started has nobody to handle a signal. */
    if (grace_s <= 0 || ct->rec.phase == BH_RT_CREATED) {
        rt_kill(ct, SIGKILL);
        return;
    }
    if (grace_s > GRACE_MAX_S)
        grace_s = GRACE_MAX_S;
    rt_kill(ct, (int)ct->rec.stop_signal);
    bh_timer_start(&ct->kill_timer, grace_s * 1000);
}

/* ---- remove ---- */

static void remove_prepare(struct rt_op *op)
{
    op->rc = bh_rt_container_decode(op->arena, op->text, &op->crec, &op->err);
    if (op->rc == 0)
        op->rc = rt_save(op->rt->dir, "containers", op->crec.id, op->text, &op->err);
    if (op->rc == 0)
        rt_container_wipe(op->rt, op->crec.id, op->crec.cgroup, op->crec.conmon_pid);
}

static void remove_complete(struct rt_op *op)
{
    struct rt_container *ct = op->ct;

    if (op->rc == 0) {
        rt_emit(op->rt, BH_CRI_EV_DELETED, ct->sb, ct->rec.id);
        rt_container_drop(ct);
    } else {
        release(ct);
    }
    rt_cb_done(op);
    rt_op_free(op);
}

static void remove_now(struct rt_op *op)
{
    struct rt_container *ct = op->ct;
    struct bh_rt_container_rec rec = ct->rec;

    ct->busy = true;
    rec.phase = BH_RT_REMOVING;
    op->text = bh_rt_container_encode(op->arena, &rec);
    op->prepare = remove_prepare;
    op->complete = remove_complete;
    rt_op_run(op);
}

/* The end was recorded, so everybody else who waited is told before the container goes. */
static void remove_stopped(void *arg, const struct bh_err *err)
{
    struct rt_op *op = arg;

    (void)err;
    op->parked = false;
    if (op->ct->busy) {
        rt_op_fail(op, BH_E_BUSY, "the container is being changed");
        return;
    }
    remove_now(op);
}

void rt_container_remove(struct bh_runtime *b, struct bh_str id, bh_cri_done_fn done, void *arg)
{
    struct rt *rt = rt_of(b);
    struct rt_op *op = rt_op_new(rt, (void (*)(void))done, arg);
    struct rt_container *ct = rt_find_container(rt, id);

    op->complete = simple_complete;
    op->ct = ct;
    if (!ct) {
        rt_op_run(op);
    } else if (ct->busy) {
        rt_op_fail(op, BH_E_BUSY, "the container is being changed");
    } else if (rt_alive(ct)) {
        op->parked = true;
        rt_container_stop(b, ct->rec.id, 0, remove_stopped, op);
    } else {
        remove_now(op);
    }
}

/* ---- update, log ---- */

static void update_prepare(struct rt_op *op)
{
    op->rc = bh_rt_container_decode(op->arena, op->text, &op->crec, &op->err);
    if (op->rc == 0)
        op->rc = bh_cg_apply(&op->rt->cg, rt_pathf(op, "%.*s", BH_SF(op->crec.cgroup)), &op->res,
                             &op->err);
    if (op->rc == 0)
        op->rc = rt_save(op->rt->dir, "containers", op->crec.id, op->text, &op->err);
}

static void update_complete(struct rt_op *op)
{
    if (op->rc == 0)
        rt_container_set(op->ct, &op->crec);
    release(op->ct);
    rt_cb_done(op);
    rt_op_free(op);
}

void rt_container_update(struct bh_runtime *b, struct bh_str id, const struct bh_cri_resources *r,
                         bh_cri_done_fn done, void *arg)
{
    struct rt_container *ct;
    struct rt_op *op = begin(b, id, (void (*)(void))done, arg, &ct);
    struct bh_rt_container_rec rec;
    struct bh_cri_resources *have;

    if (!op)
        return;
    if (!rt_alive(ct)) {
        rt_op_fail(op, BH_E_CONFLICT, "container \"%.*s\" is not running", BH_SF(id));
        return;
    }
    ct->busy = true;
    rec = ct->rec;
    have = &rec.config.resources;
    have->cpu_period = r->cpu_period ? r->cpu_period : have->cpu_period;
    have->cpu_quota = r->cpu_quota ? r->cpu_quota : have->cpu_quota;
    have->cpu_shares = r->cpu_shares ? r->cpu_shares : have->cpu_shares;
    have->memory_limit = r->memory_limit ? r->memory_limit : have->memory_limit;
    have->memory_swap_limit = r->memory_swap_limit ? r->memory_swap_limit : have->memory_swap_limit;
    have->pids_limit = r->pids_limit ? r->pids_limit : have->pids_limit;
    op->res = *have;
    op->res.cpuset_cpus = op->res.cpuset_mems = (struct bh_str){NULL, 0};
    op->text = bh_rt_container_encode(op->arena, &rec);
    op->prepare = update_prepare;
    op->complete = update_complete;
    rt_op_run(op);
}

/* conmon reads commands from a fifo in the bundle; "2" makes it open its log file again. */
static void reopen_prepare(struct rt_op *op)
{
    const char *path = rt_pathf(op, "%s/containers/%.*s/ctl", op->rt->dir, BH_SF(op->id));
    BH_AUTO_FD fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

    op->rc = fd < 0 ? bh_err_sys(&op->err, errno, "open '%s'", path)
                    : bh_write_all(fd, "2 0 0\n", 6, &op->err);
}

void rt_container_reopen_log(struct bh_runtime *b, struct bh_str id, bh_cri_done_fn done, void *arg)
{
    struct rt_container *ct;
    struct rt_op *op = begin(b, id, (void (*)(void))done, arg, &ct);

    if (!op)
        return;
    if (!rt_alive(ct)) {
        rt_op_fail(op, BH_E_CONFLICT, "container \"%.*s\" is not running", BH_SF(id));
        return;
    }
    op->id = bh_str_dup(op->arena, ct->rec.id);
    op->prepare = reopen_prepare;
    rt_op_run(op);
}
