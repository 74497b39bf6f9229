/* That an event which cannot help costs no attempt, and that one which can does wake: plugin by
 * plugin, with many pods that wait. */
#include <stdio.h>

#include "scheduler/sched_int.h"
#include "scheduler/world_test.h"

#define WAITING 40

typedef void (*act)(struct world *w);

static void node_patch(struct world *w, const char *name, const char *sub, const char *json)
{
    BH_EQ(world_patch(w, &bh_core_v1_node_kind, "", name, sub, json), 200);
}

static void pod_on(struct world *w, const char *name, const char *app, const char *more)
{
    struct bh_str json =
        bh_str_fmt(w->a,
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"app\":\"%s\"}},\"spec\":{"
                   "\"nodeName\":\"oak\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"%s}]}}",
                   name, app, more);

    BH_EQ(world_create(w, &bh_core_v1_pod_kind, "default", json.p), 201);
}

/* ---- what happens ---- */

static void guest_leaves(struct world *w)
{
    /* A running pod goes only when its kubelet says so; here nobody has to be asked. */
    BH_EQ(world_delete(w, &bh_core_v1_pod_kind, "default", "guest"), 200);
}
static void stranger_comes(struct world *w)
{
    pod_on(w, "stranger", "other", "");
}
static void friend_comes(struct world *w)
{
    pod_on(w, "friend", "db", "");
}
static void holder_leaves(struct world *w)
{
    BH_EQ(world_delete(w, &bh_core_v1_pod_kind, "default", "holder"), 200);
}
static void oak_is_annotated(struct world *w)
{
    node_patch(w, "oak", "", "{\"metadata\":{\"annotations\":{\"a\":\"b\"}}}");
}
static void oak_is_relabelled(struct world *w)
{
    node_patch(w, "oak", "", "{\"metadata\":{\"labels\":{\"rack\":\"7\"}}}");
}
static void oak_is_fast(struct world *w)
{
    node_patch(w, "oak", "", "{\"metadata\":{\"labels\":{\"tier\":\"fast\"}}}");
}
static void oak_grows(struct world *w)
{
    node_patch(w, "oak", "status", "{\"status\":{\"allocatable\":{\"cpu\":\"64\"}}}");
}
static void oak_grows_a_little(struct world *w)
{
    node_patch(w, "oak", "status", "{\"status\":{\"allocatable\":{\"cpu\":\"5\"}}}");
}
static void oak_gets_a_taint(struct world *w)
{
    node_patch(w, "oak", "",
               "{\"spec\":{\"taints\":[{\"key\":\"k\",\"effect\":\"NoSchedule\"},{\"key\":\"x\","
               "\"effect\":\"NoSchedule\"}]}}");
}
static void oak_loses_its_taints(struct world *w)
{
    node_patch(w, "oak", "", "{\"spec\":{\"taints\":null}}");
}
static void oak_is_uncordoned(struct world *w)
{
    node_patch(w, "oak", "", "{\"spec\":{\"unschedulable\":null}}");
}
static void claim_comes(struct world *w)
{
    world_claim(w, "unrelated");
}
static void class_comes(struct world *w)
{
    BH_EQ(world_create(w, &bh_resource_v1_device_class_kind, "",
                       "{\"metadata\":{\"name\":\"fpga\"},\"spec\":{\"extendedResourceName\":"
                       "\"example.com/fpga\"}}"),
          201);
}
static void gpus_come(struct world *w)
{
    world_gpus(w, "oak", 2, "");
}

/* ---- plugin by plugin ---- */

static const struct {
    const char *plugin;
    const char *oak;       /* fields of its spec */
    const char *cpu, *ask; /* of those that wait */
    bool claim;
    act useless[5];
    act useful;
} table[] = {
    {.plugin = "NodeResourcesFit",
     .oak = "",
     .cpu = "8",
     .ask = "",
     .useless = {guest_leaves, oak_is_annotated, oak_is_relabelled, oak_grows_a_little,
                 class_comes},
     .useful = oak_grows},
    {.plugin = "TaintToleration",
     .oak = "\"taints\":[{\"key\":\"k\",\"effect\":\"NoSchedule\"}]",
     .cpu = "1",
     .ask = "",
     .useless = {guest_leaves, stranger_comes, oak_is_relabelled, oak_grows, oak_gets_a_taint},
     .useful = oak_loses_its_taints},
    {.plugin = "NodeUnschedulable",
     .oak = "\"unschedulable\":true",
     .cpu = "1",
     .ask = "",
     .useless = {guest_leaves, stranger_comes, oak_is_relabelled, oak_grows, oak_gets_a_taint},
     .useful = oak_is_uncordoned},
    {.plugin = "NodeAffinity",
     .oak = "",
     .cpu = "1",
     .ask = "\"nodeSelector\":{\"tier\":\"fast\"}",
     .useless = {guest_leaves, stranger_comes, oak_is_relabelled, oak_grows, oak_gets_a_taint},
     .useful = oak_is_fast},
    {.plugin = "NodePorts",
     .oak = "",
     .cpu = "100m",
     .ask = NULL, /* a host port, which world_pod() does not offer */
     .useless = {guest_leaves, stranger_comes, oak_is_relabelled, oak_grows, oak_is_annotated},
     .useful = holder_leaves},
    {.plugin = "InterPodAffinity",
     .oak = "",
     .cpu = "100m",
     .ask = "\"affinity\":{\"podAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":[{"
            "\"topologyKey\":\"kubernetes.io/hostname\",\"labelSelector\":{\"matchLabels\":{"
            "\"app\":\"db\"}}}]}}",
     .useless = {guest_leaves, stranger_comes, oak_is_annotated, oak_grows, claim_comes},
     .useful = friend_comes},
    {.plugin = "DynamicResources",
     .oak = "",
     .cpu = "100m",
     .ask = "",
     .claim = true,
     .useless = {guest_leaves, stranger_comes, oak_is_annotated, oak_grows, claim_comes},
     .useful = gpus_come},
};

static void make_waiting(struct world *w, size_t k, int i)
{
    char name[32], claim[32];

    snprintf(name, sizeof(name), "p-%d", i);
    if (table[k].claim) {
        snprintf(claim, sizeof(claim), "c-%d", i);
        world_claim(w, claim);
        world_claim_pod(w, name, claim);
    } else if (table[k].ask) {
        world_pod(w, name, table[k].cpu, table[k].ask);
    } else {
        BH_EQ(world_create(w, &bh_core_v1_pod_kind, "default",
                           bh_str_fmt(w->a,
                                      "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"containers\":[{"
                                      "\"name\":\"c\",\"image\":\"i\",\"ports\":[{"
                                      "\"containerPort\":80,\"hostPort\":80}]}]}}",
                                      name)
                               .p),
              201);
    }
}

BH_TEST(what_cannot_help_costs_no_attempt)
{
    for (size_t k = 0; k < BH_COUNT(table); k++) {
        struct world w;
        uint64_t before;

        world_init(&w);
        world_node(&w, "oak", "4", table[k].oak);
        world_class(&w);
        pod_on(&w, "guest", "other", "");
        pod_on(&w, "holder", "other", ",\"ports\":[{\"containerPort\":80,\"hostPort\":80}]");
        world_start(&w);
        world_run(&w, 200);
        for (int i = 0; i < WAITING; i++)
            make_waiting(&w, k, i);
        world_run(&w, 20000); /* nobody sits out a back-off any more */
        BH_EQ(w.sched->waiting_n, WAITING);
        before = w.sched->stats.attempts;
        for (size_t i = 0; i < BH_COUNT(table[k].useless); i++) {
            table[k].useless[i](&w);
            world_run(&w, 2000);
            if (w.sched->stats.attempts != before)
                bh_test_fail(__FILE__, __LINE__, "%s: event %zu woke %llu pods", table[k].plugin, i,
                             (unsigned long long)(w.sched->stats.attempts - before));
        }
        if (table[k].useful == oak_is_uncordoned || table[k].useful == oak_is_fast)
            oak_loses_its_taints(&w);
        table[k].useful(&w);
        world_run(&w, 2000);
        if (w.sched->stats.attempts == before)
            bh_test_fail(__FILE__, __LINE__, "%s: nobody was woken", table[k].plugin);
        BH_CHECK(w.sched->waiting_n < WAITING);
        world_done(&w);
    }
}

/* Room for a pod whose extended resource comes from devices: a node does not list that one. */
BH_TEST(room_for_a_pod_with_devices_by_extended_resource)
{
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    BH_EQ(world_create(&w, &bh_resource_v1_device_class_kind, "",
                       "{\"metadata\":{\"name\":\"gpu\"},\"spec\":{\"extendedResourceName\":"
                       "\"example.com/gpu\"}}"),
          201);
    world_gpus(&w, "oak", 2, "");
    pod_on(&w, "guest", "other", ",\"resources\":{\"requests\":{\"cpu\":\"3\"}}");
    world_start(&w);
    world_run(&w, 200);
    BH_EQ(world_create(&w, &bh_core_v1_pod_kind, "default",
                       "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                       "\"image\":\"i\",\"resources\":{\"requests\":{\"cpu\":\"2\"},\"limits\":{"
                       "\"cpu\":\"2\",\"example.com/gpu\":\"1\"}}}]}}"),
          201);
    world_run(&w, 5000);
    BH_STREQ(world_node_of(&w, "p"), "");
    guest_leaves(&w);
    world_run(&w, 5000);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    world_done(&w);
}

/* The same in number: one attempt each when they come, none afterwards. */
BH_TEST(ten_thousand_that_cannot_fit_cost_nothing)
{
    const int n = 10000;
    struct world w;
    uint64_t before;
    char name[32];

    world_init(&w);
    world_node(&w, "oak", "4", "");
    pod_on(&w, "guest", "other", "");
    world_start(&w);
    world_run(&w, 200);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "p-%d", i);
        world_pod(&w, name, "8", "");
    }
    world_run(&w, 20000);
    before = w.sched->stats.attempts;
    BH_EQ(w.sched->waiting_n, (size_t)n);
    BH_EQ(before, (uint64_t)n);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "s-%d", i);
        oak_is_annotated(&w);
        pod_on(&w, name, "other", "");
        BH_EQ(world_delete(&w, &bh_core_v1_pod_kind, "default", name), 200);
    }
    guest_leaves(&w);
    oak_grows_a_little(&w);
    oak_is_relabelled(&w);
    world_run(&w, 2000);
    BH_EQ(w.sched->stats.attempts, before);
    world_done(&w);
}
