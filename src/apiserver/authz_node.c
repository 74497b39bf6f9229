/* The node authoriser. Relationships are looked up in the watch cache when they are asked for: a
 * node's pods are few, and nothing has to be kept in step. */
#include "apiserver/authz_node.h"

#include "api/gen/core_v1.h"
#include "api/gen/storage_v1.h"
#include "data/selector.h"

#include <stdio.h>
#include <string.h>

static bool is(struct bh_str s, const char *word)
{
    return bh_str_eqc(s, word);
}

static bool one_of(struct bh_str s, const char *words)
{
    struct bh_str rest = bh_s(words);

    while (rest.p && rest.n > 0)
        if (bh_str_eq(bh_str_cut(&rest, ' '), s))
            return true;
    return false;
}

static bool say(char *reason, size_t n, const char *text)
{
    (void)snprintf(reason, n, "%s", text);
    return false;
}

static bool unrelated(struct bh_str node, char *reason, size_t n)
{
    (void)snprintf(reason, n, "no relationship found between node '%.*s' and this object",
                   BH_SF(node));
    return false;
}

/* ---- what a pod refers to ---- */

static bool in_env_from(const struct bh_core_v1_container_vec *v, bool secret, struct bh_str name)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_core_v1_container *c = &v->p[i];

        for (size_t e = 0; e < c->env.n; e++) {
            const struct bh_core_v1_env_var_source *s = c->env.p[e].value_from;

            if (s && secret && s->secret_key_ref &&
                bh_str_eq(s->secret_key_ref->local_object_reference.name, name))
                return true;
            if (s && !secret && s->config_map_key_ref &&
                bh_str_eq(s->config_map_key_ref->local_object_reference.name, name))
                return true;
        }
        for (size_t e = 0; e < c->env_from.n; e++) {
            const struct bh_core_v1_env_from_source *s = &c->env_from.p[e];

            if (secret && s->secret_ref &&
                bh_str_eq(s->secret_ref->local_object_reference.name, name))
                return true;
            if (!secret && s->config_map_ref &&
                bh_str_eq(s->config_map_ref->local_object_reference.name, name))
                return true;
        }
    }
    return false;
}

static bool in_projection(const struct bh_core_v1_projected_volume_source *p, bool secret,
                          struct bh_str name)
{
    for (size_t i = 0; p && i < p->sources.n; i++) {
        const struct bh_core_v1_volume_projection *s = &p->sources.p[i];

        if (secret && s->secret && bh_str_eq(s->secret->local_object_reference.name, name))
            return true;
        if (!secret && s->config_map && bh_str_eq(s->config_map->local_object_reference.name, name))
            return true;
    }
    return false;
}

/* Secrets that volumes of the kinds with a server name. */
static bool volume_secret(const struct bh_core_v1_volume_source *v, struct bh_str name)
{
    const struct bh_core_v1_local_object_reference *const refs[] = {
        v->cephfs ? v->cephfs->secret_ref : NULL,
        v->cinder ? v->cinder->secret_ref : NULL,
        v->flex_volume ? v->flex_volume->secret_ref : NULL,
        v->rbd ? v->rbd->secret_ref : NULL,
        v->scale_io ? v->scale_io->secret_ref : NULL,
        v->iscsi ? v->iscsi->secret_ref : NULL,
        v->storageos ? v->storageos->secret_ref : NULL,
        v->csi ? v->csi->node_publish_secret_ref : NULL,
    };

    for (size_t i = 0; i < BH_COUNT(refs); i++)
        if (refs[i] && bh_str_eq(refs[i]->name, name))
            return true;
    return v->azure_file && bh_str_eq(v->azure_file->secret_name, name);
}

static bool pod_uses_config(const struct bh_core_v1_pod *p, bool secret, struct bh_str name)
{
    for (size_t i = 0; secret && i < p->spec.image_pull_secrets.n; i++)
        if (bh_str_eq(p->spec.image_pull_secrets.p[i].name, name))
            return true;
    for (size_t i = 0; i < p->spec.volumes.n; i++) {
        const struct bh_core_v1_volume_source *v = &p->spec.volumes.p[i].volume_source;

        if (secret && v->secret && bh_str_eq(v->secret->secret_name, name))
            return true;
        if (secret && volume_secret(v, name))
            return true;
        if (!secret && v->config_map && bh_str_eq(v->config_map->local_object_reference.name, name))
            return true;
        if (in_projection(v->projected, secret, name))
            return true;
    }
    return in_env_from(&p->spec.containers, secret, name) ||
           in_env_from(&p->spec.init_containers, secret, name);
}

static bool pod_uses_claim(const struct bh_core_v1_pod *p, struct bh_str name)
{
    for (size_t i = 0; i < p->spec.resource_claims.n; i++)
        if (p->spec.resource_claims.p[i].has_resource_claim_name &&
            bh_str_eq(p->spec.resource_claims.p[i].resource_claim_name, name))
            return true;
    for (size_t i = 0; i < p->status.resource_claim_statuses.n; i++)
        if (p->status.resource_claim_statuses.p[i].has_resource_claim_name &&
            bh_str_eq(p->status.resource_claim_statuses.p[i].resource_claim_name, name))
            return true;
    return p->status.extended_resource_claim_status &&
           bh_str_eq(p->status.extended_resource_claim_status->resource_claim_name, name);
}

static bool pod_uses_volume_claim(const struct bh_core_v1_pod *p, struct bh_str name)
{
    for (size_t i = 0; i < p->spec.volumes.n; i++) {
        const struct bh_core_v1_volume *v = &p->spec.volumes.p[i];

        if (v->volume_source.persistent_volume_claim &&
            bh_str_eq(v->volume_source.persistent_volume_claim->claim_name, name))
            return true;
        /* That of an ephemeral volume is called POD-VOLUME. */
        if (v->volume_source.ephemeral && name.n == p->metadata.name.n + 1 + v->name.n &&
            bh_str_starts(name, p->metadata.name) && name.p[p->metadata.name.n] == '-' &&
            bh_str_ends(name, v->name))
            return true;
    }
    return false;
}

static bool pod_uses(const struct bh_core_v1_pod *p, struct bh_str resource, struct bh_str name)
{
    if (is(resource, "secrets") || is(resource, "configmaps"))
        return pod_uses_config(p, is(resource, "secrets"), name);
    if (is(resource, "resourceclaims"))
        return pod_uses_claim(p, name);
    if (is(resource, "persistentvolumeclaims"))
        return pod_uses_volume_claim(p, name);
    if (is(resource, "serviceaccounts"))
        return bh_str_eq(p->spec.service_account_name, name);
    return false;
}

/* Whether a pod of this node, in that namespace, refers to the object. */
static bool related(struct bh_apiserver *srv, struct bh_str node, const struct bh_authz_attrs *at)
{
    struct bh_resource *res = bh_resource_find(srv, BH_S(""), BH_S("pods"));
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_wc_list l;

    if (!res ||
        bh_wc_list(res->wc, a, bh_wc_key(res->wc, a, at->ns, BH_S("")), BH_S(""), 0, &l, NULL) < 0)
        return false;
    for (size_t i = 0; i < l.n; i++)
        if (bh_str_eq(bh_wc_field(l.p[i], BH_S("spec.nodeName"), a), node) &&
            pod_uses(bh_obj_struct(l.p[i]), at->resource, at->name))
            return true;
    return false;
}

/* Whether the volume is given to a claim that a pod of this node uses. */
static bool volume_related(struct bh_apiserver *srv, struct bh_str node,
                           const struct bh_core_v1_persistent_volume *v)
{
    const struct bh_core_v1_object_reference *r = v->spec.claim_ref;
    const struct bh_authz_attrs claim = {.ns = r ? r->namespace : BH_S(""),
                                         .resource = BH_S("persistentvolumeclaims"),
                                         .name = r ? r->name : BH_S("")};

    return r && related(srv, node, &claim);
}

static bool same_secret(struct bh_str ns, struct bh_str name, const struct bh_authz_attrs *at)
{
    return bh_str_eq(ns, at->ns) && bh_str_eq(name, at->name);
}

/* Secrets that an agent needs to mount the volume; not those of whoever attaches it. */
static bool volume_has_secret(const struct bh_core_v1_persistent_volume *v,
                              const struct bh_authz_attrs *at)
{
    const struct bh_core_v1_persistent_volume_source *s = &v->spec.persistent_volume_source;
    struct bh_str claim_ns = v->spec.claim_ref ? v->spec.claim_ref->namespace : BH_S("");
    const struct bh_core_v1_secret_reference *const refs[] = {
        s->cephfs ? s->cephfs->secret_ref : NULL,
        s->cinder ? s->cinder->secret_ref : NULL,
        s->flex_volume ? s->flex_volume->secret_ref : NULL,
        s->rbd ? s->rbd->secret_ref : NULL,
        s->scale_io ? s->scale_io->secret_ref : NULL,
        s->iscsi ? s->iscsi->secret_ref : NULL,
        s->csi ? s->csi->node_publish_secret_ref : NULL,
        s->csi ? s->csi->node_stage_secret_ref : NULL,
        s->csi ? s->csi->node_expand_secret_ref : NULL,
    };

    for (size_t i = 0; i < BH_COUNT(refs); i++)
        if (refs[i] &&
            same_secret(refs[i]->namespace.n ? refs[i]->namespace : claim_ns, refs[i]->name, at))
            return true;
    if (s->storageos && s->storageos->secret_ref &&
        same_secret(s->storageos->secret_ref->namespace, s->storageos->secret_ref->name, at))
        return true;
    return s->azure_file &&
           same_secret(s->azure_file->has_secret_namespace ? s->azure_file->secret_namespace
                                                           : claim_ns,
                       s->azure_file->secret_name, at);
}

/* Whether a volume of a pod of this node needs the secret. */
static bool secret_of_volume(struct bh_apiserver *srv, struct bh_str node,
                             const struct bh_authz_attrs *at)
{
    struct bh_resource *res = bh_resource_find(srv, BH_S(""), BH_S("persistentvolumes"));
    struct bh_keyset_pos pos = {0, 0};
    struct bh_keyset_entry *e;

    while (res && (e = bh_keyset_next(&res->wc->set, &pos))) {
        const struct bh_core_v1_persistent_volume *v =
            bh_obj_struct(((struct bh_wc_entry *)e)->obj);

        if (volume_has_secret(v, at) && volume_related(srv, node, v))
            return true;
    }
    return false;
}

/* ---- by resource ---- */

static bool selects_only(const struct bh_authz_attrs *at, const char *field, struct bh_str node)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_field_selector s = {0};

    if (bh_field_selector_parse(a, at->field_selector, &s, NULL) < 0)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!s.reqs[i].ne && bh_str_eqc(s.reqs[i].field, field) && bh_str_eq(s.reqs[i].value, node))
            return true;
    return false;
}

static bool own_slice(struct bh_apiserver *srv, struct bh_str node, struct bh_str name)
{
    struct bh_resource *res =
        bh_resource_find(srv, BH_S("resource.k8s.io"), BH_S("resourceslices"));
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_obj *o = res ? bh_wc_get(res->wc, bh_wc_key(res->wc, a, BH_S(""), name)) : NULL;

    return o && bh_str_eq(bh_wc_field(o, BH_S("spec.nodeName"), a), node);
}

static bool slices(struct bh_apiserver *srv, struct bh_str node, const struct bh_authz_attrs *at,
                   char *reason, size_t n)
{
    if (at->subresource.n > 0)
        return say(reason, n, "cannot get subresource");
    if (is(at->verb, "create"))
        return true; /* admission checks the node name */
    if (one_of(at->verb, "get update patch delete"))
        return own_slice(srv, node, at->name) || unrelated(node, reason, n);
    if (one_of(at->verb, "list watch deletecollection")) {
        if (selects_only(at, "spec.nodeName", node))
            return true;
        return say(
            reason, n,
            "can only list/watch/deletecollection resourceslices with nodeName field selector");
    }
    return say(reason, n,
               "only the following verbs are allowed: get, create, update, patch, delete, list, "
               "watch, deletecollection");
}

static bool pods(struct bh_apiserver *srv, struct bh_str node, const struct bh_authz_attrs *at,
                 char *reason, size_t n)
{
    struct bh_resource *res = bh_resource_find(srv, BH_S(""), BH_S("pods"));
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_obj *o;

    /* Mirror pods, and what is told of pods: admission checks whose they are. */
    if (at->subresource.n == 0 && one_of(at->verb, "create delete"))
        return true;
    if (is(at->subresource, "status") && one_of(at->verb, "update patch"))
        return true;
    if (one_of(at->verb, "list watch") && at->subresource.n == 0) {
        if (selects_only(at, "spec.nodeName", node))
            return true;
        return say(reason, n, "can only list/watch pods with spec.nodeName field selector");
    }
    o = res && at->name.n > 0 ? bh_wc_get(res->wc, bh_wc_key(res->wc, a, at->ns, at->name)) : NULL;
    if (is(at->subresource, "eviction") && is(at->verb, "create"))
        return true;
    if (!o) /* what does not exist is told by a 404, not hidden: the agent deletes pods that are
               gone already */
        return at->name.n > 0 && is(at->verb, "get") ? true : unrelated(node, reason, n);
    if (!bh_str_eq(bh_wc_field(o, BH_S("spec.nodeName"), a), node))
        return unrelated(node, reason, n);
    if (at->subresource.n == 0)
        return is(at->verb, "get");
    return is(at->subresource, "status") && is(at->verb, "get");
}

static bool nodes(struct bh_str node, const struct bh_authz_attrs *at, char *reason, size_t n)
{
    if (is(at->verb, "create"))
        return true;
    if (one_of(at->verb, "list watch"))
        return selects_only(at, "metadata.name", node) ||
               say(reason, n,
                   "node can only list/watch its own node with metadata.name field selector");
    if (!bh_str_eq(at->name, node))
        return say(reason, n, "can only access node with the same name as the requester");
    return one_of(at->verb, "get update patch") && one_of(at->subresource, "status")
               ? true
               : at->subresource.n == 0 && one_of(at->verb, "get update patch delete");
}

static bool leases(struct bh_str node, const struct bh_authz_attrs *at, char *reason, size_t n)
{
    if (!is(at->ns, "kube-node-lease"))
        return say(reason, n, "can only access leases in the \"kube-node-lease\" system namespace");
    if (!is(at->verb, "create") && !bh_str_eq(at->name, node))
        return say(reason, n,
                   "can only access node lease with the same name as the requesting node");
    if (is(at->verb, "create") && at->name.n > 0 && !bh_str_eq(at->name, node))
        return say(reason, n,
                   "can only access node lease with the same name as the requesting node");
    return one_of(at->verb, "get create update patch delete") ||
           say(reason, n, "can only get, create, update, patch, or delete a node lease");
}

static bool get_only(struct bh_apiserver *srv, struct bh_str node, const struct bh_authz_attrs *at,
                     char *reason, size_t n)
{
    bool watchable = is(at->resource, "secrets") || is(at->resource, "configmaps");

    if (watchable && !one_of(at->verb, "get list watch"))
        return say(reason, n, "can only read resources of this type");
    if (!watchable && !is(at->verb, "get"))
        return say(reason, n, "can only get individual resources of this type");
    if (at->subresource.n > 0)
        return say(reason, n, "cannot get subresource");
    if (at->name.n == 0)
        return say(reason, n,
                   watchable ? "No Object name found"
                             : "can only get individual resources of this type");
    return related(srv, node, at) ||
           (is(at->resource, "secrets") && is(at->verb, "get") &&
            secret_of_volume(srv, node, at)) ||
           unrelated(node, reason, n);
}

/* PersistentVolumes, VolumeAttachments. */
static bool volumes(struct bh_apiserver *srv, struct bh_str node, const struct bh_authz_attrs *at,
                    char *reason, size_t n)
{
    struct bh_resource *res = bh_resource_find(srv, at->group, at->resource);
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_obj *o;

    if (!is(at->verb, "get") || at->name.n == 0)
        return say(reason, n, "can only get individual resources of this type");
    if (at->subresource.n > 0)
        return say(reason, n, "cannot get subresource");
    o = res ? bh_wc_get(res->wc, bh_wc_key(res->wc, a, BH_S(""), at->name)) : NULL;
    if (o && o->kind == &bh_core_v1_persistent_volume_kind
            ? volume_related(srv, node, bh_obj_struct(o))
            : o && bh_str_eq(((const struct bh_storage_v1_volume_attachment *)bh_obj_struct(o))
                                 ->spec.node_name,
                             node))
        return true;
    return unrelated(node, reason, n);
}

bool bh_authz_node(struct bh_apiserver *srv, struct bh_str node, const struct bh_authz_attrs *at,
                   char *reason, size_t reason_n)
{
    if (is(at->group, "resource.k8s.io") && is(at->resource, "resourceslices"))
        return slices(srv, node, at, reason, reason_n);
    if (is(at->group, "resource.k8s.io") && is(at->resource, "resourceclaims"))
        return get_only(srv, node, at, reason, reason_n);
    if (is(at->group, "coordination.k8s.io") && is(at->resource, "leases"))
        return leases(node, at, reason, reason_n);
    if (at->group.n == 0) {
        if (one_of(at->resource, "secrets configmaps persistentvolumeclaims"))
            return get_only(srv, node, at, reason, reason_n);
        if (is(at->resource, "persistentvolumes"))
            return volumes(srv, node, at, reason, reason_n);
        if (is(at->resource, "serviceaccounts") && is(at->subresource, "token"))
            return is(at->verb, "create") &&
                   (related(srv, node, at) || unrelated(node, reason, reason_n));
        if (is(at->resource, "pods"))
            return pods(srv, node, at, reason, reason_n);
        if (is(at->resource, "nodes"))
            return nodes(node, at, reason, reason_n);
        if (is(at->resource, "services"))
            return one_of(at->verb, "get list watch");
        if (is(at->resource, "events"))
            return one_of(at->verb, "create patch update");
    }
    if (is(at->group, "events.k8s.io") && is(at->resource, "events"))
        return one_of(at->verb, "create patch update");
    if (is(at->group, "storage.k8s.io") && is(at->resource, "csinodes"))
        return bh_str_eq(at->name, node) || is(at->verb, "create") ||
               say(reason, reason_n,
                   "can only access CSINode with the same name as the requesting node");
    if (is(at->group, "storage.k8s.io") && is(at->resource, "volumeattachments"))
        return volumes(srv, node, at, reason, reason_n);
    if (is(at->group, "storage.k8s.io") && is(at->resource, "csidrivers"))
        return one_of(at->verb, "get list watch");
    if (is(at->group, "node.k8s.io") && is(at->resource, "runtimeclasses"))
        return one_of(at->verb, "get list watch");
    if (is(at->group, "certificates.k8s.io") && is(at->resource, "certificatesigningrequests"))
        return one_of(at->verb, "create get list watch");
    if (is(at->group, "authentication.k8s.io") && is(at->resource, "tokenreviews"))
        return is(at->verb, "create");
    if (is(at->group, "authorization.k8s.io") &&
        one_of(at->resource, "subjectaccessreviews localsubjectaccessreviews"))
        return is(at->verb, "create");
    return false;
}
