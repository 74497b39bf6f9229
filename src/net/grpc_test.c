/* gRPC client and server against each other over a unix socket, and a server against hostile bytes.
 */
#include "net/grpc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/test.h"
#include "net/loop.h"
#include "net/stream.h"

struct fix {
    struct bh_loop *l;
    struct bh_grpc_server *srv;
    struct bh_grpc_client *cl;
    char path[108], target[128];
    int waiting; /* callbacks that still have to come before the loop stops */
    struct bh_timer guard;
    struct bh_grpc_call *held;
    int cancels, messages, ends, states;
    enum bh_grpc_state last_state;
    enum bh_grpc_status status;
    char message[256];
    struct bh_buf body;
    struct bh_grpc_stream *stream;
    bool admit;
};

static void got_one(struct fix *f)
{
    if (--f->waiting == 0)
        bh_loop_stop(f->l);
}

static void guard_fired(void *arg)
{
    struct fix *f = arg;

    bh_test_fail(__FILE__, __LINE__, "nothing happened for ten seconds");
    bh_loop_stop(f->l);
}

static void run(struct fix *f, int callbacks)
{
    f->waiting = callbacks;
    bh_timer_start(&f->guard, 10000);
    bh_loop_run(f->l);
    bh_timer_stop(&f->guard);
}

static void pause_over(void *arg)
{
    bh_loop_stop(((struct fix *)arg)->l);
}

static void run_ms(struct fix *f, int ms)
{
    struct bh_timer t;

    bh_timer_init(&t, f->l, pause_over, f);
    bh_timer_start(&t, ms);
    bh_loop_run(f->l);
}

/* Runs the loop until the condition holds, ten seconds at most: machines are busy. */
#define UNTIL(f, cond)                                                                             \
    do {                                                                                           \
        for (int bh_n = 0; !(cond) && bh_n < 5000; bh_n++)                                         \
            run_ms((f), 2);                                                                        \
        BH_CHECK(cond);                                                                            \
    } while (0)

static void h_echo(void *arg, struct bh_grpc_call *c)
{
    (void)arg;
    bh_grpc_call_reply(c, bh_grpc_call_request(c));
}

static void h_fail(void *arg, struct bh_grpc_call *c)
{
    (void)arg;
    bh_grpc_call_finish(c, BH_GRPC_NOT_FOUND, "no such thing: 100%%\n\303\244");
}

static void h_cancelled(void *arg)
{
    struct fix *f = arg;

    f->cancels++;
    bh_grpc_call_finish(f->held, BH_GRPC_CANCELLED, "late");
    f->held = NULL;
}

static void h_hold(void *arg, struct bh_grpc_call *c)
{
    struct fix *f = arg;

    f->held = c;
    bh_grpc_call_on_cancel(c, h_cancelled, f);
}

static void h_count(void *arg, struct bh_grpc_call *c)
{
    (void)arg;
    for (int i = 0; i < 3; i++)
        BH_EQ(bh_grpc_call_send(c, bh_grpc_call_request(c)), 0);
    bh_grpc_call_finish(c, BH_GRPC_OK, "%s", "");
}

static bool h_admit(void *arg, struct bh_str method)
{
    (void)method;
    return ((struct fix *)arg)->admit;
}

static void on_state(void *arg, enum bh_grpc_state st, const struct bh_err *why)
{
    struct fix *f = arg;

    (void)why;
    f->states++;
    f->last_state = st;
}

static void server_start(struct fix *f)
{
    struct bh_err e = {0};

    f->srv = bh_grpc_server_new(f->l);
    bh_grpc_server_method(f->srv, "/t.T/Echo", h_echo, f);
    bh_grpc_server_method(f->srv, "/t.T/Fail", h_fail, f);
    bh_grpc_server_method(f->srv, "/t.T/Hold", h_hold, f);
    bh_grpc_server_method(f->srv, "/t.T/Count", h_count, f);
    bh_grpc_server_admit(f->srv, h_admit, "rejected by rate limit", f);
    if (bh_grpc_server_listen_unix(f->srv, f->path, 0600, &e) < 0)
        bh_test_fail(__FILE__, __LINE__, "%s", e.msg);
}

static void fix_init(struct fix *f, bool with_server)
{
    static int n;
    struct bh_grpc_client_opts o = {
        .state = on_state, .arg = f, .backoff_min_ms = 20, .backoff_max_ms = 40};

    memset(f, 0, sizeof(*f));
    f->admit = true;
    f->l = bh_loop_new_real(NULL);
    (void)snprintf(f->path, sizeof(f->path), "/tmp/bh-grpc-test-%d-%d.sock", (int)getpid(), n++);
    (void)snprintf(f->target, sizeof(f->target), "unix:%s", f->path);
    bh_timer_init(&f->guard, f->l, guard_fired, f);
    if (with_server)
        server_start(f);
    o.target = f->target;
    f->cl = bh_grpc_client_new(f->l, &o);
}

static void fix_done(struct fix *f)
{
    f->cl = bh_grpc_client_free(f->cl);
    f->srv = bh_grpc_server_free(f->srv);
    run_ms(f, 20); /* the streams say goodbye */
    BH_CHECK(access(f->path, F_OK) != 0);
    bh_buf_done(&f->body);
    f->l = bh_loop_free(f->l);
}

static void unary_done(void *arg, const struct bh_grpc_result *res)
{
    struct fix *f = arg;

    f->status = res->status;
    (void)snprintf(f->message, sizeof(f->message), "%.*s", BH_SF(res->message));
    bh_buf_clear(&f->body);
    bh_buf_adds(&f->body, res->body);
    got_one(f);
}

BH_TEST(grpc_unary_echo)
{
    struct fix f;

    fix_init(&f, true);
    (void)bh_grpc_unary(f.cl, "/t.T/Echo", BH_S("hello"), 1000, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_OK);
    BH_STREQ(bh_buf_str(&f.body), "hello");
    BH_EQ(f.last_state, BH_GRPC_READY);
    (void)bh_grpc_unary(f.cl, "/t.T/Echo", BH_S(""), 0, unary_done,
                        &f); /* an empty message is a message */
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_OK);
    BH_EQ(f.body.n, 0);
    fix_done(&f);
}

BH_TEST(grpc_unary_large) /* through many flow control windows; just over the limit is refused */
{
    struct fix f;
    size_t n = BH_GRPC_MESSAGE_MAX;
    char *p = bh_calloc(1, n + 1);

    fix_init(&f, true);
    (void)bh_grpc_unary(f.cl, "/t.T/Echo", (struct bh_str){p, n}, 9000, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_OK);
    BH_EQ(f.body.n, n);
    (void)bh_grpc_unary(f.cl, "/t.T/Echo", (struct bh_str){p, n + 1}, 9000, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_RESOURCE_EXHAUSTED);
    bh_free(p);
    fix_done(&f);
}

BH_TEST(grpc_errors_and_unknown_methods)
{
    struct fix f;

    fix_init(&f, true);
    (void)bh_grpc_unary(f.cl, "/t.T/Fail", BH_S("x"), 1000, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_NOT_FOUND);
    BH_STREQ(bh_s(f.message), "no such thing: 100%\n\303\244");
    (void)bh_grpc_unary(f.cl, "/t.T/Nope", BH_S("x"), 1000, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_UNIMPLEMENTED);
    f.admit = false;
    (void)bh_grpc_unary(f.cl, "/t.T/Echo", BH_S("x"), 1000, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_RESOURCE_EXHAUSTED);
    BH_STREQ(bh_s(f.message), "rejected by rate limit");
    fix_done(&f);
}

BH_TEST(grpc_deadline_and_cancel)
{
    struct fix f;
    uint64_t id;

    fix_init(&f, true);
    (void)bh_grpc_unary(f.cl, "/t.T/Hold", BH_S("x"), 60, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_DEADLINE_EXCEEDED);
    UNTIL(&f, f.cancels == 1);
    id = bh_grpc_unary(f.cl, "/t.T/Hold", BH_S("x"), 0, unary_done, &f);
    UNTIL(&f, f.held != NULL);
    bh_grpc_cancel(f.cl, id);
    UNTIL(&f, f.cancels == 2);
    fix_done(&f);
}

static void s_message(void *arg, struct bh_str msg)
{
    struct fix *f = arg;

    f->messages++;
    bh_buf_adds(&f->body, msg);
}

static void s_ended(void *arg, enum bh_grpc_status st, struct bh_str message)
{
    struct fix *f = arg;

    (void)message;
    f->ends++;
    f->status = st;
    f->stream = NULL;
    got_one(f);
}

static const struct bh_grpc_stream_ops s_ops = {s_message, s_ended};

BH_TEST(grpc_server_stream)
{
    struct fix f;

    fix_init(&f, true);
    f.stream = bh_grpc_stream_open(f.cl, "/t.T/Count", 0, &s_ops, &f);
    BH_EQ(bh_grpc_stream_send(f.stream, BH_S("ab")), 0);
    bh_grpc_stream_close_send(f.stream);
    run(&f, 1);
    BH_EQ(f.messages, 3);
    BH_STREQ(bh_buf_str(&f.body), "ababab");
    BH_EQ(f.status, BH_GRPC_OK);
    fix_done(&f);
}

static void s_message_free(void *arg, struct bh_str msg)
{
    struct fix *f = arg;

    (void)msg;
    f->messages++;
    f->stream = bh_grpc_stream_free(f->stream);
    got_one(f);
}

BH_TEST(grpc_stream_freed_in_its_callback)
{
    static const struct bh_grpc_stream_ops ops = {s_message_free, s_ended};
    struct fix f;

    fix_init(&f, true);
    f.stream = bh_grpc_stream_open(f.cl, "/t.T/Count", 0, &ops, &f);
    BH_EQ(bh_grpc_stream_send(f.stream, BH_S("ab")), 0);
    bh_grpc_stream_close_send(f.stream);
    run(&f, 1);
    run_ms(&f, 20);
    BH_EQ(f.messages, 1);
    BH_EQ(f.ends, 0);
    fix_done(&f);
}

BH_TEST(grpc_reconnects) /* and calls fail meanwhile, with the reason */
{
    struct fix f;

    fix_init(&f, false);
    UNTIL(&f, f.last_state == BH_GRPC_FAILED);
    (void)bh_grpc_unary(f.cl, "/t.T/Echo", BH_S("x"), 1000, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_UNAVAILABLE);
    server_start(&f);
    UNTIL(&f, f.last_state == BH_GRPC_READY);
    (void)bh_grpc_unary(f.cl, "/t.T/Hold", BH_S("x"), 5000, unary_done, &f);
    UNTIL(&f, f.held != NULL);
    f.srv = bh_grpc_server_free(f.srv);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_UNAVAILABLE);
    BH_EQ(f.cancels, 1);
    server_start(&f);
    UNTIL(&f, f.last_state == BH_GRPC_READY);
    (void)bh_grpc_unary(f.cl, "/t.T/Echo", BH_S("x"), 1000, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_OK);
    fix_done(&f);
}

BH_TEST(grpc_server_drains) /* what has begun is finished, what is new goes to the successor */
{
    struct bh_grpc_server *old;
    struct bh_grpc_call *held;
    struct fix f;

    fix_init(&f, true);
    (void)bh_grpc_unary(f.cl, "/t.T/Hold", BH_S("x"), 5000, unary_done, &f);
    UNTIL(&f, f.held != NULL);
    held = f.held;
    old = f.srv;
    bh_grpc_server_drain(old);
    server_start(&f);
    f.last_state = BH_GRPC_FAILED;
    UNTIL(&f, f.last_state == BH_GRPC_READY);
    (void)bh_grpc_unary(f.cl, "/t.T/Echo", BH_S("new"), 1000, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_OK);
    BH_STREQ(bh_buf_str(&f.body), "new");
    BH_EQ(f.cancels, 0);
    bh_grpc_call_reply(held, BH_S("old"));
    run(&f, 1);
    BH_STREQ(bh_buf_str(&f.body), "old");
    (void)bh_grpc_server_free(old);
    fix_done(&f);
}

static void free_client(void *arg, const struct bh_grpc_result *res)
{
    struct fix *f = arg;

    (void)res;
    f->cl = bh_grpc_client_free(f->cl);
    got_one(f);
}

BH_TEST(grpc_client_freed_in_a_callback)
{
    struct fix f;

    fix_init(&f, true);
    (void)bh_grpc_unary(f.cl, "/t.T/Echo", BH_S("x"), 1000, free_client, &f);
    (void)bh_grpc_unary(f.cl, "/t.T/Echo", BH_S("y"), 1000, unary_done, &f);
    (void)bh_grpc_unary(f.cl, "/t.T/Hold", BH_S("y"), 1000, unary_done, &f);
    run(&f, 1);
    run_ms(&f, 30);
    fix_done(&f);
}

BH_TEST(grpc_many_calls_at_once)
{
    struct fix f;

    fix_init(&f, true);
    for (int i = 0; i < 900; i++)
        (void)bh_grpc_unary(f.cl, "/t.T/Echo", BH_S("x"), 9000, unary_done, &f);
    run(&f, 900);
    BH_EQ(f.status, BH_GRPC_OK);
    fix_done(&f);
}

/* Sends raw bytes and lets the server chew on them; then it must still serve others. */
static void hostile(struct fix *f, const char *bytes, size_t n)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(sa.sun_path, f->path, strlen(f->path));
    BH_EQ(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    BH_EQ(write(fd, bytes, n), (ssize_t)n);
    run_ms(f, 10);
    (void)close(fd);
    run_ms(f, 5);
    (void)bh_grpc_unary(f->cl, "/t.T/Echo", BH_S("x"), 1000, unary_done, f);
    run(f, 1);
    BH_EQ(f->status, BH_GRPC_OK);
}

#define MAGIC "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

BH_TEST(grpc_server_survives_hostile_frames)
{
    static const char http1[] = "POST / HTTP/1.1\r\nContent-Length: 99\r\n\r\n";
    static const char cut[] = MAGIC "\0\0\6\4\0\0\0\0";
    static const char data_on_idle[] = MAGIC "\0\0\0\4\0\0\0\0\0"
                                             "\0\0\1\0\1\0\0\0\1x";
    static const char huge_frame[] = MAGIC "\0\0\0\4\0\0\0\0\0"
                                           "\377\377\377\0\0\0\0\0\1";
    static const char bad_settings[] = MAGIC "\0\0\5\4\0\0\0\0\0abcde";
    static const char bad_hpack[] = MAGIC "\0\0\0\4\0\0\0\0\0"
                                          "\0\0\4\1\5\0\0\0\1\377\377\377\377";
    struct fix f;

    fix_init(&f, true);
    hostile(&f, http1, sizeof(http1) - 1);
    hostile(&f, cut, sizeof(cut) - 1);
    hostile(&f, data_on_idle, sizeof(data_on_idle) - 1);
    hostile(&f, huge_frame, sizeof(huge_frame) - 1);
    hostile(&f, bad_settings, sizeof(bad_settings) - 1);
    hostile(&f, bad_hpack, sizeof(bad_hpack) - 1);
    fix_done(&f);
}

/* ---- grpcio, when BH_GRPC_PYTHON names an interpreter that has it ---- */

static void peer_ended(void *arg, const struct bh_proc_result *res)
{
    struct fix *f = arg;

    if (res->exit_code != 0 && res->signal == 0)
        bh_test_fail(__FILE__, __LINE__, "grpcio: %.*s%.*s", BH_SF(res->out), BH_SF(res->err));
    got_one(f);
}

static bool peer_start(struct fix *f, const char *mode, struct bh_proc **ret)
{
    const char *python = getenv("BH_GRPC_PYTHON");
    const char *argv[] = {python, "tests/grpc/peer.py", mode, f->path, NULL};
    const struct bh_proc_opts o = {.file = python,
                                   .argv = argv,
                                   .output_max = 1 << 16,
                                   .stdout_fd = -1,
                                   .stderr_fd = -1,
                                   .timeout_ms = 60000,
                                   .die_with_parent = true};

    if (!python || access(argv[1], R_OK) < 0)
        return false;
    return bh_proc_spawn(f->l, &o, peer_ended, f, ret, NULL) == 0;
}

BH_TEST(grpc_interop_client_of_others)
{
    struct fix f;

    fix_init(&f, true);
    if (peer_start(&f, "call", NULL)) {
        f.waiting = 1;
        bh_timer_start(&f.guard, 60000);
        bh_loop_run(f.l);
        bh_timer_stop(&f.guard);
        UNTIL(&f, f.cancels >= 1);
    } else {
        bh_test_skip("BH_GRPC_PYTHON is not set: run tests/grpc/run");
    }
    fix_done(&f);
}

BH_TEST(grpc_interop_server_of_others)
{
    struct fix f;
    struct bh_proc *proc = NULL;
    size_t n = 5 << 20;
    char *big;

    fix_init(&f, false);
    if (!peer_start(&f, "serve", &proc)) {
        bh_test_skip("BH_GRPC_PYTHON is not set: run tests/grpc/run");
        fix_done(&f);
        return;
    }
    for (int i = 0; i < 500 && f.last_state != BH_GRPC_READY; i++)
        run_ms(&f, 20);
    BH_EQ(f.last_state, BH_GRPC_READY);
    (void)bh_grpc_unary(f.cl, "/t.T/Echo", BH_S("hello"), 5000, unary_done, &f);
    run(&f, 1);
    BH_STREQ(bh_buf_str(&f.body), "hello");
    big = bh_calloc(1, n);
    (void)bh_grpc_unary(f.cl, "/t.T/Echo", (struct bh_str){big, n}, 9000, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.body.n, n);
    bh_free(big);
    (void)bh_grpc_unary(f.cl, "/t.T/Fail", BH_S("x"), 5000, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_NOT_FOUND);
    BH_STREQ(bh_s(f.message), "no such thing: 100%\n\303\244");
    (void)bh_grpc_unary(f.cl, "/t.T/Nope", BH_S("x"), 5000, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_UNIMPLEMENTED);
    (void)bh_grpc_unary(f.cl, "/t.T/Hold", BH_S("x"), 200, unary_done, &f);
    run(&f, 1);
    BH_EQ(f.status, BH_GRPC_DEADLINE_EXCEEDED);
    bh_buf_clear(&f.body);
    f.stream = bh_grpc_stream_open(f.cl, "/t.T/Count", 5000, &s_ops, &f);
    BH_EQ(bh_grpc_stream_send(f.stream, BH_S("ab")), 0);
    bh_grpc_stream_close_send(f.stream);
    run(&f, 1);
    BH_EQ(f.messages, 3);
    for (int i = 0; i < 90; i++)
        (void)bh_grpc_unary(f.cl, "/t.T/Echo", BH_S("x"), 9000, unary_done, &f);
    run(&f, 90);
    BH_EQ(f.status, BH_GRPC_OK);
    f.waiting = 1;
    bh_proc_kill(proc, SIGKILL);
    bh_loop_run(f.l);
    (void)unlink(f.path);
    fix_done(&f);
}
