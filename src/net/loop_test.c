/* Loops: order and time of timers, deferred and posted calls, work, children, determinism of the
 * virtual loop. */
#include "net/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/test.h"

struct trace {
    struct bh_loop *l;
    struct bh_buf buf;
    int left;
};

struct mark {
    struct trace *t;
    const char *name;
    struct bh_timer timer;
};

static void add(void *arg)
{
    struct mark *m = arg;

    bh_buf_addz(&m->t->buf, m->name);
    if (--m->t->left == 0)
        bh_loop_stop(m->t->l);
}

static void timers_in_order(struct bh_loop *l)
{
    struct trace t = {.l = l, .left = 5};
    struct mark m[6] = {{&t, "a", {0}}, {&t, "b", {0}}, {&t, "c", {0}},
                        {&t, "d", {0}}, {&t, "e", {0}}, {&t, "x", {0}}};
    int64_t start = bh_loop_mono_ns(l);

    for (size_t i = 0; i < BH_COUNT(m); i++)
        bh_timer_init(&m[i].timer, l, add, &m[i]);
    bh_timer_start(&m[0].timer, 12);
    bh_timer_start(&m[2].timer, 4);
    bh_timer_start(&m[3].timer, 12);
    bh_timer_start(&m[1].timer, 4);
    bh_timer_start(&m[5].timer, 6);
    bh_timer_start(&m[2].timer, 4); /* started again: now behind b */
    bh_timer_start(&m[4].timer, 0);
    bh_timer_stop(&m[5].timer);
    BH_CHECK(!bh_timer_armed(&m[5].timer));
    BH_CHECK(bh_timer_armed(&m[0].timer));
    bh_loop_run(l);
    BH_STREQ(bh_buf_str(&t.buf), "ebcad");
    BH_CHECK(bh_loop_mono_ns(l) - start >= 12000000);
    bh_buf_done(&t.buf);
}

BH_TEST(loop_real_timers)
{
    struct bh_loop *l = bh_loop_new_real(NULL);

    timers_in_order(l);
    timers_in_order(l); /* a loop can be run again */
    bh_loop_free(l);
}

BH_TEST(loop_virtual_timers)
{
    struct bh_loop *l = bh_loop_new_virtual(1, 0);

    timers_in_order(l);
    bh_loop_free(l);
}

BH_TEST(loop_many_timers) /* the heap against a plain model */
{
    struct bh_loop *l = bh_loop_new_virtual(bh_test_seed(), 0);
    enum { N = 2000 };
    struct trace t = {.l = l, .left = -1};
    struct mark *m = bh_calloc(N, sizeof(*m));
    int armed = 0;

    for (int i = 0; i < N; i++) {
        m[i] = (struct mark){.t = &t, .name = "."};
        bh_timer_init(&m[i].timer, l, add, &m[i]);
    }
    for (int i = 0; i < 20000; i++) {
        struct bh_timer *x = &m[bh_loop_random(l) % N].timer;

        if (bh_loop_random(l) % 3)
            bh_timer_start_ns(x, (int64_t)(bh_loop_random(l) % 1000));
        else
            bh_timer_stop(x);
    }
    for (int i = 0; i < N; i++)
        armed += bh_timer_armed(&m[i].timer);
    bh_loop_run(l);
    BH_EQ(t.buf.n, armed);
    BH_CHECK(bh_loop_mono_ns(l) < 1000);
    bh_buf_done(&t.buf);
    bh_free(m);
    bh_loop_free(l);
}

struct chain {
    struct bh_loop *l;
    int n;
    bool io_ran;
    int fd;
    struct bh_io *io;
};

static void chain_step(void *arg)
{
    struct chain *c = arg;

    if (++c->n < 1000)
        bh_loop_defer(c->l, chain_step, c);
    else
        bh_loop_stop(c->l);
}

static void chain_io(void *arg, unsigned events)
{
    struct chain *c = arg;
    char b[8];

    BH_CHECK(events == BH_IO_READ);
    BH_EQ(read(c->fd, b, sizeof(b)), 1);
    c->io_ran = true;
    BH_CHECK(c->n < 1000);
    c->io = bh_io_free(c->io);
}

BH_TEST(loop_defer_does_not_starve_io)
{
    struct bh_loop *l = bh_loop_new_real(NULL);
    struct chain c = {.l = l};
    int sv[2];

    BH_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
    c.fd = sv[0];
    c.io = bh_io_new(l, sv[0], chain_io, &c, NULL);
    BH_CHECK(c.io != NULL);
    bh_io_want(c.io, BH_IO_READ);
    BH_EQ(write(sv[1], "x", 1), 1);
    bh_loop_defer(l, chain_step, &c);
    bh_loop_run(l);
    BH_CHECK(c.io_ran);
    BH_EQ(c.n, 1000);
    (void)close(sv[0]);
    (void)close(sv[1]);
    bh_loop_free(l);
}

BH_TEST(loop_virtual_refuses_io)
{
    struct bh_loop *l = bh_loop_new_virtual(1, 0);
    struct bh_err e = {0};
    struct bh_proc_opts o = {.file = "/bin/true"};

    BH_CHECK(bh_loop_is_virtual(l));
    BH_CHECK(bh_io_new(l, 0, chain_io, NULL, &e) == NULL);
    BH_EQ(e.code, BH_E_UNSUPPORTED);
    BH_EQ(bh_proc_spawn(l, &o, NULL, NULL, NULL, &e), -BH_E_UNSUPPORTED);
    bh_loop_free(l);
}

enum { POSTERS = 4, POSTS = 5000 };

struct posts {
    struct bh_loop *l;
    long sum; /* loop thread only */
    int n;
    struct poster {
        struct posts *ps;
        int next; /* what the loop expects: posts of one thread keep their order */
        struct post {
            struct poster *from;
            int i;
        } post[POSTS];
    } by[POSTERS];
};

static void on_post(void *arg)
{
    struct post *p = arg;
    struct posts *ps = p->from->ps;

    BH_EQ(p->i, p->from->next);
    p->from->next++;
    ps->sum += p->i;
    if (++ps->n == POSTERS * POSTS)
        bh_loop_stop(ps->l);
}

static void *poster(void *arg)
{
    struct poster *p = arg;

    for (int i = 0; i < POSTS; i++) {
        p->post[i] = (struct post){p, i};
        bh_loop_post(p->ps->l, on_post, &p->post[i]);
    }
    return NULL;
}

BH_TEST(loop_post_from_threads)
{
    struct bh_loop *l = bh_loop_new_real(NULL);
    struct posts *ps = bh_calloc(1, sizeof(*ps));
    pthread_t th[POSTERS];

    ps->l = l;
    for (int i = 0; i < POSTERS; i++) {
        ps->by[i].ps = ps;
        BH_EQ(pthread_create(&th[i], NULL, poster, &ps->by[i]), 0);
    }
    bh_loop_run(l);
    for (int i = 0; i < POSTERS; i++)
        (void)pthread_join(th[i], NULL);
    BH_EQ(ps->sum, (long)POSTERS * POSTS * (POSTS - 1) / 2);
    bh_free(ps);
    bh_loop_free(l);
}

struct works {
    struct bh_loop *l;
    int left, max;
    bool more; /* each completion starts another */
    struct item {
        struct works *ws;
        int in, out;
        bool done;
    } item[200];
};

static void work_fn(void *arg)
{
    struct item *it = arg;

    it->out = it->in * 2; /* worker thread */
}

static void work_done(void *arg)
{
    struct item *it = arg;

    BH_EQ(it->out, it->in * 2);
    it->done = true;
    if (--it->ws->left == 0)
        bh_loop_stop(it->ws->l);
}

static void run_works(struct bh_loop *l)
{
    struct works *ws = bh_calloc(1, sizeof(*ws));

    ws->l = l;
    ws->left = (int)BH_COUNT(ws->item);
    for (int i = 0; i < (int)BH_COUNT(ws->item); i++) {
        ws->item[i] = (struct item){.ws = ws, .in = i};
        bh_loop_work(l, work_fn, work_done, &ws->item[i]);
    }
    bh_loop_run(l);
    for (int i = 0; i < (int)BH_COUNT(ws->item); i++)
        BH_CHECK(ws->item[i].done);
    bh_free(ws);
}

BH_TEST(loop_work)
{
    struct bh_loop *l = bh_loop_new_real(NULL);

    run_works(l);
    run_works(l);
    bh_loop_free(l);
    l = bh_loop_new_virtual(7, 0);
    run_works(l);
    BH_CHECK(bh_loop_mono_ns(l) > 0);
    bh_loop_free(l);
}

static void quick(void *arg)
{
    (void)arg;
}

BH_TEST(loop_free_with_work_under_way)
{
    struct bh_loop *l = bh_loop_new_real(NULL);

    for (int i = 0; i < 100; i++)
        bh_loop_work(l, quick, quick, NULL);
    bh_loop_free(l);
}

static uint64_t virtual_fingerprint(uint64_t seed)
{
    struct bh_loop *l = bh_loop_new_virtual(seed, 1000);
    struct works *ws = bh_calloc(1, sizeof(*ws));
    uint64_t ret;
    char uuid[37];

    ws->l = l;
    ws->left = (int)BH_COUNT(ws->item);
    for (int i = 0; i < (int)BH_COUNT(ws->item); i++) {
        ws->item[i] = (struct item){.ws = ws, .in = i};
        bh_loop_work(l, work_fn, work_done, &ws->item[i]);
    }
    bh_loop_run(l);
    bh_loop_uuid(l, uuid);
    BH_EQ(strlen(uuid), 36);
    BH_EQ(uuid[14], '4');
    ret = (uint64_t)bh_loop_mono_ns(l) ^ bh_loop_random(l) ^ (uint64_t)uuid[0];
    BH_EQ(bh_loop_wall_ns(l), 1000 + bh_loop_mono_ns(l));
    bh_free(ws);
    bh_loop_free(l);
    return ret;
}

BH_TEST(loop_virtual_is_deterministic)
{
    BH_CHECK(virtual_fingerprint(5) == virtual_fingerprint(5));
    BH_CHECK(virtual_fingerprint(5) != virtual_fingerprint(6));
}

BH_TEST(loop_virtual_advance)
{
    struct bh_loop *l = bh_loop_new_virtual(1, 0);
    struct trace t = {.l = l, .left = -1};
    struct mark a = {&t, "a", {0}}, b = {&t, "b", {0}};

    bh_timer_init(&a.timer, l, add, &a);
    bh_timer_init(&b.timer, l, add, &b);
    bh_timer_start(&a.timer, 10);
    bh_timer_start(&b.timer, 20);
    bh_loop_advance(l, 15000000);
    BH_STREQ(bh_buf_str(&t.buf), "a");
    BH_EQ(bh_loop_mono_ns(l), 15000000);
    bh_loop_advance(l, 5000000);
    BH_STREQ(bh_buf_str(&t.buf), "ab");
    bh_buf_done(&t.buf);
    bh_loop_free(l);
}

/* ---- children ---- */

struct ran {
    struct bh_loop *l;
    int exit_code, signal;
    bool timed_out, done;
    struct bh_buf out, err;
};

static void on_done(void *arg, const struct bh_proc_result *res)
{
    struct ran *r = arg;

    BH_CHECK(!r->done);
    r->done = true;
    r->exit_code = res->exit_code;
    r->signal = res->signal;
    r->timed_out = res->timed_out;
    bh_buf_adds(&r->out, res->out);
    bh_buf_adds(&r->err, res->err);
    bh_loop_stop(r->l);
}

static int run_proc(struct bh_proc_opts o, struct ran *r, struct bh_err *e)
{
    int rc;

    *r = (struct ran){.l = bh_loop_new_real(NULL)};
    rc = bh_proc_spawn(r->l, &o, on_done, r, NULL, e);
    if (rc == 0)
        bh_loop_run(r->l);
    bh_loop_free(r->l);
    return rc;
}

static void ran_done(struct ran *r)
{
    bh_buf_done(&r->out);
    bh_buf_done(&r->err);
}

BH_TEST(proc_output_and_stdin)
{
    const char *argv[] = {"sh", "-c", "cat; echo oops >&2; exit 3", NULL};
    struct ran r;

    BH_EQ(run_proc(
              (struct bh_proc_opts){
                  .file = "sh", .argv = argv, .stdin_data = BH_S("hello"), .output_max = 100},
              &r, NULL),
          0);
    BH_EQ(r.exit_code, 3);
    BH_STREQ(bh_buf_str(&r.out), "hello");
    BH_STREQ(bh_buf_str(&r.err), "oops\n");
    ran_done(&r);
}

BH_TEST(proc_output_is_capped)
{
    const char *argv[] = {"sh", "-c", "head -c 300000 /dev/zero", NULL};
    struct ran r;

    BH_EQ(run_proc((struct bh_proc_opts){.file = "sh", .argv = argv, .output_max = 1000}, &r, NULL),
          0);
    BH_EQ(r.exit_code, 0);
    BH_EQ(r.out.n, 1000);
    ran_done(&r);
}

BH_TEST(proc_timeout_kills_group)
{
    const char *argv[] = {"sh", "-c", "sleep 100 & sleep 100; wait", NULL};
    struct ran r;

    BH_EQ(run_proc((struct bh_proc_opts){.file = "sh",
                                         .argv = argv,
                                         .output_max = 10,
                                         .timeout_ms = 50,
                                         .new_group = true,
                                         .die_with_parent = true},
                   &r, NULL),
          0);
    BH_CHECK(r.timed_out);
    BH_EQ(r.signal, SIGKILL);
    BH_EQ(r.exit_code, -1);
    ran_done(&r);
}

BH_TEST(proc_missing_program)
{
    const char *argv[] = {"x", NULL};
    struct bh_err e = {0};
    struct ran r;

    BH_EQ(run_proc((struct bh_proc_opts){.file = "/nonexistent/x", .argv = argv}, &r, &e),
          -BH_E_NOT_FOUND);
    BH_EQ(run_proc((struct bh_proc_opts){.file = "no-such-program-here", .argv = argv}, &r, &e),
          -BH_E_NOT_FOUND);
    BH_EQ(run_proc((struct bh_proc_opts){.file = "/etc/passwd", .argv = argv}, &r, &e), -BH_E_IO);
}

/* The child sees exactly the descriptors it was given, in order, and default dispositions. */
BH_TEST(proc_descriptors_and_signals)
{
    const char *argv[] = {"sh", "-c",
                          "cat <&4; cat <&3; ls /proc/self/fd | sort -n | tr '\\n' ' '; "
                          "grep -E 'SigIgn|SigBlk' /proc/self/status | tr -d '\\t\\n'; pwd",
                          NULL};
    const char *env[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", NULL};
    int a[2], b[2], fds[2];
    struct ran r;
    struct bh_str out;

    BH_EQ(pipe2(a, O_CLOEXEC), 0);
    BH_EQ(pipe2(b, O_CLOEXEC), 0);
    BH_EQ(write(a[1], "first ", 6), 6);
    BH_EQ(write(b[1], "second ", 7), 7);
    (void)close(a[1]);
    (void)close(b[1]);
    fds[0] = a[0];
    fds[1] = b[0];
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    BH_EQ(run_proc((struct bh_proc_opts){.file = "sh",
                                         .argv = argv,
                                         .env = env,
                                         .cwd = "/usr",
                                         .output_max = 1000,
                                         .extra_fds = fds,
                                         .extra_fds_n = 2},
                   &r, NULL),
          0);
    out = bh_buf_str(&r.out);
    BH_CHECK(bh_str_starts(out, BH_S("second first 0 1 2 3 4 5")));
    BH_CHECK(bh_str_find(out, BH_S(" 6 ")) < 0);
    BH_CHECK(bh_str_find(out, BH_S("SigIgn:0000000000000000")) > 0);
    BH_CHECK(bh_str_find(out, BH_S("SigBlk:0000000000000000")) > 0);
    BH_CHECK(bh_str_ends(out, BH_S("/usr\n")));
    (void)close(a[0]);
    (void)close(b[0]);
    ran_done(&r);
}

BH_TEST(proc_lingering_grandchild_does_not_hold_the_result)
{
    const char *argv[] = {"sh", "-c", "sleep 5 & exit 0", NULL};
    struct timespec start, end;
    struct ran r;

    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    BH_EQ(
        run_proc(
            (struct bh_proc_opts){.file = "sh", .argv = argv, .output_max = 10, .new_group = true},
            &r, NULL),
        0);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    BH_EQ(r.exit_code, 0);
    BH_CHECK(end.tv_sec - start.tv_sec < 5);
    ran_done(&r);
}

static void stop_it(void *arg)
{
    bh_loop_stop(arg);
}

/* What held the loop up before a timer was started is not taken off its time. */
BH_TEST(loop_timer_after_a_long_turn)
{
    struct bh_loop *l = bh_loop_new_real(NULL);
    struct timespec start, end, held = {.tv_nsec = 80000000};
    struct bh_timer t;

    (void)bh_loop_mono_ns(l); /* the turn's time is known */
    (void)nanosleep(&held, NULL);
    bh_timer_init(&t, l, stop_it, l);
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    bh_timer_start(&t, 50);
    bh_loop_run(l);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    BH_CHECK((end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec >= 50000000);
    bh_loop_free(l);
}

/* Of a real loop, too: none comes twice, and a loop has its own. */
BH_TEST(loop_uuids_differ)
{
    struct bh_err err = {0};
    struct bh_loop *loops[2] = {bh_loop_new_real(&err), bh_loop_new_real(&err)};
    char seen[100][37];

    for (int i = 0; i < 100; i++) {
        bh_loop_uuid(loops[i % 2], seen[i]);
        BH_EQ(strlen(seen[i]), 36);
        BH_EQ(seen[i][14], '4');
        for (int k = 0; k < i; k++)
            BH_CHECK(strcmp(seen[i], seen[k]) != 0);
    }
    bh_loop_free(loops[0]);
    bh_loop_free(loops[1]);
}
