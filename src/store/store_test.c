/* Both back ends against the same expectations, on the virtual loop; SQLite also on a real one,
 * across reopening and a full disk. */
#include "store/store.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "net/loop.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
