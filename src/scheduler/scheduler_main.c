/* `bulkhead scheduler`: the scheduler as a process of its own. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/role.h"
#include "scheduler/scheduler.h"

static const char usage[] =
    "usage: bulkhead scheduler --kubeconfig FILE [options]\n"
    "  --leader-elect[=BOOL]      take a Lease before working (default true)\n"
    "  --device-scoring on|off    choose the devices that fit best (default), or the first that "
    "fit\n"
    "  --config FILE              accepted for compatibility: its kubeconfig and leader election\n"
    "                             are those of the flags\n";

static void *start(void *arg, struct bh_client *c, struct bh_err *err)
{
    return bh_scheduler_new(c, arg, err);
}

static void stop(void *self)
{
    (void)bh_scheduler_free(self);
}

int bh_scheduler_main(int argc, char **argv)
{
    enum { KUBECONFIG = 1, LEADER, SCORING, CONFIG, HELP };
    static const struct option longs[] = {{"kubeconfig", required_argument, NULL, KUBECONFIG},
                                          {"leader-elect", optional_argument, NULL, LEADER},
                                          {"device-scoring", required_argument, NULL, SCORING},
                                          {"config", required_argument, NULL, CONFIG},
                                          {"help", no_argument, NULL, HELP},
                                          {NULL, 0, NULL, 0}};
    struct bh_scheduler_opts o = {0};
    struct bh_role r = {.name = "bulkhead-scheduler", .start = start, .stop = stop, .arg = &o};
    bool elect = true;
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case KUBECONFIG:
            r.kubeconfig = optarg;
            break;
        case LEADER:
            if (!bh_flag_bool(optarg, &elect)) {
                fprintf(stderr, "--leader-elect: not a boolean: %s\n", optarg);
                return 2;
            }
            break;
        case SCORING:
            if (bh_str_eqc(bh_s(optarg), "off")) {
                o.device_scoring_off = true;
            } else if (!bh_str_eqc(bh_s(optarg), "on")) {
                fprintf(stderr, "--device-scoring: on or off, not %s\n", optarg);
                return 2;
            }
            break;
        case CONFIG:
            break;
        case HELP:
            fputs(usage, stdout);
            return 0;
        default:
            fputs(usage, stderr);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "unexpected argument %s\n%s", argv[optind], usage);
        return 2;
    }
    if (elect)
        r.lease = "kube-scheduler";
    return bh_role_run(&r);
}
