/* The result: AllocationResult of each claim, ready to be stored (dra.md section 4.10). */
#include <stdio.h>
#include <string.h>

#include "api/engine.h"
#include "dra/search.h"

static struct bh_str_vec strs_dup(struct bh_arena *a, const struct bh_str_vec *v)
{
    struct bh_str_vec c = {v->n ? bh_new_n(a, struct bh_str, v->n) : NULL, v->n};

    for (size_t i = 0; i < v->n; i++)
        c.p[i] = bh_str_dup(a, v->p[i]);
    return c;
}

/* ---- devices ---- */

static struct bh_str share_id(struct dra_call *c, const struct dra_placed *p, size_t at)
{
    char id[37];
    struct bh_str uid = c->q->claims[p->claim]->metadata.uid;
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    if (c->opts->uuid) {
        c->opts->uuid(c->opts->uuid_arg, id);
        return bh_str_dup(c->a, bh_s(id));
    }
    for (size_t i = 0; i < uid.n; i++)
        h = (h ^ (unsigned char)uid.p[i]) * UINT64_C(0x100000001b3);
    (void)snprintf(id, sizeof(id), "%08x-%04x-4%03x-8%03x-%012llx", (unsigned)(h >> 32),
                   (unsigned)(h >> 16) & 0xffff, (unsigned)(h >> 4) & 0xfff,
                   (unsigned)p->claim & 0xfff, (unsigned long long)(at & 0xffffff));
    return bh_str_dup(c->a, bh_s(id));
}

static struct bh_str_map consumed(struct dra_call *c, const struct dra_placed *p)
{
    size_t n = c->cands[p->cand].dev->caps_n;
    struct bh_str_map m = {0};

    for (size_t i = 0; i < n; i++)
        bh_str_map_put(c->a, &m, bh_str_dup(c->a, p->caps[i].key),
                       bh_quantity_str(c->a, p->caps[i].q));
    return m;
}

static void device_result(struct dra_call *c, const struct dra_placed *p, size_t at,
                          struct bh_resource_v1_device_request_allocation_result *r)
{
    const struct dra_dev *d = c->cands[p->cand].dev;

    r->request = bh_str_dup(c->a, p->sub->result);
    r->driver = bh_str_dup(c->a, d->slice->spec->driver);
    r->pool = bh_str_dup(c->a, d->slice->spec->pool.name);
    r->device = bh_str_dup(c->a, d->d->name);
    r->admin_access = r->has_admin_access = p->sub->admin;
    if (p->sub->tolerations.n) {
        r->tolerations.n = p->sub->tolerations.n;
        r->tolerations.p =
            bh_new_n(c->a, struct bh_resource_v1_device_toleration, r->tolerations.n);
        for (size_t i = 0; i < r->tolerations.n; i++)
            bh_msg_copy(&bh_resource_v1_device_toleration_type, &r->tolerations.p[i],
                        &p->sub->tolerations.p[i], c->a);
    }
    if (c->m->f.binding_conditions) {
        r->binding_conditions = strs_dup(c->a, &d->d->binding_conditions);
        r->binding_failure_conditions = strs_dup(c->a, &d->d->binding_failure_conditions);
    }
    if (p->share) {
        r->has_share_id = true;
        r->share_id = share_id(c, p, at);
        r->consumed_capacity = consumed(c, p);
    }
}

/* ---- configuration ---- */

struct configs {
    struct bh_resource_v1_device_allocation_configuration *p;
    size_t n, cap;
};

static struct bh_resource_v1_device_allocation_configuration *
config_add(struct dra_call *c, struct configs *cs, const char *source,
           const struct bh_resource_v1_device_configuration *conf)
{
    struct bh_resource_v1_device_allocation_configuration *e;

    bh_arena_grow(c->a, &cs->p, &cs->cap, cs->n + 1, sizeof(*cs->p));
    e = &cs->p[cs->n++];
    memset(e, 0, sizeof(*e));
    e->source = bh_s(source);
    bh_msg_copy(&bh_resource_v1_device_configuration_type, &e->device_configuration, conf, c->a);
    return e;
}

static void requests_add(struct dra_call *c, struct bh_str_vec *v, struct bh_str name)
{
    struct bh_str *p = bh_new_n(c->a, struct bh_str, v->n + 1);

    if (v->n)
        memcpy(p, v->p, v->n * sizeof(*p));
    p[v->n++] = bh_str_dup(c->a, name);
    v->p = p;
}

/* Of each class once; requests that share a class are listed together. */
static void class_configs(struct dra_call *c, size_t claim, struct configs *cs)
{
    const struct dra_dclaim *dc = &c->d->claims[claim];
    size_t *first =
        bh_new_n(c->a, size_t, dc->n); /* where the entries of a request's class begin */

    for (size_t i = 0; i < dc->n; i++) {
        const struct dra_sub *s = &dc->reqs[i].subs[c->chosen[claim][i]];
        size_t k = 0;

        while (k < i && !bh_str_eq(dc->reqs[k].subs[c->chosen[claim][k]].class_name, s->class_name))
            k++;
        first[i] = k < i ? first[k] : cs->n;
        for (size_t j = 0; j < s->cls->config.n; j++) {
            if (k == i)
                (void)config_add(c, cs, "FromClass", &s->cls->config.p[j].device_configuration);
            requests_add(c, &cs->p[first[i] + j].requests, s->result);
        }
    }
}

/* One entry for each request that it names, as upstream. */
static void claim_configs(struct dra_call *c, size_t claim, struct configs *cs)
{
    const struct dra_dclaim *dc = &c->d->claims[claim];
    const struct bh_resource_v1_device_claim_configuration_vec *conf =
        &c->q->claims[claim]->spec.devices.config;

    for (size_t i = 0; i < conf->n; i++) {
        const struct bh_resource_v1_device_claim_configuration *in = &conf->p[i];

        if (in->requests.n == 0) {
            (void)config_add(c, cs, "FromClaim", &in->device_configuration);
            continue;
        }
        for (size_t k = 0; k < dc->n; k++) {
            const struct dra_sub *s = &dc->reqs[k].subs[c->chosen[claim][k]];

            for (size_t j = 0; j < in->requests.n; j++)
                if (bh_str_eq(in->requests.p[j], dc->reqs[k].name) ||
                    (dc->reqs[k].listed && bh_str_eq(in->requests.p[j], s->result))) {
                    config_add(c, cs, "FromClaim", &in->device_configuration)->requests =
                        strs_dup(c->a, &in->requests);
                    break;
                }
        }
    }
}

/* ---- node selector ---- */

static bool has_all_values(const struct bh_str_vec *a, const struct bh_str_vec *b)
{
    for (size_t i = 0; i < a->n; i++) {
        size_t k = 0;

        while (k < b->n && !bh_str_eq(a->p[i], b->p[k]))
            k++;
        if (k == b->n)
            return false;
    }
    return true;
}

static void reqs_add(struct dra_call *c, struct bh_core_v1_node_selector_requirement_vec *to,
                     const struct bh_core_v1_node_selector_requirement_vec *from)
{
    for (size_t i = 0; i < from->n; i++) {
        const struct bh_core_v1_node_selector_requirement *r = &from->p[i];
        struct bh_core_v1_node_selector_requirement *p;
        size_t k = 0;

        while (k < to->n &&
               !(bh_str_eq(to->p[k].key, r->key) && bh_str_eq(to->p[k].operator, r->operator) &&
                 has_all_values(&to->p[k].values, &r->values) &&
                 has_all_values(&r->values, &to->p[k].values)))
            k++;
        if (k < to->n)
            continue;
        p = bh_new_n(c->a, struct bh_core_v1_node_selector_requirement, to->n + 1);
        if (to->n)
            memcpy(p, to->p, to->n * sizeof(*p));
        p[to->n].key = bh_str_dup(c->a, r->key);
        p[to->n].operator= bh_str_dup(c->a, r->operator);
        p[to->n].values = strs_dup(c->a, &r->values);
        to->p = p;
        to->n++;
    }
}

/* The node itself, when a device is bound to it. */
static struct bh_core_v1_node_selector *selector_of_node(struct dra_call *c)
{
    struct bh_core_v1_node_selector *sel = bh_new(c->a, struct bh_core_v1_node_selector);
    struct bh_core_v1_node_selector_term *t = bh_new(c->a, struct bh_core_v1_node_selector_term);
    struct bh_core_v1_node_selector_requirement *r =
        bh_new(c->a, struct bh_core_v1_node_selector_requirement);

    c->own_node = true;
    r->key = BH_S("metadata.name");
    r->operator= BH_S("In");
    r->values.p = bh_new(c->a, struct bh_str);
    r->values.p[0] = bh_str_dup(c->a, c->node->name);
    r->values.n = 1;
    t->match_fields.p = r;
    t->match_fields.n = 1;
    sel->node_selector_terms.p = t;
    sel->node_selector_terms.n = 1;
    return sel;
}

static int node_selector(struct dra_call *c, size_t claim, struct bh_core_v1_node_selector **ret)
{
    struct bh_core_v1_node_selector *sel = bh_new(c->a, struct bh_core_v1_node_selector);
    struct bh_core_v1_node_selector_term *t = bh_new(c->a, struct bh_core_v1_node_selector_term);

    /* In the order of the devices: one that is local settles it, one that cannot be expressed
     * before it is an error. */
    for (size_t i = 0; i < c->placed_n; i++) {
        const struct dra_dev *d = c->cands[c->placed[i].cand].dev;
        bool own = d->slice->per_device;
        bool local = own ? d->d->has_node_name : d->slice->spec->has_node_name;
        const struct bh_core_v1_node_selector *s =
            own ? d->d->node_selector : d->slice->spec->node_selector;

        if (c->placed[i].claim != claim)
            continue;
        if (local || (d->d->has_binds_to_node && d->d->binds_to_node)) {
            *ret = selector_of_node(c);
            return 0;
        }
        if (!s || s->node_selector_terms.n == 0)
            continue;
        if (s->node_selector_terms.n > 1)
            return bh_err_set(c->err, BH_E_INVALID,
                              "create NodeSelector for claim %.*s: unsupported "
                              "ResourceSlice.NodeSelector with %zu terms",
                              BH_SF(c->q->claims[claim]->metadata.name), s->node_selector_terms.n);
        reqs_add(c, &t->match_fields, &s->node_selector_terms.p[0].match_fields);
        reqs_add(c, &t->match_expressions, &s->node_selector_terms.p[0].match_expressions);
    }
    if (t->match_fields.n || t->match_expressions.n) {
        sel->node_selector_terms.p = t;
        sel->node_selector_terms.n = 1;
        *ret = sel;
    }
    return 0;
}

int dra_result(struct dra_call *c, struct bh_dra_result *ret)
{
    ret->allocations = bh_new_n(c->a, struct bh_resource_v1_allocation_result, c->d->n);
    ret->n = c->d->n;
    for (size_t i = 0; i < c->d->n; i++) {
        struct bh_resource_v1_allocation_result *al = &ret->allocations[i];
        struct configs cs = {0};
        size_t n = 0;
        int r;

        al->devices.results.n = c->per_claim[i];
        if (c->per_claim[i])
            al->devices.results.p = bh_new_n(
                c->a, struct bh_resource_v1_device_request_allocation_result, c->per_claim[i]);
        for (size_t k = 0; k < c->placed_n; k++)
            if (c->placed[k].claim == i)
                device_result(c, &c->placed[k], k, &al->devices.results.p[n++]);
        class_configs(c, i, &cs);
        claim_configs(c, i, &cs);
        al->devices.config.p = cs.p;
        al->devices.config.n = cs.n;
        r = node_selector(c, i, &al->node_selector);
        if (r < 0)
            return r;
        for (size_t k = 0; k < c->d->claims[i].n; k++)
            if (c->d->claims[i].reqs[k].listed)
                ret->prefer += 8 - (int64_t)c->chosen[i][k];
    }
    ret->score = dra_score(c);
    return 0;
}
