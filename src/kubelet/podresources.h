/* PodResources: tells monitoring agents which devices the pods of this node hold, over gRPC on
 * <root>/pod-resources/kubelet.sock (v1 List, Get, GetAllocatableResources; v1alpha1 List). 100
 * calls a second with bursts of ten, then RESOURCE_EXHAUSTED. Thread: the loop's own. */
#ifndef BH_KUBELET_PODRESOURCES_H
#define BH_KUBELET_PODRESOURCES_H

#include "base/err.h"

#include <stddef.h>

struct bh_dra_manager;
struct bh_loop;
struct bh_obj;
struct bh_podresources;

struct bh_podresources_opts {
    const char *root; /* kubelet root directory; copied */
    const struct bh_dra_manager *dra;
    /* The pods that are admitted and not finished: for (size_t it = 0; (pod = next(arg, &it));).
     * Borrowed. */
    struct bh_obj *(*next_pod)(void *arg, size_t *it);
    void *arg;
};
struct bh_podresources *bh_podresources_new(struct bh_loop *l, const struct bh_podresources_opts *o,
                                            struct bh_err *err);
struct bh_podresources *bh_podresources_free(struct bh_podresources *p);

#endif
