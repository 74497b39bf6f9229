/* Profiles: the default machine, what a file may say, and each thing it may not. */
#include "driver/gpu_profile.h"

#include "api/gen/resource_v1.h"
#include "base/arena.h"
#include "base/test.h"

static int load(struct bh_arena *a, const char *text, size_t count, struct bh_gpu_profile *p,
                struct bh_err *e)
{
    return bh_gpu_profile_load(a, bh_s(text), count, BH_S("gpu.bulkhead.dev/n1"), p, e);
}

BH_TEST(profile_default_machine)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_gpu_profile p = {0}, q = {0};
    struct bh_resource_v1_device d;

    BH_EQ(load(a, "", 8, &p, NULL), 0);
    BH_EQ(p.n, 8);
    BH_STREQ(p.gpus[7].name, "gpu-7");
    BH_STREQ(p.gpus[0].memory, "141Gi");
    BH_EQ(p.gpus[3].numa_node, 0);
    BH_EQ(p.gpus[4].numa_node, 1);
    BH_CHECK(bh_str_eq(p.gpus[0].pcie_root, p.gpus[1].pcie_root));
    BH_CHECK(!bh_str_eq(p.gpus[1].pcie_root, p.gpus[2].pcie_root));
    BH_CHECK(bh_str_starts(p.gpus[0].uuid, BH_S("GPU-")));
    BH_EQ(load(a, "", 8, &q, NULL), 0); /* a restart gives the same devices */
    BH_SEQ(q.gpus[5].uuid, p.gpus[5].uuid);
    bh_gpu_to_device(a, &p.gpus[0], 0, &d);
    for (size_t i = 1; i < d.attributes.n; i++)
        BH_CHECK(bh_str_cmp(d.attributes.p[i - 1].key, d.attributes.p[i].key) < 0);
    BH_STREQ(d.capacity.p[0].value.value, "141Gi");
    BH_EQ(load(a, "", BH_GPUS_MAX, &p, NULL), 0);
}

BH_TEST(profile_yaml_overrides)
{
    static const char text[] = "model: A100\n"
                               "memory: 80Gi\n"
                               "driverVersion: 580.65.06\n"
                               "numaNode: null\n"
                               "devices:\n"
                               "- {}\n"
                               "- memory: 40Gi\n"
                               "  pciBusID: \"0000:41:00.0\"\n"
                               "  pcieRoot: null\n"
                               "  numaNode: 3\n"
                               "  uuid: GPU-00000000-0000-4000-8000-000000000001\n";
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_gpu_profile p = {0};

    BH_EQ(load(a, text, 0, &p, NULL), 0);
    BH_EQ(p.n, 2);
    BH_STREQ(p.gpus[0].model, "A100");
    BH_STREQ(p.gpus[0].memory, "80Gi");
    BH_STREQ(p.gpus[0].driver_version, "580.65.6");
    BH_EQ(p.gpus[0].numa_node, -1);
    BH_STREQ(p.gpus[1].memory, "40Gi");
    BH_STREQ(p.gpus[1].pci_bus_id, "0000:41:00.0");
    BH_EQ(p.gpus[1].pcie_root.n, 0);
    BH_EQ(p.gpus[1].numa_node, 3);
    BH_EQ(load(a, "{\"count\": 3, \"memory\": \"1Gi\"}", 0, &p, NULL), 0);
    BH_EQ(p.n, 3);
}

BH_TEST(profile_says_what_is_wrong)
{
    static const struct {
        const char *text;
        size_t count;
        const char *want;
    } cases[] = {
        {"[]", 1, "a profile is a map"},
        {"", 0, "the number of devices must be from 1 to 1024"},
        {"memroy: 80Gi", 1, "unknown key 'memroy'"},
        {"memory: lots", 1, "memory: 'lots' is not a quantity (like 80Gi)"},
        {"memory: {}", 1, "memory: must be a string"},
        {"driverVersion: x.y", 1, "driverVersion: 'x.y' is not a version (like 580.65.06)"},
        {"numaNode: -1", 1, "numaNode: must be an integer from 0 to 1023, or null"},
        {"pcieRoot: pci0:0", 1, "pcieRoot: 'pci0:0' is not of the form pci0000:00"},
        {"uuid: GPU-1", 1, "uuid: belongs to one device, under 'devices'"},
        {"count: 2", 3, "the profile has 2 devices, 3 were asked for"},
        {"count: 0", 0, "count: must be an integer from 1 to 1024"},
        {"partitions: 1", 1, "partitions: must be an integer from 2 to 16, or 0"},
        {"partitions: two", 1, "partitions: must be an integer from 2 to 16, or 0"},
        {"partitions: 16", 1000, "partitions: GPUs and partitions are 17000, more than 1024"},
        {"shared: 1", 1, "shared: must be true or false"},
        {"{shared: true, partitions: 2}", 1,
         "shared: a GPU that is cut into partitions cannot be shared as well"},
        {"devices: 3", 0, "devices: must be a list"},
        {"devices: [1]", 0, "devices[0]: must be a map"},
        {"devices: [{pciBusID: \"0000:01:00.9\"}]", 0,
         "devices[0].pciBusID: '0000:01:00.9' is not of the form 0000:01:00.0"},
        {"devices: [{uuid: GPU-1}]", 0, "devices[0].uuid: 'GPU-1' is not 'GPU-' and a UUID"},
        {"devices: [{pciBusID: \"0000:01:00.0\"}, {pciBusID: \"0000:01:00.0\"}]", 0,
         "devices[1].pciBusID: devices[0] has the same"},
    };

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_gpu_profile p = {0};
        struct bh_err e = {0};

        BH_EQ(load(a, cases[i].text, cases[i].count, &p, &e), -BH_E_INVALID);
        BH_STREQ(bh_s(e.msg), cases[i].want);
    }
}

BH_TEST(profile_partitions)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_gpu_profile p = {0};
    struct bh_resource_v1_counter_set *sets;
    struct bh_resource_v1_device d;

    BH_EQ(load(a, "devices: [{}, {partitions: 4}]", 0, &p, NULL), 0);
    BH_EQ(p.n, 6);
    BH_STREQ(p.gpus[1].name, "gpu-1");
    BH_STREQ(p.gpus[2].name, "gpu-1-part-0");
    BH_STREQ(p.gpus[5].name, "gpu-1-part-3");
    BH_STREQ(p.gpus[5].memory, "36096Mi");
    BH_CHECK(bh_str_starts(p.gpus[5].uuid, BH_S("MIG-")));
    BH_CHECK(!bh_str_eq(p.gpus[4].uuid, p.gpus[5].uuid));
    BH_EQ(bh_gpu_counters(a, &p, &sets), 1);
    BH_STREQ(sets[0].name, "gpu-1");
    BH_STREQ(sets[0].counters.p[0].value.value, "141Gi");
    BH_STREQ(sets[0].counters.p[1].value.value, "4");
    for (size_t i = 0; i < p.n; i++) {
        bh_gpu_to_device(a, &p.gpus[i], i, &d);
        for (size_t k = 1; k < d.attributes.n; k++)
            BH_CHECK(bh_str_cmp(d.attributes.p[k - 1].key, d.attributes.p[k].key) < 0);
        BH_EQ(d.consumes_counters.n, i > 0);
        if (i > 0)
            BH_STREQ(d.consumes_counters.p[0].counters.p[1].value.value, i == 1 ? "4" : "1");
    }
}

BH_TEST(profile_shared)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_gpu_profile p = {0};
    struct bh_resource_v1_device d;

    BH_EQ(load(a, "shared: true", 1, &p, NULL), 0);
    bh_gpu_to_device(a, &p.gpus[0], 0, &d);
    BH_CHECK(d.allow_multiple_allocations);
    BH_STREQ(d.capacity.p[0].value.request_policy->default_, "1Gi");
}
