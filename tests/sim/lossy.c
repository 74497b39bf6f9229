#include "lossy.h"

#include "api/engine.h"
#include "base/arena.h"

struct lost_call {
    struct bh_link link;
    struct lossy *l; /* NULL: its client is gone */
    struct bh_arena *arena;
    struct bh_client *inner;
    struct bh_client_req *reqs;
    size_t n;
    uint64_t id;
    bh_client_fn fn;
    bh_client_seq_fn seq_fn; /* of a sequence */
    void *arg;
    struct bh_timer timer;
    bool lose_answer, late;
};

struct lost_watch {
    struct bh_link link;
    struct lossy *l;
    uint64_t id, inner_id;
    struct bh_watch_handler h;
    struct bh_timer timer; /* ends it from the loop */
    enum bh_code why;
    bool ended;
};

static bool chance(struct lossy *l, unsigned thousandths)
{
    return bh_loop_random(l->base.loop) % 1000 < thousandths;
}

static void call_free(struct lost_call *k)
{
    bh_timer_stop(&k->timer);
    bh_list_del(&k->link);
    (void)bh_arena_free(k->arena);
    bh_free(k);
}

static void send(void *arg);

static void report_loss(void *arg)
{
    struct lost_call *k = arg;
    struct bh_client_res res = {0};
    struct lossy *l = k->l;
    bh_client_fn fn = l ? k->fn : NULL;
    bh_client_seq_fn seq_fn = l ? k->seq_fn : NULL;
    void *fn_arg = k->arg;

    (void)bh_err_set(&res.err, BH_E_TIMEOUT, "no answer in time");
    k->fn = NULL;
    k->seq_fn = NULL;
    if (k->late) {
        k->late = false;
        bh_timer_init(&k->timer, k->inner->loop, send, k);
        bh_timer_start(&k->timer,
                       (int64_t)(bh_loop_random(k->inner->loop) % (LOSSY_LATE_MAX_MS / 2)));
    } else {
        call_free(k);
    }
    if (fn)
        fn(fn_arg, &res);
    if (seq_fn)
        seq_fn(fn_arg, &res, 1);
}

static bool answer_lost(struct lost_call *k)
{
    if (!k->l || !k->lose_answer)
        return false;
    bh_timer_init(&k->timer, k->l->base.loop, report_loss, k);
    bh_timer_start(&k->timer, 1000);
    return true;
}

static void answered(void *arg, const struct bh_client_res *res)
{
    struct lost_call *k = arg;

    if (answer_lost(k))
        return;
    if (k->l && k->fn)
        k->fn(k->arg, res);
    call_free(k);
}

static void seq_answered(void *arg, const struct bh_client_res *res, size_t n)
{
    struct lost_call *k = arg;

    if (answer_lost(k))
        return;
    if (k->l && k->seq_fn)
        k->seq_fn(k->arg, res, n);
    call_free(k);
}

static void send(void *arg)
{
    struct lost_call *k = arg;

    if (k->n)
        (void)bh_client_sequence(k->inner, k->reqs, k->n, seq_answered, k);
    else
        (void)bh_client_call(k->inner, k->reqs, answered, k);
}

/* n 0: one request, else a sequence. */
static struct lost_call *call_new(struct lossy *l, uint64_t id, const struct bh_client_req *reqs,
                                  size_t n)
{
    struct lost_call *k = bh_calloc(1, sizeof(*k));
    size_t copies = n ? n : 1;

    k->l = l;
    k->inner = l->inner;
    k->arena = bh_arena_new(0);
    k->reqs = bh_new_n(k->arena, struct bh_client_req, copies);
    k->n = n;
    for (size_t i = 0; i < copies; i++)
        bh_client_req_copy(k->arena, &reqs[i], &k->reqs[i]);
    k->id = id;
    k->lose_answer = chance(l, l->lose_answer);
    bh_list_add_tail(&l->calls, &k->link);
    k->late = chance(l, l->late) && !n; /* in process nothing is overtaken by what is sent later */
    if (k->late) {
        bh_timer_init(&k->timer, l->base.loop, report_loss, k);
        bh_timer_start(&k->timer, LOSSY_LATE_MAX_MS / 4);
        return k;
    }
    if (chance(l, l->lose_request)) {
        bh_timer_init(&k->timer, l->base.loop, report_loss, k);
        bh_timer_start(&k->timer, 1000);
        return k;
    }
    bh_timer_init(&k->timer, l->base.loop, send, k);
    bh_timer_start_ns(
        &k->timer,
        l->delay_max_ns ? (int64_t)(bh_loop_random(l->base.loop) % (uint64_t)l->delay_max_ns) : 0);
    return k;
}

static void lossy_call(struct bh_client *base, uint64_t id, const struct bh_client_req *req,
                       bh_client_fn fn, void *arg)
{
    struct lost_call *k = call_new((struct lossy *)base, id, req, 0);

    k->fn = fn;
    k->arg = arg;
}

static void lossy_sequence(struct bh_client *base, uint64_t id, const struct bh_client_req *reqs,
                           size_t n, bh_client_seq_fn fn, void *arg)
{
    struct lost_call *k = call_new((struct lossy *)base, id, reqs, n);

    k->seq_fn = fn;
    k->arg = arg;
}

/* ---- watches ---- */

static void watch_free(struct lost_watch *w)
{
    if (w->inner_id)
        bh_client_cancel(w->l->inner, w->inner_id);
    bh_timer_stop(&w->timer);
    bh_list_del(&w->link);
    bh_free(w);
}

static void watch_over(void *arg)
{
    struct lost_watch *w = arg;
    struct bh_watch_handler h = w->h;
    struct bh_err err = {0};

    if (w->why != BH_OK)
        (void)bh_err_set(&err, w->why, "watch lost");
    watch_free(w);
    h.ended(h.arg, &err);
}

static void watch_lose(struct lost_watch *w, enum bh_code why)
{
    if (w->ended)
        return;
    w->ended = true;
    w->why = why;
    bh_timer_start(&w->timer, (int64_t)(bh_loop_random(w->l->base.loop) % 2000));
}

static void watch_event(void *arg, enum bh_cw_type type, struct bh_obj *obj, uint64_t rv)
{
    struct lost_watch *w = arg;

    if (w->ended)
        return;
    if (chance(w->l, w->l->lose_watch)) {
        watch_lose(w, bh_loop_random(w->l->base.loop) & 1 ? BH_E_GONE : BH_E_UNAVAILABLE);
        return;
    }
    w->h.event(w->h.arg, type, obj, rv);
}

static void watch_ended(void *arg, const struct bh_err *err)
{
    struct lost_watch *w = arg;

    w->inner_id = 0;
    watch_lose(w, err->code);
}

static void lossy_watch(struct bh_client *base, uint64_t id, const struct bh_client_req *req,
                        uint64_t rv, const struct bh_watch_handler *h)
{
    struct lossy *l = (struct lossy *)base;
    struct lost_watch *w = bh_calloc(1, sizeof(*w));

    w->l = l;
    w->id = id;
    w->h = *h;
    bh_timer_init(&w->timer, l->base.loop, watch_over, w);
    bh_list_add_tail(&l->watches, &w->link);
    w->inner_id = bh_client_watch(
        l->inner, req, rv,
        &(struct bh_watch_handler){.event = watch_event, .ended = watch_ended, .arg = w});
}

static void lossy_cancel(struct bh_client *base, uint64_t id)
{
    struct lossy *l = (struct lossy *)base;

    bh_list_for(it, &l->calls)
    {
        struct lost_call *k = bh_container(it, struct lost_call, link);

        if (k->id == id) {
            k->fn = NULL;
            k->seq_fn = NULL;
            return;
        }
    }
    bh_list_for_safe(it2, &l->watches)
    {
        struct lost_watch *w = bh_container(it2, struct lost_watch, link);

        if (w->id == id) {
            watch_free(w);
            return;
        }
    }
}

void lossy_crash(struct lossy *l)
{
    while (!bh_list_empty(&l->watches))
        watch_free(bh_container(l->watches.next, struct lost_watch, link));
    while (!bh_list_empty(&l->calls)) {
        struct lost_call *k = bh_container(l->calls.next, struct lost_call, link);

        bh_list_del(&k->link);
        k->l = NULL;
    }
}

static void lossy_free(struct bh_client *base)
{
    lossy_crash((struct lossy *)base);
}

/* Half of the clients hand sequences over as one in process does, half as one over the network. */
static const struct bh_client_vtable vts[2] = {
    {lossy_call, lossy_watch, lossy_cancel, lossy_free, NULL},
    {lossy_call, lossy_watch, lossy_cancel, lossy_free, lossy_sequence}};

void lossy_init(struct lossy *l, struct bh_client *inner)
{
    *l = (struct lossy){.inner = inner};
    l->base.loop = inner->loop;
    l->base.vt = &vts[bh_loop_random(inner->loop) & 1];
    bh_list_init(&l->calls);
    bh_list_init(&l->watches);
}
