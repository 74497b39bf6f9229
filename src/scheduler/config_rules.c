/* Upstream's rules about the values of a configuration, with its paths and words. */
#include "api/engine.h"
#include "api/formats.h"
#include "data/json.h"
#include "data/time_fmt.h"
#include "scheduler/profile.h"

#define SCORE_MAX 10

struct rules {
    struct bh_arena *a;
    struct bh_field_errs errs;
};

static int64_t duration(struct bh_str s)
{
    int64_t ns;

    return s.n && bh_duration_parse(s, &ns, NULL) == 0 ? ns : 0;
}

static struct bh_str quoted_duration(struct bh_arena *a, struct bh_str s)
{
    char buf[64];

    return bh_str_fmt(a, "\"%.*s\"", BH_SF(bh_duration_fmt(duration(s), buf)));
}

static void positive_time(struct rules *r, const struct bh_fpath *at, struct bh_str s)
{
    if (duration(s) <= 0)
        bh_fe_invalid_text(&r->errs, at, quoted_duration(r->a, s), "must be greater than zero");
}

static void leader(struct rules *r,
                   const struct bh_kubescheduler_v1_leader_election_configuration *l)
{
    const struct bh_fpath *at = BH_FP(NULL, "leaderElection");

    if (!l->leader_elect)
        return;
    positive_time(r, BH_FP(at, "leaseDuration"), l->lease_duration);
    positive_time(r, BH_FP(at, "renewDeadline"), l->renew_deadline);
    positive_time(r, BH_FP(at, "retryPeriod"), l->retry_period);
    if (duration(l->lease_duration) <= duration(l->renew_deadline))
        bh_fe_invalid_text(&r->errs, BH_FP(at, "leaseDuration"),
                           quoted_duration(r->a, l->renew_deadline),
                           "must be greater than `RenewDeadline`");
    if (!bh_str_eqc(l->resource_lock, "leases"))
        bh_fe_invalid(&r->errs, BH_FP(at, "resourceLock"), l->resource_lock,
                      "resourceLock value must be \"leases\"");
}

static void percentage(struct rules *r, const struct bh_fpath *at, bool has, int32_t v)
{
    if (has && (v < 0 || v > 100))
        bh_fe_invalid_i64(&r->errs, at, v, "not in valid range [0-100]");
}

/* ---- arguments ---- */

static void preemption_args(struct rules *r, const struct bh_fpath *at,
                            const struct bh_kubescheduler_v1_default_preemption_args *p)
{
    const struct bh_fpath *percent = BH_FP(at, "minCandidateNodesPercentage");
    const struct bh_fpath *absolute = BH_FP(at, "minCandidateNodesAbsolute");
    int32_t pc = p->min_candidate_nodes_percentage, n = p->min_candidate_nodes_absolute;

    if (pc < 0 || pc > 100)
        bh_fe_invalid_i64(&r->errs, percent, pc, "not in valid range [0, 100]");
    if (n < 0)
        bh_fe_invalid_i64(&r->errs, absolute, n, "not in valid range [0, inf)");
    if (pc || n)
        return;
    bh_fe_invalid_i64(&r->errs, percent, pc,
                      "cannot be zero at the same time as minCandidateNodesAbsolute");
    bh_fe_invalid_i64(&r->errs, absolute, n,
                      "cannot be zero at the same time as minCandidateNodesPercentage");
}

static void label_name(struct rules *r, const struct bh_fpath *at, struct bh_str s)
{
    const char *why = bh_format_labelkey(s, r->a);

    if (why)
        bh_fe_invalid(&r->errs, at, s, "%s", why);
}

static struct bh_str json_list(struct bh_arena *a, const struct bh_str_vec *v)
{
    BH_AUTO_BUF b = {.max = 1u << 16};

    if (!v->n)
        return BH_S("null");
    for (size_t i = 0; i < v->n; i++) {
        bh_buf_addc(&b, i ? ',' : '[');
        bh_json_write_str(&b, v->p[i]);
    }
    bh_buf_addc(&b, ']');
    return bh_str_dup(a, bh_buf_str(&b));
}

static void label_requirement(struct rules *r, const struct bh_fpath *at,
                              const struct bh_core_v1_node_selector_requirement *q)
{
    static const struct bh_str ops[] = {BH_S_INIT("In"),     BH_S_INIT("NotIn"),
                                        BH_S_INIT("Exists"), BH_S_INIT("DoesNotExist"),
                                        BH_S_INIT("Gt"),     BH_S_INIT("Lt")};
    const struct bh_fpath *values = BH_FP(at, "values");
    size_t op = 0;
    int64_t number;

    while (op < BH_COUNT(ops) && !bh_str_eq(ops[op], q->operator))
        op++;
    if (op == BH_COUNT(ops)) {
        bh_fe_not_supported(&r->errs, BH_FP(at, "operator"), q->operator, ops, BH_COUNT(ops));
        return;
    }
    label_name(r, BH_FP(at, "key"), q->key);
    if (op < 2 && !q->values.n)
        bh_fe_invalid_text(&r->errs, values, json_list(r->a, &q->values),
                           "for 'in', 'notin' operators, values set can't be empty");
    else if ((op == 2 || op == 3) && q->values.n)
        bh_fe_invalid_text(&r->errs, values, json_list(r->a, &q->values),
                           "values set must be empty for exists and does not exist");
    else if (op > 3 && q->values.n != 1)
        bh_fe_invalid_text(&r->errs, values, json_list(r->a, &q->values),
                           "for 'Gt', 'Lt' operators, exactly one value is required");
    else if (op > 3 && !bh_str_i64(q->values.p[0], INT64_MIN, INT64_MAX, &number))
        bh_fe_invalid(&r->errs, BH_FPI(values, 0), q->values.p[0],
                      "for 'Gt', 'Lt' operators, the value must be an integer");
}

static void field_requirement(struct rules *r, const struct bh_fpath *at,
                              const struct bh_core_v1_node_selector_requirement *q)
{
    static const struct bh_str ops[] = {BH_S_INIT("In"), BH_S_INIT("NotIn")};

    if (!bh_str_eq(q->operator, ops[0]) && !bh_str_eq(q->operator, ops[1]))
        bh_fe_not_supported(&r->errs, BH_FP(at, "operator"), q->operator, ops, BH_COUNT(ops));
    else if (q->values.n != 1)
        bh_fe_invalid_text(&r->errs, BH_FP(at, "values"), json_list(r->a, &q->values),
                           "must have one element");
}

static void node_term(struct rules *r, const struct bh_fpath *at,
                      const struct bh_core_v1_node_selector_term *t)
{
    const struct bh_fpath *labels = BH_FP(at, "matchExpressions");
    const struct bh_fpath *fields = BH_FP(at, "matchFields");

    for (size_t i = 0; i < t->match_expressions.n; i++)
        label_requirement(r, BH_FPI(labels, i), &t->match_expressions.p[i]);
    for (size_t i = 0; i < t->match_fields.n; i++)
        field_requirement(r, BH_FPI(fields, i), &t->match_fields.p[i]);
}

static void node_args(struct rules *r, const struct bh_fpath *at,
                      const struct bh_kubescheduler_v1_node_affinity_args *n)
{
    const struct bh_fpath *in = BH_FP(at, "addedAffinity");
    const struct bh_fpath *hard =
        BH_FP(BH_FP(in, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms");
    const struct bh_fpath *soft = BH_FP(in, "preferredDuringSchedulingIgnoredDuringExecution");
    const struct bh_core_v1_node_affinity *af = n->added_affinity;
    const struct bh_core_v1_node_selector *req;

    if (!af)
        return;
    req = af->required_during_scheduling_ignored_during_execution;
    for (size_t i = 0; req && i < req->node_selector_terms.n; i++)
        node_term(r, BH_FPI(hard, i), &req->node_selector_terms.p[i]);
    for (size_t i = 0; i < af->preferred_during_scheduling_ignored_during_execution.n; i++)
        node_term(r, BH_FPI(soft, i),
                  &af->preferred_during_scheduling_ignored_during_execution.p[i].preference);
}

static void
balanced_args(struct rules *r, const struct bh_fpath *at,
              const struct bh_kubescheduler_v1_node_resources_balanced_allocation_args *b)
{
    const struct bh_fpath *list = BH_FP(at, "resources");

    for (size_t i = 0; i < b->resources.n; i++) {
        const struct bh_fpath *item = BH_FPI(list, i);

        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(b->resources.p[k].name, b->resources.p[i].name)) {
                bh_fe_duplicate(&r->errs, BH_FP(item, "name"), b->resources.p[i].name);
                break;
            }
        if (b->resources.p[i].weight != 1)
            bh_fe_invalid_i64(&r->errs, BH_FP(item, "weight"), b->resources.p[i].weight,
                              "must be 1");
    }
}

static void shape(struct rules *r, const struct bh_fpath *at,
                  const struct bh_kubescheduler_v1_utilization_shape_point_vec *v)
{
    if (!v->n)
        bh_fe_required(&r->errs, at, "at least one point must be specified");
    for (size_t i = 1; i < v->n; i++)
        if (v->p[i - 1].utilization >= v->p[i].utilization) {
            bh_fe_invalid_i64(&r->errs, BH_FP(BH_FPI(at, i), "utilization"), v->p[i].utilization,
                              "values must be sorted in increasing order");
            break;
        }
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_fpath *item = BH_FPI(at, i);

        if (v->p[i].utilization < 0 || v->p[i].utilization > 100)
            bh_fe_invalid_i64(&r->errs, BH_FP(item, "utilization"), v->p[i].utilization,
                              "not in valid range [0, 100]");
        if (v->p[i].score < 0 || v->p[i].score > SCORE_MAX)
            bh_fe_invalid_i64(&r->errs, BH_FP(item, "score"), v->p[i].score,
                              "not in valid range [0, %d]", SCORE_MAX);
    }
}

static void strategy(struct rules *r, const struct bh_fpath *at,
                     const struct bh_kubescheduler_v1_scoring_strategy *s)
{
    static const struct bh_str types[] = {BH_S_INIT("LeastAllocated"), BH_S_INIT("MostAllocated"),
                                          BH_S_INIT("RequestedToCapacityRatio")};
    const struct bh_fpath *list = BH_FP(at, "resources");
    const struct bh_fpath *ratio = BH_FP(at, "requestedToCapacityRatio");
    bool known = false;

    for (size_t i = 0; i < BH_COUNT(types); i++)
        known |= bh_str_eq(types[i], s->type);
    if (!known)
        bh_fe_not_supported(&r->errs, BH_FP(at, "type"), s->type, types, BH_COUNT(types));
    for (size_t i = 0; i < s->resources.n; i++)
        if (s->resources.p[i].weight <= 0 || s->resources.p[i].weight > 100)
            bh_fe_invalid_i64(&r->errs, BH_FP(BH_FPI(list, i), "weight"), s->resources.p[i].weight,
                              "resource weight of %.*s not in valid range (0, 100]",
                              BH_SF(s->resources.p[i].name));
    if (!bh_str_eqc(s->type, "RequestedToCapacityRatio")) {
        if (s->requested_to_capacity_ratio)
            bh_fe_forbidden(&r->errs, ratio,
                            "must be nil when type is not RequestedToCapacityRatio");
    } else if (!s->requested_to_capacity_ratio) {
        bh_fe_required(&r->errs, ratio, "must be specified when type is RequestedToCapacityRatio");
    } else {
        shape(r, BH_FP(ratio, "shape"), &s->requested_to_capacity_ratio->shape);
    }
}

static void fit_args(struct rules *r, const struct bh_kubescheduler_v1_node_resources_fit_args *f)
{
    const struct bh_fpath *names = BH_FP(NULL, "ignoredResources");
    const struct bh_fpath *groups = BH_FP(NULL, "ignoredResourceGroups");

    for (size_t i = 0; i < f->ignored_resources.n; i++)
        label_name(r, BH_FPI(names, i), f->ignored_resources.p[i]);
    for (size_t i = 0; i < f->ignored_resource_groups.n; i++) {
        struct bh_str g = f->ignored_resource_groups.p[i];

        if (bh_str_find(g, BH_S("/")) >= 0)
            bh_fe_invalid(&r->errs, BH_FPI(groups, i), g, "resource group name can't contain '/'");
        label_name(r, BH_FPI(groups, i), g);
    }
    strategy(r, BH_FP(NULL, "scoringStrategy"), f->scoring_strategy);
}

static void spread_constraint(struct rules *r, const struct bh_fpath *list, size_t i,
                              const struct bh_core_v1_topology_spread_constraint_vec *v)
{
    static const struct bh_str actions[] = {BH_S_INIT("DoNotSchedule"),
                                            BH_S_INIT("ScheduleAnyway")};
    const struct bh_core_v1_topology_spread_constraint *c = &v->p[i];
    const struct bh_fpath *at = BH_FPI(list, i);

    if (c->max_skew <= 0)
        bh_fe_invalid_i64(&r->errs, BH_FP(at, "maxSkew"), c->max_skew,
                          "not in valid range (0, inf)");
    if (!c->topology_key.n)
        bh_fe_required(&r->errs, BH_FP(at, "topologyKey"), "can not be empty");
    else
        label_name(r, BH_FP(at, "topologyKey"), c->topology_key);
    if (!c->when_unsatisfiable.n)
        bh_fe_required(&r->errs, BH_FP(at, "whenUnsatisfiable"), "can not be empty");
    else if (!bh_str_eq(c->when_unsatisfiable, actions[0]) &&
             !bh_str_eq(c->when_unsatisfiable, actions[1]))
        bh_fe_not_supported(&r->errs, BH_FP(at, "whenUnsatisfiable"), c->when_unsatisfiable,
                            actions, BH_COUNT(actions));
    if (c->label_selector)
        bh_fe_forbidden(&r->errs, BH_FP(at, "labelSelector"),
                        "constraint must not define a selector, as they deduced for each pod");
    for (size_t k = 0; k < i; k++)
        if (bh_str_eq(v->p[k].topology_key, c->topology_key) &&
            bh_str_eq(v->p[k].when_unsatisfiable, c->when_unsatisfiable)) {
            bh_fe_duplicate(&r->errs, at,
                            bh_str_fmt(r->a, "{%.*s, %.*s}", BH_SF(c->topology_key),
                                       BH_SF(c->when_unsatisfiable)));
            break;
        }
}

static void spread_args(struct rules *r, const struct bh_fpath *at,
                        const struct bh_kubescheduler_v1_pod_topology_spread_args *s)
{
    static const struct bh_str types[] = {BH_S_INIT("System"), BH_S_INIT("List")};
    const struct bh_fpath *type = BH_FP(at, "defaultingType");
    const struct bh_fpath *list = BH_FP(at, "defaultConstraints");

    if (!bh_str_eq(s->defaulting_type, types[0]) && !bh_str_eq(s->defaulting_type, types[1]))
        bh_fe_not_supported(&r->errs, type, s->defaulting_type, types, BH_COUNT(types));
    else if (bh_str_eq(s->defaulting_type, types[0]) && s->default_constraints.n)
        bh_fe_invalid(&r->errs, type, s->defaulting_type, "when .defaultConstraints are not empty");
    for (size_t i = 0; i < s->default_constraints.n; i++)
        spread_constraint(r, list, i, &s->default_constraints);
}

static void device_args(struct rules *r, const struct bh_fpath *at,
                        const struct bh_kubescheduler_v1_dynamic_resources_args *d)
{
    if (duration(d->filter_timeout) < 0)
        bh_fe_invalid_text(&r->errs, BH_FP(at, "filterTimeout"),
                           quoted_duration(r->a, d->filter_timeout), "must be zero or positive");
    if (duration(d->binding_timeout) < 1000000000)
        bh_fe_invalid_text(&r->errs, BH_FP(at, "bindingTimeout"),
                           quoted_duration(r->a, d->binding_timeout), "must be at least 1 second");
}

static void volume_args(struct rules *r, const struct bh_fpath *at,
                        const struct bh_kubescheduler_v1_volume_binding_args *v)
{
    BH_AUTO_BUF b = {.max = 1u << 16};

    if (v->bind_timeout_seconds < 0)
        bh_fe_invalid_i64(&r->errs, BH_FP(at, "bindTimeoutSeconds"), v->bind_timeout_seconds,
                          "invalid BindTimeoutSeconds, should not be a negative value");
    if (!v->shape.p)
        return;
    for (size_t i = 0; i < v->shape.n; i++)
        bh_buf_addf(&b, "%s{\"Utilization\":%d,\"Score\":%d}", i ? "," : "",
                    v->shape.p[i].utilization, v->shape.p[i].score);
    bh_fe_invalid_text(&r->errs, BH_FP(at, "shape"),
                       bh_str_fmt(r->a, "[%.*s]", BH_SF(bh_buf_str(&b))),
                       "unexpected field `shape`, remove it or turn on the feature gate "
                       "StorageCapacityScoring");
}

/* ---- profiles ---- */

/* Plugins that were removed before this version of the format. */
static bool removed(struct bh_str name)
{
    static const char *const gone[] = {"AzureDiskLimits", "CinderLimits", "EBSLimits",
                                       "GCEPDLimits"};

    for (size_t i = 0; i < BH_COUNT(gone); i++)
        if (bh_str_eqc(name, gone[i]))
            return true;
    return false;
}

static void refuse_removed(struct rules *r, const struct bh_fpath *at, struct bh_str name)
{
    bh_fe_invalid(&r->errs, at, name,
                  "was invalid in version \"v1\" (KubeSchedulerConfiguration is version "
                  "\"kubescheduler.config.k8s.io/v1\")");
}

static void plugin_sets(struct rules *r, const struct bh_fpath *at,
                        const struct bh_kubescheduler_v1_plugins *p)
{
    const struct {
        const char *name;
        const struct bh_kubescheduler_v1_plugin_set *set;
    } sets[] = {{"preEnqueue", &p->pre_enqueue},
                {"queueSort", &p->queue_sort},
                {"preFilter", &p->pre_filter},
                {"filter", &p->filter},
                {"postFilter", &p->post_filter},
                {"preScore", &p->pre_score},
                {"score", &p->score},
                {"reserve", &p->reserve},
                {"permit", &p->permit},
                {"preBind", &p->pre_bind},
                {"bind", &p->bind},
                {"postBind", &p->post_bind}};

    for (size_t i = 0; i < BH_COUNT(sets); i++) {
        const struct bh_fpath *enabled = BH_FP(BH_FPS(at, bh_s(sets[i].name)), "enabled");

        for (size_t k = 0; k < sets[i].set->enabled.n; k++)
            if (removed(sets[i].set->enabled.p[k].name))
                refuse_removed(r, BH_FPI(enabled, k), sets[i].set->enabled.p[k].name);
    }
}

static void one_args(struct rules *r, const struct bh_fpath *at, struct bh_str name,
                     const struct plugin_args *args)
{
    if (bh_str_eqc(name, "DefaultPreemption"))
        preemption_args(r, at, args->preemption);
    else if (bh_str_eqc(name, "InterPodAffinity")) {
        int32_t w = args->pods->hard_pod_affinity_weight;

        if (w < 0 || w > 100)
            bh_fe_invalid_i64(&r->errs, BH_FP(at, "hardPodAffinityWeight"), w,
                              "not in valid range [0, 100]");
    } else if (bh_str_eqc(name, "NodeAffinity"))
        node_args(r, at, args->nodes);
    else if (bh_str_eqc(name, "NodeResourcesBalancedAllocation"))
        balanced_args(r, at, args->balanced);
    else if (bh_str_eqc(name, "PodTopologySpread"))
        spread_args(r, at, args->spread);
    else if (bh_str_eqc(name, "VolumeBinding"))
        volume_args(r, at, args->volumes);
    else if (bh_str_eqc(name, "DynamicResources"))
        device_args(r, at, args->devices);
}

static int profile(struct rules *r, const struct bh_fpath *at,
                   const struct bh_kubescheduler_v1_kube_scheduler_profile *p, size_t i,
                   struct bh_err *err)
{
    const struct bh_fpath *configs = BH_FP(at, "pluginConfig");
    struct plugin_args args;
    int rc;

    if (!p->scheduler_name.n)
        bh_fe_required(&r->errs, BH_FP(at, "schedulerName"), NULL);
    percentage(r, BH_FP(at, "percentageOfNodesToScore"), p->has_percentage_of_nodes_to_score,
               p->percentage_of_nodes_to_score);
    if (p->plugins)
        plugin_sets(r, BH_FP(at, "plugins"), p->plugins);
    if ((rc = sched_args_read(p, i, r->a, &args, NULL, err)) < 0)
        return rc;
    for (size_t k = 0; k < p->plugin_config.n; k++) {
        struct bh_str name = p->plugin_config.p[k].name;
        const struct bh_fpath *item = BH_FPI(configs, k);

        for (size_t j = 0; j < k; j++)
            if (bh_str_eq(p->plugin_config.p[j].name, name)) {
                bh_fe_duplicate(&r->errs, item, name);
                break;
            }
        if (removed(name))
            refuse_removed(r, item, name);
        else
            one_args(r, BH_FP(item, "args"), name, &args);
    }
    return 0;
}

static size_t sorters(const struct bh_kubescheduler_v1_kube_scheduler_profile *p)
{
    return p->plugins ? p->plugins->queue_sort.enabled.n : 0;
}

/* One queue serves all profiles. */
static void queue_sort(struct rules *r,
                       const struct bh_kubescheduler_v1_kube_scheduler_configuration *c)
{
    const struct bh_fpath *at = BH_FP(NULL, "profiles");

    for (size_t i = 0; i < c->profiles.n; i++) {
        const struct bh_fpath *sort = BH_FP(BH_FP(BH_FPI(at, i), "plugins"), "queueSort");

        if (i == 0 && sorters(&c->profiles.p[0]) > 1)
            bh_fe_invalid_i64(&r->errs, BH_FP(sort, "Enabled"), (int64_t)sorters(&c->profiles.p[0]),
                              "only one queue sort plugin can be enabled");
        if (i > 0 && sorters(&c->profiles.p[i]) != sorters(&c->profiles.p[0]))
            bh_fe_invalid_text(&r->errs, sort, BH_S("{}"), "must be the same for all profiles");
    }
}

static int profiles(struct rules *r,
                    const struct bh_kubescheduler_v1_kube_scheduler_configuration *c,
                    struct bh_err *err)
{
    const struct bh_fpath *at = BH_FP(NULL, "profiles");
    int rc;

    for (size_t i = 0; i < c->profiles.n; i++) {
        const struct bh_fpath *item = BH_FPI(at, i);

        if ((rc = profile(r, item, &c->profiles.p[i], i, err)) < 0)
            return rc;
        for (size_t k = i; k-- > 0;)
            if (bh_str_eq(c->profiles.p[k].scheduler_name, c->profiles.p[i].scheduler_name)) {
                bh_fe_duplicate_text(&r->errs, BH_FP(item, "schedulerName"), BH_S("{}"));
                break;
            }
    }
    queue_sort(r, c);
    return 0;
}

static void extenders(struct rules *r, const struct bh_kubescheduler_v1_extender_vec *v)
{
    const struct bh_fpath *at = BH_FP(NULL, "extenders");

    /* Ours: none is called, so none may be asked for. */
    if (v->n)
        bh_fe_forbidden(&r->errs, at, "extenders are not supported");
}

int sched_config_validate(struct bh_arena *a,
                          struct bh_kubescheduler_v1_kube_scheduler_configuration *c,
                          struct bh_err *err)
{
    BH_AUTO_BUF text = {.max = 64u << 10};
    struct rules r = {.a = a, .errs = {.a = a}};
    int rc;

    if (c->client_connection.burst < 0)
        bh_fe_invalid_i64(&r.errs, BH_FP(BH_FP(NULL, "clientConnection"), "burst"),
                          c->client_connection.burst, "must be non-negative");
    leader(&r, &c->leader_election);
    if (c->parallelism <= 0)
        bh_fe_invalid_i64(&r.errs, BH_FP(NULL, "parallelism"), c->parallelism,
                          "should be an integer value greater than zero");
    if ((rc = profiles(&r, c, err)) < 0)
        return rc;
    percentage(&r, BH_FP(NULL, "percentageOfNodesToScore"), true, c->percentage_of_nodes_to_score);
    if (c->pod_initial_backoff_seconds <= 0)
        bh_fe_invalid_i64(&r.errs, BH_FP(NULL, "podInitialBackoffSeconds"),
                          c->pod_initial_backoff_seconds, "must be greater than 0");
    if (c->pod_max_backoff_seconds < c->pod_initial_backoff_seconds)
        bh_fe_invalid_i64(&r.errs, BH_FP(NULL, "podMaxBackoffSeconds"), c->pod_max_backoff_seconds,
                          "must be greater than or equal to PodInitialBackoffSeconds");
    extenders(&r, &c->extenders);
    for (size_t i = 0; !r.errs.n && i < c->profiles.n; i++) {
        struct plugin_args args;

        if ((rc = sched_args_read(&c->profiles.p[i], i, a, &args, NULL, err)) < 0)
            return rc;
        fit_args(&r, args.fit);
        if (!r.errs.n)
            continue;
        bh_ferrs_message(&r.errs, &text);
        return bh_err_set(err, BH_E_INVALID,
                          "initializing profiles: creating profile for scheduler name %.*s: "
                          "initializing plugin \"NodeResourcesFit\": %.*s",
                          BH_SF(c->profiles.p[i].scheduler_name), BH_SF(bh_buf_str(&text)));
    }
    if (!r.errs.n)
        return 0;
    bh_ferrs_message(&r.errs, &text);
    return bh_err_set(err, BH_E_INVALID, "%.*s", BH_SF(bh_buf_str(&text)));
}
