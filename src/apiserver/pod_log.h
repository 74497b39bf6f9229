/* GET pods/x/log: asked of the agent on the pod's node. */
#ifndef BH_APISERVER_POD_LOG_H
#define BH_APISERVER_POD_LOG_H

#include "apiserver/rq.h"

BH_MUST int bh_pod_log(struct bh_rq *rq);

#endif
