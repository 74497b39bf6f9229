/* X.509 for a cluster of one's own: a CA, server and client certificates (ECDSA P-256, PEM).
 *
 * Pure functions but for the file helpers, which block: start-up code or the worker pool. Thread:
 * any.
 */
#ifndef BH_NET_PKI_H
#define BH_NET_PKI_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;

struct bh_pki_pair {
    struct bh_str cert_pem; /* may be a chain, leaf first */
    struct bh_str key_pem;  /* PKCS#8, not encrypted */
};

/* A self-signed CA, valid for days (starting an hour ago, for clocks that differ). */
BH_MUST int bh_pki_make_ca(struct bh_arena *a, const char *cn, int days, struct bh_pki_pair *ret,
                           struct bh_err *err);

struct bh_pki_req {
    struct bh_str cn;
    const struct bh_str *orgs; /* O, each */
    size_t orgs_n;
    const struct bh_str *dns; /* SANs */
    size_t dns_n;
    const struct bh_str *ips; /* literal addresses */
    size_t ips_n;
    bool server, client; /* extended key usage; both may be set */
    int days;
};
/* A fresh key and a certificate of it, signed by ca. Not longer valid than the CA. */
BH_MUST int bh_pki_issue(struct bh_arena *a, const struct bh_pki_pair *ca,
                         const struct bh_pki_req *req, struct bh_pki_pair *ret, struct bh_err *err);
/* A bare key (to sign service account tokens): PEM of the private key, and of the public one (both
 * may be asked). */
BH_MUST int bh_pki_make_key(struct bh_arena *a, struct bh_str *ret_key_pem,
                            struct bh_str *ret_pub_pem, struct bh_err *err);

struct bh_pki_info {
    struct bh_str cn, issuer_cn;
    struct bh_str_vec orgs;
    struct bh_str_vec dns, ips;    /* SANs; ips as text */
    int64_t not_before, not_after; /* Unix time, seconds */
    bool is_ca;
    struct bh_str sha256; /* of the DER, hex */
};
/* Reads the first certificate of a PEM text. -BH_E_BAD_REQUEST when it is none. */
BH_MUST int bh_pki_inspect(struct bh_arena *a, struct bh_str cert_pem, struct bh_pki_info *ret,
                           struct bh_err *err);
/* Checks that the key belongs to the certificate, that it leads to ca_pem (skipped when empty), and
 * that it is valid at now (Unix seconds) and for at least margin_s longer. -BH_E_INVALID with the
 * reason otherwise. */
BH_MUST int bh_pki_check(const struct bh_pki_pair *p, struct bh_str ca_pem, int64_t now,
                         int64_t margin_s, struct bh_err *err);

/* Both files atomically; the key with mode 0600, the certificate 0644. The directory must exist. */
BH_MUST int bh_pki_save(const char *cert_path, const char *key_path, const struct bh_pki_pair *p,
                        struct bh_err *err);
BH_MUST int bh_pki_load(struct bh_arena *a, const char *cert_path, const char *key_path,
                        struct bh_pki_pair *ret, struct bh_err *err);

#endif
