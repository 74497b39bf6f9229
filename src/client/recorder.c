/* Events: what happened to an object, counted when it repeats and limited when it floods.
 *
 * The same (object, type, reason, message) within the memory of the recorder raises the count of
 * the event it made; each object has a bucket of 25 events that fills by one each five minutes, as
 * upstream's client does.
 */
#include "api/gen/core_v1.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/map.h"
#include "client/client_int.h"
#include "data/time_fmt.h"

#define RECORDER_BURST     25
#define RECORDER_REFILL_NS ((int64_t)300 * 1000000000)
#define RECORDER_KEYS_MAX  4096
#define NAME_MAX_BYTES     236 /* of 253, with a point and sixteen digits behind it */

struct recorded {
    struct bh_recorder *recorder;
    char *ns, *name; /* of the Event object */
    int32_t count;
    uint64_t call; /* the count's write under way */
    bool again;    /* counted up meanwhile */
    bool gone;     /* the server forgot the event: the next one is made anew */
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
};

struct bh_recorder *bh_recorder_new(struct bh_client *c, const char *component, const char *host)
{
    struct bh_recorder *r = bh_calloc(1, sizeof(*r));

    r->client = c;
    r->component = bh_strdup_c(bh_s(component));
    r->host = bh_strdup_c(bh_s(host));
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

        bh_client_cancel(r->client, e->call);
        bh_free(e->ns);
        bh_free(e->name);
        bh_free(e);
    }
    bh_map_done(&r->seen);
    r->seen = (struct bh_map){0};
    for (it = 0; bh_map_next(&r->buckets, &it, NULL, &v);)
        bh_free(v);
    bh_map_done(&r->buckets);
    r->buckets = (struct bh_map){0};
}

struct bh_recorder *bh_recorder_free(struct bh_recorder *r)
{
    if (!r)
        return NULL;
    recorder_forget(r);
    bh_free(r->component);
    bh_free(r->host);
    bh_free(r);
    return NULL;
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

static void recorder_count(struct recorded *e);

static void recorder_counted(void *arg, const struct bh_client_res *res)
{
    struct recorded *e = arg;

    e->call = 0;
    e->gone = res->err.code == BH_E_NOT_FOUND; /* events live an hour */
    if (e->again && !e->gone)
        recorder_count(e);
}

static void recorder_count(struct recorded *e)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_client *c = e->recorder->client;
    int64_t now = bh_loop_wall_ns(c->loop);
    char when[64];
    struct bh_str text = bh_time_fmt((struct bh_time){now / 1000000000, 0}, when);

    e->again = false;
    e->call = bh_client_patch(
        c, &bh_core_v1_event_kind, bh_s(e->ns), bh_s(e->name), "", BH_PATCH_MERGE,
        bh_str_fmt(a, "{\"count\":%d,\"lastTimestamp\":\"%.*s\"}", e->count, BH_SF(text)),
        recorder_counted, e);
}

static void recorder_repeat(struct recorded *e)
{
    e->count++;
    e->again = true;
    if (!e->call)
        recorder_count(e);
}

static void recorder_remember(struct bh_recorder *r, struct bh_str dedup, struct bh_str ns,
                              struct bh_str name)
{
    struct recorded *e = bh_map_get(&r->seen, dedup);

    if (!e) {
        e = bh_calloc(1, sizeof(*e));
        e->recorder = r;
        (void)bh_map_put(&r->seen, dedup, e);
    }
    bh_free(e->ns);
    bh_free(e->name);
    e->ns = bh_strdup_c(ns);
    e->name = bh_strdup_c(name);
    e->count = 1;
    e->gone = false;
}

static void recorder_first(struct bh_recorder *r, struct bh_arena *a, const struct bh_obj *o,
                           const char *type, const char *reason, struct bh_str message,
                           struct bh_str dedup)
{
    int64_t now = bh_loop_wall_ns(r->client->loop);
    struct bh_core_v1_event ev = {0};
    /* Events of cluster-scoped objects live in "default", as upstream's do. */
    struct bh_str ns = o->ns.n ? o->ns : BH_S("default");

    r->last_ns = now > r->last_ns ? now : r->last_ns + 1;
    ev.metadata.name = bh_str_fmt(a, "%.*s.%llx", BH_SF(bh_str_sub(o->name, 0, NAME_MAX_BYTES)),
                                  (unsigned long long)r->last_ns);
    ev.metadata.namespace = ns;
    ev.involved_object.kind = o->kind->kind;
    ev.involved_object.api_version = o->kind->api_version;
    ev.involved_object.namespace = o->ns;
    ev.involved_object.name = o->name;
    ev.involved_object.uid = o->uid;
    if (o->rv)
        ev.involved_object.resource_version = bh_str_fmt(a, "%llu", (unsigned long long)o->rv);
    ev.reason = bh_s(reason);
    ev.message = message;
    ev.source.component = bh_s(r->component);
    ev.source.host = bh_s(r->host);
    ev.first_timestamp = ev.last_timestamp = (struct bh_time){now / 1000000000, 0};
    ev.count = 1;
    ev.type = bh_s(type);
    ev.reporting_component = bh_s(r->component);
    ev.reporting_instance = bh_s(r->host);

    recorder_remember(r, dedup, ns, ev.metadata.name);
    (void)bh_client_create(r->client, &bh_core_v1_event_kind, ns, &ev, NULL, NULL);
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
        recorder_repeat(e);
    else
        recorder_first(r, a, o, type, reason, message, dedup);
}
