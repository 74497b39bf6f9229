/* Inside kubelet/: the agent's state and the parts of the pod worker. */
#ifndef BH_KUBELET_KUBELET_INT_H
#define BH_KUBELET_KUBELET_INT_H

#include "api/gen/core_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/map.h"
#include "client/client.h"
#include "kubelet/dra_manager.h"
#include "kubelet/kubelet.h"
#include "kubelet/plugin_watcher.h"
#include "kubelet/podresources.h"
#include "net/loop.h"
#include "runtime/runtime.h"

struct node_status;
struct kubelet_server;

/* Labels that tie what the runtime holds to pods; upstream's names. */
#define KL_LABEL_POD_NAME  "io.kubernetes.pod.name"
#define KL_LABEL_POD_NS    "io.kubernetes.pod.namespace"
#define KL_LABEL_POD_UID   "io.kubernetes.pod.uid"
#define KL_LABEL_CONTAINER "io.kubernetes.container.name"

struct bh_kubelet {
    struct bh_client *client;
    struct bh_loop *loop;
    struct bh_runtime *rt;
    struct bh_recorder *recorder;
    struct bh_plugin_watcher *plugins;
    struct bh_dra_manager *dra;
    struct bh_podresources *podresources;
    struct bh_informer *pods;
    struct node_status *node;
    struct kubelet_server *server;
    struct bh_map workers; /* pod uid -> struct pod_worker */
    char *node_name, *root, *log_dir, *node_ip;
    int port;
    bool running; /* started in full: the runtime is ours */
    bool adopted; /* what the runtime held at start has been matched to pods */
    struct bh_timer housekeeping;
    void (*ready)(void *arg);
    void *ready_arg;
};

/* ---- pod_worker.c ---- */

struct pod_worker;
/* The pod as the API has it now; a new worker when there is none. */
void kl_pod_update(struct bh_kubelet *k, struct bh_obj *pod);
/* The pod left the API: whatever still runs is stopped with a short grace. */
void kl_pod_gone(struct bh_kubelet *k, struct bh_str uid);
/* A sandbox that an earlier process made. */
void kl_pod_adopt(struct bh_kubelet *k, const struct bh_cri_sandbox *s);
void kl_pod_poke(struct bh_kubelet *k,
                 struct bh_str uid); /* something about it changed: look again */
/* A directory that an earlier process made for a pod: goes when the API does not know the pod. */
void kl_pod_adopt_dir(struct bh_kubelet *k, struct bh_str uid);
void kl_workers_start(struct bh_kubelet *k); /* adoption is complete: let them work */
void kl_worker_free(struct pod_worker *w);
/* The pod object of a worker that is admitted and not finished, or NULL. */
struct bh_obj *kl_worker_active_pod(const struct pod_worker *w);
struct bh_obj *kl_worker_pod(const struct pod_worker *w);

/* ---- pod_refs.c: config maps, secrets and volumes that a pod names ---- */

struct pod_refs; /* "RESOURCE/NAME" -> object */
typedef void (*pod_refs_fn)(void *arg, const struct bh_err *err);
/* Reads everything that volumes and environments of the pod name, live. A missing optional one is
 * left out; a missing required one fails with the text for the event. *call can be cancelled with
 * pod_refs_free(). begins: the pod uses none of it yet, so that a claim which is being deleted is
 * refused. */
struct pod_refs *pod_refs_fetch(struct bh_kubelet *k, struct bh_obj *pod, bool begins,
                                pod_refs_fn done, void *arg);
struct pod_refs *pod_refs_free(struct pod_refs *r);
const struct bh_core_v1_config_map *pod_refs_config_map(const struct pod_refs *r,
                                                        struct bh_str name);
const struct bh_core_v1_secret *pod_refs_secret(const struct pod_refs *r, struct bh_str name);
/* The volume behind a volume that names a claim; NULL for others. */
const struct bh_core_v1_persistent_volume *pod_refs_volume(const struct pod_refs *r,
                                                           const struct bh_core_v1_volume *v);

/* ---- pod_volumes.c ---- */

/* Makes the volumes of the pod below root/pods/UID/volumes and brings config maps and secrets up to
 * date. Blocking: for the worker pool (pod and refs are immutable meanwhile). */
BH_MUST int pod_volumes_setup(const char *root, const struct bh_obj *pod,
                              const struct pod_refs *refs, struct bh_err *err);
/* Unmounts and removes everything of the pod below root. Blocking. */
BH_MUST int pod_volumes_teardown(const char *root, struct bh_str uid, struct bh_err *err);
/* Host path of a volume, in the arena; NULL when the pod has no such volume. */
const char *pod_volume_path(struct bh_arena *a, const char *root, const struct bh_obj *pod,
                            const struct pod_refs *refs, struct bh_str volume);
/* Whether the pod itself wants the volume read-only, whatever a container mounts. */
bool pod_volume_read_only(const struct bh_obj *pod, struct bh_str volume);

/* ---- pod_config.c: what the runtime is asked for ---- */

const char *pod_qos(const struct bh_core_v1_pod *pod);
struct bh_cri_sandbox_config *pod_sandbox_config(struct bh_arena *a, struct bh_kubelet *k,
                                                 struct bh_obj *pod, uint32_t attempt);
/* -BH_E_INVALID: the text for CreateContainerConfigError. */
BH_MUST int pod_container_config(struct bh_arena *a, struct bh_kubelet *k, struct bh_obj *pod,
                                 const struct bh_core_v1_container *c, const struct pod_refs *refs,
                                 uint32_t attempt, struct bh_str pod_ip, struct bh_str image_id,
                                 struct bh_cri_container_config **ret, struct bh_err *err);
/* Value of a field reference ("metadata.labels['x']", "status.podIP"); false when it is not
 * supported. */
bool pod_field_value(struct bh_arena *a, struct bh_kubelet *k, struct bh_obj *pod,
                     struct bh_str path, struct bh_str pod_ip, struct bh_str *ret);
/* Host file of a container's termination message, in the arena. */
const char *pod_termination_log(struct bh_arena *a, const char *root, struct bh_str uid,
                                struct bh_str container, uint32_t attempt);

/* ---- pod_status.c ---- */

/* Why a container is not there yet, as the worker knows it. */
struct pod_wait {
    struct bh_str name;   /* container */
    struct bh_str reason; /* CrashLoopBackOff, ErrImageNeverPull … */
    struct bh_str message;
};

struct pod_status_in {
    struct bh_kubelet *kubelet;
    struct bh_obj *pod;
    const struct bh_cri_sandbox *sandbox;          /* NULL: none */
    const struct bh_cri_container_vec *containers; /* every attempt that the runtime still knows */
    const struct pod_wait *waits;
    size_t n_waits;
    struct bh_time start_time;
    bool terminal;                          /* nothing will be started any more */
    const char *fail_reason, *fail_message; /* phase Failed for a reason of ours, or NULL */
    struct bh_time now;
};
/* Fills *out (zeroed by the caller) in the arena. */
void pod_status_make(struct bh_arena *a, const struct pod_status_in *in,
                     struct bh_core_v1_pod_status *out);
/* The latest attempt of a container by name, or NULL. */
const struct bh_cri_container *pod_latest(const struct bh_cri_container_vec *v, struct bh_str name);
/* Whether policy says that an exited container starts again. */
bool pod_should_restart(const struct bh_core_v1_pod *pod, const struct bh_core_v1_container *c,
                        bool init, const struct bh_cri_container *last);
static inline bool pod_is_sidecar(const struct bh_core_v1_container *c)
{
    return c->has_restart_policy && bh_str_eqc(c->restart_policy, "Always");
}

/* ---- node_status.c ---- */

struct node_status *node_status_new(struct bh_kubelet *k);
struct node_status *node_status_free(struct node_status *n);

/* ---- kubelet_server.c ---- */

struct kubelet_server *kubelet_server_new(struct bh_kubelet *k, const struct bh_kubelet_opts *o,
                                          struct bh_err *err);
struct kubelet_server *kubelet_server_free(struct kubelet_server *s);

#endif
