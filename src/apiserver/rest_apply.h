/* Server-side apply. */
#ifndef BH_APISERVER_REST_APPLY_H
#define BH_APISERVER_REST_APPLY_H

#include "apiserver/rq.h"

BH_MUST int bh_rest_apply(struct bh_rq *rq);

#endif
