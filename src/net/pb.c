/* protobuf-c with arenas as its allocator. */
#include "net/pb.h"

#include <protobuf-c/protobuf-c.h>
#include <string.h>

#include "base/arena.h"

static void *pb_alloc(void *arena, size_t n)
{
    return bh_arena_try(arena, n);
}
static void pb_free(void *arena, void *p)
{
    (void)arena;
    (void)p;
}

void *bh_pb_unpack(struct bh_arena *a, const struct ProtobufCMessageDescriptor *d,
                   struct bh_str bytes)
{
    ProtobufCAllocator al = {pb_alloc, pb_free, a};

    return protobuf_c_message_unpack(d, &al, bytes.n, (const uint8_t *)(bytes.p ? bytes.p : ""));
}

struct bh_str bh_pb_pack(struct bh_arena *a, const void *msg)
{
    size_t n = protobuf_c_message_get_packed_size(msg);
    uint8_t *p = bh_arena_alloc(a, n);

    return (struct bh_str){(const char *)p, protobuf_c_message_pack(msg, p)};
}

char *bh_pb_str(struct bh_arena *a, struct bh_str s)
{
    char *p = bh_arena_alloc(a, s.n + 1);

    if (s.n > 0)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return p;
}

char **bh_pb_strs(struct bh_arena *a, const struct bh_str *s, size_t n)
{
    char **p = bh_arena_alloc_n(a, n + 1, sizeof(*p));

    for (size_t i = 0; i < n; i++)
        p[i] = bh_pb_str(a, s[i]);
    return p;
}
