/* Admission expressions: what may be said, and composed variables. */
#include "cel/admission_env.h"

#include "base/arena.h"
#include "base/test.h"
#include "data/json.h"

static const char deployment[] =
    "{\"spec\":{\"replicas\":3,\"name\":\"web\"},\"metadata\":{\"labels\":{\"team\":\"x\"}}}";
static const char request[] = "{\"operation\":\"CREATE\",\"name\":\"web\",\"dryRun\":false,"
                              "\"userInfo\":{\"username\":\"u\"}}";

struct fix {
    struct bh_arena *a;
    struct bh_cel_admission *s;
    struct bh_jv obj, req;
    struct bh_cel_value *vars;
};

static void setup(struct fix *f, unsigned flags)
{
    struct bh_err err;

    f->a = bh_arena_new(0);
    f->s = bh_cel_admission_new(flags);
    BH_EQ(bh_jv_parse(f->a, bh_s(deployment), NULL, &f->obj, &err), 0);
    BH_EQ(bh_jv_parse(f->a, bh_s(request), NULL, &f->req, &err), 0);
}

static void bind(struct fix *f)
{
    struct bh_cel_admission_in in = {.object = &f->obj,
                                     .request = &f->req,
                                     .authorizer = {.kind = BH_CEL_ERROR},
                                     .request_resource = {.kind = BH_CEL_ERROR}};

    f->vars = bh_cel_admission_vars(f->s, &in, f->a);
}

static void done(struct fix *f)
{
    f->s = bh_cel_admission_free(f->s);
    f->a = bh_arena_free(f->a);
}

/* 1 true, 0 false, else the error, whose text is compared. *cost may be NULL. */
static void expect(int line, struct fix *f, const char *src, int want, const char *text,
                   uint64_t *cost)
{
    struct bh_cel_program *p = NULL;
    struct bh_cel_result res = {0};
    struct bh_err err = {0};
    int r = bh_cel_compile(bh_cel_admission_env(f->s), bh_s(src), f->a, &p, NULL, &err);

    if (r == 0)
        r = bh_cel_eval(p, f->vars, BH_CEL_SLOTS, f->a, BH_CEL_COST_PER_CALL, &res, &err);
    if (r == 0)
        r = res.value.kind == BH_CEL_BOOL && res.value.b;
    if (r != want)
        bh_test_fail(__FILE__, line, "%s: %d %s", src, r, err.msg);
    if (text)
        bh_test_eq_str(__FILE__, line, src, bh_s(err.msg), bh_s(text));
    if (cost)
        *cost = res.cost;
    (void)bh_cel_program_free(p);
}

BH_TEST(admission_declares_what_policies_see)
{
    struct fix f;

    setup(&f, 0);
    bind(&f);
    expect(__LINE__, &f,
           "object.spec.replicas <= 5 && oldObject == null && namespaceObject == null", 1, NULL,
           NULL);
    expect(__LINE__, &f,
           "request.operation == 'CREATE' && !has(request.subResource) && !request.dryRun", 1, NULL,
           NULL);
    expect(__LINE__, &f, "request.subResource == ''", -BH_E_INVALID, "no such key: subResource",
           NULL);
    expect(__LINE__, &f, "request.object == null", -BH_E_INVALID, "1:8: undefined field 'object'",
           NULL);
    expect(__LINE__, &f, "params == null", -BH_E_INVALID,
           "1:1: undeclared reference to 'params' (in container '')", NULL);
    expect(__LINE__, &f, "authorizer.path('/x').check('get').allowed()", -BH_E_INVALID,
           "1:1: undeclared reference to 'authorizer' (in container '')", NULL);
    done(&f);
    setup(&f, BH_CEL_ADMISSION_PARAMS | BH_CEL_ADMISSION_AUTHORIZER);
    bind(&f);
    expect(__LINE__, &f, "params == null", 1, NULL, NULL);
    expect(__LINE__, &f, "object.spec.replicas <= params.max", -BH_E_INVALID, "no such key: max",
           NULL);
    /* Declared, but not bound: audit annotations. */
    expect(__LINE__, &f, "authorizer.requestResource.check('get').allowed()", -BH_E_INVALID,
           "no such attribute(s): authorizer.requestResource", NULL);
    done(&f);
}

BH_TEST(admission_variables_are_lazy_and_remembered)
{
    struct bh_cel_issue issue;
    uint64_t first, second;
    struct fix f;

    setup(&f, BH_CEL_ADMISSION_VARIABLES);
    BH_EQ(bh_cel_admission_variable(f.s, BH_S("n"), BH_S("object.spec.replicas * 2"), f.a, NULL,
                                    NULL),
          0);
    BH_EQ(bh_cel_admission_variable(f.s, BH_S("big"), BH_S("variables.n > 5"), f.a, NULL, NULL), 0);
    BH_EQ(
        bh_cel_admission_variable(f.s, BH_S("bad"), BH_S("1 / (variables.n - 6)"), f.a, NULL, NULL),
        0);
    BH_CHECK(bh_cel_admission_variable(f.s, BH_S("odd"), BH_S("variables.later"), f.a, &issue,
                                       NULL) < 0);
    BH_STREQ(issue.text, "undefined field 'later'");
    bind(&f);
    expect(__LINE__, &f, "variables.big", 1, NULL, &first);
    expect(__LINE__, &f, "variables.big", 1, NULL, &second);
    BH_CHECK(first > second);
    BH_EQ(second, 2);
    expect(__LINE__, &f, "variables.bad == 1 || true", 1, NULL, NULL);
    expect(__LINE__, &f, "variables.bad == 1", -BH_E_INVALID,
           "composited variable \"bad\" fails to evaluate: division by zero", NULL);
    expect(__LINE__, &f, "variables.odd == 1", -BH_E_INVALID,
           "composited variable \"odd\" fails to compile: ERROR: <input>:1:10: undefined field "
           "'later'\n"
           " | variables.later\n"
           " | .........^",
           NULL);
    expect(__LINE__, &f, "variables.big == 1", -BH_E_INVALID,
           "1:15: found no matching overload for '_==_' applied to '(bool, int)'", NULL);
    expect(__LINE__, &f, "variables.none == 1", -BH_E_INVALID, "1:10: undefined field 'none'",
           NULL);
    done(&f);
}

BH_TEST(admission_variables_nest_within_limits)
{
    struct fix f;

    setup(&f, BH_CEL_ADMISSION_VARIABLES);
    BH_EQ(bh_cel_admission_variable(f.s, BH_S("v0"), BH_S("1"), f.a, NULL, NULL), 0);
    for (int i = 1; i < 1000; i++)
        BH_EQ(bh_cel_admission_variable(f.s, bh_str_fmt(f.a, "v%d", i),
                                        bh_str_fmt(f.a, "variables.v%d + 1", i - 1), f.a, NULL,
                                        NULL),
              0);
    bind(&f);
    expect(__LINE__, &f, "variables.v100 == 101", 1, NULL, NULL);
    expect(__LINE__, &f, "variables.v999 == 1000", -BH_E_INVALID, NULL, NULL);
    done(&f);
}

BH_TEST(admission_mutations)
{
    struct fix f;

    setup(&f, BH_CEL_ADMISSION_MUTATION);
    bind(&f);
    expect(__LINE__, &f,
           "Object{spec: Object.spec{replicas: object.spec.replicas + 1}} == Object{spec: "
           "Object.spec{replicas: 4}}",
           1, NULL, NULL);
    expect(__LINE__, &f,
           "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: "
           "'c'}].size() == 1",
           1, NULL, NULL);
    done(&f);
}
