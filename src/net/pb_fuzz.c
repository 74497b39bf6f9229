/* Any bytes as the messages that plugins send. What can be read is written again, which walks all
 * of it. */
#include "net/pb.h"

#include "base/arena.h"
#include "net/dra.pb-c.h"
#include "net/drahealth.pb-c.h"
#include "net/pluginregistration.pb-c.h"
#include "net/podresources.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &bh__dra__node_prepare_resources_request__descriptor,
        &bh__dra__node_prepare_resources_response__descriptor,
        &bh__dra__node_unprepare_resources_response__descriptor,
        &bh__drahealth__node_watch_resources_response__descriptor,
        &bh__reg__plugin_info__descriptor,
        &bh__reg__registration_status__descriptor,
        &bh__podres__get_pod_resources_request__descriptor,
        &bh__podres__list_pod_resources_response__descriptor,
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        BH_AUTO_ARENA a = bh_arena_new(16u << 20);
        BH_AUTO_ARENA out = bh_arena_new(0);
        void *m = bh_pb_unpack(a, types[i], (struct bh_str){(const char *)p, n});

        if (m)
            (void)bh_pb_pack(out, m);
    }
    return 0;
}
