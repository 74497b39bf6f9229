/* Certificates: issue, inspect, check, save and load. */
#include "net/pki.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fs.h"
#include "base/test.h"

static int64_t now(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return ts.tv_sec;
}

BH_TEST(pki_issue_and_check)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str dns[] = {BH_S_INIT("kubernetes.default.svc"), BH_S_INIT("localhost,evil")};
    struct bh_str ips[] = {BH_S_INIT("127.0.0.1"), BH_S_INIT("::1")};
    struct bh_str orgs[] = {BH_S_INIT("system:masters"), BH_S_INIT("b")};
    struct bh_pki_pair ca, other, leaf;
    struct bh_pki_info info;
    struct bh_err e = {0};

    BH_EQ(bh_pki_make_ca(a, "test-ca", 30, &ca, &e), 0);
    BH_EQ(bh_pki_make_ca(a, "other-ca", 30, &other, &e), 0);
    struct bh_pki_req req = {.cn = BH_S("admin"),
                             .orgs = orgs,
                             .orgs_n = 2,
                             .dns = dns,
                             .dns_n = 2,
                             .ips = ips,
                             .ips_n = 2,
                             .server = true,
                             .client = true,
                             .days = 365};
    BH_EQ(bh_pki_issue(a, &ca, &req, &leaf, &e), 0);
    BH_EQ(bh_pki_inspect(a, leaf.cert_pem, &info, &e), 0);
    BH_STREQ(info.cn, "admin");
    BH_STREQ(info.issuer_cn, "test-ca");
    BH_EQ(info.orgs.n, 2);
    BH_STREQ(info.orgs.p[0], "system:masters");
    BH_EQ(info.dns.n, 2);
    BH_STREQ(info.dns.p[1], "localhost,evil");
    BH_EQ(info.ips.n, 2);
    BH_STREQ(info.ips.p[0], "127.0.0.1");
    BH_STREQ(info.ips.p[1], "0:0:0:0:0:0:0:1");
    BH_EQ(info.sha256.n, 64);
    BH_CHECK(!info.is_ca);
    BH_CHECK(info.not_before < now());
    BH_CHECK(info.not_after <= now() + 31 * 86400); /* not beyond the CA */
    BH_EQ(bh_pki_check(&leaf, ca.cert_pem, now(), 86400, &e), 0);
    BH_EQ(bh_pki_check(&leaf, other.cert_pem, now(), 0, &e), -BH_E_INVALID);
    BH_EQ(bh_pki_check(&leaf, ca.cert_pem, now() + 40 * 86400, 0, &e), -BH_E_INVALID);
    BH_EQ(bh_pki_check(&leaf, ca.cert_pem, now(), 40 * 86400, &e), -BH_E_INVALID);
    struct bh_pki_pair mixed = {leaf.cert_pem, other.key_pem};
    BH_EQ(bh_pki_check(&mixed, ca.cert_pem, now(), 0, &e), -BH_E_INVALID);
    BH_EQ(bh_pki_inspect(a, ca.cert_pem, &info, &e), 0);
    BH_CHECK(info.is_ca);
    BH_EQ(bh_pki_inspect(a, BH_S("nonsense"), &info, &e), -BH_E_BAD_REQUEST);
}

BH_TEST(pki_files)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    char dir[] = "/tmp/bh-pki-XXXXXX";
    char cert[64], key[64];
    struct bh_pki_pair ca, back;
    struct stat st;

    BH_CHECK(mkdtemp(dir) != NULL);
    BH_EQ(bh_path(cert, sizeof(cert), NULL, "%s/ca.crt", dir), 0);
    BH_EQ(bh_path(key, sizeof(key), NULL, "%s/ca.key", dir), 0);
    BH_EQ(bh_pki_make_ca(a, "x", 1, &ca, NULL), 0);
    BH_EQ(bh_pki_save(cert, key, &ca, NULL), 0);
    BH_EQ(stat(key, &st), 0);
    BH_EQ(st.st_mode & 0777, 0600);
    BH_EQ(bh_pki_load(a, cert, key, &back, NULL), 0);
    BH_SEQ(back.key_pem, ca.key_pem);
    BH_EQ(bh_pki_check(&back, ca.cert_pem, now(), 0, NULL), 0);
    BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
}

BH_TEST(pki_signing_key)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str key, pub;

    BH_EQ(bh_pki_make_key(a, &key, &pub, NULL), 0);
    BH_CHECK(bh_str_starts(key, BH_S("-----BEGIN PRIVATE KEY-----")));
    BH_CHECK(bh_str_starts(pub, BH_S("-----BEGIN PUBLIC KEY-----")));
}
