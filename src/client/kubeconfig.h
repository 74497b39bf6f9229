/* kubeconfig files: reading the current context, writing one of our own. Blocking; start-up code.
 * Thread: any. */
#ifndef BH_CLIENT_KUBECONFIG_H
#define BH_CLIENT_KUBECONFIG_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;

struct bh_kubeconfig {
    const char *host; /* NUL-terminated, in the arena, like all strings here */
    int port;
    bool tls;
    const char *server_name;         /* tls-server-name, or NULL */
    bool insecure;                   /* insecure-skip-tls-verify */
    struct bh_str ca_pem;            /* empty: the system's */
    struct bh_str cert_pem, key_pem; /* empty: none */
    struct bh_str token;
    const char *token_file;  /* where it came from, or NULL: such tokens are renewed there */
    struct bh_str namespace; /* of the context */
};

/* Reads cluster and user of current-context. Files named inside are relative to the kubeconfig.
 * Exec plugins and auth providers are refused: -BH_E_UNSUPPORTED. Errors name the file. */
BH_MUST int bh_kubeconfig_load(struct bh_arena *a, const char *path, struct bh_kubeconfig *ret,
                               struct bh_err *err);

/* Reads a token file. */
BH_MUST int bh_kubeconfig_token(struct bh_arena *a, const char *path, struct bh_str *ret,
                                struct bh_err *err);

/* Writes a kubeconfig with one context, mode 0600, certificates inside. name names cluster, user
 * and context. */
struct bh_kubeconfig_new {
    struct bh_str name;
    struct bh_str server; /* https://127.0.0.1:6443 */
    struct bh_str ca_pem, cert_pem, key_pem, token;
};
BH_MUST int bh_kubeconfig_write(const char *path, const struct bh_kubeconfig_new *k,
                                struct bh_err *err);

#endif
