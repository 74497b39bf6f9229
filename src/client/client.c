/* The client's short forms and what both implementations share: paths, verbs, Status. */
#include "client/client_int.h"

#include "api/engine.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "net/http.h"

struct bh_loop *bh_client_loop(const struct bh_client *c)
{
    return c->loop;
}

struct bh_client *bh_client_free(struct bh_client *c)
{
    if (c) {
        client_seq_done(c);
        c->vt->free(c);
    }
    return NULL;
}

uint64_t bh_client_call(struct bh_client *c, const struct bh_client_req *req, bh_client_fn fn,
                        void *arg)
{
    uint64_t id = ++c->next_id;

    bh_assert(req->verb != BH_VERB_WATCH);
    bh_assert(!req->with_status);
    c->vt->call(c, id, req, fn, arg);
    return id;
}

uint64_t bh_client_watch(struct bh_client *c, const struct bh_client_req *req, uint64_t rv,
                         const struct bh_watch_handler *h)
{
    uint64_t id = ++c->next_id;

    c->vt->watch(c, id, req, rv, h);
    return id;
}

void bh_client_cancel(struct bh_client *c, uint64_t id)
{
    if (id && !client_seq_cancel(c, id))
        c->vt->cancel(c, id);
}

uint64_t bh_client_sequence(struct bh_client *c, const struct bh_client_req *reqs, size_t n,
                            bh_client_seq_fn fn, void *arg)
{
    uint64_t id = ++c->next_id;

    bh_assert(n > 0);
    if (c->vt->sequence)
        c->vt->sequence(c, id, reqs, n, fn, arg);
    else
        client_seq_start(c, id, reqs, n, fn, arg);
    return id;
}

bool bh_client_in_order(const struct bh_client *c)
{
    return c->vt->sequence != NULL;
}

void bh_client_req_copy(struct bh_arena *a, const struct bh_client_req *req,
                        struct bh_client_req *ret)
{
    struct bh_str *copy[] = {&ret->ns,    &ret->name,           &ret->subresource,
                             &ret->query, &ret->label_selector, &ret->field_selector,
                             &ret->body};

    *ret = *req;
    for (size_t i = 0; i < BH_COUNT(copy); i++)
        *copy[i] = bh_str_dup(a, *copy[i]);
    if (req->msg)
        ret->msg = bh_msg_dup(req->msg_kind->type, req->msg, a);
}

const char *bh_client_method(enum bh_client_verb v)
{
    static const char *const names[] = {"GET",   "GET",    "POST",   "PUT",
                                        "PATCH", "DELETE", "DELETE", "GET"};

    return names[v];
}

const char *bh_client_patch_media(enum bh_patch_type t)
{
    static const char *const names[] = {
        "application/json", "application/json-patch+json", "application/merge-patch+json",
        "application/strategic-merge-patch+json", "application/apply-patch+yaml"};

    return names[t];
}

/* A segment or value: most are as they are. */
static void url_part(struct bh_buf *out, struct bh_str s)
{
    size_t i = 0;

    while (i < s.n && ((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9') ||
                       s.p[i] == '-' || s.p[i] == '.'))
        i++;
    if (i < s.n) {
        BH_AUTO_ARENA a = bh_arena_new(0);

        bh_buf_adds(out, bh_http_escape(a, s));
    } else {
        bh_buf_adds(out, s);
    }
}

static void url_segment(struct bh_buf *out, struct bh_str s)
{
    bh_buf_addc(out, '/');
    url_part(out, s);
}

static void url_option(struct bh_buf *out, char *sep, const char *key, struct bh_str value)
{
    bh_buf_addc(out, *sep);
    bh_buf_addz(out, key);
    bh_buf_addc(out, '=');
    url_part(out, value);
    *sep = '&';
}

void bh_client_url(struct bh_buf *out, const struct bh_client_req *req, uint64_t watch_rv)
{
    const struct bh_kind *k = req->kind;
    char sep = '?';

    bh_buf_reserve(out, 128);
    bh_buf_addz(out, k->group.n ? "/apis/" : "/api/");
    bh_buf_adds(out, k->api_version);
    if (k->namespaced && req->ns.n) {
        bh_buf_addz(out, "/namespaces");
        url_segment(out, req->ns);
    }
    url_segment(out, k->resource);
    if (req->name.n)
        url_segment(out, req->name);
    if (req->subresource.n)
        url_segment(out, req->subresource);
    if (req->verb == BH_VERB_WATCH)
        bh_buf_addf(out, "%cwatch=true&resourceVersion=%llu", sep, (unsigned long long)watch_rv),
            sep = '&';
    if (req->label_selector.n)
        url_option(out, &sep, "labelSelector", req->label_selector);
    if (req->field_selector.n)
        url_option(out, &sep, "fieldSelector", req->field_selector);
    if (req->query.n)
        bh_buf_addf(out, "%c%.*s", sep, BH_SF(req->query));
}

/* The code for an HTTP status whose body is no Status. */
static enum bh_code code_of_http(int status)
{
    for (int c = BH_E_INTERNAL; c < BH_E__MAX; c++)
        if (bh_err_http((enum bh_code)c) == status)
            return (enum bh_code)c;
    return BH_E_INTERNAL;
}

static enum bh_code code_of_reason(struct bh_str reason, int status)
{
    if (!reason.n)
        return code_of_http(status);
    for (int c = BH_E_INTERNAL; c < BH_E__MAX; c++)
        if (bh_str_eqc(reason, bh_err_reason((enum bh_code)c)))
            return (enum bh_code)c;
    return code_of_http(status);
}

void bh_client_status(struct bh_arena *a, int http_status, struct bh_str body,
                      struct bh_client_res *res)
{
    struct bh_meta_v1_status *st = bh_new(a, struct bh_meta_v1_status);
    struct bh_err ignored = {0};

    res->status = http_status;
    if (bh_msg_decode_json(&bh_meta_v1_status_type, body, st, a, NULL, &ignored) < 0) {
        (void)bh_err_set(&res->err, code_of_http(http_status), "HTTP status %d", http_status);
        return;
    }
    res->reason = st->reason;
    (void)bh_err_set(&res->err, code_of_reason(st->reason, st->code ? st->code : http_status),
                     "%.*s", BH_SF(st->message));
}

uint64_t bh_client_create(struct bh_client *c, const struct bh_kind *k, struct bh_str ns,
                          const void *msg, bh_client_fn fn, void *arg)
{
    struct bh_client_req req = {
        .verb = BH_VERB_CREATE, .kind = k, .ns = ns, .msg = msg, .msg_kind = k};

    return bh_client_call(c, &req, fn, arg);
}

uint64_t bh_client_update(struct bh_client *c, const struct bh_kind *k, const void *msg,
                          const char *sub, bh_client_fn fn, void *arg)
{
    const struct bh_meta_v1_object_meta *m = (const void *)((const char *)msg + k->meta_off);
    struct bh_client_req req = {.verb = BH_VERB_UPDATE,
                                .kind = k,
                                .ns = m->namespace,
                                .name = m->name,
                                .subresource = bh_s(sub),
                                .msg = msg,
                                .msg_kind = k};

    return bh_client_call(c, &req, fn, arg);
}

uint64_t bh_client_patch(struct bh_client *c, const struct bh_kind *k, struct bh_str ns,
                         struct bh_str name, const char *sub, enum bh_patch_type type,
                         struct bh_str body, bh_client_fn fn, void *arg)
{
    struct bh_client_req req = {.verb = BH_VERB_PATCH,
                                .kind = k,
                                .ns = ns,
                                .name = name,
                                .subresource = bh_s(sub),
                                .patch = type,
                                .body = body};

    return bh_client_call(c, &req, fn, arg);
}

uint64_t bh_client_delete(struct bh_client *c, const struct bh_kind *k, struct bh_str ns,
                          struct bh_str name, struct bh_str uid, int64_t grace_s, bh_client_fn fn,
                          void *arg)
{
    BH_AUTO_BUF b = {.max = 4096};
    struct bh_client_req req = {.verb = BH_VERB_DELETE, .kind = k, .ns = ns, .name = name};

    bh_buf_addz(&b, "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\"");
    if (grace_s >= 0)
        bh_buf_addf(&b, ",\"gracePeriodSeconds\":%lld", (long long)grace_s);
    if (uid.n) /* a uid is a UUID: nothing in it needs escaping */
        bh_buf_addf(&b, ",\"preconditions\":{\"uid\":\"%.*s\"}", BH_SF(uid));
    bh_buf_addc(&b, '}');
    req.body = bh_buf_str(&b);
    return bh_client_call(c, &req, fn, arg);
}
