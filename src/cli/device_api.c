/* What `bulkhead device` reads from the API, one call after the other. */
#include <stdlib.h>

#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/fs.h"
#include "cli/cluster.h"
#include "cli/device_cmd.h"
#include "client/client.h"
#include "net/loop.h"

/* The first that is there: what was said, the environment, the cluster of this machine, kubectl's
 * default. */
static const char *kubeconfig_path(struct bh_arena *a, const struct device_opts *o)
{
    const char *env = getenv("KUBECONFIG"), *home = getenv("HOME");
    const char *own = cluster_path(a, cluster_data_dir(a, o->data_dir), "kubeconfig");

    if (o->kubeconfig)
        return o->kubeconfig;
    if (env && env[0])
        return env;
    if (bh_fs_exists(own) || !home)
        return own;
    return bh_str_fmt(a, "%s/.kube/config", home).p;
}

int device_api_open(struct device_api *api, const struct device_opts *o, struct bh_err *err)
{
    const char *path;

    *api = (struct device_api){.a = bh_arena_new(0)};
    path = kubeconfig_path(api->a, o);
    api->loop = bh_loop_new_real(err);
    if (api->loop)
        api->client = bh_client_new_kubeconfig(api->loop, path, "bulkhead-device", err);
    if (api->client)
        return 0;
    device_api_close(api);
    return bh_err_wrap(err, "kubeconfig %s", path);
}

static void objs_drop(struct device_objs *o)
{
    for (size_t i = 0; i < o->n; i++)
        (void)bh_obj_unref(o->p[i]);
    o->n = 0;
}

void device_api_close(struct device_api *api)
{
    struct device_objs *all[] = {&api->slices, &api->claims, &api->rules,
                                 &api->pods,   &api->nodes,  &api->classes};

    for (size_t i = 0; i < BH_COUNT(all); i++)
        objs_drop(all[i]);
    api->got = bh_obj_unref(api->got);
    if (api->client)
        api->client = bh_client_free(api->client);
    if (api->loop)
        api->loop = bh_loop_free(api->loop);
    api->a = bh_arena_free(api->a);
}

void device_api_done(void *arg, const struct bh_client_res *res)
{
    struct device_api *api = arg;

    api->err = res->err;
    api->got = bh_obj_unref(api->got);
    api->got = res->obj ? bh_obj_ref(res->obj) : NULL;
    if (api->list_to && res->items_n > 0) {
        api->list_to->p = bh_new_n(api->a, struct bh_obj *, res->items_n);
        for (size_t i = 0; i < res->items_n; i++)
            api->list_to->p[api->list_to->n++] = bh_obj_ref(res->items[i]);
    }
    api->done = true;
    bh_loop_stop(api->loop);
}

int device_api_wait(struct device_api *api, struct bh_err *err)
{
    while (!api->done)
        bh_loop_run(api->loop);
    api->done = false;
    api->list_to = NULL;
    if (api->err.code == BH_OK)
        return 0;
    return bh_err_set(err, api->err.code, "%s", api->err.msg);
}

int device_api_list(struct device_api *api, const struct bh_kind *kind, struct device_objs *to,
                    struct bh_err *err)
{
    const struct bh_client_req r = {.verb = BH_VERB_LIST, .kind = kind};

    api->list_to = to;
    (void)bh_client_call(api->client, &r, device_api_done, api);
    return device_api_wait(api, err);
}

int device_api_get(struct device_api *api, const struct bh_kind *kind, struct bh_str ns,
                   struct bh_str name, struct bh_err *err)
{
    const struct bh_client_req r = {.verb = BH_VERB_GET, .kind = kind, .ns = ns, .name = name};

    (void)bh_client_call(api->client, &r, device_api_done, api);
    return device_api_wait(api, err);
}

int device_api_read(struct device_api *api, struct bh_err *err)
{
    int r = device_api_list(api, &bh_resource_v1_resource_slice_kind, &api->slices, err);

    if (r == 0)
        r = device_api_list(api, &bh_resource_v1_resource_claim_kind, &api->claims, err);
    if (r < 0)
        return r;
    r = device_api_list(api, &bh_resource_v1beta2_device_taint_rule_kind, &api->rules, err);
    return r == -BH_E_NOT_FOUND ? 0 : r; /* a cluster that does not serve rules has none */
}

static const struct bh_resource_v1_resource_slice *slice_at(const struct device_api *api, size_t i)
{
    return bh_obj_struct(api->slices.p[i]);
}

/* A slice counts when no other of its pool has a higher generation. */
static bool slice_newest(const struct device_api *api, size_t i)
{
    const struct bh_resource_v1_resource_slice *s = slice_at(api, i);

    for (size_t k = 0; k < api->slices.n; k++) {
        const struct bh_resource_v1_resource_slice *t = slice_at(api, k);

        if (bh_str_eq(s->spec.driver, t->spec.driver) &&
            bh_str_eq(s->spec.pool.name, t->spec.pool.name) &&
            t->spec.pool.generation > s->spec.pool.generation)
            return false;
    }
    return true;
}

bool device_next(const struct device_api *api, size_t *slice, size_t *dev, struct device_ref *ret)
{
    for (; *slice < api->slices.n; (*slice)++, *dev = 0) {
        const struct bh_resource_v1_resource_slice *s = slice_at(api, *slice);

        if (*dev >= s->spec.devices.n || (*dev == 0 && !slice_newest(api, *slice)))
            continue;
        *ret = (struct device_ref){s->spec.driver, s->spec.pool.name, s->spec.devices.p[*dev].name,
                                   &s->spec.devices.p[*dev]};
        (*dev)++;
        return true;
    }
    return false;
}

int device_find(const struct device_api *api, const struct device_opts *o, const char *text,
                struct device_ref *ret, struct bh_err *err)
{
    struct bh_str name = bh_s(text), pool = o->pool;
    struct device_ref d;
    size_t hits = 0, at = name.n;

    while (at > 0 && name.p[at - 1] != '/')
        at--;
    if (at > 1) {
        pool = bh_str_sub(name, 0, at - 1);
        name = bh_str_sub(name, at, name.n);
    }
    for (size_t s = 0, k = 0; device_next(api, &s, &k, &d);) {
        if (!bh_str_eq(d.name, name) || (pool.n > 0 && !bh_str_eq(d.pool, pool)) ||
            (o->driver && !bh_str_eqc(d.driver, o->driver)))
            continue;
        if (hits > 0 && bh_str_eq(d.pool, ret->pool))
            return bh_err_set(
                err, BH_E_CONFLICT,
                "drivers %.*s and %.*s both have a device %s: choose one with --driver",
                BH_SF(ret->driver), BH_SF(d.driver), text);
        if (hits++ > 0)
            return bh_err_set(err, BH_E_CONFLICT,
                              "several nodes have a device %s: write %.*s/%.*s, or %.*s/%.*s …",
                              text, BH_SF(ret->pool), BH_SF(name), BH_SF(d.pool), BH_SF(name));
        *ret = d;
    }
    if (hits == 0)
        return bh_err_set(err, BH_E_NOT_FOUND, "no device '%s' (see `bulkhead device list`)", text);
    return 0;
}
