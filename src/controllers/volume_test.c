/* Volumes and claims: bound, released, protected, made for pods. */
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/storage_v1.h"
#include "base/test.h"
#include "client/volumes.h"
#include "controllers/cluster_test.h"

#define PV    &bh_core_v1_persistent_volume_kind
#define PVC   &bh_core_v1_persistent_volume_claim_kind
#define CLASS &bh_storage_v1_storage_class_kind
#define ALL                                                                                        \
    "persistentvolume-binder-controller,persistentvolumeclaim-protection-controller,"              \
    "persistentvolume-protection-controller,ephemeral-volume-controller"

static void volume(struct tc *t, const char *name, const char *size, const char *more)
{
    (void)world_make(&t->w, PV, "",
                     tc_fmt(t,
                            "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"capacity\":{\"storage\":"
                            "\"%s\"},\"accessModes\":[\"ReadWriteOnce\"],\"hostPath\":{\"path\":"
                            "\"/data\"}%s}}",
                            name, size, more));
}

static void claim(struct tc *t, const char *name, const char *more)
{
    (void)world_make(&t->w, PVC, "default",
                     tc_fmt(t,
                            "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"accessModes\":["
                            "\"ReadWriteOnce\"],\"resources\":{\"requests\":{\"storage\":\"1Gi\"}}"
                            "%s}}",
                            name, more));
}

static const struct bh_core_v1_persistent_volume *pv(struct tc *t, const char *name)
{
    struct bh_obj *o = world_get(&t->w, PV, "", name);

    return o ? bh_obj_struct(o) : NULL;
}

static const struct bh_core_v1_persistent_volume_claim *pvc(struct tc *t, const char *name)
{
    struct bh_obj *o = world_get(&t->w, PVC, "default", name);

    return o ? bh_obj_struct(o) : NULL;
}

BH_TEST(a_claim_gets_the_smallest_volume_that_fits)
{
    struct tc t;
    const struct bh_core_v1_persistent_volume_claim *c;
    const struct bh_core_v1_persistent_volume *v;

    tc_open(&t, ALL);
    volume(&t, "large", "9Gi", "");
    volume(&t, "fits", "2Gi", "");
    volume(&t, "tiny", "1Mi", "");
    volume(&t, "classy", "1Gi", ",\"storageClassName\":\"other\"");
    tc_run(&t, 1000);
    v = pv(&t, "fits");
    BH_CHECK(v && bh_str_eqc(v->status.phase, "Available"));
    claim(&t, "data", ",\"storageClassName\":\"\"");
    tc_run(&t, 1000);
    c = pvc(&t, "data");
    BH_STREQ(c->spec.volume_name, "fits");
    BH_STREQ(c->status.phase, "Bound");
    BH_STREQ(*bh_str_map_get(&c->status.capacity, BH_S("storage")), "2Gi");
    BH_CHECK(bh_pvc_bound(c));
    v = pv(&t, "fits");
    BH_STREQ(v->status.phase, "Bound");
    BH_CHECK(bh_str_eq(v->spec.claim_ref->uid, c->metadata.uid));
    BH_CHECK(bh_str_map_get(&v->metadata.annotations, BH_S(BH_VOL_BY_CONTROLLER)));
    claim(&t, "second", ",\"storageClassName\":\"\"");
    claim(&t, "third", ",\"storageClassName\":\"\"");
    tc_run(&t, 1000);
    BH_STREQ(pvc(&t, "second")->spec.volume_name, "large");
    BH_STREQ(pvc(&t, "third")->status.phase, "Pending");
    BH_CHECK(
        tc_event(&t, "default", "third", "FailedBinding",
                 "no persistent volumes available for this claim and no storage class is set"));
    volume(&t, "more", "1Gi", ""); /* found without anybody touching the claim */
    tc_run(&t, 1000);
    BH_STREQ(pvc(&t, "third")->spec.volume_name, "more");
    tc_close(&t);
}

BH_TEST(a_volume_is_released_with_its_claim)
{
    struct tc t;

    tc_open(&t, ALL);
    volume(&t, "kept", "1Gi", "");
    volume(&t, "gone", "2Gi", ",\"persistentVolumeReclaimPolicy\":\"Delete\"");
    claim(&t, "a", ",\"storageClassName\":\"\",\"volumeName\":\"kept\"");
    claim(&t, "b", ",\"storageClassName\":\"\",\"volumeName\":\"gone\"");
    tc_run(&t, 1000);
    BH_STREQ(pv(&t, "kept")->status.phase, "Bound");
    world_delete(&t.w, PVC, "default", "a", NULL);
    world_delete(&t.w, PVC, "default", "b", NULL);
    tc_run(&t, 1000);
    BH_CHECK(!pvc(&t, "a") && !pvc(&t, "b"));
    BH_STREQ(pv(&t, "kept")->status.phase, "Released");
    BH_STREQ(pv(&t, "gone")->status.phase, "Failed");
    BH_CHECK(tc_event(&t, "default", "gone", "VolumeFailedDelete",
                      "host_path deleter only supports /tmp/.+ but received provided /data"));
    world_delete(&t.w, PV, "", "kept", NULL);
    tc_run(&t, 1000);
    BH_CHECK(!pv(&t, "kept"));
    tc_close(&t);
}

BH_TEST(a_claim_whose_volume_went_is_lost)
{
    struct tc t;

    tc_open(&t, ALL);
    volume(&t, "v", "1Gi", "");
    claim(&t, "data", ",\"storageClassName\":\"\"");
    tc_run(&t, 1000);
    world_delete(&t.w, PV, "", "v", NULL);
    tc_run(&t, 1000);
    BH_CHECK(pv(&t, "v")); /* protected while it is bound */
    (void)world_merge(&t.w, PV, "", "v", "", "{\"metadata\":{\"finalizers\":null}}");
    tc_run(&t, 1000);
    BH_STREQ(pvc(&t, "data")->status.phase, "Lost");
    BH_CHECK(tc_event(&t, "default", "data", "ClaimLost",
                      "Bound claim has lost its PersistentVolume. Data on the volume is lost!"));
    tc_close(&t);
}

BH_TEST(claims_that_wait_say_for_what)
{
    struct tc t;
    const struct bh_core_v1_persistent_volume_claim *c;

    tc_open(&t, ALL);
    (void)world_make(&t.w, CLASS, "",
                     "{\"metadata\":{\"name\":\"late\"},\"provisioner\":\"x.example.com\","
                     "\"volumeBindingMode\":\"WaitForFirstConsumer\"}");
    (void)world_make(&t.w, CLASS, "",
                     "{\"metadata\":{\"name\":\"now\"},\"provisioner\":\"x.example.com\"}");
    claim(&t, "a", ",\"storageClassName\":\"late\"");
    claim(&t, "b", ",\"storageClassName\":\"now\"");
    claim(&t, "c", ",\"storageClassName\":\"none\"");
    tc_run(&t, 1000);
    BH_CHECK(tc_event(&t, "default", "a", "WaitForFirstConsumer",
                      "waiting for first consumer to be created before binding"));
    BH_CHECK(tc_event(&t, "default", "b", "ExternalProvisioning",
                      "Waiting for a volume to be created either by the external provisioner "
                      "'x.example.com' or manually"));
    BH_CHECK(tc_event(&t, "default", "c", "ProvisioningFailed",
                      "storageclass.storage.k8s.io \"none\" not found"));
    c = pvc(&t, "b");
    BH_STREQ(*bh_str_map_get(&c->metadata.annotations, BH_S(BH_VOL_PROVISIONER)), "x.example.com");
    /* One without a class gets the default when there is one at last. */
    claim(&t, "d", "");
    tc_run(&t, 1000);
    (void)world_merge(&t.w, CLASS, "", "now", "",
                      "{\"metadata\":{\"annotations\":{\"storageclass.kubernetes.io/"
                      "is-default-class\":\"true\"}}}");
    tc_run(&t, 1000);
    BH_STREQ(pvc(&t, "d")->spec.storage_class_name, "now");
    tc_close(&t);
}

BH_TEST(a_claim_in_use_stays_until_its_pod_is_gone)
{
    struct tc t;

    tc_open(&t, ALL);
    volume(&t, "v", "1Gi", "");
    claim(&t, "data", ",\"storageClassName\":\"\"");
    tc_node(&t, "oak");
    (void)world_make(&t.w, POD, "default",
                     "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"nodeName\":\"oak\","
                     "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}],\"volumes\":[{\"name\":"
                     "\"v\",\"persistentVolumeClaim\":{\"claimName\":\"data\"}}]}}");
    tc_run(&t, 1000);
    world_delete(&t.w, PVC, "default", "data", NULL);
    tc_run(&t, 2000);
    BH_CHECK(pvc(&t, "data"));
    world_delete(&t.w, POD, "default", "p", "{\"gracePeriodSeconds\":0}");
    tc_run(&t, 2000);
    BH_CHECK(!pvc(&t, "data"));
    BH_STREQ(pv(&t, "v")->status.phase, "Released");
    tc_close(&t);
}

BH_TEST(a_pod_gets_the_claims_that_it_carries)
{
    struct tc t;
    const struct bh_core_v1_persistent_volume_claim *c;

    tc_open(&t, ALL);
    volume(&t, "v", "1Gi", ",\"storageClassName\":\"s\"");
    (void)world_make(&t.w, POD, "default",
                     "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                     "\"image\":\"i\"}],\"volumes\":[{\"name\":\"e\",\"ephemeral\":{"
                     "\"volumeClaimTemplate\":{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{"
                     "\"accessModes\":[\"ReadWriteOnce\"],\"storageClassName\":\"s\",\"resources\":"
                     "{\"requests\":{\"storage\":\"1Gi\"}}}}}}]}}");
    tc_run(&t, 2000);
    c = pvc(&t, "p-e");
    BH_CHECK(c != NULL);
    if (c) {
        BH_EQ(c->metadata.owner_references.n, 1);
        BH_STREQ(*bh_str_map_get(&c->metadata.labels, BH_S("a")), "b");
        BH_STREQ(c->spec.volume_name, "v");
    }
    tc_close(&t);
}

BH_TEST(a_bind_goes_on_where_it_was_left)
{
    struct tc t;
    int bound = 0;

    tc_open(&t, ALL);
    for (int i = 0; i < 8; i++) {
        volume(&t, tc_fmt(&t, "v%d", i), "1Gi", "");
        claim(&t, tc_fmt(&t, "c%d", i), ",\"storageClassName\":\"\"");
    }
    for (int i = 0; i < 40; i++) { /* the server comes and goes, and so do the controllers */
        t.f.calls = i % 3 == 0 ? FLAKY_REFUSE : FLAKY_PASS;
        tc_run(&t, 1 + i % 4);
        if (i % 7 == 6) {
            t.f.calls = FLAKY_PASS;
            tc_restart(&t);
        }
    }
    t.f.calls = FLAKY_PASS;
    tc_run(&t, 60000);
    for (int i = 0; i < 8; i++) {
        const struct bh_core_v1_persistent_volume_claim *c = pvc(&t, tc_fmt(&t, "c%d", i));
        const struct bh_core_v1_persistent_volume *v =
            c && c->spec.volume_name.n ? pv(&t, tc_fmt(&t, "%.*s", BH_SF(c->spec.volume_name)))
                                       : NULL;

        bound += v && v->spec.claim_ref && bh_pvc_bound(c) &&
                 bh_str_eq(v->spec.claim_ref->uid, c->metadata.uid) &&
                 bh_str_eqc(v->status.phase, "Bound") && bh_str_eqc(c->status.phase, "Bound");
    }
    BH_EQ(bound, 8);
    tc_close(&t);
}
