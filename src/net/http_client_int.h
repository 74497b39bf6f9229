/* Inside of the HTTP client: shared by http_client.c (the pool, HTTP/1.1) and http2_client.c.
 * Private to src/net. */
#ifndef BH_NET_HTTP_CLIENT_INT_H
#define BH_NET_HTTP_CLIENT_INT_H

#include "base/buf.h"
#include "base/list.h"
#include "net/http.h"
#include "net/loop.h"

struct bh_h2_stream;
struct cconn;
struct h2conn;

/* What the server speaks is seen on the first connection, and again when none is left. */
enum bh_http_proto {
    BH_PROTO_UNKNOWN,
    BH_PROTO_H1,
    BH_PROTO_H2,
};

struct bh_http_call {
    struct bh_link link; /* waiting, or running */
    struct bh_http_client *client;
    struct cconn *conn;       /* HTTP/1.1; NULL: waiting */
    struct bh_http_request r; /* its strings are in keep */
    struct bh_arena *keep;    /* the request and the head of an HTTP/2 response */
    struct bh_timer timer;
    struct bh_buf body;
    struct bh_http_response resp;
    bool queued; /* in waiting, and counted there */
    bool have_head, is_head, repeatable, repeated;
    struct bh_err err; /* for a call that ends before it starts */
    /* HTTP/2 */
    struct h2conn *h2c;
    struct bh_h2_stream *hs; /* NULL: not under way */
    bool paused;
    size_t held; /* bytes of a paused call that the server must not be given room for */
};

struct bh_http_client {
    struct bh_loop *loop;
    struct bh_http_client_opts opts;
    char *host, *unix_path, *server_name, *host_header, *user_agent, *bearer;
    char name[160]; /* for messages */
    struct bh_link idle, busy;
    struct bh_link waiting, running;
    size_t conns_n, waiting_n;
    struct bh_buf wire; /* scratch for requests */
    enum bh_http_proto proto;
    struct bh_link h2conns;
    size_t h2conns_n;
    bool freeing;
};

/* http_client.c */
void bh_http_call_move(struct bh_http_call *call, struct bh_link *to);
void bh_http_call_again(struct bh_http_call *call); /* to the head of those that wait */
void bh_http_call_leave(struct bh_http_call *call);
void bh_http_call_end(struct bh_http_call *call, const struct bh_http_response *resp,
                      const struct bh_err *err);
/* Ends the call with call->err, from the loop. */
void bh_http_call_fail_later(struct bh_http_call *call);
void bh_http_call_fail_text(struct bh_http_call *call, enum bh_code code, const char *text);
void bh_http_client_start_waiting(struct bh_http_client *c);
/* A connection that turned out to speak HTTP/1.1 joins the pool. */
void bh_http_client_adopt_h1(struct bh_http_client *c, struct bh_stream *st);

/* http2_client.c */
/* Starts the call, or the connection it needs. False: it has to wait. */
bool bh_http2_call_start(struct bh_http_client *c, struct bh_http_call *call);
/* The call lets go of its stream, which is given up unless it is over. */
void bh_http2_call_detach(struct bh_http_call *call);
void bh_http2_call_resume(struct bh_http_call *call);
void bh_http2_client_drop(struct bh_http_client *c); /* every connection */

#endif
