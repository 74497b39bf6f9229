/* What a node agent may do: its own node, and what the pods placed on it refer to. */
#ifndef BH_APISERVER_AUTHZ_NODE_H
#define BH_APISERVER_AUTHZ_NODE_H

#include "apiserver/server_int.h"

bool bh_authz_node(struct bh_apiserver *srv, struct bh_str node, const struct bh_authz_attrs *at,
                   char *reason, size_t reason_n);

#endif
