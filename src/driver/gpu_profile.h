/* What GPUs a simulated node has: from a profile file (JSON or YAML), or the default, an eight-way
 * H200 machine.
 *
 *     model: H200                       # these stand for every device
 *     memory: 141Gi
 *     count: 4                          # or a list, each entry over the values above:
 *     devices:
 *     - memory: 80Gi
 *       numaNode: 1
 *       pcieRoot: pci0000:20
 *       pciBusID: "0000:21:00.0"
 *       nvlinkDomain: "0"
 *
 *     partitions: 4                     # each GPU can also be handed out in so many equal parts
 *     shared: true                      # instead: many claims at once, each with some of the
 * memory
 *
 * Further keys: uuid, productName, architecture, brand, driverVersion, cudaDriverVersion,
 * cudaComputeCapability. numaNode, pcieRoot and nvlinkDomain may be null: the machine does not say.
 * Unknown keys are errors. Thread: any (values).
 */
#ifndef BH_DRIVER_GPU_PROFILE_H
#define BH_DRIVER_GPU_PROFILE_H

#include "base/err.h"
#include "base/str.h"

#define BH_GPUS_MAX       1024 /* simulated devices of one node: sixteen full slices */
#define BH_PARTITIONS_MAX 16   /* of one GPU */

struct bh_arena;
struct bh_resource_v1_counter_set;
struct bh_resource_v1_device;

struct bh_gpu {
    struct bh_str name; /* "gpu-0" */
    struct bh_str uuid; /* "GPU-…", the same at each start */
    struct bh_str model, product_name, architecture, brand;
    struct bh_str driver_version, cuda_driver_version,
        cuda_compute_capability; /* semantic versions */
    struct bh_str memory;        /* a canonical quantity */
    int numa_node;               /* -1: not known */
    struct bh_str pcie_root;     /* "pci0000:00"; empty: not known */
    struct bh_str pci_bus_id;    /* "0000:01:00.0" */
    struct bh_str nvlink_domain; /* empty: none */
    int partitions;              /* into which it can be cut; 0: it cannot */
    bool shared;                 /* by many claims, each with some of its memory */
    struct bh_str of, of_uuid;   /* a partition: the GPU that it is part of; else empty */
};

struct bh_gpu_profile {
    struct bh_gpu
        *gpus; /* in the arena; gpu-0 first, all partitions ("gpu-0-part-0") behind the GPUs
                */
    size_t n;
};

/* count: how many GPUs, 0 when the profile says it. text: the profile file's bytes; empty gives
 * the default machine. seed: what UUIDs are derived from (node name and driver). Everything is in
 * the arena. -BH_E_INVALID names the key at fault. */
BH_MUST int bh_gpu_profile_load(struct bh_arena *a, struct bh_str text, size_t count,
                                struct bh_str seed, struct bh_gpu_profile *ret, struct bh_err *err);
/* One GPU as it is published, without taints. */
void bh_gpu_to_device(struct bh_arena *a, const struct bh_gpu *g, size_t index,
                      struct bh_resource_v1_device *ret);
/* The counters that GPUs share with their partitions: one set for each GPU that has some, named
 * after it. Returns how many. */
size_t bh_gpu_counters(struct bh_arena *a, const struct bh_gpu_profile *p,
                       struct bh_resource_v1_counter_set **ret);

#endif
