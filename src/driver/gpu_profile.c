/* Profiles of simulated GPU machines. Strict, because a misspelt key would silently change an
 * experiment. */
#include "driver/gpu_profile.h"

#include <string.h>

#include "api/gen/resource_v1.h"
#include "base/arena.h"
#include "data/codec.h"
#include "data/quantity.h"
#include "data/yaml.h"

#define ATTR_MAX      64 /* bytes of an attribute's string value: the API's limit */
#define NUMA_MAX      1023
#define GPUS_PER_NUMA 4
#define GPUS_PER_ROOT 2

static const struct bh_gpu gpu_default = {
    .model = BH_S_INIT("H200"),
    .product_name = BH_S_INIT("NVIDIA H200"),
    .architecture = BH_S_INIT("Hopper"),
    .brand = BH_S_INIT("Nvidia"),
    .driver_version = BH_S_INIT("580.65.6"),
    .cuda_driver_version = BH_S_INIT("13.0.0"),
    .cuda_compute_capability = BH_S_INIT("9.0.0"),
    .memory = BH_S_INIT("141Gi"),
    .numa_node = -1,
};

/* Which of the per-device values a profile gave, null included: the layout fills in the others. */
struct given {
    bool uuid, numa, root, bus, nvlink;
};

enum key_kind {
    K_TEXT,
    K_VERSION,
    K_QUANTITY,
    K_NUMA,
    K_ROOT,
    K_BUS,
    K_NVLINK,
    K_UUID,
    K_PARTITIONS,
    K_SHARED
};

static const struct {
    const char *name;
    enum key_kind kind;
    size_t off; /* of the string in struct bh_gpu */
} keys[] = {
    {"model", K_TEXT, offsetof(struct bh_gpu, model)},
    {"productName", K_TEXT, offsetof(struct bh_gpu, product_name)},
    {"architecture", K_TEXT, offsetof(struct bh_gpu, architecture)},
    {"brand", K_TEXT, offsetof(struct bh_gpu, brand)},
    {"driverVersion", K_VERSION, offsetof(struct bh_gpu, driver_version)},
    {"cudaDriverVersion", K_VERSION, offsetof(struct bh_gpu, cuda_driver_version)},
    {"cudaComputeCapability", K_VERSION, offsetof(struct bh_gpu, cuda_compute_capability)},
    {"memory", K_QUANTITY, offsetof(struct bh_gpu, memory)},
    {"numaNode", K_NUMA, 0},
    {"pcieRoot", K_ROOT, offsetof(struct bh_gpu, pcie_root)},
    {"pciBusID", K_BUS, offsetof(struct bh_gpu, pci_bus_id)},
    {"nvlinkDomain", K_NVLINK, offsetof(struct bh_gpu, nvlink_domain)},
    {"uuid", K_UUID, offsetof(struct bh_gpu, uuid)},
    {"partitions", K_PARTITIONS, 0},
    {"shared", K_SHARED, 0},
};

/* "580.65.06" becomes "580.65.6", "9.0" becomes "9.0.0": vendors do not write semantic versions. */
static bool version_normalise(struct bh_arena *a, struct bh_str s, struct bh_str *ret)
{
    int64_t part[3] = {0, 0, 0};
    size_t n = 0;

    while (s.p && n < 3) {
        struct bh_str p = bh_str_cut(&s, '.');

        if (p.n == 0 || p.n > 9 || !bh_str_i64(p, 0, 999999999, &part[n++]))
            return false;
    }
    if (s.p)
        return false;
    *ret =
        bh_str_fmt(a, "%lld.%lld.%lld", (long long)part[0], (long long)part[1], (long long)part[2]);
    return true;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* Matches s against a form in which 'h' stands for a lower-case hexadecimal digit. */
static bool matches(struct bh_str s, const char *form)
{
    if (s.n != strlen(form))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (form[i] == 'h' ? !is_hex(s.p[i]) : s.p[i] != form[i])
            return false;
    return true;
}

static bool uuid_ok(struct bh_str s)
{
    return bh_str_starts(s, BH_S("GPU-")) && bh_is_uuid(bh_str_sub(s, 4, s.n));
}

static int key_set_numa(const struct bh_jv *v, const char *at, struct bh_gpu *g,
                        struct given *given, struct bh_err *err)
{
    int64_t i = -1;

    if (v->kind != BH_JSON_NULL &&
        (v->kind != BH_JSON_NUM || !bh_json_num_i64(v->s, &i) || i < 0 || i > NUMA_MAX))
        return bh_err_set(err, BH_E_INVALID, "%snumaNode: must be an integer from 0 to %d, or null",
                          at, NUMA_MAX);
    g->numa_node = (int)i;
    given->numa = true;
    return 0;
}

static int key_set_partitions(const struct bh_jv *v, const char *at, struct bh_gpu *g,
                              struct bh_err *err)
{
    int64_t i = 0;

    if (v->kind != BH_JSON_NUM || !bh_json_num_i64(v->s, &i) || i < 0 || i == 1 ||
        i > BH_PARTITIONS_MAX)
        return bh_err_set(err, BH_E_INVALID, "%spartitions: must be an integer from 2 to %d, or 0",
                          at, BH_PARTITIONS_MAX);
    g->partitions = (int)i;
    return 0;
}

static int key_set_shared(const struct bh_jv *v, const char *at, struct bh_gpu *g,
                          struct bh_err *err)
{
    if (v->kind != BH_JSON_BOOL)
        return bh_err_set(err, BH_E_INVALID, "%sshared: must be true or false", at);
    g->shared = v->b;
    return 0;
}

/* The text of a value that may be written as a number: memory and versions often are. */
static bool scalar_text(const struct bh_jv *v, struct bh_str *ret)
{
    if (v->kind != BH_JSON_STR && v->kind != BH_JSON_NUM)
        return false;
    *ret = v->s;
    return true;
}

static int key_set(struct bh_arena *a, size_t k, const struct bh_jv *v, const char *at,
                   struct bh_gpu *g, struct given *given, struct bh_err *err)
{
    struct bh_str *dst = (struct bh_str *)(void *)((char *)g + keys[k].off);
    const char *name = keys[k].name;
    struct bh_str s = {NULL, 0};
    bool null_ok = keys[k].kind == K_ROOT || keys[k].kind == K_NVLINK;

    if (keys[k].kind == K_NUMA)
        return key_set_numa(v, at, g, given, err);
    if (keys[k].kind == K_PARTITIONS)
        return key_set_partitions(v, at, g, err);
    if (keys[k].kind == K_SHARED)
        return key_set_shared(v, at, g, err);
    if (!(null_ok && v->kind == BH_JSON_NULL) && !scalar_text(v, &s))
        return bh_err_set(err, BH_E_INVALID, "%s%s: must be a string", at, name);
    if (v->kind != BH_JSON_NULL && (s.n == 0 || s.n > ATTR_MAX))
        return bh_err_set(err, BH_E_INVALID, "%s%s: must have 1 to %d characters", at, name,
                          ATTR_MAX);
    switch (keys[k].kind) {
    case K_VERSION:
        if (!version_normalise(a, s, dst))
            return bh_err_set(err, BH_E_INVALID, "%s%s: '%.*s' is not a version (like 580.65.06)",
                              at, name, BH_SF(s));
        return 0;
    case K_QUANTITY:
        if (bh_quantity_canonical(a, s, dst, NULL) < 0)
            return bh_err_set(err, BH_E_INVALID, "%s%s: '%.*s' is not a quantity (like 80Gi)", at,
                              name, BH_SF(s));
        return 0;
    case K_ROOT:
        given->root = true;
        if (s.n > 0 && !matches(s, "pcihhhh:hh"))
            return bh_err_set(err, BH_E_INVALID, "%s%s: '%.*s' is not of the form pci0000:00", at,
                              name, BH_SF(s));
        break;
    case K_BUS:
        given->bus = true;
        if (!matches(s, "hhhh:hh:hh.h") || s.p[11] > '7')
            return bh_err_set(err, BH_E_INVALID, "%s%s: '%.*s' is not of the form 0000:01:00.0", at,
                              name, BH_SF(s));
        break;
    case K_UUID:
        given->uuid = true;
        if (!uuid_ok(s))
            return bh_err_set(err, BH_E_INVALID, "%s%s: '%.*s' is not 'GPU-' and a UUID", at, name,
                              BH_SF(s));
        break;
    case K_NVLINK:
        given->nvlink = true;
        break;
    default:
        break;
    }
    *dst = bh_str_dup(a, s);
    return 0;
}

/* Applies the members of one map. top: also "count" and "devices" may stand there. */
static int map_apply(struct bh_arena *a, const struct bh_jv *o, const char *at, bool top,
                     struct bh_gpu *g, struct given *given, struct bh_err *err)
{
    int r;

    for (size_t i = 0; i < o->n_members; i++) {
        struct bh_str key = o->members[i].key;
        size_t k = 0;

        if (top && (bh_str_eqc(key, "count") || bh_str_eqc(key, "devices")))
            continue;
        while (k < BH_COUNT(keys) && !bh_str_eqc(key, keys[k].name))
            k++;
        if (k == BH_COUNT(keys))
            return bh_err_set(err, BH_E_INVALID, "%sunknown key '%.*s'", at, BH_SF(key));
        if (top && (keys[k].kind == K_UUID || keys[k].kind == K_BUS))
            return bh_err_set(err, BH_E_INVALID, "%s: belongs to one device, under 'devices'",
                              keys[k].name);
        r = key_set(a, k, &o->members[i].v, at, g, given, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static struct bh_str derive_uuid(struct bh_arena *a, struct bh_str seed, size_t i)
{
    struct bh_str in = bh_str_fmt(a, "%.*s/%zu", BH_SF(seed), i);
    uint8_t h[32];
    char text[37];

    bh_sha256(in, h);
    return bh_str_fmt(a, "GPU-%.*s", BH_SF(bh_uuid_v4(h, text)));
}

/* The default machine: four GPUs to a NUMA node, two to a PCIe root, one NVLink domain. */
static void layout(struct bh_arena *a, struct bh_str seed, size_t i, const struct given *given,
                   struct bh_gpu *g)
{
    g->name = bh_str_fmt(a, "gpu-%zu", i);
    if (!given->uuid)
        g->uuid = derive_uuid(a, seed, i);
    if (!given->numa)
        g->numa_node = (int)(i / GPUS_PER_NUMA) % (NUMA_MAX + 1);
    if (!given->root)
        g->pcie_root = bh_str_fmt(a, "pci%04zx:%02zx", i / 128, (i % 128) / GPUS_PER_ROOT * 4);
    if (!given->bus)
        g->pci_bus_id = bh_str_fmt(a, "%04zx:%02zx:%02zx.0", i / 128,
                                   (i % 128) / GPUS_PER_ROOT * 4 + 1, i % GPUS_PER_ROOT);
    if (!given->nvlink)
        g->nvlink_domain = bh_str_sub(derive_uuid(a, seed, BH_GPUS_MAX), 4, 40);
}

static int unique_check(const struct bh_gpu_profile *p, struct bh_err *err)
{
    for (size_t i = 0; i < p->n; i++)
        for (size_t j = 0; j < i; j++) {
            if (bh_str_eq(p->gpus[i].uuid, p->gpus[j].uuid))
                return bh_err_set(err, BH_E_INVALID, "devices[%zu].uuid: devices[%zu] has the same",
                                  i, j);
            if (bh_str_eq(p->gpus[i].pci_bus_id, p->gpus[j].pci_bus_id))
                return bh_err_set(err, BH_E_INVALID,
                                  "devices[%zu].pciBusID: devices[%zu] has the same", i, j);
        }
    return 0;
}

/* How many devices the profile describes; 0: it does not say. */
static int profile_count(const struct bh_jv *doc, const struct bh_jv *devices, size_t count,
                         size_t *ret, struct bh_err *err)
{
    const struct bh_jv *c = bh_jv_getc(doc, "count");
    int64_t n = 0;

    if (devices && devices->kind != BH_JSON_ARR)
        return bh_err_set(err, BH_E_INVALID, "devices: must be a list");
    if (devices && c)
        return bh_err_set(err, BH_E_INVALID, "count: 'devices' already says how many there are");
    if (c && (!bh_jv_get_i64(doc, "count", &n) || n < 1 || n > BH_GPUS_MAX))
        return bh_err_set(err, BH_E_INVALID, "count: must be an integer from 1 to %d", BH_GPUS_MAX);
    if (devices)
        n = (int64_t)devices->n_items;
    if (n > 0 && count > 0 && (size_t)n != count)
        return bh_err_set(err, BH_E_INVALID, "the profile has %lld devices, %zu were asked for",
                          (long long)n, count);
    *ret = n > 0 ? (size_t)n : count;
    if (*ret < 1 || *ret > BH_GPUS_MAX)
        return bh_err_set(err, BH_E_INVALID, "the number of devices must be from 1 to %d",
                          BH_GPUS_MAX);
    return 0;
}

/* ---- partitions ---- */

static void partition_make(struct bh_arena *a, const struct bh_gpu *g, int i, struct bh_gpu *ret)
{
    struct bh_quantity q = {0};
    struct bh_err err;

    *ret = *g;
    (void)!bh_quantity_parse(g->memory, &q, &err); /* it was checked */
    ret->name = bh_str_fmt(a, "%.*s-part-%d", BH_SF(g->name), i);
    ret->uuid = bh_str_fmt(
        a, "MIG-%.*s",
        BH_SF(bh_str_sub(derive_uuid(a, g->uuid, (size_t)i), 4, 40))); /* as the vendor's */
    ret->memory =
        bh_quantity_str(a, bh_quantity_i64(bh_quantity_value(q) / g->partitions, q.format));
    ret->of = g->name;
    ret->of_uuid = g->uuid;
}

static int partitions_add(struct bh_arena *a, struct bh_gpu_profile *p, struct bh_err *err)
{
    size_t n = p->n;
    struct bh_gpu *all;

    for (size_t i = 0; i < p->n; i++) {
        if (p->gpus[i].partitions && p->gpus[i].shared)
            return bh_err_set(err, BH_E_INVALID,
                              "shared: a GPU that is cut into partitions cannot be shared as well");
        n += (size_t)p->gpus[i].partitions;
    }
    if (n > BH_GPUS_MAX)
        return bh_err_set(err, BH_E_INVALID,
                          "partitions: GPUs and partitions are %zu, more than %d", n, BH_GPUS_MAX);
    if (n == p->n)
        return 0;
    all = bh_new_n(a, struct bh_gpu, n);
    memcpy(all, p->gpus, p->n * sizeof(*all));
    n = p->n;
    for (size_t i = 0; i < p->n; i++)
        for (int k = 0; k < all[i].partitions; k++)
            partition_make(a, &all[i], k, &all[n++]);
    p->gpus = all;
    p->n = n;
    return 0;
}

int bh_gpu_profile_load(struct bh_arena *a, struct bh_str text, size_t count, struct bh_str seed,
                        struct bh_gpu_profile *ret, struct bh_err *err)
{
    struct bh_jv doc = BH_JV_OBJ;
    struct bh_yaml_dups dups = {0};
    const struct bh_jv *devices;
    struct bh_gpu base = gpu_default;
    struct given base_given = {0};
    struct bh_gpu_profile p = {0};
    int r = 0;

    if (text.n > 0)
        r = bh_yaml_parse(a, text, &dups, &doc, err);
    if (r < 0)
        return r;
    if (dups.lines.n > 0)
        return bh_err_set(err, BH_E_INVALID, "%.*s", BH_SF(dups.lines.p[0]));
    if (doc.kind != BH_JSON_OBJ)
        return bh_err_set(err, BH_E_INVALID, "a profile is a map");
    devices = bh_jv_getc(&doc, "devices");
    r = profile_count(&doc, devices, count, &p.n, err);
    if (r < 0)
        return r;
    r = map_apply(a, &doc, "", true, &base, &base_given, err);
    if (r < 0)
        return r;
    p.gpus = bh_new_n(a, struct bh_gpu, p.n);
    for (size_t i = 0; i < p.n; i++) {
        struct given given = base_given;
        struct bh_str at = bh_str_fmt(a, "devices[%zu].", i);

        p.gpus[i] = base;
        if (devices && devices->items[i].kind != BH_JSON_OBJ)
            return bh_err_set(err, BH_E_INVALID, "devices[%zu]: must be a map", i);
        if (devices)
            r = map_apply(a, &devices->items[i], at.p, false, &p.gpus[i], &given, err);
        if (r < 0)
            return r;
        layout(a, seed, i, &given, &p.gpus[i]);
    }
    r = unique_check(&p, err);
    if (r == 0)
        r = partitions_add(a, &p, err);
    if (r == 0)
        *ret = p;
    return r;
}

/* ---- what is published ---- */

struct attrs {
    struct bh_arena *a;
    struct bh_resource_v1_device_attribute_entry *p;
    size_t n;
};

static struct bh_resource_v1_device_attribute *attr(struct attrs *as, const char *name)
{
    as->p[as->n].key = bh_s(name);
    return &as->p[as->n++].value;
}

static void attr_str(struct attrs *as, const char *name, struct bh_str v)
{
    struct bh_resource_v1_device_attribute *at;

    if (v.n == 0)
        return;
    at = attr(as, name);
    at->string = v;
    at->has_string = true;
}

static void attr_version(struct attrs *as, const char *name, struct bh_str v)
{
    struct bh_resource_v1_device_attribute *at = attr(as, name);

    at->version = v;
    at->has_version = true;
}

static void attr_int(struct attrs *as, const char *name, int64_t v)
{
    struct bh_resource_v1_device_attribute *at = attr(as, name);

    at->int_ = v;
    at->has_int = true;
}

/* The calls stand in the order of the keys' bytes, which the maps of the API demand. */
static void attributes_make(struct attrs *as, const struct bh_gpu *g, size_t index)
{
    attr_str(as, "architecture", g->architecture);
    attr_str(as, "brand", g->brand);
    attr_version(as, "cudaComputeCapability", g->cuda_compute_capability);
    attr_version(as, "cudaDriverVersion", g->cuda_driver_version);
    attr_version(as, "driverVersion", g->driver_version);
    attr_int(as, "index", (int64_t)index);
    attr_str(as, "model", g->model);
    attr_str(as, "nvlinkDomain", g->nvlink_domain);
    attr_str(as, "parentUUID", g->of_uuid);
    attr_str(as, "productName", g->product_name);
    if (g->numa_node >= 0)
        attr_int(as, "resource.kubernetes.io/numaNode", g->numa_node);
    if (!g->of.n) /* tells one device from another; a partition has none of its own */
        attr_str(as, "resource.kubernetes.io/pciBusID", g->pci_bus_id);
    attr_str(as, "resource.kubernetes.io/pcieRoot", g->pcie_root);
    attr_str(as, "type", g->of.n ? BH_S("partition") : BH_S("gpu"));
    attr_str(as, "uuid", g->uuid);
}

/* How much may be taken of a shared GPU: whole gibibytes, one when nothing is said. */
static struct bh_resource_v1_capacity_request_policy *share_policy(struct bh_arena *a)
{
    struct bh_resource_v1_capacity_request_policy *p =
        bh_new(a, struct bh_resource_v1_capacity_request_policy);

    p->default_ = BH_S("1Gi");
    p->has_default = true;
    p->valid_range = bh_new(a, struct bh_resource_v1_capacity_request_policy_range);
    p->valid_range->min = p->valid_range->step = BH_S("1Gi");
    p->valid_range->has_min = p->valid_range->has_step = true;
    return p;
}

/* What a GPU or a partition takes of the counters of the GPU. */
static void counters_make(struct bh_arena *a, struct bh_str memory, int64_t parts,
                          struct bh_resource_v1_counter_map *ret)
{
    ret->p = bh_new_n(a, struct bh_resource_v1_counter_entry, 2);
    ret->n = 2;
    ret->p[0].key = BH_S("memory");
    ret->p[0].value.value = memory;
    ret->p[1].key = BH_S("partitions");
    ret->p[1].value.value = bh_str_fmt(a, "%lld", (long long)parts);
}

void bh_gpu_to_device(struct bh_arena *a, const struct bh_gpu *g, size_t index,
                      struct bh_resource_v1_device *ret)
{
    struct attrs as = {a, bh_new_n(a, struct bh_resource_v1_device_attribute_entry, 16), 0};
    struct bh_resource_v1_device_capacity_entry *cap =
        bh_new(a, struct bh_resource_v1_device_capacity_entry);

    *ret = (struct bh_resource_v1_device){.name = g->name};
    attributes_make(&as, g, index);
    ret->attributes.p = as.p;
    ret->attributes.n = as.n;
    cap->key = BH_S("memory");
    cap->value.value = g->memory;
    if (g->shared) {
        ret->allow_multiple_allocations = ret->has_allow_multiple_allocations = true;
        cap->value.request_policy = share_policy(a);
    }
    ret->capacity.p = cap;
    ret->capacity.n = 1;
    if (!g->partitions)
        return;
    ret->consumes_counters.p = bh_new(a, struct bh_resource_v1_device_counter_consumption);
    ret->consumes_counters.n = 1;
    ret->consumes_counters.p[0].counter_set = g->of.n ? g->of : g->name;
    counters_make(a, g->memory, g->of.n ? 1 : g->partitions, &ret->consumes_counters.p[0].counters);
}

size_t bh_gpu_counters(struct bh_arena *a, const struct bh_gpu_profile *p,
                       struct bh_resource_v1_counter_set **ret)
{
    size_t n = 0;

    *ret = bh_new_n(a, struct bh_resource_v1_counter_set, p->n);
    for (size_t i = 0; i < p->n; i++) {
        const struct bh_gpu *g = &p->gpus[i];

        if (g->of.n || !g->partitions)
            continue;
        (*ret)[n].name = g->name;
        counters_make(a, g->memory, g->partitions, &(*ret)[n++].counters);
    }
    return n;
}
