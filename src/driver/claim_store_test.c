/* Prepared claims: idempotence, overlap, hostile names, corrupt checkpoints, and a death after
 * every durable step. */
#include "driver/claim_store.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "data/json.h"
#include "driver/gpu_profile.h"

#define DRIVER "gpu.bulkhead.dev"

struct fix {
    struct bh_arena *a;
    struct bh_gpu_profile profile;
    char dir[64], data[96], cdi[96];
    struct bh_claim_store *s;
    const char *die_at;
};

static void maybe_die(void *arg, const char *name)
{
    struct fix *f = arg;

    if (f->die_at && strcmp(f->die_at, name) == 0)
        (void)kill(getpid(), SIGKILL);
}

static void reopen(struct fix *f)
{
    const struct bh_claim_store_opts o = {.data_dir = f->data,
                                          .cdi_dir = f->cdi,
                                          .driver = DRIVER,
                                          .profile = &f->profile,
                                          .step = maybe_die,
                                          .arg = f};
    struct bh_err e = {0};

    f->s = bh_claim_store_free(f->s);
    f->s = bh_claim_store_open(&o, &e);
    if (!f->s)
        bh_test_fail(__FILE__, __LINE__, "%s", e.msg);
}

static void fix_init(struct fix *f)
{
    memset(f, 0, sizeof(*f));
    f->a = bh_arena_new(0);
    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/bh-claims-XXXXXX");
    BH_CHECK(mkdtemp(f->dir) != NULL);
    (void)snprintf(f->data, sizeof(f->data), "%s/data", f->dir);
    (void)snprintf(f->cdi, sizeof(f->cdi), "%s/cdi", f->dir);
    BH_EQ(bh_gpu_profile_load(f->a, (struct bh_str){NULL, 0}, 8, BH_S("n1"), &f->profile, NULL), 0);
    reopen(f);
}

static void fix_done(struct fix *f)
{
    f->s = bh_claim_store_free(f->s);
    BH_EQ(bh_fs_remove_tree(f->dir, NULL), 0);
    f->a = bh_arena_free(f->a);
}

static const struct bh_claim_ref c1 = {BH_S_INIT("6c1f0000-0000-4000-8000-000000000001"),
                                       BH_S_INIT("default"), BH_S_INIT("train")};
static const struct bh_claim_ref c2 = {BH_S_INIT("6c1f0000-0000-4000-8000-000000000002"),
                                       BH_S_INIT("default"), BH_S_INIT("other")};

static int prepare(struct fix *f, const struct bh_claim_ref *c, const char *request,
                   const char *device, struct bh_claim_prepared **ret, struct bh_err *e)
{
    const struct bh_claim_result r = {
        .request = bh_s(request), .pool = BH_S("n1"), .device = bh_s(device)};

    return bh_claim_prepare(f->s, c, (struct bh_str){NULL, 0}, &r, 1, f->a, ret, e);
}

static bool file_there(const struct fix *f, const char *before, struct bh_str uid,
                       const char *after)
{
    char path[400];

    (void)snprintf(path, sizeof(path), "%s/%s%.*s%s", f->dir, before, BH_SF(uid), after);
    return bh_fs_exists(path);
}

static bool spec_there(const struct fix *f, struct bh_str uid)
{
    return file_there(f, "cdi/" DRIVER "-claim_", uid, ".json");
}

static bool metaspec_there(const struct fix *f, struct bh_str uid)
{
    return file_there(f, "cdi/" DRIVER "_metadata_", uid, "_gpu.json");
}

static bool meta_there(const struct fix *f)
{
    return file_there(f, "data/dra-device-metadata/default_train/gpu/metadata.json",
                      (struct bh_str){NULL, 0}, "");
}

BH_TEST(claims_prepare_writes_specs)
{
    struct fix f;
    struct bh_claim_prepared *p = NULL;
    BH_AUTO_BUF b = {0};
    struct bh_jv v;
    char path[400];

    fix_init(&f);
    BH_EQ(prepare(&f, &c1, "gpu/large", "gpu-3", &p, NULL), 0);
    BH_STREQ(p[0].request, "gpu");
    BH_EQ(p[0].cdi_ids.n, 2);
    BH_STREQ(p[0].cdi_ids.p[0], DRIVER "/claim=6c1f0000-0000-4000-8000-000000000001-gpu-3");
    BH_STREQ(p[0].cdi_ids.p[1], DRIVER "/metadata=6c1f0000-0000-4000-8000-000000000001_gpu");
    BH_CHECK(spec_there(&f, c1.uid));
    BH_CHECK(metaspec_there(&f, c1.uid));
    BH_CHECK(meta_there(&f));
    (void)snprintf(path, sizeof(path), "%s/" DRIVER "-claim_%s.json", f.cdi, c1.uid.p);
    BH_EQ(bh_fs_read(path, 1 << 20, &b, NULL), 0);
    BH_EQ(bh_jv_parse(f.a, bh_buf_str(&b), NULL, &v, NULL), 0);
    BH_STREQ(bh_jv_get_str(&v, "kind"), DRIVER "/claim");
    BH_STREQ(bh_jv_get_str(bh_jv_at(bh_jv_path(bh_jv_at(bh_jv_getc(&v, "devices"), 0),
                                               "containerEdits.deviceNodes"),
                                    0),
                           "path"),
             "/dev/bulkhead/gpu-3");
    BH_CHECK(
        bh_str_ends(bh_jv_at(bh_jv_path(&v, "containerEdits.env"), 0)->s, f.profile.gpus[3].uuid));
    BH_EQ(prepare(&f, &c1, "gpu/large", "gpu-3", &p, NULL), 0); /* the same again */
    BH_EQ(p[0].cdi_ids.n, 2);
    BH_EQ(bh_claim_store_count(f.s), 1);
    reopen(&f);
    BH_EQ(bh_claim_store_count(f.s), 1);
    BH_EQ(unlink(path), 0); /* a lost file is repaired */
    BH_EQ(prepare(&f, &c1, "gpu/large", "gpu-3", &p, NULL), 0);
    BH_CHECK(bh_fs_exists(path));
    BH_EQ(bh_claim_unprepare(f.s, &c1, NULL), 0);
    BH_CHECK(!spec_there(&f, c1.uid));
    BH_CHECK(!metaspec_there(&f, c1.uid));
    BH_CHECK(!meta_there(&f));
    BH_EQ(bh_claim_unprepare(f.s, &c1, NULL), 0); /* unknown is success */
    fix_done(&f);
}

BH_TEST(claims_refuse)
{
    const struct bh_claim_ref evil = {BH_S("../../etc/passwd"), BH_S("default"), BH_S("x")};
    const struct bh_claim_ref evil_ns = {c2.uid, BH_S("../x"), BH_S("x")};
    struct fix f;
    struct bh_claim_prepared *p = NULL;
    struct bh_err e = {0};
    struct bh_claim_result admin = {
        .request = BH_S("a"), .pool = BH_S("n1"), .device = BH_S("gpu-0"), .admin = true};

    fix_init(&f);
    BH_EQ(prepare(&f, &evil, "gpu", "gpu-0", &p, &e), -BH_E_INVALID);
    BH_EQ(prepare(&f, &evil_ns, "gpu", "gpu-0", &p, &e), -BH_E_INVALID);
    BH_EQ(bh_claim_unprepare(f.s, &evil, &e), -BH_E_INVALID);
    BH_EQ(prepare(&f, &c1, "../gpu", "gpu-0", &p, &e), -BH_E_INVALID);
    BH_EQ(prepare(&f, &c1, "gpu", "gpu-8", &p, &e), -BH_E_NOT_FOUND);
    BH_EQ(prepare(&f, &c1, "gpu", "gpu-0", &p, &e), 0);
    BH_EQ(prepare(&f, &c2, "gpu", "gpu-0", &p, &e), -BH_E_CONFLICT);
    BH_CHECK(bh_str_find(bh_s(e.msg), c1.uid) > 0);
    BH_EQ(bh_claim_prepare(f.s, &c2, (struct bh_str){NULL, 0}, &admin, 1, f.a, &p, &e), 0);
    fix_done(&f);
}

BH_TEST(claims_successor_keeps_its_metadata) /* same name, new UID: a late unprepare of the old one
                                                leaves it alone */
{
    struct bh_claim_ref again = c1;
    struct fix f;
    struct bh_claim_prepared *p = NULL;

    fix_init(&f);
    again.uid = c2.uid;
    BH_EQ(prepare(&f, &c1, "gpu", "gpu-0", &p, NULL), 0);
    BH_EQ(prepare(&f, &again, "gpu", "gpu-1", &p, NULL), 0);
    BH_EQ(bh_claim_unprepare(f.s, &c1, NULL), 0);
    BH_CHECK(meta_there(&f));
    BH_CHECK(spec_there(&f, c2.uid));
    fix_done(&f);
}

BH_TEST(claims_corrupt_checkpoint_is_quarantined)
{
    static const char *const bad[] = {
        "", "{", "{\"version\":1,\"checksum\":\"00000000\",\"data\":\"{\\\"claims\\\":[]}\"}",
        "{\"version\":2}"};

    for (size_t i = 0; i < BH_COUNT(bad); i++) {
        struct fix f;
        struct bh_claim_prepared *p = NULL;
        char path[128], aside[160];

        fix_init(&f);
        BH_EQ(prepare(&f, &c1, "gpu", "gpu-0", &p, NULL), 0);
        (void)snprintf(path, sizeof(path), "%s/prepared.json", f.data);
        (void)snprintf(aside, sizeof(aside), "%s.corrupt-0", path);
        BH_EQ(bh_fs_write_plain(path, bh_s(bad[i]), 0600, NULL), 0);
        reopen(&f);
        BH_EQ(bh_claim_store_count(f.s), 0);
        BH_CHECK(bh_fs_exists(aside));
        BH_CHECK(spec_there(&f, c1.uid)); /* pods may be running on it */
        BH_EQ(bh_claim_unprepare(f.s, &c1, NULL), 0);
        BH_CHECK(!spec_there(&f, c1.uid));
        fix_done(&f);
    }
}

BH_TEST(claims_stale_specs_are_swept)
{
    struct fix f;
    char path[400];
    struct bh_claim_prepared *p = NULL;

    fix_init(&f);
    BH_EQ(prepare(&f, &c1, "gpu", "gpu-0", &p, NULL), 0);
    (void)snprintf(path, sizeof(path), "%s/" DRIVER "-claim_dead.json", f.cdi);
    BH_EQ(bh_fs_write_plain(path, BH_S("{}"), 0644, NULL), 0);
    reopen(&f);
    BH_CHECK(!bh_fs_exists(path));
    BH_CHECK(spec_there(&f, c1.uid));
    fix_done(&f);
}

/* Runs one operation in a child that is killed after the named step; then a new process carries on.
 */
static void die_and_continue(const char *step, bool unprepare)
{
    struct fix f;
    struct bh_claim_prepared *p = NULL;
    int st = 0;
    pid_t pid;

    fix_init(&f);
    if (unprepare)
        BH_EQ(prepare(&f, &c1, "gpu", "gpu-0", &p, NULL), 0);
    pid = fork();
    if (pid == 0) {
        f.die_at = step;
        if (unprepare)
            (void)!bh_claim_unprepare(f.s, &c1, NULL);
        else
            (void)!prepare(&f, &c1, "gpu", "gpu-0", &p, NULL);
        _exit(1); /* the step never came */
    }
    BH_EQ(waitpid(pid, &st, 0), pid);
    BH_CHECK(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL);
    reopen(&f);
    if (unprepare) { /* whatever was left, it can be released, and prepared again */
        BH_EQ(bh_claim_unprepare(f.s, &c1, NULL), 0);
        BH_EQ(bh_claim_store_count(f.s), 0);
        BH_CHECK(!spec_there(&f, c1.uid));
        BH_CHECK(!metaspec_there(&f, c1.uid));
    } else { /* the claim is known, so that nobody else gets the device */
        BH_EQ(bh_claim_store_count(f.s), 1);
        BH_EQ(prepare(&f, &c2, "gpu", "gpu-0", &p, NULL), -BH_E_CONFLICT);
    }
    BH_EQ(prepare(&f, &c1, "gpu", "gpu-0", &p, NULL), 0);
    BH_EQ(p[0].cdi_ids.n, 2);
    BH_CHECK(spec_there(&f, c1.uid));
    BH_EQ(bh_claim_unprepare(f.s, &c1, NULL), 0);
    BH_EQ(bh_claim_store_count(f.s), 0);
    fix_done(&f);
}

BH_TEST(claims_killed_between_steps)
{
    die_and_continue("started", false);
    die_and_continue("files", false);
    die_and_continue("done", false);
    die_and_continue("removed", true);
    die_and_continue("forgotten", true);
}
