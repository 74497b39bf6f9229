/* Who holds a cluster: locks, pids that are stale, kubelet roots. */
#include "cli/cluster.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fs.h"
#include "base/test.h"

struct site {
    char dir[64];
    struct bh_arena *a;
    struct bh_err err;
};

static void open_site(struct site *s)
{
    *s = (struct site){.dir = "/tmp/bh-cluster.XXXXXX", .a = bh_arena_new(0)};
    BH_CHECK(mkdtemp(s->dir) != NULL);
}
static void close_site(struct site *s)
{
    BH_EQ(bh_fs_remove_tree(s->dir, &s->err), 0);
    (void)bh_arena_free(s->a);
}

BH_TEST(cluster_lock_has_one_holder)
{
    struct site s;
    int fd = -1, other = -1;

    open_site(&s);
    BH_EQ(cluster_running(s.dir), 0);
    BH_EQ(cluster_lock(s.dir, &fd, &s.err), 0);
    BH_EQ(cluster_running(s.dir), getpid());
    BH_EQ(cluster_lock(s.dir, &other, &s.err), -BH_E_BUSY);
    (void)close(fd);
    BH_EQ(cluster_running(s.dir), 0);
    BH_EQ(cluster_lock(s.dir, &fd, &s.err), 0);
    (void)close(fd);
    close_site(&s);
}

BH_TEST(cluster_pid_of_an_earlier_holder_does_not_count)
{
    struct site s;
    int fd = -1, pipe_fd[2];
    char c;
    pid_t child;

    open_site(&s);
    BH_EQ(bh_fs_write_plain(bh_str_fmt(s.a, "%s/bulkhead.pid", s.dir).p, BH_S("1\n"), 0644, &s.err),
          0);
    BH_EQ(pipe(pipe_fd), 0);
    child = fork(); /* holds the lock, and has not written its pid yet */
    if (child == 0) {
        (void)close(pipe_fd[0]);
        if (bh_fs_lock(bh_str_fmt(s.a, "%s/bulkhead.lock", s.dir).p, &fd, &s.err) < 0 ||
            write(pipe_fd[1], "x", 1) != 1)
            _exit(1);
        (void)sleep(1);
        _exit(0);
    }
    BH_EQ(read(pipe_fd[0], &c, 1), 1);
    BH_EQ(cluster_running(s.dir), 0); /* never process 1 */
    BH_EQ(waitpid(child, NULL, 0), child);
    (void)close(pipe_fd[0]);
    (void)close(pipe_fd[1]);
    close_site(&s);
}

BH_TEST(cluster_kubelet_root_belongs_to_one)
{
    struct site s;
    const char *a, *b, *root;
    int fd = -1, other = -1;

    open_site(&s);
    a = bh_str_fmt(s.a, "%s/a", s.dir).p;
    b = bh_str_fmt(s.a, "%s/b", s.dir).p;
    root = bh_str_fmt(s.a, "%s/kubelet", s.dir).p;
    BH_EQ(bh_fs_mkdir_p(a, 0700, &s.err), 0);
    BH_EQ(bh_fs_mkdir_p(b, 0700, &s.err), 0);
    BH_CHECK(cluster_root_of(s.a, a) == NULL);
    BH_EQ(cluster_claim_root(a, root, &fd, &s.err), 0);
    BH_EQ(cluster_claim_root(b, root, &other, &s.err), -BH_E_BUSY);
    BH_CHECK(bh_str_find(bh_s(s.err.msg), bh_s(root)) >= 0);
    BH_CHECK(cluster_owns_root(a, root) && !cluster_owns_root(b, root));
    BH_STREQ(bh_s(cluster_root_of(s.a, a)), root);
    (void)close(fd);
    BH_EQ(cluster_claim_root(b, root, &other, &s.err), 0); /* it went over to the second */
    BH_CHECK(!cluster_owns_root(a, root) && cluster_owns_root(b, root));
    (void)close(other);
    close_site(&s);
}

BH_TEST(cluster_directories)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    BH_STREQ(bh_s(cluster_data_dir(a, "/x/y//")), "/x/y");
    BH_STREQ(bh_s(cluster_data_dir(a, "/")), "/");
    BH_CHECK(cluster_data_dir(a, "rel")[0] == '/');
    BH_CHECK(bh_str_ends(bh_s(cluster_data_dir(a, "rel/")), BH_S("/rel")));
    BH_EQ(setenv("BULKHEAD_DATA_DIR", "/from/env", 1), 0);
    BH_STREQ(bh_s(cluster_data_dir(a, NULL)), "/from/env");
    BH_STREQ(bh_s(cluster_data_dir(a, "/given")), "/given");
    BH_EQ(unsetenv("BULKHEAD_DATA_DIR"), 0);
    BH_STREQ(bh_s(cluster_data_dir(a, NULL)), CLUSTER_DATA_DIR);
}
