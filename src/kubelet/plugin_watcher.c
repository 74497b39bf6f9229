/* Finding plugins: inotify and rescans give the wanted set, a reconcile each second compares it
 * with what is registered. */
#include "kubelet/plugin_watcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fs.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "net/grpc.h"
#include "net/loop.h"
#include "net/pb.h"
#include "net/pluginregistration.pb-c.h"

#define TYPES_MAX        4
#define SOCKETS_MAX      256 /* plugins of one node; more are ignored and logged */
#define DIRS_MAX         256
#define DEPTH_MAX        8
#define RECONCILE_MS     1000
#define RESCAN_MS        60000
#define DIAL_MS          10000
#define GET_INFO_MS      1000
#define NOTIFY_MS        5000
#define BACKOFF_MIN_MS   500
#define BACKOFF_MAX_MS   122000
#define DECODE_BYTES_MAX (4u << 20)
#define VERSIONS_MAX     16

/* One registration socket. It lives until it is neither wanted nor registered nor under way. */
struct plugin {
    struct bh_link link;
    struct bh_plugin_watcher *w;
    char *path;
    bool wanted;
    uint64_t identity; /* inode and birth time of the socket file */
    bool seen;         /* in the scan that is running */

    bool registered;
    uint64_t registered_identity;
    struct bh_arena *info_arena;
    struct bh_plugin_info info;

    struct bh_grpc_client *client; /* a registration is under way */
    uint64_t attempt_identity;
    bool connected;
    struct bh_err failed; /* what the plugin is told before the attempt ends */
    struct bh_timer dial, over;
    int backoff_ms;
    int64_t not_before_ns;
};

struct watch_dir {
    int wd;
    char *path;
    unsigned depth;
};

struct bh_plugin_watcher {
    struct bh_loop *loop;
    char *dir;
    int fd;
    struct bh_io *io;
    struct watch_dir dirs[DIRS_MAX];
    size_t dirs_n;
    struct bh_link plugins;
    size_t plugins_n;
    struct bh_plugin_handler handlers[TYPES_MAX];
    size_t handlers_n;
    struct bh_timer reconcile, rescan;
};

static const struct bh_plugin_handler *handler_of(const struct bh_plugin_watcher *w,
                                                  struct bh_str type)
{
    for (size_t i = 0; i < w->handlers_n; i++)
        if (bh_str_eqc(type, w->handlers[i].type))
            return &w->handlers[i];
    return NULL;
}

/* ---- one registration ---- */

static void plugin_free_if_over(struct plugin *p)
{
    if (p->wanted || p->registered || p->client)
        return;
    bh_list_del(&p->link);
    p->w->plugins_n--;
    bh_timer_stop(&p->dial);
    bh_timer_stop(&p->over);
    (void)bh_arena_free(p->info_arena);
    bh_free(p->path);
    bh_free(p);
}

static void deregister(struct plugin *p)
{
    const struct bh_plugin_handler *h = handler_of(p->w, p->info.type);

    p->registered = false;
    bh_log(BH_INFO, "plugin deregistered", BH_STR("name", p->info.name),
           BH_STR("type", p->info.type), BH_CSTR("socket", p->path));
    if (h)
        h->deregistered(h->arg, &p->info);
}

/* The end of an attempt comes from a timer, so that the client is not freed inside its own
 * callbacks' callers. */
static void attempt_over(void *arg)
{
    struct plugin *p = arg;

    bh_timer_stop(&p->dial);
    p->client = bh_grpc_client_free(p->client);
    plugin_free_if_over(p);
}

static void attempt_end(struct plugin *p)
{
    bh_timer_start_ns(&p->over, 0);
}

static void attempt_failed(struct plugin *p, const char *what, struct bh_str why)
{
    p->backoff_ms = p->backoff_ms == 0 ? BACKOFF_MIN_MS : p->backoff_ms * 2;
    if (p->backoff_ms > BACKOFF_MAX_MS)
        p->backoff_ms = BACKOFF_MAX_MS;
    p->not_before_ns = bh_loop_mono_ns(p->w->loop) + (int64_t)p->backoff_ms * 1000000;
    bh_log(BH_WARN, "plugin registration failed, it will be tried again",
           BH_CSTR("socket", p->path), BH_CSTR("step", what), BH_STR("why", why),
           BH_I64("after_ms", p->backoff_ms));
    attempt_end(p);
}

static void notified(void *arg, const struct bh_grpc_result *res)
{
    struct plugin *p = arg;

    if (p->failed.code != BH_OK) {
        attempt_failed(p, "handler", bh_s(p->failed.msg));
        return;
    }
    if (res->status != BH_GRPC_OK) { /* a plugin that does not know that it is registered is not */
        if (p->registered)
            deregister(p);
        attempt_failed(p, "NotifyRegistrationStatus", res->message);
        return;
    }
    p->backoff_ms = 0;
    bh_log(BH_INFO, "plugin registered", BH_STR("name", p->info.name), BH_STR("type", p->info.type),
           BH_STR("endpoint", p->info.endpoint));
    attempt_end(p);
}

static void notify(struct plugin *p)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    Bh__Reg__RegistrationStatus st = BH__REG__REGISTRATION_STATUS__INIT;

    st.has_plugin_registered = true;
    st.plugin_registered = p->failed.code == BH_OK;
    st.error = bh_pb_str(a, bh_s(p->failed.msg));
    (void)bh_grpc_unary(p->client, "/pluginregistration.Registration/NotifyRegistrationStatus",
                        bh_pb_pack(a, &st), NOTIFY_MS, notified, p);
}

static void info_take(struct plugin *p, const Bh__Reg__PluginInfo *m)
{
    struct bh_arena *a = bh_arena_new(0);
    size_t n = m->n_supported_versions < VERSIONS_MAX ? m->n_supported_versions : VERSIONS_MAX;

    (void)bh_arena_free(p->info_arena);
    p->info_arena = a;
    p->info.type = bh_str_dup(a, bh_s(m->type));
    p->info.name = bh_str_dup(a, bh_s(m->name));
    p->info.socket = bh_s(p->path);
    p->info.endpoint =
        bh_str_dup(a, m->endpoint && m->endpoint[0] ? bh_s(m->endpoint) : bh_s(p->path));
    p->info.versions.p = bh_new_n(a, struct bh_str, n + 1);
    p->info.versions.n = n;
    for (size_t i = 0; i < n; i++)
        p->info.versions.p[i] = bh_str_dup(a, bh_s(m->supported_versions[i]));
}

static void got_info(void *arg, const struct bh_grpc_result *res)
{
    struct plugin *p = arg;
    BH_AUTO_ARENA a = bh_arena_new(DECODE_BYTES_MAX);
    const struct bh_plugin_handler *h;
    const Bh__Reg__PluginInfo *m = NULL;

    if (res->status == BH_GRPC_OK)
        m = bh_pb_unpack(a, &bh__reg__plugin_info__descriptor, res->body);
    if (!m) {
        attempt_failed(p, "GetInfo",
                       res->status == BH_GRPC_OK ? BH_S("malformed answer") : res->message);
        return;
    }
    info_take(p, m);
    p->failed = (struct bh_err){.code = BH_OK};
    h = handler_of(p->w, p->info.type);
    if (!h)
        (void)bh_err_set(
            &p->failed, BH_E_UNSUPPORTED,
            "RegisterPlugin error -- no handler registered for plugin type: %.*s at socket %s",
            BH_SF(p->info.type), p->path);
    else if (h->registered(h->arg, &p->info, &p->failed) < 0)
        (void)bh_err_wrap(&p->failed,
                          "RegisterPlugin error -- plugin registration failed with err");
    if (p->failed.code == BH_OK) {
        p->registered = true;
        p->registered_identity = p->attempt_identity;
    }
    notify(p);
}

static void dial_state(void *arg, enum bh_grpc_state st, const struct bh_err *why)
{
    struct plugin *p = arg;

    (void)why;
    if (st != BH_GRPC_READY || p->connected)
        return;
    p->connected = true;
    bh_timer_stop(&p->dial);
    (void)bh_grpc_unary(p->client, "/pluginregistration.Registration/GetInfo",
                        (struct bh_str){NULL, 0}, GET_INFO_MS, got_info, p);
}

static void dial_timeout(void *arg)
{
    struct plugin *p = arg;

    attempt_failed(p, "dial", BH_S("nobody answers on the socket"));
}

static void attempt_start(struct plugin *p)
{
    char target[PATH_MAX + 8];
    const struct bh_grpc_client_opts o = {
        .target = target, .connect_timeout_ms = DIAL_MS, .state = dial_state, .arg = p};

    if (bh_path(target, sizeof(target), NULL, "unix:%s", p->path) < 0)
        return;
    p->attempt_identity = p->identity;
    p->connected = false;
    p->client = bh_grpc_client_new(p->w->loop, &o);
    bh_timer_start(&p->dial, DIAL_MS);
}

static void reconcile(void *arg)
{
    struct bh_plugin_watcher *w = arg;
    int64_t now = bh_loop_mono_ns(w->loop);

    bh_list_for_safe(it, &w->plugins)
    {
        struct plugin *p = bh_container(it, struct plugin, link);

        if (p->client)
            continue;
        if (p->registered && (!p->wanted || p->registered_identity != p->identity))
            deregister(p);
        if (p->wanted && !p->registered && now >= p->not_before_ns)
            attempt_start(p);
        plugin_free_if_over(p);
    }
    bh_timer_start(&w->reconcile, RECONCILE_MS);
}

static void reconcile_soon(struct bh_plugin_watcher *w)
{
    bh_timer_start_ns(&w->reconcile, 0);
}

/* ---- finding sockets ---- */

static struct plugin *plugin_get(struct bh_plugin_watcher *w, const char *path, bool make)
{
    struct plugin *p;

    bh_list_for(it, &w->plugins)
    {
        p = bh_container(it, struct plugin, link);
        if (strcmp(p->path, path) == 0)
            return p;
    }
    if (!make)
        return NULL;
    if (w->plugins_n >= SOCKETS_MAX) {
        bh_log(BH_WARN, "too many plugin sockets, ignoring one", BH_CSTR("socket", path));
        return NULL;
    }
    p = bh_calloc(1, sizeof(*p));
    p->w = w;
    p->path = bh_strdup_c(bh_s(path));
    bh_timer_init(&p->dial, w->loop, dial_timeout, p);
    bh_timer_init(&p->over, w->loop, attempt_over, p);
    bh_list_add_tail(&w->plugins, &p->link);
    w->plugins_n++;
    return p;
}

/* A socket that was made anew is another plugin, even under the same inode number: the time of its
 * birth tells. The time of its last change does not, since servers set the mode after they have
 * made the file. */
static uint64_t identity_of(const char *path, const struct stat *st)
{
    struct statx x;

    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &x) < 0 ||
        !(x.stx_mask & STATX_BTIME))
        return (uint64_t)st->st_ino;
    return (uint64_t)st->st_ino ^ (uint64_t)x.stx_btime.tv_sec * 1000000007u ^ x.stx_btime.tv_nsec;
}

static void socket_found(struct bh_plugin_watcher *w, const char *path, const struct stat *st)
{
    struct plugin *p = plugin_get(w, path, true);

    if (!p)
        return;
    p->wanted = true;
    p->seen = true;
    p->identity = identity_of(path, st);
}

static bool dir_watched(const struct bh_plugin_watcher *w, const char *path)
{
    for (size_t i = 0; i < w->dirs_n; i++)
        if (strcmp(w->dirs[i].path, path) == 0)
            return true;
    return false;
}

static void dir_watch(struct bh_plugin_watcher *w, const char *path, unsigned depth)
{
    int wd;

    if (dir_watched(w, path))
        return;
    if (w->dirs_n >= DIRS_MAX) {
        bh_log(BH_WARN, "too many plugin directories, ignoring one", BH_CSTR("dir", path));
        return;
    }
    wd = inotify_add_watch(w->fd, path,
                           IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR);
    if (wd < 0) {
        bh_log(BH_WARN, "cannot watch a plugin directory, continuing", BH_CSTR("dir", path));
        return;
    }
    w->dirs[w->dirs_n++] = (struct watch_dir){wd, bh_strdup_c(bh_s(path)), depth};
}

/* Names that begin with a dot are nobody's business. Walks with an explicit stack: the watched
 * directories themselves. */
static void scan_dir(struct bh_plugin_watcher *w, const char *dir, unsigned depth)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    char path[PATH_MAX];
    struct stat st;

    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' || bh_path(path, sizeof(path), NULL, "%s/%s", dir, e->d_name) < 0 ||
            lstat(path, &st) < 0)
            continue;
        if (S_ISSOCK(st.st_mode))
            socket_found(w, path, &st);
        else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
            dir_watch(w, path, depth + 1);
    }
    if (d)
        (void)closedir(d);
}

static void scan(struct bh_plugin_watcher *w)
{
    bh_list_for(it, &w->plugins) bh_container(it, struct plugin, link)->seen = false;
    dir_watch(w, w->dir, 0);
    for (size_t i = 0; i < w->dirs_n; i++) /* grows while it goes */
        scan_dir(w, w->dirs[i].path, w->dirs[i].depth);
    bh_list_for(it, &w->plugins)
    {
        struct plugin *p = bh_container(it, struct plugin, link);

        p->wanted = p->wanted && p->seen;
    }
    reconcile_soon(w);
}

static void rescan(void *arg)
{
    struct bh_plugin_watcher *w = arg;

    scan(w);
    bh_timer_start(&w->rescan, RESCAN_MS);
}

static void dir_forget(struct bh_plugin_watcher *w, int wd)
{
    for (size_t i = 0; i < w->dirs_n; i++) {
        if (w->dirs[i].wd != wd)
            continue;
        bh_free(w->dirs[i].path);
        w->dirs[i] = w->dirs[--w->dirs_n];
        return;
    }
}

static void event(struct bh_plugin_watcher *w, const struct inotify_event *e)
{
    const struct watch_dir *d = NULL;
    char path[PATH_MAX];
    struct plugin *p;
    struct stat st;

    for (size_t i = 0; i < w->dirs_n && !d; i++)
        if (w->dirs[i].wd == e->wd)
            d = &w->dirs[i];
    if (!d || e->len == 0 || e->name[0] == '.' ||
        bh_path(path, sizeof(path), NULL, "%s/%s", d->path, e->name) < 0)
        return;
    if (e->mask & (IN_DELETE | IN_MOVED_FROM)) {
        p = plugin_get(w, path, false);
        if (p)
            p->wanted = false;
        return;
    }
    if (lstat(path, &st) < 0)
        return; /* gone again */
    if (S_ISSOCK(st.st_mode))
        socket_found(w, path, &st);
}

static void ready(void *arg, unsigned events)
{
    struct bh_plugin_watcher *w = arg;
    _Alignas(struct inotify_event) char buf[8192];
    bool all = false;
    ssize_t n;

    (void)events;
    while ((n = read(w->fd, buf, sizeof(buf))) > 0)
        for (char *p = buf; p < buf + n;) {
            const struct inotify_event *e = (const struct inotify_event *)(void *)p;

            if (e->mask & IN_IGNORED)
                dir_forget(w, e->wd);
            else if ((e->mask & IN_Q_OVERFLOW) || (e->mask & IN_ISDIR))
                all = true; /* lost events, or a tree that may already hold sockets */
            else
                event(w, e);
            p += sizeof(*e) + e->len;
        }
    if (all)
        scan(w);
    else
        reconcile_soon(w);
}

/* ---- life ---- */

struct bh_plugin_watcher *bh_plugin_watcher_new(struct bh_loop *l, const char *dir,
                                                struct bh_err *err)
{
    struct bh_plugin_watcher *w;

    if (bh_fs_mkdir_p(dir, 0755, err) < 0)
        return NULL;
    w = bh_calloc(1, sizeof(*w));
    w->loop = l;
    w->dir = bh_strdup_c(bh_s(dir));
    bh_list_init(&w->plugins);
    bh_timer_init(&w->reconcile, l, reconcile, w);
    bh_timer_init(&w->rescan, l, rescan, w);
    w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->fd < 0) {
        (void)bh_err_sys(err, errno, "inotify");
        return bh_plugin_watcher_free(w);
    }
    w->io = bh_io_new(l, w->fd, ready, w, err);
    if (!w->io)
        return bh_plugin_watcher_free(w);
    bh_io_want(w->io, BH_IO_READ);
    bh_timer_start_ns(&w->rescan, 0); /* handlers are added before the first attempt */
    return w;
}

struct bh_plugin_watcher *bh_plugin_watcher_free(struct bh_plugin_watcher *w)
{
    if (!w)
        return NULL;
    bh_timer_stop(&w->reconcile);
    bh_timer_stop(&w->rescan);
    w->io = bh_io_free(w->io);
    bh_close_p(&w->fd);
    while (!bh_list_empty(&w->plugins)) {
        struct plugin *p = bh_container(w->plugins.next, struct plugin, link);

        p->wanted = p->registered = false;
        p->client = bh_grpc_client_free(p->client);
        plugin_free_if_over(p);
    }
    for (size_t i = 0; i < w->dirs_n; i++)
        bh_free(w->dirs[i].path);
    bh_free(w->dir);
    bh_free(w);
    return NULL;
}

void bh_plugin_watcher_handle(struct bh_plugin_watcher *w, const struct bh_plugin_handler *h)
{
    bh_assert(w->handlers_n < TYPES_MAX);
    w->handlers[w->handlers_n++] = *h;
    reconcile_soon(w);
}

void bh_plugin_watcher_unhandle(struct bh_plugin_watcher *w, const char *type)
{
    for (size_t i = 0; i < w->handlers_n; i++)
        if (strcmp(w->handlers[i].type, type) == 0) {
            w->handlers[i] = w->handlers[--w->handlers_n];
            return;
        }
}
