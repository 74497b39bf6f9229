/* The pipeline alone, over the memory store on the virtual loop: order, batches, rollback, the
 * head. */
#include "apiserver/pipeline.h"

#include "api/gen/core_v1.h"
#include "api/obj_commit.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/test.h"
#include "net/loop.h"

#include <stdio.h>
#include <string.h>

struct rig {
    struct bh_loop *l;
    struct bh_store *store;
    struct bh_wc *wc;
    struct bh_wc_res *res;
    struct bh_pipeline *p;
    struct bh_arena *a;
    struct bh_buf log; /* "name@rv " of each committed write, "name! " of each failed one */
};

static void rig_start(struct rig *r)
{
    memset(r, 0, sizeof(*r));
    r->a = bh_arena_new(0);
    r->l = bh_loop_new_virtual(bh_test_seed(), 0);
    r->store = bh_store_new_memory(r->l);
    r->wc = bh_wc_new();
    r->res = bh_wc_add(r->wc, &bh_core_v1_config_map_kind, BH_S("/registry/configmaps/"));
    bh_wc_loaded(r->wc, bh_store_rev(r->store), bh_store_rev(r->store));
    r->p = bh_pipeline_new(r->l, r->store, r->wc);
}

static void rig_stop(struct rig *r)
{
    bh_pipeline_free(r->p);
    bh_loop_advance(r->l, 1000000000);
    bh_wc_free(r->wc);
    bh_store_free(r->store);
    bh_loop_free(r->l);
    bh_buf_done(&r->log);
    bh_arena_free(r->a);
}

struct write {
    struct rig *r;
    const char *name;
};

static void done(void *arg, struct bh_obj *obj, const struct bh_err *err)
{
    struct write *w = arg;

    if (err)
        bh_buf_addf(&w->r->log, "%s! ", w->name);
    else
        bh_buf_addf(&w->r->log, "%s@%llu ", w->name, (unsigned long long)obj->rv);
}

static int submit(struct rig *r, enum bh_store_op op, const char *name, const char *value)
{
    struct bh_core_v1_config_map cm = {.metadata = {.name = bh_s(name), .namespace = BH_S("ns")}};
    struct bh_str_pair pair = {BH_S("k"), bh_s(value)};
    struct write *w = bh_arena_alloc(r->a, sizeof(*w));
    BH_AUTO_BUF json = {0};
    char key[64];

    w->r = r;
    w->name = name;
    cm.data = (struct bh_str_map){&pair, 1};
    bh_obj_encode(&bh_core_v1_config_map_kind, &cm, &json, NULL);
    (void)snprintf(key, sizeof(key), "/registry/configmaps/ns/%s", name);
    return bh_pipeline_submit(
        r->p, op, r->res, bh_s(key),
        bh_obj_new_pending(&bh_core_v1_config_map_kind, bh_buf_str(&json), &cm.metadata, NULL),
        done, w, NULL);
}

static struct bh_obj *head(struct rig *r, const char *name)
{
    char key[64];

    (void)snprintf(key, sizeof(key), "/registry/configmaps/ns/%s", name);
    return bh_pipeline_head(r->p, r->res, bh_s(key));
}

static struct bh_obj *shown(struct rig *r, const char *name)
{
    char key[64];

    (void)snprintf(key, sizeof(key), "/registry/configmaps/ns/%s", name);
    return bh_wc_get(r->res, bh_s(key));
}

BH_TEST(pipeline_commits_in_order_and_then_shows)
{
    struct rig r;

    rig_start(&r);
    BH_EQ(submit(&r, BH_STORE_CREATE, "a", "1"), 0);
    BH_EQ(submit(&r, BH_STORE_CREATE, "b", "1"), 0);
    BH_EQ(submit(&r, BH_STORE_UPDATE, "a", "2"), 0);
    /* The head has them at once, without a version; nothing is shown before it is durable. */
    BH_CHECK(head(&r, "a") && head(&r, "a")->rv == 0);
    BH_CHECK(shown(&r, "a") == NULL);
    BH_EQ(bh_pipeline_waiting(r.p), 3);
    bh_loop_advance(r.l, 1000000000);
    BH_STREQ(bh_buf_str(&r.log), "a@2 b@3 a@4 ");
    BH_EQ(shown(&r, "a")->rv, 4);
    BH_CHECK(bh_str_find(shown(&r, "a")->json, BH_S("\"resourceVersion\":\"4\"")) > 0);
    BH_CHECK(bh_str_find(shown(&r, "a")->json, BH_S("\"k\":\"2\"")) > 0);
    BH_EQ(submit(&r, BH_STORE_DELETE, "a", "2"), 0);
    BH_CHECK(head(&r, "a") == NULL);
    BH_CHECK(shown(&r, "a") != NULL);
    bh_loop_advance(r.l, 1000000000);
    BH_CHECK(shown(&r, "a") == NULL);
    BH_EQ(bh_wc_rv(r.wc), 5);
    rig_stop(&r);
}

BH_TEST(pipeline_undoes_everything_that_was_not_durable)
{
    struct rig r;

    rig_start(&r);
    BH_EQ(submit(&r, BH_STORE_CREATE, "a", "1"), 0);
    bh_loop_advance(r.l, 1000000000);
    bh_buf_clear(&r.log);
    bh_store_memory_fail(r.store, 1);
    BH_EQ(submit(&r, BH_STORE_UPDATE, "a", "2"), 0);
    BH_EQ(submit(&r, BH_STORE_CREATE, "b", "1"), 0);
    bh_loop_advance(r.l, 1000000000);
    BH_STREQ(bh_buf_str(&r.log), "a! b! ");
    BH_CHECK(bh_pipeline_trouble(r.p) != NULL);
    BH_CHECK(head(&r, "b") == NULL);
    BH_CHECK(head(&r, "a") == shown(&r, "a"));
    BH_EQ(shown(&r, "a")->rv, 2);
    /* The store works again. */
    bh_buf_clear(&r.log);
    BH_EQ(submit(&r, BH_STORE_CREATE, "b", "1"), 0);
    bh_loop_advance(r.l, 1000000000);
    BH_STREQ(bh_buf_str(&r.log), "b@3 ");
    BH_CHECK(bh_pipeline_trouble(r.p) == NULL);
    rig_stop(&r);
}

/* Random writes with a store that fails now and then: what was acknowledged is there, what failed
 * is not. */
BH_TEST(pipeline_never_loses_an_acknowledged_write)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct rig r;
    uint64_t x = bh_test_seed();

    rig_start(&r);
    for (int round = 0; round < 400; round++) {
        const char *name;

        x = x * 6364136223846793005u + 1442695040888963407u;
        name = names[(x >> 33) % BH_COUNT(names)];
        if ((x >> 40) % 10 == 0)
            bh_store_memory_fail(r.store, 1);
        if (!head(&r, name))
            BH_EQ(submit(&r, BH_STORE_CREATE, name, "v"), 0);
        else
            BH_EQ(submit(&r, (x >> 50) % 3 ? BH_STORE_UPDATE : BH_STORE_DELETE, name, "v"), 0);
        if ((x >> 60) % 4 == 0) {
            bh_loop_advance(r.l, 1000000000);
            for (size_t i = 0; i < BH_COUNT(names); i++)
                BH_CHECK(head(&r, names[i]) == shown(&r, names[i]));
            BH_EQ(bh_wc_rv(r.wc), bh_store_rev(r.store));
        }
    }
    bh_loop_advance(r.l, 1000000000);
    BH_EQ(bh_pipeline_waiting(r.p), 0);
    rig_stop(&r);
}

static void submit_many(struct rig *r, char (*names)[16], int n)
{
    for (int i = 0; i < n; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "n%d", i);
        BH_EQ(submit(r, BH_STORE_CREATE, names[i], "v"), 0);
    }
}

static void check_many(struct rig *r, char (*names)[16], int n, bool committed)
{
    BH_AUTO_BUF want = {0};

    for (int i = 0; i < n; i++)
        if (committed)
            bh_buf_addf(&want, "%s@%d ", names[i], i + 2);
        else
            bh_buf_addf(&want, "%s! ", names[i]);
    BH_STREQ(bh_buf_str(&r->log), bh_buf_cstr(&want));
}

/* More than one commit takes: all of it in order, or, when the first of the commits fails, nothing.
 */
BH_TEST(pipeline_splits_what_is_much)
{
    char names[2000][16];
    struct rig r;

    rig_start(&r);
    submit_many(&r, names, 2000);
    BH_EQ(bh_pipeline_waiting(r.p), 2000);
    bh_loop_advance(r.l, 1000000000);
    check_many(&r, names, 2000, true);
    BH_EQ(bh_pipeline_waiting(r.p), 0);
    rig_stop(&r);

    rig_start(&r);
    bh_store_memory_fail(r.store, 1);
    submit_many(&r, names, 2000);
    bh_loop_advance(r.l, 1000000000);
    check_many(&r, names, 2000, false);
    BH_EQ(bh_store_rev(r.store), 1);
    BH_EQ(bh_pipeline_waiting(r.p), 0);
    rig_stop(&r);
}

/* Each key that is not published once, with its newest write, those that are deleted aside. */
BH_TEST(pipeline_lists_the_heads)
{
    char names[600][16], name[16];
    struct bh_wc_res *other;
    struct bh_obj *o;
    struct rig r;
    int n = 0;

    rig_start(&r);
    other = bh_wc_add(r.wc, &bh_core_v1_config_map_kind, BH_S("/registry/others/"));
    submit_many(&r, names, 600);
    for (int i = 0; i < 600; i += 3)
        BH_EQ(submit(&r, i % 2 ? BH_STORE_UPDATE : BH_STORE_DELETE, names[i], "new"), 0);
    for (size_t it = 0; (o = bh_pipeline_next(r.p, r.res, &it));) {
        BH_CHECK(o->rv == 0);
        (void)snprintf(name, sizeof(name), "%.*s", BH_SF(o->name));
        BH_CHECK(head(&r, name) == o);
        n += bh_str_find(o->json, BH_S("\"new\"")) > 0 ? 1000 : 1;
    }
    BH_EQ(n, 100 * 1000 + 400);
    for (size_t it = 0; (o = bh_pipeline_next(r.p, other, &it));)
        BH_CHECK(false);
    bh_loop_advance(r.l, 1000000000);
    for (size_t it = 0; (o = bh_pipeline_next(r.p, r.res, &it));)
        BH_CHECK(false);
    rig_stop(&r);
}

static void free_pipeline(void *arg, struct bh_obj *obj, const struct bh_err *err)
{
    struct rig *r = arg;

    BH_CHECK(obj && !err);
    r->p = bh_pipeline_free(r->p);
}

/* When the first of a commit is answered the next commit is under way already: it ends in the store
 * though the pipeline goes. */
BH_TEST(pipeline_commits_while_it_answers)
{
    char names[300][16];
    struct rig r;

    rig_start(&r);
    BH_EQ(submit(&r, BH_STORE_CREATE, "first", "v"), 0);
    bh_pipeline_join(r.p, BH_S("/registry/configmaps/ns/first"), free_pipeline, &r);
    submit_many(&r, names, 300);
    bh_loop_advance(r.l, 1000000000);
    BH_CHECK(r.p == NULL);
    BH_STREQ(bh_buf_str(&r.log), "first@2 ");
    BH_EQ(bh_store_rev(r.store), 1 + BH_COMMIT_BATCH_EARLY + BH_COMMIT_BATCH_WHOLE);
    rig_stop(&r);
}
