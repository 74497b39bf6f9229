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

struct recorded {
    char *ns, *name; /* of the Event object */
    int32_t count;
};

struct bucket {
    int64_t tokens, at_ns;
};

struct bh_recorder {
    struct bh_client *client;
    char *component, *host;
    struct bh_map seen;    /* dedup key -> struct recorded */
    struct bh_map buckets; /* object uid -> struct bucket */
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

static void recorder_repeat(struct bh_recorder *r, struct recorded *e)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    int64_t now = bh_loop_wall_ns(r->client->loop);
    char when[64];
    struct bh_str text;

    e->count++;
    text = bh_time_fmt((struct bh_time){now / 1000000000, 0}, when);
    (void)bh_client_patch(
        r->client, &bh_core_v1_event_kind, bh_s(e->ns), bh_s(e->name), "", BH_PATCH_MERGE,
        bh_str_fmt(a, "{\"count\":%d,\"lastTimestamp\":\"%.*s\"}", e->count, BH_SF(text)), NULL,
        NULL);
}

static void recorder_first(struct bh_recorder *r, struct bh_arena *a, const struct bh_obj *o,
                           const char *type, const char *reason, struct bh_str message,
                           struct bh_str dedup)
{
    int64_t now = bh_loop_wall_ns(r->client->loop);
    struct bh_core_v1_event ev = {0};
    struct recorded *e = bh_calloc(1, sizeof(*e));
    /* Events of cluster-scoped objects live in "default", as upstream's do. */
    struct bh_str ns = o->ns.n ? o->ns : BH_S("default");

    ev.metadata.name = bh_str_fmt(a, "%.*s.%llx", BH_SF(o->name), (unsigned long long)now);
    ev.metadata.namespace = ns;
    ev.involved_object.kind = o->kind->kind;
    ev.involved_object.api_version = o->kind->api_version;
    ev.involved_object.namespace = o->ns;
    ev.involved_object.name = o->name;
    ev.involved_object.uid = o->uid;
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

    e->ns = bh_strdup_c(ns);
    e->name = bh_strdup_c(ev.metadata.name);
    e->count = 1;
    (void)bh_map_put(&r->seen, dedup, e);
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
    message = bh_str_sub(message, 0, BH_MESSAGE_BYTES_MAX);
    while (message.n && message.n == BH_MESSAGE_BYTES_MAX &&
           ((unsigned char)message.p[message.n - 1] & 0xC0) == 0x80)
        message.n--; /* a cut inside a character */
    if (r->seen.n >= RECORDER_KEYS_MAX || r->buckets.n >= RECORDER_KEYS_MAX)
        recorder_forget(r);
    if (!recorder_may(r, o)) {
        bh_log(BH_DEBUG, "event dropped, too many for one object", BH_STR("object", o->name),
               BH_CSTR("reason", reason));
        return;
    }
    dedup = bh_str_fmt(a, "%.*s\x1f%s\x1f%s\x1f%.*s", BH_SF(o->uid), type, reason, BH_SF(message));
    e = bh_map_get(&r->seen, dedup);
    if (e)
        recorder_repeat(r, e);
    else
        recorder_first(r, a, o, type, reason, message, dedup);
}
