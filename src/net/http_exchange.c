/* Exchanges: their memory, and everything a handler does to answer. */
#include "net/http_server_int.h"

#include <string.h>

#include "base/arena.h"
#include "base/limits.h"

static struct bh_http_x *of(struct bh_http_exchange *x)
{
    return bh_container(x, struct bh_http_x, pub);
}

static const struct bh_http_x *of_const(const struct bh_http_exchange *x)
{
    return (const struct bh_http_x *)(const void *)x; /* pub comes first */
}

/* ---- memory ---- */

struct bh_http_x *bh_http_x_new(struct bh_http_conn *c)
{
    struct bh_http_server *s = c->server;
    struct bh_http_x *x;
    struct bh_arena *a;
    struct bh_buf body;

    if (s && !bh_list_empty(&s->spare)) {
        x = bh_container(s->spare.next, struct bh_http_x, spare_link);
        bh_list_del(&x->spare_link);
        s->spare_n--;
    } else {
        x = bh_calloc(1, sizeof(*x));
        x->pub.arena = bh_arena_new(0);
    }
    a = x->pub.arena;
    body = x->body;
    *x = (struct bh_http_x){.conn = c, .body = body, .refs = 1};
    x->pub.arena = a;
    x->pub.loop = c->loop;
    x->pub.peer = &c->peer;
    x->pub.tls = c->peer.tls;
    c->refs++;
    return x;
}

void bh_http_x_spare_free(struct bh_http_x *x)
{
    bh_buf_done(&x->body);
    (void)bh_arena_free(x->pub.arena);
    bh_free(x);
}

struct bh_http_exchange *bh_http_ref(struct bh_http_exchange *x)
{
    bh_assert(of(x)->refs > 0);
    of(x)->refs++;
    return x;
}

void bh_http_unref(struct bh_http_exchange *pub)
{
    struct bh_http_x *x = of(pub);
    struct bh_http_conn *c = x->conn;
    struct bh_http_server *s = c->server;
    bool big;

    bh_assert(x->refs > 0);
    if (--x->refs > 0)
        return;
    if (x->body.cap > 65536)
        bh_buf_done(&x->body);
    bh_buf_clear(&x->body);
    big = bh_arena_used(pub->arena) > BH_HTTP_SPARE_BYTES;
    bh_arena_reset(pub->arena);
    x->conn = NULL;
    if (s && s->spare_n < BH_HTTP_SPARE_MAX && !big) {
        bh_list_add_head(&s->spare, &x->spare_link);
        s->spare_n++;
    } else {
        bh_http_x_spare_free(x);
    }
    bh_http_conn_unref(c);
}

static void release_part(void *ref)
{
    bh_http_unref(ref);
}

struct bh_part bh_http_arena_part(struct bh_http_exchange *x, struct bh_str data)
{
    return (struct bh_part){data, release_part, bh_http_ref(x)};
}

/* ---- looking ---- */

const struct bh_str *bh_http_header_get(const struct bh_http_exchange *x, struct bh_str name)
{
    return bh_http_header_find(x->headers, x->headers_n, name);
}

bool bh_http_gone(const struct bh_http_exchange *x)
{
    const struct bh_http_x *m = of_const(x);

    return m->conn->stream == NULL || (m->over_h2 && !m->h2);
}

size_t bh_http_queued(const struct bh_http_exchange *x)
{
    const struct bh_http_x *m = of_const(x);

    if (bh_http_gone(x))
        return 0;
    return m->over_h2 ? bh_http2_queued(m) : bh_stream_queued(m->conn->stream);
}

void bh_http_on_close(struct bh_http_exchange *pub, void (*fn)(void *arg), void *arg)
{
    struct bh_http_x *x = of(pub);

    x->on_close = fn;
    x->on_close_arg = arg;
}

void bh_http_on_drain(struct bh_http_exchange *pub, void (*fn)(void *arg), void *arg)
{
    struct bh_http_x *x = of(pub);

    x->on_drain = fn;
    x->on_drain_arg = arg;
}

void bh_http_x_tell_close(struct bh_http_x *x)
{
    if (x->told_close || x->finished || !x->on_close)
        return;
    x->told_close = true;
    x->on_close(x->on_close_arg); /* may finish the exchange: touch nothing after it */
}

/* ---- writing ---- */

void bh_http_parts_drop(const struct bh_part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (parts[i].release)
            parts[i].release(parts[i].ref);
}

size_t bh_http_parts_bytes(const struct bh_part *parts, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += parts[i].data.n;
    return sum;
}

bool bh_http_header_is_ours(struct bh_str name)
{
    return bh_str_eq_nocase(name, BH_S("content-length")) ||
           bh_str_eq_nocase(name, BH_S("transfer-encoding")) ||
           bh_str_eq_nocase(name, BH_S("connection")) || bh_str_eq_nocase(name, BH_S("date"));
}

static void put_head(struct bh_buf *b, struct bh_http_server *s, int status,
                     const struct bh_http_header *h, size_t hn)
{
    bh_buf_clear(b);
    bh_buf_adds(b, BH_S("HTTP/1.1 "));
    bh_buf_add_i64(b, status);
    bh_buf_addc(b, ' ');
    bh_buf_addz(b, bh_http_status_text(status));
    bh_buf_adds(b, BH_S("\r\nDate: "));
    bh_buf_addz(b, bh_http_server_date(s));
    for (size_t i = 0; i < hn; i++) {
        if (bh_http_header_is_ours(h[i].name) || !bh_h1_header_ok(h[i].name, h[i].value))
            continue;
        bh_buf_adds(b, BH_S("\r\n"));
        bh_buf_adds(b, h[i].name);
        bh_buf_adds(b, BH_S(": "));
        bh_buf_adds(b, h[i].value);
    }
}

static void put_connection(struct bh_buf *b, struct bh_http_x *x)
{
    struct bh_http_conn *c = x->conn;

    if (!x->keep_alive || c->server->draining)
        c->close_after = true;
    if (c->close_after)
        bh_buf_adds(b, BH_S("\r\nConnection: close"));
    else if (x->minor == 0)
        bh_buf_adds(b, BH_S("\r\nConnection: keep-alive"));
}

static bool may_answer(struct bh_http_x *x)
{
    return x->conn->stream != NULL && x->conn->server != NULL && (!x->over_h2 || x->h2);
}

void bh_http_respond(struct bh_http_exchange *pub, int status, const struct bh_http_header *h,
                     size_t hn, const struct bh_part *parts, size_t pn)
{
    struct bh_http_x *x = of(pub);

    bh_assert(!x->finished && !x->started);
    if (!may_answer(x)) {
        bh_http_parts_drop(parts, pn);
    } else if (x->over_h2) {
        bh_http2_respond(x, status, h, hn, parts, pn);
    } else {
        struct bh_buf *b = &x->conn->server->head;
        bool bodiless = status == 204 || status == 304 || status < 200;

        put_head(b, x->conn->server, status, h, hn);
        put_connection(b, x);
        if (!bodiless) {
            bh_buf_adds(b, BH_S("\r\nContent-Length: "));
            bh_buf_add_u64(b, bh_http_parts_bytes(parts, pn));
        }
        bh_buf_adds(b, BH_S("\r\n\r\n"));
        bh_stream_write_str(x->conn->stream, bh_buf_str(b));
        if (x->head_only || bodiless)
            bh_http_parts_drop(parts, pn);
        else
            bh_stream_write(x->conn->stream, parts, pn);
    }
    bh_http_exchange_done(x);
}

void bh_http_stream_start(struct bh_http_exchange *pub, int status, const struct bh_http_header *h,
                          size_t hn)
{
    struct bh_http_x *x = of(pub);
    struct bh_buf *b;

    bh_assert(!x->finished && !x->started);
    x->started = true;
    if (!may_answer(x))
        return;
    if (x->over_h2) {
        bh_http2_stream_start(x, status, h, hn);
        return;
    }
    b = &x->conn->server->head;
    x->chunked = x->minor > 0;
    if (!x->chunked)
        x->keep_alive =
            false; /* HTTP/1.0 knows no chunks: the end of the connection ends the body */
    put_head(b, x->conn->server, status, h, hn);
    put_connection(b, x);
    if (x->chunked)
        bh_buf_adds(b, BH_S("\r\nTransfer-Encoding: chunked"));
    bh_buf_adds(b, BH_S("\r\n\r\n"));
    bh_stream_write_str(x->conn->stream, bh_buf_str(b));
}

void bh_http_stream_write(struct bh_http_exchange *pub, const struct bh_part *parts, size_t pn)
{
    static const char digits[] = "0123456789abcdef";
    struct bh_http_x *x = of(pub);
    size_t n = bh_http_parts_bytes(parts, pn);
    char line[20];
    size_t at = sizeof(line);

    bh_assert(!x->finished && x->started);
    if (!may_answer(x) || x->head_only || n == 0) { /* an empty chunk would end the body */
        bh_http_parts_drop(parts, pn);
        return;
    }
    if (x->over_h2) {
        bh_http2_stream_write(x, parts, pn);
        return;
    }
    if (!x->chunked) {
        bh_stream_write(x->conn->stream, parts, pn);
        return;
    }
    line[--at] = '\n';
    line[--at] = '\r';
    do {
        line[--at] = digits[n & 15];
        n >>= 4;
    } while (n > 0);
    bh_stream_write_str(x->conn->stream, (struct bh_str){line + at, sizeof(line) - at});
    bh_stream_write(x->conn->stream, parts, pn);
    bh_stream_write_str(x->conn->stream, BH_S("\r\n"));
}

void bh_http_stream_end(struct bh_http_exchange *pub)
{
    struct bh_http_x *x = of(pub);

    bh_assert(!x->finished && x->started);
    if (may_answer(x) && x->over_h2)
        bh_http2_stream_end(x);
    else if (may_answer(x) && x->chunked && !x->head_only)
        bh_stream_write_str(x->conn->stream, BH_S("0\r\n\r\n"));
    bh_http_exchange_done(x);
}

void bh_http_stream_abort(struct bh_http_exchange *pub)
{
    struct bh_http_x *x = of(pub);

    bh_assert(!x->finished && x->started);
    if (!x->over_h2)
        x->conn->close_after = true; /* what was written goes out, the last chunk does not */
    else if (may_answer(x))
        bh_http2_stream_abort(x);
    bh_http_exchange_done(x);
}

struct bh_stream *bh_http_upgrade(struct bh_http_exchange *pub, int status,
                                  const struct bh_http_header *h, size_t hn)
{
    struct bh_http_x *x = of(pub);
    struct bh_http_conn *c = x->conn;
    struct bh_stream *st = c->stream;

    bh_assert(!x->finished && !x->started);
    if (may_answer(x) && x->over_h2) {
        bh_http2_refuse_upgrade(x);
        st = NULL;
    } else if (may_answer(x)) {
        struct bh_buf *b = &c->server->head;

        put_head(b, c->server, status, h, hn);
        if (status == 101)
            bh_buf_adds(b, BH_S("\r\nConnection: Upgrade"));
        bh_buf_adds(b, BH_S("\r\n\r\n"));
        bh_stream_write_str(st, bh_buf_str(b));
        bh_stream_unread(st, bh_buf_str(&c->in));
        bh_buf_done(&c->in);
        if (c->held)
            bh_stream_resume(st);
        bh_stream_set_ops(st, NULL, NULL);
        bh_http_conn_detach(c);
    } else {
        st = NULL;
    }
    bh_http_exchange_done(x);
    return st;
}
