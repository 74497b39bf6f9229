/* What the server itself writes: the objects a fresh cluster holds, and the end of old events. */
#ifndef BH_APISERVER_BOOTSTRAP_H
#define BH_APISERVER_BOOTSTRAP_H

#include "apiserver/server_int.h"

/* Creates the default objects that are missing; they appear when the store has taken them. */
void bh_bootstrap(struct bh_apiserver *srv);
/* Removes events older than an hour (upstream's --event-ttl), a few at a time. */
void bh_expire_events(struct bh_apiserver *srv);

#endif
