/* Certificates of the server: made at the first start, kept in a directory, renewed before they
 * end. */
#ifndef BH_APISERVER_SERVING_CERTS_H
#define BH_APISERVER_SERVING_CERTS_H

#include "apiserver/apiserver.h"
#include "net/stream.h"

/* How the server shows itself to node agents, and whom it believes: PEM files, each may be NULL. */
struct bh_kubelet_files {
    const char *ca, *cert, *key;
};

/* TLS for the listener, and for connections to node agents (either given or made in o->cert_dir:
 * ca.crt, ca.key, apiserver.crt, apiserver.key, apiserver-kubelet-client.crt and .key). Agents are
 * checked when k->ca is given. Blocking.
 */
BH_MUST int bh_serving_tls(const struct bh_apiserver_listen_opts *o, const char *client_ca_file,
                           const struct bh_kubelet_files *k, struct bh_tls **ret,
                           struct bh_tls **ret_kubelet, struct bh_err *err);

#endif
