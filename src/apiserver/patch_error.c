/* The tree is bounded in depth by the JSON reader; below DEPTH nothing is printed. */
#include "apiserver/patch_error.h"

#include "base/buf.h"
#include "data/json.h"

#include <stdlib.h>

#define DEPTH 32

static int by_key(const void *a, const void *b)
{
    return bh_str_cmp(((const struct bh_jv_member *)a)->key, ((const struct bh_jv_member *)b)->key);
}

static void sort(struct bh_jv *v, int depth)
{
    for (size_t i = 0; v->kind == BH_JSON_ARR && depth > 0 && i < v->n_items; i++)
        sort(&v->items[i], depth - 1);
    if (v->kind != BH_JSON_OBJ || v->n_members == 0 || depth == 0)
        return;
    qsort(v->members, v->n_members, sizeof(*v->members), by_key);
    for (size_t i = 0; i < v->n_members; i++)
        sort(&v->members[i].v, depth - 1);
}

static void print(const struct bh_jv *v, int depth, struct bh_buf *b)
{
    if (depth == 0)
        return;
    switch (v->kind) {
    case BH_JSON_NULL:
        bh_buf_addz(b, "<nil>");
        break;
    case BH_JSON_BOOL:
        bh_buf_addz(b, v->b ? "true" : "false");
        break;
    case BH_JSON_ARR:
        bh_buf_addc(b, '[');
        for (size_t i = 0; i < v->n_items; i++) {
            if (i > 0)
                bh_buf_addc(b, ' ');
            print(&v->items[i], depth - 1, b);
        }
        bh_buf_addc(b, ']');
        break;
    case BH_JSON_OBJ:
        bh_buf_addz(b, "map[");
        for (size_t i = 0; i < v->n_members; i++) {
            bh_buf_addf(b, "%s%.*s:", i > 0 ? " " : "", BH_SF(v->members[i].key));
            print(&v->members[i].v, depth - 1, b);
        }
        bh_buf_addc(b, ']');
        break;
    default:
        bh_buf_adds(b, v->s);
    }
}

struct bh_str bh_patch_go_map(struct bh_arena *a, struct bh_str json)
{
    BH_AUTO_BUF b = {0};
    struct bh_jv v;

    if (bh_jv_parse(a, json, NULL, &v, NULL) < 0)
        return json;
    sort(&v, DEPTH);
    print(&v, DEPTH, &b);
    return bh_str_dup(a, bh_buf_str(&b));
}
