/* What the parts of the claim manager share: the cache, its checkpoint, the drivers. Private to the
 * dra_*.c files. */
#ifndef BH_KUBELET_DRA_INT_H
#define BH_KUBELET_DRA_INT_H

#include "base/list.h"
#include "base/map.h"
#include "kubelet/dra_manager.h"
#include "net/loop.h"

struct bh_grpc_client;
struct bh_grpc_result;
struct bh_plugin_info;
struct dra_driver;

#define DRA_POD_CLAIMS_MAX                                                                         \
    64 /* claims of one pod: the API allows 32 in the spec, and one for extended resources */

/* What a driver holds for a claim. */
struct dra_state {
    struct bh_link link;
    struct bh_arena *arena; /* name and devices; replaced as a whole */
    struct bh_str driver;
    struct bh_dra_device *devices;
    size_t devices_n;
};

struct dra_pod_ref {
    struct bh_link link;
    char *uid;
};

struct dra_claim {
    char *key; /* "ns/name" */
    struct bh_str ns, name;
    char *uid;
    struct bh_link pods;   /* struct dra_pod_ref */
    struct bh_link states; /* struct dra_state, one for each driver of the allocation */
    bool prepared;         /* by this process */
    bool releasing;        /* an unprepare is under way: nobody else may take it up */
};

/* Waiting for the disk: fn runs when everything that was changed before the request is written. */
struct dra_write {
    struct bh_link link;
    void (*fn)(void *arg, const struct bh_err *err);
    void *arg;
};

struct bh_dra_manager {
    struct bh_loop *loop;
    struct bh_dra_manager_opts o;
    char *root, *node;
    unsigned refs; /* the owner, and work on the pool */
    bool closed;

    struct bh_map claims; /* "ns/name" to struct dra_claim * */

    struct bh_link writes_next, writes_now; /* struct dra_write */
    bool writing;

    struct bh_link drivers; /* struct dra_driver */
    struct bh_link lost; /* calls whose driver was deregistered, about to be told; dra_drivers.c */
    size_t drivers_n;
    struct bh_timer stale; /* looks for health that is too old */
    struct bh_timer start_grace;
    uint64_t list_call;
    uint64_t next_seq;

    struct bh_link ops; /* struct dra_op, in dra_manager.c */
    uint64_t next_id;
    struct bh_timer clean_up, resume;
    bool sources_ready;
};

void dra_manager_unref(struct bh_dra_manager *m);
/* Claims of pods that are gone are released now, if it is known which pods there are, and not at
 * the next turn of the clean-up: a driver has come that can do it. */
void dra_clean_up_soon(struct bh_dra_manager *m);

/* ---- dra_claims.c ---- */

struct dra_claim *dra_claim_get(const struct bh_dra_manager *m, struct bh_str ns,
                                struct bh_str name);
struct dra_claim *dra_claim_new(struct bh_dra_manager *m, struct bh_str ns, struct bh_str name,
                                struct bh_str uid);
void dra_claim_free(struct bh_dra_manager *m, struct dra_claim *c); /* and forgets it */
bool dra_claim_has_pod(const struct dra_claim *c, struct bh_str uid);
void dra_claim_add_pod(struct dra_claim *c, struct bh_str uid);
void dra_claim_del_pod(struct dra_claim *c, struct bh_str uid);
size_t dra_claim_pods(const struct dra_claim *c);
struct dra_state *dra_state_get(struct dra_claim *c, struct bh_str driver, bool make);
/* Replaces the devices; they are copied. */
void dra_state_set(struct dra_state *s, const struct bh_dra_device *devices, size_t n);

/* A claim that a pod names. */
struct dra_pod_claim {
    struct bh_str pod_name; /* in the pod's spec; empty for the extended-resources claim */
    struct bh_str name;     /* of the ResourceClaim */
    bool generated;         /* from a template: the pod must own it */
};
/* Resolves the pod's claims in the arena; those that are deliberately absent are left out. */
BH_MUST int dra_pod_claims(const struct bh_obj *pod, struct bh_arena *a, struct dra_pod_claim **ret,
                           size_t *ret_n, struct bh_err *err);

/* ---- dra_checkpoint.c ---- */

/* Reads <root>/dra_manager_state; makes it when it is missing, moves it aside when it is corrupt.
 */
BH_MUST int dra_checkpoint_load(struct bh_dra_manager *m, struct bh_err *err);
/* Writes the cache as it is now (or later). fn may be NULL. */
void dra_checkpoint_write(struct bh_dra_manager *m, void (*fn)(void *arg, const struct bh_err *err),
                          void *arg);

/* ---- dra_drivers.c ---- */

void dra_drivers_init(struct bh_dra_manager *m);
void dra_drivers_done(struct bh_dra_manager *m);
int dra_driver_registered(void *arg, const struct bh_plugin_info *info, struct bh_err *err);
void dra_driver_deregistered(void *arg, const struct bh_plugin_info *info);
bool dra_driver_known(const struct bh_dra_manager *m,
                      struct bh_str driver); /* an instance is registered */
/* Calls the driver's best instance. method: "NodePrepareResources" or "NodeUnprepareResources".
 * -BH_E_NOT_FOUND when none is registered (fn will not run). Every call answers within the
 * manager's deadline, also when the driver does not. */
BH_MUST int dra_driver_call(struct bh_dra_manager *m, struct bh_str driver, const char *method,
                            struct bh_str msg,
                            void (*fn)(void *arg, const struct bh_grpc_result *res), void *arg,
                            struct bh_err *err);
/* "Healthy", "Unhealthy" or "Unknown", and a message (views, valid until the next change). */
void dra_health_get(const struct bh_dra_manager *m, struct bh_str driver, struct bh_str pool,
                    struct bh_str device, struct bh_str *ret_health, struct bh_str *ret_message);

#endif
