/* The built-in authoriser: what upstream's default roles give to the system's own users, and the
 * node authoriser. */
#include "apiserver/authz_node.h"
#include "apiserver/server_int.h"

#include <stdio.h>
#include <string.h>

/* Words separated by blanks; "*" is any. */
struct rule {
    const char *verbs, *groups, *resources; /* resources with their subresource: "pods/status" */
};

static const struct rule scheduler[] = {
    {"create patch update", "core events.k8s.io", "events"},
    {"create", "coordination.k8s.io", "leases"},
    {"get update patch list watch", "coordination.k8s.io", "leases leasecandidates"},
    {"get", "core", "endpoints"},
    {"get list watch", "core", "nodes namespaces"},
    {"delete get list watch", "core", "pods"},
    {"create", "core", "bindings pods/binding"},
    {"patch update", "core", "pods/status"},
    {"get list watch", "core", "replicationcontrollers services"},
    {"get list watch", "apps extensions", "replicasets statefulsets"},
    {"get list watch", "policy", "poddisruptionbudgets"},
    {"get list watch patch update", "core", "persistentvolumeclaims persistentvolumes"},
    {"create", "authentication.k8s.io", "tokenreviews"},
    {"create", "authorization.k8s.io", "subjectaccessreviews"},
    {"get list watch", "storage.k8s.io",
     "csinodes csidrivers csistoragecapacities storageclasses volumeattachments"},
    {"get list watch create delete patch update", "resource.k8s.io", "resourceclaims"},
    {"patch update", "resource.k8s.io", "resourceclaims/status resourceclaims/binding"},
    {"get list watch", "resource.k8s.io", "deviceclasses resourceslices devicetaintrules"},
    {"get list watch", "scheduling.k8s.io", "podgroups workloads priorityclasses"},
    {"patch update", "scheduling.k8s.io", "podgroups/status"},
};

static bool has_word(const char *list, struct bh_str word)
{
    struct bh_str rest = bh_s(list);

    while (rest.p && rest.n > 0) {
        struct bh_str w = bh_str_cut(&rest, ' ');

        if (bh_str_eq(w, word) || bh_str_eqc(w, "*"))
            return true;
    }
    return false;
}

static bool any_rule(const struct rule *r, size_t n, const struct bh_authz_attrs *at)
{
    char name[256];
    struct bh_str group = at->group.n > 0 ? at->group : BH_S("core"), res = at->resource;

    if (at->subresource.n > 0) {
        if (res.n + at->subresource.n + 1 > sizeof(name))
            return false;
        memcpy(name, res.p, res.n);
        name[res.n] = '/';
        memcpy(name + res.n + 1, at->subresource.p, at->subresource.n);
        res = (struct bh_str){name, res.n + 1 + at->subresource.n};
    }
    for (size_t i = 0; i < n; i++)
        if (has_word(r[i].verbs, at->verb) && has_word(r[i].groups, group) &&
            has_word(r[i].resources, res))
            return true;
    return false;
}

static bool in_group(const struct bh_user *u, const char *group)
{
    for (size_t i = 0; i < u->groups.n; i++)
        if (bh_str_eqc(u->groups.p[i], group))
            return true;
    return false;
}

/* Upstream's system:public-info-viewer (everybody) and system:discovery (everybody who is known).
 */
static bool path_open(const struct bh_authz_attrs *at)
{
    static const char *const everybody[] = {"/healthz", "/livez", "/readyz", "/version",
                                            "/version/"};
    static const char *const known[] = {"/api", "/apis", "/openapi"};

    if (!bh_str_eqc(at->verb, "get"))
        return false;
    for (size_t i = 0; i < BH_COUNT(everybody); i++)
        if (bh_str_eqc(at->path, everybody[i]))
            return true;
    if (!in_group(at->user, "system:authenticated"))
        return false;
    for (size_t i = 0; i < BH_COUNT(known); i++) {
        size_t n = strlen(known[i]);

        if (bh_str_starts(at->path, bh_s(known[i])) && (at->path.n == n || at->path.p[n] == '/'))
            return true;
    }
    return false;
}

/* Reviews of oneself are open to everybody who is known (system:basic-user). */
static bool self_review(const struct bh_authz_attrs *at)
{
    return bh_str_eqc(at->verb, "create") && in_group(at->user, "system:authenticated") &&
           ((bh_str_eqc(at->group, "authorization.k8s.io") &&
             (bh_str_eqc(at->resource, "selfsubjectaccessreviews") ||
              bh_str_eqc(at->resource, "selfsubjectrulesreviews"))) ||
            (bh_str_eqc(at->group, "authentication.k8s.io") &&
             bh_str_eqc(at->resource, "selfsubjectreviews")));
}

/* The controllers of kube-system run under service accounts of their own upstream, and under the
 * manager's identity here: it may what they may. None of them sets the status of devices. */
static bool is_controller(const struct bh_authz_attrs *at)
{
    struct bh_str name = at->user->name;

    return !bh_str_eqc(at->subresource, "driver") &&
           (bh_str_eqc(name, "system:kube-controller-manager") ||
            (bh_str_starts(name, BH_S("system:serviceaccount:kube-system:")) &&
             (bh_str_ends(name, BH_S("-controller")) || bh_str_ends(name, BH_S("-collector")))));
}

/* GPU drivers (a group that `up` gives to its own) read the one ConfigMap that tells them what
 * faults mean; beside that they are nodes. */
static bool health_policy(const struct bh_authz_attrs *at)
{
    return in_group(at->user, "bulkhead:gpu-drivers") && at->group.n == 0 &&
           bh_str_eqc(at->resource, "configmaps") && at->subresource.n == 0 &&
           bh_str_eqc(at->ns, "kube-system") && has_word("get list watch", at->verb) &&
           (bh_str_eqc(at->name, "gpu-health-policy") ||
            bh_str_eqc(at->field_selector, "metadata.name=gpu-health-policy"));
}

bool bh_authz_builtin(void *arg, const struct bh_authz_attrs *at, char *reason, size_t reason_n)
{
    struct bh_apiserver *srv = arg;
    struct bh_str user = at->user->name;

    if (at->resource.n == 0)
        return path_open(at);
    if (self_review(at) || is_controller(at) || health_policy(at))
        return true;
    if (bh_str_eqc(user, "system:kube-scheduler"))
        return any_rule(scheduler, BH_COUNT(scheduler), at);
    if (bh_str_starts(user, BH_S("system:node:")) && in_group(at->user, "system:nodes"))
        return bh_authz_node(srv, bh_str_sub(user, 12, user.n), at, reason, reason_n);
    return false;
}
