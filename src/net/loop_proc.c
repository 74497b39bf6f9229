/* Child processes of a real loop.
 *
 * The child is made by clone(CLONE_VM | CLONE_VFORK) with a stack of its own, as posix_spawn does,
 * because posix_spawn cannot set PR_SET_PDEATHSIG: this thread stands still until the child has
 * called execve, other threads go on, and no lock of theirs can be found held, since the child
 * calls nothing but system calls. The child is held by a pidfd, so no SIGCHLD handler is needed and
 * a number is never reused under us.
 */
#include "net/loop_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"

#define CHILD_STACK   ((size_t)64 << 10)
#define EXTRA_FDS_MAX 64
/* A grandchild may keep the pipes open; the result waits for it no longer than this after the
 * child's end. */
#define PIPE_GRACE_MS 2000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NO_SANITIZE __attribute__((no_sanitize("address", "thread", "undefined")))
#else
#define NO_SANITIZE
#endif

struct out_pipe {
    struct bh_proc *proc;
    struct bh_io *io;
    int fd;
    struct bh_buf buf;
};

struct bh_proc {
    struct bh_loop *loop;
    bh_proc_fn done;
    void *arg;
    pid_t pid;
    int pidfd;
    struct bh_io *pid_io;
    struct out_pipe out[2];
    struct bh_timer timer; /* the timeout, then the grace for the pipes */
    struct bh_proc_result res;
    bool group;
    bool exited;
};

/* What the child needs; it lives on the parent's stack while the parent waits. */
struct launch {
    const char *path;
    char *const *argv;
    char *const *env;
    const char *cwd;
    int src[3 + EXTRA_FDS_MAX];
    int n;
    pid_t parent;
    bool new_group, die_with_parent;
    int error; /* written by the child */
};

/* Layout of the kernel's own struct; all zero means SIG_DFL. */
struct kernel_sigaction {
    unsigned long handler, flags, restorer, mask[1];
};

/* Runs in the parent's memory: system calls only, by number, so that no interceptor or handler of
 * the parent sees them. */
NO_SANITIZE static int child_main(void *arg)
{
    struct launch *la = arg;
    struct kernel_sigaction dfl = {0};
    unsigned long none = 0;
    long r = 0;

    for (int sig = 1; sig < 65; sig++)
        (void)syscall(SYS_rt_sigaction, sig, &dfl, NULL, sizeof(none));
    if (la->new_group && syscall(SYS_setpgid, 0, 0) < 0)
        goto fail;
    if (la->die_with_parent) {
        if (syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
            goto fail;
        if (syscall(SYS_getppid) != la->parent) /* it died before the line above */
            syscall(SYS_exit_group, 127);
    }
    /* First out of the way of every target, then into place: sources and targets may overlap. */
    for (int i = 0; i < la->n; i++) {
        r = syscall(SYS_fcntl, la->src[i], F_DUPFD, la->n);
        if (r < 0)
            goto fail;
        la->src[i] = (int)r;
    }
    for (int i = 0; i < la->n; i++)
        if (syscall(SYS_dup3, la->src[i], i, 0) < 0)
            goto fail;
    if (syscall(SYS_close_range, la->n, ~0u, 0) < 0)
        goto fail;
    if (la->cwd && syscall(SYS_chdir, la->cwd) < 0)
        goto fail;
    if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none)) < 0)
        goto fail;
    (void)syscall(SYS_execve, la->path, la->argv, la->env);
fail:
    la->error = errno;
    syscall(SYS_exit_group, 127);
    return 127;
}

/* Finds the program as execvp would, here and not in the child. */
static int find_program(const char *file, char *buf, size_t n, struct bh_err *err)
{
    struct bh_str path, dir;

    if (strchr(file, '/'))
        return bh_path(buf, n, err, "%s", file);
    path = bh_s(getenv("PATH"));
    if (path.n == 0)
        path = BH_S("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    while (path.p) {
        dir = bh_str_cut(&path, ':');
        if (dir.n > 0 && bh_path(buf, n, NULL, "%.*s/%s", BH_SF(dir), file) == 0 &&
            access(buf, X_OK) == 0)
            return 0;
    }
    return bh_err_set(err, BH_E_NOT_FOUND, "program '%s' is not in PATH", file);
}

static int launch(struct launch *la, pid_t *ret_pid, int *ret_pidfd, struct bh_err *err)
{
    char *stack = mmap(NULL, CHILD_STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    sigset_t all, old;
    int pid, e;

    if (stack == MAP_FAILED)
        return bh_err_sys(err, errno, "start '%s': stack", la->path);
    /* No handler of ours may run in the child, which shares our memory. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &old);
    pid = clone(child_main, stack + CHILD_STACK, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, la,
                ret_pidfd);
    e = errno;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)munmap(stack, CHILD_STACK);
    if (pid < 0)
        return bh_err_sys(err, e, "start '%s'", la->path);
    if (la->error) {
        (void)waitpid(pid, NULL, 0);
        (void)close(*ret_pidfd);
        if (la->error == ENOENT)
            return bh_err_set(err, BH_E_NOT_FOUND, "start '%s': no such file", la->path);
        return bh_err_sys(err, la->error, "start '%s'", la->path);
    }
    *ret_pid = pid;
    return 0;
}

static void maybe_done(struct bh_proc *p, bool force)
{
    if (!p->exited || (!force && (p->out[0].io || p->out[1].io)))
        return;
    bh_timer_stop(&p->timer);
    for (int i = 0; i < 2; i++) {
        p->out[i].io = bh_io_free(p->out[i].io);
        bh_close_p(&p->out[i].fd);
        p->out[i].fd = -1;
    }
    p->res.out = bh_buf_str(&p->out[0].buf);
    p->res.err = bh_buf_str(&p->out[1].buf);
    if (p->done)
        p->done(p->arg, &p->res);
    bh_buf_done(&p->out[0].buf);
    bh_buf_done(&p->out[1].buf);
    bh_free(p);
}

static void on_output(void *arg, unsigned events)
{
    struct out_pipe *o = arg;
    char *scratch = o->proc->loop->scratch;

    (void)events;
    for (int turn = 0; turn < 16; turn++) {
        ssize_t r = read(o->fd, scratch, BH_LOOP_SCRATCH);

        if (r > 0) {
            size_t room = o->buf.max - o->buf.n;

            bh_buf_add(&o->buf, scratch, (size_t)r < room ? (size_t)r : room);
            continue;
        }
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0 && errno == EAGAIN)
            return;
        o->io = bh_io_free(o->io);
        bh_close_p(&o->fd);
        o->fd = -1;
        maybe_done(o->proc, false);
        return;
    }
}

static void on_exit_ready(void *arg, unsigned events)
{
    struct bh_proc *p = arg;
    siginfo_t si = {0};

    (void)events;
    if (waitid(P_PIDFD, (id_t)p->pidfd, &si, WEXITED | WNOHANG) == 0 && si.si_pid == 0)
        return;
    p->pid_io = bh_io_free(p->pid_io);
    bh_close_p(&p->pidfd);
    p->pidfd = -1;
    p->exited = true;
    if (si.si_code == CLD_EXITED) {
        p->res.exit_code = si.si_status;
    } else {
        p->res.exit_code = -1;
        p->res.signal = si.si_status;
    }
    bh_timer_start(&p->timer, PIPE_GRACE_MS);
    maybe_done(p, false);
}

static void on_proc_timer(void *arg)
{
    struct bh_proc *p = arg;

    if (p->exited) {
        maybe_done(p, true);
        return;
    }
    p->res.timed_out = true;
    bh_proc_kill(p, SIGKILL);
}

int bh_proc_pid(const struct bh_proc *p)
{
    return (int)p->pid;
}

void bh_proc_kill(struct bh_proc *p, int sig)
{
    if (p->exited) /* the number may be somebody else's by now */
        return;
    if (p->group)
        (void)kill(-p->pid, sig);
    else
        (void)syscall(SYS_pidfd_send_signal, p->pidfd, sig, NULL, 0);
}

/* A file in memory serves as stdin: the child reads at its own pace and nobody can block on a full
 * pipe. */
static int open_stdin(struct bh_str data, struct bh_err *err)
{
    int fd;

    if (data.n == 0) {
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return fd < 0 ? bh_err_sys(err, errno, "open /dev/null") : fd;
    }
    fd = memfd_create("bulkhead-stdin", MFD_CLOEXEC);
    if (fd < 0)
        return bh_err_sys(err, errno, "memfd");
    if (bh_write_all(fd, data.p, data.n, err) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
        int r = err ? -(int)err->code : -BH_E_IO;

        (void)close(fd);
        return r < 0 ? r : -BH_E_IO;
    }
    return fd;
}

/* Fills ends[i] with what the child gets as 1 + i, and keep[i] with our end of a pipe, or -1. */
static int open_output(const struct bh_proc_opts *o, int ends[2], int keep[2], struct bh_err *err)
{
    const int given[2] = {o->stdout_fd, o->stderr_fd};

    for (int i = 0; i < 2; i++) {
        int pp[2];

        /* Zero is what a zeroed struct holds; standard input is no place to write to. */
        if (given[i] > 0) {
            ends[i] = fcntl(given[i], F_DUPFD_CLOEXEC, 3);
            if (ends[i] < 0)
                return bh_err_sys(err, errno, "output descriptor %d", given[i]);
        } else if (o->output_max == 0) {
            ends[i] = open("/dev/null", O_WRONLY | O_CLOEXEC);
            if (ends[i] < 0)
                return bh_err_sys(err, errno, "open /dev/null");
        } else {
            if (pipe2(pp, O_CLOEXEC) < 0)
                return bh_err_sys(err, errno, "pipe");
            (void)fcntl(pp[0], F_SETFL, O_NONBLOCK);
            keep[i] = pp[0];
            ends[i] = pp[1];
        }
    }
    return 0;
}

static void forget(struct bh_proc *p)
{
    for (int i = 0; i < 2; i++) {
        (void)bh_io_free(p->out[i].io);
        bh_close_p(&p->out[i].fd);
    }
    (void)bh_io_free(p->pid_io);
    bh_close_p(&p->pidfd);
    bh_free(p);
}

/* Watches the running child. When that fails the child is killed: a process that nobody waits for
 * must not live on. */
static int watch(struct bh_proc *p, struct bh_err *err)
{
    p->pid_io = bh_io_new(p->loop, p->pidfd, on_exit_ready, p, err);
    for (int i = 0; i < 2 && p->pid_io; i++) {
        if (p->out[i].fd < 0)
            continue;
        p->out[i].io = bh_io_new(p->loop, p->out[i].fd, on_output, &p->out[i], err);
        if (!p->out[i].io)
            break;
        bh_io_want(p->out[i].io, BH_IO_READ);
    }
    if (!p->pid_io || (p->out[0].fd >= 0 && !p->out[0].io) ||
        (p->out[1].fd >= 0 && !p->out[1].io)) {
        bh_proc_kill(p, SIGKILL);
        (void)waitpid(p->pid, NULL, 0);
        return -BH_E_IO;
    }
    bh_io_want(p->pid_io, BH_IO_READ);
    return 0;
}

static struct bh_proc *proc_new(struct bh_loop *l, const struct bh_proc_opts *o, bh_proc_fn done,
                                void *arg)
{
    struct bh_proc *p = bh_calloc(1, sizeof(*p));

    p->loop = l;
    p->done = done;
    p->arg = arg;
    p->pidfd = -1;
    p->group = o->new_group;
    for (int i = 0; i < 2; i++) {
        p->out[i].proc = p;
        p->out[i].fd = -1;
        bh_buf_init(&p->out[i].buf, o->output_max ? o->output_max : 1);
    }
    bh_timer_init(&p->timer, l, on_proc_timer, p);
    return p;
}

int bh_proc_spawn(struct bh_loop *l, const struct bh_proc_opts *o, bh_proc_fn done, void *arg,
                  struct bh_proc **ret, struct bh_err *err)
{
    char path[PATH_MAX];
    struct launch la = {.path = path,
                        .cwd = o->cwd,
                        .parent = getpid(),
                        .new_group = o->new_group,
                        .die_with_parent = o->die_with_parent};
    int ends[3] = {-1, -1, -1}, keep[2] = {-1, -1};
    struct bh_proc *p;
    int r;

    if (!l->real)
        return bh_err_set(err, BH_E_UNSUPPORTED, "a virtual loop has no processes");
    if (o->extra_fds_n > EXTRA_FDS_MAX)
        return bh_err_set(err, BH_E_LIMIT, "start '%s': too many descriptors", o->file);
    r = find_program(o->file, path, sizeof(path), err);
    if (r < 0)
        return r;
    /* execve does not change what it is given; its prototype is older than const. */
    memcpy(&la.argv, &o->argv, sizeof(la.argv));
    if (o->env)
        memcpy(&la.env, &o->env, sizeof(la.env));
    else
        la.env = environ;
    p = proc_new(l, o, done, arg);
    r = ends[0] = open_stdin(o->stdin_data, err);
    if (r >= 0)
        r = open_output(o, &ends[1], keep, err);
    p->out[0].fd = keep[0];
    p->out[1].fd = keep[1];
    if (r >= 0) {
        for (int i = 0; i < 3; i++)
            la.src[la.n++] = ends[i];
        for (size_t i = 0; i < o->extra_fds_n; i++)
            la.src[la.n++] = o->extra_fds[i];
        r = launch(&la, &p->pid, &p->pidfd, err);
    }
    for (int i = 0; i < 3; i++)
        bh_close_p(&ends[i]);
    if (r >= 0)
        r = watch(p, err);
    if (r < 0) {
        forget(p);
        return r;
    }
    if (o->timeout_ms > 0)
        bh_timer_start(&p->timer, o->timeout_ms);
    if (ret)
        *ret = p;
    return 0;
}
