/* gRPC over HTTP/2: server and client.
 *
 * Messages are plain protobuf bytes; who calls decodes and encodes them. Unary and server-streaming
 * methods are served; the client also sends several messages on one stream. Unix sockets (prior
 * knowledge), for the client TCP and TLS too. Everything belongs to one loop and is called on its
 * thread; callbacks never run inside the call that caused them, except where said. Limits:
 * BH_GRPC_MESSAGE_MAX a message, BH_STREAMS_MAX calls a connection, BH_GRPC_CONN_BYTES_MAX bytes
 * buffered a connection in each direction.
 */
#ifndef BH_NET_GRPC_H
#define BH_NET_GRPC_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;
struct bh_loop;
struct bh_tls;

/* The canonical codes; the numbers are the wire's. */
enum bh_grpc_status {
    BH_GRPC_OK = 0,
    BH_GRPC_CANCELLED = 1,
    BH_GRPC_UNKNOWN = 2,
    BH_GRPC_INVALID_ARGUMENT = 3,
    BH_GRPC_DEADLINE_EXCEEDED = 4,
    BH_GRPC_NOT_FOUND = 5,
    BH_GRPC_ALREADY_EXISTS = 6,
    BH_GRPC_PERMISSION_DENIED = 7,
    BH_GRPC_RESOURCE_EXHAUSTED = 8,
    BH_GRPC_FAILED_PRECONDITION = 9,
    BH_GRPC_ABORTED = 10,
    BH_GRPC_OUT_OF_RANGE = 11,
    BH_GRPC_UNIMPLEMENTED = 12,
    BH_GRPC_INTERNAL = 13,
    BH_GRPC_UNAVAILABLE = 14,
    BH_GRPC_DATA_LOSS = 15,
    BH_GRPC_UNAUTHENTICATED = 16
};
const char *
bh_grpc_status_name(enum bh_grpc_status s); /* "DeadlineExceeded", as grpc-go prints it */
enum bh_grpc_status bh_grpc_status_of(enum bh_code c); /* nearest code for an error of ours */
enum bh_code bh_grpc_code_of(enum bh_grpc_status s);   /* and back */

/* ---- server ---- */

struct bh_grpc_server;
struct bh_grpc_call;

/* Called when the request message is complete. The handler owns the call until it has finished it
 * with exactly one of reply, finish or fail, now or later. */
typedef void (*bh_grpc_handler)(void *arg, struct bh_grpc_call *call);

struct bh_grpc_server *bh_grpc_server_new(struct bh_loop *l);
/* Closes the listeners and connections and unlinks the socket files. Calls under way are cancelled:
 * their handlers still have to finish them, which then only frees them. */
struct bh_grpc_server *bh_grpc_server_free(struct bh_grpc_server *s);
/* Stops listening and tells every peer to go elsewhere; calls under way go on, and a connection
 * ends with its last one. */
void bh_grpc_server_drain(struct bh_grpc_server *s);
/* method: "/package.Service/Method". Register before the first listen. */
void bh_grpc_server_method(struct bh_grpc_server *s, const char *method, bh_grpc_handler fn,
                           void *arg);
/* Listens on a unix socket; a stale socket file at path is replaced. May be called for several
 * paths. */
BH_MUST int bh_grpc_server_listen_unix(struct bh_grpc_server *s, const char *path, unsigned mode,
                                       struct bh_err *err);
/* Called before a handler for each unary request; false refuses it with RESOURCE_EXHAUSTED and this
 * message. */
void bh_grpc_server_admit(struct bh_grpc_server *s, bool (*fn)(void *arg, struct bh_str method),
                          const char *message, void *arg);

struct bh_str bh_grpc_call_request(
    const struct bh_grpc_call *c); /* the message; valid until the call is finished */
struct bh_str bh_grpc_call_method(const struct bh_grpc_call *c);
struct bh_arena *bh_grpc_call_arena(struct bh_grpc_call *c); /* reset when the call is finished */
int64_t
bh_grpc_call_deadline_ns(const struct bh_grpc_call *c); /* loop's monotonic time; INT64_MAX: none */
bool bh_grpc_call_cancelled(const struct bh_grpc_call *c);
/* fn runs once when the peer cancels, its connection ends or the deadline passes before the call is
 * finished. The call still has to be finished (inside fn is fine). */
void bh_grpc_call_on_cancel(struct bh_grpc_call *c, void (*fn)(void *arg), void *arg);
/* Server streaming: sends one message and keeps the call open. -BH_E_LIMIT when the peer reads too
 * slowly (nothing was queued; finish the call), -BH_E_CANCELED when it is gone. */
BH_MUST int bh_grpc_call_send(struct bh_grpc_call *c, struct bh_str msg);
size_t
bh_grpc_call_unsent(const struct bh_grpc_call *c); /* bytes queued and not yet taken by the peer */
void bh_grpc_call_reply(struct bh_grpc_call *c,
                        struct bh_str msg); /* one message and OK; msg is copied */
void bh_grpc_call_finish(struct bh_grpc_call *c, enum bh_grpc_status st, const char *fmt, ...)
    BH_PRINTF(3, 4);
void bh_grpc_call_fail(struct bh_grpc_call *c,
                       const struct bh_err *err); /* finish with bh_grpc_status_of(err->code) */

/* ---- client ---- */

struct bh_grpc_client;

enum bh_grpc_state {
    BH_GRPC_CONNECTING,
    BH_GRPC_READY,
    BH_GRPC_FAILED /* waiting before the next try */
};

struct bh_grpc_client_opts {
    const char
        *target; /* "unix:/path" or "host:port" (numeric IPv4, [IPv6], or "localhost"); copied */
    struct bh_tls *tls;     /* NULL: plain text. Offer ALPN "h2". Referenced */
    const char *authority;  /* NULL: "localhost" */
    int connect_timeout_ms; /* 0: 10 s */
    int backoff_min_ms;     /* 0: 100 ms */
    int backoff_max_ms;     /* 0: 3 s */
    /* Told of every change, also of the first. May free the client. */
    void (*state)(void *arg, enum bh_grpc_state st, const struct bh_err *why);
    void *arg;
};

/* Connects at once and again whenever the connection ends, also when idle. */
struct bh_grpc_client *bh_grpc_client_new(struct bh_loop *l, const struct bh_grpc_client_opts *o);
/* Closes; calls under way end silently: no callback runs afterwards, stream handles are invalid. */
struct bh_grpc_client *bh_grpc_client_free(struct bh_grpc_client *c);
enum bh_grpc_state bh_grpc_client_state(const struct bh_grpc_client *c);

struct bh_grpc_result {
    enum bh_grpc_status status;
    struct bh_str message; /* of the error; UTF-8, percent-decoded */
    struct bh_str body;    /* the reply, when status is OK */
};
/* Everything in res is valid during the callback. The client may be freed inside it. */
typedef void (*bh_grpc_unary_fn)(void *arg, const struct bh_grpc_result *res);

/* One request, one reply. timeout_ms <= 0: none. While the client is connecting the call waits;
 * while it is FAILED the call ends with UNAVAILABLE. Returns an id for cancel, never 0. msg is
 * copied. */
uint64_t bh_grpc_unary(struct bh_grpc_client *c, const char *method, struct bh_str msg,
                       int timeout_ms, bh_grpc_unary_fn fn, void *arg);
void bh_grpc_cancel(struct bh_grpc_client *c,
                    uint64_t id); /* fn will not run; unknown ids are ignored */

/* A stream of replies, and of requests if wanted. */
struct bh_grpc_stream;
struct bh_grpc_stream_ops {
    void (*message)(void *arg, struct bh_str msg); /* valid during the callback */
    /* Once, last; the handle is invalid afterwards. Not called after bh_grpc_stream_free(). */
    void (*ended)(void *arg, enum bh_grpc_status st, struct bh_str message);
};
struct bh_grpc_stream *bh_grpc_stream_open(struct bh_grpc_client *c, const char *method,
                                           int timeout_ms, const struct bh_grpc_stream_ops *ops,
                                           void *arg);
BH_MUST int bh_grpc_stream_send(struct bh_grpc_stream *s,
                                struct bh_str msg);       /* -BH_E_LIMIT: the peer is too slow */
void bh_grpc_stream_close_send(struct bh_grpc_stream *s); /* no more requests */
struct bh_grpc_stream *
bh_grpc_stream_free(struct bh_grpc_stream *s); /* cancels; allowed inside its callbacks */

#endif
