/* From an OpenAPI schema to nodes with types, sizes and compiled rules. */
#include "cel/schema_int.h"

#include <string.h>

#include "base/buf.h"

#define MESSAGE_MAX 2048 /* characters of a message, as upstream limits them */

struct schema_compiler {
    struct bh_cel_schema *s;
    struct bh_arena *a;
    bh_cel_schema_fault_fn fn;
    void *arg;
    uint64_t total;
    bool deep;
};

/* What encloses a node, for costs and for oldSelf. */
struct place {
    struct bh_str path;
    uint64_t times;    /* how often a rule here may run */
    bool bounded;      /* times is known: everything around has a limit */
    bool correlatable; /* an old value can be found */
    unsigned depth;
};

static bool flag(const struct bh_jv *schema, const char *name)
{
    return bh_jv_get_bool(schema, name);
}

struct bh_str bh_cel_escape(struct bh_arena *a, struct bh_str name)
{
    static const char *const words[] = {"true", "false", "null", "in"};
    BH_AUTO_BUF b = {.max = 64 << 10};
    bool word = cel_reserved_name(name);

    for (size_t i = 0; i < BH_COUNT(words); i++)
        word |= bh_str_eqc(name, words[i]);
    if (word)
        return bh_str_fmt(a, "__%.*s__", BH_SF(name));
    if (name.n == 0 || (name.p[0] >= '0' && name.p[0] <= '9'))
        return (struct bh_str){NULL, 0};
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];

        if (c == '_' && i + 1 < name.n && name.p[i + 1] == '_') {
            bh_buf_addz(&b, "__underscores__");
            i++;
        } else if (c == '.') {
            bh_buf_addz(&b, "__dot__");
        } else if (c == '-') {
            bh_buf_addz(&b, "__dash__");
        } else if (c == '/') {
            bh_buf_addz(&b, "__slash__");
        } else if (c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')) {
            bh_buf_addc(&b, c);
        } else {
            return (struct bh_str){NULL, 0};
        }
    }
    return bh_str_dup(a, bh_buf_str(&b));
}

/* ---- nodes
 * -----------------------------------------------------------------------------------------------------------------
 */

static struct schema_node *build(struct schema_compiler *c, const struct bh_jv *schema,
                                 bool resource, unsigned depth, struct bh_str name);

static uint64_t limit_of(const struct bh_jv *schema, const char *key, uint64_t otherwise)
{
    int64_t v;

    return bh_jv_get_i64(schema, key, &v) && v >= 0 ? (uint64_t)v : otherwise;
}

static uint64_t longest_enum(const struct bh_jv *schema, uint64_t otherwise)
{
    const struct bh_jv *e = bh_jv_getc(schema, "enum");
    uint64_t max = 0;

    if (!e || e->n_items == 0)
        return otherwise;
    for (size_t i = 0; i < e->n_items; i++)
        if (e->items[i].kind == BH_JSON_STR && e->items[i].s.n > max)
            max = e->items[i].s.n;
    return max;
}

static void string_node(struct schema_compiler *c, struct schema_node *n,
                        const struct bh_jv *schema)
{
    static const struct {
        const char *format;
        uint8_t kind;
        uint64_t size, min;
        const struct bh_cel_type *t;
    } formats[] = {
        {"byte", NODE_BYTES, REQUEST_SIZE_MAX - 2, 2, &cel_t_bytes},
        {"date", NODE_DATE, 12, 12, &cel_t_timestamp},
        {"date-time", NODE_DATETIME, 32, 21, &cel_t_timestamp},
        {"duration", NODE_DURATION, 32, 3, &cel_t_duration},
    };
    struct bh_str f = bh_jv_get_str(schema, "format");
    uint64_t max = limit_of(schema, "maxLength", UINT64_MAX);

    for (size_t i = 0; i < BH_COUNT(formats); i++)
        if (bh_str_eqc(f, formats[i].format)) {
            n->kind = formats[i].kind;
            n->min_size = formats[i].min;
            n->type = bh_cel_type_sized(
                c->a, formats[i].t,
                n->kind == NODE_BYTES && max < UINT64_MAX ? max : formats[i].size);
            return;
        }
    n->kind = NODE_STRING;
    n->min_size = 2;
    max = max < REQUEST_SIZE_MAX ? max * 4 : longest_enum(schema, REQUEST_SIZE_MAX - 2);
    n->type = bh_cel_type_sized(c->a, &cel_t_string, max);
}

static void add_prop(struct schema_compiler *c, struct schema_node *n, size_t *cap,
                     struct bh_str name, struct schema_node *node)
{
    bh_arena_grow(c->a, &n->props, cap, n->nprops + 1, sizeof(*n->props));
    n->props[n->nprops].name = name;
    n->props[n->nprops].escaped =
        node->kind == NODE_NONE ? (struct bh_str){NULL, 0} : bh_cel_escape(c->a, name);
    n->props[n->nprops++].node = node;
}

static struct schema_node *plain_string(struct schema_compiler *c)
{
    struct schema_node *n = bh_new(c->a, struct schema_node);

    n->kind = NODE_STRING;
    n->min_size = 2;
    n->type = bh_cel_type_sized(c->a, &cel_t_string, REQUEST_SIZE_MAX - 2);
    return n;
}

/* Fields as the checker sees them: escaped names, and reserved words also as they are. */
static void object_type(struct schema_compiler *c, struct schema_node *n, struct bh_str name)
{
    struct bh_cel_field *f = bh_new_n(c->a, struct bh_cel_field, n->nprops * 2);
    size_t k = 0;

    for (size_t i = 0; i < n->nprops; i++) {
        if (!n->props[i].escaped.p)
            continue;
        f[k++] = (struct bh_cel_field){n->props[i].escaped, n->props[i].node->type};
        if (cel_reserved_name(n->props[i].name))
            f[k++] = (struct bh_cel_field){n->props[i].name, n->props[i].node->type};
    }
    n->type = bh_cel_type_object(c->a, name, f, k);
}

/* apiVersion, kind and metadata are declared whatever the schema says of them; of metadata only the
 * names. */
static void resource_props(struct schema_compiler *c, struct schema_node *n, size_t *cap,
                           struct bh_str name)
{
    struct schema_node *meta = bh_new(c->a, struct schema_node);
    size_t meta_cap = 0;

    meta->kind = NODE_OBJECT;
    meta->min_size = 2;
    add_prop(c, meta, &meta_cap, BH_S("name"), plain_string(c));
    add_prop(c, meta, &meta_cap, BH_S("generateName"), plain_string(c));
    object_type(c, meta, bh_str_fmt(c->a, "%.*s.metadata", BH_SF(name)));
    add_prop(c, n, cap, BH_S("apiVersion"), plain_string(c));
    add_prop(c, n, cap, BH_S("kind"), plain_string(c));
    add_prop(c, n, cap, BH_S("metadata"), meta);
}

static bool required(const struct bh_jv *schema, struct bh_str name)
{
    const struct bh_jv *r = bh_jv_getc(schema, "required");

    for (size_t i = 0; r && i < r->n_items; i++)
        if (bh_str_eq(r->items[i].s, name))
            return true;
    return false;
}

static void object_node(struct schema_compiler *c, struct schema_node *n,
                        const struct bh_jv *schema, bool resource, unsigned depth,
                        struct bh_str name)
{
    const struct bh_jv *props = bh_jv_getc(schema, "properties"),
                       *more = bh_jv_getc(schema, "additionalProperties");
    size_t cap = 0;
    uint64_t size;

    if (!props && more && more->kind == BH_JSON_OBJ) {
        n->kind = NODE_MAP;
        n->item = build(c, more, false, depth + 1, bh_str_fmt(c->a, "%.*s.@elem", BH_SF(name)));
        n->min_size = 2;
        size = limit_of(schema, "maxProperties", (REQUEST_SIZE_MAX - 2) / (n->item->min_size + 6));
        n->type =
            bh_cel_type_map(c->a, bh_cel_type_sized(c->a, &cel_t_string, REQUEST_SIZE_MAX - 2),
                            n->item->type ? n->item->type : &cel_t_dyn, size);
        if (n->item->kind == NODE_NONE)
            n->kind = NODE_NONE;
        return;
    }
    n->kind = NODE_OBJECT;
    n->min_size = 2;
    if (resource)
        resource_props(c, n, &cap, name);
    for (size_t i = 0; props && i < props->n_members; i++) {
        struct bh_str key = props->members[i].key;
        const struct bh_jv *p = &props->members[i].v;
        struct schema_node *k;

        if (resource && (bh_str_eqc(key, "apiVersion") || bh_str_eqc(key, "kind") ||
                         bh_str_eqc(key, "metadata")))
            continue;
        k = build(c, p, false, depth + 1, bh_str_fmt(c->a, "%.*s.%.*s", BH_SF(name), BH_SF(key)));
        add_prop(c, n, &cap, key, k);
        if (required(schema, key) && !bh_jv_getc(p, "default"))
            n->min_size += key.n + k->min_size + 4;
    }
    object_type(c, n, name);
}

static void list_node(struct schema_compiler *c, struct schema_node *n, const struct bh_jv *schema,
                      unsigned depth, struct bh_str name)
{
    const struct bh_jv *items = bh_jv_getc(schema, "items");
    struct bh_str sort = bh_jv_get_str(schema, "x-kubernetes-list-type");

    n->min_size = 2;
    if (!items || items->kind != BH_JSON_OBJ)
        return;
    n->item = build(c, items, false, depth + 1, bh_str_fmt(c->a, "%.*s.@idx", BH_SF(name)));
    if (n->item->kind == NODE_NONE)
        return;
    n->kind = NODE_LIST;
    n->list = bh_str_eqc(sort, "set") ? LIST_SET : LIST_ATOMIC;
    n->keys = bh_jv_getc(schema, "x-kubernetes-list-map-keys");
    if (bh_str_eqc(sort, "map") && n->keys && n->keys->kind == BH_JSON_ARR)
        n->list = LIST_MAP;
    n->type = bh_cel_type_list(
        c->a, n->item->type,
        limit_of(schema, "maxItems", (REQUEST_SIZE_MAX - 2) / (n->item->min_size + 1)));
}

static struct schema_node *build(struct schema_compiler *c, const struct bh_jv *schema,
                                 bool resource, unsigned depth, struct bh_str name)
{
    struct schema_node *n = bh_new(c->a, struct schema_node);
    struct bh_str type = bh_jv_get_str(schema, "type"), format = bh_jv_get_str(schema, "format");
    uint64_t max;

    n->nullable = flag(schema, "nullable");
    if (depth > SCHEMA_DEPTH_MAX) {
        c->deep = true;
        return n;
    }
    if (flag(schema, "x-kubernetes-int-or-string") || bh_str_eqc(format, "int-or-string")) {
        n->kind = NODE_INT_OR_STRING;
        n->min_size = 1;
        max = limit_of(schema, "maxLength", UINT64_MAX);
        n->type = bh_cel_type_sized(c->a, &cel_t_dyn,
                                    max < REQUEST_SIZE_MAX ? max * 4 : REQUEST_SIZE_MAX - 2);
    } else if (bh_str_eqc(type, "boolean")) {
        n->kind = NODE_BOOL;
        n->min_size = 4;
        n->type = &cel_t_bool;
    } else if (bh_str_eqc(type, "integer")) {
        n->kind = NODE_INT;
        n->min_size = 1;
        n->type = &cel_t_int;
    } else if (bh_str_eqc(type, "number")) {
        n->kind = NODE_NUMBER;
        n->min_size = 1;
        n->type = &cel_t_double;
    } else if (bh_str_eqc(type, "string")) {
        string_node(c, n, schema);
    } else if (bh_str_eqc(type, "array")) {
        list_node(c, n, schema, depth, name);
    } else if (bh_str_eqc(type, "object") || resource) {
        object_node(c, n, schema, resource || flag(schema, "x-kubernetes-embedded-resource"), depth,
                    name);
    }
    return n;
}

/* ---- rules
 * -----------------------------------------------------------------------------------------------------------------
 */

static void fault(struct schema_compiler *c, const struct place *at, size_t i, const char *field,
                  struct bh_str value, struct bh_cel_schema_fault f)
{
    f.path = bh_str_fmt(c->a, "%.*s%sx-kubernetes-validations[%zu].%s", BH_SF(at->path),
                        at->path.n ? "." : "", i, field);
    f.value = value;
    if (c->fn)
        c->fn(c->arg, &f);
}

static struct bh_str exceeds(struct bh_arena *a, const char *what, uint64_t cost, uint64_t limit)
{
    double f = (double)cost / (double)limit;
    const char *by = f > 100   ? "more than 100x"
                     : f < 1.5 ? bh_str_fmt(a, "%fx", f).p
                               : bh_str_fmt(a, "%.1fx", f).p;

    return bh_str_fmt(a,
                      "%s exceeds budget by factor of %s (try simplifying the rule, or adding "
                      "maxItems, maxProperties, "
                      "and maxLength where arrays, maps, and strings are declared)",
                      what, by);
}

static uint64_t saturating_mul(uint64_t a, uint64_t b)
{
    uint64_t r;

    return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

/* One expression over self and oldSelf; NULL with a fault reported. */
static struct bh_cel_program *expression(struct schema_compiler *c, const struct schema_node *n,
                                         const struct place *at, size_t i, struct bh_str src,
                                         bool optional_old, bool message)
{
    const char *field = message ? "messageExpression" : "rule";
    struct bh_cel_env *e = bh_cel_env_new(0);
    struct bh_cel_program *p = NULL;
    struct bh_cel_issue issue;
    uint64_t cost, times;
    bool fits;

    (void)bh_cel_env_var(e, BH_S("self"), n->type);
    (void)bh_cel_env_var(e, BH_S("oldSelf"),
                         optional_old ? bh_cel_type_optional(bh_cel_env_arena(e), n->type)
                                      : n->type);
    /* Upstream's estimator takes any identifier for self. */
    e->type_sized = true;
    e->type_size = n->kind == NODE_OBJECT ? 0 : n->type->size_max;
    if (bh_cel_compile(e, src, c->a, &p, &issue, NULL) < 0) {
        fault(c, at, i, field, src,
              (struct bh_cel_schema_fault){
                  .detail = issue.program
                                ? bh_str_fmt(c->a, "program instantiation failed: %.*s",
                                             BH_SF(issue.text))
                                : bh_str_fmt(c->a, "compilation failed: %.*s", BH_SF(issue.full))});
        (void)bh_cel_env_free(e);
        return NULL;
    }
    (void)bh_cel_env_free(e);
    fits = bh_cel_program_type(p)->kind == (message ? TK_STRING : TK_BOOL);
    if (!fits) {
        fault(c, at, i, field, src,
              (struct bh_cel_schema_fault){.detail = message ? BH_S("must evaluate to a string")
                                                             : BH_S("must evaluate to a bool")});
        return bh_cel_program_free(p);
    }
    times = message ? 1 : at->bounded ? at->times : REQUEST_SIZE_MAX / (n->min_size + 1);
    cost = saturating_mul(bh_cel_program_cost_max(p), times);
    c->total = c->total > UINT64_MAX - cost ? UINT64_MAX : c->total + cost;
    if (cost > BH_CEL_RULE_COST_MAX)
        fault(c, at, i, field, src,
              (struct bh_cel_schema_fault){
                  .forbidden = true,
                  .detail = exceeds(
                      c->a, message ? "estimated messageExpression cost" : "estimated rule cost",
                      cost, BH_CEL_RULE_COST_MAX)});
    return p;
}

static enum bh_cel_rule_reason reason_of(struct bh_str s)
{
    return bh_str_eqc(s, "FieldValueForbidden")   ? BH_CEL_RULE_FORBIDDEN
           : bh_str_eqc(s, "FieldValueRequired")  ? BH_CEL_RULE_REQUIRED
           : bh_str_eqc(s, "FieldValueDuplicate") ? BH_CEL_RULE_DUPLICATE
                                                  : BH_CEL_RULE_INVALID;
}

static void check_texts(struct schema_compiler *c, const struct place *at, size_t i,
                        const struct bh_jv *rule, struct bh_str src)
{
    struct bh_str msg = bh_jv_get_str(rule, "message");
    struct bh_cel_schema_fault f = {0};

    if (msg.p && bh_str_chr(msg, '\n', 0) >= 0)
        f.detail = BH_S("message must not contain line breaks");
    else if (msg.p && bh_str_trim(msg).n == 0)
        f.detail = BH_S("message must be non-empty if specified");
    else if (msg.n > MESSAGE_MAX)
        f.detail = BH_S("message must have a maximum length of 2048 characters");
    if (f.detail.n) {
        fault(c, at, i, "message", msg, f);
    } else if (!msg.n && bh_str_chr(bh_str_trim(src), '\n', 0) >= 0 &&
               !bh_jv_get_str(rule, "messageExpression").n) {
        f.required = true;
        f.detail = BH_S("message must be specified if rule contains line breaks");
        fault(c, at, i, "message", msg, f);
    }
}

static void compile_rule(struct schema_compiler *c, struct schema_node *n, const struct place *at,
                         size_t i, const struct bh_jv *rule)
{
    struct bh_str src = bh_jv_get_str(rule, "rule"),
                  message = bh_jv_get_str(rule, "messageExpression");
    struct schema_rule r = {.rule = src, .optional_old = bh_jv_get_bool(rule, "optionalOldSelf")};

    if (bh_str_trim(src).n == 0) {
        fault(c, at, i, "rule", src,
              (struct bh_cel_schema_fault){.required = true,
                                           .detail = BH_S("rule is not specified")});
        return;
    }
    check_texts(c, at, i, rule, src);
    r.p = expression(c, n, at, i, src, r.optional_old, false);
    if (!r.p)
        return;
    r.uses_old = bh_cel_program_uses(r.p, 1);
    if (r.uses_old && !at->correlatable)
        fault(c, at, i, "rule", src,
              (struct bh_cel_schema_fault){
                  .detail = bh_str_fmt(c->a,
                                       "oldSelf cannot be used on the uncorrelatable portion of "
                                       "the schema within %.*s",
                                       BH_SF(at->path))});
    if (r.optional_old && !r.uses_old)
        fault(c, at, i, "optionalOldSelf", src,
              (struct bh_cel_schema_fault){
                  .detail = BH_S("may not be set if oldSelf is not used in rule")});
    if (message.p && bh_str_trim(message).n == 0)
        fault(c, at, i, "messageExpression", message,
              (struct bh_cel_schema_fault){
                  .required = true,
                  .detail = BH_S("messageExpression must be non-empty if specified")});
    else if (message.p)
        r.message_p = expression(c, n, at, i, message, r.optional_old, true);
    r.message = bh_str_trim(bh_jv_get_str(rule, "message"));
    r.reason = reason_of(bh_jv_get_str(rule, "reason"));
    r.field_path = bh_str_trim(bh_jv_get_str(rule, "fieldPath"));
    bh_arena_grow(c->a, &n->rules, &n->rules_cap, n->nrules + 1, sizeof(*n->rules));
    n->rules[n->nrules++] = r;
}

static void rules_of(struct schema_compiler *c, struct schema_node *n, const struct bh_jv *schema,
                     const struct place *at)
{
    const struct bh_jv *list = bh_jv_getc(schema, "x-kubernetes-validations"),
                       *all = bh_jv_getc(schema, "allOf");

    if (n->kind == NODE_NONE)
        return;
    for (size_t i = 0; list && i < list->n_items; i++)
        compile_rule(c, n, at, i, &list->items[i]);
    for (size_t k = 0; all && k < all->n_items; k++) {
        struct place branch = *at;

        list = bh_jv_getc(&all->items[k], "x-kubernetes-validations");
        branch.path =
            bh_str_fmt(c->a, "%.*s%sallOf[%zu]", BH_SF(at->path), at->path.n ? "." : "", k);
        for (size_t i = 0; list && i < list->n_items; i++)
            compile_rule(c, n, &branch, i, &list->items[i]);
    }
}

static void compile_node(struct schema_compiler *c, struct schema_node *n,
                         const struct bh_jv *schema, const struct place *at)
{
    struct place below = *at;
    const char *dot = at->path.n ? "." : "";

    rules_of(c, n, schema, at);
    n->rules_below = n->nrules > 0;
    below.depth++;
    if (below.depth > SCHEMA_DEPTH_MAX)
        return;
    if (n->item) {
        const char *limit = n->kind == NODE_MAP ? "maxProperties" : "maxItems";
        uint64_t max = limit_of(schema, limit, UINT64_MAX);

        below.path = bh_str_fmt(c->a, "%.*s%s%s", BH_SF(at->path), dot,
                                n->kind == NODE_MAP ? "additionalProperties" : "items");
        below.bounded = at->bounded && max < UINT64_MAX;
        below.times = below.bounded ? saturating_mul(at->times, max) : 0;
        below.correlatable = at->correlatable && (n->kind == NODE_MAP || n->list == LIST_MAP);
        compile_node(c, n->item,
                     bh_jv_getc(schema, n->kind == NODE_MAP ? "additionalProperties" : "items"),
                     &below);
        n->rules_below |= n->item->rules_below;
    }
    for (size_t i = 0; i < n->nprops; i++) {
        const struct bh_jv *p = bh_jv_get(bh_jv_getc(schema, "properties"), n->props[i].name);

        if (!p)
            continue;
        below.path = bh_str_fmt(c->a, "%.*s%sproperties[%.*s]", BH_SF(at->path), dot,
                                BH_SF(n->props[i].name));
        compile_node(c, n->props[i].node, p, &below);
        n->rules_below |= n->props[i].node->rules_below;
    }
}

struct bh_cel_schema *bh_cel_schema_new(const struct bh_jv *schema, bool root,
                                        bh_cel_schema_fault_fn fn, void *arg)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_cel_schema *s = bh_new(a, struct bh_cel_schema);
    struct schema_compiler c = {.s = s, .a = a, .fn = fn, .arg = arg};
    struct place top = {.times = 1, .bounded = true, .correlatable = true};
    struct bh_cel_schema_fault f = {.forbidden = true};

    s->a = a;
    s->root = build(&c, schema, root, 0, BH_S("self"));
    compile_node(&c, s->root, schema, &top);
    if (c.deep)
        return bh_cel_schema_free(s);
    if (c.total > BH_CEL_RULES_COST_MAX && fn) {
        f.detail = exceeds(
            a, "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema",
            c.total, BH_CEL_RULES_COST_MAX);
        fn(arg, &f);
    }
    return s;
}

/* Programs are the only thing outside the arena. */
static void free_programs(struct schema_node *n, unsigned depth)
{
    if (depth > SCHEMA_DEPTH_MAX + 1)
        return;
    for (size_t i = 0; i < n->nrules; i++) {
        n->rules[i].p = bh_cel_program_free(n->rules[i].p);
        n->rules[i].message_p = bh_cel_program_free(n->rules[i].message_p);
    }
    if (n->item)
        free_programs(n->item, depth + 1);
    for (size_t i = 0; i < n->nprops; i++)
        free_programs(n->props[i].node, depth + 1);
}

struct bh_cel_schema *bh_cel_schema_free(struct bh_cel_schema *s)
{
    if (s) {
        free_programs(s->root, 0);
        (void)bh_arena_free(s->a);
    }
    return NULL;
}

bool bh_cel_schema_has_rules(const struct bh_cel_schema *s)
{
    return s->root->rules_below;
}

const struct bh_cel_type *bh_cel_schema_type(const struct bh_cel_schema *s)
{
    return s->root->type ? s->root->type : &cel_t_dyn;
}

struct bh_cel_value bh_cel_schema_value(const struct bh_cel_schema *s, const struct bh_jv *v,
                                        struct bh_arena *a)
{
    return schema_view(a, s->root, v);
}
