/* The planner: turns the checked tree into steps, folds constants, compiles constant patterns.
 *
 * What is folded and what is one "attribute" follows upstream, because both decide the cost: a
 * chain of selections and indexes on a variable is one attribute; conversions of a constant, and
 * lists and maps of constants, are constants.
 */
#include "cel/cel_eval.h"

#include <string.h>

#include "cel/cel_wkt.h"
#include "cel/re2_shim.h"

struct planner {
    struct cel_compiler *c;
    struct bh_cel_program *p;
    struct bh_arena *a;
    bool failed;
};

static const struct cel_step *plan(struct planner *pl, struct cel_ast *e);

static struct cel_step *new_step(struct planner *pl, const struct cel_ast *e, cel_eval_fn fn)
{
    struct cel_step *s = bh_new(pl->a, struct cel_step);

    s->eval = fn;
    s->pos = e->pos;
    return s;
}

/* Constants move to the program's arena: strings deep, the rest was made there. */
static struct cel_step *const_step(struct planner *pl, const struct cel_ast *e,
                                   struct bh_cel_value v)
{
    struct cel_step *s = new_step(pl, e, cel_ev_const);

    if (v.kind == BH_CEL_STRING || v.kind == BH_CEL_BYTES)
        v.s = bh_str_dup(pl->a, bh_cel_as_str(v)).p;
    s->val = v;
    s->is_const = true;
    return s;
}

static const struct cel_step *fail(struct planner *pl, const struct cel_ast *e,
                                   struct bh_cel_value err)
{
    const struct cel_error *x = err.p;

    if (!pl->failed)
        cel_issue_add(pl->c, e->pos, "%.*s", BH_SF(x->msg));
    pl->failed = true;
    return const_step(pl, e, bh_cel_null());
}

/* Evaluates a step whose operands are all constant. */
static struct bh_cel_value fold_now(struct planner *pl, const struct cel_step *s)
{
    struct bh_cel_run run = {.a = pl->a, .p = pl->p, .limit = UINT64_MAX, .pos = s->pos};

    return s->eval(&run, s);
}

static const struct cel_step **plan_args(struct planner *pl, struct cel_ast *const *args,
                                         uint32_t n, bool *ret_const)
{
    const struct cel_step **v = bh_new_n(pl->a, const struct cel_step *, n);

    *ret_const = true;
    for (uint32_t i = 0; i < n; i++) {
        v[i] = plan(pl, args[i]);
        *ret_const &= v[i]->is_const;
    }
    return v;
}

/* ---- attributes
 * ------------------------------------------------------------------------------------------------------
 */

static bool is_index(const struct cel_ast *e)
{
    return e->kind == AST_CALL &&
           (e->op == OP_INDEX || e->op == OP_OPT_INDEX || e->op == OP_OPT_SELECT);
}

static bool is_path(const struct cel_ast *e)
{
    return (e->kind == AST_SELECT && e->ref == REF_NONE) || is_index(e);
}

static void plan_qual(struct planner *pl, struct cel_qual *q, const struct cel_ast *e)
{
    if (e->kind == AST_SELECT) {
        q->constant = true;
        q->key = bh_cel_str(bh_str_dup(pl->a, e->name));
        return;
    }
    q->optional = e->op != OP_INDEX;
    q->step = plan(pl, e->args[1]);
    if (q->step->is_const) {
        q->constant = true;
        q->key = q->step->val;
        if (q->key.kind < BH_CEL_BOOL || q->key.kind > BH_CEL_STRING) {
            struct bh_cel_run run = {.a = pl->a};

            (void)fail(pl, e,
                       bh_cel_error(&run, "invalid qualifier type: %s", cel_go_name(q->key)));
        }
    }
    /* An index that is itself an attribute is charged as the index step, not a second time as an
     * identifier. */
    q->plain_attr = q->step->is_attr;
}

static const struct cel_step *unknown(struct planner *pl, const struct cel_ast *e)
{
    struct cel_step *s = new_step(pl, e, cel_ev_unknown);

    s->op = e->kind == AST_CALL ? OP_OTHER : OP_NONE;
    s->obj.name = bh_str_dup(pl->a, e->name);
    return s;
}

static struct cel_step *attr_root(struct planner *pl, const struct cel_ast *e)
{
    struct cel_step *s = new_step(pl, e, cel_ev_attr);

    s->is_attr = true;
    s->at.base = 1;
    if (e->kind == AST_IDENT || (e->kind == AST_SELECT && e->ref != REF_NONE)) {
        s->at.root = e->ref == REF_VAR ? ROOT_VAR : ROOT_LOCAL;
        s->at.slot = e->slot;
        if (e->ref == REF_VAR)
            pl->p->uses[e->slot] = true;
    }
    return s;
}

/* A chain of selections and indexes, down to what it starts from. */
static const struct cel_step *plan_path(struct planner *pl, struct cel_ast *e)
{
    struct cel_ast *chain[BH_CEL_DEPTH_MAX + 1], *root = e;
    size_t n = 0;
    struct cel_qual *q;
    struct cel_step *s;
    bool test = e->kind == AST_SELECT && e->test_only;

    while (is_path(root) && (root == e || !(root->kind == AST_SELECT && root->test_only))) {
        bh_assert(n < BH_COUNT(chain));
        chain[n++] = root;
        root = root->args[0];
    }
    q = bh_new_n(pl->a, struct cel_qual, n);
    if ((root->kind == AST_IDENT || root->kind == AST_SELECT) &&
        (root->ref == REF_VAR || root->ref == REF_LOCAL)) {
        s = attr_root(pl, root);
    } else {
        const struct cel_step *operand = plan(pl, root);

        s = attr_root(pl, e);
        s->at.root = ROOT_STEP;
        s->at.operand = operand;
        if (operand->eval == cel_ev_cond)
            s->at.base = 0; /* steps on a conditional belong to its arms */
    }
    s->pos = e->pos;
    for (size_t i = 0; i < n; i++)
        plan_qual(pl, &q[i], chain[n - 1 - i]);
    s->at.q = q;
    s->at.nq = (uint8_t)n;
    s->at.test_only = test;
    if (s->at.root == ROOT_VAR && !test) {
        bool plain = true;

        for (size_t i = 0; i < n; i++)
            plain &= q[i].constant && !q[i].optional;
        if (plain)
            s->eval = cel_ev_path;
    }
    if (test) {
        s->is_attr = false;
        s->at.base--; /* has() does not pay for the identifier */
        if (s->at.root == ROOT_STEP && s->at.operand->eval == cel_ev_cond)
            s->at.base = 0;
    }
    return s;
}

/* An arm of a conditional: a plain attribute is not charged for its identifier. */
static const struct cel_step *plan_arm(struct planner *pl, struct cel_ast *e)
{
    const struct cel_step *s = plan(pl, e);
    struct cel_step *n;

    if (!s->is_attr || (s->eval != cel_ev_attr && s->eval != cel_ev_path))
        return s;
    n = bh_arena_memdup(pl->a, s, sizeof(*s));
    n->at.base = 0;
    return n;
}

/* ---- calls
 * ------------------------------------------------------------------------------------------------------------
 */

static const struct cel_step *plan_regex(struct planner *pl, struct cel_ast *e, struct cel_step *s)
{
    const struct cel_step *pattern = s->args[1];
    char why[256];
    struct bh_cel_run run = {.a = pl->a, .pos = e->pos};

    s->eval = cel_ev_regex;
    if (!pattern->is_const || pattern->val.kind != BH_CEL_STRING)
        return s;
    s->call.regex = bh_re2_new(pattern->val.s, pattern->val.n, why, sizeof(why));
    if (!s->call.regex)
        return fail(pl, e, bh_cel_error(&run, "error parsing regexp: %s", why));
    bh_arena_grow(pl->a, &pl->p->regexes, &pl->p->regexes_cap, pl->p->nregexes + 1, sizeof(void *));
    pl->p->regexes[pl->p->nregexes++] = s->call.regex;
    return s;
}

static bool primitive(struct bh_cel_value v)
{
    return v.kind >= BH_CEL_BOOL && v.kind <= BH_CEL_STRING;
}

/* x in [constants]: a look-up that costs nothing. */
static const struct cel_step *plan_in(struct planner *pl, struct cel_ast *e, struct cel_step *s)
{
    const struct cel_step *set = s->args[1];
    struct bh_cel_value *v;
    size_t n;

    s->eval = cel_ev_in;
    if (e->ndecls != 1 || e->decls[0]->ov->cost != CC_IN_LIST || !set->is_const ||
        set->val.kind != BH_CEL_LIST)
        return s;
    n = set->val.list->n;
    if (n == 0)
        return const_step(pl, e, bh_cel_bool(false));
    for (size_t i = 0; i < n; i++)
        if (!primitive(set->val.list->v[i]))
            return s;
    v = bh_arena_memdup(pl->a, set->val.list->v, n * sizeof(*v));
    s->eval = cel_ev_in_set;
    s->call.set = v;
    s->call.set_n = n;
    if (n > 8) { /* a map, for its index */
        struct bh_cel_value m = cel_map_done(pl->a, v, v, n);
        struct cel_list_builder one = {0};

        cel_list_add(pl->a, &one, m);
        s->call.set = one.v;
        s->call.set_n = 0;
    }
    return s;
}

static cel_eval_fn op_fn(enum cel_op op)
{
    switch (op) {
    case OP_AND:
        return cel_ev_and;
    case OP_OR:
        return cel_ev_or;
    case OP_NOT:
        return cel_ev_not;
    case OP_NSF:
        return cel_ev_nsf;
    case OP_EQ:
    case OP_NE:
        return cel_ev_eq;
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
        return cel_ev_order;
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
        return cel_ev_arith;
    case OP_NEG:
        return cel_ev_neg;
    case OP_OPT_OR:
    case OP_OPT_OR_VALUE:
        return cel_ev_opt_or;
    default:
        return cel_ev_call;
    }
}

static void plan_cost(struct cel_step *s, const struct cel_ast *e)
{
    bool by_name = true;

    for (uint32_t i = 0; i < e->ndecls; i++)
        by_name &= (e->decls[i]->ov->flags & OV_BYNAME) != 0;
    s->call.by_name = by_name && e->ndecls > 1;
    s->cost = e->ndecls == 1 ? e->decls[0]->ov->cost : CC_ONE;
}

/* A parser of a constant runs now; only its cost is left for later. One that errs is left as it is.
 */
static const struct cel_step *plan_ready(struct planner *pl, const struct cel_ast *e,
                                         struct cel_step *s)
{
    struct bh_cel_run run = {.a = pl->a, .p = pl->p, .limit = UINT64_MAX, .pos = s->pos};
    struct bh_cel_value v = s->eval(&run, s);
    struct cel_step *r;

    if (v.kind == BH_CEL_ERROR)
        return s;
    r = new_step(pl, e, cel_ev_ready);
    r->call.set = bh_arena_memdup(pl->a, &v, sizeof(v));
    r->call.set_n = (size_t)run.cost;
    return r;
}

static const struct cel_step *plan_call(struct planner *pl, struct cel_ast *e)
{
    bool all_const;
    struct cel_step *s = new_step(pl, e, op_fn((enum cel_op)e->op));

    if (!e->func)
        return unknown(pl, e);
    if (e->op == OP_COND) {
        s->eval = cel_ev_cond;
        s->is_attr = true;
        s->n = 3;
        s->args = bh_new_n(pl->a, const struct cel_step *, 3);
        s->args[0] = plan(pl, e->args[0]);
        s->args[1] = plan_arm(pl, e->args[1]);
        s->args[2] = plan_arm(pl, e->args[2]);
        return s;
    }
    s->op = e->op;
    s->args = plan_args(pl, e->args, e->n, &all_const);
    s->n = (uint16_t)e->n;
    s->call.func = e->func;
    s->call.decls = bh_arena_memdup(pl->a, e->decls, e->ndecls * sizeof(e->decls[0]));
    s->call.ndecls = e->ndecls;
    plan_cost(s, e);
    if (pl->failed)
        return s;
    if (e->op == OP_IN)
        return plan_in(pl, e, s);
    if (e->op == OP_MATCHES || e->op == OP_FIND || e->op == OP_FIND_ALL)
        return plan_regex(pl, e, s);
    if ((e->op == OP_EQ || e->op == OP_NE) && s->args[1]->is_const &&
        s->args[1]->val.kind == BH_CEL_STRING) {
        s->eval = cel_ev_eq_const;
        s->call.set_n = (size_t)cel_size(s->args[1]->val); /* its code points, counted once */
        s->call.by_size = (uint32_t)cel_call_cost(
            CC_COMPARE, (struct bh_cel_value[]){s->args[1]->val, s->args[1]->val}, 2, bh_cel_null(),
            NULL);
    }
    if (all_const && e->ndecls == 1 && e->decls[0]->ov->cost == CC_PARSE)
        return plan_ready(pl, e, s);
    if (all_const && e->n == 1 && e->ndecls > 0 && (e->decls[0]->ov->flags & OV_CONV)) {
        struct bh_cel_value v = fold_now(pl, s);

        if (v.kind == BH_CEL_ERROR)
            return fail(pl, e, v);
        return const_step(pl, e, v);
    }
    return s;
}

/* ---- the rest
 * ---------------------------------------------------------------------------------------------------------
 */

static const struct cel_step *plan_literal(struct planner *pl, struct cel_ast *e)
{
    bool all_const;
    bool map = e->kind == AST_MAP;
    uint32_t n = map ? 2 * e->n : e->n;
    struct cel_step *s = new_step(pl, e, map ? cel_ev_map : cel_ev_list);

    bh_assert(n < UINT32_MAX / 2);
    s->args = plan_args(pl, e->args, n, &all_const);
    s->call.set_n = e->n;
    if (e->opt)
        s->opt = bh_arena_memdup(pl->a, e->opt, e->n * sizeof(bool));
    if (all_const && !e->opt && !pl->failed) {
        struct bh_cel_value v = fold_now(pl, s);

        if (v.kind == BH_CEL_ERROR)
            return fail(pl, e, v);
        return const_step(pl, e, v);
    }
    return s;
}

static const struct cel_step *plan_struct(struct planner *pl, struct cel_ast *e)
{
    struct cel_step *s = new_step(pl, e, cel_ev_struct);
    struct bh_str *names = bh_new_n(pl->a, struct bh_str, e->n);
    bool all_const;

    s->args = plan_args(pl, e->args, e->n, &all_const);
    bh_assert(e->n <= UINT16_MAX);
    s->n = (uint16_t)e->n;
    for (uint32_t i = 0; i < e->n; i++)
        names[i] = bh_str_dup(pl->a, e->fields[i]);
    s->obj.fields = names;
    s->obj.name = bh_str_dup(pl->a, e->name);
    s->op = cel_wkt_type(e->name) != NULL;
    if (e->opt)
        s->opt = bh_arena_memdup(pl->a, e->opt, e->n * sizeof(bool));
    return s;
}

/* Whether e reads the accumulator of this fold. */
static bool is_accu(const struct cel_ast *e, const struct cel_fold *f)
{
    return e->kind == AST_IDENT && e->ref == REF_LOCAL && e->slot == f->slot;
}

/* acc + [x] and insert(acc, ..) of a macro change the accumulator in place; nobody else can see it.
 */
static const struct cel_step *plan_accumulate(struct planner *pl, struct cel_ast *e,
                                              const struct cel_fold *f)
{
    struct cel_step *s;
    bool all_const;

    if (e->kind == AST_CALL && e->op == OP_COND && is_accu(e->args[2], f)) {
        s = new_step(pl, e, cel_ev_cond);
        s->n = 3;
        s->args = bh_new_n(pl->a, const struct cel_step *, 3);
        s->args[0] = plan(pl, e->args[0]);
        s->args[1] = plan_accumulate(pl, e->args[1], f);
        s->args[2] = plan_arm(pl, e->args[2]);
        return s;
    }
    if (e->kind != AST_CALL || e->n < 2 || !is_accu(e->args[0], f) || f->bind)
        return plan(pl, e);
    if (e->op == OP_ADD && e->args[1]->kind == AST_LIST && e->args[1]->n == 1 && !e->args[1]->opt &&
        f->init->kind == AST_LIST) {
        s = new_step(pl, e, cel_ev_append);
        s->args = plan_args(pl, e->args[1]->args, 1, &all_const);
        s->cost = all_const ? 2 : 12; /* identifier, list literal unless it is folded, addition */
        s->n = 1;
    } else if (bh_str_eqc(e->name, "cel.@mapInsert")) {
        s = new_step(pl, e, cel_ev_insert);
        s->args = plan_args(pl, e->args + 1, e->n - 1, &all_const);
        s->n = (uint16_t)(e->n - 1);
    } else {
        return plan(pl, e);
    }
    s->at.slot = f->slot;
    return s;
}

static const struct cel_step *plan_fold(struct planner *pl, struct cel_ast *e)
{
    struct cel_fold *f = e->fold;
    struct cel_step *s = new_step(pl, e, cel_ev_fold);

    s->fold.slot = f->slot;
    s->fold.two = f->iter2.p != NULL;
    s->fold.bind = f->bind;
    s->fold.range = plan(pl, f->range);
    s->fold.init = plan(pl, f->init);
    s->fold.cond = plan(pl, f->cond);
    s->fold.step = plan_accumulate(pl, f->step, f);
    s->fold.result = plan(pl, f->result);
    return s;
}

static const struct cel_step *plan_new(struct planner *pl, struct cel_ast *e)
{
    switch ((enum cel_ast_kind)e->kind) {
    case AST_CONST:
        return const_step(pl, e, e->val);
    case AST_IDENT:
        if (e->ref == REF_TYPE)
            return const_step(pl, e, e->val);
        return e->ref == REF_NONE ? unknown(pl, e) : attr_root(pl, e);
    case AST_SELECT:
        if (e->ref == REF_TYPE)
            return const_step(pl, e, e->val);
        if (e->ref != REF_NONE)
            return attr_root(pl, e);
        return plan_path(pl, e);
    case AST_CALL:
        return is_index(e) ? plan_path(pl, e) : plan_call(pl, e);
    case AST_LIST:
    case AST_MAP:
        return plan_literal(pl, e);
    case AST_STRUCT:
        return plan_struct(pl, e);
    case AST_FOLD:
        return plan_fold(pl, e);
    }
    return const_step(pl, e, bh_cel_null());
}

static const struct cel_step *plan(struct planner *pl, struct cel_ast *e)
{
    if (!e->step)
        e->step = (struct cel_step *)(uintptr_t)plan_new(pl, e);
    return e->step;
}

int cel_plan(struct cel_compiler *c, struct cel_ast *root, struct bh_cel_program *p)
{
    struct planner pl = {.c = c, .p = p, .a = p->arena};
    struct bh_str *names = bh_new_n(p->arena, struct bh_str, c->env->nvars);

    p->nvars = c->env->nvars;
    for (size_t i = 0; i < p->nvars; i++)
        names[i] = bh_str_dup(p->arena, c->env->vars[i].name);
    p->var_names = names;
    p->uses = bh_new_n(p->arena, bool, c->env->nvars);
    p->nlocals = c->nlocals;
    p->height = root->height;
    p->root = plan(&pl, root);
    return pl.failed ? -BH_E_INVALID : 0;
}
