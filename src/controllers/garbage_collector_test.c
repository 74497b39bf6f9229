/* Dependents follow their owners: background, foreground, orphans, several owners, circles. */
#include <stdio.h>

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"
#include "base/test.h"
#include "controllers/cluster_test.h"

#define CM         &bh_core_v1_config_map_kind
#define FOREGROUND "{\"propagationPolicy\":\"Foreground\"}"
#define ORPHAN     "{\"propagationPolicy\":\"Orphan\"}"

static void open_gc(struct tc *t)
{
    tc_open(t, "garbage-collector-controller");
}

static const char *ref(struct tc *t, const struct bh_obj *owner, bool block)
{
    return tc_fmt(t,
                  "{\"apiVersion\":\"v1\",\"kind\":\"%.*s\",\"name\":\"%.*s\",\"uid\":\"%.*s\"%s}",
                  BH_SF(owner->kind->kind), BH_SF(owner->name), BH_SF(owner->uid),
                  block ? ",\"blockOwnerDeletion\":true" : "");
}

/* refs: a JSON list's inside, or "". */
static struct bh_obj *make(struct tc *t, const char *name, const char *refs)
{
    return world_make(
        &t->w, CM, "default",
        tc_fmt(t, "{\"metadata\":{\"name\":\"%s\",\"ownerReferences\":[%s]}}", name, refs));
}

static bool there(struct tc *t, const char *name)
{
    return world_get(&t->w, CM, "default", name) != NULL;
}

static size_t refs_of(struct tc *t, const char *name)
{
    struct bh_obj *o = world_get(&t->w, CM, "default", name);

    return o ? ((const struct bh_core_v1_config_map *)bh_obj_struct(o))->metadata.owner_references.n
             : 99;
}

BH_TEST(gc_background)
{
    struct tc t;

    open_gc(&t);
    struct bh_obj *a = make(&t, "a", "");
    struct bh_obj *b = make(&t, "b", ref(&t, a, false));
    (void)make(&t, "c", ref(&t, b, false));
    (void)make(&t, "d", "");
    tc_run(&t, 1000);
    BH_CHECK(there(&t, "a") && there(&t, "b") && there(&t, "c"));
    world_delete(&t.w, CM, "default", "a", NULL);
    tc_run(&t, 1000);
    BH_CHECK(!there(&t, "a") && !there(&t, "b") && !there(&t, "c"));
    BH_CHECK(there(&t, "d"));
    tc_close(&t);
}

BH_TEST(gc_finds_what_was_left_while_it_was_away)
{
    struct tc t;

    open_gc(&t);
    struct bh_obj *a = make(&t, "a", "");
    (void)make(&t, "b", ref(&t, a, false));
    t.ctl = bh_controllers_free(t.ctl);
    world_delete(&t.w, CM, "default", "a", NULL);
    (void)make(&t, "a", ""); /* another of the same name */
    t.ctl = bh_controllers_new(&t.f.base, &t.opts, NULL);
    tc_run(&t, 1000);
    BH_CHECK(there(&t, "a") && !there(&t, "b"));
    tc_close(&t);
}

BH_TEST(gc_one_owner_is_enough)
{
    struct tc t;

    open_gc(&t);
    struct bh_obj *a = make(&t, "a", ""), *b = make(&t, "b", "");
    (void)make(&t, "c", tc_fmt(&t, "%s,%s", ref(&t, a, true), ref(&t, b, true)));
    tc_run(&t, 1000);
    world_delete(&t.w, CM, "default", "a", NULL);
    tc_run(&t, 1000);
    BH_EQ(refs_of(&t, "c"), 1); /* and forgets the one that is gone */
    world_delete(&t.w, CM, "default", "b", FOREGROUND);
    tc_run(&t, 1000);
    BH_CHECK(!there(&t, "c") && !there(&t, "b"));
    tc_close(&t);
}

BH_TEST(gc_foreground_waits_for_what_blocks)
{
    struct tc t;

    open_gc(&t);
    struct bh_obj *a = make(&t, "a", ""), *other = make(&t, "other", "");
    (void)world_make(&t.w, CM, "default",
                     tc_fmt(&t,
                            "{\"metadata\":{\"name\":\"slow\",\"finalizers\":[\"example.com/x\"],"
                            "\"ownerReferences\":[%s]}}",
                            ref(&t, a, true)));
    (void)make(&t, "loose", ref(&t, a, false));
    (void)make(&t, "kept", tc_fmt(&t, "%s,%s", ref(&t, a, true), ref(&t, other, false)));
    tc_run(&t, 1000);
    world_delete(&t.w, CM, "default", "a", FOREGROUND);
    tc_run(&t, 5000);
    BH_CHECK(there(&t, "a") && world_get(&t.w, CM, "default", "a")->deleting);
    BH_CHECK(world_get(&t.w, CM, "default", "slow")->deleting);
    BH_CHECK(there(&t, "loose")); /* goes after the owner */
    BH_EQ(refs_of(&t, "kept"), 1);
    (void)world_merge(&t.w, CM, "default", "slow", "", "{\"metadata\":{\"finalizers\":null}}");
    tc_run(&t, 1000);
    BH_CHECK(!there(&t, "slow") && !there(&t, "a") && !there(&t, "loose"));
    BH_CHECK(there(&t, "kept"));
    tc_close(&t);
}

BH_TEST(gc_foreground_goes_down_the_chain)
{
    struct tc t;

    open_gc(&t);
    struct bh_obj *a = make(&t, "a", "");
    struct bh_obj *b = make(&t, "b", ref(&t, a, true));
    (void)make(&t, "c", ref(&t, b, true));
    tc_run(&t, 1000);
    world_delete(&t.w, CM, "default", "a", FOREGROUND);
    tc_run(&t, 1000);
    BH_CHECK(!there(&t, "a") && !there(&t, "b") && !there(&t, "c"));
    tc_close(&t);
}

BH_TEST(gc_breaks_circles)
{
    struct tc t;

    open_gc(&t);
    struct bh_obj *a = make(&t, "a", "");
    struct bh_obj *b = make(&t, "b", ref(&t, a, true));
    (void)world_merge(&t.w, CM, "default", "a", "",
                      tc_fmt(&t, "{\"metadata\":{\"ownerReferences\":[%s]}}", ref(&t, b, true)));
    tc_run(&t, 1000);
    BH_CHECK(there(&t, "a") && there(&t, "b"));
    world_delete(&t.w, CM, "default", "a", FOREGROUND);
    tc_run(&t, 20000);
    BH_CHECK(!there(&t, "a") && !there(&t, "b"));
    tc_close(&t);
}

BH_TEST(gc_orphans)
{
    struct tc t;

    open_gc(&t);
    struct bh_obj *a = make(&t, "a", "");
    for (int i = 0; i < 20; i++)
        (void)make(&t, tc_fmt(&t, "b%d", i), ref(&t, a, true));
    tc_run(&t, 1000);
    world_delete(&t.w, CM, "default", "a", ORPHAN);
    tc_run(&t, 5000);
    BH_CHECK(!there(&t, "a"));
    for (int i = 0; i < 20; i++)
        BH_EQ(refs_of(&t, tc_fmt(&t, "b%d", i)), 0);
    tc_close(&t);
}

BH_TEST(gc_believes_the_server_not_the_cache)
{
    struct tc t;

    open_gc(&t);
    tc_run(&t, 100);
    t.f.watches = FLAKY_HANG; /* new watches see nothing; those that run go on */
    t.f.calls = FLAKY_REFUSE;
    struct bh_obj *a = make(&t, "a", "");
    (void)make(&t, "b", ref(&t, a, false));
    (void)make(&t, "lost",
               "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"gone\","
               "\"uid\":\"00000000-0000-4000-8000-000000000000\"}");
    tc_run(&t, 5000);
    BH_CHECK(there(&t, "lost")); /* nobody says that its owner is gone */
    t.f.calls = FLAKY_PASS;
    tc_run(&t, 20000);
    BH_CHECK(there(&t, "b") && !there(&t, "lost"));
    tc_close(&t);
}

BH_TEST(gc_leaves_what_it_cannot_judge)
{
    struct tc t;

    open_gc(&t);
    (void)make(&t, "unknown",
               "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Thing\",\"name\":\"x\","
               "\"uid\":\"00000000-0000-4000-8000-000000000000\"}");
    /* A cluster-scoped object cannot say in which namespace its owner is. */
    struct bh_obj *a = make(&t, "a", "");
    (void)world_make(
        &t.w, NODE, NULL,
        tc_fmt(&t, "{\"metadata\":{\"name\":\"n\",\"ownerReferences\":[%s]}}", ref(&t, a, false)));
    /* A namespaced object may have a cluster-scoped owner. */
    struct bh_obj *m = world_make(&t.w, NODE, NULL, "{\"metadata\":{\"name\":\"m\"}}");
    (void)make(&t, "of-node", ref(&t, m, false));
    tc_run(&t, 10000);
    BH_CHECK(there(&t, "unknown") && there(&t, "of-node"));
    BH_CHECK(world_get(&t.w, NODE, NULL, "n"));
    world_delete(&t.w, NODE, NULL, "m", NULL);
    tc_run(&t, 1000);
    BH_CHECK(!there(&t, "of-node") && there(&t, "unknown"));
    BH_CHECK(world_get(&t.w, NODE, NULL, "n"));
    tc_close(&t);
}

BH_TEST(gc_claims_of_pods)
{
    struct tc t;

    open_gc(&t);
    tc_pod(&t, "default", "p", "oak", NULL);
    struct bh_obj *p = world_get(&t.w, POD, "default", "p");
    (void)make(&t, "c", ref(&t, p, true));
    world_delete(&t.w, POD, "default", "p", "{\"gracePeriodSeconds\":0}");
    tc_run(&t, 1000);
    BH_CHECK(!there(&t, "c"));
    tc_close(&t);
}
