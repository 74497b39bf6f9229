/* What would have to change so that the devices are there. Each proposal is tried: the allocator is
 * run with the changed claims, or as if other claims were gone. */
#include <stdlib.h>
#include <string.h>

#include "api/engine.h"
#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/buf.h"
#include "cli/explain.h"
#include "data/quantity.h"

#define NODES_TRIED_MAX 32   /* one of each sort of node */
#define TRIES_MAX       4000 /* calls of the allocator */
#define STEPS_ONE       50000u
#define STEPS_ALL       3000000u /* of all calls: below a second */
#define CANDS_MAX       2000
#define TOLD_MAX        4
#define ITEMS_MAX       64 /* of a change that consists of several */

/* In the order of what they cost people. */
enum kind { LESS, TOLERATE, RELEASE, FEWER, UNCONSTRAINED, UNSELECTED, KINDS };

struct cand {
    enum kind kind;
    struct bh_str text;
    size_t claim;
    struct bh_str request;
    /* TOLERATE */
    const struct bh_resource_v1_device_taint *taint;
    /* RELEASE, tried where the devices are */
    struct bh_str uid, node;
    /* LESS of a capacity */
    struct bh_str key, value;
    double distance; /* LESS: the nearest first */
    /* LESS and UNSELECTED in a selector: its new text */
    size_t selector;
    struct bh_str expression;
    /* FEWER, UNCONSTRAINED */
    int64_t count;
    size_t constraint;
};

struct changer {
    const struct cli_explain *e;
    struct bh_str *nodes;
    size_t nodes_n;
    struct cand *cands;
    size_t n, cap;
    size_t tries;
    uint64_t steps_end; /* of the model's count */
};

/* Whether there is work left to be spent. */
static bool may_try(const struct changer *ch)
{
    struct bh_dra_stats st;

    bh_dra_stats(ch->e->m, &st);
    return ch->tries < TRIES_MAX && st.steps < ch->steps_end;
}

/* ---- changed claims ---- */

/* The parts of a request that a change touches, whichever form it has. */
struct parts {
    struct bh_resource_v1_device_selector_vec *selectors;
    struct bh_resource_v1_device_toleration_vec *tolerations;
    struct bh_resource_v1_capacity_requirements *capacity;
    int64_t *count;
};

static bool parts_find(struct bh_resource_v1_resource_claim *c, struct bh_str name,
                       struct parts *ret)
{
    struct bh_str sub = name, req = bh_str_cut(&sub, '/');

    for (size_t i = 0; i < c->spec.devices.requests.n; i++) {
        struct bh_resource_v1_device_request *q = &c->spec.devices.requests.p[i];

        if (!bh_str_eq(q->name, req))
            continue;
        if (q->exactly) {
            *ret = (struct parts){&q->exactly->selectors, &q->exactly->tolerations,
                                  q->exactly->capacity, &q->exactly->count};
            return true;
        }
        for (size_t k = 0; k < q->first_available.n; k++) {
            struct bh_resource_v1_device_sub_request *s = &q->first_available.p[k];

            if (!bh_str_eq(s->name, sub))
                continue;
            *ret = (struct parts){&s->selectors, &s->tolerations, s->capacity, &s->count};
            return true;
        }
    }
    return false;
}

static void tolerate(struct bh_arena *a, struct bh_resource_v1_device_toleration_vec *v,
                     const struct bh_resource_v1_device_taint *t)
{
    struct bh_resource_v1_device_toleration *p =
        bh_new_n(a, struct bh_resource_v1_device_toleration, v->n + 1);

    if (v->n)
        memcpy(p, v->p, v->n * sizeof(*p));
    p[v->n] = (struct bh_resource_v1_device_toleration){
        .key = t->key, .operator= BH_S("Equal"), .value = t->value, .effect = t->effect};
    v->p = p;
    v->n++;
}

/* What has no has_-flag in a toleration of the API is plain; selectors are replaced as a whole. */
static void apply(struct bh_arena *a, struct bh_resource_v1_resource_claim *claims,
                  const struct cand *x)
{
    struct bh_resource_v1_resource_claim *c = &claims[x->claim];
    struct parts p;

    if (x->kind == RELEASE)
        return;
    if (x->kind == UNCONSTRAINED) {
        struct bh_resource_v1_device_constraint_vec *v = &c->spec.devices.constraints;

        for (size_t i = x->constraint; i + 1 < v->n; i++)
            v->p[i] = v->p[i + 1];
        v->n--;
        return;
    }
    if (!parts_find(c, x->request, &p))
        return;
    if (x->kind == TOLERATE)
        tolerate(a, p.tolerations, x->taint);
    else if (x->kind == FEWER)
        *p.count = x->count;
    else if (x->expression.n && x->selector < p.selectors->n)
        p.selectors->p[x->selector].cel->expression = x->expression;
    else if (p.capacity)
        bh_str_map_put(a, &p.capacity->requests, x->key, x->value);
}

/* Whether the devices are there after these changes; on which node. */
static bool try_changes(struct changer *ch, const struct cand *const *x, size_t n,
                        const struct bh_str *nodes, size_t nodes_n, struct bh_str *ret_node)
{
    const struct cli_explain *e = ch->e;
    struct bh_resource_v1_resource_claim *claims =
        bh_new_n(e->a, struct bh_resource_v1_resource_claim, e->n);
    const struct bh_resource_v1_resource_claim **at =
        bh_new_n(e->a, const struct bh_resource_v1_resource_claim *, e->n);
    struct bh_str released[ITEMS_MAX];
    struct bh_dra_opts opts = {
        .scoring = BH_DRA_FIRST_FIT, .released = released, .steps_max = STEPS_ONE};
    BH_AUTO_ARENA scratch = bh_arena_new(0); /* of the results */
    struct bh_dra_result res;
    struct bh_dra_ask *q;
    struct bh_err err;

    for (size_t i = 0; i < e->n; i++) {
        bh_msg_copy(&bh_resource_v1_resource_claim_type, &claims[i], e->claims[i], e->a);
        at[i] = &claims[i];
    }
    for (size_t i = 0; i < n; i++) {
        apply(e->a, claims, x[i]);
        if (x[i]->kind == RELEASE)
            released[opts.released_n++] = x[i]->uid;
    }
    q = bh_dra_ask_new(e->m, at, e->n, e->a);
    for (size_t i = 0; i < nodes_n && may_try(ch); i++) {
        ch->tries++;
        if (bh_dra_allocate(q, nodes[i], &opts, scratch, &res, &err) == BH_DRA_OK) {
            *ret_node = nodes[i];
            return true;
        }
    }
    return false;
}

/* ---- candidates ---- */

static void cand_add(struct changer *ch, const struct cand *x)
{
    for (size_t i = 0; i < ch->n; i++)
        if (bh_str_eq(ch->cands[i].text, x->text))
            return;
    if (ch->n >= CANDS_MAX)
        return;
    bh_arena_grow(ch->e->a, &ch->cands, &ch->cap, ch->n + 1, sizeof(*ch->cands));
    ch->cands[ch->n++] = *x;
}

/* " of request "gpu"", with the claim when there are several. */
static struct bh_str of_request(const struct changer *ch, size_t claim, struct bh_str request)
{
    const struct cli_explain *e = ch->e;

    if (e->n == 1)
        return bh_str_fmt(e->a, "request \"%.*s\"", BH_SF(request));
    return bh_str_fmt(e->a, "request \"%.*s\" of claim %.*s", BH_SF(request),
                      BH_SF(e->claims[claim]->metadata.name));
}

static void from_taint(struct changer *ch, const struct bh_dra_verdict *v)
{
    struct cand x = {.kind = TOLERATE, .claim = v->claim, .request = v->request, .taint = v->taint};

    x.text = bh_str_fmt(ch->e->a, "tolerate the taint %.*s in %.*s", BH_SF(v->device.detail),
                        BH_SF(of_request(ch, v->claim, v->request)));
    cand_add(ch, &x);
}

static double number(struct bh_str s)
{
    struct bh_quantity q;

    return bh_quantity_parse(s, &q, NULL) == 0 ? bh_quantity_double(q) : 0;
}

static void from_capacity(struct changer *ch, const struct bh_dra_verdict *v)
{
    struct cand x = {.kind = LESS, .claim = v->claim, .request = v->request, .key = v->capacity};

    if (!v->capacity.n || number(v->left) <= 0)
        return;
    x.value = v->left;
    x.distance = -number(v->left);
    x.text = bh_str_fmt(ch->e->a, "lower %.*s in %.*s to %.*s", BH_SF(v->capacity),
                        BH_SF(of_request(ch, v->claim, v->request)), BH_SF(v->left));
    cand_add(ch, &x);
}

/* The text with what stands at [at, at+n) replaced. */
static struct bh_str replaced(struct bh_arena *a, struct bh_str s, size_t at, size_t n,
                              struct bh_str by)
{
    return bh_str_fmt(a, "%.*s%.*s%.*s", BH_SF(bh_str_sub(s, 0, at)), BH_SF(by),
                      BH_SF(bh_str_sub(s, at + n, s.n)));
}

/* The one `quantity("…")` of a part, and what the one place that it looks at has: they are compared
 * in some way, so the part may hold when they are equal. */
static bool quantity_of(const struct bh_dra_verdict *v, size_t *ret_at, struct bh_str *ret_asked,
                        struct bh_str *ret_name, struct bh_str *ret_has)
{
    static const char open[] = "quantity(\"";
    ptrdiff_t at = bh_str_find(v->part, bh_s(open)), is = bh_str_find(v->values, BH_S(" is "));
    struct bh_quantity q;
    struct bh_str rest;
    size_t from;

    if (at < 0 || is < 0 || bh_str_find(v->values, BH_S(", ")) >= 0)
        return false;
    from = (size_t)at + sizeof(open) - 1;
    rest = bh_str_sub(v->part, from, v->part.n);
    if (bh_str_find(rest, bh_s(open)) >= 0)
        return false;
    *ret_asked = bh_str_cut(&rest, '"');
    *ret_has = bh_str_sub(v->values, (size_t)is + 4, v->values.n);
    *ret_at = from;
    rest = bh_str_sub(v->values, 0, (size_t)is);
    for (size_t i = rest.n; i > 0; i--)
        if (rest.p[i - 1] == '.') {
            *ret_name = bh_str_sub(rest, i, rest.n);
            return bh_quantity_parse(*ret_has, &q, NULL) == 0 &&
                   bh_quantity_parse(*ret_asked, &q, NULL) == 0;
        }
    return false;
}

static void from_selector(struct changer *ch, const struct bh_dra_verdict *v)
{
    struct bh_resource_v1_resource_claim claim = *ch->e->claims[v->claim];
    struct cand x = {.claim = v->claim, .request = v->request, .selector = v->selector};
    struct bh_str where = of_request(ch, v->claim, v->request), asked, name, has, text;
    struct bh_arena *a = ch->e->a;
    struct parts p;
    size_t at;

    if (!v->part.n || !parts_find(&claim, v->request, &p) || v->selector >= p.selectors->n)
        return;
    text = p.selectors->p[v->selector].cel->expression;
    if (quantity_of(v, &at, &asked, &name, &has)) {
        double d = number(asked) - number(has);

        x.kind = LESS;
        x.distance = d < 0 ? -d : d;
        x.expression = replaced(a, text, v->part_at + at, asked.n, has);
        x.text = bh_str_fmt(a, "%s %.*s in %.*s from %.*s to %.*s", d > 0 ? "lower" : "raise",
                            BH_SF(name), BH_SF(where), BH_SF(asked), BH_SF(has));
        cand_add(ch, &x);
    }
    x.kind = UNSELECTED;
    x.distance = 0;
    x.expression = replaced(a, text, v->part_at, v->part.n, BH_S("true"));
    x.text = bh_str_fmt(a, "give up `%.*s` in %.*s", BH_SF(v->part), BH_SF(where));
    cand_add(ch, &x);
}

static void from_holders(struct changer *ch, struct bh_str node)
{
    struct bh_arena *a = ch->e->a;
    struct bh_dra_holder *h;
    size_t n = bh_dra_node_holders(ch->e->m, node, a, &h);

    for (size_t i = 0; i < n; i++) {
        const struct bh_resource_v1_resource_claim *c =
            h[i].claim ? bh_obj_struct(h[i].claim) : NULL;
        struct bh_str pod = {NULL, 0};
        size_t devices = c && c->status.allocation ? c->status.allocation->devices.results.n : 1;
        struct cand x = {.kind = RELEASE, .uid = h[i].claim_uid, .node = node};

        if (h[i].admin)
            continue;
        for (size_t k = 0; c && k < c->status.reserved_for.n && !pod.n; k++)
            if (bh_str_eqc(c->status.reserved_for.p[k].resource, "pods"))
                pod = c->status.reserved_for.p[k].name;
        if (pod.n)
            x.text = bh_str_fmt(a, "free the %sdevice%s held by pod %.*s/%.*s (claim %.*s)",
                                devices == 1 ? "" : bh_str_fmt(a, "%zu ", devices).p,
                                devices == 1 ? "" : "s", BH_SF(h[i].claim_ns), BH_SF(pod),
                                BH_SF(h[i].claim_name));
        else
            x.text = bh_str_fmt(a, "free the device%s of claim %.*s/%.*s", devices == 1 ? "" : "s",
                                BH_SF(h[i].claim_ns), BH_SF(h[i].claim_name));
        cand_add(ch, &x);
    }
}

static void from_node(struct changer *ch, struct bh_dra_ask *q, struct bh_str node)
{
    struct bh_dra_verdict *v;
    size_t n = bh_dra_explain_devices(q, node, ch->e->a, &v);
    bool busy = false;

    for (size_t i = 0; i < n; i++) {
        if (v[i].why == BH_DRA_WHY_TAINT)
            from_taint(ch, &v[i]);
        else if (v[i].why == BH_DRA_WHY_CAPACITY)
            from_capacity(ch, &v[i]);
        else if (v[i].why == BH_DRA_WHY_SELECTOR)
            from_selector(ch, &v[i]);
        busy = busy || v[i].why == BH_DRA_WHY_IN_USE || v[i].why == BH_DRA_WHY_CAPACITY ||
               v[i].why == BH_DRA_WHY_COUNTERS;
    }
    if (busy)
        from_holders(ch, node);
}

static void from_claims(struct changer *ch, const struct cli_group *g)
{
    struct bh_arena *a = ch->e->a;

    for (size_t i = 0; i < g->n; i++)
        for (int64_t k = g->requests[i].wanted - 1; k > 0; k--) {
            struct cand x = {.kind = FEWER,
                             .claim = g->requests[i].claim,
                             .request = g->requests[i].name,
                             .count = k};

            x.text = bh_str_fmt(a, "ask for %lld device%s instead of %lld in %.*s", (long long)k,
                                k == 1 ? "" : "s", (long long)g->requests[i].wanted,
                                BH_SF(of_request(ch, x.claim, x.request)));
            cand_add(ch, &x);
        }
    for (size_t i = 0; i < ch->e->n; i++)
        for (size_t k = 0; k < ch->e->claims[i]->spec.devices.constraints.n; k++) {
            const struct bh_resource_v1_device_constraint *c =
                &ch->e->claims[i]->spec.devices.constraints.p[k];
            struct cand x = {.kind = UNCONSTRAINED, .claim = i, .constraint = k};

            x.text = bh_str_fmt(
                a, "give up the constraint %s %.*s of claim %.*s",
                c->has_match_attribute ? "matchAttribute" : "distinctAttribute",
                BH_SF(c->has_match_attribute ? c->match_attribute : c->distinct_attribute),
                BH_SF(ch->e->claims[i]->metadata.name));
            cand_add(ch, &x);
        }
}

static int by_cost(const void *x, const void *y)
{
    const struct cand *a = x, *b = y;

    if (a->kind != b->kind)
        return (int)a->kind - (int)b->kind;
    if (a->distance < b->distance || a->distance > b->distance)
        return a->distance < b->distance ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return bh_str_cmp(a->text, b->text);
}

/* ---- several at once ---- */

struct several {
    const struct cand *x[ITEMS_MAX];
    size_t n;
};

/* All tolerations and releases of one node; then without each that is not needed. */
static bool minimise(struct changer *ch, struct bh_str node, struct several *ret)
{
    struct changer one = {.e = ch->e, .tries = ch->tries, .steps_end = ch->steps_end};
    struct bh_dra_ask *q = bh_dra_ask_new(ch->e->m, ch->e->claims, ch->e->n, ch->e->a);
    struct bh_str at;
    bool fits;

    *ret = (struct several){.n = 0};
    from_node(&one, q, node);
    if (one.n > 1)
        qsort(one.cands, one.n, sizeof(*one.cands), by_cost);
    for (size_t i = 0; i < one.n && ret->n < ITEMS_MAX; i++)
        if (one.cands[i].kind == TOLERATE || one.cands[i].kind == RELEASE)
            ret->x[ret->n++] = &one.cands[i];
    fits = ret->n > 0 && try_changes(&one, ret->x, ret->n, &node, 1, &at);
    for (size_t i = ret->n; fits && i > 0; i--) {
        struct several less = {.n = 0};

        for (size_t k = 0; k < ret->n; k++)
            if (k != i - 1)
                less.x[less.n++] = ret->x[k];
        if (try_changes(&one, less.x, less.n, &node, 1, &at))
            *ret = less;
    }
    ch->tries = one.tries;
    return fits;
}

static size_t change_several(struct changer *ch, struct cli_change *ret)
{
    struct several best = {.n = 0}, s;
    struct bh_str node = {NULL, 0};
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < ch->nodes_n && may_try(ch); i++)
        if (minimise(ch, ch->nodes[i], &s) && (best.n == 0 || s.n < best.n)) {
            best = s;
            node = ch->nodes[i];
        }
    if (best.n == 0)
        return 0;
    for (size_t i = 0; i < best.n; i++)
        bh_buf_addf(&b, "%s%.*s",
                    i == 0            ? ""
                    : i + 1 == best.n ? " and "
                                      : ", ",
                    BH_SF(best.x[i]->text));
    *ret = (struct cli_change){bh_str_dup(ch->e->a, bh_buf_str(&b)), node};
    return 1;
}

size_t cli_explain_changes(const struct cli_explain *e, const struct cli_group *g, size_t n,
                           struct cli_change **ret)
{
    struct changer ch = {.e = e};
    struct bh_dra_ask *q = bh_dra_ask_new(e->m, e->claims, e->n, e->a);
    bool told[KINDS] = {false};
    struct bh_dra_stats st;
    size_t told_n = 0;

    bh_dra_stats(e->m, &st);
    ch.steps_end = st.steps + STEPS_ALL;
    *ret = bh_new_n(e->a, struct cli_change, TOLD_MAX);
    ch.nodes = bh_new_n(e->a, struct bh_str, NODES_TRIED_MAX);
    for (size_t i = 0; i < n && ch.nodes_n < NODES_TRIED_MAX; i++)
        ch.nodes[ch.nodes_n++] = g[i].nodes[0];
    for (size_t i = 0; i < ch.nodes_n; i++)
        from_node(&ch, q, ch.nodes[i]);
    if (n)
        from_claims(&ch, &g[0]);
    if (ch.n > 1)
        qsort(ch.cands, ch.n, sizeof(*ch.cands), by_cost);
    for (size_t i = 0; i < ch.n && told_n < TOLD_MAX && may_try(&ch); i++) {
        const struct cand *x = &ch.cands[i];
        bool one = x->node.n > 0;
        struct bh_str node;

        if (told[x->kind] ||
            !try_changes(&ch, &x, 1, one ? &x->node : ch.nodes, one ? 1 : ch.nodes_n, &node))
            continue;
        told[x->kind] = true;
        (*ret)[told_n++] = (struct cli_change){x->text, node};
    }
    return told_n ? told_n : change_several(&ch, *ret);
}
