/* How two decoded structs differ, as sets of paths: fieldpath.c without the detour through text.
 *
 * A field of a struct is absent, null or a value, as its JSON would be: what is `always` and
 * nil reads as null.
 */
#include "api/engine_int.h"
#include "api/fset_int.h"

#include <stdlib.h>

struct val {
    enum { ABSENT, NIL, VALUE } state;
    const void *p; /* at the value: the struct of a message, the vector of a list or map */
};

struct level {
    struct bh_fset *removed, *modified, *added;
};

struct ctx {
    struct bh_arena *a;
};

static struct val field_val(const struct bh_field *f, const void *obj)
{
    const void *p = obj ? bh_cat(obj, f->off) : NULL;
    bool set;

    if (!obj)
        return (struct val){ABSENT, NULL};
    set = f->flags & BH_F_ALWAYS ? bh_field_is_set(f, obj) : !bh_field_none(f, obj);
    if (f->shape != BH_ONE || f->off_has != UINT32_MAX || bh_is_ptr_msg(f) ||
        f->type == BH_T_TIME || f->type == BH_T_MICROTIME || f->type == BH_T_RAW ||
        f->type == BH_T_BYTES) {
        if (!set)
            return (struct val){f->flags & BH_F_ALWAYS ? NIL : ABSENT, NULL};
    } else if (!set && !(f->flags & BH_F_ALWAYS)) {
        return (struct val){ABSENT, NULL};
    }
    return (struct val){VALUE, bh_is_ptr_msg(f) ? *(const void *const *)p : p};
}

enum form { LEAF, STRUCT, MAP, LIST_SET, LIST_MAP };

static enum form form_of(const struct bh_field *f, bool elem)
{
    bool granular = (f->flags & BH_F_GRANULAR) != 0;

    if (!elem && f->shape == BH_LIST)
        return f->list_type == BH_LIST_SET   ? LIST_SET
               : f->list_type == BH_LIST_MAP ? LIST_MAP
                                             : LEAF;
    if (!elem && f->shape == BH_MAP)
        return (f->flags & BH_F_ATOMIC_MAP) && !granular ? LEAF : MAP;
    if (f->type != BH_T_MESSAGE)
        return LEAF;
    if (elem)
        return f->msg->flags & BH_M_ATOMIC ? LEAF : STRUCT;
    return !granular && ((f->flags & BH_F_ATOMIC_STRUCT) || (f->msg->flags & BH_M_ATOMIC)) ? LEAF
                                                                                           : STRUCT;
}

/* No member would be written. */
static bool struct_is_empty(const struct bh_type *t, const void *obj)
{
    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *f = &t->fields[i];

        if (f->flags & BH_F_INLINE ? !struct_is_empty(f->msg, bh_cat(obj, f->off))
                                   : field_val(f, obj).state != ABSENT)
            return false;
    }
    return true;
}

static bool is_empty(const struct bh_field *f, bool elem, struct val v)
{
    if (v.state != VALUE)
        return true;
    if (!elem && f->shape != BH_ONE)
        return ((const struct bh_vec *)v.p)->n == 0;
    return f->type == BH_T_MESSAGE && struct_is_empty(f->msg, v.p);
}

static bool leaf_equal(const struct bh_field *f, bool elem, struct val l, struct val r)
{
    if (l.state != r.state)
        return false;
    if (l.state != VALUE)
        return true;
    if (elem || f->shape == BH_ONE)
        return bh_elem_equal(f, l.p, r.p);
    const struct bh_vec *x = l.p, *y = r.p;
    bool same = x->n == y->n;

    for (size_t i = 0; same && i < x->n; i++) {
        const void *p = bh_cat(x->p, i * f->elem_size), *q = bh_cat(y->p, i * f->elem_size);

        same = (f->shape != BH_MAP ||
                bh_str_eq(*(const struct bh_str *)p, *(const struct bh_str *)q)) &&
               bh_elem_equal(f, bh_cat(p, f->value_off), bh_cat(q, f->value_off));
    }
    return same;
}

static void put(struct ctx *c, struct bh_fset **s, const struct bh_pe *pe, bool member,
                struct bh_fset *below)
{
    if (!member && bh_fset_empty(below))
        return;
    if (!*s)
        *s = bh_fset_new(c->a);
    struct bh_fnode *n = bh_fset_node(c->a, *s, pe);

    n->member |= member;
    n->below = bh_fset_union(c->a, n->below, below);
}

/* The very same value, parts that are shared included: a write of a status keeps the rest as it is.
 * False says nothing. */
static inline bool same_bytes(const struct bh_field *f, const void *l, const void *r)
{
    const void *p = bh_cat(l, f->off), *q = bh_cat(r, f->off);
    size_t n = f->shape != BH_ONE ? sizeof(struct bh_vec)
               : bh_is_ptr_msg(f) ? sizeof(void *)
                                  : f->elem_size;
    /* Strings, lists and pointers nearly always: not worth a call. */
    bool same = n == 16  ? memcmp(p, q, 16) == 0
                : n == 8 ? memcmp(p, q, 8) == 0
                         : memcmp(p, q, n) == 0;

    return same && (f->off_has == UINT32_MAX || bh_get_has(l, f) == bh_get_has(r, f));
}

/* Compares one place and files the result under pe in lv. */
static void differ(struct ctx *c, const struct bh_field *f, bool elem, struct val l, struct val r,
                   const struct bh_pe *pe, struct level *lv);

static void differ_members(struct ctx *c, const struct bh_type *t, const void *l, const void *r,
                           struct level *lv)
{
    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *f = &t->fields[i];

        if (f->flags & BH_F_INLINE) {
            differ_members(c, f->msg, l ? bh_cat(l, f->off) : NULL, r ? bh_cat(r, f->off) : NULL,
                           lv);
            continue;
        }
        if (!(f->flags & BH_F_ALWAYS) && (!l || bh_field_none(f, l)) && (!r || bh_field_none(f, r)))
            continue; /* absent on both sides */
        if (l && r && same_bytes(f, l, r))
            continue;
        struct val x = field_val(f, l), y = field_val(f, r);

        if (x.state == ABSENT && y.state == ABSENT)
            continue;
        struct bh_pe pe = {.kind = BH_PE_FIELD, .name = f->json};

        differ(c, f, false, x, y, &pe, lv);
    }
}

static void differ_entries(struct ctx *c, const struct bh_field *f, const struct bh_vec *l,
                           const struct bh_vec *r, struct level *lv)
{
    size_t i = 0, j = 0, nl = l ? l->n : 0, nr = r ? r->n : 0;

    while (i < nl || j < nr) {
        const void *x = i < nl ? bh_cat(l->p, i * f->elem_size) : NULL,
                   *y = j < nr ? bh_cat(r->p, j * f->elem_size) : NULL;
        int cmp = !x   ? 1
                  : !y ? -1
                       : bh_str_cmp(*(const struct bh_str *)x, *(const struct bh_str *)y);
        struct val vl = {ABSENT, NULL}, vr = {ABSENT, NULL};
        struct bh_pe pe = {.kind = BH_PE_FIELD};

        if (cmp <= 0) {
            vl = (struct val){VALUE, bh_cat(x, f->value_off)};
            pe.name = *(const struct bh_str *)x;
            i++;
        }
        if (cmp >= 0) {
            vr = (struct val){VALUE, bh_cat(y, f->value_off)};
            pe.name = *(const struct bh_str *)y;
            j++;
        }
        differ(c, f, true, vl, vr, &pe, lv);
    }
}

/* ---- lists of identified items ---- */

static struct bh_jv scalar_jv(struct ctx *c, const struct bh_field *f, const void *p)
{
    struct bh_jv v;

    switch ((enum bh_ftype)f->type) {
    case BH_T_STRING:
    case BH_T_QUANTITY:
        return bh_jv_str(*(const struct bh_str *)p);
    case BH_T_BOOL:
        return bh_jv_bool(*(const bool *)p);
    case BH_T_INT32:
        return bh_jv_i64(c->a, *(const int32_t *)p);
    case BH_T_INT64:
        return bh_jv_i64(c->a, *(const int64_t *)p);
    case BH_T_UINT32:
        return bh_jv_i64(c->a, *(const uint32_t *)p);
    default:
        break;
    }
    BH_AUTO_BUF b = {0};

    bh_elem_encode_json(f, p, &b);
    return bh_jv_parse(c->a, bh_str_dup(c->a, bh_buf_str(&b)), NULL, &v, NULL) < 0 ? BH_JV_NULL : v;
}

static bool key_jv(struct ctx *c, const struct bh_type *t, const void *item, struct bh_str name,
                   struct bh_jv *ret)
{
    const struct bh_field_ref *r = t ? bh_type_find(t, name) : NULL;

    if (!r)
        return false;
    struct val v = field_val(r->f, bh_cat(item, r->base));

    if (v.state == VALUE) {
        *ret = scalar_jv(c, r->f, v.p);
        return true;
    }
    return r->f->def.p && bh_jv_parse(c->a, r->f->def, NULL, ret, NULL) == 0;
}

static bool item_pe(struct ctx *c, const struct bh_field *f, enum form form, const void *item,
                    struct bh_pe *pe)
{
    *pe = (struct bh_pe){.kind = form == LIST_SET ? BH_PE_VALUE : BH_PE_KEY};
    if (form == LIST_SET) {
        pe->v = scalar_jv(c, f, item);
        return true;
    }
    pe->v = BH_JV_OBJ;
    for (uint32_t i = 0; i < f->n_map_keys; i++) {
        struct bh_jv v;

        if (key_jv(c, f->msg, item, f->map_keys[i], &v))
            (void)bh_jv_set(c->a, &pe->v, f->map_keys[i], v);
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

struct item {
    struct bh_pe pe;
    const void *p;
    size_t at; /* place in the list: equal items keep their order */
};

static int item_cmp(const void *x, const void *y)
{
    const struct item *p = x, *q = y;
    int cmp = bh_pe_cmp(&p->pe, &q->pe);

    return cmp ? cmp : p->at < q->at ? -1 : p->at > q->at;
}

static struct item *items_sorted(struct ctx *c, const struct bh_field *f, enum form form,
                                 const struct bh_vec *v, size_t *ret_n)
{
    size_t n = 0, all = v ? v->n : 0;
    struct item *out = bh_new_n(c->a, struct item, all + 1);

    for (size_t i = 0; i < all; i++) {
        out[n] = (struct item){.p = bh_cat(v->p, i * f->elem_size), .at = i};
        n += item_pe(c, f, form, out[n].p, &out[n].pe);
    }
    if (n > 1)
        qsort(out, n, sizeof(*out), item_cmp);
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

static void differ_run(struct ctx *c, const struct bh_field *f, const struct bh_pe *pe,
                       const struct item *l, size_t nl, const struct item *r, size_t nr,
                       struct level *lv)
{
    const struct val none = {ABSENT, NULL};
    struct val x = nl ? (struct val){VALUE, l->p} : none, y = nr ? (struct val){VALUE, r->p} : none;
    bool same = nl == nr;

    if (nl <= 1 && nr <= 1) {
        differ(c, f, true, x, y, pe, lv);
        return;
    }
    for (size_t i = 0; same && i < nl; i++)
        same = bh_elem_equal(f, l[i].p, r[i].p);
    if (nl >= 2 && nr >= 2) {
        if (!same)
            put(c, &lv->modified, pe, true, NULL);
    } else if (nl >= 2) {
        if (nr)
            differ(c, f, true, none, y, pe, lv);
        put(c, &lv->removed, pe, true, NULL);
    } else {
        if (nl)
            differ(c, f, true, x, none, pe, lv);
        put(c, &lv->added, pe, true, NULL);
    }
}

/* The same items in the same places: the usual case, which needs no keys unless an item differs. */
static bool lists_equal(const struct bh_field *f, const struct bh_vec *l, const struct bh_vec *r)
{
    if (!l || !r || l->n != r->n)
        return false;
    for (size_t i = 0; i < l->n; i++)
        if (!bh_elem_equal(f, bh_cat(l->p, i * f->elem_size), bh_cat(r->p, i * f->elem_size)))
            return false;
    return true;
}

static void differ_items(struct ctx *c, const struct bh_field *f, enum form form,
                         const struct bh_vec *l, const struct bh_vec *r, struct level *lv)
{
    size_t nl, nr, i = 0, j = 0;

    if (form == LIST_SET && lists_equal(f, l, r))
        return;
    struct item *x = items_sorted(c, f, form, l, &nl), *y = items_sorted(c, f, form, r, &nr);

    while (i < nl || j < nr) {
        int cmp = i >= nl ? 1 : j >= nr ? -1 : bh_pe_cmp(&x[i].pe, &y[j].pe);
        size_t kl = cmp <= 0 ? run_of(x, i, nl) : 0, kr = cmp >= 0 ? run_of(y, j, nr) : 0;

        differ_run(c, f, cmp <= 0 ? &x[i].pe : &y[j].pe, x + i, kl, y + j, kr, lv);
        i += kl;
        j += kr;
    }
}

static void differ(struct ctx *c, const struct bh_field *f, bool elem, struct val l, struct val r,
                   const struct bh_pe *pe, struct level *lv)
{
    /* a bare message is its only field */
    if (f->type == BH_T_MESSAGE && (f->msg->flags & BH_M_BARE) && (elem || f->shape == BH_ONE)) {
        const struct bh_field *b = bh_bare_field(f->msg);

        if (l.state == VALUE)
            l = field_val(b, l.p);
        if (r.state == VALUE)
            r = field_val(b, r.p);
        if (l.state != ABSENT || r.state != ABSENT)
            differ(c, b, false, l, r, pe, lv);
        return;
    }
    enum form form = form_of(f, elem);
    struct level in = {0};

    if (form == LEAF || (is_empty(f, elem, l) && is_empty(f, elem, r))) {
        if (l.state != ABSENT && r.state != ABSENT) {
            if (!leaf_equal(f, elem, l, r))
                put(c, &lv->modified, pe, true, NULL);
            return;
        }
    } else if (form == STRUCT) {
        differ_members(c, f->msg, l.state == VALUE ? l.p : NULL, r.state == VALUE ? r.p : NULL,
                       &in);
    } else if (form == MAP) {
        differ_entries(c, f, l.state == VALUE ? l.p : NULL, r.state == VALUE ? r.p : NULL, &in);
    } else {
        differ_items(c, f, form, l.state == VALUE ? l.p : NULL, r.state == VALUE ? r.p : NULL, &in);
    }
    put(c, &lv->removed, pe, r.state == ABSENT, in.removed);
    put(c, &lv->modified, pe, false, in.modified);
    put(c, &lv->added, pe, l.state == ABSENT, in.added);
}

void bh_fset_compare_structs(const struct bh_type *t, const void *old_obj, const void *new_obj,
                             struct bh_arena *a, struct bh_fset_diff *ret)
{
    struct ctx c = {a};
    struct level lv = {0};

    differ_members(&c, t, old_obj, new_obj, &lv);
    *ret = (struct bh_fset_diff){lv.removed, lv.modified, lv.added};
}
