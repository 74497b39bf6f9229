/* Small encodings. */
#include "data/codec.h"

#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/arena.h"
#include "base/buf.h"

static const char hex_digits[] = "0123456789abcdef";

/* ---- base64 ---- */

static const char std_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Writes to out, which has room for 4 bytes per 3 of s; returns the length. */
static size_t encode64(char *out, struct bh_str s, const char *alphabet, bool pad)
{
    const unsigned char *u = (const unsigned char *)s.p;
    size_t n = 0, i = 0;

    for (; s.n - i >= 3; i += 3) {
        unsigned v = (unsigned)u[i] << 16 | (unsigned)u[i + 1] << 8 | u[i + 2];

        out[n++] = alphabet[v >> 18];
        out[n++] = alphabet[v >> 12 & 63];
        out[n++] = alphabet[v >> 6 & 63];
        out[n++] = alphabet[v & 63];
    }
    if (s.n - i) {
        unsigned v = (unsigned)u[i] << 16 | (s.n - i == 2 ? (unsigned)u[i + 1] << 8 : 0);

        out[n++] = alphabet[v >> 18];
        out[n++] = alphabet[v >> 12 & 63];
        if (s.n - i == 2)
            out[n++] = alphabet[v >> 6 & 63];
        else if (pad)
            out[n++] = '=';
        if (pad)
            out[n++] = '=';
    }
    return n;
}

void bh_base64_write(struct bh_buf *out, struct bh_str s)
{
    /* Groups of three encode independently: a bounded chunk on the stack, then the next. */
    char chunk[1024];

    for (size_t i = 0; i < s.n; i += 768) {
        size_t to = s.n - i < 768 ? s.n : i + 768;

        bh_buf_add(out, chunk, encode64(chunk, bh_str_sub(s, i, to), std_alphabet, true));
    }
}

static struct bh_str encode64_arena(struct bh_arena *a, struct bh_str s, const char *alphabet,
                                    bool pad)
{
    char *p = bh_arena_alloc(a, (s.n + 2) / 3 * 4 + 1);

    return (struct bh_str){p, encode64(p, s, alphabet, pad)};
}

struct bh_str bh_base64(struct bh_arena *a, struct bh_str s)
{
    return encode64_arena(a, s, std_alphabet, true);
}

struct bh_str bh_base64url(struct bh_arena *a, struct bh_str s)
{
    return encode64_arena(a, s, url_alphabet, false);
}

static int value64(char c, bool url)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == (url ? '-' : '+'))
        return 62;
    return c == (url ? '_' : '/') ? 63 : -1;
}

static int corrupt(size_t at, struct bh_err *err)
{
    return bh_err_set(err, BH_E_BAD_REQUEST, "illegal base64 data at input byte %zu", at);
}

static size_t skip_newlines(struct bh_str s, size_t i)
{
    while (i < s.n && (s.p[i] == '\n' || s.p[i] == '\r'))
        i++;
    return i;
}

/* Checks what follows the j data characters of the last group when padding begins at i. Offsets in
 * errors are Go's. */
static int check_padding(struct bh_str s, size_t i, unsigned j, struct bh_err *err)
{
    if (j < 2)
        return corrupt(i, err);
    i++;
    if (j == 2) {
        i = skip_newlines(s, i);
        if (i == s.n)
            return corrupt(s.n, err);
        if (s.p[i] != '=')
            return corrupt(i - 1, err);
        i++;
    }
    i = skip_newlines(s, i);
    return i < s.n ? corrupt(i, err) : 0;
}

static int decode64(struct bh_arena *a, struct bh_str s, bool url, struct bh_str *ret,
                    struct bh_err *err)
{
    char *out = bh_arena_try(a, s.n / 4 * 3 + 4);
    size_t n = 0, i = 0;
    unsigned v = 0, j = 0;

    if (!out)
        return bh_err_set(err, BH_E_LIMIT, "the memory limit of this input is reached");
    for (;; i++) {
        int d;

        i = skip_newlines(s, i);
        if (i == s.n)
            break;
        if (s.p[i] == '=' && !url) {
            int r = check_padding(s, i, j, err);

            if (r < 0)
                return r;
            i = s.n;
            out[n++] = (char)(v >> (j == 2 ? 4 : 10));
            if (j == 3)
                out[n++] = (char)(v >> 2);
            j = 0;
            break;
        }
        d = value64(s.p[i], url);
        if (d < 0)
            return corrupt(i, err);
        v = v << 6 | (unsigned)d;
        if (++j == 4) {
            out[n++] = (char)(v >> 16);
            out[n++] = (char)(v >> 8);
            out[n++] = (char)v;
            v = j = 0;
        }
    }
    if (j == 1 || (j && !url))
        return corrupt(i - j, err);
    if (j) {
        out[n++] = (char)(v >> (j == 2 ? 4 : 10));
        if (j == 3)
            out[n++] = (char)(v >> 2);
    }
    *ret = (struct bh_str){out, n};
    return 0;
}

int bh_base64_decode(struct bh_arena *a, struct bh_str s, struct bh_str *ret, struct bh_err *err)
{
    return decode64(a, s, false, ret, err);
}

int bh_base64url_decode(struct bh_arena *a, struct bh_str s, struct bh_str *ret, struct bh_err *err)
{
    return decode64(a, s, true, ret, err);
}

/* ---- Hashes ---- */

struct bh_str bh_hex(struct bh_arena *a, struct bh_str s)
{
    char *p = bh_arena_alloc(a, s.n * 2 + 1);

    for (size_t i = 0; i < s.n; i++) {
        p[i * 2] = hex_digits[(unsigned char)s.p[i] >> 4];
        p[i * 2 + 1] = hex_digits[(unsigned char)s.p[i] & 15];
    }
    return (struct bh_str){p, s.n * 2};
}

void bh_sha256(struct bh_str s, uint8_t ret[32])
{
    unsigned n = 0;

    bh_assert(EVP_Digest(s.n ? s.p : "", s.n, ret, &n, EVP_sha256(), NULL) == 1 && n == 32);
}

struct bh_str bh_sha256_hex(struct bh_arena *a, struct bh_str s)
{
    uint8_t d[32];

    bh_sha256(s, d);
    return bh_hex(a, (struct bh_str){(const char *)d, sizeof(d)});
}

uint32_t bh_fnv32a(uint32_t h, struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (unsigned char)s.p[i]) * 16777619u;
    return h;
}

uint32_t bh_fnv32(uint32_t h, struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++)
        h = (h * 16777619u) ^ (unsigned char)s.p[i];
    return h;
}

uint64_t bh_fnv64a(uint64_t h, struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (unsigned char)s.p[i]) * 1099511628211u;
    return h;
}

uint32_t bh_crc32c(uint32_t crc, struct bh_str s)
{
    crc = ~crc;
    for (size_t i = 0; i < s.n; i++) {
        crc ^= (unsigned char)s.p[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (0x82f63b78u & (0u - (crc & 1)));
    }
    return ~crc;
}

struct bh_str bh_safe_encode(struct bh_arena *a, struct bh_str s)
{
    static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";
    char *p = bh_arena_alloc(a, s.n + 1);

    for (size_t i = 0; i < s.n; i++)
        p[i] = alphabet[(unsigned char)s.p[i] % (sizeof(alphabet) - 1)];
    return (struct bh_str){p, s.n};
}

/* ---- URLs ---- */

static bool unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-_.~", c));
}

static void escape(struct bh_buf *out, struct bh_str s, const char *also_plain, bool plus)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        char e[3] = {'%', "0123456789ABCDEF"[c >> 4], "0123456789ABCDEF"[c & 15]};

        if (unreserved(c) || (c && strchr(also_plain, c)))
            bh_buf_addc(out, (char)c);
        else if (plus && c == ' ')
            bh_buf_addc(out, '+');
        else
            bh_buf_add(out, e, sizeof(e));
    }
}

void bh_url_escape_path(struct bh_buf *out, struct bh_str s)
{
    escape(out, s, "$&+=:@", false);
}

void bh_url_escape_query(struct bh_buf *out, struct bh_str s)
{
    escape(out, s, "", true);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int bh_url_decode(struct bh_arena *a, struct bh_str s, bool query, struct bh_str *ret,
                  struct bh_err *err)
{
    char *out = bh_arena_alloc(a, s.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (c == '%') {
            if (s.n - i < 3 || hex_value(s.p[i + 1]) < 0 || hex_value(s.p[i + 2]) < 0) {
                struct bh_str bad = bh_str_sub(s, i, i + 3);

                return bh_err_set(err, BH_E_BAD_REQUEST, "invalid URL escape \"%.*s\"", BH_SF(bad));
            }
            c = (char)(hex_value(s.p[i + 1]) << 4 | hex_value(s.p[i + 2]));
            i += 2;
        } else if (query && c == '+') {
            c = ' ';
        }
        out[n++] = c;
    }
    *ret = (struct bh_str){out, n};
    return 0;
}

int bh_query_parse(struct bh_arena *a, struct bh_str s, struct bh_query *ret, struct bh_err *err)
{
    struct bh_query q = {NULL, 0};
    size_t cap = 0;

    while (s.p && s.n) {
        struct bh_str value = bh_str_cut(&s, '&'), key, k, v;

        /* Go drops a pair with a semicolon, and one that does not decode. */
        if (!value.n || bh_str_chr(value, ';', 0) >= 0)
            continue;
        key = bh_str_cut(&value, '=');
        if (bh_url_decode(a, key, true, &k, NULL) < 0 ||
            bh_url_decode(a, value, true, &v, NULL) < 0)
            continue;
        if (q.n == BH_QUERY_PARAMS_MAX)
            return bh_err_set(err, BH_E_LIMIT, "more than %d query parameters",
                              BH_QUERY_PARAMS_MAX);
        bh_arena_grow(a, &q.p, &cap, q.n + 1, sizeof(*q.p));
        q.p[q.n++] = (struct bh_str_pair){k, v};
    }
    *ret = q;
    return 0;
}

const struct bh_str *bh_query_get(const struct bh_query *q, const char *name)
{
    for (size_t i = 0; i < q->n; i++)
        if (bh_str_eqc(q->p[i].key, name))
            return &q->p[i].value;
    return NULL;
}

/* ---- UUIDs and versions ---- */

bool bh_is_uuid(struct bh_str s)
{
    if (s.n != 36)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (dash ? s.p[i] != '-' : hex_value(s.p[i]) < 0)
            return false;
    }
    return true;
}

struct bh_str bh_uuid_v4(const uint8_t random[16], char *buf)
{
    size_t n = 0;

    for (size_t i = 0; i < 16; i++) {
        uint8_t b = random[i];

        if (i == 6)
            b = (uint8_t)((b & 0x0f) | 0x40);
        if (i == 8)
            b = (uint8_t)((b & 0x3f) | 0x80);
        if (i == 4 || i == 6 || i == 8 || i == 10)
            buf[n++] = '-';
        buf[n++] = hex_digits[b >> 4];
        buf[n++] = hex_digits[b & 15];
    }
    buf[n] = '\0';
    return (struct bh_str){buf, n};
}

static bool all_digits(struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return s.n > 0;
}

static bool version_number(struct bh_str s, uint64_t *ret)
{
    uint64_t v = 0;

    if (!all_digits(s) || (s.n > 1 && s.p[0] == '0'))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
            return false;
    *ret = v;
    return true;
}

/* Dot-separated identifiers of [0-9A-Za-z-]; numeric ones of a pre-release have no leading zeros.
 */
static bool identifiers(struct bh_str s, bool pre)
{
    while (s.p) {
        struct bh_str id = bh_str_cut(&s, '.');

        for (size_t i = 0; i < id.n; i++)
            if (!unreserved((unsigned char)id.p[i]) || strchr("_.~", id.p[i]))
                return false;
        if (!id.n || (pre && all_digits(id) && id.n > 1 && id.p[0] == '0'))
            return false;
    }
    return true;
}

bool bh_semver_parse(struct bh_str s, struct bh_semver *ret)
{
    struct bh_semver v = {0};
    struct bh_str build = s, pre = bh_str_cut(&build, '+'), core = bh_str_cut(&pre, '-');

    if ((build.p && !identifiers(build, false)) || (pre.p && !identifiers(pre, true)))
        return false;
    v.pre = pre.p ? pre : (struct bh_str){"", 0};
    v.build = build.p ? build : (struct bh_str){"", 0};
    if (!version_number(bh_str_cut(&core, '.'), &v.major) || !core.p ||
        !version_number(bh_str_cut(&core, '.'), &v.minor) || !core.p ||
        !version_number(core, &v.patch))
        return false;
    *ret = v;
    return true;
}

static int cmp_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int cmp_identifier(struct bh_str a, struct bh_str b)
{
    bool da = all_digits(a), db = all_digits(b);

    if (da != db)
        return da ? -1 : 1; /* numeric ones come first */
    if (da && a.n != b.n)
        return a.n < b.n ? -1 : 1;
    return bh_str_cmp(a, b);
}

int bh_semver_cmp(const struct bh_semver *a, const struct bh_semver *b)
{
    struct bh_str x = a->pre, y = b->pre;
    int c = cmp_u64(a->major, b->major);

    c = c ? c : cmp_u64(a->minor, b->minor);
    c = c ? c : cmp_u64(a->patch, b->patch);
    if (c || (!x.n && !y.n))
        return c;
    if (!x.n || !y.n)
        return x.n ? -1 : 1; /* a pre-release comes before its release */
    while (!c && x.p && y.p)
        c = cmp_identifier(bh_str_cut(&x, '.'), bh_str_cut(&y, '.'));
    if (c)
        return c < 0 ? -1 : 1;
    return (x.p != NULL) - (y.p != NULL);
}
