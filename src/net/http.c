/* What HTTP server and client share: status texts, header look-up, URL queries. */
#include "net/http.h"

#include <http_parser.h>

#include "base/arena.h"

const char *bh_http_status_text(int status)
{
    switch (status) {
#define TEXT(num, name, string)                                                                    \
    case num:                                                                                      \
        return #string;
        HTTP_STATUS_MAP(TEXT)
#undef TEXT
    default:
        return "";
    }
}

const struct bh_str *bh_http_header_find(const struct bh_http_header *h, size_t n,
                                         struct bh_str name)
{
    for (size_t i = 0; i < n; i++)
        if (h[i].name.n == name.n && bh_str_eq_nocase(h[i].name, name))
            return &h[i].value;
    return NULL;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes into the arena; with plus, '+' is a blank. Returns false if an escape was bad (and kept
 * as it is). */
static bool decode(struct bh_arena *a, struct bh_str s, bool plus, struct bh_str *ret)
{
    char *p;
    size_t n = 0;
    bool ok = true;

    if (bh_str_chr(s, '%', 0) < 0 && !(plus && bh_str_chr(s, '+', 0) >= 0)) {
        *ret = s;
        return true;
    }
    p = bh_arena_alloc(a, s.n + 1);
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (c == '%') {
            int hi = s.n - i > 2 ? hex(s.p[i + 1]) : -1, lo = hi >= 0 ? hex(s.p[i + 2]) : -1;

            if (lo >= 0) {
                c = (char)(hi << 4 | lo);
                i += 2;
            } else {
                ok = false;
            }
        } else if (plus && c == '+') {
            c = ' ';
        }
        p[n++] = c;
    }
    p[n] = 0;
    *ret = (struct bh_str){p, n};
    return ok;
}

bool bh_http_query_next(struct bh_arena *a, struct bh_str *q, struct bh_str *ret_key,
                        struct bh_str *ret_value)
{
    while (q->p && q->n > 0) {
        struct bh_str pair = bh_str_cut(q, '&'), key;

        if (pair.n == 0)
            continue;
        key = bh_str_cut(&pair, '=');
        (void)decode(a, key, true, ret_key); /* bad escapes are kept as they stand */
        (void)decode(a, pair.p ? pair : (struct bh_str){"", 0}, true, ret_value);
        return true;
    }
    return false;
}

struct bh_str bh_http_query_get(struct bh_arena *a, struct bh_str query, struct bh_str key)
{
    struct bh_str k, v;

    while (bh_http_query_next(a, &query, &k, &v))
        if (bh_str_eq(k, key))
            return v;
    return (struct bh_str){0};
}

bool bh_http_unescape(struct bh_arena *a, struct bh_str s, struct bh_str *ret)
{
    return decode(a, s, false, ret) && bh_str_chr(*ret, 0, 0) < 0;
}

struct bh_str bh_http_escape(struct bh_arena *a, struct bh_str s)
{
    static const char digits[] = "0123456789ABCDEF";
    char *p = bh_arena_alloc(a, 3 * s.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            c == '-' || c == '.' || c == '_' || c == '~') {
            p[n++] = (char)c;
        } else {
            p[n++] = '%';
            p[n++] = digits[c >> 4];
            p[n++] = digits[c & 15];
        }
    }
    p[n] = 0;
    return (struct bh_str){p, n};
}
