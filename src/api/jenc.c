/* Structs to JSON text, as Go's encoder writes them. */
#include "api/engine_int.h"
#include "data/codec.h"
#include "data/json.h"

/* 1: the byte cannot be copied as it is (quote, backslash, control, <, >, &, or part of a
 * multi-byte sequence). */
static const uint8_t special[256] = {
    [0 ... 0x1f] = 1, ['"'] = 1, ['\\'] = 1, ['<'] = 1, ['>'] = 1, ['&'] = 1, [0x80 ... 0xff] = 1,
};

void bh_enc_str(struct bh_buf *out, struct bh_str s)
{
    size_t i = 0;

    while (i < s.n && !special[(unsigned char)s.p[i]])
        i++;
    if (i < s.n) { /* the rare form */
        bh_json_write_str(out, s);
        return;
    }
    if (out->cap - out->n < s.n + 2)
        bh_buf_reserve(out, s.n + 2);
    bh_putc(out, '"');
    if (s.n)
        bh_put(out, s.p, s.n);
    bh_putc(out, '"');
}

static void put_i64(struct bh_buf *out, int64_t v)
{
    char tmp[24];
    size_t i = sizeof(tmp);
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

    do
        tmp[--i] = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0)
        tmp[--i] = '-';
    bh_put(out, tmp + i, sizeof(tmp) - i);
}

void bh_enc_time(struct bh_buf *out, struct bh_time t, bool micro)
{
    char tmp[BH_TIME_BUF];

    if (bh_time_is_zero(t)) {
        bh_put(out, "null", 4);
        return;
    }
    struct bh_str s = micro ? bh_time_fmt_micro(t, tmp) : bh_time_fmt(t, tmp);

    bh_putc(out, '"');
    bh_put(out, s.p, s.n);
    bh_putc(out, '"');
}

/* Raw text stands for itself; absent is null. */
static void enc_raw(struct bh_buf *out, struct bh_str s)
{
    if (s.n)
        bh_put(out, s.p, s.n);
    else
        bh_put(out, "null", 4);
}

static void enc_bytes(struct bh_buf *out, struct bh_str s)
{
    if (!s.p) {
        bh_put(out, "null", 4);
        return;
    }
    bh_putc(out, '"');
    bh_base64_write(out, s);
    bh_putc(out, '"');
}

static void enc_msg(const struct bh_type *t, const void *obj, struct bh_buf *out);
static void enc_typed(const struct bh_type *t, const void *obj, struct bh_buf *out);

static void enc_elem(const struct bh_field *f, const void *p, struct bh_buf *out)
{
    const struct bh_intstr *is;

    switch ((enum bh_ftype)f->type) {
    case BH_T_STRING:
        bh_enc_str(out, *(const struct bh_str *)p);
        break;
    case BH_T_QUANTITY:
        bh_enc_str(out, ((const struct bh_str *)p)->n ? *(const struct bh_str *)p : BH_S("0"));
        break;
    case BH_T_BYTES:
        enc_bytes(out, *(const struct bh_str *)p);
        break;
    case BH_T_RAW:
        enc_raw(out, *(const struct bh_str *)p);
        break;
    case BH_T_BOOL:
        if (*(const bool *)p)
            bh_put(out, "true", 4);
        else
            bh_put(out, "false", 5);
        break;
    case BH_T_INT32:
        put_i64(out, *(const int32_t *)p);
        break;
    case BH_T_INT64:
        put_i64(out, *(const int64_t *)p);
        break;
    case BH_T_UINT32:
        put_i64(out, *(const uint32_t *)p);
        break;
    case BH_T_DOUBLE:
        bh_json_write_double(out, *(const double *)p);
        break;
    case BH_T_TIME:
    case BH_T_MICROTIME:
        bh_enc_time(out, *(const struct bh_time *)p, f->type == BH_T_MICROTIME);
        break;
    case BH_T_INTORSTR:
        is = p;
        if (is->is_str)
            bh_enc_str(out, is->s);
        else
            put_i64(out, is->i);
        break;
    case BH_T_MESSAGE:
        if (f->flags & BH_F_TYPED)
            enc_typed(f->msg, p, out);
        else
            enc_msg(f->msg, p, out);
        break;
    }
}

void bh_elem_encode_json(const struct bh_field *f, const void *p, struct bh_buf *out)
{
    enc_elem(f, p, out);
}

static void enc_list(const struct bh_field *f, const struct bh_vec *v, struct bh_buf *out)
{
    if (!v->p) {
        bh_put(out, "null", 4);
        return;
    }
    bh_putc(out, '[');
    for (size_t i = 0; i < v->n; i++) {
        if (i)
            bh_putc(out, ',');
        enc_elem(f, bh_cat(v->p, i * f->elem_size), out);
    }
    bh_putc(out, ']');
}

static void enc_map(const struct bh_field *f, const struct bh_vec *v, struct bh_buf *out)
{
    if (!v->p) {
        bh_put(out, "null", 4);
        return;
    }
    bh_putc(out, '{');
    for (size_t i = 0; i < v->n; i++) {
        const void *e = bh_cat(v->p, i * f->elem_size);

        if (i)
            bh_putc(out, ',');
        bh_enc_str(out, *(const struct bh_str *)e);
        bh_putc(out, ':');
        enc_elem(f, bh_cat(e, f->value_off), out);
    }
    bh_putc(out, '}');
}

static void enc_field(const struct bh_field *f, const void *obj, struct bh_buf *out)
{
    const void *p = bh_cat(obj, f->off);

    if (f->shape == BH_LIST) {
        enc_list(f, p, out);
    } else if (f->shape == BH_MAP) {
        enc_map(f, p, out);
    } else if (bh_is_ptr_msg(f)) {
        if (*(const void *const *)p)
            enc_msg(f->msg, *(const void *const *)p, out);
        else
            bh_put(out, "null", 4);
    } else if (f->off_has != UINT32_MAX && !bh_get_has(obj, f)) {
        bh_put(out, "null", 4);
    } else {
        enc_elem(f, p, out);
    }
}

void bh_field_encode_json(const struct bh_field *f, const void *obj, struct bh_buf *out)
{
    enc_field(f, obj, out);
}

/* The members of a message, without the braces. */
struct how {
    bool top;   /* kind and apiVersion are written from the kind */
    bool first; /* no member was written yet */
};

static void enc_members(const struct bh_type *t, const void *obj, struct how *h, struct bh_buf *out)
{
    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *f = &t->fields[i];

        if (f->flags & BH_F_INLINE) {
            struct how in = {.first = h->first};

            enc_members(f->msg, bh_cat(obj, f->off), &in, out);
            h->first = in.first;
            continue;
        }
        if (!(f->flags & BH_F_ALWAYS) && bh_field_none(f, obj))
            continue;
        if (h->top && !f->num && (bh_str_eqc(f->json, "kind") || bh_str_eqc(f->json, "apiVersion")))
            continue;
        size_t n = f->json.n;

        if (out->cap - out->n < n + 32)
            bh_buf_reserve(out, n + 32);
        if (!h->first)
            bh_putc(out, ',');
        h->first = false;
        bh_putc(out, '"');
        bh_put(out, f->json.p, n);
        bh_put(out, "\":", 2);
        enc_field(f, obj, out);
    }
}

static void enc_msg(const struct bh_type *t, const void *obj, struct bh_buf *out)
{
    struct how h = {.first = true};

    if (t->flags & BH_M_BARE) {
        enc_field(bh_bare_field(t), obj, out);
        return;
    }
    bh_putc(out, '{');
    enc_members(t, obj, &h, out);
    bh_putc(out, '}');
}

void bh_msg_encode_json(const struct bh_type *t, const void *obj, struct bh_buf *out)
{
    enc_msg(t, obj, out);
}

static void enc_top(struct bh_str kind, struct bh_str api_version, const struct bh_type *t,
                    const void *obj, struct bh_buf *out)
{
    struct how h = {.top = true};

    bh_buf_addz(out, "{\"kind\":\"");
    bh_buf_adds(out, kind);
    bh_buf_addz(out, "\",\"apiVersion\":\"");
    bh_buf_adds(out, api_version);
    bh_buf_addc(out, '"');
    enc_members(t, obj, &h, out);
    bh_buf_addc(out, '}');
}

/* An object of the core group inside another one. */
static void enc_typed(const struct bh_type *t, const void *obj, struct bh_buf *out)
{
    struct bh_str name = t->go_name, version = bh_str_cut(&name, '.');

    enc_top(t->name, version, t, obj, out);
}

void bh_kind_encode_json(const struct bh_kind *k, const void *obj, struct bh_buf *out)
{
    enc_top(k->kind, k->api_version, k->type, obj, out);
}

void bh_kind_encode_list_json(const struct bh_kind *k, const void *list, struct bh_buf *out)
{
    enc_top(k->list_kind, k->api_version, k->list_type, list, out);
}

void bh_ref_encode_json(const struct bh_ref *r, struct bh_buf *out)
{
    if (r->elem)
        bh_elem_encode_json(r->f, r->p, out);
    else if (r->f)
        bh_field_encode_json(r->f, (const char *)r->p - r->f->off, out);
}
