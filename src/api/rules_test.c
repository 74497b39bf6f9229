/* Defaults, validation, equality, copies, gates and paths on real kinds. */
#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "base/test.h"
#include "data/json.h"

#include <string.h>

static void *decode(struct bh_arena *a, const struct bh_type *t, const char *json)
{
    void *obj = bh_arena_alloc(a, t->size);
    struct bh_err err = {0};

    if (bh_msg_decode_json(t, bh_s(json), obj, a, NULL, &err) < 0)
        bh_test_fail(__FILE__, __LINE__, "%s: %s", json, err.msg);
    return obj;
}

static struct bh_str encode(struct bh_arena *a, const struct bh_type *t, const void *obj)
{
    BH_AUTO_BUF b = {0};

    bh_msg_encode_json(t, obj, &b);
    return bh_str_dup(a, bh_buf_str(&b));
}

/* A little schema of its own, so that the rules are tested whatever the real one says. */
struct inner {
    struct bh_str mode;
    int32_t n;
};
struct inner_vec {
    struct inner *p;
    size_t n;
};
struct outer {
    struct bh_str name;
    int32_t count;
    bool has_count;
    struct bh_str_vec words;
    struct inner one;
    struct inner_vec many;
    struct bh_str fixed;
};

static const char *even(struct bh_str s, struct bh_arena *a)
{
    (void)a;
    return s.n % 2 ? "must have an even length" : NULL;
}

static const struct bh_str modes[] = {BH_S_INIT("On"), BH_S_INIT("Off")};
static const struct bh_field inner_fields[] = {
    {.json = BH_S_INIT("mode"),
     .num = 1,
     .off = offsetof(struct inner, mode),
     .off_has = UINT32_MAX,
     .type = BH_T_STRING,
     .elem_size = sizeof(struct bh_str),
     .enums = modes,
     .n_enums = 2,
     .def = BH_S_INIT("\"On\"")},
    {.json = BH_S_INIT("n"),
     .num = 2,
     .off = offsetof(struct inner, n),
     .off_has = UINT32_MAX,
     .type = BH_T_INT32,
     .elem_size = 4,
     .flags = BH_F_HAS_MIN | BH_F_HAS_MAX,
     .min = 1,
     .max = 9,
     .def = BH_S_INIT("3")},
};
static const uint16_t inner_nums[] = {0, 1};
static const struct bh_type inner_type = {.name = BH_S_INIT("Inner"),
                                          .size = sizeof(struct inner),
                                          .flags = BH_M_HAS_DEFAULTS | BH_M_HAS_RULES,
                                          .fields = inner_fields,
                                          .n_fields = 2,
                                          .by_num = inner_nums,
                                          .n_by_num = 2};
static const struct bh_field outer_fields[] = {
    {.json = BH_S_INIT("name"),
     .off = offsetof(struct outer, name),
     .off_has = UINT32_MAX,
     .type = BH_T_STRING,
     .elem_size = sizeof(struct bh_str),
     .flags = BH_F_REQUIRED,
     .max_len = 5},
    {.json = BH_S_INIT("count"),
     .off = offsetof(struct outer, count),
     .off_has = offsetof(struct outer, has_count),
     .type = BH_T_INT32,
     .elem_size = 4,
     .flags = BH_F_PTR | BH_F_HAS_MIN,
     .min = 0,
     .def = BH_S_INIT("7")},
    {.json = BH_S_INIT("words"),
     .off = offsetof(struct outer, words),
     .off_has = UINT32_MAX,
     .type = BH_T_STRING,
     .shape = BH_LIST,
     .elem_size = sizeof(struct bh_str),
     .max_items = 2,
     .format_fn = even},
    {.json = BH_S_INIT("one"),
     .off = offsetof(struct outer, one),
     .off_has = UINT32_MAX,
     .type = BH_T_MESSAGE,
     .elem_size = sizeof(struct inner),
     .msg = &inner_type},
    {.json = BH_S_INIT("many"),
     .off = offsetof(struct outer, many),
     .off_has = UINT32_MAX,
     .type = BH_T_MESSAGE,
     .shape = BH_LIST,
     .elem_size = sizeof(struct inner),
     .msg = &inner_type},
    {.json = BH_S_INIT("fixed"),
     .off = offsetof(struct outer, fixed),
     .off_has = UINT32_MAX,
     .type = BH_T_STRING,
     .elem_size = sizeof(struct bh_str),
     .flags = BH_F_IMMUTABLE},
};
static const struct bh_type outer_type = {.name = BH_S_INIT("Outer"),
                                          .size = sizeof(struct outer),
                                          .flags = BH_M_HAS_DEFAULTS | BH_M_HAS_RULES,
                                          .fields = outer_fields,
                                          .n_fields = 6};

BH_TEST(defaults_fill_what_is_absent)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct inner many[2] = {{.n = 5}, {.mode = BH_S("Off")}};
    struct outer o = {.many = {many, 2}}, zero = {.has_count = true};

    bh_msg_default(&outer_type, &o, a);
    BH_CHECK(o.has_count && o.count == 7);
    BH_STREQ(o.one.mode, "On");
    BH_EQ(o.one.n, 3);
    BH_EQ(many[0].n, 5);
    BH_STREQ(many[0].mode, "On");
    BH_STREQ(many[1].mode, "Off");
    bh_msg_default(&outer_type, &zero, a); /* given as zero: stays */
    BH_EQ(zero.count, 0);
}

BH_TEST(validation_texts)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str words[3] = {BH_S("ab"), BH_S("abc"), BH_S("x")};
    struct inner many[2] = {{.mode = BH_S("On"), .n = 1}, {.mode = BH_S("Sometimes"), .n = 10}};
    struct outer o = {
        .count = -1, .has_count = true, .words = {words, 3}, .one = {.n = 0}, .many = {many, 2}};
    struct bh_field_errs errs = {.a = a};
    BH_AUTO_BUF msg = {0};
    static const char *const want[] = {
        "name: Required value",
        "count: Invalid value: -1: must be greater than or equal to 0",
        "words: Too many: 3: must have at most 2 items",
        "words[1]: Invalid value: \"abc\": must have an even length",
        "words[2]: Invalid value: \"x\": must have an even length",
        "one.n: Invalid value: 0: must be between 1 and 9, inclusive",
        "many[1].mode: Unsupported value: \"Sometimes\": supported values: \"On\", \"Off\"",
        "many[1].n: Invalid value: 10: must be between 1 and 9, inclusive",
    };

    bh_msg_validate(&outer_type, &o, NULL, &errs);
    BH_EQ(errs.n, BH_COUNT(want));
    for (size_t i = 0; i < errs.n && i < BH_COUNT(want); i++)
        BH_STREQ(bh_str_fmt(a, "%.*s: %.*s", BH_SF(errs.p[i].field), BH_SF(errs.p[i].body)),
                 want[i]);
    BH_STREQ(bh_s(bh_ferr_reason(errs.p[0].type)), "FieldValueRequired");
    o = (struct outer){.name = BH_S("toolong"), .one = {.n = 1}};
    errs = (struct bh_field_errs){.a = a};
    bh_msg_validate(&outer_type, &o, BH_FP(NULL, "spec"), &errs);
    bh_ferrs_message(&errs, &msg);
    BH_STREQ(bh_buf_str(&msg), "spec.name: Too long: may not be more than 5 bytes");
}

BH_TEST(immutable_fields)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct outer old = {.fixed = BH_S("a")}, now = {.fixed = BH_S("b")};
    struct bh_field_errs errs = {.a = a};

    bh_msg_validate_update(&outer_type, &now, &old, NULL, &errs);
    BH_EQ(errs.n, 1);
    BH_STREQ(errs.p[0].body, "Invalid value: \"b\": field is immutable");
    errs.n = 0;
    bh_msg_validate_update(&outer_type, &old, &old, NULL, &errs);
    BH_EQ(errs.n, 0);
}

BH_TEST(field_error_messages)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_field_errs errs = {.a = a};
    BH_AUTO_BUF msg = {0};

    bh_fe_duplicate(&errs, BH_FPI(BH_FP(NULL, "list"), 3), BH_S("x\n\"\x01\xff\xe2\x82\xac"));
    bh_fe_forbidden(&errs, BH_FPK(BH_FP(NULL, "map"), BH_S("k.y")), "not %s", "now");
    bh_fe_forbidden(&errs, BH_FPK(BH_FP(NULL, "map"), BH_S("k.y")), "not %s", "now");
    bh_fe_not_supported(&errs, BH_FP(NULL, "f"), BH_S(""), NULL, 0);
    bh_ferrs_message(&errs, &msg);
    BH_STREQ(bh_buf_str(&msg), "[list[3]: Duplicate value: \"x\\n\\\"\\x01\\xff\xe2\x82\xac\", "
                               "map[k.y]: Forbidden: not now, "
                               "f: Unsupported value: \"\"]");
    BH_EQ(errs.n, 4);
}

BH_TEST(equality_is_semantic)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct bh_type *t = &bh_core_v1_pod_spec_type;
    static const struct {
        const char *x, *y;
        bool same;
    } cases[] = {
        {"{}", "{\"nodeSelector\":{},\"tolerations\":[]}", true},
        {"{\"overhead\":{\"cpu\":\"1000m\"}}", "{\"overhead\":{\"cpu\":\"1\"}}", true},
        {"{\"overhead\":{\"cpu\":\"1\"}}", "{\"overhead\":{\"cpu\":\"2\"}}", false},
        {"{\"hostUsers\":false}", "{}", false},
        {"{\"hostUsers\":false}", "{\"hostUsers\":false}", true},
        {"{\"securityContext\":{}}", "{}", false},
        {"{\"nodeSelector\":{\"a\":\"1\"}}", "{\"nodeSelector\":{\"b\":\"1\"}}", false},
        {"{\"containers\":[{\"name\":\"a\"}]}",
         "{\"containers\":[{\"name\":\"a\",\"image\":\"i\"}]}", false},
    };

    for (size_t i = 0; i < BH_COUNT(cases); i++)
        if (bh_msg_equal(t, decode(a, t, cases[i].x), decode(a, t, cases[i].y)) != cases[i].same)
            bh_test_fail(__FILE__, __LINE__, "%s and %s", cases[i].x, cases[i].y);
}

BH_TEST(copies_share_nothing)
{
    BH_AUTO_ARENA from = bh_arena_new(0);
    BH_AUTO_ARENA to = bh_arena_new(0);
    const struct bh_type *t = &bh_core_v1_pod_type;
    struct bh_core_v1_pod *p =
        decode(from, t,
               "{\"metadata\":{\"name\":\"p\",\"labels\":{\"a\":\"b\"}},\"spec\":"
               "{\"containers\":[{\"name\":\"c\",\"ports\":[{\"containerPort\":1}]}]}}");
    struct bh_str before = encode(to, t, p);
    struct bh_core_v1_pod *copy = bh_msg_dup(t, p, to);

    bh_arena_reset(from); /* a copy that points there would be seen by the sanitizer */
    BH_SEQ(encode(to, t, copy), before);
}

BH_TEST(presence_is_kept)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct bh_type *t = &bh_core_v1_pod_spec_type;
    struct bh_core_v1_pod_spec
        *absent = decode(a, t, "{}"),
        *null = decode(a, t, "{\"tolerations\":null,\"hostUsers\":null,\"securityContext\":null}"),
        *empty = decode(a, t, "{\"tolerations\":[],\"hostUsers\":false,\"securityContext\":{}}");

    BH_CHECK(!absent->tolerations.p && !null->tolerations.p && empty->tolerations.p &&
             !empty->tolerations.n);
    BH_CHECK(!absent->has_host_users && !null->has_host_users && empty->has_host_users);
    BH_CHECK(!absent->security_context && !null->security_context && empty->security_context);
}

BH_TEST(empty_lists_are_forgotten)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct bh_type *t = &bh_core_v1_pod_spec_type;
    struct bh_core_v1_pod_spec *p = decode(
        a, t,
        "{\"tolerations\":[],\"containers\":[{\"name\":\"c\",\"args\":[]}],\"nodeSelector\":{}}");

    bh_msg_forget_empty(t, p);
    BH_CHECK(!p->tolerations.p && !p->node_selector.p && p->containers.n == 1);
    BH_CHECK(!p->containers.p[0].args.p);
}

BH_TEST(strict_paths)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct bh_kind *k = &bh_core_v1_pod_kind;
    struct bh_strict s = {0};
    struct bh_err err = {0};
    void *obj;

    BH_EQ(bh_kind_decode_json(k,
                              BH_S("{\"kind\":\"Pod\",\"kind\":\"Pod\",\"x\":1,\"metadata\":{"
                                   "\"labels\":{\"a.b\":\"1\","
                                   "\"a.b\":\"2\"}},\"spec\":{\"containers\":[{\"q\":{\"deep\":1}},"
                                   "{\"ports\":[{\"z\":0}]}],"
                                   "\"hostPID\":true,\"hostPID\":false},\"Spec\":{}}"),
                              a, &obj, &s, &err),
          0);
    BH_STREQ(
        bh_strict_join(&s, a),
        "duplicate field \"kind\", unknown field \"x\", duplicate field \"metadata.labels.a.b\", "
        "unknown field \"spec.containers[0].q\", unknown field \"spec.containers[1].ports[0].z\", "
        "duplicate field \"spec.hostPID\", unknown field \"Spec\"");
    const struct bh_core_v1_pod *p = obj;

    BH_STREQ(p->metadata.labels.p[0].value, "2"); /* the last one counts */
    BH_CHECK(!p->spec.host_pid);
}

BH_TEST(nesting_is_limited)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {0};
    struct bh_err err = {0};
    void *obj;

    bh_buf_addz(&b, "{\"x\":");
    for (int i = 0; i < 600; i++)
        bh_buf_addc(&b, '[');
    for (int i = 0; i < 600; i++)
        bh_buf_addc(&b, ']');
    bh_buf_addc(&b, '}');
    BH_CHECK(bh_kind_decode_json(&bh_core_v1_pod_kind, bh_buf_str(&b), a, &obj, NULL, &err) < 0);
}

BH_TEST(paths)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct bh_type *t = &bh_core_v1_pod_type;
    void *p = decode(a, t,
                     "{\"metadata\":{\"name\":\"p\",\"labels\":{\"a/"
                     "b.c\":\"v\"},\"creationTimestamp\":\"2026-01-02T03:04:05Z\"},"
                     "\"spec\":{\"nodeName\":\"n\",\"hostNetwork\":true,\"priority\":0,"
                     "\"containers\":[{\"name\":\"c\","
                     "\"livenessProbe\":{\"httpGet\":{\"port\":\"web\"}}}]},\"status\":{\"phase\":"
                     "\"Running\"}}");
    static const struct {
        const char *path, *want;
    } cases[] = {
        {"metadata.name", "p"},
        {".metadata.name", "p"},
        {"metadata.labels[a/b.c]", "v"},
        {"metadata.labels['a/b.c']", "v"},
        {"metadata.labels[none]", ""},
        {"metadata.creationTimestamp", "2026-01-02T03:04:05Z"},
        {"metadata.deletionTimestamp", ""},
        {"spec.nodeName", "n"},
        {"spec.hostNetwork", "true"},
        {"spec.hostPID", "false"},
        {"spec.priority", "0"},
        {"spec.preemptionPolicy", ""},
        {"spec.containers[0].name", "c"},
        {"spec.containers[1].name", ""},
        {"spec.containers[0].livenessProbe.httpGet.port", "web"}, /* through an inline message */
        {"spec.securityContext.runAsUser", ""},
        {"spec.none", ""},
        {"status.phase", "Running"},
    };

    for (size_t i = 0; i < BH_COUNT(cases); i++)
        BH_STREQ(bh_path_text(t, p, bh_s(cases[i].path), a), cases[i].want);
}

static bool all_but(void *arg, struct bh_str gate)
{
    return !bh_str_eqc(gate, arg);
}

BH_TEST(gated_fields_are_dropped)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct bh_type *t = &bh_core_v1_pod_spec_type;
    const char *with = "{\"containers\":[{\"name\":\"c\",\"restartPolicyRules\":[]}]}";
    struct bh_core_v1_pod_spec *p = decode(a, t, with), *kept = decode(a, t, with),
                               *old = decode(a, t, with);
    char gate[] = "ContainerRestartRules";

    bh_msg_drop_gated(t, p, NULL, all_but, gate);
    BH_CHECK(!p->containers.p[0].restart_policy_rules.p);
    bh_msg_drop_gated(t, kept, old, all_but, gate); /* in use already: stays */
    BH_CHECK(kept->containers.p[0].restart_policy_rules.p != NULL);
}

BH_TEST(registry_lookups)
{
    const struct bh_kind *pod = bh_kind_by_resource(BH_S(""), BH_S("v1"), BH_S("pods"));
    size_t n;
    const struct bh_kind *const *kinds = bh_kinds(&n);

    BH_CHECK(pod == &bh_core_v1_pod_kind);
    BH_CHECK(bh_kind_by_gvk(BH_S("apps"), BH_S("v1"), BH_S("Pod")) == NULL);
    BH_CHECK(bh_kind_by_resource(BH_S(""), BH_S("v1"), BH_S("")) == NULL);
    BH_CHECK(bh_kind_by_api_version(BH_S("apps/v1"), BH_S("DeleteOptions")) != NULL);
    BH_CHECK(bh_kind_sub(pod, BH_S("binding"))->body != NULL);
    for (size_t i = 0; i < n; i++) {
        BH_CHECK(bh_kind_by_api_version(kinds[i]->api_version, kinds[i]->kind) == kinds[i]);
        BH_CHECK(!kinds[i]->resource.n || bh_kind_by_resource(kinds[i]->group, kinds[i]->version,
                                                              kinds[i]->resource) == kinds[i]);
    }
}
