/* The runner of conformance files. */
#include "cel/cel_suite.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "cel/cel.h"
#include "data/codec.h"
#include "data/json.h"

#define VARS_MAX 32 /* variables of one test */

void bh_cel_suite_init(struct bh_cel_suite *s, struct bh_arena *a)
{
    memset(s, 0, sizeof(*s));
    s->a = a;
}

int bh_cel_suite_expect(struct bh_cel_suite *s, struct bh_str text, struct bh_err *err)
{
    struct bh_str rest = bh_str_dup(s->a, text);
    int r;

    if (bh_str_starts(bh_str_trim(rest), BH_S("{"))) {
        s->index = bh_new(s->a, struct bh_jv);
        r = bh_jv_parse(s->a, rest, NULL, s->index, err);
        return r;
    }
    while (rest.n) {
        struct bh_str line = bh_str_cut(&rest, '\n'), name = bh_str_cut(&line, ' ');

        if (name.n == 0 || name.p[0] == '#')
            continue;
        bh_arena_grow(s->a, &s->expect.p, &s->expect_cap, s->expect.n + 1, sizeof(*s->expect.p));
        s->expect.p[s->expect.n++] = name;
    }
    return 0;
}

/* why NULL: the test had the outcome it should. */
static void report(struct bh_cel_suite *s, struct bh_str name, struct bh_str expr, const char *why)
{
    bool listed = false;

    for (size_t i = 0; i < s->expect.n; i++)
        listed |= bh_str_eq(s->expect.p[i], name);
    if (!why && !listed) {
        s->passed++;
        return;
    }
    if (why && listed) {
        s->expected++;
        return;
    }
    s->failures++;
    if (s->failed)
        s->failed(s->arg, name, expr, why ? bh_s(why) : BH_S("passes, but is listed as a failure"));
}

/* ---- values and types
 * --------------------------------------------------------------------------------------------------
 */

static bool from_value(struct bh_arena *a, const struct bh_jv *v, struct bh_cel_value *ret);

static bool from_map(struct bh_arena *a, const struct bh_jv *entries, struct bh_cel_value *ret)
{
    size_t n = entries ? entries->n_items : 0;
    struct bh_cel_value *k = bh_new_n(a, struct bh_cel_value, n),
                        *v = bh_new_n(a, struct bh_cel_value, n);

    for (size_t i = 0; i < n; i++)
        if (!from_value(a, bh_jv_getc(&entries->items[i], "key"), &k[i]) ||
            !from_value(a, bh_jv_getc(&entries->items[i], "value"), &v[i]))
            return false;
    *ret = bh_cel_map_new(a, k, v, n);
    return true;
}

static double number(struct bh_str s)
{
    double d = 0;

    if (bh_str_eqc(s, "NaN"))
        return NAN;
    if (bh_str_eqc(s, "Infinity") || bh_str_eqc(s, "-Infinity"))
        return s.p[0] == '-' ? -INFINITY : INFINITY;
    (void)bh_json_num_double(s, &d);
    return d;
}

/* A Value of the data; false for forms that have no value here (objects of protobuf messages). */
static bool from_value(struct bh_arena *a, const struct bh_jv *v, struct bh_cel_value *ret)
{
    struct bh_str k, s;
    const struct bh_jv *x;
    int64_t i;

    if (!v || v->kind != BH_JSON_OBJ || v->n_members == 0)
        return false;
    k = v->members[0].key;
    x = &v->members[0].v;
    s = x->s;
    if (bh_str_eqc(k, "null_value")) {
        *ret = bh_cel_null();
    } else if (bh_str_eqc(k, "bool_value")) {
        *ret = bh_cel_bool(x->b);
    } else if (bh_str_eqc(k, "int64_value")) {
        if (!bh_str_i64(s, INT64_MIN, INT64_MAX, &i))
            return false;
        *ret = bh_cel_int(i);
    } else if (bh_str_eqc(k, "uint64_value")) {
        uint64_t u = 0;

        for (size_t n = 0; n < s.n; n++)
            u = u * 10 + (uint64_t)(s.p[n] - '0');
        *ret = bh_cel_uint(u);
    } else if (bh_str_eqc(k, "double_value")) {
        *ret = bh_cel_double(number(s));
    } else if (bh_str_eqc(k, "string_value")) {
        *ret = bh_cel_str(s);
    } else if (bh_str_eqc(k, "bytes_value")) {
        if (bh_base64_decode(a, s, &s, NULL) < 0)
            return false;
        *ret = bh_cel_str(s);
        ret->kind = BH_CEL_BYTES;
    } else if (bh_str_eqc(k, "list_value")) {
        const struct bh_jv *l = bh_jv_getc(x, "values");
        size_t n = l ? l->n_items : 0;
        struct bh_cel_value *e = bh_new_n(a, struct bh_cel_value, n);

        for (size_t m = 0; m < n; m++)
            if (!from_value(a, &l->items[m], &e[m]))
                return false;
        *ret = bh_cel_list_new(a, e, n);
    } else if (bh_str_eqc(k, "map_value")) {
        return from_map(a, bh_jv_getc(x, "entries"), ret);
    } else {
        return false;
    }
    return true;
}

static bool same(struct bh_cel_value a, struct bh_cel_value b);

static bool same_lists(struct bh_cel_value a, struct bh_cel_value b)
{
    BH_AUTO_ARENA t = bh_arena_new(0);

    if (a.list->n != b.list->n)
        return false;
    /* Expected lists hold arrays; ours may be views, which equality reads. */
    if (!a.list->v || !b.list->v)
        return bh_cel_equal(t, a, b);
    for (size_t i = 0; i < a.list->n; i++)
        if (!same(a.list->v[i], b.list->v[i]))
            return false;
    return true;
}

static bool same_maps(struct bh_cel_value a, struct bh_cel_value b)
{
    BH_AUTO_ARENA t = bh_arena_new(0);

    if (a.map->n != b.map->n)
        return false;
    if (a.map->ops || b.map->ops)
        return bh_cel_equal(t, a, b);
    for (size_t i = 0; i < a.map->n; i++) {
        bool found = false;

        for (size_t k = 0; k < b.map->n && !found; k++)
            found = same(a.map->k[i], b.map->k[k]) && same(a.map->v[i], b.map->v[k]);
        if (!found)
            return false;
    }
    return true;
}

/* The same value and kind: stricter than ==, and NaN is NaN. */
static bool same(struct bh_cel_value a, struct bh_cel_value b)
{
    BH_AUTO_ARENA t = NULL;

    if (a.kind != b.kind)
        return false;
    if (a.kind == BH_CEL_DOUBLE)
        return (isnan(a.d) && isnan(b.d)) || a.d == b.d;
    if (a.kind == BH_CEL_LIST)
        return same_lists(a, b);
    if (a.kind == BH_CEL_MAP)
        return same_maps(a, b);
    t = bh_arena_new(0);
    return bh_cel_equal(t, a, b);
}

static struct bh_str to_text(struct bh_arena *a, struct bh_cel_value v)
{
    BH_AUTO_BUF b = {.max = 1 << 20};
    struct bh_err e;

    if (bh_cel_to_json(a, v, &b, &e) < 0)
        return bh_str_fmt(a, "(%s)", e.msg);
    return bh_str_fmt(a, "%.*s %.*s", BH_SF(bh_cel_type_name(v)), BH_SF(bh_buf_str(&b)));
}

static struct bh_str json_text(struct bh_arena *a, struct bh_cel_value v)
{
    struct bh_str s = to_text(a, v);

    while (s.n && s.p[0] != '"')
        s = bh_str_sub(s, 1, s.n);
    return bh_str_sub(s, 1, s.n - 1);
}

/* NULL when the value is what the data wants. */
static const char *wrong_value(struct bh_arena *a, const struct bh_jv *want,
                               struct bh_cel_value got)
{
    struct bh_cel_value v;
    struct bh_str k, s;

    if (!want || want->n_members == 0)
        return "no expected value";
    k = want->members[0].key;
    s = want->members[0].v.s;
    if (bh_str_eqc(k, "type_value"))
        return got.kind == BH_CEL_TYPE && bh_str_eq(s, json_text(a, got)) ? NULL : "another type";
    if (bh_str_eqc(k, "timestamp") || bh_str_eqc(k, "duration"))
        return bh_str_eq(s, json_text(a, got))
                   ? NULL
                   : bh_str_fmt(a, "got %.*s", BH_SF(to_text(a, got))).p;
    if (bh_str_eqc(k, "optional_none"))
        return got.kind == BH_CEL_OPTIONAL && !got.opt ? NULL : "not optional.none()";
    if (bh_str_eqc(k, "optional_of"))
        return got.kind == BH_CEL_OPTIONAL && got.opt
                   ? wrong_value(a, &want->members[0].v, *got.opt)
                   : "no optional";
    if (bh_str_eqc(k, "k8s_value"))
        return got.kind >= BH_CEL_IP && got.kind <= BH_CEL_OBJECT ? NULL : "no Kubernetes value";
    if (bh_str_eqc(k, "list_value") && got.kind == BH_CEL_LIST && got.list->v) {
        const struct bh_jv *l = bh_jv_getc(&want->members[0].v, "values");

        if (got.list->n != (l ? l->n_items : 0))
            return bh_str_fmt(a, "got %.*s", BH_SF(to_text(a, got))).p;
        for (size_t i = 0; i < got.list->n; i++)
            if (wrong_value(a, &l->items[i], got.list->v[i]))
                return bh_str_fmt(a, "got %.*s", BH_SF(to_text(a, got))).p;
        return NULL;
    }
    if (bh_str_eqc(k, "object_value")) {
        const struct bh_jv *o = &want->members[0].v;
        struct bh_str type = bh_jv_get_str(o, "@type"), text = bh_jv_get_str(o, "value");

        if (bh_str_ends(type, BH_S("google.protobuf.Timestamp")) ||
            bh_str_ends(type, BH_S("google.protobuf.Duration")))
            return bh_str_eq(text, json_text(a, got))
                       ? NULL
                       : bh_str_fmt(a, "got %.*s", BH_SF(to_text(a, got))).p;
        return "a protobuf message";
    }
    if (!from_value(a, want, &v))
        return "an expected value of unknown form";
    return same(v, got) ? NULL : bh_str_fmt(a, "got %.*s", BH_SF(to_text(a, got))).p;
}

static const struct bh_cel_type *from_type(struct bh_arena *a, const struct bh_jv *t)
{
    struct bh_str k, s;
    const struct bh_jv *x;

    if (!t || t->n_members == 0)
        return NULL;
    k = t->members[0].key;
    x = &t->members[0].v;
    s = x->s;
    if (bh_str_eqc(k, "dyn"))
        return bh_cel_type_dyn();
    if (bh_str_eqc(k, "null"))
        return bh_cel_type_null();
    if (bh_str_eqc(k, "primitive"))
        return bh_str_eqc(s, "BOOL")     ? bh_cel_type_bool()
               : bh_str_eqc(s, "INT64")  ? bh_cel_type_int()
               : bh_str_eqc(s, "UINT64") ? bh_cel_type_uint()
               : bh_str_eqc(s, "DOUBLE") ? bh_cel_type_double()
               : bh_str_eqc(s, "STRING") ? bh_cel_type_string()
                                         : bh_cel_type_bytes();
    if (bh_str_eqc(k, "well_known"))
        return bh_str_eqc(s, "TIMESTAMP")  ? bh_cel_type_timestamp()
               : bh_str_eqc(s, "DURATION") ? bh_cel_type_duration()
                                           : bh_cel_type_any();
    if (bh_str_eqc(k, "message_type") && bh_str_eqc(s, "google.protobuf.Timestamp"))
        return bh_cel_type_timestamp();
    if (bh_str_eqc(k, "message_type") && bh_str_eqc(s, "google.protobuf.Duration"))
        return bh_cel_type_duration();
    if (bh_str_eqc(k, "list_type"))
        return bh_cel_type_list(a, from_type(a, bh_jv_getc(x, "elem_type")), BH_CEL_SIZE_UNKNOWN);
    if (bh_str_eqc(k, "map_type"))
        return bh_cel_type_map(a, from_type(a, bh_jv_getc(x, "key_type")),
                               from_type(a, bh_jv_getc(x, "value_type")), BH_CEL_SIZE_UNKNOWN);
    if (bh_str_eqc(k, "abstract_type") && bh_str_eqc(bh_jv_get_str(x, "name"), "optional_type"))
        return bh_cel_type_optional(a, from_type(a, bh_jv_at(bh_jv_getc(x, "parameter_types"), 0)));
    return NULL;
}

/* ---- the language's tests
 * ------------------------------------------------------------------------------------------------
 */

/* Declares and binds; false when the test needs what only protobuf has. */
static bool bind_all(struct bh_cel_suite *s, const struct bh_jv *t, struct bh_cel_env *e,
                     struct bh_cel_value *vars, size_t *nvars)
{
    const struct bh_jv *env = bh_jv_getc(t, "type_env"), *b = bh_jv_getc(t, "bindings");

    for (size_t i = 0; env && i < env->n_items; i++) {
        const struct bh_jv *ident = bh_jv_getc(&env->items[i], "ident");
        const struct bh_cel_type *type = from_type(s->a, bh_jv_getc(ident, "type"));

        if (!ident || !type || *nvars == VARS_MAX)
            return false;
        (void)bh_cel_env_var(e, bh_jv_get_str(&env->items[i], "name"), type);
        vars[*nvars] = (struct bh_cel_value){.kind = BH_CEL_ERROR};
        (*nvars)++;
    }
    for (size_t i = 0; b && i < b->n_members; i++) {
        size_t k = 0;

        while (k < *nvars && !bh_str_eq(bh_jv_get_str(&env->items[k], "name"), b->members[i].key))
            k++;
        if (k == *nvars) { /* a binding without a declaration: dyn */
            if (*nvars == VARS_MAX)
                return false;
            (void)bh_cel_env_var(e, b->members[i].key, bh_cel_type_dyn());
            (*nvars)++;
        }
        if (!from_value(s->a, bh_jv_getc(&b->members[i].v, "value"), &vars[k]))
            return false;
    }
    return true;
}

/* NULL when the outcome is the stated one. */
static const char *outcome(struct bh_cel_suite *s, const struct bh_jv *t,
                           const struct bh_cel_env *e, const struct bh_cel_value *vars,
                           size_t nvars)
{
    const struct bh_jv *typed = bh_jv_getc(t, "typed_result"), *want = bh_jv_getc(t, "value");
    bool err_wanted = bh_jv_getc(t, "eval_error") || bh_jv_getc(t, "any_eval_errors");
    static const struct bh_cel_value yes = {.kind = BH_CEL_BOOL, .i = 1};
    struct bh_cel_program *p = NULL;
    struct bh_cel_result res;
    struct bh_err err = {0};
    const char *why = NULL;
    int r = bh_jv_get_bool(t, "disable_check")
                ? bh_cel_compile_unchecked(e, bh_jv_get_str(t, "expr"), s->a, &p, NULL, &err)
                : bh_cel_compile(e, bh_jv_get_str(t, "expr"), s->a, &p, NULL, &err);

    if (r < 0)
        return err_wanted ? NULL : bh_str_fmt(s->a, "compile error: %s", err.msg).p;
    if (typed) {
        const struct bh_cel_type *type = from_type(s->a, bh_jv_getc(typed, "deduced_type"));

        if (type && !bh_cel_type_eq(type, bh_cel_program_type(p)))
            why = bh_str_fmt(s->a, "type %.*s, not %.*s",
                             BH_SF(bh_cel_type_text(s->a, bh_cel_program_type(p))),
                             BH_SF(bh_cel_type_text(s->a, type)))
                      .p;
        want = bh_jv_getc(typed, "result");
    }
    if (!why && !bh_jv_get_bool(t, "check_only")) {
        r = bh_cel_eval(p, vars, nvars, s->a, UINT64_MAX, &res, &err);
        if (r < 0)
            why = err_wanted ? NULL : bh_str_fmt(s->a, "error: %s", err.msg).p;
        else if (err_wanted)
            why = bh_str_fmt(s->a, "no error but %.*s", BH_SF(to_text(s->a, res.value))).p;
        else if (want)
            why = wrong_value(s->a, want, res.value);
        else
            why = same(yes, res.value)
                      ? NULL
                      : bh_str_fmt(s->a, "not true but %.*s", BH_SF(to_text(s->a, res.value))).p;
    }
    (void)bh_cel_program_free(p);
    return why;
}

/* A stated difference "compile error: 1:2: text" must be ours, too. */
static const char *check_difference(struct bh_cel_suite *s, const struct bh_jv *t,
                                    const struct bh_cel_env *e, struct bh_str what)
{
    struct bh_cel_program *p = NULL;
    struct bh_err err = {0};

    if (!bh_str_starts(what, BH_S("compile error: ")))
        return NULL;
    if (bh_cel_compile(e, bh_jv_get_str(t, "expr"), s->a, &p, NULL, &err) == 0) {
        (void)bh_cel_program_free(p);
        return "compiles, but upstream refuses it";
    }
    what = bh_str_sub(what, 15, what.n);
    if (!bh_str_starts(bh_s(err.msg), what))
        return bh_str_fmt(s->a, "%s", err.msg).p;
    return NULL;
}

/* The test in t, whose name is name: run, or skipped. */
static void run_test(struct bh_cel_suite *s, struct bh_str file, struct bh_str name,
                     const struct bh_jv *t)
{
    const struct bh_jv *about = bh_jv_get(s->index ? bh_jv_getc(s->index, "files") : NULL, file);
    const struct bh_jv *skip = bh_jv_getc(about, "protobuf"),
                       *diff = bh_jv_get(bh_jv_getc(about, "differs"), name);
    struct bh_str full = bh_str_fmt(s->a, "%.*s:%.*s", BH_SF(file), BH_SF(name)),
                  expr = bh_jv_get_str(t, "expr");
    struct bh_cel_value vars[VARS_MAX];
    struct bh_cel_env *e;
    size_t nvars = 0;
    char *x = bh_arena_memdup(s->a, full.p, full.n + 1);

    for (size_t i = 0; i < full.n; i++)
        if (x[i] == ' ')
            x[i] = '_';
    full.p = x;
    for (size_t k = 0; skip && k < skip->n_items; k++)
        if (bh_str_eq(skip->items[k].s, name)) {
            s->skipped++;
            return;
        }
    /* Kubernetes has no containers. */
    if (bh_jv_getc(t, "container")) {
        s->skipped++;
        return;
    }
    e = bh_cel_env_new(bh_str_starts(file, BH_S("bindings")) ? BH_CEL_ENV_BIND : 0);
    if (!bind_all(s, t, e, vars, &nvars))
        s->skipped++;
    else if (diff)
        report(s, full, expr, check_difference(s, t, e, diff->s));
    else
        report(s, full, expr, outcome(s, t, e, vars, nvars));
    (void)bh_cel_env_free(e);
}

static void run_sections(struct bh_cel_suite *s, struct bh_str file, const struct bh_jv *sections)
{
    struct bh_map seen = {0};

    for (size_t i = 0; i < sections->n_items; i++) {
        const struct bh_jv *tests = bh_jv_getc(&sections->items[i], "test");

        for (size_t k = 0; tests && k < tests->n_items; k++) {
            const struct bh_jv *t = &tests->items[k];
            struct bh_str name =
                bh_str_fmt(s->a, "%.*s/%.*s", BH_SF(bh_jv_get_str(&sections->items[i], "name")),
                           BH_SF(bh_jv_get_str(t, "name")));

            /* A few names come twice in a section. */
            if (bh_map_get(&seen, name))
                name = bh_str_fmt(s->a, "%.*s#2", BH_SF(name));
            (void)bh_map_put(&seen, name, s);
            run_test(s, file, name, t);
        }
    }
    bh_map_done(&seen);
}

/* ---- measured cases
 * ---------------------------------------------------------------------------------------------------
 */

static const char *case_result(struct bh_cel_suite *s, const struct bh_jv *t,
                               const struct bh_cel_program *p, const struct bh_cel_value *vars,
                               size_t nvars)
{
    struct bh_str error = bh_jv_get_str(t, "error"), type = bh_jv_get_str(t, "type"), got_type;
    const struct bh_jv *est = bh_jv_getc(t, "est_max");
    struct bh_cel_result res;
    struct bh_err err = {0};
    const char *why = NULL;
    int64_t cost;
    uint64_t want = 0;
    int r = bh_cel_eval(p, vars, nvars, s->a, 1000000, &res, &err);

    if (error.p) {
        if (r == 0)
            return bh_str_fmt(s->a, "no error but %.*s", BH_SF(to_text(s->a, res.value))).p;
        if (!bh_str_eqc(error, err.msg))
            return bh_str_fmt(s->a, "error '%s', not '%.*s'", err.msg, BH_SF(error)).p;
    } else if (r < 0) {
        return bh_str_fmt(s->a, "error: %s", err.msg).p;
    } else if (!bh_jv_getc(t, "result_omitted")) {
        why = wrong_value(s->a, bh_jv_getc(t, "result"), res.value);
    }
    if (why)
        return why;
    got_type = bh_cel_type_text(s->a, bh_cel_program_type(p));
    if (type.p && !bh_str_eq(type, got_type))
        return bh_str_fmt(s->a, "type %.*s, not %.*s", BH_SF(got_type), BH_SF(type)).p;
    if (bh_jv_get_i64(t, "cost", &cost) && cost != (int64_t)res.cost)
        return bh_str_fmt(s->a, "cost %llu, not %lld", (unsigned long long)res.cost,
                          (long long)cost)
            .p;
    for (size_t i = 0; est && i < est->s.n; i++)
        want = want * 10 + (uint64_t)(est->s.p[i] - '0');
    if (est && want != bh_cel_program_cost_max(p))
        return bh_str_fmt(s->a, "estimate %llu, not %llu",
                          (unsigned long long)bh_cel_program_cost_max(p), (unsigned long long)want)
            .p;
    return NULL;
}

static void run_case(struct bh_cel_suite *s, struct bh_str name, const struct bh_jv *t,
                     const struct bh_cel_env *e, const struct bh_cel_value *vars, size_t nvars)
{
    struct bh_str expr = bh_jv_get_str(t, "expr"), refused = bh_jv_get_str(t, "compile_error");
    struct bh_str program = bh_jv_get_str(t, "program_error"), got;
    struct bh_cel_program *p = NULL;
    struct bh_cel_issue issue = {0};
    const char *why = NULL;
    int r = bh_cel_compile(e, expr, s->a, &p, &issue, NULL);

    if (r < 0) {
        /* An issue without a position is printed at line -1. */
        got = issue.program ? issue.text
              : issue.line == 0
                  ? bh_str_fmt(s->a, "-1:0: %.*s", BH_SF(issue.text))
                  : bh_str_fmt(s->a, "%u:%u: %.*s", issue.line, issue.col, BH_SF(issue.text));
        /* The data keeps the first line of a message. */
        got = bh_str_sub(got, 0,
                         bh_str_chr(got, '\n', 0) < 0 ? got.n : (size_t)bh_str_chr(got, '\n', 0));
        if (!refused.p && !program.p)
            why = bh_str_fmt(s->a, "refused: %.*s", BH_SF(got)).p;
        else if (!bh_str_eq(got, refused.p ? refused : program))
            why = bh_str_fmt(s->a, "'%.*s', not '%.*s'", BH_SF(got),
                             BH_SF(refused.p ? refused : program))
                      .p;
        report(s, name, expr, why);
        return;
    }
    if (refused.p || program.p)
        why = "compiles, but upstream refuses it";
    else
        why = case_result(s, t, p, vars, nvars);
    (void)bh_cel_program_free(p);
    report(s, name, expr, why);
}

/* Declares "variables": {NAME: {"type": TEXT, "value": JSON}}. */
static struct bh_cel_env *case_env(struct bh_cel_suite *s, const struct bh_jv *vars, unsigned flags,
                                   struct bh_cel_value *values)
{
    struct bh_cel_env *e = bh_cel_env_new(flags);

    for (size_t i = 0; vars && i < vars->n_members && i < VARS_MAX; i++) {
        const struct bh_jv *v = &vars->members[i].v;
        const struct bh_cel_type *t =
            bh_cel_type_parse(bh_cel_env_arena(e), bh_jv_get_str(v, "type"));

        (void)bh_cel_env_var(e, vars->members[i].key, t ? t : bh_cel_type_dyn());
        values[i] = bh_cel_from_json(s->a, bh_jv_getc(v, "value"));
    }
    return e;
}

static void run_cases(struct bh_cel_suite *s, struct bh_str file, const struct bh_jv *doc,
                      const struct bh_jv *cases)
{
    const struct bh_jv *vars = bh_jv_getc(doc, "variables");
    struct bh_cel_value values[VARS_MAX];
    struct bh_cel_env *plain = case_env(s, vars, BH_CEL_ENV_MUTATION, values);
    struct bh_cel_env *bind = case_env(s, vars, BH_CEL_ENV_MUTATION | BH_CEL_ENV_BIND, values);
    size_t n = vars ? (vars->n_members < VARS_MAX ? vars->n_members : VARS_MAX) : 0;

    for (size_t i = 0; i < cases->n_items; i++) {
        const struct bh_jv *t = &cases->items[i];

        run_case(s, bh_str_fmt(s->a, "%.*s:%zu", BH_SF(file), i), t,
                 bh_str_eqc(bh_jv_get_str(t, "env"), "cel.bind") ? bind : plain, values, n);
    }
    (void)bh_cel_env_free(plain);
    (void)bh_cel_env_free(bind);
}

int bh_cel_suite_run(struct bh_cel_suite *s, struct bh_str name, struct bh_str text,
                     struct bh_err *err)
{
    struct bh_jv doc;
    const struct bh_jv *sections, *cases;
    int r = bh_jv_parse(s->a, bh_str_dup(s->a, text), NULL, &doc, err);

    if (r < 0)
        return bh_err_wrap(err, "%.*s", BH_SF(name));
    sections = bh_jv_getc(&doc, "section");
    cases = bh_jv_getc(&doc, "cases");
    if (sections && sections->kind == BH_JSON_ARR)
        run_sections(s, name, sections);
    if (cases && cases->kind == BH_JSON_ARR)
        run_cases(s, name, &doc, cases);
    return 0;
}
