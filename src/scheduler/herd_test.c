/* Waiting pods that failed alike: one goes ahead, the others follow only where that makes sense. */
#include <stdio.h>

#include "scheduler/sched_int.h"
#include "scheduler/world_test.h"

#define WAITING 60

static void start(struct world *w, bool claims)
{
    char name[32], claim[32];

    world_init(w);
    world_node(w, "oak", "4", "");
    world_class(w);
    if (claims)
        world_gpus(w, "oak", 2, "");
    world_start(w);
    world_run(w, 200);
    for (int i = 0; i < WAITING; i++) {
        snprintf(name, sizeof(name), "p-%02d", i);
        snprintf(claim, sizeof(claim), "c-%02d", i);
        if (claims) {
            world_claim(w, claim);
            world_claim_pod(w, name, claim);
        } else {
            world_pod(w, name, "2", "");
        }
        world_run(w, 10); /* so that the earlier one is the earlier one */
    }
    world_run(w, 20000);
}

BH_TEST(a_freed_place_costs_two_attempts)
{
    struct world w;
    uint64_t before;

    start(&w, false);
    BH_EQ(w.sched->waiting_n, WAITING - 2);
    before = w.sched->stats.attempts;
    BH_EQ(world_delete(&w, &bh_core_v1_pod_kind, "default", "p-00"), 200);
    world_run(&w, 3000);
    /* The one that was first gets it; the next one finds out that it was the only one. */
    BH_STREQ(world_node_of(&w, "p-02"), "oak");
    BH_EQ(w.sched->waiting_n, WAITING - 3);
    BH_CHECK(w.sched->stats.attempts - before <= 2);
    world_done(&w);
}

BH_TEST(a_freed_device_costs_two_attempts)
{
    struct world w;
    uint64_t before;

    start(&w, true);
    BH_EQ(w.sched->waiting_n, WAITING - 2);
    before = w.sched->stats.attempts;
    BH_EQ(world_delete(&w, &bh_core_v1_pod_kind, "default", "p-00"), 200);
    BH_EQ(world_patch(&w, &bh_resource_v1_resource_claim_kind, "default", "c-00", "status",
                      "{\"status\":null}"),
          200);
    world_run(&w, 3000);
    BH_STREQ(world_node_of(&w, "p-02"), "oak");
    BH_EQ(w.sched->waiting_n, WAITING - 3);
    BH_CHECK(w.sched->stats.attempts - before <= 2);
    world_done(&w);
}

BH_TEST(room_for_many_is_filled_by_many)
{
    struct world w;

    start(&w, false);
    BH_EQ(world_patch(&w, &bh_core_v1_node_kind, "", "oak", "status",
                      "{\"status\":{\"allocatable\":{\"cpu\":\"40\"}}}"),
          200);
    world_run(&w, 3000);
    BH_EQ(w.sched->waiting_n, WAITING - 20); /* 20 pods is what the node takes */
    world_done(&w);
}

BH_TEST(everybody_is_told_what_changed)
{
    struct world w;

    start(&w, false);
    world_node(&w, "elm", "1", "");
    world_run(&w, 3000);
    BH_EQ(w.sched->waiting_n, WAITING - 2);
    BH_CHECK(bh_str_starts(world_message(&w, "p-02"), BH_S("0/2 nodes are available")));
    BH_CHECK(bh_str_starts(world_message(&w, "p-59"), BH_S("0/2 nodes are available")));
    world_done(&w);
}

/* The one that would go ahead has lost its claim. */
BH_TEST(a_lost_scout_is_replaced)
{
    struct world w;

    start(&w, true);
    BH_EQ(world_delete(&w, &bh_core_v1_pod_kind, "default", "p-00"), 200);
    BH_EQ(world_delete(&w, &bh_resource_v1_resource_claim_kind, "default", "c-02"), 200);
    BH_EQ(world_patch(&w, &bh_resource_v1_resource_claim_kind, "default", "c-00", "status",
                      "{\"status\":null}"),
          200);
    world_run(&w, 3000);
    BH_STREQ(world_node_of(&w, "p-02"), "");
    BH_STREQ(world_node_of(&w, "p-03"), "oak");
    world_done(&w);
}
