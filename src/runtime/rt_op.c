/* The life of an operation: worker, helper process, worker, loop. */
#include "runtime/rt_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fs.h"

struct rt_op *rt_op_new(struct rt *rt, void (*done)(void), void *arg)
{
    struct bh_arena *a = bh_arena_new(0);
    struct rt_op *op = bh_new(a, struct rt_op);

    op->rt = rt;
    op->arena = a;
    op->done = done;
    op->arg = arg;
    op->timeout_ms = RT_HELPER_MS;
    op->out_max = 64 << 10;
    rt->refs++;
    bh_list_add_tail(&rt->ops, &op->link);
    return op;
}

void rt_op_free(struct rt_op *op)
{
    struct rt *rt = op->rt;

    bh_list_del(&op->link);
    bh_arena_free(op->arena);
    rt_unref(rt);
}

static void op_complete(void *arg)
{
    struct rt_op *op = arg;

    /* After free nobody listens; the records on disk say how far things went. */
    if (op->rt->closing)
        rt_op_free(op);
    else
        op->complete(op);
}

static void op_finish_work(void *arg)
{
    struct rt_op *op = arg;

    op->finish(op);
}

static void op_finish(struct rt_op *op)
{
    if (op->finish)
        bh_loop_work(op->rt->loop, op_finish_work, op_complete, op);
    else
        op_complete(op);
}

/* crun writes one JSON object a line; the last error is the one that ended it. */
static struct bh_str log_error(struct rt_op *op)
{
    BH_AUTO_BUF b = {.max = 1 << 20};
    struct bh_str msg = {NULL, 0};

    if (!op->log || bh_fs_read(op->log, b.max, &b, NULL) < 0)
        return msg;
    struct bh_str all = bh_buf_str(&b);
    while (all.n > 0) {
        struct bh_str line = bh_str_dup(op->arena, bh_str_cut(&all, '\n'));
        struct bh_jv v;

        if (bh_jv_parse(op->arena, line, NULL, &v, NULL) < 0)
            continue;
        if (bh_str_eqc(bh_jv_get_str(&v, "level"), "error"))
            msg = bh_jv_get_str(&v, "msg");
    }
    return msg;
}

static void helper_done(void *arg, const struct bh_proc_result *res)
{
    struct rt_op *op = arg;

    op->ran = true;
    op->exit_code = res->exit_code;
    op->timed_out = res->timed_out;
    op->out = bh_str_dup(op->arena, res->out);
    op->errout = bh_str_dup(op->arena, res->err);
    /* exec_sync looks at the exit code itself. */
    if (res->exit_code != 0 && !op->result) {
        struct bh_str why = log_error(op);

        if (why.n == 0)
            why = bh_str_trim(op->errout);
        if (res->timed_out)
            op->rc =
                bh_err_set(&op->err, BH_E_TIMEOUT, "container runtime did not answer within %d s",
                           op->timeout_ms / 1000);
        else if (why.n > 0)
            op->rc = bh_err_set(&op->err, BH_E_IO, "%.*s", BH_SF(why));
        else
            op->rc = bh_err_set(&op->err, BH_E_IO,
                                "container runtime ended with exit code %d, signal %d",
                                res->exit_code, res->signal);
    }
    op_finish(op);
}

static void op_helper(void *arg)
{
    struct rt_op *op = arg;
    struct bh_proc_opts o = {.file = op->argv ? op->argv[0] : NULL,
                             .argv = op->argv,
                             .output_max = op->out_max,
                             .stdout_fd = -1,
                             .stderr_fd = -1,
                             .timeout_ms = op->timeout_ms,
                             .cwd = "/",
                             .new_group = true};

    if (op->rc == 0 && op->argv) {
        op->rc = bh_proc_spawn(op->rt->loop, &o, helper_done, op, NULL, &op->err);
        if (op->rc == 0)
            return;
    }
    op_finish(op);
}

static void op_prepare_work(void *arg)
{
    struct rt_op *op = arg;

    op->prepare(op);
}

void rt_op_run(struct rt_op *op)
{
    bh_assert(op->complete != NULL);
    if (op->prepare)
        bh_loop_work(op->rt->loop, op_prepare_work, op_helper, op);
    else if (op->argv || op->finish)
        bh_loop_defer(op->rt->loop, op_helper, op);
    else
        bh_loop_defer(op->rt->loop, op_complete, op);
}

void rt_op_fail(struct rt_op *op, enum bh_code c, const char *fmt, ...)
{
    char msg[BH_ERR_MSG_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    op->rc = bh_err_set(&op->err, c, "%s", msg);
    bh_loop_defer(op->rt->loop, op_complete, op);
}

void rt_arg(struct rt_op *op, const char *s)
{
    if (op->argc + 1 >= op->argv_cap)
        bh_arena_grow(op->arena, &op->argv, &op->argv_cap, op->argc + 2, sizeof(*op->argv));
    op->argv[op->argc++] = bh_arena_memdup(op->arena, s, strlen(s) + 1);
    op->argv[op->argc] = NULL;
}

void rt_argf(struct rt_op *op, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    struct bh_str s = bh_str_vfmt(op->arena, fmt, ap);
    va_end(ap);
    rt_arg(op, s.p);
}

void rt_arg_crun(struct rt_op *op, const char *log, bool null_stdio)
{
    op->log = log;
    rt_arg(op, op->rt->helper);
    rt_arg(op, "runtime-exec");
    if (null_stdio)
        rt_arg(op, "--null");
    rt_arg(op, "--");
    rt_arg(op, op->rt->crun);
    rt_argf(op, "--root=%s/crun", op->rt->dir);
    rt_arg(op, "--cgroup-manager=cgroupfs");
    rt_argf(op, "--log=%s", log);
    rt_arg(op, "--log-format=json");
}

const char *rt_pathf(struct rt_op *op, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    struct bh_str s = bh_str_vfmt(op->arena, fmt, ap);
    va_end(ap);
    return s.p;
}

void rt_cb_done(struct rt_op *op)
{
    bh_cri_done_fn fn = (bh_cri_done_fn)op->done;

    if (fn)
        fn(op->arg, op->rc < 0 ? &op->err : NULL);
}

void rt_cb_id(struct rt_op *op)
{
    bh_cri_id_fn fn = (bh_cri_id_fn)op->done;

    fn(op->arg, op->rc < 0 ? &op->err : NULL, op->id);
}
