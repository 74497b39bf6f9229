/* What a node sees: pools with their generations, completeness and validity (dra.md section 3). */
#include "dra/dra_int.h"

#include <stdlib.h>
#include <string.h>

#include "dra/node_selector.h"

/* ---- which slices target a node ---- */

/* nodeName first, then allNodes, then the selector; known: it can be read, NULL if nobody keeps
 * that.
 */
static int targets(struct bh_str node_name, bool all, const struct bh_core_v1_node_selector *sel,
                   const struct dra_node *n, bool *known, struct bh_err *err)
{
    int r = 0;

    if (node_name.n)
        return bh_str_eq(node_name, n->name);
    if (all)
        return 1;
    if (!sel)
        return 0;
    /* Unlike a pod's affinity, a term that cannot be read counts though another one matches. */
    if (!known || !*known)
        r = bh_node_selector_check(sel, err);
    if (known)
        *known = r == 0;
    return r < 0 ? r : bh_node_selector_match(sel, n->name, &n->labels, err);
}

int dra_dev_targets(const struct dra_dev *d, const struct dra_node *n, struct bh_err *err)
{
    int r;

    if (!d->slice->per_device)
        return 1;
    r = targets(d->d->node_name, d->d->has_all_nodes && d->d->all_nodes, d->d->node_selector, n,
                NULL, err);
    return r < 0 ? bh_err_wrap(err, "failed to parse node selector") : r;
}

static int slice_targets(struct dra_slice *s, const struct dra_node *n, struct bh_err *err)
{
    const struct bh_resource_v1_resource_slice_spec *sp = s->spec;
    bool all = sp->has_all_nodes && sp->all_nodes;
    int r;

    if (sp->node_name.n || all || sp->node_selector) {
        r = targets(sp->node_name, all, sp->node_selector, n, &s->selector_ok, err);
        return r < 0 ? bh_err_wrap(err,
                                   "failed to perform node selection for slice %.*s: failed to "
                                   "parse node selector",
                                   BH_SF(s->name))
                     : r;
    }
    if (!s->per_device)
        return 0; /* selected by something this version does not know */
    for (size_t i = 0; i < s->n; i++) {
        r = dra_dev_targets(&s->devs[i], n, err);
        if (r < 0)
            return bh_err_wrap(err,
                               "failed to perform node selection for device %.*s in slice %.*s",
                               BH_SF(s->devs[i].d->name), BH_SF(s->name));
        if (r > 0)
            return r;
    }
    return 0;
}

static bool slice_off(const struct bh_dra_model *m, const struct dra_slice *s)
{
    return !m->f.partitionable_devices &&
           (s->spec->has_per_device_node_selection || s->spec->shared_counters.n);
}

/* ---- validity ---- */

static const struct bh_resource_v1_counter_set *set_find(const struct dra_pool *p, int64_t gen,
                                                         struct bh_str name)
{
    for (size_t i = 0; p->n_counters && i < p->n; i++) {
        const struct bh_resource_v1_resource_slice_spec *sp = p->slices[i]->spec;

        for (size_t k = 0; sp->pool.generation == gen && k < sp->shared_counters.n; k++)
            if (bh_str_eq(sp->shared_counters.p[k].name, name))
                return &sp->shared_counters.p[k];
    }
    return NULL;
}

static bool counters_known(const struct dra_pool *p, int64_t gen, const struct dra_slice *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct bh_resource_v1_device *d = s->devs[i].d;

        for (size_t k = 0; k < d->consumes_counters.n; k++) {
            const struct bh_resource_v1_device_counter_consumption *c = &d->consumes_counters.p[k];
            const struct bh_resource_v1_counter_set *set = set_find(p, gen, c->counter_set);

            if (!set)
                return false;
            for (size_t j = 0; j < c->counters.n; j++) {
                size_t x = 0;

                while (x < set->counters.n &&
                       !bh_str_eq(set->counters.p[x].key, c->counters.p[j].key))
                    x++;
                if (x == set->counters.n)
                    return false;
            }
        }
    }
    return true;
}

static bool sets_unique(const struct dra_pool *p, int64_t gen)
{
    size_t seen = 0;

    for (size_t i = 0; i < p->n; i++) {
        const struct bh_resource_v1_resource_slice_spec *sp = p->slices[i]->spec;

        for (size_t k = 0; sp->pool.generation == gen && k < sp->shared_counters.n; k++, seen++)
            if (seen &&
                set_find(p, gen, sp->shared_counters.p[k].name) != &sp->shared_counters.p[k])
                return false;
    }
    return true;
}

static bool names_unique(struct dra_slice *const *slices, size_t n)
{
    struct bh_map names = {0};
    bool ok = true;

    /* The API server sees to it inside one slice; a slice from elsewhere may still break it. */
    for (size_t i = 0; i < n && ok; i++)
        for (size_t k = 0; k < slices[i]->n && ok; k++)
            ok = bh_map_put(&names, slices[i]->devs[k].d->name, slices[i]) == NULL;
    bh_map_done(&names);
    return ok;
}

/* Device and counter names of the complete group; targeting slices are given, the others of this
 * generation belong to it when all is true. */
static bool pool_valid(const struct bh_dra_model *m, const struct dra_pool *p, int64_t gen,
                       struct dra_slice *const *targeting, size_t n)
{
    if (n && !names_unique(targeting, n))
        return false;
    if (!m->f.partitionable_devices)
        return true;
    if (p->n_counters && !sets_unique(p, gen))
        return false;
    for (size_t i = 0; i < p->n; i++)
        if (p->slices[i]->spec->pool.generation == gen && !counters_known(p, gen, p->slices[i]))
            return false;
    return true;
}

/* ---- groups ---- */

/* Reads one pool for a group of relevant slices. Returns false when it is obsolete for the node. */
static bool group_complete(const struct dra_pool *p, int64_t gen, size_t in_group,
                           const struct dra_slice *first, bool *ret_complete)
{
    int64_t want = first->spec->pool.resource_slice_count;
    int64_t n = 0;

    *ret_complete = true;
    if ((int64_t)in_group == want)
        return true;
    for (size_t i = 0; i < p->n; i++) {
        if (p->slices[i]->spec->pool.generation > gen)
            return false;
        n += p->slices[i]->spec->pool.generation == gen;
    }
    *ret_complete = n == want;
    return true;
}

int dra_pool_judge(const struct bh_dra_model *m, const struct dra_pool *p)
{
    const struct dra_slice *first = NULL;
    size_t in_group = 0;
    int64_t gen = INT64_MIN;
    bool complete;

    for (size_t i = 0; i < p->n; i++) {
        const struct dra_slice *s = p->slices[i];

        if (!s->counters || s->spec->pool.generation < gen)
            continue;
        if (!first || s->spec->pool.generation > gen) {
            first = s;
            in_group = 0;
            gen = s->spec->pool.generation;
        }
        in_group++;
    }
    if (!first || !group_complete(p, gen, in_group, first, &complete))
        return 0;
    return !complete ? 1 : pool_valid(m, p, gen, NULL, 0) ? 0 : 2;
}

/* To nodes that see all of a pool it is valid or not for all of them alike: judged once. */
static bool vpool_valid(const struct bh_dra_model *m, struct dra_pool *p, const struct dra_vpool *v,
                        size_t in_group)
{
    if (in_group != p->n)
        return pool_valid(m, p, v->gen, v->slices, v->n);
    if (p->whole == DRA_UNKNOWN)
        p->whole = pool_valid(m, p, v->gen, v->slices, v->n) ? DRA_YES : DRA_NO;
    return p->whole == DRA_YES;
}

/* The pool as n sees it: 1 filled in, 0 not to be seen, -BH_E_INVALID. */
static int vpool_make(const struct bh_dra_model *m, struct dra_pool *p, const struct dra_node *n,
                      struct dra_vpool *v, struct bh_arena *a, struct bh_err *err)
{
    const struct dra_slice *first = NULL;
    size_t in_group = 0;
    bool complete;

    memset(v, 0, sizeof(*v));
    v->pool = p;
    v->gen = INT64_MIN;
    v->slices = bh_new_n(a, struct dra_slice *, p->n);
    for (size_t i = 0; i < p->n; i++) {
        struct dra_slice *s = p->slices[i];
        int r = slice_off(m, s) ? 0 : s->counters ? 1 : slice_targets(s, n, err);

        if (r < 0)
            return r;
        if (r == 0 || s->spec->pool.generation < v->gen)
            continue;
        if (!first || s->spec->pool.generation > v->gen) {
            first = s;
            in_group = v->n = 0;
            v->gen = s->spec->pool.generation;
        }
        in_group++;
        if (!s->counters)
            v->slices[v->n++] = s;
    }
    if (!first || !group_complete(p, v->gen, in_group, first, &complete))
        return 0;
    v->incomplete = !complete;
    v->invalid = complete && !vpool_valid(m, p, v, in_group);
    for (size_t i = 0; complete && !v->invalid && i < v->n && !v->binding; i++)
        v->binding = v->slices[i]->binding;
    return 1;
}

int dra_vpool_cmp(const void *x, const void *y)
{
    const struct dra_vpool *a = x, *b = y;
    int r;

    if (a->binding != b->binding)
        return a->binding ? 1 : -1;
    r = bh_str_cmp(a->pool->driver, b->pool->driver);
    return r ? r : bh_str_cmp(a->pool->name, b->pool->name);
}

/* Whether one of the node's first k slices is of the pool. */
static bool has_local(const struct dra_node *n, size_t k, const struct dra_pool *p)
{
    for (size_t i = 0; i < k; i++)
        if (n->slices[i]->pool == p)
            return true;
    return false;
}

/* Copies the view into one block that lives as long as it is valid. */
static void sig_add(uint64_t *h, uint64_t v)
{
    *h = (*h ^ v) * 0x9e3779b97f4a7c15u;
    *h ^= *h >> 32;
}

/* Slices by address: while the pool's id is the same, they are. */
static uint64_t view_sig(const struct dra_view *w)
{
    uint64_t h = 1;

    for (size_t i = 0; i < w->n; i++) {
        const struct dra_vpool *p = &w->pools[i];

        sig_add(&h, p->pool->id);
        sig_add(&h, (uint64_t)p->gen);
        sig_add(&h, p->n << 3 | (uint64_t)p->incomplete << 2 | (uint64_t)p->invalid << 1 |
                        (uint64_t)p->binding);
        for (size_t k = 0; k < p->n; k++) {
            if (p->slices[k]->per_device) /* each device selects its nodes */
                return 0;
            sig_add(&h, (uintptr_t)p->slices[k]);
        }
    }
    return h ? h : 1;
}

static struct dra_view *view_pack(const struct dra_vpool *v, size_t n)
{
    size_t slices = 0;
    struct dra_view *w;
    struct dra_slice **at;

    for (size_t i = 0; i < n; i++)
        slices += v[i].n;
    w = bh_calloc(1, sizeof(*w) + n * sizeof(*v) + slices * sizeof(*at));
    w->pools = (struct dra_vpool *)(w + 1);
    w->n = n;
    if (n)
        memcpy(w->pools, v, n * sizeof(*v));
    at = (struct dra_slice **)(w->pools + n);
    for (size_t i = 0; i < n; i++) {
        struct dra_vpool *p = &w->pools[i];

        if (p->n)
            memcpy(at, p->slices, p->n * sizeof(*at));
        p->slices = at;
        at += p->n;
        for (size_t k = 0; k < p->n; k++)
            w->n_devices += p->slices[k]->n;
    }
    w->sig = view_sig(w);
    return w;
}

void dra_view_drop(struct dra_node *n)
{
    if (n->view)
        bh_free(n->view->fatal);
    bh_free(n->view);
    n->view = NULL;
}

static int open_cmp(const void *x, const void *y)
{
    const struct dra_pool *a = *(struct dra_pool *const *)x, *b = *(struct dra_pool *const *)y;
    int r = bh_str_cmp(a->driver, b->driver);

    return r ? r : bh_str_cmp(a->name, b->name);
}

static void open_sort(struct bh_dra_model *m)
{
    if (m->open_sorted)
        return;
    if (m->open_n)
        qsort(m->open_pools, m->open_n, sizeof(*m->open_pools), open_cmp);
    for (size_t i = 0; i < m->open_n; i++)
        m->open_pools[i]->open_at = i + 1;
    m->open_sorted = true;
}

/* Puts v[n] in its place among the n before it, which are in order. */
static void vpool_insert(struct dra_vpool *v, size_t n)
{
    struct dra_vpool x = v[n];
    size_t lo = 0, hi = n;

    if (n == 0 || dra_vpool_cmp(&v[n - 1], &x) <= 0)
        return;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (dra_vpool_cmp(&v[mid], &x) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(v + lo + 1, v + lo, (n - lo) * sizeof(*v));
    v[lo] = x;
}

/* All pools that the node sees, in order; the open ones, of which there may be many, are sorted
 * once for all nodes. */
static int view_pools(struct bh_dra_model *m, const struct dra_node *n, struct dra_vpool *v,
                      size_t *ret_n, struct bh_arena *a, struct bh_err *err)
{
    size_t k = 0, binding = 0;
    struct dra_vpool *late;
    int r = 0;

    open_sort(m);
    late = bh_new_n(a, struct dra_vpool, m->open_n);
    for (size_t i = 0; i < m->open_n && r >= 0; i++) {
        r = vpool_make(m, m->open_pools[i], n, &v[k], a, err);
        if (r > 0 && v[k].binding)
            late[binding++] = v[k];
        else
            k += r > 0;
    }
    if (binding)
        memcpy(v + k, late, binding * sizeof(*late));
    k += binding;
    for (size_t i = 0; i < n->n && r >= 0; i++) {
        struct dra_pool *p = n->slices[i]->pool;

        /* Slices of one pool may be many; their pool comes once. */
        if (p->n_open || (i > 0 && has_local(n, i, p)))
            continue;
        r = vpool_make(m, p, n, &v[k], a, err);
        if (r > 0)
            vpool_insert(v, k++);
    }
    *ret_n = k;
    return r;
}

struct dra_view *dra_view_get(struct bh_dra_model *m, struct dra_node *n)
{
    struct bh_err err = {0};
    struct dra_vpool *v;
    size_t k;
    int r;

    dra_flush(m);
    if (n->view && n->view_at == m->views)
        return n->view;
    dra_view_drop(n);
    m->st.views_built++;
    BH_AUTO_ARENA a = bh_arena_new(0);

    v = bh_new_n(a, struct dra_vpool, n->n + m->open_n);
    r = view_pools(m, n, v, &k, a, &err);
    n->view = view_pack(v, k);
    n->view_at = m->views;
    if (r < 0) {
        (void)bh_err_wrap(&err, "gather pool information");
        n->view->fatal = bh_strdup_c(bh_s(err.msg));
        n->view->sig = 0;
    }
    return n->view;
}

/* ---- counters ---- */

void dra_pool_counters_drop(struct dra_pool *p)
{
    bh_free(p->table);
    p->table = NULL;
    p->table_n = 0;
}

static struct bh_quantity qty(struct bh_str s)
{
    struct bh_quantity q = {0};

    /* Validated where it was written; what is not a number counts as nothing. */
    if (bh_quantity_parse(s, &q, NULL) < 0)
        memset(&q, 0, sizeof(q));
    return q;
}

static void dev_consumes(struct dra_dev *d)
{
    size_t n = 0;

    if (d->consumes || d->d->consumes_counters.n == 0)
        return;
    for (size_t i = 0; i < d->d->consumes_counters.n; i++)
        n += d->d->consumes_counters.p[i].counters.n;
    if (!d->slice->arena)
        d->slice->arena = bh_arena_new(0);
    d->consumes = bh_new_n(d->slice->arena, struct dra_consume, n);
    for (size_t i = 0; i < d->d->consumes_counters.n; i++) {
        const struct bh_resource_v1_device_counter_consumption *c = &d->d->consumes_counters.p[i];

        for (size_t k = 0; k < c->counters.n; k++) {
            struct dra_consume *x = &d->consumes[d->consumes_n++];

            x->set = c->counter_set;
            x->counter = c->counters.p[k].key;
            x->value = qty(c->counters.p[k].value.value);
            d->negative |= bh_quantity_sign(x->value) < 0;
        }
    }
}

static uint32_t slot_of(const struct dra_pool *p, const struct dra_consume *c)
{
    for (size_t i = 0; i < p->table_n; i++)
        if (bh_str_eq(p->table[i].set, c->set) && bh_str_eq(p->table[i].name, c->counter))
            return (uint32_t)i;
    return DRA_NONE;
}

void dra_pool_use(struct dra_pool *p, const struct dra_dev *d, bool take)
{
    if (!p->table || d->slice->spec->pool.generation != p->table_gen)
        return;
    for (size_t i = 0; i < d->consumes_n; i++) {
        const struct dra_consume *c = &d->consumes[i];
        struct dra_counter *t;
        bool over;

        if (c->slot == DRA_NONE)
            continue;
        t = &p->table[c->slot];
        over = bh_quantity_cmp(t->used, t->total) > 0;
        t->used = take ? bh_quantity_add(t->used, c->value) : bh_quantity_sub(t->used, c->value);
        p->table_over += (size_t)(bh_quantity_cmp(t->used, t->total) > 0) - (size_t)over;
        t->part = t->total_f > 0 ? bh_quantity_double(t->used) / t->total_f : 0;
    }
}

void dra_pool_counters(struct dra_pool *p, int64_t gen)
{
    size_t n = 0;

    if (p->table && p->table_gen == gen)
        return;
    dra_pool_counters_drop(p);
    for (size_t i = 0; i < p->n; i++) {
        const struct bh_resource_v1_resource_slice_spec *sp = p->slices[i]->spec;

        for (size_t k = 0; sp->pool.generation == gen && k < sp->shared_counters.n; k++)
            n += sp->shared_counters.p[k].counters.n;
    }
    p->table = bh_calloc(n, sizeof(*p->table));
    p->table_gen = gen;
    p->table_over = 0;
    p->table_negative = false;
    for (size_t i = 0; i < p->n; i++) {
        const struct bh_resource_v1_resource_slice_spec *sp = p->slices[i]->spec;

        for (size_t k = 0; sp->pool.generation == gen && k < sp->shared_counters.n; k++)
            for (size_t j = 0; j < sp->shared_counters.p[k].counters.n; j++) {
                struct dra_counter *t = &p->table[p->table_n++];

                t->set = sp->shared_counters.p[k].name;
                t->name = sp->shared_counters.p[k].counters.p[j].key;
                t->total = qty(sp->shared_counters.p[k].counters.p[j].value.value);
                t->total_f = bh_quantity_double(t->total);
                p->table_over += bh_quantity_sign(t->total) < 0;
            }
    }
    for (size_t i = 0; i < p->n; i++) {
        struct dra_slice *s = p->slices[i];

        if (s->spec->pool.generation != gen)
            continue;
        for (size_t k = 0; k < s->n; k++) {
            struct dra_dev *d = &s->devs[k];

            dev_consumes(d);
            for (size_t j = 0; j < d->consumes_n; j++)
                d->consumes[j].slot = slot_of(p, &d->consumes[j]);
            p->table_negative |= d->negative;
            if (dra_use_any(d->use))
                dra_pool_use(p, d, true);
        }
    }
}
