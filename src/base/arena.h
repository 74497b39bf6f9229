/* Arenas: many allocations, one free.
 *
 * Memory from an arena is zeroed and aligned to 16 bytes. Running out of memory aborts; what a peer
 * can make grow is bounded by bh_arena_try(), which refuses beyond the arena's limit. An arena
 * belongs to one thread at a time. Under AddressSanitizer each allocation is its own malloc, so
 * that overruns are seen.
 */
#ifndef BH_BASE_ARENA_H
#define BH_BASE_ARENA_H

#include "base/str.h"

struct bh_arena;

/* An arena that may hold at most bytes_max through bh_arena_try() (0: no limit). Free with
 * bh_arena_free(). */
struct bh_arena *bh_arena_new(size_t bytes_max);
struct bh_arena *bh_arena_free(struct bh_arena *a); /* accepts NULL, returns NULL */
void bh_arena_reset(struct bh_arena *a); /* forgets everything, keeps one block for reuse */
/* Gives back what this thread keeps for its next arenas (8 MiB at most): for those who have been
 * busy and are not. */
void bh_arena_trim(void);
size_t bh_arena_used(const struct bh_arena *a); /* bytes handed out since the last reset */

void *bh_arena_alloc(struct bh_arena *a,
                     size_t n); /* never NULL; n == 0 gives a unique non-NULL pointer */
void *bh_arena_try(struct bh_arena *a, size_t n); /* NULL when the limit would be passed */
void *bh_arena_memdup(struct bh_arena *a, const void *p, size_t n);
/* Calls fn(arg) at the next reset or free, latest registered first. */
void bh_arena_on_reset(struct bh_arena *a, void (*fn)(void *arg), void *arg);

#define bh_new(a, type)      ((type *)bh_arena_alloc((a), sizeof(type)))
#define bh_new_n(a, type, n) ((type *)bh_arena_alloc_n((a), (n), sizeof(type)))
void *bh_arena_alloc_n(struct bh_arena *a, size_t n,
                       size_t size); /* aborts on overflow of n * size */

/* Grows *items (of item_size each, *cap of them) in the arena so that at least need fit; doubles.
 */
void bh_arena_grow(struct bh_arena *a, void *items_pp, size_t *cap, size_t need, size_t item_size);

static inline void bh_arena_free_p(struct bh_arena **a)
{
    (void)bh_arena_free(*a);
}
#define BH_AUTO_ARENA BH_CLEANUP(bh_arena_free_p) struct bh_arena *

/* Plain heap, for what outlives any arena. Abort when memory is out. */
void *bh_malloc(size_t n); /* not zeroed */
void *bh_calloc(size_t n, size_t size);
void *bh_realloc(void *p, size_t n);
void *bh_memdup(const void *p, size_t n);
char *bh_strdup_c(struct bh_str s); /* NUL-terminated heap copy */
void bh_free(void *p);
static inline void bh_free_pp(void *pp)
{
    bh_free(*(void **)pp);
}
#define BH_AUTO_FREE BH_CLEANUP(bh_free_pp)

#endif
