/* Choosing between devices that all would do. */
#include <stdio.h>

#include "base/test.h"
#include "dra/dra_world_test.h"

/* Eight GPUs: pairs behind one PCIe root, fours on one NUMA node. */
static void begin(struct world *w, enum bh_dra_scoring scoring)
{
    BH_AUTO_BUF b = {0};

    world_init(w, NULL);
    w->opts.scoring = scoring;
    bh_buf_addz(&b, "{kind: Node, apiVersion: v1, metadata: {name: node}}\n---\n"
                    "{kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: any}, "
                    "spec: {}}\n---\n"
                    "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: s}, "
                    "spec: {driver: d, pool: "
                    "{name: p, generation: 1, resourceSliceCount: 1}, nodeName: node, devices: [");
    for (int i = 0; i < 8; i++)
        bh_buf_addf(&b,
                    "%s{name: g%d, attributes: {nvlinkDomain: {string: x}, "
                    "resource.kubernetes.io/numaNode: {int: "
                    "%d}, resource.kubernetes.io/pcieRoot: {string: r%d}}}",
                    i ? ", " : "", i, i / 4, i / 2);
    bh_buf_addz(&b, "]}}");
    world_yaml(w, bh_buf_cstr(&b));
    for (int i = 1; i <= 4; i++) {
        bh_buf_clear(&b);
        bh_buf_addf(
            &b,
            "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: c%d, "
            "namespace: default}, "
            "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: any, allocationMode: "
            "ExactCount, count: %d}}]}}}",
            i, i);
        world_yaml(w, bh_buf_cstr(&b));
    }
}

static void held(struct world *w, const char *device)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addf(&b,
                "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: held-%s, "
                "namespace: default}, "
                "spec: {devices: {}}, status: {allocation: {devices: {results: [{request: r, "
                "driver: d, pool: p, "
                "device: %s}]}}}}",
                device, device);
    world_yaml(w, bh_buf_cstr(&b));
}

#define WANT(w_, claims, text)                                                                     \
    do {                                                                                           \
        BH_EQ(world_allocate((w_), "node", (claims)), BH_DRA_OK);                                  \
        BH_STREQ(bh_s(world_got(w_)), text);                                                       \
    } while (0)

BH_TEST(score_pack)
{
    struct world w;

    begin(&w, BH_DRA_PACK);
    WANT(&w, "default/c1", "d/p/g0");
    WANT(&w, "default/c2", "d/p/g0 d/p/g1");
    held(&w, "g0");
    WANT(&w, "default/c1", "d/p/g1"); /* the pair is broken already */
    WANT(&w, "default/c2", "d/p/g2 d/p/g3");
    WANT(&w, "default/c3", "d/p/g1 d/p/g2 d/p/g3");
    WANT(&w, "default/c4", "d/p/g4 d/p/g5 d/p/g6 d/p/g7");
    held(&w, "g2");
    WANT(&w, "default/c2", "d/p/g4 d/p/g5"); /* behind one root */
    BH_CHECK(w.res.score > 0 && w.res.score <= 100);
    world_done(&w);
}

BH_TEST(score_spread)
{
    struct world w;

    begin(&w, BH_DRA_SPREAD);
    held(&w, "g0");
    WANT(&w, "default/c1", "d/p/g4"); /* the other NUMA node */
    WANT(&w, "default/c2", "d/p/g4 d/p/g5");
    world_done(&w);
}

BH_TEST(score_requests_near_each_other)
{
    struct world w;

    begin(&w, BH_DRA_PACK);
    held(&w, "g0");
    held(&w, "g2");
    WANT(&w, "default/c1 default/c2", "d/p/g1 | d/p/g4 d/p/g5");
    WANT(&w, "default/c2 default/c1", "d/p/g4 d/p/g5 | d/p/g6");
    world_done(&w);
}

BH_TEST(score_least_waste)
{
    struct world w;

    begin(&w, BH_DRA_PACK);
    world_yaml(&w,
               "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: s}, "
               "spec: {driver: d, pool: "
               "{name: p, generation: 1, resourceSliceCount: 1}, nodeName: node, devices: [{name: "
               "big, capacity: "
               "{m: {value: 80Gi}}}, {name: small, capacity: {m: {value: 40Gi}}}]}}\n---\n"
               "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: m, "
               "namespace: default}, "
               "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: any, "
               "allocationMode: ExactCount, "
               "count: 1, capacity: {requests: {m: 50Gi}}}}]}}}");
    WANT(&w, "default/c1", "d/p/small");
    WANT(&w, "default/m", "d/p/big");
    w.opts.scoring = BH_DRA_FIRST_FIT;
    WANT(&w, "default/c1", "d/p/big");
    world_done(&w);
}

BH_TEST(
    score_broken_gpu_first) /* a partition of a GPU that is in use already, not of a whole one */
{
    struct world w;
    BH_AUTO_BUF b = {0};

    begin(&w, BH_DRA_PACK);
    bh_buf_addz(&b, "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: s}, "
                    "spec: {driver: d, pool: "
                    "{name: p, generation: 1, resourceSliceCount: 2}, nodeName: node, devices: [");
    for (int g = 0; g < 2; g++)
        for (int i = 0; i < 2; i++)
            bh_buf_addf(&b,
                        "%s{name: g%d-%d, consumesCounters: [{counterSet: g%d, counters: {m: "
                        "{value: '1'}}}]}",
                        g + i ? ", " : "", g, i, g);
    bh_buf_addz(&b, "]}}\n---\n{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: "
                    "{name: t}, spec: {driver: "
                    "d, pool: {name: p, generation: 1, resourceSliceCount: 2}, nodeName: node, "
                    "sharedCounters: [{name: "
                    "g0, counters: {m: {value: '2'}}}, {name: g1, counters: {m: {value: '2'}}}]}}");
    world_yaml(&w, bh_buf_cstr(&b));
    WANT(&w, "default/c1", "d/p/g0-0");
    held(&w, "g1-0");
    WANT(&w, "default/c1", "d/p/g1-1");
    w.opts.scoring = BH_DRA_SPREAD;
    WANT(&w, "default/c1", "d/p/g0-0");
    world_done(&w);
}

static void claim_with(struct world *w, const char *name, const char *topology, int count)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addf(&b,
                "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: %s, "
                "namespace: default, annotations: {bulkhead.dev/device-topology: '%s'}}, "
                "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: any, "
                "allocationMode: ExactCount, count: %d}}]}}}",
                name, topology, count);
    world_yaml(w, bh_buf_cstr(&b));
}

BH_TEST(score_topology_annotation)
{
    struct world w;

    begin(&w, BH_DRA_PACK);
    claim_with(&w, "near", "pcie,numa", 2);
    claim_with(&w, "apart", "-numa", 2);
    claim_with(&w, "roots", "numa, -pcie", 2);
    claim_with(&w, "odd", "planet,-moon", 2);
    WANT(&w, "default/near", "d/p/g0 d/p/g1");
    WANT(&w, "default/apart", "d/p/g0 d/p/g4");
    BH_CHECK(w.res.score > 50);                 /* as it was wanted */
    WANT(&w, "default/roots", "d/p/g0 d/p/g2"); /* one NUMA node, two roots */
    BH_EQ(world_allocate(&w, "node", "default/odd"), BH_DRA_OK);
    w.opts.scoring = BH_DRA_FIRST_FIT;
    WANT(&w, "default/apart", "d/p/g0 d/p/g1"); /* as upstream */
    world_done(&w);
}

BH_TEST(score_gpu_and_nic_behind_one_root)
{
    struct world w;

    begin(&w, BH_DRA_PACK);
    world_yaml(&w,
               "{kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: nic}, spec: "
               "{selectors: [{cel: {expression: device.driver == 'nic'}}]}}\n---\n"
               "{kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: any}, spec: "
               "{selectors: [{cel: {expression: device.driver == 'd'}}]}}\n---\n"
               "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: nics}, "
               "spec: {driver: nic, pool: {name: q, generation: 1, resourceSliceCount: 1}, "
               "nodeName: node, devices: ["
               "{name: n0, attributes: {resource.kubernetes.io/pcieRoot: {string: r1}, "
               "resource.kubernetes.io/numaNode: {int: 0}}}, "
               "{name: n1, attributes: {resource.kubernetes.io/pcieRoot: {string: r2}, "
               "resource.kubernetes.io/numaNode: {int: 1}}}]}}\n---\n"
               "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: net, "
               "namespace: default}, spec: {devices: {requests: [{name: r, exactly: "
               "{deviceClassName: nic, allocationMode: ExactCount, count: 1}}]}}}");
    held(&w, "g0");
    held(&w, "g1");
    held(&w, "g2");
    WANT(&w, "default/net default/c1", "nic/q/n0 | d/p/g3");
    held(&w, "g3");
    WANT(&w, "default/c1 default/net", "d/p/g4 | nic/q/n1");
    world_done(&w);
}
