/* The cluster's certificates: kept while they say what is asked, issued anew when they do not. */
#include "cli/pki_dir.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/fs.h"
#include "base/test.h"

BH_TEST(pki_dir_keeps_and_renews)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    char dir[] = "/tmp/bh-pki.XXXXXX";
    struct bh_str names[] = {BH_S("one"), BH_S("two")};
    struct bh_str ips[] = {BH_S("127.0.0.1"), BH_S("::1")};
    struct bh_str org = BH_S("system:nodes");
    struct bh_pki_req req = {.cn = BH_S("system:node:one"),
                             .orgs = &org,
                             .orgs_n = 1,
                             .dns = names,
                             .dns_n = 1,
                             .ips = ips,
                             .ips_n = 2,
                             .server = true,
                             .days = 365};
    struct bh_pki_pair first, second;
    struct pki_dir p;
    struct bh_err err = {0};
    struct stat st;

    BH_CHECK(mkdtemp(dir) != NULL);
    BH_EQ(pki_dir_open(a, bh_str_fmt(a, "%s/pki", dir).p, &p, &err), 0);
    BH_EQ(pki_dir_get(&p, "node", &req, &first, &err), 0);
    BH_EQ(stat(bh_str_fmt(a, "%s/pki/node.key", dir).p, &st), 0);
    BH_EQ(st.st_mode & 0777, 0600);
    BH_EQ(pki_dir_open(a, bh_str_fmt(a, "%s/pki", dir).p, &p, &err), 0); /* another start */
    BH_EQ(pki_dir_get(&p, "node", &req, &second, &err), 0);
    BH_SEQ(second.cert_pem, first.cert_pem);
    req.dns_n = 2; /* another name: the old certificate does not speak for it */
    BH_EQ(pki_dir_get(&p, "node", &req, &second, &err), 0);
    BH_CHECK(!bh_str_eq(second.cert_pem, first.cert_pem));
    req.cn = BH_S("system:node:two");
    BH_EQ(pki_dir_get(&p, "node", &req, &first, &err), 0);
    BH_CHECK(!bh_str_eq(second.cert_pem, first.cert_pem));
    req.days = 10; /* runs out within 30 days: made anew at the next start */
    BH_EQ(pki_dir_get(&p, "short", &req, &first, &err), 0);
    BH_EQ(pki_dir_get(&p, "short", &req, &second, &err), 0);
    BH_CHECK(!bh_str_eq(second.cert_pem, first.cert_pem));
    BH_EQ(bh_fs_remove_tree(dir, &err), 0);
}
