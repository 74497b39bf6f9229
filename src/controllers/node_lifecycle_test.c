/* Nodes that fall silent and come back, taints, pods that leave, pods of nodes that are gone,
 * namespaces that end, and the list of controllers. */
#include "api/gen/coordination_v1.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"
#include "base/test.h"
#include "controllers/cluster_test.h"

#define CM &bh_core_v1_config_map_kind

static const char *ready_of(struct tc *t, const char *node)
{
    struct bh_obj *o = world_get(&t->w, NODE, NULL, node);
    const struct bh_core_v1_node *n = o ? bh_obj_struct(o) : NULL;

    for (size_t i = 0; n && i < n->status.conditions.n; i++)
        if (bh_str_eqc(n->status.conditions.p[i].type, "Ready"))
            return tc_fmt(t, "%.*s %.*s", BH_SF(n->status.conditions.p[i].status),
                          BH_SF(n->status.conditions.p[i].reason));
    return "";
}

static const char *taints_of(struct tc *t, const char *node)
{
    struct bh_obj *o = world_get(&t->w, NODE, NULL, node);
    const struct bh_core_v1_node *n = o ? bh_obj_struct(o) : NULL;
    const char *text = "";

    for (size_t i = 0; n && i < n->spec.taints.n; i++)
        text = tc_fmt(t, "%s%.*s:%.*s ", text, BH_SF(n->spec.taints.p[i].key),
                      BH_SF(n->spec.taints.p[i].effect));
    return text;
}

static void set_ready(struct tc *t, const char *node, const char *status, int minute)
{
    (void)world_merge(
        &t->w, NODE, NULL, node, "status",
        tc_fmt(t,
               "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"%s\",\"reason\":"
               "\"KubeletReady\",\"lastHeartbeatTime\":\"2026-01-01T01:%02d:00Z\","
               "\"lastTransitionTime\":\"2026-01-01T01:%02d:00Z\"}]}}",
               status, minute, minute));
}

BH_TEST(node_is_alive_while_its_lease_moves)
{
    struct tc t;

    tc_open(&t, "node-lifecycle-controller");
    tc_node(&t, "oak");
    for (int i = 0; i < 30; i++) {
        tc_run(&t, 10000);
        tc_beat(&t, "oak");
    }
    BH_STREQ(bh_s(ready_of(&t, "oak")), "True KubeletReady");
    BH_STREQ(bh_s(taints_of(&t, "oak")), ""); /* the one of admission is gone */
    tc_close(&t);
}

BH_TEST(node_that_is_silent_becomes_unknown_and_comes_back)
{
    struct tc t;

    tc_open(&t, "node-lifecycle-controller");
    tc_node(&t, "oak");
    tc_pod(&t, "default", "p", "oak", NULL);
    (void)world_merge(&t.w, POD, "default", "p", "status",
                      "{\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\","
                      "\"status\":\"True\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]}}");
    tc_run(&t, 45000);
    BH_STREQ(bh_s(ready_of(&t, "oak")), "True KubeletReady");
    tc_run(&t, 12000); /* the grace period of 50 s, looked at each 5 s */
    BH_STREQ(bh_s(ready_of(&t, "oak")), "Unknown NodeStatusUnknown");
    tc_run(&t, 1000);
    BH_STREQ(bh_s(taints_of(&t, "oak")), "node.kubernetes.io/unreachable:NoSchedule "
                                         "node.kubernetes.io/unreachable:NoExecute ");
    BH_STREQ(bh_s(tc_pod_condition(&t, "default", "p", "Ready")), "False  ");
    BH_CHECK(tc_event(&t, "default", "p", "NodeNotReady", "Node is not ready"));
    tc_beat(&t, "oak"); /* the kubelet is back, and says so */
    set_ready(&t, "oak", "True", 2);
    tc_run(&t, 1000);
    BH_STREQ(bh_s(taints_of(&t, "oak")), "");
    tc_run(&t, 40000);
    BH_STREQ(bh_s(ready_of(&t, "oak")), "True KubeletReady");
    tc_close(&t);
}

BH_TEST(node_grace_period_is_a_flag)
{
    struct tc t;

    tc_open(&t, "node-lifecycle-controller");
    t.opts.node_grace_ms = 4000;
    tc_restart(&t);
    tc_node(&t, "oak");
    tc_run(&t, 11000);
    BH_STREQ(bh_s(ready_of(&t, "oak")), "Unknown NodeStatusUnknown");
    tc_close(&t);
}

BH_TEST(node_conditions_become_taints_beside_others)
{
    struct tc t;

    tc_open(&t, "node-lifecycle-controller");
    tc_node(&t, "oak");
    tc_run(&t, 1000);
    (void)world_merge(&t.w, NODE, NULL, "oak", "",
                      "{\"spec\":{\"unschedulable\":true,\"taints\":[{\"key\":\"mine\",\"value\":"
                      "\"v\",\"effect\":\"NoExecute\"}]}}");
    set_ready(&t, "oak", "False", 2);
    tc_run(&t, 1000);
    BH_STREQ(bh_s(taints_of(&t, "oak")),
             "mine:NoExecute node.kubernetes.io/unschedulable:NoSchedule "
             "node.kubernetes.io/not-ready:NoSchedule node.kubernetes.io/not-ready:NoExecute ");
    set_ready(&t, "oak", "True", 3);
    (void)world_merge(&t.w, NODE, NULL, "oak", "", "{\"spec\":{\"unschedulable\":null}}");
    tc_run(&t, 1000);
    BH_STREQ(bh_s(taints_of(&t, "oak")), "mine:NoExecute ");
    tc_close(&t);
}

BH_TEST(node_taint_written_later_when_the_server_failed)
{
    struct tc t;

    tc_open(&t, "node-lifecycle-controller");
    tc_node(&t, "oak");
    tc_run(&t, 1000);
    t.f.calls = FLAKY_REFUSE;
    set_ready(&t, "oak", "False", 2);
    tc_run(&t, 1000);
    BH_STREQ(bh_s(taints_of(&t, "oak")), "");
    t.f.calls = FLAKY_PASS;
    tc_run(&t, 6000);
    BH_CHECK(bh_str_starts(bh_s(taints_of(&t, "oak")), BH_S("node.kubernetes.io/not-ready")));
    tc_close(&t);
}

BH_TEST(node_taints_evict_pods)
{
    struct tc t;

    tc_open(&t, "taint-eviction-controller");
    tc_node(&t, "oak");
    for (int i = 0; i < 3; i++) {
        static const char *const tolerations[] = {
            "[]",
            ("[{\"key\":\"bad\",\"operator\":\"Exists\",\"effect\":\"NoExecute\","
             "\"tolerationSeconds\":60}]"),
            "[{\"key\":\"bad\",\"operator\":\"Equal\",\"value\":\"v\",\"effect\":\"NoExecute\"}]"};

        (void)world_make(
            &t.w, POD, "default",
            tc_fmt(&t,
                   "{\"metadata\":{\"name\":\"p%d\"},\"spec\":{\"nodeName\":\"oak\","
                   "\"tolerations\":%s,\"containers\":[{\"name\":\"c\",\"image\":\"i\"}"
                   "]}}",
                   i, tolerations[i]));
    }
    (void)world_merge(&t.w, NODE, NULL, "oak", "",
                      "{\"spec\":{\"taints\":[{\"key\":\"bad\",\"value\":\"v\",\"effect\":"
                      "\"NoExecute\"}]}}");
    tc_run(&t, 1000);
    BH_CHECK(tc_deleting(&t, "default", "p0"));
    BH_STREQ(bh_s(tc_pod_condition(&t, "default", "p0", "DisruptionTarget")),
             "True DeletionByTaintManager Taint manager: deleting due to NoExecute taint");
    BH_CHECK(!tc_deleting(&t, "default", "p1") && !tc_deleting(&t, "default", "p2"));
    tc_run(&t, 61000);
    BH_CHECK(tc_deleting(&t, "default", "p1") && !tc_deleting(&t, "default", "p2"));
    tc_close(&t);
}

BH_TEST(node_taint_that_goes_in_time_spares_the_pod)
{
    struct tc t;

    tc_open(&t, "taint-eviction-controller");
    tc_node(&t, "oak");
    (void)world_make(
        &t.w, POD, "default",
        "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"nodeName\":\"oak\",\"tolerations\":"
        "[{\"operator\":\"Exists\",\"effect\":\"NoExecute\",\"tolerationSeconds\":60}],"
        "\"containers\":[{"
        "\"name\":\"c\",\"image\":\"i\"}]}}");
    (void)world_merge(&t.w, NODE, NULL, "oak", "",
                      "{\"spec\":{\"taints\":[{\"key\":\"bad\",\"effect\":\"NoExecute\"}]}}");
    tc_run(&t, 30000);
    (void)world_merge(&t.w, NODE, NULL, "oak", "", "{\"spec\":{\"taints\":null}}");
    tc_run(&t, 120000);
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    BH_CHECK(tc_event(&t, "default", "p", "TaintManagerEviction",
                      "Cancelling deletion of Pod default/p"));
    tc_close(&t);
}

BH_TEST(node_eviction_outlives_a_server_that_fails)
{
    struct tc t;

    tc_open(&t, "taint-eviction-controller");
    tc_node(&t, "oak");
    tc_pod(&t, "default", "p", "oak", NULL);
    tc_run(&t, 100);
    t.f.calls = FLAKY_REFUSE;
    (void)world_merge(&t.w, NODE, NULL, "oak", "",
                      "{\"spec\":{\"taints\":[{\"key\":\"bad\",\"effect\":\"NoExecute\"}]}}");
    tc_run(&t, 2000);
    t.f.calls = FLAKY_PASS;
    tc_run(&t, 10000);
    BH_CHECK(tc_deleting(&t, "default", "p"));
    tc_close(&t);
}

BH_TEST(pods_of_a_node_that_is_gone)
{
    struct tc t;

    tc_open(&t, "pod-garbage-collector-controller");
    tc_node(&t, "oak");
    tc_node(&t, "elm");
    tc_pod(&t, "default", "p", "oak", NULL);
    tc_pod(&t, "default", "q", "elm", NULL);
    tc_run(&t, 60000);
    BH_CHECK(tc_get_pod(&t, "default", "p"));
    world_delete(&t.w, NODE, NULL, "oak", NULL);
    tc_run(&t, 35000);
    BH_CHECK(tc_get_pod(&t, "default", "p")); /* in quarantine */
    tc_run(&t, 60000);
    BH_CHECK(!tc_get_pod(&t, "default", "p"));
    BH_CHECK(tc_get_pod(&t, "default", "q"));
    tc_close(&t);
}

BH_TEST(pods_that_ended_are_kept_up_to_a_number)
{
    struct tc t;

    tc_open(&t, "pod-garbage-collector-controller");
    t.opts.terminated_pods_max = 2;
    tc_restart(&t);
    tc_node(&t, "oak");
    for (int i = 0; i < 5; i++) {
        const char *name = tc_fmt(&t, "p%d", i);

        tc_pod(&t, "default", name, "oak", NULL);
        (void)world_merge(&t.w, POD, "default", name, "status",
                          "{\"status\":{\"phase\":\"Succeeded\"}}");
        tc_run(&t, 1500); /* the oldest go first */
    }
    tc_run(&t, 30000);
    BH_EQ(world_count(&t.w, POD, "default"), 2);
    BH_CHECK(tc_get_pod(&t, "default", "p4") && tc_get_pod(&t, "default", "p3"));
    tc_close(&t);
}

BH_TEST(namespace_is_emptied)
{
    struct tc t;

    tc_open(&t, "namespace-controller");
    (void)world_make(&t.w, &bh_core_v1_namespace_kind, NULL, "{\"metadata\":{\"name\":\"n\"}}");
    (void)world_make(&t.w, CM, "n", "{\"metadata\":{\"name\":\"a\"}}");
    (void)world_make(&t.w, CM, "n",
                     "{\"metadata\":{\"name\":\"b\",\"finalizers\":[\"example.com/x\"]}}");
    (void)world_make(&t.w, CM, "default", "{\"metadata\":{\"name\":\"a\"}}");
    tc_pod(&t, "n", "p", "oak", NULL);
    world_delete(&t.w, &bh_core_v1_namespace_kind, NULL, "n", NULL);
    tc_run(&t, 3000);
    BH_CHECK(!world_get(&t.w, CM, "n", "a"));
    BH_CHECK(tc_deleting(&t, "n", "p"));
    BH_CHECK(world_get(&t.w, &bh_core_v1_namespace_kind, NULL, "n")); /* b and p hold it */
    (void)world_merge(&t.w, CM, "n", "b", "", "{\"metadata\":{\"finalizers\":null}}");
    world_delete(&t.w, POD, "n", "p", "{\"gracePeriodSeconds\":0}");
    tc_run(&t, 3000);
    BH_CHECK(!world_get(&t.w, &bh_core_v1_namespace_kind, NULL, "n"));
    BH_CHECK(world_get(&t.w, CM, "default", "a"));
    tc_close(&t);
}

BH_TEST(controllers_are_chosen_by_name)
{
    struct world w;
    struct bh_err err = {0};

    world_open(&w);
    BH_CHECK(!bh_controllers_new(w.client,
                                 &(struct bh_controllers_opts){.controllers = "*,-no-such"}, &err));
    BH_STREQ(bh_s(err.msg), "\"no-such\" is not in the list of known controllers");
    struct bh_controllers *c = bh_controllers_new(
        w.client, &(struct bh_controllers_opts){.controllers = "*, -garbage-collector-controller"},
        &err);
    BH_CHECK(c != NULL);
    (void)bh_controllers_free(c); /* before anything was answered */
    c = bh_controllers_new(w.client, &(struct bh_controllers_opts){0}, &err);
    world_run(&w, 3); /* in the middle of it */
    (void)bh_controllers_free(c);
    world_close(&w);
}
