/* Tests of the forms of names, addresses and selectors. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/test.h"
#include "data/names.h"
#include "data/selector.h"

static char longname[300];

static struct bh_str xs(size_t n)
{
    memset(longname, 'x', sizeof(longname));
    return (struct bh_str){longname, n};
}

BH_TEST(names_forms)
{
    static const struct {
        bh_name_check check;
        const char *s;
        bool ok;
    } t[] = {
        {bh_check_dns1123_label, "a-b1", true},
        {bh_check_dns1123_label, "-a", false},
        {bh_check_dns1123_label, "a.b", false},
        {bh_check_dns1123_label, "A", false},
        {bh_check_dns1123_label, "", false},
        {bh_check_dns1123_subdomain, "a.b-c.1", true},
        {bh_check_dns1123_subdomain, "a..b", false},
        {bh_check_dns1123_subdomain, "a.", false},
        {bh_check_dns1123_subdomain, ".a", false},
        {bh_check_dns1123_subdomain, "a.-b", false},
        {bh_check_dns1035_label, "a1", true},
        {bh_check_dns1035_label, "1a", false},
        {bh_check_wildcard_dns1123_subdomain, "*.a.b", true},
        {bh_check_wildcard_dns1123_subdomain, "*", false},
        {bh_check_dns1123_subdomain_underscore, "_a.b_c", true},
        {bh_check_dns1123_subdomain_underscore, "a_", false},
        {bh_check_dns1123_subdomain_caseless, "Example.com", true},
        {bh_check_qualified_name, "a.b/C_d", true},
        {bh_check_qualified_name, "C_d", true},
        {bh_check_qualified_name, "/a", false},
        {bh_check_qualified_name, "a/", false},
        {bh_check_qualified_name, "a/b/c", false},
        {bh_check_qualified_name, "A/b", false},
        {bh_check_qualified_name, "a b", false},
        {bh_check_label_value, "", true},
        {bh_check_label_value, "A.b_c-1", true},
        {bh_check_label_value, "a-", false},
        {bh_check_c_identifier, "_a1", true},
        {bh_check_c_identifier, "1a", false},
        {bh_check_env_var_name, "a b.c", true},
        {bh_check_env_var_name, "a=b", false},
        {bh_check_env_var_name, "", false},
        {bh_check_config_map_key, "a..b", true},
        {bh_check_config_map_key, "..", false},
        {bh_check_config_map_key, "..a", false},
        {bh_check_config_map_key, "a/b", false},
        {bh_check_http_header_name, "X-A", true},
        {bh_check_http_header_name, "X_A", false},
        {bh_check_port_name, "http-1", true},
        {bh_check_port_name, "1-2", false},
        {bh_check_port_name, "a--b", false},
        {bh_check_port_name, "a-", false},
        {bh_check_path_segment, "a:b", true},
        {bh_check_path_segment, "..", false},
        {bh_check_path_segment, "a/b", false},
        {bh_check_path_segment, "a%b", false},
        {bh_check_domain_prefixed_path, "a.b/c/D", true},
        {bh_check_domain_prefixed_path, "a.b", false},
        {bh_check_percent, "93%", true},
        {bh_check_percent, "%", false},
        {bh_check_ip, "10.0.0.1", true},
        {bh_check_ip, "010.0.0.1", false},
        {bh_check_ip, "1.2.3", false},
        {bh_check_ip, "::1", true},
        {bh_check_ip, "::ffff:1.2.3.4", false},
        {bh_check_ip, "1::2::3", false},
        {bh_check_ip, "fe80::1%eth0", false},
        {bh_check_ip, "1:2:3:4:5:6:7:8", true},
        {bh_check_ip, "1:2:3:4:5:6:7", false},
        {bh_check_ip, "1:2:3:4:5:6:7:8:9", false},
        {bh_check_ip, "::12345", false},
        {bh_check_ip, "1.2.3.256", false},
        {bh_check_ip, "1.2.3.4::", false},
        {bh_check_ip, ":1", false},
        {bh_check_ip, "1:", false},
        {bh_check_ip, "", false},
        {bh_check_cidr, "10.0.0.0/8", true},
        {bh_check_cidr, "10.0.0.1/8", false},
        {bh_check_cidr, "10.0.0.0/33", false},
        {bh_check_cidr, "2001:db8::/64", true},
        {bh_check_cidr, "10.0.0.0", false},
        {bh_check_cidr, "10.0.0.0/08", false},
    };
    char buf[BH_NAMES_BUF];

    for (size_t i = 0; i < BH_COUNT(t); i++)
        if ((t[i].check(bh_s(t[i].s), buf) == NULL) != t[i].ok)
            bh_test_fail(__FILE__, __LINE__, "case %zu \"%s\" should be %s", i, t[i].s,
                         t[i].ok ? "good" : "bad");
    BH_STREQ(bh_s(bh_check_dns1123_label(xs(64), buf)), "must be no more than 63 characters");
    BH_STREQ(bh_s(bh_check_dns1123_label(BH_S("a.b"), buf)), "must not contain dots");
    BH_STREQ(bh_s(bh_check_label_value(xs(64), buf)), "must be no more than 63 bytes");
    BH_STREQ(bh_s(bh_check_qualified_name(xs(64), buf)), "name part must be no more than 63 bytes");
    BH_STREQ(bh_s(bh_check_ip(BH_S("010.0.0.1"), buf)), "must not have leading 0s");
    BH_STREQ(bh_s(bh_check_port_number(0, buf)), "must be between 1 and 65535, inclusive");
    BH_STREQ(bh_s(bh_check_dns1123_label(BH_S("A"), buf)),
             "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or "
             "'-', and must start and end "
             "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
             "validation is "
             "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')");
}

BH_TEST(names_all_faults)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str_vec v = bh_names_all(a, bh_check_qualified_name, BH_S("/"));

    BH_EQ(v.n, 3);
    BH_STREQ(v.p[0], "prefix part must be non-empty");
    BH_STREQ(v.p[1], "name part must be non-empty");
    BH_EQ(bh_names_all(a, bh_check_ip, BH_S("1.2.3.4")).n, 0);
}

BH_TEST(names_addresses_print_canonically)
{
    static const struct {
        const char *in, *want;
    } t[] = {
        {"10.0.0.1", "10.0.0.1"},
        {"::", "::"},
        {"::1", "::1"},
        {"1::", "1::"},
        {"2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
        {"1:0:2:0:3:0:4:0", "1:0:2:0:3:0:4:0"},
        {"0:0:1:0:0:0:0:1", "0:0:1::1"},
        {"::ffff:1.2.3.4", "1.2.3.4"},
        {"64:ff9b::1.2.3.4", "64:ff9b::102:304"},
        {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"},
    };
    char buf[BH_IP_BUF];
    struct bh_ip ip, net, other;
    unsigned bits = 0;

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_CHECK(bh_ip_parse(bh_s(t[i].in), &ip));
        BH_STREQ(bh_ip_fmt(&ip, buf), t[i].want);
    }
    BH_CHECK(bh_cidr_parse(BH_S("10.96.0.0/16"), &net, &bits) && bits == 16);
    BH_CHECK(bh_ip_parse(BH_S("10.96.255.1"), &ip) && bh_ip_in_cidr(&ip, &net, bits));
    BH_CHECK(bh_ip_parse(BH_S("10.97.0.1"), &other) && !bh_ip_in_cidr(&other, &net, bits));
    BH_EQ(bh_ip_cmp(&ip, &other), -1);
}

BH_TEST(label_selectors_parse_and_print)
{
    static const struct {
        const char *in, *want;
    } t[] = {
        {"", ""},
        {"a", "a"},
        {"!a", "!a"},
        {"a=b", "a=b"},
        {"a==b", "a==b"},
        {"a!=b", "a!=b"},
        {" x in ( b , a,a ) ", "x in (a,b)"},
        {"x notin (a)", "x notin (a)"},
        {"b=1,a=2", "a=2,b=1"},
        {"a=", "a="},
        {"a=,b", "a=,b"},
        {"x in (,)", "x in ()"},
        {"x in ()", "x in ()"},
        {"x in (a,)", "x in (,a)"},
        {"a>5,b<3", "a>5,b<3"},
        {"in in (in)", "in in (in)"},
        {"a.b/c=d", "a.b/c=d"},
        {"! a", "!a"},
        {"notin", "notin"},
    };
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct bh_label_selector s = {0};
        struct bh_err e = {0};

        BH_EQ(bh_label_selector_parse(a, bh_s(t[i].in), &s, &e), 0);
        BH_STREQ(bh_label_selector_str(a, &s), t[i].want);
    }
}

BH_TEST(label_selectors_refuse_in_upstreams_words)
{
    static const struct {
        const char *in, *err;
    } t[] = {
        {"a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"},
        {"a in b", "unable to parse requirement: found 'b' expected: '('"},
        {"a in (b", "unable to parse requirement: found '', expected: ',' or ')'"},
        {"a==b=c", "found '=', expected: ',' or 'end of string'"},
        {"a===b", "unable to parse requirement: found '=', expected: identifier"},
        {"=a", "found '=', expected: !, identifier, or 'end of string'"},
        {"!", "unable to parse requirement: found '', expected: identifier"},
        {"a,", "found '', expected: identifier after ','"},
        {"a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"},
        {"a>x", "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' "
                "operators, the value must be an integer"},
        {"a=-", "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label "
                "must be an empty string or consist of "
                "alphanumeric characters, '-', '_' or '.', and must start and end with an "
                "alphanumeric character (e.g. 'MyValue',  "
                "or 'my_value',  or '12345', regex used for validation is "
                "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"},
    };
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct bh_label_selector s = {0};
        struct bh_err e = {0};

        BH_EQ(bh_label_selector_parse(a, bh_s(t[i].in), &s, &e), -BH_E_BAD_REQUEST);
        BH_STREQ(bh_s(e.msg), t[i].err);
    }
}

BH_TEST(label_selectors_match)
{
    static const struct {
        const char *sel;
        bool match;
    } t[] = {
        {"", true},           {"a", true},         {"!a", false},         {"!z", true},
        {"a=1", true},        {"a=2", false},      {"a!=2", true},        {"z!=2", true},
        {"a in (1,2)", true}, {"z in (1)", false}, {"z notin (1)", true}, {"a notin (1)", false},
        {"a>0", true},        {"a>1", false},      {"b>0", false},        {"a<2,b=x", true},
        {"e=", true},         {"z=", false},
    };
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str_map m = {0};

    bh_str_map_put(a, &m, BH_S("b"), BH_S("x"));
    bh_str_map_put(a, &m, BH_S("a"), BH_S("1"));
    bh_str_map_put(a, &m, BH_S("e"), BH_S(""));
    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct bh_label_selector s = {0};

        BH_EQ(bh_label_selector_parse(a, bh_s(t[i].sel), &s, NULL), 0);
        BH_EQ(bh_label_selector_match(&s, &m), t[i].match);
    }
}

static struct bh_str get(void *arg, struct bh_str field)
{
    (void)arg;
    return bh_str_eqc(field, "metadata.name") ? BH_S("a,b") : (struct bh_str){NULL, 0};
}

BH_TEST(field_selectors)
{
    static const struct {
        const char *in, *print, *err;
        bool match;
    } t[] = {
        {"", "", NULL, true},
        {"metadata.name=a\\,b", "metadata.name=a\\,b", NULL, true},
        {"metadata.name!=x", "metadata.name!=x", NULL, true},
        {"z==", "z=", NULL, true},
        {"z=1,metadata.name=a\\,b", "metadata.name=a\\,b,z=1", NULL, false},
        {"spec.colour", NULL, "invalid selector: 'spec.colour'; can't understand 'spec.colour'",
         false},
        {"a=b=c", NULL, "invalid field selector: unescaped character in value: 61", false},
        {"a=b\\c", NULL, "invalid field selector: invalid escape sequence: \\c", false},
    };
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct bh_field_selector s = {0};
        struct bh_err e = {0};

        BH_EQ(bh_field_selector_parse(a, bh_s(t[i].in), &s, &e), t[i].err ? -BH_E_BAD_REQUEST : 0);
        BH_STREQ(bh_s(e.msg), t[i].err ? t[i].err : "");
        if (t[i].err)
            continue;
        BH_STREQ(bh_field_selector_str(a, &s), t[i].print);
        BH_EQ(bh_field_selector_match(&s, get, NULL), t[i].match);
    }
}
