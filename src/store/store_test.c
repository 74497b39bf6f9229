/* Both back ends against the same expectations, on the virtual loop; SQLite also on a real one,
 * across reopening and a full disk. */
#include "store/store_int.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "net/loop.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct outcome {
    int calls;
    int code; /* of the last */
};

static void on_done(void *arg, const struct bh_err *err)
{
    struct outcome *o = arg;

    o->calls++;
    o->code = err ? (int)err->code : 0;
}

static int commit(struct bh_loop *l, struct bh_store *s, struct bh_store_write *w, size_t n)
{
    struct outcome o = {0, -1};

    bh_store_commit(s, w, n, on_done, &o);
    BH_EQ(o.calls, 0); /* never inside the call */
    bh_loop_advance(l, 1000000000);
    BH_EQ(o.calls, 1);
    return o.code;
}

static int append_entry(void *arg, struct bh_str key, struct bh_str value, uint64_t rev)
{
    bh_buf_addf(arg, "%.*s=%.*s@%llu ", BH_SF(key), BH_SF(value), (unsigned long long)rev);
    return 0;
}

static int append_event(void *arg, const struct bh_store_write *w)
{
    bh_buf_addf(arg, "%c%.*s=%.*s@%llu", "CUD"[w->op], BH_SF(w->key), BH_SF(w->value),
                (unsigned long long)w -> rev);
    if (w->prev.n > 0)
        bh_buf_addf(arg, "<%.*s", BH_SF(w->prev));
    bh_buf_addc(arg, ' ');
    return 0;
}

static void check_load(struct bh_store *s, const char *want)
{
    BH_AUTO_BUF b = {0};

    BH_EQ(bh_store_load(s, append_entry, &b, NULL), 0);
    BH_STREQ(bh_buf_str(&b), want);
}

static void check_history(struct bh_store *s, uint64_t after, const char *want)
{
    BH_AUTO_BUF b = {0};

    BH_EQ(bh_store_history(s, after, 100, append_event, &b, NULL), 0);
    BH_STREQ(bh_buf_str(&b), want);
}

/* The life of a few keys: commits, a batch that fails as a whole, history, compaction. */
static void exercise(struct bh_loop *l, struct bh_store *s)
{
    struct bh_store_write w[3] = {{BH_STORE_CREATE, BH_S("/a"), BH_S("1")},
                                  {BH_STORE_CREATE, BH_S("/c"), BH_S("1")},
                                  {BH_STORE_CREATE, BH_S("/b"), BH_S("1")}};
    BH_AUTO_BUF none = {0};

    BH_EQ(bh_store_rev(s), 1);
    BH_EQ(commit(l, s, w, 3), 0);
    BH_EQ(w[0].rev, 2);
    BH_EQ(w[2].rev, 4);
    BH_EQ(bh_store_rev(s), 4);
    check_load(s, "/a=1@2 /b=1@4 /c=1@3 ");
    w[0] = (struct bh_store_write){BH_STORE_UPDATE, BH_S("/a"), BH_S("2")};
    w[1] = (struct bh_store_write){BH_STORE_CREATE, BH_S("/b"), BH_S("x")};
    BH_EQ(commit(l, s, w, 2), BH_E_CONFLICT);
    BH_EQ(bh_store_rev(s), 4);
    check_load(s, "/a=1@2 /b=1@4 /c=1@3 ");
    w[1] = (struct bh_store_write){BH_STORE_DELETE, BH_S("/b"), BH_S("last")};
    BH_EQ(commit(l, s, w, 2), 0);
    check_load(s, "/a=2@5 /c=1@3 ");
    check_history(s, 3, "C/b=1@4 U/a=2@5<1 D/b=last@6<1 ");
    w[0] = (struct bh_store_write){BH_STORE_UPDATE, BH_S("/a"), BH_S("3")};
    BH_EQ(commit(l, s, w, 1), 0);
    BH_EQ(bh_store_compact(s, 6, NULL), 0);
    BH_EQ(bh_store_compacted(s), 6);
    BH_EQ(bh_store_history(s, 5, 100, append_event, &none, NULL), -BH_E_GONE);
    check_history(s, 6, "U/a=3@7<2 ");
    check_load(s, "/a=3@7 /c=1@3 ");
    /* A key may come back after its deletion. */
    w[0] = (struct bh_store_write){BH_STORE_CREATE, BH_S("/b"), BH_S("again")};
    BH_EQ(commit(l, s, w, 1), 0);
    check_load(s, "/a=3@7 /b=again@8 /c=1@3 ");
}

BH_TEST(store_memory_keeps_the_contract)
{
    struct bh_loop *l = bh_loop_new_virtual(1, 0);
    struct bh_store *s = bh_store_new_memory(l);

    exercise(l, s);
    bh_store_free(s);
    bh_loop_free(l);
}

BH_TEST(store_memory_fails_when_told)
{
    struct bh_loop *l = bh_loop_new_virtual(1, 0);
    struct bh_store *s = bh_store_new_memory(l);
    struct bh_store_write w = {BH_STORE_CREATE, BH_S("/a"), BH_S("1")};

    bh_store_memory_fail(s, 1);
    BH_EQ(commit(l, s, &w, 1), BH_E_IO);
    check_load(s, "");
    BH_EQ(commit(l, s, &w, 1), 0);
    check_load(s, "/a=1@2 ");
    bh_store_free(s);
    bh_loop_free(l);
}

static void tmp_dir(char *buf, size_t n)
{
    const char *base = getenv("TMPDIR");

    (void)snprintf(buf, n, "%s/bh-store-XXXXXX", base ? base : "/tmp");
    BH_CHECK(mkdtemp(buf) != NULL);
}

BH_TEST(store_sqlite_keeps_the_contract_and_survives_reopening)
{
    char dir[256], path[300];
    struct bh_loop *l = bh_loop_new_virtual(1, 0);
    struct bh_store *s = NULL, *second = NULL;
    struct bh_err err = {0};

    tmp_dir(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/state.db", dir);
    BH_EQ(bh_store_open_sqlite(l, path, &s, &err), 0);
    exercise(l, s);
    BH_EQ(bh_store_open_sqlite(l, path, &second, &err), -BH_E_BUSY);
    bh_store_free(s);
    BH_EQ(bh_store_open_sqlite(l, path, &s, &err), 0);
    BH_EQ(bh_store_rev(s), 8);
    BH_EQ(bh_store_compacted(s), 6);
    check_load(s, "/a=3@7 /b=again@8 /c=1@3 ");
    check_history(s, 6, "U/a=3@7<2 C/b=again@8 ");
    bh_store_free(s);
    bh_loop_free(l);
    BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
}

/* A file size limit stands in for a full disk: the failing batch vanishes as a whole, and later
 * ones work again. */
BH_TEST(store_sqlite_recovers_from_a_full_disk)
{
    char dir[256], path[300];
    struct bh_loop *l = bh_loop_new_virtual(1, 0);
    struct bh_store *s = NULL;
    struct bh_err err = {0};
    struct rlimit old, small;
    size_t big_n = 400000;
    char *big = bh_calloc(1, big_n);
    struct bh_store_write w = {BH_STORE_CREATE, BH_S("/a"), BH_S("1")};
    struct bh_store_write wb[2] = {{BH_STORE_UPDATE, BH_S("/a"), BH_S("2")},
                                   {BH_STORE_CREATE, BH_S("/big"), {big, big_n}}};

    tmp_dir(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/state.db", dir);
    BH_EQ(bh_store_open_sqlite(l, path, &s, &err), 0);
    BH_EQ(commit(l, s, &w, 1), 0);
    (void)sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    BH_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 150000;
    BH_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    BH_CHECK(commit(l, s, wb, 2) != 0);
    BH_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    BH_EQ(bh_store_rev(s), 2);
    check_load(s, "/a=1@2 ");
    BH_EQ(commit(l, s, wb, 2), 0);
    BH_EQ(bh_store_rev(s), 4);
    bh_store_free(s);
    bh_loop_free(l);
    bh_free(big);
    BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
}

struct stress {
    struct bh_loop *l;
    struct bh_store *s;
    struct bh_store_write w[8];
    char keys[8][24];
    int round;
};

static void stress_next(void *arg, const struct bh_err *err)
{
    struct stress *st = arg;
    BH_AUTO_BUF b = {0};

    BH_CHECK(err == NULL);
    if (st->round++ == 40) {
        bh_loop_stop(st->l);
        return;
    }
    for (int i = 0; i < 8; i++) {
        (void)snprintf(st->keys[i], sizeof(st->keys[i]), "/k%d-%d", st->round, i);
        st->w[i] = (struct bh_store_write){BH_STORE_CREATE, bh_s(st->keys[i]), BH_S("v")};
    }
    bh_store_commit(st->s, st->w, 8, stress_next, st);
    /* Reading and compacting while the worker commits: what the sanitizers look at. */
    BH_EQ(bh_store_history(st->s, bh_store_compacted(st->s), 10, append_event, &b, NULL), 0);
    if (st->round % 10 == 5)
        bh_store_compact_later(st->s, bh_store_rev(st->s) - 3);
    if (st->round % 10 == 0)
        BH_EQ(bh_store_compact(st->s, bh_store_rev(st->s) - 5, NULL), 0);
}

BH_TEST(store_sqlite_commits_on_the_worker_pool)
{
    char dir[256], path[300];
    struct bh_err err = {0};
    struct bh_loop *l = bh_loop_new_real(&err);
    struct stress st = {.l = l};

    tmp_dir(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/state.db", dir);
    BH_EQ(bh_store_open_sqlite(l, path, &st.s, &err), 0);
    stress_next(&st, NULL);
    bh_loop_run(l);
    BH_EQ(bh_store_rev(st.s), 1 + 40 * 8);
    bh_store_free(st.s);
    bh_loop_free(l);
    BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
}

static void count_end(void *arg, const struct bh_err *err)
{
    *(int *)arg += err ? 1 : 100;
}

/* Closing ends a commit on its way, once, wherever that stands. */
BH_TEST(store_sqlite_closes_during_a_commit)
{
    struct bh_store_write w = {BH_STORE_CREATE, BH_S("/a"), BH_S("1")};

    for (int real = 0; real < 2; real++) {
        char dir[256], path[300];
        struct bh_err err = {0};
        struct bh_loop *l = real ? bh_loop_new_real(&err) : bh_loop_new_virtual(1, 0);
        struct bh_store *s = NULL;
        int ends = 0;

        tmp_dir(dir, sizeof(dir));
        (void)snprintf(path, sizeof(path), "%s/state.db", dir);
        BH_EQ(bh_store_open_sqlite(l, path, &s, &err), 0);
        bh_store_commit(s, &w, 1, count_end, &ends);
        bh_store_free(s);
        BH_EQ(ends, 1);
        if (!real)
            bh_loop_advance(l, (int64_t)1000000000);
        BH_EQ(ends, 1);
        bh_loop_free(l);
        BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
    }
}

/* A database with the page size that SQLite used to choose, and what was in it. */
BH_TEST(store_sqlite_opens_a_database_with_small_pages)
{
    static const char old[] =
        "PRAGMA page_size=4096; PRAGMA journal_mode=WAL;"
        "CREATE TABLE log(rev INTEGER PRIMARY KEY, op INTEGER NOT NULL, prev INTEGER NOT NULL, "
        "key BLOB NOT NULL, value BLOB NOT NULL);"
        "CREATE TABLE live(key BLOB PRIMARY KEY, rev INTEGER NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE meta(name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;"
        "INSERT INTO log VALUES(2, 0, 0, CAST('/a' AS BLOB), CAST('1' AS BLOB));"
        "INSERT INTO live VALUES(CAST('/a' AS BLOB), 2);";
    char dir[256], path[300];
    struct bh_loop *l = bh_loop_new_virtual(1, 0);
    struct bh_store *s = NULL;
    struct bh_err err = {0};
    struct bh_store_write w = {BH_STORE_UPDATE, BH_S("/a"), BH_S("2")};
    sqlite3 *db;

    tmp_dir(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/state.db", dir);
    BH_EQ(sqlite3_open(path, &db), SQLITE_OK);
    BH_EQ(sqlite3_exec(db, old, NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    for (int i = 0; i < 2; i++) {
        BH_EQ(bh_store_open_sqlite(l, path, &s, &err), 0);
        if (i == 0) {
            check_load(s, "/a=1@2 ");
            BH_EQ(commit(l, s, &w, 1), 0);
        }
        check_load(s, "/a=2@3 ");
        check_history(s, 1, "C/a=1@2 U/a=2@3<1 ");
        bh_store_free(s);
    }
    bh_loop_free(l);
    BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
}

/* ---- the write-ahead log ---- */

#define LOG_LIMIT (256 << 10)
#define LOG_VALUE 10000

struct writer {
    struct bh_loop *l;
    struct bh_store *s;
    struct bh_store_write w[10];
    char keys[10][24];
    char value[LOG_VALUE];
    char path[300];
    int round, rounds;
    int tell; /* -1, or a descriptor to which each round that is durable is told */
    off_t log_most;
};

static off_t file_size(const char *path, const char *suffix)
{
    char name[320];
    struct stat st;

    (void)snprintf(name, sizeof(name), "%s%s", path, suffix);
    return stat(name, &st) == 0 ? st.st_size : 0;
}

/* Ten new keys in each round, whose values begin with the round's number. */
static void writer_next(void *arg, const struct bh_err *err)
{
    struct writer *x = arg;
    off_t log = file_size(x->path, "-wal");

    BH_CHECK(err == NULL);
    if (log > x->log_most)
        x->log_most = log;
    if (x->round > 0 && x->tell >= 0)
        BH_CHECK(write(x->tell, &x->round, sizeof(x->round)) == sizeof(x->round));
    if (x->round == x->rounds) {
        bh_loop_stop(x->l);
        return;
    }
    x->round++;
    (void)snprintf(x->value, 16, "%010d", x->round);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(x->keys[i], sizeof(x->keys[i]), "/k%06d-%d", x->round, i);
        x->w[i] = (struct bh_store_write){
            BH_STORE_CREATE, bh_s(x->keys[i]), {x->value, sizeof(x->value)}};
    }
    bh_store_commit(x->s, x->w, 10, writer_next, x);
}

static void writer_open(struct writer *x, const char *dir)
{
    struct bh_err err = {0};

    memset(x, 0, sizeof(*x));
    x->tell = -1;
    x->l = bh_loop_new_real(&err);
    (void)snprintf(x->path, sizeof(x->path), "%s/state.db", dir);
    BH_EQ(bh_store_open_sqlite(x->l, x->path, &x->s, &err), 0);
    bh_store_sqlite_wal_bytes(x->s, LOG_LIMIT);
    x->round = (int)(bh_store_rev(x->s) - 1) / 10;
}

static void writer_run(struct writer *x, int rounds)
{
    x->rounds = x->round + rounds;
    x->log_most = 0;
    writer_next(x, NULL);
    bh_loop_run(x->l);
}

static void writer_close(struct writer *x)
{
    bh_store_free(x->s);
    bh_loop_free(x->l);
}

struct read_back {
    int n;
    bool wrong;
};

static int read_back(void *arg, struct bh_str key, struct bh_str value, uint64_t rev)
{
    struct read_back *b = arg;
    char want_key[24], want[16];

    (void)snprintf(want_key, sizeof(want_key), "/k%06d-%d", b->n / 10 + 1, b->n % 10);
    (void)snprintf(want, sizeof(want), "%010d", b->n / 10 + 1);
    if (!bh_str_eqc(key, want_key) || value.n != LOG_VALUE || !bh_str_starts(value, bh_s(want)) ||
        rev != (uint64_t)b->n + 2)
        b->wrong = true;
    b->n++;
    return 0;
}

/* Everything that was written, in whole rounds; returns how many. */
static int check_rounds(struct bh_store *s)
{
    struct read_back b = {0};

    BH_EQ(bh_store_load(s, read_back, &b, NULL), 0);
    BH_CHECK(!b.wrong);
    BH_EQ(b.n % 10, 0);
    BH_EQ(bh_store_rev(s), (uint64_t)b.n + 1);
    return b.n / 10;
}

/* It is copied into the database beside the commits, and begins anew. */
BH_TEST(store_sqlite_bounds_its_log)
{
    char dir[256];
    struct writer x;

    tmp_dir(dir, sizeof(dir));
    writer_open(&x, dir);
    writer_run(&x, 200); /* 20 MB */
    BH_CHECK(x.log_most > LOG_LIMIT);
    BH_CHECK(x.log_most < 6 * LOG_LIMIT);
    BH_CHECK(file_size(x.path, "") > 100 * LOG_VALUE * 10);
    BH_EQ(check_rounds(x.s), 200);
    writer_close(&x);
    writer_open(&x, dir);
    BH_EQ(check_rounds(x.s), 200);
    writer_close(&x);
    BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
}

/* While the database cannot grow, writes are still made durable, in the log; later it shrinks. */
BH_TEST(store_sqlite_writes_while_its_log_cannot_be_copied)
{
    char dir[256];
    struct rlimit old, small;
    struct writer x;

    tmp_dir(dir, sizeof(dir));
    (void)sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    writer_open(&x, dir);
    writer_run(&x, 100);
    BH_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = (rlim_t)file_size(x.path, "") + 4096;
    BH_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    writer_run(&x, 20); /* 2 MB: less than the database has, so the log has room */
    BH_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    BH_CHECK((rlim_t)file_size(x.path, "") <= small.rlim_cur);
    BH_EQ(check_rounds(x.s), 120);
    writer_run(&x, 100);
    BH_CHECK((rlim_t)file_size(x.path, "") > small.rlim_cur);
    BH_EQ(check_rounds(x.s), 220);
    writer_close(&x);
    BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
}

static void write_until_killed(const char *dir, int tell)
{
    struct writer x;

    writer_open(&x, dir);
    x.tell = tell;
    writer_run(&x, 100000);
    _exit(1);
}

/* Killed at any moment, of a commit or of copying: what was told is there, in whole batches. */
BH_TEST(store_sqlite_loses_nothing_when_killed)
{
    char dir[256];
    int told = 0;

    tmp_dir(dir, sizeof(dir));
    for (int i = 0; i < 5; i++) {
        int fds[2], status, round, until = told + 10 + (int)(bh_test_seed() % 40);
        struct writer x;
        pid_t pid;

        BH_EQ(pipe(fds), 0);
        pid = fork();
        if (pid == 0)
            write_until_killed(dir, fds[1]);
        (void)close(fds[1]);
        while (read(fds[0], &round, sizeof(round)) == sizeof(round)) {
            told = round;
            if (round >= until)
                (void)kill(pid, SIGKILL);
        }
        (void)close(fds[0]);
        BH_EQ(waitpid(pid, &status, 0), pid);
        BH_CHECK(WIFSIGNALED(status));
        BH_CHECK(told >= until);
        writer_open(&x, dir);
        BH_CHECK(check_rounds(x.s) >= told);
        told = x.round;
        writer_close(&x);
    }
    BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
}
