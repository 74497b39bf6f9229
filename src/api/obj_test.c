/* Committed objects from bytes. */
#include "api/gen/core_v1.h"
#include "api/obj_commit.h"
#include "base/buf.h"
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
        err = (struct bh_err){0};
        o = bh_obj_new_decoded(&bh_core_v1_config_map_kind, bh_s(bad[i]), &err);
        if (o || err.code != BH_E_BAD_REQUEST)
            bh_test_fail(__FILE__, __LINE__, "'%s' is a decoded object (%s)", bad[i], err.msg);
        (void)bh_obj_unref(o);
    }
}

/* Read at once or in two steps: the same object. */
BH_TEST(obj_decoded_at_once_is_the_same)
{
    static const char *const json[] = {
        "{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"7\","
        "\"labels\":{\"z\":\"1\",\"b\":\"2\",\"m\":\"\"}},\"data\":{\"k\":\"v\"}}",
        "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"\\u0061\\\"b\","
        "\"resourceVersion\":\"18446744073709551615\"}}",
        "{\"metadata\":{\"name\":\"x\"}}",
        "{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"0\",\"labels\":{}}}",
        "{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"5\",\"deletionTimestamp\":"
        "\"2026-01-01T00:00:00Z\"},\"data\":{}}",
        "{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"5\"},\"data\":7}", /* not of the kind
                                                                                 */
        "{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"5\"},\"more\":[1,{}]}",
    };

    for (size_t i = 0; i < BH_COUNT(json); i++) {
        BH_AUTO_OBJ *a = bh_obj_new(&bh_core_v1_config_map_kind, bh_s(json[i]), 0, NULL);
        BH_AUTO_OBJ *b = bh_obj_new_decoded(&bh_core_v1_config_map_kind, bh_s(json[i]), NULL);
        const struct bh_core_v1_config_map *ca, *cb;

        if (!a || !b) {
            bh_test_fail(__FILE__, __LINE__, "%s is no object", json[i]);
            continue;
        }
        BH_SEQ(b->json, a->json);
        BH_SEQ(b->name, a->name);
        BH_SEQ(b->ns, a->ns);
        BH_SEQ(b->uid, a->uid);
        BH_EQ(b->rv, a->rv);
        BH_EQ(b->deleting, a->deleting);
        BH_EQ(b->labels.n, a->labels.n);
        for (size_t k = 0; k < a->labels.n && k < b->labels.n; k++) {
            BH_SEQ(b->labels.p[k].key, a->labels.p[k].key);
            BH_SEQ(b->labels.p[k].value, a->labels.p[k].value);
        }
        ca = bh_obj_struct(a);
        cb = bh_obj_struct(b);
        BH_SEQ(cb->metadata.name, ca->metadata.name);
        BH_EQ(cb->data.n, ca->data.n);
        bh_obj_shed(b, 1); /* what is borrowed from the struct stays */
        BH_SEQ(b->name, a->name);
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

/* Whether it was decoded before it had its version, or made beside its JSON. */
BH_TEST(a_struct_stays_right_when_its_object_gets_its_version)
{
    const struct bh_str_pair pair = {BH_S("b"), BH_S("two <words>")};
    const struct bh_core_v1_config_map cm = {
        .metadata = {.name = BH_S("some"),
                     .namespace = BH_S("default"),
                     .generate_name = BH_S("so"),
                     .uid = BH_S("8a4e7a2e-0000-4000-8000-000000000000"),
                     .labels = {(struct bh_str_pair *)(uintptr_t)&pair, 1}}};

    for (int made = 0; made < 2; made++) {
        struct bh_image im = {0};
        BH_AUTO_BUF json = {0};
        BH_AUTO_OBJ *o = NULL;
        const struct bh_core_v1_config_map *c;

        bh_obj_encode(&bh_core_v1_config_map_kind, &cm, &json, &im);
        o = bh_obj_new_pending(&bh_core_v1_config_map_kind, bh_buf_str(&json), &cm.metadata,
                               made ? &im : NULL);
        c = bh_obj_struct(o);
        BH_STREQ(c->metadata.name, "some");
        bh_obj_assign(o, 4711);
        BH_CHECK(bh_obj_struct(o) == c);
        BH_STREQ(c->metadata.name, "some");
        BH_STREQ(c->metadata.generate_name, "so");
        BH_STREQ(c->metadata.namespace, "default");
        BH_STREQ(c->metadata.uid, "8a4e7a2e-0000-4000-8000-000000000000");
        BH_STREQ(c->metadata.resource_version, "4711");
        BH_STREQ(c->metadata.labels.p[0].value, "two <words>");
        BH_CHECK(bh_str_find(o->json, BH_S("\"resourceVersion\":\"4711\"")) > 0);
        bh_obj_shed(o, 1);
        BH_STREQ(((const struct bh_core_v1_config_map *)bh_obj_struct(o))->metadata.name, "some");
        bh_image_done(&im);
    }
}
