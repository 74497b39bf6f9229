/* gRPC client: one connection kept open, calls on it.
 *
 * A connection outlives the client that made it until its stream has said on_close; everything that
 * comes from it is ignored once its client pointer is NULL. A call lives in the client's list, with
 * or without an HTTP/2 stream. Callbacks may free the call, or the whole client: after each one
 * only what a reference holds is touched. */
#include "net/grpc.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/list.h"
#include "net/grpc_wire.h"
#include "net/h2.h"
#include "net/loop.h"
#include "net/stream.h"

#define CONNECT_TIMEOUT_MS 10000
#define BACKOFF_MIN_MS     100
#define BACKOFF_MAX_MS     3000

struct conn {
    struct bh_link link;       /* in the client's draining list */
    struct bh_grpc_client *cl; /* NULL: nobody listens any more */
    struct bh_stream *st;
    struct bh_h2 *h2; /* from on_open on */
    bool busy, closing, was_ready;
    bool draining; /* the server takes no more calls on it; those under way go on */
};

struct bh_grpc_client {
    struct bh_loop *loop;
    struct bh_grpc_client_opts o;
    char *target, *authority;
    struct conn *conn; /* NULL while waiting before the next try */
    struct bh_link draining;
    enum bh_grpc_state state;
    struct bh_timer timer; /* the next try, or the end of waiting for SETTINGS */
    int backoff_ms;
    struct bh_err why; /* of the last failure */
    struct bh_link calls;
    size_t calls_n;
    uint64_t next_id;
    unsigned refs;
    bool closed;
};

/* A unary call and a stream alike. */
struct bh_grpc_stream {
    struct bh_link link;
    struct bh_grpc_client *cl;
    uint64_t id;
    char *method;
    int64_t deadline_ns; /* INT64_MAX: none */
    struct bh_timer timer;
    struct bh_str fail; /* why the timer ends the call, when that is not the deadline */
    struct bh_h2_stream *hs;
    struct bh_buf queued; /* framed requests waiting for the connection */
    bool queued_end;
    struct bh_grpc_deframer in;
    struct bh_arena *arena; /* status message and unary reply */
    struct bh_str body;
    bool has_body, got_headers, got_status;
    int http_status;
    enum bh_grpc_status status;
    struct bh_str message;

    bh_grpc_unary_fn fn; /* unary */
    struct bh_grpc_stream_ops ops;
    void *arg;
    bool unary;
    bool in_callback, dead; /* freed by the owner inside its own callback */
    bool ending;
};

static void client_unref(struct bh_grpc_client *c)
{
    if (--c->refs > 0)
        return;
    bh_free(c->target);
    bh_free(c->authority);
    (void)bh_tls_unref(c->o.tls);
    bh_free(c);
}

/* ---- output ---- */

static void conn_flush(struct conn *c)
{
    bool more;

    if (!c->h2)
        return;
    c->busy = true;
    more = !c->closing && bh_h2_pour(c->h2, c->st);
    c->busy = false;
    if (!c->closing && !more && bh_h2_done(c->h2)) {
        c->closing = true;
        bh_stream_close(c->st);
    }
}

static void on_output(void *arg)
{
    struct conn *c = arg;

    if (!c->busy)
        conn_flush(c);
}

/* ---- calls ---- */

static void call_free(struct bh_grpc_stream *s)
{
    if (s->in_callback) {
        s->dead = true;
        return;
    }
    bh_grpc_deframer_done(&s->in);
    bh_buf_done(&s->queued);
    (void)bh_arena_free(s->arena);
    bh_free(s->method);
    bh_free(s);
}

/* Takes the call off everything that could still call it. */
static void call_detach(struct bh_grpc_stream *s, bool reset)
{
    struct bh_h2_stream *hs = s->hs;

    bh_timer_stop(&s->timer);
    if (bh_link_on(&s->link)) {
        bh_list_del(&s->link);
        s->cl->calls_n--;
    }
    s->hs = NULL;
    s->ending = true;
    if (hs) {
        bh_h2_set_user(hs, NULL);
        if (reset)
            bh_h2_reset(hs, BH_H2_CANCEL);
    }
}

/* The end of a call: tells the owner and frees it. */
static void call_end(struct bh_grpc_stream *s, enum bh_grpc_status st, struct bh_str message)
{
    struct bh_grpc_result res = {.status = st, .message = message};

    if (s->ending)
        return;
    call_detach(s, true);
    if (st == BH_GRPC_OK && s->unary && !s->has_body) {
        res.status = BH_GRPC_INTERNAL;
        res.message = BH_S("the reply holds no message");
    }
    if (res.status == BH_GRPC_OK)
        res.body = s->body;
    if (s->in_callback) /* inside a message callback the owner's end comes after it returns: see
                           deliver() */
        bh_assert(!"a call ends only after its message callback");
    s->in_callback = true;
    if (s->unary && s->fn)
        s->fn(s->arg, &res);
    else if (!s->unary && s->ops.ended)
        s->ops.ended(s->arg, res.status, res.message);
    s->in_callback = false;
    call_free(s);
}

static void call_timer(void *arg)
{
    struct bh_grpc_stream *s = arg;

    if (s->fail.n > 0)
        call_end(s, BH_GRPC_UNAVAILABLE, s->fail);
    else
        call_end(s, BH_GRPC_DEADLINE_EXCEEDED, BH_S("context deadline exceeded"));
}

/* Ends a call from the loop, never inside the function that started it. */
static void call_fail_soon(struct bh_grpc_stream *s, struct bh_str why)
{
    s->fail = bh_str_dup(s->arena, why.n > 0 ? why : BH_S("not connected"));
    bh_timer_start_ns(&s->timer, 0);
}

/* The connection can take a call now; otherwise the call waits for one that can. */
static bool can_start(const struct bh_grpc_client *c)
{
    return c->conn && c->conn->was_ready && !c->conn->closing;
}

static void call_send_headers(struct bh_grpc_stream *s)
{
    struct bh_grpc_client *c = s->cl;
    struct bh_h2_header h[8];
    size_t n = 0;

    h[n++] = (struct bh_h2_header){BH_S(":method"), BH_S("POST")};
    h[n++] = (struct bh_h2_header){BH_S(":scheme"), c->o.tls ? BH_S("https") : BH_S("http")};
    h[n++] = (struct bh_h2_header){BH_S(":path"), bh_s(s->method)};
    h[n++] = (struct bh_h2_header){BH_S(":authority"), bh_s(c->authority)};
    h[n++] = (struct bh_h2_header){BH_S("content-type"), BH_S("application/grpc")};
    h[n++] = (struct bh_h2_header){BH_S("te"), BH_S("trailers")};
    h[n++] = (struct bh_h2_header){BH_S("user-agent"), BH_S("bulkhead")};
    if (s->deadline_ns != INT64_MAX)
        h[n++] = (struct bh_h2_header){
            BH_S("grpc-timeout"),
            bh_grpc_timeout_format(s->arena,
                                   (s->deadline_ns - bh_loop_mono_ns(c->loop)) / 1000000)};
    s->hs = bh_h2_open(c->conn->h2, h, n, false, s);
}

/* The connection is ready: sends what waited. */
static void call_start(struct bh_grpc_stream *s)
{
    struct conn *cn = s->cl->conn;
    bool was_busy = cn->busy;

    cn->busy = true; /* one flush at the end */
    call_send_headers(s);
    if (!s->hs || (s->queued.n > 0 && bh_h2_send(s->hs, bh_buf_str(&s->queued)) < 0)) {
        /* Too many calls under way, or the server is going away. */
        call_fail_soon(s, BH_S("the connection takes no more calls"));
    } else if (s->queued_end) {
        bh_h2_send_end(s->hs, NULL, 0);
    }
    bh_buf_done(&s->queued);
    cn->busy = was_busy;
    if (!was_busy)
        conn_flush(cn);
}

static struct bh_grpc_stream *call_new(struct bh_grpc_client *c, const char *method, int timeout_ms)
{
    struct bh_grpc_stream *s = bh_calloc(1, sizeof(*s));
    int64_t now = bh_loop_mono_ns(c->loop);

    s->cl = c;
    s->id = ++c->next_id;
    s->method = bh_strdup_c(bh_s(method));
    s->arena = bh_arena_new(0);
    s->queued.max = BH_GRPC_MESSAGE_MAX + 16;
    s->deadline_ns = timeout_ms > 0 ? now + (int64_t)timeout_ms * 1000000 : INT64_MAX;
    bh_timer_init(&s->timer, c->loop, call_timer, s);
    bh_list_add_tail(&c->calls, &s->link);
    c->calls_n++;
    if (c->state == BH_GRPC_FAILED)
        call_fail_soon(s, bh_s(c->why.msg));
    else if (c->calls_n > BH_STREAMS_MAX)
        call_fail_soon(s, BH_S("too many calls under way"));
    else if (timeout_ms > 0)
        bh_timer_start(&s->timer, timeout_ms);
    return s;
}

uint64_t bh_grpc_unary(struct bh_grpc_client *c, const char *method, struct bh_str msg,
                       int timeout_ms, bh_grpc_unary_fn fn, void *arg)
{
    struct bh_grpc_stream *s = call_new(c, method, timeout_ms);

    s->unary = true;
    s->fn = fn;
    s->arg = arg;
    s->queued_end = true;
    bh_grpc_frame(&s->queued, msg);
    if (s->queued.overflow) {
        bh_buf_done(&s->queued);
        call_fail_soon(s, BH_S("the request is too large"));
    } else if (s->fail.n == 0 && can_start(c)) {
        call_start(s);
    }
    return s->id;
}

void bh_grpc_cancel(struct bh_grpc_client *c, uint64_t id)
{
    bh_list_for(it, &c->calls)
    {
        struct bh_grpc_stream *s = bh_container(it, struct bh_grpc_stream, link);

        if (s->id != id)
            continue;
        call_detach(s, true);
        call_free(s);
        return;
    }
}

struct bh_grpc_stream *bh_grpc_stream_open(struct bh_grpc_client *c, const char *method,
                                           int timeout_ms, const struct bh_grpc_stream_ops *ops,
                                           void *arg)
{
    struct bh_grpc_stream *s = call_new(c, method, timeout_ms);

    s->ops = *ops;
    s->arg = arg;
    if (s->fail.n == 0 && can_start(c))
        call_start(s);
    return s;
}

int bh_grpc_stream_send(struct bh_grpc_stream *s, struct bh_str msg)
{
    BH_AUTO_BUF out = {.max = BH_GRPC_MESSAGE_MAX + 16};

    if (s->ending || s->queued_end)
        return -BH_E_CANCELED;
    if (msg.n > BH_GRPC_MESSAGE_MAX)
        return -BH_E_LIMIT;
    if (!s->hs) {
        if (s->queued.n + msg.n + 5 > s->queued.max)
            return -BH_E_LIMIT;
        bh_grpc_frame(&s->queued, msg);
        return 0;
    }
    bh_grpc_frame(&out, msg);
    return bh_h2_send(s->hs, bh_buf_str(&out));
}

void bh_grpc_stream_close_send(struct bh_grpc_stream *s)
{
    s->queued_end = true;
    if (s->hs)
        bh_h2_send_end(s->hs, NULL, 0);
}

struct bh_grpc_stream *bh_grpc_stream_free(struct bh_grpc_stream *s)
{
    if (!s)
        return NULL;
    if (!s->ending)
        call_detach(s, true);
    call_free(s);
    return NULL;
}

/* ---- replies ---- */

static void take_status(struct bh_grpc_stream *s, const struct bh_h2_header *h, size_t n)
{
    const struct bh_str *v = bh_grpc_header(h, n, "grpc-status");
    int64_t code;

    if (!v)
        return;
    s->got_status = true;
    s->status = bh_str_i64(*v, 0, 16, &code) ? (enum bh_grpc_status)code : BH_GRPC_UNKNOWN;
    v = bh_grpc_header(h, n, "grpc-message");
    if (v)
        s->message = bh_grpc_message_decode(s->arena, *v);
}

static void on_headers(void *arg, struct bh_h2_stream *hs, const struct bh_h2_header *h, size_t n,
                       bool trailers)
{
    struct bh_grpc_stream *s = bh_h2_user(hs);
    const struct bh_str *v;
    int64_t code = 0;

    (void)arg;
    if (!s)
        return;
    if (!trailers) {
        v = bh_grpc_header(h, n, ":status");
        if (v && bh_str_i64(*v, 100, 999, &code))
            s->http_status = (int)code;
        s->got_headers = true;
    }
    take_status(s, h, n);
}

/* Hands one message to its owner; false when the call is gone. */
static bool deliver(struct bh_grpc_stream *s, struct bh_str msg)
{
    if (s->unary) {
        if (s->has_body) {
            call_end(s, BH_GRPC_INTERNAL, BH_S("more than one reply message"));
            return false;
        }
        s->has_body = true;
        s->body = bh_str_dup(s->arena, msg);
        return true;
    }
    if (!s->ops.message)
        return true;
    s->in_callback = true;
    s->ops.message(s->arg, msg);
    s->in_callback = false;
    if (!s->dead)
        return true;
    call_free(s);
    return false;
}

static void on_data(void *arg, struct bh_h2_stream *hs, struct bh_str bytes)
{
    struct bh_grpc_stream *s = bh_h2_user(hs);
    struct bh_err err = {0};
    struct bh_str msg;
    int r = 0;

    (void)arg;
    bh_h2_consume(hs, bytes.n);
    if (!s || s->http_status != 200)
        return;
    while (bytes.n > 0 && (r = bh_grpc_deframe(&s->in, &bytes, &msg, &err)) > 0)
        if (!deliver(s, msg))
            return;
    if (r < 0)
        call_end(s, r == -BH_E_LIMIT ? BH_GRPC_RESOURCE_EXHAUSTED : BH_GRPC_INTERNAL,
                 bh_s(err.msg));
}

static void on_end(void *arg, struct bh_h2_stream *hs)
{
    struct bh_grpc_stream *s = bh_h2_user(hs);

    (void)arg;
    if (!s)
        return;
    if (s->got_status)
        call_end(s, s->status, s->message);
    else if (s->http_status != 200)
        call_end(s, bh_grpc_status_of_http(s->http_status),
                 bh_str_fmt(s->arena, "HTTP status %d", s->http_status));
    else
        call_end(s, BH_GRPC_INTERNAL, BH_S("the server ended the reply without a status"));
}

static void on_closed(void *arg, struct bh_h2_stream *hs, uint32_t code)
{
    struct bh_grpc_stream *s = bh_h2_user(hs);
    struct conn *cn = arg;

    if (!s)
        return;
    s->hs = NULL;
    if (cn->closing)
        call_end(s, BH_GRPC_UNAVAILABLE,
                 bh_str_dup(s->arena, cn->cl && cn->cl->why.msg[0] ? bh_s(cn->cl->why.msg)
                                                                   : BH_S("connection lost")));
    else
        call_end(s, bh_grpc_status_of_reset(code), BH_S("the server reset the call"));
}

/* ---- connection ---- */

static void client_connect(struct bh_grpc_client *c);
static void connection_lost(struct bh_grpc_client *c, bool was_ready);

static void set_state(struct bh_grpc_client *c, enum bh_grpc_state st, const struct bh_err *why)
{
    if (c->state == st || c->closed)
        return;
    c->state = st;
    if (c->o.state)
        c->o.state(c->o.arg, st, why);
}

static void on_ready(void *arg)
{
    struct conn *cn = arg;
    struct bh_grpc_client *c = cn->cl;

    if (!c)
        return;
    cn->was_ready = true;
    c->backoff_ms = 0;
    bh_timer_stop(&c->timer);
    c->refs++;
    c->state = BH_GRPC_READY;
    bh_list_for_safe(it, &c->calls)
    {
        struct bh_grpc_stream *s = bh_container(it, struct bh_grpc_stream, link);

        if (!s->hs && s->fail.n == 0)
            call_start(s);
    }
    if (c->o.state)
        c->o.state(c->o.arg, BH_GRPC_READY, NULL);
    client_unref(c);
}

/* The server goes away in good order: another connection for new calls, this one for those that
 * have begun. */
static void on_goaway(void *arg, uint32_t code)
{
    struct conn *cn = arg;
    struct bh_grpc_client *c = cn->cl;

    (void)code;
    if (!c || c->conn != cn || !cn->was_ready)
        return;
    cn->draining = true;
    bh_list_add_tail(&c->draining, &cn->link);
    c->conn = NULL;
    c->why = (struct bh_err){.code = BH_E_UNAVAILABLE, .msg = "the server is going away"};
    connection_lost(c, true);
}

static const struct bh_h2_ops h2_ops = {.headers = on_headers,
                                        .data = on_data,
                                        .end = on_end,
                                        .closed = on_closed,
                                        .output = on_output,
                                        .ready = on_ready,
                                        .goaway = on_goaway};

static void st_open(void *arg)
{
    struct conn *c = arg;
    const struct bh_h2_opts o = {.server = false};

    if (!c->cl)
        return;
    c->h2 = bh_h2_new(&o, &h2_ops, c);
    conn_flush(c);
}

static void st_read(void *arg, struct bh_str data)
{
    struct conn *c = arg;
    struct bh_err err = {0};
    int r;

    if (!c->h2 || c->closing)
        return;
    c->busy = true;
    r = bh_h2_feed(c->h2, data, &err);
    c->busy = false;
    conn_flush(c);
    if (r < 0 && !c->closing) {
        c->closing = true;
        bh_stream_abort(c->st, &err);
    }
}

static void st_drain(void *arg)
{
    conn_flush(arg);
}

/* Ends every call that waits for a connection, because there is none for now; not those that the
 * callbacks start. */
static void fail_waiting(struct bh_grpc_client *c)
{
    uint64_t last = c->next_id;

    c->refs++;
    while (!c->closed && !bh_list_empty(&c->calls)) {
        struct bh_grpc_stream *s = bh_container(c->calls.next, struct bh_grpc_stream, link);

        if (s->id > last)
            break;
        call_end(s, BH_GRPC_UNAVAILABLE, bh_str_dup(s->arena, bh_s(c->why.msg)));
    }
    client_unref(c);
}

static void try_again(void *arg)
{
    struct bh_grpc_client *c = arg;

    if (c->conn) { /* connected, but the server has not said a word */
        const struct bh_err e = {.code = BH_E_TIMEOUT,
                                 .msg = "the server did not answer the connection in time"};

        bh_stream_abort(c->conn->st, &e);
        return;
    }
    c->refs++;
    set_state(c, BH_GRPC_CONNECTING, NULL);
    if (!c->closed)
        client_connect(c);
    client_unref(c);
}

/* A connection that had worked is replaced at once; one that failed to come about only after a
 * pause. */
static void connection_lost(struct bh_grpc_client *c, bool was_ready)
{
    if (was_ready) {
        c->backoff_ms = 0;
        set_state(c, BH_GRPC_CONNECTING, &c->why);
        if (!c->closed)
            bh_timer_start(&c->timer, 0);
        return;
    }
    c->backoff_ms = c->backoff_ms == 0 ? c->o.backoff_min_ms : c->backoff_ms * 2;
    if (c->backoff_ms > c->o.backoff_max_ms)
        c->backoff_ms = c->o.backoff_max_ms;
    bh_timer_start(&c->timer, c->backoff_ms * 3 / 4 +
                                  (int64_t)(bh_loop_random(c->loop) % (uint64_t)c->backoff_ms) / 2);
    set_state(c, BH_GRPC_FAILED, &c->why);
    if (!c->closed)
        fail_waiting(c);
}

static void st_close(void *arg, const struct bh_err *err)
{
    struct conn *cn = arg;
    struct bh_grpc_client *c = cn->cl;
    bool was_ready = cn->was_ready;
    bool draining = cn->draining;

    cn->closing = true;
    cn->busy = true;
    bh_list_del(&cn->link);
    if (c)
        c->refs++;
    if (c && !draining) {
        c->conn = NULL;
        bh_timer_stop(&c->timer);
        c->why = *err;
        if (c->why.code == BH_OK)
            c->why = (struct bh_err){.code = BH_E_UNAVAILABLE,
                                     .msg = "the server closed the connection"};
    }
    cn->h2 = bh_h2_free(cn->h2); /* ends the calls on it */
    bh_free(cn);
    if (!c)
        return;
    if (!c->closed && !draining)
        connection_lost(c, was_ready);
    client_unref(c);
}

static const struct bh_stream_ops st_ops = {
    .on_open = st_open, .on_read = st_read, .on_drain = st_drain, .on_close = st_close};

/* Splits "host:port" and "[v6]:port". */
static bool split_target(struct bh_str t, char *host, size_t host_n, int *ret_port)
{
    size_t colon = t.n;
    int64_t port;
    struct bh_str h;

    while (colon > 0 && t.p[colon - 1] != ':')
        colon--;
    if (colon < 2 || !bh_str_i64(bh_str_sub(t, colon, t.n), 1, 65535, &port))
        return false;
    h = bh_str_sub(t, 0, colon - 1);
    if (h.n > 2 && h.p[0] == '[' && h.p[h.n - 1] == ']')
        h = bh_str_sub(h, 1, h.n - 1);
    if (h.n == 0 || h.n >= host_n)
        return false;
    memcpy(host, h.p, h.n);
    host[h.n] = '\0';
    *ret_port = (int)port;
    return true;
}

static void client_connect(struct bh_grpc_client *c)
{
    struct bh_connect_opts o = {.timeout_ms = c->o.connect_timeout_ms, .tls = c->o.tls};
    struct conn *cn = bh_calloc(1, sizeof(*cn));
    struct bh_str t = bh_s(c->target);
    char host[256];

    cn->cl = c;
    c->why = (struct bh_err){.code = BH_E_UNAVAILABLE, .msg = "bad target"};
    if (bh_str_starts(t, BH_S("unix:"))) {
        o.unix_path = c->target + sizeof("unix:") - 1;
        cn->st = bh_stream_connect(c->loop, &o, &st_ops, cn, &c->why);
    } else if (split_target(t, host, sizeof(host), &o.port)) {
        o.host = host;
        cn->st = bh_stream_connect(c->loop, &o, &st_ops, cn, &c->why);
    }
    if (cn->st) {
        c->conn = cn;
        bh_timer_start(&c->timer,
                       c->o.connect_timeout_ms + 100); /* covers the wait for SETTINGS too */
        return;
    }
    bh_free(cn);
    connection_lost(c, false);
}

struct bh_grpc_client *bh_grpc_client_new(struct bh_loop *l, const struct bh_grpc_client_opts *o)
{
    struct bh_grpc_client *c = bh_calloc(1, sizeof(*c));

    c->loop = l;
    c->o = *o;
    c->target = bh_strdup_c(bh_s(o->target));
    c->authority = bh_strdup_c(o->authority ? bh_s(o->authority) : BH_S("localhost"));
    if (c->o.tls)
        (void)bh_tls_ref(c->o.tls);
    if (c->o.connect_timeout_ms <= 0)
        c->o.connect_timeout_ms = CONNECT_TIMEOUT_MS;
    if (c->o.backoff_min_ms <= 0)
        c->o.backoff_min_ms = BACKOFF_MIN_MS;
    if (c->o.backoff_max_ms <= 0)
        c->o.backoff_max_ms = BACKOFF_MAX_MS;
    c->refs = 1;
    c->state = BH_GRPC_CONNECTING;
    bh_list_init(&c->calls);
    bh_list_init(&c->draining);
    bh_timer_init(&c->timer, l, try_again, c);
    bh_timer_start(&c->timer,
                   0); /* the first try comes from the loop, so that no callback runs in here */
    return c;
}

static void conn_abandon(struct conn *cn)
{
    bh_list_del(&cn->link);
    cn->cl = NULL;
    cn->closing = true;
    if (cn->busy) {
        bh_stream_abort(cn->st, NULL); /* on_close frees it */
        return;
    }
    /* At once: a loop that ends now calls no on_close. */
    cn->busy = true;
    bh_stream_set_ops(cn->st, NULL, NULL);
    bh_stream_abort(cn->st, NULL);
    cn->h2 = bh_h2_free(cn->h2);
    bh_free(cn);
}

struct bh_grpc_client *bh_grpc_client_free(struct bh_grpc_client *c)
{
    if (!c)
        return NULL;
    c->closed = true;
    bh_timer_stop(&c->timer);
    while (!bh_list_empty(&c->calls)) {
        struct bh_grpc_stream *s = bh_container(c->calls.next, struct bh_grpc_stream, link);

        call_detach(s, false);
        call_free(s);
    }
    if (c->conn)
        conn_abandon(c->conn);
    c->conn = NULL;
    while (!bh_list_empty(&c->draining))
        conn_abandon(bh_container(c->draining.next, struct conn, link));
    client_unref(c);
    return NULL;
}

enum bh_grpc_state bh_grpc_client_state(const struct bh_grpc_client *c)
{
    return c->state;
}
