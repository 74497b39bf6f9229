/* Byte strings. The hash is SipHash-1-3 under a key drawn once per process, so that peers cannot
 * aim for collisions. */
#include "base/str.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

bool bh_str_eq_nocase(struct bh_str a, struct bh_str b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (lower(a.p[i]) != lower(b.p[i]))
            return false;
    return true;
}

int bh_str_cmp(struct bh_str a, struct bh_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;

    return c ? c : (a.n > b.n) - (a.n < b.n);
}

bool bh_str_starts(struct bh_str s, struct bh_str prefix)
{
    return s.n >= prefix.n && (!prefix.n || memcmp(s.p, prefix.p, prefix.n) == 0);
}

bool bh_str_ends(struct bh_str s, struct bh_str suffix)
{
    return s.n >= suffix.n && (!suffix.n || memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0);
}

ptrdiff_t bh_str_chr(struct bh_str s, char c, size_t from)
{
    const char *p = from < s.n ? memchr(s.p + from, c, s.n - from) : NULL;

    return p ? p - s.p : -1;
}

ptrdiff_t bh_str_find(struct bh_str s, struct bh_str needle)
{
    const char *p;

    if (!needle.n)
        return 0;
    p = s.n ? memmem(s.p, s.n, needle.p, needle.n) : NULL;
    return p ? p - s.p : -1;
}

struct bh_str bh_str_sub(struct bh_str s, size_t from, size_t to)
{
    if (to > s.n)
        to = s.n;
    if (from > to)
        from = to;
    return s.p ? (struct bh_str){s.p + from, to - from} : (struct bh_str){"", 0};
}

static bool blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct bh_str bh_str_trim(struct bh_str s)
{
    while (s.n && blank(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n && blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

struct bh_str bh_str_cut(struct bh_str *s, char sep)
{
    ptrdiff_t at = bh_str_chr(*s, sep, 0);
    struct bh_str head = *s;

    if (at < 0) {
        *s = (struct bh_str){NULL, 0};
        return head;
    }
    *s = (struct bh_str){head.p + at + 1, head.n - (size_t)at - 1};
    return (struct bh_str){head.p, (size_t)at};
}

/* Four random words: who sends keys cannot know which of them collide. */
static uint64_t hash_key[4];
static pthread_once_t hash_once = PTHREAD_ONCE_INIT;

static void hash_seed(void)
{
    if (getrandom(hash_key, sizeof(hash_key), 0) != (ssize_t)sizeof(hash_key)) {
        struct timespec ts = {0};

        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        for (size_t i = 0; i < BH_COUNT(hash_key); i++)
            hash_key[i] = ((uint64_t)ts.tv_nsec + i) * 0x9e3779b97f4a7c15u;
        hash_key[1] ^= (uint64_t)getpid() ^ (uint64_t)(uintptr_t)&ts;
    }
}

/* The two halves of the product, folded. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 r = (unsigned __int128)a * b;

    return (uint64_t)r ^ (uint64_t)(r >> 64);
}

static inline uint64_t load8(const char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static inline uint64_t load4(const char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Sixteen bytes a multiplication, as Go hashes the keys of its maps. */
uint64_t bh_str_hash(struct bh_str s)
{
    uint64_t h, a = 0, b = 0;
    size_t left = s.n;
    const char *p = s.p;

    (void)pthread_once(&hash_once, hash_seed);
    h = hash_key[0] ^ s.n;
    for (; left >= 16; p += 16, left -= 16)
        h = fold(load8(p) ^ hash_key[1], load8(p + 8) ^ h);
    if (left >= 8) {
        a = load8(p);
        b = load8(p + left - 8);
    } else if (left >= 4) {
        a = load4(p);
        b = load4(p + left - 4);
    } else if (left > 0) {
        a = (uint64_t)(unsigned char)p[0] << 16 | (uint64_t)(unsigned char)p[left / 2] << 8 |
            (unsigned char)p[left - 1];
    }
    return fold(hash_key[2], fold(a ^ hash_key[1], b ^ h) ^ hash_key[3]);
}

bool bh_str_i64(struct bh_str s, int64_t min, int64_t max, int64_t *ret)
{
    bool neg = s.n && s.p[0] == '-';
    uint64_t lim = neg ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    uint64_t v = 0;
    size_t i = neg ? 1 : 0;
    int64_t r;

    if (i == s.n)
        return false;
    for (; i < s.n; i++) {
        unsigned d = (unsigned)(unsigned char)s.p[i] - '0';

        if (d > 9 || v > (lim - d) / 10)
            return false;
        v = v * 10 + d;
    }
    r = neg ? (int64_t)((uint64_t)0 - v) : (int64_t)v;
    if (r < min || r > max)
        return false;
    *ret = r;
    return true;
}

struct bh_str bh_str_dup(struct bh_arena *a, struct bh_str s)
{
    char *p = bh_arena_alloc(a, s.n + 1);

    if (s.n)
        memcpy(p, s.p, s.n);
    return (struct bh_str){p, s.n};
}

struct bh_str bh_str_vfmt(struct bh_arena *a, const char *fmt, va_list ap)
{
    char stack[256];
    va_list ap2;
    int n;
    char *p;

    va_copy(ap2, ap);
    n = vsnprintf(stack, sizeof(stack), fmt, ap);
    if (n < 0)
        n = 0;
    p = bh_arena_alloc(a, (size_t)n + 1);
    if ((size_t)n < sizeof(stack))
        memcpy(p, stack, (size_t)n);
    else
        (void)vsnprintf(p, (size_t)n + 1, fmt, ap2);
    va_end(ap2);
    return (struct bh_str){p, (size_t)n};
}

struct bh_str bh_str_fmt(struct bh_arena *a, const char *fmt, ...)
{
    va_list ap;
    struct bh_str s;

    va_start(ap, fmt);
    s = bh_str_vfmt(a, fmt, ap);
    va_end(ap);
    return s;
}

/* Index of the first pair whose key is not below key. */
static size_t lower_bound(const struct bh_str_map *m, struct bh_str key)
{
    size_t lo = 0, hi = m->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (bh_str_cmp(m->p[mid].key, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const struct bh_str *bh_str_map_get(const struct bh_str_map *m, struct bh_str key)
{
    size_t i = lower_bound(m, key);

    return i < m->n && bh_str_eq(m->p[i].key, key) ? &m->p[i].value : NULL;
}

void bh_str_map_put(struct bh_arena *a, struct bh_str_map *m, struct bh_str key,
                    struct bh_str value)
{
    size_t i = lower_bound(m, key);
    struct bh_str_pair *p = m->p;

    if (i < m->n && bh_str_eq(m->p[i].key, key)) {
        m->p[i].value = value;
        return;
    }
    /* The map has no capacity field and its array may be shared or exactly sized, so every
     * insertion copies. Maps that are built from many keys are sorted once by their builder
     * instead. */
    p = bh_new_n(a, struct bh_str_pair, m->n + 1);
    if (i)
        memcpy(p, m->p, i * sizeof(*p));
    if (m->n > i)
        memcpy(p + i + 1, m->p + i, (m->n - i) * sizeof(*p));
    p[i] = (struct bh_str_pair){key, value};
    m->p = p;
    m->n++;
}
