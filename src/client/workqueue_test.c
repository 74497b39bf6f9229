/* Work queues on a virtual loop: one run at a time, what is added meanwhile, back-off, plans. */
#include "client/workqueue.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/test.h"
#include "net/loop.h"

struct log {
    struct bh_loop *loop;
    struct bh_workqueue *q;
    struct bh_buf text; /* "key@ms " of each run */
    enum bh_work_result answer;
    bool hold; /* the handler does not finish; the test does */
    bool add_self;
    int fail_n; /* so many runs fail, then they succeed */
};

static void run_one(void *arg, struct bh_str key)
{
    struct log *l = arg;

    bh_buf_addf(&l->text, "%.*s@%lld ", BH_SF(key),
                (long long)(bh_loop_mono_ns(l->loop) / 1000000));
    if (l->add_self) {
        l->add_self = false;
        bh_workqueue_add(l->q, key);
    }
    if (l->hold)
        return;
    bh_workqueue_done(l->q, key, l->fail_n-- > 0 ? BH_WORK_RETRY : l->answer);
}

static void open_queue(struct log *l, int workers)
{
    *l = (struct log){.loop = bh_loop_new_virtual(1, 0)};
    l->q = bh_workqueue_new(l->loop, workers, run_one, l);
}

static void close_queue(struct log *l)
{
    (void)bh_workqueue_free(l->q);
    (void)bh_loop_free(l->loop);
    bh_buf_done(&l->text);
}

static void ms(struct log *l, int64_t n)
{
    bh_loop_advance(l->loop, n * 1000000);
}

BH_TEST(workqueue_runs_a_key_once_for_many_adds)
{
    struct log l;

    open_queue(&l, 4);
    for (int i = 0; i < 5; i++)
        bh_workqueue_add(l.q, BH_S("a"));
    BH_EQ(l.text.n, 0); /* never inside the call */
    ms(&l, 1);
    BH_STREQ(bh_buf_str(&l.text), "a@0 ");
    BH_EQ(bh_workqueue_len(l.q), 0);
    close_queue(&l);
}

BH_TEST(workqueue_runs_again_what_was_added_meanwhile)
{
    struct log l;

    open_queue(&l, 4);
    l.hold = true;
    bh_workqueue_add(l.q, BH_S("a"));
    ms(&l, 1);
    bh_workqueue_add(l.q, BH_S("a"));
    bh_workqueue_add(l.q, BH_S("a"));
    ms(&l, 1);
    BH_STREQ(bh_buf_str(&l.text), "a@0 "); /* one at a time */
    l.hold = false;
    bh_workqueue_done(l.q, BH_S("a"), BH_WORK_OK);
    ms(&l, 1);
    BH_STREQ(bh_buf_str(&l.text), "a@0 a@2 ");
    BH_EQ(bh_workqueue_len(l.q), 0);
    close_queue(&l);
}

BH_TEST(workqueue_backs_off_and_forgets_after_success)
{
    struct log l;

    open_queue(&l, 1);
    l.fail_n = 4;
    bh_workqueue_add(l.q, BH_S("a"));
    ms(&l, 1000);
    BH_STREQ(bh_buf_str(&l.text), "a@0 a@5 a@15 a@35 a@75 ");
    bh_buf_clear(&l.text);
    l.fail_n = 1;
    bh_workqueue_add(l.q, BH_S("a"));
    ms(&l, 1000);
    BH_STREQ(bh_buf_str(&l.text), "a@1000 a@1005 ");
    close_queue(&l);
}

BH_TEST(workqueue_backs_off_to_a_thousand_seconds_at_most)
{
    struct log l;

    open_queue(&l, 1);
    l.fail_n = 1000;
    bh_workqueue_add(l.q, BH_S("a"));
    ms(&l, 10000 * 1000);
    bh_buf_clear(&l.text);
    ms(&l, 3000 * 1000 + 1);
    BH_EQ(l.fail_n, 1000 - 1 - 18 - 8 - 3); /* 18 doublings to 1000 s, then one each 1000 s */
    close_queue(&l);
}

BH_TEST(workqueue_add_during_a_failure_does_not_wait)
{
    struct log l;

    open_queue(&l, 1);
    l.fail_n = 1;
    l.add_self = true;
    bh_workqueue_add(l.q, BH_S("a"));
    ms(&l, 3);
    BH_STREQ(bh_buf_str(&l.text), "a@0 a@0 ");
    BH_EQ(bh_workqueue_len(l.q), 0);
    close_queue(&l);
}

BH_TEST(workqueue_plans_keep_the_earliest_time)
{
    struct log l;

    open_queue(&l, 1);
    bh_workqueue_add_after(l.q, BH_S("a"), 100);
    bh_workqueue_add_after(l.q, BH_S("a"), 200);
    bh_workqueue_add_after(l.q, BH_S("a"), 50);
    ms(&l, 1000);
    BH_STREQ(bh_buf_str(&l.text), "a@50 ");
    bh_buf_clear(&l.text);
    bh_workqueue_add_after(l.q, BH_S("b"), 500); /* a plan does not hold back an add … */
    bh_workqueue_add(l.q, BH_S("b"));
    ms(&l, 1000);
    BH_STREQ(bh_buf_str(&l.text), "b@1000 ");
    close_queue(&l);
}

BH_TEST(workqueue_plan_made_while_running_stands)
{
    struct log l;

    open_queue(&l, 1);
    l.hold = true;
    bh_workqueue_add(l.q, BH_S("a"));
    ms(&l, 1);
    bh_workqueue_add_after(l.q, BH_S("a"), 30);
    bh_workqueue_done(l.q, BH_S("a"), BH_WORK_OK);
    l.hold = false;
    BH_EQ(bh_workqueue_len(l.q), 1);
    ms(&l, 100);
    BH_STREQ(bh_buf_str(&l.text), "a@0 a@31 ");
    BH_EQ(bh_workqueue_len(l.q), 0);
    close_queue(&l);
}

BH_TEST(workqueue_has_so_many_workers)
{
    struct log l;

    open_queue(&l, 2);
    l.hold = true;
    bh_workqueue_add(l.q, BH_S("a"));
    bh_workqueue_add(l.q, BH_S("b"));
    bh_workqueue_add(l.q, BH_S("c"));
    ms(&l, 1);
    BH_STREQ(bh_buf_str(&l.text), "a@0 b@0 ");
    bh_workqueue_done(l.q, BH_S("b"), BH_WORK_OK);
    ms(&l, 1);
    BH_STREQ(bh_buf_str(&l.text), "a@0 b@0 c@1 ");
    close_queue(&l); /* with two still running: nothing leaks */
}

BH_TEST(workqueue_gathers_while_paused)
{
    struct log l;

    open_queue(&l, 2);
    bh_workqueue_pause(l.q);
    bh_workqueue_add(l.q, BH_S("a"));
    bh_workqueue_add_after(l.q, BH_S("b"), 10);
    ms(&l, 100);
    BH_EQ(l.text.n, 0);
    bh_workqueue_resume(l.q);
    BH_EQ(l.text.n, 0);
    ms(&l, 1);
    BH_STREQ(bh_buf_str(&l.text), "a@100 b@100 ");
    close_queue(&l);
}
