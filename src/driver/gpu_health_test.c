/* Health policies, and what they make of faults over time. */
#include "driver/gpu_health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/fs.h"
#include "base/test.h"

static struct bh_health_policy policy(struct bh_arena *a, const char *text)
{
    struct bh_health_policy p = {0};
    struct bh_err e = {0};

    if (bh_health_policy_parse(a, bh_s(text), &p, &e) < 0)
        bh_test_fail(__FILE__, __LINE__, "%s", e.msg);
    return p;
}

static const char sample[] = "default: None\n"
                             "healthyFor: 30s\n"
                             "flapping: {faults: 3, within: 10m, healthyFor: 1h}\n"
                             "rules:\n"
                             "- xids: [79, \"119-120\"]\n"
                             "  effect: NoExecute\n"
                             "  healthyFor: 5m\n"
                             "- xids: [13, \"31\", \"60-80\"]\n"
                             "  effect: ignore\n"
                             "- {xids: [94], effect: NoSchedule}\n";

BH_TEST(health_policy_decides)
{
    static const struct {
        int xid;
        enum bh_health_effect effect;
        int64_t seconds;
    } t[] = {{79, BH_HEALTH_NO_EXECUTE, 300}, {119, BH_HEALTH_NO_EXECUTE, 300},
             {121, BH_HEALTH_NONE, 30},       {13, BH_HEALTH_IGNORE, 30},
             {31, BH_HEALTH_IGNORE, 30},      {80, BH_HEALTH_IGNORE, 30},
             {94, BH_HEALTH_NO_SCHEDULE, 30}, {65535, BH_HEALTH_NONE, 30}};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_health_policy p = policy(a, sample), none = {0};
    int64_t ns;

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_EQ(bh_health_policy_effect(&p, t[i].xid, &ns), t[i].effect);
        BH_EQ(ns, t[i].seconds * 1000000000);
    }
    /* Without one, the built-in table. */
    BH_EQ(bh_health_policy_effect(&none, 79, &ns), BH_HEALTH_NO_EXECUTE);
    BH_EQ(bh_health_policy_effect(&none, 31, &ns), BH_HEALTH_NONE);
    BH_EQ(bh_health_policy_effect(&none, 999, &ns), BH_HEALTH_NO_SCHEDULE);
    BH_EQ(ns, 0);
}

BH_TEST(health_policy_is_read_strictly)
{
    static const struct {
        const char *text, *says;
    } t[] = {
        {"[]", "a policy is a map"},
        {"rule: []", "rule: is not known (default, healthyFor, flapping, rules are)"},
        {"default: Panic", "default: must be NoExecute, NoSchedule, None or ignore"},
        {"healthyFor: 30", "healthyFor: must be a time like 30s, 5m or 1h30m, of 30 days at most"},
        {"healthyFor: -1s", "healthyFor: must be a time"},
        {"healthyFor: 1000h", "healthyFor: must be a time"},
        {"rules: {}", "rules: must be a list of at most 64 rules"},
        {"rules: [79]", "rules[0]: must be a map"},
        {"rules: [{xids: [79]}]", "rules[0].effect: is missing"},
        {"rules: [{effect: None}]", "rules[0].xids: is missing"},
        {"rules: [{xids: [], effect: None}]", "rules[0].xids: must be a list of 1 to 256"},
        {"rules: [{xids: [1, 0], effect: None}]", "rules[0].xids[1]: must be an XID from 1 to"},
        {"rules: [{xids: [\"9-3\"], effect: None}]", "rules[0].xids[0]: must be an XID"},
        {"rules: [{xids: [1.5], effect: None}]", "rules[0].xids[0]: must be an XID"},
        {"rules: [{xids: [1], effect: None, for: 1s}]",
         "rules[0].for: is not known (xids, effect, healthyFor are)"},
        {"flapping: {faults: 1, within: 1m, healthyFor: 1h}",
         "flapping.faults: must be a number from 2 to 32"},
        {"flapping: {faults: 3, healthyFor: 1h}", "flapping.within: is missing"},
        {"flapping: {faults: 3, within: 1m, healthyFor: 1h, x: 1}", "flapping.x: is not known"},
        {"default: None\ndefault: ignore", ""},
        {"rules: [", ""},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_health_policy p;
        struct bh_err e = {0};
        int r = bh_health_policy_parse(a, bh_s(t[i].text), &p, &e);

        if (r != -BH_E_INVALID || !bh_str_starts(bh_s(e.msg), bh_s(t[i].says)))
            bh_test_fail(__FILE__, __LINE__, "%s: %d, %s", t[i].text, r, e.msg);
    }
}

static struct bh_time at(int64_t sec)
{
    return (struct bh_time){1000000 + sec, 0};
}

/* The faults are now these XIDs of gpu-0. */
static bool faults(struct bh_health *h, int64_t sec, int xid1, int xid2)
{
    struct bh_fault v[2] = {{BH_S("gpu-0"), xid1, at(sec)}, {BH_S("gpu-0"), xid2, at(sec)}};
    struct bh_faults f = {v, (size_t)(xid1 != 0) + (xid2 != 0), 2};

    return bh_health_update(h, &f, at(sec));
}

/* The worst of gpu-0; xid 0: nothing. */
static struct bh_health_verdict worst(const struct bh_health *h, const struct bh_health_policy *p)
{
    struct bh_health_verdict v[BH_HEALTH_TAINTS_MAX] = {{0}};

    (void)bh_health_judge(h, p, BH_S("gpu-0"), v, 0);
    return v[0];
}
#define JUDGE(h, p) worst(&(h), &(p))

BH_TEST(health_needs_time)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_health_policy p = policy(a, sample);
    struct bh_health h = {0};

    BH_EQ(JUDGE(h, p).xid, 0);
    BH_CHECK(faults(&h, 0, 94, 79));
    BH_CHECK(!faults(&h, 1, 94, 79));
    BH_EQ(JUDGE(h, p).xid, 79); /* the most severe */
    BH_EQ(JUDGE(h, p).since.sec, at(0).sec);
    BH_EQ(bh_health_wait_ns(&h, &p, at(2)), INT64_MAX);
    BH_CHECK(faults(&h, 10, 94, 0));
    BH_EQ(JUDGE(h, p).xid, 79); /* it went, and yet */
    BH_EQ(JUDGE(h, p).until.sec, at(310).sec);
    BH_EQ(bh_health_wait_ns(&h, &p, at(10)), (int64_t)300 * 1000000000);
    BH_CHECK(bh_health_expire(&h, &p, at(11))); /* learns what effect it has */
    BH_CHECK(!bh_health_expire(&h, &p, at(309)));
    BH_CHECK(bh_health_expire(&h, &p, at(310)));
    BH_EQ(JUDGE(h, p).xid, 94);
    BH_CHECK(bh_time_is_zero(JUDGE(h, p).until));
    BH_CHECK(faults(&h, 400, 0, 0));
    BH_CHECK(bh_health_expire(&h, &p, at(430)));
    BH_EQ(JUDGE(h, p).xid, 0);
    BH_CHECK(faults(&h, 500, 13, 0)); /* ignored */
    BH_EQ(JUDGE(h, p).xid, 0);
    bh_health_done(&h);
}

BH_TEST(health_returns_while_watched)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_health_policy p = policy(a, "healthyFor: 1m");
    struct bh_health h = {0};

    (void)faults(&h, 0, 79, 0);
    (void)faults(&h, 5, 0, 0);
    BH_CHECK(faults(&h, 30, 79, 0));
    BH_EQ(JUDGE(h, p).since.sec, at(0).sec); /* the taint never went */
    BH_CHECK(bh_time_is_zero(JUDGE(h, p).until));
    (void)faults(&h, 40, 0, 0);
    BH_EQ(JUDGE(h, p).until.sec, at(100).sec);
    /* A policy that changes counts for what is being watched. */
    p = policy(a, "healthyFor: 10s");
    BH_CHECK(bh_health_expire(&h, &p, at(50)));
    BH_EQ(JUDGE(h, p).xid, 0);
    bh_health_done(&h);
}

BH_TEST(health_of_a_policy_that_changes)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_health_policy p = policy(a, "rules: [{xids: [79], effect: NoSchedule}]");
    struct bh_health h = {0};

    (void)faults(&h, 0, 79, 0);
    (void)bh_health_expire(&h, &p, at(1));
    BH_EQ(JUDGE(h, p).since.sec, at(0).sec);
    p = policy(a, "healthyFor: 1m"); /* NoExecute, by the table: who tolerates it for a while may */
    BH_CHECK(bh_health_expire(&h, &p, at(5000)));
    BH_EQ(JUDGE(h, p).effect, BH_HEALTH_NO_EXECUTE);
    BH_EQ(JUDGE(h, p).since.sec, at(5000).sec);
    BH_CHECK(!bh_health_expire(&h, &p, at(6000)));
    bh_health_done(&h);
}

BH_TEST(health_of_devices_that_fail_often)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_health_policy p = policy(a, sample);
    struct bh_health h = {0};

    for (int i = 0; i < 3; i++) {
        (void)faults(&h, i * 100, 94, 0);
        (void)faults(&h, i * 100 + 10, 0, 0);
        BH_EQ(JUDGE(h, p).flapping, i == 2);
        BH_EQ(JUDGE(h, p).until.sec, at(i * 100 + 10 + (i == 2 ? 3600 : 30)).sec);
        (void)bh_health_expire(&h, &p, at(i * 100 + 60));
    }
    BH_EQ(JUDGE(h, p).xid, 94); /* only for one hour */
    BH_CHECK(bh_health_expire(&h, &p, at(210 + 3600)));
    BH_EQ(JUDGE(h, p).xid, 0);
    BH_EQ(h.onsets_n, 0); /* nothing is remembered for ever */
    /* As often, but not within ten minutes. */
    for (int i = 0; i < 4; i++) {
        (void)faults(&h, 10000 + i * 400, 94, 0);
        (void)faults(&h, 10001 + i * 400, 0, 0);
        BH_CHECK(!JUDGE(h, p).flapping);
        (void)bh_health_expire(&h, &p, at(10100 + i * 400));
    }
    bh_health_done(&h);
}

BH_TEST(health_outlives_a_restart)
{
    static const char *const bad[] = {"", "{}", "{\"entries\":[],\"onsets\":[{}]}",
                                      "{\"entries\":[{\"device\":\"a\"}],\"onsets\":[]}"};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_health_policy p = policy(a, sample);
    struct bh_health h = {0}, again;
    char dir[] = "/tmp/bh-health-XXXXXX", path[96];
    struct bh_err e = {0};

    BH_CHECK(mkdtemp(dir) != NULL);
    BH_EQ(bh_health_load(&again, dir, &e), 0);
    BH_EQ(again.n, 0);
    (void)faults(&h, 0, 94, 79);
    (void)faults(&h, 10, 94, 0);
    (void)bh_health_expire(&h, &p, at(11));
    BH_EQ(bh_health_store(&h, dir, &e), 0);
    BH_EQ(bh_health_load(&again, dir, &e), 0);
    BH_CHECK(!bh_health_expire(&again, &p, at(12)));
    BH_EQ(again.n, 2);
    BH_EQ(again.onsets_n, 2);
    BH_EQ(JUDGE(again, p).xid, 79);
    BH_EQ(JUDGE(again, p).until.sec, at(310).sec);
    bh_health_done(&again);
    bh_health_done(&h);
    (void)snprintf(path, sizeof(path), "%s/%s", dir, BH_HEALTH_FILE);
    for (size_t i = 0; i < BH_COUNT(bad); i++) {
        BH_EQ(bh_fs_write_plain(path, bh_s(bad[i]), 0644, NULL), 0);
        BH_EQ(bh_health_load(&h, dir, &e), -BH_E_INVALID);
        BH_EQ(h.n, 0);
    }
    BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
}

BH_TEST(health_tells_all_faults)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_health_policy p = policy(a, "default: NoSchedule\nrules:\n- xids: [79]\n  effect: "
                                          "NoExecute\n- xids: [13]\n  effect: ignore\n");
    struct bh_health_verdict v[BH_HEALTH_TAINTS_MAX];
    struct bh_fault many[BH_HEALTH_TAINTS_MAX + 4];
    struct bh_health h = {0};

    BH_CHECK(faults(&h, 0, 94, 0));
    BH_CHECK(faults(&h, 1, 94, 31));
    BH_EQ(bh_health_judge(&h, &p, BH_S("gpu-0"), v, 0), 2);
    BH_EQ(v[0].xid, 31); /* the latest of equals */
    BH_EQ(v[1].xid, 94);
    BH_CHECK(faults(&h, 2, 94, 79));
    BH_CHECK(bh_health_expire(&h, &p, at(2))); /* 31 went */
    BH_EQ(bh_health_judge(&h, &p, BH_S("gpu-0"), v, 0), 2);
    BH_EQ(v[0].xid, 79);
    BH_EQ(bh_health_judge(&h, &p, BH_S("gpu-0"), v, 2), 2); /* told once */
    BH_CHECK(faults(&h, 3, 94, 13));
    BH_CHECK(bh_health_expire(&h, &p, at(3)));
    BH_EQ(bh_health_judge(&h, &p, BH_S("gpu-0"), v, 0), 1);
    for (size_t i = 0; i < BH_COUNT(many); i++)
        many[i] = (struct bh_fault){BH_S("gpu-0"), i == 2 ? 79 : 100 + (int)i, at(4)};
    BH_CHECK(
        bh_health_update(&h, &(struct bh_faults){many, BH_COUNT(many), BH_COUNT(many)}, at(4)));
    BH_EQ(bh_health_judge(&h, &p, BH_S("gpu-0"), v, 0), BH_HEALTH_TAINTS_MAX);
    BH_EQ(v[0].xid, 79);
    bh_health_done(&h);
}
