/* The index of large views, and the order that it keeps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/test.h"
#include "dra/dra_int.h"
#include "dra/dra_world_test.h"
#include "dra/rank.h"

static uint64_t rng;

static unsigned rnd(unsigned n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (unsigned)(rng >> 11) % n;
}

/* ---- the order ---- */

#define NUMBERS 3000u

static bool by_key(const void *arg, uint32_t a, uint32_t b)
{
    const unsigned *key = arg;

    return key[a] != key[b] ? key[a] < key[b] : a < b;
}

static void check_order(const struct dra_rank *r, const unsigned *key, const bool *in, size_t want)
{
    struct dra_rank_it it = {0};
    uint32_t x, last = 0;
    size_t n = 0;

    while (dra_rank_next(r, &it, &x)) {
        BH_CHECK(in[x]);
        BH_CHECK(!n || by_key(key, last, x));
        last = x;
        n++;
    }
    BH_EQ(n, want);
}

BH_TEST(rank_is_in_order)
{
    unsigned key[NUMBERS];
    bool in[NUMBERS] = {false};
    struct dra_rank r = {.before = by_key, .arg = key};
    size_t n = 0;

    rng = bh_test_seed() | 1;
    for (unsigned i = 0; i < NUMBERS; i++)
        key[i] = rnd(40);
    for (unsigned i = 0; i < 20000; i++) {
        /* Most are in for a while, then most are out. */
        unsigned x = rnd(NUMBERS);
        bool add = i / 5000 % 2 == 0;

        if (in[x] == add && rnd(4))
            continue;
        if (in[x])
            dra_rank_del(&r, x);
        else
            dra_rank_add(&r, x);
        n = in[x] ? n - 1 : n + 1;
        in[x] = !in[x];
        if (i % 500 == 0)
            check_order(&r, key, in, n);
    }
    check_order(&r, key, in, n);
    dra_rank_done(&r);
}

/* ---- the index ---- */

enum { POOLS = 120, CLAIMS = 40 };

/* Pools that both nodes see: two halves or four quarters of a device, and one that is shared. */
static void pools(struct world *w)
{
    world_yaml(w, "{kind: Node, apiVersion: v1, metadata: {name: n0}}\n---\n"
                  "{kind: Node, apiVersion: v1, metadata: {name: n1}}\n---\n"
                  "{kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: any}, "
                  "spec: {}}\n");
    for (int i = 0; i < POOLS; i++) {
        BH_AUTO_BUF b = {0};

        bh_buf_addf(&b,
                    "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: c%d}, "
                    "spec: {driver: d, pool: {name: p%d, generation: 1, resourceSliceCount: 2}, "
                    "allNodes: true, sharedCounters: [{name: cs, counters: {m: {value: '4'}}}]}}\n"
                    "---\n"
                    "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: s%d}, "
                    "spec: {driver: d, pool: {name: p%d, generation: 1, resourceSliceCount: 2}, "
                    "allNodes: true, devices: [",
                    i, i, i, i);
        for (int k = 0; k < 6; k++)
            bh_buf_addf(&b,
                        "{name: d%d, attributes: {pool: {int: %d}, size: {int: %d}}, capacity: {m: "
                        "{value: '%d'}}, consumesCounters: [{counterSet: cs, counters: {m: {value: "
                        "'%d'}}}]}, ",
                        k, i, k < 2 ? 2 : 1, k < 2 ? 2 : 1, k < 2 ? 2 : 1);
        bh_buf_addf(&b,
                    "{name: s, allowMultipleAllocations: true, attributes: {pool: {int: %d}, "
                    "size: {int: 0}}, capacity: {m: {value: '5'}}}]}}\n",
                    i);
        world_yaml(w, bh_buf_cstr(&b));
    }
}

static void claims(struct world *w)
{
    static const char *const what[] = {
        "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, count: "
        "2}}], constraints: [{matchAttribute: d/pool}]}",
        "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, count: "
        "1, selectors: [{cel: {expression: \"device.attributes['d'].size == 2\"}}]}}]}",
        "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, count: "
        "1, selectors: [{cel: {expression: device.allowMultipleAllocations}}], capacity: "
        "{requests: {m: '2'}}}}, {name: t, exactly: {deviceClassName: any, allocationMode: "
        "ExactCount, count: 3}}]}",
    };

    for (int i = 0; i < CLAIMS; i++) {
        BH_AUTO_BUF b = {0};

        bh_buf_addf(&b,
                    "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: c%d, "
                    "namespace: default}, spec: {devices: %s}}\n",
                    i, what[i % 3]);
        world_yaml(w, bh_buf_cstr(&b));
    }
}

/* Claims come and go in two models, of which one keeps an index. */
static void two_models(enum bh_dra_scoring scoring)
{
    struct world w[2];
    bool held[CLAIMS] = {false};
    struct bh_dra_stats st;

    for (int i = 0; i < 2; i++) {
        world_init(&w[i], NULL);
        w[i].opts.scoring = scoring;
        pools(&w[i]);
        claims(&w[i]);
    }
    w[0].m->index_min = SIZE_MAX;
    for (int i = 0; i < 200; i++) {
        unsigned c = rnd(CLAIMS);
        char name[32];

        (void)snprintf(name, sizeof(name), "default/c%u", c);
        for (int k = 0; k < 2; k++) {
            if (held[c]) {
                bh_dra_unreserve(w[k].m, world_claim(&w[k], name)->metadata.uid);
                continue;
            }
            BH_EQ(world_allocate(&w[k], i % 2 ? "n1" : "n0", name), BH_DRA_OK);
            BH_EQ(world_reserve(&w[k], name), 0);
        }
        held[c] = !held[c];
        if (!held[c])
            continue;
        BH_STREQ(bh_str_dup(w[0].a, bh_s(world_got(&w[0]))), world_got(&w[1]));
        BH_EQ(w[0].res.score, w[1].res.score);
    }
    bh_dra_stats(w[1].m, &st);
    BH_EQ(st.scans, 3); /* of each text of claims once, for both nodes */
    for (int k = 0; k < 2; k++)
        world_done(&w[k]);
}

BH_TEST(index_changes_no_choice)
{
    rng = bh_test_seed() | 1;
    two_models(BH_DRA_FIRST_FIT);
    two_models(BH_DRA_PACK);
    two_models(BH_DRA_SPREAD);
}

BH_TEST(index_follows_slices_and_rules)
{
    struct world w;

    world_init(&w, NULL);
    pools(&w);
    claims(&w);
    BH_EQ(world_allocate(&w, "n0", "default/c0"), BH_DRA_OK);
    BH_STREQ(bh_s(world_got(&w)), "d/p0/d0 d/p0/d1");
    world_yaml(&w, "{kind: DeviceTaintRule, apiVersion: resource.k8s.io/v1beta2, metadata: {name: "
                   "r}, spec: {deviceSelector: {pool: p0, device: d0}, taint: {key: k, effect: "
                   "NoSchedule}}}\n");
    BH_EQ(world_allocate(&w, "n0", "default/c0"), BH_DRA_OK);
    BH_STREQ(bh_s(world_got(&w)), "d/p0/d1 d/p0/d2");
    bh_dra_rule_del(w.m, BH_S("r"));
    BH_EQ(world_allocate(&w, "n0", "default/c0"), BH_DRA_OK);
    BH_STREQ(bh_s(world_got(&w)), "d/p0/d0 d/p0/d1");
    /* Fewer counters, the devices as they were. */
    world_yaml(&w, "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: c0}, "
                   "spec: {driver: d, pool: {name: p0, generation: 1, resourceSliceCount: 2}, "
                   "allNodes: true, sharedCounters: [{name: cs, counters: {m: {value: '1'}}}]}}\n");
    BH_EQ(world_allocate(&w, "n0", "default/c0"), BH_DRA_OK);
    BH_STREQ(bh_s(world_got(&w)), "d/p0/d2 d/p0/s");
    bh_dra_slice_del(w.m, BH_S("s0"));
    BH_EQ(world_allocate(&w, "n1", "default/c0"), BH_DRA_OK);
    BH_STREQ(bh_s(world_got(&w)), "d/p1/d0 d/p1/d1");
    world_done(&w);
}

BH_TEST(pairs_that_no_pool_has)
{
    struct world w;
    const char *pair =
        "{requests: [{name: r, exactly: {deviceClassName: any, allocationMode: ExactCount, count: "
        "1, selectors: [{cel: {expression: \"device.attributes['d'].size == 2\"}}]}}, {name: t, "
        "exactly: {deviceClassName: any, allocationMode: ExactCount, count: 3, selectors: [{cel: "
        "{expression: \"device.attributes['d'].size == 1\"}}]}}], constraints: [{matchAttribute: "
        "d/pool}]}";

    world_init(&w, NULL);
    pools(&w);
    for (int i = 0; i < POOLS; i++) {
        BH_AUTO_BUF b = {0};

        /* Two of the four quarters are left: half of it, or two quarters, but not three. */
        bh_buf_addf(&b,
                    "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: h%d, "
                    "namespace: in-use}, spec: {devices: {}}, status: {allocation: {devices: "
                    "{results: [{request: r, driver: d, pool: p%d, device: d2}, {request: r, "
                    "driver: d, pool: p%d, device: d3}]}}}}\n",
                    i, i, i);
        world_yaml(&w, bh_buf_cstr(&b));
    }
    world_yaml(&w, bh_str_fmt(w.a,
                              "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, "
                              "metadata: {name: c, namespace: default}, spec: {devices: "
                              "%s}}\n",
                              pair)
                       .p);
    for (int scoring = BH_DRA_FIRST_FIT; scoring <= BH_DRA_SPREAD; scoring++) {
        w.opts.scoring = (enum bh_dra_scoring)scoring;
        BH_EQ(world_allocate(&w, "n0", "default/c"), BH_DRA_NO_SOLUTION);
        BH_CHECK(w.res.steps < 5); /* no first device was tried */
    }
    world_done(&w);
}

BH_TEST(index_is_bounded)
{
    struct world w;
    struct bh_dra_stats st;

    world_init(&w, NULL);
    pools(&w);
    claims(&w);
    w.m->index_max = 2 * 7 * POOLS; /* one scan of one request */
    BH_EQ(world_allocate(&w, "n0", "default/c0"), BH_DRA_OK);
    BH_EQ(world_allocate(&w, "n0", "default/c1"), BH_DRA_OK);
    BH_STREQ(bh_s(world_got(&w)), "d/p0/d0");
    bh_dra_stats(w.m, &st);
    BH_EQ(st.scans, 1); /* the other one is in use */
    for (int i = 0; i < 4100; i++)
        BH_EQ(world_allocate(&w, "n0", "default/c1"), BH_DRA_OK);
    bh_dra_stats(w.m, &st);
    BH_EQ(st.scans, 2); /* it was not used for long */
    BH_CHECK(w.m->index_load <= w.m->index_max);
    BH_EQ(world_allocate(&w, "n0", "default/c2"), BH_DRA_OK); /* never fits */
    world_done(&w);
}
