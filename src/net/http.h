/* HTTP server and client on streams: HTTP/1.1, and HTTP/2 over TLS where both sides agree on it.
 * Every function is for the thread of the loop concerned.
 *
 * Server: the handler gets an exchange when the whole request has arrived. It must finish each
 * exchange exactly once, now or later: with bh_http_respond(), with bh_http_stream_start() …
 * bh_http_stream_end(), or with bh_http_upgrade(). Until then the exchange stays valid, even when
 * the client has left: what is written is then dropped (and parts are released). After it the
 * exchange is gone, unless somebody holds a reference.
 */
#ifndef BH_NET_HTTP_H
#define BH_NET_HTTP_H

#include "net/stream.h"

struct bh_arena;
struct bh_http_server;

struct bh_http_header {
    struct bh_str name, value;
};
#define BH_HTTP_HEADER(lit_name, str_value) ((struct bh_http_header){BH_S(lit_name), (str_value)})

const char *bh_http_status_text(int status); /* "Not Found"; "" when not known */
/* Value of the first header of that name (any case), or NULL. */
const struct bh_str *bh_http_header_find(const struct bh_http_header *h, size_t n,
                                         struct bh_str name);
/* Iterates the query of a URL: "a=1&b=%20" gives decoded pairs in the arena. *q is consumed; false
 * at the end. A bad escape is kept as it stands. '+' means a blank. */
bool bh_http_query_next(struct bh_arena *a, struct bh_str *q, struct bh_str *ret_key,
                        struct bh_str *ret_value);
/* First value of a key in a raw query; {NULL, 0} when it is not there. */
struct bh_str bh_http_query_get(struct bh_arena *a, struct bh_str query, struct bh_str key);
/* Percent-decodes a path segment; false on a bad escape or a NUL. */
BH_MUST bool bh_http_unescape(struct bh_arena *a, struct bh_str s, struct bh_str *ret);
struct bh_str bh_http_escape(struct bh_arena *a,
                             struct bh_str s); /* everything but unreserved characters */

/* ---- server ---- */

struct bh_http_exchange {
    struct bh_str method; /* "GET" */
    struct bh_str target; /* as sent */
    struct bh_str path; /* raw: before '?', not decoded, not cleaned; starts with '/' (or is "*") */
    struct bh_str query; /* raw: after '?' */
    const struct bh_http_header *headers;
    size_t headers_n;
    struct bh_str body;
    bool body_too_large; /* only with pass_large_body: body is empty; over HTTP/1.1 the
                            connection closes after the answer */
    bool tls;
    const struct bh_stream_peer
        *peer; /* valid while the exchange is, also after the client has left */
    struct bh_loop *loop;
    struct bh_arena *arena; /* lives as long as the exchange */
    int64_t start_ns;       /* monotonic, when the request was complete */
    void *user;             /* the handler's */
};

typedef void (*bh_http_handler_fn)(void *arg, struct bh_http_exchange *x);

struct bh_http_server_opts {
    bh_http_handler_fn handler;
    void *arg;
    size_t body_bytes_max; /* 0: BH_BODY_BYTES_MAX */
    bool pass_large_body;  /* the handler answers oversized requests itself (else: a bare 413) */
    int header_timeout_ms; /* from the first byte of a request to the end of its headers; 0:
                              BH_HTTP_HEADER_TIMEOUT_MS */
    int body_timeout_ms;   /* between two pieces of a body; 0: BH_HTTP_BODY_TIMEOUT_MS */
    int idle_timeout_ms;   /* between requests; 0: BH_HTTP_IDLE_TIMEOUT_MS */
    int write_timeout_ms;  /* queued bytes and no progress; 0: BH_HTTP_WRITE_TIMEOUT_MS */
};
struct bh_http_server *bh_http_server_new(struct bh_loop *l, const struct bh_http_server_opts *o);
/* May be called several times (a TLS port and a unix socket, say). ret_port may be NULL. */
BH_MUST int bh_http_server_listen(struct bh_http_server *s, const struct bh_listen_opts *o,
                                  int *ret_port, struct bh_err *err);
/* Serves a stream that was accepted elsewhere (a protocol chooser). */
void bh_http_server_adopt(struct bh_http_server *s, struct bh_stream *st);
void bh_http_server_set_tls(struct bh_http_server *s, struct bh_tls *tls); /* every TLS listener */
size_t bh_http_server_conns(const struct bh_http_server *s);
/* Stops listening, closes idle connections, lets running exchanges end (answering with "Connection:
 * close"), and calls done when none is left or timeout_ms has passed. Streaming responses are told
 * through their on_close. */
void bh_http_server_drain(struct bh_http_server *s, int timeout_ms, void (*done)(void *arg),
                          void *arg);
/* Cuts every connection. Exchanges not finished yet stay valid until they are (the memory waits for
 * them). */
struct bh_http_server *bh_http_server_free(struct bh_http_server *s);

/* First header of that name in any case, or NULL. */
const struct bh_str *bh_http_header_get(const struct bh_http_exchange *x, struct bh_str name);
struct bh_http_exchange *bh_http_ref(struct bh_http_exchange *x); /* for use beyond its end */
void bh_http_unref(struct bh_http_exchange *x);
bool bh_http_gone(
    const struct bh_http_exchange *x); /* the client has left: answers will be dropped */
/* Called once if the client leaves (or the server drains) before the exchange is finished; the
 * exchange must still be finished, there or later. fn NULL takes it back. */
void bh_http_on_close(struct bh_http_exchange *x, void (*fn)(void *arg), void *arg);
/* Called when queued bytes have fallen below the low water mark again. */
void bh_http_on_drain(struct bh_http_exchange *x, void (*fn)(void *arg), void *arg);

/* Content-Length, Date and Connection are added. Names and values must hold no CR, LF or NUL: such
 * a header is a programmer's error and dropped. A HEAD request gets the headers only. */
void bh_http_respond(struct bh_http_exchange *x, int status, const struct bh_http_header *h,
                     size_t hn, const struct bh_part *parts, size_t pn);
/* The body goes out in chunks; each write is one chunk and leaves at once. */
void bh_http_stream_start(struct bh_http_exchange *x, int status, const struct bh_http_header *h,
                          size_t hn);
void bh_http_stream_write(struct bh_http_exchange *x, const struct bh_part *parts, size_t pn);
void bh_http_stream_end(struct bh_http_exchange *x);
/* Ends a streaming response so that the client notices (the connection is cut without the last
 * chunk; over HTTP/2 the stream is reset). */
void bh_http_stream_abort(struct bh_http_exchange *x);
size_t bh_http_queued(const struct bh_http_exchange *x); /* bytes of this connection not yet sent */
/* A part that refers to bytes in the exchange's arena without a copy: it holds the exchange until
 * they are sent. */
struct bh_part bh_http_arena_part(struct bh_http_exchange *x, struct bh_str data);
/* Finishes the exchange by leaving HTTP: sends "101 Switching Protocols" (status 101), or a 2xx
 * head for CONNECT-like protocols, with the headers given (Connection: Upgrade is added for 101),
 * and hands the stream over with what the client sent early unread. The caller sets ops. NULL when
 * the client has left, and over HTTP/2, where the client is told to ask over HTTP/1.1. */
struct bh_stream *bh_http_upgrade(struct bh_http_exchange *x, int status,
                                  const struct bh_http_header *h, size_t hn);

/* ---- client ---- */

struct bh_http_client;
struct bh_http_call;

struct bh_http_client_opts {
    const char *host;
    int port;
    const char *unix_path;   /* instead */
    struct bh_tls *tls;      /* NULL: plain. Referenced; carries CA and client certificate */
    const char *server_name; /* TLS; NULL: host */
    const char *host_header; /* NULL: host[:port], or "localhost" for a unix socket */
    const char *user_agent;  /* NULL: "bulkhead" */
    bool http2;       /* spoken over TLS when the server does, too: many calls share a connection */
    size_t conns_max; /* of HTTP/1.1; 0: 64. Long calls (watches) do not count */
    size_t waiting_max;      /* calls waiting for a connection; 0: 10000. Beyond: BH_E_BUSY */
    int connect_timeout_ms;  /* 0: BH_CONNECT_TIMEOUT_MS */
    int response_timeout_ms; /* until the whole response is there; of a long call: until its head.
                                0: 60 s */
    int idle_timeout_ms;     /* kept connections; 0: 30 s */
    int silent_ms; /* HTTP/2: without a byte for so long while calls wait, the server is asked for a
                      sign of life, and given up after as long again; 0: 30 s */
};
struct bh_http_client *bh_http_client_new(struct bh_loop *l, const struct bh_http_client_opts *o);
/* Open calls end with BH_E_CANCELED, from here. NULL is fine. */
struct bh_http_client *bh_http_client_free(struct bh_http_client *c);
/* "Authorization: Bearer …" of later requests; empty: none. */
void bh_http_client_set_bearer(struct bh_http_client *c, struct bh_str token);

struct bh_http_response {
    int status;
    const struct bh_http_header *headers;
    size_t headers_n;
    struct bh_str body; /* whole; empty when chunks were asked for */
};

struct bh_http_request {
    struct bh_str method; /* everything here is copied */
    struct bh_str target; /* path and query */
    const struct bh_http_header
        *headers; /* beside Host, User-Agent, Content-Length, Authorization */
    size_t headers_n;
    struct bh_str body;
    int timeout_ms;        /* instead of response_timeout_ms; <0: none */
    size_t body_bytes_max; /* of a whole response; 0: BH_HTTP_RESPONSE_BYTES_MAX */
    bool long_call; /* a watch or a log: no limit of time or size; over HTTP/1.1 its own connection,
                       beyond conns_max */
    /* Once, last. r is NULL when there is no response; err->code is BH_OK unless the call failed
     * (with a streamed body it may fail after on_head). Everything in r is valid during the call
     * only. */
    void (*done)(void *arg, const struct bh_http_response *r, const struct bh_err *err);
    /* Both or none: the body is given in pieces, as they arrive. */
    void (*on_head)(void *arg, const struct bh_http_response *r);
    void (*on_chunk)(void *arg, struct bh_str data);
    /* The server answered 101: the stream changes hands (set its ops), and done follows with
     * r->status 101. NULL: 101 is an error. */
    void (*on_upgrade)(void *arg, const struct bh_http_response *r, struct bh_stream *s);
    void *arg;
};
/* Never NULL; done comes later, from the loop. The handle is valid until then. A call on a kept
 * connection that the server closes before its first byte is repeated once when the method is safe
 * to repeat; over HTTP/2 that is any connection, and what the server says it did not look at is
 * repeated whatever the method. */
struct bh_http_call *bh_http_call_start(struct bh_http_client *c, const struct bh_http_request *r);
void bh_http_call_cancel(struct bh_http_call *call); /* done will not be called; NULL is fine */
void bh_http_call_pause(struct bh_http_call *call);  /* back-pressure while chunks arrive */
void bh_http_call_resume(struct bh_http_call *call);

#endif
