/* The table that tools/apigen.py makes of all kinds. Private to src/api: others use the functions
 * in api/types.h. */
#ifndef BH_API_REGISTRY_H
#define BH_API_REGISTRY_H

#include "api/types.h"

struct bh_registry {
    const struct bh_kind *const *kinds;
    uint32_t n_kinds;
    /* Open-addressing tables of 1 + index in kinds, 0 is empty; hashed by bh_name_hash() of the
     * resource, the kind. */
    const uint16_t *by_resource;
    uint32_t resource_mask;
    const uint16_t *by_kind;
    uint32_t kind_mask;
    const struct bh_str *gates;
    uint32_t n_gates;
};

extern const struct bh_registry bh_registry;

#endif
