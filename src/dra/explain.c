/* Explaining: for each request and device why it does not serve, and the text that people read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "dra/node_selector.h"
#include "dra/search.h"

static const char *const why_names[BH_DRA_WHY__MAX] = {
    [BH_DRA_WHY_FREE] = "Free",
    [BH_DRA_WHY_CLASS] = "ClassSelector",
    [BH_DRA_WHY_SELECTOR] = "Selector",
    [BH_DRA_WHY_NODE] = "NodeSelector",
    [BH_DRA_WHY_IN_USE] = "InUse",
    [BH_DRA_WHY_TAINT] = "Taint",
    [BH_DRA_WHY_COUNTERS] = "Counters",
    [BH_DRA_WHY_CAPACITY] = "Capacity",
    [BH_DRA_WHY_CONSTRAINT] = "Constraint",
    [BH_DRA_WHY_BINDING] = "BindingConditions",
    [BH_DRA_WHY_INCOMPLETE] = "PoolIncomplete",
    [BH_DRA_WHY_INVALID] = "PoolInvalid",
    [BH_DRA_WHY_ERROR] = "SelectorError",
};

const char *bh_dra_why_name(enum bh_dra_why w)
{
    return (unsigned)w < BH_DRA_WHY__MAX ? why_names[w] : "";
}

/* ---- one device ---- */

static struct bh_str taint_text(struct bh_arena *a, const struct bh_resource_v1_device_taint *t)
{
    if (t->value.n == 0)
        return bh_str_fmt(a, "%.*s:%.*s", BH_SF(t->key), BH_SF(t->effect));
    return bh_str_fmt(a, "%.*s=%.*s:%.*s", BH_SF(t->key), BH_SF(t->value), BH_SF(t->effect));
}

static struct bh_str holder_text(struct bh_arena *a, const struct dra_use *u)
{
    if (u->holders_n == 0)
        return (struct bh_str){0};
    return bh_str_fmt(a, "claim %.*s/%.*s", BH_SF(u->holders[0]->ns), BH_SF(u->holders[0]->name));
}

static bool lacks_attr(const struct dra_call *c, const struct dra_dclaim *dc, struct bh_str req,
                       const struct dra_sub *s, const struct dra_dev *d, struct bh_str *ret_detail)
{
    for (size_t i = 0; i < dc->cons_n; i++)
        if (dra_con_applies(&dc->cons[i], req, s) && !dra_attr(d, &dc->cons[i])) {
            *ret_detail = bh_str_fmt(c->a, "no attribute %.*s", BH_SF(dc->cons[i].attr));
            return true;
        }
    return false;
}

static bool counters_short(struct dra_call *c, const struct dra_cand *x, struct bh_str *ret_detail)
{
    struct dra_vpool *v = &c->view->pools[x->vpool];

    if (x->dev->d->consumes_counters.n == 0 || dra_use_paid(x->dev))
        return false;
    dra_pool_counters(v->pool, v->gen);
    for (size_t i = 0; i < x->dev->consumes_n; i++) {
        const struct dra_consume *k = &x->dev->consumes[i];
        const struct dra_counter *t;

        if (k->slot == DRA_NONE)
            continue;
        t = &v->pool->table[k->slot];
        if (bh_quantity_cmp(bh_quantity_add(t->used, k->value), t->total) > 0) {
            *ret_detail = bh_str_fmt(c->a, "counter %.*s/%.*s", BH_SF(k->set), BH_SF(k->counter));
            if (c->details)
                dra_detail_counter(c, t, k, ret_detail);
            return true;
        }
    }
    return false;
}

/* The first thing against the device, taken on its own, in the order in which people can do
 * something about it: what the request does not want, what is sick, what is busy. */
static void judge(struct dra_call *c, size_t claim, const struct dra_req *q,
                  const struct dra_sub *s, struct dra_cand *x, struct bh_dra_verdict *ret)
{
    const struct dra_vpool *v = &c->view->pools[x->vpool];
    struct bh_str *detail = &ret->device.detail;
    size_t at = 0;
    int r;

    *ret = (struct bh_dra_verdict){.claim = claim, .why = BH_DRA_WHY_FREE, .devices = 1};
    if (v->incomplete || v->invalid) {
        ret->why = v->incomplete ? BH_DRA_WHY_INCOMPLETE : BH_DRA_WHY_INVALID;
        if (c->details)
            dra_detail_pool(c, v, detail);
        return;
    }
    r = dra_dev_targets(x->dev, c->node, c->err);
    if (r == 0) {
        ret->why = BH_DRA_WHY_NODE;
        return;
    }
    if (r > 0)
        r = dra_sub_match(c->q, claim, s, x->dev, &at, c->err);
    if (r < 0) {
        *detail = bh_str_dup(c->a, bh_s(c->err->msg));
        ret->why = BH_DRA_WHY_ERROR;
    } else if (r == 0) {
        ret->why = at < s->class_n ? BH_DRA_WHY_CLASS : BH_DRA_WHY_SELECTOR;
        if (c->details)
            dra_detail_selector(c, s, at, x->dev, ret);
    } else if ((x->dev->binding && !c->m->f.binding_conditions) ||
               (x->dev->d->consumes_counters.n && !c->m->f.partitionable_devices)) {
        ret->why = BH_DRA_WHY_BINDING;
    } else if (!dra_tolerated(c->m, s, x->dev, &ret->taint)) {
        *detail = taint_text(c->a, ret->taint);
        ret->why = BH_DRA_WHY_TAINT;
    } else if (!s->admin && x->dev->use->dedicated) {
        *detail = holder_text(c->a, x->dev->use);
        ret->why = BH_DRA_WHY_IN_USE;
    } else if (!dra_capacity_fits(c->m, s, x)) {
        *detail = holder_text(c->a, x->dev->use);
        ret->why = BH_DRA_WHY_CAPACITY;
        if (c->details)
            dra_detail_capacity(c, s, x->dev, ret);
    } else if (counters_short(c, x, detail)) {
        ret->why = BH_DRA_WHY_COUNTERS;
    } else if (lacks_attr(c, &c->d->claims[claim], q->name, s, x->dev, detail)) {
        ret->why = BH_DRA_WHY_CONSTRAINT;
    }
}

/* ---- all of them ---- */

static void name_device(const struct dra_call *c, const struct dra_cand *x,
                        struct bh_dra_why_device *ret)
{
    const struct dra_dev *d = x->dev;

    ret->driver = bh_str_dup(c->a, d->slice->spec->driver);
    ret->pool = bh_str_dup(c->a, d->slice->spec->pool.name);
    ret->device = bh_str_dup(c->a, d->d->name);
    ret->node = bh_str_dup(c->a, c->node->name);
}

/* x NULL: the verdict names what it is about. */
typedef void (*tell_fn)(struct dra_call *c, void *arg, size_t at, const struct dra_sub *s,
                        const struct dra_cand *x, const struct bh_dra_verdict *v);

/* Every request against every device; told to fn. */
static void explain_node(struct dra_call *c, tell_fn fn, void *arg)
{
    size_t at = 0;

    for (size_t i = 0; i < c->d->n; i++)
        for (size_t k = 0; k < c->d->claims[i].n; k++)
            for (size_t j = 0; j < c->d->claims[i].reqs[k].n; j++, at++)
                for (size_t x = 0; x < c->cands_n; x++) {
                    const struct dra_req *q = &c->d->claims[i].reqs[k];
                    struct bh_dra_verdict v;

                    judge(c, i, q, &q->subs[j], &c->cands[x], &v);
                    fn(c, arg, at, &q->subs[j], &c->cands[x], &v);
                }
}

static bool for_others(const struct dra_call *c, const struct dra_pool *p,
                       const struct dra_slice *s)
{
    struct bh_err err;

    if (s->n == 0 || !s->spec->node_selector)
        return false;
    for (size_t i = 0; i < p->n; i++)
        if (p->slices[i]->spec->pool.generation > s->spec->pool.generation)
            return false;
    return bh_node_selector_match(s->spec->node_selector, c->node->name, &c->node->labels, &err) ==
           0;
}

/* Slices whose node selector leaves this node out: the allocator never sees them. */
static void explain_others(struct dra_call *c, tell_fn fn, void *arg)
{
    for (size_t k = 0; k < c->m->open_n; k++)
        for (size_t x = 0; x < c->m->open_pools[k]->n; x++) {
            const struct dra_slice *sl = c->m->open_pools[k]->slices[x];
            size_t at = 0;

            if (!for_others(c, c->m->open_pools[k], sl))
                continue;
            for (size_t i = 0; i < c->d->n; i++)
                for (size_t r = 0; r < c->d->claims[i].n; r++)
                    for (size_t j = 0; j < c->d->claims[i].reqs[r].n; j++, at++) {
                        const struct bh_dra_verdict v = {
                            .claim = i,
                            .why = BH_DRA_WHY_NODE,
                            .devices = sl->n,
                            .device = {.driver = bh_str_dup(c->a, sl->spec->driver),
                                       .pool = bh_str_dup(c->a, sl->spec->pool.name),
                                       .node = bh_str_dup(c->a, c->node->name),
                                       .detail = bh_str_fmt(c->a, "slice %.*s", BH_SF(sl->name))}};

                        fn(c, arg, at, &c->d->claims[i].reqs[r].subs[j], NULL, &v);
                    }
        }
}

static size_t open_slices(const struct bh_dra_model *m)
{
    size_t n = 0;

    for (size_t k = 0; k < m->open_n; k++)
        n += m->open_pools[k]->n;
    return n;
}

static void add_reason(struct dra_call *c, void *arg, size_t at, const struct dra_sub *s,
                       const struct dra_cand *x, const struct bh_dra_verdict *v)
{
    struct bh_dra_why_request *w = &((struct bh_dra_reasons *)arg)->requests[at];
    size_t n = w->count[v->why]++;

    (void)s;
    if (n < BH_DRA_WHY_DEVICES_MAX) {
        w->first[v->why][n] = v->device;
        name_device(c, x, &w->first[v->why][n]);
    }
}

struct verdicts {
    struct bh_dra_verdict *p;
    size_t n;
};

static void add_verdict(struct dra_call *c, void *arg, size_t at, const struct dra_sub *s,
                        const struct dra_cand *x, const struct bh_dra_verdict *v)
{
    struct verdicts *vs = arg;
    struct bh_dra_verdict *p = &vs->p[vs->n++];

    (void)at;
    *p = *v;
    p->request = bh_str_dup(c->a, s->result);
    p->wanted = s->all ? -1 : s->count;
    if (x)
        name_device(c, x, &p->device);
}

/* All devices, also of pools that give none. */
static void cands_all(struct dra_call *c)
{
    size_t n = 0;

    c->cands = bh_new_n(c->a, struct dra_cand, c->view->n_devices);
    for (size_t i = 0; i < c->view->n; i++)
        for (size_t k = 0; k < c->view->pools[i].n; k++)
            for (size_t j = 0; j < c->view->pools[i].slices[k]->n; j++)
                c->cands[n++] = (struct dra_cand){.dev = &c->view->pools[i].slices[k]->devs[j],
                                                  .vpool = (uint32_t)i};
    c->cands_n = n;
}

static struct bh_str constraint_text(struct bh_arena *a, const struct dra_dclaim *dc,
                                     struct bh_str req, const struct dra_sub *s)
{
    for (size_t i = 0; i < dc->cons_n; i++)
        if (dra_con_applies(&dc->cons[i], req, s))
            return bh_str_fmt(a, "%s %.*s",
                              dc->cons[i].distinct ? "distinctAttribute" : "matchAttribute",
                              BH_SF(dc->cons[i].attr));
    return (struct bh_str){0};
}

static bool call_open(struct dra_call *c, struct bh_dra_ask *q, struct bh_str node,
                      struct bh_arena *a, struct bh_err *err)
{
    static const struct bh_dra_opts none;

    *c = (struct dra_call){.q = q, .m = q->m, .d = q->d, .opts = &none, .a = a, .err = err};
    c->node = dra_node_get(q->m, node);
    if (!c->node || !c->node->known)
        return false;
    c->view = dra_view_get(q->m, c->node);
    cands_all(c);
    return true;
}

void bh_dra_explain(struct bh_dra_ask *q, const struct bh_str *nodes, size_t nodes_n,
                    struct bh_arena *a, struct bh_dra_reasons *ret)
{
    struct bh_err err = {0};
    size_t at = 0;

    *ret = (struct bh_dra_reasons){.requests = bh_new_n(a, struct bh_dra_why_request, q->d->subs_n),
                                   .n = q->d->subs_n};
    for (size_t i = 0; i < q->d->n; i++)
        for (size_t k = 0; k < q->d->claims[i].n; k++)
            for (size_t j = 0; j < q->d->claims[i].reqs[k].n; j++, at++) {
                const struct dra_sub *s = &q->d->claims[i].reqs[k].subs[j];

                ret->requests[at].claim = i;
                ret->requests[at].request = bh_str_dup(a, s->result);
                ret->requests[at].wanted = s->all ? -1 : s->count;
                ret->requests[at].together =
                    constraint_text(a, &q->d->claims[i], q->d->claims[i].reqs[k].name, s);
            }
    ret->n = at;
    for (size_t i = 0; i < nodes_n; i++) {
        struct dra_call c;

        if (!call_open(&c, q, nodes[i], a, &err))
            continue;
        ret->nodes++;
        explain_node(&c, add_reason, ret);
    }
}

size_t bh_dra_explain_devices(struct bh_dra_ask *q, struct bh_str node, struct bh_arena *a,
                              struct bh_dra_verdict **ret)
{
    struct verdicts v = {0};
    struct bh_err err = {0};
    struct dra_call c;

    if (call_open(&c, q, node, a, &err)) {
        c.details = true;
        v.p = bh_new_n(a, struct bh_dra_verdict, (c.cands_n + open_slices(c.m)) * q->d->subs_n);
        explain_node(&c, add_verdict, &v);
        explain_others(&c, add_verdict, &v);
    }
    *ret = v.p;
    return v.n;
}

/* ---- the text ---- */

static const struct {
    enum bh_dra_why why;
    const char
        *named; /* said of one device by name; its detail follows when this ends in a blank */
    const char *one, *many; /* said behind a number */
} phrases[] = {
    {BH_DRA_WHY_TAINT, "has taint ", "device is tainted", "devices are tainted"},
    {BH_DRA_WHY_IN_USE, "is in use by ", "device in use", "devices in use"},
    {BH_DRA_WHY_CAPACITY, "has too little capacity left", "device has too little capacity left",
     "devices have too little capacity left"},
    {BH_DRA_WHY_COUNTERS, "does not fit beside what is in use: ",
     "device does not fit beside what is in use", "devices do not fit beside what is in use"},
    {BH_DRA_WHY_CONSTRAINT, "cannot meet a constraint: ", "device cannot meet a constraint",
     "devices cannot meet a constraint"},
    {BH_DRA_WHY_ERROR, "makes a selector fail: ", "device makes a selector fail",
     "devices make a selector fail"},
    {BH_DRA_WHY_INCOMPLETE, "is in a pool that is being updated",
     "device in a pool that is being updated", "devices in pools that are being updated"},
    {BH_DRA_WHY_INVALID, "is in an invalid pool", "device in an invalid pool",
     "devices in invalid pools"},
    {BH_DRA_WHY_BINDING, "needs a feature that is off", "device needs a feature that is off",
     "devices need a feature that is off"},
    {BH_DRA_WHY_NODE, "is for other nodes", "device is for other nodes",
     "devices are for other nodes"},
    {BH_DRA_WHY_SELECTOR, "does not match the request", "device does not match the request",
     "devices do not match the request"},
    {BH_DRA_WHY_CLASS, "is of another class", "device of another class",
     "devices of other classes"},
};

static bool lacks(const struct bh_dra_why_request *r)
{
    return r->wanted < 0 || r->count[BH_DRA_WHY_FREE] < (uint64_t)r->wanted;
}

/* One reason; names at most *left devices, with their nodes when there are several. */
static void say(struct bh_buf *b, const struct bh_dra_why_request *r, size_t phrase, bool nodes,
                size_t *left)
{
    enum bh_dra_why y = phrases[phrase].why;
    size_t n = r->count[y], named = 0;
    const char *one = phrases[phrase].named;
    bool detail = one[strlen(one) - 1] == ' ';

    /* What cannot be changed by anybody needs no names. */
    if (y != BH_DRA_WHY_SELECTOR && y != BH_DRA_WHY_CLASS && y != BH_DRA_WHY_NODE &&
        !(y == BH_DRA_WHY_IN_USE && n > 1))
        named = n < *left ? n : *left;
    for (size_t i = 0; i < named; i++) {
        const struct bh_dra_why_device *d = &r->first[y][i];

        bh_buf_addf(b, "; %.*s%s%.*s %.*s", BH_SF(d->device), nodes ? " on " : "",
                    BH_SF(nodes ? d->node : BH_S("")),
                    (int)(strlen(one) - (detail && d->detail.n == 0 ? 1 : 0)), one);
        if (detail)
            bh_buf_adds(b, d->detail);
    }
    *left -= named;
    n -= named;
    if (n)
        bh_buf_addf(b, "; %zu %s%s", n, named ? "more " : "",
                    n == 1 ? phrases[phrase].one : phrases[phrase].many);
}

static void say_request(struct bh_buf *b, const struct bh_dra_why_request *r, bool first,
                        bool nodes, size_t *left)
{
    size_t from;

    bh_buf_addf(b, "%srequest \"%.*s\"", b->n == 0 ? "" : first ? ": " : "; ", BH_SF(r->request));
    from = b->n;
    for (size_t i = 0; i < BH_COUNT(phrases); i++)
        if (r->count[phrases[i].why])
            say(b, r, i, nodes, left);
    if (r->count[BH_DRA_WHY_FREE] && r->wanted > 0)
        bh_buf_addf(b, "; %zu of %lld wanted would do", r->count[BH_DRA_WHY_FREE],
                    (long long)r->wanted);
    if (b->n == from)
        bh_buf_addz(b, "; no devices");
    b->p[from] = ':'; /* the first reason follows the name of the request */
}

/* Cuts at the limit, not within a character. */
static struct bh_str cut(struct bh_arena *a, struct bh_str s)
{
    size_t n = BH_MESSAGE_BYTES_MAX - 3;

    if (s.n <= BH_MESSAGE_BYTES_MAX)
        return bh_str_dup(a, s);
    while (n && ((unsigned char)s.p[n] & 0xc0) == 0x80)
        n--;
    return bh_str_fmt(a, "%.*s...", (int)n, s.p);
}

struct bh_str bh_dra_explain_text(const struct bh_dra_reasons *r, struct bh_str first,
                                  struct bh_arena *a)
{
    BH_AUTO_BUF b = {0};
    size_t left = BH_DRA_WHY_DEVICES_MAX;
    bool any = false;

    bh_buf_adds(&b, first);
    for (size_t i = 0; i < r->n && b.n < BH_MESSAGE_BYTES_MAX; i++)
        if (lacks(&r->requests[i])) {
            say_request(&b, &r->requests[i], !any, r->nodes > 1, &left);
            any = true;
        }
    if (any || r->n == 0)
        return cut(a, bh_buf_str(&b));
    for (size_t i = 0; i < r->n && !any; i++)
        if (r->requests[i].together.n) {
            bh_buf_addf(&b, "%srequest \"%.*s\": no choice of devices keeps %.*s", b.n ? ": " : "",
                        BH_SF(r->requests[i].request), BH_SF(r->requests[i].together));
            any = true;
        }
    if (!any)
        bh_buf_addf(&b, "%severy request could be served alone, not all of them together",
                    b.n ? ": " : "");
    return cut(a, bh_buf_str(&b));
}

/* ---- what there is ---- */

static void device_add(struct dra_dev *d, bool usable, struct bh_arena *a,
                       struct bh_dra_device *ret)
{
    size_t n = d->d->taints.n + d->rule_taints_n;
    const struct bh_resource_v1_device_taint **taints =
        bh_new_n(a, const struct bh_resource_v1_device_taint *, n);

    for (size_t i = 0; i < n; i++)
        taints[i] = i < d->d->taints.n ? &d->d->taints.p[i] : d->rule_taints[i - d->d->taints.n];
    *ret = (struct bh_dra_device){.driver = d->slice->spec->driver,
                                  .pool = d->slice->spec->pool.name,
                                  .device = d->d->name,
                                  .slice = d->slice->name,
                                  .node = d->slice->per_device ? d->d->node_name
                                                               : d->slice->spec->node_name,
                                  .taints = taints,
                                  .taints_n = n,
                                  .in_use = dra_use_any(d->use),
                                  .shared = d->multi,
                                  .usable = usable};
}

static int by_pool(const void *x, const void *y)
{
    const struct dra_pool *a = *(struct dra_pool *const *)x, *b = *(struct dra_pool *const *)y;
    int r = bh_str_cmp(a->driver, b->driver);

    return r ? r : bh_str_cmp(a->name, b->name);
}

/* The newest generation of a pool; whether it is complete, counting all of its slices. */
static size_t devices_of_pool(const struct dra_pool *p, struct bh_arena *a,
                              struct bh_dra_device *out)
{
    int64_t gen = INT64_MIN, want = 0, have = 0;
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++)
        if (p->slices[i]->spec->pool.generation > gen) {
            gen = p->slices[i]->spec->pool.generation;
            want = p->slices[i]->spec->pool.resource_slice_count;
        }
    for (size_t i = 0; i < p->n; i++)
        have += p->slices[i]->spec->pool.generation == gen;
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; p->slices[i]->spec->pool.generation == gen && k < p->slices[i]->n; k++)
            device_add(&p->slices[i]->devs[k], have == want, a, &out[n++]);
    return n;
}

static size_t devices_everywhere(struct bh_dra_model *m, struct bh_arena *a,
                                 struct bh_dra_device *out)
{
    struct dra_pool **pools = bh_new_n(a, struct dra_pool *, m->pools.n);
    size_t it = 0, n = 0, k = 0;
    void *v;

    while (bh_map_next(&m->pools, &it, NULL, &v))
        pools[k++] = v;
    if (k)
        qsort(pools, k, sizeof(struct dra_pool *), by_pool);
    for (size_t i = 0; i < k; i++)
        n += devices_of_pool(pools[i], a, out + n);
    return n;
}

size_t bh_dra_devices(struct bh_dra_model *m, struct bh_str node, struct bh_arena *a,
                      struct bh_dra_device **ret)
{
    struct dra_node *n = node.n ? dra_node_get(m, node) : NULL;
    const struct dra_view *v;
    size_t k = 0;

    dra_flush(m);
    *ret = bh_new_n(a, struct bh_dra_device, m->st.devices);
    if (node.n == 0)
        return devices_everywhere(m, a, *ret);
    if (!n)
        return 0;
    v = dra_view_get(m, n);
    for (size_t i = 0; i < v->n; i++)
        for (size_t s = 0; s < v->pools[i].n; s++)
            for (size_t d = 0; d < v->pools[i].slices[s]->n; d++)
                device_add(&v->pools[i].slices[s]->devs[d],
                           !v->pools[i].incomplete && !v->pools[i].invalid, a, &(*ret)[k++]);
    return k;
}

void bh_dra_node_count(struct bh_dra_model *m, struct bh_str node, size_t *ret_total,
                       size_t *ret_free)
{
    struct dra_node *n = dra_node_get(m, node);
    const struct dra_view *v = n ? dra_view_get(m, n) : NULL;

    *ret_total = *ret_free = 0;
    for (size_t i = 0; v && i < v->n; i++)
        for (size_t s = 0; s < v->pools[i].n; s++) {
            *ret_total += v->pools[i].slices[s]->n;
            *ret_free += v->pools[i].slices[s]->n_free;
        }
}
