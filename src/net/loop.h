/* The loop: time, timers, deferred calls, blocking work, randomness, descriptors and child
 * processes.
 *
 * A component lives on one loop and takes everything that is not pure from it. Two implementations:
 * real (libuv) and virtual (simulated time, one seed decides everything; descriptors and processes
 * are refused). Component code cannot tell them apart. All functions are for the loop's own thread
 * unless they say otherwise.
 */
#ifndef BH_NET_LOOP_H
#define BH_NET_LOOP_H

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"

struct bh_loop;

typedef void (*bh_loop_fn)(void *arg);

struct bh_loop *bh_loop_new_real(struct bh_err *err); /* NULL on failure */
/* wall_start_ns: the simulated wall clock's start (Unix time). */
struct bh_loop *bh_loop_new_virtual(uint64_t seed, int64_t wall_start_ns);
struct bh_loop *bh_loop_free(struct bh_loop *l);
bool bh_loop_is_virtual(const struct bh_loop *l);

void bh_loop_run(
    struct bh_loop *l); /* until bh_loop_stop(); virtual: also when nothing is left to do */
void bh_loop_stop(struct bh_loop *l); /* any thread */
/* Virtual loop only: runs everything that is due within the next ns of simulated time, then
 * returns. */
void bh_loop_advance(struct bh_loop *l, int64_t ns);

int64_t bh_loop_mono_ns(const struct bh_loop *l); /* monotonic, cached per iteration */
int64_t bh_loop_wall_ns(const struct bh_loop *l); /* Unix time in ns, read fresh */
uint64_t bh_loop_random(struct bh_loop *l);
void bh_loop_random_bytes(struct bh_loop *l, void *p, size_t n);
/* A version 4 UUID in lower case, 36 characters and a NUL. */
void bh_loop_uuid(struct bh_loop *l, char ret[37]);

/* Timers are embedded by their owner, who keeps them alive while armed. One shot; the callback may
 * start it again. */
struct bh_timer {
    struct bh_loop *loop;
    bh_loop_fn fn;
    void *arg;
    int64_t at_ns;  /* monotonic */
    uint64_t seq;   /* ties go first come, first served */
    size_t heap_at; /* index + 1 in the loop's heap; 0: not armed */
};
void bh_timer_init(struct bh_timer *t, struct bh_loop *l, bh_loop_fn fn, void *arg);
void bh_timer_start_ns(struct bh_timer *t, int64_t delay_ns); /* restarts if armed */
void bh_timer_start(struct bh_timer *t, int64_t delay_ms);
void bh_timer_stop(struct bh_timer *t); /* harmless when not armed */
bool bh_timer_armed(const struct bh_timer *t);

/* Runs fn after the current callback returns, before the loop sleeps; first in, first out. */
void bh_loop_defer(struct bh_loop *l, bh_loop_fn fn, void *arg);
/* The same from any thread. */
void bh_loop_post(struct bh_loop *l, bh_loop_fn fn, void *arg);
/* Runs work(arg) on the worker pool and then done(arg) on the loop. The virtual loop runs both
 * itself, after a simulated delay drawn from the seed. done always runs unless the loop is freed
 * first. */
void bh_loop_work(struct bh_loop *l, bh_loop_fn work, bh_loop_fn done, void *arg);
/* For owners that go before the loop: after it no call with done and arg follows. Work that has
 * begun is waited for. On the loop. */
void bh_loop_work_drop(struct bh_loop *l, bh_loop_fn done, void *arg);
/* The same for bh_loop_defer(): true when the call was still to come and will not. False: it is
 * already being run in this round, or was never queued. */
bool bh_loop_defer_drop(struct bh_loop *l, bh_loop_fn fn, void *arg);

/* Readiness of a descriptor (level triggered). Real loop only: -BH_E_UNSUPPORTED otherwise. Not for
 * files. */
enum { BH_IO_READ = 1, BH_IO_WRITE = 2 };
struct bh_io; /* opaque: freed by bh_io_free, never inside another's iteration */
typedef void (*bh_io_fn)(void *arg, unsigned events);
struct bh_io *bh_io_new(struct bh_loop *l, int fd, bh_io_fn fn, void *arg, struct bh_err *err);
void bh_io_want(struct bh_io *io, unsigned events); /* 0 pauses */
struct bh_io *bh_io_free(struct bh_io *io); /* does not close the descriptor; NULL is fine */

/* Child processes. Real loop only. The child gets only the descriptors named here, the default
 * signal dispositions, and its own process group if asked. Output is collected up to output_max
 * bytes each and the rest dropped. */
struct bh_proc_opts {
    const char *file;         /* absolute, or looked up in PATH */
    const char *const *argv;  /* NULL-terminated, argv[0] included */
    const char *const *env;   /* NULL: inherit */
    const char *cwd;          /* NULL: inherit */
    struct bh_str stdin_data; /* written to its stdin; empty: /dev/null */
    size_t output_max; /* bytes of stdout and of stderr kept; 0: both go to /dev/null unless *_fd is
                          given */
    int stdout_fd,
        stderr_fd; /* -1, or a descriptor that the child writes to (then nothing is collected) */
    const int *extra_fds; /* become 3, 4, …; may be NULL */
    size_t extra_fds_n;
    int timeout_ms;       /* 0: none; SIGKILL after it, and timed_out is set */
    bool new_group;       /* setpgid(0, 0) */
    bool die_with_parent; /* PR_SET_PDEATHSIG SIGKILL */
};
struct bh_proc_result {
    int exit_code; /* -1 when killed by a signal or not started */
    int signal;    /* 0, or the signal that ended it */
    bool timed_out;
    struct bh_str out, err; /* valid during the callback */
};
struct bh_proc;
typedef void (*bh_proc_fn)(void *arg, const struct bh_proc_result *res);
/* Starts a child; done runs once, on the loop, after it ended and its pipes closed. ret may be
 * NULL. The handle is valid until done has run. */
BH_MUST int bh_proc_spawn(struct bh_loop *l, const struct bh_proc_opts *o, bh_proc_fn done,
                          void *arg, struct bh_proc **ret, struct bh_err *err);
int bh_proc_pid(const struct bh_proc *p);
void bh_proc_kill(struct bh_proc *p, int signal);

#endif
