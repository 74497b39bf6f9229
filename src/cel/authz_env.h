/* The authorizer of admission expressions:
 * `authorizer.group('apps').resource('deployments').check('create').allowed()`.
 *
 * The embedder answers the questions; the library builds them. A check costs 350,000, so that an
 * evaluation asks twice at most.
 */
#ifndef BH_CEL_AUTHZ_ENV_H
#define BH_CEL_AUTHZ_ENV_H

#include "base/str.h"
#include "cel/cel.h"

/* One question. Strings are empty where nothing was said. */
struct bh_cel_authz_query {
    struct bh_str path; /* a path check; else a resource check */
    struct bh_str group, resource, subresource, ns, name, field_selector, label_selector;
    struct bh_str verb;
    /* Set: ask for this service account (system:serviceaccount:NS:NAME), not for the request's
     * user. */
    struct bh_str account_ns, account_name;
};

struct bh_cel_authz_answer {
    bool allowed; /* only for a decision to allow, not for no opinion */
    struct bh_str reason, error;
};

/* Answers q; what the answer points to must live as long as the evaluation's arena a. */
typedef void (*bh_cel_authz_fn)(void *arg, const struct bh_cel_authz_query *q, struct bh_arena *a,
                                struct bh_cel_authz_answer *ret);

const struct bh_cel_type *bh_cel_type_authorizer(void);
const struct bh_cel_type *bh_cel_type_resource_check(void);
/* Values for the variables `authorizer` and `authorizer.requestResource` (the resource fields of
 * req). */
struct bh_cel_value bh_cel_authorizer(struct bh_arena *a, bh_cel_authz_fn fn, void *arg);
struct bh_cel_value bh_cel_resource_check(struct bh_arena *a, bh_cel_authz_fn fn, void *arg,
                                          const struct bh_cel_authz_query *req);

#endif
