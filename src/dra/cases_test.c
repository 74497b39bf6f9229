/* Allocation cases as data: what the Kubernetes 1.36.2 allocator gave, in shared/allocator-cases.
 * Differences that are meant stand in tests/dra/deviations, one line each: name, blank, reason. */
#include <stdio.h>
#include <string.h>

#include "api/engine.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "dra/dra_world_test.h"

#define CASES_BYTES_MAX (16u << 20)

static bool deviates(struct bh_str name)
{
    static const char *const paths[] = {"../tests/dra/deviations", "tests/dra/deviations",
                                        "../../tests/dra/deviations"};
    BH_AUTO_BUF b = {0};
    struct bh_str text;
    size_t i = 0;

    while (i < BH_COUNT(paths) && bh_fs_read(paths[i], 1 << 20, &b, NULL) < 0)
        i++;
    text = bh_buf_str(&b);
    while (text.n) {
        struct bh_str line = bh_str_cut(&text, '\n');

        if (bh_str_eq(bh_str_cut(&line, ' '), name))
            return true;
    }
    return false;
}

/* Share ids are random. */
static void hide_shares(struct bh_arena *a, struct bh_jv *al)
{
    struct bh_jv *results = bh_jv_path(al, "devices.results");

    for (size_t i = 0; results && i < results->n_items; i++)
        if (bh_jv_getc(&results->items[i], "shareID"))
            bh_jv_setc(a, &results->items[i], "shareID", bh_jv_str(BH_S("<share>")));
}

static struct bh_str got_text(struct world *w, enum bh_dra_outcome out)
{
    struct bh_jv all = BH_JV_ARR;
    BH_AUTO_BUF b = {0};

    if (out == BH_DRA_NO_SOLUTION || out == BH_DRA_SPENT)
        return bh_str_fmt(w->a, "not allocatable %s", w->err.msg);
    if (out != BH_DRA_OK)
        return bh_str_fmt(w->a, "error: %s", w->err.msg);
    for (size_t i = 0; i < w->res.n; i++) {
        struct bh_jv al;

        bh_buf_clear(&b);
        bh_msg_encode_json(&bh_resource_v1_allocation_result_type, &w->res.allocations[i], &b);
        bh_assert(bh_jv_parse(w->a, bh_str_dup(w->a, bh_buf_str(&b)), NULL, &al, NULL) == 0);
        hide_shares(w->a, &al);
        bh_jv_append(w->a, &all, al);
    }
    bh_buf_clear(&b);
    bh_jv_write(&b, &all, 0);
    return bh_str_dup(w->a, bh_buf_str(&b));
}

static struct bh_str want_text(struct world *w, const struct bh_jv *expect)
{
    BH_AUTO_BUF b = {0};

    if (bh_jv_getc(expect, "allocations")) {
        bh_jv_write(&b, bh_jv_getc(expect, "allocations"), 0);
        return bh_str_dup(w->a, bh_buf_str(&b));
    }
    if (bh_jv_getc(expect, "error"))
        return bh_str_fmt(w->a, "error: %.*s", BH_SF(bh_jv_get_str(expect, "error")));
    return BH_S("not allocatable ");
}

/* Texts are advice: that there is an error counts, and whether the JSON is the same. */
static bool same(struct world *w, struct bh_str got, struct bh_str want)
{
    struct bh_jv x, y;

    if (bh_str_starts(want, BH_S("error: ")))
        return bh_str_starts(got, BH_S("error: "));
    if (want.p[0] != '[' || got.p[0] != '[')
        return bh_str_eq(got, want);
    return bh_jv_parse(w->a, got, NULL, &x, NULL) == 0 &&
           bh_jv_parse(w->a, want, NULL, &y, NULL) == 0 && bh_jv_eq(&x, &y);
}

static enum bh_dra_outcome run_case(struct world *w, const struct bh_jv *c, bool indexed)
{
    const struct bh_jv *objects = bh_jv_getc(c, "objects"), *claims = bh_jv_getc(c, "claims");
    BH_AUTO_BUF names = {0};

    if (indexed)
        world_index(w);
    w->double_names = true;
    for (size_t i = 0; i < objects->n_items; i++)
        world_object(w, &objects->items[i]);
    for (size_t i = 0; i < claims->n_items; i++) {
        bh_buf_adds(&names, claims->items[i].s);
        bh_buf_addc(&names, ' ');
    }
    return world_allocate(w, bh_str_dup(w->a, bh_jv_get_str(c, "node")).p, bh_buf_cstr(&names));
}

static bool load(struct bh_arena *a, struct bh_jv *ret)
{
    const char *path = bh_test_shared("allocator-cases/cases.json");
    BH_AUTO_BUF b = {0};
    struct bh_err err = {0};

    if (!path) {
        bh_test_skip("no shared/allocator-cases");
        return false;
    }
    if (bh_fs_read(path, CASES_BYTES_MAX, &b, &err) < 0 ||
        bh_jv_parse(a, bh_str_dup(a, bh_buf_str(&b)), NULL, ret, &err) < 0) {
        bh_test_fail(__FILE__, __LINE__, "%s: %s", path, err.msg);
        return false;
    }
    return true;
}

BH_TEST(allocator_cases) /* the same outcome as upstream, to the letter */
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_jv all;
    size_t passed = 0, failed = 0, meant = 0, slower = 0;

    if (!load(a, &all))
        return;
    const struct bh_jv *cases = bh_jv_getc(&all, "cases");

    for (size_t i = 0; i < 2 * cases->n_items; i++) {
        struct bh_jv *c = &cases->items[i / 2];
        struct bh_str name = bh_jv_get_str(c, "name"), got, want;
        struct world w;
        int64_t steps = 0;

        world_init(&w, NULL);
        got = got_text(&w, run_case(&w, c, i % 2));
        want = want_text(&w, bh_jv_getc(c, "expect"));
        (void)bh_jv_get_i64(c, "searchSteps", &steps);
        if (steps > 0 && w.res.steps > (uint64_t)steps) {
            slower++;
            printf("%.*s: %llu steps, upstream %lld\n", BH_SF(name),
                   (unsigned long long)w.res.steps, (long long)steps);
        }
        if (same(&w, got, want)) {
            passed++;
        } else if (deviates(name)) {
            meant++;
        } else {
            failed++;
            bh_test_fail(__FILE__, __LINE__, "%.*s:\n  got  %.*s\n  want %.*s", BH_SF(name),
                         BH_SF(got), BH_SF(want));
        }
        world_done(&w);
    }
    printf("allocator cases, each without and with an index: %zu passed, %zu failed, %zu differ on "
           "purpose, %zu took more steps\n",
           passed, failed, meant, slower);
}

BH_TEST(allocator_cases_scored) /* with scoring: other devices perhaps, the same feasibility */
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_jv all;

    if (!load(a, &all))
        return;
    const struct bh_jv *cases = bh_jv_getc(&all, "cases");

    for (int scoring = BH_DRA_PACK; scoring <= BH_DRA_SPREAD; scoring++)
        for (size_t i = 0; i < 2 * cases->n_items; i++) {
            struct bh_jv *c = &cases->items[i / 2];
            const struct bh_jv *expect = bh_jv_getc(c, "expect");
            struct world w;
            enum bh_dra_outcome out;

            world_init(&w, NULL);
            w.opts.scoring = (enum bh_dra_scoring)scoring;
            out = run_case(&w, c, i % 2);
            if ((out == BH_DRA_OK) != (bh_jv_getc(expect, "allocations") != NULL) &&
                !deviates(bh_jv_get_str(c, "name")))
                bh_test_fail(__FILE__, __LINE__, "%.*s: outcome %d: %s",
                             BH_SF(bh_jv_get_str(c, "name")), out, w.err.msg);
            world_done(&w);
        }
}
