/* The HTTP client: a pool of kept connections to one server, one call on each at a time. Calls over
 * HTTP/2 are in http2_client.c. */
#include "net/http_client_int.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "net/http1.h"

#define CONNS_MAX_DEFAULT   64
#define WAITING_MAX_DEFAULT 10000
#define RESPONSE_MS_DEFAULT 60000
#define IDLE_MS_DEFAULT     30000
#define SILENT_MS_DEFAULT   30000
#define WIRE_KEPT           65536 /* of the scratch for requests */

struct cconn {
    struct bh_link link; /* idle or busy list of the client; neither once it is over */
    struct bh_http_client *client;
    struct bh_stream *stream; /* NULL: over */
    struct bh_http_call *call;
    struct bh_h1 h1;
    struct bh_arena *arena; /* head of the current response */
    struct bh_timer idle;
    bool counted; /* against conns_max */
    bool reused;
    bool answered; /* a byte of the response has come */
    int refs;
};

/* ---- connections ---- */

static void conn_unref(struct cconn *k)
{
    if (--k->refs > 0)
        return;
    bh_h1_done(&k->h1);
    (void)bh_arena_free(k->arena);
    bh_free(k);
}

/* The client lets the connection go; the stream may live a little longer on its own. */
static void conn_over(struct cconn *k, bool hand_over)
{
    struct bh_stream *st = k->stream;

    if (!st)
        return;
    k->stream = NULL;
    if (k->call)
        k->call->conn = NULL;
    k->call = NULL;
    bh_timer_stop(&k->idle);
    bh_list_del(&k->link);
    if (k->counted)
        k->client->conns_n--;
    if (bh_list_empty(&k->client->idle) && bh_list_empty(&k->client->busy))
        k->client->proto = BH_PROTO_UNKNOWN; /* the next server may be another */
    if (!hand_over) {
        bh_stream_set_ops(st, NULL, NULL);
        bh_stream_abort(st, NULL);
    }
    conn_unref(k);
}

static void on_idle_timer(void *arg)
{
    struct cconn *k = arg;

    conn_over(k, false);
}

/* ---- ends of calls ---- */

static void call_free(struct bh_http_call *call)
{
    bh_timer_stop(&call->timer);
    bh_list_del(&call->link);
    (void)bh_arena_free(call->keep);
    bh_buf_done(&call->body);
    bh_free(call);
}

/* To the end of another list of the client; NULL: of none. */
void bh_http_call_move(struct bh_http_call *call, struct bh_link *to)
{
    struct bh_http_client *c = call->client;

    bh_list_del(&call->link);
    c->waiting_n -= call->queued;
    call->queued = to == &c->waiting;
    c->waiting_n += call->queued;
    if (to)
        bh_list_add_tail(to, &call->link);
}

void bh_http_call_leave(struct bh_http_call *call)
{
    if (call->conn) {
        call->conn->call = NULL;
        call->conn = NULL;
    }
    bh_http_call_move(call, NULL);
    bh_timer_stop(&call->timer);
}

void bh_http_call_end(struct bh_http_call *call, const struct bh_http_response *resp,
                      const struct bh_err *err)
{
    void (*done)(void *, const struct bh_http_response *, const struct bh_err *) = call->r.done;
    static const struct bh_err fine;

    bh_http_call_leave(call);
    if (done)
        done(call->r.arg, resp, err ? err : &fine);
    call_free(call);
}

static void call_fail(struct bh_http_call *call, const struct bh_err *err)
{
    struct bh_http_client *c = call->client;
    struct cconn *k = call->conn;

    if (k)
        conn_over(k, false);
    bh_http2_call_detach(call);
    /* Its place is free now; whoever waits is served before the callback, which may free the
     * client. */
    bh_http_call_leave(call);
    if (!c->freeing)
        bh_http_client_start_waiting(c);
    bh_http_call_end(call, NULL, err);
}

void bh_http_call_fail_text(struct bh_http_call *call, enum bh_code code, const char *text)
{
    struct bh_err e = {0};

    (void)bh_err_set(&e, code, "%s: %s", call->client->name, text);
    call_fail(call, &e);
}

static void on_call_timer(void *arg)
{
    struct bh_http_call *call = arg;

    if (call->err.code != BH_OK)
        call_fail(call, &call->err);
    else
        bh_http_call_fail_text(call, BH_E_TIMEOUT, "no response in time");
}

/* ---- responses ---- */

/* The call has its response. The connection goes back into the pool first, so that callbacks find
 * it there. */
static void complete(struct cconn *k, struct bh_str rest)
{
    struct bh_http_call *call = k->call;
    struct bh_http_client *c = k->client;
    struct bh_arena *arena = k->arena;

    call->resp.body = bh_buf_str(&call->body);
    bh_http_call_leave(call);
    if (!k->h1.head.keep_alive || rest.n > 0) {
        conn_over(k, false); /* bytes behind a response belong to nothing we asked */
    } else if (!k->counted && c->conns_n >= c->opts.conns_max) {
        conn_over(k, false);
    } else {
        if (!k->counted)
            c->conns_n++;
        k->counted = true;
        k->arena = bh_arena_new(0); /* the response's views are in the old one */
        bh_list_del(&k->link);
        bh_list_add_head(&c->idle, &k->link);
        bh_timer_start(&k->idle, c->opts.idle_timeout_ms);
        bh_stream_resume(k->stream);
        bh_http_client_start_waiting(c);
        bh_http_call_end(call, &call->resp, NULL);
        (void)bh_arena_free(arena);
        return;
    }
    bh_http_client_start_waiting(c);
    bh_http_call_end(call, &call->resp, NULL);
}

static void upgraded(struct cconn *k, struct bh_str rest)
{
    struct bh_http_call *call = k->call;
    struct bh_stream *st = k->stream;
    struct bh_http_client *c = k->client;

    bh_http_call_leave(call);
    conn_over(k, true);
    bh_stream_set_ops(st, NULL, NULL);
    bh_stream_unread(st, rest);
    bh_http_client_start_waiting(c);
    call->r.on_upgrade(call->r.arg, &call->resp, st);
    bh_http_call_end(call, &call->resp, NULL);
}

static void fill_response(struct cconn *k)
{
    struct bh_http_call *call = k->call;

    call->resp.status = k->h1.head.status;
    call->resp.headers = k->h1.head.headers;
    call->resp.headers_n = k->h1.head.headers_n;
}

/* False: the connection or the call is over. */
static bool got_head(struct cconn *k)
{
    struct bh_http_call *call = k->call;
    int status = k->h1.head.status;

    if (status < 200 && status != 101)
        return true; /* an interim response: the real one follows */
    fill_response(k);
    call->have_head = true;
    if (status == 101)
        return true;
    if (call->r.long_call)
        bh_timer_stop(&call->timer);
    if (call->r.on_head)
        call->r.on_head(call->r.arg, &call->resp);
    return k->stream && k->call == call;
}

static bool got_body(struct cconn *k, struct bh_str data)
{
    struct bh_http_call *call = k->call;

    if (call->r.on_chunk) {
        call->r.on_chunk(call->r.arg, data);
        return k->stream && k->call == call;
    }
    if (data.n > call->r.body_bytes_max - call->body.n) {
        bh_http_call_fail_text(call, BH_E_LIMIT, "response too large");
        return false;
    }
    bh_buf_adds(&call->body, data);
    return true;
}

static void got_end(struct cconn *k, struct bh_str rest)
{
    struct bh_http_call *call = k->call;

    if (k->h1.head.status == 101) {
        if (call->r.on_upgrade)
            upgraded(k, rest);
        else
            bh_http_call_fail_text(call, BH_E_PROTO, "unexpected change of protocol");
    } else {
        complete(k, rest);
    }
}

static void on_read(void *arg, struct bh_str data)
{
    struct cconn *k = arg;
    struct bh_err e = {0};

    if (!k->call) { /* nobody asked: whatever it is, the connection cannot be trusted any more */
        conn_over(k, false);
        return;
    }
    k->refs++;
    k->answered = true;
    while (k->stream && k->call) {
        struct bh_str piece = {0};
        int ev = bh_h1_next(&k->h1, &data, &piece, &e);

        if (ev == BH_H1_MORE) {
            break;
        } else if (ev == BH_H1_HEAD) {
            if (!got_head(k))
                break;
        } else if (ev == BH_H1_BODY) {
            if (!got_body(k, piece))
                break;
        } else if (ev == BH_H1_END) {
            if (k->call->have_head) {
                got_end(k, data);
                break;
            }
        } else {
            (void)bh_err_wrap(&e, "%s", k->client->name);
            call_fail(k->call, &e);
        }
    }
    conn_unref(k);
}

void bh_http_call_again(struct bh_http_call *call)
{
    call->repeated = true;
    bh_http_call_move(call, &call->client->waiting);
    bh_list_del(&call->link);
    bh_list_add_head(&call->client->waiting, &call->link);
}

/* Puts the call back to the head of the queue, for a fresh connection. */
static bool try_again(struct cconn *k)
{
    struct bh_http_call *call = k->call;

    if (!k->reused || k->answered || !call->repeatable || call->repeated)
        return false;
    call->conn = NULL;
    k->call = NULL;
    bh_http_call_again(call);
    return true;
}

static void lost(struct cconn *k, const struct bh_err *err)
{
    struct bh_http_client *c = k->client;
    struct bh_http_call *call = k->call;
    struct bh_err e = {0};

    if (call && try_again(k))
        call = NULL;
    if (call && err->code != BH_OK) {
        e = *err;
        (void)bh_err_wrap(&e, "%s", c->name);
    } else if (call) {
        (void)bh_err_set(&e, BH_E_UNAVAILABLE,
                         "%s: closed the connection before the response was complete", c->name);
    }
    if (call)
        call_fail(call, &e);
    else {
        conn_over(k, false);
        bh_http_client_start_waiting(c);
    }
}

static void on_eof(void *arg)
{
    struct cconn *k = arg;
    struct bh_err e = {0};

    k->refs++; /* the response's views are in its arena */
    if (k->call && bh_h1_eof(&k->h1, NULL) == BH_H1_END && k->call->have_head)
        got_end(k, (struct bh_str){0});
    else
        lost(k, &e);
    conn_unref(k);
}

/* The stream is gone already: whatever conn_over asks of it is still allowed here, and does
 * nothing. */
static void on_close(void *arg, const struct bh_err *err)
{
    lost(arg, err);
}

/* ---- sending ---- */

static void put_request(struct bh_http_client *c, const struct bh_http_request *r, struct bh_buf *b)
{
    bh_buf_adds(b, r->method);
    bh_buf_addc(b, ' ');
    bh_buf_adds(b, r->target);
    bh_buf_adds(b, BH_S(" HTTP/1.1\r\nHost: "));
    bh_buf_addz(b, c->host_header);
    bh_buf_adds(b, BH_S("\r\nUser-Agent: "));
    bh_buf_addz(b, c->user_agent);
    if (c->bearer) {
        bh_buf_adds(b, BH_S("\r\nAuthorization: Bearer "));
        bh_buf_addz(b, c->bearer);
    }
    for (size_t i = 0; i < r->headers_n; i++) {
        if (!bh_h1_header_ok(r->headers[i].name, r->headers[i].value))
            continue; /* would end the header, or the request */
        bh_buf_adds(b, BH_S("\r\n"));
        bh_buf_adds(b, r->headers[i].name);
        bh_buf_adds(b, BH_S(": "));
        bh_buf_adds(b, r->headers[i].value);
    }
    if (r->body.n > 0 || bh_str_eqc(r->method, "POST") || bh_str_eqc(r->method, "PUT") ||
        bh_str_eqc(r->method, "PATCH")) {
        bh_buf_adds(b, BH_S("\r\nContent-Length: "));
        bh_buf_add_u64(b, r->body.n);
    }
    bh_buf_adds(b, BH_S("\r\n\r\n"));
    bh_buf_adds(b, r->body);
}

static void send_call(struct bh_http_client *c, struct cconn *k, struct bh_http_call *call)
{
    bh_timer_stop(&k->idle);
    bh_list_del(&k->link);
    bh_list_add_tail(&c->busy, &k->link);
    k->call = call;
    k->answered = false;
    call->conn = k;
    bh_http_call_move(call, &c->running);
    bh_arena_reset(k->arena);
    k->h1.arena = k->arena;
    k->h1.no_body = call->is_head;
    if (call->r.long_call && k->counted) {
        k->counted = false;
        c->conns_n--;
    }
    bh_buf_clear(&c->wire);
    put_request(c, &call->r, &c->wire);
    bh_stream_write_str(k->stream, bh_buf_str(&c->wire));
    if (c->wire.cap > WIRE_KEPT)
        bh_buf_done(&c->wire);
}

static const struct bh_stream_ops conn_ops = {
    .on_read = on_read, .on_eof = on_eof, .on_close = on_close};

static void conn_init(struct cconn *k, struct bh_http_client *c)
{
    k->client = c;
    k->refs = 1;
    k->arena = bh_arena_new(0);
    bh_h1_init(&k->h1, true);
    bh_timer_init(&k->idle, c->loop, on_idle_timer, k);
    bh_list_add_tail(&c->busy, &k->link);
}

static struct cconn *conn_new(struct bh_http_client *c, struct bh_err *err)
{
    static const char *const alpn[] = {"http/1.1", NULL};
    struct bh_connect_opts o = {.host = c->host,
                                .port = c->opts.port,
                                .unix_path = c->unix_path,
                                .tls = c->opts.tls,
                                .server_name = c->server_name,
                                .alpn = alpn,
                                .timeout_ms = c->opts.connect_timeout_ms};
    struct cconn *k = bh_calloc(1, sizeof(*k));

    k->stream = bh_stream_connect(c->loop, &o, &conn_ops, k, err);
    if (!k->stream) {
        bh_free(k);
        return NULL;
    }
    conn_init(k, c);
    return k;
}

void bh_http_client_adopt_h1(struct bh_http_client *c, struct bh_stream *st)
{
    struct cconn *k = bh_calloc(1, sizeof(*k));

    c->proto = BH_PROTO_H1;
    k->stream = st;
    bh_stream_set_ops(st, &conn_ops, k);
    conn_init(k, c);
    k->counted = true;
    c->conns_n++;
    bh_list_del(&k->link);
    bh_list_add_head(&c->idle, &k->link);
    bh_timer_start(&k->idle, c->opts.idle_timeout_ms);
    bh_http_client_start_waiting(c);
}

/* Ends a call from the loop, as everything that tells the caller something. */
void bh_http_call_fail_later(struct bh_http_call *call)
{
    bh_timer_start_ns(&call->timer, 0);
}

static bool start_call(struct bh_http_client *c, struct bh_http_call *call)
{
    struct cconn *k;

    if (c->opts.http2 && c->opts.tls && c->proto != BH_PROTO_H1)
        return bh_http2_call_start(c, call);
    if (!bh_list_empty(&c->idle) && !call->repeated) {
        k = bh_container(c->idle.next, struct cconn,
                         link); /* the one used last: most likely to be alive */
        k->reused = true;
    } else if (call->r.long_call || c->conns_n < c->opts.conns_max) {
        k = conn_new(c, &call->err);
        if (!k) {
            bh_http_call_move(call, &c->running); /* only to be found by free */
            bh_http_call_fail_later(call);
            return true;
        }
        k->counted = !call->r.long_call;
        c->conns_n += k->counted;
    } else {
        return false;
    }
    send_call(c, k, call);
    return true;
}

void bh_http_client_start_waiting(struct bh_http_client *c)
{
    bh_list_for_safe(it, &c->waiting)
    {
        struct bh_http_call *call = bh_container(it, struct bh_http_call, link);

        if (call->err.code != BH_OK)
            continue;
        if (!start_call(c, call))
            break;
    }
}

/* What would change the meaning of the request line. */
static bool line_ok(const struct bh_http_request *r)
{
    for (size_t i = 0; i < r->target.n; i++)
        if ((unsigned char)r->target.p[i] <= 0x20 || (unsigned char)r->target.p[i] >= 0x7f)
            return false;
    return r->target.n > 0 && bh_h1_header_ok(r->method, BH_S(""));
}

static bool is_repeatable(struct bh_str method)
{
    return bh_str_eqc(method, "GET") || bh_str_eqc(method, "HEAD") || bh_str_eqc(method, "PUT") ||
           bh_str_eqc(method, "DELETE") || bh_str_eqc(method, "OPTIONS");
}

static void keep_request(struct bh_http_call *call, const struct bh_http_request *r)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_http_header *h = bh_new_n(a, struct bh_http_header, r->headers_n + 1);

    for (size_t i = 0; i < r->headers_n; i++)
        h[i] = (struct bh_http_header){bh_str_dup(a, r->headers[i].name),
                                       bh_str_dup(a, r->headers[i].value)};
    call->keep = a;
    call->r = *r;
    call->r.method = bh_str_dup(a, r->method);
    call->r.target = bh_str_dup(a, r->target);
    call->r.body = bh_str_dup(a, r->body);
    call->r.headers = h;
}

struct bh_http_call *bh_http_call_start(struct bh_http_client *c, const struct bh_http_request *r)
{
    struct bh_http_call *call = bh_calloc(1, sizeof(*call));
    int timeout = r->timeout_ms ? r->timeout_ms : c->opts.response_timeout_ms;

    call->client = c;
    keep_request(call, r);
    if (call->r.body_bytes_max == 0)
        call->r.body_bytes_max = BH_HTTP_RESPONSE_BYTES_MAX;
    call->body.max = call->r.body_bytes_max;
    call->is_head = bh_str_eqc(r->method, "HEAD");
    call->repeatable = is_repeatable(r->method);
    bh_timer_init(&call->timer, c->loop, on_call_timer, call);
    bh_http_call_move(call, &c->waiting);
    if (!line_ok(r))
        (void)bh_err_set(&call->err, BH_E_BAD_REQUEST, "%s: unusable request target or method",
                         c->name);
    else if (c->waiting_n > c->opts.waiting_max)
        (void)bh_err_set(&call->err, BH_E_BUSY, "%s: too many requests wait", c->name);
    if (call->err.code != BH_OK) {
        bh_http_call_fail_later(call);
        return call;
    }
    if (timeout > 0)
        bh_timer_start(&call->timer, timeout);
    /* Others that wait come first, but for long calls, which need no place. */
    if (r->long_call)
        (void)start_call(c, call);
    else
        bh_http_client_start_waiting(c);
    return call;
}

void bh_http_call_cancel(struct bh_http_call *call)
{
    struct bh_http_client *c;

    if (!call)
        return;
    c = call->client;
    if (call->conn)
        conn_over(call->conn, false);
    bh_http2_call_detach(call);
    bh_http_call_leave(call);
    call_free(call);
    if (!c->freeing)
        bh_http_client_start_waiting(c);
}

void bh_http_call_pause(struct bh_http_call *call)
{
    call->paused = true;
    if (call->conn && call->conn->stream)
        bh_stream_pause(call->conn->stream);
}

void bh_http_call_resume(struct bh_http_call *call)
{
    call->paused = false;
    bh_http2_call_resume(call);
    if (call->conn && call->conn->stream)
        bh_stream_resume(call->conn->stream);
}

/* ---- the client ---- */

static char *dup_or_null(const char *s)
{
    return s ? bh_strdup_c(bh_s(s)) : NULL;
}

static char *make_host_header(const struct bh_http_client_opts *o)
{
    char buf[300];
    bool plain_port = o->port == (o->tls ? 443 : 80);
    int n;

    if (o->host_header)
        return dup_or_null(o->host_header);
    if (o->unix_path || !o->host)
        return dup_or_null("localhost");
    n = strchr(o->host, ':') ? snprintf(buf, sizeof(buf), "[%.255s]", o->host)
                             : snprintf(buf, sizeof(buf), "%.255s", o->host);
    if (!plain_port)
        (void)snprintf(buf + n, sizeof(buf) - (size_t)n, ":%d", o->port);
    return dup_or_null(buf);
}

struct bh_http_client *bh_http_client_new(struct bh_loop *l, const struct bh_http_client_opts *o)
{
    struct bh_http_client *c = bh_calloc(1, sizeof(*c));

    c->loop = l;
    c->opts = *o;
    c->opts.tls = bh_tls_ref(o->tls);
    c->host = dup_or_null(o->host);
    c->unix_path = dup_or_null(o->unix_path);
    c->server_name = dup_or_null(o->server_name);
    c->user_agent = dup_or_null(o->user_agent ? o->user_agent : "bulkhead");
    c->host_header = make_host_header(o);
    if (o->unix_path)
        (void)snprintf(c->name, sizeof(c->name), "unix:%.140s", o->unix_path);
    else
        (void)snprintf(c->name, sizeof(c->name), "%s://%.120s:%d", o->tls ? "https" : "http",
                       o->host ? o->host : "", o->port);
    if (c->opts.conns_max == 0)
        c->opts.conns_max = CONNS_MAX_DEFAULT;
    if (c->opts.waiting_max == 0)
        c->opts.waiting_max = WAITING_MAX_DEFAULT;
    if (c->opts.response_timeout_ms == 0)
        c->opts.response_timeout_ms = RESPONSE_MS_DEFAULT;
    if (c->opts.idle_timeout_ms == 0)
        c->opts.idle_timeout_ms = IDLE_MS_DEFAULT;
    if (c->opts.silent_ms == 0)
        c->opts.silent_ms = SILENT_MS_DEFAULT;
    bh_list_init(&c->idle);
    bh_list_init(&c->busy);
    bh_list_init(&c->waiting);
    bh_list_init(&c->running);
    bh_list_init(&c->h2conns);
    return c;
}

static void cancel_all(struct bh_http_client *c, struct bh_link *list)
{
    struct bh_err e = {0};

    (void)bh_err_set(&e, BH_E_CANCELED, "%s: the client was closed", c->name);
    while (!bh_list_empty(list))
        call_fail(bh_container(list->next, struct bh_http_call, link), &e);
}

static void drop_conns(struct bh_link *list)
{
    while (!bh_list_empty(list))
        conn_over(bh_container(list->next, struct cconn, link), false);
}

struct bh_http_client *bh_http_client_free(struct bh_http_client *c)
{
    if (!c)
        return NULL;
    bh_assert(!c->freeing);
    c->freeing = true;
    cancel_all(c, &c->running);
    cancel_all(c, &c->waiting);
    drop_conns(&c->idle);
    drop_conns(&c->busy);
    bh_http2_client_drop(c);
    bh_buf_done(&c->wire);
    (void)bh_tls_unref(c->opts.tls);
    bh_free(c->host);
    bh_free(c->unix_path);
    bh_free(c->server_name);
    bh_free(c->host_header);
    bh_free(c->user_agent);
    bh_free(c->bearer);
    bh_free(c);
    return NULL;
}

void bh_http_client_set_bearer(struct bh_http_client *c, struct bh_str token)
{
    bh_free(c->bearer);
    c->bearer = token.n > 0 && bh_h1_header_ok(BH_S("a"), token) ? bh_strdup_c(token) : NULL;
}
