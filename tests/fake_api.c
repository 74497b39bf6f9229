/* The toy API server. Events are kept for ever, so that a watch can begin anywhere. */
#include "../tests/fake_api.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/list.h"
#include "base/map.h"
#include "base/test.h"
#include "data/json.h"
#include "net/http.h"
#include "net/loop.h"

struct event {
    struct bh_link link;
    uint64_t rv;
    struct bh_str path, line;
};

struct watch {
    struct bh_link link;
    struct bh_fake_api *f;
    struct bh_http_exchange *x;
    struct bh_str prefix;
};

struct bh_fake_api {
    struct bh_loop *loop;
    struct bh_http_server *srv;
    int port;
    struct bh_arena *a; /* everything lives as long as the fake */
    struct bh_map objs; /* path to struct bh_str * */
    uint64_t rv;
    struct bh_link events, watches;
    size_t writes, wipes;
    struct bh_str last_wipe;
    const char *fail_method, *fail_part;
    int fail_status, fail_n;
};

static void respond(struct bh_http_exchange *x, int status, struct bh_str body)
{
    const struct bh_http_header h = BH_HTTP_HEADER("Content-Type", BH_S("application/json"));
    const struct bh_part p = {.data = body};

    bh_http_respond(x, status, &h, 1, &p, 1);
}

static void respond_status(struct bh_http_exchange *x, int status, const char *reason)
{
    respond(x, status,
            bh_str_fmt(x->arena,
                       "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":"
                       "\"Failure\",\"message\":"
                       "\"%s by the fake\",\"reason\":\"%s\",\"code\":%d}",
                       reason, reason, status));
}

static bool below(struct bh_str path, struct bh_str prefix)
{
    return bh_str_starts(path, prefix) && path.n > prefix.n && path.p[prefix.n] == '/';
}

static void watch_send(struct watch *w, const struct event *e)
{
    const struct bh_part p = {.data = e->line};

    if (below(e->path, w->prefix))
        bh_http_stream_write(w->x, &p, 1);
}

static void tell(struct bh_fake_api *f, const char *type, struct bh_str path, struct bh_str json)
{
    struct event *e = bh_new(f->a, struct event);

    e->rv = f->rv;
    e->path = path;
    e->line = bh_str_fmt(f->a, "{\"type\":\"%s\",\"object\":%.*s}\n", type, BH_SF(json));
    bh_list_add_tail(&f->events, &e->link);
    bh_list_for(it, &f->watches) watch_send(bh_container(it, struct watch, link), e);
}

/* Stores a document under path; name, uid and version are set in it. Returns the stored text. */
static struct bh_str store(struct bh_fake_api *f, struct bh_str path, struct bh_jv *doc)
{
    struct bh_str *slot = bh_map_get(&f->objs, path);
    bool is_new = slot == NULL;
    struct bh_jv *meta = bh_jv_getc(doc, "metadata");

    bh_assert(meta != NULL);
    f->rv++;
    bh_jv_setc(f->a, meta, "resourceVersion",
               bh_jv_str(bh_str_fmt(f->a, "%llu", (unsigned long long)f->rv)));
    if (!bh_jv_getc(meta, "uid"))
        bh_jv_setc(f->a, meta, "uid",
                   bh_jv_str(bh_str_fmt(f->a, "uid-%llu", (unsigned long long)f->rv)));
    path = bh_str_dup(f->a, path);
    if (is_new)
        slot = bh_new(f->a, struct bh_str);
    *slot = bh_jv_text(f->a, doc, 0);
    (void)bh_map_put(&f->objs, path, slot);
    tell(f, is_new ? "ADDED" : "MODIFIED", path, *slot);
    return *slot;
}

static void drop(struct bh_fake_api *f, struct bh_str path)
{
    struct bh_str *slot;
    struct bh_jv doc;

    path = bh_str_dup(f->a, path);
    slot = bh_map_del(&f->objs, path);
    f->rv++;
    bh_assert(bh_jv_parse(f->a, *slot, NULL, &doc, NULL) == 0);
    bh_jv_setc(f->a, bh_jv_getc(&doc, "metadata"), "resourceVersion",
               bh_jv_str(bh_str_fmt(f->a, "%llu", (unsigned long long)f->rv)));
    tell(f, "DELETED", path, bh_jv_text(f->a, &doc, 0));
}

static void watch_gone(void *arg)
{
    struct watch *w = arg;

    if (bh_link_on(&w->link))
        bh_list_del(&w->link);
    bh_http_stream_end(w->x);
    bh_free(w);
}

static void watch_start(struct bh_fake_api *f, struct bh_http_exchange *x)
{
    const struct bh_http_header h = BH_HTTP_HEADER("Content-Type", BH_S("application/json"));
    struct bh_str from = bh_http_query_get(x->arena, x->query, BH_S("resourceVersion"));
    struct watch *w = bh_calloc(1, sizeof(*w));
    int64_t rv = 0;

    (void)!bh_str_i64(from, 0, INT64_MAX, &rv);
    w->f = f;
    w->x = x;
    w->prefix = x->path;
    bh_list_add_tail(&f->watches, &w->link);
    bh_http_stream_start(x, 200, &h, 1);
    bh_http_on_close(x, watch_gone, w);
    bh_list_for(it, &f->events)
    {
        const struct event *e = bh_container(it, struct event, link);

        if ((int64_t)e->rv > rv)
            watch_send(w, e);
    }
}

static void list(struct bh_fake_api *f, struct bh_http_exchange *x)
{
    BH_AUTO_BUF b = {0};
    struct bh_str path;
    const char *sep = "";
    void *v;

    bh_buf_addf(&b,
                "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"%"
                "llu\"},\"items\":[",
                (unsigned long long)f->rv);
    for (size_t it = 0; bh_map_next(&f->objs, &it, &path, &v);) {
        if (!below(path, x->path))
            continue;
        bh_buf_addz(&b, sep);
        bh_buf_adds(&b, *(struct bh_str *)v);
        sep = ",";
    }
    bh_buf_addz(&b, "]}");
    respond(x, 200, bh_buf_str(&b));
}

static void write_object(struct bh_fake_api *f, struct bh_http_exchange *x, bool create)
{
    struct bh_jv doc;
    struct bh_jv *meta;
    struct bh_str path = x->path, name, *old;

    if (bh_jv_parse(f->a, bh_str_dup(f->a, x->body), NULL, &doc, NULL) < 0 ||
        !(meta = bh_jv_getc(&doc, "metadata"))) {
        respond_status(x, 400, "BadRequest");
        return;
    }
    if (create) {
        name = bh_jv_get_str(meta, "name");
        if (name.n == 0) {
            struct bh_str g = bh_jv_get_str(meta, "generateName");

            name = bh_str_fmt(f->a, "%.*sg%llu", BH_SF(g), (unsigned long long)f->rv);
            bh_jv_setc(f->a, meta, "name", bh_jv_str(name));
        }
        path = bh_str_fmt(f->a, "%.*s/%.*s", BH_SF(path), BH_SF(name));
        if (bh_map_get(&f->objs, path)) {
            respond_status(x, 409, "AlreadyExists");
            return;
        }
    } else {
        struct bh_jv was;
        struct bh_str rv = bh_jv_get_str(meta, "resourceVersion");

        old = bh_map_get(&f->objs, path);
        if (!old) {
            respond_status(x, 404, "NotFound");
            return;
        }
        bh_assert(bh_jv_parse(f->a, *old, NULL, &was, NULL) == 0);
        if (rv.n > 0 &&
            !bh_str_eq(rv, bh_jv_get_str(bh_jv_getc(&was, "metadata"), "resourceVersion"))) {
            respond_status(x, 409, "Conflict");
            return;
        }
    }
    respond(x, create ? 201 : 200, store(f, path, &doc));
}

static void wipe(struct bh_fake_api *f, struct bh_http_exchange *x)
{
    struct bh_str sel = bh_http_query_get(x->arena, x->query, BH_S("fieldSelector"));
    ptrdiff_t at = bh_str_find(sel, BH_S("spec.driver="));
    struct bh_str driver =
        at < 0 ? (struct bh_str){NULL, 0} : bh_str_sub(sel, (size_t)at + 12, sel.n);
    struct bh_str path;
    void *v;

    f->wipes++;
    f->last_wipe = bh_str_dup(f->a, sel);
    for (size_t it = 0; bh_map_next(&f->objs, &it, &path, &v);)
        if (below(path, x->path) &&
            (driver.n == 0 || bh_str_find(*(struct bh_str *)v, driver) >= 0)) {
            drop(f, path);
            it = 0;
        }
    respond(
        x, 200,
        BH_S("{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Success\"}"));
}

static void handle(void *arg, struct bh_http_exchange *x)
{
    struct bh_fake_api *f = arg;
    struct bh_str *obj = bh_map_get(&f->objs, x->path);
    struct bh_str watch = bh_http_query_get(x->arena, x->query, BH_S("watch"));

    if (!bh_str_eqc(x->method, "GET"))
        f->writes++;
    if (f->fail_n > 0 && bh_str_eqc(x->method, f->fail_method) &&
        bh_str_find(x->path, bh_s(f->fail_part)) >= 0) {
        f->fail_n--;
        respond_status(x, f->fail_status, "InternalError");
    } else if (bh_str_eqc(x->method, "POST")) {
        write_object(f, x, true);
    } else if (bh_str_eqc(x->method, "PUT")) {
        write_object(f, x, false);
    } else if (bh_str_eqc(x->method, "DELETE")) {
        if (obj) {
            struct bh_str last = *obj;

            drop(f, x->path); /* the exchange is gone after its answer */
            respond(x, 200, last);
        } else if (bh_str_find(x->query, BH_S("fieldSelector")) >= 0) {
            wipe(f, x);
        } else {
            respond_status(x, 404, "NotFound");
        }
    } else if (obj) {
        respond(x, 200, *obj);
    } else if (watch.n > 0) {
        watch_start(f, x);
    } else if (x->path.n > 0 &&
               bh_str_ends(x->path,
                           BH_S("s"))) { /* a collection: plural, unlike the test's names */
        list(f, x);
    } else {
        respond_status(x, 404, "NotFound");
    }
}

struct bh_fake_api *bh_fake_api_new(struct bh_loop *l)
{
    struct bh_fake_api *f = bh_calloc(1, sizeof(*f));
    const struct bh_http_server_opts so = {.handler = handle, .arg = f};
    const struct bh_listen_opts lo = {.host = "127.0.0.1"};

    f->loop = l;
    f->a = bh_arena_new(0);
    f->rv = 100;
    bh_list_init(&f->events);
    bh_list_init(&f->watches);
    f->srv = bh_http_server_new(l, &so);
    BH_EQ(bh_http_server_listen(f->srv, &lo, &f->port, NULL), 0);
    return f;
}

struct bh_fake_api *bh_fake_api_free(struct bh_fake_api *f)
{
    if (!f)
        return NULL;
    while (!bh_list_empty(&f->watches)) {
        struct watch *w = bh_container(f->watches.next, struct watch, link);

        bh_http_on_close(w->x, NULL, NULL);
        watch_gone(w);
    }
    f->srv = bh_http_server_free(f->srv);
    bh_map_done(&f->objs);
    (void)bh_arena_free(f->a);
    bh_free(f);
    return NULL;
}

void bh_fake_api_kubeconfig(const struct bh_fake_api *f, const char *path)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addf(&b,
                "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster:\n    server: "
                "http://127.0.0.1:%d\n"
                "users:\n- name: u\n  user:\n    token: t\n"
                "contexts:\n- name: x\n  context: {cluster: c, user: u}\ncurrent-context: x\n",
                f->port);
    BH_EQ(bh_fs_write_plain(path, bh_buf_str(&b), 0600, NULL), 0);
}

void bh_fake_api_put(struct bh_fake_api *f, const char *path, const char *json)
{
    struct bh_jv doc;
    struct bh_err e = {0};

    if (bh_jv_parse(f->a, bh_str_dup(f->a, bh_s(json)), NULL, &doc, &e) < 0)
        bh_test_fail(__FILE__, __LINE__, "%s: %s", path, e.msg);
    else
        (void)store(f, bh_s(path), &doc);
}

void bh_fake_api_del(struct bh_fake_api *f, const char *path)
{
    drop(f, bh_s(path));
}

struct bh_str bh_fake_api_get(const struct bh_fake_api *f, const char *path)
{
    const struct bh_str *s = bh_map_get(&f->objs, bh_s(path));

    return s ? *s : (struct bh_str){NULL, 0};
}

struct bh_str bh_fake_api_first(const struct bh_fake_api *f, const char *collection)
{
    struct bh_str path, first = {NULL, 0}, ret = {NULL, 0};
    void *v;

    for (size_t it = 0; bh_map_next(&f->objs, &it, &path, &v);)
        if (below(path, bh_s(collection)) && (!first.p || bh_str_cmp(path, first) < 0)) {
            first = path;
            ret = *(struct bh_str *)v;
        }
    return ret;
}

size_t bh_fake_api_count(const struct bh_fake_api *f, const char *collection)
{
    struct bh_str path;
    size_t n = 0;

    for (size_t it = 0; bh_map_next(&f->objs, &it, &path, NULL);)
        n += below(path, bh_s(collection));
    return n;
}

size_t bh_fake_api_writes(const struct bh_fake_api *f)
{
    return f->writes;
}

struct bh_str bh_fake_api_wipes(const struct bh_fake_api *f, size_t *ret_n)
{
    *ret_n = f->wipes;
    return f->last_wipe;
}

void bh_fake_api_fail(struct bh_fake_api *f, const char *method, const char *path_part, int status,
                      int n)
{
    f->fail_method = method;
    f->fail_part = path_part;
    f->fail_status = status;
    f->fail_n = n;
}
