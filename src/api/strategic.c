/* Strategic merge patch over document trees, after upstream's algorithm.
 *
 * The order of merged lists is upstream's: items of the patch in the patch's order (or that of
 * $setElementOrder), the others in theirs, and between the two groups the order of the original
 * where both items stand in it, else the patch's item first.
 */
#include "api/apply.h"
#include "api/engine_int.h"
#include "api/patch.h"
#include "api/patch_int.h"
#include "base/limits.h"

#include <string.h>

#define DELETE_PREFIX "$deleteFromPrimitiveList"
#define ORDER_PREFIX  "$setElementOrder"
#define DIRECTIVE     "$patch"
#define RETAIN        "$retainKeys"

struct sm {
    struct bh_arena *a;
};

/* What the schema says of the value under a key: t is the type below (NULL: none known). */
struct meta {
    const struct bh_type *t;
    struct bh_str merge_key;
    bool merge, replace;
};

static int merge_map(struct sm *s, struct bh_jv *orig, struct bh_jv *patch, const struct bh_type *t,
                     const struct bh_field *map_of, struct bh_err *err);

/* Inside a map[string]M every key leads to M. */
static struct meta meta_of(const struct bh_type *t, const struct bh_field *map_of,
                           struct bh_str key)
{
    struct meta m = {0};
    const struct bh_field *f;

    if (map_of) {
        m.t = map_of->type == BH_T_MESSAGE ? map_of->msg : NULL;
        return m;
    }
    f = t ? bh_type_field(t, key) : NULL;
    if (!f)
        return m;
    m.t = f->type == BH_T_MESSAGE ? f->msg : NULL;
    m.merge_key = f->key;
    m.merge = (f->flags & BH_F_PATCH_MERGE) != 0;
    m.replace = (f->flags & BH_F_PATCH_REPLACE) != 0;
    return m;
}

static bool is_str(const struct bh_jv *v, const char *lit)
{
    return v && v->kind == BH_JSON_STR && bh_str_eqc(v->s, lit);
}

/* The directive of a map, which is shown beside it. */
static int bad_directive(struct sm *s, const struct bh_jv *in, struct bh_err *err)
{
    const struct bh_jv *v = bh_jv_getc(in, DIRECTIVE);
    struct bh_str what = v && v->kind == BH_JSON_STR ? v->s : BH_S("");
    BH_AUTO_BUF b = {.max = BH_BODY_BYTES_MAX};

    bh_go_print_jv(in, s->a, &b);
    return bh_err_set(err, BH_E_INTERNAL, "unknown patch type: %.*s in map: %.*s", BH_SF(what),
                      BH_SF(bh_buf_str(&b)));
}

/* Texts that show the values at fault are cut by the error's own size. */
static int no_merge_key(struct sm *s, const struct bh_jv *v, struct bh_str key, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = BH_BODY_BYTES_MAX};

    bh_go_print_jv(v, s->a, &b);
    return bh_err_set(err, BH_E_INTERNAL, "map: %.*s does not contain declared merge key: %.*s",
                      BH_SF(bh_buf_str(&b)), BH_SF(key));
}

static int bad_arg(const char *want, const struct bh_jv *got, struct bh_err *err)
{
    return bh_err_set(err, BH_E_INTERNAL, "expected a %s, but received a %s", want,
                      bh_json_kind_name(got ? (enum bh_json_kind)got->kind : BH_JSON_NULL));
}

/* ---- values that are taken over from the patch ---- */

static bool is_directive_key(struct bh_str k)
{
    return bh_str_eqc(k, DIRECTIVE) || bh_str_eqc(k, RETAIN) ||
           bh_str_starts(k, BH_S(DELETE_PREFIX "/")) || bh_str_starts(k, BH_S(ORDER_PREFIX "/"));
}

/* Removes nulls and directives: what is new has nothing to apply them to. False: v itself is a
 * directive, and goes. */
static bool clean(struct bh_jv *v)
{
    if (v->kind == BH_JSON_ARR) {
        for (size_t i = 0; i < v->n_items;)
            if (clean(&v->items[i]))
                i++;
            else
                bh_jv_remove(v, i);
        return true;
    }
    if (v->kind != BH_JSON_OBJ)
        return true;
    if (bh_jv_getc(v, DIRECTIVE))
        return false;
    for (size_t i = 0; i < v->n_members;) {
        if (v->members[i].v.kind == BH_JSON_NULL || is_directive_key(v->members[i].key) ||
            !clean(&v->members[i].v))
            (void)bh_jv_del(v, v->members[i].key);
        else
            i++;
    }
    return true;
}

/* ---- order of lists ---- */

/* Index in list of the item equal to v, or (with a merge key) of the one with the same key; -1. */
static ptrdiff_t index_in(const struct bh_jv *list, const struct bh_jv *v, struct bh_str key)
{
    const struct bh_jv *want = key.n ? bh_jv_get(v, key) : v;

    if (!want)
        return -1;
    for (size_t i = 0; i < list->n_items; i++) {
        const struct bh_jv *have = key.n ? bh_jv_get(&list->items[i], key) : &list->items[i];

        if (have && bh_jv_eq(have, want))
            return (ptrdiff_t)i;
    }
    return -1;
}

/* Sorts by the order given; an item that is not in it goes in front, as upstream's comparison has
 * it. */
static void order_by(struct bh_jv *list, const struct bh_jv *order, struct bh_str key)
{
    ptrdiff_t *at = bh_malloc((list->n_items + 1) * sizeof(*at));

    for (size_t i = 0; i < list->n_items; i++)
        at[i] = index_in(order, &list->items[i], key);
    for (size_t i = 1; i < list->n_items; i++)
        for (size_t j = i; j > 0 && !(at[j] >= 0 && at[j - 1] >= 0 && at[j] >= at[j - 1]); j--) {
            struct bh_jv v = list->items[j];
            ptrdiff_t n = at[j];

            list->items[j] = list->items[j - 1];
            list->items[j - 1] = v;
            at[j] = at[j - 1];
            at[j - 1] = n;
        }
    bh_free(at);
}

/* Puts merged into order: patch_order rules the items it names, server_order the others. */
static void normalize(struct sm *s, struct bh_jv *merged, const struct bh_jv *patch_order,
                      const struct bh_jv *server_order, struct bh_str key)
{
    struct bh_jv mine = BH_JV_ARR, server = BH_JV_ARR, out = BH_JV_ARR;
    size_t i = 0, j = 0;

    for (size_t k = 0; k < merged->n_items; k++) {
        bool named = index_in(patch_order, &merged->items[k], key) >= 0;

        (void)bh_jv_append(s->a, named ? &mine : &server, merged->items[k]);
    }
    order_by(&mine, patch_order, key);
    order_by(&server, server_order, key);
    while (i < server.n_items || j < mine.n_items) {
        bool left = j >= mine.n_items;

        if (!left && i < server.n_items) {
            ptrdiff_t l = index_in(server_order, &server.items[i], key),
                      r = index_in(server_order, &mine.items[j], key);

            left = l >= 0 && r >= 0 && l < r;
        }
        (void)bh_jv_append(s->a, &out, left ? server.items[i++] : mine.items[j++]);
    }
    *merged = out;
}

/* ---- lists ---- */

static int unlike_elements(struct sm *s, const struct bh_jv *x, const struct bh_jv *y,
                           struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = BH_BODY_BYTES_MAX};

    bh_buf_addc(&b, '[');
    bh_go_print_jv(x, s->a, &b);
    bh_buf_addc(&b, ' ');
    bh_go_print_jv(y, s->a, &b);
    bh_buf_addc(&b, ']');
    return bh_err_set(err, BH_E_INTERNAL, "list element types are not identical: %.*s",
                      BH_SF(bh_buf_str(&b)));
}

/* The kind all elements of both lists have; an error when they differ or are lists. */
static int element_kind(struct sm *s, const struct bh_jv *x, const struct bh_jv *y,
                        enum bh_json_kind *ret, struct bh_err *err)
{
    const struct bh_jv *both[2] = {x, y};

    *ret = BH_JSON_NONE;
    for (int n = 0; n < 2; n++)
        for (size_t i = 0; both[n] && i < both[n]->n_items; i++) {
            enum bh_json_kind k = (enum bh_json_kind)both[n]->items[i].kind;

            if (k == BH_JSON_ARR)
                return bh_err_set(err, BH_E_INVALID, "lists of lists are not supported");
            if (*ret != BH_JSON_NONE && k != *ret)
                return unlike_elements(s, x, y, err);
            *ret = k;
        }
    return 0;
}

static struct bh_jv copy_items(struct sm *s, const struct bh_jv *list)
{
    struct bh_jv out = BH_JV_ARR;

    for (size_t i = 0; i < list->n_items; i++)
        (void)bh_jv_append(s->a, &out, list->items[i]);
    return out;
}

/* Elements with a directive: deletes what they name in orig, leaves the others in *plain. */
static int special_elements(struct sm *s, struct bh_jv *orig, const struct bh_jv *patch,
                            struct bh_str key, struct bh_jv *plain, struct bh_err *err)
{
    bool replace = false;

    *plain = BH_JV_ARR;
    for (size_t i = 0; i < patch->n_items; i++) {
        const struct bh_jv *v = &patch->items[i], *dir = bh_jv_getc(v, DIRECTIVE);

        if (!dir) {
            (void)bh_jv_append(s->a, plain, *v);
        } else if (is_str(dir, "delete")) {
            if (!bh_jv_get(v, key))
                return no_merge_key(s, v, key, err);
            ptrdiff_t at;

            while ((at = index_in(orig, v, key)) >= 0)
                bh_jv_remove(orig, (size_t)at);
        } else if (is_str(dir, "replace")) {
            replace = true;
        } else if (is_str(dir, "merge")) {
            return bh_err_set(err, BH_E_INTERNAL,
                              "merging lists cannot yet be specified in the patch");
        } else {
            return bad_directive(s, v, err);
        }
    }
    if (replace) {
        *orig = *plain;
        *plain = BH_JV_ARR;
    }
    return 0;
}

static int merge_items(struct sm *s, struct bh_jv *into, const struct bh_jv *plain,
                       const struct meta *m, struct bh_err *err)
{
    for (size_t i = 0; i < plain->n_items; i++) {
        struct bh_jv *v = &plain->items[i];

        if (!bh_jv_get(v, m->merge_key))
            return no_merge_key(s, v, m->merge_key, err);
        ptrdiff_t at = index_in(into, v, m->merge_key);

        if (at < 0) {
            if (clean(v))
                (void)bh_jv_append(s->a, into, *v);
            continue;
        }
        int rc = merge_map(s, &into->items[at], v, m->t, NULL, err);

        if (rc < 0)
            return rc;
    }
    return 0;
}

static void delete_from(struct bh_jv *orig, const struct bh_jv *gone)
{
    for (size_t i = 0; i < orig->n_items;) {
        if (index_in(gone, &orig->items[i], BH_S("")) >= 0)
            bh_jv_remove(orig, i);
        else
            i++;
    }
}

/* orig becomes the merged list. */
static int merge_list(struct sm *s, struct bh_jv *orig, struct bh_jv *patch, const struct meta *m,
                      bool delete_list, struct bh_err *err)
{
    enum bh_json_kind kind;
    struct bh_jv merged, plain;
    int rc;

    if (!m->merge && !delete_list) {
        *orig = *patch;
        return 0;
    }
    if (!orig->n_items && !patch->n_items)
        return 0;
    rc = element_kind(s, orig, patch, &kind, err);
    if (rc < 0)
        return rc;
    if (kind != BH_JSON_OBJ) {
        if (delete_list) {
            delete_from(orig, patch);
            return 0;
        }
        merged = BH_JV_ARR;
        for (size_t i = 0; i < orig->n_items + patch->n_items; i++) {
            const struct bh_jv *v =
                i < orig->n_items ? &orig->items[i] : &patch->items[i - orig->n_items];

            if (index_in(&merged, v, BH_S("")) < 0)
                (void)bh_jv_append(s->a, &merged, *v);
        }
        normalize(s, &merged, patch, orig, m->merge_key);
        *orig = merged;
        return 0;
    }
    if (!m->merge_key.n)
        return bh_err_set(err, BH_E_INTERNAL, "cannot merge lists without merge key");
    rc = special_elements(s, orig, patch, m->merge_key, &plain, err);
    if (rc < 0)
        return rc;
    merged = copy_items(s, orig);
    rc = merge_items(s, &merged, &plain, m, err);
    if (rc < 0)
        return rc;
    normalize(s, &merged, &plain, orig, m->merge_key);
    *orig = merged;
    return 0;
}

/* ---- $retainKeys and $setElementOrder ---- */

static bool list_has_str(const struct bh_jv *list, struct bh_str s)
{
    for (size_t i = 0; i < list->n_items; i++)
        if (list->items[i].kind == BH_JSON_STR && bh_str_eq(list->items[i].s, s))
            return true;
    return false;
}

static int retain_keys(struct bh_jv *orig, struct bh_jv *patch, struct bh_err *err)
{
    const struct bh_jv *found = bh_jv_getc(patch, RETAIN);
    struct bh_jv keys;

    if (!found)
        return 0;
    keys = *found;
    (void)bh_jv_del(patch, BH_S(RETAIN));
    bool bad = keys.kind != BH_JSON_ARR;

    for (size_t i = 0; !bad && i < patch->n_members; i++) {
        struct bh_str k = patch->members[i].key;

        if (patch->members[i].v.kind != BH_JSON_NULL && !is_directive_key(k) &&
            !list_has_str(&keys, k))
            bad = true;
    }
    if (bad)
        return bh_err_set(err, BH_E_BAD_REQUEST, "invalid patch format of retainKeys");
    for (size_t i = 0; i < orig->n_members;) {
        if (list_has_str(&keys, orig->members[i].key))
            i++;
        else
            (void)bh_jv_del(orig, orig->members[i].key);
    }
    return 0;
}

static int bad_order(struct sm *s, const struct bh_jv *patch, const struct bh_jv *order,
                     struct bh_err *err)
{
    BH_AUTO_BUF p = {.max = BH_BODY_BYTES_MAX}, o = {.max = BH_BODY_BYTES_MAX};

    bh_go_print_jv(patch, s->a, &p);
    bh_go_print_jv(order, s->a, &o);
    return bh_err_set(err, BH_E_INTERNAL,
                      "The order in patch list:\n%.*s\n doesn't match %s list:\n%.*s\n",
                      BH_SF(bh_buf_str(&p)), ORDER_PREFIX, BH_SF(bh_buf_str(&o)));
}

/* The patch's items, without deletions, must stand in the order list in the same sequence. */
static int check_order(struct sm *s, const struct bh_jv *patch, const struct bh_jv *order,
                       struct bh_str key, struct bh_err *err)
{
    size_t o = 0;

    for (size_t i = 0; patch && i < patch->n_items; i++) {
        const struct bh_jv *v = &patch->items[i];

        if (key.n && v->kind != BH_JSON_OBJ)
            return bad_arg("map", v, err);
        if (key.n && bh_jv_getc(v, DIRECTIVE))
            continue;
        const struct bh_jv *want = key.n ? bh_jv_get(v, key) : v;

        for (;; o++) {
            if (o >= order->n_items)
                return bad_order(s, patch, order, err);
            const struct bh_jv *have = key.n ? bh_jv_get(&order->items[o], key) : &order->items[o];

            if (have && want && bh_jv_eq(have, want))
                break;
        }
        o++;
    }
    for (size_t i = 0; key.n && i < order->n_items; i++)
        if (!bh_jv_get(&order->items[i], key))
            return no_merge_key(s, &order->items[i], key, err);
    return 0;
}

/* Merges the list under key by its order list. */
static int one_order(struct sm *s, struct bh_jv *orig, struct bh_jv *patch, struct bh_str key,
                     struct bh_jv *order, const struct meta *m, struct bh_err *err)
{
    struct bh_jv *have = bh_jv_get(orig, key), *want = bh_jv_get(patch, key);
    struct bh_jv merged, before;
    int rc;

    if (order->kind != BH_JSON_ARR)
        return bad_arg("[]interface {}", order, err);
    if (have && have->kind != BH_JSON_ARR)
        return bad_arg("slice", have, err);
    if (want && want->kind != BH_JSON_ARR)
        return bad_arg("slice", want, err);
    rc = check_order(s, want, order, m->merge_key, err);
    if (rc < 0 || (!have && !want))
        return rc;
    before = have ? copy_items(s, have) : BH_JV_ARR;
    if (!have) {
        (void)clean(want); /* a list stays */
        merged = *want;
    } else {
        merged = *have;
        if (want)
            rc = merge_list(s, &merged, want, m, false, err);
        if (rc < 0)
            return rc;
    }
    normalize(s, &merged, order, &before, m->merge_key);
    (void)bh_jv_set(s->a, orig, key, merged);
    (void)bh_jv_del(patch, key);
    return 0;
}

/* "$setElementOrder/containers" to "containers"; false when malformed. */
static bool key_after(struct bh_str k, const char *prefix, struct bh_str *ret)
{
    size_t n = strlen(prefix);

    *ret = bh_str_sub(k, n + 1, k.n);
    return k.n > n + 1 && k.p[n] == '/' && bh_str_chr(*ret, '/', 0) < 0;
}

static int set_orders(struct sm *s, struct bh_jv *orig, struct bh_jv *patch,
                      const struct bh_type *t, const struct bh_field *map_of, struct bh_err *err)
{
    for (size_t i = 0; i < patch->n_members;) {
        struct bh_str k = patch->members[i].key, key;
        struct bh_jv order = patch->members[i].v;

        if (!bh_str_starts(k, BH_S(ORDER_PREFIX))) {
            i++;
            continue;
        }
        (void)bh_jv_del(patch, k);
        if (!key_after(k, ORDER_PREFIX, &key))
            return bh_err_set(err, BH_E_INTERNAL,
                              "expected a string in the form of " ORDER_PREFIX "/key");
        struct meta m = meta_of(t, map_of, key);
        int rc = one_order(s, orig, patch, key, &order, &m, err);

        if (rc < 0)
            return rc;
        i = 0; /* the list itself left the patch too */
    }
    return 0;
}

/* ---- maps ---- */

static int merge_value(struct sm *s, struct bh_jv *cur, struct bh_jv *v, struct bh_str key,
                       const struct bh_type *t, const struct bh_field *map_of, bool delete_list,
                       struct bh_err *err)
{
    struct meta m = meta_of(t, map_of, key);
    const struct bh_field *f = !map_of && t ? bh_type_field(t, key) : NULL;

    if (v->kind == BH_JSON_ARR)
        return merge_list(s, cur, v, &m, delete_list, err);
    if (v->kind != BH_JSON_OBJ) {
        *cur = *v;
        return 0;
    }
    if (m.replace) {
        *cur = *v;
        return 0;
    }
    return merge_map(s, cur, v, m.t, f && f->shape == BH_MAP ? f : NULL, err);
}

/* Depth is bounded by the parser's. */
static int merge_map(struct sm *s, struct bh_jv *orig, struct bh_jv *patch, const struct bh_type *t,
                     const struct bh_field *map_of, struct bh_err *err)
{
    const struct bh_jv *dir = bh_jv_getc(patch, DIRECTIVE);
    int rc;

    if (is_str(dir, "replace")) {
        (void)bh_jv_del(patch, BH_S(DIRECTIVE));
        *orig = *patch;
        return 0;
    }
    if (is_str(dir, "delete")) {
        *orig = BH_JV_OBJ;
        return 0;
    }
    if (dir)
        return bad_directive(s, patch, err);
    rc = retain_keys(orig, patch, err);
    if (rc == 0)
        rc = set_orders(s, orig, patch, t, map_of, err);
    for (size_t i = 0; rc == 0 && i < patch->n_members; i++) {
        struct bh_str key = patch->members[i].key;
        struct bh_jv *v = &patch->members[i].v;
        bool delete_list = bh_str_starts(key, BH_S(DELETE_PREFIX));

        if (delete_list && !key_after(key, DELETE_PREFIX, &key))
            return bh_err_set(err, BH_E_INTERNAL,
                              "expected a string in the form of " DELETE_PREFIX "/key");
        struct bh_jv *cur = bh_jv_get(orig, key);

        if (v->kind == BH_JSON_NULL) {
            (void)bh_jv_del(orig, key);
        } else if (!cur || cur->kind != v->kind) {
            if (delete_list)
                continue;
            if (clean(v))
                (void)bh_jv_set(s->a, orig, key, *v);
            else
                (void)bh_jv_del(orig, key);
        } else {
            rc = merge_value(s, cur, v, key, t, map_of, delete_list, err);
        }
    }
    return rc;
}

/* ---- types of the result ---- */

/* Upstream turns the result into the struct by reflection, not through JSON: 2.0 is an integer
 * there, int32 wraps, and errors have words of their own. */

static const char *reflect_kind(const struct bh_jv *v)
{
    switch ((enum bh_json_kind)v->kind) {
    case BH_JSON_BOOL:
        return "bool";
    case BH_JSON_NUM:
        return bh_jv_is_int(v) ? "int64" : "float64";
    case BH_JSON_STR:
        return "string";
    case BH_JSON_ARR:
        return "slice";
    default:
        return "map";
    }
}

static int fix_number(struct sm *s, const struct bh_field *f, struct bh_jv *v, struct bh_err *err)
{
    double d;
    int64_t i;

    if (!bh_json_num_i64(v->s, &i)) {
        if (!bh_json_num_double(v->s, &d) || !(d >= -9.2e18 && d <= 9.2e18))
            return 0; /* left to the decoder */
        i = (int64_t)d;
        if ((double)i < d || (double)i > d)
            return bh_err_set(err, BH_E_INVALID, "cannot convert float64 to %.*s",
                              BH_SF(bh_go_elem(f)));
        *v = bh_jv_i64(s->a, i);
    }
    if (f->type == BH_T_INT32 && (i < INT32_MIN || i > INT32_MAX))
        *v = bh_jv_i64(s->a, (int32_t)(uint32_t)(uint64_t)i);
    return 0;
}

static int fix_object(struct sm *s, const struct bh_type *t, struct bh_jv *o, struct bh_err *err);

static int fix_scalar(struct sm *s, const struct bh_field *f, struct bh_jv *v, struct bh_err *err)
{
    enum bh_json_kind k = (enum bh_json_kind)v->kind;
    const char *want = NULL;
    bool fits = false;

    switch ((enum bh_ftype)f->type) {
    case BH_T_STRING:
        want = "string";
        fits = k == BH_JSON_STR;
        break;
    case BH_T_BOOL:
        want = "bool";
        fits = k == BH_JSON_BOOL;
        break;
    case BH_T_INT32:
    case BH_T_INT64:
    case BH_T_UINT32:
        want = f->type == BH_T_INT32 ? "int32" : "int64";
        fits = k == BH_JSON_NUM;
        break;
    default: /* types that decode themselves, from JSON: their own errors */
        return 0;
    }
    if (fits)
        return k == BH_JSON_NUM ? fix_number(s, f, v, err) : 0;
    if (f->type == BH_T_STRING && k == BH_JSON_NUM && bh_jv_is_int(v))
        return bh_err_set(err, BH_E_INVALID, "cannot convert int64 to %.*s", BH_SF(bh_go_elem(f)));
    return bh_err_set(err, BH_E_INVALID, "unrecognized type: %s", want);
}

static int fix_value(struct sm *s, const struct bh_field *f, struct bh_jv *v, bool elem,
                     struct bh_err *err)
{
    int rc = 0;

    if (v->kind == BH_JSON_NULL)
        return 0;
    if (!elem && f->shape == BH_LIST) {
        if (v->kind != BH_JSON_ARR)
            return bh_err_set(err, BH_E_INVALID, "cannot restore slice from %s", reflect_kind(v));
        for (size_t i = 0; rc == 0 && i < v->n_items; i++)
            rc = fix_value(s, f, &v->items[i], true, err);
        return rc;
    }
    if (!elem && f->shape == BH_MAP) {
        if (v->kind != BH_JSON_OBJ)
            return bh_err_set(err, BH_E_INVALID, "cannot restore map from %s", reflect_kind(v));
        for (size_t i = 0; rc == 0 && i < v->n_members; i++)
            rc = fix_value(s, f, &v->members[i].v, true, err);
        return rc;
    }
    if (f->type != BH_T_MESSAGE)
        return fix_scalar(s, f, v, err);
    if (f->msg->flags & BH_M_BARE)
        return fix_value(s, &f->msg->fields[0], v, false, err);
    if (v->kind != BH_JSON_OBJ)
        return bh_err_set(err, BH_E_INVALID, "cannot restore struct from: %s", reflect_kind(v));
    return fix_object(s, f->msg, v, err);
}

static int fix_object(struct sm *s, const struct bh_type *t, struct bh_jv *o, struct bh_err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < o->n_members; i++) {
        const struct bh_field *f = bh_type_field(t, o->members[i].key);

        if (f)
            rc = fix_value(s, f, &o->members[i].v, false, err);
    }
    return rc;
}

int bh_apply_fit(const struct bh_type *t, struct bh_jv *obj, struct bh_arena *a, struct bh_err *err)
{
    struct sm s = {a};

    return fix_object(&s, t, obj, err);
}

int bh_patch_strategic(const struct bh_type *t, struct bh_str doc, struct bh_str patch,
                       struct bh_arena *a, struct bh_buf *out, struct bh_strict *strict,
                       struct bh_err *err)
{
    struct sm s = {a};
    struct bh_jv d, p;
    int rc = bh_patch_parse(patch, "map[string]interface {}", BH_JSON_OBJ, a, strict, &p, err);

    if (rc == 0)
        rc = bh_jv_parse(a, doc, NULL, &d, err);
    if (rc < 0)
        return rc;
    if (d.kind != BH_JSON_OBJ)
        return bh_err_set(err, BH_E_INTERNAL, "the document to be patched is not an object");
    if (p.kind == BH_JSON_OBJ)
        rc = merge_map(&s, &d, &p, t, NULL, err);
    if (rc == 0)
        rc = fix_object(&s, t, &d, err);
    if (rc < 0)
        return rc;
    bh_jv_write(out, &d, 0);
    return 0;
}
