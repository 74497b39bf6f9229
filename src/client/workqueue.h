/* Work queue of a controller: keys, each worked on by one call at a time, retried with exponential
 * back-off.
 *
 * A key that is added while it is being worked on runs once more afterwards. Keys are bounded by
 * the objects they name. One loop.
 */
#ifndef BH_CLIENT_WORKQUEUE_H
#define BH_CLIENT_WORKQUEUE_H

#include "base/str.h"

struct bh_loop;
struct bh_workqueue;

/* Must lead to exactly one bh_workqueue_done(q, key, …), now or later. key is valid until then. */
typedef void (*bh_workqueue_fn)(void *arg, struct bh_str key);

enum bh_work_result { BH_WORK_OK, BH_WORK_RETRY };

/* workers: keys worked on at the same time. */
struct bh_workqueue *bh_workqueue_new(struct bh_loop *l, int workers, bh_workqueue_fn fn,
                                      void *arg);
struct bh_workqueue *bh_workqueue_free(struct bh_workqueue *q);
void bh_workqueue_add(struct bh_workqueue *q, struct bh_str key);
/* Not before delay_ms; an earlier plan for the key stands. */
void bh_workqueue_add_after(struct bh_workqueue *q, struct bh_str key, int64_t delay_ms);
/* RETRY: again after 5 ms · 2^n, at most 1000 s, as upstream's default rate limiter; earlier when
 * the key was added or planned for earlier meanwhile. key may be the handler's own. */
void bh_workqueue_done(struct bh_workqueue *q, struct bh_str key, enum bh_work_result r);
/* No handler runs while paused; keys gather. A controller pauses until its informers are synced. */
void bh_workqueue_pause(struct bh_workqueue *q);
void bh_workqueue_resume(struct bh_workqueue *q);
size_t bh_workqueue_len(const struct bh_workqueue *q); /* keys waiting, planned or worked on */

#endif
