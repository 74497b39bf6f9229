/* Documents by their schema, as server-side apply needs them: checked, merged, and with parts taken
 * out.
 *
 * The recursion follows documents, whose depth the JSON reader has limited to BH_JSON_DEPTH_MAX.
 */
#include "api/engine.h"
#include "api/fset_int.h"
#include "api/patch_int.h"
#include "data/codec.h"

#include <stdlib.h>
#include <string.h>

/* ---- values as Go prints them ---- */

/* %#v of a value that was decoded from JSON. */
static void go_syntax(const struct bh_jv *v, struct bh_buf *out)
{
    double d = 0;

    switch ((enum bh_json_kind)v->kind) {
    case BH_JSON_BOOL:
        bh_buf_addz(out, v->b ? "true" : "false");
        break;
    case BH_JSON_NUM:
        (void)bh_json_num_double(v->s, &d);
        bh_go_print_float(d, out);
        break;
    case BH_JSON_STR:
        bh_go_quote(out, v->s);
        break;
    case BH_JSON_ARR:
        bh_buf_addz(out, "[]interface {}{");
        for (size_t i = 0; i < v->n_items; i++) {
            bh_buf_addz(out, i ? ", " : "");
            go_syntax(&v->items[i], out);
        }
        bh_buf_addc(out, '}');
        break;
    case BH_JSON_OBJ:
        bh_buf_addz(out, "map[string]interface {}{");
        for (size_t i = 0; i < v->n_members; i++) {
            bh_buf_addz(out, i ? ", " : "");
            bh_go_quote(out, v->members[i].key);
            bh_buf_addc(out, ':');
            go_syntax(&v->members[i].v, out);
        }
        bh_buf_addc(out, '}');
        break;
    default:
        bh_buf_addz(out, "interface {}(nil)");
        break;
    }
}

static const char *go_type(const struct bh_jv *v)
{
    switch ((enum bh_json_kind)v->kind) {
    case BH_JSON_BOOL:
        return "bool";
    case BH_JSON_NUM:
        return "float64";
    case BH_JSON_STR:
        return "string";
    case BH_JSON_ARR:
        return "[]interface {}";
    default:
        return "map[string]interface {}";
    }
}

/* ---- checking ---- */

#define ERRORS_MAX 100 /* more of them help nobody */

struct check {
    struct bh_arena *a;
    struct bh_buf path;
    struct bh_buf errors; /* each on a line of its own */
    size_t n;
};

static void begin_error(struct check *c)
{
    if (c->n++)
        bh_buf_addz(&c->errors, "\n  ");
    if (c->path.n) {
        bh_buf_adds(&c->errors, bh_buf_str(&c->path));
        bh_buf_addz(&c->errors, ": ");
    }
}

static void complain(struct check *c, const char *text)
{
    begin_error(c);
    bh_buf_addz(&c->errors, text);
}

static void expected(struct check *c, const char *what, const struct bh_jv *v)
{
    begin_error(c);
    bh_buf_addf(&c->errors, "expected %s, got &{", what);
    bh_go_print_jv(v, c->a, &c->errors);
    bh_buf_addc(&c->errors, '}');
}

static void check_scalar(struct check *c, const struct bh_field *f, const struct bh_jv *v)
{
    enum bh_json_kind k = (enum bh_json_kind)v->kind;

    switch ((enum bh_ftype)f->type) {
    case BH_T_STRING:
    case BH_T_BYTES:
        if (k == BH_JSON_STR)
            return;
        begin_error(c);
        bh_buf_addz(&c->errors, "expected string, got &value.valueUnstructured{Value:");
        go_syntax(v, &c->errors);
        bh_buf_addc(&c->errors, '}');
        return;
    case BH_T_BOOL:
        if (k != BH_JSON_BOOL)
            expected(c, "boolean", v);
        return;
    case BH_T_INT32:
    case BH_T_INT64:
    case BH_T_UINT32:
    case BH_T_DOUBLE:
        if (k != BH_JSON_NUM) {
            begin_error(c);
            bh_buf_addf(&c->errors, "expected numeric (int or float), got %s", go_type(v));
        }
        return;
    case BH_T_RAW: /* an object of its own, or any value at all */
        if (k != BH_JSON_OBJ && bh_str_ends(f->go_type, BH_S("RawExtension")))
            expected(c, "map", v);
        return;
    default: /* texts, or numbers that stand for them */
        if (k == BH_JSON_ARR || k == BH_JSON_OBJ)
            expected(c, "any scalar", v);
        return;
    }
}

static void check_value(struct check *c, struct bh_place p, const struct bh_jv *v);

static void check_below(struct check *c, const struct bh_pe *pe, struct bh_place p,
                        const struct bh_jv *v)
{
    size_t n = c->path.n;

    bh_pe_show(pe, &c->path);
    check_value(c, p, v);
    c->path.n = n;
}

/* Why an item has no path element. */
static bool item_named(struct check *c, const struct bh_field *f, enum bh_at at, size_t i,
                       const struct bh_jv *item, struct bh_pe *pe)
{
    enum bh_json_kind k = (enum bh_json_kind)item->kind;
    const char *why = NULL;

    if (at == BH_AT_SET && k == BH_JSON_OBJ)
        why = "associative list without keys has an element that's a map type";
    else if (at == BH_AT_SET && k == BH_JSON_ARR)
        why = "not supported: associative list with lists as elements";
    else if (at == BH_AT_SET && k == BH_JSON_NULL)
        why = "associative list without keys has an element that's an explicit null";
    else if (at == BH_AT_LISTMAP && k == BH_JSON_NULL)
        why = "associative list with keys may not have a null element";
    else if (at == BH_AT_LISTMAP && k != BH_JSON_OBJ)
        why = "associative list with keys may not have non-map elements";
    if (!why && bh_place_item(c->a, f, at, item, pe))
        return true;
    begin_error(c);
    bh_buf_addf(&c->errors, "element %zu: ", i);
    if (why) {
        bh_buf_addz(&c->errors, why);
        return false;
    }
    bh_buf_addz(&c->errors,
                "associative list with keys has an element that omits all key fields [");
    for (uint32_t k2 = 0; k2 < f->n_map_keys; k2++) {
        bh_buf_addz(&c->errors, k2 ? " " : "");
        bh_go_quote(&c->errors, f->map_keys[k2]);
    }
    bh_buf_addz(&c->errors, "] (and doesn't have default values for any key fields)");
    return false;
}

static void check_list(struct check *c, const struct bh_field *f, const struct bh_jv *v)
{
    struct bh_place item = {.f = f, .elem = true, .known = true};
    enum bh_at at = f->list_type == BH_LIST_SET   ? BH_AT_SET
                    : f->list_type == BH_LIST_MAP ? BH_AT_LISTMAP
                                                  : BH_AT_LEAF;
    struct bh_fset *seen = bh_fset_new(c->a);

    if (v->kind != BH_JSON_ARR) {
        expected(c, "list", v);
        return;
    }
    for (size_t i = 0; i < v->n_items && c->n < ERRORS_MAX; i++) {
        struct bh_pe pe = {.kind = BH_PE_INDEX, .index = (int64_t)i};

        if (at != BH_AT_LEAF) {
            if (!item_named(c, f, at, i, &v->items[i], &pe))
                return;
            if (bh_fset_find(seen, &pe)) {
                begin_error(c);
                bh_buf_addz(&c->errors, "duplicate entries for key ");
                bh_pe_show(&pe, &c->errors);
            }
            bh_fset_node(c->a, seen, &pe)->member = true;
        }
        check_below(c, &pe, item, &v->items[i]);
    }
}

static void check_members(struct check *c, struct bh_place p, enum bh_at at, const struct bh_jv *v)
{
    bool top = !p.f || (p.elem && (p.f->flags & BH_F_TYPED));

    if (v->kind != BH_JSON_OBJ) {
        expected(c, "map", v);
        return;
    }
    for (size_t i = 0; i < v->n_members && c->n < ERRORS_MAX; i++) {
        struct bh_pe pe = {.kind = BH_PE_FIELD, .name = v->members[i].key};
        struct bh_place m = bh_place_member(p, at, pe.name);

        if (!m.known) {
            size_t n = c->path.n;

            if (top && (bh_str_eqc(pe.name, "kind") || bh_str_eqc(pe.name, "apiVersion")))
                continue;
            bh_pe_show(&pe, &c->path);
            complain(c, "field not declared in schema");
            c->path.n = n;
            return; /* upstream looks no further in this one */
        }
        check_below(c, &pe, m, &v->members[i].v);
    }
}

static void check_value(struct check *c, struct bh_place p, const struct bh_jv *v)
{
    p = bh_place_unwrap(p);
    if (v->kind == BH_JSON_NULL || !p.known)
        return;
    if (!p.f)
        check_members(c, p, BH_AT_STRUCT, v);
    else if (!p.elem && p.f->shape == BH_LIST)
        check_list(c, p.f, v);
    else if (!p.elem && p.f->shape == BH_MAP)
        check_members(c, p, BH_AT_MAP, v);
    else if (p.f->type == BH_T_MESSAGE)
        check_members(c, p, BH_AT_STRUCT, v);
    else
        check_scalar(c, p.f, v);
}

struct bh_str bh_typed_check(const struct bh_type *t, const struct bh_jv *v, struct bh_arena *a)
{
    struct check c = {.a = a};
    struct bh_str out = {NULL, 0};

    check_value(&c, (struct bh_place){.t = t, .known = true}, v);
    if (c.n == 1)
        out = bh_str_dup(a, bh_buf_str(&c.errors));
    else if (c.n > 1)
        out = bh_str_fmt(a, "errors:\n  %.*s", BH_SF(bh_buf_str(&c.errors)));
    bh_buf_done(&c.path);
    bh_buf_done(&c.errors);
    return out;
}

/* ---- merging ---- */

static bool merge(struct bh_arena *a, struct bh_place p, const struct bh_jv *l,
                  const struct bh_jv *r, struct bh_jv *out);

static bool is_kind(const struct bh_jv *v, enum bh_json_kind k)
{
    return v && v->kind == (uint8_t)k;
}

static bool merge_members(struct bh_arena *a, struct bh_place p, enum bh_at at,
                          const struct bh_jv *l, const struct bh_jv *r, struct bh_jv *out)
{
    size_t nl = is_kind(l, BH_JSON_OBJ) ? l->n_members : 0,
           nr = is_kind(r, BH_JSON_OBJ) ? r->n_members : 0;
    struct bh_jv v;

    *out = BH_JV_OBJ;
    for (size_t i = 0; i < nl; i++) {
        const struct bh_jv_member *m = &l->members[i];

        if (merge(a, bh_place_member(p, at, m->key), &m->v, nr ? bh_jv_get(r, m->key) : NULL, &v))
            (void)bh_jv_set(a, out, m->key, v);
    }
    for (size_t i = 0; i < nr; i++) {
        const struct bh_jv_member *m = &r->members[i];

        if (nl && bh_jv_get(l, m->key))
            continue;
        if (merge(a, bh_place_member(p, at, m->key), NULL, &m->v, &v))
            (void)bh_jv_set(a, out, m->key, v);
    }
    return out->n_members > 0;
}

/* The items of a list and their places in it, sorted by path element. */
struct item {
    struct bh_pe pe;
    const struct bh_jv *v;
    size_t at;
    bool twice;  /* the same element comes again */
    bool merged; /* used already */
};

static int item_cmp(const void *x, const void *y)
{
    const struct item *p = x, *q = y;
    int c = bh_pe_cmp(&p->pe, &q->pe);

    return c ? c : p->at < q->at ? -1 : p->at > q->at;
}

struct items {
    struct item *sorted;    /* equal elements once */
    struct item **in_order; /* in the order of the list; several may point at one */
    const struct bh_jv **v;
    size_t n_sorted, n;
};

static struct items items_of(struct bh_arena *a, const struct bh_field *f, enum bh_at at,
                             const struct bh_jv *list)
{
    size_t all = is_kind(list, BH_JSON_ARR) ? list->n_items : 0, k = 0;
    struct item *tmp = bh_new_n(a, struct item, all + 1);
    struct items out = {.sorted = bh_new_n(a, struct item, all + 1),
                        .in_order = bh_new_n(a, struct item *, all + 1),
                        .v = bh_new_n(a, const struct bh_jv *, all + 1)};

    for (size_t i = 0; i < all; i++) {
        struct item *it = &tmp[out.n];

        *it = (struct item){.v = &list->items[i], .at = out.n};
        out.v[out.n] = it->v;
        out.n += bh_place_item(a, f, at, it->v, &it->pe);
    }
    if (out.n > 1)
        qsort(tmp, out.n, sizeof(*tmp), item_cmp);
    for (size_t i = 0; i < out.n; i++) {
        if (i && bh_pe_cmp(&tmp[i].pe, &out.sorted[k - 1].pe) == 0)
            out.sorted[k - 1].twice = true;
        else
            out.sorted[k++] = tmp[i];
        out.in_order[tmp[i].at] = &out.sorted[k - 1];
    }
    out.n_sorted = k;
    return out;
}

static struct item *find_item(const struct items *in, const struct bh_pe *pe)
{
    size_t lo = 0, hi = in->n_sorted;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int c = bh_pe_cmp(&in->sorted[mid].pe, pe);

        if (c == 0)
            return &in->sorted[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* What merges with the other side's item: of items that stand twice none. */
static const struct bh_jv *alone(const struct item *it)
{
    static const struct bh_jv null = {.kind = BH_JSON_NULL};

    return !it ? NULL : it->twice ? &null : it->v;
}

static void put_item(struct bh_arena *a, const struct bh_field *f, const struct bh_jv *l,
                     const struct bh_jv *r, struct bh_jv *out)
{
    struct bh_jv v;

    if (merge(a, (struct bh_place){.f = f, .elem = true, .known = true}, l, r, &v))
        (void)bh_jv_append(a, out, v);
}

/* The order: as in r, and what only l has stays where it was among the shared items. */
static bool merge_items(struct bh_arena *a, const struct bh_field *f, enum bh_at at,
                        const struct bh_jv *l, const struct bh_jv *r, struct bh_jv *out)
{
    struct items li = items_of(a, f, at, l), ri = items_of(a, f, at, r);
    const struct item **shared = bh_new_n(a, const struct item *, ri.n + 1);
    size_t n_shared = 0, s = 0, i = 0, j = 0;

    for (size_t k = 0; k < ri.n; k++)
        if (find_item(&li, &ri.in_order[k]->pe))
            shared[n_shared++] = ri.in_order[k];
    *out = BH_JV_ARR;
    while (i < li.n || j < ri.n) {
        const struct item *x = i < li.n ? li.in_order[i] : NULL;
        struct item *y = j < ri.n ? ri.in_order[j] : NULL,
                    *other = x ? find_item(&ri, &x->pe) : NULL;
        const struct item *want = s < n_shared ? shared[s] : NULL;

        if (x && y && other == y) {
            y->merged = true;
            put_item(a, f, alone(x), y->v, out);
            i++;
            j++;
            s += want != NULL;
            continue;
        }
        if (x && y && other && want && want != other) {
            i++; /* shared, but its turn comes later */
            continue;
        }
        if (x && !other) {
            put_item(a, f, li.v[i], NULL, out);
            i++;
            continue;
        }
        if (x && other->merged)
            i++;
        if (y) {
            y->merged = true;
            put_item(a, f, alone(find_item(&li, &y->pe)), y->v, out);
            j++;
            s += want == y;
        }
    }
    return out->n_items > 0;
}

static bool merge(struct bh_arena *a, struct bh_place p, const struct bh_jv *l,
                  const struct bh_jv *r, struct bh_jv *out)
{
    p = bh_place_unwrap(p);
    enum bh_at at = bh_place_at(p, l, r);

    if (at == BH_AT_LEAF || (bh_jv_is_empty(l) && bh_jv_is_empty(r))) {
        *out = r ? *r : *l;
        return true;
    }
    if (at == BH_AT_STRUCT || at == BH_AT_MAP)
        return merge_members(a, p, at, l, r, out);
    return merge_items(a, p.f, at, l, r, out);
}

struct bh_jv bh_typed_merge(const struct bh_type *t, const struct bh_jv *live,
                            const struct bh_jv *patch, struct bh_arena *a)
{
    struct bh_jv out;

    return merge(a, (struct bh_place){.t = t, .known = true}, live, patch, &out) ? out : BH_JV_OBJ;
}

/* ---- taking out ---- */

static struct bh_jv without(struct bh_arena *a, struct bh_place p, const struct bh_jv *v,
                            const struct bh_fset *set);

/* A container from which something was taken stays, empty. */
static struct bh_jv child_without(struct bh_arena *a, struct bh_place p, const struct bh_jv *v,
                                  const struct bh_fset *set)
{
    struct bh_jv out = without(a, p, v, set);

    if (out.kind == BH_JSON_NULL && v->kind == BH_JSON_OBJ)
        return BH_JV_OBJ;
    if (out.kind == BH_JSON_NULL && v->kind == BH_JSON_ARR)
        return BH_JV_ARR;
    return out;
}

static struct bh_jv members_without(struct bh_arena *a, struct bh_place p, enum bh_at at,
                                    const struct bh_jv *v, const struct bh_fset *set)
{
    struct bh_jv out = BH_JV_OBJ;
    bool touched = false;

    for (size_t i = 0; i < v->n_members; i++) {
        const struct bh_jv_member *m = &v->members[i];
        struct bh_pe pe = {.kind = BH_PE_FIELD, .name = m->key};
        const struct bh_fnode *n = bh_fset_find(set, &pe);

        if (n && n->member)
            continue;
        touched |= n != NULL;
        (void)bh_jv_set(a, &out, m->key,
                        n ? child_without(a, bh_place_member(p, at, m->key), &m->v, n->below)
                          : m->v);
    }
    return out.n_members > 0 || touched ? out : BH_JV_NULL;
}

static struct bh_jv items_without(struct bh_arena *a, const struct bh_field *f, enum bh_at at,
                                  const struct bh_jv *v, const struct bh_fset *set)
{
    struct bh_place item = {.f = f, .elem = true, .known = true};
    struct bh_jv out = BH_JV_ARR;
    bool touched = false;

    for (size_t i = 0; i < v->n_items; i++) {
        struct bh_pe pe;
        const struct bh_fnode *n =
            bh_place_item(a, f, at, &v->items[i], &pe) ? bh_fset_find(set, &pe) : NULL;

        if (n && n->member)
            continue;
        touched |= n != NULL;
        (void)bh_jv_append(a, &out,
                           n ? child_without(a, item, &v->items[i], n->below) : v->items[i]);
    }
    return out.n_items > 0 || touched ? out : BH_JV_NULL;
}

static struct bh_jv without(struct bh_arena *a, struct bh_place p, const struct bh_jv *v,
                            const struct bh_fset *set)
{
    p = bh_place_unwrap(p);
    enum bh_at at = bh_place_at(p, NULL, v);

    if (v->kind != BH_JSON_OBJ && v->kind != BH_JSON_ARR)
        return *v;
    if (v->kind == BH_JSON_OBJ && (at == BH_AT_STRUCT || at == BH_AT_MAP))
        return members_without(a, p, at, v, set);
    if (v->kind == BH_JSON_ARR && (at == BH_AT_SET || at == BH_AT_LISTMAP))
        return items_without(a, p.f, at, v, set);
    return BH_JV_NULL;
}

struct bh_jv bh_typed_remove(const struct bh_type *t, const struct bh_jv *v,
                             const struct bh_fset *set, struct bh_arena *a)
{
    return bh_fset_empty(set) ? *v
                              : child_without(a, (struct bh_place){.t = t, .known = true}, v, set);
}

/* ---- fields on the way ---- */

static struct bh_fset *with_named(struct bh_arena *a, struct bh_place p, const struct bh_fset *s)
{
    struct bh_fset *out = bh_fset_new(a);
    bool list = p.f && !p.elem && p.f->shape == BH_LIST,
         map = p.f && !p.elem && p.f->shape == BH_MAP;

    for (size_t i = 0; s && i < s->n; i++) {
        struct bh_fnode n = s->p[i];
        struct bh_place below = {0};

        if (n.pe.kind == BH_PE_FIELD && p.known && !list) {
            below = bh_place_member(p, map ? BH_AT_MAP : BH_AT_STRUCT, n.pe.name);
            if (n.below && !map && below.known)
                n.member = true;
        } else if (n.pe.kind == BH_PE_KEY && list) {
            below = (struct bh_place){.f = p.f, .elem = true, .known = true};
        }
        if (n.below)
            n.below = with_named(a, bh_place_unwrap(below), n.below);
        *bh_fset_node(a, out, &n.pe) = n;
    }
    return out;
}

struct bh_fset *bh_fset_with_named(const struct bh_type *t, const struct bh_fset *s,
                                   struct bh_arena *a)
{
    return with_named(a, (struct bh_place){.t = t, .known = true}, s);
}
