/* What a pod asks of device classes through extended resources. Also for `bulkhead device explain`,
 * which has to ask the same. Pure. */
#ifndef BH_SCHEDULER_EXT_CLAIM_H
#define BH_SCHEDULER_EXT_CLAIM_H

#include "base/str.h"

struct bh_arena;
struct bh_core_v1_container_extended_resource_request_vec;
struct bh_core_v1_pod_spec;
struct bh_resource_v1_device_request_vec;

struct sched_ext_resource {
    struct bh_str name, class; /* the class that serves it */
};

/* The requests of the claim for these resources, and which container each serves. Sorts r. In the
 * arena. */
void sched_ext_requests(struct bh_arena *a, const struct bh_core_v1_pod_spec *spec,
                        struct sched_ext_resource *r, size_t n,
                        struct bh_resource_v1_device_request_vec *ret,
                        struct bh_core_v1_container_extended_resource_request_vec *ret_mappings);

#endif
