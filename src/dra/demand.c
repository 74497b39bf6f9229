/* Demands: claims read once, and what is learnt about them: answers of selectors, nodes on which
 * they failed. */
#include "dra/dra_int.h"

#include <string.h>

#include "api/engine.h"
#include "cel/device_env.h"
#include "data/json.h"

/* ---- selectors ---- */

static struct dra_sel *sel_get(struct bh_dra_model *m, struct bh_str text)
{
    struct dra_sel *s = bh_map_get(&m->sels, text);
    struct bh_str fault = {0};

    if (s) {
        s->refs++;
        return s;
    }
    s = bh_calloc(1, sizeof(*s));
    s->refs = 1;
    s->text = (struct bh_str){bh_memdup(text.p, text.n), text.n};
    BH_AUTO_ARENA a = bh_arena_new(0);

    if (bh_cel_selector_new(text, a, &s->prog, &fault, NULL) < 0) {
        s->prog = NULL;
        s->fault = bh_strdup_c(fault);
    }
    (void)bh_map_put(&m->sels, text, s);
    return s;
}

static void sel_free(struct dra_sel *s)
{
    (void)bh_cel_selector_free(s->prog);
    (void)bh_cel_why_free(s->why);
    bh_free((void *)(uintptr_t)s->text.p);
    bh_free(s->fault);
    bh_free(s->answers);
    bh_free(s);
}

static void sel_put(struct bh_dra_model *m, struct dra_sel *s)
{
    if (--s->refs)
        return;
    (void)bh_map_del(&m->sels, s->text);
    sel_free(s);
}

void dra_class_compile(struct bh_dra_model *m, struct dra_class *c)
{
    const struct bh_resource_v1_device_selector_vec *v = &c->c->spec.selectors;

    if (c->sels)
        return;
    c->sels = bh_calloc(v->n + 1, sizeof(struct dra_sel *));
    for (size_t i = 0; i < v->n; i++)
        if (v->p[i].cel)
            c->sels[c->sels_n++] = sel_get(m, v->p[i].cel->expression);
}

void dra_class_forget(struct bh_dra_model *m, struct dra_class *c)
{
    for (size_t i = 0; i < c->sels_n; i++)
        sel_put(m, c->sels[i]);
    bh_free(c->sels);
    c->sels = NULL;
    c->sels_n = 0;
}

void dra_sels_done(struct bh_dra_model *m)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&m->sels, &it, NULL, &v))
        sel_free(v);
}

void dra_sels_forget(struct bh_dra_model *m, uint32_t id)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&m->sels, &it, NULL, &v)) {
        struct dra_sel *s = v;

        if (id < s->answers_n)
            s->answers[id] = DRA_UNKNOWN;
    }
}

/* One attribute as the selector environment takes it; false when it has no value that this version
 * knows. */
static bool cel_attr(const struct bh_dra_model *m, struct bh_str key,
                     const struct bh_resource_v1_device_attribute *v, struct bh_cel_attr *ret)
{
    *ret = (struct bh_cel_attr){.name = key};
    if (v->has_int) {
        ret->kind = BH_CEL_ATTR_INT;
        ret->i = v->int_;
    } else if (v->has_bool) {
        ret->kind = BH_CEL_ATTR_BOOL;
        ret->b = v->bool_;
    } else if (v->has_string) {
        ret->kind = BH_CEL_ATTR_STRING;
        ret->s = v->string;
    } else if (v->has_version) {
        ret->kind = BH_CEL_ATTR_VERSION;
        ret->s = v->version;
    } else if (!m->f.list_attributes) {
        return false;
    } else {
        ret->is_list = true;
        if (v->ints.p) {
            ret->kind = BH_CEL_ATTR_INT;
            ret->ints = v->ints.p;
            ret->n = v->ints.n;
        } else if (v->bools.p) {
            ret->kind = BH_CEL_ATTR_BOOL;
            ret->bools = v->bools.p;
            ret->n = v->bools.n;
        } else if (v->strings.p) {
            ret->kind = BH_CEL_ATTR_STRING;
            ret->strs = v->strings.p;
            ret->n = v->strings.n;
        } else if (v->versions.p) {
            ret->kind = BH_CEL_ATTR_VERSION;
            ret->strs = v->versions.p;
            ret->n = v->versions.n;
        } else {
            return false;
        }
    }
    return true;
}

static int evaluate(struct bh_dra_model *m, const struct dra_sel *s, const struct dra_dev *d,
                    struct bh_err *err)
{
    const struct bh_resource_v1_device *r = d->d;
    struct bh_cel_device_in in = {.driver = d->slice->spec->driver,
                                  .allow_multiple = d->multi,
                                  .lists = m->f.list_attributes};
    struct bh_cel_attr *attrs;
    struct bh_cel_capacity *caps;

    bh_arena_reset(m->scratch);
    attrs = bh_new_n(m->scratch, struct bh_cel_attr, r->attributes.n);
    for (size_t i = 0; i < r->attributes.n; i++)
        if (!cel_attr(m, r->attributes.p[i].key, &r->attributes.p[i].value, &attrs[i]))
            return bh_err_set(err, BH_E_INVALID, "attribute %.*s: unsupported attribute value",
                              BH_SF(r->attributes.p[i].key));
    caps = bh_new_n(m->scratch, struct bh_cel_capacity, r->capacity.n);
    for (size_t i = 0; i < r->capacity.n; i++) {
        caps[i].name = r->capacity.p[i].key;
        caps[i].value = r->capacity.p[i].value.value;
    }
    in.attrs = attrs;
    in.attrs_n = r->attributes.n;
    in.caps = caps;
    in.caps_n = r->capacity.n;
    m->st.evaluations++;
    return bh_cel_selector_match(s->prog, bh_cel_device_new(m->scratch, &in), m->scratch, err);
}

int dra_sel_judge(struct bh_dra_model *m, struct dra_sel *s, struct dra_dev *d, struct bh_err *err)
{
    uint32_t id = d->content->id;
    int r;

    if (id < s->answers_n && (s->answers[id] == DRA_YES || s->answers[id] == DRA_NO)) {
        m->st.remembered++;
        return s->answers[id] == DRA_YES;
    }
    if (!s->prog)
        return bh_err_set(err, BH_E_INVALID, "CEL compile error: %s", s->fault);
    if (id >= s->answers_n) {
        size_t n = s->answers_n ? s->answers_n : 64;

        while (n <= id)
            n *= 2;
        s->answers = bh_realloc(s->answers, n);
        memset(s->answers + s->answers_n, DRA_UNKNOWN, n - s->answers_n);
        s->answers_n = n;
    }
    r = evaluate(m, s, d, err);
    s->answers[id] = (uint8_t)(r < 0 ? DRA_ERR : r ? DRA_YES : DRA_NO);
    return r < 0 ? bh_err_wrap(err, "CEL runtime error") : r;
}

int dra_sub_match(struct bh_dra_ask *q, size_t claim, const struct dra_sub *s, struct dra_dev *d,
                  size_t *ret_at, struct bh_err *err)
{
    for (size_t i = 0; i < s->sels_n; i++) {
        int r = dra_sel_judge(q->m, s->sels[i], d, err);

        if (r > 0)
            continue;
        if (ret_at)
            *ret_at = i;
        if (r == 0)
            return 0;
        if (i < s->class_n)
            return bh_err_wrap(err, "class %.*s: selector #%zu", BH_SF(s->class_name), i);
        return bh_err_wrap(err, "claim %.*s/%.*s: selector #%zu",
                           BH_SF(q->claims[claim]->metadata.namespace),
                           BH_SF(q->claims[claim]->metadata.name), i - s->class_n);
    }
    return 1;
}

/* ---- reading claims ---- */

struct reader {
    struct bh_dra_model *m;
    struct dra_demand *d;
    size_t claim;
    struct bh_str req; /* the name that messages give: of the request, or of the alternative */
    bool sub;
};

static void fault(struct reader *r, const char *fmt, ...) BH_PRINTF(2, 3);
static void fault(struct reader *r, const char *fmt, ...)
{
    va_list ap;

    if (r->d->fault.n)
        return; /* the first problem counts */
    va_start(ap, fmt);
    r->d->fault = bh_str_vfmt(r->d->arena, fmt, ap);
    va_end(ap);
    r->d->fault_claim = r->claim;
}

static void read_caps(struct reader *r, struct dra_sub *s,
                      const struct bh_resource_v1_capacity_requirements *c)
{
    if (!c)
        return;
    if (!r->m->f.consumable_capacity)
        fault(r,
              ", %s %.*s: has capacity requests, but the DRAConsumableCapacity feature is disabled",
              r->sub ? "subrequest" : "request", BH_SF(r->req));
    s->caps = bh_new_n(r->d->arena, struct dra_amount, c->requests.n);
    s->caps_n = c->requests.n;
    for (size_t i = 0; i < c->requests.n; i++) {
        s->caps[i].key = c->requests.p[i].key;
        if (bh_quantity_parse(c->requests.p[i].value, &s->caps[i].q, NULL) < 0)
            fault(r, ", request %.*s: invalid capacity request %.*s", BH_SF(r->req),
                  BH_SF(c->requests.p[i].key));
        s->negative |= bh_quantity_sign(s->caps[i].q) < 0;
    }
    r->d->has_caps |= s->caps_n != 0;
}

static void read_sels(struct reader *r, struct dra_sub *s,
                      const struct bh_resource_v1_device_selector_vec *class_sels,
                      const struct bh_resource_v1_device_selector_vec *own)
{
    s->sels = bh_new_n(r->d->arena, struct dra_sel *, (class_sels ? class_sels->n : 0) + own->n);
    for (size_t i = 0; class_sels && i < class_sels->n; i++)
        if (class_sels->p[i].cel)
            s->sels[s->sels_n++] = sel_get(r->m, class_sels->p[i].cel->expression);
        else
            fault(r,
                  ", request %.*s: class %.*s: selector #%zu: CEL expression empty "
                  "(unsupported selector type?)",
                  BH_SF(r->req), BH_SF(s->class_name), i);
    s->class_n = s->sels_n;
    for (size_t i = 0; i < own->n; i++)
        if (own->p[i].cel)
            s->sels[s->sels_n++] = sel_get(r->m, own->p[i].cel->expression);
}

/* What an exact request and an alternative have in common. */
static void read_sub(struct reader *r, struct dra_sub *s, struct bh_str class_name,
                     const struct bh_resource_v1_device_selector_vec *own, struct bh_str mode,
                     int64_t count, const struct bh_resource_v1_capacity_requirements *capacity)
{
    const struct bh_resource_v1_device_class *c = bh_dra_class(r->m, class_name);

    s->id = (uint32_t)r->d->subs_n++;
    s->name = r->req;
    s->class_name = class_name;
    s->count = count;
    read_caps(r, s, capacity);
    for (size_t i = 0; i < own->n; i++)
        if (!own->p[i].cel)
            fault(
                r,
                ", request %.*s, selector #%zu: CEL expression empty (unsupported selector type?)",
                BH_SF(r->req), i);
    if (s->admin && !r->m->f.admin_access)
        fault(r, ", request %.*s: admin access is requested, but the feature is disabled",
              BH_SF(r->req));
    if (class_name.n == 0)
        fault(r, ", request %.*s: missing device class name (unsupported request type?)",
              BH_SF(r->req));
    else if (!c)
        fault(r,
              ", request %.*s: could not retrieve device class %.*s: deviceclass.resource.k8s.io "
              "\"%.*s\" not found",
              BH_SF(r->req), BH_SF(class_name), BH_SF(class_name));
    if (c)
        s->cls = bh_msg_dup(&bh_resource_v1_device_class_spec_type, &c->spec, r->d->arena);
    read_sels(r, s, c ? &s->cls->selectors : NULL, own);
    if (bh_str_eqc(mode, "All")) {
        s->all = true;
        r->d->has_all = true;
    } else if (!bh_str_eqc(mode, "ExactCount")) {
        fault(r, ", request %.*s: unsupported count mode %.*s", BH_SF(r->req), BH_SF(mode));
    } else if (count < 0) {
        fault(r, ", request %.*s: cannot ask for %lld devices", BH_SF(r->req), (long long)count);
    }
}

static void read_request(struct reader *r, struct dra_req *q,
                         const struct bh_resource_v1_device_request *in)
{
    q->name = in->name;
    q->listed = in->first_available.n != 0;
    q->n = q->listed ? in->first_available.n : in->exactly ? 1 : 0;
    q->subs = bh_new_n(r->d->arena, struct dra_sub, q->n);
    r->req = in->name;
    r->sub = false;
    if (q->n == 0)
        fault(r, ", request %.*s: unknown request type", BH_SF(in->name));
    if (q->listed && !r->m->f.prioritized_list)
        fault(r, ", request %.*s: has subrequests, but the DRAPrioritizedList feature is disabled",
              BH_SF(in->name));
    if (!q->listed && in->exactly) {
        const struct bh_resource_v1_exact_device_request *e = in->exactly;

        /* Asking for it counts, even with false, when the feature is off. */
        q->subs[0].admin = e->has_admin_access && (e->admin_access || !r->m->f.admin_access);
        q->subs[0].tolerations = e->tolerations;
        q->subs[0].result = in->name;
        read_sub(r, &q->subs[0], e->device_class_name, &e->selectors, e->allocation_mode, e->count,
                 e->capacity);
        r->d->has_admin |= q->subs[0].admin;
    }
    for (size_t i = 0; i < in->first_available.n; i++) {
        const struct bh_resource_v1_device_sub_request *e = &in->first_available.p[i];

        r->req = e->name;
        r->sub = true;
        q->subs[i].result = bh_str_fmt(r->d->arena, "%.*s/%.*s", BH_SF(in->name), BH_SF(e->name));
        q->subs[i].tolerations = e->tolerations;
        read_sub(r, &q->subs[i], e->device_class_name, &e->selectors, e->allocation_mode, e->count,
                 e->capacity);
    }
}

static void read_constraint(struct reader *r, struct dra_con *c, size_t at,
                            const struct bh_resource_v1_device_constraint *in)
{
    ptrdiff_t slash;

    c->requests = &in->requests;
    c->distinct = !in->has_match_attribute && in->has_distinct_attribute;
    c->attr = in->has_match_attribute ? in->match_attribute : in->distinct_attribute;
    if (!in->has_match_attribute && (!in->has_distinct_attribute || !r->m->f.consumable_capacity)) {
        fault(r, ", constraint #%zu: empty constraint (unsupported constraint type?)", at);
        return;
    }
    slash = bh_str_chr(c->attr, '/', 0);
    c->dom = bh_str_sub(c->attr, 0, slash < 0 ? 0 : (size_t)slash);
    c->id = bh_str_sub(c->attr, slash < 0 ? 0 : (size_t)slash + 1, c->attr.n);
    r->d->has_distinct |= c->distinct;
}

/* The least that the claim needs, less what mode All asks for. */
static int64_t claim_min(const struct dra_dclaim *c)
{
    int64_t sum = 0;

    for (size_t i = 0; i < c->n; i++) {
        int64_t least = INT64_MAX;

        for (size_t k = 0; k < c->reqs[i].n; k++) {
            int64_t n = c->reqs[i].subs[k].all ? 0 : c->reqs[i].subs[k].count;

            least = n < least ? n : least;
        }
        if (c->reqs[i].n && __builtin_add_overflow(sum, least, &sum))
            return INT64_MAX;
    }
    return sum;
}

/* Whether the claim cannot be had without taking a device from everybody else. */
static bool claim_needs_device(const struct dra_dclaim *c)
{
    for (size_t i = 0; i < c->n; i++) {
        bool needs = c->reqs[i].n != 0;

        for (size_t k = 0; k < c->reqs[i].n; k++) {
            const struct dra_sub *s = &c->reqs[i].subs[k];

            needs = needs && !s->admin && (s->all || s->count > 0);
        }
        if (needs)
            return true;
    }
    return false;
}

static void read_claim(struct reader *r, struct dra_dclaim *c,
                       const struct bh_resource_v1_device_claim *spec)
{
    int64_t least;

    c->n = spec->requests.n;
    c->reqs = bh_new_n(r->d->arena, struct dra_req, c->n);
    for (size_t i = 0; i < c->n; i++)
        read_request(r, &c->reqs[i], &spec->requests.p[i]);
    least = claim_min(c);
    if (least > DRA_CLAIM_DEVICES_MAX)
        fault(r, ": number of requested devices %lld exceeds the claim limit of %u",
              (long long)least, DRA_CLAIM_DEVICES_MAX);
    c->cons_n = spec->constraints.n;
    c->cons = bh_new_n(r->d->arena, struct dra_con, c->cons_n);
    for (size_t i = 0; i < c->cons_n; i++)
        read_constraint(r, &c->cons[i], i, &spec->constraints.p[i]);
    c->exact = true;
    for (size_t i = 0; i < c->n; i++)
        c->exact = c->exact && c->reqs[i].n == 1 && !c->reqs[i].listed && !c->reqs[i].subs[0].all;
    r->d->needs_device |= claim_needs_device(c);
}

/* ---- demands ---- */

static void demand_unref(struct dra_demand *d)
{
    if (--d->refs)
        return;
    for (size_t i = 0; i < d->n; i++)
        for (size_t k = 0; k < d->claims[i].n; k++)
            for (size_t s = 0; s < d->claims[i].reqs[k].n; s++) {
                struct dra_sub *sub = &d->claims[i].reqs[k].subs[s];

                for (size_t x = 0; x < sub->sels_n; x++)
                    sel_put(d->m, sub->sels[x]);
            }
    dra_scans_drop(d);
    bh_free(d->bits);
    bh_free(d->success);
    bh_free(d->success_bits);
    (void)bh_arena_free(d->arena);
    bh_free(d);
}

static void demand_unlist(struct dra_demand *d)
{
    bh_list_del(&d->lru);
    (void)bh_map_del(&d->m->demands, d->key);
    d->m->demands_n--;
    demand_unref(d);
}

void dra_demands_drop(struct bh_dra_model *m)
{
    while (!bh_list_empty(&m->demand_lru))
        demand_unlist(bh_container(m->demand_lru.next, struct dra_demand, lru));
}

/* Configuration has no say in which devices do: claims that differ in it only share what is learnt.
 */
static struct bh_resource_v1_device_claim
without_config(const struct bh_resource_v1_resource_claim *c)
{
    struct bh_resource_v1_device_claim spec = c->spec.devices;

    spec.config.p = NULL;
    spec.config.n = 0;
    return spec;
}

static struct bh_str topology(const struct bh_resource_v1_resource_claim *c)
{
    const struct bh_str *text =
        bh_str_map_get(&c->metadata.annotations, BH_S(BH_DRA_TOPOLOGY_ANNOTATION));

    return text ? *text : (struct bh_str){NULL, 0};
}

static struct dra_demand *demand_get(struct bh_dra_model *m,
                                     const struct bh_resource_v1_resource_claim *const *claims,
                                     size_t n)
{
    struct reader r = {.m = m};
    struct dra_demand *d;

    bh_buf_clear(&m->keybuf);
    for (size_t i = 0; i < n; i++) {
        struct bh_resource_v1_device_claim spec = without_config(claims[i]);

        bh_msg_encode_json(&bh_resource_v1_device_claim_type, &spec, &m->keybuf);
        bh_json_write_str(&m->keybuf, topology(claims[i])); /* so that it ends where it seems to */
        bh_buf_addc(&m->keybuf, '\n');
    }
    d = bh_map_get(&m->demands, bh_buf_str(&m->keybuf));
    if (d) {
        if (m->demand_lru.next != &d->lru) {
            bh_list_del(&d->lru);
            bh_list_add_head(&m->demand_lru, &d->lru);
        }
        return d;
    }
    if (m->demands_n == DRA_DEMANDS_MAX)
        demand_unlist(bh_container(m->demand_lru.prev, struct dra_demand, lru));
    d = bh_calloc(1, sizeof(*d));
    d->m = m;
    bh_list_init(&d->scans);
    d->refs = 1;
    d->arena = bh_arena_new(0);
    d->key = bh_str_dup(d->arena, bh_buf_str(&m->keybuf));
    d->n = n;
    d->claims = bh_new_n(d->arena, struct dra_dclaim, n);
    r.d = d;
    for (size_t i = 0; i < n; i++) {
        struct bh_resource_v1_device_claim spec = without_config(claims[i]);

        r.claim = i;
        read_claim(&r, &d->claims[i],
                   bh_msg_dup(&bh_resource_v1_device_claim_type, &spec, d->arena));
        dra_topo_read(topology(claims[i]), d->claims[i].topo);
    }
    d->seen_seq = m->seq;
    d->seen_epoch = m->epoch - 1; /* it knows nothing yet */
    (void)bh_map_put(&m->demands, d->key, d);
    bh_list_add_head(&m->demand_lru, &d->lru);
    m->demands_n++;
    return d;
}

/* ---- nodes that may fit ---- */

/* Reads the log of changes since the last look. */
static void demand_sync(struct dra_demand *d)
{
    struct bh_dra_model *m = d->m;
    size_t words = (m->idx_n + 63) / 64;
    bool forget;

    dra_flush(m);
    if (words > d->words) {
        d->bits = bh_realloc(d->bits, words * sizeof(*d->bits));
        d->success_bits = bh_realloc(d->success_bits, words * sizeof(*d->success_bits));
        d->success = bh_realloc(d->success, 64 * words * sizeof(*d->success));
        memset(d->success_bits + d->words, 0, (words - d->words) * sizeof(*d->success_bits));
        memset(d->bits + d->words, 0xff, (words - d->words) * sizeof(*d->bits));
        d->words = words;
    }
    forget = d->seen_epoch != m->epoch || (d->has_all && d->seen_taken != m->taken) ||
             m->seq - d->seen_seq > DRA_LOG_LEN;
    if (forget) {
        if (d->words)
            memset(d->bits, 0xff, d->words * sizeof(*d->bits));
    } else {
        for (uint64_t s = d->seen_seq; s != m->seq; s++) {
            uint32_t e = m->log[s % DRA_LOG_LEN], idx = e & ~DRA_LOG_TAKEN;

            d->success_bits[idx / 64] &= ~(UINT64_C(1) << (idx % 64));
            /* Taking can only help those who want all that is left. */
            if (!(e & DRA_LOG_TAKEN) || d->has_all)
                d->bits[idx / 64] |= UINT64_C(1) << (idx % 64);
        }
    }
    if (d->words && (forget || d->seen_shared != m->shared))
        memset(d->success_bits, 0, d->words * sizeof(*d->success_bits));
    if (forget || d->seen_shared != m->shared || d->seen_taken != m->taken)
        d->twin_sig = 0;
    d->seen_seq = m->seq;
    d->seen_epoch = m->epoch;
    d->seen_taken = m->taken;
    d->seen_shared = m->shared;
}

void dra_demand_succeeded(struct dra_demand *d, struct dra_node *n, enum bh_dra_scoring scoring,
                          const struct bh_dra_result *r)
{
    demand_sync(d);
    d->twin = (struct dra_success){r->prefer, r->score, scoring};
    d->twin_sig = dra_view_get(d->m, n)->sig;
    d->twin_seq = d->m->seq;
    d->twin_no++;
    if (n->idx / 64 >= d->words)
        return;
    d->success[n->idx] = (struct dra_success){r->prefer, r->score, scoring};
    d->success_bits[n->idx / 64] |= UINT64_C(1) << (n->idx % 64);
}

void dra_ask_keep(struct bh_dra_ask *q, const struct bh_dra_opts *o, const struct bh_arena *a,
                  const struct bh_dra_result *r)
{
    /* In another arena it may be gone before the ask is. */
    q->last_no = a == q->a ? q->d->twin_no : 0;
    q->last = *r;
    q->last_steps_max = o->steps_max;
}

bool dra_ask_repeat(struct bh_dra_ask *q, struct dra_node *n, const struct bh_dra_opts *o,
                    const struct bh_arena *a, struct bh_dra_result *ret)
{
    const struct dra_demand *d = q->d;

    if (!q->last_no || a != q->a)
        return false;
    demand_sync(q->d);
    if (q->last_no != d->twin_no || !d->twin_sig || d->twin_seq != q->m->seq ||
        d->twin.scoring != o->scoring || q->last_steps_max != o->steps_max ||
        dra_view_get(q->m, n)->sig != d->twin_sig)
        return false;
    *ret = q->last;
    return true;
}

bool bh_dra_ask_recall(struct bh_dra_ask *q, struct bh_str node, enum bh_dra_scoring scoring,
                       struct bh_dra_result *ret)
{
    struct dra_node *n = dra_node_get(q->m, node);
    const struct dra_demand *d = q->d;
    const struct dra_success *k;

    if (!n || !n->known || q->m->supposing)
        return false;
    demand_sync(q->d);
    if (n->idx / 64 >= d->words)
        return false;
    if ((d->success_bits[n->idx / 64] >> (n->idx % 64)) & 1)
        k = &d->success[n->idx];
    else if (d->twin_sig && d->twin_seq == q->m->seq && dra_view_get(q->m, n)->sig == d->twin_sig)
        k = &d->twin;
    else
        return false;
    if (k->scoring != scoring)
        return false;
    *ret = (struct bh_dra_result){.score = k->score, .prefer = k->prefer};
    q->m->st.recalled++;
    return true;
}

void bh_dra_ask_took(struct bh_dra_ask *q, struct bh_str node)
{
    const struct dra_node *n = dra_node_get(q->m, node);

    if (n)
        q->d->hint = n->idx;
}

void dra_demand_learn(struct dra_demand *d, const struct dra_node *n)
{
    demand_sync(d); /* whatever happened until now, the failure has seen it */
    if (n->idx / 64 < d->words)
        d->bits[n->idx / 64] &= ~(UINT64_C(1) << (n->idx % 64));
}

static uint64_t may_fit_word(const struct dra_demand *d, size_t w)
{
    uint64_t bits = d->bits[w];

    if (d->m->supposing)
        return UINT64_MAX;
    /* A node without free devices of its own has nothing to give, unless there are some for all.
     * Mode All looks at pools that give nothing, too. */
    if (d->needs_device && !d->has_all && d->m->open_n == 0)
        bits &= d->m->has_free[w];
    return bits;
}

static void ask_done(void *arg)
{
    struct bh_dra_ask *q = arg;

    demand_unref(q->d);
}

struct bh_dra_ask *bh_dra_ask_new(struct bh_dra_model *m,
                                  const struct bh_resource_v1_resource_claim *const *claims,
                                  size_t n, struct bh_arena *a)
{
    struct bh_dra_ask *q = bh_new(a, struct bh_dra_ask);

    q->m = m;
    q->d = demand_get(m, claims, n);
    q->d->refs++;
    q->claims = claims;
    q->n = n;
    q->a = a;
    bh_arena_on_reset(a, ask_done, q);
    return q;
}

int bh_dra_ask_check(const struct bh_dra_ask *q, struct bh_err *err)
{
    if (q->d->fault.n == 0)
        return 0;
    return bh_err_set(err, BH_E_INVALID, "claim %.*s/%.*s%.*s",
                      BH_SF(q->claims[q->d->fault_claim]->metadata.namespace),
                      BH_SF(q->claims[q->d->fault_claim]->metadata.name), BH_SF(q->d->fault));
}

bool bh_dra_ask_next(struct bh_dra_ask *q, uint64_t *it, struct bh_str *ret_node)
{
    struct bh_dra_model *m = q->m;
    size_t n = m->idx_n, visited = (size_t)*it;

    if (visited == 0) {
        demand_sync(q->d);
        q->start = q->d->hint < n ? q->d->hint : 0;
    }
    while (visited < n) {
        size_t idx = q->start + visited < n ? q->start + visited : q->start + visited - n;
        uint64_t word = may_fit_word(q->d, idx / 64) >> (idx % 64);
        size_t run = 64 - idx % 64, skip;

        run = run < n - idx ? run : n - idx;
        run = run < n - visited ? run : n - visited;
        skip = word ? (size_t)__builtin_ctzll(word) : run;
        if (skip >= run) {
            visited += run;
            continue;
        }
        visited += skip + 1;
        if (m->by_idx[idx + skip] && m->by_idx[idx + skip]->known) {
            *it = visited;
            *ret_node = m->by_idx[idx + skip]->name;
            return true;
        }
    }
    *it = visited;
    return false;
}

bool bh_dra_ask_may_fit(struct bh_dra_ask *q, struct bh_str node)
{
    const struct dra_node *n = dra_node_get(q->m, node);

    if (!n || !n->known)
        return false;
    demand_sync(q->d);
    return (may_fit_word(q->d, n->idx / 64) >> (n->idx % 64)) & 1;
}
