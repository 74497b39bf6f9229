/* Running a role as a process of its own. */
#include "client/role.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "client/client.h"
#include "net/loop.h"
#include "net/signals.h"

#define RESIGN_MS 2000

struct running {
    const struct bh_role *role;
    struct bh_loop *loop;
    struct bh_client *client;
    void *self;
    int status;
};

static void on_signal(void *arg, int signal)
{
    struct running *r = arg;

    bh_log(BH_INFO, "ending", BH_I64("signal", signal));
    bh_loop_stop(r->loop);
}

static void begin(void *arg)
{
    struct running *r = arg;
    struct bh_err err = {0};

    r->self = r->role->start(r->role->arg, r->client, &err);
    if (r->self)
        return;
    bh_log(BH_ERROR, "cannot start", BH_CSTR("error", err.msg));
    r->status = 1;
    bh_loop_stop(r->loop);
}

static void lost(void *arg)
{
    struct running *r = arg;

    r->status = 1; /* whoever started us starts us again, with a clean view */
    bh_loop_stop(r->loop);
}

static void given_back(void *arg)
{
    struct running *r = arg;

    bh_loop_stop(r->loop);
}

/* A standby takes over at once when the lease says that nobody holds it. */
static void resign(struct running *r, struct bh_leader *leader)
{
    struct bh_timer limit;

    if (!leader || !bh_leader_release(leader, given_back))
        return;
    bh_timer_init(&limit, r->loop, given_back, r);
    bh_timer_start(&limit, RESIGN_MS);
    bh_loop_run(r->loop);
    bh_timer_stop(&limit);
}

static struct bh_leader *elect(struct running *r)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    char host[256] = "", uuid[37];

    (void)gethostname(host, sizeof(host) - 1);
    bh_loop_uuid(r->loop, uuid);
    return bh_leader_new(r->client, bh_s(r->role->lease_ns ? r->role->lease_ns : "kube-system"),
                         bh_s(r->role->lease), bh_str_fmt(a, "%s_%s", host, uuid), &r->role->times,
                         begin, lost, r);
}

int bh_role_run(const struct bh_role *role)
{
    struct running r = {.role = role};
    const char *kubeconfig = role->kubeconfig ? role->kubeconfig : getenv("KUBECONFIG");
    struct bh_leader *leader = NULL;
    struct bh_signals *signals = NULL;
    struct bh_err err = {0};

    bh_log_init(BH_INFO, role->name);
    if (!kubeconfig) {
        fprintf(stderr, "%s: --kubeconfig (or KUBECONFIG) is required\n", role->name);
        return 1;
    }
    bh_signals_block();
    r.loop = bh_loop_new_real(&err);
    if (r.loop)
        signals = bh_signals_new(r.loop, on_signal, &r, &err);
    if (signals)
        r.client = bh_client_new_kubeconfig(r.loop, kubeconfig, role->name, &err);
    if (!r.client) {
        fprintf(stderr, "%s: %s\n", role->name, err.msg);
        (void)bh_signals_free(signals);
        (void)bh_loop_free(r.loop);
        return 1;
    }
    if (role->open && !role->open(role->arg, r.loop, &err)) {
        fprintf(stderr, "%s: %s\n", role->name, err.msg);
        (void)bh_client_free(r.client);
        (void)bh_signals_free(signals);
        (void)bh_loop_free(r.loop);
        return 1;
    }
    if (role->lease)
        leader = elect(&r);
    else
        bh_loop_defer(r.loop, begin, &r);
    bh_loop_run(r.loop);
    if (r.self)
        role->stop(r.self);
    resign(&r, leader);
    (void)bh_leader_free(leader);
    if (role->close)
        role->close(role->arg);
    (void)bh_client_free(r.client);
    (void)bh_signals_free(signals);
    (void)bh_loop_free(r.loop);
    return r.status;
}
