/* A reservation that is taken back while the network is bad: the next attempt does not use it. */
#include "client/client_int.h"
#include "scheduler/world_test.h"

enum bad {
    HELD,  /* the release is on its way for three seconds */
    LATE,  /* no answer to it, and after three seconds it arrives */
    LOST,  /* it is stored, the answer is lost */
    STALE, /* it is stored, but the watch of claims stands still for three seconds */
};

#define LONG_MS 3000

/* A client around the scheduler's: refuses the first binding, and is bad to the first release. */
struct net {
    struct bh_client base;
    struct bh_client *inner;
    enum bad bad;
    int bindings, releases;
    struct bh_client_req req; /* the release */
    bh_client_fn fn;
    void *arg;
    struct bh_timer answer, send, watch_end;
    struct bh_watch_handler claims; /* who watches them */
    uint64_t claims_id;
    struct bh_arena *a;
};

static void refuse(void *arg)
{
    struct net *n = arg;
    struct bh_client_res res = {.status = 403};

    (void)bh_err_set(&res.err, BH_E_FORBIDDEN, "not now");
    n->fn(n->arg, &res);
}

static void no_answer(void *arg)
{
    struct net *n = arg;
    struct bh_client_res res = {0};

    (void)bh_err_set(&res.err, BH_E_TIMEOUT, "no answer in time");
    if (n->fn)
        n->fn(n->arg, &res);
}

static void send(void *arg)
{
    struct net *n = arg;
    bool heard = n->bad == HELD || n->bad == STALE;

    (void)bh_client_call(n->inner, &n->req, heard ? n->fn : NULL, n->arg);
}

static void end_watch(void *arg)
{
    struct net *n = arg;
    struct bh_err err = {0};

    (void)bh_err_set(&err, BH_E_UNAVAILABLE, "watch lost");
    n->claims.ended(n->claims.arg, &err);
}

static void first_release(struct net *n, const struct bh_client_req *req)
{
    bool arrives_late = n->bad == HELD || n->bad == LATE;

    n->req = *req;
    n->req.ns = bh_str_dup(n->a, req->ns);
    n->req.name = bh_str_dup(n->a, req->name);
    n->req.subresource = bh_str_dup(n->a, req->subresource);
    n->req.body = bh_str_dup(n->a, req->body);
    bh_timer_start(&n->send, arrives_late ? LONG_MS : 0);
    if (n->bad == LATE || n->bad == LOST)
        bh_timer_start(&n->answer, 100);
    if (n->bad == STALE) {
        bh_client_cancel(n->inner, n->claims_id);
        bh_timer_start(&n->watch_end, LONG_MS);
    }
}

static void net_call(struct bh_client *c, uint64_t id, const struct bh_client_req *req,
                     bh_client_fn fn, void *arg)
{
    struct net *n = (struct net *)c;

    (void)id;
    if (bh_str_eqc(req->subresource, "binding") && n->bindings++ == 0) {
        n->fn = fn;
        n->arg = arg;
        bh_timer_init(&n->answer, n->inner->loop, refuse, n);
        bh_timer_start(&n->answer, 0);
        return;
    }
    if (bh_str_find(req->body, BH_S("\"$patch\":\"delete\"")) >= 0 && n->releases++ == 0) {
        n->fn = fn;
        n->arg = arg;
        bh_timer_init(&n->answer, n->inner->loop, no_answer, n);
        first_release(n, req);
        return;
    }
    (void)bh_client_call(n->inner, req, fn, arg);
}

static void net_watch(struct bh_client *c, uint64_t id, const struct bh_client_req *req,
                      uint64_t rv, const struct bh_watch_handler *h)
{
    struct net *n = (struct net *)c;
    uint64_t inner = bh_client_watch(n->inner, req, rv, h);

    (void)id;
    if (req->kind == &bh_resource_v1_resource_claim_kind) {
        n->claims = *h;
        n->claims_id = inner;
    }
}

/* The scheduler cancels at its end alone, and the client within ends with it. */
static void net_cancel(struct bh_client *c, uint64_t id)
{
    (void)c;
    (void)id;
}

static void net_free(struct bh_client *c)
{
    struct net *n = (struct net *)c;

    bh_timer_stop(&n->answer);
    bh_timer_stop(&n->send);
    bh_timer_stop(&n->watch_end);
    n->inner = bh_client_free(n->inner);
}

static const struct bh_client_vtable net_vt = {net_call, net_watch, net_cancel, net_free};

static bool reserved(struct world *w)
{
    const struct bh_resource_v1_resource_claim *c =
        world_get(w, &bh_resource_v1_resource_claim_kind, "default", "a");

    return c && c->status.allocation && c->status.reserved_for.n == 1 &&
           bh_str_eqc(c->status.reserved_for.p[0].name, "p");
}

static void second_attempt(enum bad bad)
{
    struct world w;
    struct net n = {.bad = bad};
    struct bh_err err = {0};
    bool bound = false;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_class(&w);
    world_gpus(&w, "oak", 1, "");
    world_claim(&w, "a");
    n.a = w.a;
    n.inner = bh_client_new_inproc(w.loop, w.api, BH_S("system:kube-scheduler"),
                                   (struct bh_str[]){BH_S("system:authenticated")}, 1, "test");
    n.base = (struct bh_client){.vt = &net_vt, .loop = w.loop};
    bh_timer_init(&n.answer, w.loop, refuse, &n);
    bh_timer_init(&n.send, w.loop, send, &n);
    bh_timer_init(&n.watch_end, w.loop, end_watch, &n);
    w.sched = bh_scheduler_new(&n.base, &w.opts, &err);
    BH_CHECK(w.sched != NULL);
    world_run(&w, 500);
    world_claim_pod(&w, "p", "a");
    for (int i = 0; i < 300; i++) {
        world_run(&w, 50);
        bound = bound || world_node_of(&w, "p").n > 0;
        BH_CHECK(!bound || reserved(&w)); /* from the binding on, for good */
    }
    BH_CHECK(bound);
    BH_CHECK(n.bindings == 2);
    BH_CHECK(n.releases >= 1);
    w.sched = bh_scheduler_free(w.sched);
    net_free(&n.base);
    world_done(&w);
}

BH_TEST(a_release_on_its_way_keeps_its_pod_waiting)
{
    second_attempt(HELD);
}

BH_TEST(a_release_that_is_late_changes_nothing)
{
    second_attempt(LATE);
}

BH_TEST(a_release_whose_answer_is_lost_is_found_out)
{
    second_attempt(LOST);
}

BH_TEST(a_release_that_is_not_seen_yet_keeps_its_pod_waiting)
{
    second_attempt(STALE);
}
