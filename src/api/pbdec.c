/* Protobuf to structs. Unknown fields are passed over, a field of the wrong wire type is an error,
 * as in upstream's generated code. */
#include "api/engine_int.h"
#include "base/limits.h"
#include "data/json.h"
#include "data/pbwire.h"
#include "data/quantity.h"

#include <stdlib.h>

struct pdec {
    struct bh_arena *a;
    unsigned depth;
};

/* How much a list or map of the message at hand has room for: vectors in structs do not say. */
struct room {
    size_t cap;
    bool unsorted;
};

static int dec_msg(struct pdec *d, const struct bh_type *t, struct bh_str in, void *obj,
                   struct bh_err *err);

static int wrong_wire(const struct bh_field *f, enum bh_pb_type got, struct bh_err *err)
{
    return bh_err_set(err, BH_E_BAD_REQUEST, "proto: wrong wireType = %d for field %.*s", (int)got,
                      BH_SF(f->json));
}

static enum bh_pb_type wire_of(const struct bh_field *f)
{
    switch ((enum bh_ftype)f->type) {
    case BH_T_BOOL:
    case BH_T_INT32:
    case BH_T_INT64:
    case BH_T_UINT32:
        return BH_PB_VARINT;
    case BH_T_DOUBLE:
        return BH_PB_I64;
    default:
        return BH_PB_LEN;
    }
}

static void set_number(const struct bh_field *f, uint64_t u, void *p)
{
    if (f->type == BH_T_BOOL)
        *(bool *)p = u != 0;
    else if (f->type == BH_T_INT64)
        *(int64_t *)p = (int64_t)u;
    else if (f->type == BH_T_DOUBLE)
        *(double *)p = bh_pb_double(u);
    else
        *(uint32_t *)p = (uint32_t)u;
}

/* The little messages that are scalars here. */
static int dec_time(struct bh_str in, struct bh_time *t, bool micro, struct bh_err *err)
{
    struct bh_pb_rd r = bh_pb_rd(in);
    struct bh_pb_field x;
    int rc;

    *t = (struct bh_time){0};
    if (!in.n)
        return 0;
    while ((rc = bh_pb_next(&r, &x, err)) > 0) {
        if (x.type != BH_PB_VARINT)
            continue;
        if (x.number == 1)
            t->sec = (int64_t)x.u;
        else if (x.number == 2 && micro)
            t->nsec = (int32_t)x.u;
    }
    if (t->nsec < 0 || t->nsec > 999999999)
        t->nsec = 0;
    t->nsec -= t->nsec % 1000; /* upstream keeps microseconds when it reads, as JSON does */
    if (bh_time_is_zero(*t))
        t->nsec = 1; /* 1970 itself, which is not "absent" */
    return rc;
}

static int dec_wrapped(struct bh_str in, struct bh_str *ret, bool *found, struct bh_err *err)
{
    struct bh_pb_rd r = bh_pb_rd(in);
    struct bh_pb_field x;
    int rc;

    *ret = (struct bh_str){NULL, 0};
    *found = false;
    while ((rc = bh_pb_next(&r, &x, err)) > 0)
        if (x.number == 1 && x.type == BH_PB_LEN) {
            *ret = x.bytes;
            *found = true;
        }
    return rc;
}

static int dec_raw(struct pdec *d, struct bh_str in, struct bh_str *p, struct bh_err *err)
{
    bool found;
    int rc = dec_wrapped(in, p, &found, err);

    if (rc < 0 || !found)
        return rc;
    /* It will stand in JSON as it is: only valid JSON may come in. */
    rc = bh_json_check(*p, err);
    if (rc < 0)
        return bh_err_wrap(err, "raw value is not JSON");
    BH_AUTO_BUF b = {.max = p->n + 1};
    bh_json_compact(&b, *p);
    if (b.n != p->n)
        *p = bh_str_dup(d->a, bh_buf_str(&b));
    return 0;
}

static int dec_intorstr(struct bh_str in, struct bh_intstr *p, struct bh_err *err)
{
    struct bh_pb_rd r = bh_pb_rd(in);
    struct bh_pb_field x;
    int rc;

    *p = (struct bh_intstr){0};
    while ((rc = bh_pb_next(&r, &x, err)) > 0) {
        if (x.number == 1 && x.type == BH_PB_VARINT)
            p->is_str = x.u == 1;
        else if (x.number == 2 && x.type == BH_PB_VARINT)
            p->i = (int32_t)(uint32_t)x.u;
        else if (x.number == 3 && x.type == BH_PB_LEN)
            p->s = x.bytes;
    }
    return rc;
}

static int dec_elem(struct pdec *d, const struct bh_field *f, const struct bh_pb_field *x, void *p,
                    struct bh_err *err)
{
    struct bh_str q;
    bool found;
    int rc;

    if (x->type != wire_of(f))
        return wrong_wire(f, x->type, err);
    switch ((enum bh_ftype)f->type) {
    case BH_T_STRING:
    case BH_T_BYTES:
        *(struct bh_str *)p = x->bytes;
        return 0;
    case BH_T_RAW:
        return dec_raw(d, x->bytes, p, err);
    case BH_T_QUANTITY:
        rc = dec_wrapped(x->bytes, &q, &found, err);
        if (rc < 0)
            return rc;
        return q.n ? bh_quantity_canonical(d->a, q, p, err) : (*(struct bh_str *)p = BH_S("0"), 0);
    case BH_T_BOOL:
    case BH_T_INT32:
    case BH_T_INT64:
    case BH_T_UINT32:
    case BH_T_DOUBLE:
        set_number(f, x->u, p);
        return 0;
    case BH_T_TIME:
    case BH_T_MICROTIME:
        return dec_time(x->bytes, p, f->type == BH_T_MICROTIME, err);
    case BH_T_INTORSTR:
        return dec_intorstr(x->bytes, p, err);
    case BH_T_MESSAGE:
        return dec_msg(d, f->msg, x->bytes, p, err);
    }
    return 0;
}

static void *append(struct pdec *d, const struct bh_field *f, struct bh_vec *v, struct room *room)
{
    if (v->n == room->cap)
        bh_arena_grow(d->a, &v->p, &room->cap, v->n + 1, f->elem_size);
    void *e = bh_at(v->p, v->n++ * f->elem_size);

    memset(e, 0, f->elem_size);
    return e;
}

static int dec_packed(struct pdec *d, const struct bh_field *f, struct bh_str in, struct bh_vec *v,
                      struct room *room, struct bh_err *err)
{
    struct bh_pb_rd r = bh_pb_rd(in);
    uint64_t u;

    while (r.p < r.end) {
        if (wire_of(f) == BH_PB_I64) {
            if (r.end - r.p < 8)
                return bh_err_set(err, BH_E_BAD_REQUEST, "unexpected EOF");
            u = 0;
            for (int i = 7; i >= 0; i--)
                u = u << 8 | r.p[i];
            r.p += 8;
        } else {
            int rc = bh_pb_varint(&r, &u, err);

            if (rc < 0)
                return rc;
        }
        set_number(f, u, append(d, f, v, room));
    }
    return 0;
}

static int dec_entry(struct pdec *d, const struct bh_field *f, struct bh_str in, struct bh_vec *v,
                     struct room *room, struct bh_err *err)
{
    struct bh_pb_rd r = bh_pb_rd(in);
    char *e = append(d, f, v, room);
    struct bh_str *key = (struct bh_str *)(void *)e;
    struct bh_pb_field x;
    int rc;

    key->p = "";
    if (f->type == BH_T_BYTES)
        ((struct bh_str *)bh_at(e, f->value_off))->p = "";
    while ((rc = bh_pb_next(&r, &x, err)) > 0) {
        if (x.number == 1 && x.type == BH_PB_LEN)
            *key = x.bytes;
        else if (x.number == 2)
            rc = dec_elem(d, f, &x, bh_at(e, f->value_off), err);
        if (rc < 0)
            return rc;
    }
    if (v->n > 1 && bh_str_cmp(*(struct bh_str *)(void *)(e - f->elem_size), *key) >= 0)
        room->unsorted = true;
    return rc;
}

struct order {
    struct bh_str key;
    size_t i;
};

static int order_cmp(const void *x, const void *y)
{
    const struct order *a = x, *b = y;
    int c = bh_str_cmp(a->key, b->key);

    return c ? c : a->i < b->i ? -1 : 1;
}

/* Sorts a map by key; of equal keys the last written one stays. */
static void sort_map(struct pdec *d, const struct bh_field *f, struct bh_vec *v)
{
    struct order *o = bh_malloc(v->n * sizeof(*o));
    char *out = bh_arena_alloc_n(d->a, v->n, f->elem_size);
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++)
        o[i] = (struct order){*(struct bh_str *)bh_at(v->p, i * f->elem_size), i};
    qsort(o, v->n, sizeof(*o), order_cmp);
    for (size_t i = 0; i < v->n; i++) {
        if (n && bh_str_eq(o[i].key, o[i - 1].key))
            n--;
        memcpy(out + n++ * f->elem_size, bh_at(v->p, o[i].i * f->elem_size), f->elem_size);
    }
    bh_free(o);
    v->p = out;
    v->n = n;
}

static int dec_field(struct pdec *d, const struct bh_field *f, const struct bh_pb_field *x,
                     void *obj, struct room *room, struct bh_err *err)
{
    void *p = bh_at(obj, f->off);
    int rc;

    if (f->shape == BH_MAP) {
        if (x->type != BH_PB_LEN)
            return wrong_wire(f, x->type, err);
        return dec_entry(d, f, x->bytes, p, room, err);
    }
    if (f->shape == BH_LIST) {
        if (x->type == BH_PB_LEN && wire_of(f) != BH_PB_LEN)
            return dec_packed(d, f, x->bytes, p, room, err);
        return dec_elem(d, f, x, append(d, f, p, room), err);
    }
    if (bh_is_ptr_msg(f)) {
        void **pp = p;

        if (x->type != BH_PB_LEN)
            return wrong_wire(f, x->type, err);
        if (!*pp)
            *pp = bh_arena_alloc(d->a, f->msg->size);
        p = *pp;
    }
    rc = dec_elem(d, f, x, p, err);
    if (bh_has(obj, f))
        *bh_has(obj, f) = true;
    return rc;
}

/* Index in fields of the field with that number, or -1; next is the likely position in by_num. */
static int field_at(const struct bh_type *t, uint32_t num, uint32_t *next)
{
    uint32_t lo = 0, hi = t->n_by_num;

    if (*next < hi && t->fields[t->by_num[*next]].num == num)
        return t->by_num[*next];
    if (*next + 1 < hi && t->fields[t->by_num[*next + 1]].num == num)
        return t->by_num[++*next];
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2, n = t->fields[t->by_num[mid]].num;

        if (n == num) {
            *next = mid;
            return t->by_num[mid];
        }
        if (n < num)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}

#define FEW_FIELDS 24

static int dec_msg(struct pdec *d, const struct bh_type *t, struct bh_str in, void *obj,
                   struct bh_err *err)
{
    struct bh_pb_rd r = bh_pb_rd(in);
    struct room few[FEW_FIELDS], *rooms = NULL; /* of each field, made for the first list or map */
    struct bh_pb_field x;
    uint32_t next = 0;
    int rc;

    if (++d->depth > BH_PB_DEPTH_MAX)
        return bh_err_set(err, BH_E_LIMIT, "proto: exceeded max depth");
    while ((rc = bh_pb_next(&r, &x, err)) > 0) {
        int i = field_at(t, x.number, &next);

        if (i < 0)
            continue;
        const struct bh_field *f = &t->fields[i];

        if (f->shape != BH_ONE && !rooms) {
            rooms = t->n_fields <= FEW_FIELDS ? few : bh_malloc(t->n_fields * sizeof(*rooms));
            memset(rooms, 0, t->n_fields * sizeof(*rooms));
        }
        rc = dec_field(d, f, &x, obj, rooms ? &rooms[i] : NULL, err);
        if (rc < 0)
            break;
    }
    for (uint32_t i = 0; rooms && rc == 0 && i < t->n_fields; i++)
        if (rooms[i].unsorted)
            sort_map(d, &t->fields[i], bh_at(obj, t->fields[i].off));
    if (rooms != few)
        bh_free(rooms);
    d->depth--;
    return rc;
}

int bh_msg_decode_pb(const struct bh_type *t, struct bh_str pb, void *obj, struct bh_arena *a,
                     struct bh_err *err)
{
    struct pdec d = {.a = a};

    return dec_msg(&d, t, bh_str_dup(a, pb), obj, err);
}

int bh_kind_decode_pb(const struct bh_kind *k, struct bh_str raw, struct bh_arena *a,
                      void **ret_obj, struct bh_err *err)
{
    void *obj = bh_arena_alloc(a, k->type->size);
    int rc = bh_msg_decode_pb(k->type, raw, obj, a, err);

    *ret_obj = rc < 0 ? NULL : obj;
    return rc;
}

int bh_pb_open(struct bh_str body, struct bh_pb_unknown *ret, struct bh_err *err)
{
    struct bh_pb_field x, y;
    struct bh_pb_rd r, m;
    int rc;

    *ret = (struct bh_pb_unknown){0};
    if (body.n < 4 || memcmp(body.p, BH_PB_MAGIC, 4) != 0)
        return bh_err_set(err, BH_E_BAD_REQUEST,
                          "provided data does not appear to be a protobuf message, expected prefix "
                          "[107 56 115 0]");
    r = bh_pb_rd(bh_str_sub(body, 4, body.n));
    while ((rc = bh_pb_next(&r, &x, err)) > 0) {
        if (x.type != BH_PB_LEN)
            continue;
        if (x.number == 2)
            ret->raw = x.bytes;
        else if (x.number == 3)
            ret->content_encoding = x.bytes;
        else if (x.number == 4)
            ret->content_type = x.bytes;
        if (x.number != 1)
            continue;
        m = bh_pb_rd(x.bytes);
        while ((rc = bh_pb_next(&m, &y, err)) > 0) {
            if (y.type == BH_PB_LEN && y.number == 1)
                ret->api_version = y.bytes;
            else if (y.type == BH_PB_LEN && y.number == 2)
                ret->kind = y.bytes;
        }
        if (rc < 0)
            return rc;
    }
    return rc;
}
