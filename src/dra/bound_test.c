/* When the search gives up. */
#include "base/test.h"
#include "dra/dra_world_test.h"

static void claim(struct world *w, const char *name, int count)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addf(&b,
                "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: %s, "
                "namespace: default}, spec: {devices: {requests: [{name: r, exactly: "
                "{deviceClassName: any, allocationMode: ExactCount, count: %d}}]}}}\n",
                name, count);
    world_yaml(w, bh_buf_cstr(&b));
}

BH_TEST(hopeless_sets_are_not_all_tried)
{
    struct world w;
    BH_AUTO_BUF b = {0};

    world_init(&w, NULL);
    world_yaml(&w, "{kind: Node, apiVersion: v1, metadata: {name: n1}}\n---\n"
                   "{kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: any}, "
                   "spec: {}}\n---\n"
                   "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: s0}, "
                   "spec: {driver: d, pool: {name: p, generation: 1, resourceSliceCount: 2}, "
                   "nodeName: n1, sharedCounters: [{name: cs, counters: {m: {value: '155'}}}]}}\n");
    /* The first is so big that no fourteen fit with it, though any fifteen of the others do. */
    bh_buf_addz(&b, "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: s1}, "
                    "spec: {driver: d, pool: {name: p, generation: 1, resourceSliceCount: 2}, "
                    "nodeName: n1, devices: [");
    for (int i = 0; i < 20; i++)
        bh_buf_addf(&b,
                    "%s{name: d%d, attributes: {x: {int: %d}}, consumesCounters: [{counterSet: cs, "
                    "counters: {m: {value: '%d'}}}]}",
                    i ? ", " : "", i, i, i ? 10 : 20);
    bh_buf_addz(&b, "]}}\n");
    world_yaml(&w, bh_buf_cstr(&b));
    claim(&w, "fits", 15);
    claim(&w, "too-many", 16);
    for (int i = 0; i < 2; i++) {
        BH_EQ(world_allocate(&w, "n1", "default/fits"), BH_DRA_OK);
        BH_STREQ(bh_s(world_got(&w)), "d/p/d1 d/p/d2 d/p/d3 d/p/d4 d/p/d5 d/p/d6 d/p/d7 d/p/d8 "
                                      "d/p/d9 d/p/d10 d/p/d11 d/p/d12 d/p/d13 d/p/d14 d/p/d15");
        BH_CHECK(w.res.steps < 1000);
        BH_EQ(world_allocate(&w, "n1", "default/too-many"), BH_DRA_NO_SOLUTION);
        BH_CHECK(w.res.steps < 1000);
        world_index(&w);
    }
    world_done(&w);
}
