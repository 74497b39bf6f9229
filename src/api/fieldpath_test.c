/* managedFields: sets, and ownership as it was recorded. */
#include "api/engine.h"
#include "api/fieldpath.h"
#include "base/fs.h"
#include "base/test.h"
#include "data/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bh_fset *set(struct bh_arena *a, const char *json)
{
    struct bh_fset *s = NULL;
    struct bh_err err = {0};

    if (bh_fset_decode(bh_s(json), a, &s, &err) < 0)
        bh_test_fail(__FILE__, __LINE__, "%s: %s", json, err.msg);
    return s;
}

static struct bh_str text(struct bh_arena *a, const struct bh_fset *s)
{
    BH_AUTO_BUF b = {0};

    bh_fset_encode(s, &b);
    return bh_str_dup(a, bh_buf_str(&b));
}

BH_TEST(fset_text_is_sorted)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    BH_STREQ(
        text(a, set(a, "{\"f:b\":{},\"f:a\":{\"v:2\":{},\"v:1\":{},\".\":{},\"k:{\\\"y\\\":1,"
                       "\\\"x\\\":2}\":{}}}")),
        "{\"f:a\":{\".\":{},\"k:{\\\"x\\\":2,\\\"y\\\":1}\":{},\"v:1\":{},\"v:2\":{}},\"f:b\":{}}");
    BH_CHECK(set(a, "{}") == NULL);
}

BH_TEST(fset_refuses_malformed)
{
    static const char *const bad[] = {"[]",          "{\"a\":{}}", "{\"k:[]\":{}}", "{\"i:x\":{}}",
                                      "{\"v:\":{}}", "{",          "{\"f:a\":1}"};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_fset *s;

    for (size_t i = 0; i < BH_COUNT(bad); i++)
        if (bh_fset_decode(bh_s(bad[i]), a, &s, NULL) == 0)
            bh_test_fail(__FILE__, __LINE__, "accepted %s", bad[i]);
}

BH_TEST(fset_algebra)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_fset *x = set(a, "{\"f:a\":{\".\":{},\"f:b\":{}},\"f:c\":{}}"),
                   *y = set(a, "{\"f:a\":{},\"f:d\":{}}");

    BH_STREQ(text(a, bh_fset_union(a, x, y)),
             "{\"f:a\":{\".\":{},\"f:b\":{}},\"f:c\":{},\"f:d\":{}}");
    BH_STREQ(text(a, bh_fset_intersection(a, x, y)), "{\"f:a\":{}}");
    BH_STREQ(text(a, bh_fset_difference(a, x, y)), "{\"f:a\":{\"f:b\":{}},\"f:c\":{}}");
    BH_STREQ(text(a, bh_fset_recursive_difference(a, x, y)), "{\"f:c\":{}}");
    BH_CHECK(bh_fset_difference(a, x, x) == NULL);
    BH_CHECK(bh_fset_equal(bh_fset_union(a, x, NULL), x));
}

static struct bh_str after(struct bh_arena *a, const char *before, const char *old_doc,
                           const char *new_doc, const char *manager)
{
    const struct bh_kind *k = bh_kind_by_api_version(BH_S("v1"), BH_S("Pod"));
    struct bh_managers m = {0};
    struct bh_err err = {0};
    struct bh_managed_update u = {.t = k->type,
                                  .old_doc = bh_s(old_doc),
                                  .new_doc = bh_s(new_doc),
                                  .self = {.manager = bh_s(manager),
                                           .operation = BH_S("Update"),
                                           .api_version = BH_S("v1"),
                                           .time = {1767225600, 0}}};
    BH_AUTO_BUF out = {0};

    BH_EQ(bh_managers_decode(bh_s(before), a, &m, &err), 0);
    BH_EQ(bh_managers_update(&m, &u, a, NULL, &err), 0);
    bh_managers_encode(&m, &out);
    return bh_str_dup(a, bh_buf_str(&out));
}

#define ENTRY(manager, version, fields)                                                            \
    "{\"manager\":\"" manager "\",\"operation\":\"Update\",\"apiVersion\":\"" version              \
    "\",\"time\":\"2026-01-01T00:00:00Z\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":" fields "}"

BH_TEST(updates_move_ownership)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    /* a changed field goes to who changed it; the map itself stays */
    BH_STREQ(
        after(a, "[" ENTRY("m1", "v1", "{\"f:metadata\":{\"f:labels\":{\".\":{},\"f:a\":{}}}}") "]",
              "{\"metadata\":{\"labels\":{\"a\":\"1\"}}}",
              "{\"metadata\":{\"labels\":{\"a\":\"2\"}}}", "m2"),
        "[" ENTRY("m1", "v1", "{\"f:metadata\":{\"f:labels\":{}}}") "," ENTRY(
            "m2", "v1", "{\"f:metadata\":{\"f:labels\":{\"f:a\":{}}}}") "]");
    /* a removed field leaves everybody, an owner of nothing goes */
    BH_STREQ(after(a, "[" ENTRY("m1", "v1", "{\"f:spec\":{\"f:nodeName\":{}}}") "]",
                   "{\"spec\":{\"nodeName\":\"n\"}}", "{\"spec\":{}}", "m2"),
             "[]");
    /* nothing changed: nothing is written, the time neither */
    BH_STREQ(after(a, "[" ENTRY("m1", "v1", "{\"f:spec\":{\"f:nodeName\":{}}}") "]",
                   "{\"spec\":{\"nodeName\":\"n\"}}", "{\"spec\":{\"nodeName\":\"n\"}}", "m2"),
             "[" ENTRY("m1", "v1", "{\"f:spec\":{\"f:nodeName\":{}}}") "]");
    /* one item becomes two of the same key: a leaf */
    BH_STREQ(
        after(a, "[]", "{\"status\":{\"conditions\":[{\"type\":\"A\"}]}}",
              "{\"status\":{\"conditions\":[{\"type\":\"A\"},{\"type\":\"A\",\"status\":\"x\"}]}}",
              "m"),
        "[" ENTRY("m", "v1",
                  "{\"f:status\":{\"f:conditions\":{\"k:{\\\"type\\\":\\\"A\\\"}\":{}}}}") "]");
    /* entries of another group cannot be converted */
    BH_STREQ(after(a, "[" ENTRY("m1", "events.k8s.io/v1", "{\"f:note\":{}}") "]", "{}",
                   "{\"spec\":{\"nodeName\":\"n\"}}", "m1"),
             "[" ENTRY("m1", "v1", "{\"f:spec\":{\".\":{},\"f:nodeName\":{}}}") "]");
    /* names, versions and the like belong to nobody */
    BH_STREQ(
        after(a, "[]", "{}", "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"x\",\"uid\":\"u\"}}", "m"),
        "[]");
}

/* The eleventh updater merges the oldest two of one version. */
BH_TEST(updaters_are_capped)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF before = {0};
    struct bh_managers m = {0};
    struct bh_err err = {0};

    bh_buf_addc(&before, '[');
    for (int i = 0; i < 10; i++)
        bh_buf_addf(&before,
                    "%s{\"manager\":\"m%d\",\"operation\":\"Update\",\"apiVersion\":\"v1\","
                    "\"time\":\"2025-01-01T00:00:0%dZ\","
                    "\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:x%d\":{}}}",
                    i ? "," : "", i, i, i);
    bh_buf_addc(&before, ']');
    struct bh_str now =
        after(a, bh_buf_cstr(&before), "{}", "{\"spec\":{\"nodeName\":\"n\"}}", "new");

    BH_EQ(bh_managers_decode(now, a, &m, &err), 0);
    BH_EQ(m.n, 10);
    BH_STREQ(m.p[0].manager, "ancient-changes");
    BH_STREQ(text(a, m.p[0].set), "{\"f:x0\":{},\"f:x1\":{}}");
    BH_STREQ(m.p[9].manager, "new");
}

/* What a creation gave its only manager, as recorded. Kinds whose objects the server fills in after
 * ownership is settled (addresses, tokens, tolerations) own less than the answer shows: nothing may
 * be missing here either. */
struct counts {
    unsigned same, more, dropped;
};

static void check_create(struct bh_arena *a, struct bh_str name, const struct bh_jv *body,
                         struct counts *n)
{
    const struct bh_jv *meta = bh_jv_getc(body, "metadata"),
                       *mf = bh_jv_getc(meta, "managedFields");
    const struct bh_kind *k =
        bh_kind_by_api_version(bh_jv_get_str(body, "apiVersion"), bh_jv_get_str(body, "kind"));
    BH_AUTO_BUF old_doc = {0}, new_doc = {0};
    struct bh_managers want = {0}, got = {0};
    struct bh_err err = {0};
    void *obj;

    if (!mf || mf->kind != BH_JSON_ARR || mf->n_items != 1 || !k || !k->resource.n)
        return;
    /* Times, uids and versions are masked in recordings: none of them is owned by anybody. */
    struct bh_jv o = bh_jv_copy(a, body), *m = bh_jv_getc(&o, "metadata"),
                 entry = bh_jv_copy(a, mf);

    (void)bh_jv_del(m, BH_S("managedFields"));
    (void)bh_jv_del(m, BH_S("creationTimestamp"));
    (void)bh_jv_del(&entry.items[0], BH_S("time"));
    if (bh_managers_decode(bh_jv_text(a, &entry, 0), a, &want, &err) < 0) {
        bh_test_fail(__FILE__, __LINE__, "%.*s: %s", BH_SF(name), err.msg);
        return;
    }
    if (bh_kind_decode_json(k, bh_jv_text(a, &o, 0), a, &obj, NULL, &err) < 0)
        return; /* a masked time in the body */
    bh_kind_encode_json(k, obj, &new_doc);
    bh_kind_encode_json(k, bh_arena_alloc(a, k->type->size), &old_doc);
    static const char *const status[] = {"status"};
    struct bh_managed_update u = {.t = k->type,
                                  .old_doc = bh_buf_str(&old_doc),
                                  .new_doc = bh_buf_str(&new_doc),
                                  .self = want.p[0],
                                  .reset = bh_fset_of_paths(a, status, 1)};

    u.self.set = NULL;
    BH_EQ(bh_managers_update(&got, &u, a, NULL, &err), 0);
    const struct bh_fset *have = got.n ? got.p[0].set : NULL;
    struct bh_fset *missing = bh_fset_difference(a, want.p[0].set, have),
                   *extra = bh_fset_difference(a, have, want.p[0].set);

    if (!bh_fset_empty(missing)) {
        /* Owned, and then dropped by a gate or an admission policy: the answer does not show it. */
        n->dropped++;
        if (getenv("BH_SHOW"))
            printf("%.*s %.*s: missing %.*s\n", BH_SF(k->kind), BH_SF(name),
                   BH_SF(text(a, missing)));
        return;
    }
    if (bh_fset_empty(extra))
        n->same++;
    else
        n->more++;
    if (!bh_fset_empty(extra) && getenv("BH_SHOW"))
        printf("%.*s %.*s: more %.*s\n", BH_SF(k->kind), BH_SF(name), BH_SF(text(a, extra)));
}

/* Comparing structs must give what comparing their documents gives, whatever two objects of a kind.
 */
static void check_same(struct bh_arena *a, const struct bh_kind *k, const void *x, const void *y)
{
    BH_AUTO_BUF dx = {0}, dy = {0};
    struct bh_fset_diff by_text, by_struct;
    struct bh_err err = {0};

    bh_kind_encode_json(k, x, &dx);
    bh_kind_encode_json(k, y, &dy);
    BH_EQ(bh_fset_compare(k->type, bh_buf_str(&dx), bh_buf_str(&dy), a, &by_text, &err), 0);
    bh_fset_compare_structs(k->type, x, y, a, &by_struct);
    if (bh_fset_equal(by_text.removed, by_struct.removed) &&
        bh_fset_equal(by_text.modified, by_struct.modified) &&
        bh_fset_equal(by_text.added, by_struct.added))
        return;
    bh_test_fail(__FILE__, __LINE__,
                 "%.*s:\nremoved  %.*s\n     or  %.*s\nmodified %.*s\n     or  %.*s\nadded    "
                 "%.*s\n     or  %.*s",
                 BH_SF(k->kind), BH_SF(text(a, by_text.removed)), BH_SF(text(a, by_struct.removed)),
                 BH_SF(text(a, by_text.modified)), BH_SF(text(a, by_struct.modified)),
                 BH_SF(text(a, by_text.added)), BH_SF(text(a, by_struct.added)));
}

/* Each recorded object against the one of its kind before it, and against nothing. */
static void check_pairs(struct bh_arena *a, const struct bh_jv *body,
                        const struct bh_kind **last_kind, void **last)
{
    const struct bh_kind *k =
        bh_kind_by_api_version(bh_jv_get_str(body, "apiVersion"), bh_jv_get_str(body, "kind"));
    struct bh_jv o = bh_jv_copy(a, body), *m = bh_jv_getc(&o, "metadata");
    struct bh_err err = {0};
    void *obj;

    if (!k || !k->resource.n || !m)
        return;
    (void)bh_jv_del(m, BH_S("managedFields"));
    (void)bh_jv_del(m, BH_S("creationTimestamp"));
    if (bh_kind_decode_json(k, bh_jv_text(a, &o, 0), a, &obj, NULL, &err) < 0)
        return;
    check_same(a, k, obj, obj);
    check_same(a, k, bh_arena_alloc(a, k->type->size), obj);
    check_same(a, k, obj, bh_arena_alloc(a, k->type->size));
    if (*last_kind == k) {
        check_same(a, k, *last, obj);
        check_same(a, k, obj, *last);
    }
    *last_kind = k;
    *last = obj;
}

static void check_file(const char *rel, struct counts *n)
{
    const char *path = bh_test_shared(rel);
    BH_AUTO_BUF file = {.max = 64u << 20};
    struct bh_err err = {0};

    if (!path) {
        bh_test_skip("no recordings");
        return;
    }
    BH_EQ(bh_fs_read(path, 64u << 20, &file, &err), 0);
    struct bh_str rest = bh_buf_str(&file);

    while (rest.n) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_str line = bh_str_cut(&rest, '\n');
        struct bh_jv v;
        const struct bh_jv *steps;

        if (bh_str_find(line, BH_S("managedFields")) < 0 ||
            bh_jv_parse(a, line, NULL, &v, &err) < 0)
            continue;
        const struct bh_kind *last_kind = NULL;
        void *last = NULL;

        steps = bh_jv_getc(&v, "steps");
        for (size_t i = 0; steps && i < steps->n_items; i++) {
            const struct bh_jv *step = bh_jv_at(steps, i), *body = bh_jv_path(step, "answer.body");

            if (body)
                check_pairs(a, body, &last_kind, &last);
            if (body && bh_str_starts(bh_jv_get_str(step, "do"), BH_S("POST ")))
                check_create(a, bh_jv_get_str(&v, "name"), body, n);
        }
    }
}

BH_TEST(managed_fields_of_creations_as_recorded)
{
    static const char *const files[] = {"wire/core.jsonl",   "wire/machinery.jsonl",
                                        "wire/dra.jsonl",    "wire/workloads.jsonl",
                                        "wire/policy.jsonl", "wire/auth.jsonl"};
    struct counts n = {0};

    for (size_t i = 0; i < BH_COUNT(files); i++)
        check_file(files[i], &n);
    printf("recorded creations: %u own the same, %u more (the server filled in), %u less (dropped "
           "later)\n",
           n.same, n.more, n.dropped);
    if (!bh_test_shared(files[0]))
        return; /* check_file has said so */
    BH_CHECK(n.same > 500);
    BH_CHECK(n.dropped <= 28);
}
