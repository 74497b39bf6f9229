/* The evaluator: each step is a function over its operands; errors are values; the budget is
 * checked as it is spent.
 *
 * Every step that evaluates operands and goes on in spite of an error (&&, ||, ?:, loops,
 * optionals) looks at run->halted, so that a passed budget ends the whole evaluation. Recursion is
 * over the plan, as deep as the tree.
 */
#include "cel/cel_eval.h"

#include <string.h>

#include "cel/cel_wkt.h"
#include "cel/re2_shim.h"

#define REGEX_WORK        (CEL_WORK_MAX / 1000)
#define ARENA_CHECK_EVERY 64 /* loop iterations */

bool cel_overgrown(struct bh_cel_run *run)
{
    if (bh_arena_used(run->a) <= CEL_ARENA_MAX)
        return false;
    run->halted = true;
    return true;
}

CEL_STEP(cel_ev_const)
{
    (void)run;
    return s->val;
}

/* ---- attributes
 * ------------------------------------------------------------------------------------------------------
 */

static struct bh_cel_value no_key(struct bh_cel_run *run, struct bh_cel_value key)
{
    switch (key.kind) {
    case BH_CEL_STRING:
        return bh_cel_error(run, "no such key: %.*s", BH_SF(bh_cel_as_str(key)));
    case BH_CEL_INT:
        return bh_cel_error(run, "no such key: %lld", (long long)key.i);
    case BH_CEL_UINT:
        return bh_cel_error(run, "no such key: %llu", (unsigned long long)key.u);
    case BH_CEL_BOOL:
        return bh_cel_error(run, "no such key: %s", key.b ? "true" : "false");
    case BH_CEL_DOUBLE:
        return bh_cel_error(run, "no such key: %.*s", BH_SF(cel_double_text(run->a, key.d)));
    default:
        return bh_cel_error(run, "no such key");
    }
}

/* The index as a position in a list, or an error. */
static struct bh_cel_value list_index(struct bh_cel_run *run, struct bh_cel_value key)
{
    if (key.kind == BH_CEL_INT)
        return key;
    if (key.kind == BH_CEL_UINT && key.u <= INT64_MAX)
        return bh_cel_int((int64_t)key.u);
    if (key.kind == BH_CEL_DOUBLE) {
        if (key.d >= -9007199254740992.0 && key.d <= 9007199254740992.0 &&
            (double)(int64_t)key.d == key.d)
            return bh_cel_int((int64_t)key.d);
        return bh_cel_error(run, "unsupported index value %.*s in list",
                            BH_SF(cel_double_text(run->a, key.d)));
    }
    if (key.kind == BH_CEL_UINT)
        return bh_cel_error(run, "unsupported index value %llu in list", (unsigned long long)key.u);
    return bh_cel_error(run, "unsupported index type '%.*s' in list", BH_SF(bh_cel_type_name(key)));
}

const char *cel_go_name(struct bh_cel_value v)
{
    switch (v.kind) {
    case BH_CEL_NULL:
        return "types.Null";
    case BH_CEL_BOOL:
        return "types.Bool";
    case BH_CEL_INT:
        return "types.Int";
    case BH_CEL_UINT:
        return "types.Uint";
    case BH_CEL_DOUBLE:
        return "types.Double";
    case BH_CEL_STRING:
        return "types.String";
    case BH_CEL_BYTES:
        return "types.Bytes";
    case BH_CEL_LIST:
        return v.list->v ? "*types.baseList" : "[]interface {}";
    case BH_CEL_MAP:
        return v.map->ops ? "map[string]interface {}" : "*types.baseMap";
    case BH_CEL_TIMESTAMP:
        return "types.Timestamp";
    case BH_CEL_DURATION:
        return "types.Duration";
    case BH_CEL_TYPE:
        return "*types.Type";
    case BH_CEL_OPTIONAL:
        return "*types.Optional";
    case BH_CEL_IP:
        return "cel.IP";
    case BH_CEL_CIDR:
        return "cel.CIDR";
    case BH_CEL_URL:
        return "cel.URL";
    case BH_CEL_QUANTITY:
        return "cel.Quantity";
    case BH_CEL_SEMVER:
        return "cel.Semver";
    default:
        return bh_cel_type_name(v).p;
    }
}

/* obj[key]: 1 found, 0 absent, -1 *ret is an error. */
static int look_up(struct bh_cel_run *run, struct bh_cel_value obj, struct bh_cel_value key,
                   struct bh_cel_value *ret)
{
    if (key.kind < BH_CEL_BOOL || key.kind > BH_CEL_STRING) {
        *ret = key.kind == BH_CEL_ERROR
                   ? key
                   : bh_cel_error(run, "invalid qualifier type: %s", cel_go_name(key));
        return -1;
    }
    if (obj.kind == BH_CEL_MAP || obj.kind == BH_CEL_OBJECT) {
        if (!cel_map_get(run, obj.map, key, ret))
            return 0;
        return ret->kind == BH_CEL_ERROR ? -1 : 1;
    }
    if (obj.kind == BH_CEL_LIST) {
        struct bh_cel_value i = list_index(run, key);

        if (i.kind == BH_CEL_ERROR) {
            *ret = i;
            return -1;
        }
        if (i.i < 0 || (uint64_t)i.i >= obj.list->n)
            return 0;
        *ret = cel_list_at(run, obj, (size_t)i.i);
        return ret->kind == BH_CEL_ERROR ? -1 : 1;
    }
    return 0;
}

static struct bh_cel_value absent(struct bh_cel_run *run, struct bh_cel_value obj,
                                  struct bh_cel_value key)
{
    if (obj.kind == BH_CEL_LIST)
        return bh_cel_error(run, "index out of bounds: %lld", (long long)list_index(run, key).i);
    return no_key(run, key);
}

static struct bh_cel_value attr_root(struct bh_cel_run *run, const struct cel_attr *at)
{
    struct cel_local *l;

    switch (at->root) {
    case ROOT_VAR:
        if (at->slot < run->nvars &&
            !(run->vars[at->slot].kind == BH_CEL_ERROR && !run->vars[at->slot].p))
            return run->vars[at->slot];
        return bh_cel_error(run, "no such attribute(s): %.*s", BH_SF(run->p->var_names[at->slot]));
    case ROOT_LOCAL:
        l = &run->locals[at->slot];
        if (l->pending) {
            const struct cel_step *init = l->pending;

            l->val = init->eval(run, init);
            l->pending = NULL;
        }
        return l->val;
    default:
        return at->operand->eval(run, at->operand);
    }
}

/* The last step of has(). */
static struct bh_cel_value test_presence(struct bh_cel_run *run, struct bh_cel_value obj,
                                         struct bh_cel_value key)
{
    struct bh_cel_value v;

    if (obj.kind == BH_CEL_MAP || obj.kind == BH_CEL_OBJECT)
        return bh_cel_bool(cel_map_has(run, obj.map, key));
    return bh_cel_bool(look_up(run, obj, key, &v) == 1);
}

CEL_STEP(cel_ev_attr)
{
    const struct cel_attr *at = &s->at;
    struct bh_cel_value obj = attr_root(run, at), next, key;
    bool opt;

    if (run->halted)
        return cel_halt(run);
    run->pos = s->pos;
    if (at->nq == 0 || obj.kind == BH_CEL_ERROR)
        return cel_charge(run, at->base) ? cel_halt(run) : obj;
    opt = obj.kind == BH_CEL_OPTIONAL;
    if (opt) {
        if (!obj.opt)
            return cel_charge(run, at->base) ? cel_halt(run)
                   : at->test_only           ? bh_cel_bool(false)
                                             : obj;
        obj = *obj.opt;
    }
    for (unsigned i = 0; i < at->nq; i++) {
        const struct cel_qual *q = &at->q[i];
        int r;

        key = q->key;
        if (!q->constant) {
            uint64_t before = run->cost;

            key = q->step->eval(run, q->step);
            if (run->halted)
                return cel_halt(run);
            if (q->plain_attr && run->cost > before)
                run->cost--;
            run->pos = s->pos;
        }
        if (at->test_only && i + 1u == at->nq) {
            if (cel_charge(run, at->base + 1u))
                return cel_halt(run);
            return test_presence(run, obj, key);
        }
        opt |= q->optional;
        r = look_up(run, obj, key, &next);
        if (r == 0 && opt)
            return cel_charge(run, at->base) ? cel_halt(run)
                   : at->test_only           ? bh_cel_bool(false)
                                             : cel_optional_none();
        run->cost++;
        if (r <= 0)
            return cel_charge(run, at->base) ? cel_halt(run) : r < 0 ? next : absent(run, obj, key);
        obj = next;
    }
    if (cel_charge(run, at->base))
        return cel_halt(run);
    return opt ? cel_optional(run->a, obj) : obj;
}

/* The value under a string key of a map without a view or an index. */
static inline bool small_map_get(const struct bh_cel_map *m, struct bh_cel_value key,
                                 struct bh_cel_value *ret)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->k[i].n == key.n && m->k[i].kind == BH_CEL_STRING &&
            memcmp(m->k[i].s, key.s, key.n) == 0) {
            *ret = m->v[i];
            return true;
        }
    return false;
}

CEL_STEP(cel_ev_path)
{
    const struct cel_attr *at = &s->at;
    struct bh_cel_value obj, next;

    if (at->slot >= run->nvars)
        return cel_ev_attr(run, s);
    obj = run->vars[at->slot];
    for (unsigned i = 0; i < at->nq; i++) {
        bool found;

        /* Whatever is not a plain look-up is left to the general case, from the start. */
        if (obj.kind != BH_CEL_MAP)
            return cel_ev_attr(run, s);
        if (!obj.map->ops && !obj.map->hash && at->q[i].key.kind == BH_CEL_STRING)
            found = small_map_get(obj.map, at->q[i].key, &next);
        else
            found = cel_map_get(run, obj.map, at->q[i].key, &next);
        if (!found || next.kind == BH_CEL_ERROR || run->halted)
            return cel_ev_attr(run, s);
        obj = next;
    }
    return cel_charge(run, (uint64_t)at->nq + at->base) ? cel_halt(run) : obj;
}

CEL_STEP(cel_ev_ready)
{
    if (cel_charge(run, s->call.set_n))
        return cel_halt(run);
    return s->call.set[0];
}

CEL_STEP(cel_ev_unknown)
{
    run->pos = s->pos;
    if (s->op == OP_OTHER)
        return bh_cel_error(run, "no such overload: %.*s", BH_SF(s->obj.name));
    return bh_cel_error(run, "no such attribute(s): %.*s", BH_SF(s->obj.name));
}

CEL_STEP(cel_ev_cond)
{
    struct bh_cel_value c = s->args[0]->eval(run, s->args[0]);

    if (run->halted)
        return cel_halt(run);
    if (c.kind == BH_CEL_BOOL)
        return s->args[c.b ? 1 : 2]->eval(run, s->args[c.b ? 1 : 2]);
    if (c.kind == BH_CEL_ERROR)
        return c;
    run->pos = s->pos;
    return cel_err_overload(run);
}

/* ---- logic
 * --------------------------------------------------------------------------------------------------------------
 */

static struct bh_cel_value logic(struct bh_cel_run *run, const struct cel_step *s, bool decisive)
{
    struct bh_cel_value err = {0};
    bool have_err = false;

    for (unsigned i = 0; i < s->n; i++) {
        struct bh_cel_value v = s->args[i]->eval(run, s->args[i]);

        if (run->halted)
            return cel_halt(run);
        if (v.kind == BH_CEL_BOOL) {
            if (v.b == decisive)
                return v;
        } else if (!have_err) {
            have_err = true;
            run->pos = s->pos;
            err = v.kind == BH_CEL_ERROR ? v : cel_err_overload(run);
        }
    }
    return have_err ? err : bh_cel_bool(!decisive);
}

CEL_STEP(cel_ev_and)
{
    return logic(run, s, false);
}

CEL_STEP(cel_ev_or)
{
    return logic(run, s, true);
}

CEL_STEP(cel_ev_not)
{
    struct bh_cel_value v = s->args[0]->eval(run, s->args[0]);

    if (cel_charge(run, 1))
        return cel_halt(run);
    if (v.kind == BH_CEL_BOOL)
        return bh_cel_bool(!v.b);
    run->pos = s->pos;
    return v.kind == BH_CEL_ERROR ? v : cel_err_overload(run);
}

CEL_STEP(cel_ev_nsf)
{
    struct bh_cel_value v = s->args[0]->eval(run, s->args[0]);

    if (cel_charge(run, 1))
        return cel_halt(run);
    return v.kind == BH_CEL_BOOL ? v : bh_cel_bool(true);
}

/* ---- comparisons and arithmetic
 * ----------------------------------------------------------------------------------------- */

static bool scalar(struct bh_cel_value v)
{
    return v.kind >= BH_CEL_BOOL && v.kind <= BH_CEL_DOUBLE;
}

/* Both operands, and the cost of the call. False: *ret is the result (an error). */
static bool operands(struct bh_cel_run *run, const struct cel_step *s, struct bh_cel_value v[2],
                     struct bh_cel_value *ret)
{
    uint64_t cost = 1;

    v[0] = s->args[0]->eval(run, s->args[0]);
    v[1] = s->args[1]->eval(run, s->args[1]);
    if (run->halted) {
        *ret = cel_halt(run);
        return false;
    }
    if (s->cost != CC_ONE && !(s->cost == CC_COMPARE && scalar(v[0]) && scalar(v[1])))
        cost = cel_call_cost((enum cel_cost)s->cost, v, 2, bh_cel_null(), NULL);
    run->pos = s->pos;
    if (cel_charge(run, cost)) {
        *ret = cel_halt(run);
        return false;
    }
    if (v[0].kind == BH_CEL_ERROR || v[1].kind == BH_CEL_ERROR) {
        *ret = v[0].kind == BH_CEL_ERROR ? v[0] : v[1];
        return false;
    }
    return true;
}

CEL_STEP(cel_ev_eq)
{
    struct bh_cel_value v[2], r;

    if (!operands(run, s, v, &r))
        return r;
    r = cel_equal(run, v[0], v[1]);
    /* An error of == becomes true in !=, as upstream has it. */
    return s->op == OP_EQ ? r : bh_cel_bool(!(r.kind == BH_CEL_BOOL && r.b));
}

/* A string compared with a constant: the commonest selector. */
CEL_STEP(cel_ev_eq_const)
{
    struct bh_cel_value v = s->args[0]->eval(run, s->args[0]), k = s->args[1]->val;
    uint64_t size = s->call.set_n;
    bool eq;

    if (run->halted)
        return cel_halt(run);
    if (v.kind != BH_CEL_STRING) {
        struct bh_cel_value args[2] = {v, k}, r;

        run->pos = s->pos;
        if (cel_charge(run, cel_call_cost(CC_COMPARE, args, 2, bh_cel_null(), NULL)))
            return cel_halt(run);
        if (v.kind == BH_CEL_ERROR)
            return v;
        r = cel_equal(run, v, k);
        return s->op == OP_EQ ? r : bh_cel_bool(!(r.kind == BH_CEL_BOOL && r.b));
    }
    eq = v.n == k.n && memcmp(v.s, k.s, k.n) == 0;
    /* The smaller side decides the cost: 1 for up to ten code points; equal strings need no
     * counting. */
    if (size == 0 || v.n == 0)
        size = 0;
    else if (size <= 10 || v.n <= 10)
        size = 1;
    else if (eq)
        size = (size_t)s->call.by_size;
    else
        size = cel_call_cost(CC_COMPARE, (struct bh_cel_value[]){v, k}, 2, bh_cel_null(), NULL);
    if (cel_charge(run, size))
        return cel_halt(run);
    return bh_cel_bool(s->op == OP_EQ ? eq : !eq);
}

CEL_STEP(cel_ev_order)
{
    struct bh_cel_value v[2], r;

    if (!operands(run, s, v, &r))
        return r;
    if (v[0].kind == BH_CEL_NULL ||
        (v[0].kind >= BH_CEL_LIST && v[0].kind != BH_CEL_TIMESTAMP && v[0].kind != BH_CEL_DURATION))
        return bh_cel_error(run, "no such overload: %.*s", BH_SF(s->call.func->name));
    r = cel_compare(run, v[0], v[1]);
    if (r.kind == BH_CEL_ERROR)
        return r;
    switch (s->op) {
    case OP_LT:
        return bh_cel_bool(r.i < 0);
    case OP_LE:
        return bh_cel_bool(r.i <= 0);
    case OP_GT:
        return bh_cel_bool(r.i > 0);
    default:
        return bh_cel_bool(r.i >= 0);
    }
}

CEL_STEP(cel_ev_arith)
{
    struct bh_cel_value v[2], r;

    if (!operands(run, s, v, &r))
        return r;
    return cel_arith(run, (enum cel_op)s->op, v[0], v[1]);
}

CEL_STEP(cel_ev_neg)
{
    struct bh_cel_value v = s->args[0]->eval(run, s->args[0]);

    if (cel_charge(run, 1))
        return cel_halt(run);
    run->pos = s->pos;
    if (v.kind == BH_CEL_INT)
        return v.i == INT64_MIN ? bh_cel_error(run, "integer overflow") : bh_cel_int(-v.i);
    if (v.kind == BH_CEL_DOUBLE)
        return bh_cel_double(-v.d);
    if (v.kind == BH_CEL_DURATION && v.i != INT64_MIN) {
        v.i = -v.i;
        return v;
    }
    if (v.kind == BH_CEL_BOOL || v.kind == BH_CEL_STRING || v.kind == BH_CEL_TIMESTAMP ||
        v.kind == BH_CEL_DURATION)
        return cel_err_overload(run);
    return v.kind == BH_CEL_ERROR ? v : bh_cel_error(run, "no such overload: -_");
}

CEL_STEP(cel_ev_in)
{
    struct bh_cel_value v[2], r;

    if (!operands(run, s, v, &r))
        return r;
    if (v[1].kind == BH_CEL_MAP)
        return bh_cel_bool(cel_map_has(run, v[1].map, v[0]));
    if (v[1].kind != BH_CEL_LIST)
        return cel_err_overload(run);
    for (size_t i = 0; i < v[1].list->n; i++) {
        r = cel_equal(run, cel_list_at(run, v[1], i), v[0]);
        if (r.kind == BH_CEL_BOOL && r.b)
            return r;
    }
    return bh_cel_bool(false);
}

CEL_STEP(cel_ev_in_set)
{
    struct bh_cel_value v = s->args[0]->eval(run, s->args[0]);

    if (v.kind == BH_CEL_ERROR)
        return v;
    if (s->call.set_n == 0)
        return bh_cel_bool(cel_map_has(run, s->call.set[0].map, v));
    for (size_t i = 0; i < s->call.set_n; i++)
        if (bh_cel_equal(NULL, v, s->call.set[i]))
            return bh_cel_bool(true);
    return bh_cel_bool(false);
}

/* ---- calls
 * ----------------------------------------------------------------------------------------------------------------
 */

static const struct cel_decl *dispatch(const struct cel_step *s, const struct bh_cel_value *args)
{
    for (uint32_t i = 0; i < s->call.ndecls; i++) {
        const struct cel_decl *d = s->call.decls[i];
        unsigned k = 0;

        while (k < d->n && (d->kinds[k] == 0xff || d->kinds[k] == args[k].kind))
            k++;
        if (k == d->n)
            return d;
    }
    return NULL;
}

static struct bh_cel_value no_overload(struct bh_cel_run *run, const struct cel_step *s,
                                       const struct bh_cel_value *args)
{
    if (!(s->call.decls[0]->ov->flags & OV_ANYARG))
        return cel_err_overload_fn(run, s->call.func->name.p, args, s->n);
    if (s->n == 1)
        return bh_cel_error(run, "no such overload: %.*s", BH_SF(s->call.func->name));
    return cel_err_overload(run);
}

/* The cost of these follows from the result. */
static bool cost_after(uint8_t cc)
{
    return cc == CC_JOIN || cc == CC_SLICE || cc == CC_RANGE || cc == CC_REVERSE ||
           cc == CC_FLATTEN || cc == CC_UNWRAP;
}

CEL_STEP(cel_ev_call)
{
    struct bh_cel_value args[CEL_ARGS_MAX], r;
    const struct cel_decl *d;
    uint8_t cc = s->cost;
    int bad = -1;

    for (unsigned i = 0; i < s->n; i++) {
        args[i] = s->args[i]->eval(run, s->args[i]);
        if (args[i].kind == BH_CEL_ERROR) {
            if (run->halted)
                return cel_halt(run);
            /* Unary and binary calls evaluate all operands and are charged; longer ones stop here.
             */
            if (s->n > 2 && i + 1u < s->n)
                return args[i];
            if (bad < 0)
                bad = (int)i;
        }
    }
    run->pos = s->pos;
    d = bad < 0 ? dispatch(s, args) : NULL;
    if (s->call.by_name)
        cc = (d ? d : s->call.decls[0])->ov->cost;
    if (!cost_after(cc) || !d) {
        if (cel_charge(run, cel_call_cost((enum cel_cost)cc, args, s->n, bh_cel_null(),
                                          s->call.decls[0]->ov)))
            return cel_halt(run);
        if (bad >= 0)
            return args[bad];
        return d ? d->ov->fn(run, args, s->n) : no_overload(run, s, args);
    }
    r = d->ov->fn(run, args, s->n);
    if (run->halted || cel_charge(run, cel_call_cost((enum cel_cost)cc, args, s->n, r, d->ov)))
        return cel_halt(run);
    return r;
}

CEL_STEP(cel_ev_regex)
{
    struct bh_cel_value args[3], r;
    uint8_t cc = s->cost;
    void *re = s->call.regex;
    char why[256];
    int bad = -1;

    args[2] = bh_cel_int(-1);
    for (unsigned i = 0; i < s->n; i++) {
        args[i] = s->args[i]->eval(run, s->args[i]);
        if (args[i].kind == BH_CEL_ERROR && bad < 0) {
            if (run->halted)
                return cel_halt(run);
            if (s->n > 2 && i + 1u < s->n)
                return args[i];
            bad = (int)i;
        }
    }
    run->pos = s->pos;
    if (s->call.by_name)
        cc = s->call.decls[0]->ov->cost;
    if (cel_charge(run, cel_call_cost((enum cel_cost)cc, args, s->n, bh_cel_null(), NULL)))
        return cel_halt(run);
    if (bad >= 0)
        return args[bad];
    if (args[0].kind != BH_CEL_STRING || args[1].kind != BH_CEL_STRING ||
        args[2].kind != BH_CEL_INT)
        return s->op == OP_MATCHES ? cel_err_overload(run)
                                   : cel_err_overload_fn(run, s->call.func->name.p, args, s->n);
    if (!re) {
        if (cel_work(run, REGEX_WORK)) /* compiling costs far more than upstream charges for it */
            return cel_halt(run);
        re = bh_re2_new(args[1].s, args[1].n, why, sizeof(why));
        if (!re)
            return bh_cel_error(run, "error parsing regexp: %s", why);
    }
    r = cel_regex_apply(run, (enum cel_op)s->op, re, args[0], args[2].i);
    if (re != s->call.regex)
        bh_re2_free(re);
    return r;
}

/* ---- literals
 * ---------------------------------------------------------------------------------------------------------------
 */

/* A list or map under construction, which nobody else refers to: the accumulator of a loop, a
 * literal. */
struct grow {
    union {
        struct bh_cel_list l;
        struct bh_cel_map m;
    };
    size_t kcap, vcap;
};

/* An entry marked with '?': 1 to keep (*v unwrapped), 0 to leave out, -1 an error in *v. */
static int unwrap_entry(struct bh_cel_run *run, const struct cel_step *s, size_t i,
                        struct bh_cel_value *v)
{
    if (!s->opt || !s->opt[i])
        return 1;
    if (v->kind != BH_CEL_OPTIONAL) {
        *v = bh_cel_error(run,
                          "cannot initialize optional list element from non-optional value %.*s",
                          BH_SF(bh_cel_type_name(*v)));
        return -1;
    }
    if (!v->opt)
        return 0;
    *v = *v->opt;
    return 1;
}

CEL_STEP(cel_ev_list)
{
    size_t n = s->call.set_n;
    struct bh_cel_value *v = bh_new_n(run->a, struct bh_cel_value, n);
    struct cel_list_builder b = {v, 0, n};

    for (size_t i = 0; i < n; i++) {
        struct bh_cel_value x = s->args[i]->eval(run, s->args[i]);
        int keep = x.kind == BH_CEL_ERROR ? -1 : unwrap_entry(run, s, i, &x);

        if (run->halted)
            return cel_halt(run);
        if (keep < 0)
            return cel_charge(run, 10) ? cel_halt(run) : x;
        if (keep)
            v[b.n++] = x;
    }
    if (cel_charge(run, 10))
        return cel_halt(run);
    return cel_list_done(run->a, &b);
}

static void rehash(struct bh_cel_run *run, struct grow *g)
{
    struct bh_cel_value m = cel_map_done(run->a, g->m.k, g->m.v, g->m.n);

    g->m.hash = m.map->hash;
    g->m.hash_n = m.map->hash_n;
}

static bool grow_insert(struct bh_cel_run *run, struct grow *g, struct bh_cel_value k,
                        struct bh_cel_value v);

/* Puts a pair at the end, or over an equal key. */
static void map_put(struct bh_cel_run *run, struct grow *g, struct bh_cel_value key,
                    struct bh_cel_value val)
{
    ptrdiff_t i;

    if (grow_insert(run, g, key, val))
        return;
    i = cel_map_find(run, &g->m, key);
    if (i >= 0)
        ((struct bh_cel_value *)(uintptr_t)g->m.v)[i] = val;
}

static void map_drop(struct bh_cel_run *run, struct grow *g, struct bh_cel_value key)
{
    struct bh_cel_value *k = (struct bh_cel_value *)(uintptr_t)g->m.k,
                        *v = (struct bh_cel_value *)(uintptr_t)g->m.v;
    ptrdiff_t i = cel_map_find(run, &g->m, key);
    size_t rest;

    if (i < 0)
        return;
    rest = g->m.n - (size_t)i - 1;
    memmove(&k[i], &k[i + 1], rest * sizeof(*k));
    memmove(&v[i], &v[i + 1], rest * sizeof(*v));
    g->m.n--;
    rehash(run, g); /* positions have moved */
}

CEL_STEP(cel_ev_map)
{
    size_t n = s->call.set_n;
    struct grow *g = bh_new(run->a, struct grow);

    for (size_t i = 0; i < n; i++) {
        struct bh_cel_value key = s->args[2 * i]->eval(run, s->args[2 * i]), val;
        int keep;

        if (run->halted)
            return cel_halt(run);
        if (key.kind == BH_CEL_ERROR)
            return cel_charge(run, 30) ? cel_halt(run) : key;
        val = s->args[2 * i + 1]->eval(run, s->args[2 * i + 1]);
        if (run->halted)
            return cel_halt(run);
        run->pos = s->pos;
        keep = val.kind == BH_CEL_ERROR ? -1 : unwrap_entry(run, s, i, &val);
        if (key.kind == BH_CEL_BYTES) {
            keep = -1;
            val = bh_cel_error(run, "unsupported key type: bytes");
        }
        if (keep < 0)
            return cel_charge(run, 30) ? cel_halt(run) : val;
        if (keep)
            map_put(run, g, key, val);
        else
            map_drop(run, g, key);
    }
    if (cel_charge(run, 30))
        return cel_halt(run);
    return (struct bh_cel_value){.kind = BH_CEL_MAP, .map = &g->m};
}

CEL_STEP(cel_ev_struct)
{
    struct grow *g = bh_new(run->a, struct grow);

    for (unsigned i = 0; i < s->n; i++) {
        struct bh_cel_value x = s->args[i]->eval(run, s->args[i]);
        int keep = x.kind == BH_CEL_ERROR ? -1 : unwrap_entry(run, s, i, &x);

        if (run->halted)
            return cel_halt(run);
        if (keep < 0)
            return cel_charge(run, 40) ? cel_halt(run) : x;
        if (keep)
            map_put(run, g, bh_cel_str(s->obj.fields[i]), x);
    }
    if (cel_charge(run, 40))
        return cel_halt(run);
    g->m.type_name = s->obj.name;
    if (s->op)
        return cel_wkt_value(run, &g->m);
    return (struct bh_cel_value){.kind = BH_CEL_OBJECT, .map = &g->m};
}

/* ---- loops
 * -------------------------------------------------------------------------------------------------------------------
 */

static struct bh_cel_value not_iterable(struct bh_cel_run *run, struct bh_cel_value v)
{
    return bh_cel_error(run, "got '%s', expected iterable type", cel_go_name(v));
}

/* Runs the body for each element; the accumulator is left in its local. */
static void iterate(struct bh_cel_run *run, const struct cel_step *s, struct bh_cel_value range)
{
    struct cel_local *l = &run->locals[s->fold.slot];
    size_t n = range.kind == BH_CEL_LIST ? range.list->n : range.map->n;

    for (size_t i = 0; i < n; i++) {
        struct bh_cel_value v;

        if (range.kind == BH_CEL_LIST) {
            v = cel_list_at(run, range, i);
            l[1].val = s->fold.two ? bh_cel_int((int64_t)i) : v;
            l[2].val = v;
        } else {
            cel_map_at(run, range.map, i, &l[1].val, &l[2].val);
        }
        v = s->fold.cond->eval(run, s->fold.cond);
        if (run->halted || (v.kind == BH_CEL_BOOL && !v.b))
            return;
        v = s->fold.step->eval(run, s->fold.step);
        if (run->halted || (i % ARENA_CHECK_EVERY == 0 && cel_overgrown(run)))
            return;
        l->val = v;
        l->pending = NULL;
    }
}

CEL_STEP(cel_ev_fold)
{
    struct cel_local *l = &run->locals[s->fold.slot];
    struct bh_cel_value range = bh_cel_null();

    if (!s->fold.bind) {
        range = s->fold.range->eval(run, s->fold.range);
        if (range.kind == BH_CEL_ERROR)
            return range;
        run->pos = s->pos;
        if (range.kind != BH_CEL_LIST && range.kind != BH_CEL_MAP)
            return not_iterable(run, range);
    }
    l->val = bh_cel_null();
    l->pending = s->fold.init;
    l->grows = false;
    if (!s->fold.bind)
        iterate(run, s, range);
    if (run->halted)
        return cel_halt(run);
    return s->fold.result->eval(run, s->fold.result);
}

static struct bh_cel_value read_accu(struct bh_cel_run *run, uint32_t slot)
{
    struct cel_local *l = &run->locals[slot];

    if (l->pending) {
        l->val = l->pending->eval(run, l->pending);
        l->pending = NULL;
    }
    /* The initial value is a shared empty constant. */
    if (!l->grows && l->val.kind == BH_CEL_LIST)
        l->val.list = &bh_new(run->a, struct grow)->l;
    else if (!l->grows && l->val.kind == BH_CEL_MAP)
        l->val.map = &bh_new(run->a, struct grow)->m;
    l->grows = true;
    return l->val;
}

CEL_STEP(cel_ev_append)
{
    struct bh_cel_value acc = read_accu(run, s->at.slot), v;
    struct grow *g;

    v = s->args[0]->eval(run, s->args[0]);
    if (run->halted || cel_charge(run, s->cost))
        return cel_halt(run);
    if (acc.kind == BH_CEL_ERROR)
        return acc;
    if (v.kind == BH_CEL_ERROR)
        return v;
    g = (struct grow *)(uintptr_t)acc.list;
    bh_arena_grow(run->a, &g->l.v, &g->vcap, g->l.n + 1, sizeof(v));
    ((struct bh_cel_value *)(uintptr_t)g->l.v)[g->l.n++] = v;
    return acc;
}

/* Adds a pair that is not there yet, keeping the index. */
static bool grow_insert(struct bh_cel_run *run, struct grow *g, struct bh_cel_value k,
                        struct bh_cel_value v)
{
    struct bh_cel_value old;
    uint32_t *h;
    size_t at;

    if (cel_map_get(run, &g->m, k, &old))
        return false;
    bh_arena_grow(run->a, &g->m.k, &g->kcap, g->m.n + 1, sizeof(k));
    bh_arena_grow(run->a, &g->m.v, &g->vcap, g->m.n + 1, sizeof(v));
    ((struct bh_cel_value *)(uintptr_t)g->m.k)[g->m.n] = k;
    ((struct bh_cel_value *)(uintptr_t)g->m.v)[g->m.n] = v;
    g->m.n++;
    if (g->m.n < 9)
        return true;
    if (!g->m.hash || g->m.n * 2 > g->m.hash_n) {
        rehash(run, g);
        return true;
    }
    h = (uint32_t *)(uintptr_t)g->m.hash;
    at = cel_hash(k) & (g->m.hash_n - 1);
    while (h[at])
        at = (at + 1) & (g->m.hash_n - 1);
    h[at] = (uint32_t)g->m.n;
    return true;
}

static struct bh_cel_value key_exists(struct bh_cel_run *run, struct bh_cel_value k)
{
    struct bh_str s = k.kind == BH_CEL_STRING ? bh_cel_as_str(k)
                      : k.kind == BH_CEL_INT  ? bh_str_fmt(run->a, "%lld", (long long)k.i)
                      : k.kind == BH_CEL_UINT ? bh_str_fmt(run->a, "%llu", (unsigned long long)k.u)
                      : k.kind == BH_CEL_BOOL ? bh_s(k.b ? "true" : "false")
                      : k.kind == BH_CEL_DOUBLE ? cel_double_text(run->a, k.d)
                                                : bh_cel_type_name(k);

    return bh_cel_error(run, "insert failed: key %.*s already exists", BH_SF(s));
}

CEL_STEP(cel_ev_insert)
{
    struct bh_cel_value acc = read_accu(run, s->at.slot), k, v, r;
    struct grow *g = (struct grow *)(uintptr_t)acc.map;

    if (cel_charge(run, 1)) /* the accumulator */
        return cel_halt(run);
    if (acc.kind == BH_CEL_ERROR && s->n == 2)
        return acc;
    k = s->args[0]->eval(run, s->args[0]);
    if (s->n == 2) {
        if (k.kind == BH_CEL_ERROR)
            return run->halted ? cel_halt(run) : k;
        v = s->args[1]->eval(run, s->args[1]);
        if (run->halted || cel_charge(run, 1))
            return cel_halt(run);
        if (v.kind == BH_CEL_ERROR)
            return v;
        run->pos = s->pos;
        return grow_insert(run, g, k, v) ? acc : key_exists(run, k);
    }
    if (run->halted || cel_charge(run, 1))
        return cel_halt(run);
    if (acc.kind == BH_CEL_ERROR)
        return acc;
    if (k.kind == BH_CEL_ERROR)
        return k;
    run->pos = s->pos;
    if (k.kind != BH_CEL_MAP)
        return cel_err_overload(run);
    for (size_t i = 0; i < k.map->n; i++) {
        cel_map_at(run, k.map, i, &r, &v);
        if (!grow_insert(run, g, r, v))
            return key_exists(run, r);
    }
    return acc;
}

/* ---- optionals
 * --------------------------------------------------------------------------------------------------------------
 */

CEL_STEP(cel_ev_opt_or)
{
    struct bh_cel_value v = s->args[0]->eval(run, s->args[0]);

    if (run->halted)
        return cel_halt(run);
    if (v.kind != BH_CEL_OPTIONAL)
        return v;
    if (v.opt)
        return s->op == OP_OPT_OR ? v : *v.opt;
    return s->args[1]->eval(run, s->args[1]);
}

/* ---- entry
 * ------------------------------------------------------------------------------------------------------------------
 */

static void position(const struct bh_cel_program *p, uint32_t pos, struct bh_cel_result *ret)
{
    uint32_t line = 1, start = 0;

    if (pos == CEL_POS_NONE || pos > p->text.n)
        return;
    for (uint32_t i = 0; i < pos; i++)
        if (p->text.p[i] == '\n') {
            line++;
            start = i + 1;
        }
    ret->line = line;
    ret->col = (uint32_t)cel_runes(p->text.p + start, pos - start) + 1;
}

int bh_cel_eval(const struct bh_cel_program *p, const struct bh_cel_value *vars, size_t nvars,
                struct bh_arena *a, uint64_t cost_limit, struct bh_cel_result *ret,
                struct bh_err *err)
{
    struct cel_local few[8];
    struct bh_cel_run run = {
        .a = a, .vars = vars, .nvars = nvars, .p = p, .locals = few, .limit = cost_limit};
    const struct cel_error *e;

    if (p->nlocals > BH_COUNT(few))
        run.locals = bh_new_n(a, struct cel_local, p->nlocals);
    else if (p->nlocals)
        memset(few, 0, p->nlocals * sizeof(few[0]));
    ret->value = p->root->eval(&run, p->root);
    ret->cost = run.cost;
    ret->line = ret->col = 0;
    if (run.halted)
        return bh_err_set(err, BH_E_LIMIT, "operation cancelled: actual cost limit exceeded");
    if (ret->value.kind != BH_CEL_ERROR)
        return 0;
    e = ret->value.p;
    if (!e)
        return bh_err_set(err, BH_E_INVALID, "no such attribute(s)");
    position(p, e->pos, ret);
    return bh_err_set(err, BH_E_INVALID, "%.*s", BH_SF(e->msg));
}
