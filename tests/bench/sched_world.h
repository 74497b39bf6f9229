/* What the scheduler's cases share: a cluster with its objects, and the run of one case in one of
 * three modes. */
#ifndef BH_BENCH_SCHED_WORLD_H
#define BH_BENCH_SCHED_WORLD_H

#include "base/buf.h"
#include "scheduler/scheduler.h"

struct sched_world;

#define BENCH_DRIVER "test-driver.cdi.k8s.io"

/* One case; names and sizes are those of upstream's scheduler_perf where it has the case. */
struct sched_case {
    const char *name;
    size_t nodes, devices; /* devices on each node, in a slice of its own; 0: no such slices */
    size_t init, pods;     /* pods before, and those that are measured */
    const char *devices_of_claim; /* spec.devices of the claims; NULL: pods without claims */
    size_t share;                 /* so many pods name the same claim; 0: claims of a template */
    size_t held;                  /* devices that claims hold before, without pods */
    double steady_s;              /* pods come and go for so long, 10 at a time */
    /* More objects, one after the other until it returns NULL; b is empty at each call. */
    const struct bh_kind *(*more)(size_t i, struct bh_buf *b);
    const char *device_fields; /* in each device: ,"taints":[…] */
    const char *requests;      /* of each pod's container; "%zu": number of the pod mod classes */
    size_t classes;            /* extended resources, a class each; 0: the one class */
    bool api_only;             /* it needs the controllers */
    bool network;              /* also with each role a process of its own */
    void (*then)(struct sched_world *w); /* in place of the measurement of pods */
};

enum sched_mode {
    SCHED_API,     /* one process, the real API server */
    SCHED_MEMORY,  /* the scheduler alone */
    SCHED_NETWORK, /* API server, scheduler, controllers and we: four processes, over HTTPS */
};

const char *sched_mode_name(enum sched_mode mode);
/* Runs a case and reports; fails with a message. */
void sched_case_run(const struct sched_case *k, enum sched_mode mode);

/* ---- for `then` ---- */
const struct sched_case *sched_world_case(const struct sched_world *w);
/* Creates the pods [from, from + n) and waits until they are created and, if bound, have nodes. */
void sched_world_pods(struct sched_world *w, size_t from, size_t n, bool bound);
struct bh_client *sched_world_client(struct sched_world *w);
struct bh_loop *sched_world_loop(struct sched_world *w);
struct bh_scheduler *sched_world_scheduler(struct sched_world *w);
/* A create, patch or anything else; waits for all that were asked for. */
void sched_world_call(struct sched_world *w, const void *client_req);
void sched_world_wait(struct sched_world *w);
/* Runs the loop for so long, without asking it anything meanwhile. */
void sched_world_run(struct sched_world *w, double seconds);
/* Until nobody has written for half a second. */
void sched_world_settle(struct sched_world *w);
/* Waits until a pod is being deleted; name as created ("pod-17"). */
void sched_world_until_deleting(struct sched_world *w, const char *pod);
void sched_world_report(struct sched_world *w, const char *what, double value, const char *unit);

#endif
