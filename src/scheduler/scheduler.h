/* The scheduler: gives each pod a node, and its claims their devices.
 *
 * One loop; it meets the API through the client only. Decisions take effect in its own view at once
 * (assumed pods, in-flight allocations), the writes follow.
 */
#ifndef BH_SCHEDULER_SCHEDULER_H
#define BH_SCHEDULER_SCHEDULER_H

#include "base/err.h"
#include "base/str.h"

struct bh_client;
struct bh_dra_stats;
struct bh_scheduler;

/* A KubeSchedulerConfiguration, valid. Not changed once it is there. */
struct bh_scheduler_config;
/* -BH_E_INVALID: upstream's words for what is wrong. */
BH_MUST int bh_scheduler_config_load(const char *path, struct bh_scheduler_config **ret,
                                     struct bh_err *err);
struct bh_scheduler_config *bh_scheduler_config_free(struct bh_scheduler_config *cfg);

struct bh_scheduler_opts {
    bool device_scoring_off; /* --device-scoring=off: the first fit in upstream's order */
    /* NULL: the default one, for pods whose schedulerName is "default-scheduler". Borrowed for the
     * life of the scheduler. */
    const struct bh_scheduler_config *config;
    /* Follows the cluster for bh_scheduler_judge(), and neither places pods nor writes anything. */
    bool observe;
};

/* Starts scheduling the pods of its profiles. opts is copied. */
struct bh_scheduler *bh_scheduler_new(struct bh_client *c, const struct bh_scheduler_opts *opts,
                                      struct bh_err *err);
struct bh_scheduler *bh_scheduler_free(struct bh_scheduler *s);

/* Figures since the start. dra may be NULL. */
struct bh_scheduler_stats {
    bool ready;         /* everything it follows was listed */
    uint64_t attempts;  /* pods taken from the queue */
    uint64_t scheduled; /* pods bound */
    size_t waiting;     /* pods that were refused and wait for an event */
    int64_t turn_ns;    /* time in turns: attempts, and the writes begun by them */
};
void bh_scheduler_stats(const struct bh_scheduler *s, struct bh_scheduler_stats *ret,
                        struct bh_dra_stats *dra);

/* Why this scheduler, that only observes, would not put the pod on the nodes that it knows: for
 * each node that a filter refuses the words that the pod's status would have. What devices are
 * missing for is not among them (the allocator tells that better), but what those that it would get
 * take of the node is. In the arena. False: it does not know the pod, or not the whole cluster yet.
 */
struct bh_scheduler_refusal {
    struct bh_str node, why;
};
struct bh_arena;
bool bh_scheduler_judge(struct bh_scheduler *s, struct bh_str pod_uid, struct bh_arena *a,
                        struct bh_scheduler_refusal **ret, size_t *ret_n);

/* `bulkhead scheduler --kubeconfig K [--config FILE] [--leader-elect] [--device-scoring on|off]`:
 * runs until SIGTERM. */
int bh_scheduler_main(int argc, char **argv);

#endif
