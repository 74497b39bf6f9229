/* What the two loops share: the timer heap, call queues, and the random generator. Private to
 * src/net. */
#ifndef BH_NET_LOOP_INT_H
#define BH_NET_LOOP_INT_H

#include "net/loop.h"

#include <pthread.h>
#include <stdatomic.h>

/* Beyond this many queued calls something schedules itself without end; aborting shows where. */
#define BH_LOOP_CALLS_MAX ((size_t)1 << 24)
#define BH_LOOP_SCRATCH   ((size_t)64 << 10)

struct bh_call {
    bh_loop_fn fn;
    void *arg;
};

/* A queue that is taken as a whole: callers swap it for an empty one and run the batch. */
struct bh_calls {
    struct bh_call *p;
    size_t n, cap;
};

struct bh_loop_real; /* loop_real.c */

struct bh_loop {
    int64_t now_ns;
    int64_t wall_start_ns; /* virtual only */
    struct bh_timer **heap;
    size_t heap_n, heap_cap;
    uint64_t timer_seq;
    bool timers_changed; /* real: the earliest deadline may be another */
    struct bh_calls deferred, deferred_spare;
    pthread_mutex_t mu; /* guards posted */
    struct bh_calls posted;
    struct bh_calls posted_spare;
    struct bh_calls *running_posted; /* the batch that is being run */
    atomic_bool stop;
    uint64_t rng[4];
    unsigned char uuid_pool[256]; /* real: random bytes for names to come */
    size_t uuid_left;             /* bytes of it that are not used yet, at its front */
    char *scratch;                /* BH_LOOP_SCRATCH bytes for reads, valid within one callback */
    struct bh_link streams;       /* live ones, dropped when the loop is freed */
    void (*drop_stream)(struct bh_link *l);
    struct bh_loop_real *real; /* NULL: virtual */
};

/* loop_timer.c */
struct bh_timer *bh_loop_timer_first(const struct bh_loop *l); /* NULL: none armed */
/* Disarms and returns the earliest timer that is due at or before t, or NULL. */
struct bh_timer *bh_loop_timer_pop(struct bh_loop *l, int64_t t);

/* loop_shared.c */
void bh_loop_base_init(struct bh_loop *l, uint64_t seed);
void bh_loop_base_done(struct bh_loop *l);
void bh_calls_add(struct bh_calls *q, bh_loop_fn fn, void *arg);
bool bh_loop_run_deferred(
    struct bh_loop *l); /* one batch; true when more has been queued meanwhile */
bool bh_loop_run_posted(struct bh_loop *l); /* one batch; false when there was none */
uint64_t bh_rng_next(uint64_t s[4]);
int64_t bh_clock_mono_ns(void);

/* loop_real.c; the caller has checked l->real */
void bh_loop_real_free(struct bh_loop *l);
void bh_loop_real_run(struct bh_loop *l);
void bh_loop_real_wake(struct bh_loop *l); /* any thread */
/* The time of this turn, or the time now when the turn has taken long: what is limited from here on
 * must not pay for what came before. */
int64_t bh_loop_real_late_ns(const struct bh_loop *l);
/* loop_work.c */
struct bh_workers;
struct bh_workers *bh_workers_new(struct bh_loop *l);
void bh_workers_free(struct bh_workers *w); /* drops what has not started, waits for what has */
void bh_workers_add(struct bh_workers *w, bh_loop_fn work, bh_loop_fn done, void *arg);
/* Takes out what has not begun, waits for what has. */
void bh_workers_drop(struct bh_workers *w, bh_loop_fn done, void *arg);
void bh_loop_real_work_drop(struct bh_loop *l, bh_loop_fn done, void *arg);
void bh_loop_virtual_work_drop(struct bh_loop *l, bh_loop_fn done, void *arg);
void bh_loop_real_work(struct bh_loop *l, bh_loop_fn work, bh_loop_fn done, void *arg);
/* loop_virtual.c */
void bh_loop_virtual_run(struct bh_loop *l);
void bh_loop_virtual_work(struct bh_loop *l, bh_loop_fn work, bh_loop_fn done, void *arg);

#endif
