/* The well-known protobuf messages that expressions can construct: wrappers, Struct, ListValue and
 * Value. What is built is the plain value inside, or its default. */
#include "cel/cel_wkt.h"

#include <string.h>

#define NEST_MAX 128 /* depth of a value inside Struct, ListValue and Value */

#define VALUE(t) .fields = (const struct bh_cel_field[]){{BH_S_INIT("value"), &(t)}}, .nfields = 1
#define NAME(n)                                                                                    \
    .kind = TK_OBJECT, .name = BH_S_INIT("google.protobuf." n), .size_max = BH_CEL_SIZE_UNKNOWN

enum {
    W_BOOL,
    W_BYTES,
    W_DOUBLE,
    W_FLOAT,
    W_INT32,
    W_INT64,
    W_STRING,
    W_UINT32,
    W_UINT64,
    W_LIST,
    W_STRUCT,
    W_VALUE
};

static const struct bh_cel_field list_fields[] = {{BH_S_INIT("values"), &cel_t_list_dyn}};
static const struct bh_cel_field struct_fields[] = {{BH_S_INIT("fields"), &cel_t_map_dyn}};
static const struct bh_cel_field value_fields[] = {
    {BH_S_INIT("null_value"), &cel_t_dyn},       {BH_S_INIT("number_value"), &cel_t_double},
    {BH_S_INIT("string_value"), &cel_t_string},  {BH_S_INIT("bool_value"), &cel_t_bool},
    {BH_S_INIT("struct_value"), &cel_t_map_dyn}, {BH_S_INIT("list_value"), &cel_t_list_dyn},
};

static const struct bh_cel_type types[] = {
    [W_BOOL] = {NAME("BoolValue"), VALUE(cel_t_bool)},
    [W_BYTES] = {NAME("BytesValue"), VALUE(cel_t_bytes)},
    [W_DOUBLE] = {NAME("DoubleValue"), VALUE(cel_t_double)},
    [W_FLOAT] = {NAME("FloatValue"), VALUE(cel_t_double)},
    [W_INT32] = {NAME("Int32Value"), VALUE(cel_t_int)},
    [W_INT64] = {NAME("Int64Value"), VALUE(cel_t_int)},
    [W_STRING] = {NAME("StringValue"), VALUE(cel_t_string)},
    [W_UINT32] = {NAME("UInt32Value"), VALUE(cel_t_uint)},
    [W_UINT64] = {NAME("UInt64Value"), VALUE(cel_t_uint)},
    [W_LIST] = {NAME("ListValue"), .fields = list_fields, .nfields = BH_COUNT(list_fields)},
    [W_STRUCT] = {NAME("Struct"), .fields = struct_fields, .nfields = BH_COUNT(struct_fields)},
    [W_VALUE] = {NAME("Value"), .fields = value_fields, .nfields = BH_COUNT(value_fields)},
};

const struct bh_cel_type *cel_wkt_type(struct bh_str name)
{
    for (size_t i = 0; i < BH_COUNT(types); i++)
        if (bh_str_eq(types[i].name, name))
            return &types[i];
    return NULL;
}

/* JSON has one kind of number. */
static struct bh_cel_value as_json(struct bh_cel_run *run, struct bh_cel_value v, unsigned depth)
{
    struct cel_list_builder b = {0};
    struct bh_cel_value *keys, *values;

    if (cel_work(run, 1))
        return cel_halt(run);
    if (v.kind == BH_CEL_INT)
        return bh_cel_double((double)v.i);
    if (v.kind == BH_CEL_UINT)
        return bh_cel_double((double)v.u);
    if ((v.kind != BH_CEL_LIST && v.kind != BH_CEL_MAP) || depth == 0)
        return v;
    if (v.kind == BH_CEL_LIST) {
        for (size_t i = 0; i < v.list->n && !run->halted; i++)
            cel_list_add(run->a, &b, as_json(run, cel_list_at(run, v, i), depth - 1));
        return cel_list_done(run->a, &b);
    }
    keys = bh_new_n(run->a, struct bh_cel_value, v.map->n);
    values = bh_new_n(run->a, struct bh_cel_value, v.map->n);
    for (size_t i = 0; i < v.map->n && !run->halted; i++) {
        cel_map_at(run, v.map, i, &keys[i], &values[i]);
        values[i] = as_json(run, values[i], depth - 1);
    }
    return cel_map_done(run->a, keys, values, v.map->n);
}

static struct bh_cel_value default_of(struct bh_cel_run *run, size_t w)
{
    static const struct bh_cel_map no_entries;
    struct cel_list_builder empty = {0};
    struct bh_cel_value v = bh_cel_str(BH_S(""));

    switch (w) {
    case W_BOOL:
        return bh_cel_bool(false);
    case W_BYTES:
        v.kind = BH_CEL_BYTES;
        return v;
    case W_STRING:
        return v;
    case W_DOUBLE:
    case W_FLOAT:
        return bh_cel_double(0);
    case W_INT32:
    case W_INT64:
        return bh_cel_int(0);
    case W_UINT32:
    case W_UINT64:
        return bh_cel_uint(0);
    case W_LIST:
        return cel_list_done(run->a, &empty);
    case W_STRUCT:
        return (struct bh_cel_value){.kind = BH_CEL_MAP, .map = &no_entries};
    default:
        return bh_cel_null();
    }
}

struct bh_cel_value cel_wkt_value(struct bh_cel_run *run, const struct bh_cel_map *m)
{
    const struct bh_cel_type *t = cel_wkt_type(m->type_name);
    size_t w = (size_t)(t - types);
    struct bh_cel_value v;

    if (m->n == 0)
        return default_of(run, w);
    v = m->v[m->n - 1];
    if (w == W_INT32 && v.kind == BH_CEL_INT && (v.i < INT32_MIN || v.i > INT32_MAX))
        return bh_cel_error(run, "integer overflow");
    if (w == W_UINT32 && v.kind == BH_CEL_UINT && v.u > UINT32_MAX)
        return bh_cel_error(run, "unsigned integer overflow");
    if (w == W_FLOAT && v.kind == BH_CEL_DOUBLE)
        return bh_cel_double((double)(float)v.d);
    return w >= W_LIST ? as_json(run, v, NEST_MAX) : v;
}
