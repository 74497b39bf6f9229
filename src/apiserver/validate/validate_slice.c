/* resource.k8s.io: slices and taint rules (dra.md, sections 2.6 to 2.8). */
#include "apiserver/validate/validate_dra.h"

#include "api/annotations.h"
#include "api/gen/resource_v1beta2.h"
#include "base/buf.h"
#include "data/codec.h"

#define DEVICES_MAX          128u
#define DEVICES_ADVANCED_MAX 64u /* when any device has taints, counters or list attributes */
#define ENTRIES_MAX          32u /* attributes and capacities of a device together */
#define VALUES_MAX           48u /* attribute values of a device */
#define VALUE_BYTES_MAX      64u
#define TAINTS_MAX           16u
#define COUNTER_SETS_MAX     8u
#define COUNTERS_MAX         32u
#define CONSUMED_SETS_MAX    2u
#define POLICY_VALUES_MAX    10u
#define KEY_SHOWN_MAX                                                                              \
    (63u + 1u + 32u) /* longer attribute and capacity keys are shortened in paths */
#define COUNTER_SHOWN_MAX 63u

/* A map key in a path, shortened in the middle. */
static struct bh_str shown_key(struct bh_arena *a, struct bh_str key, size_t max)
{
    size_t rest;

    if (key.n <= max)
        return key;
    rest = max - 3;
    return bh_str_fmt(a, "%.*s...%.*s", (int)((rest + 1) / 2), key.p, (int)(rest / 2),
                      key.p + key.n - rest / 2);
}

static struct bh_str qty_text(struct bh_arena *a, struct bh_str q)
{
    (void)a;
    return q.n ? q : BH_S("0");
}

/* ---- request policies ---- */

static void policy_values(struct bh_field_errs *e, const struct bh_fpath *at,
                          struct bh_str capacity, struct bh_str def, const struct bh_str_vec *v)
{
    struct bh_quantity max = bh_v_qty(capacity), d = bh_v_qty(def);
    bool found = false;

    for (size_t i = 0; i + 1 < v->n; i++)
        if (bh_quantity_cmp(bh_v_qty(v->p[i]), bh_v_qty(v->p[i + 1])) > 0)
            bh_fe_invalid(e, BH_FPI(at, i + 1), qty_text(e->a, v->p[i + 1]),
                          "values must be sorted in ascending order");
    if (bh_v_size(e, at, v->n, POLICY_VALUES_MAX)) {
        for (size_t i = 0; i < v->n; i++) {
            struct bh_quantity q = bh_v_qty(v->p[i]);

            if (bh_quantity_cmp(q, max) > 0)
                bh_fe_invalid(e, BH_FPI(at, i), qty_text(e->a, v->p[i]),
                              "option is larger than capacity value: %.*s",
                              BH_SF(qty_text(e->a, capacity)));
            found = found || bh_quantity_cmp(q, d) == 0;
        }
        for (size_t i = 0; i < v->n; i++)
            for (size_t k = 0; k < i; k++)
                if (bh_quantity_value(bh_v_qty(v->p[k])) == bh_quantity_value(bh_v_qty(v->p[i]))) {
                    bh_fe_duplicate(
                        e, BH_FPI(at, i),
                        bh_str_fmt(e->a, "%lld", (long long)bh_quantity_value(bh_v_qty(v->p[i]))));
                    break;
                }
    }
    if (!found)
        bh_fe_invalid(e, at, def, "default value is not valid according to the requestPolicy");
}

/* Whole numbers, as upstream: fractions are rounded up first. A step of zero, which upstream
 * divides by, is refused. */
static void policy_step(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str value,
                        struct bh_str min, struct bh_str step)
{
    int64_t s = bh_quantity_value(bh_v_qty(step));
    __int128 off = (__int128)bh_quantity_value(bh_v_qty(value)) - bh_quantity_value(bh_v_qty(min));

    if (s == 0 || off % s != 0)
        bh_fe_invalid(e, at, value, "value is not a multiple of a given step (%.*s) from (%.*s)",
                      BH_SF(step), BH_SF(min));
}

static void policy_range(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str capacity,
                         struct bh_str def,
                         const struct bh_resource_v1_capacity_request_policy_range *r)
{
    const struct bh_fpath *min_at = BH_FP(at, "min"), *max_at = BH_FP(at, "max"),
                          *step_at = BH_FP(at, "step");
    struct bh_quantity max = bh_v_qty(capacity), d = bh_v_qty(def), lo, hi, one;

    if (!r->has_min) {
        bh_fe_required(e, min_at, "required when validRange is defined");
        return;
    }
    lo = bh_v_qty(r->min);
    if (bh_quantity_cmp(lo, max) > 0)
        bh_fe_invalid(e, min_at, r->min, "min is larger than capacity value: %.*s",
                      BH_SF(qty_text(e->a, capacity)));
    if (bh_quantity_cmp(d, lo) < 0)
        bh_fe_invalid(e, min_at, def, "default is less than min: %.*s", BH_SF(r->min));
    if (r->has_max) {
        hi = bh_v_qty(r->max);
        if (bh_quantity_cmp(lo, hi) > 0)
            bh_fe_invalid(e, max_at, r->min, "min is larger than max: %.*s", BH_SF(r->max));
        if (bh_quantity_cmp(hi, max) > 0)
            bh_fe_invalid(e, max_at, r->max, "max is larger than capacity value: %.*s",
                          BH_SF(qty_text(e->a, capacity)));
        if (bh_quantity_cmp(d, hi) > 0)
            bh_fe_invalid(e, max_at, def, "default is more than max: %.*s", BH_SF(r->max));
    }
    if (!r->has_step)
        return;
    one = bh_quantity_add(lo, bh_v_qty(r->step));
    if (bh_quantity_cmp(one, max) > 0)
        bh_fe_invalid(e, step_at, r->step, "one step %.*s is larger than capacity value: %.*s",
                      BH_SF(bh_quantity_str(e->a, one)), BH_SF(qty_text(e->a, capacity)));
    policy_step(e, step_at, def, r->min, r->step);
    if (r->has_max)
        policy_step(e, step_at, r->max, r->min, r->step);
}

static void request_policy(struct bh_field_errs *e, const struct bh_fpath *at,
                           struct bh_str capacity,
                           const struct bh_resource_v1_capacity_request_policy *p)
{
    if (p->valid_values.n && p->valid_range)
        bh_fe_forbidden(e, at,
                        "exactly one policy can be specified, cannot specify \"validValues\" and "
                        "\"validRange\" at the "
                        "same time");
    else if (p->valid_values.n && !p->has_default)
        bh_fe_required(e, BH_FP(at, "default"), "required when validValues is defined");
    else if (p->valid_values.n)
        policy_values(e, BH_FP(at, "validValues"), capacity, p->default_, &p->valid_values);
    else if (p->valid_range && !p->has_default)
        bh_fe_required(e, BH_FP(at, "default"), "required when validRange is defined");
    else if (p->valid_range)
        policy_range(e, BH_FP(at, "validRange"), capacity, p->default_, p->valid_range);
}

static void capacities(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_resource_v1_device *d)
{
    bool multiple = d->has_allow_multiple_allocations && d->allow_multiple_allocations;

    for (size_t i = 0; i < d->capacity.n; i++) {
        struct bh_str key = d->capacity.p[i].key;
        const struct bh_resource_v1_device_capacity *c = &d->capacity.p[i].value;
        const struct bh_fpath *policy =
            BH_FP(BH_FPK(at, shown_key(e->a, key, KEY_SHOWN_MAX)), "requestPolicy");

        bh_v_qualified_key(e, at, key);
        if (c->request_policy && multiple)
            request_policy(e, policy, c->value, c->request_policy);
        else if (c->request_policy)
            bh_fe_forbidden(e, policy, "allowMultipleAllocations must be true");
    }
}

/* ---- attributes ---- */

static void string_value(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    if (s.n > VALUE_BYTES_MAX)
        bh_fe_too_long(e, at, VALUE_BYTES_MAX);
}

/* By the grammar alone: its numbers may be longer than any that is compared. */
static bool is_semver(struct bh_arena *a, struct bh_str s)
{
    struct bh_semver v;
    size_t n = 0, numbers = 0, start = 0;

    for (;; n++) {
        bool end = n == s.n || !(s.p[n] >= '0' && s.p[n] <= '9');

        if (!end)
            continue;
        if (n == start || (n > start + 1 && s.p[start] == '0'))
            return false;
        numbers++;
        if (n == s.n || s.p[n] != '.' || numbers == 3)
            break;
        start = n + 1;
    }
    return numbers == 3 &&
           bh_semver_parse(bh_str_fmt(a, "0.0.0%.*s", BH_SF(bh_str_sub(s, n, s.n))), &v);
}

static void version_value(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    if (!is_semver(e->a, s))
        bh_fe_invalid(e, at, s, "must be a string compatible with semver.org spec 2.0.0");
    string_value(e, at, s);
}

/* 1 when the list is there; an empty one is an error. */
static unsigned list_value(struct bh_field_errs *e, const struct bh_fpath *at, const void *p,
                           size_t n)
{
    if (p && n == 0)
        bh_fe_invalid_text(e, at, BH_S("[]"), "must not be empty if specified");
    return p != NULL;
}

static void attribute(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_resource_v1_device_attribute *v)
{
    unsigned n = (unsigned)v->has_bool + (unsigned)v->has_int + (unsigned)v->has_string +
                 (unsigned)v->has_version;

    if (v->has_string)
        string_value(e, BH_FP(at, "string"), v->string);
    if (v->has_version)
        version_value(e, BH_FP(at, "version"), v->version);
    n += list_value(e, BH_FP(at, "bools"), v->bools.p, v->bools.n);
    n += list_value(e, BH_FP(at, "ints"), v->ints.p, v->ints.n);
    n += list_value(e, BH_FP(at, "strings"), v->strings.p, v->strings.n);
    for (size_t i = 0; i < v->strings.n; i++)
        string_value(e, BH_FPI(BH_FP(at, "strings"), i), v->strings.p[i]);
    n += list_value(e, BH_FP(at, "versions"), v->versions.p, v->versions.n);
    for (size_t i = 0; i < v->versions.n; i++)
        version_value(e, BH_FPI(BH_FP(at, "versions"), i), v->versions.p[i]);
    if (n == 0)
        bh_fe_invalid(e, at, BH_S(""), "exactly one value must be specified");
    else if (n > 1)
        bh_fe_invalid_text(e, at, bh_v_go_json(e->a, &bh_resource_v1_device_attribute_type, v),
                           "exactly one value must be specified");
}

static size_t value_count(const struct bh_resource_v1_device *d)
{
    size_t total = 0;

    for (size_t i = 0; i < d->attributes.n; i++) {
        const struct bh_resource_v1_device_attribute *v = &d->attributes.p[i].value;
        size_t n = v->bools.n + v->ints.n + v->strings.n + v->versions.n;

        total += n ? n : 1;
    }
    return total;
}

/* ---- counters ---- */

static void counters(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_resource_v1_counter_map *m)
{
    if (m->n == 0) {
        bh_fe_required(e, at, NULL);
        return;
    }
    if (!bh_v_size(e, at, m->n, COUNTERS_MAX))
        return;
    for (size_t i = 0; i < m->n; i++)
        bh_v_check(e, at, bh_check_dns1123_label, m->p[i].key);
}

static void set_name(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    if (s.n == 0)
        bh_fe_required(e, at, NULL);
    else
        bh_v_check(e, at, bh_check_dns1123_label, s);
}

static void consumes(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_resource_v1_device_counter_consumption_vec *v)
{
    if (!bh_v_size(e, at, v->n, CONSUMED_SETS_MAX))
        return;
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_fpath *ix = BH_FPI(at, i);

        set_name(e, BH_FP(ix, "counterSet"), v->p[i].counter_set);
        counters(e, BH_FP(ix, "counters"), &v->p[i].counters);
    }
    for (size_t i = 0; i < v->n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].counter_set, v->p[i].counter_set)) {
                bh_fe_duplicate(e, BH_FPI(at, i), v->p[i].counter_set);
                break;
            }
}

static void shared_counters(struct bh_field_errs *e, const struct bh_fpath *at,
                            const struct bh_resource_v1_counter_set_vec *v)
{
    if (!bh_v_size(e, at, v->n, COUNTER_SETS_MAX))
        return;
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_fpath *ix = BH_FPI(at, i);

        set_name(e, BH_FP(ix, "name"), v->p[i].name);
        counters(e, BH_FP(ix, "counters"), &v->p[i].counters);
    }
    for (size_t i = 0; i < v->n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].name, v->p[i].name)) {
                bh_fe_duplicate(e, BH_FPI(at, i), v->p[i].name);
                break;
            }
}

/* ---- where devices are ---- */

struct chosen {
    struct bh_buf text; /* {`nodeName`, `allNodes`} */
    unsigned n;
};

static void choose(struct chosen *c, const char *name)
{
    bh_buf_addf(&c->text, "%s`%s`", c->n ? ", " : "{", name);
    c->n++;
}

static struct bh_str chosen_text(struct chosen *c)
{
    bh_buf_addc(&c->text, '}');
    return bh_buf_str(&c->text);
}

static void device_place(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_resource_v1_device *d, bool per_device)
{
    struct chosen c = {.text = {.max = 256}};

    if (!per_device) {
        if (d->has_node_name || d->node_selector || d->has_all_nodes)
            bh_fe_invalid_text(e, at, BH_S("null"),
                               "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
                               "`perDeviceNodeSelection` "
                               "is set to true in the ResourceSlice spec");
        return;
    }
    if (d->has_node_name && d->node_name.n) {
        choose(&c, "nodeName");
        bh_v_check(e, BH_FP(at, "nodeName"), bh_v_node_name, d->node_name);
    } else if (d->has_node_name) {
        bh_fe_invalid(e, BH_FP(at, "nodeName"), d->node_name, "must not be empty");
    }
    if (d->node_selector) {
        choose(&c, "nodeSelector");
        bh_v_node_selector(e, BH_FP(at, "nodeSelector"), d->node_selector, false);
    }
    if (d->has_all_nodes && d->all_nodes)
        choose(&c, "allNodes");
    else if (d->has_all_nodes)
        bh_fe_invalid_bool(e, BH_FP(at, "allNodes"), false, "must be either unset or set to true");
#define ONE_PLACE                                                                                  \
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "                   \
    "`perDeviceNodeSelection` is set to "                                                          \
    "true in the ResourceSlice spec"
    if (c.n == 0)
        bh_fe_required(e, at, ONE_PLACE);
    else if (c.n > 1)
        bh_fe_invalid(e, at, chosen_text(&c), ONE_PLACE);
    bh_buf_done(&c.text);
}

static void slice_place(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_resource_v1_resource_slice_spec *s)
{
    struct chosen c = {.text = {.max = 256}};

    if (s->has_node_name && s->node_name.n) {
        choose(&c, "nodeName");
        bh_v_check(e, BH_FP(at, "nodeName"), bh_v_node_name, s->node_name);
    } else if (s->has_node_name) {
        bh_fe_invalid(e, BH_FP(at, "nodeName"), s->node_name,
                      "must be either unset or set to a non-empty string");
    }
    if (s->node_selector) {
        const struct bh_fpath *nsat = BH_FP(at, "nodeSelector");

        choose(&c, "nodeSelector");
        bh_v_node_selector(e, nsat, s->node_selector, false);
        if (s->node_selector->node_selector_terms.n != 1)
            bh_fe_invalid_text(e, BH_FP(nsat, "nodeSelectorTerms"),
                               bh_v_go_json_list(e->a, &bh_core_v1_node_selector_term_type,
                                                 &s->node_selector->node_selector_terms),
                               "must have exactly one node selector term");
    }
    if (s->has_all_nodes && s->all_nodes)
        choose(&c, "allNodes");
    else if (s->has_all_nodes)
        bh_fe_invalid_bool(e, BH_FP(at, "allNodes"), false, "must be either unset or set to true");
    if (s->has_per_device_node_selection && s->per_device_node_selection)
        choose(&c, "perDeviceNodeSelection");
    else if (s->has_per_device_node_selection)
        bh_fe_invalid_bool(e, BH_FP(at, "perDeviceNodeSelection"), false,
                           "must be either unset or set to true");
#define SLICE_PLACE                                                                                \
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if (c.n == 0)
        bh_fe_required(e, at, SLICE_PLACE);
    else if (c.n > 1)
        bh_fe_invalid(e, at, chosen_text(&c), SLICE_PLACE ", but multiple fields are set");
    bh_buf_done(&c.text);
}

/* ---- devices ---- */

static void mappings(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_resource_v1_device *d)
{
    for (size_t i = 0; i < d->node_allocatable_resource_mappings.n; i++) {
        struct bh_str name = d->node_allocatable_resource_mappings.p[i].key;
        const struct bh_resource_v1_node_allocatable_resource_mapping *m =
            &d->node_allocatable_resource_mappings.p[i].value;
        const struct bh_fpath *key = BH_FPK(at, name), *cap = BH_FP(key, "capacityKey");
        bool known = false;

        if (!bh_v_is_native_resource(name))
            bh_fe_invalid(e, key, name, "must be a node allocatable resource name");
        if (!m->has_allocation_multiplier && !m->has_capacity_key) {
            bh_fe_invalid(e, key, BH_S(""),
                          "at least one of allocationMultiplier or capacityKey must be set");
            continue;
        }
        if (m->has_allocation_multiplier &&
            bh_quantity_sign(bh_v_qty(m->allocation_multiplier)) <= 0)
            bh_fe_invalid(e, BH_FP(key, "allocationMultiplier"), m->allocation_multiplier,
                          "must be positive");
        if (!m->has_capacity_key)
            continue;
        for (size_t k = 0; k < d->capacity.n && !known; k++)
            known = bh_str_eq(d->capacity.p[k].key, m->capacity_key);
        if (m->capacity_key.n == 0)
            bh_fe_invalid(e, cap, BH_S(""), "capacityKey must not be an empty string");
        else if (!known)
            bh_fe_not_found(e, cap, m->capacity_key);
    }
}

static bool same_taints(const struct bh_resource_v1_device *x,
                        const struct bh_resource_v1_device *y)
{
    if (!y || x->taints.n != y->taints.n)
        return false;
    for (size_t i = 0; i < x->taints.n; i++)
        if (!bh_msg_equal(&bh_resource_v1_device_taint_type, &x->taints.p[i], &y->taints.p[i]))
            return false;
    return true;
}

static void taints(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_resource_v1_device_taint_vec *v)
{
    if (!bh_v_size(e, at, v->n, TAINTS_MAX))
        return;
    for (size_t i = 0; i < v->n; i++)
        bh_v_device_taint(e, BH_FPI(at, i), v->p[i].key, v->p[i].value, v->p[i].effect, true);
}

static void device(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_resource_v1_device *d, const struct bh_resource_v1_device *old,
                   bool per_device)
{
    const struct bh_fpath *attributes = BH_FP(at, "attributes");
    size_t entries = d->attributes.n + d->capacity.n, values = value_count(d);

    bh_v_check(e, BH_FP(at, "name"), bh_check_dns1123_label, d->name);
    if (entries > ENTRIES_MAX)
        bh_fe_invalid_i64(e, at, (int64_t)entries,
                          "the total number of attributes and capacities must not exceed %u",
                          ENTRIES_MAX);
    if (values > VALUES_MAX)
        bh_fe_invalid_i64(e, at, (int64_t)values,
                          "the total number of attribute values must not exceed %u", VALUES_MAX);
    for (size_t i = 0; i < d->attributes.n; i++) {
        struct bh_str key = d->attributes.p[i].key;

        bh_v_qualified_key(e, attributes, key);
        attribute(e, BH_FPK(attributes, shown_key(e->a, key, KEY_SHOWN_MAX)),
                  &d->attributes.p[i].value);
    }
    capacities(e, BH_FP(at, "capacity"), d);
    if (!same_taints(d, old))
        taints(e, BH_FP(at, "taints"), &d->taints);
    consumes(e, BH_FP(at, "consumesCounters"), &d->consumes_counters);
    device_place(e, at, d, per_device);
    bh_v_binding_conditions(e, at, &d->binding_conditions, &d->binding_failure_conditions);
    mappings(e, BH_FP(at, "nodeAllocatableResourceMappings"), d);
}

static bool advanced(const struct bh_resource_v1_resource_slice_spec *s)
{
    for (size_t i = 0; i < s->devices.n; i++) {
        const struct bh_resource_v1_device *d = &s->devices.p[i];

        if (d->taints.n || d->consumes_counters.n)
            return true;
        for (size_t k = 0; k < d->attributes.n; k++) {
            const struct bh_resource_v1_device_attribute *v = &d->attributes.p[k].value;

            if (v->bools.p || v->ints.p || v->strings.p || v->versions.p)
                return true;
        }
    }
    return false;
}

static const struct bh_resource_v1_device *
find_device(const struct bh_resource_v1_resource_slice_spec *s, struct bh_str name)
{
    for (size_t i = 0; s && i < s->devices.n; i++)
        if (bh_str_eq(s->devices.p[i].name, name))
            return &s->devices.p[i];
    return NULL;
}

static void devices(struct bh_field_errs *e, const struct bh_fpath *at,
                    const struct bh_resource_v1_resource_slice_spec *s,
                    const struct bh_resource_v1_resource_slice_spec *old)
{
    bool per_device = s->has_per_device_node_selection && s->per_device_node_selection;
    const struct bh_resource_v1_device_vec *v = &s->devices;

    if (!bh_v_size(e, at, v->n, advanced(s) ? DEVICES_ADVANCED_MAX : DEVICES_MAX))
        return;
    for (size_t i = 0; i < v->n; i++)
        device(e, BH_FPI(at, i), &v->p[i], find_device(old, v->p[i].name), per_device);
    for (size_t i = 0; i < v->n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].name, v->p[i].name)) {
                bh_fe_duplicate(e, BH_FPI(at, i), v->p[i].name);
                break;
            }
}

/* ---- slices ---- */

static void pool(struct bh_field_errs *e, const struct bh_fpath *at,
                 const struct bh_resource_v1_resource_pool *p)
{
    bh_v_pool_name(e, BH_FP(at, "name"), p->name);
    if (p->resource_slice_count <= 0)
        bh_fe_invalid_i64(e, BH_FP(at, "resourceSliceCount"), p->resource_slice_count,
                          "must be greater than zero");
    if (p->generation < 0)
        bh_fe_invalid_i64(e, BH_FP(at, "generation"), p->generation,
                          "must be greater than or equal to zero");
}

static void slice_immutable(struct bh_field_errs *e, const struct bh_fpath *at,
                            const struct bh_resource_v1_resource_slice_spec *s,
                            const struct bh_resource_v1_resource_slice_spec *old)
{
    const struct bh_fpath *node = BH_FP(at, "nodeName");

    bh_v_immutable_str(e, BH_FP(BH_FP(at, "pool"), "name"), s->pool.name, old->pool.name);
    bh_v_immutable_str(e, BH_FP(at, "driver"), s->driver, old->driver);
    if (!s->has_node_name && old->has_node_name)
        bh_fe_invalid_text(e, node, BH_S("null"), BH_V_IMMUTABLE);
    else if (s->has_node_name && (!old->has_node_name || !bh_str_eq(s->node_name, old->node_name)))
        bh_fe_invalid(e, node, s->node_name, BH_V_IMMUTABLE);
}

static void slice_spec(struct bh_field_errs *e, const struct bh_resource_v1_resource_slice_spec *s,
                       const struct bh_resource_v1_resource_slice_spec *old)
{
    const struct bh_fpath *at = BH_FP(NULL, "spec");

    bh_v_driver_name(e, BH_FP(at, "driver"), s->driver);
    pool(e, BH_FP(at, "pool"), &s->pool);
    if (old)
        slice_immutable(e, at, s, old);
    slice_place(e, at, s);
    if (s->shared_counters.p && s->devices.p)
        bh_fe_invalid(e, at, BH_S(""), "only one of `sharedCounters` or `devices` is allowed");
    devices(e, BH_FP(at, "devices"), s, old);
    shared_counters(e, BH_FP(at, "sharedCounters"), &s->shared_counters);
}

void bh_v_slice_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_resource_v1_resource_slice *s = obj;

    (void)env;
    bh_v_meta(e, BH_FP(NULL, "metadata"), &s->metadata, false, bh_check_dns1123_subdomain,
              BH_VM_KUBE);
    slice_spec(e, &s->spec, NULL);
}

void bh_v_slice_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                       const void *prev, struct bh_field_errs *e)
{
    const struct bh_resource_v1_resource_slice *s = obj, *old = prev;

    (void)env;
    (void)sub;
    bh_v_meta_update(e, BH_FP(NULL, "metadata"), &s->metadata, &old->metadata, BH_VM_KUBE);
    slice_spec(e, &s->spec, &old->spec);
}

static bool gate_on(void *arg, struct bh_str name)
{
    const struct bh_rules_env *env = arg;

    return env->gate ? env->gate(env->arg, name) : bh_gate_default(name);
}

void bh_v_slice_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_resource_v1_resource_slice *s = obj;

    s->metadata.generation = 1;
    bh_msg_drop_gated(&bh_resource_v1_resource_slice_spec_type, &s->spec, NULL, gate_on,
                      (void *)(uintptr_t)env);
}

void bh_v_slice_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                               const void *prev)
{
    struct bh_resource_v1_resource_slice *s = obj;
    const struct bh_resource_v1_resource_slice *old = prev;

    (void)sub;
    /* Compared before fields are dropped, as upstream does. */
    if (!bh_msg_equal(&bh_resource_v1_resource_slice_spec_type, &s->spec, &old->spec))
        s->metadata.generation = old->metadata.generation + 1;
    bh_msg_drop_gated(&bh_resource_v1_resource_slice_spec_type, &s->spec, &old->spec, gate_on,
                      (void *)(uintptr_t)env);
}

void bh_v_slice_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                     const void *old, struct bh_str_vec *out)
{
    const struct bh_resource_v1_resource_slice *s = obj;
    struct bh_buf b = {.max = 4096};

    (void)sub;
    (void)old;
    if (bh_str_eq(s->spec.driver, bh_v_lower(env->a, s->spec.driver)))
        return;
    bh_go_quote(&b, s->spec.driver);
    bh_v_warn(env, out,
              "spec.driver: driver names should be lowercase; %.*s contains uppercase characters",
              BH_SF(bh_buf_str(&b)));
    bh_buf_done(&b);
}

/* ---- taint rules ---- */

static void rule_spec(struct bh_field_errs *e,
                      const struct bh_resource_v1beta2_device_taint_rule_spec *s,
                      const struct bh_resource_v1beta2_device_taint_rule_spec *old)
{
    const struct bh_fpath *at = BH_FP(NULL, "spec"), *sel = BH_FP(at, "deviceSelector");
    const struct bh_resource_v1beta2_device_taint_selector *d = s->device_selector;

    if (d && d->has_driver)
        bh_v_driver_name(e, BH_FP(sel, "driver"), d->driver);
    if (d && d->has_pool)
        bh_v_pool_name(e, BH_FP(sel, "pool"), d->pool);
    if (d && d->has_device)
        bh_v_check(e, BH_FP(sel, "device"), bh_check_dns1123_label, d->device);
    bh_v_device_taint(e, BH_FP(at, "taint"), s->taint.key, s->taint.value, s->taint.effect,
                      !old || !bh_str_eq(old->taint.effect, s->taint.effect));
}

void bh_v_rule_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_resource_v1beta2_device_taint_rule *r = obj;

    (void)env;
    bh_v_meta(e, BH_FP(NULL, "metadata"), &r->metadata, false, bh_check_dns1123_subdomain,
              BH_VM_KUBE);
    rule_spec(e, &r->spec, NULL);
}

void bh_v_rule_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                      const void *prev, struct bh_field_errs *e)
{
    const struct bh_resource_v1beta2_device_taint_rule *r = obj, *old = prev;
    const struct bh_fpath *conditions = BH_FP(BH_FP(NULL, "status"), "conditions");

    (void)env;
    bh_v_meta_update(e, BH_FP(NULL, "metadata"), &r->metadata, &old->metadata, BH_VM_KUBE);
    if (!bh_str_eqc(sub, "status")) {
        rule_spec(e, &r->spec, &old->spec);
        return;
    }
    bh_v_conditions(e, conditions, &r->status.conditions);
    if (r->status.conditions.n > BH_DRA_CONDITIONS_MAX)
        bh_fe_too_many(e, conditions, r->status.conditions.n, BH_DRA_CONDITIONS_MAX);
}

void bh_v_rule_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_resource_v1beta2_device_taint_rule *r = obj;

    (void)env;
    r->status = (struct bh_resource_v1beta2_device_taint_rule_status){0};
    r->metadata.generation = 1;
}

void bh_v_rule_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                              const void *prev)
{
    struct bh_resource_v1beta2_device_taint_rule *r = obj;
    const struct bh_resource_v1beta2_device_taint_rule *old = prev;

    if (bh_str_eqc(sub, "status")) {
        r->spec = old->spec;
        bh_v_reset_meta_for_status(&r->metadata, &old->metadata);
        return;
    }
    r->status = old->status;
    /* The time tells since when this effect holds, unless the client states another one. */
    if (!bh_str_eq(r->spec.taint.effect, old->spec.taint.effect) &&
        r->spec.taint.time_added.sec == old->spec.taint.time_added.sec) {
        r->spec.taint.time_added = env->now;
        r->spec.taint.time_added.nsec = 0;
    }
    if (!bh_msg_equal(&bh_resource_v1beta2_device_taint_rule_spec_type, &r->spec, &old->spec))
        r->metadata.generation = old->metadata.generation + 1;
}

void bh_v_rule_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                    const void *old, struct bh_str_vec *out)
{
    const struct bh_resource_v1beta2_device_taint_rule *r = obj;
    const struct bh_resource_v1beta2_device_taint_selector *s = r->spec.device_selector;
    const struct bh_str *yes =
        bh_str_map_get(&r->metadata.annotations, BH_S(BH_ANNOTATION_CONFIRM_ALL));

    (void)old;
    if (sub.n || !s || s->has_driver || s->has_pool || s->has_device ||
        !bh_str_eqc(r->spec.taint.effect, "NoExecute") || (yes && bh_str_eqc(*yes, "true")))
        return;
    bh_v_warn(env, out,
              "spec.deviceSelector: selects every device; nobody is evicted until the "
              "annotation " BH_ANNOTATION_CONFIRM_ALL
              " is \"true\" (kube-controller-manager evicts at once)");
}
