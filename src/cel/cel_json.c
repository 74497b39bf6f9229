/* Values as JSON, for commands, messages and patches. */
#include "cel/cel_opaque.h"

#include <math.h>

#include "base/buf.h"
#include "data/codec.h"
#include "data/json.h"

#define NEST_MAX 512

static int write_value(struct bh_cel_run *run, struct bh_cel_value v, struct bh_buf *out,
                       unsigned depth, struct bh_err *err);

static int write_key(struct bh_cel_run *run, struct bh_cel_value k, struct bh_buf *out,
                     struct bh_err *err)
{
    switch (k.kind) {
    case BH_CEL_STRING:
        bh_json_write_str_plain(out, bh_cel_as_str(k));
        return 0;
    case BH_CEL_INT:
        bh_buf_addf(out, "\"%lld\"", (long long)k.i);
        return 0;
    case BH_CEL_UINT:
        bh_buf_addf(out, "\"%llu\"", (unsigned long long)k.u);
        return 0;
    case BH_CEL_BOOL:
        bh_buf_addz(out, k.b ? "\"true\"" : "\"false\"");
        return 0;
    case BH_CEL_DOUBLE:
        bh_json_write_str(out, cel_double_text(run->a, k.d));
        return 0;
    default:
        return bh_err_set(err, BH_E_INVALID, "a map key of type %.*s has no JSON form",
                          BH_SF(bh_cel_type_name(k)));
    }
}

static int write_map(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_buf *out,
                     unsigned depth, struct bh_err *err)
{
    int r;

    bh_buf_addc(out, '{');
    for (size_t i = 0; i < m->n; i++) {
        struct bh_cel_value k, v;

        cel_map_at(run, m, i, &k, &v);
        if (i)
            bh_buf_addc(out, ',');
        r = write_key(run, k, out, err);
        if (r < 0)
            return r;
        bh_buf_addc(out, ':');
        r = write_value(run, v, out, depth - 1, err);
        if (r < 0)
            return r;
    }
    bh_buf_addc(out, '}');
    return 0;
}

static int write_list(struct bh_cel_run *run, struct bh_cel_value l, struct bh_buf *out,
                      unsigned depth, struct bh_err *err)
{
    bh_buf_addc(out, '[');
    for (size_t i = 0; i < l.list->n; i++) {
        int r;

        if (i)
            bh_buf_addc(out, ',');
        r = write_value(run, cel_list_at(run, l, i), out, depth - 1, err);
        if (r < 0)
            return r;
    }
    bh_buf_addc(out, ']');
    return 0;
}

static int write_value(struct bh_cel_run *run, struct bh_cel_value v, struct bh_buf *out,
                       unsigned depth, struct bh_err *err)
{
    if (depth == 0)
        return bh_err_set(err, BH_E_LIMIT, "the value is nested too deeply");
    if (out->overflow)
        return bh_err_set(err, BH_E_LIMIT, "the value is too large");
    switch (v.kind) {
    case BH_CEL_NULL:
        bh_buf_addz(out, "null");
        return 0;
    case BH_CEL_BOOL:
        bh_buf_addz(out, v.b ? "true" : "false");
        return 0;
    case BH_CEL_INT:
        bh_buf_add_i64(out, v.i);
        return 0;
    case BH_CEL_UINT:
        bh_buf_add_u64(out, v.u);
        return 0;
    case BH_CEL_DOUBLE:
        if (isnan(v.d) || isinf(v.d))
            return bh_err_set(err, BH_E_INVALID, "%.*s has no JSON form",
                              BH_SF(cel_double_text(run->a, v.d)));
        bh_json_write_double(out, v.d);
        return 0;
    case BH_CEL_STRING:
        bh_json_write_str_plain(out, bh_cel_as_str(v));
        return 0;
    case BH_CEL_BYTES:
        bh_buf_addc(out, '"');
        bh_base64_write(out, bh_cel_as_str(v));
        bh_buf_addc(out, '"');
        return 0;
    case BH_CEL_LIST:
        return write_list(run, v, out, depth, err);
    case BH_CEL_MAP:
    case BH_CEL_OBJECT:
        return write_map(run, v.map, out, depth, err);
    case BH_CEL_TIMESTAMP:
        bh_json_write_str(out, cel_time_text(run->a, v.time));
        return 0;
    case BH_CEL_DURATION:
        bh_json_write_str(out, cel_duration_text(run->a, v.i));
        return 0;
    case BH_CEL_TYPE:
        bh_json_write_str(out, v.type->name);
        return 0;
    case BH_CEL_OPTIONAL:
        if (v.opt)
            return write_value(run, *v.opt, out, depth - 1, err);
        bh_buf_addz(out, "null");
        return 0;
    case BH_CEL_ERROR:
        return bh_err_set(err, BH_E_INVALID, "%.*s", BH_SF(((const struct cel_error *)v.p)->msg));
    default:
        bh_json_write_str_plain(out, cel_opaque_text(run->a, v));
        return 0;
    }
}

int bh_cel_to_json(struct bh_arena *a, struct bh_cel_value v, struct bh_buf *out,
                   struct bh_err *err)
{
    struct bh_cel_run run = {.a = a, .limit = UINT64_MAX};

    return write_value(&run, v, out, NEST_MAX, err);
}

/* ---- the form of the conformance files
 * -------------------------------------------------------------------------------- */

static void value_json(struct bh_cel_run *run, struct bh_cel_value v, struct bh_buf *out,
                       unsigned depth);

static void named_text(struct bh_buf *out, const char *name, struct bh_str text)
{
    bh_buf_addf(out, "{\"%s\":", name);
    bh_json_write_str_plain(out, text);
    bh_buf_addc(out, '}');
}

static void list_json(struct bh_cel_run *run, struct bh_cel_value v, struct bh_buf *out,
                      unsigned depth)
{
    bh_buf_addz(out, "{\"list_value\":{");
    for (size_t i = 0; i < v.list->n; i++) {
        bh_buf_addz(out, i ? "," : "\"values\":[");
        value_json(run, cel_list_at(run, v, i), out, depth - 1);
    }
    bh_buf_addz(out, v.list->n ? "]}}" : "}}");
}

static void map_json(struct bh_cel_run *run, struct bh_cel_value v, struct bh_buf *out,
                     unsigned depth)
{
    bh_buf_addz(out, "{\"map_value\":{");
    for (size_t i = 0; i < v.map->n; i++) {
        struct bh_cel_value k, x;

        cel_map_at(run, v.map, i, &k, &x);
        bh_buf_addz(out, i ? ",{\"key\":" : "\"entries\":[{\"key\":");
        value_json(run, k, out, depth - 1);
        bh_buf_addz(out, ",\"value\":");
        value_json(run, x, out, depth - 1);
        bh_buf_addc(out, '}');
    }
    bh_buf_addz(out, v.map->n ? "]}}" : "}}");
}

static void double_json(struct bh_buf *out, double d)
{
    bh_buf_addz(out, "{\"double_value\":");
    if (isnan(d) || isinf(d))
        bh_buf_addz(out, isnan(d) ? "\"NaN\"" : d > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else if (d == 0 && signbit(d))
        bh_buf_addz(out, "-0.0");
    else
        bh_json_write_double(out, d);
    bh_buf_addc(out, '}');
}

static void value_json(struct bh_cel_run *run, struct bh_cel_value v, struct bh_buf *out,
                       unsigned depth)
{
    if (depth == 0 || out->overflow) {
        bh_buf_addz(out, "{}");
        return;
    }
    switch (v.kind) {
    case BH_CEL_NULL:
        bh_buf_addz(out, "{\"null_value\":null}");
        break;
    case BH_CEL_BOOL:
        bh_buf_addf(out, "{\"bool_value\":%s}", v.b ? "true" : "false");
        break;
    case BH_CEL_INT:
        bh_buf_addf(out, "{\"int64_value\":\"%lld\"}", (long long)v.i);
        break;
    case BH_CEL_UINT:
        bh_buf_addf(out, "{\"uint64_value\":\"%llu\"}", (unsigned long long)v.u);
        break;
    case BH_CEL_DOUBLE:
        double_json(out, v.d);
        break;
    case BH_CEL_STRING:
        named_text(out, "string_value", bh_cel_as_str(v));
        break;
    case BH_CEL_BYTES:
        bh_buf_addz(out, "{\"bytes_value\":\"");
        bh_base64_write(out, bh_cel_as_str(v));
        bh_buf_addz(out, "\"}");
        break;
    case BH_CEL_LIST:
        list_json(run, v, out, depth);
        break;
    case BH_CEL_MAP:
        map_json(run, v, out, depth);
        break;
    case BH_CEL_TIMESTAMP:
        named_text(out, "timestamp", cel_time_text(run->a, v.time));
        break;
    case BH_CEL_DURATION:
        named_text(out, "duration", cel_duration_text(run->a, v.i));
        break;
    case BH_CEL_TYPE:
        named_text(out, "type_value", v.type->name);
        break;
    case BH_CEL_OPTIONAL:
        if (v.opt) {
            bh_buf_addz(out, "{\"optional_of\":");
            value_json(run, *v.opt, out, depth - 1);
            bh_buf_addc(out, '}');
        } else {
            bh_buf_addz(out, "{\"optional_none\":true}");
        }
        break;
    case BH_CEL_OBJECT: {
        BH_AUTO_BUF b = {.max = out->max};

        if (write_value(run, v, &b, depth - 1, NULL) < 0)
            bh_buf_clear(&b);
        named_text(out, "k8s_value", bh_buf_str(&b));
        break;
    }
    default:
        named_text(out, "k8s_value", cel_opaque_text(run->a, v));
        break;
    }
}

void bh_cel_to_value_json(struct bh_arena *a, struct bh_cel_value v, struct bh_buf *out)
{
    struct bh_cel_run run = {.a = a, .limit = UINT64_MAX};

    value_json(&run, v, out, NEST_MAX);
}
