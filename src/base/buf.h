/* Growable byte buffers with a maximum.
 *
 * A buffer owns heap memory and is created with the most it may hold. An append beyond that sets
 * `overflow`, drops the append and everything after it; check once at the end. Zero-initialised
 * with a max is valid: {.max = N}. A buffer belongs to one thread at a time.
 */
#ifndef BH_BASE_BUF_H
#define BH_BASE_BUF_H

#include "base/str.h"

struct bh_buf {
    char *p;
    size_t n;
    size_t cap;
    size_t max; /* bytes; 0 means BH_BUF_MAX_DEFAULT */
    bool overflow;
};

#define BH_BUF_MAX_DEFAULT ((size_t)256 << 20)

void bh_buf_init(struct bh_buf *b, size_t max);
void bh_buf_done(struct bh_buf *b);  /* frees; the buffer may be used again */
void bh_buf_clear(struct bh_buf *b); /* empties, keeps the memory */
void bh_buf_reserve(struct bh_buf *b, size_t extra);
void bh_buf_add(struct bh_buf *b, const void *p, size_t n);
void bh_buf_addc(struct bh_buf *b, char c);
void bh_buf_adds(struct bh_buf *b, struct bh_str s);
void bh_buf_addz(struct bh_buf *b, const char *cstr);
void bh_buf_addf(struct bh_buf *b, const char *fmt, ...) BH_PRINTF(2, 3);
void bh_buf_add_i64(struct bh_buf *b, int64_t v);
void bh_buf_add_u64(struct bh_buf *b, uint64_t v);
void bh_buf_drop_front(struct bh_buf *b, size_t n); /* removes the first n bytes */
struct bh_str bh_buf_str(const struct bh_buf *b);   /* a view, valid until the next change */
char *bh_buf_cstr(struct bh_buf *b);                /* the same, NUL-terminated */
char *bh_buf_take(struct bh_buf *b, size_t *ret_n); /* hands the heap memory over (bh_free it) */

static inline void bh_buf_done_p(struct bh_buf *b)
{
    bh_buf_done(b);
}
#define BH_AUTO_BUF BH_CLEANUP(bh_buf_done_p) struct bh_buf

#endif
