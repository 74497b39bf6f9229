/* Patches and managedFields from strangers. The first byte picks the form; the input is document
 * NUL patch. */
#include "api/apply.h"
#include "api/fieldpath.h"
#include "api/patch.h"
#include "base/arena.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void field_sets(struct bh_str x, struct bh_str y, struct bh_arena *a)
{
    BH_AUTO_BUF once = {0}, twice = {0};
    struct bh_fset *s, *t;
    struct bh_err err = {0};

    if (bh_fset_decode(x, a, &s, &err) < 0)
        return;
    bh_fset_encode(s, &once);
    bh_assert(bh_fset_decode(bh_buf_str(&once), a, &t, &err) == 0);
    bh_assert(bh_fset_equal(s, t));
    if (bh_fset_decode(y, a, &t, &err) < 0)
        return;
    struct bh_fset *both = bh_fset_union(a, s, t), *common = bh_fset_intersection(a, s, t);

    bh_assert(bh_fset_equal(bh_fset_union(a, bh_fset_difference(a, both, t), common),
                            bh_fset_union(a, bh_fset_difference(a, s, t), common)));
    bh_fset_encode(both, &twice);
}

static void ownership(const struct bh_type *t, struct bh_str x, struct bh_str y, struct bh_arena *a)
{
    struct bh_managed_update u = {
        .t = t,
        .old_doc = x,
        .new_doc = y,
        .self = {.manager = BH_S("m"), .operation = BH_S("Update"), .api_version = BH_S("v1")}};
    struct bh_managers m = {0};
    BH_AUTO_BUF out = {0};
    struct bh_err err = {0};

    if (bh_managers_update(&m, &u, a, NULL, &err) == 0)
        bh_managers_encode(&m, &out);
    (void)bh_managers_decode(x, a, &m, &err);
}

/* Twice by one manager, with something in between by another: never less than before. */
static void apply(const struct bh_type *t, struct bh_str x, struct bh_str y, struct bh_arena *a)
{
    struct bh_jv empty = BH_JV_OBJ, live = BH_JV_OBJ, first, second;
    struct bh_apply u = {.t = t, .empty = &empty, .live = &live, .patch = &first, .force = true};
    struct bh_managers m = {0};
    struct bh_apply_result r;
    BH_AUTO_BUF out = {0};

    if (bh_jv_parse(a, x, NULL, &first, NULL) < 0 || bh_jv_parse(a, y, NULL, &second, NULL) < 0 ||
        first.kind != BH_JSON_OBJ || second.kind != BH_JSON_OBJ)
        return;
    u.self = (struct bh_manager){
        .manager = BH_S("m"), .operation = BH_S("Apply"), .api_version = BH_S("v1")};
    for (int i = 0; i < 3; i++) {
        u.patch = i == 1 ? &second : &first;
        u.self.manager = i == 1 ? BH_S("n") : BH_S("m");
        if (bh_apply_run(&m, &u, a, &r, NULL) < 0 || r.mistyped.n > 0)
            return;
        bh_assert(r.n_conflicts == 0);
        live = r.obj;
    }
    (void)bh_apply_fit(t, &live, a, NULL);
    bh_managers_encode(&m, &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    const uint8_t *nul = n > 1 ? memchr(p + 1, 0, n - 1) : NULL;

    if (!nul)
        return 0;
    struct bh_str doc = {(const char *)p + 1, (size_t)(nul - p - 1)},
                  patch = {(const char *)nul + 1, n - (size_t)(nul - p) - 1};
    const struct bh_type *t = bh_kind_by_api_version(BH_S("v1"), BH_S("Pod"))->type;
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF out = {0};
    struct bh_strict strict = {0};
    struct bh_err err = {0};
    int rc = 0;

    switch (p[0] % 6) {
    case 0:
        rc = bh_patch_merge(doc, patch, a, &out, &strict, &err);
        break;
    case 1:
        rc = bh_patch_json(doc, patch, a, &out, &strict, &err);
        break;
    case 2:
        rc = bh_patch_strategic(t, doc, patch, a, &out, &strict, &err);
        break;
    case 3:
        field_sets(doc, patch, a);
        break;
    case 4:
        ownership(t, doc, patch, a);
        break;
    case 5:
        apply(t, doc, patch, a);
        break;
    }
    (void)rc;
    return 0;
}
