/* The health policy: what a fault of a GPU means for those who use it, and how long it must be
 * healthy again before the taint goes. A document (YAML or JSON), by default in the ConfigMap
 * kube-system/gpu-health-policy under the key policy.yaml:
 *
 *     default: NoSchedule        # of XIDs that no rule names; absent: the built-in table decides
 *     healthyFor: 30s            # how long a device is watched after its last fault; absent: 0s
 *     flapping:                  # a device that fails so often is watched longer
 *       faults: 3
 *       within: 10m
 *       healthyFor: 1h
 *     rules:                     # the first that names the XID decides
 *     - xids: [79, "119-120"]
 *       effect: NoExecute        # NoExecute, NoSchedule, None (a taint that is only seen), ignore
 *       healthyFor: 5m           # instead of the value above
 *     - xids: [13, 31, 43]
 *       effect: ignore
 *
 * Unknown keys, wrong types and values that make no sense are errors. Thread: any (values).
 */
#ifndef BH_DRIVER_HEALTH_POLICY_H
#define BH_DRIVER_HEALTH_POLICY_H

#include "base/err.h"
#include "base/str.h"

#define BH_HEALTH_POLICY_NS   "kube-system"
#define BH_HEALTH_POLICY_NAME "gpu-health-policy"
#define BH_HEALTH_POLICY_KEY  "policy.yaml"
#define BH_HEALTH_POLICY_FILE                                                                      \
    "health-policy.yaml" /* in the driver's data directory: the last good one */
#define BH_HEALTH_RULES_MAX       64
#define BH_HEALTH_RANGES_MAX      256 /* of one rule */
#define BH_HEALTH_FLAP_FAULTS_MAX 32

struct bh_arena;

enum bh_health_effect {                   /* severity grows */
                        BH_HEALTH_IGNORE, /* no taint, and the device counts as healthy */
                        BH_HEALTH_NONE,   /* a taint that does nothing */
                        BH_HEALTH_NO_SCHEDULE,
                        BH_HEALTH_NO_EXECUTE,
};
const char *bh_health_effect_name(enum bh_health_effect e); /* "NoExecute" …, "ignore" */

struct bh_health_rule {
    struct bh_xid_range {
        int first, last;
    } * xids;
    size_t n;
    enum bh_health_effect effect;
    bool has_healthy_for;
    int64_t healthy_for_ns;
};

struct bh_health_policy { /* all zero: the built-in table, no time to wait */
    bool has_fallback;
    enum bh_health_effect fallback;
    int64_t healthy_for_ns;
    int flap_faults; /* 0: not watched for */
    int64_t flap_within_ns, flap_healthy_for_ns;
    struct bh_health_rule *rules;
    size_t n;
};

/* Everything in the arena. -BH_E_INVALID names the place: "rules[1].xids[0]: …". */
BH_MUST int bh_health_policy_parse(struct bh_arena *a, struct bh_str text,
                                   struct bh_health_policy *ret, struct bh_err *err);
/* The last good policy of a driver with this data directory; none: all zero. */
BH_MUST int bh_health_policy_load(struct bh_arena *a, const char *data_dir,
                                  struct bh_health_policy *ret, struct bh_err *err);
/* What the policy makes of an XID, and how long the device is watched afterwards. */
enum bh_health_effect bh_health_policy_effect(const struct bh_health_policy *p, int xid,
                                              int64_t *ret_healthy_for_ns);

#endif
