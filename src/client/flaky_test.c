/* A client that fails on demand. */
#include "client/flaky_test.h"

#include "base/arena.h"

struct refused {
    struct bh_link link;
    struct bh_timer timer;
    struct flaky *f;
    uint64_t id;
    bh_client_fn fn;
    void *arg;
    struct bh_watch_handler watch;
    bool hung;
};

static void refused_free(struct refused *r)
{
    bh_timer_stop(&r->timer);
    bh_list_del(&r->link);
    bh_free(r);
}

static void refused_answer(void *arg)
{
    struct refused r = *(struct refused *)arg;
    struct bh_client_res res = {0};
    struct bh_err end = {0};

    if (r.hung)
        (void)bh_err_set(&res.err, BH_E_TIMEOUT, "no answer in time");
    else
        (void)bh_err_set(&res.err, r.f->refusal ? r.f->refusal : BH_E_UNAVAILABLE, "refused");
    if (r.f->watch_end)
        (void)bh_err_set(&end, r.f->watch_end, "ended");
    refused_free(arg);
    if (r.watch.ended)
        r.watch.ended(r.watch.arg, &end);
    else if (r.fn)
        r.fn(r.arg, &res);
}

static struct refused *refuse(struct flaky *f, uint64_t id, enum flaky_mode mode)
{
    struct refused *r = bh_calloc(1, sizeof(*r));

    r->f = f;
    r->id = id;
    bh_list_add_tail(&f->refused, &r->link);
    bh_timer_init(&r->timer, f->base.loop, refused_answer, r);
    if (mode == FLAKY_REFUSE)
        bh_timer_start(&r->timer, 1);
    return r;
}

static void flaky_call(struct bh_client *base, uint64_t id, const struct bh_client_req *req,
                       bh_client_fn fn, void *arg)
{
    struct flaky *f = (struct flaky *)base;

    f->calls_n++;
    f->lists_n += req->verb == BH_VERB_LIST;
    if (f->calls == FLAKY_PASS) {
        f->inner->vt->call(f->inner, id, req, fn, arg);
    } else {
        struct refused *r = refuse(f, id, f->calls);

        r->hung = f->calls == FLAKY_HANG;
        if (r->hung)
            bh_timer_start(&r->timer, req->timeout_ms ? req->timeout_ms : 30000);
        r->fn = fn;
        r->arg = arg;
    }
}

static void flaky_watch(struct bh_client *base, uint64_t id, const struct bh_client_req *req,
                        uint64_t rv, const struct bh_watch_handler *h)
{
    struct flaky *f = (struct flaky *)base;

    f->watches_n++;
    if (f->watches == FLAKY_PASS)
        f->inner->vt->watch(f->inner, id, req, rv, h);
    else
        refuse(f, id, f->watches)->watch = *h;
}

/* In one go, or request by request when they may fail. */
static void flaky_sequence(struct bh_client *base, uint64_t id, const struct bh_client_req *reqs,
                           size_t n, bh_client_seq_fn fn, void *arg)
{
    struct flaky *f = (struct flaky *)base;

    if (f->parts || f->calls != FLAKY_PASS || !f->inner->vt->sequence) {
        client_seq_start(base, id, reqs, n, fn, arg);
        return;
    }
    f->calls_n++;
    f->inner->vt->sequence(f->inner, id, reqs, n, fn, arg);
}

static void flaky_cancel(struct bh_client *base, uint64_t id)
{
    struct flaky *f = (struct flaky *)base;

    bh_list_for_safe(it, &f->refused)
    {
        struct refused *r = bh_container(it, struct refused, link);

        if (r->id == id) {
            refused_free(r);
            return;
        }
    }
    f->inner->vt->cancel(f->inner, id);
}

static void flaky_free(struct bh_client *base)
{
    struct flaky *f = (struct flaky *)base;

    while (!bh_list_empty(&f->refused))
        refused_free(bh_container(f->refused.next, struct refused, link));
}

void flaky_init(struct flaky *f, struct bh_client *inner)
{
    static const struct bh_client_vtable vt = {flaky_call, flaky_watch, flaky_cancel, flaky_free,
                                               flaky_sequence};

    /* Ids far from the inner client's own. */
    *f = (struct flaky){.base = {.vt = &vt, .loop = inner->loop, .next_id = (uint64_t)1 << 32},
                        .inner = inner};
    bh_list_init(&f->refused);
}
