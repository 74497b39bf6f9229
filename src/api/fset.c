/* Sets of field paths: a trie of sorted arrays. */
#include "api/engine_int.h"
#include "api/fset_int.h"

#include <string.h>

static int key_cmp(const struct bh_jv *x, const struct bh_jv *y)
{
    size_t i;

    for (i = 0; i < x->n_members && i < y->n_members; i++) {
        int c = bh_str_cmp(x->members[i].key, y->members[i].key);

        if (c == 0)
            c = bh_jv_cmp(&x->members[i].v, &y->members[i].v);
        if (c)
            return c;
    }
    return i < x->n_members ? 1 : i < y->n_members ? -1 : 0;
}

int bh_pe_cmp(const struct bh_pe *x, const struct bh_pe *y)
{
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    switch (x->kind) {
    case BH_PE_FIELD:
        return bh_str_cmp(x->name, y->name);
    case BH_PE_KEY:
        return key_cmp(&x->v, &y->v);
    case BH_PE_VALUE:
        return bh_jv_cmp(&x->v, &y->v);
    case BH_PE_INDEX:
        return x->index < y->index ? -1 : x->index > y->index;
    }
    return 0;
}

struct bh_fset *bh_fset_new(struct bh_arena *a)
{
    return bh_new(a, struct bh_fset);
}

/* Where pe stands or would stand. */
static size_t place(const struct bh_fset *s, const struct bh_pe *pe, bool *found)
{
    size_t lo = 0, hi = s->n;

    *found = false;
    /* Documents are walked in order, so what comes next mostly belongs at the end. */
    if (hi && bh_pe_cmp(&s->p[hi - 1].pe, pe) < 0)
        return hi;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int c = bh_pe_cmp(&s->p[mid].pe, pe);

        if (c == 0) {
            *found = true;
            return mid;
        }
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const struct bh_fnode *bh_fset_find(const struct bh_fset *s, const struct bh_pe *pe)
{
    bool found;

    if (!s)
        return NULL;
    size_t i = place(s, pe, &found);

    return found ? &s->p[i] : NULL;
}

struct bh_fnode *bh_fset_node(struct bh_arena *a, struct bh_fset *s, const struct bh_pe *pe)
{
    bool found;
    size_t i = place(s, pe, &found);

    if (found)
        return &s->p[i];
    bh_arena_grow(a, &s->p, &s->cap, s->n + 1, sizeof(s->p[0]));
    memmove(&s->p[i + 1], &s->p[i], (s->n - i) * sizeof(s->p[0]));
    s->n++;
    s->p[i] = (struct bh_fnode){.pe = *pe};
    return &s->p[i];
}

bool bh_fset_empty(const struct bh_fset *s)
{
    return !s || s->n == 0;
}

bool bh_fset_equal(const struct bh_fset *x, const struct bh_fset *y)
{
    if (x == y)
        return true;
    if (bh_fset_empty(x) || bh_fset_empty(y))
        return bh_fset_empty(x) && bh_fset_empty(y);
    if (x->n != y->n)
        return false;
    for (size_t i = 0; i < x->n; i++)
        if (bh_pe_cmp(&x->p[i].pe, &y->p[i].pe) != 0 || x->p[i].member != y->p[i].member ||
            !bh_fset_equal(x->p[i].below, y->p[i].below))
            return false;
    return true;
}

static void push(struct bh_arena *a, struct bh_fset *s, const struct bh_pe *pe, bool member,
                 struct bh_fset *below)
{
    if (bh_fset_empty(below))
        below = NULL;
    if (!member && !below)
        return;
    bh_arena_grow(a, &s->p, &s->cap, s->n + 1, sizeof(s->p[0]));
    s->p[s->n++] = (struct bh_fnode){.pe = *pe, .member = member, .below = below};
}

/* Sets are not changed once handed out, so results may share the parts of their arguments. */
static struct bh_fset *share(const struct bh_fset *s)
{
    union {
        const struct bh_fset *c;
        struct bh_fset *m;
    } u = {.c = s};

    return u.m;
}

enum set_op { UNION, INTERSECTION, DIFFERENCE, RECURSIVE_DIFFERENCE };

static struct bh_fset *combine(struct bh_arena *a, const struct bh_fset *x, const struct bh_fset *y,
                               enum set_op op);

static void combine_nodes(struct bh_arena *a, struct bh_fset *out, const struct bh_fnode *l,
                          const struct bh_fnode *r, enum set_op op)
{
    bool member = false;

    switch (op) {
    case UNION:
        member = l->member || r->member;
        break;
    case INTERSECTION:
        member = l->member && r->member;
        break;
    case DIFFERENCE:
        member = l->member && !r->member;
        break;
    case RECURSIVE_DIFFERENCE:
        if (r->member)
            return;
        member = l->member;
        break;
    }
    push(a, out, &l->pe, member, combine(a, l->below, r->below, op));
}

static struct bh_fset *combine(struct bh_arena *a, const struct bh_fset *x, const struct bh_fset *y,
                               enum set_op op)
{
    size_t i = 0, j = 0;

    if (bh_fset_empty(x))
        return op == UNION ? share(y) : NULL;
    if (bh_fset_empty(y))
        return op == INTERSECTION ? NULL : share(x);
    struct bh_fset *out = bh_fset_new(a);

    while (i < x->n || j < y->n) {
        int c = i >= x->n ? 1 : j >= y->n ? -1 : bh_pe_cmp(&x->p[i].pe, &y->p[j].pe);

        if (c == 0) {
            combine_nodes(a, out, &x->p[i++], &y->p[j++], op);
        } else if (c < 0) {
            if (op != INTERSECTION)
                push(a, out, &x->p[i].pe, x->p[i].member, x->p[i].below);
            i++;
        } else {
            if (op == UNION)
                push(a, out, &y->p[j].pe, y->p[j].member, y->p[j].below);
            j++;
        }
    }
    return out->n ? out : NULL;
}

struct bh_fset *bh_fset_union(struct bh_arena *a, const struct bh_fset *x, const struct bh_fset *y)
{
    return combine(a, x, y, UNION);
}

struct bh_fset *bh_fset_intersection(struct bh_arena *a, const struct bh_fset *x,
                                     const struct bh_fset *y)
{
    return combine(a, x, y, INTERSECTION);
}

struct bh_fset *bh_fset_difference(struct bh_arena *a, const struct bh_fset *x,
                                   const struct bh_fset *y)
{
    return combine(a, x, y, DIFFERENCE);
}

struct bh_fset *bh_fset_recursive_difference(struct bh_arena *a, const struct bh_fset *x,
                                             const struct bh_fset *y)
{
    return combine(a, x, y, RECURSIVE_DIFFERENCE);
}

struct bh_fset *bh_fset_of_paths(struct bh_arena *a, const char *const *paths, size_t n)
{
    struct bh_fset *out = bh_fset_new(a);

    for (size_t i = 0; i < n; i++) {
        struct bh_str rest = bh_s(paths[i]);
        struct bh_fset *at = out;

        while (rest.p) {
            struct bh_pe pe = {.kind = BH_PE_FIELD, .name = bh_str_cut(&rest, '.')};
            struct bh_fnode *node = bh_fset_node(a, at, &pe);

            if (!rest.p) {
                node->member = true;
                break;
            }
            if (!node->below)
                node->below = bh_fset_new(a);
            at = node->below;
        }
    }
    return out->n ? out : NULL;
}

static bool is_one_of(const struct bh_pe *pe, const char *const *names, size_t n)
{
    for (size_t i = 0; pe->kind == BH_PE_FIELD && i < n; i++)
        if (bh_str_eqc(pe->name, names[i]))
            return true;
    return false;
}

/* s without the members of these names. */
static struct bh_fset *without(struct bh_arena *a, const struct bh_fset *s,
                               const char *const *names, size_t n)
{
    struct bh_fset *out;
    size_t i = 0;

    while (s && i < s->n && !(s->p[i].member && is_one_of(&s->p[i].pe, names, n)))
        i++;
    if (!s || i == s->n)
        return share(s);
    out = bh_fset_new(a);
    for (i = 0; i < s->n; i++)
        push(a, out, &s->p[i].pe, s->p[i].member && !is_one_of(&s->p[i].pe, names, n),
             s->p[i].below);
    return out->n ? out : NULL;
}

struct bh_fset *bh_fset_strip_meta(struct bh_arena *a, const struct bh_fset *s)
{
    static const char *const top[] = {"apiVersion", "kind", "metadata"};
    static const char *const meta[] = {"name",       "namespace",     "creationTimestamp",
                                       "selfLink",   "uid",           "clusterName",
                                       "generation", "managedFields", "resourceVersion"};
    struct bh_fset *out = without(a, s, top, BH_COUNT(top)), *copy;
    const struct bh_pe pe = {.kind = BH_PE_FIELD, .name = BH_S("metadata")};
    const struct bh_fnode *m = bh_fset_find(out, &pe);
    struct bh_fset *below = m ? without(a, m->below, meta, BH_COUNT(meta)) : NULL;

    if (!m || below == m->below)
        return out;
    copy = bh_fset_new(a);
    for (size_t i = 0; i < out->n; i++)
        push(a, copy, &out->p[i].pe, out->p[i].member, &out->p[i] == m ? below : out->p[i].below);
    return copy->n ? copy : NULL;
}

/* ---- fieldsV1 ---- */

static void pe_text(const struct bh_pe *pe, struct bh_buf *out)
{
    switch (pe->kind) {
    case BH_PE_FIELD:
        bh_buf_addz(out, "f:");
        bh_buf_adds(out, pe->name);
        break;
    case BH_PE_KEY:
        bh_buf_addz(out, "k:");
        bh_jv_write(out, &pe->v, BH_JSON_PLAIN);
        break;
    case BH_PE_VALUE:
        bh_buf_addz(out, "v:");
        bh_jv_write(out, &pe->v, BH_JSON_PLAIN);
        break;
    case BH_PE_INDEX:
        bh_buf_addz(out, "i:");
        bh_buf_add_i64(out, pe->index);
        break;
    }
}

/* A number that is written as it stands. */
static bool plain_number(struct bh_str s)
{
    size_t i = 0;

    while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
        i++;
    return i == s.n && s.n > 0 && s.n < 16;
}

/* A key of plain strings and numbers, nearly every one. */
static bool plain_key(const struct bh_jv *v)
{
    for (size_t i = 0; i < v->n_members; i++) {
        const struct bh_jv_member *m = &v->members[i];

        if (!bh_str_is_plain(m->key) ||
            !(m->v.kind == BH_JSON_STR ? bh_str_is_plain(m->v.s)
                                       : m->v.kind == BH_JSON_NUM && plain_number(m->v.s)))
            return false;
    }
    return true;
}

static void put_str(struct bh_buf *out, struct bh_str s)
{
    if (s.n)
        bh_put(out, s.p, s.n);
}

/* Quoted within its string. */
static void put_plain_key(const struct bh_jv *v, struct bh_buf *out)
{
    bh_put(out, "\"k:{", 4);
    for (size_t i = 0; i < v->n_members; i++) {
        const struct bh_jv_member *m = &v->members[i];
        bool str = m->v.kind == BH_JSON_STR;

        if (i)
            bh_putc(out, ',');
        bh_put(out, "\\\"", 2);
        put_str(out, m->key);
        bh_put(out, "\\\":\\\"", str ? 5 : 3);
        put_str(out, m->v.s);
        bh_put(out, "\\\"", str ? 2 : 0);
    }
    bh_put(out, "}\"", 2);
}

/* pe as a string with its quotes. */
static void put_pe(const struct bh_pe *pe, struct bh_buf *out, struct bh_buf *tmp)
{
    if (pe->kind == BH_PE_FIELD && bh_str_is_plain(pe->name)) {
        bh_put(out, "\"f:", 3);
        put_str(out, pe->name);
        bh_putc(out, '"');
    } else if (pe->kind == BH_PE_KEY && plain_key(&pe->v)) {
        put_plain_key(&pe->v, out);
    } else {
        bh_buf_clear(tmp);
        pe_text(pe, tmp);
        bh_json_write_str(out, bh_buf_str(tmp));
    }
}

static void encode(const struct bh_fset *s, bool self, struct bh_buf *out, struct bh_buf *tmp)
{
    bool first = true;

    bh_putc(out, '{');
    if (self && !bh_fset_empty(s)) {
        bh_put(out, "\".\":{}", 6);
        first = false;
    }
    for (size_t i = 0; s && i < s->n; i++) {
        if (!first)
            bh_putc(out, ',');
        first = false;
        put_pe(&s->p[i].pe, out, tmp);
        bh_putc(out, ':');
        encode(s->p[i].below, s->p[i].member, out, tmp);
    }
    bh_putc(out, '}');
}

void bh_fset_encode(const struct bh_fset *s, struct bh_buf *out)
{
    BH_AUTO_BUF tmp = {0};

    encode(s, false, out, &tmp);
}

static void sort_key(struct bh_jv *o)
{
    for (size_t i = 1; i < o->n_members; i++)
        for (size_t j = i; j > 0 && bh_str_cmp(o->members[j].key, o->members[j - 1].key) < 0; j--) {
            struct bh_jv_member m = o->members[j];

            o->members[j] = o->members[j - 1];
            o->members[j - 1] = m;
        }
}

/* 1: read; 0: of a kind that this version does not know, to be left out; <0: malformed. */
static int pe_read(struct bh_str s, struct bh_arena *a, struct bh_pe *pe, struct bh_err *err)
{
    int rc;

    *pe = (struct bh_pe){0};
    if (s.n < 2 || s.p[1] != ':')
        return bh_err_set(err, BH_E_BAD_REQUEST, "missing colon in path element: %.*s", BH_SF(s));
    struct bh_str rest = bh_str_sub(s, 2, s.n);

    switch (s.p[0]) {
    case 'f':
        pe->name = rest;
        return 1;
    case 'k':
    case 'v':
        pe->kind = s.p[0] == 'k' ? BH_PE_KEY : BH_PE_VALUE;
        rc = bh_jv_parse(a, rest, NULL, &pe->v, err);
        if (rc < 0)
            return rc;
        if (pe->kind == BH_PE_KEY && pe->v.kind != BH_JSON_OBJ)
            return bh_err_set(err, BH_E_BAD_REQUEST, "key is no object: %.*s", BH_SF(s));
        if (pe->kind == BH_PE_KEY)
            sort_key(&pe->v);
        return 1;
    case 'i':
        pe->kind = BH_PE_INDEX;
        if (!bh_str_i64(rest, INT32_MIN, INT32_MAX, &pe->index))
            return bh_err_set(err, BH_E_BAD_REQUEST, "bad index: %.*s", BH_SF(s));
        return 1;
    default:
        return 0;
    }
}

static int decode(struct bh_json_rd *r, struct bh_arena *a, struct bh_fset *s, bool *self,
                  struct bh_err *err)
{
    struct bh_str key;
    int rc;

    if (bh_json_peek(r) == BH_JSON_NULL)
        return bh_json_take_null(r, err);
    if (bh_json_peek(r) != BH_JSON_OBJ)
        return bh_err_set(err, BH_E_BAD_REQUEST, "fieldsV1 holds something that is no object");
    rc = bh_json_enter(r, err);
    if (rc < 0)
        return rc;
    while ((rc = bh_json_next_key(r, &key, err)) > 0) {
        struct bh_pe pe;

        if (bh_str_eqc(key, ".")) {
            *self = true;
            rc = bh_json_skip(r, NULL, err);
        } else if ((rc = pe_read(key, a, &pe, err)) == 0) {
            rc = bh_json_skip(r, NULL, err);
        } else if (rc > 0) {
            struct bh_fset *below = bh_fset_new(a);
            bool member = false;

            rc = decode(r, a, below, &member, err);
            struct bh_fnode *node = bh_fset_node(a, s, &pe);

            node->member = member || !below->n || node->member;
            if (below->n)
                node->below = bh_fset_union(a, node->below, below);
        }
        if (rc < 0)
            return rc;
    }
    return rc;
}

int bh_fset_decode(struct bh_str json, struct bh_arena *a, struct bh_fset **ret, struct bh_err *err)
{
    struct bh_fset *s = bh_fset_new(a);
    struct bh_json_rd r;
    bool self = false;
    int rc;

    *ret = NULL;
    bh_json_rd_init(&r, bh_str_dup(a, json), a);
    rc = decode(&r, a, s, &self, err);
    if (rc == 0)
        rc = bh_json_end(&r, err);
    if (rc == 0)
        *ret = s->n ? s : NULL;
    return rc;
}

/* ---- paths in messages ---- */

void bh_pe_show(const struct bh_pe *pe, struct bh_buf *out)
{
    switch (pe->kind) {
    case BH_PE_FIELD:
        bh_buf_addc(out, '.');
        bh_buf_adds(out, pe->name);
        break;
    case BH_PE_KEY:
        bh_buf_addc(out, '[');
        for (size_t i = 0; i < pe->v.n_members; i++) {
            if (i)
                bh_buf_addc(out, ',');
            bh_buf_adds(out, pe->v.members[i].key);
            bh_buf_addc(out, '=');
            bh_jv_write(out, &pe->v.members[i].v, BH_JSON_PLAIN);
        }
        bh_buf_addc(out, ']');
        break;
    case BH_PE_VALUE:
        bh_buf_addz(out, "[=");
        bh_jv_write(out, &pe->v, BH_JSON_PLAIN);
        bh_buf_addc(out, ']');
        break;
    case BH_PE_INDEX:
        bh_buf_addf(out, "[%lld]", (long long)pe->index);
        break;
    }
}

/* Upstream's order: the members of a level, then what lies below. */
static void each(const struct bh_fset *s, struct bh_buf *path,
                 void (*fn)(void *arg, struct bh_str path), void *arg)
{
    size_t n = path->n;

    for (size_t i = 0; s && i < s->n; i++)
        if (s->p[i].member) {
            bh_pe_show(&s->p[i].pe, path);
            fn(arg, bh_buf_str(path));
            path->n = n;
        }
    for (size_t i = 0; s && i < s->n; i++)
        if (s->p[i].below) {
            bh_pe_show(&s->p[i].pe, path);
            each(s->p[i].below, path, fn, arg);
            path->n = n;
        }
}

void bh_fset_each(const struct bh_fset *s, void (*fn)(void *arg, struct bh_str path), void *arg)
{
    BH_AUTO_BUF path = {0};

    each(s, &path, fn, arg);
}
