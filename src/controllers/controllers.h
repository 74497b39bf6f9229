/* Controllers: loops that bring the cluster to what its objects say.
 *
 * Each is a set of informer handlers and a work queue on one loop; they meet the API only through
 * the client.
 */
#ifndef BH_CONTROLLERS_CONTROLLERS_H
#define BH_CONTROLLERS_CONTROLLERS_H

#include "base/err.h"
#include "base/str.h"

struct bh_client;
struct bh_controllers;

struct bh_controllers_opts {
    const char *controllers;     /* upstream's --controllers: names, "*", "-name"; NULL: "*" */
    int64_t node_grace_ms;       /* --node-monitor-grace-period; 0: 50 s */
    int64_t terminated_pods_max; /* --terminated-pod-gc-threshold; 0: 12500 */
    /* --confirm-taint-of-all-devices=false: a DeviceTaintRule that selects every device evicts
     * without being confirmed, as upstream. */
    bool taints_of_all_unconfirmed;
};

/* Whether every name of a list as in bh_controllers_opts is known: -BH_E_BAD_REQUEST else. */
BH_MUST int bh_controllers_check(const char *list, struct bh_err *err);
/* NULL and *err when a name is unknown. opts is copied (its strings are borrowed until free). */
struct bh_controllers *
bh_controllers_new(struct bh_client *c, const struct bh_controllers_opts *opts, struct bh_err *err);
struct bh_controllers *bh_controllers_free(struct bh_controllers *c);

/* `bulkhead controller-manager --kubeconfig K [--leader-elect] [--controllers …]`: runs until
 * SIGTERM. */
int bh_controller_manager_main(int argc, char **argv);

#endif
