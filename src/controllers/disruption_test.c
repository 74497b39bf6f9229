/* Budgets: what is counted, what an eviction takes, and what is given back. */
#include "api/budget.h"
#include "api/gen/apps_v1.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/policy_v1.h"
#include "base/arena.h"
#include "base/test.h"
#include "controllers/cluster_test.h"

#define BUDGET &bh_policy_v1_pod_disruption_budget_kind
#define SET    &bh_apps_v1_replica_set_kind
#define DEPLOY &bh_apps_v1_deployment_kind

#define TEMPLATE                                                                                   \
    "\"selector\":{\"matchLabels\":{\"app\":\"a\"}},\"template\":{\"metadata\":{\"labels\":{"      \
    "\"app\":\"a\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}"

static void open_budgets(struct tc *t)
{
    tc_open(t, "disruption-controller");
}

/* rule: "minAvailable":2 … */
static void budget(struct tc *t, const char *rule)
{
    (void)world_make(&t->w, BUDGET, "default",
                     tc_fmt(t,
                            "{\"metadata\":{\"name\":\"b\"},\"spec\":{%s,\"selector\":{"
                            "\"matchLabels\":{\"app\":\"a\"}}}}",
                            rule));
}

static void ready(struct tc *t, const char *name, bool yes)
{
    (void)world_merge(&t->w, POD, "default", name, "status",
                      tc_fmt(t,
                             "{\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":"
                             "\"Ready\",\"status\":\"%s\"}]}}",
                             yes ? "True" : "False"));
}

/* A pod that runs and is ready; owner: of its controller, or NULL. */
static void pod(struct tc *t, const char *name, const char *kind, const struct bh_obj *owner)
{
    const char *refs = "";

    if (owner)
        refs = tc_fmt(t,
                      ",\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"%s\","
                      "\"name\":\"%.*s\",\"uid\":\"%.*s\",\"controller\":true}]",
                      kind, BH_SF(owner->name), BH_SF(owner->uid));
    (void)world_make(&t->w, POD, "default",
                     tc_fmt(t,
                            "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"app\":\"a\"}%s},"
                            "\"spec\":{\"nodeName\":\"n\",\"containers\":[{\"name\":\"c\","
                            "\"image\":\"i\"}]}}",
                            name, refs));
    ready(t, name, true);
}

static struct bh_obj *set(struct tc *t, const char *name, int replicas, const struct bh_obj *of)
{
    const char *refs = "";

    if (of)
        refs = tc_fmt(t,
                      ",\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\","
                      "\"name\":\"%.*s\",\"uid\":\"%.*s\",\"controller\":true}]",
                      BH_SF(of->name), BH_SF(of->uid));
    return world_make(&t->w, SET, "default",
                      tc_fmt(t, "{\"metadata\":{\"name\":\"%s\"%s},\"spec\":{\"replicas\":%d,%s}}",
                             name, refs, replicas, TEMPLATE));
}

static const struct bh_policy_v1_pod_disruption_budget_status *state(struct tc *t)
{
    struct bh_obj *o = world_get(&t->w, BUDGET, "default", "b");

    return &((const struct bh_policy_v1_pod_disruption_budget *)bh_obj_struct(o))->status;
}

/* "allowed/healthy/desired/expected" */
static const char *counts(struct tc *t)
{
    const struct bh_policy_v1_pod_disruption_budget_status *s = state(t);

    return tc_fmt(t, "%d/%d/%d/%d", (int)s->disruptions_allowed, (int)s->current_healthy,
                  (int)s->desired_healthy, (int)s->expected_pods);
}

static const char *says(struct tc *t)
{
    const struct bh_meta_v1_condition *c =
        bh_condition_find(&state(t)->conditions, "DisruptionAllowed");

    return c ? tc_fmt(t, "%.*s %.*s %.*s", BH_SF(c->status), BH_SF(c->reason), BH_SF(c->message))
             : "";
}

static int evict(struct tc *t, const char *name, const char *query)
{
    (void)world_call(&t->w,
                     &(struct bh_client_req){
                         .verb = BH_VERB_CREATE,
                         .kind = POD,
                         .ns = BH_S("default"),
                         .name = bh_s(name),
                         .subresource = BH_S("eviction"),
                         .query = bh_s(query),
                         .body = bh_s(tc_fmt(t,
                                             "{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\","
                                             "\"metadata\":{\"name\":\"%s\"}}",
                                             name))});
    return t->w.status;
}

BH_TEST(budget_counts_ready_pods)
{
    struct tc t;

    open_budgets(&t);
    budget(&t, "\"minAvailable\":2");
    tc_run(&t, 100);
    BH_STREQ(bh_s(counts(&t)), "0/0/2/0");
    BH_STREQ(bh_s(says(&t)), "False InsufficientPods ");
    BH_EQ(state(&t)->observed_generation, 1);
    pod(&t, "p", NULL, NULL);
    pod(&t, "q", NULL, NULL);
    pod(&t, "r", NULL, NULL);
    tc_run(&t, 100);
    BH_STREQ(bh_s(counts(&t)), "1/3/2/3");
    BH_STREQ(bh_s(says(&t)), "True SufficientPods ");
    ready(&t, "q", false);
    tc_run(&t, 100);
    BH_STREQ(bh_s(counts(&t)), "0/2/2/3");
    world_delete(&t.w, POD, "default", "q", "{\"gracePeriodSeconds\":0}");
    tc_run(&t, 100);
    BH_STREQ(bh_s(counts(&t)), "0/2/2/2");
    /* Another namespace is another matter, and so is a pod that loses its label. */
    (void)world_merge(&t.w, POD, "default", "r", "", "{\"metadata\":{\"labels\":{\"app\":\"z\"}}}");
    tc_run(&t, 100);
    BH_STREQ(bh_s(counts(&t)), "0/1/2/1");
    tc_close(&t);
}

/* Percentages are of what the controllers want, a Deployment counted once for all its sets. */
BH_TEST(budget_percentages_are_of_the_scale)
{
    struct bh_obj *d, *old, *now, *alone;
    struct tc t;

    open_budgets(&t);
    d = world_make(&t.w, DEPLOY, "default",
                   "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"replicas\":5," TEMPLATE "}}");
    old = set(&t, "old", 1, d);
    now = set(&t, "now", 4, d);
    alone = set(&t, "alone", 2, NULL);
    pod(&t, "p", "ReplicaSet", old);
    pod(&t, "q", "ReplicaSet", now);
    pod(&t, "r", "ReplicaSet", alone);
    budget(&t, "\"maxUnavailable\":\"30%\"");
    tc_run(&t, 100);
    BH_STREQ(bh_s(counts(&t)), "0/3/4/7"); /* 30% of 7, rounded up, may be away */
    (void)world_merge(&t.w, DEPLOY, "default", "d", "", "{\"spec\":{\"replicas\":2}}");
    tc_run(&t, 100);
    BH_STREQ(bh_s(counts(&t)), "1/3/2/4");
    pod(&t, "free", NULL, NULL);
    tc_run(&t, 100);
    BH_STREQ(bh_s(counts(&t)), "2/4/2/4");
    BH_CHECK(tc_event(&t, "default", "b", "UnmanagedPods",
                      "Pods selected by this PodDisruptionBudget (selector: "
                      "&LabelSelector{MatchLabels:map[string]string{app: a,},MatchExpressions:"
                      "[]LabelSelectorRequirement{},}) were found to be unmanaged."));
    tc_close(&t);
}

BH_TEST(budget_that_cannot_be_counted_allows_nothing)
{
    struct bh_obj *s;
    struct tc t;

    open_budgets(&t);
    s = set(&t, "s", 1, NULL);
    pod(&t, "p", "ReplicaSet", s);
    budget(&t, "\"maxUnavailable\":1");
    tc_run(&t, 100);
    BH_STREQ(bh_s(counts(&t)), "1/1/0/1");
    world_delete(&t.w, SET, "default", "s", "{\"propagationPolicy\":\"Orphan\"}");
    (void)world_merge(&t.w, SET, "default", "s", "", "{\"metadata\":{\"finalizers\":null}}");
    tc_run(&t, 100);
    BH_EQ(state(&t)->disruptions_allowed, 0);
    BH_STREQ(bh_s(says(&t)), "False SyncFailed found no controllers for pod \"p\"");
    BH_EQ(evict(&t, "p", ""), 429);
    tc_close(&t);
}

BH_TEST(eviction_takes_from_the_budget)
{
    struct tc t;

    open_budgets(&t);
    pod(&t, "p", NULL, NULL);
    pod(&t, "q", NULL, NULL);
    budget(&t, "\"minAvailable\":1");
    tc_run(&t, 100);
    BH_STREQ(bh_s(counts(&t)), "1/2/1/2");
    BH_EQ(evict(&t, "p", "dryRun=All"), 201);
    BH_EQ(state(&t)->disruptions_allowed, 1);
    BH_CHECK(!tc_deleting(&t, "default", "p"));
    BH_EQ(evict(&t, "p", ""), 201);
    BH_CHECK(tc_deleting(&t, "default", "p"));
    BH_EQ(evict(&t, "q", ""), 429);
    BH_STREQ(t.w.message, "Cannot evict pod as it would violate the pod's disruption budget.");
    BH_EQ(evict(&t, "p", ""), 201); /* it goes already */
    tc_run(&t, 100);
    BH_STREQ(bh_s(counts(&t)), "0/1/1/2");
    BH_EQ(state(&t)->disrupted_pods.n, 0);
    ready(&t, "q", false); /* nobody's health depends on it, but the budget is not met */
    tc_run(&t, 100);
    BH_EQ(evict(&t, "q", ""), 429);
    (void)world_merge(&t.w, BUDGET, "default", "b", "",
                      "{\"spec\":{\"unhealthyPodEvictionPolicy\":\"AlwaysAllow\"}}");
    BH_EQ(evict(&t, "q", ""), 201);
    tc_close(&t);
}

/* An eviction that was granted and did not come: two minutes later the pod counts again. */
BH_TEST(budget_takes_back_what_did_not_happen)
{
    struct tc t;

    open_budgets(&t);
    pod(&t, "p", NULL, NULL);
    budget(&t, "\"minAvailable\":0");
    tc_run(&t, 100);
    BH_STREQ(bh_s(counts(&t)), "1/1/0/1");
    (void)world_merge(&t.w, BUDGET, "default", "b", "status",
                      tc_fmt(&t,
                             "{\"status\":{\"disruptionsAllowed\":0,\"disruptedPods\":{\"p\":"
                             "\"2026-01-01T00:00:%02dZ\",\"gone\":\"2026-01-01T00:00:00Z\"}}}",
                             (int)(bh_loop_wall_ns(t.w.loop) / 1000000000 - WORLD_START_S)));
    tc_run(&t, 100);
    BH_STREQ(bh_s(counts(&t)), "0/0/0/1");
    BH_EQ(state(&t)->disrupted_pods.n, 1); /* a pod that is not there is not awaited */
    tc_run(&t, 119000);
    BH_STREQ(bh_s(counts(&t)), "0/0/0/1");
    tc_run(&t, 3000);
    BH_STREQ(bh_s(counts(&t)), "1/1/0/1");
    BH_EQ(state(&t)->disrupted_pods.n, 0);
    BH_CHECK(tc_event(&t, "default", "p", "NotDeleted",
                      "Pod was expected by PDB default/b to be deleted but it wasn't"));
    tc_close(&t);
}

BH_TEST(stale_disruption_of_a_pod_is_taken_back)
{
    struct tc t;

    open_budgets(&t);
    pod(&t, "p", NULL, NULL);
    (void)world_merge(
        &t.w, POD, "default", "p", "status",
        tc_fmt(&t,
               "{\"status\":{\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":\"True\","
               "\"reason\":\"EvictionByEvictionAPI\",\"message\":\"m\",\"lastTransitionTime\":"
               "\"2026-01-01T00:00:%02dZ\"}]}}",
               (int)(bh_loop_wall_ns(t.w.loop) / 1000000000 - WORLD_START_S)));
    tc_run(&t, 118000);
    BH_STREQ(bh_s(tc_pod_condition(&t, "default", "p", "DisruptionTarget")),
             "True EvictionByEvictionAPI m");
    tc_run(&t, 5000);
    BH_STREQ(bh_s(tc_pod_condition(&t, "default", "p", "DisruptionTarget")), "False  ");
    tc_close(&t);
}
