/* Decoding errors: the words that a Kubernetes API server was recorded to use. */
#include "api/engine.h"
#include "base/fs.h"
#include "base/limits.h"
#include "base/test.h"
#include "data/json.h"

#include <stdio.h>
#include <string.h>

#define HANDLED " cannot be handled as a "

struct counts {
    unsigned same, other, skipped;
};

/* Bytes of a time at s ("2026-01-02T03:04:05.123Z"), 0 when there is none. */
static size_t time_len(struct bh_str s)
{
    static const char form[] = "0000-00-00T00:00:00";
    size_t n = 0;

    while (n < sizeof(form) - 1 && n < s.n &&
           (form[n] == '0' ? s.p[n] >= '0' && s.p[n] <= '9' : s.p[n] == form[n]))
        n++;
    if (n < sizeof(form) - 1)
        return 0;
    if (n < s.n && s.p[n] == '.')
        for (n++; n < s.n && s.p[n] >= '0' && s.p[n] <= '9'; n++)
            ;
    return n < s.n && s.p[n] == 'Z' ? n + 1 : 0;
}

/* Recordings hold <time> where a time stood. */
static struct bh_str mask_time(struct bh_arena *a, struct bh_str s)
{
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < s.n;) {
        size_t n = time_len(bh_str_sub(s, i, s.n));

        if (n)
            bh_buf_addz(&b, "<time>");
        else
            bh_buf_addc(&b, s.p[i]);
        i += n ? n : 1;
    }
    return bh_str_dup(a, bh_buf_str(&b));
}

static bool is_for_decoder(struct bh_str want)
{
    return bh_str_starts(want, BH_S("json: cannot unmarshal")) ||
           bh_str_starts(want, BH_S("strict decoding error: ")) ||
           bh_str_starts(want, BH_S("quantities")) || bh_str_starts(want, BH_S("parsing time")) ||
           bh_str_starts(want, BH_S("illegal base64"));
}

static void check_step(struct bh_arena *a, struct bh_str name, const struct bh_jv *step,
                       struct counts *n)
{
    const struct bh_jv *body = bh_jv_getc(step, "body");
    struct bh_str msg = bh_jv_get_str(bh_jv_path(step, "answer.body"), "message"), api_version,
                  kind, text, got;
    ptrdiff_t at = bh_str_find(msg, BH_S(HANDLED));
    struct bh_strict strict = {0};
    struct bh_err err = {0};
    void *obj;

    if (at < 0 || !body)
        return;
    msg = bh_str_sub(msg, (size_t)at + sizeof(HANDLED) - 1, msg.n);
    at = bh_str_find(msg, BH_S(": "));
    msg = bh_str_sub(msg, (size_t)at + 2, msg.n);
    text = body->kind == BH_JSON_STR ? body->s : bh_jv_text(a, body, 0);
    if (!is_for_decoder(msg) || bh_str_find(msg, BH_S("yaml:")) >= 0)
        return;
    if (bh_json_peek_kind(text, a, &api_version, &kind, &err) < 0)
        return; /* YAML */
    const struct bh_kind *k = bh_kind_by_api_version(api_version, kind);

    if (!k) { /* a custom resource, or a kind without a schema */
        n->skipped++;
        return;
    }
    if (bh_kind_decode_json(k, text, a, &obj, &strict, &err) < 0)
        got = bh_str_fmt(a, "%s", err.msg);
    else
        got = bh_str_fmt(a, "strict decoding error: %.*s", BH_SF(bh_strict_join(&strict, a)));
    got = mask_time(a, got);
    if (bh_str_eq(got, msg)) {
        n->same++;
        return;
    }
    n->other++;
    bh_test_fail(__FILE__, __LINE__, "%.*s:\n  got  %.*s\n  want %.*s", BH_SF(name), BH_SF(got),
                 BH_SF(msg));
}

static void check_file(const char *rel, struct counts *n)
{
    const char *path = bh_test_shared(rel);
    BH_AUTO_BUF text = {.max = 64u << 20};
    struct bh_err err = {0};

    if (!path) {
        bh_test_skip("no recordings");
        return;
    }
    BH_EQ(bh_fs_read(path, 64u << 20, &text, &err), 0);
    struct bh_str rest = bh_buf_str(&text);

    while (rest.n) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_str line = bh_str_cut(&rest, '\n');
        struct bh_jv v;

        if (bh_str_find(line, BH_S(HANDLED)) < 0 || bh_jv_parse(a, line, NULL, &v, &err) < 0)
            continue;
        const struct bh_jv *steps = bh_jv_getc(&v, "steps");

        for (size_t i = 0; steps && i < steps->n_items; i++)
            check_step(a, bh_jv_get_str(&v, "name"), bh_jv_at(steps, i), n);
    }
}

BH_TEST(decode_errors_as_recorded)
{
    static const char *const files[] = {
        "wire/core.jsonl",   "wire/machinery.jsonl", "wire/dra.jsonl", "wire/workloads.jsonl",
        "wire/policy.jsonl", "wire/auth.jsonl",      "wire/crd.jsonl"};
    struct counts n = {0};

    for (size_t i = 0; i < BH_COUNT(files); i++)
        check_file(files[i], &n);
    printf("recorded decoding errors: %u the same, %u not, %u skipped\n", n.same, n.other,
           n.skipped);
}
