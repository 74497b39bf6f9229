/* The API in memory. Calls wait for a timer of no delay, as with the in-process client: no callback
 * ever runs inside the call that asked for it. */
#include "mem_api.h"

#include <stdio.h>
#include <string.h>

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "api/obj_commit.h"
#include "api/patch.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "bench.h"
#include "client/client_int.h"

struct mem_kind {
    const struct bh_kind *kind;
    struct bh_map objs; /* "ns/name" -> struct bh_obj, referenced */
    struct bh_link watches;
};

struct mem_client {
    struct bh_client base;
    struct mem_api *m;
    bool measured;
};

struct mem_call {
    struct bh_link link;
    struct mem_client *c;
    uint64_t id;
    struct bh_client_req req; /* strings in the arena */
    void *msg;                /* the body as a struct */
    bh_client_fn fn;
    void *arg;
    struct bh_watch_handler watch; /* of those in the kind's list */
    struct bh_arena *a;
};

struct mem_api {
    struct bh_loop *loop;
    struct bh_map kinds; /* kind's api version and name -> struct mem_kind */
    struct bh_link calls;
    struct bh_timer pump;
    uint64_t rv, uid;
    double user, since; /* since: start of the measured callback that runs now, or 0 */
    bool delivering;
    size_t writes;
};

static struct mem_kind *kind_of(struct mem_api *m, const struct bh_kind *k)
{
    char key[128];
    struct mem_kind *mk;
    struct bh_str ks;

    snprintf(key, sizeof(key), "%.*s/%.*s", BH_SF(k->api_version), BH_SF(k->kind));
    ks = bh_s(key);
    mk = bh_map_get(&m->kinds, ks);
    if (mk)
        return mk;
    mk = bh_calloc(1, sizeof(*mk));
    mk->kind = k;
    bh_list_init(&mk->watches);
    (void)bh_map_put(&m->kinds, ks, mk);
    return mk;
}

/* ---- telling ---- */

static void enter(struct mem_api *m, const struct mem_client *c)
{
    m->delivering = c->measured;
    if (c->measured)
        m->since = bench_now();
}

static void leave(struct mem_api *m)
{
    if (m->delivering)
        m->user += bench_now() - m->since;
    m->delivering = false;
}

static void answer(struct mem_api *m, struct mem_call *k, const struct bh_client_res *res)
{
    if (!k->fn)
        return;
    enter(m, k->c);
    k->fn(k->arg, res);
    leave(m);
}

static void answer_obj(struct mem_api *m, struct mem_call *k, struct bh_obj *o)
{
    struct bh_client_res res = {.status = 200, .obj = o};

    answer(m, k, &res);
}

static void answer_error(struct mem_api *m, struct mem_call *k, int status, enum bh_code code)
{
    struct bh_client_res res = {.status = status};

    (void)bh_err_set(&res.err, code, "HTTP status %d", status);
    answer(m, k, &res);
}

static void tell(struct mem_api *m, struct mem_kind *mk, enum bh_cw_type t, struct bh_obj *o)
{
    bh_list_for_safe(it, &mk->watches)
    {
        struct mem_call *w = bh_container(it, struct mem_call, link);

        enter(m, w->c);
        w->watch.event(w->watch.arg, t, o, o->rv);
        leave(m);
    }
}

/* ---- objects ---- */

static struct bh_obj *find(struct mem_kind *mk, struct bh_str ns, struct bh_str name)
{
    char key[512];

    snprintf(key, sizeof(key), "%.*s%s%.*s", BH_SF(ns), ns.n ? "/" : "", BH_SF(name));
    return bh_map_get(&mk->objs, bh_s(key));
}

/* Stores the JSON as the newest version, tells the watchers; borrowed until the next change. */
static struct bh_obj *put(struct mem_api *m, struct mem_kind *mk, struct bh_str json)
{
    struct bh_err err = {0};
    struct bh_obj *o = bh_obj_new(mk->kind, json, ++m->rv, &err), *old;
    char key[512];

    if (!o)
        bench_fail("%s", err.msg);
    m->writes++;
    old = bh_map_put(&mk->objs, bh_obj_key(o, key, sizeof(key)), o);
    tell(m, mk, old ? BH_CW_MODIFIED : BH_CW_ADDED, o);
    (void)bh_obj_unref(old);
    return o;
}

static struct bh_obj *put_struct(struct mem_api *m, struct mem_kind *mk, const void *msg)
{
    BH_AUTO_BUF b = {0};

    bh_obj_encode(mk->kind, msg, &b, NULL);
    return put(m, mk, bh_buf_str(&b));
}

static void drop(struct mem_api *m, struct mem_kind *mk, struct bh_str ns, struct bh_str name)
{
    struct bh_obj *o = find(mk, ns, name);
    char key[512];

    if (!o)
        return;
    m->writes++;
    m->rv++;
    (void)bh_map_del(&mk->objs, bh_obj_key(o, key, sizeof(key)));
    tell(m, mk, BH_CW_DELETED, o);
    (void)bh_obj_unref(o);
}

static struct bh_str new_uid(struct mem_api *m, struct bh_arena *a)
{
    return bh_str_fmt(a, "00000000-0000-4000-8000-%012llx", (unsigned long long)++m->uid);
}

/* In the controller's place: the claims of a pod's templates, and their names in its status. */
static void make_claims(struct mem_api *m, struct bh_core_v1_pod *p, struct bh_arena *a)
{
    struct mem_kind *tk = kind_of(m, &bh_resource_v1_resource_claim_template_kind);
    struct mem_kind *ck = kind_of(m, &bh_resource_v1_resource_claim_kind);
    size_t n = p->spec.resource_claims.n;

    p->status.resource_claim_statuses.p =
        bh_new_n(a, struct bh_core_v1_pod_resource_claim_status, n + 1);
    for (size_t i = 0; i < n; i++) {
        const struct bh_core_v1_pod_resource_claim *rc = &p->spec.resource_claims.p[i];
        struct bh_meta_v1_owner_reference *owner = bh_new(a, struct bh_meta_v1_owner_reference);
        struct bh_resource_v1_resource_claim c = {0};
        struct bh_core_v1_pod_resource_claim_status *st =
            &p->status.resource_claim_statuses.p[p->status.resource_claim_statuses.n];
        struct bh_obj *t;

        if (!rc->has_resource_claim_template_name)
            continue;
        t = find(tk, p->metadata.namespace, rc->resource_claim_template_name);
        if (!t)
            bench_fail("no template %.*s", BH_SF(rc->resource_claim_template_name));
        *owner = (struct bh_meta_v1_owner_reference){.api_version = BH_S("v1"),
                                                     .kind = BH_S("Pod"),
                                                     .name = p->metadata.name,
                                                     .uid = p->metadata.uid,
                                                     .controller = true,
                                                     .has_controller = true};
        c.metadata.name = bh_str_fmt(a, "%.*s-%.*s", BH_SF(p->metadata.name), BH_SF(rc->name));
        c.metadata.namespace = p->metadata.namespace;
        c.metadata.uid = new_uid(m, a);
        c.metadata.owner_references.p = owner;
        c.metadata.owner_references.n = 1;
        c.spec =
            ((const struct bh_resource_v1_resource_claim_template *)bh_obj_struct(t))->spec.spec;
        (void)put_struct(m, ck, &c);
        st->name = rc->name;
        st->resource_claim_name = c.metadata.name;
        st->has_resource_claim_name = true;
        p->status.resource_claim_statuses.n++;
    }
}

static void *body_of(struct mem_call *k, const struct bh_kind *kind)
{
    struct bh_err err = {0};

    if (!k->msg && bh_kind_decode_json(kind, k->req.body, k->a, &k->msg, NULL, &err) < 0)
        bench_fail("%s", err.msg);
    return k->msg;
}

static void create(struct mem_api *m, struct mem_call *k)
{
    struct mem_kind *mk = kind_of(m, k->req.kind);
    struct bh_meta_v1_object_meta *meta;
    void *msg;

    if (k->req.kind == &bh_core_v1_event_kind) {
        m->writes++;
        answer_obj(m, k, NULL);
        return;
    }
    msg = body_of(k, k->req.kind);
    meta = (void *)((char *)msg + k->req.kind->meta_off);
    meta->namespace = k->req.ns;
    meta->uid = new_uid(m, k->a);
    meta->generation = 1;
    if (!meta->name.n)
        meta->name =
            bh_str_fmt(k->a, "%.*s%llx", BH_SF(meta->generate_name), (unsigned long long)m->uid);
    if (k->req.kind == &bh_core_v1_pod_kind)
        make_claims(m, msg, k->a);
    answer_obj(m, k, put_struct(m, mk, msg));
}

static void bind_pod(struct mem_api *m, struct mem_call *k)
{
    static struct bh_core_v1_pod_condition scheduled = {.type = BH_S_INIT("PodScheduled"),
                                                        .status = BH_S_INIT("True")};
    struct mem_kind *mk = kind_of(m, &bh_core_v1_pod_kind);
    struct bh_obj *o = find(mk, k->req.ns, k->req.name);
    struct bh_core_v1_pod p;
    void *msg;

    msg = body_of(k, &bh_core_v1_binding_kind);
    if (!o) {
        answer_error(m, k, 404, BH_E_NOT_FOUND);
        return;
    }
    p = *(const struct bh_core_v1_pod *)bh_obj_struct(o);
    if (p.spec.node_name.n) {
        answer_error(m, k, 409, BH_E_CONFLICT);
        return;
    }
    p.spec.node_name = ((const struct bh_core_v1_binding *)msg)->target.name;
    p.status.conditions.p = &scheduled;
    p.status.conditions.n = 1;
    (void)put_struct(m, mk, &p);
    answer_obj(m, k, NULL);
}

static void update(struct mem_api *m, struct mem_call *k)
{
    struct mem_kind *mk = kind_of(m, k->req.kind);
    struct bh_obj *o = find(mk, k->req.ns, k->req.name);
    const struct bh_meta_v1_object_meta *meta;
    int64_t rv;
    void *msg;

    msg = body_of(k, k->req.kind);
    meta = (const void *)((const char *)msg + k->req.kind->meta_off);
    if (!o)
        answer_error(m, k, 404, BH_E_NOT_FOUND);
    else if (!bh_str_i64(meta->resource_version, 0, INT64_MAX, &rv) || (uint64_t)rv != o->rv)
        answer_error(m, k, 409, BH_E_CONFLICT);
    else
        answer_obj(m, k, put_struct(m, mk, msg));
}

static void patch(struct mem_api *m, struct mem_call *k)
{
    struct mem_kind *mk = kind_of(m, k->req.kind);
    struct bh_obj *o = find(mk, k->req.ns, k->req.name);
    BH_AUTO_BUF out = {0};
    struct bh_err err = {0};
    int r;

    if (!o) {
        answer_error(m, k, 404, BH_E_NOT_FOUND);
        return;
    }
    if (k->req.patch == BH_PATCH_STRATEGIC)
        r = bh_patch_strategic(mk->kind->type, o->json, k->req.body, k->a, &out, NULL, &err);
    else if (k->req.patch == BH_PATCH_JSON)
        r = bh_patch_json(o->json, k->req.body, k->a, &out, NULL, &err);
    else
        r = bh_patch_merge(o->json, k->req.body, k->a, &out, NULL, &err);
    if (r == -BH_E_INVALID) { /* a test in it does not hold */
        answer_error(m, k, 422, BH_E_INVALID);
        return;
    }
    if (r < 0)
        bench_fail("%s", err.msg);
    answer_obj(m, k, put(m, mk, bh_buf_str(&out)));
}

static void delete (struct mem_api *m, struct mem_call *k)
{
    struct mem_kind *mk = kind_of(m, k->req.kind);
    struct bh_obj *o = find(mk, k->req.ns, k->req.name);
    const struct bh_core_v1_pod *p;

    if (!o) {
        answer_error(m, k, 404, BH_E_NOT_FOUND);
        return;
    }
    o = bh_obj_ref(o);
    drop(m, mk, k->req.ns, k->req.name);
    if (k->req.kind == &bh_core_v1_pod_kind) {
        p = bh_obj_struct(o);
        for (size_t i = 0; i < p->status.resource_claim_statuses.n; i++)
            drop(m, kind_of(m, &bh_resource_v1_resource_claim_kind), k->req.ns,
                 p->status.resource_claim_statuses.p[i].resource_claim_name);
    }
    answer_obj(m, k, o);
    (void)bh_obj_unref(o);
}

static void list(struct mem_api *m, struct mem_call *k)
{
    struct mem_kind *mk = kind_of(m, k->req.kind);
    struct bh_client_res res = {.status = 200, .list_rv = m->rv};
    size_t it = 0;
    void *v;

    res.items = bh_new_n(k->a, struct bh_obj *, mk->objs.n + 1);
    while (bh_map_next(&mk->objs, &it, NULL, &v))
        res.items[res.items_n++] = v;
    answer(m, k, &res);
}

static void serve(struct mem_api *m, struct mem_call *k)
{
    struct bh_obj *o;

    switch (k->req.verb) {
    case BH_VERB_LIST:
        list(m, k);
        break;
    case BH_VERB_GET:
        o = find(kind_of(m, k->req.kind), k->req.ns, k->req.name);
        if (o)
            answer_obj(m, k, o);
        else
            answer_error(m, k, 404, BH_E_NOT_FOUND);
        break;
    case BH_VERB_CREATE:
        if (bh_str_eqc(k->req.subresource, "binding"))
            bind_pod(m, k);
        else
            create(m, k);
        break;
    case BH_VERB_UPDATE:
        update(m, k);
        break;
    case BH_VERB_PATCH:
        patch(m, k);
        break;
    case BH_VERB_DELETE:
        delete (m, k);
        break;
    case BH_VERB_DELETE_COLLECTION:
    case BH_VERB_WATCH:
        bench_fail("the API in memory cannot do that");
    }
}

static void call_free(struct mem_call *k)
{
    struct bh_arena *a = k->a;

    bh_list_del(&k->link);
    (void)bh_arena_free(a);
}

static void pump(void *arg)
{
    struct mem_api *m = arg;
    struct bh_link now;

    bh_list_init(&now);
    while (!bh_list_empty(&m->calls)) {
        struct bh_link *l = m->calls.next;

        bh_list_del(l);
        bh_list_add_tail(&now, l);
    }
    while (!bh_list_empty(&now)) {
        struct mem_call *k = bh_container(now.next, struct mem_call, link);

        bh_list_del(&k->link);
        if (k->id)
            serve(m, k);
        call_free(k);
    }
}

/* ---- the client ---- */

static struct mem_call *new_call(struct bh_client *base, uint64_t id,
                                 const struct bh_client_req *req)
{
    struct mem_client *c = (struct mem_client *)base;
    struct bh_arena *a = bh_arena_new(0);
    struct mem_call *k = bh_new(a, struct mem_call);

    k->a = a;
    k->c = c;
    k->id = id;
    k->req = *req;
    k->req.ns = bh_str_dup(a, req->ns);
    k->req.name = bh_str_dup(a, req->name);
    k->req.subresource = bh_str_dup(a, req->subresource);
    k->req.body = bh_str_dup(a, req->body);
    if (req->msg)
        k->msg = bh_msg_dup(req->msg_kind->type, req->msg, a);
    return k;
}

/* What a call costs is not its caller's. */
static double pause_user(const struct mem_client *c)
{
    return c->measured ? bench_now() : 0;
}

static void resume_user(struct mem_client *c, double at)
{
    if (c->measured)
        c->m->user -= bench_now() - at;
}

static void mem_call(struct bh_client *base, uint64_t id, const struct bh_client_req *req,
                     bh_client_fn fn, void *arg)
{
    struct mem_client *c = (struct mem_client *)base;
    double at = pause_user(c);
    struct mem_call *k = new_call(base, id, req);

    k->fn = fn;
    k->arg = arg;
    bh_list_add_tail(&c->m->calls, &k->link);
    if (!bh_timer_armed(&c->m->pump))
        bh_timer_start(&c->m->pump, 0);
    resume_user(c, at);
}

static void mem_watch(struct bh_client *base, uint64_t id, const struct bh_client_req *req,
                      uint64_t rv, const struct bh_watch_handler *h)
{
    struct mem_client *c = (struct mem_client *)base;
    struct mem_call *k = new_call(base, id, req);

    (void)rv; /* a watch begins in the callback of its list: nothing happened in between */
    k->watch = *h;
    bh_list_add_tail(&kind_of(c->m, req->kind)->watches, &k->link);
}

static void mem_cancel(struct bh_client *base, uint64_t id)
{
    struct mem_api *m = ((struct mem_client *)base)->m;
    size_t it = 0;
    void *v;

    bh_list_for(l, &m->calls)
    {
        struct mem_call *k = bh_container(l, struct mem_call, link);

        if (k->c == (struct mem_client *)base && k->id == id)
            k->id = 0;
    }
    while (bh_map_next(&m->kinds, &it, NULL, &v))
        bh_list_for_safe(l2, &((struct mem_kind *)v)->watches)
        {
            struct mem_call *k = bh_container(l2, struct mem_call, link);

            if (k->c == (struct mem_client *)base && k->id == id)
                call_free(k);
        }
}

static void mem_free(struct bh_client *base)
{
    struct mem_client *c = (struct mem_client *)base;

    bh_list_for_safe(l, &c->m->calls)
    {
        struct mem_call *k = bh_container(l, struct mem_call, link);

        if (k->c == c)
            call_free(k);
    }
    bh_free(c);
}

struct bh_client *mem_api_client(struct mem_api *m, bool measured)
{
    static const struct bh_client_vtable vt = {mem_call, mem_watch, mem_cancel, mem_free};
    struct mem_client *c = bh_calloc(1, sizeof(*c));

    c->base.vt = &vt;
    c->base.loop = m->loop;
    c->m = m;
    c->measured = measured;
    return &c->base;
}

struct mem_api *mem_api_new(struct bh_loop *l)
{
    struct mem_api *m = bh_calloc(1, sizeof(*m));

    m->loop = l;
    bh_list_init(&m->calls);
    bh_timer_init(&m->pump, l, pump, m);
    return m;
}

struct mem_api *mem_api_free(struct mem_api *m)
{
    size_t it = 0, it2;
    void *v, *o;

    if (!m)
        return NULL;
    bh_timer_stop(&m->pump);
    while (bh_map_next(&m->kinds, &it, NULL, &v)) {
        struct mem_kind *mk = v;

        for (it2 = 0; bh_map_next(&mk->objs, &it2, NULL, &o);)
            (void)bh_obj_unref(o);
        bh_map_done(&mk->objs);
        bh_free(mk);
    }
    bh_map_done(&m->kinds);
    bh_free(m);
    return NULL;
}

double mem_api_user_seconds(const struct mem_api *m)
{
    return m->user;
}

size_t mem_api_writes(const struct mem_api *m)
{
    return m->writes;
}
