/* Durable keys and bytes with revisions and stored history.
 *
 * The store knows keys and bytes, not types. A commit is a batch; the back end assigns one revision
 * per write, strictly growing, and answers when all of it is durable. History (which write happened
 * at which revision) is kept until compaction, so that watchers resume across a restart. A store
 * belongs to one loop; the blocking part runs through bh_loop_work(), at most one commit at a time.
 */
#ifndef BH_STORE_STORE_H
#define BH_STORE_STORE_H

#include "base/err.h"
#include "base/str.h"

struct bh_loop;
struct bh_store;

enum bh_store_op { BH_STORE_CREATE, BH_STORE_UPDATE, BH_STORE_DELETE };

struct bh_store_write {
    enum bh_store_op op;
    struct bh_str key;   /* "/registry/pods/default/a" */
    struct bh_str value; /* a delete keeps here the last state of the object, which history hands to
                            watchers */
    uint64_t rev;        /* set by the back end before done runs */
    struct bh_str prev; /* history only: the value this write replaced; empty when there was none or
                           it is compacted */
    uint64_t prev_rev;  /* history only: its revision; 0 when there was none */
};

/* err is NULL on success. After a failure nothing of the batch is stored. */
typedef void (*bh_store_done)(void *arg, const struct bh_err *err);
/* Return nonzero to stop. key and value are valid during the call. */
typedef int (*bh_store_each)(void *arg, struct bh_str key, struct bh_str value, uint64_t rev);
typedef int (*bh_store_event)(void *arg, const struct bh_store_write *w);

/* Opens (creates) the SQLite file: WAL, synchronous=FULL, one writer process (file lock:
 * -BH_E_BUSY). */
BH_MUST int bh_store_open_sqlite(struct bh_loop *l, const char *path, struct bh_store **ret,
                                 struct bh_err *err);
/* In memory, with commits that take loop work like the real ones: for the virtual loop, tests and
 * simulation. bh_store_memory_fail() makes the n-th next commit fail (1: the next), as a full disk
 * would. */
struct bh_store *bh_store_new_memory(struct bh_loop *l);
void bh_store_memory_fail(struct bh_store *s, int nth);
/* A commit under way ends inside, as a failure (of which it is not known whether it is durable). */
struct bh_store *bh_store_free(struct bh_store *s);

/* Commits n writes as one durable step. The array and what it points to must stay until done has
 * run. One commit at a time: a second call before done is a programmer error. */
void bh_store_commit(struct bh_store *s, struct bh_store_write *w, size_t n, bh_store_done done,
                     void *arg);
/* Current revision (last committed). A fresh store starts at 1. */
uint64_t bh_store_rev(const struct bh_store *s);
/* Oldest revision whose events are still kept; a watch from before it is Expired. */
uint64_t bh_store_compacted(const struct bh_store *s);
/* Every live key in key order (blocking; at start). */
BH_MUST int bh_store_load(struct bh_store *s, bh_store_each fn, void *arg, struct bh_err *err);
/* Events with revision > after, in order, at most max; -BH_E_GONE when after was compacted
 * (blocking). */
BH_MUST int bh_store_history(struct bh_store *s, uint64_t after, size_t max, bh_store_event fn,
                             void *arg, struct bh_err *err);
/* Drops events with revision <= rev (blocking: for tools and tests). */
BH_MUST int bh_store_compact(struct bh_store *s, uint64_t rev, struct bh_err *err);
/* The same in the background: a slice at a time, on the worker pool, so that commits and readers
 * never wait for long. While one is under way, a call raises its goal. A failure is logged, and the
 * next call tries again. */
void bh_store_compact_later(struct bh_store *s, uint64_t rev);

#endif
