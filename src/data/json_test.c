/* Tests of the JSON reader, tree and writer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "data/json.h"

struct json_case {
    const char *in;
    size_t n;        /* 0: strlen */
    const char *err; /* NULL: valid */
};

#define C(in, err)                                                                                 \
    {                                                                                              \
        in, sizeof(in) - 1, err                                                                    \
    }
#define END           "unexpected end of JSON input"
#define VALUE(q)      "invalid character " q " looking for beginning of value"
#define KEY(q)        "invalid character " q " looking for beginning of object key string"
#define AFTER_TOP(q)  "invalid character " q " after top-level value"
#define AFTER_ELEM(q) "invalid character " q " after array element"
#define AFTER_PAIR(q) "invalid character " q " after object key:value pair"

static const struct json_case cases[] = {
    C("", END),
    C(" ", END),
    C("null", NULL),
    C(" \t\r\n true \n", NULL),
    C("false", NULL),
    C("0", NULL),
    C("-0", NULL),
    C("-0.0e-0", NULL),
    C("1E+2", NULL),
    C("123456789012345678901234567890.5", NULL),
    C("[]", NULL),
    C("{}", NULL),
    C("[ ]", NULL),
    C("{ }", NULL),
    C("[1,2 , 3]", NULL),
    C("{\"a\":1 , \"b\" : [ {} , [] ] }", NULL),
    C("\"\"", NULL),
    C("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"", NULL),
    C("\"\\ud83d\\ude00\"", NULL),
    C("\"\\ud83d\"", NULL),
    C("\"\x7f\"", NULL),
    C("\"\xff\xfe\"", NULL),
    C("\"\xc3\xa9\"", NULL),
    C("\"\\u0000\"", NULL),
    C("[1,]", VALUE("']'")),
    C("[,1]", VALUE("','")),
    C("[1 2]", AFTER_ELEM("'2'")),
    C("[1", END),
    C("[", END),
    C("[1,", END),
    C("]", VALUE("']'")),
    C("{", END),
    C("{\"a\"", END),
    C("{\"a\":", END),
    C("{\"a\":1", END),
    C("{\"a\":1,", END),
    C("{\"a\":1,}", KEY("'}'")),
    C("{,}", KEY("','")),
    C("{a:1}", KEY("'a'")),
    C("{'a':1}", KEY("'\\''")),
    C("{1:1}", KEY("'1'")),
    C("{\"a\" 1}", "invalid character '1' after object key"),
    C("{\"a\":1 \"b\":2}", AFTER_PAIR("'\"'")),
    C("{\"a\":}", VALUE("'}'")),
    C("{} x", AFTER_TOP("'x'")),
    C("1 2", AFTER_TOP("'2'")),
    C("01", AFTER_TOP("'1'")),
    C("-01", AFTER_TOP("'1'")),
    C("-", "invalid character ' ' in numeric literal"),
    C("-x", "invalid character 'x' in numeric literal"),
    C("+1", VALUE("'+'")),
    C(".5", VALUE("'.'")),
    C("1.", "invalid character ' ' after decimal point in numeric literal"),
    C("1.x", "invalid character 'x' after decimal point in numeric literal"),
    C("1e", "invalid character ' ' in exponent of numeric literal"),
    C("1e+", "invalid character ' ' in exponent of numeric literal"),
    C("1ex", "invalid character 'x' in exponent of numeric literal"),
    C("1.5.5", AFTER_TOP("'.'")),
    C("0x10", AFTER_TOP("'x'")),
    C("NaN", VALUE("'N'")),
    C("Infinity", VALUE("'I'")),
    C("nul", "invalid character ' ' in literal null (expecting 'l')"),
    C("nulL", "invalid character 'L' in literal null (expecting 'l')"),
    C("tru ", "invalid character ' ' in literal true (expecting 'e')"),
    C("fa1se", "invalid character '1' in literal false (expecting 'l')"),
    C("nullx", AFTER_TOP("'x'")),
    C("\"", END),
    C("\"abc", END),
    C("\"\\", "invalid character ' ' in string escape code"),
    C("\"\\x\"", "invalid character 'x' in string escape code"),
    C("\"\\u12G4\"", "invalid character 'G' in \\u hexadecimal character escape"),
    C("\"\\u12", "invalid character ' ' in \\u hexadecimal character escape"),
    C("\"a\nb\"", "invalid character '\\n' in string literal"),
    C("\"a\x01"
      "b\"",
      "invalid character '\\x01' in string literal"),
    C("\"a\0b\"", "invalid character '\\x00' in string literal"),
    C("\"0123456789abcdef\t\"", "invalid character '\\t' in string literal"),
    C("\xef\xbb\xbf{}", VALUE("'\xc3\xaf'")),
    C("\x80", VALUE("'\\u0080'")),
    C("\\", VALUE("'\\\\'")),
    C("\"", END),
    C("/* c */ 1", VALUE("'/'")),
    C("[1]]", AFTER_TOP("']'")),
    C("[1}", AFTER_ELEM("'}'")),
    C("{\"a\":1]", AFTER_PAIR("']'")),
    C("\0", VALUE("'\\x00'")),
    C("1\0", AFTER_TOP("'\\x00'")),
    C("\f1", VALUE("'\\f'")),
    C("\xa0"
      "1",
      VALUE("'\\u00a0'")),
};

/* Walks a document through the cursor functions alone, as a consumer does. */
static int walk(struct bh_str in, struct bh_arena *a, struct bh_err *err)
{
    struct bh_json_rd r;
    bool objs[BH_JSON_DEPTH_MAX];
    unsigned depth = 0;
    struct bh_str s;
    bool b;
    int rc = 0;

    bh_json_rd_init(&r, in, a);
    for (;;) {
        enum bh_json_kind k = bh_json_peek(&r);

        if (k == BH_JSON_OBJ || k == BH_JSON_ARR) {
            rc = bh_json_enter(&r, err);
            if (rc < 0)
                return rc;
            objs[depth++] = k == BH_JSON_OBJ;
        } else if (k == BH_JSON_NULL) {
            rc = bh_json_take_null(&r, err);
        } else if (k == BH_JSON_BOOL) {
            rc = bh_json_take_bool(&r, &b, err);
        } else if (k == BH_JSON_NUM) {
            rc = bh_json_take_num(&r, &s, err);
        } else {
            rc = bh_json_take_str(&r, &s, err);
        }
        if (rc < 0)
            return rc;
        while (depth) {
            rc = objs[depth - 1] ? bh_json_next_key(&r, &s, err) : bh_json_next_item(&r, err);
            if (rc < 0)
                return rc;
            if (rc)
                break;
            depth--;
        }
        if (!depth)
            return bh_json_end(&r, err);
    }
}

/* All three parsers agree, and say what Go says. */
BH_TEST(json_syntax_table)
{
    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        const struct json_case *c = &cases[i];
        BH_AUTO_ARENA a = bh_arena_new(0);
        /* An exact heap copy lets AddressSanitizer see a read beyond the end. */
        BH_AUTO_FREE char *copy = bh_memdup(c->in, c->n);
        struct bh_str in = {copy, c->n};
        struct bh_err e[3] = {{0}};
        struct bh_jv v;

        BH_EQ(bh_json_check(in, &e[0]), c->err ? -BH_E_BAD_REQUEST : 0);
        BH_EQ(bh_jv_parse(a, in, NULL, &v, &e[1]), c->err ? -BH_E_BAD_REQUEST : 0);
        BH_EQ(walk(in, a, &e[2]), c->err ? -BH_E_BAD_REQUEST : 0);
        for (int j = 0; c->err && j < 3; j++)
            BH_STREQ(bh_s(e[j].msg), c->err);
    }
}

static struct bh_str nested(struct bh_arena *a, const char *unit, size_t n)
{
    size_t len = strlen(unit);
    char *p = bh_arena_alloc(a, n * len);

    for (size_t i = 0; i < n; i++)
        memcpy(p + i * len, unit, len);
    return (struct bh_str){p, n * len};
}

BH_TEST(json_rejects_deep_nesting)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_err e;
    struct bh_jv v;
    BH_AUTO_BUF b = {0};

    BH_EQ(bh_json_check(nested(a, "[", 100000), &e), -BH_E_BAD_REQUEST);
    BH_STREQ(bh_s(e.msg), "invalid character '[' exceeded max depth");
    BH_EQ(bh_jv_parse(a, nested(a, "{\"a\":", 100000), NULL, &v, &e), -BH_E_BAD_REQUEST);
    BH_STREQ(bh_s(e.msg), "invalid character '{' exceeded max depth");
    BH_EQ(walk(nested(a, "[", BH_JSON_DEPTH_MAX + 1), a, &e), -BH_E_BAD_REQUEST);
    BH_STREQ(bh_s(e.msg), "invalid character '[' exceeded max depth");
    bh_buf_adds(&b, nested(a, "[", BH_JSON_DEPTH_MAX));
    bh_buf_adds(&b, nested(a, "]", BH_JSON_DEPTH_MAX));
    BH_EQ(bh_json_check(bh_buf_str(&b), &e), 0);
    BH_EQ(bh_jv_parse(a, bh_buf_str(&b), NULL, &v, &e), 0);
    BH_SEQ(bh_jv_text(a, &v, 0), bh_buf_str(&b));
    BH_CHECK(bh_jv_eq(&v, &v));
}

BH_TEST(json_strings_decode_as_in_go)
{
    static const struct {
        const char *in, *want;
    } t[] = {
        {"\"plain\"", "plain"},
        {"\"\\u00e9\\n\\/\"", "\xc3\xa9\n/"},
        {"\"\\ud83d\\ude00!\"", "\xf0\x9f\x98\x80!"},
        {"\"\\ud83dx\"", "\xef\xbf\xbdx"},
        {"\"\\ude00\\ud83d\"", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\"\\ud83d\\u0041\"", "\xef\xbf\xbd"
                               "A"},
        {"\"\\ud83d\\ud83d\\ude00\"", "\xef\xbf\xbd\xf0\x9f\x98\x80"},
        {"\"a\xff"
         "b\"",
         "a\xef\xbf\xbd"
         "b"},
        {"\"\xed\xa0\x80\"", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\"\xc0\x80\"", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\"\xe2\x82\"", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\"0123456789abcdef\xe2\x82\xac\\t0123456789abcdef\"",
         "0123456789abcdef\xe2\x82\xac\t0123456789abcdef"},
        {"\"\xf4\x90\x80\x80\"", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_json_rd r;
        struct bh_str s = {0};
        struct bh_err e;

        bh_json_rd_init(&r, bh_s(t[i].in), a);
        BH_EQ(bh_json_take_str(&r, &s, &e), 0);
        BH_STREQ(s, t[i].want);
        BH_EQ(bh_json_end(&r, &e), 0);
    }
}

BH_TEST(json_cursor_reads_a_struct)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str in = BH_S("{\"n\": 12 ,\"skip\": [1, {\"x\": []}] , \"b\":true,\"z\":null}");
    struct bh_json_rd r;
    struct bh_str key, raw = {0};
    struct bh_err e;
    int64_t n = 0;
    bool b = false;
    int rc, keys = 0;

    bh_json_rd_init(&r, in, a);
    BH_EQ(bh_json_take_str(&r, &raw, &e), -BH_E_BAD_REQUEST); /* wrong kind: the cursor stays */
    BH_EQ(bh_json_pos(&r), 0);
    BH_EQ(bh_json_enter(&r, &e), 0);
    while ((rc = bh_json_next_key(&r, &key, &e)) > 0) {
        keys++;
        if (bh_str_eqc(key, "n")) {
            BH_EQ(bh_json_take_num(&r, &raw, &e), 0);
            BH_CHECK(bh_json_num_i64(raw, &n));
        } else if (bh_str_eqc(key, "b")) {
            BH_EQ(bh_json_take_bool(&r, &b, &e), 0);
        } else {
            BH_EQ(bh_json_skip(&r, &raw, &e), 0);
            if (bh_str_eqc(key, "skip"))
                BH_STREQ(raw, "[1, {\"x\": []}]");
        }
    }
    BH_EQ(rc, 0);
    BH_EQ(keys, 4);
    BH_EQ(n, 12);
    BH_CHECK(b);
    BH_EQ(bh_json_end(&r, &e), 0);
}

BH_TEST(json_duplicates_are_told_in_document_order)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str in =
        BH_S("{\"a\":1,\"a\":{\"z\":1,\"z\":2},\"b\":[0,{\"c\":1,\"c\":2,\"c\":3}],\"a\":4}");
    struct bh_json_dups d;
    struct bh_jv v;
    struct bh_err e;
    BH_AUTO_BUF big = {0};

    BH_EQ(bh_jv_parse(a, in, &d, &v, &e), 0);
    BH_EQ(d.paths.n, 3);
    BH_STREQ(d.paths.p[0], "a");
    BH_STREQ(d.paths.p[1], "a.z");
    BH_STREQ(d.paths.p[2], "b[1].c");
    BH_STREQ(bh_jv_text(a, &v, 0), "{\"a\":4,\"b\":[0,{\"c\":3}]}");
    bh_buf_addc(&big, '{');
    for (int i = 0; i < 100; i++)
        bh_buf_addf(&big, "\"k%d\":%d,", i % 60, i);
    bh_buf_addz(&big, "\"end\":0}");
    BH_EQ(bh_jv_parse(a, bh_buf_str(&big), &d, &v, &e), 0);
    BH_EQ(d.paths.n, 40);
    BH_STREQ(d.paths.p[0], "k0");
    BH_EQ(v.n_members, 61);
    BH_STREQ(bh_jv_getc(&v, "k5")->s, "65");
    BH_STREQ(v.members[5].key, "k5");
    BH_STREQ(bh_jv_getc(&v, "k45")->s, "45");
}

BH_TEST(json_tree_changes)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_jv o = BH_JV_OBJ, *arr, c;
    int64_t n = 0;

    (void)bh_jv_setc(a, &o, "b", bh_jv_bool(true));
    arr = bh_jv_setc(a, &o, "l", BH_JV_ARR);
    (void)bh_jv_append(a, arr, bh_jv_i64(a, 2));
    (void)bh_jv_insert(a, arr, 0, bh_jv_str(BH_S("x")));
    (void)bh_jv_append(a, arr, BH_JV_NULL);
    (void)bh_jv_setc(a, &o, "n", bh_jv_i64(a, INT64_MIN));
    c = bh_jv_copy(a, &o);
    BH_CHECK(bh_jv_eq(&c, &o));
    BH_STREQ(bh_jv_text(a, &o, 0), "{\"b\":true,\"l\":[\"x\",2,null],\"n\":-9223372036854775808}");
    bh_jv_remove(bh_jv_getc(&c, "l"), 1);
    BH_CHECK(!bh_jv_eq(&c, &o));
    BH_CHECK(bh_jv_del(&c, BH_S("b")));
    BH_CHECK(!bh_jv_del(&c, BH_S("b")));
    (void)bh_jv_setc(a, &c, "a", BH_JV_NULL);
    BH_STREQ(bh_jv_text(a, &c, BH_JSON_SORTED),
             "{\"a\":null,\"l\":[\"x\",null],\"n\":-9223372036854775808}");
    BH_STREQ(bh_jv_text(a, &c, BH_JSON_INDENT2), "{\n  \"l\": [\n    \"x\",\n    null\n  ],\n  "
                                                 "\"n\": -9223372036854775808,\n  \"a\": null\n}");
    BH_CHECK(bh_jv_get_i64(&c, "n", &n) && n == INT64_MIN);
    BH_CHECK(bh_jv_path(&c, "l.x") == NULL && bh_jv_path(&c, "n") != NULL);
    BH_CHECK(bh_jv_get(NULL, BH_S("x")) == NULL && bh_jv_at(&o, 0) == NULL);
}

static struct bh_jv parse(struct bh_arena *a, const char *text)
{
    struct bh_jv v = {0};
    struct bh_err e;

    BH_EQ(bh_jv_parse(a, bh_s(text), NULL, &v, &e), 0);
    return v;
}

BH_TEST(json_equality_and_order)
{
    static const struct {
        const char *a, *b;
        int cmp;
    } t[] = {
        {"4", "4.0", -1},
        {"4.0", "4e0", 0},
        {"1", "2", -1},
        {"1", "1.5", -1},
        {"\"a\"", "\"b\"", -1},
        {"null", "false", -1},
        {"[1,2]", "[1,3]", -1},
        {"[2]", "[1,1]", -1},
        {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", 0},
        {"{\"a\":1}", "{\"a\":2}", -1},
        {"{\"a\":[{}]}", "{\"a\":[[]]}", 1},
        {"9007199254740993", "9007199254740992", 1},
    };
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct bh_jv x = parse(a, t[i].a), y = parse(a, t[i].b);

        BH_EQ(bh_jv_cmp(&x, &y), t[i].cmp);
        BH_EQ(bh_jv_cmp(&y, &x), -t[i].cmp);
        BH_EQ(bh_jv_eq(&x, &y), t[i].cmp == 0);
    }
}

BH_TEST(json_writes_strings_as_go_does)
{
    BH_AUTO_BUF b = {0};

    bh_json_write_str(&b, BH_S("a\"\\/\b\f\n\r\t\x01\x7f<>&\xe2\x80\xa8\xe2\x82\xac\xff"));
    BH_STREQ(
        bh_buf_str(&b),
        "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\\u003c\\u003e\\u0026\\u2028\xe2\x82\xac\\ufffd\"");
    bh_buf_clear(&b);
    bh_json_write_str(&b, BH_S("0123456789abcdef<0123456789abcdef=>&?;:0123456789"));
    BH_STREQ(bh_buf_str(&b),
             "\"0123456789abcdef\\u003c0123456789abcdef=\\u003e\\u0026?;:0123456789\"");
    bh_buf_clear(&b);
    bh_json_write_str_plain(&b, BH_S("<a&b>"));
    BH_STREQ(bh_buf_str(&b), "\"<a&b>\"");
}

BH_TEST(json_writes_doubles_as_go_does)
{
    static const struct {
        double v;
        const char *want;
    } t[] = {
        {0, "0"},
        {1, "1"},
        {-1.5, "-1.5"},
        {1000, "1000"},
        {1e20, "100000000000000000000"},
        {1e21, "1e+21"},
        {1e-6, "0.000001"},
        {1e-7, "1e-7"},
        {1.5e-9, "1.5e-9"},
        {1e-10, "1e-10"},
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"},
        {123456789.125, "123456789.125"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {9007199254740993.0, "9007199254740992"},
        {3.14, "3.14"},
        {100.25, "100.25"},
        {2.5e25, "2.5e+25"},
    };
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_jv v;

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_AUTO_BUF b = {0};

        bh_json_write_double(&b, t[i].v);
        BH_STREQ(bh_buf_str(&b), t[i].want);
    }
    v = parse(a, "[1e3,1.50,-0,12,1e400,99999999999999999999]");
    BH_STREQ(bh_jv_text(a, &v, BH_JSON_GO_NUMS), "[1000,1.5,0,12,1e400,100000000000000000000]");
}

BH_TEST(json_compact_drops_blanks_outside_strings)
{
    BH_AUTO_BUF b = {0};

    bh_json_compact(&b, BH_S(" { \"a b\" : [ 1 , 2 ],\n\t\"c\\\" d\" : null } "));
    BH_STREQ(bh_buf_str(&b), "{\"a b\":[1,2],\"c\\\" d\":null}");
}

BH_TEST(json_arena_limit_is_an_error)
{
    BH_AUTO_ARENA a = bh_arena_new(100);
    struct bh_jv v;
    struct bh_err e;

    BH_EQ(bh_jv_parse(a, BH_S("[1,2,3,4,5,6,7,8,9,10]"), NULL, &v, &e), -BH_E_LIMIT);
    BH_EQ(bh_jv_parse(a, BH_S("[[],[],[],[],[],[],[],[]]"), NULL, &v, &e), -BH_E_LIMIT);
}

/* Every recorded line survives parse, write, parse. */
BH_TEST(json_round_trips_recordings)
{
    const char *path = bh_test_shared("wire/machinery.jsonl");
    BH_AUTO_BUF b = {0};
    struct bh_str rest;
    struct bh_err e;

    if (!path) {
        bh_test_skip("shared/wire is absent");
        return;
    }
    BH_EQ(bh_fs_read(path, 64u << 20, &b, &e), 0);
    rest = bh_buf_str(&b);
    while (rest.n) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_str line = bh_str_cut(&rest, '\n'), text;
        struct bh_jv v, w;

        BH_EQ(bh_json_check(line, &e), 0);
        BH_EQ(bh_jv_parse(a, line, NULL, &v, &e), 0);
        text = bh_jv_text(a, &v, 0);
        BH_EQ(bh_jv_parse(a, text, NULL, &w, &e), 0);
        BH_CHECK(bh_jv_eq(&v, &w));
        w = bh_jv_copy(a, &w);
        BH_EQ(bh_jv_cmp(&v, &w), 0);
    }
}
