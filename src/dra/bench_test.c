/* A micro benchmark of the allocator, run only when asked for: BH_BENCH=1 dra_test bench
 * Each line: nodes of 8 GPUs, filled completely by claims of one device (or four), one after the
 * other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/engine.h"
#include "api/obj.h"
#include "base/test.h"
#include "dra/dra_world_test.h"

#define GPUS 8

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void add_node(struct world *w, unsigned i)
{
    BH_AUTO_BUF b = {0};
    char name[32];

    (void)snprintf(name, sizeof(name), "node-%05u", i);
    bh_dra_node_put(w->m, bh_s(name), NULL);
    bh_buf_addf(&b,
                "{\"kind\":\"ResourceSlice\",\"apiVersion\":\"resource.k8s.io/"
                "v1\",\"metadata\":{\"name\":\"%s\","
                "\"uid\":\"%s\",\"resourceVersion\":\"1\"},\"spec\":{\"driver\":\"gpu.bulkhead."
                "dev\",\"pool\":{"
                "\"name\":\"%s\",\"generation\":1,\"resourceSliceCount\":1},\"nodeName\":\"%s\","
                "\"devices\":[",
                name, name, name, name);
    for (unsigned g = 0; g < GPUS; g++)
        bh_buf_addf(&b,
                    "%s{\"name\":\"gpu-%u\",\"attributes\":{\"model\":{\"string\":\"H100\"},"
                    "\"nvlinkDomain\":{\"string\":\"nv-%u\"},"
                    "\"resource.kubernetes.io/numaNode\":{\"int\":%u},"
                    "\"resource.kubernetes.io/pcieRoot\":{\"string\":\"pci0000:%02x\"},"
                    "\"uuid\":{\"string\":\"GPU-%08x-%04x\"}},"
                    "\"capacity\":{\"memory\":{\"value\":\"80Gi\"}}}",
                    g ? "," : "", g, i, g / 4, g / 2, i, g);
    bh_buf_addz(&b, "]}}");
    struct bh_obj *o = bh_obj_new(&bh_resource_v1_resource_slice_kind, bh_buf_str(&b), 1, &w->err);

    bh_assert(o);
    bh_dra_slice_put(w->m, o);
    (void)bh_obj_unref(o);
}

/* The same GPUs in partitions: seven small ones each, or the whole. */
static void add_parts(struct world *w, unsigned i)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addf(
        &b,
        "{kind: Node, apiVersion: v1, metadata: {name: n%u}}\n---\n"
        "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: c%u}, spec: "
        "{driver: gpu.bulkhead.dev, "
        "pool: {name: n%u, generation: 1, resourceSliceCount: 2}, nodeName: n%u, sharedCounters: [",
        i, i, i, i);
    for (unsigned g = 0; g < GPUS; g++)
        bh_buf_addf(&b, "%s{name: gpu-%u, counters: {slices: {value: '7'}, memory: {value: 80Gi}}}",
                    g ? ", " : "", g);
    bh_buf_addf(&b,
                "]}}\n---\n{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: "
                "d%u}, spec: {driver: "
                "gpu.bulkhead.dev, pool: {name: n%u, generation: 1, resourceSliceCount: 2}, "
                "nodeName: n%u, devices: [",
                i, i, i);
    for (unsigned g = 0; g < GPUS; g++)
        for (unsigned k = 0; k <= 7; k++)
            bh_buf_addf(&b,
                        "%s{name: gpu-%u-%u, attributes: {profile: {string: %s}}, "
                        "consumesCounters: [{counterSet: gpu-%u, "
                        "counters: {slices: {value: '%s'}, memory: {value: %s}}}]}",
                        g + k ? ", " : "", g, k, k ? "1g" : "7g", g, k ? "1" : "7",
                        k ? "10Gi" : "80Gi");
    bh_buf_addz(&b, "]}}\n");
    world_yaml(w, bh_buf_cstr(&b));
}

static void build(struct world *w, unsigned nodes, const char *selector, unsigned count)
{
    char claim[1024];

    world_init(w, NULL);
    world_yaml(
        w, "kind: DeviceClass\napiVersion: resource.k8s.io/v1\nmetadata: {name: gpu}\n"
           "spec: {selectors: [{cel: {expression: \"device.driver == 'gpu.bulkhead.dev'\"}}]}\n");
    (void)snprintf(claim, sizeof(claim),
                   "kind: ResourceClaim\napiVersion: resource.k8s.io/v1\n"
                   "metadata: {name: c, namespace: default}\n"
                   "spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, "
                   "allocationMode: ExactCount, count: %u%s}}]}}\n",
                   count, selector);
    world_yaml(w, claim);
    for (unsigned i = 0; i < nodes; i++)
        add_node(w, i);
}

/* One pod: ask, find a node, allocate, reserve. False when the cluster is full. */
static bool place(struct world *w, struct bh_arena *a, const struct bh_dra_opts *opts,
                  struct bh_resource_v1_resource_claim *c, unsigned i)
{
    const struct bh_resource_v1_resource_claim *cs[] = {c};
    struct bh_dra_result res;
    struct bh_dra_ask *q;
    struct bh_str node;
    uint64_t it = 0;
    char uid[32];

    (void)snprintf(uid, sizeof(uid), "uid-%u", i);
    c->metadata.uid = bh_s(uid);
    q = bh_dra_ask_new(w->m, cs, 1, a);
    while (bh_dra_ask_next(q, &it, &node))
        if (bh_dra_allocate(q, node, opts, a, &res, &w->err) == BH_DRA_OK) {
            bh_assert(bh_dra_reserve(w->m, c, &res.allocations[0], &w->err) == 0);
            return true;
        }
    return false;
}

static double fill(unsigned nodes, const char *selector, unsigned count,
                   enum bh_dra_scoring scoring, const char *what)
{
    struct world w;
    struct bh_dra_opts opts = {.scoring = scoring};
    struct bh_arena *a = bh_arena_new(0);
    struct bh_resource_v1_resource_claim c;
    struct bh_dra_stats st;
    unsigned n = 0;
    double t, built = now();

    build(&w, nodes, selector, count);
    built = now() - built;
    c = *world_claim(&w, "default/c");
    t = now();
    while (place(&w, a, &opts, &c, n)) {
        n++;
        bh_arena_reset(a);
    }
    t = now() - t;
    bh_dra_stats(w.m, &st);
    printf("%6u nodes, %u of %u GPUs, %-28s %8.0f allocations/s, %6.2f us each; built in %.2f s; "
           "%llu evaluations, %llu steps, %llu calls\n",
           nodes, count, GPUS, what, n / t, t / n * 1e6, built, (unsigned long long)st.evaluations,
           (unsigned long long)st.steps, (unsigned long long)st.allocations);
    BH_EQ(n, nodes * GPUS / count);
    a = bh_arena_free(a);
    world_done(&w);
    return t / n;
}

static void fill_parts(unsigned nodes)
{
    struct world w;
    struct bh_dra_opts opts = {.scoring = BH_DRA_PACK};
    struct bh_arena *a = bh_arena_new(0);
    struct bh_resource_v1_resource_claim c;
    unsigned n = 0;
    double t;

    build(&w, 0,
          ", selectors: [{cel: {expression: \"device.attributes['gpu.bulkhead.dev'].profile == "
          "'1g'\"}}]",
          1);
    for (unsigned i = 0; i < nodes; i++)
        add_parts(&w, i);
    c = *world_claim(&w, "default/c");
    t = now();
    while (place(&w, a, &opts, &c, n)) {
        n++;
        bh_arena_reset(a);
    }
    t = now() - t;
    printf("%6u nodes of 64 partitions, filled with small ones: %.0f allocations/s, %.2f us each\n",
           nodes, n / t, t / n * 1e6);
    BH_EQ(n, nodes * GPUS * 7);
    a = bh_arena_free(a);
    world_done(&w);
}

/* A full cluster, one claim leaves and one comes, over and over. */
static double churn(unsigned nodes, const char *selector)
{
    enum { ROUNDS = 20000 };
    struct world w;
    struct bh_dra_opts opts = {.scoring = BH_DRA_PACK};
    struct bh_arena *a = bh_arena_new(0);
    struct bh_resource_v1_resource_claim c;
    unsigned n = 0;
    double t;

    build(&w, nodes, selector, 1);
    c = *world_claim(&w, "default/c");
    while (place(&w, a, &opts, &c, n)) {
        n++;
        bh_arena_reset(a);
    }
    t = now();
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned victim = (unsigned)((uint64_t)i * 2654435761u % n);
        char uid[32];

        (void)snprintf(uid, sizeof(uid), "uid-%u", victim);
        bh_dra_unreserve(w.m, bh_s(uid));
        BH_CHECK(place(&w, a, &opts, &c, victim));
        bh_arena_reset(a);
    }
    t = (now() - t) / ROUNDS;
    printf("%6u nodes, full, one leaves and one comes: %.2f us\n", nodes, t * 1e6);
    a = bh_arena_free(a);
    world_done(&w);
    return t;
}

BH_TEST(bench_allocate)
{
    static const char own[] =
        ", selectors: [{cel: {expression: \"device.attributes['gpu.bulkhead.dev'].model "
        "== 'H100' && device.capacity['gpu.bulkhead.dev'].memory.compareTo("
        "quantity('40Gi')) >= 0\"}}]";
    static const unsigned sizes[] = {100, 500, 10000};
    double small = 0;

    if (!getenv("BH_BENCH")) {
        bh_test_skip("set BH_BENCH=1");
        return;
    }
    fill_parts(100);
    for (size_t i = 0; i < BH_COUNT(sizes); i++) {
        double t = fill(sizes[i], own, 1, BH_DRA_PACK, "own selector, scored");

        (void)fill(sizes[i], "", 1, BH_DRA_PACK, "class selector, scored");
        (void)fill(sizes[i], "", 1, BH_DRA_FIRST_FIT, "class selector, first fit");
        (void)fill(sizes[i], own, 4, BH_DRA_PACK, "own selector, scored");
        (void)churn(sizes[i], own);
        if (i == 0)
            small = t;
        else
            printf("per pod against 100 nodes: %.2f\n", t / small);
    }
}
