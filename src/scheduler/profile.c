/* What a profile's plugin sets amount to: which plugins run at which point, in which order, with
 * which weight. The merging of defaults, multiPoint and single points is upstream's. */
#include <string.h>

#include "base/arena.h"
#include "data/time_fmt.h"
#include "scheduler/profile.h"

#define BIT(x)          (1u << (x))
#define WEIGHTS_MAX     ((int64_t)1 << 48) /* sums of scores stay far inside int64 */
#define SCORE_OF_PLUGIN 100

#define PREFILTERED (BIT(PT_PRE_FILTER) | BIT(PT_FILTER))
#define SCORED      (BIT(PT_PRE_SCORE) | BIT(PT_SCORE))

/* Name, the points that the plugin has something for, and the weight it has by default. */
static const struct {
    const char *name;
    uint32_t points;
    int32_t weight;
} plugins[PL__MAX] = {
    [PL_NONE] = {"", 0, 0},
    [PL_GATES] = {"SchedulingGates", BIT(PT_PRE_ENQUEUE), 0},
    [PL_SORT] = {"PrioritySort", BIT(PT_QUEUE_SORT), 0},
    [PL_NODE_UNSCHEDULABLE] = {"NodeUnschedulable", BIT(PT_FILTER), 0},
    [PL_NODE_NAME] = {"NodeName", BIT(PT_FILTER), 0},
    [PL_TAINT_TOLERATION] = {"TaintToleration", BIT(PT_FILTER) | SCORED, 3},
    [PL_NODE_AFFINITY] = {"NodeAffinity", PREFILTERED | SCORED, 2},
    [PL_NODE_PORTS] = {"NodePorts", PREFILTERED, 0},
    [PL_RESOURCES_FIT] = {"NodeResourcesFit", PREFILTERED | SCORED | BIT(PT_PLACEMENT_SCORE), 1},
    [PL_VOLUME_RESTRICTIONS] = {"VolumeRestrictions", PREFILTERED, 0},
    [PL_NODE_VOLUME_LIMITS] = {"NodeVolumeLimits", PREFILTERED, 0},
    [PL_VOLUME_BINDING] = {"VolumeBinding",
                           PREFILTERED | SCORED | BIT(PT_RESERVE) | BIT(PT_PRE_BIND), 0},
    [PL_VOLUME_ZONE] = {"VolumeZone", PREFILTERED, 0},
    [PL_TOPOLOGY_SPREAD] = {"PodTopologySpread", PREFILTERED | SCORED, 2},
    [PL_INTER_POD_AFFINITY] = {"InterPodAffinity", PREFILTERED | SCORED, 2},
    [PL_DYNAMIC_RESOURCES] = {"DynamicResources",
                              PREFILTERED | BIT(PT_PRE_ENQUEUE) | BIT(PT_POST_FILTER) |
                                  BIT(PT_SCORE) | BIT(PT_RESERVE) | BIT(PT_PRE_BIND),
                              2},
    [PL_PREEMPTION] = {"DefaultPreemption", BIT(PT_PRE_ENQUEUE) | BIT(PT_POST_FILTER), 0},
    [PL_BALANCED] = {"NodeResourcesBalancedAllocation", SCORED, 1},
    [PL_IMAGES] = {"ImageLocality", BIT(PT_SCORE), 1},
    [PL_BINDER] = {"DefaultBinder", BIT(PT_BIND), 0},
    [PL_NODE_FEATURES] = {"NodeDeclaredFeatures", PREFILTERED, 0},
    [PL_GANG] = {"GangScheduling", BIT(PT_PRE_ENQUEUE) | BIT(PT_PERMIT), 0},
};

static const char *const point_types[PT__MAX] = {
    [PT_PRE_FILTER] = "PreFilterPlugin",
    [PT_FILTER] = "FilterPlugin",
    [PT_POST_FILTER] = "PostFilterPlugin",
    [PT_RESERVE] = "ReservePlugin",
    [PT_PRE_SCORE] = "PreScorePlugin",
    [PT_SCORE] = "ScorePlugin",
    [PT_PRE_BIND] = "PreBindPlugin",
    [PT_BIND] = "BindPlugin",
    [PT_POST_BIND] = "PostBindPlugin",
    [PT_PERMIT] = "PermitPlugin",
    [PT_PRE_ENQUEUE] = "PreEnqueuePlugin",
    [PT_QUEUE_SORT] = "QueueSortPlugin",
    [PT_PLACEMENT_GENERATE] = "PlacementGeneratePlugin",
    [PT_PLACEMENT_SCORE] = "PlacementScorePlugin",
};

const char *sched_plugin_name(enum plugin pl)
{
    return plugins[pl].name;
}

static enum plugin plugin_named(struct bh_str name)
{
    for (int i = PL_NONE + 1; i < PL__MAX; i++)
        if (bh_str_eqc(name, plugins[i].name))
            return (enum plugin)i;
    return PL_NONE;
}

/* ---- sets ---- */

struct entry {
    struct bh_str name;
    int32_t weight;
};
struct entries {
    struct entry *p;
    size_t n;
};

static bool names(const struct bh_kubescheduler_v1_plugin_vec *v, struct bh_str name)
{
    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i].name, name))
            return true;
    return false;
}

/* The last one of that name. */
static const struct bh_kubescheduler_v1_plugin *find(const struct bh_kubescheduler_v1_plugin_vec *v,
                                                     struct bh_str name)
{
    for (size_t i = v->n; i-- > 0;)
        if (bh_str_eq(v->p[i].name, name))
            return &v->p[i];
    return NULL;
}

static bool has(const struct entries *e, struct bh_str name)
{
    for (size_t i = 0; i < e->n; i++)
        if (bh_str_eq(e->p[i].name, name))
            return true;
    return false;
}

/* The default plugins with those of the profile: in place where they are configured anew, behind
 * the others where not. */
static struct entries multi_point(struct bh_arena *a,
                                  const struct bh_kubescheduler_v1_plugin_set *s)
{
    struct entries e = {bh_new_n(a, struct entry, PL__MAX + s->enabled.n), 0};
    size_t defaults;

    for (int i = PL_NONE + 1; i < PL__MAX && !names(&s->disabled, BH_S("*")); i++) {
        struct bh_str name = bh_s(plugins[i].name);
        const struct bh_kubescheduler_v1_plugin *own = find(&s->enabled, name);

        if (names(&s->disabled, name))
            continue;
        e.p[e.n++] = (struct entry){name, own ? own->weight : plugins[i].weight};
    }
    defaults = e.n;
    for (size_t i = 0; i < s->enabled.n; i++) {
        struct entries first = {e.p, defaults};

        /* What stands there twice is added, and found to be there already. */
        if (!has(&first, s->enabled.p[i].name) ||
            find(&s->enabled, s->enabled.p[i].name) != &s->enabled.p[i])
            e.p[e.n++] = (struct entry){s->enabled.p[i].name, s->enabled.p[i].weight};
    }
    return e;
}

static int add(struct sched_profile *p, enum point pt, enum plugin pl, struct bh_err *err)
{
    if (p->on[pt] & BIT(pl))
        return bh_err_set(err, BH_E_INVALID, "plugin \"%s\" already registered as \"%s\"",
                          plugins[pl].name, point_types[pt]);
    p->on[pt] |= BIT(pl);
    p->run[pt].p[p->run[pt].n++] = (uint8_t)pl;
    return 0;
}

/* What is enabled at this very point must exist and fit. */
static int check_own(const struct bh_kubescheduler_v1_plugin_set *own, enum point pt,
                     struct bh_err *err)
{
    for (size_t i = 0; i < own->enabled.n; i++) {
        struct bh_str name = own->enabled.p[i].name;
        enum plugin pl = plugin_named(name);

        if (pl == PL_NONE)
            return bh_err_set(err, BH_E_INVALID, "%s \"%.*s\" does not exist", point_types[pt],
                              BH_SF(name));
        if (!(plugins[pl].points & BIT(pt)))
            return bh_err_set(err, BH_E_INVALID, "plugin \"%.*s\" does not extend %s plugin",
                              BH_SF(name), point_types[pt]);
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(own->enabled.p[k].name, name))
                return bh_err_set(err, BH_E_INVALID, "plugin \"%.*s\" already registered as \"%s\"",
                                  BH_SF(name), point_types[pt]);
    }
    return 0;
}

static int weigh(struct sched_profile *p, enum plugin pl, int32_t weight, int64_t *sum,
                 struct bh_err *err)
{
    if (!(plugins[pl].points & BIT(PT_SCORE)) || p->weight[pl])
        return 0;
    p->weight[pl] = weight ? weight : 1;
    *sum += p->weight[pl] * SCORE_OF_PLUGIN;
    if (p->weight[pl] < 0 || *sum > WEIGHTS_MAX)
        return bh_err_set(err, BH_E_INVALID,
                          "score plugins: total score of Score plugins could overflow");
    return 0;
}

/* Own ones that multiPoint has, too, come first; then those of multiPoint; then the other own. */
static int one_point(struct sched_profile *p, enum point pt,
                     const struct bh_kubescheduler_v1_plugin_set *own, const struct entries *multi,
                     struct bh_err *err)
{
    bool all_off = names(&own->disabled, BH_S("*"));
    int r;

    for (size_t i = 0; i < own->enabled.n; i++)
        if (!all_off && has(multi, own->enabled.p[i].name) &&
            !names(&own->disabled, own->enabled.p[i].name) &&
            (r = add(p, pt, plugin_named(own->enabled.p[i].name), err)) < 0)
            return r;
    for (size_t i = 0; i < multi->n && !all_off; i++) {
        enum plugin pl = plugin_named(multi->p[i].name);

        if (pl == PL_NONE)
            return bh_err_set(err, BH_E_INVALID, "%s \"%.*s\" does not exist", point_types[pt],
                              BH_SF(multi->p[i].name));
        if (!(plugins[pl].points & BIT(pt)) || names(&own->disabled, multi->p[i].name) ||
            names(&own->enabled, multi->p[i].name))
            continue;
        if ((r = add(p, pt, pl, err)) < 0)
            return r;
    }
    for (size_t i = 0; i < own->enabled.n; i++) {
        enum plugin pl = plugin_named(own->enabled.p[i].name);

        if (!(p->on[pt] & BIT(pl)) && (r = add(p, pt, pl, err)) < 0)
            return r;
    }
    return 0;
}

static const struct bh_kubescheduler_v1_plugin_set *
set_at(const struct bh_kubescheduler_v1_plugins *p, enum point pt)
{
    switch (pt) {
    case PT_PRE_FILTER:
        return &p->pre_filter;
    case PT_FILTER:
        return &p->filter;
    case PT_POST_FILTER:
        return &p->post_filter;
    case PT_RESERVE:
        return &p->reserve;
    case PT_PRE_SCORE:
        return &p->pre_score;
    case PT_SCORE:
        return &p->score;
    case PT_PRE_BIND:
        return &p->pre_bind;
    case PT_BIND:
        return &p->bind;
    case PT_POST_BIND:
        return &p->post_bind;
    case PT_PERMIT:
        return &p->permit;
    case PT_PRE_ENQUEUE:
        return &p->pre_enqueue;
    case PT_QUEUE_SORT:
        return &p->queue_sort;
    case PT_PLACEMENT_GENERATE:
        return &p->placement_generate;
    case PT_PLACEMENT_SCORE:
    case PT__MAX:
        break;
    }
    return &p->placement_score;
}

static int plugin_points(struct sched_profile *p, const struct bh_kubescheduler_v1_plugins *sets,
                         struct bh_arena *a, struct bh_err *err)
{
    struct entries multi = multi_point(a, &sets->multi_point);
    int64_t sum = 0;
    int r;

    for (int pt = 0; pt < PT__MAX; pt++)
        if ((r = check_own(set_at(sets, (enum point)pt), (enum point)pt, err)) < 0)
            return r;
    for (int pt = 0; pt < PT__MAX; pt++)
        if ((r = one_point(p, (enum point)pt, set_at(sets, (enum point)pt), &multi, err)) < 0)
            return r;
    if (p->run[PT_QUEUE_SORT].n != 1)
        return bh_err_set(err, BH_E_INVALID,
                          "only one queue sort plugin required for profile with scheduler name "
                          "\"%.*s\", but got %u",
                          BH_SF(p->name), p->run[PT_QUEUE_SORT].n);
    if (!p->run[PT_BIND].n)
        return bh_err_set(err, BH_E_INVALID,
                          "at least one bind plugin is needed for profile with scheduler name "
                          "\"%.*s\"",
                          BH_SF(p->name));
    for (size_t i = 0; i < sets->score.enabled.n; i++)
        if ((r = weigh(p, plugin_named(sets->score.enabled.p[i].name),
                       sets->score.enabled.p[i].weight, &sum, err)) < 0)
            return r;
    for (size_t i = 0; i < multi.n; i++)
        if ((r = weigh(p, plugin_named(multi.p[i].name), multi.p[i].weight, &sum, err)) < 0)
            return r;
    for (int i = 0; i < PL__MAX; i++)
        if (!(p->on[PT_SCORE] & BIT(i)))
            p->weight[i] = 0;
    return 0;
}

/* ---- arguments ---- */

static struct res_weights weights(struct bh_arena *a,
                                  const struct bh_kubescheduler_v1_resource_spec_vec *v)
{
    struct res_weights w = {bh_new_n(a, struct res_weight, v->n), v->n, false};

    for (size_t i = 0; i < v->n; i++)
        w.p[i] = (struct res_weight){.name = v->p[i].name, .weight = v->p[i].weight};
    w.plain = w.n == 2 && bh_str_eqc(w.p[0].name, "cpu") && bh_str_eqc(w.p[1].name, "memory") &&
              w.p[0].weight == 1 && w.p[1].weight == 1;
    return w;
}

static void take_args(struct sched_profile *p, const struct plugin_args *args, struct bh_arena *a)
{
    const struct bh_kubescheduler_v1_scoring_strategy *s = args->fit->scoring_strategy;
    int64_t ns = 0;

    p->fit = weights(a, &s->resources);
    p->balanced = weights(a, &args->balanced->resources);
    p->strategy = FIT_LEAST;
    if (bh_str_eqc(s->type, "MostAllocated"))
        p->strategy = FIT_MOST;
    if (bh_str_eqc(s->type, "RequestedToCapacityRatio")) {
        p->strategy = FIT_RATIO;
        p->shape = &s->requested_to_capacity_ratio->shape;
    }
    p->ignored = args->fit->ignored_resources;
    p->ignored_groups = args->fit->ignored_resource_groups;
    p->hard_affinity_weight = args->pods->hard_pod_affinity_weight;
    p->ignore_existing_preferred = args->pods->ignore_preferred_terms_of_existing_pods;
    p->added_affinity = args->nodes->added_affinity;
    if (bh_str_eqc(args->spread->defaulting_type, "List"))
        p->default_spread = &args->spread->default_constraints;
    p->preempt_percentage = args->preemption->min_candidate_nodes_percentage;
    p->preempt_min = args->preemption->min_candidate_nodes_absolute;
    if (bh_duration_parse(args->devices->binding_timeout, &ns, NULL) == 0)
        p->binding_timeout_s = ns / 1000000000;
    p->volume_bind_timeout_s = args->volumes->bind_timeout_seconds;
}

/* Filters that are on in upstream's order need no list to run by. */
static bool standard(const struct sched_profile *p)
{
    const struct point_plugins *f = &p->run[PT_FILTER];
    uint8_t n = 0;

    for (int i = 0; i < PL__MAX; i++)
        if (plugins[i].points & BIT(PT_FILTER)) {
            if (n >= f->n || f->p[n] != i)
                return false;
            n++;
        }
    return n == f->n;
}

static int build(struct bh_scheduler_config *cfg, size_t i, struct bh_err *err)
{
    static const struct bh_kubescheduler_v1_plugins none;
    const struct bh_kubescheduler_v1_kube_scheduler_profile *in = &cfg->c->profiles.p[i];
    struct sched_profile *p = &cfg->profiles[i];
    struct plugin_args args;
    int r;

    p->name = in->scheduler_name;
    p->percentage = in->has_percentage_of_nodes_to_score ? in->percentage_of_nodes_to_score
                                                         : cfg->c->percentage_of_nodes_to_score;
    if ((r = sched_args_read(in, i, cfg->arena, &args, NULL, err)) < 0)
        return r;
    take_args(p, &args, cfg->arena);
    if ((r = plugin_points(p, in->plugins ? in->plugins : &none, cfg->arena, err)) < 0)
        return r;
    p->standard = standard(p);
    return 0;
}

int sched_profiles_build(struct bh_scheduler_config *cfg, struct bh_err *err)
{
    cfg->profiles_n = cfg->c->profiles.n;
    cfg->profiles = bh_new_n(cfg->arena, struct sched_profile, cfg->profiles_n);
    for (size_t i = 0; i < cfg->profiles_n; i++) {
        if (build(cfg, i, err) < 0) {
            struct bh_err why = *err;

            return bh_err_set(err, BH_E_INVALID,
                              "initializing profiles: creating profile for scheduler name %.*s: "
                              "%s",
                              BH_SF(cfg->profiles[i].name), why.msg);
        }
    }
    return 0;
}
