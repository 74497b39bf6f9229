/* The one program: the first argument, or the name it was called by, selects a command. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "apiserver/apiserver.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "controllers/controllers.h"
#include "driver/gpu_driver.h"
#include "kubelet/kubelet.h"
#include "runtime/runtime.h"
#include "scheduler/scheduler.h"

struct command {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *what; /* NULL: not for people */
};

static int version_main(int argc, char **argv)
{
    (void)argc, (void)argv;
    puts("bulkhead " BH_VERSION " (Kubernetes API v1.36.2)");
    return 0;
}

static const struct command commands[] = {
    {"up", bh_up_main, "start a cluster: every role in one process, simulated GPUs"},
    {"down", bh_down_main, "stop it and remove its containers"},
    {"apiserver", bh_apiserver_main, "serve the API"},
    {"scheduler", bh_scheduler_main, "give pods their nodes and devices"},
    {"controller-manager", bh_controller_manager_main, "run the controllers"},
    {"kubelet", bh_kubelet_main, "run pods on this node"},
    {"gpu-driver", bh_gpu_driver_main, "publish and prepare GPUs"},
    {"device", bh_device_main, "list, taint, untaint, fault, clear devices"},
    {"image", bh_image_main, "import, list and remove container images"},
    {"cel", bh_cel_main, "evaluate a CEL expression"},
    {"allocate", bh_allocate_main, "allocate claims from a file of objects"},
    {"version", version_main, "print the version"},
    {"runtime-exec", bh_runtime_exec_main, NULL},
};

static int usage(FILE *to)
{
    fputs("usage: bulkhead COMMAND [options]\n\n", to);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (commands[i].what)
            fprintf(to, "  %-20s %s\n", commands[i].name, commands[i].what);
    fputs("\nbulkhead COMMAND --help tells more.\n", to);
    return to == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
    const char *base = argc > 0 ? strrchr(argv[0], '/') : NULL;

    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN},
                    NULL); /* a closed peer is an error of write(2), not the end of the process */
    base = base ? base + 1 : argc > 0 ? argv[0] : "";
    if (strcmp(base, "kubectl-device") == 0)
        return bh_device_main(argc, argv);
    if (argc < 2)
        return usage(stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return usage(stdout);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].main(argc - 1, argv + 1);
    fprintf(stderr, "bulkhead: unknown command %s\n\n", argv[1]);
    return usage(stderr);
}
