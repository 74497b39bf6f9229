/* What a server sends, taken apart. */
#include "client/client_wire.h"

#include <string.h>

#include "api/engine.h"
#include "base/arena.h"
#include "data/json.h"

/* ---- lines ---- */

void bh_lines_feed(struct bh_lines *l, struct bh_str piece)
{
    bh_buf_drop_front(&l->buf, l->used);
    l->scanned -= l->used;
    l->used = 0;
    bh_buf_adds(&l->buf, piece);
}

bool bh_lines_next(struct bh_lines *l, struct bh_str *ret)
{
    const char *from = l->buf.p + l->scanned;
    const char *end = l->scanned < l->buf.n ? memchr(from, '\n', l->buf.n - l->scanned) : NULL;

    if (!end) {
        l->scanned = l->buf.n;
        return false;
    }
    l->scanned = (size_t)(end - l->buf.p) + 1;
    *ret = bh_str_sub(bh_buf_str(&l->buf), l->used, l->scanned - 1);
    l->used = l->scanned;
    return true;
}

struct bh_str bh_lines_rest(const struct bh_lines *l)
{
    return bh_str_sub(bh_buf_str(&l->buf), l->used, l->buf.n);
}

/* ---- what was seen before ---- */

#define RV_WITHIN 1024 /* it stands near the front; further back the object is read again */

/* The version in the bytes of an object, or 0. A guess: nothing but a look-up depends on it. */
static uint64_t peek_rv(struct bh_str json)
{
    static const struct bh_str key = BH_S_INIT("\"resourceVersion\":\"");
    struct bh_str front = bh_str_sub(json, 0, RV_WITHIN < json.n ? RV_WITHIN : json.n);
    ptrdiff_t at = bh_str_find(front, key), end;
    int64_t rv;

    if (at < 0)
        return 0;
    end = bh_str_chr(front, '"', (size_t)at + key.n);
    if (end < 0 ||
        !bh_str_i64(bh_str_sub(front, (size_t)at + key.n, (size_t)end), 1, INT64_MAX, &rv))
        return 0;
    return (uint64_t)rv;
}

static struct bh_obj *seen_get(const struct bh_wire_seen *s, const struct bh_kind *kind,
                               struct bh_str json)
{
    uint64_t rv = peek_rv(json);

    for (size_t i = 0; rv && i < BH_COUNT(s->obj); i++)
        if (s->rv[i] == rv && s->obj[i]->kind == kind && bh_str_eq(s->obj[i]->json, json))
            return bh_obj_ref(s->obj[i]);
    return NULL;
}

/* Remembers the object, which may be NULL; returns it. */
static struct bh_obj *seen_put(struct bh_wire_seen *s, struct bh_obj *o)
{
    struct bh_obj **at = &s->obj[s->next];

    if (!o || !o->rv)
        return o;
    s->rv[s->next] = o->rv;
    s->next = (s->next + 1) % BH_COUNT(s->obj);
    (void)bh_obj_unref(*at);
    *at = bh_obj_ref(o);
    return o;
}

void bh_wire_seen_done(struct bh_wire_seen *s)
{
    for (size_t i = 0; i < BH_COUNT(s->obj); i++)
        s->obj[i] = bh_obj_unref(s->obj[i]);
    memset(s->rv, 0, sizeof(s->rv));
}

/* ---- lists and objects ---- */

/* Enters what must be an object, or an array: the reader takes either. */
static int enter(struct bh_json_rd *r, enum bh_json_kind kind, struct bh_err *err)
{
    if (bh_json_peek(r) != kind)
        return bh_err_set(err, BH_E_PROTO, "an answer that is not of the form of one");
    return bh_json_enter(r, err);
}

/* An object of a list or an event: a JSON object, whatever is in it. Whoever lists or watches looks
 * into it. */
static struct bh_obj *take_object(const struct bh_kind *kind, struct bh_str raw, struct bh_err *err)
{
    if (raw.n && raw.p[0] == '{')
        return bh_obj_new_decoded(kind, raw, err);
    (void)bh_err_set(err, BH_E_PROTO, "not an object");
    return NULL;
}

static int add_item(struct bh_arena *a, const struct bh_kind *kind, struct bh_str raw, size_t *cap,
                    struct bh_client_res *res)
{
    struct bh_err err = {0};
    struct bh_obj *o = take_object(kind, raw, &err);

    if (!o)
        return bh_err_set(&res->err, BH_E_PROTO, "list item: %s", err.msg);
    bh_arena_grow(a, &res->items, cap, res->items_n + 1, sizeof(struct bh_obj *));
    res->items[res->items_n++] = o;
    return 0;
}

static int parse_items(struct bh_json_rd *r, struct bh_arena *a, const struct bh_kind *kind,
                       struct bh_client_res *res)
{
    size_t cap = 0;
    struct bh_str raw;
    int rc;

    if (bh_json_peek(r) == BH_JSON_NULL)
        return bh_json_take_null(r, &res->err);
    rc = enter(r, BH_JSON_ARR, &res->err);
    while (rc >= 0 && (rc = bh_json_next_item(r, &res->err)) > 0) {
        rc = bh_json_skip(r, &raw, &res->err);
        if (rc >= 0)
            rc = add_item(a, kind, raw, &cap, res);
    }
    return rc;
}

static int parse_list_meta(struct bh_json_rd *r, struct bh_client_res *res)
{
    struct bh_str key, text;
    int64_t rv;
    int rc = enter(r, BH_JSON_OBJ, &res->err);

    while (rc >= 0 && (rc = bh_json_next_key(r, &key, &res->err)) > 0) {
        if (bh_str_eqc(key, "resourceVersion") && bh_json_peek(r) == BH_JSON_STR) {
            rc = bh_json_take_str(r, &text, &res->err);
            if (rc >= 0 && bh_str_i64(text, 0, INT64_MAX, &rv))
                res->list_rv = (uint64_t)rv;
        } else {
            rc = bh_json_skip(r, NULL, &res->err);
        }
    }
    return rc;
}

void bh_wire_list(struct bh_arena *a, const struct bh_kind *kind, struct bh_str body,
                  struct bh_client_res *res)
{
    struct bh_json_rd r;
    struct bh_str key;
    int rc;

    bh_json_rd_init(&r, body, a);
    rc = enter(&r, BH_JSON_OBJ, &res->err);
    while (rc >= 0 && (rc = bh_json_next_key(&r, &key, &res->err)) > 0) {
        if (bh_str_eqc(key, "items"))
            rc = parse_items(&r, a, kind, res);
        else if (bh_str_eqc(key, "metadata"))
            rc = parse_list_meta(&r, res);
        else
            rc = bh_json_skip(&r, NULL, &res->err);
    }
    if (rc < 0)
        res->err.code = BH_E_PROTO;
}

struct bh_obj *bh_wire_object(struct bh_arena *a, const struct bh_kind *kind,
                              struct bh_wire_seen *seen, struct bh_str body)
{
    struct bh_str api_version, name, json = body;
    struct bh_err err = {0};
    struct bh_obj *o;

    if (json.n && json.p[json.n - 1] == '\n') /* which an event has not */
        json.n--;
    o = seen_get(seen, kind, json);
    if (o)
        return o;
    if (bh_json_peek_kind(json, a, &api_version, &name, &err) < 0 || !bh_str_eq(name, kind->kind) ||
        !bh_str_eq(api_version, kind->api_version))
        return NULL;
    return seen_put(seen, bh_obj_new(kind, json, 0, &err));
}

/* ---- events ---- */

static int event_error(struct bh_arena *a, struct bh_str status, struct bh_err *err)
{
    struct bh_client_res res = {0};

    bh_client_status(a, 0, status, &res);
    return bh_err_set(err, res.err.code ? res.err.code : BH_E_INTERNAL, "%s", res.err.msg);
}

/* The form in which servers write an event: its type and its object, nothing else. What is in the
 * object is seen when that is read. */
static bool usual_event(struct bh_str line, struct bh_str *ret_type, struct bh_str *ret_raw)
{
    static const struct bh_str head = BH_S_INIT("{\"type\":\""), mid = BH_S_INIT("\",\"object\":{");
    ptrdiff_t quote;
    size_t at;

    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    if (!bh_str_starts(line, head) || line.p[line.n - 1] != '}')
        return false;
    quote = bh_str_chr(line, '"', head.n);
    if (quote < 0)
        return false;
    at = (size_t)quote;
    if (!bh_str_starts(bh_str_sub(line, at, line.n), mid))
        return false;
    *ret_type = bh_str_sub(line, head.n, at);
    *ret_raw = bh_str_sub(line, at + mid.n - 1, line.n - 1);
    return true;
}

static int any_event(struct bh_arena *a, struct bh_str line, struct bh_str *ret_type,
                     struct bh_str *ret_raw, struct bh_err *err)
{
    struct bh_json_rd r;
    struct bh_str key;
    int rc;

    bh_json_rd_init(&r, line, a);
    rc = enter(&r, BH_JSON_OBJ, err);
    while (rc >= 0 && (rc = bh_json_next_key(&r, &key, err)) > 0) {
        if (bh_str_eqc(key, "type"))
            rc = bh_json_take_str(&r, ret_type, err);
        else
            rc = bh_json_skip(&r, bh_str_eqc(key, "object") ? ret_raw : NULL, err);
    }
    return rc;
}

static int event_type(struct bh_str type)
{
    static const char *const types[] = {
        [BH_CW_ADDED] = "ADDED",
        [BH_CW_MODIFIED] = "MODIFIED",
        [BH_CW_DELETED] = "DELETED",
        [BH_CW_BOOKMARK] = "BOOKMARK",
    };

    for (size_t t = 0; t < BH_COUNT(types); t++)
        if (bh_str_eqc(type, types[t]))
            return (int)t;
    return -1;
}

static struct bh_obj *event_object(const struct bh_kind *kind, struct bh_wire_seen *seen,
                                   struct bh_str raw, struct bh_err *err)
{
    struct bh_obj *o = seen_get(seen, kind, raw);

    return o ? o : seen_put(seen, take_object(kind, raw, err));
}

int bh_wire_event(const struct bh_kind *kind, struct bh_wire_seen *seen, struct bh_str line,
                  struct bh_wire_event *ret, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str type = {0}, raw = {0};
    struct bh_err why = {0};
    int t = usual_event(line, &type, &raw) ? event_type(type) : -1;

    if (t >= 0)
        ret->obj = event_object(kind, seen, raw, &why);
    if (!ret->obj) { /* another form, or wrong: this tells which */
        type = raw = (struct bh_str){0};
        why = (struct bh_err){0};
        if (any_event(a, line, &type, &raw, &why) < 0 || !raw.n)
            return bh_err_set(err, BH_E_PROTO, "watch event: %s",
                              why.code != BH_OK ? why.msg : "no object");
        if (bh_str_eqc(type, "ERROR"))
            return event_error(a, raw, err);
        t = event_type(type);
        if (t < 0)
            return 1;
        ret->obj = event_object(kind, seen, raw, &why);
    }
    if (!ret->obj)
        return bh_err_set(err, BH_E_PROTO, "watch event: %s", why.msg);
    ret->type = (enum bh_cw_type)t;
    ret->rv = ret->obj->rv;
    if (ret->type == BH_CW_BOOKMARK) /* it carries a version, no object */
        ret->obj = bh_obj_unref(ret->obj);
    return 0;
}
