/* The model: nodes, slices, pools, classes and taint rules as the informers tell them, and the log
 * of what changed. */
#include "dra/dra_int.h"

#include <string.h>

#include "api/engine.h"
#include "api/gen/resource_v1beta2.h"

#define IMPLICIT_PREFIX "deviceclass.resource.kubernetes.io/"

struct bh_dra_features bh_dra_features_default(void)
{
    return (struct bh_dra_features){.admin_access = true,
                                    .prioritized_list = true,
                                    .partitionable_devices = true,
                                    .consumable_capacity = true,
                                    .device_taints = true,
                                    .binding_conditions = true};
}

struct bh_dra_features bh_dra_features_all(void)
{
    struct bh_dra_features f = bh_dra_features_default();

    f.taint_rules = true;
    f.list_attributes = true;
    return f;
}

struct bh_dra_model *bh_dra_model_new(const struct bh_dra_features *f)
{
    struct bh_dra_model *m = bh_calloc(1, sizeof(*m));

    m->f = *f;
    m->scratch = bh_arena_new(0);
    m->index_min = DRA_INDEX_MIN;
    m->index_max = DRA_INDEX_MAX;
    m->astray = DRA_ASTRAY;
    bh_list_init(&m->demand_lru);
    bh_list_init(&m->scan_lru);
    return m;
}

void dra_ptrs_grow(void *pp, size_t n, size_t *cap)
{
    void **p = *(void ***)pp;

    if (n < *cap)
        return;
    *cap = *cap ? *cap * 2 : 4;
    *(void ***)pp = bh_realloc(p, *cap * sizeof(void *));
}

static void ptrs_remove(void *pp, size_t *n, size_t at)
{
    void **p = *(void ***)pp;

    (*n)--;
    memmove(p + at, p + at + 1, (*n - at) * sizeof(void *));
}

/* ---- the log of changes ---- */

void dra_log_node(struct bh_dra_model *m, const struct dra_node *n, bool taken)
{
    if (m->quiet)
        return;
    m->log[m->seq % DRA_LOG_LEN] = n->idx | (taken ? DRA_LOG_TAKEN : 0);
    m->seq++;
}

void dra_log_open(struct bh_dra_model *m)
{
    if (!m->quiet)
        m->epoch++;
}

static void node_free_bit(struct bh_dra_model *m, const struct dra_node *n)
{
    uint64_t bit = UINT64_C(1) << (n->idx % 64);

    if (n->n_free)
        m->has_free[n->idx / 64] |= bit;
    else
        m->has_free[n->idx / 64] &= ~bit;
}

void dra_slice_free_add(struct bh_dra_model *m, struct dra_slice *s, int n)
{
    s->n_free = (size_t)((ptrdiff_t)s->n_free + n);
    if (!s->node)
        return;
    s->node->n_free = (size_t)((ptrdiff_t)s->node->n_free + n);
    node_free_bit(m, s->node);
}

/* ---- nodes ---- */

struct dra_node *dra_node_get(const struct bh_dra_model *m, struct bh_str name)
{
    return bh_map_get(&m->nodes, name);
}

static struct dra_node *node_make(struct bh_dra_model *m, struct bh_str name)
{
    struct dra_node *n = dra_node_get(m, name);
    char *p;

    if (n)
        return n;
    n = bh_calloc(1, sizeof(*n));
    p = bh_malloc(name.n + 1);
    memcpy(p, name.p, name.n);
    p[name.n] = '\0';
    n->name = (struct bh_str){p, name.n};
    n->idx = (uint32_t)m->idx_n;
    if (m->nodes.n < m->idx_n) /* there is a gap */
        for (n->idx = 0; m->by_idx[n->idx]; n->idx++)
            ;
    if (n->idx == m->idx_n) {
        dra_ptrs_grow(&m->by_idx, m->idx_n, &m->idx_cap);
        m->idx_n++;
        if (m->idx_n > m->has_free_words * 64) {
            size_t words = m->has_free_words ? m->has_free_words * 2 : 4;

            m->has_free = bh_realloc(m->has_free, words * sizeof(*m->has_free));
            memset(m->has_free + m->has_free_words, 0,
                   (words - m->has_free_words) * sizeof(*m->has_free));
            m->has_free_words = words;
        }
    }
    m->by_idx[n->idx] = n;
    (void)bh_map_put(&m->nodes, name, n);
    return n;
}

static void node_free(struct dra_node *n)
{
    dra_view_drop(n);
    bh_free(n->labels.p);
    bh_free((void *)(uintptr_t)n->name.p);
    bh_free(n->slices);
    bh_free(n);
}

/* A node that neither exists nor is named by a slice is forgotten. */
static void node_gc(struct bh_dra_model *m, struct dra_node *n)
{
    if (n->known || n->n)
        return;
    (void)bh_map_del(&m->nodes, n->name);
    m->by_idx[n->idx] = NULL;
    m->has_free[n->idx / 64] &= ~(UINT64_C(1) << (n->idx % 64));
    node_free(n);
}

static bool labels_eq(const struct bh_str_map *a, const struct bh_str_map *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!bh_str_eq(a->p[i].key, b->p[i].key) || !bh_str_eq(a->p[i].value, b->p[i].value))
            return false;
    return true;
}

static struct bh_str_map labels_copy(const struct bh_str_map *l)
{
    size_t bytes = l->n * sizeof(struct bh_str_pair);
    struct bh_str_map c = {.n = l->n};
    char *at;

    for (size_t i = 0; i < l->n; i++)
        bytes += l->p[i].key.n + l->p[i].value.n;
    c.p = bh_malloc(bytes);
    at = (char *)(c.p + l->n);
    for (size_t i = 0; i < l->n; i++) {
        struct bh_str k = l->p[i].key, v = l->p[i].value;

        if (k.n)
            memcpy(at, k.p, k.n);
        c.p[i].key = (struct bh_str){at, k.n};
        at += k.n;
        if (v.n)
            memcpy(at, v.p, v.n);
        c.p[i].value = (struct bh_str){at, v.n};
        at += v.n;
    }
    return c;
}

void bh_dra_node_put(struct bh_dra_model *m, struct bh_str name, const struct bh_str_map *labels)
{
    static const struct bh_str_map none;
    struct dra_node *n = dra_node_get(m, name);

    if (!labels)
        labels = &none;
    /* Heartbeats change nothing that matters here. */
    if (n && n->known && labels_eq(&n->labels, labels))
        return;
    n = node_make(m, name);
    n->known = true;
    bh_free(n->labels.p);
    n->labels = labels_copy(labels);
    dra_view_drop(n);
    dra_log_node(m, n, false);
}

void bh_dra_node_del(struct bh_dra_model *m, struct bh_str name)
{
    struct dra_node *n = dra_node_get(m, name);

    if (!n)
        return;
    n->known = false;
    node_gc(m, n);
}

/* ---- taint rules on devices ---- */

bool dra_taint_blocks(const struct bh_resource_v1_device_taint *t)
{
    return bh_str_eqc(t->effect, "NoSchedule") || bh_str_eqc(t->effect, "NoExecute");
}

static bool rule_wants_slice(const struct dra_rule *r, const struct dra_slice *s)
{
    return r->selects && (!r->has_driver || bh_str_eq(r->driver, s->pool->driver)) &&
           (!r->has_pool || bh_str_eq(r->pool, s->pool->name));
}

static void dev_rules(const struct bh_dra_model *m, struct dra_dev *d)
{
    size_t n = 0;

    bh_free(d->rule_taints);
    d->rule_taints = NULL;
    d->rule_taints_n = 0;
    for (int pass = 0; pass < 2; pass++) {
        n = 0;
        for (size_t i = 0; i < m->rules_n && n < UINT16_MAX; i++) {
            const struct dra_rule *r = m->rules[i];

            if (!rule_wants_slice(r, d->slice) ||
                (r->has_device && !bh_str_eq(r->device, d->d->name)))
                continue;
            if (pass)
                d->rule_taints[n] = &r->taint;
            n++;
        }
        if (n == 0)
            return;
        if (!pass)
            d->rule_taints = bh_calloc(n, sizeof(void *));
    }
    d->rule_taints_n = (uint16_t)n;
}

/* All devices that a rule selects, or did, get their taints anew. */
static void rule_apply(struct bh_dra_model *m, const struct dra_rule *r)
{
    size_t it = 0;
    struct bh_str key;
    void *v;

    if (!r->selects)
        return;
    m->index_epoch++;
    while (bh_map_next(&m->slices, &it, &key, &v)) {
        struct dra_slice *s = v;

        if (!rule_wants_slice(r, s))
            continue;
        for (size_t i = 0; i < s->n; i++)
            if (!r->has_device || bh_str_eq(r->device, s->devs[i].d->name))
                dev_rules(m, &s->devs[i]);
        if (s->node)
            dra_log_node(m, s->node, false);
        else
            dra_log_open(m);
    }
}

static size_t rule_at(const struct bh_dra_model *m, struct bh_str name)
{
    size_t i = 0;

    while (i < m->rules_n && bh_str_cmp(m->rules[i]->name, name) < 0)
        i++;
    return i;
}

void bh_dra_rule_del(struct bh_dra_model *m, struct bh_str name)
{
    size_t at = rule_at(m, name);
    struct dra_rule *r;

    if (at == m->rules_n || !bh_str_eq(m->rules[at]->name, name))
        return;
    r = m->rules[at];
    ptrs_remove(&m->rules, &m->rules_n, at);
    rule_apply(m, r);
    (void)bh_obj_unref(r->obj);
    bh_free(r);
}

/* Reads the object anew; the taints of devices point into the rule. */
static void rule_read(struct dra_rule *r, const struct bh_obj *o)
{
    const struct bh_resource_v1beta2_device_taint_rule *c = bh_obj_struct(o);
    const struct bh_resource_v1beta2_device_taint_selector *sel = c->spec.device_selector;
    struct bh_obj *now = bh_obj_ref(o); /* it may be the one that is there */

    (void)bh_obj_unref(r->obj);
    r->obj = now;
    r->name = r->obj->name;
    if (sel) {
        r->selects = true;
        r->driver = sel->driver;
        r->has_driver = sel->has_driver;
        r->pool = sel->pool;
        r->has_pool = sel->has_pool;
        r->device = sel->device;
        r->has_device = sel->has_device;
    }
    r->taint = (struct bh_resource_v1_device_taint){.key = c->spec.taint.key,
                                                    .value = c->spec.taint.value,
                                                    .effect = c->spec.taint.effect,
                                                    .time_added = c->spec.taint.time_added};
}

/* Status and annotations of rules change often, and change nothing here. */
static bool rule_same(const struct dra_rule *r, const struct bh_obj *o)
{
    const struct bh_resource_v1beta2_device_taint_rule *a = bh_obj_struct(r->obj),
                                                       *b = bh_obj_struct(o);

    return bh_msg_equal(&bh_resource_v1beta2_device_taint_rule_spec_type, &a->spec, &b->spec);
}

void bh_dra_rule_put(struct bh_dra_model *m, const struct bh_obj *o)
{
    struct dra_rule *r;
    size_t at;

    if (!m->f.taint_rules)
        return;
    at = rule_at(m, o->name);
    if (at < m->rules_n && bh_str_eq(m->rules[at]->name, o->name) && rule_same(m->rules[at], o)) {
        rule_read(m->rules[at], o);
        return;
    }
    bh_dra_rule_del(m, o->name);
    r = bh_calloc(1, sizeof(*r));
    rule_read(r, o);
    at = rule_at(m, r->name);
    dra_ptrs_grow(&m->rules, m->rules_n, &m->rules_cap);
    memmove(m->rules + at + 1, m->rules + at, (m->rules_n - at) * sizeof(void *));
    m->rules[at] = r;
    m->rules_n++;
    rule_apply(m, r);
}

/* ---- pools ---- */

static struct dra_pool *pool_make(struct bh_dra_model *m, struct bh_str driver, struct bh_str name)
{
    BH_AUTO_BUF key = {0};
    struct dra_pool *p;
    char *s;

    bh_buf_adds(&key, driver);
    bh_buf_addc(&key, '\0');
    bh_buf_adds(&key, name);
    p = bh_map_get(&m->pools, bh_buf_str(&key));
    if (p)
        return p;
    p = bh_calloc(1, sizeof(*p));
    s = bh_memdup(key.p, key.n);
    p->driver = (struct bh_str){s, driver.n};
    p->name = (struct bh_str){s + driver.n + 1, name.n};
    (void)bh_map_put(&m->pools, bh_buf_str(&key), p);
    return p;
}

static void pool_free(struct dra_pool *p)
{
    dra_pool_counters_drop(p);
    bh_free((void *)(uintptr_t)p->driver.p);
    bh_free(p->slices);
    bh_free(p);
}

static void pool_dirty(struct bh_dra_model *m, struct dra_pool *p)
{
    dra_pool_counters_drop(p);
    dra_index_forget(m, p);
    p->id = ++m->ids;
    p->whole = DRA_UNKNOWN;
    if (p->n_open) {
        m->views++;
        dra_log_open(m);
    }
    if (p->dirty)
        return;
    p->dirty = true;
    dra_ptrs_grow(&m->dirty, m->dirty_n, &m->dirty_cap);
    m->dirty[m->dirty_n++] = p;
}

/* Takes p out of (or puts it into) a list whose place the pool remembers as 1 + index. */
static void list_toggle(struct dra_pool ***list, size_t *n, size_t *cap, struct dra_pool *p,
                        size_t *at, bool in, size_t at_off)
{
    if (in == (*at != 0))
        return;
    if (in) {
        dra_ptrs_grow(list, *n, cap);
        (*list)[*n] = p;
        *at = ++*n;
        return;
    }
    struct dra_pool *last = (*list)[--*n];

    (*list)[*at - 1] = last;
    *(size_t *)(void *)((char *)last + at_off) = *at;
    *at = 0;
}

static void pool_set_open(struct bh_dra_model *m, struct dra_pool *p, bool in)
{
    m->open_sorted = m->open_sorted && in == (p->open_at != 0);
    list_toggle(&m->open_pools, &m->open_n, &m->open_cap, p, &p->open_at, in,
                offsetof(struct dra_pool, open_at));
}

static void pool_set_bad(struct bh_dra_model *m, struct dra_pool *p, bool in)
{
    list_toggle(&m->bad_pools, &m->bad_n, &m->bad_cap, p, &p->bad_at, in,
                offsetof(struct dra_pool, bad_at));
}

void dra_flush(struct bh_dra_model *m)
{
    for (size_t i = 0; i < m->dirty_n; i++) {
        struct dra_pool *p = m->dirty[i];
        enum { FINE, BAD_INCOMPLETE, BAD_INVALID } bad = FINE;

        p->dirty = false;
        if (p->n == 0) {
            BH_AUTO_BUF key = {0};

            bh_buf_add(&key, p->driver.p, p->driver.n + 1 + p->name.n);
            pool_set_bad(m, p, false);
            (void)bh_map_del(&m->pools, bh_buf_str(&key));
            pool_free(p);
            continue;
        }
        for (size_t k = 0; k < p->n; k++)
            if (p->slices[k]->node) {
                dra_view_drop(p->slices[k]->node);
                dra_log_node(m, p->slices[k]->node, false);
            }
        if (p->n_counters && m->f.partitionable_devices) {
            int r = dra_pool_judge(m, p);

            bad = r == 0 ? FINE : r == 1 ? BAD_INCOMPLETE : BAD_INVALID;
        }
        /* Every node has to do with a bad pool of counters, as upstream. */
        if ((bad != FINE) != (p->bad_at != 0) || p->bad_incomplete != (bad == BAD_INCOMPLETE))
            dra_log_open(m);
        p->bad_incomplete = bad == BAD_INCOMPLETE;
        pool_set_bad(m, p, bad != FINE);
    }
    m->dirty_n = 0;
}

/* ---- slices ---- */

static void slices_insert(struct dra_slice ***pp, size_t *n, size_t *cap, struct dra_slice *s)
{
    size_t lo = 0, hi = *n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (bh_str_cmp((*pp)[mid]->name, s->name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    dra_ptrs_grow(pp, *n, cap);
    memmove(*pp + lo + 1, *pp + lo, (*n - lo) * sizeof(void *));
    (*pp)[lo] = s;
    (*n)++;
}

static void slices_remove(struct dra_slice ***pp, size_t *n, const struct dra_slice *s)
{
    for (size_t i = 0; i < *n; i++)
        if ((*pp)[i] == s) {
            ptrs_remove(pp, n, i);
            return;
        }
}

static void slice_free(struct dra_slice *s)
{
    for (size_t i = 0; i < s->n; i++)
        bh_free(s->devs[i].rule_taints);
    bh_free(s->devs);
    (void)bh_arena_free(s->arena);
    (void)bh_obj_unref(s->obj);
    bh_free(s);
}

static bool slice_is_open(const struct dra_slice *s)
{
    return !s->node && !s->counters;
}

static size_t natives_in(const struct dra_slice *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        n += s->devs[i].d->node_allocatable_resource_mappings.n != 0;
    return n;
}

static void slice_link(struct bh_dra_model *m, struct dra_slice *s)
{
    struct dra_pool *p = pool_make(m, s->spec->driver, s->spec->pool.name);

    s->pool = p;
    slices_insert(&p->slices, &p->n, &p->cap, s);
    if (s->spec->node_name.n && !s->counters) {
        s->node = node_make(m, s->spec->node_name);
        slices_insert(&s->node->slices, &s->node->n, &s->node->cap, s);
    }
    p->n_open += slice_is_open(s);
    p->n_counters += s->counters;
    pool_set_open(m, p, p->n_open != 0);
    for (size_t i = 0; i < s->n; i++) {
        dra_use_put_dev(m, &s->devs[i]);
        if (m->rules_n)
            dev_rules(m, &s->devs[i]);
    }
    m->st.slices++;
    m->st.devices += s->n;
    m->natives += natives_in(s);
    pool_dirty(m, p);
}

static void slice_unlink(struct bh_dra_model *m, struct dra_slice *s)
{
    struct dra_pool *p = s->pool;
    struct dra_node *n = s->node;

    pool_dirty(m, p); /* before its slices are fewer: open ones count */
    for (size_t i = 0; i < s->n; i++) {
        dra_use_del_dev(m, &s->devs[i]);
        dra_content_leave(m, &s->devs[i]);
    }
    slices_remove(&p->slices, &p->n, s);
    p->n_open -= slice_is_open(s);
    p->n_counters -= s->counters;
    pool_set_open(m, p, p->n_open != 0);
    m->st.slices--;
    m->st.devices -= s->n;
    m->natives -= natives_in(s);
    if (!n)
        return;
    /* The pool no longer leads there. */
    dra_view_drop(n);
    dra_log_node(m, n, false);
    slices_remove(&n->slices, &n->n, s);
    s->node = NULL;
    node_gc(m, n);
}

void bh_dra_slice_put(struct bh_dra_model *m, const struct bh_obj *o)
{
    const struct bh_resource_v1_resource_slice *c = bh_obj_struct(o);
    struct dra_slice *s = bh_calloc(1, sizeof(*s)), *old;

    s->id = ++m->ids;
    s->obj = bh_obj_ref(o);
    s->spec = &c->spec;
    s->name = s->obj->name;
    s->counters = c->spec.shared_counters.n != 0;
    s->per_device = c->spec.has_per_device_node_selection && c->spec.per_device_node_selection;
    s->n = s->counters ? 0 : c->spec.devices.n;
    s->devs = bh_calloc(s->n, sizeof(*s->devs));
    for (size_t i = 0; i < s->n; i++) {
        struct dra_dev *d = &s->devs[i];

        d->d = &c->spec.devices.p[i];
        d->slice = s;
        d->multi = d->d->has_allow_multiple_allocations && d->d->allow_multiple_allocations;
        d->binding = d->d->binding_conditions.n != 0;
        s->binding |= d->binding;
        dra_dev_locate(d);
        /* Before the old slice goes: what selectors said of an unchanged device stays known. */
        dra_content_join(m, d);
    }
    old = bh_map_put(&m->slices, s->name, s);
    if (old) {
        slice_unlink(m, old);
        slice_free(old);
    }
    slice_link(m, s);
}

void bh_dra_slice_del(struct bh_dra_model *m, struct bh_str name)
{
    struct dra_slice *s = bh_map_del(&m->slices, name);

    if (!s)
        return;
    slice_unlink(m, s);
    slice_free(s);
}

/* ---- classes ---- */

/* Whether a serves the resource rather than b: the newest, then the smaller name. */
static bool class_wins(const struct dra_class *a, const struct dra_class *b)
{
    struct bh_time ta = a->c->metadata.creation_timestamp, tb = b->c->metadata.creation_timestamp;

    if (ta.sec != tb.sec)
        return ta.sec > tb.sec;
    if (ta.nsec != tb.nsec)
        return ta.nsec > tb.nsec;
    return bh_str_cmp(a->obj->name, b->obj->name) < 0;
}

static struct bh_str class_resource(const struct bh_resource_v1_device_class *c)
{
    return c->spec.has_extended_resource_name ? c->spec.extended_resource_name : (struct bh_str){0};
}

static void ext_update(struct bh_dra_model *m, struct bh_str resource)
{
    const struct dra_class *best = NULL;
    size_t it = 0;
    struct bh_str key;
    void *v;

    if (resource.n == 0)
        return;
    while (bh_map_next(&m->classes, &it, &key, &v)) {
        const struct dra_class *c = v;

        if (bh_str_eq(class_resource(c->c), resource) && (!best || class_wins(c, best)))
            best = c;
    }
    if (best)
        (void)bh_map_put(&m->ext, resource, (void *)(uintptr_t)best);
    else
        (void)bh_map_del(&m->ext, resource);
}

static void class_free(struct bh_dra_model *m, struct dra_class *c)
{
    if (!c)
        return;
    dra_class_forget(m, c);
    (void)bh_obj_unref(c->obj);
    bh_free(c);
}

void bh_dra_class_put(struct bh_dra_model *m, const struct bh_obj *o)
{
    struct dra_class *c = bh_calloc(1, sizeof(*c)), *old;

    c->obj = bh_obj_ref(o);
    c->c = bh_obj_struct(o);
    old = bh_map_put(&m->classes, c->obj->name, c);
    if (!old || !bh_msg_equal(&bh_resource_v1_device_class_spec_type, &old->c->spec, &c->c->spec))
        dra_demands_drop(m);
    ext_update(m, class_resource(c->c));
    if (old)
        ext_update(m, class_resource(old->c));
    class_free(m, old);
}

void bh_dra_class_del(struct bh_dra_model *m, struct bh_str name)
{
    struct dra_class *c = bh_map_del(&m->classes, name);

    if (!c)
        return;
    dra_demands_drop(m);
    ext_update(m, class_resource(c->c));
    class_free(m, c);
}

const struct bh_resource_v1_device_class *bh_dra_class(const struct bh_dra_model *m,
                                                       struct bh_str name)
{
    const struct dra_class *c = bh_map_get(&m->classes, name);

    return c ? c->c : NULL;
}

struct bh_str bh_dra_class_of_resource(const struct bh_dra_model *m, struct bh_str resource)
{
    const struct dra_class *c = NULL;

    if (bh_str_starts(resource, BH_S(IMPLICIT_PREFIX)))
        c = bh_map_get(&m->classes, bh_str_sub(resource, sizeof(IMPLICIT_PREFIX) - 1, resource.n));
    if (!c)
        c = bh_map_get(&m->ext, resource);
    return c ? c->obj->name : (struct bh_str){0};
}

/* ---- the end, and figures ---- */

struct bh_dra_model *bh_dra_model_free(struct bh_dra_model *m)
{
    size_t it = 0;
    struct bh_str key;
    void *v;

    if (!m)
        return NULL;
    dra_demands_drop(m);
    while (bh_map_next(&m->slices, &it, &key, &v)) {
        (void)bh_map_del(&m->slices, key);
        slice_unlink(m, v);
        slice_free(v);
    }
    dra_flush(m); /* empty pools go */
    dra_ledger_done(m);
    for (it = 0; bh_map_next(&m->classes, &it, &key, &v);)
        class_free(m, v);
    for (size_t i = 0; i < m->rules_n; i++) {
        (void)bh_obj_unref(m->rules[i]->obj);
        bh_free(m->rules[i]);
    }
    for (it = 0; bh_map_next(&m->nodes, &it, &key, &v);)
        node_free(v);
    dra_sels_done(m);
    struct bh_map *maps[] = {&m->nodes, &m->slices,   &m->pools,   &m->classes, &m->uses,  &m->held,
                             &m->sels,  &m->contents, &m->demands, &m->ext,     &m->scenes};
    for (size_t i = 0; i < BH_COUNT(maps); i++)
        bh_map_done(maps[i]);
    bh_free(m->rules);
    bh_free(m->by_idx);
    bh_free(m->has_free);
    bh_free(m->open_pools);
    bh_free(m->bad_pools);
    bh_free(m->dirty);
    bh_free(m->free_ids);
    bh_free(m->cands);
    bh_buf_done(&m->keybuf);
    (void)bh_arena_free(m->scratch);
    bh_free(m);
    return NULL;
}

void bh_dra_stats(const struct bh_dra_model *m, struct bh_dra_stats *ret)
{
    *ret = m->st;
    ret->nodes = m->nodes.n;
    ret->pools = m->pools.n;
    ret->claims = m->held.n;
    ret->asks = m->demands_n;
}
