/* Running the rules of a schema over an object. */
#include "cel/schema_int.h"

#define MESSAGE_RESULT_MAX (5u << 10) /* bytes that a messageExpression may give */

struct walk {
    struct bh_arena *a;
    uint64_t *budget;
    bh_cel_rule_error_fn fn;
    void *arg;
    bool stop;
};

struct spot { /* where the walk stands */
    struct bh_str path;
    const struct bh_jv *v, *old;
    bool unchanged; /* an enclosing value equals its old one */
};

static void report(struct walk *w, const struct spot *at, const struct schema_rule *r,
                   struct bh_str detail, bool fault)
{
    struct bh_cel_rule_error e = {.path = at->path, .detail = detail, .value = at->v};

    if (!fault) {
        e.reason = r->reason;
        if (r->field_path.n) {
            struct bh_str f = r->field_path;

            if (!at->path.n && f.p[0] == '.')
                f = bh_str_sub(f, 1, f.n);
            e.path = bh_str_fmt(w->a, "%.*s%.*s", BH_SF(at->path), BH_SF(f));
        }
    }
    /* Rules about transitions judge the change itself and are never softened. */
    e.ratcheted = !r->uses_old && (at->unchanged || (at->old && bh_jv_eq(at->v, at->old)));
    w->fn(w->arg, &e);
}

static struct bh_str rule_name(const struct schema_rule *r)
{
    return r->message.n ? r->message : bh_str_trim(r->rule);
}

/* The run-time budget is gone: nothing more is judged. */
static void out_of_budget(struct walk *w, const struct spot *at)
{
    struct bh_cel_rule_error e = {.path = at->path,
                                  .value = at->v,
                                  .detail =
                                      BH_S("validation failed due to running out of cost budget, "
                                           "no further validation rules will be run")};

    w->stop = true;
    *w->budget = 0;
    w->fn(w->arg, &e);
}

/* Evaluates within what one call and the whole object may cost. 0, -BH_E_INVALID, or -BH_E_LIMIT;
 * w->stop when the object's budget is gone. */
static int evaluate(struct walk *w, const struct spot *at, const struct bh_cel_program *p,
                    const struct bh_cel_value *vars, struct bh_cel_result *res, struct bh_err *err)
{
    int r = bh_cel_eval(p, vars, 2, w->a, BH_CEL_COST_PER_CALL, res, err);

    if (res->cost > *w->budget) {
        out_of_budget(w, at);
        return -BH_E_LIMIT;
    }
    *w->budget -= res->cost;
    return r;
}

static struct bh_str message_of(struct walk *w, const struct spot *at, const struct schema_rule *r,
                                const struct bh_cel_value *vars)
{
    struct bh_cel_result res;
    struct bh_str s;

    if (r->message_p && evaluate(w, at, r->message_p, vars, &res, NULL) == 0 &&
        res.value.kind == BH_CEL_STRING) {
        s = bh_str_trim(bh_cel_as_str(res.value));
        if (s.n && s.n <= MESSAGE_RESULT_MAX && bh_str_chr(s, '\n', 0) < 0)
            return s;
    }
    if (r->message.n)
        return r->message;
    return bh_str_fmt(w->a, "failed rule: %.*s", BH_SF(bh_str_trim(r->rule)));
}

static void run_rule(struct walk *w, const struct schema_node *n, const struct spot *at,
                     const struct schema_rule *r)
{
    struct bh_cel_value vars[2];
    struct bh_cel_result res;
    struct bh_err err = {0};
    struct bh_str msg;
    int e;

    if (r->uses_old && !r->optional_old && !at->old)
        return;
    vars[0] = schema_view(w->a, n, at->v);
    vars[1] = at->old ? schema_view(w->a, n, at->old) : bh_cel_null();
    if (r->optional_old)
        vars[1] = at->old ? cel_optional(w->a, vars[1]) : cel_optional_none();
    e = evaluate(w, at, r->p, vars, &res, &err);
    if (w->stop)
        return;
    if (e == -BH_E_LIMIT) {
        w->stop = true;
        msg = bh_str_fmt(w->a,
                         "'%s': no further validation rules will be run due to call cost exceeds "
                         "limit for rule: %.*s",
                         err.msg, BH_SF(rule_name(r)));
        report(w, at, r, msg, true);
    } else if (e < 0 && bh_str_starts(bh_s(err.msg), BH_S("no such overload"))) {
        msg = bh_str_fmt(w->a,
                         "'%s': call arguments did not match a supported operator, function or "
                         "macro signature for rule: "
                         "%.*s",
                         err.msg, BH_SF(rule_name(r)));
        report(w, at, r, msg, true);
    } else if (e < 0) {
        report(w, at, r, bh_str_fmt(w->a, "%s evaluating rule: %.*s", err.msg, BH_SF(rule_name(r))),
               true);
    } else if (res.value.kind != BH_CEL_BOOL || !res.value.b) {
        msg = message_of(w, at, r, vars);
        if (!w->stop)
            report(w, at, r, msg, false);
    }
}

static void walk_node(struct walk *w, const struct schema_node *n, const struct spot *at,
                      unsigned depth);

static void walk_children(struct walk *w, const struct schema_node *n, const struct spot *at,
                          unsigned depth)
{
    struct spot below = {.unchanged = at->unchanged || (at->old && bh_jv_eq(at->v, at->old))};

    for (size_t i = 0; n->kind == NODE_OBJECT && i < n->nprops && !w->stop; i++) {
        below.v = bh_jv_get(at->v, n->props[i].name);
        if (!below.v || !n->props[i].node->rules_below)
            continue;
        below.old = bh_jv_get(at->old, n->props[i].name);
        below.path = bh_str_fmt(w->a, "%.*s%s%.*s", BH_SF(at->path), at->path.n ? "." : "",
                                BH_SF(n->props[i].name));
        walk_node(w, n->props[i].node, &below, depth);
    }
    if (!n->item || !n->item->rules_below)
        return;
    for (size_t i = 0;
         n->kind == NODE_MAP && at->v->kind == BH_JSON_OBJ && i < at->v->n_members && !w->stop;
         i++) {
        below.v = &at->v->members[i].v;
        below.old = bh_jv_get(at->old, at->v->members[i].key);
        below.path = bh_str_fmt(w->a, "%.*s[%.*s]", BH_SF(at->path), BH_SF(at->v->members[i].key));
        walk_node(w, n->item, &below, depth);
    }
    for (size_t i = 0;
         n->kind == NODE_LIST && at->v->kind == BH_JSON_ARR && i < at->v->n_items && !w->stop;
         i++) {
        below.v = &at->v->items[i];
        below.old = n->list == LIST_MAP ? schema_list_match(n, at->old, below.v) : NULL;
        below.path = bh_str_fmt(w->a, "%.*s[%zu]", BH_SF(at->path), i);
        walk_node(w, n->item, &below, depth);
    }
}

static void walk_node(struct walk *w, const struct schema_node *n, const struct spot *at,
                      unsigned depth)
{
    struct spot here = *at;

    if (!n->rules_below || w->stop || depth > SCHEMA_DEPTH_MAX || at->v->kind == BH_JSON_NULL)
        return;
    if (here.old && here.old->kind == BH_JSON_NULL)
        here.old = NULL;
    for (size_t i = 0; i < n->nrules && !w->stop; i++)
        run_rule(w, n, &here, &n->rules[i]);
    walk_children(w, n, &here, depth + 1);
}

void bh_cel_schema_validate(const struct bh_cel_schema *s, const struct bh_jv *obj,
                            const struct bh_jv *old, struct bh_arena *a, uint64_t *budget,
                            bh_cel_rule_error_fn fn, void *arg)
{
    struct walk w = {.a = a, .budget = budget, .fn = fn, .arg = arg};
    struct spot top = {.path = BH_S(""), .v = obj, .old = old};

    walk_node(&w, s->root, &top, 0);
}
