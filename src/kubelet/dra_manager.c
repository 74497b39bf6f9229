/* Prepare and unprepare of a pod's claims, as operations that wait for the API, the disk and the
 * drivers in turn.
 *
 *     prepare:   read claims -> check -> note the pod, write checkpoint -> each driver in turn ->
 * note devices, checkpoint unprepare: shared claims lose the pod; the others go through each driver
 * -> forget them, checkpoint
 *
 * An operation is freed when it has ended; its owner may have cancelled it, then it only goes on
 * for the state's sake. */
#include "kubelet/dra_manager.h"

#include "api/gen/core_v1.h"
#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "client/client.h"
#include "kubelet/dra_int.h"
#include "kubelet/plugin_watcher.h"
#include "net/dra.pb-c.h"
#include "net/grpc.h"
#include "net/pb.h"

#define CLEAN_UP_MS      60000
#define DECODE_BYTES_MAX (32u << 20)
#define API_TIMEOUT_MS   30000
#define POD_DRIVERS_MAX  64

struct op_claim {
    struct dra_op *op;
    struct dra_pod_claim want;
    uint64_t get;
    struct bh_obj *obj;
    struct dra_claim *claim; /* from the moment it is in the cache */
    bool batch;              /* the drivers have to be asked */
};

struct dra_op {
    struct bh_link link;
    struct bh_dra_manager *m;
    uint64_t id;
    bool prepare, cancelled;
    bool stalled, retry; /* waits for another operation to end; is about to try again */
    struct bh_arena *arena;
    struct bh_obj *pod; /* prepare */
    struct bh_str pod_uid;
    bh_dra_fn fn;
    void *arg;
    struct op_claim *claims;
    size_t claims_n;
    size_t gets;
    struct bh_str *drivers; /* that have a part in the batch */
    size_t drivers_n, driver_at;
    struct bh_err err;
    struct bh_timer soon; /* callbacks never run inside the call */
};

static void prepare_note(struct dra_op *op);
static void next_driver(struct dra_op *op);
static void unprepare_start(struct dra_op *op);

/* ---- operations ---- */

static void op_free(struct dra_op *op)
{
    bh_list_del(&op->link);
    bh_timer_stop(&op->soon);
    for (size_t i = 0; i < op->claims_n; i++) {
        if (op->claims[i].get != 0)
            bh_client_cancel(op->m->o.client, op->claims[i].get);
        (void)bh_obj_unref(op->claims[i].obj);
    }
    (void)bh_obj_unref(op->pod);
    (void)bh_arena_free(op->arena);
}

static void op_event(const struct dra_op *op)
{
    if (op->prepare && op->m->o.recorder && op->pod)
        bh_event(op->m->o.recorder, op->pod, "Warning", "FailedPrepareDynamicResources",
                 "Failed to prepare dynamic resources: %s", op->err.msg);
}

static void op_end(struct dra_op *op)
{
    struct bh_dra_manager *m = op->m;
    bh_dra_fn fn = op->cancelled ? NULL : op->fn;
    void *arg = op->arg;
    struct bh_err err = op->err;

    for (size_t i = 0; !op->prepare && i < op->claims_n; i++)
        if (op->claims[i].claim)
            op->claims[i].claim->releasing = false;
    if (err.code != BH_OK) {
        (void)bh_err_wrap(&err, op->prepare ? "prepare dynamic resources"
                                            : "unprepare dynamic resources");
        op->err = err;
        bh_log(BH_WARN, op->prepare ? "prepare of claims failed" : "release of claims failed",
               BH_STR("pod_uid", op->pod_uid), BH_CSTR("why", err.msg));
        op_event(op);
    }
    op_free(op);
    bh_timer_start_ns(&m->resume, 0);
    if (fn)
        fn(arg, err.code != BH_OK ? &err : NULL);
}

static void op_end_soon_fn(void *arg)
{
    op_end(arg);
}

static void op_end_soon(struct dra_op *op)
{
    bh_timer_init(&op->soon, op->m->loop, op_end_soon_fn, op);
    bh_timer_start_ns(&op->soon, 0);
}

static struct dra_op *op_new(struct bh_dra_manager *m, bool prepare, struct bh_str pod_uid,
                             bh_dra_fn fn, void *arg)
{
    struct bh_arena *a = bh_arena_new(0);
    struct dra_op *op = bh_new(a, struct dra_op);

    op->arena = a;
    op->m = m;
    op->id = ++m->next_id;
    op->prepare = prepare;
    op->pod_uid = bh_str_dup(a, pod_uid);
    op->fn = fn;
    op->arg = arg;
    bh_timer_init(&op->soon, m->loop, op_end_soon_fn, op);
    bh_list_add_tail(&m->ops, &op->link);
    return op;
}

/* Another operation on the same pod, other than this one. */
static struct dra_op *op_of_pod(const struct bh_dra_manager *m, struct bh_str pod_uid,
                                const struct dra_op *but)
{
    bh_list_for(it, &m->ops)
    {
        struct dra_op *op = bh_container(it, struct dra_op, link);

        if (op != but && bh_str_eq(op->pod_uid, pod_uid))
            return op;
    }
    return NULL;
}

/* Lets every operation that waited for another one look again. */
static void resume(void *arg)
{
    struct bh_dra_manager *m = arg;
    struct dra_op *op = NULL;

    m->refs++; /* what is resumed may end, and its owner may free the manager */
    bh_list_for(it, &m->ops)
    {
        op = bh_container(it, struct dra_op, link);
        op->retry = op->stalled;
        op->stalled = false;
    }
    do {
        op = NULL;
        bh_list_for(it, &m->ops)
        {
            op = bh_container(it, struct dra_op, link);
            if (op->retry)
                break;
            op = NULL;
        }
        if (!op)
            break;
        op->retry = false;
        if (op->prepare)
            prepare_note(op); /* may end and free it */
        else
            unprepare_start(op);
    } while (op);
    dra_manager_unref(m);
}

/* ---- prepare: claims from the API ---- */

static bool reserved_for(const struct bh_resource_v1_resource_claim *c, struct bh_str pod_uid)
{
    for (size_t i = 0; i < c->status.reserved_for.n; i++)
        if (bh_str_eq(c->status.reserved_for.p[i].uid, pod_uid))
            return true;
    return false;
}

static bool owned_by(const struct bh_resource_v1_resource_claim *c, struct bh_str pod_uid)
{
    for (size_t i = 0; i < c->metadata.owner_references.n; i++) {
        const struct bh_meta_v1_owner_reference *o = &c->metadata.owner_references.p[i];

        if (o->has_controller && o->controller && bh_str_eq(o->uid, pod_uid))
            return true;
    }
    return false;
}

static int claim_check(const struct dra_op *op, const struct op_claim *oc, struct bh_err *err)
{
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(oc->obj);
    const struct bh_resource_v1_device_allocation_result *al;

    if (oc->want.generated && !owned_by(c, op->pod_uid))
        return bh_err_set(
            err, BH_E_CONFLICT,
            "ResourceClaim %.*s/%.*s was not created for Pod %.*s/%.*s (Pod is not owner)",
            BH_SF(oc->obj->ns), BH_SF(oc->obj->name), BH_SF(op->pod->ns), BH_SF(op->pod->name));
    if (!reserved_for(c, op->pod_uid))
        return bh_err_set(
            err, BH_E_FORBIDDEN, "pod %.*s (%.*s) is not allowed to use ResourceClaim %.*s (%.*s)",
            BH_SF(op->pod->name), BH_SF(op->pod_uid), BH_SF(oc->obj->name), BH_SF(oc->obj->uid));
    if (!c->status.allocation)
        return bh_err_set(err, BH_E_UNAVAILABLE, "ResourceClaim %.*s: not allocated",
                          BH_SF(oc->obj->name));
    al = &c->status.allocation->devices;
    for (size_t i = 0; i < al->results.n; i++)
        if (!dra_driver_known(op->m, al->results.p[i].driver))
            return bh_err_set(err, BH_E_UNAVAILABLE, "DRA driver %.*s is not registered",
                              BH_SF(al->results.p[i].driver));
    return 0;
}

static void claims_read(struct dra_op *op)
{
    for (size_t i = 0; i < op->claims_n; i++)
        if (claim_check(op, &op->claims[i], &op->err) < 0) {
            op_end(op);
            return;
        }
    prepare_note(op);
}

static void got_claim(void *arg, const struct bh_client_res *res)
{
    struct op_claim *oc = arg;
    struct dra_op *op = oc->op;

    oc->get = 0;
    op->gets--;
    if (res->err.code != BH_OK && op->err.code == BH_OK) {
        op->err = res->err;
        (void)bh_err_wrap(&op->err, "fetch ResourceClaim %.*s", BH_SF(oc->want.name));
    } else if (res->obj) {
        oc->obj = bh_obj_ref(res->obj);
    } else if (op->err.code == BH_OK) {
        (void)bh_err_set(&op->err, BH_E_INTERNAL, "fetch ResourceClaim %.*s: no object came",
                         BH_SF(oc->want.name));
    }
    if (op->gets > 0)
        return;
    if (op->err.code != BH_OK)
        op_end(op);
    else
        claims_read(op);
}

static void claims_get(struct dra_op *op)
{
    op->gets = op->claims_n;
    for (size_t i = 0; i < op->claims_n; i++) {
        struct op_claim *oc = &op->claims[i];
        const struct bh_client_req r = {.verb = BH_VERB_GET,
                                        .kind = &bh_resource_v1_resource_claim_kind,
                                        .ns = op->pod->ns,
                                        .name = oc->want.name,
                                        .timeout_ms = API_TIMEOUT_MS};

        oc->get = bh_client_call(op->m->o.client, &r, got_claim, oc);
    }
}

/* ---- prepare: cache and checkpoint ---- */

static void driver_add(struct dra_op *op, struct bh_str driver)
{
    for (size_t i = 0; i < op->drivers_n; i++)
        if (bh_str_eq(op->drivers[i], driver))
            return;
    if (op->drivers_n < POD_DRIVERS_MAX)
        op->drivers[op->drivers_n++] = bh_str_dup(op->arena, driver);
}

static void noted(void *arg, const struct bh_err *err)
{
    struct dra_op *op = arg;

    if (err) {
        op->err = *err;
        op_end(op);
        return;
    }
    op->driver_at = 0;
    next_driver(op);
}

/* True when the operation has to wait, or has ended. */
static bool note_check(struct dra_op *op)
{
    for (size_t i = 0; i < op->claims_n; i++) {
        const struct op_claim *oc = &op->claims[i];
        const struct dra_claim *c = dra_claim_get(op->m, op->pod->ns, oc->want.name);

        if (c && c->releasing) {
            op->stalled = true;
            return true;
        }
        if (c && !bh_str_eqc(oc->obj->uid, c->uid)) {
            (void)bh_err_set(&op->err, BH_E_CONFLICT,
                             "old ResourceClaim with same name %.*s and different UID %s still "
                             "exists (previous pod "
                             "force-deleted?!)",
                             BH_SF(oc->obj->name), c->uid);
            op_end(op);
            return true;
        }
        if (!c && op->m->claims.n + op->claims_n > BH_DRA_CLAIMS_MAX) {
            (void)bh_err_set(&op->err, BH_E_LIMIT, "this node already holds %d claims",
                             BH_DRA_CLAIMS_MAX);
            op_end(op);
            return true;
        }
    }
    return false;
}

static void prepare_note(struct dra_op *op)
{
    if (note_check(op))
        return;
    op->drivers = bh_new_n(op->arena, struct bh_str, POD_DRIVERS_MAX);
    for (size_t i = 0; i < op->claims_n; i++) {
        struct op_claim *oc = &op->claims[i];
        const struct bh_resource_v1_resource_claim *c = bh_obj_struct(oc->obj);

        oc->claim = dra_claim_get(op->m, op->pod->ns, oc->want.name);
        if (!oc->claim)
            oc->claim = dra_claim_new(op->m, op->pod->ns, oc->want.name, oc->obj->uid);
        dra_claim_add_pod(oc->claim, op->pod_uid);
        oc->batch = !oc->claim->prepared;
        for (size_t k = 0; k < c->status.allocation->devices.results.n; k++) {
            struct bh_str driver = c->status.allocation->devices.results.p[k].driver;

            (void)dra_state_get(oc->claim, driver, true);
            if (oc->batch)
                driver_add(op, driver);
        }
    }
    dra_checkpoint_write(op->m, noted, op); /* before any driver does anything */
}

/* ---- drivers ---- */

static bool claim_uses(const struct op_claim *oc, struct bh_str driver)
{
    return oc->batch && oc->claim && dra_state_get(oc->claim, driver, false) != NULL;
}

static size_t batch_size(const struct dra_op *op, struct bh_str driver)
{
    size_t n = 0;

    for (size_t i = 0; i < op->claims_n; i++)
        n += claim_uses(&op->claims[i], driver);
    return n;
}

/* Both requests are a list of claims; their generated structs differ only in name. */
static struct bh_str request_make(struct dra_op *op, struct bh_arena *a, struct bh_str driver)
{
    Bh__Dra__NodePrepareResourcesRequest req = BH__DRA__NODE_PREPARE_RESOURCES_REQUEST__INIT;

    req.claims = bh_new_n(a, Bh__Dra__Claim *, op->claims_n + 1);
    for (size_t i = 0; i < op->claims_n; i++) {
        Bh__Dra__Claim *c;

        if (!claim_uses(&op->claims[i], driver))
            continue;
        c = bh_new(a, Bh__Dra__Claim);
        bh__dra__claim__init(c);
        c->uid = bh_pb_str(a, bh_s(op->claims[i].claim->uid));
        c->namespace_ = bh_pb_str(a, op->claims[i].claim->ns);
        c->name = bh_pb_str(a, op->claims[i].claim->name);
        req.claims[req.n_claims++] = c;
    }
    return bh_pb_pack(a, &req);
}

static struct op_claim *claim_by_uid(struct dra_op *op, struct bh_str driver, struct bh_str uid)
{
    for (size_t i = 0; i < op->claims_n; i++)
        if (claim_uses(&op->claims[i], driver) && bh_str_eqc(uid, op->claims[i].claim->uid))
            return &op->claims[i];
    return NULL;
}

static struct bh_str_vec views(struct bh_arena *a, char **p, size_t n)
{
    struct bh_str_vec v = {bh_new_n(a, struct bh_str, n + 1), n};

    for (size_t i = 0; i < n; i++)
        v.p[i] = bh_s(p[i]);
    return v;
}

static void take_devices(struct dra_claim *c, struct bh_str driver,
                         const Bh__Dra__NodePrepareResourceResponse *r)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_dra_device *d = bh_new_n(a, struct bh_dra_device, r->n_devices + 1);

    for (size_t i = 0; i < r->n_devices; i++) {
        const Bh__Dra__Device *x = r->devices[i];

        d[i].pool = bh_s(x->pool_name);
        d[i].device = bh_s(x->device_name);
        d[i].share_id = bh_s(x->share_id);
        d[i].requests = views(a, x->request_names, x->n_request_names);
        d[i].cdi_ids = views(a, x->cdi_device_ids, x->n_cdi_device_ids);
    }
    dra_state_set(dra_state_get(c, driver, true), d, r->n_devices);
}

static int prepare_answer(struct dra_op *op, struct bh_str driver, struct bh_str body,
                          struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(DECODE_BYTES_MAX);
    const Bh__Dra__NodePrepareResourcesResponse *res =
        bh_pb_unpack(a, &bh__dra__node_prepare_resources_response__descriptor, body);

    if (!res)
        return bh_err_set(err, BH_E_PROTO,
                          "NodePrepareResources: driver %.*s sent a malformed answer",
                          BH_SF(driver));
    for (size_t i = 0; i < res->n_claims; i++) {
        struct bh_str uid = bh_s(res->claims[i]->key);
        struct op_claim *oc = claim_by_uid(op, driver, uid);
        const Bh__Dra__NodePrepareResourceResponse *v = res->claims[i]->value;

        if (!oc)
            return bh_err_set(err, BH_E_PROTO,
                              "NodePrepareResources returned result for unknown claim UID %.*s",
                              BH_SF(bh_str_sub(uid, 0, 64)));
        if (v && v->error && v->error[0])
            return bh_err_set(err, BH_E_UNAVAILABLE,
                              "NodePrepareResources failed for ResourceClaim %.*s: %s",
                              BH_SF(oc->claim->name), v->error);
        if (v)
            take_devices(oc->claim, driver, v);
    }
    if (res->n_claims < batch_size(op, driver))
        return bh_err_set(err, BH_E_PROTO, "NodePrepareResources skipped %zu ResourceClaims",
                          batch_size(op, driver) - res->n_claims);
    return 0;
}

static int unprepare_answer(struct dra_op *op, struct bh_str driver, struct bh_str body,
                            struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(DECODE_BYTES_MAX);
    const Bh__Dra__NodeUnprepareResourcesResponse *res =
        bh_pb_unpack(a, &bh__dra__node_unprepare_resources_response__descriptor, body);

    if (!res)
        return bh_err_set(err, BH_E_PROTO,
                          "NodeUnprepareResources: driver %.*s sent a malformed answer",
                          BH_SF(driver));
    for (size_t i = 0; i < res->n_claims; i++) {
        struct bh_str uid = bh_s(res->claims[i]->key);
        struct op_claim *oc = claim_by_uid(op, driver, uid);
        const Bh__Dra__NodeUnprepareResourceResponse *v = res->claims[i]->value;

        if (!oc)
            return bh_err_set(err, BH_E_PROTO,
                              "NodeUnprepareResources returned result for unknown claim UID %.*s",
                              BH_SF(bh_str_sub(uid, 0, 64)));
        if (v && v->error && v->error[0])
            return bh_err_set(err, BH_E_UNAVAILABLE,
                              "NodeUnprepareResources failed for ResourceClaim %.*s: %s",
                              BH_SF(oc->claim->name), v->error);
    }
    if (res->n_claims < batch_size(op, driver))
        return bh_err_set(err, BH_E_PROTO, "NodeUnprepareResources skipped %zu ResourceClaims",
                          batch_size(op, driver) - res->n_claims);
    return 0;
}

static void driver_answered(void *arg, const struct bh_grpc_result *res)
{
    struct dra_op *op = arg;
    struct bh_str driver = op->drivers[op->driver_at];
    int r;

    if (res->status != BH_GRPC_OK)
        r = bh_err_set(&op->err, bh_grpc_code_of(res->status),
                       "%s: driver %.*s: rpc error: code = %s desc = %.*s",
                       op->prepare ? "NodePrepareResources" : "NodeUnprepareResources",
                       BH_SF(driver), bh_grpc_status_name(res->status), BH_SF(res->message));
    else if (op->prepare)
        r = prepare_answer(op, driver, res->body, &op->err);
    else
        r = unprepare_answer(op, driver, res->body, &op->err);
    if (r < 0) {
        dra_checkpoint_write(op->m, NULL, NULL); /* what other drivers have answered stays */
        op_end(op);
        return;
    }
    op->driver_at++;
    next_driver(op);
}

static void written(void *arg, const struct bh_err *err)
{
    struct dra_op *op = arg;

    if (err)
        op->err = *err;
    op_end(op);
}

/* Every driver has done its part. */
static void drivers_done(struct dra_op *op)
{
    for (size_t i = 0; i < op->claims_n; i++) {
        struct op_claim *oc = &op->claims[i];

        if (op->prepare) {
            oc->claim->prepared = true;
        } else if (oc->batch) {
            dra_claim_free(op->m, oc->claim);
            oc->claim = NULL;
        }
    }
    dra_checkpoint_write(op->m, written, op);
}

static void next_driver(struct dra_op *op)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    if (op->driver_at == op->drivers_n) {
        drivers_done(op);
        return;
    }
    if (dra_driver_call(op->m, op->drivers[op->driver_at],
                        op->prepare ? "NodePrepareResources" : "NodeUnprepareResources",
                        request_make(op, a, op->drivers[op->driver_at]), driver_answered, op,
                        &op->err) < 0)
        op_end(op);
}

/* ---- unprepare ---- */

static void unprepare_start(struct dra_op *op)
{
    struct bh_dra_manager *m = op->m;
    size_t cap = 0;
    void *v;

    if (op_of_pod(m, op->pod_uid, op)) { /* its prepare is not over yet */
        op->stalled = true;
        return;
    }
    op->claims = NULL;
    op->claims_n = op->drivers_n = op->driver_at = 0;
    op->drivers = bh_new_n(op->arena, struct bh_str, POD_DRIVERS_MAX);
    for (size_t it = 0; bh_map_next(&m->claims, &it, NULL, &v);) {
        struct dra_claim *c = v;

        if (!dra_claim_has_pod(c, op->pod_uid))
            continue;
        if (dra_claim_pods(c) > 1) {
            dra_claim_del_pod(c, op->pod_uid);
            continue;
        }
        bh_arena_grow(op->arena, &op->claims, &cap, op->claims_n + 1, sizeof(*op->claims));
        op->claims[op->claims_n++] = (struct op_claim){.op = op, .claim = c, .batch = true};
        c->releasing = true;
        c->prepared = false;
        bh_list_for(s, &c->states) driver_add(op, bh_container(s, struct dra_state, link)->driver);
    }
    next_driver(op);
}

static void unprepare_begin(void *arg)
{
    unprepare_start(arg);
}

/* ---- public ---- */

uint64_t bh_dra_prepare(struct bh_dra_manager *m, const struct bh_obj *pod, bh_dra_fn fn, void *arg)
{
    struct dra_op *op = op_new(m, true, pod->uid, fn, arg);
    struct dra_pod_claim *pc = NULL;
    size_t n = 0;

    op->pod = bh_obj_ref(pod);
    if (op_of_pod(m, op->pod_uid, op)) {
        (void)bh_err_set(&op->err, BH_E_BUSY, "the pod's claims are already being worked on");
    } else if (dra_pod_claims(op->pod, op->arena, &pc, &n, &op->err) == 0 && n > 0) {
        op->claims = bh_new_n(op->arena, struct op_claim, n);
        for (size_t i = 0; i < n; i++) {
            size_t k = 0;

            while (k < op->claims_n && !bh_str_eq(op->claims[k].want.name, pc[i].name))
                k++;
            if (k == op->claims_n) /* two names of the pod for one claim are one claim */
                op->claims[op->claims_n++] = (struct op_claim){.op = op, .want = pc[i]};
        }
        claims_get(op);
        return op->id;
    }
    op_end_soon(op);
    return op->id;
}

uint64_t bh_dra_unprepare(struct bh_dra_manager *m, struct bh_str pod_uid, bh_dra_fn fn, void *arg)
{
    struct dra_op *op = op_new(m, false, pod_uid, fn, arg);

    bh_timer_init(&op->soon, m->loop, unprepare_begin, op);
    bh_timer_start_ns(&op->soon, 0);
    return op->id;
}

void bh_dra_cancel(struct bh_dra_manager *m, uint64_t id)
{
    bh_list_for(it, &m->ops)
    {
        struct dra_op *op = bh_container(it, struct dra_op, link);

        if (op->id == id)
            op->cancelled = true;
    }
}

/* Claims of pods that are gone: left by a force-deletion or a crash. */
static void clean_up(void *arg)
{
    struct bh_dra_manager *m = arg;
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str_vec gone = {0};
    size_t cap = 0;
    void *v;

    for (size_t it = 0; bh_map_next(&m->claims, &it, NULL, &v);) {
        bh_list_for(p, &((struct dra_claim *)v)->pods)
        {
            struct bh_str uid = bh_s(bh_container(p, struct dra_pod_ref, link)->uid);

            if (op_of_pod(m, uid, NULL) || m->o.pod_active(m->o.arg, uid))
                continue;
            bh_arena_grow(a, &gone.p, &cap, gone.n + 1, sizeof(*gone.p));
            gone.p[gone.n++] = bh_str_dup(a, uid);
        }
    }
    for (size_t i = 0; i < gone.n; i++)
        if (!op_of_pod(m, gone.p[i], NULL))
            (void)bh_dra_unprepare(m, gone.p[i], NULL, NULL);
    bh_timer_start(&m->clean_up, CLEAN_UP_MS);
}

void dra_clean_up_soon(struct bh_dra_manager *m)
{
    if (m->sources_ready)
        bh_timer_start_ns(&m->clean_up, 0);
}

void bh_dra_sources_ready(struct bh_dra_manager *m)
{
    if (m->sources_ready || !m->o.pod_active)
        return;
    m->sources_ready = true;
    dra_clean_up_soon(m);
}

/* ---- life ---- */

void dra_manager_unref(struct bh_dra_manager *m)
{
    if (--m->refs > 0)
        return;
    bh_free(m->root);
    bh_free(m->node);
    bh_free(m);
}

struct bh_dra_manager *bh_dra_manager_new(struct bh_loop *l, const struct bh_dra_manager_opts *o,
                                          struct bh_err *err)
{
    struct bh_dra_manager *m = bh_calloc(1, sizeof(*m));
    const struct bh_plugin_handler h = {"DRAPlugin", dra_driver_registered, dra_driver_deregistered,
                                        m};

    m->loop = l;
    m->o = *o;
    m->root = bh_strdup_c(bh_s(o->root));
    m->node = bh_strdup_c(bh_s(o->node));
    m->refs = 1;
    bh_list_init(&m->ops);
    bh_list_init(&m->writes_next);
    bh_list_init(&m->writes_now);
    bh_timer_init(&m->clean_up, l, clean_up, m);
    bh_timer_init(&m->resume, l, resume, m);
    dra_drivers_init(m);
    if (dra_checkpoint_load(m, err) < 0)
        return bh_dra_manager_free(m);
    if (o->watcher)
        bh_plugin_watcher_handle(o->watcher, &h);
    return m;
}

static void writes_drop(struct bh_link *head)
{
    while (!bh_list_empty(head)) {
        struct dra_write *w = bh_container(head->next, struct dra_write, link);

        bh_list_del(&w->link);
        bh_free(w);
    }
}

struct bh_dra_manager *bh_dra_manager_free(struct bh_dra_manager *m)
{
    void *c;

    if (!m)
        return NULL;
    m->closed = true;
    if (m->o.watcher)
        bh_plugin_watcher_unhandle(m->o.watcher, "DRAPlugin");
    bh_timer_stop(&m->clean_up);
    bh_timer_stop(&m->resume);
    writes_drop(&m->writes_next);
    writes_drop(&m->writes_now);
    dra_drivers_done(m); /* calls under way end here, silently */
    while (!bh_list_empty(&m->ops))
        op_free(bh_container(m->ops.next, struct dra_op, link));
    for (size_t it = 0; bh_map_next(&m->claims, &it, NULL, &c); it = 0)
        dra_claim_free(m, c);
    bh_map_done(&m->claims);
    dra_manager_unref(m);
    return NULL;
}
