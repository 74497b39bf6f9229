/* Patches: tables of document, patch, result. */
#include "api/patch.h"
#include "base/test.h"
#include "data/json.h"

struct patch_case {
    const char *doc, *patch;
    const char *want; /* NULL: an error */
    int code;         /* of the error */
};

typedef int (*patch_fn)(struct bh_str doc, struct bh_str patch, struct bh_arena *a,
                        struct bh_buf *out, struct bh_strict *strict, struct bh_err *err);

static bool same(struct bh_arena *a, struct bh_str got, const char *want)
{
    struct bh_jv x, y;

    return bh_jv_parse(a, got, NULL, &x, NULL) == 0 &&
           bh_jv_parse(a, bh_s(want), NULL, &y, NULL) == 0 && bh_jv_eq(&x, &y);
}

static void run(const struct patch_case *c, size_t n, patch_fn fn)
{
    for (size_t i = 0; i < n; i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        BH_AUTO_BUF out = {0};
        struct bh_err err = {0};
        int rc = fn(bh_s(c[i].doc), bh_s(c[i].patch), a, &out, NULL, &err);

        if (!c[i].want ? rc != -c[i].code : rc < 0 || !same(a, bh_buf_str(&out), c[i].want))
            bh_test_fail(__FILE__, __LINE__, "%s with %s: got %d %.*s %s, want %s", c[i].doc,
                         c[i].patch, rc, BH_SF(bh_buf_str(&out)), err.msg,
                         c[i].want ? c[i].want : "an error");
    }
}

/* The examples of RFC 7386, and upstream's habit of pruning nulls in what is new. */
BH_TEST(merge_patch_table)
{
    static const struct patch_case cases[] = {
        {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}", 0},
        {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}", 0},
        {"{\"a\":\"b\"}", "{\"a\":null}", "{}", 0},
        {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}", 0},
        {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}", 0},
        {"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}", 0},
        {"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}", 0},
        {"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}", 0},
        {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}", 0},
        {"{}", "{\"a\":{\"x\":null,\"y\":1}}", "{\"a\":{\"y\":1}}", 0},
        {"{\"data\":{\"k\":\"v\"}}", "{\"data\":{}}", "{\"data\":{\"k\":\"v\"}}", 0},
        {"{}", "[]", NULL, BH_E_BAD_REQUEST},
        {"{}", "null", NULL, BH_E_BAD_REQUEST},
        {"{}", "{\"a\":", NULL, BH_E_BAD_REQUEST},
        {"{}", "", NULL, BH_E_BAD_REQUEST},
    };

    run(cases, BH_COUNT(cases), bh_patch_merge);
}

/* RFC 6902, with what was recorded of upstream where it differs. */
BH_TEST(json_patch_table)
{
#define L "{\"l\":[\"a\",\"b\",\"c\"],\"m\":{\"x\":1}}"
    static const struct patch_case cases[] = {
        {L, "[{\"op\":\"add\",\"path\":\"/l/1\",\"value\":\"n\"}]",
         "{\"l\":[\"a\",\"n\",\"b\",\"c\"],\"m\":{\"x\":1}}", 0},
        {L, "[{\"op\":\"add\",\"path\":\"/l/-\",\"value\":\"n\"}]",
         "{\"l\":[\"a\",\"b\",\"c\",\"n\"],\"m\":{\"x\":1}}", 0},
        {L, "[{\"op\":\"add\",\"path\":\"/l/-1\",\"value\":\"n\"}]",
         "{\"l\":[\"a\",\"b\",\"c\",\"n\"],\"m\":{\"x\":1}}", 0},
        {L, "[{\"op\":\"add\",\"path\":\"/l/01\",\"value\":\"n\"}]",
         "{\"l\":[\"a\",\"n\",\"b\",\"c\"],\"m\":{\"x\":1}}", 0},
        {L, "[{\"op\":\"add\",\"path\":\"/l/4\",\"value\":\"n\"}]", NULL, BH_E_INVALID},
        {L, "[{\"op\":\"add\",\"path\":\"/none/x\",\"value\":1}]", NULL, BH_E_INVALID},
        {L, "[{\"op\":\"remove\",\"path\":\"/l/0\"},{\"op\":\"remove\",\"path\":\"/m/x\"}]",
         "{\"l\":[\"b\",\"c\"],\"m\":{}}", 0},
        {L, "[{\"op\":\"remove\",\"path\":\"/m/y\"}]", NULL, BH_E_INVALID},
        {L, "[{\"op\":\"remove\",\"path\":\"\"}]", NULL, BH_E_INVALID},
        {L, "[{\"op\":\"replace\",\"path\":\"/m/y\",\"value\":2}]",
         "{\"l\":[\"a\",\"b\",\"c\"],\"m\":{\"x\":1,\"y\":2}}", 0},
        {L, "[{\"op\":\"replace\",\"path\":\"/l/3\",\"value\":2}]", NULL, BH_E_INVALID},
        {L, "[{\"op\":\"replace\",\"path\":\"\",\"value\":{\"z\":1}}]", "{\"z\":1}", 0},
        {L, "[{\"op\":\"move\",\"from\":\"/m/x\",\"path\":\"/m/y\"}]",
         "{\"l\":[\"a\",\"b\",\"c\"],\"m\":{\"y\":1}}", 0},
        {L, "[{\"op\":\"move\",\"from\":\"/m\",\"path\":\"/m/z\"}]", NULL, BH_E_INVALID},
        {L,
         "[{\"op\":\"copy\",\"from\":\"/l\",\"path\":\"/m/l\"},{\"op\":\"remove\",\"path\":\"/l/"
         "0\"}]",
         "{\"l\":[\"b\",\"c\"],\"m\":{\"x\":1,\"l\":[\"a\",\"b\",\"c\"]}}", 0},
        {L, "[{\"op\":\"copy\",\"from\":\"/m/none\",\"path\":\"/m/n\"}]",
         "{\"l\":[\"a\",\"b\",\"c\"],\"m\":{\"x\":1,\"n\":null}}", 0},
        {L, "[{\"op\":\"copy\",\"path\":\"/m/n\"}]", NULL, BH_E_INVALID},
        {L, "[{\"op\":\"test\",\"path\":\"/m/x\",\"value\":1}]", L, 0},
        {L, "[{\"op\":\"test\",\"path\":\"/m/none\",\"value\":null}]", L, 0},
        {L, "[{\"op\":\"test\",\"path\":\"/m/x\",\"value\":1.0}]", NULL, BH_E_INVALID},
        {L, "[{\"op\":\"ADD\",\"path\":\"/m/x\",\"value\":1}]", NULL, BH_E_INVALID},
        {L, "[{\"op\":\"add\",\"value\":1}]", NULL, BH_E_INVALID},
        {L, "[{\"op\":\"add\",\"path\":5}]", NULL, BH_E_BAD_REQUEST},
        {"{\"a/b\":1,\"c~d\":2}",
         "[{\"op\":\"remove\",\"path\":\"/a~1b\"},{\"op\":\"remove\",\"path\":\"/c~0d\"}]", "{}",
         0},
        {L, "null", L, 0},
        {L, "{}", NULL, BH_E_BAD_REQUEST},
        {L, "[1]", NULL, BH_E_BAD_REQUEST},
    };
#undef L

    run(cases, BH_COUNT(cases), bh_patch_json);
}

/* A copy that doubles the document each time must not fill the memory. */
BH_TEST(json_patch_copies_are_limited)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF patch = {0}, out = {0};
    struct bh_err err = {0};

    bh_buf_addc(&patch, '[');
    for (int i = 0; i < 60; i++)
        bh_buf_addf(&patch, "%s{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/a/x%d\"}", i ? "," : "",
                    i);
    bh_buf_addc(&patch, ']');
    BH_EQ(bh_patch_json(BH_S("{\"a\":{\"k\":\"0123456789\"}}"), bh_buf_str(&patch), a, &out, NULL,
                        &err),
          -BH_E_INVALID);
}

static int strategic(struct bh_str doc, struct bh_str patch, struct bh_arena *a, struct bh_buf *out,
                     struct bh_strict *strict, struct bh_err *err)
{
    const struct bh_kind *k = bh_kind_by_api_version(BH_S("v1"), BH_S("Pod"));

    return bh_patch_strategic(k->type, doc, patch, a, out, strict, err);
}

BH_TEST(strategic_patch_table)
{
#define C                                                                                          \
    "{\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"1\"},{\"name\":\"b\",\"image\":\"2\"}" \
    "]}}"
#define F "{\"metadata\":{\"finalizers\":[\"f1\",\"f2\",\"f3\"]}}"
#define V "{\"spec\":{\"volumes\":[{\"name\":\"v\",\"emptyDir\":{}}]}}"
    static const struct patch_case cases[] = {
        /* merged by name, the new one in front */
        {C, "{\"spec\":{\"containers\":[{\"name\":\"b\",\"image\":\"9\"}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"1\"},{\"name\":\"b\",\"image\":"
         "\"9\"}]}}",
         0},
        {C, "{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"3\"}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"3\"},{\"name\":\"a\",\"image\":"
         "\"1\"},{\"name\":\"b\",\"image\":\"2\"}]}}",
         0},
        {C, "{\"spec\":{\"containers\":[{\"name\":\"a\",\"$patch\":\"delete\"}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"b\",\"image\":\"2\"}]}}", 0},
        {C, "{\"spec\":{\"containers\":[{\"$patch\":\"replace\"},{\"name\":\"z\"}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"z\"}]}}", 0},
        {C, "{\"spec\":{\"$setElementOrder/containers\":[{\"name\":\"b\"},{\"name\":\"a\"}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"b\",\"image\":\"2\"},{\"name\":\"a\",\"image\":"
         "\"1\"}]}}",
         0},
        {C,
         "{\"spec\":{\"$setElementOrder/"
         "containers\":[{\"name\":\"b\"},{\"name\":\"c\"},{\"name\":\"a\"}],\"containers\":[{"
         "\"name\":\"c\"}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"b\",\"image\":\"2\"},{\"name\":\"c\"},{\"name\":"
         "\"a\",\"image\":\"1\"}]}}",
         0},
        {C, "{\"spec\":{\"containers\":[{\"image\":\"9\"}]}}", NULL, BH_E_INTERNAL},
        {C, "{\"spec\":{\"containers\":[{\"name\":\"a\",\"$patch\":\"merge\"}]}}", NULL,
         BH_E_INTERNAL},
        {C, "{\"spec\":{\"containers\":[{\"name\":\"a\",\"$patch\":\"paint\"}]}}", NULL,
         BH_E_INTERNAL},
        {C, "{\"spec\":{\"$patch\":\"paint\"}}", NULL, BH_E_INTERNAL},
        {C,
         "{\"spec\":{\"$setElementOrder/"
         "containers\":[{\"name\":\"b\"}],\"containers\":[{\"name\":\"c\"}]}}",
         NULL, BH_E_INTERNAL},
        {C, "{\"spec\":{\"$deleteFromPrimitiveList/containers\":[\"a\"]}}", NULL, BH_E_INTERNAL},
        /* a map: null removes, a directive replaces or empties it */
        {"{\"spec\":{\"nodeSelector\":{\"a\":\"1\",\"b\":\"2\"}}}",
         "{\"spec\":{\"nodeSelector\":{\"a\":null,\"c\":\"3\"}}}",
         "{\"spec\":{\"nodeSelector\":{\"b\":\"2\",\"c\":\"3\"}}}", 0},
        {"{\"spec\":{\"nodeSelector\":{\"a\":\"1\"}}}",
         "{\"spec\":{\"nodeSelector\":{\"$patch\":\"replace\",\"c\":\"3\"}}}",
         "{\"spec\":{\"nodeSelector\":{\"c\":\"3\"}}}", 0},
        {"{\"spec\":{\"nodeSelector\":{\"a\":\"1\"}}}",
         "{\"spec\":{\"nodeSelector\":{\"$patch\":\"delete\"}}}",
         "{\"spec\":{\"nodeSelector\":{}}}", 0},
        /* scalars merge as a set, in the order of both */
        {F, "{\"metadata\":{\"finalizers\":[\"f2\",\"f9\"]}}",
         "{\"metadata\":{\"finalizers\":[\"f1\",\"f2\",\"f9\",\"f3\"]}}", 0},
        {F, "{\"metadata\":{\"$setElementOrder/finalizers\":[\"f3\",\"f1\",\"f2\"]}}",
         "{\"metadata\":{\"finalizers\":[\"f3\",\"f1\",\"f2\"]}}", 0},
        {F, "{\"metadata\":{\"$deleteFromPrimitiveList/finalizers\":[\"f2\"]}}",
         "{\"metadata\":{\"finalizers\":[\"f1\",\"f3\"]}}", 0},
        {F, "{\"metadata\":{\"$deleteFromPrimitiveList/finalizers\":\"f2\"}}", F, 0},
        {F, "{\"metadata\":{\"$deleteFromPrimitiveList/ownerReferences\":[\"x\"]}}", F, 0},
        /* retainKeys */
        {V,
         "{\"spec\":{\"volumes\":[{\"$retainKeys\":[\"name\",\"configMap\"],\"name\":\"v\","
         "\"configMap\":{\"name\":\"c\"}}]}}",
         "{\"spec\":{\"volumes\":[{\"name\":\"v\",\"configMap\":{\"name\":\"c\"}}]}}", 0},
        {V,
         "{\"spec\":{\"volumes\":[{\"$retainKeys\":[\"name\"],\"name\":\"v\",\"configMap\":{}}]}}",
         NULL, BH_E_BAD_REQUEST},
        {V, "{\"spec\":{\"volumes\":[{\"$retainKeys\":5,\"name\":\"v\"}]}}", NULL,
         BH_E_BAD_REQUEST},
        /* a list without merge key is replaced; numbers are read as upstream's reflection does */
        {"{\"spec\":{\"tolerations\":[{\"key\":\"a\"}]}}",
         "{\"spec\":{\"tolerations\":[{\"key\":\"b\"}]}}",
         "{\"spec\":{\"tolerations\":[{\"key\":\"b\"}]}}", 0},
        {"{}", "{\"spec\":{\"priority\":2.0,\"activeDeadlineSeconds\":1e1}}",
         "{\"spec\":{\"priority\":2,\"activeDeadlineSeconds\":10}}", 0},
        {"{}", "{\"spec\":{\"priority\":4294967297}}", "{\"spec\":{\"priority\":1}}", 0},
        {"{}", "{}", "{}", 0},
        {"{}", "[]", NULL, BH_E_BAD_REQUEST},
        /* nothing of a directive stays in what is new */
        {"{}",
         "{\"spec\":{\"containers\":[{\"name\":\"a\",\"$patch\":\"delete\"},{\"name\":\"b\","
         "\"env\":null}],\"$retainKeys\":[\"containers\"]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"b\"}]}}", 0},
    };
#undef C
#undef F
#undef V

    run(cases, BH_COUNT(cases), strategic);
}

/* Errors of strategic patches, as recorded. */
BH_TEST(strategic_patch_errors)
{
    static const struct {
        const char *doc, *patch, *want;
        int code;
    } cases[] = {
        {"{\"spec\":{\"containers\":[{\"name\":\"a\"}]}}",
         "{\"spec\":{\"containers\":[{\"image\":\"registry.test/side:2\"}]}}",
         "map: map[image:registry.test/side:2] does not contain declared merge key: name",
         BH_E_INTERNAL},
        {"{\"spec\":{\"containers\":[{\"name\":\"main\"}]}}",
         "{\"spec\":{\"$setElementOrder/"
         "containers\":[{\"name\":\"main\"}],\"containers\":[{\"name\":\"side\",\"image\":\"i\"}]}"
         "}",
         "The order in patch list:\n[map[image:i name:side]]\n doesn't match $setElementOrder "
         "list:\n[map[name:main]]\n",
         BH_E_INTERNAL},
        {"{\"spec\":{\"containers\":[{\"name\":\"a\",\"args\":[\"x\",\"y\"],\"resources\":{}}]}}",
         "{\"spec\":{\"containers\":[\"main\"]}}",
         "list element types are not identical: [[map[args:[x y] name:a resources:map[]]] [main]]",
         BH_E_INTERNAL},
        {"{}", "{\"spec\":{\"nodeSelector\":[\"x\"]}}", "cannot restore map from slice",
         BH_E_INVALID},
        {"{}", "{\"spec\":{\"containers\":{\"name\":\"x\"}}}", "cannot restore slice from map",
         BH_E_INVALID},
        {"{}", "{\"metadata\":{\"labels\":{\"k\":1}}}", "cannot convert int64 to string",
         BH_E_INVALID},
    };

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        BH_AUTO_BUF out = {0};
        struct bh_err err = {0};

        BH_EQ(strategic(bh_s(cases[i].doc), bh_s(cases[i].patch), a, &out, NULL, &err),
              -cases[i].code);
        BH_STREQ(bh_s(err.msg), cases[i].want);
    }
}

BH_TEST(values_as_go_prints_them)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {0};

    bh_go_print(BH_S("{\"b\":[1,1.5,null,true],\"a\":{\"x\":\"y z\"},\"c\":{}}"), a, &b);
    BH_STREQ(bh_buf_str(&b), "map[a:map[x:y z] b:[1 1.5 <nil> true] c:map[]]");
}

BH_TEST(patch_duplicates_are_noted)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF out = {0};
    struct bh_strict s = {0}, j = {0};
    struct bh_err err = {0};

    BH_EQ(bh_patch_merge(BH_S("{}"),
                         BH_S("{\"data\":{\"k\":\"1\",\"k\":\"2\"},\"data\":{\"n\":\"3\"}}"), a,
                         &out, &s, &err),
          0);
    BH_STREQ(bh_strict_join(&s, a), "duplicate field \"data.k\", duplicate field \"data\"");
    BH_EQ(bh_patch_json(BH_S("{}"),
                        BH_S("[{\"op\":\"add\",\"path\":\"/d\",\"value\":{\"k\":1,\"k\":2}}]"), a,
                        &out, &j, &err),
          0);
    BH_STREQ(bh_strict_join(&j, a), "json patch duplicate field \"[0].value.k\"");
}

/* What the struct takes is what the document gives; what it leaves is left on purpose. */
BH_TEST(patches_of_structs)
{
#define POD                                                                                        \
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\","    \
    "\"uid\":\"u\",\"labels\":{\"b\":\"1\",\"d\":\"2\"}},\"spec\":{\"containers\":[{\"name\":"     \
    "\"c\","                                                                                       \
    "\"image\":\"i\"}]},\"status\":{\"phase\":\"Pending\",\"conditions\":[{\"type\":\"A\","        \
    "\"status\":"                                                                                  \
    "\"False\"},{\"type\":\"B\",\"status\":\"True\"}]}}"
    static const struct {
        const char *patch;
        bool merge, strategic; /* whether each is taken */
    } cases[] = {
        {"{}", true, true},
        {"{\"status\":{\"phase\":\"Running\"}}", true, true},
        {"{\"status\":{\"phase\":null}}", false, false},
        {"{\"status\":{\"phase\":7}}", false, false},
        {"{\"status\":{\"phase\":\"x\",\"phase\":\"y\"}}", false, false},
        {"{\"status\":{\"fase\":\"x\"}}", false, false},
        {"{\"status\":{\"startTime\":\"2026-01-02T03:04:05Z\",\"hostIP\":\"1.2.3.4\"}}", true,
         true},
        {"{\"status\":{\"startTime\":\"soon\"}}", false, false},
        {"{\"status\":{\"conditions\":[{\"type\":\"B\",\"status\":\"False\"}]}}", true, true},
        {"{\"status\":{\"conditions\":[{\"type\":\"C\",\"status\":\"True\"}]}}", true, false},
        {"{\"status\":{\"conditions\":[{\"type\":\"B\",\"status\":\"False\"},{\"type\":\"A\","
         "\"status\":\"True\"}]}}",
         true, false},
        {"{\"status\":{\"conditions\":[{\"$patch\":\"delete\",\"type\":\"B\"}]}}", false, false},
        {"{\"status\":{\"conditions\":[{\"type\":\"C\",\"why\":\"?\"}]}}", false, false},
        {"{\"status\":{\"conditions\":[]}}", true, false},
        {"{\"status\":{\"resourceClaimStatuses\":[{\"name\":\"g\",\"resourceClaimName\":\"x\"}]}}",
         true, true},
        {"{\"status\":{\"podIPs\":[{\"ip\":\"1.2.3.4\"}]}}", true, true},
        {"{\"metadata\":{\"labels\":{\"c\":\"3\",\"b\":\"4\"}}}", true, true},
        {"{\"metadata\":{\"labels\":{\"c\":3}}}", false, false},
        {"{\"metadata\":{\"labels\":{\"c\":\"3\",\"c\":\"4\"}}}", false, false},
        {"{\"metadata\":{\"annotations\":{\"c\":\"3\"},\"finalizers\":[\"f/x\"]}}", true, false},
        {"{\"spec\":{\"nodeSelector\":{}}}", false, false},
        {"{\"spec\":{\"securityContext\":{\"runAsUser\":5},\"terminationGracePeriodSeconds\":3}}",
         true, true},
        {"{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"j\"}]}}", true, true},
        {"{\"spec\":{\"overhead\":{\"cpu\":\"1\"}}}", false, false},
        {"{\"kind\":\"Pod\"}", false, false},
        {"[]", false, false},
        {"{\"status\":{\"phase\":\"x\"}} x", false, false},
    };
    const struct bh_kind *k = bh_kind_by_api_version(BH_S("v1"), BH_S("Pod"));

    for (size_t i = 0; i < 2 * BH_COUNT(cases); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        bool strategic = i % 2;
        struct bh_str patch = bh_s(cases[i / 2].patch);
        BH_AUTO_BUF out = {0}, by_struct = {0}, by_text = {0};
        struct bh_err err = {0};
        void *obj, *text;

        BH_EQ(bh_kind_decode_json(k, BH_S(POD), a, &obj, NULL, &err), 0);
        if (bh_patch_struct(k->type, patch, strategic, obj, a) !=
            (strategic ? cases[i / 2].strategic : cases[i / 2].merge)) {
            bh_test_fail(__FILE__, __LINE__, "%.*s (%d) is taken or left", BH_SF(patch), strategic);
            continue;
        }
        if (!(strategic ? cases[i / 2].strategic : cases[i / 2].merge))
            continue;
        BH_EQ(strategic ? bh_patch_strategic(k->type, BH_S(POD), patch, a, &out, NULL, &err)
                        : bh_patch_merge(BH_S(POD), patch, a, &out, NULL, &err),
              0);
        BH_EQ(bh_kind_decode_json(k, bh_buf_str(&out), a, &text, NULL, &err), 0);
        bh_kind_encode_json(k, obj, &by_struct);
        bh_kind_encode_json(k, text, &by_text);
        BH_SEQ(bh_buf_str(&by_struct), bh_buf_str(&by_text));
    }
}
