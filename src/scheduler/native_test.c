/* Devices that stand for cpu and memory of their node. */
#include <string.h>

#include "api/gen/scheduling_v1alpha2.h"
#include "scheduler/sched_int.h"
#include "scheduler/world_test.h"

/* JSON with single quotes. */
static const char *q(struct world *w, const char *text)
{
    char *s = bh_arena_memdup(w->a, text, strlen(text) + 1);

    for (char *p = s; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    return s;
}

/* A node of 8 cpus and 8Gi with one device of four cpus, and one that can be shared by core. */
static void begin(struct world *w)
{
    world_init_with(w, "DRANodeAllocatableResources=true", bh_test_seed());
    world_node(w, "oak", "8", "");
    BH_EQ(world_create(
              w, &bh_resource_v1_resource_slice_kind, "",
              q(w, "{'metadata':{'name':'s'},'spec':{'driver':'cpu.example.com','pool':{'name':"
                   "'oak','generation':1,'resourceSliceCount':1},'nodeName':'oak','devices':["
                   "{'name':'quad','attributes':{'kind':{'string':'whole'}},"
                   "'nodeAllocatableResourceMappings':{'cpu':{'allocationMultiplier':'4'},"
                   "'memory':{'allocationMultiplier':'1Gi'}}},"
                   "{'name':'cores','attributes':{'kind':{'string':'cores'}},"
                   "'allowMultipleAllocations':true,'capacity':{'cores':{'value':'16'}},"
                   "'nodeAllocatableResourceMappings':{'cpu':{'capacityKey':'cores',"
                   "'allocationMultiplier':'500m'}}}]}}")),
          201);
    for (int i = 0; i < 2; i++) {
        const char *kind = i ? "cores" : "whole";

        BH_EQ(world_create(
                  w, &bh_resource_v1_device_class_kind, "",
                  q(w, bh_str_fmt(w->a,
                                  "{'metadata':{'name':'%s'},'spec':{'selectors':[{'cel':{"
                                  "'expression':'device.attributes[\\'cpu.example.com\\'].kind == "
                                  "\\'%s\\''}}]}}",
                                  kind, kind)
                           .p)),
              201);
    }
    world_start(w);
}

static void claim(struct world *w, const char *name, const char *class, const char *more)
{
    BH_EQ(world_create(w, &bh_resource_v1_resource_claim_kind, "default",
                       q(w, bh_str_fmt(w->a,
                                       "{'metadata':{'name':'%s'},'spec':{'devices':{'requests':[{"
                                       "'name':'r','exactly':{'deviceClassName':'%s'%s}}]}}}",
                                       name, class, more)
                                .p)),
          201);
}

static void pod(struct world *w, const char *name, const char *claim_name, const char *cpu,
                const char *uses, const char *more)
{
    BH_EQ(world_create(
              w, &bh_core_v1_pod_kind, "default",
              q(w, bh_str_fmt(w->a,
                              "{'metadata':{'name':'%s'},'spec':{'resourceClaims':[{'name':'d',"
                              "'resourceClaimName':'%s'}],'containers':[{'name':'c','image':'i',"
                              "'resources':{'requests':{'cpu':'%s'}%s}}]%s}}",
                              name, claim_name, cpu, uses, more)
                       .p)),
          201);
    world_run(w, 1000);
}

#define USES ",'claims':[{'name':'d'}]"

static const struct bh_core_v1_node_allocatable_resource_claim_status *told(struct world *w,
                                                                            const char *name)
{
    const struct bh_core_v1_pod *p = world_get(w, &bh_core_v1_pod_kind, "default", name);

    if (!p || p->status.node_allocatable_resource_claim_statuses.n != 1) {
        bh_test_fail(__FILE__, __LINE__, "%s says nothing of its node's resources", name);
        return NULL;
    }
    return &p->status.node_allocatable_resource_claim_statuses.p[0];
}

BH_TEST(what_a_device_stands_for_is_counted_and_told)
{
    const struct bh_core_v1_node_allocatable_resource_claim_status *st;
    struct world w;

    begin(&w);
    claim(&w, "a", "whole", "");
    pod(&w, "p", "a", "1", USES, "");
    BH_STREQ(world_node_of(&w, "p"), "oak");
    st = told(&w, "p");
    if (st) {
        BH_STREQ(st->resource_claim_name, "a");
        BH_EQ(st->containers.n, 1);
        BH_STREQ(st->containers.p[0], "c");
        BH_EQ(st->resources.n, 2);
        BH_STREQ(*bh_str_map_get(&st->resources, BH_S("cpu")), "4");
        BH_STREQ(*bh_str_map_get(&st->resources, BH_S("memory")), "1Gi");
    }
    /* One cpu and the device's four are gone: three are left, by the watch and after a restart. */
    for (int i = 0; i < 2; i++) {
        world_pod(&w, i ? "four-again" : "four", "4", "");
        world_run(&w, 500);
        BH_STREQ(world_message(&w, i ? "four-again" : "four"),
                 "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
                 "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming "
                 "pod.");
        world_stop(&w);
        world_start(&w);
    }
    world_pod(&w, "three", "3", "");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "three"), "oak");
    world_done(&w);
}

BH_TEST(shares_of_a_device_stand_for_their_part)
{
    const struct bh_core_v1_node_allocatable_resource_claim_status *st;
    struct world w;

    begin(&w);
    claim(&w, "a", "cores", ",'capacity':{'requests':{'cores':'5'}}");
    claim(&w, "b", "cores", ",'capacity':{'requests':{'cores':'11'}}");
    pod(&w, "p", "a", "1", USES, "");
    st = told(&w, "p");
    if (st)
        BH_STREQ(*bh_str_map_get(&st->resources, BH_S("cpu")), "2500m");
    /* 5.5 more where 4.5 are left, though the device has room; as soon as p goes there is place. */
    pod(&w, "q", "b", "0", USES, "");
    BH_STREQ(world_message(&w, "q"),
             "0/1 nodes are available: 1 Insufficient cpu. still not schedulable, preemption: 0/1 "
             "nodes are available: 1 No preemption victims found for incoming pod.");
    BH_EQ(world_delete(&w, &bh_core_v1_pod_kind, "default", "p"), 200);
    world_run(&w, 15000);
    BH_STREQ(world_node_of(&w, "q"), "oak");
    world_done(&w);
}

/* Of a gang, too: what the devices of one member take is not there for the next. */
BH_TEST(the_devices_of_a_gang_share_their_node)
{
    struct world w;

    begin(&w);
    world_stop(&w);
    BH_EQ(world_create(&w, &bh_scheduling_v1alpha2_pod_group_kind, "default",
                       q(&w, "{'metadata':{'name':'g'},'spec':{'schedulingPolicy':{'gang':{"
                             "'minCount':2}}}}")),
          201);
    claim(&w, "a", "cores", ",'capacity':{'requests':{'cores':'8'}}");
    claim(&w, "b", "cores", ",'capacity':{'requests':{'cores':'8'}}");
    pod(&w, "p", "a", "1", USES, ",'schedulingGroup':{'podGroupName':'g'}");
    pod(&w, "q", "b", "1", USES, ",'schedulingGroup':{'podGroupName':'g'}");
    world_start(&w);
    world_run(&w, 5000);
    /* Twice one cpu and four of a device are two more than there are. */
    BH_STREQ(world_node_of(&w, "p"), "");
    BH_STREQ(world_node_of(&w, "q"), "");
    world_node(&w, "elm", "8", "");
    BH_EQ(world_create(
              &w, &bh_resource_v1_resource_slice_kind, "",
              q(&w, "{'metadata':{'name':'t'},'spec':{'driver':'cpu.example.com','pool':{'name':"
                    "'elm','generation':1,'resourceSliceCount':1},'nodeName':'elm','devices':["
                    "{'name':'cores','attributes':{'kind':{'string':'cores'}},"
                    "'allowMultipleAllocations':true,'capacity':{'cores':{'value':'16'}},"
                    "'nodeAllocatableResourceMappings':{'cpu':{'capacityKey':'cores',"
                    "'allocationMultiplier':'500m'}}}]}}")),
          201);
    world_run(&w, 30000);
    BH_CHECK(world_node_of(&w, "p").n > 0 && world_node_of(&w, "q").n > 0);
    BH_CHECK(!bh_str_eq(bh_str_dup(w.a, world_node_of(&w, "p")), world_node_of(&w, "q")));
    world_done(&w);
}

BH_TEST(a_claim_for_the_nodes_resources_serves_one_pod)
{
    struct world w;

    begin(&w);
    claim(&w, "a", "whole", "");
    pod(&w, "p", "a", "1", USES, "");
    pod(&w, "q", "a", "1", USES, "");
    BH_STREQ(world_node_of(&w, "q"), "");
    BH_CHECK(bh_str_starts(world_message(&w, "q"),
                           BH_S("0/1 nodes are available: 1 node allocatable resource claim a is "
                                "already used by another pod.")));
    world_done(&w);
}

BH_TEST(a_device_for_the_nodes_resources_has_a_user)
{
    struct world w;

    begin(&w);
    claim(&w, "a", "whole", "");
    pod(&w, "p", "a", "1", "", "");
    BH_CHECK(bh_str_starts(world_message(&w, "p"),
                           BH_S("0/1 nodes are available: 1 claim a: node-allocatable resource "
                                "claim not referenced by any container within the pod.")));
    /* What the pod asks as a whole has to cover it. */
    pod(&w, "small", "a", "1", USES, ",'resources':{'requests':{'cpu':'3'}}");
    BH_CHECK(bh_str_starts(world_message(&w, "small"),
                           BH_S("0/1 nodes are available: 1 pod level request for cpu is "
                                "insufficient to cover the aggregated container and "
                                "node-allocatable DRA requests.")));
    pod(&w, "large", "a", "1", USES, ",'resources':{'requests':{'cpu':'6','memory':'2Gi'}}");
    BH_STREQ(world_node_of(&w, "large"), "oak");
    world_pod(&w, "three", "3", "");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "three"), "");
    world_done(&w);
}
