/* The HTTPS client against a real API server on loopback: calls, lists, watches, a server that is
 * killed and comes back, and peers that must not be trusted. */
#include <stdio.h>
#include <stdlib.h>

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "apiserver/apiserver.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "client/client_int.h"
#include "client/kubeconfig.h"
#include "net/loop.h"
#include "net/pki.h"
#include "store/store.h"

#define CM       &bh_core_v1_config_map_kind
#define LIMIT_MS 20000

struct site {
    char dir[64];
    struct bh_arena *a;
    struct bh_loop *loop;
    struct bh_store *store;
    struct bh_apiserver *srv;
    struct bh_client *client;
    int port;
    struct bh_err err;
    bool timed_out;
};

static const char *path(struct site *s, const char *name)
{
    return bh_str_fmt(s->a, "%s/%s", s->dir, name).p;
}

static void serve(struct site *s)
{
    struct bh_apiserver_opts o = {.token_auth_file = path(s, "tokens.csv"),
                                  .disable_admission = "ServiceAccount"};
    struct bh_apiserver_listen_opts lo = {
        .bind_address = "127.0.0.1", .port = s->port, .cert_dir = path(s, "pki")};

    BH_EQ(bh_apiserver_new(s->loop, s->store, &o, &s->srv, &s->err), 0);
    BH_EQ(bh_apiserver_listen(s->srv, &lo, &s->port, &s->err), 0);
    if (s->err.code)
        bh_test_fail(__FILE__, __LINE__, "%s", s->err.msg);
}

/* A kubeconfig for this server; ca and token as given. */
static const char *config(struct site *s, const char *name, struct bh_str ca, const char *token)
{
    const struct bh_kubeconfig_new k = {.name = BH_S("k"),
                                        .server = bh_str_fmt(s->a, "https://127.0.0.1:%d", s->port),
                                        .ca_pem = ca,
                                        .token = bh_s(token)};

    BH_EQ(bh_kubeconfig_write(path(s, name), &k, &s->err), 0);
    return path(s, name);
}

static struct bh_str own_ca(struct site *s)
{
    BH_AUTO_BUF b = {.max = 65536};

    BH_EQ(bh_fs_read(path(s, "pki/ca.crt"), 65536, &b, &s->err), 0);
    return bh_str_dup(s->a, bh_buf_str(&b));
}

static void open_site(struct site *s)
{
    *s = (struct site){.dir = "/tmp/bh-https.XXXXXX", .a = bh_arena_new(0)};
    BH_CHECK(mkdtemp(s->dir) != NULL);
    BH_EQ(bh_fs_write_plain(path(s, "tokens.csv"),
                            BH_S("secret,root,1,\"system:masters\"\nweak,someone,2\n"), 0600,
                            &s->err),
          0);
    s->loop = bh_loop_new_real(&s->err);
    s->store = bh_store_new_memory(s->loop);
    serve(s);
    s->client = bh_client_new_kubeconfig(s->loop, config(s, "kubeconfig", own_ca(s), "secret"),
                                         "test", &s->err);
    BH_CHECK(s->client != NULL);
}

static void stop(void *arg)
{
    bh_loop_stop(((struct site *)arg)->loop);
}

static void run_ms(struct site *s, int64_t ms)
{
    struct bh_timer t;

    bh_timer_init(&t, s->loop, stop, s);
    bh_timer_start(&t, ms);
    bh_loop_run(s->loop);
    bh_timer_stop(&t);
}

static void close_site(struct site *s)
{
    (void)bh_client_free(s->client);
    (void)bh_apiserver_free(s->srv);
    run_ms(s, 50); /* a commit under way ends on the loop */
    (void)bh_store_free(s->store);
    (void)bh_loop_free(s->loop);
    BH_EQ(bh_fs_remove_tree(s->dir, &s->err), 0);
    (void)bh_arena_free(s->a);
}

static void too_long(void *arg)
{
    struct site *s = arg;

    s->timed_out = true;
    bh_loop_stop(s->loop);
}

/* Runs until somebody stops the loop. */
static void run(struct site *s)
{
    struct bh_timer t;

    bh_timer_init(&t, s->loop, too_long, s);
    bh_timer_start(&t, LIMIT_MS);
    bh_loop_run(s->loop);
    bh_timer_stop(&t);
    if (s->timed_out)
        bh_test_fail(__FILE__, __LINE__, "nothing happened in time");
    s->timed_out = false;
}

struct answer {
    struct site *s;
    struct bh_client *free_me; /* freed by the callback */
    int n;
    enum bh_code code;
    int status;
    size_t items_n;
    struct bh_obj *obj;
    char message[BH_ERR_MSG_MAX];
};

static void answered(void *arg, const struct bh_client_res *res)
{
    struct answer *a = arg;

    a->n++;
    a->code = res->err.code;
    a->status = res->status;
    a->items_n = res->items_n;
    a->obj = res->obj ? bh_obj_ref(res->obj) : NULL;
    (void)snprintf(a->message, sizeof(a->message), "%s", res->err.msg);
    if (a->free_me)
        a->free_me = bh_client_free(a->free_me);
    bh_loop_stop(a->s->loop);
}

static struct answer ask(struct site *s, struct bh_client *c, const struct bh_client_req *req)
{
    struct answer a = {.s = s};

    (void)bh_client_call(c, req, answered, &a);
    run(s);
    BH_EQ(a.n, 1);
    return a;
}

static struct answer make(struct site *s, const char *name)
{
    struct bh_str body = bh_str_fmt(s->a, "{\"metadata\":{\"name\":\"%s\"}}", name);
    struct answer a =
        ask(s, s->client,
            &(struct bh_client_req){
                .verb = BH_VERB_CREATE, .kind = CM, .ns = BH_S("default"), .body = body});

    BH_EQ(a.status, 201);
    return a;
}

static const struct bh_client_req list_req = {
    .verb = BH_VERB_LIST, .kind = CM, .ns = BH_S_INIT("default")};

BH_TEST(https_calls)
{
    struct site s;
    struct answer a;

    open_site(&s);
    a = make(&s, "a");
    BH_CHECK(a.obj && bh_str_eqc(a.obj->name, "a") && a.obj->rv > 0);
    (void)bh_obj_unref(a.obj);
    a = ask(&s, s.client,
            &(struct bh_client_req){
                .verb = BH_VERB_GET, .kind = CM, .ns = BH_S("default"), .name = BH_S("b")});
    BH_EQ(a.code, BH_E_NOT_FOUND);
    BH_STREQ(bh_s(a.message), "configmaps \"b\" not found");
    a = ask(&s, s.client,
            &(struct bh_client_req){.verb = BH_VERB_PATCH,
                                    .kind = CM,
                                    .ns = BH_S("default"),
                                    .name = BH_S("a"),
                                    .patch = BH_PATCH_STRATEGIC,
                                    .body = BH_S("{\"data\":{\"k\":\"v\"}}")});
    BH_EQ(a.code, BH_OK);
    (void)bh_obj_unref(a.obj);
    a = ask(&s, s.client,
            &(struct bh_client_req){
                .verb = BH_VERB_DELETE, .kind = CM, .ns = BH_S("default"), .name = BH_S("a")});
    BH_EQ(a.code, BH_OK);
    BH_CHECK(!a.obj); /* a Status is no object of the kind */
    close_site(&s);
}

BH_TEST(https_lists_a_thousand)
{
    struct site s;
    struct answer a;
    int left = 0;

    open_site(&s);
    for (int i = 0; i < 1000; i++) {
        struct bh_core_v1_config_map cm = {.metadata = {.name = bh_str_fmt(s.a, "cm-%d", i)}};

        (void)bh_client_create(s.client, CM, BH_S("default"), &cm, NULL, NULL);
        left++;
    }
    for (int i = 0; i < 200; i++) {
        run_ms(&s, 50);
        a = ask(&s, s.client, &list_req);
        if (a.items_n == 1000)
            break;
    }
    BH_EQ(a.items_n, 1000);
    BH_EQ(a.code, BH_OK);
    close_site(&s);
}

struct log {
    struct site *s;
    struct bh_buf text;
    const char *until; /* the loop stops when the text ends with this */
};

static void note(struct log *l, const char *what, const struct bh_obj *o)
{
    bh_buf_addf(&l->text, "%s%.*s ", what, BH_SF(o->name));
    if (l->until && bh_str_ends(bh_buf_str(&l->text), bh_s(l->until)))
        bh_loop_stop(l->s->loop);
}
static void added(void *arg, struct bh_obj *o)
{
    note(arg, "+", o);
}
static void updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    (void)old;
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
    bh_loop_stop(l->s->loop);
}
static const struct bh_informer_ops ops = {added, updated, deleted, synced};

BH_TEST(https_informer_outlives_its_server)
{
    struct site s;
    struct log l;
    struct bh_informer *i;

    open_site(&s);
    l = (struct log){.s = &s};
    (void)bh_obj_unref(make(&s, "kept").obj);
    (void)bh_obj_unref(make(&s, "gone").obj);
    i = bh_informer_new(s.client, CM, BH_S("default"), (struct bh_str){0}, (struct bh_str){0}, &ops,
                        &l);
    run(&s);
    BH_CHECK(bh_str_ends(bh_buf_str(&l.text), BH_S("synced ")));
    bh_buf_clear(&l.text);
    l.until = "+b ";
    (void)bh_obj_unref(make(&s, "b").obj);
    if (!bh_str_ends(bh_buf_str(&l.text), BH_S("+b ")))
        run(&s);
    BH_STREQ(bh_buf_str(&l.text), "+b ");

    s.srv = bh_apiserver_free(s.srv); /* every connection breaks */
    run_ms(&s, 1500);
    BH_EQ(bh_informer_count(i), 3); /* the last known state stands */
    serve(&s);
    l.until = "+c ";
    (void)bh_client_delete(s.client, CM, BH_S("default"), BH_S("gone"), (struct bh_str){0}, -1,
                           NULL, NULL);
    (void)bh_obj_unref(make(&s, "c").obj);
    if (!bh_str_ends(bh_buf_str(&l.text), BH_S("+c ")))
        run(&s);
    BH_STREQ(bh_buf_str(&l.text), "+b -gone +c "); /* resumed: nothing twice, nothing lost */
    (void)bh_informer_free(i);
    bh_buf_done(&l.text);
    close_site(&s);
}

struct watching {
    struct site *s;
    int events;
    struct bh_err end;
};
static void watch_event(void *arg, enum bh_cw_type type, struct bh_obj *obj, uint64_t rv)
{
    (void)type, (void)obj, (void)rv;
    ((struct watching *)arg)->events++;
}
static void watch_ended(void *arg, const struct bh_err *err)
{
    struct watching *w = arg;

    w->end = *err;
    bh_loop_stop(w->s->loop);
}

BH_TEST(https_watch_from_an_expired_version)
{
    struct site s;
    struct watching w;

    open_site(&s);
    w = (struct watching){.s = &s};
    for (int i = 0; i < 3; i++)
        (void)bh_obj_unref(make(&s, bh_str_fmt(s.a, "cm-%d", i).p).obj);
    s.srv = bh_apiserver_free(s.srv);
    BH_EQ(bh_store_compact(s.store, bh_store_rev(s.store), &s.err), 0);
    serve(&s); /* what it knows begins after all of it */
    (void)bh_client_watch(
        s.client, &(struct bh_client_req){.verb = BH_VERB_WATCH, .kind = CM, .ns = BH_S("default")},
        2, &(struct bh_watch_handler){watch_event, watch_ended, &w});
    run(&s);
    BH_EQ(w.end.code, BH_E_GONE);
    BH_EQ(w.events, 0);
    close_site(&s);
}

BH_TEST(https_watch_ends_in_order)
{
    struct site s;
    struct watching w;

    open_site(&s);
    w = (struct watching){.s = &s};
    (void)bh_client_watch(s.client,
                          &(struct bh_client_req){.verb = BH_VERB_WATCH,
                                                  .kind = CM,
                                                  .ns = BH_S("default"),
                                                  .query = BH_S("timeoutSeconds=1")},
                          0, &(struct bh_watch_handler){watch_event, watch_ended, &w});
    run(&s);
    if (w.end.code != BH_OK)
        bh_test_fail(__FILE__, __LINE__, "the watch ended with: %s", w.end.msg);
    close_site(&s);
}

BH_TEST(https_refuses_a_server_of_another_ca)
{
    struct site s;
    struct bh_pki_pair ca;
    struct bh_client *c;
    struct answer a;

    open_site(&s);
    BH_EQ(bh_pki_make_ca(s.a, "another", 10, &ca, &s.err), 0);
    c = bh_client_new_kubeconfig(s.loop, config(&s, "bad", ca.cert_pem, "secret"), "test", &s.err);
    BH_CHECK(c != NULL);
    a = ask(&s, c, &list_req);
    BH_EQ(a.status, 0);
    BH_EQ(a.code, BH_E_PROTO);
    BH_CHECK(bh_str_find(bh_s(a.message), BH_S("certificate")) >= 0);
    (void)bh_client_free(c);
    close_site(&s);
}

BH_TEST(https_tokens)
{
    struct site s;
    struct bh_client *c;

    open_site(&s);
    c = bh_client_new_kubeconfig(s.loop, config(&s, "weak", own_ca(&s), "weak"), "test", &s.err);
    BH_EQ(ask(&s, c, &list_req).code, BH_E_FORBIDDEN);
    (void)bh_client_free(c);
    c = bh_client_new_kubeconfig(s.loop, config(&s, "wrong", own_ca(&s), "wrong"), "test", &s.err);
    BH_EQ(ask(&s, c, &list_req).code, BH_E_UNAUTHORIZED);
    (void)bh_client_free(c);
    close_site(&s);
}

BH_TEST(https_server_that_is_not_there)
{
    struct site s;
    struct answer a;

    open_site(&s);
    s.srv = bh_apiserver_free(s.srv);
    a = ask(&s, s.client, &list_req);
    BH_EQ(a.status, 0);
    BH_EQ(a.code, BH_E_UNAVAILABLE);
    close_site(&s);
}

BH_TEST(https_client_may_be_freed_in_a_callback)
{
    struct site s;
    struct bh_client *c;
    struct answer a, other;
    struct watching w;

    open_site(&s);
    c = bh_client_new_kubeconfig(s.loop, path(&s, "kubeconfig"), "test", &s.err);
    a = (struct answer){.s = &s, .free_me = c};
    other = (struct answer){.s = &s};
    w = (struct watching){.s = &s};
    (void)bh_client_watch(
        c, &(struct bh_client_req){.verb = BH_VERB_WATCH, .kind = CM, .ns = BH_S("default")}, 0,
        &(struct bh_watch_handler){watch_event, watch_ended, &w});
    (void)bh_client_call(c, &list_req, answered, &a);
    (void)bh_client_call(
        c, &(struct bh_client_req){.verb = BH_VERB_LIST, .kind = &bh_core_v1_pod_kind}, answered,
        &other);
    bh_client_cancel(c, bh_client_call(c, &list_req, answered, &other));
    run(&s);
    run_ms(&s, 100);
    BH_CHECK(a.n == 1 && !a.free_me);
    BH_CHECK(other.n <= 1);
    BH_EQ(w.end.code, BH_OK);
    close_site(&s);
}
