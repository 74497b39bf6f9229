/* The parts of `bulkhead device`. Private to cli. */
#ifndef BH_CLI_DEVICE_CMD_H
#define BH_CLI_DEVICE_CMD_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;
struct bh_client;
struct bh_client_res;
struct bh_kind;
struct bh_loop;
struct bh_obj;
struct bh_resource_v1_device;
struct bh_resource_v1_resource_slice;

enum device_dry_run { DRY_NONE, DRY_CLIENT, DRY_SERVER };

struct device_opts {
    const char *kubeconfig, *data_dir, *driver, *output;
    const char *ns; /* namespace: never NULL */
    enum device_dry_run dry_run;
    struct bh_str pool;
    int64_t xid;
    const char **args; /* what is neither an option nor its value */
    size_t args_n;
};

/* What the API says about devices. All objects are referenced until device_api_close(). */
struct device_objs {
    struct bh_obj **p;
    size_t n;
};
struct device_api {
    struct bh_arena *a;
    struct bh_loop *loop;
    struct bh_client *client;
    struct device_objs slices, claims, rules;
    struct device_objs pods, nodes, classes; /* only when asked for */
    struct bh_obj *got;                      /* the object that the last call answered, or NULL */
    /* The call that the loop is running for. */
    struct device_objs *list_to;
    struct bh_err err;
    bool done;
};

BH_MUST int device_api_open(struct device_api *api, const struct device_opts *o,
                            struct bh_err *err);
void device_api_close(struct device_api *api);
/* Reads slices, claims and taint rules; rules may be missing when the cluster does not serve them.
 */
BH_MUST int device_api_read(struct device_api *api, struct bh_err *err);
/* Reads all objects of a kind. */
BH_MUST int device_api_list(struct device_api *api, const struct bh_kind *kind,
                            struct device_objs *to, struct bh_err *err);
/* Reads one into api->got; -BH_E_NOT_FOUND. */
BH_MUST int device_api_get(struct device_api *api, const struct bh_kind *kind, struct bh_str ns,
                           struct bh_str name, struct bh_err *err);
void device_api_done(void *arg,
                     const struct bh_client_res *res); /* ends device_api_wait(); arg is the api */
BH_MUST int device_api_wait(struct device_api *api, struct bh_err *err);

/* A device of the newest generation of its pool. */
struct device_ref {
    struct bh_str driver, pool, name;
    const struct bh_resource_v1_device *dev;
};
/* for (size_t s = 0, d = 0; device_next(api, &s, &d, &ref);) */
bool device_next(const struct device_api *api, size_t *slice, size_t *dev, struct device_ref *ret);
/* Finds "gpu-3" or "POOL/gpu-3". -BH_E_NOT_FOUND, and -BH_E_CONFLICT when several nodes have one of
 * that name. */
BH_MUST int device_find(const struct device_api *api, const struct device_opts *o, const char *text,
                        struct device_ref *ret, struct bh_err *err);

/* gpu-2 before gpu-10. */
int device_name_cmp(struct bh_str a, struct bh_str b);

/* Which pods a taint rule (a DeviceTaintRule as it would be stored) sends away and when, on stdout.
 * Reads the pods. */
BH_MUST int device_preview(struct device_api *api, const struct bh_obj *rule, struct bh_err *err);

/* Commands: 0, the exit status 1 when that is the answer, or -code. */
int device_list(const struct device_opts *o, struct bh_err *err);
int device_explain(const struct device_opts *o, struct bh_err *err);
int device_taint(const struct device_opts *o, struct bh_err *err);
int device_untaint(const struct device_opts *o, struct bh_err *err);

#endif
