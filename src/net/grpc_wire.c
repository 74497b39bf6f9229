/* gRPC framing and header values. Nothing here does I/O; every input comes from a peer. */
#include "net/grpc_wire.h"

#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "net/h2.h"

#define FRAME_HEADER       5
#define MESSAGE_TEXT_MAX   4096
#define TIMEOUT_DIGITS_MAX 8

void bh_grpc_deframer_done(struct bh_grpc_deframer *d)
{
    bh_buf_done(&d->buf);
    d->complete = false;
}

static uint32_t be32(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;

    return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

/* Moves up to want - buf.n bytes from *in to the buffer. */
static void fill(struct bh_grpc_deframer *d, struct bh_str *in, size_t want)
{
    size_t k = want - d->buf.n;

    if (k > in->n)
        k = in->n;
    bh_buf_add(&d->buf, in->p, k);
    *in = bh_str_sub(*in, k, in->n);
}

int bh_grpc_deframe(struct bh_grpc_deframer *d, struct bh_str *in, struct bh_str *ret_msg,
                    struct bh_err *err)
{
    size_t len;

    if (d->complete) {
        bh_buf_clear(&d->buf);
        d->complete = false;
    }
    d->buf.max = BH_GRPC_MESSAGE_MAX + FRAME_HEADER;
    if (d->buf.n < FRAME_HEADER)
        fill(d, in, FRAME_HEADER);
    if (d->buf.n < FRAME_HEADER)
        return 0;
    if (d->buf.p[0] == 1)
        return bh_err_set(err, BH_E_UNSUPPORTED, "compressed messages are not supported");
    if (d->buf.p[0] != 0)
        return bh_err_set(err, BH_E_PROTO, "malformed message header");
    len = be32(d->buf.p + 1);
    if (len > BH_GRPC_MESSAGE_MAX)
        return bh_err_set(err, BH_E_LIMIT, "message of %zu bytes is larger than %u", len,
                          BH_GRPC_MESSAGE_MAX);
    fill(d, in, FRAME_HEADER + len);
    if (d->buf.n < FRAME_HEADER + len)
        return 0;
    d->complete = true;
    *ret_msg = (struct bh_str){d->buf.p + FRAME_HEADER, len};
    return 1;
}

size_t bh_grpc_deframer_pending(const struct bh_grpc_deframer *d)
{
    return d->complete ? 0 : d->buf.n;
}

void bh_grpc_frame(struct bh_buf *out, struct bh_str msg)
{
    const unsigned char h[FRAME_HEADER] = {0, (unsigned char)(msg.n >> 24),
                                           (unsigned char)(msg.n >> 16),
                                           (unsigned char)(msg.n >> 8), (unsigned char)msg.n};

    bh_assert(msg.n <= UINT32_MAX);
    bh_buf_add(out, h, sizeof(h));
    bh_buf_adds(out, msg);
}

bool bh_grpc_timeout_parse(struct bh_str s, int64_t *ret_ns)
{
    static const struct {
        char unit;
        int64_t ns;
    } units[] = {{'H', 3600000000000}, {'M', 60000000000}, {'S', 1000000000},
                 {'m', 1000000},       {'u', 1000},        {'n', 1}};
    int64_t v;

    if (s.n < 2 || s.n > TIMEOUT_DIGITS_MAX + 1 ||
        !bh_str_i64(bh_str_sub(s, 0, s.n - 1), 0, 99999999, &v))
        return false;
    for (size_t i = 0; i < BH_COUNT(units); i++) {
        if (s.p[s.n - 1] != units[i].unit)
            continue;
        *ret_ns = v > INT64_MAX / 4 / units[i].ns ? INT64_MAX / 4 : v * units[i].ns;
        return true;
    }
    return false;
}

struct bh_str bh_grpc_timeout_format(struct bh_arena *a, int64_t timeout_ms)
{
    if (timeout_ms < 1)
        timeout_ms = 1;
    if (timeout_ms <= 99999999)
        return bh_str_fmt(a, "%lldm", (long long)timeout_ms);
    return bh_str_fmt(a, "%lldS", (long long)(timeout_ms / 1000));
}

struct bh_str bh_grpc_message_encode(struct bh_arena *a, struct bh_str s)
{
    static const char hex[] = "0123456789ABCDEF";
    char *out;
    size_t n = 0;

    s = bh_str_sub(s, 0, MESSAGE_TEXT_MAX);
    out = bh_arena_alloc(a, s.n * 3 + 1);
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c >= 0x20 && c <= 0x7e && c != '%') {
            out[n++] = (char)c;
            continue;
        }
        out[n++] = '%';
        out[n++] = hex[c >> 4];
        out[n++] = hex[c & 15];
    }
    return (struct bh_str){out, n};
}

static int unhex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

struct bh_str bh_grpc_message_decode(struct bh_arena *a, struct bh_str s)
{
    char *out = bh_arena_alloc(a, s.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '%' && i + 2 < s.n && unhex(s.p[i + 1]) >= 0 && unhex(s.p[i + 2]) >= 0) {
            out[n++] = (char)(unhex(s.p[i + 1]) << 4 | unhex(s.p[i + 2]));
            i += 2;
        } else {
            out[n++] = s.p[i];
        }
    }
    return (struct bh_str){out, n};
}

const char *bh_grpc_status_name(enum bh_grpc_status s)
{
    static const char *const names[] = {
        "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
        "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
        "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
        "DataLoss", "Unauthenticated"};

    return (unsigned)s < BH_COUNT(names) ? names[s] : "Unknown";
}

enum bh_grpc_status bh_grpc_status_of(enum bh_code c)
{
    switch (c) {
    case BH_OK:
        return BH_GRPC_OK;
    case BH_E_BAD_REQUEST:
    case BH_E_INVALID:
        return BH_GRPC_INVALID_ARGUMENT;
    case BH_E_UNAUTHORIZED:
        return BH_GRPC_UNAUTHENTICATED;
    case BH_E_FORBIDDEN:
        return BH_GRPC_PERMISSION_DENIED;
    case BH_E_NOT_FOUND:
        return BH_GRPC_NOT_FOUND;
    case BH_E_EXISTS:
        return BH_GRPC_ALREADY_EXISTS;
    case BH_E_CONFLICT:
        return BH_GRPC_ABORTED;
    case BH_E_GONE:
        return BH_GRPC_OUT_OF_RANGE;
    case BH_E_LIMIT:
    case BH_E_BUSY:
        return BH_GRPC_RESOURCE_EXHAUSTED;
    case BH_E_UNAVAILABLE:
        return BH_GRPC_UNAVAILABLE;
    case BH_E_TIMEOUT:
        return BH_GRPC_DEADLINE_EXCEEDED;
    case BH_E_CANCELED:
        return BH_GRPC_CANCELLED;
    case BH_E_UNSUPPORTED:
    case BH_E_METHOD:
        return BH_GRPC_UNIMPLEMENTED;
    case BH_E_INTERNAL:
        return BH_GRPC_INTERNAL;
    default:
        return BH_GRPC_UNKNOWN;
    }
}

enum bh_code bh_grpc_code_of(enum bh_grpc_status s)
{
    static const enum bh_code codes[] = {
        BH_OK,          BH_E_CANCELED,    BH_E_INTERNAL,    BH_E_INVALID,  BH_E_TIMEOUT,
        BH_E_NOT_FOUND, BH_E_EXISTS,      BH_E_FORBIDDEN,   BH_E_BUSY,     BH_E_CONFLICT,
        BH_E_CONFLICT,  BH_E_GONE,        BH_E_UNSUPPORTED, BH_E_INTERNAL, BH_E_UNAVAILABLE,
        BH_E_INTERNAL,  BH_E_UNAUTHORIZED};

    return (unsigned)s < BH_COUNT(codes) ? codes[s] : BH_E_INTERNAL;
}

enum bh_grpc_status bh_grpc_status_of_http(int http_status)
{
    switch (http_status) {
    case 400:
        return BH_GRPC_INTERNAL;
    case 401:
        return BH_GRPC_UNAUTHENTICATED;
    case 403:
        return BH_GRPC_PERMISSION_DENIED;
    case 404:
        return BH_GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return BH_GRPC_UNAVAILABLE;
    default:
        return BH_GRPC_UNKNOWN;
    }
}

enum bh_grpc_status bh_grpc_status_of_reset(uint32_t h2_code)
{
    switch (h2_code) {
    case BH_H2_REFUSED:
        return BH_GRPC_UNAVAILABLE;
    case BH_H2_CANCEL:
        return BH_GRPC_CANCELLED;
    case BH_H2_CALM:
        return BH_GRPC_RESOURCE_EXHAUSTED;
    default:
        return BH_GRPC_INTERNAL;
    }
}

const struct bh_str *bh_grpc_header(const struct bh_h2_header *h, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (bh_str_eqc(h[i].name, name))
            return &h[i].value;
    return NULL;
}
