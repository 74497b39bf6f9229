/* What evaluation costs: each call as it is charged, and the estimate of a whole expression before
 * it runs.
 *
 * The numbers are upstream's, to the unit, because budgets are part of the API. Floating point is
 * used where upstream uses it, so that rounding agrees. Sums and products saturate.
 */
#include "cel/cel_opaque.h"

#include <math.h>

#define F                  0.1     /* of a code point, for what walks a string */
#define F_REGEX            0.25    /* of a code point of a pattern */
#define CHECK_COST         350000u /* a question to the authorizer */
#define INCLUDES_MAX       48u
#define TRAVERSE_DEPTH_MAX 512

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t r;

    return __builtin_add_overflow(a, b, &r) ? UINT64_MAX : r;
}

#define FORMAT_NAME_MAX 64 /* upstream's guess of how long names of formats get */

static uint64_t mul(uint64_t a, uint64_t b)
{
    uint64_t r;

    return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

static uint64_t scale(uint64_t n, double by)
{
    double d = ceil((double)n * by);

    return d >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)d;
}

/* ---- at run time
 * --------------------------------------------------------------------------------------------------------
 */

/* Strings and bytes by length, other scalars 1, lists and maps by what they hold. No view of JSON
 * is opened here that the call itself does not open. */
static uint64_t traverse(struct bh_cel_value v, unsigned depth, uint64_t *budget)
{
    struct bh_cel_run run = {0};
    BH_AUTO_ARENA tmp = NULL;
    uint64_t cost = 0;

    if (v.kind == BH_CEL_STRING || v.kind == BH_CEL_BYTES)
        return (uint64_t)((double)v.n * F);
    if ((v.kind != BH_CEL_LIST && v.kind != BH_CEL_MAP) || depth == 0)
        return 1;
    if (v.kind == BH_CEL_MAP ? v.map->ops != NULL : v.list->v == NULL)
        tmp = bh_arena_new(0);
    run.a = tmp;
    for (size_t i = 0; i < (v.kind == BH_CEL_LIST ? v.list->n : v.map->n) && *budget > 0; i++) {
        struct bh_cel_value k, x;

        (*budget)--;
        if (v.kind == BH_CEL_LIST) {
            x = cel_list_at(&run, v, i);
        } else {
            cel_map_at(&run, v.map, i, &k, &x);
            cost = add(cost, traverse(k, depth - 1, budget));
        }
        cost = add(cost, traverse(x, depth - 1, budget));
    }
    return *budget ? cost : UINT64_MAX / 4;
}

static uint64_t sort_cost(struct bh_cel_value keys)
{
    struct bh_cel_run run = {0};
    BH_AUTO_ARENA tmp = NULL;
    struct bh_cel_value first;
    double n, per = 2;

    if (keys.kind != BH_CEL_LIST || keys.list->n == 0)
        return 11;
    n = (double)keys.list->n;
    if (!keys.list->v)
        tmp = bh_arena_new(0);
    run.a = tmp;
    first = cel_list_at(&run, keys, 0);
    if (first.kind == BH_CEL_STRING || first.kind == BH_CEL_BYTES)
        per = 2.1;
    return 11 + (uint64_t)(per * n * n);
}

static bool k8s_kind(uint32_t kind)
{
    return kind >= BH_CEL_IP && kind <= BH_CEL_DECISION;
}

static uint64_t cidr_cost(enum cel_cost cc, const struct bh_cel_value *args)
{
    uint64_t size = cel_size(args[0]), cost = scale(size, 2 * F);

    if (cc == CC_CONTAINS_CIDR)
        cost += scale(size, F) + 1;
    if (args[1].kind == BH_CEL_STRING)
        cost += scale(cel_size(args[1]), F);
    return cost;
}

/* Sizes of lists are known at once; of strings they are counted. */
uint64_t cel_call_cost(enum cel_cost cc, const struct bh_cel_value *args, unsigned n,
                       struct bh_cel_value result, const struct cel_overload *ov)
{
    uint64_t a, b, budget = 4u << 20;

    (void)ov;
    switch (cc) {
    case CC_ZERO:
        return 0;
    case CC_SIZE0:
    case CC_STARTS:
    case CC_SIZE0_OWN:
    case CC_PARSE:
    case CC_FORMAT:
    case CC_QUOTE:
        return scale(cel_size(args[0]), F);
    case CC_CANONICAL:
    case CC_REPLACE:
    case CC_SPLIT:
        return scale(cel_size(args[0]), 2 * F);
    case CC_JOIN:
        return scale(cel_size(result), 2 * F);
    case CC_IN_LIST:
        return cel_size(args[1]);
    case CC_COMPARE:
        if (k8s_kind(args[0].kind))
            return 1;
        a = cel_size(args[0]);
        b = cel_size(args[1]);
        return scale(a < b ? a : b, F);
    case CC_ADD_STR:
        return scale(cel_size(args[0]) + cel_size(args[1]), F);
    case CC_MATCHES:
    case CC_FIND:
    case CC_FIND_ALL:
        return mul((uint64_t)ceil((1.0 + (double)cel_size(args[0])) * F),
                   scale(cel_size(args[1]), F_REGEX));
    case CC_CONTAINS:
        return mul(scale(cel_size(args[0]), F), scale(cel_size(args[1]), F));
    case CC_TRAVERSE:
        return traverse(args[0], TRAVERSE_DEPTH_MAX, &budget);
    case CC_CONTAINS_IP:
    case CC_CONTAINS_CIDR:
        return k8s_kind(args[0].kind) ? cidr_cost(cc, args) : 1;
    case CC_VALIDATE:
        if (args[0].kind != BH_CEL_FORMAT)
            return 1;
        a = ((const struct cel_named_format *)args[0].p)->regex_size;
        return mul((uint64_t)ceil((1.0 + (double)cel_size(args[1])) * F), scale(a, F_REGEX));
    case CC_CHECK:
        return CHECK_COST;
    case CC_SELECTOR:
        a = cel_size(args[n - 1]);
        return add(add(10, scale(a, F)), mul(50, scale(a, 0.5)));
    case CC_SETS_1:
        return 1 + mul(cel_size(args[0]), cel_size(args[1]));
    case CC_SETS_2:
        return 1 + mul(2, mul(cel_size(args[0]), cel_size(args[1])));
    case CC_SLICE:
    case CC_RANGE:
    case CC_REVERSE:
        return 11 + cel_size(result);
    case CC_FLATTEN:
        return add(11,
                   mul(n == 2 && args[1].kind == BH_CEL_INT ? (args[1].i > 0 ? args[1].u : 0) : 1,
                       cel_size(args[0])));
    case CC_SORT:
        return sort_cost(args[n - 1]);
    case CC_DISTINCT:
        return sort_cost(args[0]);
    case CC_INCLUDES:
        a = args[0].kind == BH_CEL_LIST ? args[0].list->n : 1;
        return a > INCLUDES_MAX ? INCLUDES_MAX : a;
    default:
        return 1;
    }
}

/* ---- the estimate
 * ----------------------------------------------------------------------------------------------------------
 */

static struct cel_cost_range fixed(uint64_t n)
{
    return (struct cel_cost_range){n, n};
}

static struct cel_cost_range plus(struct cel_cost_range a, struct cel_cost_range b)
{
    return (struct cel_cost_range){add(a.min, b.min), add(a.max, b.max)};
}

static struct cel_cost_range times(struct cel_cost_range a, struct cel_cost_range b)
{
    return (struct cel_cost_range){mul(a.min, b.min), mul(a.max, b.max)};
}

static struct cel_cost_range scaled(struct cel_cost_range a, double by)
{
    return (struct cel_cost_range){scale(a.min, by), scale(a.max, by)};
}

static struct cel_cost_range either(struct cel_cost_range a, struct cel_cost_range b)
{
    return (struct cel_cost_range){a.min < b.min ? a.min : b.min, a.max > b.max ? a.max : b.max};
}

static const struct cel_cost_range unknown = {0, UINT64_MAX};

static void set_size(struct cel_ast *e, struct cel_cost_range s)
{
    e->sized = true;
    e->size = s;
}

static struct cel_cost_range type_size(const struct bh_cel_type *t)
{
    if (!t)
        return unknown;
    if (cel_type_is_optional(t))
        return type_size(t->p[0]);
    if (t->kind == TK_BOOL || t->kind == TK_INT || t->kind == TK_UINT || t->kind == TK_DOUBLE ||
        t->kind == TK_TIMESTAMP || t->kind == TK_DURATION)
        return fixed(1);
    return unknown;
}

static struct cel_cost_range size_of(const struct cel_ast *e)
{
    if (e->kind == AST_CONST) {
        if (e->val.kind == BH_CEL_STRING || e->val.kind == BH_CEL_BYTES)
            return fixed(cel_size(e->val));
        return fixed(1);
    }
    if (e->kind == AST_LIST || e->kind == AST_MAP)
        return fixed(e->n);
    if (e->sized)
        return e->size;
    if (e->hint && e->hint->size_max != BH_CEL_SIZE_UNKNOWN)
        return (struct cel_cost_range){0, e->hint->size_max};
    return type_size(e->type);
}

/* Whether size_of() knows more than nothing. */
static bool has_size(const struct cel_ast *e)
{
    return e->sized || e->kind == AST_LIST || e->kind == AST_MAP || e->kind == AST_CONST ||
           (e->hint && e->hint->size_max != BH_CEL_SIZE_UNKNOWN) || type_size(e->type).min;
}

/* Size of an element of a list, for functions that walk strings in it. */
static struct cel_cost_range element_size(const struct cel_ast *e)
{
    if (e->hint && e->hint->kind == TK_LIST && e->hint->p[0]->size_max != BH_CEL_SIZE_UNKNOWN)
        return (struct cel_cost_range){0, e->hint->p[0]->size_max};
    return e->type->np ? type_size(e->type->p[0]) : unknown;
}

static bool text_type(const struct bh_cel_type *t)
{
    return t->kind == TK_STRING || t->kind == TK_BYTES;
}

static struct cel_cost_range literal_int(const struct cel_ast *e, struct cel_cost_range otherwise)
{
    if (e->kind == AST_CONST && e->val.kind == BH_CEL_INT)
        return fixed(e->val.i > 0 ? e->val.u : 0);
    return otherwise;
}

static struct cel_cost_range estimate_traverse(const struct cel_ast *target)
{
    struct cel_cost_range per = fixed(1), size = size_of(target);

    if (!target->type->np)
        return scaled(size, F);
    if (target->type->kind == TK_LIST && text_type(target->type->p[0]))
        per = plus(per, scaled(element_size(target), F));
    return times(size, per);
}

static struct cel_cost_range estimate_sort(const struct cel_ast *keys)
{
    struct cel_cost_range n = size_of(keys), sq = times(n, n);

    return plus(fixed(11), scaled(sq, keys->type->np && text_type(keys->type->p[0]) ? 2.1 : 2));
}

/* Values of Kubernetes' own types: most compare at once. */
static struct cel_cost_range opaque_equal(const struct bh_cel_type *t, const struct cel_ast *right)
{
    if (bh_str_eqc(t->name, "kubernetes.URL"))
        return scaled((struct cel_cost_range){1, has_size(right) ? size_of(right).max : 1}, F);
    if (bh_str_eqc(t->name, "kubernetes.NamedFormat"))
        return scaled((struct cel_cost_range){1, FORMAT_NAME_MAX}, F);
    return fixed(1);
}

/* replace(): the longest replacement as often as it fits, and the shortest. */
static struct cel_cost_range replaced_size(struct cel_cost_range s, struct cel_cost_range from,
                                           struct cel_cost_range to)
{
    struct cel_cost_range count = {0, 0}, kept = {0, 0};

    if (from.min == 0) {
        count.max = add(s.max, 1);
        kept.max = s.max;
    } else if (to.max <= from.min) {
        kept.max = s.max;
    } else {
        count.max = scale(1, ceil((double)s.max / (double)from.min));
    }
    if (from.max == 0) {
        count.min = add(s.min, 1);
        kept.min = s.min;
    } else if (from.max <= to.min) {
        kept.min = s.min;
    } else {
        count.min = scale(1, ceil((double)s.min / (double)from.max));
    }
    return plus(times(count, to), kept);
}

/* Cost of one overload without its operands; *ret_size when the size of the result is known. */
static struct cel_cost_range estimate_overload(struct cel_ast *e, const struct cel_decl *d,
                                               struct cel_cost_range *size, bool *sized)
{
    struct cel_ast **a = e->args;
    struct cel_cost_range s0 = e->n > 0 ? size_of(a[0]) : fixed(0),
                          s1 = e->n > 1 ? size_of(a[1]) : fixed(0), x;
    uint64_t smallest;

    *sized = true;
    switch ((enum cel_cost)d->ov->cost) {
    case CC_SIZE0:
        *size = d->kinds[0] == BH_CEL_STRING ? (struct cel_cost_range){s0.min, s0.max * 4}
                                             : (struct cel_cost_range){s0.min / 4, s0.max};
        return scaled(s0, F);
    case CC_QUOTE:
        /* As upstream, the largest size overflows. */
        *size = (struct cel_cost_range){s0.min + 2, s0.max * 2 + 2};
        return scaled(s0, F);
    case CC_SIZE0_OWN:
        *size = s0;
        return scaled(s0, F);
    case CC_SPLIT:
        *size = (struct cel_cost_range){0, s0.max};
        if (e->n == 3 && a[2]->kind == AST_CONST && a[2]->val.kind == BH_CEL_INT)
            size->max = a[2]->val.u;
        return scaled(s0, 2 * F);
    case CC_JOIN:
        x = times(s0, element_size(a[0]));
        if (e->n == 2)
            x = plus(x, times(s1, (struct cel_cost_range){s0.min ? s0.min - 1 : 0,
                                                          s0.max ? s0.max - 1 : 0}));
        *size = x;
        return scaled(x, F);
    case CC_ADD_STR:
        *size = plus(s0, s1);
        return scaled(*size, F);
    case CC_FIND:
    case CC_FIND_ALL:
        *size = (struct cel_cost_range){0, s0.max};
        return times(scaled(plus(s0, fixed(1)), F), scaled(s1, F_REGEX));
    case CC_SLICE: {
        uint64_t from = literal_int(a[1], fixed(0)).max, to = literal_int(a[2], s0).max;

        *size = fixed(to - from); /* an end before the start counts as endless, as upstream */
        return plus(fixed(11), *size);
    }
    case CC_RANGE:
        *size = literal_int(a[0], fixed(UINT64_MAX));
        return plus(fixed(11), *size);
    case CC_REVERSE:
        *size = s0;
        return plus(fixed(11), s0);
    case CC_FLATTEN:
        *size = s0;
        return plus(fixed(11), times(e->n == 2 ? literal_int(a[1], unknown) : fixed(1), s0));
    case CC_SORT:
        /* The size of the result is taken for the work that it makes, as upstream. */
        *size = times(size_of(a[e->n - 1]), size_of(a[e->n - 1]));
        return estimate_sort(a[e->n - 1]);
    case CC_DISTINCT:
        *size = times(s0, s0);
        return plus(fixed(11), scaled(times(s0, s0), 2));
    case CC_REPLACE:
        *size = replaced_size(s0, s1, size_of(a[2]));
        return scaled(s0, 2 * F);
    default:
        break;
    }
    *sized = false;
    switch ((enum cel_cost)d->ov->cost) {
    case CC_STARTS:
        return scaled(s1, F);
    case CC_FORMAT:
    case CC_PARSE:
        return scaled(s0, F);
    case CC_CANONICAL:
        return scaled(s0, 2 * F);
    case CC_IN_LIST:
        return s1;
    case CC_COMPARE:
        if (e->op == OP_EQ && (a[0]->type->kind == TK_OBJECT || a[0]->type->kind == TK_OPAQUE) &&
            (bh_str_starts(a[0]->type->name, BH_S("kubernetes.")) ||
             bh_str_starts(a[0]->type->name, BH_S("net."))))
            return opaque_equal(a[0]->type, a[1]);
        smallest = s0.max < s1.max ? s0.max : s1.max;
        return (struct cel_cost_range){smallest ? 1 : 0, scale(smallest, F)};
    case CC_MATCHES:
        return times(scaled(plus(s0, fixed(1)), F), scaled(s1, F_REGEX));
    case CC_CONTAINS:
        return times(scaled(s0, F), scaled(s1, F));
    case CC_TRAVERSE:
        return estimate_traverse(a[0]);
    case CC_CONTAINS_IP:
    case CC_CONTAINS_CIDR:
        x = scaled((struct cel_cost_range){4, 16}, 2 * F);
        if (d->ov->cost == CC_CONTAINS_CIDR)
            x = plus(x, plus(scaled((struct cel_cost_range){4, 16}, F), fixed(1)));
        return d->kinds[1] == BH_CEL_STRING ? plus(x, scaled(s1, F)) : x;
    case CC_VALIDATE:
        return times(scaled(s1, F), fixed(scale(128, F_REGEX)));
    case CC_CHECK:
        return fixed(CHECK_COST);
    case CC_SELECTOR:
        return plus(plus(fixed(10), scaled(s1, F)), times(fixed(50), scaled(s1, 0.5)));
    case CC_SETS_1:
        return plus(fixed(1), times(s0, s1));
    case CC_SETS_2:
        return plus(fixed(1), times(fixed(2), times(s0, s1)));
    case CC_INCLUDES:
        return fixed(INCLUDES_MAX);
    default:
        return fixed(1);
    }
}

/* ---- sizes of what containers hold ---- */

static void set_entry(struct cel_compiler *c, struct cel_ast *e, bool is_list,
                      struct cel_cost_range key, struct cel_cost_range val)
{
    struct cel_entry_size *n = bh_new(c->a, struct cel_entry_size);

    *n = (struct cel_entry_size){is_list, key, val};
    e->entry = n;
}

/* Both are known, or neither counts. */
static void join_entries(struct cel_compiler *c, struct cel_ast *e, const struct cel_ast *x,
                         const struct cel_ast *y)
{
    if (x->entry && y->entry)
        set_entry(c, e, x->entry->is_list, either(x->entry->key, y->entry->key),
                  either(x->entry->val, y->entry->val));
}

/* A list or map that is written out. */
static void literal_entries(struct cel_compiler *c, struct cel_ast *e)
{
    struct cel_cost_range key = {e->n ? UINT64_MAX : 0, 0}, val = key;
    bool is_list = e->kind == AST_LIST;

    for (uint32_t i = 0; i < e->n; i++) {
        key = is_list ? key : either(key, size_of(e->args[2 * i]));
        val = either(val, size_of(e->args[is_list ? i : 2 * i + 1]));
    }
    set_entry(c, e, is_list, is_list ? fixed(1) : key, val);
}

static struct cel_cost_range cost_of(struct cel_compiler *c, struct cel_ast *e);

static struct cel_cost_range estimate_call(struct cel_compiler *c, struct cel_ast *e)
{
    struct cel_cost_range sum = fixed(0), fn = {UINT64_MAX, 0}, size = {UINT64_MAX, 0}, x, s;
    bool any_sized = false, sized;

    if (e->op == OP_AND || e->op == OP_OR) {
        for (uint32_t i = 0; i < e->n; i++)
            sum = i ? (struct cel_cost_range){sum.min, add(sum.max, cost_of(c, e->args[i]).max)}
                    : cost_of(c, e->args[0]);
        return sum;
    }
    if (e->op == OP_COND) {
        sum = cost_of(c, e->args[0]);
        x = either(cost_of(c, e->args[1]), cost_of(c, e->args[2]));
        set_size(e, either(size_of(e->args[1]), size_of(e->args[2])));
        join_entries(c, e, e->args[1], e->args[2]);
        return plus(sum, x);
    }
    for (uint32_t i = 0; i < e->n; i++)
        if (!(e->op == OP_OPT_SELECT && i == 1))
            sum = plus(sum, cost_of(c, e->args[i]));
    for (uint32_t i = 0; i < e->ndecls; i++) {
        fn = either(fn, estimate_overload(e, e->decls[i], &s, &sized));
        if (sized) {
            size = any_sized ? either(size, s) : s;
            any_sized = true;
        }
    }
    if (e->func && bh_str_eqc(e->func->name, "dyn"))
        set_size(e, size_of(e->args[0]));
    else if (e->op == OP_INDEX && e->args[0]->entry)
        set_size(e, e->args[0]->entry->val);
    else if (e->op == OP_ADD && e->ndecls == 1 && e->decls[0]->kinds[0] == BH_CEL_LIST)
        set_size(e, plus(size_of(e->args[0]), size_of(e->args[1])));
    else if (any_sized)
        set_size(e, size);
    if (e->func && bh_str_eqc(e->func->name, "dyn"))
        e->entry = e->args[0]->entry;
    if (e->op == OP_ADD && e->ndecls == 1 && !type_size(e->type).min)
        join_entries(c, e, e->args[0], e->args[1]);
    return plus(sum, fn);
}

/* From here on the variable in this slot has a known size. */
static void set_local(struct cel_compiler *c, uint32_t slot, struct cel_cost_range size,
                      const struct cel_entry_size *entry)
{
    if (!c->local_sizes)
        c->local_sizes = bh_new_n(c->a, struct cel_local_size, c->nlocals);
    c->local_sizes[slot] = (struct cel_local_size){true, size, entry};
}

static void bind_local(struct cel_compiler *c, const struct cel_fold *f)
{
    if (has_size(f->init) || f->init->entry)
        set_local(c, f->slot, size_of(f->init), f->init->entry);
}

static struct cel_cost_range estimate_fold(struct cel_compiler *c, struct cel_ast *e)
{
    struct cel_fold *f = e->fold;
    struct cel_cost_range sum = plus(cost_of(c, f->range), cost_of(c, f->init)), loop, n;
    const struct cel_entry_size *in = f->range->entry;

    bind_local(c, f);
    if (f->bind) {
        sum = plus(sum, cost_of(c, f->result));
        if (f->result->sized)
            set_size(e, f->result->size);
        e->entry = f->result->entry;
        return sum;
    }
    if (in) {
        set_local(c, f->slot + 1, in->is_list && !f->iter2.p ? in->val : in->key, NULL);
        set_local(c, f->slot + 2, in->val, NULL);
    }
    n = size_of(f->range);
    loop = plus(cost_of(c, f->cond), cost_of(c, f->step));
    sum = plus(sum, cost_of(c, f->result));
    if (f->init->kind == AST_LIST || f->init->kind == AST_MAP) {
        set_size(e, n);
        e->entry = f->step->entry;
    }
    return plus(sum, times(n, loop));
}

static struct cel_cost_range cost_new(struct cel_compiler *c, struct cel_ast *e)
{
    struct cel_cost_range sum;
    uint32_t n = e->kind == AST_MAP ? 2 * e->n : e->n;
    const struct bh_cel_type *t;

    switch ((enum cel_ast_kind)e->kind) {
    case AST_CONST:
        return fixed(0);
    case AST_IDENT:
        if (e->ref == REF_TYPE && c->env->type_sized)
            set_size(e, (struct cel_cost_range){0, c->env->type_size});
        if (e->ref == REF_LOCAL && c->local_sizes && c->local_sizes[e->slot].known) {
            /* What was declared of it, or its type, says it better. */
            if (!has_size(e))
                set_size(e, c->local_sizes[e->slot].size);
            e->entry = c->local_sizes[e->slot].entry;
        }
        return fixed(1);
    case AST_SELECT:
        if (e->ref != REF_NONE)
            return fixed(1);
        sum = cost_of(c, e->args[0]);
        t = e->args[0]->type;
        if (!e->test_only && (t->kind == TK_MAP || t->kind == TK_OBJECT))
            sum = plus(sum, fixed(1));
        return sum;
    case AST_CALL:
        return estimate_call(c, e);
    case AST_FOLD:
        return estimate_fold(c, e);
    default:
        sum = fixed(e->kind == AST_LIST ? 10 : e->kind == AST_MAP ? 30 : 40);
        for (uint32_t i = 0; i < n; i++)
            sum = plus(sum, cost_of(c, e->args[i]));
        if (e->kind != AST_STRUCT)
            literal_entries(c, e);
        return sum;
    }
}

static struct cel_cost_range cost_of(struct cel_compiler *c, struct cel_ast *e)
{
    if (!e->costed) {
        e->cost = cost_new(c, e);
        e->costed = true;
    }
    return e->cost;
}

struct cel_cost_range cel_estimate(struct cel_compiler *c, struct cel_ast *root)
{
    return cost_of(c, root);
}
