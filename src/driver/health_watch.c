/* Follows the health policy in its ConfigMap. */
#include "driver/health_watch.h"

#include <limits.h>
#include <unistd.h>

#include "api/gen/core_v1.h"
#include "base/arena.h"
#include "base/fs.h"
#include "base/log.h"
#include "client/client.h"

struct bh_health_watch {
    struct bh_informer *inf;
    struct bh_recorder *recorder;
    char path[PATH_MAX]; /* of the last good one */
    struct bh_arena *arena;
    struct bh_health_policy policy;
    bool set; /* there is one */
    void (*changed)(void *arg);
    void *arg;
};

static void take(struct bh_health_watch *w, struct bh_arena *a, const struct bh_health_policy *p,
                 bool set)
{
    (void)bh_arena_free(w->arena);
    w->arena = a;
    w->policy = *p;
    w->set = set;
}

static void refuse(struct bh_health_watch *w, const struct bh_obj *o, const char *why)
{
    bh_log(BH_ERROR, "the health policy cannot be used, the last good one stays",
           BH_STR("configmap", o->name), BH_CSTR("why", why));
    bh_event(w->recorder, o, "Warning", "HealthPolicyInvalid",
             BH_HEALTH_POLICY_KEY ": %s; the last good policy stays", why);
}

static void read_map(struct bh_health_watch *w, const struct bh_obj *o)
{
    const struct bh_core_v1_config_map *m = bh_obj_struct(o);
    const struct bh_str *text = bh_str_map_get(&m->data, BH_S(BH_HEALTH_POLICY_KEY));
    struct bh_arena *a;
    struct bh_health_policy p;
    struct bh_err err = {0};

    if (!text) {
        refuse(w, o, "the key is missing");
        return;
    }
    a = bh_arena_new(0);
    if (bh_health_policy_parse(a, bh_str_dup(a, *text), &p, &err) < 0) {
        refuse(w, o, err.msg);
        (void)bh_arena_free(a);
        return;
    }
    if (bh_fs_write_atomic(w->path, *text, 0644, &err) < 0)
        bh_log(BH_ERROR, "the health policy is not kept for the next start",
               BH_CSTR("why", err.msg));
    take(w, a, &p, true);
    bh_log(BH_INFO, "health policy read", BH_STR("configmap", o->name), BH_I64("rules", p.n));
    w->changed(w->arg);
}

static void added(void *arg, struct bh_obj *o)
{
    read_map(arg, o);
}

static void updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    const struct bh_core_v1_config_map *a = bh_obj_struct(old), *b = bh_obj_struct(o);
    const struct bh_str *x = bh_str_map_get(&a->data, BH_S(BH_HEALTH_POLICY_KEY)),
                        *y = bh_str_map_get(&b->data, BH_S(BH_HEALTH_POLICY_KEY));

    if (!x != !y || (x && !bh_str_eq(*x, *y)))
        read_map(arg, o);
}

static void forget(struct bh_health_watch *w)
{
    static const struct bh_health_policy none;

    if (!w->set)
        return;
    (void)unlink(w->path);
    take(w, NULL, &none, false);
    bh_log(BH_INFO, "no health policy any more: the built-in table decides");
    w->changed(w->arg);
}

static void deleted(void *arg, struct bh_obj *last)
{
    (void)last;
    forget(arg);
}

/* It was deleted while nobody looked. */
static void synced(void *arg)
{
    struct bh_health_watch *w = arg;

    if (bh_informer_count(w->inf) == 0)
        forget(w);
}

struct bh_health_watch *bh_health_watch_new(struct bh_client *c, struct bh_str ns,
                                            struct bh_str name, const char *data_dir,
                                            void (*changed)(void *arg), void *arg)
{
    static const struct bh_informer_ops ops = {added, updated, deleted, synced};
    struct bh_health_watch *w = bh_calloc(1, sizeof(*w));
    struct bh_arena *last = bh_arena_new(0);
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_health_policy p;
    struct bh_err err = {0};

    w->changed = changed;
    w->arg = arg;
    if (bh_path(w->path, sizeof(w->path), &err, "%s/%s", data_dir, BH_HEALTH_POLICY_FILE) == 0 &&
        bh_health_policy_load(last, data_dir, &p, &err) == 0) {
        take(w, last, &p, bh_fs_exists(w->path));
    } else {
        bh_log(BH_ERROR, "the last health policy cannot be read", BH_CSTR("why", err.msg));
        (void)bh_arena_free(last);
    }
    w->recorder = bh_recorder_new(c, "gpu-driver", "");
    w->inf = bh_informer_new(c, &bh_core_v1_config_map_kind, ns, (struct bh_str){NULL, 0},
                             bh_str_fmt(a, "metadata.name=%.*s", BH_SF(name)), &ops, w);
    return w;
}

struct bh_health_watch *bh_health_watch_free(struct bh_health_watch *w)
{
    if (!w)
        return NULL;
    (void)bh_informer_free(w->inf);
    (void)bh_recorder_free(w->recorder);
    (void)bh_arena_free(w->arena);
    bh_free(w);
    return NULL;
}

const struct bh_health_policy *bh_health_watch_policy(const struct bh_health_watch *w)
{
    return &w->policy;
}
