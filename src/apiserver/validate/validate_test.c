/* The rules by examples: JSON in; causes, JSON or warnings out. */
#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "apiserver/validate/validate.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/test.h"

#include <stdio.h>
#include <string.h>

#define POD_HEAD                                                                                   \
    "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\"},\"spec\":{\"containers\":[{\"name\":"      \
    "\"c\",\"image\":\"i\""
#define CLAIM_HEAD                                                                                 \
    "{\"metadata\":{\"name\":\"w\",\"namespace\":\"n\"},\"spec\":{\"devices\":{\"requests\":["

struct fixture {
    struct bh_arena *a;
    struct bh_rules_env env;
    struct bh_field_errs errs;
};

static struct fixture begin(void)
{
    struct fixture f = {.a = bh_arena_new(0)};

    f.env.a = f.a;
    f.env.now.sec = 1700000000;
    f.env.api_version = BH_S("v1");
    f.env.verb = BH_S("create");
    f.errs.a = f.a;
    return f;
}

static void *decoded(struct fixture *f, const struct bh_kind *k, const char *json)
{
    struct bh_err err = {0};
    void *obj = NULL;

    if (bh_kind_decode_json(k, bh_s(json), f->a, &obj, NULL, &err) < 0)
        bh_test_fail(__FILE__, __LINE__, "no valid example: %s", json);
    return obj;
}

/* As a create runs, up to the store. */
static void *created(struct fixture *f, const struct bh_kind *k, const char *json)
{
    void *obj = decoded(f, k, json);

    f->errs.n = 0;
    if (!obj)
        return NULL;
    bh_rules_default(&f->env, k, obj);
    bh_rules_prepare_create(&f->env, k, obj);
    bh_rules_validate_create(&f->env, k, obj, &f->errs);
    return obj;
}

static void update(struct fixture *f, const struct bh_kind *k, const char *sub, void *obj,
                   const void *old)
{
    f->errs.n = 0;
    bh_rules_default(&f->env, k, obj);
    bh_rules_prepare_update(&f->env, k, bh_s(sub), obj, old);
    bh_rules_validate_update(&f->env, k, bh_s(sub), obj, old, &f->errs);
}

/* "field: message" of each error, a line each. */
static struct bh_str told(const struct fixture *f)
{
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < f->errs.n; i++)
        bh_buf_addf(&b, "%s%.*s: %.*s", i ? "\n" : "", BH_SF(f->errs.p[i].field),
                    BH_SF(f->errs.p[i].body));
    return bh_str_dup(f->a, bh_buf_str(&b));
}

BH_TEST(rules_default_and_accept_a_pod)
{
    struct fixture f = begin();
    struct bh_core_v1_pod *p = created(&f, &bh_core_v1_pod_kind, POD_HEAD "}]}}");

    BH_STREQ(told(&f), "");
    BH_STREQ(p->spec.restart_policy, "Always");
    BH_STREQ(p->spec.containers.p[0].image_pull_policy, "Always");
    BH_STREQ(p->status.phase, "Pending");
    BH_STREQ(p->status.qos_class, "BestEffort");
    BH_EQ(p->metadata.generation, 1);
    bh_arena_free(f.a);
}

BH_TEST(rules_copy_limits_to_requests)
{
    struct fixture f = begin();
    struct bh_core_v1_pod *p =
        created(&f, &bh_core_v1_pod_kind,
                POD_HEAD ",\"resources\":{\"limits\":{\"cpu\":\"2\",\"memory\":\"1Gi\"}}}]}}");
    const struct bh_str *cpu =
        bh_str_map_get(&p->spec.containers.p[0].resources.requests, BH_S("cpu"));

    BH_CHECK(cpu && bh_str_eqc(*cpu, "2"));
    BH_STREQ(p->status.qos_class, "Guaranteed");
    bh_arena_free(f.a);
}

BH_TEST(rules_refuse_a_bad_pod)
{
    static const struct {
        const char *json, *want;
    } cases[] = {
        {"{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\"},\"spec\":{}}",
         "spec.containers: Required value"},
        {POD_HEAD "},{\"name\":\"c\",\"image\":\"i\"}]}}",
         "spec.containers[1].name: Duplicate value: \"c\""},
        {POD_HEAD ",\"ports\":[{\"containerPort\":0}]}]}}",
         "spec.containers[0].ports[0].containerPort: Required value"},
        {POD_HEAD ",\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"/x\"}]}]}}",
         "spec.containers[0].volumeMounts[0].name: Not found: \"v\""},
        {POD_HEAD ",\"resources\":{\"requests\":{\"cpu\":\"2\"},\"limits\":{\"cpu\":\"1\"}}}]}}",
         "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal "
         "to cpu limit of 1"},
        {POD_HEAD ",\"resources\":{\"claims\":[{\"name\":\"x\"}]}}]}}",
         "spec.containers[0].resources.claims[0]: Not found: \"x\": must be one of the names in "
         "pod.spec.resourceClaims which is empty"},
    };

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        struct fixture f = begin();

        (void)created(&f, &bh_core_v1_pod_kind, cases[i].json);
        BH_STREQ(told(&f), cases[i].want);
        bh_arena_free(f.a);
    }
}

BH_TEST(rules_keep_a_pod_as_it_is)
{
    struct fixture f = begin();
    const struct bh_kind *k = &bh_core_v1_pod_kind;
    struct bh_core_v1_pod *old = created(&f, k, POD_HEAD "}]}}"), *p;

    old->metadata.resource_version = BH_S("1");
    p = bh_msg_dup(k->type, old, f.a);
    p->spec.containers.p[0].image = BH_S("other");
    update(&f, k, "", p, old);
    BH_STREQ(told(&f), "");
    BH_EQ(p->metadata.generation, 2);

    p = bh_msg_dup(k->type, old, f.a);
    p->spec.node_name = BH_S("node-1");
    update(&f, k, "", p, old);
    BH_EQ(f.errs.n, 1);

    /* A status write leaves the spec alone, and a spec write the status. */
    p = bh_msg_dup(k->type, old, f.a);
    p->spec.node_name = BH_S("node-1");
    p->status.phase = BH_S("Running");
    update(&f, k, "status", p, old);
    BH_STREQ(told(&f), "");
    BH_STREQ(p->spec.node_name, "");
    BH_STREQ(p->status.phase, "Running");
    p = bh_msg_dup(k->type, old, f.a);
    p->status.phase = BH_S("Running");
    update(&f, k, "", p, old);
    BH_STREQ(p->status.phase, "Pending");
    bh_arena_free(f.a);
}

BH_TEST(rules_warn_of_what_is_not_meant)
{
    struct fixture f = begin();
    struct bh_str_vec out = {NULL, 0};
    void *p = created(
        &f, &bh_core_v1_pod_kind,
        POD_HEAD ",\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"A\",\"value\":\"2\"}]}],"
                 "\"nodeSelector\":{\"beta.kubernetes.io/os\":\"linux\"}}}");

    bh_rules_warnings(&f.env, &bh_core_v1_pod_kind, BH_S(""), p, NULL, &out);
    BH_EQ(out.n, 2);
    if (out.n == 2) {
        BH_STREQ(out.p[0], "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "
                           "\"kubernetes.io/os\" "
                           "instead");
        BH_STREQ(out.p[1], "spec.containers[0].env[1]: hides previous definition of \"A\", which "
                           "may be dropped when "
                           "using apply");
    }
    out.n = 0;
    bh_rules_warnings(&f.env, &bh_core_v1_pod_kind, BH_S(""), p, p, &out);
    BH_EQ(out.n, 0);
    bh_arena_free(f.a);
}

BH_TEST(rules_warn_of_a_taint_on_every_device)
{
    static const struct {
        const char *annotations, *selector, *effect;
        size_t warnings;
    } t[] = {
        {"", "\"deviceSelector\":{},", "NoExecute", 1},
        {"", "\"deviceSelector\":{},", "NoSchedule", 0},
        {"", "\"deviceSelector\":{\"driver\":\"a.test\"},", "NoExecute", 0},
        {"", "", "NoExecute", 0},
        {"\"bulkhead.dev/confirm-all-devices\":\"yes\"", "\"deviceSelector\":{},", "NoExecute", 1},
        {"\"bulkhead.dev/confirm-all-devices\":\"true\"", "\"deviceSelector\":{},", "NoExecute", 0},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct fixture f = begin();
        struct bh_str_vec out = {NULL, 0};
        void *p = created(&f, &bh_resource_v1beta2_device_taint_rule_kind,
                          bh_str_fmt(f.a,
                                     "{\"metadata\":{\"name\":\"r\",\"annotations\":{%s}},"
                                     "\"spec\":{%s\"taint\":{\"key\":\"k\",\"effect\":\"%s\"}}}",
                                     t[i].annotations, t[i].selector, t[i].effect)
                              .p);

        bh_rules_warnings(&f.env, &bh_resource_v1beta2_device_taint_rule_kind, BH_S(""), p, NULL,
                          &out);
        BH_EQ(out.n, t[i].warnings);
        bh_arena_free(f.a);
    }
}

BH_TEST(rules_of_claims)
{
    static const struct {
        const char *json, *want;
    } cases[] = {
        {CLAIM_HEAD "{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}}]}}}", ""},
        {CLAIM_HEAD "{\"name\":\"r\"}]}}}", "spec.devices.requests[0]: Required value: exactly one "
                                            "of `exactly` or `firstAvailable` is required"},
        {CLAIM_HEAD "{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\",\"allocationMode\":"
                    "\"All\",\"count\":2}}]}}}",
         "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when "
         "allocationMode is 'All'"},
        {CLAIM_HEAD "{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\",\"count\":-1}}]}}}",
         "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero"},
    };

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        struct fixture f = begin();
        const struct bh_resource_v1_resource_claim *c =
            created(&f, &bh_resource_v1_resource_claim_kind, cases[i].json);

        BH_STREQ(told(&f), cases[i].want);
        if (i == 0) {
            BH_STREQ(c->spec.devices.requests.p[0].exactly->allocation_mode, "ExactCount");
            BH_EQ(c->spec.devices.requests.p[0].exactly->count, 1);
        }
        bh_arena_free(f.a);
    }
}

BH_TEST(rules_keep_the_spec_of_a_claim)
{
    struct fixture f = begin();
    const struct bh_kind *k = &bh_resource_v1_resource_claim_kind;
    struct bh_resource_v1_resource_claim *old =
        created(&f, k, CLAIM_HEAD "{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}}]}}}");
    struct bh_resource_v1_resource_claim *c = bh_msg_dup(k->type, old, f.a);

    old->metadata.resource_version = c->metadata.resource_version = BH_S("1");
    c->spec.devices.requests.p[0].exactly->count = 2;
    update(&f, k, "", c, old);
    BH_EQ(f.errs.n, 1);
    BH_CHECK(f.errs.n == 1 && bh_str_eqc(f.errs.p[0].field, "spec"));
    bh_arena_free(f.a);
}

/* Everything but one subresource of claims at the cluster scope, and of drivers only this verb. */
static bool may_part(void *arg, const struct bh_rules_access *q, char *reason, size_t reason_n)
{
    (void)reason, (void)reason_n;
    if (bh_str_eqc(q->subresource, "binding"))
        return q->ns.n || q->name.n; /* what a RoleBinding would grant */
    return bh_str_eqc(q->verb, arg);
}

#define RESULT                                                                                     \
    "\"allocation\":{\"devices\":{\"results\":[{\"request\":\"r\",\"driver\":\"d.io\",\"pool\":"   \
    "\"p\",\"device\":\"a\"}]},\"nodeSelector\":{\"nodeSelectorTerms\":[{\"matchFields\":[{"       \
    "\"key\":"                                                                                     \
    "\"metadata.name\",\"operator\":\"In\",\"values\":[\"oak\"]}]}]}}"
#define CLAIM_R CLAIM_HEAD "{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}}]}}"

/* A25, A26: who may write the status of claims may not write everything in it. */
BH_TEST(rules_ask_who_changes_a_claims_status)
{
    static const struct {
        const char *node, *old, *new, *field;
    } t[] = {
        {"oak", "", RESULT, "status.allocation"},
        {"oak", RESULT,
         RESULT ",\"devices\":[{\"driver\":\"d.io\",\"pool\":\"p\",\"device\":\"a\"}]", NULL},
        {"elm", RESULT,
         RESULT ",\"devices\":[{\"driver\":\"d.io\",\"pool\":\"p\",\"device\":\"a\"}]",
         "status.devices"},
    };
    const struct bh_kind *k = &bh_resource_v1_resource_claim_kind;

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct fixture f = begin();
        struct bh_resource_v1_resource_claim *old =
            decoded(&f, k, bh_str_fmt(f.a, CLAIM_R ",\"status\":{%s}}", t[i].old).p);
        struct bh_resource_v1_resource_claim *c =
            decoded(&f, k, bh_str_fmt(f.a, CLAIM_R ",\"status\":{%s}}", t[i].new).p);

        old->metadata.resource_version = c->metadata.resource_version = BH_S("1");
        f.env.allowed = may_part;
        f.env.arg = (void *)(uintptr_t) "associated-node:update";
        f.env.verb = BH_S("update");
        f.env.user_name = BH_S("system:serviceaccount:d:driver");
        f.env.user_node = bh_s(t[i].node);
        f.errs.n = 0;
        update(&f, k, "status", c, old);
        BH_EQ(f.errs.n, t[i].field ? 1 : 0);
        BH_CHECK(!t[i].field || !f.errs.n || bh_str_eqc(f.errs.p[0].field, t[i].field));
        bh_arena_free(f.a);
    }
}

BH_TEST(rules_judge_names)
{
    static const char *const bad[] = {"Upper", "under_score", "-dash", "a..b", ""};
    struct fixture f = begin();

    for (size_t i = 0; i < BH_COUNT(bad); i++) {
        char json[128];

        (void)snprintf(json, sizeof(json), "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"n\"}}",
                       bad[i]);
        (void)created(&f, &bh_core_v1_config_map_kind, json);
        BH_CHECK(f.errs.n > 0 && bh_str_eqc(f.errs.p[0].field, "metadata.name"));
    }
    bh_arena_free(f.a);
}

#define PV_HEAD                                                                                    \
    "{\"metadata\":{\"name\":\"v\"},\"spec\":{\"accessModes\":[\"ReadWriteOnce\"],\"capacity\":{"  \
    "\"storage\":\"1Gi\"},"
#define PVC_HEAD                                                                                   \
    "{\"metadata\":{\"name\":\"c\",\"namespace\":\"n\"},\"spec\":{\"accessModes\":["               \
    "\"ReadWriteOnce\"],\"resources\":{\"requests\":{\"storage\":\"1Gi\"}}"

BH_TEST(rules_of_volumes)
{
    static const struct {
        const char *json, *told;
    } all[] = {
        {PV_HEAD "\"hostPath\":{\"path\":\"/x\"}}}", ""},
        {PV_HEAD "\"nfs\":{\"server\":\"s\",\"path\":\"/p\"},\"hostPath\":{\"path\":\"/x\"}}}",
         "spec.nfs: Forbidden: may not specify more than 1 volume type"},
        {PV_HEAD "\"local\":{\"path\":\"/a/../b\"}}}",
         "spec.local.path: Invalid value: \"/a/../b\": must not contain '..'\n"
         "spec.nodeAffinity: Required value: Local volume requires node affinity"},
        {PV_HEAD "\"csi\":{\"driver\":\"d\",\"volumeHandle\":\"\"}}}",
         "spec.csi.volumeHandle: Required value"},
        {PV_HEAD
         "\"hostPath\":{\"path\":\"/a/..\"},\"persistentVolumeReclaimPolicy\":\"Recycle\"}}",
         "spec.hostPath.path: Invalid value: \"/a/..\": must not contain '..'\n"
         "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount "
         "of '/'"},
    };
    struct fixture f = begin();

    for (size_t i = 0; i < BH_COUNT(all); i++) {
        const struct bh_core_v1_persistent_volume *v =
            created(&f, &bh_core_v1_persistent_volume_kind, all[i].json);

        BH_STREQ(told(&f), all[i].told);
        BH_STREQ(v->status.phase, "Pending");
        BH_STREQ(v->spec.volume_mode, "Filesystem");
        BH_EQ(v->status.last_phase_transition_time.sec, f.env.now.sec);
    }
    bh_arena_free(f.a);
}

BH_TEST(rules_keep_the_spec_of_a_volume_claim)
{
    struct fixture f = begin();
    const struct bh_kind *k = &bh_core_v1_persistent_volume_claim_kind;
    struct bh_core_v1_persistent_volume_claim *old = created(&f, k, PVC_HEAD "}}"), *c;
    struct bh_str_map *asked;

    BH_STREQ(told(&f), "");
    BH_STREQ(old->status.phase, "Pending");
    old->metadata.resource_version = BH_S("1");
    c = bh_msg_dup(k->type, old, f.a); /* a volume and a class may be given, once */
    c->spec.volume_name = BH_S("v");
    c->spec.has_storage_class_name = true;
    c->spec.storage_class_name = BH_S("s");
    update(&f, k, "", c, old);
    BH_STREQ(told(&f), "");
    old = c;
    c = bh_msg_dup(k->type, old, f.a);
    c->spec.volume_name = BH_S("w");
    update(&f, k, "", c, old);
    BH_EQ(f.errs.n, 1);
    BH_CHECK(bh_str_starts(told(&f), BH_S("spec: Forbidden: spec is immutable after creation")));
    /* A bound one may grow, and shrink to what it has. */
    old->status.phase = BH_S("Bound");
    c = bh_msg_dup(k->type, old, f.a);
    asked = &c->spec.resources.requests;
    bh_str_map_put(f.a, asked, BH_S("storage"), BH_S("2Gi"));
    update(&f, k, "", c, old);
    BH_STREQ(told(&f), "");
    bh_str_map_put(f.a, &old->status.capacity, BH_S("storage"), BH_S("1Gi"));
    bh_str_map_put(f.a, asked, BH_S("storage"), BH_S("1Mi"));
    update(&f, k, "", c, old);
    BH_STREQ(told(&f), "spec.resources.requests.storage: Forbidden: field can not be less than "
                       "status.capacity");
    bh_arena_free(f.a);
}

BH_TEST(both_fields_of_a_claims_source_say_the_same)
{
    struct fixture f = begin();
    const struct bh_kind *k = &bh_core_v1_persistent_volume_claim_kind;
    const struct bh_core_v1_persistent_volume_claim *c =
        created(&f, k,
                PVC_HEAD ",\"dataSource\":{\"kind\":\"PersistentVolumeClaim\",\"name\":"
                         "\"x\"}}}");

    BH_CHECK(c->spec.data_source_ref && bh_str_eqc(c->spec.data_source_ref->name, "x"));
    c = created(&f, k, PVC_HEAD ",\"dataSource\":{\"kind\":\"Other\",\"name\":\"x\"}}}");
    BH_CHECK(!c->spec.data_source && !c->spec.data_source_ref);
    BH_STREQ(told(&f), "");
    bh_arena_free(f.a);
}

static bool every_gate(void *arg, struct bh_str name)
{
    (void)arg;
    (void)name;
    return true;
}

BH_TEST(rules_of_what_devices_take_of_their_node)
{
    static const char was[] =
        POD_HEAD "}],\"resourceClaims\":[{\"name\":\"d\",\"resourceClaimName\":\"a\"}]}%s}";
    struct fixture f = begin();
    struct bh_core_v1_pod *old, *p;

    f.env.gate = every_gate;
    old = created(&f, &bh_core_v1_pod_kind, bh_str_fmt(f.a, was, "").p);
    old->metadata.resource_version = BH_S("1");
    for (int i = 0; i < 2; i++) {
        p = decoded(&f, &bh_core_v1_pod_kind,
                    bh_str_fmt(f.a, was,
                               i ? ",\"status\":{\"nodeAllocatableResourceClaimStatuses\":[{"
                                   "\"resourceClaimName\":\"a\",\"containers\":[\"c\"],"
                                   "\"resources\":{\"cpu\":\"2\",\"hugepages-2Mi\":\"4Mi\"}}]}"
                                 : ",\"status\":{\"nodeAllocatableResourceClaimStatuses\":[{"
                                   "\"resourceClaimName\":\"b\",\"resources\":{\"cpu\":\"-1\","
                                   "\"example.com/x\":\"1\"}},{}]}")
                        .p);
        p->metadata.resource_version = BH_S("1");
        update(&f, &bh_core_v1_pod_kind, "status", p, old);
#define AT "status.nodeAllocatableResourceClaimStatuses"
        BH_STREQ(told(&f),
                 i ? ""
                   : AT "[0].resourceClaimName: Invalid value: \"b\": no mapping found in pod "
                        "reference\n" AT "[0].containers: Required value: must not be empty\n" AT
                        "[0].resources[cpu]: Invalid value: \"-1\": must be non-negative\n" AT
                        "[0].resources[example.com/x]: Invalid value: \"example.com/x\": must be a "
                        "node allocatable resource name\n" AT
                        "[1].resourceClaimName: Required value: must not be empty\n" AT
                        "[1].resourceClaimName: Invalid value: \"\": no mapping found in pod "
                        "reference\n" AT "[1].containers: Required value: must not be empty\n" AT
                        "[1].resources: Required value: must not be empty");
#undef AT
    }
    bh_arena_free(f.a);
}

BH_TEST(gates_have_their_defaults)
{
    BH_CHECK(bh_gate_known(BH_S("DRADeviceTaints")));
    BH_CHECK(bh_gate_default(BH_S("DRADeviceTaintRules")));
    BH_CHECK(!bh_gate_default(BH_S("NoSuchGate")));
    BH_CHECK(!bh_gate_known(BH_S("NoSuchGate")));
}
