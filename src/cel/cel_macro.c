/* Macros: has, the comprehensions, optMap, optFlatMap, sortBy and cel.bind, expanded while parsing.
 *
 * Expansions are upstream's, node for node, because costs and errors follow from them.
 */
#include "cel/cel_int.h"

#include <string.h>

#define ACCU "__result__"

struct mx {
    struct cel_compiler *c;
    struct cel_ast *target;
    struct cel_ast **args;
    uint32_t n, pos;
};

static struct cel_ast *id(struct mx *m, const char *name)
{
    return cel_ast_ident(m->c, bh_s(name), m->pos);
}

static struct cel_ast *lit(struct mx *m, struct bh_cel_value v)
{
    return cel_ast_const(m->c, v, m->pos);
}

static struct cel_ast *fn(struct mx *m, const char *name, struct cel_ast *a, struct cel_ast *b,
                          struct cel_ast *x)
{
    struct cel_ast *args[3] = {a, b, x};
    struct cel_ast *e = cel_ast_call(m->c, name, false, args, x ? 3 : b ? 2 : a ? 1 : 0, m->pos);

    return cel_ast_measure(m->c, e) ? e : NULL;
}

static struct cel_ast *method(struct mx *m, struct cel_ast *t, const char *name)
{
    struct cel_ast *e = cel_ast_call(m->c, name, true, &t, 1, m->pos);

    return cel_ast_measure(m->c, e) ? e : NULL;
}

static struct cel_ast *list_of(struct mx *m, struct cel_ast *x)
{
    struct cel_ast *e = cel_ast_new(m->c, AST_LIST, m->pos);

    if (x) {
        e->args = bh_arena_memdup(m->c->a, &x, sizeof(struct cel_ast *));
        e->n = 1;
    }
    return cel_ast_measure(m->c, e) ? e : NULL;
}

static struct cel_ast *fold(struct mx *m, struct cel_fold f)
{
    struct cel_ast *e = cel_ast_new(m->c, AST_FOLD, m->pos);

    if (!f.range || !f.init || !f.cond || !f.step || !f.result)
        return NULL;
    e->fold = bh_arena_memdup(m->c->a, &f, sizeof(f));
    e->fold->slot = CEL_NO_SLOT;
    return cel_ast_measure(m->c, e) ? e : NULL;
}

static struct cel_ast *bind(struct mx *m, struct bh_str name, struct cel_ast *init,
                            struct cel_ast *body)
{
    return fold(m, (struct cel_fold){.iter = BH_S("#unused"),
                                     .accu = name,
                                     .range = list_of(m, NULL),
                                     .init = init,
                                     .cond = lit(m, bh_cel_bool(false)),
                                     .step = cel_ast_ident(m->c, name, m->pos),
                                     .result = body,
                                     .bind = true});
}

static bool accu_name(struct mx *m, struct cel_ast *v)
{
    if (!bh_str_eqc(v->name, ACCU))
        return false;
    cel_issue_add(m->c, v->pos, "iteration variable overwrites accumulator variable");
    return true;
}

static struct cel_ast *expand_has(struct mx *m)
{
    struct cel_ast *e;

    if (m->args[0]->kind != AST_SELECT) {
        cel_issue_add(m->c, m->args[0]->pos, "invalid argument to has() macro");
        return NULL;
    }
    e = bh_arena_memdup(m->c->a, m->args[0], sizeof(*e));
    e->test_only = true;
    e->pos = m->pos;
    return e;
}

enum form { F_ALL, F_EXISTS, F_ONE, F_MAP, F_FILTER, F_TLIST, F_TMAP, F_TENTRY };

/* Iteration variables into f; false with an issue. */
static bool iter_vars(struct mx *m, enum form form, unsigned vars, struct cel_fold *f)
{
    bool quantifier = form == F_ALL || form == F_EXISTS || form == F_ONE;

    for (unsigned i = 0; i < vars; i++)
        if (m->args[i]->kind != AST_IDENT || m->args[i]->leading_dot) {
            cel_issue_add(m->c, m->args[i]->pos,
                          vars == 2 || quantifier ? "argument must be a simple name"
                                                  : "argument is not an identifier");
            return false;
        }
    if (vars == 2 && bh_str_eq(m->args[0]->name, m->args[1]->name)) {
        cel_issue_add(m->c, m->args[1]->pos, "duplicate variable name: %.*s",
                      BH_SF(m->args[1]->name));
        return false;
    }
    for (unsigned i = 0; i < vars; i++)
        if (accu_name(m, m->args[i]))
            return false;
    f->iter = m->args[0]->name;
    if (vars == 2)
        f->iter2 = m->args[1]->name;
    return true;
}

static struct cel_ast *expand_loop(struct mx *m, enum form form, unsigned vars)
{
    struct cel_fold f = {.range = m->target, .accu = BH_S(ACCU)};
    struct cel_ast **a = m->args + vars; /* what stands after the variables */
    struct cel_ast *filter = NULL, *t = a[0];

    if (!iter_vars(m, form, vars, &f))
        return NULL;
    if (form == F_MAP || form >= F_TLIST) {
        if (m->n == vars + 2) {
            filter = a[0];
            t = a[1];
        }
    } else if (form == F_FILTER) {
        filter = a[0];
        t = m->args[0];
    }
    f.cond = lit(m, bh_cel_bool(true));
    f.result = id(m, ACCU);
    switch (form) {
    case F_ALL:
        f.init = lit(m, bh_cel_bool(true));
        f.cond = fn(m, "@not_strictly_false", id(m, ACCU), NULL, NULL);
        f.step = fn(m, "_&&_", id(m, ACCU), t, NULL);
        break;
    case F_EXISTS:
        f.init = lit(m, bh_cel_bool(false));
        f.cond = fn(m, "@not_strictly_false", fn(m, "!_", id(m, ACCU), NULL, NULL), NULL, NULL);
        f.step = fn(m, "_||_", id(m, ACCU), t, NULL);
        break;
    case F_ONE:
        f.init = lit(m, bh_cel_int(0));
        f.step =
            fn(m, "_?_:_", t, fn(m, "_+_", id(m, ACCU), lit(m, bh_cel_int(1)), NULL), id(m, ACCU));
        f.result = fn(m, "_==_", id(m, ACCU), lit(m, bh_cel_int(1)), NULL);
        break;
    case F_MAP:
    case F_FILTER:
    case F_TLIST:
        f.init = list_of(m, NULL);
        f.step = fn(m, "_+_", id(m, ACCU), list_of(m, t), NULL);
        break;
    case F_TMAP:
    case F_TENTRY:
        f.init = cel_ast_new(m->c, AST_MAP, m->pos);
        f.step = form == F_TMAP ? fn(m, "cel.@mapInsert", id(m, ACCU), m->args[0], t)
                                : fn(m, "cel.@mapInsert", id(m, ACCU), t, NULL);
        break;
    }
    if (filter && f.step)
        f.step = fn(m, "_?_:_", filter, f.step, id(m, ACCU));
    return fold(m, f);
}

static struct cel_ast *expand_opt_map(struct mx *m, bool flat)
{
    struct cel_ast *body;

    if (m->args[0]->kind != AST_IDENT) {
        cel_issue_add(m->c, m->args[0]->pos, "%s() variable name must be a simple identifier",
                      flat ? "optFlatMap" : "optMap");
        return NULL;
    }
    body = bind(m, m->args[0]->name, method(m, m->target, "value"), m->args[1]);
    if (body && !flat)
        body = fn(m, "optional.of", body, NULL, NULL);
    if (!body)
        return NULL;
    return fn(m, "_?_:_", method(m, m->target, "hasValue"), body,
              fn(m, "optional.none", NULL, NULL, NULL));
}

static struct cel_ast *expand_sort_by(struct mx *m)
{
    static const char input[] = "@__sortBy_input__";
    struct mx inner = *m;
    struct cel_ast *keys, *args[2], *sort;

    if (m->target->kind == AST_CONST || m->target->kind == AST_MAP ||
        m->target->kind == AST_STRUCT) {
        cel_issue_add(m->c, m->target->pos,
                      "sortBy can only be applied to a list, identifier, comprehension, call or "
                      "select expression");
        return NULL;
    }
    inner.target = id(m, input);
    keys = expand_loop(&inner, F_MAP, 1);
    if (!keys)
        return NULL;
    args[0] = id(m, input);
    args[1] = keys;
    sort = cel_ast_call(m->c, "@sortByAssociatedKeys", true, args, 2, m->pos);
    if (!cel_ast_measure(m->c, sort))
        return NULL;
    return bind(m, bh_s(input), m->target, sort);
}

static struct cel_ast *expand_bind(struct mx *m)
{
    if (m->args[0]->kind != AST_IDENT) {
        cel_issue_add(m->c, m->args[0]->pos,
                      "cel.bind() variable names must be simple identifiers");
        return NULL;
    }
    return bind(m, m->args[0]->name, m->args[1], m->args[2]);
}

struct cel_ast *cel_macro(struct cel_compiler *c, struct cel_ast *target, struct bh_str name,
                          struct cel_ast **args, uint32_t n, uint32_t pos, bool *ret_done)
{
    static const struct {
        const char *name;
        uint8_t n, vars, form;
    } loops[] = {
        {"all", 2, 1, F_ALL},
        {"exists", 2, 1, F_EXISTS},
        {"exists_one", 2, 1, F_ONE},
        {"map", 2, 1, F_MAP},
        {"map", 3, 1, F_MAP},
        {"filter", 2, 1, F_FILTER},
        {"all", 3, 2, F_ALL},
        {"exists", 3, 2, F_EXISTS},
        {"exists_one", 3, 2, F_ONE},
        {"existsOne", 3, 2, F_ONE},
        {"transformList", 3, 2, F_TLIST},
        {"transformList", 4, 2, F_TLIST},
        {"transformMap", 3, 2, F_TMAP},
        {"transformMap", 4, 2, F_TMAP},
        {"transformMapEntry", 3, 2, F_TENTRY},
        {"transformMapEntry", 4, 2, F_TENTRY},
    };
    struct mx m = {c, target, args, n, pos};

    *ret_done = true;
    if (!target) {
        if (n == 1 && bh_str_eqc(name, "has"))
            return expand_has(&m);
    } else {
        for (size_t i = 0; i < BH_COUNT(loops); i++)
            if (loops[i].n == n && bh_str_eqc(name, loops[i].name))
                return expand_loop(&m, (enum form)loops[i].form, loops[i].vars);
        if (n == 2 && bh_str_eqc(name, "optMap"))
            return expand_opt_map(&m, false);
        if (n == 2 && bh_str_eqc(name, "optFlatMap"))
            return expand_opt_map(&m, true);
        if (n == 2 && bh_str_eqc(name, "sortBy"))
            return expand_sort_by(&m);
        if (n == 3 && bh_str_eqc(name, "bind") && (c->env->flags & BH_CEL_ENV_BIND) &&
            target->kind == AST_IDENT && bh_str_eqc(target->name, "cel"))
            return expand_bind(&m);
    }
    *ret_done = false;
    return NULL;
}
