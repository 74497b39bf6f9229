/* The virtual loop: time moves only when nothing is left to do at the present instant, and then
 * jumps to the next deadline. One seed decides every random choice, so a run can be repeated
 * exactly. */
#include "net/loop_int.h"

#include "base/arena.h"

/* Blocking work takes between 20 microseconds and 20 milliseconds: the spread of a disk that is
 * sometimes busy, wide enough to reorder operations that were started together. */
#define WORK_MIN_NS  20000
#define WORK_SPAN_NS 500000
#define WORK_SLOW_NS 20000000

struct vwork {
    struct bh_timer timer;
    bh_loop_fn work, done;
    void *arg;
};

struct bh_loop *bh_loop_new_virtual(uint64_t seed, int64_t wall_start_ns)
{
    struct bh_loop *l = bh_calloc(1, sizeof(*l));

    bh_loop_base_init(l, seed);
    l->wall_start_ns = wall_start_ns;
    return l;
}

/* Everything at the present instant. Calls posted from other threads join the order where they are
 * found. */
static void settle(struct bh_loop *l)
{
    while (!atomic_load(&l->stop)) {
        bool more = bh_loop_run_posted(l);

        more |= l->deferred.n > 0;
        (void)bh_loop_run_deferred(l);
        if (!more)
            break;
    }
}

static void run_until(struct bh_loop *l, int64_t limit_ns)
{
    for (;;) {
        struct bh_timer *t;

        settle(l);
        if (atomic_load(&l->stop))
            return;
        t = bh_loop_timer_pop(l, limit_ns);
        if (!t)
            return;
        if (t->at_ns > l->now_ns)
            l->now_ns = t->at_ns;
        t->fn(t->arg);
    }
}

void bh_loop_virtual_run(struct bh_loop *l)
{
    run_until(l, INT64_MAX);
}

void bh_loop_advance(struct bh_loop *l, int64_t ns)
{
    int64_t limit;

    bh_assert(!l->real && ns >= 0);
    limit = ns > INT64_MAX - l->now_ns ? INT64_MAX : l->now_ns + ns;
    run_until(l, limit);
    if (!atomic_load(&l->stop) && l->now_ns < limit)
        l->now_ns = limit;
    atomic_store(&l->stop, false);
}

static void work_due(void *arg)
{
    struct vwork *w = arg;

    w->work(w->arg);
    if (w->done)
        w->done(w->arg);
    bh_free(w);
}

void bh_loop_virtual_work(struct bh_loop *l, bh_loop_fn work, bh_loop_fn done, void *arg)
{
    struct vwork *w = bh_calloc(1, sizeof(*w));
    uint64_t r = bh_loop_random(l);
    int64_t delay = WORK_MIN_NS + (int64_t)((r >> 8) % WORK_SPAN_NS);

    if ((r & 63) == 0)
        delay += (int64_t)((r >> 16) % WORK_SLOW_NS);
    w->work = work;
    w->done = done;
    w->arg = arg;
    bh_timer_init(&w->timer, l, work_due, w);
    bh_timer_start_ns(&w->timer, delay);
}

void bh_loop_virtual_work_drop(struct bh_loop *l, bh_loop_fn done, void *arg)
{
    for (size_t i = 0; i < l->heap_n;) {
        struct vwork *w = l->heap[i]->fn == work_due ? l->heap[i]->arg : NULL;

        if (!w || w->done != done || w->arg != arg) {
            i++;
            continue;
        }
        bh_timer_stop(&w->timer);
        bh_free(w);
        i = 0; /* the heap has moved */
    }
}
