/* `bulkhead controller-manager`: the controllers as a process of their own. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/annotations.h"
#include "base/flags.h"
#include "client/role.h"
#include "controllers/controllers.h"
#include "data/time_fmt.h"

#define DAY_NS ((int64_t)86400 * 1000000000)

static const char usage[] =
    "usage: bulkhead controller-manager --kubeconfig FILE [options]\n"
    "  --leader-elect[=BOOL]              take a Lease before working (default true)\n"
    "  --controllers LIST                 names, '*' or '-name', comma separated (default '*')\n"
    "  --node-monitor-grace-period TIME   silence after which a node is Unknown (default 50s)\n"
    "  --terminated-pod-gc-threshold N    terminated pods that may stay (default 12500)\n"
    "  --confirm-taint-of-all-devices[=BOOL]  a DeviceTaintRule that selects every device evicts "
    "nobody\n"
    "                                     until its annotation " BH_ANNOTATION_CONFIRM_ALL
    " is \"true\"\n"
    "                                     (default true; upstream does not ask)\n";

static void *start(void *arg, struct bh_client *c, struct bh_err *err)
{
    return bh_controllers_new(c, arg, err);
}
static void stop(void *self)
{
    (void)bh_controllers_free(self);
}

/* More than nothing, a day at most. */
static bool duration_ms(const char *text, int64_t *ret)
{
    int64_t ns = 0;

    if (bh_duration_parse(bh_s(text), &ns, NULL) < 0 || ns <= 0 || ns > DAY_NS)
        return false;
    *ret = (ns + 999999) / 1000000;
    return true;
}

int bh_controller_manager_main(int argc, char **argv)
{
    enum { KUBECONFIG = 1, LEADER, CONTROLLERS, GRACE, THRESHOLD, CONFIRM, HELP };
    static const struct option longs[] = {
        {"kubeconfig", required_argument, NULL, KUBECONFIG},
        {"leader-elect", optional_argument, NULL, LEADER},
        {"controllers", required_argument, NULL, CONTROLLERS},
        {"node-monitor-grace-period", required_argument, NULL, GRACE},
        {"terminated-pod-gc-threshold", required_argument, NULL, THRESHOLD},
        {"confirm-taint-of-all-devices", optional_argument, NULL, CONFIRM},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0}};
    struct bh_controllers_opts o = {0};
    struct bh_role r = {
        .name = "bulkhead-controller-manager", .start = start, .stop = stop, .arg = &o};
    struct bh_err err = {0};
    bool elect = true, confirm = true;
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
        case CONTROLLERS:
            o.controllers = optarg;
            if (bh_controllers_check(optarg, &err) < 0) {
                fprintf(stderr, "--controllers: %s\n", err.msg);
                return 2;
            }
            break;
        case GRACE:
            if (!duration_ms(optarg, &o.node_grace_ms)) {
                fprintf(stderr, "--node-monitor-grace-period: not a time like 40s or 1m30s: %s\n",
                        optarg);
                return 2;
            }
            break;
        case THRESHOLD:
            if (!bh_str_i64(bh_s(optarg), -1, INT32_MAX, &o.terminated_pods_max)) {
                fprintf(stderr, "--terminated-pod-gc-threshold: not a number: %s\n", optarg);
                return 2;
            }
            break;
        case CONFIRM:
            if (!bh_flag_bool(optarg, &confirm)) {
                fprintf(stderr, "--confirm-taint-of-all-devices: not a boolean: %s\n", optarg);
                return 2;
            }
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
    o.taints_of_all_unconfirmed = !confirm;
    if (elect)
        r.lease = "kube-controller-manager";
    return bh_role_run(&r);
}
