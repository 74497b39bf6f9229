/* `bulkhead apiserver`: flags named as kube-apiserver's, an embedded store in --data-dir. */
#include "apiserver/apiserver.h"
#include "apiserver/kubeconfig_file.h"
#include "base/arena.h"
#include "base/fs.h"
#include "base/log.h"
#include "net/loop.h"
#include "store/store.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct config {
    const char *data_dir;
    int port;
    bool help;
    struct bh_apiserver_opts srv;
    struct bh_apiserver_listen_opts listen;
};

enum opt {
    OPT_DATA_DIR = 256,
    OPT_PORT,
    OPT_BIND,
    OPT_TOKENS,
    OPT_CLIENT_CA,
    OPT_CERT,
    OPT_KEY,
    OPT_AUTHZ,
    OPT_ENABLE,
    OPT_DISABLE,
    OPT_GATES,
    OPT_RUNTIME,
    OPT_CIDR,
    OPT_ANONYMOUS,
    OPT_KUBELET_CA,
    OPT_KUBELET_CERT,
    OPT_KUBELET_KEY,
    OPT_HELP,
    OPT_ACCEPTED, /* upstream's flags that change nothing here */
};

static const struct option options[] = {
    {"data-dir", required_argument, NULL, OPT_DATA_DIR},
    {"secure-port", required_argument, NULL, OPT_PORT},
    {"bind-address", required_argument, NULL, OPT_BIND},
    {"token-auth-file", required_argument, NULL, OPT_TOKENS},
    {"client-ca-file", required_argument, NULL, OPT_CLIENT_CA},
    {"tls-cert-file", required_argument, NULL, OPT_CERT},
    {"tls-private-key-file", required_argument, NULL, OPT_KEY},
    {"authorization-mode", required_argument, NULL, OPT_AUTHZ},
    {"enable-admission-plugins", required_argument, NULL, OPT_ENABLE},
    {"disable-admission-plugins", required_argument, NULL, OPT_DISABLE},
    {"feature-gates", required_argument, NULL, OPT_GATES},
    {"runtime-config", required_argument, NULL, OPT_RUNTIME},
    {"service-cluster-ip-range", required_argument, NULL, OPT_CIDR},
    {"anonymous-auth", required_argument, NULL, OPT_ANONYMOUS},
    {"kubelet-certificate-authority", required_argument, NULL, OPT_KUBELET_CA},
    {"kubelet-client-certificate", required_argument, NULL, OPT_KUBELET_CERT},
    {"kubelet-client-key", required_argument, NULL, OPT_KUBELET_KEY},
    {"allow-privileged", required_argument, NULL, OPT_ACCEPTED},
    {"service-account-issuer", required_argument, NULL, OPT_ACCEPTED},
    {"service-account-key-file", required_argument, NULL, OPT_ACCEPTED},
    {"service-account-signing-key-file", required_argument, NULL, OPT_ACCEPTED},
    {"advertise-address", required_argument, NULL, OPT_ACCEPTED},
    {"v", required_argument, NULL, OPT_ACCEPTED},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static const char usage[] =
    "usage: bulkhead apiserver --data-dir DIR [flags]\n"
    "\n"
    "  --data-dir DIR                    store, certificates and admin.kubeconfig (required)\n"
    "  --secure-port N                   6443; 0 picks a free port\n"
    "  --bind-address A                  0.0.0.0\n"
    "  --token-auth-file FILE            CSV: token,user,uid,\"group,group\"\n"
    "  --client-ca-file FILE             more CAs of client certificates\n"
    "  --tls-cert-file, --tls-private-key-file FILE   instead of certificates made in the data "
    "directory\n"
    "  --authorization-mode MODES        Node,RBAC, or AlwaysAllow\n"
    "  --enable-admission-plugins, --disable-admission-plugins NAMES\n"
    "  --feature-gates, --runtime-config NAME=BOOL,…\n"
    "  --service-cluster-ip-range CIDR   10.96.0.0/16\n"
    "  --anonymous-auth BOOL             true\n"
    "  --kubelet-certificate-authority, --kubelet-client-certificate, --kubelet-client-key FILE\n"
    "                                    for connections to kubelets (logs)\n";

static int set_option(struct config *c, int opt, const char *v, struct bh_err *err)
{
    int64_t n;

    switch (opt) {
    case OPT_DATA_DIR:
        c->data_dir = v;
        return 0;
    case OPT_PORT:
        if (!bh_str_i64(bh_s(v), 0, 65535, &n))
            return bh_err_set(err, BH_E_INVALID, "--secure-port: '%s' is no port", v);
        c->listen.port = (int)n;
        return 0;
    case OPT_BIND:
        c->listen.bind_address = v;
        return 0;
    case OPT_TOKENS:
        c->srv.token_auth_file = v;
        return 0;
    case OPT_CLIENT_CA:
        c->srv.client_ca_file = v;
        return 0;
    case OPT_CERT:
        c->listen.tls_cert_file = v;
        return 0;
    case OPT_KEY:
        c->listen.tls_key_file = v;
        return 0;
    case OPT_AUTHZ:
        c->srv.authorization_mode = v;
        return 0;
    case OPT_ENABLE:
        c->srv.enable_admission = v;
        return 0;
    case OPT_DISABLE:
        c->srv.disable_admission = v;
        return 0;
    case OPT_GATES:
        c->srv.feature_gates = v;
        return 0;
    case OPT_RUNTIME:
        c->srv.runtime_config = v;
        return 0;
    case OPT_CIDR:
        c->srv.service_cidr = v;
        return 0;
    case OPT_ANONYMOUS:
        c->srv.no_anonymous = strcmp(v, "false") == 0;
        return 0;
    case OPT_KUBELET_CA:
        c->srv.kubelet_certificate_authority = v;
        return 0;
    case OPT_KUBELET_CERT:
        c->srv.kubelet_client_certificate = v;
        return 0;
    case OPT_KUBELET_KEY:
        c->srv.kubelet_client_key = v;
        return 0;
    case OPT_HELP:
        c->help = true;
        return 0;
    case OPT_ACCEPTED:
        return 0;
    default:
        return bh_err_set(err, BH_E_INVALID, "unknown flag, see --help");
    }
}

static int read_flags(struct config *c, int argc, char **argv, struct bh_err *err)
{
    int opt, r = 0;

    c->listen.port = 6443;
    optind = 1;
    while (r == 0 && (opt = getopt_long(argc, argv, "", options, NULL)) != -1)
        r = set_option(c, opt, optarg, err);
    if (r == 0 && !c->help && !c->data_dir)
        r = bh_err_set(err, BH_E_INVALID, "--data-dir is required");
    return r;
}

/* SIGTERM and SIGINT end the loop in order. */
static void on_signal(void *arg, unsigned events)
{
    (void)events;
    bh_loop_stop(arg);
}

static int run(struct config *c, struct bh_loop *l, struct bh_store *store, struct bh_err *err)
{
    struct bh_apiserver *srv = NULL;
    struct bh_io *io = NULL;
    sigset_t set;
    int fd = -1, port = 0, r = bh_apiserver_new(l, store, &c->srv, &srv, err);

    if (r == 0)
        r = bh_apiserver_listen(srv, &c->listen, &port, err);
    if (r == 0)
        r = bh_admin_kubeconfig_write(c->listen.cert_dir, c->data_dir, port, err);
    if (r == 0) {
        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGTERM);
        (void)sigaddset(&set, SIGINT);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
        fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        io = bh_io_new(l, fd, on_signal, l, err);
        if (io)
            bh_io_want(io, BH_IO_READ);
        bh_log(BH_INFO, "serving", BH_I64("port", port), BH_CSTR("data", c->data_dir));
        bh_loop_run(l);
        bh_log(BH_INFO, "stopping");
    }
    io = bh_io_free(io);
    if (fd >= 0)
        (void)close(fd);
    bh_apiserver_free(srv);
    return r;
}

static int start(struct config *c, struct bh_err *err)
{
    char path[4096], certs[4096];
    struct bh_store *store = NULL;
    struct bh_loop *l;
    int r = bh_fs_mkdir_p(c->data_dir, 0700, err);

    if (r == 0)
        r = bh_path(path, sizeof(path), err, "%s/state.db", c->data_dir);
    if (r == 0)
        r = bh_path(certs, sizeof(certs), err, "%s/pki", c->data_dir);
    if (r < 0)
        return r;
    c->listen.cert_dir = certs;
    l = bh_loop_new_real(err);
    if (!l)
        return -(int)err->code;
    r = bh_store_open_sqlite(l, path, &store, err);
    if (r == 0)
        r = run(c, l, store, err);
    bh_store_free(store);
    bh_loop_free(l);
    return r;
}

int bh_apiserver_main(int argc, char **argv)
{
    struct config c = {0};
    struct bh_err err = {0};

    bh_log_init(BH_INFO, "apiserver");
    if (read_flags(&c, argc, argv, &err) < 0) {
        fprintf(stderr, "bulkhead apiserver: %s\n", err.msg);
        return 2;
    }
    if (c.help) {
        fputs(usage, stdout);
        return 0;
    }
    if (start(&c, &err) < 0) {
        bh_log(BH_ERROR, "the API server could not run", BH_CSTR("error", err.msg));
        return 1;
    }
    return 0;
}
