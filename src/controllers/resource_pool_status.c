/* resourcepoolstatusrequest-controller: answers a ResourcePoolStatusRequest once, with what the
 * pools of a driver have and how much of it is in use (dra.md, section 1.6), and removes requests
 * that are old.
 *
 * Nothing is kept between requests, which are rare: a model of the driver's devices is made from
 * the informers' objects when one is to be answered. A request about a pool that is being published
 * waits for the slices that are missing, however long that takes; upstream tries a few times and
 * then not again.
 */
#include <string.h>

#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1alpha3.h"
#include "api/gen/resource_v1beta2.h"
#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "controllers/controllers_int.h"
#include "data/time_fmt.h"
#include "dra/dra.h"

#define LIMIT_DEFAULT   100
#define SWEEP_MS        (10 * 60 * 1000)
#define ANSWERED_KEPT_S 3600
#define PENDING_KEPT_S  (24 * 3600)
#define REQUEST         (&bh_resource_v1alpha3_resource_pool_status_request_kind)
#define ERROR_BYTES_MAX 256

struct rps {
    struct ctl *ctl;
    struct bh_informer *requests, *slices, *claims, *rules;
    struct bh_workqueue *queue; /* names of requests */
    struct bh_timer sweep;
    struct bh_link works;
};

struct work {
    struct bh_link link;
    struct rps *c;
    struct bh_str key;
    uint64_t call;
};

/* ---- what the pools have ---- */

static bool in_question(const struct bh_resource_v1alpha3_resource_pool_status_request_spec *q,
                        const struct bh_resource_v1_resource_slice_spec *s)
{
    return bh_str_eq(s->driver, q->driver) &&
           (!q->has_pool_name || bh_str_eq(s->pool.name, q->pool_name));
}

static struct bh_dra_model *
model(struct rps *c, const struct bh_resource_v1alpha3_resource_pool_status_request_spec *q)
{
    struct bh_dra_features f = bh_dra_features_default();
    struct bh_dra_model *m;
    struct bh_obj *o;

    f.taint_rules = true;
    m = bh_dra_model_new(&f);
    for (size_t it = 0; (o = bh_informer_next(c->slices, &it));)
        if (in_question(q, &((const struct bh_resource_v1_resource_slice *)bh_obj_struct(o))->spec))
            bh_dra_slice_put(m, o);
    for (size_t it = 0; (o = bh_informer_next(c->claims, &it));)
        if (((const struct bh_resource_v1_resource_claim *)bh_obj_struct(o))->status.allocation)
            bh_dra_claim_put(m, o);
    for (size_t it = 0; (o = bh_informer_next(c->rules, &it));)
        bh_dra_rule_put(m, o);
    return m;
}

struct pools {
    struct bh_arena *a;
    struct pool {
        struct bh_str name, node;
        int64_t generation, want;
        int32_t slices;
        bool mixed; /* of several nodes, or of none in particular */
    } * p;
    size_t n, cap;
};

/* The pools in question with their newest generations, by name. */
static void find_pools(struct rps *c,
                       const struct bh_resource_v1alpha3_resource_pool_status_request_spec *q,
                       struct pools *v)
{
    struct bh_obj *o;

    for (size_t it = 0; (o = bh_informer_next(c->slices, &it));) {
        const struct bh_resource_v1_resource_slice_spec *s =
            &((const struct bh_resource_v1_resource_slice *)bh_obj_struct(o))->spec;
        struct pool *p;
        size_t i = 0;

        if (!in_question(q, s))
            continue;
        while (i < v->n && bh_str_cmp(v->p[i].name, s->pool.name) < 0)
            i++;
        if (i == v->n || !bh_str_eq(v->p[i].name, s->pool.name)) {
            bh_arena_grow(v->a, &v->p, &v->cap, v->n + 1, sizeof(*v->p));
            memmove(&v->p[i + 1], &v->p[i], (v->n++ - i) * sizeof(*v->p));
            v->p[i] = (struct pool){.name = s->pool.name, .generation = INT64_MIN};
        }
        p = &v->p[i];
        if (s->pool.generation < p->generation)
            continue;
        if (s->pool.generation > p->generation)
            *p = (struct pool){.name = s->pool.name,
                               .node = s->node_name,
                               .generation = s->pool.generation,
                               .want = s->pool.resource_slice_count};
        p->slices++;
        p->mixed = p->mixed || !bh_str_eq(p->node, s->node_name);
    }
}

static bool is_tainted(const struct bh_dra_device *d)
{
    for (size_t i = 0; i < d->taints_n; i++)
        if (bh_str_eqc(d->taints[i]->effect, "NoSchedule") ||
            bh_str_eqc(d->taints[i]->effect, "NoExecute"))
            return true;
    return false;
}

/* Counts the devices of pool p, which come together, from *at on. One that is in use and tainted
 * counts as allocated only. */
static void count(const struct bh_dra_device *d, size_t n, size_t *at, struct bh_arena *a,
                  const struct pool *p, struct bh_resource_v1alpha3_pool_status *ret)
{
    struct bh_map names = {0};
    bool twice = false;

    while (*at < n && bh_str_cmp(d[*at].pool, p->name) < 0)
        ++*at;
    for (; *at < n && bh_str_eq(d[*at].pool, p->name); ++*at) {
        const struct bh_dra_device *x = &d[*at];
        struct bh_str key = bh_str_fmt(a, "%.*s/%.*s", BH_SF(x->node), BH_SF(x->device));

        twice = bh_map_put(&names, key, ret) || twice;
        ret->total_devices++;
        ret->allocated_devices += x->in_use;
        ret->unavailable_devices += !x->in_use && is_tainted(x);
    }
    bh_map_done(&names);
    if (twice) {
        struct bh_str text = bh_str_fmt(a, "pool %.*s/%.*s is invalid: it has devices of one name",
                                        BH_SF(ret->driver), BH_SF(p->name));

        ret->validation_error = bh_str_sub(text, 0, ERROR_BYTES_MAX);
        ret->has_validation_error = true;
        ret->total_devices = ret->allocated_devices = ret->unavailable_devices = 0;
        return;
    }
    ret->resource_slice_count = p->slices;
    ret->available_devices = ret->total_devices - ret->allocated_devices - ret->unavailable_devices;
    ret->has_resource_slice_count = ret->has_total_devices = ret->has_allocated_devices =
        ret->has_available_devices = ret->has_unavailable_devices = true;
}

/* False: a pool is not complete, and what it has is not known yet. */
static bool answer(struct rps *c,
                   const struct bh_resource_v1alpha3_resource_pool_status_request_spec *q,
                   struct bh_arena *a,
                   struct bh_resource_v1alpha3_resource_pool_status_request_status *ret)
{
    struct pools v = {.a = a};
    struct bh_dra_device *devices;
    struct bh_dra_model *m;
    size_t limit = (size_t)(q->has_limit ? q->limit : LIMIT_DEFAULT), n, at = 0, wrong = 0;
    struct bh_meta_v1_condition *done = bh_new(a, struct bh_meta_v1_condition);

    find_pools(c, q, &v);
    ret->pool_count = (int32_t)v.n;
    ret->has_pool_count = true;
    limit = v.n < limit ? v.n : limit;
    for (size_t i = 0; i < limit; i++)
        if (v.p[i].slices != v.p[i].want)
            return false;
    m = model(c, q);
    n = bh_dra_devices(m, BH_S(""), a, &devices);
    ret->pools.p = bh_new_n(a, struct bh_resource_v1alpha3_pool_status, limit);
    for (ret->pools.n = 0; ret->pools.n < limit; ret->pools.n++) {
        const struct pool *p = &v.p[ret->pools.n];
        struct bh_resource_v1alpha3_pool_status *s = &ret->pools.p[ret->pools.n];

        s->driver = q->driver;
        s->pool_name = p->name;
        s->generation = p->generation;
        s->has_node_name = p->node.n && !p->mixed;
        s->node_name = s->has_node_name ? p->node : BH_S("");
        count(devices, n, &at, a, p, s);
        wrong += s->has_validation_error;
    }
    (void)bh_dra_model_free(m);
    done->type = BH_S("Complete");
    done->status = BH_S("True");
    done->reason = BH_S("CalculationComplete");
    done->message =
        wrong ? bh_str_fmt(a, "Calculated status for %zu pools (%zu invalid)", limit, wrong)
              : bh_str_fmt(a, "Calculated status for %zu pools", limit);
    done->last_transition_time = (struct bh_time){bh_loop_wall_ns(c->ctl->loop) / 1000000000, 0};
    ret->conditions.p = done;
    ret->conditions.n = 1;
    return true;
}

/* ---- requests ---- */

static void answered(void *arg, const struct bh_client_res *res)
{
    struct work *w = arg;
    struct rps *c = w->c;
    struct bh_str key = w->key;
    bool ok = res->err.code == BH_OK || res->err.code == BH_E_NOT_FOUND;

    bh_list_del(&w->link);
    bh_free(w);
    bh_workqueue_done(c->queue, key, ok ? BH_WORK_OK : BH_WORK_RETRY);
}

static void sync(void *arg, struct bh_str key)
{
    struct rps *c = arg;
    struct bh_obj *o = bh_informer_get(c->requests, BH_S(""), key);
    const struct bh_resource_v1alpha3_resource_pool_status_request *r = o ? bh_obj_struct(o) : NULL;
    struct bh_resource_v1alpha3_resource_pool_status_request_status status = {0};
    struct bh_resource_v1alpha3_resource_pool_status_request copy;
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct work *w;

    if (!r || r->status || !answer(c, &r->spec, a, &status)) {
        bh_workqueue_done(c->queue, key, BH_WORK_OK);
        return;
    }
    copy = *r;
    copy.status = &status;
    w = bh_calloc(1, sizeof(*w));
    w->c = c;
    w->key = key;
    bh_list_add_tail(&c->works, &w->link);
    w->call = bh_client_update(c->ctl->client, REQUEST, &copy, "status", answered, w);
}

static void request_added(void *arg, struct bh_obj *o)
{
    struct rps *c = arg;
    const struct bh_resource_v1alpha3_resource_pool_status_request *r = bh_obj_struct(o);

    if (!r->status)
        bh_workqueue_add(c->queue, o->name);
}

/* A slice may be the one that a request waits for. */
static void slice_added(void *arg, struct bh_obj *slice)
{
    struct rps *c = arg;
    const struct bh_resource_v1_resource_slice *s = bh_obj_struct(slice);
    struct bh_obj *o;

    for (size_t it = 0; c->requests && (o = bh_informer_next(c->requests, &it));) {
        const struct bh_resource_v1alpha3_resource_pool_status_request *r = bh_obj_struct(o);

        if (!r->status && in_question(&r->spec, &s->spec))
            bh_workqueue_add(c->queue, o->name);
    }
}

static void slice_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    slice_added(arg, o);
}

/* ---- the end of old ones ---- */

static int64_t kept_until(const struct bh_resource_v1alpha3_resource_pool_status_request *r)
{
    int64_t since = r->metadata.creation_timestamp.sec;

    if (!r->status)
        return since + PENDING_KEPT_S;
    for (size_t i = 0; i < r->status->conditions.n; i++) {
        const struct bh_meta_v1_condition *k = &r->status->conditions.p[i];

        if (bh_str_eqc(k->type, "Complete") || bh_str_eqc(k->type, "Failed"))
            since = k->last_transition_time.sec;
    }
    return since + ANSWERED_KEPT_S;
}

static void sweep(void *arg)
{
    struct rps *c = arg;
    int64_t now = bh_loop_wall_ns(c->ctl->loop) / 1000000000;
    struct bh_obj *o;

    for (size_t it = 0; (o = bh_informer_next(c->requests, &it));)
        if (kept_until(bh_obj_struct(o)) < now)
            (void)bh_client_delete(c->ctl->client, REQUEST, BH_S(""), o->name, o->uid, -1, NULL,
                                   NULL);
    bh_timer_start(&c->sweep, SWEEP_MS);
}

/* ---- life ---- */

static void one_synced(void *arg)
{
    struct rps *c = arg;

    if (ctl_synced((struct bh_informer *[]){c->requests, c->slices, c->claims}, 3))
        bh_workqueue_resume(c->queue);
}

static void request_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    request_added(arg, o);
}

static const struct bh_informer_ops request_ops = {request_added, request_updated, NULL,
                                                   one_synced};
static const struct bh_informer_ops slice_ops = {slice_added, slice_updated, slice_added,
                                                 one_synced};
static const struct bh_informer_ops other_ops = {NULL, NULL, NULL, one_synced};

static void *rps_start(struct ctl *ctl)
{
    struct rps *c = bh_calloc(1, sizeof(*c));

    c->ctl = ctl;
    bh_list_init(&c->works);
    c->queue = bh_workqueue_new(ctl->loop, 2, sync, c);
    bh_workqueue_pause(c->queue);
    bh_timer_init(&c->sweep, ctl->loop, sweep, c);
    bh_timer_start(&c->sweep, SWEEP_MS);
    c->requests = ctl_subscribe(ctl->informers, REQUEST, &request_ops, c);
    c->slices = ctl_subscribe(ctl->informers, &bh_resource_v1_resource_slice_kind, &slice_ops, c);
    c->claims = ctl_subscribe(ctl->informers, &bh_resource_v1_resource_claim_kind, &other_ops, c);
    /* A server without such rules has none: they are not waited for. */
    c->rules =
        ctl_subscribe(ctl->informers, &bh_resource_v1beta2_device_taint_rule_kind, &other_ops, c);
    return c;
}

static void rps_stop(void *self)
{
    struct rps *c = self;

    bh_timer_stop(&c->sweep);
    bh_list_for_safe(l, &c->works)
    {
        struct work *w = bh_container(l, struct work, link);

        bh_client_cancel(c->ctl->client, w->call);
        bh_free(w);
    }
    c->queue = bh_workqueue_free(c->queue);
    bh_free(c);
}

const struct ctl_controller ctl_resource_pool_status = {"resourcepoolstatusrequest-controller",
                                                        rps_start, rps_stop};
