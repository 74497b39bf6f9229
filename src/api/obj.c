/* Committed objects. One allocation holds the object, its label pairs, the strings of its metadata,
 * and the JSON:
 *
 *     struct bh_obj | label pairs | name, namespace, uid, label keys and values | slack | JSON
 *
 * The slack is what an assigned number is shorter than the hole: the JSON before it moves right by
 * that much. The decoded struct is a block of its own, made while the object was encoded, or has an
 * arena and is published by compare-and-swap; who loses the race throws its copy away. It points
 * into the JSON, but for what moves.
 */
#include "api/obj.h"

#include "api/engine.h"
#include "api/gen/meta_v1.h"
#include "api/image.h"
#include "api/obj_commit.h"
#include "base/arena.h"
#include "base/buf.h"
#include "data/json.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define RV_MEMBER   "\"resourceVersion\":\""
#define HOLE_MEMBER RV_MEMBER BH_OBJ_RV_HOLE "\""

struct parts {
    struct bh_str name, ns, uid;
    struct bh_str_map labels;
    bool deleting;
    struct bh_str rv; /* as it stands in the JSON */
};

static struct bh_str place(char **at, struct bh_str s)
{
    struct bh_str v = {*at, s.n};

    if (s.n > 0)
        memcpy(*at, s.p, s.n);
    *at += s.n;
    return v;
}

/* Lays the block out; the JSON is given in three pieces. */
static struct bh_obj *build(const struct bh_kind *kind, const struct parts *p,
                            const struct bh_str json[3])
{
    size_t n = sizeof(struct bh_obj) + p->labels.n * sizeof(struct bh_str_pair) + p->name.n +
               p->ns.n + p->uid.n + json[0].n + json[1].n + json[2].n + 1;
    struct bh_str_pair *pairs;
    struct bh_obj *o;
    char *at;

    for (size_t i = 0; i < p->labels.n; i++)
        n += p->labels.p[i].key.n + p->labels.p[i].value.n;
    o = bh_malloc(n);
    memset(o, 0, sizeof(*o));
    o->kind = kind;
    o->refs = 1;
    o->deleting = p->deleting;
    pairs = (struct bh_str_pair *)(void *)(o + 1);
    at = (char *)(pairs + p->labels.n);
    o->name = place(&at, p->name);
    o->ns = place(&at, p->ns);
    o->uid = place(&at, p->uid);
    if (p->labels.p) {
        o->labels = (struct bh_str_map){pairs, p->labels.n};
        for (size_t i = 0; i < p->labels.n; i++) {
            pairs[i].key = place(&at, p->labels.p[i].key);
            pairs[i].value = place(&at, p->labels.p[i].value);
        }
    }
    o->json.p = at;
    for (int i = 0; i < 3; i++)
        o->json.n += place(&at, json[i]).n;
    *at = '\0';
    return o;
}

static int read_labels(struct bh_json_rd *r, struct bh_arena *a, struct bh_str_map *ret,
                       struct bh_err *err)
{
    struct bh_str key, value;
    int rc;

    if (bh_json_peek(r) != BH_JSON_OBJ)
        return bh_json_skip(r, NULL, err);
    rc = bh_json_enter(r, err);
    ret->p = bh_new(a, struct bh_str_pair);
    while (rc >= 0 && (rc = bh_json_next_key(r, &key, err)) > 0) {
        rc = bh_json_take_str(r, &value, err);
        if (rc >= 0)
            bh_str_map_put(a, ret, key, value);
    }
    return rc;
}

static int read_meta(struct bh_json_rd *r, struct bh_arena *a, struct parts *p, struct bh_err *err)
{
    struct bh_str key;
    int rc = bh_json_enter(r, err);

    while (rc >= 0 && (rc = bh_json_next_key(r, &key, err)) > 0) {
        struct bh_str *into = bh_str_eqc(key, "name")              ? &p->name
                              : bh_str_eqc(key, "namespace")       ? &p->ns
                              : bh_str_eqc(key, "uid")             ? &p->uid
                              : bh_str_eqc(key, "resourceVersion") ? &p->rv
                                                                   : NULL;

        if (into && bh_json_peek(r) == BH_JSON_STR) {
            rc = bh_json_take_str(r, into, err);
        } else if (bh_str_eqc(key, "labels")) {
            rc = read_labels(r, a, &p->labels, err);
        } else {
            if (bh_str_eqc(key, "deletionTimestamp") && bh_json_peek(r) != BH_JSON_NULL)
                p->deleting = true;
            rc = bh_json_skip(r, NULL, err);
        }
    }
    return rc;
}

static int read_parts(struct bh_str json, struct bh_arena *a, struct parts *p, struct bh_err *err)
{
    struct bh_json_rd r;
    struct bh_str key;
    bool found = false;
    int rc;

    bh_json_rd_init(&r, json, a);
    if (bh_json_peek(&r) != BH_JSON_OBJ)
        return bh_err_set(err, BH_E_BAD_REQUEST, "not a JSON object");
    rc = bh_json_enter(&r, err);
    while (rc >= 0 && (rc = bh_json_next_key(&r, &key, err)) > 0) {
        if (!found && bh_str_eqc(key, "metadata") && bh_json_peek(&r) == BH_JSON_OBJ) {
            found = true;
            rc = read_meta(&r, a, p, err);
        } else {
            rc = bh_json_skip(&r, NULL, err);
        }
    }
    if (rc == 0)
        rc = bh_json_end(&r, err);
    if (rc < 0)
        return rc;
    return found ? 0 : bh_err_set(err, BH_E_BAD_REQUEST, "an object without metadata");
}

struct bh_obj *bh_obj_new(const struct bh_kind *kind, struct bh_str json, uint64_t rv,
                          struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct parts p = {0};
    struct bh_str piece[3] = {json, {NULL, 0}, {NULL, 0}};
    char number[24];
    struct bh_obj *o;
    int64_t have = 0;

    if (read_parts(json, a, &p, err) < 0)
        return NULL;
    if (rv == 0 && bh_str_i64(p.rv, 0, INT64_MAX, &have))
        rv = (uint64_t)have;
    else if (rv != 0 && p.rv.p >= json.p && p.rv.p < json.p + json.n) {
        size_t off = (size_t)(p.rv.p - json.p);

        (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)rv);
        piece[0] = bh_str_sub(json, 0, off);
        piece[1] = bh_s(number);
        piece[2] = bh_str_sub(json, off + p.rv.n, json.n);
    }
    o = build(kind, &p, piece);
    o->rv = rv;
    return o;
}

/* Metadata as the struct has it, when it says all that bh_obj_new() would have found. */
static bool borrow_meta(struct bh_obj *o)
{
    const struct bh_meta_v1_object_meta *m =
        (const void *)((const char *)o->decoded + o->kind->meta_off);
    int64_t rv;

    if (!bh_str_i64(m->resource_version, 1, INT64_MAX, &rv))
        return false;
    o->rv = (uint64_t)rv;
    o->name = m->name;
    o->ns = m->namespace;
    o->uid = m->uid;
    o->labels = m->labels;
    o->deleting = !bh_time_is_zero(m->deletion_timestamp);
    o->lent = true;
    return true;
}

struct bh_obj *bh_obj_new_decoded(const struct bh_kind *kind, struct bh_str json,
                                  struct bh_err *err)
{
    struct bh_obj *o;
    struct bh_arena *a;
    char *copy;

    if (kind->meta_off == UINT32_MAX)
        return bh_obj_new(kind, json, 0, err);
    o = bh_malloc(sizeof(*o) + json.n + 1);
    *o = (struct bh_obj){.kind = kind, .refs = 1};
    copy = (char *)(o + 1);
    memcpy(copy, json.p, json.n);
    copy[json.n] = '\0';
    o->json = (struct bh_str){copy, json.n};
    o->arena = a = bh_arena_new(0);
    if (bh_kind_decode_json_view(kind, o->json, a, &o->decoded, NULL, NULL) < 0 ||
        !borrow_meta(o)) {
        /* Not of this kind, or without a version: what can be said of it is said there. */
        (void)bh_obj_unref(o);
        return bh_obj_new(kind, json, 0, err);
    }
    return o;
}

/* The length of a member that is a plain string, with the comma behind it. */
static size_t member_len(size_t name_n, struct bh_str value)
{
    return value.n ? name_n + value.n + sizeof("\"\":\"\",") - 1 : 0;
}

size_t bh_obj_hole(const struct bh_kind *kind, const struct bh_meta_v1_object_meta *m,
                   struct bh_str json)
{
    static const char start[] = "{\"kind\":\"\",\"apiVersion\":\"\",\"metadata\":{";
    const struct bh_str member = BH_S(HOLE_MEMBER);
    /* What stands before it holds nothing that JSON would escape, nearly always. */
    size_t at = sizeof(start) - 1 + kind->kind.n + kind->api_version.n + member_len(4, m->name) +
                member_len(12, m->generate_name) + member_len(9, m->namespace) +
                member_len(8, m->self_link) + member_len(3, m->uid);
    ptrdiff_t found;

    if (at + member.n <= json.n && memcmp(json.p + at, member.p, member.n) == 0)
        return at + sizeof(RV_MEMBER) - 1;
    found = bh_str_find(json, member);
    return found < 0 ? SIZE_MAX : (size_t)found + sizeof(RV_MEMBER) - 1;
}

struct bh_obj *bh_obj_new_pending(const struct bh_kind *kind, struct bh_str json,
                                  const struct bh_meta_v1_object_meta *meta,
                                  const struct bh_image *im)
{
    size_t hole = bh_obj_hole(kind, meta, json);
    struct bh_obj *o;

    struct parts p = {meta->name,
                      meta->namespace,
                      meta->uid,
                      meta->labels,
                      !bh_time_is_zero(meta->deletion_timestamp),
                      {NULL, 0}};
    struct bh_str piece[3] = {json, {NULL, 0}, {NULL, 0}};

    bh_assert(hole < UINT32_MAX);
    o = build(kind, &p, piece);
    o->hole = (uint32_t)hole;
    if (im)
        o->decoded = bh_image_place(im, o->json.p, hole + 1);
    return o;
}

/* The digits of v and a NUL; returns how many. buf has 24 bytes. */
static size_t number_text(char *buf, uint64_t v)
{
    char back[24];
    size_t n = 0;

    do
        back[n++] = (char)('0' + v % 10);
    while (v /= 10);
    for (size_t i = 0; i < n; i++)
        buf[i] = back[n - 1 - i];
    buf[n] = '\0';
    return n;
}

void bh_obj_assign(struct bh_obj *o, uint64_t rv)
{
    size_t hole = sizeof(BH_OBJ_RV_HOLE) - 1, before = o->hole, n, shift;
    char number[24], *json = (char *)(uintptr_t)o->json.p;

    bh_assert(o->rv == 0 && rv > 0 && before > 0);
    n = number_text(number, rv);
    shift = hole - n;
    memmove(json + shift, json, before);
    memcpy(json + shift + before, number, n);
    o->json.p += shift;
    o->json.n -= shift;
    o->rv = rv;
    if (o->decoded) {
        struct bh_meta_v1_object_meta *m = (void *)((char *)o->decoded + o->kind->meta_off);

        m->resource_version = bh_str_sub(o->json, before, before + n);
    }
}

void bh_obj_encode(const struct bh_kind *kind, const void *msg, struct bh_buf *out,
                   struct bh_image *im)
{
    _Alignas(max_align_t) char here[2048]; /* most kinds' own struct */
    BH_AUTO_FREE void *larger = NULL;
    void *copy = here;

    bh_assert(kind->meta_off != UINT32_MAX);
    if (kind->type->size > sizeof(here))
        copy = larger = bh_malloc(kind->type->size);
    memcpy(copy, msg, kind->type->size);
    ((struct bh_meta_v1_object_meta *)(void *)((char *)copy + kind->meta_off))->resource_version =
        BH_S(BH_OBJ_RV_HOLE);
    bh_kind_encode_image(kind, copy, out, im);
}

struct bh_obj *bh_obj_from_struct(const struct bh_kind *kind, const void *msg, struct bh_err *err)
{
    BH_AUTO_BUF b = {0};

    bh_kind_encode_json(kind, msg, &b);
    return bh_obj_new(kind, bh_buf_str(&b), 0, err);
}

struct bh_obj *bh_obj_ref(const struct bh_obj *o)
{
    struct bh_obj *m = (struct bh_obj *)(uintptr_t)o;

    (void)__atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
    return m;
}

static void decoded_free(struct bh_obj *o)
{
    if (!o->arena)
        bh_free(o->decoded);
    o->arena = bh_arena_free(o->arena);
    o->decoded = NULL;
}

struct bh_obj *bh_obj_unref(const struct bh_obj *o)
{
    struct bh_obj *m = (struct bh_obj *)(uintptr_t)o;

    if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return NULL;
    decoded_free(m);
    bh_free(m);
    return NULL;
}

void bh_obj_shed(struct bh_obj *o, int holds)
{
    /* Who holds no reference cannot get one but through the caller: the count does not grow now. */
    if (!o->decoded || o->lent || __atomic_load_n(&o->refs, __ATOMIC_ACQUIRE) > holds)
        return;
    decoded_free(o);
}

const void *bh_obj_struct(const struct bh_obj *o)
{
    struct bh_obj *m = (struct bh_obj *)(uintptr_t)o;
    void *have = __atomic_load_n(&m->decoded, __ATOMIC_ACQUIRE), *made = NULL;
    struct bh_arena *a;

    if (have)
        return have;
    a = bh_arena_new(0);
    /* The text of a pending object still moves: bh_obj_assign(). */
    if ((o->rv > 0 ? bh_kind_decode_json_view : bh_kind_decode_json)(o->kind, o->json, a, &made,
                                                                     NULL, NULL) < 0)
        made = bh_arena_alloc(
            a, o->kind->type->size); /* bytes that are not of this kind: as if all were absent */
    if (!__atomic_compare_exchange_n(&m->decoded, &have, made, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        (void)bh_arena_free(a);
        return have;
    }
    m->arena = a;
    return made;
}

struct bh_str bh_obj_key(const struct bh_obj *o, char *buf, size_t n)
{
    const struct bh_str parts[] = {o->ns, o->ns.n > 0 ? BH_S("/") : BH_S(""), o->name};
    size_t at = 0;

    for (size_t i = 0; i < BH_COUNT(parts); i++) {
        size_t take = parts[i].n < n - 1 - at ? parts[i].n : n - 1 - at;

        if (take)
            memcpy(buf + at, parts[i].p, take);
        at += take;
    }
    buf[at] = '\0';
    return (struct bh_str){buf, at};
}
