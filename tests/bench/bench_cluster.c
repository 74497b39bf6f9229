/* A real `bulkhead up`: cold start, memory, a pod from creation to Running. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"
#include "bench.h"
#include "client/client.h"
#include "net/loop.h"

#define STARTS 5
#define PODS   20
#define PORT   "27443"

static void path(char *buf, size_t n, const char *rel)
{
    snprintf(buf, n, "%s/%s", bench_dir, rel);
}

static void run_tool(const char *const *argv)
{
    char log[256];
    struct bench_proc p;

    path(log, sizeof(log), "tool.log");
    p = bench_spawn(argv, log);
    bench_wait_end(&p);
}

static struct bench_proc up(double *seconds)
{
    char data[256], root[256], log[256];
    const char *argv[] = {bench_program,    "up", "--data-dir", data, "--port", PORT,
                          "--kubelet-root", root, "--ready-fd", "9",  NULL};
    double t = bench_now();
    struct bench_proc p;

    path(data, sizeof(data), "data");
    path(root, sizeof(root), "kubelet");
    path(log, sizeof(log), "up.log");
    p = bench_spawn(argv, log);
    *seconds = bench_ready(&p, t, 60);
    return p;
}

void bench_down(void)
{
    char data[256], root[256];
    const char *argv[] = {bench_program, "down",           "--purge", "--data-dir",
                          data,          "--kubelet-root", root,      NULL};

    path(data, sizeof(data), "data");
    path(root, sizeof(root), "kubelet");
    if (access(data, F_OK) == 0)
        run_tool(argv);
}

struct pod_run {
    struct bh_loop *loop;
    char name[32];
    bool running, gone;
};

static void pod_seen(void *arg, struct bh_obj *o)
{
    struct pod_run *r = arg;
    const struct bh_core_v1_pod *p = bh_obj_struct(o);

    r->running =
        r->running || (bh_str_eqc(o->name, r->name) && bh_str_eqc(p->status.phase, "Running") &&
                       p->status.container_statuses.n && p->status.container_statuses.p[0].ready);
}
static void pod_changed(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
    pod_seen(arg, o);
}
static void pod_gone(void *arg, struct bh_obj *last)
{
    struct pod_run *r = arg;

    r->gone = r->gone || bh_str_eqc(last->name, r->name);
}
static void synced(void *arg)
{
    ((struct pod_run *)arg)->gone = true;
}

static void pods_to_running(const char *image)
{
    static const struct bh_informer_ops ops = {pod_seen, pod_changed, pod_gone, synced};
    struct bh_err err = {0};
    struct pod_run r = {.loop = bh_loop_new_real(&err)};
    double times[PODS];
    struct bh_client *c;
    struct bh_informer *inf;
    char kubeconfig[256];

    path(kubeconfig, sizeof(kubeconfig), "data/kubeconfig");
    c = r.loop ? bh_client_new_kubeconfig(r.loop, kubeconfig, "bench", &err) : NULL;
    if (!c)
        bench_fail("%s", err.msg);
    inf = bh_informer_new(c, &bh_core_v1_pod_kind, BH_S("default"), (struct bh_str){0},
                          (struct bh_str){0}, &ops, &r);
    if (!bench_wait(r.loop, &r.gone, 10))
        bench_fail("no list of pods");
    for (int i = 0; i < PODS; i++) {
        struct bh_core_v1_pod pod = {0};
        struct bh_core_v1_container ctr = {.name = BH_S("main"), .image = bh_s(image)};
        struct bh_str cmd[] = {BH_S("/bin/sleep"), BH_S("1000")};
        double t;

        snprintf(r.name, sizeof(r.name), "bench-%d", i);
        r.running = r.gone = false;
        ctr.command.p = cmd;
        ctr.command.n = 2;
        pod.metadata.name = bh_s(r.name);
        pod.spec.containers.p = &ctr;
        pod.spec.containers.n = 1;
        pod.spec.termination_grace_period_seconds = 0;
        pod.spec.has_termination_grace_period_seconds = true;
        t = bench_now();
        (void)bh_client_create(c, &bh_core_v1_pod_kind, BH_S("default"), &pod, NULL, NULL);
        if (!bench_wait(r.loop, &r.running, 30))
            bench_fail("%s is not running after 30 s", r.name);
        times[i] = (bench_now() - t) * 1e3;
        (void)bh_client_delete(c, &bh_core_v1_pod_kind, BH_S("default"), bh_s(r.name),
                               (struct bh_str){0}, 0, NULL, NULL);
        (void)bench_wait(r.loop, &r.gone, 30);
    }
    bench_report("pod_create_to_running_p50", bench_quantile(times, PODS, 0.5), "ms",
                 "20 pods one after the other, real containers, over HTTPS");
    bench_report("pod_create_to_running_p99", bench_quantile(times, PODS, 0.99), "ms", "the same");
    (void)bh_informer_free(inf);
    (void)bh_client_free(c);
    (void)bh_loop_free(r.loop);
}

void bench_cluster(void)
{
    static const char image[] = "localhost/bulkhead-bench:1";
    char archive[256], data[256];
    const char *make[] = {"/usr/bin/python3", "tools/busybox-image.py", archive, image, NULL};
    const char *import[] = {bench_program, "image", "import", "--data-dir", data, archive, NULL};
    double starts[STARTS], again[STARTS];
    struct bench_proc p;

    if (geteuid() != 0) {
        printf("cluster: skipped, needs root\n");
        return;
    }
    path(archive, sizeof(archive), "image.tar");
    path(data, sizeof(data), "data");
    for (int i = 0; i < STARTS; i++) {
        p = up(&starts[i]);
        bench_end(&p);
        p = up(&again[i]);
        bench_end(&p);
        bench_down();
    }
    bench_report(
        "start_cold_to_ready_p50", bench_quantile(starts, STARTS, 0.5) * 1e3, "ms",
        "5 starts of bulkhead up, empty data directory: certificates, store, node Ready, slices");
    bench_report("start_again_to_ready_p50", bench_quantile(again, STARTS, 0.5) * 1e3, "ms",
                 "5 starts with data");
    p = up(&starts[0]);
    (void)sleep(3);
    bench_report("memory_idle", (double)bench_rss_kb(p.pid) / 1024, "MiB",
                 "resident, bulkhead up after 3 s: every role, 8 GPUs");
    run_tool(make);
    run_tool(import);
    pods_to_running(image);
    bench_end(&p);
    bench_down();
}
