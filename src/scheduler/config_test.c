/* Configuration files: what is refused and how, and what profiles do. */
#include <string.h>

#include "scheduler/profile.h"
#include "scheduler/sched_int.h"
#include "scheduler/world_test.h"

#define HEAD "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
#define PROFILE_ERROR                                                                              \
    "initializing profiles: creating profile for scheduler name default-scheduler: "

static struct bh_scheduler_config *parse(const char *text)
{
    struct bh_scheduler_config *cfg = NULL;
    struct bh_err err = {0};

    if (sched_config_parse(bh_s(text), &cfg, &err) < 0)
        bh_test_fail(__FILE__, __LINE__, "%s", err.msg);
    return cfg;
}

BH_TEST(faults_are_told_in_upstreams_words)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"kind: X\n", "Object 'apiVersion' is missing in 'kind: X\n'"},
        {HEAD "foo: 1\n", "strict decoding error: unknown field \"foo\""},
        {HEAD "profiles: [{schedulerName: a, bar: 2}]\n",
         "strict decoding error: unknown field \"profiles[0].bar\""},
        {HEAD "parallelism: 3\nparallelism: 4\n",
         "strict decoding error: yaml: unmarshal errors:\n  line 4: key \"parallelism\" already "
         "set in map"},
        {HEAD "parallelism: x\n", "json: cannot unmarshal string into Go struct field "
                                  "KubeSchedulerConfiguration.parallelism "
                                  "of type int32"},
        {HEAD "parallelism: -1\npercentageOfNodesToScore: 101\npodInitialBackoffSeconds: 0\n"
              "podMaxBackoffSeconds: -1\n",
         "[parallelism: Invalid value: -1: should be an integer value greater than zero, "
         "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100], "
         "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0, "
         "podMaxBackoffSeconds: Invalid value: -1: must be greater than or equal to "
         "PodInitialBackoffSeconds]"},
        {HEAD "leaderElection: {leaseDuration: 5s, renewDeadline: 10s, resourceLock: foo}\n",
         "[leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than "
         "`RenewDeadline`, leaderElection.resourceLock: Invalid value: \"foo\": resourceLock value "
         "must be \"leases\"]"},
        {HEAD "leaderElection: {leaseDuration: soon}\n", "time: invalid duration \"soon\""},
        {HEAD "profiles: [{}, {schedulerName: b}]\n", "profiles[0].schedulerName: Required value"},
        {HEAD "profiles: [{schedulerName: b}, {schedulerName: b}]\n",
         "profiles[1].schedulerName: Duplicate value: {}"},
        {HEAD "profiles: [{plugins: {filter: {enabled: [{name: Foo}]}}}]\n",
         PROFILE_ERROR "FilterPlugin \"Foo\" does not exist"},
        {HEAD "profiles: [{plugins: {multiPoint: {enabled: [{name: Foo}]}}}]\n",
         PROFILE_ERROR "PreFilterPlugin \"Foo\" does not exist"},
        {HEAD "profiles: [{plugins: {score: {enabled: [{name: NodeName}]}}}]\n",
         PROFILE_ERROR "plugin \"NodeName\" does not extend ScorePlugin plugin"},
        {HEAD "profiles: [{plugins: {multiPoint: {enabled: [{name: ImageLocality}, {name: "
              "ImageLocality}]}}}]\n",
         PROFILE_ERROR "plugin \"ImageLocality\" already registered as \"ScorePlugin\""},
        {HEAD "profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]\n",
         PROFILE_ERROR "at least one bind plugin is needed for profile with scheduler name "
                       "\"default-scheduler\""},
        {HEAD "profiles: [{plugins: {queueSort: {disabled: [{name: '*'}]}}}]\n",
         PROFILE_ERROR "only one queue sort plugin required for profile with scheduler name "
                       "\"default-scheduler\", but got 0"},
        {HEAD "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {foo: 1}}]}]\n",
         "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: "
         "decoding args for plugin NodeResourcesFit: strict decoding error: unknown field \"foo\""},
        {HEAD "profiles: [{pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]}]\n",
         "profiles[0].pluginConfig[1]: Duplicate value: \"NodeAffinity\""},
        {HEAD "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: "
              "101}}]}]\n",
         "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid "
         "range [0, 100]"},
        {HEAD "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: "
              "RequestedToCapacityRatio}}}]}]\n",
         PROFILE_ERROR "initializing plugin \"NodeResourcesFit\": "
                       "scoringStrategy.requestedToCapacityRatio: Required value: must be "
                       "specified when type is RequestedToCapacityRatio"},
        {HEAD
         "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: X}}]}]\n",
         "profiles[0].pluginConfig[0].args.defaultingType: Unsupported value: \"X\": supported "
         "values: \"System\", \"List\""},
        {HEAD "profiles: [{pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 500ms}}"
              "]}]\n",
         "profiles[0].pluginConfig[0].args.bindingTimeout: Invalid value: \"500ms\": must be at "
         "least 1 second"},
        {HEAD "extenders: [{urlPrefix: 'http://x'}]\n",
         "extenders: Forbidden: extenders are not supported"},
    };

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        struct bh_scheduler_config *cfg = NULL;
        struct bh_err err = {0};

        BH_CHECK(sched_config_parse(bh_s(cases[i].text), &cfg, &err) < 0);
        BH_STREQ(bh_s(err.msg), cases[i].want);
        (void)bh_scheduler_config_free(cfg);
    }
}

BH_TEST(what_is_not_said_has_upstreams_defaults)
{
    struct bh_scheduler_config *cfg = parse("");
    const struct sched_profile *p = &cfg->profiles[0];

    BH_EQ(cfg->profiles_n, 1);
    BH_STREQ(p->name, "default-scheduler");
    BH_CHECK(p->standard);
    BH_EQ(p->weight[PL_TAINT_TOLERATION], 3);
    BH_EQ(p->weight[PL_NODE_AFFINITY], 2);
    BH_EQ(p->weight[PL_RESOURCES_FIT], 1);
    BH_EQ(p->weight[PL_VOLUME_BINDING], 1);
    BH_EQ(p->binding_timeout_s, 600);
    BH_EQ(p->preempt_min, 100);
    BH_CHECK(p->fit.plain && p->balanced.plain);
    BH_EQ(cfg->c->parallelism, 16);
    BH_EQ(cfg->c->pod_max_backoff_seconds, 10);
    BH_STREQ(cfg->c->leader_election.lease_duration, "15s");
    (void)bh_scheduler_config_free(cfg);
}

BH_TEST(plugin_sets_are_merged)
{
    struct bh_scheduler_config *cfg = parse(
        HEAD "profiles: [{plugins: {filter: {disabled: [{name: NodePorts}]}, score: {enabled: "
             "[{name: ImageLocality, weight: 7}], disabled: [{name: NodeAffinity}]}, "
             "multiPoint: {enabled: [{name: TaintToleration, weight: 9}], disabled: [{name: "
             "PodTopologySpread}]}}}]\n");
    const struct sched_profile *p = &cfg->profiles[0];

    BH_CHECK(!p->standard);
    BH_CHECK(!(p->on[PT_FILTER] & 1u << PL_NODE_PORTS));
    BH_CHECK(p->on[PT_PRE_FILTER] & 1u << PL_NODE_PORTS);
    BH_CHECK(p->on[PT_FILTER] & 1u << PL_NODE_AFFINITY);
    BH_EQ(p->weight[PL_NODE_AFFINITY], 0);
    BH_EQ(p->weight[PL_IMAGES], 7);
    BH_EQ(p->run[PT_SCORE].p[0], PL_IMAGES); /* what is set anew comes first */
    BH_EQ(p->weight[PL_TAINT_TOLERATION], 9);
    BH_EQ(p->weight[PL_TOPOLOGY_SPREAD], 0);
    BH_CHECK(!(p->on[PT_FILTER] & 1u << PL_TOPOLOGY_SPREAD));
    (void)bh_scheduler_config_free(cfg);
}

static void start(struct world *w, const struct bh_scheduler_config *cfg)
{
    w->opts.config = cfg;
    world_start(w);
}

BH_TEST(each_scheduler_name_has_its_own_way)
{
    struct bh_scheduler_config *cfg =
        parse(HEAD "profiles:\n"
                   "- schedulerName: default-scheduler\n"
                   "- schedulerName: packer\n"
                   "  plugins: {postFilter: {disabled: [{name: '*'}]}}\n"
                   "  pluginConfig:\n"
                   "  - name: NodeResourcesFit\n"
                   "    args: {scoringStrategy: {type: MostAllocated}}\n"
                   "- schedulerName: careless\n"
                   "  plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}\n"
                   "- schedulerName: east\n"
                   "  pluginConfig:\n"
                   "  - name: NodeAffinity\n"
                   "    args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
                   "{nodeSelectorTerms: [{matchExpressions: [{key: side, operator: In, values: "
                   "[east]}]}]}}}\n");
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_node(&w, "elm", "4", "");
    start(&w, cfg);
    BH_EQ(world_create(&w, &bh_core_v1_pod_kind, "default",
                       "{\"metadata\":{\"name\":\"old\"},\"spec\":{\"nodeName\":\"oak\","
                       "\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"requests\""
                       ":{\"cpu\":\"2\",\"memory\":\"4Gi\"}}}]}}"),
          201);
    world_run(&w, 200);
    world_pod(&w, "a", "1", "");
    world_run(&w, 200);
    world_pod(&w, "b", "500m", "\"schedulerName\":\"packer\"");
    world_pod(&w, "big", "9", "\"schedulerName\":\"packer\"");
    world_pod(&w, "c", "9", "\"schedulerName\":\"careless\"");
    world_pod(&w, "d", "100m", "\"schedulerName\":\"east\"");
    world_pod(&w, "e", "100m", "\"schedulerName\":\"nobody\"");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "a"), "elm");
    BH_STREQ(world_node_of(&w, "b"), "oak");
    BH_STREQ(world_message(&w, "big"), "0/2 nodes are available: 2 Insufficient cpu.");
    BH_CHECK(world_node_of(&w, "c").n > 0);
    BH_CHECK(bh_str_starts(world_message(&w, "d"),
                           BH_S("0/2 nodes are available: 2 node(s) didn't match "
                                "scheduler-enforced node affinity.")));
    BH_STREQ(world_node_of(&w, "e"), "");
    BH_STREQ(world_message(&w, "e"), "");
    world_done(&w);
    (void)bh_scheduler_config_free(cfg);
}

BH_TEST(extended_resources_can_be_ignored_or_weighed)
{
    struct bh_scheduler_config *cfg =
        parse(HEAD "profiles:\n"
                   "- pluginConfig:\n"
                   "  - name: NodeResourcesFit\n"
                   "    args:\n"
                   "      ignoredResources: [example.com/foo]\n"
                   "      ignoredResourceGroups: [ignored.example.com]\n"
                   "      scoringStrategy:\n"
                   "        type: RequestedToCapacityRatio\n"
                   "        resources: [{name: example.com/bar, weight: 3}]\n"
                   "        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, "
                   "{utilization: 100, score: 10}]}\n");
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "4", "");
    world_node(&w, "elm", "4", "");
    BH_EQ(world_patch(&w, &bh_core_v1_node_kind, "", "oak", "status",
                      "{\"status\":{\"allocatable\":{\"example.com/bar\":\"8\"}}}"),
          200);
    BH_EQ(world_patch(&w, &bh_core_v1_node_kind, "", "elm", "status",
                      "{\"status\":{\"allocatable\":{\"example.com/bar\":\"4\"}}}"),
          200);
    start(&w, cfg);
    BH_EQ(world_create(&w, &bh_core_v1_pod_kind, "default",
                       "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                       "\"image\":\"i\",\"resources\":{\"limits\":{\"example.com/foo\":\"2\","
                       "\"ignored.example.com/x\":\"1\",\"example.com/bar\":\"2\"}}}]}}"),
          201);
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "p"), "elm"); /* fuller afterwards */
    world_done(&w);
    (void)bh_scheduler_config_free(cfg);
}

/* A class stands for the resource: its devices on the node are what there is of it. */
BH_TEST(devices_of_extended_resources_are_weighed)
{
    static const struct {
        const char *type, *want;
    } cases[] = {{"LeastAllocated", "elm"}, {"MostAllocated", "oak"}};

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_scheduler_config *cfg =
            parse(bh_str_fmt(a,
                             HEAD "profiles:\n"
                                  "- pluginConfig:\n"
                                  "  - name: NodeResourcesFit\n"
                                  "    args: {scoringStrategy: {type: %s, resources: [{name: "
                                  "example.com/gpu, weight: 1}]}}\n",
                             cases[i].type)
                      .p);
        struct world w;

        world_init(&w);
        w.opts.device_scoring_off = true;
        world_node(&w, "oak", "4", "");
        world_node(&w, "elm", "4", "");
        world_gpus(&w, "oak", 2, "");
        world_gpus(&w, "elm", 4, "");
        BH_EQ(world_create(&w, &bh_resource_v1_device_class_kind, "",
                           "{\"metadata\":{\"name\":\"gpu\"},\"spec\":{\"extendedResourceName\":"
                           "\"example.com/gpu\",\"selectors\":[{\"cel\":{\"expression\":"
                           "\"device.driver == \\\"gpu.bulkhead.dev\\\"\"}}]}}"),
              201);
        start(&w, cfg);
        BH_EQ(world_create(&w, &bh_core_v1_pod_kind, "default",
                           "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":"
                           "\"c\",\"image\":\"i\",\"resources\":{\"limits\":{"
                           "\"example.com/gpu\":\"1\"}}}]}}"),
              201);
        world_run(&w, 1000);
        BH_STREQ(world_node_of(&w, "p"), cases[i].want);
        world_done(&w);
        (void)bh_scheduler_config_free(cfg);
    }
}
