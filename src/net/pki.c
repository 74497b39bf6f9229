/* X.509 by OpenSSL: CA, leaf certificates, keys; reading and checking them. */
#include "net/pki.h"

#include <openssl/asn1.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"

#define PEM_BYTES_MAX ((size_t)1 << 20)
#define SANS_MAX      256
#define CLOCK_SKEW_S  3600
#define DAY_S         86400L

static void x509_p(X509 **x)
{
    X509_free(*x);
}
static void pkey_p(EVP_PKEY **k)
{
    EVP_PKEY_free(*k);
}
static void bio_p(BIO **b)
{
    BIO_free(*b);
}
static void store_p(X509_STORE **s)
{
    X509_STORE_free(*s);
}
static void store_ctx_p(X509_STORE_CTX **c)
{
    X509_STORE_CTX_free(*c);
}
static void stack_p(STACK_OF(X509) * *s)
{
    sk_X509_pop_free(*s, X509_free);
}
static void names_p(GENERAL_NAMES **n)
{
    GENERAL_NAMES_free(*n);
}

static int fail(struct bh_err *err, const char *what)
{
    unsigned long e = ERR_peek_last_error();
    char buf[200] = "failed";

    if (e)
        ERR_error_string_n(e, buf, sizeof(buf));
    ERR_clear_error();
    return bh_err_set(err, BH_E_INTERNAL, "%s: %s", what, buf);
}

/* ---- PEM ---- */

static struct bh_str bio_text(struct bh_arena *a, BIO *b)
{
    char *p = NULL;
    long n = BIO_get_mem_data(b, &p);

    return bh_str_dup(a, (struct bh_str){p, n > 0 ? (size_t)n : 0});
}

static int cert_to_pem(struct bh_arena *a, X509 *x, struct bh_str *ret, struct bh_err *err)
{
    BH_CLEANUP(bio_p) BIO *b = BIO_new(BIO_s_mem());

    if (!b || PEM_write_bio_X509(b, x) != 1)
        return fail(err, "write certificate");
    *ret = bio_text(a, b);
    return 0;
}

static int key_to_pem(struct bh_arena *a, EVP_PKEY *k, struct bh_str *ret, struct bh_err *err)
{
    BH_CLEANUP(bio_p) BIO *b = BIO_new(BIO_s_secmem());

    if (!b || PEM_write_bio_PKCS8PrivateKey(b, k, NULL, NULL, 0, NULL, NULL) != 1)
        return fail(err, "write private key");
    *ret = bio_text(a, b);
    return 0;
}

static X509 *pem_to_cert(struct bh_str pem, struct bh_err *err)
{
    BH_CLEANUP(bio_p) BIO *b = pem.n < PEM_BYTES_MAX ? BIO_new_mem_buf(pem.p, (int)pem.n) : NULL;
    X509 *x = b ? PEM_read_bio_X509(b, NULL, NULL, NULL) : NULL;

    ERR_clear_error();
    if (!x)
        (void)bh_err_set(err, BH_E_BAD_REQUEST, "no certificate in the PEM text");
    return x;
}

static EVP_PKEY *pem_to_key(struct bh_str pem, struct bh_err *err)
{
    BH_CLEANUP(bio_p) BIO *b = pem.n < PEM_BYTES_MAX ? BIO_new_mem_buf(pem.p, (int)pem.n) : NULL;
    EVP_PKEY *k = b ? PEM_read_bio_PrivateKey(b, NULL, NULL, NULL) : NULL;

    ERR_clear_error();
    if (!k)
        (void)bh_err_set(err, BH_E_BAD_REQUEST, "no private key in the PEM text");
    return k;
}

/* ---- making ---- */

static bool set_subject(X509 *x, struct bh_str cn, const struct bh_str *orgs, size_t orgs_n)
{
    X509_NAME *name = X509_get_subject_name(x);

    for (size_t i = 0; i < orgs_n; i++)
        if (X509_NAME_add_entry_by_NID(name, NID_organizationName, MBSTRING_UTF8,
                                       (const unsigned char *)orgs[i].p, (int)orgs[i].n, -1,
                                       0) != 1)
            return false;
    return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8,
                                      (const unsigned char *)cn.p, (int)cn.n, -1, 0) == 1;
}

/* 127 random bits: unique without a counter, positive as RFC 5280 §4.1.2.2 demands. */
static bool set_serial(X509 *x)
{
    unsigned char b[16];
    BIGNUM *n;
    bool ok;

    if (RAND_bytes(b, sizeof(b)) != 1)
        return false;
    b[0] = (unsigned char)((b[0] & 0x7f) | 0x40);
    n = BN_bin2bn(b, sizeof(b), NULL);
    ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x)) != NULL;
    BN_free(n);
    return ok;
}

static bool set_times(X509 *x, int days, X509 *ca)
{
    if (!X509_gmtime_adj(X509_getm_notBefore(x), -CLOCK_SKEW_S) ||
        !X509_time_adj_ex(X509_getm_notAfter(x), days, 0, NULL))
        return false;
    if (ca && ASN1_TIME_compare(X509_get0_notAfter(x), X509_get0_notAfter(ca)) > 0)
        return X509_set1_notAfter(x, X509_get0_notAfter(ca)) == 1;
    return true;
}

static bool add_ext(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;
    bool ok;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ok = e && X509_add_ext(x, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok;
}

/* Built from values, not from OpenSSL's configuration language, in which a name with a comma would
 * say more. */
static bool add_sans(X509 *x, const struct bh_pki_req *req, struct bh_arena *a)
{
    BH_CLEANUP(names_p) GENERAL_NAMES *names = GENERAL_NAMES_new();

    if (req->dns_n + req->ips_n == 0)
        return true;
    for (size_t i = 0; names && i < req->dns_n; i++) {
        GENERAL_NAME *g = GENERAL_NAME_new();
        ASN1_IA5STRING *s = ASN1_IA5STRING_new();

        if (!g || !s || ASN1_STRING_set(s, req->dns[i].p, (int)req->dns[i].n) != 1)
            return false;
        GENERAL_NAME_set0_value(g, GEN_DNS, s);
        (void)sk_GENERAL_NAME_push(names, g);
    }
    for (size_t i = 0; names && i < req->ips_n; i++) {
        GENERAL_NAME *g = GENERAL_NAME_new();
        ASN1_OCTET_STRING *s = a2i_IPADDRESS(bh_str_dup(a, req->ips[i]).p);

        if (!g || !s) {
            GENERAL_NAME_free(g);
            return false;
        }
        GENERAL_NAME_set0_value(g, GEN_IPADD, s);
        (void)sk_GENERAL_NAME_push(names, g);
    }
    return names && X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, 0) == 1;
}

static X509 *new_cert(EVP_PKEY *key, int days, X509 *ca)
{
    X509 *x = X509_new();

    if (x && X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) && set_times(x, days, ca) &&
        X509_set_pubkey(x, key) == 1)
        return x;
    X509_free(x);
    return NULL;
}

int bh_pki_make_ca(struct bh_arena *a, const char *cn, int days, struct bh_pki_pair *ret,
                   struct bh_err *err)
{
    BH_CLEANUP(pkey_p) EVP_PKEY *key = EVP_EC_gen("P-256");
    BH_CLEANUP(x509_p) X509 *x = key ? new_cert(key, days, NULL) : NULL;
    struct bh_pki_pair p;
    int r;

    if (!x || !set_subject(x, bh_s(cn), NULL, 0) ||
        X509_set_issuer_name(x, X509_get_subject_name(x)) != 1 ||
        !add_ext(x, x, NID_basic_constraints, "critical,CA:TRUE") ||
        !add_ext(x, x, NID_key_usage, "critical,digitalSignature,keyCertSign,cRLSign") ||
        !add_ext(x, x, NID_subject_key_identifier, "hash") || X509_sign(x, key, EVP_sha256()) == 0)
        return fail(err, "make CA certificate");
    r = cert_to_pem(a, x, &p.cert_pem, err);
    if (r == 0)
        r = key_to_pem(a, key, &p.key_pem, err);
    if (r == 0)
        *ret = p;
    return r;
}

int bh_pki_issue(struct bh_arena *a, const struct bh_pki_pair *ca, const struct bh_pki_req *req,
                 struct bh_pki_pair *ret, struct bh_err *err)
{
    BH_CLEANUP(x509_p) X509 *ca_x = pem_to_cert(ca->cert_pem, err);
    BH_CLEANUP(pkey_p) EVP_PKEY *ca_key = ca_x ? pem_to_key(ca->key_pem, err) : NULL;
    BH_CLEANUP(pkey_p) EVP_PKEY *key = ca_key ? EVP_EC_gen("P-256") : NULL;
    BH_CLEANUP(x509_p) X509 *x = key ? new_cert(key, req->days, ca_x) : NULL;
    const char *usage = req->server && req->client ? "serverAuth,clientAuth"
                        : req->server              ? "serverAuth"
                                                   : "clientAuth";
    struct bh_pki_pair p;
    int r;

    if (!ca_x || !ca_key)
        return bh_err_wrap(err, "CA");
    if (req->dns_n + req->ips_n > SANS_MAX)
        return bh_err_set(err, BH_E_LIMIT, "more than %d names in a certificate", SANS_MAX);
    if (!x || !set_subject(x, req->cn, req->orgs, req->orgs_n) ||
        X509_set_issuer_name(x, X509_get_subject_name(ca_x)) != 1 ||
        !add_ext(x, ca_x, NID_basic_constraints, "critical,CA:FALSE") ||
        !add_ext(x, ca_x, NID_key_usage, "critical,digitalSignature") ||
        !add_ext(x, ca_x, NID_ext_key_usage, usage) ||
        !add_ext(x, ca_x, NID_authority_key_identifier, "keyid") || !add_sans(x, req, a) ||
        X509_sign(x, ca_key, EVP_sha256()) == 0)
        return fail(err, "issue certificate");
    r = cert_to_pem(a, x, &p.cert_pem, err);
    if (r == 0)
        r = key_to_pem(a, key, &p.key_pem, err);
    if (r == 0)
        *ret = p;
    return r;
}

int bh_pki_make_key(struct bh_arena *a, struct bh_str *ret_key_pem, struct bh_str *ret_pub_pem,
                    struct bh_err *err)
{
    BH_CLEANUP(pkey_p) EVP_PKEY *key = EVP_EC_gen("P-256");
    struct bh_str pem = {0};
    int r;

    if (!key)
        return fail(err, "make key");
    r = ret_key_pem ? key_to_pem(a, key, &pem, err) : 0;
    if (r < 0)
        return r;
    if (ret_pub_pem) {
        BH_CLEANUP(bio_p) BIO *b = BIO_new(BIO_s_mem());

        if (!b || PEM_write_bio_PUBKEY(b, key) != 1)
            return fail(err, "write public key");
        *ret_pub_pem = bio_text(a, b);
    }
    if (ret_key_pem)
        *ret_key_pem = pem;
    return 0;
}

/* ---- reading ---- */

static struct bh_str name_entry(struct bh_arena *a, const X509_NAME *name, int nid, int *at)
{
    unsigned char *utf8 = NULL;
    struct bh_str ret;
    int len;

    *at = X509_NAME_get_index_by_NID(name, nid, *at);
    if (*at < 0)
        return (struct bh_str){0};
    len = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, *at)));
    if (len < 0)
        return (struct bh_str){0};
    ret = bh_str_dup(a, (struct bh_str){(const char *)utf8, (size_t)len});
    OPENSSL_free(utf8);
    return ret;
}

static int64_t unix_time(const ASN1_TIME *t)
{
    ASN1_TIME *zero = ASN1_TIME_set(NULL, 0);
    int days = 0, secs = 0;

    if (!zero || ASN1_TIME_diff(&days, &secs, zero, t) != 1)
        days = secs = 0;
    ASN1_TIME_free(zero);
    return (int64_t)days * DAY_S + secs;
}

static struct bh_str ip_text(struct bh_arena *a, const ASN1_OCTET_STRING *s)
{
    const unsigned char *p = ASN1_STRING_get0_data(s);
    int n = ASN1_STRING_length(s);

    if (n == 4)
        return bh_str_fmt(a, "%u.%u.%u.%u", p[0], p[1], p[2], p[3]);
    if (n == 16)
        return bh_str_fmt(a, "%x:%x:%x:%x:%x:%x:%x:%x", p[0] << 8 | p[1], p[2] << 8 | p[3],
                          p[4] << 8 | p[5], p[6] << 8 | p[7], p[8] << 8 | p[9], p[10] << 8 | p[11],
                          p[12] << 8 | p[13], p[14] << 8 | p[15]);
    return bh_str_fmt(a, "?");
}

static void read_sans(struct bh_arena *a, X509 *x, struct bh_pki_info *ret)
{
    BH_CLEANUP(names_p)
    GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
    int n = names ? sk_GENERAL_NAME_num(names) : 0;

    if (n > SANS_MAX)
        n = SANS_MAX;
    ret->dns.p = bh_new_n(a, struct bh_str, (size_t)n + 1);
    ret->ips.p = bh_new_n(a, struct bh_str, (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        int type;
        const void *v = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);

        if (type == GEN_DNS)
            ret->dns.p[ret->dns.n++] =
                bh_str_dup(a, (struct bh_str){(const char *)ASN1_STRING_get0_data(v),
                                              (size_t)ASN1_STRING_length(v)});
        else if (type == GEN_IPADD)
            ret->ips.p[ret->ips.n++] = ip_text(a, v);
    }
}

int bh_pki_inspect(struct bh_arena *a, struct bh_str cert_pem, struct bh_pki_info *ret,
                   struct bh_err *err)
{
    static const char hex[] = "0123456789abcdef";
    BH_CLEANUP(x509_p) X509 *x = pem_to_cert(cert_pem, err);
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned md_n = 0;
    char *text;
    int at = -1, n;

    if (!x)
        return -BH_E_BAD_REQUEST;
    *ret = (struct bh_pki_info){0};
    ret->cn = name_entry(a, X509_get_subject_name(x), NID_commonName, &at);
    at = -1;
    ret->issuer_cn = name_entry(a, X509_get_issuer_name(x), NID_commonName, &at);
    n = X509_NAME_entry_count(X509_get_subject_name(x));
    ret->orgs.p = bh_new_n(a, struct bh_str, (size_t)n + 1);
    at = -1;
    for (int i = 0; i < n; i++) {
        struct bh_str o = name_entry(a, X509_get_subject_name(x), NID_organizationName, &at);

        if (at < 0)
            break;
        ret->orgs.p[ret->orgs.n++] = o;
    }
    read_sans(a, x, ret);
    ret->not_before = unix_time(X509_get0_notBefore(x));
    ret->not_after = unix_time(X509_get0_notAfter(x));
    ret->is_ca = X509_check_ca(x) > 0;
    if (X509_digest(x, EVP_sha256(), md, &md_n) != 1)
        return fail(err, "digest");
    text = bh_arena_alloc(a, 2 * (size_t)md_n + 1);
    for (unsigned i = 0; i < md_n; i++) {
        text[2 * i] = hex[md[i] >> 4];
        text[2 * i + 1] = hex[md[i] & 15];
    }
    ret->sha256 = (struct bh_str){text, 2 * (size_t)md_n};
    return 0;
}

static STACK_OF(X509) * read_all(struct bh_str pem)
{
    BH_CLEANUP(bio_p) BIO *b = pem.n < PEM_BYTES_MAX ? BIO_new_mem_buf(pem.p, (int)pem.n) : NULL;
    STACK_OF(X509) *all = sk_X509_new_null();
    X509 *x;

    while (b && all && (x = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL)
        (void)sk_X509_push(all, x);
    ERR_clear_error();
    return all;
}

static int verify_chain(X509 *x, struct bh_str chain_pem, struct bh_str ca_pem, int64_t now,
                        struct bh_err *err)
{
    BH_CLEANUP(stack_p) STACK_OF(X509) *chain = read_all(chain_pem);
    BH_CLEANUP(stack_p) STACK_OF(X509) *cas = read_all(ca_pem);
    BH_CLEANUP(store_p) X509_STORE *store = X509_STORE_new();
    BH_CLEANUP(store_ctx_p) X509_STORE_CTX *ctx = X509_STORE_CTX_new();

    if (!chain || !cas || !store || !ctx)
        return fail(err, "verify certificate");
    for (int i = 0; i < sk_X509_num(cas); i++)
        (void)X509_STORE_add_cert(store, sk_X509_value(cas, i));
    if (X509_STORE_CTX_init(ctx, store, x, chain) != 1)
        return fail(err, "verify certificate");
    X509_STORE_CTX_set_time(ctx, 0, (time_t)now);
    if (X509_verify_cert(ctx) != 1) {
        ERR_clear_error();
        return bh_err_set(err, BH_E_INVALID, "certificate: %s",
                          X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
    }
    return 0;
}

int bh_pki_check(const struct bh_pki_pair *p, struct bh_str ca_pem, int64_t now, int64_t margin_s,
                 struct bh_err *err)
{
    BH_CLEANUP(x509_p) X509 *x = pem_to_cert(p->cert_pem, err);
    BH_CLEANUP(pkey_p) EVP_PKEY *key = x ? pem_to_key(p->key_pem, err) : NULL;

    if (!x || !key) {
        if (err)
            err->code = BH_E_INVALID;
        return -BH_E_INVALID;
    }
    if (X509_check_private_key(x, key) != 1) {
        ERR_clear_error();
        return bh_err_set(err, BH_E_INVALID, "key and certificate do not belong together");
    }
    if (now < unix_time(X509_get0_notBefore(x)))
        return bh_err_set(err, BH_E_INVALID, "certificate is not valid yet");
    if (now + margin_s > unix_time(X509_get0_notAfter(x)))
        return bh_err_set(err, BH_E_INVALID, "certificate has expired, or soon will");
    return ca_pem.n > 0 ? verify_chain(x, p->cert_pem, ca_pem, now, err) : 0;
}

/* ---- files ---- */

int bh_pki_save(const char *cert_path, const char *key_path, const struct bh_pki_pair *p,
                struct bh_err *err)
{
    /* The key first: a certificate without its key would be taken for a complete pair. */
    int r = bh_fs_write_atomic(key_path, p->key_pem, 0600, err);

    return r < 0 ? r : bh_fs_write_atomic(cert_path, p->cert_pem, 0644, err);
}

int bh_pki_load(struct bh_arena *a, const char *cert_path, const char *key_path,
                struct bh_pki_pair *ret, struct bh_err *err)
{
    BH_AUTO_BUF cert = {0};
    BH_AUTO_BUF key = {0};
    int r = bh_fs_read(cert_path, PEM_BYTES_MAX, &cert, err);

    if (r == 0)
        r = bh_fs_read(key_path, PEM_BYTES_MAX, &key, err);
    if (r < 0)
        return r;
    ret->cert_pem = bh_str_dup(a, bh_buf_str(&cert));
    ret->key_pem = bh_str_dup(a, bh_buf_str(&key));
    OPENSSL_cleanse(key.p, key.n);
    return 0;
}
