/* The admission plugins that are on by default, in upstream's order: NamespaceLifecycle,
 * TaintNodesByCondition, Priority, DefaultTolerationSeconds, RuntimeClass and PodGroupProtection
 * (admission_runtime.c), NodeRestriction, those about storage (admission_storage.c). Rules of a
 * kind itself are not here but in validate/. */
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "api/gen/scheduling_v1.h"
#include "api/gen/scheduling_v1alpha2.h"
#include "apiserver/server_int.h"
#include "apiserver/write.h"

#include <string.h>

#define TAINT_NOT_READY   "node.kubernetes.io/not-ready"
#define TAINT_UNREACHABLE "node.kubernetes.io/unreachable"

static bool immortal(struct bh_str ns)
{
    return bh_str_eqc(ns, "default") || bh_str_eqc(ns, "kube-system") ||
           bh_str_eqc(ns, "kube-public");
}

/* ---- NamespaceLifecycle ---- */

static int namespace_lifecycle(struct bh_rq *rq, const struct bh_kind *hub,
                               const struct bh_meta_v1_object_meta *m)
{
    struct bh_obj *ns;
    const struct bh_core_v1_namespace *n;
    int r;

    if (!hub->namespaced)
        return 0;
    ns = bh_namespace_head(rq->srv, m->namespace);
    if (!ns)
        return bh_fail_not_found(rq, BH_S(""), BH_S("namespaces"), m->namespace);
    n = bh_obj_struct(ns);
    if (!bh_str_eqc(n->status.phase, "Terminating") && !ns->deleting)
        return 0;
    r = bh_fail_forbidden(
        rq, rq->kind, m->name,
        "unable to create new content in namespace %.*s because it is being terminated",
        BH_SF(m->namespace));
    rq->fail.extra_cause.reason = BH_S("NamespaceTerminating");
    rq->fail.extra_cause.message =
        bh_str_fmt(rq->a, "namespace %.*s is being terminated", BH_SF(m->namespace));
    rq->fail.extra_cause.field = BH_S("metadata.namespace");
    return r;
}

/* ---- pods ---- */

static bool tolerates(const struct bh_core_v1_pod *p, const char *key)
{
    for (size_t i = 0; i < p->spec.tolerations.n; i++) {
        const struct bh_core_v1_toleration *t = &p->spec.tolerations.p[i];

        if ((bh_str_eqc(t->key, key) || t->key.n == 0) &&
            (bh_str_eqc(t->effect, "NoExecute") || t->effect.n == 0))
            return true;
    }
    return false;
}

static void add_toleration(struct bh_rq *rq, struct bh_core_v1_pod *p, const char *key)
{
    size_t n = p->spec.tolerations.n;
    struct bh_core_v1_toleration *v = bh_new_n(rq->a, struct bh_core_v1_toleration, n + 1);

    if (n > 0)
        memcpy(v, p->spec.tolerations.p, n * sizeof(*v));
    v[n] = (struct bh_core_v1_toleration){.key = bh_s(key),
                                          .operator= BH_S("Exists"),
                                          .effect = BH_S("NoExecute"),
                                          .toleration_seconds = 300,
                                          .has_toleration_seconds = true};
    p->spec.tolerations.p = v;
    p->spec.tolerations.n = n + 1;
}

static void default_toleration_seconds(struct bh_rq *rq, struct bh_core_v1_pod *p)
{
    bool ready = tolerates(p, TAINT_NOT_READY), reach = tolerates(p, TAINT_UNREACHABLE);

    if (!ready)
        add_toleration(rq, p, TAINT_NOT_READY);
    if (!reach)
        add_toleration(rq, p, TAINT_UNREACHABLE);
}

static int pod_create(struct bh_rq *rq, struct bh_core_v1_pod *p)
{
    int r = 0;

    if (bh_admission_on(rq->srv, BH_PLUGIN_PRIORITY))
        r = bh_admit_priority(rq, p, NULL);
    if (r == 0 && bh_admission_on(rq->srv, BH_PLUGIN_TOLERATION_SECONDS))
        default_toleration_seconds(rq, p);
    if (r == 0 && bh_admission_on(rq->srv, BH_PLUGIN_RUNTIME_CLASS))
        r = bh_admit_runtime_class(rq, p);
    return r;
}

/* ---- nodes ---- */

static void taint_new_node(struct bh_rq *rq, struct bh_core_v1_node *node)
{
    size_t n = node->spec.taints.n;
    struct bh_core_v1_taint *v;

    for (size_t i = 0; i < n; i++)
        if (bh_str_eqc(node->spec.taints.p[i].key, TAINT_NOT_READY) &&
            bh_str_eqc(node->spec.taints.p[i].effect, "NoSchedule"))
            return;
    v = bh_new_n(rq->a, struct bh_core_v1_taint, n + 1);
    if (n > 0)
        memcpy(v, node->spec.taints.p, n * sizeof(*v));
    v[n] = (struct bh_core_v1_taint){.key = BH_S(TAINT_NOT_READY), .effect = BH_S("NoSchedule")};
    node->spec.taints.p = v;
    node->spec.taints.n = n + 1;
}

/* ---- NodeRestriction: a node agent changes only what is its own ---- */

static bool node_name(const struct bh_rq *rq, struct bh_str *ret)
{
    if (!bh_str_starts(rq->user.name, BH_S("system:node:")))
        return false;
    for (size_t i = 0; i < rq->user.groups.n; i++)
        if (bh_str_eqc(rq->user.groups.p[i], "system:nodes")) {
            *ret = bh_str_sub(rq->user.name, 12, rq->user.name.n);
            return true;
        }
    return false;
}

static int restrict_node_object(struct bh_rq *rq, struct bh_str node,
                                const struct bh_core_v1_node *obj,
                                const struct bh_core_v1_node *old)
{
    if (!bh_str_eq(obj->metadata.name, node) && rq->ri.name.n == 0)
        return bh_fail_forbidden(rq, rq->kind, obj->metadata.name,
                                 "node \"%.*s\" is not allowed to modify node \"%.*s\"",
                                 BH_SF(node), BH_SF(obj->metadata.name));
    if (old && !bh_msg_equal(&bh_core_v1_node_spec_type, &obj->spec, &old->spec)) {
        if (obj->spec.taints.n != old->spec.taints.n)
            return bh_fail_forbidden(rq, rq->kind, obj->metadata.name,
                                     "node \"%.*s\" is not allowed to modify taints", BH_SF(node));
    }
    return 0;
}

static int restrict_pod_create(struct bh_rq *rq, struct bh_str node, const struct bh_core_v1_pod *p)
{
    const struct bh_str *mirror =
        bh_str_map_get(&p->metadata.annotations, BH_S("kubernetes.io/config.mirror"));

    if (!mirror)
        return bh_fail_forbidden(
            rq, rq->kind, p->metadata.name,
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"%.*s\" can only "
            "create mirror pods",
            BH_SF(node));
    if (!bh_str_eq(p->spec.node_name, node))
        return bh_fail_forbidden(
            rq, rq->kind, p->metadata.name,
            "node \"%.*s\" can only create pods with spec.nodeName set to itself", BH_SF(node));
    return 0;
}

static bool same_labels(const struct bh_str_map *a, const struct bh_str_map *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct bh_str *v = bh_str_map_get(b, a->p[i].key);

        if (!v || !bh_str_eq(*v, a->p[i].value))
            return false;
    }
    return true;
}

static bool same_claims(const struct bh_core_v1_pod_resource_claim_status_vec *a,
                        const struct bh_core_v1_pod_resource_claim_status_vec *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) /* in any order */
        for (size_t k = 0;; k++) {
            if (k == b->n)
                return false;
            if (bh_msg_equal(&bh_core_v1_pod_resource_claim_status_type, &a->p[i], &b->p[k]))
                break;
        }
    return true;
}

static bool same_extended(const struct bh_core_v1_pod_extended_resource_claim_status *a,
                          const struct bh_core_v1_pod_extended_resource_claim_status *b)
{
    if (!a || !b)
        return a == b;
    return bh_msg_equal(&bh_core_v1_pod_extended_resource_claim_status_type, a, b);
}

static int restrict_pod_status(struct bh_rq *rq, struct bh_str node, const struct bh_core_v1_pod *p,
                               const struct bh_core_v1_pod *old)
{
    const char *what = NULL;

    if (!bh_str_eq(old->spec.node_name, node))
        what = "can only update pod status for pods with spec.nodeName set to itself";
    else if (!same_labels(&p->metadata.labels, &old->metadata.labels))
        what = "cannot update labels through pod status";
    else if (!same_claims(&p->status.resource_claim_statuses, &old->status.resource_claim_statuses))
        what = "cannot update resource claim statues";
    else if (!same_extended(p->status.extended_resource_claim_status,
                            old->status.extended_resource_claim_status))
        what = "cannot update extended resource claim status";
    return what ? bh_fail_forbidden(rq, rq->kind, old->metadata.name, "node \"%.*s\" %s",
                                    BH_SF(node), what)
                : 0;
}

static int node_restriction(struct bh_rq *rq, const struct bh_kind *hub, struct bh_str sub,
                            const void *obj, const void *old)
{
    struct bh_str node;

    if (!node_name(rq, &node))
        return 0;
    if (hub == &bh_resource_v1_resource_slice_kind && !old) {
        const struct bh_resource_v1_resource_slice *s = obj;

        if (!s->spec.has_node_name || !bh_str_eq(s->spec.node_name, node))
            return bh_fail_forbidden(
                rq, rq->kind, s->metadata.name,
                "can only create ResourceSlice with the same NodeName as the requesting node");
    }
    if (hub == &bh_core_v1_pod_kind && !old && sub.n == 0)
        return restrict_pod_create(rq, node, obj);
    if (hub == &bh_core_v1_pod_kind && old && bh_str_eqc(sub, "status"))
        return restrict_pod_status(rq, node, obj, old);
    if (hub == &bh_core_v1_node_kind)
        return restrict_node_object(rq, node, obj, old);
    return 0;
}

/* ---- the chain ---- */

int bh_admit(struct bh_rq *rq, const struct bh_kind *hub, struct bh_str sub, void *obj,
             const void *old)
{
    int r = 0;

    if (!old && bh_admission_on(rq->srv, BH_PLUGIN_NAMESPACE_LIFECYCLE))
        r = namespace_lifecycle(rq, hub, bh_meta_const(hub, obj));
    if (r == 0 && !old && hub == &bh_core_v1_pod_kind)
        r = pod_create(rq, obj);
    if (r == 0 && !old && hub == &bh_scheduling_v1alpha2_pod_group_kind)
        bh_admit_pod_group(rq, obj);
    if (r == 0 && old && sub.n == 0 && hub == &bh_core_v1_pod_kind &&
        bh_admission_on(rq->srv, BH_PLUGIN_TOLERATION_SECONDS))
        default_toleration_seconds(rq, obj);
    if (r == 0 && !old && hub == &bh_core_v1_node_kind &&
        bh_admission_on(rq->srv, BH_PLUGIN_TAINT_NODES))
        taint_new_node(rq, obj);
    if (r == 0 && bh_admission_on(rq->srv, BH_PLUGIN_NODE_RESTRICTION))
        r = node_restriction(rq, hub, sub, obj, old);
    if (r == 0 && !old)
        bh_admit_storage_create(rq, hub, obj);
    return r;
}

/* What looks at the object as it will be stored. */
int bh_admit_validated(struct bh_rq *rq, const struct bh_kind *hub, struct bh_str sub,
                       const void *obj, const void *old)
{
    if (old && sub.n == 0 && hub == &bh_core_v1_persistent_volume_claim_kind &&
        bh_admission_on(rq->srv, BH_PLUGIN_CLAIM_RESIZE))
        return bh_admit_claim_resize(rq, obj, old);
    return 0;
}

int bh_admit_delete(struct bh_rq *rq, const struct bh_obj *obj)
{
    struct bh_str node;

    if (bh_kind_hub(obj->kind) == &bh_core_v1_pod_kind && node_name(rq, &node) &&
        bh_admission_on(rq->srv, BH_PLUGIN_NODE_RESTRICTION) &&
        !bh_str_eq(((const struct bh_core_v1_pod *)bh_obj_struct(obj))->spec.node_name, node))
        return bh_fail_forbidden(
            rq, rq->kind, obj->name,
            "node \"%.*s\" can only delete pods with spec.nodeName set to itself", BH_SF(node));
    if (obj->kind == &bh_core_v1_namespace_kind && immortal(obj->name))
        return bh_fail_forbidden(rq, rq->kind, obj->name, "this namespace may not be deleted");
    if (obj->kind == &bh_scheduling_v1_priority_class_kind &&
        bh_str_starts(obj->name, BH_S("system-")))
        return bh_fail_forbidden(rq, rq->kind, obj->name,
                                 "this is a system priority class and cannot be deleted");
    return 0;
}
