/* Descriptors: what the schema says about each message, field and kind, as constant tables.
 *
 * tools/apigen.py makes one bh_type per message and one bh_kind per kind from api/(star).api, with
 * the structs they describe; a custom resource brings tables of the same form that are built at run
 * time. One engine (api/engine.h and its neighbours) walks them. Everything here is immutable once
 * it is reachable. Thread: any.
 */
#ifndef BH_API_TYPES_H
#define BH_API_TYPES_H

#include "base/str.h"
#include "data/time_fmt.h" /* struct bh_time */

/* ---- values that appear in generated structs ---- */

struct bh_intstr {
    bool is_str;
    int32_t i;
    struct bh_str s;
};

/* Lists of scalars: p == NULL is absent, p != NULL with n == 0 is present and empty. */
struct bh_i64_vec {
    int64_t *p;
    size_t n;
};
struct bh_i32_vec {
    int32_t *p;
    size_t n;
};
struct bh_u32_vec {
    uint32_t *p;
    size_t n;
};
struct bh_bool_vec {
    bool *p;
    size_t n;
};
struct bh_double_vec {
    double *p;
    size_t n;
};
struct bh_time_vec {
    struct bh_time *p;
    size_t n;
};
struct bh_intstr_vec {
    struct bh_intstr *p;
    size_t n;
};

/* Scalar maps other than map[string]string, sorted by key. */
struct bh_i64_entry {
    struct bh_str key;
    int64_t value;
};
struct bh_i64_map {
    struct bh_i64_entry *p;
    size_t n;
};
struct bh_i32_entry {
    struct bh_str key;
    int32_t value;
};
struct bh_i32_map {
    struct bh_i32_entry *p;
    size_t n;
};
struct bh_bool_entry {
    struct bh_str key;
    bool value;
};
struct bh_bool_map {
    struct bh_bool_entry *p;
    size_t n;
};

struct bh_time_entry {
    struct bh_str key;
    struct bh_time value;
};
struct bh_time_map {
    struct bh_time_entry *p;
    size_t n;
};

/* The shape that every generated vector and map has: a pointer and a count. */
struct bh_vec {
    void *p;
    size_t n;
};

/* ---- descriptors ---- */

enum bh_ftype {
    BH_T_STRING,    /* struct bh_str */
    BH_T_BYTES,     /* struct bh_str, decoded; base64 in JSON */
    BH_T_RAW,       /* struct bh_str: one JSON value, compact */
    BH_T_QUANTITY,  /* struct bh_str, canonical text */
    BH_T_BOOL,      /* bool */
    BH_T_INT32,     /* int32_t */
    BH_T_INT64,     /* int64_t */
    BH_T_UINT32,    /* uint32_t */
    BH_T_DOUBLE,    /* double */
    BH_T_TIME,      /* struct bh_time, whole seconds on the wire */
    BH_T_MICROTIME, /* struct bh_time, six decimals on the wire */
    BH_T_INTORSTR,  /* struct bh_intstr */
    BH_T_MESSAGE, /* the struct of msg, or a pointer to it when the field is BH_F_PTR and not a list
                     or map */
};

enum bh_shape {
    BH_ONE,
    BH_LIST, /* {p, n} of elements */
    BH_MAP,  /* {p, n} of {struct bh_str key; value}, sorted by key */
};

enum bh_field_flag {
    BH_F_PTR =
        1 << 0, /* a pointer upstream: absent differs from zero (has_ flag; NULL for a message) */
    BH_F_ALWAYS = 1 << 1,    /* written even when empty; a nil list or pointer as null */
    BH_F_INLINE = 1 << 2,    /* the fields of this message stand in the parent's JSON object */
    BH_F_REQUIRED = 1 << 3,  /* Required error when empty */
    BH_F_IMMUTABLE = 1 << 4, /* may not change on update */
    BH_F_HAS_MIN = 1 << 5,
    BH_F_HAS_MAX = 1 << 6,
    BH_F_PATCH_MERGE =
        1 << 7, /* strategic merge patch: merge by merge_key, or as a set of scalars */
    BH_F_PATCH_REPLACE = 1 << 8,     /* patchStrategy=replace, stated */
    BH_F_PATCH_RETAIN_KEYS = 1 << 9, /* patchStrategy=retainKeys */
    BH_F_ATOMIC_MAP = 1 << 10,       /* map=atomic */
    BH_F_ATOMIC_STRUCT = 1 << 11,    /* struct=atomic */
    BH_F_GRANULAR = 1 << 12,         /* map=granular, struct=granular: undoes an atomic message */
    /* 13 and 14: doc_flags.h */
    BH_F_TYPED = 1 << 15, /* the objects say kind and apiVersion, as at the top */
};

enum bh_list_type { BH_LIST_UNSET, BH_LIST_ATOMIC, BH_LIST_SET, BH_LIST_MAP };

struct bh_type;

/* A named format: returns NULL when s fits, else the detail of the Invalid error. The text is
 * allocated in a or static. See api/formats.h. */
typedef const char *(*bh_format_fn)(struct bh_str s, struct bh_arena *a);

struct bh_field {
    struct bh_str
        json;          /* name in JSON; of an inline field the Go type name, for error texts only */
    uint32_t num;      /* protobuf number, 0: not in protobuf */
    uint32_t off;      /* of the value in the struct */
    uint32_t off_has;  /* of has_x; UINT32_MAX when there is none */
    uint8_t type;      /* enum bh_ftype */
    uint8_t shape;     /* enum bh_shape */
    uint8_t list_type; /* enum bh_list_type */
    uint16_t flags;    /* enum bh_field_flag */
    uint32_t elem_size;        /* LIST: of an element; MAP: of an entry; ONE: of the value */
    uint32_t value_off;        /* MAP: offset of the value in its entry */
    const struct bh_type *msg; /* of BH_T_MESSAGE */
    struct bh_str
        go_type; /* Go type in decoding errors: "string", "v1.RestartPolicy", "v1.Container" */
    struct bh_str key;             /* NAME in key=NAME: strategic merge key */
    const struct bh_str *map_keys; /* list=map keys=… */
    uint32_t n_map_keys;
    uint32_t max_len;   /* 0: none */
    uint32_t max_items; /* 0: none */
    const struct bh_str *enums;
    uint32_t n_enums;
    int64_t min, max;
    struct bh_str def;    /* default as JSON text; p == NULL: none */
    struct bh_str format; /* name of the format; n == 0: none */
    bh_format_fn format_fn;
    struct bh_str gate; /* feature gate; n == 0: none */
    struct bh_str doc;
};

enum bh_type_flag {
    BH_M_BARE = 1 << 0, /* its JSON is that of its only field (upstream: a named list or map) */
    BH_M_HAS_DEFAULTS = 1 << 1, /* some field below has a static default */
    BH_M_HAS_GATES = 1 << 2,    /* some field below has a feature gate */
    BH_M_HAS_INLINE = 1 << 3,
    BH_M_ATOMIC = 1 << 4,    /* struct=atomic on the message: wherever it is used */
    BH_M_HAS_RULES = 1 << 5, /* some field below has something to validate */
};

struct bh_type {
    struct bh_str name;    /* Go name: "Pod" */
    struct bh_str go_name; /* with package: "v1.Pod" */
    struct bh_str proto;   /* package: "k8s.io.api.core.v1" */
    struct bh_str openapi; /* definition name: "io.k8s.api.core.v1.Pod" */
    struct bh_str doc;
    uint32_t size; /* of the struct */
    uint32_t flags;
    const struct bh_field *fields; /* in declaration order, which is JSON order */
    uint32_t n_fields;
    const uint16_t *by_num; /* indexes of the fields with a number, ascending by number */
    uint32_t n_by_num;
    /* Field lookup by JSON name, inline messages included: hash h of the name (bh_name_hash) gives
     * the first slot h & hash_mask, linear probing; 0 is empty, else 1 + index. Inline fields
     * appear under their own names with the path through the inline messages: see bh_type_find().
     */
    const uint16_t *hash;
    uint32_t hash_mask;
    const struct bh_field_ref
        *refs; /* what the hash slots index: own fields first, then those of inline messages */
    uint32_t n_refs;
};

/* A field as seen from a message: its offset counts from the start of the message's struct even
 * when it belongs to an inline one. An inline message is always embedded, never a pointer. */
struct bh_field_ref {
    const struct bh_field *f;
    uint32_t base; /* to be added to f->off and f->off_has */
    uint16_t via;  /* 1 + index in fields of the inline field it came through, 0: own */
    uint32_t hash; /* bh_name_hash of the JSON name */
};

/* Hash of a JSON field name: the same in tools/apigen.py. Names are short and trusted to differ: it
 * only has to spread, collisions are compared. */
static inline uint32_t bh_name_hash(const char *p, size_t n)
{
    uint32_t h = (uint32_t)n * 0x9e3779b1u;

    if (n >= 4) {
        h ^= (uint32_t)(unsigned char)p[0] | (uint32_t)(unsigned char)p[1] << 8 |
             (uint32_t)(unsigned char)p[2] << 16 | (uint32_t)(unsigned char)p[3] << 24;
        h *= 0x85ebca6bu;
        h ^= (uint32_t)(unsigned char)p[n - 4] | (uint32_t)(unsigned char)p[n - 3] << 8 |
             (uint32_t)(unsigned char)p[n - 2] << 16 | (uint32_t)(unsigned char)p[n - 1] << 24;
        h = (h ^ (uint32_t)(unsigned char)p[n / 2] << 7) * 0xc2b2ae35u;
    } else {
        for (size_t i = 0; i < n; i++)
            h = (h ^ (unsigned char)p[i]) * 0x01000193u;
    }
    return h ^ (h >> 15);
}

/* The field called name in messages of type t, or NULL. */
const struct bh_field_ref *bh_type_find(const struct bh_type *t, struct bh_str name);
const struct bh_field *bh_type_field(const struct bh_type *t, struct bh_str name);

/* ---- kinds ---- */

enum bh_verb {
    BH_V_CREATE = 1 << 0,
    BH_V_DELETE = 1 << 1,
    BH_V_DELETECOLLECTION = 1 << 2,
    BH_V_GET = 1 << 3,
    BH_V_LIST = 1 << 4,
    BH_V_PATCH = 1 << 5,
    BH_V_UPDATE = 1 << 6,
    BH_V_WATCH = 1 << 7,
};

struct bh_kind;

struct bh_subresource {
    struct bh_str name; /* "status", "scale", "binding" … */
    const struct bh_kind
        *body; /* kind of its body when that is another one, else NULL (the kind itself) */
    struct bh_str body_gvk; /* as in the schema: "" or "Binding" or "autoscaling/v1/Scale" */
    uint32_t verbs;         /* of the subresource: get patch update, or create … */
    bool unserved;          /* in the schema, not offered by this server */
};

/* Writes a column's cell as a JSON value. obj is the decoded struct. */
struct bh_buf;
typedef void (*bh_column_fn)(const void *obj, struct bh_time now, struct bh_buf *out);

struct bh_column {
    struct bh_str name;
    struct bh_str type;   /* string, integer, number, boolean, date */
    struct bh_str format; /* "name" or "" */
    struct bh_str doc;
    int32_t priority;
    struct bh_str path; /* ".spec.nodeName" in bh_path_get() form; empty when func is named */
    struct bh_str func; /* name in the schema: the table printer registers a C function under it */
};

struct bh_kind {
    struct bh_str group;       /* "" for the core group */
    struct bh_str version;     /* "v1" */
    struct bh_str api_version; /* "v1", "apps/v1" */
    struct bh_str kind;        /* "Pod" */
    struct bh_str list_kind;   /* "PodList" */
    struct bh_str
        resource; /* "pods"; empty: a kind that is only ever a body (Status, DeleteOptions …) */
    struct bh_str singular;
    const struct bh_str *short_names;
    uint32_t n_short_names;
    const struct bh_str *categories;
    uint32_t n_categories;
    bool namespaced;
    bool unserved; /* in the schema, not offered by this server */
    const struct bh_subresource *subs;
    uint32_t n_subs;
    uint32_t verbs; /* enum bh_verb; 0: not stored */
    const struct bh_column *columns;
    uint32_t n_columns;
    const struct bh_str *selectable;   /* names, beside metadata.name and metadata.namespace */
    const struct bh_str *select_paths; /* where each stands in the object, for bh_path_text() */
    uint32_t n_selectable;
    const struct bh_str *indexed;
    uint32_t n_indexed;
    struct bh_str hub;          /* version in which it is stored */
    const struct bh_type *type; /* of the object, without kind and apiVersion */
    const struct bh_type
        *list_type;    /* {metadata ListMeta, items []type}; NULL when it has no list */
    uint32_t meta_off; /* of struct bh_meta_v1_object_meta in the object; UINT32_MAX: it has none */
    uint32_t list_items_off; /* of items in the list struct */
    uint32_t list_meta_off;  /* of metadata in the list struct */
    struct bh_str doc;
};

/* All kinds of the schema in the order of the files; *n gets their number. */
const struct bh_kind *const *bh_kinds(size_t *n);
/* group "" is the core group. NULL when there is none. */
const struct bh_kind *bh_kind_by_resource(struct bh_str group, struct bh_str version,
                                          struct bh_str resource);
const struct bh_kind *bh_kind_by_gvk(struct bh_str group, struct bh_str version,
                                     struct bh_str kind);
/* api_version "apps/v1" as it stands in an object. Finds also meta kinds (DeleteOptions, Status) in
 * any group. */
const struct bh_kind *bh_kind_by_api_version(struct bh_str api_version, struct bh_str kind);
/* The version in which objects of k are stored (k itself when it says no hub). */
const struct bh_kind *bh_kind_hub(const struct bh_kind *k);
/* Every feature gate that the schema names, sorted. */
const struct bh_str *bh_schema_gates(size_t *n);
const struct bh_subresource *bh_kind_sub(const struct bh_kind *k, struct bh_str name);

#endif
