/* Pod groups outlive their pods. */
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/scheduling_v1alpha2.h"
#include "base/arena.h"
#include "base/test.h"
#include "controllers/cluster_test.h"

#define GROUP &bh_scheduling_v1alpha2_pod_group_kind

static void group(struct tc *t, const char *name)
{
    (void)world_make(&t->w, GROUP, "default",
                     tc_fmt(t,
                            "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"schedulingPolicy\":{"
                            "\"gang\":{\"minCount\":2}}}}",
                            name));
}

static void member(struct tc *t, const char *name, const char *of)
{
    (void)world_make(&t->w, POD, "default",
                     tc_fmt(t,
                            "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"containers\":[{\"name\":"
                            "\"c\",\"image\":\"i\"}],\"schedulingGroup\":{\"podGroupName\":\"%s\"}}"
                            "}",
                            name, of));
}

BH_TEST(pod_group_goes_when_its_last_pod_has_ended)
{
    struct tc t;

    tc_open(&t, "podgroup-protection-controller");
    group(&t, "g");
    member(&t, "p", "g");
    member(&t, "q", "g");
    tc_run(&t, 100);
    world_delete(&t.w, GROUP, "default", "g", NULL);
    tc_run(&t, 5000);
    BH_CHECK(world_get(&t.w, GROUP, "default", "g") != NULL);
    world_delete(&t.w, POD, "default", "p", NULL);
    tc_run(&t, 5000);
    BH_CHECK(world_get(&t.w, GROUP, "default", "g") != NULL); /* q is still there */
    (void)world_merge(&t.w, POD, "default", "q", "status",
                      "{\"status\":{\"phase\":\"Succeeded\"}}");
    tc_run(&t, 100);
    BH_CHECK(world_get(&t.w, GROUP, "default", "g") == NULL);
    tc_close(&t);
}

BH_TEST(pod_group_without_pods_goes_at_once)
{
    struct tc t;

    tc_open(&t, "podgroup-protection-controller");
    group(&t, "g");
    member(&t, "p", "other");
    tc_run(&t, 100);
    world_delete(&t.w, GROUP, "default", "g", NULL);
    tc_run(&t, 100);
    BH_CHECK(world_get(&t.w, GROUP, "default", "g") == NULL);
    tc_close(&t);
}

/* The group was deleted while no controller ran; its pod is learned again. */
BH_TEST(pod_group_is_held_over_a_restart)
{
    struct tc t;

    tc_open(&t, "podgroup-protection-controller");
    group(&t, "g");
    member(&t, "p", "g");
    tc_run(&t, 100);
    world_delete(&t.w, GROUP, "default", "g", NULL);
    tc_restart(&t);
    tc_run(&t, 5000);
    BH_CHECK(world_get(&t.w, GROUP, "default", "g") != NULL);
    world_delete(&t.w, POD, "default", "p", NULL);
    tc_run(&t, 100);
    BH_CHECK(world_get(&t.w, GROUP, "default", "g") == NULL);
    tc_close(&t);
}
