/* The whole driver as a process of its own, against a toy API server and this test as its kubelet.
 */
#include "driver/gpu_driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tests/fake_api.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "driver/gpu_faults.h"
#include "net/dra.pb-c.h"
#include "net/drahealth.pb-c.h"
#include "net/grpc.h"
#include "net/loop.h"
#include "net/pb.h"
#include "net/pluginregistration.pb-c.h"

#define SLICES "/apis/resource.k8s.io/v1/resourceslices"
#define CLAIMS "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
#define UID    "6c1f0000-0000-4000-8000-000000000001"
#define DRA    "/k8s.io.kubelet.pkg.apis.dra."

/* This test binary, started with the driver's name as its first argument, is the driver. */
__attribute__((constructor)) static void maybe_driver(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "gpu-driver") == 0)
        _exit(bh_gpu_driver_main(argc - 1, argv + 1));
}

struct fix {
    struct bh_loop *l;
    struct bh_fake_api *api;
    char dir[64], kubeconfig[96], data[96], cdi[96], dra[160], reg[160], profile[96];
    struct bh_proc *proc;
    bool running;
    int exit_code;
    struct bh_grpc_client *cl;
    bool answered;
    enum bh_grpc_status status;
    struct bh_buf body;
    struct bh_grpc_stream *stream;
    struct bh_buf health;
    int health_messages;
};

static void exited(void *arg, const struct bh_proc_result *res)
{
    struct fix *f = arg;

    f->running = false;
    f->proc = NULL;
    f->exit_code = res->exit_code;
    if (res->err.n > 0 && getenv("BH_TEST_VERBOSE"))
        (void)!write(2, res->err.p, res->err.n);
}

static void driver_start(struct fix *f)
{
    const char *argv[] = {"driver_test",
                          "gpu-driver",
                          "--simulate",
                          "8",
                          "--node-name",
                          "n1",
                          "--kubeconfig",
                          f->kubeconfig,
                          "--data-dir",
                          f->data,
                          "--kubelet-root",
                          f->dir,
                          "--orphan-grace",
                          "1",
                          "--cdi-dir",
                          f->cdi,
                          f->profile[0] ? "--profile" : NULL,
                          f->profile,
                          NULL};
    const struct bh_proc_opts o = {.file = "/proc/self/exe",
                                   .argv = argv,
                                   .output_max = 1 << 16,
                                   .stdout_fd = -1,
                                   .stderr_fd = -1,
                                   .die_with_parent = true};
    struct bh_err e = {0};

    if (bh_proc_spawn(f->l, &o, exited, f, &f->proc, &e) < 0)
        bh_test_fail(__FILE__, __LINE__, "%s", e.msg);
    f->running = true;
}

static void pause_over(void *arg)
{
    bh_loop_stop(arg);
}

static void run_ms(struct fix *f, int ms)
{
    struct bh_timer t;

    bh_timer_init(&t, f->l, pause_over, f->l);
    bh_timer_start(&t, ms);
    bh_loop_run(f->l);
}

/* Runs the loop until the condition holds; fails after ten seconds. */
#define UNTIL(f, cond)                                                                             \
    do {                                                                                           \
        int bh_n = 0;                                                                              \
        while (!(cond) && bh_n++ < 5000)                                                           \
            run_ms((f), 2);                                                                        \
        BH_CHECK(cond);                                                                            \
    } while (0)

static void fix_init(struct fix *f)
{
    struct bh_grpc_client_opts o = {.backoff_min_ms = 5, .backoff_max_ms = 20};
    char target[200];

    memset(f, 0, sizeof(*f));
    f->l = bh_loop_new_real(NULL);
    f->api = bh_fake_api_new(f->l);
    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/bh-gpud-XXXXXX");
    BH_CHECK(mkdtemp(f->dir) != NULL);
    (void)snprintf(f->kubeconfig, sizeof(f->kubeconfig), "%s/kubeconfig", f->dir);
    (void)snprintf(f->data, sizeof(f->data), "%s/data", f->dir);
    (void)snprintf(f->cdi, sizeof(f->cdi), "%s/cdi", f->dir);
    (void)snprintf(f->dra, sizeof(f->dra), "%s/plugins/" BH_GPU_DRIVER_NAME "/dra.sock", f->dir);
    (void)snprintf(f->reg, sizeof(f->reg), "%s/plugins_registry/" BH_GPU_DRIVER_NAME "-reg.sock",
                   f->dir);
    bh_fake_api_kubeconfig(f->api, f->kubeconfig);
    bh_fake_api_put(f->api, "/api/v1/nodes/n1",
                    "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n1\","
                    "\"uid\":\"uid-of-n1\"}}");
    bh_fake_api_put(
        f->api, CLAIMS "/c1",
        "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/"
        "v1\",\"metadata\":{\"name\":\"c1\","
        "\"namespace\":\"default\",\"uid\":\"" UID "\"},\"spec\":{\"devices\":{}},\"status\":{"
        "\"allocation\":{\"devices\":{\"results\":[{\"request\":\"gpu\",\"driver\":\"gpu.bulkhead."
        "dev\","
        "\"pool\":\"n1\",\"device\":\"gpu-3\"},{\"request\":\"nic\",\"driver\":\"nic.example.com\","
        "\"pool\":\"n1\",\"device\":\"eth-0\"}]}}}}");
    (void)snprintf(target, sizeof(target), "unix:%s", f->dra);
    o.target = target;
    f->cl = bh_grpc_client_new(f->l, &o);
}

static void fix_done(struct fix *f)
{
    f->cl = bh_grpc_client_free(f->cl);
    if (f->running) {
        bh_proc_kill(f->proc, SIGTERM);
        UNTIL(f, !f->running);
        BH_EQ(f->exit_code, 0);
        BH_CHECK(!bh_fs_exists(f->dra));
        BH_CHECK(!bh_fs_exists(f->reg));
    }
    f->api = bh_fake_api_free(f->api);
    run_ms(f, 20);
    f->l = bh_loop_free(f->l);
    bh_buf_done(&f->body);
    bh_buf_done(&f->health);
    BH_EQ(bh_fs_remove_tree(f->dir, NULL), 0);
}

static void answered(void *arg, const struct bh_grpc_result *res)
{
    struct fix *f = arg;

    f->answered = true;
    f->status = res->status;
    bh_buf_clear(&f->body);
    bh_buf_adds(&f->body, res->status == BH_GRPC_OK ? res->body : res->message);
}

static void call(struct fix *f, struct bh_grpc_client *cl, const char *method, struct bh_str msg)
{
    f->answered = false;
    (void)bh_grpc_unary(cl, method, msg, 5000, answered, f);
    UNTIL(f, f->answered);
}

static struct bh_str claims_request(struct bh_arena *a, const char *uid)
{
    Bh__Dra__NodePrepareResourcesRequest req = BH__DRA__NODE_PREPARE_RESOURCES_REQUEST__INIT;
    Bh__Dra__Claim c = BH__DRA__CLAIM__INIT;
    Bh__Dra__Claim *cs[] = {&c};

    c.namespace_ = bh_pb_str(a, BH_S("default"));
    c.name = bh_pb_str(a, BH_S("c1"));
    c.uid = bh_pb_str(a, bh_s(uid));
    req.claims = cs;
    req.n_claims = 1;
    return bh_pb_pack(a, &req);
}

/* Prepares c1 and checks the answer. */
static void prepare_ok(struct fix *f)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const Bh__Dra__NodePrepareResourcesResponse *res;

    call(f, f->cl, DRA "v1.DRAPlugin/NodePrepareResources", claims_request(a, UID));
    BH_EQ(f->status, BH_GRPC_OK);
    res = bh_pb_unpack(a, &bh__dra__node_prepare_resources_response__descriptor,
                       bh_buf_str(&f->body));
    BH_CHECK(res && res->n_claims == 1);
    if (!res || res->n_claims != 1)
        return;
    BH_STREQ(bh_s(res->claims[0]->key), UID);
    BH_CHECK(!res->claims[0]->value->error || !res->claims[0]->value->error[0]);
    BH_EQ(res->claims[0]->value->n_devices,
          1); /* the other driver's device is not ours to prepare */
    BH_STREQ(bh_s(res->claims[0]->value->devices[0]->device_name), "gpu-3");
    BH_STREQ(bh_s(res->claims[0]->value->devices[0]->cdi_device_ids[0]),
             "gpu.bulkhead.dev/claim=" UID "-gpu-3");
    BH_EQ(res->claims[0]->value->devices[0]->n_cdi_device_ids, 2);
}

static void health_message(void *arg, struct bh_str msg)
{
    struct fix *f = arg;

    f->health_messages++;
    bh_buf_clear(&f->health);
    bh_buf_adds(&f->health, msg);
}

static void health_ended(void *arg, enum bh_grpc_status st, struct bh_str message)
{
    (void)st;
    (void)message;
    ((struct fix *)arg)->stream = NULL;
}

static void health_open(struct fix *f)
{
    static const struct bh_grpc_stream_ops ops = {health_message, health_ended};

    f->stream =
        bh_grpc_stream_open(f->cl, "/v1alpha1.DRAResourceHealth/NodeWatchResources", 0, &ops, f);
    BH_EQ(bh_grpc_stream_send(f->stream, (struct bh_str){NULL, 0}), 0);
    bh_grpc_stream_close_send(f->stream);
}

static bool device_healthy(struct fix *f, size_t i)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const Bh__Drahealth__NodeWatchResourcesResponse *res = bh_pb_unpack(
        a, &bh__drahealth__node_watch_resources_response__descriptor, bh_buf_str(&f->health));

    return res && i < res->n_devices &&
           res->devices[i]->health == BH__DRAHEALTH__HEALTH_STATUS__HEALTHY;
}

static bool tainted(struct fix *f)
{
    return bh_str_find(bh_fake_api_first(f->api, SLICES),
                       BH_S("\"taints\":[{\"key\":\"gpu.bulkhead.dev/"
                            "xid\",\"value\":\"79\",\"effect\":\"NoExecute\"")) > 0;
}

BH_TEST(gpu_driver_publishes_prepares_and_survives)
{
    struct fix f;
    BH_AUTO_ARENA a = bh_arena_new(0);
    size_t writes, n = 0;
    int64_t t0;
    char spec[300];

    fix_init(&f);
    driver_start(&f);
    UNTIL(&f, bh_fake_api_count(f.api, SLICES) == 1);
    BH_EQ(bh_fake_api_writes(f.api), 1);
    BH_CHECK(bh_str_find(bh_fake_api_first(f.api, SLICES), BH_S("\"gpu-7\"")) > 0);
    BH_CHECK(bh_str_find(bh_fake_api_first(f.api, SLICES),
                         BH_S("\"memory\":{\"value\":\"141Gi\"}")) > 0);
    BH_CHECK(bh_str_find(bh_fake_api_first(f.api, SLICES), BH_S("\"uid\":\"uid-of-n1\"")) > 0);

    UNTIL(&f, bh_grpc_client_state(f.cl) == BH_GRPC_READY);
    prepare_ok(&f);
    prepare_ok(&f);
    (void)snprintf(spec, sizeof(spec), "%s/gpu.bulkhead.dev-claim_" UID ".json", f.cdi);
    BH_CHECK(bh_fs_exists(spec));
    health_open(&f);
    UNTIL(&f, f.health_messages > 0);
    BH_CHECK(device_healthy(&f, 3));

    t0 = bh_loop_wall_ns(f.l);
    BH_EQ(bh_faults_set(f.data, BH_S("gpu-3"), 79, (struct bh_time){t0 / 1000000000, 0}, NULL), 0);
    UNTIL(&f, tainted(&f));
    BH_CHECK(bh_loop_wall_ns(f.l) - t0 <
             1000000000); /* milliseconds; a second under load and sanitizers */
    UNTIL(&f, !device_healthy(&f, 3));
    BH_CHECK(device_healthy(&f, 2));

    bh_proc_kill(f.proc, SIGKILL); /* everything is on disk */
    UNTIL(&f, !f.running);
    UNTIL(&f, bh_grpc_client_state(f.cl) != BH_GRPC_READY);
    writes = bh_fake_api_writes(f.api);
    driver_start(&f);
    UNTIL(&f, bh_grpc_client_state(f.cl) == BH_GRPC_READY);
    prepare_ok(&f);
    run_ms(&f, 100);
    BH_EQ(bh_fake_api_writes(f.api),
          writes); /* the slice is as it should be: adopted, not written */
    BH_CHECK(tainted(&f));
    BH_EQ(bh_faults_clear(f.data, BH_S("gpu-3"), 0, &n, NULL), 0);
    UNTIL(&f, !tainted(&f));

    call(&f, f.cl, DRA "v1beta1.DRAPlugin/NodeUnprepareResources", claims_request(a, UID));
    BH_EQ(f.status, BH_GRPC_OK);
    BH_CHECK(!bh_fs_exists(spec));
    fix_done(&f);
}

/* Taints of the published devices, one character each: T or '-'. */
static const char *taints(struct fix *f, struct bh_arena *a)
{
    struct bh_str rest = bh_str_dup(a, bh_fake_api_first(f->api, SLICES));
    char *ret = bh_new_n(a, char, 64);
    size_t n = 0;
    ptrdiff_t at;

    while (n < 63 && (at = bh_str_find(rest, BH_S("{\"name\":\"gpu-"))) >= 0) {
        ptrdiff_t next;

        rest = bh_str_sub(rest, (size_t)at + 1, rest.n);
        next = bh_str_find(rest, BH_S("{\"name\":\"gpu-"));
        at = bh_str_find(bh_str_sub(rest, 0, next < 0 ? rest.n : (size_t)next),
                         BH_S("\"effect\":\"NoExecute\""));
        ret[n++] = at >= 0 ? 'T' : '-';
    }
    return ret;
}

static bool tainted_as(struct fix *f, const char *want)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    return strcmp(taints(f, a), want) == 0;
}

BH_TEST(gpu_driver_taints_partitions)
{
    struct fix f;
    size_t n;

    fix_init(&f);
    (void)snprintf(f.profile, sizeof(f.profile), "%s/profile.yaml", f.dir);
    BH_EQ(bh_fs_write_plain(f.profile, BH_S("{count: 8, partitions: 2}"), 0644, NULL), 0);
    driver_start(&f);
    UNTIL(&f, bh_fake_api_count(f.api, SLICES) == 2);
    UNTIL(&f, tainted_as(&f, "------------------------")); /* eight GPUs, their parts behind */
    BH_EQ(bh_faults_set(f.data, BH_S("gpu-1"), 79, (struct bh_time){1700000000, 0}, NULL), 0);
    UNTIL(&f, tainted_as(&f, "-T--------TT------------"));
    BH_EQ(bh_faults_clear(f.data, BH_S("gpu-1"), 0, &n, NULL), 0);
    BH_EQ(bh_faults_set(f.data, BH_S("gpu-7-part-1"), 79, (struct bh_time){1700000000, 0}, NULL),
          0);
    UNTIL(&f, tainted_as(&f, "-------T---------------T")); /* the whole contains it */
    fix_done(&f);
}

#define POLICY "/api/v1/namespaces/kube-system/configmaps/gpu-health-policy"
#define EVENTS "/api/v1/namespaces/kube-system/events"

static void policy_put(struct fix *f, const char *text)
{
    char json[1024];

    (void)snprintf(
        json, sizeof(json),
        "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":"
        "\"gpu-health-policy\",\"namespace\":\"kube-system\",\"uid\":\"u-policy\"},\"data\":{%s}}",
        text);
    bh_fake_api_put(f->api, POLICY, json);
}

static bool published(const struct fix *f, const char *text)
{
    return bh_str_find(bh_fake_api_first(f->api, SLICES), bh_s(text)) > 0;
}

BH_TEST(gpu_driver_follows_the_health_policy)
{
    struct fix f;
    size_t n;

    fix_init(&f);
    driver_start(&f);
    UNTIL(&f, bh_fake_api_count(f.api, SLICES) == 1);
    BH_EQ(bh_faults_set(f.data, BH_S("gpu-3"), 79, (struct bh_time){1700000000, 0}, NULL), 0);
    UNTIL(&f, published(&f, "\"effect\":\"NoExecute\""));
    policy_put(&f,
               "\"policy.yaml\":\"healthyFor: 1h\\nrules: [{xids: [79], effect: NoSchedule}]\"");
    UNTIL(&f, published(&f, "\"effect\":\"NoSchedule\""));
    policy_put(&f, "\"policy.yaml\":\"rules: [{xids: [79], effect: Panic}]\"");
    UNTIL(&f, bh_fake_api_count(f.api, EVENTS) == 1);
    BH_CHECK(bh_str_find(bh_fake_api_first(f.api, EVENTS),
                         BH_S("policy.yaml: rules[0].effect: must be NoExecute, NoSchedule, None "
                              "or ignore; the last good policy stays")) > 0);
    bh_proc_kill(f.proc, SIGKILL);
    UNTIL(&f, !f.running);
    driver_start(&f); /* the last good one holds from the start */
    UNTIL(&f, bh_fake_api_count(f.api, EVENTS) == 2);
    BH_CHECK(published(&f, "\"effect\":\"NoSchedule\""));
    BH_EQ(bh_faults_clear(f.data, BH_S("gpu-3"), 0, &n, NULL), 0);
    run_ms(&f, 200);
    BH_CHECK(published(&f, "\"taints\"")); /* for an hour */
    policy_put(&f, "\"policy.yaml\":\"healthyFor: 300ms\"");
    UNTIL(&f, !published(&f, "\"taints\""));
    BH_EQ(bh_faults_set(f.data, BH_S("gpu-3"), 79, (struct bh_time){1700000000, 0}, NULL), 0);
    UNTIL(&f, published(&f, "\"effect\":\"NoExecute\""));
    policy_put(&f, "\"policy.yaml\":\"default: ignore\"");
    UNTIL(&f, !published(&f, "\"taints\""));
    bh_fake_api_del(f.api, POLICY); /* the built-in table again */
    UNTIL(&f, published(&f, "\"effect\":\"NoExecute\""));
    fix_done(&f);
}

BH_TEST(gpu_driver_refuses_bad_claims)
{
    struct fix f;
    BH_AUTO_ARENA a = bh_arena_new(0);

    fix_init(&f);
    driver_start(&f);
    UNTIL(&f, bh_grpc_client_state(f.cl) == BH_GRPC_READY);
    call(&f, f.cl, DRA "v1.DRAPlugin/NodePrepareResources", claims_request(a, "other-uid"));
    BH_CHECK(f.status != BH_GRPC_OK);
    BH_CHECK(bh_str_find(bh_buf_str(&f.body), BH_S("got replaced")) > 0);
    bh_fake_api_put(f.api, CLAIMS "/c1",
                    "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/"
                    "v1\",\"metadata\":{\"name\":\"c1\","
                    "\"namespace\":\"default\",\"uid\":\"" UID
                    "\"},\"spec\":{\"devices\":{}},\"status\":{}}");
    call(&f, f.cl, DRA "v1.DRAPlugin/NodePrepareResources", claims_request(a, UID));
    BH_CHECK(bh_str_find(bh_buf_str(&f.body), BH_S("is not allocated")) > 0);
    bh_fake_api_del(f.api, CLAIMS "/c1");
    call(&f, f.cl, DRA "v1.DRAPlugin/NodePrepareResources", claims_request(a, UID));
    BH_EQ(f.status, BH_GRPC_NOT_FOUND);
    call(&f, f.cl, DRA "v1.DRAPlugin/NodePrepareResources",
         (struct bh_str){NULL, 0}); /* health probes do this */
    BH_EQ(f.status, BH_GRPC_OK);
    call(&f, f.cl, DRA "v1.DRAPlugin/NodePrepareResources", BH_S("\xff\xff\xff"));
    BH_EQ(f.status, BH_GRPC_INVALID_ARGUMENT);
    call(&f, f.cl, DRA "v1.DRAPlugin/NodeUnprepareResources",
         claims_request(a, UID)); /* unknown: success */
    BH_EQ(f.status, BH_GRPC_OK);
    fix_done(&f);
}

BH_TEST(
    gpu_driver_releases_orphans) /* the kubelet has lost its record, the claim has left the API */
{
    struct fix f;
    char spec[300];

    fix_init(&f);
    driver_start(&f);
    UNTIL(&f, bh_grpc_client_state(f.cl) == BH_GRPC_READY);
    prepare_ok(&f);
    (void)snprintf(spec, sizeof(spec), "%s/gpu.bulkhead.dev-claim_" UID ".json", f.cdi);
    run_ms(&f, 1800); /* longer than the grace: nothing happens while the claim is there */
    BH_CHECK(bh_fs_exists(spec));
    bh_fake_api_del(f.api, CLAIMS "/c1");
    run_ms(&f, 300);
    BH_CHECK(bh_fs_exists(spec));
    UNTIL(&f, !bh_fs_exists(spec));
    fix_done(&f);
}

BH_TEST(gpu_driver_retries_the_api) /* and restores slices that somebody deleted only after a while:
                                       not tested here */
{
    struct fix f;

    fix_init(&f);
    bh_fake_api_fail(f.api, "POST", "resourceslices", 500, 3);
    driver_start(&f);
    UNTIL(&f, bh_fake_api_count(f.api, SLICES) == 1);
    BH_EQ(bh_fake_api_writes(f.api), 4);
    fix_done(&f);
}

BH_TEST(gpu_driver_registration)
{
    struct fix f;
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_grpc_client_opts o = {.backoff_min_ms = 5, .backoff_max_ms = 20};
    struct bh_grpc_client *reg;
    const Bh__Reg__PluginInfo *info;
    char target[200];

    fix_init(&f);
    driver_start(&f);
    (void)snprintf(target, sizeof(target), "unix:%s", f.reg);
    o.target = target;
    reg = bh_grpc_client_new(f.l, &o);
    UNTIL(&f, bh_grpc_client_state(reg) == BH_GRPC_READY);
    call(&f, reg, "/pluginregistration.Registration/GetInfo", (struct bh_str){NULL, 0});
    info = bh_pb_unpack(a, &bh__reg__plugin_info__descriptor, bh_buf_str(&f.body));
    BH_CHECK(info != NULL);
    if (info) {
        BH_STREQ(bh_s(info->type), "DRAPlugin");
        BH_STREQ(bh_s(info->name), BH_GPU_DRIVER_NAME);
        BH_STREQ(bh_s(info->endpoint), f.dra);
        BH_EQ(info->n_supported_versions, 3);
        BH_STREQ(bh_s(info->supported_versions[0]), "v1.DRAPlugin");
    }
    (void)bh_grpc_client_free(reg);
    fix_done(&f);
}
