/* The forms of names. Each check fills a small list of messages, in upstream's order and words. */
#include "data/names.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"

#define MSGS_MAX 6

struct msgs {
    size_t n;
    char text[MSGS_MAX][BH_NAMES_BUF];
};

static void add(struct msgs *m, const char *fmt, ...) BH_PRINTF(2, 3);
static void add(struct msgs *m, const char *fmt, ...)
{
    va_list ap;

    if (m->n == MSGS_MAX)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(m->text[m->n++], BH_NAMES_BUF, fmt, ap);
    va_end(ap);
}

/* ---- Texts ---- */

#define LABEL_RE      "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#define SUBDOMAIN_RE  LABEL_RE "(\\." LABEL_RE ")*"
#define NAME_RE       "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
#define UNDERSCORE_RE "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
#define USED          "regex used for validation is '"

static const char label_msg[] =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', " USED LABEL_RE "')";
static const char subdomain_msg[] =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', " USED SUBDOMAIN_RE "')";
static const char underscore_msg[] =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' "
    "or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', " USED UNDERSCORE_RE
    "(\\." UNDERSCORE_RE ")*')";
static const char caseless_msg[] =
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and "
    "end with an "
    "alphanumeric character (e.g. 'Example.com', " USED SUBDOMAIN_RE "')";
static const char wildcard_msg[] =
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which "
    "must consist of lower "
    "case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. "
    "'*.example.com', " USED "\\*\\." SUBDOMAIN_RE "')";
static const char dns1035_msg[] =
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and "
    "end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', " USED
    "[a-z]([-a-z0-9]*[a-z0-9])?')";
static const char name_part_msg[] =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', " USED NAME_RE "')";
static const char label_value_msg[] =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', " USED
    "(" NAME_RE ")?')";
static const char c_identifier_msg[] =
    "a valid C identifier must start with alphabetic character or '_', followed by a string of "
    "alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', " USED "[A-Za-z_][A-Za-z0-9_]*')";
static const char env_msg[] = "a valid environment variable name must consist only of printable "
                              "ASCII characters other than '='";
static const char config_key_msg[] = "a valid config key must consist of alphanumeric characters, "
                                     "'-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
                                     "'key-name', " USED "[-._a-zA-Z0-9]+')";
static const char header_msg[] = "a valid HTTP header must consist of alphanumeric characters or "
                                 "'-' (e.g. 'X-Header-Name', " USED "[-A-Za-z0-9]+')";
static const char percent_msg[] = "a valid percent string must be a numeric string followed by an "
                                  "ending '%' (e.g. '1%',  or '93%', " USED "[0-9]+%')";
static const char path_msg[] = "Invalid path (" USED "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

/* ---- Character classes ---- */

static bool lower(char c)
{
    return c >= 'a' && c <= 'z';
}
static bool numeric(char c)
{
    return c >= '0' && c <= '9';
}
static bool alnum(char c)
{
    return lower(c) || numeric(c) || (c >= 'A' && c <= 'Z');
}
static bool lower_alnum(char c)
{
    return lower(c) || numeric(c);
}

/* Every byte is alphanumeric (or only lower case) or in extra. */
static bool only(struct bh_str s, bool (*class)(char c), const char *extra)
{
    for (size_t i = 0; i < s.n; i++)
        if (!class(s.p[i]) && (!s.p[i] || !strchr(extra, s.p[i])))
            return false;
    return s.n > 0;
}

static bool is_label(struct bh_str s)
{
    return only(s, lower_alnum, "-") && s.p[0] != '-' && s.p[s.n - 1] != '-';
}

static bool is_label_underscore(struct bh_str s)
{
    if (s.n && s.p[0] == '_')
        s = bh_str_sub(s, 1, s.n);
    return only(s, lower_alnum, "-_") && lower_alnum(s.p[0]) && lower_alnum(s.p[s.n - 1]);
}

static bool is_label_caseless(struct bh_str s)
{
    return only(s, alnum, "-") && s.p[0] != '-' && s.p[s.n - 1] != '-';
}

static bool each_part(struct bh_str s, bool (*part)(struct bh_str s))
{
    while (s.p)
        if (!part(bh_str_cut(&s, '.')))
            return false;
    return true;
}

static bool is_subdomain(struct bh_str s)
{
    return s.n && each_part(s, is_label);
}

static bool is_name(struct bh_str s)
{
    return only(s, alnum, "-_.") && alnum(s.p[0]) && alnum(s.p[s.n - 1]);
}

/* ---- Checks ---- */

static void too_long(struct msgs *m, const char *prefix, struct bh_str s, size_t max,
                     const char *unit)
{
    if (s.n > max)
        add(m, "%smust be no more than %zu %s", prefix, max, unit);
}

static void dns1123_label(struct msgs *m, struct bh_str s)
{
    too_long(m, "", s, 63, "characters");
    if (!is_label(s))
        add(m, "%s", is_subdomain(s) ? "must not contain dots" : label_msg);
}

static void dns1123_subdomain(struct msgs *m, struct bh_str s)
{
    too_long(m, "", s, 253, "characters");
    if (!is_subdomain(s))
        add(m, "%s", subdomain_msg);
}

static void dns1123_subdomain_underscore(struct msgs *m, struct bh_str s)
{
    too_long(m, "", s, 253, "characters");
    if (!s.n || !each_part(s, is_label_underscore))
        add(m, "%s", underscore_msg);
}

static void dns1123_subdomain_caseless(struct msgs *m, struct bh_str s)
{
    too_long(m, "", s, 253, "characters");
    if (!s.n || !each_part(s, is_label_caseless))
        add(m, "%s", caseless_msg);
}

static void wildcard_dns1123_subdomain(struct msgs *m, struct bh_str s)
{
    too_long(m, "", s, 253, "characters");
    if (!bh_str_starts(s, BH_S("*.")) || !is_subdomain(bh_str_sub(s, 2, s.n)))
        add(m, "%s", wildcard_msg);
}

static void dns1035_label(struct msgs *m, struct bh_str s)
{
    too_long(m, "", s, 63, "characters");
    if (!is_label(s) || !lower(s.p[0]))
        add(m, "%s", dns1035_msg);
}

static void qualified_name(struct msgs *m, struct bh_str s)
{
    struct bh_str name = s, prefix = {NULL, 0};
    ptrdiff_t slash = bh_str_chr(s, '/', 0);

    if (slash >= 0 && bh_str_chr(s, '/', (size_t)slash + 1) >= 0) {
        add(m,
            "a valid label key %s with an optional DNS subdomain prefix and '/' (e.g. "
            "'example.com/MyName')",
            name_part_msg);
        return;
    }
    if (slash >= 0)
        prefix = bh_str_cut(&name, '/');
    if (slash == 0) {
        add(m, "prefix part must be non-empty");
    } else if (slash > 0) {
        too_long(m, "prefix part ", prefix, 253, "bytes");
        if (!is_subdomain(prefix))
            add(m, "prefix part %s", subdomain_msg);
    }
    if (!name.n)
        add(m, "name part must be non-empty");
    too_long(m, "name part ", name, 63, "bytes");
    if (!is_name(name))
        add(m, "name part %s", name_part_msg);
}

static void label_value(struct msgs *m, struct bh_str s)
{
    too_long(m, "", s, 63, "bytes");
    if (s.n && !is_name(s))
        add(m, "%s", label_value_msg);
}

static void c_identifier(struct msgs *m, struct bh_str s)
{
    if (!only(s, alnum, "_") || numeric(s.p[0]))
        add(m, "%s", c_identifier_msg);
}

static void env_var_name(struct msgs *m, struct bh_str s)
{
    if (!s.n)
        add(m, "environment variable name must be non-empty");
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < ' ' || s.p[i] > '~' || s.p[i] == '=') {
            add(m, "%s", env_msg);
            return;
        }
    }
}

static void config_map_key(struct msgs *m, struct bh_str s)
{
    too_long(m, "", s, 253, "characters");
    if (!only(s, alnum, "-._"))
        add(m, "%s", config_key_msg);
    if (bh_str_eqc(s, ".") || bh_str_eqc(s, ".."))
        add(m, "must not be '%.*s'", BH_SF(s));
    else if (bh_str_starts(s, BH_S("..")))
        add(m, "must not start with '..'");
}

static void http_header_name(struct msgs *m, struct bh_str s)
{
    if (!only(s, alnum, "-"))
        add(m, "%s", header_msg);
}

static void port_name(struct msgs *m, struct bh_str s)
{
    bool letter = false;

    for (size_t i = 0; i < s.n; i++)
        letter |= lower(s.p[i]);
    too_long(m, "", s, 15, "characters");
    if (!only(s, lower_alnum, "-"))
        add(m, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    if (!letter)
        add(m, "must contain at least one letter (a-z)");
    if (bh_str_find(s, BH_S("--")) >= 0)
        add(m, "must not contain consecutive hyphens");
    if (s.n && (s.p[0] == '-' || s.p[s.n - 1] == '-'))
        add(m, "must not begin or end with a hyphen");
}

static void path_segment(struct msgs *m, struct bh_str s)
{
    if (bh_str_eqc(s, ".") || bh_str_eqc(s, "..")) {
        add(m, "may not be '%.*s'", BH_SF(s));
        return;
    }
    if (bh_str_chr(s, '/', 0) >= 0)
        add(m, "may not contain '/'");
    if (bh_str_chr(s, '%', 0) >= 0)
        add(m, "may not contain '%%'");
}

static void domain_prefixed_path(struct msgs *m, struct bh_str s)
{
    struct bh_str path = s, host = bh_str_cut(&path, '/');

    if (!path.n || !host.n) {
        add(m, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        return;
    }
    dns1123_subdomain(m, host);
    if (!only(path, alnum, "/-._~%!$&'()*+,;=:"))
        add(m, "%s", path_msg);
}

static void percent(struct msgs *m, struct bh_str s)
{
    if (s.n < 2 || s.p[s.n - 1] != '%' || !only(bh_str_sub(s, 0, s.n - 1), numeric, ""))
        add(m, "%s", percent_msg);
}

/* ---- Addresses ---- */

/* A decimal of at most max; leading zeros are accepted and told. */
static bool decimal(struct bh_str s, unsigned max, unsigned *ret, bool *zeros)
{
    unsigned v = 0;

    if (!s.n)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (!numeric(s.p[i]))
            return false;
        v = v * 10 + (unsigned)(s.p[i] - '0');
        if (v > max)
            return false;
    }
    *zeros |= s.n > 1 && s.p[0] == '0';
    *ret = v;
    return true;
}

static bool parse_v4(struct bh_str s, uint8_t out[4], bool *zeros)
{
    for (int i = 0; i < 4; i++) {
        unsigned v;

        if (!s.p || !decimal(bh_str_cut(&s, '.'), 255, &v, zeros))
            return false;
        out[i] = (uint8_t)v;
    }
    return s.p == NULL;
}

static int hex_value(char c)
{
    if (numeric(c))
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Groups up to the next "::" or the end; a trailing dotted quad fills two. Returns the number of
 * bytes, or -1. */
static int parse_v6_groups(struct bh_str s, uint8_t *out, int room, bool *zeros)
{
    int n = 0;

    if (!s.n)
        return 0;
    while (s.p) {
        struct bh_str rest = s, group = bh_str_cut(&rest, ':');
        unsigned v = 0;

        if (!rest.p && bh_str_chr(group, '.', 0) >= 0)
            return n + 4 <= room && parse_v4(group, out + n, zeros) ? n + 4 : -1;
        if (group.n < 1 || group.n > 4 || n + 2 > room)
            return -1;
        for (size_t i = 0; i < group.n; i++) {
            int d = hex_value(group.p[i]);

            if (d < 0)
                return -1;
            v = v << 4 | (unsigned)d;
        }
        out[n++] = (uint8_t)(v >> 8);
        out[n++] = (uint8_t)v;
        s = rest;
    }
    return n;
}

static bool parse_v6(struct bh_str s, uint8_t out[16], bool *zeros)
{
    ptrdiff_t gap = bh_str_find(s, BH_S("::"));
    uint8_t tail[16];
    int head, n;

    if (gap < 0)
        return parse_v6_groups(s, out, 16, zeros) == 16;
    memset(out, 0, 16);
    /* A dotted quad may only end the address. */
    if (bh_str_chr(bh_str_sub(s, 0, (size_t)gap), '.', 0) >= 0)
        return false;
    head = parse_v6_groups(bh_str_sub(s, 0, (size_t)gap), out, 14, zeros);
    n = parse_v6_groups(bh_str_sub(s, (size_t)gap + 2, s.n), tail, 14, zeros);
    if (head < 0 || n < 0 || head + n > 14)
        return false;
    memcpy(out + 16 - n, tail, (size_t)n);
    return true;
}

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};

/* Accepts leading zeros in dotted quads and IPv4-mapped addresses, and tells about both. */
static bool parse_ip(struct bh_str s, struct bh_ip *ret, bool *zeros, bool *mapped)
{
    *ret = (struct bh_ip){.v6 = bh_str_chr(s, ':', 0) >= 0};
    *zeros = *mapped = false;
    if (!ret->v6)
        return parse_v4(s, ret->b, zeros);
    if (!parse_v6(s, ret->b, zeros))
        return false;
    *mapped = memcmp(ret->b, mapped_prefix, sizeof(mapped_prefix)) == 0;
    return true;
}

static bool parse_cidr(struct bh_str s, struct bh_ip *ip, unsigned *bits, bool *zeros, bool *mapped)
{
    struct bh_str len = s, addr = bh_str_cut(&len, '/');

    return len.p && parse_ip(addr, ip, zeros, mapped) &&
           decimal(len, ip->v6 ? 128 : 32, bits, zeros);
}

static bool host_bits(const struct bh_ip *ip, unsigned bits)
{
    for (unsigned i = bits; i < (ip->v6 ? 128u : 32u); i++)
        if (ip->b[i / 8] >> (7 - i % 8) & 1)
            return true;
    return false;
}

static void ip_address(struct msgs *m, struct bh_str s)
{
    struct bh_ip ip;
    bool zeros, mapped;

    if (!parse_ip(s, &ip, &zeros, &mapped)) {
        add(m, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        return;
    }
    if (zeros)
        add(m, "must not have leading 0s");
    if (mapped)
        add(m, "must not be an IPv4-mapped IPv6 address");
}

static void cidr(struct msgs *m, struct bh_str s)
{
    struct bh_ip ip;
    unsigned bits;
    bool zeros = false, mapped = false;

    if (!parse_cidr(s, &ip, &bits, &zeros, &mapped)) {
        add(m, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        return;
    }
    if (zeros)
        add(m, "must not have leading 0s in IP or prefix length");
    if (mapped)
        add(m, "must not be an IPv4-mapped IPv6 address");
    if (host_bits(&ip, bits))
        add(m, "must not have bits set beyond the prefix length");
}

bool bh_ip_parse(struct bh_str s, struct bh_ip *ret)
{
    struct bh_ip ip;
    bool zeros, mapped;

    if (!parse_ip(s, &ip, &zeros, &mapped) || zeros)
        return false;
    if (mapped) {
        memmove(ip.b, ip.b + 12, 4);
        memset(ip.b + 4, 0, 12);
        ip.v6 = false;
    }
    *ret = ip;
    return true;
}

bool bh_cidr_parse(struct bh_str s, struct bh_ip *ret_ip, unsigned *ret_bits)
{
    struct bh_ip ip;
    unsigned bits;
    bool zeros = false, mapped = false;

    if (!parse_cidr(s, &ip, &bits, &zeros, &mapped) || zeros)
        return false;
    *ret_ip = ip;
    *ret_bits = bits;
    return true;
}

/* The longest run of at least two zero groups, the first of equals, is what "::" stands for (RFC
 * 5952). */
static void zero_run(const struct bh_ip *ip, int *from, int *len)
{
    int start = 0, n = 0;

    *from = *len = 0;
    for (int i = 0; i < 8; i++) {
        if (ip->b[i * 2] || ip->b[i * 2 + 1]) {
            n = 0;
            continue;
        }
        if (n++ == 0)
            start = i;
        if (n > *len) {
            *from = start;
            *len = n;
        }
    }
    if (*len < 2)
        *from = *len = 0;
}

struct bh_str bh_ip_fmt(const struct bh_ip *ip, char *buf)
{
    int from, len, n = 0;

    if (!ip->v6) {
        n = snprintf(buf, BH_IP_BUF, "%u.%u.%u.%u", ip->b[0], ip->b[1], ip->b[2], ip->b[3]);
        return (struct bh_str){buf, (size_t)n};
    }
    if (memcmp(ip->b, mapped_prefix, sizeof(mapped_prefix)) == 0) {
        n = snprintf(buf, BH_IP_BUF, "::ffff:%u.%u.%u.%u", ip->b[12], ip->b[13], ip->b[14],
                     ip->b[15]);
        return (struct bh_str){buf, (size_t)n};
    }
    zero_run(ip, &from, &len);
    for (int i = 0; i < 8; i++) {
        if (len && i == from) {
            n += snprintf(buf + n, BH_IP_BUF - (size_t)n, "::");
            i += len - 1;
            continue;
        }
        n += snprintf(buf + n, BH_IP_BUF - (size_t)n, "%s%x", n && buf[n - 1] != ':' ? ":" : "",
                      ip->b[i * 2] << 8 | ip->b[i * 2 + 1]);
    }
    return (struct bh_str){buf, (size_t)n};
}

bool bh_ip_in_cidr(const struct bh_ip *ip, const struct bh_ip *net, unsigned bits)
{
    if (ip->v6 != net->v6)
        return false;
    for (unsigned i = 0; i < bits; i++)
        if ((ip->b[i / 8] ^ net->b[i / 8]) >> (7 - i % 8) & 1)
            return false;
    return true;
}

int bh_ip_cmp(const struct bh_ip *a, const struct bh_ip *b)
{
    int c;

    if (a->v6 != b->v6)
        return a->v6 ? 1 : -1;
    c = memcmp(a->b, b->b, a->v6 ? 16 : 4);
    return (c > 0) - (c < 0);
}

/* ---- The public forms ---- */

static const char *first(void (*check)(struct msgs *m, struct bh_str s), struct bh_str s, char *buf)
{
    struct msgs m;

    m.n = 0;
    check(&m, s);
    if (!m.n)
        return NULL;
    memcpy(buf, m.text[0], strlen(m.text[0]) + 1);
    return buf;
}

#define CHECKS(X)                                                                                  \
    X(dns1123_label)                                                                               \
    X(dns1123_subdomain)                                                                           \
    X(dns1123_subdomain_underscore)                                                                \
    X(dns1123_subdomain_caseless)                                                                  \
    X(wildcard_dns1123_subdomain)                                                                  \
    X(dns1035_label)                                                                               \
    X(qualified_name)                                                                              \
    X(label_value)                                                                                 \
    X(c_identifier)                                                                                \
    X(env_var_name)                                                                                \
    X(config_map_key)                                                                              \
    X(http_header_name)                                                                            \
    X(port_name)                                                                                   \
    X(path_segment)                                                                                \
    X(domain_prefixed_path)                                                                        \
    X(percent)                                                                                     \
    X(cidr)

#define DEFINE(name)                                                                               \
    const char *bh_check_##name(struct bh_str s, char *buf)                                        \
    {                                                                                              \
        return first(name, s, buf);                                                                \
    }
CHECKS(DEFINE)
const char *bh_check_ip(struct bh_str s, char *buf)
{
    return first(ip_address, s, buf);
}

const char *bh_check_port_number(int64_t port, char *buf)
{
    (void)buf;
    return port >= 1 && port <= 65535 ? NULL : "must be between 1 and 65535, inclusive";
}

#define ROW(name) {bh_check_##name, name},
static const struct {
    bh_name_check public_form;
    void (*check)(struct msgs *m, struct bh_str s);
} table[] = {CHECKS(ROW){bh_check_ip, ip_address}};

struct bh_str_vec bh_names_all(struct bh_arena *a, bh_name_check check, struct bh_str s)
{
    struct bh_str_vec v = {NULL, 0};
    struct msgs m;

    m.n = 0;
    for (size_t i = 0; i < BH_COUNT(table); i++)
        if (table[i].public_form == check)
            table[i].check(&m, s);
    if (!m.n)
        return v;
    v.p = bh_new_n(a, struct bh_str, m.n);
    for (; v.n < m.n; v.n++)
        v.p[v.n] = bh_str_dup(a, bh_s(m.text[v.n]));
    return v;
}
