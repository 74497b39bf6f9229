/* The scheduler against a real API server, on the virtual loop. */
#include "scheduler/world_test.h"

BH_TEST(a_pod_gets_the_emptier_node)
{
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_node(&w, "elm", "8", "");
    world_start(&w);
    world_pod(&w, "p", "1", "");
    world_run(&w, 200);
    BH_STREQ(world_node_of(&w, "p"), "elm");
    world_done(&w);
}

BH_TEST(what_does_not_fit_waits_for_a_node)
{
    struct world w;

    world_init(&w);
    world_start(&w);
    world_pod(&w, "p", "3", "");
    world_run(&w, 200);
    BH_STREQ(world_message(&w, "p"), "no nodes available to schedule pods");
    world_node(&w, "oak", "2", "");
    world_run(&w, 2000);
    BH_STREQ(world_message(&w, "p"),
             "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
             "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
    world_node(&w, "elm", "4", "");
    world_run(&w, 3000);
    BH_STREQ(world_node_of(&w, "p"), "elm");
    world_done(&w);
}

BH_TEST(a_claim_gets_a_device)
{
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_class(&w);
    world_gpus(&w, "oak", 2, "");
    world_start(&w);
    world_claim(&w, "a");
    world_claim(&w, "b");
    world_claim(&w, "c");
    world_claim_pod(&w, "pa", "a");
    world_claim_pod(&w, "pb", "b");
    world_claim_pod(&w, "pc", "c");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "pa"), "oak");
    BH_STREQ(world_node_of(&w, "pb"), "oak");
    BH_STREQ(world_device(&w, "a"), "gpu-0");
    BH_STREQ(world_device(&w, "b"), "gpu-1");
    BH_STREQ(world_node_of(&w, "pc"), "");
    BH_CHECK(bh_str_starts(world_message(&w, "pc"),
                           BH_S("0/1 nodes are available: 1 cannot allocate all claims. still not "
                                "schedulable, preemption: 0/1 nodes are available: 1 Preemption is "
                                "not helpful for scheduling.")));
    BH_CHECK(bh_str_find(world_message(&w, "pc"), BH_S("2 devices in use")) > 0);
    world_done(&w);
}

BH_TEST(the_message_names_device_taint_and_request)
{
    struct world w;
    struct bh_str m;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_class(&w);
    world_gpus(&w, "oak", 1,
               "{\"key\":\"gpu.bulkhead.dev/xid\",\"value\":\"79\",\"effect\":\"NoExecute\"}");
    world_start(&w);
    world_claim(&w, "a");
    world_claim_pod(&w, "pa", "a");
    world_run(&w, 500);
    m = world_message(&w, "pa");
    BH_CHECK(bh_str_find(m, BH_S("request \"gpu\": gpu-0 has taint "
                                 "gpu.bulkhead.dev/xid=79:NoExecute")) > 0);
    BH_EQ(world_patch(&w, &bh_resource_v1_resource_slice_kind, "", "s-oak", "",
                      "{\"spec\":{\"devices\":[{\"name\":\"gpu-0\"}]}}"),
          200);
    world_run(&w, 3000);
    BH_STREQ(world_device(&w, "a"), "gpu-0");
    BH_STREQ(world_node_of(&w, "pa"), "oak");
    world_done(&w);
}
