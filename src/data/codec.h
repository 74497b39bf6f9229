/* Small encodings: base64, hex, hashes, URL escapes and queries, UUIDs, semantic versions. Thread:
 * any. */
#ifndef BH_DATA_CODEC_H
#define BH_DATA_CODEC_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;
struct bh_buf;

/* Standard base64 with padding. The decoder ignores CR and LF as Go's does; error: illegal base64
 * data at input byte N. */
void bh_base64_write(struct bh_buf *out, struct bh_str s);
struct bh_str bh_base64(struct bh_arena *a, struct bh_str s);
BH_MUST int bh_base64_decode(struct bh_arena *a, struct bh_str s, struct bh_str *ret,
                             struct bh_err *err);
/* URL-safe alphabet without padding (JWT). */
struct bh_str bh_base64url(struct bh_arena *a, struct bh_str s);
BH_MUST int bh_base64url_decode(struct bh_arena *a, struct bh_str s, struct bh_str *ret,
                                struct bh_err *err);

struct bh_str bh_hex(struct bh_arena *a, struct bh_str s);
void bh_sha256(struct bh_str s, uint8_t ret[32]);
struct bh_str bh_sha256_hex(struct bh_arena *a, struct bh_str s); /* 64 characters */

#define BH_FNV32_INIT 2166136261u
#define BH_FNV64_INIT 14695981039346656037u
uint32_t bh_fnv32a(uint32_t h, struct bh_str s); /* h: BH_FNV32_INIT, or the hash so far */
uint32_t bh_fnv32(uint32_t h, struct bh_str s);
uint64_t bh_fnv64a(uint64_t h, struct bh_str s);
uint32_t bh_crc32c(uint32_t crc, struct bh_str s); /* Castagnoli; crc: 0, or the value so far */
/* Kubernetes' SafeEncodeString: each byte to the alphabet without vowels. */
struct bh_str bh_safe_encode(struct bh_arena *a, struct bh_str s);

/* Path and query escaping. '+' means a blank in queries only. Decoding errors: invalid URL escape
 * "%zz". */
void bh_url_escape_path(struct bh_buf *out, struct bh_str s); /* one path segment: '/' is escaped */
void bh_url_escape_query(struct bh_buf *out, struct bh_str s);
BH_MUST int bh_url_decode(struct bh_arena *a, struct bh_str s, bool query, struct bh_str *ret,
                          struct bh_err *err);

/* The parameters of a query string, in order, decoded. Malformed ones are dropped, as Go's
 * URL.Query() does. */
struct bh_query {
    struct bh_str_pair *p;
    size_t n;
};
#define BH_QUERY_PARAMS_MAX 1000
BH_MUST int bh_query_parse(struct bh_arena *a, struct bh_str s, struct bh_query *ret,
                           struct bh_err *err);
/* The first value of name, or NULL. */
const struct bh_str *bh_query_get(const struct bh_query *q, const char *name);

/* 8-4-4-4-12 hexadecimal digits, either case. */
bool bh_is_uuid(struct bh_str s);
/* Formats 16 random bytes as a version 4 UUID; buf holds 37 bytes. */
struct bh_str bh_uuid_v4(const uint8_t random[16], char *buf);

/* Strict semantic version 2.0.0 (no leading v, no leading zeros). Strings are views into the parsed
 * text. */
struct bh_semver {
    uint64_t major, minor, patch;
    struct bh_str pre, build; /* without '-' and '+'; empty when absent */
};
bool bh_semver_parse(struct bh_str s, struct bh_semver *ret);
int bh_semver_cmp(const struct bh_semver *a, const struct bh_semver *b); /* build does not count */

#endif
