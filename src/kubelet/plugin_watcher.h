/* Plugins announce themselves with a unix socket below <root>/plugins_registry; this finds and
 * registers them.
 *
 * inotify tells of new and removed sockets; a rescan each minute and after a lost event finds what
 * was missed. A socket is asked for its identity (GetInfo), the handler of its type decides, and
 * the plugin is told the outcome. Failures are repeated with a growing pause per path: 500 ms,
 * doubled up to 2 min 2 s. A socket file that goes away is a plugin that goes away; one that is
 * replaced is registered anew. Thread: the loop's own.
 */
#ifndef BH_KUBELET_PLUGIN_WATCHER_H
#define BH_KUBELET_PLUGIN_WATCHER_H

#include "base/err.h"
#include "base/str.h"

struct bh_loop;
struct bh_plugin_watcher;

struct bh_plugin_info {
    struct bh_str type;     /* "DRAPlugin" */
    struct bh_str name;     /* driver name */
    struct bh_str endpoint; /* path of the service socket, never empty */
    struct bh_str_vec versions;
    struct bh_str socket; /* the registration socket */
};

struct bh_plugin_handler {
    const char *type; /* a literal */
    /* Checks and takes the plugin. On failure nothing was kept, and err tells the plugin why. info
     * is borrowed. */
    int (*registered)(void *arg, const struct bh_plugin_info *info, struct bh_err *err);
    /* The plugin has gone, or could not be told of its registration. */
    void (*deregistered)(void *arg, const struct bh_plugin_info *info);
    void *arg;
};

/* dir: the registry directory, made when it is missing; copied. NULL on failure (and on a virtual
 * loop). */
struct bh_plugin_watcher *bh_plugin_watcher_new(struct bh_loop *l, const char *dir,
                                                struct bh_err *err);
/* Handlers are not told: their owner goes away at the same time. */
struct bh_plugin_watcher *bh_plugin_watcher_free(struct bh_plugin_watcher *w);
/* At most four types. Plugins of a type nobody handles are refused and tried again
 * later. */
void bh_plugin_watcher_handle(struct bh_plugin_watcher *w, const struct bh_plugin_handler *h);
/* No more calls to this handler. */
void bh_plugin_watcher_unhandle(struct bh_plugin_watcher *w, const char *type);

#endif
