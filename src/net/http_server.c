/* The HTTP server: connections from their first byte to their end. Over HTTP/1.1 one exchange is
 * under way per connection; requests that a client sends ahead wait as bytes, so answers are in
 * order by construction. HTTP/2 goes on in http2_server.c. */
#include "net/http_server_int.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/h2.h"

static void input(struct bh_http_conn *c, struct bh_str data);

const char *bh_http_server_date(struct bh_http_server *s)
{
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    int64_t now = bh_loop_wall_ns(s->loop) / 1000000000;
    time_t t = (time_t)now;
    struct tm tm;

    if (now != s->date_s && gmtime_r(&t, &tm)) {
        s->date_s = now;
        (void)snprintf(s->date, sizeof(s->date), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                       days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon], (tm.tm_year + 1900) % 10000,
                       tm.tm_hour, tm.tm_min, tm.tm_sec);
    }
    return s->date;
}

/* ---- life of a connection ---- */

void bh_http_conn_unref(struct bh_http_conn *c)
{
    if (--c->refs > 0)
        return;
    (void)bh_h2_free(c->h2);
    bh_h1_done(&c->h1);
    bh_buf_done(&c->in);
    bh_free(c->peer_text);
    bh_free(c);
}

static void server_unref(struct bh_http_server *s)
{
    if (--s->refs == 0) {
        bh_buf_done(&s->head);
        bh_free(s);
    }
}

static void drain_over(struct bh_http_server *s)
{
    void (*fn)(void *) = s->drained;

    bh_timer_stop(&s->drain_timer);
    s->drained = NULL;
    if (fn)
        fn(s->drained_arg);
}

static void drain_check(void *arg)
{
    struct bh_http_server *s = arg;

    if (s->conns_n == 0)
        drain_over(s);
    server_unref(s);
}

void bh_http_x_uncount(struct bh_http_x *x)
{
    struct bh_http_server *s = x->conn->server;

    if (!s)
        return;
    bh_assert(s->bodies_bytes >= x->counted);
    s->bodies_bytes -= x->counted;
    x->counted = 0;
}

static void uncount_all(struct bh_http_conn *c)
{
    if (c->cur)
        bh_http_x_uncount(c->cur);
    if (!c->h2)
        return;
    bh_list_for(it, &c->xs)
    {
        bh_http_x_uncount(bh_container(it, struct bh_http_x, h2_link));
    }
}

void bh_http_conn_detach(struct bh_http_conn *c)
{
    struct bh_http_server *s = c->server;

    if (!c->stream)
        return;
    uncount_all(c);
    c->stream = NULL;
    c->server = NULL; /* it may go before the exchanges that are still with handlers */
    bh_timer_stop(&c->timer);
    if (s) {
        bh_list_del(&c->link);
        s->conns_n--;
        if (s->draining && s->conns_n == 0 && s->drained) {
            s->refs++;
            bh_loop_defer(s->loop, drain_check, s);
        }
    }
    bh_http_conn_unref(c); /* the stream's reference */
}

/* An exchange whose request never became complete is ours to drop; one that is with the handler is
 * told. */
void bh_http_conn_gone(struct bh_http_conn *c)
{
    struct bh_http_x *x = c->cur;

    c->refs++;
    bh_http_conn_detach(c);
    if (c->h2)
        bh_http2_gone(c);
    if (x && !c->answering) {
        c->cur = NULL;
        bh_http_unref(&x->pub);
    } else if (x) {
        bh_http_x_tell_close(x);
    }
    bh_http_conn_unref(c);
}

static void on_close(void *arg, const struct bh_err *err)
{
    struct bh_http_conn *c = arg;

    if (err->code != BH_OK)
        bh_log(BH_DEBUG, "http connection ended", BH_CSTR("why", err->msg));
    bh_http_conn_gone(c);
}

/* Deadlines move with every request; the timer does not, it looks again when it fires too early. */
static void set_deadline(struct bh_http_conn *c, int ms)
{
    c->deadline_ns = bh_loop_mono_ns(c->loop) + (int64_t)ms * 1000000;
    if (!bh_timer_armed(&c->timer) || c->timer.at_ns > c->deadline_ns)
        bh_timer_start(&c->timer, ms);
}

/* Between requests the last answer may still be on its way out: whichever limit comes first is
 * looked at first. */
static void set_idle(struct bh_http_conn *c)
{
    const struct bh_http_server_opts *o = &c->server->opts;

    c->idle_until_ns = bh_loop_mono_ns(c->loop) + (int64_t)o->idle_timeout_ms * 1000000;
    set_deadline(c, o->idle_timeout_ms < o->write_timeout_ms ? o->idle_timeout_ms
                                                             : o->write_timeout_ms);
}

static void fail(struct bh_http_conn *c, int status)
{
    struct bh_http_x *x = c->cur;
    BH_AUTO_BUF b = {0};
    const char *text = bh_http_status_text(status);

    if (x)
        bh_http_x_uncount(x);
    c->cur = NULL;
    c->close_after = true;
    if (x)
        bh_http_unref(&x->pub);
    bh_buf_addf(&b,
                "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                "Connection: close\r\nContent-Length: %zu\r\n\r\n%d %s",
                status, text, bh_http_server_date(c->server), strlen(text) + 4, status, text);
    bh_stream_write_str(c->stream, bh_buf_str(&b));
    bh_stream_close(c->stream);
}

static void on_timer(void *arg)
{
    struct bh_http_conn *c = arg;
    int64_t now = bh_loop_mono_ns(c->loop);
    uint64_t sent = bh_stream_sent(c->stream);
    bool stuck = bh_stream_queued(c->stream) > 0 && sent == c->sent_seen;
    struct bh_err e = {0};

    if (c->h2) {
        bh_http2_tick(c);
        return;
    }
    if (now < c->deadline_ns) {
        bh_timer_start_ns(&c->timer, c->deadline_ns - now);
        return;
    }
    c->sent_seen = sent;
    if (stuck) {
        (void)bh_err_set(&e, BH_E_TIMEOUT, "%s does not read its response", c->peer.addr);
        bh_stream_abort(c->stream, &e);
    } else if (c->answering || bh_stream_queued(c->stream) > 0) {
        set_deadline(c, c->server->opts.write_timeout_ms);
    } else if (bh_h1_idle(&c->h1) && now < c->idle_until_ns) {
        c->deadline_ns = c->idle_until_ns;
        bh_timer_start_ns(&c->timer, c->idle_until_ns - now);
    } else if (bh_h1_idle(&c->h1)) {
        bh_stream_close(c->stream);
    } else {
        fail(c, 408);
    }
}

/* ---- requests ---- */

static void tell_100(struct bh_http_conn *c)
{
    bh_stream_write_str(c->stream, BH_S("HTTP/1.1 100 Continue\r\n\r\n"));
}

/* Too large: the handler or a bare 413 answers, and nothing behind the head is read any more. */
static void too_large(struct bh_http_conn *c)
{
    struct bh_http_x *x = c->cur;

    if (!c->server->opts.pass_large_body) {
        fail(c, 413);
        return;
    }
    bh_buf_clear(&x->body);
    x->pub.body_too_large = true;
    x->keep_alive = false;
    c->close_after = true;
    bh_stream_pause(c->stream);
    c->held = true;
}

static bool got_head(struct bh_http_conn *c)
{
    const struct bh_h1_head *hd = &c->h1.head;
    struct bh_http_server *s = c->server;
    struct bh_http_x *x = c->cur;

    x->pub.method = hd->method;
    x->pub.target = hd->target;
    x->pub.path = hd->path;
    x->pub.query = hd->query;
    x->pub.headers = hd->headers;
    x->pub.headers_n = hd->headers_n;
    x->minor = hd->minor;
    x->keep_alive = hd->keep_alive;
    x->head_only = bh_str_eqc(hd->method, "HEAD");
    if (hd->has_length && hd->length > s->opts.body_bytes_max) {
        too_large(c);
        return false;
    }
    x->body.max = s->opts.body_bytes_max;
    if (hd->has_length && hd->length > 0)
        bh_buf_reserve(&x->body, hd->length < 65536 ? (size_t)hd->length : 65536);
    if (hd->expect_continue && hd->minor > 0 && (hd->chunked || hd->length > 0))
        tell_100(c);
    return true;
}

/* Gives the request to the handler. Returns true when the next one may be parsed at once. */
static bool dispatch(struct bh_http_conn *c)
{
    struct bh_http_x *x = c->cur;
    struct bh_http_server *s = c->server;

    x->pub.body = bh_buf_str(&x->body);
    x->pub.start_ns = bh_loop_mono_ns(c->loop);
    c->answering = true;
    set_deadline(c, s->opts.write_timeout_ms);
    s->opts.handler(s->opts.arg, &x->pub);
    return c->stream && !c->answering && !c->close_after;
}

static void begin_request(struct bh_http_conn *c)
{
    c->cur = bh_http_x_new(c);
    c->h1.arena = c->cur->pub.arena;
    set_deadline(c, c->server->opts.header_timeout_ms);
}

/* Handles one event; false: stop parsing for now. */
static bool on_event(struct bh_http_conn *c, int ev, struct bh_str data)
{
    struct bh_http_x *x = c->cur;

    switch (ev) {
    case BH_H1_HEAD:
        if (!got_head(c)) {
            if (c->cur)
                (void)dispatch(c);
            return false;
        }
        if (bh_h1_in_body(&c->h1))
            set_deadline(c, c->server->opts.body_timeout_ms);
        return true;
    case BH_H1_BODY:
        set_deadline(c, c->server->opts.body_timeout_ms);
        if (data.n > x->body.max - x->body.n) {
            too_large(c);
            if (c->cur)
                (void)dispatch(c);
            return false;
        }
        if (data.n > BH_BODIES_BYTES_MAX - c->server->bodies_bytes) {
            fail(c, 503);
            return false;
        }
        bh_buf_adds(&x->body, data);
        x->counted += data.n;
        c->server->bodies_bytes += data.n;
        return true;
    case BH_H1_END:
        return dispatch(c);
    default:
        fail(c, c->h1.bad_status);
        return false;
    }
}

/* Bytes behind a request that is being answered wait, up to a limit; then the client has to. */
static void stash(struct bh_http_conn *c, struct bh_str data)
{
    bh_buf_adds(&c->in, data);
    if (c->in.n >= BH_HTTP_PIPELINE_BYTES_MAX && !c->held) {
        c->held = true;
        bh_stream_pause(c->stream);
    }
}

static void input(struct bh_http_conn *c, struct bh_str data)
{
    struct bh_stream *st = c->stream;

    c->refs++;
    c->in_input = true;
    while (data.n > 0 && c->stream && c->server && !c->answering && !c->close_after) {
        struct bh_str piece = {0};
        int ev;

        if (bh_stream_above_high(st)) { /* a client that sends but does not read */
            stash(c, data);
            if (!c->held) {
                c->held = true;
                bh_stream_pause(st);
            }
            data.n = 0;
            break;
        }
        if (!c->cur)
            begin_request(c);
        do {
            ev = bh_h1_next(&c->h1, &data, &piece, NULL);
        } while (ev != BH_H1_MORE && on_event(c, ev, piece) && c->cur);
        if (ev == BH_H1_MORE)
            break;
    }
    c->in_input = false;
    if (!c->stream) {
        bh_stream_unread(st, data); /* handed over within the handler: so is what came behind */
    } else if (c->answering) {
        stash(c, data);
    } else if (c->eof && c->in.n == 0) {
        bh_stream_close(st);
    } else if (!c->cur) {
        set_idle(c);
    }
    bh_http_conn_unref(c);
}

static void on_read(void *arg, struct bh_str data)
{
    struct bh_http_conn *c = arg;

    if (c->answering || c->in.n > 0)
        stash(c, data);
    else if (!c->close_after)
        input(c, data);
}

static void on_eof(void *arg)
{
    struct bh_http_conn *c = arg;

    c->eof = true;
    if (c->answering)
        bh_http_x_tell_close(
            c->cur); /* it may only have ended its side: the answer is still sent */
    else if (c->in.n == 0)
        bh_stream_close(c->stream);
}

/* Takes up reading where it was held back. */
static void go_on(struct bh_http_conn *c)
{
    if (c->in.n > 0) {
        struct bh_buf b = c->in;

        c->in = (struct bh_buf){0};
        bh_stream_unread(c->stream, bh_buf_str(&b));
        bh_buf_done(&b);
    }
    if (c->held) {
        c->held = false;
        bh_stream_resume(c->stream);
    }
}

static void on_drain(void *arg)
{
    struct bh_http_conn *c = arg;

    if (!c->answering) {
        if (!c->close_after)
            go_on(c);
    } else if (c->cur->on_drain) {
        c->cur->on_drain(c->cur->on_drain_arg);
    }
}

void bh_http_exchange_done(struct bh_http_x *x)
{
    struct bh_http_conn *c = x->conn;

    if (x->over_h2) {
        bh_http2_x_done(x);
        return;
    }
    x->finished = true;
    bh_assert(c->cur == x);
    bh_http_x_uncount(x);
    c->cur = NULL;
    c->answering = false;
    c->refs++;
    bh_http_unref(&x->pub);
    if (c->stream && c->server) {
        if (c->close_after || c->server->draining || (c->eof && c->in.n == 0 && !c->in_input)) {
            c->close_after = true;
            bh_stream_close(c->stream);
        } else if (!c->in_input) {
            set_idle(c);
            if (!bh_stream_above_high(c->stream))
                go_on(c);
        }
    }
    bh_http_conn_unref(c);
}

/* ---- the server ---- */

/* The peer outlives its stream: exchanges may still be asked who sent them. */
static void copy_peer(struct bh_http_conn *c, const struct bh_stream_peer *p)
{
    BH_AUTO_BUF b = {0};
    size_t at = p->orgs.n * sizeof(struct bh_str);
    struct bh_str *orgs;

    c->peer = *p;
    if (!p->tls)
        return;
    bh_buf_adds(&b, p->cn);
    bh_buf_adds(&b, p->alpn);
    for (size_t i = 0; i < p->orgs.n; i++)
        bh_buf_adds(&b, p->orgs.p[i]);
    c->peer_text = bh_malloc(at + b.n + 1);
    if (b.n > 0)
        memcpy(c->peer_text + at, b.p, b.n);
    orgs = (struct bh_str *)(void *)c->peer_text;
    c->peer.cn.p = c->peer_text + at;
    at += p->cn.n;
    c->peer.alpn.p = c->peer_text + at;
    at += p->alpn.n;
    for (size_t i = 0; i < p->orgs.n; i++) {
        orgs[i] = (struct bh_str){c->peer_text + at, p->orgs.p[i].n};
        at += p->orgs.p[i].n;
    }
    c->peer.orgs.p = orgs;
}

static struct bh_http_conn *adopt(struct bh_http_server *s, struct bh_stream *st)
{
    struct bh_http_conn *c = bh_calloc(1, sizeof(*c));

    c->server = s;
    c->loop = s->loop;
    c->stream = st;
    c->refs = 1;
    bh_list_add_tail(&s->conns, &c->link);
    s->conns_n++;
    copy_peer(c, bh_stream_peer(st));
    bh_h1_init(&c->h1, false);
    bh_timer_init(&c->timer, s->loop, on_timer, c);
    if (s->draining)
        bh_stream_close(st);
    return c;
}

void bh_http2_adopt(struct bh_http_server *s, struct bh_stream *st)
{
    bh_http2_begin(adopt(s, st));
}

void bh_http_server_adopt(struct bh_http_server *s, struct bh_stream *st)
{
    static const struct bh_stream_ops ops = {
        .on_read = on_read, .on_eof = on_eof, .on_drain = on_drain, .on_close = on_close};
    struct bh_http_conn *c;

    if (bh_str_eqc(bh_stream_peer(st)->alpn, "h2")) {
        bh_http2_adopt(s, st);
        return;
    }
    c = adopt(s, st);
    bh_stream_set_ops(st, &ops, c);
    set_deadline(c, s->opts.header_timeout_ms);
}

static void on_accept(void *arg, struct bh_stream *st)
{
    bh_http_server_adopt(arg, st);
}

static void on_drain_timer(void *arg)
{
    drain_over(arg);
}

static int or_default(int ms, int dflt)
{
    return ms ? ms : dflt;
}

struct bh_http_server *bh_http_server_new(struct bh_loop *l, const struct bh_http_server_opts *o)
{
    struct bh_http_server *s = bh_calloc(1, sizeof(*s));

    bh_assert(o->handler != NULL);
    s->loop = l;
    s->refs = 1;
    s->opts = *o;
    if (s->opts.body_bytes_max == 0)
        s->opts.body_bytes_max = BH_BODY_BYTES_MAX;
    s->opts.header_timeout_ms = or_default(o->header_timeout_ms, BH_HTTP_HEADER_TIMEOUT_MS);
    s->opts.body_timeout_ms = or_default(o->body_timeout_ms, BH_HTTP_BODY_TIMEOUT_MS);
    s->opts.idle_timeout_ms = or_default(o->idle_timeout_ms, BH_HTTP_IDLE_TIMEOUT_MS);
    s->opts.write_timeout_ms = or_default(o->write_timeout_ms, BH_HTTP_WRITE_TIMEOUT_MS);
    bh_list_init(&s->conns);
    bh_list_init(&s->spare);
    bh_timer_init(&s->drain_timer, l, on_drain_timer, s);
    s->date_s = -1;
    return s;
}

int bh_http_server_listen(struct bh_http_server *s, const struct bh_listen_opts *o, int *ret_port,
                          struct bh_err *err)
{
    struct bh_listener *ln;

    if (s->listeners_n == BH_HTTP_LISTENERS_MAX)
        return bh_err_set(err, BH_E_LIMIT, "more than %d listeners", BH_HTTP_LISTENERS_MAX);
    ln = bh_listen(s->loop, o, on_accept, s, err);
    if (!ln)
        return err && err->code ? -(int)err->code : -BH_E_IO;
    s->listener_tls[s->listeners_n] = o->tls != NULL;
    s->listeners[s->listeners_n++] = ln;
    if (ret_port)
        *ret_port = bh_listener_port(ln);
    return 0;
}

void bh_http_server_set_tls(struct bh_http_server *s, struct bh_tls *tls)
{
    for (size_t i = 0; i < s->listeners_n; i++)
        if (s->listener_tls[i])
            bh_listener_set_tls(s->listeners[i], tls);
}

size_t bh_http_server_conns(const struct bh_http_server *s)
{
    return s->conns_n;
}

static void close_listeners(struct bh_http_server *s)
{
    for (size_t i = 0; i < s->listeners_n; i++)
        s->listeners[i] = bh_listener_free(s->listeners[i]);
    s->listeners_n = 0;
}

/* An exchange that is with its handler and has not heard of the end. */
static struct bh_http_x *untold(struct bh_http_conn *c)
{
    if (c->h2)
        bh_list_for(it, &c->xs)
        {
            struct bh_http_x *x = bh_container(it, struct bh_http_x, h2_link);

            if (x->with_handler && !x->finished && x->on_close && !x->told_close)
                return x;
        }
    return c->answering && c->cur->on_close && !c->cur->told_close ? c->cur : NULL;
}

void bh_http_server_drain(struct bh_http_server *s, int timeout_ms, void (*done)(void *arg),
                          void *arg)
{
    s->draining = true;
    s->drained = done;
    s->drained_arg = arg;
    close_listeners(s);
    s->refs++; /* on_close below may free the server */
    bh_list_for_safe(it, &s->conns)
    {
        struct bh_http_conn *c = bh_container(it, struct bh_http_conn, link);

        if (c->h2)
            bh_http2_drain(c);
        else if (!c->answering && bh_h1_idle(&c->h1))
            bh_stream_close(
                c->stream); /* its end comes later, from the loop: the list stays as it is */
    }
    bh_timer_start(&s->drain_timer, timeout_ms);
    for (bool again = true;
         again && s->refs > 1;) { /* a callback may end any exchange: start over after each */
        again = false;
        bh_list_for(it, &s->conns)
        {
            struct bh_http_x *x = untold(bh_container(it, struct bh_http_conn, link));

            if (x) {
                bh_http_x_tell_close(x);
                again = true;
                break;
            }
        }
    }
    if (s->conns_n == 0) {
        s->refs++;
        bh_loop_defer(s->loop, drain_check, s);
    }
    server_unref(s);
}

struct bh_http_server *bh_http_server_free(struct bh_http_server *s)
{
    if (!s)
        return NULL;
    close_listeners(s);
    bh_timer_stop(&s->drain_timer);
    s->drained = NULL;
    while (!bh_list_empty(&s->conns)) {
        struct bh_http_conn *c = bh_container(s->conns.next, struct bh_http_conn, link);
        struct bh_stream *st = c->stream;

        bh_stream_set_ops(st, NULL, NULL);
        bh_stream_abort(st, NULL);
        bh_http_conn_gone(c);
    }
    while (!bh_list_empty(&s->spare)) {
        struct bh_http_x *x = bh_container(s->spare.next, struct bh_http_x, spare_link);

        bh_list_del(&x->spare_link);
        bh_http_x_spare_free(x);
    }
    server_unref(s);
    return NULL;
}
