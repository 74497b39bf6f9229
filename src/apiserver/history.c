/* Reading stored history in slices. */
#include "apiserver/history.h"

#include "apiserver/server_int.h"
#include "store/store.h"

/* Writes of all resources that one turn of the loop reads: a few milliseconds. */
#define SLICE 1000

struct bh_history_slice {
    struct bh_history *h;
    uint64_t until; /* what is published: nothing newer is told */
    size_t n;
    bool end;
    bool stopped; /* h is gone */
};

/* The event as the cache would hold it. False when what is stored cannot be read. */
static bool make_event(struct bh_history *h, const struct bh_store_write *w, struct bh_wc_event *ev)
{
    const struct bh_kind *hub = h->res->hub;

    *ev = (struct bh_wc_event){.rv = w->rev};
    ev->type = w->op == BH_STORE_DELETE   ? BH_WATCH_DELETED
               : w->op == BH_STORE_CREATE ? BH_WATCH_ADDED
                                          : BH_WATCH_MODIFIED;
    ev->obj = bh_obj_new(hub, w->value, w->rev, &h->err);
    if (ev->obj && w->prev.n > 0)
        ev->prev = bh_obj_new(hub, w->prev, w->prev_rev, &h->err);
    return ev->obj && (w->prev.n == 0 || ev->prev);
}

static int each(void *arg, const struct bh_store_write *w)
{
    struct bh_history_slice *s = arg;
    struct bh_history *h = s->h;
    struct bh_wc_event ev;
    bool made;

    if (w->rev > s->until) {
        s->end = true;
        return 1;
    }
    s->n++;
    h->at = w->rev;
    if (!bh_str_starts(w->key, h->res->prefix))
        return 0;
    made = make_event(h, w, &ev);
    if (made)
        h->event(h->arg, &ev);
    (void)bh_obj_unref(ev.obj);
    (void)bh_obj_unref(ev.prev);
    return !made || s->stopped;
}

static void end(struct bh_history *h)
{
    h->srv = NULL;
    h->done(h->arg, h->err.code != BH_OK ? &h->err : NULL);
}

static void slice(void *arg)
{
    struct bh_history *h = arg;
    struct bh_history_slice s = {.h = h, .until = bh_wc_rv(h->srv->wc)};

    h->in = &s;
    if (h->at < bh_store_compacted(h->srv->store))
        (void)bh_err_set(&h->err, BH_E_GONE, "too old resource version: %llu (%llu)",
                         (unsigned long long)h->at,
                         (unsigned long long)bh_store_compacted(h->srv->store));
    else if (bh_store_history(h->srv->store, h->at, SLICE, each, &s, &h->err) < 0 &&
             h->err.code == BH_OK)
        (void)bh_err_set(&h->err, BH_E_INTERNAL, "history cannot be read");
    if (s.stopped)
        return;
    h->in = NULL;
    if (h->err.code != BH_OK || s.end || s.n < SLICE)
        end(h);
    else
        bh_timer_start(&h->next, 0);
}

void bh_history_start(struct bh_history *h, struct bh_apiserver *srv, struct bh_wc_res *res,
                      uint64_t after)
{
    h->srv = srv;
    h->res = res;
    h->at = after;
    h->in = NULL;
    h->err = (struct bh_err){0};
    bh_timer_init(&h->next, srv->loop, slice, h);
    slice(h);
}

void bh_history_stop(struct bh_history *h)
{
    if (!h->srv)
        return;
    if (h->in)
        h->in->stopped = true;
    bh_timer_stop(&h->next);
    h->srv = NULL;
}
