/* Small clusters from bytes: each byte picks what comes next, objects may be wrong in every way
 * that decodes. The model must keep its books, and what is allocated must be free to be reserved.
 */
#include <stdint.h>
#include <string.h>

#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "dra/dra_int.h"

struct in {
    const uint8_t *p;
    size_t n;
    bool started;
};

static unsigned take(struct in *in, unsigned n)
{
    unsigned v;

    if (!in->n)
        return 0;
    v = *in->p++;
    in->n--;
    return v % n;
}

static const char *pick(struct in *in, const char *const *v, unsigned n)
{
    return v[take(in, n)];
}
#define PICK(in, ...)                                                                              \
    pick((in), (const char *const[]){__VA_ARGS__},                                                 \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static const char *amount(struct in *in)
{
    return PICK(in, "1", "2", "4", "0", "-1", "1Gi", "500m", "9223372036854775807", "1e30", "x");
}

static const char *name(struct in *in)
{
    return PICK(in, "a", "b", "c", "");
}

static const char *node_selection(struct in *in)
{
    return PICK(in, "\"nodeName\":\"n0\"", "\"nodeName\":\"n1\"", "\"allNodes\":true",
                "\"nodeSelector\":{\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"z\","
                "\"operator\":\"In\","
                "\"values\":[\"a\"]}]}]}",
                "\"nodeSelector\":{\"nodeSelectorTerms\":[{\"matchFields\":[{\"key\":\"metadata."
                "name\",\"operator\":"
                "\"Gt\"}]},{}]}",
                "\"nodeSelector\":{}", "\"nodeName\":\"\"");
}

static void device(struct in *in, struct bh_buf *b)
{
    bh_buf_addf(b, "{\"name\":\"%s\",\"attributes\":{\"x\":{%s},\"d/y\":{%s}}", name(in),
                PICK(in, "\"int\":1", "\"string\":\"s\"", "\"ints\":[1,2]", "\"ints\":[]", "",
                     "\"version\":\"1.0.0\"", "\"version\":\"no\"", "\"bool\":true"),
                PICK(in, "\"int\":1", "\"int\":2", "\"bools\":[true]"));
    if (take(in, 2))
        bh_buf_addz(b, ",\"allowMultipleAllocations\":true");
    if (take(in, 2)) {
        bh_buf_addf(b, ",\"capacity\":{\"m\":{\"value\":\"%s\"", amount(in));
        if (take(in, 2))
            bh_buf_addf(b,
                        ",\"requestPolicy\":{\"default\":\"%s\",\"validRange\":{\"min\":\"%s\","
                        "\"max\":\"%s\",\"step\":\"%s\"}}",
                        amount(in), amount(in), amount(in), amount(in));
        else if (take(in, 2))
            bh_buf_addf(b, ",\"requestPolicy\":{\"validValues\":[\"%s\",\"%s\"]}", amount(in),
                        amount(in));
        bh_buf_addz(b, "}}");
    }
    if (take(in, 2))
        bh_buf_addf(b,
                    ",\"consumesCounters\":[{\"counterSet\":\"%s\",\"counters\":{\"k\":{\"value\":"
                    "\"%s\"}}}]",
                    name(in), amount(in));
    if (take(in, 3) == 1)
        bh_buf_addf(b, ",\"taints\":[{\"key\":\"t\",\"effect\":\"%s\"}]",
                    PICK(in, "NoSchedule", "NoExecute", "None", ""));
    if (take(in, 3) == 1)
        bh_buf_addf(b, ",%s", node_selection(in));
    if (take(in, 4) == 1)
        bh_buf_addz(b, ",\"bindingConditions\":[\"q\"]");
    bh_buf_addc(b, '}');
}

static void slice(struct in *in, struct bh_buf *b)
{
    bh_buf_addf(b,
                "{\"metadata\":{\"name\":\"s%u\"},\"spec\":{\"driver\":\"%s\",\"pool\":{\"name\":"
                "\"%s\",\"generation\":%u,"
                "\"resourceSliceCount\":%u}",
                take(in, 5), PICK(in, "d", "e"), name(in), take(in, 3), take(in, 4));
    if (take(in, 4))
        bh_buf_addf(b, ",%s", node_selection(in));
    if (take(in, 4) == 1)
        bh_buf_addz(b, ",\"perDeviceNodeSelection\":true");
    if (take(in, 3) == 1) {
        bh_buf_addf(
            b, ",\"sharedCounters\":[{\"name\":\"%s\",\"counters\":{\"k\":{\"value\":\"%s\"}}}]",
            name(in), amount(in));
    } else {
        bh_buf_addz(b, ",\"devices\":[");
        for (unsigned i = 0, n = take(in, 4); i < n; i++) {
            if (i)
                bh_buf_addc(b, ',');
            device(in, b);
        }
        bh_buf_addc(b, ']');
    }
    bh_buf_addz(b, "}}");
}

static void sub(struct in *in, struct bh_buf *b)
{
    bh_buf_addf(b, "\"deviceClassName\":\"%s\",\"allocationMode\":\"%s\",\"count\":%s",
                PICK(in, "k", "k", "k", "l", ""), PICK(in, "ExactCount", "ExactCount", "All", ""),
                PICK(in, "1", "2", "3", "0", "-1", "33"));
    if (take(in, 3) == 1)
        bh_buf_addf(b, ",\"selectors\":[%s]",
                    PICK(in, "{\"cel\":{\"expression\":\"device.driver == 'd'\"}}",
                         "{\"cel\":{\"expression\":\"device.attributes['d'].x == 1\"}}",
                         "{\"cel\":{\"expression\":\"(\"}}", "{}"));
    if (take(in, 3) == 1)
        bh_buf_addz(b, ",\"tolerations\":[{\"operator\":\"Exists\"}]");
    if (take(in, 3) == 1)
        bh_buf_addf(b, ",\"capacity\":{\"requests\":{\"m\":\"%s\"}}", amount(in));
}

static void claim_spec(struct in *in, struct bh_buf *b)
{
    bh_buf_addz(b, "\"spec\":{\"devices\":{\"requests\":[");
    for (unsigned i = 0, n = take(in, 3); i < n; i++) {
        bh_buf_addf(b, "%s{\"name\":\"r%u\"", i ? "," : "", i);
        if (take(in, 3) != 1) {
            bh_buf_addz(b, ",\"exactly\":{");
            sub(in, b);
            if (take(in, 4) == 1)
                bh_buf_addz(b, ",\"adminAccess\":true");
            bh_buf_addz(b, "}");
        } else if (take(in, 8)) {
            bh_buf_addz(b, ",\"firstAvailable\":[{\"name\":\"u\",");
            sub(in, b);
            bh_buf_addz(b, "},{\"name\":\"v\",");
            sub(in, b);
            bh_buf_addz(b, "}]");
        }
        bh_buf_addc(b, '}');
    }
    bh_buf_addf(b, "],\"constraints\":[%s]}}",
                PICK(in, "", "{\"matchAttribute\":\"d/x\"}",
                     "{\"distinctAttribute\":\"d/y\",\"requests\":[\"r0\"]}",
                     "{\"matchAttribute\":\"\"}", "{}"));
}

static void claim(struct in *in, struct bh_buf *b, bool allocated)
{
    unsigned i = take(in, 4);

    bh_buf_addf(b, "{\"metadata\":{\"name\":\"%s%u\",\"namespace\":\"n\",\"uid\":\"%s%u\"},",
                allocated ? "h" : "c", i, allocated ? "h" : "c", i);
    claim_spec(in, b);
    if (allocated) {
        bh_buf_addz(b, ",\"status\":{\"allocation\":{\"devices\":{\"results\":[");
        for (unsigned k = 0, n = take(in, 3); k < n; k++)
            bh_buf_addf(
                b, "%s{\"request\":\"r\",\"driver\":\"%s\",\"pool\":\"%s\",\"device\":\"%s\"%s}",
                k ? "," : "", PICK(in, "d", "e"), name(in), name(in),
                PICK(in, "", ",\"shareID\":\"s\",\"consumedCapacity\":{\"m\":\"1\"}",
                     ",\"adminAccess\":true"));
        bh_buf_addz(b, "]}}}");
    }
    bh_buf_addc(b, '}');
}

static struct bh_obj *object(const struct bh_kind *k, const struct bh_buf *b)
{
    BH_AUTO_BUF full = {0};

    bh_buf_addf(&full, "{\"kind\":\"%.*s\",\"apiVersion\":\"%.*s\",", BH_SF(k->kind),
                BH_SF(k->api_version));
    bh_buf_add(&full, b->p + 1, b->n - 1);
    return bh_obj_new(k, bh_buf_str(&full), 1, NULL);
}

static struct bh_obj *free_claims[4];

static void put(struct bh_dra_model *m, struct in *in)
{
    BH_AUTO_BUF b = {0};
    BH_AUTO_OBJ *o = NULL;

    switch (take(in, 4)) {
    case 0:
        slice(in, &b);
        o = object(&bh_resource_v1_resource_slice_kind, &b);
        if (o)
            bh_dra_slice_put(m, o);
        break;
    case 1:
        claim(in, &b, true);
        o = object(&bh_resource_v1_resource_claim_kind, &b);
        if (o)
            bh_dra_claim_put(m, o);
        break;
    case 2:
        bh_buf_addf(&b,
                    "{\"metadata\":{\"name\":\"r\"},\"spec\":{%s\"taint\":{\"key\":\"t\","
                    "\"effect\":\"%s\"}}}",
                    PICK(in, "", "\"deviceSelector\":{},",
                         "\"deviceSelector\":{\"driver\":\"d\",\"device\":\"a\"},"),
                    PICK(in, "NoSchedule", "NoExecute", "None"));
        o = object(&bh_resource_v1beta2_device_taint_rule_kind, &b);
        if (o)
            bh_dra_rule_put(m, o);
        break;
    default:
        claim(in, &b, false);
        o = object(&bh_resource_v1_resource_claim_kind, &b);
        if (o) {
            unsigned at = (unsigned)(o->name.p[1] - '0') % 4;

            bh_dra_claim_put(m, o);
            free_claims[at] = bh_obj_unref(free_claims[at]);
            free_claims[at] = bh_obj_ref(o);
        }
    }
}

static void del(struct bh_dra_model *m, struct in *in)
{
    static const char *const slices[] = {"s0", "s1", "s2", "s3", "s4"};
    static const char *const uids[] = {"h0", "h1", "h2", "h3", "c0", "c1", "c2", "c3"};

    switch (take(in, 4)) {
    case 0:
        bh_dra_slice_del(m, bh_s(pick(in, slices, 5)));
        break;
    case 1:
        bh_dra_claim_del(m, bh_s(pick(in, uids, 8)));
        break;
    case 2:
        bh_dra_rule_del(m, BH_S("r"));
        break;
    default:
        bh_dra_unreserve(m, bh_s(pick(in, uids, 8)));
    }
}

static void allocate(struct bh_dra_model *m, struct in *in)
{
    const struct bh_resource_v1_resource_claim *claims[2];
    struct bh_dra_opts opts = {.scoring = (enum bh_dra_scoring)take(in, 3), .steps_max = 2000};
    struct bh_str node = bh_s(PICK(in, "n0", "n1"));
    struct bh_dra_result res;
    struct bh_dra_reasons why;
    struct bh_err err = {0};
    size_t n = 0;
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_dra_ask *q;

    for (unsigned i = take(in, 4); i < 4 && n < 2; i++)
        if (free_claims[i])
            claims[n++] = bh_obj_struct(free_claims[i]);
    q = bh_dra_ask_new(m, claims, n, a);
    switch (bh_dra_allocate(q, node, &opts, a, &res, &err)) {
    case BH_DRA_OK:
        /* Reserving may find the claim reserved already, or books that were over-drawn before;
         * nothing else. */
        for (size_t i = 0; i < n; i++)
            if (bh_dra_reserve(m, claims[i], &res.allocations[i], &err) < 0)
                bh_assert(err.code == BH_E_EXISTS || err.code == BH_E_CONFLICT);
        break;
    default:
        bh_dra_explain(q, &node, 1, a, &why);
        bh_assert(bh_dra_explain_text(&why, BH_S("no"), a).n <= 1024);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct bh_dra_features f = bh_dra_features_all();
    struct in in = {.p = p, .n = n};
    unsigned flags = take(&in, 128);
    struct bh_str_pair label = {BH_S("z"), BH_S("a")};
    struct bh_str_map labels = {&label, 1};
    struct bh_err err = {0};
    struct bh_dra_model *m;
    BH_AUTO_BUF class = {0};
    BH_AUTO_OBJ *o = NULL;

    f.list_attributes = flags & 1;
    f.partitionable_devices = !(flags & 2);
    f.consumable_capacity = !(flags & 4);
    f.compat_counter_leak = flags & 8;
    f.compat_list_narrowing = flags & 16;
    f.strict_distinct = flags & 32;
    m = bh_dra_model_new(&f);
    if (flags & 64)
        m->index_min = m->astray = 0;
    bh_dra_node_put(m, BH_S("n0"), &labels);
    bh_dra_node_put(m, BH_S("n1"), NULL);
    bh_buf_addz(&class, "{\"metadata\":{\"name\":\"k\"},\"spec\":{}}");
    o = object(&bh_resource_v1_device_class_kind, &class);
    bh_assert(o);
    bh_dra_class_put(m, o);
    for (unsigned i = 0; in.n && i < 200; i++)
        switch (take(&in, 4)) {
        case 0:
            del(m, &in);
            break;
        case 1:
            allocate(m, &in);
            break;
        default:
            put(m, &in);
        }
    bh_assert(bh_dra_self_check(m, &err) != -BH_E_INTERNAL);
    m = bh_dra_model_free(m);
    for (size_t i = 0; i < 4; i++)
        free_claims[i] = bh_obj_unref(free_claims[i]);
    return 0;
}
