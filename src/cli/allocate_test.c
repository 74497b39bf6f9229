/* `bulkhead allocate`: exit status, output, and where it says that something is wrong. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "cli/commands.h"

static struct bh_buf out, errs;

static int redirect(int fd, const char *path)
{
    int old = dup(fd), to = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    bh_assert(old >= 0 && to >= 0 && dup2(to, fd) == fd);
    (void)close(to);
    return old;
}

static void restore(int fd, int old)
{
    bh_assert(dup2(old, fd) == fd);
    (void)close(old);
}

/* Runs the command on a file with this text. more: further arguments, up to a NULL. */
static int run(const char *text, const char *const *more)
{
    char dir[] = "/tmp/bh-allocate-XXXXXX", in[64], o[64], e[64];
    char *argv[16] = {(char[]){"allocate"}, (char[]){"-f"}, in, (char[]){"--node"},
                      (char[]){"node"}};
    int argc = 5, rc, fd1, fd2;

    bh_assert(mkdtemp(dir));
    (void)snprintf(in, sizeof(in), "%s/in.yaml", dir);
    (void)snprintf(o, sizeof(o), "%s/out", dir);
    (void)snprintf(e, sizeof(e), "%s/err", dir);
    bh_assert(bh_fs_write_plain(in, bh_s(text), 0600, NULL) == 0);
    while (*more)
        argv[argc++] = bh_strdup_c(bh_s(*more++));
    (void)fflush(stdout);
    fd1 = redirect(1, o);
    fd2 = redirect(2, e);
    rc = bh_allocate_main(argc, argv);
    (void)fflush(stdout);
    restore(1, fd1);
    restore(2, fd2);
    while (argc > 5)
        bh_free(argv[--argc]);
    bh_buf_clear(&out);
    bh_buf_clear(&errs);
    bh_assert(bh_fs_read(o, 1 << 20, &out, NULL) == 0 && bh_fs_read(e, 1 << 20, &errs, NULL) == 0);
    bh_assert(bh_fs_remove_tree(dir, NULL) == 0);
    return rc;
}

static void drop(void)
{
    bh_buf_done(&out);
    bh_buf_done(&errs);
}

/* The messages without the name of the scratch file. */
static struct bh_str said(void)
{
    ptrdiff_t at = bh_str_find(bh_buf_str(&errs), BH_S("in.yaml"));

    return at < 0 ? bh_buf_str(&errs) : bh_str_sub(bh_buf_str(&errs), (size_t)at, errs.n);
}

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char cluster[] = "apiVersion: v1\n"
                              "kind: Node\n"
                              "metadata:\n"
                              "  name: node\n"
                              "---\n"
                              "apiVersion: resource.k8s.io/v1\n"
                              "kind: DeviceClass\n"
                              "metadata:\n"
                              "  name: any\n"
                              "spec: {}\n"
                              "---\n"
                              "# an empty document\n"
                              "---\n"
                              "apiVersion: resource.k8s.io/v1\n"
                              "kind: ResourceSlice\n"
                              "metadata:\n"
                              "  name: s\n"
                              "spec:\n"
                              "  driver: d\n"
                              "  pool: {name: p, generation: 1, resourceSliceCount: 1}\n"
                              "  nodeName: node\n"
                              "  devices:\n"
                              "  - name: a\n"
                              "  - name: b\n"
                              "    taints: [{key: k, effect: NoSchedule}]\n"
                              "---\n";

static const char *with(struct bh_arena *a, const char *spec)
{
    return bh_str_fmt(a,
                      "%sapiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata:\n  name: "
                      "c\n  namespace: default\n%s",
                      cluster, spec)
        .p;
}

#define EXACT(n)                                                                                   \
    "spec:\n  devices:\n    requests:\n    - name: gpu\n      exactly:\n        deviceClassName: " \
    "any\n        count: " n "\n"

BH_TEST(allocate_outputs)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    BH_EQ(run(with(a, EXACT("1")), ARGS("--claim", "default/c", "-o", "json")), 0);
    BH_STREQ(
        bh_buf_str(&out),
        "{\"allocations\":[{\"devices\":{\"results\":[{\"request\":\"gpu\",\"driver\":\"d\","
        "\"pool\":\"p\","
        "\"device\":\"a\"}]},\"nodeSelector\":{\"nodeSelectorTerms\":[{\"matchFields\":[{\"key\":"
        "\"metadata.name\",\"operator\":\"In\",\"values\":[\"node\"]}]}]}}]}\n");
    BH_EQ(run(with(a, EXACT("1")), ARGS("--device-scoring=off")), 0);
    BH_STREQ(bh_buf_str(&out), "default/c: request \"gpu\": d/p/a\n");
    BH_EQ(run(with(a, EXACT("2")), ARGS("-o=text")), 1);
    BH_STREQ(bh_buf_str(&out),
             "cannot allocate all claims: request \"gpu\": b has taint k:NoSchedule; 1 of 2 wanted "
             "would do\n"
             "default/c: request \"gpu\": d/p/a would do\n"
             "default/c: request \"gpu\": d/p/b has a taint that is not tolerated: k:NoSchedule\n"
             "smallest change: tolerate the taint k:NoSchedule in request \"gpu\"; then it fits on "
             "node node\n"
             "or: ask for 1 device instead of 2 in request \"gpu\"; then it fits on node node\n");
    BH_EQ(run(with(a, EXACT("2")), ARGS("-o", "json")), 1);
    BH_CHECK(
        bh_str_starts(bh_buf_str(&out),
                      BH_S("{\"allocatable\":false,\"message\":\"cannot allocate all claims: ")));
    BH_EQ(errs.n, 0);
    drop();
}

BH_TEST(allocate_tells_what_is_taken_of_the_node)
{
    BH_EQ(
        run("{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"node\"}}\n---\n"
            "{\"kind\":\"DeviceClass\",\"apiVersion\":\"resource.k8s.io/"
            "v1\",\"metadata\":{\"name\":"
            "\"any\"}}\n---\n"
            "{\"kind\":\"ResourceSlice\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{"
            "\"name\":\"s\"},\"spec\":{\"driver\":\"d\",\"pool\":{\"name\":\"p\",\"generation\":1,"
            "\"resourceSliceCount\":1},\"nodeName\":\"node\",\"devices\":[{\"name\":\"a\","
            "\"allowMultipleAllocations\":true,\"capacity\":{\"cores\":{\"value\":\"8\"}},"
            "\"nodeAllocatableResourceMappings\":{\"cpu\":{\"capacityKey\":\"cores\","
            "\"allocationMultiplier\":\"500m\"},\"memory\":{\"allocationMultiplier\":\"2Gi\"}}}]}}"
            "\n"
            "---\n"
            "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{"
            "\"name\":\"c\",\"namespace\":\"default\"},\"spec\":{\"devices\":{\"requests\":[{"
            "\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"any\",\"capacity\":{\"requests\":{"
            "\"cores\":\"3\"}}}}]}}}\n",
            ARGS("-o", "text")),
        0);
    BH_STREQ(bh_buf_str(&out), "default/c: request \"r\": d/p/a (3 cores)\n"
                               "default/c takes of the node: cpu 1500m, memory 2Gi\n");
}

BH_TEST(allocate_complaints) /* file, line and field */
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    static const struct {
        const char *spec, *says;
    } rows[] = {
        {"spec:\n  devices:\n    requests:\n    - name: gpu\n      exactly:\n        "
         "deviceClassName: no\n        count: 1\n",
         "in.yaml:37: ResourceClaim default/c: spec.devices.requests.exactly.deviceClassName: "},
        {"spec:\n  devices:\n    requests:\n    - name: gpu\n      exactly:\n        "
         "deviceClassName: none\n",
         "in.yaml:35: ResourceClaim default/c: spec.devices.requests[0]: claim default/c, request "
         "gpu: "
         "could not retrieve device class "
         "none: "},
        {"spec:\n  devices:\n    requests:\n    - name: gpu\n      exactly:\n        "
         "deviceClassName: any\n        colour: red\n",
         "in.yaml:38: ResourceClaim default/c: spec.devices.requests[0].exactly.colour: unknown "
         "field "},
        {"spec:\n  devices:\n    requests:\n    - name: a\n      exactly:\n        "
         "deviceClassName: any\n    - name: gpu\n      "
         "exactly:\n        deviceClassName: any\n        allocationMode: Some\n",
         "in.yaml:41: ResourceClaim default/c: spec.devices.requests[1].exactly.allocationMode: "
         "Unsupported value: "},
        {"spec: [\n", "in.yaml:32: yaml: did not find expected node content"},
    };

    for (size_t i = 0; i < BH_COUNT(rows); i++) {
        BH_EQ(run(with(a, rows[i].spec), ARGS("--claim", "default/c")), 2);
        if (!bh_str_starts(said(), bh_s(rows[i].says)))
            bh_test_fail(__FILE__, __LINE__, "%.*s, not %s", BH_SF(said()), rows[i].says);
    }
    BH_EQ(run(cluster, ARGS("--claim", "default/c")), 2);
    BH_STREQ(said(), "in.yaml: there is no ResourceClaim default/c\n");
    BH_EQ(run(with(a, EXACT("1")), ARGS("--nonsense")), 2);
    drop();
}
