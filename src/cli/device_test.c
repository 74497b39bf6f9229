/* `bulkhead device` against a toy API server, as processes of their own. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tests/fake_api.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "cli/commands.h"
#include "driver/gpu_faults.h"
#include "net/loop.h"

/* This test binary, called by the plug-in's name, is the plug-in. */
__attribute__((constructor)) static void maybe_device(int argc, char **argv)
{
    if (strcmp(argv[0], "kubectl-device") == 0) {
        int r = bh_device_main(argc, argv);

        (void)fflush(stdout);
        _exit(r);
    }
}

#define SLICES "/apis/resource.k8s.io/v1/resourceslices"
#define RULES  "/apis/resource.k8s.io/v1beta2/devicetaintrules"

struct fix {
    struct bh_loop *l;
    struct bh_fake_api *api;
    char dir[64], kubeconfig[96];
    int status;
    struct bh_buf out;
};

static void ended(void *arg, const struct bh_proc_result *res)
{
    struct fix *f = arg;

    f->status = res->exit_code;
    bh_buf_clear(&f->out);
    bh_buf_adds(&f->out, res->out);
    bh_buf_adds(&f->out, res->err);
    bh_loop_stop(f->l);
}

/* Runs `bulkhead device WORDS…`, with the options that say which cluster when api; the output is in
 * f->out. */
static int run_as(struct fix *f, const char *words, bool api)
{
    const char *argv[24] = {"kubectl-device"};
    char buf[400];
    struct bh_proc_opts o = {.file = "/proc/self/exe",
                             .argv = argv,
                             .output_max = 1 << 16,
                             .stdout_fd = -1,
                             .stderr_fd = -1,
                             .timeout_ms = 60000};
    struct bh_str rest;
    size_t n = 1;

    (void)snprintf(buf, sizeof(buf), "%s", words);
    if (api && strncmp(words, "fault", 5) != 0 && strncmp(words, "clear", 5) != 0)
        (void)snprintf(buf, sizeof(buf), "%s --kubeconfig %s", words, f->kubeconfig);
    if (api)
        (void)snprintf(buf + strlen(buf), sizeof(buf) - strlen(buf), " --data-dir %s", f->dir);
    rest = bh_s(buf);
    while (rest.n > 0 && n + 1 < BH_COUNT(argv)) {
        struct bh_str w = bh_str_cut(&rest, ' ');

        buf[w.p - buf + (ptrdiff_t)w.n] = '\0';
        argv[n++] = w.p;
    }
    if (bh_proc_spawn(f->l, &o, ended, f, NULL, NULL) < 0)
        bh_test_fail(__FILE__, __LINE__, "cannot start");
    else
        bh_loop_run(f->l);
    return f->status;
}

static int run(struct fix *f, const char *words)
{
    return run_as(f, words, true);
}

static bool said(const struct fix *f, const char *text)
{
    return bh_str_find(bh_buf_str(&f->out), bh_s(text)) >= 0;
}

static void slice_put(struct fix *f, const char *name, const char *node)
{
    char path[128], json[1024];

    (void)snprintf(path, sizeof(path), SLICES "/%s", name);
    (void)snprintf(
        json, sizeof(json),
        "{\"kind\":\"ResourceSlice\",\"apiVersion\":\"resource.k8s.io/"
        "v1\",\"metadata\":{\"name\":\"%s\"},"
        "\"spec\":{\"driver\":\"gpu.bulkhead.dev\",\"nodeName\":\"%s\",\"pool\":{\"name\":\"%s\","
        "\"generation\":1,\"resourceSliceCount\":1},\"devices\":[{\"name\":\"gpu-10\"},{\"name\":"
        "\"gpu-2\","
        "\"attributes\":{\"model\":{\"string\":\"H200\"}},\"capacity\":{\"memory\":{\"value\":"
        "\"141Gi\"}},"
        "\"taints\":[{\"key\":\"gpu.bulkhead.dev/"
        "xid\",\"value\":\"79\",\"effect\":\"NoExecute\"}]}]}}",
        name, node, node);
    bh_fake_api_put(f->api, path, json);
}

static void fix_init(struct fix *f)
{
    memset(f, 0, sizeof(*f));
    f->l = bh_loop_new_real(NULL);
    f->api = bh_fake_api_new(f->l);
    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/bh-device-XXXXXX");
    BH_CHECK(mkdtemp(f->dir) != NULL);
    (void)snprintf(f->kubeconfig, sizeof(f->kubeconfig), "%s/kubeconfig", f->dir);
    bh_fake_api_kubeconfig(f->api, f->kubeconfig);
    slice_put(f, "s1", "n1");
    bh_fake_api_put(f->api, "/apis/resource.k8s.io/v1/resourceclaims/c1",
                    "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/"
                    "v1\",\"metadata\":{\"name\":\"c1\","
                    "\"namespace\":\"default\"},\"spec\":{\"devices\":{}},\"status\":{"
                    "\"allocation\":{\"devices\":{"
                    "\"results\":[{\"request\":\"a\",\"driver\":\"gpu.bulkhead.dev\",\"pool\":"
                    "\"n1\",\"device\":"
                    "\"gpu-2\"}]}},\"reservedFor\":[{\"resource\":\"pods\",\"name\":\"train-0\","
                    "\"uid\":\"u\"}]}}");
}

static void fix_done(struct fix *f)
{
    f->api = bh_fake_api_free(f->api);
    f->l = bh_loop_free(f->l);
    bh_buf_done(&f->out);
    BH_EQ(bh_fs_remove_tree(f->dir, NULL), 0);
}

BH_TEST(device_list)
{
    struct fix f;

    fix_init(&f);
    BH_EQ(run(&f, "list"), 0);
    BH_STREQ(bh_buf_str(&f.out),
             "NODE   DEVICE   MODEL   MEMORY   CLAIM        POD       TAINTS\n"
             "n1     gpu-2    H200    141Gi    default/c1   train-0   "
             "gpu.bulkhead.dev/xid=79:NoExecute\n"
             "n1     gpu-10                    <none>       <none>    <none>\n");
    BH_EQ(run(&f, "list -o json"), 0);
    BH_CHECK(said(&f, "\"device\":\"gpu-2\""));
    BH_CHECK(said(&f, "\"taints\":[\"gpu.bulkhead.dev/xid=79:NoExecute\"]"));
    BH_EQ(run(&f, "list --node n9"), 0);
    BH_CHECK(said(&f, "no devices"));
    BH_EQ(run(&f, "list -o yaml"), 2);
    fix_done(&f);
}

BH_TEST(device_taint_and_untaint)
{
    struct fix f;

    fix_init(&f);
    BH_EQ(run(&f, "taint gpu-10 example.com/rest=1:NoSchedule"), 0);
    BH_EQ(bh_fake_api_count(f.api, RULES), 1);
    BH_CHECK(bh_str_find(bh_fake_api_first(f.api, RULES),
                         BH_S("\"pool\":\"n1\",\"device\":\"gpu-10\"")) > 0);
    BH_EQ(run(&f, "list"), 0);
    BH_CHECK(said(&f, "example.com/rest=1:NoSchedule"));
    BH_EQ(run(&f, "taint gpu-10 example.com/rest=1:NoSchedule"), 1);
    BH_CHECK(said(&f, "already has the taint"));
    BH_EQ(run(&f, "untaint gpu-10 other"), 1);
    BH_EQ(run(&f, "untaint n1/gpu-10 example.com/rest"), 0);
    BH_EQ(bh_fake_api_count(f.api, RULES), 0);
    BH_EQ(run(&f, "untaint gpu-2 gpu.bulkhead.dev/xid"), 1);
    BH_CHECK(said(&f, "bulkhead device clear gpu-2"));
    BH_EQ(run(&f, "taint gpu-9 k:NoExecute"), 1);
    BH_CHECK(said(&f, "no device 'gpu-9'"));
    BH_EQ(run(&f, "taint gpu-2 k:Explode"), 2);
    BH_EQ(run(&f, "taint gpu-2"), 2);
    slice_put(&f, "s2", "n2");
    BH_EQ(run(&f, "taint gpu-2 k:NoExecute"), 1);
    BH_CHECK(said(&f, "several nodes have a device gpu-2"));
    BH_EQ(run(&f, "taint n2/gpu-2 k:NoExecute"), 0);
    fix_done(&f);
}

BH_TEST(device_fault_and_clear)
{
    const struct bh_str names[] = {BH_S("gpu-0"), BH_S("gpu-1")};
    struct fix f;
    char driver[96];

    fix_init(&f);
    (void)snprintf(driver, sizeof(driver), "%s/driver", f.dir);
    BH_EQ(run(&f, "fault gpu-1 --xid 79"), 1);
    BH_CHECK(said(&f, "no GPU driver has run"));
    BH_EQ(bh_fs_mkdir_p(driver, 0755, NULL), 0);
    BH_EQ(bh_devices_store(driver, names, 2, NULL), 0);
    BH_EQ(run(&f, "fault gpu-1 --xid 79"), 0);
    BH_CHECK(said(
        &f, "gpu-1: XID 79 (GPU has fallen off the bus), taint gpu.bulkhead.dev/xid=79:NoExecute"));
    BH_EQ(run(&f, "fault gpu-7 --xid 79"), 1);
    BH_CHECK(said(&f, "no device 'gpu-7'; there are 2, from gpu-0 to gpu-1"));
    BH_EQ(run(&f, "fault gpu-1"), 2);
    BH_EQ(run(&f, "fault gpu-1 --xid many"), 2);
    BH_EQ(run(&f, "clear gpu-1"), 0);
    BH_CHECK(said(&f, "1 fault cleared"));
    BH_EQ(run(&f, "clear gpu-1"), 1);
    BH_EQ(run(&f, "explode"), 2);
    fix_done(&f);
}

BH_TEST(device_commands_explain_themselves)
{
    static const struct {
        const char *words;
        int exit;
        const char *said;
    } t[] = {
        {"--help", 0, "usage: bulkhead device COMMAND"},
        {"help taint", 0, "usage: bulkhead device taint DEVICE KEY[=VALUE]:EFFECT"},
        {"help", 0, "usage: bulkhead device COMMAND"},
        {"list --help", 0, "usage: bulkhead device list"},
        {"taint -h", 0, "--dry-run=server"},
        {"taint gpu-2 k:NoExecute --help", 0, "usage: bulkhead device taint"},
        {"untaint --help", 0, "usage: bulkhead device untaint"},
        {"fault --help", 0, "usage: bulkhead device fault DEVICE --xid N"},
        {"clear --help", 0, "usage: bulkhead device clear"},
        {"explain --help", 0, "usage: bulkhead device explain pod|claim NAME"},
        {"help explode", 2, "unknown command 'explode'"},
        {"list --xid 79", 2, "list does not take --xid"},
        {"list --colour red", 2, "unknown option --colour (see `bulkhead device list --help`)"},
        {"taint gpu-2 k:NoExecute --dry-run=maybe", 2,
         "--dry-run must be none, client or server, not 'maybe'"},
        {"fault gpu-2 --dry-run=server", 2, "fault does not take --dry-run"},
    };
    struct fix f;

    fix_init(&f);
    for (size_t i = 0; i < BH_COUNT(t); i++) {
        int r = run_as(&f, t[i].words, false);

        if (r != t[i].exit || !said(&f, t[i].said))
            bh_test_fail(__FILE__, __LINE__, "%s: %d: %.*s", t[i].words, r,
                         BH_SF(bh_buf_str(&f.out)));
    }
    BH_EQ(run_as(&f, "list --node", false), 2);
    BH_CHECK(said(&f, "--node needs a value"));
    fix_done(&f);
}

static void pod_put(struct fix *f, const char *name, const char *uid)
{
    char path[128], json[1024];

    (void)snprintf(path, sizeof(path), "/api/v1/pods/%s", name);
    (void)snprintf(json, sizeof(json),
                   "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\","
                   "\"namespace\":\"default\",\"uid\":\"%s\"},\"spec\":{\"nodeName\":\"n1\","
                   "\"containers\":[],\"resourceClaims\":[{\"name\":\"g\",\"resourceClaimName\":"
                   "\"%s\"}]}}",
                   name, uid, name);
    bh_fake_api_put(f->api, path, json);
}

static void claim_put(struct fix *f, const char *name, const char *uid, const char *tolerations)
{
    char path[128], json[1024];

    (void)snprintf(path, sizeof(path), "/apis/resource.k8s.io/v1/resourceclaims/%s", name);
    (void)snprintf(json, sizeof(json),
                   "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/v1\","
                   "\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\"},\"spec\":{\"devices\":"
                   "{}},\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"a\","
                   "\"driver\":\"gpu.bulkhead.dev\",\"pool\":\"n1\",\"device\":\"gpu-10\","
                   "\"tolerations\":[%s]}]}},\"reservedFor\":[{\"resource\":\"pods\",\"name\":"
                   "\"%s\",\"uid\":\"%s\"}]}}",
                   name, tolerations, name, uid);
    bh_fake_api_put(f->api, path, json);
}

BH_TEST(device_taint_dry_run_says_who_would_go)
{
    struct fix f;

    fix_init(&f);
    pod_put(&f, "quick", "u1");
    claim_put(&f, "quick", "u1", "");
    pod_put(&f, "patient", "u2");
    claim_put(&f, "patient", "u2",
              "{\"key\":\"k\",\"operator\":\"Exists\",\"effect\":\"NoExecute\","
              "\"tolerationSeconds\":3600}");
    pod_put(&f, "debug", "u3");
    claim_put(&f, "debug", "u3", "{\"operator\":\"Exists\",\"effect\":\"NoExecute\"}");
    BH_EQ(run(&f, "taint gpu-10 k=v:NoExecute --dry-run=client"), 0);
    BH_CHECK(said(&f, "device n1/gpu-10 would be tainted (devicetaintrule/gpu-10-"));
    BH_CHECK(said(&f, ") (dry run)\n"
                      "POD               NODE   CLAIM     GOES\n"
                      "default/debug     n1     debug     stays: it tolerates the taint\n"
                      "default/patient   n1     patient   after 3"));
    BH_CHECK(said(&f, "\ndefault/quick     n1     quick     at once\n"));
    BH_EQ(bh_fake_api_count(f.api, RULES), 0);
    BH_EQ(run(&f, "taint gpu-10 k=v:NoSchedule --dry-run=client"), 0);
    BH_CHECK(said(&f, "no pod goes: the effect NoSchedule does not evict"));
    BH_EQ(run(&f, "taint gpu-2 k=v:NoExecute --dry-run=client"), 0);
    BH_CHECK(said(&f, "no pod goes: nobody uses the device")); /* its pod is not there */
    BH_EQ(run(&f, "taint gpu-10 k=v:NoExecute"), 0);
    BH_EQ(run(&f, "untaint gpu-10 k --dry-run client"), 0);
    BH_CHECK(said(&f, "would be deleted"));
    BH_EQ(bh_fake_api_count(f.api, RULES), 1);
    fix_done(&f);
}

/* ---- explain ---- */

static void put(struct fix *f, const char *path, const char *fmt, ...) BH_PRINTF(3, 4);
static void put(struct fix *f, const char *path, const char *fmt, ...)
{
    char json[4096];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(json, sizeof(json), fmt, ap);
    va_end(ap);
    bh_fake_api_put(f->api, path, json);
}

#define NODE_JSON(name, spec)                                                                      \
    "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"" name                      \
    "\",\"labels\":{\"disk\":\"" name "\"}},\"spec\":{" spec "}}"
#define SELECTOR                                                                                   \
    ",\"selectors\":[{\"cel\":{\"expression\":\"device.capacity[\\\"gpu.bulkhead.dev\\\"]."        \
    "memory.compareTo(quantity(\\\"200Gi\\\")) >= 0\"}}]"

/* Two nodes with a tainted gpu-2 each (memory 141Gi) and a gpu-10, of which the first node's is in
 * use; a third node that the pod's selector does not want. */
static void explain_init(struct fix *f)
{
    fix_init(f);
    slice_put(f, "s2", "n2");
    put(f, "/api/v1/nodes/n1", "%s", NODE_JSON("n1", ""));
    put(f, "/api/v1/nodes/n2", "%s", NODE_JSON("n2", ""));
    put(f, "/api/v1/nodes/n3", "%s",
        NODE_JSON("n3", "\"taints\":[{\"key\":\"away\",\"effect\":\"NoSchedule\"}]"));
    put(f, "/apis/resource.k8s.io/v1/deviceclasses/gpu",
        "{\"kind\":\"DeviceClass\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{\"name\":"
        "\"gpu\"},\"spec\":{}}");
    pod_put(f, "quick", "u1");
    claim_put(f, "quick", "u1", "");
}

static void want_put(struct fix *f, const char *more)
{
    put(f, "/apis/resource.k8s.io/v1/resourceclaims/w",
        "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{\"name\":"
        "\"w\",\"namespace\":\"default\",\"uid\":\"u-w\"},\"spec\":{\"devices\":{\"requests\":[{"
        "\"name\":\"gpu\",\"exactly\":{\"deviceClassName\":\"gpu\",\"allocationMode\":"
        "\"ExactCount\"%s}}]}}}",
        more);
    put(f, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/w", "%.*s",
        BH_SF(bh_fake_api_get(f->api, "/apis/resource.k8s.io/v1/resourceclaims/w")));
}

BH_TEST(device_explain_claim)
{
    struct fix f;

    explain_init(&f);
    want_put(&f, ",\"count\":2");
    BH_EQ(run(&f, "explain claim w"), 1);
    BH_STREQ(bh_buf_str(&f.out),
             "claim default/w: has no devices\n"
             "node n1:\n"
             "  request \"gpu\": 2 of class gpu wanted; 2 devices:\n"
             "    1 has a taint that is not tolerated: gpu.bulkhead.dev/xid=79:NoExecute (gpu-2)\n"
             "    1 is in use by pod default/quick (gpu-10)\n"
             "node n2:\n"
             "  request \"gpu\": 2 of class gpu wanted; 2 devices:\n"
             "    1 has a taint that is not tolerated: gpu.bulkhead.dev/xid=79:NoExecute (gpu-2)\n"
             "    1 would do (gpu-10)\n"
             "node n3:\n"
             "  request \"gpu\": 2 of class gpu wanted; 0 devices\n"
             "smallest change: tolerate the taint gpu.bulkhead.dev/xid=79:NoExecute in request "
             "\"gpu\"; then it fits on node n2\n"
             "or: ask for 1 device instead of 2 in request \"gpu\"; then it fits on node n2\n");
    want_put(&f, ",\"count\":1" SELECTOR);
    BH_EQ(run(&f, "explain claim w --node n2"), 1);
    BH_CHECK(said(&f, "1 does not match the request's selectors: device.capacity["
                      "\"gpu.bulkhead.dev\"].memory.compareTo(quantity(\"200Gi\")) >= 0 is false: "
                      "device.capacity[\"gpu.bulkhead.dev\"].memory is 141Gi (gpu-2)"));
    /* The larger device is tainted, and the other one says nothing of its memory. */
    BH_CHECK(said(&f, "smallest change: "));
    want_put(&f, ",\"count\":1");
    BH_EQ(run(&f, "explain claim w -o json"), 0);
    BH_CHECK(said(&f, "\"fits\":true,\"node\":\"n2\""));
    BH_EQ(run(&f, "explain resourceclaim/w"), 0);
    BH_EQ(run(&f, "explain pod/"), 2);
    BH_EQ(run(&f, "explain claim nobody"), 1);
    BH_EQ(run(&f, "explain w"), 2);
    BH_CHECK(said(&f, "explain takes `pod NAME` or `claim NAME`"));
    BH_EQ(run(&f, "explain claim w -o yaml"), 2);
    fix_done(&f);
}

BH_TEST(device_explain_devices_of_other_nodes)
{
    struct fix f;

    explain_init(&f);
    put(&f, SLICES "/rack",
        "{\"kind\":\"ResourceSlice\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{\"name\":"
        "\"rack\"},\"spec\":{\"driver\":\"net.test\",\"nodeSelector\":{\"nodeSelectorTerms\":[{"
        "\"matchExpressions\":[{\"key\":\"disk\",\"operator\":\"In\",\"values\":[\"n1\"]}]}]},"
        "\"pool\":{\"name\":\"rack\",\"generation\":1,\"resourceSliceCount\":1},\"devices\":[{"
        "\"name\":\"a\"},{\"name\":\"b\"}]}}");
    want_put(&f, ",\"count\":3");
    BH_EQ(run(&f, "explain claim w --node n2"), 1);
    BH_CHECK(said(&f, "; 4 devices:\n"));
    BH_CHECK(said(&f, "    2 are for other nodes\n"));
    BH_EQ(run(&f, "explain claim w --node n1"), 1);
    BH_CHECK(said(&f, "    2 would do (a and b)\n"));
    fix_done(&f);
}

BH_TEST(device_explain_several_changes)
{
    struct fix f;

    explain_init(&f);
    want_put(&f, ",\"count\":2");
    BH_EQ(run(&f, "explain claim w --node n1"), 1);
    BH_CHECK(said(&f, "smallest change: tolerate the taint gpu.bulkhead.dev/xid=79:NoExecute in "
                      "request \"gpu\", free the device held by pod default/quick (claim quick) "
                      "and free the device held by pod default/train-0 (claim c1); then it fits on "
                      "node n1\n"));
    fix_done(&f);
}

BH_TEST(device_explain_pod)
{
    struct fix f;

    explain_init(&f);
    want_put(&f, ",\"count\":1");
    put(&f, "/api/v1/namespaces/default/pods/p",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"namespace\":"
        "\"default\",\"uid\":\"u-p\"},\"spec\":{\"nodeSelector\":{\"disk\":\"n1\"},"
        "\"containers\":[],\"resourceClaims\":[{\"name\":\"g\",\"resourceClaimName\":\"w\"}]},"
        "\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"
        "\"Unschedulable\",\"message\":\"no node\"}]}}");
    BH_EQ(run(&f, "explain pod p"), 1);
    BH_CHECK(said(&f, "not considered: 2 nodes (n2, …): the pod's node selector wants disk=n1\n"));
    /* The tainted one is in use, too. */
    BH_CHECK(said(&f, "smallest change: free the device held by pod default/quick (claim quick); "
                      "then it fits on node n1\n"));
    BH_CHECK(said(&f, "the scheduler said: no node\n"));
    BH_EQ(run(&f, "explain pod default/p -n other -o json"), 1);
    BH_CHECK(said(&f, "{\"pod\":\"default/p\",\"fits\":false,\"claims\":[{\"name\":\"default/w\","
                      "\"allocated\":false,\"devices\":[]}],\"excluded\":[{\"reason\":\"the pod's "
                      "node selector wants disk=n1\",\"nodes\":[\"n2\",\"n3\"]}],\"nodes\":[{"
                      "\"nodes\":[\"n1\"],\"requests\":[{\"claim\":\"default/w\",\"request\":"
                      "\"gpu\",\"class\":\"gpu\",\"wanted\":1,\"devices\":2,\"reasons\":[{"
                      "\"reason\":\"Taint\",\"count\":1"));
    fix_done(&f);
}

BH_TEST(device_explain_extended_resources)
{
    struct fix f;

    explain_init(&f);
    put(&f, "/apis/resource.k8s.io/v1/deviceclasses/gpu",
        "{\"kind\":\"DeviceClass\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{\"name\":"
        "\"gpu\"},\"spec\":{\"extendedResourceName\":\"example.com/gpu\"}}");
    put(&f, "/api/v1/nodes/n2",
        "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n2\"},\"status\":{"
        "\"allocatable\":{\"example.com/gpu\":\"8\"}}}");
    put(&f, "/api/v1/namespaces/default/pods/p",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"namespace\":"
        "\"default\",\"uid\":\"u-p\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\","
        "\"resources\":{\"requests\":{\"example.com/gpu\":\"1\"},\"limits\":{\"example.com/gpu\":"
        "\"1\"}}}]}}");
    BH_EQ(run(&f, "explain pod p"), 1);
    BH_CHECK(said(&f, "claim default/p-extended-resources (to be made for extended resources): "
                      "has no devices\n"));
    BH_CHECK(said(&f, "not considered: 1 node (n2): a device plugin of the node serves "
                      "example.com/gpu\n"));
    BH_CHECK(said(&f, "request \"container-0-request-0\": 1 of class gpu wanted; 2 devices:\n"));
    BH_CHECK(said(&f, "smallest change: free the device held by pod default/quick (claim quick); "
                      "then it fits on node n1\n"));
    fix_done(&f);
}
