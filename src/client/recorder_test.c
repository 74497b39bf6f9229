/* Events: counted when they repeat, limited per object, remade when the server forgot them. */
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/test.h"
#include "client/world_test.h"

#define EV &bh_core_v1_event_kind

struct events {
    struct bh_obj *p[64];
    size_t n;
};

static void keep(void *arg, const struct bh_client_res *res)
{
    struct events *e = arg;

    for (size_t i = 0; i < res->items_n && e->n < 64; i++)
        e->p[e->n++] = bh_obj_ref(res->items[i]);
}
static struct events list(struct world *w)
{
    struct events e = {.n = 0};

    world_run(w, 1000);
    (void)bh_client_call(
        w->client, &(struct bh_client_req){.verb = BH_VERB_LIST, .kind = EV, .ns = BH_S("default")},
        keep, &e);
    world_run(w, 100);
    return e;
}
static void drop(struct events *e)
{
    while (e->n)
        (void)bh_obj_unref(e->p[--e->n]);
}

BH_TEST(recorder_writes_and_counts)
{
    struct world w;
    struct bh_recorder *r;
    struct bh_obj *o;
    const struct bh_core_v1_event *ev;
    struct events e;

    world_open(&w);
    r = bh_recorder_new(w.client, "tester", "host");
    o = world_make(&w, &bh_core_v1_config_map_kind, "default", "{\"metadata\":{\"name\":\"a\"}}");
    for (int i = 0; i < 3; i++)
        bh_event(r, o, "Warning", "Broken", "code %d", 7);
    bh_event(r, o, "Warning", "Broken", "code %d", 8); /* another message in the same turn */
    e = list(&w);
    BH_EQ(e.n, 2);
    for (size_t i = 0; i < e.n; i++) {
        ev = bh_obj_struct(e.p[i]);
        BH_EQ(ev->count, bh_str_eqc(ev->message, "code 7") ? 3 : 1);
        BH_STREQ(ev->reason, "Broken");
        BH_STREQ(ev->type, "Warning");
        BH_STREQ(ev->source.component, "tester");
        BH_STREQ(ev->reporting_component, "tester");
        BH_STREQ(ev->involved_object.kind, "ConfigMap");
        BH_SEQ(ev->involved_object.uid, o->uid);
        BH_CHECK(bh_str_starts(ev->metadata.name, BH_S("a.")));
    }
    /* The server forgets events after an hour: the next one is a new object. */
    for (size_t i = 0; i < e.n; i++)
        world_delete(&w, EV, "default", bh_str_dup(w.arena, e.p[i]->name).p, NULL);
    drop(&e);
    bh_event(r, o, "Warning", "Broken", "code %d", 7); /* finds out */
    world_run(&w, 1000);
    bh_event(r, o, "Warning", "Broken", "code %d", 7);
    e = list(&w);
    BH_EQ(e.n, 1);
    drop(&e);
    (void)bh_recorder_free(r);
    world_close(&w);
}

BH_TEST(recorder_limits_one_object)
{
    struct world w;
    struct bh_recorder *r;
    struct bh_obj *o, *other;
    struct events e;

    world_open(&w);
    r = bh_recorder_new(w.client, "tester", "");
    o = world_make(&w, &bh_core_v1_config_map_kind, "default", "{\"metadata\":{\"name\":\"a\"}}");
    other =
        world_make(&w, &bh_core_v1_config_map_kind, "default", "{\"metadata\":{\"name\":\"b\"}}");
    for (int i = 0; i < 40; i++)
        bh_event(r, o, "Normal", "Flood", "drop %d", i);
    bh_event(r, other, "Normal", "Flood", "another object has its own share");
    e = list(&w);
    BH_EQ(e.n, 26);
    drop(&e);
    world_run(&w, 301000);
    for (int i = 0; i < 3; i++)
        bh_event(r, o, "Normal", "Flood", "later %d", i);
    e = list(&w);
    BH_EQ(e.n, 27);
    drop(&e);
    (void)bh_recorder_free(r);
    world_close(&w);
}

BH_TEST(recorder_cuts_messages_between_characters)
{
    struct world w;
    struct bh_recorder *r;
    struct bh_obj *o;
    struct events e;
    char text[2 * BH_MESSAGE_BYTES_MAX];

    world_open(&w);
    r = bh_recorder_new(w.client, "tester", "");
    o = world_make(&w, &bh_core_v1_namespace_kind, NULL, "{\"metadata\":{\"name\":\"n\"}}");
    for (size_t i = 0; i + 3 < sizeof(text); i += 3) { /* U+2192, three bytes */
        text[i] = (char)0xE2, text[i + 1] = (char)0x86, text[i + 2] = (char)0x92;
        text[i + 3] = '\0';
    }
    bh_event(r, o, "Normal", "Long", "%s", text);
    e = list(&w); /* of a cluster-scoped object: in namespace default */
    BH_EQ(e.n, 1);
    if (e.n)
        BH_EQ(((const struct bh_core_v1_event *)bh_obj_struct(e.p[0]))->message.n,
              BH_MESSAGE_BYTES_MAX / 3 * 3);
    drop(&e);
    (void)bh_recorder_free(r);
    world_close(&w);
}

BH_TEST(recorder_memory_is_bounded)
{
    struct world w;
    struct bh_recorder *r;
    struct bh_obj *o;

    world_open(&w);
    r = bh_recorder_new(w.client, "tester", "");
    o = world_make(&w, &bh_core_v1_config_map_kind, "default", "{\"metadata\":{\"name\":\"a\"}}");
    for (int i = 0; i < 5000; i++) { /* as many objects: only their uids differ */
        struct bh_obj copy = *o;

        copy.uid = bh_str_fmt(w.arena, "%036d", i);
        bh_event(r, &copy, "Normal", "Many", "object %d", i);
        if (i % 500 == 0)
            world_run(&w, 100);
    }
    world_run(&w, 10000); /* they are written one after the other */
    BH_EQ(world_count(&w, EV, "default"), 5000);
    (void)bh_recorder_free(r);
    world_close(&w);
}
