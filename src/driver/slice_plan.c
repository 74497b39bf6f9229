/* Reconciling one pool: which existing slice stands for which part of the device list, and what
 * differs. */
#include "driver/slice_plan.h"

#include <string.h>

#include "api/engine.h"
#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "base/arena.h"

#define PREFIX_MIN 5

static bool taint_equal(const struct bh_resource_v1_device_taint *a,
                        const struct bh_resource_v1_device_taint *b)
{
    int64_t d = a->time_added.sec - b->time_added.sec;

    if (!bh_str_eq(a->key, b->key) || !bh_str_eq(a->value, b->value) ||
        !bh_str_eq(a->effect, b->effect))
        return false;
    return bh_time_is_zero(a->time_added) || bh_time_is_zero(b->time_added) || (d >= -1 && d <= 1);
}

static bool device_equal(const struct bh_resource_v1_device *a,
                         const struct bh_resource_v1_device *b)
{
    struct bh_resource_v1_device x = *a, y = *b;

    if (a->taints.n != b->taints.n)
        return false;
    for (size_t i = 0; i < a->taints.n; i++)
        if (!taint_equal(&a->taints.p[i], &b->taints.p[i]))
            return false;
    x.taints = y.taints = (struct bh_resource_v1_device_taint_vec){NULL, 0};
    return bh_msg_equal(&bh_resource_v1_device_type, &x, &y);
}

bool bh_slice_devices_equal(const struct bh_resource_v1_device *a, size_t an,
                            const struct bh_resource_v1_device *b, size_t bn)
{
    if (an != bn)
        return false;
    for (size_t i = 0; i < an; i++)
        if (!device_equal(&a[i], &b[i]))
            return false;
    return true;
}

static const struct bh_resource_v1_resource_slice *slice_of(const struct bh_obj *o)
{
    return bh_obj_struct(o);
}

static size_t hex_digits(size_t v)
{
    size_t n = 1;

    while (v >>= 4)
        n++;
    return n;
}

/* The index in front of a slice's name, or -1. */
static int64_t name_index(struct bh_str name, size_t width)
{
    ptrdiff_t dash = bh_str_chr(name, '-', 0);
    int64_t v = 0;

    if (dash < 0 || (size_t)dash != width || width > 15)
        return -1;
    for (size_t i = 0; i < width; i++) {
        char c = name.p[i];

        if (c >= '0' && c <= '9')
            v = v * 16 + (c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v * 16 + (c - 'a' + 10);
        else
            return -1;
    }
    return v;
}

static size_t parts(size_t n, size_t each)
{
    return (n + each - 1) / each;
}

/* Slices of devices; at least one. */
static size_t device_slices(const struct bh_slice_pool *w)
{
    return w->devices_n == 0 ? 1 : parts(w->devices_n, BH_SLICE_DEVICES);
}

static size_t slices(const struct bh_slice_pool *w)
{
    return device_slices(w) + parts(w->counters_n, BH_SLICE_COUNTERS);
}

/* Part i of the device list; nothing for the slices behind. */
static void part(const struct bh_slice_pool *w, size_t i,
                 const struct bh_resource_v1_device **ret_p, size_t *ret_n)
{
    size_t at = i * BH_SLICE_DEVICES;

    *ret_n = 0;
    if (i < device_slices(w))
        *ret_n = w->devices_n - at < BH_SLICE_DEVICES ? w->devices_n - at : BH_SLICE_DEVICES;
    *ret_p = *ret_n > 0 ? w->devices + at : NULL;
}

/* The counters of slice i; nothing for the slices before. */
static struct bh_resource_v1_counter_set_vec counters_of(const struct bh_slice_pool *w, size_t i)
{
    struct bh_resource_v1_counter_set_vec v = {NULL, 0};
    size_t at;

    if (i < device_slices(w))
        return v;
    at = (i - device_slices(w)) * BH_SLICE_COUNTERS;
    v.n = w->counters_n - at < BH_SLICE_COUNTERS ? w->counters_n - at : BH_SLICE_COUNTERS;
    /* Those who take it only read it. */
    v.p = (struct bh_resource_v1_counter_set *)(uintptr_t)(w->counters + at);
    return v;
}

static bool counters_equal(const struct bh_resource_v1_counter_set_vec *a,
                           const struct bh_resource_v1_counter_set_vec *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!bh_msg_equal(&bh_resource_v1_counter_set_type, &a->p[i], &b->p[i]))
            return false;
    return true;
}

/* A taint that stays keeps the time at which it began, unless the driver says another. */
static void keep_times(struct bh_resource_v1_device_vec *devices,
                       const struct bh_resource_v1_device_vec *old)
{
    for (size_t i = 0; i < devices->n; i++) {
        struct bh_resource_v1_device *d = &devices->p[i];
        size_t k = i;

        if (k >= old->n || !bh_str_eq(old->p[k].name, d->name))
            for (k = 0; k < old->n && !bh_str_eq(old->p[k].name, d->name); k++)
                ;
        if (k == old->n)
            continue;
        for (size_t t = 0; t < d->taints.n; t++)
            for (size_t o = 0; o < old->p[k].taints.n; o++)
                if (bh_time_is_zero(d->taints.p[t].time_added) &&
                    taint_equal(&d->taints.p[t], &old->p[k].taints.p[o]))
                    d->taints.p[t].time_added = old->p[k].taints.p[o].time_added;
    }
}

static void spec_fill(struct bh_arena *a, const struct bh_slice_pool *w, size_t i, size_t count,
                      int64_t generation, struct bh_resource_v1_resource_slice *s)
{
    const struct bh_resource_v1_device *p;
    struct bh_resource_v1_resource_slice_spec src = {0};

    part(w, i, &p, &src.devices.n);
    /* bh_msg_copy() only reads what src points to. */
    src.devices.p = (struct bh_resource_v1_device *)(uintptr_t)p;
    src.shared_counters = counters_of(w, i);
    src.driver = w->driver;
    src.node_name = w->node;
    src.has_node_name = true;
    src.pool.name = w->node;
    src.pool.generation = generation;
    src.pool.resource_slice_count = (int64_t)count;
    bh_msg_copy(&bh_resource_v1_resource_slice_spec_type, &s->spec, &src, a);
}

static struct bh_resource_v1_resource_slice *slice_new(struct bh_arena *a,
                                                       const struct bh_slice_pool *w, size_t i,
                                                       size_t count, size_t width,
                                                       int64_t generation)
{
    struct bh_resource_v1_resource_slice *s = bh_new(a, struct bh_resource_v1_resource_slice);
    struct bh_meta_v1_owner_reference *o = bh_new(a, struct bh_meta_v1_owner_reference);

    s->metadata.generate_name =
        bh_str_fmt(a, "%0*zx-%.*s-%.*s-", (int)width, i, BH_SF(w->driver), BH_SF(w->node));
    o->api_version = BH_S("v1");
    o->kind = BH_S("Node");
    o->name = bh_str_dup(a, w->node);
    o->uid = bh_str_dup(a, w->node_uid);
    o->controller = true;
    o->has_controller = true;
    s->metadata.owner_references.p = o;
    s->metadata.owner_references.n = 1;
    spec_fill(a, w, i, count, generation, s);
    return s;
}

static bool slice_differs(const struct bh_slice_pool *w, size_t i, size_t count, int64_t generation,
                          const struct bh_resource_v1_resource_slice *s)
{
    struct bh_resource_v1_counter_set_vec counters = counters_of(w, i);
    const struct bh_resource_v1_device *p;
    size_t n;

    part(w, i, &p, &n);
    return !bh_str_eq(s->spec.pool.name, w->node) || s->spec.pool.generation != generation ||
           s->spec.pool.resource_slice_count != (int64_t)count || s->spec.node_selector != NULL ||
           (s->spec.has_all_nodes && s->spec.all_nodes) ||
           !counters_equal(&s->spec.shared_counters, &counters) ||
           !bh_slice_devices_equal(s->spec.devices.p, s->spec.devices.n, p, n);
}

static void op_add(struct bh_slice_plan *p, enum bh_slice_verb verb, const struct bh_obj *old,
                   struct bh_resource_v1_resource_slice *slice)
{
    p->ops[p->n++] = (struct bh_slice_op){verb, old, slice};
}

void bh_slice_plan_make(struct bh_arena *a, const struct bh_slice_pool *want,
                        const struct bh_obj *const *existing, size_t existing_n,
                        struct bh_slice_plan *ret)
{
    size_t count = slices(want);
    size_t width = hex_digits(count - 1) > PREFIX_MIN ? hex_digits(count - 1) : PREFIX_MIN;
    const struct bh_obj **match = bh_new_n(a, const struct bh_obj *, count);
    size_t missing = count, changed = 0;
    int64_t g = 0;
    bool bumped;

    memset(ret, 0, sizeof(*ret));
    ret->ops = bh_new_n(a, struct bh_slice_op, existing_n + count);
    for (size_t i = 0; i < existing_n; i++)
        if (slice_of(existing[i])->spec.pool.generation > g)
            g = slice_of(existing[i])->spec.pool.generation;
    for (size_t i = 0; i < existing_n; i++) {
        int64_t at = name_index(existing[i]->name, width);

        /* The pool's name and the driver cannot be changed: a slice with others is replaced. */
        if (at < 0 || (size_t)at >= count || match[at] ||
            slice_of(existing[i])->spec.pool.generation < g ||
            !bh_str_eq(slice_of(existing[i])->spec.pool.name, want->node)) {
            op_add(ret, BH_SLICE_DELETE, existing[i], NULL);
            continue;
        }
        match[at] = existing[i];
        missing--;
    }
    for (size_t i = 0; i < count; i++)
        if (match[i] && slice_differs(want, i, count, g, slice_of(match[i])))
            changed++;
    bumped = missing > 0 || changed > 1;
    ret->generation = bumped ? g + 1 : g;
    for (size_t i = 0; i < count; i++) {
        struct bh_resource_v1_resource_slice *s;

        if (!match[i] || (!bumped && !slice_differs(want, i, count, g, slice_of(match[i]))))
            continue;
        s = bh_msg_dup(&bh_resource_v1_resource_slice_type, slice_of(match[i]), a);
        spec_fill(a, want, i, count, ret->generation, s);
        keep_times(&s->spec.devices, &slice_of(match[i])->spec.devices);
        op_add(ret, BH_SLICE_UPDATE, match[i], s);
    }
    for (size_t i = 0; i < count; i++)
        if (!match[i])
            op_add(ret, BH_SLICE_CREATE, NULL,
                   slice_new(a, want, i, count, width, ret->generation));
}
