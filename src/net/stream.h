/* Byte streams on a loop: TCP, unix sockets, and TLS over either; listeners and outgoing
 * connections.
 *
 * A stream belongs to the thread of its loop; every function here is for that thread, and nothing
 * blocks. Callbacks come from the loop, never from inside a function that the owner called.
 * on_close is the last of them and comes exactly once; the stream is freed after it, so the owner
 * forgets the pointer there. Before on_close every function may be called in any state (on a dying
 * stream they do nothing, and written parts are released). Real loops only.
 */
#ifndef BH_NET_STREAM_H
#define BH_NET_STREAM_H

#include "base/err.h"
#include "base/str.h"

#include <sys/types.h>

struct bh_loop;
struct bh_stream;
struct bh_listener;
struct bh_tls;

/* One piece of what is written. Without release the bytes are copied before the call returns. With
 * it they are referenced, and release(ref) runs once on the loop's thread when they are no longer
 * needed: written, or dropped. */
struct bh_part {
    struct bh_str data;
    void (*release)(void *ref);
    void *ref;
};

/* All may be NULL. */
struct bh_stream_ops {
    void (*on_open)(void *arg); /* an outgoing connection stands (TLS included) */
    void (*on_read)(void *arg, struct bh_str data); /* the view is valid during the call */
    void (*on_eof)(void *arg); /* the peer will send no more; the stream stays writable. NULL: the
                                  stream is closed */
    void (*on_drain)(
        void *arg); /* queued bytes fell to the low water mark after they had passed the high one */
    /* The end. err->code is BH_OK when we closed, or when both directions ended in order; else what
     * happened, naming the peer. */
    void (*on_close)(void *arg, const struct bh_err *err);
};

/* Who is on the other side. The pointers live as long as the stream. */
struct bh_stream_peer {
    char addr[128]; /* "192.0.2.1:4000", "[2001:db8::1]:4000", "unix:/path", "unix" */
    bool is_unix;   /* then the credentials of the peer, as the kernel tells them: */
    pid_t pid;      /* 0: not known */
    uid_t uid;
    gid_t gid;
    bool tls;
    bool cert_presented; /* the peer showed a certificate */
    bool cert_verified; /* … and it leads to our CA and is valid now: only then cn and orgs may be
                           believed */
    struct bh_str cn;   /* subject CN, of a presented certificate */
    struct bh_str_vec orgs; /* subject O, each */
    struct bh_str alpn;     /* agreed protocol, or empty */
};

/* ---- TLS configuration: immutable, reference-counted, shared between loops (thread: any) ---- */

struct bh_tls_opts {
    bool server;
    struct bh_str cert_pem; /* own chain, leaf first; a client may have none */
    struct bh_str key_pem;
    /* Server: CAs that client certificates are checked against; empty: none is asked for. A
     * certificate that fails the check does not fail the handshake: it leaves cert_verified false,
     * and the upper layer decides. Client: CAs the server must lead to; empty: the system's store.
     */
    struct bh_str ca_pem;
    const char *const *alpn;   /* NULL-terminated, preferred first; NULL: none */
    bool insecure_skip_verify; /* client: accept any server */
};
struct bh_tls *bh_tls_new(const struct bh_tls_opts *o, struct bh_err *err); /* NULL on failure */
struct bh_tls *bh_tls_ref(struct bh_tls *t);
struct bh_tls *bh_tls_unref(struct bh_tls *t); /* NULL is fine; returns NULL */

/* ---- streams ---- */

struct bh_connect_opts {
    const char *host; /* name or address; names are resolved on the worker pool */
    int port;
    const char
        *unix_path;     /* instead of host and port; a leading '@' means the abstract namespace */
    struct bh_tls *tls; /* NULL: plain. Referenced */
    const char *server_name; /* TLS: name checked and sent as SNI; NULL: host */
    const char *const *alpn; /* TLS: instead of those of tls; static. NULL: those */
    int timeout_ms;          /* until on_open; 0: BH_CONNECT_TIMEOUT_MS */
};
/* Starts connecting; on_open or on_close follows. NULL only when the loop is virtual or the options
 * make no sense. */
struct bh_stream *bh_stream_connect(struct bh_loop *l, const struct bh_connect_opts *o,
                                    const struct bh_stream_ops *ops, void *arg, struct bh_err *err);
/* Takes a connected stream socket (a socketpair's end, say); it is owned from here on, closed on
 * failure too. */
struct bh_stream *bh_stream_from_fd(struct bh_loop *l, int fd, const struct bh_stream_ops *ops,
                                    void *arg, struct bh_err *err);

/* Hands the stream to another owner: ops are copied. */
void bh_stream_set_ops(struct bh_stream *s, const struct bh_stream_ops *ops, void *arg);
struct bh_loop *bh_stream_loop(const struct bh_stream *s);
const struct bh_stream_peer *bh_stream_peer(const struct bh_stream *s);

/* Queues the parts in order; they go out when the current callback has returned, many in one system
 * call. */
void bh_stream_write(struct bh_stream *s, const struct bh_part *parts, size_t n);
void bh_stream_write_str(struct bh_stream *s, struct bh_str data); /* one copied part */
size_t bh_stream_queued(const struct bh_stream *s); /* bytes not yet given to the kernel */
uint64_t bh_stream_sent(
    const struct bh_stream *s); /* bytes given to the kernel since the start: shows progress */
/* Defaults: BH_STREAM_LOW_BYTES, BH_STREAM_HIGH_BYTES. More than BH_STREAM_QUEUE_BYTES_MAX queued
 * aborts the stream. */
void bh_stream_set_water(struct bh_stream *s, size_t low, size_t high);
bool bh_stream_above_high(const struct bh_stream *s);

void bh_stream_pause(
    struct bh_stream *s); /* no on_read, no on_eof until resumed; counts nothing, one switch */
void bh_stream_resume(struct bh_stream *s);
/* Gives bytes back: they come to on_read again before anything new, after the current callback.
 * Copied. */
void bh_stream_unread(struct bh_stream *s, struct bh_str data);

void bh_stream_shutdown(
    struct bh_stream *s); /* no more writes: the peer sees an end once the queue is out */
/* Writes what is queued (for BH_STREAM_LINGER_MS at most), then closes. No on_read any more. */
void bh_stream_close(struct bh_stream *s);
/* Drops the queue and closes; on_close gets *why (NULL: BH_E_CANCELED). */
void bh_stream_abort(struct bh_stream *s, const struct bh_err *why);

/* ---- listeners ---- */

struct bh_listen_opts {
    const char *host;      /* literal address; NULL: every IPv4 and IPv6 address */
    int port;              /* 0: the kernel picks one */
    const char *unix_path; /* instead; a stale socket is replaced, and removed again when the
                              listener is freed */
    unsigned unix_mode;    /* 0: 0600 */
    int backlog;           /* 0: 1024 */
    size_t conns_max;      /* open at once; further ones wait in the backlog. 0: BH_CONNS_MAX */
    bool reuse_port;    /* several loops listen on the same port, the kernel spreads connections */
    struct bh_tls *tls; /* NULL: plain. Referenced */
    int handshake_timeout_ms; /* 0: BH_TLS_HANDSHAKE_TIMEOUT_MS */
};
/* A connection is ready (TLS included). The callee sets ops, at the latest before it returns. */
typedef void (*bh_accept_fn)(void *arg, struct bh_stream *s);
struct bh_listener *bh_listen(struct bh_loop *l, const struct bh_listen_opts *o, bh_accept_fn fn,
                              void *arg, struct bh_err *err); /* NULL on failure */
int bh_listener_port(const struct bh_listener *ln);           /* 0 for unix */
size_t bh_listener_conns(const struct bh_listener *ln);
/* New connections and future handshakes use another TLS configuration (certificate rotation). */
void bh_listener_set_tls(struct bh_listener *ln, struct bh_tls *tls);
/* Stops accepting; connections that were handed out live on. NULL is fine. */
struct bh_listener *bh_listener_free(struct bh_listener *ln);

#endif
