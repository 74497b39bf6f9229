/* The drivers of this node: their instances and connections, their health streams, and the
 * withdrawal of their slices when they stay away.
 *
 * A rolling update has two instances of one driver for a while: calls go to the newest that is
 * connected. A driver none of whose instances is connected for the length of the grace loses its
 * ResourceSlices, so that nothing more is placed on it. */
#include <string.h>

#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/log.h"
#include "client/client.h"
#include "data/names.h"
#include "kubelet/dra_int.h"
#include "kubelet/plugin_watcher.h"
#include "net/drahealth.pb-c.h"
#include "net/grpc.h"
#include "net/pb.h"

#define CALL_TIMEOUT_MS    45000
#define GRACE_MS           30000
#define DRIVERS_MAX        64
#define HEALTH_RETRY_MS    5000
#define HEALTH_DEFAULT_S   30
#define HEALTH_DEVICES_MAX 4096 /* of one driver */
#define HEALTH_MESSAGE_MAX 1024
#define STALE_CHECK_MS     5000
#define WIPE_RETRY_MIN_MS  1000
#define WIPE_RETRY_MAX_MS  300000
#define DECODE_BYTES_MAX   (32u << 20)

enum health { HEALTH_UNKNOWN, HEALTH_HEALTHY, HEALTH_UNHEALTHY };

struct dra_health {
    enum health health;
    int64_t received_ns, timeout_ns;
    char *message; /* or NULL */
    bool stale;    /* told as Unknown already */
};

struct instance {
    struct bh_link link;
    struct dra_driver *driver;
    char *endpoint;
    struct bh_grpc_client *client;
    struct bh_link calls; /* struct driver_call */
    bool v1;              /* else v1beta1 */
    bool ready;
    bool health_wanted, health_advertised;
    struct bh_grpc_stream *stream;
    struct bh_timer health_timer;
    uint64_t seq; /* order of registration */
};

/* A prepare or unprepare under way. A client that is freed ends its calls without a word; whoever
 * waits has to be told all the same. */
struct driver_call {
    struct bh_link link; /* of the instance, or among the lost ones */
    void (*fn)(void *arg, const struct bh_grpc_result *res);
    void *arg;
    struct bh_timer soon;
};

struct dra_driver {
    struct bh_link link;
    struct bh_dra_manager *m;
    char *name;
    struct bh_link instances;
    struct bh_timer grace;
    uint64_t wipe_call;
    int wipe_retry_ms;
    struct bh_map health; /* "pool/device" to struct dra_health * */
};

/* ---- drivers ---- */

static struct dra_driver *driver_get(const struct bh_dra_manager *m, struct bh_str name)
{
    bh_list_for(it, &m->drivers)
    {
        struct dra_driver *d = bh_container(it, struct dra_driver, link);

        if (bh_str_eqc(name, d->name))
            return d;
    }
    return NULL;
}

static bool driver_usable(const struct dra_driver *d)
{
    bh_list_for(it, &d->instances) if (bh_container(it, struct instance, link)->ready) return true;
    return false;
}

bool dra_driver_known(const struct bh_dra_manager *m, struct bh_str driver)
{
    const struct dra_driver *d = driver_get(m, driver);

    return d && !bh_list_empty(&d->instances);
}

/* The newest that is connected, else the newest. */
static struct instance *best_instance(const struct dra_driver *d)
{
    struct instance *best = NULL;

    bh_list_for(it, &d->instances)
    {
        struct instance *i = bh_container(it, struct instance, link);

        if (!best || i->ready > best->ready || (i->ready == best->ready && i->seq > best->seq))
            best = i;
    }
    return best;
}

/* ---- withdrawing slices ---- */

static void wipe(void *arg);

static void wiped(void *arg, const struct bh_client_res *res)
{
    struct dra_driver *d = arg;

    d->wipe_call = 0;
    if (res->err.code == BH_OK || res->err.code == BH_E_NOT_FOUND) {
        d->wipe_retry_ms = 0;
        return;
    }
    d->wipe_retry_ms = d->wipe_retry_ms == 0 ? WIPE_RETRY_MIN_MS : d->wipe_retry_ms * 2;
    if (d->wipe_retry_ms > WIPE_RETRY_MAX_MS)
        d->wipe_retry_ms = WIPE_RETRY_MAX_MS;
    if (res->err.code != BH_E_UNAUTHORIZED)
        bh_log(BH_WARN, "cannot withdraw the slices of a driver, it will be tried again",
               BH_CSTR("driver", d->name), BH_CSTR("why", res->err.msg));
    bh_timer_start(&d->grace, d->wipe_retry_ms);
}

static void wipe(void *arg)
{
    struct dra_driver *d = arg;
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct bh_client_req r = {
        .verb = BH_VERB_DELETE_COLLECTION,
        .kind = &bh_resource_v1_resource_slice_kind,
        .field_selector = bh_str_fmt(a, "spec.nodeName=%s,spec.driver=%s", d->m->node, d->name)};

    if (!d->m->o.client || d->wipe_call != 0)
        return;
    if (d->wipe_retry_ms == 0)
        bh_log(BH_WARN, "a driver stayed away, its slices are withdrawn",
               BH_CSTR("driver", d->name));
    d->wipe_call = bh_client_call(d->m->o.client, &r, wiped, d);
}

static void usable_changed(struct dra_driver *d)
{
    if (driver_usable(d)) {
        bh_timer_stop(&d->grace);
        d->wipe_retry_ms = 0;
        if (d->wipe_call != 0)
            bh_client_cancel(d->m->o.client, d->wipe_call);
        d->wipe_call = 0;
    } else if (!bh_timer_armed(&d->grace) && d->wipe_call == 0) {
        bh_timer_start(&d->grace, d->m->o.grace_ms);
    }
}

static struct dra_driver *driver_make(struct bh_dra_manager *m, struct bh_str name)
{
    struct dra_driver *d;

    if (m->drivers_n >= DRIVERS_MAX)
        return NULL;
    d = bh_calloc(1, sizeof(*d));
    d->m = m;
    d->name = bh_strdup_c(name);
    bh_list_init(&d->instances);
    bh_timer_init(&d->grace, m->loop, wipe, d);
    bh_list_add_tail(&m->drivers, &d->link);
    m->drivers_n++;
    return d;
}

/* Slices that an earlier life of the node left: their drivers had the whole grace to come back. */
static void got_slices(void *arg, const struct bh_client_res *res)
{
    struct bh_dra_manager *m = arg;

    m->list_call = 0;
    if (res->err.code != BH_OK) {
        bh_timer_start(&m->start_grace, WIPE_RETRY_MIN_MS * 5);
        return;
    }
    for (size_t i = 0; i < res->items_n; i++) {
        const struct bh_resource_v1_resource_slice *s = bh_obj_struct(res->items[i]);
        struct dra_driver *d = driver_get(m, s->spec.driver);

        if (d)
            continue; /* it has its own grace */
        d = driver_make(m, s->spec.driver);
        if (d)
            wipe(d);
    }
}

static void start_grace_over(void *arg)
{
    struct bh_dra_manager *m = arg;
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct bh_client_req r = {.verb = BH_VERB_LIST,
                                    .kind = &bh_resource_v1_resource_slice_kind,
                                    .field_selector = bh_str_fmt(a, "spec.nodeName=%s", m->node)};

    if (m->o.client)
        m->list_call = bh_client_call(m->o.client, &r, got_slices, m);
}

/* ---- health ---- */

/* Tells the owner about every pod that holds one of these devices. */
static void tell_pods(struct dra_driver *d, struct bh_str pool, struct bh_str device)
{
    struct bh_dra_manager *m = d->m;
    void *v;

    if (!m->o.health_changed)
        return;
    for (size_t it = 0; bh_map_next(&m->claims, &it, NULL, &v);) {
        struct dra_claim *c = v;
        struct dra_state *s = dra_state_get(c, bh_s(d->name), false);
        bool uses = false;

        for (size_t i = 0; s && i < s->devices_n; i++)
            uses = uses ||
                   (bh_str_eq(s->devices[i].pool, pool) && bh_str_eq(s->devices[i].device, device));
        if (!uses)
            continue;
        bh_list_for_safe(p, &c->pods)
            m->o.health_changed(m->o.arg, bh_s(bh_container(p, struct dra_pod_ref, link)->uid));
    }
}

static void tell_pods_key(struct dra_driver *d, struct bh_str key)
{
    struct bh_str pool = bh_str_cut(&key, '/');

    /* A pool's name may hold slashes, a device's never does. */
    while (bh_str_chr(key, '/', 0) >= 0) {
        struct bh_str more = bh_str_cut(&key, '/');

        pool.n += 1 + more.n;
    }
    tell_pods(d, pool, key);
}

static void health_free(struct dra_health *h)
{
    if (!h)
        return;
    bh_free(h->message);
    bh_free(h);
}

static void health_drop(struct dra_driver *d)
{
    struct bh_map old = d->health;
    struct bh_str key;
    void *h;

    d->health = (struct bh_map){0};
    for (size_t it = 0; bh_map_next(&old, &it, &key, &h);) {
        if (((struct dra_health *)h)->health != HEALTH_UNKNOWN && !((struct dra_health *)h)->stale)
            tell_pods_key(d, key);
        health_free(h);
    }
    bh_map_done(&old);
}

/* At most HEALTH_MESSAGE_MAX bytes, cut between characters. */
static char *message_dup(const char *text)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str s = bh_s(text);
    size_t n = HEALTH_MESSAGE_MAX - 3;

    if (s.n == 0)
        return NULL;
    if (s.n <= HEALTH_MESSAGE_MAX)
        return bh_strdup_c(s);
    while (n > 0 && ((unsigned char)s.p[n] & 0xc0) == 0x80)
        n--;
    return bh_strdup_c(bh_str_fmt(a, "%.*s...", (int)n, s.p));
}

static void health_take(struct dra_driver *d, const Bh__Drahealth__DeviceHealth *x)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str key;
    struct dra_health *h;
    char *message;
    int64_t timeout_s = x->has_health_check_timeout_seconds ? x->health_check_timeout_seconds : 0;
    enum health health = !x->has_health                                         ? HEALTH_UNKNOWN
                         : x->health == BH__DRAHEALTH__HEALTH_STATUS__HEALTHY   ? HEALTH_HEALTHY
                         : x->health == BH__DRAHEALTH__HEALTH_STATUS__UNHEALTHY ? HEALTH_UNHEALTHY
                                                                                : HEALTH_UNKNOWN;
    bool changed;

    if (!x->device || !x->device->pool_name || !x->device->device_name)
        return;
    key = bh_str_fmt(a, "%s/%s", x->device->pool_name, x->device->device_name);
    h = bh_map_get(&d->health, key);
    if (!h) {
        if (d->health.n >= HEALTH_DEVICES_MAX)
            return;
        h = bh_calloc(1, sizeof(*h));
        (void)bh_map_put(&d->health, key, h);
    }
    if (timeout_s <= 0 || timeout_s > INT64_MAX / 1000000000)
        timeout_s = HEALTH_DEFAULT_S;
    message = message_dup(x->message);
    changed = h->health != health || h->stale ||
              strcmp(h->message ? h->message : "", message ? message : "") != 0;
    bh_free(h->message);
    h->message = message;
    h->health = health;
    h->stale = false;
    h->received_ns = bh_loop_mono_ns(d->m->loop);
    h->timeout_ns = timeout_s * 1000000000;
    if (changed)
        tell_pods(d, bh_s(x->device->pool_name), bh_s(x->device->device_name));
}

static void health_message(void *arg, struct bh_str msg)
{
    struct instance *i = arg;
    BH_AUTO_ARENA a = bh_arena_new(DECODE_BYTES_MAX);
    const Bh__Drahealth__NodeWatchResourcesResponse *res =
        bh_pb_unpack(a, &bh__drahealth__node_watch_resources_response__descriptor, msg);

    if (!res) {
        bh_log(BH_WARN, "a driver sent rubbish as health, ignored",
               BH_CSTR("driver", i->driver->name));
        return;
    }
    for (size_t k = 0; k < res->n_devices; k++)
        health_take(i->driver, res->devices[k]);
}

static void health_ended(void *arg, enum bh_grpc_status st, struct bh_str message)
{
    struct instance *i = arg;

    (void)message;
    i->stream = NULL;
    health_drop(i->driver);
    if (st == BH_GRPC_UNIMPLEMENTED && !i->health_advertised)
        i->health_wanted = false;
    if (i->health_wanted)
        bh_timer_start(&i->health_timer, HEALTH_RETRY_MS);
}

static void health_open(void *arg)
{
    static const struct bh_grpc_stream_ops ops = {health_message, health_ended};
    struct instance *i = arg;

    if (!i->health_wanted || i->stream || !i->ready)
        return;
    i->stream = bh_grpc_stream_open(i->client, "/v1alpha1.DRAResourceHealth/NodeWatchResources", 0,
                                    &ops, i);
    (void)!bh_grpc_stream_send(
        i->stream, (struct bh_str){NULL, 0}); /* the request is empty; a failure ends the stream */
    bh_grpc_stream_close_send(i->stream);
}

/* A driver that went silent: its devices become Unknown at once, not at some later sync of the pod.
 */
static void stale_check(void *arg)
{
    struct bh_dra_manager *m = arg;
    int64_t now = bh_loop_mono_ns(m->loop);

    bh_list_for(it, &m->drivers)
    {
        struct dra_driver *d = bh_container(it, struct dra_driver, link);
        struct bh_str key;
        void *v;

        for (size_t i = 0; bh_map_next(&d->health, &i, &key, &v);) {
            struct dra_health *h = v;

            if (h->stale || now - h->received_ns <= h->timeout_ns)
                continue;
            h->stale = true;
            tell_pods_key(d, key);
        }
    }
    bh_timer_start(&m->stale, STALE_CHECK_MS);
}

void dra_health_get(const struct bh_dra_manager *m, struct bh_str driver, struct bh_str pool,
                    struct bh_str device, struct bh_str *ret_health, struct bh_str *ret_message)
{
    const struct dra_driver *d = driver_get(m, driver);
    BH_AUTO_ARENA a = bh_arena_new(0);
    const struct dra_health *h =
        d ? bh_map_get(&d->health, bh_str_fmt(a, "%.*s/%.*s", BH_SF(pool), BH_SF(device))) : NULL;

    *ret_message = (struct bh_str){NULL, 0};
    if (!h || h->health == HEALTH_UNKNOWN ||
        bh_loop_mono_ns(m->loop) - h->received_ns > h->timeout_ns) {
        *ret_health = BH_S("Unknown");
        return;
    }
    *ret_health = h->health == HEALTH_HEALTHY ? BH_S("Healthy") : BH_S("Unhealthy");
    *ret_message = bh_s(h->message);
}

/* ---- instances ---- */

static void instance_state(void *arg, enum bh_grpc_state st, const struct bh_err *why)
{
    struct instance *i = arg;
    bool ready = st == BH_GRPC_READY;

    if (i->ready == ready)
        return;
    i->ready = ready;
    bh_log(ready ? BH_INFO : BH_WARN, ready ? "driver connected" : "driver disconnected",
           BH_CSTR("driver", i->driver->name), BH_CSTR("endpoint", i->endpoint),
           BH_CSTR("why", why ? why->msg : ""));
    usable_changed(i->driver);
    if (ready && i->health_wanted && !i->stream)
        bh_timer_start_ns(&i->health_timer, 0);
}

static void call_over(struct driver_call *c, const struct bh_grpc_result *res)
{
    void (*fn)(void *, const struct bh_grpc_result *) = c->fn;
    void *fn_arg = c->arg;

    bh_list_del(&c->link);
    bh_timer_stop(&c->soon);
    bh_free(c);
    if (fn)
        fn(fn_arg, res);
}

static void call_answered(void *arg, const struct bh_grpc_result *res)
{
    call_over(arg, res);
}

static void call_lost(void *arg)
{
    static const struct bh_grpc_result gone = {.status = BH_GRPC_UNAVAILABLE,
                                               .message = BH_S_INIT("the driver was deregistered")};

    call_over(arg, &gone);
}

/* Told from the loop, not from inside whatever took the driver away. */
static void calls_lose(struct bh_dra_manager *m, struct instance *i)
{
    while (!bh_list_empty(&i->calls)) {
        struct driver_call *c = bh_container(i->calls.next, struct driver_call, link);

        bh_list_del(&c->link);
        bh_list_add_tail(&m->lost, &c->link);
        bh_timer_start_ns(&c->soon, 0);
    }
}

static void instance_free(struct instance *i)
{
    bh_list_del(&i->link);
    bh_timer_stop(&i->health_timer);
    i->client = bh_grpc_client_free(i->client); /* the stream goes with it */
    calls_lose(i->driver->m, i);
    bh_free(i->endpoint);
    bh_free(i);
}

/* The service to speak: the first of the driver's list that we know, as upstream does. */
static int version_choose(const struct bh_plugin_info *info, bool *ret_v1, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str all = {NULL, 0};

    if (info->versions.n == 0)
        return bh_err_set(err, BH_E_INVALID,
                          "empty list of supported gRPC services (aka supported versions)");
    for (size_t i = 0; i < info->versions.n; i++) {
        *ret_v1 = bh_str_eqc(info->versions.p[i], "v1.DRAPlugin");
        if (*ret_v1 || bh_str_eqc(info->versions.p[i], "v1beta1.DRAPlugin"))
            return 0;
        all =
            bh_str_fmt(a, "%.*s%s%.*s", BH_SF(all), i > 0 ? ", " : "", BH_SF(info->versions.p[i]));
    }
    return bh_err_set(err, BH_E_INVALID,
                      "none of services supported by the plugin (%.*s) is known (v1.DRAPlugin, "
                      "v1beta1.DRAPlugin)",
                      BH_SF(all));
}

int dra_driver_registered(void *arg, const struct bh_plugin_info *info, struct bh_err *err)
{
    struct bh_dra_manager *m = arg;
    struct bh_grpc_client_opts o = {.state = instance_state};
    BH_AUTO_ARENA a = bh_arena_new(0);
    char buf[BH_NAMES_BUF];
    struct dra_driver *d;
    struct instance *i;
    bool v1 = false;
    int r = version_choose(info, &v1, err);

    if (r < 0)
        return r;
    if (info->name.n > 63 || bh_check_dns1123_subdomain(info->name, buf))
        return bh_err_set(err, BH_E_INVALID,
                          "the driver's name is no DNS name of at most 63 characters");
    d = driver_get(m, info->name);
    if (!d)
        d = driver_make(m, info->name);
    if (!d)
        return bh_err_set(err, BH_E_LIMIT, "there are already %d drivers", DRIVERS_MAX);
    bh_list_for(it, &d->instances)
    {
        if (bh_str_eqc(info->endpoint, bh_container(it, struct instance, link)->endpoint))
            return bh_err_set(err, BH_E_EXISTS,
                              "endpoint %.*s already registered for DRA driver plugin %s",
                              BH_SF(info->endpoint), d->name);
    }
    i = bh_calloc(1, sizeof(*i));
    i->driver = d;
    bh_list_init(&i->calls);
    i->endpoint = bh_strdup_c(info->endpoint);
    i->v1 = v1;
    i->seq = ++m->next_seq;
    i->health_wanted = true; /* once, even when it is not advertised: drivers forget */
    for (size_t k = 0; k < info->versions.n; k++)
        i->health_advertised =
            i->health_advertised || bh_str_eqc(info->versions.p[k], "v1alpha1.DRAResourceHealth");
    bh_timer_init(&i->health_timer, m->loop, health_open, i);
    bh_list_add_tail(&d->instances, &i->link);
    o.arg = i;
    o.target = bh_str_fmt(a, "unix:%s", i->endpoint).p;
    i->client = bh_grpc_client_new(m->loop, &o);
    usable_changed(d); /* until it is connected the grace runs */
    dra_clean_up_soon(m);
    return 0;
}

void dra_driver_deregistered(void *arg, const struct bh_plugin_info *info)
{
    struct bh_dra_manager *m = arg;
    struct dra_driver *d = driver_get(m, info->name);

    if (!d)
        return;
    bh_list_for_safe(it, &d->instances)
    {
        struct instance *i = bh_container(it, struct instance, link);

        if (bh_str_eqc(info->endpoint, i->endpoint))
            instance_free(i);
    }
    if (bh_list_empty(&d->instances))
        health_drop(d);
    usable_changed(d);
}

int dra_driver_call(struct bh_dra_manager *m, struct bh_str driver, const char *method,
                    struct bh_str msg, void (*fn)(void *arg, const struct bh_grpc_result *res),
                    void *arg, struct bh_err *err)
{
    const struct dra_driver *d = driver_get(m, driver);
    struct instance *i = d ? best_instance(d) : NULL;
    struct driver_call *c;
    BH_AUTO_ARENA a = bh_arena_new(0);

    if (!i)
        return bh_err_set(err, BH_E_NOT_FOUND, "DRA driver %.*s is not registered", BH_SF(driver));
    c = bh_calloc(1, sizeof(*c));
    c->fn = fn;
    c->arg = arg;
    bh_timer_init(&c->soon, m->loop, call_lost, c);
    bh_list_add_tail(&i->calls, &c->link);
    (void)bh_grpc_unary(i->client,
                        bh_str_fmt(a, "/k8s.io.kubelet.pkg.apis.dra.%s.DRAPlugin/%s",
                                   i->v1 ? "v1" : "v1beta1", method)
                            .p,
                        msg, m->o.call_timeout_ms, call_answered, c);
    return 0;
}

/* ---- life ---- */

void dra_drivers_init(struct bh_dra_manager *m)
{
    bh_list_init(&m->drivers);
    bh_list_init(&m->lost);
    if (m->o.call_timeout_ms <= 0)
        m->o.call_timeout_ms = CALL_TIMEOUT_MS;
    if (m->o.grace_ms <= 0)
        m->o.grace_ms = GRACE_MS;
    bh_timer_init(&m->stale, m->loop, stale_check, m);
    bh_timer_start(&m->stale, STALE_CHECK_MS);
    bh_timer_init(&m->start_grace, m->loop, start_grace_over, m);
    bh_timer_start(&m->start_grace, m->o.grace_ms);
}

void dra_drivers_done(struct bh_dra_manager *m)
{
    bh_timer_stop(&m->stale);
    bh_timer_stop(&m->start_grace);
    if (m->list_call != 0)
        bh_client_cancel(m->o.client, m->list_call);
    m->list_call = 0;
    m->o.health_changed = NULL;
    while (!bh_list_empty(&m->drivers)) {
        struct dra_driver *d = bh_container(m->drivers.next, struct dra_driver, link);

        while (!bh_list_empty(&d->instances))
            instance_free(bh_container(d->instances.next, struct instance, link));
        bh_timer_stop(&d->grace);
        if (d->wipe_call != 0)
            bh_client_cancel(m->o.client, d->wipe_call);
        health_drop(d);
        bh_list_del(&d->link);
        bh_free(d->name);
        bh_free(d);
    }
    while (!bh_list_empty(&m->lost)) {
        struct driver_call *c = bh_container(m->lost.next, struct driver_call, link);

        c->fn = NULL; /* the operations end with the manager */
        call_over(c, NULL);
    }
}
