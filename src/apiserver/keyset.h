/* A sorted set of entries by key, in chunks: cheap to insert into, to walk in order, and to count
 * between two places.
 *
 * It owns neither entries nor keys. One thread at a time. Positions stay valid until the set
 * changes.
 */
#ifndef BH_APISERVER_KEYSET_H
#define BH_APISERVER_KEYSET_H

#include "base/str.h"

struct bh_keyset_chunk;

/* First member of what is kept in the set; the key must stay while the entry is in it. */
struct bh_keyset_entry {
    struct bh_str key;
};

struct bh_keyset {
    struct bh_keyset_chunk **chunks;
    size_t n_chunks, cap;
    size_t n; /* entries */
};

struct bh_keyset_pos {
    size_t chunk, at;
};

void bh_keyset_done(struct bh_keyset *ks);
/* The key must not be in the set yet. */
void bh_keyset_insert(struct bh_keyset *ks, struct bh_keyset_entry *e);
/* Returns the removed entry, or NULL. */
struct bh_keyset_entry *bh_keyset_remove(struct bh_keyset *ks, struct bh_str key);
/* Position of the first entry whose key is not less than key. */
struct bh_keyset_pos bh_keyset_seek(const struct bh_keyset *ks, struct bh_str key);
/* The entry at *pos, which moves on; NULL at the end. */
struct bh_keyset_entry *bh_keyset_next(const struct bh_keyset *ks, struct bh_keyset_pos *pos);
/* How many entries stand in [from, to). */
size_t bh_keyset_between(const struct bh_keyset *ks, struct bh_keyset_pos from,
                         struct bh_keyset_pos to);

#endif
