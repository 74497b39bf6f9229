/* The configuration file: decoding, strictly, and what is not said. Upstream's rules about the
 * values are in config_rules.c. */
#include <string.h>

#include "api/engine.h"
#include "base/fs.h"
#include "data/json.h"
#include "data/time_fmt.h"
#include "data/yaml.h"
#include "scheduler/profile.h"

#define API_VERSION    "kubescheduler.config.k8s.io/v1"
#define CONFIG_MAX     (1u << 20)
#define TIMES_DEFAULTS 3

/* ---- text to struct ---- */

/* YAML or JSON becomes JSON; *ret_dups gets what upstream says of keys that stand twice. */
static int to_json(struct bh_arena *a, struct bh_str text, struct bh_str *ret,
                   struct bh_str *ret_dups, struct bh_err *err)
{
    BH_AUTO_BUF out = {.max = 4 * CONFIG_MAX};
    struct bh_yaml_dups dups = {0};
    struct bh_jv v;
    size_t i = 0;
    int r;

    *ret_dups = (struct bh_str){NULL, 0};
    while (i < text.n &&
           (text.p[i] == ' ' || text.p[i] == '\n' || text.p[i] == '\t' || text.p[i] == '\r'))
        i++;
    if (i < text.n && text.p[i] == '{') {
        *ret = text;
        return 0;
    }
    if ((r = bh_yaml_parse(a, text, &dups, &v, err)) < 0)
        return r;
    if (dups.lines.n) {
        BH_AUTO_BUF b = {.max = CONFIG_MAX};

        bh_buf_addz(&b, "yaml: unmarshal errors:");
        for (size_t k = 0; k < dups.lines.n; k++)
            bh_buf_addf(&b, "\n  %.*s", BH_SF(dups.lines.p[k]));
        *ret_dups = bh_str_dup(a, bh_buf_str(&b));
    }
    bh_jv_write(&out, &v, 0);
    *ret = bh_str_dup(a, bh_buf_str(&out));
    return 0;
}

static int check_kind(struct bh_str json, struct bh_str text, struct bh_arena *a,
                      struct bh_err *err)
{
    struct bh_str version, kind;
    int r;

    if ((r = bh_json_peek_kind(json, a, &version, &kind, err)) < 0)
        return r;
    if (!kind.n)
        return bh_err_set(err, BH_E_INVALID, "Object 'Kind' is missing in '%.*s'",
                          (int)(text.n < 200 ? text.n : 200), text.p);
    if (!version.n)
        return bh_err_set(err, BH_E_INVALID, "Object 'apiVersion' is missing in '%.*s'",
                          (int)(text.n < 200 ? text.n : 200), text.p);
    if (!bh_str_eqc(version, API_VERSION) || !bh_str_eqc(kind, "KubeSchedulerConfiguration"))
        return bh_err_set(err, BH_E_INVALID,
                          "no kind \"%.*s\" is registered for version \"%.*s\" in the scheduler's "
                          "scheme (want KubeSchedulerConfiguration of " API_VERSION ")",
                          BH_SF(kind), BH_SF(version));
    return 0;
}

/* ---- durations ---- */

/* They are strings to the schema, and upstream fails while it decodes them. */
static int check_durations(const struct bh_str *list, size_t n, struct bh_err *err)
{
    for (size_t i = 0; i < n; i++) {
        int64_t ns;
        int r;

        if (list[i].n && (r = bh_duration_parse(list[i], &ns, err)) < 0)
            return r;
    }
    return 0;
}

/* ---- plugin arguments ---- */

static const struct {
    const char *plugin;
    const struct bh_type *type;
    size_t at; /* in struct plugin_args */
} args_of[] = {
    {"DefaultPreemption", &bh_kubescheduler_v1_default_preemption_args_type,
     offsetof(struct plugin_args, preemption)},
    {"DynamicResources", &bh_kubescheduler_v1_dynamic_resources_args_type,
     offsetof(struct plugin_args, devices)},
    {"InterPodAffinity", &bh_kubescheduler_v1_inter_pod_affinity_args_type,
     offsetof(struct plugin_args, pods)},
    {"NodeAffinity", &bh_kubescheduler_v1_node_affinity_args_type,
     offsetof(struct plugin_args, nodes)},
    {"NodeResourcesBalancedAllocation",
     &bh_kubescheduler_v1_node_resources_balanced_allocation_args_type,
     offsetof(struct plugin_args, balanced)},
    {"NodeResourcesFit", &bh_kubescheduler_v1_node_resources_fit_args_type,
     offsetof(struct plugin_args, fit)},
    {"PodTopologySpread", &bh_kubescheduler_v1_pod_topology_spread_args_type,
     offsetof(struct plugin_args, spread)},
    {"VolumeBinding", &bh_kubescheduler_v1_volume_binding_args_type,
     offsetof(struct plugin_args, volumes)},
};

static void cpu_and_memory(struct bh_arena *a, struct bh_kubescheduler_v1_resource_spec_vec *v)
{
    if (!v->n) {
        v->p = bh_new_n(a, struct bh_kubescheduler_v1_resource_spec, 2);
        v->p[0] = (struct bh_kubescheduler_v1_resource_spec){BH_S("cpu"), 1};
        v->p[1] = (struct bh_kubescheduler_v1_resource_spec){BH_S("memory"), 1};
        v->n = 2;
    }
    for (size_t i = 0; i < v->n; i++)
        if (!v->p[i].weight)
            v->p[i].weight = 1;
}

static void args_default(size_t which, void *args, struct bh_arena *a)
{
    bh_msg_default(args_of[which].type, args, a);
    if (args_of[which].type == &bh_kubescheduler_v1_node_resources_fit_args_type) {
        struct bh_kubescheduler_v1_node_resources_fit_args *f = args;

        if (!f->scoring_strategy) {
            f->scoring_strategy = bh_new(a, struct bh_kubescheduler_v1_scoring_strategy);
            f->scoring_strategy->type = BH_S("LeastAllocated");
        }
        cpu_and_memory(a, &f->scoring_strategy->resources);
    } else if (args_of[which].at == offsetof(struct plugin_args, balanced)) {
        cpu_and_memory(a,
                       &((struct bh_kubescheduler_v1_node_resources_balanced_allocation_args *)args)
                            ->resources);
    } else if (args_of[which].at == offsetof(struct plugin_args, devices)) {
        struct bh_kubescheduler_v1_dynamic_resources_args *d = args;

        if (!d->has_binding_timeout) {
            d->has_binding_timeout = true;
            d->binding_timeout = BH_S("10m0s");
        }
        if (!d->has_filter_timeout) {
            d->has_filter_timeout = true;
            d->filter_timeout = BH_S("10s");
        }
    }
}

static int args_decode(const struct bh_kubescheduler_v1_plugin_config *pc, size_t which,
                       struct bh_arena *a, void **ret, struct bh_strict *strict, struct bh_err *err)
{
    struct bh_str version, kind;
    struct bh_str want = bh_str_fmt(a, "%.*sArgs", BH_SF(pc->name));
    int r;

    *ret = bh_arena_alloc(a, args_of[which].type->size);
    if (!pc->args.n || bh_str_eqc(pc->args, "null"))
        return 0;
    if ((r = bh_json_peek_kind(pc->args, a, &version, &kind, err)) < 0)
        return r;
    if (kind.n && !bh_str_eq(kind, want))
        return bh_err_set(err, BH_E_INVALID,
                          "args for plugin %.*s were not of type "
                          "%.*s.kubescheduler.config.k8s.io, got "
                          "%.*s.kubescheduler.config.k8s.io",
                          BH_SF(pc->name), BH_SF(want), BH_SF(kind));
    if (version.n && !bh_str_eqc(version, API_VERSION))
        return bh_err_set(err, BH_E_INVALID,
                          "decoding args for plugin %.*s: no kind \"%.*s\" is registered for "
                          "version \"%.*s\" in the scheduler's scheme",
                          BH_SF(pc->name), BH_SF(want), BH_SF(version));
    r = bh_msg_decode_json(args_of[which].type, pc->args, *ret, a, strict, err);
    if (r == 0 && args_of[which].at == offsetof(struct plugin_args, devices)) {
        const struct bh_kubescheduler_v1_dynamic_resources_args *d = *ret;
        struct bh_str times[] = {d->filter_timeout, d->binding_timeout};

        r = check_durations(times, BH_COUNT(times), err);
    }
    if (r < 0) {
        struct bh_err why = *err;

        return bh_err_set(err, BH_E_INVALID, "decoding args for plugin %.*s: %s", BH_SF(pc->name),
                          why.msg);
    }
    return 0;
}

static size_t args_named(struct bh_str plugin)
{
    size_t i = 0;

    while (i < BH_COUNT(args_of) && !bh_str_eqc(plugin, args_of[i].plugin))
        i++;
    return i;
}

int sched_args_read(const struct bh_kubescheduler_v1_kube_scheduler_profile *p, size_t at,
                    struct bh_arena *a, struct plugin_args *ret, struct bh_str *ret_strict,
                    struct bh_err *err)
{
    BH_AUTO_BUF all = {.max = CONFIG_MAX};
    void *args[BH_COUNT(args_of)] = {NULL};
    const void **slots = (const void **)ret;

    for (size_t k = 0; k < p->plugin_config.n; k++) {
        size_t i = args_named(p->plugin_config.p[k].name);
        struct bh_strict strict = {0};

        if (i == BH_COUNT(args_of))
            continue;
        if (args_decode(&p->plugin_config.p[k], i, a, &args[i], &strict, err) < 0) {
            struct bh_err why = *err;

            return bh_err_set(err, BH_E_INVALID, "decoding .profiles[%zu].pluginConfig[%zu]: %s",
                              at, k, why.msg);
        }
        if (strict.texts.n)
            bh_buf_addf(&all,
                        "%sdecoding .profiles[%zu].pluginConfig[%zu]: strict decoding error: "
                        "decoding args for plugin %s: strict decoding error: %.*s",
                        all.n ? ", " : "", at, k, args_of[i].plugin,
                        BH_SF(bh_strict_join(&strict, a)));
    }
    for (size_t i = 0; i < BH_COUNT(args_of); i++) {
        if (!args[i])
            args[i] = bh_arena_alloc(a, args_of[i].type->size);
        args_default(i, args[i], a);
        slots[args_of[i].at / sizeof(void *)] = args[i];
    }
    if (ret_strict)
        *ret_strict = bh_str_dup(a, bh_buf_str(&all));
    return 0;
}

/* ---- defaults ---- */

static void set_defaults(struct bh_kubescheduler_v1_kube_scheduler_configuration *c,
                         struct bh_arena *a)
{
    static const char *const times[TIMES_DEFAULTS] = {"15s", "10s", "2s"};
    struct bh_str *fields[TIMES_DEFAULTS] = {&c->leader_election.lease_duration,
                                             &c->leader_election.renew_deadline,
                                             &c->leader_election.retry_period};

    if (!c->profiles.n) {
        c->profiles.p = bh_new(a, struct bh_kubescheduler_v1_kube_scheduler_profile);
        c->profiles.n = 1;
    }
    if (c->profiles.n == 1 && !c->profiles.p[0].has_scheduler_name) {
        c->profiles.p[0].has_scheduler_name = true;
        c->profiles.p[0].scheduler_name = BH_S("default-scheduler");
    }
    bh_msg_default(&bh_kubescheduler_v1_kube_scheduler_configuration_type, c, a);
    for (size_t i = 0; i < TIMES_DEFAULTS; i++)
        if (!fields[i]->n || bh_str_eqc(*fields[i], "0s") || bh_str_eqc(*fields[i], "0"))
            *fields[i] = bh_s(times[i]);
    if (c->client_connection.qps == 0)
        c->client_connection.qps = 50;
    if (!c->client_connection.burst)
        c->client_connection.burst = 100;
}

/* ---- the whole ---- */

static int check_leader_times(const struct bh_kubescheduler_v1_kube_scheduler_configuration *c,
                              struct bh_err *err)
{
    struct bh_str times[] = {c->leader_election.lease_duration, c->leader_election.renew_deadline,
                             c->leader_election.retry_period};

    return check_durations(times, BH_COUNT(times), err);
}

static int decode(struct bh_arena *a, struct bh_str text,
                  struct bh_kubescheduler_v1_kube_scheduler_configuration **ret, struct bh_err *err)
{
    struct bh_kubescheduler_v1_kube_scheduler_configuration *c;
    struct bh_strict strict = {0};
    BH_AUTO_BUF all = {.max = CONFIG_MAX};
    struct bh_str json, dups;
    int r;

    if ((r = to_json(a, text, &json, &dups, err)) < 0)
        return r;
    if ((r = check_kind(json, text, a, err)) < 0)
        return r;
    c = bh_new(a, struct bh_kubescheduler_v1_kube_scheduler_configuration);
    if ((r = bh_msg_decode_json(&bh_kubescheduler_v1_kube_scheduler_configuration_type, json, c, a,
                                &strict, err)) < 0)
        return r;
    if ((r = check_leader_times(c, err)) < 0)
        return r;
    bh_buf_adds(&all, dups);
    if (strict.texts.n)
        bh_buf_addf(&all, "%s%.*s", all.n ? ", " : "", BH_SF(bh_strict_join(&strict, a)));
    for (size_t i = 0; i < c->profiles.n; i++) {
        struct plugin_args args;
        struct bh_str more;

        if ((r = sched_args_read(&c->profiles.p[i], i, a, &args, &more, err)) < 0)
            return r;
        if (more.n)
            bh_buf_addf(&all, "%s%.*s", all.n ? ", " : "", BH_SF(more));
    }
    if (all.n)
        return bh_err_set(err, BH_E_INVALID, "strict decoding error: %.*s",
                          BH_SF(bh_buf_str(&all)));
    *ret = c;
    return 0;
}

int sched_config_parse(struct bh_str text, struct bh_scheduler_config **ret, struct bh_err *err)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_scheduler_config *cfg = bh_new(a, struct bh_scheduler_config);
    struct bh_kubescheduler_v1_kube_scheduler_configuration *c = NULL;
    int r = 0;

    cfg->arena = a;
    if (text.n)
        r = decode(a, text, &c, err);
    else
        c = bh_new(a, struct bh_kubescheduler_v1_kube_scheduler_configuration);
    if (r == 0) {
        set_defaults(c, a);
        cfg->c = c;
        r = sched_config_validate(a, c, err);
    }
    if (r == 0)
        r = sched_profiles_build(cfg, err);
    if (r < 0) {
        (void)bh_scheduler_config_free(cfg);
        return r;
    }
    *ret = cfg;
    return 0;
}

int bh_scheduler_config_load(const char *path, struct bh_scheduler_config **ret, struct bh_err *err)
{
    BH_AUTO_BUF text = {.max = CONFIG_MAX + 1};
    int r;

    if ((r = bh_fs_read(path, CONFIG_MAX, &text, err)) < 0)
        return r;
    if (!text.n)
        return bh_err_set(err, BH_E_INVALID, "Object 'Kind' is missing in ''");
    return sched_config_parse(bh_buf_str(&text), ret, err);
}

struct bh_scheduler_config *bh_scheduler_config_free(struct bh_scheduler_config *cfg)
{
    if (cfg)
        (void)bh_arena_free(cfg->arena);
    return NULL;
}
