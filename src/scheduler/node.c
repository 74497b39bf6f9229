/* The node index: what each node offers and what its pods take, kept up to date pod by pod. */
#include <string.h>

#include "scheduler/sched_int.h"

struct snode *sched_node_find(const struct bh_scheduler *s, struct bh_str name)
{
    return bh_map_get(&s->nodes_by_name, name);
}

struct snode *sched_node_get(struct bh_scheduler *s, struct bh_str name)
{
    struct snode *n = sched_node_find(s, name);

    if (n)
        return n;
    n = bh_calloc(1, sizeof(*n));
    n->s = s;
    n->name = (struct bh_str){bh_strdup_c(name), name.n};
    bh_list_init(&n->nominees);
    (void)bh_map_put(&s->nodes_by_name, n->name, n);
    return n;
}

static void node_unlist(struct bh_scheduler *s, struct snode *n)
{
    /* The order of the others stays: attempts walk them in a ring. */
    sched_nodes_reordered(s);
    s->soft_nodes -= n->soft_taints;
    for (uint32_t i = n->at + 1; i < s->nodes.n; i++) {
        s->nodes.p[i - 1] = s->nodes.p[i];
        s->nodes.p[i - 1]->at = i - 1;
    }
    s->nodes.n--;
    if (s->start >= s->nodes.n)
        s->start = 0;
}

static struct snode *node_free(struct bh_scheduler *s, struct snode *n)
{
    (void)bh_map_del(&s->nodes_by_name, n->name);
    while (!bh_list_empty(&n->nominees)) {
        struct spod *pod = bh_container(n->nominees.next, struct spod, nominated_link);

        sched_nominate(pod, NULL);
        sched_hold_drop(pod);
    }
    sched_images_clear(s, n);
    (void)bh_obj_unref(n->obj);
    bh_free(n->xalloc);
    bh_free(n->xused);
    bh_free(n->pods.p);
    bh_free(n->affine.p);
    bh_free((void *)(uintptr_t)n->name.p);
    bh_free(n);
    return NULL;
}

static void read_allocatable(struct bh_scheduler *s, struct snode *n)
{
    const struct bh_str_map *m = &n->n->status.allocatable;
    uint32_t k = 0;

    memset(n->alloc, 0, sizeof(n->alloc));
    n->xalloc = bh_realloc(n->xalloc, (m->n + 1) * sizeof(*n->xalloc));
    for (size_t i = 0; i < m->n; i++) {
        uint32_t id = sched_res_id(s, m->p[i].key);
        int64_t v = sched_res_value(id, m->p[i].value);

        if (id < RES_FIXED)
            n->alloc[id] = v;
        else if (id < RES_NAMES_MAX - 1)
            n->xalloc[k++] = (struct res_amount){id, v};
    }
    n->xalloc_n = k;
}

static void read_taints(struct snode *n)
{
    n->hard_taints = n->soft_taints = false;
    n->unschedulable = n->n->spec.unschedulable;
    for (size_t i = 0; i < n->n->spec.taints.n; i++) {
        struct bh_str e = n->n->spec.taints.p[i].effect;

        if (bh_str_eqc(e, "PreferNoSchedule"))
            n->soft_taints = true;
        else
            n->hard_taints = true;
    }
}

void sched_node_put(struct bh_scheduler *s, struct bh_obj *obj)
{
    struct snode *n = sched_node_get(s, obj->name);
    struct bh_obj *old = n->obj;

    s->soft_nodes -= old && n->soft_taints;
    n->obj = bh_obj_ref(obj);
    n->n = bh_obj_struct(obj);
    read_allocatable(s, n);
    read_taints(n);
    sched_features_read(n);
    if (!old || !sched_images_same(bh_obj_struct(old), n->n))
        sched_images_read(s, n);
    (void)bh_obj_unref(old);
    s->soft_nodes += n->soft_taints;
    if (old) {
        sched_node_changed(s, n);
        return;
    }
    if (s->nodes.n == s->nodes.cap) {
        s->nodes.cap = s->nodes.cap ? 2 * s->nodes.cap : 64;
        s->nodes.p = bh_realloc(s->nodes.p, s->nodes.cap * sizeof(struct snode *));
    }
    n->at = s->nodes.n;
    s->nodes.p[s->nodes.n++] = n;
}

/* The node stays while pods are on it: they may be told gone later, or the node may come back. */
void sched_node_del(struct bh_scheduler *s, struct bh_str name)
{
    struct snode *n = sched_node_find(s, name);

    if (!n || !n->obj)
        return;
    node_unlist(s, n);
    sched_images_clear(s, n);
    n->obj = bh_obj_unref(n->obj);
    n->n = NULL;
    if (!n->pods.n && bh_list_empty(&n->nominees))
        (void)node_free(s, n);
}

int64_t sched_node_xalloc(const struct snode *n, uint32_t id)
{
    for (uint32_t i = 0; i < n->xalloc_n; i++)
        if (n->xalloc[i].id == id)
            return n->xalloc[i].v;
    return -1;
}

int64_t sched_node_xused(const struct snode *n, uint32_t id)
{
    for (uint32_t i = 0; i < n->xused_n; i++)
        if (n->xused[i].id == id)
            return n->xused[i].v;
    return 0;
}

void sched_node_amounts(const struct snode *n, uint32_t id, int64_t *ret_all, int64_t *ret_used)
{
    if (id < RES_FIXED) {
        *ret_all = n->alloc[id];
        *ret_used = n->used[id];
        return;
    }
    *ret_all = sched_node_xalloc(n, id);
    *ret_all = *ret_all < 0 ? 0 : *ret_all;
    *ret_used = sched_node_xused(n, id);
}

static void use(struct snode *n, const struct spod *pod, int sign)
{
    for (uint32_t i = 0; i < pod->req_n; i++) {
        const struct res_amount *r = &pod->req[i];
        uint32_t k;

        if (r->id < RES_FIXED) {
            n->used[r->id] += sign * r->v;
            continue;
        }
        for (k = 0; k < n->xused_n && n->xused[k].id != r->id; k++)
            ;
        if (k == n->xused_n) {
            if (k == n->xused_cap) {
                n->xused_cap = k ? 2 * k : 4;
                n->xused = bh_realloc(n->xused, n->xused_cap * sizeof(*n->xused));
            }
            n->xused[n->xused_n++] = (struct res_amount){r->id, 0};
        }
        n->xused[k].v += sign * r->v;
    }
    n->nz_cpu += sign * pod->nz_cpu;
    n->nz_memory += sign * pod->nz_memory;
}

static void list_add(struct pod_list *l, struct spod *pod)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 8;
        l->p = bh_realloc(l->p, l->cap * sizeof(struct spod *));
    }
    l->p[l->n++] = pod;
}

/* A pod that came or went. A nominated one that has a place counts as a guest nowhere else. */
static void pods_changed(struct bh_scheduler *s, const struct snode *n, const struct spod *pod)
{
    sched_node_changed(s, n);
    if (pod->nominated && pod->nominated != n)
        sched_node_changed(s, pod->nominated);
}

void sched_node_add_pod(struct bh_scheduler *s, struct snode *n, struct spod *pod)
{
    const struct bh_core_v1_node_allocatable_resource_claim_status_vec *native;

    bh_assert(!pod->node);
    pod->node = n;
    pod->node_at = n->pods.n;
    list_add(&n->pods, pod);
    use(n, pod, 1);
    n->ports_n += pod->ports_n > 0;
    native = sched_pod_native(pod);
    pod->shares_native = native && native->n;
    n->native_n += pod->shares_native;
    pods_changed(s, n, pod);
    sched_volumes_count(s, pod, 1);
    if (pod->terms) {
        list_add(&n->affine, pod);
        s->terms_pods++;
    }
}

void sched_node_del_pod(struct bh_scheduler *s, struct spod *pod)
{
    struct snode *n = pod->node;
    struct spod *last;

    if (!n)
        return;
    last = n->pods.p[n->pods.n - 1];
    n->pods.p[pod->node_at] = last;
    last->node_at = pod->node_at;
    n->pods.n--;
    use(n, pod, -1);
    n->ports_n -= pod->ports_n > 0;
    n->native_n -= pod->shares_native;
    pods_changed(s, n, pod);
    sched_volumes_count(s, pod, -1);
    if (pod->terms)
        for (uint32_t i = 0; i < n->affine.n; i++)
            if (n->affine.p[i] == pod) {
                n->affine.p[i] = n->affine.p[--n->affine.n];
                s->terms_pods--;
                break;
            }
    pod->node = NULL;
    if (!n->obj && !n->pods.n && bh_list_empty(&n->nominees))
        (void)node_free(s, n);
}

void sched_nominate(struct spod *pod, struct snode *n)
{
    if (pod->nominated == n)
        return;
    bh_list_del(&pod->nominated_link);
    if (pod->nominated)
        sched_node_changed(pod->nominated->s, pod->nominated);
    pod->nominated = n;
    if (!n)
        return;
    bh_list_add_tail(&n->nominees, &pod->nominated_link);
    sched_node_changed(n->s, n);
}

static bool any_address(struct bh_str ip)
{
    return !ip.n || bh_str_eqc(ip, "0.0.0.0");
}

bool sched_ports_conflict(const struct host_port *a, const struct host_port *b)
{
    struct bh_str pa = a->protocol.n ? a->protocol : BH_S("TCP");
    struct bh_str pb = b->protocol.n ? b->protocol : BH_S("TCP");

    return a->port == b->port && bh_str_eq(pa, pb) &&
           (any_address(a->ip) || any_address(b->ip) || bh_str_eq(a->ip, b->ip));
}

void sched_nodes_done(struct bh_scheduler *s)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&s->nodes_by_name, &it, NULL, &v))
        (void)node_free(s, v);
    bh_map_done(&s->nodes_by_name);
    bh_free(s->nodes.p);
}
