/* The lexer: tokens by longest match, and the values of string literals. */
#include "cel/cel_lex.h"

#include "base/buf.h"

#include <ctype.h>
#include <string.h>

static bool is_ident_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_ident(char c)
{
    return is_ident_start(c) || is_digit(c);
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static char at(const struct cel_compiler *c, uint32_t i)
{
    return i < c->src.n ? c->src.p[i] : '\0';
}

bool cel_reserved_name(struct bh_str s)
{
    static const char *const words[] = {
        "as",  "break", "const",   "continue",  "else",   "for", "function", "if",   "import",
        "let", "loop",  "package", "namespace", "return", "var", "void",     "while"};

    for (size_t i = 0; i < BH_COUNT(words); i++)
        if (bh_str_eqc(s, words[i]))
            return true;
    return false;
}

/* Told, and passed over: parsing goes on behind it, as upstream does. */
static struct cel_token lex_error(struct cel_compiler *c, uint32_t start, uint32_t end)
{
    if (end > c->src.n)
        end = (uint32_t)c->src.n;
    while (end < c->src.n && ((unsigned char)c->src.p[end] & 0xc0) == 0x80)
        end++; /* the whole of a character */
    cel_issue_add(c, start, "Syntax error: token recognition error at: '%.*s'",
                  BH_SF(bh_str_sub(c->src, start, end)));
    return (struct cel_token){T_SKIPPED, start, end};
}

/* Length of the escape sequence at i (which holds the backslash); 0 with *ret_bad past the first
 * wrong byte. */
static uint32_t escape_len(const struct cel_compiler *c, uint32_t i, uint32_t *ret_bad)
{
    char e = at(c, i + 1);
    uint32_t digits = 0;

    *ret_bad = i + 2;
    if (i + 1 >= c->src.n)
        return 0;
    if (strchr("abfnrtv\"'`\\?", e) && e)
        return 2;
    if (e == 'x' || e == 'X')
        digits = 2;
    else if (e == 'u')
        digits = 4;
    else if (e == 'U')
        digits = 8;
    if (digits) {
        for (uint32_t k = 0; k < digits; k++)
            if (!is_hex(at(c, i + 2 + k))) {
                *ret_bad = i + 3 + k;
                return 0;
            }
        return 2 + digits;
    }
    if (e >= '0' && e <= '3') {
        for (uint32_t k = 2; k < 4; k++)
            if (at(c, i + k) < '0' || at(c, i + k) > '7') {
                *ret_bad = i + k + 1;
                return 0;
            }
        return 4;
    }
    return 0;
}

/* End of the string whose opening quote stands at i; 0 with *ret_bad past the first wrong byte. */
static uint32_t string_end(const struct cel_compiler *c, uint32_t i, bool raw, uint32_t *ret_bad)
{
    char q = at(c, i);
    bool triple = at(c, i + 1) == q && at(c, i + 2) == q;
    uint32_t k = triple ? i + 3 : i + 1;

    while (k < c->src.n) {
        char ch = at(c, k);

        if (ch == q && (!triple || (at(c, k + 1) == q && at(c, k + 2) == q)))
            return triple ? k + 3 : k + 1;
        if (!triple && (ch == '\n' || ch == '\r')) {
            *ret_bad = k + 1;
            return 0;
        }
        if (ch == '\\' && !raw) {
            uint32_t n = escape_len(c, k, ret_bad);

            if (!n)
                return 0;
            k += n;
            continue;
        }
        k++;
    }
    *ret_bad = k;
    return 0;
}

static struct cel_token number(const struct cel_compiler *c, uint32_t start)
{
    uint32_t i = start;
    enum cel_tok kind = T_INT;

    if (at(c, i) == '0' && at(c, i + 1) == 'x' && is_hex(at(c, i + 2))) {
        i += 2;
        while (is_hex(at(c, i)))
            i++;
    } else {
        while (is_digit(at(c, i)))
            i++;
        if (at(c, i) == '.' && is_digit(at(c, i + 1))) {
            kind = T_DOUBLE;
            i++;
            while (is_digit(at(c, i)))
                i++;
        }
        if (at(c, i) == 'e' || at(c, i) == 'E') {
            uint32_t k = i + 1;

            if (at(c, k) == '+' || at(c, k) == '-')
                k++;
            if (is_digit(at(c, k))) {
                kind = T_DOUBLE;
                while (is_digit(at(c, k)))
                    k++;
                i = k;
            }
        }
        if (kind == T_DOUBLE)
            return (struct cel_token){kind, start, i};
    }
    if (at(c, i) == 'u' || at(c, i) == 'U')
        return (struct cel_token){T_UINT, start, i + 1};
    return (struct cel_token){T_INT, start, i};
}

/* Three quotes that no others close are an empty string, and a quote that is in error. */
static uint32_t empty_end(const struct cel_compiler *c, uint32_t i)
{
    return at(c, i) == at(c, i + 1) && at(c, i) == at(c, i + 2) ? i + 2 : 0;
}

static struct cel_token word(struct cel_compiler *c, uint32_t start)
{
    uint32_t i = start, bad = 0, end;
    bool bytes = false, raw = false;
    struct bh_str s;

    if (at(c, i) == 'b' || at(c, i) == 'B') {
        bytes = true;
        i++;
    }
    if (at(c, i) == 'r' || at(c, i) == 'R') {
        raw = true;
        i++;
    }
    if ((bytes || raw) && (at(c, i) == '"' || at(c, i) == '\'')) {
        end = string_end(c, i, raw, &bad);
        if (!end)
            end = empty_end(c, i);
        if (end)
            return (struct cel_token){bytes ? T_BYTES : T_STRING, start, end};
        /* No string: then the prefix is a name, and what is wrong begins at the quote. */
        return (struct cel_token){T_IDENT, start, i};
    }
    i = start;
    while (is_ident(at(c, i)))
        i++;
    s = bh_str_sub(c->src, start, i);
    if (bh_str_eqc(s, "true"))
        return (struct cel_token){T_TRUE, start, i};
    if (bh_str_eqc(s, "false"))
        return (struct cel_token){T_FALSE, start, i};
    if (bh_str_eqc(s, "null"))
        return (struct cel_token){T_NULL, start, i};
    if (bh_str_eqc(s, "in"))
        return (struct cel_token){T_IN, start, i};
    return (struct cel_token){T_IDENT, start, i};
}

static struct cel_token quoted(struct cel_compiler *c, uint32_t start)
{
    uint32_t i = start + 1, r;

    while (i < c->src.n && (isalnum((unsigned char)at(c, i)) || strchr("_.-/ ", at(c, i))))
        i++;
    if (i < c->src.n && at(c, i) == '`' && i > start + 1)
        return (struct cel_token){T_QUOTED, start, i + 1};
    if (i < c->src.n)
        i += (uint32_t)cel_rune(c->src.p + i, c->src.n - i, &r);
    return lex_error(c, start, i);
}

static struct cel_token symbol(struct cel_compiler *c, uint32_t i)
{
    static const struct {
        char c;
        enum cel_tok t;
    } one[] = {{'[', T_LBRACKET}, {']', T_RBRACKET}, {'{', T_LBRACE},   {'}', T_RBRACE},
               {'(', T_LPAREN},   {')', T_RPAREN},   {'.', T_DOT},      {',', T_COMMA},
               {'-', T_MINUS},    {'!', T_NOT},      {'?', T_QUESTION}, {':', T_COLON},
               {'+', T_PLUS},     {'*', T_STAR},     {'/', T_SLASH},    {'%', T_PERCENT},
               {'<', T_LT},       {'>', T_GT}};
    static const struct {
        char s[3];
        enum cel_tok t;
    } two[] = {{"==", T_EQ}, {"!=", T_NE}, {"<=", T_LE}, {">=", T_GE}, {"&&", T_AND}, {"||", T_OR}};
    uint32_t r;
    size_t n;

    for (size_t k = 0; k < BH_COUNT(two); k++)
        if (at(c, i) == two[k].s[0] && at(c, i + 1) == two[k].s[1])
            return (struct cel_token){two[k].t, i, i + 2};
    for (size_t k = 0; k < BH_COUNT(one); k++)
        if (at(c, i) == one[k].c)
            return (struct cel_token){one[k].t, i, i + 1};
    if (at(c, i) == '`')
        return quoted(c, i);
    n = cel_rune(c->src.p + i, c->src.n - i, &r);
    /* Half of an operator takes the character along that would have been its other half. */
    if (strchr("=&|", at(c, i)) && i + n < c->src.n)
        n += cel_rune(c->src.p + i + n, c->src.n - i - n, &r);
    return lex_error(c, i, i + (uint32_t)n);
}

static struct cel_token one_token(struct cel_compiler *c, uint32_t *pos)
{
    uint32_t i = *pos;
    struct cel_token t;

    for (;;) {
        char ch = at(c, i);

        if (i < c->src.n && (ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n' || ch == '\f')) {
            i++;
        } else if (ch == '/' && at(c, i + 1) == '/') {
            while (i < c->src.n && at(c, i) != '\n')
                i++;
        } else {
            break;
        }
    }
    if (i >= c->src.n) {
        t = (struct cel_token){T_EOF, (uint32_t)c->src.n, (uint32_t)c->src.n};
    } else if (is_digit(at(c, i)) || (at(c, i) == '.' && is_digit(at(c, i + 1)))) {
        t = number(c, i);
    } else if (is_ident_start(at(c, i))) {
        t = word(c, i);
    } else if (at(c, i) == '"' || at(c, i) == '\'') {
        uint32_t bad = 0, end = string_end(c, i, false, &bad);

        if (!end)
            end = empty_end(c, i);
        t = end ? (struct cel_token){T_STRING, i, end} : lex_error(c, i, bad);
    } else {
        t = symbol(c, i);
    }
    *pos = t.end;
    return t;
}

struct cel_token cel_lex(struct cel_compiler *c, uint32_t *pos)
{
    struct cel_token t;

    do
        t = one_token(c, pos);
    while (t.kind == T_SKIPPED);
    return t;
}

static uint32_t hex_value(const char *p, size_t n)
{
    uint32_t v = 0;

    for (size_t i = 0; i < n; i++)
        v = v * 16 + (uint32_t)(is_digit(p[i]) ? p[i] - '0' : (p[i] | 0x20) - 'a' + 10);
    return v;
}

/* One escape at p (past the backslash); appends to out and returns the bytes read, 0 when it is not
 * allowed. */
static size_t unescape_one(const char *p, bool bytes, struct bh_buf *out)
{
    static const char from[] = "abfnrtv\"'`\\?", to[] = "\a\b\f\n\r\t\v\"'`\\?";
    const char *f = memchr(from, *p, sizeof(from) - 1);
    uint32_t v;
    size_t n;
    char u[4];

    if (f) {
        bh_buf_addc(out, to[f - from]);
        return 1;
    }
    if (*p == 'x' || *p == 'X') {
        v = hex_value(p + 1, 2);
        n = 3;
    } else if (*p == 'u' || *p == 'U') {
        if (bytes)
            return 0;
        n = *p == 'u' ? 5 : 9;
        v = hex_value(p + 1, n - 1);
        if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
            return 0;
    } else {
        v = (uint32_t)((p[0] - '0') * 64 + (p[1] - '0') * 8 + (p[2] - '0'));
        n = 3;
    }
    if (bytes)
        bh_buf_addc(out, (char)v);
    else
        bh_buf_add(out, u, cel_rune_put(v, u));
    return n;
}

bool cel_unescape(struct cel_compiler *c, struct cel_token t, struct bh_cel_value *ret)
{
    BH_AUTO_BUF b = {.max = BH_CEL_EXPR_BYTES_MAX * 64};
    const char *p = c->src.p + t.pos, *end = c->src.p + t.end;
    bool raw = false, bytes = t.kind == T_BYTES;
    size_t q;

    while (*p != '"' && *p != '\'') {
        raw |= *p == 'r' || *p == 'R';
        p++;
    }
    q = end - p >= 6 && p[1] == p[0] && p[2] == p[0] ? 3 : 1;
    p += q;
    end -= q;
    while (p < end) {
        if (*p == '\r') {
            bh_buf_addc(&b, '\n');
            p += p + 1 < end && p[1] == '\n' ? 2 : 1;
        } else if (*p == '\\' && !raw) {
            size_t n = unescape_one(p + 1, bytes, &b);

            if (!n) {
                cel_issue_add(c, t.pos, "unable to unescape string");
                return false;
            }
            p += n + 1;
        } else {
            uint32_t r;
            char u[4];
            size_t n = cel_rune(p, (size_t)(end - p), &r);

            bh_buf_add(&b, u, cel_rune_put(r, u));
            p += n;
        }
    }
    *ret = cel_str_copy(c->a, bh_buf_str(&b));
    if (bytes)
        ret->kind = BH_CEL_BYTES;
    return true;
}
