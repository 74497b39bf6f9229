/* Protocol Buffers wire format. */
#include "data/pbwire.h"

#include <string.h>

static int malformed(const char *what, struct bh_err *err)
{
    return bh_err_set(err, BH_E_BAD_REQUEST, "malformed protobuf: %s", what);
}

int bh_pb_varint(struct bh_pb_rd *r, uint64_t *ret, struct bh_err *err)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t b;

        if (r->p == r->end)
            return malformed("unexpected EOF", err);
        b = *r->p++;
        if (shift == 63 && b > 1)
            return malformed("integer overflow", err);
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *ret = v;
            return 0;
        }
    }
    return malformed("integer overflow", err);
}

static uint64_t little_endian(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static int tag(struct bh_pb_rd *r, uint32_t *number, enum bh_pb_type *type, struct bh_err *err)
{
    uint64_t t;
    int rc = bh_pb_varint(r, &t, err);

    if (rc < 0)
        return rc;
    if (t >> 3 == 0 || t >> 3 > 0x1fffffff || (t & 7) > BH_PB_I32)
        return malformed("bad tag", err);
    *number = (uint32_t)(t >> 3);
    *type = (enum bh_pb_type)(t & 7);
    return 0;
}

/* The payload of a field that is no group. */
static int payload(struct bh_pb_rd *r, struct bh_pb_field *f, struct bh_err *err)
{
    size_t left = (size_t)(r->end - r->p);
    int rc;

    if (f->type == BH_PB_VARINT)
        return bh_pb_varint(r, &f->u, err);
    if (f->type == BH_PB_I64 || f->type == BH_PB_I32) {
        unsigned n = f->type == BH_PB_I64 ? 8 : 4;

        if (left < n)
            return malformed("unexpected EOF", err);
        f->u = little_endian(r->p, n);
        r->p += n;
        return 0;
    }
    if (f->type != BH_PB_LEN)
        return malformed("unexpected end of group", err);
    rc = bh_pb_varint(r, &f->u, err);
    if (rc < 0)
        return rc;
    if (f->u > (uint64_t)(r->end - r->p))
        return malformed("unexpected EOF", err);
    f->bytes = (struct bh_str){(const char *)r->p, (size_t)f->u};
    r->p += f->u;
    return 0;
}

/* Passes a group whose start tag was read; groups inside it are counted, not recursed into. */
static int group(struct bh_pb_rd *r, struct bh_pb_field *f, struct bh_err *err)
{
    uint32_t open[BH_PB_DEPTH_MAX];
    unsigned depth = 1;
    const uint8_t *start = r->p, *before;

    open[0] = f->number;
    do {
        struct bh_pb_field in = {0};
        int rc;

        before = r->p;
        rc = tag(r, &in.number, &in.type, err);
        if (rc < 0)
            return rc;
        if (in.type == BH_PB_SGROUP) {
            if (depth == BH_PB_DEPTH_MAX)
                return malformed("nested too deeply", err);
            open[depth++] = in.number;
        } else if (in.type == BH_PB_EGROUP) {
            if (open[--depth] != in.number)
                return malformed("mismatched end of group", err);
        } else {
            rc = payload(r, &in, err);
            if (rc < 0)
                return rc;
        }
    } while (depth);
    f->bytes = (struct bh_str){(const char *)start, (size_t)(before - start)};
    return 0;
}

int bh_pb_next(struct bh_pb_rd *r, struct bh_pb_field *ret, struct bh_err *err)
{
    struct bh_pb_field f = {0};
    int rc;

    if (r->p == r->end)
        return 0;
    rc = tag(r, &f.number, &f.type, err);
    if (rc < 0)
        return rc;
    rc = f.type == BH_PB_SGROUP ? group(r, &f, err) : payload(r, &f, err);
    if (rc < 0)
        return rc;
    *ret = f;
    return 1;
}

double bh_pb_double(uint64_t raw)
{
    double d;

    memcpy(&d, &raw, sizeof(d));
    return d;
}

float bh_pb_float(uint64_t raw)
{
    uint32_t v = (uint32_t)raw;
    float f;

    memcpy(&f, &v, sizeof(f));
    return f;
}

/* ---- Writing ---- */

static size_t put_varint(uint8_t *p, uint64_t v)
{
    size_t n = 0;

    for (; v >= 0x80; v >>= 7)
        p[n++] = (uint8_t)(v | 0x80);
    p[n++] = (uint8_t)v;
    return n;
}

size_t bh_pb_varint_size(uint64_t v)
{
    size_t n = 1;

    for (; v >= 0x80; v >>= 7)
        n++;
    return n;
}

void bh_pb_w_varint(struct bh_buf *b, uint64_t v)
{
    uint8_t tmp[10];

    bh_buf_add(b, tmp, put_varint(tmp, v));
}

void bh_pb_w_tag(struct bh_buf *b, uint32_t number, enum bh_pb_type t)
{
    bh_pb_w_varint(b, (uint64_t)number << 3 | (unsigned)t);
}

void bh_pb_w_uint(struct bh_buf *b, uint32_t number, uint64_t v)
{
    bh_pb_w_tag(b, number, BH_PB_VARINT);
    bh_pb_w_varint(b, v);
}

void bh_pb_w_sint(struct bh_buf *b, uint32_t number, int64_t v)
{
    bh_pb_w_uint(b, number, (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0));
}

static void put_fixed(struct bh_buf *b, uint64_t v, unsigned n)
{
    uint8_t tmp[8];

    for (unsigned i = 0; i < n; i++)
        tmp[i] = (uint8_t)(v >> (8 * i));
    bh_buf_add(b, tmp, n);
}

void bh_pb_w_fixed32(struct bh_buf *b, uint32_t number, uint32_t v)
{
    bh_pb_w_tag(b, number, BH_PB_I32);
    put_fixed(b, v, 4);
}

void bh_pb_w_fixed64(struct bh_buf *b, uint32_t number, uint64_t v)
{
    bh_pb_w_tag(b, number, BH_PB_I64);
    put_fixed(b, v, 8);
}

void bh_pb_w_double(struct bh_buf *b, uint32_t number, double v)
{
    uint64_t raw;

    memcpy(&raw, &v, sizeof(raw));
    bh_pb_w_fixed64(b, number, raw);
}

void bh_pb_w_bytes(struct bh_buf *b, uint32_t number, struct bh_str s)
{
    bh_pb_w_tag(b, number, BH_PB_LEN);
    bh_pb_w_varint(b, s.n);
    bh_buf_adds(b, s);
}

size_t bh_pb_w_open(struct bh_buf *b, uint32_t number)
{
    bh_pb_w_tag(b, number, BH_PB_LEN);
    bh_buf_addc(b, '\0');
    return b->n;
}

void bh_pb_w_close(struct bh_buf *b, size_t mark)
{
    uint8_t tmp[10];
    size_t len, n;

    if (b->overflow)
        return;
    len = b->n - mark;
    n = put_varint(tmp, len);
    if (n > 1) {
        bh_buf_add(b, tmp, n - 1); /* makes room; the bytes themselves are moved over */
        if (b->overflow)
            return;
        memmove(b->p + mark + n - 1, b->p + mark, len);
    }
    memcpy(b->p + mark - 1, tmp, n);
}
