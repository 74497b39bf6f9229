/* Reconciling a pool: first publication, no change, one change, growth, foreign slices. */
#include "driver/slice_plan.h"

#include <string.h>

#include "api/engine.h"
#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/test.h"
#include "driver/gpu_profile.h"

#define MAX_OBJS 32

struct fix {
    struct bh_arena *a;
    struct bh_resource_v1_device *devs;
    struct bh_slice_pool pool;
    const struct bh_obj *objs[MAX_OBJS];
    size_t n;
    int names;
};

static void fix_init(struct fix *f, size_t devices)
{
    struct bh_gpu_profile p = {0};

    memset(f, 0, sizeof(*f));
    f->a = bh_arena_new(0);
    f->devs = bh_new_n(f->a, struct bh_resource_v1_device, devices + 1);
    if (devices > 0)
        BH_EQ(bh_gpu_profile_load(f->a, (struct bh_str){NULL, 0}, devices, BH_S("n1"), &p, NULL),
              0);
    for (size_t i = 0; i < devices; i++)
        bh_gpu_to_device(f->a, &p.gpus[i], i, &f->devs[i]);
    f->pool = (struct bh_slice_pool){.driver = BH_S("gpu.bulkhead.dev"),
                                     .node = BH_S("n1"),
                                     .node_uid = BH_S("uid-n1"),
                                     .devices = f->devs,
                                     .devices_n = devices};
}

static void fix_done(struct fix *f)
{
    for (size_t i = 0; i < f->n; i++)
        (void)bh_obj_unref(f->objs[i]);
    f->a = bh_arena_free(f->a);
}

static void forget(struct fix *f, const struct bh_obj *o)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->objs[i] == o) {
            (void)bh_obj_unref(o);
            f->objs[i] = f->objs[--f->n];
            return;
        }
}

static void store(struct fix *f, struct bh_resource_v1_resource_slice *s)
{
    struct bh_err e = {0};

    s->metadata.resource_version = BH_S("7");
    f->objs[f->n++] = bh_obj_from_struct(&bh_resource_v1_resource_slice_kind, s, &e);
    if (!f->objs[f->n - 1])
        bh_test_fail(__FILE__, __LINE__, "%s", e.msg);
}

/* Does what the plan says, as the API server would. */
static void apply(struct fix *f, const struct bh_slice_plan *p)
{
    for (size_t i = 0; i < p->n; i++) {
        struct bh_slice_op *op = &p->ops[i];

        if (op->verb == BH_SLICE_CREATE) {
            op->slice->metadata.name =
                bh_str_fmt(f->a, "%.*sx%d", BH_SF(op->slice->metadata.generate_name), f->names++);
            op->slice->metadata.uid = bh_str_fmt(f->a, "uid-%d", f->names);
        } else {
            forget(f, op->old);
        }
        if (op->verb != BH_SLICE_DELETE)
            store(f, op->slice);
    }
}

static struct bh_slice_plan plan(struct fix *f)
{
    struct bh_slice_plan p;

    bh_slice_plan_make(f->a, &f->pool, f->objs, f->n, &p);
    return p;
}

static void taint(struct fix *f, size_t i, const char *value)
{
    struct bh_resource_v1_device_taint *t = bh_new(f->a, struct bh_resource_v1_device_taint);

    *t = (struct bh_resource_v1_device_taint){
        .key = BH_S("gpu.bulkhead.dev/xid"), .value = bh_s(value), .effect = BH_S("NoExecute")};
    f->devs[i].taints.p = t;
    f->devs[i].taints.n = 1;
}

BH_TEST(slices_first_publication_and_no_rewrite)
{
    struct fix f;
    struct bh_slice_plan p;

    fix_init(&f, 8);
    p = plan(&f);
    BH_EQ(p.n, 1);
    BH_EQ(p.ops[0].verb, BH_SLICE_CREATE);
    BH_EQ(p.generation, 1);
    BH_STREQ(p.ops[0].slice->metadata.generate_name, "00000-gpu.bulkhead.dev-n1-");
    BH_STREQ(p.ops[0].slice->metadata.owner_references.p[0].uid, "uid-n1");
    apply(&f, &p);
    BH_EQ(plan(&f).n, 0);
    fix_done(&f);
}

BH_TEST(slices_one_change_keeps_the_generation)
{
    struct fix f;
    struct bh_slice_plan p;

    fix_init(&f, 200); /* four slices */
    p = plan(&f);
    BH_EQ(p.n, 4);
    apply(&f, &p);
    taint(&f, 70, "79");
    p = plan(&f);
    BH_EQ(p.n, 1);
    BH_EQ(p.ops[0].verb, BH_SLICE_UPDATE);
    BH_EQ(p.generation, 1);
    apply(&f, &p);
    BH_EQ(plan(&f).n, 0);
    taint(&f, 0, "79"); /* two slices at once: everything moves to the next generation */
    taint(&f, 199, "79");
    p = plan(&f);
    BH_EQ(p.n, 4);
    BH_EQ(p.generation, 2);
    apply(&f, &p);
    BH_EQ(plan(&f).n, 0);
    fix_done(&f);
}

BH_TEST(slices_times_of_taints_are_kept)
{
    struct fix f;
    struct bh_slice_plan p;
    struct bh_resource_v1_resource_slice *s;

    fix_init(&f, 2);
    taint(&f, 0, "79");
    p = plan(&f);
    s = p.ops[0].slice;
    s->spec.devices.p[0].taints.p[0].time_added =
        (struct bh_time){1000, 0}; /* the server added it */
    apply(&f, &p);
    BH_EQ(plan(&f).n, 0);
    taint(&f, 1, "79");
    p = plan(&f);
    BH_EQ(p.n, 1);
    BH_EQ(p.ops[0].slice->spec.devices.p[0].taints.p[0].time_added.sec, 1000);
    taint(&f, 0, "48"); /* another value is another taint */
    p = plan(&f);
    BH_EQ(p.ops[0].slice->spec.devices.p[0].taints.p[0].time_added.sec, 0);
    fix_done(&f);
}

BH_TEST(slices_obsolete_ones_go_first)
{
    struct fix f;
    struct bh_slice_plan p;
    struct bh_resource_v1_resource_slice odd = {0};

    fix_init(&f, 100);
    p = plan(&f);
    apply(&f, &p);
    bh_msg_copy(&bh_resource_v1_resource_slice_type, &odd, bh_obj_struct(f.objs[0]), f.a);
    odd.metadata.name = BH_S("abcde");
    store(&f, &odd);
    f.pool.devices_n = 10; /* shrinks to one slice */
    p = plan(&f);
    BH_EQ(p.n, 3);
    BH_EQ(p.ops[0].verb, BH_SLICE_DELETE);
    BH_EQ(p.ops[1].verb, BH_SLICE_DELETE);
    BH_EQ(p.ops[2].verb, BH_SLICE_UPDATE);
    apply(&f, &p);
    BH_EQ(f.n, 1);
    BH_EQ(plan(&f).n, 0);
    f.pool.devices_n = 0; /* "running, no devices" is one empty slice */
    p = plan(&f);
    BH_EQ(p.n, 1);
    BH_EQ(p.ops[0].slice->spec.devices.n, 0);
    fix_done(&f);
}

BH_TEST(slices_deleted_by_somebody_come_back)
{
    struct fix f;
    struct bh_slice_plan p;

    fix_init(&f, 100);
    p = plan(&f);
    apply(&f, &p);
    forget(&f, f.objs[0]);
    p = plan(&f);
    BH_EQ(p.n, 2); /* the other one gets the new generation, the lost one is made again */
    BH_EQ(p.generation, 2);
    BH_EQ(p.ops[0].verb, BH_SLICE_UPDATE);
    BH_EQ(p.ops[1].verb, BH_SLICE_CREATE);
    apply(&f, &p);
    BH_EQ(plan(&f).n, 0);
    fix_done(&f);
}

BH_TEST(slices_of_shared_counters)
{
    struct bh_slice_plan p;
    struct bh_resource_v1_counter_set *sets;
    struct bh_gpu_profile gpus;
    struct fix f;

    fix_init(&f, 0);
    BH_EQ(bh_gpu_profile_load(f.a, BH_S("{count: 10, partitions: 2}"), 0, BH_S("n1"), &gpus, NULL),
          0);
    f.devs = bh_new_n(f.a, struct bh_resource_v1_device, gpus.n);
    for (size_t i = 0; i < gpus.n; i++)
        bh_gpu_to_device(f.a, &gpus.gpus[i], i, &f.devs[i]);
    f.pool.devices = f.devs;
    f.pool.devices_n = gpus.n;
    f.pool.counters_n = bh_gpu_counters(f.a, &gpus, &sets);
    f.pool.counters = sets;
    bh_slice_plan_make(f.a, &f.pool, f.objs, f.n, &p);
    BH_EQ(p.n, 3); /* 30 devices, and ten sets of counters in slices of their own */
    BH_EQ(p.ops[0].slice->spec.devices.n, 30);
    BH_EQ(p.ops[0].slice->spec.shared_counters.n, 0);
    BH_EQ(p.ops[1].slice->spec.devices.n, 0);
    BH_EQ(p.ops[1].slice->spec.shared_counters.n, 8);
    BH_EQ(p.ops[2].slice->spec.shared_counters.n, 2);
    BH_EQ(p.ops[2].slice->spec.pool.resource_slice_count, 3);
    apply(&f, &p);
    bh_slice_plan_make(f.a, &f.pool, f.objs, f.n, &p);
    BH_EQ(p.n, 0);
    sets[9].counters.p[0].value.value = BH_S("1Gi");
    bh_slice_plan_make(f.a, &f.pool, f.objs, f.n, &p);
    BH_EQ(p.n, 1);
    fix_done(&f);
}
