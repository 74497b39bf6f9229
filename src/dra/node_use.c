/* What devices mean for the resources of a node: those that stand for cpu, memory and the like of
 * the node itself (section 6.11), and how many of a class there are and are in use, which is what
 * an extended resource of that class is to a score. */
#include "dra/dra_int.h"

bool bh_dra_any_native(const struct bh_dra_model *m)
{
    return m->natives != 0;
}

/* The device as its pool's newest slice has it. NULL: nobody publishes it. */
static const struct bh_resource_v1_device *
published(struct bh_dra_model *m, const struct bh_resource_v1_device_request_allocation_result *r)
{
    const struct dra_use *u = dra_use_find(m, r->driver, r->pool, r->device);
    const struct dra_dev *best = u ? u->devs : NULL;

    for (const struct dra_dev *d = best; d; d = d->use_next)
        if (d->slice->spec->pool.generation > best->slice->spec->pool.generation)
            best = d;
    return best ? best->d : NULL;
}

/* One amount among those of the claim. */
struct native {
    struct bh_str name;
    struct bh_quantity q;
};
struct natives {
    struct native *p;
    size_t n, cap;
    struct bh_arena *a;
};

static void add(struct natives *t, struct bh_str name, struct bh_quantity q)
{
    size_t i = 0;

    while (i < t->n && bh_str_cmp(t->p[i].name, name) < 0)
        i++;
    if (i < t->n && bh_str_eq(t->p[i].name, name)) {
        t->p[i].q = bh_quantity_add(t->p[i].q, q);
        return;
    }
    bh_arena_grow(t->a, &t->p, &t->cap, t->n + 1, sizeof(*t->p));
    for (size_t k = t->n++; k > i; k--)
        t->p[k] = t->p[k - 1];
    t->p[i] = (struct native){name, q};
}

/* A quantity that was stored can be read; one that cannot counts as nothing. */
static struct bh_quantity quantity(struct bh_str text)
{
    struct bh_quantity q = {0};

    if (bh_quantity_parse(text, &q, NULL) < 0)
        return (struct bh_quantity){0};
    return q;
}

/* 1: it takes *ret; 0: nothing in this allocation. */
static int amount(const struct bh_resource_v1_node_allocatable_resource_mapping *m,
                  const struct bh_resource_v1_device_request_allocation_result *r,
                  struct bh_str resource, struct bh_quantity *ret, struct bh_err *err)
{
    const struct bh_str *consumed;

    *ret =
        m->has_allocation_multiplier ? quantity(m->allocation_multiplier) : (struct bh_quantity){0};
    if (!m->has_capacity_key || !m->capacity_key.n)
        return 1;
    if (!r->consumed_capacity.n)
        return bh_err_set(err, BH_E_INVALID,
                          "device %.*s: ConsumedCapacity is nil, but Capacity key '%.*s' is set in "
                          "NodeAllocatableResourceMappings for resource %.*s",
                          BH_SF(r->device), BH_SF(m->capacity_key), BH_SF(resource));
    consumed = bh_str_map_get(&r->consumed_capacity, m->capacity_key);
    if (!consumed)
        return 0;
    *ret = m->has_allocation_multiplier ? bh_quantity_product(quantity(*consumed), *ret)
                                        : quantity(*consumed);
    return 1;
}

static int add_device(struct natives *t, const struct bh_resource_v1_device *d,
                      const struct bh_resource_v1_device_request_allocation_result *r,
                      struct bh_err *err)
{
    for (size_t i = 0; i < d->node_allocatable_resource_mappings.n; i++) {
        struct bh_str name = d->node_allocatable_resource_mappings.p[i].key;
        struct bh_quantity q;
        int n = amount(&d->node_allocatable_resource_mappings.p[i].value, r, name, &q, err);

        if (n < 0)
            return n;
        if (n)
            add(t, name, q);
    }
    return 0;
}

int bh_dra_native(struct bh_dra_model *m, struct bh_str ns, struct bh_str name,
                  const struct bh_resource_v1_allocation_result *alloc, struct bh_arena *a,
                  struct bh_str_map *ret, struct bh_err *err)
{
    const struct bh_resource_v1_device_request_allocation_result_vec *v = &alloc->devices.results;
    struct natives t = {.a = a};
    bool any = false;

    *ret = (struct bh_str_map){NULL, 0};
    for (size_t i = 0; i < v->n && !any; i++) {
        const struct bh_resource_v1_device *d = published(m, &v->p[i]);

        any = d && d->node_allocatable_resource_mappings.n;
    }
    for (size_t i = 0; i < v->n && any; i++) {
        const struct bh_resource_v1_device *d = published(m, &v->p[i]);
        int r = d ? add_device(&t, d, &v->p[i], err)
                  : bh_err_set(err, BH_E_INVALID, "device %.*s: device %.*s not found in pool %.*s",
                               BH_SF(v->p[i].device), BH_SF(v->p[i].device), BH_SF(v->p[i].pool));

        if (r < 0)
            return bh_err_wrap(err, "claim %.*s/%.*s", BH_SF(ns), BH_SF(name));
    }
    ret->p = bh_new_n(a, struct bh_str_pair, t.n);
    for (; ret->n < t.n; ret->n++)
        ret->p[ret->n] = (struct bh_str_pair){bh_str_dup(a, t.p[ret->n].name),
                                              bh_quantity_str(a, t.p[ret->n].q)};
    return 0;
}

/* ---- devices of a class ---- */

static int of_class(struct bh_dra_model *m, struct dra_class *c, struct dra_dev *d)
{
    for (size_t i = 0; i < c->sels_n; i++) {
        int r = dra_sel_judge(m, c->sels[i], d, NULL);

        if (r <= 0)
            return r;
    }
    return 1;
}

bool bh_dra_class_count(struct bh_dra_model *m, struct bh_str class, struct bh_str node,
                        int64_t *ret_all, int64_t *ret_used)
{
    struct dra_class *c = bh_map_get(&m->classes, class);
    struct dra_node *n = dra_node_get(m, node);
    const struct dra_view *v;

    *ret_all = *ret_used = 0;
    if (!c || !n)
        return false;
    dra_flush(m);
    dra_class_compile(m, c);
    v = dra_view_get(m, n);
    for (size_t i = 0; i < v->n; i++)
        for (size_t s = 0; s < v->pools[i].n; s++)
            for (size_t k = 0; k < v->pools[i].slices[s]->n; k++) {
                struct dra_dev *d = &v->pools[i].slices[s]->devs[k];
                int r = dra_dev_targets(d, n, NULL);

                if (r > 0)
                    r = of_class(m, c, d);
                if (r < 0) { /* as upstream: one device that cannot be judged, and none counts */
                    *ret_all = *ret_used = 0;
                    return false;
                }
                *ret_all += r;
                *ret_used += r && dra_use_any(d->use);
            }
    return true;
}
