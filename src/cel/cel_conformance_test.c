/* The conformance data: the language's own tests and measured Kubernetes cases, against our
 * answers.
 *
 * Deviations that are meant stand in tests/cel/expect, one line each: the name, a blank, the
 * reason. A listed name that passes after all is a failure too, so that the list stays true.
 */
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "cel/cel_suite.h"

#define FILE_MAX (8u << 20)

static void failed(void *arg, struct bh_str name, struct bh_str expr, struct bh_str why)
{
    (void)arg;
    bh_test_fail(__FILE__, __LINE__, "%.*s: %.*s: %.*s", BH_SF(name),
                 BH_SF(bh_str_sub(expr, 0, 120)), BH_SF(why));
}

static bool load(const char *rel, struct bh_buf *b)
{
    char name[128];
    const char *path;

    bh_buf_clear(b);
    (void)snprintf(name, sizeof(name), "cel-conformance/%s", rel);
    path = bh_test_shared(name);
    return path && bh_fs_read(path, FILE_MAX, b, NULL) == 0;
}

/* Takes in tests/cel/expect: from the source tree, or seen from the build folder. */
static void expect_list(struct bh_cel_suite *s)
{
    static const char *const where[] = {"tests/cel/expect", "../tests/cel/expect"};
    BH_AUTO_BUF b = {.max = FILE_MAX};

    for (size_t i = 0; i < BH_COUNT(where); i++)
        if (bh_fs_read(where[i], FILE_MAX, &b, NULL) == 0)
            break;
    BH_EQ(bh_cel_suite_expect(s, bh_buf_str(&b), NULL), 0);
    BH_CHECK(s->expect.n > 0);
}

BH_TEST(cel_conformance)
{
    static const char *const files[] = {
        "basic",      "bindings_ext", "comparisons",   "conversions", "dynamic",  "fields",
        "fp_math",    "integer_math", "lists",         "logic",       "macros",   "macros2",
        "namespace",  "network_ext",  "optionals",     "parse",       "plumbing", "string",
        "string_ext", "timestamps",   "type_deduction"};
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {.max = FILE_MAX};
    struct bh_cel_suite s;
    char name[64];

    bh_cel_suite_init(&s, a);
    s.failed = failed;
    if (!load("kubernetes-1.36.json", &b)) {
        bh_test_skip("the conformance data is absent");
        return;
    }
    BH_EQ(bh_cel_suite_expect(&s, bh_buf_str(&b), NULL), 0);
    expect_list(&s);
    for (size_t i = 0; i < BH_COUNT(files); i++) {
        (void)snprintf(name, sizeof(name), "%s.json", files[i]);
        BH_CHECK(load(name, &b));
        BH_EQ(bh_cel_suite_run(&s, bh_s(files[i]), bh_buf_str(&b), NULL), 0);
    }
    printf("cel_conformance: %u as stated, %u expected deviations, %u skipped (protobuf, "
           "containers)\n",
           s.passed, s.expected, s.skipped);
    BH_CHECK(s.passed > 1400);
}

BH_TEST(cel_kubernetes_cases)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {.max = FILE_MAX};
    struct bh_cel_suite s;

    bh_cel_suite_init(&s, a);
    s.failed = failed;
    if (!load("kubernetes-cases.json", &b)) {
        bh_test_skip("the conformance data is absent");
        return;
    }
    expect_list(&s);
    BH_EQ(bh_cel_suite_run(&s, BH_S("kubernetes-cases"), bh_buf_str(&b), NULL), 0);
    printf("cel_kubernetes_cases: %u as measured, %u expected deviations\n", s.passed, s.expected);
    BH_CHECK(s.passed > 900);
}

/* The same of further expressions, which stand in this repository. */
BH_TEST(cel_own_cases)
{
    static const char *const where[] = {"tests/cel/cases.json", "../tests/cel/cases.json"};
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {.max = FILE_MAX};
    struct bh_cel_suite s;

    bh_cel_suite_init(&s, a);
    s.failed = failed;
    for (size_t i = 0; i < BH_COUNT(where); i++)
        if (bh_fs_read(where[i], FILE_MAX, &b, NULL) == 0)
            break;
    BH_EQ(bh_cel_suite_run(&s, BH_S("cases"), bh_buf_str(&b), NULL), 0);
    BH_CHECK(s.passed > 100);
}
