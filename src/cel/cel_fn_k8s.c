/* Quantities, versions, named formats, and what opaque values share. */
#include "cel/cel_opaque.h"

#include <string.h>

#include "base/buf.h"

/* ---- quantities
 * ----------------------------------------------------------------------------------------------------------
 */

/* Decimal digits of an integer part and of a fraction, and the suffix behind them, as upstream's
 * parser cuts them. */
static void quantity_parts(struct bh_str s, struct bh_str *num, struct bh_str *frac,
                           struct bh_str *suffix)
{
    size_t i = 0, start;

    if (s.n && (s.p[0] == '+' || s.p[0] == '-'))
        i++;
    while (i < s.n && s.p[i] == '0')
        i++;
    start = i;
    while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
        i++;
    *num = bh_str_sub(s, start, i);
    *frac = (struct bh_str){NULL, 0};
    if (i < s.n && s.p[i] == '.') {
        start = ++i;
        while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
            i++;
        *frac = bh_str_sub(s, start, i);
    }
    *suffix = bh_str_sub(s, i, s.n);
}

/* Whether upstream keeps the value as an int64 with a decimal scale: only then can it be an
 * integer. */
static void quantity_form(struct bh_str s, struct cel_quantity *q)
{
    static const char bin[] = "KMGTPE", dec[] = "num kMGTPE";
    static const int dec_pow[] = {-9, -6, -3, 0, 3, 6, 9, 12, 15, 18};
    struct bh_str num, frac, suf;
    __int128 v = 0;
    int scale = 0, precision, shift = 0;
    int64_t exp;
    const char *p;

    quantity_parts(s, &num, &frac, &suf);
    if (suf.n == 2 && suf.p[1] == 'i') {
        p = strchr(bin, suf.p[0]);
        shift = p ? (int)(p - bin + 1) * 10 : 0;
        precision = frac.n ? -1 : 15 - (int)num.n - shift * 3 / 10 - 1;
    } else {
        if (suf.n > 1 && (suf.p[0] == 'e' || suf.p[0] == 'E')) {
            struct bh_str e = bh_str_sub(suf, suf.p[1] == '+' ? 2 : 1, suf.n);

            scale = bh_str_i64(e, -1000, 1000, &exp) ? (int)exp : 1000;
        } else if (suf.n == 1 && (p = strchr(dec, suf.p[0]))) {
            scale = dec_pow[p - dec];
        }
        precision = 18 - (int)(num.n + frac.n);
    }
    scale -= (int)frac.n;
    q->small = precision >= 0 && scale >= -9 && scale <= 36 && num.n + frac.n <= 18;
    if (!q->small)
        return;
    for (size_t i = 0; i < num.n; i++)
        v = v * 10 + (num.p[i] - '0');
    for (size_t i = 0; i < frac.n; i++)
        v = v * 10 + (frac.p[i] - '0');
    v <<= shift;
    q->value = s.n && s.p[0] == '-' ? -v : v;
    q->scale = scale;
}

int bh_cel_quantity(struct bh_arena *a, struct bh_str text, struct bh_cel_value *ret,
                    struct bh_err *err)
{
    struct cel_quantity *q = bh_new(a, struct cel_quantity);

    if (bh_quantity_parse(text, &q->q, err) < 0)
        return -BH_E_INVALID;
    quantity_form(text, q);
    *ret = (struct bh_cel_value){.kind = BH_CEL_QUANTITY, .p = q};
    return 0;
}

static const struct cel_quantity *q_of(struct bh_cel_value v)
{
    return v.p;
}

CEL_FN(cel_f_quantity)
{
    struct bh_cel_value v;
    struct bh_err e;

    (void)n;
    if (bh_cel_quantity(run->a, bh_cel_as_str(args[0]), &v, &e) < 0)
        return bh_cel_error(run, "%s", e.msg);
    return v;
}

CEL_FN(cel_f_is_quantity)
{
    struct bh_quantity q;

    (void)run;
    (void)n;
    return bh_cel_bool(bh_quantity_parse(bh_cel_as_str(args[0]), &q, NULL) == 0);
}

CEL_FN(cel_f_q_sign)
{
    (void)run;
    (void)n;
    return bh_cel_int(bh_quantity_sign(q_of(args[0])->q));
}

static bool q_integer(const struct cel_quantity *q, int64_t *ret)
{
    __int128 v = q->value;

    if (!q->small || q->scale < 0)
        return false;
    for (int i = 0; i < q->scale; i++) {
        v *= 10;
        if (v > INT64_MAX || v < INT64_MIN)
            return v == 0;
    }
    if (v > INT64_MAX || v < INT64_MIN)
        return false;
    *ret = (int64_t)v;
    return true;
}

CEL_FN(cel_f_q_is_integer)
{
    int64_t v;

    (void)run;
    (void)n;
    return bh_cel_bool(q_integer(q_of(args[0]), &v));
}

CEL_FN(cel_f_q_as_integer)
{
    int64_t v;

    (void)n;
    return q_integer(q_of(args[0]), &v) ? bh_cel_int(v)
                                        : bh_cel_error(run, "cannot convert value to integer");
}

CEL_FN(cel_f_q_as_float)
{
    (void)run;
    (void)n;
    return bh_cel_double(bh_quantity_double(q_of(args[0])->q));
}

/* The sum in upstream's small form takes the smaller scale; when it does not fit it becomes the big
 * form. */
static void small_add(struct cel_quantity *r, const struct cel_quantity *a,
                      const struct cel_quantity *b, bool minus)
{
    __int128 x = a->value, y = minus ? -b->value : b->value;
    int sx = a->scale, sy = b->scale;

    r->small = a->small && b->small;
    if (!r->small)
        return;
    if (x == 0 || y == 0) {
        r->value = x + y;
        r->scale = x == 0 ? sy : sx;
        return;
    }
    while (sx != sy) {
        __int128 *v = sx > sy ? &x : &y;

        *v *= 10;
        *(sx > sy ? &sx : &sy) -= 1;
        if (*v > INT64_MAX || *v < INT64_MIN) {
            r->small = false;
            return;
        }
    }
    r->value = x + y;
    r->scale = sx;
    r->small = r->value <= INT64_MAX && r->value >= INT64_MIN;
}

static struct bh_cel_value q_sum(struct bh_cel_run *run, struct bh_cel_value x,
                                 struct bh_cel_value y, bool minus)
{
    struct cel_quantity *r = bh_new(run->a, struct cel_quantity), i = {.small = true};
    const struct cel_quantity *a = q_of(x), *b = y.kind == BH_CEL_INT ? &i : q_of(y);

    if (y.kind == BH_CEL_INT) {
        i.q = bh_quantity_i64(y.i, BH_Q_DECIMAL_SI);
        i.value = y.i;
    }
    r->q = minus ? bh_quantity_sub(a->q, b->q) : bh_quantity_add(a->q, b->q);
    small_add(r, a, b, minus);
    return (struct bh_cel_value){.kind = BH_CEL_QUANTITY, .p = r};
}

CEL_FN(cel_f_q_add)
{
    (void)n;
    return q_sum(run, args[0], args[1], false);
}

CEL_FN(cel_f_q_sub)
{
    (void)n;
    return q_sum(run, args[0], args[1], true);
}

static int q_cmp(const struct bh_cel_value *args)
{
    return bh_quantity_cmp(q_of(args[0])->q, q_of(args[1])->q);
}

CEL_FN(cel_f_q_less)
{
    (void)run;
    (void)n;
    return bh_cel_bool(q_cmp(args) < 0);
}

CEL_FN(cel_f_q_greater)
{
    (void)run;
    (void)n;
    return bh_cel_bool(q_cmp(args) > 0);
}

CEL_FN(cel_f_q_compare)
{
    (void)run;
    (void)n;
    return bh_cel_int(q_cmp(args));
}

/* ---- versions
 * -------------------------------------------------------------------------------------------------------------
 */

/* normalize: one leading v away, leading zeros away, missing parts filled with zero. False when
 * that cannot work. */
static bool normalize(struct bh_arena *a, struct bh_str s, struct bh_str *ret)
{
    BH_AUTO_BUF b = {.max = 1 << 20};
    struct bh_str part[3];
    size_t n = 0;

    if (s.n && s.p[0] == 'v')
        s = bh_str_sub(s, 1, s.n);
    while (n < 2) {
        ptrdiff_t dot = bh_str_chr(s, '.', 0);

        if (dot < 0)
            break;
        part[n++] = bh_str_sub(s, 0, (size_t)dot);
        s = bh_str_sub(s, (size_t)dot + 1, s.n);
    }
    part[n++] = s;
    if (n < 3 && (bh_str_chr(s, '+', 0) >= 0 || bh_str_chr(s, '-', 0) >= 0))
        return false;
    for (size_t i = 0; i < 3; i++) {
        struct bh_str p = i < n ? part[i] : BH_S("0");

        bool zero = false;

        if (p.n > 1) {
            while (p.n && p.p[0] == '0')
                p = bh_str_sub(p, 1, p.n);
            zero = p.n == 0 || p.p[0] < '0' || p.p[0] > '9';
        }
        bh_buf_addf(&b, "%s%s%.*s", i ? "." : "", zero ? "0" : "", BH_SF(p));
    }
    *ret = bh_str_dup(a, bh_buf_str(&b));
    return true;
}

/* ---- why a text is no version, in the words of upstream's parser */

static bool digits(struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return s.n > 0;
}

static bool words(struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] != '-' && (s.p[i] < '0' || s.p[i] > '9') && (s.p[i] < 'a' || s.p[i] > 'z') &&
            (s.p[i] < 'A' || s.p[i] > 'Z'))
            return false;
    return s.n > 0;
}

static struct bh_str number_fault(struct bh_arena *a, struct bh_str s, const char *small,
                                  const char *large)
{
    if (!digits(s))
        return bh_str_fmt(a, "Invalid character(s) found in %s number \"%.*s\"", small, BH_SF(s));
    if (s.n > 1 && s.p[0] == '0')
        return bh_str_fmt(a, "%s number must not contain leading zeroes \"%.*s\"", large, BH_SF(s));
    /* Twenty digits may still fit an unsigned number; the parser said that they do not. */
    if (s.n > 20 || (s.n == 20 && memcmp(s.p, "18446744073709551615", 20) > 0))
        return bh_str_fmt(a, "strconv.ParseUint: parsing \"%.*s\": value out of range", BH_SF(s));
    return (struct bh_str){0};
}

static struct bh_str labels_fault(struct bh_arena *a, struct bh_str s, bool build)
{
    while (s.p) {
        ptrdiff_t dot = bh_str_chr(s, '.', 0);
        struct bh_str w = bh_str_sub(s, 0, dot < 0 ? s.n : (size_t)dot);

        if (w.n == 0)
            return build ? BH_S("Build meta data is empty") : BH_S("Prerelease is empty");
        if (!build && digits(w) && w.n > 1 && w.p[0] == '0')
            return bh_str_fmt(
                a, "Numeric PreRelease version must not contain leading zeroes \"%.*s\"", BH_SF(w));
        if (!words(w))
            return bh_str_fmt(a, "Invalid character(s) found in %s \"%.*s\"",
                              build ? "build meta data" : "prerelease", BH_SF(w));
        if (dot < 0)
            break;
        s = bh_str_sub(s, (size_t)dot + 1, s.n);
    }
    return (struct bh_str){0};
}

static struct bh_str version_fault(struct bh_arena *a, struct bh_str s)
{
    struct bh_str part[3], pre = {0}, build = {0}, why;
    ptrdiff_t at;
    size_t n = 0;

    if (s.n == 0)
        return BH_S("Version string empty");
    for (at = 0; n < 2 && (at = bh_str_chr(s, '.', 0)) >= 0; n++) {
        part[n] = bh_str_sub(s, 0, (size_t)at);
        s = bh_str_sub(s, (size_t)at + 1, s.n);
    }
    if (n < 2)
        return BH_S("No Major.Minor.Patch elements found");
    if ((at = bh_str_chr(s, '+', 0)) >= 0) {
        build = bh_str_sub(s, (size_t)at + 1, s.n);
        s = bh_str_sub(s, 0, (size_t)at);
    }
    if ((at = bh_str_chr(s, '-', 0)) >= 0) {
        pre = bh_str_sub(s, (size_t)at + 1, s.n);
        s = bh_str_sub(s, 0, (size_t)at);
    }
    part[2] = s;
    why = number_fault(a, part[0], "major", "Major");
    if (!why.n)
        why = number_fault(a, part[1], "minor", "Minor");
    if (!why.n)
        why = number_fault(a, part[2], "patch", "Patch");
    if (!why.n)
        why = labels_fault(a, pre, false);
    if (!why.n)
        why = labels_fault(a, build, true);
    return why.n ? why : BH_S("invalid version");
}

static bool version(struct bh_arena *a, struct bh_str s, bool norm, struct bh_cel_value *ret)
{
    struct bh_semver *v = bh_new(a, struct bh_semver);

    if (norm && !normalize(a, s, &s))
        return false;
    if (!bh_semver_parse(s, v))
        return false;
    *ret = (struct bh_cel_value){.kind = BH_CEL_SEMVER, .p = v};
    return true;
}

int bh_cel_semver(struct bh_arena *a, struct bh_str text, struct bh_cel_value *ret,
                  struct bh_err *err)
{
    if (!version(a, bh_str_dup(a, text), false, ret))
        return bh_err_set(err, BH_E_INVALID, "invalid semantic version \"%.*s\"", BH_SF(text));
    return 0;
}

CEL_FN(cel_f_semver)
{
    struct bh_str s = bh_cel_as_str(args[0]);
    struct bh_cel_value v;

    if (version(run->a, s, n == 2 && args[1].b, &v))
        return v;
    if (n == 2 && args[1].b && !normalize(run->a, s, &s))
        return bh_cel_error(run, "short version cannot contain PreRelease/Build meta data");
    s = version_fault(run->a, s);
    return bh_cel_error(run, "%.*s", BH_SF(s));
}

CEL_FN(cel_f_is_semver)
{
    struct bh_cel_value v;

    return bh_cel_bool(version(run->a, bh_cel_as_str(args[0]), n == 2 && args[1].b, &v));
}

CEL_FN(cel_f_v_major)
{
    (void)run;
    (void)n;
    return bh_cel_int((int64_t)((const struct bh_semver *)args[0].p)->major);
}

CEL_FN(cel_f_v_minor)
{
    (void)run;
    (void)n;
    return bh_cel_int((int64_t)((const struct bh_semver *)args[0].p)->minor);
}

CEL_FN(cel_f_v_patch)
{
    (void)run;
    (void)n;
    return bh_cel_int((int64_t)((const struct bh_semver *)args[0].p)->patch);
}

static int v_cmp(const struct bh_cel_value *args)
{
    int c = bh_semver_cmp(args[0].p, args[1].p);

    return (c > 0) - (c < 0);
}

CEL_FN(cel_f_v_less)
{
    (void)run;
    (void)n;
    return bh_cel_bool(v_cmp(args) < 0);
}

CEL_FN(cel_f_v_greater)
{
    (void)run;
    (void)n;
    return bh_cel_bool(v_cmp(args) > 0);
}

CEL_FN(cel_f_v_compare)
{
    (void)run;
    (void)n;
    return bh_cel_int(v_cmp(args));
}

/* ---- named formats
 * --------------------------------------------------------------------------------------------------------
 */

enum format_id {
    FM_LABEL,
    FM_SUBDOMAIN,
    FM_LABEL1035,
    FM_QUALIFIED,
    FM_LABEL_PREFIX,
    FM_SUBDOMAIN_PREFIX,
    FM_LABEL1035_PREFIX,
    FM_LABEL_VALUE,
    FM_URI,
    FM_UUID,
    FM_BYTE,
    FM_DATE,
    FM_DATETIME
};

static const struct cel_named_format formats[] = {
    [FM_LABEL] = {BH_S_INIT("dns1123Label"), FM_LABEL, 30},
    [FM_SUBDOMAIN] = {BH_S_INIT("dns1123Subdomain"), FM_SUBDOMAIN, 60},
    [FM_LABEL1035] = {BH_S_INIT("dns1035Label"), FM_LABEL1035, 30},
    [FM_QUALIFIED] = {BH_S_INIT("qualifiedName"), FM_QUALIFIED, 60},
    [FM_LABEL_PREFIX] = {BH_S_INIT("dns1123LabelPrefix"), FM_LABEL_PREFIX, 30},
    [FM_SUBDOMAIN_PREFIX] = {BH_S_INIT("dns1123SubdomainPrefix"), FM_SUBDOMAIN_PREFIX, 60},
    [FM_LABEL1035_PREFIX] = {BH_S_INIT("dns1035LabelPrefix"), FM_LABEL1035_PREFIX, 30},
    [FM_LABEL_VALUE] = {BH_S_INIT("labelValue"), FM_LABEL_VALUE, 40},
    [FM_URI] = {BH_S_INIT("uri"), FM_URI, 1103},
    [FM_UUID] = {BH_S_INIT("uuid"), FM_UUID, 70},
    [FM_BYTE] = {BH_S_INIT("byte"), FM_BYTE, 84},
    [FM_DATE] = {BH_S_INIT("date"), FM_DATE, 71},
    [FM_DATETIME] = {BH_S_INIT("datetime"), FM_DATETIME, 71},
};

static struct bh_cel_value format_value(enum format_id id)
{
    return (struct bh_cel_value){.kind = BH_CEL_FORMAT, .p = &formats[id]};
}

CEL_FN(cel_f_format_named)
{
    (void)n;
    for (size_t i = 0; i < BH_COUNT(formats); i++)
        if (bh_str_eq(formats[i].name, bh_cel_as_str(args[0])))
            return cel_optional(run->a, format_value((enum format_id)i));
    return cel_optional_none();
}

#define FORMAT(id, fm)                                                                             \
    CEL_FN(cel_f_format_##id)                                                                      \
    {                                                                                              \
        (void)run;                                                                                 \
        (void)args;                                                                                \
        (void)n;                                                                                   \
        return format_value(fm);                                                                   \
    }
FORMAT(dns1123Label, FM_LABEL)
FORMAT(dns1123Subdomain, FM_SUBDOMAIN)
FORMAT(dns1035Label, FM_LABEL1035)
FORMAT(qualifiedName, FM_QUALIFIED)
FORMAT(dns1123LabelPrefix, FM_LABEL_PREFIX)
FORMAT(dns1123SubdomainPrefix, FM_SUBDOMAIN_PREFIX)
FORMAT(dns1035LabelPrefix, FM_LABEL1035_PREFIX)
FORMAT(labelValue, FM_LABEL_VALUE)
FORMAT(uri, FM_URI)
FORMAT(uuid, FM_UUID)
FORMAT(byte, FM_BYTE)
FORMAT(date, FM_DATE)
FORMAT(datetime, FM_DATETIME)

static bool hex_digit(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* 8-4-4-4-12 hexadecimal digits; each dash may be missing. */
static bool is_uuid(struct bh_str s)
{
    static const unsigned groups[] = {8, 4, 4, 4, 12};
    size_t i = 0;

    for (unsigned g = 0; g < BH_COUNT(groups); g++) {
        if (g && i < s.n && s.p[i] == '-')
            i++;
        for (unsigned k = 0; k < groups[g]; k++, i++)
            if (i >= s.n || !hex_digit(s.p[i]))
                return false;
    }
    return i == s.n;
}

static bool is_base64(struct bh_str s)
{
    size_t pad = 0;

    if (s.n == 0 || s.n % 4)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (c == '=' && i + 2 >= s.n)
            pad++;
        else if (pad || !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '+' || c == '/'))
            return false;
    }
    return true;
}

/* d stands for a digit, anything else for itself (letters in either case). */
static bool shape(struct bh_str s, const char *pattern)
{
    size_t n = strlen(pattern);

    if (s.n < n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (pattern[i] == 'd' ? s.p[i] < '0' || s.p[i] > '9'
                              : (s.p[i] | 0x20) != (pattern[i] | 0x20))
            return false;
    return true;
}

static unsigned two(struct bh_str s, size_t i)
{
    return (unsigned)((s.p[i] - '0') * 10 + (s.p[i + 1] - '0'));
}

static bool is_date(struct bh_str s)
{
    struct bh_cel_time t;
    char buf[32];

    if (s.n != 10 || !shape(s, "dddd-dd-dd"))
        return false;
    memcpy(buf, s.p, 10);
    memcpy(buf + 10, "T00:00:00Z", 10);
    return cel_time_parse((struct bh_str){buf, 20}, &t);
}

static bool is_datetime(struct bh_str s)
{
    size_t i = 19;

    if (!shape(s, "dddd-dd-ddtdd:dd:dd") || !is_date(bh_str_sub(s, 0, 10)) || two(s, 11) > 23 ||
        two(s, 14) > 59 || two(s, 17) > 59)
        return false;
    if (i < s.n && s.p[i] == '.') {
        size_t from = ++i;

        while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
            i++;
        if (i == from)
            return false;
    }
    s = bh_str_sub(s, i, s.n);
    if (s.n == 1)
        return (s.p[0] | 0x20) == 'z';
    return s.n == 6 && (shape(s, "+dd:dd") || shape(s, "-dd:dd"));
}

/* Names that get a suffix later: a trailing dash is fine. */
static struct bh_str as_prefix(struct bh_arena *a, struct bh_str s)
{
    if (s.n < 2 || s.p[s.n - 1] != '-')
        return s;
    return bh_str_fmt(a, "%.*sa", BH_SF(bh_str_sub(s, 0, s.n - 2)));
}

static struct bh_str_vec one(struct bh_arena *a, struct bh_str s)
{
    return (struct bh_str_vec){bh_arena_memdup(a, &s, sizeof(s)), 1};
}

static struct bh_str_vec format_errors(struct bh_arena *a, enum format_id id, struct bh_str s)
{
    struct cel_url u;
    struct bh_str why;

    switch (id) {
    case FM_LABEL:
        return bh_names_all(a, bh_check_dns1123_label, s);
    case FM_SUBDOMAIN:
        return bh_names_all(a, bh_check_dns1123_subdomain, s);
    case FM_LABEL1035:
        return bh_names_all(a, bh_check_dns1035_label, s);
    case FM_QUALIFIED:
        return bh_names_all(a, bh_check_qualified_name, s);
    case FM_LABEL_PREFIX:
        return bh_names_all(a, bh_check_dns1123_label, as_prefix(a, s));
    case FM_SUBDOMAIN_PREFIX:
        return bh_names_all(a, bh_check_dns1123_subdomain, as_prefix(a, s));
    case FM_LABEL1035_PREFIX:
        return bh_names_all(a, bh_check_dns1035_label, as_prefix(a, s));
    case FM_LABEL_VALUE:
        return bh_names_all(a, bh_check_label_value, s);
    case FM_URI:
        if (!cel_url_parse(a, s, &u, &why))
            return one(a, why);
        break;
    case FM_UUID:
        if (!is_uuid(s))
            return one(a, BH_S("does not match the UUID format"));
        break;
    case FM_BYTE:
        if (!is_base64(s))
            return one(a, BH_S("invalid base64"));
        break;
    case FM_DATE:
        if (!is_date(s))
            return one(a, BH_S("invalid date"));
        break;
    case FM_DATETIME:
        if (!is_datetime(s))
            return one(a, BH_S("invalid datetime"));
        break;
    }
    return (struct bh_str_vec){NULL, 0};
}

CEL_FN(cel_f_validate)
{
    const struct cel_named_format *f = args[0].p;
    struct bh_str_vec e = format_errors(run->a, (enum format_id)f->id, bh_cel_as_str(args[1]));
    struct cel_list_builder b = {0};

    (void)n;
    if (e.n == 0)
        return cel_optional_none();
    for (size_t i = 0; i < e.n; i++)
        cel_list_add(run->a, &b, bh_cel_str(e.p[i]));
    return cel_optional(run->a, cel_list_done(run->a, &b));
}

/* ---- shared
 * ----------------------------------------------------------------------------------------------------------------
 */

bool cel_opaque_equal(struct bh_cel_value a, struct bh_cel_value b)
{
    const struct cel_ip *x, *y;
    struct bh_arena *tmp;
    bool eq;

    switch (a.kind) {
    case BH_CEL_IP:
    case BH_CEL_CIDR:
        x = a.p;
        y = b.p;
        return x->bits == y->bits && bh_ip_cmp(&x->ip, &y->ip) == 0;
    case BH_CEL_QUANTITY:
        return bh_quantity_cmp(q_of(a)->q, q_of(b)->q) == 0;
    case BH_CEL_SEMVER:
        return bh_semver_cmp(a.p, b.p) == 0;
    case BH_CEL_URL:
        tmp = bh_arena_new(0);
        eq = bh_str_eq(cel_url_text(tmp, a.p), cel_url_text(tmp, b.p));
        (void)bh_arena_free(tmp);
        return eq;
    default:
        return a.p == b.p;
    }
}

uint64_t cel_opaque_size(struct bh_cel_value v)
{
    const struct cel_ip *x = v.p;

    if (v.kind == BH_CEL_CIDR)
        return (x->bits + 7) / 8;
    return x->ip.v6 ? 16 : 4;
}

struct bh_str cel_opaque_text(struct bh_arena *a, struct bh_cel_value v)
{
    const struct bh_semver *s;
    const struct cel_ip *x;
    char buf[BH_IP_BUF];

    switch (v.kind) {
    case BH_CEL_IP:
        x = v.p;
        return bh_str_dup(a, bh_ip_fmt(&x->ip, buf));
    case BH_CEL_CIDR:
        x = v.p;
        return bh_str_fmt(a, "%.*s/%u", BH_SF(bh_ip_fmt(&x->ip, buf)), x->bits);
    case BH_CEL_QUANTITY:
        return bh_quantity_str(a, q_of(v)->q);
    case BH_CEL_SEMVER:
        s = v.p;
        return bh_str_fmt(a, "%llu.%llu.%llu%s%.*s%s%.*s", (unsigned long long)s->major,
                          (unsigned long long)s->minor, (unsigned long long)s->patch,
                          s->pre.n ? "-" : "", BH_SF(s->pre), s->build.n ? "+" : "",
                          BH_SF(s->build));
    case BH_CEL_URL:
        return cel_url_text(a, v.p);
    case BH_CEL_FORMAT:
        return ((const struct cel_named_format *)v.p)->name;
    default:
        return bh_cel_type_name(v);
    }
}
