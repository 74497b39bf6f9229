/* The agent: what starts, in which order, and who hears of what. */
#include "kubelet/kubelet.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/log.h"
#include "kubelet/kubelet_int.h"

#define HOUSEKEEPING_MS 60000
#define ADOPT_RETRY_MS  500
#define POD_UID_MAX     64

/* ---- pods from the API ---- */

static void pod_added(void *arg, struct bh_obj *o)
{
    kl_pod_update(arg, o);
}

static void pod_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    if (!bh_str_eq(old->uid, o->uid)) /* deleted and made again between two looks */
        kl_pod_gone(arg, old->uid);
    kl_pod_update(arg, o);
}

static void pod_deleted(void *arg, struct bh_obj *last)
{
    kl_pod_gone(arg, last->uid);
}

/* The API's view is complete: what the runtime holds beside it belongs to nobody. */
static void pods_synced(void *arg)
{
    struct bh_kubelet *k = arg;
    void *v;

    for (size_t it = 0; bh_map_next(&k->workers, &it, NULL, &v);)
        if (!kl_worker_pod(v))
            bh_log(BH_WARN, "stopping a pod that the API does not know");
    kl_workers_start(k);
    if (k->dra)
        bh_dra_sources_ready(k->dra);
}

static const struct bh_informer_ops pod_ops = {pod_added, pod_updated, pod_deleted, pods_synced};

/* ---- containers from the runtime ---- */

static void runtime_event(void *arg, const struct bh_cri_event *ev)
{
    if (ev->pod_uid.n)
        kl_pod_poke(arg, ev->pod_uid);
}

static void adopt(void *arg);

/* A name that the directory of a pod can have: a uid, as the API makes them or as a static pod has
 * it. */
static bool is_uid(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++) {
        char c = name[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              c == '-'))
            return false;
    }
    return n > 0 && n <= POD_UID_MAX;
}

/* Pods that were deleted without grace while nobody ran here have left the API and may have no
 * sandbox any more, but a directory with volumes: a worker takes it away once the API's list is
 * complete. */
static void adopt_dirs(struct bh_kubelet *k)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    DIR *d = opendir(bh_str_fmt(a, "%s/pods", k->root).p);

    for (struct dirent *e; d && (e = readdir(d));)
        if (is_uid(e->d_name))
            kl_pod_adopt_dir(k, bh_s(e->d_name));
    if (d)
        (void)closedir(d);
}

static void sandboxes_listed(void *arg, const struct bh_err *err,
                             const struct bh_cri_sandbox_vec *v)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_kubelet *k = arg;

    if (err) {
        bh_log(BH_WARN, "runtime not listed, trying again", BH_CSTR("error", err->msg));
        bh_timer_start(&k->housekeeping, ADOPT_RETRY_MS);
        return;
    }
    for (size_t i = 0; i < v->n; i++)
        kl_pod_adopt(k, &v->p[i]);
    adopt_dirs(k);
    k->adopted = true;
    bh_timer_start(&k->housekeeping, HOUSEKEEPING_MS);
    /* Only now are pods taken from the API: each finds what it already has here. New workers begin
     * at once, those of sandboxes without a pod wait until the first list is complete. */
    k->pods =
        bh_informer_new(k->client, &bh_core_v1_pod_kind, (struct bh_str){0}, (struct bh_str){0},
                        bh_str_fmt(a, "spec.nodeName=%s", k->node_name), &pod_ops, k);
}

static void adopt(void *arg)
{
    struct bh_kubelet *k = arg;

    if (k->adopted) { /* housekeeping: look at every pod, in case an event was lost */
        void *v;
        struct bh_str uid;

        for (size_t it = 0; bh_map_next(&k->workers, &it, &uid, &v);)
            kl_pod_poke(k, uid);
        bh_timer_start(&k->housekeeping, HOUSEKEEPING_MS);
        return;
    }
    k->rt->ops->sandbox_list(k->rt, (struct bh_str){0}, sandboxes_listed, k);
}

/* ---- what the parts ask ---- */

static bool pod_active(void *arg, struct bh_str uid)
{
    const struct bh_kubelet *k = arg;

    return bh_map_get(&k->workers, uid) != NULL;
}

static void health_changed(void *arg, struct bh_str uid)
{
    kl_pod_poke(arg, uid);
}

static struct bh_obj *next_pod(void *arg, size_t *it)
{
    const struct bh_kubelet *k = arg;
    void *v;

    while (bh_map_next(&k->workers, it, NULL, &v)) {
        struct bh_obj *o = kl_worker_active_pod(v);

        if (o)
            return o;
    }
    return NULL;
}

/* ---- start ---- */

static char *host_name(void)
{
    char name[256] = "";

    if (gethostname(name, sizeof(name) - 1) < 0 || !name[0])
        return bh_strdup_c(BH_S("node"));
    for (char *c = name; *c; c++) {
        *c = (char)tolower((unsigned char)*c);
        if (!isalnum((unsigned char)*c) && *c != '.')
            *c = '-';
    }
    return bh_strdup_c(bh_s(name));
}

static char *host_ip(void)
{
    char text[INET_ADDRSTRLEN] = "127.0.0.1";
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) == 0) {
        for (struct ifaddrs *i = all; i; i = i->ifa_next) {
            const struct sockaddr_in *sin = (const void *)i->ifa_addr;

            if (!sin || sin->sin_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) ||
                !(i->ifa_flags & IFF_UP))
                continue;
            inet_ntop(AF_INET, &sin->sin_addr, text, sizeof(text));
            break;
        }
        freeifaddrs(all);
    }
    return bh_strdup_c(bh_s(text));
}

static int make_dirs(struct bh_kubelet *k, struct bh_err *err)
{
    char path[4096];
    int r = bh_fs_mkdir_p(k->root, 0750, err);

    if (r >= 0)
        r = bh_path(path, sizeof(path), err, "%s/pods", k->root);
    if (r >= 0)
        r = bh_fs_mkdir_p(path, 0750, err);
    if (r >= 0)
        r = bh_fs_mkdir_p(k->log_dir, 0755, err);
    return r;
}

static int start_parts(struct bh_kubelet *k, const struct bh_kubelet_opts *o, struct bh_err *err)
{
    struct bh_dra_manager_opts dra = {.client = k->client,
                                      .root = k->root,
                                      .node = k->node_name,
                                      .recorder = k->recorder,
                                      .pod_active = pod_active,
                                      .health_changed = health_changed,
                                      .arg = k};
    struct bh_podresources_opts pr = {.root = k->root, .next_pod = next_pod, .arg = k};
    char path[4096];

    if (bh_path(path, sizeof(path), err, "%s/plugins_registry", k->root) < 0)
        return -BH_E_INTERNAL;
    k->plugins = bh_plugin_watcher_new(k->loop, path, err);
    if (!k->plugins)
        return -BH_E_IO;
    dra.watcher = k->plugins;
    k->dra = bh_dra_manager_new(k->loop, &dra, err);
    if (!k->dra)
        return -BH_E_IO;
    pr.dra = k->dra;
    k->podresources = bh_podresources_new(k->loop, &pr, err);
    if (!k->podresources)
        return -BH_E_IO;
    if (o->port) {
        k->server = kubelet_server_new(k, o, err);
        if (!k->server)
            return -BH_E_IO;
    }
    return 0;
}

struct bh_kubelet *bh_kubelet_new(const struct bh_kubelet_opts *o, struct bh_err *err)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_kubelet *k = bh_calloc(1, sizeof(*k));

    k->client = o->client;
    k->loop = bh_client_loop(o->client);
    k->rt = o->runtime;
    k->node_name = o->node_name ? bh_strdup_c(bh_s(o->node_name)) : host_name();
    k->root = bh_strdup_c(bh_s(o->root));
    k->log_dir = bh_strdup_c(o->log_dir ? bh_s(o->log_dir) : bh_str_fmt(a, "%s/logs", o->root));
    k->node_ip = o->node_ip ? bh_strdup_c(bh_s(o->node_ip)) : host_ip();
    k->port = o->port;
    k->ready = o->ready;
    k->ready_arg = o->arg;
    k->recorder = bh_recorder_new(k->client, "kubelet", k->node_name);
    bh_timer_init(&k->housekeeping, k->loop, adopt, k);
    if (make_dirs(k, err) < 0 || start_parts(k, o, err) < 0)
        return bh_kubelet_free(k);
    k->running = true;
    k->rt->ops->set_events(k->rt, runtime_event, k);
    k->node = node_status_new(k);
    bh_timer_start(&k->housekeeping, 0);
    return k;
}

struct bh_kubelet *bh_kubelet_free(struct bh_kubelet *k)
{
    void *v;

    if (!k)
        return NULL;
    if (k->running) /* first: none of its callbacks may come any more */
        k->rt = bh_runtime_free(k->rt);
    bh_timer_stop(&k->housekeeping);
    k->server = kubelet_server_free(k->server);
    k->node = node_status_free(k->node);
    k->pods = bh_informer_free(k->pods);
    k->podresources = bh_podresources_free(k->podresources);
    k->dra = bh_dra_manager_free(k->dra);
    k->plugins = bh_plugin_watcher_free(k->plugins);
    for (size_t it = 0; bh_map_next(&k->workers, &it, NULL, &v);)
        kl_worker_free(v);
    bh_map_done(&k->workers);
    (void)bh_recorder_free(k->recorder);
    bh_free(k->node_name);
    bh_free(k->root);
    bh_free(k->log_dir);
    bh_free(k->node_ip);
    bh_free(k);
    return NULL;
}

const char *bh_kubelet_node(const struct bh_kubelet *k)
{
    return k->node_name;
}
