/* Arenas: blocks of doubling size, bump allocation, one free.
 *
 * The arena itself stands at the start of its first block. Small blocks that are given back are
 * kept by their thread for the next arena: a request makes and frees several, and going through
 * malloc for each cost more than what is allocated in them. Under AddressSanitizer every allocation
 * is a malloc of its own, linked into the arena, so that overruns and uses after reset are seen. */
#include "base/arena.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_SEPARATE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_SEPARATE 1
#endif
#endif
#ifndef ARENA_SEPARATE
#define ARENA_SEPARATE 0
#endif

#define ALIGN     16u
#define BLOCK_MIN 2048u /* with its header, as BLOCK_MAX */
#define BLOCK_MAX (1u << 20)

struct block {
    struct block *next;
    size_t size; /* bytes in data; a kept block's own is a power of two with the header */
    _Alignas(ALIGN) unsigned char data[];
};

struct hook {
    struct hook *next;
    void (*fn)(void *arg);
    void *arg;
};

struct bh_arena {
    unsigned char *cur, *end; /* free part of the newest block */
    struct block *blocks;     /* newest first; the arena stands in the last one */
    struct hook *hooks;       /* latest registered first; they live in the arena */
    size_t used;
    size_t bytes_max;
    size_t next_size;
};

static _Noreturn void out_of_memory(size_t n)
{
    fprintf(stderr, "bulkhead: out of memory allocating %zu bytes\n", n);
    abort();
}

void *bh_malloc(size_t n)
{
    void *p = malloc(n ? n : 1);

    if (!p)
        out_of_memory(n);
    return p;
}

void *bh_calloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);

    if (!p)
        out_of_memory(size && n > SIZE_MAX / size ? SIZE_MAX : n * size);
    return p;
}

void *bh_realloc(void *p, size_t n)
{
    void *q = realloc(p, n ? n : 1);

    if (!q)
        out_of_memory(n);
    return q;
}

void *bh_memdup(const void *p, size_t n)
{
    void *q = bh_malloc(n);

    if (n)
        memcpy(q, p, n);
    return q;
}

char *bh_strdup_c(struct bh_str s)
{
    char *p = bh_malloc(s.n + 1);

    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return p;
}

void bh_free(void *p)
{
    free(p);
}

/* ---- blocks ---- */

/* Sizes BLOCK_MIN << 0 … << 4, and how many bytes of each a thread keeps: most arenas stay in their
 * first blocks, and a server that is busy has thousands of them. */
#define KEPT_SIZES 5
static const size_t kept_bytes[KEPT_SIZES] = {4u << 20, 2u << 20, 1u << 20, 256u << 10, 256u << 10};

struct kept {
    struct block *first[KEPT_SIZES];
    unsigned n[KEPT_SIZES];
    bool known; /* the key's destructor gives it back when the thread ends */
};
static __thread struct kept kept;
static pthread_key_t kept_key;
static pthread_once_t kept_once = PTHREAD_ONCE_INIT;

static void kept_free(struct kept *k)
{
    for (int i = 0; i < KEPT_SIZES; i++) {
        while (k->first[i]) {
            struct block *b = k->first[i];

            k->first[i] = b->next;
            free(b);
        }
        k->n[i] = 0;
    }
}

static void kept_end(void *arg)
{
    struct kept *k = arg;

    kept_free(k);
    k->known = false;
}

void bh_arena_trim(void)
{
    kept_free(&kept);
}

static void kept_init(void)
{
    bh_assert(pthread_key_create(&kept_key, kept_end) == 0);
}

/* Which kept size a block of n bytes in all has; KEPT_SIZES: none. */
static int kept_size(size_t n)
{
    int i = 0;

    while (i < KEPT_SIZES && n != (size_t)BLOCK_MIN << i)
        i++;
    return i;
}

/* A block of n bytes in all. */
static struct block *block_get(size_t n)
{
    int i = ARENA_SEPARATE ? KEPT_SIZES : kept_size(n);
    struct block *b;

    if (i < KEPT_SIZES && kept.first[i]) {
        b = kept.first[i];
        kept.first[i] = b->next;
        kept.n[i]--;
    } else {
        b = bh_malloc(n);
    }
    b->size = n - sizeof(*b);
    return b;
}

static void block_put(struct block *b)
{
    size_t n = b->size + sizeof(*b);
    int i = ARENA_SEPARATE ? KEPT_SIZES : kept_size(n);

    if (i == KEPT_SIZES || (kept.n[i] + 1) * n > kept_bytes[i]) {
        free(b);
        return;
    }
    if (!kept.known) {
        (void)pthread_once(&kept_once, kept_init);
        (void)pthread_setspecific(kept_key, &kept);
        kept.known = true;
    }
    b->next = kept.first[i];
    kept.first[i] = b;
    kept.n[i]++;
}

/* ---- arenas ---- */

#define ARENA_HEAD ((sizeof(struct bh_arena) + ALIGN - 1) & ~(size_t)(ALIGN - 1))

/* The free part of a block, which begins behind the arena in its first one. */
static void use_block(struct bh_arena *a, struct block *b)
{
    a->cur = b->data + (b->next ? 0 : ARENA_HEAD);
    a->end = b->data + b->size;
}

struct bh_arena *bh_arena_new(size_t bytes_max)
{
    struct block *b = block_get(ARENA_SEPARATE ? sizeof(*b) + ARENA_HEAD : BLOCK_MIN);
    struct bh_arena *a = (struct bh_arena *)(void *)b->data;

    b->next = NULL;
    *a = (struct bh_arena){.blocks = b, .bytes_max = bytes_max, .next_size = BLOCK_MIN * 2};
    use_block(a, b);
    return a;
}

static void run_hooks(struct bh_arena *a)
{
    /* A hook may register another one, which then runs too. */
    while (a->hooks) {
        struct hook *h = a->hooks;

        a->hooks = h->next;
        h->fn(h->arg);
    }
}

struct bh_arena *bh_arena_free(struct bh_arena *a)
{
    if (!a)
        return NULL;
    run_hooks(a);
    for (struct block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        block_put(b);
    }
    return NULL;
}

void bh_arena_reset(struct bh_arena *a)
{
    struct block *keep = NULL;

    run_hooks(a);
    for (struct block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        /* The newest ordinary block is the largest one; oversized ones are given back. The first
         * one holds the arena. */
        if (!next) {
            if (keep)
                keep->next = b;
            else
                keep = b;
        } else if (!ARENA_SEPARATE && !keep && b->size < BLOCK_MAX) {
            keep = b;
        } else {
            block_put(b);
        }
    }
    a->blocks = keep;
    a->used = 0;
    use_block(a, keep);
}

size_t bh_arena_used(const struct bh_arena *a)
{
    return a->used;
}

static struct block *block_add(struct bh_arena *a, size_t n)
{
    struct block *b = block_get(n);

    b->next = a->blocks;
    a->blocks = b;
    return b;
}

static void *alloc_slow(struct bh_arena *a, size_t n)
{
    struct block *b;

    /* A large request gets its own block behind the current one, whose free part stays in use. */
    if (n > a->next_size / 4 && a->cur != a->end) {
        struct block *head = a->blocks;

        if (!head->next) { /* the first block stays last */
            b = block_add(a, sizeof(*b) + n);
        } else {
            b = block_get(sizeof(*b) + n);
            b->next = head->next;
            head->next = b;
        }
        return memset(b->data, 0, n);
    }
    b = block_add(a, n > a->next_size - sizeof(*b) ? sizeof(*b) + n : a->next_size);
    if (a->next_size < BLOCK_MAX)
        a->next_size *= 2;
    a->cur = b->data + n;
    a->end = b->data + b->size;
    return memset(b->data, 0, n);
}

void *bh_arena_alloc(struct bh_arena *a, size_t n)
{
    void *p;

    if (n > SIZE_MAX / 2)
        out_of_memory(n);
    a->used += n;
    if (ARENA_SEPARATE)
        return memset(block_add(a, sizeof(struct block) + n)->data, 0, n);
    n = n ? (n + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    if (n > (size_t)(a->end - a->cur))
        return alloc_slow(a, n);
    p = a->cur;
    a->cur += n;
    return memset(p, 0, n);
}

void *bh_arena_try(struct bh_arena *a, size_t n)
{
    if (a->bytes_max && (n > a->bytes_max || a->used > a->bytes_max - n))
        return NULL;
    return bh_arena_alloc(a, n);
}

void *bh_arena_memdup(struct bh_arena *a, const void *p, size_t n)
{
    void *q = bh_arena_alloc(a, n);

    if (n)
        memcpy(q, p, n);
    return q;
}

void bh_arena_on_reset(struct bh_arena *a, void (*fn)(void *arg), void *arg)
{
    struct hook *h = bh_new(a, struct hook);

    h->fn = fn;
    h->arg = arg;
    h->next = a->hooks;
    a->hooks = h;
}

void *bh_arena_alloc_n(struct bh_arena *a, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / size)
        out_of_memory(SIZE_MAX);
    return bh_arena_alloc(a, n * size);
}

void bh_arena_grow(struct bh_arena *a, void *items_pp, size_t *cap, size_t need, size_t item_size)
{
    size_t want = *cap ? *cap : 4;
    void *old, *p;

    if (need <= *cap)
        return;
    while (want < need) {
        if (want > SIZE_MAX / 2)
            out_of_memory(SIZE_MAX);
        want *= 2;
    }
    memcpy(&old, items_pp, sizeof(old));
    p = bh_arena_alloc_n(a, want, item_size);
    if (*cap)
        memcpy(p, old, *cap * item_size);
    memcpy(items_pp, &p, sizeof(p));
    *cap = want;
}
