/* The HTTP/1.1 parser core: bytes in, events out. No I/O, no clock. Private to src/net.
 *
 * http-parser reads the head; this file decides what is let through to it, because whoever stands
 * before or behind us may read ambiguous framing differently (request smuggling, RFC 9112 §11.2):
 * anything ambiguous is refused.
 */
#ifndef BH_NET_HTTP1_H
#define BH_NET_HTTP1_H

#include "base/buf.h"
#include "base/err.h"
#include "net/http.h"

struct bh_arena;

struct bh_h1_head {
    struct bh_str method, target, path, query; /* requests */
    int status;                                /* responses */
    int minor;                                 /* HTTP/1.minor */
    struct bh_http_header *headers;
    size_t headers_n;
    bool keep_alive; /* the sender allows another message */
    bool chunked, has_length;
    uint64_t length; /* when has_length */
    bool expect_continue;
    bool upgrade; /* an Upgrade header that Connection names */
};

enum bh_h1_event {
    BH_H1_MORE = 0, /* all input is consumed */
    BH_H1_HEAD,     /* h->head is complete; its views live in the arena of the message */
    BH_H1_BODY,     /* *ret_data: a piece of the body, a view of the input */
    BH_H1_END,      /* the message is over; the next call starts another */
};

struct bh_h1 {
    bool response;
    bool no_body; /* responses: the request was HEAD; set by the caller before the head arrives */
    struct bh_arena *arena; /* for the head of the current message; the caller sets it before the
                               message starts */
    int state;
    struct bh_buf acc;    /* an incomplete head, chunk line or trailer */
    size_t scanned;       /* of acc: bytes known to hold no end of line */
    size_t line_at;       /* of acc: start of the current line */
    uint64_t left;        /* of the body or chunk */
    size_t trailer_bytes; /* seen */
    int skipped;          /* empty lines before a request line */
    struct bh_h1_head head;
    int bad_status; /* after an error: the answer that fits (400, 413, 414, 417, 431, 501, 505) */
};

void bh_h1_init(struct bh_h1 *h, bool response);
void bh_h1_done(struct bh_h1 *h);
/* Consumes from the front of *in and returns the next event, or -BH_E_PROTO / -BH_E_LIMIT; after an
 * error the connection is of no more use. */
int bh_h1_next(struct bh_h1 *h, struct bh_str *in, struct bh_str *ret_data, struct bh_err *err);
/* The peer will send no more: BH_H1_END when that ends a body, BH_H1_MORE when no message was under
 * way, else -BH_E_PROTO. */
int bh_h1_eof(struct bh_h1 *h, struct bh_err *err);
bool bh_h1_idle(const struct bh_h1 *h); /* between messages, nothing of the next one seen */
bool bh_h1_in_body(const struct bh_h1 *h);
/* Path and query of a request target; returns what is wrong with it, or NULL. Also for HTTP/2. */
const char *bh_h1_split_target(struct bh_str target, struct bh_str method, struct bh_str *ret_path,
                               struct bh_str *ret_query);
/* Whether a header may be written as it is: a token, and no control characters in the value. */
bool bh_h1_header_ok(struct bh_str name, struct bh_str value);

#endif
