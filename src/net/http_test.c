/* HTTP server and client over loopback, and the server against raw bytes. */
#include "net/http.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/test.h"
#include "net/loop.h"
#include "net/pki.h"

/* One server with a few paths, and whatever clients a test needs. */
struct fix {
    struct bh_loop *l;
    struct bh_http_server *s;
    struct bh_http_client *c;
    struct bh_tls *stls, *ctls;
    int port;
    struct bh_timer guard, later, tick;
    struct bh_http_exchange *held; /* of /hold and /watch */
    int handled, closes, released, drains;
    bool pump;
    size_t pumped, pump_total;
    struct bh_buf seen; /* what the handler wants to tell */
};

static void release_one(void *ref)
{
    struct fix *f = ref;

    f->released++;
}

static char big[1 << 20];

static void held_closed(void *arg)
{
    struct fix *f = arg;

    f->closes++;
    if (f->held && f->pump)
        bh_http_stream_end(f->held);
    if (f->pump)
        f->held = NULL;
}

/* Writes referenced megabytes as fast as the client takes them. */
static void pump(void *arg)
{
    struct fix *f = arg;

    f->drains++;
    while (f->held && f->pumped < f->pump_total && bh_http_queued(f->held) < sizeof(big)) {
        struct bh_part p = {{big, sizeof(big)}, release_one, f};

        bh_http_stream_write(f->held, &p, 1);
        f->pumped += sizeof(big);
    }
    if (f->held && f->pumped >= f->pump_total) {
        struct bh_http_exchange *x = f->held;

        f->held = NULL;
        bh_http_stream_end(x);
    }
}

static void up_read(void *arg, struct bh_str d)
{
    bh_stream_write_str(arg, d);
}

static void respond_text(struct bh_http_exchange *x, int status, struct bh_str text)
{
    struct bh_http_header h = BH_HTTP_HEADER("Content-Type", BH_S("text/plain"));
    struct bh_part p = bh_http_arena_part(x, bh_str_dup(x->arena, text));

    bh_http_respond(x, status, &h, 1, &p, 1);
}

static void handle(void *arg, struct bh_http_exchange *x)
{
    struct fix *f = arg;

    f->handled++;
    if (bh_str_eqc(x->path, "/echo")) {
        respond_text(x, x->body_too_large ? 413 : 200, x->body);
    } else if (bh_str_eqc(x->path, "/who")) {
        respond_text(x, 200,
                     bh_str_fmt(x->arena, "%.*s/%.*s/%d%d", BH_SF(x->peer->cn),
                                BH_SF(x->peer->orgs.n ? x->peer->orgs.p[0] : (struct bh_str){0}),
                                x->peer->cert_presented, x->peer->cert_verified));
    } else if (bh_str_eqc(x->path, "/big")) {
        struct bh_part p[3] = {
            {BH_S("<"), NULL, NULL}, {{big, sizeof(big)}, release_one, f}, {BH_S(">"), NULL, NULL}};

        bh_http_respond(x, 200, NULL, 0, p, 3);
    } else if (bh_str_eqc(x->path, "/hold")) {
        f->held = x;
        bh_http_on_close(x, held_closed, f);
    } else if (bh_str_eqc(x->path, "/pump")) {
        f->held = x;
        f->pump = true;
        bh_http_on_close(x, held_closed, f);
        bh_http_on_drain(x, pump, f);
        bh_http_stream_start(x, 200, NULL, 0);
        pump(f);
    } else if (bh_str_eqc(x->path, "/abort")) {
        bh_http_stream_start(x, 200, NULL, 0);
        bh_http_stream_write(x, &(struct bh_part){BH_S("half"), NULL, NULL}, 1);
        bh_http_stream_abort(x);
    } else if (bh_str_eqc(x->path, "/up")) {
        struct bh_http_header h = BH_HTTP_HEADER("Upgrade", BH_S("test"));
        struct bh_stream *st = bh_http_upgrade(x, 101, &h, 1);
        static const struct bh_stream_ops ops = {.on_read = up_read};

        BH_CHECK(st != NULL);
        if (st)
            bh_stream_set_ops(st, &ops, st);
    } else {
        struct bh_str v = bh_http_query_get(x->arena, x->query, BH_S("v"));

        respond_text(x, bh_str_eqc(x->path, "/") ? 200 : 404,
                     bh_str_fmt(x->arena, "%.*s %.*s", BH_SF(x->method), BH_SF(v)));
    }
}

static void poll_stop(void *arg)
{
    struct fix *f = arg;

    bh_loop_stop(f->l);
}

/* Lets the loop run for a moment. */
static void a_while(struct fix *f)
{
    bh_timer_init(&f->tick, f->l, poll_stop, f);
    bh_timer_start(&f->tick, 2);
    bh_loop_run(f->l);
}

static void on_guard(void *arg)
{
    struct fix *f = arg;

    bh_test_fail(__FILE__, __LINE__, "the test hangs");
    bh_loop_stop(f->l);
}

static void fix_start(struct fix *f, struct bh_http_server_opts so, struct bh_listen_opts lo)
{
    struct bh_err e = {0};

    *f = (struct fix){.l = bh_loop_new_real(NULL)};
    so.handler = handle;
    so.arg = f;
    f->s = bh_http_server_new(f->l, &so);
    lo.host = "127.0.0.1";
    f->stls = lo.tls;
    if (bh_http_server_listen(f->s, &lo, &f->port, &e) < 0)
        bh_test_fail(__FILE__, __LINE__, "%s", e.msg);
    bh_timer_init(&f->guard, f->l, on_guard, f);
    bh_timer_start(&f->guard, 30000);
}

static void fix_client(struct fix *f, struct bh_http_client_opts co)
{
    co.host = "127.0.0.1";
    co.port = f->port;
    f->c = bh_http_client_new(f->l, &co);
}

static void fix_stop(struct fix *f)
{
    bh_http_client_free(f->c);
    bh_http_server_free(f->s);
    bh_loop_free(f->l);
    bh_buf_done(&f->seen);
}

/* ---- with our own client ---- */

struct got {
    struct fix *f;
    int status, done;
    struct bh_err err;
    struct bh_buf body;
    size_t chunks, bytes;
    int *left; /* stops the loop at zero */
    struct bh_http_call *call;
    bool pause_each, cancel_at_first;
    struct bh_timer timer;
};

static void got_done(void *arg, const struct bh_http_response *r, const struct bh_err *err)
{
    struct got *g = arg;

    BH_EQ(g->done, 0);
    g->done++;
    g->err = *err;
    if (r) {
        g->status = r->status;
        if (r->body.n > 0)
            bh_buf_adds(&g->body, r->body);
        BH_CHECK(r->status == 101 ||
                 bh_http_header_find(r->headers, r->headers_n, BH_S("date")) != NULL);
    }
    if (!g->left || --*g->left == 0)
        bh_loop_stop(g->f->l);
}

static struct bh_http_call *call(struct fix *f, struct got *g, const char *method,
                                 const char *target, struct bh_str body)
{
    struct bh_http_request r = {
        .method = bh_s(method), .target = bh_s(target), .body = body, .done = got_done, .arg = g};

    g->f = f;
    return bh_http_call_start(f->c, &r);
}

static void call_and_wait(struct fix *f, struct got *g, const char *method, const char *target,
                          struct bh_str body)
{
    *g = (struct got){0};
    (void)call(f, g, method, target, body);
    bh_loop_run(f->l);
    BH_EQ(g->done, 1);
}

BH_TEST(http_round_trips)
{
    struct fix f;
    struct got g;

    memset(big, 'b', sizeof(big));
    fix_start(&f, (struct bh_http_server_opts){0}, (struct bh_listen_opts){0});
    fix_client(&f, (struct bh_http_client_opts){0});
    call_and_wait(&f, &g, "GET", "/?x=1&v=a%20b+c", (struct bh_str){0});
    BH_EQ(g.status, 200);
    BH_STREQ(bh_buf_str(&g.body), "GET a b c");
    bh_buf_done(&g.body);
    call_and_wait(&f, &g, "GET", "/no", (struct bh_str){0});
    BH_EQ(g.status, 404);
    bh_buf_done(&g.body);
    call_and_wait(&f, &g, "POST", "/echo", (struct bh_str){big, 500000});
    BH_EQ(g.status, 200);
    BH_SEQ(bh_buf_str(&g.body), ((struct bh_str){big, 500000}));
    bh_buf_done(&g.body);
    call_and_wait(&f, &g, "GET", "/big", (struct bh_str){0});
    BH_EQ(g.body.n, sizeof(big) + 2);
    BH_EQ(f.released, 1);
    bh_buf_done(&g.body);
    call_and_wait(&f, &g, "HEAD", "/big", (struct bh_str){0});
    BH_EQ(g.status, 200);
    BH_EQ(g.body.n, 0);
    BH_EQ(f.released, 2);
    bh_buf_done(&g.body);
    call_and_wait(&f, &g, "GET", "/abort", (struct bh_str){0});
    BH_EQ(g.status, 0);
    BH_CHECK(g.err.code != BH_OK);
    BH_CHECK(bh_str_find(bh_s(g.err.msg), BH_S("127.0.0.1")) >= 0);
    bh_buf_done(&g.body);
    call_and_wait(&f, &g, "GET", "/a b", (struct bh_str){0});
    BH_EQ(g.err.code, BH_E_BAD_REQUEST);
    fix_stop(&f);
}

BH_TEST(http_ten_thousand_requests)
{
    enum { N = 10000 };
    struct fix f;
    struct got *g = bh_calloc(N, sizeof(*g));
    int left = N;
    char target[32];

    fix_start(&f, (struct bh_http_server_opts){0}, (struct bh_listen_opts){0});
    fix_client(&f, (struct bh_http_client_opts){.conns_max = 16});
    for (int i = 0; i < N; i++) {
        g[i].left = &left;
        (void)snprintf(target, sizeof(target), "/?v=%d", i);
        (void)call(&f, &g[i], "GET", target, (struct bh_str){0});
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

static void resume_call(void *arg)
{
    struct got *g = arg;

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
    if (g->cancel_at_first) {
        bh_http_call_cancel(g->call);
        g->cancel_at_first = false;
    }
}

static void stream_call(struct fix *f, struct got *g)
{
    struct bh_http_request r = {.method = BH_S("GET"),
                                .target = BH_S("/pump"),
                                .long_call = true,
                                .done = got_done,
                                .on_head = got_head,
                                .on_chunk = got_chunk,
                                .arg = g};

    g->f = f;
    bh_timer_init(&g->timer, f->l, resume_call, g);
    g->call = bh_http_call_start(f->c, &r);
}

BH_TEST(http_stream_with_slow_reader)
{
    struct fix f;
    struct got g = {.pause_each = true};

    fix_start(&f, (struct bh_http_server_opts){0}, (struct bh_listen_opts){0});
    fix_client(&f, (struct bh_http_client_opts){0});
    f.pump_total = 24 * sizeof(big);
    stream_call(&f, &g);
    bh_loop_run(f.l);
    BH_EQ(g.bytes, 24 * sizeof(big));
    BH_EQ(g.err.code, BH_OK);
    BH_EQ(f.released, 24);
    BH_CHECK(f.drains > 2); /* the writer did wait */
    BH_EQ(f.closes, 0);
    fix_stop(&f);
}

static void stop_later(void *arg)
{
    struct fix *f = arg;

    if (f->closes > 0)
        bh_loop_stop(f->l);
    else
        bh_timer_start(&f->later, 1);
}

BH_TEST(http_client_leaves_a_stream)
{
    struct fix f;
    struct got g = {.cancel_at_first = true};

    fix_start(&f, (struct bh_http_server_opts){0}, (struct bh_listen_opts){0});
    fix_client(&f, (struct bh_http_client_opts){0});
    f.pump_total = 100 * sizeof(big);
    stream_call(&f, &g);
    bh_timer_init(&f.later, f.l, stop_later, &f);
    bh_timer_start(&f.later, 1);
    bh_loop_run(f.l);
    BH_EQ(g.done, 0);
    BH_EQ(f.closes, 1);
    BH_EQ((size_t)f.released, f.pumped / sizeof(big));
    fix_stop(&f);
}

BH_TEST(http_answer_after_the_client_left)
{
    struct fix f;
    int left = 2; /* never zero: the loop is stopped by the test */
    struct got g = {.left = &left};
    struct bh_http_exchange *x;
    struct bh_part p;

    fix_start(&f, (struct bh_http_server_opts){0}, (struct bh_listen_opts){0});
    fix_client(&f, (struct bh_http_client_opts){0});
    (void)call(&f, &g, "GET", "/hold", (struct bh_str){0});
    bh_timer_init(&f.later, f.l, stop_later, &f);
    while (!f.held) {
        a_while(&f);
    }
    f.c = bh_http_client_free(f.c);
    BH_EQ(g.err.code, BH_E_CANCELED);
    bh_timer_start(&f.later, 1);
    bh_loop_run(f.l);
    x = f.held;
    BH_CHECK(!bh_http_gone(x)); /* it may only have closed its side: the answer is tried */
    BH_CHECK(bh_str_starts(bh_s(x->peer->addr), BH_S("127.0.0.1:")));
    (void)bh_http_ref(x);
    p = (struct bh_part){BH_S("late"), release_one, &f};
    bh_http_respond(x, 200, NULL, 0, &p, 1);
    while (bh_http_server_conns(f.s) > 0)
        a_while(&f);
    BH_EQ(f.released, 1);
    BH_CHECK(bh_http_gone(x));
    BH_STREQ(x->path, "/hold");
    f.s = bh_http_server_free(f.s); /* the exchange outlives even the server */
    BH_STREQ(x->path, "/hold");
    bh_http_unref(x);
    fix_stop(&f);
}

BH_TEST(http_timeouts_and_refusals)
{
    struct fix f;
    struct got g;
    struct bh_http_request r = {.method = BH_S("GET"),
                                .target = BH_S("/hold"),
                                .timeout_ms = 50,
                                .done = got_done,
                                .arg = &g};

    fix_start(&f, (struct bh_http_server_opts){.body_bytes_max = 1000, .pass_large_body = true},
              (struct bh_listen_opts){0});
    fix_client(&f, (struct bh_http_client_opts){0});
    g = (struct got){.f = &f};
    (void)bh_http_call_start(f.c, &r);
    bh_loop_run(f.l);
    BH_EQ(g.err.code, BH_E_TIMEOUT);
    call_and_wait(&f, &g, "POST", "/echo", (struct bh_str){big, 100000});
    BH_EQ(g.status, 413);
    bh_buf_done(&g.body);
    bh_http_respond(f.held, 200, NULL, 0, NULL, 0); /* must be finished, though nobody waits */
    r.target = BH_S("/big");
    r.body_bytes_max = 1000;
    r.timeout_ms = 0;
    g = (struct got){.f = &f};
    (void)bh_http_call_start(f.c, &r);
    bh_loop_run(f.l);
    BH_EQ(g.err.code, BH_E_LIMIT);
    f.s = bh_http_server_free(f.s);
    call_and_wait(&f, &g, "GET", "/", (struct bh_str){0});
    BH_EQ(g.err.code, BH_E_UNAVAILABLE);
    fix_stop(&f);
}

struct up {
    struct fix *f;
    struct bh_stream *s;
    struct bh_buf got;
};

static void up_got(void *arg, struct bh_str d)
{
    struct up *u = arg;

    bh_buf_adds(&u->got, d);
    if (u->got.n == 5) {
        bh_stream_close(u->s);
        bh_loop_stop(u->f->l);
    }
}

static void on_up(void *arg, const struct bh_http_response *r, struct bh_stream *s)
{
    static const struct bh_stream_ops ops = {.on_read = up_got};
    struct got *g = arg;
    struct up *u = (struct up *)(void *)g->left;

    BH_EQ(r->status, 101);
    u->s = s;
    bh_stream_set_ops(s, &ops, u);
    bh_stream_write_str(s, BH_S("hello"));
    g->left = NULL;
}

static void up_done(void *arg, const struct bh_http_response *r, const struct bh_err *err)
{
    struct got *g = arg;

    (void)err;
    g->done++;
    g->status = r ? r->status : 0;
}

BH_TEST(http_upgrade_hands_over_the_stream)
{
    struct fix f;
    struct up u = {.f = &f};
    struct got g = {.f = &f, .left = (int *)(void *)&u};
    struct bh_http_header h[] = {BH_HTTP_HEADER("Connection", BH_S("Upgrade")),
                                 BH_HTTP_HEADER("Upgrade", BH_S("test"))};
    struct bh_http_request r = {.method = BH_S("GET"),
                                .target = BH_S("/up"),
                                .headers = h,
                                .headers_n = 2,
                                .done = up_done,
                                .on_upgrade = on_up,
                                .arg = &g};

    fix_start(&f, (struct bh_http_server_opts){0}, (struct bh_listen_opts){0});
    fix_client(&f, (struct bh_http_client_opts){0});
    (void)bh_http_call_start(f.c, &r);
    bh_loop_run(f.l);
    BH_STREQ(bh_buf_str(&u.got), "hello");
    BH_EQ(g.status, 101);
    BH_EQ(g.done, 1);
    BH_EQ(bh_http_server_conns(f.s), 0);
    bh_buf_done(&u.got);
    fix_stop(&f);
}

static void drained(void *arg)
{
    struct fix *f = arg;

    bh_buf_addz(&f->seen, "drained");
    bh_loop_stop(f->l);
}

BH_TEST(http_drain)
{
    struct fix f;
    struct got g = {.cancel_at_first = false};

    fix_start(&f, (struct bh_http_server_opts){0}, (struct bh_listen_opts){0});
    fix_client(&f, (struct bh_http_client_opts){0});
    call_and_wait(&f, &g, "GET", "/", (struct bh_str){0});
    bh_buf_done(&g.body);
    BH_EQ(bh_http_server_conns(f.s), 1);
    g = (struct got){0};
    (void)call(&f, &g, "GET", "/hold", (struct bh_str){0});
    while (!f.held) {
        a_while(&f);
    }
    bh_http_server_drain(f.s, 5000, drained, &f);
    BH_EQ(f.closes, 1);
    respond_text(f.held, 200, BH_S("bye"));
    while (f.seen.n == 0 || !g.done)
        bh_loop_run(f.l);
    BH_EQ(g.status, 200);
    BH_STREQ(bh_buf_str(&g.body), "bye");
    BH_EQ(bh_http_server_conns(f.s), 0);
    bh_buf_done(&g.body);
    fix_stop(&f);
}

BH_TEST(http_over_tls_with_identity)
{
    static const struct bh_str ips[] = {BH_S_INIT("127.0.0.1")},
                               orgs[] = {BH_S_INIT("system:nodes")};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_pki_pair ca, sp, cp;
    struct bh_tls *st, *ct;
    struct fix f;
    struct got g;

    BH_EQ(bh_pki_make_ca(a, "ca", 1, &ca, NULL), 0);
    BH_EQ(bh_pki_issue(a, &ca,
                       &(struct bh_pki_req){
                           .cn = BH_S("s"), .ips = ips, .ips_n = 1, .server = true, .days = 1},
                       &sp, NULL),
          0);
    BH_EQ(
        bh_pki_issue(
            a, &ca,
            &(struct bh_pki_req){
                .cn = BH_S("system:node:n1"), .orgs = orgs, .orgs_n = 1, .client = true, .days = 1},
            &cp, NULL),
        0);
    st = bh_tls_new(
        &(struct bh_tls_opts){
            .server = true, .cert_pem = sp.cert_pem, .key_pem = sp.key_pem, .ca_pem = ca.cert_pem},
        NULL);
    ct = bh_tls_new(&(struct bh_tls_opts){.cert_pem = cp.cert_pem,
                                          .key_pem = cp.key_pem,
                                          .ca_pem = ca.cert_pem},
                    NULL);
    fix_start(&f, (struct bh_http_server_opts){0}, (struct bh_listen_opts){.tls = st});
    fix_client(&f, (struct bh_http_client_opts){.tls = ct});
    call_and_wait(&f, &g, "GET", "/who", (struct bh_str){0});
    BH_STREQ(bh_buf_str(&g.body), "system:node:n1/system:nodes/11");
    bh_buf_done(&g.body);
    call_and_wait(&f, &g, "GET", "/big", (struct bh_str){0});
    BH_EQ(g.body.n, sizeof(big) + 2);
    bh_buf_done(&g.body);
    bh_http_server_set_tls(f.s, st);
    fix_stop(&f);
    bh_tls_unref(st);
    bh_tls_unref(ct);
}

/* ---- raw bytes ---- */

struct raw {
    struct fix *f;
    struct bh_stream *s;
    struct bh_buf got;
    bool half_close, keep; /* keep: the test stops by itself */
    struct bh_str send;
};

static void raw_open(void *arg)
{
    struct raw *r = arg;

    bh_stream_write_str(r->s, r->send);
    if (r->half_close)
        bh_stream_shutdown(r->s);
}

static void raw_read(void *arg, struct bh_str d)
{
    struct raw *r = arg;

    bh_buf_adds(&r->got, d);
}

static void raw_close(void *arg, const struct bh_err *err)
{
    struct raw *r = arg;

    (void)err;
    r->s = NULL;
    bh_loop_stop(r->f->l);
}

static const struct bh_stream_ops raw_ops = {
    .on_open = raw_open, .on_read = raw_read, .on_close = raw_close};

/* Sends bytes, reads until the server closes; dates are cut out of what is returned. */
static struct bh_str raw(struct fix *f, struct raw *r, struct bh_str send, bool half_close)
{
    struct bh_buf clean = {0};
    struct bh_str rest;

    *r = (struct raw){.f = f, .send = send, .half_close = half_close};
    r->s = bh_stream_connect(f->l, &(struct bh_connect_opts){.host = "127.0.0.1", .port = f->port},
                             &raw_ops, r, NULL);
    bh_loop_run(f->l);
    rest = bh_buf_str(&r->got);
    while (rest.n > 0) {
        struct bh_str line = bh_str_cut(&rest, '\n');

        if (!bh_str_starts(line, BH_S("Date: "))) {
            bh_buf_adds(&clean, bh_str_trim(line));
            if (rest.p)
                bh_buf_addc(&clean, '|');
        }
    }
    bh_buf_done(&r->got);
    r->got = clean;
    return bh_buf_str(&r->got);
}

BH_TEST(http_raw_conversations)
{
    static const struct {
        const char *send, *want;
    } talks[] = {
        {"GET /?v=1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: "
         "2\r\n\r\nhi"
         "GET /?v=3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /ignored HTTP/1.1\r\n",
         "HTTP/1.1 200 OK|Content-Type: text/plain|Content-Length: 5||GET 1HTTP/1.1 200 OK|"
         "Content-Type: text/plain|Content-Length: 2||hiHTTP/1.1 200 OK|Content-Type: text/plain|"
         "Connection: close|Content-Length: 5||GET 3"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: "
         "chunked\r\n\r\n"
         "3\r\nabc\r\n0\r\n\r\n",
         "HTTP/1.1 100 Continue||HTTP/1.1 200 OK|Content-Type: text/plain|Content-Length: 3||abc"},
        {"GET /?v=1 HTTP/1.0\r\n\r\n",
         "HTTP/1.1 200 OK|Content-Type: text/plain|Connection: close|Content-Length: 5||GET 1"},
        {"HEAD /?v=1 HTTP/1.1\r\nHost: a\r\n\r\n",
         "HTTP/1.1 200 OK|Content-Type: text/plain|Content-Length: 6||"},
        {"GET / HTTP/1.1\r\n\r\n",
         "HTTP/1.1 400 Bad Request|Content-Type: text/plain; charset=utf-8|Connection: close|"
         "Content-Length: 15||400 Bad Request"},
        {"GET /?v=1 HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost : a\r\n\r\n",
         "HTTP/1.1 200 OK|Content-Type: text/plain|Content-Length: 5||GET 1"
         "HTTP/1.1 400 Bad Request|Content-Type: text/plain; charset=utf-8|Connection: close|"
         "Content-Length: 15||400 Bad Request"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n",
         "HTTP/1.1 413 Payload Too Large|Content-Type: text/plain; charset=utf-8|Connection: close|"
         "Content-Length: 21||413 Payload Too Large"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
         ""}, /* cut within the body */
        {"", ""},
        {"GET /abort HTTP/1.1\r\nHost: a\r\n\r\n",
         "HTTP/1.1 200 OK|Transfer-Encoding: chunked||4|half|"},
        {"GET /abort HTTP/1.0\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK|Connection: close||half"},
        {"GET /up HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: test\r\n\r\nearly",
         "HTTP/1.1 101 Switching Protocols|Upgrade: test|Connection: Upgrade||early"},
    };
    struct fix f;
    struct raw r;

    fix_start(&f, (struct bh_http_server_opts){0}, (struct bh_listen_opts){0});
    for (size_t i = 0; i < BH_COUNT(talks); i++) {
        struct bh_str got = raw(&f, &r, bh_s(talks[i].send), true);

        if (!bh_str_eqc(got, talks[i].want))
            bh_test_fail(__FILE__, __LINE__, "talk %zu: '%.*s'", i, BH_SF(got));
        bh_buf_done(&r.got);
    }
    BH_EQ(bh_http_server_conns(f.s), 0);
    fix_stop(&f);
}

BH_TEST(http_server_timeouts)
{
    struct fix f;
    struct raw r;

    fix_start(&f,
              (struct bh_http_server_opts){.header_timeout_ms = 60,
                                           .body_timeout_ms = 60,
                                           .idle_timeout_ms = 60,
                                           .write_timeout_ms = 60},
              (struct bh_listen_opts){0});
    BH_STREQ(raw(&f, &r, BH_S(""), false), "");
    bh_buf_done(&r.got);
    BH_CHECK(
        bh_str_starts(raw(&f, &r, BH_S("GET / HTTP/1.1\r\nHost:"), false), BH_S("HTTP/1.1 408 ")));
    bh_buf_done(&r.got);
    BH_CHECK(bh_str_starts(
        raw(&f, &r, BH_S("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"), false),
        BH_S("HTTP/1.1 408 ")));
    bh_buf_done(&r.got);
    BH_CHECK(bh_str_ends(raw(&f, &r, BH_S("GET /?v=1 HTTP/1.1\r\nHost: a\r\n\r\n"), false),
                         BH_S("GET 1")));
    bh_buf_done(&r.got);
    fix_stop(&f);
}

/* A client that sends requests without end and reads nothing must not fill our memory. */
static void flood_more(void *arg)
{
    struct raw *r = arg;

    for (int i = 0; i < 100 && !bh_stream_above_high(r->s); i++)
        bh_stream_write_str(r->s, BH_S("GET /big HTTP/1.1\r\nHost: a\r\n\r\n"));
}

BH_TEST(http_flood_is_bounded)
{
    static const struct bh_stream_ops ops = {.on_open = flood_more, .on_close = raw_close};
    struct fix f;
    struct raw r = {.f = &f};

    fix_start(&f, (struct bh_http_server_opts){.write_timeout_ms = 150},
              (struct bh_listen_opts){0});
    r.s = bh_stream_connect(f.l, &(struct bh_connect_opts){.host = "127.0.0.1", .port = f.port},
                            &ops, &r, NULL);
    bh_stream_pause(r.s);
    while (bh_http_server_conns(f.s) == 0 || f.handled == 0) {
        a_while(&f);
    }
    for (int i = 0; i < 20; i++)
        flood_more(&r);
    while (bh_http_server_conns(f.s) > 0) { /* until the server loses patience */
        a_while(&f);
    }
    BH_CHECK(f.handled < 20); /* kernel buffers, and one response above the high water mark */
    bh_stream_abort(r.s, NULL);
    bh_loop_run(f.l);
    BH_EQ(f.released, f.handled);
    fix_stop(&f);
}

static void server_that_hangs_up(void *arg, struct bh_stream *s)
{
    (void)arg;
    bh_stream_set_ops(s, NULL, NULL);
    bh_stream_close(s);
}

BH_TEST(http_client_against_a_server_that_hangs_up)
{
    struct fix f = {.l = bh_loop_new_real(NULL)};
    struct bh_listener *ln = bh_listen(f.l, &(struct bh_listen_opts){.host = "127.0.0.1"},
                                       server_that_hangs_up, NULL, NULL);
    struct got g;

    f.port = bh_listener_port(ln);
    fix_client(&f, (struct bh_http_client_opts){0});
    call_and_wait(&f, &g, "GET", "/", (struct bh_str){0});
    BH_EQ(g.err.code, BH_E_UNAVAILABLE);
    bh_listener_free(ln);
    fix_stop(&f);
}

BH_TEST(http_urls)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str q = BH_S("a=1&&b&c=%41%zz+%2&a=2"), k, v, out;

    BH_CHECK(bh_http_query_next(a, &q, &k, &v));
    BH_STREQ(k, "a");
    BH_CHECK(bh_http_query_next(a, &q, &k, &v));
    BH_STREQ(k, "b");
    BH_EQ(v.n, 0);
    BH_CHECK(bh_http_query_next(a, &q, &k, &v));
    BH_STREQ(v, "A%zz %2");
    BH_CHECK(bh_http_query_next(a, &q, &k, &v));
    BH_CHECK(!bh_http_query_next(a, &q, &k, &v));
    BH_STREQ(bh_http_query_get(a, BH_S("x=1&y=2"), BH_S("y")), "2");
    BH_CHECK(bh_http_query_get(a, BH_S("x=1&y=2"), BH_S("z")).p == NULL);
    BH_CHECK(bh_http_unescape(a, BH_S("a%2Fb"), &out));
    BH_STREQ(out, "a/b");
    BH_CHECK(!bh_http_unescape(a, BH_S("a%2"), &out));
    BH_CHECK(!bh_http_unescape(a, BH_S("a%00"), &out));
    BH_STREQ(bh_http_escape(a, BH_S("a/b c~")), "a%2Fb%20c~");
    BH_STREQ(bh_s(bh_http_status_text(422)), "Unprocessable Entity");
}
