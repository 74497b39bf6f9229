/* Structs to JSON text, as Go's encoder writes them. */
#include "api/engine_int.h"
#include "api/image.h"
#include "data/codec.h"
#include "data/json.h"
#include "data/quantity.h"

/* 1: the byte cannot be copied as it is (quote, backslash, control, <, >, &, or part of a
 * multi-byte sequence). */
static const uint8_t special[256] = {
    [0 ... 0x1f] = 1, ['"'] = 1, ['\\'] = 1, ['<'] = 1, ['>'] = 1, ['&'] = 1, [0x80 ... 0xff] = 1,
};

bool bh_str_is_plain(struct bh_str s)
{
    size_t i = 0;

    while (i < s.n && !special[(unsigned char)s.p[i]])
        i++;
    return i == s.n;
}

void bh_enc_str(struct bh_buf *out, struct bh_str s)
{
    if (!bh_str_is_plain(s)) { /* the rare form */
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

/* Where it is written, and what becomes of the struct on the other side. */
struct enc {
    struct bh_buf *out;
    struct bh_image *im; /* NULL: nothing */
};

/* at, here and below: the offset in the image of what is written; of no meaning without one. */
static void enc_msg(const struct bh_type *t, const void *obj, struct enc *e, size_t at);
static void enc_typed(const struct bh_type *t, const void *obj, struct enc *e, size_t at);

/* What a decoder reads from the text that was written from offset from on. */
static void read_back(struct enc *e, size_t at, size_t from, struct bh_str s)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_json_rd r;
    struct bh_str back;

    bh_json_rd_init(&r, bh_str_sub(bh_buf_str(e->out), from, e->out->n), a);
    if (e->out->overflow || bh_json_take_str(&r, &back, NULL) != 0)
        back = s; /* nobody will read that text */
    bh_image_copy(e->im, at, back);
}

static void enc_string(struct bh_str s, struct enc *e, size_t at)
{
    size_t from = e->out->n;

    bh_enc_str(e->out, s);
    if (!e->im)
        return;
    /* Escapes, and what stands for bytes that are no UTF-8, are longer than what they stand for. */
    if (e->out->n - from == s.n + 2)
        bh_image_view(e->im, at, from + 1, s.n);
    else
        read_back(e, at, from, s);
}

static void enc_quantity(struct bh_str s, struct enc *e, size_t at)
{
    BH_AUTO_ARENA a = NULL;
    struct bh_str canon = s.n ? s : BH_S("0");

    if (!e->im || bh_quantity_is_canonical(canon)) {
        enc_string(canon, e, at);
        return;
    }
    a = bh_arena_new(0);
    bh_enc_str(e->out, canon);
    if (bh_quantity_canonical(a, canon, &canon, NULL) < 0)
        canon = s;
    bh_image_copy(e->im, at, canon);
}

static bool has_blanks(struct bh_str s)
{
    unsigned char any = 0;

    for (size_t i = 0; i < s.n; i++)
        any |= (unsigned char)s.p[i] <= ' ';
    return any;
}

/* Raw text stands for itself; absent is null. */
static void enc_raw(struct bh_str s, struct enc *e, size_t at)
{
    if (!s.n) {
        bh_put(e->out, "null", 4);
        return;
    }
    bh_put(e->out, s.p, s.n);
    if (!e->im || bh_str_eqc(s, "null"))
        return;
    if (has_blanks(s)) { /* a decoder takes out those that say nothing */
        BH_AUTO_BUF b = {.max = s.n + 1};

        bh_json_compact(&b, s);
        bh_image_copy(e->im, at, bh_buf_str(&b));
    } else {
        bh_image_view(e->im, at, e->out->n - s.n, s.n);
    }
}

static void enc_bytes(struct bh_str s, struct enc *e, size_t at)
{
    if (!s.p) {
        bh_put(e->out, "null", 4);
        return;
    }
    bh_putc(e->out, '"');
    bh_base64_write(e->out, s);
    bh_putc(e->out, '"');
    if (e->im)
        bh_image_copy(e->im, at, s);
}

static void enc_intstr(const struct bh_intstr *is, struct enc *e, size_t at)
{
    struct bh_intstr plain = {.is_str = is->is_str, .i = is->is_str ? 0 : is->i};

    if (e->im)
        bh_image_set(e->im, at, &plain, sizeof(plain));
    if (is->is_str)
        enc_string(is->s, e, at + offsetof(struct bh_intstr, s));
    else
        put_i64(e->out, is->i);
}

static void enc_scalar(const struct bh_field *f, const void *p, struct enc *e, size_t at)
{
    switch ((enum bh_ftype)f->type) {
    case BH_T_BOOL:
        if (*(const bool *)p)
            bh_put(e->out, "true", 4);
        else
            bh_put(e->out, "false", 5);
        break;
    case BH_T_INT32:
        put_i64(e->out, *(const int32_t *)p);
        break;
    case BH_T_INT64:
        put_i64(e->out, *(const int64_t *)p);
        break;
    case BH_T_UINT32:
        put_i64(e->out, *(const uint32_t *)p);
        break;
    default:
        bh_json_write_double(e->out, *(const double *)p);
        break;
    }
    if (e->im)
        bh_image_set(e->im, at, p, f->elem_size);
}

static void enc_elem(const struct bh_field *f, const void *p, struct enc *e, size_t at)
{
    struct bh_time t;

    switch ((enum bh_ftype)f->type) {
    case BH_T_STRING:
        enc_string(*(const struct bh_str *)p, e, at);
        break;
    case BH_T_QUANTITY:
        enc_quantity(*(const struct bh_str *)p, e, at);
        break;
    case BH_T_BYTES:
        enc_bytes(*(const struct bh_str *)p, e, at);
        break;
    case BH_T_RAW:
        enc_raw(*(const struct bh_str *)p, e, at);
        break;
    case BH_T_BOOL:
    case BH_T_INT32:
    case BH_T_INT64:
    case BH_T_UINT32:
    case BH_T_DOUBLE:
        enc_scalar(f, p, e, at);
        break;
    case BH_T_TIME:
    case BH_T_MICROTIME:
        bh_enc_time(e->out, *(const struct bh_time *)p, f->type == BH_T_MICROTIME);
        if (e->im) {
            t = bh_time_wire(*(const struct bh_time *)p, f->type == BH_T_MICROTIME);
            bh_image_set(e->im, at, &t, sizeof(t));
        }
        break;
    case BH_T_INTORSTR:
        enc_intstr(p, e, at);
        break;
    case BH_T_MESSAGE:
        if (f->flags & BH_F_TYPED)
            enc_typed(f->msg, p, e, at);
        else
            enc_msg(f->msg, p, e, at);
        break;
    }
}

void bh_elem_encode_json(const struct bh_field *f, const void *p, struct bh_buf *out)
{
    struct enc e = {out, NULL};

    enc_elem(f, p, &e, 0);
}

/* Room for the items of a list or map whose vector is at at. */
static size_t image_vec(const struct bh_field *f, const struct bh_vec *v, struct enc *e, size_t at)
{
    size_t items;

    if (!e->im)
        return 0;
    items = bh_image_alloc(e->im, v->n * f->elem_size);
    bh_image_link(e->im, at + offsetof(struct bh_vec, p), items);
    bh_image_set(e->im, at + offsetof(struct bh_vec, n), &v->n, sizeof(v->n));
    return items;
}

static void enc_list(const struct bh_field *f, const struct bh_vec *v, struct enc *e, size_t at)
{
    size_t items;

    if (!v->p) {
        bh_put(e->out, "null", 4);
        return;
    }
    items = image_vec(f, v, e, at);
    bh_putc(e->out, '[');
    for (size_t i = 0; i < v->n; i++) {
        if (i)
            bh_putc(e->out, ',');
        enc_elem(f, bh_cat(v->p, i * f->elem_size), e, items + i * f->elem_size);
    }
    bh_putc(e->out, ']');
}

static void enc_map(const struct bh_field *f, const struct bh_vec *v, struct enc *e, size_t at)
{
    size_t items;

    if (!v->p) {
        bh_put(e->out, "null", 4);
        return;
    }
    items = image_vec(f, v, e, at);
    bh_putc(e->out, '{');
    for (size_t i = 0; i < v->n; i++) {
        const void *it = bh_cat(v->p, i * f->elem_size);
        size_t to = items + i * f->elem_size;

        if (i)
            bh_putc(e->out, ',');
        enc_string(*(const struct bh_str *)it, e, to);
        bh_putc(e->out, ':');
        enc_elem(f, bh_cat(it, f->value_off), e, to + f->value_off);
        if (e->im && f->type == BH_T_BYTES && !((const struct bh_str *)bh_cat(it, f->value_off))->p)
            bh_image_copy(e->im, to + f->value_off, BH_S(""));
    }
    bh_putc(e->out, '}');
}

/* A field of the struct obj, whose image is at at. */
static void enc_field(const struct bh_field *f, const void *obj, struct enc *e, size_t at)
{
    const void *p = bh_cat(obj, f->off);
    bool has = true;

    if (f->shape == BH_LIST) {
        enc_list(f, p, e, at + f->off);
    } else if (f->shape == BH_MAP) {
        enc_map(f, p, e, at + f->off);
    } else if (bh_is_ptr_msg(f)) {
        const void *msg = *(const void *const *)p;
        size_t to = 0;

        if (!msg) {
            bh_put(e->out, "null", 4);
            return;
        }
        if (e->im) {
            to = bh_image_alloc(e->im, f->msg->size);
            bh_image_link(e->im, at + f->off, to);
        }
        enc_msg(f->msg, msg, e, to);
    } else if (f->off_has != UINT32_MAX && !bh_get_has(obj, f)) {
        bh_put(e->out, "null", 4);
    } else {
        if (e->im && f->off_has != UINT32_MAX)
            bh_image_set(e->im, at + f->off_has, &has, sizeof(has));
        enc_elem(f, p, e, at + f->off);
    }
}

void bh_field_encode_json(const struct bh_field *f, const void *obj, struct bh_buf *out)
{
    struct enc e = {out, NULL};

    enc_field(f, obj, &e, 0);
}

/* The members of a message, without the braces. */
struct how {
    bool top;   /* kind and apiVersion are written from the kind */
    bool first; /* no member was written yet */
};

static void enc_members(const struct bh_type *t, const void *obj, struct how *h, struct enc *e,
                        size_t at)
{
    struct bh_buf *out = e->out;

    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *f = &t->fields[i];

        if (f->flags & BH_F_INLINE) {
            struct how in = {.first = h->first};

            enc_members(f->msg, bh_cat(obj, f->off), &in, e, at + f->off);
            h->first = in.first;
            continue;
        }
        if (!(f->flags & BH_F_ALWAYS) && bh_field_none(f, obj))
            continue;
        if (h->top && !f->num &&
            (bh_str_eqc(f->json, "kind") || bh_str_eqc(f->json, "apiVersion"))) {
            if (e->im)
                bh_image_copy(e->im, at + f->off, *(const struct bh_str *)bh_cat(obj, f->off));
            continue;
        }
        size_t n = f->json.n;

        if (out->cap - out->n < n + 32)
            bh_buf_reserve(out, n + 32);
        if (!h->first)
            bh_putc(out, ',');
        h->first = false;
        bh_putc(out, '"');
        bh_put(out, f->json.p, n);
        bh_put(out, "\":", 2);
        enc_field(f, obj, e, at);
    }
}

static void enc_msg(const struct bh_type *t, const void *obj, struct enc *e, size_t at)
{
    struct how h = {.first = true};

    if (t->flags & BH_M_BARE) {
        enc_field(bh_bare_field(t), obj, e, at);
        return;
    }
    bh_putc(e->out, '{');
    enc_members(t, obj, &h, e, at);
    bh_putc(e->out, '}');
}

void bh_msg_encode_json(const struct bh_type *t, const void *obj, struct bh_buf *out)
{
    struct enc e = {out, NULL};

    enc_msg(t, obj, &e, 0);
}

static void enc_top(struct bh_str kind, struct bh_str api_version, const struct bh_type *t,
                    const void *obj, struct enc *e, size_t at)
{
    struct how h = {.top = true};

    bh_buf_addz(e->out, "{\"kind\":\"");
    bh_buf_adds(e->out, kind);
    bh_buf_addz(e->out, "\",\"apiVersion\":\"");
    bh_buf_adds(e->out, api_version);
    bh_buf_addc(e->out, '"');
    enc_members(t, obj, &h, e, at);
    bh_buf_addc(e->out, '}');
}

/* An object of the core group inside another one. */
static void enc_typed(const struct bh_type *t, const void *obj, struct enc *e, size_t at)
{
    struct bh_str name = t->go_name, version = bh_str_cut(&name, '.');

    enc_top(t->name, version, t, obj, e, at);
}

void bh_kind_encode_image(const struct bh_kind *k, const void *obj, struct bh_buf *out,
                          struct bh_image *im)
{
    struct enc e = {out, im};

    if (im) {
        bh_image_clear(im);
        (void)bh_image_alloc(im, k->type->size);
    }
    enc_top(k->kind, k->api_version, k->type, obj, &e, 0);
}

void bh_kind_encode_json(const struct bh_kind *k, const void *obj, struct bh_buf *out)
{
    bh_kind_encode_image(k, obj, out, NULL);
}

void bh_kind_encode_list_json(const struct bh_kind *k, const void *list, struct bh_buf *out)
{
    struct enc e = {out, NULL};

    enc_top(k->list_kind, k->api_version, k->list_type, list, &e, 0);
}

void bh_ref_encode_json(const struct bh_ref *r, struct bh_buf *out)
{
    if (r->elem)
        bh_elem_encode_json(r->f, r->p, out);
    else if (r->f)
        bh_field_encode_json(r->f, (const char *)r->p - r->f->off, out);
}
