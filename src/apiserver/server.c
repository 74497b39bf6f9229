/* The server as a whole: what is served, loading, default objects, upkeep. */
#include "apiserver/server_int.h"

#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/obj_commit.h"
#include "apiserver/bootstrap.h"
#include "apiserver/frames.h"
#include "apiserver/frontend.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/loop.h"
#include "net/stream.h"
#include "store/store.h"

#include <stdio.h>
#include <string.h>

#define UPKEEP_EVERY_MS 10000
#define COMPACT_EVERY_NS                                                                           \
    ((int64_t)300 * 1000000000) /* as upstream: history of five to ten minutes */

struct bh_time bh_server_now(const struct bh_apiserver *srv)
{
    int64_t ns = bh_loop_wall_ns(srv->loop);

    return (struct bh_time){ns / 1000000000, 0};
}

struct bh_loop *bh_apiserver_loop(const struct bh_apiserver *srv)
{
    return srv->loop;
}

/* ---- resources ---- */

/* Keys as upstream lays them out: some resources have other words there than in paths. */
static struct bh_str storage_prefix(struct bh_apiserver *srv, const struct bh_kind *k)
{
    static const struct {
        const char *group, *resource, *prefix;
    } odd[] = {
        {"", "nodes", "/registry/minions/"},
        {"", "services", "/registry/services/specs/"},
        {"", "endpoints", "/registry/services/endpoints/"},
        {"", "replicationcontrollers", "/registry/controllers/"},
        {"networking.k8s.io", "ingresses", "/registry/ingress/"},
        {"apiextensions.k8s.io", "customresourcedefinitions",
         "/registry/apiextensions.k8s.io/customresourcedefinitions/"},
        {"apiregistration.k8s.io", "apiservices", "/registry/apiregistration.k8s.io/apiservices/"},
    };

    for (size_t i = 0; i < BH_COUNT(odd); i++)
        if (bh_str_eqc(k->group, odd[i].group) && bh_str_eqc(k->resource, odd[i].resource))
            return bh_s(odd[i].prefix);
    return bh_str_fmt(srv->a, "/registry/%.*s/", BH_SF(k->resource));
}

static struct bh_str resource_key(char *buf, size_t n, struct bh_str group, struct bh_str resource)
{
    if (group.n + resource.n + 1 > n)
        return (struct bh_str){buf, 0};
    if (group.n)
        memcpy(buf, group.p, group.n);
    buf[group.n] = '/';
    if (resource.n)
        memcpy(buf + group.n + 1, resource.p, resource.n);
    return (struct bh_str){buf, group.n + 1 + resource.n};
}

struct bh_resource *bh_resource_find(struct bh_apiserver *srv, struct bh_str group,
                                     struct bh_str resource)
{
    char buf[512];

    /* One object, two forms: events of both groups are kept in the core form. */
    if (bh_str_eqc(resource, "events") && bh_str_eqc(group, "events.k8s.io"))
        group = BH_S("");
    return bh_map_get(&srv->resources, resource_key(buf, sizeof(buf), group, resource));
}

static bool is_stored(const struct bh_kind *k)
{
    return k->resource.n > 0 && (k->verbs & BH_V_GET) && (k->verbs & BH_V_CREATE) &&
           k->meta_off != UINT32_MAX;
}

static void add_resources(struct bh_apiserver *srv)
{
    size_t n;
    const struct bh_kind *const *kinds = bh_kinds(&n);
    char buf[512];

    for (size_t i = 0; i < n; i++) {
        const struct bh_kind *hub = bh_kind_hub(kinds[i]);
        struct bh_resource *res;

        if (!is_stored(kinds[i]) || hub->unserved ||
            bh_resource_find(srv, hub->group, hub->resource))
            continue;
        res = bh_new(srv->a, struct bh_resource);
        res->hub = hub;
        res->wc = bh_wc_add(srv->wc, hub, storage_prefix(srv, hub));
        (void)bh_map_put(&srv->resources, resource_key(buf, sizeof(buf), hub->group, hub->resource),
                         res);
    }
}

bool bh_version_served(const struct bh_apiserver *srv, const struct bh_kind *k)
{
    /* An older version of what is served costs nothing but its conversion, so it is offered too. */
    return (!k->unserved || !bh_kind_hub(k)->unserved || bh_virtual_kind(k)) && k->resource.n > 0 &&
           !bh_map_get(&srv->hidden, k->api_version);
}

struct bh_obj *bh_namespace_head(struct bh_apiserver *srv, struct bh_str name)
{
    struct bh_resource *res = srv->namespaces;
    char key[512];

    if (!res || name.n == 0 || res->wc->prefix.n + name.n > sizeof(key))
        return NULL; /* no name is that long */
    memcpy(key, res->wc->prefix.p, res->wc->prefix.n);
    memcpy(key + res->wc->prefix.n, name.p, name.n);
    return bh_pipeline_head(srv->pipe, res->wc, (struct bh_str){key, res->wc->prefix.n + name.n});
}

/* ---- options ---- */

static char gate_on_mark[] = "on", gate_off_mark[] = "off";

static void pairs(struct bh_map *m, const char *list)
{
    struct bh_str rest = bh_s(list), w, name;

    while (rest.p && rest.n > 0) {
        w = bh_str_trim(bh_str_cut(&rest, ','));
        name = bh_str_trim(bh_str_cut(&w, '='));
        if (name.n > 0)
            (void)bh_map_put(m, name,
                             bh_str_eq_nocase(bh_str_trim(w), BH_S("false")) ? gate_off_mark
                                                                             : gate_on_mark);
    }
}

bool bh_gate_on(struct bh_apiserver *srv, const char *name)
{
    const char *set = bh_map_get(&srv->gates, bh_s(name));

    if (set)
        return set == gate_on_mark;
    return bh_gate_default(bh_s(name));
}

static bool gate_hook(void *arg, struct bh_str name)
{
    struct bh_rq *rq = arg;
    const char *set = bh_map_get(&rq->srv->gates, name);

    return set ? set == gate_on_mark : bh_gate_default(name);
}

/* Plugins that this program does not have may be named too. */
static void plugins_off(struct bh_apiserver *srv, const char *list)
{
    static const char *const names[BH_PLUGIN__N] = {
        [BH_PLUGIN_NAMESPACE_LIFECYCLE] = "NamespaceLifecycle",
        [BH_PLUGIN_PRIORITY] = "Priority",
        [BH_PLUGIN_TOLERATION_SECONDS] = "DefaultTolerationSeconds",
        [BH_PLUGIN_RUNTIME_CLASS] = "RuntimeClass",
        [BH_PLUGIN_TAINT_NODES] = "TaintNodesByCondition",
        [BH_PLUGIN_NODE_RESTRICTION] = "NodeRestriction",
        [BH_PLUGIN_CLAIM_RESIZE] = "PersistentVolumeClaimResize",
        [BH_PLUGIN_STORAGE_IN_USE] = "StorageObjectInUseProtection",
        [BH_PLUGIN_STORAGE_CLASS] = "DefaultStorageClass",
        [BH_PLUGIN_POD_GROUP_PROTECTION] = "PodGroupProtection",
        [BH_PLUGIN_POD_GROUP_WORKLOAD] = "PodGroupWorkloadExists",
    };
    struct bh_str rest = bh_s(list), w;

    while (rest.p && rest.n > 0) {
        w = bh_str_trim(bh_str_cut(&rest, ','));
        for (size_t i = 0; i < BH_COUNT(names); i++)
            if (bh_str_eqc(w, names[i]))
                srv->plugin_off[i] = true;
    }
}

static void read_runtime_config(struct bh_apiserver *srv, const char *text)
{
    struct bh_str rest = bh_s(text), w, name;

    while (rest.p && rest.n > 0) {
        w = bh_str_trim(bh_str_cut(&rest, ','));
        name = bh_str_trim(bh_str_cut(&w, '='));
        if (bh_str_starts(name, BH_S("api/")))
            name = bh_str_sub(name, 4, name.n);
        if (bh_str_eq_nocase(bh_str_trim(w), BH_S("false")) && name.n > 0)
            (void)bh_map_put(&srv->hidden, name, srv);
    }
}

/* ---- hooks of the rules ---- */

static const struct bh_str_map *ns_labels_hook(void *arg, struct bh_str ns)
{
    struct bh_rq *rq = arg;
    struct bh_obj *o = bh_namespace_head(rq->srv, ns);

    return o ? &o->labels : NULL;
}

static bool allowed_hook(void *arg, const struct bh_rules_access *q, char *reason, size_t reason_n)
{
    struct bh_rq *rq = arg;
    struct bh_authz_attrs at = {.user = &rq->user,
                                .verb = q->verb,
                                .group = q->group,
                                .version = rq->ri.version,
                                .resource = q->resource,
                                .subresource = q->subresource,
                                .ns = q->ns,
                                .name = q->name};

    return bh_rq_allowed(rq, &at, reason, reason_n);
}

static void warn_hook(void *arg, struct bh_str text)
{
    bh_rq_warn(arg, text);
}

void bh_rq_env(struct bh_rq *rq, const char *verb)
{
    struct bh_rules_env *e = &rq->env;

    memset(e, 0, sizeof(*e));
    e->a = rq->a;
    e->now = rq->now;
    e->gate = gate_hook;
    e->ns_labels = ns_labels_hook;
    e->allowed = allowed_hook;
    e->warn = warn_hook;
    e->arg = rq;
    e->user_name = rq->user.name;
    e->verb = bh_s(verb);
    e->api_version = rq->kind->api_version;
    if (bh_str_starts(rq->user.name, BH_S("system:serviceaccount:")))
        for (size_t i = 0; i < rq->user.extra_n; i++)
            if (bh_str_eqc(rq->user.extra[i].key, "authentication.kubernetes.io/node-name") &&
                rq->user.extra[i].values.n == 1)
                e->user_node = rq->user.extra[i].values.p[0];
}

/* ---- loading ---- */

struct load {
    struct bh_apiserver *srv;
    struct bh_err *err;
    int r;
    size_t skipped;
    struct bh_map last; /* key -> newest state that an event so far has shown, referenced */
};

static int load_each(void *arg, struct bh_str key, struct bh_str value, uint64_t rev)
{
    struct load *l = arg;
    struct bh_wc_res *res = bh_wc_res_of_key(l->srv->wc, key);
    struct bh_obj *o;

    if (!res) {
        l->skipped++; /* of a kind that this program does not serve: stays in the store untouched */
        return 0;
    }
    o = bh_obj_new(res->hub, value, rev, l->err);
    if (!o) {
        l->r = bh_err_wrap(l->err, "stored object '%.*s'", BH_SF(key));
        return 1;
    }
    bh_wc_load(res, key, o);
    return 0;
}

static int load_event(void *arg, const struct bh_store_write *w)
{
    struct load *l = arg;
    struct bh_wc_res *res = bh_wc_res_of_key(l->srv->wc, w->key);
    struct bh_wc_event ev = {.rv = w->rev};
    struct bh_obj *have, *before;

    if (!res)
        return 0;
    ev.type = w->op == BH_STORE_DELETE   ? BH_WATCH_DELETED
              : w->op == BH_STORE_CREATE ? BH_WATCH_ADDED
                                         : BH_WATCH_MODIFIED;
    have = bh_wc_get(res, w->key);
    ev.obj = have && have->rv == w->rev ? bh_obj_ref(have)
                                        : bh_obj_new(res->hub, w->value, w->rev, l->err);
    if (!ev.obj) {
        l->r = bh_err_wrap(l->err, "history of '%.*s'", BH_SF(w->key));
        return 1;
    }
    /* What it replaced is mostly what the event before has shown. */
    before = bh_map_get(&l->last, w->key);
    if (before && w->prev.n > 0)
        ev.prev = bh_obj_ref(before);
    else if (w->prev.n > 0)
        ev.prev = bh_obj_new(res->hub, w->prev, w->prev_rev, NULL);
    if (ev.type == BH_WATCH_DELETED)
        (void)bh_map_del(&l->last, w->key);
    else
        (void)bh_map_put(&l->last, w->key, bh_obj_ref(ev.obj));
    (void)bh_obj_unref(before);
    bh_wc_load_event(res, &ev);
    return 0;
}

static void load_done(struct load *l)
{
    struct bh_str key;
    void *v;

    for (size_t it = 0; bh_map_next(&l->last, &it, &key, &v);)
        (void)bh_obj_unref(v);
    bh_map_done(&l->last);
}

static int load(struct bh_apiserver *srv, struct bh_err *err)
{
    struct load l = {.srv = srv, .err = err};
    uint64_t rev = bh_store_rev(srv->store), floor = bh_store_compacted(srv->store);
    int r = bh_store_load(srv->store, load_each, &l, err);

    if (r < 0 || l.r < 0)
        return r < 0 ? r : l.r;
    if (rev > BH_EVENT_WINDOW && rev - BH_EVENT_WINDOW > floor)
        floor = rev - BH_EVENT_WINDOW;
    bh_wc_loaded(srv->wc, rev, floor);
    r = bh_store_history(srv->store, floor, BH_EVENT_WINDOW, load_event, &l, err);
    load_done(&l);
    if (r < 0 || l.r < 0)
        return r < 0 ? r : l.r;
    if (l.skipped > 0)
        bh_log(BH_WARN, "objects of kinds that are not served stay in the store",
               BH_I64("objects", l.skipped));
    return 0;
}

/* ---- upkeep ---- */

static void upkeep(void *arg)
{
    struct bh_apiserver *srv = arg;
    int64_t now = bh_loop_mono_ns(srv->loop);
    uint64_t rv = bh_wc_rv(srv->wc), to = 0;

    bh_timer_start(&srv->upkeep, UPKEEP_EVERY_MS);
    bh_expire_events(srv);
    if (now - srv->upkeep_at_ns >= COMPACT_EVERY_NS) {
        to = srv->upkeep_rv;
        srv->upkeep_at_ns = now;
        srv->upkeep_rv = rv;
    }
    /* A storm of writes fills a disk in five minutes: then their number counts. */
    if (rv > BH_HISTORY_EVENTS_MAX && rv - BH_HISTORY_EVENTS_MAX > to)
        to = rv - BH_HISTORY_EVENTS_MAX;
    bh_store_compact_later(srv->store, to);
    bh_arena_trim();
}

/* ---- life ---- */

/* A path for the life of the server. */
static const char *kept(struct bh_apiserver *srv, const char *path)
{
    return path ? bh_str_dup(srv->a, bh_s(path)).p : NULL;
}

static int set_up(struct bh_apiserver *srv, const struct bh_apiserver_opts *o, struct bh_err *err)
{
    int r;

    srv->authn = bh_authn_new(o, err);
    if (!srv->authn)
        return -(int)err->code;
    plugins_off(srv, o->disable_admission);
    pairs(&srv->gates, o->feature_gates);
    read_runtime_config(srv, o->runtime_config);
    srv->service_cidr =
        bh_str_dup(srv->a, bh_s(o->service_cidr ? o->service_cidr : "10.96.0.0/16"));
    srv->authorize = o->authorize;
    srv->authorize_arg = o->authorize_arg;
    srv->client_ca_file = kept(srv, o->client_ca_file);
    srv->kubelet_files = (struct bh_kubelet_files){kept(srv, o->kubelet_certificate_authority),
                                                   kept(srv, o->kubelet_client_certificate),
                                                   kept(srv, o->kubelet_client_key)};
    srv->always_allow = o->authorization_mode && strcmp(o->authorization_mode, "AlwaysAllow") == 0;
    if (!srv->authorize) {
        srv->authorize = bh_authz_builtin;
        srv->authorize_arg = srv;
    }
    add_resources(srv);
    srv->namespaces = bh_resource_find(srv, BH_S(""), BH_S("namespaces"));
    r = load(srv, err);
    if (r < 0)
        return r;
    /* Version 1 is that of a store in which nothing was ever written: no list ever gave it out. */
    if (bh_wc_rv(srv->wc) <= 1)
        bh_wc_loaded(srv->wc, bh_wc_rv(srv->wc), 2);
    bh_bootstrap(srv);
    srv->upkeep_at_ns = bh_loop_mono_ns(srv->loop);
    bh_timer_init(&srv->upkeep, srv->loop, upkeep, srv);
    bh_timer_start(&srv->upkeep, UPKEEP_EVERY_MS);
    return 0;
}

int bh_apiserver_new(struct bh_loop *l, struct bh_store *store, const struct bh_apiserver_opts *o,
                     struct bh_apiserver **ret, struct bh_err *err)
{
    static const struct bh_apiserver_opts none;
    struct bh_apiserver *srv = bh_calloc(1, sizeof(*srv));
    struct bh_err local = {0};
    int r;

    srv->loop = l;
    srv->store = store;
    srv->a = bh_arena_new(0);
    srv->wc = bh_wc_new();
    srv->pipe = bh_pipeline_new(l, store, srv->wc);
    srv->metrics = bh_metrics_new();
    srv->frames = bh_calloc(1, sizeof(*srv->frames));
    bh_list_init(&srv->rqs);
    r = set_up(srv, o ? o : &none, err ? err : &local);
    if (r < 0) {
        bh_apiserver_free(srv);
        return r;
    }
    *ret = srv;
    return 0;
}

struct bh_apiserver *bh_apiserver_free(struct bh_apiserver *srv)
{
    if (!srv)
        return NULL;
    srv->freed = true;
    bh_timer_stop(&srv->upkeep);
    srv->front = bh_frontend_free(srv->front);
    srv->pipe = bh_pipeline_free(srv->pipe);
    bh_list_for_safe(it, &srv->rqs)
    {
        struct bh_rq *rq = bh_container(it, struct bh_rq, link);

        rq->canceled = true;
        if (rq->stop)
            rq->stop(rq);
        else
            bh_rq_finish(rq);
    }
    bh_frame_cache_clear(srv->frames);
    bh_free(srv->frames);
    srv->wc = bh_wc_free(srv->wc);
    srv->authn = bh_authn_free(srv->authn);
    srv->kubelet_tls = bh_tls_unref(srv->kubelet_tls);
    srv->metrics = bh_metrics_free(srv->metrics);
    bh_buf_done(&srv->scratch);
    bh_image_done(&srv->image);
    bh_map_done(&srv->resources);
    bh_map_done(&srv->hidden);
    bh_map_done(&srv->gates);
    bh_map_done(&srv->openapi);
    bh_free(srv->slots);
    (void)bh_arena_free(srv->a);
    bh_free(srv);
    return NULL;
}
