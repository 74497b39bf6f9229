/* What both loops do alike: call queues, time and randomness, and the switch between the two. */
#include "net/loop_int.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/arena.h"

static int64_t clock_ns(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t bh_clock_mono_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* xoshiro256**, by Blackman and Vigna: fast, and good enough for jitter, choices and simulations.
 * Secrets come from bh_loop_random_bytes(), which asks the kernel on a real loop. */
uint64_t bh_rng_next(uint64_t s[4])
{
    uint64_t m = s[1] * 5;
    uint64_t ret = ((m << 7) | (m >> 57)) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return ret;
}

static void rng_seed(uint64_t s[4], uint64_t seed)
{
    for (int i = 0; i < 4; i++) { /* splitmix64 spreads a small seed over the whole state */
        uint64_t z = (seed += 0x9e3779b97f4a7c15u);

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        s[i] = z ^ (z >> 31);
    }
}

void bh_loop_base_init(struct bh_loop *l, uint64_t seed)
{
    rng_seed(l->rng, seed);
    (void)pthread_mutex_init(&l->mu, NULL);
    atomic_init(&l->stop, false);
    bh_list_init(&l->streams);
}

void bh_loop_base_done(struct bh_loop *l)
{
    for (size_t i = 0; i < l->heap_n; i++)
        l->heap[i]->heap_at =
            0; /* owners that outlive the loop may still ask whether it is armed */
    bh_free(l->heap);
    bh_free(l->deferred.p);
    bh_free(l->deferred_spare.p);
    bh_free(l->posted.p);
    bh_free(l->posted_spare.p);
    bh_free(l->scratch);
    (void)pthread_mutex_destroy(&l->mu);
}

void bh_calls_add(struct bh_calls *q, bh_loop_fn fn, void *arg)
{
    bh_assert(q->n < BH_LOOP_CALLS_MAX);
    if (q->n == q->cap) {
        q->cap = q->cap ? 2 * q->cap : 64;
        q->p = bh_realloc(q->p, q->cap * sizeof(struct bh_call));
    }
    q->p[q->n++] = (struct bh_call){fn, arg};
}

bool bh_loop_run_deferred(struct bh_loop *l)
{
    struct bh_calls batch = l->deferred;

    if (batch.n == 0)
        return false;
    l->deferred = l->deferred_spare;
    l->deferred_spare = (struct bh_calls){0};
    for (size_t i = 0; i < batch.n; i++)
        batch.p[i].fn(batch.p[i].arg);
    batch.n = 0;
    bh_free(l->deferred_spare.p); /* a nested run may have left one */
    l->deferred_spare = batch;
    return l->deferred.n > 0;
}

bool bh_loop_run_posted(struct bh_loop *l)
{
    struct bh_calls batch, *outer;

    (void)pthread_mutex_lock(&l->mu);
    batch = l->posted;
    if (batch.n > 0) {
        l->posted = l->posted_spare;
        l->posted_spare = (struct bh_calls){0};
    }
    (void)pthread_mutex_unlock(&l->mu);
    if (batch.n == 0)
        return false;
    outer = l->running_posted;
    l->running_posted = &batch;
    for (size_t i = 0; i < batch.n; i++)
        batch.p[i].fn(batch.p[i].arg);
    l->running_posted = outer;
    batch.n = 0;
    (void)pthread_mutex_lock(&l->mu);
    bh_free(l->posted_spare.p);
    l->posted_spare = batch;
    (void)pthread_mutex_unlock(&l->mu);
    return true;
}

void bh_loop_defer(struct bh_loop *l, bh_loop_fn fn, void *arg)
{
    bh_calls_add(&l->deferred, fn, arg);
}

void bh_loop_post(struct bh_loop *l, bh_loop_fn fn, void *arg)
{
    bool first;

    (void)pthread_mutex_lock(&l->mu);
    first = l->posted.n == 0;
    bh_calls_add(&l->posted, fn, arg);
    (void)pthread_mutex_unlock(&l->mu);
    if (first && l->real)
        bh_loop_real_wake(l);
}

void bh_loop_work(struct bh_loop *l, bh_loop_fn work, bh_loop_fn done, void *arg)
{
    if (l->real)
        bh_loop_real_work(l, work, done, arg);
    else
        bh_loop_virtual_work(l, work, done, arg);
}

static void nothing(void *arg)
{
    (void)arg;
}

static bool forget(struct bh_calls *q, bh_loop_fn fn, const void *arg)
{
    bool found = false;

    for (size_t i = 0; i < q->n; i++)
        if (q->p[i].fn == fn && q->p[i].arg == arg) {
            q->p[i].fn = nothing;
            found = true;
        }
    return found;
}

void bh_loop_work_drop(struct bh_loop *l, bh_loop_fn done, void *arg)
{
    if (!l->real) {
        bh_loop_virtual_work_drop(l, done, arg);
        return;
    }
    bh_loop_real_work_drop(l, done, arg);
    (void)pthread_mutex_lock(&l->mu);
    (void)forget(&l->posted, done, arg);
    if (l->running_posted)
        (void)forget(l->running_posted, done, arg);
    (void)pthread_mutex_unlock(&l->mu);
}

bool bh_loop_defer_drop(struct bh_loop *l, bh_loop_fn fn, void *arg)
{
    return forget(&l->deferred, fn, arg);
}

bool bh_loop_is_virtual(const struct bh_loop *l)
{
    return l->real == NULL;
}

void bh_loop_run(struct bh_loop *l)
{
    if (l->real)
        bh_loop_real_run(l);
    else
        bh_loop_virtual_run(l);
    atomic_store(&l->stop, false); /* a stopped loop can be run again */
}

void bh_loop_stop(struct bh_loop *l)
{
    atomic_store(&l->stop, true);
    if (l->real)
        bh_loop_real_wake(l);
}

struct bh_loop *bh_loop_free(struct bh_loop *l)
{
    if (!l)
        return NULL;
    while (!bh_list_empty(&l->streams))
        l->drop_stream(l->streams.next);
    if (l->real)
        bh_loop_real_free(l);
    bh_loop_base_done(l);
    bh_free(l);
    return NULL;
}

int64_t bh_loop_wall_ns(const struct bh_loop *l)
{
    return l->real ? clock_ns(CLOCK_REALTIME) : l->wall_start_ns + l->now_ns;
}

uint64_t bh_loop_random(struct bh_loop *l)
{
    return bh_rng_next(l->rng);
}

void bh_loop_random_bytes(struct bh_loop *l, void *p, size_t n)
{
    char *at = p;

    if (l->real) {
        while (n > 0) {
            ssize_t r = getrandom(at, n < 256 ? n : 256, 0);

            bh_assert(r > 0 || errno == EINTR); /* without randomness there are no secrets */
            if (r > 0) {
                at += r;
                n -= (size_t)r;
            }
        }
        return;
    }
    while (n > 0) {
        uint64_t v = bh_rng_next(l->rng);
        size_t k = n < sizeof(v) ? n : sizeof(v);

        memcpy(at, &v, k);
        at += k;
        n -= k;
    }
}

/* The kernel is asked for those of several names at once: they are no secrets. */
static void uuid_bytes(struct bh_loop *l, unsigned char ret[16])
{
    if (!l->real) {
        bh_loop_random_bytes(l, ret, 16);
        return;
    }
    if (l->uuid_left == 0) {
        bh_loop_random_bytes(l, l->uuid_pool, sizeof(l->uuid_pool));
        l->uuid_left = sizeof(l->uuid_pool);
    }
    l->uuid_left -= 16;
    memcpy(ret, l->uuid_pool + l->uuid_left, 16);
}

void bh_loop_uuid(struct bh_loop *l, char ret[37])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char b[16];
    size_t at = 0;

    uuid_bytes(l, b);
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40); /* version 4 */
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80); /* RFC 9562 variant */
    for (size_t i = 0; i < sizeof(b); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            ret[at++] = '-';
        ret[at++] = hex[b[i] >> 4];
        ret[at++] = hex[b[i] & 15];
    }
    ret[at] = 0;
}
