/* Inside client/: the table that the in-process and the HTTPS client fill. */
#ifndef BH_CLIENT_CLIENT_INT_H
#define BH_CLIENT_CLIENT_INT_H

#include "client/client.h"
#include "net/loop.h"

enum bh_cw_type { BH_CW_ADDED, BH_CW_MODIFIED, BH_CW_DELETED, BH_CW_BOOKMARK };

/* A watch ends exactly once, with ended; nothing comes after it, and nothing after a cancel. */
struct bh_watch_handler {
    void (*event)(void *arg, enum bh_cw_type type, struct bh_obj *obj,
                  uint64_t rv); /* bookmark: obj is NULL */
    void (*ended)(
        void *arg,
        const struct bh_err *err); /* code BH_OK: the server closed it in order; GONE: list again */
    void *arg;
};

struct bh_client_vtable {
    void (*call)(struct bh_client *c, uint64_t id, const struct bh_client_req *req, bh_client_fn fn,
                 void *arg);
    void (*watch)(struct bh_client *c, uint64_t id, const struct bh_client_req *req, uint64_t rv,
                  const struct bh_watch_handler *h);
    void (*cancel)(struct bh_client *c, uint64_t id);
    void (*free)(struct bh_client *c);
    /* NULL: one after the other, by client_seq.c. */
    void (*sequence)(struct bh_client *c, uint64_t id, const struct bh_client_req *reqs, size_t n,
                     bh_client_seq_fn fn, void *arg);
};

struct client_seq;

/* First member of both implementations. */
struct bh_client {
    const struct bh_client_vtable *vt;
    struct bh_loop *loop;
    uint64_t next_id;
    struct client_seq *seqs; /* client_seq.c */
    char user_agent[96];
};

/* Starts a watch from rv (exclusive). The returned id cancels. */
uint64_t bh_client_watch(struct bh_client *c, const struct bh_client_req *req, uint64_t rv,
                         const struct bh_watch_handler *h);

/* client_seq.c: sequences that are sent request by request. */
void client_seq_start(struct bh_client *c, uint64_t id, const struct bh_client_req *reqs, size_t n,
                      bh_client_seq_fn fn, void *arg);
bool client_seq_cancel(struct bh_client *c, uint64_t id); /* false: no such sequence */
void client_seq_done(struct bh_client *c);
/* A copy of the request whose strings and struct are in the arena. */
struct bh_arena;
void bh_client_req_copy(struct bh_arena *a, const struct bh_client_req *req,
                        struct bh_client_req *ret);

/* Path and query of a request: "/apis/G/V/namespaces/NS/RESOURCE/NAME/SUB?…" appended to out.
 * watch_rv is used for BH_VERB_WATCH only. */
struct bh_buf;
void bh_client_url(struct bh_buf *out, const struct bh_client_req *req, uint64_t watch_rv);
const char *bh_client_method(enum bh_client_verb v);
const char *bh_client_patch_media(enum bh_patch_type t);
/* Fills res->err and res->reason from the Status in body (any JSON; falls back to the HTTP status).
 * The reason points into arena. */
struct bh_arena;
void bh_client_status(struct bh_arena *a, int http_status, struct bh_str body,
                      struct bh_client_res *res);

#endif
