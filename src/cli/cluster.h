/* A cluster on this machine: where its files stand, who holds it. */
#ifndef BH_CLI_CLUSTER_H
#define BH_CLI_CLUSTER_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;

#define CLUSTER_DATA_DIR     "/var/lib/bulkhead"
#define CLUSTER_KUBELET_ROOT "/var/lib/kubelet"
#define CLUSTER_PORT         6443
#define CLUSTER_KUBELET_PORT 10250

struct cluster {
    const char *data_dir; /* absolute, NUL-terminated, without a slash at its end; in the arena, as
                             all below */
    const char *kubelet_root;
    int port, kubelet_port;
    int devices;
    const char *profile;   /* of the simulated GPUs, or NULL */
    const char *node_name; /* NULL: the host's */
};

/* DIR given, else BULKHEAD_DATA_DIR, else /var/lib/bulkhead; made absolute. */
const char *cluster_data_dir(struct bh_arena *a, const char *given);
/* DATA/rel in the arena. */
const char *cluster_path(struct bh_arena *a, const char *data_dir, const char *rel);
/* Pid of the process that runs this cluster, 0: none. Never one that held the lock earlier. */
int cluster_running(const char *data_dir);
/* The cluster's lock; -BH_E_BUSY when it runs. Held until *ret_fd is closed. Writes
 * DATA/bulkhead.pid. */
BH_MUST int cluster_lock(const char *data_dir, int *ret_fd, struct bh_err *err);

/* Takes the kubelet's root for this cluster: -BH_E_BUSY while another one uses it. Held until
 * *ret_fd is closed; which cluster used it last is written there, and the root in DATA. */
BH_MUST int cluster_claim_root(const char *data_dir, const char *root, int *ret_fd,
                               struct bh_err *err);
/* The root that the cluster used last, NULL: none. */
const char *cluster_root_of(struct bh_arena *a, const char *data_dir);
/* Whether what lies below the root is this cluster's. */
bool cluster_owns_root(const char *data_dir, const char *root);

int bh_up_main(int argc, char **argv);
int bh_down_main(int argc, char **argv);

#endif
