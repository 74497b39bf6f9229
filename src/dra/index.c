/* The index: which devices may serve a request at all, kept from call to call.
 *
 * Where nodes see few devices, looking at each costs little. Where they all see the same thousands
 * of them, most of what one pod's search would find out was found out for the pod before, and a
 * claim changes the answer for a handful. So for views that are large,
 *
 *   a scene  holds the candidates of all nodes that see the same devices alike, in their order
 *   a scan   says for each request of a demand which of them the books let serve it, taken on
 *            their own; for scoring it keeps those in order, too
 *
 * and a log of the devices whose use changed says which of these answers to find out again. What
 * depends on the call (its own placements, constraints) is left to the search, which passes over
 * nothing but what it would have refused.
 */
#include "dra/index.h"

#include <stdlib.h>
#include <string.h>

/* Where there are more than DRA_INDEX_MAX candidates, some 16 bytes each, the scans least used go:
 * but not those that were used within so many calls: where more is in use than may be kept, the
 * rest does without, as making a scan costs more than a search without one. */
#define INDEX_KEEP_CALLS 4096u

/* Where the devices of a slice, or of all slices of a pool, stand. */
struct span {
    uint64_t id;
    uint32_t first, n;
};

struct dra_scene {
    uint64_t sig;
    struct dra_cand *cands;
    size_t n;
    size_t first_binding; /* pools with binding conditions stand behind all others */
    double *size;         /* of each candidate; NULL until something is put in order */
    struct span *spans;   /* by id */
    size_t spans_n;
    size_t scans;
    struct dra_values *values;
    bool topo; /* some device says where it sits */
};

/* ---- scenes ---- */

static int span_cmp(const void *x, const void *y)
{
    const struct span *a = x, *b = y;

    return a->id < b->id ? -1 : a->id > b->id;
}

static const struct span *span_find(const struct dra_scene *e, uint64_t id)
{
    struct span key = {.id = id};

    return bsearch(&key, e->spans, e->spans_n, sizeof(key), span_cmp);
}

static struct dra_scene *scene_new(struct bh_dra_model *m, const struct dra_view *v)
{
    struct dra_scene *e = bh_calloc(1, sizeof(*e));
    size_t at = 0, spans = 0;

    e->sig = v->sig;
    e->cands = bh_calloc(v->n_devices, sizeof(*e->cands));
    e->n = dra_cands_fill(v, e->cands);
    e->first_binding = e->n;
    for (size_t i = 0; i < v->n; i++)
        spans += 1 + v->pools[i].n;
    e->spans = bh_calloc(spans, sizeof(*e->spans));
    for (size_t i = 0; i < v->n; i++) {
        const struct dra_vpool *p = &v->pools[i];
        size_t pool = e->spans_n;

        if (p->incomplete || p->invalid)
            continue;
        if (p->binding && e->first_binding == e->n)
            e->first_binding = at;
        e->spans[e->spans_n++] = (struct span){p->pool->id, (uint32_t)at, 0};
        for (size_t k = 0; k < p->n; at += p->slices[k]->n, k++)
            e->spans[e->spans_n++] =
                (struct span){p->slices[k]->id, (uint32_t)at, (uint32_t)p->slices[k]->n};
        e->spans[pool].n = (uint32_t)(at - e->spans[pool].first);
    }
    qsort(e->spans, e->spans_n, sizeof(*e->spans), span_cmp);
    for (size_t i = 0; i < e->n && !e->topo; i++)
        for (size_t k = 0; k < DRA_TOPO_N; k++)
            e->topo |= e->cands[i].dev->topo[k] != 0;
    (void)bh_map_put(&m->scenes, (struct bh_str){(const char *)&e->sig, sizeof(e->sig)}, e);
    m->index_load += e->n;
    return e;
}

static void scene_free(struct bh_dra_model *m, struct dra_scene *e)
{
    (void)bh_map_del(&m->scenes, (struct bh_str){(const char *)&e->sig, sizeof(e->sig)});
    m->index_load -= e->n;
    bh_free(e->cands);
    bh_free(e->size);
    bh_free(e->spans);
    for (struct dra_values *v = e->values, *next; v; v = next) {
        next = v->next;
        bh_free((void *)(uintptr_t)v->attr.p);
        bh_free(v->id);
        bh_free(v);
    }
    bh_free(e);
}

/* ---- values of attributes ---- */

/* Equal for values that matchAttribute takes for equal; false for what is no single value. */
static bool value_key(const struct bh_resource_v1_device_attribute *a, struct bh_buf *b)
{
    bh_buf_clear(b);
    if (a->has_int)
        bh_buf_addf(b, "i%lld", (long long)a->int_);
    else if (a->ints.n)
        return false;
    else if (a->has_bool)
        bh_buf_addf(b, "b%d", a->bool_);
    else if (a->bools.n)
        return false;
    else if (a->has_string)
        bh_buf_addf(b, "s%.*s", BH_SF(a->string));
    else if (a->strings.n)
        return false;
    else if (a->has_version)
        bh_buf_addf(b, "v%.*s", BH_SF(a->version));
    else
        return false;
    return true;
}

static const struct dra_values *values_get(struct dra_scene *e, const struct dra_con *con)
{
    struct dra_values *v = e->values;
    struct bh_map ids = {0};
    BH_AUTO_BUF key = {0};

    while (v && !bh_str_eq(v->attr, con->attr))
        v = v->next;
    if (v)
        return v;
    v = bh_calloc(1, sizeof(*v));
    v->attr = (struct bh_str){bh_memdup(con->attr.p, con->attr.n), con->attr.n};
    v->id = bh_calloc(e->n, sizeof(*v->id));
    v->n = 1;
    v->next = e->values;
    e->values = v;
    for (size_t i = 0; i < e->n; i++) {
        const struct bh_resource_v1_device_attribute *a = dra_attr(e->cands[i].dev, con);
        uintptr_t id;

        if (!a)
            continue;
        if (!value_key(a, &key)) {
            v->id[i] = DRA_VALUE_ANY;
            continue;
        }
        id = (uintptr_t)bh_map_get(&ids, bh_buf_str(&key));
        if (!id) {
            id = v->n++;
            (void)bh_map_put(&ids, bh_buf_str(&key), (void *)id);
        }
        v->id[i] = (uint32_t)id;
    }
    bh_map_done(&ids);
    return v;
}

uint32_t dra_mark_room(const struct dra_mark *k, uint32_t value)
{
    return k->count[value] + k->any;
}

static void marks_add(struct dra_fit *f, uint32_t at, bool in)
{
    for (size_t i = 0; i < f->marks_n; i++) {
        struct dra_mark *k = &f->marks[i];
        uint32_t id = k->values->id[at], *n = id == DRA_VALUE_ANY ? &k->any : &k->count[id];

        *n = in ? *n + 1 : *n - 1;
    }
}

static void marks_new(struct dra_fit *f, struct dra_scene *e, const struct dra_dclaim *c,
                      struct bh_str req)
{
    f->marks = bh_calloc(c->cons_n, sizeof(*f->marks));
    for (size_t i = 0; i < c->cons_n; i++) {
        struct dra_mark *k = &f->marks[f->marks_n];

        if (c->cons[i].distinct || !dra_con_applies(&c->cons[i], req, f->sub))
            continue;
        k->con = (uint32_t)i;
        k->values = values_get(e, &c->cons[i]);
        k->count = bh_calloc(k->values->n, sizeof(*k->count));
        f->marks_n++;
    }
}

/* ---- scans ---- */

static bool before(const void *arg, uint32_t a, uint32_t b)
{
    const struct dra_fit *f = arg;
    const struct dra_scene *e = f->scene;

    if ((a >= e->first_binding) != (b >= e->first_binding))
        return b >= e->first_binding;
    if (e->size[a] < e->size[b] || e->size[a] > e->size[b])
        return e->size[a] < e->size[b];
    if (f->used[a] < f->used[b] || f->used[a] > f->used[b])
        return f->used[a] > f->used[b];
    return a < b;
}

bool dra_fit_has(const struct dra_fit *f, uint32_t at)
{
    return (f->bits[at / 64] >> (at % 64)) & 1;
}

struct dra_item dra_fit_item(const struct dra_fit *f, uint32_t at)
{
    return (struct dra_item){.at = at,
                             .binding = at >= f->scene->first_binding,
                             .size = f->scene->size[at],
                             .used = f->used[at]};
}

size_t dra_fit_next(const struct dra_fit *f, size_t at)
{
    size_t n = f->scene->n;

    while (at < n) {
        uint64_t word = f->bits[at / 64] >> (at % 64);

        if (word) {
            at += (size_t)__builtin_ctzll(word);
            return at < n ? at : n;
        }
        at = (at / 64 + 1) * 64;
    }
    return n;
}

static void fit_set(struct dra_fit *f, uint32_t at, bool in, double used)
{
    uint64_t bit = UINT64_C(1) << (at % 64);
    bool was = dra_fit_has(f, at);

    if (in == was && (!in || !f->used || !(f->used[at] < used || f->used[at] > used)))
        return;
    if (was) {
        if (f->used)
            dra_rank_del(&f->rank, at);
        f->bits[at / 64] &= ~bit;
        f->n--;
        marks_add(f, at, false);
    }
    if (in) {
        if (f->used) {
            f->used[at] = used;
            dra_rank_add(&f->rank, at);
        }
        f->bits[at / 64] |= bit;
        f->n++;
        marks_add(f, at, true);
    }
}

/* Whether the books let the device serve the request: 1, 0, -BH_E_INVALID when a selector fails. */
static int serves(struct bh_dra_model *m, const struct dra_sub *s, struct dra_dev *d)
{
    if ((!s->admin && d->use->dedicated) || (d->binding && !m->f.binding_conditions))
        return 0;
    for (size_t i = 0; i < s->sels_n; i++) {
        int r = dra_sel_judge(m, s->sels[i], d, NULL);

        if (r <= 0)
            return r;
    }
    return dra_has_room(m, s, d);
}

/* Finds out about one candidate again. */
static void look(struct bh_dra_model *m, struct dra_scan *x, uint32_t at)
{
    struct dra_dev *d = x->scene->cands[at].dev;
    uint64_t bit = UINT64_C(1) << (at % 64);
    bool held = d->use->dedicated || d->use->shares;
    double used = x->scoring == BH_DRA_FIRST_FIT ? 0 : dra_dev_used(d);

    if (held != (((x->held[at / 64]) & bit) != 0)) {
        x->held[at / 64] ^= bit;
        x->held_n = held ? x->held_n + 1 : x->held_n - 1;
    }
    for (size_t i = 0; i < x->fits_n && !x->broken; i++) {
        int r;

        if (x->fits[i].sub->all)
            continue;
        r = serves(m, x->fits[i].sub, d);
        x->broken = r < 0;
        fit_set(&x->fits[i], at, r > 0, x->scoring == BH_DRA_SPREAD ? 0 - used : used);
    }
}

static void scan_fill(struct bh_dra_model *m, struct dra_scan *x)
{
    struct dra_scene *e = x->scene;
    size_t words = (e->n + 63) / 64;

    memset(x->held, 0, words * sizeof(*x->held));
    x->held_n = 0;
    x->broken = false;
    for (size_t i = 0; i < x->fits_n; i++) {
        memset(x->fits[i].bits, 0, words * sizeof(*x->fits[i].bits));
        dra_rank_done(&x->fits[i].rank);
        x->fits[i].n = 0;
        for (size_t k = 0; k < x->fits[i].marks_n; k++) {
            struct dra_mark *mark = &x->fits[i].marks[k];

            memset(mark->count, 0, mark->values->n * sizeof(*mark->count));
            mark->any = 0;
        }
    }
    for (size_t i = 0; i < e->n && !x->broken; i++)
        look(m, x, (uint32_t)i);
    x->seen = m->changes_n;
    x->epoch = m->index_epoch;
    m->st.scans++;
}

static size_t scan_load(const struct dra_scan *x)
{
    return x->scene->n * x->fits_n;
}

static struct dra_scan *scan_new(struct bh_dra_model *m, struct dra_scene *e, struct dra_demand *d,
                                 enum bh_dra_scoring scoring)
{
    struct dra_scan *x = bh_calloc(1, sizeof(*x));
    size_t words = (e->n + 63) / 64;

    x->m = m;
    x->scene = e;
    x->scoring = scoring;
    x->cands = e->cands;
    x->cands_n = e->n;
    x->topo = e->topo;
    x->held = bh_calloc(words, sizeof(*x->held));
    x->fits_n = d->subs_n;
    x->fits = bh_calloc(d->subs_n, sizeof(*x->fits));
    if (scoring != BH_DRA_FIRST_FIT && !e->size) {
        e->size = bh_calloc(e->n, sizeof(*e->size));
        for (size_t i = 0; i < e->n; i++)
            e->size[i] = dra_dev_size(e->cands[i].dev);
    }
    for (size_t i = 0; i < d->n; i++)
        for (size_t k = 0; k < d->claims[i].n; k++)
            for (size_t j = 0; j < d->claims[i].reqs[k].n; j++) {
                const struct dra_sub *s = &d->claims[i].reqs[k].subs[j];

                x->fits[s->id].sub = s;
                marks_new(&x->fits[s->id], e, &d->claims[i], d->claims[i].reqs[k].name);
            }
    for (size_t i = 0; i < x->fits_n; i++) {
        struct dra_fit *f = &x->fits[i];

        f->scene = e;
        f->bits = bh_calloc(words, sizeof(*f->bits));
        if (scoring != BH_DRA_FIRST_FIT)
            f->used = bh_calloc(e->n, sizeof(*f->used));
        f->rank = (struct dra_rank){.before = before, .arg = f};
    }
    e->scans++;
    bh_list_add_head(&m->scan_lru, &x->lru);
    bh_list_add_head(&d->scans, &x->of_demand);
    m->index_load += scan_load(x);
    scan_fill(m, x);
    return x;
}

static void scan_free(struct dra_scan *x)
{
    struct bh_dra_model *m = x->m;

    m->index_load -= scan_load(x);
    bh_list_del(&x->lru);
    bh_list_del(&x->of_demand);
    if (--x->scene->scans == 0)
        scene_free(m, x->scene);
    for (size_t i = 0; i < x->fits_n; i++) {
        bh_free(x->fits[i].bits);
        bh_free(x->fits[i].used);
        for (size_t k = 0; k < x->fits[i].marks_n; k++)
            bh_free(x->fits[i].marks[k].count);
        bh_free(x->fits[i].marks);
        dra_rank_done(&x->fits[i].rank);
    }
    bh_free(x->fits);
    bh_free(x->held);
    bh_free(x);
}

void dra_scans_drop(struct dra_demand *d)
{
    bh_list_for_safe(l, &d->scans) scan_free(bh_container(l, struct dra_scan, of_demand));
}

/* Reads what changed since the last look. */
static void scan_sync(struct bh_dra_model *m, struct dra_scan *x)
{
    struct dra_change last = {0};

    if (x->epoch != m->index_epoch || m->changes_n - x->seen > DRA_CHANGES_LEN) {
        scan_fill(m, x);
        return;
    }
    for (; x->seen != m->changes_n; x->seen++) {
        struct dra_change k = m->changes[x->seen % DRA_CHANGES_LEN];
        const struct span *s;

        if (k.id == last.id && k.at == last.at)
            continue;
        last = k;
        s = span_find(x->scene, k.id);
        if (!s)
            continue;
        if (k.at != DRA_NONE) {
            look(m, x, s->first + k.at);
            continue;
        }
        for (uint32_t i = 0; i < s->n; i++)
            look(m, x, s->first + i);
    }
}

/* Makes room for a scan of the view. */
static bool make_room(struct bh_dra_model *m, const struct dra_demand *d, const struct dra_view *v)
{
    uint64_t need = v->n_devices * (1 + (uint64_t)d->subs_n);

    while (m->index_load + need > m->index_max) {
        struct dra_scan *x;

        if (bh_list_empty(&m->scan_lru))
            return false;
        x = bh_container(m->scan_lru.prev, struct dra_scan, lru);
        if (m->index_calls - x->used_at < INDEX_KEEP_CALLS)
            return false;
        scan_free(x);
    }
    return true;
}

struct dra_scan *dra_scan_get(struct bh_dra_model *m, struct dra_demand *d,
                              const struct dra_view *v, enum bh_dra_scoring scoring)
{
    struct dra_scan *x = NULL;
    struct dra_scene *e;

    /* What upstream's leak does depends on every device that is looked at. */
    if (!v->sig || v->n_devices < m->index_min || m->f.compat_counter_leak)
        return NULL;
    m->index_calls++;
    bh_list_for(l, &d->scans)
    {
        struct dra_scan *s = bh_container(l, struct dra_scan, of_demand);

        if (s->scene->sig == v->sig && s->scoring == scoring) {
            x = s;
            break;
        }
    }
    if (x) {
        bh_list_del(&x->of_demand);
        bh_list_add_head(&d->scans, &x->of_demand);
        bh_list_del(&x->lru);
        bh_list_add_head(&m->scan_lru, &x->lru);
        if (!x->broken || x->epoch != m->index_epoch)
            scan_sync(m, x);
    } else {
        if (!make_room(m, d, v))
            return NULL;
        e = bh_map_get(&m->scenes, (struct bh_str){(const char *)&v->sig, sizeof(v->sig)});
        x = scan_new(m, e ? e : scene_new(m, v), d, scoring);
    }
    x->used_at = m->index_calls;
    return x->broken ? NULL : x;
}

void dra_index_log(struct bh_dra_model *m, const struct dra_dev *d)
{
    bool pool = d->d->consumes_counters.n != 0; /* others consume the same counters */

    if (bh_list_empty(&m->scan_lru))
        return;
    m->changes[m->changes_n++ % DRA_CHANGES_LEN] =
        pool ? (struct dra_change){d->slice->pool->id, DRA_NONE}
             : (struct dra_change){d->slice->id, (uint32_t)(d - d->slice->devs)};
}

void dra_index_forget(struct bh_dra_model *m, const struct dra_pool *p)
{
    bh_list_for_safe(l, &m->scan_lru)
    {
        struct dra_scan *x = bh_container(l, struct dra_scan, lru);

        if (span_find(x->scene, p->id))
            scan_free(x);
    }
}

static int check_fit(struct bh_dra_model *m, const struct dra_scan *x, const struct dra_fit *f,
                     struct bh_err *err)
{
    struct dra_rank_it it = {0};
    uint32_t at, last = 0;
    size_t n = 0;

    for (size_t i = 0; !f->sub->all && i < x->cands_n; i++) {
        struct dra_dev *d = x->cands[i].dev;
        bool in = serves(m, f->sub, d) > 0;
        double used = x->scoring == BH_DRA_SPREAD ? 0 - dra_dev_used(d) : dra_dev_used(d);

        if (in != dra_fit_has(f, (uint32_t)i) ||
            (in && f->used && (f->used[i] < used || f->used[i] > used)))
            return bh_err_set(err, BH_E_INTERNAL,
                              "device %.*s/%.*s/%.*s: the index of %.*s is wrong",
                              BH_SF(d->use->driver), BH_SF(d->use->pool), BH_SF(d->use->device),
                              BH_SF(f->sub->result));
    }
    while (f->used && dra_rank_next(&f->rank, &it, &at)) {
        if (!dra_fit_has(f, at) || (n++ && !before(f, last, at)))
            return bh_err_set(err, BH_E_INTERNAL, "the index of %.*s is out of order",
                              BH_SF(f->sub->result));
        last = at;
    }
    if (f->used && n != f->n)
        return bh_err_set(err, BH_E_INTERNAL, "the index of %.*s is not whole",
                          BH_SF(f->sub->result));
    return 0;
}

int dra_index_check(struct bh_dra_model *m, struct bh_err *err)
{
    int r = 0;

    bh_list_for(l, &m->scan_lru)
    {
        struct dra_scan *x = bh_container(l, struct dra_scan, lru);
        size_t held = 0;

        if (x->broken)
            continue;
        scan_sync(m, x);
        for (size_t i = 0; i < x->cands_n; i++)
            held += x->cands[i].dev->use->dedicated || x->cands[i].dev->use->shares;
        if (!x->broken && held != x->held_n)
            return bh_err_set(err, BH_E_INTERNAL, "the index counts %zu devices in use, not %zu",
                              x->held_n, held);
        for (size_t i = 0; r == 0 && !x->broken && i < x->fits_n; i++)
            r = check_fit(m, x, &x->fits[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}
