/* The cluster's certificates. */
#include "cli/pki_dir.h"

#include <arpa/inet.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/fs.h"

#define CA_DAYS 3650
#define RENEW_S (30 * 86400)

static int64_t unix_now(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return ts.tv_sec;
}

int pki_dir_open(struct bh_arena *a, const char *dir, struct pki_dir *ret, struct bh_err *err)
{
    const char *cert = bh_str_fmt(a, "%s/ca.crt", dir).p, *key = bh_str_fmt(a, "%s/ca.key", dir).p;
    int r = bh_fs_mkdir_p(dir, 0700, err);

    if (r < 0)
        return r;
    *ret = (struct pki_dir){.a = a, .dir = dir};
    if (bh_fs_exists(cert) && bh_fs_exists(key)) {
        r = bh_pki_load(a, cert, key, &ret->ca, err);
        return r < 0 ? bh_err_wrap(err, "the cluster's CA") : 0;
    }
    r = bh_pki_make_ca(a, "bulkhead-ca", CA_DAYS, &ret->ca, err);
    return r < 0 ? r : bh_pki_save(cert, key, &ret->ca, err);
}

static bool same(const struct bh_str_vec *have, const struct bh_str *want, size_t n)
{
    if (have->n != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!bh_str_eq(have->p[i], want[i]))
            return false;
    return true;
}

/* Addresses are compared as such: "::1" has many spellings. */
static bool same_ips(const struct bh_str_vec *have, const struct bh_str *want, size_t n)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    if (have->n != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned char x[16] = {0}, y[16] = {0};
        int family = bh_str_chr(want[i], ':', 0) >= 0 ? AF_INET6 : AF_INET;

        if (inet_pton(family, bh_str_dup(a, have->p[i]).p, x) != 1 ||
            inet_pton(family, bh_str_dup(a, want[i]).p, y) != 1 || memcmp(x, y, sizeof(x)) != 0)
            return false;
    }
    return true;
}

/* Whether a certificate says what is asked: a node may get another name, and what was kept would
 * speak for the old one. */
static bool says(struct bh_arena *a, const struct bh_pki_pair *p, const struct bh_pki_req *req)
{
    struct bh_pki_info i;

    return bh_pki_inspect(a, p->cert_pem, &i, NULL) == 0 && bh_str_eq(i.cn, req->cn) &&
           same(&i.orgs, req->orgs, req->orgs_n) && same(&i.dns, req->dns, req->dns_n) &&
           same_ips(&i.ips, req->ips, req->ips_n);
}

int pki_dir_get(struct pki_dir *p, const char *name, const struct bh_pki_req *req,
                struct bh_pki_pair *ret, struct bh_err *err)
{
    const char *cert = bh_str_fmt(p->a, "%s/%s.crt", p->dir, name).p,
               *key = bh_str_fmt(p->a, "%s/%s.key", p->dir, name).p;
    int r;

    if (bh_fs_exists(cert) && bh_fs_exists(key) && bh_pki_load(p->a, cert, key, ret, NULL) >= 0 &&
        bh_pki_check(ret, p->ca.cert_pem, unix_now(), RENEW_S, NULL) >= 0 && says(p->a, ret, req))
        return 0;
    r = bh_pki_issue(p->a, &p->ca, req, ret, err);
    if (r >= 0)
        r = bh_pki_save(cert, key, ret, err);
    return r < 0 ? bh_err_wrap(err, "certificate %s", name) : 0;
}
