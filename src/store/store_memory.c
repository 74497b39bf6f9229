/* The memory back end: a log of writes and a map to the newest entry of each key.
 *
 * A commit is applied on the loop when its simulated work is done, so that it takes time and can
 * fail like a real one. The log is a plain array; compaction drops superseded entries and keeps the
 * last state of each live key, so that the value before a later write stays known.
 */
#include "store/store_int.h"

#include "base/arena.h"
#include "base/map.h"
#include "net/loop.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    enum bh_store_op op;
    uint64_t rev;
    char *key; /* heap; key and value share one block */
    size_t key_n;
    struct bh_str value;
    struct entry *prev; /* state before, NULL when there was none or it is compacted */
};

struct memory_store {
    struct bh_store base;
    struct entry **log; /* by revision; includes live entries older than compacted */
    size_t log_n, log_cap;
    struct bh_map live; /* key -> struct entry */
    int fail_in;        /* 0: never */
    /* the commit under way */
    struct bh_store_write *w;
    size_t n;
    bh_store_done done;
    void *arg;
};

static struct entry *entry_new(const struct bh_store_write *w)
{
    struct entry *e = bh_calloc(1, sizeof(*e));

    e->op = w->op;
    e->rev = w->rev;
    e->key = bh_malloc(w->key.n + w->value.n + 1);
    e->key_n = w->key.n;
    memcpy(e->key, w->key.p, w->key.n);
    if (w->value.n > 0)
        memcpy(e->key + w->key.n, w->value.p, w->value.n);
    e->value = (struct bh_str){e->key + w->key.n, w->value.n};
    return e;
}

static void entry_free(struct entry *e)
{
    bh_free(e->key);
    bh_free(e);
}

static struct bh_str entry_key(const struct entry *e)
{
    return (struct bh_str){e->key, e->key_n};
}

static void work_done(void *arg);

static void memory_free(struct bh_store *base)
{
    struct memory_store *s = (struct memory_store *)base;

    bh_loop_work_drop(base->loop, work_done, s);
    bh_store_closed(base, s->done, s->arg);
    for (size_t i = 0; i < s->log_n; i++)
        entry_free(s->log[i]);
    bh_free(s->log);
    bh_map_done(&s->live);
    bh_free(s);
}

/* Checks that a write fits what is there; mirrors the constraints of the SQLite schema. */
static int check(const struct memory_store *s, const struct bh_store_write *w, struct bh_err *err)
{
    bool there = bh_map_get(&s->live, w->key) != NULL;

    if (there == (w->op == BH_STORE_CREATE))
        return bh_err_set(err, BH_E_CONFLICT, "key '%.*s' %s", BH_SF(w->key),
                          there ? "exists" : "does not exist");
    return 0;
}

static void append(struct memory_store *s, struct bh_store_write *w)
{
    struct entry *e;

    w->rev = ++s->base.rev;
    e = entry_new(w);
    e->prev = bh_map_get(&s->live, w->key);
    if (s->log_n == s->log_cap) {
        s->log_cap = s->log_cap ? s->log_cap * 2 : 64;
        s->log = bh_realloc(s->log, s->log_cap * sizeof(*s->log));
    }
    s->log[s->log_n++] = e;
    if (w->op == BH_STORE_DELETE)
        (void)bh_map_del(&s->live, w->key);
    else
        (void)bh_map_put(&s->live, w->key, e);
}

/* Takes the newest m entries off again, newest first: a batch is stored whole or not at all. */
static void unappend(struct memory_store *s, size_t m)
{
    while (m-- > 0) {
        struct entry *e = s->log[--s->log_n];

        if (e->prev)
            (void)bh_map_put(&s->live, entry_key(e), e->prev);
        else
            (void)bh_map_del(&s->live, entry_key(e));
        s->base.rev--;
        entry_free(e);
    }
}

static void work_none(void *arg)
{
    (void)arg;
}

static void work_done(void *arg)
{
    struct memory_store *s = arg;
    bh_store_done done = s->done;
    struct bh_err err = {0};
    size_t i = 0;
    int r = 0;

    if (s->fail_in > 0 && --s->fail_in == 0)
        r = bh_err_set(&err, BH_E_IO, "commit: no space left on device");
    for (; r == 0 && i < s->n; i++) {
        r = check(s, &s->w[i], &err);
        if (r < 0)
            break;
        append(s, &s->w[i]);
    }
    if (r < 0)
        unappend(s, i);
    s->base.committing = false;
    done(s->arg, r < 0 ? &err : NULL);
}

static void memory_commit(struct bh_store *base, struct bh_store_write *w, size_t n,
                          bh_store_done done, void *arg)
{
    struct memory_store *s = (struct memory_store *)base;

    s->w = w;
    s->n = n;
    s->done = done;
    s->arg = arg;
    bh_loop_work(base->loop, work_none, work_done, s);
}

static int by_key(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;

    return bh_str_cmp(entry_key(x), entry_key(y));
}

static int memory_load(struct bh_store *base, bh_store_each fn, void *arg, struct bh_err *err)
{
    struct memory_store *s = (struct memory_store *)base;
    struct entry **all = bh_malloc((s->live.n + 1) * sizeof(struct entry *));
    size_t n = 0;
    struct bh_str key;
    void *v;

    (void)err;
    for (size_t it = 0; bh_map_next(&s->live, &it, &key, &v);)
        all[n++] = v;
    qsort(all, n, sizeof(struct entry *), by_key);
    for (size_t i = 0; i < n; i++)
        if (fn(arg, entry_key(all[i]), all[i]->value, all[i]->rev))
            break;
    bh_free(all);
    return 0;
}

static int memory_history(struct bh_store *base, uint64_t after, size_t max, bh_store_event fn,
                          void *arg, struct bh_err *err)
{
    struct memory_store *s = (struct memory_store *)base;

    (void)err;
    for (size_t i = 0; i < s->log_n && max > 0; i++) {
        const struct entry *e = s->log[i];
        struct bh_store_write w = {e->op, entry_key(e), e->value, e->rev, {NULL, 0}, 0};

        if (e->rev <= after)
            continue;
        if (e->prev) {
            w.prev = e->prev->value;
            w.prev_rev = e->prev->rev;
        }
        max--;
        if (fn(arg, &w))
            break;
    }
    return 0;
}

static int memory_compact(struct bh_store *base, uint64_t rev, struct bh_err *err)
{
    struct memory_store *s = (struct memory_store *)base;
    size_t kept = 0;

    (void)err;
    /* First mark what a write at or before rev has replaced, then sweep; the newest state of each
     * key at rev stays. */
    for (size_t i = 0; i < s->log_n && s->log[i]->rev <= rev; i++) {
        struct entry *e = s->log[i];

        if (e->prev)
            e->prev->key_n = SIZE_MAX;
        e->prev = NULL;
    }
    for (size_t i = 0; i < s->log_n; i++) {
        struct entry *e = s->log[i];

        if (e->key_n == SIZE_MAX || (e->rev <= rev && e->op == BH_STORE_DELETE))
            entry_free(e);
        else
            s->log[kept++] = e;
    }
    s->log_n = kept;
    base->compacted = rev;
    return 0;
}

static void memory_compact_later(struct bh_store *base, uint64_t rev)
{
    (void)memory_compact(base, rev, NULL);
}

static const struct bh_store_ops memory_ops = {
    memory_free, memory_commit, memory_load, memory_history, memory_compact, memory_compact_later};

struct bh_store *bh_store_new_memory(struct bh_loop *l)
{
    struct memory_store *s = bh_calloc(1, sizeof(*s));

    s->base.ops = &memory_ops;
    s->base.loop = l;
    s->base.rev = 1;
    return &s->base;
}

void bh_store_memory_fail(struct bh_store *base, int nth)
{
    bh_assert(base->ops == &memory_ops);
    ((struct memory_store *)base)->fail_in = nth;
}
