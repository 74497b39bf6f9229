/* Health of simulated devices over time: faults that are there, and faults that went but whose
 * device is still watched. Kept in a small file, so that a restart shortens nothing.
 *
 * Pure but for load and store: the caller says what time it is. Thread: one.
 */
#ifndef BH_DRIVER_GPU_HEALTH_H
#define BH_DRIVER_GPU_HEALTH_H

#include "data/time_fmt.h"
#include "driver/gpu_faults.h"
#include "driver/health_policy.h"

#define BH_HEALTH_FILE        "health.json"
#define BH_HEALTH_ENTRIES_MAX (2 * BH_FAULTS_MAX)
#define BH_HEALTH_ONSETS_MAX  BH_HEALTH_FLAP_FAULTS_MAX /* remembered of one device */

struct bh_health_entry {
    char *device;
    int xid;
    struct bh_time since;   /* of the fault, or of its effect when the policy changed it later */
    struct bh_time cleared; /* zero: the fault is there */
    int effect;             /* that since belongs to; -1: not judged yet */
};

struct bh_health_onset { /* a fault began */
    char *device;
    struct bh_time at;
};

struct bh_health { /* all zero: nothing ever happened */
    struct bh_health_entry *entries;
    size_t n, cap;
    struct bh_health_onset *onsets; /* in order of time */
    size_t onsets_n, onsets_cap;
};

void bh_health_done(struct bh_health *h);
/* A missing file holds nothing; -BH_E_INVALID when it is malformed (then h is empty). */
BH_MUST int bh_health_load(struct bh_health *h, const char *data_dir, struct bh_err *err);
BH_MUST int bh_health_store(const struct bh_health *h, const char *data_dir, struct bh_err *err);

/* The faults that are there now. Returns whether anything changed. A fault that comes back while
 * its device is watched keeps its time: the taint never went. */
bool bh_health_update(struct bh_health *h, const struct bh_faults *f, struct bh_time now);
/* Forgets what has been watched long enough, and onsets too old to matter. What has another effect
 * than before has it since now, so that tolerations in seconds begin anew. Returns whether anything
 * changed. */
bool bh_health_expire(struct bh_health *h, const struct bh_health_policy *p, struct bh_time now);
/* Nanoseconds until something expires; INT64_MAX: nothing will. */
int64_t bh_health_wait_ns(const struct bh_health *h, const struct bh_health_policy *p,
                          struct bh_time now);

struct bh_health_verdict {
    int xid; /* 0: healthy, nothing to say */
    enum bh_health_effect effect;
    struct bh_time since;
    struct bh_time until; /* zero: the fault is there; else it went, and the device is watched */
    bool flapping;        /* longer, because it failed often */
};
#define BH_HEALTH_TAINTS_MAX 16 /* the API's limit of taints on a device */

/* Adds what counts for a device to the n verdicts in v, of at most BH_HEALTH_TAINTS_MAX: one for
 * each XID, the most severe first, of equals those that are there, then the latest; what is too
 * much falls off at the end. Ignored faults count for nothing. Returns how many there are then. */
size_t bh_health_judge(const struct bh_health *h, const struct bh_health_policy *p,
                       struct bh_str device, struct bh_health_verdict *v, size_t n);

#endif
