/* Figures under upstream's names, in the text format that monitoring reads. */
#include "scheduler/sched_int.h"

#define NS_PER_S 1e9

static const char *const results[ATTEMPT__MAX] = {
    [ATTEMPT_SCHEDULED] = "scheduled",
    [ATTEMPT_UNSCHEDULABLE] = "unschedulable",
    [ATTEMPT_ERROR] = "error",
};

void sched_histogram_add(struct sched_histogram *h, double v, double first)
{
    double bound = first;
    int i = 0;

    while (i < HISTOGRAM_BUCKETS && v > bound) {
        bound *= 2;
        i++;
    }
    h->count[i]++; /* the last one has no bound */
    h->sum += v;
}

void sched_attempt_over(struct bh_scheduler *s, const struct spod *pod, enum attempt_result r)
{
    struct sched_figures *f;

    if (!pod->prof)
        return;
    f = &s->figures[pod->prof - s->profiles];
    sched_histogram_add(&f->duration[r],
                        (double)(bh_loop_mono_ns(s->loop) - pod->tried_ns) / NS_PER_S,
                        ATTEMPT_FIRST_S);
    if (r == ATTEMPT_SCHEDULED)
        sched_histogram_add(&f->sli, (double)(bh_loop_mono_ns(s->loop) - pod->added_ns) / NS_PER_S,
                            SLI_FIRST_S);
}

static void head(struct bh_buf *b, const char *name, const char *type, const char *help)
{
    bh_buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static uint64_t total(const struct sched_histogram *h)
{
    uint64_t n = 0;

    for (int i = 0; i <= HISTOGRAM_BUCKETS; i++)
        n += h->count[i];
    return n;
}

static void histogram(struct bh_buf *b, const char *name, const char *labels,
                      const struct sched_histogram *h, double first)
{
    const char *comma = *labels ? "," : "";
    double bound = first;
    uint64_t n = 0;

    for (int i = 0; i < HISTOGRAM_BUCKETS; i++, bound *= 2) {
        n += h->count[i];
        bh_buf_addf(b, "%s_bucket{%s%sle=\"%g\"} %llu\n", name, labels, comma, bound,
                    (unsigned long long)n);
    }
    n += h->count[HISTOGRAM_BUCKETS];
    bh_buf_addf(b, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma, (unsigned long long)n);
    bh_buf_addf(b, "%s_sum%s%s%s %g\n", name, *labels ? "{" : "", labels, *labels ? "}" : "",
                h->sum);
    bh_buf_addf(b, "%s_count%s%s%s %llu\n", name, *labels ? "{" : "", labels, *labels ? "}" : "",
                (unsigned long long)n);
}

static size_t length(const struct bh_link *l)
{
    size_t n = 0;

    bh_list_for(it, l) n++;
    return n;
}

static void queues(const struct bh_scheduler *s, struct bh_buf *b)
{
    static const char name[] = "scheduler_pending_pods";
    struct bh_scheduler_stats st;

    head(b, name, "gauge", "Pods that are not bound yet, by the queue they are in.");
    bh_buf_addf(b, "%s{queue=\"active\"} %zu\n", name, s->active.n);
    bh_buf_addf(b, "%s{queue=\"backoff\"} %zu\n", name, s->backoff.n + s->error_backoff.n);
    bh_buf_addf(b, "%s{queue=\"gated\"} %zu\n", name, length(&s->gated));
    bh_scheduler_stats(s, &st, NULL);
    bh_buf_addf(b, "%s{queue=\"unschedulable\"} %zu\n", name, st.waiting);
}

/* profile="NAME", as the format wants it escaped. */
static void profile_label(struct bh_buf *out, struct bh_str name)
{
    bh_buf_clear(out);
    bh_buf_addz(out, "profile=\"");
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] == '"' || name.p[i] == '\\')
            bh_buf_addc(out, '\\');
        if (name.p[i] == '\n')
            bh_buf_addz(out, "\\n");
        else
            bh_buf_addc(out, name.p[i]);
    }
    bh_buf_addc(out, '"');
}

static void attempts(const struct bh_scheduler *s, struct bh_buf *b)
{
    static const char count[] = "scheduler_schedule_attempts_total";
    static const char duration[] = "scheduler_scheduling_attempt_duration_seconds";
    static const char sli[] = "scheduler_pod_scheduling_sli_duration_seconds";
    BH_AUTO_BUF l = {.max = 4096};

    head(b, count, "counter", "Attempts to schedule pods, by what came of them.");
    for (size_t i = 0; i < s->profiles_n; i++)
        for (int r = 0; r < ATTEMPT__MAX; r++) {
            profile_label(&l, s->profiles[i].name);
            bh_buf_addf(b, "%s{%.*s,result=\"%s\"} %llu\n", count, BH_SF(bh_buf_str(&l)),
                        results[r], (unsigned long long)total(&s->figures[i].duration[r]));
        }
    head(b, duration, "histogram", "Time of an attempt, the binding included.");
    for (size_t i = 0; i < s->profiles_n; i++)
        for (int r = 0; r < ATTEMPT__MAX; r++) {
            profile_label(&l, s->profiles[i].name);
            bh_buf_addf(&l, ",result=\"%s\"", results[r]);
            if (total(&s->figures[i].duration[r]))
                histogram(b, duration, bh_buf_cstr(&l), &s->figures[i].duration[r],
                          ATTEMPT_FIRST_S);
        }
    head(b, sli, "histogram", "Time from the first look at a pod until it was bound.");
    for (size_t i = 0; i < s->profiles_n; i++) {
        profile_label(&l, s->profiles[i].name);
        histogram(b, sli, bh_buf_cstr(&l), &s->figures[i].sli, SLI_FIRST_S);
    }
}

void sched_metrics(const struct bh_scheduler *s, struct bh_buf *b)
{
    size_t assumed = 0, it = 0;
    void *v;

    queues(s, b);
    attempts(s, b);
    head(b, "scheduler_preemption_attempts_total", "counter", "Looks for pods to evict.");
    bh_buf_addf(b, "scheduler_preemption_attempts_total %llu\n",
                (unsigned long long)s->preemptions);
    head(b, "scheduler_preemption_victims", "histogram", "Pods evicted for one pod.");
    histogram(b, "scheduler_preemption_victims", "", &s->victims, 1);
    while (bh_map_next(&s->pods, &it, NULL, &v))
        assumed += ((const struct spod *)v)->assumed;
    head(b, "scheduler_cache_size", "gauge",
         "What is known: nodes, pods, pods placed but not seen.");
    bh_buf_addf(b, "scheduler_cache_size{type=\"assumed_pods\"} %zu\n", assumed);
    bh_buf_addf(b, "scheduler_cache_size{type=\"nodes\"} %u\n", s->nodes.n);
    bh_buf_addf(b, "scheduler_cache_size{type=\"pods\"} %zu\n", s->pods.n);
}
