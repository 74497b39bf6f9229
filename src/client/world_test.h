/* For tests: a whole API server on a virtual loop, and short forms to speak with it.
 *
 * Everything is real but the clock: store in memory, watch cache, handler chain, in-process client.
 * Time moves only in world_run() and in the calls that wait for an answer.
 */
#ifndef BH_CLIENT_WORLD_TEST_H
#define BH_CLIENT_WORLD_TEST_H

#include "api/types.h"
#include "client/client.h"
#include "net/loop.h"

struct bh_store;

#define WORLD_START_S ((int64_t)1767225600) /* 2026-01-01T00:00:00Z */

struct world {
    struct bh_loop *loop;
    struct bh_store *store;
    struct bh_apiserver *srv;
    struct bh_client *client; /* an administrator's */
    struct bh_arena *arena;   /* of what is handed out; until world_close() */
    /* The last answer. */
    bool answered;
    enum bh_code code;
    int status;
    struct bh_str message;
    size_t items_n;
};

void world_open(struct world *w);
void world_open_with(struct world *w, const char *feature_gates);
void world_close(struct world *w);
void world_run(struct world *w, int64_t ms);
/* A client of somebody else; group may be NULL. Freed by the caller before world_close(). */
struct bh_client *world_client(struct world *w, const char *user, const char *group);

/* Wait for the answer. What comes back lives until world_close(); NULL when the request failed
 * (then code and message say why; world_must_*: the test fails). */
struct bh_obj *world_call(struct world *w, const struct bh_client_req *req);
struct bh_obj *world_make(struct world *w, const struct bh_kind *k, const char *ns,
                          const char *json); /* must succeed */
struct bh_obj *world_get(struct world *w, const struct bh_kind *k, const char *ns,
                         const char *name); /* NULL when it is not there */
struct bh_obj *world_merge(struct world *w, const struct bh_kind *k, const char *ns,
                           const char *name, const char *sub,
                           const char *json); /* merge patch; must succeed */
/* options: a DeleteOptions document, or NULL. */
void world_delete(struct world *w, const struct bh_kind *k, const char *ns, const char *name,
                  const char *options);
size_t world_count(struct world *w, const struct bh_kind *k, const char *ns);

#endif
