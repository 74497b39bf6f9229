/* kubeconfig files: what is read, where files beside it are looked for, what is refused. */
#include "client/kubeconfig.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fs.h"
#include "base/test.h"

struct dir {
    char path[64];
    struct bh_arena *a;
    struct bh_err err;
};

static void open_dir(struct dir *d)
{
    *d = (struct dir){.path = "/tmp/bh-kubeconfig.XXXXXX", .a = bh_arena_new(0)};
    BH_CHECK(mkdtemp(d->path) != NULL);
}
static void close_dir(struct dir *d)
{
    BH_EQ(bh_fs_remove_tree(d->path, &d->err), 0);
    (void)bh_arena_free(d->a);
}
static const char *put(struct dir *d, const char *name, const char *text)
{
    const char *path = bh_str_fmt(d->a, "%s/%s", d->path, name).p;

    BH_EQ(bh_fs_write_plain(path, bh_s(text), 0600, &d->err), 0);
    return path;
}

#define CONFIG(server, more_cluster, user)                                                         \
    "apiVersion: v1\nkind: Config\ncurrent-context: c\n"                                           \
    "clusters:\n- name: k\n  cluster:\n    server: " server "\n" more_cluster                      \
    "users:\n- name: u\n  user:\n" user                                                            \
    "contexts:\n- name: other\n  context: {cluster: x, user: x}\n"                                 \
    "- name: c\n  context:\n    cluster: k\n    user: u\n    namespace: here\n"

BH_TEST(kubeconfig_reads_the_current_context)
{
    struct dir d;
    struct bh_kubeconfig k = {0};

    open_dir(&d);
    (void)put(&d, "ca.pem", "CA\n");
    (void)put(&d, "token", "  secret\n");
    BH_EQ(bh_kubeconfig_load(
              d.a,
              put(&d, "a",
                  CONFIG("https://example.com:8443/",
                         "    certificate-authority: ca.pem\n    tls-server-name: inner\n",
                         "    tokenFile: token\n    client-certificate-data: Q0VSVA==\n"
                         "    client-key-data: S0VZ\n")),
              &k, &d.err),
          0);
    BH_STREQ(bh_s(k.host), "example.com");
    BH_EQ(k.port, 8443);
    BH_CHECK(k.tls && !k.insecure);
    BH_STREQ(bh_s(k.server_name), "inner");
    BH_STREQ(k.ca_pem, "CA\n");
    BH_STREQ(k.token, "secret");
    BH_CHECK(k.token_file && bh_str_ends(bh_s(k.token_file), BH_S("/token")));
    BH_STREQ(k.cert_pem, "CERT");
    BH_STREQ(k.key_pem, "KEY");
    BH_STREQ(k.namespace, "here");
    close_dir(&d);
}

BH_TEST(kubeconfig_servers)
{
    static const struct {
        const char *text, *host; /* host NULL: refused */
        int port;
        bool tls;
    } t[] = {
        {CONFIG("https://h", "", "    token: t\n"), "h", 443, true},
        {CONFIG("http://10.0.0.1:8080", "", "    token: t\n"), "10.0.0.1", 8080, false},
        {CONFIG("'https://[::1]:6443'", "", "    token: t\n"), "::1", 6443, true},
        {CONFIG("'https://[::1]'", "", "    token: t\n"), "::1", 443, true},
        {CONFIG("'https://[::1'", "", "    token: t\n"), NULL, 0, false},
        {CONFIG("https://:6443", "", "    token: t\n"), NULL, 0, false},
        {CONFIG("https://h:0", "", "    token: t\n"), NULL, 0, false},
        {CONFIG("https://h:99999", "", "    token: t\n"), NULL, 0, false},
        {CONFIG("h:6443", "", "    token: t\n"), NULL, 0, false},
        {CONFIG("https://h/path", "", "    token: t\n"), NULL, 0, false},
        {CONFIG("https://h", "", "    exec: {command: x}\n"), NULL, 0, false},
        {CONFIG("https://h", "    certificate-authority: missing\n", "    token: t\n"), NULL, 0,
         false},
        {CONFIG("https://h", "    certificate-authority-data: '!!'\n", "    token: t\n"), NULL, 0,
         false},
        {"current-context: nothing\n", NULL, 0, false},
        {"", NULL, 0, false},
        {"[1, 2]", NULL, 0, false},
        {"a: {b: [c", NULL, 0, false},
    };
    struct dir d;

    open_dir(&d);
    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct bh_kubeconfig k = {0};
        struct bh_err err = {0};
        int r = bh_kubeconfig_load(d.a, put(&d, "k", t[i].text), &k, &err);

        if (!t[i].host) {
            BH_CHECK(r < 0);
            BH_CHECK(bh_str_find(bh_s(err.msg), bh_s(d.path)) >= 0); /* names the file */
            continue;
        }
        BH_EQ(r, 0);
        BH_STREQ(bh_s(k.host), t[i].host);
        BH_EQ(k.port, t[i].port);
        BH_EQ(k.tls, t[i].tls);
    }
    close_dir(&d);
}

BH_TEST(kubeconfig_reads_what_it_wrote)
{
    struct dir d;
    struct bh_kubeconfig k = {0};
    struct stat st;
    const char *path;

    open_dir(&d);
    path = bh_str_fmt(d.a, "%s/out", d.path).p;
    BH_EQ(bh_kubeconfig_write(path,
                              &(struct bh_kubeconfig_new){.name = BH_S("n"),
                                                          .server = BH_S("https://127.0.0.1:1"),
                                                          .ca_pem = BH_S("CA"),
                                                          .cert_pem = BH_S("CERT"),
                                                          .key_pem = BH_S("KEY"),
                                                          .token = BH_S("T")},
                              &d.err),
          0);
    BH_EQ(stat(path, &st), 0);
    BH_EQ(st.st_mode & 0777, 0600);
    BH_EQ(bh_kubeconfig_load(d.a, path, &k, &d.err), 0);
    BH_STREQ(k.ca_pem, "CA");
    BH_STREQ(k.cert_pem, "CERT");
    BH_STREQ(k.key_pem, "KEY");
    BH_STREQ(k.token, "T");
    BH_EQ(k.port, 1);
    close_dir(&d);
}
