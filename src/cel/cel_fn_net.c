/* net.IP, net.CIDR and kubernetes.URL. */
#include "cel/cel_opaque.h"

#include <string.h>

#include "base/buf.h"

static struct bh_cel_value ip_value(struct bh_cel_run *run, uint32_t kind, const struct bh_ip *ip,
                                    unsigned bits)
{
    struct cel_ip *x = bh_new(run->a, struct cel_ip);

    x->ip = *ip;
    x->bits = bits;
    return (struct bh_cel_value){.kind = kind, .p = x};
}

static const struct cel_ip *ip_of(struct bh_cel_value v)
{
    return v.p;
}

static bool mapped(const struct bh_ip *ip)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return ip->v6 && memcmp(ip->b, prefix, sizeof(prefix)) == 0;
}

/* Looks like an IPv4-mapped address, which the parser of the data layer turns into IPv4. */
static bool mapped_text(struct bh_str s)
{
    struct bh_ip ip;

    return bh_str_chr(s, ':', 0) >= 0 && bh_ip_parse(s, &ip) && (!ip.v6 || mapped(&ip));
}

/* NULL when s is an address that the library takes; else why not. */
static const char *ip_why(struct bh_arena *a, struct bh_str s, struct bh_ip *ret)
{
    if (bh_str_chr(s, '%', 0) >= 0 && bh_str_chr(s, ':', 0) >= 0)
        return bh_str_fmt(a, "IP address \"%.*s\" with zone value is not allowed", BH_SF(s)).p;
    if (mapped_text(s))
        return bh_str_fmt(a, "IPv4-mapped IPv6 address \"%.*s\" is not allowed", BH_SF(s)).p;
    if (!bh_ip_parse(s, ret))
        return bh_str_fmt(a, "IP Address \"%.*s\" parse error during conversion from string: %.*s",
                          BH_SF(s), BH_SF(cel_ip_why(a, s)))
            .p;
    return NULL;
}

#define CIDR_ERROR "network address parse error during conversion from string: "

/* Upstream says twice what went wrong. */
static const char *cidr_why(struct bh_arena *a, struct bh_str s, struct bh_ip *ret, unsigned *bits)
{
    ptrdiff_t slash = bh_str_chr(s, '/', 0);
    struct bh_str addr = bh_str_sub(s, 0, slash < 0 ? s.n : (size_t)slash), len;
    int64_t n;

    len = bh_str_sub(s, slash < 0 ? s.n : (size_t)slash + 1, s.n);
    if (slash < 0 || !bh_ip_parse(addr, ret) || (len.n > 1 && len.p[0] == '0') ||
        !bh_str_i64(len, 0, ret->v6 || mapped_text(addr) ? 128 : 32, &n))
        return bh_str_fmt(a, CIDR_ERROR CIDR_ERROR "%.*s", BH_SF(cel_prefix_why(a, s))).p;
    if (mapped_text(addr))
        return bh_str_fmt(a, CIDR_ERROR "IPv4-mapped IPv6 address \"%.*s\" is not allowed",
                          BH_SF(s))
            .p;
    *bits = (unsigned)n;
    return NULL;
}

CEL_FN(cel_f_ip)
{
    struct bh_ip ip;
    const char *why = ip_why(run->a, bh_cel_as_str(args[0]), &ip);

    (void)n;
    return why ? bh_cel_error(run, "%s", why) : ip_value(run, BH_CEL_IP, &ip, 0);
}

CEL_FN(cel_f_is_ip)
{
    struct bh_ip ip;

    (void)n;
    return bh_cel_bool(!ip_why(run->a, bh_cel_as_str(args[0]), &ip));
}

CEL_FN(cel_f_ip_is_canonical)
{
    struct bh_ip ip;
    const char *why = ip_why(run->a, bh_cel_as_str(args[0]), &ip);
    char buf[BH_IP_BUF];

    (void)n;
    if (why)
        return bh_cel_error(run, "%s", why);
    return bh_cel_bool(bh_str_eq(bh_ip_fmt(&ip, buf), bh_cel_as_str(args[0])));
}

CEL_FN(cel_f_ip_family)
{
    (void)run;
    (void)n;
    return bh_cel_int(ip_of(args[0])->ip.v6 ? 6 : 4);
}

static bool all_zero(const struct bh_ip *ip)
{
    for (unsigned i = 0; i < (ip->v6 ? 16 : 4); i++)
        if (ip->b[i])
            return false;
    return true;
}

static bool loopback(const struct bh_ip *ip)
{
    static const uint8_t one[16] = {[15] = 1};

    return ip->v6 ? memcmp(ip->b, one, 16) == 0 : ip->b[0] == 127;
}

static bool multicast(const struct bh_ip *ip)
{
    return ip->v6 ? ip->b[0] == 0xff : (ip->b[0] & 0xf0) == 0xe0;
}

static bool ll_unicast(const struct bh_ip *ip)
{
    return ip->v6 ? ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80
                  : ip->b[0] == 169 && ip->b[1] == 254;
}

CEL_FN(cel_f_ip_is_unspecified)
{
    (void)run;
    (void)n;
    return bh_cel_bool(all_zero(&ip_of(args[0])->ip));
}

CEL_FN(cel_f_ip_is_loopback)
{
    (void)run;
    (void)n;
    return bh_cel_bool(loopback(&ip_of(args[0])->ip));
}

CEL_FN(cel_f_ip_is_ll_multicast)
{
    const struct bh_ip *ip = &ip_of(args[0])->ip;

    (void)run;
    (void)n;
    return bh_cel_bool(ip->v6 ? ip->b[0] == 0xff && (ip->b[1] & 0x0f) == 2
                              : ip->b[0] == 224 && ip->b[1] == 0 && ip->b[2] == 0);
}

CEL_FN(cel_f_ip_is_ll_unicast)
{
    (void)run;
    (void)n;
    return bh_cel_bool(ll_unicast(&ip_of(args[0])->ip));
}

CEL_FN(cel_f_ip_is_global)
{
    const struct bh_ip *ip = &ip_of(args[0])->ip;
    bool broadcast = !ip->v6 && memcmp(ip->b, "\xff\xff\xff\xff", 4) == 0;

    (void)run;
    (void)n;
    return bh_cel_bool(!all_zero(ip) && !broadcast && !loopback(ip) && !multicast(ip) &&
                       !ll_unicast(ip));
}

CEL_FN(cel_f_cidr)
{
    struct bh_ip ip;
    unsigned bits = 0;
    const char *why = cidr_why(run->a, bh_cel_as_str(args[0]), &ip, &bits);

    (void)n;
    return why ? bh_cel_error(run, "%s", why) : ip_value(run, BH_CEL_CIDR, &ip, bits);
}

CEL_FN(cel_f_is_cidr)
{
    struct bh_ip ip;
    unsigned bits = 0;

    (void)n;
    return bh_cel_bool(!cidr_why(run->a, bh_cel_as_str(args[0]), &ip, &bits));
}

CEL_FN(cel_f_cidr_ip)
{
    (void)n;
    return ip_value(run, BH_CEL_IP, &ip_of(args[0])->ip, 0);
}

CEL_FN(cel_f_cidr_masked)
{
    struct bh_ip ip = ip_of(args[0])->ip;
    unsigned bits = ip_of(args[0])->bits;

    (void)n;
    for (unsigned i = 0; i < 16; i++) {
        unsigned keep = bits > i * 8 ? bits - i * 8 : 0;

        if (keep < 8)
            ip.b[i] &= (uint8_t)(0xff00u >> keep);
    }
    return ip_value(run, BH_CEL_CIDR, &ip, bits);
}

CEL_FN(cel_f_cidr_prefix_length)
{
    (void)run;
    (void)n;
    return bh_cel_int(ip_of(args[0])->bits);
}

static bool inside(const struct bh_ip *ip, const struct cel_ip *net)
{
    if (ip->v6 != net->ip.v6)
        return false;
    for (unsigned i = 0; i < net->bits; i++)
        if ((ip->b[i / 8] ^ net->ip.b[i / 8]) & (0x80u >> i % 8))
            return false;
    return true;
}

CEL_FN(cel_f_cidr_contains_ip)
{
    struct bh_ip ip;

    (void)n;
    if (args[1].kind == BH_CEL_IP)
        ip = ip_of(args[1])->ip;
    else if (ip_why(run->a, bh_cel_as_str(args[1]), &ip))
        return cel_err_overload(run);
    return bh_cel_bool(inside(&ip, ip_of(args[0])));
}

CEL_FN(cel_f_cidr_contains_cidr)
{
    struct bh_ip ip;
    unsigned bits = 0;
    const char *why;

    (void)n;
    if (args[1].kind == BH_CEL_CIDR) {
        ip = ip_of(args[1])->ip;
        bits = ip_of(args[1])->bits;
    } else {
        why = cidr_why(run->a, bh_cel_as_str(args[1]), &ip, &bits);
        if (why)
            return bh_cel_error(run, "%s", why);
    }
    return bh_cel_bool(bits >= ip_of(args[0])->bits && inside(&ip, ip_of(args[0])));
}

/* ---- URLs: Go's net/url
 * --------------------------------------------------------------------------------------------------
 */

enum mode { M_HOST, M_PATH, M_FRAGMENT, M_USER };

static bool alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool should_escape(char c, enum mode m)
{
    if (alnum(c) || c == '-' || c == '_' || c == '.' || c == '~')
        return false;
    if (m == M_HOST && c && strchr("!$&'()*+,;=:[]<>\"", c))
        return false;
    if (c && strchr("$&+,/:;=?@", c))
        return m == M_PATH ? c == '?' : m == M_USER ? strchr("@/?:", c) != NULL : m == M_HOST;
    if (m == M_FRAGMENT && c && strchr("!()*", c))
        return false;
    return true;
}

static bool unescape(struct bh_arena *a, struct bh_str s, enum mode m, struct bh_str *ret,
                     struct bh_str *why)
{
    char *out = bh_arena_alloc(a, s.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '%') {
            if (i + 2 >= s.n || hex(s.p[i + 1]) < 0 || hex(s.p[i + 2]) < 0) {
                *why = bh_str_fmt(a, "invalid URL escape \"%.*s\"", BH_SF(bh_str_sub(s, i, i + 3)));
                return false;
            }
            if (m == M_HOST && hex(s.p[i + 1]) < 8 && !bh_str_eqc(bh_str_sub(s, i, i + 3), "%25")) {
                *why = bh_str_fmt(a, "invalid URL escape \"%.*s\"", BH_SF(bh_str_sub(s, i, i + 3)));
                return false;
            }
            out[n++] = (char)(hex(s.p[i + 1]) * 16 + hex(s.p[i + 2]));
            i += 2;
            continue;
        }
        if (m == M_HOST && (uint8_t)s.p[i] < 0x80 && should_escape(s.p[i], m)) {
            *why = bh_str_fmt(a, "invalid character \"%c\" in host name", s.p[i]);
            return false;
        }
        out[n++] = s.p[i];
    }
    *ret = (struct bh_str){out, n};
    return true;
}

static struct bh_str escape(struct bh_arena *a, struct bh_str s, enum mode m)
{
    char *out = bh_arena_alloc(a, s.n * 3 + 1);
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (should_escape(s.p[i], m)) {
            out[n++] = '%';
            out[n++] = "0123456789ABCDEF"[(uint8_t)s.p[i] >> 4];
            out[n++] = "0123456789ABCDEF"[(uint8_t)s.p[i] & 15];
        } else {
            out[n++] = s.p[i];
        }
    }
    return (struct bh_str){out, n};
}

static bool valid_port(struct bh_str p)
{
    if (p.n == 0)
        return true;
    if (p.p[0] != ':')
        return false;
    for (size_t i = 1; i < p.n; i++)
        if (p.p[i] < '0' || p.p[i] > '9')
            return false;
    return true;
}

static ptrdiff_t last(struct bh_str s, char c)
{
    for (size_t i = s.n; i > 0; i--)
        if (s.p[i - 1] == c)
            return (ptrdiff_t)i - 1;
    return -1;
}

static bool parse_host(struct bh_arena *a, struct bh_str host, struct cel_url *u,
                       struct bh_str *why)
{
    ptrdiff_t i;
    struct bh_ip ip;

    if (host.n > 0 && host.p[0] == '[') {
        struct bh_str in;
        ptrdiff_t zone;

        i = last(host, ']');
        if (i < 0) {
            *why = BH_S("missing ']' in host");
            return false;
        }
        if (!valid_port(bh_str_sub(host, (size_t)i + 1, host.n))) {
            *why = bh_str_fmt(a, "invalid port \"%.*s\" after host",
                              BH_SF(bh_str_sub(host, (size_t)i + 1, host.n)));
            return false;
        }
        in = bh_str_sub(host, 1, (size_t)i);
        zone = bh_str_find(in, BH_S("%25"));
        if (zone >= 0)
            in = bh_str_sub(in, 0, (size_t)zone);
        if (bh_str_chr(in, ':', 0) < 0 || !bh_ip_parse(in, &ip)) {
            *why = BH_S("invalid host");
            return false;
        }
        if (zone >= 0) {
            u->host = host;
            return true;
        }
    } else if ((i = last(host, ':')) >= 0) {
        if (!valid_port(bh_str_sub(host, (size_t)i, host.n))) {
            *why = bh_str_fmt(a, "invalid port \"%.*s\" after host",
                              BH_SF(bh_str_sub(host, (size_t)i, host.n)));
            return false;
        }
        if (bh_str_chr(bh_str_sub(host, 0, (size_t)i), ':', 0) >= 0) {
            *why = BH_S("invalid host: too many colons");
            return false;
        }
    }
    return unescape(a, host, M_HOST, &u->host, why);
}

static bool parse_authority(struct bh_arena *a, struct bh_str s, struct cel_url *u,
                            struct bh_str *why)
{
    ptrdiff_t i = last(s, '@');
    struct bh_str user, x;

    if (!parse_host(a, bh_str_sub(s, (size_t)(i + 1), s.n), u, why))
        return false;
    if (i < 0)
        return true;
    user = bh_str_sub(s, 0, (size_t)i);
    for (size_t k = 0; k < user.n; k++)
        if (!alnum(user.p[k]) && !strchr("-._:~!$&'()*+,;=%@", user.p[k])) {
            *why = BH_S("net/url: invalid userinfo");
            return false;
        }
    u->has_user = true;
    u->user = user;
    return unescape(a, user, M_USER, &x, why);
}

/* Go's getScheme: 1 found, 0 none, -1 a colon at the start. */
static int cut_scheme(struct bh_str s, struct bh_str *scheme, struct bh_str *rest)
{
    *rest = s;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
            continue;
        if ((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.') {
            if (i == 0)
                return 0;
            continue;
        }
        if (c != ':')
            return 0;
        if (i == 0)
            return -1;
        *scheme = bh_str_sub(s, 0, i);
        *rest = bh_str_sub(s, i + 1, s.n);
        return 1;
    }
    return 0;
}

static struct bh_str lower(struct bh_arena *a, struct bh_str s)
{
    char *p = bh_arena_memdup(a, s.p, s.n);

    for (size_t i = 0; i < s.n; i++)
        if (p[i] >= 'A' && p[i] <= 'Z')
            p[i] |= 0x20;
    return (struct bh_str){p, s.n};
}

/* One pass of Go's url.parse(). */
static bool parse_once(struct bh_arena *a, struct bh_str s, bool request, struct cel_url *u,
                       struct bh_str *why)
{
    struct bh_str rest, path;
    ptrdiff_t i;
    int r;

    for (size_t k = 0; k < s.n; k++)
        if ((uint8_t)s.p[k] < 0x20 || s.p[k] == 0x7f) {
            *why = BH_S("net/url: invalid control character in URL");
            return false;
        }
    if (s.n == 0 && request) {
        *why = BH_S("empty url");
        return false;
    }
    if (bh_str_eqc(s, "*")) {
        u->path = s;
        return true;
    }
    r = cut_scheme(s, &u->scheme, &rest);
    if (r < 0) {
        *why = BH_S("missing protocol scheme");
        return false;
    }
    u->scheme = lower(a, u->scheme);
    i = bh_str_chr(rest, '?', 0);
    if (i >= 0) {
        u->force_query = (size_t)i + 1 == rest.n;
        u->query = bh_str_sub(rest, (size_t)i + 1, rest.n);
        rest = bh_str_sub(rest, 0, (size_t)i);
    }
    if (!bh_str_starts(rest, BH_S("/"))) {
        if (u->scheme.n) {
            u->opaque = rest;
            return true;
        }
        if (request) {
            *why = BH_S("invalid URI for request");
            return false;
        }
    }
    path = rest;
    if ((u->scheme.n || (!request && !bh_str_starts(rest, BH_S("///")))) &&
        bh_str_starts(rest, BH_S("//"))) {
        i = bh_str_chr(rest, '/', 2);
        path = i < 0 ? BH_S("") : bh_str_sub(rest, (size_t)i, rest.n);
        if (!parse_authority(a, bh_str_sub(rest, 2, i < 0 ? rest.n : (size_t)i), u, why))
            return false;
    }
    if (!unescape(a, path, M_PATH, &u->path, why))
        return false;
    u->raw_path = bh_str_eq(escape(a, u->path, M_PATH), path) ? BH_S("") : path;
    return true;
}

bool cel_url_parse(struct bh_arena *a, struct bh_str s, struct cel_url *ret, struct bh_str *ret_why)
{
    struct cel_url first = {0};
    ptrdiff_t hash = bh_str_chr(s, '#', 0);
    struct bh_str why = BH_S("");
    bool ok;

    memset(ret, 0, sizeof(*ret));
    ok = parse_once(a, s, true, &first, &why) &&
         parse_once(a, hash < 0 ? s : bh_str_sub(s, 0, (size_t)hash), false, ret, &why) &&
         (hash < 0 ||
          unescape(a, bh_str_sub(s, (size_t)hash + 1, s.n), M_FRAGMENT, &ret->fragment, &why));
    if (!ok && ret_why)
        *ret_why = bh_str_fmt(a, "parse \"%.*s\": %.*s", BH_SF(s), BH_SF(why));
    return ok;
}

static struct bh_str escaped_path(struct bh_arena *a, const struct cel_url *u)
{
    if (u->raw_path.n) {
        bool ok = true;

        for (size_t i = 0; i < u->raw_path.n && ok; i++) {
            char c = u->raw_path.p[i];

            ok = (c && strchr("!$&'()*+,;=:@[]%", c)) || !should_escape(c, M_PATH);
        }
        if (ok)
            return u->raw_path;
    }
    if (bh_str_eqc(u->path, "*"))
        return u->path;
    return escape(a, u->path, M_PATH);
}

struct bh_str cel_url_text(struct bh_arena *a, const struct cel_url *u)
{
    BH_AUTO_BUF b = {.max = 16 << 20};

    if (u->scheme.n)
        bh_buf_addf(&b, "%.*s:", BH_SF(u->scheme));
    if (u->opaque.n) {
        bh_buf_adds(&b, u->opaque);
    } else {
        if (u->scheme.n || u->host.n || u->has_user)
            if (u->host.n || u->path.n || u->has_user)
                bh_buf_addz(&b, u->host.n || u->has_user || u->scheme.n ? "//" : "");
        if (u->has_user)
            bh_buf_addf(&b, "%.*s@", BH_SF(u->user));
        bh_buf_adds(&b, escape(a, u->host, M_HOST));
        bh_buf_adds(&b, escaped_path(a, u));
    }
    if (u->force_query || u->query.n)
        bh_buf_addf(&b, "?%.*s", BH_SF(u->query));
    if (u->fragment.n)
        bh_buf_addf(&b, "#%.*s", BH_SF(escape(a, u->fragment, M_FRAGMENT)));
    return bh_str_dup(a, bh_buf_str(&b));
}

CEL_FN(cel_f_url)
{
    struct cel_url *u = bh_new(run->a, struct cel_url);
    struct bh_str why;

    (void)n;
    if (!cel_url_parse(run->a, bh_cel_as_str(args[0]), u, &why))
        return bh_cel_error(run, "URL parse error during conversion from string: %.*s", BH_SF(why));
    return (struct bh_cel_value){.kind = BH_CEL_URL, .p = u};
}

CEL_FN(cel_f_is_url)
{
    struct cel_url u;

    (void)n;
    return bh_cel_bool(cel_url_parse(run->a, bh_cel_as_str(args[0]), &u, NULL));
}

CEL_FN(cel_f_url_scheme)
{
    (void)run;
    (void)n;
    return bh_cel_str(((const struct cel_url *)args[0].p)->scheme);
}

CEL_FN(cel_f_url_host)
{
    (void)run;
    (void)n;
    return bh_cel_str(((const struct cel_url *)args[0].p)->host);
}

/* host into name and port, brackets off. */
static void split_host(struct bh_str host, struct bh_str *name, struct bh_str *port)
{
    ptrdiff_t colon = last(host, ':'), close = last(host, ']');

    *port = BH_S("");
    if (colon >= 0 && colon > close && valid_port(bh_str_sub(host, (size_t)colon, host.n))) {
        *port = bh_str_sub(host, (size_t)colon + 1, host.n);
        host = bh_str_sub(host, 0, (size_t)colon);
    }
    if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
        host = bh_str_sub(host, 1, host.n - 1);
    *name = host;
}

CEL_FN(cel_f_url_hostname)
{
    struct bh_str name, port;

    (void)run;
    (void)n;
    split_host(((const struct cel_url *)args[0].p)->host, &name, &port);
    return bh_cel_str(name);
}

CEL_FN(cel_f_url_port)
{
    struct bh_str name, port;

    (void)run;
    (void)n;
    split_host(((const struct cel_url *)args[0].p)->host, &name, &port);
    return bh_cel_str(port);
}

CEL_FN(cel_f_url_path)
{
    (void)n;
    return bh_cel_str(escaped_path(run->a, args[0].p));
}

CEL_FN(cel_f_url_query)
{
    struct bh_str q = ((const struct cel_url *)args[0].p)->query;
    struct bh_cel_value *k = NULL, *v = NULL;
    struct cel_list_builder *lists = NULL;
    size_t kcap = 0, lcap = 0, m = 0;

    (void)n;
    while (q.p && q.n) {
        struct bh_str part = bh_str_cut(&q, '&'), key, val = BH_S("");
        ptrdiff_t eq = bh_str_chr(part, '=', 0);
        size_t i;

        if (part.n == 0 || bh_str_chr(part, ';', 0) >= 0)
            continue;
        if (bh_url_decode(run->a, eq < 0 ? part : bh_str_sub(part, 0, (size_t)eq), true, &key,
                          NULL) < 0 ||
            (eq >= 0 &&
             bh_url_decode(run->a, bh_str_sub(part, (size_t)eq + 1, part.n), true, &val, NULL) < 0))
            continue;
        for (i = 0; i < m && !bh_str_eq(bh_cel_as_str(k[i]), key); i++)
            ;
        if (i == m) {
            bh_arena_grow(run->a, &k, &kcap, m + 1, sizeof(*k));
            bh_arena_grow(run->a, &lists, &lcap, m + 1, sizeof(*lists));
            k[m] = bh_cel_str(key);
            lists[m++] = (struct cel_list_builder){0};
        }
        cel_list_add(run->a, &lists[i], bh_cel_str(val));
    }
    v = bh_new_n(run->a, struct bh_cel_value, m);
    for (size_t i = 0; i < m; i++)
        v[i] = cel_list_done(run->a, &lists[i]);
    return cel_map_done(run->a, k, v, m);
}
