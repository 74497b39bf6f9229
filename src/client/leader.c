/* Leader election through a Lease, with upstream's numbers: 15 s of lease, renewal must succeed
 * within 10 s, a try each 2 s.
 *
 * Nobody's clock is believed but our own. Another's lease counts from when we saw it change; our
 * own counts from when we sent the last renewal that succeeded, so that we stop before anybody else
 * may start, also when the server does not answer at all.
 */
#include "api/gen/coordination_v1.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/log.h"
#include "client/client_int.h"

#define LEASE_MS          15000
#define RENEW_DEADLINE_MS 10000
#define RETRY_MS          2000

struct bh_leader {
    struct bh_client *client;
    struct bh_arena *arena;
    struct bh_str ns, lease, identity;
    struct bh_leader_times times;
    void (*started)(void *arg);
    void (*stopped)(void *arg);
    void (*released)(void *arg);
    void *arg;
    struct bh_timer timer;    /* the next try */
    struct bh_timer deadline; /* leadership ends here unless it is renewed */
    uint64_t call;
    bool leading;
    int64_t sent_ns;     /* monotonic: when the write under way was sent */
    int64_t seen_ns;     /* monotonic: when the record below was first seen */
    struct bh_obj *seen; /* the lease as last read, or NULL */
};

static void leader_try(void *arg);

static struct bh_time leader_now(const struct bh_leader *l)
{
    int64_t now = bh_loop_wall_ns(l->client->loop);

    return (struct bh_time){now / 1000000000, (int32_t)(now % 1000000000 / 1000 * 1000)};
}

static void leader_see(struct bh_leader *l, struct bh_obj *o)
{
    if (l->seen && o && l->seen->rv == o->rv)
        return;
    (void)bh_obj_unref(l->seen);
    l->seen = o ? bh_obj_ref(o) : NULL;
    l->seen_ns = bh_loop_mono_ns(l->client->loop);
}

/* The callback may free the leader: nothing of it is touched afterwards. */
static void leader_lost(struct bh_leader *l)
{
    l->leading = false;
    bh_timer_stop(&l->deadline);
    bh_log(BH_WARN, "leadership lost", BH_STR("lease", l->lease));
    l->stopped(l->arg);
}

static void leader_overdue(void *arg)
{
    struct bh_leader *l = arg;

    bh_client_cancel(l->client, l->call);
    l->call = 0;
    bh_timer_start(&l->timer, l->times.retry);
    leader_lost(l);
}

static void leader_written(void *arg, const struct bh_client_res *res)
{
    struct bh_leader *l = arg;

    l->call = 0;
    bh_timer_start(&l->timer, l->times.retry);
    if (res->err.code != BH_OK)
        return;
    leader_see(l, res->obj);
    bh_timer_start_ns(&l->deadline,
                      l->sent_ns + l->times.renew * 1000000 - bh_loop_mono_ns(l->client->loop));
    if (l->leading)
        return;
    l->leading = true;
    bh_log(BH_INFO, "leading", BH_STR("lease", l->lease), BH_STR("identity", l->identity));
    l->started(l->arg);
}

static void leader_write(struct bh_leader *l, const struct bh_coordination_v1_lease *old)
{
    struct bh_coordination_v1_lease lease = {0};
    bool ours = old && bh_str_eq(old->spec.holder_identity, l->identity);

    if (old)
        lease = *old; /* shallow: only encoded, never kept */
    lease.metadata.name = l->lease;
    lease.metadata.namespace = l->ns;
    lease.spec.holder_identity = l->identity;
    lease.spec.has_holder_identity = true;
    lease.spec.lease_duration_seconds = (int32_t)(l->times.lease / 1000);
    lease.spec.has_lease_duration_seconds = true;
    lease.spec.renew_time = leader_now(l);
    if (!ours) {
        lease.spec.acquire_time = lease.spec.renew_time;
        lease.spec.lease_transitions = old ? old->spec.lease_transitions + 1 : 0;
        lease.spec.has_lease_transitions = true;
    }
    l->sent_ns = bh_loop_mono_ns(l->client->loop);
    l->call = old ? bh_client_update(l->client, &bh_coordination_v1_lease_kind, &lease, "",
                                     leader_written, l)
                  : bh_client_create(l->client, &bh_coordination_v1_lease_kind, l->ns, &lease,
                                     leader_written, l);
}

static void leader_read(void *arg, const struct bh_client_res *res)
{
    struct bh_leader *l = arg;
    const struct bh_coordination_v1_lease *lease;
    int64_t now = bh_loop_mono_ns(l->client->loop), held_ns;

    l->call = 0;
    if (res->err.code == BH_E_NOT_FOUND) {
        leader_write(l, NULL);
        return;
    }
    if (res->err.code != BH_OK || !res->obj) {
        bh_timer_start(&l->timer, l->times.retry);
        return;
    }
    leader_see(l, res->obj);
    lease = bh_obj_struct(l->seen);
    held_ns = (int64_t)lease->spec.lease_duration_seconds * 1000000000;
    if (lease->spec.holder_identity.n && !bh_str_eq(lease->spec.holder_identity, l->identity) &&
        now - l->seen_ns < held_ns) {
        bh_timer_start(&l->timer, l->times.retry);
        if (l->leading)
            leader_lost(l);
        return;
    }
    leader_write(l, lease);
}

static void leader_try(void *arg)
{
    struct bh_leader *l = arg;
    struct bh_client_req req = {.verb = BH_VERB_GET,
                                .kind = &bh_coordination_v1_lease_kind,
                                .ns = l->ns,
                                .name = l->lease,
                                .timeout_ms = 5000};

    l->call = bh_client_call(l->client, &req, leader_read, l);
}

struct bh_leader *bh_leader_new(struct bh_client *c, struct bh_str ns, struct bh_str lease,
                                struct bh_str identity, const struct bh_leader_times *times,
                                void (*started)(void *arg), void (*stopped)(void *arg), void *arg)
{
    struct bh_leader *l = bh_calloc(1, sizeof(*l));

    l->client = c;
    l->arena = bh_arena_new(0);
    l->ns = bh_str_dup(l->arena, ns);
    l->lease = bh_str_dup(l->arena, lease);
    l->identity = bh_str_dup(l->arena, identity);
    if (times)
        l->times = *times;
    l->times.lease = l->times.lease ? l->times.lease : LEASE_MS;
    l->times.renew = l->times.renew ? l->times.renew : RENEW_DEADLINE_MS;
    l->times.retry = l->times.retry ? l->times.retry : RETRY_MS;
    l->started = started;
    l->stopped = stopped;
    l->arg = arg;
    bh_timer_init(&l->timer, c->loop, leader_try, l);
    bh_timer_init(&l->deadline, c->loop, leader_overdue, l);
    leader_try(l);
    return l;
}

/* The lease without holder: whoever waits takes it at its next try. */
static void leader_give(struct bh_leader *l, bh_client_fn fn)
{
    struct bh_coordination_v1_lease lease =
        *(const struct bh_coordination_v1_lease *)bh_obj_struct(l->seen);

    l->leading = false;
    lease.spec.holder_identity = (struct bh_str){"", 0};
    lease.spec.lease_duration_seconds = 1;
    lease.spec.renew_time = leader_now(l);
    l->call =
        bh_client_update(l->client, &bh_coordination_v1_lease_kind, &lease, "", fn, fn ? l : NULL);
}

static void leader_quiet(struct bh_leader *l)
{
    bh_client_cancel(l->client, l->call);
    l->call = 0;
    bh_timer_stop(&l->timer);
    bh_timer_stop(&l->deadline);
}

static void leader_given(void *arg, const struct bh_client_res *res)
{
    struct bh_leader *l = arg;

    l->call = 0;
    if (res->err.code != BH_OK)
        bh_log(BH_DEBUG, "lease not given back", BH_CSTR("error", res->err.msg));
    l->released(l->arg);
}

bool bh_leader_release(struct bh_leader *l, void (*done)(void *arg))
{
    leader_quiet(l);
    if (!l->leading || !l->seen)
        return false;
    l->released = done;
    leader_give(l, leader_given);
    return true;
}

struct bh_leader *bh_leader_free(struct bh_leader *l)
{
    if (!l)
        return NULL;
    leader_quiet(l);
    if (l->leading && l->seen)
        leader_give(l, NULL);
    (void)bh_obj_unref(l->seen);
    (void)bh_arena_free(l->arena);
    bh_free(l);
    return NULL;
}
