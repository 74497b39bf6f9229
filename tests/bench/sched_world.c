/* One scheduler case: the cluster is made, pods are created in front of the scheduler, and what it
 * took is reported. Through the API server (in process, every write durable, controllers at work),
 * through the network with each role a process, or with the API in memory, where the scheduler's
 * own time shows. */
#include "sched_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "apiserver/apiserver.h"
#include "base/arena.h"
#include "bench.h"
#include "client/client.h"
#include "controllers/controllers.h"
#include "dra/dra.h"
#include "mem_api.h"
#include "net/loop.h"
#include "sched_net.h"
#include "store/store.h"

#define IN_FLIGHT  1000 /* creates of pods that are under way at a time */
#define NET_FLIGHT 64   /* … over the network: as the load client that others are measured with */
#define PODS_MAX   200000

struct sched_world {
    const struct sched_case *k;
    enum sched_mode mode;
    struct bh_loop *loop;
    struct bh_store *store;
    struct bh_apiserver *api;
    struct mem_api *mem;
    struct sched_net *net;
    struct bh_client *admin, *sched, *ctl;
    struct bh_controllers *controllers;
    struct bh_scheduler *scheduler;
    struct bh_informer *pods;
    /* calls of ours */
    size_t calls, answers;
    bool idle;
    /* pods of the batch under way */
    size_t next, end, created, bound, first;
    bool bound_wanted, done;
    double *created_at, *latency; /* by number; of those that were bound */
    size_t latency_n;
    bool steady;
    double steady_until;
    const char *victim;
    bool deleting;
};

const struct sched_case *sched_world_case(const struct sched_world *w)
{
    return w->k;
}
struct bh_client *sched_world_client(struct sched_world *w)
{
    return w->admin;
}
struct bh_loop *sched_world_loop(struct sched_world *w)
{
    return w->loop;
}
struct bh_scheduler *sched_world_scheduler(struct sched_world *w)
{
    return w->scheduler;
}

/* ---- calls ---- */

static void answered(void *arg, const struct bh_client_res *res)
{
    struct sched_world *w = arg;

    if (res->err.code != BH_OK)
        bench_fail("%s: %s", w->k->name, res->err.msg);
    w->idle = ++w->answers == w->calls;
}

void sched_world_call(struct sched_world *w, const void *client_req)
{
    w->calls++;
    w->idle = false;
    (void)bh_client_call(w->admin, client_req, answered, w);
}

void sched_world_wait(struct sched_world *w)
{
    if (!bench_wait(w->loop, &w->idle, 60))
        bench_fail("%s: objects were not created", w->k->name);
}

static void stop_loop(void *arg)
{
    bh_loop_stop(arg);
}

void sched_world_run(struct sched_world *w, double seconds)
{
    struct bh_timer t;

    bh_timer_init(&t, w->loop, stop_loop, w->loop);
    bh_timer_start(&t, (int64_t)(seconds * 1e3));
    bh_loop_run(w->loop);
    bh_timer_stop(&t);
}

static uint64_t writes(const struct sched_world *w)
{
    if (w->net)
        return sched_net_version(w->net);
    return w->store ? bh_store_rev(w->store) : mem_api_writes(w->mem);
}

void sched_world_settle(struct sched_world *w)
{
    uint64_t before;

    do {
        before = writes(w);
        sched_world_run(w, 0.5);
    } while (writes(w) != before);
}

static void create(struct sched_world *w, const struct bh_kind *k, struct bh_str json)
{
    struct bh_client_req req = {.verb = BH_VERB_CREATE, .kind = k, .body = json};

    if (k->namespaced)
        req.ns = BH_S("default");
    sched_world_call(w, &req);
    if (w->calls % 2000 == 0) /* the server takes some thousand at a time */
        sched_world_wait(w);
}

/* ---- the cluster ---- */

static void make_node(struct sched_world *w, size_t i)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addf(&b,
                "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"node-%zu\","
                "\"labels\":{\"node-with-dra\":\"true\",\"kubernetes.io/hostname\":\"node-%zu\"}},"
                "\"status\":{\"capacity\":{\"cpu\":\"%d\",\"memory\":\"32Gi\",\"pods\":\"110\"},"
                "\"allocatable\":{\"cpu\":\"%d\",\"memory\":\"32Gi\",\"pods\":\"110\"},"
                "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
                i, i, 4, 4);
    create(w, &bh_core_v1_node_kind, bh_buf_str(&b));
}

/* The server taints a new node until its controller has seen it ready; none runs here. */
static void untaint_node(struct sched_world *w, size_t i)
{
    char name[32];

    snprintf(name, sizeof(name), "node-%zu", i);
    sched_world_call(w, &(struct bh_client_req){.verb = BH_VERB_PATCH,
                                                .kind = &bh_core_v1_node_kind,
                                                .name = bh_s(name),
                                                .patch = BH_PATCH_MERGE,
                                                .body = BH_S("{\"spec\":{\"taints\":null}}")});
    if (w->calls % 2000 == 0)
        sched_world_wait(w);
}

static void make_slice(struct sched_world *w, size_t i)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addf(&b,
                "{\"kind\":\"ResourceSlice\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{"
                "\"name\":\"slice-%zu\"},\"spec\":{\"driver\":\"" BENCH_DRIVER "\",\"pool\":{"
                "\"name\":\"node-%zu\",\"generation\":1,\"resourceSliceCount\":1},\"nodeName\":"
                "\"node-%zu\",\"devices\":[",
                i, i, i);
    for (size_t d = 0; d < w->k->devices; d++)
        bh_buf_addf(&b,
                    "%s{\"name\":\"dev-%zu\",\"attributes\":{\"model\":{\"string\":\"%s\"},"
                    "\"numa\":{\"int\":%zu}},\"capacity\":{\"memory\":{\"value\":\"141Gi\"}}%s}",
                    d ? "," : "", d, d % 2 ? "H200" : "H100", d / 10,
                    w->k->device_fields ? w->k->device_fields : "");
    bh_buf_addz(&b, "]}}");
    create(w, &bh_resource_v1_resource_slice_kind, bh_buf_str(&b));
}

static void make_class(struct sched_world *w, size_t i)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addf(&b,
                "{\"kind\":\"DeviceClass\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{"
                "\"name\":\"test-class%s",
                w->k->classes ? "-" : "");
    if (w->k->classes)
        bh_buf_addf(&b, "%zu", i);
    bh_buf_addz(&b, "\"},\"spec\":{\"selectors\":[{\"cel\":{\"expression\":\"device.driver == "
                    "\\\"" BENCH_DRIVER "\\\"\"}}]");
    if (w->k->classes)
        bh_buf_addf(&b, ",\"extendedResourceName\":\"example.com/gpu-%zu\"", i);
    bh_buf_addz(&b, "}}");
    create(w, &bh_resource_v1_device_class_kind, bh_buf_str(&b));
}

static void make_claim(struct sched_world *w, const struct bh_kind *k, const char *name)
{
    BH_AUTO_BUF b = {0};
    bool template = k == &bh_resource_v1_resource_claim_template_kind;

    bh_buf_addf(&b,
                "{\"kind\":\"%.*s\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{\"name\":"
                "\"%s\"},\"spec\":%s{\"devices\":%s}%s}",
                BH_SF(k->kind), name, template ? "{\"spec\":" : "", w->k->devices_of_claim,
                template ? "}" : "");
    create(w, k, bh_buf_str(&b));
}

/* Claims without pods that hold devices, node after node. */
static void hold(struct sched_world *w)
{
    BH_AUTO_BUF b = {0};
    char name[32];

    for (size_t i = 0; i < w->k->held; i++) {
        snprintf(name, sizeof(name), "held-%zu", i);
        make_claim(w, &bh_resource_v1_resource_claim_kind, name);
    }
    sched_world_wait(w);
    for (size_t i = 0; i < w->k->held; i++) {
        size_t node = i % w->k->nodes, dev = i / w->k->nodes;

        bh_buf_clear(&b);
        bh_buf_addf(&b,
                    "{\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"req-0\","
                    "\"driver\":\"" BENCH_DRIVER "\",\"pool\":\"node-%zu\",\"device\":\"dev-%zu\"}]"
                    "},\"nodeSelector\":{\"nodeSelectorTerms\":[{\"matchFields\":[{\"key\":"
                    "\"metadata.name\",\"operator\":\"In\",\"values\":[\"node-%zu\"]}]}]}},"
                    "\"reservedFor\":[{\"resource\":\"pods\",\"name\":\"none\",\"uid\":"
                    "\"00000000-0000-4000-8000-000000000000\"}]}}",
                    node, dev, node);
        snprintf(name, sizeof(name), "held-%zu", i);
        sched_world_call(w, &(struct bh_client_req){.verb = BH_VERB_PATCH,
                                                    .kind = &bh_resource_v1_resource_claim_kind,
                                                    .ns = BH_S("default"),
                                                    .name = bh_s(name),
                                                    .subresource = BH_S("status"),
                                                    .patch = BH_PATCH_MERGE,
                                                    .body = bh_buf_str(&b)});
        if (w->calls % 2000 == 0)
            sched_world_wait(w);
    }
    sched_world_wait(w);
}

static void make_cluster(struct sched_world *w)
{
    const struct sched_case *k = w->k;
    size_t classes = k->classes ? k->classes : 1, shared;
    char name[32];

    for (size_t i = 0; i < k->nodes; i++)
        make_node(w, i);
    sched_world_wait(w);
    for (size_t i = 0; w->mode != SCHED_MEMORY && i < k->nodes; i++)
        untaint_node(w, i);
    for (size_t i = 0; k->devices && i < k->nodes; i++)
        make_slice(w, i);
    for (size_t i = 0; (k->devices_of_claim || k->classes) && i < classes; i++)
        make_class(w, i);
    for (size_t i = 0; k->more; i++) {
        BH_AUTO_BUF b = {0};
        const struct bh_kind *kind = k->more(i, &b);

        if (!kind)
            break;
        create(w, kind, bh_buf_str(&b));
    }
    sched_world_wait(w);
    if (k->held)
        hold(w);
    if (k->devices_of_claim && !k->share)
        make_claim(w, &bh_resource_v1_resource_claim_template_kind, "test-claim-template");
    shared = k->share ? (k->init + k->pods) / k->share : 0;
    for (size_t i = 0; i < shared; i++) {
        snprintf(name, sizeof(name), "claim-%zu", i);
        make_claim(w, &bh_resource_v1_resource_claim_kind, name);
    }
    if (w->calls > w->answers)
        sched_world_wait(w);
}

/* ---- pods ---- */

static void pod_created(void *arg, const struct bh_client_res *res);

static void make_pod(struct sched_world *w)
{
    const struct sched_case *k = w->k;
    BH_AUTO_BUF b = {0};
    size_t i = w->next++;
    struct bh_client_req req = {
        .verb = BH_VERB_CREATE, .kind = &bh_core_v1_pod_kind, .ns = BH_S("default")};

    bh_buf_addf(&b,
                "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"pod-%zu\"},"
                "\"spec\":{\"containers\":[{\"name\":\"pause\",\"image\":"
                "\"registry.k8s.io/pause:3.10.1\",\"resources\":{",
                i);
    if (k->classes)
        bh_buf_addf(&b,
                    "\"requests\":{\"example.com/gpu-%zu\":\"1\"},\"limits\":{"
                    "\"example.com/gpu-%zu\":\"1\"}",
                    i % k->classes, i % k->classes);
    else if (k->requests)
        bh_buf_addf(&b, "\"requests\":%s", k->requests);
    if (k->devices_of_claim)
        bh_buf_addf(&b, "%s\"claims\":[{\"name\":\"resource\"}]", k->requests ? "," : "");
    bh_buf_addz(&b, "}}]");
    if (k->devices_of_claim && k->share)
        bh_buf_addf(&b,
                    ",\"resourceClaims\":[{\"name\":\"resource\",\"resourceClaimName\":"
                    "\"claim-%zu\"}]",
                    i / k->share);
    else if (k->devices_of_claim)
        bh_buf_addz(&b, ",\"resourceClaims\":[{\"name\":\"resource\",\"resourceClaimTemplateName\":"
                        "\"test-claim-template\"}]");
    bh_buf_addz(&b, "}}");
    req.body = bh_buf_str(&b);
    if (i >= PODS_MAX)
        bench_fail("%s: more pods than numbers", k->name);
    w->created_at[i] = bench_now();
    (void)bh_client_call(w->admin, &req, pod_created, w);
}

static void check_done(struct sched_world *w)
{
    size_t n = w->end - w->first;

    w->done = w->created >= n && (!w->bound_wanted || w->bound >= n);
}

static void pod_created(void *arg, const struct bh_client_res *res)
{
    struct sched_world *w = arg;

    if (res->err.code != BH_OK)
        bench_fail("%s: %s", w->k->name, res->err.msg);
    w->created++;
    if (w->next < w->end)
        make_pod(w);
    if (!w->steady)
        check_done(w);
}

void sched_world_pods(struct sched_world *w, size_t from, size_t n, bool bound)
{
    w->first = w->next = from;
    w->end = from + n;
    w->created = w->bound = w->latency_n = 0;
    w->bound_wanted = bound;
    w->done = n == 0;
    for (size_t i = 0; i < (w->net ? NET_FLIGHT : IN_FLIGHT) && w->next < w->end; i++)
        make_pod(w);
    if (!bench_wait(w->loop, &w->done, 60))
        bench_fail("%s: %zu of %zu pods have a node", w->k->name, w->bound, n);
}

static bool number_of(struct bh_str name, int64_t *ret)
{
    return bh_str_i64(bh_str_sub(name, 4, name.n), 0, PODS_MAX - 1, ret);
}

static void pod_changed(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct sched_world *w = arg;
    const struct bh_core_v1_pod *a = bh_obj_struct(old), *b = bh_obj_struct(o);
    int64_t i;

    if (w->victim && o->deleting && bh_str_eqc(o->name, w->victim))
        w->deleting = true;
    if (a->spec.node_name.n || !b->spec.node_name.n || !number_of(o->name, &i))
        return;
    w->bound++;
    if ((size_t)i >= w->first && w->latency_n < PODS_MAX)
        w->latency[w->latency_n++] = (bench_now() - w->created_at[i]) * 1e3;
    if (!w->steady)
        check_done(w);
    else if (bench_now() >= w->steady_until)
        w->done = true;
    else
        (void)bh_client_delete(w->admin, &bh_core_v1_pod_kind, o->ns, o->name,
                               (struct bh_str){NULL, 0}, 0, NULL, NULL);
}

static void pod_gone(void *arg, struct bh_obj *last)
{
    struct sched_world *w = arg;

    (void)last;
    if (w->steady && !w->done)
        make_pod(w);
}

static void pod_added(void *arg, struct bh_obj *o)
{
    (void)arg, (void)o;
}

/* ---- measuring ---- */

static double cpu_now(clockid_t clock)
{
    struct timespec t;

    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct sample {
    double wall, cpu, thread, user; /* seconds */
    uint64_t writes;
    double role_cpu[SCHED_NET_ROLES];
    struct bh_scheduler_stats st;
    struct bh_dra_stats dra;
};

static struct sample sample(struct sched_world *w)
{
    struct sample x = {.wall = bench_now(),
                       .cpu = cpu_now(CLOCK_PROCESS_CPUTIME_ID),
                       .thread = cpu_now(CLOCK_THREAD_CPUTIME_ID),
                       .user = w->mem ? mem_api_user_seconds(w->mem) : 0,
                       .writes = writes(w)};

    if (w->scheduler)
        bh_scheduler_stats(w->scheduler, &x.st, &x.dra);
    for (int i = 0; w->net && i < SCHED_NET_ROLES; i++)
        x.role_cpu[i] = sched_net_cpu(w->net, (enum sched_net_role)i);
    return x;
}

const char *sched_mode_name(enum sched_mode mode)
{
    static const char *const names[] = {"api", "scheduler", "network"};

    return names[mode];
}

void sched_world_report(struct sched_world *w, const char *what, double value, const char *unit)
{
    static const char *const over[] = {
        "in one process through the real API server, every write durable",
        "scheduler only: API in memory, nothing durable, no controllers",
        "each role a process of its own, over HTTPS, every write durable"};
    char name[160];

    snprintf(name, sizeof(name), "%s/%s/%s", w->k->name, sched_mode_name(w->mode), what);
    bench_report(name, value, unit, over[w->mode]);
}

static void report_roles(struct sched_world *w, const struct sample *a, const struct sample *b)
{
    static const char *const names[] = {"apiserver", "scheduler", "controllers"};
    char what[64];

    for (int i = 0; i < SCHED_NET_ROLES; i++) {
        snprintf(what, sizeof(what), "cpu_per_pod_%s", names[i]);
        sched_world_report(w, what, (b->role_cpu[i] - a->role_cpu[i]) / (double)w->bound * 1e6,
                           "us");
        snprintf(what, sizeof(what), "memory_%s", names[i]);
        sched_world_report(w, what, sched_net_rss_mib(w->net, (enum sched_net_role)i), "MiB");
    }
}

static void report(struct sched_world *w, const struct sample *a, const struct sample *b)
{
    double n = (double)w->bound, wall = b->wall - a->wall, user;

    sched_world_report(w, "throughput", n / wall, "pods/s");
    sched_world_report(w, "latency_p50", bench_quantile(w->latency, w->latency_n, 0.5), "ms");
    sched_world_report(w, "latency_p99", bench_quantile(w->latency, w->latency_n, 0.99), "ms");
    sched_world_report(w, w->net ? "cpu_per_pod_client" : "cpu_per_pod",
                       (b->cpu - a->cpu) / n * 1e6, "us");
    if (w->store) /* the rest is the store's */
        sched_world_report(w, "loop_cpu_per_pod", (b->thread - a->thread) / n * 1e6, "us");
    if (w->mem) {
        /* Turns are not inside callbacks. Time in which others had the processor is taken off. */
        user = b->user - a->user + (double)(b->st.turn_ns - a->st.turn_ns) * 1e-9;
        user *= (b->thread - a->thread) / wall;
        sched_world_report(w, "scheduler_cpu_per_pod", user / n * 1e6, "us");
    }
    if (w->net) {
        report_roles(w, a, b);
        sched_world_report(w, "writes_per_pod", (double)(b->writes - a->writes) / n, "durable");
        return;
    }
    sched_world_report(w, "attempts_per_pod", (double)(b->st.attempts - a->st.attempts) / n, "");
    sched_world_report(w, "writes_per_pod", (double)(b->writes - a->writes) / n,
                       w->store ? "durable" : "calls");
    if (w->k->devices_of_claim || w->k->classes) {
        sched_world_report(w, "allocations_per_pod",
                           (double)(b->dra.allocations - a->dra.allocations) / n, "");
        sched_world_report(w, "search_steps_per_pod", (double)(b->dra.steps - a->dra.steps) / n,
                           "");
        sched_world_report(w, "cel_evaluations_per_pod",
                           (double)(b->dra.evaluations - a->dra.evaluations) / n, "");
    }
    sched_world_report(w, "memory", (double)bench_rss_kb(getpid()) / 1024, "MiB");
}

static void run_steady(struct sched_world *w)
{
    w->first = w->next = w->k->init;
    w->end = 0;
    w->bound = w->latency_n = w->created = 0;
    w->steady = true;
    w->done = false;
    w->steady_until = bench_now() + w->k->steady_s;
    for (size_t i = 0; i < 10; i++)
        make_pod(w);
    if (!bench_wait(w->loop, &w->done, 60))
        bench_fail("%s: it came to a halt after %zu pods", w->k->name, w->bound);
}

void sched_world_until_deleting(struct sched_world *w, const char *pod)
{
    w->victim = pod;
    w->deleting = false;
    if (!bench_wait(w->loop, &w->deleting, 10))
        bench_fail("%s was not evicted", pod);
    w->victim = NULL;
}

/* ---- life ---- */

static void start_api(struct sched_world *w)
{
    struct bh_controllers_opts co = {
        .controllers = "resourceclaim-controller,device-taint-eviction-controller"};
    struct bh_apiserver_opts ao = {.disable_admission = "ServiceAccount"};
    struct bh_str masters = BH_S("system:masters");
    struct bh_err err = {0};
    char db[256];

    snprintf(db, sizeof(db), "%s/sched-%d.db", bench_dir, (int)getpid());
    if (bh_store_open_sqlite(w->loop, db, &w->store, &err) < 0 ||
        bh_apiserver_new(w->loop, w->store, &ao, &w->api, &err) < 0)
        bench_fail("%s", err.msg);
    w->admin = bh_client_new_inproc(w->loop, w->api, BH_S("admin"), &masters, 1, "bench");
    w->sched = bh_client_new_inproc(w->loop, w->api, BH_S("system:kube-scheduler"), NULL, 0,
                                    "bulkhead-scheduler");
    w->ctl = bh_client_new_inproc(w->loop, w->api, BH_S("system:kube-controller-manager"), NULL, 0,
                                  "bulkhead-controller-manager");
    w->controllers = bh_controllers_new(w->ctl, &co, &err);
    if (!w->controllers)
        bench_fail("%s", err.msg);
}

static void start(struct sched_world *w)
{
    static const struct bh_informer_ops ops = {pod_added, pod_changed, pod_gone, NULL};
    struct bh_scheduler_opts so = {0};
    struct bh_err err = {0};
    struct bh_str none = {NULL, 0};

    w->loop = bh_loop_new_real(&err);
    if (!w->loop)
        bench_fail("%s", err.msg);
    if (w->mode == SCHED_API) {
        start_api(w);
    } else if (w->mode == SCHED_NETWORK) {
        w->net = sched_net_new(w->loop, &w->admin);
    } else {
        w->mem = mem_api_new(w->loop);
        w->admin = mem_api_client(w->mem, false);
        w->sched = mem_api_client(w->mem, true);
    }
    make_cluster(w);
    if (w->net)
        sched_net_start_roles(w->net);
    else
        w->scheduler = bh_scheduler_new(w->sched, &so, &err);
    if (!w->net && !w->scheduler)
        bench_fail("%s", err.msg);
    w->pods = bh_informer_new(w->admin, &bh_core_v1_pod_kind, BH_S("default"), none, none, &ops, w);
}

static void stop(struct sched_world *w)
{
    (void)bh_informer_free(w->pods);
    (void)bh_scheduler_free(w->scheduler);
    (void)bh_controllers_free(w->controllers);
    (void)bh_client_free(w->ctl);
    (void)bh_client_free(w->sched);
    (void)bh_client_free(w->admin);
    w->net = sched_net_free(w->net);
    (void)bh_apiserver_free(w->api);
    (void)bh_store_free(w->store);
    (void)mem_api_free(w->mem);
    (void)bh_loop_free(w->loop);
    bh_free(w->created_at);
    bh_free(w->latency);
}

static void wait_ready(struct sched_world *w)
{
    struct bh_scheduler_stats st;

    for (int i = 0; i < 600; i++) {
        st.ready = w->net != NULL; /* as a process it makes the first pods wait */
        if (w->scheduler)
            bh_scheduler_stats(w->scheduler, &st, NULL);
        if (st.ready && bh_informer_synced(w->pods))
            return;
        sched_world_run(w, 0.1);
    }
    bench_fail("%s: the scheduler did not become ready", w->k->name);
}

void sched_case_run(const struct sched_case *k, enum sched_mode mode)
{
    struct sched_world w = {.k = k, .mode = mode, .idle = true};
    struct sample a, b;

    w.created_at = bh_calloc(PODS_MAX, sizeof(double));
    w.latency = bh_calloc(PODS_MAX, sizeof(double));
    start(&w);
    wait_ready(&w);
    sched_world_pods(&w, 0, k->init, true);
    sched_world_settle(&w); /* what the controllers had to do with all that is done */
    if (k->then) {
        k->then(&w);
    } else {
        a = sample(&w);
        if (k->steady_s > 0)
            run_steady(&w);
        else
            sched_world_pods(&w, k->init, k->pods, true);
        b = sample(&w);
        report(&w, &a, &b);
    }
    stop(&w);
}
