/* What has to be written so that the API holds the ResourceSlices of one node-local pool. Pure: no
 * I/O, no clock.
 *
 * The rules are those of upstream's helper: slices are told apart by the index in front of their
 * name; one changed slice keeps the pool's generation, anything more raises it; obsolete slices go
 * first, then updates, then creations. Thread: any.
 */
#ifndef BH_DRIVER_SLICE_PLAN_H
#define BH_DRIVER_SLICE_PLAN_H

#include "base/str.h"

#include <stdint.h>

#define BH_SLICE_DEVICES                                                                           \
    64 /* the API's limit for slices with tainted devices: fixed, so that a fault moves no device  \
        */

#define BH_SLICE_COUNTERS 8 /* sets of shared counters in one slice: the API's limit */

struct bh_arena;
struct bh_obj;
struct bh_resource_v1_counter_set;
struct bh_resource_v1_device;
struct bh_resource_v1_resource_slice;

struct bh_slice_pool {
    struct bh_str driver, node, node_uid; /* the pool is named after the node */
    const struct bh_resource_v1_device *devices;
    size_t devices_n; /* 0: one empty slice, "running, no devices" */
    const struct bh_resource_v1_counter_set
        *counters; /* in slices of their own, behind the others */
    size_t counters_n;
};

enum bh_slice_verb { BH_SLICE_DELETE, BH_SLICE_UPDATE, BH_SLICE_CREATE };

struct bh_slice_op {
    enum bh_slice_verb verb;
    const struct bh_obj *old;                    /* delete, update; borrowed */
    struct bh_resource_v1_resource_slice *slice; /* update, create: complete, in the arena */
};

struct bh_slice_plan {
    struct bh_slice_op *ops; /* in the order in which they have to be done */
    size_t n;
    int64_t generation;
};

/* existing: the driver's slices of this node, any order. */
void bh_slice_plan_make(struct bh_arena *a, const struct bh_slice_pool *want,
                        const struct bh_obj *const *existing, size_t existing_n,
                        struct bh_slice_plan *ret);
/* The devices that a server stored are those that were sent, but for the times it added to taints.
 */
bool bh_slice_devices_equal(const struct bh_resource_v1_device *a, size_t an,
                            const struct bh_resource_v1_device *b, size_t bn);

#endif
