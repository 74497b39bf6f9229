/* The allocator, rule by rule (the numbers are those of the edge cases in the specification). */
#include <stdio.h>
#include <string.h>

#include "api/gen/core_v1.h"
#include "base/limits.h"
#include "base/test.h"
#include "dra/dra_world_test.h"

/* ---- short forms ---- */

static void nodes(struct world *w)
{
    world_yaml(
        w,
        "{kind: Node, apiVersion: v1, metadata: {name: n1, labels: {zone: a, rack: '7'}}}\n---\n"
        "{kind: Node, apiVersion: v1, metadata: {name: n2, labels: {zone: b}}}\n---\n"
        "{kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: any}, spec: {}}\n");
}

static void begin(struct world *w)
{
    world_init(w, NULL);
    nodes(w);
}

/* where: "nodeName: n1"; devices: a YAML list in flow style. */
static void slice_full(struct world *w, const char *name, const char *driver, const char *pool,
                       int gen, int count, const char *where, const char *what)
{
    char text[8192]; /* whatever what is, up to its own 4096 */

    (void)snprintf(text, sizeof(text),
                   "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: %s}, "
                   "spec: {driver: "
                   "%s, pool: {name: %s, generation: %d, resourceSliceCount: %d}, %s%s%s}}\n",
                   name, driver, pool, gen, count, where, *where ? ", " : "", what);
    world_yaml(w, text);
}

static void slice(struct world *w, const char *name, const char *devices)
{
    char what[4096];

    (void)snprintf(what, sizeof(what), "devices: %s", devices);
    slice_full(w, name, "d", name, 1, 1, "nodeName: n1", what);
}

/* devices: the claim's spec.devices in flow style. */
static void claim_full(struct world *w, const char *name, const char *devices)
{
    char text[4096];

    (void)snprintf(
        text, sizeof(text),
        "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: %s, namespace: "
        "default}, spec: {devices: %s}}\n",
        name, devices);
    world_yaml(w, text);
}

/* One request "r" for count devices of class any; more: ", selectors: …". */
static void claim(struct world *w, const char *name, int count, const char *more)
{
    char devices[2048];

    (void)snprintf(
        devices, sizeof(devices),
        "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, "
        "count: %d%s}}]}",
        count, more);
    claim_full(w, name, devices);
}

static void claim_all(struct world *w, const char *name)
{
    claim_full(w, name,
               "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: All}}]}");
}

/* An allocated claim that holds d/pool/device. */
static void held(struct world *w, const char *name, const char *pool, const char *device,
                 const char *more)
{
    char text[2048];

    (void)snprintf(
        text, sizeof(text),
        "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: %s, namespace: "
        "in-use}, spec: {devices: {}}, status: {allocation: {devices: {results: [{request: r, "
        "driver: d, pool: %s, device: %s%s}]}}}}\n",
        name, pool, device, more);
    world_yaml(w, text);
}

#define SEL(expr) ", selectors: [{cel: {expression: \"" expr "\"}}]"
#define WANT(w_, node, claims, text)                                                               \
    do {                                                                                           \
        BH_EQ(world_allocate((w_), (node), (claims)), BH_DRA_OK);                                  \
        BH_STREQ(bh_s(world_got(w_)), text);                                                       \
    } while (0)
#define WANT_OUT(w_, node, claims, out, text)                                                      \
    do {                                                                                           \
        BH_EQ(world_allocate((w_), (node), (claims)), (out));                                      \
        BH_STREQ(bh_s((w_)->err.msg), text);                                                       \
    } while (0)

/* ---- pools ---- */

BH_TEST(pool_generations) /* P1, P2, and a slice of the newest generation elsewhere */
{
    struct world w;

    begin(&w);
    claim(&w, "c", 1, "");
    slice_full(&w, "s1", "d", "p", 1, 2, "nodeName: n1", "devices: [{name: a}]");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, ""); /* incomplete */
    slice_full(&w, "s2", "d", "p", 2, 2, "nodeName: n2", "devices: [{name: b}]");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, ""); /* obsolete */
    slice_full(&w, "s1", "d", "p", 2, 2, "nodeName: n1", "devices: [{name: a}]");
    WANT(&w, "n1", "default/c", "d/p/a");
    bh_dra_slice_del(w.m, BH_S("s2"));
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, "");
    slice(&w, "q", "[{name: x}]");
    WANT(&w, "n1", "default/c", "d/q/x");
    world_done(&w);
}

BH_TEST(pool_incomplete_and_all) /* P3, P4 */
{
    struct world w;

    begin(&w);
    slice_full(&w, "s1", "d", "p", 1, 2, "nodeName: n1", "devices: [{name: a}]");
    slice(&w, "q", "[{name: x}]");
    claim_all(&w, "c");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_FATAL,
             "claim default/c, request r: asks for all devices, but resource pool d/p is currently "
             "being "
             "updated");
    claim_full(
        &w, "d",
        "{requests: [{name: r, firstAvailable: [{name: x, deviceClassName: any, allocationMode: "
        "ExactCount, count: 1}, {name: z, deviceClassName: any, allocationMode: All}]}]}");
    WANT_OUT(&w, "n1", "default/d", BH_DRA_FATAL,
             "claim default/d, request z: asks for all devices, but resource pool d/p is currently "
             "being "
             "updated");
    world_done(&w);
}

BH_TEST(pool_invalid) /* P5, P6, P7 */
{
    struct world w;

    begin(&w);
    claim(&w, "c", 1, "");
    slice_full(&w, "s1", "d", "p", 1, 2, "nodeName: n1", "devices: [{name: a}]");
    slice_full(&w, "s2", "d", "p", 1, 2, "nodeName: n1", "devices: [{name: a}]");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NODE_ERROR, "invalid resource pools were encountered");
    slice(&w, "q", "[{name: x}]");
    WANT(&w, "n1", "default/c", "d/q/x");
    slice_full(&w, "s2", "d", "p", 1, 2, "nodeName: n2", "devices: [{name: a}]");
    WANT(&w, "n1", "default/c", "d/p/a");
    slice_full(&w, "s2", "d", "p", 1, 2, "nodeName: n2",
               "devices: [{name: b, consumesCounters: [{counterSet: none, counters: {m: {value: "
               "'1'}}}]}]");
    WANT(&w, "n1", "default/c", "d/q/x");
    /* An invalid pool has no devices, so none with binding conditions: it keeps its place. */
    claim_all(&w, "all");
    slice_full(&w, "s1", "d", "p", 1, 2, "nodeName: n1",
               "devices: [{name: a, bindingConditions: [x], bindingFailureConditions: [z]}]");
    slice_full(&w, "q", "d", "q", 1, 2, "nodeName: n1", "devices: [{name: x}]");
    WANT_OUT(&w, "n1", "default/all", BH_DRA_FATAL,
             "claim default/all, request r: asks for all devices, but resource pool d/p is "
             "currently invalid");
    world_done(&w);
}

#define COUNTERS(v) "sharedCounters: [{name: cs, counters: {m: {value: '" v "'}}}]"
#define USES(name, v)                                                                              \
    "{name: " name ", consumesCounters: [{counterSet: cs, counters: {m: {value: '" v "'}}}]}"

BH_TEST(pool_of_counters_elsewhere) /* is seen from every node, and so are its faults */
{
    struct world w;

    begin(&w);
    claim(&w, "c", 2, "");
    claim_all(&w, "all");
    slice(&w, "p", "[{name: a}]");
    slice_full(&w, "s0", "d", "m", 1, 2, "nodeName: n2", COUNTERS("4"));
    WANT_OUT(&w, "n1", "default/all", BH_DRA_FATAL,
             "claim default/all, request r: asks for all devices, but resource pool d/m is "
             "currently being "
             "updated");
    slice_full(&w, "s1", "d", "m", 1, 2, "nodeName: n2", "devices: [" USES("a", "3") "]");
    WANT(&w, "n1", "default/all", "d/p/a");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, "");
    slice_full(&w, "s1", "d", "m", 1, 2, "nodeName: n2",
               "devices: [{name: a, consumesCounters: [{counterSet: cs, counters: {none: {value: "
               "'1'}}}]}]");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NODE_ERROR, "invalid resource pools were encountered");
    WANT_OUT(&w, "n1", "default/all", BH_DRA_FATAL,
             "claim default/all, request r: asks for all devices, but resource pool d/m is "
             "currently invalid");
    bh_dra_slice_del(w.m, BH_S("s0"));
    bh_dra_slice_del(w.m, BH_S("s1"));
    WANT(&w, "n1", "default/all", "d/p/a");
    world_done(&w);
}

BH_TEST(pool_selected_by_nothing_known) /* P12 */
{
    struct world w;

    begin(&w);
    claim(&w, "one", 1, "");
    claim(&w, "two", 2, "");
    slice_full(&w, "s1", "d", "p", 1, 2, "", "devices: [{name: a}]");
    slice_full(&w, "s2", "d", "p", 1, 2, "nodeName: n1", "devices: [{name: b}]");
    /* It gives nothing, but the pool is complete with it. */
    WANT(&w, "n1", "default/one", "d/p/b");
    WANT_OUT(&w, "n1", "default/two", BH_DRA_NO_SOLUTION, "");
    world_done(&w);
}

BH_TEST(pool_order) /* P8, P9, P10 */
{
    struct world w;

    begin(&w);
    claim(&w, "c", 5, "");
    slice_full(&w, "00001-s", "a.io", "z", 1, 2, "nodeName: n1", "devices: [{name: b}, {name: a}]");
    slice_full(&w, "00000-s", "a.io", "z", 1, 2, "nodeName: n1", "devices: [{name: c}]");
    slice_full(&w, "x", "x.io", "b", 1, 1, "nodeName: n1", "devices: [{name: a}]");
    slice_full(&w, "yy", "a.io", "a", 1, 1, "nodeName: n1",
               "devices: [{name: a, bindingConditions: [ok], bindingFailureConditions: [bad]}]");
    WANT(&w, "n1", "default/c", "a.io/z/c a.io/z/b a.io/z/a x.io/b/a a.io/a/a");
    world_done(&w);
}

BH_TEST(counters) /* P11, L25, L26, L27 */
{
    struct world w;

    begin(&w);
    claim(&w, "c", 1, "");
    claim(&w, "two", 2, "");
    slice_full(&w, "s0", "d", "p", 1, 2, "nodeName: n2", COUNTERS("4"));
    slice_full(&w, "s1", "d", "p", 1, 2, "nodeName: n1",
               "devices: [" USES("a", "3") ", " USES("b", "2") ", " USES("e", "1") "]");
    WANT(&w, "n1", "default/two", "d/p/a d/p/e");
    held(&w, "h", "p", "b", "");
    WANT(&w, "n1", "default/c", "d/p/e");
    WANT_OUT(&w, "n1", "default/two", BH_DRA_NO_SOLUTION, "");
    bh_dra_claim_del(w.m, BH_S("in-use/h"));
    WANT(&w, "n1", "default/two", "d/p/a d/p/e");
    /* Another driver with a pool of the same name counts for itself. */
    slice_full(&w, "t0", "e", "p", 1, 2, "nodeName: n2", COUNTERS("1"));
    slice_full(&w, "t1", "e", "p", 1, 2, "nodeName: n1", "devices: [" USES("a", "1") "]");
    WANT(&w, "n1", "default/two", "d/p/a d/p/e");
    /* A tainted device gives back what it would have consumed. */
    slice_full(&w, "s1", "d", "p", 1, 2, "nodeName: n1",
               "devices: [{name: a, taints: [{key: k, effect: NoSchedule}], consumesCounters: "
               "[{counterSet: cs, "
               "counters: {m: {value: '4'}}}]}, " USES("b", "4") "]");
    WANT(&w, "n1", "default/c", "d/p/b");
    /* A shared device pays once. */
    slice_full(&w, "s1", "d", "p", 1, 2, "nodeName: n1",
               "devices: [{name: a, allowMultipleAllocations: true, consumesCounters: "
               "[{counterSet: cs, counters: "
               "{m: {value: '4'}}}]}]");
    WANT(&w, "n1", "default/c default/two", "d/p/a | d/p/a e/p/a");
    /* Nor does the next claim pay, if those who share it consume capacity; else it does. */
    claim(&w, "d", 1, SEL("device.driver == 'd'"));
    held(&w, "h", "p", "a",
         ", shareID: 11111111-1111-4111-8111-111111111111, consumedCapacity: {m: '4'}");
    WANT(&w, "n1", "default/d", "d/p/a");
    held(&w, "h", "p", "a", ", shareID: 11111111-1111-4111-8111-111111111111");
    WANT_OUT(&w, "n1", "default/d", BH_DRA_NO_SOLUTION, "");
    world_done(&w);
}

BH_TEST(counters_leak_switch) /* L25 as upstream has it */
{
    struct bh_dra_features f = bh_dra_features_all();
    struct world w;

    f.compat_counter_leak = true;
    world_init(&w, &f);
    nodes(&w);
    claim(&w, "c", 1, "");
    slice_full(&w, "s0", "d", "p", 1, 2, "nodeName: n1", COUNTERS("4"));
    slice_full(&w, "s1", "d", "p", 1, 2, "nodeName: n1",
               "devices: [{name: a, taints: [{key: k, effect: NoSchedule}], consumesCounters: "
               "[{counterSet: cs, "
               "counters: {m: {value: '4'}}}]}, " USES("b", "4") "]");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, "");
    world_done(&w);
}

/* ---- search ---- */

BH_TEST(backtracking) /* L1, L2 */
{
    struct world w;

    begin(&w);
    slice(&w, "p",
          "[{name: a, attributes: {x: {int: 2}, g: {string: u}}}, {name: b, attributes: {x: {int: "
          "1}, "
          "g: {string: v}}}, {name: e, attributes: {x: {int: 1}, g: {string: v}}}]");
    claim_full(&w, "c",
               "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, "
               "count: 1}}, "
               "{name: s, exactly: {deviceClassName: any, allocationMode: ExactCount, count: 1" SEL(
                   "device.attributes['d'].x == 2") "}}]}");
    WANT(&w, "n1", "default/c", "d/p/b d/p/a");
    claim_full(&w, "m",
               "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, "
               "count: 2}}], "
               "constraints: [{matchAttribute: d/g}]}");
    WANT(&w, "n1", "default/m", "d/p/b d/p/e");
    world_done(&w);
}

BH_TEST(distinct) /* L3, L4 */
{
    struct bh_dra_features f = bh_dra_features_all();
    struct world w;

    for (int strict = 0; strict < 2; strict++) {
        f.strict_distinct = strict;
        world_init(&w, &f);
        nodes(&w);
        slice(&w, "p",
              "[{name: a, attributes: {x: {string: A}}}, {name: b, attributes: {x: {string: B}}}, "
              "{name: e, attributes: {x: {string: A}}}]");
        claim_full(&w, "c",
                   "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: "
                   "ExactCount, count: "
                   "3}}], constraints: [{distinctAttribute: d/x}]}");
        BH_EQ(world_allocate(&w, "n1", "default/c"), strict ? BH_DRA_NO_SOLUTION : BH_DRA_OK);
        slice(&w, "p",
              "[{name: a, attributes: {x: {string: A}}}, {name: e, attributes: {x: {string: A}}}]");
        claim_full(&w, "t",
                   "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: "
                   "ExactCount, count: "
                   "1}}, {name: s, exactly: {deviceClassName: any, allocationMode: ExactCount, "
                   "count: 1}}], "
                   "constraints: [{requests: [r, s], distinctAttribute: d/x}]}");
        BH_EQ(world_allocate(&w, "n1", "default/t"), BH_DRA_NO_SOLUTION);
        world_done(&w);
    }
}

#define MATCH3                                                                                     \
    "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, count: "    \
    "3}}], constraints: [{matchAttribute: d/x}]}"

BH_TEST(match_attributes) /* L5, L6, L7, L8 */
{
    struct bh_dra_features f = bh_dra_features_all();
    struct world w;

    begin(&w);
    claim_full(&w, "c",
               "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, "
               "count: 2}}], "
               "constraints: [{matchAttribute: d/x}]}");
    slice(&w, "p",
          "[{name: a, attributes: {x: {int: 1}}}, {name: b, attributes: {x: {string: '1'}}}]");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, "");
    slice(&w, "p",
          "[{name: a, attributes: {x: {int: 1}}}, {name: b, attributes: {d/x: {int: 1}}}]");
    WANT(&w, "n1", "default/c", "d/p/a d/p/b");
    slice(&w, "p", "[{name: a, attributes: {d/x: {int: 1}}}]");
    slice_full(&w, "q", "e", "q", 1, 1, "nodeName: n1",
               "devices: [{name: b, attributes: {x: {int: 1}}}]");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, "");
    world_done(&w);

    begin(&w);
    claim_full(&w, "c", MATCH3);
    slice(
        &w, "p",
        "[{name: a, attributes: {x: {ints: [1, 2]}}}, {name: b, attributes: {x: {ints: [2, 3]}}}, "
        "{name: e, attributes: {x: {ints: [3]}}}]");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, "");
    world_done(&w);

    for (int narrow = 0; narrow < 2; narrow++) {
        f.compat_list_narrowing = narrow;
        world_init(&w, &f);
        nodes(&w);
        claim_full(&w, "c", MATCH3);
        slice(
            &w, "p",
            "[{name: a, attributes: {x: {ints: [1, 2]}}}, {name: b, attributes: {x: {ints: [1]}}}, "
            "{name: e, attributes: {x: {ints: [2]}}}, {name: f, attributes: {x: {ints: [2]}}}]");
        BH_EQ(world_allocate(&w, "n1", "default/c"), narrow ? BH_DRA_NO_SOLUTION : BH_DRA_OK);
        world_done(&w);
    }
}

BH_TEST(selector_errors) /* L9, L10, L11 */
{
    struct world w;

    begin(&w);
    claim(&w, "c", 1, SEL("device.attributes['d'].x == 1"));
    claim(&w, "e", 1, SEL("device.attributes['other'].x == 1"));
    claim(&w, "f", 1, SEL("'x' in device.attributes['other']"));
    slice(&w, "p", "[{name: a, attributes: {x: {int: 1}}}, {name: b}]");
    WANT(&w, "n1", "default/c", "d/p/a");
    w.opts.scoring = BH_DRA_PACK; /* looks at all, and finds the same */
    WANT(&w, "n1", "default/c", "d/p/a");
    for (int i = BH_DRA_FIRST_FIT; i <= BH_DRA_SPREAD; i++) {
        w.opts.scoring = (enum bh_dra_scoring)i;
        slice(&w, "p", "[{name: b}, {name: a, attributes: {x: {int: 2}}}]");
        WANT_OUT(&w, "n1", "default/c", BH_DRA_FATAL,
                 "claim default/c: selector #0: CEL runtime error: no such key: x");
        WANT_OUT(&w, "n1", "default/e", BH_DRA_FATAL,
                 "claim default/e: selector #0: CEL runtime error: no such key: x");
        WANT_OUT(&w, "n1", "default/f", BH_DRA_NO_SOLUTION, "");
    }
    world_done(&w);
}

BH_TEST(admin_access) /* L13, L14, L15 */
{
    struct world w;

    begin(&w);
    slice(&w, "p", "[{name: a}]");
    claim(&w, "admin", 1, ", adminAccess: true");
    claim(&w, "admin2", 2, ", adminAccess: true");
    claim(&w, "plain", 1, "");
    held(&w, "h", "p", "a", "");
    WANT(&w, "n1", "default/admin", "d/p/a");
    BH_EQ(world_reserve(&w, "default/admin"), 0);
    bh_dra_claim_del(w.m, BH_S("in-use/h"));
    WANT(&w, "n1", "default/plain", "d/p/a"); /* what an administrator sees is not in use */
    WANT_OUT(&w, "n1", "default/admin default/plain", BH_DRA_NO_SOLUTION, "");
    WANT(&w, "n1", "default/plain default/admin", "d/p/a | d/p/a");
    WANT_OUT(&w, "n1", "default/admin2", BH_DRA_NO_SOLUTION, "");
    world_done(&w);
}

BH_TEST(sizes) /* L16, L17, L18 */
{
    struct world w;
    char devices[2048] = "[{name: d0}";

    for (int i = 1; i < 40; i++)
        (void)snprintf(devices + strlen(devices), sizeof(devices) - strlen(devices),
                       ", {name: d%d}", i);
    (void)snprintf(devices + strlen(devices), sizeof(devices) - strlen(devices), "]");
    begin(&w);
    slice(&w, "p", devices);
    claim_full(
        &w, "c",
        "{requests: [{name: r, firstAvailable: [{name: big, deviceClassName: any, allocationMode: "
        "ExactCount, count: 20}, {name: small, deviceClassName: any, allocationMode: ExactCount, "
        "count: "
        "1}]}, {name: s, exactly: {deviceClassName: any, allocationMode: ExactCount, count: "
        "15}}]}");
    BH_EQ(world_allocate(&w, "n1", "default/c"), BH_DRA_OK);
    BH_EQ(w.res.allocations[0].devices.results.n, 16);
    BH_STREQ(w.res.allocations[0].devices.results.p[0].request, "r/small");
    BH_EQ(w.res.prefer, 7);
    claim(&w, "many", 33, "");
    WANT_OUT(&w, "n1", "default/many", BH_DRA_FATAL,
             "claim default/many: number of requested devices 33 exceeds the claim limit of 32");
    claim_all(&w, "all");
    WANT_OUT(&w, "n1", "default/all", BH_DRA_FATAL,
             "claim default/all: number of requested devices 40 exceeds the claim limit of 32");
    claim(&w, "most", 32, "");
    BH_EQ(world_allocate(&w, "n1", "default/most"), BH_DRA_OK);
    world_done(&w);
}

BH_TEST(mode_all) /* L19, L20, L21, L22 */
{
    struct world w;

    begin(&w);
    claim_all(&w, "all");
    WANT_OUT(&w, "n1", "default/all", BH_DRA_NO_SOLUTION, "");
    slice(&w, "p", "[{name: a}, {name: b}]");
    WANT(&w, "n1", "default/all", "d/p/a d/p/b");
    held(&w, "h", "p", "b", "");
    WANT_OUT(&w, "n1", "default/all", BH_DRA_NO_SOLUTION, "");
    /* A shared device that is used up is no part of all. */
    slice(&w, "p",
          "[{name: a}, {name: s, allowMultipleAllocations: true, capacity: {m: {value: '4'}}}]");
    WANT(&w, "n1", "default/all", "d/p/a d/p/s");
    held(&w, "h", "p", "s",
         ", shareID: 11111111-1111-4111-8111-111111111111, consumedCapacity: {m: '4'}");
    WANT(&w, "n1", "default/all", "d/p/a");
    claim_full(&w, "m",
               "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: All}}], "
               "constraints: "
               "[{matchAttribute: d/x}]}");
    WANT_OUT(&w, "n1", "default/m", BH_DRA_FATAL,
             "claim default/m, request r: cannot add device d/p/a because a claim constraint would "
             "not be "
             "satisfied");
    world_done(&w);
}

BH_TEST(taints) /* L23, L24 and rules */
{
    struct world w;

    begin(&w);
    slice(
        &w, "p",
        "[{name: a, taints: [{key: k, value: v, effect: NoSchedule}]}, {name: b, taints: [{key: k, "
        "effect: None}, {key: k, effect: Future}]}, {name: e}]");
    claim(&w, "c", 1, "");
    claim(&w, "t", 1, ", tolerations: [{key: k, operator: Equal, value: v}]");
    claim(&w, "u", 1,
          ", tolerations: [{key: k, operator: Equal, value: w}, {operator: Exists, effect: "
          "NoExecute}]");
    WANT(&w, "n1", "default/c", "d/p/b");
    WANT(&w, "n1", "default/t", "d/p/a");
    WANT(&w, "n1", "default/u", "d/p/b");
    world_yaml(
        &w,
        "{kind: DeviceTaintRule, apiVersion: resource.k8s.io/v1beta2, metadata: {name: x}, spec: "
        "{deviceSelector: {driver: d, pool: p, device: b}, taint: {key: z, effect: NoExecute}}}");
    WANT(&w, "n1", "default/c", "d/p/e");
    WANT(&w, "n1", "default/u", "d/p/b");
    world_yaml(/* another version of the same: nothing but its status changed */
               &w, "{kind: DeviceTaintRule, apiVersion: resource.k8s.io/v1beta2, metadata: {name: "
                   "x}, spec: "
                   "{deviceSelector: {driver: d, pool: p, device: b}, taint: {key: z, effect: "
                   "NoExecute}}, "
                   "status: {conditions: [{type: EvictionInProgress, status: 'False', reason: "
                   "NotStarted}]}}");
    WANT(&w, "n1", "default/c", "d/p/e");
    BH_EQ(bh_dra_self_check(w.m, NULL), 0);
    /* No selector selects nothing, an empty one everything. */
    world_yaml(
        &w,
        "{kind: DeviceTaintRule, apiVersion: resource.k8s.io/v1beta2, metadata: {name: x}, spec: "
        "{taint: {key: z, effect: NoExecute}}}");
    WANT(&w, "n1", "default/c", "d/p/b");
    world_yaml(
        &w,
        "{kind: DeviceTaintRule, apiVersion: resource.k8s.io/v1beta2, metadata: {name: x}, spec: "
        "{deviceSelector: {}, taint: {key: z, effect: NoExecute}}}");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, "");
    BH_CHECK(!bh_dra_ask_may_fit(w.ask, BH_S("n1")));
    bh_dra_rule_del(w.m, BH_S("x"));
    BH_CHECK(bh_dra_ask_may_fit(w.ask, BH_S("n1")));
    WANT(&w, "n1", "default/c", "d/p/b");
    world_done(&w);
}

/* ---- capacity ---- */

static const char *consumed(const struct world *w, size_t claim, size_t result)
{
    const struct bh_str_map *m =
        &w->res.allocations[claim].devices.results.p[result].consumed_capacity;

    return m->n ? m->p[0].value.p : "";
}

BH_TEST(capacity_policies) /* L28, L29, L30, L31, L32 */
{
    struct world w;

    begin(&w);
    claim(&w, "plain", 1, "");
    claim(&w, "other", 1, ", capacity: {requests: {x: '1'}}");
    slice(&w, "p", "[{name: a, allowMultipleAllocations: true, capacity: {m: {value: '10'}}}]");
    WANT(&w, "n1", "default/plain", "d/p/a");
    BH_STREQ(bh_s(consumed(&w, 0, 0)), "10");
    WANT_OUT(&w, "n1", "default/plain default/plain", BH_DRA_NO_SOLUTION, "");
    WANT_OUT(&w, "n1", "default/other", BH_DRA_NO_SOLUTION, "");

    static const struct {
        const char *policy, *ask, *want; /* want empty: refused */
    } rows[] = {
        {"validRange: {min: '2', max: '8', step: '3'}, default: '2'", "3", "5"},
        {"validRange: {min: '2', max: '8', step: '3'}, default: '2'", "6", "8"},
        {"validRange: {min: '2', max: '8', step: '3'}, default: '2'", "8", "8"},
        {"validRange: {min: '2', max: '8', step: '3'}, default: '2'", "9", ""},
        {"validRange: {min: '2', max: '8', step: '3'}, default: '2'", "1", "2"},
        {"validRange: {min: '2'}, default: '2'", "7", "7"},
        {"validValues: ['1', '4', '8'], default: '1'", "5", "8"},
        {"validValues: ['1', '4', '8'], default: '1'", "9", ""},
        {"default: '3'", "9", "9"},
        {"default: '3'", "11", ""},
    };
    for (size_t i = 0; i < BH_COUNT(rows); i++) {
        char text[512];

        (void)snprintf(
            text, sizeof(text),
            "[{name: a, allowMultipleAllocations: true, capacity: {m: {value: '10', requestPolicy: "
            "{%s}}}}]",
            rows[i].policy);
        slice(&w, "p", text);
        (void)snprintf(text, sizeof(text), ", capacity: {requests: {m: '%s'}}", rows[i].ask);
        claim(&w, "c", 1, text);
        BH_EQ(world_allocate(&w, "n1", "default/c"),
              *rows[i].want ? BH_DRA_OK : BH_DRA_NO_SOLUTION);
        if (w.res.n)
            BH_SEQ(bh_s(consumed(&w, 0, 0)), bh_s(rows[i].want));
    }
    slice(&w, "p", "[{name: a, capacity: {m: {value: '10'}}}]");
    claim(&w, "c", 1, ", capacity: {requests: {m: '11'}}");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, "");
    claim(&w, "c", 1, ", capacity: {requests: {m: '10'}}");
    WANT(&w, "n1", "default/c", "d/p/a");
    BH_EQ(w.res.allocations[0].devices.results.p[0].consumed_capacity.n, 0);
    BH_CHECK(!w.res.allocations[0].devices.results.p[0].has_share_id);
    world_done(&w);
}

BH_TEST(shares) /* L33, L34, and the ledger of capacity */
{
    struct world w;
    const struct bh_resource_v1_device_request_allocation_result *r;

    begin(&w);
    slice(&w, "p",
          "[{name: a, allowMultipleAllocations: true, capacity: {m: {value: '10', requestPolicy: "
          "{default: '4'}}}}]");
    claim_full(
        &w, "two",
        "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, count: "
        "1}}, "
        "{name: s, exactly: {deviceClassName: any, allocationMode: ExactCount, count: 1}}]}");
    claim(&w, "one", 1, "");
    WANT(&w, "n1", "default/two", "d/p/a d/p/a");
    r = w.res.allocations[0].devices.results.p;
    BH_CHECK(r[0].has_share_id && r[0].share_id.n == 36 &&
             !bh_str_eq(r[0].share_id, r[1].share_id));
    BH_EQ(world_reserve(&w, "default/two"), 0);
    WANT_OUT(&w, "n1", "default/one", BH_DRA_NO_SOLUTION, "");
    bh_dra_unreserve(w.m, BH_S("default/two"));
    WANT(&w, "n1", "default/one", "d/p/a");
    slice(&w, "p", "[{name: a, allowMultipleAllocations: true}]");
    WANT(&w, "n1", "default/two default/one", "d/p/a d/p/a | d/p/a");
    BH_EQ(world_reserve(&w, "default/two default/one"), 0);
    claim(&w, "more", 1, "");
    WANT(&w, "n1", "default/more", "d/p/a");
    world_done(&w);
}

/* ---- results ---- */

#define CONF(v) "opaque: {driver: d, parameters: {v: " v "}}"

BH_TEST(configs) /* L35, L36, L37 */
{
    struct world w;
    const struct bh_resource_v1_device_allocation_configuration_vec *c;

    begin(&w);
    world_yaml(&w, "{kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: k}, spec: "
                   "{config: [{" CONF("1") "}]}}");
    slice(&w, "p", "[{name: a}, {name: b}, {name: e}]");
    claim_full(
        &w, "c",
        "{requests: [{name: a, exactly: {deviceClassName: k, allocationMode: ExactCount, count: "
        "1}}, "
        "{name: b, exactly: {deviceClassName: k, allocationMode: ExactCount, count: 1}}, {name: r, "
        "firstAvailable: [{name: s1, deviceClassName: any, allocationMode: ExactCount, count: 1}, "
        "{name: "
        "s2, deviceClassName: any, allocationMode: ExactCount, count: 1}]}], config: [{requests: "
        "[a, b], " CONF("2") "}, {requests: [r/s2], " CONF("3") "}, {requests: [r/s1], " CONF(
            "4") "}, {" CONF("5") "}]}");
    WANT(&w, "n1", "default/c", "d/p/a d/p/b d/p/e");
    c = &w.res.allocations[0].devices.config;
    BH_EQ(c->n, 5);
    if (c->n == 5) {
        BH_STREQ(c->p[0].source, "FromClass");
        BH_EQ(c->p[0].requests.n, 2);
        BH_STREQ(c->p[1].source, "FromClaim");
        BH_EQ(c->p[1].requests.n, 2);
        BH_SEQ(c->p[1].device_configuration.opaque->parameters,
               c->p[2].device_configuration.opaque->parameters);
        BH_STREQ(c->p[3].requests.p[0], "r/s1");
        BH_EQ(c->p[4].requests.n, 0);
    }
    world_done(&w);
}

BH_TEST(node_selectors) /* L38, L39, L40, L42 */
{
    static const char zone[] =
        "nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, "
        "values: [a]}]}]}";
    struct world w;
    const struct bh_core_v1_node_selector *s;

    begin(&w);
    slice_full(&w, "s1", "d", "p", 1, 1, zone, "devices: [{name: a}]");
    slice_full(&w, "s2", "d", "q", 1, 1, zone, "devices: [{name: a}]");
    slice_full(&w, "s3", "d", "r", 1, 1, "allNodes: true", "devices: [{name: a}]");
    slice_full(&w, "s4", "d", "s", 1, 1, "allNodes: true",
               "devices: [{name: a, bindsToNode: true}]");
    claim(&w, "two", 2, "");
    claim(&w, "c", 1, "");
    claim(&w, "three", 3, "");
    claim_full(&w, "none", "{requests: []}");
    WANT(&w, "n1", "default/two", "d/p/a d/q/a");
    s = w.res.allocations[0].node_selector;
    BH_CHECK(s && s->node_selector_terms.n == 1 &&
             s->node_selector_terms.p[0].match_expressions.n == 1);
    WANT(&w, "n2", "default/c", "d/r/a");
    BH_CHECK(!w.res.allocations[0].node_selector);
    WANT(&w, "n2", "default/two", "d/r/a d/s/a");
    s = w.res.allocations[0].node_selector;
    BH_CHECK(s && s->node_selector_terms.p[0].match_fields.n == 1);
    WANT_OUT(&w, "n2", "default/three", BH_DRA_NO_SOLUTION, "");
    WANT(&w, "n2", "default/none", "");
    BH_EQ(w.res.n, 1);
    WANT_OUT(&w, "n3", "default/none", BH_DRA_NO_SOLUTION, "");
    world_done(&w);
}

/* What the world's ask gets on the node, and whether that is what was found for another. */
static bool again(struct world *w, const char *node, const char *want)
{
    struct bh_dra_stats before, after;

    bh_dra_stats(w->m, &before);
    BH_EQ(bh_dra_allocate(w->ask, bh_s(node), &w->opts, w->a, &w->res, &w->err), BH_DRA_OK);
    bh_dra_stats(w->m, &after);
    BH_STREQ(bh_s(world_got(w)), want);
    return after.repeated > before.repeated;
}

BH_TEST(one_search_for_nodes_that_see_the_same)
{
    struct world w;
    struct bh_dra_opts opts;

    begin(&w);
    slice_full(&w, "s1", "d", "p", 1, 1, "allNodes: true", "devices: [{name: a}, {name: b}]");
    claim(&w, "c", 1, "");
    claim(&w, "x", 1, "");
    WANT(&w, "n1", "default/c", "d/p/a");
    BH_CHECK(again(&w, "n2", "d/p/a") && again(&w, "n1", "d/p/a"));
    opts = w.opts;
    w.opts.scoring = opts.scoring == BH_DRA_PACK ? BH_DRA_FIRST_FIT : BH_DRA_PACK;
    BH_CHECK(!again(&w, "n2", "d/p/a")); /* asked differently */
    w.opts = opts;
    BH_CHECK(!again(&w, "n2", "d/p/a") && again(&w, "n1", "d/p/a"));
    slice_full(&w, "s2", "d", "a", 1, 1, "nodeName: n2", "devices: [{name: own}]");
    BH_CHECK(!again(&w, "n2", "d/a/own") && !again(&w, "n1", "d/p/a"));
    /* What was taken meanwhile is not given again. */
    BH_EQ(world_reserve(&w, "default/x"), 0);
    BH_CHECK(!again(&w, "n1", "d/p/b"));
    /* A device that binds its claim to the node that took it: each has its own result. */
    slice_full(&w, "s1", "d", "p", 1, 1, "allNodes: true",
               "devices: [{name: z, bindsToNode: true}]");
    WANT(&w, "n1", "default/c", "d/p/z");
    bh_dra_slice_del(w.m, BH_S("s2"));
    WANT(&w, "n1", "default/c", "d/p/z");
    BH_CHECK(!again(&w, "n2", "d/p/z"));
    BH_STREQ(
        w.res.allocations[0].node_selector->node_selector_terms.p[0].match_fields.p[0].values.p[0],
        "n2");
    world_done(&w);
}

BH_TEST(per_device_nodes)
{
    struct world w;

    begin(&w);
    claim(&w, "c", 1, "");
    slice_full(
        &w, "s", "d", "p", 1, 1, "perDeviceNodeSelection: true",
        "devices: [{name: a, nodeName: n1}, {name: b, nodeName: n2}, {name: e, allNodes: true}]");
    WANT(&w, "n1", "default/c", "d/p/a");
    WANT(&w, "n2", "default/c", "d/p/b");
    BH_EQ(world_reserve(&w, "default/c"), 0);
    claim(&w, "f", 1, "");
    WANT(&w, "n2", "default/f", "d/p/e");
    slice_full(&w, "s", "d", "p", 1, 1, "perDeviceNodeSelection: true",
               "devices: [{name: a, nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: "
               "zone, operator: "
               "Nope}]}]}}]");
    BH_EQ(world_allocate(&w, "n1", "default/f"), BH_DRA_FATAL);
    BH_STREQ(bh_s(w.err.msg),
             "gather pool information: failed to perform node selection for device a in slice s: "
             "failed to parse node selector: \"Nope\" is not a valid node selector operator");
    world_done(&w);
}

#define TERM(key) "{matchExpressions: [{key: " key ", operator: Exists}]}"

BH_TEST(node_selectors_of_two_terms) /* A28, and what validation keeps out of slices */
{
    struct world w;

    begin(&w);
    claim(&w, "c", 1, "");
    claim(&w, "two", 2, "");
    slice_full(&w, "s", "d", "p", 1, 1, "perDeviceNodeSelection: true",
               "devices: [{name: a, nodeSelector: {nodeSelectorTerms: [" TERM("zone") ", " TERM(
                   "rack") "]}}, {name: b, nodeName: n1}]");
    BH_EQ(world_allocate(&w, "n1", "default/c"), BH_DRA_FATAL);
    BH_STREQ(bh_s(w.err.msg), "create NodeSelector for claim c: unsupported "
                              "ResourceSlice.NodeSelector with 2 terms");
    /* A device of this node before it would settle the question; here it comes too late. */
    BH_EQ(world_allocate(&w, "n1", "default/two"), BH_DRA_FATAL);
    slice_full(&w, "r", "d", "o", 1, 1, "nodeName: n1", "devices: [{name: a}]");
    WANT(&w, "n1", "default/two", "d/o/a d/p/a");
    BH_CHECK(w.res.allocations[0].node_selector->node_selector_terms.p[0].match_fields.n == 1);
    /* A term that cannot be read counts though the other one selects the node. */
    slice_full(&w, "t", "d", "q", 1, 1,
               "nodeSelector: {nodeSelectorTerms: [" TERM("'a zone!'") ", " TERM("zone") "]}",
               "devices: [{name: a}]");
    BH_EQ(world_allocate(&w, "n1", "default/c"), BH_DRA_FATAL);
    world_done(&w);
}

/* ---- ledger ---- */

BH_TEST(reservations)
{
    struct world w;
    struct bh_dra_holder *h;

    begin(&w);
    slice(&w, "p", "[{name: a}]");
    claim(&w, "c", 1, "");
    claim(&w, "e", 1, "");
    WANT(&w, "n1", "default/c", "d/p/a");
    BH_EQ(world_reserve(&w, "default/c"), 0);
    BH_EQ(world_reserve(&w, "default/c"), -BH_E_EXISTS);
    BH_EQ(world_reserve(&w, "default/e"), -BH_E_CONFLICT); /* the same device for another claim */
    BH_CHECK(!bh_dra_is_reserved(w.m, BH_S("default/e")));
    WANT_OUT(&w, "n1", "default/e", BH_DRA_NO_SOLUTION, "");
    BH_EQ(bh_dra_holders(w.m, BH_S("d"), BH_S("p"), BH_S("a"), w.a, &h), 1);
    BH_CHECK(h[0].reserved && !h[0].claim);
    claim(&w, "c", 1, ""); /* an older event */
    BH_CHECK(bh_dra_is_reserved(w.m, BH_S("default/c")));
    world_yaml(&w, "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: c, "
                   "namespace: default}, "
                   "spec: {devices: {}}, status: {allocation: {devices: {results: [{request: r, "
                   "driver: d, pool: p, "
                   "device: a}]}}}}");
    BH_CHECK(!bh_dra_is_reserved(w.m, BH_S("default/c")));
    BH_EQ(bh_dra_node_holders(w.m, BH_S("n1"), w.a, &h), 1);
    BH_CHECK(!h[0].reserved && h[0].claim);
    bh_dra_unreserve(w.m, BH_S("default/c")); /* too late: nothing happens */
    WANT_OUT(&w, "n1", "default/e", BH_DRA_NO_SOLUTION, "");
    BH_CHECK(!bh_dra_ask_may_fit(w.ask, BH_S("n1")));
    w.opts.released = &(struct bh_str){"default/c", 9};
    w.opts.released_n = 1;
    WANT(&w, "n1", "default/e", "d/p/a"); /* what if it went */
    w.opts.released_n = 0;
    BH_CHECK(!bh_dra_ask_may_fit(w.ask, BH_S("n1")));
    claim(&w, "c", 1, ""); /* now it is deallocated */
    BH_CHECK(bh_dra_ask_may_fit(w.ask, BH_S("n1")));
    WANT(&w, "n1", "default/e", "d/p/a");
    world_done(&w);
}

BH_TEST(what_is_kept_counts_as_taken)
{
    struct world w;
    const struct bh_resource_v1_allocation_result *kept[2];
    size_t total, free;

    begin(&w);
    slice_full(&w, "t", "d", "q", 1, 1, "nodeName: n1", "devices: [{name: a}, {name: b}]");
    claim(&w, "c", 1, "");
    claim(&w, "e", 1, "");
    claim(&w, "two", 2, "");
    WANT(&w, "n1", "default/c", "d/q/a");
    kept[0] = &w.res.allocations[0];
    w.opts.held = kept;
    w.opts.held_n = 1;
    WANT(&w, "n1", "default/e", "d/q/b");
    kept[1] = &w.res.allocations[0];
    WANT_OUT(&w, "n1", "default/two", BH_DRA_NO_SOLUTION, "");
    w.opts.held_n = 2;
    WANT_OUT(&w, "n1", "default/e", BH_DRA_NO_SOLUTION, "");
    w.opts.held_n = 0;
    BH_CHECK(bh_dra_ask_may_fit(w.ask, BH_S("n1"))); /* the refusal is not remembered */
    WANT(&w, "n1", "default/two", "d/q/a d/q/b");
    bh_dra_node_count(w.m, BH_S("n1"), &total, &free);
    BH_EQ(free, 2);
    /* On top of its holder, and of nothing: the books are as before. */
    WANT(&w, "n1", "default/c", "d/q/a");
    BH_EQ(world_reserve(&w, "default/c"), 0);
    w.opts.held_n = 1;
    WANT(&w, "n1", "default/e", "d/q/b");
    bh_dra_slice_del(w.m, BH_S("t"));
    WANT_OUT(&w, "n1", "default/e", BH_DRA_NO_SOLUTION, "");
    w.opts.held_n = 0;
    world_done(&w);
}

BH_TEST(reservations_have_names)
{
    struct world w;
    uint64_t first;

    begin(&w);
    slice(&w, "p", "[{name: a}, {name: b}]");
    claim(&w, "c", 1, "");
    BH_EQ(bh_dra_reservation(w.m, BH_S("default/c")), 0);
    WANT(&w, "n1", "default/c", "d/p/a");
    BH_EQ(world_reserve(&w, "default/c"), 0);
    first = bh_dra_reservation(w.m, BH_S("default/c"));
    BH_CHECK(first != 0 && !bh_dra_reservation_lost(w.m, BH_S("default/c"), first));
    /* Stored, and given back by somebody: whoever reserves next has another one. */
    world_yaml(&w, "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: c, "
                   "namespace: default}, spec: {devices: {}}, status: {allocation: {devices: "
                   "{results: [{request: r, driver: d, pool: p, device: a}]}}}}");
    BH_CHECK(!bh_dra_reservation_lost(w.m, BH_S("default/c"), first));
    claim(&w, "c", 1, "");
    BH_CHECK(bh_dra_reservation_lost(w.m, BH_S("default/c"), first));
    WANT(&w, "n1", "default/c", "d/p/a");
    BH_EQ(world_reserve(&w, "default/c"), 0);
    BH_CHECK(bh_dra_reservation_lost(w.m, BH_S("default/c"), first));
    BH_CHECK(bh_dra_reservation(w.m, BH_S("default/c")) > first);
    world_done(&w);
}

BH_TEST(use_outlives_slices)
{
    struct world w;
    size_t total, free;

    begin(&w);
    held(&w, "h", "p", "a", "");
    slice(&w, "p", "[{name: a}, {name: b}]");
    bh_dra_node_count(w.m, BH_S("n1"), &total, &free);
    BH_EQ(total, 2);
    BH_EQ(free, 1);
    bh_dra_slice_del(w.m, BH_S("p"));
    bh_dra_node_count(w.m, BH_S("n1"), &total, &free);
    BH_EQ(total, 0);
    slice(&w, "p", "[{name: a}]");
    claim(&w, "c", 1, "");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, "");
    world_done(&w);
}

/* ---- nodes that may fit ---- */

static const char *walk(struct world *w)
{
    BH_AUTO_BUF b = {0};
    uint64_t it = 0;
    struct bh_str node;

    while (bh_dra_ask_next(w->ask, &it, &node))
        bh_buf_addf(&b, "%s%.*s", b.n ? " " : "", BH_SF(node));
    return bh_str_dup(w->a, bh_buf_str(&b)).p;
}

BH_TEST(candidates)
{
    struct world w;

    begin(&w);
    slice_full(&w, "s1", "d", "p1", 1, 1, "nodeName: n1", "devices: [{name: a}]");
    slice_full(&w, "s2", "d", "p2", 1, 1, "nodeName: n2", "devices: [{name: a}]");
    claim(&w, "c", 1, "");
    claim(&w, "e", 1, "");
    claim(&w, "two", 2, "");
    WANT(&w, "n2", "default/c", "d/p2/a");
    BH_STREQ(bh_s(walk(&w)), "n2 n1"); /* where the last one went */
    BH_EQ(world_reserve(&w, "default/c"), 0);
    BH_STREQ(bh_s(walk(&w)), "n1"); /* full: known without asking */
    WANT_OUT(&w, "n1", "default/two", BH_DRA_NO_SOLUTION, "");
    BH_STREQ(bh_s(walk(&w)), "");
    slice_full(&w, "s1", "d", "p1", 1, 1, "nodeName: n1", "devices: [{name: a}, {name: b}]");
    BH_STREQ(bh_s(walk(&w)), "n1");
    WANT(&w, "n1", "default/two", "d/p1/a d/p1/b");
    WANT_OUT(&w, "n1", "default/two default/c", BH_DRA_NO_SOLUTION, "");
    BH_STREQ(bh_s(walk(&w)), "");
    world_yaml(&w, "{kind: Node, apiVersion: v1, metadata: {name: n0}}");
    slice_full(&w, "s0", "d", "p0", 1, 1, "nodeName: n0", "devices: [{name: a}]");
    BH_STREQ(bh_s(walk(&w)), "n0");
    bh_dra_node_del(w.m, BH_S("n0"));
    BH_STREQ(bh_s(walk(&w)), "");
    /* A device for everybody may help anybody. */
    slice_full(&w, "s9", "d", "p9", 1, 1, "allNodes: true", "devices: [{name: a}]");
    BH_STREQ(bh_s(walk(&w)), "n1 n2");
    world_done(&w);
}

BH_TEST(candidates_mode_all) /* taking can help those who want all that is left */
{
    struct world w;

    begin(&w);
    slice(&w, "p",
          "[{name: a}, {name: s, allowMultipleAllocations: true, capacity: {m: {value: '4'}}}]");
    claim_full(&w, "c",
               "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: All}}], "
               "constraints: "
               "[{requests: [r], distinctAttribute: d/x}]}");
    held(&w, "h", "p", "a", "");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, "");
    BH_CHECK(!bh_dra_ask_may_fit(w.ask, BH_S("n1")));
    held(&w, "i", "p", "s",
         ", shareID: 11111111-1111-4111-8111-111111111111, consumedCapacity: {m: '4'}");
    BH_CHECK(bh_dra_ask_may_fit(w.ask, BH_S("n1")));
    world_done(&w);
}

BH_TEST(candidates_by_counters)
{
    struct world w;

    /* A device that one node sees frees counters for one that all see. */
    begin(&w);
    slice_full(&w, "s0", "d", "p", 1, 3, "nodeName: n1", COUNTERS("1"));
    slice_full(&w, "s1", "d", "p", 1, 3, "nodeName: n1", "devices: [" USES("a", "1") "]");
    slice_full(&w, "s2", "d", "p", 1, 3, "allNodes: true", "devices: [" USES("b", "1") "]");
    claim(&w, "c", 1, "");
    held(&w, "h", "p", "a", "");
    WANT_OUT(&w, "n2", "default/c", BH_DRA_NO_SOLUTION, "");
    BH_CHECK(!bh_dra_ask_may_fit(w.ask, BH_S("n2")));
    bh_dra_claim_del(w.m, BH_S("in-use/h"));
    BH_CHECK(bh_dra_ask_may_fit(w.ask, BH_S("n2")));
    WANT(&w, "n2", "default/c", "d/p/b");
    /* Whoever shares a device that was too dear pays for the next one. */
    slice_full(&w, "s1", "d", "p", 1, 2, "nodeName: n1",
               "devices: [{name: a, allowMultipleAllocations: true, capacity: {m: {value: '4', "
               "requestPolicy: {default: '1'}}}, consumesCounters: [{counterSet: cs, counters: {m: "
               "{value: '2'}}}]}]");
    slice_full(&w, "s0", "d", "p", 1, 2, "nodeName: n1", COUNTERS("1"));
    bh_dra_slice_del(w.m, BH_S("s2"));
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, "");
    BH_CHECK(!bh_dra_ask_may_fit(w.ask, BH_S("n1")));
    held(&w, "i", "p", "a",
         ", shareID: 11111111-1111-4111-8111-111111111111, consumedCapacity: {m: '1'}");
    BH_CHECK(bh_dra_ask_may_fit(w.ask, BH_S("n1")));
    WANT(&w, "n1", "default/c", "d/p/a");
    world_done(&w);
}

BH_TEST(asks_outlive_demands) /* more distinct claims than are remembered, and a class that goes
                                 meanwhile */
{
    struct world w;

    begin(&w);
    slice(&w, "p", "[{name: a}]");
    claim(&w, "c", 1, "");
    WANT(&w, "n1", "default/c", "d/p/a");
    for (int i = 0; i < 1200; i++) {
        char more[128];

        (void)snprintf(more, sizeof(more), SEL("device.driver == 'x%d'"), i);
        claim(&w, "x", 1, more);
        BH_EQ(world_allocate(&w, "n1", "default/x"), BH_DRA_NO_SOLUTION);
    }
    bh_dra_class_del(w.m, BH_S("any"));
    BH_CHECK(!bh_dra_ask_may_fit(w.ask, BH_S("n1")));
    WANT_OUT(&w, "n1", "default/c", BH_DRA_FATAL,
             "claim default/c, request r: could not retrieve device class any: "
             "deviceclass.resource.k8s.io "
             "\"any\" not "
             "found");
    world_done(&w);
}

BH_TEST(budget)
{
    struct world w;
    char devices[2048] = "[{name: d0, attributes: {x: {int: 0}}}";

    for (int i = 1; i < 20; i++)
        (void)snprintf(devices + strlen(devices), sizeof(devices) - strlen(devices),
                       ", {name: d%d, attributes: {x: {int: %d}}}", i, i);
    (void)snprintf(devices + strlen(devices), sizeof(devices) - strlen(devices), "]");
    begin(&w);
    slice(&w, "p", devices);
    claim_full(&w, "c",
               "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, "
               "count: 10}}, "
               "{name: s, exactly: {deviceClassName: any, allocationMode: ExactCount, count: 2}}], "
               "constraints: "
               "[{requests: [s], matchAttribute: d/x}]}");
    w.opts.steps_max = 1000;
    WANT_OUT(&w, "n1", "default/c", BH_DRA_SPENT,
             "gave up allocating devices after 1000 search steps");
    world_done(&w);
}

BH_TEST(equal_devices_are_tried_once)
{
    struct world w;
    char devices[2048] = "[{name: d0}";

    for (int i = 1; i < 30; i++)
        (void)snprintf(devices + strlen(devices), sizeof(devices) - strlen(devices),
                       ", {name: d%d}", i);
    (void)snprintf(devices + strlen(devices), sizeof(devices) - strlen(devices), "]");
    begin(&w);
    slice(&w, "p", devices);
    claim_full(
        &w, "c",
        "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, count: "
        "15}}, "
        "{name: s, exactly: {deviceClassName: any, allocationMode: ExactCount, count: 16}}]}");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, "");
    BH_CHECK(w.res.steps < 200);
    world_done(&w);
}

/* ---- words ---- */

BH_TEST(explanations)
{
    struct world w;
    struct bh_dra_reasons why;
    struct bh_str n1 = BH_S("n1"), text;

    begin(&w);
    slice(&w, "p",
          "[{name: gpu-0}, {name: gpu-1}, {name: gpu-2}, {name: gpu-3, taints: [{key: "
          "gpu.bulkhead.dev/xid, value: '79', effect: NoExecute}]}]");
    held(&w, "a", "p", "gpu-0", "");
    held(&w, "b", "p", "gpu-1", "");
    held(&w, "c", "p", "gpu-2", "");
    claim(&w, "c", 1, "");
    WANT_OUT(&w, "n1", "default/c", BH_DRA_NO_SOLUTION, "");
    bh_dra_explain(w.ask, &n1, 1, w.a, &why);
    text = bh_dra_explain_text(&why, BH_S("cannot allocate all claims"), w.a);
    BH_STREQ(text, "cannot allocate all claims: request \"r\": gpu-3 has taint "
                   "gpu.bulkhead.dev/xid=79:NoExecute; 3 devices in use");
    BH_EQ(why.requests[0].count[BH_DRA_WHY_IN_USE], 3);
    struct bh_str both[] = {BH_S("n1"), BH_S("n2")};

    slice_full(&w, "q", "d", "q", 1, 1, "nodeName: n2",
               "devices: [{name: gpu-0, taints: [{key: k, effect: NoSchedule}]}]");
    bh_dra_explain(w.ask, both, 2, w.a, &why);
    text = bh_dra_explain_text(&why, BH_S(""), w.a);
    BH_STREQ(text, "request \"r\": gpu-3 on n1 has taint gpu.bulkhead.dev/xid=79:NoExecute; gpu-0 "
                   "on n2 has taint "
                   "k:NoSchedule; 3 devices in use");
    bh_dra_explain(w.ask, &n1, 1, w.a, &why);
    BH_STREQ(why.requests[0].first[BH_DRA_WHY_IN_USE][0].detail, "claim in-use/a");
    world_done(&w);
}

BH_TEST(explanations_are_bounded)
{
    struct world w;
    struct bh_dra_reasons why;
    struct bh_str n1 = BH_S("n1"), text;
    BH_AUTO_BUF claims = {0};

    begin(&w);
    slice(&w, "p", "[{name: gpu-0}]");
    bh_buf_addz(&claims, "{requests: [");
    for (int i = 0; i < 32; i++)
        bh_buf_addf(
            &claims,
            "%s{name: a-request-with-quite-a-long-name-number-%d, exactly: {deviceClassName: any, "
            "allocationMode: ExactCount, count: 2}}",
            i ? ", " : "", i);
    bh_buf_addz(&claims, "]}");
    BH_AUTO_BUF text_in = {0};

    bh_buf_addf(&text_in,
                "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: c, "
                "namespace: default}, "
                "spec: {devices: %s}}",
                bh_buf_cstr(&claims));
    world_yaml(&w, bh_buf_cstr(&text_in));
    (void)world_allocate(&w, "n1", "default/c");
    bh_dra_explain(w.ask, &n1, 1, w.a, &why);
    text = bh_dra_explain_text(&why, BH_S("cannot allocate all claims"), w.a);
    BH_CHECK(text.n <= BH_MESSAGE_BYTES_MAX && text.n > BH_MESSAGE_BYTES_MAX / 2);
    world_done(&w);
}
