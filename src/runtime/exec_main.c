/* The helper process that executes crun and conmon: `bulkhead runtime-exec OPTIONS -- PROGRAM
 * ARG…`.
 *
 *     --overlay DIR LOWERS UPPER WORK TARGET   mounts an overlay first; LOWERS are relative to DIR
 *     --image DIR LOWERS TARGET SUBPATH        mounts an image's content read-only; SUBPATH may be
 * empty
 *     --cgroup PATH                            moves itself into this control group first
 *     --null                                   standard streams become /dev/null
 *     --conmon                                 PROGRAM is conmon: run it, print what it reports
 * through its sync pipe
 *
 * It leaves the host's mount namespace, so that nothing it mounts is ever seen outside and
 * everything goes away with the last process that needs it. Mounts of the host still arrive (slave
 * propagation): otherwise a volume unmounted on the host would be kept busy by every conmon.
 */
#include "base/buf.h"
#include "base/fs.h"
#include "runtime/cgroup.h"
#include "runtime/layer.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SYNC_BYTES_MAX   (64u << 10)
#define IMAGE_MOUNTS_MAX 64 /* image volumes of one container */

struct exec_opts {
    char **overlay;                  /* five words */
    char **images[IMAGE_MOUNTS_MAX]; /* four words each */
    size_t n_images;
    const char *cgroup;
    bool null_stdio, conmon;
    char **argv;
};

static int parse_opts(int argc, char **argv, struct exec_opts *o, struct bh_err *err)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            o->argv = argv + i + 1;
            break;
        }
        if (strcmp(argv[i], "--overlay") == 0 && i + 5 < argc) {
            o->overlay = argv + i + 1;
            i += 5;
        } else if (strcmp(argv[i], "--image") == 0 && i + 4 < argc &&
                   o->n_images < IMAGE_MOUNTS_MAX) {
            o->images[o->n_images++] = argv + i + 1;
            i += 4;
        } else if (strcmp(argv[i], "--cgroup") == 0 && i + 1 < argc) {
            o->cgroup = argv[++i];
        } else if (strcmp(argv[i], "--null") == 0) {
            o->null_stdio = true;
        } else if (strcmp(argv[i], "--conmon") == 0) {
            o->conmon = true;
        } else {
            return bh_err_set(err, BH_E_BAD_REQUEST, "unexpected argument '%s'", argv[i]);
        }
    }
    if (!o->argv || !o->argv[0])
        return bh_err_set(err, BH_E_BAD_REQUEST, "no program given");
    return 0;
}

/* crun refuses to work while a version 2 hierarchy with a controller is mounted beside version 1
 * ones. */
static int drop_hybrid(struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = 4 << 20};
    struct bh_cg cg;
    int r = bh_fs_read("/proc/self/mountinfo", b.max, &b, err);

    if (r == 0)
        r = bh_cg_parse(&cg, bh_buf_str(&b), err);
    if (r < 0 || cg.v2)
        return r;
    struct bh_str all = bh_buf_str(&b);
    while (all.n > 0) {
        struct bh_str line = bh_str_cut(&all, '\n');
        ptrdiff_t dash = bh_str_find(line, BH_S(" - cgroup2 "));
        char path[4096];

        if (dash < 0)
            continue;
        for (int i = 0; i < 4; i++)
            (void)bh_str_cut(&line, ' ');
        struct bh_str at = bh_str_cut(&line, ' ');
        r = bh_path(path, sizeof(path), err, "%.*s", BH_SF(at));
        if (r < 0)
            return r;
        if (umount2(path, MNT_DETACH) < 0)
            return bh_err_sys(err, errno, "unmount '%s'", path);
    }
    return 0;
}

static int enter_mount_ns(struct bh_err *err)
{
    if (unshare(CLONE_NEWNS) < 0)
        return bh_err_sys(err, errno, "new mount namespace");
    if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) < 0)
        return bh_err_sys(err, errno, "make mounts private");
    return drop_hybrid(err);
}

static int mount_overlay(char **w, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = 4095}; /* mount(2) takes one page */

    if (chdir(w[0]) < 0)
        return bh_err_sys(err, errno, "enter '%s'", w[0]);
    bh_buf_addf(&b, "lowerdir=%s,upperdir=%s,workdir=%s", w[1], w[2], w[3]);
    if (b.overflow)
        return bh_err_set(err, BH_E_LIMIT, "image has too many layers for one overlay mount");
    if (mount("overlay", w[4], "overlay", 0, bh_buf_cstr(&b)) < 0)
        return bh_err_sys(err, errno, "mount overlay on '%s'", w[4]);
    if (chdir("/") < 0)
        return bh_err_sys(err, errno, "enter '/'");
    return 0;
}

/* The sub path is an image's own word: it is resolved inside the image, then laid over the mount
 * point. */
static int mount_sub(const char *target, const char *sub, struct bh_err *err)
{
    char path[64];
    struct stat st;
    BH_AUTO_FD root = open(target, O_PATH | O_DIRECTORY | O_CLOEXEC);
    BH_AUTO_FD fd = root < 0 ? -1 : bh_open_in_root(root, sub, O_PATH);

    if (fd < 0)
        return bh_err_sys(err, errno, "ImageVolumeMountFailed: sub path \"%s\" of the image", sub);
    if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
        return bh_err_set(
            err, BH_E_INVALID,
            "ImageVolumeMountFailed: only directory sub paths are supported, not \"%s\"", sub);
    int r = bh_path(path, sizeof(path), err, "/proc/self/fd/%d", fd);
    if (r < 0)
        return r;
    if (mount(path, target, NULL, MS_BIND, NULL) < 0 ||
        mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) <
            0)
        return bh_err_sys(err, errno, "ImageVolumeMountFailed: mount sub path \"%s\"", sub);
    return 0;
}

static int mount_image(char **w, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = 4095};

    if (chdir(w[0]) < 0)
        return bh_err_sys(err, errno, "enter '%s'", w[0]);
    bh_buf_addf(&b, "lowerdir=%s", w[1]);
    if (b.overflow)
        return bh_err_set(
            err, BH_E_LIMIT,
            "ImageVolumeMountFailed: image has too many layers for one overlay mount");
    if (mount("overlay", w[2], "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, bh_buf_cstr(&b)) < 0)
        return bh_err_sys(err, errno, "ImageVolumeMountFailed: mount overlay on '%s'", w[2]);
    if (chdir("/") < 0)
        return bh_err_sys(err, errno, "enter '/'");
    return w[3][0] ? mount_sub(w[2], w[3], err) : 0;
}

static int null_stdio(struct bh_err *err)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (fd < 0 || dup2(fd, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        return bh_err_sys(err, errno, "open /dev/null");
    if (fd > 2)
        close(fd);
    return 0;
}

/* conmon reports `{"data": pid}` or `{"data": -1, "message": …}` through a pipe, then keeps running
 * in the background. */
static int run_conmon(char **argv, struct bh_err *err)
{
    int p[2];
    char num[16];
    BH_AUTO_BUF b = {.max = SYNC_BYTES_MAX};

    if (pipe2(p, O_CLOEXEC) < 0)
        return bh_err_sys(err, errno, "pipe");
    pid_t pid = fork(); /* this process has one thread */
    if (pid < 0)
        return bh_err_sys(err, errno, "fork");
    if (pid == 0) {
        struct bh_err e = {0};

        snprintf(num, sizeof(num), "%d", p[1]);
        if (fcntl(p[1], F_SETFD, 0) < 0 || setenv("_OCI_SYNCPIPE", num, 1) < 0 ||
            null_stdio(&e) < 0)
            _exit(126);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(p[1]);
    for (;;) {
        char chunk[4096];
        ssize_t n = read(p[0], chunk, sizeof(chunk));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        bh_buf_add(&b, chunk, (size_t)n);
        /* One line is the whole report; the pipe itself stays open as long as conmon lives. */
        if (memchr(chunk, '\n', (size_t)n))
            break;
    }
    close(p[0]);
    int st = 0;
    while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
        ;
    if (b.n == 0)
        return bh_err_set(err, BH_E_IO, "%s ended with status 0x%x and without a report", argv[0],
                          (unsigned)st);
    return bh_write_all(1, b.p, b.n, err);
}

static int exec_run(const struct exec_opts *o, struct bh_err *err)
{
    int r;

    if (o->cgroup) {
        struct bh_cg cg;

        r = bh_cg_detect(&cg, err);
        if (r < 0)
            return r;
        bh_cg_join(&cg, o->cgroup, getpid());
    }
    r = enter_mount_ns(err);
    if (r == 0 && o->overlay)
        r = mount_overlay(o->overlay, err);
    for (size_t i = 0; r == 0 && i < o->n_images; i++)
        r = mount_image(o->images[i], err);
    if (r < 0)
        return r;
    if (o->conmon)
        return run_conmon(o->argv, err);
    if (o->null_stdio) {
        r = null_stdio(err);
        if (r < 0)
            return r;
    }
    execvp(o->argv[0], o->argv);
    return bh_err_sys(err, errno, "execute '%s'", o->argv[0]);
}

int bh_runtime_exec_main(int argc, char **argv)
{
    struct exec_opts o = {0};
    struct bh_err err = {0};
    int r = parse_opts(argc, argv, &o, &err);

    if (r == 0)
        r = exec_run(&o, &err);
    if (r < 0)
        fprintf(stderr, "runtime-exec: %s\n", err.msg);
    return r < 0 ? 125 : 0;
}
