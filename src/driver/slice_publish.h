/* Keeps the ResourceSlices of one driver on one node equal to what the driver wants.
 *
 * Writes at once when the wish changes, and 30 s after somebody else changed or deleted a slice of
 * ours. Failures are repeated with a growing pause. Slices that are found at start are adopted; an
 * equal one is not written. Thread: the loop's.
 */
#ifndef BH_DRIVER_SLICE_PUBLISH_H
#define BH_DRIVER_SLICE_PUBLISH_H

#include "base/err.h"
#include "base/str.h"

struct bh_client;
struct bh_resource_v1_counter_set;
struct bh_resource_v1_device;
struct bh_slice_publisher;

struct bh_slice_publisher *bh_slice_publisher_new(struct bh_client *c, const char *driver,
                                                  const char *node);
struct bh_slice_publisher *
bh_slice_publisher_free(struct bh_slice_publisher *p); /* leaves the slices as they are */
/* The wish: these devices, in this order, and the counters that they share. Copied. */
void bh_slice_publisher_set(struct bh_slice_publisher *p,
                            const struct bh_resource_v1_device *devices, size_t n,
                            const struct bh_resource_v1_counter_set *counters, size_t counters_n);
/* What is wrong with the wish, NULL: nothing. Two devices of one name, or counters that are not
 * there: nothing is written until there is another wish. Fields that the server does not keep,
 * since a feature of it is off: the wish is what it kept. */
const char *bh_slice_publisher_fault(const struct bh_slice_publisher *p);
/* All is written, as far as is known. */
bool bh_slice_publisher_settled(const struct bh_slice_publisher *p);

#endif
