/* Between the files about volumes. */
#ifndef BH_SCHEDULER_VOLUMES_H
#define BH_SCHEDULER_VOLUMES_H

#include "api/engine.h"
#include "api/gen/storage_v1.h"
#include "client/volumes.h"
#include "scheduler/sched_int.h"

struct pod_volume {
    struct bh_str name; /* of the claim */
    struct bh_obj *pvc; /* borrowed for the attempt */
    const struct bh_core_v1_persistent_volume_claim *c;
    struct bh_obj *pv; /* of a bound claim; NULL when it is gone */
    bool ephemeral;    /* made for the pod from a template */
    bool one_pod;      /* ReadWriteOncePod */
    bool bound;
    bool later; /* unbound, and its class waits for the pod */
};

/* Volumes of one class, for the claims that wait. */
struct class_volumes {
    struct bh_str class;
    const struct bh_core_v1_persistent_volume **v;
    struct bh_obj **obj;
    size_t n, cap, obj_cap;
};

struct volume_state {
    struct pod_volume *v;
    size_t n;
    bool restricted; /* disks or claims that may be in use elsewhere */
    bool later;
    struct pod_volume **waiting; /* those with later, the smallest first */
    size_t waiting_n;
    struct class_volumes *classes;
    size_t classes_n;
};

struct bh_obj *sched_pvc(const struct bh_scheduler *s, struct bh_str ns, struct bh_str name);
struct bh_obj *sched_pv(const struct bh_scheduler *s, struct bh_str name);
const struct bh_storage_v1_storage_class *sched_storage_class(const struct bh_scheduler *s,
                                                              struct bh_str name);

/* ---- volume_bind.c ---- */
void sched_volumes_collect(struct cycle *c);
enum verdict sched_volumes_bindable(struct cycle *c, const struct snode *n);
/* What one volume may have at most; false when the object does not say. */
bool sched_capacity_limit(const struct bh_storage_v1_csi_storage_capacity *c,
                          struct bh_quantity *ret);

/* ---- volume_limits.c ---- */
enum verdict sched_volume_limits(struct cycle *c, const struct snode *n);
bool sched_limit_raised(const struct bh_obj *old, const struct bh_obj *o); /* CSINode */

#endif
