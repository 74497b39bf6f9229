/* Which devices carry which NoExecute taints: slices of the latest generation of each pool, and
 * rules.
 *
 * A device is remembered under "driver/pool/device" with the taints of its slice and the claims
 * that use it, so that a change of one slice looks only at the claims of the devices that changed.
 */
#include <stdlib.h>

#include "api/gen/core_v1.h"
#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "base/arena.h"
#include "base/list.h"
#include "controllers/controllers_int.h"
#include "controllers/device_taint.h"
#include "data/time_fmt.h"

struct taint { /* heap strings */
    struct bh_str key, value;
    struct bh_time added;
};

struct device {
    struct bh_link used;    /* in dt_index->used while somebody uses it */
    struct bh_link in_pool; /* in the same while, among those of pools with its pool's name */
    struct bh_str key;      /* "driver/pool/device", heap */
    struct bh_str driver, pool, name; /* in key */
    struct taint *taints;             /* NoExecute ones of its slice */
    size_t n_taints;
    struct bh_map users; /* claim keys -> the device itself (a set) */
    bool published;      /* in the latest generation of its pool */
};

struct pool {
    struct bh_map slices; /* name -> struct bh_obj *, referenced */
    struct bh_map
        devices; /* device names that the latest generation held -> the pool itself (a set) */
};

struct dt_index {
    struct bh_map devices; /* "driver/pool/device" -> struct device */
    struct bh_map pools;   /* "driver/pool" -> struct pool */
    struct bh_map rules;   /* name -> struct bh_obj *, referenced */
    struct bh_link used;   /* devices with users: a rule need not look at the others */
    struct bh_map by_pool; /* the same by the name of their pool -> struct bh_link * (a list) */
    bool confirm;          /* rules that are not confirmed do not count */
};

struct dt_index *dt_index_new(bool confirm)
{
    struct dt_index *x = bh_calloc(1, sizeof(*x));

    x->confirm = confirm;
    bh_list_init(&x->used);
    return x;
}

static void taints_free(struct taint *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bh_free((void *)(uintptr_t)t[i].key.p);
        bh_free((void *)(uintptr_t)t[i].value.p);
    }
    bh_free(t);
}

static void device_free(struct device *d)
{
    bh_list_del(&d->used);
    bh_list_del(&d->in_pool);
    taints_free(d->taints, d->n_taints);
    bh_map_done(&d->users);
    bh_free((void *)(uintptr_t)d->key.p);
    bh_free(d);
}

static void objs_free(struct bh_map *m)
{
    void *v;

    for (size_t it = 0; bh_map_next(m, &it, NULL, &v);)
        (void)bh_obj_unref(v);
    bh_map_done(m);
}

struct dt_index *dt_index_free(struct dt_index *x)
{
    void *v;

    if (!x)
        return NULL;
    for (size_t it = 0; bh_map_next(&x->devices, &it, NULL, &v);)
        device_free(v);
    bh_map_done(&x->devices);
    for (size_t it = 0; bh_map_next(&x->pools, &it, NULL, &v);) {
        struct pool *p = v;

        objs_free(&p->slices);
        bh_map_done(&p->devices);
        bh_free(p);
    }
    bh_map_done(&x->pools);
    for (size_t it = 0; bh_map_next(&x->by_pool, &it, NULL, &v);)
        bh_free(v);
    bh_map_done(&x->by_pool);
    objs_free(&x->rules);
    bh_free(x);
    return NULL;
}

static struct bh_str device_key(struct bh_arena *a, struct bh_str driver, struct bh_str pool,
                                struct bh_str device)
{
    return bh_str_fmt(a, "%.*s/%.*s/%.*s", BH_SF(driver), BH_SF(pool), BH_SF(device));
}

/* Splits "driver/pool/device": neither driver nor device holds a slash, a pool may. */
static void key_split(struct bh_str key, struct bh_str *driver, struct bh_str *pool,
                      struct bh_str *device)
{
    size_t last = key.n;

    while (last > 0 && key.p[last - 1] != '/')
        last--;
    *device = bh_str_sub(key, last, key.n);
    *pool = bh_str_sub(key, 0, last ? last - 1 : 0);
    *driver = bh_str_cut(pool, '/');
}

static struct device *device_get(struct dt_index *x, struct bh_str key)
{
    struct device *d = bh_map_get(&x->devices, key);

    if (!d) {
        d = bh_calloc(1, sizeof(*d));
        d->key = (struct bh_str){bh_strdup_c(key), key.n};
        key_split(d->key, &d->driver, &d->pool, &d->name);
        (void)bh_map_put(&x->devices, key, d);
    }
    return d;
}

/* Forgets a device that nobody publishes and nobody uses. */
static void device_drop_idle(struct dt_index *x, struct bh_str key)
{
    struct device *d = bh_map_get(&x->devices, key);

    if (!d || d->published || d->users.n)
        return;
    (void)bh_map_del(&x->devices, key);
    device_free(d);
}

static bool taints_equal(const struct device *d, const struct bh_resource_v1_device_taint_vec *v)
{
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++) {
        if (!bh_str_eqc(v->p[i].effect, "NoExecute"))
            continue;
        if (n >= d->n_taints || !bh_str_eq(d->taints[n].key, v->p[i].key) ||
            !bh_str_eq(d->taints[n].value, v->p[i].value) ||
            bh_time_cmp(d->taints[n].added, v->p[i].time_added) != 0)
            return false;
        n++;
    }
    return n == d->n_taints;
}

static void taints_set(struct device *d, const struct bh_resource_v1_device_taint_vec *v)
{
    taints_free(d->taints, d->n_taints);
    d->taints = v->n ? bh_calloc(v->n, sizeof(*d->taints)) : NULL;
    d->n_taints = 0;
    for (size_t i = 0; i < v->n; i++) {
        if (!bh_str_eqc(v->p[i].effect, "NoExecute"))
            continue;
        d->taints[d->n_taints++] = (struct taint){{bh_strdup_c(v->p[i].key), v->p[i].key.n},
                                                  {bh_strdup_c(v->p[i].value), v->p[i].value.n},
                                                  v->p[i].time_added};
    }
}

static void tell_users(struct device *d, dt_claim_fn fn, void *arg)
{
    struct bh_str key;

    for (size_t it = 0; fn && bh_map_next(&d->users, &it, &key, NULL);)
        fn(arg, key);
}

/* Brings the devices of one pool to what its latest generation says, and tells the users of those
 * that changed. */
static void pool_refresh(struct dt_index *x, struct bh_str driver, struct bh_str name,
                         struct pool *p, dt_claim_fn fn, void *arg)
{
    static const struct bh_resource_v1_device_taint_vec none = {NULL, 0};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_map now = {0};
    int64_t latest = INT64_MIN;
    struct bh_str dev;
    void *v;

    for (size_t it = 0; bh_map_next(&p->slices, &it, NULL, &v);) {
        const struct bh_resource_v1_resource_slice *s = bh_obj_struct(v);

        if (s->spec.pool.generation > latest)
            latest = s->spec.pool.generation;
    }
    for (size_t it = 0; bh_map_next(&p->slices, &it, NULL, &v);) {
        const struct bh_resource_v1_resource_slice *s = bh_obj_struct(v);

        for (size_t i = 0; s->spec.pool.generation == latest && i < s->spec.devices.n; i++) {
            const struct bh_resource_v1_device *sd = &s->spec.devices.p[i];
            struct device *d = device_get(x, device_key(a, driver, name, sd->name));
            bool same = taints_equal(d, &sd->taints);

            d->published = true;
            (void)bh_map_put(&now, sd->name, p);
            if (same)
                continue;
            taints_set(d, &sd->taints);
            tell_users(d, fn, arg);
        }
    }
    for (size_t it = 0; bh_map_next(&p->devices, &it, &dev, NULL);) {
        struct bh_str key = device_key(a, driver, name, dev);
        struct device *d = bh_map_get(&now, dev) ? NULL : bh_map_get(&x->devices, key);

        if (!d)
            continue;
        d->published = false;
        if (d->n_taints) {
            taints_set(d, &none);
            tell_users(d, fn, arg);
        }
        device_drop_idle(x, key);
    }
    bh_map_done(&p->devices);
    p->devices = now;
}

static void slice_in_pool(struct dt_index *x, struct bh_obj *o, bool present, dt_claim_fn fn,
                          void *arg)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct bh_resource_v1_resource_slice *s = bh_obj_struct(o);
    struct bh_str key = bh_str_fmt(a, "%.*s/%.*s", BH_SF(s->spec.driver), BH_SF(s->spec.pool.name));
    struct pool *p = bh_map_get(&x->pools, key);

    if (!p) {
        p = bh_calloc(1, sizeof(*p));
        (void)bh_map_put(&x->pools, key, p);
    }
    (void)bh_obj_unref(present ? bh_map_put(&p->slices, o->name, bh_obj_ref(o))
                               : bh_map_del(&p->slices, o->name));
    pool_refresh(x, s->spec.driver, s->spec.pool.name, p, fn, arg);
    if (p->slices.n == 0) {
        (void)bh_map_del(&x->pools, key);
        bh_map_done(&p->slices);
        bh_map_done(&p->devices);
        bh_free(p);
    }
}

void dt_index_slice(struct dt_index *x, struct bh_obj *old, struct bh_obj *o, dt_claim_fn fn,
                    void *arg)
{
    /* Driver and pool of a slice are immutable, so an update stays in its pool. */
    slice_in_pool(x, o ? o : old, o != NULL, fn, arg);
}

/* ---- rules ---- */

bool dt_rule_selects(const struct bh_obj *rule, struct bh_str driver, struct bh_str pool,
                     struct bh_str device)
{
    const struct bh_resource_v1beta2_device_taint_rule *r = bh_obj_struct(rule);
    const struct bh_resource_v1beta2_device_taint_selector *s = r->spec.device_selector;

    return s && (!s->has_driver || bh_str_eq(s->driver, driver)) &&
           (!s->has_pool || bh_str_eq(s->pool, pool)) &&
           (!s->has_device || bh_str_eq(s->device, device));
}

bool dt_rule_unconfirmed(const struct bh_obj *rule)
{
    const struct bh_resource_v1beta2_device_taint_rule *r = bh_obj_struct(rule);
    const struct bh_resource_v1beta2_device_taint_selector *s = r->spec.device_selector;
    const struct bh_str *yes;

    if (!s || s->has_driver || s->has_pool || s->has_device ||
        !bh_str_eqc(r->spec.taint.effect, "NoExecute"))
        return false;
    yes = bh_str_map_get(&r->metadata.annotations, BH_S(BH_ANNOTATION_CONFIRM_ALL));
    return !yes || !bh_str_eqc(*yes, "true");
}

static void tell_if_selected(struct device *d, const struct bh_obj *rule, dt_claim_fn fn, void *arg)
{
    if (dt_rule_selects(rule, d->driver, d->pool, d->name))
        tell_users(d, fn, arg);
}

/* Tells the users of the devices that a rule selects. A rule that names one device is looked up;
 * any other is held against each device of its pool, or at all, that somebody uses. */
static void tell_selected(const struct dt_index *x, const struct bh_obj *rule, dt_claim_fn fn,
                          void *arg)
{
    const struct bh_resource_v1beta2_device_taint_rule *r = bh_obj_struct(rule);
    const struct bh_resource_v1beta2_device_taint_selector *s = r->spec.device_selector;

    if (!s || !fn)
        return;
    if (s->has_driver && s->has_pool && s->has_device) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct device *d = bh_map_get(&x->devices, device_key(a, s->driver, s->pool, s->device));

        if (d)
            tell_users(d, fn, arg);
        return;
    }
    if (s->has_pool) {
        const struct bh_link *list = bh_map_get(&x->by_pool, s->pool);

        if (list)
            bh_list_for(it, list)
                tell_if_selected(bh_container(it, struct device, in_pool), rule, fn, arg);
        return;
    }
    bh_list_for(it, &x->used)
        tell_if_selected(bh_container(it, struct device, used), rule, fn, arg);
}

void dt_index_rule(struct dt_index *x, struct bh_obj *old, struct bh_obj *o, dt_claim_fn fn,
                   void *arg)
{
    struct bh_str name = o ? o->name : old->name;
    struct bh_obj *prev =
        o ? bh_map_put(&x->rules, name, bh_obj_ref(o)) : bh_map_del(&x->rules, name);

    if (prev)
        tell_selected(x, prev, fn, arg);
    if (o)
        tell_selected(x, o, fn, arg);
    (void)bh_obj_unref(prev);
}

size_t dt_count_devices(const struct dt_index *x, const struct bh_obj *rule)
{
    size_t n = 0;
    void *v;

    for (size_t it = 0; bh_map_next(&x->devices, &it, NULL, &v);) {
        const struct device *d = v;

        n += d->published && dt_rule_selects(rule, d->driver, d->pool, d->name);
    }
    return n;
}

/* ---- claims ---- */

/* Stays while the index does: names of pools are few, and come again. */
static struct bh_link *pool_list(struct dt_index *x, struct bh_str pool)
{
    struct bh_link *l = bh_map_get(&x->by_pool, pool);

    if (!l) {
        l = bh_calloc(1, sizeof(*l));
        bh_list_init(l);
        (void)bh_map_put(&x->by_pool, pool, l);
    }
    return l;
}

static void device_user(struct dt_index *x, struct bh_str key, struct bh_str claim, bool uses)
{
    struct device *d = device_get(x, key);

    if (uses) {
        (void)bh_map_put(&d->users, claim, d);
        if (!bh_link_on(&d->used)) {
            bh_list_add_tail(&x->used, &d->used);
            bh_list_add_tail(pool_list(x, d->pool), &d->in_pool);
        }
        return;
    }
    (void)bh_map_del(&d->users, claim);
    if (d->users.n == 0) {
        bh_list_del(&d->used);
        bh_list_del(&d->in_pool);
    }
}

void dt_index_claim(struct dt_index *x, struct bh_obj *old, struct bh_obj *o)
{
    enum { LEAVE, USE, TIDY, STEPS };
    BH_AUTO_ARENA a = bh_arena_new(0);
    char buf[1024];

    for (int step = LEAVE; step < STEPS; step++) {
        struct bh_obj *c = step == USE ? o : old;
        const struct bh_resource_v1_resource_claim *claim = c ? bh_obj_struct(c) : NULL;

        if (!claim || !claim->status.allocation)
            continue;
        for (size_t i = 0; i < claim->status.allocation->devices.results.n; i++) {
            const struct bh_resource_v1_device_request_allocation_result *r =
                &claim->status.allocation->devices.results.p[i];
            struct bh_str key = device_key(a, r->driver, r->pool, r->device);

            if (step == TIDY)
                device_drop_idle(x, key);
            else
                device_user(x, key, bh_obj_key(c, buf, sizeof(buf)), step == USE);
        }
    }
}

void dt_each_user(const struct dt_index *x, const struct bh_obj *rule, dt_claim_fn fn, void *arg)
{
    tell_selected(x, rule, fn, arg);
}

static bool tolerates(const struct bh_resource_v1_device_toleration *t, struct bh_str key,
                      struct bh_str value)
{
    /* Eviction heeds only tolerations that name NoExecute, unlike allocation: upstream's behaviour,
     * kept. */
    if (!bh_str_eqc(t->effect, "NoExecute") || (t->key.n && !bh_str_eq(t->key, key)))
        return false;
    return bh_str_eqc(t->operator, "Exists") ||
           ((t->operator.n == 0 || bh_str_eqc(t->operator, "Equal")) && bh_str_eq(t->value, value));
}

struct judging {
    struct bh_arena *a;
    struct dt_verdict v;
    size_t cap;
};

static void judge_taint(struct judging *j,
                        const struct bh_resource_v1_device_request_allocation_result *r,
                        struct bh_str key, struct bh_str value, struct bh_time added,
                        const struct bh_obj *rule)
{
    int64_t wait_s = 0;
    bool any = false;

    for (size_t i = 0; i < r->tolerations.n; i++) {
        const struct bh_resource_v1_device_toleration *t = &r->tolerations.p[i];
        int64_t s = t->toleration_seconds < 0 ? 0 : t->toleration_seconds;

        if (!tolerates(t, key, value))
            continue;
        if (!t->has_toleration_seconds)
            return;
        wait_s = any && wait_s < s ? wait_s : s;
        any = true;
    }
    if (bh_time_is_zero(added) && !rule)
        return;
    if (wait_s > INT32_MAX)
        wait_s = INT32_MAX;
    int64_t at = (added.sec + wait_s) * 1000000000 + added.nsec;
    if (at < j->v.at_ns)
        j->v.at_ns = at;
    bh_arena_grow(j->a, &j->v.reasons.p, &j->cap, j->v.reasons.n + 1, sizeof(*j->v.reasons.p));
    j->v.reasons.p[j->v.reasons.n++] =
        (struct dt_reason){.device = device_key(j->a, r->driver, r->pool, r->device),
                           .key = bh_str_dup(j->a, key),
                           .value = bh_str_dup(j->a, value),
                           .rule = rule ? bh_str_dup(j->a, rule->name) : (struct bh_str){0},
                           .rule_uid = rule ? bh_str_dup(j->a, rule->uid) : (struct bh_str){0}};
}

static void judge_rule(struct judging *j,
                       const struct bh_resource_v1_device_request_allocation_result *r,
                       const struct bh_obj *rule)
{
    const struct bh_resource_v1beta2_device_taint_rule *ru = bh_obj_struct(rule);

    if (dt_rule_selects(rule, r->driver, r->pool, r->device))
        judge_taint(j, r, ru->spec.taint.key, ru->spec.taint.value, ru->spec.taint.time_added,
                    rule);
}

struct dt_verdict dt_judge(const struct dt_index *x, const struct bh_obj *claim,
                           const struct bh_obj *extra_rule, struct bh_arena *a)
{
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(claim);
    struct judging j = {.a = a, .v = {.at_ns = DT_NEVER}};
    void *v;

    if (!c->status.allocation)
        return j.v;
    for (size_t i = 0; i < c->status.allocation->devices.results.n; i++) {
        const struct bh_resource_v1_device_request_allocation_result *r =
            &c->status.allocation->devices.results.p[i];
        const struct device *d =
            bh_map_get(&x->devices, device_key(a, r->driver, r->pool, r->device));

        if (extra_rule) {
            judge_rule(&j, r, extra_rule);
            continue;
        }
        for (size_t k = 0; d && k < d->n_taints; k++)
            judge_taint(&j, r, d->taints[k].key, d->taints[k].value, d->taints[k].added, NULL);
        for (size_t it = 0; bh_map_next(&x->rules, &it, NULL, &v);) {
            const struct bh_obj *rule = v;
            const struct bh_resource_v1beta2_device_taint_rule *ru = bh_obj_struct(rule);

            if (bh_str_eqc(ru->spec.taint.effect, "NoExecute") &&
                !(x->confirm && dt_rule_unconfirmed(rule)))
                judge_rule(&j, r, rule);
        }
    }
    return j.v;
}

/* ---- pods ---- */

/* The claim when this pod uses it: it knows the pod, and belongs to it when it was made for one. */
static struct bh_obj *claim_of(const struct bh_obj *pod, struct bh_obj *c, bool generated)
{
    const struct bh_resource_v1_resource_claim *claim = c ? bh_obj_struct(c) : NULL;

    if (!c || !claim->status.allocation ||
        (generated && !ctl_owned_by(&claim->metadata, "Pod", pod->uid)))
        return NULL;
    for (size_t i = 0; i < claim->status.reserved_for.n; i++)
        if (bh_str_eq(claim->status.reserved_for.p[i].uid, pod->uid))
            return c;
    return NULL;
}

static int by_origin(const void *x, const void *y)
{
    const struct dt_reason *a = x, *b = y;
    int r = (a->rule.n == 0) - (b->rule.n == 0);

    if (r == 0)
        r = bh_str_cmp(a->rule, b->rule);
    if (r == 0)
        r = bh_str_cmp(a->device, b->device);
    if (r == 0)
        r = bh_str_cmp(a->key, b->key);
    return r ? r : bh_str_cmp(a->value, b->value);
}

struct dt_verdict dt_judge_pod(const struct dt_index *x, const struct bh_obj *o, dt_claim_get claim,
                               void *arg, const struct bh_obj *extra_rule, struct bh_arena *a)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);
    struct dt_verdict all = {.at_ns = DT_NEVER};
    size_t cap = 0;

    for (size_t i = 0; pod->spec.node_name.n && i <= pod->spec.resource_claims.n; i++) {
        bool generated = true;
        struct bh_str name = {NULL, 0};
        struct dt_verdict v;
        struct bh_obj *c;

        if (i < pod->spec.resource_claims.n) {
            name = ctl_pod_claim_name(pod, i);
            generated = pod->spec.resource_claims.p[i].has_resource_claim_template_name;
        } else if (pod->status.extended_resource_claim_status) {
            name = pod->status.extended_resource_claim_status->resource_claim_name;
        }
        c = name.n ? claim_of(o, claim(arg, o->ns, name), generated) : NULL;
        if (!c)
            continue;
        v = dt_judge(x, c, extra_rule, a);
        if (v.at_ns < all.at_ns)
            all.at_ns = v.at_ns;
        for (size_t k = 0; k < v.reasons.n; k++) {
            bh_arena_grow(a, &all.reasons.p, &cap, all.reasons.n + 1, sizeof(*all.reasons.p));
            all.reasons.p[all.reasons.n++] = v.reasons.p[k];
        }
    }
    if (all.reasons.n > 1)
        qsort(all.reasons.p, all.reasons.n, sizeof(*all.reasons.p), by_origin);
    return all;
}
