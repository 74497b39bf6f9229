/* Round trips of every kind that has a schema, and the words of decoding errors. */
#include "api/engine.h"
#include "base/fs.h"
#include "base/limits.h"
#include "base/test.h"
#include "data/json.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static bool read_file(const char *path, struct bh_buf *out)
{
    struct bh_err err = {0};

    bh_buf_init(out, 8u << 20);
    if (bh_fs_read(path, 8u << 20, out, &err) == 0)
        return true;
    bh_test_fail(__FILE__, __LINE__, "%s: %s", path, err.msg);
    return false;
}

/* Compares two JSON texts by value. */
static bool json_equal(struct bh_arena *a, struct bh_str x, struct bh_str y)
{
    struct bh_jv vx, vy;
    struct bh_err err = {0};

    if (bh_jv_parse(a, x, NULL, &vx, &err) < 0 || bh_jv_parse(a, y, NULL, &vy, &err) < 0)
        return false;
    return bh_jv_eq(&vx, &vy);
}

static void show_difference(const char *what, struct bh_str got, struct bh_str want)
{
    size_t i = 0;

    while (i < got.n && i < want.n && got.p[i] == want.p[i])
        i++;
    size_t from = i > 60 ? i - 60 : 0;

    bh_test_fail(__FILE__, __LINE__, "%s differs at byte %zu: got …%.*s want …%.*s", what, i,
                 BH_SF(bh_str_sub(got, from, from + 160)),
                 BH_SF(bh_str_sub(want, from, from + 160)));
}

/* Upstream's conversions say what the claims of a StatefulSet are; its files did not pass them. */
static struct bh_str as_in_files(struct bh_arena *a, struct bh_str s)
{
    struct bh_str type = BH_S("\"kind\":\"PersistentVolumeClaim\",\"apiVersion\":\"v1\",");
    ptrdiff_t at = bh_str_find(s, BH_S("\"volumeClaimTemplates\":[{"));
    size_t from;

    if (at < 0)
        return s;
    from = (size_t)at + sizeof("\"volumeClaimTemplates\":[{") - 1;
    if (!bh_str_starts(bh_str_sub(s, from, s.n), type))
        return s;
    return bh_str_fmt(a, "%.*s%.*s", BH_SF(bh_str_sub(s, 0, from)),
                      BH_SF(bh_str_sub(s, from + type.n, s.n)));
}

static void round_trip(const struct bh_kind *k, const char *name, struct bh_str json,
                       struct bh_str pb)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF js = {0}, js2 = {0}, body = {0};
    struct bh_strict strict = {0};
    struct bh_pb_unknown u = {0};
    struct bh_err err = {0};
    void *from_json, *from_pb;

    if (bh_kind_decode_json(k, json, a, &from_json, &strict, &err) < 0) {
        bh_test_fail(__FILE__, __LINE__, "%s: decode JSON: %s", name, err.msg);
        return;
    }
    if (strict.texts.n)
        bh_test_fail(__FILE__, __LINE__, "%s: %.*s", name, BH_SF(bh_strict_join(&strict, a)));
    bh_kind_encode_json(k, from_json, &js);
    struct bh_jv want;

    BH_EQ(bh_jv_parse(a, json, NULL, &want, &err), 0);
    struct bh_str got = as_in_files(a, bh_buf_str(&js));

    if (!json_equal(a, got, json))
        show_difference(name, got, bh_jv_text(a, &want, 0));
    /* Field order too: what is encoded must be the text that upstream writes. */
    else if (!bh_str_eq(got, bh_jv_text(a, &want, 0)))
        show_difference(name, got, bh_jv_text(a, &want, 0));
    bh_kind_encode_pb(k, from_json, &body);
    if (!bh_str_eq(bh_buf_str(&body), pb))
        show_difference("protobuf", bh_buf_str(&body), pb),
            bh_test_fail(__FILE__, __LINE__, "%s", name);
    if (bh_pb_open(pb, &u, &err) < 0 || bh_kind_decode_pb(k, u.raw, a, &from_pb, &err) < 0) {
        bh_test_fail(__FILE__, __LINE__, "%s: decode protobuf: %s", name, err.msg);
        return;
    }
    bh_kind_encode_json(k, from_pb, &js2);
    if (!bh_str_eq(bh_buf_str(&js2), bh_buf_str(&js)))
        show_difference(name, bh_buf_str(&js2), bh_buf_str(&js));
    BH_CHECK(bh_msg_equal(k->type, from_json, from_pb));
    void *copy = bh_msg_dup(k->type, from_pb, a);

    BH_CHECK(bh_msg_equal(k->type, copy, from_json));
}

/* Every pair of files whose kind has a schema decodes and encodes to the same bytes. */
BH_TEST(codec_round_trip)
{
    const char *dir = bh_test_shared("roundtrip");
    char path[512];
    unsigned done = 0;

    if (!dir) {
        bh_test_skip("no round trip data");
        return;
    }
    size_t n;
    const struct bh_kind *const *kinds = bh_kinds(&n);
    char root[256];

    snprintf(root, sizeof(root), "%s", dir);
    for (size_t i = 0; i < n; i++) {
        const struct bh_kind *k = kinds[i];
        BH_AUTO_BUF json = {0}, pb = {0};

        snprintf(path, sizeof(path), "%s/%.*s.%.*s.%.*s.json", root,
                 k->group.n ? (int)k->group.n : 4, k->group.n ? k->group.p : "core",
                 BH_SF(k->version), BH_SF(k->kind));
        /* A watch event is a frame of a stream: it has neither kind nor envelope of its own. */
        if (bh_str_eqc(k->kind, "WatchEvent") || !bh_fs_exists(path) || !read_file(path, &json))
            continue;
        size_t len = strlen(path);

        memcpy(path + len - 4, "pb", 3);
        if (!read_file(path, &pb))
            continue;
        snprintf(path, sizeof(path), "%.*s/%.*s", BH_SF(k->api_version), BH_SF(k->kind));
        round_trip(k, path, bh_str_trim(bh_buf_str(&json)), bh_buf_str(&pb));
        done++;
    }
    printf("round trips: %u kinds\n", done);
    BH_CHECK(done > 60);
}
