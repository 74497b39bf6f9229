/* One connection per request: logs are long, and agents are many. */
#include "apiserver/kubelet_conn.h"

#include "api/gen/core_v1.h"
#include "apiserver/server_int.h"
#include "net/http.h"

#include <stdio.h>
#include <string.h>

#define KUBELET_PORT   10250
#define SAID_BYTES_MAX 2048 /* of what an agent says when it refuses */

struct call {
    struct bh_rq *rq;
    struct bh_http_client *client;
    struct bh_http_call *call;
    bool open; /* the head has been passed on */
    size_t said_n;
    char said[SAID_BYTES_MAX]; /* the body of a refusal */
};

static void finish(void *arg)
{
    struct call *c = arg;
    struct bh_rq *rq = c->rq;

    c->client = bh_http_client_free(c->client);
    bh_rq_finish(rq);
}

/* The client is freed after its callback has returned. */
static void later(struct call *c)
{
    bh_loop_defer(c->rq->srv->loop, finish, c);
}

static void on_head(void *arg, const struct bh_http_response *r)
{
    struct call *c = arg;
    const struct bh_str *type = bh_http_header_find(r->headers, r->headers_n, BH_S("Content-Type"));

    if (r->status != 200)
        return; /* told as a whole at the end */
    c->open = true;
    bh_metrics_count(c->rq, 200, 0);
    if (!c->rq->canceled)
        c->rq->sink.watch_open(c->rq->sink.arg, type ? *type : BH_S("text/plain"), NULL, 0);
}

static void on_chunk(void *arg, struct bh_str data)
{
    struct call *c = arg;
    struct bh_api_event ev = {.type = BH_WATCH_MODIFIED, .bytes = data};

    if (!c->open) {
        size_t room = sizeof(c->said) - c->said_n, n = data.n < room ? data.n : room;

        memcpy(c->said + c->said_n, data.p, n);
        c->said_n += n;
        return;
    }
    if (!c->rq->canceled && !c->rq->sink.event(c->rq->sink.arg, &ev)) {
        c->rq->canceled = true;
        bh_http_call_cancel(c->call);
        c->call = NULL;
        c->rq->sink.watch_end(c->rq->sink.arg);
        later(c);
    }
}

/* The agent's own words reach the client where upstream passes them on too. */
static void refused(struct call *c, int status)
{
    struct bh_str said = bh_str_trim((struct bh_str){c->said, c->said_n});

    if (status == 400 && said.n > 0)
        (void)bh_fail_msg(c->rq, BH_E_BAD_REQUEST, "%.*s", BH_SF(said));
    else if (status == 500 && said.n > 0)
        (void)bh_fail_msg(c->rq, BH_E_INTERNAL, "Internal error occurred: %.*s", BH_SF(said));
    else
        (void)bh_fail_msg(c->rq, status == 404 ? BH_E_NOT_FOUND : BH_E_INTERNAL,
                          "the server rejected our request (%d)", status);
}

static void on_done(void *arg, const struct bh_http_response *r, const struct bh_err *err)
{
    struct call *c = arg;
    struct bh_rq *rq = c->rq;

    c->call = NULL;
    if (c->open) {
        if (!rq->canceled)
            rq->sink.watch_end(rq->sink.arg);
        later(c);
        return;
    }
    c->client = bh_http_client_free(c->client);
    if (!r)
        (void)bh_fail_msg(rq, BH_E_INTERNAL, "the node's agent does not answer: %s", err->msg);
    else
        refused(c, r->status);
    bh_rq_send_fail(rq);
}

static void stop(struct bh_rq *rq)
{
    struct call *c = rq->watch;

    bh_http_call_cancel(c->call);
    c->client = bh_http_client_free(c->client);
    bh_rq_finish(rq);
}

/* The address agents are reached at: internal before external before name. */
static struct bh_str address_of(const struct bh_core_v1_node *n)
{
    static const char *const order[] = {"Hostname", "InternalDNS", "InternalIP", "ExternalDNS",
                                        "ExternalIP"};
    struct bh_str ip = BH_S("");

    for (size_t i = 0; i < n->status.addresses.n; i++)
        if (bh_str_eqc(n->status.addresses.p[i].type, "InternalIP"))
            return n->status.addresses.p[i].address;
    for (size_t o = 0; o < BH_COUNT(order); o++)
        for (size_t i = 0; i < n->status.addresses.n; i++)
            if (bh_str_eqc(n->status.addresses.p[i].type, order[o]))
                return n->status.addresses.p[i].address;
    return ip;
}

int bh_kubelet_stream(struct bh_rq *rq, struct bh_str node, struct bh_str target)
{
    struct bh_resource *res = bh_resource_find(rq->srv, BH_S(""), BH_S("nodes"));
    struct bh_obj *o = bh_wc_get(res->wc, bh_wc_key(res->wc, rq->a, BH_S(""), node));
    struct call *c = bh_new(rq->a, struct call);
    struct bh_http_request hr = {.method = BH_S("GET"),
                                 .target = target,
                                 .long_call = true,
                                 .done = on_done,
                                 .on_head = on_head,
                                 .on_chunk = on_chunk,
                                 .arg = c};
    struct bh_http_client_opts ho = {.tls = rq->srv->kubelet_tls};
    const struct bh_core_v1_node *n;

    if (!o)
        return bh_fail_not_found(rq, BH_S(""), BH_S("nodes"), node);
    if (bh_loop_is_virtual(rq->srv->loop))
        return bh_fail_msg(rq, BH_E_UNSUPPORTED, "a simulated node has no agent to ask");
    n = bh_obj_struct(o);
    ho.host = bh_str_dup(rq->a, address_of(n)).p;
    ho.port = n->status.daemon_endpoints.kubelet_endpoint.port;
    if (ho.port == 0)
        ho.port = KUBELET_PORT;
    if (ho.host[0] == '\0')
        return bh_fail_msg(rq, BH_E_INTERNAL, "no preferred addresses found; known addresses: []");
    c->rq = rq;
    c->client = bh_http_client_new(rq->srv->loop, &ho);
    rq->watch = c;
    rq->stop = stop;
    c->call = bh_http_call_start(c->client, &hr);
    return 0;
}
