/* Tests of times and durations. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/test.h"
#include "data/time_fmt.h"

#define T "2006-01-02T15:04:05Z07:00"
#define M "2006-01-02T15:04:05.000000Z07:00"

BH_TEST(time_parses_and_formats)
{
    static const struct {
        const char *in, *want, *nano;
    } t[] = {
        {"2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"},
        {"2026-01-02T03:04:05.5+02:00", "2026-01-02T01:04:05Z", "2026-01-02T01:04:05.5Z"},
        {"2026-01-02T03:04:05,123456789Z", "2026-01-02T03:04:05Z",
         "2026-01-02T03:04:05.123456789Z"},
        {"2024-02-29T23:59:59-01:30", "2024-03-01T01:29:59Z", "2024-03-01T01:29:59Z"},
        {"2026-01-02T3:04:05Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"},
        {"1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"},
        {"1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"},
        {"9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"},
        {"0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"},
        {"1900-03-01T00:00:00Z", "1900-03-01T00:00:00Z", "1900-03-01T00:00:00Z"},
    };
    char buf[BH_TIME_BUF];
    struct bh_time v;

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_EQ(bh_time_parse(bh_s(t[i].in), &v, NULL), 0);
        BH_CHECK(!bh_time_is_zero(v));
        BH_STREQ(bh_time_fmt(v, buf), t[i].want);
        BH_STREQ(bh_time_fmt_nano(v, buf), t[i].nano);
    }
    BH_EQ(bh_time_parse(BH_S("0001-01-01T00:00:00Z"), &v, NULL), 0);
    BH_CHECK(bh_time_is_zero(v));
    BH_EQ(bh_time_parse_micro(BH_S("1970-01-01T00:00:00.000000Z"), &v, NULL), 0);
    BH_STREQ(bh_time_fmt_micro(v, buf), "1970-01-01T00:00:00.000000Z");
    BH_EQ(bh_time_parse_micro(BH_S("2026-01-02T03:04:05.000120Z"), &v, NULL), 0);
    BH_STREQ(bh_time_fmt_micro(v, buf), "2026-01-02T03:04:05.000120Z");
    BH_EQ(v.sec, 1767323045);
    BH_STREQ(bh_time_fmt((struct bh_time){INT64_MAX, 0}, buf), "");
}

BH_TEST(time_errors_in_gos_words)
{
    static const struct {
        const char *in, *err;
        bool micro;
    } t[] = {
        {"noon", "parsing time \"noon\" as \"" T "\": cannot parse \"noon\" as \"2006\"", false},
        {"", "parsing time \"\" as \"" T "\": cannot parse \"\" as \"2006\"", false},
        {"2026-01-02", "parsing time \"2026-01-02\" as \"" T "\": cannot parse \"\" as \"T\"",
         false},
        {"2026-1-02T", "parsing time \"2026-1-02T\" as \"" T "\": cannot parse \"1-02T\" as \"01\"",
         false},
        {"2026-13-01T00:00:00Z", "parsing time \"2026-13-01T00:00:00Z\": month out of range",
         false},
        {"2026-02-30T00:00:00Z", "parsing time \"2026-02-30T00:00:00Z\": day out of range", false},
        {"2026-02-01T24:00:00Z", "parsing time \"2026-02-01T24:00:00Z\": hour out of range", false},
        {"2026-02-01T00:00:60Z", "parsing time \"2026-02-01T00:00:60Z\": second out of range",
         false},
        {"2026-02-01T00:00:00",
         "parsing time \"2026-02-01T00:00:00\" as \"" T "\": cannot parse \"\" as \"Z07:00\"",
         false},
        {"2026-02-01T00:00:00Zx", "parsing time \"2026-02-01T00:00:00Zx\": extra text: \"x\"",
         false},
        {"2026-02-01T00:00:00+25:00",
         "parsing time \"2026-02-01T00:00:00+25:00\": time zone offset hour out of range", false},
        {"a\"\xc3\xa9",
         "parsing time \"a\\\"\\xc3\\xa9\" as \"" T
         "\": cannot parse \"a\\\"\\xc3\\xa9\" as \"2006\"",
         false},
        {"2020-01-01T02:00:00.5+02:00",
         "parsing time \"2020-01-01T02:00:00.5+02:00\" as \"" M
         "\": cannot parse \".5+02:00\" as \".000000\"",
         true},
        {"2020-01-01T02:00:00Z",
         "parsing time \"2020-01-01T02:00:00Z\" as \"" M "\": cannot parse \"Z\" as \".000000\"",
         true},
        {"2020-01-01T02:00:00.123456789Z",
         "parsing time \"2020-01-01T02:00:00.123456789Z\" as \"" M
         "\": cannot parse \"789Z\" as \"Z07:00\"",
         true},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct bh_time v;
        struct bh_err e = {0};

        BH_EQ(t[i].micro ? bh_time_parse_micro(bh_s(t[i].in), &v, &e)
                         : bh_time_parse(bh_s(t[i].in), &v, &e),
              -BH_E_BAD_REQUEST);
        BH_STREQ(bh_s(e.msg), t[i].err);
    }
}

BH_TEST(time_ages)
{
    static const struct {
        int64_t sec;
        const char *want;
    } t[] = {
        {-2, "<invalid>"},
        {-1, "0s"},
        {0, "0s"},
        {119, "119s"},
        {120, "2m"},
        {150, "2m30s"},
        {599, "9m59s"},
        {600, "10m"},
        {179 * 60 + 59, "179m"},
        {180 * 60, "3h"},
        {184 * 60, "3h4m"},
        {8 * 3600 - 1, "7h59m"},
        {8 * 3600, "8h"},
        {47 * 3600, "47h"},
        {48 * 3600, "2d"},
        {49 * 3600, "2d1h"},
        {8 * 86400 - 1, "7d23h"},
        {8 * 86400, "8d"},
        {729 * 86400, "729d"},
        {730 * 86400, "2y"},
        {731 * 86400, "2y1d"},
        {8 * 365 * 86400LL, "8y"},
        {9000000000, "285y"},
    };
    char buf[BH_TIME_BUF];

    for (size_t i = 0; i < BH_COUNT(t); i++)
        BH_STREQ(bh_duration_human(t[i].sec * 1000000000, buf), t[i].want);
    BH_STREQ(bh_duration_human(-500000000, buf), "0s");
    BH_STREQ(bh_age((struct bh_time){1700000000, 0}, (struct bh_time){0, 0}, buf), "<unknown>");
    BH_STREQ(bh_age((struct bh_time){253402300799, 0}, (struct bh_time){1, 0}, buf), "292y");
    BH_STREQ(bh_age((struct bh_time){100, 5}, (struct bh_time){40, 0}, buf), "60s");
}

BH_TEST(duration_parses_and_formats_as_go)
{
    static const struct {
        const char *in, *want;
    } t[] = {
        {"0", "0s"},
        {"5s", "5s"},
        {"1h", "1h0m0s"},
        {"90m", "1h30m0s"},
        {"1.5s", "1.5s"},
        {"1h30m", "1h30m0s"},
        {"100ms", "100ms"},
        {"1500us", "1.5ms"},
        {"3us", "3\xc2\xb5s"},
        {"7ns", "7ns"},
        {"-2m", "-2m0s"},
        {".5h", "30m0s"},
        {"2562047h47m16.854775807s", "2562047h47m16.854775807s"},
        {"-9223372036854775808ns", "-2562047h47m16.854775808s"},
    };
    static const struct {
        const char *in, *err;
    } bad[] = {
        {"", "time: invalid duration \"\""},
        {"x", "time: invalid duration \"x\""},
        {"3", "time: missing unit in duration \"3\""},
        {"1q", "time: unknown unit \"q\" in duration \"1q\""},
        {"9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""},
        {"-", "time: invalid duration \"-\""},
        {".s", "time: invalid duration \".s\""},
        {"99999999999999999999h", "time: invalid duration \"99999999999999999999h\""},
    };
    char buf[BH_TIME_BUF];
    struct bh_err e;
    int64_t ns;

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_EQ(bh_duration_parse(bh_s(t[i].in), &ns, &e), 0);
        BH_STREQ(bh_duration_fmt(ns, buf), t[i].want);
    }
    for (size_t i = 0; i < BH_COUNT(bad); i++) {
        BH_EQ(bh_duration_parse(bh_s(bad[i].in), &ns, &e), -BH_E_BAD_REQUEST);
        BH_STREQ(bh_s(e.msg), bad[i].err);
    }
}
