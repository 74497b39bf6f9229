/* A CA of our own, a serving certificate with every name and address of this machine, and client
 * certificates. */
#include "apiserver/serving_certs.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "net/pki.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CA_DAYS       3650
#define LEAF_DAYS     365
#define RENEW_S       ((int64_t)30 * 86400)
#define NAMES_MAX     64
#define PEM_BYTES_MAX (1u << 20)

static int path_of(char *buf, size_t n, const char *dir, const char *file, struct bh_err *err)
{
    return bh_path(buf, n, err, "%s/%s", dir, file);
}

static int64_t wall_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return ts.tv_sec;
}

static int load_or_make_ca(struct bh_arena *a, const char *dir, struct bh_pki_pair *ret,
                           struct bh_err *err)
{
    char crt[4096], key[4096];
    int r = bh_fs_mkdir_p(dir, 0700, err);

    if (r == 0)
        r = path_of(crt, sizeof(crt), dir, "ca.crt", err);
    if (r == 0)
        r = path_of(key, sizeof(key), dir, "ca.key", err);
    if (r < 0)
        return r;
    if (bh_fs_exists(crt) && bh_fs_exists(key))
        return bh_pki_load(a, crt, key, ret, err);
    r = bh_pki_make_ca(a, "kubernetes", CA_DAYS, ret, err);
    if (r == 0)
        r = bh_pki_save(crt, key, ret, err);
    return r;
}

/* Loads a leaf when it is still good (and holds the names wanted), else issues and saves a new one.
 */
static int load_or_issue(struct bh_arena *a, const char *dir, const char *name,
                         const struct bh_pki_pair *ca, const struct bh_pki_req *req,
                         struct bh_pki_pair *ret, struct bh_err *err)
{
    char crt[4096], key[4096];
    struct bh_pki_info info;
    int r = bh_path(crt, sizeof(crt), err, "%s/%s.crt", dir, name);

    if (r == 0)
        r = bh_path(key, sizeof(key), err, "%s/%s.key", dir, name);
    if (r < 0)
        return r;
    if (bh_fs_exists(crt) && bh_pki_load(a, crt, key, ret, NULL) == 0 &&
        bh_pki_check(ret, ca->cert_pem, wall_s(), RENEW_S, NULL) == 0 &&
        bh_pki_inspect(a, ret->cert_pem, &info, NULL) == 0) {
        bool all = true;

        for (size_t i = 0; i < req->ips_n; i++) {
            bool have = false;

            for (size_t j = 0; j < info.ips.n; j++)
                have |= bh_str_eq(info.ips.p[j], req->ips[i]);
            all &= have;
        }
        if (all)
            return 0;
    }
    r = bh_pki_issue(a, ca, req, ret, err);
    if (r == 0)
        r = bh_pki_save(crt, key, ret, err);
    return r;
}

static void add(struct bh_str *v, size_t *n, struct bh_str s)
{
    for (size_t i = 0; i < *n; i++)
        if (bh_str_eq(v[i], s))
            return;
    if (*n < NAMES_MAX && s.n > 0)
        v[(*n)++] = s;
}

static void add_addresses(struct bh_arena *a, struct bh_str *ips, size_t *n)
{
    struct ifaddrs *all = NULL;
    char text[INET6_ADDRSTRLEN];

    if (getifaddrs(&all) < 0)
        return;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        const void *at = NULL;

        if (!i->ifa_addr || (i->ifa_flags & IFF_UP) == 0)
            continue;
        if (i->ifa_addr->sa_family == AF_INET)
            at = &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
        else if (i->ifa_addr->sa_family == AF_INET6 &&
                 !IN6_IS_ADDR_LINKLOCAL(
                     &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr))
            at = &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr;
        if (at && inet_ntop(i->ifa_addr->sa_family, at, text, sizeof(text)))
            add(ips, n, bh_str_dup(a, bh_s(text)));
    }
    freeifaddrs(all);
}

static bool is_address(const char *s)
{
    unsigned char buf[16];

    return inet_pton(AF_INET, s, buf) == 1 || inet_pton(AF_INET6, s, buf) == 1;
}

static int serving_pair(struct bh_arena *a, const struct bh_apiserver_listen_opts *o,
                        const struct bh_pki_pair *ca, struct bh_pki_pair *ret, struct bh_err *err)
{
    static const char *const fixed[] = {"kubernetes", "kubernetes.default",
                                        "kubernetes.default.svc",
                                        "kubernetes.default.svc.cluster.local", "localhost"};
    struct bh_str dns[NAMES_MAX], ips[NAMES_MAX];
    struct bh_pki_req req = {
        .cn = BH_S("kube-apiserver"), .dns = dns, .ips = ips, .server = true, .days = LEAF_DAYS};
    char host[256] = "";

    for (size_t i = 0; i < BH_COUNT(fixed); i++)
        add(dns, &req.dns_n, bh_s(fixed[i]));
    if (gethostname(host, sizeof(host) - 1) == 0)
        add(dns, &req.dns_n, bh_s(host));
    add(ips, &req.ips_n, BH_S("127.0.0.1"));
    add(ips, &req.ips_n, BH_S("::1"));
    add(ips, &req.ips_n, BH_S("10.96.0.1"));
    for (size_t i = 0; i < o->extra_names_n; i++) {
        if (is_address(o->extra_names[i]))
            add(ips, &req.ips_n, bh_s(o->extra_names[i]));
        else
            add(dns, &req.dns_n, bh_s(o->extra_names[i]));
    }
    add_addresses(a, ips, &req.ips_n);
    return load_or_issue(a, o->cert_dir, "apiserver", ca, &req, ret, err);
}

static int read_pem(struct bh_arena *a, const char *path, struct bh_str *ret, struct bh_err *err)
{
    BH_AUTO_BUF b = {0};
    int r = bh_fs_read(path, PEM_BYTES_MAX, &b, err);

    if (r == 0)
        *ret = bh_str_dup(a, bh_buf_str(&b));
    return r;
}

static int kubelet_tls(struct bh_arena *a, const struct bh_apiserver_listen_opts *o,
                       const struct bh_kubelet_files *k, const struct bh_pki_pair *ca,
                       struct bh_tls **ret, struct bh_err *err)
{
    static struct bh_str masters[] = {BH_S_INIT("system:masters")};
    struct bh_pki_req req = {.cn = BH_S("kube-apiserver-kubelet-client"),
                             .orgs = masters,
                             .orgs_n = 1,
                             .client = true,
                             .days = LEAF_DAYS};
    struct bh_pki_pair client = {{NULL, 0}, {NULL, 0}};
    struct bh_tls_opts to = {.insecure_skip_verify = !k->ca};
    int r = 0;

    if (k->cert)
        r = bh_pki_load(a, k->cert, k->key ? k->key : k->cert, &client, err);
    else if (o->cert_dir)
        r = load_or_issue(a, o->cert_dir, "apiserver-kubelet-client", ca, &req, &client, err);
    if (r == 0 && k->ca)
        r = read_pem(a, k->ca, &to.ca_pem, err);
    if (r < 0)
        return r;
    to.cert_pem = client.cert_pem;
    to.key_pem = client.key_pem;
    *ret = bh_tls_new(&to, err);
    return *ret ? 0 : err ? -(int)err->code : -BH_E_INTERNAL;
}

int bh_serving_tls(const struct bh_apiserver_listen_opts *o, const char *client_ca_file,
                   const struct bh_kubelet_files *k, struct bh_tls **ret,
                   struct bh_tls **ret_kubelet, struct bh_err *err)
{
    static const char *const alpn[] = {"h2", "http/1.1", NULL};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_pki_pair ca = {{NULL, 0}, {NULL, 0}}, pair;
    struct bh_tls_opts to = {.server = true, .alpn = alpn};
    int r = 0;

    if (o->cert_dir)
        r = load_or_make_ca(a, o->cert_dir, &ca, err);
    if (r == 0 && o->tls_cert_file) {
        r = bh_pki_load(a, o->tls_cert_file, o->tls_key_file ? o->tls_key_file : o->tls_cert_file,
                        &pair, err);
    } else if (r == 0) {
        if (!o->cert_dir)
            return bh_err_set(err, BH_E_INVALID,
                              "neither a certificate nor a directory to make one in was given");
        r = serving_pair(a, o, &ca, &pair, err);
    }
    if (r < 0)
        return r;
    to.cert_pem = pair.cert_pem;
    to.key_pem = pair.key_pem;
    to.ca_pem = ca.cert_pem;
    if (client_ca_file) {
        struct bh_str more;

        r = read_pem(a, client_ca_file, &more, err);
        if (r < 0)
            return r;
        to.ca_pem = bh_str_fmt(a, "%.*s\n%.*s", BH_SF(ca.cert_pem), BH_SF(more));
    }
    *ret = bh_tls_new(&to, err);
    if (!*ret)
        return err ? -(int)err->code : -BH_E_INTERNAL;
    return *ret_kubelet ? 0 : kubelet_tls(a, o, k, &ca, ret_kubelet, err);
}
