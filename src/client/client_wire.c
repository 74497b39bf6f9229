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

/* ---- lists and objects ---- */

/* Enters what must be an object, or an array: the reader takes either. */
static int enter(struct bh_json_rd *r, enum bh_json_kind kind, struct bh_err *err)
{
    if (bh_json_peek(r) != kind)
        return bh_err_set(err, BH_E_PROTO, "an answer that is not of the form of one");
    return bh_json_enter(r, err);
}

/* An object of a list or an event: a JSON object, whatever is in it. */
static struct bh_obj *take_object(const struct bh_kind *kind, struct bh_str raw, struct bh_err *err)
{
    if (raw.n && raw.p[0] == '{')
        return bh_obj_new(kind, raw, 0, err);
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

struct bh_obj *bh_wire_object(struct bh_arena *a, const struct bh_kind *kind, struct bh_str body)
{
    struct bh_str api_version, name;
    struct bh_err err = {0};

    if (bh_json_peek_kind(body, a, &api_version, &name, &err) < 0 || !bh_str_eq(name, kind->kind) ||
        !bh_str_eq(api_version, kind->api_version))
        return NULL;
    return bh_obj_new(kind, body, 0, &err);
}

/* ---- events ---- */

static int event_error(struct bh_arena *a, struct bh_str status, struct bh_err *err)
{
    struct bh_client_res res = {0};

    bh_client_status(a, 0, status, &res);
    return bh_err_set(err, res.err.code ? res.err.code : BH_E_INTERNAL, "%s", res.err.msg);
}

int bh_wire_event(const struct bh_kind *kind, struct bh_str line, struct bh_wire_event *ret,
                  struct bh_err *err)
{
    static const char *const types[] = {
        [BH_CW_ADDED] = "ADDED",
        [BH_CW_MODIFIED] = "MODIFIED",
        [BH_CW_DELETED] = "DELETED",
        [BH_CW_BOOKMARK] = "BOOKMARK",
    };
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str key, type = {0}, raw = {0};
    struct bh_json_rd r;
    struct bh_err why = {0};
    size_t t = 0;
    int rc;

    bh_json_rd_init(&r, line, a);
    rc = enter(&r, BH_JSON_OBJ, &why);
    while (rc >= 0 && (rc = bh_json_next_key(&r, &key, &why)) > 0) {
        if (bh_str_eqc(key, "type"))
            rc = bh_json_take_str(&r, &type, &why);
        else
            rc = bh_json_skip(&r, bh_str_eqc(key, "object") ? &raw : NULL, &why);
    }
    if (rc < 0 || !raw.n)
        return bh_err_set(err, BH_E_PROTO, "watch event: %s", rc < 0 ? why.msg : "no object");
    if (bh_str_eqc(type, "ERROR"))
        return event_error(a, raw, err);
    while (t < BH_COUNT(types) && !bh_str_eqc(type, types[t]))
        t++;
    if (t == BH_COUNT(types))
        return 1;
    ret->type = (enum bh_cw_type)t;
    ret->obj = take_object(kind, raw, &why);
    if (!ret->obj)
        return bh_err_set(err, BH_E_PROTO, "watch event: %s", why.msg);
    ret->rv = ret->obj->rv;
    if (ret->type == BH_CW_BOOKMARK) /* it carries a version, no object */
        ret->obj = bh_obj_unref(ret->obj);
    return 0;
}
