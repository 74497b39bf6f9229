/* POST and PUT of stored kinds. */
#include "api/gen/meta_v1.h"
#include "apiserver/body.h"
#include "apiserver/write.h"

int bh_rest_create(struct bh_rq *rq)
{
    struct bh_meta_v1_object_meta *m;
    void *obj = NULL;
    int r = bh_options_write(rq, "CreateOptions");

    if (r == 0)
        r = bh_body_decode(rq, rq->kind, &obj);
    if (r < 0)
        return r;
    m = bh_meta_of(rq->kind, obj);
    r = bh_check_namespace(rq, m);
    if (r < 0)
        return r;
    return bh_write_create(rq, obj);
}

int bh_may_create(struct bh_rq *rq)
{
    struct bh_authz_attrs at = {.user = &rq->user,
                                .verb = BH_S("create"),
                                .group = rq->ri.group,
                                .version = rq->ri.version,
                                .resource = rq->ri.res,
                                .ns = rq->ri.ns,
                                .name = rq->ri.name};
    char reason[256];

    if (bh_rq_allowed(rq, &at, reason, sizeof(reason)))
        return 0;
    return bh_fail_forbidden(
        rq, rq->kind, rq->ri.name,
        "User \"%.*s\" cannot create resource \"%.*s\" in API group \"%.*s\"%s",
        BH_SF(rq->user.name), BH_SF(rq->ri.res), BH_SF(rq->ri.group),
        rq->ri.ns.n > 0 ? bh_str_fmt(rq->a, " in the namespace \"%.*s\"", BH_SF(rq->ri.ns)).p
                        : " at the cluster scope");
}

static int create_by_put(struct bh_rq *rq, void *obj)
{
    struct bh_meta_v1_object_meta *m = bh_meta_of(rq->kind, obj);
    int r;

    if (rq->ri.sub.n > 0 || !bh_rules_create_on_update(rq->res->hub))
        return bh_fail_not_found(rq, rq->kind->group, rq->kind->resource, rq->ri.name);
    r = bh_may_create(rq);
    if (r < 0)
        return r;
    if (m->uid.n > 0)
        return bh_fail_conflict(
            rq, rq->kind, rq->ri.name,
            "StorageError: invalid object, Code: 4, Key: %.*s, ResourceVersion: 0, "
            "AdditionalErrorMsg: Precondition failed: UID in precondition: %.*s, UID in object "
            "meta: ",
            BH_SF(bh_rq_key(rq, rq->res, rq->ri.ns, rq->ri.name)), BH_SF(m->uid));
    m->resource_version = BH_S(""); /* there is nothing that it could be the version of */
    return bh_write_create(rq, obj);
}

int bh_rest_update(struct bh_rq *rq)
{
    struct bh_update u = {.sub = rq->ri.sub, .verb = "update"};
    struct bh_meta_v1_object_meta *m;
    int r = bh_options_write(rq, "UpdateOptions");

    if (r == 0)
        r = bh_body_decode(rq, rq->kind, &u.obj);
    if (r < 0)
        return r;
    m = bh_meta_of(rq->kind, u.obj);
    r = bh_check_namespace(rq, m);
    if (r == 0)
        r = bh_check_name(rq, m);
    if (r < 0)
        return r;
    u.old = bh_pipeline_head(rq->srv->pipe, rq->res->wc,
                             bh_rq_key(rq, rq->res, rq->ri.ns, rq->ri.name));
    if (!u.old)
        return create_by_put(rq, u.obj);
    return bh_write_update(rq, &u);
}
