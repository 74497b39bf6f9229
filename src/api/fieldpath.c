/* Documents to sets of paths, by the schema: which paths a document holds, and how two differ.
 *
 * Messages and maps are walked member by member unless they are atomic; lists only when they are
 * sets or maps of items. What is atomic, scalar or empty is a leaf. Where the schema ends (a raw
 * value) maps are walked and lists are leaves.
 */
#include "api/fset_int.h"

#include <string.h>

static bool is_atomic(const struct bh_field *f)
{
    if (f->flags & BH_F_GRANULAR)
        return false;
    if (f->shape == BH_MAP)
        return (f->flags & BH_F_ATOMIC_MAP) != 0;
    return (f->flags & BH_F_ATOMIC_STRUCT) ||
           (f->type == BH_T_MESSAGE && (f->msg->flags & BH_M_ATOMIC));
}

/* A bare message is its only field. */
struct bh_place bh_place_unwrap(struct bh_place p)
{
    const struct bh_field *f = p.f;

    if (f && f->type == BH_T_MESSAGE && (f->msg->flags & BH_M_BARE) &&
        (f->shape == BH_ONE || p.elem))
        return (struct bh_place){.f = bh_type_field(f->msg, f->msg->fields[0].json), .known = true};
    return p;
}

enum bh_at bh_place_at(struct bh_place p, const struct bh_jv *l, const struct bh_jv *r)
{
    const struct bh_field *f = p.f;

    if (!p.known) { /* the data says what it is */
        enum bh_json_kind k = (enum bh_json_kind)(r ? r : l)->kind;

        if (k == BH_JSON_NULL && l)
            k = (enum bh_json_kind)l->kind;
        return k == BH_JSON_OBJ ? BH_AT_MAP : BH_AT_LEAF;
    }
    if (!f)
        return BH_AT_STRUCT;
    if (!p.elem && f->shape == BH_LIST)
        return f->list_type == BH_LIST_SET   ? BH_AT_SET
               : f->list_type == BH_LIST_MAP ? BH_AT_LISTMAP
                                             : BH_AT_LEAF;
    if (!p.elem && f->shape == BH_MAP)
        return is_atomic(f) ? BH_AT_LEAF : BH_AT_MAP;
    if (f->type != BH_T_MESSAGE)
        return BH_AT_LEAF;
    /* struct=atomic on a map field would speak of the map; its values follow their message */
    if (p.elem ? (f->msg->flags & BH_M_ATOMIC) != 0 : is_atomic(f))
        return BH_AT_LEAF;
    return BH_AT_STRUCT;
}

struct bh_place bh_place_member(struct bh_place p, enum bh_at form, struct bh_str key)
{
    const struct bh_type *t = p.t;

    if (form == BH_AT_MAP)
        return p.known && p.f ? (struct bh_place){.f = p.f, .elem = true, .known = true}
                              : (struct bh_place){0};
    if (p.f)
        t = p.f->msg;
    const struct bh_field *f = t ? bh_type_field(t, key) : NULL;

    return f ? (struct bh_place){.f = f, .known = true} : (struct bh_place){0};
}

/* The path element of a list item. False when it has none of its keys. */
bool bh_place_item(struct bh_arena *a, const struct bh_field *f, enum bh_at form,
                   const struct bh_jv *item, struct bh_pe *pe)
{
    *pe = (struct bh_pe){.kind = form == BH_AT_SET ? BH_PE_VALUE : BH_PE_KEY};
    if (form == BH_AT_SET) {
        pe->v = *item;
        return true;
    }
    pe->v = BH_JV_OBJ;
    for (uint32_t i = 0; i < f->n_map_keys; i++) {
        struct bh_jv *v = bh_jv_get(item, f->map_keys[i]), def;

        if (!v) {
            const struct bh_field *kf = f->msg ? bh_type_field(f->msg, f->map_keys[i]) : NULL;
            struct bh_str text = kf ? kf->def : (struct bh_str){0};

            /* Upstream's schemas give a default to what is always written, which the kind's own
             * defaulting knows nothing of: the zero of its type. */
            if (kf && !text.p && kf->flags & BH_F_ALWAYS)
                text = kf->type == BH_T_INT32 || kf->type == BH_T_INT64 ? BH_S("0") : BH_S("\"\"");
            if (!text.p || bh_jv_parse(a, text, NULL, &def, NULL) < 0)
                continue;
            v = &def;
        }
        (void)bh_jv_set(a, &pe->v, f->map_keys[i], *v);
    }
    for (size_t i = 1; i < pe->v.n_members; i++)
        for (size_t j = i; j > 0 && bh_str_cmp(pe->v.members[j].key, pe->v.members[j - 1].key) < 0;
             j--) {
            struct bh_jv_member m = pe->v.members[j];

            pe->v.members[j] = pe->v.members[j - 1];
            pe->v.members[j - 1] = m;
        }
    return pe->v.n_members > 0;
}

bool bh_jv_is_empty(const struct bh_jv *v)
{
    if (!v || v->kind == BH_JSON_NULL)
        return true;
    return (v->kind == BH_JSON_OBJ && v->n_members == 0) ||
           (v->kind == BH_JSON_ARR && v->n_items == 0);
}

/* ---- one document ---- */

/* Sets are collected bottom up: each walk returns what lies below its place, and whether the place
 * is a member. */
struct found {
    struct bh_fset *below;
    bool member;
};

static struct found set_of(struct bh_arena *a, struct bh_place p, const struct bh_jv *v);

static void put(struct bh_arena *a, struct bh_fset *s, const struct bh_pe *pe, struct found in)
{
    if (!in.member && bh_fset_empty(in.below))
        return;
    struct bh_fnode *n = bh_fset_node(a, s, pe);

    n->member |= in.member;
    n->below = bh_fset_union(a, n->below, in.below);
}

static void members_of(struct bh_arena *a, struct bh_place p, enum bh_at form,
                       const struct bh_jv *v, struct bh_fset *s)
{
    for (size_t i = 0; i < v->n_members; i++) {
        const struct bh_jv_member *m = &v->members[i];
        struct bh_pe pe = {.kind = BH_PE_FIELD, .name = m->key};
        struct bh_place at = bh_place_member(p, form, m->key);
        struct found in = set_of(a, at, &m->v);

        if (form == BH_AT_MAP || !at.known || m->v.kind == BH_JSON_NULL ||
            (m->v.kind == BH_JSON_OBJ && m->v.n_members == 0))
            in.member = true;
        put(a, s, &pe, in);
    }
}

static void items_of(struct bh_arena *a, struct bh_place p, enum bh_at form, const struct bh_jv *v,
                     struct bh_fset *s)
{
    struct bh_fset *seen = bh_fset_new(a), *twice = bh_fset_new(a);
    struct bh_pe pe;

    for (size_t i = 0; i < v->n_items; i++) {
        if (!bh_place_item(a, p.f, form, &v->items[i], &pe))
            continue;
        if (bh_fset_find(seen, &pe))
            bh_fset_node(a, twice, &pe)->member = true;
        else
            bh_fset_node(a, seen, &pe)->member = true;
    }
    for (size_t i = 0; i < v->n_items; i++) {
        if (!bh_place_item(a, p.f, form, &v->items[i], &pe))
            continue;
        struct found in = {.member = true};

        if (!bh_fset_find(twice, &pe))
            in = set_of(a, (struct bh_place){.f = p.f, .elem = true, .known = true}, &v->items[i]);
        in.member = true;
        put(a, s, &pe, in);
    }
}

static struct found set_of(struct bh_arena *a, struct bh_place p, const struct bh_jv *v)
{
    struct found out = {0};

    p = bh_place_unwrap(p);
    enum bh_at form = bh_place_at(p, NULL, v);

    if (form == BH_AT_LEAF || (v->kind != BH_JSON_OBJ && v->kind != BH_JSON_ARR)) {
        out.member = form == BH_AT_LEAF || v->kind != BH_JSON_NULL;
        return out;
    }
    out.below = bh_fset_new(a);
    if (v->kind == BH_JSON_OBJ && (form == BH_AT_MAP || form == BH_AT_STRUCT))
        members_of(a, p, form, v, out.below);
    else if (v->kind == BH_JSON_ARR && (form == BH_AT_SET || form == BH_AT_LISTMAP))
        items_of(a, p, form, v, out.below);
    else
        out.member = true; /* of another kind than the schema says */
    return out;
}

struct bh_fset *bh_fset_of_jv(const struct bh_type *t, const struct bh_jv *v, struct bh_arena *a)
{
    struct found f = set_of(a, (struct bh_place){.t = t, .known = true}, v);

    return bh_fset_empty(f.below) ? NULL : f.below;
}

int bh_fset_of_json(const struct bh_type *t, struct bh_str doc, struct bh_arena *a,
                    struct bh_fset **ret, struct bh_err *err)
{
    struct bh_jv v;
    int rc = bh_jv_parse(a, bh_str_dup(a, doc), NULL, &v, err);

    *ret = NULL;
    if (rc < 0)
        return rc;
    *ret = bh_fset_of_jv(t, &v, a);
    return 0;
}

/* ---- two documents ---- */

struct three {
    struct found removed, modified, added;
};

static struct three differ(struct bh_arena *a, struct bh_place p, const struct bh_jv *l,
                           const struct bh_jv *r);

/* Sets of one level, made when first needed. */
struct level {
    struct bh_fset *removed, *modified, *added;
};

static void put_one(struct bh_arena *a, struct bh_fset **s, const struct bh_pe *pe, struct found in)
{
    if (!in.member && bh_fset_empty(in.below))
        return;
    if (!*s)
        *s = bh_fset_new(a);
    put(a, *s, pe, in);
}

static void put_three(struct bh_arena *a, struct level *lv, const struct bh_pe *pe, struct three in)
{
    put_one(a, &lv->removed, pe, in.removed);
    put_one(a, &lv->modified, pe, in.modified);
    put_one(a, &lv->added, pe, in.added);
}

static void differ_members(struct bh_arena *a, struct bh_place p, enum bh_at form,
                           const struct bh_jv *l, const struct bh_jv *r, struct level *lv)
{
    size_t nl = l && l->kind == BH_JSON_OBJ ? l->n_members : 0,
           nr = r && r->kind == BH_JSON_OBJ ? r->n_members : 0;

    for (size_t i = 0; i < nl; i++) {
        struct bh_pe pe = {.kind = BH_PE_FIELD, .name = l->members[i].key};
        const struct bh_jv *other = nr ? bh_jv_get(r, pe.name) : NULL;

        put_three(a, lv, &pe,
                  differ(a, bh_place_member(p, form, pe.name), &l->members[i].v, other));
    }
    for (size_t i = 0; i < nr; i++) {
        struct bh_pe pe = {.kind = BH_PE_FIELD, .name = r->members[i].key};

        if (!nl || !bh_jv_get(l, pe.name))
            put_three(a, lv, &pe,
                      differ(a, bh_place_member(p, form, pe.name), NULL, &r->members[i].v));
    }
}

/* The items of a list with their path elements, sorted so that equal ones stand together. */
struct item {
    struct bh_pe pe;
    const struct bh_jv *v;
};

static struct item *items_sorted(struct bh_arena *a, const struct bh_field *f, enum bh_at form,
                                 const struct bh_jv *v, size_t *ret_n)
{
    size_t n = 0, all = v && v->kind == BH_JSON_ARR ? v->n_items : 0;
    struct item *out = bh_new_n(a, struct item, all + 1);

    for (size_t i = 0; i < all; i++) {
        struct item it = {.v = &v->items[i]};
        size_t lo = 0, hi = n;

        if (!bh_place_item(a, f, form, it.v, &it.pe))
            continue;
        while (lo < hi) { /* after its equals: their order is kept */
            size_t mid = (lo + hi) / 2;

            if (bh_pe_cmp(&out[mid].pe, &it.pe) <= 0)
                lo = mid + 1;
            else
                hi = mid;
        }
        memmove(&out[lo + 1], &out[lo], (n - lo) * sizeof(*out));
        out[lo] = it;
        n++;
    }
    *ret_n = n;
    return out;
}

static size_t run_of(const struct item *it, size_t i, size_t n)
{
    size_t k = i + 1;

    while (k < n && bh_pe_cmp(&it[k].pe, &it[i].pe) == 0)
        k++;
    return k - i;
}

/* Doubles of one key count as one leaf. */
static void differ_run(struct bh_arena *a, struct bh_place p, const struct bh_pe *pe,
                       const struct item *l, size_t nl, const struct item *r, size_t nr,
                       struct level *lv)
{
    const struct bh_place at = {.f = p.f, .elem = true, .known = true};
    const struct found leaf = {.member = true};
    bool same = nl == nr;

    if (nl <= 1 && nr <= 1) {
        put_three(a, lv, pe, differ(a, at, nl ? l->v : NULL, nr ? r->v : NULL));
        return;
    }
    for (size_t i = 0; same && i < nl; i++)
        same = bh_jv_eq(l[i].v, r[i].v);
    if (nl >= 2 && nr >= 2) {
        if (!same)
            put_one(a, &lv->modified, pe, leaf);
    } else if (nl >= 2) {
        if (nr)
            put_three(a, lv, pe, differ(a, at, NULL, r->v));
        put_one(a, &lv->removed, pe, leaf);
    } else {
        if (nl)
            put_three(a, lv, pe, differ(a, at, l->v, NULL));
        put_one(a, &lv->added, pe, leaf);
    }
}

static void differ_items(struct bh_arena *a, struct bh_place p, enum bh_at form,
                         const struct bh_jv *l, const struct bh_jv *r, struct level *lv)
{
    size_t nl, nr, i = 0, j = 0;
    struct item *x = items_sorted(a, p.f, form, l, &nl), *y = items_sorted(a, p.f, form, r, &nr);

    while (i < nl || j < nr) {
        int c = i >= nl ? 1 : j >= nr ? -1 : bh_pe_cmp(&x[i].pe, &y[j].pe);
        size_t kl = c <= 0 ? run_of(x, i, nl) : 0, kr = c >= 0 ? run_of(y, j, nr) : 0;

        differ_run(a, p, c <= 0 ? &x[i].pe : &y[j].pe, x + i, kl, y + j, kr, lv);
        i += kl;
        j += kr;
    }
}

/* l == NULL: added, r == NULL: removed; not both. */
static struct three differ(struct bh_arena *a, struct bh_place p, const struct bh_jv *l,
                           const struct bh_jv *r)
{
    struct level lv = {0};
    struct three out = {0};

    p = bh_place_unwrap(p);
    enum bh_at form = bh_place_at(p, l, r);
    bool leaf = form == BH_AT_LEAF || (bh_jv_is_empty(l) && bh_jv_is_empty(r));

    if (leaf && l && r) {
        out.modified.member = !bh_jv_eq(l, r);
        return out;
    }
    if (!leaf) {
        if (form == BH_AT_SET || form == BH_AT_LISTMAP)
            differ_items(a, p, form, l, r, &lv);
        else
            differ_members(a, p, form, l, r, &lv);
    }
    out = (struct three){{lv.removed, !r}, {lv.modified, false}, {lv.added, !l}};
    return out;
}

void bh_fset_compare_jv(const struct bh_type *t, const struct bh_jv *l, const struct bh_jv *r,
                        struct bh_arena *a, struct bh_fset_diff *ret)
{
    struct three d = differ(a, (struct bh_place){.t = t, .known = true}, l, r);

    *ret = (struct bh_fset_diff){d.removed.below, d.modified.below, d.added.below};
}

int bh_fset_compare(const struct bh_type *t, struct bh_str old_doc, struct bh_str new_doc,
                    struct bh_arena *a, struct bh_fset_diff *ret, struct bh_err *err)
{
    struct bh_jv l, r;
    int rc = bh_jv_parse(a, bh_str_dup(a, old_doc), NULL, &l, err);

    *ret = (struct bh_fset_diff){0};
    if (rc == 0)
        rc = bh_jv_parse(a, bh_str_dup(a, new_doc), NULL, &r, err);
    if (rc < 0)
        return rc;
    bh_fset_compare_jv(t, &l, &r, a, ret);
    return 0;
}
