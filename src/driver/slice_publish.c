/* Publishing: an informer shows what is there, the plan says what to do, and its writes go out one
 * after the other.
 *
 * Own writes are remembered until the informer has shown them, so that a plan never works on what
 * it changed itself. */
#include "driver/slice_publish.h"

#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "client/client.h"
#include "driver/slice_plan.h"
#include "net/loop.h"

#define FOREIGN_DELAY_MS 30000
#define OWN_TTL_MS       60000 /* an own write that the informer never showed is forgotten */
#define RETRY_MIN_MS     5
#define RETRY_MAX_MS     30000

struct own {            /* the outcome of a write of ours */
    struct bh_obj *obj; /* NULL: deleted */
    struct bh_obj *was; /* deleted: the last state, to know its resourceVersion */
    int64_t at_ns;
};

struct bh_slice_publisher {
    struct bh_loop *loop;
    struct bh_client *client;
    char *driver, *node;
    struct bh_str node_uid;
    char *node_uid_mem;
    struct bh_informer *inf;
    bool synced;

    struct bh_arena *want_arena;
    struct bh_resource_v1_device *want;
    size_t want_n;
    struct bh_resource_v1_counter_set *counters;
    size_t counters_n;
    bool have_want;

    struct bh_map own;           /* slice name to struct own * */
    struct bh_arena *plan_arena; /* not NULL while a plan is carried out */
    struct bh_slice_plan plan;
    struct bh_obj **plan_objs; /* references that the plan borrows from */
    size_t plan_objs_n;
    size_t plan_at;
    bool again;   /* the wish changed meanwhile */
    bool foreign; /* somebody changed a slice meanwhile */
    uint64_t call;
    struct bh_timer timer;
    int retry_ms;
    bool settled;
    struct bh_err fault; /* of the wish */
};

static void reconcile(void *arg);

/* ---- own writes ---- */

static void own_free(struct own *o)
{
    if (!o)
        return;
    (void)bh_obj_unref(o->obj);
    (void)bh_obj_unref(o->was);
    bh_free(o);
}

static void own_put(struct bh_slice_publisher *p, struct bh_str name, const struct bh_obj *obj,
                    const struct bh_obj *was)
{
    struct own *o = bh_calloc(1, sizeof(*o));

    o->obj = obj ? bh_obj_ref(obj) : NULL;
    o->was = was ? bh_obj_ref(was) : NULL;
    o->at_ns = bh_loop_mono_ns(p->loop);
    own_free(bh_map_put(&p->own, name, o));
}

/* True when the informer's event tells nothing that we did not do ourselves. */
static bool own_seen(struct bh_slice_publisher *p, const struct bh_obj *obj, bool deleted)
{
    struct own *o = bh_map_get(&p->own, obj->name);
    bool mine;

    if (!o)
        return false;
    if (!deleted && o->obj && obj->rv < o->obj->rv)
        return true; /* an older state than our write */
    if (!deleted && !o->obj)
        return true; /* our deletion is still to come */
    mine = deleted ? o->obj == NULL : obj->rv == o->obj->rv;
    own_free(bh_map_del(&p->own, obj->name));
    return mine;
}

static void foreign_change(struct bh_slice_publisher *p)
{
    if (p->plan_arena)
        p->foreign = true;
    else if (!bh_timer_armed(&p->timer) ||
             p->timer.at_ns > bh_loop_mono_ns(p->loop) + (int64_t)FOREIGN_DELAY_MS * 1000000)
        bh_timer_start(&p->timer, FOREIGN_DELAY_MS);
}

static void inf_added(void *arg, struct bh_obj *obj)
{
    struct bh_slice_publisher *p = arg;

    if (!own_seen(p, obj, false) && p->synced)
        foreign_change(p);
}

static void inf_updated(void *arg, struct bh_obj *old, struct bh_obj *obj)
{
    struct bh_slice_publisher *p = arg;

    (void)old;
    if (!own_seen(p, obj, false))
        foreign_change(p);
}

static void inf_deleted(void *arg, struct bh_obj *last)
{
    struct bh_slice_publisher *p = arg;

    if (!own_seen(p, last, true))
        foreign_change(p);
}

static void inf_synced(void *arg)
{
    struct bh_slice_publisher *p = arg;

    p->synced = true;
    reconcile(p);
}

/* ---- plan ---- */

static void plan_end(struct bh_slice_publisher *p)
{
    for (size_t i = 0; i < p->plan_objs_n; i++)
        (void)bh_obj_unref(p->plan_objs[i]);
    bh_free(p->plan_objs);
    p->plan_objs = NULL;
    p->plan_objs_n = 0;
    p->plan_arena = bh_arena_free(p->plan_arena);
}

static void retry(struct bh_slice_publisher *p, const struct bh_err *why)
{
    plan_end(p);
    p->retry_ms = p->retry_ms == 0 ? RETRY_MIN_MS : p->retry_ms * 2;
    if (p->retry_ms > RETRY_MAX_MS)
        p->retry_ms = RETRY_MAX_MS;
    bh_log(p->retry_ms < 1000 ? BH_DEBUG : BH_WARN, "publishing slices failed, continuing",
           BH_CSTR("why", why->msg), BH_I64("retry_ms", p->retry_ms));
    bh_timer_start(&p->timer, p->retry_ms);
}

/* The slices that are there, as far as is known. */
static void collect(struct bh_slice_publisher *p)
{
    struct bh_obj *o;
    struct bh_str name;
    void *v;

    for (size_t it = 0; bh_map_next(&p->own, &it, &name, &v);) {
        struct own *w = v;

        if (bh_loop_mono_ns(p->loop) - w->at_ns < (int64_t)OWN_TTL_MS * 1000000)
            continue;
        (void)bh_map_del(&p->own, name);
        own_free(w);
    }
    p->plan_objs = bh_calloc(bh_informer_count(p->inf) + p->own.n + 1, sizeof(*p->plan_objs));
    for (size_t it = 0; (o = bh_informer_next(p->inf, &it));)
        if (!bh_map_get(&p->own, o->name))
            p->plan_objs[p->plan_objs_n++] = bh_obj_ref(o);
    for (size_t it = 0; bh_map_next(&p->own, &it, &name, &v);)
        if (((struct own *)v)->obj)
            p->plan_objs[p->plan_objs_n++] = bh_obj_ref(((struct own *)v)->obj);
}

static void next_write(struct bh_slice_publisher *p);

static void fault(struct bh_slice_publisher *p, const char *what, struct bh_str which)
{
    (void)bh_err_set(&p->fault, BH_E_INVALID, "%s: %.*s", what, BH_SF(which));
    bh_log(BH_ERROR, "the devices are not published as they are", BH_CSTR("why", p->fault.msg));
}

/* The feature that a server without it would have dropped these fields of. */
static const char *feature_of(const struct bh_resource_v1_device_vec *sent,
                              const struct bh_resource_v1_device_vec *got)
{
    for (size_t i = 0; i < sent->n && i < got->n; i++) {
        const struct bh_resource_v1_device *a = &sent->p[i], *b = &got->p[i];

        if (a->taints.n > b->taints.n)
            return "DRADeviceTaints";
        if (a->consumes_counters.n > b->consumes_counters.n)
            return "DRAPartitionableDevices";
        if (a->binding_conditions.n > b->binding_conditions.n)
            return "DRADeviceBindingConditions";
        if (a->has_allow_multiple_allocations && !b->has_allow_multiple_allocations)
            return "DRAConsumableCapacity";
    }
    return "unknown";
}

/* What the server stored differs from what was sent: it dropped fields whose feature is off. To
 * write them again and again would not help, so the stored state becomes the wish. */
static void check_dropped(struct bh_slice_publisher *p, const struct bh_slice_op *op,
                          const struct bh_obj *stored)
{
    const struct bh_resource_v1_resource_slice *got = bh_obj_struct(stored);
    const struct bh_resource_v1_device_vec *sent = &op->slice->spec.devices;
    size_t at = 0;

    if (p->again)
        return;
    if (op->slice->spec.shared_counters.n > got->spec.shared_counters.n) {
        fault(p, "the API server dropped fields, features that may be off",
              BH_S("DRAPartitionableDevices"));
        p->counters_n = 0; /* nobody counts with them; a slice for them is not needed */
        p->again = true;
        return;
    }
    if (bh_slice_devices_equal(sent->p, sent->n, got->spec.devices.p, got->spec.devices.n))
        return;
    fault(p, "the API server dropped fields, features that may be off",
          bh_s(feature_of(sent, &got->spec.devices)));
    while (sent->n > 0 && at < p->want_n && !bh_str_eq(p->want[at].name, sent->p[0].name))
        at++;
    if (got->spec.devices.n != sent->n || at + sent->n > p->want_n)
        return;
    for (size_t i = 0; i < sent->n; i++)
        bh_msg_copy(&bh_resource_v1_device_type, &p->want[at + i], &got->spec.devices.p[i],
                    p->want_arena);
}

static void written(void *arg, const struct bh_client_res *res)
{
    struct bh_slice_publisher *p = arg;
    const struct bh_slice_op *op = &p->plan.ops[p->plan_at];
    bool gone = op->verb == BH_SLICE_DELETE && res->err.code == BH_E_NOT_FOUND;

    p->call = 0;
    if (res->err.code != BH_OK && !gone) {
        if (res->err.code == BH_E_NOT_FOUND || res->err.code == BH_E_CONFLICT) {
            /* Somebody was faster than our view of the slice: what we believed of it is not true
             * any more. */
            own_free(bh_map_del(&p->own, op->old ? op->old->name : op->slice->metadata.name));
        }
        retry(p, &res->err);
        return;
    }
    if (op->verb == BH_SLICE_DELETE) {
        own_put(p, op->old->name, NULL, op->old);
    } else if (res->obj) {
        own_put(p, res->obj->name, res->obj, NULL);
        check_dropped(p, op, res->obj);
    }
    p->plan_at++;
    next_write(p);
}

static void next_write(struct bh_slice_publisher *p)
{
    const struct bh_slice_op *op;
    const struct bh_kind *kind = &bh_resource_v1_resource_slice_kind;

    if (p->plan_at == p->plan.n || (p->again && p->plan_at > 0)) {
        bool again = p->again;

        plan_end(p);
        p->retry_ms = 0;
        p->again = false;
        p->settled = !again;
        if (again)
            bh_timer_start_ns(&p->timer, 0);
        else if (p->foreign)
            bh_timer_start(&p->timer, FOREIGN_DELAY_MS);
        else if (p->own.n > 0) /* look again when they are too old to be believed */
            bh_timer_start(&p->timer, OWN_TTL_MS + 1000);
        p->foreign = false;
        return;
    }
    op = &p->plan.ops[p->plan_at];
    switch (op->verb) {
    case BH_SLICE_DELETE:
        p->call = bh_client_delete(p->client, kind, (struct bh_str){NULL, 0}, op->old->name,
                                   op->old->uid, -1, written, p);
        break;
    case BH_SLICE_UPDATE:
        p->call = bh_client_update(p->client, kind, op->slice, "", written, p);
        break;
    case BH_SLICE_CREATE:
        p->call =
            bh_client_create(p->client, kind, (struct bh_str){NULL, 0}, op->slice, written, p);
        break;
    }
}

static void got_node(void *arg, const struct bh_client_res *res)
{
    struct bh_slice_publisher *p = arg;

    p->call = 0;
    if (res->err.code != BH_OK || !res->obj) {
        retry(p, &res->err);
        return;
    }
    p->node_uid_mem = bh_strdup_c(res->obj->uid);
    p->node_uid = bh_s(p->node_uid_mem);
    reconcile(p);
}

static void reconcile(void *arg)
{
    struct bh_slice_publisher *p = arg;
    struct bh_slice_pool pool;

    bh_timer_stop(&p->timer);
    if (!p->synced || !p->have_want || p->call != 0)
        return;
    if (p->node_uid.n == 0) {
        const struct bh_client_req r = {
            .verb = BH_VERB_GET, .kind = &bh_core_v1_node_kind, .name = bh_s(p->node)};

        p->call = bh_client_call(p->client, &r, got_node, p);
        return;
    }
    bh_assert(!p->plan_arena);
    p->plan_arena = bh_arena_new(0);
    collect(p);
    pool = (struct bh_slice_pool){bh_s(p->driver), bh_s(p->node), p->node_uid,  p->want,
                                  p->want_n,       p->counters,   p->counters_n};
    bh_slice_plan_make(p->plan_arena, &pool, (const struct bh_obj *const *)p->plan_objs,
                       p->plan_objs_n, &p->plan);
    p->plan_at = 0;
    p->again = false;
    next_write(p);
}

/* ---- whether a wish can be published at all ---- */

static const struct bh_resource_v1_counter_set *
set_find(const struct bh_resource_v1_counter_set *sets, size_t n, struct bh_str name)
{
    for (size_t i = 0; i < n; i++)
        if (bh_str_eq(sets[i].name, name))
            return &sets[i];
    return NULL;
}

static bool has_counter(const struct bh_resource_v1_counter_set *set, struct bh_str name)
{
    for (size_t i = 0; i < set->counters.n; i++)
        if (bh_str_eq(set->counters.p[i].key, name))
            return true;
    return false;
}

static bool counters_known(struct bh_slice_publisher *p, const struct bh_resource_v1_device *d)
{
    for (size_t i = 0; i < d->consumes_counters.n; i++) {
        const struct bh_resource_v1_device_counter_consumption *c = &d->consumes_counters.p[i];
        const struct bh_resource_v1_counter_set *set =
            set_find(p->counters, p->counters_n, c->counter_set);

        for (size_t k = 0; set && k < c->counters.n; k++)
            if (!has_counter(set, c->counters.p[k].key))
                set = NULL;
        if (!set) {
            fault(p, "counters of a set that does not have them", c->counter_set);
            return false;
        }
    }
    return true;
}

/* Names are told once in a pool, and what is counted is there. */
static bool sound(struct bh_slice_publisher *p)
{
    struct bh_map names = {0};
    bool ok = true;

    for (size_t i = 0; ok && i < p->counters_n; i++)
        if (set_find(p->counters, i, p->counters[i].name)) {
            fault(p, "duplicate counter set", p->counters[i].name);
            ok = false;
        }
    for (size_t i = 0; ok && i < p->want_n; i++) {
        if (bh_map_put(&names, p->want[i].name, p)) {
            fault(p, "duplicate device", p->want[i].name);
            ok = false;
        }
        ok = ok && counters_known(p, &p->want[i]);
    }
    bh_map_done(&names);
    return ok;
}

/* ---- life ---- */

struct bh_slice_publisher *bh_slice_publisher_new(struct bh_client *c, const char *driver,
                                                  const char *node)
{
    static const struct bh_informer_ops ops = {inf_added, inf_updated, inf_deleted, inf_synced};
    struct bh_slice_publisher *p = bh_calloc(1, sizeof(*p));
    BH_AUTO_ARENA a = bh_arena_new(0);

    p->client = c;
    p->loop = bh_client_loop(c);
    p->driver = bh_strdup_c(bh_s(driver));
    p->node = bh_strdup_c(bh_s(node));
    p->want_arena = bh_arena_new(0);
    bh_timer_init(&p->timer, p->loop, reconcile, p);
    p->inf = bh_informer_new(
        c, &bh_resource_v1_resource_slice_kind, (struct bh_str){NULL, 0}, (struct bh_str){NULL, 0},
        bh_str_fmt(a, "spec.nodeName=%s,spec.driver=%s", node, driver), &ops, p);
    return p;
}

struct bh_slice_publisher *bh_slice_publisher_free(struct bh_slice_publisher *p)
{
    void *o;

    if (!p)
        return NULL;
    if (p->call != 0)
        bh_client_cancel(p->client, p->call);
    bh_timer_stop(&p->timer);
    (void)bh_informer_free(p->inf);
    plan_end(p);
    for (size_t it = 0; bh_map_next(&p->own, &it, NULL, &o);)
        own_free(o);
    bh_map_done(&p->own);
    (void)bh_arena_free(p->want_arena);
    bh_free(p->driver);
    bh_free(p->node);
    bh_free(p->node_uid_mem);
    bh_free(p);
    return NULL;
}

void bh_slice_publisher_set(struct bh_slice_publisher *p,
                            const struct bh_resource_v1_device *devices, size_t n,
                            const struct bh_resource_v1_counter_set *counters, size_t counters_n)
{
    bh_arena_reset(p->want_arena);
    p->want = bh_new_n(p->want_arena, struct bh_resource_v1_device, n > 0 ? n : 1);
    for (size_t i = 0; i < n; i++)
        bh_msg_copy(&bh_resource_v1_device_type, &p->want[i], &devices[i], p->want_arena);
    p->want_n = n;
    p->counters =
        bh_new_n(p->want_arena, struct bh_resource_v1_counter_set, counters_n > 0 ? counters_n : 1);
    for (size_t i = 0; i < counters_n; i++)
        bh_msg_copy(&bh_resource_v1_counter_set_type, &p->counters[i], &counters[i], p->want_arena);
    p->counters_n = counters_n;
    p->fault = (struct bh_err){0};
    p->have_want = sound(p);
    p->settled = false;
    if (!p->have_want)
        p->again = p->plan_arena != NULL; /* what is under way ends; then nothing is written */
    else if (p->plan_arena)
        p->again = true; /* the plan has its own copy; it ends after the write under way */
    else
        reconcile(p);
}

const char *bh_slice_publisher_fault(const struct bh_slice_publisher *p)
{
    return p->fault.code ? p->fault.msg : NULL;
}

bool bh_slice_publisher_settled(const struct bh_slice_publisher *p)
{
    return p->settled;
}
