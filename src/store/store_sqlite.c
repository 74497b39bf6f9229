/* The SQLite back end.
 *
 *     log(rev INTEGER PRIMARY KEY, op, prev, key, value)   every write; prev is the revision it
 * replaced, 0 for none live(key PRIMARY KEY, rev)                           the newest revision of
 * each key that exists meta(name PRIMARY KEY, n)                            compacted
 *
 * A value is stored once: live points into the log. The log is appended in revision order, which is
 * what a B-tree by rowid likes best. Compaction removes what a write at or before the compaction
 * revision replaced, and deletions.
 *
 * Three connections: the writer works on the worker pool (one commit, and one slice of compaction,
 * at a time); its lock says whose turn it is. The reader belongs to the loop; WAL lets it read
 * while a commit runs. The third copies the write-ahead log back into the database, on the worker
 * pool beside the commits; what they have appended meanwhile the writer copies, which is little,
 * and the log begins anew. These take turns: SQLite before 3.51.3 can lose commits when a log that
 * was copied whole begins anew while another connection is about to copy it.
 */
#include "store/store_int.h"

#include "base/arena.h"
#include "base/fs.h"
#include "base/log.h"
#include "net/loop.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Revisions that one transaction of compaction passes: some milliseconds. */
#define COMPACT_SLICE 2000

/* Bytes of the write-ahead log from which on it is copied back. */
#define WAL_BYTES (32 << 20)
/* When it has grown to so many times that, commits wait for the copying that is under way. */
#define WAL_TIMES_MAX 4

/* Who copies the write-ahead log back; the loop's. */
enum wal_turn {
    WAL_GROWS,       /* nobody */
    WAL_COPYING,     /* copy_work, which is on the worker pool */
    WAL_REST,        /* it has ended: the next commit or slice is to copy the rest */
    WAL_COPYING_REST /* that one is on the worker pool */
};

struct sqlite_store {
    struct bh_store base;
    int lock_fd;
    pthread_mutex_t lock;  /* the writer connection and its statements: held for long */
    pthread_mutex_t state; /* of the two below */
    pthread_cond_t idle;   /* signalled when one of them becomes false */
    bool working;          /* a commit is on the worker pool */
    bool slicing;          /* a slice of compaction is there */
    sqlite3 *writer, *reader, *copier;
    sqlite3_stmt *begin, *commit, *rollback, *insert_log, *insert_live, *update_live, *delete_live,
        *get_live;
    /* The commit under way: set on the loop, used by the worker, read by the loop after it. */
    struct bh_store_write *w;
    size_t n;
    uint64_t next_rev;
    bh_store_done done;
    void *arg;
    int result;
    struct bh_err err;
    /* The slice under way, likewise. */
    uint64_t slice_from, slice_to, goal;
    int slice_result;
    struct bh_err slice_err;
    /* The write-ahead log. */
    atomic_int wal_pages;    /* after the last commit or slice */
    atomic_bool in_copy_now; /* a connection copies it */
    int page_bytes;
    int copy_step, copy_at; /* pages: at the next multiple of copy_step it is copied back */
    enum wal_turn turn;
    bool commit_copies, slice_copies; /* the one under way copies the rest before it begins */
    bool commit_held;                 /* the commit begins when copying ends */
    int copy_result;
    struct bh_err copy_err;
};

static int fail(struct sqlite_store *s, sqlite3 *db, const char *what, struct bh_err *err)
{
    int code = sqlite3_extended_errcode(db);

    (void)s;
    return bh_err_set(err, (code & 0xff) == SQLITE_BUSY ? BH_E_BUSY : BH_E_IO, "store: %s: %s",
                      what, sqlite3_errmsg(db));
}

static int exec(struct sqlite_store *s, sqlite3 *db, const char *sql, struct bh_err *err)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return fail(s, db, sql, err);
    return 0;
}

static int prepare(struct sqlite_store *s, sqlite3 *db, const char *sql, sqlite3_stmt **ret,
                   struct bh_err *err)
{
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL) != SQLITE_OK)
        return fail(s, db, sql, err);
    return 0;
}

static int bind_bytes(sqlite3_stmt *st, int at, struct bh_str v)
{
    return sqlite3_bind_blob64(st, at, v.p ? v.p : "", v.n, SQLITE_STATIC);
}

static struct bh_str column_bytes(sqlite3_stmt *st, int at)
{
    const void *p = sqlite3_column_blob(st, at);

    return (struct bh_str){p, (size_t)sqlite3_column_bytes(st, at)};
}

/* Steps a statement that gives no rows, and resets it. */
static int run(struct sqlite_store *s, sqlite3_stmt *st, const char *what, struct bh_err *err)
{
    int rc = sqlite3_step(st), r = 0;

    if (rc != SQLITE_DONE)
        r = fail(s, s->writer, what, err);
    (void)sqlite3_reset(st);
    return r;
}

/* ---- commit, on the worker ---- */

static int write_one(struct sqlite_store *s, struct bh_store_write *w, uint64_t rev,
                     struct bh_err *err)
{
    sqlite3_stmt *live;
    uint64_t prev = 0;
    int r;

    bind_bytes(s->get_live, 1, w->key);
    if (sqlite3_step(s->get_live) == SQLITE_ROW)
        prev = (uint64_t)sqlite3_column_int64(s->get_live, 0);
    (void)sqlite3_reset(s->get_live);
    if ((prev != 0) == (w->op == BH_STORE_CREATE))
        return bh_err_set(err, BH_E_CONFLICT, "store: key '%.*s' %s", BH_SF(w->key),
                          prev ? "exists" : "does not exist");
    sqlite3_bind_int64(s->insert_log, 1, (sqlite3_int64)rev);
    sqlite3_bind_int(s->insert_log, 2, (int)w->op);
    sqlite3_bind_int64(s->insert_log, 3, (sqlite3_int64)prev);
    bind_bytes(s->insert_log, 4, w->key);
    bind_bytes(s->insert_log, 5, w->value);
    r = run(s, s->insert_log, "write", err);
    if (r < 0)
        return r;
    live = w->op == BH_STORE_CREATE   ? s->insert_live
           : w->op == BH_STORE_UPDATE ? s->update_live
                                      : s->delete_live;
    bind_bytes(live, 1, w->key);
    if (w->op != BH_STORE_DELETE)
        sqlite3_bind_int64(live, 2, (sqlite3_int64)rev);
    return run(s, live, "write", err);
}

static int commit_batch(struct sqlite_store *s, struct bh_err *err)
{
    int r = run(s, s->begin, "begin", err);

    for (size_t i = 0; r == 0 && i < s->n; i++)
        r = write_one(s, &s->w[i], s->next_rev + i, err);
    if (r == 0)
        r = run(s, s->commit, "commit", err);
    /* SQLite may have rolled back by itself (a full disk does that); then there is nothing left to
     * undo. */
    if (r < 0 && !sqlite3_get_autocommit(s->writer))
        (void)run(s, s->rollback, "rollback", NULL);
    return r;
}

static void set_flag(struct sqlite_store *s, bool *flag, bool value)
{
    pthread_mutex_lock(&s->state);
    *flag = value;
    if (!value)
        pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->state);
}

static int copy_wal(struct sqlite_store *s, sqlite3 *db)
{
    bool other = atomic_exchange(&s->in_copy_now, true);
    int rc;

    bh_assert(!other);
    rc = sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    atomic_store(&s->in_copy_now, false);
    return rc;
}

static void commit_work(void *arg)
{
    struct sqlite_store *s = arg;

    pthread_mutex_lock(&s->lock);
    /* A log that is copied while commits append to it is never copied whole, and it begins anew
     * only when a commit finds it so. */
    if (s->commit_copies)
        (void)copy_wal(s, s->writer);
    s->result = commit_batch(s, &s->err);
    pthread_mutex_unlock(&s->lock);
    set_flag(s, &s->working, false);
}

/* ---- the write-ahead log, copied back ---- */

static int on_wal(void *arg, sqlite3 *db, const char *name, int pages)
{
    struct sqlite_store *s = arg;

    (void)db, (void)name;
    atomic_store(&s->wal_pages, pages);
    return SQLITE_OK;
}

/* Whether the commit or slice that begins is to copy the rest. */
static bool rest_begin(struct sqlite_store *s)
{
    if (s->turn != WAL_REST)
        return false;
    s->turn = WAL_COPYING_REST;
    return true;
}

static void commit_done(void *arg);

static void commit_begin(struct sqlite_store *s)
{
    s->commit_held = false;
    s->commit_copies = rest_begin(s);
    set_flag(s, &s->working, true);
    bh_loop_work(s->base.loop, commit_work, commit_done, s);
}

static void copy_work(void *arg)
{
    struct sqlite_store *s = arg;

    if (copy_wal(s, s->copier) != SQLITE_OK)
        s->copy_result = fail(s, s->copier, "checkpoint", &s->copy_err);
}

/* Nothing is lost by a failure: the log has it all, and grows until the next attempt. */
static void copy_done(void *arg)
{
    struct sqlite_store *s = arg;

    s->turn = s->copy_result < 0 ? WAL_GROWS : WAL_REST;
    if (s->copy_result < 0)
        bh_log(BH_WARN, "the write-ahead log was not copied into the database, trying later",
               BH_CSTR("error", s->copy_err.msg));
    if (s->commit_held)
        commit_begin(s);
}

/* When a commit or a slice has ended; copied: it had the rest to copy. An attempt is made at each
 * multiple of the size, so that one that fails, or is held up by a reader, is not repeated at once,
 * and none begins with a log that is copied whole. */
static void copy_start(struct sqlite_store *s, bool copied)
{
    int pages = atomic_load(&s->wal_pages);

    if (copied) {
        s->turn = WAL_GROWS;
        s->copy_at = pages + s->copy_step;
    }
    if (pages < s->copy_step)
        s->copy_at = s->copy_step; /* it began anew */
    if (s->turn != WAL_GROWS || pages < s->copy_at)
        return;
    s->copy_at = pages + s->copy_step;
    s->turn = WAL_COPYING;
    s->copy_result = 0;
    memset(&s->copy_err, 0, sizeof(s->copy_err));
    bh_loop_work(s->base.loop, copy_work, copy_done, s);
}

static void commit_done(void *arg)
{
    struct sqlite_store *s = arg;
    struct bh_err err = s->err;

    if (s->result == 0) {
        for (size_t i = 0; i < s->n; i++)
            s->w[i].rev = s->next_rev + i;
        s->base.rev = s->next_rev + s->n - 1;
    }
    copy_start(s, s->commit_copies);
    s->base.committing = false;
    s->done(s->arg, s->result < 0 ? &err : NULL);
}

static void sqlite_commit(struct bh_store *base, struct bh_store_write *w, size_t n,
                          bh_store_done done, void *arg)
{
    struct sqlite_store *s = (struct sqlite_store *)base;

    s->w = w;
    s->n = n;
    s->next_rev = base->rev + 1;
    s->done = done;
    s->arg = arg;
    memset(&s->err, 0, sizeof(s->err));
    s->commit_held =
        s->turn == WAL_COPYING && atomic_load(&s->wal_pages) >= WAL_TIMES_MAX * s->copy_step;
    if (!s->commit_held)
        commit_begin(s);
}

/* ---- reading, on the loop ---- */

static int sqlite_load(struct bh_store *base, bh_store_each fn, void *arg, struct bh_err *err)
{
    struct sqlite_store *s = (struct sqlite_store *)base;
    sqlite3_stmt *st;
    int rc,
        r = prepare(s, s->reader,
                    "SELECT live.key, log.value, live.rev FROM live JOIN log ON log.rev = live.rev "
                    "ORDER BY live.key",
                    &st, err);

    if (r < 0)
        return r;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW)
        if (fn(arg, column_bytes(st, 0), column_bytes(st, 1),
               (uint64_t)sqlite3_column_int64(st, 2)))
            break;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        r = fail(s, s->reader, "load", err);
    (void)sqlite3_finalize(st);
    return r;
}

static int sqlite_history(struct bh_store *base, uint64_t after, size_t max, bh_store_event fn,
                          void *arg, struct bh_err *err)
{
    struct sqlite_store *s = (struct sqlite_store *)base;
    sqlite3_stmt *st;
    int rc, r = prepare(
                s, s->reader,
                "SELECT log.op, log.key, log.value, log.rev, old.value, log.prev FROM log LEFT "
                "JOIN log AS "
                "old ON old.rev = log.prev AND log.prev > 0 WHERE log.rev > ?1 ORDER BY log.rev "
                "LIMIT ?2",
                &st, err);

    if (r < 0)
        return r;
    sqlite3_bind_int64(st, 1, (sqlite3_int64)after);
    sqlite3_bind_int64(st, 2, max > INT64_MAX ? INT64_MAX : (sqlite3_int64)max);
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct bh_store_write w = {(enum bh_store_op)sqlite3_column_int(st, 0),
                                   column_bytes(st, 1),
                                   column_bytes(st, 2),
                                   (uint64_t)sqlite3_column_int64(st, 3),
                                   column_bytes(st, 4),
                                   (uint64_t)sqlite3_column_int64(st, 5)};

        if (fn(arg, &w))
            break;
    }
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        r = fail(s, s->reader, "history", err);
    (void)sqlite3_finalize(st);
    return r;
}

/* ---- compaction ---- */

/* Removes what the writes after from, up to and including to, have replaced, and their deletions.
 * Nobody else uses the writer. */
static int compact_slice(struct sqlite_store *s, uint64_t from, uint64_t to, struct bh_err *err)
{
    unsigned long long a = from, b = to;
    char sql[512];
    int r;

    (void)snprintf(
        sql, sizeof(sql),
        "BEGIN IMMEDIATE;"
        "DELETE FROM log WHERE rev IN (SELECT prev FROM log WHERE rev > %llu AND rev <= %llu AND "
        "prev > 0);"
        "DELETE FROM log WHERE rev > %llu AND rev <= %llu AND op = %d;"
        "INSERT OR REPLACE INTO meta(name, n) VALUES('compacted', %llu);"
        "COMMIT;",
        a, b, a, b, (int)BH_STORE_DELETE, b);
    r = exec(s, s->writer, sql, err);
    if (r < 0 && !sqlite3_get_autocommit(s->writer))
        (void)exec(s, s->writer, "ROLLBACK", NULL);
    return r;
}

static uint64_t slice_end(uint64_t from, uint64_t goal)
{
    return goal - from > COMPACT_SLICE ? from + COMPACT_SLICE : goal;
}

static int sqlite_compact(struct bh_store *base, uint64_t rev, struct bh_err *err)
{
    struct sqlite_store *s = (struct sqlite_store *)base;
    int r = 0;

    pthread_mutex_lock(&s->state);
    while (s->working || s->slicing)
        pthread_cond_wait(&s->idle, &s->state);
    pthread_mutex_unlock(&s->state);
    while (r == 0 && base->compacted < rev) {
        uint64_t to = slice_end(base->compacted, rev);

        r = compact_slice(s, base->compacted, to, err);
        if (r == 0)
            base->compacted = to;
    }
    return r;
}

static void slice_work(void *arg)
{
    struct sqlite_store *s = arg;

    pthread_mutex_lock(&s->lock);
    if (s->slice_copies)
        (void)copy_wal(s, s->writer);
    s->slice_result = compact_slice(s, s->slice_from, s->slice_to, &s->slice_err);
    pthread_mutex_unlock(&s->lock);
    set_flag(s, &s->slicing, false);
}

static void slice_done(void *arg);

static void slice_start(struct sqlite_store *s)
{
    s->slice_from = s->base.compacted;
    s->slice_to = slice_end(s->slice_from, s->goal);
    memset(&s->slice_err, 0, sizeof(s->slice_err));
    s->slice_copies = rest_begin(s);
    set_flag(s, &s->slicing, true);
    bh_loop_work(s->base.loop, slice_work, slice_done, s);
}

static void slice_done(void *arg)
{
    struct sqlite_store *s = arg;

    copy_start(s, s->slice_copies);
    if (s->slice_result < 0) {
        bh_log(BH_WARN, "history was not compacted, continuing",
               BH_CSTR("error", s->slice_err.msg));
        s->goal = 0;
        return;
    }
    if (s->slice_to > s->base.compacted)
        s->base.compacted = s->slice_to;
    if (s->goal > s->base.compacted)
        slice_start(s);
    else
        s->goal = 0;
}

static void sqlite_compact_later(struct bh_store *base, uint64_t rev)
{
    struct sqlite_store *s = (struct sqlite_store *)base;
    bool running = s->goal != 0;

    if (rev > s->goal)
        s->goal = rev;
    if (!running)
        slice_start(s);
}

/* ---- opening and closing ---- */

static void sqlite_free(struct bh_store *base)
{
    struct sqlite_store *s = (struct sqlite_store *)base;
    sqlite3_stmt *all[] = {s->begin,       s->commit,      s->rollback,    s->insert_log,
                           s->insert_live, s->update_live, s->delete_live, s->get_live};

    /* A commit that has not begun never will. */
    bh_loop_work_drop(base->loop, commit_done, s);
    bh_loop_work_drop(base->loop, slice_done, s);
    bh_loop_work_drop(base->loop, copy_done, s);
    bh_store_closed(base, s->done, s->arg);
    for (size_t i = 0; i < BH_COUNT(all); i++)
        (void)sqlite3_finalize(all[i]);
    (void)sqlite3_close(s->copier);
    (void)sqlite3_close(s->reader);
    (void)sqlite3_close(s->writer);
    if (s->lock_fd >= 0)
        (void)close(s->lock_fd);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->state);
    pthread_mutex_destroy(&s->lock);
    bh_free(s);
}

static const struct bh_store_ops sqlite_ops = {
    sqlite_free, sqlite_commit, sqlite_load, sqlite_history, sqlite_compact, sqlite_compact_later};

/* Of a new database: pages of 16 KiB hold most objects whole, and a commit writes few of them. One
 * that exists keeps the size it has. */
static const char schema[] =
    "PRAGMA page_size=16384;"
    "PRAGMA journal_mode=WAL;"
    "PRAGMA cache_size=-8000;" /* what a commit changes, so that it is not written before its end */
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS log(rev INTEGER PRIMARY KEY, op INTEGER NOT NULL, prev INTEGER NOT "
    "NULL, "
    "key BLOB NOT NULL, value BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS live(key BLOB PRIMARY KEY, rev INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;"
    "COMMIT;";

static const char settings[] = "PRAGMA synchronous=FULL;"
                               "PRAGMA temp_store=MEMORY;"
                               "PRAGMA wal_autocheckpoint=0;";

static int open_db(struct sqlite_store *s, const char *path, sqlite3 **ret, struct bh_err *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;

    if (sqlite3_open_v2(path, ret, flags, NULL) != SQLITE_OK)
        return fail(s, *ret, path, err);
    (void)sqlite3_busy_timeout(*ret, 5000);
    return exec(s, *ret, settings, err);
}

static int prepare_all(struct sqlite_store *s, struct bh_err *err)
{
    const struct {
        const char *sql;
        sqlite3_stmt **st;
    } all[] = {
        {"BEGIN IMMEDIATE", &s->begin},
        {"COMMIT", &s->commit},
        {"ROLLBACK", &s->rollback},
        {"INSERT INTO log(rev, op, prev, key, value) VALUES(?1, ?2, ?3, ?4, ?5)", &s->insert_log},
        {"INSERT INTO live(key, rev) VALUES(?1, ?2)", &s->insert_live},
        {"UPDATE live SET rev = ?2 WHERE key = ?1", &s->update_live},
        {"DELETE FROM live WHERE key = ?1", &s->delete_live},
        {"SELECT rev FROM live WHERE key = ?1", &s->get_live},
    };

    for (size_t i = 0; i < BH_COUNT(all); i++) {
        int r = prepare(s, s->writer, all[i].sql, all[i].st, err);

        if (r < 0)
            return r;
    }
    return 0;
}

static int read_number(struct sqlite_store *s, const char *sql, uint64_t *ret, struct bh_err *err)
{
    sqlite3_stmt *st;
    int r = prepare(s, s->reader, sql, &st, err);

    if (r < 0)
        return r;
    if (sqlite3_step(st) == SQLITE_ROW)
        *ret = (uint64_t)sqlite3_column_int64(st, 0);
    (void)sqlite3_finalize(st);
    return 0;
}

void bh_store_sqlite_wal_bytes(struct bh_store *base, int bytes)
{
    struct sqlite_store *s = (struct sqlite_store *)base;

    s->copy_step = s->copy_at = bytes / s->page_bytes;
}

static int open_all(struct sqlite_store *s, const char *path, struct bh_err *err)
{
    char lock_path[4096];
    uint64_t newest = 0, page = 0;
    int r = bh_path(lock_path, sizeof(lock_path), err, "%s.lock", path);

    if (r == 0)
        r = bh_fs_lock(lock_path, &s->lock_fd, err);
    if (r == 0)
        r = open_db(s, path, &s->writer, err);
    if (r == 0)
        r = exec(s, s->writer, schema, err);
    if (r == 0)
        r = prepare_all(s, err);
    if (r == 0)
        r = open_db(s, path, &s->reader, err);
    if (r == 0)
        r = open_db(s, path, &s->copier, err);
    if (r == 0)
        r = read_number(s, "PRAGMA page_size", &page, err);
    if (r == 0)
        r = read_number(s, "SELECT n FROM meta WHERE name = 'compacted'", &s->base.compacted, err);
    if (r == 0)
        r = read_number(s, "SELECT max(rev) FROM log", &newest, err);
    s->page_bytes = page > 0 ? (int)page : 4096;
    bh_store_sqlite_wal_bytes(&s->base, WAL_BYTES);
    if (r == 0)
        (void)sqlite3_wal_hook(s->writer, on_wal, s);
    s->base.rev = newest > s->base.compacted ? newest : s->base.compacted;
    if (s->base.rev < 1)
        s->base.rev = 1;
    return r;
}

int bh_store_open_sqlite(struct bh_loop *l, const char *path, struct bh_store **ret,
                         struct bh_err *err)
{
    struct sqlite_store *s = bh_calloc(1, sizeof(*s));
    int r;

    s->base.ops = &sqlite_ops;
    s->base.loop = l;
    s->lock_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->state, NULL);
    pthread_cond_init(&s->idle, NULL);
    r = open_all(s, path, err);
    if (r < 0) {
        sqlite_free(&s->base);
        return r;
    }
    *ret = &s->base;
    return 0;
}
