/* Decoders of small texts: what decodes encodes back to something that decodes to the same. */
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "data/codec.h"
#include "data/names.h"
#include "data/time_fmt.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void times(struct bh_str in)
{
    char buf[BH_TIME_BUF];
    struct bh_time t, u;
    int64_t ns, again;

    if (bh_time_parse(in, &t, NULL) == 0 && bh_time_fmt(t, buf).n) {
        bh_assert(bh_time_parse(bh_time_fmt_nano(t, buf), &u, NULL) == 0);
        bh_assert(bh_time_cmp(t, u) == 0);
    }
    if (bh_duration_parse(in, &ns, NULL) == 0) {
        bh_assert(bh_duration_parse(bh_duration_fmt(ns, buf), &again, NULL) == 0);
        bh_assert(ns == again);
    }
}

static void addresses(struct bh_str in)
{
    char buf[BH_IP_BUF], msg[BH_NAMES_BUF];
    struct bh_ip ip, again;
    struct bh_semver v;
    unsigned bits;

    if (bh_ip_parse(in, &ip)) {
        bh_assert(bh_ip_parse(bh_ip_fmt(&ip, buf), &again));
        bh_assert(bh_ip_cmp(&ip, &again) == 0);
    }
    (void)bh_cidr_parse(in, &ip, &bits);
    (void)bh_check_qualified_name(in, msg);
    (void)bh_check_cidr(in, msg);
    if (bh_semver_parse(in, &v))
        bh_assert(bh_semver_cmp(&v, &v) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct bh_str in = {(const char *)p, n}, out, again;
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {0};
    struct bh_query q;

    if (n > 4096)
        return 0;
    if (bh_base64_decode(a, in, &out, NULL) == 0) {
        bh_assert(bh_base64_decode(a, bh_base64(a, out), &again, NULL) == 0);
        bh_assert(bh_str_eq(out, again));
    }
    bh_assert(bh_base64url_decode(a, bh_base64url(a, in), &out, NULL) == 0);
    bh_assert(bh_str_eq(out, in));
    bh_url_escape_query(&b, in);
    bh_assert(bh_url_decode(a, bh_buf_str(&b), true, &out, NULL) == 0);
    bh_assert(bh_str_eq(out, in));
    (void)bh_query_parse(a, in, &q, NULL);
    times(in);
    addresses(in);
    return 0;
}
