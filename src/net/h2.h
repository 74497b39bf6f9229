/* HTTP/2 connections as a pure protocol core: bytes in, bytes out, no I/O and no clock. A
 * connection speaks it from its first byte: nothing changes over from HTTP/1.1.
 *
 * One side, client or server, of one connection. The owner feeds received bytes, takes bytes to
 * send whenever `output` was called, and is told of headers, data and ends of streams. Flow
 * control, SETTINGS and PING are answered here. Callbacks run inside bh_h2_feed(), bh_h2_take() and
 * bh_h2_reset(); they may call anything here except bh_h2_free() and bh_h2_feed(). One thread.
 */
#ifndef BH_NET_H2_H
#define BH_NET_H2_H

#include "base/err.h"
#include "base/str.h"

struct bh_buf;
struct bh_part;   /* stream.h */
struct bh_stream; /* stream.h */
struct bh_h2;
struct bh_h2_stream; /* valid until its `closed` callback returns */

struct bh_h2_header {
    struct bh_str name; /* lower case; pseudo headers begin with ':' */
    struct bh_str value;
};

struct bh_h2_ops {
    /* Request headers (server), response headers or trailers (client), request trailers (server:
     * trailers is true). The headers are valid during the call. A 1xx response is not reported. */
    void (*headers)(void *arg, struct bh_h2_stream *s, const struct bh_h2_header *h, size_t n,
                    bool trailers);
    /* Body bytes. They count against the peer's window until bh_h2_consume(). */
    void (*data)(void *arg, struct bh_h2_stream *s, struct bh_str bytes);
    void (*end)(void *arg, struct bh_h2_stream *s); /* the peer has sent all of its side */
    /* The stream is over, code 0 when both sides ended it properly (RFC 9113 section 7). Always
     * called once for each stream that was reported or opened, at the latest by bh_h2_free(). */
    void (*closed)(void *arg, struct bh_h2_stream *s, uint32_t code);
    void (*drained)(void *arg,
                    struct bh_h2_stream *s); /* all bytes of bh_h2_send() were taken; may be NULL */
    void (*output)(void *arg); /* something became ready for bh_h2_take(); may come often */
    void (*ready)(void *arg);  /* the peer's first SETTINGS arrived; may be NULL */
    void (*goaway)(void *arg, uint32_t code); /* the peer will accept no new streams; may be NULL */
};

struct bh_h2_opts {
    bool server;
    uint32_t streams_max;    /* concurrent streams the peer may open; 0: BH_STREAMS_MAX */
    uint32_t window_bytes;   /* receive window of a stream; 0: 256 KiB */
    size_t header_bytes_max; /* all headers of one stream; 0: BH_HEADER_BYTES_MAX */
    size_t stream_out_max; /* bytes buffered by bh_h2_send() on one stream; 0: BH_GRPC_MESSAGE_MAX +
                              64 KiB */
};

struct bh_h2 *bh_h2_new(const struct bh_h2_opts *o, const struct bh_h2_ops *ops, void *arg);
struct bh_h2 *bh_h2_free(struct bh_h2 *h); /* `closed` runs for the streams still open */

/* Takes in received bytes. -BH_E_PROTO when the peer broke the protocol: take the last output, then
 * close. */
BH_MUST int bh_h2_feed(struct bh_h2 *h, struct bh_str bytes, struct bh_err *err);
/* Appends bytes to send to out, until out holds about max bytes. True when there may be more. */
bool bh_h2_take(struct bh_h2 *h, struct bh_buf *out, size_t max);
/* Takes into a stream until that has enough; for the owner's thread, outside of callbacks. The
 * stream must stay valid meanwhile, callbacks or not. */
bool bh_h2_pour(struct bh_h2 *h, struct bh_stream *st);
/* True when both sides are done with the connection (GOAWAY sent or received and no stream left, or
 * a fatal error). */
bool bh_h2_done(const struct bh_h2 *h);
void bh_h2_shutdown(struct bh_h2 *h, uint32_t code); /* GOAWAY; streams under way go on */
void bh_h2_ping(struct bh_h2 *h);
size_t bh_h2_streams(const struct bh_h2 *h);

/* Client: opens a stream with these request headers (pseudo headers first). end: no body follows.
 * NULL when the connection accepts no more streams. */
struct bh_h2_stream *bh_h2_open(struct bh_h2 *h, const struct bh_h2_header *hd, size_t n, bool end,
                                void *user);
/* Server: the response headers. end: neither body nor trailers follow. */
BH_MUST int bh_h2_respond(struct bh_h2_stream *s, const struct bh_h2_header *hd, size_t n,
                          bool end);
/* Server: an interim response ("100"), before bh_h2_respond(). */
void bh_h2_inform(struct bh_h2_stream *s, struct bh_str status);
/* Body bytes, copied. -BH_E_LIMIT when stream_out_max would be passed (nothing is queued),
 * -BH_E_CANCELED when closing. */
BH_MUST int bh_h2_send(struct bh_h2_stream *s, struct bh_str bytes);
/* The same in parts, which may be referenced (stream.h); on failure they are released. */
BH_MUST int bh_h2_send_parts(struct bh_h2_stream *s, const struct bh_part *parts, size_t n);
/* Ends this side after what is queued, with trailers when n > 0. */
void bh_h2_send_end(struct bh_h2_stream *s, const struct bh_h2_header *trailers, size_t n);
void bh_h2_reset(struct bh_h2_stream *s,
                 uint32_t code); /* RST_STREAM; `closed` follows, perhaps at once */
void bh_h2_consume(struct bh_h2_stream *s,
                   size_t n); /* gives n received bytes of window back to the peer */
size_t bh_h2_unsent(const struct bh_h2_stream *s);
uint64_t bh_h2_sent(const struct bh_h2_stream *s); /* body bytes taken so far: shows progress */
/* Client: streams may be opened, now or when others have ended. */
bool bh_h2_accepts(const struct bh_h2 *h);
/* Client: how many streams more the peer lets us open now. */
size_t bh_h2_room(const struct bh_h2 *h);
void *bh_h2_user(const struct bh_h2_stream *s);
void bh_h2_set_user(struct bh_h2_stream *s, void *user);

enum {
    BH_H2_NO_ERROR = 0,
    BH_H2_PROTOCOL = 1,
    BH_H2_INTERNAL = 2,
    BH_H2_REFUSED = 7,
    BH_H2_CANCEL = 8,
    BH_H2_CALM = 11,
    BH_H2_HTTP11_REQUIRED = 13
};

#endif
