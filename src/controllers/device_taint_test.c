/* Device taints: which device carries what, when a pod must go, how it goes, what rules report. */
#include "controllers/device_taint.h"

#include <stdarg.h>
#include <stdio.h>

#include "api/gen/core_v1.h"
#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "base/arena.h"
#include "base/test.h"
#include "controllers/cluster_test.h"

#define BAD "[{\"key\":\"broken\",\"value\":\"yes\",\"effect\":\"NoExecute\"}]"
#define MARK                                                                                       \
    "True DeletionByDeviceTaintManager Device Taint manager: deleting due to NoExecute taint"
#define EVICTOR "device-taint-eviction-controller"
#define ALL_RULES                                                                                  \
    "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"taint\":{\"key\":\"broken\",\"value\":\"yes\","   \
    "\"effect\":\"%s\"}%s}}"

/* ---- judgement, without a server ---- */

struct told {
    char text[200];
    size_t n;
};

static void tell(void *arg, struct bh_str key)
{
    struct told *t = arg;

    t->n += (size_t)snprintf(t->text + t->n, sizeof(t->text) - t->n, "%.*s ", BH_SF(key));
}

BH_PRINTF(3, 4)
BH_PRINTF(3, 4)
static struct bh_obj *object(struct bh_arena *a, const struct bh_kind *k, const char *fmt, ...)
{
    struct bh_err err = {0};
    struct bh_str json;
    struct bh_obj *o;
    va_list ap;

    va_start(ap, fmt);
    json = bh_str_vfmt(a, fmt, ap);
    va_end(ap);
    o = bh_obj_new(k, json, 0, &err);
    if (!o)
        bh_test_fail(__FILE__, __LINE__, "%s in %.*s", err.msg, BH_SF(json));
    return o;
}

static struct bh_obj *slice(struct bh_arena *a, const char *name, int generation,
                            const char *devices)
{
    return object(a, SLICE,
                  "{\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"1\"},\"spec\":{\"driver\":"
                  "\"d\",\"pool\":{\"name\":\"p/q\",\"generation\":%d,\"resourceSliceCount\":1},"
                  "\"devices\":[%s]}}",
                  name, generation, devices);
}

static struct bh_obj *claim(struct bh_arena *a, const char *name, const char *device,
                            const char *tolerations)
{
    return object(a, CLAIM,
                  "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"n\",\"resourceVersion\":\"1\"},"
                  "\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"r\","
                  "\"driver\":\"d\",\"pool\":\"p/q\",\"device\":\"%s\",\"tolerations\":%s}]}}}}",
                  name, device, tolerations);
}

static struct bh_obj *rule(struct bh_arena *a, const char *name, const char *effect,
                           const char *selector)
{
    return object(a, RULE,
                  "{\"metadata\":{\"name\":\"%s\",\"uid\":\"u-%s\",\"resourceVersion\":\"1\"},"
                  "\"spec\":{\"taint\":{\"key\":\"k\",\"effect\":\"%s\",\"timeAdded\":"
                  "\"1970-01-01T00:16:40Z\"}%s}}",
                  name, name, effect, selector);
}

/* Eviction time in seconds, or -1; the taint was added at 1000. */
static int64_t judged(const char *taints, const char *tolerations)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct dt_index *x = dt_index_new(false);
    BH_AUTO_OBJ *s = slice(a, "s", 1, bh_str_fmt(a, "{\"name\":\"g\",\"taints\":[%s]}", taints).p);
    BH_AUTO_OBJ *c = claim(a, "c", "g", tolerations);
    struct dt_verdict v;

    dt_index_slice(x, NULL, s, NULL, NULL);
    dt_index_claim(x, NULL, c);
    v = dt_judge(x, c, NULL, a);
    (void)dt_index_free(x);
    return v.at_ns == DT_NEVER ? -1 : v.at_ns / 1000000000;
}

#define T(key, effect)                                                                             \
    "{\"key\":\"" key "\",\"value\":\"v\",\"effect\":\"" effect                                    \
    "\",\"timeAdded\":\"1970-01-01T00:16:40Z\"}"
#define TOL(key, op, rest) "{\"key\":\"" key "\",\"operator\":\"" op "\"" rest "}"
#define EXEC               ",\"effect\":\"NoExecute\""
#define SECS(n)            ",\"tolerationSeconds\":" #n

BH_TEST(taint_judgement)
{
    static const struct {
        const char *taints, *tolerations;
        int64_t at;
    } t[] = {
        {T("k", "NoExecute"), "[]", 1000},
        {T("k", "NoSchedule"), "[]", -1},
        {T("k", "None"), "[]", -1},
        {T("k", "Unheard"), "[]", -1},
        {T("k", "NoExecute"), "[" TOL("k", "Exists", EXEC) "]", -1},
        {T("k", "NoExecute"), "[" TOL("k", "Exists", "") "]", 1000}, /* no effect named */
        {T("k", "NoExecute"), "[" TOL("k", "Exists", ",\"effect\":\"NoSchedule\"") "]", 1000},
        {T("k", "NoExecute"), "[" TOL("x", "Exists", EXEC) "]", 1000},
        {T("k", "NoExecute"), "[" TOL("", "Exists", EXEC) "]", -1},
        {T("k", "NoExecute"), "[" TOL("k", "Equal", EXEC ",\"value\":\"v\"") "]", -1},
        {T("k", "NoExecute"), "[" TOL("k", "Equal", EXEC ",\"value\":\"w\"") "]", 1000},
        {T("k", "NoExecute"), "[" TOL("k", "", EXEC ",\"value\":\"v\"") "]", -1},
        {T("k", "NoExecute"), "[" TOL("", "Equal", EXEC ",\"value\":\"v\"") "]", -1},
        {T("k", "NoExecute"), "[" TOL("k", "Like", EXEC ",\"value\":\"v\"") "]", 1000},
        {T("k", "NoExecute"), "[" TOL("k", "Exists", EXEC SECS(60)) "]", 1060},
        {T("k", "NoExecute"),
         "[" TOL("k", "Exists", EXEC SECS(60)) "," TOL("k", "Exists", EXEC) "]", -1},
        {T("k", "NoExecute"),
         "[" TOL("k", "Exists", EXEC SECS(60)) "," TOL("k", "Exists", EXEC SECS(30)) "]", 1030},
        {T("k", "NoExecute"), "[" TOL("k", "Exists", EXEC SECS(-5)) "]", 1000},
        {T("k", "NoExecute") "," T("l", "NoExecute"),
         "[" TOL("k", "Exists", EXEC SECS(60)) "," TOL("l", "Exists", EXEC SECS(20)) "]", 1020},
        {T("k", "NoExecute") "," T("l", "NoExecute"), "[" TOL("k", "Exists", EXEC) "]", 1000},
        {"{\"key\":\"k\",\"effect\":\"NoExecute\"}", "[]", -1}, /* no time: not ours to guess */
        {"{\"key\":\"k\",\"effect\":\"NoExecute\"}", "[" TOL("k", "Exists", EXEC SECS(5)) "]", -1},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        int64_t at = judged(t[i].taints, t[i].tolerations);

        if (at != t[i].at)
            bh_test_fail(__FILE__, __LINE__, "%s with %s: %lld, want %lld", t[i].taints,
                         t[i].tolerations, (long long)at, (long long)t[i].at);
    }
}

BH_TEST(taint_index_knows_the_latest_generation)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct dt_index *x = dt_index_new(false);
    BH_AUTO_OBJ *one = slice(
        a, "one", 1, "{\"name\":\"g\",\"taints\":[" T("k", "NoExecute") "]},{\"name\":\"h\"}");
    BH_AUTO_OBJ *two = slice(a, "two", 2, "{\"name\":\"h\"}");
    BH_AUTO_OBJ *g = claim(a, "g", "g", "[]");
    BH_AUTO_OBJ *h = claim(a, "h", "h", "[]");
    BH_AUTO_OBJ *every = rule(a, "every", "NoExecute", ",\"deviceSelector\":{}");
    struct told t = {.n = 0};

    dt_index_claim(x, NULL, g);
    dt_index_claim(x, NULL, h);
    dt_index_slice(x, NULL, one, tell, &t);
    BH_STREQ(bh_s(t.text), "n/g "); /* only whom it concerns */
    BH_EQ(dt_judge(x, g, NULL, a).at_ns, (int64_t)1000 * 1000000000);
    BH_EQ(dt_count_devices(x, every), 2);
    t = (struct told){.n = 0};
    dt_index_slice(x, one, one, tell, &t); /* nothing changed */
    BH_EQ(t.n, 0);
    dt_index_slice(x, NULL, two, tell, &t); /* the device is not published any more */
    BH_STREQ(bh_s(t.text), "n/g ");
    BH_EQ(dt_judge(x, g, NULL, a).at_ns, DT_NEVER);
    BH_EQ(dt_count_devices(x, every), 1);
    dt_index_rule(x, NULL, every, NULL, NULL); /* a rule matches it by its name all the same */
    BH_EQ(dt_judge(x, g, NULL, a).at_ns, (int64_t)1000 * 1000000000);
    dt_index_rule(x, every, NULL, NULL, NULL);
    t = (struct told){.n = 0};
    dt_index_slice(x, two, NULL, tell, &t); /* back to the older one */
    BH_STREQ(bh_s(t.text), "n/g ");
    t = (struct told){.n = 0};
    dt_index_slice(x, one, NULL, tell, &t);
    BH_STREQ(bh_s(t.text), "n/g ");
    dt_index_claim(x, g, NULL);
    dt_index_claim(x, h, NULL);
    (void)dt_index_free(x);
}

BH_TEST(taint_rules_select)
{
    static const struct {
        const char *selector;
        bool hit;
    } t[] = {
        {"", false}, /* absent: nothing */
        {",\"deviceSelector\":{}", true},
        {",\"deviceSelector\":{\"driver\":\"d\"}", true},
        {",\"deviceSelector\":{\"driver\":\"e\"}", false},
        {",\"deviceSelector\":{\"pool\":\"p/q\"}", true},
        {",\"deviceSelector\":{\"pool\":\"p\"}", false},
        {",\"deviceSelector\":{\"driver\":\"d\",\"pool\":\"p/q\",\"device\":\"g\"}", true},
        {",\"deviceSelector\":{\"driver\":\"d\",\"pool\":\"p/q\",\"device\":\"h\"}", false},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct dt_index *x = dt_index_new(false);
        BH_AUTO_OBJ *c = claim(a, "c", "g", "[]");
        BH_AUTO_OBJ *r = rule(a, "r", "NoExecute", t[i].selector);
        BH_AUTO_OBJ *none = rule(a, "r", "None", t[i].selector);
        struct told told = {.n = 0};

        dt_index_claim(x, NULL, c);
        dt_index_rule(x, NULL, r, tell, &told);
        BH_EQ(told.n > 0, t[i].hit);
        BH_EQ(dt_judge(x, c, NULL, a).at_ns != DT_NEVER, t[i].hit);
        told = (struct told){.n = 0};
        dt_index_rule(x, r, none, tell, &told);
        BH_EQ(told.n > 0, t[i].hit);
        BH_EQ(dt_judge(x, c, NULL, a).at_ns, DT_NEVER);
        BH_EQ(dt_judge(x, c, none, a).at_ns != DT_NEVER, t[i].hit); /* what it would do */
        (void)dt_index_free(x);
    }
}

/* ---- eviction ---- */

static void open_story(struct tc *t)
{
    tc_open(t, EVICTOR);
    tc_slice(t, "oak", 2, NULL);
}

BH_TEST(taint_evicts)
{
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_claim(&t, "default", "other", "oak", "d1", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    tc_pod(&t, "default", "q", "oak", "other");
    tc_run(&t, 1000);
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    tc_slice(&t, "oak", 2, BAD);
    tc_run(&t, 100);
    BH_CHECK(tc_deleting(&t, "default", "p"));
    BH_CHECK(!tc_deleting(&t, "default", "q")); /* the device beside it goes on */
    BH_STREQ(bh_s(tc_pod_condition(&t, "default", "p", "DisruptionTarget")),
             MARK " broken=yes on device d/oak/d0");
    BH_CHECK(tc_event(&t, "default", "p", "DeviceTaintManagerEviction", "Marking for deletion"));
    tc_close(&t);
}

BH_TEST(taint_of_other_effects_does_not_evict)
{
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    tc_slice(&t, "oak", 2, "[{\"key\":\"broken\",\"effect\":\"NoSchedule\"}]");
    tc_run(&t, 1000);
    tc_slice(&t, "oak", 2, "[{\"key\":\"broken\",\"effect\":\"None\"}]");
    tc_run(&t, 1000);
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    tc_close(&t);
}

BH_TEST(taint_evicts_later_or_not_at_all)
{
    static const char patience[] =
        "[{\"key\":\"broken\",\"operator\":\"Exists\",\"effect\":\"NoExecute\","
        "\"tolerationSeconds\":30}]";
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", patience);
    tc_pod(&t, "default", "p", "oak", "c");
    tc_slice(&t, "oak", 2, BAD);
    tc_run(&t, 20000);
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    tc_slice(&t, "oak", 2, NULL); /* called off */
    tc_run(&t, 60000);
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    BH_CHECK(tc_event(&t, "default", "p", "DeviceTaintManagerEviction", "Cancelling deletion"));
    tc_slice(&t, "oak", 2, BAD);
    tc_run(&t, 25000);
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    tc_run(&t, 6500);
    BH_CHECK(tc_deleting(&t, "default", "p"));
    tc_close(&t);
}

BH_TEST(taint_of_a_pod_that_is_on_its_way) /* T10: nothing is left to do, and nothing is told */
{
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    (void)world_merge(&t.w, POD, "default", "p", "",
                      "{\"metadata\":{\"finalizers\":[\"example.com/held\"]}}");
    world_delete(&t.w, POD, "default", "p", 0);
    tc_run(&t, 1000);
    BH_CHECK(tc_deleting(&t, "default", "p"));
    tc_slice(&t, "oak", 2, BAD);
    tc_run(&t, 1000);
    BH_CHECK(!tc_event(&t, "default", "p", "DeviceTaintManagerEviction", "Marking for deletion"));
    tc_close(&t);
}

BH_TEST(taint_leaves_alone_whom_it_does_not_concern)
{
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    (void)world_make(&t.w, POD, "default", /* not bound */
                     "{\"metadata\":{\"name\":\"pending\"},\"spec\":{\"schedulingGates\":[{"
                     "\"name\":\"g\"}],\"containers\":[{\"name\":\"c\",\"image\":\"i\"}],"
                     "\"resourceClaims\":[{\"name\":\"r\",\"resourceClaimName\":\"c\"}]}}");
    (void)world_make(&t.w, POD, "default", /* bound, but the claim does not know it */
                     "{\"metadata\":{\"name\":\"stranger\"},\"spec\":{\"nodeName\":\"oak\","
                     "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}],\"resourceClaims\":[{"
                     "\"name\":\"r\",\"resourceClaimName\":\"c\"}]}}");
    tc_slice(&t, "oak", 2, BAD);
    tc_run(&t, 1000);
    BH_CHECK(!tc_deleting(&t, "default", "pending"));
    BH_CHECK(!tc_deleting(&t, "default", "stranger"));
    tc_close(&t);
}

BH_TEST(taint_evicts_all_that_share_and_each_only_once)
{
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p1", "oak", "c");
    tc_pod(&t, "default", "p2", "oak", "c");
    tc_slice(&t, "oak", 2, BAD);
    tc_run(&t, 1000);
    BH_CHECK(tc_deleting(&t, "default", "p1") && tc_deleting(&t, "default", "p2"));
    /* Another of the same name comes, uses the claim, and is judged for itself. */
    world_delete(&t.w, POD, "default", "p1", "{\"gracePeriodSeconds\":0}");
    BH_CHECK(!tc_get_pod(&t, "default", "p1"));
    tc_pod(&t, "default", "p1", "oak", "c");
    tc_run(&t, 1000);
    BH_CHECK(tc_get_pod(&t, "default", "p1") && tc_deleting(&t, "default", "p1"));
    tc_close(&t);
}

BH_TEST(taint_eviction_outlives_a_server_that_fails)
{
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    tc_run(&t, 100);
    t.f.calls = FLAKY_REFUSE;
    tc_slice(&t, "oak", 2, BAD);
    tc_run(&t, 3000);
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    t.f.calls = FLAKY_PASS;
    tc_run(&t, 6000);
    BH_CHECK(tc_deleting(&t, "default", "p"));
    tc_close(&t);
}

BH_TEST(taint_eviction_that_fails_can_be_called_off)
{
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    tc_run(&t, 100);
    t.f.calls = FLAKY_REFUSE;
    tc_slice(&t, "oak", 2, BAD);
    tc_run(&t, 3000);
    tc_slice(&t, "oak", 2, NULL);
    tc_run(&t, 100);
    t.f.calls = FLAKY_PASS;
    tc_run(&t, 60000);
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    tc_close(&t);
}

BH_TEST(taint_evicts_users_of_extended_resources)
{
    struct tc t;
    struct bh_obj *p;

    open_story(&t);
    p = world_make(&t.w, POD, "default",
                   "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"nodeName\":\"oak\",\"containers\":[{"
                   "\"name\":\"c\",\"image\":\"i\",\"resources\":{\"limits\":{\"example.com/gpu\":"
                   "\"1\"}}}]}}");
    (void)world_make(
        &t.w, CLAIM, "default",
        tc_fmt(&t,
               "{\"metadata\":{\"name\":\"x\",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":"
               "\"Pod\",\"name\":\"p\",\"uid\":\"%.*s\",\"controller\":true}]},\"spec\":{"
               "\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}}"
               "]}}}",
               BH_SF(p->uid)));
    (void)world_merge(
        &t.w, CLAIM, "default", "x", "status",
        tc_fmt(&t,
               "{\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"r\","
               "\"driver\":\"d\",\"pool\":\"oak\",\"device\":\"d0\"}]}},\"reservedFor\":[{"
               "\"resource\":\"pods\",\"name\":\"p\",\"uid\":\"%.*s\"}]}}",
               BH_SF(p->uid)));
    (void)world_merge(&t.w, POD, "default", "p", "status",
                      "{\"status\":{\"extendedResourceClaimStatus\":{\"resourceClaimName\":\"x\","
                      "\"requestMappings\":[{\"containerName\":\"c\",\"resourceName\":"
                      "\"example.com/gpu\",\"requestName\":\"r\"}]}}}");
    tc_slice(&t, "oak", 2, BAD);
    tc_run(&t, 1000);
    BH_CHECK(tc_deleting(&t, "default", "p"));
    tc_close(&t);
}

/* ---- rules ---- */

static void make_rule(struct tc *t, const char *name, const char *effect, const char *selector)
{
    (void)world_make(&t->w, RULE, NULL, tc_fmt(t, ALL_RULES, name, effect, selector));
}

BH_TEST(taint_rule_evicts_and_reports)
{
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    tc_run(&t, 100);
    make_rule(&t, "bad", "NoExecute", ",\"deviceSelector\":{\"device\":\"d0\"}");
    tc_run(&t, 1000);
    BH_CHECK(tc_deleting(&t, "default", "p"));
    BH_STREQ(bh_s(tc_pod_condition(&t, "default", "p", "DisruptionTarget")),
             MARK " broken=yes on device d/oak/d0 (DeviceTaintRule bad)");
    BH_CHECK(bh_str_starts(bh_s(tc_rule_condition(&t, "bad")), BH_S("True PodsPendingEviction")));
    tc_run(&t, 20000);
    BH_STREQ(bh_s(tc_rule_condition(&t, "bad")),
             "False Completed 1 pod evicted since starting the controller.");
    BH_CHECK(bh_str_find(world_get(&t.w, RULE, NULL, "bad")->json,
                         BH_S("\"manager\":\"device-taint-eviction-controller\",\"operation\":"
                              "\"Apply\"")) > 0);
    tc_restart(&t); /* the count is not remembered */
    (void)world_merge(&t.w, RULE, NULL, "bad", "", "{\"spec\":{\"taint\":{\"value\":\"no\"}}}");
    tc_run(&t, 20000);
    BH_STREQ(bh_s(tc_rule_condition(&t, "bad")), "False NotStarted ");
    tc_close(&t);
}

BH_TEST(taint_rule_waits_and_is_called_off)
{
    static const char patience[] =
        "[{\"key\":\"broken\",\"operator\":\"Exists\",\"effect\":\"NoExecute\","
        "\"tolerationSeconds\":300}]";
    struct tc t;

    open_story(&t);
    (void)world_make(&t.w, &bh_core_v1_namespace_kind, NULL, "{\"metadata\":{\"name\":\"b\"}}");
    tc_claim(&t, "default", "c1", "oak", "d0", patience);
    tc_claim(&t, "b", "c2", "oak", "d1", patience);
    tc_pod(&t, "default", "p1", "oak", "c1");
    tc_run(&t, 100);
    make_rule(&t, "bad", "NoExecute", ",\"deviceSelector\":{\"driver\":\"d\"}");
    tc_run(&t, 1000);
    BH_STREQ(bh_s(tc_rule_condition(&t, "bad")),
             "True PodsPendingEviction 1 pod needs to be evicted in 1 namespace.");
    tc_pod(&t, "b", "p2", "oak", "c2");
    tc_run(&t, 5000); /* ten seconds between two reports */
    BH_STREQ(bh_s(tc_rule_condition(&t, "bad")),
             "True PodsPendingEviction 1 pod needs to be evicted in 1 namespace.");
    tc_run(&t, 10000);
    BH_STREQ(bh_s(tc_rule_condition(&t, "bad")),
             "True PodsPendingEviction 2 pods need to be evicted in 2 different namespaces.");
    world_delete(&t.w, RULE, NULL, "bad", NULL);
    tc_run(&t, 400000);
    BH_CHECK(!tc_deleting(&t, "default", "p1") && !tc_deleting(&t, "b", "p2"));
    BH_CHECK(tc_event(&t, "b", "p2", "DeviceTaintManagerEviction", "Cancelling deletion"));
    tc_close(&t);
}

BH_TEST(taint_rule_of_effect_none_tells_what_it_would_do)
{
    static const char tail[] = " if the effect was NoExecute. This information will not be updated "
                               "again. Recreate the DeviceTaintRule to trigger an update.";
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    tc_run(&t, 100);
    make_rule(&t, "driver", "None", ",\"deviceSelector\":{\"driver\":\"d\"}");
    make_rule(&t, "nothing", "None", ",\"deviceSelector\":{\"driver\":\"other\"}");
    make_rule(&t, "absent", "None", "");
    make_rule(&t, "empty", "None", ",\"deviceSelector\":{}");
    tc_run(&t, 1000);
    BH_STREQ(bh_s(tc_rule_condition(&t, "driver")),
             tc_fmt(&t,
                    "False NoEffect 2 published devices selected. 1 allocated device selected. "
                    "1 pod would be evicted in 1 namespace%s",
                    tail));
    BH_STREQ(bh_s(tc_rule_condition(&t, "nothing")),
             tc_fmt(&t,
                    "False NoEffect 0 published devices selected. 0 allocated devices selected. "
                    "0 pods would be evicted in 0 different namespaces%s",
                    tail));
    BH_SEQ(bh_s(tc_rule_condition(&t, "absent")), bh_s(tc_rule_condition(&t, "nothing")));
    BH_SEQ(bh_s(tc_rule_condition(&t, "empty")), bh_s(tc_rule_condition(&t, "driver")));
    (void)world_make(&t.w, &bh_core_v1_namespace_kind, NULL, "{\"metadata\":{\"name\":\"b\"}}");
    tc_claim(&t, "b", "c", "oak", "d1", NULL);
    tc_pod(&t, "b", "p1", "oak", "c");
    tc_pod(&t, "b", "p2", "oak", "c");
    tc_run(&t, 60000); /* counted once */
    BH_CHECK(bh_str_find(bh_s(tc_rule_condition(&t, "driver")), BH_S(" 1 pod would")) > 0);
    make_rule(&t, "again", "None", ",\"deviceSelector\":{\"driver\":\"d\"}");
    tc_run(&t, 1000);
    BH_STREQ(bh_s(tc_rule_condition(&t, "again")),
             tc_fmt(&t,
                    "False NoEffect 2 published devices selected. 2 allocated devices selected. "
                    "3 pods would be evicted in 2 different namespaces%s",
                    tail));
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    tc_close(&t);
}

BH_TEST(taint_rule_of_another_effect)
{
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    make_rule(&t, "soft", "NoSchedule", ",\"deviceSelector\":{\"driver\":\"d\"}");
    tc_run(&t, 1000);
    BH_STREQ(bh_s(tc_rule_condition(&t, "soft")),
             "False OtherEffect Eviction only happens for the NoExecute effect.");
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    /* The effect changes: at once, not ten seconds later. */
    (void)world_merge(&t.w, RULE, NULL, "soft", "",
                      "{\"spec\":{\"taint\":{\"effect\":\"NoExecute\"}}}");
    tc_run(&t, 1000);
    BH_CHECK(tc_deleting(&t, "default", "p"));
    BH_CHECK(!bh_str_starts(bh_s(tc_rule_condition(&t, "soft")), BH_S("False OtherEffect")));
    tc_close(&t);
}

#define CONFIRM(v) "{\"metadata\":{\"annotations\":{\"" BH_ANNOTATION_CONFIRM_ALL "\":\"" v "\"}}}"

BH_TEST(taint_rule_of_every_device_waits_for_its_confirmation)
{
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    tc_run(&t, 100);
    make_rule(&t, "all", "NoExecute", ",\"deviceSelector\":{}");
    tc_run(&t, 60000);
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    BH_STREQ(bh_s(tc_rule_condition(&t, "all")),
             "False ConfirmationNeeded 2 published devices selected. 1 allocated device selected. "
             "1 pod would be evicted in 1 namespace if the rule was confirmed. It selects every "
             "device, so nobody is evicted until its annotation " BH_ANNOTATION_CONFIRM_ALL
             " is \"true\".");
    BH_CHECK(tc_event(&t, "default", "all", "ConfirmationNeeded", "The rule selects every device"));
    (void)world_merge(&t.w, RULE, NULL, "all", "", CONFIRM("maybe"));
    tc_run(&t, 20000);
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    (void)world_merge(&t.w, RULE, NULL, "all", "", CONFIRM("true"));
    tc_run(&t, 100); /* nothing of the specification changed, and yet at once */
    BH_CHECK(tc_deleting(&t, "default", "p"));
    tc_run(&t, 20000);
    BH_STREQ(bh_s(tc_rule_condition(&t, "all")),
             "False Completed 1 pod evicted since starting the controller.");
    tc_close(&t);
}

BH_TEST(taint_rule_of_every_device_need_not_be_confirmed)
{
    struct tc t;

    open_story(&t);
    t.opts.taints_of_all_unconfirmed = true;
    tc_restart(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    tc_run(&t, 100);
    make_rule(&t, "all", "NoExecute", ",\"deviceSelector\":{}");
    tc_run(&t, 100);
    BH_CHECK(tc_deleting(&t, "default", "p"));
    tc_close(&t);
}

BH_TEST(taint_evicts_to_the_tenth_of_a_second)
{
    static const char patience[] =
        "[{\"key\":\"broken\",\"operator\":\"Equal\",\"value\":\"yes\",\"effect\":\"NoExecute\","
        "\"tolerationSeconds\":90}]";
    struct tc t;
    int64_t due;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", patience);
    tc_pod(&t, "default", "p", "oak", "c");
    due = bh_loop_wall_ns(t.w.loop) / 1000000000 * 1000 + 90000; /* times of taints are whole */
    tc_slice(&t, "oak", 2, BAD);
    tc_run(&t, due - bh_loop_wall_ns(t.w.loop) / 1000000 - 100);
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    tc_restart(&t); /* a new controller knows it, too; this takes 200 ms */
    BH_CHECK(tc_deleting(&t, "default", "p"));
    tc_close(&t);
}

BH_TEST(taint_that_goes_while_its_eviction_fails_evicts_nobody)
{
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    tc_run(&t, 100);
    t.f.calls = FLAKY_REFUSE;
    tc_slice(&t, "oak", 2, BAD);
    tc_slice(&t, "oak", 2, NULL); /* before any answer came */
    tc_run(&t, 3000);
    t.f.calls = FLAKY_PASS;
    tc_run(&t, 60000);
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    tc_close(&t);
}

BH_TEST(taint_reasons_stand_in_order)
{
    struct tc t;

    open_story(&t);
    t.opts.taints_of_all_unconfirmed = true;
    tc_restart(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_run(&t, 100);
    make_rule(&t, "z", "NoExecute", ",\"deviceSelector\":{}");
    make_rule(&t, "a", "NoExecute", ",\"deviceSelector\":{}");
    tc_slice(&t, "oak", 2, BAD);
    tc_run(&t, 100);
    tc_pod(&t, "default", "p", "oak", "c");
    tc_run(&t, 100);
    BH_STREQ(bh_s(tc_pod_condition(&t, "default", "p", "DisruptionTarget")), MARK
             " broken=yes on device d/oak/d0 (DeviceTaintRule a), broken=yes on device d/oak/d0 "
             "(DeviceTaintRule z), broken=yes on device d/oak/d0");
    tc_close(&t);
}

BH_TEST(taint_condition_comes_last)
{
    const struct bh_core_v1_pod *p;
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    (void)world_merge(
        &t.w, POD, "default", "p", "status",
        "{\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\"},"
        "{\"type\":\"Ready\",\"status\":\"True\"}]}}");
    tc_run(&t, 100);
    tc_slice(&t, "oak", 2, BAD);
    tc_run(&t, 100);
    p = tc_get_pod(&t, "default", "p");
    BH_EQ(p->status.conditions.n, 3);
    if (p->status.conditions.n == 3)
        BH_STREQ(p->status.conditions.p[2].type, "DisruptionTarget");
    tc_close(&t);
}

BH_TEST(taint_evicts_all_that_share_a_device)
{
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c1", "oak", "d0", NULL); /* shares of the same device */
    tc_claim(&t, "default", "c2", "oak", "d0", NULL);
    tc_pod(&t, "default", "p1", "oak", "c1");
    tc_pod(&t, "default", "p2", "oak", "c2");
    tc_run(&t, 100);
    t.f.calls = FLAKY_REFUSE;
    tc_slice(&t, "oak", 2, BAD);
    tc_run(&t, 500); /* tries in vain */
    tc_restart(&t);  /* in the middle of it */
    t.f.calls = FLAKY_PASS;
    tc_run(&t, 60000);
    BH_CHECK(tc_deleting(&t, "default", "p1") && tc_deleting(&t, "default", "p2"));
    tc_close(&t);
}

BH_TEST(taint_rule_counts_end_at_zero)
{
    static const char patience[] =
        "[{\"key\":\"broken\",\"operator\":\"Exists\",\"effect\":\"NoExecute\","
        "\"tolerationSeconds\":3000}]";
    struct tc t;

    open_story(&t);
    tc_claim(&t, "default", "c", "oak", "d0", patience);
    tc_pod(&t, "default", "p", "oak", "c");
    tc_run(&t, 100);
    make_rule(&t, "bad", "NoExecute", ",\"deviceSelector\":{\"device\":\"d0\"}");
    tc_run(&t, 15000);
    BH_STREQ(bh_s(tc_rule_condition(&t, "bad")),
             "True PodsPendingEviction 1 pod needs to be evicted in 1 namespace.");
    world_delete(&t.w, POD, "default", "p", "{\"gracePeriodSeconds\":0}"); /* by somebody else */
    tc_run(&t, 15000);
    BH_STREQ(bh_s(tc_rule_condition(&t, "bad")), "False NotStarted ");
    tc_close(&t);
}
