/* The scheduler's own port: whether it lives, and its figures. */
#include "scheduler/serve.h"

#include "base/arena.h"
#include "net/http.h"
#include "net/pki.h"
#include "scheduler/sched_int.h"

#define CERT_DAYS 365
#define METRICS   (1u << 20)

struct sched_server {
    struct bh_http_server *http;
    struct bh_scheduler *const *sched;
};

static void answer(struct bh_http_exchange *x, int status, struct bh_str type, struct bh_str text)
{
    const struct bh_http_header h = BH_HTTP_HEADER("Content-Type", type);
    const struct bh_part part = bh_http_arena_part(x, bh_str_dup(x->arena, text));

    bh_http_respond(x, status, &h, 1, &part, 1);
}

static void plain(struct bh_http_exchange *x, int status, const char *text)
{
    answer(x, status, BH_S("text/plain; charset=utf-8"), bh_s(text));
}

static bool local(const struct bh_http_exchange *x)
{
    struct bh_str addr = bh_s(x->peer->addr);

    return bh_str_starts(addr, BH_S("127.")) || bh_str_starts(addr, BH_S("[::1]")) ||
           bh_str_starts(addr, BH_S("[::ffff:127."));
}

/* Nobody asks the API server who the reader is: figures are for this machine only. */
static void metrics(const struct sched_server *s, struct bh_http_exchange *x)
{
    BH_AUTO_BUF b = {.max = METRICS};

    if (!local(x)) {
        plain(x, 403, "Forbidden\n");
        return;
    }
    if (*s->sched) /* a standby has no figures yet */
        sched_metrics(*s->sched, &b);
    answer(x, 200, BH_S("text/plain; version=0.0.4; charset=utf-8"), bh_buf_str(&b));
}

static void handle(void *arg, struct bh_http_exchange *x)
{
    const struct sched_server *s = arg;

    if (!bh_str_eqc(x->method, "GET") && !bh_str_eqc(x->method, "HEAD"))
        plain(x, 405, "method not allowed\n");
    else if (bh_str_eqc(x->path, "/healthz") || bh_str_eqc(x->path, "/livez"))
        plain(x, 200, "ok");
    else if (bh_str_eqc(x->path, "/readyz"))
        plain(x, *s->sched && !(*s->sched)->ready ? 500 : 200,
              *s->sched && !(*s->sched)->ready ? "informers are not synced\n" : "ok");
    else if (bh_str_eqc(x->path, "/metrics"))
        metrics(s, x);
    else
        plain(x, 404, "404 page not found\n");
}

/* As upstream without a certificate given: one of its own, for as long as it runs. */
static struct bh_tls *own_tls(struct bh_err *err)
{
    static const char *const alpn[] = {"http/1.1", NULL};
    const struct bh_str dns[] = {BH_S("localhost")}, ips[] = {BH_S("127.0.0.1")};
    const struct bh_pki_req req = {.cn = BH_S("bulkhead-scheduler"),
                                   .dns = dns,
                                   .dns_n = 1,
                                   .ips = ips,
                                   .ips_n = 1,
                                   .server = true,
                                   .days = CERT_DAYS};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_pki_pair ca, own;
    struct bh_tls_opts o = {.server = true, .alpn = alpn};

    if (bh_pki_make_ca(a, "bulkhead-scheduler-ca", CERT_DAYS, &ca, err) < 0 ||
        bh_pki_issue(a, &ca, &req, &own, err) < 0)
        return NULL;
    o.cert_pem = own.cert_pem;
    o.key_pem = own.key_pem;
    return bh_tls_new(&o, err);
}

struct sched_server *sched_server_new(struct bh_loop *l, const char *host, int port,
                                      struct bh_scheduler *const *sched, int *ret_port,
                                      struct bh_err *err)
{
    struct sched_server *s = bh_calloc(1, sizeof(*s));
    const struct bh_http_server_opts ho = {.handler = handle, .arg = s};
    struct bh_listen_opts lo = {.host = host, .port = port, .tls = own_tls(err)};

    s->sched = sched;
    s->http = bh_http_server_new(l, &ho);
    if (!lo.tls || bh_http_server_listen(s->http, &lo, ret_port, err) < 0) {
        (void)bh_tls_unref(lo.tls);
        return sched_server_free(s);
    }
    (void)bh_tls_unref(lo.tls);
    return s;
}

struct sched_server *sched_server_free(struct sched_server *s)
{
    if (!s)
        return NULL;
    (void)bh_http_server_free(s->http);
    bh_free(s);
    return NULL;
}
