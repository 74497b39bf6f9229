/* Malformed inputs of the recorded conversations, and the words that upstream answered: ours are
 * contained in them. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "data/codec.h"
#include "data/json.h"
#include "data/selector.h"
#include "data/yaml.h"

static bool has(struct bh_str s, const char *part)
{
    return bh_str_find(s, bh_s(part)) >= 0;
}

static void expect(const char *what, struct bh_str in, struct bh_str want, const char *got)
{
    if (!*got || !has(want, got))
        bh_test_fail(__FILE__, __LINE__, "%s \"%.*s\": \"%s\", recorded \"%.*s\"", what,
                     (int)(in.n < 80 ? in.n : 80), in.p, got, BH_SF(want));
}

static void check_yaml(struct bh_arena *a, struct bh_str body, struct bh_str msg)
{
    struct bh_yaml_dups dups;
    struct bh_err e = {0};
    struct bh_jv v;

    if (bh_yaml_parse(a, body, &dups, &v, &e) < 0) {
        expect("yaml", body, msg, e.msg);
        return;
    }
    BH_CHECK(dups.lines.n > 0);
    for (size_t i = 0; i < dups.lines.n; i++)
        expect("yaml", body, msg, dups.lines.p[i].p);
}

static bool check_query(struct bh_arena *a, const struct bh_jv *step, struct bh_str msg)
{
    struct bh_str path = bh_jv_get_str(step, "do");
    const struct bh_str *sel;
    struct bh_query q;
    struct bh_label_selector ls;
    struct bh_err e = {0};

    (void)bh_str_cut(&path, '?');
    if (!path.p || bh_query_parse(a, path, &q, &e) < 0)
        return false;
    sel = bh_query_get(&q, "labelSelector");
    if (!sel || (!has(msg, "unable to parse requirement") && !has(msg, "', expected: ")))
        return false;
    BH_EQ(bh_label_selector_parse(a, *sel, &ls, &e), -BH_E_BAD_REQUEST);
    expect("selector", *sel, msg, e.msg);
    return true;
}

/* 1 when the step was one of those that this test knows to judge. */
static int check_step(struct bh_arena *a, const struct bh_jv *step)
{
    const struct bh_jv *answer = bh_jv_getc(step, "answer"), *body = bh_jv_getc(step, "body");
    struct bh_str msg = bh_jv_get_str(bh_jv_getc(answer, "body"), "message");
    struct bh_str type = bh_jv_get_str(bh_jv_getc(step, "headers"), "Content-Type");
    struct bh_err e = {0};

    if (!msg.n)
        return 0;
    if (check_query(a, step, msg))
        return 1;
    if (!body || body->kind != BH_JSON_STR)
        return 0;
    if (has(msg, "yaml: ")) {
        check_yaml(a, body->s, msg);
        return 1;
    }
    if ((has(msg, "invalid character") || has(msg, "unexpected end of JSON")) &&
        !has(type, "yaml")) {
        BH_EQ(bh_json_check(body->s, &e), -BH_E_BAD_REQUEST);
        expect("json", body->s, msg, e.msg);
        return 1;
    }
    return 0;
}

static int check_file(const char *path)
{
    BH_AUTO_BUF b = {0};
    struct bh_str rest;
    int judged = 0;

    BH_EQ(bh_fs_read(path, 64u << 20, &b, NULL), 0);
    rest = bh_buf_str(&b);
    while (rest.n) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_str line = bh_str_cut(&rest, '\n');
        const struct bh_jv *steps;
        struct bh_jv v;

        if (!line.n || bh_jv_parse(a, line, NULL, &v, NULL) < 0)
            continue;
        steps = bh_jv_getc(&v, "steps");
        for (size_t i = 0; bh_jv_at(steps, i); i++)
            judged += check_step(a, bh_jv_at(steps, i));
    }
    return judged;
}

BH_TEST(recorded_refusals_have_our_words)
{
    static const char *const files[] = {"machinery", "apply", "core", "workloads"};
    int judged = 0;

    for (size_t i = 0; i < BH_COUNT(files); i++) {
        char rel[64];
        const char *path;

        BH_EQ(bh_path(rel, sizeof(rel), NULL, "wire/%s.jsonl", files[i]), 0);
        path = bh_test_shared(rel);
        if (!path) {
            bh_test_skip("shared/wire is absent");
            return;
        }
        judged += check_file(path);
    }
    BH_CHECK(judged >= 40);
}
