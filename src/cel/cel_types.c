/* Types: the shared basic ones, composed ones in arenas, their printed names. */
#include "cel/cel_int.h"

#include "base/buf.h"

#define T(id, k, nm)                                                                               \
    const struct bh_cel_type cel_t_##id = {                                                        \
        .kind = (k), .name = BH_S_INIT(nm), .size_max = BH_CEL_SIZE_UNKNOWN}

T(dyn, TK_DYN, "dyn");
T(any, TK_ANY, "any");
T(error, TK_ERROR, "!error!");
T(null, TK_NULL, "null_type");
T(bool, TK_BOOL, "bool");
T(int, TK_INT, "int");
T(uint, TK_UINT, "uint");
T(double, TK_DOUBLE, "double");
T(string, TK_STRING, "string");
T(bytes, TK_BYTES, "bytes");
T(timestamp, TK_TIMESTAMP, "google.protobuf.Timestamp");
T(duration, TK_DURATION, "google.protobuf.Duration");
T(ip, TK_OPAQUE, "net.IP");
T(cidr, TK_OPAQUE, "net.CIDR");
T(url, TK_OBJECT, "kubernetes.URL");
T(quantity, TK_OBJECT, "kubernetes.Quantity");
T(semver, TK_OBJECT, "kubernetes.Semver");
T(format, TK_OBJECT, "kubernetes.NamedFormat");
T(authorizer, TK_OBJECT, "kubernetes.authorization.Authorizer");
T(path_check, TK_OBJECT, "kubernetes.authorization.PathCheck");
T(group_check, TK_OBJECT, "kubernetes.authorization.GroupCheck");
T(resource_check, TK_OBJECT, "kubernetes.authorization.ResourceCheck");
T(decision, TK_OBJECT, "kubernetes.authorization.Decision");
/* The bare type value, without a parameter. */
T(type, TK_TYPE, "type");

static const struct bh_cel_field jsonpatch_fields[] = {
    {BH_S_INIT("op"), &cel_t_string},
    {BH_S_INIT("path"), &cel_t_string},
    {BH_S_INIT("from"), &cel_t_string},
    {BH_S_INIT("value"), &cel_t_dyn},
};
const struct bh_cel_type cel_t_jsonpatch = {.kind = TK_OBJECT,
                                            .name = BH_S_INIT("JSONPatch"),
                                            .fields = jsonpatch_fields,
                                            .nfields = BH_COUNT(jsonpatch_fields),
                                            .size_max = BH_CEL_SIZE_UNKNOWN};
const struct bh_cel_type cel_t_list_dyn = {.kind = TK_LIST,
                                           .np = 1,
                                           .name = BH_S_INIT("list"),
                                           .p = {&cel_t_dyn},
                                           .size_max = BH_CEL_SIZE_UNKNOWN};
const struct bh_cel_type cel_t_map_dyn = {.kind = TK_MAP,
                                          .np = 2,
                                          .name = BH_S_INIT("map"),
                                          .p = {&cel_t_dyn, &cel_t_dyn},
                                          .size_max = BH_CEL_SIZE_UNKNOWN};
const struct bh_cel_type cel_t_optional_dyn = {.kind = TK_OPAQUE,
                                               .np = 1,
                                               .name = BH_S_INIT("optional_type"),
                                               .p = {&cel_t_dyn},
                                               .size_max = BH_CEL_SIZE_UNKNOWN};

#define BASIC(id)                                                                                  \
    const struct bh_cel_type *bh_cel_type_##id(void)                                               \
    {                                                                                              \
        return &cel_t_##id;                                                                        \
    }
BASIC(dyn)
BASIC(any)
BASIC(null)
BASIC(bool)
BASIC(int)
BASIC(uint)
BASIC(double)
BASIC(string)
BASIC(bytes)
BASIC(timestamp)
BASIC(duration)
BASIC(quantity)

const struct bh_cel_type *bh_cel_type_sized(struct bh_arena *a, const struct bh_cel_type *t,
                                            uint64_t size_max)
{
    struct bh_cel_type *n = bh_arena_memdup(a, t, sizeof(*t));

    n->size_max = size_max;
    return n;
}

static struct bh_cel_type *composed(struct bh_arena *a, uint8_t kind, const char *name,
                                    const struct bh_cel_type *p0, const struct bh_cel_type *p1,
                                    uint64_t size_max)
{
    struct bh_cel_type *t = bh_new(a, struct bh_cel_type);

    t->kind = kind;
    t->name = bh_s(name);
    t->np = p1 ? 2 : 1;
    t->p[0] = p0;
    t->p[1] = p1;
    t->weight = 1 + p0->weight + (p1 ? p1->weight : 0);
    t->size_max = size_max;
    return t;
}

const struct bh_cel_type *bh_cel_type_list(struct bh_arena *a, const struct bh_cel_type *elem,
                                           uint64_t size_max)
{
    return composed(a, TK_LIST, "list", elem, NULL, size_max);
}

const struct bh_cel_type *bh_cel_type_map(struct bh_arena *a, const struct bh_cel_type *key,
                                          const struct bh_cel_type *value, uint64_t size_max)
{
    return composed(a, TK_MAP, "map", key, value, size_max);
}

const struct bh_cel_type *bh_cel_type_optional(struct bh_arena *a, const struct bh_cel_type *t)
{
    return composed(a, TK_OPAQUE, "optional_type", t, NULL, BH_CEL_SIZE_UNKNOWN);
}

const struct bh_cel_type *cel_type_of_type(struct bh_arena *a, const struct bh_cel_type *t)
{
    return composed(a, TK_TYPE, "type", t, NULL, BH_CEL_SIZE_UNKNOWN);
}

const struct bh_cel_type *bh_cel_type_object(struct bh_arena *a, struct bh_str name,
                                             const struct bh_cel_field *fields, size_t n)
{
    struct bh_cel_type *t = bh_new(a, struct bh_cel_type);

    t->kind = TK_OBJECT;
    t->name = bh_str_dup(a, name);
    t->fields = fields;
    t->nfields = n;
    t->size_max = BH_CEL_SIZE_UNKNOWN;
    return t;
}

bool cel_type_is_dyn(const struct bh_cel_type *t)
{
    return t->kind <= TK_ERROR;
}

bool cel_type_is_optional(const struct bh_cel_type *t)
{
    return t->kind == TK_OPAQUE && t->np == 1;
}

/* Declared types are as deep as whoever declared them made them; inferred ones as deep as the
 * expression, which the parser bounds. The recursion is over that depth. */
bool bh_cel_type_eq(const struct bh_cel_type *x, const struct bh_cel_type *y)
{
    if (x == y)
        return true;
    if (x->kind != y->kind || x->np != y->np)
        return false;
    if (x->kind == TK_PARAM || x->kind == TK_VAR)
        return x->tvar == y->tvar;
    if ((x->kind == TK_OPAQUE || x->kind == TK_OBJECT) && !bh_str_eq(x->name, y->name))
        return false;
    for (unsigned i = 0; i < x->np; i++)
        if (!bh_cel_type_eq(x->p[i], y->p[i]))
            return false;
    return true;
}

static void type_write(struct bh_buf *b, const struct bh_cel_type *t, bool msg)
{
    if (msg && t->kind == TK_NULL) {
        bh_buf_addz(b, "null");
        return;
    }
    if (msg && t->kind == TK_DURATION) {
        bh_buf_addz(b, "duration");
        return;
    }
    if (msg && t->kind == TK_TIMESTAMP) {
        bh_buf_addz(b, "timestamp");
        return;
    }
    if (t->kind == TK_VAR || t->kind == TK_PARAM) {
        bh_buf_addf(b, "_var%u", t->tvar);
        return;
    }
    bh_buf_adds(b, t->name);
    if (!t->np)
        return;
    bh_buf_addc(b, '(');
    for (unsigned i = 0; i < t->np; i++) {
        if (i)
            bh_buf_addz(b, ", ");
        type_write(b, t->p[i], msg);
    }
    bh_buf_addc(b, ')');
}

static struct bh_str type_text(struct bh_arena *a, const struct bh_cel_type *t, bool msg)
{
    BH_AUTO_BUF b = {.max = 64 << 10};

    type_write(&b, t, msg);
    return bh_str_dup(a, bh_buf_str(&b));
}

struct bh_str bh_cel_type_text(struct bh_arena *a, const struct bh_cel_type *t)
{
    return type_text(a, t, false);
}

struct bh_str cel_type_msg(struct bh_arena *a, const struct bh_cel_type *t)
{
    return type_text(a, t, true);
}

const struct bh_cel_type *cel_type_by_name(struct bh_str name)
{
    static const struct bh_cel_type *const named[] = {
        &cel_t_bool,     &cel_t_bytes,   &cel_t_double, &cel_t_duration, &cel_t_int,
        &cel_t_list_dyn, &cel_t_map_dyn, &cel_t_null,   &cel_t_string,   &cel_t_timestamp,
        &cel_t_type,     &cel_t_uint,    &cel_t_ip,     &cel_t_cidr,     &cel_t_optional_dyn,
    };

    for (size_t i = 0; i < BH_COUNT(named); i++)
        if (bh_str_eq(named[i]->name, name))
            return named[i];
    return NULL;
}

const struct bh_cel_type *cel_runtime_type(struct bh_cel_value v)
{
    static const struct bh_cel_type *const by_kind[] = {
        [BH_CEL_NULL] = &cel_t_null,
        [BH_CEL_BOOL] = &cel_t_bool,
        [BH_CEL_INT] = &cel_t_int,
        [BH_CEL_UINT] = &cel_t_uint,
        [BH_CEL_DOUBLE] = &cel_t_double,
        [BH_CEL_STRING] = &cel_t_string,
        [BH_CEL_BYTES] = &cel_t_bytes,
        [BH_CEL_LIST] = &cel_t_list_dyn,
        [BH_CEL_MAP] = &cel_t_map_dyn,
        [BH_CEL_TIMESTAMP] = &cel_t_timestamp,
        [BH_CEL_DURATION] = &cel_t_duration,
        [BH_CEL_TYPE] = &cel_t_type,
        [BH_CEL_OPTIONAL] = &cel_t_optional_dyn,
        [BH_CEL_IP] = &cel_t_ip,
        [BH_CEL_CIDR] = &cel_t_cidr,
        [BH_CEL_URL] = &cel_t_url,
        [BH_CEL_QUANTITY] = &cel_t_quantity,
        [BH_CEL_SEMVER] = &cel_t_semver,
        [BH_CEL_FORMAT] = &cel_t_format,
        [BH_CEL_AUTHORIZER] = &cel_t_authorizer,
        [BH_CEL_PATH_CHECK] = &cel_t_path_check,
        [BH_CEL_GROUP_CHECK] = &cel_t_group_check,
        [BH_CEL_RESOURCE_CHECK] = &cel_t_resource_check,
        [BH_CEL_DECISION] = &cel_t_decision,
        [BH_CEL_OBJECT] = &cel_t_map_dyn,
        [BH_CEL_ERROR] = &cel_t_error,
    };

    return v.kind < BH_COUNT(by_kind) ? by_kind[v.kind] : &cel_t_error;
}

struct bh_str bh_cel_type_name(struct bh_cel_value v)
{
    if (v.kind == BH_CEL_OBJECT)
        return v.map->type_name;
    return cel_runtime_type(v)->name;
}

#define TYPE_DEPTH_MAX 64

static const struct bh_cel_type *parse_type(struct bh_arena *a, struct bh_str *s, unsigned depth)
{
    static const struct bh_cel_type *const basic[] = {
        &cel_t_dyn,   &cel_t_any,       &cel_t_null,     &cel_t_bool,
        &cel_t_int,   &cel_t_uint,      &cel_t_double,   &cel_t_string,
        &cel_t_bytes, &cel_t_timestamp, &cel_t_duration, &cel_t_ip,
        &cel_t_cidr,  &cel_t_url,       &cel_t_quantity, &cel_t_semver};
    const struct bh_cel_type *p[2] = {NULL, NULL};
    struct bh_str name;
    size_t i = 0, np = 0;

    while (i < s->n && s->p[i] != '(' && s->p[i] != ')' && s->p[i] != ',')
        i++;
    name = bh_str_trim(bh_str_sub(*s, 0, i));
    *s = bh_str_sub(*s, i, s->n);
    if (s->n && s->p[0] == '(') {
        while (np < 2 && depth > 0 && s->n && (s->p[0] == '(' || s->p[0] == ',')) {
            *s = bh_str_sub(*s, 1, s->n);
            p[np] = parse_type(a, s, depth - 1);
            if (!p[np++])
                return NULL;
        }
        if (!s->n || s->p[0] != ')')
            return NULL;
        *s = bh_str_sub(*s, 1, s->n);
    }
    if (np == 1 && bh_str_eqc(name, "list"))
        return bh_cel_type_list(a, p[0], BH_CEL_SIZE_UNKNOWN);
    if (np == 2 && bh_str_eqc(name, "map"))
        return bh_cel_type_map(a, p[0], p[1], BH_CEL_SIZE_UNKNOWN);
    if (np == 1 && bh_str_eqc(name, "optional_type"))
        return bh_cel_type_optional(a, p[0]);
    if (np == 0 && bh_str_eqc(name, "timestamp"))
        return &cel_t_timestamp;
    if (np == 0 && bh_str_eqc(name, "duration"))
        return &cel_t_duration;
    for (i = 0; np == 0 && i < BH_COUNT(basic); i++)
        if (bh_str_eq(basic[i]->name, name))
            return basic[i];
    return NULL;
}

const struct bh_cel_type *bh_cel_type_parse(struct bh_arena *a, struct bh_str text)
{
    const struct bh_cel_type *t = parse_type(a, &text, TYPE_DEPTH_MAX);

    return text.n ? NULL : t;
}
