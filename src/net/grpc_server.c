/* gRPC server: connections accepted on unix sockets, calls with deadlines, answers now or later.
 *
 * A call has two sides. The wire side is its HTTP/2 stream, which ends when the peer or the answer
 * ends it. The handler's side begins when the handler is called and ends with finish. The call is
 * freed when both are over, in either order. */
#include "net/grpc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "net/grpc_wire.h"
#include "net/h2.h"
#include "net/loop.h"
#include "net/stream.h"

#define LISTENERS_MAX 8

struct method {
    bh_grpc_handler fn;
    void *arg;
};

struct bh_grpc_server {
    struct bh_loop *loop;
    struct bh_map methods;
    struct bh_listener *listeners[LISTENERS_MAX];
    size_t listeners_n;
    struct bh_link conns;
    bool (*admit)(void *arg, struct bh_str method);
    const char *admit_message;
    void *admit_arg;
};

struct conn {
    struct bh_link link;
    struct bh_grpc_server *srv; /* NULL once the server is freed */
    struct bh_stream *st;
    struct bh_h2 *h2;
    size_t buffered; /* request bytes held by the deframers of this connection */
    bool busy, dirty, closing;
};

struct bh_grpc_call {
    struct conn *conn;       /* NULL when hs is */
    struct bh_h2_stream *hs; /* NULL once the wire side is over */
    struct bh_grpc_server *srv;
    struct bh_loop *loop;
    struct bh_arena *arena;
    struct bh_str method;
    const struct method *m;
    struct bh_grpc_deframer in;
    struct bh_str msg;
    size_t counted; /* bytes of ours in conn->buffered */
    bool hold;      /* a function of ours is still using the call: nobody frees it */
    bool has_msg, started, finished, responded, answered, cancelled;
    struct bh_timer timer;
    int64_t deadline_ns;
    void (*on_cancel)(void *arg);
    void *cancel_arg;
};

/* ---- output ---- */

static void conn_flush(struct conn *c)
{
    bool more;

    c->busy = true;
    c->dirty = false;
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

    if (c->busy)
        c->dirty = true;
    else
        conn_flush(c);
}

/* ---- the end of a call ---- */

static void call_free_if_over(struct bh_grpc_call *c)
{
    if (c->hold || c->hs || (c->started && !c->finished))
        return;
    bh_timer_stop(&c->timer);
    bh_grpc_deframer_done(&c->in);
    (void)bh_arena_free(c->arena);
    bh_free(c);
}

static void call_count(struct bh_grpc_call *c, size_t bytes)
{
    if (!c->conn)
        return;
    c->conn->buffered = c->conn->buffered - c->counted + bytes;
    c->counted = bytes;
}

/* Status and message as trailers, or as the only headers when nothing was sent before. */
static void wire_end(struct bh_grpc_call *c, enum bh_grpc_status st, struct bh_str message)
{
    struct bh_h2_header h[4];
    size_t n = 0;

    if (!c->hs || c->answered)
        return;
    c->answered = true;
    bh_timer_stop(&c->timer);
    if (!c->responded) {
        h[n++] = (struct bh_h2_header){BH_S(":status"), BH_S("200")};
        h[n++] = (struct bh_h2_header){BH_S("content-type"), BH_S("application/grpc")};
    }
    h[n++] = (struct bh_h2_header){BH_S("grpc-status"), bh_str_fmt(c->arena, "%d", (int)st)};
    if (message.n > 0)
        h[n++] =
            (struct bh_h2_header){BH_S("grpc-message"), bh_grpc_message_encode(c->arena, message)};
    if (c->responded)
        bh_h2_send_end(c->hs, h, n);
    else if (bh_h2_respond(c->hs, h, n, true) < 0)
        bh_h2_reset(c->hs, BH_H2_INTERNAL);
}

static void call_cancel(struct bh_grpc_call *c)
{
    if (c->cancelled || c->finished || !c->started)
        return;
    c->cancelled = true;
    if (c->on_cancel)
        c->on_cancel(c->cancel_arg);
}

static void on_deadline(void *arg)
{
    struct bh_grpc_call *c = arg;

    c->hold = true;
    wire_end(c, BH_GRPC_DEADLINE_EXCEEDED, BH_S("context deadline exceeded"));
    call_cancel(c);
    c->hold = false;
    call_free_if_over(c);
}

/* ---- requests ---- */

static struct bh_grpc_call *call_new(struct conn *cn, struct bh_h2_stream *hs)
{
    struct bh_grpc_call *c = bh_calloc(1, sizeof(*c));

    c->conn = cn;
    c->hs = hs;
    c->srv = cn->srv;
    c->loop = bh_stream_loop(cn->st);
    c->arena = bh_arena_new(0);
    c->deadline_ns = INT64_MAX;
    bh_timer_init(&c->timer, c->loop, on_deadline, c);
    bh_h2_set_user(hs, c);
    return c;
}

static bool content_type_ok(const struct bh_str *v)
{
    static const struct bh_str want = BH_S_INIT("application/grpc");

    return v && bh_str_starts(*v, want) &&
           (v->n == want.n || v->p[want.n] == '+' || v->p[want.n] == ';');
}

/* Not a gRPC request: a plain HTTP answer. */
static void refuse_http(struct bh_grpc_call *c, const char *status)
{
    struct bh_h2_header h = {BH_S(":status"), bh_s(status)};

    c->answered = true;
    if (bh_h2_respond(c->hs, &h, 1, true) < 0)
        bh_h2_reset(c->hs, BH_H2_INTERNAL);
}

static void on_headers(void *arg, struct bh_h2_stream *hs, const struct bh_h2_header *h, size_t n,
                       bool trailers)
{
    struct conn *cn = arg;
    struct bh_grpc_call *c;
    const struct bh_str *v;
    int64_t ns;

    if (trailers)
        return;
    if (!cn->srv) {
        bh_h2_reset(hs, BH_H2_REFUSED);
        return;
    }
    c = call_new(cn, hs);
    v = bh_grpc_header(h, n, ":method");
    if (!v || !bh_str_eqc(*v, "POST")) {
        refuse_http(c, "405");
        return;
    }
    if (!content_type_ok(bh_grpc_header(h, n, "content-type"))) {
        refuse_http(c, "415");
        return;
    }
    v = bh_grpc_header(h, n, ":path");
    c->method = bh_str_dup(c->arena, v ? *v : (struct bh_str){NULL, 0});
    c->m = bh_map_get(&cn->srv->methods, c->method);
    if (!c->m) {
        wire_end(c, BH_GRPC_UNIMPLEMENTED,
                 bh_str_fmt(c->arena, "unknown method %.*s", BH_SF(c->method)));
        return;
    }
    v = bh_grpc_header(h, n, "grpc-timeout");
    if (v && !bh_grpc_timeout_parse(*v, &ns)) {
        wire_end(c, BH_GRPC_INTERNAL, BH_S("malformed grpc-timeout"));
        return;
    }
    if (v) {
        c->deadline_ns = bh_loop_mono_ns(c->loop) + ns;
        bh_timer_start_ns(&c->timer, ns);
    }
}

static void on_data(void *arg, struct bh_h2_stream *hs, struct bh_str bytes)
{
    struct conn *cn = arg;
    struct bh_grpc_call *c = bh_h2_user(hs);
    struct bh_str msg;
    struct bh_err err = {0};
    size_t n = bytes.n;
    int r = 0;

    bh_h2_consume(hs, n);
    if (!c || c->answered || c->started)
        return;
    while (bytes.n > 0 && (r = bh_grpc_deframe(&c->in, &bytes, &msg, &err)) > 0) {
        if (c->has_msg) {
            wire_end(c, BH_GRPC_INTERNAL, BH_S("more than one request message"));
            return;
        }
        c->has_msg = true;
        c->msg = bh_str_dup(c->arena, msg);
        bh_grpc_deframer_done(&c->in);
    }
    call_count(c, c->msg.n + c->in.buf.n);
    if (r < 0)
        wire_end(c, r == -BH_E_UNSUPPORTED ? BH_GRPC_UNIMPLEMENTED : bh_grpc_status_of(err.code),
                 bh_s(err.msg));
    else if (cn->buffered > BH_GRPC_CONN_BYTES_MAX)
        wire_end(c, BH_GRPC_RESOURCE_EXHAUSTED, BH_S("too many request bytes on one connection"));
}

static void on_end(void *arg, struct bh_h2_stream *hs)
{
    struct conn *cn = arg;
    struct bh_grpc_call *c = bh_h2_user(hs);
    struct bh_grpc_server *srv = cn->srv;

    if (!c || c->answered || c->started || !srv)
        return;
    if (!c->has_msg || bh_grpc_deframer_pending(&c->in) > 0) {
        wire_end(c, BH_GRPC_INTERNAL, BH_S("the request message is not complete"));
        return;
    }
    if (srv->admit && !srv->admit(srv->admit_arg, c->method)) {
        wire_end(c, BH_GRPC_RESOURCE_EXHAUSTED, bh_s(srv->admit_message));
        return;
    }
    c->started = true;
    c->m->fn(c->m->arg, c);
}

static void on_closed(void *arg, struct bh_h2_stream *hs, uint32_t code)
{
    struct bh_grpc_call *c = bh_h2_user(hs);

    (void)arg;
    (void)code;
    if (!c)
        return;
    call_count(c, 0);
    c->hs = NULL;
    c->conn = NULL;
    if (c->hold)
        return; /* our own answer ended the stream */
    bh_timer_stop(&c->timer);
    c->hold = true;
    call_cancel(c);
    c->hold = false;
    call_free_if_over(c);
}

static const struct bh_h2_ops h2_ops = {.headers = on_headers,
                                        .data = on_data,
                                        .end = on_end,
                                        .closed = on_closed,
                                        .output = on_output};

/* ---- connections ---- */

static void st_read(void *arg, struct bh_str data)
{
    struct conn *c = arg;
    struct bh_err err = {0};
    int r;

    if (c->closing)
        return;
    c->busy = true;
    r = bh_h2_feed(c->h2, data, &err);
    c->busy = false;
    conn_flush(c);
    if (r < 0 && !c->closing) {
        bh_log(BH_DEBUG, "gRPC connection ended", BH_CSTR("why", err.msg));
        c->closing = true;
        bh_stream_close(c->st);
    }
}

static void st_drain(void *arg)
{
    conn_flush(arg);
}

static void st_close(void *arg, const struct bh_err *err)
{
    struct conn *c = arg;

    (void)err;
    c->closing = true;
    c->busy = true;
    bh_list_del(&c->link);
    c->h2 = bh_h2_free(c->h2);
    bh_free(c);
}

static const struct bh_stream_ops st_ops = {
    .on_read = st_read, .on_drain = st_drain, .on_close = st_close};

static void on_accept(void *arg, struct bh_stream *st)
{
    struct bh_grpc_server *s = arg;
    struct conn *c = bh_calloc(1, sizeof(*c));
    const struct bh_h2_opts o = {.server = true};

    c->srv = s;
    c->st = st;
    bh_list_add_tail(&s->conns, &c->link);
    bh_stream_set_ops(st, &st_ops, c);
    c->h2 = bh_h2_new(&o, &h2_ops, c);
    conn_flush(c);
}

/* ---- server ---- */

struct bh_grpc_server *bh_grpc_server_new(struct bh_loop *l)
{
    struct bh_grpc_server *s = bh_calloc(1, sizeof(*s));

    s->loop = l;
    bh_list_init(&s->conns);
    return s;
}

struct bh_grpc_server *bh_grpc_server_free(struct bh_grpc_server *s)
{
    void *m;

    if (!s)
        return NULL;
    for (size_t i = 0; i < s->listeners_n; i++)
        (void)bh_listener_free(s->listeners[i]);
    while (!bh_list_empty(&s->conns)) {
        struct conn *c = bh_container(s->conns.next, struct conn, link);

        bh_list_del(&c->link);
        c->srv = NULL;
        c->closing = true;
        bh_stream_abort(c->st, NULL);
    }
    for (size_t it = 0; bh_map_next(&s->methods, &it, NULL, &m);)
        bh_free(m);
    bh_map_done(&s->methods);
    bh_free(s);
    return NULL;
}

void bh_grpc_server_drain(struct bh_grpc_server *s)
{
    for (size_t i = 0; i < s->listeners_n; i++)
        (void)bh_listener_free(s->listeners[i]);
    s->listeners_n = 0;
    bh_list_for(it, &s->conns)
    {
        struct conn *c = bh_container(it, struct conn, link);

        if (!c->closing)
            bh_h2_shutdown(c->h2, BH_H2_NO_ERROR);
    }
}

void bh_grpc_server_method(struct bh_grpc_server *s, const char *method, bh_grpc_handler fn,
                           void *arg)
{
    struct method *m = bh_calloc(1, sizeof(*m));

    m->fn = fn;
    m->arg = arg;
    bh_assert(!bh_map_put(&s->methods, bh_s(method), m));
}

int bh_grpc_server_listen_unix(struct bh_grpc_server *s, const char *path, unsigned mode,
                               struct bh_err *err)
{
    const struct bh_listen_opts o = {.unix_path = path, .unix_mode = mode};

    bh_assert(s->listeners_n < LISTENERS_MAX);
    s->listeners[s->listeners_n] = bh_listen(s->loop, &o, on_accept, s, err);
    if (!s->listeners[s->listeners_n])
        return err ? -(int)err->code : -BH_E_IO;
    s->listeners_n++;
    return 0;
}

void bh_grpc_server_admit(struct bh_grpc_server *s, bool (*fn)(void *arg, struct bh_str method),
                          const char *message, void *arg)
{
    s->admit = fn;
    s->admit_message = message;
    s->admit_arg = arg;
}

/* ---- calls ---- */

struct bh_str bh_grpc_call_request(const struct bh_grpc_call *c)
{
    return c->msg;
}
struct bh_str bh_grpc_call_method(const struct bh_grpc_call *c)
{
    return c->method;
}
struct bh_arena *bh_grpc_call_arena(struct bh_grpc_call *c)
{
    return c->arena;
}
int64_t bh_grpc_call_deadline_ns(const struct bh_grpc_call *c)
{
    return c->deadline_ns;
}
bool bh_grpc_call_cancelled(const struct bh_grpc_call *c)
{
    return c->cancelled || !c->hs || c->answered;
}

void bh_grpc_call_on_cancel(struct bh_grpc_call *c, void (*fn)(void *arg), void *arg)
{
    c->on_cancel = fn;
    c->cancel_arg = arg;
}

int bh_grpc_call_send(struct bh_grpc_call *c, struct bh_str msg)
{
    BH_AUTO_BUF out = {.max = BH_GRPC_MESSAGE_MAX + 16};
    const struct bh_h2_header h[] = {{BH_S(":status"), BH_S("200")},
                                     {BH_S("content-type"), BH_S("application/grpc")}};

    bh_assert(c->started && !c->finished);
    if (!c->hs || c->answered)
        return -BH_E_CANCELED;
    if (msg.n > BH_GRPC_MESSAGE_MAX)
        return -BH_E_LIMIT;
    if (!c->responded) {
        if (bh_h2_respond(c->hs, h, BH_COUNT(h), false) < 0)
            return -BH_E_CANCELED;
        c->responded = true;
    }
    bh_grpc_frame(&out, msg);
    return bh_h2_send(c->hs, bh_buf_str(&out));
}

size_t bh_grpc_call_unsent(const struct bh_grpc_call *c)
{
    return c->hs ? bh_h2_unsent(c->hs) : 0;
}

static void call_finish(struct bh_grpc_call *c, enum bh_grpc_status st, struct bh_str message)
{
    bh_assert(c->started && !c->finished);
    c->finished = true;
    if (c->hold) { /* finished inside its own cancel callback */
        wire_end(c, st, message);
        return;
    }
    c->hold = true;
    wire_end(c, st, message);
    c->hold = false;
    call_free_if_over(c);
}

void bh_grpc_call_reply(struct bh_grpc_call *c, struct bh_str msg)
{
    int r = bh_grpc_call_send(c, msg);

    if (r == -BH_E_LIMIT)
        call_finish(c, BH_GRPC_RESOURCE_EXHAUSTED, BH_S("the reply is too large"));
    else
        call_finish(c, BH_GRPC_OK, (struct bh_str){NULL, 0});
}

void bh_grpc_call_finish(struct bh_grpc_call *c, enum bh_grpc_status st, const char *fmt, ...)
{
    va_list ap;
    struct bh_str m;

    va_start(ap, fmt);
    m = bh_str_vfmt(c->arena, fmt, ap);
    va_end(ap);
    call_finish(c, st, m);
}

void bh_grpc_call_fail(struct bh_grpc_call *c, const struct bh_err *err)
{
    call_finish(c, bh_grpc_status_of(err->code), bh_str_dup(c->arena, bh_s(err->msg)));
}
