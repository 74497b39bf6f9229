/* The compiled schema. Private to schema_*.c. */
#ifndef BH_CEL_SCHEMA_INT_H
#define BH_CEL_SCHEMA_INT_H

#include "cel/cel_int.h"

#include "cel/schema_env.h"
#include "data/json.h"

#define SCHEMA_DEPTH_MAX 128
#define REQUEST_SIZE_MAX (3u << 20) /* upstream assumes no larger request in estimates */

enum node_kind {
    NODE_NONE, /* not exposed */
    NODE_BOOL,
    NODE_INT,
    NODE_NUMBER,
    NODE_STRING,
    NODE_BYTES,
    NODE_DATE,
    NODE_DATETIME,
    NODE_DURATION,
    NODE_INT_OR_STRING,
    NODE_LIST,
    NODE_MAP,
    NODE_OBJECT
};

enum list_kind { LIST_ATOMIC, LIST_SET, LIST_MAP };

struct schema_prop {
    struct bh_str name, escaped; /* escaped.p == NULL: not accessible */
    struct schema_node *node;
};

struct schema_rule {
    struct bh_cel_program *p, *message_p;
    struct bh_str rule, message, field_path;
    enum bh_cel_rule_reason reason;
    bool uses_old, optional_old;
};

struct schema_node {
    uint8_t kind, list;
    bool nullable;
    struct schema_prop *props;
    size_t nprops;
    struct schema_node *item; /* of lists and maps */
    const struct bh_jv *keys; /* of LIST_MAP: names */
    const struct bh_cel_type *type;
    uint64_t min_size;         /* bytes, serialized */
    struct schema_rule *rules; /* the node's own, then those of its allOf branches */
    size_t nrules, rules_cap;
    bool rules_below;
};

struct bh_cel_schema {
    struct bh_arena *a;
    struct schema_node *root;
};

/* v seen through n. Errors are values. */
struct bh_cel_value schema_view(struct bh_arena *a, const struct schema_node *n,
                                const struct bh_jv *v);
/* The element of a keyed list with the same keys as e, or NULL. */
const struct bh_jv *schema_list_match(const struct schema_node *n, const struct bh_jv *list,
                                      const struct bh_jv *e);

#endif
