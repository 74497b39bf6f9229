/* The HTTPS front door. */
#ifndef BH_APISERVER_FRONTEND_H
#define BH_APISERVER_FRONTEND_H

#include "apiserver/server_int.h"

struct bh_frontend *bh_frontend_free(struct bh_frontend *f);

#endif
