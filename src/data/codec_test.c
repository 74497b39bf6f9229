/* Tests of the small encodings and of the protobuf wire format. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/test.h"
#include "data/codec.h"
#include "data/pbwire.h"

BH_TEST(base64_round_trips)
{
    static const struct {
        const char *plain, *coded, *url;
    } t[] = {
        {"", "", ""},
        {"f", "Zg==", "Zg"},
        {"fo", "Zm8=", "Zm8"},
        {"foo", "Zm9v", "Zm9v"},
        {"foob", "Zm9vYg==", "Zm9vYg"},
        {"\xff\xfe\xfb", "//77", "__77"},
    };
    BH_AUTO_ARENA a = bh_arena_new(0);
    char big[2000];
    BH_AUTO_BUF b = {0};
    struct bh_str s = {0};

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_STREQ(bh_base64(a, bh_s(t[i].plain)), t[i].coded);
        BH_STREQ(bh_base64url(a, bh_s(t[i].plain)), t[i].url);
        BH_EQ(bh_base64_decode(a, bh_s(t[i].coded), &s, NULL), 0);
        BH_STREQ(s, t[i].plain);
        BH_EQ(bh_base64url_decode(a, bh_s(t[i].url), &s, NULL), 0);
        BH_STREQ(s, t[i].plain);
    }
    memset(big, 'q', sizeof(big));
    bh_base64_write(&b, (struct bh_str){big, sizeof(big)});
    BH_SEQ(bh_buf_str(&b), bh_base64(a, (struct bh_str){big, sizeof(big)}));
    BH_EQ(bh_base64_decode(a, BH_S("Zm\r\n9v\n"), &s, NULL), 0);
    BH_STREQ(s, "foo");
}

BH_TEST(base64_errors_as_go)
{
    static const struct {
        const char *in;
        int at;
    } t[] = {
        {"!", 0}, {"Zg", 0},   {"Zm9", 0},   {"Zg=", 3},   {"Zg==x", 4}, {"Zg=x", 2},
        {"=", 0}, {"Z===", 1}, {"Zm9vZ", 4}, {"Zm9v!", 4}, {"Zm8==", 4},
    };
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct bh_str s;
        struct bh_err e = {0};

        BH_EQ(bh_base64_decode(a, bh_s(t[i].in), &s, &e), -BH_E_BAD_REQUEST);
        BH_STREQ(bh_s(e.msg), bh_str_fmt(a, "illegal base64 data at input byte %d", t[i].at).p);
    }
}

BH_TEST(hashes_have_known_values)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    BH_STREQ(bh_sha256_hex(a, BH_S("abc")),
             "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    BH_EQ(bh_fnv32a(BH_FNV32_INIT, BH_S("foobar")), 0xbf9cf968u);
    BH_EQ(bh_fnv32(BH_FNV32_INIT, BH_S("foobar")), 0x31f0b262u);
    BH_EQ(bh_fnv64a(BH_FNV64_INIT, BH_S("foobar")), 0x85944171f73967e8u);
    BH_EQ(bh_crc32c(0, BH_S("123456789")), 0xe3069283u);
    BH_EQ(bh_safe_encode(a, BH_S("0123")).n, 4);
}

BH_TEST(url_escapes_and_queries)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {0};
    struct bh_query q = {0};
    struct bh_str s = {0};
    struct bh_err e = {0};

    bh_url_escape_path(&b, BH_S("a b/c%:@"));
    BH_STREQ(bh_buf_str(&b), "a%20b%2Fc%25:@");
    bh_buf_clear(&b);
    bh_url_escape_query(&b, BH_S("a b&=\xff"));
    BH_STREQ(bh_buf_str(&b), "a+b%26%3D%FF");
    BH_EQ(bh_url_decode(a, BH_S("a%20b+c"), false, &s, &e), 0);
    BH_STREQ(s, "a b+c");
    BH_EQ(bh_url_decode(a, BH_S("%zz"), false, &s, &e), -BH_E_BAD_REQUEST);
    BH_STREQ(bh_s(e.msg), "invalid URL escape \"%zz\"");
    BH_EQ(bh_url_decode(a, BH_S("a%2"), false, &s, &e), -BH_E_BAD_REQUEST);
    BH_STREQ(bh_s(e.msg), "invalid URL escape \"%2\"");
    BH_EQ(bh_query_parse(a, BH_S("watch=1&x=a%2Cb+c&&watch=2&flag&bad=%zz&se;mi=1&=v"), &q, &e), 0);
    BH_EQ(q.n, 5);
    BH_STREQ(*bh_query_get(&q, "watch"), "1");
    BH_STREQ(*bh_query_get(&q, "x"), "a,b c");
    BH_STREQ(*bh_query_get(&q, "flag"), "");
    BH_CHECK(bh_query_get(&q, "bad") == NULL);
}

BH_TEST(uuids_and_versions)
{
    static const char *const order[] = {
        "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta",
        "1.0.0-beta",  "1.0.0-beta.2",  "1.0.0-beta.11",
        "1.0.0-rc.1",  "1.0.0",         "1.0.1",
        "1.10.0",      "2.0.0",         "18446744073709551615.0.0",
    };
    static const char *const bad[] = {"1",
                                      "1.2",
                                      "v1.2.3",
                                      "1.2.3.4",
                                      "01.2.3",
                                      "1.2.3-",
                                      "1.2.3-01",
                                      "1.2.3+",
                                      "1.2.3-a..b",
                                      "1.2.3-a_b",
                                      "18446744073709551616.0.0",
                                      "",
                                      "1.2.-3",
                                      " 1.2.3"};
    char buf[37];
    uint8_t rnd[16];
    struct bh_semver x, y;

    memset(rnd, 0xff, sizeof(rnd));
    BH_STREQ(bh_uuid_v4(rnd, buf), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    BH_CHECK(bh_is_uuid(bh_s(buf)));
    BH_CHECK(!bh_is_uuid(BH_S("ffffffff-ffff-4fff-bfff-fffffffffffg")));
    for (size_t i = 0; i + 1 < BH_COUNT(order); i++) {
        BH_CHECK(bh_semver_parse(bh_s(order[i]), &x) && bh_semver_parse(bh_s(order[i + 1]), &y));
        BH_EQ(bh_semver_cmp(&x, &y), -1);
        BH_EQ(bh_semver_cmp(&y, &x), 1);
        BH_EQ(bh_semver_cmp(&x, &x), 0);
    }
    for (size_t i = 0; i < BH_COUNT(bad); i++)
        if (bh_semver_parse(bh_s(bad[i]), &x))
            bh_test_fail(__FILE__, __LINE__, "%s was accepted", bad[i]);
    BH_CHECK(bh_semver_parse(BH_S("1.2.3-a.1+b.01"), &x));
    BH_STREQ(x.pre, "a.1");
    BH_STREQ(x.build, "b.01");
}

BH_TEST(pb_writes_and_reads)
{
    BH_AUTO_BUF b = {0};
    struct bh_pb_rd r;
    struct bh_pb_field f = {0};
    size_t m;

    bh_pb_w_uint(&b, 1, 150);
    bh_pb_w_uint(&b, 2, (uint64_t)(int64_t)-1);
    bh_pb_w_sint(&b, 3, -2);
    bh_pb_w_double(&b, 4, 1.5);
    bh_pb_w_fixed32(&b, 5, 7);
    bh_pb_w_bytes(&b, 6, BH_S("hi"));
    m = bh_pb_w_open(&b, 7);
    for (int i = 0; i < 300; i++)
        bh_buf_addc(&b, 'x');
    bh_pb_w_close(&b, m);
    m = bh_pb_w_open(&b, 8);
    bh_pb_w_close(&b, m);
    r = bh_pb_rd(bh_buf_str(&b));
    BH_EQ(bh_pb_next(&r, &f, NULL), 1);
    BH_EQ(f.u, 150);
    BH_EQ(bh_pb_next(&r, &f, NULL), 1);
    BH_EQ((int64_t)f.u, -1);
    BH_EQ(bh_pb_next(&r, &f, NULL), 1);
    BH_EQ(bh_pb_zigzag(f.u), -2);
    BH_EQ(bh_pb_next(&r, &f, NULL), 1);
    BH_CHECK(bh_pb_double(f.u) == 1.5);
    BH_EQ(bh_pb_next(&r, &f, NULL), 1);
    BH_EQ(f.u, 7);
    BH_EQ(bh_pb_next(&r, &f, NULL), 1);
    BH_STREQ(f.bytes, "hi");
    BH_EQ(bh_pb_next(&r, &f, NULL), 1);
    BH_EQ(f.bytes.n, 300);
    BH_EQ(bh_pb_next(&r, &f, NULL), 1);
    BH_EQ(f.number, 8);
    BH_EQ(f.bytes.n, 0);
    BH_EQ(bh_pb_next(&r, &f, NULL), 0);
}

BH_TEST(pb_refuses_malformed_bytes)
{
    static const struct bh_str bad[] = {
        BH_S_INIT("\x08"),
        BH_S_INIT("\x08\xff"),
        BH_S_INIT("\x00\x01"),
        BH_S_INIT("\x0a\x05"
                  "abc"),
        BH_S_INIT("\x09\x01"),
        BH_S_INIT("\x0d\x01"),
        BH_S_INIT("\x0e"),
        BH_S_INIT("\x0c"),
        BH_S_INIT("\x0b\x14"),
        BH_S_INIT("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),
        BH_S_INIT("\x0b"),
        BH_S_INIT("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    };
    char deep[400];
    struct bh_pb_field f = {0};
    struct bh_pb_rd r;

    for (size_t i = 0; i < BH_COUNT(bad); i++) {
        r = bh_pb_rd(bad[i]);
        BH_EQ(bh_pb_next(&r, &f, NULL), -BH_E_BAD_REQUEST);
    }
    memset(deep, 0x0b, sizeof(deep));
    r = bh_pb_rd((struct bh_str){deep, sizeof(deep)});
    BH_EQ(bh_pb_next(&r, &f, NULL), -BH_E_BAD_REQUEST);
    r = bh_pb_rd(BH_S("\x0b\x10\x01\x13\x14\x0c\x18\x05"));
    BH_EQ(bh_pb_next(&r, &f, NULL), 1);
    BH_EQ(f.bytes.n, 4);
    BH_EQ(bh_pb_next(&r, &f, NULL), 1);
    BH_EQ(f.u, 5);
}
