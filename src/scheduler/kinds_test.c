/* That pods of one kind are placed exactly as if each had been judged on its own. */
#include <stdio.h>

#include "scheduler/sched_int.h"
#include "scheduler/world_test.h"

#define NODES 130 /* more than are looked at for one pod */
#define PODS  160

static const char *const asks[] = {
    "",
    "\"nodeSelector\":{\"tier\":\"fast\"}",
    "\"tolerations\":[{\"key\":\"k\",\"operator\":\"Exists\"}]",
    "\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{"
    "\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"tier\",\"operator\":\"NotIn\","
    "\"values\":[\"fast\"]}]}]}}}",
};

static uint32_t next(uint32_t *r)
{
    *r = *r * 1664525u + 1013904223u;
    return *r >> 8;
}

static void make_nodes(struct world *w, bool alone)
{
    char name[32], cpu[8];

    for (int i = 0; i < NODES; i++) {
        snprintf(name, sizeof(name), "n-%03d", i);
        snprintf(cpu, sizeof(cpu), "%d", 2 + i % 5);
        world_node(w, name, cpu,
                   i % 7 == 3 ? "\"taints\":[{\"key\":\"k\",\"effect\":\"NoSchedule\"}]" : "");
        if (i % 3 == 0)
            BH_EQ(world_patch(w, &bh_core_v1_node_kind, "", name, "",
                              "{\"metadata\":{\"labels\":{\"tier\":\"fast\"}}}"),
                  200);
    }
    /* A node for nobody. Its soft taint, which weighs nodes against each other, makes the scheduler
     * judge every pod on its own. */
    world_node(w, "nobody", "1",
               alone ? "\"unschedulable\":true,\"taints\":[{\"key\":\"x\",\"effect\":"
                       "\"PreferNoSchedule\"}]"
                     : "\"unschedulable\":true");
}

static void disturb(struct world *w, uint32_t *r)
{
    char name[32], body[96];

    snprintf(name, sizeof(name), "n-%03u", next(r) % NODES);
    switch (next(r) % 3) {
    case 0:
        snprintf(body, sizeof(body), "{\"spec\":{\"unschedulable\":%s}}",
                 next(r) % 2 ? "true" : "false");
        (void)world_patch(w, &bh_core_v1_node_kind, "", name, "", body); /* the node may be gone */
        break;
    case 1:
        snprintf(body, sizeof(body), "{\"status\":{\"allocatable\":{\"cpu\":\"%u\"}}}",
                 1 + next(r) % 8);
        (void)world_patch(w, &bh_core_v1_node_kind, "", name, "status", body);
        break;
    default:
        snprintf(body, sizeof(body), "{\"metadata\":{\"labels\":{\"tier\":\"%s\"}}}",
                 next(r) % 2 ? "fast" : "slow");
        (void)world_patch(w, &bh_core_v1_node_kind, "", name, "", body); /* the node may be gone */
    }
}

/* The same story; where[i]: the node of pod i. */
static void play(bool alone, uint32_t seed, char where[PODS][32], size_t *ret_kinds)
{
    struct world w;
    uint32_t r = seed;
    char name[32];

    world_init(&w);
    make_nodes(&w, alone);
    world_start(&w);
    world_run(&w, 200);
    for (int i = 0; i < PODS; i++) {
        uint32_t kind = next(&r);

        snprintf(name, sizeof(name), "p-%d", i);
        world_pod(&w, name, kind % 2 ? "500m" : "1", asks[kind / 2 % BH_COUNT(asks)]);
        if (next(&r) % 4 == 0) {
            world_run(&w, 100);
            disturb(&w, &r);
        }
        if (next(&r) % 6 == 0 && i > 0) {
            world_run(&w, 100);
            snprintf(name, sizeof(name), "p-%u", next(&r) % (uint32_t)i);
            (void)world_delete(&w, &bh_core_v1_pod_kind, "default", name);
        }
        if (i == PODS / 2) { /* the order of the nodes changes */
            world_run(&w, 100);
            BH_EQ(world_delete(&w, &bh_core_v1_node_kind, "", "n-005"), 200);
        }
    }
    world_run(&w, 2000);
    for (int i = 0; i < PODS; i++) {
        snprintf(name, sizeof(name), "p-%d", i);
        snprintf(where[i], 32, "%.*s", BH_SF(world_node_of(&w, name)));
    }
    *ret_kinds = sched_kinds_count(w.sched);
    world_done(&w);
}

BH_TEST(pods_of_a_kind_go_where_each_would_go_alone)
{
    static char a[PODS][32], b[PODS][32];
    size_t kinds, none, placed = 0;

    for (uint32_t seed = 1; seed <= 3; seed++) {
        play(false, seed, a, &kinds);
        play(true, seed, b, &none);
        BH_EQ(kinds, 2 * BH_COUNT(asks));
        BH_EQ(none, 0);
        for (int i = 0; i < PODS; i++) {
            BH_STREQ(bh_s(a[i]), b[i]);
            placed += a[i][0] == 'n';
        }
    }
    BH_CHECK(placed > (size_t)PODS);
}
