/* `bulkhead kubelet`: the node agent as a process of its own, with the embedded runtime. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/flags.h"
#include "base/fs.h"
#include "client/client.h"
#include "client/role.h"
#include "kubelet/kubelet.h"
#include "runtime/runtime.h"

static const char usage[] =
    "usage: bulkhead kubelet --kubeconfig FILE [options]\n"
    "  --root-dir DIR             state of pods and plugins (default /var/lib/kubelet)\n"
    "  --data-dir DIR             state of the container runtime (default /var/lib/bulkhead)\n"
    "  --hostname-override NAME   the node's name (default: the host's)\n"
    "  --node-ip ADDRESS          its address (default: the first that is not loopback)\n"
    "  --address ADDRESS          where the kubelet API listens (default 0.0.0.0)\n"
    "  --port N                   its port (default 10250; 0: none). Needs the three files:\n"
    "  --tls-cert-file FILE --tls-private-key-file FILE --client-ca-file FILE\n"
    "  --leader-elect[=BOOL]      accepted, and without effect: a node has one agent\n";

struct kubelet_args {
    struct bh_kubelet_opts o;
    const char *data_dir, *cert, *key, *ca;
    struct bh_arena *arena;
};

static int load(struct bh_arena *a, const char *path, struct bh_str *ret, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = 1 << 20};
    int r = bh_fs_read(path, b.max, &b, err);

    if (r >= 0)
        *ret = bh_str_dup(a, bh_buf_str(&b));
    return r;
}

static void *start(void *arg, struct bh_client *c, struct bh_err *err)
{
    struct kubelet_args *ka = arg;
    /* Where vendors' drivers write, and where the driver of a cluster of its own does. */
    const char *cdi_dirs[] = {"/etc/cdi", "/var/run/cdi",
                              bh_str_fmt(ka->arena, "%s/cdi", ka->data_dir).p, NULL};
    struct bh_runtime_opts ro = {
        .loop = bh_client_loop(c), .data_dir = ka->data_dir, .cdi_dirs = cdi_dirs};
    struct bh_kubelet *k;

    if (ka->o.port && (!ka->cert || !ka->key || !ka->ca)) {
        (void)bh_err_set(err, BH_E_BAD_REQUEST,
                         "a port needs --tls-cert-file, --tls-private-key-file and "
                         "--client-ca-file (or --port 0)");
        return NULL;
    }
    if (ka->o.port && (load(ka->arena, ka->cert, &ka->o.cert_pem, err) < 0 ||
                       load(ka->arena, ka->key, &ka->o.key_pem, err) < 0 ||
                       load(ka->arena, ka->ca, &ka->o.client_ca_pem, err) < 0))
        return NULL;
    if (bh_runtime_embedded_new(&ro, &ka->o.runtime, err) < 0)
        return NULL;
    ka->o.client = c;
    k = bh_kubelet_new(&ka->o, err);
    if (!k)
        (void)bh_runtime_free(ka->o.runtime);
    return k;
}

static void stop(void *self)
{
    (void)bh_kubelet_free(self);
}

int bh_kubelet_main(int argc, char **argv)
{
    enum { KUBECONFIG = 1, LEADER, ROOT, DATA, NAME, IP, ADDRESS, PORT, CERT, KEY, CA, HELP };
    static const struct option longs[] = {{"kubeconfig", required_argument, NULL, KUBECONFIG},
                                          {"leader-elect", optional_argument, NULL, LEADER},
                                          {"root-dir", required_argument, NULL, ROOT},
                                          {"data-dir", required_argument, NULL, DATA},
                                          {"hostname-override", required_argument, NULL, NAME},
                                          {"node-ip", required_argument, NULL, IP},
                                          {"address", required_argument, NULL, ADDRESS},
                                          {"port", required_argument, NULL, PORT},
                                          {"tls-cert-file", required_argument, NULL, CERT},
                                          {"tls-private-key-file", required_argument, NULL, KEY},
                                          {"client-ca-file", required_argument, NULL, CA},
                                          {"help", no_argument, NULL, HELP},
                                          {NULL, 0, NULL, 0}};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct kubelet_args ka = {.o = {.root = "/var/lib/kubelet", .port = 10250},
                              .data_dir = "/var/lib/bulkhead",
                              .arena = a};
    struct bh_role r = {.name = "bulkhead-kubelet", .start = start, .stop = stop, .arg = &ka};
    const char **const texts[] = {[KUBECONFIG] = &r.kubeconfig,
                                  [ROOT] = &ka.o.root,
                                  [DATA] = &ka.data_dir,
                                  [NAME] = &ka.o.node_name,
                                  [IP] = &ka.o.node_ip,
                                  [ADDRESS] = &ka.o.bind_address,
                                  [CERT] = &ka.cert,
                                  [KEY] = &ka.key,
                                  [CA] = &ka.ca,
                                  [HELP] = NULL};
    int64_t n;
    bool ignored;
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (c == HELP) {
            fputs(usage, stdout);
            return 0;
        }
        if (c == PORT) {
            if (!bh_str_i64(bh_s(optarg), 0, 65535, &n)) {
                fprintf(stderr, "--port: not a port: %s\n", optarg);
                return 2;
            }
            ka.o.port = (int)n;
        } else if (c == LEADER) {
            if (!bh_flag_bool(optarg, &ignored)) {
                fprintf(stderr, "--leader-elect: not a boolean: %s\n", optarg);
                return 2;
            }
        } else if (c > 0 && (size_t)c < BH_COUNT(texts) && texts[c]) {
            *texts[c] = optarg;
        } else {
            fputs(usage, stderr);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "unexpected argument %s\n%s", argv[optind], usage);
        return 2;
    }
    return bh_role_run(&r);
}
