/* From an accepted request to the function that serves it. */
#include "api/gen/meta_v1.h"
#include "apiserver/scale.h"
#include "apiserver/server_int.h"
#include "base/limits.h"

#include <string.h>

const struct bh_str *bh_rq_query(const struct bh_rq *rq, const char *name)
{
    return bh_query_get(&rq->q, name);
}

struct bh_meta_v1_object_meta *bh_meta_of(const struct bh_kind *k, void *obj)
{
    bh_assert(k->meta_off != UINT32_MAX);
    return (void *)((char *)obj + k->meta_off);
}

const struct bh_meta_v1_object_meta *bh_meta_const(const struct bh_kind *k, const void *obj)
{
    bh_assert(k->meta_off != UINT32_MAX);
    return (const void *)((const char *)obj + k->meta_off);
}

bool bh_rq_allowed(struct bh_rq *rq, const struct bh_authz_attrs *at, char *reason, size_t reason_n)
{
    reason[0] = '\0';
    for (size_t i = 0; i < at->user->groups.n; i++)
        if (bh_str_eqc(at->user->groups.p[i], "system:masters"))
            return true;
    if (rq->srv->always_allow)
        return true;
    return rq->srv->authorize(rq->srv->authorize_arg, at, reason, reason_n);
}

/* ---- authorisation of the request itself ---- */

static int refuse_path(struct bh_rq *rq)
{
    int r = bh_fail_msg(rq, BH_E_FORBIDDEN, "forbidden: User \"%.*s\" cannot %.*s path \"%.*s\"",
                        BH_SF(rq->user.name), BH_SF(rq->ri.verb), BH_SF(rq->ri.path));

    rq->fail.details = true;
    return r;
}

static int refuse_resource(struct bh_rq *rq, const char *reason)
{
    const struct bh_ri *ri = &rq->ri;
    struct bh_str who = bh_qualified(rq, ri->group, ri->res);
    struct bh_str res =
        ri->sub.n > 0 ? bh_str_fmt(rq->a, "%.*s/%.*s", BH_SF(ri->res), BH_SF(ri->sub)) : ri->res;
    struct bh_str where = ri->ns.n > 0
                              ? bh_str_fmt(rq->a, "in the namespace \"%.*s\"", BH_SF(ri->ns))
                              : BH_S("at the cluster scope");
    int r;

    if (ri->name.n > 0)
        who = bh_str_fmt(rq->a, "%.*s \"%.*s\"", BH_SF(who), BH_SF(ri->name));
    r = bh_fail_msg(rq, BH_E_FORBIDDEN,
                    "%.*s is forbidden: User \"%.*s\" cannot %.*s resource \"%.*s\" in API group "
                    "\"%.*s\" %.*s%s%s",
                    BH_SF(who), BH_SF(rq->user.name), BH_SF(ri->verb), BH_SF(res), BH_SF(ri->group),
                    BH_SF(where), reason[0] ? ": " : "", reason);
    rq->fail.name = ri->name;
    rq->fail.group = ri->group;
    rq->fail.kind = ri->res;
    return r;
}

int bh_rq_authorize(struct bh_rq *rq)
{
    const struct bh_ri *ri = &rq->ri;
    const struct bh_str *f = bh_rq_query(rq, "fieldSelector"),
                        *l = bh_rq_query(rq, "labelSelector");
    struct bh_authz_attrs at = {.user = &rq->user, .verb = ri->verb, .path = ri->path};
    char reason[512];

    if (ri->resource) {
        at.group = ri->group;
        at.version = ri->version;
        at.resource = ri->res;
        at.subresource = ri->sub;
        at.ns = ri->ns;
        at.name = ri->name;
        at.field_selector = f ? *f : BH_S("");
        at.label_selector = l ? *l : BH_S("");
    }
    if (!bh_rq_allowed(rq, &at, reason, sizeof(reason)))
        return ri->resource ? refuse_resource(rq, reason) : refuse_path(rq);
    if (rq->with_status) { /* as the second request would be */
        at.verb = BH_S("update");
        at.subresource = BH_S("status");
        if (!bh_rq_allowed(rq, &at, reason, sizeof(reason)))
            return refuse_resource(rq, reason);
    }
    return 0;
}

/* ---- which handler ---- */

static bool group_known(struct bh_rq *rq)
{
    size_t n;
    const struct bh_kind *const *kinds = bh_kinds(&n);

    if (rq->ri.group.n == 0)
        return true;
    for (size_t i = 0; i < n; i++)
        if (bh_str_eq(kinds[i]->group, rq->ri.group) && bh_version_served(rq->srv, kinds[i]))
            return true;
    return false;
}

/* The path names a kind, in a scope the kind has, at an existing subresource. */
static int find_kind(struct bh_rq *rq)
{
    struct bh_ri *ri = &rq->ri;
    const struct bh_kind *k;

    if (!group_known(rq))
        return bh_fail_text(rq, 404, BH_S("404 page not found\n"));
    k = bh_kind_by_resource(ri->group, ri->version, ri->res);
    if (!k || !bh_version_served(rq->srv, k))
        return bh_fail_generic(rq, BH_E_NOT_FOUND);
    if (k->verbs == BH_V_CREATE && ri->parts_n > 1)
        return bh_fail_generic(rq, BH_E_NOT_FOUND); /* what is only asked has no items */
    rq->kind = k;
    rq->res = bh_resource_find(rq->srv, k->group, k->resource);
    if (ri->parts_n > 3)
        return bh_fail_generic(rq, BH_E_NOT_FOUND);
    if (!k->namespaced && ri->ns.n > 0 && (!bh_str_eqc(ri->res, "namespaces") || ri->in_ns))
        return bh_fail_generic(rq, BH_E_NOT_FOUND);
    if (k->namespaced && ri->ns.n == 0 && !(k->verbs & BH_V_LIST))
        return bh_fail_generic(rq, BH_E_NOT_FOUND); /* there is no collection of all */
    /* Without a namespace there is only the collection of all. */
    if (k->namespaced && ri->ns.n == 0 && (ri->parts_n > 1 || !bh_str_eqc(rq->method, "GET")))
        return bh_fail_generic(rq, ri->parts_n > 1 ? BH_E_NOT_FOUND : BH_E_METHOD);
    if (bh_str_eqc(ri->res, "namespaces"))
        ri->ns = BH_S("");
    if (ri->sub.n > 0) {
        rq->sub = bh_kind_sub(k, ri->sub);
        if (!rq->sub || rq->sub->unserved)
            return bh_fail_generic(rq, BH_E_NOT_FOUND);
    }
    return 0;
}

static uint32_t verb_bit(struct bh_str verb)
{
    static const struct {
        const char *name;
        uint32_t bit;
    } table[] = {{"create", BH_V_CREATE},
                 {"delete", BH_V_DELETE},
                 {"deletecollection", BH_V_DELETECOLLECTION},
                 {"get", BH_V_GET},
                 {"list", BH_V_LIST},
                 {"patch", BH_V_PATCH},
                 {"update", BH_V_UPDATE},
                 {"watch", BH_V_WATCH}};

    for (size_t i = 0; i < BH_COUNT(table); i++)
        if (bh_str_eqc(verb, table[i].name))
            return table[i].bit;
    return 0;
}

static int check_method(struct bh_rq *rq)
{
    const struct bh_ri *ri = &rq->ri;
    uint32_t bit = verb_bit(ri->verb), offered = rq->sub ? rq->sub->verbs : rq->kind->verbs;
    bool named = ri->parts_n > 1;

    /* HEAD was authorised as a get; no resource answers to it. Creating names no object, replacing
     * does. */
    if (bh_str_eqc(rq->method, "HEAD") || (offered & bit) == 0)
        return bh_fail_generic(rq, BH_E_METHOD);
    if (ri->old_watch)
        return bh_str_eqc(rq->method, "GET") ? 0 : bh_fail_generic(rq, BH_E_METHOD);
    if (!rq->sub && named && bit == BH_V_CREATE)
        return bh_fail_generic(rq, BH_E_METHOD);
    if (!rq->sub && !named && (bit == BH_V_UPDATE || bit == BH_V_PATCH))
        return bh_fail_generic(rq, BH_E_METHOD);
    return 0;
}

static int serve_verb(struct bh_rq *rq)
{
    uint32_t bit = verb_bit(rq->ri.verb);

    switch (bit) {
    case BH_V_GET:
        return bh_rest_get(rq);
    case BH_V_LIST:
        return bh_rest_list(rq);
    case BH_V_WATCH:
        return bh_rest_watch(rq);
    case BH_V_CREATE:
        return bh_rest_create(rq);
    case BH_V_UPDATE:
        return bh_rest_update(rq);
    case BH_V_PATCH:
        return bh_rest_patch(rq);
    case BH_V_DELETE:
        return bh_rest_delete(rq);
    case BH_V_DELETECOLLECTION:
        return bh_rest_delete_collection(rq);
    default:
        return bh_fail_generic(rq, BH_E_METHOD);
    }
}

/* Warns of versions that will go. */
static void warn_deprecated(struct bh_rq *rq)
{
    static const struct {
        const char *api_version, *kind; /* kind "": every other kind of that version */
        const char *text;
    } table[] = {
        {"resource.k8s.io/v1beta1", "", "is deprecated in v1.35+, unavailable in v1.38+"},
        {"resource.k8s.io/v1beta2", "DeviceTaintRule",
         "is deprecated in v1.39+, unavailable in v1.42+"},
        {"resource.k8s.io/v1beta2", "", "is deprecated in v1.36+, unavailable in v1.39+"},
        {"resource.k8s.io/v1alpha3", "DeviceTaintRule",
         "is deprecated in v1.36+, unavailable in v1.39+"},
        {"resource.k8s.io/v1alpha3", "", "is deprecated in v1.39+, unavailable in v1.42+"},
        {"v1", "Endpoints", "is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"},
    };

    for (size_t i = 0; i < BH_COUNT(table); i++)
        if (bh_str_eqc(rq->kind->api_version, table[i].api_version) &&
            (table[i].kind[0] == '\0' || bh_str_eqc(rq->kind->kind, table[i].kind))) {
            bh_rq_warn(rq, bh_str_fmt(rq->a, "%.*s %.*s %s", BH_SF(rq->kind->api_version),
                                      BH_SF(rq->kind->kind), table[i].text));
            return;
        }
}

static int serve_resource(struct bh_rq *rq)
{
    int media = bh_media_negotiate(rq, bh_str_eqc(rq->ri.verb, "watch"));
    struct bh_fail refused = rq->fail;
    int r = find_kind(rq);

    if (r == 0)
        r = check_method(rq);
    if (r < 0)
        return r;
    if (media < 0) {
        rq->fail = refused;
        return media;
    }
    warn_deprecated(rq);
    if (!rq->res)
        return bh_rest_virtual(rq);
    if (rq->sub) {
        r = bh_rest_sub(rq);
        if (r != 1)
            return r;
    }
    return serve_verb(rq);
}

static int serve(struct bh_rq *rq, struct bh_str raw_path)
{
    int r = bh_ri_parse(rq, raw_path);

    if (r == 0)
        r = bh_rq_authorize(rq);
    if (r < 0) {
        struct bh_fail f = rq->fail;

        /* A refusal is told in the form that was asked for, if that is one; else in JSON. */
        if (bh_media_negotiate(rq, false) < 0)
            rq->fail = f;
        return r;
    }
    if (bh_str_starts(rq->ri.path, BH_S("//")))
        return bh_fail_text(rq, 404, BH_S("404 page not found\n"));
    if (rq->ri.resource)
        return serve_resource(rq);
    if (bh_str_eqc(rq->ri.prefix, "api") || bh_str_eqc(rq->ri.prefix, "apis") ||
        bh_str_eqc(rq->ri.prefix, "version") || rq->ri.prefix.n == 0)
        return bh_discovery_serve(rq);
    if (bh_str_eqc(rq->ri.prefix, "openapi"))
        return bh_openapi_serve(rq);
    if (bh_str_eqc(rq->ri.path, "/metrics"))
        return bh_metrics_serve(rq);
    return bh_health_serve(rq);
}

/* ---- life of a request ---- */

/* Ids are never 0, and none comes again before its slot was given 2^32 times. */
static void slot_take(struct bh_apiserver *srv, struct bh_rq *rq)
{
    struct bh_rq_slot *s;

    if (!srv->slot_free) {
        if (srv->slots_n == srv->slots_cap) {
            srv->slots_cap = srv->slots_cap ? srv->slots_cap * 2 : 64;
            srv->slots = bh_realloc(srv->slots, srv->slots_cap * sizeof(*srv->slots));
        }
        srv->slots[srv->slots_n++] = (struct bh_rq_slot){0};
        srv->slot_free = (uint32_t)srv->slots_n;
    }
    rq->id = srv->slot_free;
    s = &srv->slots[rq->id - 1];
    srv->slot_free = s->next;
    rq->id |= (uint64_t)++s->turn << 32;
    s->rq = rq;
}

static struct bh_rq *slot_find(const struct bh_apiserver *srv, uint64_t id)
{
    uint32_t at = (uint32_t)id - 1;

    return at < srv->slots_n && srv->slots[at].turn == id >> 32 ? srv->slots[at].rq : NULL;
}

void bh_rq_finish(struct bh_rq *rq)
{
    uint32_t at = (uint32_t)rq->id - 1;
    struct bh_rq_slot *s = &rq->srv->slots[at];

    bh_list_del(&rq->link);
    s->rq = NULL;
    s->next = rq->srv->slot_free;
    rq->srv->slot_free = at + 1;
    (void)bh_obj_unref(rq->shown);
    if (rq->a != rq->life)
        (void)bh_arena_free(rq->a);
    (void)bh_arena_free(rq->life);
}

/* Gives back what was needed on the way to the store. Only the plain forms of the answer are made
 * without it. */
static void settle(struct bh_rq *rq)
{
    struct bh_str_vec warnings = {NULL, 0};
    bool plain = rq->objects || (rq->as == BH_AS_OBJECT && rq->form == BH_FORM_JSON && !rq->pretty);

    if (!rq->accepted || !plain || bh_scale_asked(rq))
        return;
    if (rq->warnings.n > 0)
        warnings.p = bh_new_n(rq->life, struct bh_str, rq->warnings.n);
    for (; warnings.n < rq->warnings.n; warnings.n++)
        warnings.p[warnings.n] = bh_str_dup(rq->life, rq->warnings.p[warnings.n]);
    rq->warnings = warnings;
    rq->warnings_cap = warnings.n;
    rq->method = rq->accept = rq->body = (struct bh_str){NULL, 0};
    rq->field_manager = rq->field_validation = (struct bh_str){NULL, 0};
    rq->msg = NULL;
    memset(&rq->q, 0, sizeof(rq->q));
    memset(&rq->fail, 0, sizeof(rq->fail));
    memset(&rq->env, 0, sizeof(rq->env));
    (void)bh_arena_free(rq->a);
    rq->a = rq->life;
}

static void copy_user(struct bh_rq *rq, const struct bh_user *u)
{
    struct bh_user_extra *extra = bh_new_n(rq->life, struct bh_user_extra, u->extra_n + 1);

    rq->user.name = bh_str_dup(rq->life, u->name);
    rq->user.uid = bh_str_dup(rq->life, u->uid);
    rq->user.groups.p = bh_new_n(rq->life, struct bh_str, u->groups.n + 1);
    rq->user.groups.n = u->groups.n;
    for (size_t i = 0; i < u->groups.n; i++)
        rq->user.groups.p[i] = bh_str_dup(rq->life, u->groups.p[i]);
    for (size_t i = 0; i < u->extra_n; i++) {
        extra[i].key = bh_str_dup(rq->life, u->extra[i].key);
        extra[i].values.p = bh_new_n(rq->life, struct bh_str, u->extra[i].values.n + 1);
        extra[i].values.n = u->extra[i].values.n;
        for (size_t j = 0; j < u->extra[i].values.n; j++)
            extra[i].values.p[j] = bh_str_dup(rq->life, u->extra[i].values.p[j]);
    }
    rq->user.extra = extra;
    rq->user.extra_n = u->extra_n;
}

static struct bh_rq *rq_new(struct bh_apiserver *srv, const struct bh_api_request *in,
                            const struct bh_api_sink *sink)
{
    struct bh_arena *life = bh_arena_new(0), *a = in->arena ? in->arena : bh_arena_new(0);
    struct bh_rq *rq = bh_new(life, struct bh_rq);
    bool ours = in->arena != NULL;

    rq->life = life;
    rq->a = a;
    rq->srv = srv;
    rq->sink = *sink;
    rq->objects = in->objects;
    rq->method = ours ? in->method : bh_str_dup(a, in->method);
    rq->accept = ours ? in->accept : bh_str_dup(a, in->accept);
    rq->content_type = bh_str_dup(life, in->content_type);
    rq->user_agent = bh_str_dup(life, in->user_agent);
    rq->body = ours ? in->body : bh_str_dup(a, in->body);
    rq->msg = in->msg;
    rq->msg_kind = in->msg_kind;
    rq->with_status = in->with_status && in->msg;
    rq->start_ns = bh_loop_mono_ns(srv->loop);
    rq->now = bh_server_now(srv);
    copy_user(rq, in->user);
    bh_list_add_tail(&srv->rqs, &rq->link);
    slot_take(srv, rq);
    return rq;
}

uint64_t bh_apiserver_handle(struct bh_apiserver *srv, const struct bh_api_request *in,
                             const struct bh_api_sink *sink)
{
    struct bh_rq *rq = rq_new(srv, in, sink);
    struct bh_str path = in->arena ? in->path : bh_str_dup(rq->a, in->path);
    uint64_t id = rq->id;
    struct bh_err err = {0};
    int r;

    if (bh_query_parse(rq->a, in->arena ? in->query : bh_str_dup(rq->a, in->query), &rq->q, &err) <
        0) {
        (void)bh_fail_msg(rq, BH_E_BAD_REQUEST, "%s", err.msg);
        r = -BH_E_BAD_REQUEST;
    } else {
        r = serve(rq, path);
    }
    if (r < 0)
        bh_rq_send_fail(rq);
    rq = slot_find(srv, id);
    if (rq)
        settle(rq);
    return rq ? id : 0;
}

void bh_apiserver_cancel(struct bh_apiserver *srv, uint64_t id)
{
    struct bh_rq *rq = slot_find(srv, id);

    if (!rq || rq->canceled)
        return;
    rq->canceled = true;
    if (rq->stop)
        rq->stop(rq);
}
