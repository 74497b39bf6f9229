/* Server-side apply: merged documents, owners, conflicts. What upstream answers over HTTP stands in
 * the recordings (tests/wire). */
#include "api/apply.h"
#include "api/engine.h"
#include "base/test.h"

#include <string.h>

struct world {
    struct bh_arena *a;
    const struct bh_kind *k;
    struct bh_jv live, patch, empty;
    struct bh_managers m;
    struct bh_apply_result r;
    bool force;
};

static struct world world_new(struct bh_arena *a, const char *kind)
{
    struct world w = {.a = a, .k = bh_kind_by_api_version(BH_S("v1"), bh_s(kind))};

    w.live = w.empty = BH_JV_OBJ;
    return w;
}

static struct bh_apply setup(struct world *w, const char *manager, const char *patch)
{
    struct bh_err err = {0};

    if (bh_jv_parse(w->a, bh_s(patch), NULL, &w->patch, &err) < 0)
        bh_test_fail(__FILE__, __LINE__, "%s: %s", patch, err.msg);
    return (struct bh_apply){.t = w->k->type,
                             .empty = &w->empty,
                             .live = &w->live,
                             .patch = &w->patch,
                             .self = {.manager = bh_s(manager),
                                      .operation = BH_S("Apply"),
                                      .api_version = BH_S("v1"),
                                      .time = {1000, 0}},
                             .force = w->force};
}

/* Applies, and what came out is live from then on: its text. */
static struct bh_str apply(struct world *w, const char *manager, const char *patch)
{
    struct bh_apply u = setup(w, manager, patch);
    struct bh_err err = {0};

    if (bh_apply_run(&w->m, &u, w->a, &w->r, &err) < 0)
        bh_test_fail(__FILE__, __LINE__, "%s: %s", patch, err.msg);
    if (w->r.mistyped.n > 0)
        return w->r.mistyped;
    if (w->r.n_conflicts > 0)
        return BH_S("conflict");
    w->live = w->r.obj;
    return bh_jv_text(w->a, &w->live, BH_JSON_SORTED);
}

static struct bh_str owners(struct world *w)
{
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < w->m.n; i++) {
        bh_buf_addf(&b, "%s%.*s:", i ? " " : "", BH_SF(w->m.p[i].manager));
        bh_fset_encode(w->m.p[i].set, &b);
    }
    return bh_str_dup(w->a, bh_buf_str(&b));
}

BH_TEST(apply_owns_what_it_sends_and_gives_up_what_it_leaves_out)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct world w = world_new(a, "ConfigMap");

    BH_STREQ(apply(&w, "one", "{\"data\":{\"a\":\"1\",\"b\":\"2\"}}"),
             "{\"data\":{\"a\":\"1\",\"b\":\"2\"}}");
    BH_STREQ(apply(&w, "two", "{\"data\":{\"b\":\"2\",\"c\":\"3\"}}"),
             "{\"data\":{\"a\":\"1\",\"b\":\"2\",\"c\":\"3\"}}");
    BH_STREQ(owners(&w), "one:{\"f:data\":{\"f:a\":{},\"f:b\":{}}} "
                         "two:{\"f:data\":{\"f:b\":{},\"f:c\":{}}}");
    /* a is nobody's now; b is still the other's */
    BH_STREQ(apply(&w, "one", "{}"), "{\"data\":{\"b\":\"2\",\"c\":\"3\"}}");
    BH_STREQ(owners(&w), "two:{\"f:data\":{\"f:b\":{},\"f:c\":{}}}");
    BH_CHECK(!w.r.unchanged);
    BH_STREQ(apply(&w, "two", "{\"data\":{\"b\":\"2\",\"c\":\"3\"}}"),
             "{\"data\":{\"b\":\"2\",\"c\":\"3\"}}");
    BH_CHECK(w.r.unchanged);
}

BH_TEST(apply_conflicts_unless_forced)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct world w = world_new(a, "ConfigMap");
    struct bh_str before;

    (void)apply(&w, "one", "{\"data\":{\"a\":\"1\",\"b\":\"2\"}}");
    before = owners(&w);
    BH_STREQ(apply(&w, "two", "{\"data\":{\"a\":\"9\"}}"), "conflict");
    BH_EQ(w.r.n_conflicts, 1);
    BH_STREQ(w.r.conflicts[0].by.manager, "one");
    BH_STREQ(owners(&w), before.p);
    w.force = true;
    BH_STREQ(apply(&w, "two", "{\"data\":{\"a\":\"9\"}}"), "{\"data\":{\"a\":\"9\",\"b\":\"2\"}}");
    BH_STREQ(owners(&w), "one:{\"f:data\":{\"f:b\":{}}} two:{\"f:data\":{\"f:a\":{}}}");
}

BH_TEST(apply_merges_lists_by_key_in_the_appliers_order)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct world w = world_new(a, "Pod");

    (void)apply(&w, "one",
                "{\"spec\":{\"containers\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"}]}}");
    BH_STREQ(
        apply(&w, "two",
              "{\"spec\":{\"containers\":[{\"name\":\"c\"},{\"name\":\"n\"},{\"name\":\"a\"}]}}"),
        "{\"spec\":{\"containers\":[{\"name\":\"b\"},{\"name\":\"c\"},{\"name\":\"n\"},{"
        "\"name\":\"a\"}]}}");
    /* An item goes when its last owner leaves it out. */
    BH_STREQ(apply(&w, "two", "{\"spec\":{\"containers\":[{\"name\":\"c\"}]}}"),
             "{\"spec\":{\"containers\":[{\"name\":\"b\"},{\"name\":\"c\"},{\"name\":\"a\"}]}}");
    /* An atomic list is owned as a whole. */
    (void)apply(&w, "t", "{\"spec\":{\"tolerations\":[{\"key\":\"k\"}]}}");
    BH_STREQ(apply(&w, "u", "{\"spec\":{\"tolerations\":[{\"key\":\"l\"}]}}"), "conflict");
}

BH_TEST(apply_adopts_what_nobody_owned)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct world w = world_new(a, "ConfigMap");

    BH_CHECK(bh_jv_parse(a, BH_S("{\"data\":{\"a\":\"1\"}}"), NULL, &w.live, NULL) == 0);
    BH_STREQ(apply(&w, "one", "{\"data\":{\"a\":\"2\"}}"), "conflict");
    BH_STREQ(w.r.conflicts[0].by.manager, "before-first-apply");
}

BH_TEST(apply_keeps_items_without_their_key)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct world w = world_new(a, "Pod");

    /* What is always written has a default in the schema; whether it will do is for validation. */
    BH_STREQ(apply(&w, "one", "{\"spec\":{\"containers\":[{}]}}"),
             "{\"spec\":{\"containers\":[{}]}}");
    BH_EQ(w.m.n, 1);
}

BH_TEST(apply_checks_the_document)
{
    static const struct {
        const char *patch, *want;
    } t[] = {
        {"{\"spec\":{\"nope\":1}}", ".spec.nope: field not declared in schema"},
        {"{\"spec\":[]}", ".spec: expected map, got &{[]}"},
        {"{\"metadata\":{\"labels\":{\"a\":1}}}",
         ".metadata.labels.a: expected string, got &value.valueUnstructured{Value:1}"},
        {"{\"metadata\":{\"labels\":{\"a\":{\"b\":[true,null,2.5,1000000]}}}}",
         ".metadata.labels.a: expected string, got &value.valueUnstructured{Value:map[string]"
         "interface {}{\"b\":[]interface {}{true, interface {}(nil), 2.5, 1e+06}}}"},
        {"{\"spec\":{\"hostNetwork\":\"yes\"}}", ".spec.hostNetwork: expected boolean, got &{yes}"},
        {"{\"spec\":{\"priority\":\"x\"}}",
         ".spec.priority: expected numeric (int or float), got string"},
        {"{\"spec\":{\"containers\":{}}}", ".spec.containers: expected list, got &{map[]}"},
        {"{\"spec\":{\"containers\":[{\"name\":\"a\"},{\"name\":\"a\"}]}}",
         ".spec.containers: duplicate entries for key [name=\"a\"]"},
        {"{\"spec\":{\"containers\":[\"a\"]}}",
         ".spec.containers: element 0: associative list with keys may not have non-map elements"},
        {"{\"metadata\":{\"finalizers\":[null]}}",
         ".metadata.finalizers: element 0: associative list without keys has an element that's an "
         "explicit null"},
        {"{\"spec\":{\"activeDeadlineSeconds\":[]},\"status\":{\"phase\":1}}",
         "errors:\n  .spec.activeDeadlineSeconds: expected numeric (int or float), got "
         "[]interface {}\n  .status.phase: expected string, got &value.valueUnstructured{Value:1}"},
    };
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct world w = world_new(a, "Pod");

        BH_STREQ(apply(&w, "one", t[i].patch), t[i].want);
        BH_EQ(w.m.n, 0);
    }
}

BH_TEST(apply_of_kubectl_takes_what_its_annotation_tells)
{
#define NOTE                                                                                       \
    "\"annotations\":{\"kubectl.kubernetes.io/last-applied-configuration\":"                       \
    "\"{\\\"apiVersion\\\":\\\"v1\\\",\\\"data\\\":{\\\"a\\\":\\\"1\\\"}}\"}"
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct world w = world_new(a, "ConfigMap");
    struct bh_apply u;

    BH_CHECK(bh_jv_parse(a, BH_S("{\"metadata\":{" NOTE "},\"data\":{\"a\":\"1\",\"b\":\"1\"}}"),
                         NULL, &w.live, NULL) == 0);
    /* b is not in the annotation */
    u = setup(&w, "kubectl", "{\"data\":{\"a\":\"2\",\"b\":\"2\"}}");
    BH_CHECK(bh_apply_run(&w.m, &u, a, &w.r, NULL) == 0 && w.r.n_conflicts == 1);
    BH_CHECK(!bh_apply_kubectl_allows(&u, a, &w.r));
    BH_EQ(w.r.n_conflicts, 1);
    u = setup(&w, "kubectl", "{\"data\":{\"a\":\"2\"}}");
    BH_CHECK(bh_apply_run(&w.m, &u, a, &w.r, NULL) == 0 && w.r.n_conflicts == 1);
    BH_CHECK(bh_apply_kubectl_allows(&u, a, &w.r));
    u.force = true;
    BH_CHECK(bh_apply_run(&w.m, &u, a, &w.r, NULL) == 0 && w.r.n_conflicts == 0);
    bh_apply_kubectl_annotate(&u, a, &w.r.obj);
    BH_STREQ(bh_jv_get_str(bh_jv_path(&w.r.obj, "metadata.annotations"),
                           "kubectl.kubernetes.io/last-applied-configuration"),
             "{\"data\":{\"a\":\"2\"}}\n");
#undef NOTE
}
