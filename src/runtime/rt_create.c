/* Making a container, the worker's side: the record first, then the bundle, then the helper's
 * command line. */
#include "runtime/rt_int.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/log.h"
#include "runtime/cdi.h"
#include "runtime/image_store.h"
#include "runtime/layer.h"
#include "runtime/oci_spec.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOST_DEVICES_MAX 1024 /* of a privileged container */
#define DEV_DEPTH_MAX    3

struct make {
    struct rt_op *op;
    struct bh_rt_container_rec *rec;
    const struct bh_rt_sandbox_rec *sb;
    struct bh_image *img;
    struct bh_oci_user user;
    const char *dir; /* containers/<id> */
    struct bh_jv spec;
    struct bh_cri_device *devs;
    size_t n_devs, cap_devs;
};

static int resolve_image(struct make *m)
{
    struct rt_op *op = m->op;
    struct bh_str passwd = {NULL, 0}, group = {NULL, 0}, sig;
    int r = bh_image_resolve(op->arena, op->rt->images, m->rec->config.image, &m->img, &op->err);

    if (r < 0)
        return r;
    m->rec->image_id = m->img->cri.id;
    m->rec->image_ref =
        m->img->cri.repo_digests.n > 0 ? m->img->cri.repo_digests.p[0] : m->img->cri.id;
    /* Absent files are common in images without a distribution. */
    if (bh_image_read_file(op->arena, op->rt->images, m->img, "etc/passwd", &passwd, NULL) < 0)
        passwd = BH_S("");
    if (bh_image_read_file(op->arena, op->rt->images, m->img, "etc/group", &group, NULL) < 0)
        group = BH_S("");
    r = bh_oci_resolve_user(op->arena, &m->rec->config.security, m->img->user, passwd, group,
                            &m->user, &op->err);
    if (r < 0)
        return r;
    m->rec->uid = m->user.uid;
    m->rec->gid = m->user.gid;
    sig = m->img->stop_signal;
    m->rec->stop_signal = m->rec->config.stop_signal;
    if (m->rec->stop_signal <= 0 && sig.n > 0)
        m->rec->stop_signal = bh_signal_number(sig);
    if (m->rec->stop_signal <= 0)
        m->rec->stop_signal = SIGTERM;
    return 0;
}

static int make_dirs(struct make *m)
{
    static const char *const subs[] = {"upper", "work", "rootfs", "persist"};
    struct rt_op *op = m->op;
    int r = 0;

    for (size_t i = 0; r == 0 && i < BH_COUNT(subs); i++)
        r = bh_fs_mkdir_p(rt_pathf(op, "%s/%s", m->dir, subs[i]), 0755, &op->err);
    /* The upper directory's owner and mode become those of the container's root directory. */
    if (r == 0 && chmod(rt_pathf(op, "%s/upper", m->dir), 0755) < 0)
        r = bh_err_sys(&op->err, errno, "chmod '%s/upper'", m->dir);
    if (r == 0 && m->rec->log_path.n > 0) {
        struct bh_str d = m->rec->log_path;

        while (d.n > 1 && d.p[d.n - 1] != '/')
            d.n--;
        r = bh_fs_mkdir_p(rt_pathf(op, "%.*s", BH_SF(d)), 0755, &op->err);
    }
    return r;
}

static void scan_dev(struct make *m, const char *dir, int depth)
{
    static const char *const skip[] = {"pts",  "shm",   "mqueue", "fd",     "console",  "tty",
                                       "ptmx", "null",  "zero",   "full",   "random",   "urandom",
                                       "core", "stdin", "stdout", "stderr", "hugepages"};
    DIR *d = depth < DEV_DEPTH_MAX ? opendir(dir) : NULL;

    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        bool no = e->d_name[0] == '.';

        for (size_t i = 0; depth == 0 && i < BH_COUNT(skip); i++)
            no = no || strcmp(e->d_name, skip[i]) == 0;
        if (no)
            continue;
        const char *path = rt_pathf(m->op, "%s/%s", dir, e->d_name);
        if (e->d_type == DT_DIR) {
            scan_dev(m, path, depth + 1);
        } else if ((e->d_type == DT_CHR || e->d_type == DT_BLK) && m->n_devs < HOST_DEVICES_MAX) {
            if (m->n_devs == m->cap_devs)
                bh_arena_grow(m->op->arena, &m->devs, &m->cap_devs, m->n_devs + 1,
                              sizeof(*m->devs));
            m->devs[m->n_devs++] = (struct bh_cri_device){bh_s(path), bh_s(path), BH_S("rwm")};
        }
    }
    closedir(d);
}

static int add_devices(struct make *m)
{
    struct rt_op *op = m->op;
    const struct bh_cri_container_config *c = &m->rec->config;
    struct bh_str_vec names = c->cdi_devices;
    struct bh_cdi *cdi;
    int r;

    if (c->security.privileged)
        scan_dev(m, "/dev", 0);
    r = bh_cdi_add_devices(op->arena, m->devs, m->n_devs, &m->spec, &op->err);
    if (r == 0)
        r = bh_cdi_add_devices(op->arena, c->devices.p, c->devices.n, &m->spec, &op->err);
    if (r == 0)
        r = bh_cdi_from_annotations(op->arena, &c->annotations, &names, &op->err);
    if (r < 0 || names.n == 0)
        return r;
    r = bh_cdi_load(op->arena, op->rt->cdi_dirs, &cdi, &op->err);
    if (r < 0)
        return r;
    r = bh_cdi_inject(op->arena, cdi, &names, &m->spec, &op->err);
    struct bh_str_vec bad = bh_cdi_errors(cdi);
    for (size_t i = 0; r < 0 && i < bad.n; i++)
        bh_log(BH_WARN, "CDI spec file refused", BH_STR("file", bad.p[i]));
    return r;
}

static const char *image_dir(struct make *m, size_t i)
{
    return rt_pathf(m->op, "%s/image-%zu", m->dir, i);
}

/* Files of the sandbox that every container sees, and image volumes; plain mounts come from the
 * request itself. */
static struct bh_oci_bind *make_binds(struct make *m, size_t *ret_n)
{
    const struct bh_cri_container_config *c = &m->rec->config;
    struct bh_oci_bind *b = bh_new_n(m->op->arena, struct bh_oci_bind, 4 + c->mounts.n);
    const char *sb = rt_pathf(m->op, "%s/sandboxes/%.*s", m->op->rt->dir, BH_SF(m->sb->id));
    bool ro = c->security.readonly_rootfs;
    size_t n = 0;

    b[n++] = (struct bh_oci_bind){
        "/dev/shm", bh_s(m->sb->config.host_ipc ? "/dev/shm" : rt_pathf(m->op, "%s/shm", sb)),
        false};
    b[n++] = (struct bh_oci_bind){"/etc/hostname", bh_s(rt_pathf(m->op, "%s/hostname", sb)), ro};
    b[n++] =
        (struct bh_oci_bind){"/etc/resolv.conf", bh_s(rt_pathf(m->op, "%s/resolv.conf", sb)), ro};
    b[n++] = (struct bh_oci_bind){"/etc/hosts", bh_s(rt_pathf(m->op, "%s/hosts", sb)), ro};
    for (size_t i = 0; i < c->mounts.n; i++)
        if (c->mounts.p[i].image.n > 0)
            b[n++] =
                (struct bh_oci_bind){rt_pathf(m->op, "%.*s", BH_SF(c->mounts.p[i].container_path)),
                                     bh_s(image_dir(m, i)), true};
    *ret_n = n;
    return b;
}

static int check_mounts(struct make *m)
{
    const struct bh_cri_mount_vec *v = &m->rec->config.mounts;

    for (size_t i = 0; i < v->n; i++) {
        const char *host = rt_pathf(m->op, "%.*s", BH_SF(v->p[i].host_path));

        if (v->p[i].image.n == 0 && !bh_fs_exists(host))
            return bh_err_set(&m->op->err, BH_E_INVALID,
                              "failed to mount \"%s\": no such file or directory", host);
    }
    return 0;
}

static int make_spec(struct make *m)
{
    struct rt_op *op = m->op;
    struct bh_oci_in in = {.sandbox = &m->sb->config,
                           .container = &m->rec->config,
                           .image = m->img,
                           .user = m->user,
                           .sandbox_pid = op->sandbox_pid,
                           .target_pid = op->target_pid,
                           .rootfs = rt_pathf(op, "%s/rootfs", m->dir),
                           .cgroup = rt_pathf(op, "%.*s", BH_SF(m->rec->cgroup)),
                           .cgroup_v2 = op->rt->cg.v2,
                           .oom_floor = op->rt->oom_floor,
                           .caps_bound = op->rt->caps_bound};
    int r = check_mounts(m);

    if (r < 0)
        return r;
    in.binds = make_binds(m, &in.n_binds);
    r = bh_oci_container(op->arena, &in, &m->spec, &op->err);
    if (r == 0)
        r = add_devices(m);
    if (r == 0)
        r = bh_fs_write_plain(rt_pathf(op, "%s/config.json", m->dir),
                              bh_jv_text(op->arena, &m->spec, BH_JSON_PLAIN), 0600, &op->err);
    return r;
}

static int image_args(struct make *m)
{
    struct rt_op *op = m->op;
    struct bh_cri_mount_vec *v = &m->rec->config.mounts;
    int r = 0;

    for (size_t i = 0; r == 0 && i < v->n; i++) {
        struct bh_image *img;

        if (v->p[i].image.n == 0)
            continue;
        r = bh_image_resolve(op->arena, op->rt->images, v->p[i].image, &img, &op->err);
        if (r == 0)
            r = bh_fs_mkdir_p(image_dir(m, i), 0755, &op->err);
        if (r == 0)
            r = bh_fs_mkdir_p(rt_pathf(op, "%s/layers/.empty", op->rt->images), 0755, &op->err);
        if (r < 0)
            return bh_err_wrap(&op->err, "ImageVolumeMountFailed");
        v->p[i].image = img->cri.id; /* status echoes the id */
        rt_arg(op, "--image");
        rt_argf(op, "%s/layers", op->rt->images);
        /* An overlay without an upper directory wants two lower ones. */
        rt_argf(op, "%.*s:.empty", BH_SF(bh_image_lowerdirs(op->arena, img)));
        rt_arg(op, image_dir(m, i));
        rt_argf(op, "%.*s", BH_SF(v->p[i].image_sub_path));
    }
    return r;
}

static int make_argv(struct make *m)
{
    struct rt_op *op = m->op;
    const struct rt *rt = op->rt;
    const struct bh_cri_container_config *c = &m->rec->config;
    int r;

    rt_arg(op, rt->helper);
    rt_arg(op, "runtime-exec");
    rt_arg(op, "--cgroup");
    rt_argf(op, "%s/conmon", rt->cg_root);
    rt_arg(op, "--overlay");
    rt_argf(op, "%s/layers", rt->images);
    rt_argf(op, "%.*s", BH_SF(bh_image_lowerdirs(op->arena, m->img)));
    rt_argf(op, "%s/upper", m->dir);
    rt_argf(op, "%s/work", m->dir);
    rt_argf(op, "%s/rootfs", m->dir);
    r = image_args(m);
    if (r < 0)
        return r;
    rt_arg(op, "--conmon");
    rt_arg(op, "--");
    rt_arg(op, rt->conmon);
    rt_arg(op, "--api-version=1");
    rt_argf(op, "--cid=%.*s", BH_SF(m->rec->id));
    rt_argf(op, "--cuuid=%.*s", BH_SF(m->rec->id));
    rt_argf(op, "--runtime=%s", rt->crun);
    rt_argf(op, "--bundle=%s", m->dir);
    rt_argf(op, "--container-pidfile=%s/pid", m->dir);
    rt_argf(op, "--conmon-pidfile=%s/conmon.pid", m->dir);
    rt_argf(op, "--exit-dir=%s/exits", rt->dir);
    rt_argf(op, "--persist-dir=%s/persist", m->dir);
    if (m->rec->log_path.n > 0)
        rt_argf(op, "--log-path=k8s-file:%.*s", BH_SF(m->rec->log_path));
    else
        rt_arg(op, "--log-path=none");
    rt_arg(op, "--full-attach");
    rt_arg(op, "--no-new-keyring");
    rt_arg(op, "--no-sync-log");
    if (c->tty)
        rt_arg(op, "--terminal");
    if (c->stdin_open)
        rt_arg(op, "--stdin");
    if (c->stdin_open && !c->stdin_once)
        rt_arg(op, "--leave-stdin-open");
    rt_argf(op, "--runtime-arg=--root=%s/crun", rt->dir);
    rt_arg(op, "--runtime-arg=--cgroup-manager=cgroupfs");
    return 0;
}

void rt_create_prepare(struct rt_op *op)
{
    struct make m = {.op = op, .rec = &op->crec, .sb = &op->srec};

    op->rc = bh_rt_container_decode(op->arena, op->text, &op->crec, &op->err);
    if (op->rc < 0)
        return;
    m.dir = rt_pathf(op, "%s/containers/%.*s", op->rt->dir, BH_SF(op->crec.id));
    op->rc = resolve_image(&m);
    if (op->rc == 0)
        op->rc = bh_fs_mkdir_p(m.dir, 0700, &op->err);
    /* From here on a crash leaves a record that says what to remove. */
    if (op->rc == 0)
        op->rc = rt_save(op->rt->dir, "containers", op->crec.id,
                         bh_rt_container_encode(op->arena, &op->crec), &op->err);
    if (op->rc == 0)
        op->rc = make_dirs(&m);
    if (op->rc == 0)
        op->rc = make_spec(&m);
    if (op->rc == 0)
        op->rc = make_argv(&m);
}

/* What conmon and crun say on failure: lines of a log format before the text are cut off. */
static int read_report(struct rt_op *op)
{
    struct bh_jv v;
    int64_t data = -1;
    int r = bh_jv_parse(op->arena, op->out, NULL, &v, &op->err);

    if (r < 0)
        return bh_err_wrap(&op->err, "report of conmon");
    if (bh_jv_get_i64(&v, "data", &data) && data > 0)
        return 0;
    struct bh_str msg = bh_str_trim(bh_jv_get_str(&v, "message"));
    ptrdiff_t cut = bh_str_find(msg, BH_S("Z: "));
    if (cut >= 0 && cut < 40)
        msg = bh_str_sub(msg, (size_t)cut + 3, msg.n);
    return bh_err_set(&op->err, BH_E_IO, "failed to create the container: %.*s",
                      BH_SF(msg.n > 0 ? msg : BH_S("conmon gave no reason")));
}

void rt_create_finish(struct rt_op *op)
{
    struct bh_rt_container_rec *rec = &op->crec;
    const char *dir = rt_pathf(op, "%s/containers/%.*s", op->rt->dir, BH_SF(rec->id));

    if (op->rc == 0)
        op->rc = read_report(op);
    if (op->rc == 0)
        op->rc = rt_read_pid(rt_pathf(op, "%s/pid", dir), &rec->pid, &op->err);
    if (op->rc == 0)
        op->rc = rt_read_pid(rt_pathf(op, "%s/conmon.pid", dir), &rec->conmon_pid, &op->err);
    if (op->rc == 0) {
        rec->pid_start = rt_pid_start(rec->pid);
        rec->phase = BH_RT_CREATED;
        rec->created_ns = rt_now_ns();
        op->rc = rt_save(op->rt->dir, "containers", rec->id, bh_rt_container_encode(op->arena, rec),
                         &op->err);
    }
    if (op->rc < 0 && rec->id.n > 0)
        rt_container_wipe(op->rt, rec->id, rec->cgroup, rec->conmon_pid);
}
