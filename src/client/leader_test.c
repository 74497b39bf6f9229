/* Leader election with real Leases: one leads, the next follows, and nobody leads beside another.
 */
#include "api/gen/coordination_v1.h"
#include "api/gen/core_v1.h"
#include "base/test.h"
#include "client/flaky_test.h"
#include "client/world_test.h"

#define LEASE &bh_coordination_v1_lease_kind

struct one {
    struct world *w;
    struct flaky f;
    struct bh_leader *l;
    int started, stopped;
    bool leading, free_at_start, released;
};

static void started(void *arg)
{
    struct one *o = arg;

    o->started++;
    o->leading = true;
    if (o->free_at_start)
        o->l = bh_leader_free(o->l);
}
static void stopped(void *arg)
{
    struct one *o = arg;

    o->stopped++;
    o->leading = false;
}
static void released(void *arg)
{
    ((struct one *)arg)->released = true;
}

static void contend(struct one *o, struct world *w, const char *name)
{
    *o = (struct one){.w = w};
    flaky_init(&o->f, w->client);
    o->l = bh_leader_new(&o->f.base, BH_S("kube-system"), BH_S("thing"), bh_s(name), NULL, started,
                         stopped, o);
}
static void leave(struct one *o)
{
    o->l = bh_leader_free(o->l);
    (void)bh_client_free(&o->f.base);
}

BH_TEST(leader_is_one)
{
    struct world w;
    struct one a, b;
    const struct bh_coordination_v1_lease *lease;

    world_open(&w);
    contend(&a, &w, "a");
    world_run(&w, 100);
    contend(&b, &w, "b");
    for (int s = 0; s < 120; s++) {
        world_run(&w, 1000);
        BH_CHECK(a.leading && !b.leading);
    }
    lease = bh_obj_struct(world_get(&w, LEASE, "kube-system", "thing"));
    BH_STREQ(lease->spec.holder_identity, "a");
    BH_EQ(lease->spec.lease_duration_seconds, 15);
    BH_EQ(lease->spec.lease_transitions, 0);
    BH_CHECK(lease->spec.renew_time.sec > lease->spec.acquire_time.sec);
    leave(&a); /* the lease is given back: the next try takes it */
    world_run(&w, 2500);
    BH_CHECK(b.leading);
    lease = bh_obj_struct(world_get(&w, LEASE, "kube-system", "thing"));
    BH_STREQ(lease->spec.holder_identity, "b");
    BH_EQ(lease->spec.lease_transitions, 1);
    BH_EQ(a.started + b.started, 2);
    leave(&b);
    world_close(&w);
}

BH_TEST(leader_that_was_killed_is_followed_after_its_lease)
{
    struct world w;
    struct one a, b;
    int s = 0;

    world_open(&w);
    contend(&a, &w, "a");
    world_run(&w, 5000);
    a.f.calls = FLAKY_HANG; /* nothing of it reaches the server any more */
    contend(&b, &w, "b");
    while (s < 60 && !b.leading) {
        world_run(&w, 1000);
        s++;
    }
    BH_CHECK(b.leading);
    BH_CHECK(s >= 14 && s <= 18);
    leave(&a);
    leave(&b);
    world_close(&w);
}

BH_TEST(leader_stops_by_itself_when_the_server_hangs)
{
    static const enum flaky_mode modes[] = {FLAKY_HANG, FLAKY_REFUSE};

    for (size_t i = 0; i < BH_COUNT(modes); i++) {
        struct world w;
        struct one a, b;
        int s = 0;

        world_open(&w);
        contend(&a, &w, "a");
        world_run(&w, 100);
        contend(&b, &w, "b");
        world_run(&w, 30000);
        BH_CHECK(a.leading);
        a.f.calls = modes[i];
        while (s < 60 && a.leading) {
            BH_CHECK(!b.leading); /* never two */
            world_run(&w, 1000);
            s++;
        }
        BH_CHECK(s >= 8 && s <= 11);
        BH_EQ(a.stopped, 1);
        world_run(&w, 10000);
        BH_CHECK(b.leading);
        a.f.calls = FLAKY_PASS; /* it goes on trying, and waits its turn */
        world_run(&w, 60000);
        BH_CHECK(!a.leading && b.leading);
        leave(&b);
        world_run(&w, 3000);
        BH_CHECK(a.leading);
        leave(&a);
        world_close(&w);
    }
}

BH_TEST(leader_stops_when_somebody_took_the_lease)
{
    struct world w;
    struct one a;

    world_open(&w);
    contend(&a, &w, "a");
    world_run(&w, 5000);
    (void)world_merge(&w, LEASE, "kube-system", "thing", "",
                      "{\"spec\":{\"holderIdentity\":\"thief\"}}");
    world_run(&w, 3000);
    BH_CHECK(!a.leading);
    BH_EQ(a.stopped, 1);
    leave(&a);
    BH_STREQ(((const struct bh_coordination_v1_lease *)bh_obj_struct(
                  world_get(&w, LEASE, "kube-system", "thing")))
                 ->spec.holder_identity,
             "thief");
    world_close(&w);
}

BH_TEST(leader_makes_a_lease_that_was_deleted)
{
    struct world w;
    struct one a;

    world_open(&w);
    contend(&a, &w, "a");
    world_run(&w, 5000);
    world_delete(&w, LEASE, "kube-system", "thing", NULL);
    world_run(&w, 3000);
    BH_CHECK(a.leading);
    BH_CHECK(world_get(&w, LEASE, "kube-system", "thing"));
    leave(&a);
    world_close(&w);
}

BH_TEST(leader_may_be_freed_when_it_starts)
{
    struct world w;
    struct one a;

    world_open(&w);
    contend(&a, &w, "a");
    a.free_at_start = true;
    world_run(&w, 5000);
    BH_CHECK(!a.l);
    BH_EQ(a.started, 1);
    leave(&a);
    world_close(&w);
}

BH_TEST(leader_releases_and_tells)
{
    struct world w;
    struct one a, b;

    world_open(&w);
    contend(&a, &w, "a");
    world_run(&w, 100);
    contend(&b, &w, "b");
    world_run(&w, 100);
    BH_CHECK(!bh_leader_release(b.l, released)); /* not its own */
    BH_CHECK(bh_leader_release(a.l, released));
    BH_CHECK(!a.released);
    world_run(&w, 100);
    BH_CHECK(a.released);
    BH_STREQ(((const struct bh_coordination_v1_lease *)bh_obj_struct(
                  world_get(&w, LEASE, "kube-system", "thing")))
                 ->spec.holder_identity,
             "");
    leave(&a);
    leave(&b);
    world_close(&w);
}
