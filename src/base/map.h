/* Hash map from byte strings to pointers.
 *
 * Keys are copied into the map; values are the caller's. Open addressing, grows by doubling,
 * iteration in unspecified order. Zero-initialised is a valid empty map. One thread at a time.
 */
#ifndef BH_BASE_MAP_H
#define BH_BASE_MAP_H

#include "base/str.h"

struct bh_map_slot;

struct bh_map {
    struct bh_map_slot *slots;
    size_t n;    /* entries */
    size_t cap;  /* slots, a power of two or 0 */
    size_t dead; /* tombstones */
};

void bh_map_done(struct bh_map *m); /* frees the keys and the table, not the values */
void *bh_map_get(const struct bh_map *m, struct bh_str key);
/* Returns the previous value, or NULL. value must not be NULL. */
void *bh_map_put(struct bh_map *m, struct bh_str key, void *value);
/* Returns the removed value, or NULL. */
void *bh_map_del(struct bh_map *m, struct bh_str key);
/* for (size_t it = 0; bh_map_next(&m, &it, &key, &value);) — the map must not gain entries
 * meanwhile; deleting the entry just returned is allowed. */
bool bh_map_next(const struct bh_map *m, size_t *it, struct bh_str *ret_key, void **ret_value);

#endif
