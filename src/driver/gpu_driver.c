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
#include "driver/gpu_health.h"
#include "driver/gpu_profile.h"
#include "driver/gpu_xid.h"
#include "driver/health_watch.h"
#include "driver/metadata_read.h"
#include "driver/slice_publish.h"
#include "net/loop.h"

#define PROFILE_BYTES_MAX (4u << 20)
#define READY_LOOK_MS     10
#define LOOK_NS           ((int64_t)60 * 1000000000)

struct opts {
    const char *driver, *profile, *kubeconfig, *node, *data_dir, *root, *cdi_dir, *policy,
        *metadata;
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
    struct bh_health_watch *policy; /* NULL: the built-in table */
    struct bh_health health;
    struct bh_timer healed; /* when the next device has been healthy long enough */
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
    "  --health-policy NS/NAME  ConfigMap that says what faults mean (default " BH_HEALTH_POLICY_NS
    "/" BH_HEALTH_POLICY_NAME ";\n"
    "                       empty: the built-in table)\n"
    "  --metadata-versions LIST  of the device metadata files; v1alpha1 is the one that is known\n"
    "  --verbose            log debug messages\n";

/* ---- arguments ---- */

static int fail_usage(const char *text, const char *what)
{
    fprintf(stderr, "bulkhead gpu-driver: %s%s\n", text, what);
    return 2;
}

static bool policy_name(const char *text, struct bh_str *ret_ns, struct bh_str *ret_name)
{
    char buf[BH_NAMES_BUF];

    *ret_name = bh_s(text);
    *ret_ns = bh_str_cut(ret_name, '/');
    return !bh_check_dns1123_label(*ret_ns, buf) && !bh_check_dns1123_subdomain(*ret_name, buf);
}

static int args_check(const struct opts *o)
{
    struct bh_str ns, name;
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
    if (!bh_metadata_version_known(bh_s(o->metadata)))
        return fail_usage("none of the requested metadata API versions are supported: ",
                          o->metadata);
    if (o->policy[0] && !policy_name(o->policy, &ns, &name))
        return fail_usage("--health-policy must be NAMESPACE/NAME of a ConfigMap, not ", o->policy);
    return 0;
}

static int args_parse(int argc, char **argv, struct opts *o)
{
    enum {
        SIM,
        NODE,
        KUBECONFIG,
        PROFILE,
        DRIVER,
        ROOT,
        DATA,
        CDI,
        ORPHAN,
        READY,
        POLICY,
        METADATA,
        VERBOSE,
        HELP
    };
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
                                          {"health-policy", required_argument, NULL, POLICY},
                                          {"metadata-versions", required_argument, NULL, METADATA},
                                          {"verbose", no_argument, NULL, VERBOSE},
                                          {"help", no_argument, NULL, HELP},
                                          {NULL, 0, NULL, 0}};
    int c;

    *o = (struct opts){.driver = BH_GPU_DRIVER_NAME,
                       .root = "/var/lib/kubelet",
                       .cdi_dir = "/var/run/cdi",
                       .policy = BH_HEALTH_POLICY_NS "/" BH_HEALTH_POLICY_NAME,
                       .metadata = "v1alpha1",
                       .count = -1,
                       .orphan_grace_s = 120,
                       .ready_fd = -1};
    optind = 1;
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        const char **dst[] = {[NODE] = &o->node,        [KUBECONFIG] = &o->kubeconfig,
                              [PROFILE] = &o->profile,  [DRIVER] = &o->driver,
                              [ROOT] = &o->root,        [DATA] = &o->data_dir,
                              [CDI] = &o->cdi_dir,      [POLICY] = &o->policy,
                              [METADATA] = &o->metadata};

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

static const struct bh_health_policy *policy(const struct gpu_driver *d)
{
    static const struct bh_health_policy builtin;

    return d->policy ? bh_health_watch_policy(d->policy) : &builtin;
}

static struct bh_time now(const struct gpu_driver *d)
{
    int64_t ns = bh_loop_wall_ns(d->loop);

    return (struct bh_time){ns / 1000000000, (int32_t)(ns % 1000000000)};
}

static void taints_add(struct bh_arena *a, const struct gpu_driver *d,
                       const struct bh_health_verdict *v, size_t n,
                       struct bh_resource_v1_device *dev)
{
    dev->taints.p = bh_new_n(a, struct bh_resource_v1_device_taint, n);
    for (dev->taints.n = 0; dev->taints.n < n; dev->taints.n++, v++) {
        struct bh_resource_v1_device_taint *t = &dev->taints.p[dev->taints.n];

        t->key = bh_str_fmt(a, "%s/xid", d->o.driver);
        t->value = bh_str_fmt(a, "%d", v->xid);
        t->effect = bh_s(bh_health_effect_name(v->effect));
        t->time_added = (struct bh_time){v->since.sec + (v->since.nsec >= 500000000), 0};
    }
}

/* What counts for a device: its own faults, those of the GPU that it is part of, and for a GPU
 * those of its partitions, which it contains. */
static size_t verdicts(const struct gpu_driver *d, const struct bh_gpu *g,
                       struct bh_health_verdict v[BH_HEALTH_TAINTS_MAX])
{
    size_t n = bh_health_judge(&d->health, policy(d), g->name, v, 0);

    for (size_t i = 0; g->partitions && i < d->profile.n; i++) {
        const struct bh_gpu *o = &d->profile.gpus[i];

        if (bh_str_eq(o->of, g->name) || (g->of.n && bh_str_eq(o->name, g->of)))
            n = bh_health_judge(&d->health, policy(d), o->name, v, n);
    }
    return n;
}

static struct bh_str health_text(struct bh_arena *a, const struct bh_health_verdict *v)
{
    char when[BH_TIME_BUF];

    if (bh_time_is_zero(v->until))
        return bh_str_fmt(a, "XID %d: %s", v->xid, bh_xid_get(v->xid)->text);
    return bh_str_fmt(a, "XID %d: %s; it went, the device is watched until %.*s%s", v->xid,
                      bh_xid_get(v->xid)->text, BH_SF(bh_time_fmt(v->until, when)),
                      v->flapping ? " because it failed often" : "");
}

/* Devices and their health as the faults and the policy make them. */
static void publish(struct gpu_driver *d)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_resource_v1_device *devs = bh_new_n(a, struct bh_resource_v1_device, d->profile.n);
    struct bh_device_health *health = bh_new_n(a, struct bh_device_health, d->profile.n);
    struct bh_resource_v1_counter_set *counters;
    size_t counters_n;

    for (size_t i = 0; i < d->profile.n; i++) {
        const struct bh_gpu *g = &d->profile.gpus[i];
        struct bh_health_verdict v[BH_HEALTH_TAINTS_MAX];
        size_t n = verdicts(d, g, v);

        bh_gpu_to_device(a, g, i, &devs[i]);
        health[i] = (struct bh_device_health){.device = g->name, .healthy = true};
        if (!n)
            continue;
        taints_add(a, d, v, n, &devs[i]);
        health[i].healthy = v[0].effect == BH_HEALTH_NONE; /* the worst is the first */
        health[i].message = health_text(a, v);
    }
    counters_n = bh_gpu_counters(a, &d->profile, &counters);
    bh_slice_publisher_set(d->pub, devs, d->profile.n, counters, counters_n);
    bh_dra_service_health(d->svc, health, d->profile.n);
}

static void health_store(struct gpu_driver *d)
{
    struct bh_err err = {0};

    if (bh_health_store(&d->health, d->data_dir, &err) < 0)
        bh_log(BH_ERROR, "the health of devices is not kept for the next start",
               BH_CSTR("why", err.msg));
}

/* Publishes what time, faults and policy make of the devices, and looks again when a device will
 * have been healthy long enough. The clock may be set: it is looked at each minute. */
static void health_changed(void *arg)
{
    struct gpu_driver *d = arg;
    int64_t wait;

    if (bh_health_expire(&d->health, policy(d), now(d)))
        health_store(d);
    wait = bh_health_wait_ns(&d->health, policy(d), now(d));
    bh_timer_stop(&d->healed);
    if (wait < INT64_MAX)
        bh_timer_start_ns(&d->healed, wait < LOOK_NS ? wait : LOOK_NS);
    if (d->pub)
        publish(d);
}

/* A file that cannot be read changes nothing: the faults known before still hold. */
static void faults_reload(struct gpu_driver *d)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_faults f = {0};
    struct bh_err err = {0};

    if (bh_faults_load(a, d->data_dir, &f, &err) < 0) {
        bh_log(BH_ERROR, "cannot read the faults, continuing with those known",
               BH_CSTR("why", err.msg));
        return;
    }
    if (bh_health_update(&d->health, &f, now(d)))
        health_store(d);
    bh_log(BH_INFO, "faults read", BH_I64("count", f.n));
    health_changed(d);
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
    if (hit)
        faults_reload(d);
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
    struct bh_str ns, name;
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
    bh_timer_init(&d->healed, d->loop, health_changed, d);
    if (bh_health_load(&d->health, d->data_dir, err) < 0)
        bh_log(BH_ERROR, "the health of devices is not known from before",
               BH_CSTR("why", err->msg));
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
    if (d->o.policy[0] && policy_name(d->o.policy, &ns, &name))
        d->policy = bh_health_watch_new(d->client, ns, name, d->data_dir, health_changed, d);
    d->pub = bh_slice_publisher_new(d->client, d->o.driver, d->o.node);
    faults_reload(d); /* and publishes */
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
    if (d->loop) {
        bh_timer_stop(&d->ready);
        bh_timer_stop(&d->healed);
    }
    d->policy = bh_health_watch_free(d->policy);
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
    bh_health_done(&d->health);
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
