/* Default objects are created through the ordinary chain, as the server's own user. */
#include "apiserver/bootstrap.h"

#include "api/gen/core_v1.h"
#include "api/obj_commit.h"
#include "base/buf.h"
#include "base/log.h"
#include "data/names.h"

#include <stdio.h>
#include <string.h>

#define EVENT_TTL_S    3600
#define EXPIRE_AT_ONCE 500
#define SELF           "system:apiserver"

static void created(void *arg, const struct bh_api_response *res)
{
    const char *what = arg;

    if (res->status >= 300 && res->status != 409)
        bh_log(BH_WARN, "default object was not created, continuing", BH_CSTR("object", what),
               BH_I64("status", res->status), BH_STR("message", res->message));
}

static void never_watch(void *arg, struct bh_str type, const struct bh_api_header *h, size_t n)
{
    (void)arg, (void)type, (void)h, (void)n;
}
static bool never_event(void *arg, const struct bh_api_event *ev)
{
    (void)arg, (void)ev;
    return false;
}
static void never_end(void *arg)
{
    (void)arg;
}

static void post(struct bh_apiserver *srv, const char *path, const char *body)
{
    static struct bh_str masters[] = {BH_S_INIT("system:masters")};
    static const struct bh_user self = {.name = BH_S_INIT(SELF), .groups = {masters, 1}};
    struct bh_api_request rq = {.method = BH_S("POST"),
                                .path = bh_s(path),
                                .user_agent = BH_S("kube-apiserver/bulkhead"),
                                .body = bh_s(body),
                                .user = &self,
                                .objects = true};
    struct bh_api_sink sink = {(void *)(uintptr_t)path, created, never_watch, never_event,
                               never_end};

    (void)bh_apiserver_handle(srv, &rq, &sink);
}

static bool missing(struct bh_apiserver *srv, const char *group, const char *resource,
                    const char *ns, const char *name)
{
    struct bh_resource *res = bh_resource_find(srv, bh_s(group), bh_s(resource));
    BH_AUTO_ARENA a = bh_arena_new(0);

    return res && !bh_wc_get(res->wc, bh_wc_key(res->wc, a, bh_s(ns), bh_s(name)));
}

/* The first address of services is the API server's own; empty when the range is none. */
static struct bh_str first_address(const struct bh_apiserver *srv, char *buf)
{
    struct bh_ip ip;
    unsigned bits;

    if (!bh_cidr_parse(srv->service_cidr, &ip, &bits))
        return BH_S("");
    ip.b[ip.v6 ? 15 : 3] |= 1;
    return bh_ip_fmt(&ip, buf);
}

void bh_bootstrap(struct bh_apiserver *srv)
{
    static const char *const namespaces[] = {"default", "kube-system", "kube-public",
                                             "kube-node-lease"};
    char body[512], address[BH_IP_BUF];

    for (size_t i = 0; i < BH_COUNT(namespaces); i++) {
        if (!missing(srv, "", "namespaces", "", namespaces[i]))
            continue;
        (void)snprintf(
            body, sizeof(body),
            "{\"kind\":\"Namespace\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\"}}",
            namespaces[i]);
        post(srv, "/api/v1/namespaces", body);
    }
    if (missing(srv, "scheduling.k8s.io", "priorityclasses", "", "system-node-critical"))
        post(srv, "/apis/scheduling.k8s.io/v1/priorityclasses",
             "{\"kind\":\"PriorityClass\",\"apiVersion\":\"scheduling.k8s.io/"
             "v1\",\"metadata\":{\"name\":"
             "\"system-node-critical\"},\"value\":2000001000,\"description\":\"Used for system "
             "critical pods that must "
             "not be moved from their current node.\"}");
    if (missing(srv, "scheduling.k8s.io", "priorityclasses", "", "system-cluster-critical"))
        post(srv, "/apis/scheduling.k8s.io/v1/priorityclasses",
             "{\"kind\":\"PriorityClass\",\"apiVersion\":\"scheduling.k8s.io/"
             "v1\",\"metadata\":{\"name\":"
             "\"system-cluster-critical\"},\"value\":2000000000,\"description\":\"Used for system "
             "critical pods that "
             "must run in the cluster, but can be moved to another node if necessary.\"}");
    if (missing(srv, "", "services", "default", "kubernetes")) {
        (void)snprintf(body, sizeof(body),
                       "{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":"
                       "\"kubernetes\",\"namespace\":"
                       "\"default\",\"labels\":{\"component\":\"apiserver\",\"provider\":"
                       "\"kubernetes\"}},\"spec\":{\"clusterIP\":\"%.*s\","
                       "\"ports\":[{\"name\":\"https\",\"protocol\":\"TCP\",\"port\":443,"
                       "\"targetPort\":6443}],"
                       "\"sessionAffinity\":\"None\"}}",
                       BH_SF(first_address(srv, address)));
        post(srv, "/api/v1/namespaces/default/services", body);
    }
}

void bh_expire_events(struct bh_apiserver *srv)
{
    struct bh_resource *res = bh_resource_find(srv, BH_S(""), BH_S("events"));
    int64_t before = bh_server_now(srv).sec - EVENT_TTL_S;
    struct bh_keyset_pos pos = {0, 0};
    struct bh_keyset_entry *e;
    struct bh_obj *old[EXPIRE_AT_ONCE];
    size_t n = 0, found;

    if (!res)
        return;
    /* An event lives an hour from its last write; its creation is what can be read cheaply, and an
     * event that is still counted up is rewritten with a later lastTimestamp, which bh_wc_field()
     * finds. */
    while (n < EXPIRE_AT_ONCE && (e = bh_keyset_next(&res->wc->set, &pos))) {
        struct bh_obj *o = ((struct bh_wc_entry *)e)->obj;
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_time t = {0, 0}, made = {0, 0};
        struct bh_str last = bh_wc_field(o, BH_S("lastTimestamp"), a);

        if (bh_time_parse(bh_wc_field(o, BH_S("metadata.creationTimestamp"), a), &made, NULL) < 0)
            continue;
        if (last.n == 0 || bh_time_parse(last, &t, NULL) < 0 || t.sec < made.sec)
            t = made;
        if (t.sec < before)
            old[n++] = bh_obj_ref(o);
    }
    found = n;
    for (size_t i = 0; i < n; i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_str key = bh_wc_key(res->wc, a, old[i]->ns, old[i]->name);
        struct bh_obj *head = bh_pipeline_head(srv->pipe, res->wc, key);

        if (head == old[i]) {
            const struct bh_core_v1_event *ev = bh_obj_struct(head);
            BH_AUTO_BUF b = {0};

            bh_obj_encode(res->hub, ev, &b, NULL);
            if (bh_pipeline_submit(
                    srv->pipe, BH_STORE_DELETE, res->wc, key,
                    bh_obj_new_pending(res->hub, bh_buf_str(&b), &ev->metadata, NULL), NULL, NULL,
                    NULL) < 0)
                n = i + 1; /* the queue is full: the next round goes on */
        }
    }
    for (size_t i = 0; i < found; i++)
        (void)bh_obj_unref(old[i]);
}
