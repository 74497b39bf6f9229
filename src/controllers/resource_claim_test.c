/* Claims from templates, and claims whose consumers are gone. */
#include <stdio.h>

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "base/arena.h"
#include "base/test.h"
#include "controllers/cluster_test.h"
#include "store/store.h"

#define TEMPLATE  &bh_resource_v1_resource_claim_template_kind
#define FINALIZER "resource.kubernetes.io/delete-protection"

static void template(struct tc *t, const char *name)
{
    (void)world_make(
        &t->w, TEMPLATE, "default",
        tc_fmt(t,
               "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"not\":\"copied\"}},\"spec\":{"
               "\"metadata\":{\"labels\":{\"l\":\"1\"},\"annotations\":{\"a\":\"2\"}},\"spec\":{"
               "\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}}"
               "]}}}}",
               name));
}

/* A pod with one entry per name, all from the template. */
static struct bh_obj *pod(struct tc *t, const char *name, const char *tmpl,
                          const char *const *entry, size_t n)
{
    const char *claims = "";

    for (size_t i = 0; i < n; i++)
        claims = tc_fmt(t, "%s%s{\"name\":\"%s\",\"resourceClaimTemplateName\":\"%s\"}", claims,
                        i ? "," : "", entry[i], tmpl);
    return world_make(&t->w, POD, "default",
                      tc_fmt(t,
                             "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"containers\":[{\"name\":"
                             "\"c\",\"image\":\"i\"}],\"resourceClaims\":[%s]}}",
                             name, claims));
}

static void reserve(struct tc *t, struct bh_str claim, const struct bh_obj *p)
{
    (void)world_merge(&t->w, CLAIM, "default", claim.p, "",
                      "{\"metadata\":{\"finalizers\":[\"" FINALIZER "\"]}}");
    (void)world_merge(
        &t->w, CLAIM, "default", claim.p, "status",
        tc_fmt(t,
               "{\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"r\","
               "\"driver\":\"d\",\"pool\":\"oak\",\"device\":\"d0\"}]}},\"reservedFor\":[{"
               "\"resource\":\"pods\",\"name\":\"%.*s\",\"uid\":\"%.*s\"}]}}",
               BH_SF(p->name), BH_SF(p->uid)));
}

static struct bh_str claim_name(struct tc *t, const char *pod_name, size_t i)
{
    const struct bh_core_v1_pod *p = tc_get_pod(t, "default", pod_name);

    if (!p || i >= p->status.resource_claim_statuses.n)
        return (struct bh_str){0};
    return bh_str_dup(t->w.arena, p->status.resource_claim_statuses.p[i].resource_claim_name);
}

static void open_claims(struct tc *t)
{
    tc_open(t, "resourceclaim-controller");
}

BH_TEST(claim_is_made_from_its_template)
{
    static const char *const entries[] = {"z", "a"};
    const struct bh_resource_v1_resource_claim *c;
    const struct bh_meta_v1_owner_reference *r;
    struct bh_obj *p;
    struct tc t;

    open_claims(&t);
    template(&t, "tpl");
    p = pod(&t, "p", "tpl", entries, 2);
    tc_run(&t, 1000);
    BH_EQ(world_count(&t.w, CLAIM, "default"), 2);
    BH_CHECK(bh_str_starts(claim_name(&t, "p", 0), BH_S("p-a-"))); /* sorted by entry */
    BH_CHECK(bh_str_starts(claim_name(&t, "p", 1), BH_S("p-z-")));
    c = tc_get_claim(&t, "default", claim_name(&t, "p", 0).p);
    BH_EQ(c->metadata.labels.n, 1);
    BH_STREQ(*bh_str_map_get(&c->metadata.labels, BH_S("l")), "1");
    BH_EQ(c->metadata.annotations.n, 2);
    BH_STREQ(*bh_str_map_get(&c->metadata.annotations, BH_S("a")), "2");
    BH_STREQ(
        *bh_str_map_get(&c->metadata.annotations, BH_S("resource.kubernetes.io/pod-claim-name")),
        "a");
    BH_EQ(c->metadata.owner_references.n, 1);
    r = &c->metadata.owner_references.p[0];
    BH_SEQ(r->uid, p->uid);
    BH_CHECK(r->controller && !r->has_block_owner_deletion);
    BH_STREQ(c->spec.devices.requests.p[0].exactly->device_class_name, "c");
    tc_restart(&t); /* nothing is made twice */
    tc_run(&t, 1000);
    BH_EQ(world_count(&t.w, CLAIM, "default"), 2);
    tc_close(&t);
}

/* Claim and pod are written in one commit: nobody waits for the disk between the two. */
BH_TEST(claim_and_its_name_are_written_together)
{
    static const char *const entries[] = {"a", "b"};
    struct bh_obj *a, *b, *p;
    struct tc t;

    open_claims(&t);
    template(&t, "tpl");
    (void)pod(&t, "p", "tpl", entries, 2);
    tc_run(&t, 1000);
    p = world_get(&t.w, POD, "default", "p");
    a = world_get(&t.w, CLAIM, "default", claim_name(&t, "p", 0).p);
    b = world_get(&t.w, CLAIM, "default", claim_name(&t, "p", 1).p);
    BH_CHECK(a && b);
    BH_EQ(p->rv, a->rv + 2);
    BH_EQ(p->rv, b->rv + 1);
    BH_STREQ(
        ((const struct bh_resource_v1_resource_claim *)bh_obj_struct(a))->metadata.generate_name,
        "p-a-");
    BH_EQ(a->name.n, sizeof("p-a-") - 1 + 5);
    tc_close(&t);
}

BH_TEST(claim_whose_name_is_taken_gets_another)
{
    static const char *const entries[] = {"a"};
    struct tc t;

    open_claims(&t);
    template(&t, "tpl");
    tc_run(&t, 1000);
    t.f.calls = FLAKY_REFUSE;
    t.f.refusal = BH_E_EXISTS;
    t.f.calls_n = 0;
    (void)pod(&t, "p", "tpl", entries, 1);
    for (int i = 0; i < 100 && t.f.calls_n < 3; i++)
        world_run(&t.w, 1);
    t.f.calls = FLAKY_PASS;
    tc_run(&t, 4);
    BH_EQ(world_count(&t.w, CLAIM, "default"), 1);
    BH_CHECK(claim_name(&t, "p", 0).n > 0);
    BH_CHECK(!tc_event(&t, "default", "p", "FailedResourceClaimCreation", ""));
    tc_close(&t);
}

/* A commit that fails takes claim and name along, or the name alone: in the end there is one of
 * each. */
BH_TEST(claim_is_made_once_although_commits_fail)
{
    static const char *const entries[] = {"a"};

    for (int nth = 1; nth < 4; nth++)
        for (int parts = 0; parts < 2; parts++) {
            struct tc t;

            open_claims(&t);
            t.f.parts = parts;
            template(&t, "tpl");
            (void)pod(&t, "p", "tpl", entries, 1);
            bh_store_memory_fail(t.w.store, nth);
            tc_run(&t, 10000);
            BH_EQ(world_count(&t.w, CLAIM, "default"), 1);
            BH_CHECK(claim_name(&t, "p", 0).n > 0);
            BH_CHECK(tc_get_claim(&t, "default", claim_name(&t, "p", 0).p) != NULL);
            tc_close(&t);
        }
}

BH_TEST(claim_names_keep_a_share_of_both_parts)
{
    static const char *const entries[] = {"cccccccccccccccccccc"};
    const char *name = "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp";
    struct tc t;

    open_claims(&t);
    template(&t, "tpl");
    (void)pod(&t, name, "tpl", entries, 1);
    tc_run(&t, 1000);
    struct bh_str got = claim_name(&t, name, 0);
    BH_EQ(got.n, 41 + 1 + 13 + 5);
    BH_CHECK(bh_str_starts(got, BH_S("ppppppppppppppppppppppppppppppppppppppppp-ccccccccccccc")));
    tc_close(&t);
}

BH_TEST(claim_waits_for_its_template)
{
    static const char *const entries[] = {"dev"};
    struct tc t;

    open_claims(&t);
    (void)pod(&t, "p", "late", entries, 1);
    tc_run(&t, 60000);
    BH_EQ(world_count(&t.w, CLAIM, "default"), 0);
    BH_CHECK(tc_event(&t, "default", "p", "FailedResourceClaimCreation",
                      "PodResourceClaim dev: resource claim template \"late\": "
                      "resourceclaimtemplate.resource.k8s.io \"late\" not found"));
    template(&t, "late");
    tc_run(&t, 1000); /* at once, not after the pause */
    BH_EQ(world_count(&t.w, CLAIM, "default"), 1);
    tc_close(&t);
}

BH_TEST(claim_is_made_once_although_the_cache_lags)
{
    static const char *const entries[] = {"dev"};
    struct tc t;

    open_claims(&t);
    template(&t, "tpl");
    tc_run(&t, 100);
    /* The claims' watch breaks and stays away: what we made does not show. */
    bh_client_free(&t.f.base);
    t.ctl = bh_controllers_free(t.ctl);
    t.f.watches = FLAKY_HANG;
    t.ctl = bh_controllers_new(&t.f.base, &t.opts, NULL);
    tc_run(&t, 100);
    t.f.watches = FLAKY_PASS;
    (void)pod(&t, "p", "tpl", entries, 1);
    tc_run(&t, 1000);
    BH_EQ(world_count(&t.w, CLAIM, "default"), 0); /* its pods' watch hangs too */
    tc_restart(&t);
    tc_run(&t, 1000);
    BH_EQ(world_count(&t.w, CLAIM, "default"), 1);
    tc_close(&t);
}

BH_TEST(claim_that_vanished_is_made_again)
{
    static const char *const entries[] = {"dev"};
    struct tc t;

    open_claims(&t);
    template(&t, "tpl");
    (void)pod(&t, "p", "tpl", entries, 1);
    tc_run(&t, 1000);
    struct bh_str first = claim_name(&t, "p", 0);
    world_delete(&t.w, CLAIM, "default", first.p, NULL);
    tc_run(&t, 1000);
    BH_EQ(world_count(&t.w, CLAIM, "default"), 1);
    BH_CHECK(!bh_str_eq(claim_name(&t, "p", 0), first));
    tc_close(&t);
}

BH_TEST(claim_of_a_pod_that_ended_goes)
{
    static const char *const entries[] = {"dev"};
    struct tc t;
    struct bh_obj *p;

    open_claims(&t);
    template(&t, "tpl");
    p = pod(&t, "p", "tpl", entries, 1);
    tc_run(&t, 1000);
    reserve(&t, claim_name(&t, "p", 0), p);
    tc_run(&t, 1000);
    BH_EQ(world_count(&t.w, CLAIM, "default"), 1);
    (void)world_merge(&t.w, POD, "default", "p", "status",
                      "{\"status\":{\"phase\":\"Succeeded\"}}");
    tc_run(&t, 1000);
    BH_EQ(world_count(&t.w, CLAIM, "default"), 0);
    tc_close(&t);
}

/* A second claim for the same entry, of a creation whose answer was lost: an earlier scheduler gave
 * it a device before the pod named the other one. */
BH_TEST(claim_that_was_made_twice_is_freed_with_its_pod)
{
    static const char *const entries[] = {"a"};
    struct bh_obj *p;
    struct tc t;

    open_claims(&t);
    template(&t, "tpl");
    p = pod(&t, "p", "tpl", entries, 1);
    tc_run(&t, 1000);
    (void)world_make(
        &t.w, CLAIM, "default",
        tc_fmt(
            &t,
            "{\"metadata\":{\"name\":\"twin\",\"annotations\":{\"resource.kubernetes.io/"
            "pod-claim-name\":\"a\"},\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":"
            "\"Pod\",\"name\":\"p\",\"uid\":\"%.*s\",\"controller\":true}]},\"spec\":{\"devices\":{"
            "\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}}]}}}",
            BH_SF(p->uid)));
    reserve(&t, BH_S("twin"), p);
    tc_run(&t, 1000);
    BH_EQ(world_count(&t.w, CLAIM, "default"), 2);
    (void)world_merge(&t.w, POD, "default", "p", "status",
                      "{\"status\":{\"phase\":\"Succeeded\"}}");
    tc_run(&t, 1000);
    BH_EQ(world_count(&t.w, CLAIM, "default"), 0);
    tc_close(&t);
}

BH_TEST(claim_that_is_shared_is_freed_by_the_last)
{
    struct tc t;
    const struct bh_resource_v1_resource_claim *c;

    open_claims(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p1", "oak", "c");
    tc_pod(&t, "default", "p2", "oak", "c");
    tc_run(&t, 1000);
    BH_EQ(tc_get_claim(&t, "default", "c")->status.reserved_for.n, 2);
    (void)world_merge(&t.w, POD, "default", "p1", "status", "{\"status\":{\"phase\":\"Failed\"}}");
    tc_run(&t, 1000);
    c = tc_get_claim(&t, "default", "c");
    BH_EQ(c->status.reserved_for.n, 1);
    BH_STREQ(c->status.reserved_for.p[0].name, "p2");
    BH_CHECK(c->status.allocation != NULL);
    world_delete(&t.w, POD, "default", "p2", "{\"gracePeriodSeconds\":0}");
    tc_run(&t, 1000);
    c = tc_get_claim(&t, "default", "c"); /* not generated: it stays, free and unprotected */
    BH_CHECK(c && !c->status.allocation);
    BH_EQ(c->status.reserved_for.n, 0);
    BH_EQ(c->metadata.finalizers.n, 0);
    tc_close(&t);
}

BH_TEST(claim_of_a_pod_remade_under_its_name_is_not_its)
{
    struct tc t;

    open_claims(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    t.ctl = bh_controllers_free(t.ctl); /* it happens while nobody looks */
    world_delete(&t.w, POD, "default", "p", "{\"gracePeriodSeconds\":0}");
    (void)world_make(&t.w, POD, "default",
                     "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                     "\"image\":\"i\"}],\"resourceClaims\":[{\"name\":\"r\",\"resourceClaimName\":"
                     "\"c\"}]}}");
    t.ctl = bh_controllers_new(&t.f.base, &t.opts, NULL);
    tc_run(&t, 1000);
    BH_CHECK(!tc_get_claim(&t, "default", "c")->status.allocation);
    tc_close(&t);
}

BH_TEST(claim_that_is_deleted_in_use_goes_with_its_pod)
{
    struct tc t;

    open_claims(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    tc_pod(&t, "default", "p", "oak", "c");
    world_delete(&t.w, CLAIM, "default", "c", NULL);
    tc_run(&t, 5000);
    BH_CHECK(tc_get_claim(&t, "default", "c")); /* protected */
    world_delete(&t.w, POD, "default", "p", "{\"gracePeriodSeconds\":0}");
    tc_run(&t, 1000);
    BH_CHECK(!tc_get_claim(&t, "default", "c"));
    /* Allocated, never reserved: nobody else would free it. */
    tc_claim(&t, "default", "d", "oak", "d0", NULL);
    tc_run(&t, 1000);
    BH_CHECK(tc_get_claim(&t, "default", "d")->status.allocation != NULL); /* left alone */
    world_delete(&t.w, CLAIM, "default", "d", NULL);
    tc_run(&t, 1000);
    BH_CHECK(!tc_get_claim(&t, "default", "d"));
    tc_close(&t);
}

BH_TEST(claim_of_a_pod_bound_by_hand_gets_to_know_it)
{
    struct tc t;

    open_claims(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    (void)world_make(
        &t.w, POD, "default",
        "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"nodeName\":\"oak\",\"containers\":["
        "{\"name\":\"c\",\"image\":\"i\"}],\"resourceClaims\":[{\"name\":\"r\","
        "\"resourceClaimName\":\"c\"}]}}");
    tc_run(&t, 1000);
    BH_EQ(tc_get_claim(&t, "default", "c")->status.reserved_for.n, 1);
    tc_close(&t);
}

BH_TEST(claim_keeps_consumers_that_are_no_pods)
{
    struct tc t;

    open_claims(&t);
    tc_claim(&t, "default", "c", "oak", "d0", NULL);
    (void)world_merge(&t.w, CLAIM, "default", "c", "status",
                      "{\"status\":{\"reservedFor\":[{\"apiGroup\":\"example.com\",\"resource\":"
                      "\"things\",\"name\":\"x\",\"uid\":\"u1\"},{\"resource\":\"pods\",\"name\":"
                      "\"gone\",\"uid\":\"u2\"}]}}");
    tc_run(&t, 1000);
    BH_EQ(tc_get_claim(&t, "default", "c")->status.reserved_for.n, 1);
    BH_CHECK(tc_get_claim(&t, "default", "c")->status.allocation != NULL);
    tc_close(&t);
}

BH_TEST(claims_survive_a_server_that_fails)
{
    static const char *const entries[] = {"dev"};
    struct tc t;

    open_claims(&t);
    template(&t, "tpl");
    tc_run(&t, 100);
    t.f.calls = FLAKY_REFUSE;
    (void)pod(&t, "p", "tpl", entries, 1);
    tc_run(&t, 2000);
    t.f.calls = FLAKY_PASS;
    tc_run(&t, 10000);
    BH_EQ(world_count(&t.w, CLAIM, "default"), 1);
    BH_CHECK(claim_name(&t, "p", 0).n > 0);
    tc_close(&t);
}
