/* Growable byte buffers. The overflow flag makes a chain of appends need one check. */
#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"

void bh_buf_init(struct bh_buf *b, size_t max)
{
    *b = (struct bh_buf){.max = max};
}

void bh_buf_done(struct bh_buf *b)
{
    bh_free(b->p);
    *b = (struct bh_buf){.max = b->max};
}

void bh_buf_clear(struct bh_buf *b)
{
    b->n = 0;
    b->overflow = false;
}

/* Makes room for extra bytes and one NUL after them; false (and overflow) when the maximum would be
 * passed. */
static bool room(struct bh_buf *b, size_t extra)
{
    size_t max = b->max ? b->max : BH_BUF_MAX_DEFAULT;
    size_t want;

    if (b->overflow)
        return false;
    if (extra > max || b->n > max - extra) {
        b->overflow = true;
        return false;
    }
    if (b->n + extra < b->cap)
        return true;
    want = b->cap ? b->cap * 2 : 64;
    if (want < b->n + extra + 1)
        want = b->n + extra + 1;
    if (want > max + 1) /* so that free capacity always means room below the maximum */
        want = max + 1;
    b->p = bh_realloc(b->p, want);
    b->cap = want;
    return true;
}

void bh_buf_reserve(struct bh_buf *b, size_t extra)
{
    size_t max = b->max ? b->max : BH_BUF_MAX_DEFAULT;

    /* A reservation is a hint: it never sets overflow. */
    if (extra <= max && b->n <= max - extra)
        (void)room(b, extra);
}

void bh_buf_add(struct bh_buf *b, const void *p, size_t n)
{
    if (!room(b, n) || !n)
        return;
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

void bh_buf_addc(struct bh_buf *b, char c)
{
    if (room(b, 1))
        b->p[b->n++] = c;
}

void bh_buf_adds(struct bh_buf *b, struct bh_str s)
{
    bh_buf_add(b, s.p, s.n);
}

void bh_buf_addz(struct bh_buf *b, const char *cstr)
{
    if (cstr)
        bh_buf_add(b, cstr, strlen(cstr));
}

void bh_buf_addf(struct bh_buf *b, const char *fmt, ...)
{
    va_list ap, ap2;
    int n;

    va_start(ap, fmt);
    va_copy(ap2, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        b->overflow = true;
    else if (room(b, (size_t)n)) {
        (void)vsnprintf(b->p + b->n, (size_t)n + 1, fmt, ap2);
        b->n += (size_t)n;
    }
    va_end(ap2);
}

void bh_buf_add_u64(struct bh_buf *b, uint64_t v)
{
    char tmp[20];
    size_t i = sizeof(tmp);

    do {
        tmp[--i] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    bh_buf_add(b, tmp + i, sizeof(tmp) - i);
}

void bh_buf_add_i64(struct bh_buf *b, int64_t v)
{
    if (v < 0) {
        bh_buf_addc(b, '-');
        bh_buf_add_u64(b, (uint64_t)0 - (uint64_t)v);
    } else {
        bh_buf_add_u64(b, (uint64_t)v);
    }
}

void bh_buf_drop_front(struct bh_buf *b, size_t n)
{
    if (n >= b->n) {
        b->n = 0;
        return;
    }
    if (n) {
        memmove(b->p, b->p + n, b->n - n);
        b->n -= n;
    }
}

struct bh_str bh_buf_str(const struct bh_buf *b)
{
    return (struct bh_str){b->p ? b->p : "", b->n};
}

char *bh_buf_cstr(struct bh_buf *b)
{
    if (!b->p) {
        b->p = bh_malloc(16);
        b->cap = 16;
    }
    b->p[b->n] = '\0';
    return b->p;
}

char *bh_buf_take(struct bh_buf *b, size_t *ret_n)
{
    char *p = bh_buf_cstr(b);

    if (ret_n)
        *ret_n = b->n;
    *b = (struct bh_buf){.max = b->max};
    return p;
}
