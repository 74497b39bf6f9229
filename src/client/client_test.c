/* The in-process client: answers, errors, cancelling and freeing at every moment. */
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/test.h"
#include "client/client_int.h"
#include "client/client_wire.h"
#include "client/world_test.h"

#include <stdio.h>

#define CM &bh_core_v1_config_map_kind

struct seen {
    struct bh_client *client;
    uint64_t cancel; /* the answer cancels this call */
    bool free_client;
    int answers, events, ends;
    enum bh_code code;
    int status;
};

static void act(struct seen *s)
{
    if (s->cancel)
        bh_client_cancel(s->client, s->cancel);
    s->cancel = 0;
    if (s->free_client)
        s->client = bh_client_free(s->client);
    s->free_client = false;
}
static void answered(void *arg, const struct bh_client_res *res)
{
    struct seen *s = arg;

    s->answers++;
    s->code = res->err.code;
    s->status = res->status;
    act(s);
}
static void event(void *arg, enum bh_cw_type type, struct bh_obj *obj, uint64_t rv)
{
    struct seen *s = arg;

    BH_CHECK(type == BH_CW_BOOKMARK || obj->rv == rv);
    s->events++;
    act(s);
}
static void ended(void *arg, const struct bh_err *err)
{
    struct seen *s = arg;

    s->ends++;
    s->code = err->code;
    act(s);
}

static uint64_t ask(struct bh_client *c, struct seen *s, const char *name)
{
    return bh_client_call(
        c,
        &(struct bh_client_req){
            .verb = BH_VERB_GET, .kind = CM, .ns = BH_S("default"), .name = bh_s(name)},
        answered, s);
}
static uint64_t look(struct bh_client *c, struct seen *s, uint64_t rv)
{
    return bh_client_watch(
        c, &(struct bh_client_req){.verb = BH_VERB_WATCH, .kind = CM, .ns = BH_S("default")}, rv,
        &(struct bh_watch_handler){event, ended, s});
}

BH_TEST(client_answers_from_the_loop)
{
    struct world w;
    struct seen s = {0};

    world_open(&w);
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"v\"}}");
    (void)ask(w.client, &s, "a");
    BH_EQ(s.answers, 0);
    world_run(&w, 10);
    BH_EQ(s.answers, 1);
    BH_EQ(s.code, BH_OK);
    BH_EQ(s.status, 200);
    (void)ask(w.client, &s, "b");
    world_run(&w, 10);
    BH_EQ(s.code, BH_E_NOT_FOUND);
    BH_EQ(s.status, 404);
    world_close(&w);
}

BH_TEST(client_tells_why)
{
    struct world w;

    world_open(&w);
    BH_CHECK(!world_get(&w, CM, "default", "x"));
    BH_STREQ(w.message, "configmaps \"x\" not found");
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"a\"}}");
    (void)world_call(&w, &(struct bh_client_req){.verb = BH_VERB_CREATE,
                                                 .kind = CM,
                                                 .ns = BH_S("default"),
                                                 .body = BH_S("{\"metadata\":{\"name\":\"a\"}}")});
    BH_EQ(w.code, BH_E_EXISTS);
    BH_STREQ(w.message, "configmaps \"a\" already exists");
    BH_EQ(world_count(&w, CM, "default"), 1);
    world_close(&w);
}

BH_TEST(client_short_forms)
{
    struct world w;
    struct seen s = {0};
    struct bh_core_v1_config_map cm = {.metadata = {.name = BH_S("a")}};
    struct bh_obj *o;

    world_open(&w);
    (void)bh_client_create(w.client, CM, BH_S("default"), &cm, answered, &s);
    world_run(&w, 10);
    BH_EQ(s.status, 201);
    o = world_get(&w, CM, "default", "a");
    cm = *(const struct bh_core_v1_config_map *)bh_obj_struct(o);
    cm.metadata.labels = (struct bh_str_map){&(struct bh_str_pair){BH_S("l"), BH_S("1")}, 1};
    (void)bh_client_update(w.client, CM, &cm, "", answered, &s);
    world_run(&w, 10);
    BH_EQ(s.status, 200);
    (void)bh_client_update(w.client, CM, &cm, "", answered, &s); /* with the version it had */
    world_run(&w, 10);
    BH_EQ(s.code, BH_E_CONFLICT);
    (void)bh_client_delete(w.client, CM, BH_S("default"), BH_S("a"),
                           BH_S("00000000-0000-4000-8000-000000000000"), -1, answered, &s);
    world_run(&w, 10);
    BH_EQ(s.code, BH_E_CONFLICT);
    (void)bh_client_delete(w.client, CM, BH_S("default"), BH_S("a"), o->uid, -1, answered, &s);
    world_run(&w, 10);
    BH_EQ(s.code, BH_OK);
    BH_EQ(world_count(&w, CM, "default"), 0);
    world_close(&w);
}

BH_TEST(client_cancelled_calls_stay_silent)
{
    struct world w;
    struct seen a = {0}, b = {0}, c = {0};

    world_open(&w);
    bh_client_cancel(w.client, ask(w.client, &a, "x")); /* before it began */
    a.client = b.client = w.client;
    (void)ask(w.client, &a, "x");
    a.cancel = ask(w.client, &b, "x"); /* in the same turn, by the answer before it */
    bh_client_cancel(w.client, 0);
    bh_client_cancel(w.client, 123456);
    world_run(&w, 10);
    BH_EQ(a.answers, 1);
    BH_EQ(b.answers, 0);
    a.cancel = look(w.client, &c, 0);
    (void)ask(w.client, &a, "x");
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"a\"}}");
    world_run(&w, 100);
    BH_EQ(a.answers, 2);
    BH_EQ(c.events, 0);
    BH_EQ(c.ends, 0);
    world_close(&w);
}

BH_TEST(client_write_survives_its_cancellation)
{
    struct world w;
    struct seen s = {0};
    struct bh_core_v1_config_map cm = {.metadata = {.name = BH_S("a")}};
    uint64_t id;

    world_open(&w);
    id = bh_client_create(w.client, CM, BH_S("default"), &cm, answered, &s);
    world_run(&w, 0); /* the server has it, the store does not answer yet */
    bh_client_cancel(w.client, id);
    world_run(&w, 100);
    BH_EQ(s.answers, 0);
    BH_CHECK(world_get(&w, CM, "default", "a"));
    world_close(&w);
}

BH_TEST(client_watch_ends_once)
{
    struct world w;
    struct seen s = {0};
    struct bh_client *c;

    world_open(&w);
    c = world_client(&w, "admin", "system:masters");
    s.client = c;
    s.cancel = look(c, &s, 0); /* its first event cancels it */
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"a\"}}");
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"b\"}}");
    world_run(&w, 100);
    BH_EQ(s.events, 1);
    BH_EQ(s.ends, 0);
    (void)look(c, &s, 1); /* a version of before the server's life */
    world_run(&w, 100);
    BH_CHECK(s.ends == 1 ? s.code == BH_E_GONE : s.events >= 3);
    (void)bh_client_free(c);
    world_close(&w);
}

BH_TEST(client_may_be_freed_in_any_callback)
{
    struct world w;

    world_open(&w);
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"a\"}}");
    for (int where = 0; where < 3; where++) {
        struct seen s = {.client = world_client(&w, "admin", "system:masters"),
                         .free_client = true};
        struct seen other = {0};

        if (where == 0)
            (void)ask(s.client, &s, "a");
        else
            (void)look(s.client, &s, where == 1 ? 0 : 1);
        (void)ask(s.client, &other, "a");
        (void)look(s.client, &other, 0);
        world_run(&w, 10);
        (void)world_make(&w, CM, "default", "{\"metadata\":{\"generateName\":\"b\"}}");
        world_run(&w, 10);
        BH_CHECK(s.client == NULL);
        BH_EQ(s.answers + s.events + s.ends, 1);
        BH_EQ(other.answers + other.events + other.ends, 0);
    }
    world_close(&w);
}

BH_TEST(client_leaves_nothing_when_the_loop_ends_first)
{
    struct world w;
    struct seen s = {0};

    world_open(&w);
    (void)ask(w.client, &s, "a"); /* never started: the leak checker watches */
    world_close(&w);
    BH_EQ(s.answers, 0);
}

BH_TEST(client_is_who_it_says)
{
    struct world w;
    struct seen s = {0};
    struct bh_client *c;

    world_open(&w);
    c = world_client(&w, "nobody", NULL);
    (void)ask(c, &s, "a");
    world_run(&w, 10);
    BH_EQ(s.code, BH_E_FORBIDDEN);
    (void)bh_client_free(c);
    world_close(&w);
}

BH_TEST(client_urls)
{
    BH_AUTO_BUF b = {0};

    bh_client_url(&b,
                  &(struct bh_client_req){.verb = BH_VERB_LIST,
                                          .kind = CM,
                                          .label_selector = BH_S("a in (b,c)"),
                                          .query = BH_S("limit=5")},
                  0);
    BH_STREQ(bh_buf_str(&b), "/api/v1/configmaps?labelSelector=a%20in%20%28b%2Cc%29&limit=5");
    bh_buf_clear(&b);
    bh_client_url(&b,
                  &(struct bh_client_req){.verb = BH_VERB_WATCH,
                                          .kind = &bh_core_v1_pod_kind,
                                          .ns = BH_S("n"),
                                          .field_selector = BH_S("spec.nodeName=a"),
                                          .query = BH_S("allowWatchBookmarks=true")},
                  7);
    BH_STREQ(bh_buf_str(&b), "/api/v1/namespaces/n/pods?watch=true&resourceVersion=7&fieldSelector="
                             "spec.nodeName%3Da&allowWatchBookmarks=true");
}

BH_TEST(client_statuses)
{
    static const struct {
        int http;
        const char *body;
        enum bh_code code;
        const char *message;
    } t[] = {
        {409, "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"message\":\"m\",\"code\":409}",
         BH_E_EXISTS, "m"},
        {409, "{\"kind\":\"Status\",\"reason\":\"Conflict\",\"message\":\"m\",\"code\":409}",
         BH_E_CONFLICT, "m"},
        {0, "{\"kind\":\"Status\",\"reason\":\"Gone\",\"message\":\"m\",\"code\":410}", BH_E_GONE,
         "m"},
        {410, "{\"kind\":\"Status\",\"reason\":\"Expired\",\"code\":410}", BH_E_GONE, ""},
        {404, "404 page not found\n", BH_E_NOT_FOUND, "HTTP status 404"},
        {502, "<html>", BH_E_INTERNAL, "HTTP status 502"},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_client_res res = {0};

        bh_client_status(a, t[i].http, bh_s(t[i].body), &res);
        BH_EQ(res.err.code, t[i].code);
        BH_STREQ(bh_s(res.err.msg), t[i].message);
    }
}

/* ---- what a server sends ---- */

#define EVENT(type, name, rv)                                                                      \
    "{\"type\":\"" type                                                                            \
    "\",\"object\":{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{"                   \
    "\"name\":\"" name "\",\"namespace\":\"n\",\"resourceVersion\":\"" rv "\"}}}\n"

BH_TEST(wire_watch_in_pieces_of_every_size)
{
    static const char stream[] =
        EVENT("ADDED", "a", "1") "\n" EVENT("MODIFIED", "a", "2") EVENT("NEWS", "a", "3")
            EVENT("DELETED", "a", "4") "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"ConfigMap\","
                                       "\"metadata\":{\"resourceVersion\":\"9\"}}}\n{\"type\":";

    for (size_t piece = 1; piece <= sizeof(stream); piece++) {
        struct bh_lines l = {.buf = {.max = 4096}};
        struct bh_wire_seen seen = {0};
        BH_AUTO_BUF got = {0};
        struct bh_str line;

        for (size_t at = 0; at < sizeof(stream) - 1; at += piece) {
            bh_lines_feed(&l, bh_str_sub(bh_s(stream), at, at + piece));
            while (bh_lines_next(&l, &line)) {
                struct bh_wire_event ev = {0};
                struct bh_err err = {0};
                int r = line.n ? bh_wire_event(CM, &seen, line, &ev, &err) : 1;

                BH_CHECK(r >= 0);
                if (r == 0)
                    bh_buf_addf(&got, "%d%c%llu ", (int)ev.type, ev.obj ? '+' : '-',
                                (unsigned long long)ev.rv);
                (void)bh_obj_unref(ev.obj);
            }
        }
        BH_STREQ(bh_buf_str(&got), "0+1 1+2 2+4 3-9 ");
        BH_STREQ(bh_lines_rest(&l), "{\"type\":");
        bh_buf_done(&l.buf);
        bh_wire_seen_done(&seen);
    }
}

BH_TEST(wire_lines_are_bounded)
{
    struct bh_lines l = {.buf = {.max = 16}};
    struct bh_str line;

    for (int i = 0; i < 100; i++) { /* many short ones pass */
        bh_lines_feed(&l, BH_S("abc\nde"));
        while (bh_lines_next(&l, &line))
            BH_CHECK(line.n == 3 || line.n == 5);
    }
    BH_CHECK(!l.buf.overflow);
    bh_lines_feed(&l, BH_S("0123456789abcdef"));
    BH_CHECK(l.buf.overflow);
    bh_buf_done(&l.buf);
}

BH_TEST(wire_events_that_are_wrong)
{
    static const struct {
        const char *line;
        int r;
    } t[] = {
        {"", -BH_E_PROTO},
        {"{}", -BH_E_PROTO},
        {"[1]", -BH_E_PROTO},
        {"7", -BH_E_PROTO},
        {"{\"type\":\"ADDED\"}", -BH_E_PROTO},
        {"{\"type\":\"ADDED\",\"object\":{\"kind\":\"ConfigMap\"", -BH_E_PROTO},
        {"{\"type\":7,\"object\":{}}", -BH_E_PROTO},
        {"{\"type\":\"ADDED\",\"object\":[]}", -BH_E_PROTO},
        {"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}"
         "}",
         -BH_E_GONE},
        {"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500}}", -BH_E_INTERNAL},
        {"{\"type\":\"ERROR\",\"object\":7}", -BH_E_INTERNAL},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct bh_wire_seen seen = {0};
        struct bh_wire_event ev = {0};
        struct bh_err err = {0};

        BH_EQ(bh_wire_event(CM, &seen, bh_s(t[i].line), &ev, &err), t[i].r);
        BH_CHECK(!ev.obj);
    }
}

/* Servers may write the members of an event in any order, and more of them. */
BH_TEST(wire_events_in_other_forms)
{
#define OBJECT "{\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"3\"}}"
    static const char *const t[] = {
        "{\"type\":\"MODIFIED\",\"object\":" OBJECT "}",
        "{\"type\":\"MODIFIED\",\"object\":" OBJECT "}\r",
        "{\"object\":" OBJECT ",\"type\":\"MODIFIED\"}",
        " { \"type\" : \"MODIFIED\" , \"object\" : " OBJECT " } ",
        "{\"type\":\"MODIFIED\",\"object\":" OBJECT ",\"more\":{}}",
        "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{}},\"object\":" OBJECT "}",
        "{\"type\":\"M\\u004fDIFIED\",\"object\":" OBJECT "}",
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        struct bh_wire_seen seen = {0};
        struct bh_wire_event ev = {0};

        BH_EQ(bh_wire_event(CM, &seen, bh_s(t[i]), &ev, NULL), 0);
        BH_EQ(ev.type, BH_CW_MODIFIED);
        BH_EQ(ev.rv, 3);
        BH_STREQ(ev.obj ? ev.obj->json : BH_S(""), OBJECT);
        (void)bh_obj_unref(ev.obj);
        bh_wire_seen_done(&seen);
    }
}

/* What was written is not read again when its event comes. */
BH_TEST(wire_objects_are_read_once)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_wire_seen seen = {0};
    struct bh_wire_event ev = {0}, other = {0};
    struct bh_obj *o;
    char text[160];

    o = bh_wire_object(a, CM, &seen,
                       BH_S("{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":"
                            "\"a\",\"resourceVersion\":\"1\"}}\n"));
    BH_CHECK(o != NULL);
    BH_EQ(
        bh_wire_event(CM, &seen,
                      BH_S("{\"type\":\"ADDED\",\"object\":{\"kind\":\"ConfigMap\",\"apiVersion\":"
                           "\"v1\",\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}}"),
                      &ev, NULL),
        0);
    BH_CHECK(ev.obj == o);
    BH_EQ(
        bh_wire_event(&bh_core_v1_secret_kind, &seen,
                      BH_S("{\"type\":\"ADDED\",\"object\":{\"kind\":\"ConfigMap\",\"apiVersion\":"
                           "\"v1\",\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}}"),
                      &other, NULL),
        0);
    BH_CHECK(other.obj != o); /* of another kind: another struct */
    (void)bh_obj_unref(other.obj);
    for (int i = 0; i < 100; i++) { /* it is forgotten after a while */
        struct bh_wire_event e = {0};

        (void)snprintf(
            text, sizeof(text),
            "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"%d\"}}}", i + 2);
        BH_EQ(bh_wire_event(CM, &seen, bh_s(text), &e, NULL), 0);
        (void)bh_obj_unref(e.obj);
    }
    BH_EQ(o->refs, 2);
    (void)bh_obj_unref(o);
    (void)bh_obj_unref(ev.obj);
    bh_wire_seen_done(&seen);
}

BH_TEST(wire_lists)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_client_res res = {0};

    bh_wire_list(
        a, CM,
        BH_S("{\"kind\":\"ConfigMapList\",\"metadata\":{\"resourceVersion\":\"12\",\"x\":[1]},"
             "\"items\":[{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"3\"}},{"
             "\"metadata\":{\"name\":\"b\",\"resourceVersion\":\"4\"}}]}"),
        &res);
    BH_EQ(res.err.code, BH_OK);
    BH_EQ(res.list_rv, 12);
    BH_EQ(res.items_n, 2);
    BH_CHECK(res.items_n == 2 && bh_str_eqc(res.items[1]->name, "b") && res.items[1]->rv == 4);
    for (size_t i = 0; i < res.items_n; i++)
        (void)bh_obj_unref(res.items[i]);
    res = (struct bh_client_res){0};
    bh_wire_list(a, CM, BH_S("{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":null}"), &res);
    BH_EQ(res.err.code, BH_OK);
    BH_EQ(res.items_n, 0);
    static const char *const wrong[] = {"",
                                        "[]",
                                        "7",
                                        "{\"items\":{}}",
                                        "{\"metadata\":[]}",
                                        "{\"items\":7}",
                                        "{\"items\":[",
                                        "{\"metadata\":7}"};
    for (size_t i = 0; i < BH_COUNT(wrong); i++) {
        res = (struct bh_client_res){0};
        bh_wire_list(a, CM, bh_s(wrong[i]), &res);
        BH_EQ(res.err.code, BH_E_PROTO);
    }
    res = (struct bh_client_res){0};
    bh_wire_list(a, CM, BH_S("{\"items\":[{\"metadata\":{\"name\":\"a\"}},7]}"), &res);
    BH_EQ(res.err.code, BH_E_PROTO);
    for (size_t i = 0; i < res.items_n; i++)
        (void)bh_obj_unref(res.items[i]);
}
