/* What preemption frees is kept for whom it was freed. */
#include "api/gen/scheduling_v1.h"
#include "scheduler/sched_int.h"
#include "scheduler/world_test.h"

static void furnish(struct world *w, int gpus)
{
    static const struct {
        const char *name;
        int value;
    } classes[] = {{"low", 1}, {"high", 100}, {"top", 1000}};

    world_init(w);
    for (size_t i = 0; i < BH_COUNT(classes); i++)
        BH_EQ(world_create(w, &bh_scheduling_v1_priority_class_kind, "",
                           bh_str_fmt(w->a, "{\"metadata\":{\"name\":\"%s\"},\"value\":%d}",
                                      classes[i].name, classes[i].value)
                               .p),
              201);
    world_class(w);
    world_node(w, "oak", "4", "");
    world_gpus(w, "oak", gpus, "");
}

/* The claim has the pod's name. */
static void claim_pod(struct world *w, const char *name, const char *class)
{
    world_pod(w, name, "100m",
              bh_str_fmt(w->a,
                         "\"priorityClassName\":\"%s\",\"resourceClaims\":[{\"name\":\"d\","
                         "\"resourceClaimName\":\"%s\"}]",
                         class, name)
                  .p);
    world_run(w, 500);
}

static void user(struct world *w, const char *name, const char *class)
{
    world_claim(w, name);
    claim_pod(w, name, class);
}

/* As the claim controller does when the last consumer is gone. */
static void give_back(struct world *w, const char *claim)
{
    BH_EQ(world_patch(w, &bh_resource_v1_resource_claim_kind, "default", claim, "status",
                      "{\"status\":{\"allocation\":null,\"reservedFor\":null}}"),
          200);
}

static bool evicted(struct world *w, const char *pod)
{
    const struct bh_core_v1_pod *p = world_get(w, &bh_core_v1_pod_kind, "default", pod);

    return !p || w->got->deleting;
}

static struct bh_str nominated(struct world *w, const char *pod)
{
    const struct bh_core_v1_pod *p = world_get(w, &bh_core_v1_pod_kind, "default", pod);

    return p ? p->status.nominated_node_name : BH_S("(gone)");
}

static void end(struct world *w, const char *pod)
{
    BH_EQ(world_delete(w, &bh_core_v1_pod_kind, "default", pod), 200);
    world_run(w, 3000);
}

/* One that wants both devices of the node, whose holders go one after the other. */
static void begin(struct world *w)
{
    furnish(w, 2);
    world_start(w);
    user(w, "a", "low");
    user(w, "b", "low");
    BH_EQ(world_create(w, &bh_resource_v1_resource_claim_kind, "default",
                       "{\"metadata\":{\"name\":\"wants\"},\"spec\":{\"devices\":{\"requests\":[{"
                       "\"name\":\"gpu\",\"exactly\":{\"deviceClassName\":\"gpu\",\"count\":2}}]}}"
                       "}"),
          201);
    claim_pod(w, "wants", "high");
    BH_CHECK(evicted(w, "a") && evicted(w, "b"));
    BH_STREQ(nominated(w, "wants"), "oak");
    end(w, "a");
    give_back(w, "a");
    world_run(w, 15000);
    BH_STREQ(world_node_of(w, "wants"), "");
    BH_STREQ(nominated(w, "wants"), "oak");
}

static void finish(struct world *w)
{
    end(w, "b");
    give_back(w, "b");
    world_run(w, 15000);
}

BH_TEST(a_freed_device_is_kept_for_the_one_who_made_it_free)
{
    struct world w;

    begin(&w);
    user(&w, "equal", "high");
    user(&w, "low", "low");
    BH_STREQ(world_node_of(&w, "equal"), "");
    BH_STREQ(world_node_of(&w, "low"), "");
    finish(&w);
    BH_STREQ(world_node_of(&w, "wants"), "oak");
    BH_STREQ(world_node_of(&w, "equal"), "");
    world_done(&w);
}

BH_TEST(the_more_important_take_what_is_kept)
{
    struct world w;

    begin(&w);
    user(&w, "first", "top");
    BH_STREQ(world_node_of(&w, "first"), "oak");
    finish(&w);
    BH_STREQ(world_node_of(&w, "wants"), "");
    world_done(&w);
}

BH_TEST(what_was_kept_is_free_when_the_nomination_ends)
{
    struct world w;

    begin(&w);
    user(&w, "equal", "high");
    BH_STREQ(world_node_of(&w, "equal"), "");
    end(&w, "wants");
    world_run(&w, 2000);
    BH_STREQ(world_node_of(&w, "equal"), "oak");
    world_done(&w);
}

BH_TEST(the_end_of_a_nomination_wakes_those_who_respected_it)
{
    struct world w;
    uint64_t tried;

    furnish(&w, 1);
    world_start(&w);
    world_pod(&w, "old", "3", "\"priorityClassName\":\"low\"");
    world_run(&w, 500);
    world_pod(&w, "wants", "4", "\"priorityClassName\":\"high\"");
    world_run(&w, 500);
    BH_STREQ(nominated(&w, "wants"), "oak");
    world_pod(&w, "small", "1", "\"priorityClassName\":\"high\"");
    world_run(&w, 20000);
    BH_STREQ(world_node_of(&w, "small"), "");
    tried = w.sched->stats.attempts;
    end(&w, "wants");
    BH_STREQ(world_node_of(&w, "small"), "oak");
    BH_EQ(w.sched->stats.attempts, tried + 1);
    world_done(&w);
}

BH_TEST(nobody_else_is_evicted_while_a_claim_is_given_back)
{
    struct world w;
    const char *gone, *stays;

    furnish(&w, 1);
    world_node(&w, "elm", "4", "");
    world_gpus(&w, "elm", 1, "");
    world_start(&w);
    user(&w, "a", "low");
    user(&w, "b", "low");
    user(&w, "wants", "high");
    BH_CHECK(evicted(&w, "a") != evicted(&w, "b"));
    gone = evicted(&w, "a") ? "a" : "b";
    stays = gone[0] == 'a' ? "b" : "a";
    end(&w, gone);
    world_run(&w, 20000);
    BH_CHECK(!evicted(&w, stays));
    give_back(&w, gone);
    world_run(&w, 15000);
    BH_CHECK(world_node_of(&w, "wants").n > 0);
    BH_CHECK(!evicted(&w, stays));
    world_done(&w);
}

BH_TEST(who_counted_on_a_claim_that_another_one_uses_looks_again)
{
    struct world w;
    const char *gone, *stays;

    furnish(&w, 1);
    world_node(&w, "elm", "4", "");
    world_gpus(&w, "elm", 1, "");
    world_start(&w);
    user(&w, "a", "low");
    user(&w, "b", "low");
    user(&w, "wants", "high");
    gone = evicted(&w, "a") ? "a" : "b";
    stays = gone[0] == 'a' ? "b" : "a";
    end(&w, gone);
    world_run(&w, 20000);
    BH_CHECK(!evicted(&w, stays));
    (void)world_get(&w, &bh_core_v1_pod_kind, "default", stays);
    BH_EQ(world_patch(&w, &bh_resource_v1_resource_claim_kind, "default", gone, "status",
                      bh_str_fmt(w.a,
                                 "{\"status\":{\"reservedFor\":[{\"resource\":\"pods\",\"name\":"
                                 "\"%s\",\"uid\":\"%.*s\"}]}}",
                                 stays, BH_SF(w.got->uid))
                          .p),
          200);
    world_run(&w, 15000);
    BH_CHECK(evicted(&w, stays)); /* there is no other way left */
    world_done(&w);
}

BH_TEST(a_new_scheduler_keeps_it_too)
{
    struct world w;

    begin(&w);
    world_stop(&w);
    w.client = NULL;
    world_start(&w);
    world_run(&w, 15000);
    user(&w, "equal", "high");
    BH_STREQ(world_node_of(&w, "equal"), "");
    finish(&w);
    BH_STREQ(world_node_of(&w, "wants"), "oak");
    BH_STREQ(world_node_of(&w, "equal"), "");
    world_done(&w);
}
