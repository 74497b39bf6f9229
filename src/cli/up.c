/* `bulkhead up`: every role in one process, one node, simulated GPUs from a driver of its own
 * process.
 *
 * The roles use the in-process client; the driver is a child that speaks the real sockets, dies
 * with this process and is started again when it dies. `up --background` starts the same program as
 * a daemon and waits until this start's cluster is ready.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "api/annotations.h"
#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "apiserver/apiserver.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/flags.h"
#include "base/fs.h"
#include "base/log.h"
#include "cli/cluster.h"
#include "cli/pki_dir.h"
#include "client/client.h"
#include "client/kubeconfig.h"
#include "client/role.h"
#include "controllers/controllers.h"
#include "kubelet/kubelet.h"
#include "net/loop.h"
#include "net/signals.h"
#include "runtime/runtime.h"
#include "scheduler/scheduler.h"
#include "store/store.h"

extern char **environ;

#define DRIVER_NAME           "gpu.bulkhead.dev"
#define DRIVER_BACKOFF_MIN_MS 200
#define DRIVER_BACKOFF_MAX_MS 10000
#define DRIVER_STEADY_NS                                                                           \
    ((int64_t)60 * 1000000000) /* a driver that lived so long starts afresh                        \
                                */
#define DRIVER_STOP_MS  3000
#define CERT_DAYS       365
#define DEVICES_DEFAULT 8
#define FREE_BYTES_MIN  (16u << 20)
#define LOG_TAIL_BYTES  1500
#define READY_TIMEOUT_S 60

static const char usage[] =
    "usage: bulkhead up [--data-dir DIR] [--port N] [--kubelet-root DIR] [--devices N] [--profile "
    "FILE]\n"
    "                   [--node-name NAME] [--background] [--confirm-taint-of-all-devices=BOOL]\n"
    "  --data-dir DIR      everything of the cluster (default /var/lib/bulkhead, or "
    "BULKHEAD_DATA_DIR)\n"
    "  --port N            HTTPS port of the API; further ports are N+1, N+2 (default 6443, then "
    "upstream's)\n"
    "  --kubelet-root DIR  pods and plugin sockets (default /var/lib/kubelet; with another data\n"
    "                      directory DIR/kubelet there)\n"
    "  --devices N         simulated GPUs (default 8, or what the profile has; 0: no driver)\n"
    "  --profile FILE      what they are (default: an 8-GPU H200 machine)\n"
    "  --node-name NAME    default: the host's name\n"
    "  --background        return when the cluster is ready; it goes on as a daemon\n"
    "  --confirm-taint-of-all-devices[=BOOL]\n"
    "                      a DeviceTaintRule that selects every device evicts nobody until its "
    "annotation\n"
    "                      " BH_ANNOTATION_CONFIRM_ALL " is \"true\" (default true)\n";

struct up {
    struct bh_arena *a;
    struct cluster c;
    struct bh_loop *loop;
    struct bh_signals *signals;
    struct bh_store *store;
    struct bh_apiserver *api;
    struct bh_client *admin, *sched_client, *ctl_client, *node_client;
    struct bh_scheduler *sched;
    struct bh_controllers *ctl;
    struct bh_kubelet *kubelet;
    struct bh_proc *driver;
    const char *driver_argv[24];
    struct bh_timer driver_again;
    int64_t driver_backoff_ms, driver_start_ns;
    int driver_word_fd; /* where the driver says that it is ready; -1 */
    struct bh_io *driver_word;
    int ready_fd, root_lock;
    bool node_ready, driver_ready, told;
    bool evict_all_unconfirmed; /* --confirm-taint-of-all-devices=false */
    bool ending;
    int64_t start_ns;
};

/* ---- ready ---- */

/* Whoever started us with --background reads one line: "ready", or what went wrong. */
static void tell_starter(struct up *u, const char *line)
{
    if (u->ready_fd < 0)
        return;
    if (write(u->ready_fd, line, strlen(line)) < 0)
        bh_log(BH_WARN, "nobody waits for us");
    (void)close(u->ready_fd);
    u->ready_fd = -1;
}

static void tell_ready(struct up *u)
{
    if (u->told || !u->node_ready || !u->driver_ready)
        return;
    u->told = true;
    bh_log(BH_INFO, "cluster is ready",
           BH_I64("ms", (bh_loop_mono_ns(u->loop) - u->start_ns) / 1000000));
    tell_starter(u, "ready\n");
}

static void node_ready(void *arg)
{
    struct up *u = arg;

    u->node_ready = true;
    tell_ready(u);
}

/* ---- the driver ---- */

static void driver_start(void *arg);

static void driver_word_close(struct up *u)
{
    u->driver_word = bh_io_free(u->driver_word);
    bh_close_p(&u->driver_word_fd);
    u->driver_word_fd = -1;
}

/* This start's driver has published what it has, and the kubelet took it. */
static void driver_said(void *arg, unsigned events)
{
    struct up *u = arg;
    char word[16];
    ssize_t n = read(u->driver_word_fd, word, sizeof(word));

    (void)events;
    driver_word_close(u); /* one word, or its end */
    if (n <= 0)
        return;
    u->driver_ready = true;
    tell_ready(u);
}

static void driver_ended(void *arg, const struct bh_proc_result *r)
{
    struct up *u = arg;

    u->driver = NULL;
    driver_word_close(u);
    if (u->ending) {
        bh_loop_stop(u->loop); /* driver_stop() waits for this */
        return;
    }
    if (bh_loop_mono_ns(u->loop) - u->driver_start_ns > DRIVER_STEADY_NS)
        u->driver_backoff_ms = 0;
    u->driver_backoff_ms = u->driver_backoff_ms ? u->driver_backoff_ms * 2 : DRIVER_BACKOFF_MIN_MS;
    if (u->driver_backoff_ms > DRIVER_BACKOFF_MAX_MS)
        u->driver_backoff_ms = DRIVER_BACKOFF_MAX_MS;
    bh_log(BH_WARN, "GPU driver ended, starting it again", BH_I64("exit_code", r->exit_code),
           BH_I64("signal", r->signal), BH_I64("after_ms", u->driver_backoff_ms));
    bh_timer_start(&u->driver_again, u->driver_backoff_ms);
}

static void driver_args(struct up *u)
{
    struct bh_arena *a = u->a;
    const char **argv = u->driver_argv;
    size_t n = 0;

    argv[n++] = "bulkhead";
    argv[n++] = "gpu-driver";
    argv[n++] = "--ready-fd";
    argv[n++] = "3"; /* the first that the child is given */
    argv[n++] = "--simulate";
    argv[n++] = bh_str_fmt(a, "%d", u->c.devices).p;
    argv[n++] = "--kubeconfig";
    argv[n++] = cluster_path(a, u->c.data_dir, "driver.kubeconfig");
    argv[n++] = "--node-name";
    argv[n++] = bh_kubelet_node(u->kubelet);
    argv[n++] = "--kubelet-root";
    argv[n++] = u->c.kubelet_root;
    argv[n++] = "--data-dir";
    argv[n++] = cluster_path(a, u->c.data_dir, "driver");
    argv[n++] = "--cdi-dir";
    argv[n++] = cluster_path(a, u->c.data_dir, "cdi");
    if (u->c.profile) {
        argv[n++] = "--profile";
        argv[n++] = u->c.profile;
    }
    argv[n] = NULL;
}

static int driver_spawn(struct up *u, struct bh_err *err)
{
    int word[2], r;

    if (pipe2(word, O_CLOEXEC | O_NONBLOCK) < 0)
        return bh_err_sys(err, errno, "pipe");
    r = bh_proc_spawn(u->loop,
                      &(struct bh_proc_opts){.file = "/proc/self/exe",
                                             .argv = u->driver_argv,
                                             .stdout_fd = 2,
                                             .stderr_fd = 2,
                                             .extra_fds = &word[1],
                                             .extra_fds_n = 1,
                                             .die_with_parent = true},
                      driver_ended, u, &u->driver, err);
    (void)close(word[1]);
    u->driver_word_fd = word[0];
    u->driver_word = r < 0 ? NULL : bh_io_new(u->loop, word[0], driver_said, u, err);
    if (u->driver_word)
        bh_io_want(u->driver_word, BH_IO_READ);
    else
        driver_word_close(u);
    return r;
}

static void driver_start(void *arg)
{
    struct up *u = arg;
    struct bh_err err = {0};

    u->driver_start_ns = bh_loop_mono_ns(u->loop);
    if (driver_spawn(u, &err) < 0) {
        bh_log(BH_ERROR, "GPU driver not started", BH_CSTR("error", err.msg));
        bh_timer_start(&u->driver_again, DRIVER_BACKOFF_MAX_MS);
    }
}

static void driver_overdue(void *arg)
{
    bh_loop_stop(arg);
}

/* Ends the driver while everything that it speaks with is still there. */
static void driver_stop(struct up *u)
{
    struct bh_timer limit;

    bh_timer_stop(&u->driver_again);
    if (u->driver) {
        bh_proc_kill(u->driver, SIGTERM);
        bh_timer_init(&limit, u->loop, driver_overdue, u->loop);
        bh_timer_start(&limit, DRIVER_STOP_MS);
        bh_loop_run(u->loop);
        bh_timer_stop(&limit);
    }
    driver_word_close(u);
}

/* ---- the class of the simulated devices ---- */

static void make_class(struct up *u)
{
    struct bh_resource_v1_device_class cls = {0};
    struct bh_resource_v1_device_selector sel = {0};
    struct bh_resource_v1_cel_device_selector cel = {0};

    cls.metadata.name = BH_S(DRIVER_NAME);
    cel.expression = BH_S("device.driver == \"" DRIVER_NAME "\"");
    sel.cel = &cel;
    cls.spec.selectors.p = &sel;
    cls.spec.selectors.n = 1;
    (void)bh_client_create(u->admin, &bh_resource_v1_device_class_kind, (struct bh_str){0}, &cls,
                           NULL, NULL);
}

/* ---- certificates and kubeconfigs ---- */

struct certs {
    struct pki_dir pki;
    struct bh_pki_pair serving, kubelet_serving;
};

/* orgs: groups, comma separated. */
static int client_cert(struct up *u, struct certs *c, const char *file, struct bh_str cn,
                       struct bh_str orgs, const char *kubeconfig, struct bh_err *err)
{
    struct bh_str org[2];
    struct bh_pki_req req = {.cn = cn, .orgs = org, .client = true, .days = CERT_DAYS};
    struct bh_kubeconfig_new k = {.name = BH_S("bulkhead"),
                                  .server = bh_str_fmt(u->a, "https://127.0.0.1:%d", u->c.port),
                                  .ca_pem = c->pki.ca.cert_pem};
    struct bh_pki_pair p;
    int r;

    while (orgs.n && req.orgs_n < BH_COUNT(org))
        org[req.orgs_n++] = bh_str_cut(&orgs, ',');
    r = pki_dir_get(&c->pki, file, &req, &p, err);

    if (r < 0 || !kubeconfig)
        return r;
    k.cert_pem = p.cert_pem;
    k.key_pem = p.key_pem;
    return bh_kubeconfig_write(cluster_path(u->a, u->c.data_dir, kubeconfig), &k, err);
}

static int make_certs(struct up *u, const char *node, struct certs *c, struct bh_err *err)
{
    struct bh_str dns[] = {BH_S("localhost"), BH_S("kubernetes"), BH_S("kubernetes.default"),
                           BH_S("kubernetes.default.svc"), bh_s(node)};
    struct bh_str ips[] = {BH_S("127.0.0.1"), BH_S("::1"), BH_S("10.96.0.1")};
    struct bh_pki_req serve = {.cn = BH_S("kube-apiserver"),
                               .dns = dns,
                               .dns_n = BH_COUNT(dns),
                               .ips = ips,
                               .ips_n = BH_COUNT(ips),
                               .server = true,
                               .days = CERT_DAYS};
    struct bh_str node_user = bh_str_fmt(u->a, "system:node:%s", node);
    int r = pki_dir_open(u->a, cluster_path(u->a, u->c.data_dir, "pki"), &c->pki, err);

    if (r >= 0)
        r = pki_dir_get(&c->pki, "apiserver", &serve, &c->serving, err);
    serve.cn = node_user;
    if (r >= 0)
        r = pki_dir_get(&c->pki, "kubelet-serving", &serve, &c->kubelet_serving, err);
    if (r >= 0)
        r = client_cert(u, c, "admin", BH_S("kubernetes-admin"), BH_S("system:masters"),
                        "kubeconfig", err);
    if (r >= 0)
        r = client_cert(u, c, "apiserver-kubelet-client", BH_S("kube-apiserver-kubelet-client"),
                        BH_S("system:masters"), NULL, err);
    /* For roles that run beside this process, and the driver. */
    if (r >= 0)
        r = client_cert(u, c, "scheduler", BH_S("system:kube-scheduler"), (struct bh_str){0},
                        "scheduler.kubeconfig", err);
    if (r >= 0)
        r = client_cert(u, c, "controller-manager", BH_S("system:kube-controller-manager"),
                        (struct bh_str){0}, "controller-manager.kubeconfig", err);
    if (r >= 0)
        r = client_cert(u, c, "kubelet", node_user, BH_S("system:nodes"), "kubelet.kubeconfig",
                        err);
    if (r >= 0)
        r = client_cert(u, c, "driver", node_user, BH_S("system:nodes,bulkhead:gpu-drivers"),
                        "driver.kubeconfig", err);
    return r;
}

/* ---- start ---- */

static int start_api(struct up *u, struct bh_err *err)
{
    struct bh_apiserver_opts o = {
        .client_ca_file = cluster_path(u->a, u->c.data_dir, "pki/ca.crt"),
        .authorization_mode = "Node,RBAC",
        .disable_admission = "ServiceAccount",
        .kubelet_certificate_authority = cluster_path(u->a, u->c.data_dir, "pki/ca.crt"),
        .kubelet_client_certificate =
            cluster_path(u->a, u->c.data_dir, "pki/apiserver-kubelet-client.crt"),
        .kubelet_client_key =
            cluster_path(u->a, u->c.data_dir, "pki/apiserver-kubelet-client.key")};
    struct bh_apiserver_listen_opts lo = {
        .bind_address = "127.0.0.1",
        .port = u->c.port,
        .cert_dir = cluster_path(u->a, u->c.data_dir, "pki"),
        .tls_cert_file = cluster_path(u->a, u->c.data_dir, "pki/apiserver.crt"),
        .tls_key_file = cluster_path(u->a, u->c.data_dir, "pki/apiserver.key")};
    int r = bh_fs_mkdir_p(cluster_path(u->a, u->c.data_dir, "store"), 0700, err);

    if (r >= 0)
        r = bh_store_open_sqlite(u->loop, cluster_path(u->a, u->c.data_dir, "store/bulkhead.db"),
                                 &u->store, err);
    if (r >= 0)
        r = bh_apiserver_new(u->loop, u->store, &o, &u->api, err);
    if (r >= 0)
        r = bh_apiserver_listen(u->api, &lo, NULL, err);
    return r;
}

static struct bh_client *inproc(struct up *u, const char *user, const char *group,
                                const char *agent)
{
    struct bh_str groups[2] = {BH_S("system:authenticated"), bh_s(group)};

    return bh_client_new_inproc(u->loop, u->api, bh_s(user), groups, group ? 2 : 1, agent);
}

static int start_roles(struct up *u, const char *node, const struct certs *c, struct bh_err *err)
{
    struct bh_scheduler_opts so = {0};
    struct bh_controllers_opts co = {.taints_of_all_unconfirmed = u->evict_all_unconfirmed};
    const char *cdi_dirs[] = {"/etc/cdi", cluster_path(u->a, u->c.data_dir, "cdi"), NULL};
    struct bh_runtime_opts ro = {.loop = u->loop, .data_dir = u->c.data_dir, .cdi_dirs = cdi_dirs};
    struct bh_kubelet_opts ko = {.node_name = node,
                                 .root = u->c.kubelet_root,
                                 .log_dir = cluster_path(u->a, u->c.data_dir, "logs"),
                                 .bind_address = "127.0.0.1",
                                 .port = u->c.kubelet_port,
                                 .node_ip = "127.0.0.1",
                                 .cert_pem = c->kubelet_serving.cert_pem,
                                 .key_pem = c->kubelet_serving.key_pem,
                                 .client_ca_pem = c->pki.ca.cert_pem,
                                 .ready = node_ready,
                                 .arg = u};
    int r;

    u->admin = inproc(u, "system:admin", "system:masters", "bulkhead-up");
    u->sched_client = inproc(u, "system:kube-scheduler", NULL, "bulkhead-scheduler");
    u->ctl_client =
        inproc(u, "system:kube-controller-manager", NULL, "bulkhead-controller-manager");
    u->node_client =
        inproc(u, bh_str_fmt(u->a, "system:node:%s", node).p, "system:nodes", "bulkhead-kubelet");
    make_class(u);
    u->sched = bh_scheduler_new(u->sched_client, &so, err);
    if (!u->sched)
        return -BH_E_INTERNAL;
    u->ctl = bh_controllers_new(u->ctl_client, &co, err);
    if (!u->ctl)
        return -BH_E_INTERNAL;
    r = bh_runtime_embedded_new(&ro, &ko.runtime, err);
    if (r < 0)
        return r;
    ko.client = u->node_client;
    u->kubelet = bh_kubelet_new(&ko, err);
    if (!u->kubelet) {
        (void)bh_runtime_free(ko.runtime);
        return -BH_E_IO;
    }
    if (u->c.devices > 0 || u->c.profile) {
        driver_args(u);
        driver_start(u);
    } else {
        u->driver_ready = true;
    }
    return 0;
}

static void on_signal(void *arg, int signal)
{
    struct up *u = arg;

    bh_log(BH_INFO, "ending", BH_I64("signal", signal));
    u->ending = true;
    bh_loop_stop(u->loop);
}

static void stop_all(struct up *u)
{
    u->ending = true;
    if (u->loop)
        driver_stop(u);
    (void)bh_kubelet_free(u->kubelet);
    (void)bh_scheduler_free(u->sched);
    (void)bh_controllers_free(u->ctl);
    (void)bh_client_free(u->node_client);
    (void)bh_client_free(u->ctl_client);
    (void)bh_client_free(u->sched_client);
    (void)bh_client_free(u->admin);
    (void)bh_apiserver_free(u->api);
    (void)bh_store_free(u->store);
    (void)bh_signals_free(u->signals);
    (void)bh_loop_free(u->loop);
}

static char *default_node(struct bh_arena *a)
{
    char name[256] = "";

    (void)gethostname(name, sizeof(name) - 1);
    struct bh_str s = bh_str_dup(a, name[0] ? bh_s(name) : BH_S("node"));
    char *p = (char *)(uintptr_t)s.p;
    for (size_t i = 0; i < s.n; i++) {
        p[i] = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] - 'A' + 'a') : p[i];
        if (!((p[i] >= 'a' && p[i] <= 'z') || (p[i] >= '0' && p[i] <= '9') || p[i] == '.'))
            p[i] = '-';
    }
    return p;
}

static int says_running(const struct up *u)
{
    printf("The cluster runs already (pid %d, data directory %s).\n",
           cluster_running(u->c.data_dir), u->c.data_dir);
    return 0;
}

static int start_all(struct up *u, const char *node, struct bh_err *err)
{
    struct certs certs;
    int r = cluster_claim_root(u->c.data_dir, u->c.kubelet_root, &u->root_lock, err);

    bh_signals_block();
    if (r >= 0) {
        u->loop = bh_loop_new_real(err);
        r = u->loop ? 0 : -BH_E_IO;
    }
    if (r < 0)
        return r;
    u->start_ns = bh_loop_mono_ns(u->loop);
    bh_timer_init(&u->driver_again, u->loop, driver_start, u);
    u->signals = bh_signals_new(u->loop, on_signal, u, err);
    r = u->signals ? 0 : -BH_E_IO;
    if (r >= 0)
        r = make_certs(u, node, &certs, err);
    if (r >= 0)
        r = start_api(u, err);
    return r < 0 ? r : start_roles(u, node, &certs, err);
}

/* A store that cannot grow fails every write: better not to begin. */
static int check_space(const char *dir, struct bh_err *err)
{
    struct statvfs st;
    uint64_t have;

    if (statvfs(dir, &st) < 0)
        return bh_err_sys(err, errno, "statfs '%s'", dir);
    have = (uint64_t)st.f_bavail * st.f_frsize;
    if (have >= FREE_BYTES_MIN)
        return 0;
    return bh_err_set(err, BH_E_IO, "the disk of %s is full: %llu KiB are free, %u are needed", dir,
                      (unsigned long long)(have >> 10), FREE_BYTES_MIN >> 10);
}

static int run(struct up *u)
{
    const char *node = u->c.node_name ? u->c.node_name : default_node(u->a);
    struct bh_err err = {0};
    int lock = -1, r = bh_fs_mkdir_p(u->c.data_dir, 0700, &err);

    if (r >= 0)
        r = cluster_lock(u->c.data_dir, &lock, &err);
    if (r == -BH_E_BUSY)
        return says_running(u);
    if (r >= 0)
        r = check_space(u->c.data_dir, &err);
    if (r >= 0)
        r = start_all(u, node, &err);
    if (r >= 0) {
        bh_log(BH_INFO, "serving", BH_I64("port", u->c.port), BH_CSTR("data_dir", u->c.data_dir));
        bh_loop_run(u->loop);
    } else {
        fprintf(stderr, "bulkhead up: %s\n", err.msg);
        tell_starter(u, bh_str_fmt(u->a, "%s\n", err.msg).p);
    }
    stop_all(u);
    bh_close_p(&u->root_lock);
    bh_close_p(&lock);
    return r < 0;
}

/* ---- background ---- */

static void say_ready(const struct up *u)
{
    printf("The cluster is ready.\n"
           "\n"
           "  export KUBECONFIG=%s/kubeconfig\n"
           "  kubectl get nodes,resourceslices,deviceclasses\n"
           "  make demo            plays a device fault from beginning to end\n"
           "  bulkhead device list --data-dir %s\n"
           "  make down            stops it (PURGE=1 also removes the data)\n",
           u->c.data_dir, u->c.data_dir);
}

/* The last lines of the log: they often say what is missing. */
static void show_log(const char *log)
{
    char buf[LOG_TAIL_BYTES + 1];
    BH_AUTO_FD fd = open(log, O_RDONLY | O_CLOEXEC);
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    off_t from = size > LOG_TAIL_BYTES ? size - LOG_TAIL_BYTES : 0;
    ssize_t n = fd < 0 ? 0 : pread(fd, buf, LOG_TAIL_BYTES, from);
    struct bh_str tail = {buf, n > 0 ? (size_t)n : 0};

    if (from) /* not in the middle of a line */
        (void)bh_str_cut(&tail, '\n');
    fprintf(stderr, "%.*sbulkhead up: see %s\n", BH_SF(tail), log);
}

/* Waits for the daemon's line: "ready", what went wrong, or nothing because it died. */
static int await_ready(const struct up *u, int fd, const char *log)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char line[BH_ERR_MSG_MAX + 2] = "";
    ssize_t n;
    int r;

    do
        r = poll(&p, 1, READY_TIMEOUT_S * 1000);
    while (r < 0 && errno == EINTR);
    n = r > 0 ? read(fd, line, sizeof(line) - 1) : 0;
    if (n > 0 && strcmp(line, "ready\n") == 0) {
        say_ready(u);
        return 0;
    }
    if (n > 0) {
        fprintf(stderr, "bulkhead up: %s", line);
        return 1;
    }
    if (r == 0)
        fprintf(stderr, "bulkhead up: the cluster is not ready after %d s, it goes on trying\n",
                READY_TIMEOUT_S);
    else
        fprintf(stderr, "bulkhead up: the cluster ended before it was ready\n");
    show_log(log);
    return 1;
}

/* Starts this program again without --background, its output in the log, and waits for its word. */
static int background(struct up *u, char **argv)
{
    const char *log = cluster_path(u->a, u->c.data_dir, "bulkhead.log");
    char fd_text[16];
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    char *args[40];
    struct bh_err err = {0};
    size_t n = 0;
    int pipe_fd[2], pid, eno;

    if (cluster_running(u->c.data_dir))
        return says_running(u);
    if (bh_fs_mkdir_p(u->c.data_dir, 0700, &err) < 0) {
        fprintf(stderr, "bulkhead up: %s\n", err.msg);
        return 1;
    }
    if (pipe2(pipe_fd, 0) < 0 || fcntl(pipe_fd[0], F_SETFD, FD_CLOEXEC) < 0) {
        perror("bulkhead: pipe");
        return 1;
    }
    snprintf(fd_text, sizeof(fd_text), "%d", pipe_fd[1]);
    args[n++] = (char[]){"bulkhead"};
    args[n++] = (char[]){"up"};
    for (size_t i = 1; argv[i] && n < 36; i++)
        if (strcmp(argv[i], "--background") != 0)
            args[n++] = argv[i];
    args[n++] = (char[]){"--ready-fd"};
    args[n++] = fd_text;
    args[n] = NULL;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&fa, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&fa, 1, 2);
    posix_spawnattr_init(&at);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSID);
    eno = posix_spawn(&pid, "/proc/self/exe", &fa, &at, args, environ);
    posix_spawn_file_actions_destroy(&fa);
    posix_spawnattr_destroy(&at);
    (void)close(pipe_fd[1]);
    if (eno) {
        fprintf(stderr, "bulkhead: cannot start: %s\n", strerrordesc_np(eno));
        return 1;
    }
    return await_ready(u, pipe_fd[0], log);
}

int bh_up_main(int argc, char **argv)
{
    enum { DATA = 1, PORT, ROOT, DEVICES, PROFILE, NODE, BACKGROUND, CONFIRM, READY_FD, HELP };
    static const struct option longs[] = {
        {"data-dir", required_argument, NULL, DATA},
        {"port", required_argument, NULL, PORT},
        {"kubelet-root", required_argument, NULL, ROOT},
        {"devices", required_argument, NULL, DEVICES},
        {"profile", required_argument, NULL, PROFILE},
        {"node-name", required_argument, NULL, NODE},
        {"background", no_argument, NULL, BACKGROUND},
        {"confirm-taint-of-all-devices", optional_argument, NULL, CONFIRM},
        {"ready-fd", required_argument, NULL, READY_FD},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0}};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct up u = {.a = a,
                   .c = {.port = CLUSTER_PORT, .kubelet_port = CLUSTER_KUBELET_PORT, .devices = -1},
                   .ready_fd = -1,
                   .root_lock = -1,
                   .driver_word_fd = -1};
    const char *data = NULL;
    bool daemon = false, confirm = true;
    int64_t n;
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case DATA:
            data = optarg;
            break;
        case PORT:
            if (!bh_str_i64(bh_s(optarg), 1, 65533, &n)) {
                fprintf(stderr, "bulkhead up: --port must be a number from 1 to 65533, not %s\n",
                        optarg);
                return 2;
            }
            u.c.port = (int)n;
            u.c.kubelet_port = (int)n + 1;
            break;
        case ROOT:
            u.c.kubelet_root =
                cluster_data_dir(a, optarg); /* the same rules: absolute, no slash at the end */
            break;
        case DEVICES:
            if (!bh_str_i64(bh_s(optarg), 0, 1024, &n)) {
                fprintf(stderr, "bulkhead up: --devices must be a number from 0 to 1024, not %s\n",
                        optarg);
                return 2;
            }
            u.c.devices = (int)n;
            break;
        case PROFILE:
            u.c.profile = cluster_data_dir(a, optarg); /* absolute: the daemon has no directory */
            break;
        case NODE:
            u.c.node_name = optarg;
            break;
        case BACKGROUND:
            daemon = true;
            break;
        case CONFIRM:
            if (!bh_flag_bool(optarg, &confirm)) {
                fprintf(stderr, "bulkhead up: --confirm-taint-of-all-devices: not a boolean: %s\n",
                        optarg);
                return 2;
            }
            u.evict_all_unconfirmed = !confirm;
            break;
        case READY_FD:
            if (!bh_str_i64(bh_s(optarg), 3, 1024, &n))
                return 2;
            u.ready_fd = (int)n;
            (void)fcntl(u.ready_fd, F_SETFD, FD_CLOEXEC);
            break;
        case HELP:
            fputs(usage, stdout);
            return 0;
        default:
            fputs(usage, stderr);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "bulkhead up: unexpected argument %s\n%s", argv[optind], usage);
        return 2;
    }
    if (geteuid() != 0) {
        fprintf(stderr, "bulkhead up: containers need root\n");
        return 1;
    }
    if (u.c.profile && access(u.c.profile, R_OK) < 0) {
        fprintf(stderr, "bulkhead up: --profile %s: %s\n", u.c.profile, strerrordesc_np(errno));
        return 2;
    }
    if (u.c.devices < 0) /* as many as the profile has */
        u.c.devices = u.c.profile ? 0 : DEVICES_DEFAULT;
    u.c.data_dir = cluster_data_dir(a, data);
    if (!u.c.kubelet_root)
        u.c.kubelet_root = strcmp(u.c.data_dir, CLUSTER_DATA_DIR) == 0
                               ? CLUSTER_KUBELET_ROOT
                               : cluster_path(a, u.c.data_dir, "kubelet");
    if (daemon)
        return background(&u, argv);
    bh_log_init(BH_INFO, "bulkhead");
    return run(&u);
}
