/* Private to src/cel: the syntax tree, declarations, the plan and what the parts share.
 *
 * source --cel_lex/cel_parse/cel_macro--> cel_ast --cel_check--> typed cel_ast --cel_plan-->
 * cel_step --cel_eval--> value
 *
 * Recursion: the parser bounds the depth of the tree (BH_CEL_DEPTH_MAX nested expressions, as many
 * links of operators, and CEL_AST_HEIGHT_MAX in all after macro expansion), so that every later
 * walk over it is bounded as well.
 */
#ifndef BH_CEL_CEL_INT_H
#define BH_CEL_CEL_INT_H

#include "base/arena.h"
#include "base/limits.h"
#include "cel/cel.h"

#define CEL_CODE_POINTS_MAX 100000u /* upstream's limit of an expression */
#define CEL_AST_HEIGHT_MAX  2000u   /* nodes on one path, macros included */
#define CEL_ARGS_MAX                                                                               \
    8u /* arguments of a function, target included; no declared function has more than 4 */
#define CEL_TYPE_WEIGHT_MAX                                                                        \
    4096u /* nodes of one type: shared parts count each time they are reached */
#define CEL_ISSUES_MAX    100u /* upstream prints no more */
#define CEL_OVERLOADS_MAX 24u  /* overloads of one name */

/* ---- types
 * -----------------------------------------------------------------------------------------------------
 */

enum cel_tk {
    TK_DYN,
    TK_ANY,
    TK_ERROR,
    TK_NULL,
    TK_BOOL,
    TK_INT,
    TK_UINT,
    TK_DOUBLE,
    TK_STRING,
    TK_BYTES,
    TK_TIMESTAMP,
    TK_DURATION,
    TK_LIST,
    TK_MAP,
    TK_TYPE,
    TK_OPAQUE, /* by name: optional_type, net.IP, net.CIDR */
    TK_OBJECT, /* by name, with fields */
    TK_PARAM,  /* a parameter of a declaration (tvar: 0 = A, 1 = B) */
    TK_VAR     /* a type variable of one check (tvar: its number) */
};

struct bh_cel_type {
    uint8_t kind;
    uint8_t np;
    bool open; /* object: any field name is accepted and is dyn (mutation types) */
    uint32_t tvar;
    uint32_t weight; /* nodes below, 0 for basic types */
    struct bh_str name;
    const struct bh_cel_type *p[2];
    const struct bh_cel_field *fields;
    size_t nfields;
    uint64_t size_max; /* for cost estimates */
};

extern const struct bh_cel_type cel_t_dyn, cel_t_any, cel_t_error, cel_t_null, cel_t_bool,
    cel_t_int, cel_t_uint, cel_t_double, cel_t_string, cel_t_bytes, cel_t_timestamp, cel_t_duration,
    cel_t_ip, cel_t_cidr, cel_t_url, cel_t_quantity, cel_t_semver, cel_t_format, cel_t_jsonpatch,
    cel_t_list_dyn, cel_t_map_dyn, cel_t_type, cel_t_optional_dyn, cel_t_authorizer,
    cel_t_path_check, cel_t_group_check, cel_t_resource_check, cel_t_decision;

bool cel_type_is_dyn(const struct bh_cel_type *t); /* dyn, any or error */
bool cel_type_is_optional(const struct bh_cel_type *t);
const struct bh_cel_type *cel_type_of_type(struct bh_arena *a, const struct bh_cel_type *t);
/* As error messages name it ("null", "duration"); bh_cel_type_text() uses the declared names. */
struct bh_str cel_type_msg(struct bh_arena *a, const struct bh_cel_type *t);
/* The type values that expressions can name: int, list, google.protobuf.Timestamp ...; NULL when
 * unknown. */
const struct bh_cel_type *cel_type_by_name(struct bh_str name);
const struct bh_cel_type *cel_runtime_type(struct bh_cel_value v);

/* ---- declarations
 * ------------------------------------------------------------------------------------------------
 */

typedef struct bh_cel_value (*cel_fn)(struct bh_cel_run *run, const struct bh_cel_value *args,
                                      unsigned n);

/* How calls are charged; the formulas are in cel_cost.c. */
enum cel_cost {
    CC_ONE,
    CC_ZERO,
    CC_SIZE0,  /* F * size of the first argument or target */
    CC_STARTS, /* the same at run time; the estimate takes the argument */
    CC_IN_LIST,
    CC_COMPARE, /* F * the smaller of both */
    CC_ADD_STR,
    CC_MATCHES,
    CC_CONTAINS,
    CC_TRAVERSE,  /* isSorted, sum, min, max, indexOf, lastIndexOf */
    CC_SIZE0_OWN, /* url, lowerAscii, ...: result as large as the argument */
    CC_REPLACE,
    CC_SPLIT,
    CC_JOIN,
    CC_FIND,
    CC_FIND_ALL,
    CC_PARSE, /* ip, cidr, quantity, semver and their is-forms */
    CC_CANONICAL,
    CC_CONTAINS_IP,
    CC_CONTAINS_CIDR,
    CC_VALIDATE,
    CC_CHECK,
    CC_SELECTOR,
    CC_SETS_1,
    CC_SETS_2,
    CC_SLICE,
    CC_RANGE,
    CC_REVERSE,
    CC_FLATTEN,
    CC_SORT,
    CC_DISTINCT,
    CC_INCLUDES,
    CC_EQ_K8S,
    CC_FORMAT,
    CC_QUOTE,
    CC_UNWRAP,
    CC_FIRST
};

struct cel_overload {
    const char *name; /* function */
    const char *sig;  /* "ss:b", see cel_decl.c */
    cel_fn fn;        /* NULL: evaluated by a step of its own */
    uint8_t member;   /* called on a target */
    uint8_t cost;     /* enum cel_cost */
    uint8_t flags;    /* enum cel_ov_flags */
    uint8_t env;      /* enum bh_cel_env_flags that it needs; 0: always there */
};

enum cel_ov_flags {
    OV_ANYARG = 1 << 0,   /* fn looks at the kinds itself */
    OV_BYNAME = 1 << 1,   /* the cost applies even when the overload is only known at run time */
    OV_CONV = 1 << 2,     /* type conversion: folded on a constant */
    OV_NONSTRICT = 1 << 3 /* fn gets errors as arguments */
};

/* The parsed form of a declaration, made once per process. */
struct cel_decl {
    const struct cel_overload *ov;
    const struct bh_cel_type *args[CEL_ARGS_MAX];
    const struct bh_cel_type *result;
    uint8_t kinds[CEL_ARGS_MAX]; /* run-time kinds, 0xff: any */
    uint8_t n;                   /* arguments, target included */
    uint8_t params;              /* number of type parameters */
};

struct cel_func {
    struct bh_str name;
    const struct cel_decl *d;
    uint16_t n;
    uint16_t id; /* enum cel_op for operators, else 0 */
};

/* NULL when there is none in an environment with these flags. */
const struct cel_func *cel_func_find(struct bh_str name, unsigned env_flags);
bool cel_decl_on(const struct cel_decl *d, unsigned env_flags);

enum cel_op {
    OP_NONE,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_MOD,
    OP_NEG,
    OP_NOT,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_AND,
    OP_OR,
    OP_COND,
    OP_IN,
    OP_INDEX,
    OP_OPT_INDEX,
    OP_OPT_SELECT,
    OP_NSF, /* @not_strictly_false */
    OP_OPT_OR,
    OP_OPT_OR_VALUE,
    OP_MATCHES,
    OP_FIND,
    OP_FIND_ALL,
    OP_OTHER
};

struct bh_cel_env {
    struct bh_arena *arena;
    unsigned flags;
    struct cel_var {
        struct bh_str name;
        const struct bh_cel_type *type;
        bool dotted;
    } * vars;
    size_t nvars, cap;
    bool any_dotted;
    bool type_sized; /* estimates give the names of types this size, as upstream's for custom
                        resources do */
    uint64_t type_size;
};

/* ---- syntax tree
 * -------------------------------------------------------------------------------------------------
 */

enum cel_ast_kind {
    AST_CONST,
    AST_IDENT,
    AST_SELECT,
    AST_CALL,
    AST_LIST,
    AST_MAP,
    AST_STRUCT,
    AST_FOLD
};

#define CEL_NO_SLOT UINT32_MAX

struct cel_fold {
    struct bh_str iter, iter2, accu; /* iter2.p == NULL: one variable */
    struct cel_ast *range, *init, *cond, *step, *result;
    bool bind;     /* the body never runs: cel.bind, optMap */
    uint32_t slot; /* locals: accu, iter, iter2; set by the checker */
};

enum cel_ref { REF_NONE, REF_VAR, REF_LOCAL, REF_TYPE };

struct cel_cost_range {
    uint64_t min, max;
};

/* What is known of the sizes of a container's keys (of lists: of their indexes) and values. */
struct cel_entry_size {
    bool is_list;
    struct cel_cost_range key, val;
};

struct cel_ast {
    uint8_t kind;
    bool test_only;   /* SELECT: has() */
    bool member;      /* CALL: args[0] is the target */
    bool leading_dot; /* IDENT */
    bool checked, costed, sized;
    uint8_t op;      /* CALL: enum cel_op */
    uint8_t ref;     /* IDENT, or SELECT that names a dotted variable: enum cel_ref */
    uint16_t height; /* nodes below, itself included */
    uint16_t links;  /* of those the operators, selections and conditionals on the longest path */
    uint32_t pos;    /* byte offset in the source */
    uint32_t slot;   /* REF_VAR: variable; REF_LOCAL: local */
    uint32_t n;      /* args; MAP: pairs in args[2 i], args[2 i + 1] */
    struct bh_str name;
    struct cel_ast **args;       /* SELECT: args[0] is the operand */
    const bool *opt;             /* LIST, MAP, STRUCT: marked with '?', or NULL */
    const uint32_t *field_pos;   /* STRUCT, MAP: position of the colon */
    const struct bh_str *fields; /* STRUCT */
    struct bh_cel_value val;     /* CONST */
    struct cel_fold *fold;
    /* From the checker. */
    const struct bh_cel_type *type;
    const struct bh_cel_type *hint; /* declared type of a path, with its size; for estimates */
    const struct cel_func *func;
    const struct cel_decl *const *decls; /* overloads that remain */
    uint32_t ndecls;
    struct cel_step *step;              /* memo of the planner */
    struct cel_cost_range cost, size;   /* memo of the estimator */
    const struct cel_entry_size *entry; /* NULL: unknown */
};

/* ---- compilation
 * -------------------------------------------------------------------------------------------------
 */

struct cel_issue {
    uint32_t pos; /* CEL_POS_NONE: the expression as a whole */
    uint32_t seq;
    struct bh_str text;
};
#define CEL_POS_NONE UINT32_MAX

struct cel_scope; /* of the checker */
struct cel_local_size {
    bool known;
    struct cel_cost_range size;
    const struct cel_entry_size *entry;
};

struct cel_compiler {
    struct bh_arena *a;
    const struct bh_cel_env *env;
    struct bh_str src;
    struct cel_issue *issues;
    size_t nissues, issues_cap, issues_seen;
    /* checker */
    const struct bh_cel_type **subst; /* of type variables */
    size_t nsubst, subst_cap;
    uint32_t *trail; /* assigned type variables, for undoing */
    const struct bh_cel_type **trail_old;
    size_t ntrail, trail_cap, trail_old_cap;
    struct cel_scope *scope;
    uint32_t nlocals;
    struct cel_local_size *local_sizes; /* of variables, for the estimate; by slot */
    uint64_t type_steps;
    bool too_complex; /* a type passed CEL_TYPE_WEIGHT_MAX */
    bool unchecked;
};

bool cel_reserved_name(
    struct bh_str s); /* a word that is no plain identifier: namespace, if, ... */
void cel_issue_add(struct cel_compiler *c, uint32_t pos, const char *fmt, ...) BH_PRINTF(3, 4);
/* Fills line, col and the texts from the sorted issues. */
void cel_issue_report(struct cel_compiler *c, struct bh_cel_issue *ret);

/* Parses; NULL with issues added. */
struct cel_ast *cel_parse(struct cel_compiler *c);
/* Expands target.name(args) or name(args) (target NULL) if it is a macro. *ret_done tells that it
 * was; the result is NULL when an issue was added. */
struct cel_ast *cel_macro(struct cel_compiler *c, struct cel_ast *target, struct bh_str name,
                          struct cel_ast **args, uint32_t n, uint32_t pos, bool *ret_done);
struct cel_ast *cel_ast_new(struct cel_compiler *c, enum cel_ast_kind k, uint32_t pos);
struct cel_ast *cel_ast_ident(struct cel_compiler *c, struct bh_str name, uint32_t pos);
struct cel_ast *cel_ast_const(struct cel_compiler *c, struct bh_cel_value v, uint32_t pos);
struct cel_ast *cel_ast_call(struct cel_compiler *c, const char *fn, bool member,
                             struct cel_ast **args, uint32_t n, uint32_t pos);
/* Recomputes height and links from the children; false (with an issue) when the tree is too deep.
 */
bool cel_ast_measure(struct cel_compiler *c, struct cel_ast *e);
/* "a.b.c" of a chain of selections on an identifier; p == NULL when e is none. */
struct bh_str cel_ast_qualified(struct bh_arena *a, const struct cel_ast *e, bool *ret_leading_dot);

void cel_check(struct cel_compiler *c, struct cel_ast *root);
void cel_resolve_unchecked(struct cel_compiler *c, struct cel_ast *root);
/* Literal durations, timestamps, patterns, formats and homogeneous literals. */
void cel_validate(struct cel_compiler *c, struct cel_ast *root);
struct cel_cost_range cel_estimate(struct cel_compiler *c, struct cel_ast *root);

/* ---- the plan
 * ------------------------------------------------------------------------------------------------------
 */

struct cel_step;
typedef struct bh_cel_value (*cel_eval_fn)(struct bh_cel_run *run, const struct cel_step *s);

enum cel_attr_root { ROOT_VAR, ROOT_LOCAL, ROOT_STEP, ROOT_COND };

struct cel_qual {
    bool optional;
    bool constant;
    bool plain_attr;             /* index by an attribute: its own step is not charged */
    struct bh_cel_value key;     /* constant */
    const struct cel_step *step; /* else */
};

struct cel_attr {
    uint8_t root;
    bool test_only;
    uint8_t nq;
    uint8_t base; /* cost of the root */
    uint32_t slot;
    const struct cel_step *operand;  /* ROOT_STEP; ROOT_COND: the condition */
    const struct cel_step *yes, *no; /* ROOT_COND */
    const struct cel_qual *q;
};

struct cel_step {
    cel_eval_fn eval;
    uint32_t pos;
    uint8_t op;
    uint8_t cost;
    uint16_t n;
    bool is_const, is_attr, cost_zero;
    const struct cel_step **args;
    const bool *opt;
    union {
        struct bh_cel_value val; /* constant */
        struct cel_attr at;
        struct {
            const struct cel_func *func;
            const struct cel_decl *const *decls;
            uint32_t ndecls;
            void *regex;                    /* compiled constant pattern */
            const struct bh_cel_value *set; /* constants of x in [..] */
            size_t set_n;
            uint32_t by_size; /* cost of comparing the constant with an equal string */
            bool by_name;
        } call;
        struct {
            uint32_t slot; /* accu, iter, iter2 */
            bool two, bind;
            const struct cel_step *range, *init, *cond, *step, *result;
        } fold;
        struct {
            struct bh_str name;
            const struct bh_str *fields;
        } obj;
    };
};

struct bh_cel_program {
    struct bh_arena *arena;
    struct bh_str text;
    const struct cel_step *root;
    const struct bh_cel_type *type;
    struct cel_cost_range cost;
    uint32_t height; /* of the tree: how deep evaluation recurses */
    uint32_t nlocals;
    size_t nvars;
    const struct bh_str *var_names;
    bool *uses;
    void **regexes; /* freed with the program */
    size_t nregexes, regexes_cap;
};

/* Plans the tree into p->arena. -BH_E_INVALID with an issue when folding fails. */
int cel_plan(struct cel_compiler *c, struct cel_ast *root, struct bh_cel_program *p);

/* ---- evaluation
 * ----------------------------------------------------------------------------------------------------
 */

struct cel_local {
    struct bh_cel_value val;
    const struct cel_step *pending; /* evaluated when first read */
    bool grows;                     /* val is a list or map of our own that grows in place */
};

struct bh_cel_run {
    struct bh_arena *a;
    const struct bh_cel_value *vars;
    size_t nvars;
    const struct bh_cel_program *p;
    struct cel_local *locals;
    uint64_t cost, limit;
    uint64_t work; /* steps that no cost pays for, see CEL_WORK_MAX */
    bool halted;   /* the budget is gone: everything unwinds */
    uint32_t pos;  /* of the step running, for errors */
};

struct cel_error {
    struct bh_str msg;
    uint32_t pos;
};

static inline bool cel_is_err(struct bh_cel_value v)
{
    return v.kind == BH_CEL_ERROR;
}
/* Values can share parts, so that a small one takes exponential time to walk. Upstream's cost does
 * not see that; this limit does. */
#define CEL_WORK_MAX 20000000u
static inline bool cel_work(struct bh_cel_run *run, uint64_t n)
{
    run->work += n;
    if (run->work <= CEL_WORK_MAX)
        return false;
    run->halted = true;
    return true;
}
struct bh_cel_value cel_halt(struct bh_cel_run *run);
/* True when the budget is passed. */
static inline bool cel_charge(struct bh_cel_run *run, uint64_t n)
{
    run->cost += n;
    if (run->cost <= run->limit)
        return false;
    run->halted = true;
    return true;
}

struct bh_cel_value cel_err_overload(struct bh_cel_run *run); /* "no such overload" */
struct bh_cel_value cel_err_overload_fn(struct bh_cel_run *run, const char *fn,
                                        const struct bh_cel_value *args, unsigned n);
/* "type conversion error from 'A' to 'B'" */
struct bh_cel_value cel_err_conv(struct bh_cel_run *run, struct bh_cel_value v, const char *to);

/* ---- values
 * ----------------------------------------------------------------------------------------------------------
 */

struct cel_list_builder {
    struct bh_cel_value *v;
    size_t n, cap;
};

struct bh_cel_value cel_list_at(struct bh_cel_run *run, struct bh_cel_value l, size_t i);
bool cel_map_get(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key,
                 struct bh_cel_value *ret);
/* Position of the key in a map without ops, or -1. */
ptrdiff_t cel_map_find(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key);
bool cel_map_has(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key);
void cel_map_at(struct bh_cel_run *run, const struct bh_cel_map *m, size_t i,
                struct bh_cel_value *k, struct bh_cel_value *v);
void cel_list_add(struct bh_arena *a, struct cel_list_builder *b, struct bh_cel_value v);
struct bh_cel_value cel_list_done(struct bh_arena *a, const struct cel_list_builder *b);
struct bh_cel_value
cel_map_done(struct bh_arena *a, const struct bh_cel_value *k, const struct bh_cel_value *v,
             size_t n); /* takes the arrays, builds the index; later equal keys must be gone */
/* Bool or an error (no such overload). */
struct bh_cel_value cel_equal(struct bh_cel_run *run, struct bh_cel_value a, struct bh_cel_value b);
/* -1, 0, 1 as an int, or an error. */
struct bh_cel_value cel_compare(struct bh_cel_run *run, struct bh_cel_value a,
                                struct bh_cel_value b);
uint64_t cel_hash(struct bh_cel_value v); /* numbers that are equal hash equally */
uint64_t cel_size(struct bh_cel_value v); /* as costs see it */
size_t cel_runes(const char *s, size_t n);
struct bh_cel_value cel_strf(struct bh_cel_run *run, const char *fmt, ...) BH_PRINTF(2, 3);
struct bh_cel_value cel_str_copy(struct bh_arena *a, struct bh_str s);
struct bh_cel_value cel_optional(struct bh_arena *a, struct bh_cel_value v);
struct bh_cel_value cel_optional_none(void);
struct bh_cel_value cel_time_value(struct bh_arena *a, int64_t sec, int32_t nsec, int32_t off);
/* Decodes one code point of valid or invalid UTF-8; returns its length (1 and U+FFFD for a bad
 * byte), 0 at the end. */
size_t cel_rune(const char *s, size_t n, uint32_t *ret);
size_t cel_rune_put(uint32_t r, char out[4]);

/* Printed forms. */
struct bh_str cel_double_text(struct bh_arena *a, double d);
struct bh_str cel_duration_text(struct bh_arena *a, int64_t ns);
struct bh_str cel_time_text(struct bh_arena *a, const struct bh_cel_time *t);
bool cel_duration_parse(struct bh_str s, int64_t *ret);
bool cel_time_parse(struct bh_str s, struct bh_cel_time *ret);

/* Static check of a format string against literal arguments: position of the culprit in args, text.
 */
bool cel_format_check(struct cel_compiler *c, struct cel_ast *call);

/* Cost of one call at run time. */
uint64_t cel_call_cost(enum cel_cost cc, const struct bh_cel_value *args, unsigned n,
                       struct bh_cel_value result, const struct cel_overload *ov);

/* ---- functions, by library
 * --------------------------------------------------------------------------------------- */

#define CEL_FN(id)                                                                                 \
    struct bh_cel_value id(struct bh_cel_run *run, const struct bh_cel_value *args, unsigned n)
#include "cel/cel_fns.h"

#endif
