/* Swagger 2.0 from JSON to protobuf, driven by one table per message.
 *
 * A table row says which member of the JSON object goes to which field, and in which form. What
 * protobuf cannot say as JSON does (a value that is one of several things, maps in order, anything
 * at all) gnostic wraps in messages of its own; those forms are the values of enum how.
 */
#include "api/openapi_v2_pb.h"

#include "base/arena.h"
#include "data/json.h"
#include "data/pbwire.h"

#include <string.h>

#define DEPTH_MAX 64u

enum how {
    STR,
    STRS, /* repeated string */
    BOOL,
    INT,
    DOUBLE,
    ANY, /* Any: its text is YAML, and JSON is YAML */
    ANYS,
    MSG,
    MSGS,
    NAMED,      /* a map: message { repeated Named… additional_properties = 1 } */
    ADDITIONAL, /* AdditionalPropertiesItem: a schema or a boolean */
    TYPE,       /* TypeItem: one string or several */
    ITEMS,      /* ItemsItem: one schema or several */
    PARAMS,     /* repeated ParametersItem */
    PATHS,
    RESPONSES,
    SCHEMA_ITEM,
    SECURITY,      /* repeated SecurityRequirement */
    SECURITY_DEFS, /* SecurityDefinitions */
};

struct msg;

struct row {
    const char *key;
    uint32_t number;
    enum how how;
    const struct msg *of;
};

struct msg {
    const struct row *rows;
    size_t n;
    uint32_t extensions; /* the field of "x-…" members, 0: none */
};

#define MESSAGE(name, ext)                                                                         \
    static const struct msg name = {name##_rows, BH_COUNT(name##_rows), (ext)}

static const struct msg schema;

static const struct row external_docs_rows[] = {{"description", 1, STR, NULL},
                                                {"url", 2, STR, NULL}};
MESSAGE(external_docs, 3);

static const struct row schema_rows[] = {
    {"$ref", 1, STR, NULL},
    {"format", 2, STR, NULL},
    {"title", 3, STR, NULL},
    {"description", 4, STR, NULL},
    {"default", 5, ANY, NULL},
    {"multipleOf", 6, DOUBLE, NULL},
    {"maximum", 7, DOUBLE, NULL},
    {"exclusiveMaximum", 8, BOOL, NULL},
    {"minimum", 9, DOUBLE, NULL},
    {"exclusiveMinimum", 10, BOOL, NULL},
    {"maxLength", 11, INT, NULL},
    {"minLength", 12, INT, NULL},
    {"pattern", 13, STR, NULL},
    {"maxItems", 14, INT, NULL},
    {"minItems", 15, INT, NULL},
    {"uniqueItems", 16, BOOL, NULL},
    {"maxProperties", 17, INT, NULL},
    {"minProperties", 18, INT, NULL},
    {"required", 19, STRS, NULL},
    {"enum", 20, ANYS, NULL},
    {"additionalProperties", 21, ADDITIONAL, NULL},
    {"type", 22, TYPE, NULL},
    {"items", 23, ITEMS, NULL},
    {"allOf", 24, MSGS, &schema},
    {"properties", 25, NAMED, &schema},
    {"discriminator", 26, STR, NULL},
    {"readOnly", 27, BOOL, NULL},
    {"externalDocs", 29, MSG, &external_docs},
    {"example", 30, ANY, NULL},
};
MESSAGE(schema, 31);

static const struct row reference_rows[] = {{"$ref", 1, STR, NULL}, {"description", 2, STR, NULL}};
MESSAGE(reference, 0);

static const struct row response_rows[] = {{"description", 1, STR, NULL},
                                           {"schema", 2, SCHEMA_ITEM, NULL}};
MESSAGE(response, 5);

static const struct row body_param_rows[] = {{"description", 1, STR, NULL},
                                             {"name", 2, STR, NULL},
                                             {"in", 3, STR, NULL},
                                             {"required", 4, BOOL, NULL},
                                             {"schema", 5, MSG, &schema}};
MESSAGE(body_param, 6);

/* Header and path parameters have the same numbers. */
static const struct row path_param_rows[] = {
    {"required", 1, BOOL, NULL}, {"in", 2, STR, NULL},           {"description", 3, STR, NULL},
    {"name", 4, STR, NULL},      {"type", 5, STR, NULL},         {"format", 6, STR, NULL},
    {"pattern", 16, STR, NULL},  {"uniqueItems", 19, BOOL, NULL}};
MESSAGE(path_param, 22);

/* Those of the query and of forms too. */
static const struct row query_param_rows[] = {
    {"required", 1, BOOL, NULL}, {"in", 2, STR, NULL},           {"description", 3, STR, NULL},
    {"name", 4, STR, NULL},      {"type", 6, STR, NULL},         {"format", 7, STR, NULL},
    {"pattern", 17, STR, NULL},  {"uniqueItems", 20, BOOL, NULL}};
MESSAGE(query_param, 23);

static const struct row operation_rows[] = {
    {"tags", 1, STRS, NULL},           {"summary", 2, STR, NULL},
    {"description", 3, STR, NULL},     {"externalDocs", 4, MSG, &external_docs},
    {"operationId", 5, STR, NULL},     {"produces", 6, STRS, NULL},
    {"consumes", 7, STRS, NULL},       {"parameters", 8, PARAMS, NULL},
    {"responses", 9, RESPONSES, NULL}, {"schemes", 10, STRS, NULL},
    {"deprecated", 11, BOOL, NULL},    {"security", 12, SECURITY, NULL}};
MESSAGE(operation, 13);

static const struct row path_item_rows[] = {
    {"$ref", 1, STR, NULL},       {"get", 2, MSG, &operation},    {"put", 3, MSG, &operation},
    {"post", 4, MSG, &operation}, {"delete", 5, MSG, &operation}, {"options", 6, MSG, &operation},
    {"head", 7, MSG, &operation}, {"patch", 8, MSG, &operation},  {"parameters", 9, PARAMS, NULL}};
MESSAGE(path_item, 10);

static const struct row api_key_rows[] = {{"type", 1, STR, NULL},
                                          {"name", 2, STR, NULL},
                                          {"in", 3, STR, NULL},
                                          {"description", 4, STR, NULL}};
MESSAGE(api_key, 5);

static const struct row basic_auth_rows[] = {{"type", 1, STR, NULL}, {"description", 2, STR, NULL}};
MESSAGE(basic_auth, 3);

static const struct row info_rows[] = {{"title", 1, STR, NULL},
                                       {"version", 2, STR, NULL},
                                       {"description", 3, STR, NULL},
                                       {"termsOfService", 4, STR, NULL}};
MESSAGE(info, 7);

static const struct row document_rows[] = {
    {"swagger", 1, STR, NULL},
    {"info", 2, MSG, &info},
    {"host", 3, STR, NULL},
    {"basePath", 4, STR, NULL},
    {"schemes", 5, STRS, NULL},
    {"consumes", 6, STRS, NULL},
    {"produces", 7, STRS, NULL},
    {"paths", 8, PATHS, NULL},
    {"definitions", 9, NAMED, &schema},
    {"security", 12, SECURITY, NULL},
    {"securityDefinitions", 13, SECURITY_DEFS, NULL},
    {"externalDocs", 15, MSG, &external_docs},
};
MESSAGE(document, 16);

struct enc {
    struct bh_buf *out;
    struct bh_arena *a;
    unsigned depth;
    struct bh_err *err;
};

static int fields(struct enc *e, const struct msg *m, const struct bh_jv *v);

static int message(struct enc *e, uint32_t number, const struct msg *m, const struct bh_jv *v)
{
    size_t mark;
    int r;

    if (e->depth >= DEPTH_MAX)
        return bh_err_set(e->err, BH_E_LIMIT, "the document nests deeper than %u", DEPTH_MAX);
    mark = bh_pb_w_open(e->out, number);
    e->depth++;
    r = fields(e, m, v);
    e->depth--;
    bh_pb_w_close(e->out, mark);
    return r;
}

static void any(struct enc *e, uint32_t number, const struct bh_jv *v)
{
    size_t mark = bh_pb_w_open(e->out, number);

    bh_pb_w_bytes(e->out, 2, bh_jv_text(e->a, v, 0));
    bh_pb_w_close(e->out, mark);
}

static bool is_extension(struct bh_str key)
{
    return bh_str_starts(key, BH_S("x-"));
}

static void extension(struct enc *e, uint32_t number, const struct bh_jv_member *x)
{
    size_t mark = bh_pb_w_open(e->out, number);

    bh_pb_w_bytes(e->out, 1, x->key);
    any(e, 2, &x->v);
    bh_pb_w_close(e->out, mark);
}

static void strings(struct enc *e, uint32_t number, const struct bh_jv *v)
{
    if (v->kind == BH_JSON_STR)
        bh_pb_w_bytes(e->out, number, v->s);
    for (size_t i = 0; v->kind == BH_JSON_ARR && i < v->n_items; i++)
        if (v->items[i].kind == BH_JSON_STR)
            bh_pb_w_bytes(e->out, number, v->items[i].s);
}

/* repeated number { name = 1; value = 2 }, one for each member that is no extension. */
static int named(struct enc *e, uint32_t number, const struct msg *m, const struct bh_jv *v)
{
    int r = 0;

    for (size_t i = 0; r == 0 && v->kind == BH_JSON_OBJ && i < v->n_members; i++) {
        size_t mark = bh_pb_w_open(e->out, number);

        bh_pb_w_bytes(e->out, 1, v->members[i].key);
        r = message(e, 2, m, &v->members[i].v);
        bh_pb_w_close(e->out, mark);
    }
    return r;
}

static int messages(struct enc *e, uint32_t number, const struct msg *m, const struct bh_jv *v)
{
    int r = 0;

    if (v->kind == BH_JSON_OBJ)
        return message(e, number, m, v);
    for (size_t i = 0; r == 0 && v->kind == BH_JSON_ARR && i < v->n_items; i++)
        r = message(e, number, m, &v->items[i]);
    return r;
}

static int params(struct enc *e, uint32_t number, const struct bh_jv *v)
{
    int r = 0;

    for (size_t i = 0; r == 0 && v->kind == BH_JSON_ARR && i < v->n_items; i++) {
        const struct bh_jv *p = &v->items[i];
        struct bh_str in = bh_jv_get_str(p, "in");
        size_t item = bh_pb_w_open(e->out, number), param, kind;

        if (bh_jv_getc(p, "$ref")) {
            r = message(e, 2, &reference, p);
        } else {
            param = bh_pb_w_open(e->out, 1);
            if (bh_str_eqc(in, "body")) {
                r = message(e, 1, &body_param, p);
            } else {
                kind = bh_pb_w_open(e->out, 2);
                if (bh_str_eqc(in, "path"))
                    r = message(e, 4, &path_param, p);
                else if (bh_str_eqc(in, "header"))
                    r = message(e, 1, &path_param, p);
                else
                    r = message(e, bh_str_eqc(in, "formData") ? 2 : 3, &query_param, p);
                bh_pb_w_close(e->out, kind);
            }
            bh_pb_w_close(e->out, param);
        }
        bh_pb_w_close(e->out, item);
    }
    return r;
}

static int paths(struct enc *e, const struct bh_jv *v)
{
    int r = 0;

    for (size_t i = 0; r == 0 && v->kind == BH_JSON_OBJ && i < v->n_members; i++) {
        const struct bh_jv_member *x = &v->members[i];
        size_t mark;

        if (is_extension(x->key)) {
            extension(e, 1, x);
            continue;
        }
        mark = bh_pb_w_open(e->out, 2);
        bh_pb_w_bytes(e->out, 1, x->key);
        r = message(e, 2, &path_item, &x->v);
        bh_pb_w_close(e->out, mark);
    }
    return r;
}

static int responses(struct enc *e, const struct bh_jv *v)
{
    int r = 0;

    for (size_t i = 0; r == 0 && v->kind == BH_JSON_OBJ && i < v->n_members; i++) {
        const struct bh_jv_member *x = &v->members[i];
        bool ref = bh_jv_getc(&x->v, "$ref") != NULL;
        size_t mark, value;

        if (is_extension(x->key)) {
            extension(e, 2, x);
            continue;
        }
        mark = bh_pb_w_open(e->out, 1);
        bh_pb_w_bytes(e->out, 1, x->key);
        value = bh_pb_w_open(e->out, 2);
        r = ref ? message(e, 2, &reference, &x->v) : message(e, 1, &response, &x->v);
        bh_pb_w_close(e->out, value);
        bh_pb_w_close(e->out, mark);
    }
    return r;
}

/* Each requirement: scheme name to scopes. */
static void security(struct enc *e, uint32_t number, const struct bh_jv *v)
{
    for (size_t i = 0; v->kind == BH_JSON_ARR && i < v->n_items; i++) {
        const struct bh_jv *req = &v->items[i];
        size_t mark = bh_pb_w_open(e->out, number), one, list;

        for (size_t j = 0; req->kind == BH_JSON_OBJ && j < req->n_members; j++) {
            one = bh_pb_w_open(e->out, 1);
            bh_pb_w_bytes(e->out, 1, req->members[j].key);
            list = bh_pb_w_open(e->out, 2);
            strings(e, 1, &req->members[j].v);
            bh_pb_w_close(e->out, list);
            bh_pb_w_close(e->out, one);
        }
        bh_pb_w_close(e->out, mark);
    }
}

static int security_defs(struct enc *e, const struct bh_jv *v)
{
    int r = 0;

    for (size_t i = 0; r == 0 && v->kind == BH_JSON_OBJ && i < v->n_members; i++) {
        const struct bh_jv_member *x = &v->members[i];
        bool basic = bh_str_eqc(bh_jv_get_str(&x->v, "type"), "basic");
        size_t mark = bh_pb_w_open(e->out, 1), item;

        bh_pb_w_bytes(e->out, 1, x->key);
        item = bh_pb_w_open(e->out, 2);
        r = basic ? message(e, 1, &basic_auth, &x->v) : message(e, 2, &api_key, &x->v);
        bh_pb_w_close(e->out, item);
        bh_pb_w_close(e->out, mark);
    }
    return r;
}

static void number_field(struct enc *e, const struct row *row, const struct bh_jv *v)
{
    int64_t n;
    double d;

    if (v->kind != BH_JSON_NUM)
        return;
    if (row->how == DOUBLE && bh_json_num_double(v->s, &d))
        bh_pb_w_double(e->out, row->number, d);
    else if (row->how == INT && bh_json_num_i64(v->s, &n))
        bh_pb_w_uint(e->out, row->number, (uint64_t)n);
}

/* The forms that are one message around something: what stands inside. */
static int wrapped(struct enc *e, const struct row *row, const struct bh_jv *v)
{
    size_t mark = bh_pb_w_open(e->out, row->number);
    int r = 0;

    if (row->how == NAMED)
        r = named(e, 1, row->of, v);
    else if (row->how == ADDITIONAL && v->kind == BH_JSON_BOOL)
        bh_pb_w_uint(e->out, 2, v->b);
    else if (row->how == TYPE)
        strings(e, 1, v);
    else if (row->how == PATHS)
        r = paths(e, v);
    else if (row->how == RESPONSES)
        r = responses(e, v);
    else if (row->how == SECURITY_DEFS)
        r = security_defs(e, v);
    else /* ADDITIONAL, ITEMS, SCHEMA_ITEM */
        r = messages(e, 1, &schema, v);
    bh_pb_w_close(e->out, mark);
    return r;
}

static int field(struct enc *e, const struct row *row, const struct bh_jv *v)
{
    switch (row->how) {
    case STR:
        if (v->kind == BH_JSON_STR)
            bh_pb_w_bytes(e->out, row->number, v->s);
        return 0;
    case STRS:
        strings(e, row->number, v);
        return 0;
    case BOOL:
        if (v->kind == BH_JSON_BOOL && v->b)
            bh_pb_w_uint(e->out, row->number, 1);
        return 0;
    case INT:
    case DOUBLE:
        number_field(e, row, v);
        return 0;
    case ANY:
        any(e, row->number, v);
        return 0;
    case ANYS:
        for (size_t i = 0; v->kind == BH_JSON_ARR && i < v->n_items; i++)
            any(e, row->number, &v->items[i]);
        return 0;
    case MSG:
        return message(e, row->number, row->of, v);
    case MSGS:
        return messages(e, row->number, row->of, v);
    case PARAMS:
        return params(e, row->number, v);
    case SECURITY:
        security(e, row->number, v);
        return 0;
    default:
        return wrapped(e, row, v);
    }
}

static int fields(struct enc *e, const struct msg *m, const struct bh_jv *v)
{
    int r = 0;

    for (size_t i = 0; r == 0 && v->kind == BH_JSON_OBJ && i < v->n_members; i++) {
        const struct bh_jv_member *x = &v->members[i];

        if (m->extensions && is_extension(x->key)) {
            extension(e, m->extensions, x);
            continue;
        }
        for (size_t j = 0; j < m->n; j++)
            if (bh_str_eqc(x->key, m->rows[j].key)) {
                r = field(e, &m->rows[j], &x->v);
                break;
            }
    }
    return r;
}

int bh_openapi_v2_pb(struct bh_str json, struct bh_buf *out, struct bh_err *err)
{
    struct enc e = {.out = out, .a = bh_arena_new(0), .err = err};
    struct bh_jv doc;
    int r = bh_jv_parse(e.a, json, NULL, &doc, err);

    if (r == 0)
        r = fields(&e, &document, &doc);
    (void)bh_arena_free(e.a);
    return r;
}
