/* Protocol Buffers wire format: reading and writing fields. No schema, no allocation in the reader.
 * Thread: any. */
#ifndef BH_DATA_PBWIRE_H
#define BH_DATA_PBWIRE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum bh_pb_type {
    BH_PB_VARINT = 0,
    BH_PB_I64 = 1,
    BH_PB_LEN = 2,
    BH_PB_SGROUP = 3,
    BH_PB_EGROUP = 4,
    BH_PB_I32 = 5
};

#define BH_PB_DEPTH_MAX                                                                            \
    100 /* nesting of messages and groups; upstream's own decoders allow 100 or 10000 */

struct bh_pb_rd {
    const uint8_t *p, *end;
};

struct bh_pb_field {
    uint32_t number; /* 1 … 2^29-1 */
    enum bh_pb_type type;
    uint64_t u;          /* VARINT, I64, I32: the raw value */
    struct bh_str bytes; /* LEN: a view into the input; SGROUP: the bytes inside the group */
};

static inline struct bh_pb_rd bh_pb_rd(struct bh_str s)
{
    return (struct bh_pb_rd){(const uint8_t *)s.p, (const uint8_t *)s.p + s.n};
}
/* 1 and the next field, 0 at the end, -BH_E_BAD_REQUEST on malformed bytes. A group is read whole.
 */
BH_MUST int bh_pb_next(struct bh_pb_rd *r, struct bh_pb_field *ret, struct bh_err *err);
/* One varint, as stands in packed repeated fields; 0, or -BH_E_BAD_REQUEST. */
BH_MUST int bh_pb_varint(struct bh_pb_rd *r, uint64_t *ret, struct bh_err *err);

static inline int64_t bh_pb_zigzag(uint64_t u)
{
    return (int64_t)(u >> 1) ^ -(int64_t)(u & 1);
}
double bh_pb_double(uint64_t raw);
float bh_pb_float(uint64_t raw);

/* Writing. */
void bh_pb_w_varint(struct bh_buf *b, uint64_t v);
void bh_pb_w_tag(struct bh_buf *b, uint32_t number, enum bh_pb_type t);
void bh_pb_w_uint(struct bh_buf *b, uint32_t number,
                  uint64_t v); /* int32, int64 (sign extended), bool, enum too */
void bh_pb_w_sint(struct bh_buf *b, uint32_t number, int64_t v);
void bh_pb_w_fixed32(struct bh_buf *b, uint32_t number, uint32_t v);
void bh_pb_w_fixed64(struct bh_buf *b, uint32_t number, uint64_t v);
void bh_pb_w_double(struct bh_buf *b, uint32_t number, double v);
void bh_pb_w_bytes(struct bh_buf *b, uint32_t number, struct bh_str s);
/* A nested message whose length is not known before: open, write its fields, close. Closing moves
 * the body by the bytes its length takes beyond one. */
size_t bh_pb_w_open(struct bh_buf *b, uint32_t number);
void bh_pb_w_close(struct bh_buf *b, size_t mark);
size_t bh_pb_varint_size(uint64_t v);

#endif
