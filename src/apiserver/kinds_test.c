/* What single kinds have beyond their rules: addresses of services, scales, runtime classes,
 * budgets. */
#include "apiserver/test_server.h"

#include "base/test.h"

#include <stdio.h>

#define SVCS    "/api/v1/namespaces/default/services"
#define SETS    "/apis/apps/v1/namespaces/default/replicasets"
#define PODS    "/api/v1/namespaces/default/pods"
#define BUDGETS "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
#define CLASSES "/apis/node.k8s.io/v1/runtimeclasses"
#define MERGE   "application/merge-patch+json"

static const char set[] =
    "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"replicas\":2,\"selector\":{\"matchLabels\":{"
    "\"app\":\"x\"},\"matchExpressions\":[{\"key\":\"b\",\"operator\":\"NotIn\",\"values\":[\"2\","
    "\"1\"]}]},\"template\":{\"metadata\":{\"labels\":{\"app\":\"x\"}},\"spec\":{\"containers\":[{"
    "\"name\":\"c\",\"image\":\"i\"}]}}}}";

static int patch(struct ts *t, const char *path, const char *body)
{
    return ts_call_with(t, "PATCH", path, NULL, MERGE, body);
}

static struct bh_str member(struct ts *t, const char *name)
{
    struct bh_str body = bh_buf_str(&t->body);
    ptrdiff_t at = bh_str_find(body, bh_s(name));

    if (at < 0)
        return BH_S("");
    body = bh_str_sub(body, (size_t)at + bh_s(name).n, body.n);
    return bh_str_cut(&body, '"');
}

BH_TEST(kinds_services_get_addresses_of_their_own)
{
    struct bh_str ip;
    char a[64], body[256];
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "POST", SVCS,
                  "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"ports\":[{\"port\":80}]}}"),
          201);
    ip = member(&t, "\"clusterIP\":\"");
    BH_CHECK(bh_str_starts(ip, BH_S("10.96.")));
    (void)snprintf(a, sizeof(a), "%.*s", BH_SF(ip));
    (void)snprintf(
        body, sizeof(body),
        "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"clusterIP\":\"%s\",\"ports\":[{\"port\":"
        "80}]}}",
        a);
    BH_EQ(ts_call(&t, "POST", SVCS, body), 422);
    BH_CHECK(ts_has(&t, "provided IP is already allocated"));
    BH_EQ(patch(&t, SVCS "/a", "{\"spec\":{\"clusterIP\":\"10.96.0.77\"}}"), 422);
    BH_EQ(ts_call(&t, "DELETE", SVCS "/a", NULL), 200);
    BH_EQ(ts_call(&t, "POST", SVCS, body), 201);
    ts_stop(&t);
}

/* What is accepted but not durable yet is taken all the same. */
BH_TEST(kinds_services_see_what_is_on_its_way)
{
    static const char b[] =
        "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"type\":\"NodePort\",\"ports\":[{"
        "\"port\":80,\"nodePort\":30100}]}}";
    struct ts t;

    ts_start(&t, 1);
    ts_post(&t, "POST", SVCS,
            "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"type\":\"NodePort\",\"clusterIP\":\"10.96."
            "1.1\","
            "\"ports\":[{\"port\":80,\"nodePort\":30100}]}}");
    ts_post(&t, "POST", SVCS, b);
    BH_EQ(t.answers, 1);
    BH_EQ(t.status, 422);
    BH_CHECK(ts_has(&t, "provided port is already allocated"));
    ts_settle(&t);
    BH_EQ(t.status, 201);
    BH_EQ(patch(&t, SVCS "/a", "{\"spec\":{\"type\":\"ClusterIP\"}}"), 200);
    BH_CHECK(!ts_has(&t, "\"nodePort\":3"));
    BH_EQ(ts_call(&t, "POST", SVCS, b), 201);
    ts_stop(&t);
}

BH_TEST(kinds_the_scale_is_the_replicas)
{
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "POST", SETS, set), 201);
    BH_EQ(ts_call(&t, "GET", SETS "/s/scale", NULL), 200);
    BH_CHECK(ts_has(&t, "\"kind\":\"Scale\",\"apiVersion\":\"autoscaling/v1\"") &&
             ts_has(&t,
                    "\"spec\":{\"replicas\":2},\"status\":{\"replicas\":0,\"selector\":\"app=x,b "
                    "notin (1,2)\"}"));
    BH_EQ(ts_call(
              &t, "PUT", SETS "/s/scale",
              "{\"apiVersion\":\"autoscaling/v1\",\"kind\":\"Scale\",\"metadata\":{\"name\":\"s\"},"
              "\"spec\":{\"replicas\":3}}"),
          200);
    BH_CHECK(ts_has(&t, "\"kind\":\"Scale\"") && ts_has(&t, "\"replicas\":3"));
    BH_EQ(patch(&t, SETS "/s/scale", "{\"spec\":{\"replicas\":-1}}"), 422);
    BH_CHECK(ts_has(&t, "Scale.autoscaling \\\"s\\\" is invalid: spec.replicas"));
    BH_EQ(patch(&t, SETS "/s/scale", "{\"metadata\":{\"resourceVersion\":\"1\"}}"), 409);
    BH_EQ(patch(&t, SETS "/none/scale", "{\"spec\":{\"replicas\":1}}"), 404);
    BH_EQ(patch(&t, SETS "/s/scale", "{\"spec\":{\"replicas\":4}}"), 200);
    BH_EQ(ts_call(&t, "GET", SETS "/s", NULL), 200);
    BH_CHECK(ts_has(&t, "\"replicas\":4") && ts_has(&t, "\"generation\":3") &&
             ts_has(&t, "\"subresource\":\"scale\""));
    ts_stop(&t);
}

BH_TEST(kinds_the_scale_is_applied)
{
    static const char body[] =
        "{\"apiVersion\":\"autoscaling/v1\",\"kind\":\"Scale\",\"metadata\":{"
        "\"name\":\"s\"},\"spec\":{\"replicas\":7}}";
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "POST", SETS, set), 201);
    BH_EQ(ts_call_with(&t, "PATCH", SETS "/s/scale?fieldManager=m", NULL,
                       "application/apply-patch+yaml", body),
          409);
    BH_CHECK(ts_has(&t, "using autoscaling/v1: .spec.replicas"));
    BH_EQ(ts_call_with(&t, "PATCH", SETS "/s/scale?fieldManager=m&force=true", NULL,
                       "application/apply-patch+yaml", body),
          200);
    BH_CHECK(ts_has(&t, "\"kind\":\"Scale\"") && ts_has(&t, "\"replicas\":7"));
    ts_stop(&t);
}

#define DAEMONS    "/apis/apps/v1/namespaces/default/daemonsets"
#define COUNTED(n) "\"deprecated.daemonset.template.generation\":\"" n "\""

BH_TEST(kinds_daemons_count_the_changes_of_their_template)
{
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "POST", DAEMONS, set), 201);
    BH_CHECK(ts_has(&t, COUNTED("1")) && ts_has(&t, "\"generation\":1"));
    BH_EQ(patch(&t, DAEMONS "/s", "{\"spec\":{\"minReadySeconds\":3}}"), 200);
    BH_CHECK(ts_has(&t, COUNTED("1")) && ts_has(&t, "\"generation\":2"));
    BH_EQ(patch(&t, DAEMONS "/s",
                "{\"metadata\":{\"annotations\":null},\"spec\":{\"template\":{\"spec\":{"
                "\"terminationGracePeriodSeconds\":1}}}}"),
          200);
    BH_CHECK(ts_has(&t, COUNTED("2")) && ts_has(&t, "\"generation\":3"));
    BH_EQ(patch(&t, DAEMONS "/s/status", "{\"status\":{\"numberReady\":1}}"), 200);
    BH_CHECK(ts_has(&t, COUNTED("2")) && ts_has(&t, "\"numberReady\":1"));
    ts_stop(&t);
}

BH_TEST(kinds_addresses_of_endpoints)
{
    static const char slices[] = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    static const struct {
        const char *type, *address, *why; /* NULL: it is fine */
    } table[] = {
        {"IPv4", "10.1.2.3", NULL},
        {"IPv4", "fd00::1", "must be an IPv4 address"},
        {"IPv4", "127.0.0.1", "may not be in the loopback range"},
        {"IPv4", "10.01.2.3", "must not have leading 0s"},
        {"IPv6", "fd00::1", NULL},
        {"IPv6", "FD00::1", "must be in canonical form"},
        {"FQDN", "a.example.com", NULL},
        {"FQDN", "a", "should be a domain with at least two segments"},
    };
    char body[256];
    struct ts t;

    ts_start(&t, 1);
    for (size_t i = 0; i < BH_COUNT(table); i++) {
        (void)snprintf(body, sizeof(body),
                       "{\"metadata\":{\"name\":\"s%zu\"},\"addressType\":\"%s\",\"endpoints\":[{"
                       "\"addresses\":[\"%s\"]}]}",
                       i, table[i].type, table[i].address);
        BH_EQ(ts_call(&t, "POST", slices, body), table[i].why ? 422 : 201);
        BH_CHECK(!table[i].why || ts_has(&t, table[i].why));
    }
    ts_stop(&t);
}

static const char plain_pod[] =
    "{\"metadata\":{\"name\":\"p\",\"labels\":{\"app\":\"x\"}},\"spec\":{"
    "\"nodeName\":\"n\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}";

BH_TEST(kinds_runtime_classes_add_to_their_pods)
{
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(
              &t, "POST", CLASSES,
              "{\"metadata\":{\"name\":\"boxed\"},\"handler\":\"box\",\"overhead\":{\"podFixed\":{"
              "\"cpu\":\"250m\"}},\"scheduling\":{\"nodeSelector\":{\"pool\":\"boxes\"},"
              "\"tolerations\":[{\"key\":\"k\",\"operator\":\"Exists\"}]}}"),
          201);
    BH_EQ(ts_call(&t, "POST", PODS,
                  "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"runtimeClassName\":\"boxed\","
                  "\"containers\":"
                  "[{\"name\":\"c\",\"image\":\"i\"}]}}"),
          201);
    BH_CHECK(ts_has(&t, "\"overhead\":{\"cpu\":\"250m\"}") &&
             ts_has(&t, "\"nodeSelector\":{\"pool\":\"boxes\"}") && ts_has(&t, "\"key\":\"k\""));
    BH_EQ(ts_call(&t, "POST", PODS,
                  "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"runtimeClassName\":\"boxed\","
                  "\"nodeSelector\":{\"pool\":\"other\"},\"containers\":[{\"name\":\"c\",\"image\":"
                  "\"i\"}]}"
                  "}"),
          403);
    BH_CHECK(ts_has(&t, "conflict: runtimeClass.scheduling.nodeSelector[pool] = boxes"));
    BH_EQ(ts_call(&t, "POST", PODS,
                  "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"runtimeClassName\":\"none\","
                  "\"containers\":[{"
                  "\"name\":\"c\",\"image\":\"i\"}]}}"),
          403);
    ts_stop(&t);
}

static int evict(struct ts *t, const char *query)
{
    char path[128];

    (void)snprintf(path, sizeof(path), PODS "/p/eviction%s", query);
    return ts_call(
        t, "POST", path,
        "{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\",\"metadata\":{\"name\":\"p\"}}");
}

BH_TEST(kinds_evictions_ask_the_budget)
{
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "POST", PODS, plain_pod), 201);
    BH_EQ(patch(&t, PODS "/p/status",
                "{\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\",\"status\":"
                "\"True\"}]}}"),
          200);
    BH_EQ(ts_call(&t, "POST", BUDGETS,
                  "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"minAvailable\":1,\"selector\":{"
                  "\"matchLabels\":{\"app\":\"x\"}}}}"),
          201);
    BH_EQ(evict(&t, ""), 429); /* nobody has looked at it */
    BH_CHECK(ts_has(&t, "is still being processed by the server"));
    BH_EQ(patch(&t, BUDGETS "/b/status",
                "{\"status\":{\"observedGeneration\":1,\"currentHealthy\":1,\"desiredHealthy\":1,"
                "\"expectedPods\":1,\"disruptionsAllowed\":0}}"),
          200);
    BH_EQ(evict(&t, ""), 429);
    BH_CHECK(ts_has(&t, "The disruption budget b needs 1 healthy pods and has 1 currently"));
    BH_EQ(patch(&t, BUDGETS "/b/status",
                "{\"status\":{\"currentHealthy\":2,\"disruptionsAllowed\":1}}"),
          200);
    BH_EQ(evict(&t, "?dryRun=All"), 201);
    BH_EQ(ts_call(&t, "GET", BUDGETS "/b", NULL), 200);
    BH_CHECK(ts_has(&t, "\"disruptionsAllowed\":1"));
    BH_EQ(evict(&t, ""), 201);
    BH_EQ(ts_call(&t, "GET", BUDGETS "/b", NULL), 200);
    BH_CHECK(ts_has(&t, "\"disruptionsAllowed\":0") && ts_has(&t, "\"disruptedPods\":{\"p\":"));
    ts_stop(&t);
}
