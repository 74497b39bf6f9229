/* The HTTP/1.1 parser: framing, and a table of what must be refused. */
#include "net/http1.h"

#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/test.h"

/* Parses text in steps of some bytes; writes a summary like "GET /p?q h=2 [body] . " to out.
 * Returns the last status: 0, or the bad_status. */
static int parse(struct bh_str text, size_t step, bool response, struct bh_buf *out)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_h1 h;
    int r = 0;

    bh_h1_init(&h, response);
    h.arena = a;
    bh_buf_clear(out);
    for (size_t at = 0; at < text.n && r >= 0; at += step) {
        struct bh_str in = bh_str_sub(text, at, at + step), data = {0};

        while ((r = bh_h1_next(&h, &in, &data, NULL)) > 0) {
            if (r == BH_H1_BODY)
                bh_buf_adds(out, data);
            else if (r == BH_H1_END)
                bh_buf_addz(out, ".");
            else if (response)
                bh_buf_addf(out, "%d h=%zu ka=%d ", h.head.status, h.head.headers_n,
                            h.head.keep_alive);
            else
                bh_buf_addf(out, "%.*s %.*s?%.*s h=%zu ka=%d ", BH_SF(h.head.method),
                            BH_SF(h.head.path), BH_SF(h.head.query), h.head.headers_n,
                            h.head.keep_alive);
        }
    }
    if (r >= 0)
        r = bh_h1_eof(&h, NULL);
    if (r == BH_H1_END)
        bh_buf_addz(out, ".");
    r = r < 0 ? h.bad_status : 0;
    bh_h1_done(&h);
    return r;
}

#define HOST "Host: a\r\n"

static const struct {
    const char *in;
    int status; /* 0: fine */
    const char *out;
} requests[] = {
    {"GET / HTTP/1.1\r\n" HOST "\r\n", 0, "GET /? h=1 ka=1 ."},
    {"GET /a/b?x=1&y HTTP/1.1\r\n" HOST "X: \t y \t\r\nEmpty:\r\n\r\n", 0,
     "GET /a/b?x=1&y h=3 ka=1 ."},
    {"\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 0, "GET /? h=1 ka=1 ."},
    {"GET / HTTP/1.0\r\n\r\n", 0, "GET /? h=0 ka=0 ."},
    {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 0, "GET /? h=1 ka=1 ."},
    {"GET / HTTP/1.1\r\n" HOST "Connection: foo, CLOSE\r\n\r\n", 0, "GET /? h=2 ka=0 ."},
    {"GET http://a/x?y HTTP/1.1\r\n" HOST "\r\n", 0, "GET /x?y h=1 ka=1 ."},
    {"FROB /x HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", 0, "FROB /x? h=2 ka=1 abc."},
    {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 0, "OPTIONS *? h=1 ka=1 ."},
    {"PATCH /x HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n" HOST "\r\n", 0,
     "PATCH /x? h=2 ka=1 abc.GET /? h=1 ka=1 ."},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", 0, "POST /? h=2 ka=1 ."},
    {"POST / HTTP/1.1\r\n" HOST
     "Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0A;x=y\r\n0123456789\r\n0\r\n\r\n",
     0, "POST /? h=2 ka=1 abc0123456789."},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nT: v\r\n\r\n", 0,
     "POST /? h=2 ka=1 a."},
    /* ambiguous lengths */
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\na", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\na", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\na", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x1\r\n\r\na", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\na", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1 2\r\n\r\na", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
     400, NULL},
    /* codings */
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n", 501, NULL},
    {"POST / HTTP/1.1\r\n" HOST
     "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     501, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \x0b"
     "chunked\r\n\r\n0\r\n\r\n",
     400, NULL},
    {"POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, NULL},
    /* chunks */
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n", 400,
     NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", 400,
     NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n\r\na\r\n0\r\n\r\n", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-1\r\na\r\n0\r\n\r\n", 400,
     NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 400,
     NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1;a\rb\r\na\r\n0\r\n\r\n", 400,
     NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n", 413,
     NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\nbad trailer: x\r\n\r\n",
     400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\n", 400, NULL},
    /* lines and names */
    {"GET / HTTP/1.1\n" HOST "\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\nHost: a\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A: b\rc\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A: b\r\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n " HOST "\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A : b\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "Content-Length : 1\r\n\r\na", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST ": b\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A(b: c\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A\x80: c\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "nocolon\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A: b\x01\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A: b\x7f\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400, NULL},
    /* request lines */
    {"GET  / HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET /  HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET\t/ HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET /a\tb HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET /\x80 HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET /#f HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET x HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET * HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET /\r\n\r\n", 400, NULL},
    {" GET / HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"FR(B / HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n", 501, NULL},
    {"GET / HTTP/1.2\r\n" HOST "\r\n", 505, NULL},
    {"GET / http/1.1\r\n" HOST "\r\n", 400, NULL},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, NULL},
    {"\x16\x03\x01\x02\x05\x01\n\n", 400, NULL},
    {"\r\n\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"\nGET / HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "Expect: tea\r\n\r\n", 417, NULL},
    {"GET / HTTP/1.1\r\nHost", 400, NULL}, /* cut off */
};

BH_TEST(http1_requests)
{
    BH_AUTO_BUF out = {0};

    for (size_t i = 0; i < BH_COUNT(requests); i++) {
        struct bh_str in = bh_s(requests[i].in);

        for (size_t step = 1; step <= in.n; step = step < 4 ? step + 1 : step * 3) {
            int st = parse(in, step, false, &out);

            if (st != requests[i].status)
                bh_test_fail(__FILE__, __LINE__, "request %zu, step %zu: %d, not %d: %s", i, step,
                             st, requests[i].status, requests[i].in);
            if (requests[i].out && !bh_str_eqc(bh_buf_str(&out), requests[i].out))
                bh_test_fail(__FILE__, __LINE__, "request %zu, step %zu: '%.*s'", i, step,
                             BH_SF(bh_buf_str(&out)));
        }
    }
}

static const struct {
    const char *in;
    int bad;
    const char *out;
} responses[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 0, "200 h=1 ka=1 ok."},
    {"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", 0, "200 h=1 ka=1 ok."},
    {"HTTP/1.1 200 OK\r\n\r\nuntil the end", 0, "200 h=0 ka=0 until the end."},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 0,
     "100 h=0 ka=1 .204 h=0 ka=1 ."},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 0,
     "200 h=1 ka=1 ok."},
    {"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", 0, "304 h=1 ka=1 ."},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\no", 400, NULL},
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", 400, NULL},
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nok", 400, NULL},
    {"HTTP/2 200 OK\r\n\r\n", 400, NULL},
    {"SSH-2.0-OpenSSH\r\n\r\n", 400, NULL},
    {"HTTP/1.1 20 OK\r\n\r\n", 400, NULL},
};

BH_TEST(http1_responses)
{
    BH_AUTO_BUF out = {0};

    for (size_t i = 0; i < BH_COUNT(responses); i++) {
        struct bh_str in = bh_s(responses[i].in);

        for (size_t step = 1; step <= in.n; step++) {
            BH_EQ(parse(in, step, true, &out), responses[i].bad);
            if (responses[i].out)
                BH_STREQ(bh_buf_str(&out), responses[i].out);
        }
    }
}

static void fill(struct bh_buf *b, char c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bh_buf_addc(b, c);
}

BH_TEST(http1_limits)
{
    BH_AUTO_BUF in = {0};
    BH_AUTO_BUF out = {0};

    bh_buf_addz(&in, "GET /");
    fill(&in, 'a', BH_URL_BYTES_MAX);
    BH_EQ(parse(bh_buf_str(&in), 1000, false, &out), 414);
    bh_buf_clear(&in);
    bh_buf_addz(&in, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
    fill(&in, 'a', BH_HEADER_BYTES_MAX - 100);
    bh_buf_addz(&in, "\r\n\r\n");
    BH_EQ(parse(bh_buf_str(&in), 5000, false, &out), 0);
    bh_buf_clear(&in);
    bh_buf_addz(&in, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
    fill(&in, 'a', BH_HEADER_BYTES_MAX + BH_URL_BYTES_MAX);
    BH_EQ(parse(bh_buf_str(&in), 5000, false, &out), 431);
    bh_buf_clear(&in);
    bh_buf_addz(&in, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < BH_HEADERS_MAX; i++)
        bh_buf_addz(&in, "A: b\r\n");
    bh_buf_addz(&in, "\r\n");
    BH_EQ(parse(bh_buf_str(&in), 5000, false, &out), 431);
    bh_buf_clear(&in);
    bh_buf_addz(&in, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;");
    fill(&in, 'x', BH_HTTP_CHUNK_LINE_MAX);
    BH_EQ(parse(bh_buf_str(&in), 1000, false, &out), 400);
    bh_buf_clear(&in);
    bh_buf_addz(&in, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
    for (int i = 0; i < 3000; i++)
        bh_buf_addz(&in, "A: b\r\n");
    BH_EQ(parse(bh_buf_str(&in), 1000, false, &out), 431);
}

BH_TEST(http1_fields)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str in = BH_S("GET /x HTTP/1.1\r\nHost: a\r\nX-Remote:  first \r\nx-remote: "
                            "second\r\nUpgrade: websocket\r\n"
                            "Connection: keep-alive, Upgrade\r\nExpect: 100-Continue\r\n\r\n"),
                  data;
    const struct bh_str *v;
    struct bh_h1 h;

    bh_h1_init(&h, false);
    h.arena = a;
    BH_EQ(bh_h1_next(&h, &in, &data, NULL), BH_H1_HEAD);
    v = bh_http_header_find(h.head.headers, h.head.headers_n, BH_S("X-REMOTE"));
    BH_CHECK(v != NULL);
    if (v)
        BH_STREQ(*v, "first");
    BH_CHECK(bh_http_header_find(h.head.headers, h.head.headers_n, BH_S("no")) == NULL);
    BH_CHECK(h.head.upgrade && h.head.expect_continue && h.head.keep_alive);
    BH_EQ(bh_h1_next(&h, &in, &data, NULL), BH_H1_END);
    BH_CHECK(bh_h1_idle(&h));
    bh_h1_done(&h);
}
