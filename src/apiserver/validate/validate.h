/* Rules of kinds: defaults, preparation and validation that need more than one field, or more than
 * a table says.
 *
 * The registry calls, in this order:
 *
 *     create   decode, bh_rules_default, (generated name), (admission), bh_rules_prepare_create,
 *              bh_rules_validate_create
 *     update   decode, bh_rules_default, (admission), bh_rules_prepare_update,
 * bh_rules_validate_update
 *
 * bh_rules_default works on the version that was sent; all others work on the version that is
 * stored (bh_kind_hub). The object given is the kind's generated struct and is changed in place;
 * new parts are allocated in env->a. Errors come in upstream's order and words. Nothing here does
 * I/O or keeps state; what the outside has to know is asked through the hooks of the environment.
 * Thread: any, one at a time per environment.
 */
#ifndef BH_APISERVER_VALIDATE_VALIDATE_H
#define BH_APISERVER_VALIDATE_VALIDATE_H

#include "api/ferr.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/str.h"

/* A question to the authoriser about the user who writes. */
struct bh_rules_access {
    struct bh_str verb, group, resource, subresource, ns, name;
};

struct bh_rules_env {
    struct bh_arena *a;
    struct bh_time now; /* whole seconds are what defaults use */
    /* NULL: bh_gate_default(). */
    bool (*gate)(void *arg, struct bh_str name);
    /* Labels of a namespace; NULL when it does not exist. A NULL hook: no namespace has labels. */
    const struct bh_str_map *(*ns_labels)(void *arg, struct bh_str ns);
    /* May the user do this? When not, may write a short reason (NUL-terminated). A NULL hook: yes.
     */
    bool (*allowed)(void *arg, const struct bh_rules_access *q, char *reason, size_t reason_n);
    /* Told while an object is prepared, whether or not it is refused later. A NULL hook: nobody. */
    void (*warn)(void *arg, struct bh_str text);
    void *arg;
    bool no_privileged; /* privileged containers are refused (--allow-privileged=false) */
    struct bh_str user_name;
    struct bh_str user_node; /* the one authentication.kubernetes.io/node-name of a service account,
                                or empty */
    struct bh_str
        api_version; /* of the request, e.g. "events.k8s.io/v1": a few rules differ by it */
    struct bh_str
        verb; /* "create", "update" or "patch": the request's, for granular authorisation */
};

/* Feature gates of 1.36 with upstream's defaults; unknown names are off. */
bool bh_gate_default(struct bh_str name);
bool bh_gate_known(struct bh_str name);
bool bh_rules_gate(const struct bh_rules_env *env, const char *name);

/* Static defaults of the schema, then those that depend on other fields. k: the version of obj. */
void bh_rules_default(const struct bh_rules_env *env, const struct bh_kind *k, void *obj);

/* Before validation of a create: clears status, drops fields whose gate is off, sets the first
 * generation. */
void bh_rules_prepare_create(const struct bh_rules_env *env, const struct bh_kind *k, void *obj);
void bh_rules_validate_create(const struct bh_rules_env *env, const struct bh_kind *k,
                              const void *obj, struct bh_field_errs *errs);

/* sub is the subresource that is written ("status", "ephemeralcontainers", …), empty for the object
 * itself. Before validation of an update: keeps what that path may not change, drops gated fields,
 * raises the generation. */
void bh_rules_prepare_update(const struct bh_rules_env *env, const struct bh_kind *k,
                             struct bh_str sub, void *obj, const void *old);
void bh_rules_validate_update(const struct bh_rules_env *env, const struct bh_kind *k,
                              struct bh_str sub, const void *obj, const void *old,
                              struct bh_field_errs *errs);

/* Warning texts of a create (old NULL) or update, appended to *out (in env->a). */
void bh_rules_warnings(const struct bh_rules_env *env, const struct bh_kind *k, struct bh_str sub,
                       const void *obj, const void *old, struct bh_str_vec *out);

/* What may be done without a resourceVersion, and whether PUT makes what is not there. */
bool bh_rules_unconditional_update(const struct bh_kind *k);
bool bh_rules_create_on_update(const struct bh_kind *k);
bool bh_rules_status_owned(const struct bh_kind *k);

/* ---- how a kind plugs in (used by the files of this folder) ---- */

struct bh_rules {
    const char *group, *kind; /* of the stored version; group "" is core */
    /* Functions may be NULL. Each gets the struct of the version it is named for; default_fn is
     * looked up by version. */
    void (*prepare_create)(const struct bh_rules_env *env, void *obj);
    void (*prepare_update)(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                           const void *old);
    void (*validate_create)(const struct bh_rules_env *env, const void *obj,
                            struct bh_field_errs *errs);
    void (*validate_update)(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                            const void *old, struct bh_field_errs *errs);
    void (*warn)(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                 const void *old, struct bh_str_vec *out);
    bool no_unconditional_update; /* PUT needs a resourceVersion */
    bool create_on_update;
    /* Upstream forgets to say that the path of the object leaves the status alone: whoever sends
     * one there owns its fields. */
    bool status_owned;
};

struct bh_default_rule {
    const char *api_version, *kind;
    void (*fn)(const struct bh_rules_env *env, void *obj);
};

const struct bh_rules *
bh_rules_find(const struct bh_kind *k); /* of its hub; NULL: generic rules only */

#endif
