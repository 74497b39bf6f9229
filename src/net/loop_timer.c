/* The timer heap of a loop: a binary heap ordered by deadline, then by the order of starting, so
 * that equal deadlines fire first come, first served and a virtual loop is deterministic. */
#include "net/loop_int.h"

#include "base/arena.h"

static bool before(const struct bh_timer *a, const struct bh_timer *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

static void place(struct bh_loop *l, size_t i, struct bh_timer *t)
{
    l->heap[i] = t;
    t->heap_at = i + 1;
}

static void sift_up(struct bh_loop *l, size_t i, struct bh_timer *t)
{
    while (i > 0) {
        size_t up = (i - 1) / 2;

        if (!before(t, l->heap[up]))
            break;
        place(l, i, l->heap[up]);
        i = up;
    }
    place(l, i, t);
}

static void sift_down(struct bh_loop *l, size_t i, struct bh_timer *t)
{
    for (;;) {
        size_t kid = 2 * i + 1;

        if (kid >= l->heap_n)
            break;
        if (kid + 1 < l->heap_n && before(l->heap[kid + 1], l->heap[kid]))
            kid++;
        if (!before(l->heap[kid], t))
            break;
        place(l, i, l->heap[kid]);
        i = kid;
    }
    place(l, i, t);
}

static void remove_timer(struct bh_loop *l, struct bh_timer *t)
{
    size_t i = t->heap_at - 1;
    struct bh_timer *last;

    bh_assert(i < l->heap_n && l->heap[i] == t);
    last = l->heap[--l->heap_n];
    t->heap_at = 0;
    if (last == t)
        return;
    if (i > 0 && before(last, l->heap[(i - 1) / 2]))
        sift_up(l, i, last);
    else
        sift_down(l, i, last);
}

struct bh_timer *bh_loop_timer_first(const struct bh_loop *l)
{
    return l->heap_n > 0 ? l->heap[0] : NULL;
}

struct bh_timer *bh_loop_timer_pop(struct bh_loop *l, int64_t t)
{
    struct bh_timer *first = bh_loop_timer_first(l);

    if (!first || first->at_ns > t)
        return NULL;
    remove_timer(l, first);
    l->timers_changed = true;
    return first;
}

void bh_timer_init(struct bh_timer *t, struct bh_loop *l, bh_loop_fn fn, void *arg)
{
    *t = (struct bh_timer){.loop = l, .fn = fn, .arg = arg};
}

void bh_timer_start_ns(struct bh_timer *t, int64_t delay_ns)
{
    struct bh_loop *l = t->loop;
    int64_t now;

    bh_assert(l != NULL && t->fn != NULL);
    now = l->real && delay_ns > 0 ? bh_loop_real_late_ns(l) : bh_loop_mono_ns(l);
    if (t->heap_at)
        remove_timer(l, t);
    if (delay_ns < 0)
        delay_ns = 0;
    t->at_ns = delay_ns > INT64_MAX - now ? INT64_MAX : now + delay_ns;
    t->seq = ++l->timer_seq;
    if (l->heap_n == l->heap_cap) {
        l->heap_cap = l->heap_cap ? 2 * l->heap_cap : 64;
        l->heap = bh_realloc(l->heap, l->heap_cap * sizeof(struct bh_timer *));
    }
    l->heap_n++;
    sift_up(l, l->heap_n - 1, t);
    if (t->heap_at == 1)
        l->timers_changed = true;
}

void bh_timer_start(struct bh_timer *t, int64_t delay_ms)
{
    bh_timer_start_ns(t, delay_ms > INT64_MAX / 1000000 ? INT64_MAX : delay_ms * 1000000);
}

void bh_timer_stop(struct bh_timer *t)
{
    if (t->heap_at)
        remove_timer(t->loop, t);
}

bool bh_timer_armed(const struct bh_timer *t)
{
    return t->heap_at != 0;
}
