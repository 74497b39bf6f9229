/* The HTTP server's connections that speak HTTP/2: each stream carries one exchange, many at once.
 *
 * What handlers write goes into the streams' queues; once in a turn of the loop it is framed and
 * handed to the connection together, so that many small answers share a TLS record and a system
 * call. An exchange is held twice: by its handler, until it is answered, and by its stream, until
 * the answer has left.
 */
#include "net/http_server_int.h"

#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/h2.h"

/* Streams that end without an answer, whoever ends them: a client may give up a thousand at once,
 * and 33 a second. One that goes on like that makes us work for nothing (CVE-2023-44487,
 * CVE-2025-8671) and is told to calm down. */
#define WASTE_BURST    1000
#define WASTE_RATE     33
#define TICKS_IN_LIMIT 4 /* the smallest time limit is looked at that often */

/* ---- output ---- */

static void flush(struct bh_http_conn *c)
{
    bool more;

    c->h2_busy++;
    more = bh_h2_pour(c->h2, c->stream);
    c->h2_busy--;
    if (c->stream && (c->calmed || (!more && bh_h2_done(c->h2))))
        bh_stream_close(c->stream);
}

static void flush_later(void *arg)
{
    struct bh_http_conn *c = arg;

    c->flush_pending = false;
    if (c->stream)
        flush(c);
    bh_http_conn_unref(c);
}

static void on_output(void *arg)
{
    struct bh_http_conn *c = arg;

    if (c->flush_pending || !c->stream)
        return;
    c->flush_pending = true;
    c->refs++;
    bh_loop_defer(c->loop, flush_later, c);
}

/* ---- requests ---- */

static void dispatch(struct bh_http_x *x)
{
    struct bh_http_conn *c = x->conn;

    x->with_handler = true;
    x->pub.body = bh_buf_str(&x->body);
    x->pub.start_ns = bh_loop_mono_ns(c->loop);
    c->server->opts.handler(c->server->opts.arg, &x->pub);
}

/* Answers without the handler. What still comes of the request is thrown away. */
static void refuse(struct bh_http_x *x, int status)
{
    struct bh_http_header h = BH_HTTP_HEADER("Content-Type", BH_S("text/plain; charset=utf-8"));
    struct bh_part p = {.data =
                            bh_str_fmt(x->pub.arena, "%d %s", status, bh_http_status_text(status))};

    x->with_handler = true;
    bh_http_respond(&x->pub, status, &h, 1, &p, 1);
}

static void too_large(struct bh_http_x *x)
{
    if (!x->conn->server->opts.pass_large_body) {
        refuse(x, 413);
        return;
    }
    bh_buf_clear(&x->body);
    x->pub.body_too_large = true;
    dispatch(x);
}

/* Takes the request over; returns the status that refuses it, or 0. */
static int take_head(struct bh_http_x *x, const struct bh_h2_header *hd, size_t n, bool *ret_100)
{
    struct bh_arena *a = x->pub.arena;
    struct bh_http_header *out = bh_new_n(a, struct bh_http_header, n + 1);
    struct bh_str authority = {NULL, 0};
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        struct bh_str name = hd[i].name, value = bh_str_dup(a, hd[i].value);

        if (bh_str_eqc(name, ":method")) {
            x->pub.method = value;
        } else if (bh_str_eqc(name, ":path")) {
            x->pub.target = value;
        } else if (bh_str_eqc(name, ":authority")) {
            authority = value;
        } else if (name.n > 0 && name.p[0] != ':') {
            out[k++] = (struct bh_http_header){bh_str_dup(a, name), value};
            if (bh_str_eqc(name, "expect") && bh_str_eq_nocase(value, BH_S("100-continue")))
                *ret_100 = true;
        }
    }
    if (authority.p && !bh_http_header_find(out, k, BH_S("host")))
        out[k++] = (struct bh_http_header){BH_S("host"), authority};
    x->pub.headers = out;
    x->pub.headers_n = k;
    x->head_only = bh_str_eqc(x->pub.method, "HEAD");
    if (x->pub.target.n > BH_URL_BYTES_MAX)
        return 414;
    for (size_t i = 0; i < x->pub.target.n; i++)
        if ((unsigned char)x->pub.target.p[i] <= 0x20 || (unsigned char)x->pub.target.p[i] >= 0x7f)
            return 400;
    if (!bh_h1_header_ok(x->pub.method, BH_S("")) ||
        bh_h1_split_target(x->pub.target, x->pub.method, &x->pub.path, &x->pub.query))
        return 400;
    return 0;
}

static void on_headers(void *arg, struct bh_h2_stream *hs, const struct bh_h2_header *hd, size_t n,
                       bool trailers)
{
    struct bh_http_conn *c = arg;
    const struct bh_str *length;
    struct bh_http_x *x;
    bool wants_100 = false;
    int64_t bytes = 0;
    int status;

    if (trailers)
        return;
    if (!c->server) {
        bh_h2_reset(hs, BH_H2_REFUSED);
        return;
    }
    x = bh_http_x_new(c);
    x->over_h2 = true;
    x->h2 = hs;
    x->refs++; /* the stream's */
    x->moved_ns = bh_loop_mono_ns(c->loop);
    x->body.max = c->server->opts.body_bytes_max;
    bh_list_add_tail(&c->xs, &x->h2_link);
    bh_h2_set_user(hs, x);
    status = take_head(x, hd, n, &wants_100);
    if (status) {
        refuse(x, status);
        return;
    }
    length = bh_http_header_find(x->pub.headers, x->pub.headers_n, BH_S("content-length"));
    /* One that is no number was refused below us. */
    if (length && !bh_str_i64(*length, 0, INT64_MAX, &bytes))
        bytes = INT64_MAX;
    if ((uint64_t)bytes > c->server->opts.body_bytes_max) {
        too_large(x);
        return;
    }
    if (bytes > 0)
        bh_buf_reserve(&x->body, bytes < 65536 ? (size_t)bytes : 65536);
    if (wants_100 && (!length || bytes > 0))
        bh_h2_inform(hs, BH_S("100"));
}

static void on_data(void *arg, struct bh_h2_stream *hs, struct bh_str data)
{
    struct bh_http_conn *c = arg;
    struct bh_http_x *x = bh_h2_user(hs);

    bh_h2_consume(hs, data.n);
    if (!x || x->with_handler || !c->server)
        return;
    x->moved_ns = bh_loop_mono_ns(c->loop);
    if (data.n > x->body.max - x->body.n) {
        too_large(x);
    } else if (data.n > BH_BODIES_BYTES_MAX - c->server->bodies_bytes) {
        refuse(x, 503);
    } else {
        bh_buf_adds(&x->body, data);
        x->counted += data.n;
        c->server->bodies_bytes += data.n;
    }
}

static void on_end(void *arg, struct bh_h2_stream *hs)
{
    struct bh_http_conn *c = arg;
    struct bh_http_x *x = bh_h2_user(hs);

    if (x && !x->with_handler && c->server)
        dispatch(x);
}

/* ---- ends ---- */

void bh_http2_x_done(struct bh_http_x *x)
{
    x->finished = true;
    bh_http_x_uncount(x);
    bh_http_unref(&x->pub);
}

/* The stream is over, and lets its exchange go. */
static void x_left(struct bh_http_x *x)
{
    x->h2 = NULL;
    bh_list_del(&x->h2_link);
    if (!x->with_handler)
        bh_http2_x_done(x);
    else if (!x->finished)
        bh_http_x_tell_close(x);
    bh_http_unref(&x->pub);
}

/* The end may not come from in here, where streams are being closed: the next flush brings it. */
static void count_waste(struct bh_http_conn *c)
{
    int64_t now = bh_loop_mono_ns(c->loop), ns = 1000000000 / WASTE_RATE;
    int64_t refill = (now - c->waste_ns) / ns;

    c->waste_ns += refill * ns;
    c->waste = refill < c->waste ? c->waste - (int)refill : 0;
    if (++c->waste <= WASTE_BURST || c->calmed)
        return;
    c->calmed = true;
    bh_log(BH_WARN, "http/2 connection gives up too many requests", BH_CSTR("peer", c->peer.addr));
    bh_h2_shutdown(c->h2, BH_H2_CALM);
}

static void on_closed(void *arg, struct bh_h2_stream *hs, uint32_t code)
{
    struct bh_http_conn *c = arg;
    struct bh_http_x *x = bh_h2_user(hs);
    bool wasted = !x || !x->finished || code != BH_H2_NO_ERROR;

    if (x)
        x_left(x);
    if (!c->stream)
        return;
    if (bh_list_empty(&c->xs))
        c->idle_since_ns = bh_loop_mono_ns(c->loop);
    if (wasted)
        count_waste(c);
}

static void on_drained(void *arg, struct bh_h2_stream *hs)
{
    struct bh_http_x *x = bh_h2_user(hs);

    (void)arg;
    if (!x || !x->was_high || x->finished)
        return;
    x->was_high = false;
    if (x->on_drain)
        x->on_drain(x->on_drain_arg);
}

/* The connection is gone: every exchange learns it before the protocol's state goes. The caller has
 * a reference. */
void bh_http2_gone(struct bh_http_conn *c)
{
    while (!bh_list_empty(&c->xs)) {
        struct bh_http_x *x = bh_container(c->xs.next, struct bh_http_x, h2_link);

        bh_h2_set_user(x->h2, NULL);
        x_left(x);
    }
    if (c->flush_pending && bh_loop_defer_drop(c->loop, flush_later, c)) {
        c->flush_pending = false;
        bh_http_conn_unref(c);
    }
    if (!c->h2_busy)
        c->h2 = bh_h2_free(c->h2);
}

/* ---- the connection ---- */

static void on_read(void *arg, struct bh_str data)
{
    struct bh_http_conn *c = arg;
    struct bh_err e = {0};
    int r;

    c->refs++;
    c->h2_busy++;
    r = bh_h2_feed(c->h2, data, &e);
    c->h2_busy--;
    if (r < 0 && c->stream) {
        bh_log(BH_DEBUG, "http/2 connection ended", BH_CSTR("why", e.msg));
        flush(c); /* says why */
        if (c->stream)
            bh_stream_close(c->stream);
    }
    bh_http_conn_unref(c);
}

static void on_eof(void *arg)
{
    struct bh_http_conn *c = arg;

    bh_stream_close(c->stream);
}

static void on_drain(void *arg)
{
    struct bh_http_conn *c = arg;

    c->refs++;
    flush(c);
    bh_http_conn_unref(c);
}

static void on_close(void *arg, const struct bh_err *err)
{
    struct bh_http_conn *c = arg;

    if (err->code != BH_OK)
        bh_log(BH_DEBUG, "http/2 connection ended", BH_CSTR("why", err->msg));
    bh_http_conn_gone(c);
}

static int64_t ms_ns(int ms)
{
    return (int64_t)ms * 1000000;
}

/* One exchange against the limits: a request that stopped coming, an answer that nobody takes. */
static void look_at(struct bh_http_x *x, int64_t now)
{
    const struct bh_http_server_opts *o = &x->conn->server->opts;
    uint64_t sent = bh_h2_sent(x->h2);

    if (sent != x->sent_seen || (x->with_handler && bh_h2_unsent(x->h2) == 0)) {
        x->sent_seen = sent;
        x->moved_ns = now;
    } else if (now - x->moved_ns >=
               ms_ns(x->with_handler ? o->write_timeout_ms : o->body_timeout_ms)) {
        bh_h2_reset(x->h2, BH_H2_CANCEL);
    }
}

static int tick_ms(const struct bh_http_server_opts *o)
{
    int least = o->idle_timeout_ms < o->write_timeout_ms ? o->idle_timeout_ms : o->write_timeout_ms;

    least = o->body_timeout_ms < least ? o->body_timeout_ms : least;
    return least / TICKS_IN_LIMIT + 1;
}

void bh_http2_tick(struct bh_http_conn *c)
{
    const struct bh_http_server_opts *o = &c->server->opts;
    int64_t now = bh_loop_mono_ns(c->loop);
    uint64_t sent = bh_stream_sent(c->stream);
    struct bh_err e = {0};

    bh_timer_start(&c->timer, tick_ms(o));
    if (sent != c->sent_seen || bh_stream_queued(c->stream) == 0) {
        c->sent_seen = sent;
        c->moved_ns = now;
    } else if (now - c->moved_ns >= ms_ns(o->write_timeout_ms)) {
        (void)bh_err_set(&e, BH_E_TIMEOUT, "%s does not read its response", c->peer.addr);
        bh_stream_abort(c->stream, &e);
        return;
    }
    bh_list_for(it, &c->xs)
    {
        look_at(bh_container(it, struct bh_http_x, h2_link), now);
    }
    /* A client that never says what it wants is idle, too, however many bytes it sends. */
    if (bh_list_empty(&c->xs) && now - c->idle_since_ns >= ms_ns(o->idle_timeout_ms)) {
        c->refs++;
        bh_h2_shutdown(c->h2, BH_H2_NO_ERROR);
        flush(c);
        if (c->stream)
            bh_stream_close(c->stream);
        bh_http_conn_unref(c);
    }
}

void bh_http2_drain(struct bh_http_conn *c)
{
    bh_h2_shutdown(c->h2, BH_H2_NO_ERROR);
}

void bh_http2_begin(struct bh_http_conn *c)
{
    static const struct bh_stream_ops ops = {
        .on_read = on_read, .on_eof = on_eof, .on_drain = on_drain, .on_close = on_close};
    static const struct bh_h2_ops h2_ops = {.headers = on_headers,
                                            .data = on_data,
                                            .end = on_end,
                                            .closed = on_closed,
                                            .drained = on_drained,
                                            .output = on_output};
    const struct bh_h2_opts o = {.server = true,
                                 .streams_max = BH_HTTP_STREAMS_MAX,
                                 .stream_out_max = BH_STREAM_QUEUE_BYTES_MAX};

    c->idle_since_ns = c->moved_ns = c->waste_ns = bh_loop_mono_ns(c->loop);
    bh_list_init(&c->xs);
    c->h2 = bh_h2_new(&o, &h2_ops, c);
    bh_stream_set_ops(c->stream, &ops, c);
    bh_timer_start(&c->timer, tick_ms(&c->server->opts));
    on_output(c); /* our SETTINGS */
}

/* ---- answers ---- */

static struct bh_str lower(struct bh_arena *a, struct bh_str s)
{
    char *p = bh_arena_alloc(a, s.n);

    for (size_t i = 0; i < s.n; i++)
        p[i] = (char)(s.p[i] >= 'A' && s.p[i] <= 'Z' ? s.p[i] | 0x20 : s.p[i]);
    return (struct bh_str){p, s.n};
}

/* length < 0: not known. */
static void put_head(struct bh_http_x *x, int status, const struct bh_http_header *h, size_t hn,
                     int64_t length, bool end)
{
    struct bh_arena *a = x->pub.arena;
    struct bh_h2_header *out = bh_new_n(a, struct bh_h2_header, hn + 3);
    size_t n = 0;

    out[n++] = (struct bh_h2_header){BH_S(":status"), bh_str_fmt(a, "%03d", status)};
    out[n++] = (struct bh_h2_header){BH_S("date"), bh_s(bh_http_server_date(x->conn->server))};
    for (size_t i = 0; i < hn; i++)
        if (!bh_http_header_is_ours(h[i].name) && bh_h1_header_ok(h[i].name, h[i].value))
            out[n++] = (struct bh_h2_header){lower(a, h[i].name), h[i].value};
    if (length >= 0)
        out[n++] =
            (struct bh_h2_header){BH_S("content-length"), bh_str_fmt(a, "%lld", (long long)length)};
    if (bh_h2_respond(x->h2, out, n, end) < 0)
        bh_h2_reset(x->h2, BH_H2_INTERNAL);
}

static void send_parts(struct bh_http_x *x, const struct bh_part *parts, size_t pn)
{
    if (bh_h2_unsent(x->h2) == 0) /* waiting for the handler was no fault of the client's */
        x->moved_ns = bh_loop_mono_ns(x->conn->loop);
    if (bh_h2_send_parts(x->h2, parts, pn) < 0)
        bh_h2_reset(x->h2, BH_H2_INTERNAL);
    else if (bh_h2_unsent(x->h2) > BH_STREAM_HIGH_BYTES)
        x->was_high = true;
}

void bh_http2_respond(struct bh_http_x *x, int status, const struct bh_http_header *h, size_t hn,
                      const struct bh_part *parts, size_t pn)
{
    bool bodiless = status == 204 || status == 304 || status < 200;
    size_t bytes = bh_http_parts_bytes(parts, pn);
    bool end = x->head_only || bodiless || bytes == 0;

    put_head(x, status, h, hn, bodiless ? -1 : (int64_t)bytes, end);
    if (end) {
        bh_http_parts_drop(parts, pn);
    } else {
        send_parts(x, parts, pn);
        bh_h2_send_end(x->h2, NULL, 0);
    }
}

void bh_http2_stream_start(struct bh_http_x *x, int status, const struct bh_http_header *h,
                           size_t hn)
{
    put_head(x, status, h, hn, -1, x->head_only);
}

void bh_http2_stream_write(struct bh_http_x *x, const struct bh_part *parts, size_t pn)
{
    send_parts(x, parts, pn);
}

void bh_http2_stream_end(struct bh_http_x *x)
{
    if (!x->head_only)
        bh_h2_send_end(x->h2, NULL, 0);
}

/* The client sees a reset where the end should be. */
void bh_http2_stream_abort(struct bh_http_x *x)
{
    bh_h2_reset(x->h2, BH_H2_INTERNAL);
}

void bh_http2_refuse_upgrade(struct bh_http_x *x)
{
    bh_h2_reset(x->h2, BH_H2_HTTP11_REQUIRED);
}

size_t bh_http2_queued(const struct bh_http_x *x)
{
    return bh_h2_unsent(x->h2) + bh_stream_queued(x->conn->stream);
}
