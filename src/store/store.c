/* Dispatch to the back end, and the rules that hold for all of them. */
#include "store/store_int.h"

#include <stddef.h>

void bh_store_closed(struct bh_store *s, bh_store_done done, void *arg)
{
    struct bh_err err = {0};

    if (!s->committing)
        return;
    s->committing = false;
    (void)bh_err_set(&err, BH_E_IO, "the store is closed");
    done(arg, &err);
}

struct bh_store *bh_store_free(struct bh_store *s)
{
    if (s)
        s->ops->free(s);
    return NULL;
}

void bh_store_commit(struct bh_store *s, struct bh_store_write *w, size_t n, bh_store_done done,
                     void *arg)
{
    bh_assert(n > 0);
    bh_assert(!s->committing);
    s->committing = true;
    s->ops->commit(s, w, n, done, arg);
}

uint64_t bh_store_rev(const struct bh_store *s)
{
    return s->rev;
}

uint64_t bh_store_compacted(const struct bh_store *s)
{
    return s->compacted;
}

int bh_store_load(struct bh_store *s, bh_store_each fn, void *arg, struct bh_err *err)
{
    return s->ops->load(s, fn, arg, err);
}

int bh_store_history(struct bh_store *s, uint64_t after, size_t max, bh_store_event fn, void *arg,
                     struct bh_err *err)
{
    if (after < s->compacted)
        return bh_err_set(err, BH_E_GONE, "revision %llu is older than the oldest kept, %llu",
                          (unsigned long long)after, (unsigned long long)s->compacted);
    return s->ops->history(s, after, max, fn, arg, err);
}

int bh_store_compact(struct bh_store *s, uint64_t rev, struct bh_err *err)
{
    if (rev > s->rev)
        rev = s->rev;
    if (rev <= s->compacted)
        return 0;
    return s->ops->compact(s, rev, err);
}

void bh_store_compact_later(struct bh_store *s, uint64_t rev)
{
    if (rev > s->rev)
        rev = s->rev;
    if (rev > s->compacted)
        s->ops->compact_later(s, rev);
}
