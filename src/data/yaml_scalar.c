/* Plain scalars of YAML 1.1: booleans by many names, integers with any Go prefix, floats, all else
 * strings. */
#include "data/yaml_scalar.h"

#include <math.h>
#include <string.h>

#include "data/json.h"

static const char *const trues[] = {"y",    "Y",    "yes", "Yes", "YES", "true",
                                    "True", "TRUE", "on",  "On",  "ON"};
static const char *const falses[] = {"n",     "N",     "no",  "No",  "NO", "false",
                                     "False", "FALSE", "off", "Off", "OFF"};
static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
static const char *const nans[] = {".nan", ".NaN", ".NAN"};
static const char *const infs[] = {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"};
static const char *const neg_infs[] = {"-.inf", "-.Inf", "-.INF"};

static bool one_of(struct bh_str s, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bh_str_eqc(s, list[i]))
            return true;
    return false;
}
#define ONE_OF(s, list) one_of(s, list, BH_COUNT(list))

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Go's ParseInt with base 0, underscores already removed: 0x, 0b, 0o, a leading 0 for octal, else
 * decimal. */
static bool parse_int(struct bh_str s, struct bh_yaml_scalar *ret)
{
    unsigned base = 10;
    uint64_t v = 0;
    bool neg = s.n && s.p[0] == '-';

    if (s.n && (s.p[0] == '-' || s.p[0] == '+'))
        s = bh_str_sub(s, 1, s.n);
    if (s.n > 1 && s.p[0] == '0') {
        char c = (char)(s.p[1] | 0x20);

        base = c == 'x' ? 16 : c == 'b' ? 2 : 8;
        s = bh_str_sub(s, c == 'x' || c == 'b' || c == 'o' ? 2 : 1, s.n);
    }
    if (!s.n)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        unsigned d = digit(c)                                 ? (unsigned)(c - '0')
                     : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (unsigned)((c | 0x20) - 'a' + 10)
                                                              : 99;

        if (d >= base || __builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, d, &v))
            return false;
    }
    if (neg && v > (uint64_t)INT64_MAX + 1)
        return false;
    *ret = (struct bh_yaml_scalar){.type = BH_YAML_INT, .neg = neg && v, .u = v};
    return true;
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? within the range of double. */
static bool parse_float(struct bh_str s, struct bh_yaml_scalar *ret)
{
    size_t i = s.n && (s.p[0] == '-' || s.p[0] == '+') ? 1 : 0, whole = i, frac;

    while (i < s.n && digit(s.p[i]))
        i++;
    whole = i - whole;
    frac = i;
    if (i < s.n && s.p[i] == '.') {
        for (i++; i < s.n && digit(s.p[i]); i++)
            ;
        frac = i - frac - 1;
    } else {
        frac = 0;
    }
    if (!whole && !frac)
        return false;
    if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
        i++;
        if (i < s.n && (s.p[i] == '-' || s.p[i] == '+'))
            i++;
        if (i == s.n)
            return false;
        while (i < s.n && digit(s.p[i]))
            i++;
    }
    if (i != s.n)
        return false;
    ret->type = BH_YAML_FLOAT;
    return bh_json_num_double(s, &ret->d);
}

struct bh_yaml_scalar bh_yaml_resolve(struct bh_str text)
{
    struct bh_yaml_scalar r = {.type = BH_YAML_STR};
    char plain[128];
    size_t n = 0;
    char c = text.n ? text.p[0] : 'N';

    if (ONE_OF(text, nulls))
        r.type = BH_YAML_NULL;
    else if (ONE_OF(text, trues) || ONE_OF(text, falses))
        r = (struct bh_yaml_scalar){.type = BH_YAML_BOOL, .b = ONE_OF(text, trues)};
    else if (ONE_OF(text, nans))
        r = (struct bh_yaml_scalar){.type = BH_YAML_INF, .d = NAN};
    else if (ONE_OF(text, infs))
        r = (struct bh_yaml_scalar){.type = BH_YAML_INF, .d = INFINITY};
    else if (ONE_OF(text, neg_infs))
        r = (struct bh_yaml_scalar){.type = BH_YAML_INF, .d = -INFINITY};
    else if (c == '.' && text.n < sizeof(plain)) {
        if (!parse_float(text, &r))
            r.type = BH_YAML_STR;
    } else if (digit(c) || c == '+' || c == '-') {
        /* A number longer than this is no number anybody wrote on purpose: it stays a string. */
        for (size_t i = 0; i < text.n; i++) {
            if (text.p[i] == '_')
                continue;
            if (n == sizeof(plain))
                return r;
            plain[n++] = text.p[i];
        }
        if (!parse_int((struct bh_str){plain, n}, &r) &&
            !parse_float((struct bh_str){plain, n}, &r))
            r.type = BH_YAML_STR;
    }
    return r;
}
