/* Layers that try to get out, and the forms overlayfs wants. Needs root (ownership, whiteout
 * devices). */
#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "runtime/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

struct item {
    const char *path;
    unsigned type, mode;
    const char *link, *data;
};

struct layer {
    char root[40], dst[64];
    char *mem;
    size_t used;
    struct bh_layer_stat st;
    struct bh_err err;
};

static int unpack(struct layer *l, const struct item *items, size_t n)
{
    struct archive *a = archive_write_new();

    BH_EQ(bh_path(l->root, sizeof(l->root), NULL, "/tmp/bh-layer-XXXXXX"), 0);
    BH_CHECK(mkdtemp(l->root) != NULL);
    BH_EQ(bh_path(l->dst, sizeof(l->dst), NULL, "%s/dst", l->root), 0);
    BH_EQ(bh_fs_mkdir_p(l->dst, 0755, NULL), 0);
    l->mem = bh_malloc(1 << 20);
    archive_write_add_filter_gzip(a);
    archive_write_set_format_pax_restricted(a);
    archive_write_open_memory(a, l->mem, 1 << 20, &l->used);
    for (size_t i = 0; i < n; i++) {
        struct archive_entry *e = archive_entry_new();
        size_t len = items[i].data ? strlen(items[i].data) : 0;

        archive_entry_set_pathname(e, items[i].path);
        archive_entry_set_filetype(e, items[i].type ? items[i].type : AE_IFREG);
        archive_entry_set_perm(e, items[i].mode ? items[i].mode : 0644);
        archive_entry_set_uid(e, 12);
        archive_entry_set_gid(e, 34);
        archive_entry_set_mtime(e, 1000000000, 5);
        if (items[i].link && items[i].type == AE_IFLNK)
            archive_entry_set_symlink(e, items[i].link);
        else if (items[i].link)
            archive_entry_set_hardlink(e, items[i].link);
        if (items[i].type == AE_IFCHR)
            archive_entry_set_rdev(e, makedev(1, 3));
        if (items[i].data && strcmp(items[i].data, "xattr") == 0) {
            archive_entry_xattr_add_entry(e, "user.good", "v", 1);
            archive_entry_xattr_add_entry(e, "trusted.overlay.opaque", "y", 1);
        }
        archive_entry_set_size(e, (int64_t)len);
        archive_write_header(a, e);
        archive_write_data(a, items[i].data, len);
        archive_entry_free(e);
    }
    archive_write_close(a);
    archive_write_free(a);
    return bh_layer_unpack_mem((struct bh_str){l->mem, l->used}, l->dst, &l->st, &l->err);
}

static void done(struct layer *l)
{
    bh_free(l->mem);
    BH_EQ(bh_fs_remove_tree(l->root, NULL), 0);
}

static struct stat look(struct layer *l, const char *rel)
{
    char path[256];
    struct stat st = {0};

    BH_EQ(bh_path(path, sizeof(path), NULL, "%s/%s", l->dst, rel), 0);
    (void)lstat(path, &st);
    return st;
}

static bool root(void)
{
    if (geteuid() != 0)
        bh_test_skip("needs root");
    return geteuid() == 0;
}

BH_TEST(layer_keeps_metadata)
{
    static const struct item items[] = {{"./d/", AE_IFDIR, 0750, NULL, NULL},
                                        {"d/f", 0, 04755, NULL, "hello"},
                                        {"d/h", 0, 0, "d/f", NULL},
                                        {"/abs/deep/x", 0, 0, NULL, "xattr"},
                                        {"l", AE_IFLNK, 0, "/etc/passwd", NULL},
                                        {"n", AE_IFCHR, 0, NULL, NULL},
                                        {"p", AE_IFIFO, 0, NULL, NULL}};
    struct layer l = {0};
    char path[256], val[8];

    if (!root())
        return;
    BH_EQ(unpack(&l, items, BH_COUNT(items)), 0);
    BH_EQ(look(&l, "d").st_mode, S_IFDIR | 0750);
    BH_EQ(look(&l, "d").st_mtim.tv_sec, 1000000000);
    BH_EQ(look(&l, "d/f").st_mode, S_IFREG | 04755);
    BH_EQ(look(&l, "d/f").st_uid, 12);
    BH_EQ(look(&l, "d/f").st_gid, 34);
    BH_EQ(look(&l, "d/f").st_ino, look(&l, "d/h").st_ino);
    BH_EQ(look(&l, "abs/deep/x").st_size, 5);
    BH_CHECK(S_ISLNK(look(&l, "l").st_mode));
    BH_CHECK(S_ISFIFO(look(&l, "p").st_mode));
    BH_EQ(look(&l, "n").st_mode, 0);
    BH_EQ(l.st.skipped, 1);
    BH_CHECK(bh_str_starts(bh_s(l.st.diff_id), BH_S("sha256:")));
    BH_EQ(bh_path(path, sizeof(path), NULL, "%s/abs/deep/x", l.dst), 0);
    if (getxattr(path, "user.good", val, sizeof(val)) != 1)
        BH_CHECK(!"user.good is kept");
    BH_CHECK(getxattr(path, "trusted.overlay.opaque", val, sizeof(val)) < 0);
    done(&l);
}

BH_TEST(layer_whiteouts)
{
    static const struct item items[] = {{"a/.wh.gone", 0, 0, NULL, NULL},
                                        {"b/.wh..wh..opq", 0, 0, NULL, NULL},
                                        {"b/new", 0, 0, NULL, "n"},
                                        {"b/.wh..wh.plnk", 0, 0, NULL, NULL}};
    struct layer l = {0};
    char path[256], val[8];

    if (!root())
        return;
    BH_EQ(unpack(&l, items, BH_COUNT(items)), 0);
    BH_CHECK(S_ISCHR(look(&l, "a/gone").st_mode) && look(&l, "a/gone").st_rdev == 0);
    BH_EQ(look(&l, "a/.wh.gone").st_mode, 0);
    BH_EQ(look(&l, "b/.wh..wh..opq").st_mode, 0);
    BH_EQ(look(&l, "b/.wh..wh.plnk").st_mode, 0);
    BH_EQ(bh_path(path, sizeof(path), NULL, "%s/b", l.dst), 0);
    BH_EQ(getxattr(path, "trusted.overlay.opaque", val, sizeof(val)), 1);
    done(&l);
}

/* None of these may touch what stands beside the directory. */
BH_TEST(layer_cannot_escape)
{
    static const struct item dots[] = {{"../evil", 0, 0, NULL, "x"}};
    static const struct item inner[] = {{"a/../../evil", 0, 0, NULL, "x"}};
    static const struct item through[] = {{"up", AE_IFLNK, 0, "../..", NULL},
                                          {"up/evil", 0, 0, NULL, "x"}};
    static const struct item absolute[] = {{"tmp", AE_IFLNK, 0, "/tmp", NULL},
                                           {"tmp/bh-evil", 0, 0, NULL, "x"}};
    static const struct item hard[] = {{"p", 0, 0, "../../../../etc/passwd", NULL}};
    static const struct item rootfile[] = {{".", 0, 0, NULL, "x"}};
    static const struct item wh[] = {{"a/.wh...", 0, 0, NULL, NULL}};
    static const struct {
        const struct item *p;
        size_t n;
    } cases[] = {{dots, 1}, {inner, 1},    {through, 2}, {absolute, 2},
                 {hard, 1}, {rootfile, 1}, {wh, 1}};

    if (!root())
        return;
    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        struct layer l = {0};
        char path[128];
        struct stat st;
        int r = unpack(&l, cases[i].p, cases[i].n);

        /* Through a link that points out, the file lands inside: links are resolved as if the
         * directory were "/". */
        if (cases[i].p == absolute)
            BH_CHECK(r == 0 || r < 0);
        else if (cases[i].p != through)
            BH_EQ(r, -BH_E_INVALID);
        BH_EQ(bh_path(path, sizeof(path), NULL, "%s/evil", l.root), 0);
        BH_CHECK(!bh_fs_exists(path) && !bh_fs_exists("/tmp/bh-evil") &&
                 !bh_fs_exists("/tmp/evil"));
        BH_CHECK(stat(l.root, &st) == 0 && st.st_nlink == 3);
        done(&l);
    }
}

BH_TEST(layer_replaces_by_type)
{
    static const struct item items[] = {
        {"x", AE_IFDIR, 0755, NULL, NULL}, {"x/inner", 0, 0, NULL, "1"},
        {"x", 0, 0, NULL, "file"},         {"y", 0, 0, NULL, "1"},
        {"y", AE_IFLNK, 0, "x", NULL},     {"y", 0, 0, NULL, "not through the link"}};
    struct layer l = {0};

    if (!root())
        return;
    BH_EQ(unpack(&l, items, BH_COUNT(items)), 0);
    BH_CHECK(S_ISREG(look(&l, "x").st_mode) && look(&l, "x").st_size == 4);
    BH_CHECK(S_ISREG(look(&l, "y").st_mode));
    done(&l);
}

BH_TEST(layer_refuses_garbage)
{
    struct layer l = {0};

    if (!root())
        return;
    BH_EQ(unpack(&l, NULL, 0), 0);
    BH_EQ(bh_layer_unpack_mem(BH_S("\x1f\x8b this is no gzip"), l.dst, &l.st, &l.err),
          -BH_E_INVALID);
    BH_EQ(bh_layer_unpack_mem(BH_S("this is no archive, though it is longer than nothing"), l.dst,
                              &l.st, &l.err),
          -BH_E_INVALID);
    done(&l);
}
