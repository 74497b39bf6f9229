/* Watches: initial events, events of the cache through the selectors, bookmarks, the end. */
#include "api/gen/meta_v1.h"
#include "apiserver/frames.h"
#include "apiserver/history.h"
#include "apiserver/listopts.h"
#include "apiserver/rest_list.h"
#include "apiserver/select.h"
#include "apiserver/server_int.h"
#include "base/limits.h"

#include <stdio.h>

#define BOOKMARK_EVERY_MS 60000
#define TIMEOUT_DEFAULT_S                                                                          \
    1800 /* and up to as much again, so that watches do not end all at once                        \
          */

struct watch {
    struct bh_wc_watcher w;
    struct bh_rq *rq;
    struct bh_select sel;
    struct bh_listopts o;
    struct bh_timer end, bookmark;
    struct bh_history old; /* while it catches up from the store */
    struct bh_arena *scratch;
    struct bh_watched *counted;
    bool first; /* no event was sent yet: a table then carries its columns */
    bool ended;
    bool reads;    /* its receiver decodes what it gets */
    unsigned hold; /* functions on the stack that still use this: the last one to let go frees it */
};

static void finish(struct watch *w)
{
    struct bh_rq *rq = w->rq;

    bh_wc_unwatch(&w->w);
    bh_history_stop(&w->old);
    bh_timer_stop(&w->end);
    bh_timer_stop(&w->bookmark);
    w->scratch = bh_arena_free(w->scratch);
    rq->srv->watches--;
    if (w->reads)
        rq->res->wc->readers--;
    if (!rq->canceled)
        rq->sink.watch_end(rq->sink.arg);
    bh_rq_finish(rq);
}

static void let_go(struct watch *w)
{
    if (--w->hold == 0 && w->ended)
        finish(w);
}

/* No event follows; frees the watch unless somebody holds it. */
static void end_watch(struct watch *w)
{
    w->ended = true;
    bh_history_stop(&w->old);
    bh_wc_unwatch(&w->w);
    if (w->hold == 0)
        finish(w);
}

static void stop(struct bh_rq *rq)
{
    rq->canceled = true;
    end_watch(rq->watch);
}

/* Sends one event; obj is in the stored version and may be NULL (bookmarks, errors). */
static void send(struct watch *w, enum bh_watch_type type, struct bh_obj *obj, uint64_t rv,
                 bool initial_end)
{
    struct bh_rq *rq = w->rq;
    struct bh_api_event ev = {.type = type, .obj = obj, .rv = rv, .initial_end = initial_end};
    struct bh_frame_want want = {rq, type, obj, rv, initial_end, w->first};
    BH_AUTO_OBJ *conv = NULL;

    if (w->ended)
        return;
    if (rq->as == BH_AS_PARTIAL_LIST) { /* no event has that form */
        end_watch(w);
        return;
    }
    if (obj && rq->objects && obj->kind != rq->kind) {
        conv = bh_convert_cached(rq->srv, obj, rq->kind);
        ev.obj = conv;
    }
    if (!rq->objects) {
        ev.keep = bh_frame_get(&want, &ev.bytes);
        if (!ev.keep)
            return;
    }
    w->first = false;
    w->hold++;
    bh_metrics_event(w->counted, ev.bytes.n);
    if (!rq->sink.event(rq->sink.arg, &ev))
        end_watch(w);
    (void)bh_api_bytes_unref(ev.keep);
    let_go(w);
}

static void on_event(void *arg, const struct bh_wc_event *ev)
{
    struct watch *w = arg;
    bool now, was;

    if (!w->sel.any) {
        send(w, ev->type, ev->obj, ev->rv, false);
        return;
    }
    now =
        ev->type != BH_WATCH_DELETED && bh_select_match(&w->sel, w->rq->kind, ev->obj, w->scratch);
    was = ev->type == BH_WATCH_DELETED && !ev->prev
              ? bh_select_match(&w->sel, w->rq->kind, ev->obj, w->scratch)
          : ev->prev ? bh_select_match(&w->sel, w->rq->kind, ev->prev, w->scratch)
                     : false;
    bh_arena_reset(w->scratch);
    if (ev->type == BH_WATCH_DELETED) {
        if (was)
            send(w, BH_WATCH_DELETED, ev->obj, ev->rv, false);
    } else if (now) {
        send(w, was ? BH_WATCH_MODIFIED : BH_WATCH_ADDED, ev->obj, ev->rv, false);
    } else if (was) {
        /* It leaves the selection in its last selected form, with the version of the change. */
        BH_AUTO_OBJ *last = bh_obj_new(ev->prev->kind, ev->prev->json, ev->rv, NULL);

        if (last)
            send(w, BH_WATCH_DELETED, last, ev->rv, false);
    }
}

static void on_bookmark(void *arg)
{
    struct watch *w = arg;

    bh_timer_start(&w->bookmark, BOOKMARK_EVERY_MS);
    send(w, BH_WATCH_BOOKMARK, NULL, bh_wc_rv(w->rq->srv->wc), false);
}

static void on_end(void *arg)
{
    end_watch(arg);
}

static void open_stream(struct bh_rq *rq)
{
    size_t n;
    const struct bh_api_header *h = bh_rq_headers(rq, NULL, 0, &n);

    bh_metrics_count(rq, 200, 0);
    rq->sink.watch_open(rq->sink.arg,
                        rq->form == BH_FORM_PB
                            ? BH_S("application/vnd.kubernetes.protobuf;stream=watch")
                            : BH_S("application/json"),
                        h, n);
}

/* An expired or impossible version is told inside a 200. */
static void send_error(struct watch *w, enum bh_code code, const char *text, int retry)
{
    struct bh_rq *rq = w->rq;
    struct bh_api_event ev = {.type = BH_WATCH_ERROR, .code = code, .message = bh_s(text)};

    (void)bh_fail_msg(rq, code, "%s", text);
    rq->fail.retry_after = retry;
    if (!rq->objects)
        ev.keep = bh_frame_error(rq, &ev.bytes);
    w->hold++;
    (void)rq->sink.event(rq->sink.arg, &ev);
    (void)bh_api_bytes_unref(ev.keep);
    end_watch(w);
    let_go(w);
}

static int initial_events(struct watch *w, uint64_t *ret_rv)
{
    struct bh_rq *rq = w->rq;
    struct bh_listopts all = {0};
    struct bh_list_page p;
    int r = bh_list_select(rq, &all, &w->sel, &p);

    if (r < 0)
        return r;
    *ret_rv = p.rv;
    /* An event may make the cache change under the list. */
    for (size_t i = 0; i < p.n; i++)
        (void)bh_obj_ref(p.items[i]);
    for (size_t i = 0; i < p.n; i++) {
        send(w, BH_WATCH_ADDED, p.items[i], p.items[i]->rv, false);
        (void)bh_obj_unref(p.items[i]);
    }
    return 0;
}

/* ---- older than the window: from the store ---- */

static void old_event(void *arg, const struct bh_wc_event *ev)
{
    struct watch *w = arg;

    if ((w->w.ns.n == 0 || bh_str_eq(w->w.ns, ev->obj->ns)) &&
        (w->w.name.n == 0 || bh_str_eq(w->w.name, ev->obj->name)))
        on_event(w, ev);
}

static void old_done(void *arg, const struct bh_err *err)
{
    struct watch *w = arg;
    struct bh_err gone = {0};

    w->hold++;
    if (err)
        send_error(w, err->code, err->msg, 0);
    else if (bh_wc_watch(w->rq->res->wc, &w->w, bh_wc_rv(w->rq->srv->wc), &gone) < 0)
        send_error(w, BH_E_GONE, gone.msg, 0);
    let_go(w);
}

/* The window when it holds what is asked for, else what is stored, and then the present. */
static void follow(struct watch *w, uint64_t since)
{
    struct bh_err err = {0};

    if (bh_wc_watch(w->rq->res->wc, &w->w, since, &err) >= 0)
        return;
    /* Version 1 is that of an empty store: nobody was ever given it. */
    if (since < bh_store_compacted(w->rq->srv->store) || since <= 1) {
        send_error(w, BH_E_GONE, err.msg, 0);
        return;
    }
    w->old.event = old_event;
    w->old.done = old_done;
    w->old.arg = w;
    bh_history_start(&w->old, w->rq->srv, w->rq->res->wc, since);
}

static void start(struct watch *w)
{
    struct bh_rq *rq = w->rq;
    const struct bh_listopts *o = &w->o;
    uint64_t now = bh_wc_rv(rq->srv->wc), since = o->rv_n;
    char text[160];

    open_stream(rq);
    if (o->initial && o->rv_n > now) {
        (void)snprintf(text, sizeof(text), "Too large resource version: %llu, current: %llu",
                       (unsigned long long)o->rv_n, (unsigned long long)now);
        send_error(w, BH_E_TIMEOUT, text, 1);
        return;
    }
    if (o->initial || (o->rv_n == 0 && !o->has_initial)) {
        if (initial_events(w, &since) < 0) {
            send_error(w, BH_E_INTERNAL, "the initial events could not be listed", 0);
            return;
        }
        if (o->initial && o->bookmarks)
            send(w, BH_WATCH_BOOKMARK, NULL, since, true);
    } else if (o->rv_n == 0) {
        since = now;
    }
    if (!w->ended)
        follow(w, since);
}

int bh_rest_watch(struct bh_rq *rq)
{
    struct watch *w = bh_new(rq->a, struct watch);
    int64_t seconds;
    int r = bh_listopts_parse(rq, true, &w->o);

    if (r == 0)
        r = bh_select_parse(rq, &w->sel);
    if (r < 0)
        return r;
    if (rq->srv->watches >= BH_WATCHERS_MAX) {
        r = bh_fail_msg(rq, BH_E_BUSY, "too many watches (%zu), please try again later",
                        rq->srv->watches);
        rq->fail.retry_after = 1;
        return r;
    }
    rq->srv->watches++;
    w->reads = rq->objects && rq->kind == rq->res->hub;
    if (w->reads)
        rq->res->wc->readers++;
    w->rq = rq;
    w->first = true;
    w->counted = bh_metrics_watched(rq);
    w->scratch = bh_arena_new(0);
    w->w.ns = rq->res->hub->namespaced ? (rq->ri.ns.n > 0 ? rq->ri.ns : w->sel.ns) : BH_S("");
    w->w.name = rq->ri.old_watch && rq->ri.name.n > 0 ? rq->ri.name : w->sel.name;
    w->sel.name = w->w.name;
    w->w.index_value = w->sel.index_value;
    w->w.event = on_event;
    w->w.arg = w;
    rq->watch = w;
    rq->stop = stop;
    seconds =
        w->o.has_timeout && w->o.timeout_s > 0
            ? w->o.timeout_s
            : TIMEOUT_DEFAULT_S + (int64_t)(bh_loop_random(rq->srv->loop) % TIMEOUT_DEFAULT_S);
    bh_timer_init(&w->end, rq->srv->loop, on_end, w);
    bh_timer_init(&w->bookmark, rq->srv->loop, on_bookmark, w);
    bh_timer_start(&w->end, seconds * 1000);
    if (w->o.bookmarks)
        bh_timer_start(&w->bookmark, BOOKMARK_EVERY_MS);
    w->hold++;
    start(w);
    let_go(w);
    return 0;
}
