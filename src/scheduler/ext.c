/* Extended resources that device classes stand for: the claim that a pod would need on a node.
 *
 * Containers are counted over init containers, then app containers. Long-lived ones (apps and
 * sidecars) each get a request per resource; an ordinary init container borrows those that come
 * after it, and only the largest of what is still missing becomes one more request.
 */
#include <stdlib.h>
#include <string.h>

#include "scheduler/ext_claim.h"
#include "scheduler/sched_int.h"

#define EXT_MAX 64 /* resources of one pod: bits of a mask */

struct ext_state {
    uint32_t id[EXT_MAX];
    struct sched_ext_resource r[EXT_MAX];
    size_t n;
};

struct request {
    struct bh_str name;
    size_t container;
    int64_t count;
};

struct builder {
    struct bh_arena *a;
    const struct bh_core_v1_pod_spec *spec;
    struct bh_resource_v1_device_request *req;
    size_t req_n, req_cap;
    struct bh_core_v1_container_extended_resource_request *map;
    size_t map_n, map_cap;
};

bool sched_ext_prefilter(struct cycle *c)
{
    struct ext_state *st = NULL;

    for (uint32_t i = 0; i < c->pod->req_n; i++) {
        uint32_t id = c->pod->req[i].id;
        struct bh_str class;

        if (id < RES_FIXED)
            continue;
        class = bh_dra_class_of_resource(c->s->model, c->s->res_names[id]);
        if (!class.n || (st && st->n == EXT_MAX))
            continue;
        if (!st)
            st = bh_new(c->a, struct ext_state);
        st->id[st->n] = id;
        st->r[st->n++] = (struct sched_ext_resource){c->s->res_names[id], class};
    }
    c->ext = st;
    return st != NULL;
}

/* Bits of the resources that devices serve on this node: those no device plugin offers there. */
uint64_t sched_ext_mask(const struct cycle *c, const struct snode *n)
{
    uint64_t mask = 0;

    for (size_t i = 0; c->ext && i < c->ext->n; i++)
        if (sched_node_xalloc(n, c->ext->id[i]) <= 0)
            mask |= (uint64_t)1 << i;
    return mask;
}

bool sched_ext_serves(const struct cycle *c, const struct snode *n, uint32_t id)
{
    for (size_t i = 0; c->ext && i < c->ext->n; i++)
        if (c->ext->id[i] == id)
            return sched_node_xalloc(n, id) <= 0;
    return false;
}

/* ---- building the claim ---- */

static const struct bh_core_v1_container *container(const struct bh_core_v1_pod_spec *spec,
                                                    size_t i)
{
    return i < spec->init_containers.n ? &spec->init_containers.p[i]
                                       : &spec->containers.p[i - spec->init_containers.n];
}

static bool long_lived(const struct bh_core_v1_pod_spec *spec, size_t i)
{
    const struct bh_core_v1_container *k = container(spec, i);

    return i >= spec->init_containers.n ||
           (k->has_restart_policy && bh_str_eqc(k->restart_policy, "Always"));
}

/* Quantity of the resource, and its place among the container's requests; 0 when it asks none. */
static int64_t asked(const struct bh_core_v1_container *k, struct bh_str name, size_t *ret_at)
{
    for (size_t i = 0; i < k->resources.requests.n; i++)
        if (bh_str_eq(k->resources.requests.p[i].key, name)) {
            *ret_at = i;
            return sched_res_value(RES_FIXED, k->resources.requests.p[i].value);
        }
    return 0;
}

static void map_to(struct builder *b, struct bh_str container_name, struct bh_str resource,
                   struct bh_str request)
{
    bh_arena_grow(b->a, &b->map, &b->map_cap, b->map_n + 1, sizeof(*b->map));
    b->map[b->map_n++] = (struct bh_core_v1_container_extended_resource_request){
        .container_name = container_name, .resource_name = resource, .request_name = request};
}

static void add_request(struct builder *b, const struct request *r, struct bh_str class)
{
    struct bh_resource_v1_exact_device_request *e =
        bh_new(b->a, struct bh_resource_v1_exact_device_request);

    e->device_class_name = class;
    e->allocation_mode = BH_S("ExactCount");
    e->count = r->count;
    bh_arena_grow(b->a, &b->req, &b->req_cap, b->req_n + 1, sizeof(*b->req));
    b->req[b->req_n++] = (struct bh_resource_v1_device_request){.name = r->name, .exactly = e};
}

static struct bh_str request_name(struct bh_arena *a, size_t container_at, size_t at)
{
    return bh_str_fmt(a, "container-%zu-request-%zu", container_at, at);
}

static void one_resource(struct builder *b, const struct sched_ext_resource *x)
{
    const struct bh_core_v1_pod_spec *spec = b->spec;
    size_t all = spec->init_containers.n + spec->containers.n, long_n = 0, at = 0, first_extra;
    struct request *longs = bh_new_n(b->a, struct request, all), extra = {0};

    for (size_t i = 0; i < all; i++) {
        int64_t q = long_lived(spec, i) ? asked(container(spec, i), x->name, &at) : 0;

        if (q <= 0)
            continue;
        longs[long_n] = (struct request){request_name(b->a, i, at), i, q};
        add_request(b, &longs[long_n], x->class);
        map_to(b, container(spec, i)->name, x->name, longs[long_n].name);
        long_n++;
    }
    first_extra = b->map_n;
    for (size_t i = 0; i < spec->init_containers.n; i++) {
        int64_t q = long_lived(spec, i) ? 0 : asked(container(spec, i), x->name, &at), got = 0;

        for (size_t k = 0; k < long_n && got < q; k++)
            if (longs[k].container >= i) {
                map_to(b, container(spec, i)->name, x->name, longs[k].name);
                got += longs[k].count;
            }
        if (got >= q)
            continue;
        if (q - got > extra.count)
            extra = (struct request){request_name(b->a, i, at), i, q - got};
        map_to(b, container(spec, i)->name, x->name, (struct bh_str){NULL, 0}); /* the extra one */
    }
    if (!extra.count)
        return;
    add_request(b, &extra, x->class);
    for (size_t i = first_extra; i < b->map_n; i++)
        if (!b->map[i].request_name.p)
            b->map[i].request_name = extra.name;
}

static int by_name(const void *x, const void *y)
{
    const struct bh_resource_v1_device_request *a = x, *b = y;

    return bh_str_cmp(a->name, b->name);
}

static int by_resource(const void *x, const void *y)
{
    const struct sched_ext_resource *a = x, *b = y;

    return bh_str_cmp(a->name, b->name);
}

void sched_ext_requests(struct bh_arena *a, const struct bh_core_v1_pod_spec *spec,
                        struct sched_ext_resource *r, size_t n,
                        struct bh_resource_v1_device_request_vec *ret,
                        struct bh_core_v1_container_extended_resource_request_vec *ret_mappings)
{
    struct builder b = {.a = a, .spec = spec};

    if (n)
        qsort(r, n, sizeof(*r), by_resource);
    for (size_t i = 0; i < n; i++)
        one_resource(&b, &r[i]);
    if (b.req_n)
        qsort(b.req, b.req_n, sizeof(*b.req), by_name);
    ret->p = b.req;
    ret->n = b.req_n;
    ret_mappings->p = b.map;
    ret_mappings->n = b.map_n;
}

const struct ext_claim *sched_ext_claim(struct cycle *c, uint64_t mask)
{
    const struct spod *pod = c->pod;
    struct ext_claim *e = bh_new(c->a, struct ext_claim);
    struct bh_resource_v1_resource_claim *cl = &e->claim;
    struct sched_ext_resource r[EXT_MAX];
    size_t n = 0;
    char uuid[37];

    for (size_t i = 0; i < c->ext->n; i++)
        if (mask & ((uint64_t)1 << i))
            r[n++] = c->ext->r[i];
    sched_ext_requests(c->a, &pod->p->spec, r, n, &cl->spec.devices.requests, &e->mappings);
    bh_loop_uuid(c->s->loop, uuid);
    cl->metadata.name = BH_S("<extended-resources>");
    cl->metadata.generate_name =
        bh_str_fmt(c->a, "%.*s-extended-resources-", BH_SF(pod->obj->name));
    cl->metadata.namespace = bh_str_dup(c->a, pod->obj->ns);
    cl->metadata.uid = bh_str_dup(c->a, bh_s(uuid));
    bh_str_map_put(c->a, &cl->metadata.annotations, BH_S(EXT_ANNOTATION), BH_S("true"));
    cl->metadata.owner_references.p = bh_new(c->a, struct bh_meta_v1_owner_reference);
    cl->metadata.owner_references.n = 1;
    cl->metadata.owner_references.p[0] =
        (struct bh_meta_v1_owner_reference){.api_version = BH_S("v1"),
                                            .kind = BH_S("Pod"),
                                            .name = bh_str_dup(c->a, pod->obj->name),
                                            .uid = bh_str_dup(c->a, pod->obj->uid),
                                            .controller = true,
                                            .has_controller = true};
    return e;
}

/* The claim that an earlier attempt left, if any. Such are rare: only then are all looked through.
 */
struct bh_obj *sched_ext_leftover(const struct cycle *c)
{
    struct bh_obj *o;

    if (!c->pod->attempts)
        return NULL;
    for (size_t it = 0; (o = bh_informer_next(c->s->inf_claims, &it));) {
        const struct bh_resource_v1_resource_claim *cl;
        const struct bh_str *mark;

        if (!bh_str_eq(o->ns, c->pod->obj->ns) || o->deleting)
            continue;
        cl = bh_obj_struct(o);
        mark = bh_str_map_get(&cl->metadata.annotations, BH_S(EXT_ANNOTATION));
        if (mark && bh_str_eqc(*mark, "true") && sched_owned_by(&cl->metadata, c->pod->obj->uid))
            return o;
    }
    return NULL;
}
