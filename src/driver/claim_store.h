/* Prepared claims of one driver: checkpoint, CDI specs and metadata files.
 *
 * What is about to be done is on disk before it is done: a claim is written as started, then its
 * files appear, then it is written as done. After a crash at any point the next prepare or
 * unprepare of the claim continues; the checkpoint is `prepared.json` in the data directory, with a
 * checksum. A corrupt one is moved aside and the driver goes on: the kubelet still knows what it
 * holds, and unprepare works from the claim's UID alone. Blocking file I/O. Thread: one at a time
 * (the driver runs one job after the other on the worker pool).
 */
#ifndef BH_DRIVER_CLAIM_STORE_H
#define BH_DRIVER_CLAIM_STORE_H

#include "base/err.h"
#include "base/str.h"

#define BH_CLAIM_DEVICES_MAX 32   /* allocation results of one claim: the API's limit */
#define BH_CLAIMS_MAX        8192 /* prepared claims of one driver */

struct bh_arena;
struct bh_claim_store;
struct bh_gpu_profile;

struct bh_claim_store_opts {
    const char *data_dir;
    const char *cdi_dir;
    const char *driver; /* "gpu.bulkhead.dev": vendor of the CDI kinds and in file names */
    const struct bh_gpu_profile *profile; /* outlives the store */
    /* Called after each durable step with its name; tests die in it. NULL in production. */
    void (*step)(void *arg, const char *name);
    void *arg;
};

struct bh_claim_ref {
    struct bh_str uid, ns, name;
};

struct bh_claim_result {   /* one allocation result of this driver */
    struct bh_str request; /* as allocated: "req" or "req/sub" */
    struct bh_str pool, device, share_id;
    bool admin;
};

struct bh_claim_prepared { /* one device of the answer, in the arena */
    struct bh_str request; /* base name */
    struct bh_str pool, device, share_id;
    struct bh_str_vec cdi_ids;
};

/* Reads the checkpoint and removes CDI specs of claims that are not in it. NULL when a directory
 * cannot be made or written. */
struct bh_claim_store *bh_claim_store_open(const struct bh_claim_store_opts *o, struct bh_err *err);
struct bh_claim_store *bh_claim_store_free(struct bh_claim_store *s);
size_t bh_claim_store_count(const struct bh_claim_store *s);

/* Prepares a claim; the same claim again gives the same answer and repairs missing files.
 * pod_claim: the value of annotation resource.kubernetes.io/pod-claim-name, empty for a direct
 * claim. -BH_E_NOT_FOUND for an unknown device, -BH_E_CONFLICT when another claim has it,
 * -BH_E_INVALID for names that are none, -BH_E_IO. */
BH_MUST int bh_claim_prepare(struct bh_claim_store *s, const struct bh_claim_ref *c,
                             struct bh_str pod_claim, const struct bh_claim_result *results,
                             size_t n, struct bh_arena *a, struct bh_claim_prepared **ret,
                             struct bh_err *err);
/* The claims that are held, copied into the arena. Returns how many. */
size_t bh_claim_store_list(const struct bh_claim_store *s, struct bh_arena *a,
                           struct bh_claim_ref **ret);
/* Success for a claim that is not known. */
BH_MUST int bh_claim_unprepare(struct bh_claim_store *s, const struct bh_claim_ref *c,
                               struct bh_err *err);

#endif
