/* The simulated GPU driver: profile and faults in, ResourceSlices and prepared claims out. */
#include "driver/gpu_driver.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "api/gen/resource_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/log.h"
#include "client/client.h"
#include "data/names.h"
#include "driver/claim_store.h"
#include "driver/claim_sweep.h"
#include "driver/dra_service.h"
#include "driver/gpu_faults.h"
#include "driver/gpu_profile.h"
#include "driver/gpu_xid.h"
#include "driver/slice_publish.h"
#include "net/loop.h"

#define PROFILE_BYTES_MAX (4u << 20)
#define READY_LOOK_MS     10

struct opts {
    const char *driver, *profile, *kubeconfig, *node, *data_dir, *root, *cdi_dir;
    int64_t count, orphan_grace_s, ready_fd;
    bool verbose;
};

struct gpu_driver {
    struct opts o;
    char data_dir[PATH_MAX], socket[PATH_MAX], registration[PATH_MAX];
    struct bh_loop *loop;
    struct bh_client *client;
    struct bh_arena *arena; /* of the profile */
    struct bh_gpu_profile profile;
    struct bh_claim_store *store;
    struct bh_slice_publisher *pub;
    struct bh_dra_service *svc;
    struct bh_claim_sweep *sweep;
    struct bh_arena *fault_arena;
    struct bh_faults faults;
    int inotify_fd, signal_fd, lock_fd;
    struct bh_io *inotify_io, *signal_io;
    struct bh_timer ready; /* looks whether there is something to tell ready_fd */
};

static const char usage[] =
    "Usage: bulkhead gpu-driver --simulate N --node-name NAME --kubeconfig FILE [options]\n"
    "\n"
    "Serves simulated GPUs to the kubelet and publishes them as ResourceSlices.\n"
    "\n"
    "  --simulate N         number of GPUs (0: as many as the profile has)\n"
    "  --node-name NAME     node that has them; also the name of the pool\n"
    "  --kubeconfig FILE    how to reach the API server\n"
    "  --profile FILE       models, memory and topology, JSON or YAML (default: NVIDIA H200, "
    "141Gi)\n"
    "  --driver-name NAME   default gpu.bulkhead.dev\n"
    "  --kubelet-root DIR   default /var/lib/kubelet\n"
    "  --data-dir DIR       checkpoint and faults (default DIR-of-kubelet/plugins/NAME)\n"
    "  --cdi-dir DIR        default /var/run/cdi\n"
    "  --orphan-grace SEC   release a claim that left the API that long ago unless the kubelet "
    "does; default 120\n"
    "  --ready-fd N         descriptor that is told \"ready\" when the kubelet took the driver and "
    "all\n"
    "                       slices are published\n"
    "  --verbose            log debug messages\n";

/* ---- arguments ---- */

static int fail_usage(const char *text, const char *what)
{
    fprintf(stderr, "bulkhead gpu-driver: %s%s\n", text, what);
    return 2;
}

static int args_check(const struct opts *o)
{
    char buf[BH_NAMES_BUF];

    if (o->count < 0)
        return fail_usage("--simulate is required: the number of GPUs", "");
    if (o->count == 0 && !o->profile)
        return fail_usage("--simulate 0 needs a --profile that says how many there are", "");
    if (!o->node || bh_check_dns1123_subdomain(bh_s(o->node), buf))
        return fail_usage("--node-name must be the name of a node", "");
    if (!o->kubeconfig)
        return fail_usage("--kubeconfig is required", "");
    if (bh_check_dns1123_subdomain(bh_s(o->driver), buf) || strlen(o->driver) > 63)
        return fail_usage("--driver-name must be a DNS name of at most 63 characters", "");
    return 0;
}

static int args_parse(int argc, char **argv, struct opts *o)
{
    enum { SIM, NODE, KUBECONFIG, PROFILE, DRIVER, ROOT, DATA, CDI, ORPHAN, READY, VERBOSE, HELP };
    static const struct option longs[] = {{"simulate", required_argument, NULL, SIM},
                                          {"node-name", required_argument, NULL, NODE},
                                          {"kubeconfig", required_argument, NULL, KUBECONFIG},
                                          {"profile", required_argument, NULL, PROFILE},
                                          {"driver-name", required_argument, NULL, DRIVER},
                                          {"kubelet-root", required_argument, NULL, ROOT},
                                          {"data-dir", required_argument, NULL, DATA},
                                          {"cdi-dir", required_argument, NULL, CDI},
                                          {"orphan-grace", required_argument, NULL, ORPHAN},
                                          {"ready-fd", required_argument, NULL, READY},
                                          {"verbose", no_argument, NULL, VERBOSE},
                                          {"help", no_argument, NULL, HELP},
                                          {NULL, 0, NULL, 0}};
    int c;

    *o = (struct opts){.driver = BH_GPU_DRIVER_NAME,
                       .root = "/var/lib/kubelet",
                       .cdi_dir = "/var/run/cdi",
                       .count = -1,
                       .orphan_grace_s = 120,
                       .ready_fd = -1};
    optind = 1;
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        const char **dst[] = {[NODE] = &o->node,       [KUBECONFIG] = &o->kubeconfig,
                              [PROFILE] = &o->profile, [DRIVER] = &o->driver,
                              [ROOT] = &o->root,       [DATA] = &o->data_dir,
                              [CDI] = &o->cdi_dir};

        if (c == SIM) {
            if (!bh_str_i64(bh_s(optarg), 0, BH_GPUS_MAX, &o->count))
                return fail_usage("--simulate must be a number from 0 to 1024, not ", optarg);
        } else if (c == ORPHAN) {
            if (!bh_str_i64(bh_s(optarg), 1, 86400, &o->orphan_grace_s))
                return fail_usage(
                    "--orphan-grace must be a number of seconds from 1 to 86400, not ", optarg);
        } else if (c == READY) {
            if (!bh_str_i64(bh_s(optarg), 3, 1024, &o->ready_fd))
                return fail_usage("--ready-fd must be a descriptor, not ", optarg);
        } else if (c == VERBOSE) {
            o->verbose = true;
        } else if (c == HELP) {
            fputs(usage, stdout);
            return -1;
        } else if (c >= 0 && (size_t)c < BH_COUNT(dst) && dst[c]) {
            *dst[c] = optarg;
        } else {
            return 2; /* getopt_long has said why */
        }
    }
    if (optind < argc)
        return fail_usage("unexpected argument ", argv[optind]);
    return args_check(o);
}

/* ---- faults ---- */

static void taint_add(struct bh_arena *a, const struct gpu_driver *d, const struct bh_fault *f,
                      struct bh_resource_v1_device *dev)
{
    struct bh_resource_v1_device_taint *t = bh_new(a, struct bh_resource_v1_device_taint);

    t->key = bh_str_fmt(a, "%s/xid", d->o.driver);
    t->value = bh_str_fmt(a, "%d", f->xid);
    t->effect = bh_s(bh_xid_effect_name(bh_xid_get(f->xid)->effect));
    t->time_added = (struct bh_time){f->time.sec + (f->time.nsec >= 500000000), 0};
    dev->taints.p = t;
    dev->taints.n = 1;
}

/* Devices and their health as the faults make them. */
static void publish(struct gpu_driver *d)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_resource_v1_device *devs = bh_new_n(a, struct bh_resource_v1_device, d->profile.n);
    struct bh_device_health *health = bh_new_n(a, struct bh_device_health, d->profile.n);

    for (size_t i = 0; i < d->profile.n; i++) {
        const struct bh_gpu *g = &d->profile.gpus[i];
        const struct bh_fault *f = bh_faults_worst(&d->faults, g->name);

        bh_gpu_to_device(a, g, i, &devs[i]);
        health[i] = (struct bh_device_health){.device = g->name, .healthy = true};
        if (!f)
            continue;
        taint_add(a, d, f, &devs[i]);
        health[i].healthy = bh_xid_get(f->xid)->effect == BH_XID_NONE;
        health[i].message = bh_str_fmt(a, "XID %d: %s", f->xid, bh_xid_get(f->xid)->text);
    }
    bh_slice_publisher_set(d->pub, devs, d->profile.n);
    bh_dra_service_health(d->svc, health, d->profile.n);
}

/* A file that cannot be read changes nothing: the faults known before still hold. */
static void faults_reload(struct gpu_driver *d)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_faults f = {0};
    struct bh_err err = {0};

    if (bh_faults_load(a, d->data_dir, &f, &err) < 0) {
        bh_log(BH_ERROR, "cannot read the faults, continuing with those known",
               BH_CSTR("why", err.msg));
        (void)bh_arena_free(a);
        return;
    }
    (void)bh_arena_free(d->fault_arena);
    d->fault_arena = a;
    d->faults = f;
    bh_log(BH_INFO, "faults read", BH_I64("count", f.n));
}

static void inotify_ready(void *arg, unsigned events)
{
    struct gpu_driver *d = arg;
    _Alignas(struct inotify_event) char buf[4096];
    bool hit = false;
    ssize_t n;

    (void)events;
    while ((n = read(d->inotify_fd, buf, sizeof(buf))) > 0)
        for (char *p = buf; p < buf + n;) {
            const struct inotify_event *e = (const struct inotify_event *)(void *)p;

            hit = hit || (e->mask & IN_Q_OVERFLOW) ||
                  (e->len > 0 && strcmp(e->name, BH_FAULTS_FILE) == 0);
            p += sizeof(*e) + e->len;
        }
    if (hit) {
        faults_reload(d);
        publish(d);
    }
}

static void signal_ready(void *arg, unsigned events)
{
    struct gpu_driver *d = arg;
    struct signalfd_siginfo si;

    (void)events;
    if (read(d->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
        bh_loop_stop(d->loop);
}

/* ---- start and stop ---- */

static int watch_start(struct gpu_driver *d, struct bh_err *err)
{
    sigset_t set;

    d->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (d->inotify_fd < 0 ||
        inotify_add_watch(d->inotify_fd, d->data_dir, IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE) < 0)
        return bh_err_sys(err, errno, "watch %s", d->data_dir);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    d->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (d->signal_fd < 0)
        return bh_err_sys(err, errno, "signalfd");
    d->inotify_io = bh_io_new(d->loop, d->inotify_fd, inotify_ready, d, err);
    d->signal_io = d->inotify_io ? bh_io_new(d->loop, d->signal_fd, signal_ready, d, err) : NULL;
    if (!d->signal_io)
        return bh_err_wrap(err, "watch descriptors");
    bh_io_want(d->inotify_io, BH_IO_READ);
    bh_io_want(d->signal_io, BH_IO_READ);
    return 0;
}

static int profile_read(struct gpu_driver *d, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = PROFILE_BYTES_MAX};
    struct bh_str text = {NULL, 0};
    struct bh_str seed;
    int r;

    d->arena = bh_arena_new(0);
    seed = bh_str_fmt(d->arena, "%s/%s", d->o.driver, d->o.node);
    if (d->o.profile) {
        r = bh_fs_read(d->o.profile, PROFILE_BYTES_MAX, &b, err);
        if (r < 0)
            return bh_err_wrap(err, "--profile");
        text = bh_str_dup(d->arena, bh_buf_str(&b));
        if (bh_str_trim(text).n == 0)
            return bh_err_set(err, BH_E_INVALID, "--profile %s: the file is empty", d->o.profile);
    }
    r = bh_gpu_profile_load(d->arena, text, (size_t)d->o.count, seed, &d->profile, err);
    if (r < 0 && d->o.profile)
        return bh_err_wrap(err, "--profile %s", d->o.profile);
    return r;
}

static int paths_make(struct gpu_driver *d, struct bh_err *err)
{
    char dir[PATH_MAX];
    int r;

    r = d->o.data_dir ? bh_path(d->data_dir, sizeof(d->data_dir), err, "%s", d->o.data_dir)
                      : bh_path(d->data_dir, sizeof(d->data_dir), err, "%s/plugins/%s", d->o.root,
                                d->o.driver);
    if (r == 0)
        r = bh_path(dir, sizeof(dir), err, "%s/plugins/%s", d->o.root, d->o.driver);
    if (r == 0)
        r = bh_fs_mkdir_p(dir, 0750, err);
    if (r == 0)
        r = bh_path(d->socket, sizeof(d->socket), err, "%s/dra.sock", dir);
    if (r == 0)
        r = bh_path(dir, sizeof(dir), err, "%s/plugins_registry", d->o.root);
    if (r == 0)
        r = bh_fs_mkdir_p(dir, 0750, err);
    if (r == 0)
        r = bh_path(d->registration, sizeof(d->registration), err, "%s/%s-reg.sock", dir,
                    d->o.driver);
    if (r == 0)
        r = bh_fs_mkdir_p(d->data_dir, 0750, err);
    return r;
}

/* Two drivers on one data directory would overwrite each other's checkpoint. */
static int lock_data(struct gpu_driver *d, struct bh_err *err)
{
    char path[PATH_MAX];
    int r = bh_path(path, sizeof(path), err, "%s/driver.lock", d->data_dir);

    if (r == 0)
        r = bh_fs_lock(path, &d->lock_fd, err);
    if (r == -BH_E_BUSY)
        return bh_err_set(err, BH_E_BUSY, "another driver runs with the data directory %s",
                          d->data_dir);
    return r;
}

static int devices_write(const struct gpu_driver *d, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str *names = bh_new_n(a, struct bh_str, d->profile.n);

    for (size_t i = 0; i < d->profile.n; i++)
        names[i] = d->profile.gpus[i].name;
    return bh_devices_store(d->data_dir, names, d->profile.n, err);
}

/* Whoever started us may wait for this start's slices: those of an earlier one look the same. */
static void ready_look(void *arg)
{
    static const char word[] = "ready\n";
    struct gpu_driver *d = arg;
    int fd = (int)d->o.ready_fd;

    if (!bh_slice_publisher_settled(d->pub) || !bh_dra_service_registered(d->svc)) {
        bh_timer_start(&d->ready, READY_LOOK_MS);
        return;
    }
    if (write(fd, word, sizeof(word) - 1) < 0)
        bh_log(BH_DEBUG, "nobody waits for us");
    bh_close_p(&fd);
}

static int start(struct gpu_driver *d, struct bh_err *err)
{
    struct bh_claim_store_opts so = {
        .data_dir = d->data_dir, .cdi_dir = d->o.cdi_dir, .driver = d->o.driver};
    struct bh_dra_service_opts vo = {.driver = d->o.driver,
                                     .pool = d->o.node,
                                     .socket = d->socket,
                                     .registration = d->registration};
    int r = profile_read(d, err);

    if (r == 0)
        r = paths_make(d, err);
    if (r == 0)
        r = lock_data(d, err);
    if (r == 0)
        r = devices_write(d, err);
    if (r < 0)
        return r;
    so.profile = &d->profile;
    d->store = bh_claim_store_open(&so, err);
    d->loop = d->store ? bh_loop_new_real(err) : NULL;
    if (!d->loop)
        return bh_err_wrap(err, "start");
    faults_reload(d);
    r = watch_start(d, err);
    if (r < 0)
        return r;
    d->client = bh_client_new_kubeconfig(d->loop, d->o.kubeconfig, "bulkhead-gpu-driver", err);
    if (!d->client)
        return bh_err_wrap(err, "--kubeconfig %s", d->o.kubeconfig);
    vo.client = d->client;
    vo.store = d->store;
    d->svc = bh_dra_service_new(d->loop, &vo, err);
    if (!d->svc)
        return bh_err_wrap(err, "listen");
    d->sweep = bh_claim_sweep_new(d->client, d->svc, d->store, d->o.driver,
                                  (int)d->o.orphan_grace_s * 1000);
    d->pub = bh_slice_publisher_new(d->client, d->o.driver, d->o.node);
    publish(d);
    bh_timer_init(&d->ready, d->loop, ready_look, d);
    if (d->o.ready_fd >= 0)
        bh_timer_start(&d->ready, 0);
    return 0;
}

static void linger_over(void *arg)
{
    bh_loop_stop(arg);
}

/* Sockets first, so that nobody starts anything new; the slices stay, the kubelet withdraws them if
 * no driver returns. */
static void stop(struct gpu_driver *d)
{
    struct bh_timer t;

    d->sweep = bh_claim_sweep_free(d->sweep);
    if (d->loop)
        bh_timer_stop(&d->ready);
    if (d->svc) {
        d->svc = bh_dra_service_free(d->svc);
        bh_timer_init(&t, d->loop, linger_over, d->loop);
        bh_timer_start(&t, 50); /* answers and a job on the worker pool get this long */
        bh_loop_run(d->loop);
        bh_timer_stop(&t);
    }
    d->pub = bh_slice_publisher_free(d->pub);
    d->client = d->client ? bh_client_free(d->client) : NULL;
    d->inotify_io = bh_io_free(d->inotify_io);
    d->signal_io = bh_io_free(d->signal_io);
    d->loop = d->loop ? bh_loop_free(d->loop) : NULL; /* waits for the worker pool */
    d->store = bh_claim_store_free(d->store);
    bh_close_p(&d->inotify_fd);
    bh_close_p(&d->signal_fd);
    bh_close_p(&d->lock_fd);
    d->fault_arena = bh_arena_free(d->fault_arena);
    d->arena = bh_arena_free(d->arena);
}

int bh_gpu_driver_main(int argc, char **argv)
{
    struct gpu_driver d = {.inotify_fd = -1, .signal_fd = -1, .lock_fd = -1};
    struct bh_err err = {0};
    sigset_t set;
    int r = args_parse(argc, argv, &d.o);

    if (r != 0)
        return r < 0 ? 0 : r;
    bh_log_init(d.o.verbose ? BH_DEBUG : BH_INFO, "gpu-driver");
    (void)sigemptyset(
        &set); /* blocked before any thread starts: they arrive at the descriptor only */
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (start(&d, &err) < 0) {
        fprintf(stderr, "bulkhead gpu-driver: %s\n", err.msg);
        stop(&d);
        return 1;
    }
    bh_log(BH_INFO, "serving simulated GPUs", BH_I64("devices", d.profile.n),
           BH_CSTR("node", d.o.node), BH_CSTR("driver", d.o.driver), BH_CSTR("socket", d.socket));
    bh_loop_run(d.loop);
    stop(&d);
    return 0;
}
