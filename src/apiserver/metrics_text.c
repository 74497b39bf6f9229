/* GET /metrics: the text format of Prometheus (version 0.0.4), names and help as upstream has them
 * where it has them. */
#include "apiserver/metrics_int.h"

#include "base/fs.h"
#include "data/json.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void head(struct bh_buf *b, const char *name, const char *type, const char *help)
{
    bh_buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

struct row {
    struct bh_str key;
    void *v;
};

static int by_key(const void *a, const void *b)
{
    return bh_str_cmp(((const struct row *)a)->key, ((const struct row *)b)->key);
}

/* The entries of a map by key: two scrapes tell the same in the same order. */
static struct row *rows_of(struct bh_arena *a, const struct bh_map *m, size_t *ret_n)
{
    struct row *r = bh_new_n(a, struct row, m->n + 1);
    size_t n = 0;

    for (size_t it = 0; n < m->n && bh_map_next(m, &it, &r[n].key, &r[n].v);)
        n++;
    if (n > 1)
        qsort(r, n, sizeof(*r), by_key);
    *ret_n = n;
    return r;
}

static void requests(struct bh_rq *rq, struct bh_buf *b)
{
    struct bh_metrics *m = rq->srv->metrics;
    size_t n, i, k;
    struct row *r = rows_of(rq->a, &m->requests, &n);

    head(b, "apiserver_request_total", "counter",
         "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, "
         "version, resource, scope, component, and HTTP response code.");
    for (i = 0; i < n; i++)
        bh_buf_addf(b, "apiserver_request_total{%.*s} %llu\n", BH_SF(r[i].key),
                    (unsigned long long)((struct bh_series *)r[i].v)->count);
    r = rows_of(rq->a, &m->durations, &n);
    head(b, "apiserver_request_duration_seconds", "histogram",
         "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, "
         "version, resource, subresource, scope and component.");
    for (i = 0; i < n; i++) {
        const struct bh_durations *d = r[i].v;
        uint64_t sum = 0;

        for (k = 0; k < BH_METRIC_SECONDS; k++) {
            sum += d->buckets[k];
            bh_buf_addf(b, "apiserver_request_duration_seconds_bucket{%.*s,le=\"%g\"} %llu\n",
                        BH_SF(r[i].key), bh_metric_seconds[k], (unsigned long long)sum);
        }
        bh_buf_addf(b,
                    "apiserver_request_duration_seconds_bucket{%.*s,le=\"+Inf\"} %llu\n"
                    "apiserver_request_duration_seconds_sum{%.*s} %.9g\n"
                    "apiserver_request_duration_seconds_count{%.*s} %llu\n",
                    BH_SF(r[i].key), (unsigned long long)d->count, BH_SF(r[i].key), d->sum,
                    BH_SF(r[i].key), (unsigned long long)d->count);
    }
}

/* Sizes of answers: the same rows, of which this metric has no dry_run. */
static struct bh_str without_dry_run(struct bh_arena *a, struct bh_str labels)
{
    ptrdiff_t at = bh_str_find(labels, BH_S("dry_run=\"\","));

    if (at < 0)
        return labels;
    return bh_str_fmt(a, "%.*s%.*s", (int)at, labels.p,
                      BH_SF(bh_str_sub(labels, (size_t)at + 11, labels.n)));
}

static void sizes(struct bh_rq *rq, struct bh_buf *b)
{
    size_t n;
    struct row *r = rows_of(rq->a, &rq->srv->metrics->durations, &n);

    head(b, "apiserver_response_sizes", "histogram",
         "[STABLE] Response size distribution in bytes for each group, version, verb, resource, "
         "subresource, scope and component.");
    for (size_t i = 0; i < n; i++) {
        const struct bh_durations *d = r[i].v;
        struct bh_str key = without_dry_run(rq->a, r[i].key);
        double bound = 1000;
        uint64_t sum = 0;

        if (key.n == r[i].key.n || bh_str_find(key, BH_S("verb=\"WATCH\"")) >= 0)
            continue; /* dry runs and watches have no size */
        for (size_t k = 0; k < BH_METRIC_SIZES; k++, bound *= 10) {
            sum += d->sizes[k];
            bh_buf_addf(b, "apiserver_response_sizes_bucket{%.*s,le=\"%g\"} %llu\n", BH_SF(key),
                        bound, (unsigned long long)sum);
        }
        bh_buf_addf(b,
                    "apiserver_response_sizes_bucket{%.*s,le=\"+Inf\"} %llu\n"
                    "apiserver_response_sizes_sum{%.*s} %.15g\n"
                    "apiserver_response_sizes_count{%.*s} %llu\n",
                    BH_SF(key), (unsigned long long)d->count, BH_SF(key), d->bytes, BH_SF(key),
                    (unsigned long long)d->count);
    }
}

static void watched(struct bh_rq *rq, struct bh_buf *b)
{
    size_t n, i;
    struct row *r = rows_of(rq->a, &rq->srv->metrics->watched, &n);

    head(b, "apiserver_watch_events_total", "counter",
         "[ALPHA] Number of events sent in watch clients");
    for (i = 0; i < n; i++)
        bh_buf_addf(b, "apiserver_watch_events_total{%.*s} %llu\n", BH_SF(r[i].key),
                    (unsigned long long)((struct bh_watched *)r[i].v)->events);
    head(b, "apiserver_watch_events_sizes", "histogram",
         "[ALPHA] Watch event size distribution in bytes");
    for (i = 0; i < n; i++) {
        const struct bh_watched *w = r[i].v;
        uint64_t sum = 0;

        for (size_t k = 0; k < BH_METRIC_EVENT_SIZES; k++) {
            sum += w->sizes[k];
            bh_buf_addf(b, "apiserver_watch_events_sizes_bucket{%.*s,le=\"%u\"} %llu\n",
                        BH_SF(r[i].key), 1024u << k, (unsigned long long)sum);
        }
        bh_buf_addf(b,
                    "apiserver_watch_events_sizes_bucket{%.*s,le=\"+Inf\"} %llu\n"
                    "apiserver_watch_events_sizes_sum{%.*s} %.15g\n"
                    "apiserver_watch_events_sizes_count{%.*s} %llu\n",
                    BH_SF(r[i].key), (unsigned long long)w->events, BH_SF(r[i].key), w->bytes,
                    BH_SF(r[i].key), (unsigned long long)w->events);
    }
}

/* What is under way right now. */
static void running(struct bh_rq *rq, struct bh_buf *b)
{
    size_t mutating = 0, reading = 0, n;
    struct bh_map watches = {0};
    struct row *r;

    bh_list_for_safe(it, &rq->srv->rqs)
    {
        struct bh_rq *other = bh_container(it, struct bh_rq, link);
        bool read = bh_str_eqc(other->method, "GET") || bh_str_eqc(other->method, "HEAD");

        if (other->kind && bh_str_eqc(other->ri.verb, "watch")) {
            struct bh_str key = bh_str_dup(rq->a, bh_metrics_labels_of_watch(other));
            size_t *count = bh_map_get(&watches, key);

            if (!count) {
                count = bh_new(rq->a, size_t);
                (void)bh_map_put(&watches, key, count);
            }
            (*count)++;
        } else if (other != rq) {
            mutating += !read;
            reading += read;
        }
    }
    head(b, "apiserver_current_inflight_requests", "gauge",
         "[STABLE] Maximal number of currently used inflight request limit of this apiserver per "
         "request kind in last second.");
    bh_buf_addf(b,
                "apiserver_current_inflight_requests{request_kind=\"mutating\"} %zu\n"
                "apiserver_current_inflight_requests{request_kind=\"readOnly\"} %zu\n",
                mutating, reading);
    head(b, "apiserver_longrunning_requests", "gauge",
         "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, "
         "version, resource, scope and component. Not all requests are tracked this way.");
    r = rows_of(rq->a, &watches, &n);
    for (size_t i = 0; i < n; i++)
        bh_buf_addf(b, "apiserver_longrunning_requests{%.*s} %zu\n", BH_SF(r[i].key),
                    *(size_t *)r[i].v);
    bh_map_done(&watches);
}

static void objects(struct bh_rq *rq, struct bh_buf *b)
{
    size_t n, i;
    struct row *r = rows_of(rq->a, &rq->srv->resources, &n);

    head(b, "apiserver_storage_objects", "gauge",
         "[STABLE] (Deprecated since 1.34.0) [DEPRECATED, consider using "
         "apiserver_resource_objects instead] Number of stored objects at the time of last check "
         "split by kind. In case of a fetching error, the value will be -1.");
    for (i = 0; i < n; i++) {
        const struct bh_resource *res = r[i].v;

        bh_buf_addf(b, "apiserver_storage_objects{resource=\"%.*s\"} %zu\n",
                    BH_SF(bh_qualified(rq, res->hub->group, res->hub->resource)), res->wc->set.n);
    }
    head(b, "apiserver_resource_objects", "gauge",
         "[ALPHA] Number of stored objects at the time of last check split by kind. In case of a "
         "fetching error, the value will be -1.");
    for (i = 0; i < n; i++) {
        const struct bh_resource *res = r[i].v;

        bh_buf_addf(b, "apiserver_resource_objects{group=\"%.*s\",resource=\"%.*s\"} %zu\n",
                    BH_SF(res->hub->group), BH_SF(res->hub->resource), res->wc->set.n);
    }
}

/* ---- the process ---- */

static void one(struct bh_buf *b, const char *name, const char *type, const char *help, double v)
{
    head(b, name, type, help);
    bh_buf_addf(b, "%s %.15g\n", name, v);
}

/* Field number n (from 1) of /proc/self/stat, counted behind the name in parentheses. */
static double stat_field(struct bh_str rest, int n)
{
    double v = 0;

    for (int i = 3; i <= n && rest.p; i++) {
        struct bh_str f = bh_str_cut(&rest, ' ');

        if (i == n)
            (void)bh_json_num_double(f, &v);
    }
    return v;
}

static size_t open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    if (!d)
        return 0;
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n > 3 ? n - 3 : 0; /* ".", ".." and the directory itself */
}

static double boot_time(void)
{
    BH_AUTO_BUF b = {0};
    ptrdiff_t at;
    double v = 0;

    if (bh_fs_read("/proc/stat", 1 << 20, &b, NULL) < 0)
        return 0;
    at = bh_str_find(bh_buf_str(&b), BH_S("\nbtime "));
    if (at >= 0) {
        struct bh_str rest = bh_str_sub(bh_buf_str(&b), (size_t)at + 7, b.n);

        (void)bh_json_num_double(bh_str_cut(&rest, '\n'), &v);
    }
    return v;
}

static void process(struct bh_buf *b)
{
    double ticks = (double)sysconf(_SC_CLK_TCK), page = (double)sysconf(_SC_PAGESIZE);
    struct rlimit files = {0}, memory = {0};
    BH_AUTO_BUF st = {0};
    struct bh_str rest;
    ptrdiff_t at = -1;

    if (bh_fs_read("/proc/self/stat", 1 << 16, &st, NULL) < 0)
        return;
    for (size_t i = 0; i < st.n; i++)
        if (st.p[i] == ')')
            at = (ptrdiff_t)i;
    if (at < 0)
        return;
    rest = bh_str_sub(bh_buf_str(&st), (size_t)at + 2, st.n);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    (void)getrlimit(RLIMIT_AS, &memory);
    one(b, "process_cpu_seconds_total", "counter",
        "Total user and system CPU time spent in seconds.",
        (stat_field(rest, 14) + stat_field(rest, 15)) / ticks);
    one(b, "process_max_fds", "gauge", "Maximum number of open file descriptors.",
        (double)files.rlim_cur);
    one(b, "process_open_fds", "gauge", "Number of open file descriptors.", (double)open_files());
    one(b, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
        stat_field(rest, 24) * page);
    one(b, "process_start_time_seconds", "gauge",
        "Start time of the process since unix epoch in seconds.",
        boot_time() + stat_field(rest, 22) / ticks);
    one(b, "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.",
        stat_field(rest, 23));
    one(b, "process_virtual_memory_max_bytes", "gauge",
        "Maximum amount of virtual memory available in bytes.", (double)memory.rlim_cur);
}

int bh_metrics_serve(struct bh_rq *rq)
{
    struct bh_apiserver *srv = rq->srv;
    BH_AUTO_BUF b = {0};

    running(rq, &b);
    requests(rq, &b);
    objects(rq, &b);
    sizes(rq, &b);
    watched(rq, &b);
    one(&b, "bulkhead_apiserver_resource_version", "counter",
        "Version of the last write that is visible.", (double)bh_wc_rv(srv->wc));
    one(&b, "bulkhead_apiserver_writes_waiting", "gauge", "Writes accepted and not yet durable.",
        (double)bh_pipeline_waiting(srv->pipe));
    head(&b, "kubernetes_build_info", "gauge",
         "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git "
         "commit, git tree state, build date, Go version, and compiler from which Kubernetes was "
         "built, and platform on which it is running.");
    bh_buf_addz(&b, "kubernetes_build_info{build_date=\"2026-01-01T00:00:00Z\",compiler=\"gcc\","
                    "git_commit=\"bulkhead\",git_tree_state=\"clean\",git_version=\"v1.36.2\","
                    "go_version=\"none\",major=\"1\",minor=\"36\",platform=\"linux/amd64\"} 1\n");
    process(&b);
    bh_rq_answer_raw(rq, 200,
                     BH_S("text/plain; version=0.0.4; charset=utf-8; escaping=underscores"),
                     bh_str_dup(rq->a, bh_buf_str(&b)));
    return 0;
}
