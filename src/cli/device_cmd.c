/* `bulkhead device`: arguments, and the two commands that act on this machine's driver. Also called
 * as kubectl-device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/fs.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/device_cmd.h"
#include "driver/gpu_driver.h"
#include "driver/gpu_faults.h"
#include "driver/gpu_xid.h"

#define ARGS_MAX      64
#define LOCK_TRIES    100
#define LOCK_PAUSE_NS 10000000

static const char usage[] =
    "usage: bulkhead device list [-o wide|json]\n"
    "       bulkhead device taint DEVICE KEY[=VALUE]:EFFECT\n"
    "       bulkhead device untaint DEVICE KEY[:EFFECT]\n"
    "       bulkhead device fault DEVICE --xid N\n"
    "       bulkhead device clear DEVICE [--xid N]\n"
    "\n"
    "DEVICE is a name like gpu-3, or NODE/gpu-3 where several nodes have one. EFFECT is NoExecute, "
    "NoSchedule\n"
    "or None. taint and untaint work through the API, for any device of any driver. fault and "
    "clear act on the\n"
    "simulated driver of this machine.\n"
    "\n"
    "  --kubeconfig FILE  default: KUBECONFIG, the cluster's own file, ~/.kube/config\n"
    "  --data-dir DIR     the cluster's data directory (or BULKHEAD_DATA_DIR; default "
    "/var/lib/bulkhead)\n"
    "  --driver NAME      only devices of this driver\n"
    "  --node NAME        only devices of this node\n";

static int fail(const struct bh_err *err)
{
    fprintf(stderr, "bulkhead device: %s\n", err->msg);
    return 1;
}

/* ---- faults ---- */

/* The driver's own directory: inside the cluster's, or the one given. */
static const char *driver_dir(struct bh_arena *a, const struct device_opts *o)
{
    const char *data = cluster_data_dir(a, o->data_dir);

    return bh_fs_exists(cluster_path(a, data, BH_DEVICES_FILE)) ? data
                                                                : cluster_path(a, data, "driver");
}

/* Two commands at the same moment: one waits for the other. */
static void lock_pause(void)
{
    const struct timespec t = {0, LOCK_PAUSE_NS};

    (void)nanosleep(&t, NULL);
}

/* The name without its node: this machine's driver has one pool only. */
static struct bh_str local_name(const char *text)
{
    struct bh_str s = bh_s(text), cut = s;

    (void)bh_str_cut(&cut, '/');
    return cut.p ? cut : s;
}

static int fault(const struct device_opts *o, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct timespec now;
    const struct bh_xid *x;
    int r = -BH_E_BUSY;

    if (o->args_n != 1 || o->xid == 0)
        return bh_err_set(err, BH_E_BAD_REQUEST, "fault takes one device and --xid N");
    (void)clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < LOCK_TRIES && r == -BH_E_BUSY; i++) {
        r = bh_faults_set(driver_dir(a, o), local_name(o->args[0]), (int)o->xid,
                          (struct bh_time){now.tv_sec, (int32_t)now.tv_nsec}, err);
        if (r == -BH_E_BUSY)
            lock_pause();
    }
    if (r < 0)
        return r;
    x = bh_xid_get((int)o->xid);
    printf("%s: XID %d (%s), taint %s/xid=%d:%s\n", o->args[0], (int)o->xid, x->text,
           BH_GPU_DRIVER_NAME, (int)o->xid, bh_xid_effect_name(x->effect));
    return 0;
}

static int clear(const struct device_opts *o, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    size_t n = 0;
    int r = -BH_E_BUSY;

    if (o->args_n != 1)
        return bh_err_set(err, BH_E_BAD_REQUEST, "clear takes one device");
    for (int i = 0; i < LOCK_TRIES && r == -BH_E_BUSY; i++) {
        r = bh_faults_clear(driver_dir(a, o), local_name(o->args[0]), (int)o->xid, &n, err);
        if (r == -BH_E_BUSY)
            lock_pause();
    }
    if (r < 0)
        return r;
    if (n == 0)
        return bh_err_set(err, BH_E_NOT_FOUND, "%s has no such fault", o->args[0]);
    printf("%s: %zu fault%s cleared\n", o->args[0], n, n == 1 ? "" : "s");
    return 0;
}

/* ---- arguments ---- */

/* Takes "--flag VALUE" or "--flag=VALUE". 1: taken, 0: another word, -1: the value is missing. */
static int option(int argc, char **argv, int *i, const char *flag, const char **ret)
{
    size_t n = strlen(flag);

    if (strncmp(argv[*i], flag, n) != 0 || (argv[*i][n] != '=' && argv[*i][n] != '\0'))
        return 0;
    if (argv[*i][n] == '=') {
        *ret = argv[*i] + n + 1;
        return 1;
    }
    if (*i + 1 >= argc)
        return -1;
    *ret = argv[++*i];
    return 1;
}

static int parse(int argc, char **argv, struct device_opts *o, struct bh_err *err)
{
    const char *xid = NULL, *node = NULL;
    const struct {
        const char *flag;
        const char **to;
    } flags[] = {{"--kubeconfig", &o->kubeconfig},
                 {"--data-dir", &o->data_dir},
                 {"--driver", &o->driver},
                 {"--node", &node},
                 {"--xid", &xid},
                 {"-o", &o->output},
                 {"--output", &o->output}};

    for (int i = 0; i < argc; i++) {
        int r = 0;

        for (size_t k = 0; k < BH_COUNT(flags) && r == 0; k++)
            r = option(argc, argv, &i, flags[k].flag, flags[k].to);
        if (r < 0)
            return bh_err_set(err, BH_E_BAD_REQUEST, "%s needs a value", argv[i]);
        if (r > 0)
            continue;
        if (argv[i][0] == '-')
            return bh_err_set(err, BH_E_BAD_REQUEST, "unknown option %s", argv[i]);
        if (o->args_n == ARGS_MAX)
            return bh_err_set(err, BH_E_LIMIT, "too many arguments");
        o->args[o->args_n++] = argv[i];
    }
    if (xid && !bh_str_i64(bh_s(xid), BH_XID_MIN, BH_XID_MAX, &o->xid))
        return bh_err_set(err, BH_E_BAD_REQUEST, "--xid must be a number from %d to %d, not '%s'",
                          BH_XID_MIN, BH_XID_MAX, xid);
    o->pool = bh_s(node);
    return 0;
}

int bh_device_main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*fn)(const struct device_opts *o, struct bh_err *err);
    } verbs[] = {{"list", device_list},
                 {"taint", device_taint},
                 {"untaint", device_untaint},
                 {"fault", fault},
                 {"clear", clear}};
    const char *args[ARGS_MAX];
    struct device_opts o = {.args = args};
    struct bh_err err = {0};
    int r;

    if (argc < 2 || strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        fputs(usage, argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    for (size_t i = 0; i < BH_COUNT(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) != 0)
            continue;
        r = parse(argc - 2, argv + 2, &o, &err);
        if (r == 0)
            r = verbs[i].fn(&o, &err);
        if (r == 0)
            return 0;
        (void)fail(&err);
        return r == -BH_E_BAD_REQUEST ? 2 : 1;
    }
    fprintf(stderr, "bulkhead device: unknown command '%s'\n\n", argv[1]);
    fputs(usage, stderr);
    return 2;
}
