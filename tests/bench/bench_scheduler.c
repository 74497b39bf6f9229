/* All in this process through the real API server, every write durable: 4,000 one-GPU pods on 500
 * nodes of 8 GPUs, then device taints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "apiserver/apiserver.h"
#include "base/arena.h"
#include "base/map.h"
#include "bench.h"
#include "client/client.h"
#include "controllers/controllers.h"
#include "net/loop.h"
#include "scheduler/scheduler.h"
#include "store/store.h"

#define NODES  500
#define GPUS   8
#define PODS   4000
#define TAINTS 30
#define DRIVER "gpu.example.com"

struct world {
    struct bh_loop *loop;
    struct bh_store *store;
    struct bh_apiserver *api;
    struct bh_client *admin, *sched, *ctl;
    struct bh_scheduler *scheduler;
    struct bh_controllers *controllers;
    struct bh_informer *pods;
    struct bh_arena *a;
    size_t created, bound, total, failed;
    bool all_created, all_bound, deleting;
    double *created_at; /* per pod, by number */
    double *latency;
    const char *watched; /* device whose pod has to go */
    struct bh_map where; /* "node/device" -> pod name; filled from claims */
    char victim[64];
};

static void must(void *arg, const struct bh_client_res *res)
{
    struct world *w = arg;

    w->created++;
    if (res->err.code != BH_OK) {
        if (!w->failed++)
            fprintf(stderr, "bench: %s\n", res->err.msg);
    }
    w->all_created = w->created == w->total;
}

static void pod_changed(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct world *w = arg;
    const struct bh_core_v1_pod *a = bh_obj_struct(old), *b = bh_obj_struct(o);
    int64_t i;

    if (!a->spec.node_name.n && b->spec.node_name.n &&
        bh_str_i64(bh_str_sub(o->name, 4, o->name.n), 0, PODS - 1, &i)) {
        w->latency[w->bound++] = (bench_now() - w->created_at[i]) * 1e3;
        w->all_bound = w->bound == PODS;
    }
    if (o->deleting && w->victim[0] && bh_str_eqc(o->name, w->victim))
        w->deleting = true;
}
static void pod_added(void *arg, struct bh_obj *o)
{
    (void)arg, (void)o;
}

static void create_all(struct world *w, size_t n, void (*one)(struct world *w, size_t i))
{
    w->created = 0;
    w->total = n;
    w->all_created = n == 0;
    for (size_t i = 0; i < n; i++)
        one(w, i);
    if (!bench_wait(w->loop, &w->all_created, 120) || w->failed)
        bench_fail("objects were not created");
}

static void make_node(struct world *w, size_t i)
{
    struct bh_core_v1_node n = {0};
    struct bh_core_v1_node_condition ready = {.type = BH_S("Ready"), .status = BH_S("True")};
    BH_AUTO_ARENA a = bh_arena_new(0);

    n.metadata.name = bh_str_fmt(a, "node-%zu", i);
    bh_str_map_put(a, &n.status.capacity, BH_S("cpu"), BH_S("64"));
    bh_str_map_put(a, &n.status.capacity, BH_S("memory"), BH_S("512Gi"));
    bh_str_map_put(a, &n.status.capacity, BH_S("pods"), BH_S("110"));
    n.status.allocatable = n.status.capacity;
    n.status.conditions.p = &ready;
    n.status.conditions.n = 1;
    (void)bh_client_create(w->admin, &bh_core_v1_node_kind, (struct bh_str){0}, &n, must, w);
}

static void untaint_node(struct world *w, size_t i)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    (void)bh_client_patch(w->admin, &bh_core_v1_node_kind, (struct bh_str){0},
                          bh_str_fmt(a, "node-%zu", i), "", BH_PATCH_MERGE,
                          BH_S("{\"spec\":{\"taints\":null}}"), must, w);
}

static void make_slice(struct world *w, size_t i)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_resource_v1_resource_slice s = {0};

    s.metadata.name = bh_str_fmt(a, "slice-%zu", i);
    s.spec.driver = BH_S(DRIVER);
    s.spec.node_name = bh_str_fmt(a, "node-%zu", i);
    s.spec.has_node_name = true;
    s.spec.pool.name = s.spec.node_name;
    s.spec.pool.generation = 1;
    s.spec.pool.resource_slice_count = 1;
    s.spec.devices.p = bh_new_n(a, struct bh_resource_v1_device, GPUS);
    s.spec.devices.n = GPUS;
    for (size_t k = 0; k < GPUS; k++) {
        struct bh_resource_v1_device *d = &s.spec.devices.p[k];

        d->name = bh_str_fmt(a, "gpu-%zu", k);
        d->attributes.p = bh_new(a, struct bh_resource_v1_device_attribute_entry);
        d->attributes.n = 1;
        d->attributes.p[0].key = BH_S("model");
        d->attributes.p[0].value.string = BH_S("H200");
        d->attributes.p[0].value.has_string = true;
        d->capacity.p = bh_new(a, struct bh_resource_v1_device_capacity_entry);
        d->capacity.n = 1;
        d->capacity.p[0].key = BH_S("memory");
        d->capacity.p[0].value.value = BH_S("141Gi");
    }
    (void)bh_client_create(w->admin, &bh_resource_v1_resource_slice_kind, (struct bh_str){0}, &s,
                           must, w);
}

static void make_class(struct world *w, size_t i)
{
    struct bh_resource_v1_device_class c = {0};
    struct bh_resource_v1_device_selector sel = {0};
    struct bh_resource_v1_cel_device_selector cel = {.expression =
                                                         BH_S("device.driver == \"" DRIVER "\"")};

    (void)i;
    c.metadata.name = BH_S("gpu");
    sel.cel = &cel;
    c.spec.selectors.p = &sel;
    c.spec.selectors.n = 1;
    (void)bh_client_create(w->admin, &bh_resource_v1_device_class_kind, (struct bh_str){0}, &c,
                           must, w);
}

static void make_template(struct world *w, size_t i)
{
    struct bh_resource_v1_resource_claim_template t = {0};
    struct bh_resource_v1_device_request r = {.name = BH_S("gpu")};
    struct bh_resource_v1_exact_device_request e = {.device_class_name = BH_S("gpu")};

    (void)i;
    t.metadata.name = BH_S("one-gpu");
    r.exactly = &e;
    t.spec.spec.devices.requests.p = &r;
    t.spec.spec.devices.requests.n = 1;
    (void)bh_client_create(w->admin, &bh_resource_v1_resource_claim_template_kind, BH_S("default"),
                           &t, must, w);
}

static void make_pod(struct world *w, size_t i)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_core_v1_pod p = {0};
    struct bh_core_v1_pod_resource_claim rc = {.name = BH_S("gpu"),
                                               .resource_claim_template_name = BH_S("one-gpu"),
                                               .has_resource_claim_template_name = true};
    struct bh_core_v1_container c = {.name = BH_S("main"), .image = BH_S("example.com/train:1")};
    struct bh_core_v1_resource_claim use = {.name = BH_S("gpu")};

    p.metadata.name = bh_str_fmt(a, "pod-%zu", i);
    c.resources.claims.p = &use;
    c.resources.claims.n = 1;
    p.spec.containers.p = &c;
    p.spec.containers.n = 1;
    p.spec.resource_claims.p = &rc;
    p.spec.resource_claims.n = 1;
    w->created_at[i] = bench_now();
    (void)bh_client_create(w->admin, &bh_core_v1_pod_kind, BH_S("default"), &p, must, w);
}

static void listed(void *arg, const struct bh_client_res *res)
{
    struct world *w = arg;

    for (size_t i = 0; i < res->items_n; i++) {
        const struct bh_resource_v1_resource_claim *c = bh_obj_struct(res->items[i]);

        if (!c->status.allocation || !c->status.reserved_for.n)
            continue;
        const struct bh_resource_v1_device_request_allocation_result *r =
            &c->status.allocation->devices.results.p[0];
        (void)bh_map_put(&w->where, bh_str_fmt(w->a, "%.*s/%.*s", BH_SF(r->pool), BH_SF(r->device)),
                         bh_strdup_c(c->status.reserved_for.p[0].name));
    }
    w->all_created = true;
}

static void taints(struct world *w)
{
    double times[TAINTS];

    w->all_created = false;
    (void)bh_client_call(w->admin,
                         &(struct bh_client_req){.verb = BH_VERB_LIST,
                                                 .kind = &bh_resource_v1_resource_claim_kind,
                                                 .ns = BH_S("default")},
                         listed, w);
    if (!bench_wait(w->loop, &w->all_created, 60))
        bench_fail("no list of claims");
    if (w->where.n != PODS)
        bench_fail("%zu devices are in use, not %d: a device was given twice", w->where.n, PODS);
    for (size_t i = 0; i < TAINTS; i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_resource_v1beta2_device_taint_rule r = {0};
        struct bh_resource_v1beta2_device_taint_selector sel = {0};
        struct bh_str node = bh_str_fmt(a, "node-%zu", i * 7 + 3), dev = BH_S("gpu-2");
        const char *pod =
            bh_map_get(&w->where, bh_str_fmt(a, "%.*s/%.*s", BH_SF(node), BH_SF(dev)));
        double t;

        snprintf(w->victim, sizeof(w->victim), "%s", pod ? pod : "");
        w->deleting = false;
        r.metadata.name = bh_str_fmt(a, "rule-%zu", i);
        sel.pool = node;
        sel.device = dev;
        sel.has_pool = sel.has_device = true;
        r.spec.device_selector = &sel;
        r.spec.taint.key = BH_S("example.com/broken");
        r.spec.taint.effect = BH_S("NoExecute");
        t = bench_now();
        (void)bh_client_create(w->admin, &bh_resource_v1beta2_device_taint_rule_kind,
                               (struct bh_str){0}, &r, NULL, NULL);
        if (!bench_wait(w->loop, &w->deleting, 10))
            bench_fail("%s was not evicted", w->victim);
        times[i] = (bench_now() - t) * 1e3;
    }
    bench_report("taint_to_deletion_p50", bench_quantile(times, TAINTS, 0.5), "ms",
                 "DeviceTaintRule created to deletionTimestamp, 4,000 pods, 30 rules");
    bench_report("taint_to_deletion_p99", bench_quantile(times, TAINTS, 0.99), "ms", "the same");
}

void bench_scheduler(void)
{
    static const struct bh_informer_ops ops = {pod_added, pod_changed, NULL, NULL};
    struct bh_scheduler_opts so = {0};
    struct bh_controllers_opts co = {
        .controllers = "resourceclaim-controller,device-taint-eviction-controller"};
    struct bh_apiserver_opts ao = {.disable_admission = "ServiceAccount"};
    struct bh_str masters = BH_S("system:masters");
    struct bh_err err = {0};
    struct world w = {.loop = bh_loop_new_real(&err), .a = bh_arena_new(0)};
    char db[256];
    double t;

    snprintf(db, sizeof(db), "%s/sched.db", bench_dir);
    w.created_at = bh_calloc(PODS, sizeof(double));
    w.latency = bh_calloc(PODS, sizeof(double));
    if (!w.loop || bh_store_open_sqlite(w.loop, db, &w.store, &err) < 0 ||
        bh_apiserver_new(w.loop, w.store, &ao, &w.api, &err) < 0)
        bench_fail("%s", err.msg);
    w.admin = bh_client_new_inproc(w.loop, w.api, BH_S("admin"), &masters, 1, "bench");
    w.sched = bh_client_new_inproc(w.loop, w.api, BH_S("system:kube-scheduler"), NULL, 0,
                                   "bulkhead-scheduler");
    w.ctl = bh_client_new_inproc(w.loop, w.api, BH_S("system:kube-controller-manager"), NULL, 0,
                                 "bulkhead-controller-manager");
    create_all(&w, NODES, make_node);
    create_all(&w, NODES, untaint_node);
    create_all(&w, NODES, make_slice);
    create_all(&w, 1, make_class);
    create_all(&w, 1, make_template);
    w.controllers = bh_controllers_new(w.ctl, &co, &err);
    w.scheduler = bh_scheduler_new(w.sched, &so, &err);
    if (!w.controllers || !w.scheduler)
        bench_fail("%s", err.msg);
    w.pods = bh_informer_new(w.admin, &bh_core_v1_pod_kind, BH_S("default"), (struct bh_str){0},
                             (struct bh_str){0}, &ops, &w);
    (void)bench_wait(w.loop, &w.deleting, 1); /* everybody has seen the nodes */
    t = bench_now();
    create_all(&w, PODS, make_pod);
    if (!bench_wait(w.loop, &w.all_bound, 600))
        bench_fail("%zu of %d pods have a node", w.bound, PODS);
    t = bench_now() - t;
    bench_report("schedule_claim_templates_500_nodes", PODS / t, "pods/s",
                 "4,000 one-GPU pods on 500 nodes of 8 GPUs, claims from a template, one process, "
                 "every write durable");
    bench_report("schedule_claim_templates_p50", bench_quantile(w.latency, w.bound, 0.5), "ms",
                 "pod created to bound, all created at once");
    bench_report("schedule_claim_templates_p99", bench_quantile(w.latency, w.bound, 0.99), "ms",
                 "the same");
    taints(&w);
    (void)bh_informer_free(w.pods);
    (void)bh_scheduler_free(w.scheduler);
    (void)bh_controllers_free(w.controllers);
    (void)bh_client_free(w.ctl);
    (void)bh_client_free(w.sched);
    (void)bh_client_free(w.admin);
    (void)bh_apiserver_free(w.api);
    (void)bh_store_free(w.store);
    (void)bh_arena_free(w.a);
    (void)bh_loop_free(w.loop);
}
