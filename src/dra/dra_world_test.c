/* The cluster of the tests. */
#include "dra/dra_world_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/obj.h"
#include "base/buf.h"
#include "base/test.h"
#include "data/yaml.h"
#include "dra/dra_int.h"

void world_init(struct world *w, const struct bh_dra_features *f)
{
    struct bh_dra_features all = bh_dra_features_all();

    memset(w, 0, sizeof(*w));
    w->a = bh_arena_new(0);
    w->m = bh_dra_model_new(f ? f : &all);
}

void world_index(struct world *w)
{
    w->m->index_min = 0;
    w->m->astray = 0;
}

void world_done(struct world *w)
{
    struct bh_err err = {0};

    if (bh_dra_self_check(w->m, &err) < 0 && err.code != BH_E_CONFLICT)
        bh_test_fail(__FILE__, __LINE__, "self-check: %s", err.msg);
    for (size_t i = 0; i < w->claims_n; i++)
        (void)bh_obj_unref(w->claims[i].obj);
    bh_free(w->claims);
    bh_buf_done(&w->names);
    w->a = bh_arena_free(w->a);
    w->m = bh_dra_model_free(w->m);
}

static void keep_claim(struct world *w, struct bh_obj *o)
{
    char key[200];
    size_t i = 0;

    (void)snprintf(key, sizeof(key), "%.*s/%.*s", BH_SF(o->ns), BH_SF(o->name));
    while (i < w->claims_n && strcmp(w->claims[i].key, key) != 0)
        i++;
    if (i == w->claims_n) {
        if (w->claims_n == w->claims_cap) {
            w->claims_cap = w->claims_cap ? w->claims_cap * 2 : 16;
            w->claims = bh_realloc(w->claims, w->claims_cap * sizeof(*w->claims));
        }
        memset(&w->claims[i], 0, sizeof(w->claims[i]));
        memcpy(w->claims[i].key, key, sizeof(key));
        w->claims_n++;
    }
    (void)bh_obj_unref(w->claims[i].obj);
    w->claims[i].obj = bh_obj_ref(o);
}

void world_object(struct world *w, const struct bh_jv *in)
{
    struct bh_jv copy = bh_jv_copy(w->a, in), *o = &copy;
    struct bh_str api = bh_jv_get_str(o, "apiVersion"), kind = bh_jv_get_str(o, "kind");
    const struct bh_kind *k = bh_kind_by_api_version(api, kind);
    struct bh_jv *meta = bh_jv_getc(o, "metadata");
    struct bh_err err = {0};
    void *decoded;
    BH_AUTO_BUF b = {0};
    BH_AUTO_OBJ *obj = NULL;

    bh_assert(k && meta);
    if (w->double_names && bh_str_eqc(kind, "ResourceSlice")) {
        struct bh_str name = bh_jv_get_str(meta, "name");
        BH_AUTO_BUF key = {0};

        bh_buf_addf(&key, " %.*s ", BH_SF(name));
        if (bh_str_find(bh_buf_str(&w->names), bh_buf_str(&key)) >= 0)
            bh_jv_setc(w->a, meta, "name",
                       bh_jv_str(bh_str_fmt(w->a, "%.*s~%zu", BH_SF(name), w->names.n)));
        bh_buf_adds(&w->names, bh_buf_str(&key));
    }
    if (!bh_jv_getc(meta, "uid"))
        bh_jv_setc(w->a, meta, "uid",
                   bh_jv_str(bh_str_fmt(w->a, "%.*s/%.*s", BH_SF(bh_jv_get_str(meta, "namespace")),
                                        BH_SF(bh_jv_get_str(meta, "name")))));
    bh_jv_setc(w->a, meta, "resourceVersion", bh_jv_str(BH_S("1")));
    bh_jv_write(&b, o, 0);
    obj = bh_obj_new(k, bh_buf_str(&b), 1, &err);
    if (!obj || bh_kind_decode_json(k, bh_buf_str(&b), w->a, &decoded, NULL, &err) < 0) {
        printf("object: %s\n", err.msg);
        abort();
    }
    if (bh_str_eqc(kind, "Node"))
        bh_dra_node_put(w->m, obj->name, &obj->labels);
    else if (bh_str_eqc(kind, "ResourceSlice"))
        bh_dra_slice_put(w->m, obj);
    else if (bh_str_eqc(kind, "DeviceClass"))
        bh_dra_class_put(w->m, obj);
    else if (bh_str_eqc(kind, "DeviceTaintRule"))
        bh_dra_rule_put(w->m, obj);
    else if (bh_str_eqc(kind, "ResourceClaim")) {
        bh_dra_claim_put(w->m, obj);
        keep_claim(w, obj);
    }
}

void world_yaml(struct world *w, const char *text)
{
    struct bh_jv *docs;
    struct bh_err err = {0};
    size_t n;

    if (bh_yaml_parse_all(w->a, bh_s(text), &docs, &n, &err) < 0) {
        printf("yaml: %s\n%s\n", err.msg, text);
        abort();
    }
    for (size_t i = 0; i < n; i++)
        world_object(w, &docs[i]);
}

const struct bh_resource_v1_resource_claim *world_claim(const struct world *w, const char *key)
{
    for (size_t i = 0; i < w->claims_n; i++)
        if (strcmp(w->claims[i].key, key) == 0)
            return bh_obj_struct(w->claims[i].obj);
    printf("no claim %s\n", key);
    abort();
}

static size_t claims_of(struct world *w, const char *names,
                        const struct bh_resource_v1_resource_claim ***ret)
{
    struct bh_str rest = bh_s(names);
    size_t n = 0;

    *ret = bh_new_n(w->a, const struct bh_resource_v1_resource_claim *, rest.n + 1);
    while (rest.n) {
        struct bh_str one = bh_str_cut(&rest, ' ');

        if (one.n)
            (*ret)[n++] = world_claim(w, bh_str_dup(w->a, one).p);
    }
    return n;
}

enum bh_dra_outcome world_allocate(struct world *w, const char *node, const char *claims)
{
    const struct bh_resource_v1_resource_claim **cs;
    size_t n = claims_of(w, claims, &cs);

    memset(&w->err, 0, sizeof(w->err));
    w->ask = bh_dra_ask_new(w->m, cs, n, w->a);
    return bh_dra_allocate(w->ask, bh_s(node), &w->opts, w->a, &w->res, &w->err);
}

const char *world_got(struct world *w)
{
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < w->res.n; i++) {
        const struct bh_resource_v1_device_request_allocation_result_vec *r =
            &w->res.allocations[i].devices.results;

        if (i)
            bh_buf_addz(&b, " |");
        for (size_t k = 0; k < r->n; k++)
            bh_buf_addf(&b, "%s%.*s/%.*s/%.*s", b.n ? " " : "", BH_SF(r->p[k].driver),
                        BH_SF(r->p[k].pool), BH_SF(r->p[k].device));
    }
    return bh_str_dup(w->a, bh_buf_str(&b)).p;
}

int world_reserve(struct world *w, const char *claims)
{
    const struct bh_resource_v1_resource_claim **cs;
    size_t n = claims_of(w, claims, &cs);
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++)
        r = bh_dra_reserve(w->m, cs[i], &w->res.allocations[i], &w->err);
    return r;
}
