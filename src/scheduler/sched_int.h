/* Inside the scheduler: its view of the cluster, the queue, and the parts of one attempt.
 *
 * Everything belongs to one loop and is decided synchronously: an attempt (cycle) reads the view,
 * changes it at once (the pod is assumed on its node, its devices are reserved), and only then are
 * the writes begun. What a later attempt sees is therefore never older than an earlier decision.
 */
#ifndef BH_SCHEDULER_SCHED_INT_H
#define BH_SCHEDULER_SCHED_INT_H

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "client/client.h"
#include "dra/dra.h"
#include "net/loop.h"
#include "scheduler/profile.h"
#include "scheduler/scheduler.h"

#define DEFAULT_NAME "default-scheduler"

/* ---- resources: names become small numbers for the life of the scheduler ---- */

enum { RES_CPU, RES_MEMORY, RES_EPHEMERAL, RES_PODS, RES_FIXED };
#define RES_NAMES_MAX 1024 /* distinct resource names; more are refused as never available */

struct res_amount {
    uint32_t id;
    int64_t v; /* milli for cpu, units otherwise */
};

/* ---- why a pod does not fit a node ---- */

/* Reasons with fixed words; those of resources follow from R_INSUFFICIENT + resource number, those
 * with words of their own from R_TEXT. */
enum {
    R_UNSCHEDULABLE,
    R_TAINT,
    R_AFFINITY,
    R_AFFINITY_NAMES,
    R_AFFINITY_ENFORCED,
    R_PORTS,
    R_TOO_MANY_PODS,
    R_SPREAD,
    R_SPREAD_LABEL,
    R_POD_AFFINITY,
    R_POD_ANTI,
    R_POD_EXISTING_ANTI,
    R_CLAIMS,
    R_CLAIM_NODE,
    R_VOLUME_NODE,
    R_VOLUME_FIND,
    R_VOLUME_ZONE,
    R_VOLUME_COUNT,
    R_VOLUME_RWOP,
    R_VOLUME_DISK,
    R_VOLUME_SPACE,
    R_VOLUME_GONE,
    R_FEATURES,
    R_FIXED,
    R_INSUFFICIENT = 64,
    R_TEXT = R_INSUFFICIENT + RES_NAMES_MAX,
};

enum verdict {
    V_OK,
    V_UNSCHEDULABLE, /* preemption may help */
    V_UNRESOLVABLE,  /* it cannot */
    V_DEVICES,       /* neither, but if the devices that others hold were free (ours) */
    V_ERROR,         /* the attempt ends: c->err says why */
};

/* ---- pods and nodes ---- */

struct snode;
struct sbind;
struct bind_group;
struct gang;
struct sched_hold;
struct sched_away;
struct sched_vbind;
struct pod_terms;

enum pod_where {
    POD_OFF,   /* not ours to schedule, or it has a node */
    POD_GATED, /* PreEnqueue refused it: scheduling gates, claims that are not there */
    POD_ACTIVE,
    POD_BACKOFF,
    POD_WAITING, /* unschedulable until an event helps */
    POD_BINDING,
};

/* What devices take of the node's own resources for a pod that was decided upon. */
struct pod_charge {
    struct bh_arena *a; /* of all of it */
    struct bh_core_v1_node_allocatable_resource_claim_status_vec claims;
};

struct host_port {
    struct bh_str ip, protocol; /* views into the pod's object */
    int32_t port;
};

struct spod {
    struct bh_obj *obj; /* referenced */
    const struct bh_core_v1_pod *p;
    const struct sched_profile *prof; /* NULL: another scheduler's */
    struct snode *node;               /* assigned or assumed here */
    uint32_t node_at;                 /* index in node->pods */
    bool assumed;                     /* on node by our decision, not yet seen bound */
    uint8_t where;                    /* enum pod_where */
    int32_t priority;
    /* what it asks */
    struct res_amount *req;
    uint32_t req_n;
    int64_t nz_cpu, nz_memory;             /* with the defaults that scoring uses: on its node */
    int64_t nz_cpu_asked, nz_memory_asked; /* and while it looks for one */
    struct host_port *ports;
    uint32_t ports_n;
    struct pod_charge *charge; /* NULL: none, or its status tells */
    bool shares_native; /* on its node counted as a user of claims that take of the node's resources
                         */
    struct pod_terms *terms; /* (anti)affinity, parsed; NULL when it has none */
    bool has_pvc;
    bool has_disks; /* volumes that one pod at a time may write to */
    /* queue */
    int64_t added_ns; /* when it came into the active queue first */
    int64_t ready_ns; /* end of its back-off */
    int64_t tried_ns; /* when the last attempt began */
    uint32_t attempts;
    bool failed_by_error;   /* its back-off is waited for even when nothing else is to be done */
    size_t heap_at;         /* index + 1 in the heap of its queue */
    uint64_t seq;           /* ties in order of arrival */
    struct bh_link link;    /* waiting, gated */
    uint32_t rejected_by;   /* bits of enum plugin */
    struct herd *herd;      /* of pods that failed alike, while it waits */
    struct herd *scout_of;  /* it tries for these, too */
    struct claim_ref *refs; /* gated or waiting: under each of its claims in s->claim_pods */
    uint32_t refs_n;
    uint64_t said;     /* hash of the last condition written, 0: none */
    struct gang *gang; /* pods that are placed together; NULL: alone */
    struct bh_link gang_link;
    struct snode *nominated;
    struct bh_link nominated_link; /* in nominated->nominees */
    struct sched_hold *hold;       /* devices kept for it there; NULL: none */
    struct sched_away *away;       /* whom it sent away; NULL: nobody, or its nomination ended */
    bool holders_bind; /* holders of devices that it may want were being bound: nobody to evict */
    struct sbind *bind;
};

/* Pods that are held up, by the claims they name. */
struct claim_pods {
    struct bh_link refs;
    char *key; /* "ns/name" */
};
struct claim_ref {
    struct bh_link link;
    struct claim_pods *in;
    struct spod *pod;
};

/* That a pod of one kind failed, and how: its likes fail in the same way until something happens.
 */
struct failure {
    uint64_t epoch, kind;
    uint32_t rejected_by;
    struct bh_str message; /* heap */
};

/* A PodGroup, there or named by pods, and the pods that name it. */
struct gang {
    char *key;          /* "ns/name", heap */
    struct bh_obj *obj; /* referenced; NULL: not there (yet) */
    struct bh_link members;
    uint32_t n;
    struct bh_scheduler *s;
    struct sched_away *away; /* whom it sent away; NULL: nobody, or it is placed since */
    int64_t search_ns;       /* not before that a long search is begun again */
    struct bh_timer when;    /* for a search that had to wait for that */
};

struct pod_list {
    struct spod **p;
    uint32_t n, cap;
};

struct snode {
    /* What every filter and score of a plain pod reads comes first: two cache lines. */
    int64_t alloc[RES_FIXED], used[RES_FIXED];
    int64_t nz_cpu, nz_memory;
    struct pod_list pods;
    uint32_t at;       /* index in s->nodes */
    uint32_t ports_n;  /* pods with host ports */
    uint32_t native_n; /* pods whose devices take of its own resources */
    bool unschedulable, hard_taints, soft_taints;
    uint8_t features; /* declared ones that a pod may need, see features.c */
    struct bh_link nominees;
    struct bh_scheduler *s;
    struct bh_str name; /* heap */
    struct bh_obj *obj; /* referenced; NULL: only its pods are known */
    const struct bh_core_v1_node *n;
    struct res_amount *xalloc, *xused; /* other resources */
    uint32_t xalloc_n, xused_n, xused_cap;
    struct pod_list affine; /* those of pods with terms */
    struct bh_map images;   /* name -> struct image of the scheduler */
};

struct node_list {
    struct snode **p;
    uint32_t n, cap;
};

struct pod_heap {
    struct spod **p;
    size_t n, cap;
    bool (*before)(const struct spod *a, const struct spod *b);
};

/* A kind that a server may not serve: asked for once, then followed or left alone. */
#define SCHED_OPTIONAL 15
struct sched_optional {
    struct bh_scheduler *s;
    const struct bh_kind *kind;
    const struct bh_informer_ops *ops;
    struct bh_informer **informer; /* stays NULL when it is not served */
    uint64_t call;
    struct bh_timer again;
    bool known;
};

/* A claim write of ours: rv of the answer. An event of that version or later settles it. */
struct written {
    uint64_t rv;
    uint64_t seen; /* in the list of that version */
};

/* ---- metrics.c: figures for monitoring ---- */

enum attempt_result { ATTEMPT_SCHEDULED, ATTEMPT_UNSCHEDULABLE, ATTEMPT_ERROR, ATTEMPT__MAX };

#define HISTOGRAM_BUCKETS 15
#define ATTEMPT_FIRST_S   0.001 /* bound of the first bucket; each next one is twice that */
#define SLI_FIRST_S       0.01

struct sched_histogram {
    uint64_t count[HISTOGRAM_BUCKETS + 1];
    double sum;
};

struct sched_figures {
    struct sched_histogram duration[ATTEMPT__MAX], sli;
};

void sched_histogram_add(struct sched_histogram *h, double v, double first);
void sched_attempt_over(struct bh_scheduler *s, const struct spod *pod, enum attempt_result r);
void sched_metrics(const struct bh_scheduler *s, struct bh_buf *b);

struct bh_scheduler {
    struct bh_client *client;
    struct bh_loop *loop;
    struct bh_scheduler_opts opts;
    struct bh_scheduler_config *own_config; /* when none was given */
    struct sched_profile *profiles;
    struct bh_recorder **recorders; /* per profile */
    size_t profiles_n;
    struct bh_arena *arena; /* of the profiles */
    int64_t backoff_first_ns, backoff_max_ns;
    struct sched_figures *figures; /* per profile */
    struct sched_histogram victims;
    uint64_t preemptions;
    struct bh_dra_model *model;
    struct bh_informer *inf_pods, *inf_nodes, *inf_claims, *inf_slices, *inf_classes, *inf_rules,
        *inf_pvcs, *inf_pvs, *inf_storage, *inf_csinodes, *inf_csidrivers, *inf_capacities,
        *inf_attachments, *inf_namespaces, *inf_pdbs, *inf_services, *inf_rcs, *inf_rss, *inf_stss,
        *inf_podgroups;
    struct sched_optional optional[SCHED_OPTIONAL];
    bool ready; /* everything is synced */
    /* Kept for their memory: of one attempt, and of small things that call nothing else. */
    struct bh_arena *attempt_arena, *scratch;

    struct bh_map pods; /* uid -> struct spod */
    struct bh_map nodes_by_name;
    struct node_list nodes; /* those that exist */
    uint32_t soft_nodes;    /* of them, those with taints that only repel */
    struct pod_kinds *kinds;
    uint32_t start;        /* where the next attempt begins */
    uint32_t terms_pods;   /* pods with (anti)affinity terms that are on nodes */
    struct bh_map res_ids; /* resource name -> (void *)(id + 1) */
    struct bh_str *res_names;
    uint32_t res_n;
    struct bh_map images;     /* image name -> struct image */
    struct bh_map written;    /* claim uid -> struct written */
    struct bh_map allocating; /* claim uid -> the struct sbind that stores its allocation */
    struct bh_map
        pvc_users;          /* "ns/name" of a volume claim -> (void *)(pods on nodes that use it) */
    struct bh_map attached; /* node name -> its VolumeAttachments (volume_limits.c) */
    struct bh_map assumed_pvs, assumed_pvcs; /* decided, not yet seen bound (volume_bind.c) */
    struct bh_link volume_waits;             /* binds whose volumes are not bound yet */

    struct pod_heap active, backoff, error_backoff;
    struct bh_link waiting, gated; /* waiting: those of no herd */
    struct bh_link aways;          /* struct sched_away */
    struct bh_link herds;
    struct bh_map herds_by_kind; /* eight bytes -> struct herd */
    size_t waiting_n;
    size_t waiting_by[PL__MAX]; /* waiting pods that the plugin refused */
    struct bh_map gangs;        /* "ns/name" -> struct gang */
    struct bh_map claim_pods;   /* "ns/name" -> struct claim_pods */
    uint64_t epoch;             /* counts events that may help anybody */
    struct bh_map failures;     /* bytes of a kind -> struct failure */
    uint64_t failures_epoch;    /* of the last one */
    uint64_t seq;
    struct bh_timer turn, backoff_timer, flush_timer;
    struct bh_link giving, removing; /* give_back.c */
    struct bh_link open_holds;       /* holds.c */
    struct bh_timer confirmed; /* away.c: runs when a holder is bound that somebody looks at */
    bool confirmed_wanted;
    struct bh_link binds, bind_waits;
    size_t binds_n;
    struct bh_scheduler_stats stats;
};

/* ---- pod.c ---- */
struct spod *sched_pod_new(struct bh_scheduler *s, struct bh_obj *obj);
void sched_pod_set(struct bh_scheduler *s, struct spod *pod, struct bh_obj *obj);
/* A newer object of the same requests, labels and so on. */
void sched_pod_renew(struct bh_scheduler *s, struct spod *pod, struct bh_obj *obj);
struct spod *sched_pod_free(struct bh_scheduler *s, struct spod *pod);
bool sched_pod_terminal(const struct bh_core_v1_pod *p);
uint32_t sched_res_id(struct bh_scheduler *s, struct bh_str name);
int64_t sched_res_value(uint32_t id, struct bh_str quantity);
/* The pod's requests from now on, on no node: with what these devices take (NULL: nothing). */
void sched_pod_charge(struct bh_scheduler *s, struct spod *pod,
                      const struct bh_core_v1_node_allocatable_resource_claim_status_vec *v);
/* The claims that take of the node's resources for it: decided here, or told by its status. */
const struct bh_core_v1_node_allocatable_resource_claim_status_vec *
sched_pod_native(const struct spod *pod);
/* What the pod asks with these, name by name; by_pod: with what it asks as a whole. In the arena.
 * Returns their number. */
uint32_t sched_pod_sums(struct bh_scheduler *s, const struct spod *pod,
                        const struct bh_core_v1_node_allocatable_resource_claim_status_vec *v,
                        bool by_pod, struct bh_arena *a, struct res_amount **ret);
const struct res_amount *sched_pod_req(const struct spod *pod, uint32_t id); /* NULL: none */
bool sched_tolerates(const struct bh_core_v1_toleration *t, const struct bh_core_v1_taint *taint);
bool sched_tolerates_any(const struct bh_core_v1_toleration *t, size_t n,
                         const struct bh_core_v1_taint *taint);

/* The profile of the pod's schedulerName, NULL: none of ours. */
const struct sched_profile *sched_profile_of(const struct bh_scheduler *s,
                                             const struct bh_core_v1_pod *p);
struct bh_recorder *sched_recorder(const struct bh_scheduler *s, const struct spod *pod);

/* ---- node.c ---- */
struct snode *sched_node_get(struct bh_scheduler *s, struct bh_str name); /* made when missing */
struct snode *sched_node_find(const struct bh_scheduler *s, struct bh_str name);
void sched_node_put(struct bh_scheduler *s, struct bh_obj *obj);
void sched_node_del(struct bh_scheduler *s, struct bh_str name);
void sched_node_add_pod(struct bh_scheduler *s, struct snode *n, struct spod *pod);
void sched_node_del_pod(struct bh_scheduler *s, struct spod *pod);
void sched_nodes_done(struct bh_scheduler *s);
int64_t sched_node_xalloc(const struct snode *n, uint32_t id); /* -1: not listed */
int64_t sched_node_xused(const struct snode *n, uint32_t id);
/* What the node has of a resource (0: it is not listed), and what its pods take. */
void sched_node_amounts(const struct snode *n, uint32_t id, int64_t *ret_all, int64_t *ret_used);
bool sched_ports_conflict(const struct host_port *a, const struct host_port *b);
void sched_nominate(struct spod *pod, struct snode *n); /* NULL: nowhere, for now */
/* The nomination has ended, and what was kept for it: unless the pod is there now, others may
 * have it. */
void sched_denominate(struct bh_scheduler *s, struct spod *pod);

/* ---- queue.c ---- */
enum event {
    EV_NODE_ADD = 1 << 0,
    EV_NODE_ALLOCATABLE = 1 << 1,
    EV_NODE_LABEL = 1 << 2,
    EV_NODE_TAINT = 1 << 3, /* taints or spec.unschedulable */
    EV_NODE_FEATURE = 1 << 4,
    EV_POD_ADD = 1 << 5,   /* an assigned pod came */
    EV_POD_GONE = 1 << 6,  /* an assigned pod left its node */
    EV_POD_LABEL = 1 << 7, /* of an assigned pod */
    EV_POD_SMALLER = 1 << 8,
    EV_CLAIM = 1 << 9,
    EV_SLICE = 1 << 10,
    EV_CLASS = 1 << 11,
    EV_VOLUME = 1 << 12, /* PVC, PV, and the kinds of storage.k8s.io */
    EV_NAMESPACE = 1 << 13,
    EV_SELF = 1 << 14, /* the waiting pod itself changed */
};
struct happening {
    enum event ev;
    const struct snode *node;
    const struct spod *pod;
    bool guest; /* EV_POD_GONE: pod was only nominated; whoever is more important never minded */
    const struct bh_obj *old, *obj; /* node, claim, volume kinds */
    bool gone;                      /* EV_VOLUME: obj was deleted */
};
void sched_queue_init(struct bh_scheduler *s);
void sched_queue_done(struct bh_scheduler *s);
void sched_enqueue(struct bh_scheduler *s, struct spod *pod); /* new, or gates lifted */
void sched_dequeue(struct bh_scheduler *s, struct spod *pod);
/* After a failed attempt. */
void sched_requeue(struct bh_scheduler *s, struct spod *pod, uint32_t rejected_by, bool error);
void sched_happened(struct bh_scheduler *s, const struct happening *h);
/* Which events can help a pod that the plugin refused (bits of enum event), and whether one does.
 */
uint32_t sched_hint_interests(enum plugin pl);
bool sched_hint(const struct bh_scheduler *s, const struct spod *pod, enum plugin pl,
                const struct happening *h);
void sched_wake_self(struct bh_scheduler *s, struct spod *pod, const struct bh_obj *old);
struct spod *sched_queue_pop(struct bh_scheduler *s);
void sched_turn_soon(struct bh_scheduler *s);
void sched_wake(struct bh_scheduler *s, struct spod *pod); /* one that waits */
/* Whether the event helps a pod that these plugins refused. */
bool sched_helped(const struct bh_scheduler *s, const struct spod *pod, uint32_t by,
                  const struct happening *h);
void sched_heap_add(struct pod_heap *h, struct spod *pod);
void sched_heap_del(struct pod_heap *h, struct spod *pod);

/* ---- herd.c: waiting pods that failed alike ---- */
/* The pod's attempt has failed and it waits again; kind 0: like no other. said: hash of the text.
 */
void sched_herd_failed(struct bh_scheduler *s, struct spod *pod, uint64_t kind, uint64_t said);
/* It found a place, or will not try: the next one may. */
void sched_herd_next(struct bh_scheduler *s, struct spod *pod);
void sched_herd_leave(struct bh_scheduler *s, struct spod *pod);
void sched_herds_happened(struct bh_scheduler *s, const struct happening *ev, uint32_t hopeful);
void sched_herds_flush(struct bh_scheduler *s, int64_t before_ns); /* those that failed before */

void sched_devices_freed(struct bh_scheduler *s);
bool sched_same_labels(const struct bh_str_map *a, const struct bh_str_map *b);

/* ---- alike.c: pods that ask for the same ---- */
/* How a pod like this one failed, if nothing happened since that could help it; else NULL. */
const struct failure *sched_failure(struct bh_scheduler *s, const struct spod *pod);
uint64_t sched_failure_note(struct bh_scheduler *s, const struct spod *pod, uint32_t rejected_by,
                            struct bh_str message);
void sched_failures_done(struct bh_scheduler *s);

/* ---- cycle.c: one attempt ---- */

struct pod_claim {
    struct bh_obj *obj; /* the informer's; borrowed for the attempt */
    const struct bh_resource_v1_resource_claim *c;
    bool allocated;
    /* What is allocated: by the claim's status, by a member of the same group in this try, or by a
     * bind under way. */
    const struct bh_resource_v1_allocation_result *alloc;
    bool pending; /* not by the status */
    bool mine;    /* reserved for this pod already */
    bool broken;  /* its devices failed to be bound, or took too long */
    int ask_at;   /* index among those to be allocated, -1 */
};

#define EXT_ANNOTATION "resource.kubernetes.io/extended-resource-claim"

/* The claim made for extended resources that devices serve. */
struct ext_claim {
    struct bh_resource_v1_resource_claim claim;
    struct bh_core_v1_container_extended_resource_request_vec mappings;
};

/* What is to be allocated on nodes where the same extended resources are served by devices. */
struct ask_set {
    struct ask_set *next;
    uint64_t mask;
    const struct bh_resource_v1_resource_claim **claims; /* user claims first */
    size_t n;
    const struct ext_claim *ext; /* the last of the claims, or NULL */
    struct bh_dra_ask *ask;      /* NULL: nothing */
};

/* A claim that a member of the group allocates in the try that goes on. */
struct pending_claim {
    const struct spod *by;
    struct bh_str uid;
    const struct bh_resource_v1_allocation_result *alloc;
};

enum binding_state { BINDING_NONE, BINDING_READY, BINDING_PENDING, BINDING_FAILED };

struct cycle {
    struct bh_scheduler *s;
    struct spod *pod;
    const struct sched_profile *prof;
    struct bh_arena *a;
    struct bh_err err; /* of V_ERROR: the whole text */
    enum plugin err_plugin;
    /* DRA */
    struct pod_claim *claims;
    size_t claims_n;
    const struct bh_resource_v1_resource_claim **unallocated;
    size_t unallocated_n;
    struct bh_dra_ask *ask; /* the same on every node; NULL: nothing, or it depends on the node */
    struct ask_set *sets;
    struct bh_obj *ext_leftover;   /* claim of an earlier attempt, in the way */
    bool dra_state;                /* the plugin had something to do in this attempt */
    bool *unavailable;             /* per claim: allocated, and refused on some node */
    uint64_t dra_work;             /* search steps of the allocator until now */
    bool dra_cut;                  /* they were too many: nodes were not searched in full */
    const struct bh_str *released; /* uids of claims that count as given back (dry runs) */
    size_t released_n;
    /* What is kept for others on the node that was looked at last; the first of them on all. */
    const struct bh_resource_v1_allocation_result **held;
    size_t held_n, held_all, held_cap;
    struct ext_state *ext;
    /* affinity and spread state, NULL when not concerned */
    struct affinity_state *affinity;
    struct spread_state *spread;
    struct volume_state *volumes;
    uint8_t features;                    /* that the pod needs of its node */
    bool selective;                      /* a nodeSelector or required node affinity */
    const struct bh_str_vec *only_nodes; /* PreFilter: by metadata.name; NULL: all */
    /* outcome of the filters */
    uint8_t *verdicts; /* per node index; V_OK means feasible or not tried */
    uint32_t *counts;  /* per reason */
    struct bh_str *texts;
    uint32_t *text_counts;
    uint32_t texts_n, texts_cap;
    uint32_t rejected_by;
    bool quiet; /* do not count reasons (dry runs) */
    bool in_gang;
    const struct pending_claim *pending;
    size_t pending_n;
    struct bh_str gang_why; /* why no room can be made for this member */
    struct bh_str prefilter_msg;
    bool prefilter_no_dra; /* refused before the plugin for claims had its state */
    struct candidate *feasible;
    size_t feasible_n;
    struct bh_str postfilter_msg; /* why nothing was freed for it */
};

struct candidate {
    struct snode *node;
    struct bh_dra_result dra;
    const struct ask_set *set;
    /* What its devices take of the node's own resources; NULL: nothing. */
    const struct bh_core_v1_node_allocatable_resource_claim_status_vec *native;
    int64_t score;
};

void sched_attempt(struct bh_scheduler *s, struct spod *pod);
/* The parts of an attempt. A place, with its devices reserved; NULL: none (err, or reasons). */
const struct candidate *sched_decide(struct cycle *c);
/* The pod, which is on its node by now, is bound; with the group, if it has one. */
void sched_commit(struct cycle *c, const struct candidate *k, struct bind_group *bg);
struct bh_str sched_failure_text(struct cycle *c);
enum verdict sched_fail(struct cycle *c, enum plugin pl, enum verdict v, uint32_t reason);
enum verdict sched_fail_text(struct cycle *c, enum plugin pl, enum verdict v, struct bh_str text);
void sched_fail_text_n(struct cycle *c, struct bh_str text, uint32_t n);
int sched_error(struct cycle *c, enum plugin pl, const char *fmt, ...) BH_PRINTF(3, 4);
/* Whether the pod's nodeSelector and required node affinity take this node. */
bool sched_node_selected(const struct spod *pod, const struct snode *n);
/* Extended resources that the profile leaves to others to count. */
bool sched_res_ignored(const struct bh_scheduler *s, const struct sched_profile *p, uint32_t id);
/* Whether the node has a taint that keeps the pod away. */
bool sched_untolerated(const struct spod *pod, const struct snode *n);
/* All filters but the claims'; pods nominated there count as if they ran. */
enum verdict sched_filter(struct cycle *c, struct snode *n);
bool sched_prefilter(struct cycle *c); /* false: nothing will do (prefilter_msg), or an error */
void sched_score(struct cycle *c);
/* Of a node by itself: what needs no other node to compare with. */
int64_t sched_score_node(struct cycle *c, const struct snode *n);
/* Patches the condition and says the event, when they are new. */
void sched_say(struct bh_scheduler *s, struct spod *pod, const char *reason, struct bh_str message,
               bool event);
struct bh_str sched_message(struct cycle *c); /* of an attempt without a node */
struct bh_str sched_reasons(struct cycle *c); /* what was counted: "1 Insufficient cpu, 2 …" */
void sched_unnominate(struct bh_scheduler *s, struct spod *pod);

/* ---- kinds.c: pods that ask for the same, and fit ---- */
/* The choice among the first `want` nodes that fit, from s->start on (which it moves), for a pod
 * for whom nodes are judged one by one. NULL: the pod is not of that sort, or no node fits. After a
 * true sched_prefilter(). */
struct snode *sched_kind_choose(struct cycle *c, uint32_t want);
/* Whoever changes what a filter or score reads of a node says so. */
void sched_node_changed(struct bh_scheduler *s, const struct snode *n);
void sched_nodes_reordered(struct bh_scheduler *s);
void sched_images_changed(struct bh_scheduler *s);
struct pod_kinds *sched_kinds_new(void);
struct pod_kinds *sched_kinds_free(struct pod_kinds *ks);
size_t sched_kinds_count(const struct bh_scheduler *s);

/* ---- claims.c: the plugin for devices ---- */
/* PreEnqueue: whether all claims of the pod are there; *why (may be NULL) gets upstream's text. */
bool sched_claims_there(struct bh_scheduler *s, const struct spod *pod, struct bh_arena *a,
                        struct bh_str *why);
bool sched_claims_prefilter(struct cycle *c);
enum verdict sched_claims_filter(struct cycle *c, struct snode *n, struct candidate *ret);
/* What the allocator is to be told for this pod on this node. */
struct bh_dra_opts sched_claims_options(struct cycle *c, const struct snode *n);
/* Whether the claims that have devices already can be used there. */
bool sched_claims_allocated_fit(struct cycle *c, struct snode *n);
/* The devices of a candidate that is known to have some. */
bool sched_claims_settle(struct cycle *c, struct candidate *k);
bool sched_claims_reserve(struct cycle *c, struct candidate *k);
void sched_claims_unreserve(struct cycle *c, const struct candidate *k);
bool sched_owned_by(const struct bh_meta_v1_object_meta *m, struct bh_str uid);
enum binding_state sched_binding_state(const struct bh_resource_v1_resource_claim *c,
                                       const struct bh_meta_v1_condition **ret_failure);
struct bh_str sched_claims_postfilter(struct cycle *c); /* upstream's words */

/* ---- holds.c: devices kept for nominated pods ---- */
/* Keeps these allocations for the pod while it is nominated; copies. n 0: nothing is kept. */
void sched_hold_set(struct bh_scheduler *s, struct spod *pod,
                    const struct bh_resource_v1_allocation_result *al, size_t n);
void sched_hold_drop(struct spod *pod);
/* Whether only one node can use what is allocated. */
bool sched_of_one_node(const struct bh_resource_v1_allocation_result *al);
/* Fills c->held with what is kept on this node for pods that c->pod has to respect. */
void sched_holds_look(struct cycle *c, const struct snode *n);

/* ---- native.c: devices that stand for cpu, memory and the like of their node ---- */
/* Whether another pod of the node uses a claim of this pod for such devices. */
enum verdict sched_native_shared(struct cycle *c, const struct snode *n);
/* Whether the node has room for what the devices of the candidate take; fills in k->native. */
enum verdict sched_native_filter(struct cycle *c, const struct snode *n, struct candidate *k);
/* A pod's status that tells this, and nothing else; a copy. */
const struct bh_core_v1_pod_status *
sched_native_status(const struct bh_core_v1_node_allocatable_resource_claim_status_vec *v,
                    struct bh_arena *a);

/* ---- give_back.c: allocations and reservations that the scheduler takes back ---- */
void sched_give_back(struct bh_scheduler *s, struct bh_obj *claim);
/* A claim that the scheduler made and that came to nothing: its finalizer, and the claim. */
void sched_claim_remove(struct bh_scheduler *s, struct bh_obj *claim);
/* Whether that is under way: the claim must not be used as the informer shows it. */
bool sched_gives_back(struct bh_scheduler *s, const struct bh_obj *claim);
/* The reservation for a pod whose attempt failed; claim: the newest version that is known. */
void sched_release(struct bh_scheduler *s, struct bh_obj *claim, struct bh_obj *pod);
/* Whether that is under way, or not seen by the informer yet: the pod must not use the claim. */
bool sched_releases(struct bh_scheduler *s, const struct bh_obj *claim, const struct bh_obj *pod);
/* The informer has this version, or the claim is gone. */
void sched_give_seen(struct bh_scheduler *s, const struct bh_obj *claim, bool gone);
void sched_give_done(struct bh_scheduler *s);
/* Name of the claim behind the entry; false while it has none, or needs none. */
bool sched_claim_named(const struct bh_core_v1_pod *p, size_t i, struct bh_str *ret);
void sched_claim_written(struct bh_scheduler *s, const struct bh_obj *o);
/* An object of the informer: a version at or after our write settles the reservation, even when it
 * holds no allocation. */
void sched_claim_settle(struct bh_scheduler *s, const struct bh_obj *o);

/* ---- ext.c: extended resources served by devices ---- */
bool sched_ext_prefilter(struct cycle *c); /* whether the pod asks for any */
uint64_t sched_ext_mask(const struct cycle *c, const struct snode *n);
bool sched_ext_serves(const struct cycle *c, const struct snode *n, uint32_t id);
const struct ext_claim *sched_ext_claim(struct cycle *c, uint64_t mask);
struct bh_obj *sched_ext_leftover(const struct cycle *c);

/* ---- affinity.c, spread.c, owners.c, volumes.c, images.c, preempt.c ---- */
struct bh_label_selector;
struct pod_terms *sched_terms_new(const struct spod *pod); /* NULL: none */
struct pod_terms *sched_terms_free(struct pod_terms *t);
void sched_selector_like(struct bh_arena *a, struct bh_label_selector *sel,
                         const struct bh_str_vec *keys, const struct bh_str_map *labels, bool same);
void sched_affinity_prefilter(struct cycle *c);
void sched_affinity_change(struct cycle *c, const struct spod *pod, const struct snode *n, int by);
enum verdict sched_affinity_filter(struct cycle *c, const struct snode *n);
/* Whether a pod that came or left bears on whom the waiting pod may stand beside. */
bool sched_affinity_concerns(const struct bh_scheduler *s, const struct spod *waiting,
                             const struct spod *other);
bool sched_affinity_score(struct cycle *c, int64_t *v);
void sched_spread_prefilter(struct cycle *c);
void sched_spread_change(struct cycle *c, const struct spod *pod, const struct snode *n, int by);
enum verdict sched_spread_filter(struct cycle *c, const struct snode *n);
bool sched_spread_score(struct cycle *c, int64_t *v);
bool sched_spread_concerns(const struct spod *waiting, const struct spod *other);
bool sched_spread_scores(struct cycle *c); /* whether it would give any */
bool sched_owner_selector(struct cycle *c, struct bh_label_selector *sel);
bool sched_volumes_prefilter(struct cycle *c);
enum verdict sched_volumes_filter(struct cycle *c, const struct snode *n);
bool sched_images_same(const struct bh_core_v1_node *a, const struct bh_core_v1_node *b);
bool sched_volume_is_disk(const struct bh_core_v1_volume_source *v);
void sched_volumes_count(struct bh_scheduler *s, const struct spod *pod, int by);
bool sched_volume_helps(const struct spod *pod, enum plugin pl, const struct happening *h);
bool sched_volume_pod_gone_helps(const struct spod *pod, enum plugin pl, const struct spod *gone);
void sched_attachment_put(struct bh_scheduler *s, struct bh_obj *o);
void sched_attachment_del(struct bh_scheduler *s, const struct bh_obj *o);
void sched_attachments_done(struct bh_scheduler *s);
/* ---- volume_bind.c ---- */
/* Decides the volumes of claims that waited for the pod, and assumes them; NULL: there are none. a:
 * has to live as long. */
struct sched_vbind *sched_vbind_new(struct cycle *c, const struct snode *n, struct bh_arena *a);
/* Writes what was decided and waits until it is bound. done is called once, perhaps before this
 * returns, with why it failed or an empty text; it may free b. */
void sched_vbind_start(struct sched_vbind *b, void (*done)(void *arg, struct bh_str why),
                       void *arg);
void sched_vbind_free(struct sched_vbind *b);  /* NULL is fine; takes the assumptions back */
void sched_vbind_look(struct bh_scheduler *s); /* a volume, claim or node changed */
void sched_images_read(struct bh_scheduler *s, struct snode *n);
void sched_images_clear(struct bh_scheduler *s, struct snode *n);
int64_t sched_images_score(struct cycle *c, const struct snode *n);
/* What preemption came to. */
enum preempt_result {
    PREEMPT_NOT_NOW, /* the pod may not; what is nominated stays so */
    PREEMPT_NOTHING, /* no room can be made */
    PREEMPT_DONE,    /* room is being made, and the pod is nominated */
};
struct victims {
    struct snode *node;
    struct spod **p; /* most important first */
    size_t n;
    int64_t budget_violations;
    /* Of the choice: the devices that the pod gets there, and the claims that are given back. */
    struct candidate k;
    const struct bh_str *released;
    size_t released_n;
};
/* Whom it would take; nobody goes yet. */
enum preempt_result sched_preempt_find(struct cycle *c, struct bh_str *why,
                                       const struct victims **ret);
/* Nominates the pod, keeps its devices for it and evicts the victims. */
void sched_preempt_take(struct cycle *c, const struct victims *v);
enum preempt_result sched_preempt(struct cycle *c, struct bh_str *why);

/* ---- away.c: those who were sent away ---- */
/* For a pod, or a gang: the victims in n lists. NULL: there are none. */
struct sched_away *sched_away_new(struct bh_scheduler *s, struct spod *pod, struct gang *g,
                                  const struct victims *v, size_t n);
struct sched_away *sched_away_free(struct sched_away *w); /* NULL is fine; returns NULL */
/* A pod went, or a claim changed or went. Whoever waited for nothing else looks again: what it
 * counted on may have become another one's, as a claim that a victim shared with somebody. */
void sched_away_changed(struct bh_scheduler *s, struct bh_str uid);
/* Pods that found holders of devices not bound yet look again when these are: a claim was stored.
 */
void sched_holders_init(struct bh_scheduler *s);
void sched_holder_confirmed(struct bh_scheduler *s);
/* Whether some of them are still there, or their claims are not given back yet. */
bool sched_away_waits(const struct sched_away *w);
/* Whether a consumer of a claim is gone, or was taken off its node for a trial: not one that waits
 * for a node, nor pod or a member of g, which are tried. Both may be NULL. */
bool sched_consumer_off(const struct bh_scheduler *s,
                        const struct bh_resource_v1_resource_claim_consumer_reference *r,
                        const struct spod *pod, const struct gang *g);

/* ---- features.c: what nodes declare that they can do ---- */
void sched_features_read(struct snode *n);
void sched_features_prefilter(struct cycle *c);
enum verdict sched_features_filter(struct cycle *c, const struct snode *n);

/* ---- gang.c ---- */
void sched_gang_join(struct bh_scheduler *s, struct spod *pod);
void sched_gang_leave(struct bh_scheduler *s, struct spod *pod);
void sched_gang_put(struct bh_scheduler *s, struct bh_obj *group);
void sched_gang_del(struct bh_scheduler *s, const struct bh_obj *group);
void sched_gangs_done(struct bh_scheduler *s);
/* Whether o is placed in the same try, so that its nomination is no matter. */
static inline bool sched_placed_with(const struct cycle *c, const struct spod *o)
{
    /* Upstream looks at those, too. */
    return c->in_gang && o->gang == c->pod->gang && !c->s->opts.device_scoring_off;
}
/* PreEnqueue: its group is not there, or has too few members. */
bool sched_gang_held(const struct bh_scheduler *s, const struct spod *pod);
void sched_gang_wake(struct bh_scheduler *s, struct gang *g);
void sched_gang_attempt(struct bh_scheduler *s, struct spod *first);

/* ---- bind.c ---- */
/* bg: bound only together with the others of the group; NULL: alone. */
void sched_bind(struct cycle *c, const struct candidate *k, struct bind_group *bg);
/* Room for one more; NULL begins a group. */
struct bind_group *sched_bind_group_add(struct bind_group *bg);
/* The allocation that a bind under way stores for the claim; NULL: none does. */
const struct bh_resource_v1_allocation_result *sched_bind_allocating(const struct bh_scheduler *s,
                                                                     struct bh_str uid);
/* A claim changed for which a bind may wait. */
void sched_bind_claim(struct bh_scheduler *s, struct bh_str uid);
/* Before a new claim of the informer enters the ledger: it may be one that a bind has made. */
void sched_bind_made(struct bh_scheduler *s, const struct bh_obj *o);
void sched_bind_pod_gone(struct spod *pod);
void sched_bind_abandon(struct bh_scheduler *s); /* when the scheduler goes: no more callbacks */

#endif
