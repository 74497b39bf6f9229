/* JSON writer: strings and numbers as Go's encoding/json prints them, trees without recursion. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "data/json.h"
#include "data/json_scan.h"

/* ---- Strings ---- */

/* 1: escaped always; 2: escaped unless plain; 4: not ASCII, to be looked at. */
static const uint8_t special[256] = {
    [0 ... 0x1f] = 1, ['"'] = 1, ['\\'] = 1, ['<'] = 2, ['>'] = 2, ['&'] = 2, [0x80 ... 0xff] = 4,
};

/* Appending without a call while there is capacity, which a buffer has only below its maximum. */
static inline void put_c(struct bh_buf *b, char c)
{
    if (b->n + 1 < b->cap && !b->overflow)
        b->p[b->n++] = c;
    else
        bh_buf_addc(b, c);
}

static inline void put_n(struct bh_buf *b, const char *p, size_t n)
{
    if (n < b->cap - b->n && !b->overflow) {
        memcpy(b->p + b->n, p, n);
        b->n += n;
    } else {
        bh_buf_add(b, p, n);
    }
}

static const char hex[] = "0123456789abcdef";

static void put_u(struct bh_buf *out, unsigned c)
{
    char u[6] = {'\\', 'u', hex[c >> 12 & 15], hex[c >> 8 & 15], hex[c >> 4 & 15], hex[c & 15]};

    bh_buf_add(out, u, sizeof(u));
}

static void put_escaped(struct bh_buf *out, unsigned char c)
{
    static const char short_esc[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    char e[2] = {'\\', (char)c};

    if (c < sizeof(short_esc) && short_esc[c])
        e[1] = short_esc[c];
    else if (c != '"' && c != '\\') {
        put_u(out, c);
        return;
    }
    bh_buf_add(out, e, 2);
}

/* Length of the longest prefix that is written as it is: ASCII without anything special. */
static inline size_t plain_run(const char *p, size_t n, uint8_t mask)
{
    size_t i = 0;

#if defined(__SSE2__)
    for (; n - i >= 16; i += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
        __m128i s = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
                                 _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
        unsigned m;

        s = _mm_or_si128(s,
                         _mm_cmplt_epi8(v, _mm_set1_epi8(0x20))); /* signed: bytes above 0x7f too */
        if (mask & 2) {
            s = _mm_or_si128(s, _mm_cmpeq_epi8(v, _mm_set1_epi8('&')));
            s = _mm_or_si128(s,
                             _mm_cmpeq_epi8(_mm_or_si128(v, _mm_set1_epi8(2)), _mm_set1_epi8('>')));
        }
        m = (unsigned)_mm_movemask_epi8(s);
        if (m)
            return i + (unsigned)__builtin_ctz(m);
    }
#endif
    while (i < n && !(special[(unsigned char)p[i]] & mask))
        i++;
    return i;
}

static void write_str(struct bh_buf *out, struct bh_str s, uint8_t mask)
{
    const char *p = s.n ? s.p : "", *end = p + s.n;

    put_c(out, '"');
    while (p < end) {
        size_t run = plain_run(p, (size_t)(end - p), mask);
        uint32_t c;
        size_t n;

        if (run)
            put_n(out, p, run);
        p += run;
        if (p == end)
            break;
        if ((unsigned char)*p < 0x80) {
            put_escaped(out, (unsigned char)*p++);
            continue;
        }
        n = bh_json_rune(p, end, &c);
        if (n == 1)
            bh_buf_add(out, "\\ufffd", 6);
        else if (c == 0x2028 || c == 0x2029)
            put_u(out, c);
        else
            put_n(out, p, n);
        p += n;
    }
    put_c(out, '"');
}

void bh_json_write_str(struct bh_buf *out, struct bh_str s)
{
    write_str(out, s, 7);
}

void bh_json_write_str_plain(struct bh_buf *out, struct bh_str s)
{
    write_str(out, s, 5);
}

/* ---- Numbers ---- */

int bh_json_exponent(const char *p)
{
    bool neg = *p == '-';
    int v = 0;

    for (p += neg || *p == '+'; *p >= '0' && *p <= '9'; p++)
        v = v * 10 + (*p - '0');
    return neg ? -v : v;
}

/* Rewrites "d.ddde±XX" in Go's format: plain digits unless the exponent is below -6 or at least 21.
 */
static void put_decimal(struct bh_buf *out, const char *sci)
{
    char digits[24];
    size_t n = 0;
    const char *p = sci;
    int exp;

    if (*p == '-') {
        bh_buf_addc(out, '-');
        p++;
    }
    for (; *p && *p != 'e'; p++)
        if (*p != '.' && n < sizeof(digits))
            digits[n++] = *p;
    exp = bh_json_exponent(p + 1);
    while (n > 1 && digits[n - 1] == '0')
        n--;
    if (digits[0] == '0') {
        bh_buf_addc(out, '0');
    } else if (exp < -6 || exp >= 21) {
        bh_buf_addc(out, digits[0]);
        if (n > 1) {
            bh_buf_addc(out, '.');
            bh_buf_add(out, digits + 1, n - 1);
        }
        bh_buf_addf(out, "e%c%02d", exp < 0 ? '-' : '+', abs(exp));
        /* encoding/json cleans e-09 to e-9; exponents from 21 up have two digits anyway. */
        if (exp < 0 && exp > -10 && !out->overflow) {
            out->p[out->n - 2] = out->p[out->n - 1];
            out->n--;
        }
    } else if (exp < 0) {
        bh_buf_addz(out, "0.");
        for (int i = -1; i > exp; i--)
            bh_buf_addc(out, '0');
        bh_buf_add(out, digits, n);
    } else {
        for (int i = 0; i <= exp || (size_t)i < n; i++) {
            if (i == exp + 1)
                bh_buf_addc(out, '.');
            bh_buf_addc(out, (size_t)i < n ? digits[i] : '0');
        }
    }
}

void bh_json_write_double(struct bh_buf *out, double v)
{
    char text[40];
    /* 15 digits always survive for normal numbers, so a shorter text shows as trailing zeros; not
     * so for subnormals. */
    int prec = fabs(v) < DBL_MIN ? 0 : 14;

    if (!isfinite(v)) {
        bh_buf_addz(out, "null");
        return;
    }
    if (v == 0) {
        bh_buf_addz(out, signbit(v) ? "-0" : "0");
        return;
    }
    for (; prec <= 16; prec++) {
        (void)snprintf(text, sizeof(text), "%.*e", prec, v);
        if (strtod(text, NULL) == v)
            break;
    }
    put_decimal(out, text);
}

void bh_json_write_float(struct bh_buf *out, float v)
{
    char text[40];
    int prec = fabsf(v) < FLT_MIN ? 0 : 5;

    if (!isfinite(v) || v == 0) {
        bh_json_write_double(out, (double)v);
        return;
    }
    for (; prec <= 8; prec++) {
        (void)snprintf(text, sizeof(text), "%.*e", prec, (double)v);
        if (strtof(text, NULL) == v)
            break;
    }
    put_decimal(out, text);
}

static void write_num(struct bh_buf *out, struct bh_str raw, unsigned flags)
{
    int64_t i;
    double d;

    if (!(flags & BH_JSON_GO_NUMS)) {
        put_n(out, raw.p, raw.n);
        return;
    }
    if (bh_json_num_i64(raw, &i))
        bh_buf_add_i64(out, i);
    else if (bh_json_num_double(raw, &d))
        bh_json_write_double(out, d);
    else
        bh_buf_adds(out, raw);
}

/* ---- Trees ---- */

struct wframe {
    const struct bh_jv *v;
    size_t i;                           /* next element */
    const struct bh_jv_member **sorted; /* heap, or NULL for document order */
};

struct wstack {
    struct wframe fixed[32];
    struct wframe *f;
    size_t n, cap;
};

static int by_key(const void *a, const void *b)
{
    const struct bh_jv_member *const *x = a;
    const struct bh_jv_member *const *y = b;

    return bh_str_cmp((*x)->key, (*y)->key);
}

static void push(struct wstack *s, const struct bh_jv *v, unsigned flags)
{
    struct wframe *f;

    if (s->n == s->cap) {
        struct wframe *bigger = bh_malloc(s->cap * 2 * sizeof(*bigger));

        memcpy(bigger, s->f, s->n * sizeof(*bigger));
        if (s->f != s->fixed)
            bh_free(s->f);
        s->f = bigger;
        s->cap *= 2;
    }
    f = &s->f[s->n++];
    *f = (struct wframe){v, 0, NULL};
    if (v->kind != BH_JSON_OBJ || !(flags & BH_JSON_SORTED) || v->n_members < 2)
        return;
    f->sorted = bh_malloc(v->n_members * sizeof(*f->sorted));
    for (size_t i = 0; i < v->n_members; i++)
        f->sorted[i] = &v->members[i];
    qsort(f->sorted, v->n_members, sizeof(*f->sorted), by_key);
}

static void new_line(struct bh_buf *out, size_t depth, unsigned flags)
{
    size_t width = flags & BH_JSON_INDENT4 ? 4 : 2;

    if (!(flags & (BH_JSON_INDENT2 | BH_JSON_INDENT4)))
        return;
    put_c(out, '\n');
    for (size_t i = 0; i < depth * width; i++)
        put_c(out, ' ');
}

/* Writes a scalar or an empty container; false when v has elements to be walked. */
static bool write_leaf(struct bh_buf *out, const struct bh_jv *v, unsigned flags)
{
    switch ((enum bh_json_kind)v->kind) {
    case BH_JSON_NONE:
    case BH_JSON_NULL:
        bh_buf_add(out, "null", 4);
        return true;
    case BH_JSON_BOOL:
        bh_buf_addz(out, v->b ? "true" : "false");
        return true;
    case BH_JSON_NUM:
        write_num(out, v->s, flags);
        return true;
    case BH_JSON_STR:
        write_str(out, v->s, flags & BH_JSON_PLAIN ? 5 : 7);
        return true;
    case BH_JSON_ARR:
        if (v->n_items)
            return false;
        bh_buf_add(out, "[]", 2);
        return true;
    case BH_JSON_OBJ:
        if (v->n_members)
            return false;
        bh_buf_add(out, "{}", 2);
        return true;
    }
    return true;
}

void bh_jv_write(struct bh_buf *out, const struct bh_jv *v, unsigned flags)
{
    struct wstack s = {.n = 0, .cap = BH_COUNT(s.fixed)};

    s.f = s.fixed;
    if (write_leaf(out, v, flags))
        return;
    put_c(out, v->kind == BH_JSON_OBJ ? '{' : '[');
    push(&s, v, flags);
    while (s.n) {
        struct wframe *f = &s.f[s.n - 1];
        bool obj = f->v->kind == BH_JSON_OBJ;

        if (f->i == (obj ? f->v->n_members : f->v->n_items)) {
            bh_free(f->sorted);
            s.n--;
            new_line(out, s.n, flags);
            put_c(out, obj ? '}' : ']');
            continue;
        }
        if (f->i)
            put_c(out, ',');
        new_line(out, s.n, flags);
        if (obj) {
            const struct bh_jv_member *m = f->sorted ? f->sorted[f->i] : &f->v->members[f->i];

            write_str(out, m->key, flags & BH_JSON_PLAIN ? 5 : 7);
            put_c(out, ':');
            if (flags & (BH_JSON_INDENT2 | BH_JSON_INDENT4))
                put_c(out, ' ');
            v = &m->v;
        } else {
            v = &f->v->items[f->i];
        }
        f->i++;
        if (!write_leaf(out, v, flags)) {
            put_c(out, v->kind == BH_JSON_OBJ ? '{' : '[');
            push(&s, v, flags);
        }
    }
    if (s.f != s.fixed)
        bh_free(s.f);
}

struct bh_str bh_jv_text(struct bh_arena *a, const struct bh_jv *v, unsigned flags)
{
    BH_AUTO_BUF b = {0};

    bh_jv_write(&b, v, flags);
    return bh_str_dup(a, bh_buf_str(&b));
}

void bh_json_compact(struct bh_buf *out, struct bh_str in)
{
    const char *p = in.p, *end = in.p + in.n;

    while (p < end) {
        const char *q = p;
        unsigned flags;

        if (*p == '"') {
            q = json_scan_str(p + 1, end, &flags, NULL);
            q = q ? q + 1 : end;
        } else {
            while (q < end && *q != '"' && (unsigned char)*q > ' ')
                q++;
        }
        put_n(out, p, (size_t)(q - p));
        p = q;
        while (p < end && (unsigned char)*p <= ' ')
            p++;
    }
}
