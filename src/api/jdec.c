/* JSON text to structs, with the habits and the words of Go's decoder.
 *
 * Go saves the first type error and reads on; an error out of a value's own decoder (quantities,
 * times, int-or-string) ends the reading and wins over a saved one; malformed text wins over
 * everything, as upstream checks it beforehand. Here the text is checked only when something went
 * wrong, so that good input is read once.
 */
#include "api/engine_int.h"
#include "base/map.h"
#include "data/codec.h"
#include "data/json.h"
#include "data/quantity.h"

#include <stdlib.h>

/* Where the decoder stands: one frame per field, list element or map value. */
struct frame {
    const struct frame *up;
    const struct bh_type *in;       /* FIELD: the message; NULL otherwise */
    const struct bh_field_ref *ref; /* FIELD */
    struct bh_str key;              /* map value; FIELD without ref: an unknown field */
    int64_t index;                  /* list element */
    enum { FIELD, INDEX, KEY } kind;
};

struct dec {
    struct bh_json_rd rd;
    struct bh_arena *a;
    struct bh_strict *strict; /* NULL: not collected */
    size_t strict_cap;
    struct bh_err saved; /* first type error */
    bool has_saved;
};

static int dec_msg(struct dec *d, const struct bh_type *t, void *obj, const struct frame *at,
                   bool top, struct bh_str go_type, struct bh_err *err);
static int dec_elem(struct dec *d, const struct bh_field *f, void *p, struct bh_str go,
                    const struct frame *at, struct bh_err *err);
static int dec_field(struct dec *d, const struct bh_field *f, void *obj, const struct frame *at,
                     struct bh_err *err);

/* ---- error texts ---- */

static void go_path(const struct frame *at, struct bh_buf *out, bool *first)
{
    if (!at)
        return;
    go_path(at->up, out, first);
    if (at->kind != FIELD || !at->ref)
        return;
    /* Fields that come through inline messages name these too: ProbeHandler.httpGet. */
    const struct bh_type *t = at->in;
    uint16_t via = at->ref->via;

    while (via) {
        const struct bh_field *in = &t->fields[via - 1];
        const struct bh_field_ref *r;

        if (!*first)
            bh_buf_addc(out, '.');
        *first = false;
        bh_buf_adds(out, in->json);
        t = in->msg;
        r = bh_type_find(t, at->ref->f->json);
        via = r ? r->via : 0;
    }
    if (!*first)
        bh_buf_addc(out, '.');
    *first = false;
    bh_buf_adds(out, at->ref->f->json);
}

/* Fills e with upstream's UnmarshalTypeError. */
static int type_error(struct bh_err *e, const char *what, struct bh_str literal, struct bh_str go,
                      const struct frame *at)
{
    BH_AUTO_BUF b = {.max = 400};
    const struct frame *f = at;
    bool first = true;

    while (f && !(f->kind == FIELD && f->ref))
        f = f->up;
    if (!f)
        return bh_err_set(e, BH_E_BAD_REQUEST,
                          "json: cannot unmarshal %s%s%.*s into Go value of type %.*s", what,
                          literal.n ? " " : "", BH_SF(literal), BH_SF(go));
    go_path(at, &b, &first);
    return bh_err_set(e, BH_E_BAD_REQUEST,
                      "json: cannot unmarshal %s%s%.*s into Go struct field %.*s.%s of type %.*s",
                      what, literal.n ? " " : "", BH_SF(literal), BH_SF(f->in->name),
                      bh_buf_cstr(&b), BH_SF(go));
}

/* Saves the error for the value at the cursor and passes the value. */
static int mismatch(struct dec *d, struct bh_str go, const struct frame *at, struct bh_err *err)
{
    if (!d->has_saved) {
        (void)type_error(&d->saved, bh_json_kind_name(bh_json_peek(&d->rd)), BH_S(""), go, at);
        d->has_saved = true;
    }
    return bh_json_skip(&d->rd, NULL, err);
}

static void bad_number(struct dec *d, struct bh_str raw, struct bh_str go, const struct frame *at)
{
    if (!d->has_saved)
        (void)type_error(&d->saved, "number", raw, go, at);
    d->has_saved = true;
}

/* ---- unknown and duplicate fields ---- */

static void strict_path(const struct frame *at, struct bh_buf *out)
{
    if (!at)
        return;
    strict_path(at->up, out);
    if (at->kind == INDEX) {
        bh_buf_addf(out, "[%lld]", (long long)at->index);
        return;
    }
    if (out->n)
        bh_buf_addc(out, '.');
    bh_buf_adds(out, at->kind == FIELD && at->ref ? at->ref->f->json : at->key);
}

static void add_strict(struct dec *d, const char *what, const struct frame *at)
{
    struct bh_str_vec *v = &d->strict->texts;
    BH_AUTO_BUF path = {.max = BH_BODY_BYTES_MAX};

    if (v->n >= BH_STRICT_MAX)
        return;
    strict_path(at, &path);
    struct bh_str s = bh_str_fmt(d->a, "%s field \"%.*s\"", what, BH_SF(bh_buf_str(&path)));

    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i], s))
            return;
    bh_arena_grow(d->a, &v->p, &d->strict_cap, v->n + 1, sizeof(v->p[0]));
    v->p[v->n++] = s;
}

/* ---- scalars ---- */

static int dec_int(struct dec *d, const struct bh_field *f, void *p, struct bh_str go,
                   const struct frame *at, struct bh_err *err)
{
    struct bh_str raw;
    int64_t v, lo = INT64_MIN, hi = INT64_MAX;
    int rc = bh_json_take_num(&d->rd, &raw, err);

    if (rc < 0)
        return rc;
    if (f->type == BH_T_UINT32)
        lo = 0, hi = UINT32_MAX;
    else if (f->type != BH_T_INT64)
        lo = INT32_MIN, hi = INT32_MAX;
    if (!bh_json_num_i64(raw, &v) || v < lo || v > hi) {
        bad_number(d, raw, go, at);
        return 0;
    }
    if (f->type == BH_T_INT64)
        *(int64_t *)p = v;
    else if (f->type == BH_T_UINT32)
        *(uint32_t *)p = (uint32_t)v;
    else
        *(int32_t *)p = (int32_t)v;
    return 0;
}

static int dec_double(struct dec *d, double *p, struct bh_str go, const struct frame *at,
                      struct bh_err *err)
{
    struct bh_str raw;
    double v;
    int rc = bh_json_take_num(&d->rd, &raw, err);

    if (rc < 0)
        return rc;
    if (bh_json_num_double(raw, &v))
        *p = v;
    else
        bad_number(d, raw, go, at);
    return 0;
}

/* Go also reads a list of numbers into a byte slice. */
static int dec_byte_list(struct dec *d, struct bh_str *p, const struct frame *at,
                         struct bh_err *err)
{
    char *buf = NULL;
    size_t n = 0, cap = 0;
    int rc = bh_json_enter(&d->rd, err);

    if (rc < 0)
        return rc;
    while ((rc = bh_json_next_item(&d->rd, err)) > 0) {
        struct bh_str raw = {NULL, 0};
        int64_t v = 0;

        if (bh_json_peek(&d->rd) != BH_JSON_NUM) {
            if (bh_json_peek(&d->rd) == BH_JSON_NULL)
                rc = bh_json_take_null(&d->rd, err);
            else
                rc = mismatch(d, BH_S("uint8"), at, err);
        } else if ((rc = bh_json_take_num(&d->rd, &raw, err)) == 0 &&
                   (!bh_json_num_i64(raw, &v) || v < 0 || v > 255)) {
            bad_number(d, raw, BH_S("uint8"), at);
            v = 0;
        }
        if (rc < 0)
            return rc;
        bh_arena_grow(d->a, &buf, &cap, n + 1, 1);
        buf[n++] = (char)v;
    }
    if (rc < 0)
        return rc;
    *p = (struct bh_str){buf ? buf : bh_arena_alloc(d->a, 0), n};
    return 0;
}

static int dec_bytes(struct dec *d, struct bh_str *p, struct bh_str go, const struct frame *at,
                     struct bh_err *err)
{
    enum bh_json_kind k = bh_json_peek(&d->rd);
    struct bh_str s;
    int rc;

    if (k == BH_JSON_ARR)
        return dec_byte_list(d, p, at, err);
    if (k != BH_JSON_STR)
        return mismatch(d, go, at, err);
    rc = bh_json_take_str(&d->rd, &s, err);
    if (rc < 0)
        return rc;
    struct bh_err e = {0};

    if (bh_base64_decode(d->a, s, p, &e) < 0 && !d->has_saved) {
        d->saved = e;
        d->has_saved = true;
    }
    if (p->n == 0 && !p->p)
        p->p = bh_arena_alloc(d->a, 0);
    return 0;
}

static int dec_quantity(struct dec *d, struct bh_str *p, struct bh_err *err)
{
    struct bh_str raw;
    int rc = bh_json_skip(&d->rd, &raw, err);

    if (rc < 0)
        return rc;
    if (raw.n >= 2 && raw.p[0] == '"') /* upstream cuts the quotes off and does not unescape */
        raw = bh_str_sub(raw, 1, raw.n - 1);
    return bh_quantity_canonical(d->a, raw, p, err);
}

static int dec_time(struct dec *d, const struct bh_field *f, struct bh_time *p, struct bh_str go,
                    const struct frame *at, struct bh_err *err)
{
    struct bh_str s;
    int rc;

    if (bh_json_peek(&d->rd) != BH_JSON_STR)
        return type_error(err, bh_json_kind_name(bh_json_peek(&d->rd)), BH_S(""), go, at);
    rc = bh_json_take_str(&d->rd, &s, err);
    if (rc < 0)
        return rc;
    if (f->type == BH_T_MICROTIME)
        return bh_time_parse_micro(s, p, err);
    rc = bh_time_parse(s, p, err);
    if (rc == 0 && p->sec != 0)
        p->nsec = 0; /* metav1.Time holds whole seconds on every wire */
    return rc;
}

static int dec_intorstr(struct dec *d, struct bh_intstr *p, struct bh_str go,
                        const struct frame *at, struct bh_err *err)
{
    enum bh_json_kind k = bh_json_peek(&d->rd);
    struct bh_str raw;
    int64_t v;
    int rc;

    if (k == BH_JSON_STR) {
        *p = (struct bh_intstr){.is_str = true};
        return bh_json_take_str(&d->rd, &p->s, err);
    }
    if (k != BH_JSON_NUM)
        return type_error(err, bh_json_kind_name(k), BH_S(""), go, at);
    rc = bh_json_take_num(&d->rd, &raw, err);
    if (rc < 0)
        return rc;
    if (!bh_json_num_i64(raw, &v) || v < INT32_MIN || v > INT32_MAX)
        return type_error(err, "number", raw, go, at);
    *p = (struct bh_intstr){.i = (int32_t)v};
    return 0;
}

static int dec_raw(struct dec *d, struct bh_str *p, struct bh_err *err)
{
    struct bh_str raw;
    int rc = bh_json_skip(&d->rd, &raw, err);

    if (rc < 0)
        return rc;
    size_t i = 0;

    while (i < raw.n && (unsigned char)raw.p[i] > ' ')
        i++;
    if (i == raw.n) { /* no blanks at all: compact already */
        *p = raw;
        return 0;
    }
    BH_AUTO_BUF b = {.max = raw.n + 1};
    bh_json_compact(&b, raw);
    *p = b.n == raw.n ? raw : bh_str_dup(d->a, bh_buf_str(&b));
    return 0;
}

/* One value at the cursor, not null. */
static int dec_elem(struct dec *d, const struct bh_field *f, void *p, struct bh_str go,
                    const struct frame *at, struct bh_err *err)
{
    enum bh_json_kind k;

    switch ((enum bh_ftype)f->type) {
    case BH_T_MESSAGE:
        return dec_msg(d, f->msg, p, at, (f->flags & BH_F_TYPED) != 0, go, err);
    case BH_T_STRING:
        if (bh_json_peek(&d->rd) != BH_JSON_STR)
            return mismatch(d, go, at, err);
        return bh_json_take_str(&d->rd, p, err);
    case BH_T_BOOL:
        if (bh_json_peek(&d->rd) != BH_JSON_BOOL)
            return mismatch(d, go, at, err);
        return bh_json_take_bool(&d->rd, p, err);
    case BH_T_INT32:
    case BH_T_INT64:
    case BH_T_UINT32:
    case BH_T_DOUBLE:
        k = bh_json_peek(&d->rd);
        if (k != BH_JSON_NUM)
            return mismatch(d, go, at, err);
        return f->type == BH_T_DOUBLE ? dec_double(d, p, go, at, err)
                                      : dec_int(d, f, p, go, at, err);
    case BH_T_BYTES:
        return dec_bytes(d, p, go, at, err);
    case BH_T_QUANTITY:
        return dec_quantity(d, p, err);
    case BH_T_TIME:
    case BH_T_MICROTIME:
        return dec_time(d, f, p, go, at, err);
    case BH_T_INTORSTR:
        return dec_intorstr(d, p, go, at, err);
    case BH_T_RAW:
        return dec_raw(d, p, err);
    }
    return bh_err_set(err, BH_E_INTERNAL, "field %.*s has an unknown type", BH_SF(f->json));
}

/* ---- lists and maps ---- */

/* Lists of big elements (containers, volumes) mostly hold one: room for more is made when it comes.
 */
#define BIG_ELEMENT 128

static int dec_list(struct dec *d, const struct bh_field *f, struct bh_vec *v,
                    const struct frame *at, struct bh_err *err)
{
    struct bh_str go = bh_str_sub(f->go_type, 2, f->go_type.n);
    struct frame fr = {.up = at, .kind = INDEX};
    struct bh_vec out = {NULL, 0};
    size_t cap = 0;
    int rc;

    if (bh_json_peek(&d->rd) != BH_JSON_ARR)
        return mismatch(d, f->go_type, at, err);
    rc = bh_json_enter(&d->rd, err);
    if (rc < 0)
        return rc;
    while ((rc = bh_json_next_item(&d->rd, err)) > 0) {
        if (cap == 0 && f->elem_size >= BIG_ELEMENT) {
            out.p = bh_arena_alloc(d->a, f->elem_size);
            cap = 1;
        } else if (out.n == cap) {
            bh_arena_grow(d->a, &out.p, &cap, out.n + 1, f->elem_size);
        }
        void *p = bh_at(out.p, out.n * f->elem_size);

        memset(p, 0, f->elem_size);
        fr.index = (int64_t)out.n++;
        rc = bh_json_peek(&d->rd) == BH_JSON_NULL ? bh_json_take_null(&d->rd, err)
                                                  : dec_elem(d, f, p, go, &fr, err);
        if (f->type == BH_T_QUANTITY && !((struct bh_str *)p)->p)
            *(struct bh_str *)p = BH_S("0");
        if (rc < 0)
            return rc;
    }
    if (rc < 0)
        return rc;
    if (!out.p)
        out.p = bh_arena_alloc(d->a, 0);
    *v = out;
    return 0;
}

static int entry_cmp(const void *x, const void *y)
{
    return bh_str_cmp(*(const struct bh_str *)x, *(const struct bh_str *)y);
}

/* Past this many entries duplicates are looked up by hash. */
#define MAP_LINEAR_MAX 24

struct map_dec {
    struct bh_vec out;
    size_t cap;
    bool sorted;
    struct bh_map index; /* key to entry + 1, once there are many */
};

static void *map_find(struct map_dec *m, const struct bh_field *f, struct bh_str key)
{
    size_t i;

    if (m->out.n == 0)
        return NULL;
    if (m->sorted && bh_str_cmp(key, *(const struct bh_str *)bh_cat(
                                         m->out.p, (m->out.n - 1) * f->elem_size)) > 0)
        return NULL;
    if (m->out.n <= MAP_LINEAR_MAX) {
        for (i = 0; i < m->out.n; i++)
            if (bh_str_eq(*(struct bh_str *)bh_at(m->out.p, i * f->elem_size), key))
                return bh_at(m->out.p, i * f->elem_size);
        return NULL;
    }
    if (m->index.n == 0)
        for (i = 0; i < m->out.n; i++)
            (void)bh_map_put(&m->index, *(struct bh_str *)bh_at(m->out.p, i * f->elem_size),
                             (void *)(uintptr_t)(i + 1));
    i = (size_t)(uintptr_t)bh_map_get(&m->index, key);
    return i ? bh_at(m->out.p, (i - 1) * f->elem_size) : NULL;
}

static void *map_add(struct dec *d, struct map_dec *m, const struct bh_field *f, struct bh_str key)
{
    if (m->out.n == m->cap)
        bh_arena_grow(d->a, &m->out.p, &m->cap, m->out.n + 1, f->elem_size);
    void *e = bh_at(m->out.p, m->out.n * f->elem_size);

    if (m->out.n && bh_str_cmp(key, *(const struct bh_str *)bh_cat(m->out.p, (m->out.n - 1) *
                                                                                 f->elem_size)) < 0)
        m->sorted = false;
    memset(e, 0, f->elem_size);
    *(struct bh_str *)e = key;
    m->out.n++;
    if (m->index.n)
        (void)bh_map_put(&m->index, key, (void *)(uintptr_t)m->out.n);
    return e;
}

static int map_entries(struct dec *d, const struct bh_field *f, struct map_dec *m,
                       const struct frame *at, struct bh_err *err)
{
    struct bh_str go = bh_go_elem(f);
    struct frame fr = {.up = at, .kind = KEY};
    struct bh_str key;
    int rc = bh_json_enter(&d->rd, err);

    if (rc < 0)
        return rc;
    while ((rc = bh_json_next_key(&d->rd, &key, err)) > 0) {
        void *e = map_find(m, f, key);

        fr.key = key;
        if (e) {
            if (d->strict)
                add_strict(d, "duplicate", &fr);
            memset(bh_at(e, f->value_off), 0, f->elem_size - f->value_off);
        } else {
            e = map_add(d, m, f, key);
        }
        rc = bh_json_peek(&d->rd) == BH_JSON_NULL
                 ? bh_json_take_null(&d->rd, err)
                 : dec_elem(d, f, bh_at(e, f->value_off), go, &fr, err);
        if (f->type == BH_T_BYTES && !((struct bh_str *)bh_at(e, f->value_off))->p)
            ((struct bh_str *)bh_at(e, f->value_off))->p = ""; /* null is stored as no bytes */
        else if (f->type == BH_T_QUANTITY && !((struct bh_str *)bh_at(e, f->value_off))->p)
            *(struct bh_str *)bh_at(e, f->value_off) = BH_S("0");
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int dec_map(struct dec *d, const struct bh_field *f, struct bh_vec *v,
                   const struct frame *at, struct bh_err *err)
{
    struct map_dec m = {.sorted = true};
    struct bh_vec old = *v;
    int rc;

    if (bh_json_peek(&d->rd) != BH_JSON_OBJ)
        return mismatch(d, f->go_type, at, err);
    rc = map_entries(d, f, &m, at, err);
    /* The map of an earlier duplicate is merged into, as Go does. */
    for (size_t i = 0; rc == 0 && i < old.n; i++) {
        const void *e = bh_cat(old.p, i * f->elem_size);

        if (!map_find(&m, f, *(const struct bh_str *)e))
            memcpy(map_add(d, &m, f, *(const struct bh_str *)e), e, f->elem_size);
    }
    bh_map_done(&m.index);
    if (rc < 0)
        return rc;
    if (!m.sorted)
        qsort(m.out.p, m.out.n, f->elem_size, entry_cmp);
    if (!m.out.p)
        m.out.p = bh_arena_alloc(d->a, 0);
    *v = m.out;
    return 0;
}

/* ---- fields and messages ---- */

static int dec_null(struct dec *d, const struct bh_field *f, void *obj, struct bh_err *err)
{
    void *p = bh_at(obj, f->off);
    bool *has = bh_has(obj, f);

    if (f->shape != BH_ONE)
        *(struct bh_vec *)p = (struct bh_vec){NULL, 0};
    else if (bh_is_ptr_msg(f))
        *(void **)p = NULL;
    else if (has || f->type == BH_T_RAW || f->type == BH_T_BYTES || f->type == BH_T_TIME ||
             f->type == BH_T_MICROTIME || f->type == BH_T_QUANTITY)
        memset(p, 0, f->elem_size);
    if (has)
        *has = false;
    return bh_json_take_null(&d->rd, err);
}

static int dec_field(struct dec *d, const struct bh_field *f, void *obj, const struct frame *at,
                     struct bh_err *err)
{
    void *p = bh_at(obj, f->off);
    bool *has;
    int rc;

    if (bh_json_peek(&d->rd) == BH_JSON_NULL)
        return dec_null(d, f, obj, err);
    if (f->shape == BH_LIST)
        return dec_list(d, f, p, at, err);
    if (f->shape == BH_MAP)
        return dec_map(d, f, p, at, err);
    if (bh_is_ptr_msg(f)) {
        void **pp = p;

        if (!*pp)
            *pp = bh_arena_alloc(d->a, f->msg->size);
        return dec_msg(d, f->msg, *pp, at, false, f->go_type, err);
    }
    rc = dec_elem(d, f, p, f->go_type, at, err);
    has = bh_has(obj, f);
    if (has)
        *has = true;
    return rc;
}

static bool key_is(struct bh_str key, const char *lit, size_t n)
{
    return key.n == n && memcmp(key.p, lit, n) == 0;
}

/* kind and apiVersion stand beside the message at the top of a document. */
static bool is_type_meta(const struct bh_type *t, struct bh_str key)
{
    return (key_is(key, "kind", 4) || key_is(key, "apiVersion", 10)) && !bh_type_find(t, key);
}

#define SEEN_WORDS 4 /* refs of one message: tools/apigen.py refuses more than 256 */

static int dec_members(struct dec *d, const struct bh_type *t, void *obj, const struct frame *at,
                       bool top, struct bh_err *err)
{
    struct frame fr = {.up = at, .in = t, .kind = FIELD};
    uint64_t seen[SEEN_WORDS] = {0};
    bool seen_kind = false, seen_version = false;
    uint32_t next = 0;
    struct bh_str key;
    int rc;

    while ((rc = bh_json_next_key(&d->rd, &key, err)) > 0) {
        const struct bh_field_ref *r;

        /* Documents that were encoded here have their fields in order: the next one is the likely
         * one. */
        if (next < t->n_refs && t->refs[next].f->json.n == key.n && key.n &&
            memcmp(t->refs[next].f->json.p, key.p, key.n) == 0)
            r = &t->refs[next];
        else
            r = bh_type_find(t, key);
        fr.ref = r;
        fr.key = key;
        if (!r) {
            bool meta = top && is_type_meta(t, key);

            if (meta && d->strict) {
                bool *again = key.n == 4 ? &seen_kind : &seen_version;

                if (*again)
                    add_strict(d, "duplicate", &fr);
                *again = true;
            } else if (d->strict) {
                add_strict(d, "unknown", &fr);
            }
            if (meta && bh_json_peek(&d->rd) != BH_JSON_STR && bh_json_peek(&d->rd) != BH_JSON_NULL)
                rc = mismatch(d, BH_S("string"), &fr, err);
            else
                rc = bh_json_skip(&d->rd, NULL, err);
            if (rc < 0)
                return rc;
            continue;
        }
        uint32_t i = (uint32_t)(r - t->refs);

        next = i + 1;
        if (d->strict) {
            if (seen[i / 64] >> (i % 64) & 1)
                add_strict(d, "duplicate", &fr);
            seen[i / 64] |= (uint64_t)1 << (i % 64);
        }
        rc = dec_field(d, r->f, bh_at(obj, r->base), &fr, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int dec_msg(struct dec *d, const struct bh_type *t, void *obj, const struct frame *at,
                   bool top, struct bh_str go_type, struct bh_err *err)
{
    int rc;

    if (t->flags & BH_M_BARE)
        return dec_field(d, bh_bare_field(t), obj, at, err);
    if (bh_json_peek(&d->rd) != BH_JSON_OBJ)
        return mismatch(d, go_type, at, err);
    rc = bh_json_enter(&d->rd, err);
    return rc < 0 ? rc : dec_members(d, t, obj, at, top, err);
}

/* Ends a decode: which of the errors counts. */
static int verdict(struct dec *d, struct bh_str json, int rc, struct bh_err *err)
{
    struct bh_err e = {0};

    if (rc == 0)
        rc = bh_json_end(&d->rd, err);
    if (rc == 0 && !d->has_saved)
        return 0;
    int syntax = bh_json_check(json, &e);

    if (syntax < 0) {
        if (err)
            *err = e;
        return syntax;
    }
    if (rc < 0)
        return rc;
    if (err)
        *err = d->saved;
    return -(int)d->saved.code;
}

/* json must stay as long as the result. */
static int decode(const struct bh_type *t, struct bh_str json, void *obj, struct bh_arena *a,
                  bool top, struct bh_strict *strict, struct bh_err *err)
{
    struct dec d = {.a = a, .strict = strict};
    int rc;

    bh_json_rd_init(&d.rd, json, a);
    if (bh_json_peek(&d.rd) == BH_JSON_NULL)
        rc = bh_json_take_null(&d.rd, err);
    else
        rc = dec_msg(&d, t, obj, NULL, top, t->go_name, err);
    return verdict(&d, json, rc, err);
}

int bh_msg_decode_json(const struct bh_type *t, struct bh_str json, void *obj, struct bh_arena *a,
                       struct bh_strict *strict, struct bh_err *err)
{
    return decode(t, bh_str_dup(a, json), obj, a, false, strict, err);
}

int bh_kind_decode_json(const struct bh_kind *k, struct bh_str json, struct bh_arena *a,
                        void **ret_obj, struct bh_strict *strict, struct bh_err *err)
{
    return bh_kind_decode_json_view(k, bh_str_dup(a, json), a, ret_obj, strict, err);
}

int bh_kind_decode_json_view(const struct bh_kind *k, struct bh_str json, struct bh_arena *a,
                             void **ret_obj, struct bh_strict *strict, struct bh_err *err)
{
    void *obj = bh_arena_alloc(a, k->type->size);
    int rc = decode(k->type, json, obj, a, true, strict, err);

    *ret_obj = rc < 0 ? NULL : obj;
    return rc;
}

int bh_kind_decode_list_json(const struct bh_kind *k, struct bh_str json, struct bh_arena *a,
                             void **ret_list, struct bh_err *err)
{
    *ret_list = NULL;
    if (!k->list_type)
        return bh_err_set(err, BH_E_INTERNAL, "%.*s has no list", BH_SF(k->kind));
    void *list = bh_arena_alloc(a, k->list_type->size);
    int rc = decode(k->list_type, bh_str_dup(a, json), list, a, true, NULL, err);

    if (rc == 0)
        *ret_list = list;
    return rc;
}

int bh_field_decode_json(const struct bh_field *f, struct bh_str json, void *obj,
                         struct bh_arena *a, struct bh_err *err)
{
    struct dec d = {.a = a};

    bh_json_rd_init(&d.rd, json, a);
    return verdict(&d, json, dec_field(&d, f, obj, NULL, err), err);
}

struct bh_str bh_strict_join(const struct bh_strict *s, struct bh_arena *a)
{
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < s->texts.n; i++) {
        if (i)
            bh_buf_addz(&b, ", ");
        bh_buf_adds(&b, s->texts.p[i]);
    }
    return bh_str_dup(a, bh_buf_str(&b));
}

#define PEEK_GO_TYPE                                                                               \
    "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string "               \
    "\"json:\\\"kind,omitempty\\\"\" }"

int bh_json_peek_kind(struct bh_str json, struct bh_arena *a, struct bh_str *ret_api_version,
                      struct bh_str *ret_kind, struct bh_err *err)
{
    struct bh_json_rd r;
    struct bh_str key;
    int rc;

    *ret_api_version = *ret_kind = BH_S("");
    rc = bh_json_check(json, err);
    if (rc < 0)
        goto out;
    bh_json_rd_init(&r, json, a);
    if (bh_json_peek(&r) == BH_JSON_NULL)
        return 0;
    if (bh_json_peek(&r) != BH_JSON_OBJ) {
        rc = bh_err_set(err, BH_E_BAD_REQUEST,
                        "json: cannot unmarshal %s into Go value of type " PEEK_GO_TYPE,
                        bh_json_kind_name(bh_json_peek(&r)));
        goto out;
    }
    rc = bh_json_enter(&r, err);
    while (rc >= 0 && (rc = bh_json_next_key(&r, &key, err)) > 0) {
        bool is_kind = key_is(key, "kind", 4), is_version = key_is(key, "apiVersion", 10);

        if ((is_kind || is_version) && bh_json_peek(&r) == BH_JSON_STR) {
            rc = bh_json_take_str(&r, is_kind ? ret_kind : ret_api_version, err);
        } else if ((is_kind || is_version) && bh_json_peek(&r) != BH_JSON_NULL) {
            rc = bh_err_set(err, BH_E_BAD_REQUEST,
                            "json: cannot unmarshal %s into Go struct field .%s of type string",
                            bh_json_kind_name(bh_json_peek(&r)), is_kind ? "kind" : "apiVersion");
            goto out;
        } else {
            rc = bh_json_skip(&r, NULL, err);
        }
    }
out:
    return rc < 0 ? bh_err_wrap(err, "couldn't get version/kind; json parse error") : 0;
}
