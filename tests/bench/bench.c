/* bench BULKHEAD OUT.json [NAME…]: measures, prints a table, writes one JSON object a line. NAME is
 * a group (cluster, api, scheduler) or a part of a scheduler case's name ("Basic", "500nodes/api").
 */
#include "bench.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "net/loop.h"

extern char **environ;

#define LIVE_MAX 16

const char *bench_program, *bench_dir;
static FILE *json;
static char **wanted;
static int wanted_n;
static bool failed;        /* a case that does not stop the others */
static pid_t owner;        /* the process that made bench_dir, and not a case's own */
static int live[LIVE_MAX]; /* pids that have to be ended whatever happens */

void bench_report(const char *name, double value, const char *unit, const char *over)
{
    printf("%-92s %12.2f %-8s\n", name, value, unit);
    fflush(stdout);
    fprintf(json, "{\"name\":\"%s\",\"value\":%.4f,\"unit\":\"%s\",\"over\":\"%s\"}\n", name, value,
            unit, over);
    fflush(json);
}

static void clean_up(void)
{
    struct bh_err err = {0};

    for (size_t i = 0; i < LIVE_MAX; i++)
        if (live[i] > 0) {
            (void)kill(live[i], SIGTERM);
            (void)waitpid(live[i], NULL, 0);
        }
    if (getpid() != owner) /* the other cases need what is there */
        return;
    bench_down();
    if (bench_dir && bh_fs_remove_tree(bench_dir, &err) < 0)
        fprintf(stderr, "bench: %s\n", err.msg);
}

void bench_fail(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fputs("bench: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    clean_up();
    exit(1);
}

void bench_failed(const char *name)
{
    fprintf(stderr, "bench: %s failed\n", name);
    failed = true;
}

bool bench_wanted(const char *name)
{
    for (int i = 0; i < wanted_n; i++)
        if (strcmp(wanted[i], "scheduler") == 0 || strstr(name, wanted[i]))
            return true;
    return wanted_n == 0;
}

struct waiting {
    struct bh_loop *loop;
    const bool *flag;
    struct bh_timer timer;
    double end;
};

static void look(void *arg)
{
    struct waiting *w = arg;

    if (*w->flag || bench_now() > w->end)
        bh_loop_stop(w->loop);
    else
        bh_timer_start(&w->timer, 1);
}

bool bench_wait(struct bh_loop *l, const bool *flag, int seconds)
{
    struct waiting w = {.loop = l, .flag = flag, .end = bench_now() + seconds};

    bh_timer_init(&w.timer, l, look, &w);
    bh_timer_start(&w.timer, 0);
    bh_loop_run(l);
    bh_timer_stop(&w.timer);
    return *flag;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

double bench_quantile(double *v, size_t n, double q)
{
    if (n == 0)
        return 0;
    qsort(v, n, sizeof(*v), by_value);
    size_t i = (size_t)(q * (double)n);
    return v[i < n ? i : n - 1];
}

double bench_now(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

long bench_rss_kb(int pid)
{
    BH_AUTO_BUF b = {.max = 65536};
    struct bh_str rest, line;
    char path[64];
    int64_t kb;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    if (bh_fs_read(path, 65536, &b, NULL) < 0)
        return 0;
    for (rest = bh_buf_str(&b); rest.n;) {
        line = bh_str_cut(&rest, '\n');
        if (!bh_str_starts(line, BH_S("VmRSS:")))
            continue;
        line = bh_str_trim(bh_str_sub(line, 6, line.n));
        return bh_str_i64(bh_str_cut(&line, ' '), 0, INT64_MAX, &kb) ? (long)kb : 0;
    }
    return 0;
}

struct bench_proc bench_spawn(const char *const *argv, const char *log)
{
    struct bench_proc p = {.ready_fd = -1};
    posix_spawn_file_actions_t fa;
    int fd[2];

    if (pipe2(fd, O_CLOEXEC) < 0)
        bench_fail("pipe");
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&fa, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&fa, 1, 2);
    posix_spawn_file_actions_adddup2(&fa, fd[1], 9); /* what --ready-fd 9 names */
    if (posix_spawn(&p.pid, argv[0], &fa, NULL, (char *const *)(uintptr_t)argv, environ) != 0)
        bench_fail("cannot start %s", argv[0]);
    posix_spawn_file_actions_destroy(&fa);
    (void)close(fd[1]);
    p.ready_fd = fd[0];
    for (size_t i = 0; i < LIVE_MAX; i++)
        if (live[i] == 0) {
            live[i] = p.pid;
            break;
        }
    return p;
}

double bench_ready(struct bench_proc *p, double since, int seconds)
{
    struct pollfd pfd = {.fd = p->ready_fd, .events = POLLIN};
    char word[8];

    if (poll(&pfd, 1, seconds * 1000) != 1 || read(p->ready_fd, word, sizeof(word)) < 5)
        bench_fail("the cluster did not become ready");
    return bench_now() - since;
}

void bench_end(struct bench_proc *p)
{
    if (p->pid > 0)
        (void)kill(p->pid, SIGTERM);
    bench_wait_end(p);
}

void bench_wait_end(struct bench_proc *p)
{
    for (size_t i = 0; i < LIVE_MAX; i++)
        live[i] = live[i] == p->pid ? 0 : live[i];
    if (p->pid > 0)
        (void)waitpid(p->pid, NULL, 0);
    if (p->ready_fd >= 0)
        (void)close(p->ready_fd);
    *p = (struct bench_proc){.ready_fd = -1};
}

static bool group_wanted(const char *name)
{
    for (int i = 0; i < wanted_n; i++)
        if (strcmp(wanted[i], name) == 0)
            return true;
    return wanted_n == 0;
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/bulkhead-bench.XXXXXX";

    if (argc < 3) {
        fprintf(stderr, "usage: bench BULKHEAD OUT.json [cluster|api|scheduler|PART OF A NAME]…\n");
        return 2;
    }
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    bench_program = argv[1];
    wanted = argv + 3;
    wanted_n = argc - 3;
    json = fopen(argv[2], "w");
    owner = getpid();
    bench_dir = mkdtemp(dir);
    if (!json || !bench_dir)
        bench_fail("cannot write");
    if (group_wanted("cluster"))
        bench_cluster();
    if (group_wanted("api"))
        bench_api();
    bench_scheduler();
    fclose(json);
    clean_up();
    return failed;
}
