/* The whole chain from a request to its answer, on the virtual loop. */
#include "apiserver/test_server.h"

#include "base/test.h"

#include <stdio.h>
#include <string.h>

#define CMS "/api/v1/namespaces/default/configmaps"

static const char cm_a[] = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
                           "\"a\",\"labels\":{\"t\":\"x\"}},\"data\":{\"k\":\"1\"}}";
static const char cm_b[] = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
                           "\"b\"},\"data\":{\"k\":\"1\"}}";

BH_TEST(server_makes_its_namespaces)
{
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "GET", "/api/v1/namespaces/kube-system", NULL), 200);
    BH_CHECK(ts_has(&t, "\"phase\":\"Active\""));
    BH_EQ(ts_call(&t, "DELETE", "/api/v1/namespaces/kube-system", NULL), 403);
    ts_stop(&t);
}

BH_TEST(server_create_read_update_delete)
{
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "POST", CMS, cm_a), 201);
    BH_CHECK(ts_has(&t, "\"manager\":\"test\""));
    BH_EQ(ts_call(&t, "POST", CMS, cm_a), 409);
    BH_CHECK(ts_has(&t, "AlreadyExists"));
    BH_EQ(ts_call(&t, "GET", CMS "/a", NULL), 200);
    BH_EQ(ts_call(&t, "PUT", CMS "/a",
                  "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\","
                  "\"resourceVersion\":\"1\"}}"),
          409);
    BH_CHECK(ts_has(&t, "the object has been modified"));
    BH_EQ(ts_call_with(&t, "PATCH", CMS "/a", NULL, "application/merge-patch+json",
                       "{\"data\":{\"k\":\"2\"}}"),
          200);
    BH_CHECK(ts_has(&t, "\"k\":\"2\""));
    BH_EQ(ts_call(&t, "DELETE", CMS "/a", NULL), 200);
    BH_CHECK(ts_has(&t, "\"status\":\"Success\""));
    BH_EQ(ts_call(&t, "GET", CMS "/a", NULL), 404);
    ts_stop(&t);
}

BH_TEST(server_writes_that_change_nothing_write_nothing)
{
    struct ts t;
    uint64_t rev;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "POST", CMS, cm_a), 201);
    rev = bh_store_rev(t.store);
    BH_EQ(ts_call(&t, "PUT", CMS "/a", cm_a), 200);
    BH_EQ(ts_call_with(&t, "PATCH", CMS "/a", NULL, "application/merge-patch+json", "{}"), 200);
    BH_EQ(ts_call(&t, "POST", CMS "?dryRun=All", cm_b), 201);
    BH_EQ(bh_store_rev(t.store), rev);
    BH_EQ(ts_call(&t, "GET", CMS "/b", NULL), 404);
    ts_stop(&t);
}

/* Two writers race inside one commit: the second is checked against what the first will have
 * written. */
BH_TEST(server_checks_against_what_is_accepted)
{
    struct ts t;

    ts_start(&t, 1);
    ts_post(&t, "POST", CMS, cm_a);
    ts_post(&t, "POST", CMS, cm_a); /* refused at once: the first is accepted though not durable */
    BH_EQ(t.answers, 1);
    BH_EQ(t.status, 409);
    ts_settle(&t);
    BH_EQ(t.answers, 2);
    BH_EQ(t.status, 201);
    ts_stop(&t);
}

BH_TEST(server_tells_when_the_store_fails_and_recovers)
{
    struct ts t;

    ts_start(&t, 1);
    bh_store_memory_fail(t.store, 1);
    BH_EQ(ts_call(&t, "POST", CMS, cm_a), 500);
    BH_CHECK(ts_has(&t, "could not be made durable"));
    BH_EQ(ts_call(&t, "GET", CMS "/a", NULL), 404);
    BH_EQ(ts_call(&t, "GET", "/readyz", NULL), 500);
    BH_EQ(ts_call(&t, "GET", "/livez/ping", NULL), 200);
    BH_EQ(ts_call(&t, "POST", CMS, cm_a), 201);
    BH_EQ(ts_call(&t, "GET", "/readyz", NULL), 200);
    ts_stop(&t);
}

BH_TEST(server_watch_sees_what_enters_and_leaves_a_selection)
{
    struct ts_watch all = {0}, gold = {0}, one = {0};
    struct ts t;

    ts_start(&t, 1);
    ts_watch(&t, &all, CMS "?watch=1");
    ts_watch(&t, &gold, CMS "?watch=1&labelSelector=t%3Dgold");
    ts_watch(&t, &one, CMS "?watch=1&fieldSelector=metadata.name%3Db");
    BH_EQ(ts_call(&t, "POST", CMS, cm_a), 201);
    BH_EQ(ts_call_with(&t, "PATCH", CMS "/a", NULL, "application/merge-patch+json",
                       "{\"metadata\":{\"labels\":{\"t\":\"gold\"}}}"),
          200);
    BH_EQ(ts_call_with(&t, "PATCH", CMS "/a", NULL, "application/merge-patch+json",
                       "{\"metadata\":{\"labels\":{\"t\":\"lead\"}}}"),
          200);
    BH_EQ(ts_call(&t, "POST", CMS, cm_b), 201);
    BH_EQ(ts_call(&t, "DELETE", CMS "/b", NULL), 200);
    BH_STREQ(bh_buf_str(&all.events), "ADDED a@1 MODIFIED a@2 MODIFIED a@3 ADDED b@4 DELETED b@5 ");
    BH_STREQ(bh_buf_str(&gold.events), "ADDED a@2 DELETED a@3 ");
    BH_STREQ(bh_buf_str(&one.events), "ADDED b@4 DELETED b@5 ");
    ts_watch_end(&all);
    ts_watch_end(&gold);
    ts_watch_end(&one);
    ts_stop(&t);
}

BH_TEST(server_watch_resumes_across_a_restart)
{
    struct ts_watch w = {0}, old = {0};
    char path[128];
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "POST", CMS, cm_a), 201);
    BH_EQ(ts_call(&t, "POST", CMS, cm_b), 201);
    BH_EQ(ts_call(&t, "DELETE", CMS "/a", NULL), 200);
    ts_restart(&t);
    (void)snprintf(path, sizeof(path), CMS "?watch=1&resourceVersion=%llu",
                   (unsigned long long)t.base + 1);
    ts_watch(&t, &w, path);
    BH_STREQ(bh_buf_str(&w.events), "ADDED b@2 DELETED a@3 ");
    BH_EQ(bh_store_compact(t.store, t.base + 2, NULL), 0);
    ts_watch_end(&w);
    ts_restart(&t);
    ts_watch(&t, &old, path);
    BH_STREQ(bh_buf_str(&old.events), "ERROR @0 ");
    BH_CHECK(old.opened && old.ended);
    ts_watch_end(&old);
    ts_stop(&t);
}

/* The server and its store may go at any moment of a commit. */
BH_TEST(server_ends_in_the_middle_of_a_commit)
{
    for (int steps = 0; steps < 3; steps++) {
        struct ts t;

        ts_start(&t, 1);
        ts_post(&t, "POST", CMS, cm_a);
        for (int i = 0; i < steps; i++)
            bh_loop_advance(t.l, 1000);
        ts_post(&t, "POST", CMS, cm_b);
        BH_EQ(t.answers, 0);
        bh_apiserver_free(t.srv);
        bh_store_free(t.store);
        bh_loop_free(t.l);
        bh_buf_done(&t.body);
        bh_buf_done(&t.warnings);
    }
}

/* Writes big objects until the window no longer holds what happened first. */
static void outgrow_window(struct ts *t)
{
    BH_AUTO_BUF body = {0};
    size_t head;

    bh_buf_addz(&body, "{\"data\":{\"n\":\"");
    for (size_t i = 0; i < 1000000; i++)
        bh_buf_addc(&body, 'x');
    head = body.n;
    for (int i = 0; i < 70; i++) {
        body.n = head;
        bh_buf_addf(&body, "%d\"}}", i);
        BH_EQ(ts_call_with(t, "PATCH", CMS "/a", NULL, "application/merge-patch+json",
                           bh_buf_cstr(&body)),
              200);
    }
}

BH_TEST(server_goes_back_behind_the_window)
{
    struct ts_watch w = {0}, b = {0}, slow = {.refuse_after = 1}, old = {0};
    char path[160];
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "POST", CMS, cm_a), 201);
    BH_EQ(ts_call(&t, "POST", CMS, cm_b), 201);
    BH_EQ(ts_call(&t, "DELETE", CMS "/b", NULL), 200);
    outgrow_window(&t);
    BH_EQ(ts_call(&t, "POST", CMS, cm_b), 201);
    (void)snprintf(path, sizeof(path), CMS "?watch=1&resourceVersion=%llu",
                   (unsigned long long)t.base + 1);
    ts_watch(&t, &w, path);
    BH_CHECK(bh_str_starts(bh_buf_str(&w.events), BH_S("ADDED b@2 DELETED b@3 MODIFIED a@4 ")));
    BH_CHECK(bh_str_ends(bh_buf_str(&w.events), BH_S("MODIFIED a@73 ADDED b@74 ")));
    BH_EQ(w.n, 73);
    /* and then goes on with the present */
    BH_EQ(ts_call(&t, "DELETE", CMS "/b", NULL), 200);
    BH_CHECK(bh_str_ends(bh_buf_str(&w.events), BH_S("ADDED b@74 DELETED b@75 ")));
    /* through a selector; and a reader that gives up on the way */
    (void)snprintf(path, sizeof(path),
                   CMS "?watch=1&fieldSelector=metadata.name%%3Db&resourceVersion=%llu",
                   (unsigned long long)t.base + 1);
    ts_watch(&t, &b, path);
    BH_STREQ(bh_buf_str(&b.events), "ADDED b@2 DELETED b@3 ADDED b@74 DELETED b@75 ");
    ts_watch(&t, &slow, path);
    BH_CHECK(slow.ended);
    /* a list as of then */
    (void)snprintf(path, sizeof(path), CMS "?resourceVersionMatch=Exact&resourceVersion=%llu",
                   (unsigned long long)t.base + 2);
    BH_EQ(ts_call(&t, "GET", path, NULL), 200);
    BH_CHECK(ts_has(&t, "\"name\":\"a\"") && ts_has(&t, "\"name\":\"b\""));
    BH_CHECK(!ts_has(&t, "xxxx"));
    (void)snprintf(path, sizeof(path), CMS "?resourceVersionMatch=Exact&resourceVersion=%llu",
                   (unsigned long long)t.base + 3);
    BH_EQ(ts_call(&t, "GET", path, NULL), 200);
    BH_CHECK(ts_has(&t, "\"name\":\"a\"") && !ts_has(&t, "\"name\":\"b\""));
    /* What is compacted is gone for good. */
    BH_EQ(bh_store_compact(t.store, t.base + 4, NULL), 0);
    BH_EQ(ts_call(&t, "GET", path, NULL), 410);
    (void)snprintf(path, sizeof(path), CMS "?watch=1&resourceVersion=%llu",
                   (unsigned long long)t.base + 3);
    ts_watch(&t, &old, path);
    BH_STREQ(bh_buf_str(&old.events), "ERROR @0 ");
    ts_watch_end(&w);
    ts_watch_end(&b);
    ts_watch_end(&slow);
    ts_watch_end(&old);
    ts_stop(&t);
}

BH_TEST(server_watch_ends_in_time_and_when_its_reader_is_slow)
{
    struct ts_watch timed = {0}, slow = {.refuse_after = 2}, canceled = {0};
    struct ts t;

    ts_start(&t, 1);
    ts_watch(&t, &timed, CMS "?watch=1&timeoutSeconds=5");
    ts_watch(&t, &slow, CMS "?watch=1");
    ts_watch(&t, &canceled, CMS "?watch=1");
    bh_apiserver_cancel(t.srv, canceled.id);
    BH_EQ(ts_call(&t, "POST", CMS, cm_a), 201);
    BH_CHECK(!slow.ended);
    BH_EQ(ts_call(&t, "POST", CMS, cm_b), 201);
    BH_CHECK(slow.ended);
    BH_CHECK(!timed.ended);
    bh_loop_advance(t.l, (int64_t)6 * 1000000000);
    BH_CHECK(timed.ended);
    BH_EQ(canceled.n, 0);
    BH_CHECK(!canceled.ended);
    ts_watch_end(&timed);
    ts_watch_end(&slow);
    canceled.ended = true;
    ts_watch_end(&canceled);
    ts_stop(&t);
}

/* A second page shows the state of the first one, whatever happened in between. */
BH_TEST(server_pages_are_consistent)
{
    char body[256], path[512], token[256];
    struct bh_str b;
    ptrdiff_t at;
    struct ts t;

    ts_start(&t, 1);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(
            body, sizeof(body),
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m%d\"}}", i);
        BH_EQ(ts_call(&t, "POST", CMS, body), 201);
    }
    BH_EQ(ts_call(&t, "GET", CMS "?limit=2", NULL), 200);
    BH_CHECK(ts_has(&t, "\"remainingItemCount\":3"));
    b = bh_buf_str(&t.body);
    at = bh_str_find(b, BH_S("\"continue\":\""));
    BH_CHECK(at > 0);
    b = bh_str_sub(b, (size_t)at + 12, b.n);
    b = bh_str_cut(&b, '"');
    (void)snprintf(token, sizeof(token), "%.*s", BH_SF(b));
    BH_EQ(ts_call(&t, "DELETE", CMS "/m3", NULL), 200);
    BH_EQ(ts_call(&t, "POST", CMS, cm_b), 201);
    BH_EQ(ts_call(&t, "POST", CMS,
                  "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m9\"}}"),
          201);
    (void)snprintf(path, sizeof(path), CMS "?limit=10&continue=%s", token);
    BH_EQ(ts_call(&t, "GET", path, NULL), 200);
    BH_CHECK(ts_has(&t, "\"m2\"") && ts_has(&t, "\"m3\"") && ts_has(&t, "\"m4\""));
    BH_CHECK(!ts_has(&t, "\"m9\"") && !ts_has(&t, "\"m1\""));
    ts_stop(&t);
}

/* A server that goes while a write waits: what its answer would have shown goes with it. */
BH_TEST(server_goes_while_the_last_finalizer_is_taken_away)
{
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "POST", CMS, "{\"metadata\":{\"name\":\"f\",\"finalizers\":[\"test/x\"]}}"),
          201);
    BH_EQ(ts_call(&t, "DELETE", CMS "/f", NULL), 200);
    t.answers = 0;
    ts_post(&t, "PUT", CMS "/f", "{\"metadata\":{\"name\":\"f\"}}");
    BH_EQ(t.answers, 0);
    ts_stop(&t);
}

BH_TEST(server_deletes_in_two_steps_where_finalizers_hold)
{
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "POST", CMS,
                  "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\","
                  "\"finalizers\":[\"test/x\"]}}"),
          201);
    BH_EQ(ts_call(&t, "DELETE", CMS "/a", NULL), 200);
    BH_CHECK(ts_has(&t, "deletionTimestamp"));
    BH_EQ(ts_call(&t, "GET", CMS "/a", NULL), 200);
    BH_EQ(ts_call_with(&t, "PATCH", CMS "/a", NULL, "application/merge-patch+json",
                       "{\"metadata\":{\"finalizers\":null}}"),
          200);
    BH_EQ(ts_call(&t, "GET", CMS "/a", NULL), 404);
    ts_stop(&t);
}

BH_TEST(server_authorises_before_it_looks)
{
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call_as(&t, "alice", "GET", CMS "/a", NULL), 403);
    BH_CHECK(
        ts_has(&t, "configmaps \\\"a\\\" is forbidden: User \\\"alice\\\" cannot get resource"));
    BH_EQ(ts_call_as(&t, "alice", "POST", "/apis/none/v1/things", "{"), 403);
    BH_EQ(ts_call_as(&t, "alice", "GET", "/version", NULL), 200);
    BH_EQ(ts_call_as(&t, "alice", "GET", "/apis", NULL), 200);
    BH_EQ(ts_call_as(&t, "system:kube-scheduler", "GET", "/api/v1/pods", NULL), 200);
    BH_EQ(ts_call_as(&t, "system:kube-scheduler", "GET", "/api/v1/secrets", NULL), 403);
    ts_stop(&t);
}

BH_TEST(server_paths_and_media_types)
{
    static const struct {
        const char *method, *path, *accept;
        int status;
    } table[] = {
        {"GET", "/api/v1/namespaces/default/mapconfigs", NULL, 404},
        {"GET", "/api/v1/namespaces/default/nodes", NULL, 404},
        {"GET", "/api/v1/configmaps/x", NULL, 404},
        {"GET", "/api/v1//namespaces/default/configmaps", NULL, 404},
        {"GET", "/apis/none.test/v1", NULL, 404},
        {"GET", CMS "/a%zz", NULL, 400},
        {"GET", CMS "/", NULL, 200},
        {"HEAD", CMS, NULL, 405},
        {"PUT", CMS, NULL, 405},
        {"POST", CMS "/a", NULL, 405},
        {"GET", CMS, "text/plain", 406},
        {"GET", CMS, "application/json;as=Table;v=v1;g=meta.k8s.io", 200},
        {"GET", CMS, "application/json;as=Sandwich;v=v1;g=meta.k8s.io", 406},
        {"GET", CMS, "application/cbor, application/json;q=0.1", 200},
        {"GET", CMS, "application/vnd.kubernetes.protobuf", 200},
        {"GET", CMS "?limit=x", NULL, 400},
        {"GET", CMS "?labelSelector=a%20b", NULL, 400},
        {"GET", CMS "?fieldSelector=data.k%3D1", NULL, 400},
        {"GET", CMS "?resourceVersion=999999999", NULL, 504},
        {"GET", CMS "?continue=%21%21", NULL, 400},
    };
    struct ts t;

    ts_start(&t, 1);
    for (size_t i = 0; i < BH_COUNT(table); i++)
        if (ts_call_with(&t, table[i].method, table[i].path, table[i].accept, NULL, NULL) !=
            table[i].status)
            bh_test_fail(__FILE__, __LINE__, "%s %s %s: %d, wanted %d", table[i].method,
                         table[i].path, table[i].accept ? table[i].accept : "", t.status,
                         table[i].status);
    ts_stop(&t);
}

BH_TEST(server_older_versions_are_other_forms_of_one_object)
{
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "POST", "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims",
                  "{\"apiVersion\":\"resource.k8s.io/"
                  "v1beta1\",\"kind\":\"ResourceClaim\",\"metadata\":{\"name\":\"c\"},"
                  "\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"deviceClassName\":\"gpu."
                  "test\"}]}}}"),
          201);
    BH_CHECK(ts_has(&t, "\"deviceClassName\":\"gpu.test\"") && !ts_has(&t, "exactly"));
    BH_CHECK(bh_str_find(bh_buf_str(&t.warnings), BH_S("is deprecated in v1.35+")) > 0);
    BH_EQ(ts_call(&t, "GET", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c", NULL),
          200);
    BH_CHECK(ts_has(&t, "\"exactly\":{\"deviceClassName\":\"gpu.test\""));
    ts_stop(&t);
}

/* A binding whose uid is another pod's, or that is for an older version: told as a conflict by the
 * pod's path, and not looked at by the collection, which names no stored resource. */
BH_TEST(server_binds_by_either_path)
{
    static const char pod[] = "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":"
                              "\"c\",\"image\":\"i\"}]}}",
                      bind[] = "{\"metadata\":{\"name\":\"p\",\"uid\":\"other\"},\"target\":{"
                               "\"name\":\"n\"}}",
                      old[] = "{\"metadata\":{\"name\":\"p\",\"resourceVersion\":\"1\"},"
                              "\"target\":{\"name\":\"n\"}}";
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(ts_call(&t, "POST", "/api/v1/namespaces/default/pods", pod), 201);
    BH_EQ(ts_call(&t, "POST", "/api/v1/namespaces/default/pods/p/binding", bind), 409);
    BH_CHECK(ts_has(&t, "Key: /registry/pods/default/p"));
    BH_EQ(ts_call(&t, "POST", "/api/v1/namespaces/default/pods/p/binding", old), 409);
    BH_CHECK(ts_has(&t, "Precondition failed: ResourceVersion in precondition: 1, "
                        "ResourceVersion in object meta: "));
    BH_EQ(ts_call(&t, "POST", "/api/v1/namespaces/default/pods/p/binding", "{}"), 400);
    BH_EQ(ts_call(&t, "POST", "/api/v1/namespaces/default/bindings", bind), 201);
    BH_EQ(ts_call(&t, "POST", "/api/v1/namespaces/default/bindings", bind), 409);
    ts_stop(&t);
}
