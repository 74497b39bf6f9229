/* The strings library, version 2. Indexes and lengths count code points. */
#include "cel/cel_eval.h"

#include <string.h>

#include "base/buf.h"

#define TEXT_MAX ((size_t)64 << 20) /* one built string; far beyond what a budget pays for */

static struct bh_cel_value index_error(struct bh_cel_run *run, int64_t i)
{
    return bh_cel_error(run, "index out of range: %lld", (long long)i);
}

/* Byte offset of code point i; s.n when i is the number of code points or beyond. */
static size_t offset(struct bh_str s, uint64_t i)
{
    size_t o = 0;
    uint32_t r;

    while (i > 0 && o < s.n) {
        o += cel_rune(s.p + o, s.n - o, &r);
        i--;
    }
    return o;
}

static struct bh_cel_value take(struct bh_cel_run *run, struct bh_buf *b)
{
    struct bh_cel_value v;

    if (b->overflow || cel_overgrown(run))
        v = cel_halt(run);
    else
        v = cel_str_copy(run->a, bh_buf_str(b));
    bh_buf_done(b);
    return v;
}

CEL_FN(cel_f_char_at)
{
    struct bh_str s = bh_cel_as_str(args[0]);
    int64_t i = args[1].i, len = (int64_t)cel_runes(s.p, s.n);
    size_t o;
    uint32_t r;

    (void)n;
    if (i < 0 || i > len)
        return index_error(run, i);
    o = offset(s, (uint64_t)i);
    return bh_cel_str(bh_str_sub(s, o, o + cel_rune(s.p + o, s.n - o, &r)));
}

CEL_FN(cel_f_index_of)
{
    struct bh_str s = bh_cel_as_str(args[0]), t = bh_cel_as_str(args[1]);
    int64_t off = n == 3 ? args[2].i : 0, len = (int64_t)cel_runes(s.p, s.n);
    size_t from;
    ptrdiff_t at;

    if (t.n == 0)
        return bh_cel_int(off);
    if (off < 0)
        return index_error(run, off);
    if (off >= len)
        return bh_cel_int(-1);
    from = offset(s, (uint64_t)off);
    at = bh_str_find(bh_str_sub(s, from, s.n), t);
    if (at < 0)
        return bh_cel_int(-1);
    return bh_cel_int(off + (int64_t)cel_runes(s.p + from, (size_t)at));
}

CEL_FN(cel_f_last_index_of)
{
    struct bh_str s = bh_cel_as_str(args[0]), t = bh_cel_as_str(args[1]);
    int64_t len = (int64_t)cel_runes(s.p, s.n), off = n == 3 ? args[2].i : len;
    size_t o;

    if (t.n == 0)
        return bh_cel_int(off);
    if (n == 3 && off < 0)
        return index_error(run, off);
    if (n == 3 && off >= len)
        return bh_cel_int(-1);
    if (t.n > s.n)
        return bh_cel_int(-1);
    o = offset(s, (uint64_t)off);
    if (o > s.n - t.n)
        o = s.n - t.n;
    for (o++; o > 0; o--)
        if (memcmp(s.p + o - 1, t.p, t.n) == 0)
            return bh_cel_int((int64_t)cel_runes(s.p, o - 1));
    return bh_cel_int(-1);
}

static struct bh_cel_value map_ascii(struct bh_cel_run *run, struct bh_cel_value v, char from,
                                     char to)
{
    char *p = bh_arena_memdup(run->a, v.s ? v.s : "", v.n);

    for (size_t i = 0; i < v.n; i++)
        if (p[i] >= from && p[i] <= to)
            p[i] = (char)(p[i] ^ 0x20);
    v.s = p;
    return v;
}

CEL_FN(cel_f_lower_ascii)
{
    (void)n;
    return map_ascii(run, args[0], 'A', 'Z');
}

CEL_FN(cel_f_upper_ascii)
{
    (void)n;
    return map_ascii(run, args[0], 'a', 'z');
}

CEL_FN(cel_f_replace)
{
    struct bh_str s = bh_cel_as_str(args[0]), old = bh_cel_as_str(args[1]),
                  new = bh_cel_as_str(args[2]);
    int64_t limit = n == 4 ? args[3].i : -1, done = 0;
    struct bh_buf b = {.max = TEXT_MAX};
    size_t i = 0;
    uint32_t r;

    if (limit == 0)
        return args[0];
    if (old.n == 0) {
        while (limit < 0 || done < limit) {
            size_t k = cel_rune(s.p + i, s.n - i, &r);

            bh_buf_adds(&b, new);
            done++;
            bh_buf_adds(&b, bh_str_sub(s, i, i + k));
            i += k;
            if (k == 0)
                break;
        }
    } else {
        while (limit < 0 || done < limit) {
            ptrdiff_t at = bh_str_find(bh_str_sub(s, i, s.n), old);

            if (at < 0)
                break;
            bh_buf_adds(&b, bh_str_sub(s, i, i + (size_t)at));
            bh_buf_adds(&b, new);
            i += (size_t)at + old.n;
            done++;
        }
    }
    bh_buf_adds(&b, bh_str_sub(s, i, s.n));
    return take(run, &b);
}

CEL_FN(cel_f_split)
{
    struct bh_str s = bh_cel_as_str(args[0]), sep = bh_cel_as_str(args[1]);
    int64_t limit = n == 3 ? args[2].i : -1;
    struct cel_list_builder b = {0};
    size_t i = 0;
    uint32_t r;

    if (limit == 0)
        return cel_list_done(run->a, &b);
    if (sep.n == 0) {
        while (i < s.n) {
            size_t k =
                limit > 0 && b.n + 1 == (uint64_t)limit ? s.n - i : cel_rune(s.p + i, s.n - i, &r);

            cel_list_add(run->a, &b, bh_cel_str(bh_str_sub(s, i, i + k)));
            i += k;
        }
        return cel_list_done(run->a, &b);
    }
    while (limit < 0 || b.n + 1 < (uint64_t)limit) {
        ptrdiff_t at = bh_str_find(bh_str_sub(s, i, s.n), sep);

        if (at < 0)
            break;
        cel_list_add(run->a, &b, bh_cel_str(bh_str_sub(s, i, i + (size_t)at)));
        i += (size_t)at + sep.n;
    }
    cel_list_add(run->a, &b, bh_cel_str(bh_str_sub(s, i, s.n)));
    return cel_list_done(run->a, &b);
}

CEL_FN(cel_f_substring)
{
    struct bh_str s = bh_cel_as_str(args[0]);
    int64_t len = (int64_t)cel_runes(s.p, s.n), a = args[1].i, b = n == 3 ? args[2].i : len;

    if (n == 3 && a > b)
        return bh_cel_error(run, "invalid substring range. start: %lld, end: %lld", (long long)a,
                            (long long)b);
    if (a < 0 || a > len)
        return index_error(run, a);
    if (b < 0 || b > len)
        return index_error(run, b);
    return bh_cel_str(bh_str_sub(s, offset(s, (uint64_t)a), offset(s, (uint64_t)b)));
}

/* The property White_Space. */
static bool is_space(uint32_t r)
{
    return (r >= 9 && r <= 13) || r == 0x20 || r == 0x85 || r == 0xa0 || r == 0x1680 ||
           (r >= 0x2000 && r <= 0x200a) || r == 0x2028 || r == 0x2029 || r == 0x202f ||
           r == 0x205f || r == 0x3000;
}

CEL_FN(cel_f_trim)
{
    struct bh_str s = bh_cel_as_str(args[0]);
    size_t a = 0, end = 0, i;
    uint32_t r;

    (void)run;
    (void)n;
    while (a < s.n) {
        size_t k = cel_rune(s.p + a, s.n - a, &r);

        if (!is_space(r))
            break;
        a += k;
    }
    end = a;
    for (i = a; i < s.n;) {
        i += cel_rune(s.p + i, s.n - i, &r);
        if (!is_space(r))
            end = i;
    }
    return bh_cel_str(bh_str_sub(s, a, end));
}

CEL_FN(cel_f_join)
{
    struct bh_buf b = {.max = TEXT_MAX};

    for (size_t i = 0; i < args[0].list->n; i++) {
        struct bh_cel_value v = cel_list_at(run, args[0], i);

        if (v.kind != BH_CEL_STRING) {
            bh_buf_done(&b);
            return n == 2 ? bh_cel_error(run, "no such overload: join(list, string)")
                          : bh_cel_error(run, "no such overload: join(list)");
        }
        if (i && n == 2)
            bh_buf_adds(&b, bh_cel_as_str(args[1]));
        bh_buf_adds(&b, bh_cel_as_str(v));
    }
    return take(run, &b);
}

CEL_FN(cel_f_quote)
{
    static const char from[] = "\a\b\f\n\r\t\v\\\"", to[] = "abfnrtv\\\"";
    struct bh_str s = bh_cel_as_str(args[0]);
    struct bh_buf b = {.max = TEXT_MAX};
    const char *esc;
    uint32_t r;
    char u[4];

    (void)n;
    bh_buf_addc(&b, '"');
    for (size_t i = 0; i < s.n;) {
        size_t k = cel_rune(s.p + i, s.n - i, &r);

        esc = r && r < 0x80 ? strchr(from, (int)r) : NULL;
        if (esc) {
            bh_buf_addc(&b, '\\');
            bh_buf_addc(&b, to[esc - from]);
        } else {
            bh_buf_add(&b, u, cel_rune_put(r, u));
        }
        i += k;
    }
    bh_buf_addc(&b, '"');
    return take(run, &b);
}

CEL_FN(cel_f_escape_key)
{
    struct bh_str s = bh_cel_as_str(args[0]);
    struct bh_buf b = {.max = TEXT_MAX};

    (void)n;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '~')
            bh_buf_addz(&b, "~0");
        else if (s.p[i] == '/')
            bh_buf_addz(&b, "~1");
        else
            bh_buf_addc(&b, s.p[i]);
    }
    return take(run, &b);
}
