/* What persistent volumes and the claims for them have to do with each other: the facts that the
 * scheduler and the controllers have to see alike.
 *
 * Pure functions over objects; what they return lives as long as these. Thread: any.
 */
#ifndef BH_CLIENT_VOLUMES_H
#define BH_CLIENT_VOLUMES_H

#include "api/gen/core_v1.h"
#include "data/quantity.h"
#include "data/selector.h"

#define BH_VOL_CLASS "volume.beta.kubernetes.io/storage-class" /* the class's old place */
#define BH_VOL_BIND_COMPLETED                                                                      \
    "pv.kubernetes.io/bind-completed" /* of a claim: both sides are bound */
#define BH_VOL_BY_CONTROLLER  "pv.kubernetes.io/bound-by-controller" /* may be undone by us */
#define BH_VOL_SELECTED_NODE  "volume.kubernetes.io/selected-node"
#define BH_VOL_PROVISIONED_BY "pv.kubernetes.io/provisioned-by"
#define BH_VOL_PROVISIONER    "volume.kubernetes.io/storage-provisioner"
#define BH_VOL_NO_PROVISIONER "kubernetes.io/no-provisioner"

/* Name of the storage class; empty for none. */
struct bh_str bh_pvc_class(const struct bh_core_v1_persistent_volume_claim *c);
struct bh_str bh_pv_class(const struct bh_core_v1_persistent_volume *v);
/* Whether the claim is bound and says so. */
bool bh_pvc_bound(const struct bh_core_v1_persistent_volume_claim *c);
/* Whether r, the claimRef of a volume (NULL: none), names this claim. One without uid names
 * whichever claim has the name. */
bool bh_pv_ref_is(const struct bh_core_v1_object_reference *r,
                  const struct bh_core_v1_persistent_volume_claim *c);
/* Whether the volume has the mode (file system or block) that the claim wants. */
bool bh_pv_mode_fits(const struct bh_core_v1_persistent_volume *v,
                     const struct bh_core_v1_persistent_volume_claim *c);
bool bh_pv_access_fits(const struct bh_core_v1_persistent_volume *v,
                       const struct bh_core_v1_persistent_volume_claim *c);
struct bh_quantity
bh_vol_storage(const struct bh_str_map *m); /* "storage" in it; zero when absent */
struct bh_core_v1_object_reference
bh_pvc_reference(const struct bh_core_v1_persistent_volume_claim *c);
/* Name of the claim behind a volume of a pod, made in a for an ephemeral one; empty: it has none.
 */
struct bh_str bh_pod_volume_claim(struct bh_arena *a, struct bh_str pod,
                                  const struct bh_core_v1_volume *v);

/* The search for the volume of a claim: the one that names it already, else the smallest that is
 * available, fits, and is large enough; of equal ones the first by name. */
struct bh_pv_search {
    const struct bh_core_v1_persistent_volume_claim *claim;
    struct bh_label_selector selector;
    struct bh_quantity wanted;
    struct bh_str class;
    bool for_node; /* the volume has to be reached from a node */
    bool delayed;  /* without a node, only a volume that names the claim will do */
    bool done;     /* nothing further has to be offered */
    const struct bh_core_v1_persistent_volume *best;
    struct bh_quantity best_size;
};
/* a: holds the selector. */
void bh_pv_search_init(struct bh_pv_search *s, struct bh_arena *a,
                       const struct bh_core_v1_persistent_volume_claim *c, bool for_node,
                       bool delayed);
/* r: whom v is given to, which may be more than the object says yet. reached: from the node. */
void bh_pv_search_offer(struct bh_pv_search *s, const struct bh_core_v1_persistent_volume *v,
                        const struct bh_core_v1_object_reference *r, bool reached);

/* A LabelSelector of the API; NULL selects nothing. */
void bh_meta_selector(struct bh_arena *a, const struct bh_meta_v1_label_selector *ls,
                      struct bh_label_selector *ret);

#endif
