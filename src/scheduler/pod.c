/* What the scheduler knows of one pod: its requests, host ports and priority, read once when the
 * pod's object changes. */
#include <string.h>

#include "api/engine.h"
#include "data/quantity.h"
#include "scheduler/sched_int.h"

/* What scoring takes a container to use that requests nothing. */
#define NZ_CPU_MILLI 100
#define NZ_MEMORY    ((int64_t)200 * 1024 * 1024)

uint32_t sched_res_id(struct bh_scheduler *s, struct bh_str name)
{
    size_t known = (size_t)(uintptr_t)bh_map_get(&s->res_ids, name);

    if (known)
        return (uint32_t)known - 1;
    if (s->res_n == RES_NAMES_MAX)
        return RES_NAMES_MAX - 1; /* shared by all that are too many: none of them is ever free */
    s->res_names[s->res_n].p = bh_strdup_c(name);
    s->res_names[s->res_n].n = name.n;
    (void)bh_map_put(&s->res_ids, name, (void *)(uintptr_t)(s->res_n + 1));
    return s->res_n++;
}

/* "100m" of cpu, "500Mi" of others. */
static bool plain_value(uint32_t id, struct bh_str text, int64_t *ret)
{
    int shift = 0;
    char c;

    if (text.n < 2 || text.n > 10)
        return false;
    c = text.p[text.n - 1];
    if (id == RES_CPU)
        return c == 'm' && bh_str_i64(bh_str_sub(text, 0, text.n - 1), 0, INT64_MAX, ret);
    if (c != 'i')
        return false;
    c = text.p[text.n - 2];
    shift = c == 'K' ? 10 : c == 'M' ? 20 : c == 'G' ? 30 : 0;
    if (!shift || !bh_str_i64(bh_str_sub(text, 0, text.n - 2), 0, INT64_MAX >> 30, ret))
        return false;
    *ret <<= shift;
    return true;
}

int64_t sched_res_value(uint32_t id, struct bh_str text)
{
    struct bh_quantity q;
    int64_t v;

    /* The common forms, without the exact arithmetic. */
    if (text.n < 16 && bh_str_i64(text, 0, INT64_MAX / 1000, &v))
        return id == RES_CPU ? v * 1000 : v;
    if (plain_value(id, text, &v))
        return v;
    if (bh_quantity_parse(text, &q, NULL) < 0)
        return 0;
    return id == RES_CPU ? bh_quantity_milli_value(q) : bh_quantity_value(q);
}

struct sums {
    struct res_amount *p;
    uint32_t n, cap;
    struct bh_arena *a;
};

static struct res_amount *sums_at(struct sums *t, uint32_t id)
{
    size_t cap = t->cap;

    for (uint32_t i = 0; i < t->n; i++)
        if (t->p[i].id == id)
            return &t->p[i];
    bh_arena_grow(t->a, &t->p, &cap, t->n + 1, sizeof(*t->p));
    t->cap = (uint32_t)cap;
    t->p[t->n] = (struct res_amount){id, 0};
    return &t->p[t->n++];
}

static int64_t add_sat(int64_t a, int64_t b)
{
    int64_t r;

    return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

static void sums_add(struct bh_scheduler *s, struct sums *t, const struct bh_str_map *m)
{
    for (size_t i = 0; i < m->n; i++) {
        uint32_t id = sched_res_id(s, m->p[i].key);
        struct res_amount *r = sums_at(t, id);

        r->v = add_sat(r->v, sched_res_value(id, m->p[i].value));
    }
}

static void sums_add_all(struct sums *t, const struct sums *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        struct res_amount *r = sums_at(t, b->p[i].id);

        r->v = add_sat(r->v, b->p[i].v);
    }
}

static void sums_max(struct sums *t, const struct sums *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        struct res_amount *r = sums_at(t, b->p[i].id);

        if (b->p[i].v > r->v)
            r->v = b->p[i].v;
    }
}

static bool is_sidecar(const struct bh_core_v1_container *c)
{
    return c->has_restart_policy && bh_str_eqc(c->restart_policy, "Always");
}

/* Whether pod-level requests stand in for the containers' (cpu, memory and huge pages only). */
static bool pod_level(struct bh_str name)
{
    return bh_str_eqc(name, "cpu") || bh_str_eqc(name, "memory") ||
           bh_str_starts(name, BH_S("hugepages-"));
}

/* While a pod is resized it counts with the largest of what it shall have, what it was granted and
 * what it has; one that cannot be resized only with the latter two. */
static void effective(struct bh_scheduler *s, const struct bh_core_v1_pod *p,
                      const struct bh_str_map *spec, const struct bh_str_map *granted,
                      const struct bh_core_v1_resource_requirements *has, struct sums *ret)
{
    const struct bh_str_map *all[3] = {spec, granted, &has->requests};
    bool infeasible = false;

    for (size_t i = 0; i < p->status.conditions.n; i++)
        if (bh_str_eqc(p->status.conditions.p[i].type, "PodResizePending"))
            infeasible = bh_str_eqc(p->status.conditions.p[i].reason, "Infeasible");
    for (size_t i = infeasible; i < BH_COUNT(all); i++) {
        struct sums one = {.a = ret->a};

        sums_add(s, &one, all[i]);
        sums_max(ret, &one);
    }
}

static const struct bh_core_v1_container_status *
status_of(const struct bh_core_v1_container_status_vec *v, struct bh_str name)
{
    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i].name, name))
            return &v->p[i];
    return NULL;
}

/* What takes the place of a request that is not made: nothing, or what scoring assumes. */
struct missing {
    int64_t cpu, memory;
};

static void add_container(struct bh_scheduler *s, struct sums *t, const struct bh_core_v1_pod *p,
                          const struct bh_core_v1_container *c,
                          const struct bh_core_v1_container_status *st, struct missing nz)
{
    const struct bh_str_map *asked = &c->resources.requests;
    struct sums one = {.a = t->a};
    bool cpu = bh_str_map_get(asked, BH_S("cpu")) != NULL;
    bool memory = bh_str_map_get(asked, BH_S("memory")) != NULL;

    if (st && st->resources) {
        effective(s, p, asked, &st->allocated_resources, st->resources, &one);
        for (uint32_t i = 0; i < one.n; i++) {
            cpu |= one.p[i].id == RES_CPU;
            memory |= one.p[i].id == RES_MEMORY;
        }
        sums_add_all(t, &one);
    } else {
        sums_add(s, t, asked);
    }
    if (nz.cpu && !cpu)
        sums_at(t, RES_CPU)->v += nz.cpu;
    if (nz.memory && !memory)
        sums_at(t, RES_MEMORY)->v += nz.memory;
}

static void pod_requests(struct bh_scheduler *s, const struct bh_core_v1_pod *p, struct sums *t)
{
    const struct bh_core_v1_resource_requirements *own = p->spec.resources;
    struct sums now = {.a = t->a};

    if (!own)
        return;
    if (p->status.resources)
        effective(s, p, &own->requests, &p->status.allocated_resources, p->status.resources, &now);
    for (size_t i = 0; i < own->requests.n; i++) {
        const struct bh_str_pair *q = &own->requests.p[i];
        uint32_t id = sched_res_id(s, q->key);

        if (pod_level(q->key))
            sums_at(t, id)->v =
                p->status.resources ? sums_at(&now, id)->v : sched_res_value(id, q->value);
    }
}

/* What devices take of the node's own resources, which counts beside the containers. */
struct native {
    const struct bh_core_v1_node_allocatable_resource_claim_status_vec *v; /* may be NULL */
    bool containers_only; /* without what the pod asks as a whole */
};

/* Upstream's rule: app containers and sidecars add up; an init container needs what it asks beside
 * the sidecars that were started before it; the larger of both counts, plus overhead. */
static void requests(struct bh_scheduler *s, const struct bh_core_v1_pod *p, struct bh_arena *a,
                     struct missing nz, struct native n, struct sums *ret)
{
    const struct bh_core_v1_pod_spec *spec = &p->spec;
    struct sums sidecars = {.a = a}, init = {.a = a};

    ret->a = a;
    for (size_t i = 0; i < spec->containers.n; i++)
        add_container(s, ret, p, &spec->containers.p[i],
                      status_of(&p->status.container_statuses, spec->containers.p[i].name), nz);
    for (size_t i = 0; i < spec->init_containers.n; i++) {
        const struct bh_core_v1_container *c = &spec->init_containers.p[i];

        if (is_sidecar(c)) {
            const struct bh_core_v1_container_status *st =
                status_of(&p->status.init_container_statuses, c->name);

            add_container(s, ret, p, c, st, nz);
            add_container(s, &sidecars, p, c, st, nz);
            sums_max(&init, &sidecars);
        } else {
            struct sums one = {.a = a};

            add_container(s, &one, p, c, NULL, nz);
            sums_add_all(&one, &sidecars);
            sums_max(&init, &one);
        }
    }
    sums_max(ret, &init);
    for (size_t i = 0; n.v && i < n.v->n; i++)
        sums_add(s, ret, &n.v->p[i].resources);
    if (!n.containers_only)
        pod_requests(s, p, ret);
    sums_add(s, ret, &spec->overhead);
}

static bool sums_has(const struct sums *t, uint32_t id)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->p[i].id == id)
            return true;
    return false;
}

static bool asks_as_pod(const struct bh_core_v1_pod *p)
{
    for (size_t i = 0; p->spec.resources && i < p->spec.resources->requests.n; i++)
        if (pod_level(p->spec.resources->requests.p[i].key))
            return true;
    return false;
}

static void read_requests(struct bh_scheduler *s, struct spod *pod, struct bh_arena *a)
{
    struct missing nz_all = {NZ_CPU_MILLI, NZ_MEMORY}, nz_some = nz_all;
    struct sums t = {0}, nz = {0}, running = {0};
    struct native native = {.v = sched_pod_native(pod)};
    uint32_t k = 0;

    requests(s, pod->p, a, (struct missing){0}, native, &t);
    requests(s, pod->p, a, nz_all, native, &nz);
    pod->nz_cpu_asked = pod->nz_cpu = sums_at(&nz, RES_CPU)->v;
    pod->nz_memory_asked = pod->nz_memory = sums_at(&nz, RES_MEMORY)->v;
    if (asks_as_pod(pod->p)) {
        /* On its node such a pod counts with defaults only for what nobody in it asks. */
        nz_some.cpu = sums_has(&t, RES_CPU) ? 0 : nz_some.cpu;
        nz_some.memory = sums_has(&t, RES_MEMORY) ? 0 : nz_some.memory;
        requests(s, pod->p, a, nz_some, native, &running);
        pod->nz_cpu = sums_at(&running, RES_CPU)->v;
        pod->nz_memory = sums_at(&running, RES_MEMORY)->v;
    }
    pod->req = bh_realloc(pod->req, (t.n + 1) * sizeof(*pod->req));
    for (uint32_t i = 0; i < t.n; i++)
        if (t.p[i].v > 0)
            pod->req[k++] = t.p[i];
    pod->req_n = k;
    for (uint32_t i = 1; i < k; i++) /* by number, so that messages come in one order */
        for (uint32_t j = i; j > 0 && pod->req[j].id < pod->req[j - 1].id; j--) {
            struct res_amount x = pod->req[j];

            pod->req[j] = pod->req[j - 1];
            pod->req[j - 1] = x;
        }
}

static void charge_drop(struct spod *pod)
{
    if (pod->charge)
        (void)bh_arena_free(pod->charge->a); /* it lies in there itself */
    pod->charge = NULL;
}

void sched_pod_charge(struct bh_scheduler *s, struct spod *pod,
                      const struct bh_core_v1_node_allocatable_resource_claim_status_vec *v)
{
    bh_assert(!pod->node);
    charge_drop(pod);
    if (v) {
        struct bh_arena *a = bh_arena_new(0);
        struct pod_charge *k = bh_new(a, struct pod_charge);

        k->a = a;
        k->claims.n = v->n;
        k->claims.p = bh_new_n(a, struct bh_core_v1_node_allocatable_resource_claim_status, v->n);
        for (size_t i = 0; i < v->n; i++)
            bh_msg_copy(&bh_core_v1_node_allocatable_resource_claim_status_type, &k->claims.p[i],
                        &v->p[i], a);
        pod->charge = k;
    }
    read_requests(s, pod, s->scratch);
    bh_arena_reset(s->scratch);
}

/* Of a pod that looks for a node the status tells of an attempt that came to nothing. */
const struct bh_core_v1_node_allocatable_resource_claim_status_vec *
sched_pod_native(const struct spod *pod)
{
    if (pod->charge)
        return &pod->charge->claims;
    return pod->p->spec.node_name.n ? &pod->p->status.node_allocatable_resource_claim_statuses
                                    : NULL;
}

uint32_t sched_pod_sums(struct bh_scheduler *s, const struct spod *pod,
                        const struct bh_core_v1_node_allocatable_resource_claim_status_vec *v,
                        bool by_pod, struct bh_arena *a, struct res_amount **ret)
{
    struct sums t = {0};

    requests(s, pod->p, a, (struct missing){0}, (struct native){v, !by_pod}, &t);
    *ret = t.p;
    return t.n;
}

static uint32_t ports_of(const struct bh_core_v1_container *c, bool host_network,
                         struct host_port *out)
{
    uint32_t n = 0;

    for (size_t i = 0; i < c->ports.n; i++) {
        const struct bh_core_v1_container_port *p = &c->ports.p[i];
        int32_t port = p->host_port || !host_network ? p->host_port : p->container_port;

        if (port <= 0)
            continue;
        if (out)
            out[n] = (struct host_port){p->host_ip, p->protocol, port};
        n++;
    }
    return n;
}

static uint32_t walk_ports(const struct bh_core_v1_pod_spec *spec, struct host_port *out)
{
    uint32_t n = 0;

    for (size_t i = 0; i < spec->containers.n; i++)
        n += ports_of(&spec->containers.p[i], spec->host_network, out ? out + n : NULL);
    /* Ordinary init containers end before the others use their ports. */
    for (size_t i = 0; i < spec->init_containers.n; i++)
        if (is_sidecar(&spec->init_containers.p[i]))
            n += ports_of(&spec->init_containers.p[i], spec->host_network, out ? out + n : NULL);
    return n;
}

bool sched_pod_terminal(const struct bh_core_v1_pod *p)
{
    return bh_str_eqc(p->status.phase, "Succeeded") || bh_str_eqc(p->status.phase, "Failed");
}

void sched_pod_set(struct bh_scheduler *s, struct spod *pod, struct bh_obj *obj)
{
    struct bh_obj *old = pod->obj;

    pod->obj = bh_obj_ref(obj);
    pod->p = bh_obj_struct(obj);
    if (pod->p->spec.node_name.n) /* bound: its status tells */
        charge_drop(pod);
    pod->prof = sched_profile_of(s, pod->p);
    pod->priority = pod->p->spec.has_priority ? pod->p->spec.priority : 0;
    read_requests(s, pod, s->scratch);
    bh_arena_reset(s->scratch);
    pod->ports_n = walk_ports(&pod->p->spec, NULL);
    bh_free(pod->ports);
    pod->ports = pod->ports_n ? bh_calloc(pod->ports_n, sizeof(*pod->ports)) : NULL;
    if (pod->ports_n)
        (void)walk_ports(&pod->p->spec, pod->ports);
    pod->has_pvc = pod->has_disks = false;
    for (size_t i = 0; i < pod->p->spec.volumes.n; i++) {
        const struct bh_core_v1_volume_source *v = &pod->p->spec.volumes.p[i].volume_source;

        pod->has_pvc |= v->persistent_volume_claim || v->ephemeral;
        pod->has_disks |= sched_volume_is_disk(v);
    }
    (void)sched_terms_free(pod->terms);
    pod->terms = sched_terms_new(pod);
    (void)bh_obj_unref(old);
}

void sched_pod_renew(struct bh_scheduler *s, struct spod *pod, struct bh_obj *obj)
{
    struct bh_obj *old = pod->obj;

    if (pod->ports_n || pod->terms) { /* these look into the object */
        sched_pod_set(s, pod, obj);
        return;
    }
    pod->obj = bh_obj_ref(obj);
    pod->p = bh_obj_struct(obj);
    (void)bh_obj_unref(old);
}

struct spod *sched_pod_new(struct bh_scheduler *s, struct bh_obj *obj)
{
    struct spod *pod = bh_calloc(1, sizeof(*pod));

    sched_pod_set(s, pod, obj);
    return pod;
}

struct spod *sched_pod_free(struct bh_scheduler *s, struct spod *pod)
{
    (void)s;
    (void)bh_obj_unref(pod->obj);
    bh_free(pod->req);
    bh_free(pod->ports);
    charge_drop(pod);
    (void)sched_terms_free(pod->terms);
    bh_free(pod);
    return NULL;
}

const struct res_amount *sched_pod_req(const struct spod *pod, uint32_t id)
{
    for (uint32_t i = 0; i < pod->req_n; i++)
        if (pod->req[i].id == id)
            return &pod->req[i];
    return NULL;
}

bool sched_tolerates(const struct bh_core_v1_toleration *t, const struct bh_core_v1_taint *taint)
{
    int64_t want, have;

    if (t->effect.n && !bh_str_eq(t->effect, taint->effect))
        return false;
    if (t->key.n && !bh_str_eq(t->key, taint->key))
        return false;
    if (bh_str_eqc(t->operator, "Exists"))
        return true;
    if (!t->operator.n || bh_str_eqc(t->operator, "Equal"))
        return bh_str_eq(t->value, taint->value);
    if (!bh_str_i64(t->value, INT64_MIN, INT64_MAX, &want) ||
        !bh_str_i64(taint->value, INT64_MIN, INT64_MAX, &have))
        return false;
    if (bh_str_eqc(t->operator, "Gt"))
        return have > want;
    return bh_str_eqc(t->operator, "Lt") && have < want;
}

bool sched_tolerates_any(const struct bh_core_v1_toleration *t, size_t n,
                         const struct bh_core_v1_taint *taint)
{
    for (size_t i = 0; i < n; i++)
        if (sched_tolerates(&t[i], taint))
            return true;
    return false;
}
