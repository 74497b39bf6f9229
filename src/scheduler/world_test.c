/* The tests' control plane. */
#include "scheduler/world_test.h"

#define WALL0 ((int64_t)1790000000 * 1000000000)

static struct bh_client *user(struct world *w, const char *name, const char *group)
{
    struct bh_str groups[2] = {BH_S("system:authenticated"), bh_s(group)};

    return bh_client_new_inproc(w->loop, w->api, bh_s(name), groups, group ? 2 : 1, "test");
}

void world_init(struct world *w)
{
    world_init_with(w, NULL, bh_test_seed());
}

void world_init_with(struct world *w, const char *feature_gates, uint64_t seed)
{
    struct bh_apiserver_opts o = {.disable_admission = "ServiceAccount",
                                  .feature_gates = feature_gates};
    struct bh_err err = {0};

    *w = (struct world){0};
    w->a = bh_arena_new(0);
    w->loop = bh_loop_new_virtual(seed, WALL0);
    w->store = bh_store_new_memory(w->loop);
    if (bh_apiserver_new(w->loop, w->store, &o, &w->api, &err) < 0) {
        bh_test_fail(__FILE__, __LINE__, "apiserver: %s", err.msg);
        return;
    }
    w->admin = user(w, "admin", "system:masters");
    world_run(w, 100);
}

void world_start(struct world *w)
{
    world_start_only(w);
    world_run(w, 500);
}

void world_start_only(struct world *w)
{
    struct bh_err err = {0};

    w->client = user(w, "system:kube-scheduler", NULL);
    w->sched = bh_scheduler_new(w->client, &w->opts, &err);
    BH_CHECK(w->sched != NULL);
}

void world_start_flaky(struct world *w, struct flaky *f)
{
    struct bh_err err = {0};

    w->client = user(w, "system:kube-scheduler", NULL);
    w->flaky = f;
    flaky_init(f, w->client);
    w->sched = bh_scheduler_new(&f->base, &w->opts, &err);
    BH_CHECK(w->sched != NULL);
    world_run(w, 500);
}

void world_stop(struct world *w)
{
    w->sched = bh_scheduler_free(w->sched);
    if (w->flaky)
        (void)bh_client_free(&w->flaky->base);
    w->flaky = NULL;
    w->client = bh_client_free(w->client);
}

void world_done(struct world *w)
{
    world_stop(w);
    (void)bh_obj_unref(w->got);
    (void)bh_client_free(w->admin);
    (void)bh_apiserver_free(w->api);
    (void)bh_store_free(w->store);
    (void)bh_loop_free(w->loop);
    (void)bh_arena_free(w->a);
}

void world_run(struct world *w, int64_t ms)
{
    bh_loop_advance(w->loop, ms * 1000000);
}

static void answered(void *arg, const struct bh_client_res *res)
{
    struct world *w = arg;

    w->status = res->status;
    (void)bh_obj_unref(w->got);
    w->got = res->obj ? bh_obj_ref(res->obj) : NULL;
    if (res->status >= 400 && res->status != 404)
        bh_test_fail(__FILE__, __LINE__, "%d %s", res->status, res->err.msg);
}

static int call(struct world *w, const struct bh_client_req *req)
{
    w->status = 0;
    (void)bh_client_call(w->admin, req, answered, w);
    for (int i = 0; i < 1000 && !w->status; i++)
        world_run(w, 1);
    return w->status;
}

int world_create(struct world *w, const struct bh_kind *k, const char *ns, const char *json)
{
    return call(w, &(struct bh_client_req){
                       .verb = BH_VERB_CREATE, .kind = k, .ns = bh_s(ns), .body = bh_s(json)});
}

int world_delete(struct world *w, const struct bh_kind *k, const char *ns, const char *name)
{
    return call(w, &(struct bh_client_req){.verb = BH_VERB_DELETE,
                                           .kind = k,
                                           .ns = bh_s(ns),
                                           .name = bh_s(name),
                                           .query = BH_S("gracePeriodSeconds=0")});
}

int world_patch(struct world *w, const struct bh_kind *k, const char *ns, const char *name,
                const char *sub, const char *json)
{
    return call(w, &(struct bh_client_req){.verb = BH_VERB_PATCH,
                                           .kind = k,
                                           .ns = bh_s(ns),
                                           .name = bh_s(name),
                                           .subresource = bh_s(sub),
                                           .patch = BH_PATCH_MERGE,
                                           .body = bh_s(json)});
}

const void *world_get(struct world *w, const struct bh_kind *k, const char *ns, const char *name)
{
    if (call(w, &(struct bh_client_req){
                    .verb = BH_VERB_GET, .kind = k, .ns = bh_s(ns), .name = bh_s(name)}) != 200)
        return NULL;
    return bh_obj_struct(w->got);
}

void world_node(struct world *w, const char *name, const char *cpu, const char *more)
{
    struct bh_str body =
        bh_str_fmt(w->a,
                   "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\",\"labels"
                   "\":{\"kubernetes.io/hostname\":\"%s\"}},\"spec\":{%s},\"status\":{"
                   "\"allocatable\":{\"cpu\":\"%s\",\"memory\":\"8Gi\",\"pods\":\"20\"}}}",
                   name, name, more, cpu);

    BH_EQ(world_create(w, &bh_core_v1_node_kind, "", body.p), 201);
    /* Admission marks new nodes as not ready. */
    (void)world_patch(
        w, &bh_core_v1_node_kind, "", name, "",
        bh_str_fmt(w->a, "{\"spec\":{\"taints\":null%s%s}}", *more ? "," : "", more).p);
}

void world_pod(struct world *w, const char *name, const char *cpu, const char *more)
{
    struct bh_str body =
        bh_str_fmt(w->a,
                   "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\",\"labels"
                   "\":{\"app\":\"x\"}},\"spec\":{%s%s\"containers\":[{\"name\":\"c\",\"image\":"
                   "\"i\",\"resources\":{\"requests\":{\"cpu\":\"%s\"}}}]}}",
                   name, more, *more ? "," : "", cpu);

    BH_EQ(world_create(w, &bh_core_v1_pod_kind, "default", body.p), 201);
}

void world_gpus(struct world *w, const char *node, int n, const char *taint_of_last)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addf(&b,
                "{\"kind\":\"ResourceSlice\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{"
                "\"name\":\"s-%s\"},\"spec\":{\"driver\":\"gpu.bulkhead.dev\",\"pool\":{\"name\":"
                "\"%s\",\"generation\":1,\"resourceSliceCount\":1},\"nodeName\":\"%s\",\"devices\":"
                "[",
                node, node, node);
    for (int i = 0; i < n; i++) {
        bh_buf_addf(&b, "%s{\"name\":\"gpu-%d\"", i ? "," : "", i);
        if (i == n - 1 && *taint_of_last)
            bh_buf_addf(&b, ",\"taints\":[%s]", taint_of_last);
        bh_buf_addc(&b, '}');
    }
    bh_buf_addz(&b, "]}}");
    BH_EQ(world_create(w, &bh_resource_v1_resource_slice_kind, "", bh_buf_cstr(&b)), 201);
}

void world_class(struct world *w)
{
    BH_EQ(world_create(w, &bh_resource_v1_device_class_kind, "",
                       "{\"kind\":\"DeviceClass\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata"
                       "\":{\"name\":\"gpu\"},\"spec\":{\"selectors\":[{\"cel\":{\"expression\":"
                       "\"device.driver == \\\"gpu.bulkhead.dev\\\"\"}}]}}"),
          201);
}

void world_claim(struct world *w, const char *name)
{
    struct bh_str body = bh_str_fmt(
        w->a,
        "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{\"name\":"
        "\"%s\"},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"gpu\",\"exactly\":{"
        "\"deviceClassName\":\"gpu\"}}]}}}",
        name);

    BH_EQ(world_create(w, &bh_resource_v1_resource_claim_kind, "default", body.p), 201);
}

void world_claim_pod(struct world *w, const char *name, const char *claim)
{
    world_pod(w, name, "100m",
              bh_str_fmt(w->a, "\"resourceClaims\":[{\"name\":\"d\",\"resourceClaimName\":\"%s\"}]",
                         claim)
                  .p);
}

struct bh_str world_node_of(struct world *w, const char *pod)
{
    const struct bh_core_v1_pod *p = world_get(w, &bh_core_v1_pod_kind, "default", pod);

    return p ? p->spec.node_name : BH_S("(gone)");
}

struct bh_str world_message(struct world *w, const char *pod)
{
    const struct bh_core_v1_pod *p = world_get(w, &bh_core_v1_pod_kind, "default", pod);

    for (size_t i = 0; p && i < p->status.conditions.n; i++)
        if (bh_str_eqc(p->status.conditions.p[i].type, "PodScheduled") &&
            bh_str_eqc(p->status.conditions.p[i].status, "False"))
            return p->status.conditions.p[i].message;
    return BH_S("");
}

struct bh_str world_device(struct world *w, const char *claim)
{
    const struct bh_resource_v1_resource_claim *c =
        world_get(w, &bh_resource_v1_resource_claim_kind, "default", claim);

    if (!c || !c->status.allocation || !c->status.allocation->devices.results.n)
        return BH_S("");
    return c->status.allocation->devices.results.p[0].device;
}
