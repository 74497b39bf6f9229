/* Look-ups in the generated tables. */
#include "api/registry.h"

#include <string.h>

static bool ref_is(const struct bh_field_ref *r, struct bh_str name)
{
    return r->f->json.n == name.n && memcmp(r->f->json.p, name.p, name.n) == 0;
}

const struct bh_field_ref *bh_type_find(const struct bh_type *t, struct bh_str name)
{
    if (!t->n_refs || !name.n)
        return NULL;
    uint32_t h = bh_name_hash(name.p, name.n);

    for (uint32_t i = h & t->hash_mask; t->hash[i]; i = (i + 1) & t->hash_mask) {
        const struct bh_field_ref *r = &t->refs[t->hash[i] - 1];

        if (r->hash == h && ref_is(r, name))
            return r;
    }
    return NULL;
}

const struct bh_field *bh_type_field(const struct bh_type *t, struct bh_str name)
{
    const struct bh_field_ref *r = bh_type_find(t, name);

    return r ? r->f : NULL;
}

const struct bh_kind *const *bh_kinds(size_t *n)
{
    *n = bh_registry.n_kinds;
    return bh_registry.kinds;
}

const struct bh_str *bh_schema_gates(size_t *n)
{
    *n = bh_registry.n_gates;
    return bh_registry.gates;
}

const struct bh_kind *bh_kind_by_resource(struct bh_str group, struct bh_str version,
                                          struct bh_str resource)
{
    if (!resource.n)
        return NULL;
    uint32_t mask = bh_registry.resource_mask;

    for (uint32_t i = bh_name_hash(resource.p, resource.n) & mask; bh_registry.by_resource[i];
         i = (i + 1) & mask) {
        const struct bh_kind *k = bh_registry.kinds[bh_registry.by_resource[i] - 1];

        if (bh_str_eq(k->resource, resource) && bh_str_eq(k->version, version) &&
            bh_str_eq(k->group, group))
            return k;
    }
    return NULL;
}

/* Calls for each kind of that name until match() is true. */
static const struct bh_kind *find_kind(struct bh_str kind,
                                       bool (*match)(const struct bh_kind *k, struct bh_str x,
                                                     struct bh_str y),
                                       struct bh_str x, struct bh_str y)
{
    if (!kind.n)
        return NULL;
    uint32_t mask = bh_registry.kind_mask;

    for (uint32_t i = bh_name_hash(kind.p, kind.n) & mask; bh_registry.by_kind[i];
         i = (i + 1) & mask) {
        const struct bh_kind *k = bh_registry.kinds[bh_registry.by_kind[i] - 1];

        if (bh_str_eq(k->kind, kind) && match(k, x, y))
            return k;
    }
    return NULL;
}

static bool is_gv(const struct bh_kind *k, struct bh_str group, struct bh_str version)
{
    return bh_str_eq(k->group, group) && bh_str_eq(k->version, version);
}

static bool is_api_version(const struct bh_kind *k, struct bh_str api_version, struct bh_str unused)
{
    (void)unused;
    return bh_str_eq(k->api_version, api_version);
}

/* The meta kinds (DeleteOptions, Status …) belong to every group and version upstream. */
static bool is_meta(const struct bh_kind *k, struct bh_str x, struct bh_str y)
{
    (void)x;
    (void)y;
    return bh_str_eqc(k->type->proto, "k8s.io.apimachinery.pkg.apis.meta.v1");
}

const struct bh_kind *bh_kind_by_gvk(struct bh_str group, struct bh_str version, struct bh_str kind)
{
    return find_kind(kind, is_gv, group, version);
}

const struct bh_kind *bh_kind_by_api_version(struct bh_str api_version, struct bh_str kind)
{
    const struct bh_kind *k = find_kind(kind, is_api_version, api_version, BH_S(""));

    return k ? k : find_kind(kind, is_meta, BH_S(""), BH_S(""));
}

const struct bh_kind *bh_kind_hub(const struct bh_kind *k)
{
    if (!k->hub.n || bh_str_eq(k->hub, k->version))
        return k;
    const struct bh_kind *h = bh_kind_by_gvk(k->group, k->hub, k->kind);

    return h ? h : k;
}

const struct bh_subresource *bh_kind_sub(const struct bh_kind *k, struct bh_str name)
{
    for (uint32_t i = 0; i < k->n_subs; i++)
        if (bh_str_eq(k->subs[i].name, name))
            return &k->subs[i];
    return NULL;
}
