/* The HTTP client over HTTP/2: calls share a connection, each on a stream of its own. What several
 * calls of one turn of the loop write goes out together.
 *
 * The first connection to a server decides by ALPN which protocol is spoken; calls wait for that.
 */
#include "net/http_client_int.h"

#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "net/h2.h"
#include "net/http1.h"

#define CONNS_MAX    16 /* a server that allows few streams on one gets several */
#define WINDOW_BYTES (1u << 20)
/* Looks after a ping: between two of them the loop reads, so that a stall of ours is not taken for
 * the server's silence. */
#define UNANSWERED_MAX 2
struct h2conn {
    struct bh_link link;           /* of the client */
    struct bh_http_client *client; /* NULL: it forgot us */
    struct bh_loop *loop;
    struct bh_stream *stream;
    struct bh_h2 *h2; /* NULL until it is open */
    struct bh_timer timer;
    int64_t rx_ns, idle_ns; /* when a byte came last, and when the last stream ended */
    bool flush_pending;
    int unanswered; /* looks since a ping that brought nothing */
    int refs;       /* the stream, deferred calls, and functions of h2 that are under way */
};

static void flush_later(void *arg);

static void conn_unref(struct h2conn *k)
{
    if (--k->refs > 0)
        return;
    (void)bh_h2_free(k->h2);
    bh_free(k);
}

/* The client forgets the connection: nothing that happens on it concerns a call any more. */
static void conn_forget(struct h2conn *k)
{
    if (!k->client)
        return;
    bh_list_del(&k->link);
    k->client->h2conns_n--;
    if (k->client->h2conns_n == 0)
        k->client->proto = BH_PROTO_UNKNOWN;
    k->client = NULL;
    bh_timer_stop(&k->timer);
}

/* Nothing will be written any more. */
static void conn_unflush(struct h2conn *k)
{
    if (k->flush_pending && bh_loop_defer_drop(k->loop, flush_later, k)) {
        k->flush_pending = false;
        k->refs--; /* not the last: whoever calls has one */
    }
}

/* The stream ends on its own, after what is queued when that is to be said. */
static void conn_part(struct h2conn *k, bool say)
{
    struct bh_stream *st = k->stream;

    if (!st)
        return;
    k->stream = NULL;
    bh_stream_set_ops(st, NULL, NULL);
    if (say)
        bh_stream_close(st);
    else
        bh_stream_abort(st, NULL);
    conn_unflush(k);
    conn_unref(k);
}

/* ---- output ---- */

static void conn_over(struct h2conn *k, const struct bh_err *why);

/* Writes what is ready; the caller has a reference. A connection on which nothing can happen any
 * more ends with that: after a GOAWAY and the last stream, or with calls under way when the server
 * broke the protocol. */
static void flush(struct h2conn *k)
{
    struct bh_err e = {0};

    if (bh_h2_pour(k->h2, k->stream) || !bh_h2_done(k->h2))
        return;
    if (bh_h2_streams(k->h2) > 0)
        (void)bh_err_set(&e, BH_E_PROTO, "broke the HTTP/2 protocol");
    conn_over(k, &e);
    conn_part(k, true);
}

static void flush_later(void *arg)
{
    struct h2conn *k = arg;

    k->flush_pending = false;
    if (k->stream && k->h2)
        flush(k);
    conn_unref(k);
}

static void on_output(void *arg)
{
    struct h2conn *k = arg;

    if (k->flush_pending || !k->stream)
        return;
    k->flush_pending = true;
    k->refs++;
    bh_loop_defer(k->loop, flush_later, k);
}

/* ---- calls ---- */

static struct bh_str lower(struct bh_arena *a, struct bh_str s)
{
    char *p = bh_arena_alloc(a, s.n);

    for (size_t i = 0; i < s.n; i++)
        p[i] = (char)(s.p[i] >= 'A' && s.p[i] <= 'Z' ? s.p[i] | 0x20 : s.p[i]);
    return (struct bh_str){p, s.n};
}

static bool has_body(const struct bh_http_request *r)
{
    return r->body.n > 0 || bh_str_eqc(r->method, "POST") || bh_str_eqc(r->method, "PUT") ||
           bh_str_eqc(r->method, "PATCH");
}

static size_t put_headers(struct bh_http_client *c, struct bh_http_call *call,
                          struct bh_h2_header **ret)
{
    const struct bh_http_request *r = &call->r;
    struct bh_h2_header *h = bh_new_n(call->keep, struct bh_h2_header, r->headers_n + 7);
    size_t n = 0;

    h[n++] = (struct bh_h2_header){BH_S(":method"), r->method};
    h[n++] = (struct bh_h2_header){BH_S(":scheme"), BH_S("https")};
    h[n++] = (struct bh_h2_header){BH_S(":authority"), bh_s(c->host_header)};
    h[n++] = (struct bh_h2_header){BH_S(":path"), r->target};
    h[n++] = (struct bh_h2_header){BH_S("user-agent"), bh_s(c->user_agent)};
    if (c->bearer)
        h[n++] = (struct bh_h2_header){BH_S("authorization"),
                                       bh_str_fmt(call->keep, "Bearer %s", c->bearer)};
    for (size_t i = 0; i < r->headers_n; i++)
        if (bh_h1_header_ok(r->headers[i].name, r->headers[i].value))
            h[n++] =
                (struct bh_h2_header){lower(call->keep, r->headers[i].name), r->headers[i].value};
    if (has_body(r))
        h[n++] =
            (struct bh_h2_header){BH_S("content-length"), bh_str_fmt(call->keep, "%zu", r->body.n)};
    *ret = h;
    return n;
}

static bool submit(struct h2conn *k, struct bh_http_call *call)
{
    struct bh_h2_header *h;
    size_t n = put_headers(k->client, call, &h);
    bool end = call->r.body.n == 0;

    call->hs = bh_h2_open(k->h2, h, n, end, call);
    if (!call->hs)
        return false;
    call->h2c = k;
    bh_http_call_move(call, &k->client->running);
    if (!end && bh_h2_send(call->hs, call->r.body) < 0) {
        (void)bh_err_set(&call->err, BH_E_LIMIT, "%s: request too large", k->client->name);
        bh_http2_call_detach(call);
        bh_http_call_fail_later(call);
    } else if (!end) {
        bh_h2_send_end(call->hs, NULL, 0);
    }
    return true;
}

void bh_http2_call_detach(struct bh_http_call *call)
{
    struct bh_h2_stream *hs = call->hs;

    call->hs = NULL;
    call->h2c = NULL;
    if (!hs)
        return;
    bh_h2_set_user(hs, NULL);
    bh_h2_reset(hs, BH_H2_CANCEL);
}

void bh_http2_call_resume(struct bh_http_call *call)
{
    size_t n = call->held;

    call->held = 0;
    if (call->hs)
        bh_h2_consume(call->hs, n);
}

/* ---- responses ---- */

static void on_headers(void *arg, struct bh_h2_stream *hs, const struct bh_h2_header *hd, size_t n,
                       bool trailers)
{
    struct bh_http_call *call = bh_h2_user(hs);
    struct bh_http_header *h;
    int64_t status;
    size_t k = 0;

    (void)arg;
    if (!call || trailers)
        return;
    h = bh_new_n(call->keep, struct bh_http_header, n + 1);
    for (size_t i = 0; i < n; i++)
        if (bh_str_eqc(hd[i].name, ":status"))
            call->resp.status = bh_str_i64(hd[i].value, 0, 999, &status) ? (int)status : 0;
        else
            h[k++] = (struct bh_http_header){bh_str_dup(call->keep, hd[i].name),
                                             bh_str_dup(call->keep, hd[i].value)};
    call->resp.headers = h;
    call->resp.headers_n = k;
    call->have_head = true;
    if (call->r.long_call)
        bh_timer_stop(&call->timer);
    if (call->r.on_head)
        call->r.on_head(call->r.arg, &call->resp);
}

static void on_data(void *arg, struct bh_h2_stream *hs, struct bh_str data)
{
    struct bh_http_call *call = bh_h2_user(hs);

    (void)arg;
    if (call && call->paused)
        call->held += data.n;
    else
        bh_h2_consume(hs, data.n);
    if (!call)
        return;
    if (call->r.on_chunk)
        call->r.on_chunk(call->r.arg, data);
    else if (data.n > call->r.body_bytes_max - call->body.n)
        bh_http_call_fail_text(call, BH_E_LIMIT, "response too large");
    else
        bh_buf_adds(&call->body, data);
}

/* The response is there. The stream's place is free when it is closed, right after this. */
static void on_end(void *arg, struct bh_h2_stream *hs)
{
    struct bh_http_call *call = bh_h2_user(hs);

    (void)arg;
    if (!call || !call->have_head)
        return; /* how it ended is told by `closed` */
    bh_h2_set_user(hs, NULL);
    call->hs = NULL;
    call->h2c = NULL;
    if (bh_h2_unsent(hs) > 0)
        bh_h2_reset(hs, BH_H2_CANCEL); /* answered before it was asked in full */
    call->resp.body = bh_buf_str(&call->body);
    bh_http_call_leave(call);
    bh_http_call_end(call, &call->resp, NULL);
}

/* What the server did not look at may be asked again, whatever it was. */
static void on_closed(void *arg, struct bh_h2_stream *hs, uint32_t code)
{
    struct h2conn *k = arg;
    struct bh_http_call *call = bh_h2_user(hs);

    if (call) {
        struct bh_http_client *c = call->client;

        call->hs = NULL;
        call->h2c = NULL;
        if (code == BH_H2_REFUSED && !call->repeated) {
            bh_http_call_again(call);
        } else {
            (void)bh_err_set(&call->err, BH_E_UNAVAILABLE,
                             "%s: the request's stream was closed (HTTP/2 error %u)", c->name,
                             code);
            bh_http_call_fail_later(call);
        }
    }
    if (!k->client)
        return;
    k->idle_ns = bh_loop_mono_ns(k->loop);
    if (!bh_list_empty(&k->client->waiting))
        bh_http_client_start_waiting(k->client);
}

/* ---- connections ---- */

/* The calls of a connection that is gone are asked again when they may be, else they fail. */
static void calls_lost(struct bh_http_client *c, struct h2conn *k, const struct bh_err *why)
{
    bh_list_for_safe(it, &c->running)
    {
        struct bh_http_call *call = bh_container(it, struct bh_http_call, link);

        if (call->h2c != k)
            continue;
        bh_h2_set_user(call->hs, NULL);
        call->hs = NULL;
        call->h2c = NULL;
        if (call->repeatable && !call->repeated && !call->have_head) {
            bh_http_call_again(call);
            continue;
        }
        if (why->code != BH_OK) {
            call->err = *why;
            (void)bh_err_wrap(&call->err, "%s", c->name);
        } else {
            (void)bh_err_set(&call->err, BH_E_UNAVAILABLE,
                             "%s: closed the connection before the response was complete", c->name);
        }
        bh_http_call_fail_later(call);
    }
}

static void waiting_lost(struct bh_http_client *c, const struct bh_err *why)
{
    bh_list_for(it, &c->waiting)
    {
        struct bh_http_call *call = bh_container(it, struct bh_http_call, link);

        if (call->err.code != BH_OK)
            continue;
        call->err = *why;
        if (why->code == BH_OK)
            (void)bh_err_set(&call->err, BH_E_UNAVAILABLE, "connection closed");
        (void)bh_err_wrap(&call->err, "%s", c->name);
        bh_http_call_fail_later(call);
    }
}

/* Whether a connection stands that takes calls, now or when it has room. */
static bool is_served(const struct bh_http_client *c)
{
    bh_list_for(it, &c->h2conns)
    {
        const struct h2conn *k = bh_container(it, struct h2conn, link);

        if (k->h2 && bh_h2_accepts(k->h2))
            return true;
    }
    return false;
}

/* No call concerns the connection any more: those it has are ended, or asked on another. */
static void conn_over(struct h2conn *k, const struct bh_err *why)
{
    struct bh_http_client *c = k->client;

    if (!c)
        return;
    conn_forget(k);
    if (k->h2)
        calls_lost(c, k, why);
    else if (is_served(c))
        return; /* those who wait begin, or try another, when a stream ends */
    else
        waiting_lost(c, why);
    bh_http_client_start_waiting(c);
}

static void on_close(void *arg, const struct bh_err *err)
{
    struct h2conn *k = arg;

    k->stream = NULL;
    conn_unflush(k);
    conn_over(k, err);
    conn_unref(k);
}

static void on_eof(void *arg)
{
    struct h2conn *k = arg;

    bh_stream_close(k->stream);
}

static void on_drain(void *arg)
{
    struct h2conn *k = arg;

    k->refs++;
    if (k->h2)
        flush(k);
    conn_unref(k);
}

static void on_read(void *arg, struct bh_str data)
{
    struct h2conn *k = arg;
    struct bh_err e = {0};

    k->refs++;
    k->rx_ns = bh_loop_mono_ns(k->loop);
    k->unanswered = 0;
    if (bh_h2_feed(k->h2, data, &e) < 0 && k->stream) {
        (void)bh_h2_pour(k->h2, k->stream); /* says why */
        if (k->stream)
            bh_stream_abort(k->stream, &e);
    }
    conn_unref(k);
}

static void watch_over(struct h2conn *k)
{
    const struct bh_http_client_opts *o = &k->client->opts;
    int half = o->silent_ms / 2 + 1;

    bh_timer_start(&k->timer, o->idle_timeout_ms < half ? o->idle_timeout_ms : half);
}

/* As upstream's clients: a server that is gone without a word must not hold up every call. */
static void on_timer(void *arg)
{
    struct h2conn *k = arg;
    int64_t now = bh_loop_mono_ns(k->loop), silent = (now - k->rx_ns) / 1000000;
    int64_t limit = k->client->opts.silent_ms;
    struct bh_err e = {0};

    if (bh_h2_streams(k->h2) == 0) {
        if ((now - k->idle_ns) / 1000000 >= k->client->opts.idle_timeout_ms) {
            conn_forget(k); /* no call may choose it any more */
            conn_part(k, true);
            return;
        }
    } else if (silent >= limit && !k->unanswered) {
        k->unanswered = 1;
        bh_h2_ping(k->h2);
    } else if (silent >= limit && ++k->unanswered > UNANSWERED_MAX) {
        (void)bh_err_set(&e, BH_E_TIMEOUT, "no sign of life");
        bh_stream_abort(k->stream, &e);
        return;
    }
    watch_over(k);
}

static void speak_h2(struct h2conn *k)
{
    static const struct bh_h2_ops ops = {.headers = on_headers,
                                         .data = on_data,
                                         .end = on_end,
                                         .closed = on_closed,
                                         .output = on_output};
    const struct bh_h2_opts o = {.window_bytes = WINDOW_BYTES,
                                 .stream_out_max = BH_HTTP_RESPONSE_BYTES_MAX};

    k->h2 = bh_h2_new(&o, &ops, k);
    k->rx_ns = k->idle_ns = bh_loop_mono_ns(k->loop);
    k->client->proto = BH_PROTO_H2;
    on_output(k);
    watch_over(k);
    bh_http_client_start_waiting(k->client);
}

static void on_open(void *arg)
{
    struct h2conn *k = arg;
    struct bh_http_client *c = k->client;
    struct bh_stream *st = k->stream;

    if (bh_str_eqc(bh_stream_peer(st)->alpn, "h2")) {
        speak_h2(k);
        return;
    }
    conn_forget(k);
    k->stream = NULL;
    conn_unref(k);
    bh_http_client_adopt_h1(c, st);
}

static bool conn_new(struct bh_http_client *c, struct bh_err *err)
{
    static const struct bh_stream_ops ops = {.on_open = on_open,
                                             .on_read = on_read,
                                             .on_eof = on_eof,
                                             .on_drain = on_drain,
                                             .on_close = on_close};
    static const char *const alpn[] = {"h2", "http/1.1", NULL};
    struct bh_connect_opts o = {.host = c->host,
                                .port = c->opts.port,
                                .unix_path = c->unix_path,
                                .tls = c->opts.tls,
                                .server_name = c->server_name,
                                .alpn = alpn,
                                .timeout_ms = c->opts.connect_timeout_ms};
    struct h2conn *k = bh_calloc(1, sizeof(*k));

    k->stream = bh_stream_connect(c->loop, &o, &ops, k, err);
    if (!k->stream) {
        bh_free(k);
        return false;
    }
    k->client = c;
    k->loop = c->loop;
    k->refs = 1;
    bh_timer_init(&k->timer, c->loop, on_timer, k);
    bh_list_add_tail(&c->h2conns, &k->link);
    c->h2conns_n++;
    return true;
}

bool bh_http2_call_start(struct bh_http_client *c, struct bh_http_call *call)
{
    bool coming = false;

    bh_list_for(it, &c->h2conns)
    {
        struct h2conn *k = bh_container(it, struct h2conn, link);

        coming = coming || !k->h2;
        if (k->h2 && bh_h2_room(k->h2) > 0 && submit(k, call))
            return true;
    }
    if (coming || c->h2conns_n >= CONNS_MAX || conn_new(c, &call->err))
        return false;
    bh_http_call_move(call, &c->running); /* only to be found by free */
    bh_http_call_fail_later(call);
    return true;
}

void bh_http2_client_drop(struct bh_http_client *c)
{
    while (!bh_list_empty(&c->h2conns)) {
        struct h2conn *k = bh_container(c->h2conns.next, struct h2conn, link);

        conn_forget(k);
        conn_part(k, false);
    }
}
