/* The embedded runtime: construction, look-ups, what is answered from memory. */
#include "runtime/rt_int.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/log.h"
#include "runtime/image_store.h"
#include "runtime_pause.h" /* generated: the pause program */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rt *rt_of(struct bh_runtime *b)
{
    return bh_container(b, struct rt, base);
}

struct rt_sandbox *rt_find_sandbox(struct rt *rt, struct bh_str id)
{
    return bh_map_get(&rt->sandboxes, id);
}
struct rt_container *rt_find_container(struct rt *rt, struct bh_str id)
{
    return bh_map_get(&rt->containers, id);
}

void rt_new_id(struct rt *rt, struct bh_arena *a, struct bh_str *ret)
{
    uint8_t raw[RT_ID_LEN / 2];
    char hex[RT_ID_LEN + 1];

    bh_loop_random_bytes(rt->loop, raw, sizeof(raw));
    for (size_t i = 0; i < sizeof(raw); i++)
        snprintf(hex + 2 * i, 3, "%02x", raw[i]);
    *ret = bh_str_dup(a, (struct bh_str){hex, RT_ID_LEN});
}

/* The record is copied by way of its encoded form, which is the one deep copy there is. */
void rt_sandbox_set(struct rt_sandbox *sb, const struct bh_rt_sandbox_rec *rec)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_rt_sandbox_rec copy;
    int r = bh_rt_sandbox_decode(a, bh_rt_sandbox_encode(a, rec), &copy, NULL);

    bh_assert(r == 0);
    bh_arena_free(sb->arena);
    sb->arena = a;
    sb->rec = copy;
}

void rt_container_set(struct rt_container *ct, const struct bh_rt_container_rec *rec)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_rt_container_rec copy;
    int r = bh_rt_container_decode(a, bh_rt_container_encode(a, rec), &copy, NULL);

    bh_assert(r == 0);
    bh_arena_free(ct->arena);
    ct->arena = a;
    ct->rec = copy;
}

struct rt_sandbox *rt_sandbox_add(struct rt *rt, const struct bh_rt_sandbox_rec *rec)
{
    struct rt_sandbox *sb = bh_calloc(1, sizeof(*sb));

    sb->rt = rt;
    sb->watch.pidfd = -1;
    rt_sandbox_set(sb, rec);
    (void)bh_map_put(&rt->sandboxes, sb->rec.id, sb);
    bh_list_add_tail(&rt->sandbox_list, &sb->link);
    return sb;
}

static void grace_over(void *arg)
{
    rt_kill(arg, SIGKILL);
}
static void exit_due(void *arg)
{
    rt_exit_check(arg);
}

struct rt_container *rt_container_add(struct rt *rt, struct rt_sandbox *sb,
                                      const struct bh_rt_container_rec *rec)
{
    struct rt_container *ct = bh_calloc(1, sizeof(*ct));

    ct->rt = rt;
    ct->sb = sb;
    ct->watch.pidfd = -1;
    bh_list_init(&ct->waiters);
    bh_timer_init(&ct->kill_timer, rt->loop, grace_over, ct);
    bh_timer_init(&ct->exit_timer, rt->loop, exit_due, ct);
    rt_container_set(ct, rec);
    (void)bh_map_put(&rt->containers, ct->rec.id, ct);
    bh_list_add_tail(&rt->container_list, &ct->link);
    return ct;
}

void rt_sandbox_drop(struct rt_sandbox *sb)
{
    rt_watch_stop(&sb->watch);
    (void)bh_map_del(&sb->rt->sandboxes, sb->rec.id);
    bh_list_del(&sb->link);
    bh_arena_free(sb->arena);
    bh_free(sb);
}

void rt_container_drop(struct rt_container *ct)
{
    rt_watch_stop(&ct->watch);
    bh_timer_stop(&ct->kill_timer);
    bh_timer_stop(&ct->exit_timer);
    bh_list_for_safe(it, &ct->waiters)
    {
        bh_list_del(it);
        bh_free(bh_container(it, struct rt_waiter, link));
    }
    (void)bh_map_del(&ct->rt->containers, ct->rec.id);
    bh_list_del(&ct->link);
    bh_arena_free(ct->arena);
    bh_free(ct);
}

void rt_emit(struct rt *rt, enum bh_cri_event_type t, const struct rt_sandbox *sb,
             struct bh_str container_id)
{
    struct bh_cri_event ev = {t, sb->rec.id, container_id, sb->rec.config.uid};

    if (rt->ev && !rt->closing)
        rt->ev(rt->ev_arg, &ev);
}

/* ---- answers from memory ---- */

static struct bh_cri_sandbox sandbox_answer(const struct rt_sandbox *sb)
{
    const struct bh_cri_sandbox_config *c = &sb->rec.config;
    bool ready = sb->rec.phase == BH_RT_RUNNING;

    return (struct bh_cri_sandbox){.id = sb->rec.id,
                                   .name = c->name,
                                   .ns = c->ns,
                                   .uid = c->uid,
                                   .attempt = c->attempt,
                                   .state = ready ? BH_CRI_SANDBOX_READY : BH_CRI_SANDBOX_NOTREADY,
                                   .created_ns = sb->rec.created_ns,
                                   .pid = ready ? (int)sb->rec.pid : 0,
                                   .host_network = c->host_network,
                                   .labels = c->labels,
                                   .annotations = c->annotations};
}

static struct bh_cri_container container_answer(const struct rt_container *ct)
{
    const struct bh_rt_container_rec *r = &ct->rec;
    static const enum bh_cri_container_state states[] = {
        [BH_RT_CREATING] = BH_CRI_CREATED, [BH_RT_CREATED] = BH_CRI_CREATED,
        [BH_RT_STARTING] = BH_CRI_CREATED, [BH_RT_RUNNING] = BH_CRI_RUNNING,
        [BH_RT_EXITED] = BH_CRI_EXITED,    [BH_RT_REMOVING] = BH_CRI_EXITED};

    bh_assert(r->phase < BH_COUNT(states));
    return (struct bh_cri_container){.id = r->id,
                                     .sandbox_id = r->sandbox_id,
                                     .name = r->config.name,
                                     .attempt = r->config.attempt,
                                     .state = states[r->phase],
                                     .created_ns = r->created_ns,
                                     .started_ns = r->started_ns,
                                     .finished_ns = r->finished_ns,
                                     .pid = rt_alive(ct) ? (int)r->pid : 0,
                                     .exit_code = (int)r->exit_code,
                                     .reason = r->reason,
                                     .message = r->message,
                                     .image = r->config.image,
                                     .user_image = r->config.user_image,
                                     .image_id = r->image_id,
                                     .image_ref = r->image_ref,
                                     .log_path = r->log_path,
                                     .labels = r->config.labels,
                                     .annotations = r->config.annotations,
                                     .mounts = r->config.mounts,
                                     .resources = r->config.resources,
                                     .uid = r->uid,
                                     .gid = r->gid};
}

/* Filled when it is delivered, so that the answer is true at that moment and may point into the
 * records. */
static void sandboxes_complete(struct rt_op *op)
{
    bh_cri_sandboxes_fn fn = (bh_cri_sandboxes_fn)op->done;
    struct bh_cri_sandbox_vec v = {
        bh_new_n(op->arena, struct bh_cri_sandbox, op->rt->sandboxes.n + 1), 0};

    bh_list_for(it, &op->rt->sandbox_list)
    {
        const struct rt_sandbox *sb = bh_container(it, struct rt_sandbox, link);

        if (op->id.n == 0 || bh_str_eq(op->id, sb->rec.id))
            v.p[v.n++] = sandbox_answer(sb);
    }
    if (op->id.n > 0 && v.n == 0)
        op->rc =
            bh_err_set(&op->err, BH_E_NOT_FOUND, "pod sandbox \"%.*s\" not found", BH_SF(op->id));
    fn(op->arg, op->rc < 0 ? &op->err : NULL, &v);
    rt_op_free(op);
}

static void sandbox_list(struct bh_runtime *b, struct bh_str id, bh_cri_sandboxes_fn done,
                         void *arg)
{
    struct rt_op *op = rt_op_new(rt_of(b), (void (*)(void))done, arg);

    op->id = bh_str_dup(op->arena, id);
    op->complete = sandboxes_complete;
    rt_op_run(op);
}

static void containers_complete(struct rt_op *op)
{
    bh_cri_containers_fn fn = (bh_cri_containers_fn)op->done;
    struct bh_cri_container_vec v = {
        bh_new_n(op->arena, struct bh_cri_container, op->rt->containers.n + 1), 0};
    struct bh_str sandbox = op->text;

    bh_list_for(it, &op->rt->container_list)
    {
        const struct rt_container *ct = bh_container(it, struct rt_container, link);

        if ((op->id.n == 0 || bh_str_eq(op->id, ct->rec.id)) &&
            (sandbox.n == 0 || bh_str_eq(sandbox, ct->rec.sandbox_id)))
            v.p[v.n++] = container_answer(ct);
    }
    if (op->id.n > 0 && v.n == 0)
        op->rc =
            bh_err_set(&op->err, BH_E_NOT_FOUND, "container \"%.*s\" not found", BH_SF(op->id));
    fn(op->arg, op->rc < 0 ? &op->err : NULL, &v);
    rt_op_free(op);
}

static void container_list(struct bh_runtime *b, struct bh_str sandbox_id, struct bh_str id,
                           bh_cri_containers_fn done, void *arg)
{
    struct rt_op *op = rt_op_new(rt_of(b), (void (*)(void))done, arg);

    op->id = bh_str_dup(op->arena, id);
    op->text = bh_str_dup(op->arena, sandbox_id);
    op->complete = containers_complete;
    rt_op_run(op);
}

static void status_complete(struct rt_op *op)
{
    bh_cri_status_fn fn = (bh_cri_status_fn)op->done;
    const struct rt *rt = op->rt;
    struct bh_cri_status s = {.runtime_ready = true, .network_ready = true};

    if (rt->crun[0] == '\0' || rt->conmon[0] == '\0') {
        s.runtime_ready = false;
        s.runtime_reason =
            rt->crun[0] == '\0' ? BH_S("crun is not installed") : BH_S("conmon is not installed");
    }
    fn(op->arg, NULL, &s);
    rt_op_free(op);
}

static void status(struct bh_runtime *b, bh_cri_status_fn done, void *arg)
{
    struct rt_op *op = rt_op_new(rt_of(b), (void (*)(void))done, arg);

    op->complete = status_complete;
    rt_op_run(op);
}

static void set_events(struct bh_runtime *b, bh_cri_event_fn fn, void *arg)
{
    rt_of(b)->ev = fn;
    rt_of(b)->ev_arg = arg;
}

/* ---- life ---- */

void rt_unref(struct rt *rt)
{
    if (--rt->refs > 0)
        return;
    bh_map_done(&rt->sandboxes);
    bh_map_done(&rt->containers);
    bh_arena_free(rt->arena);
    bh_free(rt);
}

/* What the loop holds goes now; memory that workers still look at goes with the last operation. */
static void embedded_free(struct bh_runtime *b)
{
    struct rt *rt = rt_of(b);

    rt->closing = true;
    bh_list_for_safe(it, &rt->container_list)
        rt_container_drop(bh_container(it, struct rt_container, link));
    bh_list_for_safe(it, &rt->sandbox_list)
        rt_sandbox_drop(bh_container(it, struct rt_sandbox, link));
    rt->inotify_io = bh_io_free(rt->inotify_io);
    bh_close_p(&rt->inotify_fd);
    bh_close_p(&rt->lock_fd);
    rt->inotify_fd = rt->lock_fd = -1;
    bh_list_for_safe(it, &rt->ops)
    {
        struct rt_op *op = bh_container(it, struct rt_op, link);

        if (op->parked)
            rt_op_free(op);
    }
    rt_unref(rt);
}

static const struct bh_runtime_ops embedded_ops = {.name = "bulkhead",
                                                   .version = "0.1.0",
                                                   .free = embedded_free,
                                                   .set_events = set_events,
                                                   .status = status,
                                                   .sandbox_run = rt_sandbox_run,
                                                   .sandbox_stop = rt_sandbox_stop,
                                                   .sandbox_remove = rt_sandbox_remove,
                                                   .sandbox_list = sandbox_list,
                                                   .container_create = rt_container_create,
                                                   .container_start = rt_container_start,
                                                   .container_stop = rt_container_stop,
                                                   .container_remove = rt_container_remove,
                                                   .container_list = container_list,
                                                   .container_update = rt_container_update,
                                                   .container_reopen_log = rt_container_reopen_log,
                                                   .container_stats = rt_container_stats,
                                                   .exec_sync = rt_exec_sync,
                                                   .image_list = rt_image_list,
                                                   .image_status = rt_image_status,
                                                   .image_pull = rt_image_pull,
                                                   .image_remove = rt_image_remove,
                                                   .image_fs_info = rt_image_fs_info};

const char *bh_runtime_cgroup_root(const struct bh_runtime *b)
{
    bh_assert(b->ops == &embedded_ops);
    return ((const struct rt *)(const void *)b)->cg_root; /* base is the first member */
}

/* The pause program's root file system: itself, and the directories that the runtime mounts on. */
static int write_pause(struct rt *rt, struct bh_err *err)
{
    static const char *const dirs[] = {"pause/proc", "pause/dev", "pause/sys"};
    char path[PATH_MAX];
    int r = 0;

    for (size_t i = 0; r == 0 && i < BH_COUNT(dirs); i++) {
        r = bh_path(path, sizeof(path), err, "%s/%s", rt->dir, dirs[i]);
        if (r == 0)
            r = bh_fs_mkdir_p(path, 0755, err);
    }
    if (r == 0)
        r = bh_path(path, sizeof(path), err, "%s/pause/pause", rt->dir);
    /* Replaced by rename: running sandboxes keep the file they have. */
    return r < 0 ? r
                 : bh_fs_write_atomic(
                       path,
                       (struct bh_str){(const char *)bh_pause_program, sizeof(bh_pause_program)},
                       0755, err);
}

static int make_dirs(struct rt *rt, struct bh_err *err)
{
    static const char *const dirs[] = {"sandboxes", "containers", "exits",
                                       "crun",      "quarantine", "images"};
    char path[PATH_MAX];
    int r = bh_fs_mkdir_p(rt->dir, 0711, err);

    for (size_t i = 0; r == 0 && i < BH_COUNT(dirs); i++) {
        r = bh_path(path, sizeof(path), err, "%s/%s", rt->dir, dirs[i]);
        if (r == 0)
            r = bh_fs_mkdir_p(path, 0711, err);
    }
    if (r == 0)
        r = bh_path(path, sizeof(path), err, "%s/lock", rt->dir);
    return r < 0 ? r : bh_fs_lock(path, &rt->lock_fd, err);
}

static void copy_cdi_dirs(struct rt *rt, const struct bh_runtime_opts *o)
{
    size_t n = 0;
    const char **v;

    while (o->cdi_dirs && o->cdi_dirs[n])
        n++;
    v = bh_new_n(rt->arena, const char *, n + 2);
    for (size_t i = 0; i < n; i++)
        v[i] = bh_str_dup(rt->arena, bh_s(o->cdi_dirs[i])).p;
    if (n == 0)
        v[0] = bh_str_fmt(rt->arena, "%s/cdi", o->data_dir).p;
    rt->cdi_dirs = v;
}

static struct rt *new_rt(const struct bh_runtime_opts *o)
{
    struct rt *rt = bh_calloc(1, sizeof(*rt));

    rt->base.ops = &embedded_ops;
    rt->loop = o->loop;
    rt->arena = bh_arena_new(0);
    rt->lock_fd = rt->inotify_fd = -1;
    rt->refs = 1;
    bh_list_init(&rt->ops);
    bh_list_init(&rt->sandbox_list);
    bh_list_init(&rt->container_list);
    copy_cdi_dirs(rt, o);
    return rt;
}

int bh_runtime_embedded_new(const struct bh_runtime_opts *o, struct bh_runtime **ret,
                            struct bh_err *err)
{
    struct rt *rt = new_rt(o);
    int r = rt_common_init(rt, o, err);

    if (r == 0)
        r = make_dirs(rt, err);
    if (r == 0)
        r = write_pause(rt, err);
    /* Watch before looking, so that nothing ends unseen in between. */
    if (r == 0)
        r = rt_exit_init(rt, err);
    if (r == 0)
        r = rt_adopt(rt, err);
    if (r < 0) {
        embedded_free(&rt->base);
        return bh_err_wrap(err, "container runtime");
    }
    *ret = &rt->base;
    return 0;
}

int bh_runtime_purge(const struct bh_runtime_opts *o, struct bh_err *err)
{
    static const char *const dirs[] = {"sandboxes", "containers", "exits", "crun", "quarantine"};
    struct rt *rt = new_rt(o);
    char path[PATH_MAX];
    int r = rt_common_init(rt, o, err);

    if (r == 0)
        r = make_dirs(rt, err);
    if (r == 0) {
        /* Everything of this runtime lives below its own control group, the monitors included. */
        bh_cg_kill(&rt->cg, rt->cg_root, 10000);
        rt_unmount_under(rt->dir);
        bh_cg_remove(&rt->cg, rt->cg_root);
        if (!o->cgroup_parent)
            bh_cg_remove_one(&rt->cg, "/bulkhead");
    }
    for (size_t i = 0; r == 0 && i < BH_COUNT(dirs); i++) {
        r = bh_path(path, sizeof(path), err, "%s/%s", rt->dir, dirs[i]);
        if (r == 0)
            r = bh_fs_remove_tree(path, err);
    }
    embedded_free(&rt->base);
    return r;
}
