/* The certificate is issued anew at each start: it is as good as the CA key that lies beside it. */
#include "apiserver/kubeconfig_file.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "data/codec.h"
#include "net/pki.h"

#include <stdio.h>

#define ADMIN_DAYS 365

int bh_admin_kubeconfig_write(const char *cert_dir, const char *data_dir, int port,
                              struct bh_err *err)
{
    static struct bh_str masters[] = {BH_S_INIT("system:masters")};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_pki_req req = {.cn = BH_S("kubernetes-admin"),
                             .orgs = masters,
                             .orgs_n = 1,
                             .client = true,
                             .days = ADMIN_DAYS};
    struct bh_pki_pair ca, pair;
    char crt[4096], key[4096], path[4096];
    BH_AUTO_BUF b = {0};
    int r = bh_path(crt, sizeof(crt), err, "%s/ca.crt", cert_dir);

    if (r == 0)
        r = bh_path(key, sizeof(key), err, "%s/ca.key", cert_dir);
    if (r == 0)
        r = bh_path(path, sizeof(path), err, "%s/admin.kubeconfig", data_dir);
    if (r == 0)
        r = bh_pki_load(a, crt, key, &ca, err);
    if (r == 0)
        r = bh_pki_issue(a, &ca, &req, &pair, err);
    if (r < 0)
        return r;
    bh_buf_addf(&b,
                "apiVersion: v1\nkind: Config\ncurrent-context: bulkhead\nclusters:\n- name: "
                "bulkhead\n  cluster:\n    "
                "server: https://127.0.0.1:%d\n    certificate-authority-data: %.*s\n",
                port, BH_SF(bh_base64(a, ca.cert_pem)));
    bh_buf_addf(&b,
                "users:\n- name: admin\n  user:\n    client-certificate-data: %.*s\n    "
                "client-key-data: %.*s\ncontexts:\n- "
                "name: bulkhead\n  context:\n    cluster: bulkhead\n    user: admin\n",
                BH_SF(bh_base64(a, pair.cert_pem)), BH_SF(bh_base64(a, pair.key_pem)));
    return bh_fs_write_atomic(path, bh_buf_str(&b), 0600, err);
}
