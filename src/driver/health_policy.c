/* Health policies: read strictly, because a misspelt key would silently change what a fault does.
 */
#include "driver/health_policy.h"

#include <limits.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "data/json.h"
#include "data/time_fmt.h"
#include "data/yaml.h"
#include "driver/gpu_xid.h"

#define POLICY_BYTES_MAX (256u << 10)
#define DAY_NS           ((int64_t)86400 * 1000000000)
#define HEALTHY_FOR_MAX  (30 * DAY_NS)

static const char *const effects[] = {[BH_HEALTH_IGNORE] = "ignore",
                                      [BH_HEALTH_NONE] = "None",
                                      [BH_HEALTH_NO_SCHEDULE] = "NoSchedule",
                                      [BH_HEALTH_NO_EXECUTE] = "NoExecute"};

const char *bh_health_effect_name(enum bh_health_effect e)
{
    return effects[e];
}

/* ---- parts ---- */

static int effect_read(const struct bh_jv *v, const char *at, enum bh_health_effect *ret,
                       struct bh_err *err)
{
    for (size_t i = 0; v->kind == BH_JSON_STR && i < BH_COUNT(effects); i++)
        if (bh_str_eqc(v->s, effects[i])) {
            *ret = (enum bh_health_effect)i;
            return 0;
        }
    return bh_err_set(err, BH_E_INVALID, "%s: must be NoExecute, NoSchedule, None or ignore", at);
}

static int duration_read(const struct bh_jv *v, const char *at, int64_t *ret, struct bh_err *err)
{
    if (v->kind != BH_JSON_STR || bh_duration_parse(v->s, ret, NULL) < 0 || *ret < 0 ||
        *ret > HEALTHY_FOR_MAX)
        return bh_err_set(err, BH_E_INVALID,
                          "%s: must be a time like 30s, 5m or 1h30m, of 30 days at most", at);
    return 0;
}

/* 79, "79" or "61-64". */
static int range_read(const struct bh_jv *v, const char *at, struct bh_xid_range *ret,
                      struct bh_err *err)
{
    struct bh_str last =
        v->kind == BH_JSON_STR || v->kind == BH_JSON_NUM ? v->s : (struct bh_str){NULL, 0};
    struct bh_str first = bh_str_cut(&last, '-');
    int64_t lo, hi;

    if (!last.p)
        last = first;
    if (!bh_str_i64(bh_str_trim(first), BH_XID_MIN, BH_XID_MAX, &lo) ||
        !bh_str_i64(bh_str_trim(last), BH_XID_MIN, BH_XID_MAX, &hi) || lo > hi)
        return bh_err_set(err, BH_E_INVALID,
                          "%s: must be an XID from %d to %d, or a range like \"61-64\"", at,
                          BH_XID_MIN, BH_XID_MAX);
    *ret = (struct bh_xid_range){(int)lo, (int)hi};
    return 0;
}

static int xids_read(struct bh_arena *a, const struct bh_jv *v, const char *at,
                     struct bh_health_rule *ret, struct bh_err *err)
{
    if (v->kind != BH_JSON_ARR || v->n_items == 0 || v->n_items > BH_HEALTH_RANGES_MAX)
        return bh_err_set(err, BH_E_INVALID, "%s: must be a list of 1 to %d XIDs and ranges", at,
                          BH_HEALTH_RANGES_MAX);
    ret->xids = bh_new_n(a, struct bh_xid_range, v->n_items);
    for (size_t i = 0; i < v->n_items; i++) {
        int r = range_read(&v->items[i], bh_str_fmt(a, "%s[%zu]", at, i).p, &ret->xids[i], err);

        if (r < 0)
            return r;
    }
    ret->n = v->n_items;
    return 0;
}

static int rule_read(struct bh_arena *a, const struct bh_jv *v, const char *at,
                     struct bh_health_rule *ret, struct bh_err *err)
{
    bool effect = false;
    int r = 0;

    if (v->kind != BH_JSON_OBJ)
        return bh_err_set(err, BH_E_INVALID, "%s: must be a map", at);
    for (size_t i = 0; i < v->n_members && r == 0; i++) {
        const struct bh_jv *x = &v->members[i].v;
        const char *place = bh_str_fmt(a, "%s.%.*s", at, BH_SF(v->members[i].key)).p;

        if (bh_str_eqc(v->members[i].key, "xids")) {
            r = xids_read(a, x, place, ret, err);
        } else if (bh_str_eqc(v->members[i].key, "effect")) {
            r = effect_read(x, place, &ret->effect, err);
            effect = true;
        } else if (bh_str_eqc(v->members[i].key, "healthyFor")) {
            r = duration_read(x, place, &ret->healthy_for_ns, err);
            ret->has_healthy_for = true;
        } else {
            r = bh_err_set(err, BH_E_INVALID, "%s: is not known (xids, effect, healthyFor are)",
                           place);
        }
    }
    if (r == 0 && (ret->n == 0 || !effect))
        r = bh_err_set(err, BH_E_INVALID, "%s.%s: is missing", at, ret->n ? "effect" : "xids");
    return r;
}

static int rules_read(struct bh_arena *a, const struct bh_jv *v, struct bh_health_policy *ret,
                      struct bh_err *err)
{
    if (v->kind != BH_JSON_ARR || v->n_items > BH_HEALTH_RULES_MAX)
        return bh_err_set(err, BH_E_INVALID, "rules: must be a list of at most %d rules",
                          BH_HEALTH_RULES_MAX);
    ret->rules = bh_new_n(a, struct bh_health_rule, v->n_items);
    for (size_t i = 0; i < v->n_items; i++) {
        int r = rule_read(a, &v->items[i], bh_str_fmt(a, "rules[%zu]", i).p, &ret->rules[i], err);

        if (r < 0)
            return r;
    }
    ret->n = v->n_items;
    return 0;
}

static int flapping_read(struct bh_arena *a, const struct bh_jv *v, struct bh_health_policy *ret,
                         struct bh_err *err)
{
    bool within = false, longer = false;
    int64_t n = 0;
    int r = 0;

    if (v->kind != BH_JSON_OBJ)
        return bh_err_set(err, BH_E_INVALID, "flapping: must be a map");
    for (size_t i = 0; i < v->n_members && r == 0; i++) {
        const struct bh_jv *x = &v->members[i].v;
        const char *place = bh_str_fmt(a, "flapping.%.*s", BH_SF(v->members[i].key)).p;

        if (bh_str_eqc(v->members[i].key, "faults")) {
            if (x->kind != BH_JSON_NUM || !bh_json_num_i64(x->s, &n) || n < 2 ||
                n > BH_HEALTH_FLAP_FAULTS_MAX)
                r = bh_err_set(err, BH_E_INVALID, "%s: must be a number from 2 to %d", place,
                               BH_HEALTH_FLAP_FAULTS_MAX);
        } else if (bh_str_eqc(v->members[i].key, "within")) {
            r = duration_read(x, place, &ret->flap_within_ns, err);
            within = true;
        } else if (bh_str_eqc(v->members[i].key, "healthyFor")) {
            r = duration_read(x, place, &ret->flap_healthy_for_ns, err);
            longer = true;
        } else {
            r = bh_err_set(err, BH_E_INVALID, "%s: is not known (faults, within, healthyFor are)",
                           place);
        }
    }
    if (r == 0 && (n == 0 || !within || !longer))
        r = bh_err_set(err, BH_E_INVALID, "flapping.%s: is missing",
                       n == 0    ? "faults"
                       : !within ? "within"
                                 : "healthyFor");
    ret->flap_faults = (int)n;
    return r;
}

/* ---- the whole ---- */

int bh_health_policy_parse(struct bh_arena *a, struct bh_str text, struct bh_health_policy *ret,
                           struct bh_err *err)
{
    struct bh_health_policy p = {0};
    struct bh_yaml_dups dups = {0};
    struct bh_jv doc;
    int r;

    if (text.n > POLICY_BYTES_MAX)
        return bh_err_set(err, BH_E_INVALID, "a policy has at most %u bytes", POLICY_BYTES_MAX);
    if (bh_yaml_parse(a, text, &dups, &doc, err) < 0)
        return -BH_E_INVALID;
    if (dups.lines.n > 0)
        return bh_err_set(err, BH_E_INVALID, "%.*s", BH_SF(dups.lines.p[0]));
    if (doc.kind != BH_JSON_OBJ)
        return bh_err_set(err, BH_E_INVALID, "a policy is a map");
    r = 0;
    for (size_t i = 0; i < doc.n_members && r == 0; i++) {
        const struct bh_jv *x = &doc.members[i].v;
        struct bh_str key = doc.members[i].key;

        if (bh_str_eqc(key, "default")) {
            r = effect_read(x, "default", &p.fallback, err);
            p.has_fallback = true;
        } else if (bh_str_eqc(key, "healthyFor")) {
            r = duration_read(x, "healthyFor", &p.healthy_for_ns, err);
        } else if (bh_str_eqc(key, "flapping")) {
            r = flapping_read(a, x, &p, err);
        } else if (bh_str_eqc(key, "rules")) {
            r = rules_read(a, x, &p, err);
        } else {
            r = bh_err_set(err, BH_E_INVALID,
                           "%.*s: is not known (default, healthyFor, flapping, rules are)",
                           BH_SF(key));
        }
    }
    if (r == 0)
        *ret = p;
    return r;
}

int bh_health_policy_load(struct bh_arena *a, const char *data_dir, struct bh_health_policy *ret,
                          struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = POLICY_BYTES_MAX};
    char path[PATH_MAX];
    int r = bh_path(path, sizeof(path), err, "%s/%s", data_dir, BH_HEALTH_POLICY_FILE);

    *ret = (struct bh_health_policy){0};
    if (r == 0)
        r = bh_fs_read(path, POLICY_BYTES_MAX, &b, err);
    if (r == -BH_E_NOT_FOUND)
        return 0;
    if (r == 0)
        r = bh_health_policy_parse(a, bh_str_dup(a, bh_buf_str(&b)), ret, err);
    return r < 0 ? bh_err_wrap(err, "%s", path) : 0;
}

static enum bh_health_effect table_effect(int xid)
{
    switch (bh_xid_get(xid)->effect) {
    case BH_XID_NONE:
        return BH_HEALTH_NONE;
    case BH_XID_NO_SCHEDULE:
        return BH_HEALTH_NO_SCHEDULE;
    case BH_XID_NO_EXECUTE:
        break;
    }
    return BH_HEALTH_NO_EXECUTE;
}

enum bh_health_effect bh_health_policy_effect(const struct bh_health_policy *p, int xid,
                                              int64_t *ret_healthy_for_ns)
{
    *ret_healthy_for_ns = p->healthy_for_ns;
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->rules[i].n; k++) {
            if (xid < p->rules[i].xids[k].first || xid > p->rules[i].xids[k].last)
                continue;
            if (p->rules[i].has_healthy_for)
                *ret_healthy_for_ns = p->rules[i].healthy_for_ns;
            return p->rules[i].effect;
        }
    return p->has_fallback ? p->fallback : table_effect(xid);
}
