/* Events that the window no longer holds, read again from the store, a slice at a time, so that
 * nobody waits for long. Whoever reads them joins the present without a gap: the end is told in the
 * turn of the loop in which everything published so far has been given out.
 */
#ifndef BH_APISERVER_HISTORY_H
#define BH_APISERVER_HISTORY_H

#include "apiserver/watch_cache.h"
#include "net/loop.h"

struct bh_apiserver;
struct bh_history_slice;

struct bh_history {
    /* ev (obj and prev with their versions) is valid during the call. The reader may be stopped
     * inside. */
    void (*event)(void *arg, const struct bh_wc_event *ev);
    /* Once, unless stopped before: err NULL when all is read; -BH_E_GONE when what is asked for has
     * been compacted. */
    void (*done)(void *arg, const struct bh_err *err);
    void *arg;
    /* private */
    struct bh_apiserver *srv; /* NULL: not under way */
    struct bh_wc_res *res;
    struct bh_timer next;
    uint64_t at;
    struct bh_history_slice *in; /* what the call on the stack works with */
    struct bh_err err;
};

/* Reads the events of res after version after. The first calls come from inside; h is the caller's
 * until done or bh_history_stop(). */
void bh_history_start(struct bh_history *h, struct bh_apiserver *srv, struct bh_wc_res *res,
                      uint64_t after);
void bh_history_stop(struct bh_history *h); /* harmless when it has not begun or is over */

#endif
