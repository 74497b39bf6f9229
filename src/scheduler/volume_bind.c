/* Claims that wait for their first consumer: which volumes a node has for them, and how they are
 * bound once the pod has its node.
 *
 * A decision is assumed at once (assumed_pvs, assumed_pvcs), so that no later attempt gives a
 * volume away twice. Then the volume is written with the claim it is for, a claim that is to be
 * provisioned with the node it is for, and others (the volume binder, a provisioner) do the rest;
 * the pod is bound when all its claims are. An assumption ends with the bind, and counts no more
 * for an object that is newer than what it was made from.
 */
#include <string.h>

#include "base/log.h"
#include "dra/node_selector.h"
#include "scheduler/profile.h"
#include "scheduler/volumes.h"

#define RETRY_FIRST_MS 10
#define RETRY_MAX_MS   5000
#define CONFLICT_TRIES 5

/* One claim of a bind: with the volume that is to be its own, or NULL when one is to be made. */
struct bind_volume {
    struct sched_vbind *in;
    struct bh_obj *pv, *pvc; /* as they were when it was decided; referenced */
    uint64_t written;        /* version of our write; 0: not yet */
};

struct sched_vbind {
    struct bh_link link; /* in s->volume_waits while it waits */
    struct bh_scheduler *s;
    struct bh_arena *arena; /* the bind's */
    struct bh_str node;
    struct bind_volume *v;
    size_t n, i;
    uint64_t call;
    struct bh_timer timer;
    int64_t wait_ms, timeout_s;
    struct bh_str conflict; /* what the server said of the version, while the newest is read */
    int tries;
    bool waiting, bound, taken;
    void (*done)(void *arg, struct bh_str why);
    void *arg;
};

/* ---- what is assumed ---- */

static const struct bind_volume *assumed_pv(const struct bh_scheduler *s, const struct bh_obj *pv)
{
    const struct bind_volume *b = bh_map_get(&s->assumed_pvs, pv->name);

    return b && pv->rv <= b->pv->rv ? b : NULL;
}

/* Whom the volume is given to: by its object, or by a decision of ours. */
static const struct bh_core_v1_object_reference *given_to(const struct cycle *c,
                                                          const struct bh_obj *pv)
{
    const struct bind_volume *b = assumed_pv(c->s, pv);
    struct bh_core_v1_object_reference *r;

    if (!b)
        return ((const struct bh_core_v1_persistent_volume *)bh_obj_struct(pv))->spec.claim_ref;
    r = bh_new(c->a, struct bh_core_v1_object_reference);
    *r = bh_pvc_reference(bh_obj_struct(b->pvc));
    return r;
}

static struct bh_str pvc_key(struct bh_arena *a, const struct bh_obj *pvc)
{
    return bh_str_fmt(a, "%.*s/%.*s", BH_SF(pvc->ns), BH_SF(pvc->name));
}

/* The node for which a volume is being made for the claim; empty: none was chosen. */
static struct bh_str selected_node(const struct cycle *c, const struct bh_obj *pvc)
{
    const struct bind_volume *b = bh_map_get(&c->s->assumed_pvcs, pvc_key(c->a, pvc));
    const struct bh_str *v;

    if (b && pvc->rv <= b->pvc->rv)
        return b->in->node;
    v = bh_str_map_get(&((const struct bh_core_v1_persistent_volume_claim *)bh_obj_struct(pvc))
                            ->metadata.annotations,
                       BH_S(BH_VOL_SELECTED_NODE));
    return v ? *v : (struct bh_str){NULL, 0};
}

/* ---- what a node has ---- */

static bool reached(const struct bh_core_v1_persistent_volume *v, const struct snode *n)
{
    const struct bh_core_v1_volume_node_affinity *a = v->spec.node_affinity;

    /* Only labels count, not the node's name. */
    return !a || !a->required ||
           bh_node_selector_match(a->required, (struct bh_str){NULL, 0}, &n->obj->labels, NULL) ==
               1;
}

static struct class_volumes *class_volumes(struct volume_state *st, struct bh_str class)
{
    for (size_t i = 0; i < st->classes_n; i++)
        if (bh_str_eq(st->classes[i].class, class))
            return &st->classes[i];
    st->classes[st->classes_n].class = class;
    return &st->classes[st->classes_n++];
}

static void collect_class(struct cycle *c, struct class_volumes *k)
{
    struct bh_obj *o;

    for (size_t it = 0; c->s->inf_pvs && (o = bh_informer_next(c->s->inf_pvs, &it));) {
        const struct bh_core_v1_persistent_volume *v = bh_obj_struct(o);

        if (!bh_str_eq(bh_pv_class(v), k->class))
            continue;
        bh_arena_grow(c->a, &k->v, &k->cap, k->n + 1, sizeof(*k->v));
        bh_arena_grow(c->a, &k->obj, &k->obj_cap, k->n + 1, sizeof(*k->obj));
        k->v[k->n] = v;
        k->obj[k->n++] = o;
    }
}

static struct bh_quantity size_of(const struct pod_volume *v)
{
    return bh_vol_storage(&v->c->spec.resources.requests);
}

void sched_volumes_collect(struct cycle *c)
{
    struct volume_state *st = c->volumes;

    st->waiting = bh_new_n(c->a, struct pod_volume *, st->n);
    st->classes = bh_new_n(c->a, struct class_volumes, st->n);
    for (size_t i = 0; i < st->n; i++) {
        size_t at = st->waiting_n;

        if (!st->v[i].later)
            continue;
        (void)class_volumes(st, bh_pvc_class(st->v[i].c));
        while (at > 0 && bh_quantity_cmp(size_of(&st->v[i]), size_of(st->waiting[at - 1])) < 0) {
            st->waiting[at] = st->waiting[at - 1];
            at--;
        }
        st->waiting[at] = &st->v[i];
        st->waiting_n++;
    }
    for (size_t i = 0; i < st->classes_n; i++)
        collect_class(c, &st->classes[i]);
}

enum {
    NOT_REACHED = 1 << 0,
    NOT_FOUND = 1 << 1,
    NO_SPACE = 1 << 2,
    PV_GONE = 1 << 3,
    FAILED = 1 << 4, /* c->err */
};

struct plan {
    struct {
        struct bh_obj *pv, *pvc; /* pv NULL: to be provisioned */
    } * v;
    size_t n;
};

static bool in_topologies(const struct bh_core_v1_topology_selector_term_vec *v,
                          const struct bh_str_map *labels)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_core_v1_topology_selector_label_requirement_vec *r =
            &v->p[i].match_label_expressions;
        bool all = r->n > 0;

        for (size_t k = 0; all && k < r->n; k++) {
            const struct bh_str *have = bh_str_map_get(labels, r->p[k].key);
            size_t j = 0;

            while (have && j < r->p[k].values.n && !bh_str_eq(r->p[k].values.p[j], *have))
                j++;
            all = have && j < r->p[k].values.n;
        }
        if (all)
            return true;
    }
    return v->n == 0;
}

bool sched_capacity_limit(const struct bh_storage_v1_csi_storage_capacity *c,
                          struct bh_quantity *ret)
{
    struct bh_err err = {0};

    if (!c->has_maximum_volume_size && !c->has_capacity)
        return false;
    return bh_quantity_parse(c->has_maximum_volume_size ? c->maximum_volume_size : c->capacity, ret,
                             &err) == 0;
}

/* Whether the driver that makes the volume has room for it where the node can reach it. Drivers
 * that do not tell their capacity have. */
static bool space(struct cycle *c, const struct snode *n,
                  const struct bh_storage_v1_storage_class *sc,
                  const struct bh_core_v1_persistent_volume_claim *pvc)
{
    struct bh_obj *o =
        c->s->inf_csidrivers
            ? bh_informer_get(c->s->inf_csidrivers, (struct bh_str){NULL, 0}, sc->provisioner)
            : NULL;
    int64_t bytes = bh_quantity_value(bh_vol_storage(&pvc->spec.resources.requests));

    if (!o || !((const struct bh_storage_v1_csi_driver *)bh_obj_struct(o))->spec.storage_capacity)
        return true;
    for (size_t it = 0;
         c->s->inf_capacities && (o = bh_informer_next(c->s->inf_capacities, &it));) {
        const struct bh_storage_v1_csi_storage_capacity *k = bh_obj_struct(o);
        struct bh_label_selector sel;
        struct bh_quantity limit;

        if (!bh_str_eq(k->storage_class_name, sc->metadata.name) ||
            !sched_capacity_limit(k, &limit) || bh_quantity_value(limit) < bytes ||
            !k->node_topology)
            continue;
        bh_meta_selector(c->a, k->node_topology, &sel);
        if (bh_label_selector_match(&sel, &n->obj->labels))
            return true;
    }
    return false;
}

static unsigned provisionable(struct cycle *c, const struct snode *n, const struct pod_volume *v)
{
    struct bh_str class = bh_pvc_class(v->c);
    const struct bh_storage_v1_storage_class *sc = sched_storage_class(c->s, class);

    if (!sc) {
        (void)sched_error(c, PL_VOLUME_BINDING, "failed to find storage class \"%.*s\"",
                          BH_SF(class));
        return FAILED;
    }
    if (!sc->provisioner.n || bh_str_eqc(sc->provisioner, BH_VOL_NO_PROVISIONER) ||
        !in_topologies(&sc->allowed_topologies, &n->obj->labels))
        return NOT_FOUND;
    return space(c, n, sc, v->c) ? 0 : NO_SPACE;
}

static struct bh_obj *match(struct cycle *c, const struct snode *n, const struct pod_volume *v,
                            const struct plan *plan)
{
    const struct class_volumes *k = class_volumes(c->volumes, bh_pvc_class(v->c));
    struct bh_pv_search s;
    struct bh_obj *found = NULL;

    bh_pv_search_init(&s, c->a, v->c, true, true);
    for (size_t i = 0; i < k->n && !s.done; i++) {
        const struct bh_core_v1_persistent_volume *was = s.best;
        size_t used = 0;

        while (used < plan->n && plan->v[used].pv != k->obj[i])
            used++;
        if (used < plan->n)
            continue;
        bh_pv_search_offer(&s, k->v[i], given_to(c, k->obj[i]), reached(k->v[i], n));
        if (s.best != was)
            found = k->obj[i];
    }
    return s.best ? found : NULL;
}

static unsigned check_bound(const struct cycle *c, const struct snode *n)
{
    for (size_t i = 0; i < c->volumes->n; i++) {
        const struct pod_volume *v = &c->volumes->v[i];

        if (v->bound && !v->pv)
            return PV_GONE;
        if (v->bound && !reached(bh_obj_struct(v->pv), n))
            return NOT_REACHED;
    }
    return 0;
}

/* Volumes for the claims that wait: as upstream, matched first, the smallest claims first, and then
 * provisioned where none matched. */
static unsigned plan_waiting(struct cycle *c, const struct snode *n, struct plan *plan)
{
    const struct volume_state *st = c->volumes;
    bool *unmatched = bh_new_n(c->a, bool, st->waiting_n);

    for (size_t i = 0; i < st->n; i++) {
        struct bh_str node =
            st->v[i].later ? selected_node(c, st->v[i].pvc) : (struct bh_str){NULL, 0};

        if (node.n && !bh_str_eq(node, n->name))
            return NOT_FOUND;
    }
    for (size_t i = 0; i < st->waiting_n; i++) {
        struct bh_obj *pv =
            selected_node(c, st->waiting[i]->pvc).n ? NULL : match(c, n, st->waiting[i], plan);

        unmatched[i] = !pv;
        if (!pv)
            continue;
        plan->v[plan->n].pv = pv;
        plan->v[plan->n++].pvc = st->waiting[i]->pvc;
    }
    for (size_t i = 0; i < st->waiting_n; i++) {
        unsigned r = unmatched[i] ? provisionable(c, n, st->waiting[i]) : 0;

        if (r)
            return r;
        if (!unmatched[i])
            continue;
        plan->v[plan->n].pv = NULL;
        plan->v[plan->n++].pvc = st->waiting[i]->pvc;
    }
    return 0;
}

static unsigned plan_on(struct cycle *c, const struct snode *n, struct plan *plan)
{
    unsigned r = check_bound(c, n);

    plan->n = 0;
    plan->v = NULL;
    if (c->volumes->waiting_n) {
        plan->v = bh_arena_alloc(c->a, c->volumes->waiting_n * sizeof(*plan->v));
        r |= plan_waiting(c, n, plan);
    }
    return r;
}

enum verdict sched_volumes_bindable(struct cycle *c, const struct snode *n)
{
    static const struct {
        unsigned fault;
        uint32_t reason;
    } all[] = {{NOT_REACHED, R_VOLUME_NODE},
               {NOT_FOUND, R_VOLUME_FIND},
               {NO_SPACE, R_VOLUME_SPACE},
               {PV_GONE, R_VOLUME_GONE}};
    struct plan plan;
    unsigned r = plan_on(c, n, &plan);

    if (r & FAILED)
        return V_ERROR;
    for (size_t i = 0; i < BH_COUNT(all); i++)
        if (r & all[i].fault)
            (void)sched_fail(c, PL_VOLUME_BINDING, V_UNRESOLVABLE, all[i].reason);
    return r ? V_UNRESOLVABLE : V_OK;
}

/* ---- the bind ---- */

struct sched_vbind *sched_vbind_new(struct cycle *c, const struct snode *n, struct bh_arena *a)
{
    struct sched_vbind *b;
    struct plan plan;

    if (!c->volumes || !c->volumes->waiting_n)
        return NULL;
    b = bh_new(a, struct sched_vbind);
    /* The filter has said that it can be done; but another pod of the same group may have got the
     * volume meanwhile. */
    b->taken = plan_on(c, n, &plan) != 0;
    if (b->taken)
        plan.n = 0;
    b->s = c->s;
    b->arena = a;
    b->node = bh_str_dup(a, n->name);
    b->timeout_s = c->prof->volume_bind_timeout_s;
    b->v = bh_new_n(a, struct bind_volume, plan.n);
    for (size_t i = 0; i < plan.n; i++) {
        struct bind_volume *v = &b->v[b->n++];

        v->in = b;
        v->pv = plan.v[i].pv ? bh_obj_ref(plan.v[i].pv) : NULL;
        v->pvc = bh_obj_ref(plan.v[i].pvc);
        if (v->pv)
            (void)bh_map_put(&c->s->assumed_pvs, v->pv->name, v);
        else
            (void)bh_map_put(&c->s->assumed_pvcs, pvc_key(a, v->pvc), v);
    }
    return b;
}

void sched_vbind_free(struct sched_vbind *b)
{
    if (!b)
        return;
    if (b->call)
        bh_client_cancel(b->s->client, b->call);
    if (b->done)
        bh_timer_stop(&b->timer);
    bh_list_del(&b->link);
    for (size_t i = 0; i < b->n; i++) {
        struct bind_volume *v = &b->v[i];

        if (v->pv && bh_map_get(&b->s->assumed_pvs, v->pv->name) == v)
            (void)bh_map_del(&b->s->assumed_pvs, v->pv->name);
        if (!v->pv && bh_map_get(&b->s->assumed_pvcs, pvc_key(b->arena, v->pvc)) == v)
            (void)bh_map_del(&b->s->assumed_pvcs, pvc_key(b->arena, v->pvc));
    }
    /* What was assumed may be had by others now. */
    for (size_t i = 0; !b->bound && i < b->n; i++) {
        struct bh_obj *o = b->v[i].pv ? b->v[i].pv : b->v[i].pvc;

        sched_happened(b->s, &(struct happening){.ev = EV_VOLUME, .old = o, .obj = o});
    }
    for (size_t i = 0; i < b->n; i++) {
        (void)bh_obj_unref(b->v[i].pv);
        (void)bh_obj_unref(b->v[i].pvc);
    }
}

/* Ends the bind of volumes; b may be gone afterwards. */
static void ended(struct sched_vbind *b, struct bh_str why)
{
    bh_list_del(&b->link);
    bh_timer_stop(&b->timer);
    b->waiting = false;
    b->bound = !why.n;
    b->done(b->arg, why);
}

static void failed(struct sched_vbind *b, const char *fmt, ...) BH_PRINTF(2, 3);
static void failed(struct sched_vbind *b, const char *fmt, ...)
{
    struct bh_str why;
    va_list ap;

    va_start(ap, fmt);
    why = bh_str_vfmt(b->arena, fmt, ap);
    va_end(ap);
    ended(b, bh_str_fmt(b->arena, "running PreBind plugin \"VolumeBinding\": %.*s", BH_SF(why)));
}

static void on_answer(void *arg, const struct bh_client_res *res);

static struct bh_str_map with(struct bh_arena *a, const struct bh_str_map *m, const char *key,
                              struct bh_str value)
{
    struct bh_str_map r = {0};

    for (size_t i = 0; i < m->n; i++)
        bh_str_map_put(a, &r, m->p[i].key, m->p[i].value);
    bh_str_map_put(a, &r, bh_s(key), value);
    return r;
}

static void put_pv(struct sched_vbind *b, struct bind_volume *v)
{
    struct bh_core_v1_persistent_volume pv =
        *(const struct bh_core_v1_persistent_volume *)bh_obj_struct(v->pv);
    const struct bh_core_v1_persistent_volume_claim *pvc = bh_obj_struct(v->pvc);
    struct bh_core_v1_object_reference r = bh_pvc_reference(pvc);
    BH_AUTO_ARENA a = bh_arena_new(0);

    if (!bh_pv_ref_is(pv.spec.claim_ref, pvc))
        pv.metadata.annotations =
            with(a, &pv.metadata.annotations, BH_VOL_BY_CONTROLLER, BH_S("yes"));
    pv.spec.claim_ref = &r;
    b->call =
        bh_client_update(b->s->client, &bh_core_v1_persistent_volume_kind, &pv, "", on_answer, b);
}

static void put_pvc(struct sched_vbind *b, struct bind_volume *v)
{
    struct bh_core_v1_persistent_volume_claim pvc =
        *(const struct bh_core_v1_persistent_volume_claim *)bh_obj_struct(v->pvc);
    BH_AUTO_ARENA a = bh_arena_new(0);

    pvc.metadata.annotations = with(a, &pvc.metadata.annotations, BH_VOL_SELECTED_NODE, b->node);
    b->call = bh_client_update(b->s->client, &bh_core_v1_persistent_volume_claim_kind, &pvc, "",
                               on_answer, b);
}

/* Whether the object says already what we would write. */
static bool says_so(const struct sched_vbind *b, const struct bind_volume *v)
{
    const struct bh_core_v1_persistent_volume_claim *pvc = bh_obj_struct(v->pvc);
    const struct bh_core_v1_persistent_volume *pv = v->pv ? bh_obj_struct(v->pv) : NULL;
    const struct bh_str *node;

    if (pv)
        return pv->spec.claim_ref && bh_pv_ref_is(pv->spec.claim_ref, pvc) &&
               bh_str_eq(pv->spec.claim_ref->uid, pvc->metadata.uid);
    node = bh_str_map_get(&pvc->metadata.annotations, BH_S(BH_VOL_SELECTED_NODE));
    return node && bh_str_eq(*node, b->node);
}

/* 1: bound, 0: not yet, -1: ended with a failure. */
static int check_pv(struct sched_vbind *b, const struct bh_core_v1_persistent_volume *pv)
{
    if (!reached(pv, sched_node_find(b->s, b->node))) {
        failed(
            b,
            "binding volumes: pv \"%.*s\" node affinity doesn't match node \"%.*s\": no matching "
            "NodeSelectorTerms",
            BH_SF(pv->metadata.name), BH_SF(b->node));
        return -1;
    }
    return 1;
}

static int check_static(struct sched_vbind *b, const struct bind_volume *v,
                        const struct bh_core_v1_persistent_volume_claim *pvc)
{
    struct bh_obj *o = sched_pv(b->s, v->pv->name);
    const struct bh_core_v1_persistent_volume *pv;
    int r;

    if (!o) {
        failed(b, "binding volumes: failed to check binding: persistentvolume \"%.*s\" not found",
               BH_SF(v->pv->name));
        return -1;
    }
    if (o->rv < v->written)
        return 0;
    pv = bh_obj_struct(o);
    r = check_pv(b, pv);
    if (r < 0)
        return r;
    if (!pv->spec.claim_ref || !pv->spec.claim_ref->uid.n) {
        failed(b, "binding volumes: ClaimRef got reset for pv \"%.*s\"", BH_SF(o->name));
        return -1;
    }
    return bh_pvc_bound(pvc);
}

static int check_provisioned(struct sched_vbind *b, const struct bind_volume *v,
                             const struct bh_obj *o)
{
    const struct bh_core_v1_persistent_volume_claim *pvc = bh_obj_struct(o);
    const struct bh_str *node =
        bh_str_map_get(&pvc->metadata.annotations, BH_S(BH_VOL_SELECTED_NODE));
    struct bh_obj *pv;

    if (o->rv < v->written)
        return 0;
    if (!node || !bh_str_eq(*node, b->node)) {
        failed(b, "binding volumes: provisioning failed for PVC \"%.*s\"", BH_SF(o->name));
        return -1;
    }
    if (pvc->spec.volume_name.n) {
        int r;

        pv = sched_pv(b->s, pvc->spec.volume_name);
        r = pv ? check_pv(b, bh_obj_struct(pv)) : 0;
        if (r <= 0)
            return r;
    }
    return bh_pvc_bound(pvc);
}

/* Looks whether everything is bound; false: not yet, it goes on waiting. Otherwise b is gone. */
static bool check(struct sched_vbind *b)
{
    const struct snode *n = sched_node_find(b->s, b->node);
    int all = 1;

    if (!n || !n->obj) {
        failed(b, "binding volumes: failed to get node \"%.*s\": node \"%.*s\" not found",
               BH_SF(b->node), BH_SF(b->node));
        return true;
    }
    for (size_t i = 0; i < b->n; i++) {
        const struct bind_volume *v = &b->v[i];
        struct bh_obj *pvc = sched_pvc(b->s, v->pvc->ns, v->pvc->name);
        int r;

        if (!pvc || !bh_str_eq(pvc->uid, v->pvc->uid)) {
            failed(b,
                   "binding volumes: failed to check %s: persistentvolumeclaim \"%.*s\" not found",
                   v->pv ? "binding" : "provisioning pvc", BH_SF(v->pvc->name));
            return true;
        }
        r = v->pv ? check_static(b, v, bh_obj_struct(pvc)) : check_provisioned(b, v, pvc);
        if (r < 0)
            return true;
        all = all && r;
    }
    if (all)
        ended(b, (struct bh_str){NULL, 0});
    return all;
}

void sched_vbind_look(struct bh_scheduler *s)
{
    for (bool more = true; more;) {
        more = false;
        bh_list_for(it, &s->volume_waits)
        {
            if (!check(bh_container(it, struct sched_vbind, link)))
                continue;
            more = true;
            break; /* one that fails takes the others of its group with it */
        }
    }
}

static void go(struct sched_vbind *b)
{
    while (b->i < b->n) {
        struct bind_volume *v = &b->v[b->i];

        if (!says_so(b, v)) {
            if (v->pv)
                put_pv(b, v);
            else
                put_pvc(b, v);
            return;
        }
        v->written = v->pv ? v->pv->rv : v->pvc->rv;
        b->i++;
    }
    b->waiting = true;
    bh_list_add_tail(&b->s->volume_waits, &b->link);
    bh_timer_start(&b->timer, b->timeout_s * 1000);
    (void)check(b);
}

/* Somebody wrote the object meanwhile: which version is there now? */
static void read_again(struct sched_vbind *b)
{
    const struct bind_volume *v = &b->v[b->i];
    const struct bh_obj *o = v->pv ? v->pv : v->pvc;
    struct bh_client_req req = {.verb = BH_VERB_GET, .kind = o->kind, .ns = o->ns, .name = o->name};

    b->call = bh_client_call(b->s->client, &req, on_answer, b);
}

static void again_later(struct sched_vbind *b)
{
    b->wait_ms = b->wait_ms ? 2 * b->wait_ms : RETRY_FIRST_MS;
    if (b->wait_ms > RETRY_MAX_MS)
        b->wait_ms = RETRY_MAX_MS;
    bh_timer_start(&b->timer, b->wait_ms);
}

/* Whether another has decided otherwise: then it is not written over. */
static bool given_away(const struct sched_vbind *b, const struct bind_volume *v)
{
    const struct bh_core_v1_persistent_volume_claim *pvc = bh_obj_struct(v->pvc);
    const struct bh_core_v1_persistent_volume *pv = v->pv ? bh_obj_struct(v->pv) : NULL;
    const struct bh_str *node =
        bh_str_map_get(&pvc->metadata.annotations, BH_S(BH_VOL_SELECTED_NODE));

    if (v->pvc->deleting || (v->pv && v->pv->deleting))
        return true;
    if (pv)
        return pv->spec.claim_ref && !bh_pv_ref_is(pv->spec.claim_ref, pvc);
    return pvc->spec.volume_name.n > 0 || (node && !bh_str_eq(*node, b->node));
}

/* The newest version, after a conflict: it may be written like the one before, or say already what
 * was to be written (by another pod with the same claim, or by us when an answer was lost). */
static void read_answer(struct sched_vbind *b, struct bh_obj *now)
{
    struct bind_volume *v = &b->v[b->i];
    struct bh_obj **mine = v->pv ? &v->pv : &v->pvc, *old = *mine;
    struct bh_str why = b->conflict;

    if (!bh_str_eq(now->uid, old->uid) || b->tries++ >= CONFLICT_TRIES) {
        failed(b, "%.*s", BH_SF(why));
        return;
    }
    if (now->rv <= old->rv) { /* what is in our way is not there to be read yet */
        again_later(b);
        return;
    }
    *mine = bh_obj_ref(now);
    (void)bh_obj_unref(old);
    b->conflict.n = 0;
    b->wait_ms = 0;
    if (!says_so(b, v) && given_away(b, v))
        failed(b, "%.*s", BH_SF(why));
    else
        go(b);
}

static void on_answer(void *arg, const struct bh_client_res *res)
{
    struct sched_vbind *b = arg;
    struct bind_volume *v = &b->v[b->i];

    b->call = 0;
    if (res->status == 0 || res->status == 429 || res->status >= 500) {
        again_later(b); /* perhaps it took effect: then the same once more conflicts */
        return;
    }
    if (res->status == 409 && !b->conflict.n) {
        b->conflict = bh_str_dup(b->arena, bh_s(res->err.msg));
        read_again(b);
        return;
    }
    if (res->err.code != BH_OK || !res->obj) {
        failed(b, "%s", res->err.msg);
        return;
    }
    if (b->conflict.n) {
        read_answer(b, res->obj);
        return;
    }
    b->wait_ms = 0;
    b->tries = 0;
    v->written = res->obj->rv;
    b->i++;
    go(b);
}

static void on_timer(void *arg)
{
    struct sched_vbind *b = arg;

    if (b->taken)
        failed(b, "the volumes on node \"%.*s\" were given to another pod", BH_SF(b->node));
    else if (b->waiting)
        failed(b, "binding volumes: context deadline exceeded");
    else if (b->conflict.n)
        read_again(b);
    else
        go(b);
}

void sched_vbind_start(struct sched_vbind *b, void (*done)(void *arg, struct bh_str why), void *arg)
{
    b->done = done;
    b->arg = arg;
    bh_timer_init(&b->timer, b->s->loop, on_timer, b);
    if (b->taken)
        bh_timer_start(&b->timer, 0);
    else
        go(b);
}
