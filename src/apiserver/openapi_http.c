/* /openapi/v2, /openapi/v3 and the documents below it. */
#include "api/openapi.h"
#include "api/openapi_v2_pb.h"
#include "apiserver/server_int.h"

#include <string.h>

#define V2_PB     "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
#define V2_PB_OLD "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

/* The text of a document, made once and kept for the life of the server. */
static struct bh_str cached(struct bh_apiserver *srv, struct bh_str key,
                            bool (*make)(struct bh_str key, struct bh_buf *b))
{
    struct bh_str *have = bh_map_get(&srv->openapi, key);
    BH_AUTO_BUF b = {0};

    if (have)
        return *have;
    if (!make(key, &b))
        return (struct bh_str){NULL, 0};
    have = bh_new(srv->a, struct bh_str);
    *have = bh_str_dup(srv->a, bh_buf_str(&b));
    (void)bh_map_put(&srv->openapi, key, have);
    return *have;
}

static bool make_v2(struct bh_str key, struct bh_buf *b)
{
    (void)key;
    bh_openapi_v2(BH_S("v1.36.2"), b);
    return true;
}

static bool make_v2_pb(struct bh_str key, struct bh_buf *b)
{
    BH_AUTO_BUF json = {0};
    struct bh_err err = {0};

    (void)key;
    bh_openapi_v2(BH_S("v1.36.2"), &json);
    return bh_openapi_v2_pb(bh_buf_str(&json), b, &err) == 0;
}

/* key: "api/v1", "apis/apps/v1", or a path that has a document without schemas. */
static bool make_v3(struct bh_str key, struct bh_buf *b)
{
    static const char *const bare[] = {"api", "apis", "version", ".well-known/openid-configuration",
                                       "openid/v1/jwks"};
    struct bh_str rest = key, first = bh_str_cut(&rest, '/'), group = BH_S(""), version;

    for (size_t i = 0; i < BH_COUNT(bare); i++)
        if (bh_str_eqc(key, bare[i])) {
            bh_buf_addz(b, "{\"openapi\":\"3.0.0\",\"info\":{\"title\":\"Kubernetes\",\"version\":"
                           "\"v1.36.2\"},\"paths\":{},"
                           "\"components\":{}}");
            return true;
        }
    if (bh_str_eqc(first, "api") && rest.p)
        return bh_openapi_v3(group, rest, b);
    if (!bh_str_eqc(first, "apis") || !rest.p)
        return false;
    group = bh_str_cut(&rest, '/');
    version = rest;
    if (!version.p) {
        size_t n;
        const struct bh_kind *const *kinds = bh_kinds(&n);

        for (size_t i = 0; i < n; i++)
            if (bh_str_eq(kinds[i]->group, group) && !kinds[i]->unserved) {
                bh_buf_addz(b, "{\"openapi\":\"3.0.0\",\"info\":{\"title\":\"Kubernetes\","
                               "\"version\":\"v1.36.2\"},\"paths\":"
                               "{},\"components\":{}}");
                return true;
            }
        return false;
    }
    return bh_openapi_v3(group, version, b);
}

static struct bh_str hash_of(struct bh_rq *rq, struct bh_str text)
{
    struct bh_str hex = bh_sha256_hex(rq->a, text);
    char *p = bh_arena_memdup(rq->a, hex.p, hex.n);

    for (size_t i = 0; i < hex.n; i++)
        if (p[i] >= 'a')
            p[i] = (char)(p[i] - 'a' + 'A');
    return (struct bh_str){p, hex.n};
}

static void add_path(struct bh_rq *rq, struct bh_buf *b, struct bh_str key, bool *any)
{
    struct bh_str text = cached(rq->srv, key, make_v3);

    if (!text.p)
        return;
    bh_buf_addf(b, "%s\"%.*s\":{\"serverRelativeURL\":\"/openapi/v3/%.*s?hash=%.*s\"}",
                *any ? "," : "", BH_SF(key), BH_SF(key), BH_SF(hash_of(rq, text)));
    *any = true;
}

static int index_v3(struct bh_rq *rq)
{
    static const char *const bare[] = {".well-known/openid-configuration", "api", "apis",
                                       "openid/v1/jwks", "version"};
    size_t n;
    const struct bh_kind *const *kinds = bh_kinds(&n);
    struct bh_map seen = {0};
    BH_AUTO_BUF b = {0};
    bool any = false;

    bh_buf_addz(&b, "{\"paths\":{");
    for (size_t i = 0; i < BH_COUNT(bare); i++)
        add_path(rq, &b, bh_s(bare[i]), &any);
    for (size_t i = 0; i < n; i++) {
        const struct bh_kind *k = kinds[i];
        struct bh_str key, group;

        if (!bh_version_served(rq->srv, k))
            continue;
        key = k->group.n > 0 ? bh_str_fmt(rq->a, "apis/%.*s", BH_SF(k->api_version))
                             : bh_str_fmt(rq->a, "api/%.*s", BH_SF(k->version));
        group = bh_str_fmt(rq->a, "apis/%.*s", BH_SF(k->group));
        if (k->group.n > 0 && !bh_map_put(&seen, group, rq))
            add_path(rq, &b, group, &any);
        if (!bh_map_put(&seen, key, rq))
            add_path(rq, &b, key, &any);
    }
    bh_map_done(&seen);
    bh_buf_addz(&b, "}}\n");
    bh_rq_answer_raw(rq, 200, BH_S("text/plain; charset=utf-8"), bh_str_dup(rq->a, bh_buf_str(&b)));
    return 0;
}

static int document(struct bh_rq *rq, struct bh_str key)
{
    struct bh_str text = key.n > 0 ? cached(rq->srv, key, make_v3) : (struct bh_str){NULL, 0};
    const struct bh_str *hash = bh_rq_query(rq, "hash");

    if (!text.p) {
        bh_rq_answer_raw(rq, 404, BH_S(""), BH_S(""));
        return 0;
    }
    if (hash && !bh_str_eq(*hash, hash_of(rq, text))) {
        struct bh_api_header h = {
            BH_S("Location"),
            bh_str_fmt(rq->a, "/openapi/v3/%.*s?hash=%.*s", BH_SF(key), BH_SF(hash_of(rq, text)))};
        struct bh_api_response res = {.status = 301, .headers = &h, .headers_n = 1};

        bh_rq_answer(rq, &res);
        return 0;
    }
    bh_rq_answer_raw(rq, 200, BH_S("application/json"), text);
    return 0;
}

/* Clients that know protobuf name it alone or first; the name with '@' is an older spelling. */
static bool wants_v2_pb(struct bh_rq *rq)
{
    struct bh_str rest = rq->accept;

    while (rest.p && rest.n > 0) {
        struct bh_str clause = bh_str_cut(&rest, ',');
        struct bh_str type = bh_str_trim(bh_str_cut(&clause, ';'));

        if (bh_str_eqc(type, V2_PB) || bh_str_eqc(type, V2_PB_OLD))
            return true;
        if (bh_str_eqc(type, "application/json") || bh_str_eqc(type, "*/*") ||
            bh_str_eqc(type, "application/*"))
            return false;
    }
    return false;
}

static int document_v2(struct bh_rq *rq)
{
    struct bh_str text;

    if (!wants_v2_pb(rq)) {
        bh_rq_answer_raw(rq, 200, BH_S("application/json"), cached(rq->srv, BH_S("v2"), make_v2));
        return 0;
    }
    text = cached(rq->srv, BH_S("v2.pb"), make_v2_pb);
    if (!text.p)
        return bh_fail_text(rq, 500, BH_S("the document has no protobuf form\n"));
    bh_rq_answer_raw(rq, 200, BH_S(V2_PB), text);
    return 0;
}

int bh_openapi_serve(struct bh_rq *rq)
{
    struct bh_str path = rq->ri.path;

    if (bh_str_eqc(path, "/openapi/v2"))
        return document_v2(rq);
    if (bh_str_eqc(path, "/openapi/v3"))
        return index_v3(rq);
    if (bh_str_starts(path, BH_S("/openapi/v3/")))
        return document(rq, bh_str_sub(path, 12, path.n));
    return bh_fail_text(rq, 404, BH_S("404 page not found\n"));
}
