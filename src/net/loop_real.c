/* The real loop, on libuv: one uv_timer drives the timer heap, a prepare handle runs deferred calls
 * before the loop sleeps, an async handle wakes it for calls from other threads, and descriptors
 * are watched through uv_poll. */
#include "net/loop_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/arena.h"

struct bh_loop_real {
    struct bh_loop *loop;
    uv_loop_t uv;
    uv_timer_t timer;
    uv_prepare_t prepare;
    uv_idle_t idle; /* active while deferred calls wait: keeps the poll from sleeping */
    uv_async_t async;
    bool now_stale; /* the loop may have slept since now_ns was read */
    bool in_free;
    struct bh_workers *workers;
};

#define LONG_TURN_NS 5000000

struct bh_io {
    uv_poll_t poll;
    struct bh_loop *loop;
    bh_io_fn fn;
    void *arg;
    unsigned want;
    bool freed;
};

static void refresh(struct bh_loop *l)
{
    l->now_ns = bh_clock_mono_ns();
    l->real->now_stale = false;
}

int64_t bh_loop_mono_ns(const struct bh_loop *l)
{
    if (l->real && l->real->now_stale) {
        struct bh_loop *w = l->real->loop;

        refresh(w);
    }
    return l->now_ns;
}

int64_t bh_loop_real_late_ns(const struct bh_loop *l)
{
    int64_t turn = bh_loop_mono_ns(l), now = bh_clock_mono_ns();

    return now - turn > LONG_TURN_NS ? now : turn;
}

static void on_timer(uv_timer_t *h);

/* Rounds up, so that a timer never fires early. */
static void rearm(struct bh_loop *l)
{
    struct bh_timer *t = bh_loop_timer_first(l);
    int64_t left;

    l->timers_changed = false;
    if (!t) {
        (void)uv_timer_stop(&l->real->timer);
        return;
    }
    refresh(l);
    left = t->at_ns - l->now_ns;
    uv_update_time(&l->real->uv);
    (void)uv_timer_start(&l->real->timer, on_timer,
                         left <= 0 ? 0 : (uint64_t)(left / 1000000 + (left % 1000000 != 0)), 0);
}

static void on_timer(uv_timer_t *h)
{
    struct bh_loop *l = h->data;
    struct bh_timer *t;
    int64_t now;

    refresh(l);
    now = l->now_ns; /* timers started meanwhile wait for the next turn, or a zero delay would
                        starve I/O */
    while (!atomic_load(&l->stop) && (t = bh_loop_timer_pop(l, now)) != NULL)
        t->fn(t->arg);
    l->timers_changed = true; /* the uv timer is one-shot: start it again */
}

static void on_idle(uv_idle_t *h)
{
    (void)h;
}

static void on_prepare(uv_prepare_t *h)
{
    struct bh_loop *l = h->data;
    struct bh_loop_real *r = l->real;

    bool more = bh_loop_run_deferred(l);

    if (more && !uv_is_active((uv_handle_t *)&r->idle))
        (void)uv_idle_start(&r->idle, on_idle);
    else if (!more && uv_is_active((uv_handle_t *)&r->idle))
        (void)uv_idle_stop(&r->idle);
    if (l->timers_changed)
        rearm(l);
    if (atomic_load(&l->stop))
        uv_stop(&r->uv);
    r->now_stale = true;
}

static void on_async(uv_async_t *h)
{
    struct bh_loop *l = h->data;

    (void)bh_loop_run_posted(l);
    if (atomic_load(&l->stop))
        uv_stop(&l->real->uv);
}

struct bh_loop *bh_loop_new_real(struct bh_err *err)
{
    struct bh_loop *l = bh_calloc(1, sizeof(*l));
    struct bh_loop_real *r = bh_calloc(1, sizeof(*r));
    uint64_t seed;
    int e;

    r->loop = l;
    l->real = r;
    l->scratch = bh_malloc(BH_LOOP_SCRATCH);
    e = uv_loop_init(&r->uv);
    if (e < 0) {
        (void)bh_err_sys(err, -e, "start an event loop");
        bh_free(l->scratch);
        bh_free(r);
        bh_free(l);
        return NULL;
    }
    bh_loop_base_init(l, 0);
    bh_loop_random_bytes(l, &seed, sizeof(seed));
    bh_loop_random_bytes(l, l->rng, sizeof(l->rng));
    l->rng[0] |= 1; /* the all-zero state is the one that must not be */
    (void)uv_timer_init(&r->uv, &r->timer);
    (void)uv_prepare_init(&r->uv, &r->prepare);
    (void)uv_idle_init(&r->uv, &r->idle);
    r->timer.data = r->prepare.data = r->idle.data = l;
    e = uv_async_init(&r->uv, &r->async, on_async);
    bh_assert(e == 0);
    r->async.data = l;
    (void)uv_prepare_start(&r->prepare, on_prepare);
    r->workers = bh_workers_new(l);
    refresh(l);
    return l;
}

static void on_io_closed(uv_handle_t *h)
{
    bh_free(h->data);
}

static void close_each(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, h->type == UV_POLL ? on_io_closed : NULL);
}

void bh_loop_real_free(struct bh_loop *l)
{
    struct bh_loop_real *r = l->real;
    int e;

    bh_workers_free(r->workers);
    /* Descriptors that were freed in the last turn still wait for their close callback. */
    uv_walk(&r->uv, close_each, NULL);
    (void)uv_run(&r->uv, UV_RUN_DEFAULT);
    e = uv_loop_close(&r->uv);
    bh_assert(e == 0);
    bh_free(r);
    l->real = NULL;
}

void bh_loop_real_run(struct bh_loop *l)
{
    struct bh_loop_real *r = l->real;

    refresh(l);
    while (!atomic_load(&l->stop))
        (void)uv_run(&r->uv, UV_RUN_DEFAULT);
}

void bh_loop_real_wake(struct bh_loop *l)
{
    (void)uv_async_send(&l->real->async);
}

void bh_loop_real_work(struct bh_loop *l, bh_loop_fn work, bh_loop_fn done, void *arg)
{
    bh_workers_add(l->real->workers, work, done, arg);
}

void bh_loop_real_work_drop(struct bh_loop *l, bh_loop_fn done, void *arg)
{
    bh_workers_drop(l->real->workers, done, arg);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
    struct bh_io *io = h->data;
    unsigned ev = 0;

    if (status <
        0) { /* the descriptor is in an error state: the owner's next call on it tells which */
        ev = io->want;
    } else {
        if (events & UV_READABLE)
            ev |= BH_IO_READ;
        if (events & UV_WRITABLE)
            ev |= BH_IO_WRITE;
    }
    ev &= io->want;
    if (ev && !io->freed)
        io->fn(io->arg, ev);
}

struct bh_io *bh_io_new(struct bh_loop *l, int fd, bh_io_fn fn, void *arg, struct bh_err *err)
{
    struct bh_io *io;
    int e;

    if (!l->real) {
        (void)bh_err_set(err, BH_E_UNSUPPORTED, "a virtual loop has no descriptors");
        return NULL;
    }
    io = bh_calloc(1, sizeof(*io));
    e = uv_poll_init(&l->real->uv, &io->poll, fd);
    if (e < 0) {
        bh_free(io);
        (void)bh_err_sys(err, -e, "watch descriptor %d", fd);
        return NULL;
    }
    io->poll.data = io;
    io->loop = l;
    io->fn = fn;
    io->arg = arg;
    return io;
}

void bh_io_want(struct bh_io *io, unsigned events)
{
    if (io->freed || events == io->want)
        return;
    io->want = events;
    if (events == 0)
        (void)uv_poll_stop(&io->poll);
    else
        (void)uv_poll_start(&io->poll,
                            ((events & BH_IO_READ) ? UV_READABLE : 0) |
                                ((events & BH_IO_WRITE) ? UV_WRITABLE : 0),
                            on_poll);
}

struct bh_io *bh_io_free(struct bh_io *io)
{
    if (io && !io->freed) {
        io->freed = true;
        uv_close((uv_handle_t *)&io->poll, on_io_closed);
    }
    return NULL;
}
