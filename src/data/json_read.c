/* JSON reader: scanners with Go's error texts, the validating skip, and the pull cursor. */
#include "data/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "data/json_scan.h"

/* ---- Errors ---- */

/* Go's quoteChar: the byte taken as a Latin-1 code point and quoted as strconv.Quote does. */
static const char *quote_byte(unsigned char c, char buf[12])
{
    static const char short_esc[] = "abtnvfr"; /* 0x07 … 0x0d */

    if (c == '\'' || c == '\\')
        (void)snprintf(buf, 12, "'\\%c'", c);
    else if (c >= 7 && c <= 13)
        (void)snprintf(buf, 12, "'\\%c'", short_esc[c - 7]);
    else if (c < 0x20 || c == 0x7f)
        (void)snprintf(buf, 12, "'\\x%02x'", c);
    else if (c < 0x7f)
        (void)snprintf(buf, 12, "'%c'", c);
    else if (c <= 0xa0 || c == 0xad)
        (void)snprintf(buf, 12, "'\\u%04x'", c);
    else
        (void)snprintf(buf, 12, "'%c%c'", 0xc0 | c >> 6, 0x80 | (c & 0x3f));
    return buf;
}

const char *bh_json_bad(const char *p, const char *end, const char *context, struct bh_err *err)
{
    /* Go ends the input with a blank: inside of a literal or an escape that is what is wrong. */
    bool inside = strncmp(context, "in literal", 10) == 0 || strstr(context, "numeric literal") ||
                  strstr(context, "escape");
    char q[12];

    if (p >= end && inside)
        (void)bh_err_set(err, BH_E_BAD_REQUEST, "invalid character ' ' %s", context);
    else if (p >= end)
        (void)bh_err_set(err, BH_E_BAD_REQUEST, "unexpected end of JSON input");
    else
        (void)bh_err_set(err, BH_E_BAD_REQUEST, "invalid character %s %s",
                         quote_byte((unsigned char)*p, q), context);
    return NULL;
}

const char *bh_json_scan_literal(const char *p, const char *end, const char *word,
                                 struct bh_err *err)
{
    char context[40];
    size_t n = strlen(word);

    if ((size_t)(end - p) >= n && memcmp(p, word, n) == 0)
        return p + n;
    for (size_t i = 0; i < n; i++, p++) {
        if (p < end && *p == word[i])
            continue;
        (void)snprintf(context, sizeof(context), "in literal %s (expecting '%c')", word, word[i]);
        return bh_json_bad(p, end, context, err);
    }
    return p;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *bh_json_scan_escape(const char *p, const char *end, struct bh_err *err)
{
    p++;
    if (p == end)
        return bh_json_bad(p, end, "in string escape code", err);
    switch (*p) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return p + 1;
    case 'u':
        p++;
        for (int i = 0; i < 4; i++, p++)
            if (p == end || hex_digit(*p) < 0)
                return bh_json_bad(p, end, "in \\u hexadecimal character escape", err);
        return p;
    default:
        return bh_json_bad(p, end, "in string escape code", err);
    }
}

/* ---- Strings ---- */

size_t bh_json_rune(const char *p, const char *end, uint32_t *ret)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t left = (size_t)(end - p);
    uint32_t c = u[0], min;
    size_t n;

    *ret = 0xfffd;
    if (c < 0x80) {
        *ret = c;
        return 1;
    }
    if (c >= 0xc2 && c <= 0xdf) {
        n = 2;
        c &= 0x1f;
        min = 0x80;
    } else if (c >= 0xe0 && c <= 0xef) {
        n = 3;
        c &= 0x0f;
        min = 0x800;
    } else if (c >= 0xf0 && c <= 0xf4) {
        n = 4;
        c &= 0x07;
        min = 0x10000;
    } else {
        return 1;
    }
    if (left < n)
        return 1;
    for (size_t i = 1; i < n; i++) {
        if ((u[i] & 0xc0) != 0x80)
            return 1;
        c = c << 6 | (u[i] & 0x3f);
    }
    if (c < min || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 1;
    *ret = c;
    return n;
}

static size_t put_rune(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

static uint32_t hex4(const char *p)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++)
        v = v << 4 | (uint32_t)hex_digit(p[i]);
    return v;
}

/* p stands behind "\u" of a scanned string; a surrogate pair is joined, a lone surrogate becomes
 * U+FFFD. */
static const char *unescape_u(const char *p, const char *q, uint32_t *ret)
{
    uint32_t c = hex4(p), low;

    p += 4;
    *ret = c;
    if (c < 0xd800 || c > 0xdfff)
        return p;
    *ret = 0xfffd;
    if (c > 0xdbff || q - p < 6 || p[0] != '\\' || p[1] != 'u')
        return p;
    low = hex4(p + 2);
    if (low < 0xdc00 || low > 0xdfff)
        return p;
    *ret = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    return p + 6;
}

static bool utf8_valid(const char *p, const char *q)
{
    while (p < q) {
        uint32_t c;
        size_t n;

        if ((unsigned char)*p < 0x80) {
            p++;
            continue;
        }
        n = bh_json_rune(p, q, &c);
        if (n == 1)
            return false;
        p += n;
    }
    return true;
}

/* One pass over the scanned string: counts when out is NULL, else writes as many bytes. */
static size_t unescape_pass(const char *p, const char *q, char *out)
{
    size_t n = 0;
    char tmp[4];

    while (p < q) {
        const char *run = p;
        uint32_t c;

        while (p < q && *p != '\\' && (unsigned char)*p < 0x80)
            p++;
        if (p > run) {
            if (out)
                memcpy(out + n, run, (size_t)(p - run));
            n += (size_t)(p - run);
            continue;
        }
        if (*p != '\\') {
            p += bh_json_rune(p, q, &c);
        } else if (p[1] == 'u') {
            p = unescape_u(p + 2, q, &c);
        } else {
            static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
            const char *at = strchr(from, p[1]);

            c = (unsigned char)(at ? to[at - from] : p[1]);
            p += 2;
        }
        n += put_rune(out ? out + n : tmp, c);
    }
    return n;
}

struct bh_str bh_json_unescape(struct bh_arena *a, const char *p, const char *q, unsigned flags)
{
    size_t n;
    char *out;

    if (flags == 0 || (flags == JSON_STR_NONASCII && utf8_valid(p, q)))
        return (struct bh_str){p, (size_t)(q - p)};
    bh_assert(a != NULL);
    n = unescape_pass(p, q, NULL);
    out = bh_arena_try(a, n + 1);
    if (out)
        (void)unescape_pass(p, q, out);
    return (struct bh_str){out, n};
}

/* ---- The validating skip ---- */

/* Passes one value that begins at p; depth counts the containers already open around it. Returns
 * the position behind the value or NULL. One loop with a bit per level instead of recursion; longer
 * than a screen because splitting it would put the hot state into memory. */
static const char *skip_value(const char *p, const char *end, unsigned depth, struct bh_err *err)
{
    uint64_t objs[(BH_JSON_DEPTH_MAX + 63) / 64];
    unsigned base = depth, flags;

value:
    p = json_ws(p, end);
    if (p == end)
        return bh_json_bad(p, end, "", err);
    if (*p == '"') {
        p = json_scan_str(p + 1, end, &flags, err);
        if (!p)
            return NULL;
        p++;
    } else if (*p == '{' || *p == '[') {
        bool obj = *p == '{';

        if (depth == BH_JSON_DEPTH_MAX)
            return bh_json_bad(p, end, "exceeded max depth", err);
        if (obj)
            objs[depth / 64] |= UINT64_C(1) << depth % 64;
        else
            objs[depth / 64] &= ~(UINT64_C(1) << depth % 64);
        depth++;
        p = json_ws(p + 1, end);
        if (p == end || *p != (obj ? '}' : ']')) {
            if (obj)
                goto key;
            goto value;
        }
        p++;
        depth--;
    } else {
        p = json_scan_scalar(p, end, err);
        if (!p)
            return NULL;
    }
    while (depth > base) {
        bool obj = objs[(depth - 1) / 64] >> (depth - 1) % 64 & 1;

        p = json_ws(p, end);
        if (p < end && *p == ',') {
            p++;
            if (obj)
                goto key;
            goto value;
        }
        if (p == end || *p != (obj ? '}' : ']'))
            return bh_json_bad(p, end, obj ? "after object key:value pair" : "after array element",
                               err);
        p++;
        depth--;
    }
    return p;
key:
    p = json_ws(p, end);
    if (p == end || *p != '"')
        return bh_json_bad(p, end, "looking for beginning of object key string", err);
    p = json_scan_str(p + 1, end, &flags, err);
    if (!p)
        return NULL;
    p = json_ws(p + 1, end);
    if (p == end || *p != ':')
        return bh_json_bad(p, end, "after object key", err);
    p++;
    goto value;
}

int bh_json_check(struct bh_str in, struct bh_err *err)
{
    const char *p = in.p ? in.p : "", *end = p + in.n;

    p = skip_value(p, end, 0, err);
    if (!p)
        return -BH_E_BAD_REQUEST;
    p = json_ws(p, end);
    if (p != end) {
        (void)bh_json_bad(p, end, "after top-level value", err);
        return -BH_E_BAD_REQUEST;
    }
    return 0;
}

/* ---- The cursor ---- */

const char *bh_json_kind_name(enum bh_json_kind k)
{
    static const char *const names[] = {"", "null", "bool", "number", "string", "array", "object"};

    return (unsigned)k < BH_COUNT(names) ? names[k] : "";
}

void bh_json_rd_init(struct bh_json_rd *r, struct bh_str in, struct bh_arena *arena)
{
    const char *p = in.p ? in.p : "";

    *r = (struct bh_json_rd){.start = p, .p = p, .end = p + in.n, .arena = arena};
}

size_t bh_json_pos(const struct bh_json_rd *r)
{
    return (size_t)(r->p - r->start);
}

enum bh_json_kind bh_json_peek(struct bh_json_rd *r)
{
    r->p = json_ws(r->p, r->end);
    if (r->p == r->end || r->failed)
        return BH_JSON_NONE;
    switch (*r->p) {
    case '"':
        return BH_JSON_STR;
    case '{':
        return BH_JSON_OBJ;
    case '[':
        return BH_JSON_ARR;
    case 't':
    case 'f':
        return BH_JSON_BOOL;
    case 'n':
        return BH_JSON_NULL;
    case '-':
    case '0' ... '9':
        return BH_JSON_NUM;
    default:
        return BH_JSON_NONE;
    }
}

/* The reader is at rest after a syntax error. */
static int fail(struct bh_json_rd *r)
{
    r->failed = true;
    r->p = r->end;
    return -BH_E_BAD_REQUEST;
}

static int bad(struct bh_json_rd *r, const char *context, struct bh_err *err)
{
    if (r->failed)
        return bh_err_set(err, BH_E_BAD_REQUEST, "unexpected end of JSON input");
    (void)bh_json_bad(r->p, r->end, context, err);
    return fail(r);
}

/* Checks what stands at the cursor before a value of kind want is taken. */
static int expect(struct bh_json_rd *r, enum bh_json_kind want, struct bh_err *err)
{
    enum bh_json_kind k = bh_json_peek(r);

    if (k == want)
        return 0;
    if (k == BH_JSON_NONE)
        return bad(r, "looking for beginning of value", err);
    return bh_err_set(err, BH_E_BAD_REQUEST, "cannot unmarshal %s into a value of kind %s",
                      bh_json_kind_name(k), bh_json_kind_name(want));
}

int bh_json_take_null(struct bh_json_rd *r, struct bh_err *err)
{
    int rc = expect(r, BH_JSON_NULL, err);
    const char *p;

    if (rc < 0)
        return rc;
    p = bh_json_scan_literal(r->p, r->end, "null", err);
    if (!p)
        return fail(r);
    r->p = p;
    return 0;
}

int bh_json_take_bool(struct bh_json_rd *r, bool *ret, struct bh_err *err)
{
    int rc = expect(r, BH_JSON_BOOL, err);
    const char *p;
    bool v;

    if (rc < 0)
        return rc;
    v = *r->p == 't';
    p = bh_json_scan_literal(r->p, r->end, v ? "true" : "false", err);
    if (!p)
        return fail(r);
    r->p = p;
    *ret = v;
    return 0;
}

int bh_json_take_num(struct bh_json_rd *r, struct bh_str *ret_raw, struct bh_err *err)
{
    int rc = expect(r, BH_JSON_NUM, err);
    const char *p;

    if (rc < 0)
        return rc;
    p = json_scan_num(r->p, r->end, err);
    if (!p)
        return fail(r);
    *ret_raw = (struct bh_str){r->p, (size_t)(p - r->p)};
    r->p = p;
    return 0;
}

/* The cursor stands at an opening quote. */
static int take_str(struct bh_json_rd *r, struct bh_str *ret, struct bh_err *err)
{
    unsigned flags = 0;
    const char *q = json_scan_str(r->p + 1, r->end, &flags, err);
    struct bh_str s;

    if (!q)
        return fail(r);
    s = bh_json_unescape(r->arena, r->p + 1, q, flags);
    if (!s.p) {
        (void)fail(r);
        return bh_err_set(err, BH_E_LIMIT, "the memory limit of this input is reached");
    }
    r->p = q + 1;
    *ret = s;
    return 0;
}

int bh_json_take_str(struct bh_json_rd *r, struct bh_str *ret, struct bh_err *err)
{
    int rc = expect(r, BH_JSON_STR, err);

    return rc < 0 ? rc : take_str(r, ret, err);
}

int bh_json_enter(struct bh_json_rd *r, struct bh_err *err)
{
    enum bh_json_kind k = bh_json_peek(r);
    unsigned d = r->depth;

    if (k != BH_JSON_OBJ && k != BH_JSON_ARR)
        return expect(r, BH_JSON_OBJ, err);
    if (d == BH_JSON_DEPTH_MAX)
        return bad(r, "exceeded max depth", err);
    if (k == BH_JSON_OBJ)
        r->objs[d / 64] |= UINT64_C(1) << d % 64;
    else
        r->objs[d / 64] &= ~(UINT64_C(1) << d % 64);
    r->depth++;
    r->p++;
    r->first = true;
    return 0;
}

static bool in_object(const struct bh_json_rd *r)
{
    return r->depth && (r->objs[(r->depth - 1) / 64] >> (r->depth - 1) % 64 & 1);
}

/* Common to both kinds: 0 when the container ended and was left, 1 when another element has to
 * follow. */
static int next_element(struct bh_json_rd *r, char close, const char *context, struct bh_err *err)
{
    r->p = json_ws(r->p, r->end);
    if (r->p < r->end && *r->p == close) {
        r->p++;
        r->depth--;
        r->first = false;
        return 0;
    }
    if (r->first) {
        r->first = false;
        return 1;
    }
    if (r->p == r->end || *r->p != ',')
        return bad(r, context, err);
    r->p = json_ws(r->p + 1, r->end);
    return 1;
}

int bh_json_next_key(struct bh_json_rd *r, struct bh_str *ret_key, struct bh_err *err)
{
    int rc;

    bh_assert(r->failed || in_object(r));
    rc = next_element(r, '}', "after object key:value pair", err);
    if (rc <= 0)
        return rc;
    if (r->p == r->end || *r->p != '"')
        return bad(r, "looking for beginning of object key string", err);
    rc = take_str(r, ret_key, err);
    if (rc < 0)
        return rc;
    r->p = json_ws(r->p, r->end);
    if (r->p == r->end || *r->p != ':')
        return bad(r, "after object key", err);
    r->p = json_ws(r->p + 1, r->end);
    return 1;
}

int bh_json_next_item(struct bh_json_rd *r, struct bh_err *err)
{
    int rc;

    bh_assert(r->failed || (r->depth && !in_object(r)));
    rc = next_element(r, ']', "after array element", err);
    if (rc <= 0)
        return rc;
    if (bh_json_peek(r) == BH_JSON_NONE)
        return bad(r, "looking for beginning of value", err);
    return 1;
}

int bh_json_skip(struct bh_json_rd *r, struct bh_str *ret_raw, struct bh_err *err)
{
    const char *p;

    if (bh_json_peek(r) == BH_JSON_NONE)
        return bad(r, "looking for beginning of value", err);
    p = skip_value(r->p, r->end, r->depth, err);
    if (!p)
        return fail(r);
    if (ret_raw)
        *ret_raw = (struct bh_str){r->p, (size_t)(p - r->p)};
    r->p = p;
    return 0;
}

int bh_json_end(struct bh_json_rd *r, struct bh_err *err)
{
    if (r->failed)
        return bad(r, "", err);
    r->p = json_ws(r->p, r->end);
    if (r->p != r->end || r->depth)
        return bad(r, "after top-level value", err);
    return 0;
}

/* ---- Numbers ---- */

bool bh_json_num_i64(struct bh_str raw, int64_t *ret)
{
    return bh_str_i64(raw, INT64_MIN, INT64_MAX, ret);
}

bool bh_json_num_double(struct bh_str raw, double *ret)
{
    char small[64];
    char *text = raw.n < sizeof(small) ? small : bh_malloc(raw.n + 1);
    double v;

    /* strtod wants a NUL; the program never leaves the C locale. */
    if (raw.n)
        memcpy(text, raw.p, raw.n);
    text[raw.n] = '\0';
    v = strtod(text, NULL);
    if (text != small)
        bh_free(text);
    *ret = v;
    return isfinite(v);
}
