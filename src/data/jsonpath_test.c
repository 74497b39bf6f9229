/* Tests of the simple JSONPath. */
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/test.h"
#include "data/jsonpath.h"

static const char doc[] =
    "{\"metadata\":{\"name\":\"x\",\"annotations\":{\"a.b/"
    "c\":\"v\"}},\"spec\":{\"l\":[{\"n\":1,\"t\":\"A\"},{\"n\":2,\"t\":\"B\"},"
    "{\"n\":3,\"t\":\"A\",\"u\":null}]},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":"
    "\"True\"},{\"type\":\"X\",\"status\":"
    "\"False\"}]}}";

BH_TEST(jsonpath_finds)
{
    static const struct {
        const char *path, *want;
    } t[] = {
        {".metadata.name", "\"x\""},
        {"metadata.name", "\"x\""},
        {"{.metadata.name}", "\"x\""},
        {"$.metadata.name", "\"x\""},
        {".metadata.none", ""},
        {".metadata.name.deep", ""},
        {".spec.l[0].n", "1"},
        {".spec.l[-1].n", "3"},
        {".spec.l[7].n", ""},
        {".spec.l[*].n", "1 2 3"},
        {".spec.l[0:2].n", "1 2"},
        {".spec.l[1:].n", "2 3"},
        {".spec.l[:-1].n", "1 2"},
        {".spec.l[::2].n", "1 3"},
        {".spec.l[0,2].n", "1 3"},
        {".metadata['name']", "\"x\""},
        {".metadata.annotations.a\\.b/c", "\"v\""},
        {".metadata.annotations['a.b/c']", "\"v\""},
        {".status.conditions[?(@.type==\"Ready\")].status", "\"True\""},
        {".status.conditions[?(@.type!='Ready')].status", "\"False\""},
        {".spec.l[?(@.n>1)].t", "\"B\" \"A\""},
        {".spec.l[?(@.n<=1)].t", "\"A\""},
        {".spec.l[?(@.u)].n", "3"},
        {".spec.l[?( @.n == 2 )].t", "\"B\""},
        {"..n", "1 2 3"},
        {".metadata.*", "\"x\" {\"a.b/c\":\"v\"}"},
        {".spec.l[?(@.t==@.t)].n", "1 2 3"},
        {"..type", "\"Ready\" \"X\""},
    };
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_jv v;

    BH_EQ(bh_jv_parse(a, bh_s(doc), NULL, &v, NULL), 0);
    for (size_t i = 0; i < BH_COUNT(t); i++) {
        const struct bh_jsonpath *jp = NULL;
        struct bh_jv_refs r;
        struct bh_err e = {0};
        BH_AUTO_BUF b = {0};

        if (bh_jsonpath_compile(a, bh_s(t[i].path), &jp, &e) < 0) {
            bh_test_fail(__FILE__, __LINE__, "%s: %s", t[i].path, e.msg);
            continue;
        }
        r = bh_jsonpath_eval(a, jp, &v);
        for (size_t k = 0; k < r.n; k++) {
            if (k)
                bh_buf_addc(&b, ' ');
            bh_jv_write(&b, r.p[k], 0);
        }
        BH_STREQ(bh_buf_str(&b), t[i].want);
    }
}

BH_TEST(jsonpath_refuses)
{
    static const char *const t[] = {".a[",
                                    ".a[x]",
                                    ".a['x",
                                    ".a[?(@.x==)]",
                                    ".a[?(@.b",
                                    ".a b",
                                    "{.a",
                                    ".a[?@.x]",
                                    ".a[::0]",
                                    ".a[]",
                                    ".a[1 2]",
                                    "...",
                                    ".a[?(@.x[?(@.y)])]",
                                    ".a[99999999999]"};
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {0};
    const struct bh_jsonpath *jp;

    for (size_t i = 0; i < BH_COUNT(t); i++)
        if (bh_jsonpath_compile(a, bh_s(t[i]), &jp, NULL) == 0)
            bh_test_fail(__FILE__, __LINE__, "%s was accepted", t[i]);
    for (int i = 0; i < 100; i++)
        bh_buf_addz(&b, ".a");
    BH_EQ(bh_jsonpath_compile(a, bh_buf_str(&b), &jp, NULL), -BH_E_BAD_REQUEST);
}
