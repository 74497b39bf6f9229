/* The ledger: which claim holds which device, share and capacity; reservations until the informer
 * confirms them. */
#include "dra/dra_int.h"

#include <stdlib.h>
#include <string.h>

#include "api/engine.h"

/* ---- uses ---- */

static struct bh_str use_key(struct bh_buf *b, struct bh_str driver, struct bh_str pool,
                             struct bh_str device)
{
    bh_buf_clear(b);
    bh_buf_adds(b, driver);
    bh_buf_addc(b, '\0');
    bh_buf_adds(b, pool);
    bh_buf_addc(b, '\0');
    bh_buf_adds(b, device);
    return bh_buf_str(b);
}

struct dra_use *dra_use_find(struct bh_dra_model *m, struct bh_str driver, struct bh_str pool,
                             struct bh_str device)
{
    return bh_map_get(&m->uses, use_key(&m->keybuf, driver, pool, device));
}

static struct dra_use *use_make(struct bh_dra_model *m, struct bh_str driver, struct bh_str pool,
                                struct bh_str device)
{
    struct bh_str key = use_key(&m->keybuf, driver, pool, device);
    struct dra_use *u = bh_map_get(&m->uses, key);
    char *p;

    if (u)
        return u;
    u = bh_calloc(1, sizeof(*u));
    p = bh_memdup(key.p, key.n);
    u->key = (struct bh_str){p, key.n};
    u->driver = (struct bh_str){p, driver.n};
    u->pool = (struct bh_str){p + driver.n + 1, pool.n};
    u->device = (struct bh_str){p + driver.n + pool.n + 2, device.n};
    (void)bh_map_put(&m->uses, key, u);
    return u;
}

static void use_free(struct dra_use *u)
{
    for (size_t i = 0; i < u->agg_n; i++)
        bh_free((void *)(uintptr_t)u->agg[i].key.p);
    bh_free(u->agg);
    bh_free(u->holders);
    bh_free((void *)(uintptr_t)u->key.p);
    bh_free(u);
}

/* Forgotten when nobody publishes or holds it. */
static void use_gc(struct bh_dra_model *m, struct dra_use *u)
{
    if (u->devs || u->holders_n)
        return;
    (void)bh_map_del(&m->uses, u->key);
    use_free(u);
}

void dra_use_put_dev(struct bh_dra_model *m, struct dra_dev *d)
{
    struct dra_use *u = use_make(m, d->slice->spec->driver, d->slice->spec->pool.name, d->d->name);

    d->use = u;
    d->part_known = false;
    d->use_next = u->devs;
    u->devs = d;
    if (!u->dedicated)
        dra_slice_free_add(m, d->slice, 1);
}

void dra_use_del_dev(struct bh_dra_model *m, struct dra_dev *d)
{
    struct dra_use *u = d->use;
    struct dra_dev **at = &u->devs;

    while (*at != d)
        at = &(*at)->use_next;
    *at = d->use_next;
    if (!u->dedicated)
        dra_slice_free_add(m, d->slice, -1);
    d->use = NULL;
    use_gc(m, u);
}

const struct bh_quantity *dra_use_agg(const struct dra_use *u, struct bh_str key)
{
    return dra_amount_find(u->agg, u->agg_n, key);
}

static void use_agg_add(struct dra_use *u, const struct dra_amount *a, bool take)
{
    size_t i = 0;

    while (i < u->agg_n && !bh_str_eq(u->agg[i].key, a->key))
        i++;
    if (i == u->agg_n) {
        u->agg = bh_realloc(u->agg, (u->agg_n + 1) * sizeof(*u->agg));
        u->agg[u->agg_n++] = (struct dra_amount){.key = {bh_memdup(a->key.p, a->key.n), a->key.n}};
    }
    u->agg[i].q = take ? bh_quantity_add(u->agg[i].q, a->q) : bh_quantity_sub(u->agg[i].q, a->q);
    for (struct dra_dev *d = u->devs; d; d = d->use_next)
        d->part_known = false;
}

/* ---- grants ---- */

/* Amounts hold numbers of sixteen bytes. */
static size_t amounts_at(size_t n)
{
    return (sizeof(struct dra_grants) + n * sizeof(struct dra_grant) + 15) & ~(size_t)15;
}

static size_t grants_bytes(const struct bh_resource_v1_allocation_result *al)
{
    size_t n = al->devices.results.n, bytes = amounts_at(n);

    for (size_t i = 0; i < n; i++) {
        const struct bh_resource_v1_device_request_allocation_result *r = &al->devices.results.p[i];

        bytes += r->consumed_capacity.n * sizeof(struct dra_amount);
    }
    for (size_t i = 0; i < n; i++) {
        const struct bh_resource_v1_device_request_allocation_result *r = &al->devices.results.p[i];

        bytes += r->share_id.n;
        for (size_t k = 0; k < r->consumed_capacity.n; k++)
            bytes += r->consumed_capacity.p[k].key.n;
    }
    return bytes;
}

static struct bh_str pack(char **at, struct bh_str s)
{
    struct bh_str c = {*at, s.n};

    if (s.n)
        memcpy(*at, s.p, s.n);
    *at += s.n;
    return c;
}

/* Everything in one block; makes the uses. */
static struct dra_grants *grants_make(struct bh_dra_model *m,
                                      const struct bh_resource_v1_allocation_result *al)
{
    size_t n = al->devices.results.n, caps = 0;
    struct dra_grants *gs = bh_calloc(1, grants_bytes(al));
    struct dra_amount *amounts = (struct dra_amount *)(void *)((char *)gs + amounts_at(n));
    char *at;

    gs->n = n;
    for (size_t i = 0; i < n; i++)
        caps += al->devices.results.p[i].consumed_capacity.n;
    at = (char *)(amounts + caps);
    for (size_t i = 0; i < n; i++) {
        const struct bh_resource_v1_device_request_allocation_result *r = &al->devices.results.p[i];
        struct dra_grant *g = &gs->g[i];

        g->use = use_make(m, r->driver, r->pool, r->device);
        g->admin = r->has_admin_access && r->admin_access;
        g->share = r->has_share_id;
        g->share_id = pack(&at, r->share_id);
        g->caps = amounts;
        g->caps_n = g->share ? r->consumed_capacity.n : 0;
        amounts += g->caps_n;
        for (size_t k = 0; k < g->caps_n; k++) {
            g->caps[k].key = pack(&at, r->consumed_capacity.p[k].key);
            if (bh_quantity_parse(r->consumed_capacity.p[k].value, &g->caps[k].q, NULL) < 0)
                memset(&g->caps[k].q, 0, sizeof(g->caps[k].q));
        }
    }
    return gs;
}

static bool grants_eq(const struct dra_grants *a, const struct dra_grants *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct dra_grant *x = &a->g[i], *y = &b->g[i];

        if (x->use != y->use || x->admin != y->admin || x->share != y->share ||
            !bh_str_eq(x->share_id, y->share_id) || x->caps_n != y->caps_n)
            return false;
        for (size_t k = 0; k < x->caps_n; k++)
            if (!bh_str_eq(x->caps[k].key, y->caps[k].key) ||
                bh_quantity_cmp(x->caps[k].q, y->caps[k].q) != 0)
                return false;
    }
    return true;
}

/* Whether other nodes than the device's own see that it was taken: all, or those with devices that
 * draw on the same counters. */
static bool concerns_others(const struct dra_dev *d)
{
    const struct dra_pool *p = d->slice->pool;

    if (!d->slice->node || (p->n_counters && p->n > 16))
        return true;
    for (size_t i = 0; p->n_counters && i < p->n; i++)
        if (p->slices[i]->node != d->slice->node)
            return true;
    return false;
}

/* Whoever may succeed now that a device changed hands shall try again. Taking helps those who can
 * share it, when its counters are paid with that; and others, where something below nothing is
 * taken. */
static void log_use(struct bh_dra_model *m, const struct dra_use *u, bool take, bool paid,
                    bool negative)
{
    for (const struct dra_dev *d = u->devs; d; d = d->use_next) {
        const struct dra_pool *p = d->slice->pool;

        if (take) {
            if (d->slice->node)
                dra_log_node(m, d->slice->node, true);
            else if (!m->quiet)
                m->taken++;
            if (!m->quiet && concerns_others(d))
                m->shared++;
            if (!negative && !d->negative && !(paid && d->d->consumes_counters.n))
                continue;
        }
        /* Counters reach as far as the pool does. */
        if (!d->slice->node || (p->n_counters && (p->n > 64 || p->n_open)))
            dra_log_open(m);
        else if (!p->n_counters)
            dra_log_node(m, d->slice->node, false);
        else
            for (size_t i = 0; i < p->n; i++)
                if (p->slices[i]->node)
                    dra_log_node(m, p->slices[i]->node, false);
    }
}

static void grant_book(struct bh_dra_model *m, const struct dra_grant *g, bool take)
{
    struct dra_use *u = g->use;
    bool any = dra_use_any(u), whole = u->dedicated != 0, measured = u->measured != 0;
    bool negative = false;

    if (g->admin) /* counts for nobody */
        return;
    if (g->share) {
        u->shares = take ? u->shares + 1 : u->shares - 1;
        if (g->caps_n)
            u->measured = take ? u->measured + 1 : u->measured - 1;
        for (size_t i = 0; i < g->caps_n; i++) {
            use_agg_add(u, &g->caps[i], take);
            negative |= bh_quantity_sign(g->caps[i].q) < 0;
        }
    } else {
        u->dedicated = take ? u->dedicated + 1 : u->dedicated - 1;
    }
    for (struct dra_dev *d = u->devs; d; d = d->use_next) {
        if (any != dra_use_any(u))
            dra_pool_use(d->slice->pool, d, take);
        if (whole != (u->dedicated != 0))
            dra_slice_free_add(m, d->slice, take ? -1 : 1);
        dra_index_log(m, d);
    }
    log_use(m, u, take, !measured && u->measured, negative);
}

static void holders_change(struct bh_dra_model *m, struct dra_held *h, struct dra_use *u, bool add)
{
    if (add) {
        if (u->holders_n == u->holders_cap) {
            u->holders_cap = u->holders_cap ? u->holders_cap * 2 : 1;
            u->holders = bh_realloc(u->holders, u->holders_cap * sizeof(*u->holders));
        }
        u->holders[u->holders_n++] = h;
        return;
    }
    for (uint32_t i = 0; i < u->holders_n; i++)
        if (u->holders[i] == h) {
            u->holders[i] = u->holders[--u->holders_n];
            break;
        }
    use_gc(m, u);
}

/* Enters the grants into the books. */
static void grants_take(struct bh_dra_model *m, struct dra_held *h, struct dra_grants *gs)
{
    for (size_t i = 0; gs && i < gs->n; i++) {
        grant_book(m, &gs->g[i], true);
        holders_change(m, h, gs->g[i].use, true);
    }
}

/* Strikes them out. */
static void grants_give(struct bh_dra_model *m, struct dra_held *h, struct dra_grants *gs)
{
    for (size_t i = 0; gs && i < gs->n; i++) {
        grant_book(m, &gs->g[i], false);
        holders_change(m, h, gs->g[i].use, false);
    }
}

/* ---- claims ---- */

static struct dra_held *held_make(struct bh_dra_model *m, struct bh_str uid, struct bh_str ns,
                                  struct bh_str name)
{
    struct dra_held *h = bh_calloc(1, sizeof(*h));
    char *at = bh_malloc(uid.n + ns.n + name.n + 1);

    h->uid = at;
    h->uid_s = pack(&at, uid);
    h->ns = pack(&at, ns);
    h->name = pack(&at, name);
    (void)bh_map_put(&m->held, uid, h);
    return h;
}

static void held_free(struct dra_held *h)
{
    (void)bh_obj_unref(h->obj);
    bh_free(h->api);
    bh_free(h->res);
    bh_free(h->uid);
    bh_free(h);
}

static void held_gc(struct bh_dra_model *m, struct dra_held *h)
{
    if (h->api || h->res)
        return;
    (void)bh_map_del(&m->held, h->uid_s);
    held_free(h);
}

static void held_swap_obj(struct dra_held *h, const struct bh_obj *o)
{
    struct bh_obj *old = h->obj;

    h->obj = o ? bh_obj_ref(o) : NULL;
    (void)bh_obj_unref(old);
}

static void claim_strike(struct bh_dra_model *m, struct dra_held *h)
{
    bh_assert(!h->api || !h->res); /* a reservation ends where the object brings an allocation */
    grants_give(m, h, h->res ? h->res : h->api);
    bh_free(h->api);
    bh_free(h->res);
    h->api = h->res = NULL;
}

void bh_dra_claim_put(struct bh_dra_model *m, const struct bh_obj *o)
{
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(o);
    struct dra_held *h = bh_map_get(&m->held, o->uid);
    struct dra_grants *gs;

    if (!c->status.allocation) {
        if (!h)
            return;
        if (h->res) { /* an older event: the reservation goes on */
            held_swap_obj(h, o);
            return;
        }
        claim_strike(m, h);
        held_gc(m, h);
        return;
    }
    if (!h)
        h = held_make(m, o->uid, o->ns, o->name);
    if (h->obj && h->api && !h->res) {
        const struct bh_resource_v1_resource_claim *old = bh_obj_struct(h->obj);

        if (bh_msg_equal(&bh_resource_v1_allocation_result_type, old->status.allocation,
                         c->status.allocation)) {
            held_swap_obj(h, o);
            return;
        }
    }
    gs = grants_make(m, c->status.allocation);
    if (h->res && grants_eq(h->res, gs)) {
        /* Confirmed as reserved: nothing in the books changes. */
        bh_free(h->res);
        h->res = NULL;
        h->api = gs;
    } else {
        /* The new ones are entered first, so that no use is forgotten in between. */
        struct dra_grants *api = h->api, *res = h->res;

        grants_take(m, h, gs);
        grants_give(m, h, res ? res : api);
        bh_free(api);
        bh_free(res);
        h->res = NULL;
        h->api = gs;
    }
    held_swap_obj(h, o);
}

void bh_dra_claim_del(struct bh_dra_model *m, struct bh_str uid)
{
    struct dra_held *h = bh_map_get(&m->held, uid);

    if (!h)
        return;
    claim_strike(m, h);
    held_gc(m, h);
}

/* ---- reservations ---- */

static struct bh_quantity cap_value(struct dra_dev *d, struct bh_str key, bool *ret_known)
{
    struct dra_cap *caps = dra_dev_caps(d);

    for (size_t i = 0; i < d->caps_n; i++)
        if (bh_str_eq(caps[i].key, key)) {
            *ret_known = !caps[i].bad;
            return caps[i].value;
        }
    *ret_known = false;
    return (struct bh_quantity){0};
}

/* Whether the books still balance with these grants, which are entered already. */
static bool grants_fit(const struct dra_grants *gs)
{
    for (size_t i = 0; i < gs->n; i++) {
        const struct dra_use *u = gs->g[i].use;

        if (gs->g[i].admin)
            continue;
        if (u->dedicated > 1 || (u->dedicated && u->shares))
            return false;
        for (struct dra_dev *d = u->devs; d; d = d->use_next) {
            const struct dra_pool *p = d->slice->pool;

            if (p->table && p->table_over && d->d->consumes_counters.n &&
                d->slice->spec->pool.generation == p->table_gen)
                return false;
            for (size_t k = 0; k < gs->g[i].caps_n; k++) {
                const struct bh_quantity *agg = dra_use_agg(u, gs->g[i].caps[k].key);
                bool known;
                struct bh_quantity v = cap_value(d, gs->g[i].caps[k].key, &known);

                if (known && agg && bh_quantity_cmp(*agg, v) > 0)
                    return false;
            }
        }
    }
    return true;
}

int bh_dra_reserve(struct bh_dra_model *m, const struct bh_resource_v1_resource_claim *claim,
                   const struct bh_resource_v1_allocation_result *alloc, struct bh_err *err)
{
    struct bh_str uid = claim->metadata.uid;
    struct dra_held *h = bh_map_get(&m->held, uid);
    struct dra_grants *gs;

    if (h && h->res)
        return bh_err_set(err, BH_E_EXISTS, "claim %.*s/%.*s is reserved already", BH_SF(h->ns),
                          BH_SF(h->name));
    if (h && h->api)
        return bh_err_set(err, BH_E_EXISTS, "claim %.*s/%.*s is allocated already", BH_SF(h->ns),
                          BH_SF(h->name));
    if (!h)
        h = held_make(m, uid, claim->metadata.namespace, claim->metadata.name);
    gs = grants_make(m, alloc);
    h->res = gs;
    h->res_id = ++m->res_ids;
    grants_take(m, h, gs);
    if (grants_fit(gs))
        return 0;
    claim_strike(m, h);
    held_gc(m, h);
    return bh_err_set(err, BH_E_CONFLICT, "a device of claim %.*s/%.*s is in use",
                      BH_SF(claim->metadata.namespace), BH_SF(claim->metadata.name));
}

void bh_dra_unreserve(struct bh_dra_model *m, struct bh_str uid)
{
    struct dra_held *h = bh_map_get(&m->held, uid);

    if (!h || !h->res)
        return;
    claim_strike(m, h);
    held_gc(m, h);
}

uint64_t bh_dra_reservation(const struct bh_dra_model *m, struct bh_str uid)
{
    const struct dra_held *h = bh_map_get(&m->held, uid);

    return h && h->res ? h->res_id : 0;
}

bool bh_dra_reservation_lost(const struct bh_dra_model *m, struct bh_str uid, uint64_t id)
{
    const struct dra_held *h = bh_map_get(&m->held, uid);

    return !h || (h->res ? h->res_id != id : !h->api);
}

bool bh_dra_is_reserved(const struct bh_dra_model *m, struct bh_str uid)
{
    const struct dra_held *h = bh_map_get(&m->held, uid);

    return h && h->res;
}

void dra_ledger_release(struct bh_dra_model *m, const struct bh_str *uids, size_t n, bool back)
{
    bool was = m->quiet;

    /* Nobody shall learn from what is undone before the call returns. */
    m->quiet = true;
    for (size_t i = 0; i < n; i++) {
        struct dra_held *h = bh_map_get(&m->held, uids[i]);
        const struct dra_grants *gs = h ? dra_held_grants(h) : NULL;

        if (!h || (back ? --h->out : h->out++) > 0)
            continue; /* named twice, or supposed to be released already */
        for (size_t k = 0; gs && k < gs->n; k++)
            grant_book(m, &gs->g[k], back);
    }
    m->quiet = was;
}

void bh_dra_suppose(struct bh_dra_model *m, bool on)
{
    m->quiet = m->supposing = on;
}

void bh_dra_suppose_released(struct bh_dra_model *m, const struct bh_str *uids, size_t n)
{
    dra_ledger_release(m, uids, n, false);
}

bool bh_dra_suppose_back(struct bh_dra_model *m, const struct bh_str *uids, size_t n, bool force)
{
    bool fit = true;

    dra_ledger_release(m, uids, n, true);
    for (size_t i = 0; i < n && fit && !force; i++) {
        const struct dra_held *h = bh_map_get(&m->held, uids[i]);

        fit = !h || h->out || !dra_held_grants(h) || grants_fit(dra_held_grants(h));
    }
    if (!fit)
        dra_ledger_release(m, uids, n, false);
    return fit;
}

struct dra_grants **dra_ledger_hold(struct bh_dra_model *m,
                                    const struct bh_resource_v1_allocation_result *const *al,
                                    size_t n, struct bh_arena *a)
{
    struct dra_grants **gs = bh_new_n(a, struct dra_grants *, n);
    bool was = m->quiet;

    m->quiet = true;
    for (size_t i = 0; i < n; i++) {
        gs[i] = grants_make(m, al[i]);
        for (size_t k = 0; k < gs[i]->n; k++)
            grant_book(m, &gs[i]->g[k], true);
    }
    m->quiet = was;
    return gs;
}

void dra_ledger_unhold(struct bh_dra_model *m, struct dra_grants **gs, size_t n)
{
    bool was = m->quiet;

    m->quiet = true;
    for (size_t i = n; i-- > 0;) {
        for (size_t k = gs[i]->n; k-- > 0;)
            grant_book(m, &gs[i]->g[k], false);
        for (size_t k = 0; k < gs[i]->n; k++) /* it stays until the last of them is through */
            gs[i]->g[k].use->holders_n++;
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < gs[i]->n; k++) {
            gs[i]->g[k].use->holders_n--;
            use_gc(m, gs[i]->g[k].use);
        }
        bh_free(gs[i]);
    }
    m->quiet = was;
}

/* ---- who holds what ---- */

static int by_claim(const void *x, const void *y)
{
    const struct bh_dra_holder *a = x, *b = y;
    int r = bh_str_cmp(a->claim_uid, b->claim_uid);

    return r ? r : bh_str_cmp(a->share_id, b->share_id);
}

static struct bh_dra_holder holder(const struct dra_held *h)
{
    return (struct bh_dra_holder){.claim_uid = h->uid_s,
                                  .claim_ns = h->ns,
                                  .claim_name = h->name,
                                  .reserved = h->res != NULL,
                                  .claim = h->obj};
}

size_t bh_dra_holders(struct bh_dra_model *m, struct bh_str driver, struct bh_str pool,
                      struct bh_str device, struct bh_arena *a, struct bh_dra_holder **ret)
{
    const struct dra_use *u = dra_use_find(m, driver, pool, device);
    size_t n = 0;

    *ret = bh_new_n(a, struct bh_dra_holder, u ? u->holders_n : 0);
    for (uint32_t i = 0; u && i < u->holders_n; i++) {
        const struct dra_held *h = u->holders[i];
        const struct dra_grants *gs = dra_held_grants(h);
        bool again = false;

        for (uint32_t k = 0; k < i && !again; k++)
            again = u->holders[k] == h; /* its grants were told already */
        for (size_t k = 0; !again && k < gs->n; k++) {
            if (gs->g[k].use != u)
                continue;
            (*ret)[n] = holder(h);
            (*ret)[n].admin = gs->g[k].admin;
            (*ret)[n++].share_id = gs->g[k].share_id;
        }
    }
    if (n)
        qsort(*ret, n, sizeof(**ret), by_claim);
    return n;
}

size_t bh_dra_node_holders(struct bh_dra_model *m, struct bh_str node, struct bh_arena *a,
                           struct bh_dra_holder **ret)
{
    struct dra_node *n = dra_node_get(m, node);
    const struct dra_view *v = n ? dra_view_get(m, n) : NULL;
    struct bh_map seen = {0};
    size_t cap = 0, k = 0;

    *ret = NULL;
    for (size_t i = 0; v && i < v->n; i++)
        for (size_t s = 0; s < v->pools[i].n; s++)
            for (size_t d = 0; d < v->pools[i].slices[s]->n; d++) {
                const struct dra_use *u = v->pools[i].slices[s]->devs[d].use;

                for (uint32_t x = 0; x < u->holders_n; x++) {
                    if (bh_map_put(&seen, u->holders[x]->uid_s, u->holders[x]))
                        continue;
                    bh_arena_grow(a, ret, &cap, k + 1, sizeof(**ret));
                    (*ret)[k++] = holder(u->holders[x]);
                }
            }
    bh_map_done(&seen);
    if (k)
        qsort(*ret, k, sizeof(**ret), by_claim);
    return k;
}

void dra_ledger_done(struct bh_dra_model *m)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&m->held, &it, NULL, &v))
        held_free(v);
    for (it = 0; bh_map_next(&m->uses, &it, NULL, &v);)
        use_free(v);
}
