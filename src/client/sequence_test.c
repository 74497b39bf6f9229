/* Sequences of writes, in one go and one after the other: what is tried, what is told, and what is
 * left when one of them fails, is cancelled or is lost. */
#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/test.h"
#include "client/client_int.h"
#include "client/flaky_test.h"
#include "client/world_test.h"
#include "store/store.h"

#define CM      &bh_core_v1_config_map_kind
#define CLAIM   &bh_resource_v1_resource_claim_kind
#define CLAIM_T struct bh_resource_v1_resource_claim

struct told {
    struct bh_client *free_client;
    int answers;
    size_t n;
    int status[4];
    enum bh_code code[4];
    struct bh_obj *obj[4]; /* referenced */
};

static void told(void *arg, const struct bh_client_res *res, size_t n)
{
    struct told *t = arg;

    t->answers++;
    t->n = n;
    for (size_t i = 0; i < n && i < 4; i++) {
        t->status[i] = res[i].status;
        t->code[i] = res[i].err.code;
        (void)bh_obj_unref(t->obj[i]);
        t->obj[i] = res[i].obj ? bh_obj_ref(res[i].obj) : NULL;
    }
    t->free_client = bh_client_free(t->free_client);
}

static void told_done(struct told *t)
{
    for (size_t i = 0; i < 4; i++)
        t->obj[i] = bh_obj_unref(t->obj[i]);
}

/* The same world twice: clients that hand a sequence over, and clients that send it in parts. */
struct both {
    struct world w;
    struct flaky parts;
    struct bh_client *c;
};

static void both_open(struct both *b, int way)
{
    world_open(&b->w);
    flaky_init(&b->parts, b->w.client);
    b->parts.parts = true;
    b->c = way ? &b->parts.base : b->w.client;
}

static void both_close(struct both *b)
{
    (void)bh_client_free(&b->parts.base);
    world_close(&b->w);
}

static struct bh_client_req making(const struct bh_core_v1_config_map *cm)
{
    return (struct bh_client_req){
        .verb = BH_VERB_CREATE, .kind = CM, .ns = BH_S("default"), .msg = cm, .msg_kind = CM};
}

BH_TEST(sequence_runs_in_order)
{
    for (int way = 0; way < 2; way++) {
        struct bh_core_v1_config_map a = {.metadata = {.name = BH_S("a")}};
        struct told t = {0};
        struct both b;

        both_open(&b, way);
        struct bh_client_req reqs[] = {
            making(&a),
            {.verb = BH_VERB_PATCH,
             .kind = CM,
             .ns = BH_S("default"),
             .name = BH_S("a"),
             .patch = BH_PATCH_MERGE,
             .body = BH_S("{\"data\":{\"k\":\"v\"}}")},
            {.verb = BH_VERB_DELETE, .kind = CM, .ns = BH_S("default"), .name = BH_S("a")}};
        BH_CHECK(bh_client_sequence(b.c, reqs, 2, told, &t) != 0);
        BH_EQ(t.answers, 0);
        world_run(&b.w, 100);
        BH_EQ(t.answers, 1);
        BH_EQ(t.n, 2);
        BH_EQ(t.status[0], 201);
        BH_EQ(t.status[1], 200);
        BH_CHECK(t.obj[0] && t.obj[1] && t.obj[1]->rv > t.obj[0]->rv);
        BH_CHECK(world_get(&b.w, CM, "default", "a"));
        (void)bh_client_sequence(b.c, reqs + 2, 1, told, &t);
        world_run(&b.w, 100);
        BH_EQ(t.n, 1);
        BH_EQ(t.status[0], 200);
        BH_EQ(world_count(&b.w, CM, "default"), 0);
        told_done(&t);
        both_close(&b);
    }
}

/* In process, all of it is accepted in the same turn and durable together. */
BH_TEST(sequence_shares_a_commit)
{
    struct bh_core_v1_config_map a = {.metadata = {.name = BH_S("a")}},
                                 b = {.metadata = {.name = BH_S("b")}};
    struct told t = {0};
    struct world w;

    world_open(&w);
    struct bh_client_req reqs[] = {making(&a), making(&b)};
    (void)bh_client_sequence(w.client, reqs, 2, told, &t);
    bh_store_memory_fail(w.store, 2); /* the second commit, if there were one */
    world_run(&w, 100);
    BH_EQ(t.answers, 1);
    BH_EQ(t.n, 2);
    BH_EQ(t.code[1], BH_OK);
    BH_EQ(t.obj[1]->rv, t.obj[0]->rv + 1);
    told_done(&t);
    world_close(&w);
}

BH_TEST(sequence_ends_with_what_is_refused)
{
    for (int way = 0; way < 2; way++) {
        struct bh_core_v1_config_map a = {.metadata = {.name = BH_S("a")}},
                                     bad = {.metadata = {.name = BH_S("B_d")}};
        struct told t = {0};
        struct both b;

        both_open(&b, way);
        struct bh_client_req first[] = {making(&bad), making(&a)},
                             second[] = {making(&a), making(&bad), making(&a)};
        (void)bh_client_sequence(b.c, first, 2, told, &t);
        world_run(&b.w, 100);
        BH_EQ(t.answers, 1);
        BH_EQ(t.n, 1);
        BH_EQ(t.status[0], 422);
        BH_CHECK(!world_get(&b.w, CM, "default", "a"));
        (void)bh_client_sequence(b.c, second, 3, told, &t);
        world_run(&b.w, 100);
        BH_EQ(t.answers, 2);
        BH_EQ(t.n, 2);
        BH_EQ(t.status[0], 201);
        BH_EQ(t.status[1], 422);
        BH_CHECK(world_get(&b.w, CM, "default", "a"));
        told_done(&t);
        both_close(&b);
    }
}

BH_TEST(sequence_that_is_lost)
{
    struct bh_core_v1_config_map a = {.metadata = {.name = BH_S("a")}},
                                 c = {.metadata = {.name = BH_S("c")}};
    struct told t = {0};
    struct both b;

    /* Accepted, and then not durable: the first says so, nothing is there. */
    both_open(&b, 0);
    struct bh_client_req reqs[] = {making(&a), making(&c)};
    bh_store_memory_fail(b.w.store, 1);
    (void)bh_client_sequence(b.c, reqs, 2, told, &t);
    world_run(&b.w, 100);
    BH_EQ(t.answers, 1);
    BH_EQ(t.n, 1);
    BH_EQ(t.status[0], 500);
    BH_CHECK(!world_get(&b.w, CM, "default", "a"));
    BH_CHECK(!world_get(&b.w, CM, "default", "c"));
    both_close(&b);
    /* No answer. */
    both_open(&b, 1);
    b.parts.calls = FLAKY_HANG;
    (void)bh_client_sequence(b.c, reqs, 2, told, &t);
    world_run(&b.w, 40000);
    BH_EQ(t.answers, 2);
    BH_EQ(t.n, 1);
    BH_EQ(t.status[0], 0);
    BH_EQ(t.code[0], BH_E_TIMEOUT);
    both_close(&b);
    told_done(&t);
}

/* A refusal that was computed from writes which are lost afterwards is not told: they are. */
BH_TEST(sequence_refused_and_lost)
{
    struct bh_core_v1_config_map a = {.metadata = {.name = BH_S("a")}};
    struct told t = {0};
    struct world w;

    world_open(&w);
    struct bh_client_req reqs[] = {making(&a), making(&a)};
    bh_store_memory_fail(w.store, 1);
    (void)bh_client_sequence(w.client, reqs, 2, told, &t);
    world_run(&w, 100);
    BH_EQ(t.n, 1);
    BH_EQ(t.status[0], 500);
    (void)bh_client_sequence(w.client, reqs, 2, told, &t);
    world_run(&w, 100);
    BH_EQ(t.n, 2);
    BH_EQ(t.code[0], BH_OK);
    BH_EQ(t.code[1], BH_E_EXISTS);
    told_done(&t);
    world_close(&w);
}

BH_TEST(sequence_is_cancelled)
{
    for (int way = 0; way < 2; way++) {
        struct bh_core_v1_config_map a = {.metadata = {.name = BH_S("a")}},
                                     c = {.metadata = {.name = BH_S("c")}};
        struct told t = {0};
        struct both b;
        uint64_t id;

        both_open(&b, way);
        struct bh_client_req reqs[] = {making(&a), making(&c)};
        bh_client_cancel(b.c, bh_client_sequence(b.c, reqs, 2, told, &t));
        world_run(&b.w, 100);
        BH_EQ(world_count(&b.w, CM, "default"), 0);
        /* The server knows: of all of it, or of the first. */
        id = bh_client_sequence(b.c, reqs, 2, told, &t);
        world_run(&b.w, 0);
        bh_client_cancel(b.c, id);
        bh_client_cancel(b.c, id);
        world_run(&b.w, 100);
        BH_EQ(t.answers, 0);
        BH_CHECK(world_get(&b.w, CM, "default", "a"));
        BH_EQ(world_get(&b.w, CM, "default", "c") != NULL, way == 0);
        both_close(&b);
    }
}

BH_TEST(sequence_and_a_client_that_goes)
{
    for (int way = 0; way < 2; way++)
        for (int when = 0; when < 3; when++) {
            struct bh_core_v1_config_map a = {.metadata = {.name = BH_S("a")}},
                                         d = {.metadata = {.name = BH_S("d")}},
                                         e = {.metadata = {.name = BH_S("e")}};
            struct told t = {0};
            struct both b;
            struct bh_client *own;
            struct flaky f;

            both_open(&b, 0);
            own = world_client(&b.w, "other", "system:masters");
            flaky_init(&f, own);
            f.parts = true;
            struct bh_client *c = way ? &f.base : own;
            struct bh_client_req reqs[] = {making(&a), making(&d), making(&e)};
            (void)bh_client_sequence(c, reqs, 2, told, &t);
            (void)bh_client_sequence(c, reqs + 2, 1, told, &t);
            if (when == 2)
                t.free_client = c; /* by the first answer */
            else if (when == 1)
                world_run(&b.w, 0);
            if (when < 2)
                (void)bh_client_free(c);
            world_run(&b.w, 100);
            BH_EQ(t.answers, when == 2);
            if (way)
                (void)bh_client_free(own);
            told_done(&t);
            both_close(&b);
        }
}

/* ---- object and status ---- */

static struct bh_str finalizers[] = {BH_S_INIT("resource.kubernetes.io/delete-protection")};
static struct bh_resource_v1_allocation_result allocation;
static struct bh_resource_v1_resource_claim_consumer_reference consumer = {
    .resource = BH_S_INIT("pods"), .name = BH_S_INIT("p"), .uid = BH_S_INIT("u-1")};

static void allocate(CLAIM_T *c)
{
    c->metadata.finalizers = (struct bh_str_vec){finalizers, 1};
    c->status.allocation = &allocation;
    c->status.reserved_for.p = &consumer;
    c->status.reserved_for.n = 1;
}

static struct bh_client_req whole(enum bh_client_verb verb, const CLAIM_T *c)
{
    return (struct bh_client_req){.verb = verb,
                                  .kind = CLAIM,
                                  .ns = BH_S("default"),
                                  .name = verb == BH_VERB_CREATE ? (struct bh_str){NULL, 0}
                                                                 : c->metadata.name,
                                  .msg = c,
                                  .msg_kind = CLAIM,
                                  .with_status = true};
}

/* What both ways must agree on: everything but uid, version and times. */
static struct bh_str essence(struct world *w, const struct bh_obj *o)
{
    CLAIM_T c = *(const CLAIM_T *)bh_obj_struct(o);
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < c.metadata.managed_fields.n; i++)
        c.metadata.managed_fields.p[i].time = (struct bh_time){0, 0};
    c.metadata.uid = c.metadata.resource_version = (struct bh_str){NULL, 0};
    c.metadata.creation_timestamp = (struct bh_time){0, 0};
    bh_kind_encode_json(CLAIM, &c, &b);
    return bh_str_dup(w->arena, bh_buf_str(&b));
}

BH_TEST(sequence_with_status_is_one_write)
{
    struct both b[2];
    struct bh_str made[2], updated[2];

    for (int way = 0; way < 2; way++) {
        CLAIM_T c = {.metadata = {.name = BH_S("c")}}, u;
        struct told t = {0};
        uint64_t before;

        both_open(&b[way], way);
        allocate(&c);
        struct bh_client_req req = whole(BH_VERB_CREATE, &c);
        (void)bh_client_sequence(b[way].c, &req, 1, told, &t);
        world_run(&b[way].w, 100);
        BH_EQ(t.answers, 1);
        BH_EQ(t.status[0], way ? 200 : 201);
        BH_CHECK(t.obj[0] != NULL);
        made[way] = essence(&b[way].w, world_get(&b[way].w, CLAIM, "default", "c"));
        before = world_make(&b[way].w, CLAIM, "default", "{\"metadata\":{\"name\":\"d\"}}")->rv;
        u = *(const CLAIM_T *)bh_obj_struct(world_get(&b[way].w, CLAIM, "default", "d"));
        allocate(&u);
        req = whole(BH_VERB_UPDATE, &u);
        (void)bh_client_sequence(b[way].c, &req, 1, told, &t);
        world_run(&b[way].w, 100);
        BH_EQ(t.answers, 2);
        BH_EQ(t.status[0], 200);
        BH_EQ(t.obj[0]->rv, before + (way ? 2 : 1));
        updated[way] = essence(&b[way].w, t.obj[0]);
        told_done(&t);
    }
    BH_CHECK(bh_str_eq(made[0], made[1]));
    BH_CHECK(bh_str_eq(updated[0], updated[1]));
    BH_CHECK(bh_str_find(made[0], BH_S("\"allocation\":{")) >= 0);
    BH_CHECK(bh_str_find(made[0], BH_S("\"subresource\":\"status\"")) >= 0);
    BH_CHECK(bh_str_find(updated[0], BH_S("\"reservedFor\":[{")) >= 0);
    for (int way = 0; way < 2; way++)
        both_close(&b[way]);
}

BH_TEST(sequence_with_status_is_checked_as_both)
{
    for (int way = 0; way < 2; way++) {
        CLAIM_T c = {.metadata = {.name = BH_S("c")}};
        struct told t = {0};
        struct both b;

        both_open(&b, way);
        (void)world_make(&b.w, CLAIM, "default", "{\"metadata\":{\"name\":\"c\"}}");
        c = *(const CLAIM_T *)bh_obj_struct(world_get(&b.w, CLAIM, "default", "c"));
        allocate(&c);
        consumer.name.n = 0; /* the status is refused: in process nothing of it is written */
        struct bh_client_req req = whole(BH_VERB_UPDATE, &c);
        (void)bh_client_sequence(b.c, &req, 1, told, &t);
        consumer.name.n = 1;
        world_run(&b.w, 100);
        BH_EQ(t.answers, 1);
        BH_EQ(t.status[0], 422);
        BH_EQ(t.obj[0] != NULL, way == 1); /* the half that was written */
        c = *(const CLAIM_T *)bh_obj_struct(world_get(&b.w, CLAIM, "default", "c"));
        BH_EQ(c.metadata.finalizers.n, (size_t)way);
        BH_CHECK(!c.status.allocation);
        /* An old version. */
        c.metadata.resource_version = BH_S("1");
        allocate(&c);
        (void)bh_client_sequence(b.c, &req, 1, told, &t);
        world_run(&b.w, 100);
        BH_EQ(t.code[0], BH_E_CONFLICT);
        told_done(&t);
        both_close(&b);
    }
}

BH_TEST(sequence_with_status_is_allowed_as_both)
{
    CLAIM_T c = {.metadata = {.name = BH_S("c")}};
    struct bh_client *nobody;
    struct told t = {0};
    struct world w;

    world_open(&w);
    allocate(&c);
    nobody = world_client(&w, "nobody", NULL);
    struct bh_client_req req = whole(BH_VERB_CREATE, &c);
    (void)bh_client_sequence(nobody, &req, 1, told, &t);
    world_run(&w, 100);
    BH_EQ(t.status[0], 403);
    told_done(&t);
    (void)bh_client_free(nobody);
    world_close(&w);
}

/* A server whose answers are no objects of the kind. */
struct bare {
    struct bh_client base;
    int calls;
    bh_client_fn fn;
    void *arg;
};

static void bare_call(struct bh_client *base, uint64_t id, const struct bh_client_req *req,
                      bh_client_fn fn, void *arg)
{
    struct bare *c = (struct bare *)base;

    (void)id, (void)req;
    c->calls++;
    c->fn = fn;
    c->arg = arg;
}

/* The status could not be sent: that is no success, and what follows is not tried. */
BH_TEST(sequence_with_status_and_no_object)
{
    static const struct bh_client_vtable vt = {.call = bare_call};
    const struct bh_client_res res = {.status = 201};
    CLAIM_T claim = {.metadata = {.name = BH_S("c")}};
    struct bare c = {.base = {.vt = &vt}};
    struct told t = {0};

    allocate(&claim);
    struct bh_client_req reqs[] = {whole(BH_VERB_CREATE, &claim), whole(BH_VERB_CREATE, &claim)};
    (void)bh_client_sequence(&c.base, reqs, 2, told, &t);
    BH_EQ(c.calls, 1);
    c.fn(c.arg, &res);
    BH_EQ(c.calls, 1);
    BH_EQ(t.answers, 1);
    BH_EQ(t.n, 1);
    BH_EQ(t.code[0], BH_E_PROTO);
    told_done(&t);
}
