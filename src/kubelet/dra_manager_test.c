/* Claims of pods against a driver that misbehaves: registration, prepare, release, restart, health,
 * PodResources. */
#include "kubelet/dra_manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../tests/fake_api.h"
#include "api/gen/core_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/fs.h"
#include "base/test.h"
#include "client/client.h"
#include "kubelet/fake_driver_test.h"
#include "kubelet/plugin_watcher.h"
#include "kubelet/podresources.h"
#include "net/grpc.h"
#include "net/loop.h"
#include "net/pb.h"
#include "net/podresources.pb-c.h"

#define SLICES "/apis/resource.k8s.io/v1/resourceslices"
#define CLAIMS "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
#define ALLOCATED                                                                                  \
    "\"allocation\":{\"devices\":{\"results\":[{\"request\":\"a\",\"driver\":\"fake.example."      \
    "com\",\"pool\":\"n1\","                                                                       \
    "\"device\":\"gpu-0\"},{\"request\":\"b\",\"driver\":\"fake.example.com\",\"pool\":\"n1\","    \
    "\"device\":\"gpu-1\"}]}}"

struct fix {
    struct bh_loop *l;
    struct bh_fake_api *api;
    struct bh_client *client;
    struct bh_plugin_watcher *w;
    struct bh_dra_manager *m;
    struct fake_driver d;
    char dir[64], state[96];
    struct bh_obj *pods[2]; /* p1 and p2; both use claim c1 */
    int done, timeout_ms, grace_ms;
    char err[600];
    int health_calls;
    bool active;
    bool answered;
    enum bh_grpc_status status;
    struct bh_buf body;
};

static void pause_over(void *arg)
{
    bh_loop_stop(arg);
}

static void run_ms(struct fix *f, int ms)
{
    struct bh_timer t;

    bh_timer_init(&t, f->l, pause_over, f->l);
    bh_timer_start(&t, ms);
    bh_loop_run(f->l);
}

#define UNTIL(f, cond)                                                                             \
    do {                                                                                           \
        int bh_n = 0;                                                                              \
        while (!(cond) && bh_n++ < 5000)                                                           \
            run_ms((f), 2);                                                                        \
        BH_CHECK(cond);                                                                            \
    } while (0)

static bool pod_active(void *arg, struct bh_str uid)
{
    (void)uid;
    return ((struct fix *)arg)->active;
}

static void health_changed(void *arg, struct bh_str uid)
{
    (void)uid;
    ((struct fix *)arg)->health_calls++;
}

static void manager_start(struct fix *f)
{
    struct bh_dra_manager_opts o = {.client = f->client,
                                    .root = f->dir,
                                    .node = "n1",
                                    .pod_active = pod_active,
                                    .health_changed = health_changed,
                                    .arg = f,
                                    .call_timeout_ms = f->timeout_ms,
                                    .grace_ms = f->grace_ms};
    char dir[128];
    struct bh_err e = {0};

    (void)snprintf(dir, sizeof(dir), "%s/plugins_registry", f->dir);
    f->w = bh_plugin_watcher_new(f->l, dir, &e);
    o.watcher = f->w;
    f->m = bh_dra_manager_new(f->l, &o, &e);
    if (!f->w || !f->m)
        bh_test_fail(__FILE__, __LINE__, "%s", e.msg);
}

static void manager_stop(struct fix *f)
{
    f->m = bh_dra_manager_free(f->m);
    f->w = bh_plugin_watcher_free(f->w);
    run_ms(f, 10);
}

static struct bh_obj *pod_new(const char *name, const char *uid)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_err e = {0};
    struct bh_obj *o = bh_obj_new(
        &bh_core_v1_pod_kind,
        bh_str_fmt(
            a,
            "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\",\"namespace\":"
            "\"default\","
            "\"uid\":\"%s\",\"resourceVersion\":\"5\"},\"spec\":{\"resourceClaims\":[{\"name\":"
            "\"gpus\","
            "\"resourceClaimName\":\"c1\"}],\"containers\":["
            "{\"name\":\"one\",\"image\":\"i\",\"resources\":{\"claims\":[{\"name\":\"gpus\","
            "\"request\":\"a\"}]}},"
            "{\"name\":\"both\",\"image\":\"i\",\"resources\":{\"claims\":[{\"name\":\"gpus\"}]}},"
            "{\"name\":\"none\",\"image\":\"i\"}]},\"status\":{}}",
            name, uid),
        0, &e);

    if (!o)
        bh_test_fail(__FILE__, __LINE__, "%s", e.msg);
    return o;
}

static void claim_put(struct fix *f, const char *uid, const char *status)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    bh_fake_api_put(
        f->api, CLAIMS "/c1",
        bh_str_fmt(
            a,
            "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{"
            "\"name\":\"c1\",\"namespace\":\"default\",\"uid\":\"%s\"},\"spec\":{\"devices\":{}},"
            "\"status\":{%s}}",
            uid, status)
            .p);
}

#define RESERVED                                                                                   \
    ALLOCATED ",\"reservedFor\":[{\"resource\":\"pods\",\"name\":\"p1\",\"uid\":\"pod-1\"},{"      \
              "\"resource\":\"pods\","                                                             \
              "\"name\":\"p2\",\"uid\":\"pod-2\"}]"

static void fix_init(struct fix *f)
{
    char kubeconfig[128];

    memset(f, 0, sizeof(*f));
    f->active = true;
    f->timeout_ms = 1500; /* long for a busy machine, short for a test */
    f->grace_ms = 1500;
    f->l = bh_loop_new_real(NULL);
    f->api = bh_fake_api_new(f->l);
    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/bh-dra-XXXXXX");
    BH_CHECK(mkdtemp(f->dir) != NULL);
    (void)snprintf(f->state, sizeof(f->state), "%s/dra_manager_state", f->dir);
    (void)snprintf(kubeconfig, sizeof(kubeconfig), "%s/kubeconfig", f->dir);
    bh_fake_api_kubeconfig(f->api, kubeconfig);
    f->client = bh_client_new_kubeconfig(f->l, kubeconfig, "test", NULL);
    BH_CHECK(f->client != NULL);
    claim_put(f, "claim-1", RESERVED);
    f->pods[0] = pod_new("p1", "pod-1");
    f->pods[1] = pod_new("p2", "pod-2");
    manager_start(f);
    fake_driver_init(&f->d, f->l, f->dir);
}

static void fix_done(struct fix *f)
{
    manager_stop(f);
    fake_driver_stop(&f->d);
    f->client = bh_client_free(f->client);
    f->api = bh_fake_api_free(f->api);
    run_ms(f, 20);
    (void)bh_obj_unref(f->pods[0]);
    (void)bh_obj_unref(f->pods[1]);
    bh_buf_done(&f->body);
    f->l = bh_loop_free(f->l);
    BH_EQ(bh_fs_remove_tree(f->dir, NULL), 0);
}

static void op_done(void *arg, const struct bh_err *err)
{
    struct fix *f = arg;

    f->done++;
    (void)snprintf(f->err, sizeof(f->err), "%s", err ? err->msg : "");
}

static const char *prepare(struct fix *f, size_t pod)
{
    int before = f->done;

    (void)bh_dra_prepare(f->m, f->pods[pod], op_done, f);
    UNTIL(f, f->done > before);
    return f->err;
}

static const char *unprepare(struct fix *f, const char *uid)
{
    int before = f->done;

    (void)bh_dra_unprepare(f->m, bh_s(uid), op_done, f);
    UNTIL(f, f->done > before);
    return f->err;
}

static size_t cdi(struct fix *f, size_t container, char *buf, size_t n)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(f->pods[0]);
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str_vec v = {0};
    struct bh_err e = {0};

    if (bh_dra_cdi_devices(f->m, f->pods[0], &p->spec.containers.p[container], a, &v, &e) < 0) {
        (void)snprintf(buf, n, "%.300s", e.msg);
        return 0;
    }
    buf[0] = '\0';
    for (size_t i = 0; i < v.n; i++)
        (void)snprintf(buf + strlen(buf), n - strlen(buf), "%s%.*s", i > 0 ? " " : "",
                       BH_SF(v.p[i]));
    return v.n;
}

static void registered(struct fix *f)
{
    fake_driver_start(&f->d);
    UNTIL(f, f->d.notifies > 0);
    UNTIL(f, f->d.health != NULL); /* connected, too */
}

BH_TEST(dra_prepare_and_release)
{
    struct fix f;
    char buf[400];

    fix_init(&f);
    f.d.watch_file = f.state;
    registered(&f);
    BH_CHECK(bh_dra_pod_needs(f.pods[0]));
    BH_EQ(cdi(&f, 0, buf, sizeof(buf)), 0);
    BH_STREQ(bh_s(prepare(&f, 0)), "");
    BH_EQ(f.d.prepares, 1);
    /* What is held was on disk before the driver was asked. */
    BH_CHECK(bh_str_find(bh_buf_str(&f.d.watch_content), BH_S("claim-1")) > 0);
    BH_CHECK(bh_str_find(bh_buf_str(&f.d.watch_content), BH_S("pod-1")) > 0);
    BH_EQ(cdi(&f, 0, buf, sizeof(buf)), 1);
    BH_STREQ(bh_s(buf), "fake.example.com/claim=claim-1-gpu-0");
    BH_EQ(cdi(&f, 1, buf, sizeof(buf)), 2);
    BH_EQ(cdi(&f, 2, buf, sizeof(buf)), 0);
    BH_STREQ(bh_s(buf), "");
    BH_STREQ(bh_s(prepare(&f, 0)), ""); /* again: nothing to do */
    BH_EQ(f.d.prepares, 1);

    manager_stop(&f); /* a restart: nobody prepares, everything is known */
    f.d.notifies = 0;
    manager_start(&f);
    UNTIL(&f, f.d.notifies > 0);
    BH_EQ(cdi(&f, 1, buf, sizeof(buf)), 2);
    BH_CHECK(bh_dra_pod_holds(f.m, BH_S("pod-1")));
    BH_EQ(f.d.prepares, 1);
    BH_STREQ(bh_s(prepare(&f, 1)),
             ""); /* a second pod: asked again, devices replaced, not doubled */
    BH_EQ(f.d.prepares, 2);
    BH_EQ(cdi(&f, 1, buf, sizeof(buf)), 2);

    BH_STREQ(bh_s(unprepare(&f, "pod-1")), "");
    BH_EQ(f.d.unprepares, 0); /* still used */
    BH_CHECK(!bh_dra_pod_holds(f.m, BH_S("pod-1")));
    BH_STREQ(bh_s(unprepare(&f, "pod-2")), "");
    BH_EQ(f.d.unprepares, 1);
    BH_STREQ(bh_s(unprepare(&f, "pod-2")), "");
    BH_EQ(f.d.unprepares, 1);
    fix_done(&f);
}

BH_TEST(dra_misbehaving_driver) /* costs a failed call each time, and nothing else */
{
    static const struct {
        enum fake_mode mode;
        const char *want;
    } cases[] = {
        {FAKE_HANG, "code = DeadlineExceeded"},
        {FAKE_RUBBISH, "sent a malformed answer"},
        {FAKE_UNKNOWN_UID, "NodePrepareResources returned result for unknown claim UID nobody"},
        {FAKE_SKIP, "NodePrepareResources skipped 1 ResourceClaims"},
        {FAKE_CLAIM_ERROR, "NodePrepareResources failed for ResourceClaim c1: no such device"},
        {FAKE_RPC_ERROR, "code = Internal desc = out of order"},
        {FAKE_DIE, "code = Unavailable"},
    };
    struct fix f;

    fix_init(&f);
    registered(&f);
    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        struct bh_str err;

        f.d.mode = cases[i].mode;
        err = bh_s(prepare(&f, 0));
        if (bh_str_find(err, bh_s(cases[i].want)) < 0)
            bh_test_fail(__FILE__, __LINE__, "case %zu: %.*s", i, BH_SF(err));
        BH_CHECK(bh_str_starts(err, BH_S("prepare dynamic resources: ")));
        if (f.d.held && f.d.srv) {
            bh_grpc_call_finish(f.d.held, BH_GRPC_UNAVAILABLE, "late");
            f.d.held = NULL;
        }
    }
    f.d.mode = FAKE_GOOD; /* the driver is back: the pod's next try works */
    fake_driver_start_service(&f.d);
    UNTIL(&f, f.d.health != NULL);
    BH_STREQ(bh_s(prepare(&f, 0)), "");
    f.d.mode = FAKE_RPC_ERROR; /* a release that fails is tried again, the claim stays */
    BH_CHECK(unprepare(&f, "pod-1")[0] != '\0');
    BH_CHECK(bh_dra_pod_holds(f.m, BH_S("pod-1")));
    f.d.mode = FAKE_GOOD;
    BH_STREQ(bh_s(unprepare(&f, "pod-1")), "");
    fix_done(&f);
}

BH_TEST(dra_claims_that_may_not_be_used)
{
    struct fix f;

    fix_init(&f);
    BH_CHECK(strstr(prepare(&f, 0), "DRA driver fake.example.com is not registered") != NULL);
    BH_CHECK(!bh_dra_pod_holds(f.m, BH_S("pod-1"))); /* found before anything was noted */
    registered(&f);
    claim_put(&f, "claim-1", ALLOCATED);
    BH_CHECK(strstr(prepare(&f, 0),
                    "pod p1 (pod-1) is not allowed to use ResourceClaim c1 (claim-1)") != NULL);
    claim_put(&f, "claim-1",
              "\"reservedFor\":[{\"resource\":\"pods\",\"name\":\"p1\",\"uid\":\"pod-1\"}]");
    BH_CHECK(strstr(prepare(&f, 0), "ResourceClaim c1: not allocated") != NULL);
    claim_put(&f, "claim-1", RESERVED);
    BH_STREQ(bh_s(prepare(&f, 0)), "");
    claim_put(&f, "claim-2", RESERVED); /* deleted and made again under the old name */
    BH_CHECK(strstr(prepare(&f, 1), "different UID claim-1 still exists") != NULL);
    BH_STREQ(bh_s(unprepare(&f, "pod-1")), "");
    BH_STREQ(bh_s(prepare(&f, 1)), "");
    BH_STREQ(bh_s(unprepare(&f, "pod-2")), "");
    bh_fake_api_del(f.api, CLAIMS "/c1");
    BH_CHECK(strstr(prepare(&f, 0), "fetch ResourceClaim c1") != NULL);
    fix_done(&f);
}

BH_TEST(dra_release_waits_for_prepare) /* a pod that is deleted while its driver works */
{
    struct fix f;
    int before;

    fix_init(&f);
    registered(&f);
    f.d.mode = FAKE_HANG;
    before = f.done;
    (void)bh_dra_prepare(f.m, f.pods[0], op_done, &f);
    UNTIL(&f, f.d.held != NULL);
    (void)bh_dra_unprepare(f.m, BH_S("pod-1"), op_done, &f);
    run_ms(&f, 50);
    BH_EQ(f.done, before);
    f.d.mode = FAKE_GOOD;
    UNTIL(&f,
          f.done == before + 2); /* prepare ends at its deadline, then the release goes through */
    BH_EQ(f.d.unprepares, 1);
    BH_CHECK(!bh_dra_pod_holds(f.m, BH_S("pod-1")));
    fix_done(&f);
}

BH_TEST(dra_driver_is_deregistered_while_it_works) /* whoever waits for its answer is told */
{
    struct fix f;
    int before;

    fix_init(&f);
    registered(&f);
    f.d.mode = FAKE_HANG;
    before = f.done;
    (void)bh_dra_prepare(f.m, f.pods[0], op_done, &f);
    UNTIL(&f, f.d.held != NULL);
    BH_EQ(unlink(f.d.reg), 0);
    UNTIL(&f, f.done == before + 1);
    BH_CHECK(strstr(f.err, "the driver was deregistered") != NULL);
    fix_done(&f);
}

/* The agent dies while a driver works: nothing more is written, nothing in memory survives. */
static void die_and_come_back(struct fix *f)
{
    manager_stop(f);
    if (f->d.held)
        bh_grpc_call_finish(f->d.held, BH_GRPC_UNAVAILABLE, "too late");
    f->d.held = NULL;
    f->d.mode = FAKE_GOOD;
    f->d.notifies = 0;
    manager_start(f);
    UNTIL(f, f->d.notifies > 0);
    run_ms(f, 20);
}

BH_TEST(dra_agent_dies_between_steps)
{
    struct fix f;
    char buf[400];

    fix_init(&f);
    registered(&f);
    f.d.mode = FAKE_HANG; /* in the middle of a prepare */
    (void)bh_dra_prepare(f.m, f.pods[0], op_done, &f);
    UNTIL(&f, f.d.held != NULL);
    die_and_come_back(&f);
    BH_CHECK(bh_dra_pod_holds(f.m, BH_S("pod-1"))); /* whatever the driver has done can be undone */
    BH_EQ(cdi(&f, 1, buf, sizeof(buf)), 0);
    BH_STREQ(bh_s(prepare(&f, 0)), "");
    BH_EQ(cdi(&f, 1, buf, sizeof(buf)), 2);
    f.d.mode = FAKE_HANG; /* in the middle of a release */
    (void)bh_dra_unprepare(f.m, BH_S("pod-1"), op_done, &f);
    UNTIL(&f, f.d.held != NULL);
    die_and_come_back(&f);
    BH_CHECK(bh_dra_pod_holds(f.m, BH_S("pod-1")));
    BH_STREQ(bh_s(unprepare(&f, "pod-1")), "");
    BH_CHECK(!bh_dra_pod_holds(f.m, BH_S("pod-1")));
    fix_done(&f);
}

BH_TEST(dra_clean_up_after_force_deletion)
{
    struct fix f;

    fix_init(&f);
    registered(&f);
    BH_STREQ(bh_s(prepare(&f, 0)), "");
    f.active = false;
    bh_dra_sources_ready(f.m);
    UNTIL(&f, f.d.unprepares == 1);
    UNTIL(&f, !bh_dra_pod_holds(f.m, BH_S("pod-1")));
    fix_done(&f);
}

BH_TEST(dra_clean_up_waits_for_the_driver)
{
    struct fix f;

    fix_init(&f);
    registered(&f);
    BH_STREQ(bh_s(prepare(&f, 0)), "");
    fake_driver_stop(&f.d);
    manager_stop(&f);
    f.active = false;
    manager_start(&f);
    bh_dra_sources_ready(f.m); /* a first try, while nobody can release anything */
    run_ms(&f, 50);
    BH_CHECK(bh_dra_pod_holds(f.m, BH_S("pod-1")));
    registered(&f); /* not a minute later */
    UNTIL(&f, !bh_dra_pod_holds(f.m, BH_S("pod-1")));
    fix_done(&f);
}

BH_TEST(dra_corrupt_checkpoint_is_quarantined)
{
    struct fix f;
    char aside[128];

    fix_init(&f);
    registered(&f);
    BH_STREQ(bh_s(prepare(&f, 0)), "");
    manager_stop(&f);
    BH_EQ(bh_fs_write_plain(f.state, BH_S("{\"Data\":\"{}\",\"Checksum\":1}"), 0600, NULL), 0);
    manager_start(&f);
    BH_CHECK(!bh_dra_pod_holds(f.m, BH_S("pod-1")));
    (void)snprintf(aside, sizeof(aside), "%s.corrupt-0", f.state);
    BH_CHECK(bh_fs_exists(aside));
    fix_done(&f);
}

BH_TEST(dra_checkpoint_is_upstreams) /* written by hand as upstream writes it, with its checksum */
{
    static const char text[] = "{\"Data\":\"{\\\"kind\\\":\\\"DRACheckpoint\\\",\\\"apiVersion\\\":"
                               "\\\"checkpoint.dra.kubelet.k8s.io/v1\\\","
                               "\\\"ClaimInfoStateList\\\":null}\",\"Checksum\":4010664294}";
    struct fix f;
    BH_AUTO_BUF b = {0};

    fix_init(&f);
    BH_EQ(bh_fs_read(f.state, 1 << 20, &b, NULL), 0);
    BH_STREQ(bh_buf_str(&b), text);
    fix_done(&f);
}

BH_TEST(dra_slices_of_a_lost_driver) /* withdrawn after the grace, once; not at all when it comes
                                        back in time */
{
    struct fix f;
    size_t n = 0;
    struct bh_str q;

    fix_init(&f);
    bh_fake_api_put(
        f.api, SLICES "/s1",
        "{\"kind\":\"ResourceSlice\",\"apiVersion\":\"resource.k8s.io/"
        "v1\",\"metadata\":{\"name\":\"s1\"},"
        "\"spec\":{\"driver\":\"fake.example.com\",\"nodeName\":\"n1\",\"pool\":{\"name\":\"n1\","
        "\"generation\":1,\"resourceSliceCount\":1}}}");
    registered(&f);
    fake_driver_stop_service(&f.d);
    run_ms(&f, 150);
    fake_driver_start_service(&f.d);
    run_ms(&f, 2500); /* also longer than the grace at the kubelet's start */
    (void)bh_fake_api_wipes(f.api, &n);
    BH_EQ(n, 0);
    BH_EQ(bh_fake_api_count(f.api, SLICES), 1);
    fake_driver_stop(&f.d);
    UNTIL(&f, bh_fake_api_count(f.api, SLICES) == 0);
    run_ms(&f, 1000);
    q = bh_fake_api_wipes(f.api, &n);
    BH_EQ(n, 1);
    BH_STREQ(q, "spec.nodeName=n1,spec.driver=fake.example.com");
    fix_done(&f);
}

BH_TEST(
    dra_slices_left_by_an_earlier_life) /* no driver registers within the grace after the start */
{
    struct fix f;

    fix_init(&f);
    bh_fake_api_put(
        f.api, SLICES "/s1",
        "{\"kind\":\"ResourceSlice\",\"apiVersion\":\"resource.k8s.io/"
        "v1\",\"metadata\":{\"name\":\"s1\"},"
        "\"spec\":{\"driver\":\"gone.example.com\",\"nodeName\":\"n1\",\"pool\":{\"name\":\"n1\","
        "\"generation\":1,\"resourceSliceCount\":1}}}");
    run_ms(&f, 200);
    BH_EQ(bh_fake_api_count(f.api, SLICES), 1);
    UNTIL(&f, bh_fake_api_count(f.api, SLICES) == 0);
    fix_done(&f);
}

BH_TEST(plugin_registration_refusals)
{
    static const struct {
        const char *type;
        const char *versions[2];
        const char *want;
    } cases[] = {
        {"FooPlugin", {"v1.DRAPlugin", NULL}, "no handler registered for plugin type: FooPlugin"},
        {"DRAPlugin", {NULL, NULL}, "empty list of supported gRPC services"},
        {"DRAPlugin", {"v1alpha4.DRAPlugin", NULL}, "none of services supported"},
    };

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        struct fix f;

        fix_init(&f);
        f.d.type = cases[i].type;
        f.d.versions[0] = cases[i].versions[0];
        f.d.versions[1] = NULL;
        fake_driver_start(&f.d);
        UNTIL(&f, f.d.refusals > 0);
        BH_CHECK(strstr(f.d.refusal, cases[i].want) != NULL);
        BH_EQ(f.d.notifies, 0);
        fix_done(&f);
    }
}

BH_TEST(plugin_that_refuses_to_know) /* deregistered again and tried once more */
{
    struct fix f;

    fix_init(&f);
    f.d.refuse_notify = true;
    fake_driver_start(&f.d);
    UNTIL(&f, f.d.notifies > 0);
    run_ms(&f, 50);
    BH_CHECK(strstr(prepare(&f, 0), "is not registered") != NULL);
    f.d.refuse_notify = false;
    UNTIL(&f, f.d.notifies > 1);
    UNTIL(&f, f.d.health != NULL);
    BH_STREQ(bh_s(prepare(&f, 0)), "");
    fix_done(&f);
}

BH_TEST(plugin_sockets_that_are_ignored)
{
    struct fix f;
    char path[128];

    fix_init(&f);
    (void)snprintf(f.d.reg, sizeof(f.d.reg), "%s/plugins_registry/.tmp.sock", f.dir);
    (void)snprintf(path, sizeof(path), "%s/plugins_registry/file-reg.sock", f.dir);
    run_ms(&f, 20);
    BH_EQ(bh_fs_write_plain(path, BH_S("x"), 0600, NULL), 0);
    fake_driver_start(&f.d);
    run_ms(&f, 1300);
    BH_EQ(f.d.infos, 0);
    fake_driver_stop(&f.d);
    (void)snprintf(path, sizeof(path), "%s/plugins_registry/dir-reg.sock",
                   f.dir); /* a directory: looked into */
    (void)snprintf(f.d.reg, sizeof(f.d.reg), "%s/plugins_registry/dir-reg.sock/in.sock", f.dir);
    BH_EQ(bh_fs_mkdir_p(path, 0755, NULL), 0);
    registered(&f);
    fix_done(&f);
}

static void health_of(struct fix *f, char *buf, size_t n)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(f->pods[0]);
    struct bh_core_v1_resource_status_vec v;
    BH_AUTO_ARENA a = bh_arena_new(0);

    bh_dra_container_health(f->m, f->pods[0], &p->spec.containers.p[0], a, &v);
    (void)snprintf(buf, n, "-");
    if (v.n == 1 && v.p[0].resources.n == 1)
        (void)snprintf(buf, n, "%.*s %.*s %.*s %.*s", BH_SF(v.p[0].name),
                       BH_SF(v.p[0].resources.p[0].resource_id),
                       BH_SF(v.p[0].resources.p[0].health), BH_SF(v.p[0].resources.p[0].message));
}

BH_TEST(dra_health)
{
    struct fix f;
    char buf[2000], big[2001];

    fix_init(&f);
    registered(&f);
    BH_STREQ(bh_s(prepare(&f, 0)), "");
    health_of(&f, buf, sizeof(buf));
    BH_STREQ(bh_s(buf), "claim:gpus/a fake.example.com/claim=claim-1-gpu-0 Unknown ");
    fake_driver_health(&f.d, "gpu-0", true, "");
    UNTIL(&f, f.health_calls == 1);
    health_of(&f, buf, sizeof(buf));
    BH_STREQ(bh_s(buf), "claim:gpus/a fake.example.com/claim=claim-1-gpu-0 Healthy ");
    fake_driver_health(&f.d, "gpu-0", true, ""); /* nothing new */
    fake_driver_health(&f.d, "gpu-9", false, "not ours");
    run_ms(&f, 50);
    BH_EQ(f.health_calls, 1);
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    fake_driver_health(&f.d, "gpu-0", false, big);
    UNTIL(&f, f.health_calls == 2);
    health_of(&f, buf, sizeof(buf));
    BH_CHECK(strstr(buf, "Unhealthy xxx") != NULL);
    BH_CHECK(bh_str_ends(bh_s(buf), BH_S("xxx...")));
    BH_EQ(strlen(strstr(buf, "xxx")), 1024);
    fake_driver_stop_service(
        &f.d); /* the stream ends: nobody knows any more, and the pods are told */
    UNTIL(&f, f.health_calls == 3);
    health_of(&f, buf, sizeof(buf));
    BH_CHECK(strstr(buf, "Unknown") != NULL);
    fix_done(&f);
}

/* ---- PodResources ---- */

static struct bh_obj *next_pod(void *arg, size_t *it)
{
    struct fix *f = arg;

    return *it < 2 ? f->pods[(*it)++] : NULL;
}

static void answered(void *arg, const struct bh_grpc_result *res)
{
    struct fix *f = arg;

    f->answered = true;
    f->status = res->status;
    bh_buf_clear(&f->body);
    bh_buf_adds(&f->body, res->status == BH_GRPC_OK ? res->body : res->message);
}

static void call(struct fix *f, struct bh_grpc_client *cl, const char *method, struct bh_str msg)
{
    f->answered = false;
    (void)bh_grpc_unary(cl, method, msg, 5000, answered, f);
    UNTIL(f, f->answered);
}

static int limited;

static void count_limited(void *arg, const struct bh_grpc_result *res)
{
    struct fix *f = arg;

    f->done++;
    limited += res->status == BH_GRPC_RESOURCE_EXHAUSTED;
}

BH_TEST(podresources_list_get_and_limit)
{
    struct fix f;
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_podresources_opts o = {.next_pod = next_pod, .arg = &f};
    struct bh_podresources *p;
    struct bh_grpc_client_opts co = {.backoff_min_ms = 5};
    struct bh_grpc_client *cl;
    const Bh__Podres__ListPodResourcesResponse *res;
    const Bh__Podres__ContainerResources *c;
    char target[160];

    fix_init(&f);
    registered(&f);
    BH_STREQ(bh_s(prepare(&f, 0)), "");
    o.root = f.dir;
    o.dra = f.m;
    p = bh_podresources_new(f.l, &o, NULL);
    BH_CHECK(p != NULL);
    (void)snprintf(target, sizeof(target), "unix:%s/pod-resources/kubelet.sock", f.dir);
    co.target = target;
    cl = bh_grpc_client_new(f.l, &co);
    call(&f, cl, "/v1.PodResourcesLister/List", (struct bh_str){NULL, 0});
    BH_EQ(f.status, BH_GRPC_OK);
    res =
        bh_pb_unpack(a, &bh__podres__list_pod_resources_response__descriptor, bh_buf_str(&f.body));
    BH_CHECK(res && res->n_pod_resources == 2 && res->pod_resources[0]->n_containers == 3);
    c = res->pod_resources[0]->containers[1];
    BH_EQ(c->n_dynamic_resources, 1);
    BH_STREQ(bh_s(c->dynamic_resources[0]->claim_name), "c1");
    BH_EQ(c->dynamic_resources[0]->n_claim_resources, 2);
    BH_STREQ(bh_s(c->dynamic_resources[0]->claim_resources[1]->device_name), "gpu-1");
    BH_EQ(c->dynamic_resources[0]->claim_resources[1]->n_cdi_devices, 1);
    BH_CHECK(c->dynamic_resources[0]->claim_resources[1]->share_id == NULL);
    call(&f, cl, "/v1.PodResourcesLister/Get", BH_S("\n\3p12\0")); /* not a message */
    BH_EQ(f.status, BH_GRPC_INVALID_ARGUMENT);
    call(&f, cl, "/v1.PodResourcesLister/Get", BH_S("\n\2p9\022\7default"));
    BH_EQ(f.status, BH_GRPC_UNKNOWN);
    BH_STREQ(bh_buf_str(&f.body), "pod p9 in namespace default not found");
    call(&f, cl, "/v1alpha1.PodResourcesLister/List", (struct bh_str){NULL, 0});
    BH_EQ(f.status, BH_GRPC_OK);
    run_ms(&f, 150); /* the bucket fills */
    f.done = 0;
    limited = 0;
    for (int i = 0; i < 30; i++)
        (void)bh_grpc_unary(cl, "/v1.PodResourcesLister/List", (struct bh_str){NULL, 0}, 5000,
                            count_limited, &f);
    UNTIL(&f, f.done == 30);
    BH_CHECK(limited >= 10 && limited <= 20);
    (void)bh_grpc_client_free(cl);
    (void)bh_podresources_free(p);
    fix_done(&f);
}
