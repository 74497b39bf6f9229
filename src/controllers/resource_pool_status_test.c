/* Requests for the state of pools are answered once. */
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1alpha3.h"
#include "base/arena.h"
#include "base/test.h"
#include "controllers/cluster_test.h"

#define REQUEST (&bh_resource_v1alpha3_resource_pool_status_request_kind)

static void ask(struct tc *t, const char *name, const char *more)
{
    (void)world_make(
        &t->w, REQUEST, "",
        tc_fmt(t, "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"driver\":\"d\"%s}}", name, more));
    tc_run(t, 100);
}

static const struct bh_resource_v1alpha3_resource_pool_status_request_status *told(struct tc *t,
                                                                                   const char *name)
{
    const struct bh_obj *o = world_get(&t->w, REQUEST, "", name);

    return o ? ((const struct bh_resource_v1alpha3_resource_pool_status_request *)bh_obj_struct(o))
                   ->status
             : NULL;
}

BH_TEST(pool_request_is_answered_with_what_is_there)
{
    const struct bh_resource_v1alpha3_resource_pool_status_request_status *s;
    struct tc t;

    tc_open(&t, "resourcepoolstatusrequest-controller");
    tc_node(&t, "n1");
    tc_node(&t, "n2");
    tc_slice(&t, "n1", 4, "[{\"key\":\"k\",\"effect\":\"NoExecute\"}]");
    tc_slice(&t, "n2", 2, "[{\"key\":\"k\",\"effect\":\"None\"}]");
    tc_claim(&t, "default", "c", "n1", "d1", NULL);
    ask(&t, "all", "");
    s = told(&t, "all");
    if (!s || s->pools.n != 2) {
        bh_test_fail(__FILE__, __LINE__, "no answer");
    } else {
        BH_EQ(s->pool_count, 2);
        BH_STREQ(s->pools.p[0].pool_name, "n1");
        BH_STREQ(s->pools.p[0].node_name, "n1");
        BH_EQ(s->pools.p[0].total_devices, 4);
        BH_EQ(s->pools.p[0].allocated_devices, 1);
        BH_EQ(s->pools.p[0].unavailable_devices, 1);
        BH_EQ(s->pools.p[0].available_devices, 2);
        BH_EQ(s->pools.p[0].resource_slice_count, 1);
        BH_EQ(s->pools.p[1].unavailable_devices, 0);
        BH_EQ(s->pools.p[1].available_devices, 2);
        BH_STREQ(s->conditions.p[0].type, "Complete");
        BH_STREQ(s->conditions.p[0].message, "Calculated status for 2 pools");
    }
    ask(&t, "one", ",\"limit\":1");
    s = told(&t, "one");
    BH_CHECK(s && s->pools.n == 1 && s->pool_count == 2);
    ask(&t, "named", ",\"poolName\":\"n2\"");
    s = told(&t, "named");
    BH_CHECK(s && s->pools.n == 1 && s->pool_count == 1 &&
             bh_str_eqc(s->pools.p[0].pool_name, "n2"));
    tc_close(&t);
}

BH_TEST(pool_request_waits_for_missing_slices_and_goes_in_time)
{
    static const char slice[] =
        "{\"metadata\":{\"name\":\"s%d\"},\"spec\":{\"driver\":\"d\",\"allNodes\":true,"
        "\"pool\":{\"name\":\"p\",\"generation\":1,\"resourceSliceCount\":2},\"devices\":"
        "[{\"name\":\"d%d\"}]}}";
    const struct bh_resource_v1alpha3_resource_pool_status_request_status *s;
    struct tc t;

    tc_open(&t, "resourcepoolstatusrequest-controller");
    (void)world_make(&t.w, SLICE, "", tc_fmt(&t, slice, 0, 0));
    ask(&t, "r", "");
    tc_run(&t, 60000);
    BH_CHECK(told(&t, "r") == NULL);
    (void)world_make(&t.w, SLICE, "", tc_fmt(&t, slice, 1, 0));
    tc_run(&t, 100);
    s = told(&t, "r");
    BH_CHECK(s && s->pools.n == 1 && s->pools.p[0].has_validation_error &&
             !s->pools.p[0].has_total_devices);
    tc_run(&t, 59 * 60 * 1000);
    BH_CHECK(told(&t, "r") != NULL);
    tc_run(&t, 12 * 60 * 1000);
    BH_CHECK(told(&t, "r") == NULL);
    tc_close(&t);
}
