/* Publishing to a real API server on a virtual loop. */
#include "driver/slice_publish.h"

#include <string.h>

#include "api/gen/core_v1.h"
#include "api/gen/resource_v1.h"
#include "base/arena.h"
#include "base/test.h"
#include "client/world_test.h"

#define SLICE (&bh_resource_v1_resource_slice_kind)

struct fix {
    struct world w;
    struct bh_informer *seen; /* what is published */
    struct bh_slice_publisher *p;
    struct bh_resource_v1_device devices[100];
};

static void begin(struct fix *f, const char *gates)
{
    static const struct bh_informer_ops none = {0};

    memset(f, 0, sizeof(*f));
    world_open_with(&f->w, gates);
    (void)world_make(&f->w, &bh_core_v1_node_kind, "", "{\"metadata\":{\"name\":\"n1\"}}");
    f->seen = bh_informer_new(f->w.client, SLICE, BH_S(""), BH_S(""), BH_S(""), &none, NULL);
    f->p = bh_slice_publisher_new(f->w.client, "d.example.com", "n1");
    for (size_t i = 0; i < BH_COUNT(f->devices); i++)
        f->devices[i].name = bh_str_fmt(f->w.arena, "d%zu", i);
}

static void end(struct fix *f)
{
    f->p = bh_slice_publisher_free(f->p);
    f->seen = bh_informer_free(f->seen);
    world_close(&f->w);
}

static void publish(struct fix *f, size_t n, const struct bh_resource_v1_counter_set *counters,
                    size_t counters_n)
{
    bh_slice_publisher_set(f->p, f->devices, n, counters, counters_n);
    world_run(&f->w, 1000);
}

/* The slice whose name begins so; NULL: none. */
static const struct bh_obj *find(const struct fix *f, const char *prefix)
{
    struct bh_obj *o;

    for (size_t it = 0; (o = bh_informer_next(f->seen, &it));)
        if (bh_str_starts(o->name, bh_s(prefix)))
            return o;
    return NULL;
}

/* The sum of the versions of what is published: any write raises it. */
static uint64_t versions(const struct fix *f)
{
    struct bh_obj *o;
    uint64_t sum = 0;

    for (size_t it = 0; (o = bh_informer_next(f->seen, &it));)
        sum += o->rv;
    return sum;
}

static int64_t generation(const struct bh_obj *o)
{
    return o ? ((const struct bh_resource_v1_resource_slice *)bh_obj_struct(o))
                   ->spec.pool.generation
             : 0;
}

/* Upstream's helper overlooks that for a minute, as its cache of own writes hides it. */
BH_TEST(publisher_notices_that_a_new_slice_was_deleted)
{
    struct fix f;

    begin(&f, NULL);
    publish(&f, 100, NULL, 0);
    BH_EQ(bh_informer_count(f.seen), 2);
    BH_CHECK(bh_slice_publisher_settled(f.p));
    world_delete(&f.w, SLICE, "", bh_str_dup(f.w.arena, find(&f, "00001-")->name).p, NULL);
    world_run(&f.w, 29000);
    BH_CHECK(find(&f, "00001-") == NULL);
    world_run(&f.w, 2000);
    BH_EQ(generation(find(&f, "00000-")), 2);
    BH_EQ(generation(find(&f, "00001-")), 2);
    end(&f);
}

BH_TEST(publisher_takes_what_the_server_keeps)
{
    struct bh_resource_v1_device_counter_consumption use = {.counter_set = BH_S("set")};
    struct bh_resource_v1_counter_set set = {.name = BH_S("set")};
    struct fix f;
    uint64_t after;

    begin(&f, "DRAPartitionableDevices=false");
    set.counters.p = bh_arena_alloc(f.w.arena, sizeof(*set.counters.p));
    set.counters.p[0].key = BH_S("slots");
    set.counters.p[0].value.value = BH_S("2");
    set.counters.n = 1;
    use.counters.p = set.counters.p;
    use.counters.n = 1;
    f.devices[0].consumes_counters.p = &use;
    f.devices[0].consumes_counters.n = 1;
    publish(&f, 2, &set, 1);
    BH_STREQ(bh_s(bh_slice_publisher_fault(f.p)),
             "the API server dropped fields, features that may be off: DRAPartitionableDevices");
    BH_CHECK(find(&f, "00000-") != NULL);
    world_run(&f.w, 65000); /* until own writes are not believed in any more */
    after = versions(&f);
    world_run(&f.w, 600000);
    BH_EQ(versions(&f), after);
    BH_EQ(bh_informer_count(f.seen), 1);
    end(&f);
}

BH_TEST(publisher_refuses_what_cannot_be)
{
    struct bh_resource_v1_device_counter_consumption use = {.counter_set = BH_S("none")};
    struct bh_resource_v1_counter_set sets[2] = {{.name = BH_S("s")}, {.name = BH_S("s")}};
    struct fix f;

    begin(&f, NULL);
    publish(&f, 1, NULL, 0);
    BH_CHECK(bh_slice_publisher_fault(f.p) == NULL);
    f.devices[1].name = f.devices[0].name;
    publish(&f, 3, NULL, 0);
    BH_STREQ(bh_s(bh_slice_publisher_fault(f.p)), "duplicate device: d0");
    world_run(&f.w, 120000);
    BH_EQ(generation(find(&f, "00000-")), 1); /* nothing was written */
    f.devices[1].name = BH_S("other");
    publish(&f, 3, sets, 2);
    BH_STREQ(bh_s(bh_slice_publisher_fault(f.p)), "duplicate counter set: s");
    f.devices[1].consumes_counters.p = &use;
    f.devices[1].consumes_counters.n = 1;
    publish(&f, 3, NULL, 0);
    BH_STREQ(bh_s(bh_slice_publisher_fault(f.p)),
             "counters of a set that does not have them: none");
    f.devices[1].consumes_counters.n = 0;
    publish(&f, 3, NULL, 0);
    BH_CHECK(bh_slice_publisher_fault(f.p) == NULL);
    BH_EQ(((const struct bh_resource_v1_resource_slice *)bh_obj_struct(find(&f, "00000-")))
              ->spec.devices.n,
          3);
    end(&f);
}
