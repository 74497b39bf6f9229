/* The scheduler: gives each pod a node, and its claims their devices.
 *
 * One loop; it meets the API through the client only. Decisions take effect in its own view at once
 * (assumed pods, in-flight allocations), the writes follow.
 */
#ifndef BH_SCHEDULER_SCHEDULER_H
#define BH_SCHEDULER_SCHEDULER_H

#include "base/err.h"

struct bh_client;
struct bh_scheduler;

struct bh_scheduler_opts {
    bool device_scoring_off; /* --device-scoring=off: the first fit in upstream's order */
};

/* Starts scheduling pods whose schedulerName is "default-scheduler". opts is copied. */
struct bh_scheduler *bh_scheduler_new(struct bh_client *c, const struct bh_scheduler_opts *opts,
                                      struct bh_err *err);
struct bh_scheduler *bh_scheduler_free(struct bh_scheduler *s);

/* `bulkhead scheduler --kubeconfig K [--leader-elect] [--device-scoring on|off]`: runs until
 * SIGTERM. */
int bh_scheduler_main(int argc, char **argv);

#endif
