/* The gRPC layer over HTTP/2 as pure functions: message frames, timeouts, percent-encoded messages,
 * status codes. Shared by server and client; private to net. Thread: any. */
#ifndef BH_NET_GRPC_WIRE_H
#define BH_NET_GRPC_WIRE_H

#include "base/buf.h"
#include "net/grpc.h"

struct bh_h2_header;

/* Cuts a byte stream into messages: 1 byte flag, 4 bytes big-endian length, the message. */
struct bh_grpc_deframer {
    struct bh_buf buf; /* never holds more than one header and one message */
    bool complete;     /* buf is a whole message that was already handed out */
};
void bh_grpc_deframer_done(struct bh_grpc_deframer *d);
/* Takes bytes off *in until a message is complete. Returns 1 (*ret_msg is valid until the next
 * call), 0 (*in is used up), -BH_E_LIMIT when a message is longer than BH_GRPC_MESSAGE_MAX,
 * -BH_E_UNSUPPORTED when it is compressed, -BH_E_PROTO. */
BH_MUST int bh_grpc_deframe(struct bh_grpc_deframer *d, struct bh_str *in, struct bh_str *ret_msg,
                            struct bh_err *err);
size_t
bh_grpc_deframer_pending(const struct bh_grpc_deframer *d); /* bytes of an incomplete message */
void bh_grpc_frame(struct bh_buf *out, struct bh_str msg);  /* appends header and message */

/* "100m" and the like in nanoseconds; false when malformed. */
BH_MUST bool bh_grpc_timeout_parse(struct bh_str s, int64_t *ret_ns);
struct bh_str bh_grpc_timeout_format(struct bh_arena *a, int64_t timeout_ms);
/* grpc-message: everything but printable ASCII and '%' itself is percent-encoded; cut at 4 KiB. */
struct bh_str bh_grpc_message_encode(struct bh_arena *a, struct bh_str s);
struct bh_str bh_grpc_message_decode(struct bh_arena *a,
                                     struct bh_str s); /* a bad escape stays as it is */
enum bh_grpc_status bh_grpc_status_of_http(int http_status);
enum bh_grpc_status bh_grpc_status_of_reset(uint32_t h2_code);
const struct bh_str *bh_grpc_header(const struct bh_h2_header *h, size_t n,
                                    const char *name); /* or NULL */

#endif
