/* Binding beside others who write: what was decided becomes true as a whole, or is taken back as a
 * whole, whether the writes go out in one go or one after the other. */
#include "api/engine.h"
#include "client/client_int.h"
#include "scheduler/bind_int.h"
#include "scheduler/world_test.h"

#define CLAIM &bh_resource_v1_resource_claim_kind
#define POD   &bh_core_v1_pod_kind

/* A client around the scheduler's. Somebody else writes just before its first write of a claim or a
 * binding, or the answer to that is lost. */
struct tap {
    struct bh_client base;
    struct bh_client *inner, *admin;
    struct bh_client_req before, then; /* verb GET: nothing */
    bool lose_answer;
    bool acted;
    int sequences;
    struct bh_loop *loop;
    struct lost *lost; /* the one whose answer is lost */
};

struct lost {
    struct tap *t;
    struct bh_timer timer;
    bh_client_fn fn;
    bh_client_seq_fn seq_fn;
    void *arg;
};

static void lost_answer(void *arg)
{
    struct lost *l = arg, copy = *l;
    struct bh_client_res res = {0};

    l->t->lost = NULL;
    bh_free(l);
    (void)bh_err_set(&res.err, BH_E_TIMEOUT, "no answer in time");
    if (copy.seq_fn)
        copy.seq_fn(copy.arg, &res, 1);
    else
        copy.fn(copy.arg, &res);
}

static void act(struct tap *t)
{
    t->acted = true;
    if (t->before.verb != BH_VERB_GET)
        (void)bh_client_call(t->admin, &t->before, NULL, NULL);
    if (t->then.verb != BH_VERB_GET)
        (void)bh_client_call(t->admin, &t->then, NULL, NULL);
}

static struct lost *lose(struct tap *t, void *arg)
{
    struct lost *l = bh_calloc(1, sizeof(*l));

    l->t = t;
    l->arg = arg;
    t->lost = l;
    bh_timer_init(&l->timer, t->loop, lost_answer, l);
    bh_timer_start(&l->timer, 200);
    return l;
}

static bool of_binding(const struct bh_client_req *req)
{
    return (req->kind == CLAIM && req->verb != BH_VERB_GET && req->verb != BH_VERB_LIST) ||
           bh_str_eqc(req->subresource, "binding");
}

static void tap_call(struct bh_client *c, uint64_t id, const struct bh_client_req *req,
                     bh_client_fn fn, void *arg)
{
    struct tap *t = (struct tap *)c;

    (void)id;
    if (!t->acted && of_binding(req)) {
        act(t);
        if (t->lose_answer) {
            lose(t, arg)->fn = fn;
            (void)bh_client_call(t->inner, req, NULL, NULL);
            return;
        }
    }
    (void)bh_client_call(t->inner, req, fn, arg);
}

static void tap_sequence(struct bh_client *c, uint64_t id, const struct bh_client_req *reqs,
                         size_t n, bh_client_seq_fn fn, void *arg)
{
    struct tap *t = (struct tap *)c;

    (void)id;
    t->sequences++;
    if (!t->acted) {
        act(t);
        if (t->lose_answer) {
            lose(t, arg)->seq_fn = fn;
            (void)bh_client_sequence(t->inner, reqs, n, NULL, NULL);
            return;
        }
    }
    (void)bh_client_sequence(t->inner, reqs, n, fn, arg);
}

static void tap_watch(struct bh_client *c, uint64_t id, const struct bh_client_req *req,
                      uint64_t rv, const struct bh_watch_handler *h)
{
    (void)id;
    (void)bh_client_watch(((struct tap *)c)->inner, req, rv, h);
}

/* The scheduler cancels at its end alone, and the client within ends with it. */
static void tap_cancel(struct bh_client *c, uint64_t id)
{
    (void)c;
    (void)id;
}

static void tap_free(struct bh_client *c)
{
    struct tap *t = (struct tap *)c;

    if (t->lost) {
        bh_timer_stop(&t->lost->timer);
        bh_free(t->lost);
    }
    t->inner = bh_client_free(t->inner);
}

static const struct bh_client_vtable vts[2] = {
    {tap_call, tap_watch, tap_cancel, tap_free, tap_sequence},
    {tap_call, tap_watch, tap_cancel, tap_free, NULL}};

/* Two nodes, oak with a device, and a scheduler behind the tap. way 0: in one go. */
static void open_world(struct world *w, struct tap *t, int way)
{
    struct bh_err err = {0};

    world_init(w);
    world_node(w, "oak", "4", "");
    world_node(w, "elm", "4", "");
    world_class(w);
    world_gpus(w, "oak", 2, "");
    t->inner = bh_client_new_inproc(w->loop, w->api, BH_S("system:kube-scheduler"),
                                    (struct bh_str[]){BH_S("system:authenticated")}, 1, "test");
    t->base = (struct bh_client){.vt = &vts[way], .loop = w->loop};
    t->loop = w->loop;
    t->admin = w->admin;
    w->sched = bh_scheduler_new(&t->base, &w->opts, &err);
    BH_CHECK(w->sched != NULL);
    world_run(w, 500);
}

static void close_world(struct world *w, struct tap *t)
{
    w->sched = bh_scheduler_free(w->sched);
    (void)bh_client_free(&t->base);
    world_done(w);
}

static const struct bh_resource_v1_resource_claim *claim(struct world *w, const char *name)
{
    return world_get(w, CLAIM, "default", name);
}

static bool reserved_for(const struct bh_resource_v1_resource_claim *c, const char *pod)
{
    for (size_t i = 0; c && i < c->status.reserved_for.n; i++)
        if (bh_str_eqc(c->status.reserved_for.p[i].name, pod))
            return true;
    return false;
}

static uint64_t version(struct world *w, const struct bh_kind *k, const char *name)
{
    return world_get(w, k, "default", name) ? w->got->rv : 0;
}

/* Nothing is left over of what did not come about: another pod gets each device. */
static void check_free(struct world *w, int n)
{
    for (int i = 0; i < n; i++) {
        const char *name = bh_str_fmt(w->a, "free-%d", i).p;

        world_claim(w, name);
        world_claim_pod(w, name, name);
    }
    world_run(w, 20000);
    for (int i = 0; i < n; i++)
        BH_STREQ(world_node_of(w, bh_str_fmt(w->a, "free-%d", i).p), "oak");
}

BH_TEST(claim_and_binding_are_one_commit)
{
    struct tap t = {0};
    struct world w;

    open_world(&w, &t, 0);
    world_claim(&w, "a");
    world_claim_pod(&w, "p", "a");
    world_run(&w, 100);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    BH_EQ(claim(&w, "a")->metadata.finalizers.n, 1);
    BH_CHECK(reserved_for(claim(&w, "a"), "p"));
    BH_EQ(version(&w, POD, "p"), version(&w, CLAIM, "a") + 1);
    BH_EQ(t.sequences, 1);
    close_world(&w, &t);
}

BH_TEST(a_claim_that_changed_is_written_again)
{
    for (int way = 0; way < 2; way++) {
        struct tap t = {0};
        struct world w;

        open_world(&w, &t, way);
        t.before =
            (struct bh_client_req){.verb = BH_VERB_PATCH,
                                   .kind = CLAIM,
                                   .ns = BH_S("default"),
                                   .name = BH_S("a"),
                                   .patch = BH_PATCH_MERGE,
                                   .body = BH_S("{\"metadata\":{\"labels\":{\"l\":\"1\"}}}")};
        world_claim(&w, "a");
        world_claim_pod(&w, "p", "a");
        world_run(&w, 2000);
        BH_STREQ(world_node_of(&w, "p"), "oak");
        BH_EQ(claim(&w, "a")->metadata.labels.n, 1);
        BH_CHECK(reserved_for(claim(&w, "a"), "p"));
        BH_STREQ(world_message(&w, "p"), "");
        check_free(&w, 1);
        close_world(&w, &t);
    }
}

static const struct bh_core_v1_binding elsewhere = {
    .metadata = {.name = BH_S_INIT("p"), .namespace = BH_S_INIT("default")},
    .target = {.kind = BH_S_INIT("Node"), .name = BH_S_INIT("elm")}};

BH_TEST(a_refused_binding_gives_the_reservation_back)
{
    for (int way = 0; way < 2; way++) {
        struct tap t = {0};
        struct world w;

        open_world(&w, &t, way);
        t.before = (struct bh_client_req){.verb = BH_VERB_CREATE,
                                          .kind = POD,
                                          .ns = BH_S("default"),
                                          .name = BH_S("p"),
                                          .subresource = BH_S("binding"),
                                          .msg = &elsewhere,
                                          .msg_kind = &bh_core_v1_binding_kind};
        world_claim(&w, "a");
        world_claim_pod(&w, "p", "a");
        world_run(&w, 2000);
        BH_STREQ(world_node_of(&w, "p"), "elm");
        BH_CHECK(claim(&w, "a")->status.allocation != NULL); /* it stays for the next */
        BH_CHECK(!reserved_for(claim(&w, "a"), "p"));
        check_free(&w, 1);
        close_world(&w, &t);
    }
}

BH_TEST(a_claim_that_another_allocates_is_left_to_it)
{
    for (int way = 0; way < 2; way++) {
        struct tap t = {0};
        struct world w;

        open_world(&w, &t, way);
        t.before = (struct bh_client_req){
            .verb = BH_VERB_PATCH,
            .kind = CLAIM,
            .ns = BH_S("default"),
            .name = BH_S("a"),
            .subresource = BH_S("status"),
            .patch = BH_PATCH_MERGE,
            .body = BH_S("{\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":"
                         "\"gpu\",\"driver\":\"gpu.bulkhead.dev\",\"pool\":\"oak\",\"device\":"
                         "\"gpu-1\"}]}}}}")};
        world_claim(&w, "a");
        world_claim_pod(&w, "p", "a");
        world_run(&w, 20000);
        BH_STREQ(world_device(&w, "a"), "gpu-1");
        BH_CHECK(world_node_of(&w, "p").n > 0); /* by a later attempt */
        BH_CHECK(reserved_for(claim(&w, "a"), "p"));
        check_free(&w, 1);
        close_world(&w, &t);
    }
}

/* Given back and allocated anew while a pod is bound that found it allocated. */
BH_TEST(a_claim_that_moved_is_followed)
{
    for (int way = 0; way < 2; way++) {
        struct tap t = {.acted = true};
        struct world w;

        open_world(&w, &t, way);
        world_claim(&w, "a");
        world_claim_pod(&w, "p", "a");
        world_run(&w, 1000);
        BH_STREQ(world_node_of(&w, "p"), "oak");
        t.before = (struct bh_client_req){
            .verb = BH_VERB_PATCH,
            .kind = CLAIM,
            .ns = BH_S("default"),
            .name = BH_S("a"),
            .subresource = BH_S("status"),
            .patch = BH_PATCH_MERGE,
            .body = BH_S("{\"status\":{\"allocation\":null,\"reservedFor\":null}}")};
        t.then = t.before;
        t.then.body =
            BH_S("{\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"gpu\","
                 "\"driver\":\"gpu.bulkhead.dev\",\"pool\":\"elm\",\"device\":\"gpu-0\"}]},"
                 "\"nodeSelector\":{\"nodeSelectorTerms\":[{\"matchFields\":[{\"key\":"
                 "\"metadata.name\",\"operator\":\"In\",\"values\":[\"elm\"]}]}]}}}}");
        t.acted = false;
        world_claim_pod(&w, "q", "a");
        world_run(&w, 20000);
        BH_STREQ(world_node_of(&w, "q"), "elm");
        BH_CHECK(reserved_for(claim(&w, "a"), "q"));
        check_free(&w, 2);
        close_world(&w, &t);
    }
}

BH_TEST(a_lost_answer_is_found_out)
{
    for (int way = 0; way < 2; way++) {
        struct tap t = {.lose_answer = true};
        struct bh_scheduler_stats stats;
        struct world w;

        open_world(&w, &t, way);
        world_claim(&w, "a");
        world_claim_pod(&w, "p", "a");
        world_run(&w, 100);
        BH_EQ(world_node_of(&w, "p").n > 0, way == 0);
        world_run(&w, 3000);
        BH_STREQ(world_node_of(&w, "p"), "oak");
        BH_EQ(claim(&w, "a")->status.reserved_for.n, 1);
        BH_STREQ(world_message(&w, "p"), "");
        bh_scheduler_stats(w.sched, &stats, NULL);
        BH_EQ(stats.scheduled, 1);
        check_free(&w, 1);
        close_world(&w, &t);
    }
}

BH_TEST(a_failed_commit_is_repeated)
{
    struct tap t = {0};
    struct world w;

    open_world(&w, &t, 0);
    world_claim(&w, "a");
    world_claim_pod(&w, "p", "a");
    bh_store_memory_fail(w.store, 1);
    world_run(&w, 2000);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    BH_EQ(claim(&w, "a")->status.reserved_for.n, 1);
    BH_STREQ(world_message(&w, "p"), "");
    close_world(&w, &t);
}

/* A generated claim: pod and claim as the claim controller would write them. */
static void generated(struct world *w, const char *name)
{
    struct bh_str uid = BH_S("");

    if (world_get(w, POD, "default", "p"))
        uid = bh_str_dup(w->a, w->got->uid);
    BH_EQ(world_create(
              w, CLAIM, "default",
              bh_str_fmt(w->a,
                         "{\"metadata\":{\"name\":\"%s\",\"ownerReferences\":[{\"apiVersion\":"
                         "\"v1\",\"kind\":\"Pod\",\"name\":\"p\",\"uid\":\"%.*s\",\"controller\":"
                         "true}]},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"gpu\","
                         "\"exactly\":{\"deviceClassName\":\"gpu\"}}]}}}",
                         name, BH_SF(uid))
                  .p),
          201);
}

#define NAMES(claim)                                                                               \
    "{\"status\":{\"resourceClaimStatuses\":[{\"name\":\"d\",\"resourceClaimName\":\"" claim       \
    "\"}]}}"

BH_TEST(a_pod_that_names_another_claim_is_not_bound_with_the_old_one)
{
    for (int way = 0; way < 2; way++) {
        struct tap t = {0};
        struct world w;

        open_world(&w, &t, way);
        t.before = (struct bh_client_req){.verb = BH_VERB_PATCH,
                                          .kind = POD,
                                          .ns = BH_S("default"),
                                          .name = BH_S("p"),
                                          .subresource = BH_S("status"),
                                          .patch = BH_PATCH_MERGE,
                                          .body = BH_S(NAMES("b"))};
        world_pod(&w, "p", "100m",
                  "\"resourceClaims\":[{\"name\":\"d\",\"resourceClaimTemplateName\":\"t\"}]");
        generated(&w, "a");
        generated(&w, "b");
        (void)world_patch(&w, POD, "default", "p", "status", NAMES("a"));
        for (int i = 0; i < 300; i++) {
            world_run(&w, 100);
            BH_CHECK(!world_node_of(&w, "p").n || reserved_for(claim(&w, "b"), "p"));
        }
        BH_STREQ(world_node_of(&w, "p"), "oak");
        BH_CHECK(!reserved_for(claim(&w, "a"), "p"));
        close_world(&w, &t);
    }
}

/* Another change of the pod is in nobody's way. */
BH_TEST(a_pod_that_changed_otherwise_is_bound)
{
    for (int way = 0; way < 2; way++) {
        struct tap t = {0};
        struct world w;

        open_world(&w, &t, way);
        t.before =
            (struct bh_client_req){.verb = BH_VERB_PATCH,
                                   .kind = POD,
                                   .ns = BH_S("default"),
                                   .name = BH_S("p"),
                                   .patch = BH_PATCH_MERGE,
                                   .body = BH_S("{\"metadata\":{\"labels\":{\"l\":\"1\"}}}")};
        world_pod(&w, "p", "100m",
                  "\"resourceClaims\":[{\"name\":\"d\",\"resourceClaimTemplateName\":\"t\"}]");
        generated(&w, "a");
        (void)world_patch(&w, POD, "default", "p", "status", NAMES("a"));
        world_run(&w, 1000);
        BH_STREQ(world_node_of(&w, "p"), "oak");
        BH_STREQ(world_message(&w, "p"), "");
        BH_CHECK(reserved_for(claim(&w, "a"), "p"));
        close_world(&w, &t);
    }
}

static size_t claims_n(struct world *w, struct bh_str *ret_last)
{
    struct bh_informer *i =
        bh_informer_new(w->admin, CLAIM, (struct bh_str){NULL, 0}, (struct bh_str){NULL, 0},
                        (struct bh_str){NULL, 0}, &(struct bh_informer_ops){0}, NULL);
    struct bh_obj *o;
    size_t n = 0;

    world_run(w, 100);
    for (size_t it = 0; (o = bh_informer_next(i, &it)); n++)
        *ret_last = bh_str_dup(w->a, o->name);
    (void)bh_informer_free(i);
    return n;
}

/* The claim for extended resources: made, allocated and named with the binding; once, whatever
 * becomes of the answer. */
BH_TEST(extended_resources_are_one_commit)
{
    for (int way = 0; way < 4; way++) {
        struct tap t = {.lose_answer = way >= 2};
        const struct bh_core_v1_pod *p;
        struct bh_str name = {NULL, 0};
        struct world w;

        open_world(&w, &t, way & 1);
        BH_EQ(world_create(&w, &bh_resource_v1_device_class_kind, "",
                           "{\"metadata\":{\"name\":\"ext\"},\"spec\":{\"extendedResourceName\":"
                           "\"example.com/gpu\"}}"),
              201);
        BH_EQ(world_create(
                  &w, POD, "default",
                  "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                  "\"image\":\"i\",\"resources\":{\"limits\":{\"example.com/gpu\":\"1\"}}}]}}"),
              201);
        world_run(&w, 3000);
        BH_STREQ(world_node_of(&w, "p"), "oak");
        BH_EQ(claims_n(&w, &name), 1);
        p = world_get(&w, POD, "default", "p");
        BH_CHECK(p && p->status.extended_resource_claim_status);
        BH_STREQ(p->status.extended_resource_claim_status->resource_claim_name, name.p);
        BH_CHECK(claim(&w, name.p)->status.allocation && reserved_for(claim(&w, name.p), "p"));
        BH_EQ(claim(&w, name.p)->metadata.finalizers.n, 1);
        BH_STREQ(claim(&w, name.p)->metadata.generate_name, "p-extended-resources-");
        if (way == 0) {
            BH_EQ(t.sequences, 1);
            BH_EQ(version(&w, POD, "p"), version(&w, CLAIM, name.p) + 2);
        }
        check_free(&w, 1);
        close_world(&w, &t);
    }
}

/* Refused, it leaves nothing. */
BH_TEST(extended_resources_of_a_pod_that_is_bound_elsewhere)
{
    for (int way = 0; way < 2; way++) {
        struct tap t = {0};
        struct bh_str name = {NULL, 0};
        struct world w;

        open_world(&w, &t, way);
        t.before = (struct bh_client_req){.verb = BH_VERB_CREATE,
                                          .kind = POD,
                                          .ns = BH_S("default"),
                                          .name = BH_S("p"),
                                          .subresource = BH_S("binding"),
                                          .msg = &elsewhere,
                                          .msg_kind = &bh_core_v1_binding_kind};
        BH_EQ(world_create(&w, &bh_resource_v1_device_class_kind, "",
                           "{\"metadata\":{\"name\":\"ext\"},\"spec\":{\"extendedResourceName\":"
                           "\"example.com/gpu\"}}"),
              201);
        BH_EQ(world_create(
                  &w, POD, "default",
                  "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                  "\"image\":\"i\",\"resources\":{\"limits\":{\"example.com/gpu\":\"1\"}}}]}}"),
              201);
        world_run(&w, 3000);
        BH_STREQ(world_node_of(&w, "p"), "elm");
        BH_EQ(claims_n(&w, &name), 0);
        check_free(&w, 2);
        close_world(&w, &t);
    }
}

/* Pods p<from>…p4, all at once, that use claim a. */
static void sharers(struct world *w, int from)
{
    for (int i = from; i < 5; i++)
        (void)bh_client_call(
            w->admin,
            &(struct bh_client_req){
                .verb = BH_VERB_CREATE,
                .kind = POD,
                .ns = BH_S("default"),
                .body = bh_str_fmt(
                    w->a,
                    "{\"metadata\":{\"name\":\"p%d\"},\"spec\":{\"containers\":[{\"name\":"
                    "\"c\",\"image\":\"i\"}],\"resourceClaims\":[{\"name\":\"d\","
                    "\"resourceClaimName\":\"a\"}]}}",
                    i)},
            NULL, NULL);
}

static void check_sharers(struct world *w, const char *message)
{
    BH_EQ(claim(w, "a")->status.reserved_for.n, 5);
    for (int i = 0; i < 5; i++) {
        const char *pod = bh_str_fmt(w->a, "p%d", i).p;

        BH_CHECK(world_node_of(w, pod).n > 0);
        BH_CHECK(reserved_for(claim(w, "a"), pod));
        if (message)
            BH_STREQ(world_message(w, pod), message);
    }
}

BH_TEST(many_reserve_one_claim_together)
{
    for (int way = 0; way < 2; way++) {
        struct tap t = {0};
        struct world w;

        open_world(&w, &t, way);
        world_claim(&w, "a");
        world_claim_pod(&w, "p0", "a");
        world_run(&w, 1000);
        sharers(&w, 1);
        world_run(&w, 100);
        check_sharers(&w, "");
        close_world(&w, &t);
    }
}

/* What the server refuses is told in upstream's words. */
BH_TEST(a_claim_that_has_all_the_consumers_it_may_have)
{
    for (int way = 0; way < 2; way++) {
        BH_AUTO_BUF b = {0};
        struct tap t = {0};
        struct world w;

        open_world(&w, &t, way);
        world_claim(&w, "a");
        world_claim_pod(&w, "p0", "a");
        world_run(&w, 1000);
        bh_buf_addz(&b, "{\"status\":{\"reservedFor\":[");
        for (int i = 0; i < 256; i++)
            bh_buf_addf(&b, "%s{\"resource\":\"pods\",\"name\":\"x\",\"uid\":\"u-%d\"}",
                        i ? "," : "", i);
        bh_buf_addz(&b, "]}}");
        BH_EQ(world_patch(&w, CLAIM, "default", "a", "status", bh_buf_cstr(&b)), 200);
        world_claim_pod(&w, "p1", "a");
        world_run(&w, 500);
        BH_STREQ(
            world_message(&w, "p1"),
            "running PreBind plugin \"DynamicResources\": add reservation to claim default/a: "
            "ResourceClaim.resource.k8s.io \"a\" is invalid: status.reservedFor: Too many: 257: "
            "must have at most 256 items");
        close_world(&w, &t);
    }
}

/* The first allocates, the others do not wait for it to be stored: in one go, five claim writes and
 * five bindings are one commit. */
BH_TEST(many_share_a_claim_that_is_being_allocated)
{
    for (int way = 0; way < 2; way++) {
        struct tap t = {0};
        struct world w;

        open_world(&w, &t, way);
        world_claim(&w, "a");
        sharers(&w, 0);
        world_run(&w, 1000);
        check_sharers(&w, "");
        if (way == 0) {
            BH_EQ(t.sequences, 5);
            BH_EQ(version(&w, POD, "p4") - version(&w, POD, "p0"), 8);
        }
        close_world(&w, &t);
    }
}

/* What the first one allocated does not come about: nobody is bound with it. */
BH_TEST(many_share_a_claim_that_another_allocates)
{
    for (int way = 0; way < 2; way++) {
        struct tap t = {0};
        struct world w;

        open_world(&w, &t, way);
        t.before = (struct bh_client_req){
            .verb = BH_VERB_PATCH,
            .kind = CLAIM,
            .ns = BH_S("default"),
            .name = BH_S("a"),
            .subresource = BH_S("status"),
            .patch = BH_PATCH_MERGE,
            .body = BH_S("{\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":"
                         "\"gpu\",\"driver\":\"gpu.bulkhead.dev\",\"pool\":\"oak\",\"device\":"
                         "\"gpu-1\"}]}}}}")};
        world_claim(&w, "a");
        sharers(&w, 0);
        world_run(&w, 20000);
        BH_STREQ(world_device(&w, "a"), "gpu-1");
        check_sharers(&w, NULL);
        check_free(&w, 1);
        close_world(&w, &t);
    }
}

/* A commit that fails takes the allocation and those that followed it along. */
BH_TEST(many_share_a_claim_whose_commit_fails)
{
    struct tap t = {0};
    struct world w;

    open_world(&w, &t, 0);
    world_claim(&w, "a");
    bh_store_memory_fail(w.store, 2);
    sharers(&w, 0);
    world_run(&w, 5000);
    check_sharers(&w, "");
    check_free(&w, 1);
    close_world(&w, &t);
}

/* A server that is away for an hour: what is repeated until then is repeated in the same memory,
 * and ever less often. */
BH_TEST(an_outage_costs_neither_memory_nor_calls)
{
    struct flaky f;
    struct world w;
    struct sbind *b;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_class(&w);
    world_gpus(&w, "oak", 1, "");
    world_start_flaky(&w, &f);
    world_claim(&w, "a");
    world_run(&w, 200);
    f.calls = FLAKY_REFUSE;
    world_claim_pod(&w, "p", "a");
    world_run(&w, 60000);
    BH_EQ(w.sched->binds_n, 1);
    b = bh_container(w.sched->binds.next, struct sbind, link);
    f.calls_n = 0;
    world_run(&w, 3600000);
    BH_CHECK(f.calls_n > 100 && f.calls_n < 1500);
    BH_CHECK(bh_arena_used(b->arena) + (b->again ? bh_arena_used(b->again) : 0) < 64u << 10);
    f.calls = FLAKY_PASS;
    world_run(&w, 10000);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    world_done(&w);
}

BH_TEST(what_is_given_back_waits_longer_and_longer_for_the_server)
{
    struct flaky f;
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_node(&w, "elm", "4", "");
    world_class(&w);
    world_gpus(&w, "oak", 1, "");
    world_start_flaky(&w, &f);
    world_claim(&w, "a");
    world_claim_pod(&w, "p", "a");
    world_run(&w, 1000);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    BH_EQ(world_delete(&w, POD, "default", "p"), 200);
    BH_EQ(world_patch(&w, CLAIM, "default", "a", "status", "{\"status\":{\"reservedFor\":null}}"),
          200);
    world_run(&w, 1000);
    f.calls = FLAKY_REFUSE;
    world_pod(&w, "q", "100m",
              "\"nodeSelector\":{\"kubernetes.io/hostname\":\"elm\"},\"resourceClaims\":[{\"name\":"
              "\"d\",\"resourceClaimName\":\"a\"}]");
    world_run(&w, 10000);
    f.calls_n = 0;
    world_run(&w, 600000);
    BH_CHECK(f.calls_n >= 100 && f.calls_n < 300);
    BH_STREQ(world_device(&w, "a"), "gpu-0");
    f.calls = FLAKY_PASS;
    world_run(&w, 10000);
    BH_STREQ(world_device(&w, "a"), "");
    world_done(&w);
}
