/* Structs to protobuf, byte for byte as upstream's generated marshalers.
 *
 * Those write from the end: each message first, then its length and tag, so that no length has to
 * be known beforehand and nothing moves. Fields are visited by falling number, lists and maps from
 * their last element. Non-pointer scalars, strings and messages are written even when zero, as
 * proto2 with gogo's non-nullable fields does.
 */
#include "api/engine_int.h"
#include "data/quantity.h"

/* Grows towards its start: the text is p[at, cap). */
struct rev {
    char *p;
    size_t at, cap;
};

static void rev_room(struct rev *r, size_t n)
{
    if (r->at >= n)
        return;
    size_t have = r->cap - r->at, cap = r->cap ? r->cap * 2 : 1024;

    while (cap - have < n)
        cap *= 2;
    char *p = bh_malloc(cap);

    if (have)
        memcpy(p + cap - have, r->p + r->at, have);
    bh_free(r->p);
    r->p = p;
    r->at = cap - have;
    r->cap = cap;
}

static void put_bytes(struct rev *r, const char *p, size_t n)
{
    rev_room(r, n);
    r->at -= n;
    if (n)
        memcpy(r->p + r->at, p, n);
}

static void put_varint(struct rev *r, uint64_t v)
{
    char tmp[10];
    size_t n = 0;

    do {
        tmp[n++] = (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        v >>= 7;
    } while (v);
    put_bytes(r, tmp, n);
}

static void put_tag(struct rev *r, uint32_t num, unsigned wire)
{
    put_varint(r, (uint64_t)num << 3 | wire);
}

static void put_uint(struct rev *r, uint32_t num, uint64_t v)
{
    put_varint(r, v);
    put_tag(r, num, 0);
}

static void put_str(struct rev *r, uint32_t num, struct bh_str s)
{
    put_bytes(r, s.p, s.n);
    put_varint(r, s.n);
    put_tag(r, num, 2);
}

/* Closes a nested message that was written since the text had `before` bytes. */
static void put_len(struct rev *r, uint32_t num, size_t before)
{
    put_varint(r, r->cap - r->at - before);
    put_tag(r, num, 2);
}

static size_t rev_n(const struct rev *r)
{
    return r->cap - r->at;
}

static void put_msg(struct rev *r, const struct bh_type *t, const void *obj);

static void put_time(struct rev *r, uint32_t num, struct bh_time t, bool micro)
{
    size_t before = rev_n(r);

    if (!bh_time_is_zero(t)) {
        put_uint(r, 2, micro ? (uint64_t)(t.nsec / 1000 * 1000) : 0);
        put_uint(r, 1, (uint64_t)t.sec);
    }
    put_len(r, num, before);
}

static void put_elem(struct rev *r, uint32_t num, const struct bh_field *f, const void *p)
{
    size_t before = rev_n(r);
    const struct bh_str *s = p;
    const struct bh_intstr *is = p;
    uint64_t u;

    switch ((enum bh_ftype)f->type) {
    case BH_T_STRING:
        put_str(r, num, *s);
        break;
    case BH_T_BYTES:
        if (s->p)
            put_str(r, num, *s);
        break;
    case BH_T_RAW: /* RawExtension, FieldsV1, JSON: a message of one bytes field */
        if (s->p)
            put_str(r, 1, *s);
        put_len(r, num, before);
        break;
    case BH_T_QUANTITY:
        put_str(r, 1, s->n ? *s : BH_S("0"));
        put_len(r, num, before);
        break;
    case BH_T_BOOL:
        put_uint(r, num, *(const bool *)p);
        break;
    case BH_T_INT32:
        put_uint(r, num, (uint64_t)(int64_t) * (const int32_t *)p);
        break;
    case BH_T_UINT32:
        put_uint(r, num, *(const uint32_t *)p);
        break;
    case BH_T_INT64:
        put_uint(r, num, (uint64_t) * (const int64_t *)p);
        break;
    case BH_T_DOUBLE:
        memcpy(&u, p, sizeof(u));
        for (int i = 0; i < 8; i++)
            put_bytes(r, (const char[]){(char)(u >> (56 - 8 * i))}, 1);
        put_tag(r, num, 1);
        break;
    case BH_T_TIME:
    case BH_T_MICROTIME:
        put_time(r, num, *(const struct bh_time *)p, f->type == BH_T_MICROTIME);
        break;
    case BH_T_INTORSTR:
        put_str(r, 3, is->s);
        put_uint(r, 2, (uint64_t)(int64_t)is->i);
        put_uint(r, 1, is->is_str);
        put_len(r, num, before);
        break;
    case BH_T_MESSAGE:
        put_msg(r, f->msg, p);
        put_len(r, num, before);
        break;
    }
}

static void put_vec(struct rev *r, const struct bh_field *f, const struct bh_vec *v)
{
    for (size_t i = v->n; i-- > 0;) {
        const void *e = bh_cat(v->p, i * f->elem_size);

        if (f->shape == BH_LIST) {
            put_elem(r, f->num, f, e);
            continue;
        }
        size_t before = rev_n(r);

        put_elem(r, 2, f, bh_cat(e, f->value_off));
        put_str(r, 1, *(const struct bh_str *)e);
        put_len(r, f->num, before);
    }
}

static void put_msg(struct rev *r, const struct bh_type *t, const void *obj)
{
    for (uint32_t i = t->n_by_num; i-- > 0;) {
        const struct bh_field *f = &t->fields[t->by_num[i]];
        const void *p = bh_cat(obj, f->off);

        if (f->shape != BH_ONE) {
            put_vec(r, f, p);
            continue;
        }
        if ((f->flags & BH_F_PTR) && bh_field_is_empty(f, obj))
            continue;
        put_elem(r, f->num, f, f->type == BH_T_MESSAGE ? bh_msg_at(f, p) : p);
    }
}

static void rev_take(struct rev *r, struct bh_buf *out)
{
    bh_buf_add(out, r->p ? r->p + r->at : "", rev_n(r));
    bh_free(r->p);
}

void bh_msg_encode_pb(const struct bh_type *t, const void *obj, struct bh_buf *out)
{
    struct rev r = {0};

    put_msg(&r, t, obj);
    rev_take(&r, out);
}

/* ---- the envelope ---- */

/* What stands behind and before raw in runtime.Unknown, written around what r holds already. */
static void wrap(struct rev *r, size_t raw_before, const struct bh_pb_unknown *u)
{
    put_len(r, 2, raw_before);
    size_t before = rev_n(r);

    put_str(r, 2, u->kind);
    put_str(r, 1, u->api_version);
    put_len(r, 1, before);
    put_bytes(r, BH_PB_MAGIC, 4);
}

void bh_pb_wrap(const struct bh_pb_unknown *u, struct bh_buf *out)
{
    struct rev r = {0};

    put_str(&r, 4, u->content_type);
    put_str(&r, 3, u->content_encoding);
    size_t before = rev_n(&r);

    put_bytes(&r, u->raw.p, u->raw.n);
    wrap(&r, before, u);
    rev_take(&r, out);
}

static void enc_kind(struct bh_str api_version, struct bh_str kind, const struct bh_type *t,
                     const void *obj, struct bh_buf *out)
{
    struct bh_pb_unknown u = {.api_version = api_version, .kind = kind};
    struct rev r = {0};

    put_str(&r, 4, BH_S(""));
    put_str(&r, 3, BH_S(""));
    size_t before = rev_n(&r);

    put_msg(&r, t, obj);
    wrap(&r, before, &u);
    rev_take(&r, out);
}

void bh_kind_encode_pb(const struct bh_kind *k, const void *obj, struct bh_buf *out)
{
    enc_kind(k->api_version, k->kind, k->type, obj, out);
}

void bh_kind_encode_list_pb(const struct bh_kind *k, const void *list, struct bh_buf *out)
{
    enc_kind(k->api_version, k->list_kind, k->list_type, list, out);
}
