/* The node agent: pods that the API gives this node become containers, and what they do becomes
 * status.
 *
 * One loop. It meets the API through the client and containers through the runtime's table; drivers
 * are gRPC peers. Containers do not depend on the agent's life: after a restart running pods are
 * adopted as they are.
 */
#ifndef BH_KUBELET_KUBELET_H
#define BH_KUBELET_KUBELET_H

#include "base/err.h"
#include "base/str.h"

struct bh_client;
struct bh_kubelet;
struct bh_runtime;

struct bh_kubelet_opts {
    struct bh_client *client;
    struct bh_runtime
        *runtime;          /* owned by the agent from a successful start on, and freed with it */
    const char *node_name; /* NULL: the host's name in lower case */
    const char *root;      /* --root-dir, absolute */
    const char *log_dir;   /* pod logs: LOG_DIR/pods/…; NULL: root/logs */
    /* HTTPS of the kubelet API; port 0: not served. */
    const char *bind_address;
    int port;
    struct bh_str cert_pem, key_pem, client_ca_pem;
    const char *node_ip; /* NULL: the first address that is not loopback, else 127.0.0.1 */
    /* Called once, when this start's node status is Ready in the API and PodResources answers. */
    void (*ready)(void *arg);
    void *arg;
};

/* Everything is copied. NULL and *err when the root cannot be used or a socket cannot be opened. */
struct bh_kubelet *bh_kubelet_new(const struct bh_kubelet_opts *o, struct bh_err *err);
/* Containers keep running. */
struct bh_kubelet *bh_kubelet_free(struct bh_kubelet *k);
const char *bh_kubelet_node(const struct bh_kubelet *k);

/* `bulkhead kubelet --kubeconfig K …`: runs until SIGTERM. */
int bh_kubelet_main(int argc, char **argv);

#endif
