/* Why a text is no address, in the words of the parser that upstream uses. */
#include "cel/cel_opaque.h"

#include <string.h>

#define GROUPS 8u

static struct bh_str fault(struct bh_arena *a, struct bh_str in, const char *why, struct bh_str at)
{
    if (at.n)
        return bh_str_fmt(a, "ParseAddr(\"%.*s\"): %s (at \"%.*s\")", BH_SF(in), why, BH_SF(at));
    return bh_str_fmt(a, "ParseAddr(\"%.*s\"): %s", BH_SF(in), why);
}

static struct bh_str rest(struct bh_str s, size_t from)
{
    return bh_str_sub(s, from, s.n);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex(char c)
{
    if (is_digit(c))
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

/* Four octets in s, which is the end of in. Empty when nothing is wrong with them. */
static struct bh_str v4_why(struct bh_arena *a, struct bh_str in, struct bh_str s)
{
    static const struct bh_str nowhere = {NULL, 0};
    unsigned octets = 0, value = 0, digits = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (is_digit(s.p[i])) {
            if (digits == 1 && value == 0)
                return fault(a, in, "IPv4 field has octet with leading zero", nowhere);
            value = value * 10 + (unsigned)(s.p[i] - '0');
            digits++;
            if (value > 255)
                return fault(a, in, "IPv4 field has value >255", nowhere);
            continue;
        }
        if (s.p[i] != '.')
            return fault(a, in, "unexpected character", rest(s, i));
        if (digits == 0 || i + 1 == s.n)
            return fault(a, in, "IPv4 field must have at least one digit", rest(s, i));
        if (++octets == 4)
            return fault(a, in, "IPv4 address too long", nowhere);
        value = digits = 0;
    }
    return octets < 3 ? fault(a, in, "IPv4 address too short", nowhere) : nowhere;
}

/* What is wrong with the group at the start of s; *ret_n: how many digits it has. */
static const char *group_why(struct bh_str s, size_t *ret_n)
{
    size_t n = 0;

    while (n < s.n && hex(s.p[n]) >= 0)
        if (n++ > 3)
            return "each group must have 4 or less digits";
    *ret_n = n;
    return n ? NULL : "each colon-separated field must have at least one digit";
}

static struct bh_str v6_why(struct bh_arena *a, struct bh_str in)
{
    static const struct bh_str nowhere = {NULL, 0};
    ptrdiff_t zone = bh_str_chr(in, '%', 0);
    struct bh_str s = zone < 0 ? in : bh_str_sub(in, 0, (size_t)zone);
    bool gap = bh_str_starts(s, BH_S("::"));
    unsigned groups = 0;

    if (zone >= 0 && (size_t)zone + 1 == in.n)
        return fault(a, in, "zone must be a non-empty string", nowhere);
    if (gap)
        s = rest(s, 2);
    while (s.n && groups < GROUPS) {
        size_t n = 0;
        const char *why = group_why(s, &n);

        if (why)
            return fault(a, in, why, s);
        if (n < s.n && s.p[n] == '.') {
            if (!gap && groups != GROUPS - 2)
                return fault(a, in,
                             "embedded IPv4 address must replace the final 2 fields of the address",
                             s);
            if (groups > GROUPS - 2)
                return fault(
                    a, in, "too many hex fields to fit an embedded IPv4 at the end of the address",
                    s);
            return v4_why(a, in, s);
        }
        groups++;
        s = rest(s, n);
        if (s.n == 0)
            break;
        if (s.p[0] != ':')
            return fault(a, in, "unexpected character, want colon", s);
        if (s.n == 1)
            return fault(a, in, "colon must be followed by more characters", s);
        s = rest(s, 1);
        if (s.p[0] != ':')
            continue;
        if (gap)
            return fault(a, in, "multiple :: in address", s);
        gap = true;
        s = rest(s, 1);
    }
    if (s.n)
        return fault(a, in, "trailing garbage after address", s);
    if (groups < GROUPS)
        return fault(a, in, gap ? "unable to parse IP" : "address string too short", nowhere);
    return fault(a, in, "the :: must expand to at least one field of zeros", nowhere);
}

struct bh_str cel_ip_why(struct bh_arena *a, struct bh_str in)
{
    for (size_t i = 0; i < in.n; i++) {
        if (in.p[i] == '.')
            return v4_why(a, in, in);
        if (in.p[i] == ':')
            return v6_why(a, in);
        if (in.p[i] == '%')
            return fault(a, in, "missing IPv6 address", (struct bh_str){NULL, 0});
    }
    return fault(a, in, "unable to parse IP", (struct bh_str){NULL, 0});
}

struct bh_str cel_prefix_why(struct bh_arena *a, struct bh_str s)
{
    size_t slash = s.n;
    struct bh_str addr, bits, why;
    struct bh_ip ip;
    int64_t n;

    while (slash > 0 && s.p[slash - 1] != '/')
        slash--;
    if (slash == 0)
        return bh_str_fmt(a, "netip.ParsePrefix(\"%.*s\"): no '/'", BH_SF(s));
    addr = bh_str_sub(s, 0, slash - 1);
    bits = rest(s, slash);
    if (!bh_ip_parse(addr, &ip)) {
        why = cel_ip_why(a, addr);
        if (bh_str_chr(addr, '%', 0) >= 0 && bh_str_chr(addr, ':', 0) >= 0)
            why = BH_S("IPv6 zones cannot be present in a prefix");
        return bh_str_fmt(a, "netip.ParsePrefix(\"%.*s\"): %.*s", BH_SF(s), BH_SF(why));
    }
    if ((bits.n > 1 && (bits.p[0] < '1' || bits.p[0] > '9')) || !bh_str_i64(bits, 0, INT64_MAX, &n))
        return bh_str_fmt(a, "netip.ParsePrefix(\"%.*s\"): bad bits after slash: \"%.*s\"",
                          BH_SF(s), BH_SF(bits));
    return bh_str_fmt(a, "netip.ParsePrefix(\"%.*s\"): prefix length out of range", BH_SF(s));
}
