/* The named formats: thin names over data/names.h. */
#include "api/formats.h"
#include "base/arena.h"
#include "data/codec.h"
#include "data/names.h"

static const char *check(bh_name_check fn, struct bh_str s, struct bh_arena *a)
{
    char buf[BH_NAMES_BUF];
    const char *why = fn(s, buf);

    return why == buf ? bh_str_dup(a, bh_s(buf)).p : why;
}

const char *bh_format_dnslabel(struct bh_str s, struct bh_arena *a)
{
    return check(bh_check_dns1123_label, s, a);
}

const char *bh_format_dnssubdomain(struct bh_str s, struct bh_arena *a)
{
    return check(bh_check_dns1123_subdomain, s, a);
}

const char *bh_format_dns1035label(struct bh_str s, struct bh_arena *a)
{
    return check(bh_check_dns1035_label, s, a);
}

const char *bh_format_qualifiedname(struct bh_str s, struct bh_arena *a)
{
    return check(bh_check_qualified_name, s, a);
}

const char *bh_format_labelkey(struct bh_str s, struct bh_arena *a)
{
    return check(bh_check_qualified_name, s, a);
}

const char *bh_format_labelvalue(struct bh_str s, struct bh_arena *a)
{
    return check(bh_check_label_value, s, a);
}

const char *bh_format_cidentifier(struct bh_str s, struct bh_arena *a)
{
    return check(bh_check_c_identifier, s, a);
}

const char *bh_format_envvarname(struct bh_str s, struct bh_arena *a)
{
    return check(bh_check_env_var_name, s, a);
}

const char *bh_format_configmapkey(struct bh_str s, struct bh_arena *a)
{
    return check(bh_check_config_map_key, s, a);
}

const char *bh_format_portname(struct bh_str s, struct bh_arena *a)
{
    return check(bh_check_port_name, s, a);
}

const char *bh_format_pathsegment(struct bh_str s, struct bh_arena *a)
{
    return check(bh_check_path_segment, s, a);
}

const char *bh_format_ip(struct bh_str s, struct bh_arena *a)
{
    return check(bh_check_ip, s, a);
}

const char *bh_format_cidr(struct bh_str s, struct bh_arena *a)
{
    return check(bh_check_cidr, s, a);
}

const char *bh_format_uuid(struct bh_str s, struct bh_arena *a)
{
    (void)a;
    return bh_is_uuid(s) ? NULL : "must be a lowercase UUID in 8-4-4-4-12 format";
}

const char *bh_format_name(struct bh_str s, struct bh_arena *a)
{
    (void)s;
    (void)a;
    return NULL;
}
