/* The message deframer and the header values, byte by byte. */
#include "net/grpc_wire.h"

#include "base/arena.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct bh_grpc_deframer d = {0};
    struct bh_str msg, all = {(const char *)p, n};
    BH_AUTO_ARENA a = bh_arena_new(0);
    int64_t ns;

    for (size_t i = 0; i < n; i++) {
        struct bh_str in = {(const char *)p + i, 1};
        int r = 0;

        while (in.n > 0 && (r = bh_grpc_deframe(&d, &in, &msg, NULL)) > 0)
            ;
        if (r < 0)
            break;
    }
    bh_grpc_deframer_done(&d);
    (void)!bh_grpc_timeout_parse(all, &ns);
    if (n < 4096)
        bh_assert(bh_str_eq(bh_grpc_message_decode(a, bh_grpc_message_encode(a, all)), all));
    return 0;
}
