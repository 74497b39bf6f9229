/* The scheduler's cases. Names and sizes are those of upstream's scheduler_perf, so that both can
 * be set side by side; cases with a name of ours say so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/gen/core_v1.h"
#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "base/arena.h"
#include "base/map.h"
#include "bench.h"
#include "client/client.h"
#include "net/loop.h"
#include "sched_world.h"

/* What the server sets by default is written out: the API in memory sets nothing. */
#define DEVICES(class, n)                                                                          \
    "\"deviceClassName\":\"" class "\",\"allocationMode\":\"ExactCount\",\"count\":" n
#define EXACTLY(name, fields) "{\"name\":\"" name "\",\"exactly\":{" fields "}}"
#define ONE_DEVICE            "{\"requests\":[" EXACTLY("req-0", DEVICES("test-class", "1")) "]}"
#define POD_REQUESTS          "{\"cpu\":\"100m\",\"memory\":\"500Mi\"}"
#define ALL_NODES                                                                                  \
    "\"nodeSelector\":{\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"node-with-dra\","  \
    "\"operator\":\"In\",\"values\":[\"true\"]}]}]}"

static void slice(struct bh_buf *b, const char *name, size_t i, int of)
{
    bh_buf_addf(b,
                "{\"kind\":\"ResourceSlice\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{"
                "\"name\":\"%s-%zu\"},\"spec\":{\"driver\":\"" BENCH_DRIVER "\",\"pool\":{"
                "\"name\":\"pool-%zu\",\"generation\":1,\"resourceSliceCount\":%d}," ALL_NODES ",",
                name, i, i, of);
}

/* Pools of their own that every node sees, each one device that many may share. */
static const struct bh_kind *consumable(size_t i, struct bh_buf *b)
{
    if (i >= 2000)
        return NULL;
    slice(b, "shared", i, 1);
    bh_buf_addz(b, "\"devices\":[{\"name\":\"shareable-device\",\"allowMultipleAllocations\":true,"
                   "\"capacity\":{\"memory\":{\"value\":\"80Gi\",\"requestPolicy\":{\"default\":"
                   "\"1Gi\",\"validRange\":{\"min\":\"1Gi\"}}}}}]}}");
    return &bh_resource_v1_resource_slice_kind;
}

static void part(struct bh_buf *b, size_t pool, const char *name, size_t first, size_t n)
{
    bh_buf_addf(b,
                "{\"name\":\"%s\",\"attributes\":{\"dra.example.com/slice\":{\"int\":%zu}},"
                "\"capacity\":{\"counters\":{\"value\":\"%zu\"}},\"consumesCounters\":[{"
                "\"counterSet\":\"counter-set\",\"counters\":{",
                name, pool, n);
    for (size_t i = 0; i < n; i++)
        bh_buf_addf(b, "%s\"counter%zu\":{\"value\":\"1\"}", i ? "," : "", first + i);
    bh_buf_addz(b, "}}]}");
}

/* Pools that every node sees: two devices of two counters, or four of one, from four counters. */
static const struct bh_kind *partitions(size_t i, struct bh_buf *b)
{
    size_t pool = i / 2;

    if (pool >= 2000)
        return NULL;
    if (i % 2 == 0) {
        slice(b, "counters", pool, 2);
        bh_buf_addz(b, "\"sharedCounters\":[{\"name\":\"counter-set\",\"counters\":{\"counter1\":{"
                       "\"value\":\"1\"},\"counter2\":{\"value\":\"1\"},\"counter3\":{\"value\":"
                       "\"1\"},\"counter4\":{\"value\":\"1\"}}}]}}");
        return &bh_resource_v1_resource_slice_kind;
    }
    slice(b, "devices", pool, 2);
    bh_buf_addz(b, "\"devices\":[");
    part(b, pool, "device-2-counters-1", 1, 2);
    bh_buf_addc(b, ',');
    part(b, pool, "device-2-counters-2", 3, 2);
    for (size_t k = 1; k <= 4; k++) {
        char name[32];

        snprintf(name, sizeof(name), "device-1-counter-%zu", k);
        bh_buf_addc(b, ',');
        part(b, pool, name, k, 1);
    }
    bh_buf_addz(b, "]}}");
    return &bh_resource_v1_resource_slice_kind;
}

/* Eight devices, of which the first takes so much memory that no seven fit with it: a search that
 * begins with the first tries every set before it gives it up. */
static const struct bh_kind *backtracking(size_t i, struct bh_buf *b)
{
    if (i >= 2)
        return NULL;
    if (i == 0) {
        slice(b, "counters", 0, 2);
        bh_buf_addz(b, "\"sharedCounters\":[{\"name\":\"cpu\",\"counters\":{");
        for (int k = 1; k <= 8; k++)
            bh_buf_addf(b, "%s\"cpu%d\":{\"value\":\"1\"}", k > 1 ? "," : "", k);
        bh_buf_addz(b, "}},{\"name\":\"mem\",\"counters\":{\"mem\":{\"value\":\"70Gi\"}}}]}}");
        return &bh_resource_v1_resource_slice_kind;
    }
    slice(b, "devices", 0, 2);
    bh_buf_addz(b, "\"devices\":[");
    for (int k = 1; k <= 8; k++)
        bh_buf_addf(b,
                    "%s{\"name\":\"device-%d\",\"consumesCounters\":[{\"counterSet\":\"cpu\","
                    "\"counters\":{\"cpu%d\":{\"value\":\"1\"}}},{\"counterSet\":\"mem\","
                    "\"counters\":{\"mem\":{\"value\":\"%dGi\"}}}]}",
                    k > 1 ? "," : "", k, k, k == 1 ? 20 : 10);
    bh_buf_addz(b, "]}}");
    return &bh_resource_v1_resource_slice_kind;
}

static const struct bh_kind *empty_class(size_t i, struct bh_buf *b)
{
    if (i > 0)
        return NULL;
    bh_buf_addz(b, "{\"kind\":\"DeviceClass\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{"
                   "\"name\":\"no-devices-class\"},\"spec\":{\"selectors\":[{\"cel\":{"
                   "\"expression\":\"device.driver == \\\"no-such-driver\\\"\"}}]}}");
    return &bh_resource_v1_device_class_kind;
}

/* ---- pods that cannot fit ---- */

#define EVENTS 1000

static double cpu_seconds(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Events about nodes that help nobody. */
static void annotate_nodes(struct sched_world *w)
{
    for (size_t i = 0; i < EVENTS; i++) {
        char name[32], body[160];

        snprintf(name, sizeof(name), "node-%zu", i % sched_world_case(w)->nodes);
        snprintf(body, sizeof(body),
                 "{\"metadata\":{\"annotations\":{\"bench.example.com/n\":\"%zu\"}}}", i);
        sched_world_call(w, &(struct bh_client_req){.verb = BH_VERB_PATCH,
                                                    .kind = &bh_core_v1_node_kind,
                                                    .name = bh_s(name),
                                                    .patch = BH_PATCH_MERGE,
                                                    .body = bh_s(body)});
    }
    sched_world_wait(w);
}

/* Every device is taken, and 10,000 pods more want one. */
static void pending(struct sched_world *w)
{
    const struct sched_case *k = sched_world_case(w);
    struct bh_scheduler_stats a, b;
    double t, cpu;

    t = bench_now();
    sched_world_pods(w, k->init, k->pods, false);
    for (int i = 0; i < 1200; i++) {
        bh_scheduler_stats(sched_world_scheduler(w), &a, NULL);
        if (a.waiting == k->pods)
            break;
        sched_world_run(w, 0.05);
    }
    if (a.waiting != k->pods)
        bench_fail("%s: %zu pods wait", k->name, a.waiting);
    sched_world_report(w, "refused", (double)k->pods / (bench_now() - t), "pods/s");
    sched_world_settle(w); /* what was said about them is written */
    bh_scheduler_stats(sched_world_scheduler(w), &a, NULL);
    cpu = cpu_seconds();
    sched_world_run(w, 1);
    sched_world_report(w, "idle", (cpu_seconds() - cpu) * 1e3, "ms/s");
    cpu = cpu_seconds();
    annotate_nodes(w);
    sched_world_report(w, "unrelated_event", (cpu_seconds() - cpu) / EVENTS * 1e3, "ms");
    bh_scheduler_stats(sched_world_scheduler(w), &b, NULL);
    sched_world_report(w, "attempts_after_unrelated_events", (double)(b.attempts - a.attempts), "");
    (void)bh_client_delete(sched_world_client(w), &bh_core_v1_pod_kind, BH_S("default"),
                           BH_S("pod-0"), (struct bh_str){NULL, 0}, 0, NULL, NULL);
    sched_world_settle(w);
    bh_scheduler_stats(sched_world_scheduler(w), &a, NULL);
    sched_world_report(w, "scheduled_after_a_freed_device", (double)(a.scheduled - b.scheduled),
                       "");
    sched_world_report(w, "attempts_after_a_freed_device", (double)(a.attempts - b.attempts), "");
    sched_world_report(w, "memory", (double)bench_rss_kb(getpid()) / 1024, "MiB");
}

/* ---- taints ---- */

#define TAINTS 30

struct holders {
    struct bh_map by_device; /* "pool/device" -> pod name */
    bool listed;
};

static void claims_listed(void *arg, const struct bh_client_res *res)
{
    struct holders *h = arg;

    for (size_t i = 0; i < res->items_n; i++) {
        const struct bh_resource_v1_resource_claim *c = bh_obj_struct(res->items[i]);
        char key[128];

        if (!c->status.allocation || !c->status.reserved_for.n)
            continue;
        snprintf(key, sizeof(key), "%.*s/%.*s",
                 BH_SF(c->status.allocation->devices.results.p[0].pool),
                 BH_SF(c->status.allocation->devices.results.p[0].device));
        if (bh_map_put(&h->by_device, bh_s(key), bh_strdup_c(c->status.reserved_for.p[0].name)))
            bench_fail("device %s was given twice", key);
    }
    h->listed = true;
}

static void taint(struct sched_world *w, struct holders *h, size_t i)
{
    char key[64], body[512];
    const char *pod;

    snprintf(key, sizeof(key), "node-%zu/dev-2", i * 7 + 3);
    pod = bh_map_get(&h->by_device, bh_s(key));
    if (!pod)
        bench_fail("nobody holds %s", key);
    snprintf(body, sizeof(body),
             "{\"kind\":\"DeviceTaintRule\",\"apiVersion\":\"resource.k8s.io/v1beta2\","
             "\"metadata\":{\"name\":\"rule-%zu\"},\"spec\":{\"deviceSelector\":{\"pool\":"
             "\"node-%zu\",\"device\":\"dev-2\"},\"taint\":{\"key\":\"example.com/broken\","
             "\"effect\":\"NoExecute\"}}}",
             i, i * 7 + 3);
    sched_world_call(w, &(struct bh_client_req){.verb = BH_VERB_CREATE,
                                                .kind = &bh_resource_v1beta2_device_taint_rule_kind,
                                                .body = bh_s(body)});
    sched_world_until_deleting(w, pod);
}

static void taints(struct sched_world *w)
{
    struct holders h = {0};
    double times[TAINTS];
    size_t it = 0;
    void *v;

    (void)bh_client_call(sched_world_client(w),
                         &(struct bh_client_req){.verb = BH_VERB_LIST,
                                                 .kind = &bh_resource_v1_resource_claim_kind,
                                                 .ns = BH_S("default")},
                         claims_listed, &h);
    if (!bench_wait(sched_world_loop(w), &h.listed, 60))
        bench_fail("no list of claims");
    for (size_t i = 0; i < TAINTS; i++) {
        double t = bench_now();

        taint(w, &h, i);
        times[i] = (bench_now() - t) * 1e3;
    }
    sched_world_report(w, "taint_to_deletion_p50", bench_quantile(times, TAINTS, 0.5), "ms");
    sched_world_report(w, "taint_to_deletion_p99", bench_quantile(times, TAINTS, 0.99), "ms");
    while (bh_map_next(&h.by_device, &it, NULL, &v))
        bh_free(v);
    bh_map_done(&h.by_device);
}

/* ---- the table ---- */

static const struct sched_case cases[] = {
    {.name = "SchedulingBasic/5000Nodes_10000Pods",
     .nodes = 5000,
     .init = 1000,
     .pods = 10000,
     .network = true,
     .requests = POD_REQUESTS},
    {.name = "SchedulingWithResourceClaimTemplate/2000pods_100nodes",
     .nodes = 100,
     .devices = 20,
     .init = 1000,
     .pods = 1000,
     .devices_of_claim = ONE_DEVICE},
    {.name = "SchedulingWithResourceClaimTemplate/5000pods_500nodes",
     .nodes = 500,
     .devices = 10,
     .init = 2500,
     .pods = 2500,
     .network = true,
     .devices_of_claim = ONE_DEVICE},
    {.name = "SchedulingWithResourceClaimTemplate/5000pods_5000nodes", /* ours */
     .nodes = 5000,
     .devices = 10,
     .init = 2500,
     .pods = 2500,
     .devices_of_claim = ONE_DEVICE},
    {.name = "SteadyStateClusterResourceClaimTemplate/empty_500nodes",
     .nodes = 500,
     .devices = 10,
     .steady_s = 3,
     .devices_of_claim = ONE_DEVICE},
    {.name = "SteadyStateClusterResourceClaimTemplate/half_500nodes",
     .nodes = 500,
     .devices = 10,
     .held = 2500,
     .steady_s = 3,
     .devices_of_claim = ONE_DEVICE},
    {.name = "SteadyStateClusterResourceClaimTemplate/full_500nodes",
     .nodes = 500,
     .devices = 10,
     .held = 4990,
     .steady_s = 3,
     .devices_of_claim = ONE_DEVICE},
    {.name = "SchedulingWithResourceClaim/5000pods_500nodes",
     .nodes = 500,
     .devices = 2,
     .init = 2500,
     .pods = 2500,
     .share = 5,
     .devices_of_claim = ONE_DEVICE},
    {.name = "SchedulingWithResourceClaimTemplateFirstAvailable/5000pods_500nodes",
     .nodes = 500,
     .devices = 10,
     .init = 2500,
     .pods = 2500,
     .more = empty_class,
     .devices_of_claim =
         "{\"requests\":[{\"name\":\"req-0\",\"firstAvailable\":[{\"name\":\"sub-0\"," DEVICES(
             "no-devices-class", "1") "},{\"name\":\"sub-1\"," DEVICES("test-class", "1") "}]}]}"},
    {.name = "Selector/5000pods_500nodes", /* ours */
     .nodes = 500,
     .devices = 10,
     .init = 1250,
     .pods = 1250,
     .devices_of_claim = "{\"requests\":[" EXACTLY(
         "req-0",
         DEVICES(
             "test-class",
             "1") ",\"selectors\":[{\"cel\":{\"expression\":\"device.attributes[\\\"" BENCH_DRIVER
                  "\\\"].model == \\\"H200\\\" && device.capacity[\\\"" BENCH_DRIVER
                  "\\\"].memory.compareTo(quantity(\\\"100Gi\\\")) >= 0\"}}]") "]}"},
    {.name = "MatchAttribute/5000pods_500nodes", /* ours */
     .nodes = 500,
     .devices = 20,
     .init = 2500,
     .pods = 2500,
     .devices_of_claim = "{\"requests\":[" EXACTLY(
         "req-0",
         DEVICES("test-class", "2")) "],\"constraints\":[{\"matchAttribute\":\"" BENCH_DRIVER
                                     "/numa\"}]}"},
    {.name = "DeviceTaintToleration/5000pods_500nodes",
     .nodes = 500,
     .devices = 10,
     .init = 2500,
     .pods = 2500,
     .device_fields = ",\"taints\":[{\"key\":\"example.com/taint\",\"effect\":\"NoSchedule\"}]",
     .devices_of_claim = "{\"requests\":[" EXACTLY(
         "req-0", DEVICES("test-class", "1") ",\"tolerations\":[{\"key\":\"example.com/"
                                             "taint\",\"operator\":\"Exists\"}]") "]}"},
    {.name = "Partitionable/2000pods_100nodes",
     .nodes = 100,
     .steady_s = 3,
     .more = partitions,
     .devices_of_claim = "{\"requests\":[" EXACTLY(
         "req-0",
         DEVICES("test-class",
                 "2")) "],\"constraints\":[{\"matchAttribute\":\"dra.example.com/slice\"}]}"},
    {.name = "PartitionableBacktracking/fast",
     .nodes = 1,
     .pods = 1,
     .more = backtracking,
     .devices_of_claim = "{\"requests\":[" EXACTLY("req-0", DEVICES("test-class", "7")) "]}"},
    {.name = "ConsumableCapacity/2000pods_100nodes",
     .nodes = 100,
     .steady_s = 3,
     .more = consumable,
     .devices_of_claim = "{\"requests\":[" EXACTLY(
         "req-0",
         DEVICES("test-class",
                 "1") ",\"capacity\":{"
                      "\"requests\":{\"memory\":"
                      "\"40Gi\"}}") "," EXACTLY("req-1",
                                                DEVICES("test-class",
                                                        "1") ",\"capacity\":{\"requests\":{"
                                                             "\"memory\":\"40Gi\"}}") "]}"},
    {.name = "ExtendedResource_25Classes/5000pods_500nodes",
     .nodes = 500,
     .devices = 10,
     .init = 2500,
     .pods = 2500,
     .classes = 25},
    /* Growth, ours: the same pods on ever more nodes. */
    {.name = "SchedulingBasic/100Nodes_2000Pods",
     .nodes = 100,
     .pods = 2000,
     .requests = POD_REQUESTS},
    {.name = "SchedulingBasic/1000Nodes_2000Pods",
     .nodes = 1000,
     .pods = 2000,
     .requests = POD_REQUESTS},
    {.name = "SchedulingBasic/10000Nodes_2000Pods",
     .nodes = 10000,
     .pods = 2000,
     .requests = POD_REQUESTS},
    {.name = "SchedulingWithResourceClaimTemplate/1000pods_100nodes",
     .nodes = 100,
     .devices = 10,
     .pods = 1000,
     .devices_of_claim = ONE_DEVICE},
    {.name = "SchedulingWithResourceClaimTemplate/1000pods_10000nodes",
     .nodes = 10000,
     .devices = 10,
     .pods = 1000,
     .devices_of_claim = ONE_DEVICE},
    {.name = "Unschedulable/500Nodes_10000Pods", /* of claims, ours */
     .nodes = 500,
     .devices = 4,
     .init = 2000,
     .pods = 10000,
     .devices_of_claim = ONE_DEVICE,
     .then = pending},
    {.name = "DeviceTaintEviction/10000pods_1000nodes", /* ours */
     .nodes = 1000,
     .devices = 10,
     .init = 10000,
     .devices_of_claim = ONE_DEVICE,
     .api_only = true,
     .network = true,
     .then = taints},
};

/* Each in a process of its own: its memory is its own, and what fails stops nothing else. */
static void run(const struct sched_case *k, enum sched_mode mode)
{
    int status;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        bench_fail("fork");
    if (pid == 0) {
        sched_case_run(k, mode);
        fflush(NULL);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        bench_failed(k->name);
}

void bench_scheduler(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int mode = SCHED_API; mode <= SCHED_NETWORK; mode++) {
            char name[128];

            snprintf(name, sizeof(name), "%s/%s", cases[i].name,
                     sched_mode_name((enum sched_mode)mode));
            if (!bench_wanted(name) || (mode == SCHED_MEMORY && cases[i].api_only) ||
                (mode == SCHED_NETWORK && !cases[i].network))
                continue;
            run(&cases[i], (enum sched_mode)mode);
        }
}
