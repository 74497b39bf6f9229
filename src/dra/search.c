/* The search: devices for all requests of all claims, with backtracking (dra.md sections 4.3
 * to 4.6).
 *
 * Upstream recurses: one(claim, request, alternative, device position, start). Here the calls stand
 * on an explicit stack of bounded depth; a frame is kept only where something is to be done when
 * the call returns:
 *
 *   CLAIM   the next claim was begun        too many devices there means no solution here
 *   SUBS    an alternative is being tried   failure: the next one
 *   ALL     one device of mode All placed   failure: take it back
 *   EXACT   one device placed               failure: take it back, try the next
 */
#include <string.h>

#include "api/engine.h"
#include "dra/index.h"

#define LOOKS_OF_STEP 8u /* candidates that may be passed over for one step */

enum out { OUT_YES, OUT_NO, OUT_MAX, OUT_FATAL, OUT_SPENT };

enum frame_kind { F_CLAIM, F_SUBS, F_ALL, F_EXACT };

struct frame {
    enum frame_kind kind;
    uint32_t c, r, s; /* s: alternative + 1; 0: none chosen yet */
    int64_t d;
    size_t at;       /* EXACT: position in the list */
    bool all_max;    /* SUBS: every one failed by size */
    uint64_t failed; /* EXACT: classes of devices that led nowhere from here */
};

struct search {
    struct dra_call *c;
    struct frame *stack;
    size_t depth;
    uint64_t failures; /* devices that were placed and taken back */
    bool prune;
};

/* ---- before the search ---- */

static bool pool_of_view(const struct dra_view *v, const struct dra_pool *p)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->pools[i].pool == p)
            return true;
    return false;
}

/* Pools that only lend counters are seen from everywhere, so their faults are, too. */
static bool any_invalid(const struct dra_call *c)
{
    for (size_t i = 0; i < c->view->n; i++)
        if (c->view->pools[i].invalid)
            return true;
    for (size_t i = 0; i < c->m->bad_n; i++)
        if (!c->m->bad_pools[i]->bad_incomplete && !pool_of_view(c->view, c->m->bad_pools[i]))
            return true;
    return false;
}

/* Mode All needs to know all devices: the first pool in order that is not in a state to tell. */
static int check_all(struct dra_call *c, size_t claim, const struct dra_sub *s)
{
    struct dra_vpool worst = {0}, v;

    for (size_t i = 0; i < c->view->n && !worst.pool; i++)
        if (c->view->pools[i].incomplete || c->view->pools[i].invalid)
            worst = c->view->pools[i];
    for (size_t i = 0; i < c->m->bad_n; i++) {
        struct dra_pool *p = c->m->bad_pools[i];

        v = (struct dra_vpool){.pool = p, .incomplete = p->bad_incomplete};
        if (!pool_of_view(c->view, p) && (!worst.pool || dra_vpool_cmp(&v, &worst) < 0))
            worst = v;
    }
    if (!worst.pool)
        return 0;
    return bh_err_set(c->err, BH_E_INVALID,
                      "claim %.*s/%.*s, request %.*s: asks for all devices, but resource pool "
                      "%.*s/%.*s is currently %s",
                      BH_SF(c->q->claims[claim]->metadata.namespace),
                      BH_SF(c->q->claims[claim]->metadata.name), BH_SF(s->name),
                      BH_SF(worst.pool->driver), BH_SF(worst.pool->name),
                      worst.incomplete ? "being updated" : "invalid");
}

/* Section 4.4. */
static int collect_all(struct dra_call *c, size_t claim, const struct dra_sub *s)
{
    struct dra_list *l = &c->all[s->id];
    int r = check_all(c, claim, s);

    l->at = bh_new_n(c->a, uint32_t, c->cands_n);
    for (size_t i = 0; r >= 0 && i < c->cands_n; i++) {
        r = dra_selectable(c, claim, s, &c->cands[i]);
        if (r > 0 && dra_capacity_fits(c->m, s, &c->cands[i]))
            l->at[l->n++] = (uint32_t)i;
    }
    return r < 0 ? r : 0;
}

/* Collects for mode All, and counts what the claim needs at least. */
static int prepare(struct dra_call *c)
{
    for (size_t i = 0; i < c->d->n; i++) {
        const struct dra_dclaim *dc = &c->d->claims[i];
        int64_t sum = 0;

        for (size_t k = 0; k < dc->n; k++) {
            int64_t least = INT64_MAX;

            for (size_t j = 0; j < dc->reqs[k].n; j++) {
                const struct dra_sub *s = &dc->reqs[k].subs[j];
                int64_t n = s->count;

                if (s->all) {
                    int r = collect_all(c, i, s);

                    if (r < 0)
                        return r;
                    n = (int64_t)c->all[s->id].n;
                }
                least = n < least ? n : least;
            }
            if (dc->reqs[k].n && __builtin_add_overflow(sum, least, &sum))
                sum = INT64_MAX;
        }
        if (sum > DRA_CLAIM_DEVICES_MAX)
            return bh_err_set(
                c->err, BH_E_INVALID,
                "claim %.*s/%.*s: number of requested devices %lld exceeds the claim limit of %u",
                BH_SF(c->q->claims[i]->metadata.namespace), BH_SF(c->q->claims[i]->metadata.name),
                (long long)sum, DRA_CLAIM_DEVICES_MAX);
    }
    return 0;
}

size_t dra_cands_fill(const struct dra_view *v, struct dra_cand *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++) {
        if (v->pools[i].incomplete || v->pools[i].invalid)
            continue;
        for (size_t k = 0; k < v->pools[i].n; k++) {
            struct dra_slice *s = v->pools[i].slices[k];

            for (size_t j = 0; j < s->n; j++)
                ret[n++] = (struct dra_cand){
                    .dev = &s->devs[j], .vpool = (uint32_t)i, .targets = s->per_device ? 0 : 2};
        }
    }
    return n;
}

static void cands_get(struct dra_call *c)
{
    struct bh_dra_model *m = c->m;
    const struct dra_view *v = c->view;

    c->scan = dra_scan_get(m, c->d, v, c->opts->scoring);
    if (c->scan) {
        c->cands = c->scan->cands;
        c->cands_n = c->scan->cands_n;
        return;
    }
    if (m->cands_cap < v->n_devices) {
        m->cands_cap = v->n_devices * 2;
        m->cands = bh_realloc(m->cands, m->cands_cap * sizeof(*m->cands));
    }
    c->cands = m->cands;
    c->cands_n = dra_cands_fill(v, c->cands);
}

/* The candidates of a scan are as they were before the call. */
static void cands_reset(struct dra_call *c)
{
    for (size_t i = 0; i < c->touched_n; i++) {
        struct dra_cand *x = &c->cands[c->touched[i]];

        *x = (struct dra_cand){.dev = x->dev, .vpool = x->vpool, .targets = x->targets};
    }
}

/* Tables of the call, and the stack: its depth is bounded by what claims can hold. */
static void call_init(struct dra_call *c, struct search *s)
{
    size_t frames = 1, placed = 0, cons = 0;
    uint64_t *masks;

    for (size_t i = 0; i < c->d->n; i++) {
        frames += 1 + c->d->claims[i].n + DRA_CLAIM_DEVICES_MAX;
        placed += DRA_CLAIM_DEVICES_MAX;
        cons = cons > c->d->claims[i].cons_n ? cons : c->d->claims[i].cons_n;
    }
    s->stack = bh_new_n(c->a, struct frame, frames);
    /* One more: a device is written down before it is known to fit. */
    c->placed = bh_new_n(c->a, struct dra_placed, placed + 1);
    if (cons) {
        masks = bh_new_n(c->a, uint64_t, (placed + 1) * cons);
        for (size_t i = 0; i <= placed; i++)
            c->placed[i].masks = masks + i * cons;
    }
    c->incall = bh_new_n(c->a, struct dra_incall, c->view->n);
    c->per_claim = bh_new_n(c->a, uint32_t, c->d->n);
    c->cons = bh_new_n(c->a, struct dra_con_state *, c->d->n);
    c->chosen = bh_new_n(c->a, uint32_t *, c->d->n);
    if (c->d->has_all)
        c->all = bh_new_n(c->a, struct dra_list, c->d->subs_n);
    for (size_t i = 0; i < c->d->n; i++) {
        const struct dra_dclaim *dc = &c->d->claims[i];

        c->chosen[i] = bh_new_n(c->a, uint32_t, dc->n);
        c->cons[i] = bh_new_n(c->a, struct dra_con_state, dc->cons_n);
        for (size_t k = 0; k < dc->cons_n; k++)
            if (dc->cons[k].distinct)
                c->cons[i][k].last =
                    bh_new_n(c->a, const struct bh_resource_v1_device_attribute *, dc->n);
    }
}

/* ---- one device ---- */

static int must_place(struct dra_call *c, const struct frame *f, const struct dra_sub *s,
                      uint32_t cand)
{
    const struct dra_dev *d = c->cands[cand].dev;

    if (dra_in_use(c, f->c, s, &c->cands[cand]))
        return OUT_NO;
    switch (dra_place(c, f->c, f->r, s, cand)) {
    case DRA_FITS:
        return OUT_YES;
    case DRA_UNFIT_CONSTRAINT:
        (void)bh_err_set(
            c->err, BH_E_INVALID,
            "claim %.*s/%.*s, request %.*s: cannot add device %.*s/%.*s/%.*s because a claim "
            "constraint would not be satisfied",
            BH_SF(c->q->claims[f->c]->metadata.namespace), BH_SF(c->q->claims[f->c]->metadata.name),
            BH_SF(s->name), BH_SF(d->slice->spec->driver), BH_SF(d->slice->spec->pool.name),
            BH_SF(d->d->name));
        return OUT_FATAL;
    default:
        return OUT_NO;
    }
}

uint32_t dra_cand_at(struct dra_call *c, const struct dra_sub *s, size_t *at)
{
    if (c->order) {
        struct dra_list *l = &c->order[s->id];

        return *at < l->n ? dra_order_at(c, l, *at) : DRA_NONE;
    }
    if (c->scan)
        *at = dra_fit_next(&c->scan->fits[s->id], *at);
    return *at < c->cands_n ? (uint32_t)*at : DRA_NONE;
}

/* Whether the values of matchAttribute constraints say that the candidate leads nowhere: the
 * devices before it have another one, or too few of those that are still wanted have the same. */
static bool dead_value(const struct dra_call *c, const struct frame *f, const struct dra_sub *sub,
                       uint32_t at)
{
    const struct dra_dclaim *dc = &c->d->claims[f->c];
    const struct dra_fit *fit = &c->scan->fits[sub->id];

    for (size_t i = 0; i < fit->marks_n; i++) {
        const struct dra_mark *k = &fit->marks[i];
        const struct dra_con_state *st = &c->cons[f->c][k->con];
        uint32_t id = k->values->id[at], first;

        if (id == DRA_VALUE_NONE)
            return true;
        if (id == DRA_VALUE_ANY)
            continue;
        if (st->n) {
            first = k->values->id[st->cand];
            if (first != DRA_VALUE_ANY && first != id)
                return true;
            continue;
        }
        if (dra_mark_room(k, id) < (uint64_t)(sub->count - f->d))
            return true;
        for (size_t r = f->r + 1; dc->exact && r < dc->n; r++) {
            const struct dra_sub *s = &dc->reqs[r].subs[0];
            const struct dra_fit *other = &c->scan->fits[s->id];

            for (size_t j = 0; j < other->marks_n; j++)
                if (other->marks[j].con == k->con &&
                    dra_mark_room(&other->marks[j], id) < (uint64_t)s->count)
                    return true;
        }
    }
    return false;
}

/* Whether more is wanted for the claim after this device, of requests that a bound knows. */
static bool may_go_on(const struct dra_call *c, const struct frame *f, const struct dra_sub *sub)
{
    const struct dra_dclaim *dc = &c->d->claims[f->c];

    return f->d + 1 < sub->count || (dc->exact && f->r + 1 < dc->n);
}

/* Places the next device from f->at on. */
static enum out exact_next(struct search *s, struct frame *f, const struct dra_sub *sub)
{
    struct dra_call *c = s->c;
    uint32_t at;

    for (; (at = dra_cand_at(c, sub, &f->at)) != DRA_NONE; f->at++) {
        struct dra_cand *x = &c->cands[at];
        int r;

        /* What is looked at counts, too, though it costs less than a step. */
        if (++c->looks / LOOKS_OF_STEP + c->steps > c->steps_max)
            return OUT_SPENT;
        if (c->scan && s->prune && dead_value(c, f, sub, at))
            continue;
        if (dra_in_use(c, f->c, sub, x))
            continue;
        r = dra_selectable(c, f->c, sub, x);
        if (r < 0)
            return OUT_FATAL;
        if (r == 0 || !dra_capacity_fits(c->m, sub, x))
            continue;
        if (f->failed) {
            uint32_t cls = dra_cand_class(c, x);

            if (cls <= DRA_CLASSES_MAX && (f->failed >> (cls - 1)) & 1)
                continue; /* no different from one that led nowhere */
        }
        if (dra_place(c, f->c, f->r, sub, at) != DRA_FITS)
            continue;
        if (s->prune && s->failures >= c->m->astray && may_go_on(c, f, sub) &&
            !dra_may_finish(c, f->c, f->r, sub, f->at + 1, (size_t)(sub->count - f->d - 1))) {
            dra_unplace(c);
            continue;
        }
        return OUT_YES;
    }
    return OUT_NO;
}

static void exact_failed(struct search *s, struct frame *f, const struct dra_sub *sub)
{
    struct dra_call *c = s->c;
    uint32_t at = dra_cand_at(c, sub, &f->at), cls;

    f->at++;
    s->failures++;
    if (!s->prune)
        return;
    cls = dra_cand_class(c, &c->cands[at]);
    if (cls <= DRA_CLASSES_MAX)
        f->failed |= UINT64_C(1) << (cls - 1);
}

/* ---- the machine ---- */

static const struct dra_sub *sub_of(const struct dra_call *c, const struct frame *f)
{
    const struct dra_req *q = &c->d->claims[f->c].reqs[f->r];

    return &q->subs[q->listed ? f->s - 1 : 0];
}

/* Begins the call in *f. Returns true when the next call stands in *f, false when the outcome is
 * known. */
static bool step(struct search *s, struct frame *f, enum out *ret)
{
    struct dra_call *c = s->c;
    const struct dra_dclaim *dc;
    const struct dra_sub *sub;
    struct frame *top;
    int64_t num;

    if (++c->steps + c->looks / LOOKS_OF_STEP > c->steps_max) {
        *ret = OUT_SPENT;
        return false;
    }
    if (f->c == c->d->n) {
        *ret = OUT_YES;
        return false;
    }
    dc = &c->d->claims[f->c];
    if (f->r == dc->n) {
        s->stack[s->depth++] = (struct frame){.kind = F_CLAIM};
        *f = (struct frame){.c = f->c + 1};
        return true;
    }
    if (dc->reqs[f->r].listed && f->s == 0) {
        top = &s->stack[s->depth++];
        *top = (struct frame){.kind = F_SUBS, .c = f->c, .r = f->r, .s = 1, .all_max = true};
        *f = *top;
        c->chosen[f->c][f->r] = 0;
        return true;
    }
    sub = sub_of(c, f);
    num = sub->all ? (int64_t)c->all[sub->id].n : sub->count;
    *ret = OUT_NO;
    if (sub->all && num == 0)
        return false;
    if (f->d == num) {
        *f = (struct frame){.c = f->c, .r = f->r + 1};
        return true;
    }
    *ret = OUT_MAX;
    if (num - f->d > (int64_t)DRA_CLAIM_DEVICES_MAX - (int64_t)c->per_claim[f->c])
        return false;
    top = &s->stack[s->depth++];
    *top = *f;
    top->kind = sub->all ? F_ALL : F_EXACT;
    top->failed = 0;
    if (sub->all)
        *ret = (enum out)must_place(c, f, sub, c->all[sub->id].at[f->d]);
    else
        *ret = exact_next(s, top, sub);
    if (*ret != OUT_YES) {
        s->depth--;
        return false;
    }
    f->d++;
    f->at = top->at + 1;
    return true;
}

/* Returns out to the frame on top. Returns true when it makes another call, in *f. */
static bool give(struct search *s, struct frame *f, enum out *out)
{
    struct frame *top = &s->stack[s->depth - 1];
    struct dra_call *c = s->c;

    switch (top->kind) {
    case F_CLAIM:
        if (*out == OUT_MAX)
            *out = OUT_NO;
        break;
    case F_SUBS:
        if (*out != OUT_NO && *out != OUT_MAX)
            break;
        top->all_max &= *out == OUT_MAX;
        if (top->s < c->d->claims[top->c].reqs[top->r].n) {
            c->chosen[top->c][top->r] = top->s;
            top->s++;
            *f = *top;
            return true;
        }
        *out = top->all_max ? OUT_MAX : OUT_NO;
        break;
    case F_ALL:
        dra_unplace(c);
        break;
    case F_EXACT:
        dra_unplace(c);
        if (*out != OUT_NO)
            break;
        exact_failed(s, top, sub_of(c, top));
        *out = exact_next(s, top, sub_of(c, top));
        if (*out != OUT_YES)
            break;
        *f = *top;
        f->d++;
        f->at = top->at + 1;
        return true;
    }
    s->depth--;
    return false;
}

static enum out search_run(struct search *s)
{
    struct frame f = {0};
    enum out out = OUT_NO;

    for (;;) {
        while (step(s, &f, &out))
            ;
        if (out == OUT_YES || out == OUT_SPENT)
            return out; /* what is placed stays */
        for (;;) {
            if (s->depth == 0)
                return out;
            if (give(s, &f, &out))
                break;
        }
    }
}

/* ---- the call ---- */

static enum bh_dra_outcome finish(struct dra_call *c, enum out out, struct bh_dra_result *ret)
{
    switch (out) {
    case OUT_YES:
        if (dra_result(c, ret) < 0)
            return BH_DRA_FATAL;
        c->d->hint = c->node->idx;
        c->m->st.solved++;
        return BH_DRA_OK;
    case OUT_FATAL:
        return BH_DRA_FATAL;
    case OUT_SPENT:
        (void)bh_err_set(c->err, BH_E_TIMEOUT, "gave up allocating devices after %llu search steps",
                         (unsigned long long)c->steps_max);
        return BH_DRA_SPENT;
    default:
        break;
    }
    if (c->late) {
        (void)bh_err_set(c->err, BH_E_INVALID, "%s", c->late);
        return BH_DRA_FATAL;
    }
    if (any_invalid(c)) {
        (void)bh_err_set(c->err, BH_E_UNAVAILABLE, "invalid resource pools were encountered");
        return BH_DRA_NODE_ERROR;
    }
    return BH_DRA_NO_SOLUTION;
}

static enum bh_dra_outcome call_run(struct dra_call *c, struct bh_dra_result *ret)
{
    struct search s = {.c = c};
    enum out out;

    c->view = dra_view_get(c->m, c->node);
    if (c->view->fatal) {
        (void)bh_err_set(c->err, BH_E_INVALID, "%s", c->view->fatal);
        return BH_DRA_FATAL;
    }
    cands_get(c);
    call_init(c, &s);
    if (c->d->has_all && prepare(c) < 0)
        return BH_DRA_FATAL;
    if (c->opts->scoring != BH_DRA_FIRST_FIT)
        dra_order(c);
    /* Equal devices are tried once, where no rule depends on what was tried before. */
    s.prune = !c->d->has_admin && (!c->d->has_distinct || c->m->f.strict_distinct) &&
              !c->m->f.compat_counter_leak && !c->m->f.compat_list_narrowing;
    out = search_run(&s);
    ret->steps = c->steps;
    ret->work = c->steps + c->looks / LOOKS_OF_STEP;
    c->m->st.steps += c->steps;
    return finish(c, out, ret);
}

enum bh_dra_outcome bh_dra_allocate(struct bh_dra_ask *q, struct bh_str node,
                                    const struct bh_dra_opts *opts, struct bh_arena *a,
                                    struct bh_dra_result *ret, struct bh_err *err)
{
    static const struct bh_dra_opts none;
    struct dra_call c = {.q = q, .m = q->m, .d = q->d, .opts = opts ? opts : &none, .a = a};
    struct dra_grants **held = NULL;
    enum bh_dra_outcome out;
    struct bh_err own;
    bool supposed;

    memset(ret, 0, sizeof(*ret));
    c.err = err ? err : &own;
    c.steps_max = c.opts->steps_max ? c.opts->steps_max : BH_DRA_STEPS_DEFAULT;
    c.m->st.allocations++;
    if (bh_dra_ask_check(q, c.err) < 0)
        return BH_DRA_FATAL;
    c.node = dra_node_get(q->m, node);
    if (!c.node || !c.node->known)
        return BH_DRA_NO_SOLUTION;
    supposed = c.m->supposing || c.opts->released_n || c.opts->held_n;
    if (!supposed && dra_ask_repeat(q, c.node, c.opts, a, ret)) {
        c.d->hint = c.node->idx;
        c.m->st.repeated++;
        return BH_DRA_OK;
    }
    if (c.opts->released_n)
        dra_ledger_release(c.m, c.opts->released, c.opts->released_n, false);
    if (c.opts->held_n)
        held = dra_ledger_hold(c.m, c.opts->held, c.opts->held_n, a);
    out = call_run(&c, ret);
    cands_reset(&c);
    if (c.opts->held_n)
        dra_ledger_unhold(c.m, held, c.opts->held_n);
    if (c.opts->released_n)
        dra_ledger_release(c.m, c.opts->released, c.opts->released_n, true);
    if (supposed)
        return out;
    if (out == BH_DRA_NO_SOLUTION || out == BH_DRA_NODE_ERROR ||
        (out == BH_DRA_SPENT && !c.opts->steps_max)) /* with more it may do */
        dra_demand_learn(c.d, c.node);
    else if (out == BH_DRA_OK) {
        dra_demand_succeeded(c.d, c.node, c.opts->scoring, ret);
        if (c.own_node)
            q->last_no = 0;
        else
            dra_ask_keep(q, c.opts, a, ret);
    }
    return out;
}
