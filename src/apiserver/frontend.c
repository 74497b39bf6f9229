/* HTTPS: authentication, one exchange per call, answers by reference. */
#include "apiserver/frontend.h"

#include "apiserver/serving_certs.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "data/json.h"
#include "net/http.h"

#include <stdio.h>
#include <string.h>

struct bh_frontend {
    struct bh_apiserver *srv;
    struct bh_http_server *http;
};

/* One exchange; lives in its arena. */
struct door {
    struct bh_frontend *f;
    struct bh_http_exchange *x;
    uint64_t id;
    bool streaming, finished;
};

static void release_obj(void *ref)
{
    (void)bh_obj_unref(ref);
}
static void release_bytes(void *ref)
{
    (void)bh_api_bytes_unref(ref);
}

static size_t copy_headers(struct door *d, struct bh_str type, const struct bh_api_header *h,
                           size_t n, struct bh_http_header **ret)
{
    struct bh_http_header *out = bh_new_n(d->x->arena, struct bh_http_header, n + 2);
    size_t k = 0;

    if (type.n > 0)
        out[k++] = (struct bh_http_header){BH_S("Content-Type"), type};
    out[k++] = (struct bh_http_header){BH_S("Cache-Control"), BH_S("no-cache, private")};
    for (size_t i = 0; i < n; i++)
        out[k++] = (struct bh_http_header){h[i].name, h[i].value};
    *ret = out;
    return k;
}

static void on_answer(void *arg, const struct bh_api_response *r)
{
    struct door *d = arg;
    struct bh_part *parts = bh_new_n(d->x->arena, struct bh_part, r->parts_n + 1);
    struct bh_http_header *h;
    size_t hn = copy_headers(d, r->content_type, r->headers, r->headers_n, &h);

    for (size_t i = 0; i < r->parts_n; i++) {
        parts[i].data = r->parts[i].bytes;
        if (r->parts[i].obj) {
            parts[i].release = release_obj;
            parts[i].ref = bh_obj_ref(r->parts[i].obj);
        }
    }
    d->finished = true;
    bh_http_on_close(d->x, NULL, NULL);
    bh_http_respond(d->x, r->status, h, hn, parts, r->parts_n);
}

static void on_watch_open(void *arg, struct bh_str type, const struct bh_api_header *headers,
                          size_t n)
{
    struct door *d = arg;
    struct bh_http_header *h;
    size_t hn = copy_headers(d, type, headers, n, &h);

    d->streaming = true;
    bh_http_stream_start(d->x, 200, h, hn);
}

static bool on_event(void *arg, const struct bh_api_event *ev)
{
    struct door *d = arg;
    struct bh_part part = {.data = ev->bytes};

    if (bh_http_queued(d->x) > BH_WATCH_QUEUE_BYTES_MAX)
        return false;
    if (ev->keep) {
        part.release = release_bytes;
        part.ref = bh_api_bytes_ref(ev->keep);
    }
    bh_http_stream_write(d->x, &part, 1);
    return true;
}

static void on_watch_end(void *arg)
{
    struct door *d = arg;

    if (d->finished)
        return;
    d->finished = true;
    bh_http_on_close(d->x, NULL, NULL);
    bh_http_stream_end(d->x);
}

/* The client has left. */
static void on_close(void *arg)
{
    struct door *d = arg;

    if (d->finished)
        return;
    if (d->id)
        bh_apiserver_cancel(d->f->srv, d->id);
    d->finished = true;
    if (d->streaming)
        bh_http_stream_end(d->x);
    else
        bh_http_respond(d->x, 500, NULL, 0, NULL, 0);
}

static void plain_status(struct bh_http_exchange *x, int http, const char *json)
{
    struct bh_http_header h[] = {BH_HTTP_HEADER("Content-Type", BH_S("application/json")),
                                 BH_HTTP_HEADER("Cache-Control", BH_S("no-cache, private"))};
    struct bh_part part = {.data = bh_s(json)};

    bh_http_respond(x, http, h, 2, &part, 1);
}

/* The bearer token of the first Authorization header; p == NULL without one. Anything but one word
 * right after "Bearer " is no token: such a request is anonymous. */
static struct bh_str bearer(const struct bh_http_exchange *x)
{
    const struct bh_str *h = bh_http_header_get(x, BH_S("Authorization"));
    struct bh_str none = {NULL, 0}, v, word;

    if (!h)
        return none;
    v = bh_str_trim(*h);
    word = bh_str_cut(&v, ' ');
    if (!bh_str_eq_nocase(word, BH_S("bearer")) || !v.p)
        return none;
    word = bh_str_cut(&v, ' ');
    return word.n > 0 ? word : none;
}

static struct bh_str header(const struct bh_http_exchange *x, const char *name)
{
    const struct bh_str *h = bh_http_header_get(x, bh_s(name));

    return h ? *h : (struct bh_str){NULL, 0};
}

static bool in_masters(const struct bh_user *u)
{
    for (size_t i = 0; i < u->groups.n; i++)
        if (bh_str_eqc(u->groups.p[i], "system:masters"))
            return true;
    return false;
}

/* Acting as somebody else: system:masters may, until rules decide; what nobody asked for is never
 * ignored, because that would be done with the rights of the asker. Returns 0, or the HTTP status
 * of the refusal with its words in *ret_why. */
static int impersonate(struct bh_http_exchange *x, struct bh_user *u, struct bh_str *ret_why)
{
    struct bh_str name = header(x, "Impersonate-User");
    struct bh_str_vec groups = {bh_new_n(x->arena, struct bh_str, x->headers_n + 1), 0};
    bool other = false;

    for (size_t i = 0; i < x->headers_n; i++) {
        if (bh_str_eq_nocase(x->headers[i].name, BH_S("Impersonate-Group")))
            groups.p[groups.n++] = x->headers[i].value;
        else if (bh_str_eq_nocase(bh_str_sub(x->headers[i].name, 0, 12), BH_S("Impersonate-")) &&
                 !bh_str_eq_nocase(x->headers[i].name, BH_S("Impersonate-User")))
            other = true;
    }
    if (name.n == 0 && groups.n == 0 && !other)
        return 0;
    if (name.n == 0) {
        *ret_why = BH_S("requested groups, uid or extra without impersonating a user");
        return 400;
    }
    if (!in_masters(u) || other) {
        *ret_why = bh_str_fmt(
            x->arena, "users is forbidden: User \"%.*s\" cannot impersonate%s", BH_SF(u->name),
            other ? " a uid or extra: not served" : " resource users at the cluster scope");
        return 403;
    }
    u->name = name;
    u->uid = (struct bh_str){"", 0};
    groups.p[groups.n++] = BH_S("system:authenticated");
    u->groups = groups;
    return 0;
}

static void refuse(struct bh_http_exchange *x, int http, struct bh_str why)
{
    BH_AUTO_BUF b = {.max = BH_HEADER_BYTES_MAX * 6};

    bh_buf_addz(&b, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":"
                    "\"Failure\",\"message\":");
    bh_json_write_str(&b, why);
    bh_buf_addf(&b, ",\"reason\":\"%s\",\"code\":%d}\n", http == 403 ? "Forbidden" : "BadRequest",
                http);
    plain_status(x, http, bh_buf_cstr(&b));
}

static void handle(void *arg, struct bh_http_exchange *x)
{
    static const struct bh_api_sink sink = {NULL, on_answer, on_watch_open, on_event, on_watch_end};
    struct bh_frontend *f = arg;
    struct door *d = bh_new(x->arena, struct door);
    struct bh_api_sink to = sink;
    struct bh_user user = {0};
    struct bh_api_request rq = {.method = x->method,
                                .path = x->path,
                                .query = x->query,
                                .accept = header(x, "Accept"),
                                .content_type = header(x, "Content-Type"),
                                .user_agent = header(x, "User-Agent"),
                                .body = x->body,
                                .user = &user};
    struct bh_str cn = x->peer->cert_verified ? x->peer->cn : BH_S("");

    if (!bh_authn_check(f->srv->authn, x->arena, bearer(x), cn, x->peer->orgs, &user)) {
        plain_status(x, 401,
                     "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":"
                     "\"Failure\",\"message\":"
                     "\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n");
        return;
    }
    struct bh_str why;
    int http = impersonate(x, &user, &why);
    if (http) {
        refuse(x, http, why);
        return;
    }
    if (x->body_too_large) {
        plain_status(x, 413,
                     "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":"
                     "\"Failure\",\"message\":"
                     "\"Request entity too large: limit is "
                     "3145728\",\"reason\":\"RequestEntityTooLarge\",\"code\":413}\n");
        return;
    }
    d->f = f;
    d->x = x;
    to.arg = d;
    bh_http_on_close(x, on_close, d);
    /* The answer may be given inside the call, and would free the exchange. */
    (void)bh_http_ref(x);
    d->id = bh_apiserver_handle(f->srv, &rq, &to);
    bh_http_unref(x);
}

int bh_apiserver_listen(struct bh_apiserver *srv, const struct bh_apiserver_listen_opts *o,
                        int *ret_port, struct bh_err *err)
{
    struct bh_frontend *f = srv->front;
    struct bh_tls *tls = NULL;
    struct bh_listen_opts lo = {.host = o->bind_address, .port = o->port};
    int port = 0, r;

    if (!f) {
        struct bh_http_server_opts ho = {.handler = handle, .pass_large_body = true};

        f = bh_calloc(1, sizeof(*f));
        f->srv = srv;
        ho.arg = f;
        f->http = bh_http_server_new(srv->loop, &ho);
        srv->front = f;
    }
    if (bh_str_eqc(bh_s(o->bind_address), "0.0.0.0"))
        lo.host = NULL;
    r = bh_serving_tls(o, srv->client_ca_file, &srv->kubelet_files, &tls, &srv->kubelet_tls, err);
    if (r < 0)
        return r;
    lo.tls = tls;
    r = bh_http_server_listen(f->http, &lo, &port, err);
    (void)bh_tls_unref(tls);
    if (r < 0)
        return r;
    srv->port = port;
    if (ret_port)
        *ret_port = port;
    return 0;
}

struct bh_frontend *bh_frontend_free(struct bh_frontend *f)
{
    if (!f)
        return NULL;
    f->http = bh_http_server_free(f->http);
    bh_free(f);
    return NULL;
}
