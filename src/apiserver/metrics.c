/* Counting requests and watch events under upstream's names and labels. */
#include "apiserver/metrics_int.h"

#include "api/types.h"

#include <stdio.h>
#include <string.h>

#define SERIES_MAX                                                                                 \
    20000 /* combinations of labels; beyond, requests are counted together without any */

const double bh_metric_seconds[BH_METRIC_SECONDS] = {0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8,
                                                     1,     1.25,  1.5,  2,   3,   4,   5,   6,
                                                     8,     10,    15,   20,  30,  45,  60};

struct bh_metrics *bh_metrics_new(void)
{
    return bh_calloc(1, sizeof(struct bh_metrics));
}

static void free_values(struct bh_map *m)
{
    struct bh_str key;
    void *v;

    for (size_t it = 0; bh_map_next(m, &it, &key, &v);)
        bh_free(v);
    bh_map_done(m);
}

struct bh_metrics *bh_metrics_free(struct bh_metrics *m)
{
    if (!m)
        return NULL;
    free_values(&m->requests);
    free_values(&m->durations);
    free_values(&m->watched);
    bh_free(m);
    return NULL;
}

/* The verb as upstream reports it. */
static const char *verb_of(const struct bh_rq *rq)
{
    static const struct {
        const char *verb, *shown;
    } table[] = {{"get", "GET"},     {"list", "LIST"},  {"watch", "WATCH"},
                 {"create", "POST"}, {"update", "PUT"}, {"delete", "DELETE"},
                 {"post", "POST"},   {"put", "PUT"},    {"deletecollection", "DELETE"},
                 {"patch", "PATCH"}};

    if (bh_str_eqc(rq->ri.verb, "patch") &&
        bh_str_starts(rq->content_type, BH_S("application/apply-patch")))
        return "APPLY";
    for (size_t i = 0; i < BH_COUNT(table); i++)
        if (bh_str_eqc(rq->ri.verb, table[i].verb))
            return table[i].shown;
    return "other";
}

static const char *scope_of(const struct bh_rq *rq)
{
    if (!rq->kind)
        return "";
    if (rq->ri.name.n > 0 || bh_str_eqc(rq->ri.verb, "create"))
        return "resource";
    return rq->ri.ns.n > 0 ? "namespace" : "cluster";
}

/* What is no resource is told by its path, of those that are known: others would be without end. */
static struct bh_str path_of(const struct bh_rq *rq)
{
    static const char *const known[] = {"healthz", "livez", "readyz", "metrics", "version"};

    for (size_t i = 0; i < BH_COUNT(known); i++)
        if (bh_str_eqc(rq->ri.prefix, known[i]))
            return bh_str_fmt(rq->a, "/%s", known[i]);
    if (bh_str_eqc(rq->ri.prefix, "openapi"))
        return bh_str_starts(rq->ri.path, BH_S("/openapi/v2")) ? BH_S("openapi/v2")
                                                               : BH_S("openapi/v3");
    return BH_S("");
}

/* The components of a control plane name themselves in their User-Agent. */
static struct bh_str client_of(const struct bh_rq *rq)
{
    static const char *const known[] = {"kube-apiserver", "kube-controller-manager",
                                        "kube-scheduler"};

    for (size_t i = 0; i < BH_COUNT(known); i++)
        if (bh_str_starts(rq->user_agent, bh_s(known[i])) &&
            bh_str_starts(rq->user.name, BH_S("system:")))
            return bh_s(known[i]);
    return BH_S("");
}

static struct bh_str labels(const struct bh_rq *rq, int status)
{
    const struct bh_kind *k = rq->kind;
    struct bh_str sub = k ? (rq->sub ? rq->ri.sub : BH_S("")) : path_of(rq), code = BH_S(""),
                  client = BH_S("");

    if (status) {
        code = bh_str_fmt(rq->a, "code=\"%d\",", status);
        client = bh_str_fmt(rq->a, "system_client=\"%.*s\",", BH_SF(client_of(rq)));
    }
    return bh_str_fmt(
        rq->a,
        "%.*scomponent=\"%s\",dry_run=\"%s\",group=\"%.*s\",resource=\"%.*s\",scope=\"%s\","
        "subresource=\"%.*s\",%.*sverb=\"%s\",version=\"%.*s\"",
        BH_SF(code), k ? "apiserver" : "", rq->dry_run ? "All" : "", BH_SF(k ? k->group : BH_S("")),
        BH_SF(k ? k->resource : BH_S("")), scope_of(rq), BH_SF(sub), BH_SF(client), verb_of(rq),
        BH_SF(k ? k->version : BH_S("")));
}

static void *find(struct bh_map *m, struct bh_str key, size_t size)
{
    void *v = bh_map_get(m, key);

    if (v)
        return v;
    if (m->n >= SERIES_MAX)
        key = BH_S("code=\"\"");
    v = bh_map_get(m, key);
    if (!v) {
        v = bh_calloc(1, size);
        (void)bh_map_put(m, key, v);
    }
    return v;
}

static struct bh_series *series_of(struct bh_metrics *m, const struct bh_rq *rq, int status)
{
    struct bh_series *s = find(&m->requests, labels(rq, status), sizeof(*s));

    if (!s->d)
        s->d = find(&m->durations, labels(rq, 0), sizeof(*s->d));
    if (rq->ri.verb.n < sizeof(s->verb))
        memcpy(s->verb, rq->ri.verb.p ? rq->ri.verb.p : "", rq->ri.verb.n);
    return s;
}

/* Making the labels costs more than all the rest of counting: what was counted last is remembered
 * by what they are made of. */
static struct bh_series *find_series(struct bh_metrics *m, const struct bh_rq *rq, int status)
{
    unsigned form = (rq->dry_run ? 1u : 0) | (rq->ri.name.n > 0 ? 2u : 0) |
                    (rq->ri.ns.n > 0 ? 4u : 0) |
                    (bh_str_starts(rq->content_type, BH_S("application/apply-patch")) ? 8u : 0) |
                    (rq->user_agent.n > 5 && memcmp(rq->user_agent.p, "kube-", 5) == 0 ? 16u : 0);
    uintptr_t h = (uintptr_t)rq->kind / 8 + (uintptr_t)rq->sub / 8 * 5 + rq->ri.verb.n * 11 +
                  (uintptr_t)status * 3 + form * 7;
    struct bh_recent_series *r = &m->recent[(h ^ h >> 6) % BH_RECENT_SERIES];
    struct bh_series *s;

    if (r->series && rq->kind && r->kind == rq->kind && r->sub == rq->sub && r->status == status &&
        r->form == form && bh_str_eq(r->verb, rq->ri.verb))
        return r->series;
    s = series_of(m, rq, status);
    if (s->verb[0] && !(form & 16))
        *r = (struct bh_recent_series){rq->kind, rq->sub, bh_s(s->verb), status, form, s};
    return s;
}

void bh_metrics_count(struct bh_rq *rq, int status, size_t bytes)
{
    struct bh_series *s = find_series(rq->srv->metrics, rq, status);
    struct bh_durations *d = s->d;
    double seconds = (double)(bh_loop_mono_ns(rq->srv->loop) - rq->start_ns) / 1e9;
    size_t limit = 1000;

    s->count++;
    d->count++;
    d->sum += seconds;
    for (size_t i = 0; i < BH_METRIC_SECONDS; i++)
        if (seconds <= bh_metric_seconds[i]) {
            d->buckets[i]++; /* made cumulative when it is told */
            break;
        }
    d->bytes += (double)bytes;
    for (size_t i = 0; i < BH_METRIC_SIZES; i++, limit *= 10)
        if (bytes <= limit) {
            d->sizes[i]++;
            break;
        }
}

struct bh_watched *bh_metrics_watched(struct bh_rq *rq)
{
    return find(&rq->srv->metrics->watched,
                bh_str_fmt(rq->a, "group=\"%.*s\",resource=\"%.*s\",version=\"%.*s\"",
                           BH_SF(rq->kind->group), BH_SF(rq->kind->resource),
                           BH_SF(rq->kind->version)),
                sizeof(struct bh_watched));
}

void bh_metrics_event(struct bh_watched *w, size_t bytes)
{
    size_t limit = 1024;

    w->events++;
    w->bytes += (double)bytes;
    for (size_t i = 0; i < BH_METRIC_EVENT_SIZES; i++, limit *= 2)
        if (bytes <= limit) {
            w->sizes[i]++;
            break;
        }
}

struct bh_str bh_metrics_labels_of_watch(const struct bh_rq *rq)
{
    return bh_str_fmt(rq->a,
                      "component=\"apiserver\",group=\"%.*s\",resource=\"%.*s\",scope=\"%s\","
                      "subresource=\"%.*s\",verb=\"WATCH\",version=\"%.*s\"",
                      BH_SF(rq->kind->group), BH_SF(rq->kind->resource), scope_of(rq),
                      BH_SF(rq->sub ? rq->ri.sub : BH_S("")), BH_SF(rq->kind->version));
}
