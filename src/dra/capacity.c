/* Capacities of devices: parsing, request policies, what a request consumes (dra.md section 4.9).
 */
#include <string.h>

#include "dra/dra_int.h"

static bool qty(struct bh_str s, struct bh_quantity *ret)
{
    if (bh_quantity_parse(s, ret, NULL) == 0)
        return true;
    memset(ret, 0, sizeof(*ret));
    return false;
}

static void parse_policy(struct bh_arena *a, struct dra_cap *c,
                         const struct bh_resource_v1_capacity_request_policy *p)
{
    const struct bh_resource_v1_capacity_request_policy_range *r = p->valid_range;

    c->has_policy = true;
    c->has_default = p->has_default;
    if (p->has_default)
        c->bad |= !qty(p->default_, &c->def);
    c->negative |= bh_quantity_sign(c->def) < 0;
    c->valid_n = p->valid_values.n;
    c->valid = bh_new_n(a, struct bh_quantity, c->valid_n);
    for (size_t i = 0; i < c->valid_n; i++) {
        c->bad |= !qty(p->valid_values.p[i], &c->valid[i]);
        c->negative |= bh_quantity_sign(c->valid[i]) < 0;
    }
    if (!r)
        return;
    c->has_range = true;
    c->range.has_min = r->has_min;
    c->range.has_max = r->has_max;
    c->range.has_step = r->has_step;
    if (r->has_min)
        c->bad |= !qty(r->min, &c->range.min);
    c->negative |= bh_quantity_sign(c->range.min) < 0;
    if (r->has_max)
        c->bad |= !qty(r->max, &c->range.max);
    if (r->has_step)
        c->bad |= !qty(r->step, &c->range.step);
}

struct dra_cap *dra_dev_caps(struct dra_dev *d)
{
    size_t n = d->d->capacity.n;

    if (d->caps_parsed)
        return d->caps;
    d->caps_parsed = true;
    if (n == 0)
        return NULL;
    if (!d->slice->arena)
        d->slice->arena = bh_arena_new(0);
    d->caps = bh_new_n(d->slice->arena, struct dra_cap, n);
    d->caps_n = (uint16_t)n;
    d->caps_plain = true;
    for (size_t i = 0; i < n; i++) {
        const struct bh_resource_v1_device_capacity *v = &d->d->capacity.p[i].value;

        d->caps[i].key = d->d->capacity.p[i].key;
        d->caps[i].bad = !qty(v->value, &d->caps[i].value);
        d->caps[i].negative = bh_quantity_sign(d->caps[i].value) < 0;
        if (v->request_policy)
            parse_policy(d->slice->arena, &d->caps[i], v->request_policy);
        d->caps_plain &= !d->caps[i].bad && !d->caps[i].has_policy;
        d->caps_negative |= d->caps[i].negative;
    }
    return d->caps;
}

const struct bh_quantity *dra_amount_find(const struct dra_amount *a, size_t n, struct bh_str key)
{
    for (size_t i = 0; i < n; i++)
        if (bh_str_eq(a[i].key, key))
            return &a[i].q;
    return NULL;
}

/* Rounds a request up to min + k * step. Whole numbers, as upstream. */
static struct bh_quantity round_step(const struct dra_range *r, struct bh_quantity q)
{
    __int128 min = bh_quantity_value(r->min), step = bh_quantity_value(r->step);
    __int128 want = bh_quantity_value(q), n;

    if (step <= 0) /* refused where it was written */
        return q;
    n = (want - min + step - 1) / step;
    return (struct bh_quantity){.coef = min + n * step, .format = BH_Q_BINARY_SI};
}

static struct bh_quantity round_request(const struct dra_cap *c, struct bh_quantity q)
{
    const struct bh_quantity *best = NULL;

    if (c->has_range && c->range.has_min) {
        if (bh_quantity_cmp(q, c->range.min) < 0)
            return c->range.min;
        return c->range.has_step ? round_step(&c->range, q) : q;
    }
    for (size_t i = 0; i < c->valid_n; i++)
        if (bh_quantity_cmp(c->valid[i], q) >= 0 &&
            (!best || bh_quantity_cmp(c->valid[i], *best) < 0))
            best = &c->valid[i];
    return best ? *best : q;
}

static bool violates(const struct dra_cap *c, struct bh_quantity u)
{
    const struct dra_range *r = &c->range;
    int64_t step;

    if (c->has_default && bh_quantity_cmp(u, c->def) == 0)
        return false;
    if (c->has_range) {
        if (r->has_max && bh_quantity_cmp(u, r->max) > 0)
            return true;
        if (!r->has_step || !bh_quantity_is_int(r->step, &step) || step <= 0)
            return false;
        return ((__int128)bh_quantity_value(u) - bh_quantity_value(r->min)) % step != 0;
    }
    for (size_t i = 0; i < c->valid_n; i++)
        if (bh_quantity_cmp(u, c->valid[i]) == 0)
            return false;
    return c->valid_n != 0;
}

bool dra_cap_amount(const struct dra_cap *c, const struct bh_quantity *want,
                    struct bh_quantity *ret)
{
    if (c->bad)
        return false;
    if (!want)
        *ret = c->has_default ? c->def : c->value;
    else
        *ret = c->has_policy ? round_request(c, *want) : *want;
    return !c->has_policy || !violates(c, *ret);
}
