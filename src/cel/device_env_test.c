/* Device selectors as claims and classes use them. */
#include "cel/device_env.h"

#include "base/arena.h"
#include "base/test.h"
#include "cel/cel.h"

static const struct bh_cel_attr attrs[] = {
    {.name = BH_S_INIT("model"), .kind = BH_CEL_ATTR_STRING, .s = BH_S_INIT("H200")},
    {.name = BH_S_INIT("index"), .kind = BH_CEL_ATTR_INT, .i = 3},
    {.name = BH_S_INIT("healthy"), .kind = BH_CEL_ATTR_BOOL, .b = true},
    {.name = BH_S_INIT("driverVersion"), .kind = BH_CEL_ATTR_VERSION, .s = BH_S_INIT("1.10.0")},
    {.name = BH_S_INIT("ext.example.com/family"),
     .kind = BH_CEL_ATTR_STRING,
     .s = BH_S_INIT("hopper")},
};
static const struct bh_cel_capacity caps[] = {
    {BH_S_INIT("memory"), BH_S_INIT("141Gi")},
};
static const struct bh_cel_device_in h200 = {.driver = BH_S_INIT("gpu.bulkhead.dev"),
                                             .attrs = attrs,
                                             .attrs_n = BH_COUNT(attrs),
                                             .caps = caps,
                                             .caps_n = 1};

/* 1, 0, or the code of the error, whose text goes to *ret_text. */
static int match_on(const char *expr, const struct bh_cel_device_in *in, char *text, size_t n)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_cel_device *d = bh_cel_device_new(a, in);
    struct bh_cel_selector *s = NULL;
    struct bh_str full = BH_S("");
    struct bh_err err = {0};
    int r = bh_cel_selector_new(bh_s(expr), a, &s, &full, &err);

    if (r == 0) {
        r = bh_cel_selector_match(s, d, a, &err);
        full = bh_s(err.msg);
    }
    if (r < 0 && text) {
        size_t k = full.n < n - 1 ? full.n : n - 1;

        for (size_t i = 0; i < k; i++)
            text[i] = full.p[i];
        text[k] = '\0';
    }
    (void)bh_cel_selector_free(s);
    return r;
}

static int match(const char *expr)
{
    char text[512] = "";
    int r = match_on(expr, &h200, text, sizeof(text));

    if (r < 0)
        bh_test_fail(__FILE__, __LINE__, "%s: %s", expr, text);
    return r;
}

static void refused(const char *expr, const char *want)
{
    char text[1024] = "";

    BH_CHECK(match_on(expr, &h200, text, sizeof(text)) < 0);
    BH_STREQ(bh_s(text), want);
}

BH_TEST(device_selectors_match)
{
    BH_EQ(match("device.driver == 'gpu.bulkhead.dev'"), 1);
    BH_EQ(match("device.driver == \"x\""), 0);
    BH_EQ(match("device.attributes[\"gpu.bulkhead.dev\"].model == \"H200\""), 1);
    BH_EQ(match("device.attributes['gpu.bulkhead.dev'].index > 2"), 1);
    BH_EQ(match("device.attributes['gpu.bulkhead.dev'].healthy"), 1);
    BH_EQ(
        match("device.attributes['gpu.bulkhead.dev'].driverVersion.isGreaterThan(semver('1.9.0'))"),
        1);
    BH_EQ(match("device.attributes['ext.example.com'].family == 'hopper'"), 1);
    BH_EQ(match("device.capacity[\"gpu.bulkhead.dev\"].memory.compareTo(quantity(\"40Gi\")) >= 0"),
          1);
    BH_EQ(match("device.capacity['gpu.bulkhead.dev'].memory.isGreaterThan(quantity('1Ti'))"), 0);
    BH_EQ(match("'nope' in device.attributes"), 0);
    BH_EQ(match("'model' in device.attributes['gpu.bulkhead.dev']"), 1);
    BH_EQ(match("has(device.attributes['nope'].x)"), 0);
    BH_EQ(match("device.attributes['gpu.bulkhead.dev'][?'zz'].orValue(5) == 5"), 1);
    BH_EQ(match("cel.bind(d, device.attributes['gpu.bulkhead.dev'], d.model == 'H200' && d.index "
                "== 3)"),
          1);
    BH_EQ(match("device.attributes.exists_one(x, x == 'ext.example.com')"), 1);
    BH_EQ(match("!device.allowMultipleAllocations"), 1);
    BH_EQ(match("dyn(optional.of(true))"), 1);
}

BH_TEST(device_selectors_refuse)
{
    refused("device.nope", "compilation failed: ERROR: <input>:1:7: undefined field 'nope'\n"
                           " | device.nope\n"
                           " | ......^");
    refused("1", "must evaluate to bool or the unknown type, not int");
    refused("device.attributes['nope'].x", "no such key: x");
    refused("device.attributes['gpu.bulkhead.dev'].model",
            "CEL result of type string could not be converted to bool: unsupported native "
            "conversion from string to 'bool'");
    refused("dyn(1u)", "CEL result of type uint could not be converted to bool: unsupported type "
                       "conversion from 'uint' to bool");
    refused("dyn([1])", "CEL result of type list could not be converted to bool: type conversion "
                        "error from list to 'bool'");
    refused("dyn(type(1))", "CEL result of type type could not be converted to bool: type "
                            "conversion not supported for 'type'");
    refused("dyn(semver('1.0.0'))",
            "CEL result of type kubernetes.Semver could not be converted to "
            "bool: type conversion error from 'Semver' to 'bool'");
    refused("device.attributes['gpu.bulkhead.dev'].index.isGreaterThan(semver('0.0.1'))",
            "no such overload: isGreaterThan(int, kubernetes.Semver)");
}

BH_TEST(device_selectors_refuse_broken_devices)
{
    static const struct bh_cel_attr bad[] = {
        {.name = BH_S_INIT("v"), .kind = BH_CEL_ATTR_VERSION, .s = BH_S_INIT("1.x")}};
    static const struct bh_cel_attr list[] = {
        {.name = BH_S_INIT("l"), .kind = BH_CEL_ATTR_INT, .is_list = true}};
    struct bh_cel_device_in in = h200;
    char text[512] = "";

    in.attrs = bad;
    in.attrs_n = 1;
    BH_CHECK(match_on("true", &in, text, sizeof(text)) < 0);
    in.attrs = list;
    BH_CHECK(match_on("true", &in, text, sizeof(text)) < 0);
    BH_STREQ(bh_s(text), "attribute l: unsupported attribute value");
}

static uint64_t estimate(const char *expr)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_cel_selector *s;
    struct bh_err err = {0};
    uint64_t cost;

    if (bh_cel_selector_new(bh_s(expr), a, &s, NULL, &err) < 0) {
        bh_test_fail(__FILE__, __LINE__, "%s: %s", expr, err.msg);
        return 0;
    }
    cost = bh_cel_selector_cost_max(s);
    (void)bh_cel_selector_free(s);
    return cost;
}

BH_TEST(device_selectors_cost_what_upstream_says)
{
    BH_EQ(estimate("device.driver == \"\""), 2);
    BH_EQ(estimate("device.driver == \"dra.example.com\""), 4);
    BH_EQ(estimate("device.attributes[\"d\"].name"), 4);
    BH_EQ(estimate("device.attributes['d'].name > 0"), 5);
    BH_EQ(estimate("device.attributes['d'].name == 'fish'"), 5);
    BH_EQ(estimate("'id' in device.attributes['d']"), 4);
    BH_EQ(estimate("device.capacity['d'].mem.compareTo(quantity('1Gi')) >= 0"), 7);
    BH_EQ(estimate("cel.bind(dra, device.attributes['dra.example.com'], dra.name)"), 15);
    BH_EQ(estimate("device.attributes.exists_one(x, x == \"dra.example.com\")"), 164);
}

BH_TEST(device_selectors_are_validated)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str text;
    bool forbidden, too_long;

    BH_EQ(bh_cel_selector_validate(BH_S("true"), a, &text, &forbidden, &too_long), 0);
    BH_CHECK(bh_cel_selector_validate(BH_S("device.attributes['d'].s.join(',') == 'x'"), a, &text,
                                      &forbidden, &too_long) < 0);
    BH_CHECK(forbidden);
    BH_STREQ(text, "too complex, exceeds cost limit");
}

BH_TEST(device_selectors_see_list_attributes)
{
    static const int64_t ints[] = {1, 2, 3};
    static const struct bh_str versions[] = {BH_S_INIT("1.0.0"), BH_S_INIT("2.0.0")};
    static const struct bh_cel_attr lists[] = {
        {.name = BH_S_INIT("ports"),
         .kind = BH_CEL_ATTR_INT,
         .is_list = true,
         .ints = ints,
         .n = 3},
        {.name = BH_S_INIT("apis"),
         .kind = BH_CEL_ATTR_VERSION,
         .is_list = true,
         .strs = versions,
         .n = 2},
        {.name = BH_S_INIT("model"), .kind = BH_CEL_ATTR_STRING, .s = BH_S_INIT("x")},
    };
    struct bh_cel_device_in in = h200;
    char text[512] = "";

    in.attrs = lists;
    in.attrs_n = BH_COUNT(lists);
    in.lists = true;
    BH_EQ(match_on("device.attributes['gpu.bulkhead.dev'].ports.includes(2)", &in, text,
                   sizeof(text)),
          1);
    BH_EQ(match_on("device.attributes['gpu.bulkhead.dev'].model.includes('x')", &in, text,
                   sizeof(text)),
          1);
    BH_EQ(match_on("device.attributes['gpu.bulkhead.dev'].ports.exists(p, p > 5)", &in, text,
                   sizeof(text)),
          0);
    BH_EQ(match_on("semver('2.0.0') in device.attributes['gpu.bulkhead.dev'].apis", &in, text,
                   sizeof(text)),
          1);
    BH_EQ(match_on("device.attributes['gpu.bulkhead.dev'].ports.size() == 3", &in, text,
                   sizeof(text)),
          1);
}

/* "part | values", or "matches". */
static const char *why(struct bh_arena *a, const char *expr)
{
    struct bh_cel_why *w = bh_cel_why_new(bh_s(expr));
    struct bh_cel_why_part p;
    const char *s = "matches";

    if (bh_cel_why_find(w, bh_cel_device_new(a, &h200), a, &p)) {
        s = bh_str_fmt(a, "%.*s | %.*s", BH_SF(p.text), BH_SF(p.values)).p;
        BH_SEQ(bh_str_sub(bh_s(expr), p.at, p.at + p.text.n), p.text);
    }
    (void)bh_cel_why_free(w);
    return s;
}

BH_TEST(device_selectors_say_why_not)
{
#define A "device.attributes[\"gpu.bulkhead.dev\"]"
#define C "device.capacity[\"gpu.bulkhead.dev\"]"
    static const struct {
        const char *expr, *want;
    } t[] = {
        {"true", "matches"},
        {A ".model == \"H100\"", A ".model == \"H100\" | " A ".model is \"H200\""},
        {"device.driver == \"gpu.bulkhead.dev\" && " A ".index < 2 && false",
         A ".index < 2 | " A ".index is 3"},
        {"(device.driver == \"gpu.bulkhead.dev\" && (" A ".index == 3 && (" A
         ".healthy == false)))",
         A ".healthy == false | " A ".healthy is true"},
        {C ".memory.compareTo(quantity(\"200Gi\")) >= 0",
         C ".memory.compareTo(quantity(\"200Gi\")) >= 0 | " C ".memory is 141Gi"},
        {A ".driverVersion.isGreaterThan(semver(\"2.0.0\"))",
         A ".driverVersion.isGreaterThan(semver(\"2.0.0\")) | " A ".driverVersion is 1.10.0"},
        {A ".index == 1 || " A ".index == 2 && true",
         A ".index == 1 || " A ".index == 2 && true | " A ".index is 3"},
        {"!(" A ".index == 3 && " A ".model == \"H200\")",
         "!(" A ".index == 3 && " A ".model == \"H200\") | " A ".index is 3, " A
         ".model is \"H200\""},
        {"\"nvlink\" in " A, NULL},
        {"device.attributes[\"ext.example.com\"].family.startsWith(\"b\") && true",
         "device.attributes[\"ext.example.com\"].family.startsWith(\"b\") | "
         "device.attributes[\"ext.example.com\"].family is \"hopper\""},
        {"has(" A ".speed) && " A ".speed > 3", "has(" A ".speed) | " A ".speed is missing"},
        {"true && 1 > 2", "1 > 2 | "},
        {"cel.bind(d, " A ", d.index > 3 && d.healthy)", NULL},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        const char *got = why(a, t[i].expr);

        if (t[i].want)
            BH_STREQ(bh_s(got), t[i].want);
        else
            BH_CHECK(bh_str_starts(bh_s(got), bh_s(t[i].expr)));
    }
}
