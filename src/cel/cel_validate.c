/* Checks of literals after the type check: homogeneous lists and maps, durations, timestamps,
 * patterns, formats. */
#include "cel/cel_int.h"

#include "cel/re2_shim.h"

typedef void (*visit_fn)(struct cel_compiler *c, struct cel_ast *e, bool in_format);

/* Every node once; in_format tells that it stands inside an argument of format(). */
static void walk(struct cel_compiler *c, struct cel_ast *e, bool in_format, visit_fn fn)
{
    uint32_t n = e->kind == AST_MAP ? 2 * e->n : e->n;
    bool format = e->kind == AST_CALL && bh_str_eqc(e->name, "format");

    if (e->costed) /* shared by two parents; the flag is free until the estimate */
        return;
    e->costed = true;
    fn(c, e, in_format);
    if (e->ref != REF_NONE)
        return;
    for (uint32_t i = 0; i < n; i++)
        walk(c, e->args[i], in_format || (format && i > 0), fn);
    if (e->fold) {
        walk(c, e->fold->range, in_format, fn);
        walk(c, e->fold->init, in_format, fn);
        walk(c, e->fold->cond, in_format, fn);
        walk(c, e->fold->step, in_format, fn);
        walk(c, e->fold->result, in_format, fn);
    }
}

static void unmark(struct cel_ast *e)
{
    uint32_t n = e->kind == AST_MAP ? 2 * e->n : e->n;

    if (!e->costed)
        return;
    e->costed = false;
    if (e->ref != REF_NONE)
        return;
    for (uint32_t i = 0; i < n; i++)
        unmark(e->args[i]);
    if (e->fold) {
        unmark(e->fold->range);
        unmark(e->fold->init);
        unmark(e->fold->cond);
        unmark(e->fold->step);
        unmark(e->fold->result);
    }
}

static const struct bh_cel_type *entry_type(const struct cel_ast *e, uint32_t i,
                                            const struct cel_ast *x)
{
    const struct bh_cel_type *t = x->type;

    if (e->opt && e->opt[i] && cel_type_is_optional(t))
        return t->p[0];
    return t;
}

static bool same_entry(struct cel_compiler *c, const struct bh_cel_type *want,
                       const struct bh_cel_type *got, const struct cel_ast *at)
{
    if (want->kind == TK_ERROR || got->kind == TK_ERROR || bh_cel_type_eq(want, got))
        return true;
    cel_issue_add(c, at->pos, "expected type '%s' but found '%s'", cel_type_msg(c->a, want).p,
                  cel_type_msg(c->a, got).p);
    return false;
}

static void homogeneous(struct cel_compiler *c, struct cel_ast *e, bool in_format)
{
    const struct bh_cel_type *k = NULL, *v = NULL, *t;

    if (in_format)
        return;
    if (e->kind == AST_LIST) {
        for (uint32_t i = 0; i < e->n; i++) {
            t = entry_type(e, i, e->args[i]);
            if (v && !same_entry(c, v, t, e->args[i]))
                return;
            v = t;
        }
    } else if (e->kind == AST_MAP) {
        for (uint32_t i = 0; i < e->n; i++) {
            t = e->args[2 * i]->type;
            if (k && !same_entry(c, k, t, e->args[2 * i]))
                return;
            k = t;
            t = entry_type(e, i, e->args[2 * i + 1]);
            if (v && !same_entry(c, v, t, e->args[2 * i + 1]))
                return;
            v = t;
        }
    }
}

static void literal_args(struct cel_compiler *c, struct cel_ast *e, bool in_format)
{
    struct bh_cel_run run = {.a = c->a, .limit = UINT64_MAX};
    struct cel_ast *arg;
    char why[256];
    void *re;

    (void)in_format;
    if (e->kind != AST_CALL || e->ndecls == 0)
        return;
    if (e->op == OP_MATCHES) {
        /* The first argument of the call: the pattern of a method, the subject of the global
         * function. */
        arg = e->args[e->member ? 1 : 0];
        if (arg->kind != AST_CONST || arg->val.kind != BH_CEL_STRING)
            return;
        re = bh_re2_new(arg->val.s, arg->val.n, why, sizeof(why));
        if (!re)
            cel_issue_add(c, arg->pos, "invalid matches argument");
        bh_re2_free(re);
    } else if (bh_str_eqc(e->name, "duration") || bh_str_eqc(e->name, "timestamp")) {
        arg = e->args[0];
        if (arg->kind != AST_CONST)
            return;
        if (e->decls[0]->ov->fn(&run, &arg->val, 1).kind == BH_CEL_ERROR)
            cel_issue_add(c, arg->pos, "invalid %.*s argument", BH_SF(e->name));
    } else if (bh_str_eqc(e->name, "format") && e->member) {
        (void)cel_format_check(c, e);
    }
}

void cel_validate(struct cel_compiler *c, struct cel_ast *root)
{
    walk(c, root, false, homogeneous);
    unmark(root);
    walk(c, root, false, literal_args);
    unmark(root);
}
