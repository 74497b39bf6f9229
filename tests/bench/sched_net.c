/* The roles as processes. */
#include "sched_net.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/gen/core_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "bench.h"
#include "client/client.h"
#include "net/loop.h"

#define PORT "27444"

struct sched_net {
    struct bh_loop *loop;
    struct bh_client *admin;
    struct bench_proc proc[SCHED_NET_ROLES];
    char dir[256], kubeconfig[300];
    bool answered;
    uint64_t version; /* 0: the last question failed */
};

static void listed(void *arg, const struct bh_client_res *res)
{
    struct sched_net *n = arg;

    n->version = res->err.code == BH_OK ? res->list_rv : 0;
    n->answered = true;
}

uint64_t sched_net_version(struct sched_net *n)
{
    n->answered = false;
    (void)bh_client_call(
        n->admin, &(struct bh_client_req){.verb = BH_VERB_LIST, .kind = &bh_core_v1_namespace_kind},
        listed, n);
    if (!bench_wait(n->loop, &n->answered, 60))
        bench_fail("the API server does not answer");
    return n->version;
}

static void spawn(struct sched_net *n, enum sched_net_role r, const char *const *argv)
{
    char log[320];

    snprintf(log, sizeof(log), "%s.%s.log", n->dir, argv[1]);
    n->proc[r] = bench_spawn(argv, log);
}

struct sched_net *sched_net_new(struct bh_loop *l, struct bh_client **ret_admin)
{
    struct sched_net *n = bh_calloc(1, sizeof(*n));
    const char *argv[] = {bench_program,
                          "apiserver",
                          "--data-dir",
                          n->dir,
                          "--secure-port",
                          PORT,
                          "--bind-address",
                          "127.0.0.1",
                          "--disable-admission-plugins=ServiceAccount",
                          NULL};
    struct bh_err err = {0};

    n->loop = l;
    snprintf(n->dir, sizeof(n->dir), "%s/net-%d", bench_dir, (int)getpid());
    snprintf(n->kubeconfig, sizeof(n->kubeconfig), "%s/admin.kubeconfig", n->dir);
    for (size_t i = 0; i < SCHED_NET_ROLES; i++)
        n->proc[i].ready_fd = -1;
    spawn(n, SCHED_NET_API, argv);
    for (int i = 0; i < 600 && access(n->kubeconfig, R_OK) < 0; i++)
        (void)usleep(100000);
    n->admin = bh_client_new_kubeconfig(l, n->kubeconfig, "bench", &err);
    if (!n->admin)
        bench_fail("%s", err.msg);
    for (int i = 0; i < 600 && sched_net_version(n) == 0; i++)
        (void)usleep(100000);
    if (n->version == 0)
        bench_fail("the API server did not become ready");
    *ret_admin = n->admin;
    return n;
}

void sched_net_start_roles(struct sched_net *n)
{
    const char *scheduler[] = {bench_program,          "scheduler", "--kubeconfig", n->kubeconfig,
                               "--leader-elect=false", NULL};
    const char *controllers[] = {
        bench_program,
        "controller-manager",
        "--kubeconfig",
        n->kubeconfig,
        "--leader-elect=false",
        "--controllers=resourceclaim-controller,device-taint-eviction-controller",
        NULL};

    spawn(n, SCHED_NET_SCHEDULER, scheduler);
    spawn(n, SCHED_NET_CONTROLLERS, controllers);
}

struct sched_net *sched_net_free(struct sched_net *n)
{
    if (!n)
        return NULL;
    for (size_t i = SCHED_NET_ROLES; i-- > 0;)
        bench_end(&n->proc[i]);
    bh_free(n);
    return NULL;
}

double sched_net_cpu(const struct sched_net *n, enum sched_net_role r)
{
    BH_AUTO_BUF b = {.max = 4096};
    struct bh_str rest;
    int64_t ticks, sum = 0;
    char path[64];
    ptrdiff_t at;

    snprintf(path, sizeof(path), "/proc/%d/stat", n->proc[r].pid);
    if (bh_fs_read(path, 4096, &b, NULL) < 0)
        bench_fail("a process has ended early: see %s.*.log", n->dir);
    at = bh_str_find(bh_buf_str(&b), BH_S(") ")); /* the name may hold anything */
    rest = bh_str_sub(bh_buf_str(&b), (size_t)(at < 0 ? 0 : at + 2), b.n);
    for (int field = 3; field <= 15; field++) {
        struct bh_str word = bh_str_cut(&rest, ' ');

        if (field >= 14 && bh_str_i64(word, 0, INT64_MAX, &ticks))
            sum += ticks;
    }
    return (double)sum / (double)sysconf(_SC_CLK_TCK);
}

double sched_net_rss_mib(const struct sched_net *n, enum sched_net_role r)
{
    return (double)bench_rss_kb(n->proc[r].pid) / 1024;
}
