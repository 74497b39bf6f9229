/* Benchmarks: what they share. Each case measures with the project's own client and reports named
 * values. */
#ifndef BH_BENCH_H
#define BH_BENCH_H

#include "base/err.h"
#include "base/str.h"

struct bh_client;
struct bh_loop;

/* One line of the table and of build/bench.json. over: what it was measured over. */
void bench_report(const char *name, double value, const char *unit, const char *over);
/* Prints and ends: a benchmark that cannot run says why. */
_Noreturn void bench_fail(const char *fmt, ...) BH_PRINTF(1, 2);

/* Notes that a case failed: the others go on, the program ends with an error. */
void bench_failed(const char *name);
/* Whether the scheduler case of this name was asked for. */
bool bench_wanted(const char *name);

/* Runs the loop until *flag, at most seconds; returns whether it came. */
bool bench_wait(struct bh_loop *l, const bool *flag, int seconds);
/* The value below which the share q (0.5, 0.99) of n numbers lies; sorts them. */
double bench_quantile(double *v, size_t n, double q);
double bench_now(void); /* seconds, monotonic */
long bench_rss_kb(int pid);

/* A program in the background with a pipe on which it says "ready"; ready_flag is its option for
 * the descriptor, or NULL. */
struct bench_proc {
    int pid;
    int ready_fd;
};
struct bench_proc bench_spawn(const char *const *argv, const char *log);
/* Seconds until it was ready. */
double bench_ready(struct bench_proc *p, double since, int seconds);
void bench_end(struct bench_proc *p);      /* SIGTERM, then waits */
void bench_wait_end(struct bench_proc *p); /* waits for its own end */
void bench_down(void); /* bulkhead down --purge on the scratch cluster, if there is one */

extern const char *bench_program; /* path of bulkhead */
extern const char *bench_dir;     /* scratch directory, removed at the end */

void bench_cluster(void);   /* start, memory, pod create to Running: a real `bulkhead up` */
void bench_api(void);       /* durable creates, memory with 10,000 pods: `bulkhead apiserver` */
void bench_scheduler(void); /* upstream's scheduler_perf cases, in one process and as processes */

#endif
