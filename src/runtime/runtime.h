/* Container runtimes behind one table of functions, shaped like the Container Runtime Interface
 * (runtime.v1).
 *
 * Two implementations are meant: the embedded runtime (bh_runtime_embedded_new) and a gRPC client
 * for containerd or CRI-O. The caller cannot tell them apart.
 *
 * Contract. Every call is asynchronous: done runs once, on the loop, never before the call has
 * returned. Arguments are borrowed for the duration of the call only (the implementation copies).
 * Results and *err are valid during the callback only; err is NULL on success. Stop and remove
 * succeed for unknown or already handled ids; status, start and exec of an unknown id give
 * BH_E_NOT_FOUND. Two changing calls on one container at a time: the second gets BH_E_BUSY (stop
 * may always be called). After free no callback runs; free itself must not be called from a
 * callback. Thread: the loop's own.
 */
#ifndef BH_RUNTIME_RUNTIME_H
#define BH_RUNTIME_RUNTIME_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct bh_loop;
struct bh_runtime;

/* ---- what is asked ---- */

struct bh_cri_env {
    struct bh_str key;
    struct bh_str value; /* any bytes but NUL */
};
struct bh_cri_env_vec {
    struct bh_cri_env *p;
    size_t n;
};

enum bh_cri_propagation { BH_CRI_PRIVATE, BH_CRI_HOST_TO_CONTAINER, BH_CRI_BIDIRECTIONAL };

struct bh_cri_mount {
    struct bh_str container_path;
    struct bh_str host_path; /* empty for an image mount; a host path must exist */
    bool readonly;
    bool recursive_readonly;
    enum bh_cri_propagation propagation;
    struct bh_str image; /* id or name: the content of an image, read-only */
    struct bh_str image_sub_path;
};
struct bh_cri_mount_vec {
    struct bh_cri_mount *p;
    size_t n;
};

struct bh_cri_device {
    struct bh_str container_path;
    struct bh_str host_path;
    struct bh_str permissions; /* a subset of "rwm" */
};
struct bh_cri_device_vec {
    struct bh_cri_device *p;
    size_t n;
};

/* 0 means "leave as it is" everywhere. */
struct bh_cri_resources {
    int64_t cpu_period; /* microseconds */
    int64_t cpu_quota;
    int64_t cpu_shares;
    int64_t memory_limit; /* bytes */
    int64_t memory_swap_limit;
    int64_t pids_limit; /* ours: CRI has no such field */
    int64_t oom_score_adj;
    struct bh_str cpuset_cpus;
    struct bh_str cpuset_mems;
};

/* DEFAULT: its own pid namespace, or the one the sandbox shares or takes from the host. */
enum bh_cri_pid_mode { BH_CRI_PID_DEFAULT, BH_CRI_PID_TARGET };

enum bh_cri_seccomp { BH_CRI_SECCOMP_DEFAULT, BH_CRI_SECCOMP_UNCONFINED, BH_CRI_SECCOMP_LOCALHOST };

struct bh_cri_i64_vec {
    int64_t *p;
    size_t n;
};

struct bh_cri_security {
    bool privileged;
    bool readonly_rootfs;
    bool no_new_privs;
    bool has_run_as_user, has_run_as_group;
    int64_t run_as_user, run_as_group;
    struct bh_str run_as_username; /* looked up in the image's /etc/passwd */
    struct bh_cri_i64_vec supplemental_groups;
    struct bh_str_vec add_caps, drop_caps;          /* without the CAP_ prefix, "ALL" allowed */
    struct bh_str_vec masked_paths, readonly_paths; /* absent: the usual ones */
    enum bh_cri_pid_mode pid_mode;
    struct bh_str target_id; /* container whose pid namespace is joined (BH_CRI_PID_TARGET) */
    enum bh_cri_seccomp seccomp;
    struct bh_str seccomp_path;
};

struct bh_cri_sandbox_config {
    struct bh_str name, ns, uid;
    uint32_t attempt;
    struct bh_str hostname;      /* empty: the host's UTS namespace is used with the host network */
    struct bh_str log_directory; /* absolute */
    struct bh_str_vec dns_servers, dns_searches, dns_options;
    struct bh_str_map labels, annotations; /* returned byte for byte */
    struct bh_str_map sysctls;
    /* cgroup path below the runtime's own parent, "" for none, e.g. "kubepods/burstable/pod<uid>".
     */
    struct bh_str cgroup_parent;
    struct bh_cri_resources resources; /* of the pod; zero: no limit at the pod's level */
    bool host_network, host_pid, host_ipc;
    bool share_pid; /* containers join the sandbox's pid namespace */
    struct bh_str runtime_handler;
};

struct bh_cri_container_config {
    struct bh_str name;
    uint32_t attempt;
    struct bh_str image;       /* id or name, as image_status resolves it */
    struct bh_str user_image;  /* what the user wrote */
    struct bh_str_vec command; /* replaces the image's entrypoint when not empty (the image's cmd is
                                  then dropped) */
    struct bh_str_vec args;
    struct bh_str working_dir;
    struct bh_cri_env_vec envs;
    struct bh_cri_mount_vec mounts;
    struct bh_cri_device_vec devices;
    struct bh_str_vec cdi_devices; /* qualified names, "vendor/class=name" */
    struct bh_str_map labels, annotations;
    struct bh_str log_path; /* relative to the sandbox's log directory; empty: no log */
    bool stdin_open, stdin_once, tty;
    struct bh_cri_resources resources;
    struct bh_cri_security security;
    int stop_signal; /* 0: the image's, else SIGTERM */
};

/* ---- what is answered ---- */

enum bh_cri_sandbox_state { BH_CRI_SANDBOX_READY, BH_CRI_SANDBOX_NOTREADY };

struct bh_cri_sandbox {
    struct bh_str id, name, ns, uid;
    uint32_t attempt;
    enum bh_cri_sandbox_state state;
    int64_t created_ns; /* Unix time */
    int pid;            /* of the pause process; 0 when not running or unknown */
    struct bh_str_vec ips;
    bool host_network;
    struct bh_str_map labels, annotations;
};
struct bh_cri_sandbox_vec {
    struct bh_cri_sandbox *p;
    size_t n;
};

enum bh_cri_container_state { BH_CRI_CREATED, BH_CRI_RUNNING, BH_CRI_EXITED, BH_CRI_UNKNOWN };

struct bh_cri_container {
    struct bh_str id, sandbox_id, name;
    uint32_t attempt;
    enum bh_cri_container_state state;
    int64_t created_ns, started_ns, finished_ns; /* Unix time; 0: not yet */
    int pid;              /* of its first process on the host; 0 when not running or unknown */
    int exit_code;        /* 128 + n for a signal */
    struct bh_str reason; /* Completed, Error, OOMKilled, StartError, ContainerStatusUnknown */
    struct bh_str message;
    struct bh_str image, user_image; /* as asked */
    struct bh_str image_id;          /* the same string as bh_cri_image.id */
    struct bh_str image_ref;         /* repo@sha256:…, or the id */
    struct bh_str log_path;          /* absolute */
    struct bh_str_map labels, annotations;
    struct bh_cri_mount_vec mounts;
    struct bh_cri_resources resources;
    int64_t uid, gid;
};
struct bh_cri_container_vec {
    struct bh_cri_container *p;
    size_t n;
};

struct bh_cri_image {
    struct bh_str id; /* "sha256:<hex>", the digest of the image's configuration */
    struct bh_str_vec repo_tags, repo_digests;
    int64_t size; /* bytes unpacked and stored */
    bool has_uid;
    int64_t uid;            /* from the configured user */
    struct bh_str username; /* the same when it is a name */
};
struct bh_cri_image_vec {
    struct bh_cri_image *p;
    size_t n;
};

struct bh_cri_exec_result {
    struct bh_str out, err; /* at most 16 MiB each */
    int exit_code;
};

struct bh_cri_stats {
    struct bh_str id; /* container */
    int64_t at_ns;
    uint64_t cpu_ns; /* cumulative */
    uint64_t memory_usage, memory_working_set, memory_rss;
    uint64_t pids;
};
struct bh_cri_stats_vec {
    struct bh_cri_stats *p;
    size_t n;
};

struct bh_cri_status {
    bool runtime_ready, network_ready;
    struct bh_str runtime_reason, network_reason; /* when not ready */
};

struct bh_cri_fs_info {
    struct bh_str mountpoint;
    uint64_t used_bytes, inodes_used, capacity_bytes, available_bytes;
};

enum bh_cri_event_type {
    BH_CRI_EV_CREATED,
    BH_CRI_EV_STARTED,
    BH_CRI_EV_STOPPED,
    BH_CRI_EV_DELETED
};

struct bh_cri_event {
    enum bh_cri_event_type type;
    struct bh_str sandbox_id;
    struct bh_str container_id; /* empty: about the sandbox itself */
    struct bh_str pod_uid;
};

typedef void (*bh_cri_done_fn)(void *arg, const struct bh_err *err);
typedef void (*bh_cri_id_fn)(void *arg, const struct bh_err *err, struct bh_str id);
typedef void (*bh_cri_sandboxes_fn)(void *arg, const struct bh_err *err,
                                    const struct bh_cri_sandbox_vec *v);
typedef void (*bh_cri_containers_fn)(void *arg, const struct bh_err *err,
                                     const struct bh_cri_container_vec *v);
typedef void (*bh_cri_images_fn)(void *arg, const struct bh_err *err,
                                 const struct bh_cri_image_vec *v);
/* image is NULL without an error when there is no such image. */
typedef void (*bh_cri_image_fn)(void *arg, const struct bh_err *err,
                                const struct bh_cri_image *image);
typedef void (*bh_cri_exec_fn)(void *arg, const struct bh_err *err,
                               const struct bh_cri_exec_result *res);
typedef void (*bh_cri_stats_fn)(void *arg, const struct bh_err *err,
                                const struct bh_cri_stats_vec *v);
typedef void (*bh_cri_status_fn)(void *arg, const struct bh_err *err,
                                 const struct bh_cri_status *s);
typedef void (*bh_cri_fs_info_fn)(void *arg, const struct bh_err *err,
                                  const struct bh_cri_fs_info *i);
typedef void (*bh_cri_event_fn)(void *arg, const struct bh_cri_event *ev);

struct bh_runtime_ops {
    const char *name; /* for containerRuntimeVersion: "<name>://<version>" */
    const char *version;

    void (*free)(struct bh_runtime *rt); /* running containers are left alone */
    /* One listener; called on the loop for every change, also for those that no call caused. */
    void (*set_events)(struct bh_runtime *rt, bh_cri_event_fn fn, void *arg);
    void (*status)(struct bh_runtime *rt, bh_cri_status_fn done, void *arg);

    void (*sandbox_run)(struct bh_runtime *rt, const struct bh_cri_sandbox_config *c,
                        bh_cri_id_fn done, void *arg);
    void (*sandbox_stop)(struct bh_runtime *rt, struct bh_str id, bh_cri_done_fn done, void *arg);
    void (*sandbox_remove)(struct bh_runtime *rt, struct bh_str id, bh_cri_done_fn done, void *arg);
    /* id empty: all of them. An unknown id is BH_E_NOT_FOUND. */
    void (*sandbox_list)(struct bh_runtime *rt, struct bh_str id, bh_cri_sandboxes_fn done,
                         void *arg);

    void (*container_create)(struct bh_runtime *rt, struct bh_str sandbox_id,
                             const struct bh_cri_container_config *c, bh_cri_id_fn done, void *arg);
    void (*container_start)(struct bh_runtime *rt, struct bh_str id, bh_cri_done_fn done,
                            void *arg);
    /* Sends the stop signal, waits grace_s seconds, then kills; 0 kills at once. done runs when it
     * has exited. */
    void (*container_stop)(struct bh_runtime *rt, struct bh_str id, int64_t grace_s,
                           bh_cri_done_fn done, void *arg);
    void (*container_remove)(struct bh_runtime *rt, struct bh_str id, bh_cri_done_fn done,
                             void *arg);
    /* Empty ids do not filter. A given container id that is unknown is BH_E_NOT_FOUND. */
    void (*container_list)(struct bh_runtime *rt, struct bh_str sandbox_id, struct bh_str id,
                           bh_cri_containers_fn done, void *arg);
    void (*container_update)(struct bh_runtime *rt, struct bh_str id,
                             const struct bh_cri_resources *r, bh_cri_done_fn done, void *arg);
    void (*container_reopen_log)(struct bh_runtime *rt, struct bh_str id, bh_cri_done_fn done,
                                 void *arg);
    void (*container_stats)(struct bh_runtime *rt, struct bh_str id, bh_cri_stats_fn done,
                            void *arg);
    /* timeout_ms 0: none. BH_E_TIMEOUT when it passed (the process is killed). A missing program
     * gives exit code 127. */
    void (*exec_sync)(struct bh_runtime *rt, struct bh_str id, const struct bh_str_vec *cmd,
                      int timeout_ms, bh_cri_exec_fn done, void *arg);

    void (*image_list)(struct bh_runtime *rt, bh_cri_images_fn done, void *arg);
    void (*image_status)(struct bh_runtime *rt, struct bh_str name, bh_cri_image_fn done,
                         void *arg);
    /* done gets the image's id. The embedded runtime answers BH_E_UNSUPPORTED until it speaks to
     * registries. */
    void (*image_pull)(struct bh_runtime *rt, struct bh_str name, bh_cri_id_fn done, void *arg);
    void (*image_remove)(struct bh_runtime *rt, struct bh_str name, bh_cri_done_fn done, void *arg);
    void (*image_fs_info)(struct bh_runtime *rt, bh_cri_fs_info_fn done, void *arg);
};

struct bh_runtime {
    const struct bh_runtime_ops *ops;
};

static inline struct bh_runtime *bh_runtime_free(struct bh_runtime *rt)
{
    if (rt)
        rt->ops->free(rt);
    return NULL;
}

/* ---- the embedded runtime: crun and conmon, state under DATA/runtime ---- */

struct bh_runtime_opts {
    struct bh_loop *loop;
    const char *data_dir;        /* the cluster's data directory, absolute */
    const char *helper;          /* program with the `runtime-exec` command; NULL: /proc/self/exe */
    const char *const *cdi_dirs; /* NULL-terminated, rising priority; NULL: DATA/cdi only */
    const char *cgroup_parent;   /* NULL: "/bulkhead/<hash of the data directory>" */
    const char *crun, *conmon;   /* NULL: looked up in PATH */
};

/* Reads what an earlier process left under DATA/runtime and re-adopts every sandbox and container
 * without touching it; an unreadable record is moved to DATA/runtime/quarantine and reported, never
 * fatal. Takes a lock: BH_E_BUSY when another process owns the directory. Blocking; for start-up.
 */
BH_MUST int bh_runtime_embedded_new(const struct bh_runtime_opts *o, struct bh_runtime **ret,
                                    struct bh_err *err);

/* For `bulkhead down`: kills and removes every container and sandbox of the data directory with its
 * cgroups and mounts, keeps the images. Blocking; no bh_runtime of the directory may exist. o->loop
 * is not used. */
BH_MUST int bh_runtime_purge(const struct bh_runtime_opts *o, struct bh_err *err);
/* Takes away every mount below dir, as far as the kernel lets us; for pods' volumes. Blocking. */
void bh_runtime_unmount_below(const char *dir);

/* The cgroup path that a sandbox's cgroup_parent is below, e.g. "/bulkhead/1a2b3c4d"; for stats and
 * limits of pods. */
const char *bh_runtime_cgroup_root(const struct bh_runtime *rt);

/* The hidden command `bulkhead runtime-exec …`, a single-threaded process that leaves the host's
 * mount namespace, takes away what crun cannot stand, mounts root file systems and executes crun or
 * conmon. argv[0] is "runtime-exec". */
int bh_runtime_exec_main(int argc, char **argv);

#endif
