/* Signals through signalfd. */
#include "net/signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/arena.h"
#include "net/loop.h"

struct bh_signals {
    int fd;
    struct bh_io *io;
    void (*fn)(void *arg, int signal);
    void *arg;
    int seen;
};

static void both(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
}

void bh_signals_block(void)
{
    sigset_t set;

    both(&set);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void readable(void *arg, unsigned events)
{
    struct bh_signals *s = arg;
    struct signalfd_siginfo si;

    (void)events;
    if (read(s->fd, &si, sizeof(si)) != (ssize_t)sizeof(si))
        return;
    if (s->seen++)
        _exit(128 + (int)si.ssi_signo);
    s->fn(s->arg, (int)si.ssi_signo);
}

struct bh_signals *bh_signals_new(struct bh_loop *l, void (*fn)(void *arg, int signal), void *arg,
                                  struct bh_err *err)
{
    struct bh_signals *s = bh_calloc(1, sizeof(*s));
    sigset_t set;

    both(&set);
    s->fn = fn;
    s->arg = arg;
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0) {
        (void)bh_err_sys(err, errno, "signalfd");
        return bh_signals_free(s);
    }
    s->io = bh_io_new(l, s->fd, readable, s, err);
    if (!s->io)
        return bh_signals_free(s);
    bh_io_want(s->io, BH_IO_READ);
    return s;
}

struct bh_signals *bh_signals_free(struct bh_signals *s)
{
    if (!s)
        return NULL;
    (void)bh_io_free(s->io);
    if (s->fd >= 0)
        (void)close(s->fd);
    bh_free(s);
    return NULL;
}
