/* Values: equality, order, hashing, sizes, lists and maps, and the view of JSON. */
#include "cel/cel_int.h"

#include <math.h>
#include <string.h>

#include "cel/cel_opaque.h"
#include "data/json.h"

#define MAP_HASH_MIN 9 /* smaller maps are searched from the front */

/* ---- text
 * ----------------------------------------------------------------------------------------------------------
 */

size_t cel_rune(const char *s, size_t n, uint32_t *ret)
{
    const uint8_t *p = (const uint8_t *)s;
    uint32_t r, min;
    size_t len;

    *ret = 0xfffd;
    if (n == 0)
        return 0;
    if (p[0] < 0x80) {
        *ret = p[0];
        return 1;
    }
    if ((p[0] & 0xe0) == 0xc0) {
        len = 2;
        r = p[0] & 0x1f;
        min = 0x80;
    } else if ((p[0] & 0xf0) == 0xe0) {
        len = 3;
        r = p[0] & 0x0f;
        min = 0x800;
    } else if ((p[0] & 0xf8) == 0xf0) {
        len = 4;
        r = p[0] & 0x07;
        min = 0x10000;
    } else {
        return 1;
    }
    if (n < len)
        return 1;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 1;
        r = r << 6 | (p[i] & 0x3f);
    }
    if (r < min || r > 0x10ffff || (r >= 0xd800 && r < 0xe000))
        return 1;
    *ret = r;
    return len;
}

size_t cel_rune_put(uint32_t r, char out[4])
{
    if (r < 0x80) {
        out[0] = (char)r;
        return 1;
    }
    if (r < 0x800) {
        out[0] = (char)(0xc0 | r >> 6);
        out[1] = (char)(0x80 | (r & 0x3f));
        return 2;
    }
    if (r < 0x10000) {
        out[0] = (char)(0xe0 | r >> 12);
        out[1] = (char)(0x80 | (r >> 6 & 0x3f));
        out[2] = (char)(0x80 | (r & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | r >> 18);
    out[1] = (char)(0x80 | (r >> 12 & 0x3f));
    out[2] = (char)(0x80 | (r >> 6 & 0x3f));
    out[3] = (char)(0x80 | (r & 0x3f));
    return 4;
}

size_t cel_runes(const char *s, size_t n)
{
    size_t count = 0, i = 0;
    uint32_t r;

    while (i < n) {
        if ((uint8_t)s[i] < 0x80)
            i++;
        else
            i += cel_rune(s + i, n - i, &r);
        count++;
    }
    return count;
}

struct bh_cel_value cel_str_copy(struct bh_arena *a, struct bh_str s)
{
    return bh_cel_str(bh_str_dup(a, s));
}

struct bh_cel_value cel_strf(struct bh_cel_run *run, const char *fmt, ...)
{
    va_list ap;
    struct bh_str s;

    va_start(ap, fmt);
    s = bh_str_vfmt(run->a, fmt, ap);
    va_end(ap);
    return bh_cel_str(s);
}

/* ---- errors
 * ---------------------------------------------------------------------------------------------------------
 */

struct bh_cel_value bh_cel_error(struct bh_cel_run *run, const char *fmt, ...)
{
    struct cel_error *e = bh_new(run->a, struct cel_error);
    va_list ap;

    va_start(ap, fmt);
    e->msg = bh_str_vfmt(run->a, fmt, ap);
    va_end(ap);
    e->pos = run->pos;
    return (struct bh_cel_value){.kind = BH_CEL_ERROR, .p = e};
}

struct bh_cel_value cel_halt(struct bh_cel_run *run)
{
    static const struct cel_error halted = {
        BH_S_INIT("operation cancelled: actual cost limit exceeded"), CEL_POS_NONE};

    run->halted = true;
    return (struct bh_cel_value){.kind = BH_CEL_ERROR, .p = &halted};
}

struct bh_cel_value cel_err_overload(struct bh_cel_run *run)
{
    struct cel_error *e = bh_new(run->a, struct cel_error);

    e->msg = BH_S("no such overload");
    e->pos = run->pos;
    return (struct bh_cel_value){.kind = BH_CEL_ERROR, .p = e};
}

struct bh_cel_value cel_err_overload_fn(struct bh_cel_run *run, const char *fn,
                                        const struct bh_cel_value *args, unsigned n)
{
    struct bh_str s = BH_S("");

    for (unsigned i = 0; i < n; i++)
        s = bh_str_fmt(run->a, "%.*s%s%.*s", BH_SF(s), i ? ", " : "",
                       BH_SF(bh_cel_type_name(args[i])));
    return bh_cel_error(run, "no such overload: %s(%.*s)", fn, BH_SF(s));
}

struct bh_cel_value cel_err_conv(struct bh_cel_run *run, struct bh_cel_value v, const char *to)
{
    return bh_cel_error(run, "type conversion error from '%.*s' to '%s'",
                        BH_SF(bh_cel_type_name(v)), to);
}

struct bh_arena *bh_cel_run_arena(struct bh_cel_run *run)
{
    return run->a;
}

void bh_cel_run_charge(struct bh_cel_run *run, uint64_t cost)
{
    (void)cel_charge(run, cost);
}

/* ---- lists and maps
 * ---------------------------------------------------------------------------------------------- */

struct bh_cel_value cel_list_at(struct bh_cel_run *run, struct bh_cel_value l, size_t i)
{
    return l.list->v ? l.list->v[i] : l.list->ops->at(run, l.list, i);
}

void cel_list_add(struct bh_arena *a, struct cel_list_builder *b, struct bh_cel_value v)
{
    bh_arena_grow(a, &b->v, &b->cap, b->n + 1, sizeof(*b->v));
    b->v[b->n++] = v;
}

static const struct bh_cel_value no_values[1];

struct bh_cel_value cel_list_done(struct bh_arena *a, const struct cel_list_builder *b)
{
    struct bh_cel_list *l = bh_new(a, struct bh_cel_list);

    l->n = b->n;
    l->v = b->n ? b->v : no_values;
    return (struct bh_cel_value){.kind = BH_CEL_LIST, .list = l};
}

struct bh_cel_value bh_cel_list_new(struct bh_arena *a, const struct bh_cel_value *v, size_t n)
{
    struct cel_list_builder b = {bh_arena_memdup(a, v, n * sizeof(*v)), n, n};

    return cel_list_done(a, &b);
}

struct bh_cel_value cel_map_done(struct bh_arena *a, const struct bh_cel_value *k,
                                 const struct bh_cel_value *v, size_t n)
{
    struct bh_cel_map *m = bh_new(a, struct bh_cel_map);

    m->n = n;
    m->k = k;
    m->v = v;
    if (n >= MAP_HASH_MIN) {
        size_t size = 16;
        uint32_t *h;

        while (size < n * 2)
            size *= 2;
        h = bh_new_n(a, uint32_t, size);
        for (size_t i = 0; i < n; i++) {
            size_t s = cel_hash(k[i]) & (size - 1);

            while (h[s])
                s = (s + 1) & (size - 1);
            h[s] = (uint32_t)i + 1;
        }
        m->hash = h;
        m->hash_n = size;
    }
    return (struct bh_cel_value){.kind = BH_CEL_MAP, .map = m};
}

struct bh_cel_value bh_cel_map_new(struct bh_arena *a, const struct bh_cel_value *k,
                                   const struct bh_cel_value *v, size_t n)
{
    return cel_map_done(a, bh_arena_memdup(a, k, n * sizeof(*k)),
                        bh_arena_memdup(a, v, n * sizeof(*v)), n);
}

static bool key_equal(struct bh_cel_run *run, struct bh_cel_value a, struct bh_cel_value b)
{
    struct bh_cel_value r;

    if (a.kind == BH_CEL_STRING || b.kind == BH_CEL_STRING)
        return a.kind == b.kind && a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
    r = cel_equal(run, a, b);
    return r.kind == BH_CEL_BOOL && r.b;
}

ptrdiff_t cel_map_find(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key)
{
    if (m->hash) {
        for (size_t s = cel_hash(key) & (m->hash_n - 1); m->hash[s]; s = (s + 1) & (m->hash_n - 1))
            if (key_equal(run, m->k[m->hash[s] - 1], key))
                return (ptrdiff_t)m->hash[s] - 1;
        return -1;
    }
    for (size_t i = 0; i < m->n; i++)
        if (key_equal(run, m->k[i], key))
            return (ptrdiff_t)i;
    return -1;
}

bool cel_map_get(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key,
                 struct bh_cel_value *ret)
{
    ptrdiff_t i;

    if (m->ops)
        return m->ops->get(run, m, key, ret);
    i = cel_map_find(run, m, key);
    if (i >= 0)
        *ret = m->v[i];
    return i >= 0;
}

bool cel_map_has(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key)
{
    struct bh_cel_value v;

    if (m->ops && m->ops->has)
        return m->ops->has(run, m, key);
    return cel_map_get(run, m, key, &v);
}

void cel_map_at(struct bh_cel_run *run, const struct bh_cel_map *m, size_t i,
                struct bh_cel_value *k, struct bh_cel_value *v)
{
    if (m->ops) {
        m->ops->at(run, m, i, k, v);
        return;
    }
    *k = m->k[i];
    *v = m->v[i];
}

struct bh_cel_value cel_optional(struct bh_arena *a, struct bh_cel_value v)
{
    return (struct bh_cel_value){.kind = BH_CEL_OPTIONAL, .opt = bh_arena_memdup(a, &v, sizeof(v))};
}

struct bh_cel_value cel_optional_none(void)
{
    return (struct bh_cel_value){.kind = BH_CEL_OPTIONAL, .opt = NULL};
}

struct bh_cel_value cel_time_value(struct bh_arena *a, int64_t sec, int32_t nsec, int32_t off)
{
    struct bh_cel_time *t = bh_new(a, struct bh_cel_time);

    *t = (struct bh_cel_time){sec, nsec, off};
    return (struct bh_cel_value){.kind = BH_CEL_TIMESTAMP, .time = t};
}

/* ---- numbers across kinds
 * ---------------------------------------------------------------------------------------- */

static bool is_num(struct bh_cel_value v)
{
    return v.kind == BH_CEL_INT || v.kind == BH_CEL_UINT || v.kind == BH_CEL_DOUBLE;
}

static int cmp_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int cmp_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int cmp_double(double a, double b)
{
    return (a > b) - (a < b);
}

/* Upstream first compares the double with the range of the integer type, then converts the integer.
 */
static int cmp_num(struct bh_cel_value a, struct bh_cel_value b)
{
    if (a.kind == b.kind)
        return a.kind == BH_CEL_INT    ? cmp_i64(a.i, b.i)
               : a.kind == BH_CEL_UINT ? cmp_u64(a.u, b.u)
                                       : cmp_double(a.d, b.d);
    if (a.kind == BH_CEL_DOUBLE) {
        if (b.kind == BH_CEL_INT)
            return a.d < -9223372036854775808.0  ? -1
                   : a.d > 9223372036854775808.0 ? 1
                                                 : cmp_double(a.d, (double)b.i);
        return a.d < 0 ? -1 : a.d > 18446744073709551616.0 ? 1 : cmp_double(a.d, (double)b.u);
    }
    if (b.kind == BH_CEL_DOUBLE)
        return -cmp_num(b, a);
    if (a.kind == BH_CEL_INT)
        return a.i < 0 ? -1 : cmp_u64((uint64_t)a.i, b.u);
    return -cmp_num(b, a);
}

/* ---- equality and order
 * ------------------------------------------------------------------------------------------ */

/* Nesting of values is bounded: by JSON's depth, by the expression, or by the steps a budget pays
 * for. */
#define EQUAL_DEPTH_MAX 4096

static struct bh_cel_value equal(struct bh_cel_run *run, struct bh_cel_value a,
                                 struct bh_cel_value b, unsigned depth);

static bool equal_lists(struct bh_cel_run *run, struct bh_cel_value a, struct bh_cel_value b,
                        unsigned depth)
{
    if (a.list->ops && a.list->ops->equal)
        return a.list->ops->equal(run, a.list, b.list);
    if (a.list->n != b.list->n)
        return false;
    for (size_t i = 0; i < a.list->n; i++) {
        struct bh_cel_value r = equal(run, cel_list_at(run, a, i), cel_list_at(run, b, i), depth);

        if (r.kind == BH_CEL_BOOL && !r.b)
            return false;
    }
    return true;
}

static bool equal_maps(struct bh_cel_run *run, const struct bh_cel_map *a,
                       const struct bh_cel_map *b, unsigned depth)
{
    if (a->ops && a->ops->equal && b->ops == a->ops)
        return a->ops->equal(run, a, b);
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        struct bh_cel_value k, v, w, r;

        cel_map_at(run, a, i, &k, &v);
        if (!cel_map_get(run, b, k, &w))
            return false;
        r = equal(run, v, w, depth);
        if (r.kind == BH_CEL_BOOL && !r.b)
            return false;
    }
    return true;
}

static struct bh_cel_value equal(struct bh_cel_run *run, struct bh_cel_value a,
                                 struct bh_cel_value b, unsigned depth)
{
    if (a.kind == BH_CEL_ERROR)
        return a;
    if (b.kind == BH_CEL_ERROR)
        return b;
    if (cel_work(run, 1))
        return bh_cel_bool(false);
    if (is_num(a) && is_num(b)) {
        if ((a.kind == BH_CEL_DOUBLE && isnan(a.d)) || (b.kind == BH_CEL_DOUBLE && isnan(b.d)))
            return bh_cel_bool(false);
        return bh_cel_bool(cmp_num(a, b) == 0);
    }
    if (a.kind != b.kind) {
        if (a.kind >= BH_CEL_IP && a.kind <= BH_CEL_DECISION && b.kind != BH_CEL_NULL && run->a)
            return cel_err_overload(run);
        return bh_cel_bool(false);
    }
    if (depth == 0)
        return bh_cel_bool(false);
    switch ((enum bh_cel_kind)a.kind) {
    case BH_CEL_NULL:
        return bh_cel_bool(true);
    case BH_CEL_BOOL:
        return bh_cel_bool(a.b == b.b);
    case BH_CEL_STRING:
    case BH_CEL_BYTES:
        return bh_cel_bool(a.n == b.n && memcmp(a.s, b.s, a.n) == 0);
    case BH_CEL_LIST:
        return bh_cel_bool(equal_lists(run, a, b, depth - 1));
    case BH_CEL_OBJECT:
        if (!bh_str_eq(a.map->type_name, b.map->type_name))
            return bh_cel_bool(false);
        return bh_cel_bool(equal_maps(run, a.map, b.map, depth - 1));
    case BH_CEL_MAP:
        return bh_cel_bool(equal_maps(run, a.map, b.map, depth - 1));
    case BH_CEL_TIMESTAMP:
        return bh_cel_bool(a.time->sec == b.time->sec && a.time->nsec == b.time->nsec);
    case BH_CEL_DURATION:
        return bh_cel_bool(a.i == b.i);
    case BH_CEL_TYPE:
        return bh_cel_bool(bh_str_eq(a.type->name, b.type->name));
    case BH_CEL_OPTIONAL:
        if (!a.opt || !b.opt)
            return bh_cel_bool(a.opt == b.opt);
        return equal(run, *a.opt, *b.opt, depth - 1);
    default:
        return bh_cel_bool(cel_opaque_equal(a, b));
    }
}

struct bh_cel_value cel_equal(struct bh_cel_run *run, struct bh_cel_value a, struct bh_cel_value b)
{
    return equal(run, a, b, EQUAL_DEPTH_MAX);
}

bool bh_cel_equal(struct bh_arena *a, struct bh_cel_value x, struct bh_cel_value y)
{
    struct bh_cel_run run = {.a = a, .limit = UINT64_MAX, .pos = CEL_POS_NONE};
    struct bh_cel_value r;

    r = equal(&run, x, y, EQUAL_DEPTH_MAX);
    return r.kind == BH_CEL_BOOL && r.b;
}

struct bh_cel_value cel_compare(struct bh_cel_run *run, struct bh_cel_value a,
                                struct bh_cel_value b)
{
    int c;

    if (is_num(a) && is_num(b)) {
        if ((a.kind == BH_CEL_DOUBLE && isnan(a.d)) || (b.kind == BH_CEL_DOUBLE && isnan(b.d)))
            return bh_cel_error(run, "NaN values cannot be ordered");
        return bh_cel_int(cmp_num(a, b));
    }
    if (a.kind != b.kind)
        return cel_err_overload(run);
    switch (a.kind) {
    case BH_CEL_BOOL:
        return bh_cel_int((int)a.b - (int)b.b);
    case BH_CEL_STRING:
    case BH_CEL_BYTES:
        c = bh_str_cmp(bh_cel_as_str(a), bh_cel_as_str(b));
        return bh_cel_int((c > 0) - (c < 0));
    case BH_CEL_TIMESTAMP:
        c = cmp_i64(a.time->sec, b.time->sec);
        return bh_cel_int(c ? c : cmp_i64(a.time->nsec, b.time->nsec));
    case BH_CEL_DURATION:
        return bh_cel_int(cmp_i64(a.i, b.i));
    default:
        return cel_err_overload(run);
    }
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    return h ^ (h >> 29);
}

uint64_t cel_hash(struct bh_cel_value v)
{
    switch (v.kind) {
    case BH_CEL_INT:
    case BH_CEL_UINT:
        return mix(v.u);
    case BH_CEL_DOUBLE:
        if (v.d >= -9223372036854775808.0 && v.d < 9223372036854775808.0 && v.d == floor(v.d))
            return mix((uint64_t)(int64_t)v.d);
        if (v.d >= 0 && v.d < 18446744073709551616.0 && v.d == floor(v.d))
            return mix((uint64_t)v.d);
        return mix(v.u);
    case BH_CEL_BOOL:
        return mix(v.b + 77u);
    case BH_CEL_STRING:
    case BH_CEL_BYTES:
        return bh_str_hash(bh_cel_as_str(v));
    default:
        return mix(v.kind);
    }
}

uint64_t cel_size(struct bh_cel_value v)
{
    switch (v.kind) {
    case BH_CEL_STRING:
        return cel_runes(v.s, v.n);
    case BH_CEL_BYTES:
        return v.n;
    case BH_CEL_LIST:
        return v.list->n;
    case BH_CEL_MAP:
        return v.map->n;
    case BH_CEL_OPTIONAL:
        return v.opt ? cel_size(*v.opt) : 1;
    case BH_CEL_IP:
    case BH_CEL_CIDR:
        return cel_opaque_size(v);
    default:
        return 1;
    }
}

/* ---- JSON
 * ------------------------------------------------------------------------------------------------------------
 */

static struct bh_cel_value json_at(struct bh_cel_run *run, const struct bh_cel_list *l, size_t i)
{
    return bh_cel_from_json(run->a, bh_jv_at(l->data, i));
}

static bool json_get(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key,
                     struct bh_cel_value *ret)
{
    const struct bh_jv *v;

    if (key.kind != BH_CEL_STRING)
        return false;
    v = bh_jv_get(m->data, bh_cel_as_str(key));
    if (!v)
        return false;
    *ret = bh_cel_from_json(run->a, v);
    return true;
}

static void json_pair(struct bh_cel_run *run, const struct bh_cel_map *m, size_t i,
                      struct bh_cel_value *k, struct bh_cel_value *v)
{
    const struct bh_jv *o = m->data;

    *k = bh_cel_str(o->members[i].key);
    *v = bh_cel_from_json(run->a, &o->members[i].v);
}

static const struct bh_cel_list_ops json_list_ops = {.at = json_at};
static const struct bh_cel_map_ops json_map_ops = {.get = json_get, .at = json_pair};

struct bh_cel_value bh_cel_from_json(struct bh_arena *a, const struct bh_jv *j)
{
    struct bh_cel_list *l;
    struct bh_cel_map *m;
    int64_t i;
    double d;

    switch (j ? j->kind : BH_JSON_NULL) {
    case BH_JSON_BOOL:
        return bh_cel_bool(j->b);
    case BH_JSON_NUM:
        if (bh_json_num_i64(j->s, &i))
            return bh_cel_int(i);
        (void)bh_json_num_double(j->s, &d); /* out of range: an infinity */
        return bh_cel_double(d);
    case BH_JSON_STR:
        return bh_cel_str(j->s);
    case BH_JSON_ARR:
        l = bh_new(a, struct bh_cel_list);
        l->n = j->n_items;
        l->ops = &json_list_ops;
        l->data = j;
        return (struct bh_cel_value){.kind = BH_CEL_LIST, .list = l};
    case BH_JSON_OBJ:
        m = bh_new(a, struct bh_cel_map);
        m->n = j->n_members;
        m->ops = &json_map_ops;
        m->data = j;
        return (struct bh_cel_value){.kind = BH_CEL_MAP, .map = m};
    default:
        return bh_cel_null();
    }
}
