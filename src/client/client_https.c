/* The HTTPS client: the same calls as in process, over HTTP/2 or 1.1 to any Kubernetes API server.
 *
 * Objects are decoded once and shared like those of the watch cache. A watch is a long call whose
 * body is one JSON document after the other.
 */
#include <stdio.h>

#include "api/engine.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "client/client_int.h"
#include "client/client_wire.h"
#include "client/kubeconfig.h"
#include "net/http.h"

#define CALL_TIMEOUT_MS       30000
#define TOKEN_LOOK_MS         60000
#define LIST_BYTES_MAX        ((size_t)512 << 20) /* 100,000 pods and more in one list */
#define WATCH_EVENT_BYTES_MAX ((size_t)4 << 20)

struct https {
    struct bh_client base;
    struct bh_http_client *http;
    char *token_file; /* read again each minute: such tokens are renewed; NULL: none */
    struct bh_timer token_look;
    struct bh_link calls;
    struct bh_wire_seen seen;
};

struct https_call {
    struct bh_link link;
    struct https *owner;
    uint64_t id;
    const struct bh_kind *kind;
    enum bh_client_verb verb;
    bh_client_fn fn;
    void *arg;
    struct bh_http_call *http;
    struct bh_watch_handler watch;
    struct bh_lines lines; /* of a watch */
    struct bh_err err;     /* of a watch: what ended it */
    int status;
    bool cancelled;
    int busy;
};

static void call_leave(struct https_call *k)
{
    if (--k->busy || !k->cancelled)
        return;
    bh_buf_done(&k->lines.buf);
    bh_free(k);
}

static void call_done(struct https_call *k)
{
    bh_list_del(&k->link);
    k->http = NULL;
    k->cancelled = true;
}

/* ---- answers ---- */

static void https_answered(void *arg, const struct bh_http_response *r, const struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct https_call *k = arg;
    struct bh_client_res res = {0};
    struct bh_obj *obj = NULL;

    k->busy++;
    call_done(k);
    if (!r || err->code != BH_OK) {
        res.err = *err;
        if (res.err.code == BH_OK || res.err.code == BH_E_IO)
            res.err.code = BH_E_UNAVAILABLE;
    } else {
        res.status = r->status;
        res.body = r->body;
        if (r->status < 200 || r->status > 299)
            bh_client_status(a, r->status, r->body, &res);
        else if (k->verb == BH_VERB_LIST)
            bh_wire_list(a, k->kind, r->body, &res);
        else
            res.obj = obj = bh_wire_object(a, k->kind, &k->owner->seen, r->body);
    }
    if (k->fn)
        k->fn(k->arg, &res);
    else if (res.err.code != BH_OK)
        bh_log(BH_DEBUG, "request failed", BH_STR("resource", k->kind->resource),
               BH_CSTR("error", res.err.msg));
    (void)bh_obj_unref(obj);
    for (size_t i = 0; i < res.items_n; i++)
        (void)bh_obj_unref(res.items[i]);
    call_leave(k);
}

/* ---- watches ---- */

static void watch_event(struct https_call *k, struct bh_str line)
{
    struct bh_wire_event ev = {0};

    if (bh_wire_event(k->kind, &k->owner->seen, line, &ev, &k->err) == 0)
        k->watch.event(k->watch.arg, ev.type, ev.obj, ev.rv);
    (void)bh_obj_unref(ev.obj);
}

static void watch_head(void *arg, const struct bh_http_response *r)
{
    struct https_call *k = arg;

    k->status = r->status;
}

static void watch_chunk(void *arg, struct bh_str data)
{
    struct https_call *k = arg;
    struct bh_str line;

    k->busy++;
    bh_lines_feed(&k->lines, data);
    if (k->lines.buf.overflow)
        (void)bh_err_set(&k->err, BH_E_PROTO, "watch event too large");
    /* Servers end each event with a newline; JSON strings hold none. */
    while (k->status == 200 && !k->cancelled && k->err.code == BH_OK &&
           bh_lines_next(&k->lines, &line))
        if (line.n)
            watch_event(k, line);
    if (k->err.code != BH_OK && !k->cancelled) {
        struct bh_http_call *http = k->http;

        call_done(k);
        bh_http_call_cancel(http);
        k->watch.ended(k->watch.arg, &k->err);
    }
    call_leave(k);
}

static void watch_done(void *arg, const struct bh_http_response *r, const struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct https_call *k = arg;

    k->busy++;
    call_done(k);
    if (r && k->status != 200) {
        struct bh_client_res res = {0};

        bh_client_status(a, k->status, bh_lines_rest(&k->lines), &res);
        k->err = res.err;
    } else if (!r && err->code != BH_OK && k->status != 200) {
        k->err = *err; /* never began; one that began and broke is resumed at once */
    }
    k->watch.ended(k->watch.arg, &k->err);
    call_leave(k);
}

/* ---- calls ---- */

static struct https_call *https_new_call(struct https *c, uint64_t id,
                                         const struct bh_client_req *req)
{
    struct https_call *k = bh_calloc(1, sizeof(*k));

    k->owner = c;
    k->id = id;
    k->kind = req->kind;
    k->verb = req->verb;
    k->lines.buf.max = WATCH_EVENT_BYTES_MAX;
    bh_list_add_tail(&c->calls, &k->link);
    return k;
}

static void https_send(struct https_call *k, const struct bh_client_req *req, uint64_t watch_rv)
{
    bool watch = req->verb == BH_VERB_WATCH;
    BH_AUTO_BUF url = {.max = BH_URL_BYTES_MAX}, body = {.max = BH_BODY_BYTES_MAX};
    struct bh_http_header h[2];
    struct bh_http_request rq = {
        .method = bh_s(bh_client_method(req->verb)), .headers = h, .body = req->body, .arg = k};

    bh_client_url(&url, req, watch_rv);
    rq.target = bh_buf_str(&url);
    h[rq.headers_n++] = BH_HTTP_HEADER("Accept", BH_S("application/json"));
    if (req->msg) {
        bh_kind_encode_json(req->msg_kind, req->msg, &body);
        rq.body = bh_buf_str(&body);
    }
    if (rq.body.n)
        h[rq.headers_n++] = BH_HTTP_HEADER(
            "Content-Type",
            bh_s(bh_client_patch_media(req->verb == BH_VERB_PATCH ? req->patch : BH_PATCH_NONE)));
    rq.timeout_ms = req->timeout_ms ? req->timeout_ms : CALL_TIMEOUT_MS;
    rq.body_bytes_max = LIST_BYTES_MAX;
    rq.long_call = watch;
    rq.done = watch ? watch_done : https_answered;
    if (watch) {
        rq.on_head = watch_head;
        rq.on_chunk = watch_chunk;
    }
    k->http = bh_http_call_start(k->owner->http, &rq);
}

static void https_call(struct bh_client *base, uint64_t id, const struct bh_client_req *req,
                       bh_client_fn fn, void *arg)
{
    struct https_call *k = https_new_call((struct https *)base, id, req);

    k->fn = fn;
    k->arg = arg;
    https_send(k, req, 0);
}

static void https_watch(struct bh_client *base, uint64_t id, const struct bh_client_req *req,
                        uint64_t rv, const struct bh_watch_handler *h)
{
    struct https_call *k = https_new_call((struct https *)base, id, req);

    k->watch = *h;
    https_send(k, req, rv);
}

static void call_cancel(struct https_call *k)
{
    struct bh_http_call *http = k->http;

    k->busy++;
    call_done(k);
    bh_http_call_cancel(http);
    call_leave(k);
}

static void https_cancel(struct bh_client *base, uint64_t id)
{
    struct https *c = (struct https *)base;

    bh_list_for_safe(it, &c->calls)
    {
        struct https_call *k = bh_container(it, struct https_call, link);

        if (k->id == id) {
            call_cancel(k);
            return;
        }
    }
}

static void https_free(struct bh_client *base)
{
    struct https *c = (struct https *)base;

    while (!bh_list_empty(&c->calls))
        call_cancel(bh_container(c->calls.next, struct https_call, link));
    bh_timer_stop(&c->token_look);
    (void)bh_http_client_free(c->http);
    bh_wire_seen_done(&c->seen);
    bh_free(c->token_file);
    bh_free(c);
}

static void token_look(void *arg)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct https *c = arg;
    struct bh_str token;
    struct bh_err err = {0};

    if (bh_kubeconfig_token(a, c->token_file, &token, &err) < 0)
        bh_log(BH_WARN, "token not read again, continuing with the one known",
               BH_CSTR("error", err.msg));
    else if (token.n)
        bh_http_client_set_bearer(c->http, token);
    bh_timer_start(&c->token_look, TOKEN_LOOK_MS);
}

static const struct bh_client_vtable https_vt = {https_call, https_watch, https_cancel, https_free};

struct bh_client *bh_client_new_kubeconfig(struct bh_loop *l, const char *path,
                                           const char *user_agent, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_kubeconfig kc = {0};
    struct bh_http_client_opts o = {.http2 = true, .conns_max = 64, .user_agent = user_agent};
    struct https *c;

    if (bh_kubeconfig_load(a, path, &kc, err) < 0)
        return NULL;
    if (kc.tls) {
        const struct bh_tls_opts t = {.cert_pem = kc.cert_pem,
                                      .key_pem = kc.key_pem,
                                      .ca_pem = kc.ca_pem,
                                      .insecure_skip_verify = kc.insecure};

        o.tls = bh_tls_new(&t, err);
        if (!o.tls) {
            (void)bh_err_wrap(err, "%s", path);
            return NULL;
        }
    }
    o.host = kc.host;
    o.port = kc.port;
    o.server_name = kc.server_name;
    c = bh_calloc(1, sizeof(*c));
    c->base.vt = &https_vt;
    c->base.loop = l;
    (void)snprintf(c->base.user_agent, sizeof(c->base.user_agent), "%s", user_agent);
    c->http = bh_http_client_new(l, &o);
    (void)bh_tls_unref(o.tls);
    if (kc.token.n)
        bh_http_client_set_bearer(c->http, kc.token);
    bh_list_init(&c->calls);
    bh_timer_init(&c->token_look, l, token_look, c);
    if (kc.token_file) {
        c->token_file = bh_strdup_c(bh_s(kc.token_file));
        bh_timer_start(&c->token_look, TOKEN_LOOK_MS);
    }
    return &c->base;
}
