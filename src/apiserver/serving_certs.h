/* Certificates of the server: made at the first start, kept in a directory, renewed before they
 * end. */
#ifndef BH_APISERVER_SERVING_CERTS_H
#define BH_APISERVER_SERVING_CERTS_H

#include "apiserver/apiserver.h"
#include "net/stream.h"

/* TLS for the listener, and for connections to node agents (either given or made in o->cert_dir:
 * ca.crt, ca.key, apiserver.crt, apiserver.key, apiserver-kubelet-client.crt and .key). Blocking.
 */
BH_MUST int bh_serving_tls(const struct bh_apiserver_listen_opts *o, const char *client_ca_file,
                           struct bh_tls **ret, struct bh_tls **ret_kubelet, struct bh_err *err);

#endif
