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
    struct bh_err watch_err;       /* what the ERROR event said */
    bool done;
    int busy; /* frames of ours on the stack: the memory must stay until the last returns */
};

static void call_free(struct inproc_call *k)
{
    bh_timer_stop(&k->timeout);
    bh_list_del(&k->link);
    (void)bh_arena_free(k->rq.arena);
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

static void inproc_timeout(void *arg)
{
    struct inproc_call *k = arg;
    struct bh_client_res res = {0};

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

static struct inproc_call *inproc_new_call(struct inproc *c, uint64_t id,
                                           const struct bh_client_req *req, uint64_t watch_rv)
{
    struct inproc_call *k = bh_calloc(1, sizeof(*k));
    struct bh_arena *a = bh_arena_new(0);
    struct bh_buf *url = &c->url;
    struct bh_str rest;

    k->owner = c;
    k->id = id;
    k->rq.arena = a;
    bh_buf_clear(url);
    bh_client_url(url, req, watch_rv);
    rest = bh_str_dup(a, bh_buf_str(url));
    k->rq.method = bh_s(bh_client_method(req->verb));
    k->rq.path = bh_str_cut(&rest, '?');
    k->rq.query = rest;
    if (req->verb == BH_VERB_PATCH)
        k->rq.content_type = bh_s(bh_client_patch_media(req->patch));
    else if (req->body.n)
        k->rq.content_type = BH_S("application/json");
    k->rq.user_agent = bh_str_dup(a, bh_s(c->base.user_agent));
    k->rq.body = bh_str_dup(a, req->body);
    if (req->msg) {
        k->rq.msg = bh_msg_dup_wire(req->msg_kind->type, req->msg, a);
        k->rq.msg_kind = req->msg_kind;
    }
    k->rq.user = &c->user;
    k->rq.objects = true;
    bh_list_add_tail(&c->waiting, &k->link);
    bh_timer_init(&k->timeout, c->base.loop, inproc_timeout, k);
    if (!bh_timer_armed(&c->pump))
        bh_timer_start(&c->pump, 0);
    return k;
}

static void inproc_call(struct bh_client *base, uint64_t id, const struct bh_client_req *req,
                        bh_client_fn fn, void *arg)
{
    struct inproc_call *k = inproc_new_call((struct inproc *)base, id, req, 0);

    k->fn = fn;
    k->arg = arg;
    bh_timer_start(&k->timeout, req->timeout_ms ? req->timeout_ms : INPROC_TIMEOUT_MS);
}

static void inproc_watch(struct bh_client *base, uint64_t id, const struct bh_client_req *req,
                         uint64_t rv, const struct bh_watch_handler *h)
{
    inproc_new_call((struct inproc *)base, id, req, rv)->watch = *h;
}

static void call_cancel(struct inproc_call *k)
{
    bh_list_del(&k->link);
    bh_timer_stop(&k->timeout);
    if (k->srv_id)
        bh_apiserver_cancel(k->owner->srv, k->srv_id);
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
                                                  inproc_free};

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
