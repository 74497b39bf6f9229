/* Inside of streams: shared by stream*.c. Private to src/net. */
#ifndef BH_NET_STREAM_INT_H
#define BH_NET_STREAM_INT_H

#include "net/loop_int.h"
#include "net/segs.h"
#include "net/stream.h"

#include "base/buf.h"
#include "base/list.h"

struct ssl_st;
struct bh_resolve; /* stream_connect.c */

enum bh_stream_state {
    BH_ST_CONNECTING, /* name, connect(2) */
    BH_ST_HANDSHAKE,
    BH_ST_OPEN,
    BH_ST_CLOSING, /* flushing, then waiting for the peer's end */
    BH_ST_DEAD,    /* on_close is due */
};

struct bh_stream {
    struct bh_link link; /* of the loop */
    struct bh_loop *loop;
    struct bh_stream_ops ops;
    void *arg;
    int fd;
    struct bh_io *io;
    enum bh_stream_state state;
    int refs;
    bool paused;
    bool kick_pending, flush_wanted, pump_wanted;
    bool read_eof, shut_wanted, shut_done;
    bool above_high;
    bool write_blocked;   /* the kernel takes no more for now */
    struct bh_segs queue; /* plain bytes */
    uint64_t sent;
    size_t low, high;
    struct bh_buf unread;
    struct bh_timer timer; /* connecting, handshake, closing: never two of them */
    struct bh_err why;
    struct bh_stream_peer peer;
    /* TLS */
    struct bh_tls *tls;
    struct ssl_st *ssl;
    struct bh_buf cipher; /* encrypted, not yet sent */
    size_t cipher_at;     /* of it, sent */
    bool rx_empty; /* the last recv came short: asking again before the next readiness is no use */
    /* accepted ones */
    struct bh_listener *listener;
    struct bh_link listener_link;
    /* outgoing ones */
    struct bh_resolve *resolve;
};

/* stream.c */
struct bh_stream *bh_stream_new(struct bh_loop *l, const struct bh_stream_ops *ops, void *arg);
/* Watches the connected descriptor; on failure the stream is dead and on_close is due. */
bool bh_stream_attach(struct bh_stream *s, int fd);
void bh_stream_die(struct bh_stream *s, const struct bh_err *why);
void bh_stream_fail(struct bh_stream *s, enum bh_code code, int eno,
                    const char *what); /* "what PEER: strerror" */
void bh_stream_kick(struct bh_stream *s);
void bh_stream_opened(struct bh_stream *s); /* connected, TLS done: tells the owner */
void bh_stream_on_io(void *arg, unsigned events);
void bh_stream_rewant(struct bh_stream *s);
ssize_t bh_stream_recv(struct bh_stream *s, void *p, size_t n); /* recv(2) without EINTR */
void bh_stream_fill_peer(struct bh_stream *s);

/* stream_tls.c */
bool bh_stream_tls_start(struct bh_stream *s, struct bh_tls *t, const char *server_name,
                         const char *const *alpn);
void bh_stream_tls_stop(struct bh_stream *s); /* frees */
void bh_stream_tls_handshake(struct bh_stream *s);
/* Like bh_stream_recv; -1 with errno EAGAIN, 0 at an orderly end, -2 when the stream has been
 * failed. */
ssize_t bh_stream_tls_read(struct bh_stream *s, void *p, size_t n);
/* Moves bytes of the queue into the cipher buffer. False: the stream has been failed. */
bool bh_stream_tls_encrypt(struct bh_stream *s);
void bh_stream_tls_notify(struct bh_stream *s); /* queues close_notify */

/* stream_listen.c */
void bh_listener_stream_opened(struct bh_stream *s);
void bh_listener_stream_gone(struct bh_stream *s);
/* stream_connect.c */
void bh_stream_connect_ready(struct bh_stream *s);
void bh_resolve_stop(struct bh_stream *s);

#endif
