/* A whole API server on a virtual loop. */
#include "client/world_test.h"

#include "apiserver/apiserver.h"
#include "base/arena.h"
#include "base/test.h"
#include "store/store.h"

#define ANSWER_MS 40000 /* longer than any request may take */

static void unref(void *arg)
{
    (void)bh_obj_unref(arg);
}

void world_open(struct world *w)
{
    world_open_with(w, NULL);
}

void world_open_with(struct world *w, const char *feature_gates)
{
    struct bh_apiserver_opts o = {.authorization_mode = "Node,RBAC",
                                  .disable_admission = "ServiceAccount",
                                  .feature_gates = feature_gates};
    struct bh_err err = {0};

    *w = (struct world){.arena = bh_arena_new(0)};
    w->loop = bh_loop_new_virtual(7, WORLD_START_S * 1000000000);
    w->store = bh_store_new_memory(w->loop);
    if (bh_apiserver_new(w->loop, w->store, &o, &w->srv, &err) < 0) {
        bh_test_fail(__FILE__, __LINE__, "no API server: %s", err.msg);
        return;
    }
    w->client = world_client(w, "admin", "system:masters");
    world_run(w, 1000);
}

void world_close(struct world *w)
{
    (void)bh_arena_free(w->arena);
    (void)bh_client_free(w->client);
    (void)bh_apiserver_free(w->srv);
    world_run(w, 100); /* a commit under way ends on the loop */
    (void)bh_store_free(w->store);
    (void)bh_loop_free(w->loop);
}

void world_run(struct world *w, int64_t ms)
{
    bh_loop_advance(w->loop, ms * 1000000);
}

struct bh_client *world_client(struct world *w, const char *user, const char *group)
{
    const struct bh_str groups[] = {BH_S("system:authenticated"), bh_s(group)};

    return bh_client_new_inproc(w->loop, w->srv, bh_s(user), groups, group ? 2 : 1, "test");
}

struct waiting {
    struct world *w;
    struct bh_obj *obj;
};

static void answered(void *arg, const struct bh_client_res *res)
{
    struct waiting *a = arg;

    a->w->answered = true;
    a->w->code = res->err.code;
    a->w->status = res->status;
    a->w->message = bh_str_dup(a->w->arena, bh_s(res->err.msg));
    a->w->items_n = res->items_n;
    if (res->err.code == BH_OK && res->obj) {
        a->obj = bh_obj_ref(res->obj);
        bh_arena_on_reset(a->w->arena, unref, a->obj);
    }
}

struct bh_obj *world_call(struct world *w, const struct bh_client_req *req)
{
    struct waiting a = {.w = w};

    w->answered = false;
    (void)bh_client_call(w->client, req, answered, &a);
    for (int i = 0; i < ANSWER_MS && !w->answered; i++)
        world_run(w, 1);
    BH_CHECK(w->answered);
    return a.obj;
}

static struct bh_obj *must(struct world *w, const struct bh_client_req *req)
{
    struct bh_obj *o = world_call(w, req);

    if (!o)
        bh_test_fail(__FILE__, __LINE__, "%.*s %.*s: %.*s", BH_SF(req->kind->kind),
                     BH_SF(req->name), BH_SF(w->message));
    return o;
}

struct bh_obj *world_make(struct world *w, const struct bh_kind *k, const char *ns,
                          const char *json)
{
    return must(w, &(struct bh_client_req){
                       .verb = BH_VERB_CREATE, .kind = k, .ns = bh_s(ns), .body = bh_s(json)});
}

struct bh_obj *world_get(struct world *w, const struct bh_kind *k, const char *ns, const char *name)
{
    return world_call(w, &(struct bh_client_req){
                             .verb = BH_VERB_GET, .kind = k, .ns = bh_s(ns), .name = bh_s(name)});
}

struct bh_obj *world_merge(struct world *w, const struct bh_kind *k, const char *ns,
                           const char *name, const char *sub, const char *json)
{
    return must(w, &(struct bh_client_req){.verb = BH_VERB_PATCH,
                                           .kind = k,
                                           .ns = bh_s(ns),
                                           .name = bh_s(name),
                                           .subresource = bh_s(sub),
                                           .patch = BH_PATCH_MERGE,
                                           .body = bh_s(json)});
}

void world_delete(struct world *w, const struct bh_kind *k, const char *ns, const char *name,
                  const char *options)
{
    (void)world_call(w, &(struct bh_client_req){.verb = BH_VERB_DELETE,
                                                .kind = k,
                                                .ns = bh_s(ns),
                                                .name = bh_s(name),
                                                .body = bh_s(options)});
    if (w->code != BH_OK)
        bh_test_fail(__FILE__, __LINE__, "delete %s: %.*s", name, BH_SF(w->message));
}

size_t world_count(struct world *w, const struct bh_kind *k, const char *ns)
{
    (void)world_call(w, &(struct bh_client_req){.verb = BH_VERB_LIST, .kind = k, .ns = bh_s(ns)});
    return w->items_n;
}
