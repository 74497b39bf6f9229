/* The self-check: everything that is kept up to date step by step is computed anew and compared. */
#include <string.h>

#include "dra/dra_int.h"

struct tally {
    const struct dra_use *u;
    uint32_t dedicated, shares, measured, holders;
    struct dra_amount *agg;
    size_t agg_n;
};

static void tally_caps(struct bh_arena *a, struct tally *t, const struct dra_grant *g)
{
    for (size_t i = 0; i < g->caps_n; i++) {
        size_t k = 0;

        while (k < t->agg_n && !bh_str_eq(t->agg[k].key, g->caps[i].key))
            k++;
        if (k == t->agg_n) {
            struct dra_amount *p = bh_new_n(a, struct dra_amount, t->agg_n + 1);

            if (t->agg_n)
                memcpy(p, t->agg, t->agg_n * sizeof(*p));
            p[t->agg_n++].key = g->caps[i].key;
            t->agg = p;
        }
        t->agg[k].q = bh_quantity_add(t->agg[k].q, g->caps[i].q);
    }
}

static void tally_all(const struct bh_dra_model *m, struct bh_map *by_use, struct bh_arena *a)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&m->held, &it, NULL, &v)) {
        const struct dra_grants *gs = dra_held_grants(v);

        for (size_t i = 0; gs && i < gs->n; i++) {
            struct tally *t = bh_map_get(by_use, gs->g[i].use->key);

            if (!t) {
                t = bh_new(a, struct tally);
                t->u = gs->g[i].use;
                (void)bh_map_put(by_use, t->u->key, t);
            }
            t->holders++;
            if (gs->g[i].admin)
                continue;
            t->dedicated += !gs->g[i].share;
            t->shares += gs->g[i].share;
            t->measured += gs->g[i].caps_n != 0;
            tally_caps(a, t, &gs->g[i]);
        }
    }
}

static int check_use(const struct dra_use *u, const struct tally *t, struct bh_err *err)
{
    static const struct tally none;

    if (!t)
        t = &none;
    if (u->dedicated != t->dedicated || u->shares != t->shares || u->measured != t->measured ||
        u->holders_n != t->holders)
        return bh_err_set(err, BH_E_INTERNAL,
                          "device %.*s/%.*s/%.*s: %u whole, %u shares, %u holders in the books, "
                          "%u, %u, %u in the claims",
                          BH_SF(u->driver), BH_SF(u->pool), BH_SF(u->device), u->dedicated,
                          u->shares, u->holders_n, t->dedicated, t->shares, t->holders);
    for (size_t i = 0; i < u->agg_n; i++) {
        const struct bh_quantity *q = dra_amount_find(t->agg, t->agg_n, u->agg[i].key);
        struct bh_quantity zero = {0};

        if (bh_quantity_cmp(u->agg[i].q, q ? *q : zero) != 0)
            return bh_err_set(err, BH_E_INTERNAL, "device %.*s/%.*s/%.*s: capacity %.*s differs",
                              BH_SF(u->driver), BH_SF(u->pool), BH_SF(u->device),
                              BH_SF(u->agg[i].key));
    }
    return 0;
}

static int check_overcommit(const struct dra_use *u, struct bh_err *err)
{
    if (u->dedicated > 1 || (u->dedicated && u->shares))
        return bh_err_set(err, BH_E_CONFLICT, "device %.*s/%.*s/%.*s is held by %u claims",
                          BH_SF(u->driver), BH_SF(u->pool), BH_SF(u->device),
                          u->dedicated + u->shares);
    for (struct dra_dev *d = u->devs; d; d = d->use_next) {
        struct dra_cap *caps = u->agg_n ? dra_dev_caps(d) : NULL;

        for (size_t i = 0; caps && i < d->caps_n; i++) {
            const struct bh_quantity *q = dra_use_agg(u, caps[i].key);

            if (q && bh_quantity_cmp(*q, caps[i].value) > 0)
                return bh_err_set(
                    err, BH_E_CONFLICT, "device %.*s/%.*s/%.*s: capacity %.*s is over-committed",
                    BH_SF(u->driver), BH_SF(u->pool), BH_SF(u->device), BH_SF(caps[i].key));
        }
    }
    return 0;
}

static int check_slices(const struct bh_dra_model *m, struct bh_err *err)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&m->slices, &it, NULL, &v)) {
        const struct dra_slice *s = v;
        size_t n = 0;

        for (size_t i = 0; i < s->n; i++)
            n += s->devs[i].use->dedicated == 0;
        if (n != s->n_free)
            return bh_err_set(err, BH_E_INTERNAL, "slice %.*s: %zu devices are free, not %zu",
                              BH_SF(s->name), n, s->n_free);
    }
    for (size_t i = 0; i < m->idx_n; i++) {
        const struct dra_node *x = m->by_idx[i];
        bool bit = (m->has_free[i / 64] >> (i % 64)) & 1;
        size_t n = 0;

        for (size_t k = 0; x && k < x->n; k++)
            n += x->slices[k]->n_free;
        if (x ? n != x->n_free || bit != (n != 0) : bit)
            return bh_err_set(err, BH_E_INTERNAL, "node %.*s: the count of free devices is wrong",
                              BH_SF(x ? x->name : BH_S("(none)")));
    }
    return 0;
}

/* The table of counters as it is kept against one made anew, which then stays. */
static int check_counters(const struct bh_dra_model *m, struct bh_arena *a, struct bh_err *err)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&m->pools, &it, NULL, &v)) {
        struct dra_pool *p = v;
        size_t n = p->table_n, over = p->table_over;
        struct dra_counter *old;

        if (!p->table)
            continue;
        old = bh_arena_memdup(a, p->table, n * sizeof(*old));
        dra_pool_counters_drop(p);
        dra_pool_counters(p, p->table_gen);
        if (p->table_n != n || p->table_over != over)
            return bh_err_set(err, BH_E_INTERNAL, "pool %.*s/%.*s: counters differ",
                              BH_SF(p->driver), BH_SF(p->name));
        for (size_t i = 0; i < n; i++)
            if (bh_quantity_cmp(old[i].used, p->table[i].used) != 0 ||
                old[i].part < p->table[i].part || old[i].part > p->table[i].part)
                return bh_err_set(err, BH_E_INTERNAL, "pool %.*s/%.*s: counter %.*s/%.*s differs",
                                  BH_SF(p->driver), BH_SF(p->name), BH_SF(old[i].set),
                                  BH_SF(old[i].name));
        if (p->table_over)
            return bh_err_set(err, BH_E_CONFLICT, "pool %.*s/%.*s: counters are over-committed",
                              BH_SF(p->driver), BH_SF(p->name));
    }
    return 0;
}

int bh_dra_self_check(struct bh_dra_model *m, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_map by_use = {0};
    size_t it = 0;
    void *v;
    int r = 0;

    dra_flush(m);
    r = dra_index_check(m, err);
    tally_all(m, &by_use, a);
    while (r == 0 && bh_map_next(&m->uses, &it, NULL, &v)) {
        const struct dra_use *u = v;

        r = check_use(u, bh_map_get(&by_use, u->key), err);
    }
    for (it = 0; r == 0 && bh_map_next(&m->uses, &it, NULL, &v);)
        r = check_overcommit(v, err);
    bh_map_done(&by_use);
    if (r == 0)
        r = check_slices(m, err);
    return r == 0 ? check_counters(m, a, err) : r;
}
