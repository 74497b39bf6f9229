/* Unit tests of the runtime's pure parts; those that unpack layers need root and skip loudly
 * without. */
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "runtime/cgroup.h"
#include "runtime/image_store.h"
#include "runtime/oci_spec.h"
#include "runtime/rt_record.h"

#include <stdlib.h>

BH_TEST(cgroup_hybrid_counts_as_v1)
{
    struct bh_cg cg;
    struct bh_err e = {0};

    BH_EQ(bh_cg_parse(
              &cg,
              BH_S("30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
                   "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup "
                   "rw,cpu,cpuacct\n"
                   "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                   "33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
                   "34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"),
              &e),
          0);
    BH_CHECK(!cg.v2);
    BH_EQ(cg.n, 3);
    BH_STREQ(bh_s(bh_cg_mount(&cg, "cpuacct")), "/sys/fs/cgroup/cpu,cpuacct");
    BH_STREQ(bh_s(bh_cg_mount(&cg, "name=systemd")), "/sys/fs/cgroup/systemd");
    BH_CHECK(bh_cg_mount(&cg, "pids") == NULL);
}

BH_TEST(cgroup_pure_v2)
{
    struct bh_cg cg;
    struct bh_err e = {0};

    BH_EQ(bh_cg_parse(
              &cg, BH_S("30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"),
              &e),
          0);
    BH_CHECK(cg.v2);
    BH_STREQ(bh_s(bh_cg_mount(&cg, "memory")), "/sys/fs/cgroup");
    BH_EQ(bh_cg_parse(&cg, BH_S("30 24 0:26 / /proc rw - proc proc rw\n"), &e), -BH_E_UNSUPPORTED);
    BH_EQ(bh_cg_weight(1024), 39);
    BH_EQ(bh_cg_weight(2), 1);
    BH_EQ(bh_cg_weight(262144), 10000);
    BH_EQ(bh_cg_weight(1 << 30), 10000);
}

/* The version 2 files, on an ordinary directory that stands for the hierarchy. */
BH_TEST(cgroup_v2_limits)
{
    struct bh_cg cg = {.v2 = true, .n = 1};
    struct bh_cri_resources r = {.memory_limit = 1 << 20,
                                 .memory_swap_limit = 3 << 20,
                                 .cpu_shares = 1024,
                                 .cpu_quota = 50000,
                                 .cpu_period = 100000,
                                 .pids_limit = 7};
    static const char *const files[] = {"memory.max", "memory.swap.max", "cpu.weight", "cpu.max",
                                        "pids.max"};
    static const char *const want[] = {"1048576", "2097152", "39", "50000 100000", "7"};
    struct bh_err e = {0};
    char dir[] = "/tmp/bh-cg-XXXXXX", path[256];

    BH_CHECK(mkdtemp(dir) != NULL);
    BH_EQ(bh_path(cg.h[0].mount, sizeof(cg.h[0].mount), &e, "%s", dir), 0);
    BH_EQ(bh_cg_make(&cg, "/a/b", NULL, &e), 0);
    for (size_t i = 0; i < BH_COUNT(files); i++) {
        BH_EQ(bh_path(path, sizeof(path), &e, "%s/a/b/%s", dir, files[i]), 0);
        BH_EQ(bh_fs_write_plain(path, BH_S(""), 0644, &e), 0);
    }
    BH_EQ(bh_cg_apply(&cg, "/a/b", &r, &e), 0);
    for (size_t i = 0; i < BH_COUNT(files); i++) {
        BH_AUTO_BUF b = {.max = 100};

        BH_EQ(bh_path(path, sizeof(path), &e, "%s/a/b/%s", dir, files[i]), 0);
        BH_EQ(bh_fs_read(path, 100, &b, &e), 0);
        BH_STREQ(bh_buf_str(&b), want[i]);
    }
    BH_EQ(bh_path(path, sizeof(path), &e, "%s/a/b/memory.events", dir), 0);
    BH_EQ(bh_fs_write_plain(path, BH_S("low 0\nhigh 0\noom 2\noom_kill 2\n"), 0644, &e), 0);
    BH_EQ(bh_cg_oom_kills(&cg, "/a/b"), 2);
    BH_EQ(bh_fs_remove_tree(dir, &e), 0);
}

BH_TEST(image_names)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    static const char *const good[][2] = {
        {"busybox", "docker.io/library/busybox:latest"},
        {"busybox:1.36", "docker.io/library/busybox:1.36"},
        {"me/app", "docker.io/me/app:latest"},
        {"localhost/app:x", "localhost/app:x"},
        {"reg.example:5000/a/b", "reg.example:5000/a/b:latest"},
        {"a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
         "docker.io/library/"
         "a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}};
    static const char *const bad[] = {"", "A", "a:", "a@sha256:12", "../x", "a//b", "a:b c", "/a"};
    struct bh_str s;
    struct bh_err e = {0};

    for (size_t i = 0; i < BH_COUNT(good); i++) {
        BH_EQ(bh_image_full_name(a, bh_s(good[i][0]), &s, &e), 0);
        BH_STREQ(s, good[i][1]);
    }
    for (size_t i = 0; i < BH_COUNT(bad); i++)
        BH_EQ(bh_image_full_name(a, bh_s(bad[i]), &s, &e), -BH_E_INVALID);
}

BH_TEST(signals)
{
    BH_EQ(bh_signal_number(BH_S("SIGTERM")), 15);
    BH_EQ(bh_signal_number(BH_S("QUIT")), 3);
    BH_EQ(bh_signal_number(BH_S("9")), 9);
    BH_EQ(bh_signal_number(BH_S("SIGRTMIN+3")), 37);
    BH_EQ(bh_signal_number(BH_S("SIGRTMAX-1")), 63);
    BH_EQ(bh_signal_number(BH_S("SIGNOPE")), 0);
    BH_EQ(bh_signal_number(BH_S("65")), 0);
}

BH_TEST(users)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str passwd = BH_S("root:x:0:0::/:/bin/sh\nweb:x:33:34::/:/x\n"),
                  group = BH_S("www:x:40:web,other\nops:x:50:\n");
    struct bh_cri_security s = {0};
    struct bh_oci_user u;
    struct bh_err e = {0};

    BH_EQ(bh_oci_resolve_user(a, &s, BH_S(""), passwd, group, &u, &e), 0);
    BH_EQ(u.uid, 0);
    BH_EQ(bh_oci_resolve_user(a, &s, BH_S("web"), passwd, group, &u, &e), 0);
    BH_EQ(u.uid, 33);
    BH_EQ(u.gid, 34);
    BH_EQ(u.groups.n, 1);
    BH_EQ(u.groups.p[0], 40);
    BH_EQ(bh_oci_resolve_user(a, &s, BH_S("web:ops"), passwd, group, &u, &e), 0);
    BH_EQ(u.gid, 50);
    BH_EQ(bh_oci_resolve_user(a, &s, BH_S("nobody"), passwd, group, &u, &e), -BH_E_INVALID);
    BH_EQ(bh_oci_resolve_user(a, &s, BH_S("77:78"), BH_S(""), BH_S(""), &u, &e), 0);
    BH_EQ(u.uid, 77);
    BH_EQ(u.gid, 78);
    s.has_run_as_group = true;
    BH_EQ(bh_oci_resolve_user(a, &s, BH_S("web"), passwd, group, &u, &e), -BH_E_INVALID);
}

/* Every field survives the way to disk and back. */
BH_TEST(record_round_trip)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_rt_container_rec r = {
        .id = BH_S("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
        .sandbox_id = BH_S("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
        .phase = BH_RT_RUNNING,
        .pid = 42,
        .cgroup = BH_S("/x"),
        .exit_code = -1};
    struct bh_rt_container_rec back;
    struct bh_cri_mount m = {
        .container_path = BH_S("/c"), .host_path = BH_S("/h"), .readonly = true};
    struct bh_cri_env env = {BH_S("K"), BH_S("a=\"b\"\n")};
    struct bh_str cmd[2] = {BH_S("a b"), BH_S("")};
    struct bh_err e = {0};

    r.config.mounts = (struct bh_cri_mount_vec){&m, 1};
    r.config.envs = (struct bh_cri_env_vec){&env, 1};
    r.config.command = (struct bh_str_vec){cmd, 2};
    bh_str_map_put(a, &r.config.labels, BH_S("l<"), BH_S(""));
    r.config.security.run_as_user = 5;
    struct bh_str text = bh_rt_container_encode(a, &r);
    BH_EQ(bh_rt_container_decode(a, text, &back, &e), 0);
    BH_SEQ(bh_rt_container_encode(a, &back), text);
    BH_EQ(back.pid, 42);
    BH_EQ(back.config.mounts.n, 1);
    BH_CHECK(back.config.mounts.p[0].readonly);
    BH_STREQ(back.config.envs.p[0].value, "a=\"b\"\n");
    BH_EQ(back.config.command.n, 2);
    BH_EQ(bh_rt_container_decode(a, bh_str_sub(text, 0, text.n / 2), &back, &e), -BH_E_BAD_REQUEST);
    BH_EQ(bh_rt_container_decode(a, BH_S("{}"), &back, &e), -BH_E_INVALID);
    BH_EQ(bh_rt_container_decode(a, BH_S("{\"id\":5}"), &back, &e), -BH_E_INVALID);
}
