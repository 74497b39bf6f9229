/* The type checker: Hindley-Milner-like unification with dyn as a wildcard, after upstream's rules.
 *
 * Type variables are numbers into c->subst. Assignments are recorded in a trail, so that a failed
 * overload can be undone. Recursion is over the tree, whose height the parser bounds, and over
 * types, which are no deeper.
 */
#include "cel/cel_int.h"

#include <string.h>

#include "base/buf.h"
#include "cel/cel_wkt.h"

#define TYPE_STEPS_MAX 20000000u

struct cel_scope {
    struct cel_scope *up;
    struct bh_str name;
    const struct bh_cel_type *type, *hint;
    uint32_t slot;
};

/* ---- substitutions
 * ------------------------------------------------------------------------------------------------
 */

static const struct bh_cel_type *new_var(struct cel_compiler *c)
{
    struct bh_cel_type *t = bh_new(c->a, struct bh_cel_type);

    bh_arena_grow(c->a, &c->subst, &c->subst_cap, c->nsubst + 1, sizeof(*c->subst));
    c->subst[c->nsubst] = NULL;
    t->kind = TK_VAR;
    t->tvar = (uint32_t)c->nsubst++;
    t->size_max = BH_CEL_SIZE_UNKNOWN;
    return t;
}

/* Types share parts, and variables stand for types: walking them can take exponential time. Past a
 * limit the check gives up, and the expression is refused. */
static bool tired(struct cel_compiler *c)
{
    if (++c->type_steps > TYPE_STEPS_MAX)
        c->too_complex = true;
    return c->too_complex;
}

static const struct bh_cel_type *bounded(struct cel_compiler *c, const struct bh_cel_type *t)
{
    if (t->weight <= CEL_TYPE_WEIGHT_MAX)
        return t;
    c->too_complex = true;
    return &cel_t_error;
}

static void assign(struct cel_compiler *c, uint32_t v, const struct bh_cel_type *t)
{
    bh_arena_grow(c->a, &c->trail, &c->trail_cap, c->ntrail + 1, sizeof(*c->trail));
    bh_arena_grow(c->a, &c->trail_old, &c->trail_old_cap, c->ntrail + 1, sizeof(*c->trail_old));
    c->trail[c->ntrail] = v;
    c->trail_old[c->ntrail] = c->subst[v];
    c->ntrail++;
    c->subst[v] = t;
}

static void undo(struct cel_compiler *c, size_t to)
{
    while (c->ntrail > to) {
        c->ntrail--;
        c->subst[c->trail[c->ntrail]] = c->trail_old[c->ntrail];
    }
}

/* t with its variables replaced; unbound ones become dyn when to_dyn is set. */
static const struct bh_cel_type *substitute(struct cel_compiler *c, const struct bh_cel_type *t,
                                            bool to_dyn)
{
    const struct bh_cel_type *p[2] = {NULL, NULL};
    bool changed = false;
    struct bh_cel_type *n;

    if (tired(c))
        return &cel_t_error;
    if (t->kind == TK_VAR) {
        if (c->subst[t->tvar])
            return substitute(c, c->subst[t->tvar], to_dyn);
        return to_dyn ? &cel_t_dyn : t;
    }
    for (unsigned i = 0; i < t->np; i++) {
        p[i] = substitute(c, t->p[i], to_dyn);
        changed |= p[i] != t->p[i];
    }
    if (!changed)
        return t;
    n = bh_arena_memdup(c->a, t, sizeof(*t));
    n->p[0] = p[0];
    n->p[1] = p[1];
    n->weight = 1 + p[0]->weight + (p[1] ? p[1]->weight : 0);
    return bounded(c, n);
}

/* A declared type with its parameters replaced by these variables. */
static const struct bh_cel_type *instantiate(struct cel_compiler *c, const struct bh_cel_type *t,
                                             const struct bh_cel_type *const *vars)
{
    struct bh_cel_type *n;
    const struct bh_cel_type *p[2] = {NULL, NULL};
    bool changed = false;

    if (t->kind == TK_PARAM)
        return vars[t->tvar];
    for (unsigned i = 0; i < t->np; i++) {
        p[i] = instantiate(c, t->p[i], vars);
        changed |= p[i] != t->p[i];
    }
    if (!changed)
        return t;
    n = bh_arena_memdup(c->a, t, sizeof(*t));
    n->p[0] = p[0];
    n->p[1] = p[1];
    n->weight = 1 + p[0]->weight + (p[1] ? p[1]->weight : 0);
    return bounded(c, n);
}

/* Whether variable v stands inside t (t being v itself counts). */
static bool occurs(struct cel_compiler *c, uint32_t v, const struct bh_cel_type *t)
{
    if (tired(c))
        return true;
    if (t->kind == TK_VAR) {
        if (t->tvar == v)
            return true;
        return c->subst[t->tvar] && occurs(c, v, c->subst[t->tvar]);
    }
    for (unsigned i = 0; i < t->np; i++)
        if (occurs(c, v, t->p[i]))
            return true;
    return false;
}

/* An error is no wildcard here: what stands beside it decides, so that one fault is told once. */
static bool less_specific(const struct bh_cel_type *a, const struct bh_cel_type *b)
{
    if (a->kind < TK_ERROR || a->kind == TK_VAR)
        return true;
    if (b->kind < TK_ERROR || b->kind == TK_VAR)
        return false;
    if (a->kind != b->kind)
        return false;
    if (a->kind == TK_NULL || b->kind == TK_NULL)
        return false;
    if (a->kind == TK_LIST || a->kind == TK_MAP || a->kind == TK_OPAQUE) {
        if (!bh_str_eq(a->name, b->name) || a->np != b->np)
            return false;
        for (unsigned i = 0; i < a->np; i++)
            if (!less_specific(a->p[i], b->p[i]))
                return false;
        return true;
    }
    return bh_cel_type_eq(a, b);
}

static const struct bh_cel_type *most_general(const struct bh_cel_type *a,
                                              const struct bh_cel_type *b)
{
    return less_specific(a, b) ? a : b;
}

static bool assignable(struct cel_compiler *c, const struct bh_cel_type *a,
                       const struct bh_cel_type *b);

/* Whether a may stand for the variable v; *ret_had tells that v had a substitution. */
static bool var_accepts(struct cel_compiler *c, const struct bh_cel_type *a,
                        const struct bh_cel_type *v, bool *ret_had)
{
    const struct bh_cel_type *sub;

    *ret_had = true;
    if (a->kind == TK_VAR && a->tvar == v->tvar)
        return true;
    sub = c->subst[v->tvar];
    if (sub) {
        if (a->kind == sub->kind && bh_cel_type_eq(a, sub))
            return true;
        if (assignable(c, a, sub)) {
            const struct bh_cel_type *g = most_general(a, sub);

            if (!occurs(c, v->tvar, g))
                assign(c, v->tvar, g);
            return true;
        }
        return false;
    }
    *ret_had = false;
    if (occurs(c, v->tvar, a))
        return false;
    assign(c, v->tvar, a);
    return true;
}

static bool null_fits(const struct bh_cel_type *t)
{
    return t->kind == TK_NULL || t->kind == TK_OBJECT || t->kind == TK_OPAQUE ||
           t->kind == TK_TIMESTAMP || t->kind == TK_DURATION;
}

static bool assignable(struct cel_compiler *c, const struct bh_cel_type *a,
                       const struct bh_cel_type *b)
{
    bool had;

    if (tired(c))
        return true;
    if (b->kind == TK_VAR) {
        if (var_accepts(c, a, b, &had))
            return true;
        if (had)
            return false;
    }
    if (a->kind == TK_VAR)
        return var_accepts(c, b, a, &had);
    if (cel_type_is_dyn(a) || cel_type_is_dyn(b))
        return true;
    if (a->kind == TK_NULL)
        return null_fits(b);
    if (b->kind == TK_NULL)
        return null_fits(a);
    if (a->kind != b->kind)
        return false;
    if (a->kind == TK_TYPE)
        return true;
    if (a->kind == TK_OBJECT)
        return bh_str_eq(a->name, b->name);
    if (a->np != b->np || (a->kind == TK_OPAQUE && !bh_str_eq(a->name, b->name)))
        return false;
    for (unsigned i = 0; i < a->np; i++)
        if (!assignable(c, a->p[i], b->p[i]))
            return false;
    return true;
}

static bool try_assign(struct cel_compiler *c, const struct bh_cel_type *a,
                       const struct bh_cel_type *b)
{
    size_t mark = c->ntrail;

    if (assignable(c, a, b))
        return true;
    undo(c, mark);
    return false;
}

/* ---- expressions
 * ---------------------------------------------------------------------------------------------------
 */

static void check(struct cel_compiler *c, struct cel_ast *e);

static const char *msg(struct cel_compiler *c, const struct bh_cel_type *t)
{
    return cel_type_msg(c->a, substitute(c, t, true)).p;
}

static void mismatch(struct cel_compiler *c, const struct cel_ast *at,
                     const struct bh_cel_type *want, const struct bh_cel_type *got)
{
    /* Types as they were found: what their variables became since is not told. */
    cel_issue_add(c, at->pos, "expected type '%s' but found '%s'", cel_type_msg(c->a, want).p,
                  cel_type_msg(c->a, got).p);
}

static void want_type(struct cel_compiler *c, const struct cel_ast *e, const struct bh_cel_type *t)
{
    if (!try_assign(c, e->type, t))
        mismatch(c, e, t, e->type);
}

static ptrdiff_t find_var(const struct cel_compiler *c, struct bh_str name)
{
    for (size_t i = 0; i < c->env->nvars; i++)
        if (bh_str_eq(c->env->vars[i].name, name))
            return (ptrdiff_t)i;
    return -1;
}

static bool use_var(struct cel_compiler *c, struct cel_ast *e, struct bh_str name)
{
    ptrdiff_t v = find_var(c, name);
    const struct bh_cel_type *t;

    if (v >= 0) {
        e->ref = REF_VAR;
        e->slot = (uint32_t)v;
        e->type = e->hint = c->env->vars[v].type;
        return true;
    }
    t = cel_type_by_name(name);
    if (!t && (c->env->flags & BH_CEL_ENV_MUTATION) && bh_str_eqc(name, "JSONPatch"))
        t = &cel_t_jsonpatch;
    if (!t)
        return false;
    e->ref = REF_TYPE;
    e->val = (struct bh_cel_value){.kind = BH_CEL_TYPE, .type = t};
    e->type = t == &cel_t_type ? t : cel_type_of_type(c->a, t);
    return true;
}

static void undeclared(struct cel_compiler *c, struct cel_ast *e, struct bh_str name)
{
    cel_issue_add(c, e->pos, "undeclared reference to '%s%.*s' (in container '')",
                  e->leading_dot ? "." : "", BH_SF(name));
    e->type = &cel_t_error;
}

static void check_ident(struct cel_compiler *c, struct cel_ast *e)
{
    if (!e->leading_dot)
        for (struct cel_scope *s = c->scope; s; s = s->up)
            if (bh_str_eq(s->name, e->name)) {
                e->ref = REF_LOCAL;
                e->slot = s->slot;
                e->type = s->type;
                e->hint = s->hint;
                return;
            }
    if (!use_var(c, e, e->name) && !c->unchecked)
        undeclared(c, e, e->name);
}

/* A chain that names a declared variable (request.auth) or type (google.protobuf.Timestamp). */
static bool check_qualified(struct cel_compiler *c, struct cel_ast *e)
{
    const struct cel_ast *root = e;
    bool dot = false;
    size_t n = 0;

    for (; root->kind == AST_SELECT && !root->test_only; root = root->args[0])
        n++;
    if (root->kind != AST_IDENT || n > 8)
        return false;
    if (!c->env->any_dotted && !bh_str_eqc(root->name, "google") && !bh_str_eqc(root->name, "net"))
        return false;
    return use_var(c, e, cel_ast_qualified(c->a, e, &dot));
}

static const struct bh_cel_type *field_type(const struct bh_cel_type *t, struct bh_str name)
{
    for (size_t i = 0; i < t->nfields; i++)
        if (bh_str_eq(t->fields[i].name, name))
            return t->fields[i].type;
    return t->open ? &cel_t_dyn : NULL;
}

/* The type of operand.name; sets *ret_hint for declared paths. */
static const struct bh_cel_type *select_type(struct cel_compiler *c, struct cel_ast *e,
                                             struct cel_ast *operand, struct bh_str name,
                                             bool optional)
{
    const struct bh_cel_type *t = substitute(c, operand->type, false), *r = &cel_t_dyn;
    bool opt = cel_type_is_optional(t);

    if (opt)
        t = substitute(c, t->p[0], false);
    switch (t->kind) {
    case TK_MAP:
        r = t->p[1];
        break;
    case TK_OBJECT:
        r = field_type(t, name);
        if (!r) {
            /* Upstream looks for fields of these as if they were messages, and finds no message. */
            if (t->nfields == 0 && bh_str_starts(t->name, BH_S("kubernetes.")))
                cel_issue_add(c, e->pos, "unexpected failed resolution of '%.*s'", BH_SF(t->name));
            else
                cel_issue_add(c, e->pos, "undefined field '%.*s'", BH_SF(name));
            r = &cel_t_error;
        }
        break;
    case TK_VAR:
        /* The operand becomes dyn: it is used as something with fields. */
        (void)try_assign(c, &cel_t_dyn, t);
        break;
    default:
        if (!cel_type_is_dyn(t)) {
            cel_issue_add(c, e->pos, "type '%s' does not support field selection",
                          cel_type_msg(c->a, t).p);
        }
        break;
    }
    if (operand->hint && (t->kind == TK_MAP || t->kind == TK_OBJECT))
        e->hint = r;
    if (opt || optional)
        r = bh_cel_type_optional(c->a, r);
    return r;
}

static void check_select(struct cel_compiler *c, struct cel_ast *e)
{
    if (!e->test_only && check_qualified(c, e))
        return;
    check(c, e->args[0]);
    e->type = select_type(c, e, e->args[0], e->name, false);
    if (e->test_only) {
        e->type = &cel_t_bool;
        e->hint = NULL;
    }
}

static void check_list(struct cel_compiler *c, struct cel_ast *e)
{
    const struct bh_cel_type *t = NULL;

    for (uint32_t i = 0; i < e->n; i++) {
        const struct bh_cel_type *x;

        check(c, e->args[i]);
        x = e->args[i]->type;
        if (e->opt && e->opt[i]) {
            if (cel_type_is_optional(x))
                x = x->p[0];
            else if (x->kind >= TK_ERROR)
                mismatch(c, e->args[i], bh_cel_type_optional(c->a, x), x);
        }
        if (!t)
            t = x;
        else if (try_assign(c, t, x))
            t = most_general(t, x);
        else
            t = &cel_t_dyn; /* the homogeneity check reports it */
    }
    e->type = bounded(c, bh_cel_type_list(c->a, t ? t : new_var(c), e->n));
}

static void check_map(struct cel_compiler *c, struct cel_ast *e)
{
    const struct bh_cel_type *k = NULL, *v = NULL;

    for (uint32_t i = 0; i < e->n; i++) {
        const struct bh_cel_type *x;

        check(c, e->args[2 * i]);
        x = e->args[2 * i]->type;
        k = !k ? x : try_assign(c, k, x) ? most_general(k, x) : &cel_t_dyn;
        check(c, e->args[2 * i + 1]);
        x = e->args[2 * i + 1]->type;
        if (e->opt && e->opt[i]) {
            if (cel_type_is_optional(x))
                x = x->p[0];
            else if (x->kind >= TK_ERROR)
                mismatch(c, e->args[2 * i + 1], bh_cel_type_optional(c->a, x), x);
        }
        v = !v ? x : try_assign(c, v, x) ? most_general(v, x) : &cel_t_dyn;
    }
    if (!k) {
        k = new_var(c);
        v = new_var(c);
    }
    e->type = bounded(c, bh_cel_type_map(c->a, k, v, e->n));
}

static const struct bh_cel_type *struct_type(struct cel_compiler *c, struct cel_ast *e)
{
    bool known;

    if (c->env->flags & BH_CEL_ENV_MUTATION) {
        if (bh_str_eqc(e->name, "JSONPatch"))
            return &cel_t_jsonpatch;
        if (bh_str_eqc(e->name, "Object") || bh_str_starts(e->name, BH_S("Object."))) {
            struct bh_cel_type *t = bh_new(c->a, struct bh_cel_type);

            t->kind = TK_OBJECT;
            t->name = e->name;
            t->open = true;
            t->size_max = BH_CEL_SIZE_UNKNOWN;
            return t;
        }
    }
    if (cel_wkt_type(e->name))
        return cel_wkt_type(e->name);
    known = find_var(c, e->name) >= 0 || cel_type_by_name(e->name);
    cel_issue_add(c, e->pos,
                  known ? "'%.*s' is not a message type"
                        : "undeclared reference to '%.*s' (in container '')",
                  BH_SF(e->name));
    return NULL;
}

static void check_struct(struct cel_compiler *c, struct cel_ast *e)
{
    const struct bh_cel_type *t = struct_type(c, e);

    if (!t) {
        e->type = &cel_t_error;
        return;
    }
    for (uint32_t i = 0; i < e->n; i++) {
        const struct bh_cel_type *want, *got;

        check(c, e->args[i]);
        want = field_type(t, e->fields[i]);
        got = e->args[i]->type;
        if (!want) {
            cel_issue_add(c, e->field_pos[i], "undefined field '%.*s'", BH_SF(e->fields[i]));
            continue;
        }
        if (e->opt && e->opt[i]) {
            const struct bh_cel_type *s = substitute(c, got, false);

            got = cel_type_is_optional(s) ? s->p[0] : s;
        }
        if (!try_assign(c, want, got))
            cel_issue_add(c, e->field_pos[i],
                          "expected type of field '%.*s' is '%s' but provided type is '%s'",
                          BH_SF(e->fields[i]), cel_type_msg(c->a, want).p,
                          cel_type_msg(c->a, got).p);
    }
    /* What a well-known message stands for may be null, too. */
    e->type = cel_wkt_type(e->name) ? &cel_t_dyn : t;
}

/* ---- calls
 * -----------------------------------------------------------------------------------------------------------
 */

static void no_overload(struct cel_compiler *c, struct cel_ast *e)
{
    BH_AUTO_BUF b = {.max = 16 << 10};
    uint32_t first = e->member ? 1 : 0;

    if (e->member)
        bh_buf_addf(&b, "%s.", msg(c, e->args[0]->type));
    bh_buf_addc(&b, '(');
    for (uint32_t i = first; i < e->n; i++)
        bh_buf_addf(&b, "%s%s", i > first ? ", " : "", msg(c, e->args[i]->type));
    bh_buf_addc(&b, ')');
    cel_issue_add(c, e->pos, "found no matching overload for '%.*s' applied to '%s'",
                  BH_SF(e->name), bh_buf_cstr(&b));
    e->type = &cel_t_error;
}

static bool overload_fits(struct cel_compiler *c, struct cel_ast *e, const struct cel_decl *d,
                          const struct bh_cel_type **ret_result)
{
    const struct bh_cel_type *vars[2] = {NULL, NULL};
    size_t mark = c->ntrail;

    if (d->ov->member != e->member || !cel_decl_on(d, c->env->flags))
        return false;
    /* Made though the number of arguments may be wrong: messages give the variables' numbers. */
    for (unsigned i = 0; i < d->params; i++)
        vars[i] = new_var(c);
    if (d->n != e->n)
        return false;
    for (uint32_t i = 0; i < e->n; i++)
        if (!assignable(c, e->args[i]->type, instantiate(c, d->args[i], vars))) {
            undo(c, mark);
            return false;
        }
    *ret_result = substitute(c, instantiate(c, d->result, vars), false);
    return true;
}

static void resolve(struct cel_compiler *c, struct cel_ast *e, const struct cel_func *f)
{
    const struct cel_decl *fit[CEL_OVERLOADS_MAX];
    const struct bh_cel_type *result = NULL, *r;

    e->func = f;
    e->op = (uint8_t)f->id;
    if (e->op == OP_AND || e->op == OP_OR) {
        bool bad = false;

        for (uint32_t i = 0; i < e->n; i++)
            if (!try_assign(c, e->args[i]->type, &cel_t_bool)) {
                mismatch(c, e->args[i], &cel_t_bool, e->args[i]->type);
                bad = true;
            }
        e->type = bad ? &cel_t_error : &cel_t_bool;
        fit[e->ndecls++] = f->d;
        e->decls = bh_arena_memdup(c->a, fit, sizeof(fit[0]));
        return;
    }
    e->ndecls = 0;
    for (unsigned i = 0; i < f->n; i++) {
        if (!overload_fits(c, e, &f->d[i], &r))
            continue;
        fit[e->ndecls++] = &f->d[i];
        if (!result)
            result = r;
        else if (result->kind != TK_DYN && !bh_cel_type_eq(result, r))
            result = &cel_t_dyn;
    }
    if (!result) {
        no_overload(c, e);
        return;
    }
    e->decls = bh_arena_memdup(c->a, fit, e->ndecls * sizeof(fit[0]));
    e->type = result;
}

/* Declared element type of a path, for the size of what an index gives. */
static void index_hint(struct cel_ast *e)
{
    const struct bh_cel_type *h = e->args[0]->hint;

    if (h && cel_type_is_optional(h))
        h = h->p[0];
    if (h && h->kind == TK_LIST)
        e->hint = h->p[0];
    else if (h && h->kind == TK_MAP)
        e->hint = h->p[1];
}

static void check_call(struct cel_compiler *c, struct cel_ast *e)
{
    const struct cel_func *f;
    uint32_t first = e->member ? 1 : 0;

    if (e->op == OP_OPT_SELECT) {
        f = cel_func_find(e->name, c->env->flags);
        check(c, e->args[0]);
        e->args[1]->type = &cel_t_string;
        e->func = f;
        e->decls = bh_arena_memdup(c->a, &f->d, sizeof(f->d));
        e->ndecls = 1;
        e->type = select_type(c, e, e->args[0], bh_cel_as_str(e->args[1]->val), true);
        return;
    }
    for (uint32_t i = first; i < e->n; i++)
        check(c, e->args[i]);
    if (e->member) {
        bool dot = false;
        struct bh_str ns = cel_ast_qualified(c->a, e->args[0], &dot);

        f = ns.p ? cel_func_find(bh_str_fmt(c->a, "%.*s.%.*s", BH_SF(ns), BH_SF(e->name)),
                                 c->env->flags)
                 : NULL;
        if (f) {
            /* The target was the function's name space. */
            e->name = f->name;
            e->member = false;
            e->args++;
            e->n--;
            resolve(c, e, f);
            return;
        }
        check(c, e->args[0]);
    }
    f = cel_func_find(e->name, c->env->flags);
    if (!f) {
        undeclared(c, e, e->name);
        return;
    }
    resolve(c, e, f);
    if (e->op == OP_INDEX || e->op == OP_OPT_INDEX)
        index_hint(e);
}

static void check_fold(struct cel_compiler *c, struct cel_ast *e)
{
    struct cel_fold *f = e->fold;
    struct cel_scope accu, iter, iter2;
    const struct bh_cel_type *range, *v1 = &cel_t_dyn, *v2 = &cel_t_dyn, *h1 = NULL, *h2 = NULL;
    const struct bh_cel_type *hint;

    check(c, f->range);
    check(c, f->init);
    range = substitute(c, f->range->type, false);
    hint = f->range->hint;
    switch (range->kind) {
    case TK_LIST:
        v1 = range->p[0];
        h1 = hint && hint->kind == TK_LIST ? hint->p[0] : NULL;
        if (f->iter2.p) {
            v2 = v1;
            h2 = h1;
            v1 = &cel_t_int;
            h1 = NULL;
        }
        break;
    case TK_MAP:
        v1 = range->p[0];
        v2 = range->p[1];
        if (hint && hint->kind == TK_MAP) {
            h1 = hint->p[0];
            h2 = hint->p[1];
        }
        break;
    case TK_DYN:
    case TK_ERROR:
    case TK_VAR:
        (void)try_assign(c, &cel_t_dyn, range);
        break;
    default:
        cel_issue_add(c, f->range->pos,
                      "expression of type '%s' cannot be range of a comprehension (must be list, "
                      "map, or dynamic)",
                      cel_type_msg(c->a, range).p);
        v1 = v2 = &cel_t_error;
        break;
    }
    f->slot = c->nlocals;
    c->nlocals += 3;
    accu = (struct cel_scope){c->scope, f->accu, f->init->type, f->bind ? f->init->hint : NULL,
                              f->slot};
    iter = (struct cel_scope){&accu, f->iter, v1, h1, f->slot + 1};
    iter2 = (struct cel_scope){&iter, f->iter2, v2, h2, f->slot + 2};
    c->scope = f->iter2.p ? &iter2 : &iter;
    check(c, f->cond);
    want_type(c, f->cond, &cel_t_bool);
    check(c, f->step);
    want_type(c, f->step, accu.type);
    c->scope = &accu;
    check(c, f->result);
    c->scope = accu.up;
    e->type = substitute(c, f->result->type, false);
}

static const struct bh_cel_type *const_type(struct bh_cel_value v)
{
    return cel_runtime_type(v);
}

static void check(struct cel_compiler *c, struct cel_ast *e)
{
    if (e->checked) /* optMap's target stands in two places */
        return;
    e->checked = true;
    switch ((enum cel_ast_kind)e->kind) {
    case AST_CONST:
        e->type = const_type(e->val);
        break;
    case AST_IDENT:
        check_ident(c, e);
        break;
    case AST_SELECT:
        check_select(c, e);
        break;
    case AST_CALL:
        check_call(c, e);
        break;
    case AST_LIST:
        check_list(c, e);
        break;
    case AST_MAP:
        check_map(c, e);
        break;
    case AST_STRUCT:
        check_struct(c, e);
        break;
    case AST_FOLD:
        check_fold(c, e);
        break;
    }
}

/* Replaces the variables in every type once all is known. */
static void settle(struct cel_compiler *c, struct cel_ast *e)
{
    uint32_t n = e->kind == AST_MAP ? 2 * e->n : e->n;

    if (!e->checked)
        return;
    e->checked = false;
    if (e->type)
        e->type = substitute(c, e->type, true);
    if (e->ref == REF_VAR || e->ref == REF_TYPE)
        return; /* the operands of a dotted name were not checked */
    for (uint32_t i = 0; i < n; i++)
        settle(c, e->args[i]);
    if (e->fold) {
        settle(c, e->fold->range);
        settle(c, e->fold->init);
        settle(c, e->fold->cond);
        settle(c, e->fold->step);
        settle(c, e->fold->result);
    }
}

void cel_check(struct cel_compiler *c, struct cel_ast *root)
{
    check(c, root);
    settle(c, root);
    if (c->too_complex && !c->nissues)
        cel_issue_add(c, CEL_POS_NONE, "the types of the expression are too complex");
}

/* ---- without types
 * ---------------------------------------------------------------------------------------------------
 */

static void resolve_unchecked(struct cel_compiler *c, struct cel_ast *e);

static void unchecked_call(struct cel_compiler *c, struct cel_ast *e)
{
    const struct cel_decl *fit[CEL_OVERLOADS_MAX];
    const struct cel_func *f = NULL;

    if (e->member) {
        bool dot = false;
        struct bh_str ns = cel_ast_qualified(c->a, e->args[0], &dot);

        f = ns.p ? cel_func_find(bh_str_fmt(c->a, "%.*s.%.*s", BH_SF(ns), BH_SF(e->name)),
                                 c->env->flags)
                 : NULL;
        if (f) {
            e->name = f->name;
            e->member = false;
            e->args++;
            e->n--;
        }
    }
    for (uint32_t i = 0; i < e->n; i++)
        resolve_unchecked(c, e->args[i]);
    if (!f)
        f = cel_func_find(e->name, c->env->flags);
    if (!f)
        return; /* an error when it is reached */
    e->func = f;
    e->op = (uint8_t)f->id;
    for (unsigned i = 0; i < f->n; i++)
        if (e->op == OP_AND || e->op == OP_OR ||
            (f->d[i].n == e->n && f->d[i].ov->member == e->member))
            fit[e->ndecls++] = &f->d[i];
    if (!e->ndecls)
        e->func = NULL;
    e->decls = bh_arena_memdup(c->a, fit, e->ndecls * sizeof(fit[0]));
}

static void unchecked_fold(struct cel_compiler *c, struct cel_ast *e)
{
    struct cel_fold *f = e->fold;
    struct cel_scope accu, iter, iter2;

    resolve_unchecked(c, f->range);
    resolve_unchecked(c, f->init);
    f->slot = c->nlocals;
    c->nlocals += 3;
    accu = (struct cel_scope){c->scope, f->accu, &cel_t_dyn, NULL, f->slot};
    iter = (struct cel_scope){&accu, f->iter, &cel_t_dyn, NULL, f->slot + 1};
    iter2 = (struct cel_scope){&iter, f->iter2, &cel_t_dyn, NULL, f->slot + 2};
    c->scope = f->iter2.p ? &iter2 : &iter;
    resolve_unchecked(c, f->cond);
    resolve_unchecked(c, f->step);
    c->scope = &accu;
    resolve_unchecked(c, f->result);
    c->scope = accu.up;
}

static void resolve_unchecked(struct cel_compiler *c, struct cel_ast *e)
{
    if (e->checked)
        return;
    e->checked = true;
    e->type = &cel_t_dyn;
    if (e->kind == AST_IDENT) {
        check_ident(c, e);
    } else if (e->kind == AST_SELECT) {
        if (e->test_only || !check_qualified(c, e))
            resolve_unchecked(c, e->args[0]);
    } else if (e->kind == AST_CALL) {
        unchecked_call(c, e);
    } else if (e->kind == AST_FOLD) {
        unchecked_fold(c, e);
    } else {
        for (uint32_t i = 0; i < (e->kind == AST_MAP ? 2 * e->n : e->n); i++)
            resolve_unchecked(c, e->args[i]);
    }
}

void cel_resolve_unchecked(struct cel_compiler *c, struct cel_ast *root)
{
    resolve_unchecked(c, root);
}
