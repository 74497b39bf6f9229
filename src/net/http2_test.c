/* HTTP/2: our server and our client against each other over TLS, and the server against raw frames.
 */
#include "net/http_server_int.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/test.h"
#include "net/h2.h"
#include "net/loop.h"
#include "net/pki.h"

#define HELD_MAX 512

static char big[3 << 20];

struct fix {
    struct bh_loop *l;
    struct bh_http_server *s;
    struct bh_http_client *c;
    struct bh_tls *stls, *ctls;
    int port, handled, closes, released, drains, drained;
    struct bh_timer guard, tick;
    struct bh_http_exchange *held[HELD_MAX];
    size_t held_n, pumped;
    bool saw_host, saw_large;
};

static void stop_loop(void *arg)
{
    struct fix *f = arg;

    bh_loop_stop(f->l);
}

static void a_while(struct fix *f, int ms)
{
    bh_timer_init(&f->tick, f->l, stop_loop, f);
    bh_timer_start(&f->tick, ms);
    bh_loop_run(f->l);
}

static void on_guard(void *arg)
{
    struct fix *f = arg;

    bh_test_fail(__FILE__, __LINE__, "the test hangs");
    bh_loop_stop(f->l);
}

static void release_one(void *ref)
{
    struct fix *f = ref;

    f->released++;
}

static void let_go(struct fix *f, struct bh_http_exchange *x)
{
    for (size_t i = 0; i < f->held_n; i++)
        if (f->held[i] == x) {
            f->held[i] = f->held[--f->held_n];
            return;
        }
}

static void text(struct bh_http_exchange *x, int status, struct bh_str s)
{
    struct bh_http_header h = BH_HTTP_HEADER("Content-Type", BH_S("text/plain"));
    struct bh_part p = bh_http_arena_part(x, bh_str_dup(x->arena, s));

    bh_http_respond(x, status, &h, 1, &p, 1);
}

static void watch_closed(void *arg)
{
    struct bh_http_exchange *x = arg;
    struct fix *f = x->user;

    f->closes++;
    let_go(f, x);
    bh_http_stream_end(x);
}

static void hold_closed(void *arg)
{
    struct bh_http_exchange *x = arg;
    struct fix *f = x->user;

    f->closes++;
    let_go(f, x);
    bh_http_respond(x, 500, NULL, 0, NULL, 0);
}

/* Three times 3 MiB, each when what came before is out. */
static void pump(void *arg)
{
    struct bh_http_exchange *x = arg;
    struct fix *f = x->user;
    struct bh_part p = {{big, sizeof(big)}, release_one, f};

    f->drains++;
    if (f->pumped++ < 3)
        bh_http_stream_write(x, &p, 1);
    else
        bh_http_stream_end(x);
}

static void handle(void *arg, struct bh_http_exchange *x)
{
    struct fix *f = arg;

    f->handled++;
    x->user = f;
    f->saw_host = bh_http_header_get(x, BH_S("Host")) != NULL;
    f->saw_large = x->body_too_large;
    if (bh_str_eqc(x->path, "/echo")) {
        text(x, x->body_too_large ? 413 : 200, x->body);
    } else if (bh_str_eqc(x->path, "/big")) {
        struct bh_part p[3] = {
            {BH_S("<"), NULL, NULL}, {{big, sizeof(big)}, release_one, f}, {BH_S(">"), NULL, NULL}};

        bh_http_respond(x, 200, NULL, 0, p, 3);
    } else if (bh_str_eqc(x->path, "/hold") || bh_str_eqc(x->path, "/watch")) {
        bool watch = bh_str_eqc(x->path, "/watch");

        BH_CHECK(f->held_n < HELD_MAX);
        f->held[f->held_n++] = x;
        bh_http_on_close(x, watch ? watch_closed : hold_closed, x);
        if (watch)
            bh_http_stream_start(x, 200, NULL, 0);
    } else if (bh_str_eqc(x->path, "/pump")) {
        bh_http_on_drain(x, pump, x);
        bh_http_stream_start(x, 200, NULL, 0);
        pump(x);
    } else if (bh_str_eqc(x->path, "/abort")) {
        bh_http_stream_start(x, 200, NULL, 0);
        bh_http_stream_write(x, &(struct bh_part){.data = BH_S("half")}, 1);
        bh_http_stream_abort(x);
    } else if (bh_str_eqc(x->path, "/up")) {
        BH_CHECK(bh_http_upgrade(x, 101, NULL, 0) == NULL);
    } else {
        text(x, bh_str_eqc(x->path, "/") ? 200 : 404,
             bh_str_fmt(x->arena, "%.*s %.*s", BH_SF(x->method), BH_SF(x->query)));
    }
}

/* alpn: what the server offers. */
static void fix_start(struct fix *f, struct bh_http_server_opts so, const char *const *alpn)
{
    static const struct bh_str ips[] = {BH_S_INIT("127.0.0.1")};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_pki_pair ca, sp;
    struct bh_listen_opts lo = {.host = "127.0.0.1"};

    *f = (struct fix){.l = bh_loop_new_real(NULL)};
    BH_EQ(bh_pki_make_ca(a, "ca", 1, &ca, NULL), 0);
    BH_EQ(bh_pki_issue(a, &ca,
                       &(struct bh_pki_req){
                           .cn = BH_S("s"), .ips = ips, .ips_n = 1, .server = true, .days = 1},
                       &sp, NULL),
          0);
    f->stls = bh_tls_new(
        &(struct bh_tls_opts){
            .server = true, .cert_pem = sp.cert_pem, .key_pem = sp.key_pem, .alpn = alpn},
        NULL);
    f->ctls = bh_tls_new(&(struct bh_tls_opts){.ca_pem = ca.cert_pem}, NULL);
    so.handler = handle;
    so.arg = f;
    f->s = bh_http_server_new(f->l, &so);
    lo.tls = f->stls;
    BH_EQ(bh_http_server_listen(f->s, &lo, &f->port, NULL), 0);
    f->c = bh_http_client_new(
        f->l, &(struct bh_http_client_opts){
                  .host = "127.0.0.1", .port = f->port, .tls = f->ctls, .http2 = true});
    bh_timer_init(&f->guard, f->l, on_guard, f);
    bh_timer_start(&f->guard, 60000);
}

static const char *const both[] = {"h2", "http/1.1", NULL};
static const char *const old[] = {"http/1.1", NULL};

static void fix_stop(struct fix *f)
{
    f->c = bh_http_client_free(f->c);
    f->s = bh_http_server_free(f->s);
    while (f->held_n > 0) { /* held through the end of the server */
        struct bh_http_exchange *x = f->held[--f->held_n];

        bh_http_respond(x, 500, NULL, 0, NULL, 0);
    }
    bh_tls_unref(f->stls);
    bh_tls_unref(f->ctls);
    bh_loop_free(f->l);
}

struct got {
    struct fix *f;
    int status, done;
    struct bh_err err;
    struct bh_buf body;
    size_t chunks, bytes;
    int *left; /* stops the loop at zero */
    struct bh_http_call *call;
    bool pause_each, free_client;
    struct bh_timer timer;
};

static void got_done(void *arg, const struct bh_http_response *r, const struct bh_err *err)
{
    struct got *g = arg;

    BH_EQ(g->done, 0);
    g->done++;
    g->call = NULL;
    g->err = *err;
    if (r) {
        g->status = r->status;
        bh_buf_adds(&g->body, r->body);
        BH_CHECK(bh_http_header_find(r->headers, r->headers_n, BH_S("date")) != NULL);
    }
    if (g->free_client)
        g->f->c = bh_http_client_free(g->f->c);
    if (!g->left || --*g->left == 0)
        bh_loop_stop(g->f->l);
}

static void resume_call(void *arg)
{
    struct got *g = arg;

    if (g->call)
        bh_http_call_resume(g->call);
}

static void got_head(void *arg, const struct bh_http_response *r)
{
    (void)arg;
    BH_EQ(r->status, 200);
}

static void got_chunk(void *arg, struct bh_str d)
{
    struct got *g = arg;

    g->chunks++;
    g->bytes += d.n;
    if (g->pause_each) {
        bh_http_call_pause(g->call);
        bh_timer_start_ns(&g->timer, 100000);
    }
}

static void call(struct fix *f, struct got *g, const char *method, const char *target,
                 struct bh_str body)
{
    g->f = f;
    g->call = bh_http_call_start(f->c, &(struct bh_http_request){.method = bh_s(method),
                                                                 .target = bh_s(target),
                                                                 .body = body,
                                                                 .done = got_done,
                                                                 .arg = g});
}

static void stream_call(struct fix *f, struct got *g, const char *target)
{
    g->f = f;
    bh_timer_init(&g->timer, f->l, resume_call, g);
    g->call = bh_http_call_start(f->c, &(struct bh_http_request){.method = BH_S("GET"),
                                                                 .target = bh_s(target),
                                                                 .long_call = true,
                                                                 .on_head = got_head,
                                                                 .on_chunk = got_chunk,
                                                                 .done = got_done,
                                                                 .arg = g});
}

static void call_and_wait(struct fix *f, struct got *g, const char *method, const char *target,
                          struct bh_str body)
{
    bh_buf_done(&g->body);
    *g = (struct got){0};
    call(f, g, method, target, body);
    bh_loop_run(f->l);
    BH_EQ(g->done, 1);
}

BH_TEST(http2_round_trips)
{
    struct bh_str none = {NULL, 0};
    struct got g = {0};
    struct fix f;

    memset(big, 'b', sizeof(big));
    fix_start(&f, (struct bh_http_server_opts){.pass_large_body = true}, both);
    call_and_wait(&f, &g, "GET", "/?x=1", none);
    BH_EQ(g.status, 200);
    BH_STREQ(bh_buf_str(&g.body), "GET x=1");
    BH_CHECK(f.saw_host);
    call_and_wait(&f, &g, "GET", "/no", none);
    BH_EQ(g.status, 404);
    call_and_wait(&f, &g, "POST", "/echo", (struct bh_str){big, 2000000});
    BH_EQ(g.status, 200);
    BH_SEQ(bh_buf_str(&g.body), ((struct bh_str){big, 2000000}));
    call_and_wait(&f, &g, "POST", "/echo", none);
    BH_EQ(g.status, 200);
    BH_EQ(g.body.n, 0);
    call_and_wait(&f, &g, "GET", "/big", none);
    BH_EQ(g.body.n, sizeof(big) + 2);
    BH_EQ(f.released, 1);
    call_and_wait(&f, &g, "HEAD", "/big", none);
    BH_EQ(g.status, 200);
    BH_EQ(g.body.n, 0);
    BH_EQ(f.released, 2);
    call_and_wait(&f, &g, "GET", "/abort", none);
    BH_EQ(g.status, 0);
    BH_CHECK(g.err.code != BH_OK);
    call_and_wait(&f, &g, "GET", "/up", none); /* there is no leaving a shared connection */
    BH_EQ(g.status, 0);
    call_and_wait(&f, &g, "GET", "/a b", none);
    BH_EQ(g.err.code, BH_E_BAD_REQUEST);
    call_and_wait(&f, &g, "GET", "nopath", none);
    BH_EQ(g.status, 0); /* such a request is no HTTP/2 at all */
    call_and_wait(&f, &g, "GET", "/x#y", none);
    BH_EQ(g.status, 400);
    BH_CHECK(!f.saw_large);
    call_and_wait(&f, &g, "POST", "/echo",
                  (struct bh_str){big, sizeof(big)}); /* the limit itself */
    BH_EQ(g.status, 200);
    BH_EQ(bh_http_server_conns(f.s), 1);
    bh_buf_done(&g.body);
    fix_stop(&f);
}

BH_TEST(http2_large_body_is_told)
{
    struct got g = {0};
    struct fix f;

    fix_start(&f, (struct bh_http_server_opts){.pass_large_body = true, .body_bytes_max = 100000},
              both);
    call_and_wait(&f, &g, "POST", "/echo", (struct bh_str){big, 100001});
    BH_EQ(g.status, 413);
    BH_CHECK(f.saw_large);
    call_and_wait(&f, &g, "POST", "/echo", (struct bh_str){big, 100000}); /* the connection lives */
    BH_EQ(g.status, 200);
    BH_EQ(bh_http_server_conns(f.s), 1);
    bh_buf_done(&g.body);
    fix_stop(&f);
}

/* A server that speaks HTTP/1.1 only is served as before. */
BH_TEST(http2_falls_back)
{
    enum { N = 200 };
    struct got *g = bh_calloc(N, sizeof(*g));
    struct fix f;
    int left = N;

    fix_start(&f, (struct bh_http_server_opts){0}, old);
    for (int i = 0; i < N; i++) {
        g[i].left = &left;
        call(&f, &g[i], i % 2 ? "POST" : "GET", "/echo", BH_S("x"));
    }
    bh_loop_run(f.l);
    for (int i = 0; i < N; i++) {
        BH_EQ(g[i].status, 200);
        bh_buf_done(&g[i].body);
    }
    BH_CHECK(bh_http_server_conns(f.s) > 1);
    bh_free(g);
    fix_stop(&f);
}

BH_TEST(http2_ten_thousand_share_a_connection)
{
    enum { N = 10000 };
    struct got *g = bh_calloc(N, sizeof(*g));
    char target[32];
    struct fix f;
    int left = N;

    fix_start(&f, (struct bh_http_server_opts){0}, both);
    for (int i = 0; i < N; i++) {
        g[i].left = &left;
        (void)snprintf(target, sizeof(target), "/?%d", i);
        call(&f, &g[i], "GET", target, (struct bh_str){0});
    }
    bh_loop_run(f.l);
    BH_EQ(f.handled, N);
    for (int i = 0; i < N; i++) {
        (void)snprintf(target, sizeof(target), "GET %d", i);
        BH_STREQ(bh_buf_str(&g[i].body), target);
        bh_buf_done(&g[i].body);
    }
    BH_CHECK(bh_http_server_conns(f.s) <= 16);
    bh_free(g);
    fix_stop(&f);
}

/* More watches than one connection may carry, and calls that need no place of theirs. */
BH_TEST(http2_many_watches_and_calls)
{
    enum { N = 300 };
    struct got *w = bh_calloc(N, sizeof(*w)), g = {0};
    struct fix f;

    fix_start(&f, (struct bh_http_server_opts){0}, both);
    for (int i = 0; i < N; i++)
        stream_call(&f, &w[i], "/watch");
    for (int i = 0; i < 1000 && f.held_n < N; i++)
        a_while(&f, 2);
    BH_EQ(f.held_n, N);
    BH_EQ(bh_http_server_conns(f.s), 2);
    call_and_wait(&f, &g, "GET", "/", (struct bh_str){0});
    BH_EQ(g.status, 200);
    for (size_t i = 0; i < N; i++)
        bh_http_stream_write(f.held[i], &(struct bh_part){.data = BH_S("event\n")}, 1);
    for (int i = 0; i < 1000 && w[N - 1].bytes == 0; i++)
        a_while(&f, 2);
    a_while(&f, 10);
    for (int i = 0; i < N; i++)
        BH_EQ(w[i].bytes, 6);
    for (int i = 0; i < N / 2; i++) /* the other half ends with the client */
        bh_http_call_cancel(w[i].call);
    for (int i = 0; i < 1000 && f.closes < N / 2; i++)
        a_while(&f, 2);
    BH_EQ(f.closes, N / 2);
    f.c = bh_http_client_free(f.c);
    for (int i = N / 2; i < N; i++) {
        BH_EQ(w[i].done, 1);
        BH_EQ(w[i].err.code, BH_E_CANCELED);
    }
    for (int i = 0; i < 1000 && f.closes < N; i++)
        a_while(&f, 2);
    BH_EQ(f.closes, N);
    bh_buf_done(&g.body);
    bh_free(w);
    fix_stop(&f);
}

/* The server is not asked for more than the reader takes, and tells its handler when to go on. */
BH_TEST(http2_back_pressure)
{
    struct got slow = {.pause_each = true}, g = {0};
    struct fix f;

    fix_start(&f, (struct bh_http_server_opts){0}, both);
    stream_call(&f, &slow, "/pump");
    bh_loop_run(f.l);
    BH_EQ(slow.done, 1);
    BH_EQ(slow.status, 200);
    BH_EQ(slow.bytes, 3 * sizeof(big));
    BH_EQ(f.drains, 4);
    BH_EQ(f.released, 3);
    call_and_wait(&f, &g, "GET", "/", (struct bh_str){0});
    BH_EQ(g.status, 200);
    bh_buf_done(&slow.body);
    bh_buf_done(&g.body);
    fix_stop(&f);
}

static void on_drained(void *arg)
{
    struct fix *f = arg;

    f->drained++;
}

BH_TEST(http2_drain_lets_answers_out)
{
    struct got held = {0}, watch = {0};
    struct fix f;

    fix_start(&f, (struct bh_http_server_opts){0}, both);
    call(&f, &held, "GET", "/hold", (struct bh_str){0});
    stream_call(&f, &watch, "/watch");
    for (int i = 0; i < 1000 && f.held_n < 2; i++)
        a_while(&f, 2);
    bh_http_server_drain(f.s, 5000, on_drained, &f);
    BH_EQ(f.closes, 2); /* both are told, and end */
    for (int i = 0; i < 1000 && f.drained == 0; i++)
        a_while(&f, 2);
    BH_EQ(f.drained, 1);
    BH_EQ(held.status, 500);
    BH_EQ(watch.status, 200);
    BH_EQ(watch.done, 1);
    bh_buf_done(&held.body);
    bh_buf_done(&watch.body);
    fix_stop(&f);
}

/* The server dies with calls under way; the client is freed from within an answer. */
BH_TEST(http2_sudden_ends)
{
    struct got held[3] = {0}, g = {0}, last = {0};
    struct bh_str none = {NULL, 0};
    struct fix f;
    int left = 3;

    fix_start(&f, (struct bh_http_server_opts){0}, both);
    call_and_wait(&f, &g, "GET", "/", none);
    for (int i = 0; i < 3; i++) {
        held[i].left = &left;
        call(&f, &held[i], "POST", "/hold", none);
    }
    for (int i = 0; i < 1000 && f.held_n < 3; i++)
        a_while(&f, 2);
    f.s = bh_http_server_free(f.s);
    BH_EQ(f.closes, 3);
    bh_loop_run(f.l);
    for (int i = 0; i < 3; i++)
        BH_CHECK(held[i].done == 1 && held[i].err.code != BH_OK);
    call_and_wait(&f, &g, "GET", "/", none); /* nobody listens */
    BH_CHECK(g.err.code != BH_OK);
    bh_buf_done(&g.body);
    fix_stop(&f);

    fix_start(&f, (struct bh_http_server_opts){0}, both);
    last.free_client = true;
    held[0] = (struct got){.left = &left};
    left = 2;
    call(&f, &held[0], "GET", "/hold", none);
    call(&f, &last, "GET", "/", none);
    bh_loop_run(f.l);
    BH_EQ(last.status, 200);
    BH_EQ(held[0].done, 1);
    BH_EQ(held[0].err.code, BH_E_CANCELED);
    bh_buf_done(&last.body);
    fix_stop(&f);
}

/* Calls that wait for a place are not lost with a further connection that does not come about:
 * those that stand serve them. */
BH_TEST(http2_failed_connection_beside_a_full_one)
{
    struct got *held = bh_calloc(BH_HTTP_STREAMS_MAX, sizeof(*held));
    struct got g = {0};
    struct bh_http_exchange *x;
    struct fix f, other;
    int left = BH_HTTP_STREAMS_MAX;

    fix_start(&f, (struct bh_http_server_opts){0}, both);
    fix_start(&other, (struct bh_http_server_opts){0}, both);
    call_and_wait(&f, &g, "GET", "/", (struct bh_str){0}); /* the connection stands */
    for (int i = 0; i < BH_HTTP_STREAMS_MAX; i++) {
        held[i].left = &left;
        call(&f, &held[i], "GET", "/hold", (struct bh_str){0});
    }
    for (int i = 0; i < 1000 && f.held_n < BH_HTTP_STREAMS_MAX; i++)
        a_while(&f, 2);
    BH_EQ(f.held_n, BH_HTTP_STREAMS_MAX);
    bh_http_server_set_tls(f.s, other.stls); /* who comes now does not trust it */
    bh_buf_done(&g.body);
    g = (struct got){0};
    call(&f, &g, "POST", "/", (struct bh_str){0});
    a_while(&f, 200);
    BH_EQ(g.done, 0);
    x = f.held[--f.held_n];
    bh_http_respond(x, 200, NULL, 0, NULL, 0);
    for (int i = 0; i < 1000 && !g.done; i++)
        a_while(&f, 2);
    BH_EQ(g.status, 200);
    fix_stop(&f);
    fix_stop(&other);
    bh_buf_done(&g.body);
    for (int i = 0; i < BH_HTTP_STREAMS_MAX; i++)
        bh_buf_done(&held[i].body);
    bh_free(held);
}

BH_TEST(http2_timeout_costs_the_stream_only)
{
    struct got late = {0}, g = {0};
    struct fix f;

    fix_start(&f, (struct bh_http_server_opts){0}, both);
    call_and_wait(&f, &g, "GET", "/", (struct bh_str){0}); /* the connection stands */
    late.f = &f;
    late.call = bh_http_call_start(f.c, &(struct bh_http_request){.method = BH_S("GET"),
                                                                  .target = BH_S("/hold"),
                                                                  .timeout_ms = 20,
                                                                  .done = got_done,
                                                                  .arg = &late});
    bh_loop_run(f.l);
    BH_EQ(late.err.code, BH_E_TIMEOUT);
    for (int i = 0; i < 1000 && f.closes < 1; i++)
        a_while(&f, 2);
    BH_EQ(f.closes, 1);
    call_and_wait(&f, &g, "GET", "/", (struct bh_str){0});
    BH_EQ(g.status, 200);
    BH_EQ(bh_http_server_conns(f.s), 1);
    bh_buf_done(&g.body);
    fix_stop(&f);
}

static void accept_mute(void *arg, struct bh_stream *s)
{
    static const struct bh_stream_ops ops; /* takes everything, says nothing */

    (void)arg;
    bh_stream_set_ops(s, &ops, NULL);
}

/* A server that is silent is given up; one that only takes its time is not. */
BH_TEST(http2_silent_server)
{
    struct got g = {0};
    struct bh_listener *ln;
    struct bh_http_client *c;
    struct bh_http_client_opts o;
    struct fix f;

    fix_start(&f, (struct bh_http_server_opts){0}, both);
    ln = bh_listen(f.l, &(struct bh_listen_opts){.host = "127.0.0.1", .tls = f.stls}, accept_mute,
                   NULL, NULL);
    o = (struct bh_http_client_opts){.host = "127.0.0.1",
                                     .port = bh_listener_port(ln),
                                     .tls = f.ctls,
                                     .http2 = true,
                                     .silent_ms = 40};
    c = f.c;
    f.c = bh_http_client_new(f.l, &o);
    call_and_wait(&f, &g, "POST", "/", (struct bh_str){0});
    BH_EQ(g.err.code, BH_E_TIMEOUT);
    f.c = bh_http_client_free(f.c);
    (void)bh_listener_free(ln);

    o.port = f.port;
    f.c = bh_http_client_new(f.l, &o);
    g = (struct got){0};
    call(&f, &g, "POST", "/hold", (struct bh_str){0});
    for (int i = 0; i < 1000 && f.held_n < 1; i++)
        a_while(&f, 2);
    a_while(&f, 300);
    BH_EQ(g.done, 0);
    if (f.held_n)
        bh_http_respond(f.held[--f.held_n], 200, NULL, 0, NULL, 0);
    bh_loop_run(f.l);
    BH_EQ(g.status, 200);
    bh_buf_done(&g.body);
    (void)bh_http_client_free(c);
    fix_stop(&f);
}

static void accept_liar(void *arg, struct bh_stream *s)
{
    static const struct bh_stream_ops ops; /* keeps the connection, whatever it is told */
    static const char settings[] = "\0\0\0\x04\0\0\0\0\0"; /* then DATA of no stream */
    static const char nonsense[] = "\0\0\0\0\0\0\0\0\0";
    int *conns = arg;

    ++*conns;
    bh_stream_set_ops(s, &ops, NULL);
    bh_stream_write_str(s, (struct bh_str){settings, 9});
    bh_stream_write_str(s, (struct bh_str){nonsense, 9});
}

/* A server that breaks the protocol and stays there costs the calls of its connection, at once, and
 * the connection. */
BH_TEST(http2_server_breaks_the_protocol)
{
    struct got g = {0};
    struct bh_listener *ln;
    struct bh_http_client *c;
    struct fix f;
    int conns = 0;

    fix_start(&f, (struct bh_http_server_opts){0}, both);
    ln = bh_listen(f.l, &(struct bh_listen_opts){.host = "127.0.0.1", .tls = f.stls}, accept_liar,
                   &conns, NULL);
    c = f.c;
    f.c = bh_http_client_new(f.l, &(struct bh_http_client_opts){.host = "127.0.0.1",
                                                                .port = bh_listener_port(ln),
                                                                .tls = f.ctls,
                                                                .http2 = true,
                                                                .response_timeout_ms = 3000});
    for (int i = 1; i <= 2; i++) {
        call_and_wait(&f, &g, "POST", "/", (struct bh_str){0});
        BH_EQ(g.err.code, BH_E_PROTO);
        BH_EQ(conns, i);
    }
    f.c = bh_http_client_free(f.c);
    (void)bh_listener_free(ln);
    (void)bh_http_client_free(c);
    fix_stop(&f);
}

/* ---- raw frames ---- */

struct raw {
    struct fix f;
    int fd;
    struct bh_buf in;
    bool eof;
};

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static void put_frame(struct bh_buf *b, int type, int flags, uint32_t stream, struct bh_str body)
{
    char h[9] = {(char)(body.n >> 16), (char)(body.n >> 8), (char)body.n,
                 (char)type,           (char)flags,         (char)(stream >> 24),
                 (char)(stream >> 16), (char)(stream >> 8), (char)stream};

    bh_buf_add(b, h, sizeof(h));
    bh_buf_adds(b, body);
}

/* GET (or POST) https / with an authority, from HPACK's static table. */
static void put_request(struct bh_buf *b, uint32_t stream, bool post, bool end)
{
    char h[] = "\x82\x87\x84\x41\x01x";

    if (post)
        h[0] = '\x83';
    put_frame(b, 1, end ? 5 : 4, stream, (struct bh_str){h, 6});
}

static void raw_start(struct raw *r, struct bh_http_server_opts so)
{
    struct bh_buf b = {0};
    int sv[2];

    *r = (struct raw){0};
    r->f.l = bh_loop_new_real(NULL);
    so.handler = handle;
    so.arg = &r->f;
    r->f.s = bh_http_server_new(r->f.l, &so);
    BH_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
    bh_http2_adopt(r->f.s, bh_stream_from_fd(r->f.l, sv[0], NULL, NULL, NULL));
    r->fd = sv[1];
    bh_buf_addz(&b, preface);
    put_frame(&b, 4, 0, 0, (struct bh_str){NULL, 0});
    BH_EQ(write(r->fd, b.p, b.n), b.n);
    bh_buf_done(&b);
}

/* Sends, and lets the server answer. */
static void raw_send(struct raw *r, struct bh_buf *b)
{
    char buf[65536];
    ssize_t n;

    for (size_t at = 0; at < b->n || b->n == 0;) {
        n = b->n ? send(r->fd, b->p + at, b->n - at, MSG_NOSIGNAL) : 0;
        if (n > 0)
            at += (size_t)n;
        a_while(&r->f, 2);
        while ((n = read(r->fd, buf, sizeof(buf))) > 0)
            bh_buf_add(&r->in, buf, (size_t)n);
        r->eof = r->eof || n == 0;
        if (r->eof || b->n == 0)
            break;
    }
    bh_buf_clear(b);
}

static void raw_wait_eof(struct raw *r)
{
    struct bh_buf none = {0};

    for (int i = 0; i < 2000 && !r->eof; i++)
        raw_send(r, &none);
}

/* What the first frame of that type holds; NULL without one. */
static const unsigned char *frame_body(const struct raw *r, int type)
{
    const unsigned char *p = (const unsigned char *)r->in.p;

    for (size_t at = 0; at + 9 <= r->in.n;) {
        size_t n = (size_t)p[at] << 16 | (size_t)p[at + 1] << 8 | p[at + 2];

        if (p[at + 3] == type && at + 9 + n <= r->in.n)
            return p + at + 9;
        at += 9 + n;
    }
    return NULL;
}

/* The error code of the first frame of that type; -1 without one. */
static int64_t frame_code(const struct raw *r, int type)
{
    const unsigned char *p = frame_body(r, type);

    if (!p)
        return -1;
    if (type == 7) /* GOAWAY: after an id */
        p += 4;
    return (int64_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

static void raw_stop(struct raw *r)
{
    close(r->fd);
    a_while(&r->f, 2);
    fix_stop(&r->f);
    bh_buf_done(&r->in);
}

/* Requests that are reset at once, without end (CVE-2023-44487). */
BH_TEST(http2_resets_in_haste_end_the_connection)
{
    BH_AUTO_BUF b = {0};
    struct raw r;

    raw_start(&r, (struct bh_http_server_opts){0});
    for (uint32_t i = 0; i < 5000 && !r.eof; i++) {
        put_request(&b, 2 * i + 1, false, true);
        put_frame(&b, 3, 0, 2 * i + 1, (struct bh_str){"\0\0\0\x08", 4});
        if (i % 100 == 99)
            raw_send(&r, &b);
    }
    raw_wait_eof(&r);
    BH_CHECK(r.eof);
    BH_CHECK(frame_code(&r, 7) > 0);
    BH_CHECK(r.f.handled < 3000);
    raw_stop(&r);
}

/* The same, where the client makes the server do it (CVE-2025-8671). */
BH_TEST(http2_made_to_reset_ends_the_connection)
{
    BH_AUTO_BUF b = {0};
    struct raw r;

    raw_start(&r, (struct bh_http_server_opts){0});
    for (uint32_t i = 0; i < 5000 && !r.eof; i++) {
        put_request(&b, 2 * i + 1, true, false);
        put_frame(&b, 8, 0, 2 * i + 1, (struct bh_str){"\0\0\0\0", 4}); /* a window grows by 0 */
        if (i % 100 == 99)
            raw_send(&r, &b);
    }
    raw_wait_eof(&r);
    BH_CHECK(r.eof);
    BH_CHECK(frame_code(&r, 7) > 0);
    raw_stop(&r);
}

BH_TEST(http2_endless_headers_end_the_connection)
{
    static char junk[16000];
    BH_AUTO_BUF b = {0};
    struct raw r;

    /* Literal headers without indexing: "x: aaa…" again and again, in frames that never end. */
    for (size_t i = 0; i < sizeof(junk); i += 100) {
        memset(junk + i, 'a', 100);
        memcpy(junk + i, "\x00\x01x\x60", 4);
    }
    raw_start(&r, (struct bh_http_server_opts){0});
    put_frame(&b, 1, 1, 1, (struct bh_str){"\x82\x87\x84\x41\x01x", 6}); /* no END_HEADERS */
    for (int i = 0; i < 100 && !r.eof; i++) {
        put_frame(&b, 9, 0, 1, (struct bh_str){junk, sizeof(junk)});
        raw_send(&r, &b);
    }
    raw_wait_eof(&r);
    BH_CHECK(r.eof);
    BH_EQ(r.f.handled, 0);
    raw_stop(&r);
}

/* More streams at once than were allowed are refused, those within the limit are served. */
BH_TEST(http2_streams_are_limited)
{
    BH_AUTO_BUF b = {0};
    struct raw r;

    raw_start(&r, (struct bh_http_server_opts){0});
    raw_send(&r, &b); /* our settings are acknowledged below: before that they bind nobody */
    put_frame(&b, 4, 1, 0, (struct bh_str){NULL, 0});
    for (uint32_t i = 0; i < BH_HTTP_STREAMS_MAX + 10; i++)
        put_frame(&b, 1, 5, 2 * i + 1, (struct bh_str){"\x82\x87\x04\x05/hold\x41\x01x", 12});
    raw_send(&r, &b);
    BH_EQ(r.f.held_n, BH_HTTP_STREAMS_MAX);
    raw_stop(&r);
    BH_EQ(r.f.closes, BH_HTTP_STREAMS_MAX);
}

BH_TEST(http2_time_limits)
{
    BH_AUTO_BUF b = {0};
    struct raw r;

    /* A body that does not come costs its stream, then the idle connection goes. */
    raw_start(&r, (struct bh_http_server_opts){.body_timeout_ms = 40, .idle_timeout_ms = 80});
    put_request(&b, 1, true, false);
    raw_send(&r, &b);
    raw_wait_eof(&r);
    BH_CHECK(r.eof);
    BH_EQ(frame_code(&r, 3), BH_H2_CANCEL);
    BH_EQ(frame_code(&r, 7), BH_H2_NO_ERROR);
    BH_EQ(r.f.handled, 0);
    raw_stop(&r);

    /* An answer that the client gives no room for. */
    raw_start(&r, (struct bh_http_server_opts){.write_timeout_ms = 40});
    put_frame(&b, 1, 5, 1, (struct bh_str){"\x82\x87\x04\x04/big\x41\x01x", 11});
    raw_send(&r, &b);
    for (int i = 0; i < 1000 && frame_code(&r, 3) < 0; i++)
        raw_send(&r, &b);
    BH_EQ(frame_code(&r, 3), BH_H2_CANCEL);
    BH_EQ(r.f.released, 1);
    raw_stop(&r);

    /* Not a byte at all. */
    raw_start(&r, (struct bh_http_server_opts){.idle_timeout_ms = 40});
    raw_wait_eof(&r);
    BH_CHECK(r.eof);
    raw_stop(&r);
}

BH_TEST(http2_bad_requests)
{
    BH_AUTO_BUF b = {0};
    struct raw r;

    raw_start(&r, (struct bh_http_server_opts){0});
    /* "/a b" as a path, and "/a" with an upper-case header, which is malformed. */
    put_frame(&b, 1, 5, 1, (struct bh_str){"\x82\x87\x04\x04/a b\x41\x01x", 11});
    put_frame(&b, 1, 5, 3, (struct bh_str){"\x82\x87\x84\x41\x01x\x00\x01X\x01y", 11});
    put_request(&b, 5, false, true);
    raw_send(&r, &b);
    raw_send(&r, &b);
    BH_CHECK(!r.eof);
    BH_EQ(frame_code(&r, 3), BH_H2_PROTOCOL);
    BH_EQ(r.f.handled, 1);
    raw_stop(&r);

    raw_start(&r, (struct bh_http_server_opts){0}); /* a frame that is out of place */
    put_frame(&b, 0, 0, 0, BH_S("data of no stream"));
    raw_send(&r, &b);
    raw_wait_eof(&r);
    BH_CHECK(r.eof);
    BH_EQ(frame_code(&r, 7), BH_H2_PROTOCOL);
    raw_stop(&r);
}

/* A client that asks whether to send is told, also when it does not say how much. */
BH_TEST(http2_continue)
{
    static const char ask[] = "\x83\x87\x84\x41\x01x\x00\x06"
                              "expect\x0c"
                              "100-continue";
    BH_AUTO_BUF b = {0};
    struct raw r;

    raw_start(&r, (struct bh_http_server_opts){0});
    raw_send(&r, &b);
    bh_buf_clear(&r.in); /* settings */
    put_frame(&b, 1, 4, 1, (struct bh_str){ask, sizeof(ask) - 1});
    raw_send(&r, &b);
    for (int i = 0; i < 1000 && frame_body(&r, 1) == NULL; i++)
        raw_send(&r, &b);
    BH_CHECK(frame_body(&r, 1) != NULL);
    BH_EQ(r.f.handled, 0);
    put_frame(&b, 0, 1, 1, BH_S("x"));
    raw_send(&r, &b);
    BH_EQ(r.f.handled, 1);
    raw_stop(&r);
}
