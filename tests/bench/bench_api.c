/* `bulkhead apiserver` over HTTPS: durable creates with 1 and 64 clients, memory with 10,000 pods.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "bench.h"
#include "net/http.h"
#include "net/loop.h"

#define PORT  27543
#define TOKEN "bench-token"

struct load {
    struct bh_loop *loop;
    struct bh_http_client *http;
    const char *path;
    struct bh_str (*body)(struct bh_arena *a, size_t i);
    size_t total, sent, done, failed;
    double *times;
    bool finished;
    char error[600];
};

struct one {
    struct load *l;
    double t;
};

static void next(struct load *l);

static void answered(void *arg, const struct bh_http_response *r, const struct bh_err *err)
{
    struct one *o = arg;
    struct load *l = o->l;

    l->times[l->done++] = (bench_now() - o->t) * 1e3;
    if (!r || r->status != 201) {
        l->failed++;
        if (r)
            snprintf(l->error, sizeof(l->error), "status %d: %.*s", r->status,
                     (int)(r->body.n < 200 ? r->body.n : 200), r->body.p);
        else
            snprintf(l->error, sizeof(l->error), "%s", err->msg);
    }
    bh_free(o);
    if (l->sent < l->total)
        next(l);
    l->finished = l->done == l->total;
}

static void next(struct load *l)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_http_header h[] = {BH_HTTP_HEADER("Content-Type", BH_S("application/json"))};
    struct one *o = bh_calloc(1, sizeof(*o));
    struct bh_http_request rq = {.method = BH_S("POST"),
                                 .target = bh_s(l->path),
                                 .headers = h,
                                 .headers_n = 1,
                                 .done = answered,
                                 .arg = o};

    o->l = l;
    o->t = bench_now();
    rq.body = l->body(a, l->sent++);
    (void)bh_http_call_start(l->http, &rq);
}

static double drive(struct load *l, size_t clients, size_t total)
{
    double t = bench_now();

    l->sent = l->done = l->failed = 0;
    l->finished = false;
    l->total = total;
    l->times = bh_calloc(total, sizeof(double));
    for (size_t i = 0; i < clients; i++)
        next(l);
    if (!bench_wait(l->loop, &l->finished, 300) || l->failed)
        bench_fail("%zu of %zu answers, %zu failed: %s", l->done, total, l->failed, l->error);
    return (double)total / (bench_now() - t);
}

static size_t base;

static struct bh_str config_map(struct bh_arena *a, size_t i)
{
    return bh_str_fmt(a,
                      "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"cm-%"
                      "zu\"},\"data\":{\"key\":\"value\"}}",
                      base + i);
}

static struct bh_str pod(struct bh_arena *a, size_t i)
{
    return bh_str_fmt(a,
                      "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"pod-%zu\","
                      "\"labels\":{\"app\":\"bench\"}},\"spec\":{"
                      "\"containers\":[{\"name\":\"main\",\"image\":\"example.com/"
                      "train:1\",\"resources\":{\"requests\":{\"cpu\":\"100m\","
                      "\"memory\":\"128Mi\"}}}]}}",
                      base + i);
}

void bench_api(void)
{
    char dir[256], tokens[256], log[256], port[16];
    const char *argv[] = {bench_program,
                          "apiserver",
                          "--data-dir",
                          dir,
                          "--secure-port",
                          port,
                          "--token-auth-file",
                          tokens,
                          "--disable-admission-plugins=ServiceAccount",
                          NULL};
    struct bh_err err = {0};
    struct load l = {.loop = bh_loop_new_real(&err)};
    struct bh_http_client_opts ho = {
        .host = "127.0.0.1", .port = PORT, .conns_max = 64, .waiting_max = 100000};
    const struct bh_tls_opts to = {.insecure_skip_verify = true};
    struct bench_proc p;
    double rate;
    long before;

    snprintf(dir, sizeof(dir), "%s/api", bench_dir);
    snprintf(tokens, sizeof(tokens), "%s/tokens.csv", bench_dir);
    snprintf(log, sizeof(log), "%s/api.log", bench_dir);
    snprintf(port, sizeof(port), "%d", PORT);
    if (!l.loop ||
        bh_fs_write_plain(tokens, BH_S(TOKEN ",admin,1,system:masters\n"), 0600, &err) < 0)
        bench_fail("%s", err.msg);
    p = bench_spawn(argv, log);
    ho.tls = bh_tls_new(&to, &err);
    l.http = bh_http_client_new(l.loop, &ho);
    bh_http_client_set_bearer(l.http, BH_S(TOKEN));
    (void)bench_wait(l.loop, &l.finished, 1);
    before = bench_rss_kb(p.pid);
    bench_report("memory_idle_apiserver", (double)before / 1024, "MiB",
                 "resident, bulkhead apiserver alone");
    l.path = "/api/v1/namespaces/default/configmaps";
    l.body = config_map;
    (void)drive(&l, 64, 500); /* connections and caches warm */
    bh_free(l.times);
    base = 500;
    rate = drive(&l, 1, 2000);
    bench_report("durable_creates_1_client", rate, "1/s",
                 "2,000 ConfigMaps over HTTPS, each answered when durable");
    bench_report("durable_create_1_client_p99", bench_quantile(l.times, l.total, 0.99), "ms",
                 "the same");
    bh_free(l.times);
    base = 2500;
    rate = drive(&l, 64, 20000);
    bench_report("durable_creates_64_clients", rate, "1/s", "20,000 ConfigMaps over HTTPS");
    bench_report("durable_create_64_clients_p50", bench_quantile(l.times, l.total, 0.5), "ms",
                 "the same");
    bench_report("durable_create_64_clients_p99", bench_quantile(l.times, l.total, 0.99), "ms",
                 "the same");
    bh_free(l.times);
    before = bench_rss_kb(p.pid);
    l.path = "/api/v1/namespaces/default/pods";
    l.body = pod;
    base = 0;
    rate = drive(&l, 64, 10000);
    bench_report("durable_pod_creates_64_clients", rate, "1/s", "10,000 pods over HTTPS");
    bh_free(l.times);
    bench_report("memory_10000_pods", (double)(bench_rss_kb(p.pid) - before) / 1024, "MiB",
                 "resident, what 10,000 pods add");
    (void)bh_http_client_free(l.http);
    (void)bh_tls_unref(ho.tls);
    bench_end(&p);
    (void)bh_loop_free(l.loop);
}
