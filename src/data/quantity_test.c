/* Tests of quantities: canonical forms, errors, exact arithmetic. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/test.h"
#include "data/quantity.h"

#define FORMAT                                                                                     \
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
#define SUFFIX "unable to parse quantity's suffix"
#define NUMBER "unable to parse numeric part of quantity"

BH_TEST(quantity_canonical_forms)
{
    static const struct {
        const char *in, *want;
    } t[] = {
        {"0", "0"},
        {"0Ki", "0"},
        {"0.0", "0"},
        {"-0", "0"},
        {"1", "1"},
        {"+1", "+1"},
        {"-1", "-1"},
        {"007", "007"},
        {"1000m", "1"},
        {"1500m", "1500m"},
        {"1.5", "1500m"},
        {"0.5", "500m"},
        {"2.0", "2"},
        {"100", "100"},
        {"1000", "1k"},
        {"1024", "1024"},
        {"1e3", "1e3"},
        {"1E3", "1E3"},
        {"1.5e3", "1500"},
        {"1e-3", "1e-3"},
        {"1e+3", "1e+3"},
        {"1e4", "10e3"},
        {"1e0", "1e0"},
        {"12E", "12E"},
        {"1E", "1E"},
        {"1.5Gi", "1536Mi"},
        {"1024Mi", "1Gi"},
        {"1Ki", "1Ki"},
        {"0.5Ki", "512"},
        {"0.1Ki", "102400m"},
        {"1023", "1023"},
        {"1000Ki", "1000Ki"},
        {"0.5Mi", "512Ki"},
        {"1.1Ki", "1126400m"},
        {"100Gi", "100Gi"},
        {"8Ei", "9223372036854775807"},
        {"100Ei", "9223372036854775807"},
        {"7Ei", "7Ei"},
        {"-8Ei", "-9223372036854775807"},
        {"0.0000000001", "1n"},
        {"1e-12", "1e-9"},
        {"0.0000000001Ki", "103n"},
        {"1.0000000001", "1000000001n"},
        {"-0.0000000001", "-1n"},
        {"1000000n", "1m"},
        {"1u", "1u"},
        {"1n", "1n"},
        {"0.1n", "1n"},
        {"123456789012345678901234567890", "123456789012345678901234567890"},
        {"1000E", "1000E"},
        {"1e100", "10e99"},
        {"m", "0"},
        {".", "0"},
        {"+", "0"},
        {".5", "500m"},
        {"1.", "1."},
        {"1.G", "1.G"},
        {"1500M", "1500M"},
        {"1000M", "1G"},
        {"1073741824", "1073741824"},
        {"250m", "250m"},
        {"0.001", "1m"},
        {"0.0005", "500u"},
        {" 1 ", "1"},
        {"1 ", "1"},
        {"0.00000000000000000000000001", "1n"},
        {"9223372036854775807", "9223372036854775807"},
        {"9223372036854775808", "9223372036854775808"},
        {"-1Mi", "-1Mi"},
        {"1152921504606846976", "1152921504606846976"},
        /* Short ones that look canonical are kept as they are written. */
        {"1E6", "1E6"},
        {"1e+3", "1e+3"},
        {"+1", "+1"},
        {"01", "01"},
        {"+01Mi", "+01Mi"},
        {"+8Mi", "8Mi"},
        {"1.0", "1"},
        {"1E5", "100e3"},
        {"1e1", "10"},
    };
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct bh_str got = {0}, again = {0};
        struct bh_err e = {0};

        BH_EQ(bh_quantity_canonical(a, bh_s(t[i].in), &got, &e), 0);
        BH_STREQ(got, t[i].want);
        BH_EQ(bh_quantity_canonical(a, got, &again, &e), 0);
        if (!bh_str_ends(
                got, BH_S("7807"))) /* the cap of binary quantities loses its format on purpose */
            BH_SEQ(again, got);
    }
}

BH_TEST(quantity_errors_as_upstream)
{
    static const struct {
        const char *in, *err;
    } t[] = {
        {"", FORMAT},      {"x", FORMAT},
        {"1x", FORMAT},    {"lots", FORMAT},
        {"1Zb", FORMAT},   {"1.2.3", FORMAT},
        {"1 ", FORMAT},    {"--1", SUFFIX},
        {"1ki", SUFFIX},   {"1i", SUFFIX},
        {"1e", SUFFIX},    {"1Kim", SUFFIX},
        {"1e--1", FORMAT}, {"1e99999999999", SUFFIX},
        {"1mm", SUFFIX},   {"1m3", SUFFIX},
        {"1+", SUFFIX},    {"123456789012345678901234567890123456789", NUMBER},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct bh_quantity q;
        struct bh_err e = {0};

        BH_EQ(bh_quantity_parse(bh_s(t[i].in), &q, &e), -BH_E_BAD_REQUEST);
        BH_STREQ(bh_s(e.msg), t[i].err);
    }
}

static struct bh_quantity q(const char *s)
{
    struct bh_quantity v = {0};

    BH_EQ(bh_quantity_parse(bh_s(s), &v, NULL), 0);
    return v;
}

BH_TEST(quantity_arithmetic)
{
    static const struct {
        const char *a, *b, *sum, *diff;
        int cmp;
    } t[] = {
        {"1", "1000m", "2", "0", 0},
        {"1Gi", "1G", "2073741824", "73741824", 1},
        {"0", "1Ki", "1Ki", "-1Ki", -1},
        {"1.5", "250m", "1750m", "1250m", 1},
        {"-1", "1", "0", "-2", -1},
        {"1e3", "1", "1001", "999", 1},
        {"512Mi", "512Mi", "1Gi", "0", 0},
        {"1n", "1E", "1000000000000000000000000001n", "-999999999999999999999999999n", -1},
        {"0", "0", "0", "0", 0},
        {"1e100", "1", "10e99", "10e99", 1},
        {"-1e100", "-1", "-10e99", "-10e99", -1},
    };
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_STREQ(bh_quantity_str(a, bh_quantity_add(q(t[i].a), q(t[i].b))), t[i].sum);
        BH_STREQ(bh_quantity_str(a, bh_quantity_sub(q(t[i].a), q(t[i].b))), t[i].diff);
        BH_EQ(bh_quantity_cmp(q(t[i].a), q(t[i].b)), t[i].cmp);
        BH_EQ(bh_quantity_cmp(q(t[i].b), q(t[i].a)), -t[i].cmp);
    }
}

BH_TEST(quantity_values_round_up)
{
    struct bh_quantity p;
    int64_t v = 0;

    BH_EQ(bh_quantity_value(q("1500m")), 2);
    BH_EQ(bh_quantity_value(q("-1500m")), -2);
    BH_EQ(bh_quantity_milli_value(q("0.0001")), 1);
    BH_EQ(bh_quantity_milli_value(q("2")), 2000);
    BH_EQ(bh_quantity_value(q("1e30")), INT64_MAX);
    BH_EQ(bh_quantity_value(q("-1e30")), INT64_MIN);
    BH_EQ(bh_quantity_value(q("1n")), 1);
    BH_EQ(bh_quantity_sign(q("-1n")), -1);
    BH_CHECK(bh_quantity_is_int(q("1e3"), &v) && v == 1000);
    BH_CHECK(!bh_quantity_is_int(q("1m"), &v));
    BH_CHECK(!bh_quantity_is_int(q("9223372036854775808"), &v));
    BH_CHECK(bh_quantity_mul(q("1500m"), 4, &p) && bh_quantity_cmp(p, q("6")) == 0);
    BH_CHECK(!bh_quantity_mul(q("12345678901234567890123456789012345678"), INT64_MAX, &p));
    BH_CHECK(bh_quantity_double(q("1500m")) == 1.5);
    BH_CHECK(bh_quantity_double(q("1Gi")) == 1073741824.0);
}

BH_TEST(what_looks_canonical_is)
{
    static const char *const suffixes[] = {"",   "m",  "k", "M",   "G",  "T", "Ki", "Mi",
                                           "Gi", "Ti", "i", "KiB", "e3", "%", "n"};
    static const uint32_t numbers[] = {0,    1,    9,     10,     100,    110,       999,
                                       1000, 1023, 1024,  1500,   2048,   4096,      100000,
                                       1001, 5120, 32768, 123456, 999999, 999999999, 1000000000};
    size_t told = 0;

    for (size_t i = 0; i < BH_COUNT(numbers); i++)
        for (size_t k = 0; k < BH_COUNT(suffixes); k++)
            for (int zero = 0; zero < 2; zero++) {
                char buf[BH_Q_BUF], text[32];
                struct bh_quantity q;

                snprintf(text, sizeof(text), "%s%u%s", zero ? "0" : "", (unsigned)numbers[i],
                         suffixes[k]);
                if (!bh_quantity_is_canonical(bh_s(text)))
                    continue;
                told++;
                BH_EQ(bh_quantity_parse(bh_s(text), &q, NULL), 0);
                BH_STREQ(bh_quantity_fmt(q, buf), text);
            }
    BH_CHECK(told > 100);
}
