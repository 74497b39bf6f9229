/* Profiles: how the pods of one schedulerName are scheduled, and what configures all of them.
 *
 * A configuration is read once (bh_scheduler_config_load, or the default one) and does not change
 * afterwards. Strings live in its arena.
 */
#ifndef BH_SCHEDULER_PROFILE_H
#define BH_SCHEDULER_PROFILE_H

#include "api/gen/core_v1.h"
#include "api/gen/kubescheduler_v1.h"
#include "base/err.h"
#include "scheduler/scheduler.h"

/* Plugins: what rejects a pod, and what else can be switched on and off. In upstream's order, which
 * is the order in which they run. */
enum plugin {
    PL_NONE, /* no node at all, or an error: any new node helps */
    PL_GATES,
    PL_SORT,
    PL_NODE_UNSCHEDULABLE,
    PL_NODE_NAME,
    PL_TAINT_TOLERATION,
    PL_NODE_AFFINITY,
    PL_NODE_PORTS,
    PL_RESOURCES_FIT,
    PL_VOLUME_RESTRICTIONS,
    PL_NODE_VOLUME_LIMITS,
    PL_VOLUME_BINDING,
    PL_VOLUME_ZONE,
    PL_TOPOLOGY_SPREAD,
    PL_INTER_POD_AFFINITY,
    PL_DYNAMIC_RESOURCES,
    PL_PREEMPTION,
    PL_BALANCED,
    PL_IMAGES,
    PL_BINDER,
    PL_NODE_FEATURES,
    PL_GANG,
    PL__MAX
};

enum point {
    PT_PRE_FILTER,
    PT_FILTER,
    PT_POST_FILTER,
    PT_RESERVE,
    PT_PRE_SCORE,
    PT_SCORE,
    PT_PRE_BIND,
    PT_BIND,
    PT_POST_BIND,
    PT_PERMIT,
    PT_PRE_ENQUEUE,
    PT_QUEUE_SORT,
    PT_PLACEMENT_GENERATE,
    PT_PLACEMENT_SCORE,
    PT__MAX
};

/* Plugins of one extension point, in the order in which they run. */
struct point_plugins {
    uint8_t p[PL__MAX];
    uint8_t n;
};

enum fit_strategy { FIT_LEAST, FIT_MOST, FIT_RATIO };

/* How resources are scored. */
struct res_weight {
    struct bh_str name;
    int64_t weight;
    uint32_t id; /* number within one scheduler; set by it */
};
struct res_weights {
    struct res_weight *p;
    size_t n;
    bool plain; /* cpu and memory, weight 1 each: what nearly all use */
};

struct sched_profile {
    struct bh_str name; /* schedulerName */
    int32_t percentage; /* of nodes to score; 0: by the size of the cluster */
    struct point_plugins run[PT__MAX];
    uint32_t on[PT__MAX];    /* the same as bits 1 << enum plugin */
    bool standard;           /* the filters are the default ones in their order */
    int64_t weight[PL__MAX]; /* of scores; 0: not run */
    enum fit_strategy strategy;
    struct res_weights fit, balanced;
    const struct bh_kubescheduler_v1_utilization_shape_point_vec *shape; /* FIT_RATIO */
    struct bh_str_vec ignored, ignored_groups; /* extended resources that are not counted */
    int32_t hard_affinity_weight;
    bool ignore_existing_preferred;
    const struct bh_core_v1_node_affinity *added_affinity;                  /* or NULL */
    const struct bh_core_v1_topology_spread_constraint_vec *default_spread; /* NULL: built in */
    int32_t preempt_percentage, preempt_min;
    int64_t binding_timeout_s;     /* of devices */
    int64_t volume_bind_timeout_s; /* of volumes */
};

struct bh_scheduler_config {
    struct bh_arena *arena;
    const struct bh_kubescheduler_v1_kube_scheduler_configuration *c; /* defaulted, valid */
    struct sched_profile *profiles;
    size_t profiles_n;
};

const char *sched_plugin_name(enum plugin pl);

/* What the file says, without what flags may still change: 0 and *ret, to be freed. */
BH_MUST int sched_config_parse(struct bh_str text, struct bh_scheduler_config **ret,
                               struct bh_err *err);
/* Upstream's rules: one text for all faults. */
BH_MUST int sched_config_validate(struct bh_arena *a,
                                  struct bh_kubescheduler_v1_kube_scheduler_configuration *c,
                                  struct bh_err *err);
/* Compiles the profiles of a valid configuration. */
BH_MUST int sched_profiles_build(struct bh_scheduler_config *cfg, struct bh_err *err);

/* Arguments of a plugin in a profile, decoded and defaulted. */
struct plugin_args {
    const struct bh_kubescheduler_v1_default_preemption_args *preemption;
    const struct bh_kubescheduler_v1_dynamic_resources_args *devices;
    const struct bh_kubescheduler_v1_inter_pod_affinity_args *pods;
    const struct bh_kubescheduler_v1_node_affinity_args *nodes;
    const struct bh_kubescheduler_v1_node_resources_balanced_allocation_args *balanced;
    const struct bh_kubescheduler_v1_node_resources_fit_args *fit;
    const struct bh_kubescheduler_v1_pod_topology_spread_args *spread;
    const struct bh_kubescheduler_v1_volume_binding_args *volumes;
};
/* Fills *ret from pluginConfig: what is not given has its defaults. strict collects unknown
 * fields. */
BH_MUST int sched_args_read(const struct bh_kubescheduler_v1_kube_scheduler_profile *p, size_t at,
                            struct bh_arena *a, struct plugin_args *ret, struct bh_str *ret_strict,
                            struct bh_err *err);

#endif
