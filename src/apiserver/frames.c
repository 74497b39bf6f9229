/* Encoding of watch events. A JSON frame is one line; a protobuf frame is a length of four bytes
 * and a WatchEvent whose object is a whole enveloped message. */
#include "apiserver/frames.h"

#include "api/gen/meta_v1.h"
#include "apiserver/convert.h"
#include "apiserver/tables.h"

#include <stdio.h>
#include <string.h>

struct bh_api_bytes {
    int refs; /* one loop hands out, others may release: atomic */
    size_t n;
    char p[];
};

struct bh_api_bytes *bh_api_bytes_ref(struct bh_api_bytes *b)
{
    (void)__atomic_add_fetch(&b->refs, 1, __ATOMIC_RELAXED);
    return b;
}

struct bh_api_bytes *bh_api_bytes_unref(struct bh_api_bytes *b)
{
    if (b && __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) == 0)
        bh_free(b);
    return NULL;
}

static struct bh_api_bytes *bytes_new(const struct bh_str *parts, size_t n)
{
    struct bh_api_bytes *b;
    size_t total = 0, at = 0;

    for (size_t i = 0; i < n; i++)
        total += parts[i].n;
    b = bh_malloc(sizeof(*b) + total);
    b->refs = 1;
    b->n = total;
    for (size_t i = 0; i < n; i++) {
        if (parts[i].n > 0)
            memcpy(b->p + at, parts[i].p, parts[i].n);
        at += parts[i].n;
    }
    return b;
}

static const char *type_name(enum bh_watch_type t)
{
    static const char *const names[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"};

    return names[t];
}

/* {"type":"ADDED","object":…}\n */
static struct bh_api_bytes *json_frame(enum bh_watch_type type, struct bh_str object)
{
    struct bh_str parts[] = {BH_S("{\"type\":\""), bh_s(type_name(type)), BH_S("\",\"object\":"),
                             object, BH_S("}\n")};

    return bytes_new(parts, BH_COUNT(parts));
}

static struct bh_api_bytes *pb_frame(enum bh_watch_type type, struct bh_str object)
{
    struct bh_str name = bh_s(type_name(type));
    BH_AUTO_BUF raw = {0};
    BH_AUTO_BUF out = {0};
    unsigned char len[4];
    struct bh_str parts[2];

    /* WatchEvent{1: type, 2: RawExtension{1: bytes}}: written by hand, since the object is bytes
     * here and no JSON. */
    bh_buf_addc(&raw, 0x0a);
    for (size_t n = object.n;; n >>= 7) {
        bh_buf_addc(&raw, (char)(n >= 0x80 ? (n & 0x7f) | 0x80 : n));
        if (n < 0x80)
            break;
    }
    bh_buf_addc(&out, 0x0a);
    bh_buf_addc(&out, (char)name.n);
    bh_buf_adds(&out, name);
    bh_buf_addc(&out, 0x12);
    for (size_t n = raw.n + object.n;; n >>= 7) {
        bh_buf_addc(&out, (char)(n >= 0x80 ? (n & 0x7f) | 0x80 : n));
        if (n < 0x80)
            break;
    }
    bh_buf_adds(&out, bh_buf_str(&raw));
    bh_buf_adds(&out, object);
    for (int i = 0; i < 4; i++)
        len[i] = (unsigned char)(out.n >> (24 - 8 * i));
    parts[0] = (struct bh_str){(const char *)len, 4};
    parts[1] = bh_buf_str(&out);
    return bytes_new(parts, 2);
}

static struct bh_api_bytes *frame(struct bh_rq *rq, enum bh_watch_type type, struct bh_str object)
{
    return rq->form == BH_FORM_PB ? pb_frame(type, object) : json_frame(type, object);
}

/* A bookmark is an object of the watched kind with nothing but a version (and the mark of the
 * initial end). */
static void bookmark_object(const struct bh_frame_want *w, struct bh_buf *b)
{
    const struct bh_kind *k = w->rq->kind;
    void *obj = bh_arena_alloc(w->rq->a, k->type->size);
    struct bh_meta_v1_object_meta *m = bh_meta_of(k, obj);
    char number[24];

    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)w->rv);
    m->resource_version = bh_s(number);
    if (w->initial_end)
        bh_str_map_put(w->rq->a, &m->annotations, BH_S("k8s.io/initial-events-end"), BH_S("true"));
    if (w->rq->form == BH_FORM_PB)
        bh_kind_encode_pb(k, obj, b);
    else
        bh_kind_encode_json(k, obj, b);
}

static bool encode_object(const struct bh_frame_want *w, struct bh_obj *o, struct bh_buf *b)
{
    struct bh_rq *rq = w->rq;

    if (rq->as == BH_AS_TABLE) {
        struct bh_table_opts t = {.version = rq->as_version,
                                  .rv = w->rv,
                                  .now = bh_server_now(rq->srv),
                                  .no_columns = !w->first};
        struct bh_obj *one[1] = {o};

        return bh_table_options(rq, &t) == 0 && bh_table_json(rq, rq->kind, one, 1, &t, b) == 0;
    }
    if (rq->as != BH_AS_OBJECT)
        bh_partial_json(o, rq->as_version, b);
    else if (rq->form == BH_FORM_PB)
        bh_kind_encode_pb(rq->kind, bh_obj_struct(o), b);
    else
        return false; /* the caller has the bytes */
    return true;
}

static struct bh_api_bytes *encode(const struct bh_frame_want *w)
{
    struct bh_rq *rq = w->rq;
    BH_AUTO_BUF b = {0};
    BH_AUTO_OBJ *o = NULL;

    if (!w->obj) {
        bookmark_object(w, &b);
        if (rq->as != BH_AS_OBJECT) {
            BH_AUTO_OBJ *mark = bh_obj_new(rq->kind, bh_buf_str(&b), w->rv, NULL);

            bh_buf_clear(&b);
            if (!mark || !encode_object(w, mark, &b))
                return NULL;
        }
        return frame(rq, w->type, bh_buf_str(&b));
    }
    o = bh_convert_cached(rq->srv, w->obj, rq->kind);
    if (!o)
        return NULL;
    if (rq->as == BH_AS_OBJECT && rq->form == BH_FORM_JSON)
        return frame(rq, w->type, o->json);
    if (!encode_object(w, o, &b))
        return NULL;
    return frame(rq, w->type, bh_buf_str(&b));
}

struct bh_api_bytes *bh_frame_get(const struct bh_frame_want *w, struct bh_str *ret)
{
    struct bh_frame_cache *c = w->rq->srv->frames;
    bool keep = w->obj && w->rq->as == BH_AS_OBJECT;
    struct bh_api_bytes *b = NULL;

    for (size_t i = 0; keep && i < BH_FRAME_SLOTS; i++)
        if (c->slot[i].obj == w->obj && c->slot[i].kind == w->rq->kind &&
            c->slot[i].type == w->type && c->slot[i].form == w->rq->form) {
            b = bh_api_bytes_ref(c->slot[i].bytes);
            *ret = (struct bh_str){b->p, b->n};
            return b;
        }
    b = encode(w);
    if (!b)
        return NULL;
    *ret = (struct bh_str){b->p, b->n};
    if (keep) {
        size_t at = c->next++ % BH_FRAME_SLOTS;

        (void)bh_obj_unref(c->slot[at].obj);
        (void)bh_api_bytes_unref(c->slot[at].bytes);
        c->slot[at].obj = bh_obj_ref(w->obj);
        c->slot[at].kind = w->rq->kind;
        c->slot[at].type = w->type;
        c->slot[at].form = w->rq->form;
        c->slot[at].bytes = bh_api_bytes_ref(b);
    }
    return b;
}

struct bh_api_bytes *bh_frame_error(struct bh_rq *rq, struct bh_str *ret)
{
    struct bh_api_bytes *b = frame(rq, BH_WATCH_ERROR, bh_status_json(rq, &rq->fail, NULL));

    *ret = (struct bh_str){b->p, b->n};
    return b;
}

struct bh_obj *bh_convert_cached(struct bh_apiserver *srv, struct bh_obj *o,
                                 const struct bh_kind *to)
{
    struct bh_frame_cache *c = srv->frames;
    struct bh_obj *made;
    size_t at;

    if (o->kind == to)
        return bh_obj_ref(o);
    for (size_t i = 0; i < BH_FRAME_SLOTS; i++)
        if (c->conv[i].from == o && c->conv[i].to->kind == to)
            return bh_obj_ref(c->conv[i].to);
    made = bh_convert_obj(o, to, NULL);
    if (!made)
        return NULL;
    at = c->conv_next++ % BH_FRAME_SLOTS;
    (void)bh_obj_unref(c->conv[at].from);
    (void)bh_obj_unref(c->conv[at].to);
    c->conv[at].from = bh_obj_ref(o);
    c->conv[at].to = bh_obj_ref(made);
    return made;
}

void bh_frame_cache_clear(struct bh_frame_cache *c)
{
    for (size_t i = 0; i < BH_FRAME_SLOTS; i++) {
        (void)bh_obj_unref(c->slot[i].obj);
        (void)bh_api_bytes_unref(c->slot[i].bytes);
        (void)bh_obj_unref(c->conv[i].from);
        (void)bh_obj_unref(c->conv[i].to);
    }
    memset(c, 0, sizeof(*c));
}
