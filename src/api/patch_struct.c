/* The plain cases of merge and strategic merge patches, on the struct itself: what most clients
 * send sets fields, replaces lists and adds an item. All else goes through the document. */
#include "api/engine_int.h"
#include "api/patch.h"
#include "data/json.h"

#define SEEN_WORDS   4  /* a message has at most 256 fields */
#define MAP_KEYS_MAX 32 /* of one map in the patch */

struct ps {
    struct bh_arena *a;
    bool strategic;
};

/* All functions: true when the value was taken, false when the patch is none of the plain ones. */
static bool into_msg(struct ps *s, const struct bh_type *t, struct bh_json_rd *r, void *obj);

static bool decode_item(struct ps *s, const struct bh_field *f, struct bh_str raw, void *p)
{
    struct bh_strict strict = {0};

    return bh_msg_decode_json(f->msg, raw, p, s->a, &strict, NULL) == 0 && strict.texts.n == 0;
}

/* The items of an array, as text. */
static bool read_items(struct ps *s, struct bh_json_rd *r, struct bh_str_vec *ret)
{
    size_t cap = 0;
    int rc;

    if (bh_json_peek(r) != BH_JSON_ARR || bh_json_enter(r, NULL) < 0)
        return false;
    while ((rc = bh_json_next_item(r, NULL)) > 0) {
        struct bh_str raw;

        if (bh_json_skip(r, &raw, NULL) < 0)
            return false;
        bh_arena_grow(s->a, &ret->p, &cap, ret->n + 1, sizeof(*ret->p));
        ret->p[ret->n++] = raw;
    }
    return rc == 0;
}

static bool replace_list(struct ps *s, const struct bh_field *f, const struct bh_str_vec *items,
                         struct bh_vec *v)
{
    struct bh_vec out = {bh_arena_alloc_n(s->a, items->n, f->elem_size), items->n};

    for (size_t i = 0; i < items->n; i++)
        if (!decode_item(s, f, items->p[i], bh_at(out.p, i * f->elem_size)))
            return false;
    *v = out;
    return true;
}

/* One item that is told from the others by its key: it is merged into the one that is there, or is
 * the first of all. More than one, or a new one among others, may change the order of the list. */
static bool merge_list(struct ps *s, const struct bh_field *f, const struct bh_str_vec *items,
                       struct bh_vec *v)
{
    const struct bh_field *key = bh_type_field(f->msg, f->key);
    void *item, *found = NULL;
    struct bh_json_rd r;
    struct bh_str want;

    if (items->n != 1 || !key || key->type != BH_T_STRING || key->shape != BH_ONE)
        return false;
    item = bh_arena_alloc(s->a, f->elem_size);
    if (!decode_item(s, f, items->p[0], item))
        return false;
    want = *(const struct bh_str *)bh_cat(item, key->off);
    if (want.n == 0)
        return false;
    if (v->n == 0) {
        *v = (struct bh_vec){item, 1};
        return true;
    }
    for (size_t i = 0; i < v->n; i++) {
        void *have = bh_at(v->p, i * f->elem_size);

        if (!bh_str_eq(*(const struct bh_str *)bh_cat(have, key->off), want))
            continue;
        if (found)
            return false;
        found = have;
    }
    if (!found)
        return false;
    bh_json_rd_init(&r, items->p[0], s->a);
    return into_msg(s, f->msg, &r, found);
}

static bool into_list(struct ps *s, const struct bh_field *f, struct bh_json_rd *r, void *obj)
{
    struct bh_vec *v = bh_at(obj, f->off);
    struct bh_str_vec items = {NULL, 0};
    bool merge = s->strategic && (f->flags & BH_F_PATCH_MERGE);
    struct bh_str raw;

    if (f->type != BH_T_MESSAGE)
        return !merge && bh_json_peek(r) == BH_JSON_ARR && bh_json_skip(r, &raw, NULL) == 0 &&
               bh_field_decode_json(f, raw, obj, s->a, NULL) == 0;
    if ((f->msg->flags & BH_M_BARE) || !read_items(s, r, &items))
        return false;
    return merge ? merge_list(s, f, &items, v) : replace_list(s, f, &items, v);
}

static bool into_map(struct ps *s, const struct bh_field *f, struct bh_json_rd *r, void *obj)
{
    struct bh_str_map *m = bh_at(obj, f->off);
    struct bh_str keys[MAP_KEYS_MAX], key, value;
    size_t n = 0;
    int rc;

    if (f->type != BH_T_STRING || bh_json_peek(r) != BH_JSON_OBJ || bh_json_enter(r, NULL) < 0)
        return false;
    while ((rc = bh_json_next_key(r, &key, NULL)) > 0) {
        for (size_t i = 0; i < n; i++)
            if (bh_str_eq(keys[i], key))
                return false;
        if (n == MAP_KEYS_MAX || bh_json_peek(r) != BH_JSON_STR ||
            bh_json_take_str(r, &value, NULL) < 0)
            return false;
        keys[n++] = key;
        bh_str_map_put(s->a, m, bh_str_dup(s->a, key), bh_str_dup(s->a, value));
    }
    return rc == 0 && n > 0;
}

static bool into_field(struct ps *s, const struct bh_field *f, struct bh_json_rd *r, void *obj)
{
    void *p = bh_at(obj, f->off);
    struct bh_str raw;

    if (f->shape == BH_LIST)
        return into_list(s, f, r, obj);
    if (f->shape == BH_MAP)
        return into_map(s, f, r, obj);
    if (f->type == BH_T_MESSAGE) {
        if ((f->msg->flags & BH_M_BARE) ||
            (f->flags & (BH_F_PATCH_REPLACE | BH_F_PATCH_RETAIN_KEYS)))
            return false;
        if (bh_is_ptr_msg(f)) {
            void **pp = p;

            if (!*pp)
                *pp = bh_arena_alloc(s->a, f->msg->size);
            p = *pp;
        }
        return into_msg(s, f->msg, r, p);
    }
    if (f->type == BH_T_RAW)
        return false;
    return bh_json_skip(r, &raw, NULL) == 0 && bh_field_decode_json(f, raw, obj, s->a, NULL) == 0;
}

static bool into_msg(struct ps *s, const struct bh_type *t, struct bh_json_rd *r, void *obj)
{
    uint64_t seen[SEEN_WORDS] = {0};
    struct bh_str key;
    int rc;

    if (bh_json_peek(r) != BH_JSON_OBJ || bh_json_enter(r, NULL) < 0)
        return false;
    while ((rc = bh_json_next_key(r, &key, NULL)) > 0) {
        const struct bh_field_ref *ref = bh_type_find(t, key);
        size_t i = ref ? (size_t)(ref - t->refs) : 0;

        if (!ref || i >= 64 * SEEN_WORDS || (seen[i / 64] >> (i % 64) & 1))
            return false;
        seen[i / 64] |= (uint64_t)1 << (i % 64);
        if (!into_field(s, ref->f, r, bh_at(obj, ref->base)))
            return false;
    }
    return rc == 0;
}

bool bh_patch_struct(const struct bh_type *t, struct bh_str patch, bool strategic, void *obj,
                     struct bh_arena *a)
{
    struct ps s = {a, strategic};
    struct bh_json_rd r;

    /* Nulls delete and directives instruct; wherever these bytes stand, the document decides. */
    if (bh_str_find(patch, BH_S("null")) >= 0 || bh_str_find(patch, BH_S("\"$")) >= 0 ||
        bh_str_chr(patch, '\\', 0) >= 0)
        return false;
    patch = bh_str_dup(a, patch); /* what is decoded may point into it */
    bh_json_rd_init(&r, patch, a);
    return into_msg(&s, t, &r, obj) && bh_json_end(&r, NULL) == 0;
}
