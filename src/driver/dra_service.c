/* DRA driver service. A prepare reads its claims from the API, all at once; then it waits its turn
 * for the claim store. */
#include "driver/dra_service.h"

#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "client/client.h"
#include "driver/claim_store.h"
#include "net/dra.pb-c.h"
#include "net/drahealth.pb-c.h"
#include "net/grpc.h"
#include "net/loop.h"
#include "net/pb.h"
#include "net/pluginregistration.pb-c.h"

#define CALL_CLAIMS_MAX   256 /* claims in one call: a pod has at most 32 */
#define DECODE_BYTES_MAX  (16u << 20)
#define WATCHERS_MAX      16
#define HEALTH_PERIOD_MS  10000
#define HEALTH_TIMEOUT_S  30
#define HEALTH_UNSENT_MAX (1u << 20) /* a watcher that lags this far behind is cut */
#define API_TIMEOUT_MS    20000      /* within the 45 s that the kubelet waits */

struct claim_work {
    struct job *job;
    struct bh_claim_ref ref;
    struct bh_obj *obj; /* prepare: the claim as the API has it */
    uint64_t get;
    struct bh_str pod_claim;
    struct bh_claim_result *results;
    size_t results_n;
    struct bh_claim_prepared *out;
    struct bh_err err;
};

/* Waiting for the claim store. */
struct turn {
    struct bh_link link;
    struct bh_dra_service *svc;
    void (*work)(void *arg);
    void (*done)(void *arg);
    void *arg;
};

struct job {
    struct bh_link link; /* while the API has not answered */
    struct turn turn;    /* after that */
    struct bh_dra_service *svc;
    struct bh_grpc_call *call;
    struct bh_arena *arena;
    bool prepare, v1;
    struct claim_work *claims;
    size_t claims_n;
    size_t gets; /* answers of the API still to come */
};

struct watcher {
    struct bh_link link;
    struct bh_dra_service *svc;
    struct bh_grpc_call *call;
};

struct bh_dra_service {
    struct bh_loop *loop;
    struct bh_client *client;
    struct bh_claim_store *store;
    char *driver, *pool, *socket;
    struct bh_grpc_server *srv, *reg;
    struct bh_link waiting; /* jobs */
    struct bh_link queue;   /* turns */
    struct turn *running;   /* on the worker pool */
    struct bh_link watchers;
    size_t watchers_n;
    struct bh_arena *health_arena;
    struct bh_device_health *health;
    size_t health_n;
    struct bh_timer timer;
    size_t jobs;
    bool registered; /* the kubelet said so, last */
    bool closed;
};

/* ---- registration ---- */

static void h_get_info(void *arg, struct bh_grpc_call *call)
{
    struct bh_dra_service *s = arg;
    struct bh_arena *a = bh_grpc_call_arena(call);
    const struct bh_str versions[] = {BH_S("v1.DRAPlugin"), BH_S("v1beta1.DRAPlugin"),
                                      BH_S("v1alpha1.DRAResourceHealth")};
    Bh__Reg__PluginInfo info = BH__REG__PLUGIN_INFO__INIT;

    info.type = bh_pb_str(a, BH_S("DRAPlugin"));
    info.name = s->driver;
    info.endpoint = s->socket;
    info.supported_versions = bh_pb_strs(a, versions, BH_COUNT(versions));
    info.n_supported_versions = BH_COUNT(versions);
    bh_grpc_call_reply(call, bh_pb_pack(a, &info));
}

static void h_notify(void *arg, struct bh_grpc_call *call)
{
    struct bh_dra_service *s = arg;
    struct bh_arena *a = bh_grpc_call_arena(call);
    Bh__Reg__RegistrationStatusResponse empty = BH__REG__REGISTRATION_STATUS_RESPONSE__INIT;
    const Bh__Reg__RegistrationStatus *st =
        bh_pb_unpack(a, &bh__reg__registration_status__descriptor, bh_grpc_call_request(call));

    s->registered = st && st->plugin_registered;
    if (s->registered)
        bh_log(BH_INFO, "registered with the kubelet");
    else
        bh_log(BH_WARN, "the kubelet refused the registration, it will try again",
               BH_CSTR("why", st && st->error ? st->error : "malformed message"));
    bh_grpc_call_reply(call, bh_pb_pack(a, &empty));
}

/* ---- jobs ---- */

static void job_free(struct job *j)
{
    for (size_t i = 0; i < j->claims_n; i++)
        (void)bh_obj_unref(j->claims[i].obj);
    j->svc->jobs--;
    (void)bh_arena_free(j->arena);
}

static void svc_free_if_over(struct bh_dra_service *s)
{
    if (!s->closed || s->jobs > 0)
        return;
    bh_free(s->driver);
    bh_free(s->pool);
    bh_free(s->socket);
    (void)bh_arena_free(s->health_arena);
    bh_free(s);
}

static void job_work(void *arg) /* worker pool */
{
    struct job *j = arg;

    for (size_t i = 0; i < j->claims_n; i++) {
        struct claim_work *w = &j->claims[i];
        int r;

        if (w->err.code != BH_OK)
            continue;
        r = j->prepare ? bh_claim_prepare(j->svc->store, &w->ref, w->pod_claim, w->results,
                                          w->results_n, j->arena, &w->out, &w->err)
                       : bh_claim_unprepare(j->svc->store, &w->ref, &w->err);
        bh_assert((r < 0) == (w->err.code != BH_OK));
    }
}

static struct bh_str reply_prepare(struct bh_arena *a, const struct job *j)
{
    Bh__Dra__NodePrepareResourcesResponse res = BH__DRA__NODE_PREPARE_RESOURCES_RESPONSE__INIT;

    res.claims = bh_new_n(a, Bh__Dra__PrepareEntry *, j->claims_n + 1);
    for (size_t i = 0; i < j->claims_n; i++) {
        const struct claim_work *w = &j->claims[i];
        Bh__Dra__PrepareEntry *e = bh_new(a, Bh__Dra__PrepareEntry);

        bh__dra__prepare_entry__init(e);
        e->key = bh_pb_str(a, w->ref.uid);
        e->value = bh_new(a, Bh__Dra__NodePrepareResourceResponse);
        bh__dra__node_prepare_resource_response__init(e->value);
        res.claims[res.n_claims++] = e;
        if (w->err.code != BH_OK) {
            e->value->error = bh_pb_str(a, bh_s(w->err.msg));
            continue;
        }
        e->value->devices = bh_new_n(a, Bh__Dra__Device *, w->results_n + 1);
        for (size_t k = 0; k < w->results_n; k++) {
            const struct bh_claim_prepared *p = &w->out[k];
            Bh__Dra__Device *d = bh_new(a, Bh__Dra__Device);

            bh__dra__device__init(d);
            d->request_names = bh_pb_strs(a, &p->request, 1);
            d->n_request_names = 1;
            d->pool_name = bh_pb_str(a, p->pool);
            d->device_name = bh_pb_str(a, p->device);
            d->cdi_device_ids = bh_pb_strs(a, p->cdi_ids.p, p->cdi_ids.n);
            d->n_cdi_device_ids = p->cdi_ids.n;
            if (j->v1 && p->share_id.n > 0)
                d->share_id = bh_pb_str(a, p->share_id);
            e->value->devices[e->value->n_devices++] = d;
        }
    }
    return bh_pb_pack(a, &res);
}

static struct bh_str reply_unprepare(struct bh_arena *a, const struct job *j)
{
    Bh__Dra__NodeUnprepareResourcesResponse res = BH__DRA__NODE_UNPREPARE_RESOURCES_RESPONSE__INIT;

    res.claims = bh_new_n(a, Bh__Dra__UnprepareEntry *, j->claims_n + 1);
    for (size_t i = 0; i < j->claims_n; i++) {
        Bh__Dra__UnprepareEntry *e = bh_new(a, Bh__Dra__UnprepareEntry);

        bh__dra__unprepare_entry__init(e);
        e->key = bh_pb_str(a, j->claims[i].ref.uid);
        e->value = bh_new(a, Bh__Dra__NodeUnprepareResourceResponse);
        bh__dra__node_unprepare_resource_response__init(e->value);
        if (j->claims[i].err.code != BH_OK)
            e->value->error = bh_pb_str(a, bh_s(j->claims[i].err.msg));
        res.claims[res.n_claims++] = e;
    }
    return bh_pb_pack(a, &res);
}

static void next_turn(struct bh_dra_service *s);

static void job_done(void *arg)
{
    struct job *j = arg;

    for (size_t i = 0; i < j->claims_n; i++) {
        const struct claim_work *w = &j->claims[i];

        if (w->err.code != BH_OK)
            bh_log(BH_WARN, j->prepare ? "prepare failed" : "unprepare failed",
                   BH_STR("claim", w->ref.name), BH_STR("namespace", w->ref.ns),
                   BH_STR("uid", w->ref.uid), BH_CSTR("why", w->err.msg));
        else
            bh_log(BH_INFO, j->prepare ? "claim prepared" : "claim released",
                   BH_STR("claim", w->ref.name), BH_STR("namespace", w->ref.ns),
                   BH_STR("uid", w->ref.uid), BH_I64("devices", w->results_n));
    }
    bh_grpc_call_reply(j->call,
                       j->prepare ? reply_prepare(j->arena, j) : reply_unprepare(j->arena, j));
    job_free(j);
}

static void turn_work(void *arg) /* worker pool */
{
    struct turn *t = arg;

    t->work(t->arg);
}

static void turn_done(void *arg)
{
    struct turn *t = arg;
    struct bh_dra_service *s = t->svc;

    s->running = NULL;
    s->jobs++; /* keeps the service while done runs */
    t->done(t->arg);
    s->jobs--;
    if (s->closed)
        svc_free_if_over(s);
    else
        next_turn(s);
}

static void next_turn(struct bh_dra_service *s)
{
    if (s->running || bh_list_empty(&s->queue))
        return;
    s->running = bh_container(s->queue.next, struct turn, link);
    bh_list_del(&s->running->link);
    bh_loop_work(s->loop, turn_work, turn_done, s->running);
}

static void turn_queue(struct bh_dra_service *s, struct turn *t)
{
    t->svc = s;
    bh_list_add_tail(&s->queue, &t->link);
    next_turn(s);
}

static void job_queue(struct job *j)
{
    bh_list_del(&j->link);
    j->turn.work = job_work;
    j->turn.done = job_done;
    j->turn.arg = j;
    turn_queue(j->svc, &j->turn);
}

struct own_turn { /* of another part of the driver */
    struct turn turn;
    void (*work)(void *arg);
    void (*done)(void *arg);
    void *arg;
};

static void own_turn_done(void *arg)
{
    struct own_turn *t = arg;

    t->turn.svc->jobs--;
    t->done(t->arg);
    bh_free(t);
}

static void own_turn_work(void *arg)
{
    struct own_turn *t = arg;

    t->work(t->arg);
}

void bh_dra_service_turn(struct bh_dra_service *s, void (*work)(void *arg), void (*done)(void *arg),
                         void *arg)
{
    struct own_turn *t = bh_calloc(1, sizeof(*t));

    t->work = work;
    t->done = done;
    t->arg = arg;
    t->turn.work = own_turn_work;
    t->turn.done = own_turn_done;
    t->turn.arg = t;
    s->jobs++;
    turn_queue(s, &t->turn);
}

/* A claim that cannot be read fails the whole call, as upstream's helper does. */
static void job_fail(struct job *j, const struct bh_err *err)
{
    struct bh_dra_service *s = j->svc;

    bh_list_del(&j->link);
    for (size_t i = 0; i < j->claims_n; i++)
        if (j->claims[i].get != 0)
            bh_client_cancel(s->client, j->claims[i].get);
    bh_log(BH_WARN, "prepare failed", BH_CSTR("why", err->msg));
    bh_grpc_call_finish(j->call, bh_grpc_status_of(err->code), "%s", err->msg);
    job_free(j);
}

/* ---- claims ---- */

/* What of the allocation is ours. */
static int claim_take(struct claim_work *w, struct bh_err *err)
{
    struct bh_dra_service *s = w->job->svc;
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(w->obj);
    const struct bh_resource_v1_device_allocation_result *al;
    const struct bh_str *pod_claim =
        bh_str_map_get(&c->metadata.annotations, BH_S("resource.kubernetes.io/pod-claim-name"));

    if (!bh_str_eq(c->metadata.uid, w->ref.uid))
        return bh_err_set(err, BH_E_CONFLICT, "claim %.*s/%.*s got replaced", BH_SF(w->ref.ns),
                          BH_SF(w->ref.name));
    if (!c->status.allocation)
        return bh_err_set(err, BH_E_CONFLICT, "claim %.*s/%.*s is not allocated", BH_SF(w->ref.ns),
                          BH_SF(w->ref.name));
    if (pod_claim)
        w->pod_claim = *pod_claim;
    al = &c->status.allocation->devices;
    w->results = bh_new_n(w->job->arena, struct bh_claim_result, al->results.n + 1);
    for (size_t i = 0; i < al->results.n; i++) {
        const struct bh_resource_v1_device_request_allocation_result *r = &al->results.p[i];

        if (!bh_str_eqc(r->driver, s->driver))
            continue;
        if (!bh_str_eqc(r->pool, s->pool))
            w->err = (struct bh_err){.code = BH_E_INVALID,
                                     .msg = "a device of the claim is on another node"};
        w->results[w->results_n++] = (struct bh_claim_result){
            r->request, r->pool, r->device, r->share_id, r->has_admin_access && r->admin_access};
    }
    for (size_t i = 0; i < al->config.n; i++) {
        const struct bh_resource_v1_opaque_device_configuration *o =
            al->config.p[i].device_configuration.opaque;

        if (o && bh_str_eqc(o->driver, s->driver))
            w->err = (struct bh_err){.code = BH_E_INVALID,
                                     .msg = "simulated GPUs take no configuration"};
    }
    return 0;
}

static void got_claim(void *arg, const struct bh_client_res *res)
{
    struct claim_work *w = arg;
    struct job *j = w->job;
    struct bh_err err = res->err;

    w->get = 0;
    j->gets--;
    if (res->err.code == BH_OK && res->obj) {
        w->obj = bh_obj_ref(res->obj);
        if (claim_take(w, &err) == 0) {
            if (j->gets == 0)
                job_queue(j);
            return;
        }
    } else if (res->err.code == BH_OK) {
        err = (struct bh_err){.code = BH_E_INTERNAL,
                              .msg = "the API server answered without a claim"};
    } else {
        (void)bh_err_wrap(&err, "retrieve claim %.*s/%.*s", BH_SF(w->ref.ns), BH_SF(w->ref.name));
    }
    job_fail(j, &err);
}

static void claims_get(struct job *j)
{
    j->gets = j->claims_n;
    bh_list_add_tail(&j->svc->waiting, &j->link);
    for (size_t i = 0; i < j->claims_n; i++) {
        struct claim_work *w = &j->claims[i];
        const struct bh_client_req r = {.verb = BH_VERB_GET,
                                        .kind = &bh_resource_v1_resource_claim_kind,
                                        .ns = w->ref.ns,
                                        .name = w->ref.name,
                                        .timeout_ms = API_TIMEOUT_MS};

        w->get = bh_client_call(j->svc->client, &r, got_claim, w);
    }
}

static struct job *job_new(struct bh_dra_service *s, struct bh_grpc_call *call, bool prepare,
                           Bh__Dra__Claim **claims, size_t n)
{
    struct bh_arena *a = bh_arena_new(0);
    struct job *j = bh_new(a, struct job);

    j->arena = a;
    j->svc = s;
    j->call = call;
    j->prepare = prepare;
    j->claims = bh_new_n(a, struct claim_work, n + 1);
    j->claims_n = n;
    for (size_t i = 0; i < n; i++) {
        j->claims[i].job = j;
        j->claims[i].ref.uid = bh_str_dup(a, bh_s(claims[i]->uid));
        j->claims[i].ref.ns = bh_str_dup(a, bh_s(claims[i]->namespace_));
        j->claims[i].ref.name = bh_str_dup(a, bh_s(claims[i]->name));
    }
    s->jobs++;
    return j;
}

static void h_prepare(struct bh_dra_service *s, struct bh_grpc_call *call, bool v1)
{
    BH_AUTO_ARENA a = bh_arena_new(DECODE_BYTES_MAX);
    const Bh__Dra__NodePrepareResourcesRequest *req = bh_pb_unpack(
        a, &bh__dra__node_prepare_resources_request__descriptor, bh_grpc_call_request(call));
    struct job *j;

    if (!req || req->n_claims > CALL_CLAIMS_MAX) {
        bh_grpc_call_finish(call, BH_GRPC_INVALID_ARGUMENT, "malformed request");
        return;
    }
    j = job_new(s, call, true, req->claims, req->n_claims);
    j->v1 = v1;
    if (j->claims_n == 0)
        job_queue(j);
    else
        claims_get(j);
}

static void h_prepare_v1(void *arg, struct bh_grpc_call *call)
{
    h_prepare(arg, call, true);
}
static void h_prepare_v1beta1(void *arg, struct bh_grpc_call *call)
{
    h_prepare(arg, call, false);
}

static void h_unprepare(void *arg, struct bh_grpc_call *call)
{
    BH_AUTO_ARENA a = bh_arena_new(DECODE_BYTES_MAX);
    const Bh__Dra__NodeUnprepareResourcesRequest *req = bh_pb_unpack(
        a, &bh__dra__node_unprepare_resources_request__descriptor, bh_grpc_call_request(call));

    if (!req || req->n_claims > CALL_CLAIMS_MAX) {
        bh_grpc_call_finish(call, BH_GRPC_INVALID_ARGUMENT, "malformed request");
        return;
    }
    job_queue(job_new(arg, call, false, req->claims, req->n_claims));
}

/* ---- health ---- */

static struct bh_str health_message(const struct bh_dra_service *s, struct bh_arena *a)
{
    Bh__Drahealth__NodeWatchResourcesResponse res =
        BH__DRAHEALTH__NODE_WATCH_RESOURCES_RESPONSE__INIT;
    int64_t now_s = bh_loop_wall_ns(s->loop) / 1000000000;

    res.devices = bh_new_n(a, Bh__Drahealth__DeviceHealth *, s->health_n + 1);
    for (size_t i = 0; i < s->health_n; i++) {
        Bh__Drahealth__DeviceHealth *h = bh_new(a, Bh__Drahealth__DeviceHealth);

        bh__drahealth__device_health__init(h);
        h->device = bh_new(a, Bh__Drahealth__DeviceIdentifier);
        bh__drahealth__device_identifier__init(h->device);
        h->device->pool_name = s->pool;
        h->device->device_name = bh_pb_str(a, s->health[i].device);
        h->has_health = true;
        h->health = s->health[i].healthy ? BH__DRAHEALTH__HEALTH_STATUS__HEALTHY
                                         : BH__DRAHEALTH__HEALTH_STATUS__UNHEALTHY;
        h->has_last_updated_time = true;
        h->last_updated_time = now_s;
        h->has_health_check_timeout_seconds = true;
        h->health_check_timeout_seconds = HEALTH_TIMEOUT_S;
        if (s->health[i].message.n > 0)
            h->message = bh_pb_str(a, s->health[i].message);
        res.devices[res.n_devices++] = h;
    }
    return bh_pb_pack(a, &res);
}

static void watcher_end(struct watcher *w, enum bh_grpc_status st, const char *why)
{
    struct bh_grpc_call *call = w->call;

    bh_list_del(&w->link);
    w->svc->watchers_n--;
    bh_free(w);
    bh_grpc_call_finish(call, st, "%s", why);
}

static void watcher_gone(void *arg)
{
    watcher_end(arg, BH_GRPC_CANCELLED, "the watcher has left");
}

static void health_send(struct bh_dra_service *s)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str msg = health_message(s, a);

    bh_list_for_safe(it, &s->watchers)
    {
        struct watcher *w = bh_container(it, struct watcher, link);

        if (bh_grpc_call_unsent(w->call) > HEALTH_UNSENT_MAX || bh_grpc_call_send(w->call, msg) < 0)
            watcher_end(w, BH_GRPC_RESOURCE_EXHAUSTED, "the watcher reads too slowly");
    }
}

static void health_tick(void *arg)
{
    struct bh_dra_service *s = arg;

    health_send(s);
    if (s->watchers_n > 0)
        bh_timer_start(&s->timer, HEALTH_PERIOD_MS);
}

static void h_watch(void *arg, struct bh_grpc_call *call)
{
    struct bh_dra_service *s = arg;
    struct watcher *w;

    if (s->watchers_n >= WATCHERS_MAX) {
        bh_grpc_call_finish(call, BH_GRPC_RESOURCE_EXHAUSTED, "too many watchers");
        return;
    }
    w = bh_calloc(1, sizeof(*w));
    w->svc = s;
    w->call = call;
    bh_list_add_tail(&s->watchers, &w->link);
    s->watchers_n++;
    bh_grpc_call_on_cancel(call, watcher_gone, w);
    if (bh_grpc_call_send(call, health_message(s, bh_grpc_call_arena(call))) < 0) {
        watcher_end(w, BH_GRPC_UNAVAILABLE, "cannot send");
        return;
    }
    if (!bh_timer_armed(&s->timer))
        bh_timer_start(&s->timer, HEALTH_PERIOD_MS);
}

void bh_dra_service_health(struct bh_dra_service *s, const struct bh_device_health *h, size_t n)
{
    bh_arena_reset(s->health_arena);
    s->health = bh_new_n(s->health_arena, struct bh_device_health, n + 1);
    for (size_t i = 0; i < n; i++)
        s->health[i] =
            (struct bh_device_health){bh_str_dup(s->health_arena, h[i].device), h[i].healthy,
                                      bh_str_dup(s->health_arena, h[i].message)};
    s->health_n = n;
    health_send(s);
}

/* ---- life ---- */

#define DRA "/k8s.io.kubelet.pkg.apis.dra."

static int listen_all(struct bh_dra_service *s, const char *registration, struct bh_err *err)
{
    int r;

    bh_grpc_server_method(s->srv, DRA "v1.DRAPlugin/NodePrepareResources", h_prepare_v1, s);
    bh_grpc_server_method(s->srv, DRA "v1.DRAPlugin/NodeUnprepareResources", h_unprepare, s);
    bh_grpc_server_method(s->srv, DRA "v1beta1.DRAPlugin/NodePrepareResources", h_prepare_v1beta1,
                          s);
    bh_grpc_server_method(s->srv, DRA "v1beta1.DRAPlugin/NodeUnprepareResources", h_unprepare, s);
    bh_grpc_server_method(s->srv, "/v1alpha1.DRAResourceHealth/NodeWatchResources", h_watch, s);
    bh_grpc_server_method(s->reg, "/pluginregistration.Registration/GetInfo", h_get_info, s);
    bh_grpc_server_method(s->reg, "/pluginregistration.Registration/NotifyRegistrationStatus",
                          h_notify, s);
    r = bh_grpc_server_listen_unix(s->srv, s->socket, 0600, err);
    /* Whoever sees the registration socket may call the service at once. */
    return r < 0 ? r : bh_grpc_server_listen_unix(s->reg, registration, 0600, err);
}

struct bh_dra_service *bh_dra_service_new(struct bh_loop *l, const struct bh_dra_service_opts *o,
                                          struct bh_err *err)
{
    struct bh_dra_service *s = bh_calloc(1, sizeof(*s));

    s->loop = l;
    s->client = o->client;
    s->store = o->store;
    s->driver = bh_strdup_c(bh_s(o->driver));
    s->pool = bh_strdup_c(bh_s(o->pool));
    s->socket = bh_strdup_c(bh_s(o->socket));
    s->health_arena = bh_arena_new(0);
    bh_list_init(&s->waiting);
    bh_list_init(&s->queue);
    bh_list_init(&s->watchers);
    bh_timer_init(&s->timer, l, health_tick, s);
    s->srv = bh_grpc_server_new(l);
    s->reg = bh_grpc_server_new(l);
    return listen_all(s, o->registration, err) < 0 ? bh_dra_service_free(s) : s;
}

bool bh_dra_service_registered(const struct bh_dra_service *s)
{
    return s->registered;
}

bool bh_dra_service_idle(const struct bh_dra_service *s)
{
    return !s->running;
}

struct bh_dra_service *bh_dra_service_free(struct bh_dra_service *s)
{
    const struct bh_err bye = {.code = BH_E_UNAVAILABLE, .msg = "the driver is stopping"};

    if (!s)
        return NULL;
    s->closed = true;
    bh_timer_stop(&s->timer);
    while (!bh_list_empty(&s->watchers))
        watcher_end(bh_container(s->watchers.next, struct watcher, link), BH_GRPC_UNAVAILABLE,
                    bye.msg);
    while (!bh_list_empty(&s->waiting))
        job_fail(bh_container(s->waiting.next, struct job, link), &bye);
    while (!bh_list_empty(&s->queue)) {
        struct turn *t = bh_container(s->queue.next, struct turn, link);

        bh_list_del(&t->link);
        if (t->work == job_work) {
            job_fail(t->arg, &bye);
        } else {
            t->done(t->arg);
        }
    }
    s->srv = bh_grpc_server_free(s->srv);
    s->reg = bh_grpc_server_free(s->reg);
    svc_free_if_over(s); /* later, when a turn is on the worker pool */
    return NULL;
}
