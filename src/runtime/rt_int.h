/* Inside the embedded runtime. All state belongs to the loop's thread; an operation hands copies of
 * what it needs to the worker pool and takes results back. See README.md for the life of an
 * operation.
 */
#ifndef BH_RUNTIME_RT_INT_H
#define BH_RUNTIME_RT_INT_H

#include "base/list.h"
#include "base/map.h"
#include "net/loop.h"
#include "runtime/cgroup.h"
#include "runtime/rt_record.h"
#include "runtime/runtime.h"

#include <limits.h>

#define RT_ID_LEN 64
#define RT_EXEC_OUT_MAX                                                                            \
    ((size_t)16 << 20)                      /* bytes of each stream of exec_sync: upstream's limit \
                                             */
#define RT_HELPER_MS      120000            /* no call of crun or conmon takes longer */
#define RT_RECORD_MAX     ((size_t)4 << 20) /* bytes of one record */
#define RT_CONTAINERS_MAX 10000 /* containers and sandboxes of one node, dead ones included */

struct rt;
struct rt_op;

/* A process that is watched: its number is only trusted together with its start time. */
struct rt_watch {
    int pidfd;
    struct bh_io *io;
};

struct rt_sandbox {
    struct bh_link link;
    struct rt *rt;
    struct bh_arena *arena; /* holds rec */
    struct bh_rt_sandbox_rec rec;
    struct rt_watch watch;
    bool busy;
    int creating;           /* containers being created in it */
    struct rt_op *stopping; /* waits for the containers to exit */
};

struct rt_waiter {
    struct bh_link link;
    bh_cri_done_fn done;
    void *arg;
};

struct rt_container {
    struct bh_link link;
    struct rt *rt;
    struct bh_arena *arena; /* holds rec; replaced whole by rt_container_set() */
    struct bh_rt_container_rec rec;
    struct rt_sandbox *sb;
    struct rt_watch watch;
    bool busy;                  /* a create, start, update or remove is under way */
    bool exiting;               /* its end is being recorded */
    bool exit_seen;             /* ended while busy */
    struct bh_timer kill_timer; /* the grace of a stop */
    struct bh_timer exit_timer; /* the process is gone, conmon's word still missing */
    struct bh_link waiters;     /* of stop */
};

struct rt {
    struct bh_runtime base; /* first */
    struct bh_loop *loop;
    char dir[PATH_MAX / 2]; /* DATA/runtime */
    char images[PATH_MAX / 2 + 16];
    char helper[PATH_MAX];
    char crun[PATH_MAX], conmon[PATH_MAX];
    char cg_root[128];
    const char *const *cdi_dirs;
    struct bh_cg cg;
    char boot_id[40];
    int64_t oom_floor;
    uint64_t caps_bound;
    struct bh_arena *arena;
    struct bh_map sandboxes, containers;         /* by id */
    struct bh_link sandbox_list, container_list; /* oldest first */
    bh_cri_event_fn ev;
    void *ev_arg;
    int lock_fd, inotify_fd;
    struct bh_io *inotify_io;
    bool closing;
    int refs;           /* operations under way, and one for the owner */
    struct bh_link ops; /* every operation */
};

/* An operation: prepare (worker) → helper process, if argv was set → finish (worker, always) →
 * complete (loop). A failure sets rc; later steps still run and look at it. */
struct rt_op {
    struct bh_link link; /* in rt->ops */
    bool parked;         /* waits for something on the loop: freed with the runtime */
    struct rt *rt;
    struct bh_arena *arena;
    struct rt_sandbox *sb;
    struct rt_container *ct;
    void (*prepare)(struct rt_op *op);
    void (*finish)(struct rt_op *op);
    void (*complete)(struct rt_op *op);
    const char **argv; /* of the helper, NULL-terminated; set by prepare or before */
    size_t argc, argv_cap;
    size_t out_max;
    int timeout_ms;
    const char *log; /* crun's own log, for its error text */

    int exit_code;
    bool timed_out, ran;
    struct bh_str out, errout;

    int rc;
    struct bh_err err;

    /* What the caller wants to know. */
    void (*done)(void);
    void *arg;

    /* Of the single operations. */
    struct bh_str id;
    struct bh_rt_sandbox_rec srec;
    struct bh_rt_container_rec crec;
    struct bh_str text; /* encoded request */
    int sandbox_pid, target_pid;
    bool force, retry;
    int pending;
    struct bh_str_vec paths, cmd;
    struct bh_cri_resources res;
    void *result;
};

/* rt_op.c */
struct rt_op *rt_op_new(struct rt *rt, void (*done)(void), void *arg);
void rt_op_run(struct rt_op *op);
void rt_op_free(struct rt_op *op);
/* Fails an operation that was not started: complete runs deferred. */
void rt_op_fail(struct rt_op *op, enum bh_code c, const char *fmt, ...) BH_PRINTF(3, 4);
void rt_arg(struct rt_op *op, const char *s);
void rt_argf(struct rt_op *op, const char *fmt, ...) BH_PRINTF(2, 3);
/* Begins argv: helper, options (NULL-terminated, may be NULL), "--", crun with its own options. */
void rt_arg_crun(struct rt_op *op, const char *log, bool null_stdio);
const char *rt_pathf(struct rt_op *op, const char *fmt, ...) BH_PRINTF(2, 3); /* in op's arena */
void rt_unref(struct rt *rt);
void rt_cb_done(struct rt_op *op); /* calls a bh_cri_done_fn */
void rt_cb_id(struct rt_op *op);   /* calls a bh_cri_id_fn with op->id */

/* rt_proc.c: blocking helpers, for workers and start-up */
BH_MUST int rt_save(const char *dir, const char *kind, struct bh_str id, struct bh_str text,
                    struct bh_err *err);
BH_MUST int rt_helper_blocking(const char *const *argv, struct bh_err *err);
/* crun delete --force */
void rt_crun_delete(const struct rt *rt, struct bh_str id);
int64_t rt_pid_start(
    int64_t pid); /* clock ticks, -1 when there is no such process; a zombie counts as gone */
bool rt_pid_is(int64_t pid, int64_t start);
BH_MUST int rt_read_pid(const char *path, int64_t *ret, struct bh_err *err);
int rt_pidfd(int64_t pid, int64_t start); /* -1 when it is not that process any more */
int64_t rt_now_ns(void);
void rt_unmount_under(const char *dir);
/* Removes everything of a sandbox or container but its record's directory last. */
void rt_sandbox_wipe(const struct rt *rt, struct bh_str id, struct bh_str cgroup);
void rt_container_wipe(const struct rt *rt, struct bh_str id, struct bh_str cgroup,
                       int64_t conmon_pid);
BH_MUST int rt_common_init(struct rt *rt, const struct bh_runtime_opts *o, struct bh_err *err);

/* rt_sandbox.c */
void rt_sandbox_run(struct bh_runtime *b, const struct bh_cri_sandbox_config *c, bh_cri_id_fn done,
                    void *arg);
void rt_sandbox_stop(struct bh_runtime *b, struct bh_str id, bh_cri_done_fn done, void *arg);
void rt_sandbox_remove(struct bh_runtime *b, struct bh_str id, bh_cri_done_fn done, void *arg);
void rt_sandbox_maybe_stopped(struct rt_sandbox *sb);

/* rt_container.c */
void rt_container_create(struct bh_runtime *b, struct bh_str sandbox_id,
                         const struct bh_cri_container_config *c, bh_cri_id_fn done, void *arg);
void rt_container_start(struct bh_runtime *b, struct bh_str id, bh_cri_done_fn done, void *arg);
void rt_container_stop(struct bh_runtime *b, struct bh_str id, int64_t grace_s, bh_cri_done_fn done,
                       void *arg);
void rt_container_remove(struct bh_runtime *b, struct bh_str id, bh_cri_done_fn done, void *arg);
void rt_container_update(struct bh_runtime *b, struct bh_str id, const struct bh_cri_resources *r,
                         bh_cri_done_fn done, void *arg);
void rt_container_reopen_log(struct bh_runtime *b, struct bh_str id, bh_cri_done_fn done,
                             void *arg);

/* rt_create.c: the worker's side of container_create */
void rt_create_prepare(struct rt_op *op);
void rt_create_finish(struct rt_op *op);

/* rt_exit.c */
BH_MUST int rt_exit_init(struct rt *rt, struct bh_err *err);
void rt_exit_check(struct rt_container *ct); /* its process may have ended */
bool rt_alive(const struct rt_container *ct);
void rt_watch_container(struct rt_container *ct);
void rt_watch_sandbox(struct rt_sandbox *sb);
void rt_watch_stop(struct rt_watch *w);
void rt_kill(struct rt_container *ct, int sig);

/* rt_exec.c */
void rt_exec_sync(struct bh_runtime *b, struct bh_str id, const struct bh_str_vec *cmd,
                  int timeout_ms, bh_cri_exec_fn done, void *arg);
void rt_container_stats(struct bh_runtime *b, struct bh_str id, bh_cri_stats_fn done, void *arg);

/* rt_image.c */
void rt_image_list(struct bh_runtime *b, bh_cri_images_fn done, void *arg);
void rt_image_status(struct bh_runtime *b, struct bh_str name, bh_cri_image_fn done, void *arg);
void rt_image_pull(struct bh_runtime *b, struct bh_str name, bh_cri_id_fn done, void *arg);
void rt_image_remove(struct bh_runtime *b, struct bh_str name, bh_cri_done_fn done, void *arg);
void rt_image_fs_info(struct bh_runtime *b, bh_cri_fs_info_fn done, void *arg);

/* rt_adopt.c */
BH_MUST int rt_adopt(struct rt *rt, struct bh_err *err);

/* embedded.c */
struct rt *rt_of(struct bh_runtime *b);
struct rt_sandbox *rt_find_sandbox(struct rt *rt, struct bh_str id);
struct rt_container *rt_find_container(struct rt *rt, struct bh_str id);
struct rt_sandbox *rt_sandbox_add(struct rt *rt, const struct bh_rt_sandbox_rec *rec);
struct rt_container *rt_container_add(struct rt *rt, struct rt_sandbox *sb,
                                      const struct bh_rt_container_rec *rec);
void rt_sandbox_set(struct rt_sandbox *sb, const struct bh_rt_sandbox_rec *rec); /* copies */
void rt_container_set(struct rt_container *ct, const struct bh_rt_container_rec *rec);
void rt_sandbox_drop(struct rt_sandbox *sb);
void rt_container_drop(struct rt_container *ct);
void rt_emit(struct rt *rt, enum bh_cri_event_type t, const struct rt_sandbox *sb,
             struct bh_str container_id);
void rt_new_id(struct rt *rt, struct bh_arena *a, struct bh_str *ret);

#endif
