/* Which devices carry which NoExecute taints, and what that means for claims and pods. Pure
 * bookkeeping: the device taint eviction controller feeds it from its informers, `bulkhead device
 * taint --dry-run` from one reading of the API, so that both tell the same. One thread.
 */
#ifndef BH_CONTROLLERS_DEVICE_TAINT_H
#define BH_CONTROLLERS_DEVICE_TAINT_H

#include "api/annotations.h"
#include "api/obj.h"
#include "api/types.h"
#include "base/map.h"

struct bh_arena;
struct bh_informer;

/* A taint on one device, as it bears on one claim. */
struct dt_reason {
    struct bh_str device;         /* driver/pool/device */
    struct bh_str key, value;     /* of the taint */
    struct bh_str rule, rule_uid; /* empty: from a slice */
};
struct dt_reason_vec {
    struct dt_reason *p;
    size_t n;
};

#define DT_NEVER INT64_MAX

/* When the consumers of a claim have to go. */
struct dt_verdict {
    int64_t at_ns; /* Unix time; DT_NEVER: they stay */
    struct dt_reason_vec reasons;
};

/* A rule with an empty selector and effect NoExecute would empty the whole cluster: whether the
 * rule is one, and not confirmed by BH_ANNOTATION_CONFIRM_ALL. Such evict nobody unless
 * --confirm-taint-of-all-devices is off. */
bool dt_rule_unconfirmed(const struct bh_obj *rule);

struct dt_index;
/* confirm: rules that wait for their confirmation count for nothing. */
struct dt_index *dt_index_new(bool confirm);
struct dt_index *dt_index_free(struct dt_index *x);

typedef void (*dt_claim_fn)(void *arg, struct bh_str claim_key);

/* A slice came, changed or went (o NULL: it went). fn (NULL: nobody is told) is called for each
 * claim that uses a device whose NoExecute taints are not what they were. */
void dt_index_slice(struct dt_index *x, struct bh_obj *old, struct bh_obj *o, dt_claim_fn fn,
                    void *arg);
/* The same for a rule. */
void dt_index_rule(struct dt_index *x, struct bh_obj *old, struct bh_obj *o, dt_claim_fn fn,
                   void *arg);
/* A claim came, changed or went: keeps who uses which device. */
void dt_index_claim(struct dt_index *x, struct bh_obj *old, struct bh_obj *o);

/* What the taints of its devices mean for a claim. extra_rule (may be NULL; it need not be in the
 * index) counts as if its effect were NoExecute and then alone: what it would do. Reasons live in
 * a.
 */
struct dt_verdict dt_judge(const struct dt_index *x, const struct bh_obj *claim,
                           const struct bh_obj *extra_rule, struct bh_arena *a);
/* The same for a pod: of all claims that are reserved for it, those for extended resources too.
 * Reasons in order: those of rules by name, then by device. claim gives a claim or NULL. */
typedef struct bh_obj *(*dt_claim_get)(void *arg, struct bh_str ns, struct bh_str name);
struct dt_verdict dt_judge_pod(const struct dt_index *x, const struct bh_obj *pod,
                               dt_claim_get claim, void *arg, const struct bh_obj *extra_rule,
                               struct bh_arena *a);
/* Whether the rule's selector matches. Absent: nothing; {}: everything. */
bool dt_rule_selects(const struct bh_obj *rule, struct bh_str driver, struct bh_str pool,
                     struct bh_str device);
/* Calls fn for each claim that uses a device which the rule selects, once per device. */
void dt_each_user(const struct dt_index *x, const struct bh_obj *rule, dt_claim_fn fn, void *arg);
/* Devices published in the latest generation of their pools that the rule selects. */
size_t dt_count_devices(const struct dt_index *x, const struct bh_obj *rule);

#endif
