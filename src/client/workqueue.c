/* The work queue: one item per key; an item is idle, planned (timer), ready (in the list) or
 * running. */
#include "client/workqueue.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "net/loop.h"

#define RETRY_MIN_MS 5
#define RETRY_MAX_MS 1000000

struct item {
    struct bh_link ready; /* on the queue's list when it waits for a worker */
    struct bh_workqueue *q;
    struct bh_str key; /* heap */
    struct bh_timer timer;
    unsigned failures;
    bool running;
    bool again; /* added while running */
};

struct bh_workqueue {
    struct bh_loop *loop;
    int idle; /* workers free */
    bh_workqueue_fn fn;
    void *arg;
    struct bh_map items;
    struct bh_link ready;
    struct bh_timer kick; /* dispatches from the loop, not from inside a handler */
    bool dispatching;
    bool paused;
};

static void item_free(struct item *it)
{
    bh_timer_stop(&it->timer);
    bh_list_del(&it->ready);
    bh_free((void *)(uintptr_t)it->key.p);
    bh_free(it);
}

struct bh_workqueue *bh_workqueue_free(struct bh_workqueue *q)
{
    size_t pos = 0;
    void *v;

    if (!q)
        return NULL;
    while (bh_map_next(&q->items, &pos, NULL, &v))
        item_free(v);
    bh_map_done(&q->items);
    bh_timer_stop(&q->kick);
    bh_free(q);
    return NULL;
}

/* Hands ready keys to free workers. A handler may finish and add keys meanwhile: the outermost call
 * serves them. */
static void dispatch(struct bh_workqueue *q)
{
    if (q->dispatching || q->paused)
        return;
    q->dispatching = true;
    while (q->idle > 0 && !bh_list_empty(&q->ready)) {
        struct item *it = bh_container(q->ready.next, struct item, ready);

        bh_list_del(&it->ready);
        it->running = true;
        q->idle--;
        q->fn(q->arg, it->key);
    }
    q->dispatching = false;
}

static void kick(void *arg)
{
    dispatch(arg);
}

struct bh_workqueue *bh_workqueue_new(struct bh_loop *l, int workers, bh_workqueue_fn fn, void *arg)
{
    struct bh_workqueue *q = bh_calloc(1, sizeof(*q));

    q->loop = l;
    q->idle = workers;
    q->fn = fn;
    q->arg = arg;
    bh_list_init(&q->ready);
    bh_timer_init(&q->kick, l, kick, q);
    return q;
}

static void item_ready(struct item *it)
{
    bh_timer_stop(&it->timer);
    if (it->running)
        it->again = true;
    else if (!it->ready.next)
        bh_list_add_tail(&it->q->ready, &it->ready);
}

static void item_due(void *arg)
{
    struct item *it = arg;

    item_ready(it);
    dispatch(it->q);
}

void bh_workqueue_pause(struct bh_workqueue *q)
{
    q->paused = true;
}

void bh_workqueue_resume(struct bh_workqueue *q)
{
    q->paused = false;
    if (!bh_list_empty(&q->ready))
        bh_timer_start(&q->kick, 0);
}

static struct item *item_get(struct bh_workqueue *q, struct bh_str key)
{
    struct item *it = bh_map_get(&q->items, key);

    if (it)
        return it;
    it = bh_calloc(1, sizeof(*it));
    it->q = q;
    it->key = (struct bh_str){bh_strdup_c(key), key.n};
    bh_timer_init(&it->timer, q->loop, item_due, it);
    (void)bh_map_put(&q->items, key, it);
    return it;
}

void bh_workqueue_add(struct bh_workqueue *q, struct bh_str key)
{
    struct item *it = item_get(q, key);

    /* Through a timer of no delay: handlers never run inside an informer's callback, and many
     * events of one key in the same turn of the loop cost one run. */
    if (!it->running && !it->ready.next)
        bh_timer_start(&it->timer, 0);
    else if (it->running)
        it->again = true;
}

void bh_workqueue_add_after(struct bh_workqueue *q, struct bh_str key, int64_t delay_ms)
{
    struct item *it = item_get(q, key);
    int64_t at = bh_loop_mono_ns(q->loop) + delay_ms * 1000000;

    if (it->ready.next || (bh_timer_armed(&it->timer) && it->timer.at_ns <= at))
        return;
    bh_timer_start(&it->timer, delay_ms > 0 ? delay_ms : 0);
}

void bh_workqueue_done(struct bh_workqueue *q, struct bh_str key, enum bh_work_result r)
{
    struct item *it = bh_map_get(&q->items, key);

    bh_assert(it && it->running);
    it->running = false;
    q->idle++;
    if (r == BH_WORK_RETRY) {
        int64_t ms = RETRY_MIN_MS;

        for (unsigned i = 0; i < it->failures && ms < RETRY_MAX_MS; i++)
            ms *= 2;
        it->failures++;
        ms = ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS;
        if (!it->again && !(bh_timer_armed(&it->timer) &&
                            it->timer.at_ns <= bh_loop_mono_ns(q->loop) + ms * 1000000))
            bh_timer_start(&it->timer, ms);
    } else {
        it->failures = 0;
    }
    if (it->again) { /* what was added meanwhile does not wait for the pause after a failure */
        it->again = false;
        bh_list_add_tail(&q->ready, &it->ready);
    } else if (!bh_timer_armed(&it->timer)) {
        (void)bh_map_del(&q->items, it->key);
        item_free(it);
    }
    if (!q->dispatching && !bh_list_empty(&q->ready))
        bh_timer_start(&q->kick, 0);
}

size_t bh_workqueue_len(const struct bh_workqueue *q)
{
    return q->items.n;
}
