/* Contents: devices that no selector can tell apart share one entry, so that an answer is found out
 * once. */
#include "dra/dra_int.h"

#include <string.h>

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + UINT64_C(0x9e3779b97f4a7c15) + (h << 6) + (h >> 2);
    return h * UINT64_C(0xff51afd7ed558ccd);
}

static uint64_t attr_hash(const struct bh_resource_v1_device_attribute *a, uint64_t h)
{
    if (a->has_int)
        h = mix(h, (uint64_t)a->int_);
    if (a->has_bool)
        h = mix(h, a->bool_ ? 3 : 2);
    if (a->has_string)
        h = mix(h, bh_str_hash(a->string));
    if (a->has_version)
        h = mix(h, bh_str_hash(a->version) + 1);
    for (size_t i = 0; i < a->ints.n; i++)
        h = mix(h, (uint64_t)a->ints.p[i] + 5);
    for (size_t i = 0; i < a->bools.n; i++)
        h = mix(h, a->bools.p[i] ? 9 : 8);
    for (size_t i = 0; i < a->strings.n; i++)
        h = mix(h, bh_str_hash(a->strings.p[i]) + 2);
    for (size_t i = 0; i < a->versions.n; i++)
        h = mix(h, bh_str_hash(a->versions.p[i]) + 3);
    return h;
}

static uint64_t dev_hash(const struct dra_dev *d)
{
    uint64_t h = mix(d->multi, bh_str_hash(d->slice->spec->driver));

    for (size_t i = 0; i < d->d->attributes.n; i++)
        h = attr_hash(&d->d->attributes.p[i].value, mix(h, bh_str_hash(d->d->attributes.p[i].key)));
    for (size_t i = 0; i < d->d->capacity.n; i++)
        h = mix(mix(h, bh_str_hash(d->d->capacity.p[i].key)),
                bh_str_hash(d->d->capacity.p[i].value.value));
    return h;
}

static bool strs_eq(const struct bh_str_vec *a, const struct bh_str_vec *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!bh_str_eq(a->p[i], b->p[i]))
            return false;
    return true;
}

static bool attr_eq(const struct bh_resource_v1_device_attribute *a,
                    const struct bh_resource_v1_device_attribute *b)
{
    return a->has_int == b->has_int && (!a->has_int || a->int_ == b->int_) &&
           a->has_bool == b->has_bool && (!a->has_bool || a->bool_ == b->bool_) &&
           a->has_string == b->has_string && bh_str_eq(a->string, b->string) &&
           a->has_version == b->has_version && bh_str_eq(a->version, b->version) &&
           a->ints.n == b->ints.n &&
           (!a->ints.n || memcmp(a->ints.p, b->ints.p, a->ints.n * sizeof(*a->ints.p)) == 0) &&
           a->bools.n == b->bools.n &&
           (!a->bools.n || memcmp(a->bools.p, b->bools.p, a->bools.n * sizeof(*a->bools.p)) == 0) &&
           strs_eq(&a->strings, &b->strings) && strs_eq(&a->versions, &b->versions);
}

static bool dev_eq(const struct dra_dev *x, const struct dra_dev *y)
{
    const struct bh_resource_v1_device *a = x->d, *b = y->d;

    if (x->multi != y->multi || a->attributes.n != b->attributes.n ||
        a->capacity.n != b->capacity.n ||
        !bh_str_eq(x->slice->spec->driver, y->slice->spec->driver))
        return false;
    for (size_t i = 0; i < a->attributes.n; i++)
        if (!bh_str_eq(a->attributes.p[i].key, b->attributes.p[i].key) ||
            !attr_eq(&a->attributes.p[i].value, &b->attributes.p[i].value))
            return false;
    for (size_t i = 0; i < a->capacity.n; i++)
        if (!bh_str_eq(a->capacity.p[i].key, b->capacity.p[i].key) ||
            !bh_str_eq(a->capacity.p[i].value.value, b->capacity.p[i].value.value))
            return false;
    return true;
}

static uint32_t id_take(struct bh_dra_model *m)
{
    return m->free_ids_n ? m->free_ids[--m->free_ids_n] : m->next_id++;
}

static void id_give(struct bh_dra_model *m, uint32_t id)
{
    if (m->free_ids_n == m->free_ids_cap) {
        m->free_ids_cap = m->free_ids_cap ? m->free_ids_cap * 2 : 64;
        m->free_ids = bh_realloc(m->free_ids, m->free_ids_cap * sizeof(*m->free_ids));
    }
    m->free_ids[m->free_ids_n++] = id;
    dra_sels_forget(m, id);
}

void dra_content_join(struct bh_dra_model *m, struct dra_dev *d)
{
    uint64_t hash = dev_hash(d);
    struct bh_str key = {(const char *)&hash, sizeof(hash)};
    struct dra_content *head = bh_map_get(&m->contents, key), *c = head;

    while (c && !dev_eq(c->first, d))
        c = c->chain;
    if (!c) {
        c = bh_calloc(1, sizeof(*c));
        c->hash = hash;
        c->id = id_take(m);
        c->chain = head;
        (void)bh_map_put(&m->contents, key, c);
    }
    d->content = c;
    d->content_next = c->first;
    if (c->first)
        c->first->content_prev = d;
    c->first = d;
}

void dra_content_leave(struct bh_dra_model *m, struct dra_dev *d)
{
    struct dra_content *c = d->content, **at, *head;
    struct bh_str key = {(const char *)&c->hash, sizeof(c->hash)};

    if (d->content_prev)
        d->content_prev->content_next = d->content_next;
    else
        c->first = d->content_next;
    if (d->content_next)
        d->content_next->content_prev = d->content_prev;
    d->content = NULL;
    if (c->first)
        return;
    head = bh_map_get(&m->contents, key);
    for (at = &head; *at != c;)
        at = &(*at)->chain;
    *at = c->chain;
    if (head)
        (void)bh_map_put(&m->contents, key, head);
    else
        (void)bh_map_del(&m->contents, key);
    id_give(m, c->id);
    bh_free(c);
}
