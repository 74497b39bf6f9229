/* The commit pipeline: the one way by which anything is written.
 *
 * A writer builds a whole new object, hands it over, and is answered after the store has made it
 * durable and the watch cache shows it. Preconditions are the writer's: it reads the head (what
 * will be there once everything accepted so far is committed) and submits in the same callback, so
 * nothing can come between. What has queued while a commit ran goes into the next one (of much,
 * half: the answers of one commit are worked on while the next runs, so durability and the loop's
 * work overlap). The next begins before the answers of the last are given. When a commit fails,
 * everything accepted and not yet published fails with it, because later writes may have been
 * computed from earlier ones; the head is then again what is published. One loop.
 */
#ifndef BH_APISERVER_PIPELINE_H
#define BH_APISERVER_PIPELINE_H

#include "apiserver/watch_cache.h"
#include "store/store.h"

struct bh_pipeline;

struct bh_pipeline *bh_pipeline_new(struct bh_loop *l, struct bh_store *store, struct bh_wc *wc);
/* Writes under way are never answered. A commit that is still under way ends with the store:
 * bh_store_free(), or the loop, releases the rest. */
struct bh_pipeline *bh_pipeline_free(struct bh_pipeline *p);

/* The object as it will be; borrowed for the current callback. NULL when there is none. rv is 0
 * while it is not committed (its number is not known yet, so no client can name it). */
struct bh_obj *bh_pipeline_head(const struct bh_pipeline *p, const struct bh_wc_res *res,
                                struct bh_str key);

/* obj is the committed object (borrowed); err is NULL on success. */
typedef void (*bh_pipeline_done)(void *arg, struct bh_obj *obj, const struct bh_err *err);

/* Accepts a write. obj is a pending object (bh_obj_new_pending): for a deletion the last state. The
 * reference is taken. done may be NULL. -BH_E_BUSY (429) when BH_COMMIT_QUEUE_MAX writes or
 * BH_COMMIT_QUEUE_BYTES_MAX bytes wait: then obj is released and done does not run. */
BH_MUST int bh_pipeline_submit(struct bh_pipeline *p, enum bh_store_op op, struct bh_wc_res *res,
                               struct bh_str key, struct bh_obj *obj, bh_pipeline_done done,
                               void *arg, struct bh_err *err);
/* done runs when the newest accepted write of key is over, after that write's own: for an answer
 * that says nothing new, but must not be given before what it rests on is durable. There has to be
 * such a write (the head's rv is 0, or there is no head though the cache has the object). */
void bh_pipeline_join(struct bh_pipeline *p, struct bh_str key, bh_pipeline_done done, void *arg);
/* for (size_t it = 0; (o = bh_pipeline_next(p, res, &it));): the heads of res that are not
 * published yet, deletions aside; borrowed for the current callback. */
struct bh_obj *bh_pipeline_next(const struct bh_pipeline *p, const struct bh_wc_res *res,
                                size_t *it);
size_t bh_pipeline_waiting(const struct bh_pipeline *p); /* accepted, not yet published */
/* The last commit failed and none has succeeded since: what /readyz reports. NULL when all is well.
 */
const char *bh_pipeline_trouble(const struct bh_pipeline *p);

#endif
