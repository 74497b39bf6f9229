/* The durable form of what the runtime was asked and what became of it: JSON records, one per
 * sandbox and container. Pure. Strings of a decoded record live in the arena or in the parsed text.
 * Thread: any.
 */
#ifndef BH_RUNTIME_RT_RECORD_H
#define BH_RUNTIME_RT_RECORD_H

#include "data/json.h"
#include "runtime/runtime.h"

/* Where an object is in its life. A record says what is about to happen before it does. */
enum bh_rt_phase {
    BH_RT_CREATING, /* being made: after a crash its remains are removed */
    BH_RT_CREATED,  /* containers only */
    BH_RT_STARTING, /* containers only: crun start was about to run */
    BH_RT_RUNNING,
    BH_RT_EXITED, /* of a sandbox: not ready */
    BH_RT_REMOVING,
};

struct bh_rt_sandbox_rec {
    struct bh_str id;
    enum bh_rt_phase phase;
    int64_t created_ns;
    int64_t pid, pid_start; /* start time in clock ticks since boot, to know the process again */
    struct bh_str boot_id;
    struct bh_str cgroup; /* of the pod */
    struct bh_cri_sandbox_config config;
};

struct bh_rt_container_rec {
    struct bh_str id, sandbox_id;
    enum bh_rt_phase phase;
    int64_t created_ns, started_ns, finished_ns;
    int64_t pid, pid_start, conmon_pid;
    struct bh_str boot_id;
    int64_t exit_code;
    struct bh_str reason, message;
    struct bh_str image_id, image_ref;
    struct bh_str log_path; /* absolute, or empty */
    struct bh_str cgroup;
    int64_t stop_signal;
    int64_t uid, gid;
    struct bh_cri_container_config config;
};

struct bh_str bh_rt_sandbox_encode(struct bh_arena *a, const struct bh_rt_sandbox_rec *r);
BH_MUST int bh_rt_sandbox_decode(struct bh_arena *a, struct bh_str text,
                                 struct bh_rt_sandbox_rec *ret, struct bh_err *err);
struct bh_str bh_rt_container_encode(struct bh_arena *a, const struct bh_rt_container_rec *r);
BH_MUST int bh_rt_container_decode(struct bh_arena *a, struct bh_str text,
                                   struct bh_rt_container_rec *ret, struct bh_err *err);

#endif
