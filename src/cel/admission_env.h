/* Expressions of admission policies and match conditions (cel.md sections 26 to 28): the
 * environment, and variables that are composed of expressions and computed when they are first
 * read.
 *
 * A set is built once: the environment, then variables in order, each seeing those before it.
 * Expressions are compiled against it with bh_cel_compile(). An evaluation context then holds what
 * one request brings, and the values of the variables once they are known.
 */
#ifndef BH_CEL_ADMISSION_ENV_H
#define BH_CEL_ADMISSION_ENV_H

#include "base/err.h"
#include "base/str.h"
#include "cel/cel.h"

struct bh_arena;
struct bh_cel_admission;
struct bh_jv;

#define BH_CEL_ADMISSION_BUDGET 10000000u /* validations or messages of one policy and binding */
#define BH_CEL_MATCH_BUDGET     2500000u  /* a set of match conditions */

enum bh_cel_admission_flags {
    BH_CEL_ADMISSION_PARAMS = 1 << 0,     /* the policy has a paramKind */
    BH_CEL_ADMISSION_AUTHORIZER = 1 << 1, /* authorizer and authorizer.requestResource */
    BH_CEL_ADMISSION_MUTATION = 1 << 2,   /* Object, JSONPatch */
    BH_CEL_ADMISSION_VARIABLES = 1 << 3,  /* variables */
};

/* The slots of the environment; params and authorizer are only declared when asked for. */
enum bh_cel_admission_slot {
    BH_CEL_SLOT_OBJECT,
    BH_CEL_SLOT_OLD_OBJECT,
    BH_CEL_SLOT_REQUEST,
    BH_CEL_SLOT_NAMESPACE,
    BH_CEL_SLOT_PARAMS,
    BH_CEL_SLOT_AUTHORIZER,
    BH_CEL_SLOT_REQUEST_RESOURCE,
    BH_CEL_SLOT_VARIABLES,
    BH_CEL_SLOTS
};

struct bh_cel_admission *bh_cel_admission_new(unsigned flags);
struct bh_cel_admission *
bh_cel_admission_free(struct bh_cel_admission *s); /* accepts NULL, returns NULL */
/* What expressions are compiled against: everything, with the variables declared so far. */
const struct bh_cel_env *bh_cel_admission_env(const struct bh_cel_admission *s);
/* Adds a variable. One that does not compile is added all the same, as dyn: reading it errs. Then
 * the result is -BH_E_INVALID and *ret_issue (may be NULL) is filled from arena a. */
BH_MUST int bh_cel_admission_variable(struct bh_cel_admission *s, struct bh_str name,
                                      struct bh_str expr, struct bh_arena *a,
                                      struct bh_cel_issue *ret_issue, struct bh_err *err);

/* What a request brings. NULL and kind NULL stand for null. */
struct bh_cel_admission_in {
    const struct bh_jv *object, *old_object, *params, *namespace_object;
    const struct bh_jv *request; /* without the fields that are empty, as upstream's JSON has it */
    struct bh_cel_value authorizer,
        request_resource; /* kind BH_CEL_ERROR: not bound, reading errs */
};

/* The values of all slots, in arena a, for bh_cel_eval(): BH_CEL_SLOTS of them. Variables are
 * remembered there, so that expressions evaluated with the same array share them; what computing
 * one costs is charged to its first reader. */
struct bh_cel_value *bh_cel_admission_vars(const struct bh_cel_admission *s,
                                           const struct bh_cel_admission_in *in,
                                           struct bh_arena *a);

#endif
