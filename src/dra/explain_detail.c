/* Explaining in detail: what exactly a device lacks. Only for people who asked: it evaluates the
 * parts of selectors one by one. */
#include <stdio.h>

#include "cel/device_env.h"
#include "dra/search.h"

void dra_detail_selector(struct dra_call *c, const struct dra_sub *s, size_t at,
                         const struct dra_dev *d, struct bh_dra_verdict *ret)
{
    struct dra_sel *sel = s->sels[at];
    struct bh_cel_why_part part;

    ret->selector = at < s->class_n ? at : at - s->class_n;
    if (!sel->why)
        sel->why = bh_cel_why_new(sel->text);
    if (!bh_cel_why_find(sel->why, bh_cel_device_from_api(c->a, d->slice->spec->driver, d->d), c->a,
                         &part))
        return;
    ret->part_at = part.at;
    ret->part = bh_str_dup(c->a, part.text);
    ret->values = part.values;
    ret->device.detail = bh_str_fmt(c->a, "%.*s is false%s%.*s", BH_SF(part.text),
                                    part.values.n ? ": " : "", BH_SF(part.values));
}

static struct bh_str capacity_lacking(const struct dra_sub *s, const struct dra_dev *d,
                                      const struct dra_cap *caps)
{
    for (size_t i = 0; i < s->caps_n; i++) {
        size_t k = 0;

        while (k < d->caps_n && !bh_str_eq(caps[k].key, s->caps[i].key))
            k++;
        if (k == d->caps_n)
            return s->caps[i].key;
    }
    return (struct bh_str){NULL, 0};
}

/* The first capacity that is missing or does not suffice. */
void dra_detail_capacity(struct dra_call *c, const struct dra_sub *s, struct dra_dev *d,
                         struct bh_dra_verdict *ret)
{
    struct dra_cap *caps = dra_dev_caps(d);
    struct bh_str none = capacity_lacking(s, d, caps);

    if (none.n) {
        ret->device.detail = bh_str_fmt(c->a, "it has no %.*s", BH_SF(none));
        return;
    }
    for (size_t k = 0; k < d->caps_n; k++) {
        const struct bh_quantity *want = dra_amount_find(s->caps, s->caps_n, caps[k].key);
        const struct bh_quantity *used = d->multi ? dra_use_agg(d->use, caps[k].key) : NULL;
        struct bh_quantity left = used ? bh_quantity_sub(caps[k].value, *used) : caps[k].value;
        struct bh_quantity take = {0};
        bool allowed = dra_cap_amount(&caps[k], want, &take);

        if (allowed && bh_quantity_cmp(take, left) <= 0)
            continue;
        ret->capacity = bh_str_dup(c->a, caps[k].key);
        ret->left = bh_quantity_str(c->a, left);
        if (!allowed)
            ret->device.detail =
                bh_str_fmt(c->a, "%.*s: %.*s is not an amount that it gives", BH_SF(caps[k].key),
                           BH_SF(bh_quantity_str(c->a, want ? *want : caps[k].value)));
        else
            ret->device.detail = bh_str_fmt(
                c->a, used ? "%.*s: %.*s wanted, %.*s left" : "%.*s: %.*s wanted, it has %.*s",
                BH_SF(caps[k].key), BH_SF(bh_quantity_str(c->a, take)), BH_SF(ret->left));
        return;
    }
}

void dra_detail_counter(struct dra_call *c, const struct dra_counter *t,
                        const struct dra_consume *k, struct bh_str *ret)
{
    *ret = bh_str_fmt(c->a, "%.*s: %.*s needed, %.*s of %.*s left", BH_SF(*ret),
                      BH_SF(bh_quantity_str(c->a, k->value)),
                      BH_SF(bh_quantity_str(c->a, bh_quantity_sub(t->total, t->used))),
                      BH_SF(bh_quantity_str(c->a, t->total)));
}

void dra_detail_pool(struct dra_call *c, const struct dra_vpool *v, struct bh_str *ret)
{
    size_t have = 0;
    int64_t want = 0;

    for (size_t i = 0; i < v->pool->n; i++) {
        const struct bh_resource_v1_resource_slice_spec *s = v->pool->slices[i]->spec;

        if (s->pool.generation != v->gen)
            continue;
        have++;
        want = s->pool.resource_slice_count;
    }
    *ret = v->incomplete
               ? bh_str_fmt(c->a, "pool %.*s has %zu of %lld slices of generation %lld",
                            BH_SF(v->pool->name), have, (long long)want, (long long)v->gen)
               : bh_str_fmt(c->a, "pool %.*s", BH_SF(v->pool->name));
}
