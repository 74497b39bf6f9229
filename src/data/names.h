/* The forms of names, with upstream's error texts.
 *
 * Each check returns NULL when s is well-formed and else a message: static text, or text written
 * into the caller's buf of BH_NAMES_BUF bytes. Where upstream reports several faults of one value,
 * the check returns the first; bh_names_all() gives all of them. Thread: any.
 */
#ifndef BH_DATA_NAMES_H
#define BH_DATA_NAMES_H

#include "base/str.h"

struct bh_arena;

#define BH_NAMES_BUF 512

const char *bh_check_dns1123_label(struct bh_str s, char *buf);
const char *bh_check_dns1123_subdomain(struct bh_str s, char *buf);
const char *bh_check_dns1035_label(struct bh_str s, char *buf);
const char *bh_check_wildcard_dns1123_subdomain(struct bh_str s, char *buf);
const char *bh_check_dns1123_subdomain_underscore(struct bh_str s, char *buf);
const char *bh_check_dns1123_subdomain_caseless(struct bh_str s, char *buf);
const char *bh_check_qualified_name(struct bh_str s,
                                    char *buf); /* label and annotation keys, resource names */
const char *bh_check_label_value(struct bh_str s, char *buf);
const char *bh_check_c_identifier(struct bh_str s, char *buf);
const char *bh_check_env_var_name(struct bh_str s,
                                  char *buf); /* relaxed: any printable ASCII but '=' */
const char *bh_check_config_map_key(struct bh_str s, char *buf);
const char *bh_check_http_header_name(struct bh_str s, char *buf);
const char *bh_check_port_name(struct bh_str s, char *buf);
const char *bh_check_port_number(int64_t port, char *buf);
const char *bh_check_path_segment(struct bh_str s,
                                  char *buf); /* names in URLs: no '/', '%', "." or ".." */
const char *bh_check_domain_prefixed_path(struct bh_str s, char *buf); /* "example.com/path" */
const char *bh_check_percent(struct bh_str s, char *buf);              /* "5%" */
const char *bh_check_ip(struct bh_str s,
                        char *buf); /* as upstream's strict-enough parser: no leading zeros */
const char *bh_check_cidr(struct bh_str s, char *buf);

typedef const char *(*bh_name_check)(struct bh_str s, char *buf);
/* Every message upstream gives for s under this check, in its order; n == 0 when it is well-formed.
 */
struct bh_str_vec bh_names_all(struct bh_arena *a, bh_name_check check, struct bh_str s);

/* IP addresses and networks as numbers: 4-byte addresses are kept as IPv4. */
struct bh_ip {
    uint8_t b[16];
    bool v6;
};
/* No leading zeros, no zone; IPv4-mapped IPv6 counts as IPv4 when mapped_ok. */
bool bh_ip_parse(struct bh_str s, struct bh_ip *ret);
bool bh_cidr_parse(struct bh_str s, struct bh_ip *ret_ip, unsigned *ret_bits);
#define BH_IP_BUF 48
struct bh_str bh_ip_fmt(const struct bh_ip *ip, char *buf); /* canonical (RFC 5952) */
bool bh_ip_in_cidr(const struct bh_ip *ip, const struct bh_ip *net, unsigned bits);
int bh_ip_cmp(const struct bh_ip *a, const struct bh_ip *b); /* IPv4 before IPv6 */

#endif
