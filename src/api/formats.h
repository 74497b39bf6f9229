/* Named string formats: format=NAME in the schema. Each returns NULL when s fits, else upstream's
 * detail text.
 *
 * a is for texts that have to be built; many are static. Thread: any.
 */
#ifndef BH_API_FORMATS_H
#define BH_API_FORMATS_H

#include "base/str.h"

struct bh_arena;

const char *bh_format_dnslabel(struct bh_str s, struct bh_arena *a);      /* RFC 1123 label */
const char *bh_format_dnssubdomain(struct bh_str s, struct bh_arena *a);  /* RFC 1123 subdomain */
const char *bh_format_dns1035label(struct bh_str s, struct bh_arena *a);  /* RFC 1035 label */
const char *bh_format_qualifiedname(struct bh_str s, struct bh_arena *a); /* prefix/name */
const char *bh_format_labelkey(struct bh_str s, struct bh_arena *a);      /* the same */
const char *bh_format_labelvalue(struct bh_str s, struct bh_arena *a);
const char *bh_format_cidentifier(struct bh_str s, struct bh_arena *a);
const char *bh_format_envvarname(struct bh_str s, struct bh_arena *a);
const char *bh_format_configmapkey(struct bh_str s, struct bh_arena *a);
const char *bh_format_portname(struct bh_str s,
                               struct bh_arena *a); /* IANA service name, 15 bytes */
const char *bh_format_uuid(struct bh_str s, struct bh_arena *a);
const char *bh_format_ip(struct bh_str s, struct bh_arena *a); /* IPv4 or IPv6 */
const char *bh_format_cidr(struct bh_str s, struct bh_arena *a);
const char *bh_format_pathsegment(struct bh_str s, struct bh_arena *a);
const char *bh_format_name(struct bh_str s,
                           struct bh_arena *a); /* "name" for printing only: always fits */

#endif
