/* The RuntimeClass plugin: what a pod's class adds to the pod. And the plugins of pod groups: a
 * group stays until its pods are gone, and belongs to a workload that exists. */
#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/node_v1.h"
#include "api/gen/scheduling_v1alpha2.h"
#include "apiserver/server_int.h"
#include "data/quantity.h"

#include <string.h>

#define GROUP_FINALIZER "scheduling.k8s.io/podgroup-protection"

static const void *head_of(struct bh_rq *rq, const char *group, const char *resource,
                           struct bh_str ns, struct bh_str name)
{
    struct bh_resource *res = bh_resource_find(rq->srv, bh_s(group), bh_s(resource));
    struct bh_obj *o =
        res ? bh_pipeline_head(rq->srv->pipe, res->wc, bh_wc_key(res->wc, rq->a, ns, name)) : NULL;

    return o ? bh_obj_struct(o) : NULL;
}

/* ---- runtime classes ---- */

static int find_class(struct bh_rq *rq, const struct bh_core_v1_pod *p,
                      const struct bh_node_v1_runtime_class **ret)
{
    *ret = NULL;
    if (!p->spec.has_runtime_class_name)
        return 0;
    if (p->spec.runtime_class_name.n == 0)
        return bh_fail_plain(rq, "resource name may not be empty");
    *ret = head_of(rq, "node.k8s.io", "runtimeclasses", BH_S(""), p->spec.runtime_class_name);
    if (*ret)
        return 0;
    return bh_fail_forbidden(rq, rq->kind, p->metadata.name,
                             "pod rejected: RuntimeClass \"%.*s\" not found",
                             BH_SF(p->spec.runtime_class_name));
}

/* Quantities are equal by their values: 1 and 1000m are. */
static bool same_resources(const struct bh_str_map *x, const struct bh_str_map *y)
{
    if (x->n != y->n)
        return false;
    for (size_t i = 0; i < x->n; i++) {
        struct bh_quantity a = {0}, b = {0};

        if (!bh_str_eq(x->p[i].key, y->p[i].key))
            return false;
        if (bh_str_eq(x->p[i].value, y->p[i].value))
            continue;
        if (bh_quantity_parse(x->p[i].value, &a, NULL) < 0 ||
            bh_quantity_parse(y->p[i].value, &b, NULL) < 0 || bh_quantity_cmp(a, b) != 0)
            return false;
    }
    return true;
}

static int overhead_differs(struct bh_rq *rq, const struct bh_core_v1_pod *p)
{
    return bh_fail_forbidden(
        rq, rq->kind, p->metadata.name,
        "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
}

static int merge_selector(struct bh_rq *rq, struct bh_core_v1_pod *p, const struct bh_str_map *add)
{
    struct bh_str_map all = {0};

    for (size_t i = 0; i < p->spec.node_selector.n; i++)
        bh_str_map_put(rq->a, &all, p->spec.node_selector.p[i].key,
                       p->spec.node_selector.p[i].value);
    for (size_t i = 0; i < add->n; i++) {
        const struct bh_str *have = bh_str_map_get(&p->spec.node_selector, add->p[i].key);

        if (have && !bh_str_eq(*have, add->p[i].value))
            return bh_fail_forbidden(rq, rq->kind, p->metadata.name,
                                     "conflict: runtimeClass.scheduling.nodeSelector[%.*s] = %.*s; "
                                     "pod.spec.nodeSelector[%.*s] = %.*s",
                                     BH_SF(add->p[i].key), BH_SF(add->p[i].value),
                                     BH_SF(add->p[i].key), BH_SF(*have));
        bh_str_map_put(rq->a, &all, bh_str_dup(rq->a, add->p[i].key),
                       bh_str_dup(rq->a, add->p[i].value));
    }
    p->spec.node_selector = all;
    return 0;
}

/* Whatever t tolerates, wide tolerates as well. */
static bool covers(const struct bh_core_v1_toleration *wide, const struct bh_core_v1_toleration *t)
{
    if (bh_msg_equal(&bh_core_v1_toleration_type, wide, t))
        return true;
    if (!bh_str_eq(t->key, wide->key) &&
        !(wide->key.n == 0 && bh_str_eqc(wide->operator, "Exists")))
        return false;
    if (!bh_str_eq(t->effect, wide->effect) && wide->effect.n)
        return false;
    if (bh_str_eqc(wide->effect, "NoExecute") && wide->has_toleration_seconds &&
        (!t->has_toleration_seconds || t->toleration_seconds > wide->toleration_seconds))
        return false;
    if (bh_str_eqc(wide->operator, "Exists"))
        return true;
    if (wide->operator.n && !bh_str_eqc(wide->operator, "Equal"))
        return false;
    return bh_str_eqc(t->operator, "Equal") && bh_str_eq(t->value, wide->value);
}

/* Of two tolerations of which one covers the other, the wider stays; of equal ones the first. */
static void merge_tolerations(struct bh_rq *rq, struct bh_core_v1_pod *p,
                              const struct bh_core_v1_toleration_vec *add)
{
    size_t n = p->spec.tolerations.n + add->n, kept = 0;
    struct bh_core_v1_toleration *all, *v;

    if (n == 0)
        return;
    all = bh_new_n(rq->a, struct bh_core_v1_toleration, n);
    v = bh_new_n(rq->a, struct bh_core_v1_toleration, n);
    if (p->spec.tolerations.n)
        memcpy(all, p->spec.tolerations.p, p->spec.tolerations.n * sizeof(*all));
    if (add->n)
        memcpy(all + p->spec.tolerations.n, add->p, add->n * sizeof(*all));
    for (size_t i = 0; i < n; i++) {
        bool covered = false;

        for (size_t k = 0; k < kept && !covered; k++)
            covered = covers(&v[k], &all[i]);
        for (size_t k = i + 1; k < n && !covered; k++)
            covered = !bh_msg_equal(&bh_core_v1_toleration_type, &all[i], &all[k]) &&
                      covers(&all[k], &all[i]);
        if (!covered)
            v[kept++] = all[i];
    }
    p->spec.tolerations.p = v;
    p->spec.tolerations.n = kept;
}

int bh_admit_runtime_class(struct bh_rq *rq, struct bh_core_v1_pod *p)
{
    const struct bh_node_v1_runtime_class *c;
    const struct bh_core_v1_toleration_vec none = {0};
    struct bh_node_v1_runtime_class *own;
    int r = find_class(rq, p, &c);

    if (r < 0 || !c)
        return r;
    /* The class may be replaced before the pod is encoded: what is taken from it is copied. */
    own = bh_msg_dup(&bh_node_v1_runtime_class_type, c, rq->a);
    if (own->overhead) {
        if (p->spec.overhead.n && !same_resources(&own->overhead->pod_fixed, &p->spec.overhead))
            return overhead_differs(rq, p);
        p->spec.overhead = own->overhead->pod_fixed;
    }
    if (!own->scheduling)
        return 0;
    r = merge_selector(rq, p, &own->scheduling->node_selector);
    if (r < 0)
        return r;
    merge_tolerations(rq, p,
                      own->scheduling->tolerations.n ? &own->scheduling->tolerations : &none);
    return 0;
}

static int check_runtime_class(struct bh_rq *rq, const struct bh_core_v1_pod *p)
{
    const struct bh_node_v1_runtime_class *c;
    int r = find_class(rq, p, &c);

    if (r < 0)
        return r;
    if (c && c->overhead)
        return same_resources(&c->overhead->pod_fixed, &p->spec.overhead) ? 0
                                                                          : overhead_differs(rq, p);
    if (!p->spec.overhead.p)
        return 0;
    return bh_fail_forbidden(rq, rq->kind, p->metadata.name,
                             "pod rejected: Pod Overhead set without corresponding RuntimeClass "
                             "defined Overhead");
}

/* ---- pod groups ---- */

static void protect_group(struct bh_rq *rq, struct bh_scheduling_v1alpha2_pod_group *g)
{
    size_t n = g->metadata.finalizers.n;
    struct bh_str *v;

    for (size_t i = 0; i < n; i++)
        if (bh_str_eqc(g->metadata.finalizers.p[i], GROUP_FINALIZER))
            return;
    v = bh_new_n(rq->a, struct bh_str, n + 1);
    if (n)
        memcpy(v, g->metadata.finalizers.p, n * sizeof(*v));
    v[n] = BH_S(GROUP_FINALIZER);
    g->metadata.finalizers.p = v;
    g->metadata.finalizers.n = n + 1;
}

static int refuse_group(struct bh_rq *rq, const struct bh_scheduling_v1alpha2_pod_group *g,
                        struct bh_str why)
{
    return bh_fail_forbidden(rq, rq->kind, g->metadata.name, "PodGroup rejected: %.*s", BH_SF(why));
}

static int check_group(struct bh_rq *rq, const struct bh_scheduling_v1alpha2_pod_group *g)
{
    const struct bh_scheduling_v1alpha2_workload_pod_group_template_reference *ref =
        g->spec.pod_group_template_ref ? g->spec.pod_group_template_ref->workload : NULL;
    const struct bh_scheduling_v1alpha2_workload *w;

    if (!ref)
        return 0;
    w = head_of(rq, "scheduling.k8s.io", "workloads", g->metadata.namespace, ref->workload_name);
    if (!w)
        return refuse_group(
            rq, g, bh_str_fmt(rq->a, "Workload \"%.*s\" not found", BH_SF(ref->workload_name)));
    if (!bh_time_is_zero(w->metadata.deletion_timestamp))
        return refuse_group(
            rq, g,
            bh_str_fmt(rq->a, "Workload \"%.*s\" is being deleted", BH_SF(ref->workload_name)));
    for (size_t i = 0; i < w->spec.pod_group_templates.n; i++)
        if (bh_str_eq(w->spec.pod_group_templates.p[i].name, ref->pod_group_template_name))
            return 0;
    return refuse_group(rq, g,
                        bh_str_fmt(rq->a,
                                   "PodGroupTemplate \"%.*s\" not found in Workload \"%.*s\"",
                                   BH_SF(ref->pod_group_template_name), BH_SF(ref->workload_name)));
}

/* ---- for the chain ---- */

void bh_admit_pod_group(struct bh_rq *rq, void *obj)
{
    if (bh_admission_on(rq->srv, BH_PLUGIN_POD_GROUP_PROTECTION))
        protect_group(rq, obj);
}

int bh_admit_check(struct bh_rq *rq, const struct bh_kind *hub, const void *obj)
{
    if (hub == &bh_core_v1_pod_kind && bh_admission_on(rq->srv, BH_PLUGIN_RUNTIME_CLASS))
        return check_runtime_class(rq, obj);
    if (hub == &bh_scheduling_v1alpha2_pod_group_kind &&
        bh_admission_on(rq->srv, BH_PLUGIN_POD_GROUP_WORKLOAD))
        return check_group(rq, obj);
    return 0;
}
