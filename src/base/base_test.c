/* Tests of the base layer. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/test.h"

BH_TEST(arena_gives_zeroed_aligned_memory)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (int round = 0; round < 3; round++) {
        for (size_t n = 0; n < 3000; n += 7) {
            unsigned char *p = bh_arena_alloc(a, n);

            BH_EQ((uintptr_t)p % 16, 0);
            for (size_t i = 0; i < n; i++)
                if (p[i]) {
                    BH_CHECK(!"dirty memory");
                    break;
                }
            memset(p, 0xaa, n);
        }
        memset(bh_arena_alloc(a, 3u << 20), 0xbb, 3u << 20);
        bh_arena_reset(a);
        BH_EQ(bh_arena_used(a), 0);
    }
}

BH_TEST(arena_try_respects_the_limit)
{
    BH_AUTO_ARENA a = bh_arena_new(100);

    BH_CHECK(bh_arena_try(a, 60) != NULL);
    BH_CHECK(bh_arena_try(a, 41) == NULL);
    BH_CHECK(bh_arena_try(a, SIZE_MAX) == NULL);
    BH_CHECK(bh_arena_try(a, 40) != NULL);
}

static char order[4];
static void note(void *arg)
{
    size_t n = strlen(order);

    order[n] = *(const char *)arg;
    order[n + 1] = '\0';
}

BH_TEST(arena_runs_hooks_latest_first)
{
    char x = 'x', y = 'y';
    struct bh_arena *a = bh_arena_new(0);

    bh_arena_on_reset(a, note, &x);
    bh_arena_on_reset(a, note, &y);
    bh_arena_reset(a);
    bh_arena_on_reset(a, note, &x);
    a = bh_arena_free(a);
    BH_CHECK(a == NULL);
    BH_STREQ(bh_s(order), "yxx");
}

BH_TEST(arena_grow_keeps_contents)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    int *v = NULL;
    size_t cap = 0;

    for (size_t i = 0; i < 1000; i++) {
        bh_arena_grow(a, &v, &cap, i + 1, sizeof(*v));
        v[i] = (int)i;
    }
    for (size_t i = 0; i < 1000; i++)
        BH_EQ(v[i], i);
}

BH_TEST(buf_appends_and_overflows)
{
    BH_AUTO_BUF b = {.max = 10};
    char *p;
    size_t n;

    BH_STREQ(bh_buf_str(&b), "");
    bh_buf_addz(&b, "abc");
    bh_buf_add_i64(&b, INT64_C(-12));
    bh_buf_addf(&b, "%d", 7);
    bh_buf_addc(&b, '!');
    BH_STREQ(bh_buf_str(&b), "abc-127!");
    BH_CHECK(!b.overflow);
    bh_buf_drop_front(&b, 3);
    BH_STREQ(bh_buf_str(&b), "-127!");
    bh_buf_addz(&b, "123456");
    BH_CHECK(b.overflow);
    bh_buf_addc(&b, 'x');
    BH_STREQ(bh_buf_str(&b), "-127!");
    bh_buf_clear(&b);
    bh_buf_addz(&b, "0123456789");
    BH_CHECK(!b.overflow);
    p = bh_buf_take(&b, &n);
    BH_EQ(n, 10);
    BH_EQ(strlen(p), 10);
    bh_free(p);
    b.max = 0;
    bh_buf_add_i64(&b, INT64_MIN);
    bh_buf_add_u64(&b, UINT64_MAX);
    BH_STREQ(bh_buf_str(&b), "-922337203685477580818446744073709551615");
}

BH_TEST(err_sets_wraps_and_maps)
{
    struct bh_err e;

    BH_EQ(bh_err_set(&e, BH_E_NOT_FOUND, "no %s", "pod"), -BH_E_NOT_FOUND);
    BH_EQ(bh_err_wrap(&e, "get %d", 3), -BH_E_NOT_FOUND);
    BH_STREQ(bh_s(e.msg), "get 3: no pod");
    BH_EQ(bh_err_set(NULL, BH_E_GONE, "x"), -BH_E_GONE);
    BH_EQ(bh_err_sys(&e, ENOENT, "open"), -BH_E_IO);
    BH_EQ(e.sys, ENOENT);
    BH_STREQ(bh_s(e.msg), "open: No such file or directory");
    (void)bh_err_set(&e, BH_E_IO, "again: %s", e.msg);
    BH_STREQ(bh_s(e.msg), "again: open: No such file or directory");
    BH_EQ(bh_err_http(BH_E_INVALID), 422);
    BH_STREQ(bh_s(bh_err_reason(BH_E_GONE)), "Expired");
}

BH_TEST(str_basics)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str s = BH_S("a,b,,c"), e = {NULL, 0};
    int64_t v = 0;

    BH_STREQ(bh_str_cut(&s, ','), "a");
    BH_STREQ(bh_str_cut(&s, ','), "b");
    BH_STREQ(bh_str_cut(&s, ','), "");
    BH_STREQ(bh_str_cut(&s, ','), "c");
    BH_CHECK(s.p == NULL && s.n == 0);
    BH_CHECK(bh_str_eq(e, BH_S("")));
    BH_EQ(bh_str_cmp(BH_S("ab"), BH_S("abc")) < 0, 1);
    BH_EQ(bh_str_find(BH_S("hello"), BH_S("lo")), 3);
    BH_EQ(bh_str_find(e, BH_S("lo")), -1);
    BH_EQ(bh_str_chr(BH_S("a.b.c"), '.', 2), 3);
    BH_STREQ(bh_str_sub(BH_S("hello"), 1, 99), "ello");
    BH_STREQ(bh_str_trim(BH_S(" \t x y\n")), "x y");
    BH_CHECK(bh_str_eq_nocase(BH_S("AbZ"), BH_S("aBz")));
    BH_CHECK(!bh_str_eq_nocase(BH_S("@"), BH_S("`")));
    BH_CHECK(bh_str_i64(BH_S("-9223372036854775808"), INT64_MIN, INT64_MAX, &v) && v == INT64_MIN);
    BH_CHECK(!bh_str_i64(BH_S("9223372036854775808"), INT64_MIN, INT64_MAX, &v));
    BH_CHECK(!bh_str_i64(BH_S("+1"), 0, 10, &v));
    BH_CHECK(!bh_str_i64(BH_S("-"), -10, 10, &v));
    BH_CHECK(!bh_str_i64(BH_S(""), 0, 10, &v));
    BH_CHECK(!bh_str_i64(BH_S("11"), 0, 10, &v));
    BH_STREQ(bh_str_fmt(a, "%s-%0300d", "x", 1), bh_str_fmt(a, "x-%0300d", 1).p);
    BH_EQ(bh_str_hash(BH_S("abcdefghij")) == bh_str_hash(bh_str_dup(a, BH_S("abcdefghij"))), 1);
}

BH_TEST(str_map_stays_sorted)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str_map m = {0};

    bh_str_map_put(a, &m, BH_S("b"), BH_S("2"));
    bh_str_map_put(a, &m, BH_S("a"), BH_S("1"));
    bh_str_map_put(a, &m, BH_S("c"), BH_S("3"));
    bh_str_map_put(a, &m, BH_S("b"), BH_S("4"));
    BH_EQ(m.n, 3);
    BH_STREQ(m.p[0].key, "a");
    BH_STREQ(*bh_str_map_get(&m, BH_S("b")), "4");
    BH_CHECK(bh_str_map_get(&m, BH_S("bb")) == NULL);
}

BH_TEST(map_against_a_model)
{
    struct bh_map m = {0};
    static char model[512];
    uint64_t x = bh_test_seed() | 1;
    size_t n = 0, seen = 0;
    struct bh_str key;
    void *value;

    memset(model, 0, sizeof(model));
    for (int i = 0; i < 20000; i++) {
        char buf[16];
        struct bh_str k;
        size_t id;

        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        id = (x >> 20) % sizeof(model);
        k = (struct bh_str){buf, (size_t)snprintf(buf, sizeof(buf), "k%zu", id)};
        if (x & 1) {
            BH_EQ(bh_map_put(&m, k, &model[id]) != NULL, model[id]);
            n += !model[id];
            model[id] = 1;
        } else {
            BH_EQ(bh_map_del(&m, k) != NULL, model[id]);
            n -= (size_t)model[id];
            model[id] = 0;
        }
        BH_EQ(m.n, n);
        BH_EQ(bh_map_get(&m, k) != NULL, model[id]);
    }
    for (size_t it = 0; bh_map_next(&m, &it, &key, &value);) {
        seen++;
        BH_CHECK(bh_map_del(&m, key) == value);
    }
    BH_EQ(seen, n);
    BH_EQ(m.n, 0);
    bh_map_done(&m);
}

struct item {
    int v;
    struct bh_link link;
};

BH_TEST(list_adds_and_removes)
{
    struct bh_link head;
    struct item items[3] = {{1, {0}}, {2, {0}}, {3, {0}}};
    int sum = 0;

    bh_list_init(&head);
    for (int i = 0; i < 3; i++)
        bh_list_add_tail(&head, &items[i].link);
    bh_list_del(&items[1].link);
    bh_list_del(&items[1].link);
    bh_list_for_safe(it, &head)
    {
        sum = sum * 10 + bh_container(it, struct item, link)->v;
        bh_list_del(it);
    }
    BH_EQ(sum, 13);
    BH_CHECK(bh_list_empty(&head));
}

BH_TEST(fs_round_trip)
{
    char dir[] = "/tmp/bh-base-XXXXXX", path[256], big[600];
    struct bh_err err;
    BH_AUTO_BUF b = {.max = 1000};
    int fd = -1, fd2 = -1;

    BH_CHECK(mkdtemp(dir) != NULL);
    BH_EQ(bh_path(path, sizeof(path), &err, "%s/a/b/c", dir), 0);
    BH_EQ(bh_fs_mkdir_p(path, 0755, &err), 0);
    BH_EQ(bh_fs_mkdir_p(path, 0755, &err), 0);
    BH_EQ(bh_path(path, sizeof(path), &err, "%s/a/b/f", dir), 0);
    BH_EQ(bh_fs_write_atomic(path, BH_S("hello"), 0600, &err), 0);
    BH_EQ(bh_fs_write_atomic(path, BH_S("world!"), 0600, &err), 0);
    BH_EQ(bh_fs_read(path, 100, &b, &err), 0);
    BH_STREQ(bh_buf_str(&b), "world!");
    BH_EQ(bh_fs_read(path, 3, &b, &err), -BH_E_LIMIT);
    BH_EQ(bh_fs_lock(path, &fd, &err), 0);
    BH_EQ(bh_fs_lock(path, &fd2, &err), -BH_E_BUSY);
    bh_close_p(&fd);
    BH_EQ(bh_path(path, sizeof(path), &err, "%s/a/link", dir), 0);
    BH_EQ(symlink("/tmp", path), 0);
    BH_EQ(bh_path(path, sizeof(path), &err, "%s/none", dir), 0);
    BH_EQ(bh_fs_read(path, 3, &b, &err), -BH_E_NOT_FOUND);
    BH_EQ(bh_fs_remove_tree(dir, &err), 0);
    BH_CHECK(!bh_fs_exists(dir));
    BH_EQ(bh_fs_remove_tree(dir, &err), 0);
    memset(big, 'x', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    BH_EQ(bh_path(path, sizeof(path), &err, "%s", big), -BH_E_LIMIT);
}

BH_TEST(log_writes_one_json_line)
{
    int fds[2];
    char got[16384];
    ssize_t n;
    static char longv[20000];

    BH_EQ(pipe2(fds, O_CLOEXEC), 0);
    bh_log_fd(fds[1]);
    bh_log_init(BH_INFO, "test");
    bh_log(BH_DEBUG, "not shown");
    bh_log(BH_INFO, "pod \"x\" bound", BH_CSTR("pod", "ns/a\n"), BH_I64("rv", -5));
    n = read(fds[0], got, sizeof(got));
    BH_CHECK(n > 0 && got[n - 1] == '\n');
    got[n > 0 ? n - 1 : 0] = '\0';
    BH_CHECK(strstr(got, "\"msg\":\"pod \\\"x\\\" bound\",\"pod\":\"ns/a\\u000a\",\"rv\":-5}") !=
             NULL);
    memset(longv, 'y', sizeof(longv) - 1);
    bh_log(BH_INFO, "long", BH_CSTR("v", longv), BH_I64("rv", -5));
    n = read(fds[0], got, sizeof(got));
    BH_CHECK(n > 2 && got[n - 1] == '\n' && got[n - 2] == '}');
    bh_log_fd(2);
    (void)close(fds[0]);
    (void)close(fds[1]);
}
