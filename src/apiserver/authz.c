/* The built-in authoriser: what upstream's default roles give to the system's own users, and the
 * node authoriser. */
#include "apiserver/authz_node.h"
#include "apiserver/server_int.h"

#include <stdio.h>
#include <string.h>

enum { GET = 1, LIST = 2, WATCH = 4, CREATE = 8, UPDATE = 16, PATCH = 32, DELETE = 64 };

struct rule {
    unsigned verbs;
    /* Words separated by blanks. Resources with their subresource: "pods/status". */
    const char *groups, *resources;
};

static const struct rule scheduler[] = {
    {CREATE | PATCH | UPDATE, "core events.k8s.io", "events"},
    {CREATE, "coordination.k8s.io", "leases"},
    {GET | UPDATE | PATCH | LIST | WATCH, "coordination.k8s.io", "leases leasecandidates"},
    {GET, "core", "endpoints"},
    {GET | LIST | WATCH, "core", "nodes namespaces"},
    {DELETE | GET | LIST | WATCH, "core", "pods"},
    {CREATE, "core", "bindings pods/binding"},
    {PATCH | UPDATE, "core", "pods/status"},
    {GET | LIST | WATCH, "core", "replicationcontrollers services"},
    {GET | LIST | WATCH, "apps extensions", "replicasets statefulsets"},
    {GET | LIST | WATCH, "policy", "poddisruptionbudgets"},
    {GET | LIST | WATCH | PATCH | UPDATE, "core", "persistentvolumeclaims persistentvolumes"},
    {CREATE, "authentication.k8s.io", "tokenreviews"},
    {CREATE, "authorization.k8s.io", "subjectaccessreviews"},
    {GET | LIST | WATCH, "storage.k8s.io",
     "csinodes csidrivers csistoragecapacities storageclasses volumeattachments"},
    {GET | LIST | WATCH | CREATE | DELETE | PATCH | UPDATE, "resource.k8s.io", "resourceclaims"},
    {PATCH | UPDATE, "resource.k8s.io", "resourceclaims/status resourceclaims/binding"},
    {GET | LIST | WATCH, "resource.k8s.io", "deviceclasses resourceslices devicetaintrules"},
    {GET | LIST | WATCH, "scheduling.k8s.io", "podgroups workloads priorityclasses"},
    {PATCH | UPDATE, "scheduling.k8s.io", "podgroups/status"},
};

static bool has_word(const char *list, struct bh_str word)
{
    while (*list) {
        size_t n = 0;

        while (list[n] && list[n] != ' ')
            n++;
        if (bh_str_eq((struct bh_str){list, n}, word))
            return true;
        list += n + (list[n] == ' ');
    }
    return false;
}

static unsigned verb_of(struct bh_str verb)
{
    static const char *const names[] = {"get",    "list",  "watch", "create",
                                        "update", "patch", "delete"};

    for (size_t i = 0; i < BH_COUNT(names); i++)
        if (bh_str_eqc(verb, names[i]))
            return 1u << i;
    return 0;
}

static bool any_rule(const struct rule *r, size_t n, const struct bh_authz_attrs *at)
{
    char name[256];
    struct bh_str group = at->group.n > 0 ? at->group : BH_S("core"), res = at->resource;
    unsigned verb = verb_of(at->verb);

    if (at->subresource.n > 0) {
        if (res.n + at->subresource.n + 1 > sizeof(name))
            return false;
        memcpy(name, res.p, res.n);
        name[res.n] = '/';
        memcpy(name + res.n + 1, at->subresource.p, at->subresource.n);
        res = (struct bh_str){name, res.n + 1 + at->subresource.n};
    }
    for (size_t i = 0; i < n; i++)
        if ((r[i].verbs & verb) && has_word(r[i].groups, group) && has_word(r[i].resources, res))
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
