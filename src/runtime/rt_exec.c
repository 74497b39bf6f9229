/* Running a command in a container and waiting for it; statistics. */
#include "runtime/rt_int.h"

#include "base/buf.h"
#include "base/fs.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *exec_path(struct rt_op *op, const char *what)
{
    return rt_pathf(op, "%s/containers/%.*s/exec-%p.%s", op->rt->dir, BH_SF(op->id), (void *)op,
                    what);
}

/* The process is the container's own with other arguments: environment, user, capabilities,
 * directory stay. */
static void exec_prepare(struct rt_op *op)
{
    const char *dir = rt_pathf(op, "%s/containers/%.*s", op->rt->dir, BH_SF(op->id));
    BH_AUTO_BUF b = {.max = RT_RECORD_MAX};
    struct bh_jv spec, args = BH_JV_ARR, *proc;

    op->rc = bh_fs_read(rt_pathf(op, "%s/config.json", dir), b.max, &b, &op->err);
    if (op->rc == 0)
        op->rc =
            bh_jv_parse(op->arena, bh_str_dup(op->arena, bh_buf_str(&b)), NULL, &spec, &op->err);
    if (op->rc < 0)
        return;
    proc = bh_jv_getc(&spec, "process");
    if (!proc || proc->kind != BH_JSON_OBJ) {
        op->rc =
            bh_err_set(&op->err, BH_E_INTERNAL, "the container's configuration has no process");
        return;
    }
    for (size_t i = 0; i < op->cmd.n; i++)
        bh_jv_append(op->arena, &args, bh_jv_str(op->cmd.p[i]));
    bh_jv_setc(op->arena, proc, "args", args);
    bh_jv_setc(op->arena, proc, "terminal", bh_jv_bool(false));
    op->rc = bh_fs_write_plain(exec_path(op, "json"), bh_jv_text(op->arena, proc, BH_JSON_PLAIN),
                               0600, &op->err);
    if (op->rc < 0)
        return;
    rt_arg_crun(op, exec_path(op, "log"), false);
    rt_arg(op, "exec");
    rt_argf(op, "--pid-file=%s", exec_path(op, "pid"));
    rt_argf(op, "--process=%s", exec_path(op, "json"));
    rt_argf(op, "%.*s", BH_SF(op->id));
}

static void exec_finish(struct rt_op *op)
{
    struct bh_cri_exec_result *res = op->result;
    BH_AUTO_BUF log = {.max = 1 << 20};
    int64_t pid;

    if (op->timed_out) {
        char cg[64];
        BH_AUTO_BUF b = {.max = 64 << 10};

        /* Killing crun leaves the process behind, which is no child of ours: kill it if it is still
         * in the container. */
        op->rc = bh_err_set(&op->err, BH_E_TIMEOUT, "command timed out");
        if (rt_read_pid(exec_path(op, "pid"), &pid, NULL) == 0) {
            snprintf(cg, sizeof(cg), "/proc/%lld/cgroup", (long long)pid);
            if (bh_fs_read(cg, b.max, &b, NULL) == 0 && bh_str_find(bh_buf_str(&b), op->id) >= 0)
                (void)kill((pid_t)pid, SIGKILL);
        }
    } else if (op->rc == 0 && op->ran) {
        res->out = op->out;
        res->err = op->errout;
        res->exit_code = op->exit_code;
        /* crun's own failures are told in its log; a program's never are. */
        if (bh_fs_read(exec_path(op, "log"), log.max, &log, NULL) == 0 &&
            bh_str_find(bh_buf_str(&log), BH_S("\"error\"")) >= 0) {
            struct bh_str line = bh_str_dup(op->arena, bh_buf_str(&log));
            struct bh_jv v;

            line = bh_str_cut(&line, '\n');
            if (bh_jv_parse(op->arena, line, NULL, &v, NULL) == 0)
                res->err = bh_str_dup(op->arena, bh_jv_get_str(&v, "msg"));
            res->exit_code = bh_str_find(res->err, BH_S("not found")) >= 0 ||
                                     bh_str_find(res->err, BH_S("No such file")) >= 0
                                 ? 127
                                 : 126;
        }
    }
    (void)unlink(exec_path(op, "json"));
    (void)unlink(exec_path(op, "log"));
    (void)unlink(exec_path(op, "pid"));
}

static void exec_complete(struct rt_op *op)
{
    bh_cri_exec_fn fn = (bh_cri_exec_fn)op->done;

    fn(op->arg, op->rc < 0 ? &op->err : NULL, op->result);
    rt_op_free(op);
}

void rt_exec_sync(struct bh_runtime *b, struct bh_str id, const struct bh_str_vec *cmd,
                  int timeout_ms, bh_cri_exec_fn done, void *arg)
{
    struct rt *rt = rt_of(b);
    struct rt_op *op = rt_op_new(rt, (void (*)(void))done, arg);
    struct rt_container *ct = rt_find_container(rt, id);

    op->result = bh_new(op->arena, struct bh_cri_exec_result);
    op->complete = exec_complete;
    if (!ct) {
        rt_op_fail(op, BH_E_NOT_FOUND, "container \"%.*s\" not found", BH_SF(id));
        return;
    }
    if (ct->rec.phase != BH_RT_RUNNING || cmd->n == 0) {
        rt_op_fail(op, BH_E_CONFLICT, "container \"%.*s\" is not running", BH_SF(id));
        return;
    }
    op->id = bh_str_dup(op->arena, ct->rec.id);
    op->cmd.p = bh_new_n(op->arena, struct bh_str, cmd->n);
    for (; op->cmd.n < cmd->n; op->cmd.n++)
        op->cmd.p[op->cmd.n] = bh_str_dup(op->arena, cmd->p[op->cmd.n]);
    op->timeout_ms = timeout_ms;
    op->out_max = RT_EXEC_OUT_MAX;
    op->prepare = exec_prepare;
    op->finish = exec_finish;
    rt_op_run(op);
}

/* ---- statistics ---- */

static void stats_prepare(struct rt_op *op)
{
    struct bh_cri_stats_vec *v = op->result;

    for (size_t i = 0; i < v->n; i++) {
        bh_cg_stats(&op->rt->cg, op->paths.p[i].p, &v->p[i]);
        v->p[i].at_ns = rt_now_ns();
    }
}

static void stats_complete(struct rt_op *op)
{
    bh_cri_stats_fn fn = (bh_cri_stats_fn)op->done;

    fn(op->arg, op->rc < 0 ? &op->err : NULL, op->result);
    rt_op_free(op);
}

void rt_container_stats(struct bh_runtime *b, struct bh_str id, bh_cri_stats_fn done, void *arg)
{
    struct rt *rt = rt_of(b);
    struct rt_op *op = rt_op_new(rt, (void (*)(void))done, arg);
    struct bh_cri_stats_vec *v = bh_new(op->arena, struct bh_cri_stats_vec);

    op->result = v;
    op->complete = stats_complete;
    if (id.n > 0 && !rt_find_container(rt, id)) {
        rt_op_fail(op, BH_E_NOT_FOUND, "container \"%.*s\" not found", BH_SF(id));
        return;
    }
    v->p = bh_new_n(op->arena, struct bh_cri_stats, rt->containers.n + 1);
    op->paths.p = bh_new_n(op->arena, struct bh_str, rt->containers.n + 1);
    bh_list_for(it, &rt->container_list)
    {
        const struct rt_container *ct = bh_container(it, struct rt_container, link);

        if (!rt_alive(ct) || (id.n > 0 && !bh_str_eq(id, ct->rec.id)))
            continue;
        op->paths.p[v->n] = bh_str_dup(op->arena, ct->rec.cgroup);
        v->p[v->n++].id = bh_str_dup(op->arena, ct->rec.id);
    }
    op->prepare = stats_prepare;
    rt_op_run(op);
}
