/* Rules of custom resources: x-kubernetes-validations of a structural schema (cel.md sections 23 to
 * 25).
 *
 * A schema is compiled once, with every rule in it, and then shared. Validating walks an object
 * along the schema and reports what the rules say. The schema's own validity (types, limits) is not
 * judged here.
 */
#ifndef BH_CEL_SCHEMA_ENV_H
#define BH_CEL_SCHEMA_ENV_H

#include "base/err.h"
#include "base/str.h"
#include "cel/cel.h"

struct bh_arena;
struct bh_cel_schema;
struct bh_jv;

#define BH_CEL_RULE_COST_MAX  10000000u  /* estimated, of one rule times how often it may run */
#define BH_CEL_RULES_COST_MAX 100000000u /* estimated, of all rules of a schema */
#define BH_CEL_OBJECT_BUDGET  10000000u  /* at run time, of one write */

/* A fault of a rule as it is written. */
struct bh_cel_schema_fault {
    struct bh_str path;  /* below the schema: "properties[spec].x-kubernetes-validations[0].rule" */
    struct bh_str value; /* the rule's text, or the field at fault */
    struct bh_str detail; /* "compilation failed: ERROR: ..." */
    bool forbidden;       /* too expensive; else invalid */
    bool required;        /* something is missing */
};
typedef void (*bh_cel_schema_fault_fn)(void *arg, const struct bh_cel_schema_fault *f);

/* Compiles the rules in an OpenAPI v3 schema. root: the schema of a whole object (apiVersion, kind
 * and metadata are declared). Each fault is reported; the result holds the rules without fault.
 * NULL when the schema nests too deeply. Free with bh_cel_schema_free(). The JSON must outlive the
 * result. */
struct bh_cel_schema *bh_cel_schema_new(const struct bh_jv *schema, bool root,
                                        bh_cel_schema_fault_fn fn, void *arg);
struct bh_cel_schema *bh_cel_schema_free(struct bh_cel_schema *s); /* accepts NULL, returns NULL */
bool bh_cel_schema_has_rules(const struct bh_cel_schema *s);

enum bh_cel_rule_reason {
    BH_CEL_RULE_INVALID,
    BH_CEL_RULE_FORBIDDEN,
    BH_CEL_RULE_REQUIRED,
    BH_CEL_RULE_DUPLICATE
};

struct bh_cel_rule_error {
    struct bh_str path; /* "spec.replicas", "spec.f[a]", "spec.list[0]"; empty: the object */
    enum bh_cel_rule_reason reason;
    struct bh_str detail;
    const struct bh_jv *value; /* at the path */
    bool ratcheted;            /* the value did not change: a warning only */
};
typedef void (*bh_cel_rule_error_fn)(void *arg, const struct bh_cel_rule_error *e);

/* Runs the rules over obj; old (may be NULL) is the stored object. *budget is the cost that may
 * still be spent, and is lowered. Messages and paths are made in the arena. Thread: any; s is only
 * read. */
void bh_cel_schema_validate(const struct bh_cel_schema *s, const struct bh_jv *obj,
                            const struct bh_jv *old, struct bh_arena *a, uint64_t *budget,
                            bh_cel_rule_error_fn fn, void *arg);

/* The type of a schema, and a value seen through it; for other users of schema types. */
const struct bh_cel_type *bh_cel_schema_type(const struct bh_cel_schema *s);
struct bh_cel_value bh_cel_schema_value(const struct bh_cel_schema *s, const struct bh_jv *v,
                                        struct bh_arena *a);

/* A property name as expressions write it ("a-b" is a__dash__b); {NULL, 0} when it has no such
 * form. */
struct bh_str bh_cel_escape(struct bh_arena *a, struct bh_str name);

#endif
