/* Kinds that are asked, not stored: bindings, reviews of access and of oneself. */
#include "api/gen/authentication_v1.h"
#include "api/gen/authorization_v1.h"
#include "apiserver/body.h"
#include "apiserver/write.h"

#include <string.h>

static int self_subject_review(struct bh_rq *rq)
{
    struct bh_authentication_v1_self_subject_review *r;
    void *msg = NULL;
    int rc = bh_body_decode(rq, rq->kind, &msg);

    if (rc < 0)
        return rc;
    r = msg;
    r->status.user_info.username = rq->user.name;
    r->status.user_info.uid = rq->user.uid;
    r->status.user_info.groups = rq->user.groups;
    r->metadata.creation_timestamp = rq->now;
    bh_rq_answer_msg(rq, 201, rq->kind, r);
    return 0;
}

static void fill_attrs(struct bh_authz_attrs *at,
                       const struct bh_authorization_v1_resource_attributes *ra,
                       const struct bh_authorization_v1_non_resource_attributes *na)
{
    if (ra) {
        at->verb = ra->verb;
        at->group = ra->group;
        at->version = ra->version;
        at->resource = ra->resource;
        at->subresource = ra->subresource;
        at->ns = ra->namespace;
        at->name = ra->name;
    } else if (na) {
        at->verb = na->verb;
        at->path = na->path;
    }
}

static void decide(struct bh_rq *rq, const struct bh_authz_attrs *at,
                   struct bh_authorization_v1_subject_access_review_status *st)
{
    char reason[512];

    st->allowed = bh_rq_allowed(rq, at, reason, sizeof(reason));
    st->reason = bh_str_dup(rq->a, bh_s(reason));
}

static int self_access_review(struct bh_rq *rq)
{
    struct bh_authorization_v1_self_subject_access_review *r;
    struct bh_authz_attrs at = {.user = &rq->user};
    void *msg = NULL;
    int rc = bh_body_decode(rq, rq->kind, &msg);

    if (rc < 0)
        return rc;
    r = msg;
    fill_attrs(&at, r->spec.resource_attributes, r->spec.non_resource_attributes);
    decide(rq, &at, &r->status);
    bh_rq_answer_msg(rq, 201, rq->kind, r);
    return 0;
}

static int access_review(struct bh_rq *rq)
{
    struct bh_authorization_v1_subject_access_review *r;
    struct bh_user user = {0};
    struct bh_authz_attrs at = {.user = &user};
    void *msg = NULL;
    int rc = bh_body_decode(rq, rq->kind, &msg);

    if (rc < 0)
        return rc;
    r = msg;
    rc = rq->kind->namespaced ? bh_check_namespace(rq, &r->metadata) : 0;
    if (rc < 0)
        return rc;
    user.name = r->spec.user;
    user.uid = r->spec.uid;
    user.groups = r->spec.groups;
    fill_attrs(&at, r->spec.resource_attributes, r->spec.non_resource_attributes);
    decide(rq, &at, &r->status);
    bh_rq_answer_msg(rq, 201, rq->kind, r);
    return 0;
}

static int token_review(struct bh_rq *rq)
{
    struct bh_authentication_v1_token_review *r;
    struct bh_user user = {0};
    struct bh_str_vec none = {NULL, 0};
    void *msg = NULL;
    int rc = bh_body_decode(rq, rq->kind, &msg);

    if (rc < 0)
        return rc;
    r = msg;
    if (r->spec.token.n > 0 &&
        bh_authn_check(rq->srv->authn, rq->a, r->spec.token, BH_S(""), none, &user) == 1) {
        r->status.authenticated = true;
        r->status.user.username = user.name;
        r->status.user.uid = user.uid;
        r->status.user.groups = user.groups;
    } else {
        r->status.error = BH_S("[invalid bearer token, unknown]");
    }
    bh_rq_answer_msg(rq, 201, rq->kind, r);
    return 0;
}

static const struct {
    const char *group, *resource;
    int (*fn)(struct bh_rq *rq);
} table[] = {
    {"", "bindings", bh_rest_binding},
    {"authentication.k8s.io", "selfsubjectreviews", self_subject_review},
    {"authentication.k8s.io", "tokenreviews", token_review},
    {"authorization.k8s.io", "selfsubjectaccessreviews", self_access_review},
    {"authorization.k8s.io", "subjectaccessreviews", access_review},
    {"authorization.k8s.io", "localsubjectaccessreviews", access_review},
};

bool bh_virtual_kind(const struct bh_kind *k)
{
    for (size_t i = 0; i < BH_COUNT(table); i++)
        if (bh_str_eqc(k->group, table[i].group) && bh_str_eqc(k->resource, table[i].resource))
            return true;
    return false;
}

int bh_rest_virtual(struct bh_rq *rq)
{
    if (!bh_str_eqc(rq->method, "POST"))
        return bh_fail_generic(rq, BH_E_METHOD);
    for (size_t i = 0; i < BH_COUNT(table); i++)
        if (bh_str_eqc(rq->kind->group, table[i].group) &&
            bh_str_eqc(rq->kind->resource, table[i].resource))
            return table[i].fn(rq);
    return bh_fail_generic(rq, BH_E_NOT_FOUND);
}
