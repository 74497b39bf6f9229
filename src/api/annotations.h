/* Annotations of this project's own, read by more than one part. */
#ifndef BH_API_ANNOTATIONS_H
#define BH_API_ANNOTATIONS_H

/* On a DeviceTaintRule with an empty selector and effect NoExecute, with the value "true": yes,
 * every device is meant. Without it the rule evicts nobody (a deviation from upstream; see
 * controllers/device_taint.h). */
#define BH_ANNOTATION_CONFIRM_ALL "bulkhead.dev/confirm-all-devices"

#endif
