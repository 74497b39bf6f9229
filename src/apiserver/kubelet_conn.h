/* Requests to the port of a node's agent. */
#ifndef BH_APISERVER_KUBELET_CONN_H
#define BH_APISERVER_KUBELET_CONN_H

#include "apiserver/rq.h"

/* GETs target from the agent of that node and gives the answer to the request's sink: as a stream
 * when the sink is the network's, whole (at most BH_BODY_BYTES_MAX bytes) in process. */
BH_MUST int bh_kubelet_stream(struct bh_rq *rq, struct bh_str node, struct bh_str target);

#endif
