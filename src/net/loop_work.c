/* The worker pool of a real loop: threads are started when work waits and none is free, up to
 * BH_WORKERS_MAX, and live until the loop is freed. */
#include "net/loop_int.h"

#include <pthread.h>
#include <signal.h>

#include "base/arena.h"
#include "base/limits.h"

struct job {
    struct job *next;
    bh_loop_fn work, done;
    void *arg;
};

struct bh_workers {
    struct bh_loop *loop;
    pthread_mutex_t mu;
    pthread_cond_t wake;
    struct job *first, **last;
    struct job *running;
    pthread_cond_t ran; /* a job has left running */
    size_t queued;
    pthread_t threads[BH_WORKERS_MAX];
    size_t threads_n, idle;
    bool stopping;
};

static void leave_running(struct bh_workers *w, struct job *j)
{
    struct job **at = &w->running;

    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    (void)pthread_cond_broadcast(&w->ran);
}

static void *worker(void *arg)
{
    struct bh_workers *w = arg;

    (void)pthread_mutex_lock(&w->mu);
    for (;;) {
        struct job *j;

        while (!w->first && !w->stopping) {
            w->idle++;
            (void)pthread_cond_wait(&w->wake, &w->mu);
            w->idle--;
        }
        if (w->stopping)
            break;
        j = w->first;
        w->first = j->next;
        if (!w->first)
            w->last = &w->first;
        w->queued--;
        j->next = w->running;
        w->running = j;
        (void)pthread_mutex_unlock(&w->mu);
        j->work(j->arg);
        if (j->done)
            bh_loop_post(w->loop, j->done, j->arg);
        (void)pthread_mutex_lock(&w->mu);
        leave_running(w, j);
        bh_free(j);
    }
    (void)pthread_mutex_unlock(&w->mu);
    return NULL;
}

struct bh_workers *bh_workers_new(struct bh_loop *l)
{
    struct bh_workers *w = bh_calloc(1, sizeof(*w));

    w->loop = l;
    w->last = &w->first;
    (void)pthread_mutex_init(&w->mu, NULL);
    (void)pthread_cond_init(&w->wake, NULL);
    (void)pthread_cond_init(&w->ran, NULL);
    return w;
}

/* Signals are for the main thread: workers are born with all of them blocked. */
static bool start_thread(struct bh_workers *w)
{
    sigset_t all, old;
    int r;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    r = pthread_create(&w->threads[w->threads_n], NULL, worker, w);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r == 0)
        w->threads_n++;
    return r == 0;
}

void bh_workers_add(struct bh_workers *w, bh_loop_fn work, bh_loop_fn done, void *arg)
{
    struct job *j = bh_calloc(1, sizeof(*j));

    j->work = work;
    j->done = done;
    j->arg = arg;
    (void)pthread_mutex_lock(&w->mu);
    *w->last = j;
    w->last = &j->next;
    w->queued++;
    if (w->queued > w->idle && w->threads_n < BH_WORKERS_MAX) {
        bool started = start_thread(w);

        bh_assert(started ||
                  w->threads_n > 0); /* one thread makes progress; none would hang silently */
    }
    (void)pthread_mutex_unlock(&w->mu);
    (void)pthread_cond_signal(
        &w->wake); /* after it: who wakes does not have to wait for the lock */
}

static bool is_running(const struct bh_workers *w, bh_loop_fn done, const void *arg)
{
    for (const struct job *j = w->running; j; j = j->next)
        if (j->done == done && j->arg == arg)
            return true;
    return false;
}

void bh_workers_drop(struct bh_workers *w, bh_loop_fn done, void *arg)
{
    struct job **at = &w->first;

    (void)pthread_mutex_lock(&w->mu);
    while (*at) {
        struct job *j = *at;

        if (j->done != done || j->arg != arg) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        w->queued--;
        bh_free(j);
    }
    w->last = at;
    while (is_running(w, done, arg))
        (void)pthread_cond_wait(&w->ran, &w->mu);
    (void)pthread_mutex_unlock(&w->mu);
}

void bh_workers_free(struct bh_workers *w)
{
    if (!w)
        return;
    (void)pthread_mutex_lock(&w->mu);
    w->stopping = true;
    (void)pthread_cond_broadcast(&w->wake);
    (void)pthread_mutex_unlock(&w->mu);
    for (size_t i = 0; i < w->threads_n; i++)
        (void)pthread_join(w->threads[i], NULL);
    while (w->first) {
        struct job *j = w->first;

        w->first = j->next;
        bh_free(j);
    }
    (void)pthread_cond_destroy(&w->wake);
    (void)pthread_cond_destroy(&w->ran);
    (void)pthread_mutex_destroy(&w->mu);
    bh_free(w);
}
