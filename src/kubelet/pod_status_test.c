/* The status of a pod from what the runtime knows: a table of situations. */
#include <stdio.h>
#include <string.h>

#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "base/buf.h"
#include "base/test.h"
#include "kubelet/kubelet_int.h"

static const struct bh_runtime_ops fake_ops = {.name = "test", .version = "1"};
static struct bh_runtime fake_rt = {&fake_ops};
static char root[] = "/nonexistent";

static struct bh_obj *pod(const char *spec)
{
    BH_AUTO_BUF b = {0};
    struct bh_err err = {0};
    struct bh_obj *o;

    bh_buf_addf(&b,
                "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\","
                "\"namespace\":\"n\",\"uid\":\"u\","
                "\"resourceVersion\":\"5\",\"generation\":3},\"spec\":{\"nodeName\":\"vm\",%s}}",
                spec);
    o = bh_obj_new(&bh_core_v1_pod_kind, bh_buf_str(&b), 0, &err);
    if (!o)
        bh_test_fail(__FILE__, __LINE__, "%s", err.msg);
    return o;
}

static struct bh_cri_container container(const char *name, enum bh_cri_container_state state,
                                         int exit_code, uint32_t attempt)
{
    return (struct bh_cri_container){.name = bh_s(name),
                                     .id = bh_s(name),
                                     .state = state,
                                     .exit_code = exit_code,
                                     .attempt = attempt,
                                     .started_ns = 1000000000,
                                     .finished_ns = state == BH_CRI_EXITED ? 2000000000 : 0};
}

static struct bh_core_v1_pod_status make(struct bh_arena *a, struct bh_obj *o,
                                         struct bh_cri_container *c, size_t n, bool terminal)
{
    static struct bh_kubelet k = {.rt = &fake_rt, .root = root, .node_ip = root};
    static const struct bh_cri_sandbox ready = {.state = BH_CRI_SANDBOX_READY};
    struct bh_cri_container_vec v = {c, n};
    struct bh_core_v1_pod_status st = {0};
    struct pod_status_in in = {.kubelet = &k,
                               .pod = o,
                               .sandbox = &ready,
                               .containers = &v,
                               .terminal = terminal,
                               .now = {1000, 0}};

    pod_status_make(a, &in, &st);
    return st;
}

static const char *condition_of(const struct bh_core_v1_pod_status *st, const char *type)
{
    for (size_t i = 0; i < st->conditions.n; i++)
        if (bh_str_eqc(st->conditions.p[i].type, type))
            return bh_str_eqc(st->conditions.p[i].status, "True") ? "True" : "False";
    return "";
}

#define TWO "\"containers\":[{\"name\":\"a\"},{\"name\":\"b\"}]"

BH_TEST(pod_status_phase_follows_the_containers)
{
    static const struct {
        const char *policy;
        enum bh_cri_container_state a, b;
        int exit_a, exit_b;
        bool terminal;
        const char *phase, *ready;
    } t[] = {
        {"Always", BH_CRI_RUNNING, BH_CRI_RUNNING, 0, 0, false, "Running", "True"},
        {"Always", BH_CRI_RUNNING, BH_CRI_CREATED, 0, 0, false, "Pending", "False"},
        {"Always", BH_CRI_RUNNING, BH_CRI_EXITED, 0, 1, false, "Running", "False"},
        {"Always", BH_CRI_EXITED, BH_CRI_EXITED, 0, 0, false, "Running",
         "False"}, /* both will start again */
        {"Never", BH_CRI_EXITED, BH_CRI_EXITED, 0, 0, false, "Succeeded", "False"},
        {"Never", BH_CRI_EXITED, BH_CRI_EXITED, 0, 3, false, "Failed", "False"},
        {"Never", BH_CRI_RUNNING, BH_CRI_EXITED, 0, 3, false, "Running", "False"},
        {"OnFailure", BH_CRI_EXITED, BH_CRI_EXITED, 0, 0, false, "Succeeded", "False"},
        {"OnFailure", BH_CRI_EXITED, BH_CRI_EXITED, 0, 1, false, "Running", "False"},
        {"Always", BH_CRI_EXITED, BH_CRI_EXITED, 0, 0, true, "Succeeded", "False"},
        {"Always", BH_CRI_EXITED, BH_CRI_EXITED, 0, 137, true, "Failed", "False"},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_obj *o = pod(bh_str_fmt(a, "\"restartPolicy\":\"%s\"," TWO, t[i].policy).p);
        struct bh_cri_container c[] = {container("a", t[i].a, t[i].exit_a, 0),
                                       container("b", t[i].b, t[i].exit_b, 0)};
        struct bh_core_v1_pod_status st = make(a, o, c, 2, t[i].terminal);

        BH_STREQ(st.phase, t[i].phase);
        BH_STREQ(bh_s(condition_of(&st, "Ready")), t[i].ready);
        BH_EQ(st.observed_generation, 3);
        (void)bh_obj_unref(o);
    }
}

BH_TEST(pod_status_init_containers_come_first)
{
    static const char spec[] = "\"restartPolicy\":\"Never\",\"initContainers\":[{\"name\":\"i\"}],"
                               "\"containers\":[{\"name\":\"a\"}]";
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_obj *o = pod(spec);
    struct bh_cri_container c[2];
    struct bh_core_v1_pod_status st = make(a, o, c, 0, false);

    BH_STREQ(st.phase, "Pending");
    BH_STREQ(st.container_statuses.p[0].state.waiting->reason, "PodInitializing");
    BH_STREQ(bh_s(condition_of(&st, "Initialized")), "False");
    c[0] = container("i", BH_CRI_EXITED, 0, 0);
    c[1] = container("a", BH_CRI_RUNNING, 0, 0);
    st = make(a, o, c, 2, false);
    BH_STREQ(st.phase, "Running");
    BH_STREQ(bh_s(condition_of(&st, "Initialized")), "True");
    BH_CHECK(st.init_container_statuses.p[0].ready);
    c[0].exit_code = 1; /* may not be repeated: the pod has failed */
    st = make(a, o, c, 1, false);
    BH_STREQ(st.phase, "Failed");
    (void)bh_obj_unref(o);
}

BH_TEST(pod_status_tells_the_run_before)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_obj *o = pod("\"restartPolicy\":\"Always\",\"containers\":[{\"name\":\"a\"}]");
    struct bh_cri_container c[] = {container("a", BH_CRI_EXITED, 7, 0),
                                   container("a", BH_CRI_RUNNING, 0, 1)};
    struct bh_core_v1_pod_status st = make(a, o, c, 2, false);

    BH_EQ(st.container_statuses.p[0].restart_count, 1);
    BH_CHECK(st.container_statuses.p[0].state.running != NULL);
    BH_CHECK(st.container_statuses.p[0].last_state.terminated != NULL);
    BH_EQ(st.container_statuses.p[0].last_state.terminated->exit_code, 7);
    BH_STREQ(st.container_statuses.p[0].last_state.terminated->reason, "Error");
    (void)bh_obj_unref(o);
}

BH_TEST(pod_qos_by_requests_and_limits)
{
    static const struct {
        const char *resources, *want;
    } t[] = {
        {"{}", "BestEffort"},
        {"{\"requests\":{\"cpu\":\"1\"}}", "Burstable"},
        {"{\"limits\":{\"cpu\":\"1\",\"memory\":\"1Gi\"},\"requests\":{\"cpu\":\"1\",\"memory\":"
         "\"1Gi\"}}",
         "Guaranteed"},
        {"{\"limits\":{\"cpu\":\"1\",\"memory\":\"1Gi\"},\"requests\":{\"cpu\":\"1000m\","
         "\"memory\":\"1024Mi\"}}",
         "Guaranteed"},
        {"{\"limits\":{\"cpu\":\"2\",\"memory\":\"1Gi\"},\"requests\":{\"cpu\":\"1\",\"memory\":"
         "\"1Gi\"}}",
         "Burstable"},
        {"{\"limits\":{\"cpu\":\"1\"}}", "Burstable"},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_obj *o = pod(
            bh_str_fmt(a, "\"containers\":[{\"name\":\"a\",\"resources\":%s}]", t[i].resources).p);

        BH_STREQ(bh_s(pod_qos(bh_obj_struct(o))), t[i].want);
        (void)bh_obj_unref(o);
    }
}

BH_TEST(pod_restart_rules_win_over_the_policy)
{
    static const char spec[] =
        "\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"a\",\"restartPolicy\":\"Never\","
        "\"restartPolicyRules\":"
        "[{\"action\":\"Restart\",\"exitCodes\":{\"operator\":\"In\",\"values\":[42]}}]}]";
    struct bh_obj *o = pod(spec);
    const struct bh_core_v1_pod *p = bh_obj_struct(o);
    struct bh_cri_container c = container("a", BH_CRI_EXITED, 42, 0);

    BH_CHECK(pod_should_restart(p, &p->spec.containers.p[0], false, &c));
    c.exit_code = 1;
    BH_CHECK(!pod_should_restart(p, &p->spec.containers.p[0], false, &c));
    (void)bh_obj_unref(o);
}
