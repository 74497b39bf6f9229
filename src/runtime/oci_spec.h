/* OCI runtime configurations (config.json) from what the runtime was asked. Pure: no I/O. Thread:
 * any. */
#ifndef BH_RUNTIME_OCI_SPEC_H
#define BH_RUNTIME_OCI_SPEC_H

#include "data/json.h"
#include "runtime/image_store.h"
#include "runtime/runtime.h"

struct bh_oci_user {
    int64_t uid, gid;
    struct bh_cri_i64_vec groups;
};

/* A mount prepared by the caller: image volumes, /dev/shm, /etc/resolv.conf and the like. */
struct bh_oci_bind {
    const char *destination;
    struct bh_str source;
    bool readonly;
};

struct bh_oci_in {
    const struct bh_cri_sandbox_config *sandbox;
    const struct bh_cri_container_config *container;
    const struct bh_image *image;
    struct bh_oci_user user;
    int sandbox_pid; /* whose namespaces are joined */
    int target_pid;  /* for BH_CRI_PID_TARGET */
    const char *rootfs;
    const char *cgroup; /* cgroupsPath */
    bool cgroup_v2;
    int64_t oom_floor;   /* what oom_score_adj may not go below */
    uint64_t caps_bound; /* capabilities this process may hand out, bit by bit */
    const struct bh_oci_bind *binds;
    size_t n_binds;
};

BH_MUST int bh_oci_container(struct bh_arena *a, const struct bh_oci_in *in, struct bh_jv *ret,
                             struct bh_err *err);
/* The pause container of a sandbox. */
BH_MUST int bh_oci_sandbox(struct bh_arena *a, const struct bh_oci_in *in, struct bh_jv *ret,
                           struct bh_err *err);
/* Who the container runs as: the security context, else the image's user, looked up in the image's
 * own files (texts of /etc/passwd and /etc/group, perhaps empty). */
BH_MUST int bh_oci_resolve_user(struct bh_arena *a, const struct bh_cri_security *s,
                                struct bh_str image_user, struct bh_str passwd, struct bh_str group,
                                struct bh_oci_user *ret, struct bh_err *err);
/* "SIGTERM", "TERM", "15", "SIGRTMIN+3" to a number; 0 when it is none. */
int bh_signal_number(struct bh_str s);

#endif
