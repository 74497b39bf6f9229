/* Counters of the server, in upstream's names. */
#include "apiserver/server_int.h"

#include <stdio.h>
#include <string.h>

#define SERIES_MAX                                                                                 \
    20000 /* combinations of verb, resource and code; beyond, requests are counted as "other" */

static const double bounds[] = {0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 5, 10, 30, 60};

struct series {
    uint64_t count;
    uint64_t buckets[BH_COUNT(bounds)];
    double sum;
    char verb[32]; /* empty: too long, or none */
};

/* The series that were counted last, by what makes their labels: writing these each time cost more
 * than all the rest of counting. */
#define RECENT 64
struct recent {
    const struct bh_kind *kind;
    const struct bh_subresource *sub;
    struct bh_str verb; /* in the labels of the series */
    int status;
    struct series *series;
};

struct bh_metrics {
    struct bh_map requests; /* labels -> struct series */
    struct recent recent[RECENT];
};

struct bh_metrics *bh_metrics_new(void)
{
    return bh_calloc(1, sizeof(struct bh_metrics));
}

struct bh_metrics *bh_metrics_free(struct bh_metrics *m)
{
    struct bh_str key;
    void *v;

    if (!m)
        return NULL;
    for (size_t it = 0; bh_map_next(&m->requests, &it, &key, &v);)
        bh_free(v);
    bh_map_done(&m->requests);
    bh_free(m);
    return NULL;
}

static struct series *series_of(struct bh_metrics *m, const struct bh_rq *rq, int status)
{
    char labels[512];
    struct series *s;
    struct bh_str key;
    int n;

    if (rq->kind)
        n = snprintf(labels, sizeof(labels),
                     "code=\"%d\",group=\"%.*s\",resource=\"%.*s\",subresource=\"%.*s\",verb=\"%.*"
                     "s\",version=\"%.*s\"",
                     status, BH_SF(rq->kind->group), BH_SF(rq->kind->resource),
                     BH_SF(rq->sub ? rq->ri.sub : BH_S("")), BH_SF(rq->ri.verb),
                     BH_SF(rq->kind->version));
    else
        n = snprintf(
            labels, sizeof(labels),
            "code=\"%d\",group=\"\",resource=\"\",subresource=\"\",verb=\"other\",version=\"\"",
            status);
    key = (struct bh_str){labels, n < 0                        ? 0
                                  : (size_t)n < sizeof(labels) ? (size_t)n
                                                               : sizeof(labels) - 1};
    s = bh_map_get(&m->requests, key);
    if (!s) {
        if (m->requests.n >= SERIES_MAX)
            return NULL;
        s = bh_calloc(1, sizeof(*s));
        if (rq->ri.verb.n < sizeof(s->verb))
            memcpy(s->verb, rq->ri.verb.p ? rq->ri.verb.p : "", rq->ri.verb.n);
        (void)bh_map_put(&m->requests, key, s);
    }
    return s;
}

static struct series *find_series(struct bh_metrics *m, const struct bh_rq *rq, int status)
{
    uintptr_t h = (uintptr_t)rq->kind / 8 + (uintptr_t)rq->sub / 8 * 5 + rq->ri.verb.n * 11 +
                  (uintptr_t)status * 3;
    struct recent *r = &m->recent[(h ^ h >> 6) % RECENT];
    struct series *s;

    if (r->series && rq->kind && r->kind == rq->kind && r->sub == rq->sub && r->status == status &&
        bh_str_eq(r->verb, rq->ri.verb))
        return r->series;
    s = series_of(m, rq, status);
    if (s && s->verb[0])
        *r = (struct recent){rq->kind, rq->sub, bh_s(s->verb), status, s};
    return s;
}

void bh_metrics_count(struct bh_rq *rq, int status)
{
    struct series *s = find_series(rq->srv->metrics, rq, status);
    double seconds = (double)(bh_loop_mono_ns(rq->srv->loop) - rq->start_ns) / 1e9;

    if (!s)
        return;
    s->count++;
    s->sum += seconds;
    for (size_t i = 0; i < BH_COUNT(bounds); i++)
        if (seconds <= bounds[i])
            s->buckets[i]++;
}

static void requests(struct bh_apiserver *srv, struct bh_buf *b)
{
    struct bh_str key;
    void *v;

    bh_buf_addz(b, "# HELP apiserver_request_total [STABLE] Counter of apiserver requests broken "
                   "out for each verb, group, "
                   "version, resource, scope, component, and HTTP response code.\n# TYPE "
                   "apiserver_request_total counter\n");
    for (size_t it = 0; bh_map_next(&srv->metrics->requests, &it, &key, &v);)
        bh_buf_addf(b, "apiserver_request_total{%.*s} %llu\n", BH_SF(key),
                    (unsigned long long)((struct series *)v)->count);
    bh_buf_addz(b, "# HELP apiserver_request_duration_seconds [STABLE] Response latency "
                   "distribution in seconds for each "
                   "verb, group, version, resource, subresource, scope and component.\n"
                   "# TYPE apiserver_request_duration_seconds histogram\n");
    for (size_t it = 0; bh_map_next(&srv->metrics->requests, &it, &key, &v);) {
        const struct series *s = v;

        for (size_t i = 0; i < BH_COUNT(bounds); i++)
            bh_buf_addf(b, "apiserver_request_duration_seconds_bucket{%.*s,le=\"%g\"} %llu\n",
                        BH_SF(key), bounds[i], (unsigned long long)s->buckets[i]);
        bh_buf_addf(b, "apiserver_request_duration_seconds_bucket{%.*s,le=\"+Inf\"} %llu\n",
                    BH_SF(key), (unsigned long long)s->count);
        bh_buf_addf(b, "apiserver_request_duration_seconds_sum{%.*s} %g\n", BH_SF(key), s->sum);
        bh_buf_addf(b, "apiserver_request_duration_seconds_count{%.*s} %llu\n", BH_SF(key),
                    (unsigned long long)s->count);
    }
}

static void objects(struct bh_apiserver *srv, struct bh_buf *b)
{
    struct bh_str key;
    void *v;

    bh_buf_addz(b, "# HELP apiserver_storage_objects [STABLE] Number of stored objects at the time "
                   "of last check split by "
                   "kind.\n# TYPE apiserver_storage_objects gauge\n");
    for (size_t it = 0; bh_map_next(&srv->resources, &it, &key, &v);) {
        const struct bh_resource *res = v;

        bh_buf_addf(b, "apiserver_storage_objects{resource=\"%.*s%s%.*s\"} %zu\n",
                    BH_SF(res->hub->resource), res->hub->group.n > 0 ? "." : "",
                    BH_SF(res->hub->group), res->wc->set.n);
    }
}

int bh_metrics_serve(struct bh_rq *rq)
{
    struct bh_apiserver *srv = rq->srv;
    BH_AUTO_BUF b = {0};

    requests(srv, &b);
    objects(srv, &b);
    bh_buf_addf(&b,
                "# HELP apiserver_longrunning_requests [STABLE] Gauge of all active long-running "
                "apiserver requests.\n"
                "# TYPE apiserver_longrunning_requests "
                "gauge\napiserver_longrunning_requests{verb=\"WATCH\"} %zu\n",
                srv->watches);
    bh_buf_addf(
        &b,
        "# HELP bulkhead_apiserver_writes_waiting Writes accepted and not yet durable.\n"
        "# TYPE bulkhead_apiserver_writes_waiting gauge\nbulkhead_apiserver_writes_waiting %zu\n",
        bh_pipeline_waiting(srv->pipe));
    bh_buf_addf(
        &b,
        "# HELP bulkhead_apiserver_resource_version Version of the last write that is visible.\n"
        "# TYPE bulkhead_apiserver_resource_version counter\nbulkhead_apiserver_resource_version "
        "%llu\n",
        (unsigned long long)bh_wc_rv(srv->wc));
    bh_rq_answer_raw(rq, 200, BH_S("text/plain; version=0.0.4; charset=utf-8"),
                     bh_str_dup(rq->a, bh_buf_str(&b)));
    return 0;
}
