/* Volumes: what keeps a pod off a node, and claims that wait for their pod. */
#include "api/gen/scheduling_v1alpha2.h"
#include "api/gen/storage_v1.h"
#include "client/volumes.h"
#include "scheduler/world_test.h"

#define PV  &bh_core_v1_persistent_volume_kind
#define PVC &bh_core_v1_persistent_volume_claim_kind

static void class(struct world *w, const char *provisioner)
{
    BH_EQ(world_create(w, &bh_storage_v1_storage_class_kind, "",
                       bh_str_fmt(w->a,
                                  "{\"metadata\":{\"name\":\"late\"},\"provisioner\":\"%s\","
                                  "\"volumeBindingMode\":\"WaitForFirstConsumer\"}",
                                  provisioner)
                           .p),
          201);
}

/* A volume that only this node reaches, available. */
static void volume(struct world *w, const char *name, const char *size, const char *node)
{
    BH_EQ(world_create(w, PV, "",
                       bh_str_fmt(w->a,
                                  "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"capacity\":{"
                                  "\"storage\":\"%s\"},\"accessModes\":[\"ReadWriteOnce\"],"
                                  "\"storageClassName\":\"late\",\"local\":{\"path\":\"/x\"},"
                                  "\"nodeAffinity\":{\"required\":{\"nodeSelectorTerms\":[{"
                                  "\"matchExpressions\":[{\"key\":\"kubernetes.io/hostname\","
                                  "\"operator\":\"In\",\"values\":[\"%s\"]}]}]}}}}",
                                  name, size, node)
                           .p),
          201);
    BH_EQ(world_patch(w, PV, "", name, "status", "{\"status\":{\"phase\":\"Available\"}}"), 200);
}

static void claim(struct world *w, const char *name, const char *mode, const char *more)
{
    BH_EQ(
        world_create(w, PVC, "default",
                     bh_str_fmt(w->a,
                                "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"accessModes\":[\"%s\"]"
                                ",\"storageClassName\":\"late\",\"resources\":{\"requests\":{"
                                "\"storage\":\"1Gi\"}}%s}}",
                                name, mode, more)
                         .p),
        201);
}

static void bound(struct world *w, const char *name, const char *volume)
{
    BH_EQ(world_patch(w, PVC, "default", name, "",
                      bh_str_fmt(w->a,
                                 "{\"metadata\":{\"annotations\":{\"" BH_VOL_BIND_COMPLETED
                                 "\":\"yes\"}},\"spec\":{\"volumeName\":\"%s\"}}",
                                 volume)
                          .p),
          200);
}

static void pod(struct world *w, const char *name, const char *claim_name, const char *more)
{
    world_pod(w, name, "1",
              bh_str_fmt(w->a,
                         "\"volumes\":[{\"name\":\"v\",\"persistentVolumeClaim\":{\"claimName\":"
                         "\"%s\"}}]%s",
                         claim_name, more)
                  .p);
}

static void node(struct world *w, const char *name)
{
    world_node(w, name, "4", "");
    BH_EQ(world_patch(w, &bh_core_v1_node_kind, "", name, "",
                      bh_str_fmt(w->a,
                                 "{\"metadata\":{\"labels\":{\"kubernetes.io/hostname\":\"%s\"}}}",
                                 name)
                          .p),
          200);
}

BH_TEST(a_claim_that_waited_gets_the_smallest_volume_of_the_node)
{
    struct world w;
    const struct bh_core_v1_persistent_volume *v;

    world_init(&w);
    node(&w, "oak");
    node(&w, "elm");
    class(&w, BH_VOL_NO_PROVISIONER);
    volume(&w, "large", "9Gi", "elm");
    volume(&w, "small", "2Gi", "elm");
    claim(&w, "data", "ReadWriteOnce", "");
    claim(&w, "other", "ReadWriteOnce", "");
    world_start(&w);
    pod(&w, "p", "data", "");
    world_run(&w, 500);
    v = world_get(&w, PV, "", "small");
    BH_CHECK(v && v->spec.claim_ref);
    if (v && v->spec.claim_ref)
        BH_STREQ(v->spec.claim_ref->name, "data");
    BH_CHECK(v && bh_str_map_get(&v->metadata.annotations, BH_S(BH_VOL_BY_CONTROLLER)));
    BH_STREQ(world_node_of(&w, "p"), ""); /* not before the claim is bound */
    pod(&w, "q", "other", "");            /* has to take the other one */
    world_run(&w, 500);
    v = world_get(&w, PV, "", "large");
    BH_CHECK(v && v->spec.claim_ref);
    if (v && v->spec.claim_ref)
        BH_STREQ(v->spec.claim_ref->name, "other");
    bound(&w, "data", "small");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "p"), "elm");
    BH_STREQ(world_node_of(&w, "q"), "");
    world_done(&w);
}

/* Both write the volume for the same claim: the second one finds it written. */
BH_TEST(pods_with_the_same_claim_that_waited)
{
    struct world w;
    const struct bh_core_v1_persistent_volume *v;

    world_init(&w);
    node(&w, "elm");
    class(&w, BH_VOL_NO_PROVISIONER);
    volume(&w, "small", "2Gi", "elm");
    claim(&w, "data", "ReadWriteOnce", "");
    pod(&w, "p", "data", "");
    pod(&w, "q", "data", "");
    world_start(&w);
    world_run(&w, 3000);
    v = world_get(&w, PV, "", "small");
    BH_CHECK(v && v->spec.claim_ref);
    BH_STREQ(world_message(&w, "p"), "");
    BH_STREQ(world_message(&w, "q"), "");
    bound(&w, "data", "small");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "p"), "elm");
    BH_STREQ(world_node_of(&w, "q"), "elm");
    world_done(&w);
}

BH_TEST(a_claim_to_be_provisioned_names_its_node)
{
    struct world w;
    const struct bh_core_v1_persistent_volume_claim *c;
    const struct bh_str *at;

    world_init(&w);
    node(&w, "oak");
    class(&w, "disks.example.com");
    claim(&w, "data", "ReadWriteOnce", "");
    world_start(&w);
    pod(&w, "p", "data", "");
    world_run(&w, 500);
    c = world_get(&w, PVC, "default", "data");
    at = c ? bh_str_map_get(&c->metadata.annotations, BH_S(BH_VOL_SELECTED_NODE)) : NULL;
    BH_CHECK(at && bh_str_eqc(*at, "oak"));
    /* Another pod with the claim waits for the same node. */
    node(&w, "elm");
    pod(&w, "q", "data", ",\"nodeSelector\":{\"kubernetes.io/hostname\":\"elm\"}");
    world_run(&w, 500);
    BH_CHECK(bh_str_find(world_message(&w, "q"),
                         BH_S("1 node(s) didn't find available persistent volumes to bind")) > 0);
    /* Time runs out. */
    world_run(&w, 601000);
    BH_STREQ(
        world_message(&w, "p"),
        "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded");
    world_done(&w);
}

BH_TEST(what_a_volume_refuses_is_told)
{
    struct world w;

    world_init(&w);
    node(&w, "oak");
    class(&w, BH_VOL_NO_PROVISIONER);
    claim(&w, "data", "ReadWriteOnce", "");
    world_start(&w);
    pod(&w, "p", "data", "");
    world_run(&w, 500);
    BH_STREQ(
        world_message(&w, "p"),
        "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. "
        "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not "
        "helpful for scheduling.");
    volume(&w, "v", "5Gi", "oak"); /* wakes it */
    world_run(&w, 3000);
    bound(&w, "data", "v");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    world_done(&w);
}

BH_TEST(one_pod_at_a_time)
{
    struct world w;

    world_init(&w);
    node(&w, "oak");
    node(&w, "elm");
    class(&w, BH_VOL_NO_PROVISIONER);
    volume(&w, "v", "5Gi", "oak");
    claim(&w, "data", "ReadWriteOncePod", ",\"volumeName\":\"v\"");
    BH_EQ(world_patch(&w, PVC, "default", "data", "",
                      "{\"metadata\":{\"annotations\":{\"" BH_VOL_BIND_COMPLETED "\":\"yes\"}}}"),
          200);
    world_start(&w);
    pod(&w, "p", "data", "");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    pod(&w, "q", "data", "");
    world_run(&w, 500);
    BH_CHECK(bh_str_starts(
        world_message(&w, "q"),
        BH_S("0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with "
             "ReadWriteOncePod access mode already in-use by another pod.")));
    BH_EQ(world_delete(&w, &bh_core_v1_pod_kind, "default", "p"), 200);
    world_run(&w, 40000);
    if (world_get(&w, &bh_core_v1_pod_kind, "default", "p"))
        BH_EQ(world_patch(&w, &bh_core_v1_pod_kind, "default", "p", "status",
                          "{\"status\":{\"phase\":\"Succeeded\"}}"),
              200);
    world_run(&w, 3000);
    BH_STREQ(world_node_of(&w, "q"), "oak");
    world_done(&w);
}

BH_TEST(a_node_takes_so_many_volumes_of_a_driver)
{
    struct world w;
    static const char *const names[] = {"a", "b"};

    world_init(&w);
    node(&w, "oak");
    class(&w, "disks.example.com");
    BH_EQ(world_create(&w, &bh_storage_v1_csi_node_kind, "",
                       "{\"metadata\":{\"name\":\"oak\"},\"spec\":{\"drivers\":[{\"name\":"
                       "\"disks.example.com\",\"nodeID\":\"n\",\"topologyKeys\":[],\"allocatable\":"
                       "{\"count\":1}}]}}"),
          201);
    for (size_t i = 0; i < BH_COUNT(names); i++) {
        BH_EQ(world_create(
                  &w, PV, "",
                  bh_str_fmt(w.a,
                             "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"capacity\":{\"storage\":"
                             "\"1Gi\"},\"accessModes\":[\"ReadWriteOnce\"],\"storageClassName\":"
                             "\"late\",\"csi\":{\"driver\":\"disks.example.com\","
                             "\"volumeHandle\":\"h-%s\"}}}",
                             names[i], names[i])
                      .p),
              201);
        claim(&w, names[i], "ReadWriteOnce", "");
        bound(&w, names[i], names[i]);
    }
    world_start(&w);
    pod(&w, "p", "a", "");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    pod(&w, "q", "b", "");
    pod(&w, "r", "a", ""); /* the same volume once more */
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "r"), "oak");
    BH_CHECK(bh_str_starts(world_message(&w, "q"),
                           BH_S("0/1 nodes are available: 1 node(s) exceed max volume count.")));
    BH_EQ(world_patch(&w, &bh_storage_v1_csi_node_kind, "", "oak", "",
                      "{\"spec\":{\"drivers\":[{\"name\":\"disks.example.com\",\"nodeID\":\"n\","
                      "\"topologyKeys\":[],\"allocatable\":{\"count\":2}}]}}"),
          200);
    world_run(&w, 3000);
    BH_STREQ(world_node_of(&w, "q"), "oak");
    world_done(&w);
}

BH_TEST(a_driver_tells_where_it_has_room)
{
    struct world w;
    const struct bh_core_v1_persistent_volume_claim *c;
    const struct bh_str *at;

    world_init(&w);
    node(&w, "oak");
    node(&w, "elm");
    class(&w, "disks.example.com");
    BH_EQ(world_create(&w, &bh_storage_v1_csi_driver_kind, "",
                       "{\"metadata\":{\"name\":\"disks.example.com\"},\"spec\":{"
                       "\"storageCapacity\":true}}"),
          201);
    claim(&w, "data", "ReadWriteOnce", "");
    world_start(&w);
    pod(&w, "p", "data", "");
    world_run(&w, 500);
    BH_CHECK(bh_str_starts(
        world_message(&w, "p"),
        BH_S("0/2 nodes are available: 2 node(s) did not have enough free storage.")));
    BH_EQ(world_create(&w, &bh_storage_v1_csi_storage_capacity_kind, "default",
                       "{\"metadata\":{\"name\":\"small\"},\"storageClassName\":\"late\","
                       "\"capacity\":\"1Mi\",\"nodeTopology\":{}}"),
          201);
    world_run(&w, 3000);
    BH_CHECK(
        bh_str_starts(world_message(&w, "p"), BH_S("0/2 nodes are available: 2 node(s) did not")));
    BH_EQ(world_create(&w, &bh_storage_v1_csi_storage_capacity_kind, "default",
                       "{\"metadata\":{\"name\":\"large\"},\"storageClassName\":\"late\","
                       "\"capacity\":\"1Gi\",\"nodeTopology\":{\"matchLabels\":{"
                       "\"kubernetes.io/hostname\":\"elm\"}}}"),
          201);
    world_run(&w, 12000);
    c = world_get(&w, PVC, "default", "data");
    at = c ? bh_str_map_get(&c->metadata.annotations, BH_S(BH_VOL_SELECTED_NODE)) : NULL;
    BH_CHECK(at && bh_str_eqc(*at, "elm"));
    world_done(&w);
}

/* Whom a volume is given to; empty: nobody. */
static struct bh_str given_to(struct world *w, const char *volume_name)
{
    const struct bh_core_v1_persistent_volume *v = world_get(w, PV, "", volume_name);

    return v && v->spec.claim_ref ? bh_str_dup(w->a, v->spec.claim_ref->name) : BH_S("");
}

BH_TEST(members_of_a_gang_do_not_share_a_volume)
{
    struct world w;
    struct bh_str one, two;

    world_init(&w);
    node(&w, "oak");
    class(&w, BH_VOL_NO_PROVISIONER);
    volume(&w, "v1", "2Gi", "oak");
    volume(&w, "v2", "3Gi", "oak");
    claim(&w, "c1", "ReadWriteOnce", "");
    claim(&w, "c2", "ReadWriteOnce", "");
    BH_EQ(world_create(&w, &bh_scheduling_v1alpha2_pod_group_kind, "default",
                       "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"schedulingPolicy\":{\"gang\":{"
                       "\"minCount\":2}}}}"),
          201);
    world_start(&w);
    pod(&w, "p1", "c1", ",\"schedulingGroup\":{\"podGroupName\":\"g\"}");
    pod(&w, "p2", "c2", ",\"schedulingGroup\":{\"podGroupName\":\"g\"}");
    world_run(&w, 2000);
    one = given_to(&w, "v1");
    two = given_to(&w, "v2");
    BH_CHECK(one.n && two.n && !bh_str_eq(one, two));
    bound(&w, "c1", bh_str_eqc(one, "c1") ? "v1" : "v2");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "p1"), ""); /* together, or not at all */
    bound(&w, "c2", bh_str_eqc(one, "c1") ? "v2" : "v1");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "p1"), "oak");
    BH_STREQ(world_node_of(&w, "p2"), "oak");
    world_done(&w);
}

BH_TEST(a_node_that_goes_ends_the_wait_for_its_volumes)
{
    struct world w;

    world_init(&w);
    node(&w, "oak");
    class(&w, "disks.example.com");
    claim(&w, "data", "ReadWriteOnce", "");
    world_start(&w);
    pod(&w, "p", "data", "");
    world_run(&w, 500);
    BH_EQ(world_delete(&w, &bh_core_v1_node_kind, "", "oak"), 200);
    world_run(&w, 50);
    BH_STREQ(world_message(&w, "p"),
             "running PreBind plugin \"VolumeBinding\": binding volumes: failed to get node "
             "\"oak\": node \"oak\" not found");
    world_done(&w);
}

static size_t reservations(struct world *w, const char *name)
{
    const struct bh_resource_v1_resource_claim *c =
        world_get(w, &bh_resource_v1_resource_claim_kind, "default", name);

    return c && c->status.allocation ? c->status.reserved_for.n : 99;
}

BH_TEST(devices_are_given_while_volumes_are_awaited)
{
    struct world w;

    world_init(&w);
    node(&w, "oak");
    class(&w, BH_VOL_NO_PROVISIONER);
    volume(&w, "v1", "2Gi", "oak");
    claim(&w, "data", "ReadWriteOnce", "");
    world_class(&w);
    world_gpus(&w, "oak", 1, "");
    world_claim(&w, "gpu");
    world_start(&w);
    pod(&w, "p", "data", ",\"resourceClaims\":[{\"name\":\"g\",\"resourceClaimName\":\"gpu\"}]");
    world_run(&w, 500);
    BH_EQ(reservations(&w, "gpu"), 1);
    BH_STREQ(world_node_of(&w, "p"), "");
    /* The volume is taken away: the pod gives back what it had. */
    BH_EQ(world_patch(&w, PV, "", "v1", "", "{\"spec\":{\"claimRef\":null}}"), 200);
    world_run(&w, 50);
    BH_STREQ(world_message(&w, "p"),
             "running PreBind plugin \"VolumeBinding\": binding volumes: ClaimRef got reset for pv "
             "\"v1\"");
    BH_EQ(reservations(&w, "gpu"), 0);
    world_run(&w, 30000); /* another try */
    BH_EQ(reservations(&w, "gpu"), 1);
    bound(&w, "data", "v1");
    world_run(&w, 500);
    BH_STREQ(world_node_of(&w, "p"), "oak");
    world_done(&w);
}

BH_TEST(a_node_that_goes_ends_a_gang_that_waits_for_volumes)
{
    struct world w;

    world_init(&w);
    node(&w, "oak");
    class(&w, "disks.example.com");
    claim(&w, "c1", "ReadWriteOnce", "");
    claim(&w, "c2", "ReadWriteOnce", "");
    BH_EQ(world_create(&w, &bh_scheduling_v1alpha2_pod_group_kind, "default",
                       "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"schedulingPolicy\":{\"gang\":{"
                       "\"minCount\":2}}}}"),
          201);
    world_start(&w);
    pod(&w, "p1", "c1", ",\"schedulingGroup\":{\"podGroupName\":\"g\"}");
    pod(&w, "p2", "c2", ",\"schedulingGroup\":{\"podGroupName\":\"g\"}");
    world_run(&w, 2000);
    BH_EQ(world_delete(&w, &bh_core_v1_node_kind, "", "oak"), 200);
    world_run(&w, 500);
    BH_CHECK(world_message(&w, "p1").n > 0);
    BH_CHECK(world_message(&w, "p2").n > 0);
    world_done(&w);
}
