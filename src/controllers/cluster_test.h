/* For tests of controllers: an API server on a virtual loop, controllers as their own user, and the
 * objects that stories about devices begin with. */
#ifndef BH_CONTROLLERS_CLUSTER_TEST_H
#define BH_CONTROLLERS_CLUSTER_TEST_H

#include "client/flaky_test.h"
#include "client/world_test.h"
#include "controllers/controllers.h"

#define POD   &bh_core_v1_pod_kind
#define NODE  &bh_core_v1_node_kind
#define CLAIM &bh_resource_v1_resource_claim_kind
#define SLICE &bh_resource_v1_resource_slice_kind
#define RULE  &bh_resource_v1beta2_device_taint_rule_kind

struct bh_core_v1_pod;
struct bh_resource_v1_resource_claim;

struct tc {
    struct world w;
    struct bh_client *own; /* as system:kube-controller-manager */
    struct flaky f;        /* around it */
    struct bh_controllers *ctl;
    struct bh_controllers_opts opts;
};

/* controllers: as --controllers has it. */
void tc_open(struct tc *t, const char *controllers);
void tc_close(struct tc *t);
void tc_restart(struct tc *t); /* the controllers forget what they do not read */
static inline void tc_run(struct tc *t, int64_t ms)
{
    world_run(&t->w, ms);
}

const char *tc_fmt(struct tc *t, const char *fmt, ...) BH_PRINTF(2, 3);

/* Node name, Ready, with a lease that was renewed just now; tc_beat renews it. */
void tc_node(struct tc *t, const char *name);
void tc_beat(struct tc *t, const char *name);
/* A slice of driver d, pool = node, devices d0..d(n-1); d0 carries these taints (JSON list, or
 * NULL). The second call for a node replaces them. */
void tc_slice(struct tc *t, const char *node, int n, const char *taints_of_d0);
/* A claim that was allocated this device, with these tolerations (JSON list, or NULL). */
void tc_claim(struct tc *t, const char *ns, const char *name, const char *pool, const char *device,
              const char *tolerations);
/* A pod on a node that uses the claim, which is reserved for it. */
void tc_pod(struct tc *t, const char *ns, const char *name, const char *node, const char *claim);
/* NULL when it is gone. */
const struct bh_core_v1_pod *tc_get_pod(struct tc *t, const char *ns, const char *name);
const struct bh_resource_v1_resource_claim *tc_get_claim(struct tc *t, const char *ns,
                                                         const char *name);
bool tc_deleting(struct tc *t, const char *ns, const char *name);
/* "status reason message" of a condition, or "". */
const char *tc_pod_condition(struct tc *t, const char *ns, const char *name, const char *type);
const char *tc_rule_condition(struct tc *t, const char *name);
/* Whether there is an event about the object whose message begins so. */
bool tc_event(struct tc *t, const char *ns, const char *object, const char *reason,
              const char *message);

#endif
