/* OpenAPI documents beside those of a Kubernetes API server. */
#include "api/openapi.h"
#include "api/openapi_v2_pb.h"
#include "base/arena.h"
#include "base/fs.h"
#include "base/test.h"
#include "data/json.h"
#include "data/pbwire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counts {
    unsigned schemas, properties, paths, other;
};

static void differ(struct counts *n, struct bh_str schema, struct bh_str prop, const char *what)
{
    n->other++;
    if (getenv("BH_SHOW"))
        printf("%.*s %.*s: %s\n", BH_SF(schema), BH_SF(prop), what);
}

/* What a client acts on: types, references, list and patch markers. */
static void compare_property(struct bh_str schema, struct bh_str name, const struct bh_jv *got,
                             const struct bh_jv *want, struct counts *n)
{
    static const char *const parts[] = {"type",
                                        "format",
                                        "allOf",
                                        "items",
                                        "additionalProperties",
                                        "x-kubernetes-list-type",
                                        "x-kubernetes-list-map-keys",
                                        "x-kubernetes-map-type",
                                        "x-kubernetes-patch-merge-key",
                                        "x-kubernetes-patch-strategy",
                                        "enum",
                                        "default"};

    for (size_t i = 0; i < BH_COUNT(parts); i++) {
        const struct bh_jv *g = bh_jv_getc(got, parts[i]), *w = bh_jv_getc(want, parts[i]);

        if ((g || w) && !(g && w && bh_jv_eq(g, w)))
            differ(n, schema, name, parts[i]);
    }
    n->properties++;
}

static bool same_names(const struct bh_jv *x, const struct bh_jv *y)
{
    size_t nx = x ? x->n_items : 0, ny = y ? y->n_items : 0, same = 0;

    for (size_t i = 0; i < nx; i++)
        for (size_t k = 0; k < ny; k++)
            same += bh_jv_eq(&x->items[i], &y->items[k]);
    return nx == ny && same == nx;
}

static void compare_schemas(const struct bh_jv *got, const struct bh_jv *want, struct counts *n)
{
    for (size_t i = 0; got && i < got->n_members; i++) {
        struct bh_str name = got->members[i].key;
        const struct bh_jv *g = &got->members[i].v, *w = bh_jv_get(want, name);

        if (!w) {
            differ(n, name, BH_S(""), "unknown schema");
            continue;
        }
        const struct bh_jv *gp = bh_jv_getc(g, "properties"), *wp = bh_jv_getc(w, "properties");

        n->schemas++;
        if (!same_names(bh_jv_getc(g, "required"), bh_jv_getc(w, "required")))
            bh_test_fail(__FILE__, __LINE__, "%.*s: other fields are required than upstream",
                         BH_SF(name));
        for (size_t k = 0; gp && k < gp->n_members; k++) {
            const struct bh_jv *p = bh_jv_get(wp, gp->members[k].key);

            if (p)
                compare_property(name, gp->members[k].key, &gp->members[k].v, p, n);
            else
                differ(n, name, gp->members[k].key, "unknown property");
        }
        for (size_t k = 0; wp && k < wp->n_members; k++)
            if (!bh_jv_get(gp, wp->members[k].key))
                differ(n, name, wp->members[k].key, "lacking property");
    }
}

static void compare_paths(const struct bh_jv *got, const struct bh_jv *want, struct counts *n)
{
    static const char *const methods[] = {"get", "put", "post", "patch", "delete"};

    for (size_t i = 0; got && i < got->n_members; i++) {
        struct bh_str path = got->members[i].key;
        const struct bh_jv *w = bh_jv_get(want, path);

        n->paths++;
        if (!w)
            differ(n, path, BH_S(""), "unknown path");
        for (size_t k = 0; w && k < BH_COUNT(methods); k++) {
            const struct bh_jv *go = bh_jv_getc(&got->members[i].v, methods[k]),
                               *wo = bh_jv_getc(w, methods[k]);

            if (!go && !wo)
                continue;
            if (!go || !wo) {
                differ(n, path, bh_s(methods[k]), go ? "unknown method" : "lacking method");
                continue;
            }
            if (!bh_str_eq(bh_jv_get_str(go, "x-kubernetes-action"),
                           bh_jv_get_str(wo, "x-kubernetes-action")))
                differ(n, path, bh_s(methods[k]), "action");
            const struct bh_jv *x = bh_jv_getc(go, "x-kubernetes-group-version-kind"),
                               *y = bh_jv_getc(wo, "x-kubernetes-group-version-kind");

            if (x && y && !bh_jv_eq(x, y))
                differ(n, path, bh_s(methods[k]), "kind");
        }
    }
}

static void compare_version(const struct bh_kind *k, struct counts *n)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF got = {0}, want = {.max = 64u << 20};
    struct bh_jv g, w;
    struct bh_err err = {0};
    char rel[128];

    if (k->group.n)
        snprintf(rel, sizeof(rel), "openapi/v3/apis_%.*s_%.*s.json", BH_SF(k->group),
                 BH_SF(k->version));
    else
        snprintf(rel, sizeof(rel), "openapi/v3/api_%.*s.json", BH_SF(k->version));
    const char *path = bh_test_shared(rel);

    if (!bh_openapi_v3(k->group, k->version, &got))
        return;
    if (bh_jv_parse(a, bh_buf_str(&got), NULL, &g, &err) < 0) {
        bh_test_fail(__FILE__, __LINE__, "%s: %s", rel, err.msg);
        return;
    }
    if (!path || bh_fs_read(path, 64u << 20, &want, &err) < 0 ||
        bh_jv_parse(a, bh_buf_str(&want), NULL, &w, &err) < 0)
        return;
    compare_schemas(bh_jv_path(&g, "components.schemas"), bh_jv_path(&w, "components.schemas"), n);
    compare_paths(bh_jv_getc(&g, "paths"), bh_jv_getc(&w, "paths"), n);
}

BH_TEST(openapi_v3_beside_upstream)
{
    size_t total;
    const struct bh_kind *const *kinds = bh_kinds(&total);
    struct counts n = {0};

    if (!bh_test_shared("openapi/v3")) {
        bh_test_skip("no OpenAPI documents");
        return;
    }
    for (size_t i = 0; i < total; i++) {
        bool first = true;

        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(kinds[k]->group, kinds[i]->group) &&
                bh_str_eq(kinds[k]->version, kinds[i]->version))
                first = false;
        if (first)
            compare_version(kinds[i], &n);
    }
    printf("OpenAPI: %u schemas, %u properties, %u paths compared, %u differences\n", n.schemas,
           n.properties, n.paths, n.other);
    BH_CHECK(n.schemas > 100);
}

BH_TEST(openapi_v2_is_json)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {0};
    struct bh_err err = {0};
    struct bh_jv v;

    bh_openapi_v2(BH_S("v1.36.2"), &b);
    BH_EQ(bh_jv_parse(a, bh_buf_str(&b), NULL, &v, &err), 0);
    const struct bh_jv *pod =
        bh_jv_get(bh_jv_getc(&v, "definitions"), BH_S("io.k8s.api.core.v1.Pod"));

    BH_CHECK(pod != NULL);
    BH_STREQ(bh_jv_get_str(bh_jv_at(bh_jv_getc(pod, "x-kubernetes-group-version-kind"), 0), "kind"),
             "Pod");
}

/* The first field of that number, {NULL, 0} without. */
static struct bh_str pb_field(struct bh_str msg, uint32_t number)
{
    struct bh_pb_rd rd = bh_pb_rd(msg);
    struct bh_pb_field f;

    while (bh_pb_next(&rd, &f, NULL) > 0)
        if (f.number == number && f.type == BH_PB_LEN)
            return f.bytes;
    return (struct bh_str){NULL, 0};
}

static bool str_is(struct bh_str s, const char *want)
{
    return bh_str_eqc(s, want);
}

BH_TEST(openapi_v2_in_protobuf)
{
    static const char small[] =
        "{\"swagger\":\"2.0\",\"info\":{\"title\":\"t\",\"version\":\"v1\"},"
        "\"paths\":{\"/a\":{\"get\":{\"operationId\":\"readA\",\"parameters\":[{\"in\":\"query\","
        "\"name\":\"q\",\"type\":\"string\"}],\"responses\":{\"200\":{\"description\":\"OK\"}}}}},"
        "\"definitions\":{\"A\":{\"type\":\"object\",\"minLength\":7,\"x-k\":{\"b\":1}}}}";
    BH_AUTO_BUF b = {0}, json = {0}, all = {0};
    struct bh_err err = {0};
    struct bh_str doc, path, get, param, def;

    BH_EQ(bh_openapi_v2_pb(BH_S(small), &b, &err), 0);
    doc = bh_buf_str(&b);
    BH_CHECK(str_is(pb_field(doc, 1), "2.0"));
    BH_CHECK(str_is(pb_field(pb_field(doc, 2), 2), "v1"));
    path = pb_field(pb_field(doc, 8), 2); /* Paths.path[0] */
    BH_CHECK(str_is(pb_field(path, 1), "/a"));
    get = pb_field(pb_field(path, 2), 2);
    BH_CHECK(str_is(pb_field(get, 5), "readA"));
    param = pb_field(pb_field(get, 8), 1);   /* ParametersItem.parameter */
    param = pb_field(pb_field(param, 2), 3); /* NonBodyParameter.query */
    BH_CHECK(str_is(pb_field(param, 4), "q"));
    BH_CHECK(str_is(pb_field(param, 6), "string"));
    def = pb_field(pb_field(doc, 9), 1);
    BH_CHECK(str_is(pb_field(def, 1), "A"));
    BH_CHECK(str_is(pb_field(pb_field(pb_field(def, 2), 22), 1), "object"));
    def = pb_field(pb_field(def, 2), 31); /* NamedAny */
    BH_CHECK(str_is(pb_field(def, 1), "x-k"));
    BH_CHECK(str_is(pb_field(pb_field(def, 2), 2), "{\"b\":1}"));

    bh_openapi_v2(BH_S("v1.36.2"), &json);
    BH_EQ(bh_openapi_v2_pb(bh_buf_str(&json), &all, &err), 0);
    BH_CHECK(bh_buf_str(&all).n > 100000);
    BH_CHECK(bh_openapi_v2_pb(BH_S("{\"definitions\":{"), &b, &err) < 0);
}
