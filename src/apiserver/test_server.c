/* The small client of the tests: see test_server.h. */
#include "apiserver/test_server.h"

#include "api/obj.h"
#include "base/test.h"

#include <string.h>

static void settle(struct ts *t)
{
    bh_loop_advance(t->l, 1000000000);
}

void ts_settle(struct ts *t)
{
    settle(t);
}

void ts_restart(struct ts *t)
{
    struct bh_err err = {0};

    bh_apiserver_free(t->srv);
    settle(t);
    t->srv = NULL;
    BH_EQ(bh_apiserver_new(t->l, t->store, NULL, &t->srv, &err), 0);
    settle(t);
}

void ts_start(struct ts *t, uint64_t seed)
{
    struct bh_err err = {0};

    memset(t, 0, sizeof(*t));
    t->l = bh_loop_new_virtual(seed, (int64_t)1800000000 * 1000000000);
    t->store = bh_store_new_memory(t->l);
    BH_EQ(bh_apiserver_new(t->l, t->store, NULL, &t->srv, &err), 0);
    settle(t);
    t->base = bh_store_rev(t->store);
}

void ts_stop(struct ts *t)
{
    bh_apiserver_free(t->srv);
    settle(t);
    bh_store_free(t->store);
    bh_loop_free(t->l);
    bh_buf_done(&t->body);
    bh_buf_done(&t->warnings);
}

static void on_answer(void *arg, const struct bh_api_response *r)
{
    struct ts *t = arg;

    t->answers++;
    t->status = r->status;
    bh_buf_clear(&t->body);
    bh_buf_clear(&t->warnings);
    for (size_t i = 0; i < r->parts_n; i++)
        bh_buf_adds(&t->body, r->parts[i].bytes);
    for (size_t i = 0; i < r->headers_n; i++)
        if (bh_str_eqc(r->headers[i].name, "Warning"))
            bh_buf_addf(&t->warnings, "%.*s\n", BH_SF(r->headers[i].value));
}

static void no_open(void *arg, struct bh_str type, const struct bh_api_header *h, size_t n)
{
    (void)arg, (void)type, (void)h, (void)n;
    bh_test_fail(__FILE__, __LINE__, "a watch was opened");
}
static bool no_event(void *arg, const struct bh_api_event *ev)
{
    (void)arg, (void)ev;
    return false;
}
static void no_end(void *arg)
{
    (void)arg;
}

static uint64_t ask(struct ts *t, const char *user, const char *method, const char *path,
                    const char *accept, const char *content_type, const char *body,
                    const struct bh_api_sink *sink)
{
    struct bh_str rest = bh_s(path), p = bh_str_cut(&rest, '?');
    struct bh_str groups[] = {BH_S("system:masters"), BH_S("system:authenticated")};
    bool master = !user;
    struct bh_user u = {.name = bh_s(user ? user : "admin"),
                        .groups = {master ? groups : groups + 1, master ? 2 : 1}};
    struct bh_api_request rq = {.method = bh_s(method),
                                .path = p,
                                .query = rest,
                                .accept = bh_s(accept),
                                .content_type = bh_s(content_type),
                                .user_agent = BH_S("test/1"),
                                .body = bh_s(body),
                                .user = &u};

    return bh_apiserver_handle(t->srv, &rq, sink);
}

static int call(struct ts *t, const char *user, const char *method, const char *path,
                const char *accept, const char *content_type, const char *body)
{
    struct bh_api_sink sink = {t, on_answer, no_open, no_event, no_end};
    int before = t->answers;

    t->status = 0;
    (void)ask(t, user, method, path, accept, content_type, body, &sink);
    settle(t);
    BH_EQ(t->answers, before + 1);
    return t->status;
}

int ts_call(struct ts *t, const char *method, const char *path, const char *body)
{
    return call(t, NULL, method, path, NULL, NULL, body);
}

int ts_call_as(struct ts *t, const char *user, const char *method, const char *path,
               const char *body)
{
    return call(t, user, method, path, NULL, NULL, body);
}

int ts_call_with(struct ts *t, const char *method, const char *path, const char *accept,
                 const char *content_type, const char *body)
{
    return call(t, NULL, method, path, accept, content_type, body);
}

void ts_post(struct ts *t, const char *method, const char *path, const char *body)
{
    struct bh_api_sink sink = {t, on_answer, no_open, no_event, no_end};

    (void)ask(t, NULL, method, path, NULL, NULL, body, &sink);
}

bool ts_has(const struct ts *t, const char *text)
{
    return bh_str_find(bh_buf_str(&t->body), bh_s(text)) >= 0;
}

static void watch_answer(void *arg, const struct bh_api_response *r)
{
    struct ts_watch *w = arg;

    bh_buf_addf(&w->events, "status %d ", r->status);
    w->ended = true;
}

static void watch_open(void *arg, struct bh_str type, const struct bh_api_header *h, size_t n)
{
    (void)type, (void)h, (void)n;
    ((struct ts_watch *)arg)->opened = true;
}

static bool watch_event(void *arg, const struct bh_api_event *ev)
{
    static const char *const names[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"};
    struct ts_watch *w = arg;

    bh_buf_addf(&w->events, "%s %.*s@%llu ", names[ev->type], ev->obj ? (int)ev->obj->name.n : 0,
                ev->obj ? ev->obj->name.p : "",
                (unsigned long long)(ev->rv ? ev->rv - w->t->base : 0));
    w->n++;
    return w->refuse_after == 0 || w->n < w->refuse_after;
}

static void watch_end(void *arg)
{
    ((struct ts_watch *)arg)->ended = true;
}

void ts_watch(struct ts *t, struct ts_watch *w, const char *path)
{
    struct bh_api_sink sink = {w, watch_answer, watch_open, watch_event, watch_end};

    w->t = t;
    w->id = ask(t, NULL, "GET", path, NULL, NULL, NULL, &sink);
}

void ts_watch_end(struct ts_watch *w)
{
    if (!w->ended)
        bh_apiserver_cancel(w->t->srv, w->id);
    bh_buf_done(&w->events);
}
