/* gRPC framing and header values: every split, every limit. */
#include "net/grpc_wire.h"

#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/test.h"

BH_TEST(grpc_deframe_any_split)
{
    static const char wire[] = "\0\0\0\0\3abc\0\0\0\0\0\0\0\0\0\1z";

    for (size_t piece = 1; piece < sizeof(wire); piece++) {
        struct bh_grpc_deframer d = {0};
        struct bh_str msg;
        char got[8] = "";
        size_t n = 0, messages = 0;

        for (size_t i = 0; i < sizeof(wire) - 1; i += piece) {
            struct bh_str in = bh_str_sub((struct bh_str){wire, sizeof(wire) - 1}, i, i + piece);

            while (in.n > 0 && bh_grpc_deframe(&d, &in, &msg, NULL) == 1) {
                memcpy(got + n, msg.p, msg.n);
                n += msg.n;
                messages++;
            }
        }
        BH_EQ(messages, 3);
        BH_STREQ(bh_s(got), "abcz");
        BH_EQ(bh_grpc_deframer_pending(&d), 0);
        bh_grpc_deframer_done(&d);
    }
}

BH_TEST(grpc_deframe_refuses)
{
    static const struct {
        const char *bytes;
        int want;
    } cases[] = {{"\1\0\0\0\1x", -BH_E_UNSUPPORTED},
                 {"\2\0\0\0\1x", -BH_E_PROTO},
                 {"\0\1\0\0\1x", -BH_E_LIMIT}};

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        struct bh_grpc_deframer d = {0};
        struct bh_str in = {cases[i].bytes, 6}, msg;

        BH_EQ(bh_grpc_deframe(&d, &in, &msg, NULL), cases[i].want);
        bh_grpc_deframer_done(&d);
    }
}

BH_TEST(grpc_timeouts)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    int64_t ns = 0;

    BH_CHECK(bh_grpc_timeout_parse(BH_S("100m"), &ns) && ns == 100000000);
    BH_CHECK(bh_grpc_timeout_parse(BH_S("1H"), &ns) && ns == 3600000000000);
    BH_CHECK(bh_grpc_timeout_parse(BH_S("99999999H"), &ns) && ns > 0);
    BH_CHECK(bh_grpc_timeout_parse(BH_S("7n"), &ns) && ns == 7);
    BH_CHECK(!bh_grpc_timeout_parse(BH_S(""), &ns));
    BH_CHECK(!bh_grpc_timeout_parse(BH_S("m"), &ns));
    BH_CHECK(!bh_grpc_timeout_parse(BH_S("1"), &ns));
    BH_CHECK(!bh_grpc_timeout_parse(BH_S("-1S"), &ns));
    BH_CHECK(!bh_grpc_timeout_parse(BH_S("123456789S"), &ns));
    BH_STREQ(bh_grpc_timeout_format(a, 45000), "45000m");
    BH_STREQ(bh_grpc_timeout_format(a, 0), "1m");
    BH_STREQ(bh_grpc_timeout_format(a, 100000000), "100000S");
}

BH_TEST(grpc_messages_percent)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    BH_STREQ(bh_grpc_message_encode(a, BH_S("a b%\n\303\244")), "a b%25%0A%C3%A4");
    BH_STREQ(bh_grpc_message_decode(a, BH_S("a b%25%0A%C3%A4")), "a b%\n\303\244");
    BH_STREQ(bh_grpc_message_decode(a, BH_S("%")), "%");
    BH_STREQ(bh_grpc_message_decode(a, BH_S("%4")), "%4");
    BH_STREQ(bh_grpc_message_decode(a, BH_S("%41")), "A");
    BH_STREQ(bh_grpc_message_decode(a, BH_S("%zz%41")), "%zzA");
}
