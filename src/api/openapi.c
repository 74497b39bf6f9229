/* OpenAPI v3 and v2 (swagger) documents from the descriptors.
 *
 * Both versions say the same in slightly different words: what is a "schema" beside a parameter or
 * a content type in v3 stands bare in v2, and a reference with anything beside it is wrapped in
 * allOf in v3. Schemas are written in the order in which they are first referred to.
 */
#include "api/openapi.h"

#include "api/doc_flags.h"
#include "base/arena.h"
#include "base/map.h"
#include "data/json.h"

#include <string.h>

#define META "io.k8s.apimachinery.pkg.apis.meta.v1."

struct doc {
    struct bh_buf *out;
    bool v3;
    struct bh_map seen; /* definition names that are written or queued */
    const struct bh_type **queue;
    size_t n, cap;
    struct bh_arena *a;
    unsigned special; /* bits of enum special that are referred to */
    bool first;       /* of the object being written */
};

enum special { SP_QUANTITY, SP_TIME, SP_MICROTIME, SP_INTORSTR, SP_RAW, SP_FIELDS, SP__N };

static const struct {
    const char *name, *v3, *v2;
} specials[SP__N] = {
    [SP_QUANTITY] = {"io.k8s.apimachinery.pkg.api.resource.Quantity",
                     "\"oneOf\":[{\"type\":\"string\"},{\"type\":\"number\"}]",
                     "\"type\":\"string\""},
    [SP_TIME] = {META "Time", "\"type\":\"string\",\"format\":\"date-time\"",
                 "\"type\":\"string\",\"format\":\"date-time\""},
    [SP_MICROTIME] = {META "MicroTime", "\"type\":\"string\",\"format\":\"date-time\"",
                      "\"type\":\"string\",\"format\":\"date-time\""},
    [SP_INTORSTR] =
        {"io.k8s.apimachinery.pkg.util.intstr.IntOrString",
         "\"format\":\"int-or-string\",\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]",
         "\"type\":\"string\",\"format\":\"int-or-string\""},
    [SP_RAW] = {"io.k8s.apimachinery.pkg.runtime.RawExtension", "\"type\":\"object\"",
                "\"type\":\"object\""},
    [SP_FIELDS] = {META "FieldsV1", "\"type\":\"object\"", "\"type\":\"object\""},
};

static void put(struct doc *d, const char *s)
{
    bh_buf_addz(d->out, s);
}

static void key(struct doc *d, struct bh_str name)
{
    if (!d->first)
        bh_buf_addc(d->out, ',');
    d->first = false;
    bh_json_write_str(d->out, name);
    bh_buf_addc(d->out, ':');
}

static void str_member(struct doc *d, const char *name, struct bh_str v)
{
    put(d, ",\"");
    put(d, name);
    put(d, "\":");
    bh_json_write_str(d->out, v);
}

/* ---- references ---- */

static void enqueue(struct doc *d, const struct bh_type *t)
{
    if (bh_map_put(&d->seen, t->openapi, d))
        return;
    bh_arena_grow(d->a, &d->queue, &d->cap, d->n + 1, sizeof(d->queue[0]));
    d->queue[d->n++] = t;
}

static void ref_to(struct doc *d, const char *name, struct bh_str n)
{
    put(d, d->v3 ? "\"$ref\":\"#/components/schemas/" : "\"$ref\":\"#/definitions/");
    if (name)
        put(d, name);
    else
        bh_buf_adds(d->out, n);
    put(d, "\"");
}

static void ref_type(struct doc *d, const struct bh_type *t)
{
    enqueue(d, t);
    ref_to(d, NULL, t->openapi);
}

/* The special definition of a field, or -1. */
static int special_of(const struct bh_field *f)
{
    switch ((enum bh_ftype)f->type) {
    case BH_T_QUANTITY:
        return SP_QUANTITY;
    case BH_T_TIME:
        return SP_TIME;
    case BH_T_MICROTIME:
        return SP_MICROTIME;
    case BH_T_INTORSTR:
        return SP_INTORSTR;
    case BH_T_RAW:
        return bh_str_eqc(f->json, "fieldsV1") ? SP_FIELDS : SP_RAW;
    default:
        return -1;
    }
}

/* ---- fields ---- */

static void list_member(struct doc *d, const char *name, const struct bh_str *v, uint32_t n)
{
    put(d, ",\"");
    put(d, name);
    put(d, "\":[");
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            put(d, ",");
        bh_json_write_str(d->out, v[i]);
    }
    put(d, "]");
}

static void scalar(struct doc *d, const struct bh_field *f)
{
    switch ((enum bh_ftype)f->type) {
    case BH_T_BOOL:
        put(d, "\"type\":\"boolean\"");
        break;
    case BH_T_INT32:
        put(d, "\"type\":\"integer\",\"format\":\"int32\"");
        break;
    case BH_T_UINT32:
    case BH_T_INT64:
        put(d, "\"type\":\"integer\",\"format\":\"int64\"");
        break;
    case BH_T_DOUBLE:
        put(d, "\"type\":\"number\",\"format\":\"double\"");
        break;
    case BH_T_BYTES:
        put(d, "\"type\":\"string\",\"format\":\"byte\"");
        break;
    default:
        put(d, "\"type\":\"string\"");
        break;
    }
    if (f->n_enums)
        list_member(d, "enum", f->enums, f->n_enums);
}

/* The element of a list, the value of a map. */
static void element(struct doc *d, const struct bh_field *f)
{
    int sp = special_of(f);

    put(d, "{");
    if (f->type == BH_T_MESSAGE && (f->msg->flags & BH_M_BARE)) {
        const struct bh_field *b = &f->msg->fields[0];

        put(d, b->shape == BH_MAP ? "\"type\":\"object\",\"additionalProperties\":"
                                  : "\"type\":\"array\",\"items\":");
        element(d, b);
    } else if (f->type == BH_T_MESSAGE) {
        ref_type(d, f->msg);
    } else if (sp >= 0) {
        d->special |= 1u << sp;
        ref_to(d, specials[sp].name, BH_S(""));
    } else {
        scalar(d, f);
    }
    put(d, "}");
}

static void one(struct doc *d, const struct bh_field *f)
{
    int sp = special_of(f);

    if (f->type == BH_T_MESSAGE && (f->msg->flags & BH_M_BARE)) {
        const struct bh_field *b = &f->msg->fields[0];

        put(d, b->shape == BH_MAP ? "\"type\":\"object\",\"additionalProperties\":"
                                  : "\"type\":\"array\",\"items\":");
        element(d, b);
        return;
    }
    if (f->type != BH_T_MESSAGE && sp < 0) {
        scalar(d, f);
        return;
    }
    put(d, d->v3 ? "\"allOf\":[{" : "");
    if (sp >= 0) {
        d->special |= 1u << sp;
        ref_to(d, specials[sp].name, BH_S(""));
    } else {
        ref_type(d, f->msg);
    }
    put(d, d->v3 ? "}]" : "");
}

/* Upstream states the zero value as default of what is never absent. */
static void default_value(struct doc *d, const struct bh_field *f)
{
    if (f->def.p) {
        put(d, ",\"default\":");
        bh_buf_adds(d->out, f->def);
        return;
    }
    if (!d->v3 || f->shape != BH_ONE || !(f->flags & BH_F_ALWAYS) || (f->flags & BH_F_PTR))
        return;
    switch ((enum bh_ftype)f->type) {
    case BH_T_MESSAGE:
        if (!(f->msg->flags & BH_M_BARE))
            put(d, ",\"default\":{}");
        break;
    case BH_T_STRING:
        put(d, ",\"default\":\"\"");
        break;
    case BH_T_BOOL:
        put(d, ",\"default\":false");
        break;
    case BH_T_INT32:
    case BH_T_INT64:
    case BH_T_UINT32:
    case BH_T_DOUBLE:
        put(d, ",\"default\":0");
        break;
    default:
        break;
    }
}

static void extensions(struct doc *d, const struct bh_field *f)
{
    static const char *const lists[] = {
        [BH_LIST_ATOMIC] = "atomic", [BH_LIST_SET] = "set", [BH_LIST_MAP] = "map"};

    if (f->list_type)
        str_member(d, "x-kubernetes-list-type", bh_s(lists[f->list_type]));
    if (f->n_map_keys)
        list_member(d, "x-kubernetes-list-map-keys", f->map_keys, f->n_map_keys);
    if (f->flags & (BH_F_ATOMIC_MAP | BH_F_ATOMIC_STRUCT))
        str_member(d, "x-kubernetes-map-type", BH_S("atomic"));
    else if (f->flags & BH_F_GRANULAR)
        str_member(d, "x-kubernetes-map-type", BH_S("granular"));
    if (f->key.n)
        str_member(d, "x-kubernetes-patch-merge-key", f->key);
    if (f->flags & (BH_F_PATCH_MERGE | BH_F_PATCH_REPLACE | BH_F_PATCH_RETAIN_KEYS)) {
        put(d, ",\"x-kubernetes-patch-strategy\":\"");
        put(d, f->flags & BH_F_PATCH_MERGE     ? "merge"
               : f->flags & BH_F_PATCH_REPLACE ? "replace"
                                               : "");
        if (f->flags & BH_F_PATCH_RETAIN_KEYS)
            put(d, f->flags & BH_F_PATCH_MERGE ? ",retainKeys" : "retainKeys");
        put(d, "\"");
    }
}

static void property(struct doc *d, const struct bh_field *f)
{
    key(d, f->json);
    put(d, "{");
    if (f->shape == BH_LIST) {
        put(d, "\"type\":\"array\",\"items\":");
        element(d, f);
    } else if (f->shape == BH_MAP) {
        put(d, "\"type\":\"object\",\"additionalProperties\":");
        element(d, f);
    } else {
        one(d, f);
    }
    default_value(d, f);
    if (f->doc.n)
        str_member(d, "description", f->doc);
    extensions(d, f);
    put(d, "}");
}

/* ---- definitions ---- */

/* The kinds of a message: its own, or those of meta types. */
static const struct bh_kind *kind_of(const struct bh_type *t, bool *is_list)
{
    size_t n;
    const struct bh_kind *const *kinds = bh_kinds(&n);

    for (size_t i = 0; i < n; i++) {
        *is_list = kinds[i]->list_type == t;
        if (*is_list || (kinds[i]->type == t && bh_str_eq(kinds[i]->kind, t->name)))
            return kinds[i];
    }
    return NULL;
}

static void gvk(struct doc *d, const struct bh_kind *k, bool is_list)
{
    put(d, "{\"group\":");
    bh_json_write_str(d->out, k->group);
    str_member(d, "kind", is_list ? k->list_kind : k->kind);
    str_member(d, "version", k->version);
    put(d, "}");
}

static bool is_required(const struct bh_field *f)
{
    if (f->flags & (BH_F_DOC_REQUIRED | BH_F_DOC_OPTIONAL))
        return (f->flags & BH_F_DOC_REQUIRED) != 0;
    if (f->flags & BH_F_REQUIRED)
        return true;
    if (!(f->flags & BH_F_ALWAYS) || (f->flags & BH_F_PTR) || f->def.p)
        return false;
    if (f->shape != BH_ONE)
        return true;
    return f->type != BH_T_MESSAGE && special_of(f) < 0;
}

static void definition(struct doc *d, const struct bh_type *t)
{
    bool is_list = false, first = true;
    const struct bh_kind *k = kind_of(t, &is_list);

    key(d, t->openapi);
    put(d, "{\"type\":\"object\"");
    if (t->doc.n)
        str_member(d, "description", t->doc);
    if (t->n_refs || k)
        put(d, ",\"properties\":{");
    d->first = true;
    /* a watch event is a frame around an object, the one meta kind without a kind of its own */
    if (k && !bh_type_find(t, BH_S("kind")) && !bh_str_eqc(t->name, "WatchEvent")) {
        put(d, "\"apiVersion\":{\"type\":\"string\",\"description\":\"version of this form of the "
               "object\"},"
               "\"kind\":{\"type\":\"string\",\"description\":\"what the object is\"}");
        d->first = false;
    }
    for (uint32_t i = 0; i < t->n_refs; i++)
        property(d, t->refs[i].f);
    if (t->n_refs || k)
        put(d, "}");
    for (uint32_t i = 0; i < t->n_refs; i++) {
        if (!is_required(t->refs[i].f))
            continue;
        put(d, first ? ",\"required\":[" : ",");
        first = false;
        bh_json_write_str(d->out, t->refs[i].f->json);
    }
    if (!first)
        put(d, "]");
    if (k) {
        put(d, ",\"x-kubernetes-group-version-kind\":[");
        gvk(d, k, is_list);
        put(d, "]");
    }
    if (t->flags & BH_M_ATOMIC)
        put(d, ",\"x-kubernetes-map-type\":\"atomic\"");
    put(d, "}");
    d->first = false;
}

/* Everything that was referred to, and what that refers to. */
static void definitions(struct doc *d)
{
    d->first = true;
    put(d, "{");
    for (size_t i = 0; i < d->n; i++)
        definition(d, d->queue[i]);
    for (int i = 0; i < SP__N; i++) {
        if (!(d->special >> i & 1))
            continue;
        key(d, bh_s(specials[i].name));
        put(d, "{");
        put(d, d->v3 ? specials[i].v3 : specials[i].v2);
        put(d, "}");
    }
    put(d, "}");
}

/* ---- paths ---- */

struct param {
    const char *name, *type;
};

static const struct param list_params[] = {{"allowWatchBookmarks", "boolean"},
                                           {"continue", "string"},
                                           {"fieldSelector", "string"},
                                           {"labelSelector", "string"},
                                           {"limit", "integer"},
                                           {"resourceVersion", "string"},
                                           {"resourceVersionMatch", "string"},
                                           {"sendInitialEvents", "boolean"},
                                           {"timeoutSeconds", "integer"},
                                           {"watch", "boolean"}};
static const struct param write_params[] = {
    {"dryRun", "string"}, {"fieldManager", "string"}, {"fieldValidation", "string"}};
static const struct param patch_params[] = {{"dryRun", "string"},
                                            {"fieldManager", "string"},
                                            {"fieldValidation", "string"},
                                            {"force", "boolean"}};
static const struct param delete_params[] = {{"dryRun", "string"},
                                             {"gracePeriodSeconds", "integer"},
                                             {"orphanDependents", "boolean"},
                                             {"propagationPolicy", "string"}};
static const struct param collection_params[] = {
    {"continue", "string"},          {"dryRun", "string"},
    {"fieldSelector", "string"},     {"gracePeriodSeconds", "integer"},
    {"labelSelector", "string"},     {"limit", "integer"},
    {"orphanDependents", "boolean"}, {"propagationPolicy", "string"},
    {"resourceVersion", "string"},   {"timeoutSeconds", "integer"}};

struct op {
    const char *method, *action;
    const char *id_verb; /* "list" in listCoreV1NamespacedPod */
    const struct param *params;
    size_t n_params;
    const struct bh_type *body, *answer;
    bool watches; /* stream types too */
    bool created; /* 201 beside 200 */
    bool patches; /* the four patch content types */
};

/* A path of a resource: what all its operations share. */
struct place {
    const struct bh_kind *k;
    const struct bh_kind *body; /* of a subresource, else k */
    const char *suffix;         /* of operation ids: "Status" */
    bool namespaced, all_namespaces, named, collection;
};

static void param(struct doc *d, const char *name, const char *type, bool in_path)
{
    put(d, "{\"in\":");
    put(d, in_path ? "\"path\",\"required\":true" : "\"query\"");
    str_member(d, "name", bh_s(name));
    put(d, d->v3 ? ",\"schema\":{\"type\":\"" : ",\"type\":\"");
    put(d, type);
    put(d, "\",\"uniqueItems\":true");
    put(d, d->v3 ? "}}" : "}");
}

/* "resource.k8s.io" to "Resource", "rbac.authorization.k8s.io" to "RbacAuthorization"; then the
 * version. */
static void camel_gv(struct doc *d, const struct bh_kind *k, bool tag)
{
    struct bh_str g = k->group.n ? k->group : BH_S("core");
    bool up = !tag;

    if (bh_str_ends(g, BH_S(".k8s.io")))
        g = bh_str_sub(g, 0, g.n - 7);
    for (size_t i = 0; i < g.n; i++) {
        char c = g.p[i];

        if (c == '.') {
            up = true;
            continue;
        }
        bh_buf_addc(d->out, up && c >= 'a' && c <= 'z' ? (char)(c - 32) : c);
        up = false;
    }
    if (tag)
        put(d, "_");
    for (size_t i = 0; i < k->version.n; i++)
        bh_buf_addc(d->out, i == 0 && !tag ? 'V' : k->version.p[i]);
}

static void content(struct doc *d, const struct bh_type *t, bool watches)
{
    static const char *const types[] = {"application/json", "application/vnd.kubernetes.protobuf",
                                        "application/yaml", "application/json;stream=watch",
                                        "application/vnd.kubernetes.protobuf;stream=watch"};

    put(d, "{\"description\":\"OK\"");
    if (t && !d->v3) {
        put(d, ",\"schema\":{");
        ref_type(d, t);
        put(d, "}");
    } else if (t) {
        put(d, ",\"content\":{");
        for (size_t i = 0; i < (watches ? 5u : 3u); i++) {
            put(d, i ? ",\"" : "\"");
            put(d, types[i]);
            put(d, "\":{\"schema\":{");
            ref_type(d, t);
            put(d, "}}");
        }
        put(d, "}");
    }
    put(d, "}");
}

static const char *const patch_types[] = {
    "application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json",
    "application/strategic-merge-patch+json"};

static void body_v3(struct doc *d, const struct op *o)
{
    if (!o->body)
        return;
    put(d, ",\"requestBody\":{\"content\":{");
    for (size_t i = 0; i < (o->patches ? BH_COUNT(patch_types) : 1); i++) {
        put(d, i ? ",\"" : "\"");
        put(d, o->patches ? patch_types[i] : "*/*");
        put(d, "\":{\"schema\":{");
        ref_type(d, o->body);
        put(d, "}}");
    }
    put(d, "},\"required\":true}");
}

static void parameters(struct doc *d, const struct op *o)
{
    bool first = true;

    put(d, ",\"parameters\":[");
    for (size_t i = 0; i < o->n_params; i++) {
        if (!first)
            put(d, ",");
        first = false;
        param(d, o->params[i].name, o->params[i].type, false);
    }
    if (!d->v3 && o->body) {
        put(d, first ? "" : ",");
        put(d, "{\"in\":\"body\",\"name\":\"body\",\"required\":true,\"schema\":{");
        ref_type(d, o->body);
        put(d, "}}");
    }
    put(d, "]");
}

static void operation(struct doc *d, const struct place *p, const struct op *o)
{
    key(d, bh_s(o->method));
    put(d, "{\"operationId\":\"");
    put(d, o->id_verb);
    camel_gv(d, p->k, false);
    if (p->collection && strcmp(o->method, "delete") == 0)
        put(d, "Collection");
    if (p->namespaced)
        put(d, "Namespaced");
    bh_buf_adds(d->out, p->k->kind);
    if (p->all_namespaces)
        put(d, "ForAllNamespaces");
    put(d, p->suffix);
    put(d, "\",\"tags\":[\"");
    camel_gv(d, p->k, true);
    put(d, "\"]");
    if (!d->v3) {
        put(d, ",\"consumes\":[");
        for (size_t i = 0; i < (o->patches ? BH_COUNT(patch_types) : 1); i++) {
            put(d, i ? ",\"" : "\"");
            put(d, o->patches ? patch_types[i] : "*/*");
            put(d, "\"");
        }
        put(d, "],\"produces\":[\"application/json\",\"application/yaml\",\"application/"
               "vnd.kubernetes.protobuf\"]");
    }
    parameters(d, o);
    if (d->v3)
        body_v3(d, o);
    put(d, ",\"responses\":{\"200\":");
    content(d, o->answer, o->watches);
    if (o->created) {
        put(d, ",\"201\":");
        content(d, o->answer, false);
    }
    put(d, ",\"401\":{\"description\":\"Unauthorized\"}}");
    str_member(d, "x-kubernetes-action", bh_s(o->action));
    put(d, ",\"x-kubernetes-group-version-kind\":");
    gvk(d, p->body, false);
    put(d, "}");
}

static const struct bh_type *meta_type(const char *kind)
{
    const struct bh_kind *k = bh_kind_by_api_version(BH_S("v1"), bh_s(kind));

    return k ? k->type : NULL;
}

/* patch takes any object: upstream's definition Patch is empty */
static const struct bh_type *patch_type(void)
{
    static const struct bh_type t = {
        .name = BH_S_INIT("Patch"),
        .openapi = BH_S_INIT(META "Patch"),
        .doc = BH_S_INIT("a patch in the form that the content type says")};

    return &t;
}

static void path_start(struct doc *d, const struct place *p, const char *sub, bool *first)
{
    if (!*first)
        put(d, ",");
    *first = false;
    put(d, p->k->group.n ? "\"/apis/" : "\"/api/");
    bh_buf_adds(d->out, p->k->api_version);
    put(d, p->namespaced ? "/namespaces/{namespace}/" : "/");
    bh_buf_adds(d->out, p->k->resource);
    put(d, p->named ? "/{name}" : "");
    if (sub) {
        put(d, "/");
        put(d, sub);
    }
    put(d, "\":{");
    d->first = true;
}

static void path_end(struct doc *d, const struct place *p)
{
    key(d, BH_S("parameters"));
    put(d, "[");
    if (p->named) {
        param(d, "name", "string", true);
        put(d, ",");
    }
    if (p->namespaced) {
        param(d, "namespace", "string", true);
        put(d, ",");
    }
    param(d, "pretty", "string", false);
    put(d, "]}");
}

#define OP(method_, action_, id_, params_)                                                         \
    .method = (method_), .action = (action_), .id_verb = (id_), .params = (params_),               \
    .n_params = BH_COUNT(params_)

static void collection(struct doc *d, const struct bh_kind *k, bool all, bool *first)
{
    struct place p = {.k = k,
                      .body = k,
                      .suffix = "",
                      .namespaced = k->namespaced && !all,
                      .all_namespaces = all,
                      .collection = true};

    path_start(d, &p, NULL, first);
    if (k->verbs & BH_V_LIST)
        operation(d, &p,
                  &(struct op){OP("get", "list", "list", list_params), .answer = k->list_type,
                               .watches = true});
    if (!all && (k->verbs & BH_V_CREATE))
        operation(d, &p,
                  &(struct op){OP("post", "post", "create", write_params), .body = k->type,
                               .answer = k->type, .created = true});
    if (!all && (k->verbs & BH_V_DELETECOLLECTION))
        operation(d, &p,
                  &(struct op){OP("delete", "deletecollection", "delete", collection_params),
                               .body = meta_type("DeleteOptions"), .answer = meta_type("Status")});
    path_end(d, &p);
}

static void item(struct doc *d, const struct bh_kind *k, bool *first)
{
    struct place p = {.k = k, .body = k, .suffix = "", .namespaced = k->namespaced, .named = true};
    static const struct param none[] = {{"pretty", "string"}};

    if (!(k->verbs & (BH_V_GET | BH_V_UPDATE | BH_V_PATCH | BH_V_DELETE)))
        return;
    path_start(d, &p, NULL, first);
    if (k->verbs & BH_V_GET) {
        struct op o = {OP("get", "get", "read", none), .answer = k->type};

        o.n_params = 0;
        operation(d, &p, &o);
    }
    if (k->verbs & BH_V_UPDATE)
        operation(d, &p,
                  &(struct op){OP("put", "put", "replace", write_params), .body = k->type,
                               .answer = k->type, .created = true});
    if (k->verbs & BH_V_PATCH)
        operation(d, &p,
                  &(struct op){OP("patch", "patch", "patch", patch_params), .body = patch_type(),
                               .answer = k->type, .created = true, .patches = true});
    if (k->verbs & BH_V_DELETE)
        operation(d, &p,
                  &(struct op){OP("delete", "delete", "delete", delete_params),
                               .body = meta_type("DeleteOptions"), .answer = meta_type("Status")});
    path_end(d, &p);
}

static void subresource(struct doc *d, const struct bh_kind *k, const struct bh_subresource *s,
                        bool *first)
{
    char name[64], suffix[64];
    const struct bh_kind *body = s->body ? s->body : k;
    struct place p = {
        .k = k, .body = body, .suffix = suffix, .namespaced = k->namespaced, .named = true};
    bool connect = bh_str_eqc(s->name, "exec") || bh_str_eqc(s->name, "attach") ||
                   bh_str_eqc(s->name, "proxy") || bh_str_eqc(s->name, "portforward");
    const struct bh_type *t = connect || bh_str_eqc(s->name, "log") ? NULL : body->type;

    if (s->name.n >= sizeof(name))
        return;
    memcpy(name, s->name.p, s->name.n);
    name[s->name.n] = 0;
    memcpy(suffix, name, s->name.n + 1);
    suffix[0] = (char)(suffix[0] - 32);
    path_start(d, &p, name, first);
    if (s->verbs & BH_V_GET) {
        struct op o = {
            OP("get", connect ? "connect" : "get", connect ? "connectGet" : "read", write_params),
            .answer = t};

        o.n_params = 0;
        operation(d, &p, &o);
    }
    if (s->verbs & BH_V_CREATE)
        operation(d, &p,
                  &(struct op){OP("post", connect ? "connect" : "post",
                                  connect ? "connectPost" : "create", write_params),
                               .body = t, .answer = t, .created = !connect});
    if (!connect && (s->verbs & BH_V_UPDATE))
        operation(d, &p,
                  &(struct op){OP("put", "put", "replace", write_params), .body = t, .answer = t,
                               .created = true});
    if (!connect && (s->verbs & BH_V_PATCH))
        operation(d, &p,
                  &(struct op){OP("patch", "patch", "patch", patch_params), .body = patch_type(),
                               .answer = t, .created = true, .patches = true});
    path_end(d, &p);
}

static void kind_paths(struct doc *d, const struct bh_kind *k, bool *first)
{
    if (k->verbs & (BH_V_LIST | BH_V_CREATE))
        collection(d, k, false, first);
    if (k->namespaced && (k->verbs & BH_V_LIST))
        collection(d, k, true, first);
    item(d, k, first);
    for (uint32_t i = 0; i < k->n_subs; i++)
        if (!k->subs[i].unserved)
            subresource(d, k, &k->subs[i], first);
}

static void doc_done(struct doc *d)
{
    bh_map_done(&d->seen);
    (void)bh_arena_free(d->a);
}

bool bh_openapi_v3(struct bh_str group, struct bh_str version, struct bh_buf *out)
{
    struct doc d = {.out = out, .v3 = true, .a = bh_arena_new(0)};
    const struct bh_type *events = meta_type("WatchEvent");
    bool first = true;
    size_t n;
    const struct bh_kind *const *kinds = bh_kinds(&n);

    put(&d, "{\"openapi\":\"3.0.0\",\"info\":{\"title\":\"Kubernetes\",\"version\":\"1.36\"},"
            "\"paths\":{");
    for (size_t i = 0; i < n; i++) {
        const struct bh_kind *k = kinds[i];

        if (k->resource.n && !k->unserved && bh_str_eq(k->group, group) &&
            bh_str_eq(k->version, version))
            kind_paths(&d, k, &first);
    }
    if (!first && events)
        enqueue(&d, events);
    put(&d, "},\"components\":{\"schemas\":");
    definitions(&d);
    put(&d, ",\"securitySchemes\":{\"BearerToken\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":"
            "\"authorization\","
            "\"description\":\"Bearer Token authentication\"}}}}");
    doc_done(&d);
    return !first;
}

void bh_openapi_v2(struct bh_str version, struct bh_buf *out)
{
    struct doc d = {.out = out, .a = bh_arena_new(0)};
    bool first = true;
    size_t n;
    const struct bh_kind *const *kinds = bh_kinds(&n);

    put(&d, "{\"swagger\":\"2.0\",\"info\":{\"title\":\"Kubernetes\",\"version\":");
    bh_json_write_str(out, version);
    put(&d, "},\"paths\":{");
    for (size_t i = 0; i < n; i++)
        if (kinds[i]->resource.n && !kinds[i]->unserved)
            kind_paths(&d, kinds[i], &first);
    put(&d, "},\"definitions\":");
    definitions(&d);
    put(&d,
        ",\"securityDefinitions\":{\"BearerToken\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":"
        "\"authorization\","
        "\"description\":\"Bearer Token authentication\"}},\"security\":[{\"BearerToken\":[]}]}");
    doc_done(&d);
}
