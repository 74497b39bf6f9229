/* Arenas: blocks of doubling size, bump allocation, one free. Under AddressSanitizer every
 * allocation is a malloc of its own, linked into the arena, so that overruns and uses after reset
 * are seen. */
#include "base/arena.h"

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
#define BLOCK_MIN 4096u
#define BLOCK_MAX (1u << 20)

struct block {
    struct block *next;
    size_t size; /* bytes in data */
    _Alignas(ALIGN) unsigned char data[];
};

struct hook {
    struct hook *next;
    void (*fn)(void *arg);
    void *arg;
};

struct bh_arena {
    unsigned char *cur, *end; /* free part of the newest block */
    struct block *blocks;     /* newest first */
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

struct bh_arena *bh_arena_new(size_t bytes_max)
{
    struct bh_arena *a = bh_calloc(1, sizeof(*a));

    a->bytes_max = bytes_max;
    a->next_size = BLOCK_MIN;
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
        free(b);
    }
    free(a);
    return NULL;
}

void bh_arena_reset(struct bh_arena *a)
{
    struct block *keep = NULL;

    run_hooks(a);
    for (struct block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        /* The newest ordinary block is the largest one; oversized ones are given back. */
        if (!ARENA_SEPARATE && !keep && b->size <= BLOCK_MAX)
            keep = b;
        else
            free(b);
    }
    a->blocks = keep;
    a->used = 0;
    a->cur = a->end = NULL;
    if (keep) {
        keep->next = NULL;
        a->cur = keep->data;
        a->end = keep->data + keep->size;
    }
}

size_t bh_arena_used(const struct bh_arena *a)
{
    return a->used;
}

static struct block *block_new(struct bh_arena *a, size_t size)
{
    struct block *b = bh_malloc(sizeof(*b) + size);

    b->size = size;
    b->next = a->blocks;
    a->blocks = b;
    return b;
}

static void *alloc_slow(struct bh_arena *a, size_t n)
{
    struct block *b;

    /* A large request gets its own block behind the current one, whose free part stays in use. */
    if (n > a->next_size / 4 && a->blocks && a->cur != a->end) {
        struct block *head = a->blocks;

        b = bh_malloc(sizeof(*b) + n);
        b->size = n;
        b->next = head->next;
        head->next = b;
        return memset(b->data, 0, n);
    }
    b = block_new(a, n > a->next_size ? n : a->next_size);
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
        return memset(block_new(a, n)->data, 0, n);
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
