/* Protobuf messages of protobuf-c in arenas: nothing to free one by one, and a peer cannot make
 * them grow without end. Thread: that of the arena. */
#ifndef BH_NET_PB_H
#define BH_NET_PB_H

#include "base/str.h"

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;

/* Decodes bytes into the arena. NULL when they are malformed or need more memory than the arena may
 * hold: create the arena with a limit (decoded messages take up to a few dozen times their bytes).
 */
void *bh_pb_unpack(struct bh_arena *a, const struct ProtobufCMessageDescriptor *d,
                   struct bh_str bytes);
/* The encoded message, in the arena. msg points to a generated struct (its base comes first). */
struct bh_str bh_pb_pack(struct bh_arena *a, const void *msg);
/* A string field as a view; NULL gives the empty string. Its copy for a field of a message is
 * bh_pb_str(). */
char *bh_pb_str(struct bh_arena *a, struct bh_str s);
/* The same as an array of n fields, plus a valid pointer when n is 0. */
char **bh_pb_strs(struct bh_arena *a, const struct bh_str *s, size_t n);

#endif
