/* The in-process client: requests enter the API server's handler chain after authentication.
 *
 * A call is copied and started from a timer of no delay, so that no callback ever runs inside the
 * call that asked for it, and so that nothing is left behind when client and loop are freed before
 * its turn. Objects that come back are the watch cache's own blocks.
 */
#include <stdio.h>

#include "api/engine.h"
#include "apiserver/apiserver.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/list.h"
#include "client/client_int.h"

#define INPROC_TIMEOUT_MS 30000

struct inproc {
    struct bh_client base;
    struct bh_apiserver *srv;
    struct bh_arena *arena;
    struct bh_user user;
    struct bh_buf url;       /* scratch */
    struct bh_link waiting;  /* calls that the server does not know yet, in order */
    struct bh_link starting; /* those of them whose turn has come */
    struct bh_link calls;    /* calls that the server works on */
    struct bh_timer pump;    /* starts what waits */
    bool pumping;            /* the frame of pump_run() is on the stack: it frees */
    bool freed;
};

struct inproc_seq;

struct inproc_call {
    struct bh_link link; /* off all lists: cancelled or finished */
    struct inproc *owner;
    uint64_t id;
    uint64_t srv_id;          /* of bh_apiserver_handle(), 0 when answered or not known yet */
    struct bh_api_request rq; /* in its arena, which is ours until the server has it */
    bh_client_fn fn;
    void *arg;
    struct bh_timer timeout;
    struct bh_watch_handler watch; /* watch.event is NULL for calls */
    struct inproc_seq *seq;        /* instead of one request: several */
    struct bh_err watch_err;       /* what the ERROR event said */
    bool done;
    int busy; /* frames of ours on the stack: the memory must stay until the last returns */
};

/* One request of a sequence. */
struct inproc_part {
    struct inproc_call *call;
    struct bh_api_request rq; /* as in a call */
    uint64_t srv_id;
    bool over; /* answered */
};

struct inproc_seq {
    struct bh_arena *arena; /* of all of this */
    struct inproc_part *parts;
    struct bh_client_res *res;
    size_t n, tried;
    bool starting; /* the server is being told of them */
    bh_client_seq_fn fn;
};

static void seq_free(struct inproc_seq *q)
{
    if (!q)
        return;
    for (size_t i = 0; i < q->n; i++) {
        (void)bh_obj_unref(q->res[i].obj);
        (void)bh_arena_free(q->parts[i].rq.arena);
    }
    (void)bh_arena_free(q->arena);
}

static void call_free(struct inproc_call *k)
{
    bh_timer_stop(&k->timeout);
    bh_list_del(&k->link);
    (void)bh_arena_free(k->rq.arena);
    seq_free(k->seq);
    bh_free(k);
}

/* Every entry from the server or the loop is bracketed by these two. */
static void call_enter(struct inproc_call *k)
{
    k->busy++;
}

static void call_leave(struct inproc_call *k)
{
    if (--k->busy == 0 && k->done)
        call_free(k);
}

static void inproc_answer(void *arg, const struct bh_api_response *r)
{
    struct inproc_call *k = arg;
    BH_AUTO_BUF body = {0};
    struct bh_client_res res = {.status = r->status,
                                .reason = r->reason,
                                .obj = r->obj,
                                .items = r->items,
                                .items_n = r->items_n,
                                .list_rv = r->list_rv};

    if (k->done)
        return;
    call_enter(k);
    k->done = true;
    bh_list_del(&k->link);
    if (r->status < 200 || r->status > 299)
        (void)bh_err_set(&res.err, r->code ? r->code : BH_E_INTERNAL, "%.*s", BH_SF(r->message));
    for (size_t i = 0; i < r->parts_n; i++)
        bh_buf_adds(&body, r->parts[i].bytes);
    res.body = bh_buf_str(&body);
    if (k->watch.event)
        k->watch.ended(k->watch.arg, &res.err);
    else if (k->fn)
        k->fn(k->arg, &res);
    call_leave(k);
}

static void inproc_watch_open(void *arg, struct bh_str type, const struct bh_api_header *h,
                              size_t n)
{
    (void)arg, (void)type, (void)h, (void)n;
}

static bool inproc_event(void *arg, const struct bh_api_event *ev)
{
    struct inproc_call *k = arg;
    static const enum bh_cw_type types[] = {BH_CW_ADDED, BH_CW_MODIFIED, BH_CW_DELETED,
                                            BH_CW_BOOKMARK};

    if (k->done)
        return false;
    if (ev->type == BH_WATCH_ERROR) {
        (void)bh_err_set(&k->watch_err, ev->code ? ev->code : BH_E_INTERNAL, "%.*s",
                         BH_SF(ev->message));
        return true;
    }
    call_enter(k);
    k->watch.event(k->watch.arg, types[ev->type], ev->obj, ev->rv);
    bool more = !k->done; /* the handler may have cancelled */
    call_leave(k);
    return more;
}

static void inproc_watch_end(void *arg)
{
    struct inproc_call *k = arg;

    if (k->done)
        return;
    call_enter(k);
    k->done = true;
    bh_list_del(&k->link);
    k->watch.ended(k->watch.arg, &k->watch_err);
    call_leave(k);
}

static const struct bh_api_sink inproc_sink = {NULL, inproc_answer, inproc_watch_open, inproc_event,
                                               inproc_watch_end};

/* ---- sequences ---- */

/* What is not answered yet will not be told. */
static void seq_forget(struct inproc_call *k)
{
    for (size_t i = 0; i < k->seq->n; i++)
        if (k->seq->parts[i].srv_id)
            bh_apiserver_cancel(k->owner->srv, k->seq->parts[i].srv_id);
}

static void seq_end(struct inproc_call *k, size_t n)
{
    call_enter(k);
    seq_forget(k);
    k->done = true;
    bh_list_del(&k->link);
    if (k->seq->fn)
        k->seq->fn(k->arg, k->seq->res, n);
    call_leave(k);
}

/* Ends it when all that was tried is answered, or when one failed before which all succeeded. */
static void seq_look(struct inproc_call *k)
{
    const struct inproc_seq *q = k->seq;

    for (size_t i = 0; i < q->tried; i++) {
        if (!q->parts[i].over)
            return;
        if (q->res[i].err.code != BH_OK || i + 1 == q->tried) {
            seq_end(k, i + 1);
            return;
        }
    }
}

static void seq_answer(void *arg, const struct bh_api_response *r)
{
    struct inproc_part *p = arg;
    struct inproc_call *k = p->call;
    struct bh_client_res *res = &k->seq->res[p - k->seq->parts];

    if (k->done)
        return;
    p->over = true;
    p->srv_id = 0;
    res->status = r->status;
    res->reason = bh_str_dup(k->seq->arena, r->reason);
    res->obj = r->obj ? bh_obj_ref(r->obj) : NULL;
    if (r->status < 200 || r->status > 299)
        (void)bh_err_set(&res->err, r->code ? r->code : BH_E_INTERNAL, "%.*s", BH_SF(r->message));
    if (!k->seq->starting)
        seq_look(k);
}

/* A request that the server did not answer at once has been accepted: what it wrote is in the head
 * that the next one sees, and if it is lost everything accepted after it is lost, too. */
static void seq_start(struct inproc_call *k)
{
    struct bh_apiserver *srv = k->owner->srv;
    struct inproc_seq *q = k->seq;
    bool more = true;

    call_enter(k);
    q->starting = true;
    while (more && q->tried < q->n) {
        struct inproc_part *p = &q->parts[q->tried++];
        struct bh_api_request rq = p->rq;
        struct bh_api_sink sink = {.arg = p, .answer = seq_answer};
        uint64_t id;

        p->rq.arena = NULL;
        id = bh_apiserver_handle(srv, &rq, &sink);
        p->srv_id = p->over ? 0 : id;
        more = !p->over || q->res[q->tried - 1].err.code == BH_OK;
    }
    q->starting = false;
    seq_look(k);
    call_leave(k);
}

static void seq_timeout(struct inproc_call *k)
{
    struct inproc_seq *q = k->seq;
    size_t n = 0;

    while (n < q->tried && q->parts[n].over)
        n++;
    (void)bh_err_set(&q->res[n].err, BH_E_TIMEOUT, "no answer in time");
    seq_end(k, n + 1);
}

static void inproc_timeout(void *arg)
{
    struct inproc_call *k = arg;
    struct bh_client_res res = {0};

    if (k->seq) {
        seq_timeout(k);
        return;
    }
    call_enter(k);
    bh_apiserver_cancel(k->owner->srv, k->srv_id);
    (void)bh_err_set(&res.err, BH_E_TIMEOUT, "no answer in time");
    k->done = true;
    bh_list_del(&k->link);
    if (k->fn)
        k->fn(k->arg, &res);
    call_leave(k);
}

static void inproc_start(struct inproc *c, struct inproc_call *k)
{
    struct bh_apiserver *srv = c->srv; /* an answer may free the client */
    struct bh_api_sink sink = inproc_sink;
    struct bh_api_request rq = k->rq;
    uint64_t id;

    bh_list_del(&k->link);
    bh_list_add_tail(&c->calls, &k->link);
    if (k->seq) {
        seq_start(k);
        return;
    }
    sink.arg = k;
    call_enter(k);
    k->rq.arena = NULL;
    id = bh_apiserver_handle(srv, &rq, &sink);
    if (k->done && id) /* cancelled from within: its id was not known then */
        bh_apiserver_cancel(srv, id);
    k->srv_id = id;
    call_leave(k);
}

static void pump_run(void *arg)
{
    struct inproc *c = arg;

    /* What an answer asks for waits for the next turn: other events are served in between. */
    while (!bh_list_empty(&c->waiting)) {
        struct bh_link *l = c->waiting.next;

        bh_list_del(l);
        bh_list_add_tail(&c->starting, l);
    }
    c->pumping = true;
    while (!bh_list_empty(&c->starting))
        inproc_start(c, bh_container(c->starting.next, struct inproc_call, link));
    c->pumping = false;
    if (c->freed) {
        bh_buf_done(&c->url);
        (void)bh_arena_free(c->arena);
        bh_free(c);
    }
}

/* The request in the server's words, in an arena of its own. */
static void request_of(struct inproc *c, const struct bh_client_req *req, uint64_t watch_rv,
                       struct bh_api_request *rq)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_buf *url = &c->url;
    struct bh_str rest;

    rq->arena = a;
    bh_buf_clear(url);
    bh_client_url(url, req, watch_rv);
    rest = bh_str_dup(a, bh_buf_str(url));
    rq->method = bh_s(bh_client_method(req->verb));
    rq->path = bh_str_cut(&rest, '?');
    rq->query = rest;
    if (req->verb == BH_VERB_PATCH)
        rq->content_type = bh_s(bh_client_patch_media(req->patch));
    else if (req->body.n)
        rq->content_type = BH_S("application/json");
    rq->user_agent = bh_str_dup(a, bh_s(c->base.user_agent));
    rq->body = bh_str_dup(a, req->body);
    if (req->msg) {
        rq->msg = bh_msg_dup_wire(req->msg_kind->type, req->msg, a);
        rq->msg_kind = req->msg_kind;
        rq->with_status = req->with_status;
    }
    rq->user = &c->user;
    rq->objects = true;
}

static struct inproc_call *inproc_new_call(struct inproc *c, uint64_t id)
{
    struct inproc_call *k = bh_calloc(1, sizeof(*k));

    k->owner = c;
    k->id = id;
    bh_list_add_tail(&c->waiting, &k->link);
    bh_timer_init(&k->timeout, c->base.loop, inproc_timeout, k);
    if (!bh_timer_armed(&c->pump))
        bh_timer_start(&c->pump, 0);
    return k;
}

static void inproc_call(struct bh_client *base, uint64_t id, const struct bh_client_req *req,
                        bh_client_fn fn, void *arg)
{
    struct inproc *c = (struct inproc *)base;
    struct inproc_call *k = inproc_new_call(c, id);

    request_of(c, req, 0, &k->rq);
    k->fn = fn;
    k->arg = arg;
    bh_timer_start(&k->timeout, req->timeout_ms ? req->timeout_ms : INPROC_TIMEOUT_MS);
}

static void inproc_sequence(struct bh_client *base, uint64_t id, const struct bh_client_req *reqs,
                            size_t n, bh_client_seq_fn fn, void *arg)
{
    struct inproc *c = (struct inproc *)base;
    struct inproc_call *k = inproc_new_call(c, id);
    struct bh_arena *a = bh_arena_new(0);
    struct inproc_seq *q = bh_new(a, struct inproc_seq);
    int timeout_ms = 0;

    q->arena = a;
    q->parts = bh_new_n(a, struct inproc_part, n);
    q->res = bh_new_n(a, struct bh_client_res, n);
    q->n = n;
    q->fn = fn;
    for (size_t i = 0; i < n; i++) {
        q->parts[i].call = k;
        request_of(c, &reqs[i], 0, &q->parts[i].rq);
        if (reqs[i].timeout_ms > timeout_ms)
            timeout_ms = reqs[i].timeout_ms;
    }
    k->seq = q;
    k->arg = arg;
    bh_timer_start(&k->timeout, timeout_ms ? timeout_ms : INPROC_TIMEOUT_MS);
}

static void inproc_watch(struct bh_client *base, uint64_t id, const struct bh_client_req *req,
                         uint64_t rv, const struct bh_watch_handler *h)
{
    struct inproc *c = (struct inproc *)base;
    struct inproc_call *k = inproc_new_call(c, id);

    request_of(c, req, rv, &k->rq);
    k->watch = *h;
}

static void call_cancel(struct inproc_call *k)
{
    bh_list_del(&k->link);
    bh_timer_stop(&k->timeout);
    if (k->srv_id)
        bh_apiserver_cancel(k->owner->srv, k->srv_id);
    if (k->seq)
        seq_forget(k);
    k->done = true;
    if (!k->busy)
        call_free(k);
}

/* The call with this id, or any call when id is 0; NULL when there is none. */
static struct inproc_call *call_find(struct inproc *c, uint64_t id)
{
    struct bh_link *const lists[] = {&c->calls, &c->starting, &c->waiting};

    for (size_t i = 0; i < BH_COUNT(lists); i++)
        bh_list_for(it, lists[i])
        {
            struct inproc_call *k = bh_container(it, struct inproc_call, link);

            if (!id || k->id == id)
                return k;
        }
    return NULL;
}

static void inproc_cancel(struct bh_client *base, uint64_t id)
{
    struct inproc_call *k = call_find((struct inproc *)base, id);

    if (k)
        call_cancel(k);
}

static void inproc_free(struct bh_client *base)
{
    struct inproc *c = (struct inproc *)base;

    for (struct inproc_call *k; (k = call_find(c, 0));)
        call_cancel(k);
    bh_timer_stop(&c->pump);
    c->freed = true;
    if (c->pumping)
        return;
    bh_buf_done(&c->url);
    (void)bh_arena_free(c->arena);
    bh_free(c);
}

static const struct bh_client_vtable inproc_vt = {inproc_call, inproc_watch, inproc_cancel,
                                                  inproc_free, inproc_sequence};

struct bh_client *bh_client_new_inproc(struct bh_loop *l, struct bh_apiserver *srv,
                                       struct bh_str user, const struct bh_str *groups,
                                       size_t groups_n, const char *user_agent)
{
    struct inproc *c = bh_calloc(1, sizeof(*c));

    c->base.vt = &inproc_vt;
    c->base.loop = l;
    (void)snprintf(c->base.user_agent, sizeof(c->base.user_agent), "%s", user_agent);
    c->srv = srv;
    c->arena = bh_arena_new(0);
    c->url.max = BH_URL_BYTES_MAX;
    c->user.name = bh_str_dup(c->arena, user);
    c->user.groups.p = bh_new_n(c->arena, struct bh_str, groups_n + 1);
    c->user.groups.n = groups_n;
    for (size_t i = 0; i < groups_n; i++)
        c->user.groups.p[i] = bh_str_dup(c->arena, groups[i]);
    bh_list_init(&c->calls);
    bh_list_init(&c->waiting);
    bh_list_init(&c->starting);
    bh_timer_init(&c->pump, l, pump_run, c);
    return &c->base;
}
