/* Foreign bytes as an answer, as a list and as a watch in pieces of every size. */
#include "client/client_wire.h"

#include "api/gen/core_v1.h"
#include "base/arena.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void answer(struct bh_str body)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_client_res res = {0};
    struct bh_wire_seen seen = {0};

    bh_wire_list(a, &bh_core_v1_pod_kind, body, &res);
    for (size_t i = 0; i < res.items_n; i++)
        (void)bh_obj_unref(res.items[i]);
    for (int i = 0; i < 2; i++)
        (void)bh_obj_unref(bh_wire_object(a, &bh_core_v1_pod_kind, &seen, body));
    bh_wire_seen_done(&seen);
    res = (struct bh_client_res){0};
    bh_client_status(a, 400, body, &res);
    bh_assert(res.err.code != BH_OK);
}

static void watch(struct bh_str bytes, size_t piece)
{
    struct bh_lines l = {.buf = {.max = 4096}};
    struct bh_wire_seen seen = {0};
    struct bh_str line;

    for (size_t at = 0; at < bytes.n && !l.buf.overflow; at += piece) {
        bh_lines_feed(&l, bh_str_sub(bytes, at, at + piece));
        while (bh_lines_next(&l, &line)) {
            struct bh_wire_event ev = {0};
            struct bh_err err = {0};
            int r = bh_wire_event(&bh_core_v1_pod_kind, &seen, line, &ev, &err);

            bh_assert(r >= 0 ? err.code == BH_OK : err.code == (enum bh_code) - r);
            (void)bh_obj_unref(ev.obj);
        }
    }
    bh_buf_done(&l.buf);
    bh_wire_seen_done(&seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct bh_str body = {(const char *)data + 1, n - 1};

    if (n == 0)
        return 0;
    if (data[0] & 1)
        answer(body);
    else
        watch(body, (size_t)(data[0] >> 1) + 1);
    return 0;
}
