/* Devices: the model of what exists and what is in use, and the allocator that gives devices to
 * claims.
 *
 * A pure library: no I/O, no clock, no globals. The scheduler, `bulkhead allocate`, `device
 * explain`, the simulator, the fuzzers and the benchmarks call the same functions.
 *
 *     m = bh_dra_model_new(&features);
 *     bh_dra_node_put / slice_put / class_put / rule_put / claim_put      as the informers tell
 *     ask = bh_dra_ask_new(m, claims, n, arena);                          once per pod
 *     it = 0; while (bh_dra_ask_next(ask, &it, &node))                    nodes that may fit, best
 * guess first r = bh_dra_allocate(ask, node, &opts, arena, &res, &err);       BH_DRA_OK:
 * res.allocations[i] for claims[i] bh_dra_reserve(m, claims[i], &res.allocations[i], &err); seen at
 * once by every later decision … write claim.status …; the informer's claim_put confirms it, or
 * bh_dra_unreserve(m, uid) takes it back.
 *
 * Cost: selectors are compiled once, and their answers remembered per device; a node on which the
 * same demand failed is not offered again until something there was freed or changed. Thread: one
 * at a time per model.
 */
#ifndef BH_DRA_DRA_H
#define BH_DRA_DRA_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;
struct bh_obj;
struct bh_buf;
struct bh_str_map;
struct bh_resource_v1_allocation_result;
struct bh_resource_v1_resource_claim;
struct bh_resource_v1_device_class;
struct bh_resource_v1_device_taint;
struct bh_resource_v1_device_toleration;

struct bh_dra_model;
struct bh_dra_ask;

/* Feature gates; bh_dra_features_default() gives those of Kubernetes 1.36, bh_dra_features_all()
 * all of them. */
struct bh_dra_features {
    bool admin_access;
    bool prioritized_list;
    bool partitionable_devices;
    bool consumable_capacity;
    bool device_taints;
    bool taint_rules;
    bool binding_conditions; /* only when DRAResourceClaimDeviceStatus is on too */
    bool list_attributes;
    /* Upstream's faults, for comparison; all off by default. */
    bool compat_counter_leak; /* counters of a refused device stay taken for the rest of the call */
    bool compat_list_narrowing; /* a set narrowed by matchAttribute stays so after a backtrack */
    bool strict_distinct; /* distinctAttribute compares all devices of one request (upstream: with
                             the last) */
};
struct bh_dra_features bh_dra_features_default(void);
struct bh_dra_features bh_dra_features_all(void);

struct bh_dra_model *bh_dra_model_new(const struct bh_dra_features *f); /* f is copied */
struct bh_dra_model *bh_dra_model_free(struct bh_dra_model *m); /* accepts NULL, returns NULL */

/* ---- what exists
 * ---------------------------------------------------------------------------------------------------
 *
 * put adds or replaces, del accepts what is not there. Objects (hub version v1; rules v1beta2) are
 * referenced until they are replaced. Nothing fails here: an object that cannot be used makes the
 * allocations fail that meet it, as upstream. */
void bh_dra_node_put(struct bh_dra_model *m, struct bh_str name,
                     const struct bh_str_map *labels); /* copies */
void bh_dra_node_del(struct bh_dra_model *m, struct bh_str name);
void bh_dra_slice_put(struct bh_dra_model *m, const struct bh_obj *slice);
void bh_dra_slice_del(struct bh_dra_model *m, struct bh_str name);
void bh_dra_class_put(struct bh_dra_model *m, const struct bh_obj *device_class);
void bh_dra_class_del(struct bh_dra_model *m, struct bh_str name);
void bh_dra_rule_put(struct bh_dra_model *m,
                     const struct bh_obj *device_taint_rule); /* ignored when the gate is off */
void bh_dra_rule_del(struct bh_dra_model *m, struct bh_str name);

/* The class of this name, or NULL. Lives until the class is replaced. */
const struct bh_resource_v1_device_class *bh_dra_class(const struct bh_dra_model *m,
                                                       struct bh_str name);
/* The class that serves an extended resource (explicit name, or
 * deviceclass.resource.kubernetes.io/NAME); empty when none does. The winner of a clash is the
 * newest class, then the smaller name. The view lives until that class changes. */
struct bh_str bh_dra_class_of_resource(const struct bh_dra_model *m, struct bh_str resource);

/* ---- the ledger: what is in use
 * --------------------------------------------------------------------------------------
 *
 * A claim counts by its uid. The informer's object counts, except that a reservation counts from
 * bh_dra_reserve() until an object of this uid with an allocation arrives (confirmed), the claim is
 * deleted, or it is unreserved. An object without allocation does not end a reservation: it is an
 * older event. So feed this only from the informer. */
void bh_dra_claim_put(struct bh_dra_model *m, const struct bh_obj *claim);
void bh_dra_claim_del(struct bh_dra_model *m, struct bh_str uid);
/* -BH_E_EXISTS: already reserved; -BH_E_CONFLICT: a device of it is in use already (nothing was
 * reserved then). Copies. */
BH_MUST int bh_dra_reserve(struct bh_dra_model *m,
                           const struct bh_resource_v1_resource_claim *claim,
                           const struct bh_resource_v1_allocation_result *alloc,
                           struct bh_err *err);
void bh_dra_unreserve(struct bh_dra_model *m, struct bh_str uid);
/* Names a reservation: not 0, and never the same again. 0: the claim has none. */
uint64_t bh_dra_reservation(const struct bh_dra_model *m, struct bh_str uid);
/* Whether that reservation has ended without being confirmed, so that the devices may be somebody
 * else's, and the claim's next reservation not the caller's to take back. */
bool bh_dra_reservation_lost(const struct bh_dra_model *m, struct bh_str uid, uint64_t id);
bool bh_dra_is_reserved(const struct bh_dra_model *m,
                        struct bh_str uid); /* reserved and not yet confirmed */

/* Who holds a device. */
struct bh_dra_holder {
    struct bh_str claim_uid, claim_ns, claim_name;
    struct bh_str share_id; /* empty: the whole device */
    bool admin;             /* counts for nobody */
    bool reserved;          /* not yet confirmed */
    const struct bh_obj
        *claim; /* the informer's object (reservedFor tells the pods), NULL when only reserved */
};
/* Holders of a device in order of claim uid, in the arena; views live until the ledger changes.
 * Returns their number. */
size_t bh_dra_holders(struct bh_dra_model *m, struct bh_str driver, struct bh_str pool,
                      struct bh_str device, struct bh_arena *a, struct bh_dra_holder **ret);
/* Holders of any device that this node sees, claim by claim once each: the candidates for
 * preemption. */
size_t bh_dra_node_holders(struct bh_dra_model *m, struct bh_str node, struct bh_arena *a,
                           struct bh_dra_holder **ret);
/* Devices this node sees and how many of them nobody holds (shared devices count while they may
 * have room). */
void bh_dra_node_count(struct bh_dra_model *m, struct bh_str node, size_t *ret_total,
                       size_t *ret_free);

/* Whether any published device stands for something of its node's own resources. */
bool bh_dra_any_native(const struct bh_dra_model *m);
/* What the devices of an allocation take of the node's own resources (section 6.11): name to
 * quantity, by name, in the arena; none when no device stands for any. -BH_E_INVALID, with
 * upstream's text, when that cannot be computed. ns and name are the claim's, for the text. */
BH_MUST int bh_dra_native(struct bh_dra_model *m, struct bh_str ns, struct bh_str name,
                          const struct bh_resource_v1_allocation_result *alloc, struct bh_arena *a,
                          struct bh_str_map *ret, struct bh_err *err);

/* How many devices of the class the node sees, and how many of them are in use. False: the class is
 * not there, or a selector of it failed; none counts then. */
bool bh_dra_class_count(struct bh_dra_model *m, struct bh_str class, struct bh_str node,
                        int64_t *ret_all, int64_t *ret_used);

/* A device as it is published, taint rules merged. */
struct bh_dra_device {
    struct bh_str driver, pool, device, slice, node; /* node empty: not bound to one */
    const struct bh_resource_v1_device_taint *const *taints;
    size_t taints_n;
    bool in_use, shared;
    bool usable; /* its pool is complete and valid for that node */
};
/* All devices a node sees in the allocator's order; node empty: all of the newest generations. In
 * the arena. */
size_t bh_dra_devices(struct bh_dra_model *m, struct bh_str node, struct bh_arena *a,
                      struct bh_dra_device **ret);
/* Section 8.2: whether one of the tolerations tolerates the taint. */
bool bh_dra_tolerates(const struct bh_resource_v1_device_toleration *t, size_t n,
                      const struct bh_resource_v1_device_taint *taint);

/* ---- asking
 * ----------------------------------------------------------------------------------------------------------
 */

/* What a pod asks: its claims that are not allocated, in order. claims must outlive the ask; an
 * in-memory claim (extended resources) needs namespace, name, uid and spec only. Valid until the
 * arena goes or any class is changed. Never NULL: what is wrong with the claims shows as
 * BH_DRA_FATAL at bh_dra_allocate(), or here before any node was tried: */
struct bh_dra_ask *bh_dra_ask_new(struct bh_dra_model *m,
                                  const struct bh_resource_v1_resource_claim *const *claims,
                                  size_t n, struct bh_arena *a);
/* 0, or -BH_E_INVALID with upstream's text when the claims are refused whatever the node (class not
 * found, unknown allocation mode, more than 32 devices …). */
BH_MUST int bh_dra_ask_check(const struct bh_dra_ask *q, struct bh_err *err);
/* Nodes on which the ask may succeed; all others have failed it before and did not change since, or
 * have nothing free. *it = 0 at first. The order is that of a ring which begins at the node that
 * took the last allocation of an equal ask (so that filling nodes one after the other costs O(1)
 * per pod). False at the end. The node's name is valid until it is deleted. Nodes must not be put
 * or deleted during the iteration; reserving is allowed. */
bool bh_dra_ask_next(struct bh_dra_ask *q, uint64_t *it, struct bh_str *ret_node);
/* The same question about one node, for callers who walk their own list. */
bool bh_dra_ask_may_fit(struct bh_dra_ask *q, struct bh_str node);
/* An ask without devices (no claims, or claims without requests) may fit every node. */

enum bh_dra_scoring {
    BH_DRA_FIRST_FIT = 0, /* upstream's choice, to the letter */
    BH_DRA_PACK,   /* the devices that fit closest: least waste, near each other, break up as little
                      as possible */
    BH_DRA_SPREAD, /* near each other, but away from what is in use */
};

/* What scoring prefers for the devices of one claim, most important first: "nvlink", "pcie" and
 * "numa" want them to share that, "-nvlink", "-pcie" and "-numa" want them apart. On a
 * ResourceClaim, or in the metadata that a ResourceClaimTemplate gives to its claims. Soft: it
 * never makes a claim fail. */
#define BH_DRA_TOPOLOGY_ANNOTATION "bulkhead.dev/device-topology"

/* Search steps of one call, eight devices looked at counting as one: up to 100 ms. */
#define BH_DRA_STEPS_DEFAULT 200000u

struct bh_dra_opts {
    enum bh_dra_scoring scoring;
    uint64_t steps_max; /* 0: BH_DRA_STEPS_DEFAULT. That others were spent is not remembered. */
    /* Source of share ids: writes 36 characters and a NUL. NULL: derived from claim uid and
     * position (tests). */
    void (*uuid)(void *arg, char out[37]);
    void *uuid_arg;
    /* Claims (uids) to be taken as released: what preemption would give. */
    const struct bh_str *released;
    size_t released_n;
    /* Allocations to be taken as in use, beside what is: what is kept for somebody. An answer that
     * hangs on this or on released is not remembered. */
    const struct bh_resource_v1_allocation_result *const *held;
    size_t held_n;
};

enum bh_dra_outcome {
    BH_DRA_OK = 0,
    BH_DRA_NO_SOLUTION, /* this node does not fit */
    BH_DRA_NODE_ERROR, /* this node cannot be judged: err has the text ("invalid resource pools were
                          encountered") */
    BH_DRA_FATAL, /* the pod cannot be placed at all: err has upstream's text; other nodes are not
                     to be tried */
    BH_DRA_SPENT, /* the work budget is spent: err has the text; this node counts as not fitting */
};

struct bh_dra_result {
    struct bh_resource_v1_allocation_result
        *allocations; /* one per claim, complete but for allocationTimestamp */
    size_t n;
    uint64_t steps; /* search steps taken */
    uint64_t work;  /* the same with what was looked at, as steps_max counts */
    int64_t prefer; /* section 4.13: sum of 8 - index over the requests with alternatives */
    /* How good the choice is, 0..100: closeness of the devices, little waste, node left whole. For
     * scoring nodes. */
    int score;
};

/* All claims of the ask on this node, or none. The node must be known (bh_dra_node_put), else
 * BH_DRA_NO_SOLUTION. Everything in *ret lies in arena a and needs neither model nor claims
 * afterwards. Reserves nothing. */
BH_MUST enum bh_dra_outcome bh_dra_allocate(struct bh_dra_ask *q, struct bh_str node,
                                            const struct bh_dra_opts *opts, struct bh_arena *a,
                                            struct bh_dra_result *ret, struct bh_err *err);

/* Whether an equal ask succeeded on this node, with this scoring, and nothing that it depends on
 * changed since: then *ret has the score and preference that it would have again, and no
 * allocations. */
bool bh_dra_ask_recall(struct bh_dra_ask *q, struct bh_str node, enum bh_dra_scoring scoring,
                       struct bh_dra_result *ret);
/* The ask's allocation was taken on this node: where the ring of the next equal ask begins. */
void bh_dra_ask_took(struct bh_dra_ask *q, struct bh_str node);

/* ---- supposing
 * -----------------------------------------------------------------------------------------------
 *
 * Between on and off, what is reserved or taken as released counts for every ask, and none of the
 * asks remembers its answer. Whoever supposes undoes all of it before off; objects must not change
 * meanwhile. */
void bh_dra_suppose(struct bh_dra_model *m, bool on);
/* These claims (uids) count as released; each of them as often as it is put back. */
void bh_dra_suppose_released(struct bh_dra_model *m, const struct bh_str *uids, size_t n);
/* They count again. False, and nothing is put back: somebody else has devices of theirs now. With
 * force they are put back all the same. */
bool bh_dra_suppose_back(struct bh_dra_model *m, const struct bh_str *uids, size_t n, bool force);

/* ---- explaining
 * ------------------------------------------------------------------------------------------------------
 */

enum bh_dra_why {
    BH_DRA_WHY_FREE, /* nothing against it on its own: others of the pod took it, or the combination
                        fails */
    BH_DRA_WHY_CLASS,    /* a selector of the device class */
    BH_DRA_WHY_SELECTOR, /* a selector of the request */
    BH_DRA_WHY_NODE,     /* the device's own node selection */
    BH_DRA_WHY_IN_USE,
    BH_DRA_WHY_TAINT,
    BH_DRA_WHY_COUNTERS,   /* shared counters of its pool do not suffice */
    BH_DRA_WHY_CAPACITY,   /* lacks a requested capacity, or has too little left */
    BH_DRA_WHY_CONSTRAINT, /* lacks the attribute of a constraint */
    BH_DRA_WHY_BINDING,    /* needs binding conditions while the feature is off */
    BH_DRA_WHY_INCOMPLETE, /* its pool is being updated */
    BH_DRA_WHY_INVALID,    /* its pool is invalid */
    BH_DRA_WHY_ERROR,      /* a selector failed */
    BH_DRA_WHY__MAX
};
const char *bh_dra_why_name(enum bh_dra_why w); /* "InUse", "Taint" … */

#define BH_DRA_WHY_DEVICES_MAX 3
struct bh_dra_why_device {
    struct bh_str driver, pool, device, node;
    struct bh_str detail; /* "gpu.bulkhead.dev/xid=79:NoExecute", "claim default/train-0" … */
};
struct bh_dra_why_request {
    size_t claim;           /* index */
    struct bh_str request;  /* "gpu", or "gpu/large" */
    int64_t wanted;         /* devices; -1: all */
    struct bh_str together; /* a constraint that its devices have to meet together; may be empty */
    size_t count[BH_DRA_WHY__MAX];
    struct bh_dra_why_device first[BH_DRA_WHY__MAX][BH_DRA_WHY_DEVICES_MAX];
};
struct bh_dra_reasons {
    struct bh_dra_why_request
        *requests; /* those that devices are missing for first, in order of the ask */
    size_t n;
    size_t nodes; /* summed up */
};
/* Says for every request and every device that these nodes see why it does not serve, each on its
 * own. In the arena. */
void bh_dra_explain(struct bh_dra_ask *q, const struct bh_str *nodes, size_t nodes_n,
                    struct bh_arena *a, struct bh_dra_reasons *ret);
/* The same for each device on its own, request by request in the order of the ask, with details
 * that cost more: the false part of a selector and what the device has there, what is left of a
 * capacity or counter, slices that a pool lacks. In the arena, but for the taint, which lives until
 * slices and rules change. */
struct bh_dra_verdict {
    size_t claim;
    struct bh_str request;
    int64_t wanted; /* devices; -1: all */
    enum bh_dra_why why;
    struct bh_dra_why_device device;
    /* 1; more: all devices of a slice that is for other nodes, told at once: device has no name. */
    size_t devices;
    /* What a change would have to begin with. */
    size_t selector; /* CLASS, SELECTOR: which of the class or of the request; and of its text: */
    size_t part_at;  /* where the false part stands */
    struct bh_str part, values; /* the part; what the device has: "device.… is 80Gi" */
    const struct bh_resource_v1_device_taint *taint; /* TAINT */
    struct bh_str capacity, left; /* CAPACITY: which, and how much of it there is */
};
size_t bh_dra_explain_devices(struct bh_dra_ask *q, struct bh_str node, struct bh_arena *a,
                              struct bh_dra_verdict **ret);
/* `cannot allocate all claims: request "gpu": gpu-3 has taint gpu.bulkhead.dev/xid=79:NoExecute; 7
 * devices in use`: first (upstream's words), then ours: at most three devices, at most
 * BH_MESSAGE_BYTES_MAX bytes. first may be empty. */
struct bh_str bh_dra_explain_text(const struct bh_dra_reasons *r, struct bh_str first,
                                  struct bh_arena *a);

/* ---- checks and figures
 * -----------------------------------------------------------------------------------------------
 */

/* Recomputes index and ledger from the objects and compares: 0, or -BH_E_INTERNAL with the first
 * difference. Also that no device is held twice and nothing is over-committed: -BH_E_CONFLICT.
 * Costs O(everything). */
BH_MUST int bh_dra_self_check(struct bh_dra_model *m, struct bh_err *err);

struct bh_dra_stats {
    uint64_t allocations; /* calls of bh_dra_allocate */
    uint64_t solved;
    uint64_t steps;
    uint64_t evaluations; /* CEL selectors run */
    uint64_t recalled;    /* successes that were known */
    uint64_t repeated;    /* allocations given as they were for a node that sees the same */
    uint64_t remembered;  /* answers taken from memory instead */
    uint64_t views_built; /* node views computed */
    uint64_t scans;       /* times that all devices of a view were looked at for an index */
    size_t nodes, slices, pools, devices, claims, asks;
};
void bh_dra_stats(const struct bh_dra_model *m, struct bh_dra_stats *ret);

#endif
