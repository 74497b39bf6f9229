/* /api, /apis and below, /version and /: what is served, told in upstream's order. */
#include "apiserver/server_int.h"
#include "data/json.h"

#include <stdlib.h>
#include <string.h>

#define AGGREGATED_TYPE "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

/* Groups by their priority; others follow by name. */
static const char *const group_order[] = {"apiregistration.k8s.io",
                                          "apps",
                                          "events.k8s.io",
                                          "authentication.k8s.io",
                                          "authorization.k8s.io",
                                          "autoscaling",
                                          "batch",
                                          "certificates.k8s.io",
                                          "networking.k8s.io",
                                          "policy",
                                          "rbac.authorization.k8s.io",
                                          "storage.k8s.io",
                                          "admissionregistration.k8s.io",
                                          "apiextensions.k8s.io",
                                          "scheduling.k8s.io",
                                          "coordination.k8s.io",
                                          "node.k8s.io",
                                          "discovery.k8s.io",
                                          "resource.k8s.io",
                                          "flowcontrol.apiserver.k8s.io"};

struct gv {
    struct bh_str group, version;
};

/* Stable before beta before alpha, newer first: v2 v1 v1beta2 v1beta1 v1alpha3. */
static int version_rank(struct bh_str v, int *major, int *minor)
{
    size_t i = 1;
    int rank = 2;

    *major = *minor = 0;
    while (i < v.n && v.p[i] >= '0' && v.p[i] <= '9')
        *major = *major * 10 + (v.p[i++] - '0');
    if (i < v.n)
        rank = v.p[i] == 'b' ? 1 : 0;
    while (i < v.n && (v.p[i] < '0' || v.p[i] > '9'))
        i++;
    while (i < v.n && v.p[i] >= '0' && v.p[i] <= '9')
        *minor = *minor * 10 + (v.p[i++] - '0');
    return rank;
}

static int group_rank(struct bh_str g)
{
    for (size_t i = 0; i < BH_COUNT(group_order); i++)
        if (bh_str_eqc(g, group_order[i]))
            return (int)i;
    return g.n == 0 ? -1 : (int)BH_COUNT(group_order);
}

static int gv_cmp(const void *a, const void *b)
{
    const struct gv *x = a, *y = b;
    int gx = group_rank(x->group), gy = group_rank(y->group), mx, my, nx, ny, rx, ry;

    if (gx != gy)
        return gx - gy;
    if (!bh_str_eq(x->group, y->group))
        return bh_str_cmp(x->group, y->group);
    rx = version_rank(x->version, &mx, &nx);
    ry = version_rank(y->version, &my, &ny);
    return rx != ry ? ry - rx : mx != my ? my - mx : ny - nx;
}

/* Every group and version that is served, in order. */
static size_t all_versions(struct bh_rq *rq, struct gv **ret)
{
    size_t n, out = 0;
    const struct bh_kind *const *kinds = bh_kinds(&n);
    struct gv *v = bh_new_n(rq->a, struct gv, n + 1);

    for (size_t i = 0; i < n; i++) {
        bool have = false;

        if (!bh_version_served(rq->srv, kinds[i]))
            continue;
        for (size_t j = 0; j < out; j++)
            have |= bh_str_eq(v[j].group, kinds[i]->group) &&
                    bh_str_eq(v[j].version, kinds[i]->version);
        if (!have)
            v[out++] = (struct gv){kinds[i]->group, kinds[i]->version};
    }
    qsort(v, out, sizeof(*v), gv_cmp);
    *ret = v;
    return out;
}

static int kind_cmp(const void *a, const void *b)
{
    return bh_str_cmp((*(const struct bh_kind *const *)a)->resource,
                      (*(const struct bh_kind *const *)b)->resource);
}

static size_t kinds_of(struct bh_rq *rq, struct bh_str group, struct bh_str version,
                       const struct bh_kind ***ret)
{
    size_t n, out = 0;
    const struct bh_kind *const *kinds = bh_kinds(&n);
    const struct bh_kind **v = bh_new_n(rq->a, const struct bh_kind *, n + 1);

    for (size_t i = 0; i < n; i++)
        if (bh_version_served(rq->srv, kinds[i]) && bh_str_eq(kinds[i]->group, group) &&
            bh_str_eq(kinds[i]->version, version))
            v[out++] = kinds[i];
    qsort(v, out, sizeof(*v), kind_cmp);
    *ret = v;
    return out;
}

static void add_strs(struct bh_buf *b, const char *name, const struct bh_str *v, size_t n)
{
    if (n == 0)
        return;
    bh_buf_addf(b, ",\"%s\":[", name);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            bh_buf_addc(b, ',');
        bh_json_write_str(b, v[i]);
    }
    bh_buf_addc(b, ']');
}

static void add_verbs(struct bh_buf *b, uint32_t verbs)
{
    static const struct {
        const char *name;
        uint32_t bit;
    } names[] = {{"create", BH_V_CREATE},
                 {"delete", BH_V_DELETE},
                 {"deletecollection", BH_V_DELETECOLLECTION},
                 {"get", BH_V_GET},
                 {"list", BH_V_LIST},
                 {"patch", BH_V_PATCH},
                 {"update", BH_V_UPDATE},
                 {"watch", BH_V_WATCH}};
    bool any = false;

    bh_buf_addz(b, "\"verbs\":[");
    for (size_t i = 0; i < BH_COUNT(names); i++)
        if (verbs & names[i].bit) {
            bh_buf_addf(b, "%s\"%s\"", any ? "," : "", names[i].name);
            any = true;
        }
    bh_buf_addc(b, ']');
}

static void add_hash(struct bh_rq *rq, struct bh_buf *b, const struct bh_kind *k)
{
    const struct bh_kind *hub = bh_kind_hub(k);
    uint8_t sum[32];

    if (!(k->verbs & BH_V_WATCH))
        return;
    /* The stored form of both kinds of events is the core one. */
    if (bh_str_eqc(k->resource, "events"))
        hub = bh_kind_by_gvk(BH_S(""), BH_S("v1"), BH_S("Event"));
    /* Upstream stores these in the oldest version still. */
    if (bh_str_eqc(k->resource, "devicetaintrules"))
        hub = bh_kind_by_gvk(k->group, BH_S("v1alpha3"), k->kind);
    bh_sha256(bh_str_fmt(rq->a, "%.*s/%.*s/%.*s", BH_SF(hub->group), BH_SF(hub->version),
                         BH_SF(hub->kind)),
              sum);
    bh_buf_addf(b, ",\"storageVersionHash\":\"%.*s\"",
                BH_SF(bh_base64(rq->a, (struct bh_str){(const char *)sum, 8})));
}

/* Kind of a subresource's body, with group and version when they are others. */
static void sub_body(const struct bh_kind *k, const struct bh_subresource *s, struct bh_str *group,
                     struct bh_str *version, struct bh_str *kind)
{
    *group = *version = BH_S("");
    *kind = k->kind;
    if (s->body) {
        *kind = s->body->kind;
        if (!bh_str_eq(s->body->group, k->group) || !bh_str_eq(s->body->version, k->version)) {
            *group = s->body->group;
            *version = s->body->version;
        }
    } else if (s->body_gvk.n > 0) {
        struct bh_str rest = s->body_gvk, first = bh_str_cut(&rest, '/');

        *kind = first;
        if (rest.p) {
            *group = first;
            *version = bh_str_cut(&rest, '/');
            *kind = rest;
        }
    }
}

static void add_resource(struct bh_rq *rq, struct bh_buf *b, const struct bh_kind *k)
{
    bh_buf_addf(
        b, "{\"name\":\"%.*s\",\"singularName\":\"%.*s\",\"namespaced\":%s,\"kind\":\"%.*s\",",
        BH_SF(k->resource), BH_SF(k->singular), k->namespaced ? "true" : "false", BH_SF(k->kind));
    add_verbs(b, k->verbs);
    add_strs(b, "shortNames", k->short_names, k->n_short_names);
    add_strs(b, "categories", k->categories, k->n_categories);
    add_hash(rq, b, k);
    bh_buf_addc(b, '}');
    for (uint32_t i = 0; i < k->n_subs; i++) {
        const struct bh_subresource *s = &k->subs[i];
        struct bh_str group, version, kind;

        if (s->unserved)
            continue;
        sub_body(k, s, &group, &version, &kind);
        bh_buf_addf(b, ",{\"name\":\"%.*s/%.*s\",\"singularName\":\"\",\"namespaced\":%s,",
                    BH_SF(k->resource), BH_SF(s->name), k->namespaced ? "true" : "false");
        if (group.n > 0 || version.n > 0)
            bh_buf_addf(b, "\"group\":\"%.*s\",\"version\":\"%.*s\",", BH_SF(group),
                        BH_SF(version));
        bh_buf_addf(b, "\"kind\":\"%.*s\",", BH_SF(kind));
        add_verbs(b, s->verbs);
        bh_buf_addc(b, '}');
    }
}

static int resource_list(struct bh_rq *rq, struct bh_str group, struct bh_str version)
{
    const struct bh_kind **k;
    size_t n = kinds_of(rq, group, version, &k);
    BH_AUTO_BUF b = {0};

    if (n == 0)
        return bh_fail_generic(rq, BH_E_NOT_FOUND);
    bh_buf_addf(&b, "{\"kind\":\"APIResourceList\",%s\"groupVersion\":\"%.*s\",\"resources\":[",
                group.n > 0 ? "\"apiVersion\":\"v1\"," : "", BH_SF(k[0]->api_version));
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            bh_buf_addc(&b, ',');
        add_resource(rq, &b, k[i]);
    }
    bh_buf_addz(&b, "]}");
    bh_rq_answer_json(rq, 200, bh_str_dup(rq->a, bh_buf_str(&b)));
    return 0;
}

/* One group with its versions; *at moves past them. */
static void add_group(struct bh_buf *b, const struct gv *v, size_t n, size_t *at, bool top)
{
    size_t first = *at;

    bh_buf_addf(b, "{%s\"name\":\"%.*s\",\"versions\":[",
                top ? "\"kind\":\"APIGroup\",\"apiVersion\":\"v1\"," : "", BH_SF(v[first].group));
    for (; *at < n && bh_str_eq(v[*at].group, v[first].group); (*at)++)
        bh_buf_addf(b, "%s{\"groupVersion\":\"%.*s/%.*s\",\"version\":\"%.*s\"}",
                    *at > first ? "," : "", BH_SF(v[*at].group), BH_SF(v[*at].version),
                    BH_SF(v[*at].version));
    bh_buf_addf(b, "],\"preferredVersion\":{\"groupVersion\":\"%.*s/%.*s\",\"version\":\"%.*s\"}}",
                BH_SF(v[first].group), BH_SF(v[first].version), BH_SF(v[first].version));
}

static int group_list(struct bh_rq *rq)
{
    struct gv *v;
    size_t n = all_versions(rq, &v), at = 0;
    BH_AUTO_BUF b = {0};
    bool any = false;

    bh_buf_addz(&b, "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[");
    while (at < n && v[at].group.n == 0)
        at++;
    while (at < n) {
        if (any)
            bh_buf_addc(&b, ',');
        any = true;
        add_group(&b, v, n, &at, false);
    }
    bh_buf_addz(&b, "]}");
    bh_rq_answer_json(rq, 200, bh_str_dup(rq->a, bh_buf_str(&b)));
    return 0;
}

static int one_group(struct bh_rq *rq, struct bh_str group)
{
    struct gv *v;
    size_t n = all_versions(rq, &v);
    BH_AUTO_BUF b = {0};

    for (size_t at = 0; at < n; at++)
        if (group.n > 0 && bh_str_eq(v[at].group, group)) {
            add_group(&b, v, n, &at, true);
            bh_rq_answer_json(rq, 200, bh_str_dup(rq->a, bh_buf_str(&b)));
            return 0;
        }
    return bh_fail_text(rq, 404, BH_S("404 page not found\n"));
}

/* ---- aggregated: all of a root in one document ---- */

static void add_aggregated(struct bh_buf *b, const struct bh_kind *k)
{
    bool any = false;

    bh_buf_addf(b,
                "{\"resource\":\"%.*s\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":"
                "\"%.*s\"},\"scope\":\"%s\","
                "\"singularResource\":\"%.*s\",",
                BH_SF(k->resource), BH_SF(k->kind), k->namespaced ? "Namespaced" : "Cluster",
                BH_SF(k->singular));
    add_verbs(b, k->verbs);
    add_strs(b, "shortNames", k->short_names, k->n_short_names);
    add_strs(b, "categories", k->categories, k->n_categories);
    for (uint32_t i = 0; i < k->n_subs; i++) {
        const struct bh_subresource *s = &k->subs[i];
        struct bh_str group, version, kind;

        if (s->unserved)
            continue;
        sub_body(k, s, &group, &version, &kind);
        bh_buf_addz(b, any ? "," : ",\"subresources\":[");
        any = true;
        bh_buf_addf(b,
                    "{\"subresource\":\"%.*s\",\"responseKind\":{\"group\":\"%.*s\",\"version\":\"%"
                    ".*s\",\"kind\":\"%.*s\"},",
                    BH_SF(s->name), BH_SF(group), BH_SF(version), BH_SF(kind));
        add_verbs(b, s->verbs);
        bh_buf_addc(b, '}');
    }
    if (any)
        bh_buf_addc(b, ']');
    bh_buf_addc(b, '}');
}

static void add_aggregated_version(struct bh_rq *rq, struct bh_buf *b, const struct gv *v)
{
    const struct bh_kind **k;
    size_t n = kinds_of(rq, v->group, v->version, &k);

    bh_buf_addf(b, "{\"version\":\"%.*s\",\"resources\":[", BH_SF(v->version));
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            bh_buf_addc(b, ',');
        add_aggregated(b, k[i]);
    }
    bh_buf_addz(b, "],\"freshness\":\"Current\"}");
}

static int aggregated(struct bh_rq *rq, bool core)
{
    struct gv *v;
    size_t n = all_versions(rq, &v);
    BH_AUTO_BUF b = {0};
    bool any = false;

    bh_buf_addz(&b, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/"
                    "v2\",\"metadata\":{},\"items\":[");
    for (size_t at = 0; at < n;) {
        size_t first = at;

        if ((v[at].group.n == 0) != core) {
            at++;
            continue;
        }
        bh_buf_addz(&b, any ? "," : "");
        any = true;
        bh_buf_addz(&b, "{\"metadata\":{");
        if (v[first].group.n > 0)
            bh_buf_addf(&b, "\"name\":\"%.*s\"", BH_SF(v[first].group));
        bh_buf_addz(&b, "},\"versions\":[");
        for (; at < n && bh_str_eq(v[at].group, v[first].group); at++) {
            if (at > first)
                bh_buf_addc(&b, ',');
            add_aggregated_version(rq, &b, &v[at]);
        }
        bh_buf_addz(&b, "]}");
    }
    bh_buf_addz(&b, "]}\n");
    bh_rq_answer_raw(rq, 200, BH_S(AGGREGATED_TYPE), bh_str_dup(rq->a, bh_buf_str(&b)));
    return 0;
}

/* The first media type that is offered decides; that of the aggregated form is written with its
 * three parameters. */
static bool wants_aggregated(struct bh_rq *rq)
{
    struct bh_str rest = rq->accept;

    while (rest.p && rest.n > 0) {
        struct bh_str clause = bh_str_cut(&rest, ',');
        struct bh_str type = bh_str_trim(bh_str_cut(&clause, ';'));
        bool as = false, v = false, g = false;

        while (clause.p && clause.n > 0) {
            struct bh_str p = bh_str_trim(bh_str_cut(&clause, ';'));

            as |= bh_str_eqc(p, "as=APIGroupDiscoveryList");
            v |= bh_str_eqc(p, "v=v2");
            g |= bh_str_eqc(p, "g=apidiscovery.k8s.io");
        }
        if (as && v && g && bh_str_eqc(type, "application/json"))
            return true;
    }
    return false;
}

/* ---- roots ---- */

static int core_versions(struct bh_rq *rq)
{
    int port = rq->srv->port > 0 ? rq->srv->port : 6443;

    bh_rq_answer_json(rq, 200,
                      bh_str_fmt(rq->a,
                                 "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],"
                                 "\"serverAddressByClientCIDRs\":[{\"clientCIDR\":"
                                 "\"0.0.0.0/0\",\"serverAddress\":\"127.0.0.1:%d\"}]}",
                                 port));
    return 0;
}

/* JSON is all there is, whatever parameters stand beside it. */
static bool wants_json(const struct bh_rq *rq)
{
    struct bh_str rest = rq->accept;

    if (rest.n == 0)
        return true;
    while (rest.p) {
        struct bh_str clause = bh_str_cut(&rest, ','), type = bh_str_trim(bh_str_cut(&clause, ';'));

        if (bh_str_eqc(type, "*/*") || bh_str_eqc(type, "application/json"))
            return true;
    }
    return false;
}

static int version_info(struct bh_rq *rq)
{
    if (!wants_json(rq)) {
        int r = bh_fail_msg(rq, BH_E_NOT_ACCEPTABLE,
                            "406: Not Acceptable\n\nAvailable representations: application/json");

        rq->fail.details = true;
        return r;
    }
    rq->form = BH_FORM_JSON;
    rq->as = BH_AS_OBJECT;
    bh_rq_answer_json(
        rq, 200,
        BH_S("{\"major\":\"1\",\"minor\":\"36\",\"emulationMajor\":\"1\",\"emulationMinor\":\"36\","
             "\"minCompatibilityMajor\":\"1\",\"minCompatibilityMinor\":\"35\",\"gitVersion\":\"v1."
             "36.2\",\"gitCommit\":"
             "\"bulkhead\",\"gitTreeState\":\"clean\",\"buildDate\":\"2026-01-01T00:00:00Z\","
             "\"goVersion\":\"none\","
             "\"compiler\":\"gcc\",\"platform\":\"linux/amd64\"}"));
    return 0;
}

static int root_paths(struct bh_rq *rq)
{
    struct gv *v;
    size_t n = all_versions(rq, &v);
    BH_AUTO_BUF b = {0};

    bh_buf_addz(&b, "{\"paths\":[\"/.well-known/openid-configuration\",\"/api\",\"/api/v1\",\"/"
                    "apis\",\"/apis/\"");
    for (size_t i = 0; i < n; i++) {
        if (v[i].group.n == 0)
            continue;
        if (i == 0 || !bh_str_eq(v[i].group, v[i - 1].group))
            bh_buf_addf(&b, ",\"/apis/%.*s\"", BH_SF(v[i].group));
        bh_buf_addf(&b, ",\"/apis/%.*s/%.*s\"", BH_SF(v[i].group), BH_SF(v[i].version));
    }
    bh_buf_addz(
        &b,
        ",\"/healthz\",\"/livez\",\"/metrics\",\"/openapi/v2\",\"/openapi/v3\",\"/openapi/v3/\","
        "\"/readyz\",\"/version\"]}");
    bh_rq_answer_json(rq, 200, bh_str_dup(rq->a, bh_buf_str(&b)));
    return 0;
}

static bool is_get(const struct bh_rq *rq)
{
    return bh_str_eqc(rq->method, "GET");
}

static int serve(struct bh_rq *rq, struct bh_str *p, size_t n)
{
    if (n == 0)
        return root_paths(rq);
    if (bh_str_eqc(p[0], "version")) {
        if (n > 1)
            return bh_fail_generic(rq, BH_E_NOT_FOUND);
        return is_get(rq) ? version_info(rq) : bh_fail_generic(rq, BH_E_METHOD);
    }
    if (rq->as != BH_AS_OBJECT && n > 1)
        return bh_media_no_shape(rq);
    if (bh_str_eqc(p[0], "api")) {
        if (n == 2 && !bh_str_eqc(p[1], "v1"))
            return bh_fail_generic(rq, BH_E_NOT_FOUND);
        if (n == 1)
            return is_get(rq) ? core_versions(rq) : bh_fail_generic(rq, BH_E_METHOD);
        if (n == 2 && is_get(rq))
            return resource_list(rq, BH_S(""), p[1]);
        return bh_fail_generic(rq, n == 2 ? BH_E_METHOD : BH_E_NOT_FOUND);
    }
    if (n == 1)
        return group_list(rq);
    if (n == 2)
        return one_group(rq, p[1]);
    if (n == 3) {
        struct gv *v;
        size_t all = all_versions(rq, &v);
        bool known = false;

        for (size_t i = 0; i < all; i++)
            known |= bh_str_eq(v[i].group, p[1]);
        if (!known)
            return bh_fail_text(rq, 404, BH_S("404 page not found\n"));
        return is_get(rq) ? resource_list(rq, p[1], p[2]) : bh_fail_generic(rq, BH_E_METHOD);
    }
    return bh_fail_generic(rq, BH_E_NOT_FOUND);
}

int bh_discovery_serve(struct bh_rq *rq)
{
    struct bh_str rest = rq->ri.path, p[8];
    size_t n = 0;
    int r;

    while (rest.n > 0 && rest.p[0] == '/')
        rest = bh_str_sub(rest, 1, rest.n);
    while (rest.p && rest.n > 0 && n < BH_COUNT(p))
        p[n++] = bh_str_cut(&rest, '/');
    if (n == 1 && (bh_str_eqc(p[0], "api") || bh_str_eqc(p[0], "apis")) && wants_aggregated(rq) &&
        is_get(rq))
        return aggregated(rq, bh_str_eqc(p[0], "api"));
    r = bh_media_negotiate(rq, false);
    if (r < 0 && !(n == 1 && bh_str_eqc(p[0], "version")))
        return r;
    return serve(rq, p, n);
}
