/* Chunks of at most CHUNK entries; none is ever empty. A lookup is a binary search over first keys,
 * then inside a chunk. */
#include "apiserver/keyset.h"

#include "base/arena.h"
#include "base/err.h"

#include <string.h>

#define CHUNK 256

struct bh_keyset_chunk {
    size_t n;
    struct bh_keyset_entry *e[CHUNK];
};

void bh_keyset_done(struct bh_keyset *ks)
{
    for (size_t i = 0; i < ks->n_chunks; i++)
        bh_free(ks->chunks[i]);
    bh_free(ks->chunks);
    memset(ks, 0, sizeof(*ks));
}

/* The chunk in which key is or would be: the last whose first key is not greater. */
static size_t find_chunk(const struct bh_keyset *ks, struct bh_str key)
{
    size_t lo = 0, hi = ks->n_chunks;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (bh_str_cmp(ks->chunks[mid]->e[0]->key, key) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo > 0 ? lo - 1 : 0;
}

static size_t find_in(const struct bh_keyset_chunk *c, struct bh_str key)
{
    size_t lo = 0, hi = c->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (bh_str_cmp(c->e[mid]->key, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void add_chunk(struct bh_keyset *ks, size_t at, struct bh_keyset_chunk *c)
{
    if (ks->n_chunks == ks->cap) {
        ks->cap = ks->cap ? ks->cap * 2 : 8;
        ks->chunks = bh_realloc(ks->chunks, ks->cap * sizeof(struct bh_keyset_chunk *));
    }
    memmove(&ks->chunks[at + 1], &ks->chunks[at],
            (ks->n_chunks - at) * sizeof(struct bh_keyset_chunk *));
    ks->chunks[at] = c;
    ks->n_chunks++;
}

void bh_keyset_insert(struct bh_keyset *ks, struct bh_keyset_entry *e)
{
    struct bh_keyset_chunk *c;
    size_t ci, at;

    if (ks->n_chunks == 0) {
        c = bh_calloc(1, sizeof(*c));
        c->e[c->n++] = e;
        add_chunk(ks, 0, c);
        ks->n++;
        return;
    }
    ci = find_chunk(ks, e->key);
    c = ks->chunks[ci];
    at = find_in(c, e->key);
    bh_assert(at == c->n || !bh_str_eq(c->e[at]->key, e->key));
    if (c->n == CHUNK) {
        struct bh_keyset_chunk *right = bh_calloc(1, sizeof(*right));
        /* Keys that arrive in order fill their chunks: only the last one is opened anew. */
        size_t keep = ci + 1 == ks->n_chunks && at == CHUNK ? CHUNK : CHUNK / 2;

        right->n = CHUNK - keep;
        memcpy(right->e, &c->e[keep], right->n * sizeof(struct bh_keyset_entry *));
        c->n = keep;
        add_chunk(ks, ci + 1, right);
        if (at >= keep) {
            c = right;
            at -= keep;
        }
    }
    memmove(&c->e[at + 1], &c->e[at], (c->n - at) * sizeof(struct bh_keyset_entry *));
    c->e[at] = e;
    c->n++;
    ks->n++;
}

struct bh_keyset_entry *bh_keyset_remove(struct bh_keyset *ks, struct bh_str key)
{
    struct bh_keyset_chunk *c;
    struct bh_keyset_entry *e;
    size_t ci, at;

    if (ks->n_chunks == 0)
        return NULL;
    ci = find_chunk(ks, key);
    c = ks->chunks[ci];
    at = find_in(c, key);
    if (at == c->n || !bh_str_eq(c->e[at]->key, key))
        return NULL;
    e = c->e[at];
    memmove(&c->e[at], &c->e[at + 1], (c->n - at - 1) * sizeof(struct bh_keyset_entry *));
    c->n--;
    ks->n--;
    if (c->n == 0) {
        bh_free(c);
        ks->n_chunks--;
        memmove(&ks->chunks[ci], &ks->chunks[ci + 1],
                (ks->n_chunks - ci) * sizeof(struct bh_keyset_chunk *));
    }
    return e;
}

struct bh_keyset_pos bh_keyset_seek(const struct bh_keyset *ks, struct bh_str key)
{
    struct bh_keyset_pos pos = {0, 0};

    if (ks->n_chunks == 0)
        return pos;
    pos.chunk = find_chunk(ks, key);
    pos.at = find_in(ks->chunks[pos.chunk], key);
    if (pos.at == ks->chunks[pos.chunk]->n) {
        pos.chunk++;
        pos.at = 0;
    }
    return pos;
}

struct bh_keyset_entry *bh_keyset_next(const struct bh_keyset *ks, struct bh_keyset_pos *pos)
{
    struct bh_keyset_entry *e;

    if (pos->chunk >= ks->n_chunks)
        return NULL;
    e = ks->chunks[pos->chunk]->e[pos->at];
    if (++pos->at == ks->chunks[pos->chunk]->n) {
        pos->chunk++;
        pos->at = 0;
    }
    return e;
}

size_t bh_keyset_between(const struct bh_keyset *ks, struct bh_keyset_pos from,
                         struct bh_keyset_pos to)
{
    size_t n = 0;

    for (size_t i = from.chunk; i < to.chunk && i < ks->n_chunks; i++)
        n += ks->chunks[i]->n;
    return n + to.at - from.at;
}
