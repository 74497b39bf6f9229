/* Placing one device, and taking it back: use, counters, taints, constraints, capacity (dra.md
 * sections 4.5 to 4.11). */
#include <string.h>

#include "dra/search.h"

/* ---- use, selection, taints ---- */

bool dra_in_use(const struct dra_call *c, size_t claim, const struct dra_sub *s,
                const struct dra_cand *x)
{
    if (!s->admin)
        return x->dev->use->dedicated || x->taken;
    /* Administrators get what others hold, only not twice for one claim. */
    for (size_t i = 0; x->taken && i < c->placed_n; i++)
        if (c->placed[i].claim == claim && &c->cands[c->placed[i].cand] == x && !x->dev->multi)
            return true;
    return false;
}

int dra_selectable(struct dra_call *c, size_t claim, const struct dra_sub *s, struct dra_cand *x)
{
    int r;

    if (x->dev->binding && !c->m->f.binding_conditions)
        return 0;
    r = dra_sub_match(c->q, claim, s, x->dev, NULL, c->err);
    if (r <= 0)
        return r;
    if (x->targets == 0) {
        r = dra_dev_targets(x->dev, c->node, c->err);
        if (r < 0)
            return r;
        x->targets = r ? 2 : 1;
    }
    return x->targets == 2;
}

bool bh_dra_tolerates(const struct bh_resource_v1_device_toleration *t, size_t n,
                      const struct bh_resource_v1_device_taint *taint)
{
    for (size_t i = 0; i < n; i++) {
        if ((t[i].effect.n && !bh_str_eq(t[i].effect, taint->effect)) ||
            (t[i].key.n && !bh_str_eq(t[i].key, taint->key)))
            continue;
        if (bh_str_eqc(t[i].operator, "Exists") ||
            ((t[i].operator.n == 0 || bh_str_eqc(t[i].operator, "Equal")) &&
             bh_str_eq(t[i].value, taint->value)))
            return true;
    }
    return false;
}

bool dra_tolerated(const struct bh_dra_model *m, const struct dra_sub *s, const struct dra_dev *d,
                   const struct bh_resource_v1_device_taint **ret_taint)
{
    if (!m->f.device_taints)
        return true;
    for (size_t i = 0; i < d->d->taints.n + d->rule_taints_n; i++) {
        const struct bh_resource_v1_device_taint *t =
            i < d->d->taints.n ? &d->d->taints.p[i] : d->rule_taints[i - d->d->taints.n];

        if (!dra_taint_blocks(t) || bh_dra_tolerates(s->tolerations.p, s->tolerations.n, t))
            continue;
        if (ret_taint)
            *ret_taint = t;
        return false;
    }
    return true;
}

/* ---- counters ---- */

static bool counters_ok(struct dra_call *c, const struct dra_cand *x, const struct dra_incall *in)
{
    const struct dra_pool *p = c->view->pools[x->vpool].pool;
    const struct dra_dev *d = x->dev;

    if (p->table_over == 0 && !p->table_negative) {
        for (size_t i = 0; i < d->consumes_n; i++) {
            const struct dra_counter *t;

            if (d->consumes[i].slot == DRA_NONE)
                return false;
            t = &p->table[d->consumes[i].slot];
            if (bh_quantity_cmp(bh_quantity_add(t->used, in->q[d->consumes[i].slot]), t->total) > 0)
                return false;
        }
        return true;
    }
    /* As upstream, one counter that is over-committed keeps all devices of the pool that consume
     * any. */
    for (size_t i = 0; i < p->table_n; i++)
        if (bh_quantity_cmp(bh_quantity_add(p->table[i].used, in->q[i]), p->table[i].total) > 0)
            return false;
    return true;
}

static void counters_add(struct dra_incall *in, const struct dra_dev *d, bool take)
{
    for (size_t i = 0; i < d->consumes_n; i++) {
        const struct dra_consume *k = &d->consumes[i];

        if (k->slot != DRA_NONE)
            in->q[k->slot] = take ? bh_quantity_add(in->q[k->slot], k->value)
                                  : bh_quantity_sub(in->q[k->slot], k->value);
    }
}

static bool counters_take(struct dra_call *c, struct dra_cand *x)
{
    struct dra_vpool *v = &c->view->pools[x->vpool];
    struct dra_incall *in = &c->incall[x->vpool];

    dra_pool_counters(v->pool, v->gen);
    if (!in->q)
        in->q = bh_new_n(c->a, struct bh_quantity, v->pool->table_n);
    counters_add(in, x->dev, true);
    if (counters_ok(c, x, in))
        return true;
    counters_add(in, x->dev, false);
    return false;
}

bool dra_counters_needed(const struct dra_cand *x)
{
    if (x->dev->d->consumes_counters.n == 0)
        return false;
    /* A shared device pays once. */
    return !(x->dev->multi && x->shares) && !dra_use_paid(x->dev);
}

/* ---- capacity ---- */

static bool cap_room(const struct dra_cand *x, const struct dra_cap *cap, size_t at,
                     struct bh_quantity u)
{
    const struct bh_quantity *agg;

    if (x->dev->multi) {
        agg = dra_use_agg(x->dev->use, cap->key);
        if (agg)
            u = bh_quantity_add(u, *agg);
        if (x->amounts)
            u = bh_quantity_add(u, x->amounts[at].q);
    }
    return bh_quantity_cmp(u, cap->value) <= 0;
}

bool dra_capacity_fits(const struct bh_dra_model *m, const struct dra_sub *s, struct dra_cand *x)
{
    struct dra_cap *caps;

    if (!m->f.consumable_capacity || (!s->caps_n && x->dev->d->capacity.n == 0))
        return true;
    caps = dra_dev_caps(x->dev);
    if (!s->caps_n && !x->dev->multi && x->dev->caps_plain)
        return true; /* it takes all that there is, and nobody else has any */
    for (size_t i = 0; i < s->caps_n; i++) {
        size_t k = 0;

        while (k < x->dev->caps_n && !bh_str_eq(caps[k].key, s->caps[i].key))
            k++;
        if (k == x->dev->caps_n)
            return false;
    }
    for (size_t k = 0; k < x->dev->caps_n; k++) {
        struct bh_quantity u;

        if (!dra_cap_amount(&caps[k], dra_amount_find(s->caps, s->caps_n, caps[k].key), &u) ||
            !cap_room(x, &caps[k], k, u))
            return false;
    }
    return true;
}

/* ---- constraints ---- */

const struct bh_resource_v1_device_attribute *dra_attr(const struct dra_dev *d,
                                                       const struct dra_con *con)
{
    const struct bh_resource_v1_device_attribute_map *m = &d->d->attributes;
    bool own = bh_str_eq(con->dom, d->slice->spec->driver);
    const struct bh_resource_v1_device_attribute *bare = NULL;

    for (size_t i = 0; i < m->n; i++) {
        if (bh_str_eq(m->p[i].key, con->attr))
            return &m->p[i].value;
        if (own && bh_str_eq(m->p[i].key, con->id))
            bare = &m->p[i].value;
    }
    return bare;
}

enum kind { K_NONE, K_INT, K_BOOL, K_STRING, K_VERSION };

static enum kind attr_kind(const struct bh_resource_v1_device_attribute *a, bool lists)
{
    if (a->has_int || (lists && a->ints.n))
        return K_INT;
    if (a->has_bool || (lists && a->bools.n))
        return K_BOOL;
    if (a->has_string || (lists && a->strings.n))
        return K_STRING;
    if (a->has_version || (lists && a->versions.n))
        return K_VERSION;
    return K_NONE;
}

static size_t attr_n(const struct bh_resource_v1_device_attribute *a, enum kind k)
{
    switch (k) {
    case K_INT:
        return a->has_int ? 1 : a->ints.n;
    case K_BOOL:
        return a->has_bool ? 1 : a->bools.n;
    case K_STRING:
        return a->has_string ? 1 : a->strings.n;
    case K_VERSION:
        return a->has_version ? 1 : a->versions.n;
    default:
        return 0;
    }
}

static bool value_eq(const struct bh_resource_v1_device_attribute *a, size_t i,
                     const struct bh_resource_v1_device_attribute *b, size_t j, enum kind k)
{
    switch (k) {
    case K_INT:
        return (a->has_int ? a->int_ : a->ints.p[i]) == (b->has_int ? b->int_ : b->ints.p[j]);
    case K_BOOL:
        return (a->has_bool ? a->bool_ : a->bools.p[i]) == (b->has_bool ? b->bool_ : b->bools.p[j]);
    case K_STRING:
        return bh_str_eq(a->has_string ? a->string : a->strings.p[i],
                         b->has_string ? b->string : b->strings.p[j]);
    case K_VERSION:
        return bh_str_eq(a->has_version ? a->version : a->versions.p[i],
                         b->has_version ? b->version : b->versions.p[j]);
    default:
        return false;
    }
}

uint64_t dra_attr_common(const struct bh_resource_v1_device_attribute *a,
                         const struct bh_resource_v1_device_attribute *b, bool lists)
{
    enum kind k = attr_kind(a, lists);
    size_t n = attr_n(a, k), m = attr_n(b, k);
    uint64_t mask = 0;

    if (k == K_NONE || k != attr_kind(b, lists))
        return 0;
    for (size_t i = 0; i < n && i < 64; i++)
        for (size_t j = 0; j < m; j++)
            if (value_eq(a, i, b, j, k)) {
                mask |= UINT64_C(1) << i;
                break;
            }
    return mask;
}

bool dra_con_applies(const struct dra_con *con, struct bh_str req, const struct dra_sub *s)
{
    if (con->requests->n == 0)
        return true;
    for (size_t i = 0; i < con->requests->n; i++)
        if (bh_str_eq(con->requests->p[i], req) || bh_str_eq(con->requests->p[i], s->result))
            return true;
    return false;
}

static bool match_add(const struct dra_call *c, struct dra_con_state *st,
                      const struct bh_resource_v1_device_attribute *a)
{
    bool lists = c->m->f.list_attributes;
    uint64_t common;

    if (st->n == 0) {
        if (lists && attr_kind(a, lists) == K_NONE)
            return false;
        st->first = a;
        st->mask = UINT64_MAX;
        st->n = 1;
        return true;
    }
    common = dra_attr_common(st->first, a, lists) & st->mask;
    if (!common)
        return false;
    st->mask = common;
    st->n++;
    return true;
}

static bool distinct_add(const struct dra_call *c, const struct dra_con *con,
                         struct dra_con_state *st, uint32_t claim, uint32_t req,
                         const struct bh_resource_v1_device_attribute *a)
{
    bool lists = c->m->f.list_attributes;
    const struct dra_dclaim *dc = &c->d->claims[claim];

    if (st->n && attr_kind(a, lists) == K_NONE)
        return false;
    for (size_t i = 0; st->n && i < dc->n; i++)
        if (st->last[i] && (dra_attr_common(st->last[i], a, lists) ||
                            (!lists && attr_kind(st->last[i], lists) == K_NONE)))
            return false;
    for (size_t i = 0; c->m->f.strict_distinct && i < c->placed_n; i++) {
        const struct dra_placed *p = &c->placed[i];
        const struct bh_resource_v1_device_attribute *b;

        if (p->claim != claim || !dra_con_applies(con, dc->reqs[p->req].name, p->sub))
            continue;
        b = dra_attr(c->cands[p->cand].dev, con);
        if (b && dra_attr_common(b, a, lists))
            return false;
    }
    st->last[req] = a;
    st->n++;
    return true;
}

static void con_remove(const struct dra_call *c, const struct dra_con *con,
                       struct dra_con_state *st, uint32_t req, uint64_t mask)
{
    st->n--;
    if (con->distinct)
        st->last[req] = NULL;
    else if (!c->m->f.compat_list_narrowing)
        st->mask = mask;
}

/* All constraints of the claim in order, or none. */
static bool cons_add(struct dra_call *c, uint32_t claim, uint32_t req, const struct dra_sub *s,
                     uint32_t cand, uint64_t *masks)
{
    const struct dra_dev *d = c->cands[cand].dev;
    const struct dra_dclaim *dc = &c->d->claims[claim];

    for (size_t i = 0; i < dc->cons_n; i++) {
        const struct dra_con *con = &dc->cons[i];
        struct dra_con_state *st = &c->cons[claim][i];
        const struct bh_resource_v1_device_attribute *a;
        bool ok;

        if (!dra_con_applies(con, dc->reqs[req].name, s))
            continue;
        masks[i] = st->mask;
        st->cand = st->n ? st->cand : cand;
        a = dra_attr(d, con);
        ok = a && (con->distinct ? distinct_add(c, con, st, claim, req, a) : match_add(c, st, a));
        if (ok)
            continue;
        while (i-- > 0)
            if (dra_con_applies(&dc->cons[i], dc->reqs[req].name, s))
                con_remove(c, &dc->cons[i], &c->cons[claim][i], req, masks[i]);
        return false;
    }
    return true;
}

static void cons_remove(struct dra_call *c, const struct dra_placed *p)
{
    const struct dra_dclaim *dc = &c->d->claims[p->claim];

    for (size_t i = dc->cons_n; i-- > 0;)
        if (dra_con_applies(&dc->cons[i], dc->reqs[p->req].name, p->sub))
            con_remove(c, &dc->cons[i], &c->cons[p->claim][i], p->req, p->masks[i]);
}

/* ---- apart from the call ---- */

static bool counters_left(struct dra_dev *d)
{
    struct dra_pool *p = d->slice->pool;

    if (d->d->consumes_counters.n == 0 || dra_use_paid(d))
        return true;
    dra_pool_counters(p, d->slice->spec->pool.generation);
    if (p->table_negative)
        return true; /* another device may give what this one lacks */
    for (size_t i = 0; i < d->consumes_n; i++) {
        const struct dra_counter *t;

        if (d->consumes[i].slot == DRA_NONE)
            return false;
        t = &p->table[d->consumes[i].slot];
        if (bh_quantity_cmp(bh_quantity_add(t->used, d->consumes[i].value), t->total) > 0)
            return false;
    }
    return p->table_over == 0;
}

bool dra_has_room(const struct bh_dra_model *m, const struct dra_sub *s, struct dra_dev *d)
{
    struct dra_cand x = {.dev = d};

    if (d->d->consumes_counters.n && !m->f.partitionable_devices)
        return false;
    if (!dra_tolerated(m, s, d, NULL) || !counters_left(d))
        return false;
    return s->negative || dra_capacity_fits(m, s, &x) || d->caps_negative;
}

/* ---- placing ---- */

static void touch(struct dra_call *c, struct dra_cand *x)
{
    if (!c->scan || x->touched)
        return;
    x->touched = true;
    bh_arena_grow(c->a, &c->touched, &c->touched_cap, c->touched_n + 1, sizeof(*c->touched));
    c->touched[c->touched_n++] = (uint32_t)(x - c->cands);
}

static void capacity_take(struct dra_call *c, const struct dra_sub *s, struct dra_cand *x,
                          struct dra_placed *p)
{
    struct dra_cap *caps = dra_dev_caps(x->dev);
    size_t n = x->dev->caps_n;

    if (!x->amounts)
        x->amounts = bh_new_n(c->a, struct dra_amount, n);
    if (n > p->caps_cap) {
        p->caps = bh_new_n(c->a, struct dra_amount, n);
        p->caps_cap = n;
    }
    for (size_t k = 0; k < n; k++) {
        p->caps[k].key = caps[k].key;
        /* It was found to fit. */
        (void)dra_cap_amount(&caps[k], dra_amount_find(s->caps, s->caps_n, caps[k].key),
                             &p->caps[k].q);
        x->amounts[k].q = bh_quantity_add(x->amounts[k].q, p->caps[k].q);
    }
    x->shares++;
}

enum dra_placing dra_place(struct dra_call *c, uint32_t claim, uint32_t req,
                           const struct dra_sub *s, uint32_t cand)
{
    struct dra_cand *x = &c->cands[cand];
    struct dra_placed *p = &c->placed[c->placed_n];
    bool counters = dra_counters_needed(x);
    enum dra_placing why = DRA_FITS;

    if (x->dev->d->consumes_counters.n && !c->m->f.partitionable_devices)
        return DRA_UNFIT_OFF;
    if (counters && !counters_take(c, x))
        return DRA_UNFIT_COUNTERS;
    p->cand = cand;
    p->claim = claim;
    p->req = req;
    p->sub = s;
    p->share = x->dev->multi && c->m->f.consumable_capacity;
    p->counters = counters;
    if (!dra_tolerated(c->m, s, x->dev, NULL))
        why = DRA_UNFIT_TAINT;
    else if (!cons_add(c, claim, req, s, cand, p->masks))
        why = DRA_UNFIT_CONSTRAINT;
    else if (!dra_capacity_fits(c->m, s, x)) {
        /* Only in mode All: another request took of it since it was collected. */
        cons_remove(c, p);
        why = DRA_UNFIT_CAPACITY;
    }
    if (why != DRA_FITS) {
        if (counters && !c->m->f.compat_counter_leak)
            counters_add(&c->incall[x->vpool], x->dev, false);
        return why;
    }
    touch(c, x);
    if (p->share)
        capacity_take(c, s, x, p);
    else
        x->taken++;
    c->per_claim[claim]++;
    c->placed_n++;
    return DRA_FITS;
}

void dra_unplace(struct dra_call *c)
{
    struct dra_placed *p = &c->placed[--c->placed_n];
    struct dra_cand *x = &c->cands[p->cand];

    c->per_claim[p->claim]--;
    cons_remove(c, p);
    if (p->share) {
        for (size_t k = 0; k < x->dev->caps_n; k++)
            x->amounts[k].q = bh_quantity_sub(x->amounts[k].q, p->caps[k].q);
        x->shares--;
    } else {
        x->taken--;
    }
    if (p->counters && !(p->share && c->m->f.compat_counter_leak))
        counters_add(&c->incall[x->vpool], x->dev, false);
}

/* ---- interchangeable devices ---- */

static bool attrs_same(const struct dra_call *c, const struct dra_dev *a, const struct dra_dev *b)
{
    for (size_t i = 0; i < c->d->n; i++)
        for (size_t k = 0; k < c->d->claims[i].cons_n; k++) {
            const struct dra_con *con = &c->d->claims[i].cons[k];
            const struct bh_resource_v1_device_attribute *x = dra_attr(a, con),
                                                         *y = dra_attr(b, con);
            enum kind kind = x ? attr_kind(x, true) : K_NONE;

            if (!x != !y)
                return false;
            /* A single equal value, or no two are taken for equal. */
            if (x && (attr_n(x, kind) != 1 || attr_n(y, attr_kind(y, true)) != 1 ||
                      !dra_attr_common(x, y, true)))
                return false;
        }
    return true;
}

static bool cands_same(struct dra_call *c, struct dra_cand *x, struct dra_cand *y)
{
    struct dra_dev *a = x->dev, *b = y->dev;

    if (!a->use->dedicated != !b->use->dedicated || a->binding != b->binding)
        return false;
    if (a->content != b->content && (c->d->has_caps || !attrs_same(c, a, b)))
        return false;
    if ((a->slice->per_device || b->slice->per_device) &&
        (x->targets != y->targets || x->targets == 0))
        return false;
    for (size_t i = 0; i < c->d->n; i++)
        for (size_t k = 0; k < c->d->claims[i].n; k++)
            for (size_t j = 0; j < c->d->claims[i].reqs[k].n; j++) {
                const struct dra_sub *s = &c->d->claims[i].reqs[k].subs[j];

                if (dra_tolerated(c->m, s, a, NULL) != dra_tolerated(c->m, s, b, NULL))
                    return false;
                for (size_t t = 0; a->content != b->content && t < s->sels_n; t++) {
                    int r = dra_sel_judge(c->m, s->sels[t], a, NULL);

                    if (r < 0 || r != dra_sel_judge(c->m, s->sels[t], b, NULL))
                        return false;
                }
            }
    return true;
}

uint32_t dra_cand_class(struct dra_call *c, struct dra_cand *x)
{
    if (x->cls)
        return x->cls;
    touch(c, x);
    x->cls = DRA_NONE;
    if (x->dev->multi || x->dev->d->consumes_counters.n)
        return x->cls;
    for (size_t i = 0; i < c->classes_n; i++)
        if (cands_same(c, &c->cands[c->classes[i]], x)) {
            x->cls = (uint32_t)i + 1;
            return x->cls;
        }
    if (c->classes_n < DRA_CLASSES_MAX) {
        c->classes[c->classes_n] = (uint32_t)(x - c->cands);
        x->cls = (uint32_t)++c->classes_n;
    }
    return x->cls;
}
