/* The scheduler's own port, as a process: /healthz, /livez, /readyz for everybody, /metrics for
 * this machine (nobody is authenticated). TLS with a certificate made at the start. */
#ifndef BH_SCHEDULER_SERVE_H
#define BH_SCHEDULER_SERVE_H

#include "base/err.h"

struct bh_loop;
struct bh_scheduler;
struct sched_server;

/* sched: where the scheduler stands once it works; *sched is NULL while another one leads. host: a
 * literal address. NULL with *err when the port cannot be had. */
struct sched_server *sched_server_new(struct bh_loop *l, const char *host, int port,
                                      struct bh_scheduler *const *sched, int *ret_port,
                                      struct bh_err *err);
struct sched_server *sched_server_free(struct sched_server *s);

#endif
