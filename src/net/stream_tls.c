/* TLS on streams. OpenSSL reads and writes through a BIO of ours: reads go to the socket, at most
 * once per readiness when it comes short; writes are collected in the stream's cipher buffer and
 * leave with one system call. */
#include "net/stream_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/fs.h"

#define CIPHER_TURN   ((size_t)128 << 10) /* encrypted ahead of the kernel */
#define RECORD        ((size_t)16 << 10)  /* a TLS record carries no more */
#define ALPN_WIRE_MAX 255
#define CERTS_MAX     1000 /* in one PEM text */

struct bh_tls {
    atomic_int refs;
    SSL_CTX *ctx;
    bool server, verify_peer;
    unsigned char alpn[ALPN_WIRE_MAX + 1]; /* length-prefixed names, as on the wire */
    unsigned alpn_n;
};

static BIO_METHOD *bio_method;
static pthread_once_t bio_once = PTHREAD_ONCE_INIT;

static int bio_read(BIO *b, char *p, int n)
{
    struct bh_stream *s = BIO_get_data(b);
    ssize_t r;

    BIO_clear_retry_flags(b);
    if (s->rx_empty || s->fd < 0) {
        BIO_set_retry_read(b);
        return -1;
    }
    r = bh_stream_recv(s, p, (size_t)n);
    if (r < 0 && errno == EAGAIN)
        BIO_set_retry_read(b);
    if (r != n && r != 0)
        s->rx_empty = true;
    return (int)r;
}

static int bio_write(BIO *b, const char *p, int n)
{
    struct bh_stream *s = BIO_get_data(b);

    BIO_clear_retry_flags(b);
    bh_buf_add(&s->cipher, p, (size_t)n);
    return n;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
    (void)b;
    (void)num;
    (void)ptr;
    return cmd == BIO_CTRL_FLUSH ? 1 : 0;
}

static void make_bio_method(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "bulkhead stream");
    bh_assert(bio_method != NULL);
    (void)BIO_meth_set_read(bio_method, bio_read);
    (void)BIO_meth_set_write(bio_method, bio_write);
    (void)BIO_meth_set_ctrl(bio_method, bio_ctrl);
}

/* ---- configuration ---- */

static int ssl_err(struct bh_err *err, enum bh_code code, const char *what)
{
    unsigned long e = ERR_peek_last_error();
    char buf[200] = "";

    if (e)
        ERR_error_string_n(e, buf, sizeof(buf));
    ERR_clear_error();
    return bh_err_set(err, code, "%s: %s", what, e ? buf : "failed");
}

/* Calls fn for each certificate of a PEM text; fn takes it over. Returns how many, or -1. */
static int each_cert(struct bh_str pem, bool (*fn)(void *arg, X509 *x, int i), void *arg)
{
    BIO *b = BIO_new_mem_buf(pem.p, (int)pem.n);
    X509 *x;
    int n = 0;

    while (b && n < CERTS_MAX && (x = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL) {
        if (!fn(arg, x, n)) {
            n = -1;
            break;
        }
        n++;
    }
    BIO_free(b);
    ERR_clear_error(); /* the end of the text is reported as an error */
    return n;
}

static bool use_cert(void *arg, X509 *x, int i)
{
    SSL_CTX *ctx = arg;
    bool ok;

    if (i == 0) {
        ok = SSL_CTX_use_certificate(ctx, x) == 1;
        X509_free(x);
    } else {
        ok = SSL_CTX_add0_chain_cert(ctx, x) == 1;
        if (!ok)
            X509_free(x);
    }
    return ok;
}

static bool trust_cert(void *arg, X509 *x, int i)
{
    SSL_CTX *ctx = arg;
    bool ok = X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), x) == 1;

    (void)i;
    ok = ok && SSL_CTX_add_client_CA(ctx, x) ==
                   1; /* servers tell clients which CAs they know; clients ignore it */
    X509_free(x);
    return ok;
}

static int load_own(SSL_CTX *ctx, const struct bh_tls_opts *o, struct bh_err *err)
{
    BIO *b;
    EVP_PKEY *key;
    int ok;

    if (each_cert(o->cert_pem, use_cert, ctx) <= 0)
        return bh_err_set(err, BH_E_BAD_REQUEST, "TLS: no usable certificate in the PEM text");
    b = BIO_new_mem_buf(o->key_pem.p, (int)o->key_pem.n);
    key = b ? PEM_read_bio_PrivateKey(b, NULL, NULL, NULL) : NULL;
    BIO_free(b);
    if (!key)
        return ssl_err(err, BH_E_BAD_REQUEST, "TLS: private key");
    ok = SSL_CTX_use_PrivateKey(ctx, key) == 1 && SSL_CTX_check_private_key(ctx) == 1;
    EVP_PKEY_free(key);
    return ok ? 0 : ssl_err(err, BH_E_BAD_REQUEST, "TLS: key and certificate do not match");
}

static int accept_any(int ok, X509_STORE_CTX *c)
{
    (void)ok;
    (void)c;
    return 1; /* the outcome stays in the verify result, which decides cert_verified */
}

static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n,
                       const unsigned char *in, unsigned in_n, void *arg)
{
    const struct bh_tls *t = arg;
    unsigned char *sel = NULL;

    (void)ssl;
    if (SSL_select_next_proto(&sel, out_n, t->alpn, t->alpn_n, in, in_n) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = sel;
    return SSL_TLSEXT_ERR_OK;
}

/* The list as it goes over the wire, into out (ALPN_WIRE_MAX); 0: none, or too long. */
static unsigned put_alpn(const char *const *list, unsigned char *out)
{
    unsigned n = 0;

    for (; list && *list; list++) {
        struct bh_str s = bh_s(*list);

        if (s.n == 0 || s.n > 255 || n + 1 + s.n > ALPN_WIRE_MAX)
            return 0;
        out[n++] = (unsigned char)s.n;
        memcpy(out + n, s.p, s.n);
        n += (unsigned)s.n;
    }
    return n;
}

static int load_alpn(struct bh_tls *t, const char *const *list, struct bh_err *err)
{
    t->alpn_n = put_alpn(list, t->alpn);
    if (t->alpn_n == 0)
        return list && *list ? bh_err_set(err, BH_E_LIMIT, "TLS: protocol list too long") : 0;
    if (t->server)
        SSL_CTX_set_alpn_select_cb(t->ctx, select_alpn, t);
    else if (SSL_CTX_set_alpn_protos(t->ctx, t->alpn, t->alpn_n) != 0)
        return ssl_err(err, BH_E_INTERNAL, "TLS: protocol list");
    return 0;
}

static int configure(struct bh_tls *t, const struct bh_tls_opts *o, struct bh_err *err)
{
    SSL_CTX *ctx = t->ctx;
    int r;

    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
        return ssl_err(err, BH_E_INTERNAL, "TLS: version");
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(ctx, 1);
    if (o->cert_pem.n > 0 && (r = load_own(ctx, o, err)) < 0)
        return r;
    if (o->server && o->cert_pem.n == 0)
        return bh_err_set(err, BH_E_BAD_REQUEST, "TLS: a server needs a certificate");
    if (o->ca_pem.n > 0 && each_cert(o->ca_pem, trust_cert, ctx) <= 0)
        return bh_err_set(err, BH_E_BAD_REQUEST, "TLS: no usable CA certificate in the PEM text");
    if (o->server) {
        static const unsigned char id[] = "bulkhead";

        (void)SSL_CTX_set_session_cache_mode(ctx,
                                             SSL_SESS_CACHE_OFF); /* tickets do without memory */
        (void)SSL_CTX_set_session_id_context(ctx, id, sizeof(id) - 1);
        (void)SSL_CTX_set_num_tickets(ctx, 1);
        if (o->ca_pem.n > 0)
            SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, accept_any);
    } else if (o->insecure_skip_verify) {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
    } else {
        if (o->ca_pem.n == 0 && SSL_CTX_set_default_verify_paths(ctx) != 1)
            return ssl_err(err, BH_E_INTERNAL, "TLS: system CA certificates");
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        t->verify_peer = true;
    }
    return load_alpn(t, o->alpn, err);
}

struct bh_tls *bh_tls_new(const struct bh_tls_opts *o, struct bh_err *err)
{
    struct bh_tls *t = bh_calloc(1, sizeof(*t));

    (void)pthread_once(&bio_once, make_bio_method);
    atomic_init(&t->refs, 1);
    t->server = o->server;
    ERR_clear_error();
    t->ctx = SSL_CTX_new(o->server ? TLS_server_method() : TLS_client_method());
    bh_assert(t->ctx != NULL);
    if (configure(t, o, err) < 0)
        return bh_tls_unref(t);
    return t;
}

struct bh_tls *bh_tls_ref(struct bh_tls *t)
{
    if (t)
        atomic_fetch_add(&t->refs, 1);
    return t;
}

struct bh_tls *bh_tls_unref(struct bh_tls *t)
{
    if (t && atomic_fetch_sub(&t->refs, 1) == 1) {
        SSL_CTX_free(t->ctx);
        bh_free(t);
    }
    return NULL;
}

/* ---- connections ---- */

static bool is_address(const char *name)
{
    unsigned char b[16];

    return inet_pton(AF_INET, name, b) == 1 || inet_pton(AF_INET6, name, b) == 1;
}

static bool expect_name(struct bh_stream *s, const char *name)
{
    bool ip = is_address(name);
    char *sni;

    memcpy(&sni, &name, sizeof(sni)); /* OpenSSL's macro casts const away; it copies the name */
    if (!ip && SSL_set_tlsext_host_name(s->ssl, sni) != 1)
        return false;
    if (!s->tls->verify_peer)
        return true;
    if (ip)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s->ssl), name) == 1;
    return SSL_set1_host(s->ssl, name) == 1;
}

bool bh_stream_tls_start(struct bh_stream *s, struct bh_tls *t, const char *server_name,
                         const char *const *alpn)
{
    BIO *b = BIO_new(bio_method);
    unsigned char protos[ALPN_WIRE_MAX];
    unsigned protos_n = put_alpn(alpn, protos);

    s->tls = bh_tls_ref(t);
    s->ssl = SSL_new(t->ctx);
    bh_assert(b != NULL && s->ssl != NULL); /* both only allocate */
    BIO_set_data(b, s);
    BIO_set_init(b, 1);
    SSL_set_bio(s->ssl, b, b);
    if (t->server) {
        SSL_set_accept_state(s->ssl);
    } else {
        SSL_set_connect_state(s->ssl);
        if (protos_n > 0)
            (void)SSL_set_alpn_protos(s->ssl, protos, protos_n);
        if (server_name && server_name[0] && !expect_name(s, server_name)) {
            ERR_clear_error();
            bh_stream_fail(s, BH_E_BAD_REQUEST, 0, "unusable TLS server name for");
            return false;
        }
    }
    s->state = BH_ST_HANDSHAKE;
    s->peer.tls = true;
    s->pump_wanted = true; /* a client speaks first */
    bh_stream_rewant(s);
    bh_stream_kick(s);
    return true;
}

void bh_stream_tls_stop(struct bh_stream *s)
{
    SSL_free(s->ssl); /* and its BIO */
    s->ssl = NULL;
    s->tls = bh_tls_unref(s->tls);
}

/* Subject entries of one kind, as UTF-8, into out: each becomes a string of text. */
static size_t subject_entries(X509 *x, int nid, struct bh_buf *text, struct bh_str *out, size_t max)
{
    X509_NAME *subject = X509_get_subject_name(x);
    size_t n = 0;
    int at = -1;

    while (n < max && (at = X509_NAME_get_index_by_NID(subject, nid, at)) >= 0) {
        ASN1_STRING *a = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
        unsigned char *utf8 = NULL;
        int len = ASN1_STRING_to_UTF8(&utf8, a);

        if (len < 0)
            continue;
        /* The buffer may move: out holds offsets until all is in. */
        out[n++] = (struct bh_str){(const char *)text->n, (size_t)len};
        bh_buf_add(text, utf8, (size_t)len);
        OPENSSL_free(utf8);
    }
    return n;
}

#define ORGS_MAX 64

static void fill_tls_peer(struct bh_stream *s)
{
    X509 *x = SSL_get1_peer_certificate(s->ssl);
    struct bh_str cn = {0}, orgs[ORGS_MAX];
    BH_AUTO_BUF text = {.max = 64 << 10};
    const unsigned char *alpn = NULL;
    unsigned alpn_n = 0;
    size_t orgs_n = 0, alpn_at;
    char *block, *chars;

    SSL_get0_alpn_selected(s->ssl, &alpn, &alpn_n);
    if (x) {
        s->peer.cert_presented = true;
        s->peer.cert_verified = SSL_get_verify_result(s->ssl) == X509_V_OK &&
                                (SSL_get_verify_mode(s->ssl) & SSL_VERIFY_PEER) != 0;
        if (subject_entries(x, NID_commonName, &text, &cn, 1) == 0)
            cn = (struct bh_str){0};
        orgs_n = subject_entries(x, NID_organizationName, &text, orgs, ORGS_MAX);
        X509_free(x);
    }
    alpn_at = text.n;
    bh_buf_add(&text, alpn, alpn_n);
    if (text.overflow) { /* an absurd subject names nobody */
        s->peer.cert_verified = false;
        return;
    }
    block = bh_malloc(orgs_n * sizeof(struct bh_str) + text.n + 1);
    chars = block + orgs_n * sizeof(struct bh_str);
    if (text.n > 0)
        memcpy(chars, text.p, text.n);
    for (size_t i = 0; i < orgs_n; i++)
        orgs[i].p = chars + (uintptr_t)orgs[i].p;
    memcpy(block, orgs, orgs_n * sizeof(struct bh_str));
    s->peer.orgs = (struct bh_str_vec){(struct bh_str *)(void *)block, orgs_n};
    s->peer.cn = (struct bh_str){chars + (uintptr_t)cn.p, cn.n};
    s->peer.alpn = (struct bh_str){chars + alpn_at, alpn_n};
}

static void handshake_failed(struct bh_stream *s)
{
    long v = SSL_get_verify_result(s->ssl);
    unsigned long e = ERR_peek_error();
    char why[200] = "connection ended";
    struct bh_err err = {0};

    if (s->tls->verify_peer && v != X509_V_OK)
        (void)snprintf(why, sizeof(why), "certificate: %s", X509_verify_cert_error_string(v));
    else if (e)
        ERR_error_string_n(e, why, sizeof(why));
    ERR_clear_error();
    if (s->cipher.n > s->cipher_at) /* the alert, if it goes at once */
        (void)send(s->fd, s->cipher.p + s->cipher_at, s->cipher.n - s->cipher_at,
                   MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)bh_err_set(&err, BH_E_PROTO, "TLS handshake with %s: %s", s->peer.addr, why);
    bh_stream_die(s, &err);
}

void bh_stream_tls_handshake(struct bh_stream *s)
{
    int r;

    ERR_clear_error();
    r = SSL_do_handshake(s->ssl);
    if (r == 1) {
        fill_tls_peer(s);
        if (s->cipher.n > 0) {
            s->flush_wanted = true;
            bh_stream_kick(s);
        }
        bh_stream_opened(s);
        return;
    }
    if (SSL_get_error(s->ssl, r) == SSL_ERROR_WANT_READ) {
        ERR_clear_error();
        if (s->cipher.n > 0) {
            s->flush_wanted = true;
            bh_stream_kick(s);
        }
        return;
    }
    handshake_failed(s);
}

ssize_t bh_stream_tls_read(struct bh_stream *s, void *p, size_t n)
{
    int r, e;

    ERR_clear_error();
    r = SSL_read(s->ssl, p, (int)n);
    if (s->cipher.n > s->cipher_at && !s->write_blocked) { /* answers of the protocol itself */
        s->flush_wanted = true;
        bh_stream_kick(s);
    }
    if (r > 0)
        return r;
    e = SSL_get_error(s->ssl, r);
    if (e == SSL_ERROR_WANT_READ) {
        errno = EAGAIN;
        return -1;
    }
    if (e == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (e == SSL_ERROR_SYSCALL && errno != 0)
        bh_stream_fail(s, BH_E_IO, errno, "read from");
    else if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        bh_stream_fail(s, BH_E_PROTO, 0, "TLS connection was cut by");
    else
        bh_stream_fail(s, BH_E_PROTO, 0, "TLS error from");
    ERR_clear_error();
    return -2;
}

static bool encrypt(struct bh_stream *s, const char *p, size_t n)
{
    int r;

    ERR_clear_error();
    r = SSL_write(s->ssl, p, (int)n);
    if (r > 0) {
        bh_segs_consume(&s->queue, (size_t)r);
        return true;
    }
    ERR_clear_error();
    bh_stream_fail(s, BH_E_PROTO, 0, "TLS write error to");
    return false;
}

bool bh_stream_tls_encrypt(struct bh_stream *s)
{
    bh_assert(s->cipher.n == 0);
    if (s->state == BH_ST_HANDSHAKE)
        return true;
    bh_segs_consume(&s->queue, 0);
    while (s->queue.bytes > 0 && s->cipher.n < CIPHER_TURN) {
        struct bh_seg *g = s->queue.first;
        size_t n = 0;

        if (g->n >= RECORD || !g->next) { /* no gathering needed; small writes mostly come here */
            if (!encrypt(s, g->p, g->n < 4 * RECORD ? g->n : 4 * RECORD))
                return false;
            continue;
        }
        for (; g && n < RECORD; g = g->next) { /* pieces are joined, or each would be a record */
            size_t k = g->n < RECORD - n ? g->n : RECORD - n;

            memcpy(s->loop->scratch + n, g->p, k);
            n += k;
        }
        if (!encrypt(s, s->loop->scratch, n))
            return false;
    }
    return true;
}

void bh_stream_tls_notify(struct bh_stream *s)
{
    ERR_clear_error();
    (void)SSL_shutdown(s->ssl); /* 0: ours is out, the peer's is not in yet. Both are fine */
    ERR_clear_error();
}
