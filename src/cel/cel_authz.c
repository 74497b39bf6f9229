/* The authorizer library: values that collect a question, and its answer. */
#include "cel/authz_env.h"

#include "cel/cel_opaque.h"

/* Authorizer and the checks: the question so far. */
struct query {
    bh_cel_authz_fn fn;
    void *arg;
    struct bh_cel_authz_query q;
};

const struct bh_cel_type *bh_cel_type_authorizer(void)
{
    return &cel_t_authorizer;
}

const struct bh_cel_type *bh_cel_type_resource_check(void)
{
    return &cel_t_resource_check;
}

struct bh_cel_value bh_cel_resource_check(struct bh_arena *a, bh_cel_authz_fn fn, void *arg,
                                          const struct bh_cel_authz_query *req)
{
    struct query *q = bh_new(a, struct query);

    q->fn = fn;
    q->arg = arg;
    q->q = *req;
    return (struct bh_cel_value){.kind = BH_CEL_RESOURCE_CHECK, .p = q};
}

struct bh_cel_value bh_cel_authorizer(struct bh_arena *a, bh_cel_authz_fn fn, void *arg)
{
    static const struct bh_cel_authz_query none;
    struct bh_cel_value v = bh_cel_resource_check(a, fn, arg, &none);

    v.kind = BH_CEL_AUTHORIZER;
    return v;
}

/* A copy of the question in v, to change. */
static struct query *more(struct bh_cel_run *run, struct bh_cel_value v)
{
    return bh_arena_memdup(run->a, v.p, sizeof(struct query));
}

static struct bh_cel_value value(enum bh_cel_kind kind, const struct query *q)
{
    return (struct bh_cel_value){.kind = kind, .p = q};
}

CEL_FN(cel_f_az_path)
{
    struct query *q = more(run, args[0]);

    (void)n;
    q->q.path = bh_cel_as_str(args[1]);
    if (!bh_str_trim(q->q.path).n)
        return bh_cel_error(run, "path must not be empty");
    return value(BH_CEL_PATH_CHECK, q);
}

CEL_FN(cel_f_az_group)
{
    struct query *q = more(run, args[0]);

    (void)n;
    q->q.group = bh_cel_as_str(args[1]);
    return value(BH_CEL_GROUP_CHECK, q);
}

CEL_FN(cel_f_az_service_account)
{
    struct query *q = more(run, args[0]);
    char buf[BH_NAMES_BUF];

    (void)n;
    q->q.account_ns = bh_cel_as_str(args[1]);
    q->q.account_name = bh_cel_as_str(args[2]);
    if (bh_check_dns1123_subdomain(q->q.account_name, buf))
        return bh_cel_error(run, "Invalid service account name");
    if (bh_check_dns1123_label(q->q.account_ns, buf))
        return bh_cel_error(run, "Invalid service account namespace");
    return value(BH_CEL_AUTHORIZER, q);
}

CEL_FN(cel_f_az_resource)
{
    struct query *q = more(run, args[0]);

    (void)n;
    q->q.resource = bh_cel_as_str(args[1]);
    if (!bh_str_trim(q->q.resource).n)
        return bh_cel_error(run, "resource must not be empty");
    return value(BH_CEL_RESOURCE_CHECK, q);
}

#define PART(id, field)                                                                            \
    CEL_FN(cel_f_az_##id)                                                                          \
    {                                                                                              \
        struct query *q = more(run, args[0]);                                                      \
                                                                                                   \
        (void)n;                                                                                   \
        q->q.field = bh_cel_as_str(args[1]);                                                       \
        return value(BH_CEL_RESOURCE_CHECK, q);                                                    \
    }
PART(subresource, subresource)
PART(namespace, ns)
PART(name, name)
PART(field_selector, field_selector)
PART(label_selector, label_selector)

CEL_FN(cel_f_az_check)
{
    struct query *q = more(run, args[0]);
    struct bh_cel_authz_answer *answer = bh_new(run->a, struct bh_cel_authz_answer);

    (void)n;
    q->q.verb = bh_cel_as_str(args[1]);
    q->fn(q->arg, &q->q, run->a, answer);
    return (struct bh_cel_value){.kind = BH_CEL_DECISION, .p = answer};
}

static const struct bh_cel_authz_answer *answer_of(struct bh_cel_value v)
{
    return v.p;
}

CEL_FN(cel_f_az_allowed)
{
    (void)run;
    (void)n;
    return bh_cel_bool(answer_of(args[0])->allowed);
}

CEL_FN(cel_f_az_errored)
{
    (void)run;
    (void)n;
    return bh_cel_bool(answer_of(args[0])->error.n > 0);
}

CEL_FN(cel_f_az_error)
{
    (void)run;
    (void)n;
    return bh_cel_str(answer_of(args[0])->error);
}

CEL_FN(cel_f_az_reason)
{
    (void)run;
    (void)n;
    return bh_cel_str(answer_of(args[0])->reason);
}
