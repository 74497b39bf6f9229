/* The library's contract: compiling, issues, budgets, views, sharing. What expressions mean is in
 * the conformance test. */
#include "cel/authz_env.h"
#include "cel/cel.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/test.h"
#include "data/json.h"

struct run {
    struct bh_arena *a;
    struct bh_cel_env *e;
    struct bh_cel_program *p;
    struct bh_cel_issue issue;
    struct bh_cel_result res;
    struct bh_err err;
    int r;
};

/* Compiles and evaluates with these values of the variables that e declares; e is freed by done().
 */
static void go(struct run *r, struct bh_cel_env *e, const char *src,
               const struct bh_cel_value *vars, size_t n, uint64_t limit)
{
    memset(r, 0, sizeof(*r));
    r->a = bh_arena_new(0);
    r->e = e;
    r->r = bh_cel_compile(e, bh_s(src), r->a, &r->p, &r->issue, &r->err);
    if (r->r == 0)
        r->r = bh_cel_eval(r->p, vars, n, r->a, limit, &r->res, &r->err);
}

static void done(struct run *r)
{
    r->p = bh_cel_program_free(r->p);
    r->e = bh_cel_env_free(r->e);
    r->a = bh_arena_free(r->a);
}

static void check_true(int line, const char *src)
{
    struct run r;

    go(&r, bh_cel_env_new(BH_CEL_ENV_BIND), src, NULL, 0, BH_CEL_COST_PER_CALL);
    if (r.r != 0 || r.res.value.kind != BH_CEL_BOOL || !r.res.value.b)
        bh_test_fail(__FILE__, line, "%s: %s", src, r.r ? r.err.msg : "not true");
    done(&r);
}
#define TRUE(src) check_true(__LINE__, src)

static void check_error(int line, const char *src, const char *want)
{
    struct run r;

    go(&r, bh_cel_env_new(BH_CEL_ENV_BIND), src, NULL, 0, BH_CEL_COST_PER_CALL);
    if (r.r == 0)
        bh_test_fail(__FILE__, line, "%s: no error", src);
    else
        bh_test_eq_str(__FILE__, line, src, bh_s(r.err.msg), bh_s(want));
    done(&r);
}
#define ERROR(src, want) check_error(__LINE__, src, want)

static void check_full(int line, const char *src, const char *want)
{
    struct run r;

    go(&r, bh_cel_env_new(0), src, NULL, 0, 1000);
    bh_test_eq_str(__FILE__, line, src, r.issue.full, bh_s(want));
    done(&r);
}
#define FULL(src, want) check_full(__LINE__, src, want)

BH_TEST(cel_issues_show_where)
{
    FULL("1 + 'a'",
         "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n"
         " | 1 + 'a'\n"
         " | ..^");
    /* Only the line at fault is shown; a tab prints as a blank. */
    FULL("true &&\n\t\tx", "ERROR: <input>:2:3: undeclared reference to 'x' (in container '')\n"
                           " |   x\n"
                           " | ..^");
    /* Full-width dots under what is not ASCII. */
    FULL("'\u00e9' + y", "ERROR: <input>:1:7: undeclared reference to 'y' (in container '')\n"
                         " | '\u00e9' + y\n"
                         " | .\uff0e....^");
    /* All of them, in order of position. */
    FULL("b + a", "ERROR: <input>:1:1: undeclared reference to 'b' (in container '')\n"
                  " | b + a\n"
                  " | ^\n"
                  "ERROR: <input>:1:5: undeclared reference to 'a' (in container '')\n"
                  " | b + a\n"
                  " | ....^");
}

BH_TEST(cel_depth_is_limited)
{
    BH_AUTO_BUF b = {.max = 1 << 20};
    struct run r;

    for (int i = 0; i < 100000; i++)
        bh_buf_addc(&b, '(');
    go(&r, bh_cel_env_new(0), bh_buf_cstr(&b), NULL, 0, 1000);
    BH_STREQ(bh_s(r.err.msg), "-1:0: expression recursion limit exceeded: 250");
    done(&r);
    bh_buf_clear(&b);
    bh_buf_addz(&b, "x");
    for (int i = 0; i < 45000; i++)
        bh_buf_addz(&b, ".y");
    go(&r, bh_cel_env_new(0), bh_buf_cstr(&b), NULL, 0, 1000);
    BH_STREQ(bh_s(r.err.msg), "-1:0: max recursion depth exceeded");
    done(&r);
    /* Chains of && are no depth. */
    bh_buf_clear(&b);
    bh_buf_addz(&b, "true");
    for (int i = 0; i < 12000; i++)
        bh_buf_addz(&b, " && true");
    go(&r, bh_cel_env_new(0), bh_buf_cstr(&b), NULL, 0, 1000);
    BH_EQ(r.r, 0);
    done(&r);
}

BH_TEST(cel_budget_ends_everything)
{
    struct run r;

    /* No operator absorbs a passed budget. */
    go(&r, bh_cel_env_new(0), "lists.range(100).all(x, x >= 0) || true", NULL, 0, 100);
    BH_EQ(r.r, -BH_E_LIMIT);
    BH_STREQ(bh_s(r.err.msg), "operation cancelled: actual cost limit exceeded");
    BH_CHECK(r.res.cost > 100);
    done(&r);
    go(&r, bh_cel_env_new(0), "lists.range(1000000000000).size() > 0", NULL, 0,
       BH_CEL_COST_PER_CALL);
    BH_EQ(r.r, -BH_E_LIMIT);
    done(&r);
    go(&r, bh_cel_env_new(0), "1 + 1 == 2", NULL, 0, 2);
    BH_EQ(r.r, 0);
    BH_EQ(r.res.cost, 2);
    done(&r);
}

/* "cel.bind(aN, X, ... )" where each level doubles what the level before holds. */
static void nested(struct bh_buf *b, int levels, const char *first, const char *fmt,
                   const char *end)
{
    bh_buf_addf(b, "cel.bind(a0, %s, ", first);
    for (int i = 1; i <= levels; i++) {
        bh_buf_addf(b, "cel.bind(a%d, ", i);
        for (const char *p = fmt; *p; p++) {
            if (*p == '$')
                bh_buf_addf(b, "a%d", i - 1);
            else
                bh_buf_addc(b, *p);
        }
        bh_buf_addz(b, ", ");
    }
    for (const char *p = end; *p; p++) {
        if (*p == '$')
            bh_buf_addf(b, "a%d", levels);
        else
            bh_buf_addc(b, *p);
    }
    for (int i = 0; i <= levels; i++)
        bh_buf_addc(b, ')');
}

BH_TEST(cel_shared_parts_do_not_explode)
{
    BH_AUTO_BUF b = {.max = 1 << 20};
    struct run r;

    /* Equality of two towers of shared lists. */
    nested(&b, 60, "[dyn(1)]", "[dyn($), dyn($)]", "$ == $");
    go(&r, bh_cel_env_new(BH_CEL_ENV_BIND), bh_buf_cstr(&b), NULL, 0, BH_CEL_COST_PER_CALL);
    BH_EQ(r.r, -BH_E_LIMIT);
    done(&r);
    /* A list doubled 60 times. */
    bh_buf_clear(&b);
    nested(&b, 60, "[1]", "$ + $", "size($) > 0");
    go(&r, bh_cel_env_new(BH_CEL_ENV_BIND), bh_buf_cstr(&b), NULL, 0, BH_CEL_COST_PER_CALL);
    BH_EQ(r.r, -BH_E_LIMIT);
    done(&r);
    /* A type that doubles. */
    bh_buf_clear(&b);
    nested(&b, 60, "1", "{$: $}", "$ == $");
    go(&r, bh_cel_env_new(BH_CEL_ENV_BIND), bh_buf_cstr(&b), NULL, 0, BH_CEL_COST_PER_CALL);
    BH_EQ(r.r, -BH_E_INVALID);
    done(&r);
    /* optMap evaluates its target twice. */
    bh_buf_clear(&b);
    bh_buf_addz(&b, "optional.of(1)");
    for (int i = 0; i < 100; i++)
        bh_buf_addz(&b, ".optMap(x, x + 1)");
    bh_buf_addz(&b, ".hasValue()");
    go(&r, bh_cel_env_new(0), bh_buf_cstr(&b), NULL, 0, BH_CEL_COST_PER_CALL);
    BH_EQ(r.r, -BH_E_LIMIT);
    done(&r);
}

BH_TEST(cel_variables)
{
    struct bh_cel_env *e = bh_cel_env_new(0);
    struct bh_cel_value vars[2];
    struct run r;

    BH_EQ(bh_cel_env_var(e, BH_S("request.path"), bh_cel_type_string()), 0);
    BH_EQ(bh_cel_env_var(e, BH_S("n"), bh_cel_type_int()), 1);
    vars[0] = bh_cel_str(BH_S("/api"));
    vars[1] = (struct bh_cel_value){.kind = BH_CEL_ERROR};
    go(&r, e, "request.path.startsWith('/')", vars, 2, 1000);
    BH_EQ(r.r, 0);
    BH_CHECK(bh_cel_program_uses(r.p, 0));
    BH_CHECK(!bh_cel_program_uses(r.p, 1));
    r.p = bh_cel_program_free(r.p);
    BH_EQ(bh_cel_compile(e, BH_S("n > 1"), r.a, &r.p, NULL, &r.err), 0);
    BH_EQ(bh_cel_eval(r.p, vars, 2, r.a, 1000, &r.res, &r.err), -BH_E_INVALID);
    BH_STREQ(bh_s(r.err.msg), "no such attribute(s): n");
    BH_EQ(r.res.line, 1);
    BH_EQ(r.res.col, 1);
    done(&r);
}

/* A map that computes its values, at a price. */
static bool lazy_get(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key,
                     struct bh_cel_value *ret)
{
    (void)m;
    if (!bh_str_eqc(bh_cel_as_str(key), "good")) {
        *ret = bh_cel_error(run, "composited variable \"%.*s\" fails to evaluate",
                            BH_SF(bh_cel_as_str(key)));
        return true;
    }
    bh_cel_run_charge(run, 100);
    *ret = bh_cel_int(7);
    return true;
}

BH_TEST(cel_lazy_maps_charge_and_fail)
{
    static const struct bh_cel_map_ops ops = {.get = lazy_get};
    static const struct bh_cel_map m = {.ops = &ops};
    struct bh_cel_value v = {.kind = BH_CEL_MAP, .map = &m};
    struct bh_cel_env *e = bh_cel_env_new(0);
    struct run r;

    (void)bh_cel_env_var(e, BH_S("variables"), bh_cel_type_dyn());
    go(&r, e, "variables.good == 7", &v, 1, 1000);
    BH_EQ(r.r, 0);
    BH_EQ(r.res.cost, 103);
    r.p = bh_cel_program_free(r.p);
    BH_EQ(bh_cel_compile(e, BH_S("variables.bad == 7 || true"), r.a, &r.p, NULL, &r.err), 0);
    BH_EQ(bh_cel_eval(r.p, &v, 1, r.a, 1000, &r.res, &r.err), 0);
    r.p = bh_cel_program_free(r.p);
    BH_EQ(bh_cel_compile(e, BH_S("variables.good == 7 || true"), r.a, &r.p, NULL, &r.err), 0);
    BH_EQ(bh_cel_eval(r.p, &v, 1, r.a, 50, &r.res, &r.err), -BH_E_LIMIT);
    done(&r);
}

BH_TEST(cel_json_is_a_view)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_cel_env *e = bh_cel_env_new(0);
    struct bh_cel_value v;
    struct bh_jv j;
    struct run r;

    BH_EQ(bh_jv_parse(a, BH_S("{\"a\":[1,2.5,\"x\",null,{\"b\":true}],\"n\":3.0}"), NULL, &j, NULL),
          0);
    v = bh_cel_from_json(a, &j);
    (void)bh_cel_env_var(e, BH_S("o"), bh_cel_type_dyn());
    go(&r, e,
       "o.a[0] == 1 && o.a[1] == 2.5 && o.a[3] == null && o.a[4].b && type(o.n) == double && "
       "o.a.size() == 5 && "
       "o == o && 'x' in o.a && o.a.exists(x, x == 'x') && o.map(k, k).size() == 2",
       &v, 1, 1000);
    BH_EQ(r.r, 0);
    BH_CHECK(r.res.value.b);
    done(&r);
    a = bh_arena_free(a);
}

BH_TEST(cel_results_as_json)
{
    BH_AUTO_BUF b = {.max = 4096};
    struct run r;

    go(&r, bh_cel_env_new(0),
       "{'a': [dyn(1), dyn(2u), dyn(1.5), dyn(b'x'), dyn(null), dyn(duration('90s')), "
       "dyn(quantity('1Gi')), dyn(int)]}",
       NULL, 0, 10000);
    BH_EQ(r.r, 0);
    BH_EQ(bh_cel_to_json(r.a, r.res.value, &b, NULL), 0);
    BH_STREQ(bh_buf_str(&b), "{\"a\":[1,2,1.5,\"eA==\",null,\"90s\",\"1Gi\",\"int\"]}");
    done(&r);
    go(&r, bh_cel_env_new(0), "1.0 / 0.0", NULL, 0, 10000);
    BH_CHECK(bh_cel_to_json(r.a, r.res.value, &b, NULL) < 0);
    done(&r);
}

BH_TEST(cel_time_zones)
{
    TRUE("timestamp('2024-06-01T00:00:00Z').getHours('Europe/Berlin') == 2");
    TRUE("timestamp('2024-01-01T00:00:00Z').getHours('Europe/Berlin') == 1");
    TRUE("timestamp('2050-07-01T12:00:00Z').getHours('America/New_York') == 8");
    TRUE("timestamp('2050-01-01T12:00:00Z').getHours('America/New_York') == 7");
    TRUE("timestamp('2050-01-01T12:00:00Z').getHours('Australia/Sydney') == 23");
    TRUE("timestamp('1900-01-01T00:00:00Z').getFullYear('Asia/Tokyo') == 1900");
    TRUE("timestamp('2024-01-01T00:00:00Z').getMinutes('Asia/Kolkata') == 30");
    ERROR("timestamp(0).getHours('../../etc/passwd')", "unknown time zone ../../etc/passwd");
    ERROR("timestamp(0).getHours('/etc/passwd')", "unknown time zone /etc/passwd");
}

BH_TEST(cel_errors_read_like_upstream)
{
    ERROR("1 / 0", "division by zero");
    ERROR("{'a': 1}.b", "no such key: b");
    ERROR("[1][dyn('a')]", "unsupported index type 'string' in list");
    ERROR("size(dyn(1)) == 1", "no such overload: size");
    ERROR("'a'.matches(['('][0])", "error parsing regexp: missing closing ): `(`");
    ERROR("'a'.matches('(')", "1:13: invalid matches argument");
    ERROR("has(1)", "1:5: invalid argument to has() macro");
}

BH_TEST(cel_dynamic_patterns_are_limited)
{
    struct run r;

    TRUE("['a', 'b'].all(x, 'ab'.matches(x))");
    go(&r, bh_cel_env_new(0), "lists.range(5000).exists(x, 'a'.matches(string(x)))", NULL, 0,
       UINT64_MAX);
    BH_EQ(r.r, -BH_E_LIMIT);
    done(&r);
}

BH_TEST(cel_types_are_parsed)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    static const char *const good[] = {"int", "list(int)", "map(string, list(dyn))",
                                       "optional_type(bool)"};
    static const char *const bad[] = {"",    "list",       "list(int", "map(int)",
                                      "foo", "list(int))", "int(int)"};

    for (size_t i = 0; i < BH_COUNT(good); i++) {
        const struct bh_cel_type *t = bh_cel_type_parse(a, bh_s(good[i]));

        BH_CHECK(t);
        if (t)
            BH_STREQ(bh_cel_type_text(a, t), good[i]);
    }
    for (size_t i = 0; i < BH_COUNT(bad); i++)
        BH_CHECK(!bh_cel_type_parse(a, bh_s(bad[i])));
}

#define THREADS 4

struct worker {
    const struct bh_cel_program *p;
    unsigned good;
};

static void *work(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < 500; i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_cel_value v = bh_cel_int(i);
        struct bh_cel_result res;

        if (bh_cel_eval(w->p, &v, 1, a, 100000, &res, NULL) == 0 && res.value.b)
            w->good++;
    }
    return NULL;
}

BH_TEST(cel_programs_are_shared_between_threads)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_cel_env *e = bh_cel_env_new(0);
    struct bh_cel_program *p = NULL;
    struct worker w[THREADS] = {0};
    pthread_t t[THREADS];

    (void)bh_cel_env_var(e, BH_S("n"), bh_cel_type_int());
    BH_EQ(
        bh_cel_compile(e,
                       BH_S("lists.range(20).map(x, x + n).filter(x, x % 2 == 0).all(x, x >= n) && "
                            "string(n).matches('^[0-9]+$') && n in lists.range(500) && "
                            "timestamp(n).getHours('Europe/Paris') >= 0"),
                       a, &p, NULL, NULL),
        0);
    e = bh_cel_env_free(e);
    for (size_t i = 0; i < THREADS; i++) {
        w[i].p = p;
        BH_EQ(pthread_create(&t[i], NULL, work, &w[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        (void)pthread_join(t[i], NULL);
        BH_EQ(w[i].good, 500);
    }
    p = bh_cel_program_free(p);
}

/* Allows reading deployments, and says what it was asked. */
static void authorize(void *arg, const struct bh_cel_authz_query *q, struct bh_arena *a,
                      struct bh_cel_authz_answer *ret)
{
    (*(unsigned *)arg)++;
    ret->allowed =
        bh_str_eqc(q->resource, "deployments") && bh_str_eqc(q->verb, "get") && !q->account_name.n;
    ret->reason =
        bh_str_fmt(a, "%.*s %.*s/%.*s/%.*s/%.*s %.*s", BH_SF(q->verb), BH_SF(q->group),
                   BH_SF(q->resource), BH_SF(q->ns), BH_SF(q->name), BH_SF(q->account_name));
    if (bh_str_eqc(q->path, "/broken"))
        ret->error = BH_S("out of order");
}

BH_TEST(cel_authorizer)
{
    static const struct {
        const char *src;
        int r;
        uint64_t cost;
    } cases[] = {
        {"authorizer.group('apps').resource('deployments').check('get').allowed()", 0, 350004},
        {"!authorizer.group('apps').resource('pods').check('get').allowed()", 0, 0},
        {"authorizer.requestResource.name('x').check('get').reason() == 'get apps/deployments/ns/x "
         "'",
         0, 0},
        {"authorizer.path('/broken').check('get').errored() && "
         "authorizer.path('/broken').check('get').error() == 'out of order'",
         0, 0},
        {"authorizer.serviceAccount('ns', "
         "'sa').group('').resource('pods').namespace('n').check('list').reason() == "
         "'list /pods/n/ sa'",
         0, 0},
        {"authorizer.path(' ').check('get').allowed()", -BH_E_INVALID, 0},
        {"authorizer.serviceAccount('NS', 'sa').path('/x').check('get').allowed()", -BH_E_INVALID,
         0},
        {"[1, 2, 3].all(x, authorizer.path('/x').check('get').reason() != '')", -BH_E_LIMIT, 0},
    };
    struct bh_cel_authz_query req = {
        .group = BH_S_INIT("apps"), .resource = BH_S_INIT("deployments"), .ns = BH_S_INIT("ns")};
    unsigned asked = 0;

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        struct bh_arena *a = bh_arena_new(0);
        struct bh_cel_env *e = bh_cel_env_new(0);
        struct bh_cel_value vars[2];
        struct run r;

        (void)bh_cel_env_var(e, BH_S("authorizer"), bh_cel_type_authorizer());
        (void)bh_cel_env_var(e, BH_S("authorizer.requestResource"), bh_cel_type_resource_check());
        vars[0] = bh_cel_authorizer(a, authorize, &asked);
        vars[1] = bh_cel_resource_check(a, authorize, &asked, &req);
        go(&r, e, cases[i].src, vars, 2, BH_CEL_COST_PER_CALL);
        if (r.r != cases[i].r || (r.r == 0 && !r.res.value.b) ||
            (cases[i].cost && r.res.cost != cases[i].cost))
            bh_test_fail(__FILE__, __LINE__, "%s: %d %s cost %llu", cases[i].src, r.r, r.err.msg,
                         (unsigned long long)r.res.cost);
        done(&r);
        a = bh_arena_free(a);
    }
    BH_CHECK(asked > 5);
}

BH_TEST(cel_includes)
{
    static const struct {
        const char *src;
        bool want;
    } cases[] = {
        {"[1, 2].includes(2)", true},
        {"[1, 2].includes('a')", false},
        {"'a'.includes('a')", true},
        {"dyn(5).includes(5.0)", true},
        {"lists.range(48).includes(47)", true},
    };
    struct run r;

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        go(&r, bh_cel_env_new(BH_CEL_ENV_INCLUDES), cases[i].src, NULL, 0, BH_CEL_COST_PER_CALL);
        if (r.r != 0 || r.res.value.b != cases[i].want)
            bh_test_fail(__FILE__, __LINE__, "%s: %s", cases[i].src, r.err.msg);
        done(&r);
    }
    go(&r, bh_cel_env_new(BH_CEL_ENV_INCLUDES), "lists.range(49).includes(100)", NULL, 0,
       BH_CEL_COST_PER_CALL);
    BH_STREQ(bh_s(r.err.msg),
             "'includes' function cannot be applied to lists longer than 48 values");
    done(&r);
    go(&r, bh_cel_env_new(0), "[1].includes(1)", NULL, 0, BH_CEL_COST_PER_CALL);
    BH_EQ(r.r, -BH_E_INVALID);
    done(&r);
}
