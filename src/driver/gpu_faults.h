/* Faults of simulated devices: a small file in the driver's data directory, so that they survive
 * restarts.
 *
 * `bulkhead device fault` and `clear` change the file under a lock; the driver watches the
 * directory and reads it again; what they mean is decided by health_policy.h, and until when they
 * count by gpu_health.h. The file is JSON:
 * {"version":1,"faults":[{"device":"gpu-3","xid":79,"time":"2026-01-02T03:04:05.123456789Z"}]}.
 * Blocking, small; thread: any, the lock is between processes.
 */
#ifndef BH_DRIVER_GPU_FAULTS_H
#define BH_DRIVER_GPU_FAULTS_H

#include "base/err.h"
#include "data/time_fmt.h"

#define BH_FAULTS_FILE "faults.json"
#define BH_DEVICES_FILE                                                                            \
    "devices.json"         /* the driver's inventory, for clear errors:                            \
                              {"version":1,"devices":["gpu-0",…]} */
#define BH_FAULTS_MAX 4096 /* in one file */

struct bh_arena;

struct bh_fault {
    struct bh_str device;
    int xid;
    struct bh_time time;
};

struct bh_faults {
    struct bh_fault *p; /* in the arena, in the file's order */
    size_t n, cap;
};

/* A missing file holds no faults. -BH_E_INVALID when it is malformed. */
BH_MUST int bh_faults_load(struct bh_arena *a, const char *data_dir, struct bh_faults *ret,
                           struct bh_err *err);
/* Sets a fault; one that is there already keeps its time. -BH_E_NOT_FOUND when the driver has no
 * such device (the message names those it has), -BH_E_LIMIT, -BH_E_IO. */
BH_MUST int bh_faults_set(const char *data_dir, struct bh_str device, int xid, struct bh_time now,
                          struct bh_err *err);
/* Clears one fault of a device, or all of them when xid is 0. *ret_n: how many. */
BH_MUST int bh_faults_clear(const char *data_dir, struct bh_str device, int xid, size_t *ret_n,
                            struct bh_err *err);
/* Writes the inventory. */
BH_MUST int bh_devices_store(const char *data_dir, const struct bh_str *names, size_t n,
                             struct bh_err *err);

#endif
