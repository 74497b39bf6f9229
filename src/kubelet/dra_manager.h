/* Claims of pods on this node: prepared by their drivers before containers start, released after
 * they have stopped.
 *
 * The pod worker calls prepare when a sandbox has to be made, asks for the CDI devices of each
 * container, and calls unprepare when all containers of the pod have stopped. What is held is
 * written to <root>/dra_manager_state before a driver is asked, so that a crash between two steps
 * loses nothing; after a restart the running pods need no prepare. A driver that dies, hangs or
 * answers rubbish costs its own pods a failed call (and an event), nothing else. Thread: the loop's
 * own. Callbacks never run inside the call. Limits: BH_DRA_CLAIMS_MAX claims, 45 s a driver call.
 */
#ifndef BH_KUBELET_DRA_MANAGER_H
#define BH_KUBELET_DRA_MANAGER_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;
struct bh_client;
struct bh_core_v1_container;
struct bh_core_v1_resource_status_vec;
struct bh_dra_manager;
struct bh_loop;
struct bh_obj;
struct bh_plugin_watcher;
struct bh_recorder;

struct bh_dra_manager_opts {
    struct bh_client *client;
    const char *root;                  /* kubelet root directory; copied */
    const char *node;                  /* node name; copied */
    struct bh_plugin_watcher *watcher; /* drivers come from here; may be NULL in tests */
    struct bh_recorder *recorder;      /* for events on pods; NULL: none */
    /* A pod that still runs or may still run here: its claims are kept by the clean-up that runs
     * each minute. */
    bool (*pod_active)(void *arg, struct bh_str pod_uid);
    /* The health of a device of this pod has changed: its status has to be written again. */
    void (*health_changed)(void *arg, struct bh_str pod_uid);
    void *arg;
    int call_timeout_ms; /* 0: 45 s, the deadline of a driver call */
    int grace_ms; /* 0: 30 s, how long a driver may be away before its ResourceSlices are withdrawn
                   */
};

/* Reads the checkpoint: a corrupt one is moved aside (dra_manager_state.corrupt-N) and logged,
 * never fatal. NULL when the root cannot be written. */
struct bh_dra_manager *bh_dra_manager_new(struct bh_loop *l, const struct bh_dra_manager_opts *o,
                                          struct bh_err *err);
/* No callback runs afterwards. */
struct bh_dra_manager *bh_dra_manager_free(struct bh_dra_manager *m);

/* err is NULL on success; its text is fit for the pod's event ("prepare dynamic resources: …"). */
typedef void (*bh_dra_fn)(void *arg, const struct bh_err *err);

/* True when the pod names claims, so that prepare has something to do. */
bool bh_dra_pod_needs(const struct bh_obj *pod);
/* Reads the pod's claims, checks them, and has every driver concerned prepare them. pod is a
 * core/v1 Pod with its status (resourceClaimStatuses). Emits FailedPrepareDynamicResources on
 * failure; the caller tries again later. One prepare or unprepare per pod at a time: -BH_E_BUSY
 * through fn. Returns an id for cancel. */
uint64_t bh_dra_prepare(struct bh_dra_manager *m, const struct bh_obj *pod, bh_dra_fn fn,
                        void *arg);
/* Releases what the pod holds: a claim shared with another pod stays prepared. Succeeds when it
 * holds nothing. */
uint64_t bh_dra_unprepare(struct bh_dra_manager *m, struct bh_str pod_uid, bh_dra_fn fn, void *arg);
void bh_dra_cancel(struct bh_dra_manager *m,
                   uint64_t id); /* fn will not run; what is under way goes on */
/* The pod still holds a claim: it must not leave the API before unprepare has succeeded. */
bool bh_dra_pod_holds(const struct bh_dra_manager *m, struct bh_str pod_uid);

/* CDI device names for one container of a prepared pod, each once, in a stable order, in the arena.
 * -BH_E_NOT_FOUND when a claim is not prepared. c is one of the pod's containers (initContainers
 * and ephemeral ones too). */
BH_MUST int bh_dra_cdi_devices(const struct bh_dra_manager *m, const struct bh_obj *pod,
                               const struct bh_core_v1_container *c, struct bh_arena *a,
                               struct bh_str_vec *ret, struct bh_err *err);
/* status.containerStatuses[].allocatedResourcesStatus of one app container: sorted by name, in the
 * arena. */
void bh_dra_container_health(const struct bh_dra_manager *m, const struct bh_obj *pod,
                             const struct bh_core_v1_container *c, struct bh_arena *a,
                             struct bh_core_v1_resource_status_vec *ret);
/* All pod sources have been seen: from now on claims of pods that are not active are released. */
void bh_dra_sources_ready(struct bh_dra_manager *m);

/* The devices of the claims that a container names, for PodResources. All views are valid until the
 * next change. */
struct bh_dra_device {
    struct bh_str driver, pool, device;
    struct bh_str share_id; /* empty: none */
    struct bh_str_vec cdi_ids;
    struct bh_str_vec requests; /* empty: the device serves every request */
};
struct bh_dra_claim_devices {
    struct bh_str claim_ns, claim_name;
    struct bh_dra_device *devices;
    size_t devices_n;
};
/* Returns how many claims; claims that are not prepared are left out. */
size_t bh_dra_container_claims(const struct bh_dra_manager *m, const struct bh_obj *pod,
                               const struct bh_core_v1_container *c, struct bh_arena *a,
                               struct bh_dra_claim_devices **ret);

#endif
