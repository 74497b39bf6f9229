/* `bulkhead down`: stops the cluster and removes what it left on the machine; the data stays unless
 * --purge. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fs.h"
#include "cli/cluster.h"
#include "runtime/runtime.h"

#define STOP_WAIT_MS 10000
#define POLL_MS      20

static const char usage[] =
    "usage: bulkhead down [--data-dir DIR] [--kubelet-root DIR] [--purge]\n";

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* The lock tells when the process has ended. */
static int stop_server(const char *data_dir)
{
    int pid = cluster_running(data_dir);

    if (!pid) {
        printf("No cluster runs with data directory %s.\n", data_dir);
        return 0;
    }
    if (kill(pid, SIGTERM) < 0 && errno != ESRCH) {
        perror("bulkhead down: kill");
        return -1;
    }
    for (int waited = 0; cluster_running(data_dir) == pid; waited += POLL_MS) {
        if (waited == STOP_WAIT_MS) {
            fprintf(stderr, "bulkhead down: pid %d does not end, killing it\n", pid);
            (void)kill(pid, SIGKILL);
        } else if (waited > STOP_WAIT_MS * 2) {
            fprintf(stderr, "bulkhead down: pid %d cannot be ended\n", pid);
            return -1;
        }
        sleep_ms(POLL_MS);
    }
    printf("The cluster is stopped.\n");
    return 0;
}

/* Pods' volumes and sockets below the kubelet's root are this cluster's, but the root itself may be
 * shared with the system, and another cluster may have taken it since. */
static void purge_root(struct bh_arena *a, const char *data, const char *root)
{
    static const char *const below[] = {
        "pods",           "plugins",           "plugins_registry", "pod-resources",
        "device-plugins", "dra_manager_state", "dra_health_state", "bulkhead.owner",
        "bulkhead.lock"};
    struct bh_err err = {0};

    if (!bh_fs_exists(root) || !cluster_owns_root(data, root))
        return;
    for (size_t i = 0; i < BH_COUNT(below); i++)
        if (bh_fs_remove_tree(bh_str_fmt(a, "%s/%s", root, below[i]).p, &err) < 0)
            fprintf(stderr, "bulkhead down: %s\n", err.msg);
    (void)rmdir(root);
}

int bh_down_main(int argc, char **argv)
{
    enum { DATA = 1, ROOT, PURGE, HELP };
    static const struct option longs[] = {{"data-dir", required_argument, NULL, DATA},
                                          {"kubelet-root", required_argument, NULL, ROOT},
                                          {"purge", no_argument, NULL, PURGE},
                                          {"help", no_argument, NULL, HELP},
                                          {NULL, 0, NULL, 0}};
    BH_AUTO_ARENA a = bh_arena_new(0);
    const char *data = NULL, *root = NULL;
    struct bh_runtime_opts ro = {0};
    struct bh_err err = {0};
    bool purge = false;
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (c == DATA) {
            data = optarg;
        } else if (c == ROOT) {
            root = cluster_data_dir(a, optarg);
        } else if (c == PURGE) {
            purge = true;
        } else {
            fputs(usage, c == HELP ? stdout : stderr);
            return c == HELP ? 0 : 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "bulkhead down: unexpected argument %s\n%s", argv[optind], usage);
        return 2;
    }
    data = cluster_data_dir(a, data);
    if (!bh_fs_exists(data)) {
        printf("There is no cluster at %s.\n", data);
        return 0;
    }
    if (stop_server(data) < 0)
        return 1;
    ro.data_dir = data;
    if (bh_runtime_purge(&ro, &err) < 0) {
        fprintf(stderr, "bulkhead down: %s\n", err.msg);
        return 1;
    }
    if (!root)
        root = cluster_root_of(a, data);
    if (root && bh_fs_exists(root) && cluster_owns_root(data, root))
        bh_runtime_unmount_below(bh_str_fmt(a, "%s/pods", root).p); /* volumes in memory */
    printf("Its containers, mounts, cgroups and network namespaces are removed.\n");
    if (!purge)
        return 0;
    if (root)
        purge_root(a, data, root);
    if (bh_fs_remove_tree(data, &err) < 0) {
        fprintf(stderr, "bulkhead down: %s\n", err.msg);
        return 1;
    }
    printf("Its data is removed.\n");
    return 0;
}
