/* JSON merge patch and JSON patch. */
#include "api/patch.h"
#include "api/patch_int.h"
#include "base/limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- shared with strategic.c ---- */

int bh_patch_parse(struct bh_str patch, const char *go_type, enum bh_json_kind want,
                   struct bh_arena *a, struct bh_strict *strict, struct bh_jv *ret,
                   struct bh_err *err)
{
    struct bh_json_dups dups = {0};
    int rc = bh_jv_parse(a, patch, strict ? &dups : NULL, ret, err);

    if (rc < 0)
        return bh_err_wrap(err, "error decoding patch");
    if (ret->kind != want && ret->kind != BH_JSON_NULL)
        return bh_err_set(
            err, BH_E_BAD_REQUEST,
            "error decoding patch: json: cannot unmarshal %s into Go value of type %s",
            bh_json_kind_name((enum bh_json_kind)ret->kind), go_type);
    for (size_t i = 0; strict && i < dups.paths.n && i < BH_STRICT_MAX; i++)
        bh_patch_note(strict, a, "duplicate field \"%.*s\"", dups.paths.p[i]);
    return 0;
}

void bh_patch_note(struct bh_strict *s, struct bh_arena *a, const char *fmt, struct bh_str path)
{
    struct bh_str_vec *v = &s->texts;
    BH_AUTO_BUF b = {.max = BH_BODY_BYTES_MAX};
    const char *at = strstr(fmt, "%.*s");

    bh_buf_add(&b, fmt, (size_t)(at - fmt));
    bh_buf_adds(&b, path);
    bh_buf_addz(&b, at + 4);
    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i], bh_buf_str(&b)))
            return;
    if (v->n >= BH_STRICT_MAX)
        return;
    struct bh_str *p = bh_new_n(a, struct bh_str, v->n + 1);

    if (v->n)
        memcpy(p, v->p, v->n * sizeof(*p));
    p[v->n++] = bh_str_dup(a, bh_buf_str(&b));
    v->p = p;
}

static int member_cmp(const void *x, const void *y)
{
    return bh_str_cmp(((const struct bh_jv_member *)x)->key, ((const struct bh_jv_member *)y)->key);
}

void bh_patch_sort(struct bh_jv *o)
{
    if (o->kind == BH_JSON_OBJ && o->n_members > 1)
        qsort(o->members, o->n_members, sizeof(o->members[0]), member_cmp);
}

/* The shortest text that reads back as d, with an exponent from a million on: a float64 as %v has
 * it. */
void bh_go_print_float(double d, struct bh_buf *out)
{
    char text[40];

    if (d > -1e6 && d < 1e6 && d - floor(d) <= 0) {
        bh_buf_addf(out, "%.0f", d);
        return;
    }
    for (int prec = 1; prec <= 17; prec++) {
        double back;

        (void)snprintf(text, sizeof(text), "%.*g", prec, d);
        if (bh_json_num_double(bh_s(text), &back) && back <= d && back >= d)
            break;
    }
    bh_buf_addz(out, text);
}

/* Numbers are int64 where they are written and fit so, else float64. */
static void print_number(struct bh_str text, struct bh_buf *out)
{
    double d = 0;
    int64_t i;

    if (bh_str_i64(text, INT64_MIN, INT64_MAX, &i))
        bh_buf_adds(out, text);
    else if (bh_json_num_double(text, &d))
        bh_go_print_float(d, out);
    else
        bh_buf_adds(out, text);
}

/* Depth is bounded by the parser's. */
void bh_go_print_jv(const struct bh_jv *v, struct bh_arena *a, struct bh_buf *out)
{
    switch ((enum bh_json_kind)v->kind) {
    case BH_JSON_NONE:
    case BH_JSON_NULL:
        bh_buf_addz(out, "<nil>");
        return;
    case BH_JSON_BOOL:
        bh_buf_addz(out, v->b ? "true" : "false");
        return;
    case BH_JSON_NUM:
        print_number(v->s, out);
        return;
    case BH_JSON_STR:
        bh_buf_adds(out, v->s);
        return;
    case BH_JSON_ARR:
        bh_buf_addc(out, '[');
        for (size_t i = 0; i < v->n_items; i++) {
            if (i)
                bh_buf_addc(out, ' ');
            bh_go_print_jv(&v->items[i], a, out);
        }
        bh_buf_addc(out, ']');
        return;
    case BH_JSON_OBJ:
        break;
    }
    struct bh_jv sorted = *v;

    sorted.members = bh_arena_memdup(a, v->members, v->n_members * sizeof(v->members[0]));
    bh_patch_sort(&sorted);
    bh_buf_addz(out, "map[");
    for (size_t i = 0; i < sorted.n_members; i++) {
        if (i)
            bh_buf_addc(out, ' ');
        bh_buf_adds(out, sorted.members[i].key);
        bh_buf_addc(out, ':');
        bh_go_print_jv(&sorted.members[i].v, a, out);
    }
    bh_buf_addc(out, ']');
}

void bh_go_print(struct bh_str json, struct bh_arena *a, struct bh_buf *out)
{
    struct bh_jv v;

    if (bh_jv_parse(a, json, NULL, &v, NULL) < 0)
        bh_buf_adds(out, json);
    else
        bh_go_print_jv(&v, a, out);
}

/* ---- merge patch ---- */

/* Takes the nulls out of what a patch brings in. */
static void prune_nulls(struct bh_jv *v)
{
    if (v->kind == BH_JSON_ARR) {
        for (size_t i = 0; i < v->n_items; i++)
            prune_nulls(&v->items[i]);
        return;
    }
    if (v->kind != BH_JSON_OBJ)
        return;
    for (size_t i = 0; i < v->n_members;) {
        if (v->members[i].v.kind == BH_JSON_NULL) {
            (void)bh_jv_del(v, v->members[i].key);
            continue;
        }
        prune_nulls(&v->members[i++].v);
    }
}

/* Depth is bounded by the parser's. */
static void merge(struct bh_arena *a, struct bh_jv *doc, struct bh_jv *patch)
{
    for (size_t i = 0; i < patch->n_members; i++) {
        struct bh_str key = patch->members[i].key;
        struct bh_jv *v = &patch->members[i].v, *cur = bh_jv_get(doc, key);

        if (v->kind == BH_JSON_NULL) {
            (void)bh_jv_del(doc, key);
        } else if (cur && cur->kind == BH_JSON_OBJ && v->kind == BH_JSON_OBJ) {
            merge(a, cur, v);
        } else {
            if (!cur || cur->kind != BH_JSON_OBJ)
                prune_nulls(v);
            (void)bh_jv_set(a, doc, key, *v);
        }
    }
    bh_patch_sort(doc);
}

int bh_patch_merge(struct bh_str doc, struct bh_str patch, struct bh_arena *a, struct bh_buf *out,
                   struct bh_strict *strict, struct bh_err *err)
{
    struct bh_jv d, p;
    int rc = bh_patch_parse(patch, "map[string]interface {}", BH_JSON_OBJ, a, strict, &p, err);

    if (rc < 0)
        return rc;
    if (p.kind != BH_JSON_OBJ)
        return bh_err_set(err, BH_E_BAD_REQUEST, "Invalid JSON Patch");
    rc = bh_jv_parse(a, doc, NULL, &d, err);
    if (rc < 0)
        return rc;
    if (d.kind != BH_JSON_OBJ)
        return bh_err_set(err, BH_E_INTERNAL, "the document to be patched is not an object");
    merge(a, &d, &p);
    bh_jv_write(out, &d, 0);
    return 0;
}

/* ---- JSON patch ---- */

struct op {
    struct bh_str op, path, from;
    struct bh_jv *value; /* NULL: absent */
};

struct jp {
    struct bh_arena *a;
    struct bh_jv doc;
    size_t copied; /* bytes that copies have added, at most BH_BODY_BYTES_MAX */
};

/* One reference token, "~1" and "~0" undone. */
static struct bh_str token(struct bh_arena *a, struct bh_str s)
{
    if (bh_str_chr(s, '~', 0) < 0)
        return s;
    char *p = bh_arena_alloc(a, s.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '~' && i + 1 < s.n && (s.p[i + 1] == '0' || s.p[i + 1] == '1'))
            p[n++] = s.p[++i] == '0' ? '~' : '/';
        else
            p[n++] = s.p[i];
    }
    return (struct bh_str){p, n};
}

/* The container that the last token of path stands in, and that token. NULL when there is none. */
static struct bh_jv *parent_of(struct jp *j, struct bh_str path, struct bh_str *last)
{
    struct bh_jv *at = &j->doc;
    struct bh_str rest = path;

    if (bh_str_chr(path, '/', 0) < 0)
        return NULL;
    (void)bh_str_cut(&rest, '/'); /* what stands before the first slash does not count */
    for (;;) {
        struct bh_str part = bh_str_cut(&rest, '/');

        if (!rest.p) {
            *last = token(j->a, part);
            return at->kind == BH_JSON_OBJ || at->kind == BH_JSON_ARR ? at : NULL;
        }
        part = token(j->a, part);
        if (at->kind == BH_JSON_OBJ) {
            bh_patch_sort(
                at); /* upstream reads what it passes into a map, which is written sorted */
            at = bh_jv_get(at, part);
        } else if (at->kind == BH_JSON_ARR) {
            int64_t i;

            if (!bh_str_i64(part, -(int64_t)at->n_items, (int64_t)at->n_items - 1, &i))
                return NULL;
            at = &at->items[i < 0 ? i + (int64_t)at->n_items : i];
        } else {
            return NULL;
        }
        if (!at)
            return NULL;
    }
}

/* An index as upstream's library reads it: a decimal number, leading zeros and a sign allowed. */
static bool index_of(struct bh_str s, int64_t n, int64_t *ret)
{
    bool neg = s.n && s.p[0] == '-';
    size_t i = neg || (s.n && s.p[0] == '+') ? 1 : 0;
    int64_t v = 0;

    if (i == s.n)
        return false;
    for (; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9' || v > n)
            return false;
        v = v * 10 + (s.p[i] - '0');
    }
    *ret = neg ? -v : v;
    return true;
}

static bool get(struct bh_jv *in, struct bh_str key, struct bh_jv *ret)
{
    int64_t i;

    *ret = BH_JV_NULL;
    if (in->kind == BH_JSON_OBJ) {
        struct bh_jv *v = bh_jv_get(in, key);

        if (v)
            *ret = *v;
        return true; /* a missing key reads as null */
    }
    if (!index_of(key, (int64_t)in->n_items, &i))
        return false;
    if (i < 0)
        i += (int64_t)in->n_items;
    if (i < 0 || i >= (int64_t)in->n_items)
        return false;
    *ret = in->items[i];
    return true;
}

static bool add(struct jp *j, struct bh_jv *in, struct bh_str key, struct bh_jv v)
{
    int64_t i, n;

    if (in->kind == BH_JSON_OBJ) {
        (void)bh_jv_set(j->a, in, key, v);
        bh_patch_sort(in);
        return true;
    }
    n = (int64_t)in->n_items;
    if (bh_str_eqc(key, "-")) {
        (void)bh_jv_append(j->a, in, v);
        return true;
    }
    if (!index_of(key, n, &i) || i > n)
        return false;
    if (i < 0) {
        i += n + 1;
        if (i < 0)
            return false;
    }
    (void)bh_jv_insert(j->a, in, (size_t)i, v);
    return true;
}

static bool drop(struct bh_jv *in, struct bh_str key)
{
    int64_t i;

    if (in->kind == BH_JSON_OBJ)
        return bh_jv_del(in, key);
    if (!index_of(key, (int64_t)in->n_items, &i))
        return false;
    if (i < 0)
        i += (int64_t)in->n_items;
    if (i < 0 || i >= (int64_t)in->n_items)
        return false;
    bh_jv_remove(in, (size_t)i);
    return true;
}

static bool do_replace(struct jp *j, const struct op *o)
{
    struct bh_str key;
    struct bh_jv *in;
    int64_t i;

    if (!o->path.n) {
        if (!o->value || (o->value->kind != BH_JSON_OBJ && o->value->kind != BH_JSON_ARR))
            return false;
        j->doc = *o->value;
        return true;
    }
    in = parent_of(j, o->path, &key);
    if (!in || !o->value)
        return false;
    if (in->kind == BH_JSON_OBJ)
        return add(j, in, key, *o->value);
    if (!index_of(key, (int64_t)in->n_items, &i))
        return false;
    if (i < 0)
        i += (int64_t)in->n_items;
    if (i < 0 || i >= (int64_t)in->n_items)
        return false;
    in->items[i] = *o->value;
    return true;
}

/* Refuses copies that together grow too big (a patch can double the document with each). */
static bool do_copy(struct jp *j, const struct op *o)
{
    struct bh_str key;
    struct bh_jv v, *in = parent_of(j, o->from, &key);

    if (!in || !get(in, key, &v))
        return false;
    in = parent_of(j, o->path, &key);
    if (!in)
        return false;
    BH_AUTO_BUF size = {.max = BH_BODY_BYTES_MAX};

    bh_jv_write(&size, &v, 0);
    j->copied += size.overflow ? BH_BODY_BYTES_MAX + 1 : size.n;
    if (j->copied > BH_BODY_BYTES_MAX)
        return false;
    return add(j, in, key, bh_jv_copy(j->a, &v));
}

static bool do_move(struct jp *j, const struct op *o)
{
    struct bh_str key;
    struct bh_jv v, *in = parent_of(j, o->from, &key);

    if (!in || !get(in, key, &v) || !drop(in, key))
        return false;
    in = parent_of(j, o->path, &key);
    return in && add(j, in, key, v);
}

static bool do_test(struct jp *j, const struct op *o)
{
    struct bh_jv v = BH_JV_NULL, none = BH_JV_NULL;
    struct bh_str key;
    struct bh_jv *in;

    if (!o->path.n) {
        v = j->doc;
    } else {
        in = parent_of(j, o->path, &key);
        if (!in || !get(in, key, &v))
            return false;
    }
    return bh_jv_eq(&v, o->value ? o->value : &none);
}

static bool apply_op(struct jp *j, const struct op *o)
{
    struct bh_str key;
    struct bh_jv *in;

    if (bh_str_eqc(o->op, "add")) {
        in = parent_of(j, o->path, &key);
        return in && o->value && add(j, in, key, *o->value);
    }
    if (bh_str_eqc(o->op, "remove")) {
        in = parent_of(j, o->path, &key);
        return in && drop(in, key);
    }
    if (bh_str_eqc(o->op, "replace"))
        return do_replace(j, o);
    if (bh_str_eqc(o->op, "move"))
        return do_move(j, o);
    if (bh_str_eqc(o->op, "test"))
        return do_test(j, o);
    return bh_str_eqc(o->op, "copy") && do_copy(j, o);
}

static int read_op_str(const struct bh_jv *o, const char *name, struct bh_str *ret,
                       struct bh_err *err)
{
    const struct bh_jv *v = bh_jv_getc(o, name);

    *ret = (struct bh_str){NULL, 0};
    if (!v || v->kind == BH_JSON_NULL)
        return 0;
    if (v->kind != BH_JSON_STR)
        return bh_err_set(err, BH_E_BAD_REQUEST,
                          "error decoding patch: json: cannot unmarshal %s into Go struct field "
                          "jsonPatchOp.%s of type string",
                          bh_json_kind_name((enum bh_json_kind)v->kind), name);
    *ret = v->s;
    return 0;
}

static int read_op(struct bh_jv *v, struct op *o, struct bh_arena *a, struct bh_err *err)
{
    int rc;

    *o = (struct op){0};
    if (v->kind == BH_JSON_NULL)
        return 0;
    if (v->kind != BH_JSON_OBJ)
        return bh_err_set(err, BH_E_BAD_REQUEST,
                          "error decoding patch: json: cannot unmarshal %s into Go value of type "
                          "handlers.jsonPatchOp",
                          bh_json_kind_name((enum bh_json_kind)v->kind));
    rc = read_op_str(v, "op", &o->op, err);
    if (rc == 0)
        rc = read_op_str(v, "from", &o->from, err);
    if (rc == 0)
        rc = read_op_str(v, "path", &o->path, err);
    o->value = bh_jv_getc(v, "value");
    if (!o->value)
        o->value = bh_new(a, struct bh_jv);
    if (o->value->kind == BH_JSON_NONE)
        *o->value = BH_JV_NULL; /* left out is null */
    if (rc == 0 && (bh_str_eqc(o->op, "copy") || bh_str_eqc(o->op, "move")) && !o->from.p)
        o->op = BH_S("");
    if (rc == 0 && !bh_jv_getc(v, "path"))
        o->op = BH_S(""); /* an operation without a path is none */
    return rc;
}

/* Members that no operation has. */
static void note_unknown(const struct bh_jv *o, size_t index, struct bh_strict *strict,
                         struct bh_arena *a)
{
    static const char *const known[] = {"op", "from", "path", "value"};

    for (size_t i = 0; o->kind == BH_JSON_OBJ && i < o->n_members; i++) {
        size_t k = 0;

        while (k < BH_COUNT(known) && !bh_str_eqc(o->members[i].key, known[k]))
            k++;
        if (k == BH_COUNT(known))
            bh_patch_note(strict, a, "json patch unknown field \"%.*s\"",
                          bh_str_fmt(a, "[%zu].%.*s", index, BH_SF(o->members[i].key)));
    }
}

/* The objects on the way to a place come out sorted: upstream has taken them apart. What it never
 * looked into stays as it was. */
static void sort_along(struct jp *j, struct bh_str path)
{
    struct bh_str rest = path;
    struct bh_jv *at = &j->doc;
    int64_t i;

    (void)bh_str_cut(&rest, '/');
    while (at && rest.p && rest.n > 0) {
        struct bh_str key = token(j->a, bh_str_cut(&rest, '/'));

        if (at->kind == BH_JSON_OBJ) {
            bh_patch_sort(at);
            at = bh_jv_get(at, key);
        } else {
            at = bh_str_i64(key, 0, INT64_MAX, &i) ? bh_jv_at(at, (size_t)i) : NULL;
        }
    }
}

int bh_patch_json(struct bh_str doc, struct bh_str patch, struct bh_arena *a, struct bh_buf *out,
                  struct bh_strict *strict, struct bh_err *err)
{
    struct bh_json_dups dups = {0};
    struct jp j = {.a = a};
    struct bh_jv p;
    struct op o;
    int rc = bh_patch_parse(patch, "[]handlers.jsonPatchOp", BH_JSON_ARR, a, NULL, &p, err);

    if (rc == 0 && strict)
        rc = bh_jv_parse(a, patch, &dups, &p, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < dups.paths.n; i++)
        bh_patch_note(strict, a, "json patch duplicate field \"%.*s\"", dups.paths.p[i]);
    size_t n = p.kind == BH_JSON_ARR ? p.n_items : 0;

    if (n > BH_PATCH_OPS_MAX)
        return bh_err_set(err, BH_E_LIMIT,
                          "Request entity too large: The allowed maximum operations in a JSON "
                          "patch is %d, got %zu",
                          BH_PATCH_OPS_MAX, n);
    for (size_t i = 0; i < n; i++) { /* a malformed one spoils all */
        rc = read_op(&p.items[i], &o, a, err);
        if (rc < 0)
            return rc;
        if (strict)
            note_unknown(&p.items[i], i, strict, a);
    }
    rc = bh_jv_parse(a, doc, NULL, &j.doc, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = read_op(&p.items[i], &o, a, err);
        if (rc == 0 && !apply_op(&j, &o))
            rc = bh_err_set(err, BH_E_INVALID,
                            "the server rejected our request due to an error in our request");
    }
    if (rc < 0)
        return rc;
    bh_patch_sort(&j.doc);
    for (size_t i = 0; i < n; i++)
        if (read_op(&p.items[i], &o, a, err) == 0) {
            sort_along(&j, o.path);
            sort_along(&j, o.from);
        }
    bh_jv_write(out, &j.doc, 0);
    return 0;
}
