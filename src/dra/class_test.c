/* Device classes. */
#include <stdio.h>

#include "base/test.h"
#include "dra/dra_world_test.h"

BH_TEST(extended_resources)
{
    struct world w;
    const struct {
        const char *name, *ext, *created;
    } classes[] = {{"a", "example.com/gpu", "2026-01-01T00:00:00Z"},
                   {"b", "example.com/gpu", "2026-01-02T00:00:00Z"},
                   {"c", "example.com/gpu", "2026-01-02T00:00:00Z"}};

    world_init(&w, NULL);
    for (size_t i = 0; i < BH_COUNT(classes); i++) {
        char text[512];

        (void)snprintf(text, sizeof(text),
                       "{kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: %s, "
                       "creationTimestamp: '%s'}, spec: {extendedResourceName: %s}}",
                       classes[i].name, classes[i].created, classes[i].ext);
        world_yaml(&w, text);
    }
    BH_STREQ(bh_dra_class_of_resource(w.m, BH_S("example.com/gpu")), "b");
    BH_STREQ(bh_dra_class_of_resource(w.m, BH_S("deviceclass.resource.kubernetes.io/c")), "c");
    bh_dra_class_del(w.m, BH_S("b"));
    BH_STREQ(bh_dra_class_of_resource(w.m, BH_S("example.com/gpu")), "c");
    bh_dra_class_del(w.m, BH_S("c"));
    bh_dra_class_del(w.m, BH_S("a"));
    BH_EQ(bh_dra_class_of_resource(w.m, BH_S("example.com/gpu")).n, 0);
    world_done(&w);
}
