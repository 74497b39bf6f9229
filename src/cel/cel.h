/* Common Expression Language as Kubernetes 1.36 runs it: environment -> program -> value.
 *
 * An environment declares variables and types. Compiling parses, checks, folds and plans an
 * expression into an immutable program, which any number of threads may evaluate at the same time
 * and as often as they like. Evaluation takes all its memory from the caller's arena, is limited by
 * a cost budget, does no I/O and reads no clock.
 *
 * Values are small and passed by value. What a value points to lives in the arena of the
 * evaluation, in the program (constants) or in what the caller bound to the variables: a result is
 * valid while all three are.
 */
#ifndef BH_CEL_CEL_H
#define BH_CEL_CEL_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;
struct bh_buf;
struct bh_cel_env;
struct bh_cel_list;
struct bh_cel_map;
struct bh_cel_program;
struct bh_cel_run;
struct bh_cel_time;
struct bh_cel_type;
struct bh_jv;

/* Upstream's budget of one evaluation. */
#define BH_CEL_COST_PER_CALL 1000000u

enum bh_cel_kind {
    BH_CEL_NULL,
    BH_CEL_BOOL,
    BH_CEL_INT,
    BH_CEL_UINT,
    BH_CEL_DOUBLE,
    BH_CEL_STRING,
    BH_CEL_BYTES,
    BH_CEL_LIST,
    BH_CEL_MAP,
    BH_CEL_TIMESTAMP,
    BH_CEL_DURATION, /* nanoseconds in i */
    BH_CEL_TYPE,
    BH_CEL_OPTIONAL,
    BH_CEL_IP,
    BH_CEL_CIDR,
    BH_CEL_URL,
    BH_CEL_QUANTITY,
    BH_CEL_SEMVER,
    BH_CEL_FORMAT,
    BH_CEL_AUTHORIZER,
    BH_CEL_PATH_CHECK,
    BH_CEL_GROUP_CHECK,
    BH_CEL_RESOURCE_CHECK,
    BH_CEL_DECISION,
    BH_CEL_OBJECT, /* what a constructor built (mutation types); a map with a type name */
    BH_CEL_ERROR
};

struct bh_cel_value {
    uint32_t kind; /* enum bh_cel_kind */
    uint32_t n;    /* strings and bytes: their length */
    union {
        bool b;
        int64_t i;
        uint64_t u;
        double d;
        const char *s; /* strings (UTF-8) and bytes */
        const struct bh_cel_list *list;
        const struct bh_cel_map *map; /* also OBJECT */
        const struct bh_cel_time *time;
        const struct bh_cel_type *type;
        const struct bh_cel_value *opt; /* NULL: optional.none() */
        const void *p;                  /* the other kinds */
    };
};

/* A list: an array (v), or a view whose elements are made on demand (ops). */
struct bh_cel_list {
    size_t n;
    const struct bh_cel_value *v;
    const struct bh_cel_list_ops *ops; /* used when v is NULL */
    const void *data;
};

struct bh_cel_list_ops {
    struct bh_cel_value (*at)(struct bh_cel_run *run, const struct bh_cel_list *l, size_t i);
    /* How lists of this sort compare and add (x-kubernetes-list-type); NULL: in order, by
     * concatenation. */
    bool (*equal)(struct bh_cel_run *run, const struct bh_cel_list *a, const struct bh_cel_list *b);
    struct bh_cel_value (*add)(struct bh_cel_run *run, const struct bh_cel_list *a,
                               const struct bh_cel_list *b);
};

/* A map: pairs kept here, or a view. */
struct bh_cel_map {
    size_t n;
    const struct bh_cel_value *k, *v;
    const struct bh_cel_map_ops *ops; /* used when it is not NULL */
    const void *data;
    struct bh_str type_name; /* of an OBJECT */
    const uint32_t *hash;    /* private: index of larger maps */
    size_t hash_n;
};

struct bh_cel_map_ops {
    /* False when the key is not there. *ret may become a BH_CEL_ERROR. */
    bool (*get)(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key,
                struct bh_cel_value *ret);
    void (*at)(struct bh_cel_run *run, const struct bh_cel_map *m, size_t i,
               struct bh_cel_value *ret_k, struct bh_cel_value *ret_v);
    /* For `k in m` and has(), when that differs from get(); may be NULL. */
    bool (*has)(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key);
    /* How maps of this sort compare; NULL: pair by pair. */
    bool (*equal)(struct bh_cel_run *run, const struct bh_cel_map *a, const struct bh_cel_map *b);
};

struct bh_cel_time {
    int64_t sec; /* Unix */
    int32_t nsec;
    int32_t offset_sec; /* of the zone it is printed in */
};

/* ---- values
 * ----------------------------------------------------------------------------------------------------
 */

static inline struct bh_cel_value bh_cel_null(void)
{
    return (struct bh_cel_value){.kind = BH_CEL_NULL};
}
static inline struct bh_cel_value bh_cel_bool(bool b)
{
    return (struct bh_cel_value){.kind = BH_CEL_BOOL, .i = b};
}
static inline struct bh_cel_value bh_cel_int(int64_t i)
{
    return (struct bh_cel_value){.kind = BH_CEL_INT, .i = i};
}
static inline struct bh_cel_value bh_cel_uint(uint64_t u)
{
    return (struct bh_cel_value){.kind = BH_CEL_UINT, .u = u};
}
static inline struct bh_cel_value bh_cel_double(double d)
{
    return (struct bh_cel_value){.kind = BH_CEL_DOUBLE, .d = d};
}
static inline struct bh_cel_value bh_cel_str(struct bh_str s) /* the bytes are not copied */
{
    return (struct bh_cel_value){.kind = BH_CEL_STRING, .n = (uint32_t)s.n, .s = s.p ? s.p : ""};
}
static inline struct bh_str bh_cel_as_str(struct bh_cel_value v)
{
    return (struct bh_str){v.s, v.n};
}

/* Copies the array of n elements (or pairs) into the arena. */
struct bh_cel_value bh_cel_list_new(struct bh_arena *a, const struct bh_cel_value *v, size_t n);
struct bh_cel_value bh_cel_map_new(struct bh_arena *a, const struct bh_cel_value *k,
                                   const struct bh_cel_value *v, size_t n);
/* A lazy view of JSON: nothing is copied, j must outlive the value. */
struct bh_cel_value bh_cel_from_json(struct bh_arena *a, const struct bh_jv *j);
/* Parsers of the Kubernetes values; the text is copied. -BH_E_INVALID with upstream's text. */
BH_MUST int bh_cel_quantity(struct bh_arena *a, struct bh_str text, struct bh_cel_value *ret,
                            struct bh_err *err);
BH_MUST int bh_cel_semver(struct bh_arena *a, struct bh_str text, struct bh_cel_value *ret,
                          struct bh_err *err);

/* An error value, made inside an ops function. */
struct bh_cel_value bh_cel_error(struct bh_cel_run *run, const char *fmt, ...) BH_PRINTF(2, 3);
struct bh_arena *bh_cel_run_arena(struct bh_cel_run *run);
/* Charges the running evaluation (a lazily computed variable); past the budget the evaluation ends.
 */
void bh_cel_run_charge(struct bh_cel_run *run, uint64_t cost);

/* Equality as == sees it; errors count as not equal. */
bool bh_cel_equal(struct bh_arena *a, struct bh_cel_value x, struct bh_cel_value y);
/* Run-time type name: "int", "list", "kubernetes.Quantity", ... */
struct bh_str bh_cel_type_name(struct bh_cel_value v);
/* The value as JSON: bytes as base64, timestamps, durations and the Kubernetes values as strings,
 * uint and int as numbers. -BH_E_INVALID for what has no JSON form (an infinite double, a map with
 * keys that are no scalars). */
BH_MUST int bh_cel_to_json(struct bh_arena *a, struct bh_cel_value v, struct bh_buf *out,
                           struct bh_err *err);

/* The value in the form of the conformance files: {"int64_value":"5"}; also timestamp, duration,
 * optional_of, optional_none and k8s_value (a text). Everything has this form. */
void bh_cel_to_value_json(struct bh_arena *a, struct bh_cel_value v, struct bh_buf *out);

/* ---- types and environments
 * ------------------------------------------------------------------------------------ */

/* Basic types: one shared instance each. */
const struct bh_cel_type *bh_cel_type_dyn(void);
const struct bh_cel_type *bh_cel_type_any(void);
const struct bh_cel_type *bh_cel_type_null(void);
const struct bh_cel_type *bh_cel_type_bool(void);
const struct bh_cel_type *bh_cel_type_int(void);
const struct bh_cel_type *bh_cel_type_uint(void);
const struct bh_cel_type *bh_cel_type_double(void);
const struct bh_cel_type *bh_cel_type_string(void);
const struct bh_cel_type *bh_cel_type_bytes(void);
const struct bh_cel_type *bh_cel_type_timestamp(void);
const struct bh_cel_type *bh_cel_type_duration(void);
const struct bh_cel_type *bh_cel_type_quantity(void);
/* Composed types, in the arena. size_max bounds strings, bytes, lists and maps in cost estimates
 * (BH_CEL_SIZE_UNKNOWN when nothing is known). */
#define BH_CEL_SIZE_UNKNOWN UINT64_MAX
const struct bh_cel_type *bh_cel_type_sized(struct bh_arena *a, const struct bh_cel_type *t,
                                            uint64_t size_max);
const struct bh_cel_type *bh_cel_type_list(struct bh_arena *a, const struct bh_cel_type *elem,
                                           uint64_t size_max);
const struct bh_cel_type *bh_cel_type_map(struct bh_arena *a, const struct bh_cel_type *key,
                                          const struct bh_cel_type *value, uint64_t size_max);
const struct bh_cel_type *bh_cel_type_optional(struct bh_arena *a, const struct bh_cel_type *t);
struct bh_cel_field {
    struct bh_str name;
    const struct bh_cel_type *type;
};
/* An object type with declared fields; the array is kept, not copied. */
const struct bh_cel_type *bh_cel_type_object(struct bh_arena *a, struct bh_str name,
                                             const struct bh_cel_field *fields, size_t n);
/* Same type, structurally. */
bool bh_cel_type_eq(const struct bh_cel_type *x, const struct bh_cel_type *y);
/* The type of such a text; NULL when it is none. Objects and parameters are not known. */
const struct bh_cel_type *bh_cel_type_parse(struct bh_arena *a, struct bh_str text);
/* As the checker prints it: "list(int)". */
struct bh_str bh_cel_type_text(struct bh_arena *a, const struct bh_cel_type *t);

enum bh_cel_env_flags {
    BH_CEL_ENV_BIND = 1 << 0,     /* cel.bind: device selectors only */
    BH_CEL_ENV_MUTATION = 1 << 1, /* Object, Object.*, JSONPatch, jsonpatch.escapeKey */
    BH_CEL_ENV_INCLUDES = 1 << 2, /* x.includes(y) of list attributes */
};

/* An environment and everything declared in it live until bh_cel_env_free(); declare first, then
 * share it read-only. */
struct bh_cel_env *bh_cel_env_new(unsigned flags);
struct bh_cel_env *bh_cel_env_free(struct bh_cel_env *e); /* accepts NULL, returns NULL */
struct bh_arena *bh_cel_env_arena(struct bh_cel_env *e);  /* for the types of its variables */
/* Declares a variable; a name may have dots. Returns its slot: the index of its value at
 * evaluation. Slots count up from 0 in order of declaration. */
size_t bh_cel_env_var(struct bh_cel_env *e, struct bh_str name, const struct bh_cel_type *t);

/* ---- programs
 * --------------------------------------------------------------------------------------------------
 */

struct bh_cel_issue {
    uint32_t line;      /* from 1; 0: the expression as a whole (upstream prints -1:0) */
    uint32_t col;       /* from 1, in code points */
    struct bh_str text; /* the first message */
    struct bh_str full; /* all messages with source and caret lines, as upstream prints them */
    bool program; /* refused while the program was built (constant folding), after all checks */
};

/* Compiles src. On -BH_E_INVALID *ret_issue (may be NULL) is filled from arena a, err holds the
 * first line of it. The program holds no reference to the environment or to a. Free it with
 * bh_cel_program_free(). */
BH_MUST int bh_cel_compile(const struct bh_cel_env *e, struct bh_str src, struct bh_arena *a,
                           struct bh_cel_program **ret, struct bh_cel_issue *ret_issue,
                           struct bh_err *err);
/* Without the type check (conformance tests only): overloads are chosen at run time. */
BH_MUST int bh_cel_compile_unchecked(const struct bh_cel_env *e, struct bh_str src,
                                     struct bh_arena *a, struct bh_cel_program **ret,
                                     struct bh_cel_issue *ret_issue, struct bh_err *err);
struct bh_cel_program *
bh_cel_program_free(struct bh_cel_program *p); /* accepts NULL, returns NULL */
const struct bh_cel_type *
bh_cel_program_type(const struct bh_cel_program *p); /* NULL when unchecked */
struct bh_str bh_cel_program_text(const struct bh_cel_program *p);
/* Estimated cost over all inputs; UINT64_MAX when unbounded. */
uint64_t bh_cel_program_cost_max(const struct bh_cel_program *p);
uint64_t bh_cel_program_cost_min(const struct bh_cel_program *p);
/* Whether the variable in this slot is mentioned. */
bool bh_cel_program_uses(const struct bh_cel_program *p, size_t slot);

struct bh_cel_result {
    struct bh_cel_value value; /* valid when 0 was returned */
    uint64_t cost;             /* spent; on -BH_E_LIMIT the first value above the budget */
    uint32_t line, col;        /* of the step that erred, from 1; 0 when unknown */
};

/* Evaluates with vars[slot] for every declared variable (nvars of them; a missing or kindless one
 * counts as absent: set BH_CEL_ERROR with p == NULL to say so). Memory comes from a. Returns 0;
 * -BH_E_INVALID when the expression ends in an error (err->msg has upstream's text); -BH_E_LIMIT
 * when the cost passes cost_limit ("operation cancelled: actual cost limit exceeded"). Thread: any,
 * p is only read. */
BH_MUST int bh_cel_eval(const struct bh_cel_program *p, const struct bh_cel_value *vars,
                        size_t nvars, struct bh_arena *a, uint64_t cost_limit,
                        struct bh_cel_result *ret, struct bh_err *err);

#endif
