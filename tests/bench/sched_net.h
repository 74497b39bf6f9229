/* API server, scheduler and controllers, each a process of its own that speaks HTTPS: the product's
 * own commands. */
#ifndef BH_BENCH_SCHED_NET_H
#define BH_BENCH_SCHED_NET_H

#include <stdint.h>

struct bh_client;
struct bh_loop;
struct sched_net;

/* The API server alone; *ret_admin is a client with every right. */
struct sched_net *sched_net_new(struct bh_loop *l, struct bh_client **ret_admin);
void sched_net_start_roles(struct sched_net *n);
struct sched_net *sched_net_free(struct sched_net *n);

enum sched_net_role { SCHED_NET_API, SCHED_NET_SCHEDULER, SCHED_NET_CONTROLLERS, SCHED_NET_ROLES };
double sched_net_cpu(const struct sched_net *n,
                     enum sched_net_role r); /* seconds since its start */
double sched_net_rss_mib(const struct sched_net *n, enum sched_net_role r);
/* The server's newest version, by a request: grows with each write. */
uint64_t sched_net_version(struct sched_net *n);

#endif
