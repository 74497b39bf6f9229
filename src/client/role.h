/* Running a role as a process of its own: loop, signals, client, leader election. Blocking: this is
 * main()'s body. */
#ifndef BH_CLIENT_ROLE_H
#define BH_CLIENT_ROLE_H

#include "base/err.h"
#include "client/client.h"

struct bh_role {
    const char *name; /* "bulkhead-scheduler": user agent, log component, lease holder's prefix */
    const char *kubeconfig;       /* NULL: $KUBECONFIG */
    const char *lease;            /* name of its Lease, or NULL: no election */
    const char *lease_ns;         /* NULL: kube-system */
    struct bh_leader_times times; /* zero: upstream's */
    /* Starts the role; NULL and *err when it cannot. Called when leadership was won, or at once
     * without election. */
    void *(*start)(void *arg, struct bh_client *c, struct bh_err *err);
    void (*stop)(void *self);
    /* NULL, or called once before anything else, and its end: what a standby does, too (a port). */
    bool (*open)(void *arg, struct bh_loop *l, struct bh_err *err);
    void (*close)(void *arg);
    void *arg;
};

/* Returns the exit status: 0 after SIGTERM or SIGINT, 1 on failure or lost leadership. An API
 * server that is not there yet is waited for. */
int bh_role_run(const struct bh_role *r);

#endif
