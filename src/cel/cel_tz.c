/* TZif files (RFC 8536), version 2 and later: transition times, then a rule string for the time
 * after them. */
#include "cel/cel_tz.h"

#include <pthread.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"

#define CEL_TZ_MAX      1024 /* cached zones; there are about 600 names */
#define TZ_FILE_MAX     (64 << 10)
#define TRANSITIONS_MAX 8192

struct rule {  /* Mm.w.d/time, or a Julian day form */
    char form; /* 'M', 'J' or '0' */
    int month, week, day;
    int64_t time;
};

struct zone {
    char name[64];
    bool ok;
    size_t n;
    int64_t *at;   /* transitions, ascending */
    int32_t *off;  /* offset from at[i] on */
    int32_t first; /* before at[0] */
    bool has_rule, has_dst;
    int32_t std_off, dst_off;
    struct rule start, end;
    struct zone *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct zone *zones;
static unsigned nzones;

static uint64_t be(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

static bool rule_num(const char **p, int64_t *ret)
{
    int64_t v = 0;
    const char *s = *p;

    while (**p >= '0' && **p <= '9' && v < 100000)
        v = v * 10 + (*(*p)++ - '0');
    *ret = v;
    return *p != s;
}

/* [+-]hh[:mm[:ss]] */
static bool rule_time(const char **p, int64_t *ret)
{
    int64_t h, m = 0, s = 0;
    int sign = 1;

    if (**p == '+' || **p == '-')
        sign = *(*p)++ == '-' ? -1 : 1;
    if (!rule_num(p, &h))
        return false;
    if (**p == ':') {
        (*p)++;
        if (!rule_num(p, &m))
            return false;
        if (**p == ':') {
            (*p)++;
            if (!rule_num(p, &s))
                return false;
        }
    }
    *ret = sign * (h * 3600 + m * 60 + s);
    return true;
}

static bool rule_name(const char **p)
{
    const char *s = *p;

    if (**p == '<') {
        while (**p && **p != '>')
            (*p)++;
        if (**p)
            (*p)++;
        return true;
    }
    while ((**p >= 'a' && **p <= 'z') || (**p >= 'A' && **p <= 'Z'))
        (*p)++;
    return *p - s >= 3;
}

static bool rule_date(const char **p, struct rule *r)
{
    int64_t v;

    if (*(*p)++ != ',')
        return false;
    r->form = '0';
    if (**p == 'M') {
        (*p)++;
        r->form = 'M';
        if (!rule_num(p, &v))
            return false;
        r->month = (int)v;
        if (*(*p)++ != '.' || !rule_num(p, &v))
            return false;
        r->week = (int)v;
        if (*(*p)++ != '.')
            return false;
    } else if (**p == 'J') {
        (*p)++;
        r->form = 'J';
    }
    if (!rule_num(p, &v))
        return false;
    r->day = (int)v;
    r->time = 7200;
    if (**p == '/') {
        (*p)++;
        return rule_time(p, &r->time);
    }
    return r->form != 'M' || (r->month >= 1 && r->month <= 12);
}

/* The footer: a POSIX TZ string such as CET-1CEST,M3.5.0,M10.5.0/3. */
static void parse_rule(struct zone *z, const char *p)
{
    int64_t off;

    if (!rule_name(&p) || !rule_time(&p, &off))
        return;
    z->std_off = (int32_t)-off;
    z->has_rule = true;
    if (!*p)
        return;
    z->dst_off = z->std_off + 3600;
    if (!rule_name(&p))
        return;
    if (*p && *p != ',') {
        if (!rule_time(&p, &off))
            return;
        z->dst_off = (int32_t)-off;
    }
    z->has_dst = rule_date(&p, &z->start) && rule_date(&p, &z->end);
}

static bool parse_tzif(struct zone *z, struct bh_str f)
{
    const uint8_t *p = (const uint8_t *)f.p;
    size_t pos = 0, types, ntrans, body;
    char footer[128];

    for (unsigned pass = 0; pass < 2; pass++) {
        size_t size = pass ? 8 : 4;
        uint64_t isut, isstd, leap, timecnt, typecnt, charcnt;

        if (f.n < pos + 44 || memcmp(p + pos, "TZif", 4) != 0 || p[pos + 4] < '2')
            return false;
        isut = be(p + pos + 20, 4);
        isstd = be(p + pos + 24, 4);
        leap = be(p + pos + 28, 4);
        timecnt = be(p + pos + 32, 4);
        typecnt = be(p + pos + 36, 4);
        charcnt = be(p + pos + 40, 4);
        body = pos + 44;
        if (timecnt > TRANSITIONS_MAX || typecnt > 256 || typecnt == 0 || charcnt > 4096 ||
            leap > 1000 || isut > 256 || isstd > 256)
            return false;
        ntrans = timecnt;
        types = body + ntrans * (size + 1);
        pos = types + typecnt * 6 + charcnt + leap * (size + 4) + isstd + isut;
        if (pos > f.n)
            return false;
        if (!pass)
            continue;
        z->n = ntrans;
        z->at = bh_calloc(ntrans + 1, sizeof(*z->at));
        z->off = bh_calloc(ntrans + 1, sizeof(*z->off));
        z->first = (int32_t)be(p + types, 4);
        for (size_t i = 0; i < ntrans; i++) {
            uint8_t t = p[body + ntrans * 8 + i];

            if (t >= typecnt)
                return false;
            z->at[i] = (int64_t)be(p + body + i * 8, 8);
            z->off[i] = (int32_t)be(p + types + t * 6u, 4);
        }
    }
    if (pos < f.n && f.p[pos] == '\n' && f.n - pos < sizeof(footer)) {
        size_t k = 0;

        for (pos++; pos < f.n && f.p[pos] != '\n'; pos++)
            footer[k++] = f.p[pos];
        footer[k] = '\0';
        parse_rule(z, footer);
    }
    return true;
}

static void load(struct zone *z, struct bh_str name)
{
    BH_AUTO_BUF b = {.max = TZ_FILE_MAX};
    char path[128];

    if (name.n == 0 || name.n >= sizeof(z->name) || name.p[0] == '/' || name.p[0] == '.' ||
        bh_str_find(name, BH_S("..")) >= 0 || memchr(name.p, '\0', name.n) ||
        memchr(name.p, '\\', name.n))
        return;
    if (bh_path(path, sizeof(path), NULL, "/usr/share/zoneinfo/%.*s", BH_SF(name)) < 0)
        return;
    if (bh_fs_read(path, TZ_FILE_MAX, &b, NULL) < 0)
        return;
    z->ok = parse_tzif(z, bh_buf_str(&b));
}

/* Seconds from the start of the year, in local standard or daylight time, at which the rule
 * strikes. */
static int64_t rule_at(const struct rule *r, int64_t year)
{
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    int64_t first = cel_days_from_civil(year, 1, 1), day, wday, m1;
    static const int len[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    if (r->form == 'J') {
        day = r->day - 1 + (leap && r->day >= 60);
    } else if (r->form == '0') {
        day = r->day;
    } else {
        m1 = cel_days_from_civil(year, (unsigned)r->month, 1);
        wday = ((m1 + 4) % 7 + 7) % 7;
        day = (r->day - wday + 7) % 7 + (r->week - 1) * 7;
        if (day >= len[r->month - 1] + (r->month == 2 && leap))
            day -= 7;
        day += m1 - first;
    }
    return (first + day) * 86400 + r->time;
}

static int64_t offset_of(const struct zone *z, int64_t t)
{
    size_t lo = 0, hi = z->n;

    if (z->has_rule && (z->n == 0 || t >= z->at[z->n - 1])) {
        int64_t year = 1970 + (t + z->std_off) / 31556952, s, e;
        bool dst;

        if (!z->has_dst)
            return z->std_off;
        /* The estimate of the year may be one off around New Year. */
        while (cel_days_from_civil(year, 1, 1) * 86400 > t + z->std_off)
            year--;
        while (cel_days_from_civil(year + 1, 1, 1) * 86400 <= t + z->std_off)
            year++;
        s = rule_at(&z->start, year) - z->std_off;
        e = rule_at(&z->end, year) - z->dst_off;
        dst = s < e ? t >= s && t < e : t >= s || t < e;
        return dst ? z->dst_off : z->std_off;
    }
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (z->at[mid] <= t)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? z->off[lo - 1] : z->first;
}

bool cel_tz_offset(struct bh_str name, int64_t unix_sec, int64_t *ret)
{
    struct zone *z;
    bool ok;

    *ret = 0;
    if (name.n == 0 || bh_str_eqc(name, "UTC"))
        return true;
    if (name.n >= sizeof(z->name))
        return false;
    (void)pthread_mutex_lock(&lock);
    for (z = zones; z; z = z->next)
        if (bh_str_eqc(name, z->name))
            break;
    if (!z) {
        struct zone one = {0};

        load(&one, name);
        if (one.ok && nzones < CEL_TZ_MAX) {
            z = bh_memdup(&one, sizeof(one));
            memcpy(z->name, name.p, name.n);
            z->next = zones;
            zones = z;
            nzones++;
        } else {
            if (one.ok)
                *ret = offset_of(&one, unix_sec);
            bh_free(one.at);
            bh_free(one.off);
            (void)pthread_mutex_unlock(&lock);
            return one.ok;
        }
    }
    ok = z->ok;
    if (ok)
        *ret = offset_of(z, unix_sec);
    (void)pthread_mutex_unlock(&lock);
    return ok;
}
