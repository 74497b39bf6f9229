/* Rules of custom resources. */
#include "cel/schema_env.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/test.h"
#include "data/json.h"

struct seen {
    struct bh_buf b; /* "path: detail\n" for each */
    struct bh_arena *a;
};

static void on_fault(void *arg, const struct bh_cel_schema_fault *f)
{
    struct seen *s = arg;

    bh_buf_addf(&s->b, "%.*s: %.*s\n", BH_SF(f->path), BH_SF(f->detail));
}

static void on_error(void *arg, const struct bh_cel_rule_error *e)
{
    struct seen *s = arg;

    bh_buf_addf(&s->b, "%.*s: %.*s%s\n", BH_SF(e->path), BH_SF(e->detail),
                e->ratcheted ? " (ratcheted)" : "");
}

static struct bh_jv json(struct bh_arena *a, const char *text)
{
    struct bh_jv v = BH_JV_NULL;
    struct bh_err err = {0};

    if (bh_jv_parse(a, bh_s(text), NULL, &v, &err) < 0)
        bh_test_fail(__FILE__, __LINE__, "%s: %s", text, err.msg);
    return v;
}

static void check(int line, const char *schema, const char *obj, const char *old, const char *want)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct seen s = {.b = {.max = 64 << 10}, .a = a};
    struct bh_jv sch = json(a, schema), o = obj ? json(a, obj) : BH_JV_NULL,
                 p = old ? json(a, old) : BH_JV_NULL;
    struct bh_cel_schema *c = bh_cel_schema_new(&sch, true, on_fault, &s);
    uint64_t budget = BH_CEL_OBJECT_BUDGET;

    if (c && obj)
        bh_cel_schema_validate(c, &o, old ? &p : NULL, a, &budget, on_error, &s);
    bh_test_eq_str(__FILE__, line, schema, bh_buf_str(&s.b), bh_s(want));
    bh_buf_done(&s.b);
    c = bh_cel_schema_free(c);
}
#define CHECK(schema, obj, old, want) check(__LINE__, schema, obj, old, want)

/* {"type":"object","properties":{"spec": X}} */
#define SPEC(x) "{\"type\":\"object\",\"properties\":{\"spec\":" x "}}"
#define RULE(r) "\"x-kubernetes-validations\":[{\"rule\":\"" r "\"}]"

BH_TEST(schema_rules_judge_values)
{
#define S                                                                                          \
    SPEC("{\"type\":\"object\"," RULE(                                                             \
        "self.min <= self.max") ",\"properties\":{\"min\":{\"type\":\"integer\"},\"max\":{"        \
                                "\"type\":\"integer\"}}}")
    CHECK(S, "{\"spec\":{\"min\":1,\"max\":2}}", NULL, "");
    CHECK(S, "{\"spec\":{\"min\":3,\"max\":2}}", NULL, "spec: failed rule: self.min <= self.max\n");
    CHECK(S, "{\"spec\":{\"min\":3}}", NULL,
          "spec: no such key: max evaluating rule: self.min <= self.max\n");
    CHECK(S, "{\"spec\":{\"min\":3,\"max\":2}}", "{\"spec\":{\"min\":3,\"max\":2}}",
          "spec: failed rule: self.min <= self.max (ratcheted)\n");
    CHECK(S, "{\"spec\":null}", NULL, "");
#undef S
}

BH_TEST(schema_values_follow_declared_types)
{
#define T(type, rule) "{\"type\":\"object\",\"properties\":{\"f\":" type "}," RULE(rule) "}"
    CHECK(T("{\"type\":\"number\"}", "self.f == 3.0"), "{\"f\":3}", NULL, "");
    CHECK(T("{\"type\":\"integer\",\"nullable\":true}", "!has(self.f)"), "{\"f\":null}", NULL, "");
    CHECK(T("{\"x-kubernetes-int-or-string\":true}",
            "type(self.f) == string ? self.f.endsWith('%') : self.f > 5"),
          "{\"f\":\"80%\"}", NULL, "");
    CHECK(T("{\"x-kubernetes-int-or-string\":true}", "self.f < 5"), "{\"f\":\"x\"}", NULL,
          ": 'no such overload': call arguments did not match a supported operator, function or "
          "macro signature for "
          "rule: self.f < 5\n");
    CHECK(T("{\"type\":\"string\",\"format\":\"date-time\"}", "self.f.getFullYear() == 2024"),
          "{\"f\":\"2024-01-01T00:00:00Z\"}", NULL, "");
    CHECK(T("{\"type\":\"string\",\"format\":\"duration\"}", "self.f == duration('72h')"),
          "{\"f\":\"3 days\"}", NULL, "");
    CHECK(T("{\"type\":\"string\",\"format\":\"byte\"}", "self.f == b'hi'"), "{\"f\":\"aGk=\"}",
          NULL, "");
    CHECK(T("{\"type\":\"array\",\"x-kubernetes-list-type\":\"set\",\"items\":{\"type\":"
            "\"integer\"}}",
            "self.f == [2,1] && self.f + [2,3] == [1,2,3]"),
          "{\"f\":[1,2]}", NULL, "");
    CHECK(T("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}",
            "self.f.all(k, self.f[k].size() > 0) && 'a' in self.f"),
          "{\"f\":{\"a\":\"x\"}}", NULL, "");
    CHECK("{\"type\":\"object\",\"properties\":{\"a-b\":{\"type\":\"integer\"},\"namespace\":{"
          "\"type\":\"integer\"}}," RULE("self.a__dash__b == 1 && self.__namespace__ == 2 && "
                                         "self.namespace == 2 && self.kind == 'K' && "
                                         "self.metadata.name == 'n'") "}",
          "{\"a-b\":1,\"namespace\":2,\"kind\":\"K\",\"metadata\":{\"name\":\"n\"}}", NULL, "");
#undef T
}

BH_TEST(schema_transition_rules)
{
#define S SPEC("{\"type\":\"string\"," RULE("self == oldSelf") "}")
    CHECK(S, "{\"spec\":\"a\"}", NULL, "");
    CHECK(S, "{\"spec\":\"a\"}", "{\"spec\":\"a\"}", "");
    CHECK(S, "{\"spec\":\"b\"}", "{\"spec\":\"a\"}", "spec: failed rule: self == oldSelf\n");
#undef S
#define S                                                                                          \
    SPEC("{\"type\":\"string\",\"x-kubernetes-validations\":[{\"rule\":\"oldSelf.hasValue() || "   \
         "self == 'x'\","                                                                          \
         "\"optionalOldSelf\":true,\"message\":\"must start as x\"}]}")
    CHECK(S, "{\"spec\":\"a\"}", NULL, "spec: must start as x\n");
    CHECK(S, "{\"spec\":\"a\"}", "{\"spec\":\"b\"}", "");
#undef S
    /* Elements of keyed lists are found by their keys. */
#define S                                                                                          \
    SPEC("{\"type\":\"array\",\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[" \
         "\"n\"],\"items\":{"                                                                      \
         "\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"string\"},\"v\":{\"type\":"        \
         "\"integer\"}}," RULE("self.v >= oldSelf.v") "}}")
    CHECK(S, "{\"spec\":[{\"n\":\"b\",\"v\":1},{\"n\":\"a\",\"v\":5}]}",
          "{\"spec\":[{\"n\":\"a\",\"v\":5},{\"n\":\"b\",\"v\":2}]}",
          "spec[0]: failed rule: self.v >= oldSelf.v\n");
#undef S
    CHECK(SPEC("{\"type\":\"array\",\"items\":{\"type\":\"string\"," RULE(
              "self == oldSelf") ",\"maxLength\":9},\"maxItems\":9}"),
          NULL, NULL,
          "properties[spec].items.x-kubernetes-validations[0].rule: oldSelf cannot be used on the "
          "uncorrelatable portion "
          "of the schema within properties[spec].items\n");
}

BH_TEST(schema_messages)
{
    CHECK(SPEC("{\"type\":\"integer\",\"x-kubernetes-validations\":[{\"rule\":\"self > "
               "5\",\"messageExpression\":"
               "\"self > 2 ? 'got too little' : 'got nothing'\",\"message\":\"m\"}]}"),
          "{\"spec\":3}", NULL, "spec: got too little\n");
    CHECK(SPEC("{\"type\":\"integer\",\"x-kubernetes-validations\":[{\"rule\":\"self > "
               "5\",\"messageExpression\":"
               "\"string(1 / (self - 3))\",\"message\":\"m\"}]}"),
          "{\"spec\":3}", NULL, "spec: m\n");
    CHECK(SPEC("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\",\"x-kubernetes-"
               "validations\":[{\"rule\":"
               "\"self > 5\"}]}}"),
          "{\"spec\":{\"a\":3}}", NULL, "spec[a]: failed rule: self > 5\n");
}

BH_TEST(schema_faults)
{
    CHECK(SPEC("{\"type\":\"integer\"," RULE("self + 1") "}"), NULL, NULL,
          "properties[spec].x-kubernetes-validations[0].rule: must evaluate to a bool\n");
    CHECK(SPEC("{\"type\":\"integer\"," RULE("self.x == 1") "}"), NULL, NULL,
          "properties[spec].x-kubernetes-validations[0].rule: compilation failed: ERROR: "
          "<input>:1:5: type 'int' does not "
          "support field selection\n | self.x == 1\n | ....^\n");
    CHECK(SPEC("{\"type\":\"integer\"," RULE("") "}"), NULL, NULL,
          "properties[spec].x-kubernetes-validations[0].rule: rule is not specified\n");
    /* A rule on elements of unbounded lists in unbounded lists costs too much; limits help. */
    CHECK(SPEC("{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}"
               "," RULE("self.all(x, self.all(y, x == y))") "}}"),
          NULL, NULL,
          "properties[spec].items.x-kubernetes-validations[0].rule: estimated rule cost exceeds "
          "budget by factor of more "
          "than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength "
          "where arrays, maps, and "
          "strings are declared)\n"
          ": x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema "
          "exceeds budget by factor of "
          "more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and "
          "maxLength where arrays, maps, "
          "and strings are declared)\n");
    CHECK(SPEC("{\"type\":\"array\",\"maxItems\":10,\"items\":{\"type\":\"array\",\"maxItems\":10,"
               "\"items\":{\"type\":"
               "\"string\",\"maxLength\":10}," RULE("self.all(x, self.all(y, x == y))") "}}"),
          NULL, NULL, "");
}

BH_TEST(schema_names_are_escaped)
{
    static const struct {
        const char *name, *want;
    } cases[] = {{"a-b", "a__dash__b"},
                 {"a__b", "a__underscores__b"},
                 {"x.y/z", "x__dot__y__slash__z"},
                 {"namespace", "__namespace__"},
                 {"___", "__underscores___"},
                 {"in", "__in__"},
                 {"plain", "plain"},
                 {"1a", NULL},
                 {"a$", NULL},
                 {"", NULL}};
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        struct bh_str s = bh_cel_escape(a, bh_s(cases[i].name));

        if (cases[i].want)
            BH_STREQ(s, cases[i].want);
        else
            BH_CHECK(!s.p);
    }
}

BH_TEST(schema_budget_ends_validation)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct seen s = {.b = {.max = 4096}, .a = a};
    struct bh_jv sch = json(a, SPEC("{\"type\":\"integer\"," RULE("self > 0") "}")),
                 o = json(a, "{\"spec\":1}");
    struct bh_cel_schema *c = bh_cel_schema_new(&sch, true, on_fault, &s);
    uint64_t budget = 1;

    bh_cel_schema_validate(c, &o, NULL, a, &budget, on_error, &s);
    BH_STREQ(
        bh_buf_str(&s.b),
        "spec: validation failed due to running out of cost budget, no further validation rules "
        "will be run\n");
    bh_buf_done(&s.b);
    c = bh_cel_schema_free(c);
}
