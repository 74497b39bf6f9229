/* JSON document trees: building from bytes, look-up, change, copy, comparison. All walks use
 * explicit work lists. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "data/json.h"
#include "data/json_scan.h"

#define DUPS_MAX     100 /* upstream's decoder reports no more either */
#define DEDUP_LINEAR 16  /* objects up to this size are searched pairwise for duplicate keys */

/* ---- Building ---- */

/* Elements of all open containers, innermost last; a closing container moves its own into the
 * arena, exactly sized. */
struct elem {
    struct bh_jv_member m;
    size_t pos; /* offset of the key in the input, orders the duplicates */
};

struct frame {
    size_t base;       /* first element in the scratch */
    struct bh_str key; /* of this container in its parent object */
    size_t pos;
    bool obj;
};

struct dup {
    size_t pos;
    struct bh_str path;
};

struct builder {
    struct bh_arena *a;
    const char *start;
    struct elem *elems;
    size_t n, cap;
    unsigned depth;
    struct frame frames[BH_JSON_DEPTH_MAX];
    struct dup *dups; /* NULL: not wanted */
    size_t n_dups;
};

static struct bh_str dup_path(const struct builder *b, struct bh_str key)
{
    BH_AUTO_BUF path = {0};

    for (unsigned d = 0; d < b->depth; d++) {
        const struct frame *f = &b->frames[d];

        if (d && b->frames[d - 1].obj) {
            if (path.n)
                bh_buf_addc(&path, '.');
            bh_buf_adds(&path, f->key);
        } else if (d) {
            bh_buf_addf(&path, "[%zu]", f->base - b->frames[d - 1].base);
        }
    }
    if (path.n)
        bh_buf_addc(&path, '.');
    bh_buf_adds(&path, key);
    return bh_str_dup(b->a, bh_buf_str(&path));
}

static void note_dup(struct builder *b, const struct elem *e)
{
    if (b->dups && b->n_dups < DUPS_MAX)
        b->dups[b->n_dups++] = (struct dup){e->pos, dup_path(b, e->m.key)};
}

static int elem_by_key(const void *x, const void *y)
{
    const struct elem *const *a = x;
    const struct elem *const *b = y;
    int c = bh_str_cmp((*a)->m.key, (*b)->m.key);

    return c ? c : (*a > *b) - (*a < *b);
}

/* Large objects: sort pointers by key, so that a hostile body costs n log n. */
static size_t dedup_sorted(struct builder *b, struct elem *e, size_t n)
{
    struct elem **v = bh_malloc(n * sizeof(struct elem *));
    size_t out = 0;

    for (size_t i = 0; i < n; i++)
        v[i] = &e[i];
    qsort(v, n, sizeof(*v), elem_by_key);
    for (size_t i = 1, first = 0; i < n; i++) {
        if (!bh_str_eq(v[i]->m.key, v[first]->m.key)) {
            first = i;
            continue;
        }
        note_dup(b, v[i]);
        v[first]->m.v = v[i]->m.v;
        v[i]->m.v.kind = BH_JSON_NONE;
    }
    bh_free(v);
    for (size_t i = 0; i < n; i++)
        if (e[i].m.v.kind != BH_JSON_NONE)
            e[out++] = e[i];
    return out;
}

static size_t dedup(struct builder *b, struct elem *e, size_t n)
{
    if (n > DEDUP_LINEAR)
        return dedup_sorted(b, e, n);
    for (size_t i = 1; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (e[j].m.key.n != e[i].m.key.n || !bh_str_eq(e[j].m.key, e[i].m.key))
                continue;
            note_dup(b, &e[i]);
            e[j].m.v = e[i].m.v;
            memmove(&e[i], &e[i + 1], (n - i - 1) * sizeof(*e));
            n--;
            i--;
            break;
        }
    }
    return n;
}

/* Takes the elements of the innermost container off the scratch. The container's value, or kind
 * NONE when the arena's limit is reached. */
static struct bh_jv close_container(struct builder *b)
{
    const struct frame *f = &b->frames[b->depth - 1];
    size_t n = b->n - f->base;
    struct elem *e = n ? b->elems + f->base : NULL;
    struct bh_jv v = {.kind = f->obj ? BH_JSON_OBJ : BH_JSON_ARR};

    if (f->obj && n) {
        n = dedup(b, e, n);
        v.members = bh_arena_try(b->a, n * sizeof(*v.members));
        if (!v.members)
            return (struct bh_jv){0};
        for (size_t i = 0; i < n; i++)
            v.members[i] = e[i].m;
        v.n_members = n;
    } else if (n) {
        v.items = bh_arena_try(b->a, n * sizeof(*v.items));
        if (!v.items)
            return (struct bh_jv){0};
        for (size_t i = 0; i < n; i++)
            v.items[i] = e[i].m.v;
        v.n_items = n;
    }
    v.cap = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
    b->n = f->base;
    b->depth--;
    return v;
}

static void add_elem(struct builder *b, struct bh_str key, size_t pos, struct bh_jv v)
{
    if (b->n == b->cap) {
        b->cap = b->cap ? b->cap * 2 : 64;
        b->elems = bh_realloc(b->elems, b->cap * sizeof(*b->elems));
    }
    b->elems[b->n++] = (struct elem){{key, v}, pos};
}

static const char *limit_reached(struct bh_err *err)
{
    (void)bh_err_set(err, BH_E_LIMIT, "the memory limit of this input is reached");
    return NULL;
}

/* The value at p, with base containers open around it. One loop, longer than a screen: its state is
 * the parser's whole state, and the branches are few. */
static const char *build(struct builder *b, const char *p, const char *end, unsigned base,
                         struct bh_jv *ret, struct bh_err *err)
{
    struct bh_str key = {NULL, 0};
    size_t pos = 0;
    unsigned flags = 0;
    struct bh_jv v;
    const char *q;

value:
    p = json_ws(p, end);
    if (p == end)
        return bh_json_bad(p, end, "", err);
    if (*p == '"') {
        q = json_scan_str(p + 1, end, &flags, err);
        if (!q)
            return NULL;
        v = bh_jv_str(bh_json_unescape(b->a, p + 1, q, flags));
        if (!v.s.p)
            return limit_reached(err);
        p = q + 1;
    } else if (*p == '{' || *p == '[') {
        if (base + b->depth == BH_JSON_DEPTH_MAX)
            return bh_json_bad(p, end, "exceeded max depth", err);
        b->frames[b->depth++] = (struct frame){b->n, key, pos, *p == '{'};
        q = json_ws(p + 1, end);
        if (q == end || *q != (*p == '{' ? '}' : ']')) {
            bool obj = *p == '{';

            p = q;
            if (obj)
                goto key;
            goto value;
        }
        p = q + 1;
        v = close_container(b);
    } else {
        q = json_scan_scalar(p, end, err);
        if (!q)
            return NULL;
        if (*p == 'n')
            v = BH_JV_NULL;
        else if (*p == 't' || *p == 'f')
            v = bh_jv_bool(*p == 't');
        else
            v = bh_jv_num((struct bh_str){p, (size_t)(q - p)});
        p = q;
    }
    while (b->depth) {
        bool obj = b->frames[b->depth - 1].obj;

        add_elem(b, key, pos, v);
        p = json_ws(p, end);
        if (p < end && *p == ',') {
            p++;
            if (obj)
                goto key;
            goto value;
        }
        if (p == end || *p != (obj ? '}' : ']'))
            return bh_json_bad(p, end, obj ? "after object key:value pair" : "after array element",
                               err);
        p++;
        key = b->frames[b->depth - 1].key;
        pos = b->frames[b->depth - 1].pos;
        v = close_container(b);
        if (v.kind == BH_JSON_NONE)
            return limit_reached(err);
    }
    *ret = v;
    return p;
key:
    p = json_ws(p, end);
    if (p == end || *p != '"')
        return bh_json_bad(p, end, "looking for beginning of object key string", err);
    pos = (size_t)(p - b->start);
    q = json_scan_str(p + 1, end, &flags, err);
    if (!q)
        return NULL;
    key = bh_json_unescape(b->a, p + 1, q, flags);
    if (!key.p)
        return limit_reached(err);
    p = json_ws(q + 1, end);
    if (p == end || *p != ':')
        return bh_json_bad(p, end, "after object key", err);
    p++;
    goto value;
}

static int dup_by_pos(const void *x, const void *y)
{
    const struct dup *a = x, *b = y;

    return (a->pos > b->pos) - (a->pos < b->pos);
}

static void report_dups(struct builder *b, struct bh_json_dups *dups)
{
    dups->paths = (struct bh_str_vec){NULL, 0};
    if (!b->n_dups)
        return;
    qsort(b->dups, b->n_dups, sizeof(*b->dups), dup_by_pos);
    dups->paths.p = bh_new_n(b->a, struct bh_str, b->n_dups);
    for (size_t i = 0; i < b->n_dups; i++) {
        size_t j = 0;

        /* A key that comes a third time is told once, as upstream does. */
        while (j < dups->paths.n && !bh_str_eq(dups->paths.p[j], b->dups[i].path))
            j++;
        if (j == dups->paths.n)
            dups->paths.p[dups->paths.n++] = b->dups[i].path;
    }
}

int bh_jv_parse(struct bh_arena *a, struct bh_str in, struct bh_json_dups *dups, struct bh_jv *ret,
                struct bh_err *err)
{
    struct builder b;
    struct dup found[DUPS_MAX];
    struct bh_err local;
    const char *p = in.p ? in.p : "", *end = p + in.n;
    struct bh_jv v;

    if (!err)
        err = &local;
    b.a = a;
    b.start = p;
    b.elems = NULL;
    b.n = b.cap = b.n_dups = 0;
    b.depth = 0;
    b.dups = dups ? found : NULL;
    p = build(&b, p, end, 0, &v, err);
    if (p) {
        p = json_ws(p, end);
        if (p != end)
            p = bh_json_bad(p, end, "after top-level value", err);
    }
    bh_free(b.elems);
    if (!p)
        return -(int)err->code;
    if (dups)
        report_dups(&b, dups);
    *ret = v;
    return 0;
}

int bh_jv_read(struct bh_json_rd *r, struct bh_jv *ret, struct bh_err *err)
{
    struct builder b;
    struct bh_err local;
    const char *p;

    if (!err)
        err = &local;
    if (r->failed)
        return bh_err_set(err, BH_E_BAD_REQUEST, "unexpected end of JSON input");
    b.a = r->arena;
    b.start = r->start;
    b.elems = NULL;
    b.n = b.cap = b.n_dups = 0;
    b.depth = 0;
    b.dups = NULL;
    p = build(&b, r->p, r->end, r->depth, ret, err);
    bh_free(b.elems);
    if (!p) {
        r->failed = true;
        r->p = r->end;
        return -(int)err->code;
    }
    r->p = p;
    return 0;
}

/* ---- Scalars ---- */

struct bh_jv bh_jv_i64(struct bh_arena *a, int64_t v)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%lld", (long long)v);

    return bh_jv_num(bh_str_dup(a, (struct bh_str){text, (size_t)n}));
}

struct bh_jv bh_jv_double(struct bh_arena *a, double v)
{
    BH_AUTO_BUF b = {0};

    if (!isfinite(v))
        return BH_JV_NULL;
    bh_json_write_double(&b, v);
    return bh_jv_num(bh_str_dup(a, bh_buf_str(&b)));
}

/* ---- Look-up ---- */

struct bh_jv *bh_jv_get(const struct bh_jv *o, struct bh_str key)
{
    if (!o || o->kind != BH_JSON_OBJ)
        return NULL;
    for (size_t i = 0; i < o->n_members; i++)
        if (o->members[i].key.n == key.n && bh_str_eq(o->members[i].key, key))
            return &o->members[i].v;
    return NULL;
}

struct bh_jv *bh_jv_getc(const struct bh_jv *o, const char *key)
{
    return bh_jv_get(o, bh_s(key));
}

struct bh_jv *bh_jv_at(const struct bh_jv *arr, size_t i)
{
    return arr && arr->kind == BH_JSON_ARR && i < arr->n_items ? &arr->items[i] : NULL;
}

struct bh_jv *bh_jv_path(const struct bh_jv *o, const char *dotted)
{
    struct bh_str rest = bh_s(dotted);
    struct bh_jv *v = NULL;

    while (rest.p) {
        v = bh_jv_get(o, bh_str_cut(&rest, '.'));
        if (!v)
            return NULL;
        o = v;
    }
    return v;
}

struct bh_str bh_jv_get_str(const struct bh_jv *o, const char *key)
{
    const struct bh_jv *v = bh_jv_getc(o, key);

    return v && v->kind == BH_JSON_STR ? v->s : (struct bh_str){NULL, 0};
}

bool bh_jv_get_i64(const struct bh_jv *o, const char *key, int64_t *ret)
{
    const struct bh_jv *v = bh_jv_getc(o, key);

    return v && v->kind == BH_JSON_NUM && bh_json_num_i64(v->s, ret);
}

bool bh_jv_get_bool(const struct bh_jv *o, const char *key)
{
    const struct bh_jv *v = bh_jv_getc(o, key);

    return v && v->kind == BH_JSON_BOOL && v->b;
}

bool bh_jv_is_int(const struct bh_jv *v)
{
    int64_t i;

    return v && v->kind == BH_JSON_NUM && bh_json_num_i64(v->s, &i);
}

/* ---- Change ---- */

struct bh_jv *bh_jv_set(struct bh_arena *a, struct bh_jv *o, struct bh_str key, struct bh_jv v)
{
    struct bh_jv *have = bh_jv_get(o, key);
    size_t cap = o->cap;

    bh_assert(o->kind == BH_JSON_OBJ);
    if (have) {
        *have = v;
        return have;
    }
    bh_arena_grow(a, &o->members, &cap, o->n_members + 1, sizeof(*o->members));
    o->cap = (uint32_t)cap;
    o->members[o->n_members] = (struct bh_jv_member){key, v};
    return &o->members[o->n_members++].v;
}

struct bh_jv *bh_jv_setc(struct bh_arena *a, struct bh_jv *o, const char *key, struct bh_jv v)
{
    return bh_jv_set(a, o, bh_s(key), v);
}

struct bh_jv *bh_jv_insert(struct bh_arena *a, struct bh_jv *arr, size_t at, struct bh_jv v)
{
    size_t cap = arr->cap;

    bh_assert(arr->kind == BH_JSON_ARR && at <= arr->n_items);
    bh_arena_grow(a, &arr->items, &cap, arr->n_items + 1, sizeof(*arr->items));
    arr->cap = (uint32_t)cap;
    memmove(&arr->items[at + 1], &arr->items[at], (arr->n_items - at) * sizeof(*arr->items));
    arr->items[at] = v;
    arr->n_items++;
    return &arr->items[at];
}

struct bh_jv *bh_jv_append(struct bh_arena *a, struct bh_jv *arr, struct bh_jv v)
{
    return bh_jv_insert(a, arr, arr->n_items, v);
}

bool bh_jv_del(struct bh_jv *o, struct bh_str key)
{
    struct bh_jv *v = bh_jv_get(o, key);
    size_t i;

    if (!v)
        return false;
    i = (size_t)((struct bh_jv_member *)(void *)((char *)v - offsetof(struct bh_jv_member, v)) -
                 o->members);
    memmove(&o->members[i], &o->members[i + 1], (o->n_members - i - 1) * sizeof(*o->members));
    o->n_members--;
    return true;
}

void bh_jv_remove(struct bh_jv *arr, size_t at)
{
    bh_assert(arr->kind == BH_JSON_ARR && at < arr->n_items);
    memmove(&arr->items[at], &arr->items[at + 1], (arr->n_items - at - 1) * sizeof(*arr->items));
    arr->n_items--;
}

/* ---- Walks over one or two trees ---- */

struct pair {
    const struct bh_jv *a;
    const struct bh_jv *b;
    struct bh_jv *dst; /* copying: where the copy of a goes */
};

struct work {
    struct pair fixed[64];
    struct pair *p;
    size_t n, cap;
};

static void work_init(struct work *w)
{
    w->p = w->fixed;
    w->n = 0;
    w->cap = BH_COUNT(w->fixed);
}

static void work_done(struct work *w)
{
    if (w->p != w->fixed)
        bh_free(w->p);
}

static void work_add(struct work *w, const struct bh_jv *a, const struct bh_jv *b,
                     struct bh_jv *dst)
{
    if (w->n == w->cap) {
        struct pair *bigger = bh_malloc(w->cap * 2 * sizeof(*bigger));

        memcpy(bigger, w->p, w->n * sizeof(*bigger));
        work_done(w);
        w->p = bigger;
        w->cap *= 2;
    }
    w->p[w->n++] = (struct pair){a, b, dst};
}

/* Copies src itself; its elements are put on the work list. */
static void copy_one(struct bh_arena *a, struct work *w, const struct bh_jv *src, struct bh_jv *dst)
{
    *dst = *src;
    if (src->kind == BH_JSON_STR || src->kind == BH_JSON_NUM) {
        dst->s = bh_str_dup(a, src->s);
    } else if (src->kind == BH_JSON_ARR) {
        dst->items = src->n_items ? bh_new_n(a, struct bh_jv, src->n_items) : NULL;
        dst->cap = (uint32_t)src->n_items;
        for (size_t i = 0; i < src->n_items; i++)
            work_add(w, &src->items[i], NULL, &dst->items[i]);
    } else if (src->kind == BH_JSON_OBJ) {
        dst->members = src->n_members ? bh_new_n(a, struct bh_jv_member, src->n_members) : NULL;
        dst->cap = (uint32_t)src->n_members;
        for (size_t i = 0; i < src->n_members; i++) {
            dst->members[i].key = bh_str_dup(a, src->members[i].key);
            work_add(w, &src->members[i].v, NULL, &dst->members[i].v);
        }
    }
}

struct bh_jv bh_jv_copy(struct bh_arena *a, const struct bh_jv *v)
{
    struct work w;
    struct bh_jv ret;

    work_init(&w);
    copy_one(a, &w, v, &ret);
    while (w.n) {
        struct pair p = w.p[--w.n];

        copy_one(a, &w, p.a, p.dst);
    }
    work_done(&w);
    return ret;
}

static int cmp_num(struct bh_str a, struct bh_str b)
{
    int64_t x, y;
    double dx, dy;
    bool ix = bh_json_num_i64(a, &x), iy = bh_json_num_i64(b, &y);

    if (ix && iy)
        return (x > y) - (x < y);
    (void)bh_json_num_double(a, &dx);
    (void)bh_json_num_double(b, &dy);
    if (dx != dy)
        return dx < dy ? -1 : 1;
    return iy - ix; /* equal value: the integer first */
}

static bool eq_one(struct work *w, const struct bh_jv *a, const struct bh_jv *b)
{
    if (a->kind != b->kind)
        return false;
    switch ((enum bh_json_kind)a->kind) {
    case BH_JSON_BOOL:
        return a->b == b->b;
    case BH_JSON_STR:
        return bh_str_eq(a->s, b->s);
    case BH_JSON_NUM:
        return cmp_num(a->s, b->s) == 0;
    case BH_JSON_ARR:
        if (a->n_items != b->n_items)
            return false;
        for (size_t i = 0; i < a->n_items; i++)
            work_add(w, &a->items[i], &b->items[i], NULL);
        return true;
    case BH_JSON_OBJ:
        if (a->n_members != b->n_members)
            return false;
        for (size_t i = 0; i < a->n_members; i++) {
            struct bh_str key = a->members[i].key;
            /* Equal objects mostly have their members in the same order. */
            const struct bh_jv *other =
                bh_str_eq(b->members[i].key, key) ? &b->members[i].v : bh_jv_get(b, key);

            if (!other)
                return false;
            work_add(w, &a->members[i].v, other, NULL);
        }
        return true;
    default:
        return true;
    }
}

bool bh_jv_eq(const struct bh_jv *a, const struct bh_jv *b)
{
    struct work w;
    bool same;

    work_init(&w);
    same = eq_one(&w, a, b);
    while (same && w.n) {
        struct pair p = w.p[--w.n];

        same = eq_one(&w, p.a, p.b);
    }
    work_done(&w);
    return same;
}

static int member_by_key(const void *x, const void *y)
{
    const struct bh_jv_member *const *a = x;
    const struct bh_jv_member *const *b = y;

    return bh_str_cmp((*a)->key, (*b)->key);
}

static const struct bh_jv_member **sorted_members(const struct bh_jv *o)
{
    const struct bh_jv_member **v = bh_malloc(o->n_members * sizeof(*v));

    for (size_t i = 0; i < o->n_members; i++)
        v[i] = &o->members[i];
    qsort(v, o->n_members, sizeof(*v), member_by_key);
    return v;
}

static int cmp_objects(struct work *w, const struct bh_jv *a, const struct bh_jv *b)
{
    const struct bh_jv_member **x, **y;
    int c = 0;

    if (a->n_members != b->n_members)
        return a->n_members < b->n_members ? -1 : 1;
    x = sorted_members(a);
    y = sorted_members(b);
    for (size_t i = 0; !c && i < a->n_members; i++)
        c = bh_str_cmp(x[i]->key, y[i]->key);
    for (size_t i = a->n_members; !c && i-- > 0;)
        work_add(w, &x[i]->v, &y[i]->v, NULL);
    bh_free(x);
    bh_free(y);
    return c;
}

/* Elements go on the work list last first, so that they are compared in order. */
static int cmp_one(struct work *w, const struct bh_jv *a, const struct bh_jv *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    switch ((enum bh_json_kind)a->kind) {
    case BH_JSON_BOOL:
        return (int)a->b - (int)b->b;
    case BH_JSON_STR:
        return bh_str_cmp(a->s, b->s);
    case BH_JSON_NUM:
        return cmp_num(a->s, b->s);
    case BH_JSON_ARR:
        if (a->n_items != b->n_items)
            return a->n_items < b->n_items ? -1 : 1;
        for (size_t i = a->n_items; i-- > 0;)
            work_add(w, &a->items[i], &b->items[i], NULL);
        return 0;
    case BH_JSON_OBJ:
        return cmp_objects(w, a, b);
    default:
        return 0;
    }
}

int bh_jv_cmp(const struct bh_jv *a, const struct bh_jv *b)
{
    struct work w;
    int c;

    work_init(&w);
    c = cmp_one(&w, a, b);
    while (!c && w.n) {
        struct pair p = w.p[--w.n];

        c = cmp_one(&w, p.a, p.b);
    }
    work_done(&w);
    return c;
}
