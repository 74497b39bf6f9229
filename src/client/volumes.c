/* See volumes.h. */
#include "client/volumes.h"

#include "base/arena.h"

struct bh_str bh_pvc_class(const struct bh_core_v1_persistent_volume_claim *c)
{
    const struct bh_str *old = bh_str_map_get(&c->metadata.annotations, BH_S(BH_VOL_CLASS));

    return old ? *old : c->spec.storage_class_name;
}

struct bh_str bh_pv_class(const struct bh_core_v1_persistent_volume *v)
{
    const struct bh_str *old = bh_str_map_get(&v->metadata.annotations, BH_S(BH_VOL_CLASS));

    return old ? *old : v->spec.storage_class_name;
}

bool bh_pvc_bound(const struct bh_core_v1_persistent_volume_claim *c)
{
    return c->spec.volume_name.n &&
           bh_str_map_get(&c->metadata.annotations, BH_S(BH_VOL_BIND_COMPLETED));
}

bool bh_pv_ref_is(const struct bh_core_v1_object_reference *r,
                  const struct bh_core_v1_persistent_volume_claim *c)
{
    return r && bh_str_eq(r->name, c->metadata.name) &&
           bh_str_eq(r->namespace, c->metadata.namespace) &&
           (r->uid.n == 0 || bh_str_eq(r->uid, c->metadata.uid));
}

bool bh_pv_mode_fits(const struct bh_core_v1_persistent_volume *v,
                     const struct bh_core_v1_persistent_volume_claim *c)
{
    struct bh_str has = v->spec.has_volume_mode ? v->spec.volume_mode : BH_S("Filesystem");
    struct bh_str wants = c->spec.has_volume_mode ? c->spec.volume_mode : BH_S("Filesystem");

    return bh_str_eq(has, wants);
}

bool bh_pv_access_fits(const struct bh_core_v1_persistent_volume *v,
                       const struct bh_core_v1_persistent_volume_claim *c)
{
    for (size_t i = 0; i < c->spec.access_modes.n; i++) {
        size_t k = 0;

        while (k < v->spec.access_modes.n &&
               !bh_str_eq(v->spec.access_modes.p[k], c->spec.access_modes.p[i]))
            k++;
        if (k == v->spec.access_modes.n)
            return false;
    }
    return true;
}

struct bh_quantity bh_vol_storage(const struct bh_str_map *m)
{
    const struct bh_str *v = bh_str_map_get(m, BH_S("storage"));
    struct bh_quantity q = {0};
    struct bh_err err = {0};

    if (v && bh_quantity_parse(*v, &q, &err) < 0)
        return (struct bh_quantity){0}; /* what is stored is well-formed */
    return q;
}

struct bh_core_v1_object_reference
bh_pvc_reference(const struct bh_core_v1_persistent_volume_claim *c)
{
    return (struct bh_core_v1_object_reference){
        .kind = BH_S("PersistentVolumeClaim"),
        .namespace = c->metadata.namespace,
        .name = c->metadata.name,
        .uid = c->metadata.uid,
        .api_version = BH_S("v1"),
        .resource_version = c->metadata.resource_version,
    };
}

struct bh_str bh_pod_volume_claim(struct bh_arena *a, struct bh_str pod,
                                  const struct bh_core_v1_volume *v)
{
    if (v->volume_source.persistent_volume_claim)
        return v->volume_source.persistent_volume_claim->claim_name;
    if (v->volume_source.ephemeral)
        return bh_str_fmt(a, "%.*s-%.*s", BH_SF(pod), BH_SF(v->name));
    return (struct bh_str){NULL, 0};
}

void bh_pv_search_init(struct bh_pv_search *s, struct bh_arena *a,
                       const struct bh_core_v1_persistent_volume_claim *c, bool for_node,
                       bool delayed)
{
    *s = (struct bh_pv_search){.claim = c, .for_node = for_node, .delayed = delayed};
    s->wanted = bh_vol_storage(&c->spec.resources.requests);
    s->class = bh_pvc_class(c);
    if (c->spec.selector)
        bh_meta_selector(a, c->spec.selector, &s->selector);
}

static struct bh_str attributes_class(bool has, struct bh_str name)
{
    return has ? name : (struct bh_str){NULL, 0};
}

static bool better(const struct bh_pv_search *s, const struct bh_core_v1_persistent_volume *v,
                   struct bh_quantity size)
{
    int c = s->best ? bh_quantity_cmp(size, s->best_size) : -1;

    return c < 0 || (c == 0 && bh_str_cmp(v->metadata.name, s->best->metadata.name) < 0);
}

void bh_pv_search_offer(struct bh_pv_search *s, const struct bh_core_v1_persistent_volume *v,
                        const struct bh_core_v1_object_reference *r, bool reached)
{
    const struct bh_core_v1_persistent_volume_claim_spec *c = &s->claim->spec;
    struct bh_quantity size = bh_vol_storage(&v->spec.capacity);
    bool named = bh_pv_ref_is(r, s->claim);

    if (s->done || (r && !named) || bh_quantity_cmp(size, s->wanted) < 0 ||
        !bh_pv_mode_fits(v, s->claim) || !bh_time_is_zero(v->metadata.deletion_timestamp) ||
        !bh_str_eq(
            attributes_class(c->has_volume_attributes_class_name, c->volume_attributes_class_name),
            attributes_class(v->spec.has_volume_attributes_class_name,
                             v->spec.volume_attributes_class_name)))
        return;
    if (named) { /* it is this one or none */
        s->best = reached ? v : NULL;
        s->done = true;
        return;
    }
    if ((!s->for_node && s->delayed) || !bh_str_eqc(v->status.phase, "Available") ||
        !bh_label_selector_match(&s->selector, &v->metadata.labels) ||
        !bh_str_eq(bh_pv_class(v), s->class) || !reached ||
        (s->for_node && !bh_pv_access_fits(v, s->claim)) || !better(s, v, size))
        return;
    s->best = v;
    s->best_size = size;
}

static enum bh_label_op op_of(struct bh_str s)
{
    if (bh_str_eqc(s, "In"))
        return BH_LABEL_IN;
    if (bh_str_eqc(s, "NotIn"))
        return BH_LABEL_NOT_IN;
    return bh_str_eqc(s, "Exists") ? BH_LABEL_EXISTS : BH_LABEL_NOT_EXISTS;
}

void bh_meta_selector(struct bh_arena *a, const struct bh_meta_v1_label_selector *ls,
                      struct bh_label_selector *ret)
{
    *ret = (struct bh_label_selector){0};
    if (!ls) {
        ret->nothing = true;
        return;
    }
    *ret = bh_label_selector_from_map(a, &ls->match_labels);
    for (size_t i = 0; i < ls->match_expressions.n; i++) {
        const struct bh_meta_v1_label_selector_requirement *r = &ls->match_expressions.p[i];

        if (bh_label_selector_add(a, ret, r->key, op_of(r->operator), r->values, NULL) < 0)
            ret->nothing = true; /* validation keeps such out */
    }
}
