/* Faults on disk: set, cleared, bad files. */
#include "driver/gpu_faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"

static void dir_make(char *dir, size_t n)
{
    (void)snprintf(dir, n, "/tmp/bh-faults-XXXXXX");
    BH_CHECK(mkdtemp(dir) != NULL);
}

BH_TEST(faults_set_and_clear)
{
    const struct bh_str names[] = {BH_S("gpu-0"), BH_S("gpu-1")};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_faults f = {0};
    struct bh_err e = {0};
    char dir[64];
    size_t n = 0;

    dir_make(dir, sizeof(dir));
    BH_EQ(bh_faults_set(dir, BH_S("gpu-0"), 79, (struct bh_time){1, 0}, &e), -BH_E_NOT_FOUND);
    BH_EQ(bh_devices_store(dir, names, 2, &e), 0);
    BH_EQ(bh_faults_set(dir, BH_S("gpu-9"), 79, (struct bh_time){1, 0}, &e), -BH_E_NOT_FOUND);
    BH_STREQ(bh_s(e.msg), "no device 'gpu-9'; there are 2, from gpu-0 to gpu-1");
    BH_EQ(bh_faults_set(dir, BH_S("gpu-0"), 0, (struct bh_time){1, 0}, &e), -BH_E_INVALID);
    BH_EQ(bh_faults_set(dir, BH_S("gpu-0"), 31, (struct bh_time){100, 5}, &e), 0);
    BH_EQ(bh_faults_set(dir, BH_S("gpu-0"), 79, (struct bh_time){200, 0}, &e), 0);
    BH_EQ(bh_faults_set(dir, BH_S("gpu-0"), 79, (struct bh_time){300, 0}, &e),
          0); /* keeps its time */
    BH_EQ(bh_faults_set(dir, BH_S("gpu-1"), 999, (struct bh_time){300, 0}, &e), 0);
    BH_EQ(bh_faults_load(a, dir, &f, &e), 0);
    BH_EQ(f.n, 3);
    BH_EQ(f.p[1].xid, 79);
    BH_EQ(f.p[1].time.sec, 200);
    BH_EQ(bh_faults_clear(dir, BH_S("gpu-0"), 79, &n, &e), 0);
    BH_EQ(n, 1);
    BH_EQ(bh_faults_load(a, dir, &f, &e), 0);
    BH_EQ(f.n, 2);
    BH_EQ(f.p[0].xid, 31);
    BH_EQ(bh_faults_clear(dir, BH_S("gpu-0"), 0, &n, &e), 0);
    BH_EQ(n, 1);
    BH_EQ(bh_faults_clear(dir, BH_S("gpu-0"), 0, &n, &e), 0);
    BH_EQ(n, 0);
    BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
}

BH_TEST(faults_malformed_files)
{
    static const char *const bad[] = {
        "",
        "{",
        "{}",
        "{\"faults\":{}}",
        "{\"faults\":[{}]}",
        "{\"faults\":[{\"device\":\"gpu-0\",\"xid\":0,\"time\":\"2026-01-02T03:04:05Z\"}]}",
        "{\"faults\":[{\"device\":\"gpu-0\",\"xid\":79,\"time\":\"yesterday\"}]}",
    };
    char dir[64], path[96];

    dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/%s", dir, BH_FAULTS_FILE);
    for (size_t i = 0; i < BH_COUNT(bad); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_faults f = {0};

        BH_EQ(bh_fs_write_plain(path, bh_s(bad[i]), 0644, NULL), 0);
        BH_EQ(bh_faults_load(a, dir, &f, NULL), -BH_E_INVALID);
    }
    BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
}
