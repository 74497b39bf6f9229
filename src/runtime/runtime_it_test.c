/* The embedded runtime with real containers. Needs root, crun, conmon and a static /bin/busybox;
 * skips loudly otherwise.
 *
 * The test binary is its own helper: called with `runtime-exec` it runs bh_runtime_exec_main before
 * main.
 */
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "data/codec.h"
#include "data/json.h"
#include "net/loop.h"
#include "runtime/image_store.h"
#include "runtime/runtime.h"

#include <archive.h>
#include <archive_entry.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int agent_main(const char *dir);

__attribute__((constructor)) static void be_another(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "runtime-exec") == 0)
        exit(bh_runtime_exec_main(argc - 1, argv + 1));
    if (argc > 2 && strcmp(argv[1], "runtime-agent") == 0)
        exit(agent_main(argv[2]));
}

/* ---- an image ---- */

static const char *const applets[] = {
    "sh",   "sleep", "cat",  "echo",  "ls",  "id", "kill",  "stat", "dd",    "hostname", "env",
    "true", "head",  "tail", "mkdir", "pwd", "ip", "mount", "ps",   "touch", "rm"};

static void add_entry(struct archive *a, const char *path, int type, unsigned mode,
                      const char *link, struct bh_str data)
{
    struct archive_entry *e = archive_entry_new();

    archive_entry_set_pathname(e, path);
    archive_entry_set_filetype(e, (unsigned)type);
    archive_entry_set_perm(e, mode);
    if (link && type == AE_IFLNK)
        archive_entry_set_symlink(e, link);
    else if (link)
        archive_entry_set_hardlink(e, link);
    archive_entry_set_size(e, (int64_t)data.n);
    BH_EQ(archive_write_header(a, e), ARCHIVE_OK);
    if (data.n > 0)
        BH_EQ(archive_write_data(a, data.p, data.n), data.n);
    archive_entry_free(e);
}

struct tar {
    struct archive *a;
    char *mem;
    size_t cap, used;
};

static struct tar tar_new(void)
{
    struct tar t = {archive_write_new(), bh_malloc(16 << 20), 16 << 20, 0};

    archive_write_set_format_pax_restricted(t.a);
    return t;
}

static void tar_open(struct tar *t)
{
    BH_EQ(archive_write_open_memory(t->a, t->mem, t->cap, &t->used), ARCHIVE_OK);
}

static struct bh_str tar_end(struct tar *t)
{
    archive_write_close(t->a);
    archive_write_free(t->a);
    return (struct bh_str){t->mem, t->used};
}

static struct bh_str digest(struct bh_arena *a, struct bh_str s)
{
    return bh_str_fmt(a, "sha256:%.*s", BH_SF(bh_sha256_hex(a, s)));
}

static void add_blob(struct bh_arena *a, struct tar *t, struct bh_str data)
{
    struct bh_str path = bh_str_fmt(a, "blobs/sha256/%.*s", BH_SF(bh_sha256_hex(a, data)));

    add_entry(t->a, path.p, AE_IFREG, 0644, NULL, data);
}

/* An OCI archive of two layers: busybox with its applets, then files that exercise whiteouts and
 * users. */
static void make_archive(struct bh_arena *a, const char *file, const char *name)
{
    static const struct bh_str none = {NULL, 0};
    BH_AUTO_BUF box = {.max = 32 << 20};
    struct tar l1 = tar_new(), l2 = tar_new(), out = tar_new();
    struct bh_err err = {0};

    BH_EQ(bh_fs_read("/bin/busybox", box.max, &box, &err), 0);
    tar_open(&l1);
    add_entry(l1.a, "bin/", AE_IFDIR, 0755, NULL, none);
    add_entry(l1.a, "bin/busybox", AE_IFREG, 0755, NULL, bh_buf_str(&box));
    for (size_t i = 0; i < BH_COUNT(applets); i++)
        add_entry(l1.a, bh_str_fmt(a, "bin/%s", applets[i]).p, AE_IFLNK, 0777, "busybox", none);
    add_entry(l1.a, "etc/", AE_IFDIR, 0755, NULL, none);
    add_entry(l1.a, "etc/hidden", AE_IFREG, 0644, NULL, BH_S("lower\n"));
    add_entry(l1.a, "etc/passwd", AE_IFREG, 0644, NULL,
              BH_S("root:x:0:0::/root:/bin/sh\nworker:x:1000:1001::/home:/bin/sh\n"));
    add_entry(l1.a, "etc/group", AE_IFREG, 0644, NULL, BH_S("root:x:0:\nextra:x:44:worker\n"));
    add_entry(l1.a, "tmp/", AE_IFDIR, 01777, NULL, none);
    struct bh_str t1 = tar_end(&l1);
    tar_open(&l2);
    add_entry(l2.a, "etc/.wh.hidden", AE_IFREG, 0644, NULL, none);
    add_entry(l2.a, "etc/shown", AE_IFREG, 0644, NULL, BH_S("upper\n"));
    struct bh_str t2 = tar_end(&l2);

    struct bh_str config =
        bh_str_fmt(a,
                   "{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{\"Env\":[\"FROM="
                   "image\"],\"Entrypoint\":[\"/bin/sh\"],"
                   "\"Cmd\":[\"-c\",\"echo "
                   "default\"],\"WorkingDir\":\"/"
                   "tmp\"},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"%.*s\","
                   "\"%.*s\"]}}",
                   BH_SF(digest(a, t1)), BH_SF(digest(a, t2)));
    struct bh_str manifest = bh_str_fmt(
        a,
        "{\"schemaVersion\":2,\"mediaType\":\"application/"
        "vnd.oci.image.manifest.v1+json\",\"config\":{\"mediaType\":"
        "\"application/"
        "vnd.oci.image.config.v1+json\",\"digest\":\"%.*s\",\"size\":%zu},\"layers\":[{"
        "\"mediaType\":"
        "\"application/"
        "vnd.oci.image.layer.v1.tar\",\"digest\":\"%.*s\",\"size\":%zu},{\"mediaType\":"
        "\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"%.*s\",\"size\":%zu}]}",
        BH_SF(digest(a, config)), config.n, BH_SF(digest(a, t1)), t1.n, BH_SF(digest(a, t2)), t2.n);
    struct bh_str index = bh_str_fmt(a,
                                     "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":"
                                     "\"application/vnd.oci.image.manifest.v1+json\","
                                     "\"digest\":\"%.*s\",\"size\":%zu,\"annotations\":{\"org."
                                     "opencontainers.image.ref.name\":\"%s\"}}]}",
                                     BH_SF(digest(a, manifest)), manifest.n, name);
    tar_open(&out);
    add_entry(out.a, "oci-layout", AE_IFREG, 0644, NULL,
              BH_S("{\"imageLayoutVersion\":\"1.0.0\"}"));
    add_entry(out.a, "index.json", AE_IFREG, 0644, NULL, index);
    add_blob(a, &out, t1);
    add_blob(a, &out, t2);
    add_blob(a, &out, config);
    add_blob(a, &out, manifest);
    BH_EQ(bh_fs_write_plain(file, tar_end(&out), 0644, &err), 0);
    bh_free(l1.mem);
    bh_free(l2.mem);
    bh_free(out.mem);
}

/* ---- calls, waited for ---- */

struct fix {
    struct bh_loop *loop;
    struct bh_runtime *rt;
    struct bh_arena *a;
    char dir[128];
    char helper[4096];
    struct bh_runtime_opts o;
    /* of the last call */
    bool done;
    int code;
    char msg[BH_ERR_MSG_MAX];
    char id[80];
    struct bh_cri_container ct;
    size_t n;
    char out[4096];
    int exit_code;
    uint64_t mem;
    int stopped_events;
};

static void take(struct fix *f, const struct bh_err *err)
{
    f->done = true;
    f->code = err ? (int)err->code : 0;
    snprintf(f->msg, sizeof(f->msg), "%s", err ? err->msg : "");
    bh_loop_stop(f->loop);
}

static void on_done(void *arg, const struct bh_err *err)
{
    take(arg, err);
}

static void on_id(void *arg, const struct bh_err *err, struct bh_str id)
{
    struct fix *f = arg;

    snprintf(f->id, sizeof(f->id), "%.*s", BH_SF(id));
    take(f, err);
}

static void on_containers(void *arg, const struct bh_err *err, const struct bh_cri_container_vec *v)
{
    struct fix *f = arg;

    f->n = err ? 0 : v->n;
    if (f->n > 0) {
        f->ct = v->p[0];
        f->ct.reason = bh_str_dup(f->a, f->ct.reason);
        f->ct.log_path = bh_str_dup(f->a, f->ct.log_path);
        f->ct.image_id = bh_str_dup(f->a, f->ct.image_id);
        f->ct.image_ref = bh_str_dup(f->a, f->ct.image_ref);
    }
    take(f, err);
}

static void on_sandboxes(void *arg, const struct bh_err *err, const struct bh_cri_sandbox_vec *v)
{
    struct fix *f = arg;

    f->n = err ? 0 : v->n;
    f->exit_code = f->n > 0 ? (int)v->p[0].state : -1;
    take(f, err);
}

static void on_exec(void *arg, const struct bh_err *err, const struct bh_cri_exec_result *res)
{
    struct fix *f = arg;

    snprintf(f->out, sizeof(f->out), "%.*s%.*s", BH_SF(res->out), BH_SF(res->err));
    f->exit_code = res->exit_code;
    take(f, err);
}

static void on_stats(void *arg, const struct bh_err *err, const struct bh_cri_stats_vec *v)
{
    struct fix *f = arg;

    f->n = v->n;
    f->mem = v->n > 0 ? v->p[0].memory_usage : 0;
    take(f, err);
}

static void on_event(void *arg, const struct bh_cri_event *ev)
{
    struct fix *f = arg;

    f->stopped_events += ev->type == BH_CRI_EV_STOPPED && ev->container_id.n > 0;
}

static void timed_out(void *arg)
{
    bh_test_fail(__FILE__, __LINE__, "a call did not answer");
    bh_loop_stop(((struct fix *)arg)->loop);
}

static void await(struct fix *f)
{
    struct bh_timer t;

    bh_timer_init(&t, f->loop, timed_out, f);
    bh_timer_start(&t, 30000);
    bh_loop_run(f->loop);
    bh_timer_stop(&t);
}

#define CALL(f, ...)                                                                               \
    do {                                                                                           \
        (f)->done = false;                                                                         \
        (f)->rt->ops->__VA_ARGS__;                                                                 \
        await(f);                                                                                  \
    } while (0)
#define OK(f)                                                                                      \
    do {                                                                                           \
        if ((f)->code != 0)                                                                        \
            bh_test_fail(__FILE__, __LINE__, "code %d: %s", (f)->code, (f)->msg);                  \
    } while (0)

static void stop_loop(void *arg)
{
    bh_loop_stop(arg);
}

static void pause_ms(struct fix *f, int ms)
{
    struct bh_timer t;

    bh_timer_init(&t, f->loop, stop_loop, f->loop);
    bh_timer_start(&t, ms);
    bh_loop_run(f->loop);
}

/* ---- fixture ---- */

static bool usable(void)
{
    if (geteuid() != 0 || access("/usr/bin/crun", X_OK) < 0 ||
        access("/usr/bin/conmon", X_OK) < 0 || access("/bin/busybox", X_OK) < 0) {
        bh_test_skip("needs root, crun, conmon and busybox-static");
        return false;
    }
    return true;
}

static bool open_rt(struct fix *f)
{
    struct bh_err err = {0};

    if (bh_runtime_embedded_new(&f->o, &f->rt, &err) < 0) {
        bh_test_fail(__FILE__, __LINE__, "runtime: %s", err.msg);
        return false;
    }
    f->rt->ops->set_events(f->rt, on_event, f);
    return true;
}

static bool setup(struct fix *f)
{
    struct bh_err err = {0};
    char file[256];
    struct bh_image_list imgs;
    ssize_t n;

    memset(f, 0, sizeof(*f));
    snprintf(f->dir, sizeof(f->dir), "/tmp/bh-runtime-it-XXXXXX");
    if (!mkdtemp(f->dir) || (n = readlink("/proc/self/exe", f->helper, sizeof(f->helper) - 1)) < 0)
        return false;
    f->helper[n] = '\0';
    f->a = bh_arena_new(0);
    f->loop = bh_loop_new_real(&err);
    f->o = (struct bh_runtime_opts){.loop = f->loop, .data_dir = f->dir, .helper = f->helper};
    if (!f->loop || !open_rt(f))
        return false;
    snprintf(file, sizeof(file), "%s/busybox.tar", f->dir);
    make_archive(f->a, file, "busybox:1");
    struct bh_str images = bh_str_fmt(f->a, "%s/runtime/images", f->dir);
    int r = bh_image_import(f->a, images.p, file, (struct bh_str){NULL, 0}, &imgs, &err);
    if (r < 0)
        bh_test_fail(__FILE__, __LINE__, "import: %s", err.msg);
    return r == 0;
}

static void teardown(struct fix *f)
{
    struct bh_err err = {0};

    if (f->rt)
        f->rt = bh_runtime_free(f->rt);
    if (f->loop) {
        pause_ms(f, 50); /* what is still under way ends */
        if (bh_runtime_purge(&f->o, &err) < 0)
            bh_test_fail(__FILE__, __LINE__, "purge: %s", err.msg);
        f->loop = bh_loop_free(f->loop);
    }
    BH_EQ(bh_fs_remove_tree(f->dir, &err), 0);
    BH_AUTO_BUF mounts = {.max = 4 << 20};
    BH_EQ(bh_fs_read("/proc/self/mountinfo", mounts.max, &mounts, &err), 0);
    BH_CHECK(bh_str_find(bh_buf_str(&mounts), bh_s(f->dir)) < 0);
    bh_arena_free(f->a);
}

static struct bh_cri_sandbox_config pod(struct fix *f)
{
    struct bh_cri_sandbox_config c = {.name = BH_S("pod"),
                                      .ns = BH_S("default"),
                                      .uid = BH_S("11111111-2222-3333-4444-555555555555"),
                                      .hostname = BH_S("pod"),
                                      .log_directory = bh_str_fmt(f->a, "%s/logs", f->dir),
                                      .cgroup_parent = BH_S("kubepods/pod1")};

    bh_str_map_put(f->a, &c.labels, BH_S("app"), BH_S("x<y"));
    return c;
}

static void run_config(struct fix *f, const struct bh_cri_sandbox_config *c, char id[80])
{
    CALL(f, sandbox_run(f->rt, c, on_id, f));
    OK(f);
    snprintf(id, 80, "%s", f->id);
}

static void run_sandbox(struct fix *f, char id[80])
{
    struct bh_cri_sandbox_config c = pod(f);

    run_config(f, &c, id);
}

static struct bh_cri_container_config shell(struct fix *f, const char *name, const char *script)
{
    struct bh_str *cmd = bh_new_n(f->a, struct bh_str, 3);

    cmd[0] = BH_S("/bin/sh");
    cmd[1] = BH_S("-c");
    cmd[2] = bh_str_dup(f->a, bh_s(script));
    return (struct bh_cri_container_config){.name = bh_s(name),
                                            .image = BH_S("busybox:1"),
                                            .command = {cmd, 3},
                                            .log_path = bh_str_fmt(f->a, "%s/0.log", name)};
}

static void start(struct fix *f, const char *sb, const struct bh_cri_container_config *c,
                  char id[80])
{
    CALL(f, container_create(f->rt, bh_s(sb), c, on_id, f));
    OK(f);
    snprintf(id, 80, "%s", f->id);
    CALL(f, container_start(f->rt, bh_s(id), on_done, f));
    OK(f);
}

static void status(struct fix *f, const char *id)
{
    CALL(f, container_list(f->rt, BH_S(""), bh_s(id), on_containers, f));
}

static void until_exited(struct fix *f, const char *id)
{
    for (int i = 0; i < 300; i++) {
        status(f, id);
        if (f->ct.state == BH_CRI_EXITED)
            return;
        pause_ms(f, 20);
    }
    bh_test_fail(__FILE__, __LINE__, "container did not exit");
}

static struct bh_str log_of(struct fix *f, const char *name)
{
    BH_AUTO_BUF b = {.max = 1 << 20};

    if (bh_fs_read(bh_str_fmt(f->a, "%s/logs/%s/0.log", f->dir, name).p, b.max, &b, NULL) < 0)
        return BH_S("");
    return bh_str_dup(f->a, bh_buf_str(&b));
}

static bool has(struct bh_str s, const char *needle)
{
    return bh_str_find(s, bh_s(needle)) >= 0;
}

/* ---- tests ---- */

static void two_containers(struct fix *f)
{
    struct bh_cri_container_config c;
    char sb[80], one[80], two[80], ended[80];
    int pid;

    run_sandbox(f, sb);
    c = shell(f, "one",
              "echo hello; echo oops >&2; hostname; cat /etc/shown; ls /etc; trap 'echo bye; exit "
              "7' TERM; "
              "while :; do sleep 0.05; done");
    start(f, sb, &c, one);
    c = shell(f, "two", "while :; do sleep 1; done"); /* ignores SIGTERM, being the first process */
    start(f, sb, &c, two);
    c = shell(f, "ended", "exit 3");
    start(f, sb, &c, ended);
    until_exited(f, ended);
    BH_EQ(f->ct.exit_code, 3);
    BH_STREQ(f->ct.reason, "Error");
    BH_CHECK(f->ct.finished_ns >= f->ct.started_ns && f->ct.started_ns > 0);
    pause_ms(f, 200);
    struct bh_str log = log_of(f, "one");
    BH_CHECK(has(log, " stdout F hello\n"));
    BH_CHECK(has(log, " stderr F oops\n"));
    BH_CHECK(has(log, " stdout F pod\n"));
    BH_CHECK(has(log, " stdout F upper\n"));
    BH_CHECK(!has(log, "hidden"));
    BH_CHECK(log.n > 36 && log.p[4] == '-' && log.p[10] == 'T');

    /* Another process takes over: same ids, same pids, nothing ended. */
    status(f, one);
    pid = f->ct.pid;
    BH_CHECK(pid > 0 && kill(pid, 0) == 0);
    BH_CHECK(bh_str_starts(f->ct.image_id, BH_S("sha256:")));
    BH_CHECK(bh_str_starts(f->ct.image_ref, BH_S("docker.io/library/busybox@sha256:")));
    f->rt = bh_runtime_free(f->rt);
    pause_ms(f, 20);
    if (!open_rt(f))
        return;
    status(f, one);
    OK(f);
    BH_EQ(f->ct.pid, pid);
    BH_EQ(f->ct.state, BH_CRI_RUNNING);
    status(f, ended);
    BH_EQ(f->ct.exit_code, 3);
    CALL(f, container_list(f->rt, bh_s(sb), BH_S(""), on_containers, f));
    BH_EQ(f->n, 3);

    /* Grace: one obeys SIGTERM, two has to be killed. */
    CALL(f, container_stop(f->rt, bh_s(one), 10, on_done, f));
    OK(f);
    status(f, one);
    BH_EQ(f->ct.exit_code, 7);
    BH_CHECK(has(log_of(f, "one"), "stdout F bye\n"));
    int64_t before = bh_loop_mono_ns(f->loop);
    CALL(f, container_stop(f->rt, bh_s(two), 1, on_done, f));
    BH_CHECK(bh_loop_mono_ns(f->loop) - before >= 900000000);
    status(f, two);
    BH_EQ(f->ct.exit_code, 137);
    BH_CHECK(f->stopped_events >= 2);

    CALL(f, sandbox_stop(f->rt, bh_s(sb), on_done, f));
    OK(f);
    CALL(f, sandbox_list(f->rt, bh_s(sb), on_sandboxes, f));
    BH_EQ(f->exit_code, BH_CRI_SANDBOX_NOTREADY);
    CALL(f, sandbox_remove(f->rt, bh_s(sb), on_done, f));
    OK(f);
    CALL(f, container_list(f->rt, BH_S(""), bh_s(one), on_containers, f));
    BH_EQ(f->code, BH_E_NOT_FOUND);
    CALL(f, sandbox_remove(f->rt, bh_s(sb), on_done, f));
    OK(f);
    BH_CHECK(!bh_fs_exists(
        bh_str_fmt(f->a, "/sys/fs/cgroup/memory%s/kubepods", bh_runtime_cgroup_root(f->rt)).p));
}

BH_TEST(runtime_it_two_containers)
{
    struct fix f;

    if (!usable())
        return;
    if (setup(&f))
        two_containers(&f);
    teardown(&f);
}

static void exits_while_away(struct fix *f)
{
    struct bh_cri_container_config c;
    char sb[80], one[80], two[80];

    run_sandbox(f, sb);
    c = shell(f, "one", "sleep 0.3; echo last words; exit 5");
    start(f, sb, &c, one);
    c = shell(f, "two", "sleep 100");
    CALL(f, container_create(f->rt, bh_s(sb), &c, on_id, f)); /* created, never started */
    snprintf(two, sizeof(two), "%s", f->id);
    f->rt = bh_runtime_free(f->rt);
    pause_ms(f, 700);
    /* A record that cannot be read is put aside. */
    struct bh_str bad = bh_str_fmt(f->a, "%s/runtime/containers/%064d", f->dir, 7);
    BH_EQ(bh_fs_mkdir_p(bad.p, 0700, NULL), 0);
    BH_EQ(bh_fs_write_plain(bh_str_fmt(f->a, "%.*s/state.json", BH_SF(bad)).p, BH_S("{\"id\":"),
                            0600, NULL),
          0);
    if (!open_rt(f))
        return;
    BH_CHECK(!bh_fs_exists(bad.p));
    until_exited(f, one);
    BH_EQ(f->ct.exit_code, 5);
    BH_CHECK(has(log_of(f, "one"), "last words"));
    status(f, two);
    BH_EQ(f->ct.state, BH_CRI_CREATED);
    CALL(f, container_start(f->rt, bh_s(two), on_done, f));
    OK(f);
    CALL(f, container_remove(f->rt, bh_s(two), on_done, f));
    OK(f);
    status(f, two);
    BH_EQ(f->code, BH_E_NOT_FOUND);
}

BH_TEST(runtime_it_exits_while_nobody_watches)
{
    struct fix f;

    if (!usable())
        return;
    if (setup(&f))
        exits_while_away(&f);
    teardown(&f);
}

static void devices_and_limits(struct fix *f)
{
    struct bh_cri_container_config c;
    struct bh_str dev = BH_S("gpu.bulkhead.dev/gpu=gpu-0");
    char sb[80], id[80];
    struct bh_str cdi = bh_str_fmt(f->a, "%s/cdi", f->dir),
                  vol = bh_str_fmt(f->a, "%s/vol", f->dir);

    run_sandbox(f, sb);
    BH_EQ(bh_fs_mkdir_p(cdi.p, 0755, NULL), 0);
    BH_EQ(bh_fs_mkdir_p(vol.p, 0755, NULL), 0);
    c = shell(
        f, "gpu",
        "stat -c '%F %t:%T' /dev/bulkhead/gpu-0; echo $GPU $FROM $MINE; id; echo data > /vol/file; "
        "touch /nope 2>/dev/null || echo readonly; echo x > /dev/bulkhead/gpu-0 && echo writable; "
        "cat /img/etc/shown; touch /img/x 2>/dev/null || echo image-readonly");
    c.cdi_devices = (struct bh_str_vec){&dev, 1};
    CALL(f, container_create(f->rt, bh_s(sb), &c, on_id, f));
    BH_EQ(f->code, BH_E_NOT_FOUND);
    BH_STREQ(bh_s(f->msg), "unresolvable CDI devices gpu.bulkhead.dev/gpu=gpu-0");

    BH_EQ(bh_fs_write_plain(bh_str_fmt(f->a, "%s/gpu.json", cdi.p).p,
                            BH_S("{\"cdiVersion\":\"0.5.0\",\"kind\":\"gpu.bulkhead.dev/"
                                 "gpu\",\"devices\":[{\"name\":\"gpu-0\","
                                 "\"containerEdits\":{\"env\":[\"GPU=zero\"],\"deviceNodes\":[{"
                                 "\"path\":\"/dev/bulkhead/gpu-0\","
                                 "\"type\":\"c\",\"major\":1,\"minor\":3}]}}]}"),
                            0644, NULL),
          0);
    struct bh_cri_env env = {BH_S("MINE"), BH_S("set")};
    struct bh_cri_mount mounts[2] = {
        {.container_path = BH_S("/vol"), .host_path = vol},
        {.container_path = BH_S("/img"), .image = BH_S("busybox:1"), .readonly = true}};
    c.envs = (struct bh_cri_env_vec){&env, 1};
    c.mounts = (struct bh_cri_mount_vec){mounts, 2};
    c.security.readonly_rootfs = true;
    c.security.has_run_as_user = true;
    c.security.run_as_user = 1000;
    BH_EQ(chown(vol.p, 1000, 1001), 0);
    start(f, sb, &c, id);
    until_exited(f, id);
    struct bh_str log = log_of(f, "gpu");
    if (!has(log, "F character special file 1:3\n") || !has(log, "F zero image set\n") ||
        !has(log, "F uid=1000(worker) gid=1001 groups=44(extra)") || !has(log, "F readonly\n") ||
        !has(log, "F upper\n") || !has(log, "F image-readonly\n") || !has(log, "F writable\n"))
        bh_test_fail(__FILE__, __LINE__, "log: %.*s", BH_SF(log));
    BH_CHECK(bh_fs_exists(bh_str_fmt(f->a, "%s/file", vol.p).p));

    c = shell(f, "oom", "dd if=/dev/zero of=/dev/null bs=200M count=1");
    c.resources.memory_limit = 16 << 20;
    start(f, sb, &c, id);
    until_exited(f, id);
    BH_STREQ(f->ct.reason, "OOMKilled");
    BH_EQ(f->ct.exit_code, 137);

    c = shell(f, "missing", "true");
    c.command.p[0] = BH_S("/no/such/program");
    CALL(f, container_create(f->rt, bh_s(sb), &c, on_id, f));
    BH_EQ(f->code, BH_E_IO);
    if (!has(bh_s(f->msg), "/no/such/program"))
        bh_test_fail(__FILE__, __LINE__, "message: %s", f->msg);
}

BH_TEST(runtime_it_devices_limits_volumes)
{
    struct fix f;

    if (!usable())
        return;
    if (setup(&f))
        devices_and_limits(&f);
    teardown(&f);
}

static void exec_and_stats(struct fix *f)
{
    struct bh_cri_container_config c;
    char sb[80], id[80];
    struct bh_str cmd[3] = {BH_S("/bin/sh"), BH_S("-c"),
                            BH_S("echo out $FROM; echo err >&2; exit 4")};
    struct bh_str_vec v = {cmd, 3};

    run_sandbox(f, sb);
    c = shell(f, "one", "while :; do sleep 0.1; done");
    start(f, sb, &c, id);
    CALL(f, exec_sync(f->rt, bh_s(id), &v, 0, on_exec, f));
    OK(f);
    BH_EQ(f->exit_code, 4);
    BH_STREQ(bh_s(f->out), "out image\nerr\n");
    cmd[2] = BH_S("sleep 20");
    int64_t before = bh_loop_mono_ns(f->loop);
    CALL(f, exec_sync(f->rt, bh_s(id), &v, 1000, on_exec, f));
    BH_EQ(f->code, BH_E_TIMEOUT);
    BH_CHECK(bh_loop_mono_ns(f->loop) - before < 4000000000);
    cmd[2] = BH_S("ps");
    pause_ms(f, 100);
    CALL(f, exec_sync(f->rt, bh_s(id), &v, 0, on_exec, f));
    BH_CHECK(!has(bh_s(f->out), "sleep 20"));
    cmd[0] = BH_S("/no/such");
    CALL(f, exec_sync(f->rt, bh_s(id), &v, 0, on_exec, f));
    OK(f);
    if (f->exit_code != 127)
        bh_test_fail(__FILE__, __LINE__, "exit %d: %s", f->exit_code, f->out);
    CALL(f, container_stats(f->rt, bh_s(id), on_stats, f));
    BH_EQ(f->n, 1);
    BH_CHECK(f->mem > 0);
    struct bh_cri_resources r = {.memory_limit = 64 << 20};
    CALL(f, container_update(f->rt, bh_s(id), &r, on_done, f));
    OK(f);
    BH_EQ(rename(bh_str_fmt(f->a, "%s/logs/one/0.log", f->dir).p,
                 bh_str_fmt(f->a, "%s/logs/one/old", f->dir).p),
          0);
    CALL(f, container_reopen_log(f->rt, bh_s(id), on_done, f));
    OK(f);
    pause_ms(f, 200);
    BH_CHECK(bh_fs_exists(bh_str_fmt(f->a, "%s/logs/one/0.log", f->dir).p));
}

BH_TEST(runtime_it_exec_stats_update)
{
    struct fix f;

    if (!usable())
        return;
    if (setup(&f))
        exec_and_stats(&f);
    teardown(&f);
}

static void namespaces(struct fix *f)
{
    struct bh_cri_sandbox_config sc = pod(f);
    struct bh_cri_container_config c;
    char sb[80], id[80], host[256] = "";

    /* One pid namespace: the pause program is the first process, and reaps what is left. */
    sc.share_pid = true;
    run_config(f, &sc, sb);
    c = shell(f, "shared", "ps; ip addr; ls /dev/shm; cat /etc/resolv.conf | head -1; exit 0");
    start(f, sb, &c, id);
    until_exited(f, id);
    struct bh_str log = log_of(f, "shared");
    if (!has(log, "/pause") || !has(log, "lo: <LOOPBACK,UP") || has(log, "eth0"))
        bh_test_fail(__FILE__, __LINE__, "log: %.*s", BH_SF(log));
    BH_STREQ(f->ct.reason, "Completed");

    /* The host's namespaces. */
    sc = pod(f);
    sc.cgroup_parent = BH_S("kubepods/pod2");
    sc.hostname = BH_S("");
    sc.host_network = sc.host_pid = sc.host_ipc = true;
    run_config(f, &sc, sb);
    c = shell(f, "host", "hostname; ls /sys/class/net; ls -d /proc/self/root; sleep 0.1");
    start(f, sb, &c, id);
    until_exited(f, id);
    BH_EQ(gethostname(host, sizeof(host) - 1), 0);
    BH_CHECK(has(log_of(f, "host"), host));
    BH_EQ(f->ct.exit_code, 0);

    /* Everything allowed, a terminal, standard input. */
    c = shell(f, "privileged",
              "ls -l /dev/null /dev/mem 2>/dev/null; mount -t tmpfs t /tmp && echo mounted; "
              "tty_is() { [ -t 1 ]; };"
              "tty_is && echo terminal");
    c.security.privileged = true;
    c.tty = true;
    c.stdin_open = true;
    start(f, sb, &c, id);
    until_exited(f, id);
    log = log_of(f, "privileged");
    if (!has(log, "mounted") || !has(log, "terminal"))
        bh_test_fail(__FILE__, __LINE__, "log: %.*s", BH_SF(log));

    /* Part of an image as a volume; what is not there, or a file, fails the creation in the words
     * the kubelet looks for. */
    struct bh_cri_mount m = {
        .container_path = BH_S("/img"), .image = BH_S("busybox:1"), .image_sub_path = BH_S("etc")};
    c = shell(f, "sub", "ls /img");
    c.mounts = (struct bh_cri_mount_vec){&m, 1};
    start(f, sb, &c, id);
    until_exited(f, id);
    BH_CHECK(has(log_of(f, "sub"), "F shown\n") && !has(log_of(f, "sub"), "hidden"));
    m.image_sub_path = BH_S("missing");
    CALL(f, container_create(f->rt, bh_s(sb), &c, on_id, f));
    BH_EQ(f->code, BH_E_IO);
    if (!has(bh_s(f->msg), "ImageVolumeMountFailed"))
        bh_test_fail(__FILE__, __LINE__, "message: %s", f->msg);
}

BH_TEST(runtime_it_namespaces)
{
    struct fix f;

    if (!usable())
        return;
    if (setup(&f))
        namespaces(&f);
    teardown(&f);
}

/* conmon killed: the end is still noticed, its code unknown. */
BH_TEST(runtime_it_monitor_killed)
{
    struct fix f;
    struct bh_cri_container_config c;
    char sb[80], id[80];
    BH_AUTO_BUF b = {.max = 64};
    int64_t conmon;

    if (!usable())
        return;
    if (setup(&f)) {
        run_sandbox(&f, sb);
        c = shell(&f, "one", "sleep 1000");
        start(&f, sb, &c, id);
        BH_EQ(bh_fs_read(bh_str_fmt(f.a, "%s/runtime/containers/%s/conmon.pid", f.dir, id).p, 64,
                         &b, NULL),
              0);
        BH_CHECK(bh_str_i64(bh_str_trim(bh_buf_str(&b)), 1, INT32_MAX, &conmon));
        (void)kill((pid_t)conmon, SIGKILL);
        pause_ms(&f, 100);
        status(&f, id);
        BH_EQ(f.ct.state, BH_CRI_RUNNING);
        CALL(&f, container_stop(f.rt, bh_s(id), 0, on_done, &f));
        OK(&f);
        status(&f, id);
        BH_EQ(f.ct.exit_code, 137);
        BH_STREQ(f.ct.reason, "ContainerStatusUnknown");
    }
    teardown(&f);
}

/* ---- the agent dies ---- */

/* Starts a pod that counts, says so, and stays until it is killed. */
static int agent_main(const char *dir)
{
    struct fix f = {0};
    struct bh_cri_container_config c;
    struct bh_err err = {0};
    char sb[80], id[80];
    ssize_t n = readlink("/proc/self/exe", f.helper, sizeof(f.helper) - 1);

    if (n < 0 || bh_path(f.dir, sizeof(f.dir), &err, "%s", dir) < 0)
        return 1;
    f.a = bh_arena_new(0);
    f.loop = bh_loop_new_real(&err);
    f.o = (struct bh_runtime_opts){.loop = f.loop, .data_dir = f.dir, .helper = f.helper};
    if (!f.loop || !open_rt(&f))
        return 1;
    run_sandbox(&f, sb);
    c = shell(&f, "count", "i=0; while :; do echo $i; i=$((i+1)); sleep 0.005; done");
    start(&f, sb, &c, id);
    status(&f, id);
    struct bh_str text = bh_str_fmt(f.a, "%s %d", id, f.ct.pid);
    if (bh_fs_write_atomic(bh_str_fmt(f.a, "%s/ready", dir).p, text, 0644, &err) < 0)
        return 1;
    bh_loop_run(f.loop);
    return 0;
}

static void agent_ended(void *arg, const struct bh_proc_result *res)
{
    (void)arg;
    (void)res;
}

/* Every number from 0 on stands in the log, once. */
static int64_t counted(struct bh_str log)
{
    int64_t n = 0, v;

    while (log.n > 0) {
        struct bh_str line = bh_str_cut(&log, '\n');

        for (int i = 0; i < 3; i++)
            (void)bh_str_cut(&line, ' ');
        if (!bh_str_i64(line, 0, INT64_MAX, &v) || v != n++)
            return -1;
    }
    return n;
}

static void agent_killed(struct fix *f)
{
    const char *argv[] = {f->helper, "runtime-agent", f->dir, NULL};
    struct bh_proc_opts po = {.file = f->helper, .argv = argv, .stdout_fd = -1, .stderr_fd = -1};
    struct bh_proc *proc;
    struct bh_err err = {0};
    BH_AUTO_BUF b = {.max = 200};
    int64_t pid, n;
    char id[80];

    f->rt = bh_runtime_free(f->rt);
    pause_ms(f, 20);
    BH_EQ(bh_proc_spawn(f->loop, &po, agent_ended, NULL, &proc, &err), 0);
    const char *ready = bh_str_fmt(f->a, "%s/ready", f->dir).p;
    for (int i = 0; i < 300 && !bh_fs_exists(ready); i++)
        pause_ms(f, 20);
    if (bh_fs_read(ready, 200, &b, &err) < 0) {
        bh_test_fail(__FILE__, __LINE__, "the agent did not start its pod");
        return;
    }
    bh_proc_kill(proc, SIGKILL);
    pause_ms(f, 300);
    struct bh_str rest = bh_buf_str(&b), first = bh_str_cut(&rest, ' ');
    BH_CHECK(bh_str_i64(rest, 1, INT32_MAX, &pid));
    snprintf(id, sizeof(id), "%.*s", BH_SF(first));
    if (!open_rt(f))
        return;
    status(f, id);
    OK(f);
    BH_EQ(f->ct.state, BH_CRI_RUNNING);
    BH_EQ(f->ct.pid, pid);
    BH_EQ(f->ct.attempt, 0);
    n = counted(log_of(f, "count"));
    BH_CHECK(n > 20);
    pause_ms(f, 200);
    BH_CHECK(counted(log_of(f, "count")) > n);
}

BH_TEST(runtime_it_agent_killed)
{
    struct fix f;

    if (!usable())
        return;
    if (setup(&f))
        agent_killed(&f);
    teardown(&f);
}

/* What belongs to one cluster survives the purge of the other. */
BH_TEST(runtime_it_two_clusters)
{
    struct fix f, g;
    struct bh_cri_container_config c;
    char sb[80], one[80], two[80];

    if (!usable())
        return;
    if (setup(&f)) {
        run_sandbox(&f, sb);
        c = shell(&f, "one", "sleep 1000");
        start(&f, sb, &c, one);
        if (setup(&g)) {
            run_sandbox(&g, sb);
            c = shell(&g, "one", "sleep 1000");
            start(&g, sb, &c, two);
            CALL(&g, container_list(g.rt, BH_S(""), BH_S(""), on_containers, &g));
            BH_EQ(g.n, 1);
        }
        teardown(&g);
        status(&f, one);
        BH_EQ(f.ct.state, BH_CRI_RUNNING);
        BH_CHECK(f.ct.pid > 0 && kill(f.ct.pid, 0) == 0);
        /* The directory has one owner at a time. */
        struct bh_runtime *second;
        struct bh_err err = {0};
        BH_EQ(bh_runtime_embedded_new(&f.o, &second, &err), -BH_E_BUSY);
    }
    teardown(&f);
}
