/* Follows the health policy in its ConfigMap. What cannot be read is told as a Warning event on the
 * ConfigMap and in the log, and the last good policy stays; it is also kept in the driver's data
 * directory, so that it holds from the start. No ConfigMap: the built-in table. Thread: the loop's.
 */
#ifndef BH_DRIVER_HEALTH_WATCH_H
#define BH_DRIVER_HEALTH_WATCH_H

#include "driver/health_policy.h"

struct bh_client;
struct bh_health_watch;

/* changed runs whenever the policy is another; not from inside this call. Strings are copied. */
struct bh_health_watch *bh_health_watch_new(struct bh_client *c, struct bh_str ns,
                                            struct bh_str name, const char *data_dir,
                                            void (*changed)(void *arg), void *arg);
struct bh_health_watch *bh_health_watch_free(struct bh_health_watch *w);
/* Valid until it changes. */
const struct bh_health_policy *bh_health_watch_policy(const struct bh_health_watch *w);

#endif
