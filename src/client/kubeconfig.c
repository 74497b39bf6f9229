/* kubeconfig files. */
#include "client/kubeconfig.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "data/codec.h"
#include "data/json.h"
#include "data/yaml.h"

#define FILE_BYTES_MAX  ((size_t)4 << 20)
#define TOKEN_BYTES_MAX 65536

/* The element of a list of {name, KEY} whose name is this. */
static const struct bh_jv *named(const struct bh_jv *list, struct bh_str name, const char *key)
{
    for (size_t i = 0; list && list->kind == BH_JSON_ARR && i < list->n_items; i++)
        if (bh_str_eq(bh_jv_get_str(&list->items[i], "name"), name))
            return bh_jv_getc(&list->items[i], key);
    return NULL;
}

/* A path in a kubeconfig is relative to the kubeconfig itself. */
static const char *beside(struct bh_arena *a, const char *path, struct bh_str file)
{
    struct bh_str dir = bh_s(path);

    while (dir.n && dir.p[dir.n - 1] != '/')
        dir.n--;
    if (file.n && file.p[0] == '/')
        return bh_str_dup(a, file).p;
    return bh_str_fmt(a, "%.*s%.*s", BH_SF(dir), BH_SF(file)).p;
}

/* The value of KEY-data (base64), else the content of the file that KEY names. */
static int blob(struct bh_arena *a, const char *path, const struct bh_jv *o, const char *key,
                struct bh_str *ret, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};
    struct bh_str data = bh_jv_get_str(o, bh_str_fmt(a, "%s-data", key).p),
                  file = bh_jv_get_str(o, key);
    int r;

    if (data.n) {
        r = bh_base64_decode(a, data, ret, err);
        return r < 0 ? bh_err_wrap(err, "%s: %s-data", path, key) : 0;
    }
    if (!file.n)
        return 0;
    r = bh_fs_read(beside(a, path, file), FILE_BYTES_MAX, &b, err);
    if (r < 0)
        return bh_err_wrap(err, "%s: %s", path, key);
    *ret = bh_str_dup(a, bh_buf_str(&b));
    return 0;
}

static int parse_server(struct bh_arena *a, const char *path, struct bh_str url,
                        struct bh_kubeconfig *ret, struct bh_err *err)
{
    struct bh_str rest = url, host;
    int64_t port;
    ptrdiff_t colon;

    ret->tls = bh_str_starts(url, BH_S("https://"));
    if (!ret->tls && !bh_str_starts(url, BH_S("http://")))
        return bh_err_set(err, BH_E_BAD_REQUEST, "%s: server \"%.*s\" is not an http(s) URL", path,
                          BH_SF(url));
    rest = bh_str_sub(url, ret->tls ? 8 : 7, url.n);
    host = bh_str_cut(&rest, '/');
    if (rest.n)
        return bh_err_set(err, BH_E_UNSUPPORTED, "%s: a server with a path: \"%.*s\"", path,
                          BH_SF(url));
    port = ret->tls ? 443 : 80;
    if (host.n && host.p[0] == '[') { /* [::1]:6443 */
        ptrdiff_t end = bh_str_chr(host, ']', 0);

        if (end < 0)
            return bh_err_set(err, BH_E_BAD_REQUEST, "%s: server \"%.*s\"", path, BH_SF(url));
        rest = bh_str_sub(host, (size_t)end + 1, host.n);
        host = bh_str_sub(host, 1, (size_t)end);
        colon = rest.n ? 0 : -1;
    } else {
        rest = host;
        colon = bh_str_chr(host, ':', 0);
        if (colon >= 0)
            host = bh_str_sub(host, 0, (size_t)colon);
    }
    if (colon >= 0 && !bh_str_i64(bh_str_sub(rest, (size_t)colon + 1, rest.n), 1, 65535, &port))
        return bh_err_set(err, BH_E_BAD_REQUEST, "%s: server \"%.*s\": bad port", path, BH_SF(url));
    if (!host.n)
        return bh_err_set(err, BH_E_BAD_REQUEST, "%s: server \"%.*s\" names no host", path,
                          BH_SF(url));
    ret->host = bh_str_dup(a, host).p;
    ret->port = (int)port;
    return 0;
}

int bh_kubeconfig_token(struct bh_arena *a, const char *path, struct bh_str *ret,
                        struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = TOKEN_BYTES_MAX};
    int r = bh_fs_read(path, TOKEN_BYTES_MAX, &b, err);

    if (r >= 0)
        *ret = bh_str_dup(a, bh_str_trim(bh_buf_str(&b)));
    return r;
}

static int load_user(struct bh_arena *a, const char *path, const struct bh_jv *user,
                     struct bh_kubeconfig *ret, struct bh_err *err)
{
    struct bh_str file;
    int r;

    if (bh_jv_getc(user, "exec") || bh_jv_getc(user, "auth-provider"))
        return bh_err_set(err, BH_E_UNSUPPORTED,
                          "%s: exec and auth-provider credentials are not supported", path);
    r = blob(a, path, user, "client-certificate", &ret->cert_pem, err);
    if (r >= 0)
        r = blob(a, path, user, "client-key", &ret->key_pem, err);
    if (r < 0)
        return r;
    ret->token = bh_str_dup(a, bh_jv_get_str(user, "token"));
    file = bh_jv_get_str(user, "tokenFile");
    if (!ret->token.n && file.n) {
        ret->token_file = beside(a, path, file);
        r = bh_kubeconfig_token(a, ret->token_file, &ret->token, err);
        if (r < 0)
            return bh_err_wrap(err, "%s: tokenFile", path);
    }
    return 0;
}

int bh_kubeconfig_load(struct bh_arena *a, const char *path, struct bh_kubeconfig *ret,
                       struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};
    struct bh_str text, current, server_name;
    const struct bh_jv *ctx, *cluster, *user;
    struct bh_jv root;
    int r = bh_fs_read(path, FILE_BYTES_MAX, &b, err);

    if (r < 0)
        return bh_err_wrap(err, "kubeconfig");
    text = bh_str_dup(a, bh_buf_str(&b));
    r = bh_yaml_parse(a, text, NULL, &root, err);
    if (r < 0)
        return bh_err_wrap(err, "%s", path);
    current = bh_jv_get_str(&root, "current-context");
    ctx = named(bh_jv_getc(&root, "contexts"), current, "context");
    if (!ctx)
        return bh_err_set(err, BH_E_BAD_REQUEST,
                          "%s: current-context \"%.*s\" is not among the contexts", path,
                          BH_SF(current));
    cluster = named(bh_jv_getc(&root, "clusters"), bh_jv_get_str(ctx, "cluster"), "cluster");
    user = named(bh_jv_getc(&root, "users"), bh_jv_get_str(ctx, "user"), "user");
    if (!cluster)
        return bh_err_set(err, BH_E_BAD_REQUEST, "%s: no cluster \"%.*s\"", path,
                          BH_SF(bh_jv_get_str(ctx, "cluster")));
    r = parse_server(a, path, bh_jv_get_str(cluster, "server"), ret, err);
    if (r >= 0)
        r = blob(a, path, cluster, "certificate-authority", &ret->ca_pem, err);
    if (r >= 0 && user)
        r = load_user(a, path, user, ret, err);
    if (r < 0)
        return r;
    ret->insecure = bh_jv_get_bool(cluster, "insecure-skip-tls-verify");
    server_name = bh_jv_get_str(cluster, "tls-server-name");
    ret->server_name = server_name.n ? bh_str_dup(a, server_name).p : NULL;
    ret->namespace = bh_str_dup(a, bh_jv_get_str(ctx, "namespace"));
    return 0;
}

static void add_data(struct bh_buf *b, struct bh_arena *a, const char *key, struct bh_str pem)
{
    if (pem.n)
        bh_buf_addf(b, "    %s: %.*s\n", key, BH_SF(bh_base64(a, pem)));
}

int bh_kubeconfig_write(const char *path, const struct bh_kubeconfig_new *k, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};

    bh_buf_addf(
        &b, "apiVersion: v1\nkind: Config\nclusters:\n- name: %.*s\n  cluster:\n    server: %.*s\n",
        BH_SF(k->name), BH_SF(k->server));
    add_data(&b, a, "certificate-authority-data", k->ca_pem);
    bh_buf_addf(&b, "users:\n- name: %.*s\n  user:\n", BH_SF(k->name));
    add_data(&b, a, "client-certificate-data", k->cert_pem);
    add_data(&b, a, "client-key-data", k->key_pem);
    if (k->token.n)
        bh_buf_addf(&b, "    token: %.*s\n", BH_SF(k->token));
    bh_buf_addf(&b,
                "contexts:\n- name: %.*s\n  context:\n    cluster: %.*s\n    user: "
                "%.*s\ncurrent-context: %.*s\n",
                BH_SF(k->name), BH_SF(k->name), BH_SF(k->name), BH_SF(k->name));
    return bh_fs_write_atomic(path, bh_buf_str(&b), 0600, err);
}
