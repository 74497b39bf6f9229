/* Informers against a real API server, and against one that fails. */
#include "api/gen/core_v1.h"
#include "base/buf.h"
#include "base/test.h"
#include "client/flaky_test.h"
#include "client/world_test.h"

#define CM &bh_core_v1_config_map_kind

struct log {
    struct bh_informer *i;
    struct bh_buf text;
    const char *free_at; /* an event that makes the handler free the informer */
};

static void note(struct log *l, const char *what, const struct bh_obj *o)
{
    bh_buf_addf(&l->text, "%s%.*s ", what, BH_SF(o->name));
    if (l->free_at && bh_str_ends(bh_buf_str(&l->text), bh_s(l->free_at)))
        l->i = bh_informer_free(l->i);
}
static void added(void *arg, struct bh_obj *o)
{
    note(arg, "+", o);
}
static void updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    BH_CHECK(old->rv < o->rv);
    BH_SEQ(old->uid, o->uid);
    note(arg, "~", o);
}
static void deleted(void *arg, struct bh_obj *o)
{
    note(arg, "-", o);
}
static void synced(void *arg)
{
    struct log *l = arg;

    bh_buf_addz(&l->text, "synced ");
}
static const struct bh_informer_ops ops = {added, updated, deleted, synced};

static void open_informer(struct log *l, struct bh_client *c, const char *selector)
{
    *l = (struct log){0};
    l->i = bh_informer_new(c, CM, BH_S("default"), bh_s(selector), (struct bh_str){0}, &ops, l);
}
static void close_informer(struct log *l)
{
    l->i = bh_informer_free(l->i);
    bh_buf_done(&l->text);
}

BH_TEST(informer_follows_the_server)
{
    struct world w;
    struct log l;

    world_open(&w);
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"a\"}}");
    open_informer(&l, w.client, NULL);
    BH_EQ(l.text.n, 0); /* never inside the call */
    world_run(&w, 100);
    BH_STREQ(bh_buf_str(&l.text), "+a synced ");
    BH_CHECK(bh_informer_synced(l.i));
    bh_buf_clear(&l.text);
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"b\"}}");
    (void)world_merge(&w, CM, "default", "a", "", "{\"data\":{\"k\":\"v\"}}");
    world_delete(&w, CM, "default", "a", NULL);
    world_run(&w, 100);
    BH_STREQ(bh_buf_str(&l.text), "+b ~a -a ");
    BH_EQ(bh_informer_count(l.i), 1);
    BH_CHECK(bh_informer_get(l.i, BH_S("default"), BH_S("b")));
    BH_CHECK(!bh_informer_get(l.i, BH_S("default"), BH_S("a")));
    BH_CHECK(!bh_informer_get(l.i, (struct bh_str){0}, BH_S("b")));
    close_informer(&l);
    world_close(&w);
}

BH_TEST(informer_sees_what_enters_and_leaves_its_selector)
{
    struct world w;
    struct log l;

    world_open(&w);
    open_informer(&l, w.client, "on=yes");
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"a\"}}");
    (void)world_merge(&w, CM, "default", "a", "", "{\"metadata\":{\"labels\":{\"on\":\"yes\"}}}");
    (void)world_merge(&w, CM, "default", "a", "", "{\"metadata\":{\"labels\":{\"on\":\"no\"}}}");
    world_run(&w, 100);
    BH_STREQ(bh_buf_str(&l.text), "synced +a -a ");
    close_informer(&l);
    world_close(&w);
}

BH_TEST(informer_waits_for_a_server_and_resumes_where_it_was)
{
    struct world w;
    struct flaky f;
    struct log l;

    world_open(&w);
    flaky_init(&f, w.client);
    f.calls = f.watches = FLAKY_REFUSE;
    f.watch_end = BH_E_UNAVAILABLE;
    open_informer(&l, &f.base, NULL);
    world_run(&w, 60000);
    BH_CHECK(!bh_informer_synced(l.i));
    BH_CHECK(f.lists_n > 5 && f.lists_n < 20); /* 200 ms doubling to 10 s */
    f.calls = FLAKY_PASS;
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"a\"}}");
    world_run(&w, 20000);
    BH_STREQ(bh_buf_str(&l.text), "+a synced ");
    /* Watches are refused still: what happens meanwhile is not lost. */
    int lists = f.lists_n;
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"b\"}}");
    f.watches = FLAKY_PASS;
    world_run(&w, 20000);
    BH_STREQ(bh_buf_str(&l.text), "+a synced +b ");
    BH_EQ(f.lists_n, lists); /* from the version it had, without another list */
    close_informer(&l);
    (void)bh_client_free(&f.base);
    world_close(&w);
}

BH_TEST(informer_lists_again_when_its_version_expired)
{
    struct world w;
    struct flaky f;
    struct log l;

    world_open(&w);
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"gone\"}}");
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"remade\"}}");
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"same\"}}");
    flaky_init(&f, w.client);
    open_informer(&l, &f.base, NULL);
    f.watches = FLAKY_HANG;
    world_run(&w, 1000);
    bh_buf_clear(&l.text);
    world_delete(&w, CM, "default", "gone", NULL);
    world_delete(&w, CM, "default", "remade", NULL);
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"remade\"}}");
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"new\"}}");
    f.watches = FLAKY_REFUSE;
    f.watch_end = BH_E_GONE;
    world_run(&w, 700000); /* the hanging watch is given up after ten minutes and a half at most */
    BH_CHECK(bh_str_find(bh_buf_str(&l.text), BH_S("-gone ")) >= 0);
    BH_CHECK(bh_str_find(bh_buf_str(&l.text), BH_S("-remade +remade ")) >= 0);
    BH_CHECK(bh_str_find(bh_buf_str(&l.text), BH_S("+new ")) >= 0);
    BH_CHECK(bh_str_find(bh_buf_str(&l.text), BH_S("same")) < 0);
    BH_CHECK(bh_str_find(bh_buf_str(&l.text), BH_S("synced")) < 0); /* once in a life */
    BH_EQ(bh_informer_count(l.i), 3);
    /* A server that always says Expired is not asked in a tight loop. */
    int lists = f.lists_n;
    world_run(&w, 100000);
    BH_CHECK(f.lists_n - lists < 25);
    close_informer(&l);
    (void)bh_client_free(&f.base);
    world_close(&w);
}

BH_TEST(informer_pauses_before_repeating_a_watch_that_ends_at_once)
{
    struct world w;
    struct flaky f;
    struct log l;

    world_open(&w);
    flaky_init(&f, w.client);
    f.watches = FLAKY_REFUSE; /* in order, but at once */
    open_informer(&l, &f.base, NULL);
    world_run(&w, 100000);
    BH_CHECK(f.watches_n > 5 && f.watches_n < 30);
    BH_EQ(f.lists_n, 1);
    close_informer(&l);
    (void)bh_client_free(&f.base);
    world_close(&w);
}

BH_TEST(informer_takes_an_unserved_kind_for_an_empty_one)
{
    struct world w;
    struct flaky f;
    struct log l;

    world_open(&w);
    (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"a\"}}");
    flaky_init(&f, w.client);
    f.calls = FLAKY_REFUSE;
    f.refusal = BH_E_NOT_FOUND;
    open_informer(&l, &f.base, NULL);
    world_run(&w, 100);
    BH_STREQ(bh_buf_str(&l.text), "synced ");
    f.calls = FLAKY_PASS; /* the server learned the kind */
    world_run(&w, 60000);
    BH_STREQ(bh_buf_str(&l.text), "synced +a ");
    close_informer(&l);
    (void)bh_client_free(&f.base);
    world_close(&w);
}

BH_TEST(informer_may_be_freed_by_its_handlers)
{
    static const char *const at[] = {"+a ", "+b ", "~a ", "-a "};

    for (size_t i = 0; i < BH_COUNT(at); i++) {
        struct world w;
        struct log l;

        world_open(&w);
        (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"a\"}}");
        open_informer(&l, w.client, NULL);
        l.free_at = at[i];
        world_run(&w, 100);
        (void)world_make(&w, CM, "default", "{\"metadata\":{\"name\":\"b\"}}");
        (void)world_merge(&w, CM, "default", "a", "", "{\"data\":{\"k\":\"v\"}}");
        world_delete(&w, CM, "default", "a", NULL);
        world_run(&w, 100);
        BH_CHECK(l.i == NULL);
        BH_CHECK(bh_str_ends(bh_buf_str(&l.text), bh_s(at[i])));
        close_informer(&l);
        world_close(&w);
    }
}
