/* Rows and columns of a table. */
#include "apiserver/tables.h"

#include "api/gen/meta_v1.h"
#include "apiserver/table_columns.h"
#include "data/json.h"

#include <string.h>

int bh_table_options(struct bh_rq *rq, struct bh_table_opts *o)
{
    const struct bh_str *v = bh_rq_query(rq, "includeObject");

    o->include = BH_INCLUDE_METADATA;
    if (!v || v->n == 0 || bh_str_eqc(*v, "Metadata"))
        return 0;
    if (bh_str_eqc(*v, "None")) {
        o->include = BH_INCLUDE_NONE;
        return 0;
    }
    if (bh_str_eqc(*v, "Object")) {
        o->include = BH_INCLUDE_OBJECT;
        return 0;
    }
    return bh_fail_msg(
        rq, BH_E_BAD_REQUEST,
        "Unable to convert to Table as requested: includeObject: Invalid value: \"%.*s\": must be "
        "'Metadata', 'Object', 'None', or empty",
        BH_SF(*v));
}

static void column_definition(const struct bh_column *c, struct bh_buf *b)
{
    bh_buf_addz(b, "{\"name\":");
    bh_json_write_str(b, c->name);
    bh_buf_addz(b, ",\"type\":");
    bh_json_write_str(b, c->type);
    bh_buf_addz(b, ",\"format\":");
    bh_json_write_str(b, c->format);
    bh_buf_addz(b, ",\"description\":");
    bh_json_write_str(b, c->doc);
    bh_buf_addf(b, ",\"priority\":%d}", c->priority);
}

static void cell(const struct bh_kind *k, const struct bh_column *c, const void *obj,
                 struct bh_time now, struct bh_buf *b)
{
    size_t before = b->n;
    struct bh_ref ref;

    if (c->func.n > 0) {
        bh_column_fn fn = bh_column_find(c->func);

        if (fn)
            fn(obj, now, b);
    } else if (bh_path_get(k->type, obj, c->path, &ref)) {
        bh_ref_encode_json(&ref, b);
    } else if (bh_str_eqc(c->type, "string")) {
        bh_buf_addz(b, "\"\"");
    }
    if (b->n == before)
        bh_buf_addz(b, "null");
}

static void row_object(struct bh_rq *rq, const struct bh_obj *o, const struct bh_table_opts *t,
                       struct bh_buf *b)
{
    (void)rq;
    switch (t->include) {
    case BH_INCLUDE_NONE:
        bh_buf_addz(b, "null");
        break;
    case BH_INCLUDE_OBJECT:
        bh_buf_adds(b, o->json);
        break;
    default:
        bh_partial_json(o, t->version, b);
    }
}

static const struct bh_column *columns_of(const struct bh_kind *k, size_t *n)
{
    static const struct bh_column fallback[] = {
        {.name = BH_S_INIT("Name"),
         .type = BH_S_INIT("string"),
         .format = BH_S_INIT("name"),
         .doc = BH_S_INIT(
             "Name must be unique within a namespace. Is required when creating resources, "
             "although some "
             "resources may allow a client to request the generation of an appropriate name "
             "automatically. "
             "Name is primarily intended for creation idempotence and configuration definition. "
             "Cannot be "
             "updated. More info: "
             "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"),
         .path = BH_S_INIT(".metadata.name")},
        {.name = BH_S_INIT("Created At"),
         .type = BH_S_INIT("date"),
         .doc =
             BH_S_INIT("CreationTimestamp is a timestamp representing the server time when this "
                       "object was created. "
                       "It is not guaranteed to be set in happens-before order across separate "
                       "operations. Clients "
                       "may not set this value. It is represented in RFC3339 form and is in UTC."),
         .path = BH_S_INIT(".metadata.creationTimestamp")},
    };

    if (k->n_columns > 0) {
        *n = k->n_columns;
        return k->columns;
    }
    *n = BH_COUNT(fallback);
    return fallback;
}

int bh_table_json(struct bh_rq *rq, const struct bh_kind *k, struct bh_obj *const *objs, size_t n,
                  const struct bh_table_opts *t, struct bh_buf *b)
{
    size_t columns_n;
    const struct bh_column *columns = columns_of(k, &columns_n);

    bh_buf_addf(b,
                "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/"
                "%.*s\",\"metadata\":{\"resourceVersion\":\"%llu\"",
                BH_SF(t->version), (unsigned long long)t->rv);
    if (t->cont.n > 0)
        bh_buf_addf(b, ",\"continue\":\"%.*s\"", BH_SF(t->cont));
    if (t->has_remaining)
        bh_buf_addf(b, ",\"remainingItemCount\":%lld", (long long)t->remaining);
    bh_buf_addz(b, "},\"columnDefinitions\":");
    if (t->no_columns) {
        bh_buf_addz(b, "null");
    } else {
        bh_buf_addc(b, '[');
        for (size_t i = 0; i < columns_n; i++) {
            if (i > 0)
                bh_buf_addc(b, ',');
            column_definition(&columns[i], b);
        }
        bh_buf_addc(b, ']');
    }
    /* Upstream's plain table (name and time) has no rows at all where others have none. */
    if (n == 0 && columns_n == 2 && bh_str_eqc(columns[1].name, "Created At")) {
        bh_buf_addz(b, ",\"rows\":null}");
        return 0;
    }
    bh_buf_addz(b, ",\"rows\":[");
    for (size_t i = 0; i < n; i++) {
        const void *obj = bh_obj_struct(objs[i]);

        bh_buf_addz(b, i > 0 ? ",{\"cells\":[" : "{\"cells\":[");
        for (size_t c = 0; c < columns_n; c++) {
            if (c > 0)
                bh_buf_addc(b, ',');
            cell(k, &columns[c], obj, t->now, b);
        }
        bh_buf_addc(b, ']');
        bh_row_conditions(k, obj, b);
        bh_buf_addz(b, ",\"object\":");
        row_object(rq, objs[i], t, b);
        bh_buf_addc(b, '}');
    }
    bh_buf_addz(b, "]}");
    return 0;
}
