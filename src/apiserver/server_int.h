/* Inside of the API server. */
#ifndef BH_APISERVER_SERVER_INT_H
#define BH_APISERVER_SERVER_INT_H

#include "api/obj_commit.h"
#include "apiserver/apiserver.h"
#include "apiserver/pipeline.h"
#include "apiserver/rq.h"
#include "apiserver/serving_certs.h"
#include "apiserver/watch_cache.h"
#include "net/loop.h"

struct bh_authn;
struct bh_frontend;
struct bh_frame_cache;
struct bh_tls;
struct bh_metrics;

/* A resource that is stored: one per group and resource, whatever its versions. */
struct bh_resource {
    const struct bh_kind *hub;
    struct bh_wc_res *wc;
};

/* The admission plugins, all of them on unless they are switched off. */
enum bh_plugin {
    BH_PLUGIN_NAMESPACE_LIFECYCLE,
    BH_PLUGIN_PRIORITY,
    BH_PLUGIN_TOLERATION_SECONDS,
    BH_PLUGIN_RUNTIME_CLASS,
    BH_PLUGIN_TAINT_NODES,
    BH_PLUGIN_NODE_RESTRICTION,
    BH_PLUGIN_CLAIM_RESIZE,
    BH_PLUGIN_STORAGE_IN_USE,
    BH_PLUGIN_STORAGE_CLASS,
    BH_PLUGIN_POD_GROUP_PROTECTION,
    BH_PLUGIN_POD_GROUP_WORKLOAD,
    BH_PLUGIN__N
};

/* Where a request under way is found by its id, which is the slot's number and its turn. */
struct bh_rq_slot {
    struct bh_rq *rq; /* NULL: free */
    uint32_t turn;    /* how often the slot was given */
    uint32_t next;    /* of a free slot: the next free one and 1, or 0 */
};

struct bh_apiserver {
    struct bh_loop *loop;
    struct bh_store *store;
    struct bh_wc *wc;
    struct bh_pipeline *pipe;
    struct bh_arena *a;      /* lives as long as the server: options, tables */
    struct bh_map resources; /* "group/resource" -> struct bh_resource */
    struct bh_map hidden;    /* "group/version" that runtime_config switched off */
    struct bh_map gates;     /* feature gate -> "t" or "f" as given */
    struct bh_map openapi;   /* documents made so far: path -> struct bh_str */
    struct bh_resource *namespaces;
    bool plugin_off[BH_PLUGIN__N];
    struct bh_link rqs; /* struct bh_rq.link: under way */
    struct bh_rq_slot *slots;
    size_t slots_n, slots_cap;
    uint32_t slot_free; /* the first free slot and 1, or 0 */
    size_t watches;
    struct bh_authn *authn;
    struct bh_frontend *front; /* NULL until bh_apiserver_listen() */
    int port;                  /* that it listens on */
    struct bh_frame_cache *frames;
    struct bh_tls *kubelet_tls; /* how agents are spoken to; NULL before bh_apiserver_listen() */
    const char *client_ca_file;
    struct bh_kubelet_files kubelet_files;
    struct bh_metrics *metrics;
    struct bh_buf scratch; /* memory for the next object to be encoded */
    struct bh_image image; /* and for its struct */
    bh_authorize_fn authorize;
    void *authorize_arg;
    bool always_allow;
    bool freed;
    struct bh_timer upkeep; /* compaction, bookmarks, expired events */
    uint64_t upkeep_rv;     /* version at the last compaction tick */
    int64_t upkeep_at_ns;
    struct bh_str service_cidr;
    uint64_t cluster_ip_next;
};

/* ---- server.c ---- */
struct bh_resource *bh_resource_find(struct bh_apiserver *srv, struct bh_str group,
                                     struct bh_str resource);
/* The namespace object as published or accepted; NULL when it does not exist. */
struct bh_obj *bh_namespace_head(struct bh_apiserver *srv, struct bh_str name);
bool bh_gate_on(struct bh_apiserver *srv, const char *name);
static inline bool bh_admission_on(const struct bh_apiserver *srv, enum bh_plugin plugin)
{
    return !srv->plugin_off[plugin];
}
bool bh_version_served(const struct bh_apiserver *srv, const struct bh_kind *k);
struct bh_time bh_server_now(const struct bh_apiserver *srv);
/* Fills rq->env from the request. */
void bh_rq_env(struct bh_rq *rq, const char *verb);

/* ---- route.c ---- */
BH_MUST int bh_rq_authorize(struct bh_rq *rq);
bool bh_rq_allowed(struct bh_rq *rq, const struct bh_authz_attrs *at, char *reason,
                   size_t reason_n);

/* ---- authn.c ---- */
struct bh_authn *bh_authn_new(const struct bh_apiserver_opts *o, struct bh_err *err);
struct bh_authn *bh_authn_free(struct bh_authn *an);
/* 1: *ret is who it is (views that live as long as authn, or in a); 0: nobody known (401). token: p
 * == NULL without a bearer token. cn, orgs: of a verified client certificate, cn.n == 0 without. */
int bh_authn_check(const struct bh_authn *an, struct bh_arena *a, struct bh_str token,
                   struct bh_str cn, struct bh_str_vec orgs, struct bh_user *ret);

/* ---- authz.c ---- */
bool bh_authz_builtin(void *arg, const struct bh_authz_attrs *at, char *reason, size_t reason_n);

/* ---- discovery.c, health.c, openapi_http.c, metrics.c: paths that are no resource; 0 when
 * answered ---- */
BH_MUST int bh_discovery_serve(struct bh_rq *rq);
BH_MUST int bh_health_serve(struct bh_rq *rq);
BH_MUST int bh_openapi_serve(struct bh_rq *rq);
BH_MUST int bh_metrics_serve(struct bh_rq *rq);
struct bh_metrics *bh_metrics_new(void);
struct bh_metrics *bh_metrics_free(struct bh_metrics *m);
/* bytes: of the answer's body. */
void bh_metrics_count(struct bh_rq *rq, int status, size_t bytes);
struct bh_watched;
/* Where the events of a watch are counted; lives as long as the server. */
struct bh_watched *bh_metrics_watched(struct bh_rq *rq);
void bh_metrics_event(struct bh_watched *w, size_t bytes);

/* ---- admission.c ---- */
/* Before defaults of the stored form are final: may change obj (hub struct). old NULL on create. */
BH_MUST int bh_admit(struct bh_rq *rq, const struct bh_kind *hub, struct bh_str sub, void *obj,
                     const void *old);
/* After validation of a create: the plugins that only look. */
BH_MUST int bh_admit_check(struct bh_rq *rq, const struct bh_kind *hub, const void *obj);
/* After validation: may only refuse. */
BH_MUST int bh_admit_validated(struct bh_rq *rq, const struct bh_kind *hub, struct bh_str sub,
                               const void *obj, const void *old);
BH_MUST int bh_admit_delete(struct bh_rq *rq, const struct bh_obj *obj);
struct bh_core_v1_pod;
BH_MUST int bh_admit_priority(struct bh_rq *rq, struct bh_core_v1_pod *p,
                              const struct bh_core_v1_pod *old);
/* admission_runtime.c */
BH_MUST int bh_admit_runtime_class(struct bh_rq *rq, struct bh_core_v1_pod *p);
void bh_admit_pod_group(struct bh_rq *rq, void *obj);
/* Gives a claim its class, and volumes and claims the finalizer that protects them. */
void bh_admit_storage_create(struct bh_rq *rq, const struct bh_kind *hub, void *obj);
struct bh_core_v1_persistent_volume_claim;
BH_MUST int bh_admit_claim_resize(struct bh_rq *rq,
                                  const struct bh_core_v1_persistent_volume_claim *c,
                                  const struct bh_core_v1_persistent_volume_claim *old);

/* ---- rest_*.c ---- */
BH_MUST int bh_rest_get(struct bh_rq *rq);
BH_MUST int bh_rest_list(struct bh_rq *rq);
BH_MUST int bh_rest_watch(struct bh_rq *rq);
BH_MUST int bh_rest_create(struct bh_rq *rq);
BH_MUST int bh_rest_update(struct bh_rq *rq);
BH_MUST int bh_rest_patch(struct bh_rq *rq);
BH_MUST int bh_rest_delete(struct bh_rq *rq);
BH_MUST int bh_rest_delete_collection(struct bh_rq *rq);
bool bh_virtual_kind(const struct bh_kind *k); /* answered by bh_rest_virtual() */
BH_MUST int bh_rest_virtual(struct bh_rq *rq); /* reviews, bindings: kinds without storage */
/* Subresources that are not updates of the object (binding, eviction, log, scale …): 1 when sub is
 * none of them. */
BH_MUST int bh_rest_sub(struct bh_rq *rq);

#endif
