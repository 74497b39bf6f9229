/* PodResources: answers are built from the pods and the claim cache at the moment of the call;
 * nothing is kept. */
#include "kubelet/podresources.h"

#include <limits.h>

#include "api/gen/core_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/fs.h"
#include "kubelet/dra_manager.h"
#include "net/grpc.h"
#include "net/loop.h"
#include "net/pb.h"
#include "net/podresources.pb-c.h"

#define RATE_PER_S 100
#define BURST      10
#define NS_PER_S   1000000000
#define DECODE_MAX (1u << 20)

struct bh_podresources {
    struct bh_loop *loop;
    struct bh_podresources_opts o;
    struct bh_grpc_server *srv;
    int64_t tokens_ns; /* the bucket, in time: a call costs NS_PER_S / RATE_PER_S */
    int64_t at_ns;
};

/* A token bucket for the whole server. */
static bool admit(void *arg, struct bh_str method)
{
    struct bh_podresources *p = arg;
    int64_t now = bh_loop_mono_ns(p->loop);
    const int64_t cost = NS_PER_S / RATE_PER_S;

    (void)method;
    p->tokens_ns += now - p->at_ns;
    p->at_ns = now;
    if (p->tokens_ns > cost * BURST)
        p->tokens_ns = cost * BURST;
    if (p->tokens_ns < cost)
        return false;
    p->tokens_ns -= cost;
    return true;
}

static Bh__Podres__ClaimResource *device_make(struct bh_arena *a, const struct bh_dra_device *d)
{
    Bh__Podres__ClaimResource *r = bh_new(a, Bh__Podres__ClaimResource);

    bh__podres__claim_resource__init(r);
    r->driver_name = bh_pb_str(a, d->driver);
    r->pool_name = bh_pb_str(a, d->pool);
    r->device_name = bh_pb_str(a, d->device);
    if (d->share_id.n > 0)
        r->share_id = bh_pb_str(a, d->share_id);
    r->cdi_devices = bh_new_n(a, Bh__Podres__CDIDevice *, d->cdi_ids.n + 1);
    for (size_t i = 0; i < d->cdi_ids.n; i++) {
        Bh__Podres__CDIDevice *c = bh_new(a, Bh__Podres__CDIDevice);

        bh__podres__cdidevice__init(c);
        c->name = bh_pb_str(a, d->cdi_ids.p[i]);
        r->cdi_devices[r->n_cdi_devices++] = c;
    }
    return r;
}

static Bh__Podres__ContainerResources *container_make(const struct bh_podresources *p,
                                                      struct bh_arena *a, const struct bh_obj *pod,
                                                      const struct bh_core_v1_container *c, bool v1)
{
    Bh__Podres__ContainerResources *r = bh_new(a, Bh__Podres__ContainerResources);
    struct bh_dra_claim_devices *claims = NULL;
    size_t n = 0;

    bh__podres__container_resources__init(r);
    r->name = bh_pb_str(a, c->name);
    if (v1 && p->o.dra)
        n = bh_dra_container_claims(p->o.dra, pod, c, a, &claims);
    r->dynamic_resources = bh_new_n(a, Bh__Podres__DynamicResource *, n + 1);
    for (size_t i = 0; i < n; i++) {
        Bh__Podres__DynamicResource *d = bh_new(a, Bh__Podres__DynamicResource);

        bh__podres__dynamic_resource__init(d);
        d->claim_name = bh_pb_str(a, claims[i].claim_name);
        d->claim_namespace = bh_pb_str(a, claims[i].claim_ns);
        d->claim_resources = bh_new_n(a, Bh__Podres__ClaimResource *, claims[i].devices_n + 1);
        for (size_t k = 0; k < claims[i].devices_n; k++)
            d->claim_resources[d->n_claim_resources++] = device_make(a, &claims[i].devices[k]);
        r->dynamic_resources[r->n_dynamic_resources++] = d;
    }
    return r;
}

/* Restartable init containers first, then the app containers; the others never hold anything for
 * long. */
static Bh__Podres__PodResources *pod_make(const struct bh_podresources *p, struct bh_arena *a,
                                          const struct bh_obj *pod, bool v1)
{
    const struct bh_core_v1_pod *o = bh_obj_struct(pod);
    Bh__Podres__PodResources *r = bh_new(a, Bh__Podres__PodResources);

    bh__podres__pod_resources__init(r);
    r->name = bh_pb_str(a, pod->name);
    r->namespace_ = bh_pb_str(a, pod->ns);
    r->containers = bh_new_n(a, Bh__Podres__ContainerResources *,
                             o->spec.init_containers.n + o->spec.containers.n + 1);
    for (size_t i = 0; i < o->spec.init_containers.n; i++)
        if (bh_str_eqc(o->spec.init_containers.p[i].restart_policy, "Always"))
            r->containers[r->n_containers++] =
                container_make(p, a, pod, &o->spec.init_containers.p[i], v1);
    for (size_t i = 0; i < o->spec.containers.n; i++)
        r->containers[r->n_containers++] = container_make(p, a, pod, &o->spec.containers.p[i], v1);
    return r;
}

static void list(struct bh_podresources *p, struct bh_grpc_call *call, bool v1)
{
    struct bh_arena *a = bh_grpc_call_arena(call);
    Bh__Podres__ListPodResourcesResponse res = BH__PODRES__LIST_POD_RESOURCES_RESPONSE__INIT;
    struct bh_obj *pod;
    size_t cap = 0;

    for (size_t it = 0; (pod = p->o.next_pod(p->o.arg, &it));) {
        bh_arena_grow(a, &res.pod_resources, &cap, res.n_pod_resources + 1,
                      sizeof(*res.pod_resources));
        res.pod_resources[res.n_pod_resources++] = pod_make(p, a, pod, v1);
    }
    bh_grpc_call_reply(call, bh_pb_pack(a, &res));
}

static void h_list_v1(void *arg, struct bh_grpc_call *call)
{
    list(arg, call, true);
}
static void h_list_v1alpha1(void *arg, struct bh_grpc_call *call)
{
    list(arg, call, false);
}

static void h_get(void *arg, struct bh_grpc_call *call)
{
    struct bh_podresources *p = arg;
    struct bh_arena *a = bh_grpc_call_arena(call);
    BH_AUTO_ARENA in = bh_arena_new(DECODE_MAX);
    const Bh__Podres__GetPodResourcesRequest *req = bh_pb_unpack(
        in, &bh__podres__get_pod_resources_request__descriptor, bh_grpc_call_request(call));
    Bh__Podres__GetPodResourcesResponse res = BH__PODRES__GET_POD_RESOURCES_RESPONSE__INIT;
    struct bh_obj *pod;

    if (!req) {
        bh_grpc_call_finish(call, BH_GRPC_INVALID_ARGUMENT, "malformed request");
        return;
    }
    for (size_t it = 0; (pod = p->o.next_pod(p->o.arg, &it));) {
        if (!bh_str_eq(pod->name, bh_s(req->pod_name)) ||
            !bh_str_eq(pod->ns, bh_s(req->pod_namespace)))
            continue;
        res.pod_resources = pod_make(p, a, pod, true);
        bh_grpc_call_reply(call, bh_pb_pack(a, &res));
        return;
    }
    /* Upstream returns a plain error, and clients match on it. */
    bh_grpc_call_finish(call, BH_GRPC_UNKNOWN, "pod %s in namespace %s not found",
                        req->pod_name ? req->pod_name : "",
                        req->pod_namespace ? req->pod_namespace : "");
}

/* DRA devices are never listed here; there are no device plugins and no pinned CPUs or memory to
 * tell of. */
static void h_allocatable(void *arg, struct bh_grpc_call *call)
{
    Bh__Podres__AllocatableResourcesResponse res = BH__PODRES__ALLOCATABLE_RESOURCES_RESPONSE__INIT;

    (void)arg;
    bh_grpc_call_reply(call, bh_pb_pack(bh_grpc_call_arena(call), &res));
}

struct bh_podresources *bh_podresources_new(struct bh_loop *l, const struct bh_podresources_opts *o,
                                            struct bh_err *err)
{
    struct bh_podresources *p = bh_calloc(1, sizeof(*p));
    char dir[PATH_MAX], path[PATH_MAX];
    int r;

    p->loop = l;
    p->o = *o;
    p->o.root = NULL; /* only needed here */
    p->at_ns = bh_loop_mono_ns(l);
    p->tokens_ns = (int64_t)NS_PER_S / RATE_PER_S * BURST;
    p->srv = bh_grpc_server_new(l);
    bh_grpc_server_method(p->srv, "/v1.PodResourcesLister/List", h_list_v1, p);
    bh_grpc_server_method(p->srv, "/v1.PodResourcesLister/Get", h_get, p);
    bh_grpc_server_method(p->srv, "/v1.PodResourcesLister/GetAllocatableResources", h_allocatable,
                          p);
    bh_grpc_server_method(p->srv, "/v1alpha1.PodResourcesLister/List", h_list_v1alpha1, p);
    bh_grpc_server_admit(p->srv, admit, "rejected by rate limit", p);
    r = bh_path(dir, sizeof(dir), err, "%s/pod-resources", o->root);
    if (r == 0)
        r = bh_path(path, sizeof(path), err, "%s/kubelet.sock", dir);
    if (r == 0)
        r = bh_fs_mkdir_p(dir, 0750, err);
    if (r == 0)
        r = bh_grpc_server_listen_unix(p->srv, path, 0600, err);
    return r < 0 ? bh_podresources_free(p) : p;
}

struct bh_podresources *bh_podresources_free(struct bh_podresources *p)
{
    if (!p)
        return NULL;
    p->srv = bh_grpc_server_free(p->srv);
    bh_free(p);
    return NULL;
}
