/* Timestamps and durations: their texts and accessors. */
#include "cel/cel_eval.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cel/cel_tz.h"
#include "data/time_fmt.h"

#define SEC_MIN (-62135596800)
#define SEC_MAX 253402300799
#define NS      1000000000

/* Days since the epoch of a date of the proleptic Gregorian calendar. */
int64_t cel_days_from_civil(int64_t y, unsigned m, unsigned d)
{
    int64_t era;
    unsigned yoe, doy, doe;

    y -= m <= 2;
    era = (y >= 0 ? y : y - 399) / 400;
    yoe = (unsigned)(y - era * 400);
    doy = (153 * (m + (m > 2 ? -3u : 9u)) + 2) / 5 + d - 1;
    doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + (int64_t)doe - 719468;
}

struct civil {
    int64_t year;
    unsigned month, day; /* from 1 */
    unsigned yday, wday, hour, min, sec;
};

static void civil_from(int64_t sec, struct civil *c)
{
    int64_t days = sec / 86400, rest = sec % 86400, z, era;
    unsigned doe, yoe, doy, mp;

    if (rest < 0) {
        rest += 86400;
        days--;
    }
    c->hour = (unsigned)(rest / 3600);
    c->min = (unsigned)(rest / 60 % 60);
    c->sec = (unsigned)(rest % 60);
    c->wday = (unsigned)(((days + 4) % 7 + 7) % 7);
    z = days + 719468;
    era = (z >= 0 ? z : z - 146096) / 146097;
    doe = (unsigned)(z - era * 146097);
    yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    mp = (5 * doy + 2) / 153;
    c->day = doy - (153 * mp + 2) / 5 + 1;
    c->month = mp < 10 ? mp + 3 : mp - 9;
    c->year = (int64_t)yoe + era * 400 + (c->month <= 2);
    c->yday = (unsigned)(days - cel_days_from_civil(c->year, 1, 1));
}

/* n digits at *i. */
static bool digits(struct bh_str s, size_t *i, unsigned n, unsigned *ret)
{
    unsigned v = 0;

    if (*i + n > s.n)
        return false;
    for (unsigned k = 0; k < n; k++) {
        char c = s.p[*i + k];

        if (c < '0' || c > '9')
            return false;
        v = v * 10 + (unsigned)(c - '0');
    }
    *i += n;
    *ret = v;
    return true;
}

static bool sep(struct bh_str s, size_t *i, char c)
{
    if (*i >= s.n || s.p[*i] != c)
        return false;
    (*i)++;
    return true;
}

/* RFC 3339 as Go's parser reads it: a one-digit hour and a comma before the fraction pass. */
bool cel_time_parse(struct bh_str s, struct bh_cel_time *ret)
{
    static const unsigned days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned y, mo, d, h, mi, sec, oh, om, max;
    size_t i = 0;
    int64_t t, nsec = 0, off = 0;
    bool leap;

    if (!digits(s, &i, 4, &y) || !sep(s, &i, '-') || !digits(s, &i, 2, &mo) || !sep(s, &i, '-') ||
        !digits(s, &i, 2, &d) || !sep(s, &i, 'T'))
        return false;
    if (!digits(s, &i, 2, &h) && !digits(s, &i, 1, &h))
        return false;
    if (!sep(s, &i, ':') || !digits(s, &i, 2, &mi) || !sep(s, &i, ':') || !digits(s, &i, 2, &sec))
        return false;
    if (i + 1 < s.n && (s.p[i] == '.' || s.p[i] == ',') && s.p[i + 1] >= '0' && s.p[i + 1] <= '9') {
        int64_t unit = NS / 10;

        for (i++; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) {
            nsec += (s.p[i] - '0') * unit;
            unit /= 10;
        }
    }
    if (sep(s, &i, 'Z')) {
        off = 0;
    } else {
        bool minus = i < s.n && s.p[i] == '-';

        if (!sep(s, &i, minus ? '-' : '+') || !digits(s, &i, 2, &oh) || !sep(s, &i, ':') ||
            !digits(s, &i, 2, &om) || oh > 24 || om > 60)
            return false;
        off = (int64_t)oh * 3600 + om * 60;
        off = minus ? -off : off;
    }
    leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    if (i != s.n || mo < 1 || mo > 12 || h > 23 || mi > 59 || sec > 59)
        return false;
    max = days[mo - 1] + (mo == 2 && leap);
    if (d < 1 || d > max)
        return false;
    t = cel_days_from_civil(y, mo, d) * 86400 + h * 3600 + mi * 60 + sec - off;
    *ret = (struct bh_cel_time){t, (int32_t)nsec, (int32_t)off};
    return true;
}

struct bh_str cel_time_text(struct bh_arena *a, const struct bh_cel_time *t)
{
    struct civil c;
    char frac[16] = "", zone[16] = "Z";
    int n;

    civil_from(t->sec + t->offset_sec, &c);
    if (t->nsec) {
        n = snprintf(frac, sizeof(frac), ".%09d", t->nsec);
        while (n > 0 && frac[n - 1] == '0')
            frac[--n] = '\0';
    }
    if (t->offset_sec) {
        int off = t->offset_sec < 0 ? -t->offset_sec : t->offset_sec;

        (void)snprintf(zone, sizeof(zone), "%c%02d:%02d", t->offset_sec < 0 ? '-' : '+',
                       off / 3600 % 100, off / 60 % 60);
    }
    return bh_str_fmt(a, "%04lld-%02u-%02uT%02u:%02u:%02u%s%s", (long long)c.year, c.month, c.day,
                      c.hour, c.min, c.sec, frac, zone);
}

bool cel_duration_parse(struct bh_str s, int64_t *ret)
{
    return bh_duration_parse(s, ret, NULL) == 0;
}

/* Seconds as the shortest decimal that gives the double of the duration, as Go prints d.Seconds().
 */
struct bh_str cel_duration_text(struct bh_arena *a, int64_t ns)
{
    int64_t sec = ns / NS, frac = ns % NS;
    double d = (double)sec + (double)frac / 1e9;
    char buf[64];

    for (int p = 0; p <= 9; p++) {
        char *end;

        (void)snprintf(buf, sizeof(buf), "%.*f", p, d);
        if (strtod(buf, &end) == d)
            break;
    }
    return bh_str_fmt(a, "%ss", buf);
}

/* ---- conversions
 * ---------------------------------------------------------------------------------------------------------
 */

CEL_FN(cel_f_timestamp)
{
    struct bh_cel_time t;

    (void)n;
    if (args[0].kind == BH_CEL_TIMESTAMP)
        return args[0];
    if (args[0].kind == BH_CEL_INT) {
        if (args[0].i < SEC_MIN || args[0].i > SEC_MAX)
            return bh_cel_error(run, "timestamp overflow");
        return cel_time_value(run->a, args[0].i, 0, 0);
    }
    if (!cel_time_parse(bh_cel_as_str(args[0]), &t))
        return cel_err_conv(run, args[0], "google.protobuf.Timestamp");
    if (t.sec < SEC_MIN || t.sec > SEC_MAX)
        return bh_cel_error(run, "timestamp overflow");
    return cel_time_value(run->a, t.sec, t.nsec, t.offset_sec);
}

CEL_FN(cel_f_duration)
{
    int64_t ns;

    (void)n;
    if (args[0].kind == BH_CEL_DURATION)
        return args[0];
    if (args[0].kind != BH_CEL_STRING || !cel_duration_parse(bh_cel_as_str(args[0]), &ns))
        return cel_err_conv(run, args[0], "google.protobuf.Duration");
    return (struct bh_cel_value){.kind = BH_CEL_DURATION, .i = ns};
}

/* ---- accessors
 * -----------------------------------------------------------------------------------------------------------
 */

/* "[+|-]HH:MM": no range check, and the minutes take the sign of a leading '-'. */
static bool fixed_zone(struct bh_str s, int64_t *ret)
{
    ptrdiff_t colon = bh_str_chr(s, ':', 0);
    struct bh_str h = bh_str_sub(s, 0, (size_t)colon), m = bh_str_sub(s, (size_t)colon + 1, s.n);
    bool minus = h.n > 0 && h.p[0] == '-';
    int64_t hours, minutes;

    if (h.n > 0 && (h.p[0] == '+' || h.p[0] == '-'))
        h = bh_str_sub(h, 1, h.n);
    if (!bh_str_i64(h, 0, 1000000, &hours) || !bh_str_i64(m, 0, 1000000, &minutes))
        return false;
    *ret = (hours * 60 + minutes) * 60;
    if (minus)
        *ret = -*ret;
    return true;
}

enum part {
    P_YEAR,
    P_MONTH,
    P_YDAY,
    P_DATE,
    P_MDAY,
    P_WDAY,
    P_HOURS,
    P_MINUTES,
    P_SECONDS,
    P_MILLIS
};

static struct bh_cel_value accessor(struct bh_cel_run *run, const struct bh_cel_value *args,
                                    unsigned n, enum part part)
{
    const struct bh_cel_time *t = args[0].time;
    struct civil c;
    int64_t off = 0;

    if (args[0].kind == BH_CEL_DURATION) {
        int64_t d = args[0].i;

        return bh_cel_int(part == P_HOURS     ? d / NS / 3600
                          : part == P_MINUTES ? d / NS / 60
                          : part == P_SECONDS ? d / NS
                                              : d / 1000000);
    }
    if (n == 2) {
        struct bh_str zone = bh_cel_as_str(args[1]);

        if (bh_str_chr(zone, ':', 0) >= 0 ? !fixed_zone(zone, &off)
                                          : !cel_tz_offset(zone, t->sec, &off))
            return bh_cel_error(run, "unknown time zone %.*s", BH_SF(zone));
    }
    civil_from(t->sec + off, &c);
    switch (part) {
    case P_YEAR:
        return bh_cel_int(c.year);
    case P_MONTH:
        return bh_cel_int(c.month - 1);
    case P_YDAY:
        return bh_cel_int(c.yday);
    case P_DATE:
        return bh_cel_int(c.day);
    case P_MDAY:
        return bh_cel_int(c.day - 1);
    case P_WDAY:
        return bh_cel_int(c.wday);
    case P_HOURS:
        return bh_cel_int(c.hour);
    case P_MINUTES:
        return bh_cel_int(c.min);
    case P_SECONDS:
        return bh_cel_int(c.sec);
    default:
        return bh_cel_int(t->nsec / 1000000);
    }
}

#define ACCESSOR(id, part)                                                                         \
    CEL_FN(cel_f_get_##id)                                                                         \
    {                                                                                              \
        return accessor(run, args, n, part);                                                       \
    }
ACCESSOR(year, P_YEAR)
ACCESSOR(month, P_MONTH)
ACCESSOR(yday, P_YDAY)
ACCESSOR(date, P_DATE)
ACCESSOR(mday, P_MDAY)
ACCESSOR(wday, P_WDAY)
ACCESSOR(hours, P_HOURS)
ACCESSOR(minutes, P_MINUTES)
ACCESSOR(seconds, P_SECONDS)
ACCESSOR(millis, P_MILLIS)
