/* Committed objects from bytes. */
#include "api/gen/core_v1.h"
#include "api/obj.h"
#include "base/test.h"

BH_TEST(obj_refuses_what_is_no_object)
{
    static const char *const bad[] = {"",
                                      "[]",
                                      "[{}]",
                                      "null",
                                      "5",
                                      "\"x\"",
                                      "{",
                                      "{}",
                                      "{\"metadata\":[]}",
                                      "{\"metadata\":null}",
                                      "{\"metadata\":{}} x",
                                      "{\"metadata\":{\"labels\":{\"a\":1}}}"};

    for (size_t i = 0; i < BH_COUNT(bad); i++) {
        struct bh_err err = {0};
        struct bh_obj *o = bh_obj_new(&bh_core_v1_config_map_kind, bh_s(bad[i]), 1, &err);

        if (o || err.code != BH_E_BAD_REQUEST)
            bh_test_fail(__FILE__, __LINE__, "'%s' is an object (%s)", bad[i], err.msg);
        (void)bh_obj_unref(o);
    }
}

BH_TEST(obj_tells_its_version)
{
    BH_AUTO_OBJ *o =
        bh_obj_new(&bh_core_v1_config_map_kind,
                   BH_S("{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"7\"}}"), 12, NULL);

    BH_CHECK(o != NULL);
    BH_EQ(o->rv, 12);
    BH_STREQ(o->json, "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"12\"}}");
}
