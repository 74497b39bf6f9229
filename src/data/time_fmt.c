/* RFC 3339 as Go's time.Parse reads it, and the duration texts of tables and flags. */
#include "data/time_fmt.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"

#define NS       1000000000LL
#define ZERO_SEC (-62135596800LL) /* 0001-01-01T00:00:00Z, Go's zero time */
#define MAX_SEC  253402300799LL   /* 9999-12-31T23:59:59Z */
#define MIN_SEC  (-62167219200LL) /* 0000-01-01T00:00:00Z */

/* ---- Calendar ---- */

/* Days since 1970-01-01 of a date in the proleptic Gregorian calendar (years counted from March,
 * 400-year eras). */
static int64_t days_from_civil(int64_t y, int m, int d)
{
    int64_t era, yoe, doy;

    y -= m <= 2;
    era = (y >= 0 ? y : y - 399) / 400;
    yoe = y - era * 400;
    doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static void civil_from_days(int64_t z, int *y, int *m, int *d)
{
    int64_t era, doe, yoe, doy, mp;

    z += 719468;
    era = (z >= 0 ? z : z - 146096) / 146097;
    doe = z - era * 146097;
    yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    mp = (5 * doy + 2) / 153;
    *d = (int)(doy - (153 * mp + 2) / 5 + 1);
    *m = (int)(mp < 10 ? mp + 3 : mp - 9);
    *y = (int)(yoe + era * 400 + (*m <= 2));
}

static int days_in(int m, int y)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    if (m == 2 && y % 4 == 0 && (y % 100 != 0 || y % 400 == 0))
        return 29;
    return days[m - 1];
}

int bh_time_cmp(struct bh_time a, struct bh_time b)
{
    if (a.sec != b.sec)
        return a.sec < b.sec ? -1 : 1;
    return (a.nsec > b.nsec) - (a.nsec < b.nsec);
}

/* ---- Parsing ---- */

/* One parse: what is left of the value, and the layout element that is being matched. */
struct parse {
    struct bh_str whole, rest;
    const char *layout;
    struct bh_err *err;
};

/* Go's quote(): anything but printable ASCII becomes \xNN. */
static void quote(struct bh_buf *b, struct bh_str s)
{
    bh_buf_addc(b, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c >= 0x80 || c < ' ') {
            bh_buf_addf(b, "\\x%02x", c);
            continue;
        }
        if (c == '"' || c == '\\')
            bh_buf_addc(b, '\\');
        bh_buf_addc(b, (char)c);
    }
    bh_buf_addc(b, '"');
}

static int bad_elem(struct parse *p, const char *elem)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addz(&b, "parsing time ");
    quote(&b, p->whole);
    bh_buf_addz(&b, " as ");
    quote(&b, bh_s(p->layout));
    bh_buf_addz(&b, ": cannot parse ");
    quote(&b, p->rest);
    bh_buf_addz(&b, " as ");
    quote(&b, bh_s(elem));
    return bh_err_set(p->err, BH_E_BAD_REQUEST, "%s", bh_buf_cstr(&b));
}

static int bad_time(struct parse *p, const char *what)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addz(&b, "parsing time ");
    quote(&b, p->whole);
    bh_buf_addz(&b, what);
    return bh_err_set(p->err, BH_E_BAD_REQUEST, "%s", bh_buf_cstr(&b));
}

static bool digit_at(struct bh_str s, size_t i)
{
    return i < s.n && s.p[i] >= '0' && s.p[i] <= '9';
}

static int literal(struct parse *p, char c)
{
    char elem[2] = {c, '\0'};

    if (!p->rest.n || p->rest.p[0] != c)
        return bad_elem(p, elem);
    p->rest = bh_str_sub(p->rest, 1, p->rest.n);
    return 0;
}

/* Two digits, or one where Go takes one (hours). what is nothing, or the name for the range error.
 */
static int number(struct parse *p, const char *elem, bool fixed, int min, int max,
                  const char *range, int *ret)
{
    int v;

    if (!digit_at(p->rest, 0) || (fixed && !digit_at(p->rest, 1)))
        return bad_elem(p, elem);
    v = p->rest.p[0] - '0';
    if (digit_at(p->rest, 1))
        v = v * 10 + p->rest.p[1] - '0';
    p->rest = bh_str_sub(p->rest, digit_at(p->rest, 1) ? 2 : 1, p->rest.n);
    if (v < min || v > max)
        return bad_time(p, range);
    *ret = v;
    return 0;
}

static int year(struct parse *p, int *ret)
{
    *ret = 0;
    if (p->rest.n < 4 || !digit_at(p->rest, 0))
        return bad_elem(p, "2006");
    for (size_t i = 0; i < 4; i++) {
        if (!digit_at(p->rest, i))
            return bad_elem(p, "2006");
        *ret = *ret * 10 + p->rest.p[i] - '0';
    }
    p->rest = bh_str_sub(p->rest, 4, p->rest.n);
    return 0;
}

static bool comma_or_period(struct bh_str s)
{
    return s.n && (s.p[0] == '.' || s.p[0] == ',');
}

/* Any number of decimals, which Go accepts even where the layout has none; digits beyond nine are
 * ignored. */
static void fraction(struct parse *p, int32_t *ret)
{
    int32_t unit = 100000000;
    size_t i = 1;

    *ret = 0;
    if (!comma_or_period(p->rest) || !digit_at(p->rest, 1))
        return;
    for (; digit_at(p->rest, i); i++) {
        *ret += (p->rest.p[i] - '0') * unit;
        unit /= 10;
    }
    p->rest = bh_str_sub(p->rest, i, p->rest.n);
}

static int micros(struct parse *p, int32_t *ret)
{
    int32_t unit = 100000000;

    *ret = 0;
    if (p->rest.n < 7 || !comma_or_period(p->rest))
        return bad_elem(p, ".000000");
    for (size_t i = 1; i < 7; i++) {
        if (!digit_at(p->rest, i))
            return bad_elem(p, ".000000");
        *ret += (p->rest.p[i] - '0') * unit;
        unit /= 10;
    }
    p->rest = bh_str_sub(p->rest, 7, p->rest.n);
    return 0;
}

static int zone(struct parse *p, int64_t *ret_offset)
{
    struct bh_str r = p->rest;
    int64_t h, m;

    *ret_offset = 0;
    if (r.n && r.p[0] == 'Z') {
        p->rest = bh_str_sub(r, 1, r.n);
        return 0;
    }
    if (r.n < 6 || r.p[3] != ':' || (r.p[0] != '+' && r.p[0] != '-') || !digit_at(r, 1) ||
        !digit_at(r, 2) || !digit_at(r, 4) || !digit_at(r, 5))
        return bad_elem(p, "Z07:00");
    h = (r.p[1] - '0') * 10 + r.p[2] - '0';
    m = (r.p[4] - '0') * 10 + r.p[5] - '0';
    if (h > 24)
        return bad_time(p, ": time zone offset hour out of range");
    if (m > 60)
        return bad_time(p, ": time zone offset minute out of range");
    *ret_offset = (h * 60 + m) * 60 * (r.p[0] == '-' ? -1 : 1);
    p->rest = bh_str_sub(r, 6, r.n);
    return 0;
}

static int parse_date(struct parse *p, int *y, int *mo, int *d)
{
    int r = year(p, y);

    r = r < 0 ? r : literal(p, '-');
    r = r < 0 ? r : number(p, "01", true, 1, 12, ": month out of range", mo);
    r = r < 0 ? r : literal(p, '-');
    return r < 0 ? r : number(p, "02", true, 0, 99, "", d);
}

static int parse_clock(struct parse *p, int *h, int *mi, int *s)
{
    int r = literal(p, 'T');

    r = r < 0 ? r : number(p, "15", false, 0, 23, ": hour out of range", h);
    r = r < 0 ? r : literal(p, ':');
    r = r < 0 ? r : number(p, "04", true, 0, 59, ": minute out of range", mi);
    r = r < 0 ? r : literal(p, ':');
    return r < 0 ? r : number(p, "05", true, 0, 59, ": second out of range", s);
}

static int extra_text(struct parse *p)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addz(&b, ": extra text: ");
    quote(&b, p->rest);
    return bad_time(p, bh_buf_cstr(&b));
}

static int parse_rfc3339(struct bh_str s, bool micro, struct bh_time *ret, struct bh_err *err)
{
    struct parse p = {
        s, s, micro ? "2006-01-02T15:04:05.000000Z07:00" : "2006-01-02T15:04:05Z07:00", err};
    int y = 0, mo = 0, d = 0, h = 0, mi = 0, sec = 0;
    int64_t offset = 0;
    int32_t nsec = 0;
    int r = parse_date(&p, &y, &mo, &d);

    r = r < 0 ? r : parse_clock(&p, &h, &mi, &sec);
    if (r >= 0 && micro)
        r = micros(&p, &nsec);
    else if (r >= 0)
        fraction(&p, &nsec);
    r = r < 0 ? r : zone(&p, &offset);
    if (r < 0)
        return r;
    if (p.rest.n)
        return extra_text(&p);
    if (d < 1 || d > days_in(mo, y))
        return bad_time(&p, ": day out of range");
    ret->sec = days_from_civil(y, mo, d) * 86400 + h * 3600 + mi * 60 + sec - offset;
    ret->nsec = nsec;
    if (ret->sec == ZERO_SEC && nsec == 0)
        *ret = (struct bh_time){0, 0};
    else if (ret->sec == 0 && nsec == 0)
        ret->nsec = 1;
    return 0;
}

int bh_time_parse(struct bh_str s, struct bh_time *ret, struct bh_err *err)
{
    return parse_rfc3339(s, false, ret, err);
}

int bh_time_parse_micro(struct bh_str s, struct bh_time *ret, struct bh_err *err)
{
    return parse_rfc3339(s, true, ret, err);
}

/* ---- Formatting ---- */

static void put2(char *p, int v)
{
    p[0] = (char)('0' + v / 10 % 10);
    p[1] = (char)('0' + v % 10);
}

/* decimals: 0, 6, or -1 for as many as are not zero. */
static struct bh_str fmt(struct bh_time t, int decimals, char *buf)
{
    int64_t sec = bh_time_is_zero(t) ? ZERO_SEC : t.sec;
    int64_t days = sec / 86400, left = sec % 86400;
    int y, mo, d;
    size_t n = 19;

    if (sec < MIN_SEC || sec > MAX_SEC)
        return (struct bh_str){buf, 0};
    if (left < 0) {
        left += 86400;
        days--;
    }
    civil_from_days(days, &y, &mo, &d);
    put2(buf, y / 100);
    put2(buf + 2, y % 100);
    buf[4] = buf[7] = '-';
    put2(buf + 5, mo);
    put2(buf + 8, d);
    buf[10] = 'T';
    put2(buf + 11, (int)(left / 3600));
    put2(buf + 14, (int)(left / 60 % 60));
    put2(buf + 17, (int)(left % 60));
    buf[13] = buf[16] = ':';
    if (decimals) {
        int32_t v = t.sec == 0 && t.nsec == 1 ? 0 : t.nsec;
        size_t digits = decimals > 0 ? (size_t)decimals : 9;

        buf[n] = '.';
        for (size_t i = 0, unit = 100000000; i < 9; i++, unit /= 10)
            buf[n + 1 + i] = (char)('0' + v / (int32_t)unit % 10);
        while (decimals < 0 && digits && buf[n + digits] == '0')
            digits--;
        n += digits ? digits + 1 : 0;
    }
    buf[n++] = 'Z';
    return (struct bh_str){buf, n};
}

struct bh_str bh_time_fmt(struct bh_time t, char *buf)
{
    return fmt(t, 0, buf);
}

struct bh_str bh_time_fmt_micro(struct bh_time t, char *buf)
{
    return fmt(t, 6, buf);
}

struct bh_str bh_time_fmt_nano(struct bh_time t, char *buf)
{
    return fmt(t, -1, buf);
}

/* ---- Durations ---- */

int64_t bh_time_diff_ns(struct bh_time to, struct bh_time from)
{
    __int128 d = ((__int128)to.sec - from.sec) * NS + to.nsec - from.nsec;

    return d > INT64_MAX ? INT64_MAX : d < INT64_MIN ? INT64_MIN : (int64_t)d;
}

struct bh_time bh_time_add_ns(struct bh_time t, int64_t ns)
{
    int64_t nsec = t.nsec + ns % NS;

    t.sec += ns / NS;
    if (nsec < 0) {
        nsec += NS;
        t.sec--;
    } else if (nsec >= NS) {
        nsec -= NS;
        t.sec++;
    }
    t.nsec = (int32_t)nsec;
    if (t.sec == 0 && t.nsec == 0)
        t.nsec = 1;
    return t;
}

/* "3h4m", or "3h" when the smaller part is zero. */
static struct bh_str two_units(char *buf, long long big, char bu, long long small, char su)
{
    int n = small ? snprintf(buf, BH_TIME_BUF, "%lld%c%lld%c", big, bu, small, su)
                  : snprintf(buf, BH_TIME_BUF, "%lld%c", big, bu);

    return (struct bh_str){buf, (size_t)n};
}

struct bh_str bh_duration_human(int64_t ns, char *buf)
{
    long long s = ns / NS, m = s / 60, h = m / 60, d = h / 24;

    if (s < -1)
        return BH_S("<invalid>");
    if (ns < 0)
        return BH_S("0s");
    if (s < 120)
        return two_units(buf, s, 's', 0, 0);
    if (m < 10)
        return two_units(buf, m, 'm', s % 60, 's');
    if (m < 180)
        return two_units(buf, m, 'm', 0, 0);
    if (h < 8)
        return two_units(buf, h, 'h', m % 60, 'm');
    if (h < 48)
        return two_units(buf, h, 'h', 0, 0);
    if (h < 192)
        return two_units(buf, d, 'd', h % 24, 'h');
    if (h < 24 * 365 * 2)
        return two_units(buf, d, 'd', 0, 0);
    if (h < 24 * 365 * 8)
        return two_units(buf, d / 365, 'y', d % 365, 'd');
    return two_units(buf, d / 365, 'y', 0, 0);
}

struct bh_str bh_age(struct bh_time now, struct bh_time t, char *buf)
{
    if (bh_time_is_zero(t))
        return BH_S("<unknown>");
    return bh_duration_human(bh_time_diff_ns(now, t), buf);
}

static const struct {
    const char *name;
    int64_t ns;
} units[] = {
    {"ns", 1},       {"us", 1000}, {"\xc2\xb5s", 1000}, {"\xce\xbcs", 1000},
    {"ms", 1000000}, {"s", NS},    {"m", 60 * NS},      {"h", 3600 * NS},
};

static int64_t unit_ns(struct bh_str name)
{
    for (size_t i = 0; i < BH_COUNT(units); i++)
        if (bh_str_eqc(name, units[i].name))
            return units[i].ns;
    return 0;
}

static int bad_duration(struct bh_str s, const char *what, struct bh_str unit, struct bh_err *err)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addf(&b, "time: %s ", what);
    if (unit.p) {
        quote(&b, unit);
        bh_buf_addz(&b, " in duration ");
    }
    quote(&b, s);
    return bh_err_set(err, BH_E_BAD_REQUEST, "%s", bh_buf_cstr(&b));
}

/* One "12.5ms" at *at; adds to *total (nanoseconds, at most 2^63). */
static int duration_term(struct bh_str s, size_t *at, __int128 *total, struct bh_err *err)
{
    const struct bh_str none = {NULL, 0};
    size_t i = *at, start;
    __int128 whole = 0, frac = 0, scale = 1;
    bool any = false;
    int64_t unit;

    for (; digit_at(s, i); i++, any = true)
        if (whole <= INT64_MAX)
            whole = whole * 10 + (s.p[i] - '0');
    if (i < s.n && s.p[i] == '.') {
        for (i++; digit_at(s, i); i++, any = true) {
            if (scale < NS * 1000000) {
                frac = frac * 10 + (s.p[i] - '0');
                scale *= 10;
            }
        }
    }
    if (!any)
        return bad_duration(s, "invalid duration", none, err);
    start = i;
    while (i < s.n && s.p[i] != '.' && !digit_at(s, i))
        i++;
    if (i == start)
        return bad_duration(s, "missing unit in duration", none, err);
    unit = unit_ns(bh_str_sub(s, start, i));
    if (!unit)
        return bad_duration(s, "unknown unit", bh_str_sub(s, start, i), err);
    *total +=
        whole > (__int128)INT64_MAX + 1 ? (__int128)1 << 64 : whole * unit + frac * unit / scale;
    if (*total > (__int128)INT64_MAX + 1)
        return bad_duration(s, "invalid duration", none, err);
    *at = i;
    return 0;
}

int bh_duration_parse(struct bh_str s, int64_t *ret_ns, struct bh_err *err)
{
    const struct bh_str none = {NULL, 0};
    bool neg = s.n && s.p[0] == '-';
    size_t i = s.n && (s.p[0] == '-' || s.p[0] == '+') ? 1 : 0;
    __int128 total = 0;

    if (s.n - i == 1 && s.p[i] == '0') {
        *ret_ns = 0;
        return 0;
    }
    if (i == s.n)
        return bad_duration(s, "invalid duration", none, err);
    while (i < s.n) {
        int r = duration_term(s, &i, &total, err);

        if (r < 0)
            return r;
    }
    if (!neg && total > INT64_MAX)
        return bad_duration(s, "invalid duration", none, err);
    *ret_ns = (int64_t)(neg ? -total : total);
    return 0;
}

/* v / 10^decimals with the zeros at the end left out. */
static int put_fraction(char *buf, size_t n, uint64_t v, int decimals)
{
    uint64_t unit = 1;
    int len;

    for (int i = 0; i < decimals; i++)
        unit *= 10;
    len = snprintf(buf, n, "%llu", (unsigned long long)(v / unit));
    if (v % unit == 0)
        return len;
    len +=
        snprintf(buf + len, n - (size_t)len, ".%0*llu", decimals, (unsigned long long)(v % unit));
    while (buf[len - 1] == '0')
        buf[--len] = '\0';
    return len;
}

struct bh_str bh_duration_fmt(int64_t ns, char *buf)
{
    uint64_t u = ns < 0 ? (uint64_t)0 - (uint64_t)ns : (uint64_t)ns;
    char frac[32];
    const char *sign = ns < 0 ? "-" : "";
    unsigned long long m = u / (60 * (uint64_t)NS), h = m / 60;
    int n;

    if (u == 0)
        return BH_S("0s");
    if (u < (uint64_t)NS) {
        int decimals = u < 1000 ? 0 : u < 1000000 ? 3 : 6;
        const char *unit = u < 1000 ? "ns" : u < 1000000 ? "\xc2\xb5s" : "ms";

        (void)put_fraction(frac, sizeof(frac), u, decimals);
        n = snprintf(buf, BH_TIME_BUF, "%s%s%s", sign, frac, unit);
        return (struct bh_str){buf, (size_t)n};
    }
    (void)put_fraction(frac, sizeof(frac), u % (60 * (uint64_t)NS), 9);
    if (h)
        n = snprintf(buf, BH_TIME_BUF, "%s%lluh%llum%ss", sign, h, m % 60, frac);
    else if (m)
        n = snprintf(buf, BH_TIME_BUF, "%s%llum%ss", sign, m, frac);
    else
        n = snprintf(buf, BH_TIME_BUF, "%s%ss", sign, frac);
    return (struct bh_str){buf, (size_t)n};
}
