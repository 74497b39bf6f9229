/* Pods that are placed together, or not at all. */
#include "api/gen/policy_v1.h"
#include "api/gen/scheduling_v1.h"
#include "api/gen/scheduling_v1alpha2.h"
#include "scheduler/sched_int.h"
#include "scheduler/world_test.h"

#define WAITING                                                                                    \
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one or "   \
    "more plugins asked to wait and no plugin rejected pod"

static void group(struct world *w, const char *name, int min_count)
{
    struct bh_str body =
        bh_str_fmt(w->a,
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"schedulingPolicy\":{\"gang\":{"
                   "\"minCount\":%d}}}}",
                   name, min_count);

    BH_EQ(world_create(w, &bh_scheduling_v1alpha2_pod_group_kind, "default", body.p), 201);
}

static void member(struct world *w, const char *name, const char *of, const char *cpu,
                   const char *more)
{
    world_pod(w, name, cpu,
              bh_str_fmt(w->a, "\"schedulingGroup\":{\"podGroupName\":\"%s\"}%s%s", of,
                         *more ? "," : "", more)
                  .p);
}

static struct bh_str claim_of(struct world *w, const char *claim)
{
    return bh_str_fmt(w->a, "\"resourceClaims\":[{\"name\":\"d\",\"resourceClaimName\":\"%s\"}]",
                      claim);
}

static const struct bh_meta_v1_condition *scheduled(struct world *w, const char *name)
{
    const struct bh_scheduling_v1alpha2_pod_group *g =
        world_get(w, &bh_scheduling_v1alpha2_pod_group_kind, "default", name);

    return g && g->status.conditions.n ? &g->status.conditions.p[0] : NULL;
}

static int bound(struct world *w, const char *prefix, int n)
{
    int k = 0;

    for (int i = 0; i < n; i++)
        k += world_node_of(w, bh_str_fmt(w->a, "%s%d", prefix, i).p).n > 0;
    return k;
}

BH_TEST(a_gang_waits_for_its_group_and_its_members)
{
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_start(&w);
    member(&w, "p0", "g", "1", "");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "p0"), "");
    group(&w, "g", 3);
    member(&w, "p1", "g", "1", "");
    world_run(&w, 500);
    BH_EQ(bound(&w, "p", 2), 0);
    BH_STREQ(world_message(&w, "p0"), ""); /* too few: nothing was tried */
    BH_EQ(w.sched->stats.attempts, 0);
    member(&w, "p2", "g", "1", "");
    world_run(&w, 500);
    BH_EQ(bound(&w, "p", 3), 3);
    BH_CHECK(scheduled(&w, "g") != NULL);
    BH_STREQ(scheduled(&w, "g")->status, "True");
    BH_STREQ(scheduled(&w, "g")->reason, "Scheduled");
    member(&w, "p3", "g", "1", ""); /* one more than it has to have */
    world_run(&w, 500);
    BH_EQ(bound(&w, "p", 4), 4);
    world_done(&w);
}

BH_TEST(all_or_nobody)
{
    struct world w;
    uint64_t tried;

    world_init(&w);
    world_node(&w, "oak", "2", "");
    world_start(&w);
    group(&w, "g", 3);
    for (int i = 0; i < 3; i++)
        member(&w, bh_str_fmt(w.a, "p%d", i).p, "g", "1", "");
    world_run(&w, 1000);
    BH_EQ(bound(&w, "p", 3), 0);
    BH_STREQ(world_message(&w, "p0"), WAITING);
    BH_CHECK(bh_str_starts(world_message(&w, "p2"),
                           BH_S("0/1 nodes are available: 1 Insufficient cpu.")));
    BH_STREQ(scheduled(&w, "g")->reason, "Unschedulable");
    BH_STREQ(scheduled(&w, "g")->message, "pod group is unschedulable");
    /* Nothing of it is left behind: others have the room. */
    world_pod(&w, "other", "2", "");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "other"), "oak");
    tried = w.sched->stats.attempts;
    world_run(&w, 60000); /* no hot loop */
    BH_EQ(w.sched->stats.attempts, tried);
    BH_EQ(world_delete(&w, &bh_core_v1_pod_kind, "default", "other"), 200);
    world_run(&w, 500);
    world_node(&w, "elm", "1", "");
    world_run(&w, 20000);
    BH_EQ(bound(&w, "p", 3), 3);
    BH_STREQ(scheduled(&w, "g")->status, "True");
    world_done(&w);
}

BH_TEST(members_without_a_gang_policy_go_one_by_one)
{
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "2", "");
    world_start(&w);
    BH_EQ(world_create(&w, &bh_scheduling_v1alpha2_pod_group_kind, "default",
                       "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"schedulingPolicy\":{\"basic\":{}"
                       "}}}"),
          201);
    for (int i = 0; i < 3; i++)
        member(&w, bh_str_fmt(w.a, "p%d", i).p, "g", "1", "");
    world_run(&w, 1000);
    BH_EQ(bound(&w, "p", 3), 2);
    BH_STREQ(scheduled(&w, "g")->status, "True");
    world_done(&w);
}

BH_TEST(the_claims_of_a_gang_are_searched_together)
{
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_node(&w, "elm", "4", "");
    world_class(&w);
    world_gpus(&w, "oak", 1, "");
    world_gpus(&w, "elm", 1, "");
    world_start(&w);
    group(&w, "g", 2);
    world_claim(&w, "a");
    world_claim(&w, "b");
    /* The first is content with any device; the second can only run on one node. */
    member(&w, "p0", "g", "100m", claim_of(&w, "a").p);
    member(&w, "p1", "g", "100m",
           bh_str_fmt(w.a, "\"nodeSelector\":{\"kubernetes.io/hostname\":\"oak\"},%s",
                      claim_of(&w, "b").p)
               .p);
    world_run(&w, 1000);
    BH_STREQ(world_node_of(&w, "p0"), "elm");
    BH_STREQ(world_node_of(&w, "p1"), "oak");
    /* Three devices are too many: no device is held. */
    group(&w, "h", 2);
    world_claim(&w, "c");
    world_claim(&w, "d");
    world_gpus(&w, "fir", 1, "");
    world_node(&w, "fir", "4", "");
    member(&w, "q0", "h", "100m", claim_of(&w, "c").p);
    member(&w, "q1", "h", "100m", claim_of(&w, "d").p);
    world_run(&w, 2000);
    BH_EQ(bound(&w, "q", 2), 0);
    BH_STREQ(world_device(&w, "c"), "");
    BH_STREQ(world_device(&w, "d"), "");
    world_claim(&w, "e");
    world_claim_pod(&w, "single", "e");
    world_run(&w, 2000);
    BH_STREQ(world_node_of(&w, "single"), "fir");
    world_done(&w);
}

BH_TEST(members_share_a_claim_that_none_has_yet)
{
    struct world w;
    const struct bh_resource_v1_resource_claim *c;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_node(&w, "elm", "4", "");
    world_class(&w);
    world_gpus(&w, "oak", 1, "");
    world_start(&w);
    group(&w, "g", 3);
    world_claim(&w, "a");
    for (int i = 0; i < 3; i++)
        member(&w, bh_str_fmt(w.a, "p%d", i).p, "g", "100m", claim_of(&w, "a").p);
    world_run(&w, 5000);
    BH_STREQ(world_message(&w, "p0"), "");
    BH_STREQ(world_message(&w, "p1"), "");
    for (int i = 0; i < 3; i++)
        BH_STREQ(world_node_of(&w, bh_str_fmt(w.a, "p%d", i).p), "oak");
    c = world_get(&w, &bh_resource_v1_resource_claim_kind, "default", "a");
    BH_CHECK(c && c->status.reserved_for.n == 3);
    world_done(&w);
}

/* Who shares a claim learns of its devices as they are in the end, also when these were chosen anew
 * for the sake of a third member. In which order the search tries members that are not alike is
 * left to chance, hence several rounds. */
BH_TEST(members_share_devices_that_were_chosen_anew)
{
    for (int i = 0; i < 6; i++) {
        struct world w;

        world_init(&w);
        world_node(&w, "oak", "4", "");
        world_class(&w);
        BH_EQ(world_create(
                  &w, &bh_resource_v1_resource_slice_kind, "",
                  "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"driver\":\"gpu.bulkhead.dev\","
                  "\"pool\":{\"name\":\"oak\",\"generation\":1,\"resourceSliceCount\":1},"
                  "\"nodeName\":\"oak\",\"devices\":[{\"name\":\"gpu-0\",\"attributes\":{\"nice\":"
                  "{\"bool\":true}}},{\"name\":\"gpu-1\",\"attributes\":{\"nice\":{\"bool\":false}}"
                  "}]}}"),
              201);
        world_claim(&w, "any");
        BH_EQ(
            world_create(
                &w, &bh_resource_v1_resource_claim_kind, "default",
                "{\"metadata\":{\"name\":\"nice\"},\"spec\":{\"devices\":{\"requests\":[{"
                "\"name\":\"gpu\",\"exactly\":{\"deviceClassName\":\"gpu\",\"selectors\":[{"
                "\"cel\":{\"expression\":\"device.attributes['gpu.bulkhead.dev'].nice\"}}]}}]}}}"),
            201);
        member(&w, "p0", "g", bh_str_fmt(w.a, "%dm", 100 + i).p, claim_of(&w, "any").p);
        /* Others decide where it can be, so it is searched for last. */
        member(&w, "p1", "g", "100m",
               bh_str_fmt(w.a,
                          "\"topologySpreadConstraints\":[{\"maxSkew\":9,\"topologyKey\":"
                          "\"kubernetes.io/hostname\",\"whenUnsatisfiable\":\"DoNotSchedule\"}],%s",
                          claim_of(&w, "any").p)
                   .p);
        member(&w, "p2", "g", "100m", claim_of(&w, "nice").p);
        group(&w, "g", 3);
        world_start(&w);
        world_run(&w, 20000);
        BH_EQ(bound(&w, "p", 3), 3);
        BH_EQ(w.sched->stats.attempts, 3); /* all at once */
        BH_STREQ(world_device(&w, "any"), "gpu-1");
        BH_STREQ(world_device(&w, "nice"), "gpu-0");
        world_done(&w);
    }
}

static bool evicted(struct world *w, const char *pod)
{
    const struct bh_core_v1_pod *p = world_get(w, &bh_core_v1_pod_kind, "default", pod);

    return !p || w->got->deleting;
}

BH_TEST(nobody_is_evicted_for_half_a_gang)
{
    struct world w;

    world_init(&w);
    BH_EQ(world_create(&w, &bh_scheduling_v1_priority_class_kind, "",
                       "{\"metadata\":{\"name\":\"high\"},\"value\":100}"),
          201);
    world_node(&w, "oak", "2", "");
    world_start(&w);
    world_pod(&w, "low0", "1", "");
    world_pod(&w, "low1", "1", "");
    world_run(&w, 500);
    group(&w, "big", 3);
    for (int i = 0; i < 3; i++)
        member(&w, bh_str_fmt(w.a, "b%d", i).p, "big", "1", "\"priorityClassName\":\"high\"");
    world_run(&w, 1000);
    BH_CHECK(!evicted(&w, "low0") && !evicted(&w, "low1"));
    BH_STREQ(world_message(&w, "b0"), WAITING);
    group(&w, "g", 2);
    for (int i = 0; i < 2; i++)
        member(&w, bh_str_fmt(w.a, "p%d", i).p, "g", "1", "\"priorityClassName\":\"high\"");
    world_run(&w, 1000);
    BH_CHECK(evicted(&w, "low0") && evicted(&w, "low1"));
    (void)world_delete(&w, &bh_core_v1_pod_kind, "default", "low0");
    (void)world_delete(&w, &bh_core_v1_pod_kind, "default", "low1");
    world_run(&w, 12000);
    BH_EQ(bound(&w, "p", 2), 2);
    BH_EQ(bound(&w, "b", 3), 0);
    world_done(&w);
}

BH_TEST(a_new_scheduler_finishes_a_gang)
{
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_class(&w);
    world_gpus(&w, "oak", 4, "");
    group(&w, "g", 3);
    for (int i = 0; i < 3; i++) {
        world_claim(&w, bh_str_fmt(w.a, "c%d", i).p);
        member(&w, bh_str_fmt(w.a, "p%d", i).p, "g", "1",
               claim_of(&w, bh_str_fmt(w.a, "c%d", i).p).p);
    }
    world_start(&w);
    for (int ms = 0; ms < 40; ms++) { /* ended at any point of its writes, it begins again */
        world_stop(&w);
        w.client = NULL;
        world_start_only(&w);
        world_run(&w, ms % 7);
    }
    world_run(&w, 20000);
    BH_EQ(bound(&w, "p", 3), 3);
    world_done(&w);
}

BH_TEST(victims_leave_one_by_one)
{
    struct world w;

    world_init(&w);
    BH_EQ(world_create(&w, &bh_scheduling_v1_priority_class_kind, "",
                       "{\"metadata\":{\"name\":\"high\"},\"value\":100}"),
          201);
    world_node(&w, "oak", "2", "");
    world_start(&w);
    world_pod(&w, "low0", "1", "\"terminationGracePeriodSeconds\":0");
    world_pod(&w, "low1", "1", "\"terminationGracePeriodSeconds\":0");
    world_run(&w, 500);
    group(&w, "g", 2);
    member(&w, "p0", "g", "1", "\"priorityClassName\":\"high\"");
    member(&w, "p1", "g", "1", "\"priorityClassName\":\"high\"");
    world_run(&w, 15000);
    BH_EQ(bound(&w, "p", 2), 2);
    world_done(&w);
}

static void high(struct world *w)
{
    BH_EQ(world_create(w, &bh_scheduling_v1_priority_class_kind, "",
                       "{\"metadata\":{\"name\":\"high\"},\"value\":100}"),
          201);
}

BH_TEST(a_search_that_is_given_up_says_so)
{
    static const int extra[] = {391, 391, 381};
    struct world w;
    uint64_t tried;

    world_init(&w);
    for (int i = 0; i < 6; i++)
        world_node(&w, bh_str_fmt(w.a, "n%d", i).p, "1", "");
    world_start(&w);
    group(&w, "g", 18);
    /* Three to a node take 993m at most, which is not enough: but that is hard to see. */
    for (int i = 0; i < 18; i++)
        member(&w, bh_str_fmt(w.a, "p%d", i).p, "g",
               bh_str_fmt(w.a, "%dm", i < 15 ? 251 + 10 * i : extra[i - 15]).p, "");
    world_run(&w, 1000);
    BH_EQ(bound(&w, "p", 18), 0);
    BH_CHECK(bh_str_starts(scheduled(&w, "g")->message,
                           BH_S("pod group is unschedulable (gave up looking for places for all of "
                                "them after 20")));
    tried = w.sched->stats.attempts;
    world_run(&w, 120000);
    BH_EQ(w.sched->stats.attempts, tried); /* until something happens */
    /* What happens soon after a long search waits for its turn. */
    world_node(&w, "n6", "1", "");
    world_run(&w, 20000);
    BH_EQ(bound(&w, "p", 18), 18);
    world_done(&w);
}

/* A group that could not be placed rests for both searches, that for victims, too. */
BH_TEST(a_gang_rests_for_all_that_it_took)
{
    static const int extra[] = {391, 391, 381};
    const struct gang *g;
    struct world w;

    world_init(&w);
    high(&w);
    for (int i = 0; i < 6; i++)
        world_node(&w, bh_str_fmt(w.a, "n%d", i).p, "1", "");
    world_start(&w);
    world_pod(&w, "low", "1m", "");
    world_run(&w, 500);
    for (int i = 0; i < 18; i++)
        member(&w, bh_str_fmt(w.a, "p%d", i).p, "g",
               bh_str_fmt(w.a, "%dm", i < 15 ? 251 + 10 * i : extra[i - 15]).p,
               "\"priorityClassName\":\"high\"");
    group(&w, "g", 18);
    world_run(&w, 100);
    BH_EQ(bound(&w, "p", 18), 0);
    BH_CHECK(!evicted(&w, "low"));
    g = bh_map_get(&w.sched->gangs, BH_S("default/g"));
    /* Twice 200,000 steps, fifty times a microsecond for each. */
    BH_CHECK(g && g->search_ns - bh_loop_mono_ns(w.loop) > INT64_C(18000000000));
    world_done(&w);
}

BH_TEST(nobody_is_evicted_when_the_group_fits_otherwise)
{
    struct world w;

    world_init(&w);
    high(&w);
    world_node(&w, "oak", "2", "");
    world_node(&w, "elm", "3", "");
    world_start(&w);
    world_pod(&w, "low", "1", "\"nodeSelector\":{\"kubernetes.io/hostname\":\"elm\"}");
    world_run(&w, 500);
    /* The one who comes first is content with either node. */
    group(&w, "g", 2);
    member(&w, "p0", "g", "2", "\"priorityClassName\":\"high\"");
    member(&w, "p1", "g", "2",
           "\"priorityClassName\":\"high\",\"nodeSelector\":{\"kubernetes.io/hostname\":\"oak\"}");
    world_run(&w, 5000);
    BH_CHECK(!evicted(&w, "low"));
    BH_EQ(bound(&w, "p", 2), 2);
    world_done(&w);
}

static void user(struct world *w, const char *name, const char *more)
{
    world_claim(w, name);
    world_pod(w, name, "100m", bh_str_fmt(w->a, "%s%s", claim_of(w, name).p, more).p);
    world_run(w, 300);
}

static void give_back(struct world *w, const char *claim)
{
    BH_EQ(world_patch(w, &bh_resource_v1_resource_claim_kind, "default", claim, "status",
                      "{\"status\":{\"allocation\":null,\"reservedFor\":null}}"),
          200);
    world_run(w, 12000);
}

BH_TEST(a_gang_takes_devices_from_the_less_important)
{
    struct world w;

    world_init(&w);
    high(&w);
    world_class(&w);
    world_node(&w, "oak", "4", "");
    world_node(&w, "elm", "4", "");
    world_gpus(&w, "oak", 2, "");
    world_gpus(&w, "elm", 2, "");
    world_start(&w);
    for (int i = 0; i < 3; i++)
        user(&w, bh_str_fmt(w.a, "low%d", i).p, "");
    user(&w, "same", ",\"priorityClassName\":\"high\"");
    group(&w, "big", 4); /* one too many */
    for (int i = 0; i < 4; i++) {
        world_claim(&w, bh_str_fmt(w.a, "b%d", i).p);
        member(&w, bh_str_fmt(w.a, "b%d", i).p, "big", "100m",
               bh_str_fmt(w.a, "\"priorityClassName\":\"high\",%s",
                          claim_of(&w, bh_str_fmt(w.a, "b%d", i).p).p)
                   .p);
    }
    world_run(&w, 2000);
    for (int i = 0; i < 3; i++)
        BH_CHECK(!evicted(&w, bh_str_fmt(w.a, "low%d", i).p));
    group(&w, "g", 3);
    for (int i = 0; i < 3; i++) {
        world_claim(&w, bh_str_fmt(w.a, "p%d", i).p);
        member(&w, bh_str_fmt(w.a, "p%d", i).p, "g", "100m",
               bh_str_fmt(w.a, "\"priorityClassName\":\"high\",%s",
                          claim_of(&w, bh_str_fmt(w.a, "p%d", i).p).p)
                   .p);
    }
    world_run(&w, 2000);
    for (int i = 0; i < 3; i++)
        BH_CHECK(evicted(&w, bh_str_fmt(w.a, "low%d", i).p));
    BH_CHECK(!evicted(&w, "same"));
    BH_STREQ(scheduled(&w, "g")->message,
             "pod group is unschedulable, pod group is waiting for preemption to complete");
    /* They leave one by one; what becomes free is kept for the group, however long that takes. */
    for (int i = 0; i < 3; i++) {
        const char *low = bh_str_fmt(w.a, "low%d", i).p;

        (void)world_delete(&w, &bh_core_v1_pod_kind, "default", low);
        world_run(&w, 12000);
        give_back(&w, low);
        user(&w, bh_str_fmt(w.a, "late%d", i).p, "");
        user(&w, bh_str_fmt(w.a, "equal%d", i).p, ",\"priorityClassName\":\"high\"");
        world_run(&w, 1000);
        BH_STREQ(world_node_of(&w, bh_str_fmt(w.a, "late%d", i).p), "");
        BH_STREQ(world_node_of(&w, bh_str_fmt(w.a, "equal%d", i).p), "");
    }
    BH_EQ(bound(&w, "p", 3), 3);
    BH_CHECK(!evicted(&w, "same"));
    world_done(&w);
}

BH_TEST(those_that_a_budget_protects_stay)
{
    struct world w;

    world_init(&w);
    high(&w);
    world_node(&w, "oak", "2", "");
    world_node(&w, "elm", "2", "");
    world_start(&w);
    world_pod(&w, "guarded", "1", "\"nodeSelector\":{\"kubernetes.io/hostname\":\"oak\"}");
    BH_EQ(world_patch(&w, &bh_core_v1_pod_kind, "default", "guarded", "",
                      "{\"metadata\":{\"labels\":{\"app\":\"guarded\"}}}"),
          200);
    for (int i = 0; i < 2; i++)
        world_pod(&w, bh_str_fmt(w.a, "plain%d", i).p, "1",
                  "\"nodeSelector\":{\"kubernetes.io/hostname\":\"elm\"}");
    BH_EQ(world_create(&w, &bh_policy_v1_pod_disruption_budget_kind, "default",
                       "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"minAvailable\":1,\"selector\":{"
                       "\"matchLabels\":{\"app\":\"guarded\"}}}}"),
          201);
    world_run(&w, 1000);
    /* One of them can only be on the node of the protected pod, beside it. */
    group(&w, "g", 3);
    member(&w, "p0", "g", "1", "\"priorityClassName\":\"high\"");
    member(&w, "p1", "g", "1", "\"priorityClassName\":\"high\"");
    member(&w, "p2", "g", "1",
           "\"priorityClassName\":\"high\",\"nodeSelector\":{\"kubernetes.io/hostname\":\"oak\"}");
    world_run(&w, 2000);
    BH_CHECK(!evicted(&w, "guarded"));
    BH_CHECK(evicted(&w, "plain0") && evicted(&w, "plain1"));
    (void)world_delete(&w, &bh_core_v1_pod_kind, "default", "plain0");
    (void)world_delete(&w, &bh_core_v1_pod_kind, "default", "plain1");
    world_run(&w, 12000);
    BH_EQ(bound(&w, "p", 3), 3);
    world_done(&w);
}

BH_TEST(what_is_kept_for_a_gang_ends_with_it)
{
    struct world w;

    world_init(&w);
    high(&w);
    world_node(&w, "oak", "3", "");
    world_start(&w);
    world_pod(&w, "low", "2", "");
    world_run(&w, 500);
    group(&w, "g", 2);
    member(&w, "p0", "g", "1", "\"priorityClassName\":\"high\"");
    member(&w, "p1", "g", "1", "\"priorityClassName\":\"high\"");
    world_run(&w, 2000);
    BH_CHECK(evicted(&w, "low"));
    world_pod(&w, "small", "1", "");
    world_run(&w, 12000);
    BH_STREQ(world_node_of(&w, "small"), ""); /* there is room beside the one that leaves */
    /* One is too few: the group is not tried, and nothing has to be kept. */
    BH_EQ(world_delete(&w, &bh_core_v1_pod_kind, "default", "p1"), 200);
    world_run(&w, 12000);
    BH_STREQ(world_node_of(&w, "small"), "oak");
    world_done(&w);
}
