/* Inside controllers/: what the controllers share. */
#ifndef BH_CONTROLLERS_CONTROLLERS_INT_H
#define BH_CONTROLLERS_CONTROLLERS_INT_H

#include "api/obj.h"
#include "api/types.h"
#include "client/client.h"
#include "client/workqueue.h"
#include "controllers/controllers.h"
#include "net/loop.h"

struct bh_core_v1_pod;
struct bh_meta_v1_object_meta;
struct ctl_owner;

/* One informer per kind, many listeners. Listeners are told in the order in which they subscribed.
 */
struct ctl_informers;
struct ctl_informers *ctl_informers_new(struct bh_client *c);
struct ctl_informers *ctl_informers_free(struct ctl_informers *s);
/* ops and arg must outlive the set. */
struct bh_informer *ctl_subscribe(struct ctl_informers *s, const struct bh_kind *k,
                                  const struct bh_informer_ops *ops, void *arg);
/* Whether all of them have delivered their first list: nothing is concluded from half a cache. A
 * controller asks only for those it uses, and pauses its queue until then. */
bool ctl_synced(struct bh_informer *const *informers, size_t n);

/* What a controller is given. */
struct ctl {
    struct bh_client *client;
    struct bh_loop *loop;
    struct ctl_informers *informers;
    struct bh_recorder *recorder;
    const struct bh_controllers_opts *opts;
};

/* A controller: a name as upstream's --controllers has it, and its life. */
struct ctl_controller {
    const char *name;
    void *(*start)(struct ctl *c);
    void (*stop)(void *self);
};
extern const struct ctl_controller ctl_resource_claim;
extern const struct ctl_controller ctl_device_taint_eviction;
extern const struct ctl_controller ctl_node_lifecycle;
extern const struct ctl_controller ctl_taint_eviction;
extern const struct ctl_controller ctl_pod_gc;
extern const struct ctl_controller ctl_garbage_collector;
extern const struct ctl_controller ctl_namespace;
extern const struct ctl_controller ctl_podgroup_protection;
extern const struct ctl_controller ctl_disruption;
extern const struct ctl_controller ctl_volume_binder;
extern const struct ctl_controller ctl_pvc_protection;
extern const struct ctl_controller ctl_pv_protection;
extern const struct ctl_controller ctl_vac_protection;
extern const struct ctl_controller ctl_ephemeral_volume;
extern const struct ctl_controller ctl_resource_pool_status;

/* Phase Succeeded or Failed, or deleted before it got a node: nothing of it will run any more. */
bool ctl_pod_done(const struct bh_core_v1_pod *pod);
/* The controlling owner reference is the object of this kind and uid. */
bool ctl_owned_by(const struct bh_meta_v1_object_meta *m, const char *kind, struct bh_str uid);
/* Name of the claim of pod.spec.resourceClaims[i]; empty when it is not made yet or not needed. */
struct bh_str ctl_pod_claim_name(const struct bh_core_v1_pod *pod, size_t i);

#endif
