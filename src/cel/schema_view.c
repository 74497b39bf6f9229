/* JSON seen through a schema: declared fields only, numbers and times by their declared type, lists
 * by their sort. */
#include "cel/schema_int.h"

#include "data/codec.h"

static struct bh_cel_value error_value(struct bh_arena *a, const char *why, struct bh_str what)
{
    struct bh_cel_run run = {.a = a, .pos = CEL_POS_NONE};

    return bh_cel_error(&run, "%s%.*s", why, BH_SF(what));
}

/* ---- objects
 * -------------------------------------------------------------------------------------------------------------
 */

struct view {
    union {
        struct bh_cel_map m;
        struct bh_cel_list l;
    };
    const struct schema_node *n;
    const struct bh_jv *v;
};

/* The field, when it is there: null counts as absent. */
static const struct bh_jv *field(const struct view *w, const struct schema_prop *p)
{
    const struct bh_jv *v = bh_jv_get(w->v, p->name);

    return v && v->kind != BH_JSON_NULL ? v : NULL;
}

static const struct schema_prop *prop_of(const struct view *w, struct bh_cel_value key)
{
    struct bh_str k = bh_cel_as_str(key);

    if (key.kind != BH_CEL_STRING)
        return NULL;
    for (size_t i = 0; i < w->n->nprops; i++)
        if (w->n->props[i].escaped.p && bh_str_eq(w->n->props[i].escaped, k))
            return &w->n->props[i];
    /* A reserved word may be written as it is. */
    for (size_t i = 0; i < w->n->nprops; i++)
        if (bh_str_eq(w->n->props[i].name, k))
            return &w->n->props[i];
    return NULL;
}

static bool object_get(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key,
                       struct bh_cel_value *ret)
{
    const struct view *w = m->data;
    const struct schema_prop *p = prop_of(w, key);
    const struct bh_jv *v = p ? field(w, p) : NULL;

    if (!v)
        return false;
    *ret = schema_view(run->a, p->node, v);
    return true;
}

static bool object_has(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key)
{
    const struct view *w = m->data;
    const struct schema_prop *p = prop_of(w, key);

    (void)run;
    return p && field(w, p);
}

static void object_at(struct bh_cel_run *run, const struct bh_cel_map *m, size_t i,
                      struct bh_cel_value *k, struct bh_cel_value *v)
{
    const struct view *w = m->data;

    for (size_t p = 0; p < w->n->nprops; p++) {
        const struct bh_jv *x = w->n->props[p].escaped.p ? field(w, &w->n->props[p]) : NULL;

        if (x && i-- == 0) {
            *k = bh_cel_str(w->n->props[p].escaped);
            *v = schema_view(run->a, w->n->props[p].node, x);
            return;
        }
    }
    *k = *v = bh_cel_null();
}

/* Declared fields compare by value, others as JSON. */
static bool object_equal(struct bh_cel_run *run, const struct bh_cel_map *a,
                         const struct bh_cel_map *b)
{
    const struct view *x = a->data, *y;

    if (b->ops != a->ops)
        return false;
    y = b->data;
    for (size_t i = 0; i < x->n->nprops; i++) {
        const struct bh_jv *v = field(x, &x->n->props[i]), *u = field(y, &x->n->props[i]);
        struct bh_cel_value r;

        if (!v != !u)
            return false;
        if (!v)
            continue;
        if (x->n->props[i].node->kind == NODE_NONE) {
            if (!bh_jv_eq(v, u))
                return false;
            continue;
        }
        r = cel_equal(run, schema_view(run->a, x->n->props[i].node, v),
                      schema_view(run->a, x->n->props[i].node, u));
        if (r.kind == BH_CEL_BOOL && !r.b)
            return false;
    }
    return true;
}

static const struct bh_cel_map_ops object_ops = {
    .get = object_get, .at = object_at, .has = object_has, .equal = object_equal};

static bool map_get(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key,
                    struct bh_cel_value *ret)
{
    const struct view *w = m->data;
    const struct bh_jv *v = key.kind == BH_CEL_STRING ? bh_jv_get(w->v, bh_cel_as_str(key)) : NULL;

    if (!v)
        return false;
    *ret = schema_view(run->a, w->n->item, v);
    return true;
}

static void map_at(struct bh_cel_run *run, const struct bh_cel_map *m, size_t i,
                   struct bh_cel_value *k, struct bh_cel_value *v)
{
    const struct view *w = m->data;

    *k = bh_cel_str(w->v->members[i].key);
    *v = schema_view(run->a, w->n->item, &w->v->members[i].v);
}

static const struct bh_cel_map_ops map_ops = {.get = map_get, .at = map_at};

static struct bh_cel_value map_view(struct bh_arena *a, const struct schema_node *n,
                                    const struct bh_jv *v)
{
    struct view *w = bh_new(a, struct view);

    if (v->kind != BH_JSON_OBJ)
        return error_value(a, "invalid data, expected a map for the provided schema, got ",
                           bh_s(bh_json_kind_name((enum bh_json_kind)v->kind)));
    w->n = n;
    w->v = v;
    w->m.data = w;
    if (n->kind == NODE_MAP) {
        w->m.ops = &map_ops;
        w->m.n = v->n_members;
    } else {
        w->m.ops = &object_ops;
        for (size_t i = 0; i < n->nprops; i++)
            w->m.n += n->props[i].escaped.p && field(w, &n->props[i]);
    }
    return (struct bh_cel_value){.kind = BH_CEL_MAP, .map = &w->m};
}

/* ---- lists
 * ----------------------------------------------------------------------------------------------------------------
 */

static struct bh_cel_value list_at(struct bh_cel_run *run, const struct bh_cel_list *l, size_t i)
{
    const struct view *w = l->data;

    return schema_view(run->a, w->n->item, &w->v->items[i]);
}

static bool same(struct bh_cel_run *run, struct bh_cel_value a, struct bh_cel_value b)
{
    struct bh_cel_value r = cel_equal(run, a, b);

    return r.kind == BH_CEL_BOOL && r.b;
}

static struct bh_cel_value list_of(const struct bh_cel_list *l)
{
    return (struct bh_cel_value){.kind = BH_CEL_LIST, .list = l};
}

static bool contains(struct bh_cel_run *run, const struct bh_cel_list *l, struct bh_cel_value v)
{
    for (size_t i = 0; i < l->n; i++)
        if (same(run, cel_list_at(run, list_of(l), i), v))
            return true;
    return false;
}

/* Sets are equal when they hold the same elements. */
static bool set_equal(struct bh_cel_run *run, const struct bh_cel_list *a,
                      const struct bh_cel_list *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!contains(run, b, cel_list_at(run, list_of(a), i)))
            return false;
    return true;
}

/* Union: the left in its order, then what is new. */
static struct bh_cel_value set_add(struct bh_cel_run *run, const struct bh_cel_list *a,
                                   const struct bh_cel_list *b)
{
    struct cel_list_builder out = {0};

    for (size_t i = 0; i < a->n; i++)
        cel_list_add(run->a, &out, cel_list_at(run, list_of(a), i));
    for (size_t i = 0; i < b->n; i++) {
        struct bh_cel_value v = cel_list_at(run, list_of(b), i);

        if (!contains(run, a, v))
            cel_list_add(run->a, &out, v);
    }
    return cel_list_done(run->a, &out);
}

/* Whether two elements of a keyed list have the same keys. Keys are fields of objects, seen through
 * the schema. */
static bool same_keys(struct bh_cel_run *run, const struct schema_node *n, struct bh_cel_value a,
                      struct bh_cel_value b)
{
    if (a.kind != BH_CEL_MAP || b.kind != BH_CEL_MAP)
        return false;
    for (size_t i = 0; i < n->keys->n_items; i++) {
        struct bh_cel_value k = bh_cel_str(n->keys->items[i].s), x, y;
        bool hx = cel_map_get(run, a.map, k, &x), hy = cel_map_get(run, b.map, k, &y);

        if (hx != hy || (hx && !same(run, x, y)))
            return false;
    }
    return true;
}

static bool keyed_equal(struct bh_cel_run *run, const struct bh_cel_list *a,
                        const struct bh_cel_list *b)
{
    const struct view *w = a->data;

    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        struct bh_cel_value v = cel_list_at(run, list_of(a), i), u;
        bool found = false;

        for (size_t k = 0; k < b->n && !found; k++) {
            u = cel_list_at(run, list_of(b), k);
            found = same_keys(run, w->n, v, u) && same(run, v, u);
        }
        if (!found)
            return false;
    }
    return true;
}

/* Merge: an element with the keys of one on the left takes its place. */
static struct bh_cel_value keyed_add(struct bh_cel_run *run, const struct bh_cel_list *a,
                                     const struct bh_cel_list *b)
{
    const struct view *w = a->data;
    struct cel_list_builder out = {0};

    for (size_t i = 0; i < a->n; i++)
        cel_list_add(run->a, &out, cel_list_at(run, list_of(a), i));
    for (size_t i = 0; i < b->n; i++) {
        struct bh_cel_value v = cel_list_at(run, list_of(b), i);
        size_t k = 0;

        while (k < out.n && !same_keys(run, w->n, out.v[k], v))
            k++;
        if (k < out.n)
            out.v[k] = v;
        else
            cel_list_add(run->a, &out, v);
    }
    return cel_list_done(run->a, &out);
}

static const struct bh_cel_list_ops list_ops[] = {
    [LIST_ATOMIC] = {.at = list_at},
    [LIST_SET] = {.at = list_at, .equal = set_equal, .add = set_add},
    [LIST_MAP] = {.at = list_at, .equal = keyed_equal, .add = keyed_add},
};

const struct bh_jv *schema_list_match(const struct schema_node *n, const struct bh_jv *list,
                                      const struct bh_jv *e)
{
    for (size_t i = 0; list && list->kind == BH_JSON_ARR && i < list->n_items; i++) {
        bool eq = n->keys != NULL;

        for (size_t k = 0; eq && k < n->keys->n_items; k++) {
            const struct bh_jv *x = bh_jv_get(e, n->keys->items[k].s);
            const struct bh_jv *y = bh_jv_get(&list->items[i], n->keys->items[k].s);

            eq = x && y ? bh_jv_eq(x, y) : !x && !y;
        }
        if (eq)
            return &list->items[i];
    }
    return NULL;
}

/* ---- scalars
 * --------------------------------------------------------------------------------------------------------------
 */

/* "3 days", "1h30m", "2w": numbers and units, blanks between them. */
static bool loose_duration(struct bh_str s, int64_t *ret)
{
    static const struct {
        const char *unit;
        int64_t ns;
    } units[] = {
        {"ns", 1},           {"us", 1000},         {"ms", 1000000},        {"s", 1000000000},
        {"m", 60000000000},  {"h", 3600000000000}, {"d", 86400000000000},  {"w", 604800000000000},
        {"sec", 1000000000}, {"min", 60000000000}, {"day", 86400000000000}};
    __int128 sum = 0;
    size_t i = 0;

    if (cel_duration_parse(s, ret))
        return true;
    while (i < s.n) {
        int64_t v = 0;
        size_t from, u;
        struct bh_str unit;

        while (i < s.n && s.p[i] == ' ')
            i++;
        from = i;
        while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9' && v < INT64_MAX / 100)
            v = v * 10 + (s.p[i++] - '0');
        if (i == from)
            return false;
        while (i < s.n && s.p[i] == ' ')
            i++;
        from = i;
        while (i < s.n && ((s.p[i] | 0x20) >= 'a' && (s.p[i] | 0x20) <= 'z'))
            i++;
        unit = bh_str_sub(s, from, i);
        for (u = 0; u < BH_COUNT(units); u++)
            if (bh_str_eqc(unit, units[u].unit) ||
                (unit.n > 1 && unit.p[unit.n - 1] == 's' &&
                 bh_str_eqc(bh_str_sub(unit, 0, unit.n - 1), units[u].unit)))
                break;
        if (u == BH_COUNT(units))
            return false;
        sum += (__int128)v * units[u].ns;
        if (sum > INT64_MAX)
            return false;
    }
    *ret = (int64_t)sum;
    return s.n > 0;
}

static struct bh_cel_value time_view(struct bh_arena *a, const struct schema_node *n,
                                     struct bh_str s)
{
    struct bh_cel_time t;

    if (n->kind == NODE_DATE) {
        if (cel_time_parse(bh_str_fmt(a, "%.*sT00:00:00Z", BH_SF(s)), &t))
            return cel_time_value(a, t.sec, 0, 0);
        return error_value(a, "failed to parse date: ", s);
    }
    if (s.n == 0)
        return cel_time_value(a, 0, 0, 0);
    if (cel_time_parse(s, &t) || cel_time_parse(bh_str_fmt(a, "%.*sZ", BH_SF(s)), &t))
        return cel_time_value(a, t.sec, t.nsec, t.offset_sec);
    return error_value(a, "failed to parse date-time: ", s);
}

static struct bh_cel_value string_view(struct bh_arena *a, const struct schema_node *n,
                                       struct bh_str s)
{
    struct bh_cel_value v = bh_cel_str(s);
    struct bh_str raw;
    int64_t ns;

    switch (n->kind) {
    case NODE_BYTES:
        if (bh_base64_decode(a, s, &raw, NULL) < 0)
            return error_value(a, "base64 decode failed of byte formatted string ", s);
        v = bh_cel_str(raw);
        v.kind = BH_CEL_BYTES;
        return v;
    case NODE_DATE:
    case NODE_DATETIME:
        return time_view(a, n, s);
    case NODE_DURATION:
        if (!loose_duration(s, &ns))
            return error_value(a, "invalid duration ", s);
        return (struct bh_cel_value){.kind = BH_CEL_DURATION, .i = ns};
    default:
        return v;
    }
}

static struct bh_cel_value list_view(struct bh_arena *a, const struct schema_node *n,
                                     const struct bh_jv *v)
{
    struct view *w = bh_new(a, struct view);

    w->n = n;
    w->v = v;
    w->l.n = v->n_items;
    w->l.ops = &list_ops[n->list];
    w->l.data = w;
    return (struct bh_cel_value){.kind = BH_CEL_LIST, .list = &w->l};
}

struct bh_cel_value schema_view(struct bh_arena *a, const struct schema_node *n,
                                const struct bh_jv *v)
{
    int64_t i;
    double d;

    if (v->kind == BH_JSON_NULL)
        return n->nullable
                   ? bh_cel_null()
                   : error_value(a, "invalid data, got null for schema without nullable", BH_S(""));
    switch ((enum node_kind)n->kind) {
    case NODE_NONE:
        return bh_cel_from_json(a, v);
    case NODE_BOOL:
        if (v->kind == BH_JSON_BOOL)
            return bh_cel_bool(v->b);
        break;
    case NODE_INT:
        if (v->kind == BH_JSON_NUM && bh_json_num_i64(v->s, &i))
            return bh_cel_int(i);
        break;
    case NODE_NUMBER:
        if (v->kind == BH_JSON_NUM && bh_json_num_double(v->s, &d))
            return bh_cel_double(d);
        break;
    case NODE_INT_OR_STRING:
        if (v->kind == BH_JSON_STR)
            return bh_cel_str(v->s);
        if (v->kind == BH_JSON_NUM && bh_json_num_i64(v->s, &i))
            return bh_cel_int(i);
        break;
    case NODE_LIST:
        if (v->kind == BH_JSON_ARR)
            return list_view(a, n, v);
        break;
    case NODE_MAP:
    case NODE_OBJECT:
        return map_view(a, n, v);
    default:
        if (v->kind == BH_JSON_STR)
            return string_view(a, n, v->s);
        break;
    }
    return error_value(a, "invalid data, got ",
                       bh_s(bh_json_kind_name((enum bh_json_kind)v->kind)));
}
