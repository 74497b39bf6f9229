/* Private to src/dra: the structures behind the model, the ledger, the asks and the search.
 *
 *   pool --< slice --< device >-- content     (equal content: equal answers of selectors)
 *            |          |
 *            node       use --< held (claim)  (one use per driver/pool/device, whoever publishes
 * it)
 *            |
 *            view --< vpool                   (what the node sees; built when asked for)
 *
 *   demand (one per distinct text of claims) --< ask (one per pod)
 */
#ifndef BH_DRA_DRA_INT_H
#define BH_DRA_DRA_INT_H

#include "api/gen/core_v1.h"
#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "data/quantity.h"
#include "dra/dra.h"

#define DRA_CLAIM_DEVICES_MAX 32u /* upstream's limit of results in one claim */
#define DRA_NONE              UINT32_MAX
#define DRA_TOPO_N            3 /* NVLink domain, PCIe root, NUMA node */

struct bh_cel_selector;
struct dra_scan;

enum dra_answer { DRA_UNKNOWN, DRA_NO, DRA_YES, DRA_ERR };

/* ---- what exists ---- */

struct dra_range {
    struct bh_quantity min, max, step;
    bool has_min, has_max, has_step;
};

/* One capacity of a device, parsed. */
struct dra_cap {
    struct bh_str key; /* into the slice's object */
    struct bh_quantity value;
    bool bad;      /* a quantity that cannot be read: nothing fits */
    bool negative; /* taking of it may leave more than there was */
    bool has_policy, has_default, has_range;
    struct bh_quantity def;
    struct bh_quantity *valid;
    size_t valid_n;
    struct dra_range range;
};

struct dra_consume {
    struct bh_str set, counter;
    struct bh_quantity value;
    uint32_t slot; /* in the pool's table of counters; DRA_NONE: unknown */
};

struct dra_dev {
    const struct bh_resource_v1_device *d;
    struct dra_slice *slice;
    struct dra_use *use;
    struct dra_dev *use_next; /* others of the same driver, pool and name */
    struct dra_content *content;
    struct dra_dev *content_prev, *content_next;
    const struct bh_resource_v1_device_taint **rule_taints;
    uint16_t rule_taints_n;
    uint16_t caps_n;
    uint16_t consumes_n;
    bool multi;
    bool binding;
    bool caps_parsed;
    bool caps_plain; /* none with a policy, none that cannot be read */
    bool negative;   /* consumes a negative counter */
    bool caps_negative;
    bool sized;
    bool part_known;
    uint32_t topo[DRA_TOPO_N]; /* hashes of where it sits; 0: unknown */
    double size;               /* how much of a device it is; for comparing */
    double part;               /* how much of its shared capacity is in use */
    struct dra_cap *caps;      /* dra_dev_caps() */
    struct dra_consume *consumes;
};

/* Devices whose driver, attributes and capacities are equal: what a selector says of one, it says
 * of all. */
struct dra_content {
    uint64_t hash;
    uint32_t id; /* index into the answers of selectors */
    struct dra_dev *first;
    struct dra_content *chain; /* others of the same hash */
};

struct dra_slice {
    uint64_t id; /* of this object; never the same again */
    struct bh_obj *obj;
    const struct bh_resource_v1_resource_slice_spec *spec;
    struct bh_str name;
    struct dra_pool *pool;
    struct dra_node *node; /* of its nodeName; NULL when that is empty */
    bool counters;         /* has shared counters: seen from every node, its devices do not count */
    bool per_device;
    bool binding;     /* a device has binding conditions */
    bool selector_ok; /* its node selector was found to be readable */
    struct dra_dev *devs;
    size_t n;
    size_t n_free;          /* devices that no claim holds as a whole */
    struct bh_arena *arena; /* parsed capacities and counters; NULL until needed */
};

struct dra_counter {
    struct bh_str set, name;
    struct bh_quantity total;
    struct bh_quantity used; /* by all devices of the generation that are in use */
    double total_f, part;    /* of the total, and how much of it is used; 0: of nothing */
};

struct dra_pool {
    uint64_t id; /* another one after each change of its slices */
    struct bh_str driver, name;
    struct dra_slice **slices; /* by name */
    size_t n, cap;
    size_t n_open;         /* without node name and counters: any node may see them */
    size_t n_counters;     /* with shared counters */
    bool dirty;            /* in the model's list of pools to be judged again */
    size_t open_at;        /* 1 + index in the model's open pools */
    size_t bad_at;         /* 1 + index in the model's bad pools */
    enum dra_answer whole; /* whether it is valid to nodes that see all its slices */
    bool bad_incomplete;   /* as it looks to a node that sees its counters only */
    /* Counters of one generation; NULL: to be computed. */
    struct dra_counter *table;
    size_t table_n;
    int64_t table_gen;
    size_t table_over; /* counters of which more is used than there is */
    bool table_negative;
};

/* A pool as a node sees it. */
struct dra_vpool {
    struct dra_pool *pool;
    struct dra_slice **slices; /* those that target the node, by name */
    size_t n;
    int64_t gen;
    bool incomplete, invalid, binding;
};

struct dra_view {
    struct dra_vpool *pools; /* in the order of section 3.6 */
    size_t n;
    size_t n_devices;
    uint64_t sig; /* equal for nodes that see the same devices alike; 0: like no other */
    char *fatal;  /* a node selector that cannot be understood */
};

struct dra_node {
    struct bh_str name;
    struct bh_str_map labels; /* pairs and their bytes in one block */
    uint32_t idx;
    bool known;                /* put as a node, not only named by a slice */
    struct dra_slice **slices; /* local ones, by name */
    size_t n, cap;
    size_t n_free; /* over the local slices */
    struct dra_view *view;
    uint64_t view_at; /* the model's count of views when it was built */
};

struct dra_class {
    struct bh_obj *obj;
    const struct bh_resource_v1_device_class *c;
    struct dra_sel **sels; /* for counting its devices; NULL until that is asked for */
    size_t sels_n;
};

struct dra_rule {
    struct bh_obj *obj;
    struct bh_str name;
    bool selects; /* has a device selector */
    struct bh_str driver, pool, device;
    bool has_driver, has_pool, has_device;
    struct bh_resource_v1_device_taint taint; /* strings in obj */
};

/* ---- the ledger ---- */

struct dra_amount {
    struct bh_str key;
    struct bh_quantity q;
};

struct dra_use {
    struct bh_str key;                  /* driver NUL pool NUL device, owned */
    struct bh_str driver, pool, device; /* in key */
    struct dra_dev *devs;               /* published, by use_next */
    uint32_t dedicated;                 /* claims that hold it as a whole */
    uint32_t shares;
    uint32_t measured;      /* those of them that consume capacity */
    struct dra_amount *agg; /* capacity consumed by shares; keys owned */
    size_t agg_n;
    struct dra_held **holders;
    uint32_t holders_n, holders_cap;
};

struct dra_grant {
    struct dra_use *use;
    struct bh_str share_id;
    struct dra_amount *caps;
    size_t caps_n;
    bool admin;
    bool share;
};

struct dra_grants {
    size_t n;
    struct dra_grant g[]; /* strings and amounts follow in the same block */
};

/* A claim that the ledger knows. Its reservation counts while there is one, else what the object
 * says. */
struct dra_held {
    char *uid;
    struct bh_str uid_s, ns, name; /* ns and name owned, behind uid */
    struct bh_obj *obj;
    struct dra_grants *api;
    struct dra_grants *res;
    uint64_t res_id; /* of the last reservation */
    uint32_t out;    /* so often it was taken out of the books for a while */
};

static inline const struct dra_grants *dra_held_grants(const struct dra_held *h)
{
    return h->res ? h->res : h->api;
}

/* ---- demands ---- */

struct dra_sel {
    struct bh_str text; /* owned */
    struct bh_cel_selector *prog;
    struct bh_cel_why *why; /* for explanations; NULL until one is asked for */
    char *fault;            /* why it does not compile */
    uint8_t *answers;       /* enum dra_answer by content id */
    size_t answers_n;
    uint32_t refs;
};

/* A request, or one of its alternatives. */
struct dra_sub {
    struct bh_str result; /* "gpu", "gpu/large" */
    struct bh_str name;   /* its last part, which upstream's messages give */
    struct bh_str class_name;
    const struct bh_resource_v1_device_class_spec *cls; /* in the demand's arena */
    struct dra_sel **sels;                              /* of the class, then of the request */
    size_t class_n, sels_n;
    bool all, admin;
    int64_t count;
    struct bh_resource_v1_device_toleration_vec tolerations;
    struct dra_amount *caps; /* requested */
    size_t caps_n;
    bool negative; /* some of them are below nothing */
    uint32_t id;   /* counts through the demand */
};

struct dra_req {
    struct bh_str name;
    struct dra_sub *subs;
    size_t n;
    bool listed; /* firstAvailable */
};

struct dra_con {
    const struct bh_str_vec *requests; /* empty: all */
    struct bh_str attr, dom, id;       /* "dom/id" split at the first slash */
    bool distinct;
};

struct dra_dclaim {
    struct dra_req *reqs;
    size_t n;
    struct dra_con *cons;
    size_t cons_n;
    bool exact;           /* all requests count their devices, and leave no choice */
    int topo[DRA_TOPO_N]; /* how much scoring wants its devices to share each; below 0: apart */
};

struct dra_success {
    int64_t prefer;
    int32_t score;
    enum bh_dra_scoring scoring;
};

struct dra_demand {
    struct bh_str key; /* owned by the map of the model too */
    struct bh_arena *arena;
    struct bh_dra_model *m;
    struct bh_link lru;
    struct bh_link scans; /* dra_scan, of_demand */
    uint32_t refs;
    bool listed; /* the model still finds it */
    struct dra_dclaim *claims;
    size_t n;
    size_t subs_n;
    bool has_all, has_admin, has_distinct, has_caps, needs_device;
    struct bh_str fault; /* what is wrong with it, less "claim NAME" */
    size_t fault_claim;
    /* Nodes on which it may succeed. */
    uint64_t *bits;
    size_t words;
    uint64_t seen_seq; /* of the model's log of changes */
    uint64_t seen_epoch, seen_taken, seen_shared;
    uint32_t hint; /* node of the last success */
    /* What the last successes were worth, where nothing changed since. */
    struct dra_success *success; /* by node */
    uint64_t *success_bits;
    /* The last one, and what it saw: the same goes for nodes that see the same. */
    struct dra_success twin;
    uint64_t twin_sig, twin_seq; /* 0: none */
    uint64_t twin_no;            /* counts them */
};

struct bh_dra_ask {
    struct bh_dra_model *m;
    struct dra_demand *d;
    const struct bh_resource_v1_resource_claim *const *claims;
    size_t n;
    uint32_t start;
    bool started;
    struct bh_arena *a;
    /* Its last success, as long as it is the demand's twin: good for every node that sees the same.
     */
    struct bh_dra_result last;
    uint64_t last_no; /* 0: none */
    uint64_t last_steps_max;
};

#define DRA_LOG_LEN                                                                                \
    (1u << 14)               /* changes that a demand may miss before it forgets all it learnt     \
                              */
#define DRA_DEMANDS_MAX 1024 /* distinct texts of claims that are remembered */
#define DRA_LOG_TAKEN   0x80000000u

/* A device whose use changed, or (at DRA_NONE) any of those that consume counters of a pool. */
struct dra_change {
    uint64_t id; /* of the slice, or of the pool */
    uint32_t at; /* in the slice */
};
#define DRA_CHANGES_LEN 4096u /* so many may be missed before all is looked at again */
#define DRA_INDEX_MIN   64u   /* devices in view from which on an index is kept */
#define DRA_INDEX_MAX   (UINT64_C(1) << 21) /* candidates in it */
#define DRA_ASTRAY      64u /* devices taken back in a search before bounds are worth while */

struct bh_dra_model {
    struct bh_dra_features f;
    struct bh_map nodes;  /* name -> dra_node */
    struct bh_map slices; /* name -> dra_slice */
    struct bh_map pools;  /* driver NUL name -> dra_pool */
    struct bh_map classes;
    struct bh_map uses;        /* driver NUL pool NUL device -> dra_use */
    struct bh_map held;        /* uid -> dra_held */
    struct bh_map contents;    /* eight bytes of hash -> dra_content */
    struct bh_map sels;        /* text -> dra_sel */
    struct bh_map demands;     /* text -> dra_demand */
    struct bh_map ext;         /* extended resource -> dra_class */
    struct bh_link demand_lru; /* most recent first */
    size_t demands_n;
    struct dra_rule **rules; /* by name */
    size_t rules_n, rules_cap;
    struct dra_node **by_idx; /* NULL: free index */
    size_t idx_n, idx_cap;
    uint64_t *has_free; /* nodes with a local device that nobody holds as a whole */
    size_t has_free_words;
    struct dra_pool **open_pools; /* in order if open_sorted */
    size_t open_n, open_cap;
    bool open_sorted;
    struct dra_pool **bad_pools; /* incomplete or invalid to nodes that see their counters only */
    size_t bad_n, bad_cap;
    struct dra_pool **dirty; /* changed since the last look */
    size_t dirty_n, dirty_cap;
    uint64_t views;       /* counts changes of open pools: views older than that are stale */
    uint64_t epoch;       /* counts changes that may let any demand succeed on any node */
    uint64_t taken;       /* counts devices of open pools that were taken */
    uint64_t shared;      /* counts what was taken of pools that several nodes may see */
    uint64_t res_ids;     /* reservations made */
    size_t natives;       /* devices that stand for resources of their node */
    bool quiet;           /* changes are not to be counted: they will be undone */
    bool supposing;       /* so are all, and answers not to be remembered */
    struct bh_buf keybuf; /* for composite keys */
    uint32_t log[DRA_LOG_LEN];
    uint64_t seq;
    uint32_t *free_ids; /* of contents */
    size_t free_ids_n, free_ids_cap;
    uint32_t next_id;
    struct bh_arena *scratch; /* of CEL evaluation */
    struct dra_cand *cands;   /* of the search, kept between calls */
    size_t cands_cap;
    /* The index of large views. */
    struct bh_map scenes;    /* eight bytes of a view's sig -> dra_scene */
    struct bh_link scan_lru; /* most recent first */
    uint64_t index_calls;    /* that asked for it */
    uint64_t index_load;     /* candidates in all of them */
    uint64_t index_max;      /* DRA_INDEX_MAX */
    size_t index_min;        /* DRA_INDEX_MIN; tests want less */
    uint64_t astray;         /* DRA_ASTRAY; tests want less */
    struct dra_change changes[DRA_CHANGES_LEN];
    uint64_t changes_n;
    uint64_t index_epoch; /* counts changes of taints by rules */
    uint64_t ids;         /* given to slices and pools */
    struct bh_dra_stats st;
};

/* model.c */
struct dra_node *dra_node_get(const struct bh_dra_model *m, struct bh_str name);
struct dra_cap *dra_dev_caps(struct dra_dev *d); /* parsed on demand; d->caps_n of them */
/* Whether a taint of this effect keeps pods away. */
bool dra_taint_blocks(const struct bh_resource_v1_device_taint *t);
/* Something on the node was freed or changed; taken: only something was taken. */
void dra_log_node(struct bh_dra_model *m, const struct dra_node *n, bool taken);
/* The same for what many nodes see. */
void dra_log_open(struct bh_dra_model *m);
/* Judges changed pools again and forgets what nodes saw of them. To be called before any view or
 * bit is looked at. */
void dra_flush(struct bh_dra_model *m);
/* n more (or fewer) devices of the slice are free. */
void dra_slice_free_add(struct bh_dra_model *m, struct dra_slice *s, int n);
/* Grows *pp, an array of pointers, for one more. */
void dra_ptrs_grow(void *pp, size_t n, size_t *cap);

/* content.c */
void dra_content_join(struct bh_dra_model *m, struct dra_dev *d);
void dra_content_leave(struct bh_dra_model *m, struct dra_dev *d);

/* view.c */
struct dra_view *dra_view_get(struct bh_dra_model *m, struct dra_node *n);
void dra_view_drop(struct dra_node *n);
/* What nodes that see only its counters think of the pool: 0 fine or obsolete, 1 incomplete, 2
 * invalid. */
int dra_pool_judge(const struct bh_dra_model *m, const struct dra_pool *p);
int dra_vpool_cmp(const void *x, const void *y);
/* The table of counters of the pool's generation gen, computed when needed; also the slots of its
 * devices. */
void dra_pool_counters(struct dra_pool *p, int64_t gen);
void dra_pool_counters_drop(struct dra_pool *p);
/* The device became used, or unused: keeps the table true. */
void dra_pool_use(struct dra_pool *p, const struct dra_dev *d, bool take);
/* Whether the device's own node selection lets it serve the node: 1, 0, or -BH_E_INVALID. */
int dra_dev_targets(const struct dra_dev *d, const struct dra_node *n, struct bh_err *err);

/* ledger.c */
struct dra_use *dra_use_find(struct bh_dra_model *m, struct bh_str driver, struct bh_str pool,
                             struct bh_str device);
void dra_use_put_dev(struct bh_dra_model *m, struct dra_dev *d); /* a device is published */
void dra_use_del_dev(struct bh_dra_model *m, struct dra_dev *d);
static inline bool dra_use_any(const struct dra_use *u)
{
    return u->dedicated || u->shares;
}
/* Whether its counters are paid for by those who share it. As upstream: shares of no capacity do
 * not count. */
static inline bool dra_use_paid(const struct dra_dev *d)
{
    return d->multi && d->use->measured;
}
void dra_ledger_done(struct bh_dra_model *m);
/* Takes the grants of these claims out of the books, or puts them back. */
void dra_ledger_release(struct bh_dra_model *m, const struct bh_str *uids, size_t n, bool back);
/* Enters allocations that no claim has, until they are struck out again: before the call that needs
 * them returns. */
struct dra_grants **dra_ledger_hold(struct bh_dra_model *m,
                                    const struct bh_resource_v1_allocation_result *const *al,
                                    size_t n, struct bh_arena *a);
void dra_ledger_unhold(struct bh_dra_model *m, struct dra_grants **gs, size_t n);
const struct bh_quantity *dra_use_agg(const struct dra_use *u, struct bh_str key);

/* index.c */
/* The use of the device changed. */
void dra_index_log(struct bh_dra_model *m, const struct dra_dev *d);
/* Slices of the pool come or go. */
void dra_index_forget(struct bh_dra_model *m, const struct dra_pool *p);
void dra_scans_drop(struct dra_demand *d);
/* What is kept against what is found out anew: 0, or -BH_E_INTERNAL. */
BH_MUST int dra_index_check(struct bh_dra_model *m, struct bh_err *err);

/* demand.c */
void dra_demands_drop(struct bh_dra_model *m);                         /* classes changed */
void dra_demand_learn(struct dra_demand *d, const struct dra_node *n); /* it failed there */
/* It succeeded there. */
void dra_demand_succeeded(struct dra_demand *d, struct dra_node *n, enum bh_dra_scoring scoring,
                          const struct bh_dra_result *r);
/* Keeps the success just told, if it may be given to other nodes. */
void dra_ask_keep(struct bh_dra_ask *q, const struct bh_dra_opts *o, const struct bh_arena *a,
                  const struct bh_dra_result *r);
/* Whether the search would give the kept result again on this node, without running it. */
bool dra_ask_repeat(struct bh_dra_ask *q, struct dra_node *n, const struct bh_dra_opts *o,
                    const struct bh_arena *a, struct bh_dra_result *ret);
int dra_sel_judge(struct bh_dra_model *m, struct dra_sel *s, struct dra_dev *d, struct bh_err *err);
void dra_sels_done(struct bh_dra_model *m);
void dra_class_compile(struct bh_dra_model *m, struct dra_class *c);
void dra_class_forget(struct bh_dra_model *m, struct dra_class *c);
void dra_sels_forget(struct bh_dra_model *m, uint32_t content_id);
/* The device against all selectors of the request: 1, 0 (*ret_at: which one), or -BH_E_INVALID with
 * upstream's text. */
int dra_sub_match(struct bh_dra_ask *q, size_t claim, const struct dra_sub *s, struct dra_dev *d,
                  size_t *ret_at, struct bh_err *err);

/* score.c */
void dra_dev_locate(struct dra_dev *d); /* fills in topo */
double dra_dev_size(struct dra_dev *d);
/* The part of the device's counters, or of its shared capacity, that is in use: 0..1. */
double dra_dev_used(struct dra_dev *d);
/* Reads BH_DRA_TOPOLOGY_ANNOTATION; text without p: there is none. */
void dra_topo_read(struct bh_str text, int weight[DRA_TOPO_N]);

/* capacity.c */
/* What a request takes of capacity c: false when the policy or the request forbids it. */
bool dra_cap_amount(const struct dra_cap *c, const struct bh_quantity *want,
                    struct bh_quantity *ret);
const struct bh_quantity *dra_amount_find(const struct dra_amount *a, size_t n, struct bh_str key);

#endif
