/* Any bytes as a health policy. */
#include "driver/health_policy.h"

#include "base/arena.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_health_policy out;
    int64_t hold;

    if (bh_health_policy_parse(a, (struct bh_str){(const char *)p, n}, &out, NULL) == 0)
        (void)bh_health_policy_effect(&out, 79, &hold);
    return 0;
}
