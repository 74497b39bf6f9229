/* Streams: echo over every transport, big transfers with slow readers, half-close, TLS identities,
 * refusals. */
#include "net/stream.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/test.h"
#include "net/loop.h"
#include "net/pki.h"

/* A server that echoes, and a client that sends total bytes and counts what comes back. */
struct echo {
    struct bh_loop *l;
    struct bh_listener *ln;
    struct bh_stream *client, *server;
    size_t total, sent, got, echoed;
    int released, referenced;
    bool client_closed, server_closed, opened, drained, eof;
    struct bh_err client_err, server_err;
    struct bh_stream_peer seen; /* by the server; strings copied below */
    char cn[64], org[64], alpn[32];
    size_t orgs_n;
    struct bh_timer guard;
};

static char pattern(size_t i)
{
    return (char)('a' + i * 7 % 23 + i / 1000 % 3);
}

static void maybe_stop(struct echo *e)
{
    if (e->client_closed && (e->server_closed || !e->server))
        bh_loop_stop(e->l);
}

static void srv_read(void *arg, struct bh_str d)
{
    struct echo *e = arg;

    e->echoed += d.n;
    bh_stream_write_str(e->server, d);
    if (bh_stream_above_high(e->server))
        bh_stream_pause(e->server);
}

static void srv_drain(void *arg)
{
    struct echo *e = arg;

    e->drained = true;
    bh_stream_resume(e->server);
}

static void srv_eof(void *arg)
{
    struct echo *e = arg;

    e->eof = true;
    bh_stream_shutdown(e->server);
}

static void srv_close(void *arg, const struct bh_err *err)
{
    struct echo *e = arg;

    BH_CHECK(!e->server_closed);
    e->server_closed = true;
    e->server_err = *err;
    e->server = NULL;
    maybe_stop(e);
}

static const struct bh_stream_ops srv_ops = {
    .on_read = srv_read, .on_eof = srv_eof, .on_drain = srv_drain, .on_close = srv_close};

static void on_accept(void *arg, struct bh_stream *s)
{
    struct echo *e = arg;
    const struct bh_stream_peer *p = bh_stream_peer(s);

    e->server = s;
    e->seen = *p;
    (void)snprintf(e->cn, sizeof(e->cn), "%.*s", BH_SF(p->cn));
    e->orgs_n = p->orgs.n;
    if (p->orgs.n > 0)
        (void)snprintf(e->org, sizeof(e->org), "%.*s", BH_SF(p->orgs.p[0]));
    (void)snprintf(e->alpn, sizeof(e->alpn), "%.*s", BH_SF(p->alpn));
    bh_stream_set_ops(s, &srv_ops, e);
}

static void on_release(void *ref)
{
    struct echo *e = ref;

    e->released++;
}

static char block[100000];

static void cl_more(void *arg)
{
    struct echo *e = arg;

    while (e->sent < e->total && !bh_stream_above_high(e->client)) {
        /* Alternates tiny copied pieces and big referenced ones; the content follows the position
         * in the stream. */
        char tiny[10];
        size_t n = e->total - e->sent;
        struct bh_part parts[2] = {0};
        size_t k = n < sizeof(tiny) ? n : sizeof(tiny);

        for (size_t i = 0; i < k; i++)
            tiny[i] = pattern(e->sent + i);
        parts[0].data = (struct bh_str){tiny, k};
        bh_stream_write(e->client, parts, 1);
        e->sent += k;
        n -= k;
        if (n > 0) {
            k = n < 69000 ? n : 69000; /* the pattern repeats after 69000: 23 * 3000 */
            parts[1] = (struct bh_part){{block + e->sent % 69000, 0}, on_release, e};
            k = k < sizeof(block) - e->sent % 69000 ? k : sizeof(block) - e->sent % 69000;
            parts[1].data.n = k;
            e->referenced++;
            bh_stream_write(e->client, &parts[1], 1);
            e->sent += k;
        }
    }
    if (e->sent == e->total)
        bh_stream_shutdown(e->client);
}

static void cl_open(void *arg)
{
    struct echo *e = arg;

    e->opened = true;
    cl_more(e);
}

static void cl_read(void *arg, struct bh_str d)
{
    struct echo *e = arg;

    for (size_t i = 0; i < d.n; i++)
        if (d.p[i] != pattern(e->got + i)) {
            bh_test_fail(__FILE__, __LINE__, "byte %zu differs", e->got + i);
            break;
        }
    e->got += d.n;
}

static void cl_close(void *arg, const struct bh_err *err)
{
    struct echo *e = arg;

    BH_CHECK(!e->client_closed);
    e->client_closed = true;
    e->client_err = *err;
    e->client = NULL;
    maybe_stop(e);
}

static const struct bh_stream_ops cl_ops = {
    .on_open = cl_open, .on_read = cl_read, .on_drain = cl_more, .on_close = cl_close};

static void on_guard(void *arg)
{
    struct echo *e = arg;

    bh_test_fail(__FILE__, __LINE__, "the test hangs");
    bh_loop_stop(e->l);
}

static void run_echo(struct echo *e, size_t total, struct bh_listen_opts lo,
                     struct bh_connect_opts co)
{
    struct bh_err err = {0};

    for (size_t i = 0; i < sizeof(block); i++)
        block[i] = pattern(i % 69000);
    *e = (struct echo){.l = bh_loop_new_real(NULL), .total = total};
    e->ln = bh_listen(e->l, &lo, on_accept, e, &err);
    BH_CHECK(e->ln != NULL);
    if (!e->ln)
        return;
    if (!co.unix_path)
        co.port = bh_listener_port(e->ln);
    e->client = bh_stream_connect(e->l, &co, &cl_ops, e, &err);
    BH_CHECK(e->client != NULL);
    bh_timer_init(&e->guard, e->l, on_guard, e);
    bh_timer_start(&e->guard, 20000);
    bh_loop_run(e->l);
    bh_listener_free(e->ln);
    bh_loop_free(e->l);
}

static void check_echo(const struct echo *e)
{
    BH_CHECK(e->opened && e->eof);
    BH_EQ(e->got, e->total);
    BH_EQ(e->echoed, e->total);
    BH_EQ(e->released, e->referenced);
    BH_EQ(e->client_err.code, BH_OK);
    BH_EQ(e->server_err.code, BH_OK);
}

BH_TEST(stream_echo_tcp)
{
    struct echo e;

    run_echo(&e, 30000000, (struct bh_listen_opts){.host = "127.0.0.1"},
             (struct bh_connect_opts){.host = "127.0.0.1"});
    check_echo(&e);
    BH_CHECK(bh_str_starts(bh_s(e.seen.addr), BH_S("127.0.0.1:")));
}

BH_TEST(stream_echo_by_name)
{
    struct echo e;

    run_echo(&e, 1000, (struct bh_listen_opts){0}, (struct bh_connect_opts){.host = "localhost"});
    check_echo(&e);
}

BH_TEST(stream_echo_unix)
{
    struct echo e;
    char path[] = "/tmp/bh-stream-test.sock";

    run_echo(&e, 5000000, (struct bh_listen_opts){.unix_path = path},
             (struct bh_connect_opts){.unix_path = path});
    check_echo(&e);
    BH_CHECK(e.seen.is_unix);
    BH_EQ(e.seen.uid, getuid());
    BH_EQ(e.seen.pid, getpid());
    BH_CHECK(access(path, F_OK) < 0);
}

struct certs {
    struct bh_arena *a;
    struct bh_pki_pair ca, other_ca, server, client, stranger;
};

static void make_certs(struct certs *c)
{
    static const struct bh_str ips[] = {BH_S_INIT("127.0.0.1")}, dns[] = {BH_S_INIT("api.test")},
                               orgs[] = {BH_S_INIT("system:masters"), BH_S_INIT("ops")};
    struct bh_pki_req s = {.cn = BH_S("api"),
                           .ips = ips,
                           .ips_n = 1,
                           .dns = dns,
                           .dns_n = 1,
                           .server = true,
                           .days = 2};
    struct bh_pki_req k = {
        .cn = BH_S("alice"), .orgs = orgs, .orgs_n = 2, .client = true, .days = 2};

    c->a = bh_arena_new(0);
    BH_EQ(bh_pki_make_ca(c->a, "ca", 2, &c->ca, NULL), 0);
    BH_EQ(bh_pki_make_ca(c->a, "other", 2, &c->other_ca, NULL), 0);
    BH_EQ(bh_pki_issue(c->a, &c->ca, &s, &c->server, NULL), 0);
    BH_EQ(bh_pki_issue(c->a, &c->ca, &k, &c->client, NULL), 0);
    BH_EQ(bh_pki_issue(c->a, &c->other_ca, &k, &c->stranger, NULL), 0);
}

static const char *const alpn_both[] = {"h2", "http/1.1", NULL};
static const char *const alpn_h1[] = {"http/1.1", NULL};

static void tls_echo(struct echo *e, size_t total, const struct certs *c,
                     const struct bh_pki_pair *client, const struct bh_pki_pair *trust,
                     const char *name)
{
    struct bh_err err = {0};
    struct bh_tls *st = bh_tls_new(&(struct bh_tls_opts){.server = true,
                                                         .cert_pem = c->server.cert_pem,
                                                         .key_pem = c->server.key_pem,
                                                         .ca_pem = c->ca.cert_pem,
                                                         .alpn = alpn_h1},
                                   &err);
    struct bh_tls_opts o = {.ca_pem = trust->cert_pem, .alpn = alpn_both};
    struct bh_tls *ct;

    if (client) {
        o.cert_pem = client->cert_pem;
        o.key_pem = client->key_pem;
    }
    ct = bh_tls_new(&o, &err);
    BH_CHECK(st != NULL && ct != NULL);
    run_echo(e, total, (struct bh_listen_opts){.host = "127.0.0.1", .tls = st},
             (struct bh_connect_opts){.host = "127.0.0.1", .tls = ct, .server_name = name});
    bh_tls_unref(st);
    bh_tls_unref(ct);
}

BH_TEST(stream_tls_identities)
{
    struct certs c;
    struct echo e;

    make_certs(&c);
    tls_echo(&e, 3000000, &c, &c.client, &c.ca, NULL);
    check_echo(&e);
    BH_CHECK(e.seen.tls && e.seen.cert_presented && e.seen.cert_verified);
    BH_STREQ(bh_s(e.cn), "alice");
    BH_EQ(e.orgs_n, 2);
    BH_STREQ(bh_s(e.org), "system:masters");
    BH_STREQ(bh_s(e.alpn), "http/1.1");

    tls_echo(&e, 1000, &c, NULL, &c.ca, "api.test"); /* no client certificate */
    check_echo(&e);
    BH_CHECK(!e.seen.cert_presented && !e.seen.cert_verified);
    BH_STREQ(bh_s(e.cn), "");

    tls_echo(&e, 1000, &c, &c.stranger, &c.ca, "api.test"); /* one that our CA did not sign */
    check_echo(&e);
    BH_CHECK(e.seen.cert_presented && !e.seen.cert_verified);
    bh_arena_free(c.a);
}

BH_TEST(stream_tls_refuses_wrong_server)
{
    struct certs c;
    struct echo e;

    make_certs(&c);
    tls_echo(&e, 1000, &c, &c.client, &c.other_ca, NULL);
    BH_EQ(e.client_err.code, BH_E_PROTO);
    BH_CHECK(bh_str_find(bh_s(e.client_err.msg), BH_S("127.0.0.1")) >= 0);
    BH_CHECK(!e.opened);
    tls_echo(&e, 1000, &c, &c.client, &c.ca, "wrong.test");
    BH_EQ(e.client_err.code, BH_E_PROTO);
    BH_CHECK(!e.opened);
    bh_arena_free(c.a);
}

BH_TEST(stream_connect_refused)
{
    struct echo e = {.l = bh_loop_new_real(NULL)};

    e.client = bh_stream_connect(e.l, &(struct bh_connect_opts){.host = "127.0.0.1", .port = 1},
                                 &cl_ops, &e, NULL);
    bh_loop_run(e.l);
    BH_EQ(e.client_err.code, BH_E_UNAVAILABLE);
    BH_STREQ(bh_s(e.client_err.msg), "connect to 127.0.0.1:1: Connection refused");
    e.client_closed = false;
    e.client =
        bh_stream_connect(e.l, &(struct bh_connect_opts){.host = "no-such-host.invalid", .port = 1},
                          &cl_ops, &e, NULL);
    bh_loop_run(e.l);
    BH_EQ(e.client_err.code, BH_E_UNAVAILABLE);
    e.client_closed = false;
    e.client = bh_stream_connect(e.l, &(struct bh_connect_opts){.unix_path = "/nonexistent"},
                                 &cl_ops, &e, NULL);
    bh_loop_run(e.l);
    BH_EQ(e.client_err.code, BH_E_UNAVAILABLE);
    e.client_closed = false;
    e.client = bh_stream_connect(e.l, &(struct bh_connect_opts){.host = "127.0.0.1", .port = 1},
                                 &cl_ops, &e, NULL);
    bh_stream_abort(e.client, NULL);
    bh_loop_run(e.l);
    BH_EQ(e.client_err.code, BH_E_CANCELED);
    bh_loop_free(e.l);
}

/* A peer that reads nothing: the queue stays, close lingers, abort drops and releases. */
BH_TEST(stream_abort_releases_queue)
{
    struct echo e = {.l = bh_loop_new_real(NULL)};
    int sv[2];

    BH_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
    e.client = bh_stream_from_fd(e.l, sv[0], &cl_ops, &e, NULL);
    for (int i = 0; i < 50; i++) {
        struct bh_part p = {{block, sizeof(block)}, on_release, &e};

        bh_stream_write(e.client, &p, 1);
    }
    BH_EQ(bh_stream_queued(e.client), 50 * sizeof(block));
    BH_CHECK(bh_stream_above_high(e.client));
    bh_stream_close(e.client);
    bh_stream_abort(e.client, NULL);
    bh_stream_write_str(e.client, BH_S("ignored"));
    bh_loop_run(e.l);
    BH_CHECK(e.client_closed);
    BH_EQ(e.released, 50);
    (void)close(sv[1]);
    bh_loop_free(e.l);
}

BH_TEST(stream_dropped_with_its_loop)
{
    struct echo e = {.l = bh_loop_new_real(NULL)};
    struct bh_part p = {{block, sizeof(block)}, on_release, &e};
    int sv[2];

    BH_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
    e.client = bh_stream_from_fd(e.l, sv[0], &cl_ops, &e, NULL);
    bh_stream_write(e.client, &p, 1);
    bh_loop_free(e.l);
    BH_EQ(e.released, 1);
    BH_CHECK(!e.client_closed);
    (void)close(sv[1]);
}

struct unread {
    struct bh_loop *l;
    struct bh_stream *s;
    struct bh_buf got;
    int fd;
};

static void unread_again(void *arg, struct bh_str d)
{
    struct unread *u = arg;

    bh_buf_adds(&u->got, d);
    if (u->got.n >= 7)
        bh_loop_stop(u->l);
}

static void unread_first(void *arg, struct bh_str d)
{
    struct unread *u = arg;
    static const struct bh_stream_ops again = {.on_read = unread_again};

    bh_stream_unread(u->s, bh_str_sub(d, 3, d.n));
    bh_stream_set_ops(u->s, &again, u);
    BH_EQ(write(u->fd, "ij", 2), 2); /* newer than what was given back */
}

BH_TEST(stream_unread_comes_first)
{
    struct unread u = {.l = bh_loop_new_real(NULL)};
    static const struct bh_stream_ops first = {.on_read = unread_first};
    int sv[2];

    BH_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
    u.s = bh_stream_from_fd(u.l, sv[0], &first, &u, NULL);
    BH_EQ(write(sv[1], "abcdefgh", 8), 8);
    u.fd = sv[1];
    bh_loop_run(u.l);
    BH_STREQ(bh_buf_str(&u.got), "defghij");
    bh_buf_done(&u.got);
    (void)close(sv[1]);
    bh_loop_free(u.l);
}
