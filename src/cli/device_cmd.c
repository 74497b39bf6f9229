/* `bulkhead device`: arguments, and the two commands that act on this machine's driver. Also called
 * as kubectl-device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/device_cmd.h"
#include "data/json.h"
#include "driver/gpu_driver.h"
#include "driver/gpu_faults.h"
#include "driver/gpu_xid.h"
#include "driver/health_policy.h"
#include "driver/metadata_read.h"

#define ARGS_MAX      64
#define LOCK_TRIES    100
#define LOCK_PAUSE_NS 10000000

#define F_API  (1u << 0) /* --kubeconfig, --data-dir */
#define F_PICK (1u << 1) /* --driver, --node */
#define F_XID  (1u << 2)
#define F_OUT  (1u << 3)
#define F_DRY  (1u << 4)
#define F_NS   (1u << 5)
#define F_DATA (1u << 6) /* --data-dir alone */

#define HELP_API                                                                                   \
    "  --kubeconfig FILE  default: KUBECONFIG, the cluster's own file, ~/.kube/config\n"           \
    "  --data-dir DIR     the cluster's data directory (or BULKHEAD_DATA_DIR; default "            \
    "/var/lib/bulkhead)\n"
#define HELP_PICK                                                                                  \
    "  --driver NAME      only devices of this driver\n"                                           \
    "  --node NAME        only devices of this node\n"
#define HELP_DATA                                                                                  \
    "  --data-dir DIR     the cluster's data directory, or the driver's own (or "                  \
    "BULKHEAD_DATA_DIR;\n"                                                                         \
    "                     default /var/lib/bulkhead)\n"
#define HELP_DEVICE                                                                                \
    "DEVICE is a name like gpu-3, or NODE/gpu-3 where several nodes have one of that name.\n"
#define HELP_DRY                                                                                   \
    "  --dry-run=server   let the server check the change, say which pods would go, change "       \
    "nothing\n"                                                                                    \
    "  --dry-run=client   the same without sending it\n"

static const char usage[] =
    "usage: bulkhead device COMMAND [options], or kubectl device COMMAND [options]\n"
    "\n"
    "  list      every device: who has it, what is wrong with it\n"
    "  explain   why a pod or a claim gets no devices, and what would change that\n"
    "  taint     give a device a taint of your own\n"
    "  untaint   take it away\n"
    "  fault     let a simulated device of this machine fail\n"
    "  clear     repair it\n"
    "  metadata  what a container is told of its devices\n"
    "\n"
    "`bulkhead device COMMAND --help` says more.\n";

static const char usage_list[] =
    "usage: bulkhead device list [-o wide|json] [--driver NAME] [--node NAME]\n"
    "\n"
    "Lists every device with the claims and pods that have it, and its taints.\n"
    "\n"
    "  -o wide|json       with the driver's name, or as JSON\n" HELP_PICK HELP_API;

static const char usage_explain[] =
    "usage: bulkhead device explain pod|claim NAME [-n NAMESPACE] [-o text|json] [--node NAME]\n"
    "\n"
    "Says for each node and request how many devices do not serve, and why: selectors (with the "
    "part "
    "that\n"
    "is false and what the device has), taints, who uses them, counters, capacity, constraints, "
    "pools that\n"
    "are incomplete. Then the smallest change after which the devices could be allocated; the "
    "allocator was\n"
    "run again with that change. Nothing is changed. Exit status 0 when the devices are there, 1 "
    "when "
    "not.\n"
    "\n"
    "  -n, --namespace NS default: default\n"
    "  -o text|json       default text\n"
    "  --node NAME        only this node\n" HELP_API;

static const char usage_taint[] =
    "usage: bulkhead device taint DEVICE KEY[=VALUE]:EFFECT [--dry-run=server|client]\n"
    "\n"
    "Makes a DeviceTaintRule for one device of any driver. EFFECT is NoExecute (pods on it go, and "
    "no "
    "new ones\n"
    "come), NoSchedule (no new ones come) or None (only the rule's status says what would "
    "happen).\n" HELP_DEVICE "\n" HELP_DRY HELP_PICK HELP_API;

static const char usage_untaint[] =
    "usage: bulkhead device untaint DEVICE KEY[:EFFECT] [--dry-run=server|client]\n"
    "\n"
    "Deletes the DeviceTaintRules that give this one device the taint. Taints of a driver are the "
    "driver's.\n" HELP_DEVICE "\n"
    "  --dry-run=server|client  say which rules would be deleted, change nothing\n" HELP_PICK
        HELP_API;

static const char usage_metadata[] =
    "usage: bulkhead device metadata DIR\n"
    "\n"
    "Prints what a container is told of the devices of a request: the metadata files in the "
    "request's directory\n"
    "(/var/run/kubernetes.io/dra-device-attributes/…/REQUEST), of all drivers together.\n";
static const char usage_fault[] =
    "usage: bulkhead device fault DEVICE --xid N\n"
    "\n"
    "Lets a device of this machine's simulated driver report the error N (an NVIDIA XID). What "
    "follows is the\n"
    "health policy's decision.\n"
    "\n"
    "  --xid N            1 to 65535\n" HELP_DATA;

static const char usage_clear[] = "usage: bulkhead device clear DEVICE [--xid N]\n"
                                  "\n"
                                  "Ends all errors of the device, or the one.\n"
                                  "\n"
                                  "  --xid N            1 to 65535\n" HELP_DATA;

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
    struct bh_health_policy policy;
    struct timespec now;
    enum bh_health_effect effect;
    int64_t hold;
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
    if (bh_health_policy_load(a, driver_dir(a, o), &policy, err) < 0)
        policy = (struct bh_health_policy){0};
    effect = bh_health_policy_effect(&policy, (int)o->xid, &hold);
    printf("%s: XID %d (%s), ", o->args[0], (int)o->xid, bh_xid_get((int)o->xid)->text);
    if (effect == BH_HEALTH_IGNORE)
        puts("which the health policy ignores");
    else
        printf("taint %s/xid=%d:%s\n", BH_GPU_DRIVER_NAME, (int)o->xid,
               bh_health_effect_name(effect));
    return 0;
}

static int clear(const struct device_opts *o, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_health_policy policy;
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
    printf("%s: %zu fault%s cleared", o->args[0], n, n == 1 ? "" : "s");
    if (bh_health_policy_load(a, driver_dir(a, o), &policy, err) == 0 &&
        (policy.n || policy.healthy_for_ns))
        printf("; the health policy says how long the device is watched before its taint goes");
    puts("");
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

static int parse_dry_run(const char *text, struct device_opts *o, struct bh_err *err)
{
    static const char *const names[] = {
        [DRY_NONE] = "none", [DRY_CLIENT] = "client", [DRY_SERVER] = "server"};

    for (size_t i = 0; i < BH_COUNT(names); i++)
        if (strcmp(text, names[i]) == 0) {
            o->dry_run = (enum device_dry_run)i;
            return 0;
        }
    return bh_err_set(err, BH_E_BAD_REQUEST, "--dry-run must be none, client or server, not '%s'",
                      text);
}

struct verb {
    const char *name, *usage;
    int (*fn)(const struct device_opts *o, struct bh_err *err);
    unsigned flags;
};

static int parse(int argc, char **argv, const struct verb *v, struct device_opts *o,
                 struct bh_err *err)
{
    const char *xid = NULL, *node = NULL, *dry = NULL;
    const struct {
        const char *flag;
        const char **to;
        unsigned in;
    } flags[] = {{"--kubeconfig", &o->kubeconfig, F_API},
                 {"--data-dir", &o->data_dir, F_API | F_DATA},
                 {"--driver", &o->driver, F_PICK},
                 {"--node", &node, F_PICK | F_NS},
                 {"--xid", &xid, F_XID},
                 {"--dry-run", &dry, F_DRY},
                 {"--namespace", &o->ns, F_NS},
                 {"-n", &o->ns, F_NS},
                 {"-o", &o->output, F_OUT},
                 {"--output", &o->output, F_OUT}};

    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        size_t k = 0;
        int r = 0;

        for (; k < BH_COUNT(flags); k++)
            if ((r = option(argc, argv, &i, flags[k].flag, flags[k].to)) != 0)
                break;
        if (r != 0 && !(flags[k].in & v->flags))
            return bh_err_set(err, BH_E_BAD_REQUEST, "%s does not take %s", v->name, flags[k].flag);
        if (r < 0)
            return bh_err_set(err, BH_E_BAD_REQUEST, "%s needs a value", word);
        if (r > 0)
            continue;
        if (word[0] == '-')
            return bh_err_set(err, BH_E_BAD_REQUEST,
                              "unknown option %s (see `bulkhead device %s --help`)", word, v->name);
        if (o->args_n == ARGS_MAX)
            return bh_err_set(err, BH_E_LIMIT, "too many arguments");
        o->args[o->args_n++] = word;
    }
    if (xid && !bh_str_i64(bh_s(xid), BH_XID_MIN, BH_XID_MAX, &o->xid))
        return bh_err_set(err, BH_E_BAD_REQUEST, "--xid must be a number from %d to %d, not '%s'",
                          BH_XID_MIN, BH_XID_MAX, xid);
    o->pool = bh_s(node);
    return dry ? parse_dry_run(dry, o, err) : 0;
}

static int metadata(const struct device_opts *o, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {0};
    struct bh_jv v;
    int r;

    if (o->args_n != 1)
        return bh_err_set(err, BH_E_BAD_REQUEST, "metadata takes one directory");
    r = bh_metadata_read(a, o->args[0], &v, err);
    if (r < 0)
        return r;
    bh_jv_write(&b, &v, 0);
    bh_buf_addc(&b, '\n');
    (void)fwrite(b.p, 1, b.n, stdout);
    return 0;
}

static bool asks_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

int bh_device_main(int argc, char **argv)
{
    static const struct verb verbs[] = {
        {"list", usage_list, device_list, F_API | F_PICK | F_OUT},
        {"explain", usage_explain, device_explain, F_API | F_NS | F_OUT},
        {"taint", usage_taint, device_taint, F_API | F_PICK | F_DRY},
        {"untaint", usage_untaint, device_untaint, F_API | F_PICK | F_DRY},
        {"fault", usage_fault, fault, F_DATA | F_XID},
        {"clear", usage_clear, clear, F_DATA | F_XID},
        {"metadata", usage_metadata, metadata, 0}};
    const char *args[ARGS_MAX], *name = argc > 1 ? argv[1] : NULL;
    struct device_opts o = {.args = args, .ns = "default"};
    struct bh_err err = {0};
    const struct verb *v = NULL;
    bool help = false;
    int r;

    if (name && strcmp(name, "help") == 0) {
        help = true;
        name = argc > 2 ? argv[2] : NULL;
    }
    if (!name || asks_help(name)) {
        fputs(usage, name || help ? stdout : stderr);
        return name || help ? 0 : 2;
    }
    for (size_t i = 0; i < BH_COUNT(verbs); i++)
        if (strcmp(name, verbs[i].name) == 0)
            v = &verbs[i];
    if (!v) {
        fprintf(stderr, "bulkhead device: unknown command '%s'\n\n", name);
        fputs(usage, stderr);
        return 2;
    }
    for (int i = 2; i < argc; i++)
        help = help || asks_help(argv[i]);
    if (help) {
        fputs(v->usage, stdout);
        return 0;
    }
    r = parse(argc - 2, argv + 2, v, &o, &err);
    if (r == 0)
        r = v->fn(&o, &err);
    if (r >= 0)
        return r;
    (void)fail(&err);
    return r == -BH_E_BAD_REQUEST ? 2 : 1;
}
