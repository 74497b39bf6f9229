/* Events: what happened to an object, counted when it repeats and limited when it floods.
 *
 * The same (object, type, reason, message) within the memory of the recorder raises the count of
 * the event it made; each object has a bucket of 25 events that fills by one each five minutes, as
 * upstream's client does. They are written one after the other, as upstream's client does too: what
 * is told must not stand in the way of what is done.
 */
#include <string.h>

#include "api/gen/core_v1.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "client/client_int.h"
#include "data/time_fmt.h"

#define RECORDER_BURST     25
#define RECORDER_REFILL_NS ((int64_t)300 * 1000000000)
#define RECORDER_KEYS_MAX  4096
#define RECORDER_QUEUE_MAX 10000 /* waiting to be written; what comes then is dropped */
#define DROPPED_TOLD_NS    ((int64_t)10 * 1000000000)
#define NAME_MAX_BYTES     236 /* of 253, with a point and sixteen digits behind it */

/* A write that waits for its turn, or is under way: a new event, or the count of one. */
struct pending {
    struct bh_link link;
    struct recorded *of; /* NULL: forgotten meanwhile */
    bool create;
    int32_t count;
    int64_t first, last;        /* seconds */
    const struct bh_kind *kind; /* of the object, and so on */
    uint64_t rv;
    struct bh_str object_ns, object, uid, type, reason, message;
    struct bh_str ns, name; /* of the event */
    char text[];            /* what the strings point at */
};

struct recorded {
    char *ns, *name; /* of the Event object */
    int32_t count;
    struct pending *pending; /* waits, and can still be changed */
    bool gone;               /* the server forgot the event: the next one is made anew */
};

struct bucket {
    int64_t tokens, at_ns;
};

struct bh_recorder {
    struct bh_client *client;
    char *component, *host;
    struct bh_map seen;    /* dedup key -> struct recorded */
    struct bh_map buckets; /* object uid -> struct bucket */
    int64_t last_ns;       /* the time in the last event's name: names must differ */
    struct bh_link queue;  /* struct pending */
    size_t queued;
    size_t dropped;       /* and not told yet */
    int64_t told_ns;      /* when that was told last, 0: never */
    struct pending *sent; /* the write under way */
    uint64_t call;
};

struct bh_recorder *bh_recorder_new(struct bh_client *c, const char *component, const char *host)
{
    struct bh_recorder *r = bh_calloc(1, sizeof(*r));

    r->client = c;
    r->component = bh_strdup_c(bh_s(component));
    r->host = bh_strdup_c(bh_s(host));
    bh_list_init(&r->queue);
    return r;
}

/* Both memories are bounded by forgetting everything: a lost count costs one more event, never a
 * wrong one. */
static void recorder_forget(struct bh_recorder *r)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&r->seen, &it, NULL, &v)) {
        struct recorded *e = v;

        if (e->pending)
            e->pending->of = NULL;
        bh_free(e->ns);
        bh_free(e->name);
        bh_free(e);
    }
    bh_map_done(&r->seen);
    r->seen = (struct bh_map){0};
    if (r->sent)
        r->sent->of = NULL;
    for (it = 0; bh_map_next(&r->buckets, &it, NULL, &v);)
        bh_free(v);
    bh_map_done(&r->buckets);
    r->buckets = (struct bh_map){0};
}

static bool recorder_may(struct bh_recorder *r, const struct bh_obj *o)
{
    struct bucket *b = bh_map_get(&r->buckets, o->uid);
    int64_t now = bh_loop_mono_ns(r->client->loop);

    if (!b) {
        b = bh_calloc(1, sizeof(*b));
        b->tokens = RECORDER_BURST;
        b->at_ns = now;
        (void)bh_map_put(&r->buckets, o->uid, b);
    }
    int64_t gained = (now - b->at_ns) / RECORDER_REFILL_NS;
    if (gained > 0) {
        b->tokens = b->tokens + gained > RECORDER_BURST ? RECORDER_BURST : b->tokens + gained;
        b->at_ns += gained * RECORDER_REFILL_NS;
    }
    if (b->tokens == 0)
        return false;
    b->tokens--;
    return true;
}

/* ---- writing ---- */

static uint64_t recorder_write(struct bh_recorder *r, const struct pending *p, bh_client_fn fn,
                               void *arg)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_core_v1_event ev = {0};
    struct bh_str when;
    char buf[64];

    if (!p->create) {
        when = bh_time_fmt((struct bh_time){p->last, 0}, buf);
        return bh_client_patch(
            r->client, &bh_core_v1_event_kind, p->ns, p->name, "", BH_PATCH_MERGE,
            bh_str_fmt(a, "{\"count\":%d,\"lastTimestamp\":\"%.*s\"}", p->count, BH_SF(when)), fn,
            arg);
    }
    ev.metadata.name = p->name;
    ev.metadata.namespace = p->ns;
    ev.involved_object.kind = p->kind->kind;
    ev.involved_object.api_version = p->kind->api_version;
    ev.involved_object.namespace = p->object_ns;
    ev.involved_object.name = p->object;
    ev.involved_object.uid = p->uid;
    if (p->rv)
        ev.involved_object.resource_version = bh_str_fmt(a, "%llu", (unsigned long long)p->rv);
    ev.reason = p->reason;
    ev.message = p->message;
    ev.source.component = bh_s(r->component);
    ev.source.host = bh_s(r->host);
    ev.first_timestamp = (struct bh_time){p->first, 0};
    ev.last_timestamp = (struct bh_time){p->last, 0};
    ev.count = p->count;
    ev.type = p->type;
    ev.reporting_component = bh_s(r->component);
    ev.reporting_instance = bh_s(r->host);
    return bh_client_create(r->client, &bh_core_v1_event_kind, p->ns, &ev, fn, arg);
}

static void recorder_written(void *arg, const struct bh_client_res *res);

static void recorder_next(struct bh_recorder *r)
{
    while (!r->sent && !bh_list_empty(&r->queue)) {
        struct pending *p = bh_container(r->queue.next, struct pending, link);

        bh_list_del(&p->link);
        r->queued--;
        if (p->of)
            p->of->pending = NULL;
        if (!p->create && p->of && p->of->gone) {
            bh_free(p);
            continue;
        }
        r->sent = p;
        r->call = recorder_write(r, p, recorder_written, r);
    }
}

static void recorder_written(void *arg, const struct bh_client_res *res)
{
    struct bh_recorder *r = arg;
    struct pending *p = r->sent;

    r->sent = NULL;
    r->call = 0;
    if (p->of && !p->create)
        p->of->gone = res->err.code == BH_E_NOT_FOUND; /* events live an hour */
    bh_free(p);
    recorder_next(r);
}

/* A flood of events is no reason for a flood of lines. */
static void tell_dropped(struct bh_recorder *r, const struct pending *p)
{
    int64_t now = bh_loop_mono_ns(r->client->loop);

    r->dropped++;
    if (r->told_ns && now - r->told_ns < DROPPED_TOLD_NS)
        return;
    bh_log(BH_WARN, "events dropped, too many wait to be written", BH_I64("events", r->dropped),
           BH_STR("object", p->object), BH_STR("reason", p->reason));
    r->told_ns = now;
    r->dropped = 0;
}

static void recorder_put(struct bh_recorder *r, struct pending *p)
{
    if (r->queued >= RECORDER_QUEUE_MAX) {
        tell_dropped(r, p);
        if (p->of)
            p->of->gone = true;
        bh_free(p);
        return;
    }
    bh_list_add_tail(&r->queue, &p->link);
    r->queued++;
    if (p->of)
        p->of->pending = p;
    recorder_next(r);
}

/* Copies s to *at. */
static struct bh_str keep(char **at, struct bh_str s)
{
    struct bh_str v = {*at, s.n};

    if (s.n)
        memcpy(*at, s.p, s.n);
    *at += s.n;
    return v;
}

static void recorder_repeat(struct bh_recorder *r, struct recorded *e)
{
    int64_t now = bh_loop_wall_ns(r->client->loop) / 1000000000;
    struct bh_str ns = bh_s(e->ns), name = bh_s(e->name);
    struct pending *p = e->pending;
    char *at;

    e->count++;
    if (!p) {
        p = bh_calloc(1, sizeof(*p) + ns.n + name.n);
        at = p->text;
        p->of = e;
        p->ns = keep(&at, ns);
        p->name = keep(&at, name);
        p->count = e->count;
        p->last = now;
        recorder_put(r, p);
        return;
    }
    p->count = e->count;
    p->last = now;
}

static struct recorded *recorder_remember(struct bh_recorder *r, struct bh_str dedup,
                                          struct bh_str ns, struct bh_str name)
{
    struct recorded *e = bh_map_get(&r->seen, dedup);

    if (!e) {
        e = bh_calloc(1, sizeof(*e));
        (void)bh_map_put(&r->seen, dedup, e);
    }
    if (e->pending)
        e->pending->of = NULL;
    if (r->sent && r->sent->of == e)
        r->sent->of = NULL;
    e->pending = NULL;
    bh_free(e->ns);
    bh_free(e->name);
    e->ns = bh_strdup_c(ns);
    e->name = bh_strdup_c(name);
    e->count = 1;
    e->gone = false;
    return e;
}

static void recorder_first(struct bh_recorder *r, struct bh_arena *a, const struct bh_obj *o,
                           const char *type, const char *reason, struct bh_str message,
                           struct bh_str dedup)
{
    int64_t now = bh_loop_wall_ns(r->client->loop);
    /* Events of cluster-scoped objects live in "default", as upstream's do. */
    struct bh_str ns = o->ns.n ? o->ns : BH_S("default"), name;
    struct pending *p;
    char *at;

    r->last_ns = now > r->last_ns ? now : r->last_ns + 1;
    name = bh_str_fmt(a, "%.*s.%llx", BH_SF(bh_str_sub(o->name, 0, NAME_MAX_BYTES)),
                      (unsigned long long)r->last_ns);
    p = bh_calloc(1, sizeof(*p) + o->ns.n + o->name.n + o->uid.n + strlen(type) + strlen(reason) +
                         message.n + ns.n + name.n);
    at = p->text;
    p->create = true;
    p->count = 1;
    p->first = p->last = now / 1000000000;
    p->kind = o->kind;
    p->rv = o->rv;
    p->object_ns = keep(&at, o->ns);
    p->object = keep(&at, o->name);
    p->uid = keep(&at, o->uid);
    p->type = keep(&at, bh_s(type));
    p->reason = keep(&at, bh_s(reason));
    p->message = keep(&at, message);
    p->ns = keep(&at, ns);
    p->name = keep(&at, name);
    p->of = recorder_remember(r, dedup, ns, name);
    recorder_put(r, p);
}

struct bh_recorder *bh_recorder_free(struct bh_recorder *r)
{
    if (!r)
        return NULL;
    recorder_forget(r);
    bh_client_cancel(r->client, r->call); /* of no answer: the write goes on */
    bh_free(r->sent);
    while (!bh_list_empty(&r->queue)) { /* nobody is left to wait for its turn */
        struct pending *p = bh_container(r->queue.next, struct pending, link);

        bh_list_del(&p->link);
        (void)recorder_write(r, p, NULL, NULL);
        bh_free(p);
    }
    bh_free(r->component);
    bh_free(r->host);
    bh_free(r);
    return NULL;
}

void bh_event(struct bh_recorder *r, const struct bh_obj *o, const char *type, const char *reason,
              const char *fmt, ...)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str message, dedup;
    struct recorded *e;
    va_list ap;

    va_start(ap, fmt);
    message = bh_str_vfmt(a, fmt, ap);
    va_end(ap);
    if (message.n > BH_MESSAGE_BYTES_MAX) {
        message.n = BH_MESSAGE_BYTES_MAX;
        while (message.n && ((unsigned char)message.p[message.n] & 0xC0) == 0x80)
            message.n--; /* never inside a character */
    }
    if (r->seen.n >= RECORDER_KEYS_MAX || r->buckets.n >= RECORDER_KEYS_MAX)
        recorder_forget(r);
    if (!recorder_may(r, o)) {
        bh_log(BH_DEBUG, "event dropped, too many for one object", BH_STR("object", o->name),
               BH_CSTR("reason", reason));
        return;
    }
    dedup = bh_str_fmt(a, "%.*s\x1f%s\x1f%s\x1f%.*s", BH_SF(o->uid), type, reason, BH_SF(message));
    e = bh_map_get(&r->seen, dedup);
    if (e && !e->gone)
        recorder_repeat(r, e);
    else
        recorder_first(r, a, o, type, reason, message, dedup);
}
