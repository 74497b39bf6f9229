/* Inside of the HTTP server: connections and exchanges. Private to src/net. */
#ifndef BH_NET_HTTP_SERVER_INT_H
#define BH_NET_HTTP_SERVER_INT_H

#include "net/http.h"
#include "net/http1.h"
#include "net/loop.h"

#include "base/list.h"

struct bh_h2;
struct bh_h2_stream;

#define BH_HTTP_LISTENERS_MAX 16
#define BH_HTTP_SPARE_MAX     256        /* exchanges kept for reuse, arena included */
#define BH_HTTP_SPARE_BYTES   (64 << 10) /* of an arena: one that had to grow beyond is not kept */

struct bh_http_server {
    struct bh_loop *loop;
    struct bh_http_server_opts opts;
    struct bh_listener *listeners[BH_HTTP_LISTENERS_MAX];
    bool listener_tls[BH_HTTP_LISTENERS_MAX];
    size_t listeners_n;
    struct bh_link conns;
    size_t conns_n;
    struct bh_link spare; /* exchanges */
    size_t spare_n;
    size_t bodies_bytes; /* of the requests that are being received or answered */
    struct bh_buf head;  /* scratch for response heads */
    int64_t date_s;      /* the second that date was written for */
    char date[32];
    bool draining;
    struct bh_timer drain_timer;
    void (*drained)(void *arg);
    void *drained_arg;
    int refs; /* its owner, and deferred calls */
};

/* A connection. Exchanges refer to it, so that they can look at the peer and find the stream gone.
 */
struct bh_http_conn {
    struct bh_link link;
    struct bh_http_server *server; /* NULL: the server has been freed */
    struct bh_loop *loop;
    struct bh_stream *stream; /* NULL: the client has left, or the stream was handed over */
    struct bh_stream_peer peer;
    char *peer_text; /* holds the strings of peer */
    struct bh_h1 h1;
    struct bh_http_x *cur; /* being received or answered */
    struct bh_buf in;      /* arrived behind the request that is being answered */
    struct bh_timer timer;
    int64_t deadline_ns; /* the timer is started lazily: it may fire earlier than this */
    int64_t idle_until_ns;
    uint64_t sent_seen; /* of the stream, at the last check for progress */
    bool answering;     /* cur is with the handler */
    bool in_input;    /* bytes are being parsed: whatever ends an exchange need not restart that */
    bool held;        /* reading is paused */
    bool close_after; /* no further request */
    bool eof;         /* the client sends no more */
    int refs;
    /* HTTP/2 (http2_server.c): then nothing of h1, cur, in and the flags above is used */
    struct bh_h2 *h2;
    struct bh_link xs; /* exchanges whose stream is open */
    int h2_busy;       /* functions of h2 that are under way: it must not be freed */
    bool flush_pending, calmed;
    int waste; /* streams that ended without an answer, less what time forgives */
    int64_t waste_ns, idle_since_ns, moved_ns;
};

struct bh_http_x {
    struct bh_http_exchange pub; /* first */
    struct bh_link spare_link;
    struct bh_http_conn *conn;
    struct bh_buf body;
    size_t counted; /* of it in the server's bodies_bytes */
    int refs;
    int minor;
    bool keep_alive, head_only;
    bool started; /* a streaming head is out */
    bool chunked;
    bool finished;
    bool told_close;
    void (*on_close)(void *arg);
    void *on_close_arg;
    void (*on_drain)(void *arg);
    void *on_drain_arg;
    /* HTTP/2 */
    struct bh_link h2_link;
    struct bh_h2_stream *h2; /* NULL once the stream is over */
    bool over_h2, with_handler;
    bool was_high; /* on_drain is due when all is sent */
    uint64_t sent_seen;
    int64_t moved_ns; /* when the request or the answer last got on */
};

/* http_server.c */
void bh_http_conn_unref(struct bh_http_conn *c);
void bh_http_conn_detach(
    struct bh_http_conn *c); /* forgets the stream, and with it the server's interest */
/* The client has left: detaches, and tells the exchanges. */
void bh_http_conn_gone(struct bh_http_conn *c);
void bh_http_exchange_done(
    struct bh_http_x *x);                    /* the answer is complete: on to the next request */
void bh_http_x_uncount(struct bh_http_x *x); /* its body is nobody's memory problem any more */
const char *bh_http_server_date(struct bh_http_server *s);

/* http_exchange.c */
struct bh_http_x *bh_http_x_new(struct bh_http_conn *c);
void bh_http_x_tell_close(struct bh_http_x *x);
void bh_http_x_spare_free(struct bh_http_x *x);
bool bh_http_header_is_ours(struct bh_str name); /* frames the message: not the handler's to say */
size_t bh_http_parts_bytes(const struct bh_part *parts, size_t n);
void bh_http_parts_drop(const struct bh_part *parts, size_t n);

/* http2_server.c. What answers needs x->h2. */
void bh_http2_begin(struct bh_http_conn *c); /* the connection's stream speaks HTTP/2 */
void bh_http2_gone(struct bh_http_conn *c);
void bh_http2_tick(struct bh_http_conn *c);
void bh_http2_drain(struct bh_http_conn *c); /* no further requests */
void bh_http2_x_done(struct bh_http_x *x);
void bh_http2_respond(struct bh_http_x *x, int status, const struct bh_http_header *h, size_t hn,
                      const struct bh_part *parts, size_t pn);
void bh_http2_stream_start(struct bh_http_x *x, int status, const struct bh_http_header *h,
                           size_t hn);
void bh_http2_stream_write(struct bh_http_x *x, const struct bh_part *parts, size_t pn);
void bh_http2_stream_end(struct bh_http_x *x);
void bh_http2_stream_abort(struct bh_http_x *x);
void bh_http2_refuse_upgrade(struct bh_http_x *x);
size_t bh_http2_queued(const struct bh_http_x *x);
/* As bh_http_server_adopt(), for a client that is known to speak HTTP/2. */
void bh_http2_adopt(struct bh_http_server *s, struct bh_stream *st);

#endif
