/* The standard functions: size, type, conversions, tests of strings, optionals, matches. */
#include "cel/cel_eval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cel/cel_opaque.h"
#include "cel/re2_shim.h"
#include "data/json.h"

CEL_FN(cel_f_size)
{
    (void)run;
    (void)n;
    return bh_cel_int((int64_t)cel_size(args[0]));
}

CEL_FN(cel_f_type)
{
    (void)n;
    if (args[0].kind == BH_CEL_OBJECT)
        return (struct bh_cel_value){
            .kind = BH_CEL_TYPE,
            .type = bh_cel_type_object(run->a, args[0].map->type_name, NULL, 0)};
    return (struct bh_cel_value){.kind = BH_CEL_TYPE, .type = cel_runtime_type(args[0])};
}

CEL_FN(cel_f_dyn)
{
    (void)run;
    (void)n;
    return args[0];
}

CEL_FN(cel_f_bool)
{
    static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};
    static const char *const no[] = {"0", "f", "F", "FALSE", "false", "False"};

    (void)n;
    if (args[0].kind == BH_CEL_BOOL)
        return args[0];
    for (size_t i = 0; i < BH_COUNT(yes); i++) {
        if (bh_str_eqc(bh_cel_as_str(args[0]), yes[i]))
            return bh_cel_bool(true);
        if (bh_str_eqc(bh_cel_as_str(args[0]), no[i]))
            return bh_cel_bool(false);
    }
    return cel_err_conv(run, args[0], "bool");
}

CEL_FN(cel_f_bytes)
{
    struct bh_cel_value v = args[0];

    (void)run;
    (void)n;
    v.kind = BH_CEL_BYTES;
    return v;
}

/* Decimal digits with an optional sign, nothing else. */
static bool parse_u64(struct bh_str s, uint64_t *ret)
{
    uint64_t v = 0;

    if (s.n == 0)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (unsigned)(s.p[i] - '0'), &v))
            return false;
    }
    *ret = v;
    return true;
}

CEL_FN(cel_f_int)
{
    struct bh_str s;
    uint64_t u;
    bool minus;

    (void)n;
    switch (args[0].kind) {
    case BH_CEL_INT:
        return args[0];
    case BH_CEL_UINT:
        return args[0].u > INT64_MAX ? bh_cel_error(run, "integer overflow")
                                     : bh_cel_int((int64_t)args[0].u);
    case BH_CEL_DOUBLE:
        if (!(args[0].d > -9223372036854775808.0 && args[0].d < 9223372036854775808.0))
            return bh_cel_error(run, "integer overflow");
        return bh_cel_int((int64_t)args[0].d);
    case BH_CEL_TIMESTAMP:
        return bh_cel_int(args[0].time->sec);
    case BH_CEL_DURATION:
        return bh_cel_int(args[0].i);
    default:
        break;
    }
    s = bh_cel_as_str(args[0]);
    minus = s.n > 0 && s.p[0] == '-';
    if (minus || (s.n > 0 && s.p[0] == '+'))
        s = bh_str_sub(s, 1, s.n);
    if (!parse_u64(s, &u) || u > (uint64_t)INT64_MAX + minus)
        return cel_err_conv(run, args[0], "int");
    return bh_cel_int((int64_t)(minus ? 0 - u : u));
}

CEL_FN(cel_f_uint)
{
    uint64_t u;

    (void)n;
    switch (args[0].kind) {
    case BH_CEL_UINT:
        return args[0];
    case BH_CEL_INT:
        return args[0].i < 0 ? bh_cel_error(run, "unsigned integer overflow")
                             : bh_cel_uint((uint64_t)args[0].i);
    case BH_CEL_DOUBLE:
        if (!(args[0].d >= 0 && args[0].d < 18446744073709551616.0))
            return bh_cel_error(run, "unsigned integer overflow");
        return bh_cel_uint((uint64_t)args[0].d);
    default:
        break;
    }
    return parse_u64(bh_cel_as_str(args[0]), &u) ? bh_cel_uint(u)
                                                 : cel_err_conv(run, args[0], "uint");
}

/* Go's strconv.ParseFloat: decimal or hexadecimal, infinities and NaN in any case, underscores
 * between digits of a number are not allowed there except with a base prefix; upstream's conversion
 * lets them pass. */
static bool parse_double(struct bh_str s, double *ret)
{
    char buf[512];
    size_t n = 0, i = 0;
    bool minus = false, hex, digits = false;
    char *end;

    if (s.n > 0 && (s.p[0] == '+' || s.p[0] == '-')) {
        minus = s.p[0] == '-';
        i = 1;
    }
    struct bh_str rest = bh_str_sub(s, i, s.n);
    if (bh_str_eq_nocase(rest, BH_S("inf")) || bh_str_eq_nocase(rest, BH_S("infinity"))) {
        *ret = minus ? -INFINITY : INFINITY;
        return true;
    }
    if (bh_str_eq_nocase(s, BH_S("nan"))) {
        *ret = NAN;
        return true;
    }
    hex = rest.n > 2 && rest.p[0] == '0' && (rest.p[1] | 0x20) == 'x';
    if (s.n >= sizeof(buf))
        return false;
    for (i = 0; i < rest.n; i++) {
        char c = rest.p[i];

        if (c == '_') {
            char prev = i ? rest.p[i - 1] : '\0', next = i + 1 < rest.n ? rest.p[i + 1] : '\0';

            if (prev < '0' || prev > '9' || next < '0' || next > '9')
                return false;
            continue;
        }
        digits |= c >= '0' && c <= '9';
        if (!((c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-' || (c | 0x20) == 'e' ||
              (hex && (((c | 0x20) >= 'a' && (c | 0x20) <= 'f') || (c | 0x20) == 'x' ||
                       (c | 0x20) == 'p'))))
            return false;
        buf[n++] = c;
    }
    buf[n] = '\0';
    if (!digits || (hex && !memchr(buf, 'p', n) && !memchr(buf, 'P', n)))
        return false;
    *ret = strtod(buf, &end);
    if (end != buf + n || isinf(*ret))
        return false;
    if (minus)
        *ret = -*ret;
    return true;
}

CEL_FN(cel_f_double)
{
    double d;

    (void)n;
    if (args[0].kind == BH_CEL_DOUBLE)
        return args[0];
    if (args[0].kind == BH_CEL_INT)
        return bh_cel_double((double)args[0].i);
    if (args[0].kind == BH_CEL_UINT)
        return bh_cel_double((double)args[0].u);
    return parse_double(bh_cel_as_str(args[0]), &d) ? bh_cel_double(d)
                                                    : cel_err_conv(run, args[0], "double");
}

/* Go's %g with the shortest digits that read back: exponent form below 1e-4 and from 1e6 on. */
struct bh_str cel_double_text(struct bh_arena *a, double d)
{
    char buf[64], digits[32];
    int e, nd = 0, p;
    char *x;

    if (isnan(d))
        return BH_S("NaN");
    if (isinf(d))
        return d > 0 ? BH_S("+Inf") : BH_S("-Inf");
    if (d == 0)
        return signbit(d) ? BH_S("-0") : BH_S("0");
    for (p = 0; p < 17; p++) {
        (void)snprintf(buf, sizeof(buf), "%.*e", p, d);
        if (strtod(buf, NULL) == d)
            break;
    }
    x = strchr(buf, 'e');
    e = (int)strtod(x + 1, NULL);
    for (const char *c = buf; c < x; c++)
        if (*c >= '0' && *c <= '9')
            digits[nd++] = *c;
    if (e < -4 || e >= 6)
        return nd > 1 ? bh_str_fmt(a, "%s%c.%.*se%c%02d", d < 0 ? "-" : "", digits[0], nd - 1,
                                   digits + 1, e < 0 ? '-' : '+', e < 0 ? -e : e)
                      : bh_str_fmt(a, "%s%ce%c%02d", d < 0 ? "-" : "", digits[0], e < 0 ? '-' : '+',
                                   e < 0 ? -e : e);
    (void)snprintf(buf, sizeof(buf), "%.*f", nd - 1 - e > 0 ? nd - 1 - e : 0, d);
    return bh_str_dup(a, bh_s(buf));
}

static bool valid_utf8(struct bh_str s)
{
    uint32_t r;

    for (size_t i = 0; i < s.n;) {
        size_t k = cel_rune(s.p + i, s.n - i, &r);

        if (k == 1 && (uint8_t)s.p[i] >= 0x80)
            return false;
        i += k;
    }
    return true;
}

CEL_FN(cel_f_string)
{
    struct bh_cel_value v = args[0];

    (void)n;
    switch (v.kind) {
    case BH_CEL_STRING:
        return v;
    case BH_CEL_BOOL:
        return bh_cel_str(v.b ? BH_S("true") : BH_S("false"));
    case BH_CEL_INT:
        return cel_strf(run, "%lld", (long long)v.i);
    case BH_CEL_UINT:
        return cel_strf(run, "%llu", (unsigned long long)v.u);
    case BH_CEL_DOUBLE:
        return bh_cel_str(cel_double_text(run->a, v.d));
    case BH_CEL_BYTES:
        if (!valid_utf8(bh_cel_as_str(v)))
            return bh_cel_error(run, "invalid UTF-8 in bytes, cannot convert to string");
        v.kind = BH_CEL_STRING;
        return v;
    case BH_CEL_TIMESTAMP:
        return bh_cel_str(cel_time_text(run->a, v.time));
    case BH_CEL_DURATION:
        return bh_cel_str(cel_duration_text(run->a, v.i));
    default:
        return bh_cel_str(cel_opaque_text(run->a, v));
    }
}

/* ---- strings
 * -------------------------------------------------------------------------------------------------------------
 */

CEL_FN(cel_f_contains)
{
    (void)run;
    (void)n;
    return bh_cel_bool(bh_str_find(bh_cel_as_str(args[0]), bh_cel_as_str(args[1])) >= 0);
}

CEL_FN(cel_f_starts_with)
{
    (void)run;
    (void)n;
    return bh_cel_bool(bh_str_starts(bh_cel_as_str(args[0]), bh_cel_as_str(args[1])));
}

CEL_FN(cel_f_ends_with)
{
    (void)run;
    (void)n;
    return bh_cel_bool(bh_str_ends(bh_cel_as_str(args[0]), bh_cel_as_str(args[1])));
}

struct bh_cel_value cel_regex_apply(struct bh_cel_run *run, enum cel_op op, const void *re,
                                    struct bh_cel_value s, int64_t limit)
{
    struct cel_list_builder b = {0};
    size_t pos = 0, start, end, prev_end = SIZE_MAX;
    uint32_t r;

    if (op == OP_MATCHES)
        return bh_cel_bool(bh_re2_find(re, s.s, s.n, 0, NULL, NULL));
    if (op == OP_FIND) {
        if (!bh_re2_find(re, s.s, s.n, 0, &start, &end))
            return bh_cel_str(BH_S(""));
        return bh_cel_str(bh_str_sub(bh_cel_as_str(s), start, end));
    }
    while (pos <= s.n && (limit < 0 || b.n < (uint64_t)limit) &&
           bh_re2_find(re, s.s, s.n, pos, &start, &end)) {
        /* An empty match right after a match does not count. */
        if (end > start || start != prev_end)
            cel_list_add(run->a, &b, bh_cel_str(bh_str_sub(bh_cel_as_str(s), start, end)));
        prev_end = end;
        if (end > start)
            pos = end;
        else if (end < s.n)
            pos = end + cel_rune(s.s + end, s.n - end, &r);
        else
            break;
    }
    return cel_list_done(run->a, &b);
}

/* The planner gives these a step of their own; what stands here serves programs without types. */
static struct bh_cel_value regex_fn(struct bh_cel_run *run, enum cel_op op,
                                    const struct bh_cel_value *args, unsigned n)
{
    char why[256];
    void *re = bh_re2_new(args[1].s, args[1].n, why, sizeof(why));
    struct bh_cel_value v;

    if (!re)
        return bh_cel_error(run, "error parsing regexp: %s", why);
    v = cel_regex_apply(run, op, re, args[0], n > 2 ? args[2].i : -1);
    bh_re2_free(re);
    return v;
}

CEL_FN(cel_f_matches)
{
    return regex_fn(run, OP_MATCHES, args, n);
}

CEL_FN(cel_f_find)
{
    return regex_fn(run, OP_FIND, args, n);
}

CEL_FN(cel_f_find_all)
{
    return regex_fn(run, OP_FIND_ALL, args, n);
}

/* ---- optionals
 * -----------------------------------------------------------------------------------------------------------
 */

CEL_FN(cel_f_opt_of)
{
    (void)n;
    return cel_optional(run->a, args[0]);
}

CEL_FN(cel_f_opt_none)
{
    (void)run;
    (void)args;
    (void)n;
    return cel_optional_none();
}

static bool is_zero(struct bh_cel_value v)
{
    switch (v.kind) {
    case BH_CEL_NULL:
        return true;
    case BH_CEL_BOOL:
        return !v.b;
    case BH_CEL_INT:
    case BH_CEL_UINT:
    case BH_CEL_DURATION:
        return v.i == 0;
    case BH_CEL_DOUBLE:
        return v.d == 0;
    case BH_CEL_STRING:
    case BH_CEL_BYTES:
        return v.n == 0;
    case BH_CEL_LIST:
        return v.list->n == 0;
    case BH_CEL_MAP:
    case BH_CEL_OBJECT:
        return v.map->n == 0;
    case BH_CEL_TIMESTAMP: /* Go's zero time */
        return v.time->sec == -62135596800 && v.time->nsec == 0;
    case BH_CEL_OPTIONAL:
        return !v.opt;
    default:
        return false;
    }
}

CEL_FN(cel_f_opt_of_non_zero)
{
    (void)n;
    return is_zero(args[0]) ? cel_optional_none() : cel_optional(run->a, args[0]);
}

CEL_FN(cel_f_opt_value)
{
    (void)n;
    return args[0].opt ? *args[0].opt : bh_cel_error(run, "optional.none() dereference");
}

CEL_FN(cel_f_opt_has_value)
{
    (void)run;
    (void)n;
    return bh_cel_bool(args[0].opt != NULL);
}

CEL_FN(cel_f_opt_unwrap)
{
    struct cel_list_builder b = {0};

    (void)n;
    for (size_t i = 0; i < args[0].list->n; i++) {
        struct bh_cel_value v = cel_list_at(run, args[0], i);

        if (v.kind != BH_CEL_OPTIONAL)
            return bh_cel_error(run, "value %.*s is not optional", BH_SF(bh_cel_type_name(v)));
        if (v.opt)
            cel_list_add(run->a, &b, *v.opt);
    }
    return cel_list_done(run->a, &b);
}

/* ---- two-variable comprehensions: these have steps of their own; programs without macros may
 * still call them ---- */

static struct bh_cel_value put_all(struct bh_cel_run *run, const struct bh_cel_map *m,
                                   const struct bh_cel_value *k, const struct bh_cel_value *v,
                                   size_t n)
{
    struct bh_cel_value *nk = bh_new_n(run->a, struct bh_cel_value, m->n + n);
    struct bh_cel_value *nv = bh_new_n(run->a, struct bh_cel_value, m->n + n), old;

    for (size_t i = 0; i < m->n; i++)
        cel_map_at(run, m, i, &nk[i], &nv[i]);
    for (size_t i = 0; i < n; i++) {
        if (cel_map_get(run, m, k[i], &old))
            return bh_cel_error(run, "insert failed: key already exists");
        nk[m->n + i] = k[i];
        nv[m->n + i] = v[i];
    }
    return cel_map_done(run->a, nk, nv, m->n + n);
}

CEL_FN(cel_f_map_insert)
{
    (void)n;
    return put_all(run, args[0].map, &args[1], &args[2], 1);
}

CEL_FN(cel_f_map_merge)
{
    const struct bh_cel_map *m = args[1].map;
    struct bh_cel_value *k = bh_new_n(run->a, struct bh_cel_value, m->n);
    struct bh_cel_value *v = bh_new_n(run->a, struct bh_cel_value, m->n);

    (void)n;
    for (size_t i = 0; i < m->n; i++)
        cel_map_at(run, m, i, &k[i], &v[i]);
    return put_all(run, args[0].map, k, v, m->n);
}
