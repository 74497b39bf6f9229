/* The claim cache: who uses what, and which devices a container sees of it. */
#include <stdlib.h>
#include <string.h>

#include "api/gen/core_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "kubelet/dra_int.h"

/* ---- claims ---- */

static struct bh_str key_of(struct bh_arena *a, struct bh_str ns, struct bh_str name)
{
    return bh_str_fmt(a, "%.*s/%.*s", BH_SF(ns), BH_SF(name));
}

struct dra_claim *dra_claim_get(const struct bh_dra_manager *m, struct bh_str ns,
                                struct bh_str name)
{
    BH_AUTO_ARENA a = bh_arena_new(0);

    return bh_map_get(&m->claims, key_of(a, ns, name));
}

struct dra_claim *dra_claim_new(struct bh_dra_manager *m, struct bh_str ns, struct bh_str name,
                                struct bh_str uid)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct dra_claim *c = bh_calloc(1, sizeof(*c));

    c->key = bh_strdup_c(key_of(a, ns, name));
    c->ns = (struct bh_str){c->key, ns.n};
    c->name = (struct bh_str){c->key + ns.n + 1, name.n};
    c->uid = bh_strdup_c(uid);
    bh_list_init(&c->pods);
    bh_list_init(&c->states);
    bh_assert(!bh_map_put(&m->claims, bh_s(c->key), c));
    return c;
}

static void state_free(struct dra_state *s)
{
    bh_list_del(&s->link);
    (void)bh_arena_free(s->arena);
    bh_free(s);
}

void dra_claim_free(struct bh_dra_manager *m, struct dra_claim *c)
{
    (void)bh_map_del(&m->claims, bh_s(c->key));
    while (!bh_list_empty(&c->states))
        state_free(bh_container(c->states.next, struct dra_state, link));
    while (!bh_list_empty(&c->pods)) {
        struct dra_pod_ref *r = bh_container(c->pods.next, struct dra_pod_ref, link);

        bh_list_del(&r->link);
        bh_free(r->uid);
        bh_free(r);
    }
    bh_free(c->key);
    bh_free(c->uid);
    bh_free(c);
}

static struct dra_pod_ref *pod_ref(const struct dra_claim *c, struct bh_str uid)
{
    bh_list_for(it, &c->pods)
    {
        struct dra_pod_ref *r = bh_container(it, struct dra_pod_ref, link);

        if (bh_str_eqc(uid, r->uid))
            return r;
    }
    return NULL;
}

bool dra_claim_has_pod(const struct dra_claim *c, struct bh_str uid)
{
    return pod_ref(c, uid) != NULL;
}

void dra_claim_add_pod(struct dra_claim *c, struct bh_str uid)
{
    struct dra_pod_ref *r;

    if (pod_ref(c, uid))
        return;
    r = bh_calloc(1, sizeof(*r));
    r->uid = bh_strdup_c(uid);
    bh_list_add_tail(&c->pods, &r->link);
}

void dra_claim_del_pod(struct dra_claim *c, struct bh_str uid)
{
    struct dra_pod_ref *r = pod_ref(c, uid);

    if (!r)
        return;
    bh_list_del(&r->link);
    bh_free(r->uid);
    bh_free(r);
}

size_t dra_claim_pods(const struct dra_claim *c)
{
    size_t n = 0;

    bh_list_for(it, &c->pods) n++;
    return n;
}

struct dra_state *dra_state_get(struct dra_claim *c, struct bh_str driver, bool make)
{
    struct dra_state *s;

    bh_list_for(it, &c->states)
    {
        s = bh_container(it, struct dra_state, link);
        if (bh_str_eq(s->driver, driver))
            return s;
    }
    if (!make)
        return NULL;
    s = bh_calloc(1, sizeof(*s));
    s->arena = bh_arena_new(0);
    s->driver = bh_str_dup(s->arena, driver);
    bh_list_add_tail(&c->states, &s->link);
    return s;
}

static struct bh_str_vec vec_dup(struct bh_arena *a, struct bh_str_vec v)
{
    struct bh_str_vec r = {bh_new_n(a, struct bh_str, v.n + 1), v.n};

    for (size_t i = 0; i < v.n; i++)
        r.p[i] = bh_str_dup(a, v.p[i]);
    return r;
}

void dra_state_set(struct dra_state *s, const struct bh_dra_device *devices, size_t n)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_dra_device *d = bh_new_n(a, struct bh_dra_device, n + 1);
    struct bh_str driver = bh_str_dup(a, s->driver);

    for (size_t i = 0; i < n; i++)
        d[i] = (struct bh_dra_device){.driver = driver,
                                      .pool = bh_str_dup(a, devices[i].pool),
                                      .device = bh_str_dup(a, devices[i].device),
                                      .share_id = bh_str_dup(a, devices[i].share_id),
                                      .cdi_ids = vec_dup(a, devices[i].cdi_ids),
                                      .requests = vec_dup(a, devices[i].requests)};
    (void)bh_arena_free(s->arena);
    s->arena = a;
    s->driver = driver;
    s->devices = d;
    s->devices_n = n;
}

/* ---- what a pod names ---- */

bool bh_dra_pod_needs(const struct bh_obj *pod)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(pod);

    return p->spec.resource_claims.n > 0 || p->status.extended_resource_claim_status != NULL;
}

static int template_claim(const struct bh_core_v1_pod *p, struct bh_str name, struct bh_str *ret,
                          struct bh_err *err)
{
    for (size_t i = 0; i < p->status.resource_claim_statuses.n; i++) {
        const struct bh_core_v1_pod_resource_claim_status *s =
            &p->status.resource_claim_statuses.p[i];

        if (!bh_str_eq(s->name, name))
            continue;
        *ret = s->has_resource_claim_name ? s->resource_claim_name : (struct bh_str){NULL, 0};
        return 0;
    }
    return bh_err_set(err, BH_E_UNAVAILABLE, "pod \"%.*s/%.*s\": ResourceClaim not created yet",
                      BH_SF(p->metadata.namespace), BH_SF(p->metadata.name));
}

int dra_pod_claims(const struct bh_obj *pod, struct bh_arena *a, struct dra_pod_claim **ret,
                   size_t *ret_n, struct bh_err *err)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(pod);
    const struct bh_core_v1_pod_extended_resource_claim_status *x =
        p->status.extended_resource_claim_status;
    struct dra_pod_claim *out;
    size_t n = 0;
    int r;

    if (p->spec.resource_claims.n >= DRA_POD_CLAIMS_MAX)
        return bh_err_set(err, BH_E_LIMIT, "the pod names more than %d claims", DRA_POD_CLAIMS_MAX);
    out = bh_new_n(a, struct dra_pod_claim, p->spec.resource_claims.n + 1);
    for (size_t i = 0; i < p->spec.resource_claims.n; i++) {
        const struct bh_core_v1_pod_resource_claim *c = &p->spec.resource_claims.p[i];

        out[n] = (struct dra_pod_claim){.pod_name = c->name};
        if (c->has_resource_claim_name) {
            out[n].name = c->resource_claim_name;
        } else if (c->has_resource_claim_template_name) {
            out[n].generated = true;
            r = template_claim(p, c->name, &out[n].name, err);
            if (r < 0)
                return r;
            if (out[n].name.n == 0)
                continue; /* deliberately not created */
        } else {
            return bh_err_set(err, BH_E_INVALID,
                              "pod claim %.*s: none of the supported fields are set",
                              BH_SF(c->name));
        }
        n++;
    }
    if (x && x->resource_claim_name.n > 0)
        out[n++] = (struct dra_pod_claim){.name = x->resource_claim_name, .generated = true};
    *ret = out;
    *ret_n = n;
    return 0;
}

bool bh_dra_pod_holds(const struct bh_dra_manager *m, struct bh_str pod_uid)
{
    void *c;

    for (size_t it = 0; bh_map_next(&m->claims, &it, NULL, &c);)
        if (dra_claim_has_pod(c, pod_uid))
            return true;
    return false;
}

/* ---- what a container names ---- */

/* One request of one claim; an empty request stands for all of them. */
struct want {
    struct bh_str pod_name, claim, request;
};

struct wants {
    struct want *p;
    size_t n;
};

static struct bh_str claim_of(const struct dra_pod_claim *pc, size_t n, struct bh_str pod_name)
{
    for (size_t i = 0; i < n; i++)
        if (pc[i].pod_name.n > 0 && bh_str_eq(pc[i].pod_name, pod_name))
            return pc[i].name;
    return (struct bh_str){NULL, 0};
}

static bool nonzero(const struct bh_str_map *m, struct bh_str key)
{
    const struct bh_str *v = bh_str_map_get(m, key);

    return v && !bh_str_eqc(*v, "0");
}

static int wants_make(const struct bh_obj *pod, const struct bh_core_v1_container *c,
                      struct bh_arena *a, struct wants *ret, struct bh_err *err)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(pod);
    const struct bh_core_v1_pod_extended_resource_claim_status *x =
        p->status.extended_resource_claim_status;
    size_t cap = c->resources.claims.n + (x ? x->request_mappings.n : 0);
    struct dra_pod_claim *pc;
    size_t pc_n;
    int r = dra_pod_claims(pod, a, &pc, &pc_n, err);

    if (r < 0)
        return r;
    ret->p = bh_new_n(a, struct want, cap + 1);
    for (size_t i = 0; i < c->resources.claims.n; i++) {
        const struct bh_core_v1_resource_claim *rc = &c->resources.claims.p[i];
        struct bh_str name = claim_of(pc, pc_n, rc->name);

        if (name.n > 0)
            ret->p[ret->n++] = (struct want){rc->name, name, rc->request};
    }
    for (size_t i = 0; x && i < x->request_mappings.n; i++) {
        const struct bh_core_v1_container_extended_resource_request *q = &x->request_mappings.p[i];

        if (bh_str_eq(q->container_name, c->name) &&
            (nonzero(&c->resources.requests, q->resource_name) ||
             nonzero(&c->resources.limits, q->resource_name)))
            ret->p[ret->n++] = (struct want){{NULL, 0}, x->resource_claim_name, q->request_name};
    }
    return 0;
}

static bool device_serves(const struct bh_dra_device *d, struct bh_str request)
{
    if (request.n == 0 || d->requests.n == 0)
        return true;
    for (size_t i = 0; i < d->requests.n; i++)
        if (bh_str_eq(d->requests.p[i], request))
            return true;
    return false;
}

static void add_once(struct bh_arena *a, struct bh_str_vec *v, size_t *cap, struct bh_str s)
{
    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i], s))
            return;
    bh_arena_grow(a, &v->p, cap, v->n + 1, sizeof(*v->p));
    v->p[v->n++] = bh_str_dup(a, s);
}

int bh_dra_cdi_devices(const struct bh_dra_manager *m, const struct bh_obj *pod,
                       const struct bh_core_v1_container *c, struct bh_arena *a,
                       struct bh_str_vec *ret, struct bh_err *err)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(pod);
    struct wants w = {0};
    struct bh_str_vec out = {0};
    size_t cap = 0;
    int r = wants_make(pod, c, a, &w, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < w.n; i++) {
        struct dra_claim *cl = dra_claim_get(m, p->metadata.namespace, w.p[i].claim);

        if (!cl)
            return bh_err_set(
                err, BH_E_NOT_FOUND,
                "internal error: unable to get claim info for ResourceClaim %.*s in namespace %.*s",
                BH_SF(w.p[i].claim), BH_SF(p->metadata.namespace));
        bh_list_for(it, &cl->states)
        {
            const struct dra_state *s = bh_container(it, struct dra_state, link);

            for (size_t k = 0; k < s->devices_n; k++)
                for (size_t q = 0;
                     device_serves(&s->devices[k], w.p[i].request) && q < s->devices[k].cdi_ids.n;
                     q++)
                    add_once(a, &out, &cap, s->devices[k].cdi_ids.p[q]);
        }
    }
    *ret = out;
    return 0;
}

size_t bh_dra_container_claims(const struct bh_dra_manager *m, const struct bh_obj *pod,
                               const struct bh_core_v1_container *c, struct bh_arena *a,
                               struct bh_dra_claim_devices **ret)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(pod);
    struct bh_dra_claim_devices *out;
    struct wants w = {0};
    size_t n = 0;

    if (wants_make(pod, c, a, &w, NULL) < 0)
        return 0;
    out = bh_new_n(a, struct bh_dra_claim_devices, w.n + 1);
    for (size_t i = 0; i < w.n; i++) {
        struct dra_claim *cl = dra_claim_get(m, p->metadata.namespace, w.p[i].claim);
        size_t cap = 0, k = 0;

        while (k < n && !bh_str_eq(out[k].claim_name, w.p[i].claim))
            k++;
        if (!cl || k < n) /* every device of the claim is told once, whichever request the container
                             names */
            continue;
        out[n] = (struct bh_dra_claim_devices){.claim_ns = cl->ns, .claim_name = cl->name};
        bh_list_for(it, &cl->states)
        {
            const struct dra_state *s = bh_container(it, struct dra_state, link);

            bh_arena_grow(a, &out[n].devices, &cap, out[n].devices_n + s->devices_n + 1,
                          sizeof(*out[n].devices));
            for (size_t d = 0; d < s->devices_n; d++)
                out[n].devices[out[n].devices_n++] = s->devices[d];
        }
        n++;
    }
    *ret = out;
    return n;
}

/* ---- health ---- */

static void health_add(const struct bh_dra_manager *m, struct bh_arena *a,
                       const struct bh_dra_device *d, struct bh_core_v1_resource_status *st,
                       size_t *cap)
{
    struct bh_str id = d->cdi_ids.n > 0 ? d->cdi_ids.p[0]
                                        : bh_str_fmt(a, "%.*s/%.*s/%.*s", BH_SF(d->driver),
                                                     BH_SF(d->pool), BH_SF(d->device));
    struct bh_core_v1_resource_health *h;
    struct bh_str health, message;

    for (size_t i = 0; i < st->resources.n; i++)
        if (bh_str_eq(st->resources.p[i].resource_id, id))
            return;
    bh_arena_grow(a, &st->resources.p, cap, st->resources.n + 1, sizeof(*st->resources.p));
    h = &st->resources.p[st->resources.n++];
    dra_health_get(m, d->driver, d->pool, d->device, &health, &message);
    h->resource_id = bh_str_dup(a, id);
    h->health = health;
    h->message = bh_str_dup(a, message);
    h->has_message = message.n > 0;
}

static int by_name(const void *x, const void *y)
{
    const struct bh_core_v1_resource_status *a = x, *b = y;

    return bh_str_cmp(a->name, b->name);
}

void bh_dra_container_health(const struct bh_dra_manager *m, const struct bh_obj *pod,
                             const struct bh_core_v1_container *c, struct bh_arena *a,
                             struct bh_core_v1_resource_status_vec *ret)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(pod);
    struct wants w = {0};

    *ret = (struct bh_core_v1_resource_status_vec){NULL, 0};
    if (c->resources.claims.n == 0 || wants_make(pod, c, a, &w, NULL) < 0)
        return;
    ret->p = bh_new_n(a, struct bh_core_v1_resource_status, w.n + 1);
    for (size_t i = 0; i < w.n; i++) {
        struct dra_claim *cl = dra_claim_get(m, p->metadata.namespace, w.p[i].claim);
        struct bh_core_v1_resource_status *st = &ret->p[ret->n];
        size_t cap = 0;

        if (!cl || w.p[i].pod_name.n == 0)
            continue;
        *st = (struct bh_core_v1_resource_status){0};
        st->name = bh_str_fmt(a, "claim:%.*s%s%.*s", BH_SF(w.p[i].pod_name),
                              w.p[i].request.n > 0 ? "/" : "", BH_SF(w.p[i].request));
        bh_list_for(it, &cl->states)
        {
            const struct dra_state *s = bh_container(it, struct dra_state, link);

            for (size_t d = 0; d < s->devices_n; d++)
                if (device_serves(&s->devices[d], w.p[i].request))
                    health_add(m, a, &s->devices[d], st, &cap);
        }
        if (st->resources.n > 0)
            ret->n++;
    }
    if (ret->n > 1)
        qsort(ret->p, ret->n, sizeof(*ret->p), by_name);
    if (ret->n == 0)
        ret->p = NULL;
}
