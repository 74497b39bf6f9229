/* Inside of the store: the table of functions each back end fills. */
#ifndef BH_STORE_STORE_INT_H
#define BH_STORE_STORE_INT_H

#include "store/store.h"

struct bh_store_ops {
    void (*free)(struct bh_store *s);
    void (*commit)(struct bh_store *s, struct bh_store_write *w, size_t n, bh_store_done done,
                   void *arg);
    int (*load)(struct bh_store *s, bh_store_each fn, void *arg, struct bh_err *err);
    int (*history)(struct bh_store *s, uint64_t after, size_t max, bh_store_event fn, void *arg,
                   struct bh_err *err);
    int (*compact)(struct bh_store *s, uint64_t rev, struct bh_err *err);
    void (*compact_later)(struct bh_store *s, uint64_t rev);
};

/* First member of every back end. rev and compacted change on the loop's thread only. */
struct bh_store {
    const struct bh_store_ops *ops;
    struct bh_loop *loop;
    uint64_t rev;
    uint64_t compacted;
    bool committing; /* between commit and its done */
};

/* When a back end goes: ends the commit that is under way, if there is one, as a failure. */
void bh_store_closed(struct bh_store *s, bh_store_done done, void *arg);

/* For tests: a store in SQLite whose write-ahead log is copied back from so many bytes on. */
void bh_store_sqlite_wal_bytes(struct bh_store *s, int bytes);

#endif
