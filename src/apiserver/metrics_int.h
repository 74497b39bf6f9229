/* What the server counts about itself. */
#ifndef BH_APISERVER_METRICS_INT_H
#define BH_APISERVER_METRICS_INT_H

#include "apiserver/server_int.h"

#define BH_METRIC_SECONDS     23
#define BH_METRIC_SIZES       7 /* 1000, 10000 … bytes */
#define BH_METRIC_EVENT_SIZES 8 /* 1024, 2048 … bytes */
#define BH_RECENT_SERIES      64

extern const double bh_metric_seconds[BH_METRIC_SECONDS];

/* Buckets hold what fell between their bound and the one before. */
struct bh_durations {
    uint64_t count, buckets[BH_METRIC_SECONDS], sizes[BH_METRIC_SIZES];
    double sum, bytes;
};

struct bh_series {
    uint64_t count;
    struct bh_durations *d;
    char verb[32]; /* empty: too long, or none */
};

struct bh_watched {
    uint64_t events, sizes[BH_METRIC_EVENT_SIZES];
    double bytes;
};

struct bh_recent_series {
    const struct bh_kind *kind;
    const struct bh_subresource *sub;
    struct bh_str verb; /* in the series */
    int status;
    unsigned form; /* what else makes the labels */
    struct bh_series *series;
};

struct bh_metrics {
    struct bh_map requests;  /* labels -> struct bh_series */
    struct bh_map durations; /* labels without the code -> struct bh_durations */
    struct bh_map watched;   /* labels -> struct bh_watched */
    struct bh_recent_series recent[BH_RECENT_SERIES];
};

/* The labels under which a watch is counted as running; in the request's arena. */
struct bh_str bh_metrics_labels_of_watch(const struct bh_rq *rq);

#endif
