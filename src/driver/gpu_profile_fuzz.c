/* Any bytes as a profile file. */
#include "driver/gpu_profile.h"

#include "base/arena.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_gpu_profile out;

    (void)!bh_gpu_profile_load(a, (struct bh_str){(const char *)p, n}, 0, BH_S("n"), &out, NULL);
    return 0;
}
