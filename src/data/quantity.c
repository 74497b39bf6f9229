/* resource.Quantity in a 128-bit coefficient and a decimal exponent. */
#include "data/quantity.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"

#define EXP_NANO   (-9)
#define DIGITS_MAX 38 /* any number of so many digits fits 127 bits */
#define FRAC_MAX   96 /* decimals kept while a binary quantity is scaled */
#define BINARY_CAP INT64_MAX

typedef __int128 i128;
typedef unsigned __int128 u128;

static const char wrong_format[] =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
static const char wrong_suffix[] = "unable to parse quantity's suffix";
static const char wrong_number[] = "unable to parse numeric part of quantity";

static const struct {
    const char *suffix;
    int exp; /* of ten, or of two */
    bool binary;
} suffixes[] = {
    {"n", -9, false}, {"u", -6, false}, {"m", -3, false}, {"", 0, false},
    {"k", 3, false},  {"M", 6, false},  {"G", 9, false},  {"T", 12, false},
    {"P", 15, false}, {"E", 18, false}, {"Ki", 10, true}, {"Mi", 20, true},
    {"Gi", 30, true}, {"Ti", 40, true}, {"Pi", 50, true}, {"Ei", 60, true},
};

static i128 pow10_128(unsigned n)
{
    i128 v = 1;

    while (n--)
        v *= 10;
    return v;
}

static i128 coef_max(void)
{
    return pow10_128(DIGITS_MAX) - 1;
}

/* ---- Parsing ---- */

struct parts {
    bool neg;
    struct bh_str num, denom; /* digits before (without leading zeros) and after the point */
    int64_t exp;
    enum bh_quantity_format format;
};

static struct bh_str digits_at(struct bh_str s, size_t *i)
{
    size_t from = *i;

    while (*i < s.n && s.p[*i] >= '0' && s.p[*i] <= '9')
        ++*i;
    return bh_str_sub(s, from, *i);
}

static int interpret_suffix(struct bh_str suffix, struct parts *ret, struct bh_err *err)
{
    struct bh_str number;

    for (size_t i = 0; i < BH_COUNT(suffixes); i++) {
        if (!bh_str_eqc(suffix, suffixes[i].suffix))
            continue;
        ret->exp = suffixes[i].exp;
        ret->format = suffixes[i].binary ? BH_Q_BINARY_SI : BH_Q_DECIMAL_SI;
        return 0;
    }
    if (suffix.n < 2 || (suffix.p[0] != 'e' && suffix.p[0] != 'E'))
        return bh_err_set(err, BH_E_BAD_REQUEST, "%s", wrong_suffix);
    number = bh_str_sub(suffix, 1, suffix.n);
    if (number.p[0] == '+' && number.n > 1 && number.p[1] != '-')
        number = bh_str_sub(number, 1, number.n);
    /* Half the range of int32 leaves room for the digits of the number itself. */
    if (!bh_str_i64(number, INT32_MIN / 2, INT32_MAX / 2, &ret->exp))
        return bh_err_set(err, BH_E_BAD_REQUEST, "%s", wrong_suffix);
    ret->format = BH_Q_DECIMAL_EXP;
    return 0;
}

/* Splits as upstream's scanner does, which takes more than its regular expression says: "." and "+"
 * are zero. */
static int split(struct bh_str s, struct parts *ret, struct bh_err *err)
{
    size_t i = 0, start;

    *ret = (struct parts){.neg = s.n && s.p[0] == '-'};
    if (!s.n)
        return bh_err_set(err, BH_E_BAD_REQUEST, "%s", wrong_format);
    if (s.p[0] == '-' || s.p[0] == '+')
        i++;
    while (i < s.n && s.p[i] == '0')
        i++;
    ret->num = digits_at(s, &i);
    if (i < s.n && s.p[i] == '.') {
        i++;
        ret->denom = digits_at(s, &i);
    }
    start = i;
    while (i < s.n && strchr("eEinumkKMGTP", s.p[i]) && s.p[i])
        i++;
    if (i < s.n && (s.p[i] == '-' || s.p[i] == '+'))
        i++;
    (void)digits_at(s, &i);
    if (i != s.n)
        return bh_err_set(err, BH_E_BAD_REQUEST, "%s", wrong_format);
    return interpret_suffix(bh_str_sub(s, start, s.n), ret, err);
}

/* Digit k of num followed by denom. */
static unsigned digit(const struct parts *p, size_t k)
{
    char c = k < p->num.n ? p->num.p[k] : p->denom.p[k - p->num.n];

    return (unsigned)(c - '0');
}

static int from_decimal(const struct parts *p, struct bh_quantity *ret, struct bh_err *err)
{
    size_t n = p->num.n + p->denom.n, first = 0, drop = 0;
    int64_t exp = p->exp - (int64_t)p->denom.n;
    bool up = false;
    i128 coef = 0;

    while (n && digit(p, n - 1) == 0) { /* trailing zeros carry no information */
        n--;
        exp++;
    }
    while (first < n && digit(p, first) == 0)
        first++;
    if (first == n) {
        *ret = (struct bh_quantity){0, 0, p->format};
        return 0;
    }
    if (exp < EXP_NANO) {
        /* Everything beyond nano is dropped, and because the last digit is not zero, it rounds up.
         */
        drop = (size_t)(EXP_NANO - exp) < n - first ? (size_t)(EXP_NANO - exp) : n - first;
        up = true;
        exp = EXP_NANO;
    }
    if (n - drop - first > DIGITS_MAX - (up ? 1 : 0))
        return bh_err_set(err, BH_E_BAD_REQUEST, "%s", wrong_number);
    for (size_t k = first; k < n - drop; k++)
        coef = coef * 10 + digit(p, k);
    *ret = (struct bh_quantity){coef + up, (int32_t)exp, p->format};
    return 0;
}

/* Doubles the decimal fraction in place and returns the carry. */
static unsigned double_fraction(uint8_t *frac, size_t n)
{
    unsigned carry = 0;

    while (n--) {
        unsigned d = frac[n] * 2u + carry;

        carry = d >= 10;
        frac[n] = (uint8_t)(carry ? d - 10 : d);
    }
    return carry;
}

static void from_binary(const struct parts *p, struct bh_quantity *ret)
{
    uint8_t frac[FRAC_MAX + 1] = {0};
    u128 whole = 0, limit = (u128)BINARY_CAP;
    uint32_t nano = 0;
    bool rest = false;

    for (size_t k = 0; k < p->num.n && whole <= limit; k++)
        whole = whole * 10 + digit(p, k);
    for (size_t k = 0; k < p->denom.n; k++) {
        unsigned d = (unsigned)(p->denom.p[k] - '0');

        if (k < FRAC_MAX)
            frac[k] = (uint8_t)d;
        else if (d)
            frac[FRAC_MAX] = 1; /* only that something is there matters for rounding up */
    }
    for (int64_t e = 0; e < p->exp && whole <= limit; e++)
        whole = whole * 2 + (p->denom.n ? double_fraction(frac, sizeof(frac)) : 0);
    for (size_t k = 0; k < 9; k++)
        nano = nano * 10 + frac[k];
    for (size_t k = 9; k < sizeof(frac); k++)
        rest |= frac[k] != 0;
    if (whole >= limit) {
        *ret = (struct bh_quantity){BINARY_CAP, 0, BH_Q_BINARY_SI};
        return;
    }
    nano += rest;
    if (nano == 0)
        *ret = (struct bh_quantity){(i128)whole, 0, BH_Q_BINARY_SI};
    else
        *ret = (struct bh_quantity){(i128)whole * 1000000000 + nano, EXP_NANO, BH_Q_BINARY_SI};
    if (whole == 0 && nano && nano < 1000000000)
        ret->format = BH_Q_DECIMAL_SI; /* upstream: avoids rounding and hopefully confusion */
}

int bh_quantity_parse(struct bh_str s, struct bh_quantity *ret, struct bh_err *err)
{
    struct bh_quantity q;
    struct parts p;
    int r = split(s, &p, err);

    if (r < 0)
        return r;
    if (p.format == BH_Q_BINARY_SI) {
        from_binary(&p, &q);
    } else {
        r = from_decimal(&p, &q, err);
        if (r < 0)
            return r;
    }
    if (p.neg)
        q.coef = -q.coef;
    *ret = q;
    return 0;
}

struct bh_quantity bh_quantity_i64(int64_t v, enum bh_quantity_format f)
{
    return (struct bh_quantity){v, 0, f};
}

struct bh_quantity bh_quantity_milli(int64_t milli, enum bh_quantity_format f)
{
    return (struct bh_quantity){milli, -3, f};
}

/* ---- Arithmetic ---- */

int bh_quantity_sign(struct bh_quantity q)
{
    return (q.coef > 0) - (q.coef < 0);
}

/* *coef * 10^n; false (and *coef unchanged) when that leaves 38 digits. */
static bool scale_up(i128 *coef, int64_t n)
{
    i128 v;

    if (*coef == 0 || n == 0)
        return true;
    if (n > DIGITS_MAX || __builtin_mul_overflow(*coef, pow10_128((unsigned)n), &v) ||
        v > coef_max() || v < -coef_max())
        return false;
    *coef = v;
    return true;
}

/* Brings both to the smaller exponent; false when one of them does not fit there. */
static bool align(struct bh_quantity *a, struct bh_quantity *b)
{
    if (a->coef == 0)
        a->exp10 = b->exp10;
    if (b->coef == 0)
        b->exp10 = a->exp10;
    if (a->exp10 > b->exp10) {
        if (!scale_up(&a->coef, (int64_t)a->exp10 - b->exp10))
            return false;
        a->exp10 = b->exp10;
    } else {
        if (!scale_up(&b->coef, (int64_t)b->exp10 - a->exp10))
            return false;
        b->exp10 = a->exp10;
    }
    return true;
}

int bh_quantity_cmp(struct bh_quantity a, struct bh_quantity b)
{
    int sa = bh_quantity_sign(a), sb = bh_quantity_sign(b);

    if (sa != sb)
        return sa < sb ? -1 : 1;
    /* The one that cannot be scaled down to the other's exponent has the larger magnitude. */
    if (!align(&a, &b))
        return (a.exp10 > b.exp10) == (sa > 0) ? 1 : -1;
    return (a.coef > b.coef) - (a.coef < b.coef);
}

static struct bh_quantity trimmed(struct bh_quantity q)
{
    while (q.coef && q.coef % 10 == 0) {
        q.coef /= 10;
        q.exp10++;
    }
    return q;
}

struct bh_quantity bh_quantity_neg(struct bh_quantity q)
{
    q.coef = -q.coef;
    return q;
}

struct bh_quantity bh_quantity_add(struct bh_quantity a, struct bh_quantity b)
{
    enum bh_quantity_format f = a.coef == 0 ? b.format : a.format;
    struct bh_quantity x = a, y = b;
    i128 max = coef_max();

    if (!align(&x, &y)) {
        x = trimmed(a);
        y = trimmed(b);
        /* What does not fit 38 digits even so: the larger one stands, the other is below its last
         * digit. */
        if (!align(&x, &y))
            x.coef = x.exp10 > y.exp10 ? x.coef : y.coef,
            x.exp10 = x.exp10 > y.exp10 ? x.exp10 : y.exp10, y.coef = 0;
    }
    if (__builtin_add_overflow(x.coef, y.coef, &x.coef)) /* twice 10^38 is beyond 127 bits */
        x.coef = y.coef < 0 ? -max : max;
    if (x.coef > max)
        x.coef = max;
    if (x.coef < -max)
        x.coef = -max;
    x.format = f;
    return x;
}

struct bh_quantity bh_quantity_sub(struct bh_quantity a, struct bh_quantity b)
{
    return bh_quantity_add(a, bh_quantity_neg(b));
}

bool bh_quantity_mul(struct bh_quantity q, int64_t by, struct bh_quantity *ret)
{
    bool neg = (q.coef < 0) != (by < 0);
    struct bh_quantity t = trimmed(q);
    i128 v;

    if (__builtin_mul_overflow(t.coef, (i128)by, &v) || v > coef_max() || v < -coef_max()) {
        t.coef = neg ? -coef_max() : coef_max();
        *ret = t;
        return false;
    }
    t.coef = v;
    *ret = t;
    return true;
}

/* The value in units of 10^scale, rounded away from zero; saturates. */
struct bh_quantity bh_quantity_product(struct bh_quantity a, struct bh_quantity b)
{
    struct bh_quantity x = trimmed(a), y = trimmed(b);
    i128 max = coef_max();
    int32_t exp = x.exp10 + y.exp10;
    i128 v;

    if (__builtin_mul_overflow(x.coef, y.coef, &v) || v > max || v < -max)
        v = (x.coef < 0) != (y.coef < 0) ? -max : max;
    for (; exp < -9 && v; exp++) {
        i128 rest = v % 10;

        v = v / 10 + (rest > 0) - (rest < 0);
    }
    return (struct bh_quantity){.coef = v, .exp10 = v ? exp : 0, .format = a.format};
}

static int64_t scaled_value(struct bh_quantity q, int scale)
{
    int64_t shift = (int64_t)q.exp10 - scale;
    i128 v = q.coef;

    if (shift >= 0) {
        if (!scale_up(&v, shift))
            v = q.coef < 0 ? INT64_MIN : INT64_MAX;
    } else if (-shift > DIGITS_MAX) {
        v = (v > 0) - (v < 0);
    } else {
        i128 unit = pow10_128((unsigned)-shift);
        i128 r = v % unit;

        v = v / unit + (r > 0) - (r < 0);
    }
    return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

int64_t bh_quantity_value(struct bh_quantity q)
{
    return scaled_value(q, 0);
}

int64_t bh_quantity_milli_value(struct bh_quantity q)
{
    return scaled_value(q, -3);
}

bool bh_quantity_is_int(struct bh_quantity q, int64_t *ret)
{
    struct bh_quantity t = trimmed(q);
    i128 v = t.coef;

    if (v == 0) {
        *ret = 0;
        return true;
    }
    if (t.exp10 < 0 || !scale_up(&v, t.exp10) || v > INT64_MAX || v < INT64_MIN)
        return false;
    *ret = (int64_t)v;
    return true;
}

double bh_quantity_double(struct bh_quantity q)
{
    struct bh_quantity t = trimmed(q);

    if (t.exp10 < 0 && t.exp10 >= -22)
        return (double)t.coef / pow(10, -t.exp10);
    return (double)t.coef * pow(10, t.exp10);
}

/* ---- Formatting ---- */

/* Number, then zeros, then suffix. */
static struct bh_str put(char *buf, i128 coef, unsigned zeros, const char *suffix, int64_t exp)
{
    char rev[48];
    size_t n = 0, out = 0;
    u128 v = coef < 0 ? (u128)-coef : (u128)coef;

    do {
        rev[n++] = (char)('0' + (unsigned)(v % 10));
        v /= 10;
    } while (v);
    if (coef < 0)
        buf[out++] = '-';
    while (n)
        buf[out++] = rev[--n];
    while (zeros--)
        buf[out++] = '0';
    if (suffix) {
        for (; *suffix; suffix++)
            buf[out++] = *suffix;
        return (struct bh_str){buf, out};
    }
    if (!exp)
        return (struct bh_str){buf, out};
    buf[out++] = 'e';
    if (exp < 0)
        buf[out++] = '-';
    v = (u128)(exp < 0 ? -exp : exp);
    do {
        rev[n++] = (char)('0' + (unsigned)(v % 10));
        v /= 10;
    } while (v);
    while (n)
        buf[out++] = rev[--n];
    return (struct bh_str){buf, out};
}

static struct bh_str fmt_decimal(struct bh_quantity q, enum bh_quantity_format f, char *buf)
{
    unsigned zeros;
    int64_t exp;

    q = trimmed(q);
    zeros = (unsigned)((q.exp10 % 3 + 3) % 3);
    exp = (int64_t)q.exp10 - zeros;
    if (f == BH_Q_DECIMAL_SI && exp > 18) {
        /* There is no suffix beyond E: the rest becomes zeros, as long as that stays readable. */
        if (exp - 18 > 12)
            f = BH_Q_DECIMAL_EXP;
        else
            zeros += (unsigned)(exp - 18);
        exp = f == BH_Q_DECIMAL_SI ? 18 : exp;
    }
    if (f == BH_Q_DECIMAL_EXP)
        return put(buf, q.coef, zeros, NULL, exp);
    return put(buf, q.coef, zeros, suffixes[exp / 3 + 3].suffix, 0);
}

struct bh_str bh_quantity_fmt(struct bh_quantity q, char *buf)
{
    int64_t v;
    size_t power = 0;

    if (q.coef == 0)
        return put(buf, 0, 0, "", 0);
    if (q.format != BH_Q_BINARY_SI)
        return fmt_decimal(q, q.format, buf);
    /* Small or fractional numbers are shown as decimals, so that nothing is rounded. */
    if (!bh_quantity_is_int(q, &v) || (v > -1024 && v < 1024))
        return fmt_decimal(q, BH_Q_DECIMAL_SI, buf);
    while (power < 6 && v % 1024 == 0) {
        v /= 1024;
        power++;
    }
    return put(buf, v, 0, power ? suffixes[9 + power].suffix : "", 0);
}

struct bh_str bh_quantity_str(struct bh_arena *a, struct bh_quantity q)
{
    char buf[BH_Q_BUF];

    return bh_str_dup(a, bh_quantity_fmt(q, buf));
}

/* Whether upstream keeps the text of such a number as it came: a short one that looks as if it were
 * in its canonical form, though signs, leading zeros and the form of an exponent are not looked at.
 */
static bool kept(struct bh_str s)
{
    struct parts p;
    size_t n;

    if (split(s, &p, NULL) < 0 || !p.num.n)
        return false;
    n = p.num.n + p.denom.n;
    if (p.format == BH_Q_BINARY_SI) {
        unsigned last = 0; /* of eight */

        for (size_t k = 0; k < p.num.n; k++)
            last = (last * 10 + digit(&p, k)) % 8;
        return !p.denom.n && n + (size_t)(p.exp * 3 / 10) <= 14 && last;
    }
    return n <= 18 && p.exp - (int64_t)p.denom.n >= EXP_NANO &&
           (p.exp - (int64_t)p.denom.n) % 3 == 0 &&
           !(n >= 3 && !digit(&p, n - 1) && !digit(&p, n - 2) && !digit(&p, n - 3));
}

bool bh_quantity_is_canonical(struct bh_str s)
{
    uint32_t v = 0;
    size_t i = 0;
    bool binary;

    for (; i < s.n && i < 9 && s.p[i] >= '0' && s.p[i] <= '9'; i++)
        v = v * 10 + (uint32_t)(s.p[i] - '0');
    if (i == 0 || s.p[0] == '0')
        return bh_str_eqc(s, "0");
    binary = s.n - i == 2 && s.p[i + 1] == 'i' && strchr("KMG", s.p[i]) && s.p[i];
    if (binary)
        return v % 1024 != 0;
    return (s.n == i || (s.n - i == 1 && strchr("mkMG", s.p[i]) && s.p[i])) && v % 1000 != 0;
}

int bh_quantity_canonical(struct bh_arena *a, struct bh_str s, struct bh_str *ret,
                          struct bh_err *err)
{
    char buf[BH_Q_BUF];
    struct bh_quantity q;
    struct bh_str text;
    int r;

    if (bh_quantity_is_canonical(s)) {
        *ret = s;
        return 0;
    }
    r = bh_quantity_parse(bh_str_trim(s), &q, err);
    if (r < 0)
        return r;
    text = bh_quantity_fmt(q, buf);
    s = bh_str_trim(s);
    *ret = bh_str_eq(text, s) || kept(s) ? s : bh_str_dup(a, text);
    return 0;
}
