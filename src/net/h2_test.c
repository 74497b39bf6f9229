/* HTTP/2 core: a client and a server wired to each other in memory, and hostile bytes. */
#include "net/h2.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/test.h"

struct side {
    struct bh_h2 *h2;
    bool echo; /* a server that answers with what it got */
    struct bh_buf got;
    int headers, trailers, ends, closed, readies;
    uint32_t code;
    struct bh_h2_stream *last;
};

static void t_headers(void *arg, struct bh_h2_stream *s, const struct bh_h2_header *h, size_t n,
                      bool trailers)
{
    struct side *d = arg;

    (void)h;
    BH_CHECK(n > 0);
    d->last = s;
    if (trailers)
        d->trailers++;
    else
        d->headers++;
}

static void t_data(void *arg, struct bh_h2_stream *s, struct bh_str bytes)
{
    struct side *d = arg;

    bh_buf_adds(&d->got, bytes);
    bh_h2_consume(s, bytes.n);
}

static void t_end(void *arg, struct bh_h2_stream *s)
{
    struct side *d = arg;
    const struct bh_h2_header ok = {BH_S(":status"), BH_S("200")};
    const struct bh_h2_header tr = {BH_S("grpc-status"), BH_S("0")};

    d->ends++;
    if (!d->echo)
        return;
    BH_EQ(bh_h2_respond(s, &ok, 1, false), 0);
    BH_EQ(bh_h2_send(s, bh_buf_str(&d->got)), 0);
    bh_h2_send_end(s, &tr, 1);
}

static void t_closed(void *arg, struct bh_h2_stream *s, uint32_t code)
{
    struct side *d = arg;

    d->closed++;
    d->code = code;
    if (d->last == s)
        d->last = NULL;
}

static void t_ready(void *arg)
{
    ((struct side *)arg)->readies++;
}

static const struct bh_h2_ops ops = {
    .headers = t_headers, .data = t_data, .end = t_end, .closed = t_closed, .ready = t_ready};

static void side_init(struct side *d, bool server)
{
    const struct bh_h2_opts o = {.server = server};

    memset(d, 0, sizeof(*d));
    d->echo = server;
    d->h2 = bh_h2_new(&o, &ops, d);
}

static void side_done(struct side *d)
{
    d->h2 = bh_h2_free(d->h2);
    bh_buf_done(&d->got);
}

/* Carries bytes both ways until neither side has any, piece bytes at a time. */
static void pump(struct side *a, struct side *b, size_t piece)
{
    struct side *from = a, *to = b, *t;
    int quiet = 0;

    while (quiet < 2) {
        BH_AUTO_BUF out = {0};
        struct bh_err e = {0};

        (void)bh_h2_take(from->h2, &out, 1 << 20);
        quiet = out.n == 0 ? quiet + 1 : 0;
        for (size_t i = 0; i < out.n; i += piece) {
            struct bh_str s = bh_str_sub(bh_buf_str(&out), i, i + piece);

            BH_EQ(bh_h2_feed(to->h2, s, &e), 0);
        }
        t = from;
        from = to;
        to = t;
    }
}

static struct bh_h2_stream *post(struct side *c)
{
    const struct bh_h2_header h[] = {{BH_S(":method"), BH_S("POST")},
                                     {BH_S(":scheme"), BH_S("http")},
                                     {BH_S(":path"), BH_S("/x")},
                                     {BH_S(":authority"), BH_S("localhost")}};

    return bh_h2_open(c->h2, h, BH_COUNT(h), false, NULL);
}

BH_TEST(h2_echo_with_trailers) /* larger than every window, so flow control must turn over */
{
    struct side c, s;
    struct bh_h2_stream *st;
    size_t n = 3u << 20;
    char *big = bh_malloc(n);

    memset(big, 'a', n);
    side_init(&c, false);
    side_init(&s, true);
    st = post(&c);
    BH_CHECK(st != NULL);
    BH_EQ(bh_h2_send(st, (struct bh_str){big, n}), 0);
    bh_h2_send_end(st, NULL, 0);
    pump(&c, &s, 1 << 20);
    BH_EQ(c.readies, 1);
    BH_EQ(s.headers, 1);
    BH_EQ(s.got.n, n);
    BH_EQ(c.got.n, n);
    BH_EQ(c.trailers, 1);
    BH_EQ(c.closed, 1);
    BH_EQ(s.closed, 1);
    BH_EQ(c.code, 0);
    BH_EQ(bh_h2_streams(s.h2), 0);
    side_done(&c);
    side_done(&s);
    bh_free(big);
}

BH_TEST(h2_split_anywhere) /* byte by byte gives the same */
{
    struct side c, s;
    struct bh_h2_stream *st;

    side_init(&c, false);
    side_init(&s, true);
    st = post(&c);
    BH_EQ(bh_h2_send(st, BH_S("hello")), 0);
    bh_h2_send_end(st, NULL, 0);
    pump(&c, &s, 1);
    BH_STREQ(bh_buf_str(&c.got), "hello");
    BH_EQ(c.closed, 1);
    side_done(&c);
    side_done(&s);
}

BH_TEST(h2_reset_reaches_the_peer)
{
    struct side c, s;
    struct bh_h2_stream *st;

    side_init(&c, false);
    side_init(&s, true);
    st = post(&c);
    pump(&c, &s, 64);
    BH_EQ(s.headers, 1);
    bh_h2_reset(st, BH_H2_CANCEL);
    pump(&c, &s, 64);
    BH_EQ(s.closed, 1);
    BH_EQ(s.code, BH_H2_CANCEL);
    BH_EQ(c.closed, 1);
    side_done(&c);
    side_done(&s);
}

/* What did not leave before the peer's GOAWAY came was not looked at: it may be asked elsewhere. */
BH_TEST(h2_unsent_request_counts_as_refused)
{
    struct side c, s;

    side_init(&c, false);
    side_init(&s, true);
    pump(&c, &s, 64);
    BH_EQ(bh_h2_room(c.h2), BH_STREAMS_MAX);
    BH_CHECK(post(&c) != NULL);
    bh_h2_shutdown(s.h2, BH_H2_NO_ERROR);
    pump(&s, &c, 64);
    BH_EQ(s.headers, 0);
    BH_EQ(c.closed, 1);
    BH_EQ(c.code, BH_H2_REFUSED);
    BH_EQ(bh_h2_room(c.h2), 0);
    BH_CHECK(bh_h2_done(c.h2));
    side_done(&c);
    side_done(&s);
}

/* Nothing is begun on a connection whose server broke the protocol, before that is said, too. */
BH_TEST(h2_no_room_after_nonsense)
{
    struct side c, s;

    side_init(&c, false);
    side_init(&s, true);
    pump(&c, &s, 64);
    BH_CHECK(bh_h2_room(c.h2) > 0);
    BH_EQ(bh_h2_feed(c.h2, (struct bh_str){"\0\0\0\0\0\0\0\0\0", 9}, NULL), 0);
    BH_EQ(bh_h2_room(c.h2), 0);
    side_done(&c);
    side_done(&s);
}

BH_TEST(h2_free_closes_streams)
{
    struct side c, s;

    side_init(&c, false);
    side_init(&s, true);
    BH_CHECK(post(&c) != NULL);
    BH_CHECK(post(&c) != NULL);
    pump(&c, &s, 64);
    side_done(&s);
    BH_EQ(s.closed, 2);
    side_done(&c);
    BH_EQ(c.closed, 2);
}

BH_TEST(h2_refuses_garbage) /* not HTTP/2 at all: an error, and something to say goodbye with */
{
    struct side s;
    struct bh_err e = {0};

    side_init(&s, true);
    BH_EQ(bh_h2_feed(s.h2, BH_S("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), &e), -BH_E_PROTO);
    side_done(&s);
}

BH_TEST(h2_limits_headers) /* a header list that never ends is cut off with the stream, not with
                              memory */
{
    struct side c, s;
    struct bh_h2_header h[8 + BH_HEADERS_MAX];
    size_t n = 0;

    side_init(&c, false);
    side_init(&s, true);
    h[n++] = (struct bh_h2_header){BH_S(":method"), BH_S("POST")};
    h[n++] = (struct bh_h2_header){BH_S(":scheme"), BH_S("http")};
    h[n++] = (struct bh_h2_header){BH_S(":path"), BH_S("/x")};
    h[n++] = (struct bh_h2_header){BH_S(":authority"), BH_S("localhost")};
    while (n < BH_COUNT(h))
        h[n++] = (struct bh_h2_header){BH_S("x-more"), BH_S("1")};
    BH_CHECK(bh_h2_open(c.h2, h, n, true, NULL) != NULL);
    pump(&c, &s, 4096);
    BH_EQ(s.headers, 0);
    BH_EQ(c.closed, 1);
    BH_CHECK(c.code != 0);
    side_done(&c);
    side_done(&s);
}

BH_TEST(h2_rapid_reset_is_cut_off) /* CVE-2023-44487 */
{
    struct side c, s;

    side_init(&c, false);
    side_init(&s, true);
    for (int i = 0; i < 3000; i++) {
        struct bh_h2_stream *st;
        BH_AUTO_BUF out = {0};

        st = post(&c);
        if (!st)
            break;
        (void)bh_h2_take(c.h2, &out, 1 << 20);
        bh_h2_reset(st, BH_H2_CANCEL);
        (void)bh_h2_take(c.h2, &out, 1 << 20);
        if (bh_h2_feed(s.h2, bh_buf_str(&out), NULL) < 0)
            break;
        bh_buf_clear(&out);
        (void)bh_h2_take(s.h2, &out, 1 << 20);
        if (bh_h2_done(s.h2))
            break;
    }
    BH_CHECK(s.headers < 1500);
    side_done(&c);
    side_done(&s);
}
