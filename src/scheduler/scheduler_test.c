/* The scheduler against a real API server, on the virtual loop. */
#include "api/engine.h"
#include "api/gen/scheduling_v1.h"
#include "scheduler/sched_int.h"
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

BH_TEST(balance_counts_what_the_pod_changes)
{
    struct world w;

    world_init(&w);
    /* Both nodes have as much left on average; the pod makes oak more even, elm less. */
    world_node(&w, "oak", "8", "");
    world_node(&w, "elm", "8", "");
    world_start(&w);
    BH_EQ(world_create(
              &w, &bh_core_v1_pod_kind, "default",
              "{\"metadata\":{\"name\":\"mem\"},\"spec\":{\"nodeName\":\"oak\",\"containers\":"
              "[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"requests\":{\"memory\":\"4Gi\","
              "\"cpu\":\"1\"}}}]}}"),
          201);
    BH_EQ(world_create(
              &w, &bh_core_v1_pod_kind, "default",
              "{\"metadata\":{\"name\":\"cpu\"},\"spec\":{\"nodeName\":\"elm\",\"containers\":"
              "[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"requests\":{\"memory\":\"1Gi\","
              "\"cpu\":\"4\"}}}]}}"),
          201);
    world_run(&w, 200);
    world_pod(&w, "p", "2", "");
    world_run(&w, 200);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    world_done(&w);
}

BH_TEST(a_term_that_names_no_possible_node)
{
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_start(&w);
    world_pod(
        &w, "p", "1",
        "\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{"
        "\"nodeSelectorTerms\":[{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":"
        "\"In\",\"values\":[\"oak\"]},{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":["
        "\"elm\"]}]}]}}}");
    world_run(&w, 200);
    BH_STREQ(world_message(&w, "p"),
             "0/1 nodes are available: pod affinity terms conflict. not found");
    world_done(&w);
}

BH_TEST(a_pod_needs_a_feature_of_its_node)
{
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_start(&w);
    BH_EQ(world_create(
              &w, &bh_core_v1_pod_kind, "default",
              "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
              "\"image\":\"i\",\"restartPolicy\":\"Never\",\"restartPolicyRules\":[{\"action\":"
              "\"RestartAllContainers\",\"exitCodes\":{\"operator\":\"In\",\"values\":[42]}}]}"
              "]}}"),
          201);
    world_run(&w, 200);
    BH_CHECK(bh_str_starts(world_message(&w, "p"),
                           BH_S("0/1 nodes are available: 1 node(s) didn't match Pod's required "
                                "features.")));
    BH_EQ(world_patch(
              &w, &bh_core_v1_node_kind, "", "oak", "status",
              "{\"status\":{\"declaredFeatures\":[\"RestartAllContainersOnContainerExits\"]}}"),
          200);
    world_run(&w, 3000);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    world_done(&w);
}

BH_TEST(a_resize_counts_until_it_is_done)
{
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_start(&w);
    world_pod(&w, "big", "3", "");
    world_run(&w, 200);
    BH_EQ(world_patch(
              &w, &bh_core_v1_pod_kind, "default", "big", "status",
              "{\"status\":{\"containerStatuses\":[{\"name\":\"c\",\"image\":\"i\",\"imageID\":"
              "\"\",\"ready\":true,\"restartCount\":0,\"resources\":{\"requests\":{\"cpu\":"
              "\"4\"}}}]}}"),
          200);
    world_pod(&w, "p", "1", "");
    world_run(&w, 200);
    BH_CHECK(bh_str_starts(world_message(&w, "p"),
                           BH_S("0/1 nodes are available: 1 Insufficient cpu.")));
    BH_EQ(world_patch(
              &w, &bh_core_v1_pod_kind, "default", "big", "status",
              "{\"status\":{\"containerStatuses\":[{\"name\":\"c\",\"image\":\"i\",\"imageID\":"
              "\"\",\"ready\":true,\"restartCount\":0,\"resources\":{\"requests\":{\"cpu\":"
              "\"3\"}}}]}}"),
          200);
    world_run(&w, 3000);
    BH_STREQ(world_node_of(&w, "p"), "oak");
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

/* What the scheduler decides itself counts as a pod that came. */
BH_TEST(a_pod_follows_its_partner)
{
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_start(&w);
    world_pod(&w, "p", "1",
              "\"affinity\":{\"podAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":[{"
              "\"labelSelector\":{\"matchLabels\":{\"app\":\"db\"}},\"topologyKey\":"
              "\"kubernetes.io/hostname\"}]}}");
    world_run(&w, 200);
    BH_STREQ(world_node_of(&w, "p"), "");
    BH_EQ(world_create(&w, &bh_core_v1_pod_kind, "default",
                       "{\"metadata\":{\"name\":\"d\",\"labels\":{\"app\":\"db\"}},\"spec\":{"
                       "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}"),
          201);
    world_run(&w, 3000);
    BH_STREQ(world_node_of(&w, "d"), "oak");
    BH_STREQ(world_node_of(&w, "p"), "oak");
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

BH_TEST(pods_share_a_claim)
{
    struct world w;
    const struct bh_resource_v1_resource_claim *c;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_node(&w, "elm", "4", "");
    world_class(&w);
    world_gpus(&w, "oak", 1, "");
    world_start(&w);
    world_claim(&w, "a");
    world_claim_pod(&w, "p1", "a");
    world_claim_pod(&w, "p2", "a");
    world_claim_pod(&w, "p3", "a");
    world_run(&w, 3000);
    BH_STREQ(world_node_of(&w, "p1"), "oak");
    BH_STREQ(world_node_of(&w, "p2"), "oak");
    BH_STREQ(world_node_of(&w, "p3"), "oak");
    c = world_get(&w, &bh_resource_v1_resource_claim_kind, "default", "a");
    BH_CHECK(c && c->status.reserved_for.n == 3);
    world_done(&w);
}

BH_TEST(a_pod_waits_for_its_claim)
{
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_class(&w);
    world_gpus(&w, "oak", 1, "");
    world_start(&w);
    world_claim_pod(&w, "p", "late");
    world_run(&w, 5000);
    BH_EQ(w.sched->stats.attempts, 0);
    BH_STREQ(world_message(&w, "p"), "");
    world_claim(&w, "late");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    world_done(&w);
}

BH_TEST(many_alike_that_do_not_fit_cost_little)
{
    struct world w;
    uint64_t patched;

    world_init(&w);
    world_node(&w, "oak", "2", "");
    world_start(&w);
    for (int i = 0; i < 50; i++)
        world_pod(&w, bh_str_fmt(w.a, "p%d", i).p, "3", "");
    world_run(&w, 2000);
    patched = bh_store_rev(w.store);
    BH_CHECK(bh_str_starts(world_message(&w, "p49"), BH_S("0/1 nodes are available: 1 Insuff")));
    world_run(&w, 60000); /* nothing happens: nothing is tried, nothing is written */
    BH_EQ(w.sched->stats.attempts, 50);
    BH_EQ(bh_store_rev(w.store), patched);
    BH_EQ(w.sched->waiting_by[PL_RESOURCES_FIT], 50);
    world_done(&w);
}

/* S8c: init containers run one after the other, so the largest of them decides what is asked for
 * beside the containers; of two such extras the larger one is kept. */
BH_TEST(extended_resources_of_init_containers)
{
    struct world w;
    const struct bh_core_v1_pod *p;
    const struct bh_resource_v1_resource_claim *c = NULL;
    int64_t most = 0, sum = 0;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    BH_EQ(world_create(&w, &bh_resource_v1_device_class_kind, "",
                       "{\"metadata\":{\"name\":\"gpu\"},\"spec\":{\"extendedResourceName\":"
                       "\"example.com/gpu\"}}"),
          201);
    world_gpus(&w, "oak", 8, "");
    world_start(&w);
    BH_EQ(world_create(&w, &bh_core_v1_pod_kind, "default",
                       "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"initContainers\":["
                       "{\"name\":\"i\",\"image\":\"i\",\"resources\":{\"limits\":{"
                       "\"example.com/gpu\":\"2\"}}},{\"name\":\"k\",\"image\":\"i\","
                       "\"resources\":{\"limits\":{\"example.com/gpu\":\"4\"}}}],"
                       "\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{"
                       "\"limits\":{\"example.com/gpu\":\"1\"}}}]}}"),
          201);
    world_run(&w, 1000);
    p = world_get(&w, &bh_core_v1_pod_kind, "default", "p");
    BH_CHECK(p && p->status.extended_resource_claim_status);
    if (p && p->status.extended_resource_claim_status)
        c = world_get(
            &w, &bh_resource_v1_resource_claim_kind, "default",
            bh_str_dup(w.a, p->status.extended_resource_claim_status->resource_claim_name).p);
    BH_CHECK(c && c->spec.devices.requests.n == 2);
    for (size_t i = 0; c && i < c->spec.devices.requests.n; i++) {
        int64_t n = c->spec.devices.requests.p[i].exactly->count;

        sum += n;
        most = n > most ? n : most;
    }
    BH_EQ(sum, 4);
    BH_EQ(most, 3);
    world_done(&w);
}

BH_TEST(a_class_stands_for_an_extended_resource)
{
    struct world w;
    const struct bh_core_v1_pod *p;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    BH_EQ(world_create(&w, &bh_resource_v1_device_class_kind, "",
                       "{\"metadata\":{\"name\":\"gpu\"},\"spec\":{\"extendedResourceName\":"
                       "\"example.com/gpu\"}}"),
          201);
    world_gpus(&w, "oak", 2, "");
    world_start(&w);
    BH_EQ(
        world_create(&w, &bh_core_v1_pod_kind, "default",
                     "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                     "\"image\":\"i\",\"resources\":{\"limits\":{\"example.com/gpu\":\"2\"}}}]}}"),
        201);
    world_run(&w, 1000);
    p = world_get(&w, &bh_core_v1_pod_kind, "default", "p");
    BH_CHECK(p && bh_str_eqc(p->spec.node_name, "oak"));
    BH_CHECK(p && p->status.extended_resource_claim_status);
    if (p && p->status.extended_resource_claim_status)
        BH_STREQ(
            world_device(
                &w,
                bh_str_dup(w.a, p->status.extended_resource_claim_status->resource_claim_name).p),
            "gpu-0");
    world_done(&w);
}

BH_TEST(a_new_scheduler_sees_what_the_old_one_gave)
{
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_class(&w);
    world_gpus(&w, "oak", 2, "");
    world_start(&w);
    world_claim(&w, "a");
    world_claim_pod(&w, "pa", "a");
    world_run(&w, 500);
    world_stop(&w);
    world_claim(&w, "b");
    world_claim_pod(&w, "pb", "b");
    world_start(&w);
    world_run(&w, 500);
    BH_STREQ(world_device(&w, "a"), "gpu-0");
    BH_STREQ(world_device(&w, "b"), "gpu-1");
    world_done(&w);
}

BH_TEST(neighbours_are_kept_apart)
{
    static const char apart[] =
        "\"affinity\":{\"podAntiAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":[{"
        "\"labelSelector\":{\"matchLabels\":{\"app\":\"x\"}},\"topologyKey\":"
        "\"kubernetes.io/hostname\"}]}}";
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_node(&w, "elm", "4", "");
    world_start(&w);
    world_pod(&w, "p1", "1", apart);
    world_pod(&w, "p2", "1", apart);
    world_pod(&w, "p3", "1", apart);
    world_run(&w, 500);
    BH_CHECK(!bh_str_eq(bh_str_dup(w.a, world_node_of(&w, "p1")), world_node_of(&w, "p2")));
    BH_STREQ(world_node_of(&w, "p3"), "");
    BH_CHECK(bh_str_starts(world_message(&w, "p3"),
                           BH_S("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity "
                                "rules.")));
    BH_EQ(world_delete(&w, &bh_core_v1_pod_kind, "default", "p1"), 200);
    world_run(&w, 3000);
    BH_CHECK(world_node_of(&w, "p3").n > 0);
    world_done(&w);
}

static void priority_class(struct world *w, const char *name, int value)
{
    BH_EQ(world_create(
              w, &bh_scheduling_v1_priority_class_kind, "",
              bh_str_fmt(w->a, "{\"metadata\":{\"name\":\"%s\"},\"value\":%d}", name, value).p),
          201);
}

static void claim_pod(struct world *w, const char *name, const char *claim, const char *class)
{
    world_pod(w, name, "100m",
              bh_str_fmt(w->a,
                         "\"priorityClassName\":\"%s\",\"resourceClaims\":[{\"name\":\"d\","
                         "\"resourceClaimName\":\"%s\"}]",
                         class, claim)
                  .p);
}

static bool evicted(struct world *w, const char *pod)
{
    const struct bh_core_v1_pod *p = world_get(w, &bh_core_v1_pod_kind, "default", pod);

    return !p || w->got->deleting;
}

BH_TEST(the_holder_of_the_device_has_to_go)
{
    struct world w;

    world_init(&w);
    priority_class(&w, "low", 1);
    priority_class(&w, "high", 100);
    world_node(&w, "oak", "4", "");
    world_class(&w);
    world_gpus(&w, "oak", 2, "");
    world_start(&w);
    world_claim(&w, "a");
    world_claim(&w, "b");
    world_claim(&w, "c");
    world_claim(&w, "d");
    claim_pod(&w, "holder", "a", "low");
    claim_pod(&w, "safe", "b", "high");
    world_pod(&w, "bystander", "1", "\"priorityClassName\":\"low\"");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "holder"), "oak");
    claim_pod(&w, "wants", "c", "high");
    world_run(&w, 500);
    BH_CHECK(evicted(&w, "holder"));
    BH_CHECK(!evicted(&w, "bystander"));
    BH_CHECK(!evicted(&w, "safe"));
    /* The device is still held until the claim is given back: nobody else goes for it. */
    (void)world_delete(&w, &bh_core_v1_pod_kind, "default", "holder");
    world_run(&w, 12000);
    BH_CHECK(!evicted(&w, "bystander"));
    BH_EQ(world_patch(&w, &bh_resource_v1_resource_claim_kind, "default", "a", "status",
                      "{\"status\":{\"allocation\":null,\"reservedFor\":null}}"),
          200);
    world_run(&w, 12000);
    BH_STREQ(world_node_of(&w, "wants"), "oak");
    /* Nobody is evicted in vain: all holders are as important. */
    claim_pod(&w, "too-late", "d", "high");
    world_run(&w, 500);
    BH_CHECK(!evicted(&w, "bystander"));
    BH_CHECK(bh_str_find(world_message(&w, "too-late"),
                         BH_S("1 Preemption is not helpful for scheduling")) > 0);
    world_done(&w);
}

BH_TEST(a_shared_device_is_freed_by_all_its_users)
{
    struct world w;

    world_init(&w);
    priority_class(&w, "low", 1);
    priority_class(&w, "mid", 10);
    priority_class(&w, "high", 100);
    world_node(&w, "oak", "4", "");
    world_class(&w);
    world_gpus(&w, "oak", 1, "");
    world_start(&w);
    world_claim(&w, "a");
    world_claim(&w, "b");
    claim_pod(&w, "p1", "a", "low");
    claim_pod(&w, "p2", "a", "high");
    world_run(&w, 500);
    claim_pod(&w, "wants", "b", "mid");
    world_run(&w, 500);
    BH_CHECK(!evicted(&w, "p1")); /* the other user stays, and the device with it */
    world_done(&w);
}

BH_TEST(an_empty_selector_survives_a_trial)
{
    struct world w;

    world_init(&w);
    priority_class(&w, "high", 100);
    world_node(&w, "oak", "2", "");
    world_start(&w);
    world_pod(&w, "old", "2", "");
    world_run(&w, 200);
    world_pod(&w, "p", "1",
              "\"priorityClassName\":\"high\",\"topologySpreadConstraints\":[{\"maxSkew\":1,"
              "\"topologyKey\":\"kubernetes.io/hostname\",\"whenUnsatisfiable\":\"DoNotSchedule\","
              "\"labelSelector\":{}}]");
    world_run(&w, 500);
    BH_CHECK(evicted(&w, "old"));
    world_done(&w);
}

/* S4: the claim goes between the decision and the write. */
BH_TEST(claim_that_goes_before_it_is_written)
{
    struct flaky f;
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_gpus(&w, "oak", 1, "");
    world_class(&w);
    world_start_flaky(&w, &f);
    world_claim(&w, "c");
    world_run(&w, 200);
    f.calls = FLAKY_HANG;
    world_claim_pod(&w, "p", "c");
    world_run(&w, 200);
    BH_CHECK(f.calls_n > 0); /* it was decided upon */
    BH_EQ(world_delete(&w, &bh_resource_v1_resource_claim_kind, "default", "c"), 200);
    f.calls = FLAKY_PASS;
    world_run(&w, 90000);
    BH_STREQ(world_node_of(&w, "p"), "");
    /* The device is free again for others, and the pod is tried again. */
    world_claim(&w, "other");
    world_claim_pod(&w, "q", "other");
    world_run(&w, 1000);
    BH_STREQ(world_node_of(&w, "q"), "oak");
    BH_EQ(world_delete(&w, &bh_core_v1_pod_kind, "default", "q"), 200);
    BH_EQ(world_patch(&w, &bh_resource_v1_resource_claim_kind, "default", "other", "status",
                      "{\"status\":{\"allocation\":null,\"reservedFor\":null}}"),
          200);
    world_claim(&w, "c");
    world_run(&w, 30000);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    world_done(&w);
}

static void binding_device(struct world *w)
{
    world_node(w, "oak", "4", "");
    world_class(w);
    BH_EQ(world_create(
              w, &bh_resource_v1_resource_slice_kind, "",
              "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"driver\":\"gpu.bulkhead.dev\",\"pool\":{"
              "\"name\":\"oak\",\"generation\":1,\"resourceSliceCount\":1},\"nodeName\":\"oak\","
              "\"devices\":[{\"name\":\"gpu-0\",\"bindingConditions\":[\"example.com/attached\"],"
              "\"bindingFailureConditions\":[\"example.com/failed\"]}]}}"),
          201);
    world_start(w);
    world_claim(w, "c");
    world_claim_pod(w, "p", "c");
}

/* S5: the condition never comes: after ten minutes the attempt ends, the device is given back, and
 * the pod is tried again. */
BH_TEST(devices_that_are_never_ready)
{
    const struct bh_resource_v1_resource_claim *c;
    struct bh_time first = {0}, second = {0};
    struct world w;

    world_init(&w);
    binding_device(&w);
    world_run(&w, 599000);
    c = world_get(&w, &bh_resource_v1_resource_claim_kind, "default", "c");
    BH_CHECK(c && c->status.allocation && c->status.reserved_for.n == 1);
    if (c && c->status.allocation)
        first = c->status.allocation->allocation_timestamp;
    BH_STREQ(world_message(&w, "p"), "");
    for (int i = 0; i < 40 && !world_message(&w, "p").n; i++)
        world_run(&w, 50);
    BH_STREQ(world_message(&w, "p"),
             "running PreBind plugin \"DynamicResources\": device binding timeout: claim=c");
    BH_STREQ(world_node_of(&w, "p"), "");
    world_run(&w, 60000);
    c = world_get(&w, &bh_resource_v1_resource_claim_kind, "default", "c");
    BH_CHECK(c && c->status.allocation); /* anew */
    if (c && c->status.allocation)
        second = c->status.allocation->allocation_timestamp;
    BH_CHECK(second.sec >= first.sec + 600);
    BH_EQ(world_patch(&w, &bh_resource_v1_resource_claim_kind, "default", "c", "status",
                      "{\"status\":{\"devices\":[{\"driver\":\"gpu.bulkhead.dev\",\"pool\":\"oak\","
                      "\"device\":\"gpu-0\",\"conditions\":[{\"type\":\"example.com/attached\","
                      "\"status\":\"True\",\"reason\":\"Done\",\"message\":\"\","
                      "\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]}]}}"),
          200);
    world_run(&w, 1000);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    world_done(&w);
}

/* S6: upstream takes the first entry of the device for every share of it. */
BH_TEST(states_of_the_shares_of_a_device)
{
#define RESULT(share)                                                                              \
    "{\"request\":\"r\",\"driver\":\"d\",\"pool\":\"p\",\"device\":\"x\",\"shareID\":\"" share     \
    "\",\"bindingConditions\":[\"ready\"],\"bindingFailureConditions\":[\"failed\"]}"
#define STATE(share, type)                                                                         \
    "{\"driver\":\"d\",\"pool\":\"p\",\"device\":\"x\",\"shareID\":\"" share                       \
    "\",\"conditions\":[{\"type\":\"" type "\",\"status\":\"True\",\"reason\":\"R\",\"message\":"  \
    "\"of " share "\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]}"
#define CLAIM_OF(devices)                                                                          \
    "{\"metadata\":{\"name\":\"c\"},\"spec\":{\"devices\":{\"requests\":[]}},\"status\":{"         \
    "\"allocation\":{\"devices\":{\"results\":[" RESULT("1") "," RESULT(                           \
        "2") "]}},\"devices\":[" devices "]}}"
    static const struct {
        const char *json;
        enum binding_state want;
        const char *message;
    } cases[] = {
        {CLAIM_OF(""), BINDING_PENDING, NULL},
        {CLAIM_OF(STATE("1", "ready")), BINDING_PENDING, NULL},
        {CLAIM_OF(STATE("1", "ready") "," STATE("2", "ready")), BINDING_READY, NULL},
        {CLAIM_OF(STATE("1", "ready") "," STATE("2", "failed")), BINDING_FAILED, "of 2"},
        {CLAIM_OF(STATE("2", "failed")), BINDING_FAILED, "of 2"},
    };

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        const struct bh_meta_v1_condition *why = NULL;
        void *claim = NULL;

        BH_EQ(bh_kind_decode_json(&bh_resource_v1_resource_claim_kind, bh_s(cases[i].json), a,
                                  &claim, NULL, NULL),
              0);
        if (!claim)
            continue;
        BH_EQ(sched_binding_state(claim, &why), cases[i].want);
        if (cases[i].message && why)
            BH_STREQ(why->message, cases[i].message);
        BH_EQ(why != NULL, cases[i].message != NULL);
    }
}

/* A scheduler that only looks says what its filters say, and does nothing. */
BH_TEST(observer_tells_what_its_filters_say)
{
    struct bh_scheduler_refusal *v = NULL;
    const struct bh_core_v1_pod *p;
    struct world w;
    size_t n = 0;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_node(&w, "elm", "1", "");
    world_node(&w, "fir", "8", "");
    world_class(&w);
    world_claim(&w, "c");
    w.opts.observe = true;
    world_start(&w);
    BH_EQ(world_create(&w, &bh_core_v1_pod_kind, "default",
                       "{\"metadata\":{\"name\":\"old\"},\"spec\":{\"nodeName\":\"oak\","
                       "\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"ports\":[{"
                       "\"containerPort\":80,\"hostPort\":80}]}]}}"),
          201);
    BH_EQ(world_create(&w, &bh_core_v1_pod_kind, "default",
                       "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"resourceClaims\":[{\"name\":"
                       "\"d\",\"resourceClaimName\":\"c\"}],\"containers\":[{\"name\":\"c\","
                       "\"image\":\"i\",\"ports\":[{\"containerPort\":80,\"hostPort\":80}],"
                       "\"resources\":{\"requests\":{\"cpu\":\"2\",\"memory\":\"1Ti\"}}}]}}"),
          201);
    world_run(&w, 5000);
    p = world_get(&w, &bh_core_v1_pod_kind, "default", "p");
    BH_CHECK(p && !p->spec.node_name.n && p->status.conditions.n == 0);
    BH_CHECK(!bh_scheduler_judge(w.sched, BH_S("nobody"), w.a, &v, &n));
    BH_CHECK(p && bh_scheduler_judge(w.sched, bh_str_dup(w.a, p->metadata.uid), w.a, &v, &n));
    BH_EQ(n, 3);
    for (size_t i = 0; i < n; i++)
        BH_STREQ(v[i].why, bh_str_eqc(v[i].node, "oak")
                               ? "node(s) didn't have free ports for the requested pod ports"
                           : bh_str_eqc(v[i].node, "elm") ? "Insufficient cpu, Insufficient memory"
                                                          : "Insufficient memory");
    world_done(&w);
}

/* Claims that are hard to say no to, on many nodes: the attempt does not take as long as all of
 * these searches may take. */
BH_TEST(hard_claims_do_not_stop_the_scheduler)
{
    struct bh_dra_stats st;
    struct world w;
    uint64_t tried;

    world_init(&w);
    world_class(&w);
    for (int i = 0; i < 24; i++) {
        const char *node = bh_str_fmt(w.a, "n%d", i).p;
        BH_AUTO_BUF b = {0};

        world_node(&w, node, "4", "");
        bh_buf_addf(&b,
                    "{\"metadata\":{\"name\":\"s-%s\"},\"spec\":{\"driver\":\"gpu.bulkhead.dev\","
                    "\"pool\":{\"name\":\"%s\",\"generation\":1,\"resourceSliceCount\":1},"
                    "\"nodeName\":\"%s\",\"devices\":[",
                    node, node, node);
        for (int k = 0; k < 24; k++)
            bh_buf_addf(&b, "%s{\"name\":\"d%d\",\"attributes\":{\"x\":{\"int\":%d}}}",
                        k ? "," : "", k, k);
        bh_buf_addz(&b, "]}}");
        BH_EQ(world_create(&w, &bh_resource_v1_resource_slice_kind, "", bh_buf_cstr(&b)), 201);
    }
    world_start(&w);
    BH_EQ(world_create(
              &w, &bh_resource_v1_resource_claim_kind, "default",
              "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"devices\":{\"requests\":[{\"name\":"
              "\"r\",\"exactly\":{\"deviceClassName\":\"gpu\",\"count\":12}},{\"name\":\"s\","
              "\"exactly\":{\"deviceClassName\":\"gpu\",\"count\":2}}],\"constraints\":[{"
              "\"requests\":[\"s\"],\"matchAttribute\":\"gpu.bulkhead.dev/x\"}]}}}"),
          201);
    world_claim_pod(&w, "p", "a");
    world_run(&w, 500);
    BH_CHECK(world_message(&w, "p").n > 0);
    bh_dra_stats(w.sched->model, &st);
    BH_CHECK(st.steps < 40000);
    /* Others are not stopped by it, and devices go on being found. */
    world_claim(&w, "b");
    world_claim_pod(&w, "q", "b");
    world_run(&w, 500);
    BH_CHECK(world_node_of(&w, "q").n > 0);
    /* Later attempts search the other nodes, until all were. */
    world_run(&w, 120000);
    bh_dra_stats(w.sched->model, &st);
    BH_CHECK(st.steps > 90000);
    tried = w.sched->stats.attempts;
    world_run(&w, 120000);
    BH_EQ(w.sched->stats.attempts, tried);
    world_done(&w);
}
